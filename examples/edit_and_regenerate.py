"""Edit a message: what the agent stored because of the old message disappears.

For comparison, the agent stores each statement twice: in the thread's memory, which rewinds with the thread, and in a
LangGraph store, which does not rewind.

Run it with `python examples/edit_and_regenerate.py`. It needs no extra and no key.
"""

import tempfile
from pathlib import Path

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from langchain_agentmem import AgentMemory


def main(database: Path) -> None:
    """Send a message, edit it, and ask the agent for the stored statement."""
    with AgentMemory(database) as memory:

        def learn(state: MessagesState, config: RunnableConfig, *, store: BaseStore) -> None:
            said = state["messages"][-1].text
            if said.startswith("My "):
                memory.layers(config).archival.write(said)
                store.put(("facts",), said, {"text": said})

        def answer(state: MessagesState, config: RunnableConfig, *, store: BaseStore) -> dict[str, list[AIMessage]]:
            if state["messages"][-1].text.startswith("My "):
                return {"messages": [AIMessage("I will remember that.")]}
            ours = [record.content for record in memory.layers(config).archival.search("where is my sister")]
            theirs = [item.key for item in store.search(("facts",))]
            return {"messages": [AIMessage(f"this memory:     {ours}\n  LangGraph store: {theirs}")]}

        graph = (
            StateGraph(MessagesState)
            .add_node(learn)
            .add_node(answer)
            .add_edge(START, "learn")
            .add_edge("learn", "answer")
            .compile(checkpointer=memory.checkpointer, store=InMemoryStore())
        )

        def say(text: str, config: RunnableConfig) -> None:
            reply = graph.invoke({"messages": [HumanMessage(text)]}, config)["messages"][-1]
            print(f"user>  {text}\nagent> {reply.text}")

        thread: RunnableConfig = {"configurable": {"thread_id": "chat"}}
        say("Hello!", thread)
        before = graph.get_state(thread).config
        say("My sister Ana lives in Lisbon.", thread)
        say("Where is my sister?", thread)
        abandoned = graph.get_state(thread).config
        print("--- the user edits the message")
        say("My sister Ana lives in Porto.", before)
        say("Where is my sister?", thread)

        known = [record.content for record in memory.layers(abandoned).archival.all()]
        print(f"--- the abandoned branch still shows what was known there: {known}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "agent.db")
