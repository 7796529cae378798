"""Vectors of documents: which are wanted, which are kept, and which lie nearest to that of a question.

A document is stored without its vector, and noted as waiting for it in the same transaction; whoever has the embeddings
gives it one later (`embedding.py`). What waits is found by its words all the same. Where PostgreSQL has pgvector when
vectors are first wanted, it compares them; else numpy does.

Turns of a conversation are short, so the vector of a message is also mixed with its neighbours': the message before
counts the more when it is a question. numpy is needed only here, and loaded when it is.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_agentmem.base.concurrency import PerProcess
from langchain_agentmem.errors import InvalidInput, MissingExtra, safe_repr
from langchain_agentmem.search.ranking import Closeness
from langchain_agentmem.search.search_index import PLACE_BITS
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.transaction import Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Look = Callable[[Any, Any], None]

PAGE = 4_000
_TOGETHER = 32  # ranges
MOST_BYTES = 2**30
"""Bytes of vectors that a process keeps in memory."""
MOST_SINGLE = 2**24
"""Numbers of the vectors of one search that are kept in single precision. More take half the room, and more time."""
_AT_ONCE = 2_048  # vectors that are compared at once
DIGITS = 6
"""Digits of a cosine: more depend on what else is computed at the same time."""

Range = tuple[int, int]

MANY = 50_000
"""Vectors from which on pgvector has an index, and which a search must look through to use it."""
SHARE = 0.1
"""The part of all vectors that a search must look through to use the index."""
_MOST_OF_PGVECTOR, _MOST_INDEXED = 16_000, 4_000  # dimensions
_NEXT, _BEFORE, _QUESTION_BEFORE, _SECOND = 0.4, 0.4, 0.9, 0.2


class Waiting(NamedTuple):
    """A document without a vector.

    Attributes:
        ticket: What it is known by until it changes.
        document: Its number.
        kind: What it is.
        owner: The row that it stands for.
    """

    ticket: int
    document: int
    kind: str
    owner: int


def want(tx: Transaction, dimensions: int) -> None:
    """Have vectors of this many dimensions from now on, for what is there already too.

    Args:
        tx: The transaction.
        dimensions: Numbers of a vector.

    Raises:
        InvalidInput: The database has vectors of another size.
    """
    query.hold_writers(tx)
    [state] = query.vector_state(tx)
    if state["dimensions"] is None:
        query.set_dimensions(tx, dimensions=dimensions)
        query.want_all_vectors(tx)
        _begun(tx, dimensions)
    elif state["dimensions"] != dimensions:
        raise InvalidInput(
            f"The database has vectors of {state['dimensions']} dimensions, not {dimensions}: use the embeddings that "
            "it was begun with."
        )


def begin_server_side(tx: Transaction) -> int | None:
    """Have pgvector compare the vectors that are there, if it can: 0, behind which `server_side` begins, or None."""
    [state] = query.vector_state(tx)
    if state["dimensions"] is None:
        return None
    return 0 if state["pgvector"] or _begun(tx, state["dimensions"]) else None


def server_side(tx: Transaction, after: int) -> int | None:
    """Give pgvector a page of the vectors behind one, and say behind which to go on; None when it has all."""
    rows = query.vectors_after(tx, after=after, limit=PAGE)
    if not rows:
        return None
    given = [{"id": row["document_id"], "passage": row["passage"], "vector": row["vector"]} for row in rows]
    _give_pgvector(tx, given)
    return int(rows[-1]["id"])


def server_side_emptied(tx: Transaction) -> None:
    """Take back what pgvector was given."""
    [state] = query.vector_state(tx)
    if state["pgvector"]:
        query.empty_pgvector(tx)


def lacks_index(tx: Transaction) -> bool:
    """Whether pgvector compares so many vectors that an index is wanted, which this role may make."""
    [state] = query.vector_state(tx)
    if not state["pgvector"] or state["newest"] < MANY or state["dimensions"] > _MOST_INDEXED:
        return False
    rows = query.vector_index(tx, least=MANY)
    return any(row["lacking"] for row in rows)


def index_statements(tx: Transaction) -> list[str]:
    """The statements that make the index, which no transaction may hold."""
    return [row["statement"] for row in query.vector_index_statements(tx)]


def _serves(tx: Transaction, ranges: Sequence[Range], vectors: int) -> bool:
    """Whether the index finds what is near in some ranges: they hold so much of all that little is left out."""
    if vectors < MANY:
        return False
    [totals] = query.totals(tx, ranges=json.dumps(ranges))
    is_much = totals["documents"] >= max(MANY, vectors * SHARE)
    return bool(is_much and any(row["valid"] for row in query.vector_index(tx, least=0)))


def _begun(tx: Transaction, dimensions: int) -> bool:
    """Whether pgvector compares vectors from now on."""
    [found] = query.pgvector_available(tx)
    if not found["available"] or dimensions > _MOST_OF_PGVECTOR:
        return False
    query.begin_pgvector(tx)
    query.pgvector_begun(tx)
    return True


def wanted(tx: Transaction) -> int | None:
    """How many dimensions the database's vectors have; None for no vectors."""
    [state] = query.vector_state(tx)
    dimensions: int | None = state["dimensions"]
    return dimensions


def waiting(tx: Transaction, limit: int, *, after: int = -1) -> list[Waiting]:
    """The documents that have waited longest for their vectors, of those whose tickets come after one."""
    rows = query.unembedded(tx, after=after, limit=limit)
    return [Waiting(row["ticket"], row["document_id"], row["kind"], row["owner"]) for row in rows]


def keep(tx: Transaction, vectors: Mapping[Waiting, Sequence[bytes]]) -> int:
    """Keep the vectors of documents, of those that have not changed since they were read.

    Args:
        tx: The transaction.
        vectors: For each document the vectors of its passages, as `packed` gives them.

    Returns:
        How many documents were kept.
    """
    query.hold_vectors(tx)
    kept = [each for each in sorted(vectors) if query.take_unembedded(tx, ticket=each.ticket)]
    rows = [
        {"id": each.document, "passage": place, "vector": vector}
        for each in kept
        for place, vector in enumerate(vectors[each])
    ]
    if rows:
        query.insert_vector.many(tx, rows)
        [state] = query.vector_state(tx)
        if state["pgvector"]:
            _give_pgvector(tx, rows)
    return len(kept)


def _give_pgvector(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
    given = [{**row, "vector": _text(_stored(row["vector"]))} for row in rows]
    query.insert_pgvector.many(tx, given)


def packed(vector: Sequence[float], dimensions: int) -> bytes:
    """A vector of length one as it is stored, in half precision; arguments and errors are those of `unit`."""
    packed: bytes = unit(vector, dimensions).astype("<f2").tobytes()
    return packed


def unit(vector: Sequence[float], dimensions: int) -> Floats:
    """A vector of the same direction, of length one; of zeros it stays what it is.

    Args:
        vector: The numbers.
        dimensions: How many there must be.

    Raises:
        InvalidInput: There are others, or they are no numbers.
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


def _stored(vectors: Any) -> Any:
    """The numbers of vectors that were stored."""
    return numpy().frombuffer(bytes(vectors), dtype="<f2")


class Near(NamedTuple):
    """The vector of a question, and what is known of the database's.

    Attributes:
        vector: The question's, as `unit` gives it.
        shelf: Vectors that were read before.
    """

    vector: Floats
    shelf: VectorCache

    def nearest(self, tx: Transaction, ranges: Sequence[Range], limit: int) -> dict[int, float]:
        """The documents in some ranges that lie nearest to the question with their cosines, the nearest first."""
        [state] = query.vector_state(tx)
        if state["pgvector"]:
            wanted = {"vector": _text(self.vector), "ranges": json.dumps(ranges), "limit": limit}
            rows: Sequence[Any] = ()
            if _serves(tx, ranges, state["newest"]):
                rows = query.nearest_indexed(tx, **wanted)
            if len(rows) < limit:
                rows = query.nearest_pgvector(tx, **wanted)
            return {row["document_id"]: 1 - row["distance"] for row in rows}
        best: dict[int, float] = {}

        def look(numbers: Any, matrix: Any) -> None:
            for number, cosine in _top(numbers, _cosines(matrix, self.vector), limit).items():
                best[number] = max(cosine, best.get(number, -1.0))

        self.shelf.within(tx, ranges, len(self.vector), look)
        order = sorted(best, key=lambda number: (-best[number], -number))[:limit]
        return {number: best[number] for number in order}

    def closeness(
        self,
        tx: Transaction,
        around: Collection[int],
        related: Collection[int],
        asking: Collection[int],
        silent: Collection[int] = (),
    ) -> Closeness:
        """How near some documents lie to the question.

        Args:
            tx: The transaction.
            around: The documents and their neighbours.
            related: The series whose documents are neighbours of each other.
            asking: The documents that are questions.
            silent: Documents that say nothing of those next to them.
        """
        np = numpy()
        rows = query.vectors_of(tx, ids=json.dumps(sorted(around)))
        wanted = self.vector
        vectors: dict[int, Floats] = {}
        alone: dict[int, float] = {}
        for row in rows:  # of several passages the nearest one counts
            number, vector = row["document_id"], _stored(row["vector"]).astype(np.float32)
            vectors[number] = vector
            alone[number] = max(float(vector @ wanted), alone.get(number, -1.0))
        among = dict(alone)
        for number, vector in vectors.items():
            if number >> PLACE_BITS in related:
                smooth = vector
                before = _QUESTION_BEFORE if number - 1 in asking else _BEFORE
                for offset, weight in ((-1, before), (1, _NEXT), (-2, _SECOND), (2, _SECOND)):
                    other = number + offset
                    if other >> PLACE_BITS == number >> PLACE_BITS and other in vectors and other not in silent:
                        smooth = smooth + weight * vectors[other]
                length = float(np.linalg.norm(smooth))
                among[number] = float(smooth @ wanted) / length if length else 0.0
        return Closeness(alone, among)


class _Block(NamedTuple):
    """Vectors of some ranges of documents, and up to what they were read.

    Attributes:
        newest: The last vector that had been kept then.
        removed: How often vectors had been taken away.
        numbers: The documents.
        matrix: The vectors, a row for each of `numbers`.
    """

    newest: int
    removed: int
    numbers: Any
    matrix: Any

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return int(self.matrix.nbytes + self.numbers.nbytes) + 1_000


class VectorCache:
    """Vectors that were read lately, up to `MOST_BYTES`. What was added since is read when it is needed."""

    _changing = PerProcess(threading.Lock)
    _blocks: PerProcess[OrderedDict[tuple[Range, ...], _Block]] = PerProcess(OrderedDict)

    def within(self, tx: Transaction, ranges: Sequence[Range], dimensions: int, look: Look) -> None:
        """Look at the numbers of the documents in some ranges with their vectors, part after part."""
        np = numpy()
        [state] = query.vector_state(tx)
        key = tuple(ranges)
        with self._changing:
            block = self._blocks.get(key)
        if block is None or not _holds(block, state):
            block = _Block(-1, state["removed"], np.empty(0, np.int64), np.empty((0, dimensions), np.float32))
            pages = _read_all(tx, ranges)
        else:
            pages = _read_newer(tx, block.newest, state["newest"], ranges)
        look(block.numbers, block.matrix)
        numbers, parts, size = [block.numbers], [block.matrix], block.size
        for rows in pages:
            documents = np.fromiter((row["document_id"] for row in rows), np.int64, len(rows))
            matrix = _stored(b"".join(bytes(row["vector"]) for row in rows)).reshape(len(rows), -1)
            look(documents, matrix)
            size += matrix.nbytes
            if size <= MOST_BYTES:
                numbers.append(documents)
                parts.append(matrix)
        if block.newest < state["newest"]:
            self._keep(key, numbers if size <= MOST_BYTES else (), parts, state)

    def clear(self) -> None:
        """Forget all of them."""
        with self._changing:
            self._blocks.clear()

    def _keep(self, key: tuple[Range, ...], numbers: Sequence[Any], parts: Sequence[Any], state: Any) -> None:
        np = numpy()
        block = None
        if numbers:
            kind = np.float32 if sum(part.size for part in parts) <= MOST_SINGLE else np.float16
            matrix = np.concatenate(parts, dtype=kind, casting="same_kind")
            block = _Block(state["newest"], state["removed"], np.concatenate(numbers), matrix)
        with self._changing:
            self._blocks.pop(key, None)  # so that the one that was used last is forgotten last
            if block is not None:
                self._blocks[key] = block
            while sum(each.size for each in self._blocks.values()) > MOST_BYTES:
                self._blocks.popitem(last=False)


def _holds(block: _Block, state: Any) -> bool:
    """Whether what was kept is there still, and not much has come since, so that it is quicker to read only that.

    A schema that a tenant has moved to may show less than what was read.
    """
    most = max(PAGE, 4 * len(block.numbers))
    return bool(block.removed == state["removed"] and block.newest <= state["newest"] <= block.newest + most)


def _cosines(matrix: Any, wanted: Floats) -> Floats:
    """The cosines of vectors with a question's, without a copy of all of them in single precision."""
    np = numpy()
    found: Floats = np.empty(len(matrix), dtype=np.float32)
    for at in range(0, len(matrix), _AT_ONCE):
        found[at : at + _AT_ONCE] = matrix[at : at + _AT_ONCE].astype(np.float32, copy=False) @ wanted
    return found


def _top(numbers: Any, cosines: Floats, limit: int) -> dict[int, float]:
    """The largest cosines by the numbers of documents, of which each may have several; of equals, the newest."""
    np = numpy()
    wanted = limit
    while True:  # until there are so many documents
        near = np.arange(len(cosines))
        if wanted < len(cosines):
            near = np.flatnonzero(cosines >= np.partition(cosines, -wanted)[-wanted] - 10**-DIGITS)
        rounded = np.minimum(np.round(cosines[near], DIGITS), 1)
        order = np.lexsort((-numbers[near], -rounded))
        best: dict[int, float] = {}
        for number, cosine in zip(numbers[near][order].tolist(), rounded[order].tolist(), strict=True):
            best.setdefault(number, cosine)
            if len(best) == limit:
                return best
        if wanted >= len(cosines):
            return best
        wanted *= 4


def numpy() -> Any:
    """numpy, or an error that says how to get it.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        import numpy as np  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("Search by vectors", "vectors") from error
    return np


def _text(vector: Any) -> str:
    """A vector as pgvector reads it."""
    return json.dumps(vector.tolist())


def _read_all(tx: Transaction, ranges: Sequence[Range]) -> Iterator[Rows]:
    """Read every vector in some ranges; the database has them in the order of their documents."""
    for at in range(0, len(ranges), _TOGETHER):
        first = [
            (query.vectors_from.ahead(tx, low=low, end=end, passage=-1, limit=PAGE), end)
            for low, end in ranges[at : at + _TOGETHER]
        ]
        for start, end in first:
            rows = start
            if rows:
                yield rows
            while len(rows) == PAGE:
                last = rows[-1]
                rows = query.vectors_from(tx, low=last["document_id"], end=end, passage=last["passage"], limit=PAGE)
                yield rows


def _read_newer(tx: Transaction, after: int, newest: int, ranges: Sequence[Range]) -> Iterator[Rows]:
    """Read what was added to some ranges after a vector."""
    while after < newest and (rows := query.vectors_within(tx, after=after, ranges=json.dumps(ranges), limit=PAGE)):
        yield rows
        after = rows[-1]["id"] if len(rows) == PAGE else newest
