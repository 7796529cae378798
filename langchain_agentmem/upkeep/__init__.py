"""Upkeep of a database: statistics, verification, backups, copies, export and import, erasure, pruning.

It serves every feature and knows hardly any by name: it loops over the parts that `langchain_agentmem.parts` lists, see
`storage/part.py`. It may import all folders below the facade, but no feature imports it.

Begin with `admin.py`, which is `memory.admin`: it lists, counts and prunes. `maintenance.py` has the methods of
`AgentMemory` itself. `integrity.py` verifies, diagnoses and erases, `database_copy.py` exports, imports, copies and
restores, and `memory_import.py` merges an export into a database.
"""
