"""Context compaction: keep a model's context within a token budget without losing history.

Processors (`tool_truncation`, `summarization`, `backward_packing`, `sliding_window`) are functions from
messages to messages. `CompactionNode` is for graphs and chains, `CompactionMiddleware` for LangChain's agents,
`ManagedConversationMemory` for conversations, `ContextCompactor` for rounds. Names are loaded on first use. A star
import leaves out the middleware, which needs the extra `[agents]`.

In a graph the history does not change, and `llm_input_messages` holds the context: the original system messages and
first instruction, a summary that continues the summary before, and the newest original messages, calls with their
results. The context is valid for every provider, and its beginning stays the same from turn to turn, for prompt caches.
`replaced_messages` returns the original messages that a summary replaced. `CompactionEvent.dropped_ids` reports the
messages that packing or a window dropped. `CompactionFellShort` reports why a context is larger than it should be.

    from langchain_core.messages import AIMessage
    from langgraph.graph import START, StateGraph

    from langchain_agentmem import AgentMemory, CompactionState, ManagedMemoryConfig


    def answer(state: CompactionState):
        context = state["llm_input_messages"]  # pass these to your model
        text = f"I received {len(context)} of {len(state['messages'])} messages. " + "Well! " * 20
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
        print(memory.search("quince note 7", conversation_id="friday")[0].text)  # finds a message that left the context

Compactions are stored in the database. A restart or another process reuses them without another model call, and a
rewind or a fork uses the compaction that matches its history. If the model fails, hangs or answers nonsense, the
summary is an extract of the original messages, and is replaced when the model works again. `memory.tools()` returns the
tools `recall_dropped(query)` and `expand(id)`, which retrieve messages that left the context.

LangChain's agents use a middleware. If a provider refuses a call as too large, the middleware repeats it with a smaller
context:

    from langchain.agents import create_agent
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    from langchain_agentmem import AgentMemory, CompactionMiddleware

    model = GenericFakeChatModel(messages=iter([AIMessage("Good morning!")]))
    with AgentMemory("agent.db") as memory:
        agent = create_agent(
            model, [], middleware=[CompactionMiddleware(memory, tools=False)], checkpointer=memory.checkpointer
        )
        result = agent.invoke({"messages": [("user", "Good morning.")]}, {"configurable": {"thread_id": "saturday"}})
        print(result["messages"][-1].content)

`ManagedConversationMemory` keeps a conversation without a graph within a budget. Its configuration is that of MARSYS:

    from langchain_agentmem import AgentMemory, ManagedMemoryConfig

    with AgentMemory("agent.db") as memory:
        chat = memory.managed_conversation("sunday", config=ManagedMemoryConfig(threshold_tokens=500))
        for hour in range(40):
            chat.add(role="user", content=f"It is {hour} o'clock, and all is well in the whole of the garden.")
            chat.add(role="assistant", content=f"Noted, at {hour}: all is well, and nothing has to be done.")
        print(len(chat.get_messages()), "of", len(chat.get_raw_messages()), chat.get_cache_stats()["context_tokens"])

Every function works on LangChain messages and modifies none. A *record* stores the result of a compaction: the spans of
keys of the messages that stayed, and the generated messages. A record applied to a history results in a *context*.
Between compactions a context only grows at its end, so its beginning is the same bytes from turn to turn.

- Digests identify a graph's history: the digest of a place covers every message up to that place. The newest record
  whose digest matches its place in this history applies. So a rewound thread, a fork, an edit and a restart need no
  special rules, and a chain without ids or a thread works too. Messages of the previous turn are compared, and not
  digested and counted again (`compacted_context.py`).
- A conversation's own log is read only from the last row that the record covers. Editing or removing a message deletes
  the records that cover it (`message_log`), so that no summary repeats a removed message.
- New messages of a graph's history are recorded in the thread's conversation before a compaction. So every message that
  leaves a context is in the log, and search and its id find it. Messages that a compaction made are marked, so that a
  shrunk state is not recorded as newer versions of the original messages.
- Compaction aims at the target, 60 % of the threshold, and summarizes only as much as that needs. It runs again only if
  the new or droppable messages have as many tokens as it should free. So an oversize tail does not compact every turn.
- The summarizer receives every message that leaves the context, long ones in pieces. A summary made without a model is
  *provisional*: the next summary by a model starts from the context before it.
- In a graph the node returns a `Command` of pairs, since LangGraph's `stream_mode="messages"` treats messages in a
  plain update as new ones.
"""

from __future__ import annotations

from langchain_agentmem.base.lazy_imports import lazy_exports, modules_in_stub

_MODULES = modules_in_stub(__name__)
__all__ = [name for name in sorted(_MODULES) if name != "CompactionMiddleware"]

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
