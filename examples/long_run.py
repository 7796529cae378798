"""Compact a long run with tools. A tool retrieves messages that left the context.

Run it with `python examples/long_run.py`. It needs no extra and no key, because a few rules replace the model. Use any
LangChain model instead, with `.bind_tools(tools)`.
"""

import tempfile
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langchain_agentmem import AgentMemory, CompactionState, ManagedMemoryConfig, TokenCounter

DAYS, BUDGET = 20, 1_600
TREES = ("quince", "medlar", "walnut", "mulberry", "rowan")


@tool
def read_report(day: int) -> str:
    """Read the report of a day from the garden."""
    lines = [f"{hour}:00 the bed was {12 + (day * hour) % 9} degrees warm" for hour in range(24)]
    return f"Report of day {day}: a {TREES[day % 5]} tree was planted at slate {day * 7}.\n" + "\n".join(lines)


def summarize(messages: list[Any]) -> str:
    """Stand in for the summarizing model, which receives the last summary and the newer messages."""
    return f"Reports of the garden were read, one a day. The last {len(messages)} texts told nothing new."


def decide(shown: list[AnyMessage]) -> AIMessage:
    """Stand in for the model: call a tool for the last message, or answer with the result of the tool."""
    last = shown[-1]
    if last.type == "tool":
        return AIMessage(next(line for line in last.text.splitlines() if line.startswith("Report")))
    if last.text.startswith("Day"):
        return AIMessage("", tool_calls=[{"name": "read_report", "args": {"day": int(last.text[4:])}, "id": last.text}])
    return AIMessage("", tool_calls=[{"name": "recall_dropped", "args": {"query": last.text, "limit": 1}, "id": "ask"}])


def main(database: Path) -> None:
    counter, largest = TokenCounter(), 0
    with AgentMemory(database) as memory:

        def agent(state: CompactionState) -> dict[str, Any]:
            nonlocal largest
            largest = max(largest, counter.count(state["llm_input_messages"]))
            return {"messages": [decide(state["llm_input_messages"])]}

        tools = [read_report, *memory.tools(include=["recall_dropped"])]
        builder = StateGraph(CompactionState, input_schema=MessagesState).add_node(agent)
        builder.add_node("compact", memory.compaction(summarize, ManagedMemoryConfig(threshold_tokens=BUDGET)))
        builder.add_node("tools", ToolNode(tools)).add_edge(START, "compact").add_edge("compact", "agent")
        builder.add_conditional_edges("agent", tools_condition).add_edge("tools", "compact")
        graph = builder.compile(checkpointer=memory.checkpointer)
        thread: RunnableConfig = {"configurable": {"thread_id": "garden"}}
        for day in range(1, DAYS + 1):
            graph.invoke({"messages": [HumanMessage(f"Day {day}")]}, thread)

        state = graph.get_state(thread).values
        shown, every = state["llm_input_messages"], state["messages"]
        print(f"the thread holds {counter.count(every):,} tokens in {len(every)} messages")
        print(f"the model was shown {BUDGET:,} tokens at most: {largest <= BUDGET}; at the end {len(shown)} messages:")
        for message in shown[:4]:
            print(f"  {message.type:<5} {message.text.splitlines()[0]}")
        question = "Which tree was planted at slate 84?"
        said = graph.invoke({"messages": [HumanMessage(question)]}, thread)["messages"]
        print(f"user>  {question}\nagent> {said[-1].text}  ({said[-2].name} was called)")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "agent.db")
