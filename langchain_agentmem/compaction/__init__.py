"""Context compaction: keep a model's context within a token budget without losing history.

Processors (`tool_truncation`, `summarization`, `backward_packing`, `sliding_window`) are functions from
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

from langchain_agentmem.base.lazy_imports import homes_in_stub, lazily

_HOMES = homes_in_stub(__name__)
__all__ = [name for name in sorted(_HOMES) if name != "CompactionMiddleware"]

__getattr__, __dir__ = lazily(__name__, _HOMES)
