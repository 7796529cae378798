"""Studio: a local web application that shows what an agent remembers, and why, and lets a person correct it.

    agentmem studio agent.db            # on loopback, with a one-time token in the address
    app = memory.studio()               # the same as an ASGI application, behind your own authentication

Pages are HTML that reads without JavaScript; with it, parts of them are exchanged in place. Begin with `application.py`
(what the application is made of, and what its pages share), then `guard.py` (who may ask), then `pages.py`, which ends
with the routes of all pages; `templates/` has what they look like. Pages go by the public methods of `AgentMemory`
alone. `static/` holds two libraries as their authors publish them, with their licences.
"""
