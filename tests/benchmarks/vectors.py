"""Nearest neighbours at size: how long it takes, what it finds, and what it keeps in memory.

    python tests/benchmarks/vectors.py [--sizes 10000 100000 1000000] [--dimensions 256] [--postgres]

Each size has a database of its own with so many documents in one namespace, whose vectors are drawn around a thousand
directions, as those of texts lie around their subjects. They are written behind the memory's back, with their documents
and without texts. The benchmark measures `VectorQuery.nearest`, which finds the hundred nearest vectors in a search.
The first search reads them all. Recall is the share of the hundred that numpy finds with all digits.

On SQLite numpy compares them; with `--postgres` pgvector does too, by its index where there are enough (making it is
told apart). Memory is what the process takes after the searches, less what it took before: its own, and what is mapped
from a file, which the system takes back when it needs room. It is known on Linux only.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from langchain_core.embeddings import Embeddings
from places import NAMES, databases, given_options

from langchain_agentmem import AgentMemory
from langchain_agentmem.search import vectors
from langchain_agentmem.search.vectors import VectorQuery, embedder_of

SUBJECTS, SPREAD = 1_000, 1.5
LIMIT = 100
BATCH = 10_000
DOCUMENT = "insert into search_document (id, owner, created_at, length, features) values ({0}, 0, 0, 10, 0)"


class Nothing(Embeddings):
    """Embeddings that nobody asks."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise NotImplementedError

    def embed_query(self, text: str) -> list[float]:
        raise NotImplementedError


class Space:
    """Vectors of length one around some directions, the same each time."""

    def __init__(self, dimensions: int) -> None:
        self._chance = np.random.default_rng(7)
        self._subjects = self._chance.standard_normal((SUBJECTS, dimensions), dtype=np.float32)

    def some(self, count: int) -> Any:
        chosen = self._subjects[self._chance.integers(0, SUBJECTS, count)]
        found = chosen + SPREAD * self._chance.standard_normal(chosen.shape, dtype=np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def opened(url: str, dimensions: int) -> AgentMemory:
    return AgentMemory(url, index={"dims": dimensions, "embed": Nothing()})


def fill(memory: AgentMemory, first: int, batches: Iterator[Any]) -> None:
    """Write vectors, as those of the documents from a number on."""
    url = memory.database.engine.path if memory.database.engine.dialect == "sqlite" else None
    if url is not None:
        with sqlite3.connect(url) as file:
            for batch in batches:
                numbers = range(first, first := first + len(batch))
                rows = zip(numbers, batch.astype("<f2"), strict=True)
                file.executemany(DOCUMENT.format("?"), ((number,) for number in numbers))
                file.executemany(
                    "insert into search_vector (document_id, passage, vector) values (?, 0, ?)",
                    ((number, vector.tobytes()) for number, vector in rows),
                )
            file.execute("update search_total set documents = ?", (first,))
        return
    with memory.database.engine.connection() as connection, connection.transaction():
        connection.execute("set local search_path = agentmem, public")
        for batch in batches:
            numbers = range(first, first := first + len(batch))
            halves, passage = zip(numbers, batch.astype("<f2"), strict=True), "(document_id, passage, vector)"
            texts = ((each, 0, str(row.tolist())) for each, row in zip(numbers, batch, strict=True))
            for table, rows in (
                (
                    "search_document (id, owner, created_at, length, features)",
                    ((each, 0, 0, 10, 0) for each in numbers),
                ),
                (f"search_vector {passage}", ((each, 0, row.tobytes()) for each, row in halves)),
                (f"search_pgvector {passage}", texts),
            ):
                with connection.cursor().copy(f"copy {table} from stdin") as copy:
                    for row in rows:
                        copy.write_row(row)
        connection.execute("update search_total set documents = %s", (first,))


def memory_taken() -> dict[str, int]:
    """Bytes of this process: its own, and mapped from files."""
    status = Path("/proc/self/status")
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines()) if status.exists() else {}
    return {name: int(lines.get(name, "0").split()[0]) * 1024 for name in ("RssAnon", "RssFile")}


def measure(engine: str, new: Callable[[], str], count: int, dimensions: int, questions: int) -> None:
    space = Space(dimensions)
    asked = space.some(questions)
    best = [np.empty(0, dtype=np.float32)] * questions
    numbers = [np.empty(0, dtype=np.int64)] * questions
    url = new()
    if engine == "postgres":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create extension if not exists vector")
    with opened(url, dimensions) as memory:
        embedder_of(memory.database).close()
        memory.conversation("c", namespace=("a",)).add(role="user", content="one")
        first = memory.database.engine.read(vectors_first) + 1
        at = first

        def batches() -> Iterator[Any]:
            nonlocal at
            for start in range(0, count, BATCH):
                batch = space.some(min(BATCH, count - start))
                cosines = asked @ batch.T
                for each in range(questions):
                    joined = np.concatenate([best[each], cosines[each]])
                    whose = np.concatenate([numbers[each], np.arange(at, at + len(batch))])
                    top = np.argsort(-joined)[:LIMIT]
                    best[each], numbers[each] = joined[top], whose[top]
                at += len(batch)
                yield batch

        fill(memory, first, batches())
    with opened(url, dimensions) as memory:
        embedder_of(memory.database).close()
        embedder = embedder_of(memory.database)
        assert embedder is not None
        note = ""
        if engine == "postgres" and count >= vectors.INDEX_THRESHOLD:
            began = time.perf_counter()
            memory.database.background.settle()
            note = f"  index in {time.perf_counter() - began:.0f} s"
        before = memory_taken()
        taken, recall = [], []
        for each in [0, *range(questions)]:
            near = VectorQuery(asked[each], embedder._cache)
            began = time.perf_counter()
            found = memory.database.engine.read(lambda near=near: near.nearest([(0, 2**62)], LIMIT))
            taken.append(1e3 * (time.perf_counter() - began))
            recall.append(len(found.keys() & set(numbers[each].tolist())) / LIMIT)
        after = memory_taken()
    own, mapped = ((after[name] - before[name]) / 2**20 for name in before)
    first_ms, *rest = taken
    p95 = sorted(rest)[len(rest) * 95 // 100]
    print(
        f"  {NAMES[engine]:<12}{count:>12,}{first_ms:>12,.1f}{statistics.median(rest):>10,.1f}{p95:>10,.1f}"
        f"{statistics.fmean(recall[1:]):>10.3f}{own:>10,.0f}{mapped:>10,.0f}{note}",
        flush=True,
    )


def vectors_first(tx: Any) -> Any:
    from langchain_agentmem.storage import query

    rows = query.documents_after(tx, after=-1, limit=1)
    return rows[0]["id"]


def main() -> None:
    options = given_options(__doc__, "postgres", sizes=[10_000, 100_000, 1_000_000], dimensions=256, questions=50)
    print(f"the {LIMIT} nearest of vectors of {options.dimensions} numbers")
    columns = "".join(f"{title:>10}" for title in ("p50 ms", "p95 ms", "recall", "own MB", "mapped MB"))
    print(f"  {'':<12}{'vectors':>12}{'first ms':>12}{columns}")
    for engine in ("sqlite", "postgres") if options.postgres else ("sqlite",):
        for count in options.sizes:
            with databases(engine) as new:
                measure(engine, new, count, options.dimensions, options.questions)


if __name__ == "__main__":
    main()
