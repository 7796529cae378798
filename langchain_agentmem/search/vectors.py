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
import weakref
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_agentmem.base.concurrency import PerProcess
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput, MissingExtra
from langchain_agentmem.search.ranking import Closeness
from langchain_agentmem.search.search_index import PLACE_BITS
from langchain_agentmem.storage import Transaction, query

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Look = Callable[[Any, Any], None]

PAGE = 4_000
_TOGETHER = 32  # ranges
MOST_BYTES = 64 * 2**20
"""Bytes of vectors that a process keeps in memory."""
MOST_MAPPED = 2**30
"""Bytes of vectors that a process keeps in temporary files, where a search looks through more."""
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
    _give_pgvector(tx, given, wanted(tx) or 0)
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
            _give_pgvector(tx, rows, state["dimensions"])
    return len(kept)


def _give_pgvector(tx: Transaction, rows: Sequence[Mapping[str, Any]], dimensions: int) -> None:
    given = [{**row, "vector": _text(_stored(row["vector"], dimensions))} for row in rows]
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


def _stored(vector: Any, dimensions: int) -> Any:
    """The numbers of a vector that was stored: in half precision, or in single as older versions had it."""
    array = bytes(vector)
    return numpy().frombuffer(array, dtype="<f2" if len(array) == 2 * dimensions else "<f4")


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
            number, vector = row["document_id"], _stored(row["vector"], len(wanted)).astype(np.float32)
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


class _File:
    """Vectors, in half precision, in a temporary file without a name; it is closed when nobody has it any more."""

    def __init__(self) -> None:
        self._file = TemporaryFile(prefix="agentmem-")  # noqa: SIM115 - see below
        weakref.finalize(self, self._file.close)

    def add(self, parts: Iterable[Any]) -> None:
        """Write some more.

        Raises:
            OSError: There is no room.
        """
        for each in parts:
            self._file.write(each.astype("<f2").tobytes())
        self._file.flush()

    def matrix(self, rows: int) -> Any:
        """All of them, mapped into memory."""
        return numpy().memmap(self._file, dtype="<f2", mode="r").reshape(rows, -1)


class _Block(NamedTuple):
    """Vectors of some ranges of documents, and up to what they were read.

    Attributes:
        newest: The last vector that had been kept then.
        removed: How often vectors had been taken away.
        numbers: The documents.
        matrix: The vectors, a row for each of `numbers`.
        file: What `matrix` is mapped from; None where it is in memory.
    """

    newest: int
    removed: int
    numbers: Any
    matrix: Any
    file: _File | None


class _Found:
    """What is looked at, kept as far as it may be: in memory, or where there is more of it, in a file without a name.

    Args:
        look: Is shown all of it.
        dimensions: Numbers of a vector.
        block: What was kept before. A mapped one is only added to, if nobody has done so meanwhile.
        maps: Whether a file may be written.
    """

    def __init__(self, look: Look, dimensions: int, block: _Block | None, *, maps: bool) -> None:
        self._look, self._dimensions = look, dimensions
        self.mapped = block if block is not None and block.file is not None else None
        self._most = max(MOST_BYTES, 2 * MOST_MAPPED) if maps and self.mapped is None else MOST_BYTES
        self._numbers: list[Any] = []
        self._parts: list[Any] = []
        self._file: _File | None = None
        self._bytes = 0
        self._keeps = True
        if self.mapped is not None:
            look(self.mapped.numbers, self.mapped.matrix)
            self._numbers, self._file = [self.mapped.numbers], self.mapped.file
        elif block is not None:
            self.add(block.numbers, block.matrix)

    def add(self, numbers: Any, matrix: Any) -> None:
        """Look at some more."""
        self._look(numbers, matrix)
        self._bytes += matrix.nbytes
        self._numbers.append(numbers)
        self._parts.append(matrix)
        self._keeps = self._keeps and self._bytes <= self._most
        if self._keeps and self.mapped is None and self._bytes > MOST_BYTES:
            self._keeps = self._written()
        if not self._keeps:
            self._numbers, self._parts, self._file = [], [], None

    def read(self, rows: Sequence[Any]) -> None:
        """Add what was just read."""
        if rows:
            np = numpy()
            numbers = np.fromiter((row["document_id"] for row in rows), dtype=np.int64, count=len(rows))
            stored = b"".join(bytes(row["vector"]) for row in rows)
            if len(stored) == 2 * self._dimensions * len(rows):
                matrix = np.frombuffer(stored, dtype="<f2").reshape(len(rows), -1)
            else:
                matrix = np.stack([_stored(row["vector"], self._dimensions) for row in rows])
            self.add(numbers, matrix.astype(np.float32))

    def _written(self) -> bool:
        """Write what is in memory to a file; False where there is no room."""
        with suppress(OSError):
            self._file = self._file or _File()
            self._file.add(self._parts)
            self._parts = []
            return True
        return False

    def block(self, newest: int, removed: int) -> _Block | None:
        """All of it, as it may be kept until then; None where it may not."""
        if not self._keeps or (self._file is not None and not self._written()):
            return None
        numbers = numpy().concatenate(self._numbers)
        matrix = numpy().concatenate(self._parts) if self._file is None else self._file.matrix(len(numbers))
        return _Block(newest, removed, numbers, matrix, self._file)


class VectorCache:
    """Vectors that were read lately. What was added since is read when it is needed.

    Up to `MOST_BYTES` are in memory. Where a search looks through more, up to `MOST_MAPPED` are in a temporary file, in
    half precision, that has no name and goes with the process; where it cannot or may not be, they are read each time.

    Args:
        maps: Whether a file may be written: not of what is encrypted, since vectors tell what texts are about.
    """

    _changing = PerProcess(threading.Lock)
    # Also per process, as a child would write into the same files.
    _blocks: PerProcess[OrderedDict[tuple[Range, ...], _Block]] = PerProcess(OrderedDict)

    def __init__(self, *, maps: bool = True) -> None:
        self._maps = maps

    def within(self, tx: Transaction, ranges: Sequence[Range], dimensions: int, look: Look) -> None:
        """Look at the numbers of the documents in some ranges with their vectors, part after part."""
        np = numpy()
        [state] = query.vector_state(tx)
        key = tuple(ranges)
        with self._changing:
            block = self._blocks.get(key)
        if block is not None and not _holds(block, state):
            block = None
        found = _Found(look, dimensions, block, maps=self._maps)
        if block is None:
            found.add(np.empty(0, dtype=np.int64), np.empty((0, dimensions), dtype=np.float32))
            _whole(tx, ranges, found)
        else:
            _newer(tx, block.newest, state["newest"], ranges, found)
        if block is None or block.newest < state["newest"]:
            self._keep(key, found, state)

    def clear(self) -> None:
        """Forget all of them."""
        with self._changing:
            self._blocks.clear()

    def _keep(self, key: tuple[Range, ...], found: _Found, state: Any) -> None:
        with self._changing:
            if found.mapped is not None and self._blocks.get(key) is not found.mapped:
                return  # another thread has added to it
            block = found.block(state["newest"], state["removed"])
            self._blocks.pop(key, None)  # so that the one that was used last is forgotten last
            if block is not None:
                self._blocks[key] = block
            for mapped, most in ((False, MOST_BYTES), (True, MOST_MAPPED)):
                mine = [key for key, each in self._blocks.items() if (each.file is not None) == mapped]
                size = sum(_size(each, self._blocks[each]) for each in mine)
                while size > most:
                    size -= _size(oldest := mine.pop(0), self._blocks.pop(oldest))


def _size(key: Sequence[Range], block: _Block) -> int:
    """About how many bytes a block takes."""
    return int(block.matrix.nbytes + block.numbers.nbytes) + 200 * (len(key) + 4)


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


def _whole(tx: Transaction, ranges: Sequence[Range], found: _Found) -> None:
    """Read every vector in some ranges; the database has them in the order of their documents."""
    for at in range(0, len(ranges), _TOGETHER):
        first = [
            (query.vectors_from.ahead(tx, low=low, end=end, passage=-1, limit=PAGE), end)
            for low, end in ranges[at : at + _TOGETHER]
        ]
        for start, end in first:
            rows = start
            found.read(rows)
            while len(rows) == PAGE:
                last = rows[-1]
                rows = query.vectors_from(tx, low=last["document_id"], end=end, passage=last["passage"], limit=PAGE)
                found.read(rows)


def _newer(tx: Transaction, after: int, newest: int, ranges: Sequence[Range], found: _Found) -> None:
    """Read what was added to some ranges after a vector."""
    while after < newest:
        rows = query.vectors_within(tx, after=after, ranges=json.dumps(ranges), limit=PAGE)
        found.read(rows)
        after = rows[-1]["id"] if len(rows) == PAGE else newest
