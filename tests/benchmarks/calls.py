"""How far it is from a call to the database: the files and functions of the package that are entered on the way.

    python tests/benchmarks/calls.py

Each call is made once before, so that what is loaded or remembered the first time does not count. "to SQL" is what was
entered before the first statement ran, "in all" the whole call.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint

import langchain_agentmem
from langchain_agentmem import AgentMemory

PACKAGE = str(Path(langchain_agentmem.__file__).parent)


def entered(call: Callable[[], Any]) -> tuple[int, int, int, int]:
    """Files to SQL, and in all; frames to SQL, and in all."""
    files: list[str] = []
    first: list[int] = []

    def listen(frame: Any, event: str, function: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            files.append(frame.f_code.co_filename)
        elif event == "c_call" and not first and isinstance(getattr(function, "__self__", None), SQL):
            first.append(len(files))

    sys.setprofile(listen)
    try:
        call()
    finally:
        sys.setprofile(None)
    before = files[: first[0]] if first else files
    return len(set(before)), len(set(files)), len(before), len(files)


SQL = (sqlite3.Connection, sqlite3.Cursor)


def main() -> None:
    """Print the table."""
    with AgentMemory() as memory:
        chat, layers, facts = memory.conversation("c"), memory.layers("b"), memory.facts("f")
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        calls: dict[str, Callable[[], Any]] = {
            "add_message": lambda: chat.add_user_message("My sister Ana lives in Lisbon."),
            "saver.put": lambda: memory.checkpointer.put(config, empty_checkpoint(), {}, {}),
            "memory.search": lambda: memory.search("Where does Ana live?"),
            "core.set": lambda: layers.core.set("name", "Ada"),
            "core.get": layers.core.get,
            "facts.add_fact": lambda: facts.add_fact("user", "Ana", "lives in", "Lisbon"),
            "audit.add": lambda: memory.audit.add("Hi", "Hello", "c"),
        }
        print(f"{'':<16}{'files to SQL':>14}{'in all':>8}{'frames to SQL':>15}{'in all':>8}")
        for name, call in calls.items():
            call()
            files, all_files, frames, all_frames = entered(call)
            print(f"{name:<16}{files:>14}{all_files:>8}{frames:>15}{all_frames:>8}")


if __name__ == "__main__":
    main()
