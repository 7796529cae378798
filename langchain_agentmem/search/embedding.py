"""Embeddings give documents their vectors: in the background, in batches, and never in the way of a write.

A document waits in the database until it has its vector, so nothing is forgotten by a crash, and any process that has
the embeddings goes on where another ended. The right to embed is a job of the queue, so that two never embed the same.
When the embeddings fail, everything is found by its words as before, and they are asked again later.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from langchain_agentmem.base.concurrency import PerProcess, abandonable, place_given_up
from langchain_agentmem.base.namespaces import path_of
from langchain_agentmem.errors import AgentMemoryError, InvalidInput, leaves_the_node
from langchain_agentmem.search import vectors
from langchain_agentmem.search.analysis import as_spoken
from langchain_agentmem.search.memory_search import Inquiry, Walls, named
from langchain_agentmem.search.vectors import Near, VectorCache, Waiting
from langchain_agentmem.storage import Engine, Transaction, jobs
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.jobs import Job, WantedJob, Worker
from langchain_agentmem.storage.part import TextsOf, all_parts

T = TypeVar("T")

logger = logging.getLogger(__name__)

KIND = "embed"
"""The kind of the job that whoever embeds has. There is one for the whole database, as long as documents wait."""
INDEXING = "index_vectors"
"""The kind of the job that makes an index of vectors, where pgvector compares many of them."""
BATCH = 64
"""Documents that are embedded at once."""
PATIENCE = 2.0
"""Seconds that a search waits for the vectors of what was just stored."""
_PROBES = 3  # of a batch that failed, so many are tried alone before the embeddings count as out of order
_THREADS = 4  # of awaited searches that ask the embeddings
_ROOT = path_of(())


def embed_with(database: Database, embeddings: Any, dimensions: int) -> None:
    """Give everything that can be found vectors too, from now on.

    Args:
        database: Where.
        embeddings: LangChain `Embeddings`.
        dimensions: Numbers of a vector.

    Raises:
        InvalidInput: The database has vectors of another size.
        MissingExtra: numpy is not installed.
    """
    embedder = embedder_of(database)
    if embedder is None or embedder.dimensions != dimensions:
        embedder = Embedder(database, embeddings, dimensions, all_parts().texts)
        embedder.serve()
        weakref.finalize(database, embedder.close).atexit = False
        database.attach(embedder)
        database.remembering.add(embedder)
        database.writing.add(embedder)
        database.on_write[:] = [embedder.wake]


def embedder_of(database: Database) -> Embedder | None:
    """What gives the documents of a database their vectors; None where there are no embeddings."""
    return database.attachment(Embedder)


class Embedder:
    """The embeddings of a database.

    Args:
        database: The database.
        embeddings: LangChain `Embeddings`.
        dimensions: Numbers of a vector.
        texts: How to read the texts of each kind of document.

    Raises:
        MissingExtra: numpy is not installed.
    """

    def __init__(self, database: Database, embeddings: Any, dimensions: int, texts: Mapping[str, TextsOf]) -> None:
        vectors.numpy()
        self.embeddings = embeddings
        self.dimensions = dimensions
        self._texts = texts
        self._shelf = VectorCache(maps=not database.engine.encrypted)
        self._asking = _Asking(embeddings)
        self._engine, self._worker = database.engine, database.worker  # it keeps no database open

    def serve(self) -> None:
        """Give what is in the database its vectors, from now on.

        Raises:
            InvalidInput: It has vectors of another size.
        """
        engine, worker = self._engine, self._worker
        if engine.read(vectors.wanted) != self.dimensions:
            engine.write(lambda tx: vectors.want(tx, self.dimensions))
        worker.register(KIND, partial(self._embed_waiting, engine, worker), find=_wanted)
        worker.wake(KIND)
        if engine.dialect == "postgres":
            worker.register(INDEXING, partial(_index, engine), find=_unindexed)
            worker.wake(INDEXING)

    @staticmethod
    def wake(database: Database) -> None:
        """Something was written: go to work in the background."""
        database.worker.wake(KIND)

    def close(self) -> None:
        """Go to work no more. What still waits is kept for the next time."""
        self._worker.stop(KIND)
        self._worker.stop(INDEXING)
        self._asking.close()

    def forget(self) -> None:
        """Forget every vector that was read."""
        self._shelf.clear()

    def settle(self) -> None:
        """Give all documents that wait their vectors now.

        A document that the embeddings refuse goes on waiting, and keeps no other from its vector.

        Raises:
            Exception: Whatever the embeddings raise.
        """
        self._worker.settle([KIND])

    def near(self, asked: Inquiry, walls: Walls, *, needed: bool = False) -> Near | None:
        """What a search needs to find what lies near a question; None for no words, or when the embeddings fail.

        Args:
            asked: The question.
            walls: Where it looks.
            needed: Whether the search can do nothing without. Default: it goes by words then.

        Raises:
            Exception: Whatever the embeddings raise, if it is needed.
        """
        if not asked.question.text.strip():
            return None
        names = sorted(set(self._engine.read(lambda tx: named(tx, asked, walls))))
        text = as_spoken(asked.question.text, names) if len(names) == 1 else asked.question.text
        if self._engine.read(lambda tx: vectors.waiting(tx, 1)):
            with place_given_up():
                self._worker.hurry(KIND, PATIENCE)
        try:
            vector = abandonable(partial(self._asking.ask, "embed_query", text))
            return Near(vectors.unit(vector, self.dimensions), self._shelf)
        except Exception as error:  # a failing model never breaks a search that can go by words
            if needed or leaves_the_node(error):
                raise
            logger.warning("The embeddings failed, so the search goes by words alone.", exc_info=True)
            return None

    def _embed_waiting(self, engine: Engine, worker: Worker, job: Job) -> None:
        """Give all documents that wait their vectors, as long as nobody else has taken that over."""
        refused: Exception | None = None
        ticket = -1
        while batch := engine.read(partial(_next_batch, job=job, after=ticket)):
            ticket = batch[-1].ticket
            refused = self._embed_all(engine, batch) or refused
        worker.wake(INDEXING)
        if refused is not None:
            raise refused

    def _embed_all(self, engine: Engine, batch: Sequence[Waiting]) -> Exception | None:
        """Embed a batch; where it is refused, one document after the other, the likeliest to succeed first.

        Returns:
            Why some were refused, or None.

        Raises:
            Exception: Even the likeliest were refused.
        """
        try:
            self._embed(engine, batch)
        except Exception as error:
            if not engine.usable or len(batch) == 1:
                raise
            refused = error
        else:
            return None
        done = 0
        for number, each in enumerate(self._shortest_first(engine, batch), start=1):
            try:
                self._embed(engine, [each])
                done += 1
            except Exception as error:
                if not engine.usable or (not done and number == min(_PROBES, len(batch))):
                    raise
                refused = error
        return refused

    def _shortest_first(self, engine: Engine, batch: Sequence[Waiting]) -> list[Waiting]:
        """Documents in the order of their lengths; those that cannot be read come last."""

        def length(each: Waiting) -> int:
            try:
                passages = engine.read(lambda tx: self._passages(tx, [each]))
            except AgentMemoryError:  # it is damaged
                return sys.maxsize
            return sum(map(len, passages[each]))

        return sorted(batch, key=length)

    def _embed(self, engine: Engine, batch: Sequence[Waiting]) -> None:
        """Give some documents their vectors, outside of any transaction."""
        passages = engine.read(lambda tx: self._passages(tx, batch))
        texts = list(dict.fromkeys(text for each in passages.values() for text in each if text.strip()))
        found = self._asking.ask("embed_documents", texts) if texts else []
        if len(found) != len(texts):
            raise InvalidInput(f"The embeddings gave {len(found)} vectors for {len(texts)} texts.")
        packed = {text: vectors.packed(vector, self.dimensions) for text, vector in zip(texts, found, strict=True)}
        kept = {document: [packed[text] for text in each if text in packed] for document, each in passages.items()}
        engine.write(lambda tx: vectors.keep(tx, kept))

    def _passages(self, tx: Transaction, batch: Sequence[Waiting]) -> dict[Waiting, Sequence[str]]:
        found: dict[Waiting, Sequence[str]] = {}
        for kind in sorted({each.kind for each in batch}):
            mine = [each for each in batch if each.kind == kind]
            texts = self._texts[kind](tx, [each.owner for each in mine])
            found.update((each, texts.get(each.owner, ())) for each in mine)
        return found


def _wanted(tx: Transaction) -> list[WantedJob]:
    """The job of embedding, if there is something to embed and nobody has asked for it yet."""
    if vectors.waiting(tx, 1) and not jobs.find(tx, _ROOT, KIND):
        return [WantedJob(_ROOT, KIND)]
    return []


def _unindexed(tx: Transaction) -> list[WantedJob]:
    """The job of making the index of vectors, if there is none, and nobody has asked for it yet."""
    if vectors.lacks_index(tx) and not jobs.find(tx, _ROOT, INDEXING):
        return [WantedJob(_ROOT, INDEXING)]
    return []


def _index(engine: Engine, job: Job) -> None:
    """Make the index of vectors, unless somebody has done so meanwhile."""
    del job
    if engine.read(vectors.lacks_index):
        engine.alter(engine.read(vectors.index_statements))


def _next_batch(tx: Transaction, job: Job, after: int) -> list[Waiting]:
    return vectors.waiting(tx, BATCH, after=after) if jobs.is_of(tx, job) else []


class _Asking:
    """Asks embeddings, also those that can only be awaited: on an event loop of their own, which stays the same."""

    _starting = PerProcess(threading.RLock)  # the collector may close it anywhere
    _loop: PerProcess[asyncio.AbstractEventLoop | None] = PerProcess(lambda: None)

    def __init__(self, embeddings: Any) -> None:
        self._embeddings = embeddings
        # LangGraph's wrapper of an async function has nothing else.
        self._awaited = getattr(embeddings, "afunc", None) is not None and getattr(embeddings, "func", None) is None

    def ask(self, method: str, given: Any) -> Any:
        """What a method of the embeddings gives."""
        if not self._awaited:
            try:
                return getattr(self._embeddings, method)(given)
            except NotImplementedError:
                self._awaited = True
        return asyncio.run_coroutine_threadsafe(self._await(method, given), self._running()).result()

    def close(self) -> None:
        """End the loop, if there is one."""
        with self._starting:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None

    async def _await(self, method: str, given: Any) -> Any:
        return await getattr(self._embeddings, f"a{method}")(given)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(self._loop,), name="agentmem-await", daemon=True).start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop until it is stopped; what still runs on it is cancelled."""
    try:
        loop.run_forever()
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
