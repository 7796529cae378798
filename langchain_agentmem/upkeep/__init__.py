"""Upkeep of a database: statistics, verification, copies, exports, imports, erasure.

This folder reads the data of every feature through the descriptions in `langchain_agentmem.parts` (`storage/part.py`).
It may import all folders, but not the module `agent_memory`. No feature imports this folder.

Begin with `admin.py`, which contains the class of `memory.admin`: listings, statistics and pruning. `maintenance.py`
contains the base class of `AgentMemory` with its exports, imports and erasures. `integrity.py` verifies, diagnoses and
erases. `database_copy.py` exports, imports, copies and restores. `memory_import.py` merges an export into a database.
"""
