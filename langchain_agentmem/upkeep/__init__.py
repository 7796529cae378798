"""Upkeep of a database: statistics, verification, backups, copies, export and import, erasure, pruning.

It serves every feature and knows hardly any by name: it loops over the parts that `langchain_agentmem.parts` lists, see
`storage/part.py`. It may import all folders below the facade, but no feature imports it.

Begin with `admin.py`, which is `memory.admin`, and `maintenance.py`, the methods of `AgentMemory` itself.
`integrity.py` verifies and erases, `export.py` writes and reads JSON lines, `database_copy.py` copies, restores and
prunes, and `database_report.py` counts, lists and diagnoses.
"""
