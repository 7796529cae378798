"""Studio: a local web application to inspect and correct the memory of an agent.

    agentmem studio agent.db            # on loopback, with a one-time token in the address
    app = memory.studio()               # Studio as an ASGI application, behind your own authentication

Pages are HTML and work without JavaScript. With JavaScript, parts of the pages are updated in place. Begin with
`application.py` (the application, and functions that pages share), then `guard.py` (access control), then `pages.py`,
which ends with the routes of all pages. `templates/` contains the HTML. Pages execute no SQL: they call `AgentMemory`
and other classes. `static/` contains two unmodified libraries with their licences, and the files of Studio itself.
"""
