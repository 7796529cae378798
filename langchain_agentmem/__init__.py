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

from typing import TYPE_CHECKING

from langchain_agentmem.base.lazy_imports import lazily

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory
    from langchain_agentmem.audit.audit_trail import AuditTrail
    from langchain_agentmem.base.events import (
        CompactionEvent,
        MemoryEvent,
        MemoryResetEvent,
    )
    from langchain_agentmem.base.fencing import harmless
    from langchain_agentmem.base.limits import MemoryLimits
    from langchain_agentmem.base.redaction import SecretPattern, patterns_with, redact, redact_value
    from langchain_agentmem.checkpoints.checkpoint_saver import AgentMemorySaver
    from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig
    from langchain_agentmem.compaction.compaction_middleware import CompactionMiddleware as CompactionMiddleware
    from langchain_agentmem.compaction.compaction_node import CompactionNode, CompactionState
    from langchain_agentmem.compaction.managed_conversation import ManagedConversationMemory
    from langchain_agentmem.conversations.conversation_memory import ConversationMemory
    from langchain_agentmem.conversations.session_memory import SessionMemory
    from langchain_agentmem.errors import (
        AgentMemoryError,
        InvalidInput,
        LimitExceeded,
        MessageError,
        MissingExtra,
        StorageError,
    )
    from langchain_agentmem.experiences.experience import Experience, section
    from langchain_agentmem.experiences.experience_library import ExperienceLibrary
    from langchain_agentmem.experiences.experience_middleware import ExperienceMiddleware as ExperienceMiddleware
    from langchain_agentmem.experiences.experience_selector import ExperienceSelector
    from langchain_agentmem.facts.fact import (
        Fact,
        FactsConfig,
    )
    from langchain_agentmem.facts.fact_tools import RememberFacts, fact_tools
    from langchain_agentmem.facts.kg_memory import KGMemory
    from langchain_agentmem.injection.memory_injection import MemoryInjection
    from langchain_agentmem.injection.memory_middleware import MemoryMiddleware as MemoryMiddleware
    from langchain_agentmem.language_models.tokens import Budget, TokenCounter
    from langchain_agentmem.layers.archival_memory import ArchivalMemory
    from langchain_agentmem.layers.compression import Compressor
    from langchain_agentmem.layers.core_memory import CoreMemory
    from langchain_agentmem.layers.layer import LayersConfig
    from langchain_agentmem.layers.layer_tools import layer_tools
    from langchain_agentmem.layers.layered_memory import LayeredMemory
    from langchain_agentmem.layers.recall_memory import RecallMemory
    from langchain_agentmem.layers.resource_memory import ResourceMemory, build_resource_snapshot
    from langchain_agentmem.messages.langchain_messages import from_langchain, to_langchain
    from langchain_agentmem.messages.message import AgentCallMsg, Message, ToolCallMsg
    from langchain_agentmem.messages.role_rounds import (
        Attachment,
        AttachmentType,
        Conversation,
        MessageContent,
        Post,
        Retention,
        Round,
        SharedMemoryEntry,
    )
    from langchain_agentmem.search.memory_search import Recollection
    from langchain_agentmem.stores.agent_store import AgentMemoryStore, AgentMemoryThreadStore
    from langchain_agentmem.stores.byte_store import AgentMemoryByteStore
    from langchain_agentmem.stores.retriever import AgentMemoryRetriever
    from langchain_agentmem.tenants import Tenants
    from langchain_agentmem.upkeep.admin import Admin

__version__ = "0.1.0"

_HOMES = {
    "Admin": "upkeep.admin",
    "AgentCallMsg": "messages.message",
    "AgentMemory": "agent_memory",
    "AgentMemoryByteStore": "stores.byte_store",
    "AgentMemoryError": "errors",
    "AgentMemoryRetriever": "stores.retriever",
    "AgentMemorySaver": "checkpoints.checkpoint_saver",
    "AgentMemoryStore": "stores.agent_store",
    "AgentMemoryThreadStore": "stores.agent_store",
    "ArchivalMemory": "layers.archival_memory",
    "Attachment": "messages.role_rounds",
    "AttachmentType": "messages.role_rounds",
    "AuditTrail": "audit.audit_trail",
    "Budget": "language_models.tokens",
    "CompactionEvent": "base.events",
    "CompactionMiddleware": "compaction.compaction_middleware",
    "CompactionNode": "compaction.compaction_node",
    "CompactionState": "compaction.compaction_node",
    "Compressor": "layers.compression",
    "Conversation": "messages.role_rounds",
    "ConversationMemory": "conversations.conversation_memory",
    "CoreMemory": "layers.core_memory",
    "Experience": "experiences.experience",
    "ExperienceLibrary": "experiences.experience_library",
    "ExperienceMiddleware": "experiences.experience_middleware",
    "ExperienceSelector": "experiences.experience_selector",
    "Fact": "facts.fact",
    "FactsConfig": "facts.fact",
    "InvalidInput": "errors",
    "KGMemory": "facts.kg_memory",
    "LayeredMemory": "layers.layered_memory",
    "LayersConfig": "layers.layer",
    "LimitExceeded": "errors",
    "ManagedConversationMemory": "compaction.managed_conversation",
    "ManagedMemoryConfig": "compaction.compaction_config",
    "MemoryEvent": "base.events",
    "MemoryInjection": "injection.memory_injection",
    "MemoryLimits": "base.limits",
    "MemoryMiddleware": "injection.memory_middleware",
    "MemoryResetEvent": "base.events",
    "Message": "messages.message",
    "MessageContent": "messages.role_rounds",
    "MessageError": "errors",
    "MissingExtra": "errors",
    "Post": "messages.role_rounds",
    "RecallMemory": "layers.recall_memory",
    "Recollection": "search.memory_search",
    "RememberFacts": "facts.fact_tools",
    "ResourceMemory": "layers.resource_memory",
    "Retention": "messages.role_rounds",
    "Round": "messages.role_rounds",
    "SecretPattern": "base.redaction",
    "SessionMemory": "conversations.session_memory",
    "SharedMemoryEntry": "messages.role_rounds",
    "StorageError": "errors",
    "Tenants": "tenants",
    "TokenCounter": "language_models.tokens",
    "ToolCallMsg": "messages.message",
    "build_resource_snapshot": "layers.resource_memory",
    "fact_tools": "facts.fact_tools",
    "from_langchain": "messages.langchain_messages",
    "harmless": "base.fencing",
    "layer_tools": "layers.layer_tools",
    "patterns_with": "base.redaction",
    "redact": "base.redaction",
    "redact_value": "base.redaction",
    "section": "experiences.experience",
    "to_langchain": "messages.langchain_messages",
}

__all__ = [
    "Admin",
    "AgentCallMsg",
    "AgentMemory",
    "AgentMemoryByteStore",
    "AgentMemoryError",
    "AgentMemoryRetriever",
    "AgentMemorySaver",
    "AgentMemoryStore",
    "AgentMemoryThreadStore",
    "ArchivalMemory",
    "Attachment",
    "AttachmentType",
    "AuditTrail",
    "Budget",
    "CompactionEvent",
    "CompactionNode",
    "CompactionState",
    "Compressor",
    "Conversation",
    "ConversationMemory",
    "CoreMemory",
    "Experience",
    "ExperienceLibrary",
    "ExperienceSelector",
    "Fact",
    "FactsConfig",
    "InvalidInput",
    "KGMemory",
    "LayeredMemory",
    "LayersConfig",
    "LimitExceeded",
    "ManagedConversationMemory",
    "ManagedMemoryConfig",
    "MemoryEvent",
    "MemoryInjection",
    "MemoryLimits",
    "MemoryResetEvent",
    "Message",
    "MessageContent",
    "MessageError",
    "MissingExtra",
    "Post",
    "RecallMemory",
    "Recollection",
    "RememberFacts",
    "ResourceMemory",
    "Retention",
    "Round",
    "SecretPattern",
    "SessionMemory",
    "SharedMemoryEntry",
    "StorageError",
    "Tenants",
    "TokenCounter",
    "ToolCallMsg",
    "build_resource_snapshot",
    "fact_tools",
    "from_langchain",
    "harmless",
    "layer_tools",
    "patterns_with",
    "redact",
    "redact_value",
    "section",
    "to_langchain",
]


__getattr__, __dir__ = lazily(__name__, _HOMES)
