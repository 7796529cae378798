"""One database for everything a LangChain or LangGraph agent remembers.

`AgentMemory` opens it and hands out its parts:

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory:
        memory.conversation("monday", namespace=("alice",)).add_user_message("My sister Ana lives in Lisbon.")
        [found] = memory.search("Where does Ana live?", namespace=("alice",), limit=1)
        print(found.text, "|", found.why)

`python -m langchain_agentmem demo` shows an agent that uses it. Chapters, each to be read with `python -m pydoc`:

    langchain_agentmem.agent_memory                 the facade, and what it hands out
    langchain_agentmem.conversations.conversation_memory        chat histories that can be edited
    langchain_agentmem.conversations.session_memory       rounds of posts between roles
    langchain_agentmem.stores.retriever             finding what was said, and why it was found
    langchain_agentmem.checkpoints.checkpoint_saver           the checkpoints of LangGraph's threads
    langchain_agentmem.stores.agent_store                 long-term items, LangGraph's store
    langchain_agentmem.stores.agent_store          the same, rewound with the thread
    langchain_agentmem.stores.byte_store                 bytes by key
    langchain_agentmem.compaction                   contexts that fit, and nothing lost
    langchain_agentmem.layers.layered_memory                core, recall and archival memory, with branches
    langchain_agentmem.injection.memory_injection      memory in a prompt
    langchain_agentmem.facts.kg_memory              facts that know when they were true
    langchain_agentmem.experiences.experience_library    what to do, and when
    langchain_agentmem.audit.audit_trail    every prompt and reply
    langchain_agentmem.tracing                      every step, in LangSmith and elsewhere
    langchain_agentmem.upkeep.admin                 backup, verification, statistics, pruning
    langchain_agentmem.importers                    moving in from other programs
    langchain_agentmem.testing                      a check for your tests: would providers take these messages?
    langchain_agentmem.tenants                      many tenants in one PostgreSQL database
    langchain_agentmem.errors                       what can go wrong

Names are loaded when they are first used, so that importing this package is quick and pulls in nothing.
"""

from __future__ import annotations

from langchain_agentmem.base.lazy_imports import lazy_exports, modules_in_stub

__version__ = "0.1.0"

_MODULES = modules_in_stub(__name__)
_NEED_AN_EXTRA = {"CompactionMiddleware", "ExperienceMiddleware", "MemoryMiddleware"}
__all__ = [name for name in sorted(_MODULES) if name not in _NEED_AN_EXTRA]

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
