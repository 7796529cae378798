"""Threads of every kind: chats, interrupts, subgraphs, DeltaChannels, forks and single checkpoints."""

from __future__ import annotations

from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.types import Command, interrupt

from tests.checkpoints.graphs import NOTHING, Line, Log, asking_graph, at, chat_graph, everything, logging_graph
from tests.support.graphs import line


def collect(log, writes):
    return log + [text for write in writes for text in write]


class Delta(TypedDict):
    log: Annotated[list[str], DeltaChannel(collect, snapshot_frequency=3)]


def delta_graph(saver):
    """Return a graph whose log is a DeltaChannel."""
    return logging_graph(saver, "a", "b", state=Delta)


def outer_graph(saver):
    """Return a graph with a subgraph that interrupts."""
    asking = ("ask", lambda _: {"log": [interrupt("Within?")]})
    inner = line(None, ("x", lambda _: {"log": ["x"]}), asking, state=Log)
    return logging_graph(saver, "before", "inner", "after", nodes={"inner": inner})


GRAPHS = {"chat": chat_graph, "asking": asking_graph, "outer": outer_graph, "delta": delta_graph}
THREADS = (*GRAPHS, "line")


def fill(saver):
    """Create a thread of each kind, with open interrupts."""
    for said in ("one", "two", "three"):
        chat_graph(saver).invoke(
            {"messages": [HumanMessage(said, name="Ada", additional_kwargs={"x": [1]})]}, at("chat")
        )
    graph = chat_graph(saver)
    early = [state.config for state in graph.get_state_history(at("chat"))][4]
    graph.invoke({"messages": [HumanMessage("on a fork", id="fork")]}, early)
    asking_graph(saver).invoke({"log": ["in"]}, at("asking"))
    outer_graph(saver).invoke({"log": ["in"]}, at("outer"))
    for turn in range(4):
        delta_graph(saver).invoke({"log": [f"in {turn}"]}, at("delta"))
    line = Line(saver, "line")
    line.put({"text": "text " * 100, "list": [1, {"deep": "x"}], "call": [AIMessage("call", id="m")], "none": None})
    line.put({"list": [1, {"deep": "x"}, "more"], "text": NOTHING}, run_id="run")
    saver.put_writes(line.config, [("list", ["pending"]), ("text", None), ("bytes", b"\x00")], "task", "path")


def seen(saver):
    """Return everything readable of these threads."""
    return {thread: everything(saver, thread) for thread in THREADS}


def go_on(saver):
    """Continue every thread that can continue, and return the resulting texts."""
    ends = {
        "chat": chat_graph(saver).invoke({"messages": [HumanMessage("more")]}, at("chat")),
        "asking": asking_graph(saver).invoke(Command(resume="answer"), at("asking")),
        "outer": outer_graph(saver).invoke(Command(resume="answer"), at("outer")),
        "delta": delta_graph(saver).invoke({"log": ["more"]}, at("delta")),
    }
    for thread, graph in GRAPHS.items():
        assert graph(saver).get_state(at(thread)).values == ends[thread]
    texts = [message.text for message in ends["chat"]["messages"]]
    assert texts[-2:] == ["more", "MORE"]
    assert ends["asking"]["log"] == ["in", "a", "answer", "z"]
    assert ends["outer"]["log"] == ["in", "before", "in", "before", "x", "answer", "after"]
    assert ends["delta"]["log"] == [*(text for n in range(4) for text in (f"in {n}", "a", "b")), "more", "a", "b"]
    return texts
