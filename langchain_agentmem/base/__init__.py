"""Values and services without a database: time, ids, namespaces, encoding, files, events, redaction, checks.

The folder imports nothing of this package but `errors`. Each module has one subject, named by its file, so the modules
can be read in any order. `concurrency.py` keeps long work off the event loop and gives each process its own locks.
`events.py` calls hooks, and suppresses their exceptions.
"""
