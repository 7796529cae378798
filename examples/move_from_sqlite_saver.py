"""Migrate from LangGraph's `SqliteSaver`: import every thread with its history.

Run it with `python examples/move_from_sqlite_saver.py`. It needs the extra `[import]` and no key. Import an
`AsyncSqliteSaver`, a `PostgresSaver` or any other saver in the same way. The equivalent command, which also needs the
extra `[cli]`, is `agentmem import-from agent.db langgraph-saver old.db`.
"""

import tempfile
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory

THREADS: list[RunnableConfig] = [{"configurable": {"thread_id": name}} for name in ("ada", "ben")]
TURNS, EARLY = 30, 2


def build(checkpointer: BaseCheckpointSaver[Any]) -> Any:
    """Build the graph, which is the same for every checkpointer."""

    def answer(state: MessagesState) -> dict[str, list[AIMessage]]:
        first, number = state["messages"][0].text[:14], len(state["messages"]) // 2 + 1
        return {"messages": [AIMessage(f"Answer {number}. You began with {first!r}.")]}

    return StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(checkpointer=checkpointer)


def size(folder: Path, name: str) -> int:
    return sum(file.stat().st_size for file in folder.glob(f"{name}*"))


def main(folder: Path) -> None:
    with SqliteSaver.from_conn_string(str(folder / "old.db")) as old:
        graph = build(old)
        for thread in THREADS:
            for day in range(TURNS):
                graph.invoke({"messages": [HumanMessage(f"Hello on day {day}! " + "It is sunny. " * 20)]}, thread)

        with AgentMemory(folder / "agent.db") as memory:
            moved = memory.checkpointer.import_checkpoints(old)
            print(f"moved {moved.threads} threads with {moved.checkpoints} checkpoints")
            again = memory.checkpointer.import_checkpoints(old)  # an interrupted import can be repeated
            print(f"once more: {again.checkpoints} are new, {again.known} are there already")

    print(f"on disk it takes {size(folder, 'agent.db') / size(folder, 'old.db'):.0%} of the room")
    with AgentMemory(folder / "agent.db") as memory:
        graph, thread = build(memory.checkpointer), THREADS[0]
        print("ada>", graph.invoke({"messages": [HumanMessage("Hello again!")]}, thread)["messages"][-1].text)

        history = list(graph.get_state_history(thread))
        [early] = [state for state in history if len(state.values["messages"]) == 2 * EARLY and not state.next]
        print(f"{len(history)} states of the past are there; from one of them:")
        forked = graph.invoke({"messages": [HumanMessage("Good evening!")]}, early.config)
        print("ada>", forked["messages"][-1].text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
