"""One database for everything a LangChain or LangGraph agent remembers.

`AgentMemory` opens it and hands out its parts:

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory:
        memory.conversation("monday", namespace=("alice",)).add_user_message("My sister Ana lives in Lisbon.")
        [found] = memory.search("Where does Ana live?", namespace=("alice",), limit=1)
        print(found.text, "|", found.why)

`python -m langchain_agentmem demo` shows an agent that uses it. Chapters, each to be read with `python -m pydoc`:

    langchain_agentmem.agent_memory                 the facade, and what it hands out
    langchain_agentmem.conversations.history        chat histories that can be edited
    langchain_agentmem.conversations.sessions       rounds of posts between roles
    langchain_agentmem.stores.retriever             finding what was said, and why it was found
    langchain_agentmem.stores.checkpoints           the checkpoints of LangGraph's threads
    langchain_agentmem.stores.items                 long-term items, LangGraph's store
    langchain_agentmem.stores.thread_items          the same, rewound with the thread
    langchain_agentmem.stores.blobs                 bytes by key
    langchain_agentmem.compaction                   contexts that fit, and nothing lost
    langchain_agentmem.memory.layers                core, recall and archival memory, with branches
    langchain_agentmem.memory.injection.inject      memory in a prompt
    langchain_agentmem.memory.facts.kg              facts that know when they were true
    langchain_agentmem.memory.experience.library    what to do, and when
    langchain_agentmem.conversations.audit.trail    every prompt and reply
    langchain_agentmem.tracing                      every step, in LangSmith and elsewhere
    langchain_agentmem.care                         backup, verification, erasure, export
    langchain_agentmem.testing                      suites for your own tests
    langchain_agentmem.errors                       what can go wrong

Names are loaded when they are first used, so that importing this package is quick and pulls in nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_agentmem.lazily import lazily

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory
    from langchain_agentmem.compaction.managed import ManagedConversationMemory
    from langchain_agentmem.compaction.node import CompactionNode
    from langchain_agentmem.conversations.audit.trail import AuditTrail
    from langchain_agentmem.conversations.history import ConversationMemory
    from langchain_agentmem.conversations.sessions import SessionMemory
    from langchain_agentmem.errors import (
        AgentMemoryError,
        InvalidInput,
        MessageError,
        MissingExtra,
        StorageError,
    )
    from langchain_agentmem.memory.experience.experience import Experience
    from langchain_agentmem.memory.experience.library import ExperienceLibrary
    from langchain_agentmem.memory.experience.selector import ExperienceSelector
    from langchain_agentmem.memory.facts.kg import KGMemory
    from langchain_agentmem.memory.injection.inject import MemoryInjection
    from langchain_agentmem.memory.layers import LayeredMemory
    from langchain_agentmem.messages import Message
    from langchain_agentmem.model import (
        Attachment,
        AttachmentType,
        Conversation,
        Post,
        Retention,
        Round,
        SharedMemoryEntry,
    )
    from langchain_agentmem.retrieval.search import Recollection
    from langchain_agentmem.stores.blobs import AgentMemoryByteStore
    from langchain_agentmem.stores.checkpoints import AgentMemorySaver
    from langchain_agentmem.stores.items import AgentMemoryStore
    from langchain_agentmem.stores.retriever import AgentMemoryRetriever
    from langchain_agentmem.stores.thread_items import AgentMemoryThreadStore
    from langchain_agentmem.tokens import TokenCounter

__version__ = "0.1.0"

_HOMES = {
    "AgentMemory": "agent_memory",
    "AgentMemoryByteStore": "stores.blobs",
    "AgentMemoryError": "errors",
    "AgentMemoryRetriever": "stores.retriever",
    "AgentMemorySaver": "stores.checkpoints",
    "AgentMemoryStore": "stores.items",
    "AgentMemoryThreadStore": "stores.thread_items",
    "Attachment": "model",
    "AttachmentType": "model",
    "AuditTrail": "conversations.audit.trail",
    "CompactionNode": "compaction.node",
    "Conversation": "model",
    "ConversationMemory": "conversations.history",
    "Experience": "memory.experience.experience",
    "ExperienceLibrary": "memory.experience.library",
    "ExperienceSelector": "memory.experience.selector",
    "InvalidInput": "errors",
    "KGMemory": "memory.facts.kg",
    "LayeredMemory": "memory.layers",
    "ManagedConversationMemory": "compaction.managed",
    "MemoryInjection": "memory.injection.inject",
    "Message": "messages",
    "MessageError": "errors",
    "MissingExtra": "errors",
    "Post": "model",
    "Recollection": "retrieval.search",
    "Retention": "model",
    "Round": "model",
    "SessionMemory": "conversations.sessions",
    "SharedMemoryEntry": "model",
    "StorageError": "errors",
    "TokenCounter": "tokens",
}

__all__ = [
    "AgentMemory",
    "AgentMemoryByteStore",
    "AgentMemoryError",
    "AgentMemoryRetriever",
    "AgentMemorySaver",
    "AgentMemoryStore",
    "AgentMemoryThreadStore",
    "Attachment",
    "AttachmentType",
    "AuditTrail",
    "CompactionNode",
    "Conversation",
    "ConversationMemory",
    "Experience",
    "ExperienceLibrary",
    "ExperienceSelector",
    "InvalidInput",
    "KGMemory",
    "LayeredMemory",
    "ManagedConversationMemory",
    "MemoryInjection",
    "Message",
    "MessageError",
    "MissingExtra",
    "Post",
    "Recollection",
    "Retention",
    "Round",
    "SessionMemory",
    "SharedMemoryEntry",
    "StorageError",
    "TokenCounter",
]


__getattr__, __dir__ = lazily(__name__, _HOMES)
