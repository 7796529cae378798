"""Appending to a conversation: this package against its peers and against plain sqlite3, in one run.

    python tests/benchmarks/history.py [--messages 5000] [--cpu]

Needs the extra `[bench]` for the peers. Every contender appends the same messages to an empty database in a
temporary folder. What counts are the ratios: machines differ and are noisy. With `--cpu` the processor's time is
measured, for a machine that others use too.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from langchain_core.messages import BaseMessage, HumanMessage
from places import given_options

from langchain_agentmem import AgentMemory

SENTENCE = "message number {} about the garden, the little dog that runs there all day, and what we ate on Sunday"
ROUNDS = 5

Append = Callable[[Sequence[BaseMessage]], None]


def messages(count: int, start: int = 0) -> list[BaseMessage]:
    """Messages as a chat brings them: without ids, which whoever stores them has to make."""
    return [HumanMessage(SENTENCE.format(number)) for number in range(start, start + count)]


def ours(folder: Path) -> tuple[Append, Callable[[], None]]:
    memory = AgentMemory(folder / "ours.db")
    chat = memory.conversation("chat")
    return chat.add_messages, memory.close


def raw(folder: Path, *, index: bool) -> tuple[Append, Callable[[], None]]:
    """What a careful person would write by hand: one table in WAL mode, and a full-text index if asked for."""
    connection = sqlite3.connect(folder / f"raw{index}.db", isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = normal")
    connection.execute(
        "create table message (id integer primary key, conversation text, key text, role text, body text, at real)"
    )
    connection.execute("create unique index message_key on message (conversation, key)")
    connection.execute("create virtual table words using fts5 (body, content = 'message', content_rowid = 'id')")

    def append(new: Sequence[BaseMessage]) -> None:
        connection.execute("begin immediate")
        (last,) = connection.execute("select coalesce(max(id), 0) from message").fetchone()
        bodies = [json.dumps({"type": each.type, "content": each.content}) for each in new]
        rows = [
            (number, "chat", str(uuid.uuid4()), each.type, body, time.time())
            for number, (each, body) in enumerate(zip(new, bodies, strict=True), last + 1)
        ]
        connection.executemany("insert into message values (?, ?, ?, ?, ?, ?)", rows)
        if index:
            connection.executemany("insert into words (rowid, body) values (?, ?)", [(r[0], r[4]) for r in rows])
        connection.execute("commit")

    return append, connection.close


def community_sql(folder: Path) -> tuple[Append, Callable[[], None]]:
    from langchain_community.chat_message_histories import SQLChatMessageHistory
    from sqlalchemy import create_engine

    engine = create_engine(f"sqlite:///{folder / 'sql.db'}")
    return SQLChatMessageHistory("chat", connection=engine).add_messages, engine.dispose


def community_file(folder: Path) -> tuple[Append, Callable[[], None]]:
    from langchain_community.chat_message_histories import FileChatMessageHistory

    history = FileChatMessageHistory(str(folder / "chat.json"))
    return history.add_messages, lambda: None


def rate(
    make: Callable[[Path], tuple[Append, Callable[[], None]]], *, count: int, batch: int, clock: Callable[[], float]
) -> float:
    """Messages a second: the median of several fresh databases."""
    rates = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            append, close = make(Path(folder))
            append(messages(1))
            calls = [messages(batch, start) for start in range(1, count + 1, batch)]
            gc.collect()
            began = clock()
            for call in calls:
                append(call)
            rates.append(len(calls) * batch / (clock() - began))
            close()
    return statistics.median(rates)


def growth() -> None:
    """What one append costs when the conversation is short and when it is long."""
    print("\nappending one message to a conversation of …")
    with tempfile.TemporaryDirectory() as folder:
        append, close = ours(Path(folder))
        base = 0.0
        for length in (10, 100, 1_000, 10_000):
            with AgentMemory(Path(folder) / "ours.db") as memory:
                have = len(memory.conversation("chat"))
            append(messages(length - have, have)) if length > have else None
            times = []
            for message in messages(640, length):
                began = time.perf_counter()
                append([message])
                times.append(time.perf_counter() - began)
            cost = statistics.mean(sorted(times)[: int(len(times) * 0.98)]) * 1e6
            base = base or cost
            print(f"  {length:>6} messages: {cost:6.0f} µs   {cost / base:4.2f} times the shortest")
        close()


BEGINNINGS = {
    "import langchain_core.messages": "import langchain_core.messages",
    "the base class of chat histories": "import langchain_core.chat_history",
    "import langchain_agentmem": "import langchain_agentmem",
    "from langchain_agentmem import AgentMemory": "from langchain_agentmem import AgentMemory",
    "the same, and a first message": "from langchain_agentmem import AgentMemory\n"
    "with AgentMemory(url) as memory: memory.conversation('c').add_user_message('Hello')",
}
"""How programs begin: the first is what the others are compared with."""


def imports() -> None:
    """What a new process costs until it has done that, as CPU time beside that of importing LangChain's messages."""

    def seconds(program: str, folder: str) -> float:
        code = f"import time; url = {str(Path(folder, 'memory.db'))!r}; b = time.process_time()\n{program}\n"
        code += "print(time.process_time() - b)"
        with contextlib.suppress(FileNotFoundError):
            Path(folder, "memory.db").unlink()
        return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

    with tempfile.TemporaryDirectory() as folder:
        rounds = [[seconds(each, folder) for each in BEGINNINGS.values()] for _ in range(15)]
    print("\nCPU time of a new process, median of 15 in turn, and of its ratios to the first")
    for name, runs in zip(BEGINNINGS, zip(*rounds, strict=True), strict=True):
        ratios = [run / first for run, (first, *_) in zip(runs, rounds, strict=True)]
        print(f"  {name:<44} {statistics.median(runs) * 1e3:>6.0f} ms  {statistics.median(ratios):5.2f} times")


def main() -> None:
    options = given_options(__doc__, "cpu", messages=5_000)
    count, clock = options.messages, time.process_time if options.cpu else time.perf_counter
    warnings.simplefilter("ignore")
    contenders: list[tuple[str, Callable[[Path], tuple[Append, Callable[[], None]]], int]] = [
        ("langchain-agentmem (indexed)", ours, count),
        ("sqlite3 by hand, with FTS5", lambda folder: raw(folder, index=True), count),
        ("sqlite3 by hand, no index", lambda folder: raw(folder, index=False), count),
        ("SQLChatMessageHistory", community_sql, min(count, 1_000)),
        ("FileChatMessageHistory", community_file, min(count, 500)),
    ]
    for batch in (1, 100):
        print(f"\nmessages a second, {'one at a time' if batch == 1 else f'in batches of {batch}'}")
        reference = 0.0
        for name, make, number in contenders:
            found = rate(make, count=number, batch=batch, clock=clock)
            reference = reference or found
            print(f"  {name:<30} {found:>9,.0f}   ours is {reference / found:6.2f} times that")
    growth()
    imports()


if __name__ == "__main__":
    main()
