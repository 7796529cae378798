"""Context compaction: keep a model's context within a token budget without losing history.

Processors (`tool_truncation`, `summarization`, `backward_packing`, `sliding_window`) are functions from messages to
messages. `CompactionNode` is for graphs and chains, `CompactionMiddleware` for LangChain's agents,
`ManagedConversationMemory` for conversations, `ContextCompactor` for rounds: a user query and the posts of roles that
answer it. Names are loaded on first use. A star import leaves out the middleware, which needs the extra `[agents]`.

In a graph, the history does not change. `llm_input_messages` is the context, which consists of the original system
messages, the first instruction, a summary, and the newest original messages. The context is valid for every provider.
Its beginning stays the same from turn to turn, for prompt caches. `replaced_messages` returns the original messages
that a summary replaced. `CompactionEvent.dropped_ids` reports the messages that a processor dropped without a summary.
`CompactionFellShort` reports why a context is larger than its target.

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

`ManagedConversationMemory` keeps a conversation without a graph within a budget:

    from langchain_agentmem import AgentMemory, ManagedMemoryConfig

    with AgentMemory("agent.db") as memory:
        chat = memory.managed_conversation("sunday", config=ManagedMemoryConfig(threshold_tokens=500))
        for hour in range(40):
            chat.add(role="user", content=f"It is {hour} o'clock, and all is well in the whole of the garden.")
            chat.add(role="assistant", content=f"Noted, at {hour}: all is well, and nothing has to be done.")
        print(len(chat.get_messages()), "of", len(chat.get_raw_messages()), chat.get_cache_stats()["context_tokens"])

Every function works on LangChain messages and modifies none. A *record* stores the result of a compaction: the keys of
the messages that stayed, and the generated messages. The *context* is computed from a record and the current history.
Between compactions, messages are only appended to a context, so its beginning has the same bytes at each turn.

- Digests identify a graph's history. Each digest covers a message and all messages before it. The newest record whose
  digest occurs in the current history applies. So a rewound thread, a fork, an edit and a restart need no special
  rules, and a chain without message ids or a thread works too. Messages that equal those of the previous turn are not
  digested and counted again (`compacted_context.py`).
- A managed conversation reads only the messages that are in the context. Editing or removing a message deletes the
  records that cover the message (`message_log.delete_compactions`), so that no summary repeats a removed message.
- New messages of a graph's history are recorded in the thread's conversation before a compaction. So every message that
  leaves a context can be found by search and by its id. Messages that a compaction made are marked. So a state that was
  shortened by `shrink=True` is not recorded as newer versions of the original messages.
- A compaction has a target, 60 % of the threshold by default, and summarizes only as many messages as the target
  requires. A context is compacted again only if its new or droppable messages have as many tokens as a compaction
  should free. So a context that stays too large is not compacted at every turn.
- The summarizer receives every message that leaves the context, long ones in pieces. A summary made without a model is
  *provisional*. When a model is available, it summarizes the original messages instead.
- In a graph, the node returns a `Command` with a list of pairs. Otherwise, LangGraph's `stream_mode="messages"` would
  stream the messages of the context as new messages.
"""

from __future__ import annotations

from langchain_agentmem.base.lazy_imports import lazy_exports, modules_in_stub

_MODULES = modules_in_stub(__name__)
__all__ = [name for name in sorted(_MODULES) if name != "CompactionMiddleware"]

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
