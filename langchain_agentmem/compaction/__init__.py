"""SHRINKS: a context that has outgrown its budget is made to fit, and loses nothing.

Processors (`tool_truncation`, `tool_offload`, `summarization`, `backward_packing`, `sliding_window`) are functions from
messages to messages. `CompactionNode` is for graphs and chains, `CompactionMiddleware` for LangChain's agents,
`ManagedConversationMemory` for conversations, `ContextCompactor` for rounds. Names are loaded when they are first used;
a star import leaves out the middleware, which needs the extra `[agents]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_agentmem.lazily import lazily

if TYPE_CHECKING:
    from langchain_agentmem.compaction.background import ContextCompactor
    from langchain_agentmem.compaction.condensing import asummarization, summarization
    from langchain_agentmem.compaction.config import (
        ActiveContextPolicyConfig,
        BackwardPackingConfig,
        ManagedMemoryConfig,
        SlidingWindowConfig,
        SummarizationConfig,
        ToolOffloadConfig,
        ToolTruncationConfig,
    )
    from langchain_agentmem.compaction.dropped import amessages_behind, messages_behind
    from langchain_agentmem.compaction.managed import ContextState, ManagedConversationMemory
    from langchain_agentmem.compaction.middleware import CompactionMiddleware as CompactionMiddleware
    from langchain_agentmem.compaction.node import CompactionNode
    from langchain_agentmem.compaction.processors import (
        backward_packing,
        sliding_window,
        tool_offload,
        tool_truncation,
    )
    from langchain_agentmem.compaction.repair import repaired
    from langchain_agentmem.compaction.rounds import CompactedMessage, CompactorConfig
    from langchain_agentmem.compaction.situation import Situation, Size
    from langchain_agentmem.compaction.state import CompactionState
    from langchain_agentmem.compaction.summary import Summary, summary_in

_HOMES = {
    "ActiveContextPolicyConfig": "config",
    "BackwardPackingConfig": "config",
    "CompactedMessage": "rounds",
    "CompactionMiddleware": "middleware",
    "CompactionNode": "node",
    "CompactionState": "state",
    "CompactorConfig": "rounds",
    "ContextCompactor": "background",
    "ContextState": "managed",
    "ManagedConversationMemory": "managed",
    "ManagedMemoryConfig": "config",
    "Situation": "situation",
    "Size": "situation",
    "SlidingWindowConfig": "config",
    "Summary": "summary",
    "SummarizationConfig": "config",
    "ToolOffloadConfig": "config",
    "ToolTruncationConfig": "config",
    "amessages_behind": "dropped",
    "asummarization": "condensing",
    "backward_packing": "processors",
    "messages_behind": "dropped",
    "repaired": "repair",
    "sliding_window": "processors",
    "summarization": "condensing",
    "summary_in": "summary",
    "tool_offload": "processors",
    "tool_truncation": "processors",
}

__all__ = [
    "ActiveContextPolicyConfig",
    "BackwardPackingConfig",
    "CompactedMessage",
    "CompactionNode",
    "CompactionState",
    "CompactorConfig",
    "ContextCompactor",
    "ContextState",
    "ManagedConversationMemory",
    "ManagedMemoryConfig",
    "Situation",
    "Size",
    "SlidingWindowConfig",
    "SummarizationConfig",
    "Summary",
    "ToolOffloadConfig",
    "ToolTruncationConfig",
    "amessages_behind",
    "asummarization",
    "backward_packing",
    "messages_behind",
    "repaired",
    "sliding_window",
    "summarization",
    "summary_in",
    "tool_offload",
    "tool_truncation",
]


__getattr__, __dir__ = lazily(__name__, _HOMES)
