"""Vectors without a model server: each token has a vector of its own, and a text has the mean of its tokens' vectors.

The tokens and their vectors are read from the wheel `wordllama` (MIT license; 32,000 tokens of 256 numbers, 16 MB in
memory). That package itself is never imported: nothing here can ask the network, and there is nothing to warm up.

Embeddings give documents their vectors: in the background, in batches, and never in the way of a write.

A document waits in the database until it has its vector, so nothing is forgotten by a crash, and any process that has
the embeddings goes on where another ended. The right to embed is a lease, so that two never embed the same.
When the embeddings fail, everything is found by its words as before, and they are asked again later.
"""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.embeddings import Embeddings

from langchain_agentmem.base.concurrency import abandonable, place_given_up
from langchain_agentmem.base.namespaces import path_of
from langchain_agentmem.errors import AgentMemoryError, InvalidInput, MissingExtra, leaves_the_node
from langchain_agentmem.search import vectors
from langchain_agentmem.search.vectors import Near, VectorCache, Waiting, numpy
from langchain_agentmem.storage import Engine, Transaction
from langchain_agentmem.storage.background import Lease, TaskKey, run_coroutine
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import all_parts

NAME = "static"
"""What it is called in `index={"embed": …}`."""
DIMENSIONS = 256
"""Numbers of a vector."""


class StaticEmbeddings(Embeddings):
    """Vectors of length one, the same for a text in every process and on every machine.

    A text without a token has a vector of zeros.

    Raises:
        MissingExtra: The extra `[static]` is not installed.
    """

    def __init__(self) -> None:
        self._tokenizer, self._table = _model()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of texts.

        Args:
            texts: Any texts.
        """
        # The tokenizer's own batches start threads, which no fork likes.
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a text.

        Args:
            text: Any text.
        """
        np = numpy()
        readable = text.encode("utf-8", "replace").decode()  # without lone surrogates
        tokens = self._tokenizer.encode(readable, add_special_tokens=False).ids
        total = self._table[tokens].sum(axis=0, dtype=np.float32)
        length = float(np.linalg.norm(total))
        vector: list[float] = (total / length if length else total).tolist()
        return vector


@cache
def _model() -> tuple[Any, Any]:
    """The tokenizer, and the vectors of its tokens in half precision."""
    found = find_spec("wordllama")
    try:
        from safetensors.numpy import load_file  # noqa: PLC0415 - an extra
        from tokenizers import Tokenizer  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra("index['embed'] = 'static'", NAME) from error
    if found is None or found.origin is None:
        raise MissingExtra("index['embed'] = 'static'", NAME)
    folder = Path(found.origin).parent
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    return tokenizer, load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]


T = TypeVar("T")

logger = logging.getLogger(__name__)

EMBED = TaskKey(path_of(()), "embed")
"""The task that gives documents their vectors, one for the whole database."""
INDEX = TaskKey(path_of(()), "index_vectors")
"""The task that makes an index of vectors, where pgvector compares many of them."""
BATCH = 64
"""Documents that are embedded at once."""
PATIENCE = 2.0
"""Seconds that a search waits for the vectors of what was just stored."""
_PROBES = 3  # of a batch that failed, so many are tried alone before the embeddings count as out of order


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
        embedder = Embedder(database, embeddings, dimensions)
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

    Raises:
        MissingExtra: numpy is not installed.
    """

    def __init__(self, database: Database, embeddings: Any, dimensions: int) -> None:
        vectors.numpy()
        self.embeddings = embeddings
        self.dimensions = dimensions
        self._shelf = VectorCache()
        # LangGraph's wrapper of an async function has nothing else.
        self._awaited = getattr(embeddings, "afunc", None) is not None and getattr(embeddings, "func", None) is None
        self._engine, self._background = database.engine, database.background  # it keeps no database open
        self._tasks = [self._background.keep(EMBED, self._due, self._embed_waiting)]
        if self._engine.dialect == "postgres":
            self._tasks.append(self._background.keep(INDEX, _is_unindexed, lambda _: _index(self._engine)))

    def serve(self) -> None:
        """Give what is in the database its vectors, from now on.

        Raises:
            InvalidInput: It has vectors of another size.
        """
        if self._engine.read(vectors.wanted) != self.dimensions:
            self._engine.write(lambda tx: vectors.want(tx, self.dimensions))
        for task in self._tasks:
            task.wake()

    def wake(self, _: Database) -> None:
        """Something was written: go to work in the background."""
        self._tasks[0].wake()

    def close(self) -> None:
        """Go to work no more. What still waits is kept for the next time."""
        for task in self._tasks:
            task.stop()

    def forget(self) -> None:
        """Forget every vector that was read."""
        self._shelf.clear()

    def settle(self) -> None:
        """Give all documents that wait their vectors now.

        A document that the embeddings refuse goes on waiting, and keeps no other from its vector.

        Raises:
            Exception: Whatever the embeddings raise.
        """
        self._tasks[0].settle()

    def near(self, text: str, *, needed: bool = False) -> Near | None:
        """Return the vector of a question; None when the embeddings fail.

        Args:
            text: The question.
            needed: Whether the search can do nothing without. Default: it goes by words then.

        Raises:
            Exception: Whatever the embeddings raise, if it is needed.
        """
        if self._engine.read(lambda tx: vectors.waiting(tx, 1)):
            with place_given_up():
                self._tasks[0].hurry(PATIENCE)
        try:
            vector = abandonable(partial(self._ask, "embed_query", text))
            return Near(vectors.unit(vector, self.dimensions), self._shelf)
        except Exception as error:  # a failing model never breaks a search that can go by words
            if needed or leaves_the_node(error):
                raise
            logger.warning("The embeddings failed, so the search goes by words alone.", exc_info=True)
            return None

    def _ask(self, method: str, given: Any) -> Any:
        """Call a method of the embeddings, or its async twin where there is nothing else."""
        if not self._awaited:
            try:
                return getattr(self.embeddings, method)(given)
            except NotImplementedError:
                self._awaited = True
        return run_coroutine(_awaited(getattr(self.embeddings, f"a{method}"), given))

    def _due(self, tx: Transaction) -> float | None:
        return 0.0 if vectors.waiting(tx, 1) else None

    def _embed_waiting(self, lease: Lease) -> None:
        """Give all documents that wait their vectors, as long as nobody else has taken that over."""
        refused, ticket = None, -1
        while batch := self._engine.write(partial(_next_batch, lease=lease, after=ticket)):
            ticket = batch[-1].ticket
            refused = self._embed_all(batch) or refused
        for task in self._tasks[1:]:
            task.wake()
        if refused is not None:
            raise refused

    def _embed_all(self, batch: Sequence[Waiting]) -> Exception | None:
        """Embed a batch; where it is refused, one document after the other, the likeliest to succeed first.

        Returns:
            Why some were refused, or None.

        Raises:
            Exception: Even the likeliest were refused.
        """
        try:
            self._embed(batch)
            return None  # noqa: TRY300 - what follows is of a batch that was refused
        except Exception as error:
            if not self._engine.usable or len(batch) == 1:
                raise
            refused = error
        done = 0
        for number, each in enumerate(sorted(batch, key=self._length), start=1):
            try:
                self._embed([each])
                done += 1
            except Exception as error:
                if not self._engine.usable or (not done and number == min(_PROBES, len(batch))):
                    raise
                refused = error
        return refused

    def _length(self, each: Waiting) -> int:
        """The length of a document; what cannot be read comes last."""
        try:
            passages = self._engine.read(lambda tx: self._passages(tx, [each]))
        except AgentMemoryError:  # it is damaged
            return sys.maxsize
        return sum(map(len, passages[each]))

    def _embed(self, batch: Sequence[Waiting]) -> None:
        """Give some documents their vectors, outside of any transaction."""
        passages = self._engine.read(lambda tx: self._passages(tx, batch))
        texts = list(dict.fromkeys(text for each in passages.values() for text in each if text.strip()))
        found = self._ask("embed_documents", texts) if texts else []
        if len(found) != len(texts):
            raise InvalidInput(f"The embeddings gave {len(found)} vectors for {len(texts)} texts.")
        packed = {text: vectors.packed(vector, self.dimensions) for text, vector in zip(texts, found, strict=True)}
        kept = {document: [packed[text] for text in each if text in packed] for document, each in passages.items()}
        self._engine.write(lambda tx: vectors.keep(tx, kept))

    def _passages(self, tx: Transaction, batch: Sequence[Waiting]) -> dict[Waiting, Sequence[str]]:
        found: dict[Waiting, Sequence[str]] = {}
        for kind in sorted({each.kind for each in batch}):
            mine = [each for each in batch if each.kind == kind]
            texts = all_parts().texts[kind](tx, [each.owner for each in mine])
            found.update((each, texts.get(each.owner, ())) for each in mine)
        return found


def _is_unindexed(tx: Transaction) -> float | None:
    return 0.0 if vectors.lacks_index(tx) else None


def _index(engine: Engine) -> None:
    """Make the index of vectors."""
    engine.alter(engine.read(vectors.index_statements))


def _next_batch(tx: Transaction, lease: Lease, after: int) -> list[Waiting]:
    return vectors.waiting(tx, BATCH, after=after) if lease.holds(tx) else []


async def _awaited(method: Callable[[Any], Awaitable[Any]], given: Any) -> Any:
    return await method(given)
