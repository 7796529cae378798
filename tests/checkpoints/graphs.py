"""Shared helpers of the checkpointer tests: configs, checkpoints and graphs."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph.message import add_messages
from langgraph.types import interrupt

from langchain_agentmem import AgentMemorySaver
from tests.forking import ENVIRONMENT
from tests.support.graphs import Log, line

NOTHING = object()
"""Marks a channel that has a version but no value."""


def at(thread="t", checkpoint_id=None, ns="", **more):
    """Return the config of a thread or of one of its checkpoints."""
    configurable = {"thread_id": thread, "checkpoint_ns": ns}
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    return {"configurable": configurable, **more}


def id_in(config):
    return config["configurable"]["checkpoint_id"]


def new_checkpoint(values, versions, **more):
    return {
        "v": 4,
        "id": str(uuid6(clock_seq=-2)),
        "ts": datetime.now(UTC).isoformat(),
        "channel_values": dict(values),
        "channel_versions": dict(versions),
        "versions_seen": {"__input__": {}, "node": dict(versions)},
        "updated_channels": None,
        **more,
    }


class Line:
    """A sequence of checkpoints, each put as LangGraph does: with the versions of the changed channels."""

    def __init__(self, saver, thread="t", ns=""):
        self.saver, self.config = saver, at(thread, ns=ns)
        self.values, self.versions, self.step = {}, {}, -1

    def put(self, changes=None, **metadata):
        checkpoint, metadata, new = self.next(changes, **metadata)
        self.config = self.saver.put(self.config, checkpoint, metadata, new)
        return self.config

    async def aput(self, changes=None, **metadata):
        checkpoint, metadata, new = self.next(changes, **metadata)
        self.config = await self.saver.aput(self.config, checkpoint, metadata, new)
        return self.config

    def next(self, changes=None, **metadata):
        new = {name: self.saver.get_next_version(self.versions.get(name), None) for name in changes or {}}
        self.versions |= new
        self.values = {k: v for k, v in (self.values | (changes or {})).items() if v is not NOTHING}
        self.step += 1
        return new_checkpoint(self.values, self.versions), {"source": "loop", "step": self.step} | metadata, new

    def fork(self, config):
        """Return a second line that continues from one of this line's checkpoints."""
        line = Line(self.saver)
        found = self.saver.get_tuple(config)
        line.config, line.step = config, found.metadata["step"]
        line.values = dict(found.checkpoint["channel_values"])
        line.versions = dict(found.checkpoint["channel_versions"])
        return line


def ids(tuples):
    return [found.checkpoint["id"] for found in tuples]


def comparable(found):
    """Return everything in a checkpoint tuple except its thread."""
    return (
        found.config["configurable"]["checkpoint_ns"],
        id_in(found.config),
        found.parent_config and id_in(found.parent_config),
        found.checkpoint,
        found.metadata,
        found.pending_writes,
    )


def everything(saver, thread="t"):
    """Return all checkpoints of a thread by namespace and age, read by a saver without a cache."""
    if isinstance(saver, AgentMemorySaver):
        saver = AgentMemorySaver(saver.database, serde=saver.serde)
    found = saver.list({"configurable": {"thread_id": thread}})
    return sorted((comparable(each) for each in found), key=lambda each: each[:2])


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def adding(name):
    """Return a node that adds its name to the log."""
    return lambda _: {"log": [name]}


def logging_graph(saver, *names, nodes=None, state=Log, **options):
    """Return a graph of sequential nodes, each of which adds its name to the log unless given in `nodes`."""
    nodes = {name: adding(name) for name in names} | (nodes or {})
    return line(saver, *((name, nodes[name]) for name in names), state=state, **options)


def answer(state):
    return {"messages": [AIMessage(state["messages"][-1].text.upper())]}


def chat_graph(saver):
    """Return a graph whose node answers with the last message in capitals."""
    return line(saver, answer, state=Chat)


def asking_graph(saver):
    """Return a graph that logs "a", asks a question, logs the answer, and logs "z"."""
    return logging_graph(saver, "a", "ask", "z", nodes={"ask": lambda _: {"log": [interrupt("What?")]}})


def started(script, *arguments, environment: dict[str, str] | None = None):
    """Start a process that runs a script in which this file is importable as `graphs`."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *map(str, arguments)],
        cwd=Path(__file__).parent,
        env=ENVIRONMENT | (environment or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
