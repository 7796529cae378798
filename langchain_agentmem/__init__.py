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
    from langchain_agentmem.agent_memory import AgentMemory as AgentMemory
    from langchain_agentmem.audit.audit_trail import AuditTrail as AuditTrail
    from langchain_agentmem.base.events import CompactionEvent as CompactionEvent
    from langchain_agentmem.base.events import MemoryEvent as MemoryEvent
    from langchain_agentmem.base.events import MemoryResetEvent as MemoryResetEvent
    from langchain_agentmem.base.fencing import harmless as harmless
    from langchain_agentmem.base.limits import MemoryLimits as MemoryLimits
    from langchain_agentmem.base.redaction import SecretPattern as SecretPattern
    from langchain_agentmem.base.redaction import patterns_with as patterns_with
    from langchain_agentmem.base.redaction import redact as redact
    from langchain_agentmem.base.redaction import redact_value as redact_value
    from langchain_agentmem.checkpoints.checkpoint_saver import AgentMemorySaver as AgentMemorySaver
    from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig as ManagedMemoryConfig
    from langchain_agentmem.compaction.compaction_middleware import CompactionMiddleware as CompactionMiddleware
    from langchain_agentmem.compaction.compaction_node import CompactionNode as CompactionNode
    from langchain_agentmem.compaction.compaction_node import CompactionState as CompactionState
    from langchain_agentmem.compaction.managed_conversation import (
        ManagedConversationMemory as ManagedConversationMemory,
    )
    from langchain_agentmem.conversations.conversation_memory import ConversationMemory as ConversationMemory
    from langchain_agentmem.conversations.session_memory import SessionMemory as SessionMemory
    from langchain_agentmem.errors import AgentMemoryError as AgentMemoryError
    from langchain_agentmem.errors import InvalidInput as InvalidInput
    from langchain_agentmem.errors import LimitExceeded as LimitExceeded
    from langchain_agentmem.errors import MessageError as MessageError
    from langchain_agentmem.errors import MissingExtra as MissingExtra
    from langchain_agentmem.errors import StorageError as StorageError
    from langchain_agentmem.experiences.experience import Experience as Experience
    from langchain_agentmem.experiences.experience import section as section
    from langchain_agentmem.experiences.experience_library import ExperienceLibrary as ExperienceLibrary
    from langchain_agentmem.experiences.experience_middleware import ExperienceMiddleware as ExperienceMiddleware
    from langchain_agentmem.experiences.experience_selector import ExperienceSelector as ExperienceSelector
    from langchain_agentmem.facts.fact import Fact as Fact
    from langchain_agentmem.facts.fact import FactsConfig as FactsConfig
    from langchain_agentmem.facts.fact_tools import RememberFacts as RememberFacts
    from langchain_agentmem.facts.fact_tools import fact_tools as fact_tools
    from langchain_agentmem.facts.kg_memory import KGMemory as KGMemory
    from langchain_agentmem.injection.memory_injection import MemoryInjection as MemoryInjection
    from langchain_agentmem.injection.memory_middleware import MemoryMiddleware as MemoryMiddleware
    from langchain_agentmem.language_models.tokens import Budget as Budget
    from langchain_agentmem.language_models.tokens import TokenCounter as TokenCounter
    from langchain_agentmem.layers.archival_memory import ArchivalMemory as ArchivalMemory
    from langchain_agentmem.layers.compression import Compressor as Compressor
    from langchain_agentmem.layers.core_memory import CoreMemory as CoreMemory
    from langchain_agentmem.layers.layer import LayersConfig as LayersConfig
    from langchain_agentmem.layers.layer_tools import layer_tools as layer_tools
    from langchain_agentmem.layers.layered_memory import LayeredMemory as LayeredMemory
    from langchain_agentmem.layers.recall_memory import RecallMemory as RecallMemory
    from langchain_agentmem.layers.resource_memory import ResourceMemory as ResourceMemory
    from langchain_agentmem.layers.resource_memory import build_resource_snapshot as build_resource_snapshot
    from langchain_agentmem.messages.langchain_messages import from_langchain as from_langchain
    from langchain_agentmem.messages.langchain_messages import to_langchain as to_langchain
    from langchain_agentmem.messages.message import AgentCallMsg as AgentCallMsg
    from langchain_agentmem.messages.message import Message as Message
    from langchain_agentmem.messages.message import ToolCallMsg as ToolCallMsg
    from langchain_agentmem.messages.role_rounds import Attachment as Attachment
    from langchain_agentmem.messages.role_rounds import AttachmentType as AttachmentType
    from langchain_agentmem.messages.role_rounds import Conversation as Conversation
    from langchain_agentmem.messages.role_rounds import MessageContent as MessageContent
    from langchain_agentmem.messages.role_rounds import Post as Post
    from langchain_agentmem.messages.role_rounds import Retention as Retention
    from langchain_agentmem.messages.role_rounds import Round as Round
    from langchain_agentmem.messages.role_rounds import SharedMemoryEntry as SharedMemoryEntry
    from langchain_agentmem.search.memory_search import Recollection as Recollection
    from langchain_agentmem.stores.agent_store import AgentMemoryStore as AgentMemoryStore
    from langchain_agentmem.stores.agent_store import AgentMemoryThreadStore as AgentMemoryThreadStore
    from langchain_agentmem.stores.byte_store import AgentMemoryByteStore as AgentMemoryByteStore
    from langchain_agentmem.stores.retriever import AgentMemoryRetriever as AgentMemoryRetriever
    from langchain_agentmem.tenants import Tenants as Tenants
    from langchain_agentmem.upkeep.admin import Admin as Admin

__version__ = "0.1.0"

_MODULES = {
    "agent_memory": "AgentMemory",
    "audit.audit_trail": "AuditTrail",
    "base.events": "CompactionEvent MemoryEvent MemoryResetEvent",
    "base.fencing": "harmless",
    "base.limits": "MemoryLimits",
    "base.redaction": "SecretPattern patterns_with redact redact_value",
    "checkpoints.checkpoint_saver": "AgentMemorySaver",
    "compaction.compaction_config": "ManagedMemoryConfig",
    "compaction.compaction_middleware": "CompactionMiddleware",
    "compaction.compaction_node": "CompactionNode CompactionState",
    "compaction.managed_conversation": "ManagedConversationMemory",
    "conversations.conversation_memory": "ConversationMemory",
    "conversations.session_memory": "SessionMemory",
    "errors": "AgentMemoryError InvalidInput LimitExceeded MessageError MissingExtra StorageError",
    "experiences.experience": "Experience section",
    "experiences.experience_library": "ExperienceLibrary",
    "experiences.experience_middleware": "ExperienceMiddleware",
    "experiences.experience_selector": "ExperienceSelector",
    "facts.fact": "Fact FactsConfig",
    "facts.fact_tools": "RememberFacts fact_tools",
    "facts.kg_memory": "KGMemory",
    "injection.memory_injection": "MemoryInjection",
    "injection.memory_middleware": "MemoryMiddleware",
    "language_models.tokens": "Budget TokenCounter",
    "layers.archival_memory": "ArchivalMemory",
    "layers.compression": "Compressor",
    "layers.core_memory": "CoreMemory",
    "layers.layer": "LayersConfig",
    "layers.layer_tools": "layer_tools",
    "layers.layered_memory": "LayeredMemory",
    "layers.recall_memory": "RecallMemory",
    "layers.resource_memory": "ResourceMemory build_resource_snapshot",
    "messages.langchain_messages": "from_langchain to_langchain",
    "messages.message": "AgentCallMsg Message ToolCallMsg",
    "messages.role_rounds": "Attachment AttachmentType Conversation MessageContent Post Retention Round "
    "SharedMemoryEntry",
    "search.memory_search": "Recollection",
    "stores.agent_store": "AgentMemoryStore AgentMemoryThreadStore",
    "stores.byte_store": "AgentMemoryByteStore",
    "stores.retriever": "AgentMemoryRetriever",
    "tenants": "Tenants",
    "upkeep.admin": "Admin",
}
"""The public names, by the modules where they live."""
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
_NEED_AN_EXTRA = {"CompactionMiddleware", "ExperienceMiddleware", "MemoryMiddleware"}
__all__ = [name for name in sorted(_HOMES) if name not in _NEED_AN_EXTRA]

__getattr__, __dir__ = lazily(__name__, _HOMES)
