"""Vectors of documents: embedding, storage, and comparison with the vector of a search query.

A document is stored without its vector and marked as pending in the same transaction. A process with the embeddings
adds the vector later; until then, keyword search finds the document. A document may have several passages, each with a
vector. pgvector compares vectors if PostgreSQL has it when vectors are enabled or copied; otherwise numpy does.

Messages are short, so a message also has a second score, for a mixture of its vector and its neighbours' vectors. A
preceding question has more weight than other neighbours. Only this module needs numpy, and it loads numpy on demand.

Documents are embedded in the background, in batches, and never block a write. The database records pending documents,
so a crash loses none, and any process with the embeddings can continue the work. Embedding requires a lease, so that
two processes never embed the same document. If the embeddings fail, keyword search continues, and embedding is retried
later.

`StaticEmbeddings` need no model server: each token has a fixed vector, and the vector of a text is the mean of its
tokens' vectors. The token vectors are read from files of the package `wordllama` (MIT license; 32,000 tokens of 256
numbers, 16 MB in memory). The package is never imported, so there is no network access and no warm-up.
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
from typing import TYPE_CHECKING, Any, NamedTuple

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
"""Maximum vectors that one query reads."""
_RANGE_BATCH = 32
"""Ranges of document numbers to request in one round trip to the server."""
MAX_CACHE_BYTES = 2**30
"""Maximum bytes of vectors that a process keeps in memory."""
COSINE_DIGITS = 6
"""Digits to which cosines are rounded. Further digits depend on which other cosines are computed in the same call."""

Range = tuple[int, int]
"""A range of document numbers: its start, and its end, exclusive."""

INDEX_THRESHOLD = 50_000
"""Minimum vectors to create an index in pgvector, and minimum documents that a search must cover to use it."""
INDEX_SHARE = 0.1
"""The minimum share of all vectors that a search must cover to use the index."""
_MAX_DIMENSIONS, _MAX_INDEX_DIMENSIONS = 16_000, 4_000  # limits of pgvector
# The weights of neighbours' vectors: the next document, the previous one, the previous one if it is a question, and
# documents at distance 2.
_NEXT_WEIGHT, _PREVIOUS_WEIGHT, _QUESTION_WEIGHT, _SECOND_WEIGHT = 0.4, 0.4, 0.9, 0.2


class PendingEmbedding(NamedTuple):
    """A document without a vector.

    Attributes:
        ticket: The identifier of the document's current text. A changed document gets another ticket.
        document: The document's number.
        kind: The kind in the index.
        owner: The id of the row with the document's text.
    """

    ticket: int
    document: int
    kind: str
    owner: int


def enable_vectors(tx: Transaction, dimensions: int) -> None:
    """Enable vectors, and mark all existing documents as pending.

    Args:
        tx: The transaction.
        dimensions: The number of dimensions of a vector.

    Raises:
        InvalidInput: The database has vectors of another size.
    """
    query.lock_writers(tx)
    [state] = query.vector_state(tx)
    if state["dimensions"] is None:
        query.set_dimensions(tx, dimensions=dimensions)
        query.request_all_vectors(tx)
        _enable_pgvector(tx, dimensions)
    elif state["dimensions"] != dimensions:
        problem = f"The database has vectors of {state['dimensions']} dimensions, not {dimensions}."
        raise InvalidInput(f"{problem} Use the embeddings that the database was created with.")


def copy_to_pgvector(tx: Transaction, after: int) -> int | None:
    """Copy a page of the stored vectors to pgvector, if it is available.

    Args:
        tx: The transaction.
        after: The last return value; 0 for the first page.

    Returns:
        The id of the last copied vector; None if all vectors have been copied, or pgvector is not available.
    """
    [state] = query.vector_state(tx)
    dimensions = state["dimensions"]
    if dimensions is None or not (state["pgvector"] or _enable_pgvector(tx, dimensions)):
        return None
    if not (rows := query.vectors_after(tx, after=after, limit=PAGE_SIZE)):
        return None
    _add_pgvector(tx, [{"id": row["document_id"], "passage": row["passage"], "vector": row["vector"]} for row in rows])
    return int(rows[-1]["id"])


def empty_pgvector(tx: Transaction) -> None:
    """Delete the vectors copied to pgvector."""
    [state] = query.vector_state(tx)
    if state["pgvector"]:
        query.empty_pgvector(tx)


def _index_delay(tx: Transaction) -> float | None:
    """Return the delay of `INDEX_TASK`: 0 if an index is missing and possible, else None."""
    [state] = query.vector_state(tx)
    if not state["pgvector"] or state["newest"] < INDEX_THRESHOLD or state["dimensions"] > _MAX_INDEX_DIMENSIONS:
        return None
    return 0.0 if any(row["lacking"] for row in query.vector_index(tx, min_vectors=INDEX_THRESHOLD)) else None


def _is_index_usable(tx: Transaction, ranges: Sequence[Range], vectors: int) -> bool:
    """Return true if a search through some ranges should use the vector index.

    pgvector filters the results of the index by range. So the ranges must cover a large share of all documents, or too
    few results would remain.
    """
    if vectors < INDEX_THRESHOLD:
        return False
    [totals] = query.search_totals(tx, ranges=json.dumps(ranges))
    is_large = totals["documents"] >= max(INDEX_THRESHOLD, vectors * INDEX_SHARE)
    return bool(is_large and any(row["valid"] for row in query.vector_index(tx, min_vectors=0)))


def _enable_pgvector(tx: Transaction, dimensions: int) -> bool:
    """Enable pgvector; return false if it is missing or its maximum dimensions are exceeded."""
    [row] = query.pgvector_available(tx)
    if not row["available"] or dimensions > _MAX_DIMENSIONS:
        return False
    query.create_pgvector(tx)
    query.enable_pgvector(tx)
    return True


def load_pending(tx: Transaction, limit: int, *, after: int = -1) -> list[PendingEmbedding]:
    """Return the pending documents with the lowest tickets above `after`, the oldest first."""
    rows = query.unembedded_documents(tx, after=after, limit=limit)
    return [PendingEmbedding(row["ticket"], row["document_id"], row["kind"], row["owner"]) for row in rows]


def store_vectors(tx: Transaction, vectors: Mapping[PendingEmbedding, Sequence[bytes]]) -> int:
    """Store the vectors of documents, except those that have changed since they were read.

    Args:
        tx: The transaction.
        vectors: The vectors of each document's passages, as `pack_vector` returns them.

    Returns:
        The number of documents whose vectors were stored.
    """
    query.lock_vectors(tx)
    unchanged = [pending for pending in sorted(vectors) if query.take_unembedded(tx, ticket=pending.ticket)]
    rows = [
        {"id": pending.document, "passage": passage, "vector": vector}
        for pending in unchanged
        for passage, vector in enumerate(vectors[pending])
    ]
    if rows:
        query.insert_vector.run_many(tx, rows)
        [state] = query.vector_state(tx)
        if state["pgvector"]:
            _add_pgvector(tx, rows)
    return len(unchanged)


def _add_pgvector(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
    formatted = [{**row, "vector": _format_vector(_unpack_vectors(row["vector"]))} for row in rows]
    query.insert_pgvector.run_many(tx, formatted)


def pack_vector(vector: Sequence[float], dimensions: int) -> bytes:
    """Scale a vector to length one, and encode it in half precision for storage.

    Arguments and errors are those of `normalize`.
    """
    return normalize(vector, dimensions).astype("<f2").tobytes()


def normalize(vector: Sequence[float], dimensions: int) -> Floats:
    """Scale a vector to length one; leave a vector of zeros unchanged.

    Args:
        vector: The numbers.
        dimensions: The required number of dimensions.

    Raises:
        InvalidInput: The number of dimensions differs, or a number is not finite.
    """
    np = numpy()
    try:
        array = np.asarray(vector, dtype="<f4")
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"The embeddings returned {safe_repr(vector)}, which is not a vector of numbers.") from error
    if array.shape != (dimensions,):
        raise InvalidInput(f"The embeddings returned a vector of shape {array.shape}, not ({dimensions},).")
    if not np.isfinite(array).all():
        raise InvalidInput(f"The numbers of a vector must be finite, got {safe_repr(vector)} from the embeddings.")
    length = float(np.linalg.norm(array))
    normalized: Floats = array / length if length else array
    return normalized


def _unpack_vectors(vectors: Any) -> Any:
    """Decode stored vectors into one array of numbers."""
    return numpy().frombuffer(bytes(vectors), dtype="<f2")


class VectorQuery(NamedTuple):
    """The vector of a search query, with methods that compare it with the database's vectors.

    Attributes:
        vector: The query's vector, as `normalize` returns it.
        cache: The cache of vectors read from the database.
    """

    vector: Floats
    cache: VectorCache

    def nearest(self, tx: Transaction, ranges: Sequence[Range], limit: int) -> dict[int, float]:
        """Return the documents in some ranges that are nearest to the query, with cosines.

        The document with the highest cosine comes first.
        """
        [state] = query.vector_state(tx)
        if state["pgvector"]:
            params = {"vector": _format_vector(self.vector), "ranges": json.dumps(ranges), "limit": limit}
            rows: Sequence[Any] = ()
            if _is_index_usable(tx, ranges, state["newest"]):
                rows = query.nearest_indexed(tx, **params)
            if len(rows) < limit:
                rows = query.nearest_pgvector(tx, **params)
            return {row["document_id"]: 1 - row["distance"] for row in rows}
        best: dict[int, float] = {}

        def collect(numbers: Any, matrix: Any) -> None:
            for number, cosine in _top_cosines(numbers, matrix @ self.vector, limit).items():
                best[number] = max(cosine, best.get(number, -1.0))

        self.cache.read_ranges(tx, ranges, len(self.vector), collect)
        order = sorted(best, key=lambda number: (-best[number], -number))[:limit]
        return {number: best[number] for number in order}

    def score_documents(
        self,
        tx: Transaction,
        numbers: Collection[int],
        related: Collection[int],
        questions: Collection[int],
        isolated: Collection[int] = (),
    ) -> VectorScores:
        """Return the cosines between the query and some documents, alone and with neighbours.

        Args:
            tx: The transaction.
            numbers: The numbers of the documents and their neighbours.
            related: The numbers of the series in which adjacent documents are neighbours.
            questions: The numbers of the documents whose text is a question.
            isolated: The numbers of documents that are not mixed into their neighbours.
        """
        np = numpy()
        rows = query.vectors_of(tx, ids=json.dumps(sorted(numbers)))
        query_vector = self.vector
        vectors: dict[int, Floats] = {}
        own: dict[int, float] = {}
        for row in rows:  # the nearest passage of a document determines its cosine
            number, vector = row["document_id"], _unpack_vectors(row["vector"]).astype(np.float32)
            vectors[number] = vector
            own[number] = max(float(vector @ query_vector), own.get(number, -1.0))
        mixed = dict(own)
        for number, vector in vectors.items():
            if number >> PLACE_BITS in related:
                mixture = vector
                previous = _QUESTION_WEIGHT if number - 1 in questions else _PREVIOUS_WEIGHT
                for offset, weight in ((-1, previous), (1, _NEXT_WEIGHT), (-2, _SECOND_WEIGHT), (2, _SECOND_WEIGHT)):
                    other = number + offset
                    if other >> PLACE_BITS == number >> PLACE_BITS and other in vectors and other not in isolated:
                        mixture = mixture + weight * vectors[other]
                length = float(np.linalg.norm(mixture))
                mixed[number] = float(mixture @ query_vector) / length if length else 0.0
        return VectorScores(own, mixed)


class _Block(NamedTuple):
    """The vectors of some ranges, with the state of the database when they were read.

    Attributes:
        newest_id: The id of the newest vector in the database.
        removals: The number of times that the database has removed vectors.
        numbers: The documents' numbers.
        matrix: The vectors, a row for each of `numbers`.
    """

    newest_id: int
    removals: int
    numbers: Any
    matrix: Any


class VectorCache:
    """A cache of recently read vectors, up to `MAX_CACHE_BYTES`.

    Each search extends the cached block of its ranges by the vectors added since the previous search.
    """

    _lock = PerProcess(threading.Lock)
    _blocks: PerProcess[OrderedDict[tuple[Range, ...], _Block]] = PerProcess(OrderedDict)

    def read_ranges(self, tx: Transaction, ranges: Sequence[Range], dimensions: int, visit: Visit) -> None:
        """Pass the document numbers and the vectors in some ranges to `visit`, in several calls."""
        np = numpy()
        [state] = query.vector_state(tx)
        key = tuple(ranges)
        with self._lock:
            block = self._blocks.get(key)
        if block is None or not _is_current(block, state):
            block = _Block(-1, state["removals"], np.empty(0, np.int64), np.empty((0, dimensions), np.float32))
            pages = _read_all(tx, ranges)
        else:
            pages = _read_newer(tx, block.newest_id, state["newest"], ranges)
        visit(block.numbers, block.matrix)
        numbers, matrices, size = [block.numbers], [block.matrix], block.matrix.nbytes
        for rows in filter(None, pages):
            page_numbers = np.fromiter((row["document_id"] for row in rows), np.int64, len(rows))
            values = _unpack_vectors(b"".join(bytes(row["vector"]) for row in rows))
            matrix = values.reshape(len(rows), -1).astype(np.float32)
            visit(page_numbers, matrix)
            size += matrix.nbytes
            if size <= MAX_CACHE_BYTES:
                numbers.append(page_numbers)
                matrices.append(matrix)
        if block.newest_id < state["newest"]:
            with self._lock:
                self._blocks.pop(key, None)  # the block used most recently is evicted last
                if size <= MAX_CACHE_BYTES:
                    merged = np.concatenate(numbers), np.concatenate(matrices)
                    self._blocks[key] = _Block(state["newest"], state["removals"], *merged)
                while sum(cached.matrix.nbytes for cached in self._blocks.values()) > MAX_CACHE_BYTES:
                    self._blocks.popitem(last=False)

    def clear(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._blocks.clear()


def _is_current(block: _Block, state: Any) -> bool:
    """Return true if a block is valid, and extending it is faster than reading all vectors.

    If a tenant was moved, the tenant's schema may have fewer vectors than the block. The block is then invalid.
    """
    max_newest_id = block.newest_id + max(PAGE_SIZE, 4 * len(block.numbers))
    return bool(block.removals == state["removals"] and block.newest_id <= state["newest"] <= max_newest_id)


def _top_cosines(numbers: Any, cosines: Floats, limit: int) -> dict[int, float]:
    """Return the highest cosines by document number. Newer documents precede equal older ones.

    A document with several passages has several cosines. The highest one is used.
    """
    np = numpy()
    count = limit  # the number of passages to sort; increased until they belong to `limit` documents
    while True:
        nearest = np.arange(len(cosines))
        if count < len(cosines):
            nearest = np.flatnonzero(cosines >= np.partition(cosines, -count)[-count] - 10**-COSINE_DIGITS)
        rounded = np.minimum(np.round(cosines[nearest], COSINE_DIGITS), 1)
        order = np.lexsort((-numbers[nearest], -rounded))
        best: dict[int, float] = {}
        for number, cosine in zip(numbers[nearest][order].tolist(), rounded[order].tolist(), strict=True):
            best.setdefault(number, cosine)
            if len(best) == limit:
                return best
        if count >= len(cosines):
            return best
        count *= 4


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
    """Yield pages of all vectors in some ranges, in the order of the documents."""
    for position in range(0, len(ranges), _RANGE_BATCH):
        batch = ranges[position : position + _RANGE_BATCH]
        first_pages = [query.vectors_from.lazy(tx, low=low, end=end, passage=-1, limit=PAGE_SIZE) for low, end in batch]
        for first_page, (_, end) in zip(first_pages, batch, strict=True):
            yield (rows := first_page)
            while len(rows) == PAGE_SIZE:
                row = rows[-1]
                rows = query.vectors_from(tx, low=row["document_id"], end=end, passage=row["passage"], limit=PAGE_SIZE)
                yield rows


def _read_newer(tx: Transaction, after: int, end: int, ranges: Sequence[Range]) -> Iterator[Rows]:
    """Yield pages of the vectors in some ranges whose ids are greater than `after`."""
    while after < end and (rows := query.vectors_within(tx, after=after, ranges=json.dumps(ranges), limit=PAGE_SIZE)):
        yield rows
        after = rows[-1]["id"] if len(rows) == PAGE_SIZE else end


STATIC_NAME = "static"
"""The name of the static embeddings in `index={"embed": …}`."""
STATIC_DIMENSIONS = 256
"""The number of dimensions of a static vector."""


class StaticEmbeddings(Embeddings):
    """An embedding model with a fixed vector for each token.

    A text has the same vector in every process. Vectors have length one. The vector of a text without tokens is zero.

    Raises:
        MissingExtra: The extra `[static]` is not installed.
    """

    def __init__(self) -> None:
        self._tokenizer, self._table = _load_model()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts.

        Args:
            texts: Any texts.
        """
        # The tokenizer's own batches start threads, which are unsafe in forked processes.
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text.

        Args:
            text: Any text.
        """
        np = numpy()
        readable = text.encode("utf-8", "replace").decode()  # replaces lone surrogates
        tokens = self._tokenizer.encode(readable, add_special_tokens=False).ids
        total = self._table[tokens].sum(axis=0, dtype=np.float32)
        length = float(np.linalg.norm(total))
        vector: list[float] = (total / length if length else total).tolist()
        return vector


@cache
def _load_model() -> tuple[Any, Any]:
    """Load the tokenizer, and the vectors of its tokens in half precision."""
    spec = find_spec("wordllama")
    try:
        from safetensors.numpy import load_file  # noqa: PLC0415 - an extra
        from tokenizers import Tokenizer  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra("index['embed'] = 'static'", STATIC_NAME) from error
    if spec is None or spec.origin is None:
        raise MissingExtra("index['embed'] = 'static'", STATIC_NAME)
    folder = Path(spec.origin).parent
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    return tokenizer, load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]


logger = logging.getLogger(__name__)

EMBED_TASK = TaskKey(path_of(()), "embed")
"""The background task that embeds documents, one for the whole database."""
INDEX_TASK = TaskKey(path_of(()), "index_vectors")
"""The background task that creates pgvector's index, if there are `INDEX_THRESHOLD` vectors."""
BATCH_SIZE = 64
"""Maximum documents in one call of the embeddings."""
SEARCH_WAIT = 2.0
"""Maximum seconds that a search waits for the vectors of pending documents."""
_MAX_FIRST_FAILURES = 3  # if so many documents fail and none succeeds, the embeddings are considered unavailable


def embed_with(database: Database, embeddings: Any, dimensions: int) -> None:
    """Embed all searchable documents of a database from now on.

    Args:
        database: The database.
        embeddings: LangChain `Embeddings`. Ignored if the database already has embeddings of these dimensions.
        dimensions: The number of dimensions of a vector.

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
    """A component that embeds the documents and the search queries of a database.

    Args:
        database: The database.
        embeddings: LangChain `Embeddings`.
        dimensions: The number of dimensions of a vector.

    Raises:
        MissingExtra: numpy is not installed.
    """

    def __init__(self, database: Database, embeddings: Any, dimensions: int) -> None:
        numpy()
        self.embeddings = embeddings
        self.dimensions = dimensions
        self._cache = VectorCache()
        # LangGraph's wrapper of an async function has only async methods.
        self._is_async = getattr(embeddings, "afunc", None) is not None and getattr(embeddings, "func", None) is None
        self._engine, self._background = database.engine, database.background  # without a reference to the database
        self._tasks = [self._background.add_task(EMBED_TASK, _embed_delay, self._embed_pending)]
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
        """Start embedding in the background. Called after a write."""
        self._tasks[0].wake()

    def close(self) -> None:
        """Stop the background tasks. Pending documents remain in the database."""
        for task in self._tasks:
            task.stop()

    def forget(self) -> None:
        """Clear the cache of vectors."""
        self._cache.clear()

    def settle(self) -> None:
        """Embed all pending documents now.

        A document that the embeddings refuse remains pending, and does not block other documents.

        Raises:
            Exception: An error of the embeddings.
        """
        self._tasks[0].settle()

    def make_query(self, text: str) -> VectorQuery | None:
        """Return the vector of a search query, after embedding pending documents; None on failure.

        Args:
            text: The search query.
        """
        if self._engine.read(lambda tx: load_pending(tx, 1)):
            with release_slot():
                self._tasks[0].run_now(SEARCH_WAIT)
        try:
            vector = run_cancellable(partial(self._call_embeddings, "embed_query", text))
            return VectorQuery(normalize(vector, self.dimensions), self._cache)
        except Exception as error:  # a failing model must not break keyword search
            if is_graph_bubble_up(error):
                raise
            logger.warning("The embeddings failed, so this is a keyword search.", exc_info=True)
            return None

    def _call_embeddings(self, method: str, argument: Any) -> Any:
        """Call a method of the embeddings, or its async version if they have no sync method."""
        if not self._is_async:
            try:
                return getattr(self.embeddings, method)(argument)
            except NotImplementedError:
                self._is_async = True
        return run_coroutine(_await_method(getattr(self.embeddings, f"a{method}"), argument))

    def _embed_pending(self, lease: Lease) -> None:
        """Embed all pending documents while this process holds the lease."""
        error, ticket = None, -1

        def next_batch(tx: Transaction) -> list[PendingEmbedding]:
            return load_pending(tx, BATCH_SIZE, after=ticket) if lease.renew(tx) else []

        while batch := self._engine.write(next_batch):
            ticket = batch[-1].ticket
            error = self._embed_all(batch) or error
        for task in self._tasks[1:]:  # the creation of the index
            task.wake()
        if error is not None:
            raise error

    def _create_index(self, _: Lease) -> None:
        """Create pgvector's index. Its statements must run outside of any transaction."""
        self._engine.alter([row["statement"] for row in self._engine.read(query.vector_index_statements)])

    def _embed_all(self, batch: Sequence[PendingEmbedding]) -> Exception | None:
        """Embed a batch; if that fails, embed its documents one by one.

        The shortest documents come first, since they are the most likely to succeed.

        Returns:
            The last error of a document that failed, or None.

        Raises:
            Exception: The first documents failed, the database is closed, or the batch has one document.
        """
        try:
            self._embed(batch)
            return None  # noqa: TRY300 - the rest handles a refused batch
        except Exception as error:
            if not self._engine.is_open or len(batch) == 1:
                raise
            last_error = error
        succeeded = 0
        for attempt, pending in enumerate(sorted(batch, key=self._text_length), start=1):
            try:
                self._embed([pending])
                succeeded += 1
            except Exception as error:
                if not self._engine.is_open or (not succeeded and attempt == min(_MAX_FIRST_FAILURES, len(batch))):
                    raise
                last_error = error
        return last_error

    def _text_length(self, pending: PendingEmbedding) -> int:
        """Return the number of characters of a document; a huge number if it is unreadable."""
        try:
            passages = self._engine.read(lambda tx: self._load_passages(tx, [pending]))
        except AgentMemoryError:  # the document is damaged
            return sys.maxsize
        return sum(map(len, passages[pending]))

    def _embed(self, batch: Sequence[PendingEmbedding]) -> None:
        """Embed some documents. The embeddings are called outside of any transaction."""
        passages = self._engine.read(lambda tx: self._load_passages(tx, batch))
        texts = list(dict.fromkeys(text for document in passages.values() for text in document if text.strip()))
        vectors = self._call_embeddings("embed_documents", texts) if texts else []
        if len(vectors) != len(texts):
            raise InvalidInput(f"The embeddings returned {len(vectors)} vectors for {len(texts)} texts.")
        packed = {text: pack_vector(vector, self.dimensions) for text, vector in zip(texts, vectors, strict=True)}
        by_document = {each: [packed[text] for text in own if text in packed] for each, own in passages.items()}
        self._engine.write(lambda tx: store_vectors(tx, by_document))

    @staticmethod
    def _load_passages(tx: Transaction, batch: Sequence[PendingEmbedding]) -> dict[PendingEmbedding, Sequence[str]]:
        texts = texts_of(tx, ((each.kind, each.owner) for each in batch))
        return {each: texts[each.kind, each.owner] for each in batch}


def _embed_delay(tx: Transaction) -> float | None:
    return 0.0 if load_pending(tx, 1) else None


async def _await_method(method: Callable[[Any], Awaitable[Any]], argument: Any) -> Any:
    return await method(argument)
