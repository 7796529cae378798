"""Vectors of documents: the pending ones, the stored ones, and those nearest to a question's.

A document is stored without its vector and marked as pending in the same transaction. A process with the embeddings
adds the vector later; until then, keyword search finds the document. If PostgreSQL has pgvector when vectors are first
wanted, pgvector compares them, else numpy.

Turns of a conversation are short, so the vector of a message is also mixed with its neighbours'. The message before
counts more if it is a question. Only this module needs numpy, and it loads numpy on demand.

Documents are embedded in the background, in batches, and never block a write. The database records pending documents,
so a crash loses none, and any process with the embeddings continues where another ended. Embedding requires a lease, so
that two processes never embed the same document. If the embeddings fail, keyword search continues, and the embeddings
are retried later.

`StaticEmbeddings` need no model server: each token has a vector of its own, and a text has the mean of its tokens'
vectors. They are read from the wheel `wordllama` (MIT license; 32,000 tokens of 256 numbers, 16 MB in memory). That
package itself is never imported, so there is no network access and no warm-up.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from langchain_core.embeddings import Embeddings

from langchain_agentmem.base.concurrency import PerProcess, release_slot, run_cancellable
from langchain_agentmem.base.namespaces import path_of
from langchain_agentmem.errors import AgentMemoryError, InvalidInput, MissingExtra, is_graph_bubble_up, safe_repr
from langchain_agentmem.search.ranking import VectorScores
from langchain_agentmem.search.search_index import PLACE_BITS, texts_of
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.background import Lease, TaskKey, run_coroutine
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.transaction import Rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Visit = Callable[[Any, Any], None]

PAGE_SIZE = 4_000
_RANGES_AT_ONCE = 32
"""Ranges to request in one go, as a server may be far away."""
MAX_CACHE_BYTES = 2**30
"""Bytes of vectors that a process keeps in memory."""
COSINE_DIGITS = 6
"""Digits of a cosine. Further digits depend on what else is computed at the same time."""

Range = tuple[int, int]

INDEX_THRESHOLD = 50_000
"""The number of vectors from which on pgvector has an index. A search must cover as many to use the index."""
INDEX_SHARE = 0.1
"""The share of all vectors that a search must cover to use the index."""
_MAX_DIMENSIONS, _MAX_INDEX_DIMENSIONS = 16_000, 4_000  # dimensions
_NEXT_WEIGHT, _BEFORE_WEIGHT, _QUESTION_WEIGHT, _SECOND_WEIGHT = 0.4, 0.4, 0.9, 0.2


class PendingEmbedding(NamedTuple):
    """A document without a vector.

    Attributes:
        ticket: The identifier of the document's current state.
        document: The document's number.
        kind: The kind in the index.
        owner: The row that the document stands for.
    """

    ticket: int
    document: int
    kind: str
    owner: int


def enable_vectors(tx: Transaction, dimensions: int) -> None:
    """Enable vectors of a number of dimensions, for existing documents too.

    Args:
        tx: The transaction.
        dimensions: Numbers of a vector.

    Raises:
        InvalidInput: The database has vectors of another size.
    """
    query.lock_writers(tx)
    [state] = query.vector_state(tx)
    if state["dimensions"] is None:
        query.set_dimensions(tx, dimensions=dimensions)
        query.request_all_vectors(tx)
        _begin_pgvector(tx, dimensions)
    elif state["dimensions"] != dimensions:
        raise InvalidInput(
            f"The database has vectors of {state['dimensions']} dimensions, not {dimensions}: use the embeddings that "
            "it was begun with."
        )


def copy_to_pgvector(tx: Transaction, after: int) -> int | None:
    """Copy a page of the stored vectors to pgvector, if it is available.

    Args:
        tx: The transaction.
        after: The vector to begin after: 0, or the last return value.

    Returns:
        The vector to continue after; None if pgvector has all vectors or is not available.
    """
    [state] = query.vector_state(tx)
    dimensions = state["dimensions"]
    if dimensions is None or not (state["pgvector"] or _begin_pgvector(tx, dimensions)):
        return None
    if not (rows := query.vectors_after(tx, after=after, limit=PAGE_SIZE)):
        return None
    _insert_pgvector(
        tx, [{"id": row["document_id"], "passage": row["passage"], "vector": row["vector"]} for row in rows]
    )
    return int(rows[-1]["id"])


def empty_pgvector(tx: Transaction) -> None:
    """Delete the vectors copied to pgvector."""
    [state] = query.vector_state(tx)
    if state["pgvector"]:
        query.empty_pgvector(tx)


def _index_delay(tx: Transaction) -> float | None:
    """Return 0 if pgvector needs an index that this role may make, else None."""
    [state] = query.vector_state(tx)
    if not state["pgvector"] or state["newest"] < INDEX_THRESHOLD or state["dimensions"] > _MAX_INDEX_DIMENSIONS:
        return None
    return 0.0 if any(row["lacking"] for row in query.vector_index(tx, min_vectors=INDEX_THRESHOLD)) else None


def _is_index_usable(tx: Transaction, ranges: Sequence[Range], vectors: int) -> bool:
    """Return true if the vector index suits a search through some ranges.

    The ranges must hold so large a share of all documents that the filter leaves out little.
    """
    if vectors < INDEX_THRESHOLD:
        return False
    [totals] = query.search_totals(tx, ranges=json.dumps(ranges))
    is_large = totals["documents"] >= max(INDEX_THRESHOLD, vectors * INDEX_SHARE)
    return bool(is_large and any(row["valid"] for row in query.vector_index(tx, min_vectors=0)))


def _begin_pgvector(tx: Transaction, dimensions: int) -> bool:
    """Let pgvector compare vectors from now on; return false if it cannot."""
    [found] = query.pgvector_available(tx)
    if not found["available"] or dimensions > _MAX_DIMENSIONS:
        return False
    query.create_pgvector(tx)
    query.enable_pgvector(tx)
    return True


def load_pending(tx: Transaction, limit: int, *, after: int = -1) -> list[PendingEmbedding]:
    """Return the documents that have waited longest for vectors, from those after a ticket."""
    rows = query.unembedded_documents(tx, after=after, limit=limit)
    return [PendingEmbedding(row["ticket"], row["document_id"], row["kind"], row["owner"]) for row in rows]


def store_vectors(tx: Transaction, vectors: Mapping[PendingEmbedding, Sequence[bytes]]) -> int:
    """Store the vectors of documents that have not changed since they were read.

    Args:
        tx: The transaction.
        vectors: For each document the vectors of its passages, as `pack_vector` returns them.

    Returns:
        The number of documents whose vectors were stored.
    """
    query.lock_vectors(tx)
    unchanged = [each for each in sorted(vectors) if query.take_unembedded(tx, ticket=each.ticket)]
    rows = [
        {"id": each.document, "passage": place, "vector": vector}
        for each in unchanged
        for place, vector in enumerate(vectors[each])
    ]
    if rows:
        query.insert_vector.run_many(tx, rows)
        [state] = query.vector_state(tx)
        if state["pgvector"]:
            _insert_pgvector(tx, rows)
    return len(unchanged)


def _insert_pgvector(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
    formatted = [{**row, "vector": _format_vector(_unpack_vectors(row["vector"]))} for row in rows]
    query.insert_pgvector.run_many(tx, formatted)


def pack_vector(vector: Sequence[float], dimensions: int) -> bytes:
    """Return a vector of length one as it is stored, in half precision.

    Arguments and errors are those of `normalize`.
    """
    packed: bytes = normalize(vector, dimensions).astype("<f2").tobytes()
    return packed


def normalize(vector: Sequence[float], dimensions: int) -> Floats:
    """Scale a vector to length one; leave a vector of zeros unchanged.

    Args:
        vector: The numbers.
        dimensions: The required number of them.

    Raises:
        InvalidInput: Their number differs, or they are not finite numbers.
    """
    np = numpy()
    try:
        array = np.asarray(vector, dtype="<f4")
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"The embeddings gave {safe_repr(vector)} for a vector.") from error
    if array.shape != (dimensions,):
        raise InvalidInput(f"The embeddings gave a vector of the shape {array.shape}, not ({dimensions},).")
    if not np.isfinite(array).all():
        raise InvalidInput(f"The numbers of a vector must be finite, got {safe_repr(vector)} from the embeddings.")
    length = float(np.linalg.norm(array))
    found: Floats = array / length if length else array
    return found


def _unpack_vectors(vectors: Any) -> Any:
    """Return the numbers of stored vectors."""
    return numpy().frombuffer(bytes(vectors), dtype="<f2")


class VectorQuery(NamedTuple):
    """The vector of a question, and the cache of the database's vectors.

    Attributes:
        vector: The question's vector, as `normalize` returns it.
        cache: The cache of vectors that were read before.
    """

    vector: Floats
    cache: VectorCache

    def nearest(self, tx: Transaction, ranges: Sequence[Range], limit: int) -> dict[int, float]:
        """Return the documents in some ranges that are nearest to the question, with cosines.

        The nearest come first.
        """
        [state] = query.vector_state(tx)
        if state["pgvector"]:
            wanted = {"vector": _format_vector(self.vector), "ranges": json.dumps(ranges), "limit": limit}
            rows: Sequence[Any] = ()
            if _is_index_usable(tx, ranges, state["newest"]):
                rows = query.nearest_indexed(tx, **wanted)
            if len(rows) < limit:
                rows = query.nearest_pgvector(tx, **wanted)
            return {row["document_id"]: 1 - row["distance"] for row in rows}
        best: dict[int, float] = {}

        def collect(numbers: Any, matrix: Any) -> None:
            for number, cosine in _top_cosines(numbers, matrix @ self.vector, limit).items():
                best[number] = max(cosine, best.get(number, -1.0))

        self.cache.read_ranges(tx, ranges, len(self.vector), collect)
        order = sorted(best, key=lambda number: (-best[number], -number))[:limit]
        return {number: best[number] for number in order}

    def closeness(
        self,
        tx: Transaction,
        numbers: Collection[int],
        related: Collection[int],
        questions: Collection[int],
        isolated: Collection[int] = (),
    ) -> VectorScores:
        """Return the cosines of some documents to the question.

        Args:
            tx: The transaction.
            numbers: The documents and their neighbours.
            related: The series whose documents are neighbours of each other.
            questions: The documents that are questions.
            isolated: Documents that are not mixed into their neighbours.
        """
        np = numpy()
        rows = query.vectors_of(tx, ids=json.dumps(sorted(numbers)))
        target = self.vector
        vectors: dict[int, Floats] = {}
        own: dict[int, float] = {}
        for row in rows:  # of several passages the nearest one counts
            number, vector = row["document_id"], _unpack_vectors(row["vector"]).astype(np.float32)
            vectors[number] = vector
            own[number] = max(float(vector @ target), own.get(number, -1.0))
        mixed = dict(own)
        for number, vector in vectors.items():
            if number >> PLACE_BITS in related:
                mixture = vector
                before = _QUESTION_WEIGHT if number - 1 in questions else _BEFORE_WEIGHT
                for offset, weight in ((-1, before), (1, _NEXT_WEIGHT), (-2, _SECOND_WEIGHT), (2, _SECOND_WEIGHT)):
                    other = number + offset
                    if other >> PLACE_BITS == number >> PLACE_BITS and other in vectors and other not in isolated:
                        mixture = mixture + weight * vectors[other]
                length = float(np.linalg.norm(mixture))
                mixed[number] = float(mixture @ target) / length if length else 0.0
        return VectorScores(own, mixed)


class _Block(NamedTuple):
    """Vectors of some ranges of documents, with the state in which they were read.

    Attributes:
        newest: The last vector stored at that time.
        removed: The number of removals of vectors until that time.
        numbers: The documents.
        matrix: The vectors, a row for each of `numbers`.
    """

    newest: int
    removed: int
    numbers: Any
    matrix: Any


class VectorCache:
    """A cache of recently read vectors, up to `MAX_CACHE_BYTES`.

    Vectors that were added since are read when they are needed.
    """

    _lock = PerProcess(threading.Lock)
    _blocks: PerProcess[OrderedDict[tuple[Range, ...], _Block]] = PerProcess(OrderedDict)

    def read_ranges(self, tx: Transaction, ranges: Sequence[Range], dimensions: int, visit: Visit) -> None:
        """Pass the vectors in some ranges, with their documents' numbers, to `visit` in parts."""
        np = numpy()
        [state] = query.vector_state(tx)
        key = tuple(ranges)
        with self._lock:
            block = self._blocks.get(key)
        if block is None or not _is_current(block, state):
            block = _Block(-1, state["removals"], np.empty(0, np.int64), np.empty((0, dimensions), np.float32))
            pages = _read_all(tx, ranges)
        else:
            pages = _read_newer(tx, block.newest, state["newest"], ranges)
        visit(block.numbers, block.matrix)
        numbers, parts, size = [block.numbers], [block.matrix], block.matrix.nbytes
        for rows in filter(None, pages):
            documents = np.fromiter((row["document_id"] for row in rows), np.int64, len(rows))
            stored = _unpack_vectors(b"".join(bytes(row["vector"]) for row in rows))
            matrix = stored.reshape(len(rows), -1).astype(np.float32)
            visit(documents, matrix)
            size += matrix.nbytes
            if size <= MAX_CACHE_BYTES:
                numbers.append(documents)
                parts.append(matrix)
        if block.newest < state["newest"]:
            with self._lock:
                self._blocks.pop(key, None)  # so that the block used last is evicted last
                if size <= MAX_CACHE_BYTES:
                    merged = np.concatenate(numbers), np.concatenate(parts)
                    self._blocks[key] = _Block(state["newest"], state["removals"], *merged)
                while sum(each.matrix.nbytes for each in self._blocks.values()) > MAX_CACHE_BYTES:
                    self._blocks.popitem(last=False)

    def clear(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._blocks.clear()


def _is_current(block: _Block, state: Any) -> bool:
    """Return true if a block is still valid and reading only the newer vectors is quicker.

    After a tenant has moved, its schema may show less than what was read.
    """
    page_limit = max(PAGE_SIZE, 4 * len(block.numbers))
    return bool(block.removed == state["removals"] and block.newest <= state["newest"] <= block.newest + page_limit)


def _top_cosines(numbers: Any, cosines: Floats, limit: int) -> dict[int, float]:
    """Return the highest cosines by document number; of equals, the newest.

    Each document may have several cosines.
    """
    np = numpy()
    wanted = limit
    while True:  # until there are so many documents
        nearest = np.arange(len(cosines))
        if wanted < len(cosines):
            nearest = np.flatnonzero(cosines >= np.partition(cosines, -wanted)[-wanted] - 10**-COSINE_DIGITS)
        rounded = np.minimum(np.round(cosines[nearest], COSINE_DIGITS), 1)
        order = np.lexsort((-numbers[nearest], -rounded))
        best: dict[int, float] = {}
        for number, cosine in zip(numbers[nearest][order].tolist(), rounded[order].tolist(), strict=True):
            best.setdefault(number, cosine)
            if len(best) == limit:
                return best
        if wanted >= len(cosines):
            return best
        wanted *= 4


def numpy() -> Any:
    """Return the module numpy.

    Raises:
        MissingExtra: numpy is not installed.
    """
    try:
        import numpy as np  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("Search by vectors", "vectors") from error
    return np


def _format_vector(vector: Any) -> str:
    """Format a vector for pgvector."""
    return json.dumps(vector.tolist())


def _read_all(tx: Transaction, ranges: Sequence[Range]) -> Iterator[Rows]:
    """Read every vector in some ranges, in the order of the documents."""
    for position in range(0, len(ranges), _RANGES_AT_ONCE):
        batch = ranges[position : position + _RANGES_AT_ONCE]
        first_pages = [query.vectors_from.lazy(tx, low=low, end=end, passage=-1, limit=PAGE_SIZE) for low, end in batch]
        for start, (_, end) in zip(first_pages, batch, strict=True):
            yield (rows := start)
            while len(rows) == PAGE_SIZE:
                last = rows[-1]
                rows = query.vectors_from(
                    tx, low=last["document_id"], end=end, passage=last["passage"], limit=PAGE_SIZE
                )
                yield rows


def _read_newer(tx: Transaction, after: int, newest: int, ranges: Sequence[Range]) -> Iterator[Rows]:
    """Read the vectors that were added to some ranges after a given one."""
    while after < newest and (
        rows := query.vectors_within(tx, after=after, ranges=json.dumps(ranges), limit=PAGE_SIZE)
    ):
        yield rows
        after = rows[-1]["id"] if len(rows) == PAGE_SIZE else newest


STATIC_NAME = "static"
"""The name of the static embeddings in `index={"embed": …}`."""
STATIC_DIMENSIONS = 256
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
        """Return the vectors of texts.

        Args:
            texts: Any texts.
        """
        # The tokenizer's own batches start threads, which no fork likes.
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text.

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
    """Load the tokenizer, and the vectors of its tokens in half precision."""
    found = find_spec("wordllama")
    try:
        from safetensors.numpy import load_file  # noqa: PLC0415 - an extra
        from tokenizers import Tokenizer  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra("index['embed'] = 'static'", STATIC_NAME) from error
    if found is None or found.origin is None:
        raise MissingExtra("index['embed'] = 'static'", STATIC_NAME)
    folder = Path(found.origin).parent
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    return tokenizer, load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]


T = TypeVar("T")

logger = logging.getLogger(__name__)

EMBED_TASK = TaskKey(path_of(()), "embed")
"""The task that embeds documents, one for the whole database."""
INDEX_TASK = TaskKey(path_of(()), "index_vectors")
"""The task that creates an index of vectors, if pgvector compares many of them."""
BATCH_SIZE = 64
"""Documents in one call of the embeddings."""
SEARCH_WAIT = 2.0
"""Seconds that a search waits for the vectors of newly stored documents."""
_PROBES = 3  # of a batch that failed, so many are tried alone before the embeddings count as out of order


def embed_with(database: Database, embeddings: Any, dimensions: int) -> None:
    """Embed all searchable documents of a database from now on.

    Args:
        database: The database.
        embeddings: LangChain `Embeddings`.
        dimensions: Numbers of a vector.

    Raises:
        InvalidInput: The database has vectors of another size.
        MissingExtra: numpy is not installed.
    """
    embedder = embedder_of(database)
    if embedder is None or embedder.dimensions != dimensions:
        embedder = Embedder(database, embeddings, dimensions)
        embedder.start()
        weakref.finalize(database, embedder.close).atexit = False
        database.attachments[Embedder] = embedder
        database.caches.add(embedder)
        database.pending_writers.add(embedder)
        database.on_write[:] = [embedder.wake]


def embedder_of(database: Database) -> Embedder | None:
    """Return the embedder of a database, or None if it has no embeddings."""
    return database.attachments.get(Embedder)


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
        numpy()
        self.embeddings = embeddings
        self.dimensions = dimensions
        self._cache = VectorCache()
        # LangGraph's wrapper of an async function has nothing else.
        self._is_async = getattr(embeddings, "afunc", None) is not None and getattr(embeddings, "func", None) is None
        self._engine, self._background = database.engine, database.background  # it keeps no database open
        self._tasks = [self._background.add_task(EMBED_TASK, _embed_delay, self._embed_waiting)]
        if self._engine.dialect == "postgres":
            self._tasks.append(self._background.add_task(INDEX_TASK, _index_delay, self._create_index))

    def start(self) -> None:
        """Embed the documents of the database from now on.

        Raises:
            InvalidInput: The database has vectors of another size.
        """
        [state] = self._engine.read(query.vector_state)
        if state["dimensions"] != self.dimensions:
            self._engine.write(lambda tx: enable_vectors(tx, self.dimensions))
        for task in self._tasks:
            task.wake()

    def wake(self, _: Database) -> None:
        """Start work in the background after a write."""
        self._tasks[0].wake()

    def close(self) -> None:
        """Stop working. Pending documents remain recorded for the next time."""
        for task in self._tasks:
            task.stop()

    def forget(self) -> None:
        """Forget every vector that was read."""
        self._cache.clear()

    def settle(self) -> None:
        """Embed all pending documents now.

        A document that the embeddings refuse remains pending, and does not block other documents.

        Raises:
            Exception: Whatever the embeddings raise.
        """
        self._tasks[0].settle()

    def make_query(self, text: str) -> VectorQuery | None:
        """Return the vector of a question; None when the embeddings fail.

        Args:
            text: The question.
        """
        if self._engine.read(lambda tx: load_pending(tx, 1)):
            with release_slot():
                self._tasks[0].run_now(SEARCH_WAIT)
        try:
            vector = run_cancellable(partial(self._call_embeddings, "embed_query", text))
            return VectorQuery(normalize(vector, self.dimensions), self._cache)
        except Exception as error:  # a failing model never breaks a search that can go by words
            if is_graph_bubble_up(error):
                raise
            logger.warning("The embeddings failed, so the search goes by words alone.", exc_info=True)
            return None

    def _call_embeddings(self, method: str, argument: Any) -> Any:
        """Call a method of the embeddings, or its async version if there is no other."""
        if not self._is_async:
            try:
                return getattr(self.embeddings, method)(argument)
            except NotImplementedError:
                self._is_async = True
        return run_coroutine(_await_method(getattr(self.embeddings, f"a{method}"), argument))

    def _embed_waiting(self, lease: Lease) -> None:
        """Embed all pending documents, as long as this process holds the lease."""
        refused, ticket = None, -1

        def next_batch(tx: Transaction) -> list[PendingEmbedding]:
            return load_pending(tx, BATCH_SIZE, after=ticket) if lease.renew(tx) else []

        while batch := self._engine.write(next_batch):
            ticket = batch[-1].ticket
            refused = self._embed_all(batch) or refused
        for task in self._tasks[1:]:
            task.wake()
        if refused is not None:
            raise refused

    def _create_index(self, _: Lease) -> None:
        """Create the index of vectors, outside of any transaction as its statements require."""
        self._engine.alter(
            self._engine.read(lambda tx: [row["statement"] for row in query.vector_index_statements(tx)])
        )

    def _embed_all(self, batch: Sequence[PendingEmbedding]) -> Exception | None:
        """Embed a batch; if it is refused, embed its documents one by one.

        The documents that are likeliest to succeed come first.

        Returns:
            The error that some documents were refused with, or None.

        Raises:
            Exception: Even the likeliest documents were refused.
        """
        try:
            self._embed(batch)
            return None  # noqa: TRY300 - what follows is of a batch that was refused
        except Exception as error:
            if not self._engine.is_open or len(batch) == 1:
                raise
            refused = error
        done = 0
        for number, each in enumerate(sorted(batch, key=self._text_length), start=1):
            try:
                self._embed([each])
                done += 1
            except Exception as error:
                if not self._engine.is_open or (not done and number == min(_PROBES, len(batch))):
                    raise
                refused = error
        return refused

    def _text_length(self, each: PendingEmbedding) -> int:
        """Return the length of a document; an unreadable document sorts last."""
        try:
            passages = self._engine.read(lambda tx: self._load_passages(tx, [each]))
        except AgentMemoryError:  # it is damaged
            return sys.maxsize
        return sum(map(len, passages[each]))

    def _embed(self, batch: Sequence[PendingEmbedding]) -> None:
        """Embed some documents, outside of any transaction."""
        passages = self._engine.read(lambda tx: self._load_passages(tx, batch))
        texts = list(dict.fromkeys(text for each in passages.values() for text in each if text.strip()))
        found = self._call_embeddings("embed_documents", texts) if texts else []
        if len(found) != len(texts):
            raise InvalidInput(f"The embeddings gave {len(found)} vectors for {len(texts)} texts.")
        packed = {text: pack_vector(vector, self.dimensions) for text, vector in zip(texts, found, strict=True)}
        vectors = {document: [packed[text] for text in each if text in packed] for document, each in passages.items()}
        self._engine.write(lambda tx: store_vectors(tx, vectors))

    @staticmethod
    def _load_passages(tx: Transaction, batch: Sequence[PendingEmbedding]) -> dict[PendingEmbedding, Sequence[str]]:
        texts = texts_of(tx, ((each.kind, each.owner) for each in batch))
        return {each: texts[each.kind, each.owner] for each in batch}


def _embed_delay(tx: Transaction) -> float | None:
    return 0.0 if load_pending(tx, 1) else None


async def _await_method(method: Callable[[Any], Awaitable[Any]], argument: Any) -> Any:
    return await method(argument)
