"""The audit trail: adding to it and reading its end, at any size, against the document's file and a bare table.

    python tests/benchmarks/audit.py [--entries 1000000] [--postgres URL]

Ours keeps a chain of digests, is found by search, and is read by conversation and kind. The bare table is one insert a
commit into a table of sqlite3 without an index. The document's memory writes its whole JSON file with each entry, so it
is measured at 1,500 entries and no further. `--postgres` names an empty database, to measure that
instead. What counts are the ratios: machines differ and are noisy.
"""

from __future__ import annotations

import gc
import itertools
import json
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from places import given_options, in_turns

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit import audit_store
from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.audit.audit_rows import EntryDraft
from langchain_agentmem.base.clock import new_uuid

WORDS = (
    *("login", "page", "bug", "deploy", "server", "database", "query", "index", "memory", "agent", "model", "token"),
    *("cost", "user", "account", "invoice", "refund", "weather", "travel", "hotel", "train", "ticket", "error"),
    *("function", "test", "trace", "garden", "dog", "sunday", "river", "heron", "music", "cello", "letter", "forest"),
)
CONVERSATIONS = 50
SINGLE, BATCHED, BATCH = 2_000, 4_000, 100
ROUNDS = 3
FILL = 2_000
PLAIN = 1_500

_numbers = itertools.count()
_dice = random.Random(7)


def entry() -> AuditEntry:
    """A question of ten words and an answer of twenty-five."""
    number = next(_numbers)
    return AuditEntry(
        id=new_uuid(),
        kind="exchange",
        prompt=f"Question {number}: " + " ".join(_dice.choices(WORDS, k=10)),
        reply=" ".join(_dice.choices(WORDS, k=25)),
        created_at=datetime.now(UTC),
        conversation_id=f"conversation {number % CONVERSATIONS}",
    )


class Ours:
    """The trail, as its parts are used by `AuditTrail`."""

    def __init__(self, url: str) -> None:
        self.memory = AgentMemory(url)

    def add(self, entries: Sequence[AuditEntry]) -> None:
        drafts = [EntryDraft(each) for each in entries]
        self.memory.database.write("audit.add", lambda tx: audit_store.add(tx, "", drafts))

    def last(self, conversation: str | None) -> int:
        read = self.memory.database.read
        return len(read("audit.last", lambda tx: audit_store.load_last(tx, "", 5, conversation=conversation)))


class Bare:
    """One table, one insert a commit."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("pragma journal_mode = wal")
        self.connection.execute("pragma synchronous = normal")
        self.connection.execute(
            "create table entry (id integer primary key, prompt text, reply text, at integer, conversation text)"
        )

    def add(self, entries: Sequence[AuditEntry]) -> None:
        self.connection.execute("begin immediate")
        self.connection.executemany(
            "insert into entry (prompt, reply, at, conversation) values (?, ?, ?, ?)",
            [(each.prompt, each.reply, int(time.time()), each.conversation_id) for each in entries],
        )
        self.connection.execute("commit")

    def last(self, conversation: str | None) -> int:
        rows = self.connection.execute(
            "select * from entry where :of is null or conversation = :of order by id desc limit 5", {"of": conversation}
        )
        return len(rows.fetchall())


class Document:
    """What the document describes: a list that is written whole after each entry."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.history: list[dict[str, object]] = []

    def add(self, entries: Sequence[AuditEntry]) -> None:
        for each in entries:
            told = {"prompt": each.prompt, "reply": each.reply, "conversation_id": each.conversation_id}
            self.history.append(told | {"timestamp": int(time.time())})
            self.path.write_text(json.dumps({"history": self.history}, indent=2), encoding="utf-8")

    def last(self, conversation: str | None) -> int:
        return len([each for each in self.history if conversation in (None, each["conversation_id"])][-5:])


def rate(add: Callable[[Sequence[AuditEntry]], None], calls: Iterable[Sequence[AuditEntry]]) -> float:
    """Entries a second."""
    given = list(calls)
    gc.collect()
    began = time.perf_counter()
    for each in given:
        add(each)
    return sum(map(len, given)) / (time.perf_counter() - began)


def measure(contender: Ours | Bare) -> tuple[float, float, float, float]:
    """Entries a second alone and in batches, and microseconds for the last five of all and of a conversation."""
    alone = [rate(contender.add, ([entry()] for _ in range(SINGLE))) for _ in range(ROUNDS)]
    batched = rate(contender.add, ([entry() for _ in range(BATCH)] for _ in range(BATCHED // BATCH)))
    names = itertools.cycle(f"conversation {number}" for number in range(CONVERSATIONS))
    reads = {"of all": lambda: contender.last(None), "of a conversation": lambda: contender.last(next(names))}
    return statistics.median(alone), batched, *map(statistics.median, in_turns(reads, 300).values())


def main() -> None:
    options = given_options(__doc__, entries=1_000_000, postgres=None)
    sizes = [size for size in (0, 100_000, 1_000_000) if size <= options.entries]
    with tempfile.TemporaryDirectory() as folder:
        ours, bare = Ours(options.postgres or f"{folder}/ours.db"), Bare(Path(folder) / "bare.db")
        plain = Document(Path(folder) / "agent_memory.json")
        plain_rate = rate(plain.add, ([entry()] for _ in range(PLAIN)))
        print(f"the document's file, its first {PLAIN:,} entries: {plain_rate:,.0f} a second", flush=True)
        print("   entries   contender    alone/s   in batches/s   last(5) µs   of a conversation µs   bytes an entry")
        first = 0.0
        held = 0
        for size in sizes:
            while held < size:
                some = [entry() for _ in range(FILL)]
                ours.add(some)
                bare.add(some)
                held += FILL
            mine, its = measure(ours), measure(bare)
            held += SINGLE * ROUNDS + BATCHED
            first = first or mine[0]
            bytes_each = ours.memory.database.engine.sizes().total / held
            for name, found in (("ours", mine), ("bare", its)):
                columns = " ".join(f"{each:>{width},.0f}" for each, width in zip(found, (10, 14, 12, 22), strict=True))
                print(f"{size:>10,}   {name:<9} {columns}" + f" {bytes_each:>16,.0f}" * (name == "ours"))
            print(
                f"{'':>10}   alone, ours is {mine[0] / its[0]:.2f} times the bare table, {mine[0] / first:.2f} times "
                f"itself when empty, {mine[0] / plain_rate:.0f} times the document's first {PLAIN:,}",
                flush=True,
            )
        began = time.perf_counter()
        report = ours.memory.database.read("audit.verify", audit_store.verify)
        seconds = time.perf_counter() - began
        print(f"verify: {report.entries:,} entries in {seconds:.1f} s, {len(report.problems)} problems")
        ours.memory.close()


if __name__ == "__main__":
    main()
