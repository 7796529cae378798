"""Find messages of earlier conversations in a LangGraph agent.

Run it with `python examples/quickstart.py`. It needs no extra and no key, because no model is used: the agent answers
with the hits.
"""

import tempfile
from pathlib import Path

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory, Recollection


class State(MessagesState):
    """The messages, and the search hits for the last message."""

    recalled: list[Recollection]


def talk(database: Path, conversation_id: str, text: str) -> None:
    """Run one turn. The memory is opened for each turn, as if each turn ran in another process."""
    with AgentMemory(database) as memory:

        def recall(state: State) -> dict[str, list[Recollection]]:
            return {"recalled": memory.search(state["messages"][-1].text, roles=["user"], limit=3)}

        def answer(state: State) -> dict[str, list[AIMessage]]:
            found = state["recalled"]  # with a model, add the hits to the prompt as data
            return {"messages": [AIMessage(f"You told me: {found[0].text}" if found else "I will remember that.")]}

        def remember(state: State, config: RunnableConfig) -> None:
            memory.conversation(config["configurable"]["thread_id"]).add_messages(state["messages"])

        graph = StateGraph(State).add_node(recall).add_node(answer).add_node(remember)
        graph.add_edge(START, "recall").add_edge("recall", "answer").add_edge("answer", "remember")
        config: RunnableConfig = {
            "configurable": {"thread_id": conversation_id, "agentmem_namespace": ("ada",)}  # one namespace per user
        }
        said = graph.compile().invoke(State(messages=[HumanMessage(text)], recalled=[]), config)
        print(f"{conversation_id}> {text}\n  Agent: {said['messages'][-1].text}")
        for each in said["recalled"]:
            print(f"  recalled from {each.conversation_id!r}: {each.text!r}, because of {each.why}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        talk(Path(folder) / "agent.db", "monday", "My sister Ana lives in Lisbon, near the river.")
        talk(Path(folder) / "agent.db", "tuesday", "Where does Ana live? I forgot her town.")
