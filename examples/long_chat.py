"""A chat that outgrows its model: the context stays in a budget, and what left it is recalled when it is needed.

Run it with `python examples/long_chat.py`. It needs no key: in place of a model it answers with what it is shown.
"""

import tempfile
from pathlib import Path

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph

from langchain_agentmem import AgentMemory
from langchain_agentmem.compaction import CompactionState, ManagedMemoryConfig

BUDGET = 1_500
TREES = ("quince", "medlar", "walnut", "mulberry", "rowan")


def summarize(messages: list[object]) -> str:
    """Stands for a model; any LangChain model, or a name such as "openai:gpt-5-mini", takes its place."""
    return f"The user keeps a diary of a garden; so far it has been read {len(messages)} texts of it."


def answer(state: CompactionState) -> dict[str, list[AIMessage]]:
    """A real model would be given these messages; roles, order, calls and results are as every provider wants them."""
    shown = state["llm_input_messages"]
    return {"messages": [AIMessage(f"Noted. I am shown {len(shown)} of {len(state['messages'])} messages.")]}


def main(database: Path) -> None:
    """Keep a diary of sixty days."""
    with AgentMemory(database) as memory:
        compact = memory.compaction(summarize, ManagedMemoryConfig(threshold_tokens=BUDGET))
        graph = (
            StateGraph(CompactionState)
            .add_node("compact", compact)
            .add_node("answer", answer)
            .add_edge(START, "compact")
            .add_edge("compact", "answer")
            .compile(checkpointer=memory.checkpointer)
        )
        config: RunnableConfig = {"configurable": {"thread_id": "diary"}}
        for day in range(1, 61):
            tree = TREES[day % len(TREES)]
            text = f"Day {day}: I planted a {tree} tree at the wall, and wrote its name on slate number {day * 7}."
            graph.invoke(CompactionState(messages=[HumanMessage(text)], llm_input_messages=[]), config)

        state = graph.get_state(config).values
        print(f"the thread holds {len(state['messages'])} messages")
        for message in state["llm_input_messages"][:2]:
            print(f"  {message.type}: {message.text.splitlines()[0]}")
        print(f"  … and {len(state['llm_input_messages']) - 2} more")
        print(f"answer> {state['messages'][-1].text}")

        recall_dropped = memory.tools(include=["recall_dropped"])[0]  # an agent would call it itself
        print(recall_dropped.invoke({"query": "which tree has slate 84?", "limit": 1}, config))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "agent.db")
