"""An agent with every part of memory and scripted models.

It writes to its memory and searches it with tools; memory is put into its prompt; its context is compacted, and a
model writes the summary; a model chooses the experiences that apply, and a model extracts facts. Each of its models is
known by its name, "agent", "summarizer", "chooser" and "extractor", whether it is OpenAI's real client in front of a
loopback server or `Scripted`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_openai_messages
from langchain_core.messages.utils import convert_to_messages
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langchain_agentmem import AgentMemory
from langchain_agentmem.compaction import (
    ActiveContextPolicyConfig,
    CompactionState,
    ManagedMemoryConfig,
    SummarizationConfig,
)
from tests.support.models import StreamingModel

Model = Callable[[str], Any]
"""From the name of a model to the model."""

TURNS = (
    "I like tea. My sister Ana lives in Lisbon. " + "We walked along the river. " * 40,
    "What shall I bring Ana?",
    "What did I say about tea?",
)
ANSWERS = ("Noted.", "Bring her some tea.", "That you like it.")
CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1", "agentmem_namespace": ("ada",)}}

GIFTS = "exp_id: gifts\nwhen: Use when someone wants to bring a gift.\nwhat: Name one thing only.\n"
"""The text of an experience."""

_CALLS = {
    TURNS[0]: ("mem_archival_write", {"content": "Ana is the sister, and lives in Lisbon.", "tags": ["family"]}),
    TURNS[1]: ("mem_archival_search", {"query": "Ana"}),
    TURNS[2]: ("recall_dropped", {"query": "tea"}),
}
_SAYS = {
    "summarizer": "SUMMARY The user likes tea.",
    "chooser": '{"gifts": true}',
    "extractor": '{"facts": [{"message": 1, "subject": "Ana", "predicate": "lives in", "object": "Lisbon"}]}',
}
OWN_WORDS = ("SUMMARY", "gifts", "predicate")
"""Of what memory's own models say, a word that the agent never says."""


def said(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a model to a request of OpenAI's client."""
    if (text := _SAYS.get(request["model"])) is not None:
        return {"role": "assistant", "content": text}
    messages = request["messages"]
    asked = max(place for place, each in enumerate(messages) if each["role"] == "user" and _text(each) in TURNS)
    turn = _text(messages[asked])
    if any(each["role"] == "tool" for each in messages[asked:]):
        return {"role": "assistant", "content": ANSWERS[TURNS.index(turn)]}
    name, arguments = _CALLS[turn]
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call-{TURNS.index(turn)}", "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content or ())


class Scripted(StreamingModel):
    """Says what the script says, and knows no structured output."""

    def with_structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def scripted(name: str) -> Scripted:
    """The model of that name, without any server."""

    def answer(messages: list[BaseMessage]) -> BaseMessage:
        (answer,) = convert_to_messages([said({"model": name, "messages": convert_to_openai_messages(messages)})])
        usage = {"input_tokens": 900, "output_tokens": 1, "total_tokens": 901}
        return answer.model_copy(update={"usage_metadata": usage, "response_metadata": {"model_name": name}})

    return Scripted(answer, model=name)


def agent(memory: AgentMemory, folder: Path, model: Model = scripted) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build it.

    Args:
        memory: Its memory.
        folder: Where its experiences are kept.
        model: Gives its models.
    """
    folder.mkdir(exist_ok=True)
    (folder / "handcrafted_exp_gifts.yaml").write_text(GIFTS)
    library = memory.experiences(folder)
    tools = memory.tools()
    chat = model("agent").bind_tools(tools)

    def answer(state: CompactionState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [chat.invoke(state["llm_input_messages"], config)]}

    async def answer_awaited(state: CompactionState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [await chat.ainvoke(state["llm_input_messages"], config)]}

    policy = ActiveContextPolicyConfig(summarization=SummarizationConfig(include_original_instruction=False))
    budget = ManagedMemoryConfig(threshold_tokens=600, token_counter="estimate", active_context=policy)
    builder = StateGraph(CompactionState, input_schema=MessagesState)
    builder.add_sequence(
        [
            ("compact", memory.compaction(model("summarizer"), budget)),
            ("inject", memory.inject()),
            ("experience", library.selector(role="Planner", model=model("chooser"))),
            ("agent", RunnableLambda(answer, answer_awaited, name="answer")),
        ]
    )
    builder.add_node("tools", ToolNode(tools))
    builder.add_node("facts", memory.remember_facts(model("extractor")))
    builder.add_edge(START, "compact")
    builder.add_conditional_edges("agent", tools_condition, {"tools": "tools", "__end__": "facts"})
    builder.add_edge("tools", "compact")
    return builder.compile(checkpointer=memory.checkpointer, store=memory.store)


def converse(graph: Any, turns: Sequence[str] = TURNS, **config: Any) -> list[str]:
    """Say what the user says, turn by turn; gives the agent's answers."""
    return [
        graph.invoke({"messages": [HumanMessage(turn)]}, {**CONFIG, **config})["messages"][-1].text for turn in turns
    ]


async def aconverse(graph: Any, turns: Sequence[str] = TURNS, **config: Any) -> list[str]:
    """`converse`, awaited."""
    return [
        (await graph.ainvoke({"messages": [HumanMessage(turn)]}, {**CONFIG, **config}))["messages"][-1].text
        for turn in turns
    ]
