"""One database for everything a LangChain or LangGraph agent remembers.

`AgentMemory` opens the database and returns its parts:

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory:
        memory.conversation("monday", namespace=("alice",)).add_user_message("My sister Ana lives in Lisbon.")
        [hit] = memory.search("Where does Ana live?", namespace=("alice",), limit=1)
        print(hit.text, "|", hit.why)

`python -m langchain_agentmem demo` runs an agent with memory. To read about a module, run `python -m pydoc` with one of
these names:

    langchain_agentmem.agent_memory                        the class `AgentMemory`
    langchain_agentmem.conversations.conversation_memory   chat histories with edits
    langchain_agentmem.conversations.session_memory        rounds of posts between roles
    langchain_agentmem.stores.retriever                    search with explanations, as a LangChain retriever
    langchain_agentmem.checkpoints.checkpoint_saver        the checkpointer for LangGraph
    langchain_agentmem.stores.agent_store                  long-term items for LangGraph, shared or of a thread
    langchain_agentmem.stores.byte_store                   bytes by key
    langchain_agentmem.compaction                          contexts within a budget, without loss of messages
    langchain_agentmem.layers.layered_memory               core, recall and archival memory, with branches
    langchain_agentmem.injection.memory_injection          memory in a prompt
    langchain_agentmem.facts.kg_memory                     facts with the times when they were true
    langchain_agentmem.experiences.experience_library      handcrafted, conditional instructions
    langchain_agentmem.audit.audit_trail                   a record of prompts and replies
    langchain_agentmem.tracing                             memory operations as runs in LangSmith and other tracers
    langchain_agentmem.upkeep.admin                        backups, verification, statistics, pruning
    langchain_agentmem.importers                           imports from other programs
    langchain_agentmem.testing                             a check for tests that providers accept a message list
    langchain_agentmem.tenants                             many tenants in one PostgreSQL database
    langchain_agentmem.errors                              the exceptions

Each name is imported at its first use, so importing this package is fast and loads no other package.
"""

from __future__ import annotations

from langchain_agentmem.base.lazy_imports import lazy_exports, modules_in_stub

__version__ = "0.1.0"

_MODULES = modules_in_stub(__name__)  # the module of each public name, from `__init__.pyi`
_NAMES_OF_EXTRAS = {"CompactionMiddleware", "ExperienceMiddleware", "MemoryMiddleware"}
# Without the names that need an extra, so that `import *` works without extras.
__all__ = [name for name in sorted(_MODULES) if name not in _NAMES_OF_EXTRAS]

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
