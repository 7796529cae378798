"""Print the trace of an agent run with its memory operations, as LangSmith shows it.

Run it with `python examples/tracing.py`. It needs no extra and no key, because scripts replace the models.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tracers import BaseTracer, Run
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langchain_agentmem import AgentMemory, CompactionState, Experience, ManagedMemoryConfig

SAID = ["Ana likes green tea.", "On our walk we saw " + "one heron, " * 60, "What gift would Ana like?"]
SEARCH = {"name": "mem_archival_search", "args": {"query": "Ana"}, "id": "call"}
TURNS = [AIMessage("Oh.", id="1"), AIMessage("Oh!", id="2"), AIMessage("", tool_calls=[SEARCH]), AIMessage("Some tea.")]
FACTS = '{"facts": [{"message": 1, "subject": "Ana", "predicate": "likes", "object": "green tea"}]}'
PRINTED_VALUES = ["query", "tokens_before", "tokens_after", "summary", "chosen", "records", "documents", "fact_texts"]


class LastRunTracer(BaseTracer):
    """A LangChain tracer that keeps the last run with its child runs. Memory operations are child runs, too."""

    def _persist_run(self, run: Run) -> None:
        self.last = run


def agent(memory: AgentMemory, folder: Path) -> Any:
    model, experiences = GenericFakeChatModel(messages=iter(TURNS)), memory.experiences(folder)
    budget = ManagedMemoryConfig(threshold_tokens=215, token_counter="estimate")  # noqa: S106
    experiences.add(Experience("one-gift", when="Use when someone looks for a gift.", what="Name one thing only."))
    builder = StateGraph(CompactionState, input_schema=MessagesState).add_node("tools", ToolNode(memory.tools()))
    builder.add_node("compact", memory.compaction(lambda _: "A walk was told of.", budget))
    builder.add_node("inject", memory.inject()).add_node("experience", experiences.selector())
    builder.add_node("agent", lambda state: {"messages": [model.invoke(state["llm_input_messages"])]})
    builder.add_node("facts", memory.remember_facts(lambda _: FACTS)).add_edge(START, "compact")
    builder.add_edge("compact", "inject").add_edge("inject", "experience").add_edge("experience", "agent")
    builder.add_conditional_edges("agent", tools_condition, {"tools": "tools", "__end__": "facts"})
    return builder.add_edge("tools", "compact").compile(checkpointer=memory.checkpointer)


def lines(run: Run, before: str = "", below: str = "") -> Iterator[str]:
    values = {**run.inputs, **(run.outputs or {})} if run.name.startswith("memory.") else {}
    texts = "".join(f"  {name}={text(values[name])}" for name in PRINTED_VALUES if values.get(name))
    yield f"{(run.latency or 0) * 1000:7.1f} ms  {before}{run.name}{texts}"
    for number, child in enumerate(run.child_runs, 1):
        branch, beside = ("└─ ", "   ") if number == len(run.child_runs) else ("├─ ", "│  ")
        yield from lines(child, below + branch, below + beside)


def text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(text, value))
    if isinstance(value, dict):
        return str(value.get("text") or value.get("exp_id"))
    return str(getattr(value, "page_content", value))


def main(folder: Path) -> None:
    tracer = LastRunTracer()
    with AgentMemory(folder / "agent.db") as memory:
        graph = agent(memory, folder)
        for number, said in enumerate(SAID):
            state = {"messages": [HumanMessage(said, id=f"said-{number}")]}
            graph.invoke(state, {"configurable": {"thread_id": "chat"}, "callbacks": [tracer]})
    print("\n".join(lines(tracer.last)))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
