"""Context compaction: keep a model's context within a token budget without losing history.

Processors (`tool_truncation`, `tool_offload`, `summarization`, `backward_packing`, `sliding_window`) are functions from
messages to messages. `CompactionNode` is for graphs and chains, `CompactionMiddleware` for LangChain's agents,
`ManagedConversationMemory` for conversations, `ContextCompactor` for rounds. Names are loaded when they are first used;
a star import leaves out the middleware, which needs the extra `[agents]`.

In a graph the history stays as it is, and the context stands under `llm_input_messages`: system messages and the
first instruction word for word, a summary that goes on from the summary before, and the newest messages as they were
said, calls with their results. It is valid for every provider, and its beginning stays the same from turn to turn,
for prompt caches. What it does not show stands behind a summary that it shows, word for word (`messages_behind`); what
packing or a window leaves out is told by `CompactionEvent.dropped_ids`. A context that is larger than it should be has
an event that says why (`CompactionFellShort`).

    from langchain_core.messages import AIMessage
    from langgraph.graph import START, StateGraph

    from langchain_agentmem import AgentMemory, CompactionState, ManagedMemoryConfig


    def answer(state: CompactionState):
        shown = state["llm_input_messages"]  # give these to your model
        text = f"I was shown {len(shown)} of {len(state['messages'])} messages. " + "Well! " * 20
        return {"messages": [AIMessage(text)]}


    with AgentMemory("agent.db") as memory:
        compact = memory.compaction(model=None, config=ManagedMemoryConfig(threshold_tokens=1_000))  # model="openai:…"
        builder = StateGraph(CompactionState).add_node("compact", compact).add_node("answer", answer)
        builder.add_edge(START, "compact").add_edge("compact", "answer")
        graph = builder.compile(checkpointer=memory.checkpointer)
        thread = {"configurable": {"thread_id": "friday"}}
        for day in range(40):
            graph.invoke(
                {"messages": [("user", f"Note {day}: the quince trees were watered at {day % 12} o'clock.")]}, thread
            )
        print(graph.get_state(thread).values["messages"][-1].content)
        print(memory.search("quince note 7", conversation_id="friday")[0].text)  # what left the context is found

What was compacted is kept in the database: a restart or another process goes on from there without asking the model
again, and after a rewind or a fork that compaction counts which is true there. When the model fails, hangs or answers
nonsense, the summary is made of what was said, and made anew when the model is back. `memory.tools()` gives
an agent `recall_dropped(query)` and `expand(id)`, which bring back what left the context.

For LangChain's agents there is a middleware; a call that a provider refuses as too large is answered by a smaller
context and tried again:

    from langchain.agents import create_agent
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    from langchain_agentmem import AgentMemory, CompactionMiddleware

    model = GenericFakeChatModel(messages=iter([AIMessage("Good morning!")]))
    with AgentMemory("agent.db") as memory:
        agent = create_agent(
            model, [], middleware=[CompactionMiddleware(memory, tools=False)], checkpointer=memory.checkpointer
        )
        said = agent.invoke({"messages": [("user", "Good morning.")]}, {"configurable": {"thread_id": "saturday"}})
        print(said["messages"][-1].content)

A conversation without a graph keeps its own budget, with MARSYS's configuration:

    from langchain_agentmem import AgentMemory, ManagedMemoryConfig

    with AgentMemory("agent.db") as memory:
        chat = memory.managed_conversation("sunday", config=ManagedMemoryConfig(threshold_tokens=500))
        for hour in range(40):
            chat.add(role="user", content=f"It is {hour} o'clock, and all is well in the whole of the garden.")
            chat.add(role="assistant", content=f"Noted, at {hour}: all is well, and nothing has to be done.")
        print(len(chat.get_messages()), "of", len(chat.get_raw_messages()), chat.get_cache_stats()["context_tokens"])

Everything works on LangChain messages and changes none. A *context* is made of a *record* and a history: the record
names the messages that stayed, as spans from one key to another, and holds those that were made. Between compactions a
context only grows at its end, so its beginning is the same bytes from turn to turn.

- A history of a graph is known by digests: that of a place says everything that was said up to there. The newest record
  whose digest is that of its place in this history is true for it. So a rewound thread, a fork, an edit and a restart
  need no rules of their own, and a chain without ids or a thread works too. What was digested and counted in the turn
  before is compared and not done again (`compacted_context.py`).
- A conversation's own log need not be read whole: its records say up to which row they reach, and whoever edits or
  removes a message takes away the records that stand for it (`log.disown`), which also keeps a summary from telling
  what was removed.
- All that is new of a graph's history is recorded in the thread's conversation before anything is compacted, so what
  leaves a context is in the log, is found by search, and is brought back by its id. Messages that a compaction made
  carry a mark, so that a state that was shrunk is not recorded as newer versions of what was said.
- Compaction aims at the target, 60 % of the threshold, and summarizes no more than that needs. It runs again only when
  as much was said, or may go, as it is to make room for; so an oversize tail does not compact every turn.
- The summarizer is given every message that leaves, in pieces where they are long. A summary that was made without a
  model is *provisional*: the next one that a model makes goes back to before it.
- In a graph the node answers with a `Command` of pairs: LangGraph's `stream_mode="messages"` takes messages in a plain
  update for new ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_agentmem.base.lazy_imports import lazily

if TYPE_CHECKING:
    from langchain_agentmem.compaction.compaction_config import ActiveContextPolicyConfig as ActiveContextPolicyConfig
    from langchain_agentmem.compaction.compaction_config import BackwardPackingConfig as BackwardPackingConfig
    from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig as ManagedMemoryConfig
    from langchain_agentmem.compaction.compaction_config import Situation as Situation
    from langchain_agentmem.compaction.compaction_config import Size as Size
    from langchain_agentmem.compaction.compaction_config import SlidingWindowConfig as SlidingWindowConfig
    from langchain_agentmem.compaction.compaction_config import ToolOffloadConfig as ToolOffloadConfig
    from langchain_agentmem.compaction.compaction_config import ToolTruncationConfig as ToolTruncationConfig
    from langchain_agentmem.compaction.compaction_middleware import CompactionMiddleware as CompactionMiddleware
    from langchain_agentmem.compaction.compaction_node import CompactionNode as CompactionNode
    from langchain_agentmem.compaction.compaction_node import CompactionState as CompactionState
    from langchain_agentmem.compaction.dropped_messages import amessages_behind as amessages_behind
    from langchain_agentmem.compaction.dropped_messages import messages_behind as messages_behind
    from langchain_agentmem.compaction.managed_conversation import ContextState as ContextState
    from langchain_agentmem.compaction.managed_conversation import (
        ManagedConversationMemory as ManagedConversationMemory,
    )
    from langchain_agentmem.compaction.processors import asummarization as asummarization
    from langchain_agentmem.compaction.processors import backward_packing as backward_packing
    from langchain_agentmem.compaction.processors import sliding_window as sliding_window
    from langchain_agentmem.compaction.processors import summarization as summarization
    from langchain_agentmem.compaction.processors import tool_offload as tool_offload
    from langchain_agentmem.compaction.processors import tool_truncation as tool_truncation
    from langchain_agentmem.compaction.role_compactor import ContextCompactor as ContextCompactor
    from langchain_agentmem.conversations.role_context import CompactedMessage as CompactedMessage
    from langchain_agentmem.conversations.role_context import CompactorConfig as CompactorConfig
    from langchain_agentmem.language_models.summarization import SummarizationConfig as SummarizationConfig
    from langchain_agentmem.messages.history_repair import repaired as repaired
    from langchain_agentmem.messages.message_marks import Summary as Summary
    from langchain_agentmem.messages.message_marks import summary_in as summary_in

_MODULES = {
    "compaction.compaction_config": "ActiveContextPolicyConfig BackwardPackingConfig ManagedMemoryConfig "
    "Situation Size SlidingWindowConfig ToolOffloadConfig ToolTruncationConfig",
    "compaction.compaction_middleware": "CompactionMiddleware",
    "compaction.compaction_node": "CompactionNode CompactionState",
    "compaction.dropped_messages": "amessages_behind messages_behind",
    "compaction.managed_conversation": "ContextState ManagedConversationMemory",
    "compaction.processors": "asummarization backward_packing sliding_window summarization tool_offload "
    "tool_truncation",
    "compaction.role_compactor": "ContextCompactor",
    "conversations.role_context": "CompactedMessage CompactorConfig",
    "language_models.summarization": "SummarizationConfig",
    "messages.history_repair": "repaired",
    "messages.message_marks": "Summary summary_in",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = [name for name in sorted(_HOMES) if name != "CompactionMiddleware"]

__getattr__, __dir__ = lazily(__name__, _HOMES)
