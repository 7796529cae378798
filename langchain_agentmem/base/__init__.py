"""Values and services that know no database: time, ids, namespaces, encoding, files, events, redaction, checks.

It imports nothing of this package but `errors`. There is no order to read it in: each module is one subject, named by
its file. `concurrency.py` keeps long work off the event loop and gives each process its own locks, and `events.py`
calls hooks without ever disturbing the caller.
"""
