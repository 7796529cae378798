"""Memory that follows the thread: what lies on branches, and what a checkpoint shows of it.

Everything that can be rewound is a row of one table, known by its kind and key (`rows.py`): core memory, events,
records, the items of a thread, facts. A row lies on a branch from one position up to another; a fork is a branch that
begins at a position of another (`branches.py`). What a task writes waits in a group until the checkpoint is put to
which the task led (`runs.py`, `sealing.py`).
"""
