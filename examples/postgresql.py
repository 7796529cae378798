"""Share one memory between several machines with PostgreSQL.

The rest of the code is the same as for SQLite.

Run it with `python examples/postgresql.py postgresql://user:password@host/database`, or set AGENTMEM_URL to the URL. It
needs the extra `[postgres]` and no key. At the end, it erases its data, which rewrites all tables of the memory. Use a
database that contains nothing else.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory

NAMESPACE = ("agentmem example",)
THREAD: RunnableConfig = {"configurable": {"thread_id": "trip", "agentmem_namespace": NAMESPACE}}


def ask(memory: AgentMemory, text: str) -> str:
    """Run one turn of the agent with the memory of one machine."""

    def answer(state: MessagesState, config: RunnableConfig) -> dict[str, list[AIMessage]]:
        layers = memory.layers(config)
        layers.archival.write(state["messages"][-1].text)
        return {"messages": [AIMessage(f"I know {len(layers.archival.all())} things.")]}

    graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(memory.checkpointer)
    return str(graph.invoke({"messages": [HumanMessage(text)]}, THREAD)["messages"][-1].text)


def main(url: str) -> None:
    with AgentMemory(url) as one, AgentMemory(url) as other:  # as on two machines
        try:
            print("one>  ", ask(one, "My sister Ana lives in Lisbon."))
            print("other>", ask(other, "She likes green tea."), "The thread goes on there.")

            visits = one.conversation("visits", NAMESPACE)
            with ThreadPoolExecutor(8) as pool:  # writers wait for each other, and no message is lost
                list(pool.map(lambda number: visits.add(role="user", content=f"Visit {number}"), range(40)))
            print("visits:", len(other.conversation("visits", NAMESPACE).messages))

            [found] = other.search("Where does Ana live?", namespace=NAMESPACE, kinds=["record"], limit=1)
            print("found:", found.text)
            print("whole:", one.admin.verify().ok)
        finally:
            one.erase(namespace=NAMESPACE)
        print("erased:", other.search("Ana", namespace=NAMESPACE))


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("AGENTMEM_URL")
    if given is None:
        sys.exit(f"Give the URL of a PostgreSQL database.\n{__doc__}")
    main(given)
