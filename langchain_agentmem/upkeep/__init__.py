"""Upkeep of a database: statistics, verification, copies, exports, imports, erasure.

It serves every feature through the parts in `langchain_agentmem.parts`, see `storage/part.py`. It may import all
folders below the facade, but no feature imports it.

Begin with `admin.py`, the class of `memory.admin`: listings, statistics and pruning. `maintenance.py` has the methods
of `AgentMemory` itself. `integrity.py` verifies, diagnoses and erases. `database_copy.py` exports, imports, copies and
restores. `memory_import.py` merges an export into a database.
"""
