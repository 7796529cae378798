"""An agent for LangGraph Server. `langgraph dev` serves it without an API key, since a script replaces its model.

The agent compacts its context, stores notes on request, extracts facts, and recalls memory for a question. Notes and
facts belong to the thread and are rewound with it. Messages and items of the store are found in all threads of the
same user.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from langchain_agentmem_langgraph_server import memory
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langchain_agentmem import CompactionState


def reply(prompt: Sequence[BaseMessage]) -> AIMessage:
    """Return the scripted answer: a call that stores a note, or the recalled memory."""
    last = prompt[-1]
    if isinstance(last, ToolMessage):
        return AIMessage("I will remember that.")
    if last.text.startswith("Remember: "):
        note = {"content": last.text.removeprefix("Remember: ")}
        return AIMessage("", tool_calls=[ToolCall(name="mem_archival_write", args=note, id=f"note-{last.id}")])
    reminders = "\n".join(message.text for message in prompt if "agentmem_memory" in message.additional_kwargs)
    known = re.findall(r"^- (?!\[assistant|\[mem_).*", reminders, re.MULTILINE)
    return AIMessage("\n".join(["I know:", *known]) if known else "I know nothing of that.")


def facts(prompt: Sequence[BaseMessage]) -> str:
    """Return the scripted facts of messages: where a person lives."""
    found = re.findall(r'number="(\d+)" speaker="user"[^>]*>\n[^<]*?\b(\w+) lives in (\w+)', prompt[-1].text)
    learned = [{"message": int(at), "subject": who, "predicate": "lives in", "object": it} for at, who, it in found]
    return json.dumps({"facts": learned})


async def answer(state: CompactionState) -> dict[str, Any]:
    """Ask the model."""
    prompt = state["llm_input_messages"]
    model = GenericFakeChatModel(messages=iter([reply(prompt)]))  # replace it by your model, with .bind_tools(tools)
    return {"messages": [await model.ainvoke(prompt)]}


tools = memory().tools()
builder = StateGraph(CompactionState)
builder.add_node("compact", memory().compaction(tools=tools))
builder.add_node("recall", memory().inject())
builder.add_node("answer", answer)
builder.add_node("tools", ToolNode(tools))
builder.add_node("facts", memory().remember_facts(facts))
builder.add_edge(START, "compact").add_edge("compact", "recall").add_edge("recall", "answer")
builder.add_conditional_edges("answer", tools_condition, {"tools": "tools", "__end__": "facts"})
graph = builder.add_edge("tools", "compact").compile()  # the server adds its checkpointer and store
