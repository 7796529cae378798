"""How far it is from a call to the database: the files and functions of the package that are entered on the way.

    python tests/benchmarks/calls.py

Below the table: the types that `add_message` and a recorded put meet, in the order in which a reader meets them.

Each call is made once before, so that what is loaded or remembered the first time does not count. "to SQL" is what was
entered before the first statement ran, "in all" the whole call, "deepest" the most frames of the package on the stack
at a statement.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

import langchain_agentmem
from langchain_agentmem import AgentMemory

PACKAGE = str(Path(langchain_agentmem.__file__).parent)


def entered(call: Callable[[], Any]) -> tuple[int, int, int, int, int]:
    """Files to SQL, and in all; frames to SQL, and in all; most frames on the stack at a statement."""
    files: list[str] = []
    first: list[int] = []
    deepest = 0

    def listen(frame: Any, event: str, function: Any) -> None:
        nonlocal deepest
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            files.append(frame.f_code.co_filename)
        elif event == "c_call" and isinstance(getattr(function, "__self__", None), SQL):
            first.append(len(files))
            deepest = max(deepest, stack(frame))

    sys.setprofile(listen)
    try:
        call()
    finally:
        sys.setprofile(None)
    before = files[: first[0]] if first else files
    return len(set(before)), len(set(files)), len(before), len(files), deepest


def stack(frame: Any) -> int:
    """How many frames of the package lie above one, itself included."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename.startswith(PACKAGE)
        frame = frame.f_back
    return count


def types_met(call: Callable[[], Any]) -> list[str]:
    """The types of the package whose values functions of the package take or return, in the order of the call."""
    met: dict[str, None] = {}

    def note(value: Any) -> None:
        if type(value).__module__.startswith(langchain_agentmem.__name__):
            met.setdefault(type(value).__name__)
        if isinstance(value, tuple | list):
            for each in value[:2]:
                note(each)

    def listen(frame: Any, event: str, value: Any) -> None:
        if event in ("call", "return") and frame.f_code.co_filename.startswith(PACKAGE):
            for each in frame.f_locals.values() if event == "call" else [value]:
                note(each)

    sys.setprofile(listen)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(met)


SQL = (sqlite3.Connection, sqlite3.Cursor)


def recorded(saver: Any) -> Callable[[], Any]:
    """Puts of checkpoints that each say one message more, which is recorded."""
    messages: list[Any] = []

    def put() -> None:
        number = len(messages) + 1
        messages.append(HumanMessage(f"message {number}", id=f"m{number}"))
        name = {"id": f"{number:08}-0000-6000-8000-000000000000"}
        checkpoint = empty_checkpoint() | name | {"channel_values": {"messages": [*messages]}}
        checkpoint["channel_versions"] = {"messages": f"{number:032}.0"}
        configurable = {"thread_id": "r", "checkpoint_ns": ""}
        saver.put({"configurable": configurable}, checkpoint, {}, checkpoint["channel_versions"])

    return put


def main() -> None:
    """Print the table."""
    with AgentMemory() as memory:
        memory.store.put(("users", "ada"), "city", {"name": "Porto"})
        chat, layers, facts = memory.conversation("c"), memory.layers("b"), memory.facts("f")
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        calls: dict[str, Callable[[], Any]] = {
            "add_message": lambda: chat.add_user_message("My sister Ana lives in Lisbon."),
            "saver.put": lambda: memory.checkpointer.put(config, empty_checkpoint(), {}, {}),
            "saver.put, recording": recorded(memory.checkpointer),
            "store.get": lambda: memory.store.get(("users", "ada"), "city"),
            "memory.search": lambda: memory.search("Where does Ana live?"),
            "core.set": lambda: layers.core.set("name", "Ada"),
            "core.get": layers.core.get,
            "facts.add_fact": lambda: facts.add_fact("user", "Ana", "lives in", "Lisbon"),
            "audit.add": lambda: memory.audit.add("Hi", "Hello", "c"),
        }
        print(f"{'':<22}{'files to SQL':>14}{'in all':>8}{'frames to SQL':>15}{'in all':>8}{'deepest':>9}")
        for name, call in calls.items():
            call()
            files, all_files, frames, all_frames, deepest = entered(call)
            print(f"{name:<22}{files:>14}{all_files:>8}{frames:>15}{all_frames:>8}{deepest:>9}")
        for name in ("add_message", "saver.put, recording"):
            met = types_met(calls[name])
            print(f"\n{name} meets {len(met)} types: {', '.join(met)}")


if __name__ == "__main__":
    main()
