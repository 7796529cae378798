"""Recipes: a value as ranges of a shelf, with small things written out.

A recipe is a small tree of lists. It is stored as MessagePack behind a CRC-32, so that damage is noticed:

    [WRITTEN, type, bytes]              a small value, as the serializer wrote it
    [PART, number]                      one part of the shelf
    [LIST, gap, length, …]              the elements of ranges of parts; a gap counts from the end of the range before
    [DICT, gap, length, …]              the entries of ranges of parts
    [FIELDS, [key, …], [recipe, …]]     a small dictionary
    [ITEMS, None, [recipe, …]]          a small list whose elements have recipes of their own
    [SEND, node, [recipe, …]]           LangGraph's `Send`: where to, with what, and its timeout if it has one
    [SNAPSHOT, None, [recipe]]          LangGraph's snapshot of a DeltaChannel

The shelf of a thread: parts of values, numbered in the order in which they came.

There are two rows of numbers. The elements of channels that are lists stand in the first one, next to each other, so
that a long list is one range. Everything else, such as what tasks write, stands in the second, from `LOOSE` on.

Nothing on a shelf is ever changed or moved, and no number is given twice. What no value needs any more is swept away
now and then; the number of sweeps shows whether remembered places are still valid.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, zip_longest
from typing import Any, NamedTuple, Protocol, TypeAlias

import ormsgpack

from langchain_agentmem.errors import BranchMoved
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.transaction import Rows

WRITTEN, PART, LIST, DICT, FIELDS, ITEMS, SEND, SNAPSHOT = range(8)

Recipe: TypeAlias = list[Any]
Range: TypeAlias = tuple[int, int]
"""The numbers of neighbouring parts: from the first, up to but without the second."""

FARTHEST = 2**48
"""Beyond all numbers of parts."""

_CHECK_BYTES = 4


class DamagedValue(ValueError):
    """An error for stored bytes that are damaged.

    Args:
        problem: The description of the damage.
        checkpoint: The id of the checkpoint they belong to, where that is known.
    """

    def __init__(self, problem: str, checkpoint: str | None = None) -> None:
        super().__init__(problem)
        self.checkpoint = checkpoint


def guarded(data: bytes, beside: str = "") -> bytes:
    """Put a checksum before bytes.

    Args:
        data: The bytes.
        beside: A text stored elsewhere that the checksum covers too.
    """
    return zlib.crc32(data, zlib.crc32(beside.encode())).to_bytes(_CHECK_BYTES, "big") + data


def opened(blob: bytes, beside: str = "") -> bytes:
    """Check and remove the checksum.

    Raises:
        DamagedValue: The checksum does not match.
    """
    data = bytes(blob)[_CHECK_BYTES:]
    checksum = zlib.crc32(data, zlib.crc32(beside.encode()))
    if len(blob) < _CHECK_BYTES or checksum != int.from_bytes(blob[:_CHECK_BYTES], "big"):
        raise DamagedValue("its checksum does not fit")
    return data


def pack(recipe: Recipe) -> bytes:
    """Write a recipe."""
    return guarded(ormsgpack.packb(recipe, option=ormsgpack.OPT_REPLACE_SURROGATES))


def unpack(blob: bytes) -> Recipe:
    """Read a recipe.

    Raises:
        DamagedValue: The data is not what was stored.
    """
    try:
        recipe = ormsgpack.unpackb(opened(blob))
    except ormsgpack.MsgpackDecodeError as error:
        raise DamagedValue(str(error)) from error
    if type(recipe) is not list or not recipe:
        raise DamagedValue("it is no recipe")
    try:
        sound = all(type(low) is type(high) is int and 0 <= low <= high < FARTHEST for low, high in ranges_of(recipe))
    except (TypeError, ValueError, IndexError, KeyError, RecursionError) as error:
        raise DamagedValue(f"it is no recipe ({error})") from error
    if not sound:
        raise DamagedValue("it is no recipe")
    return recipe


def written_ranges(ranges: Iterable[Range]) -> list[int]:
    """Return ranges as gaps and lengths."""
    numbers: list[int] = []
    end = 0
    for start, stop in ranges:
        numbers += (start - end, stop - start)
        end = stop
    return numbers


def read_ranges(numbers: list[int]) -> Iterator[Range]:
    """Undo `written_ranges`."""
    end = 0
    for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
        start = end + gap
        end = start + length
        yield start, end


def ranges_of(recipe: Recipe) -> Iterator[Range]:
    """Yield every range of parts that a recipe needs, in no particular order."""
    kind = recipe[0]
    if kind == PART:
        yield recipe[1], recipe[1] + 1
    elif kind in (LIST, DICT):
        yield from read_ranges(recipe[1:])
    elif kind != WRITTEN:
        for inner in recipe[2]:
            yield from ranges_of(inner)


def has_parts(recipe: Recipe) -> bool:
    """Return True if a recipe needs any part of the shelf."""
    return recipe[0] in (PART, LIST, DICT) or (recipe[0] != WRITTEN and any(map(has_parts, recipe[2])))


def moved(recipe: Recipe, place: Callable[[int], int]) -> Recipe:
    """Return a recipe with the part numbers of another shelf.

    Args:
        recipe: A recipe.
        place: Returns the number there of a part here.
    """
    return rebuilt(recipe, place, lambda each: [each[0], *written_ranges(runs(list(map(place, _numbers(each)))))])


def rebuilt(recipe: Recipe, part: Callable[[Any], Any], listed: Callable[[Recipe], Recipe]) -> Recipe:
    """Return a recipe with other parts.

    Args:
        recipe: A recipe.
        part: Returns the replacement of a number.
        listed: Returns the replacement of a recipe of ranges.
    """

    def again(recipe: Recipe) -> Recipe:
        return rebuilt(recipe, part, listed)

    kind = recipe[0]
    if kind == PART:
        return [PART, part(recipe[1])]
    if kind in (LIST, DICT):
        return listed(recipe)
    return recipe if kind == WRITTEN else [kind, recipe[1], list(map(again, recipe[2]))]


def _numbers(recipe: Recipe) -> Iterator[int]:
    """Yield the numbers in a recipe of ranges."""
    return (number for start, stop in read_ranges(recipe[1:]) for number in range(start, stop))


def runs(numbers: list[int]) -> list[Range]:
    """Return the fewest ranges for some numbers, in their order."""
    if numbers and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return [(numbers[0], numbers[0] + len(numbers))]  # the usual case, without a loop
    return merged((number, number + 1) for number in numbers)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges in their order, with adjacent ones joined."""
    found: list[Range] = []
    for start, stop in ranges:
        if found and found[-1][1] == start:
            found[-1] = found[-1][0], stop
        else:
            found.append((start, stop))
    return found


def covered(ranges: Iterable[Range]) -> list[Range]:
    """Return the union of ranges, ascending and disjoint."""
    union: list[Range] = []
    for start, stop in sorted(set(ranges)):
        if union and start <= union[-1][1]:
            union[-1] = union[-1][0], max(stop, union[-1][1])
        else:
            union.append((start, stop))
    return union


def without(ranges: Iterable[Range], others: Iterable[Range]) -> Iterator[Range]:
    """Yield the parts of some ranges that no other range contains, in their order."""
    apart = covered(others)
    for start, stop in ranges:
        low = start
        for begin, end in apart:
            if end > low and begin < stop:
                if low < begin:
                    yield low, begin
                low = end
        if low < stop:
            yield low, stop


def repeated(ranges: Iterable[Range]) -> Counter[int]:
    """Return the parts that several ranges contain, with the number of these ranges."""
    times: Counter[int] = Counter()
    end = 0
    for start, stop in sorted(ranges):
        for number in range(start, min(stop, end)):
            times[number] = (times[number] or 1) + 1
        end = max(end, stop)
    return times


LOOSE = 2**40
"""The first number of the second row."""
MESSAGE = "message"
"""The form of a part that is the body of a message."""
MOST_RANGES = 64
"""Ranges in one list. With more, neighbouring ones are put on the shelf once more, as one."""


_Key: TypeAlias = tuple[bytes, str, str | None]
"""The identity of a part: the digest of the body, the form and the name."""


class StorePosition(NamedTuple):
    """A shelf as it was seen: its id, and how often it was swept."""

    shelf: int
    swept: int


class StoredPart(NamedTuple):
    """A part of a value, as it is put on a shelf and read from it.

    Attributes:
        form: The format of its body.
        name: A message's id, if it is a message that has one.
        body: The bytes.
        checksum: The CRC-32 that was stored with the body; 0 for a part that is not stored yet.
        loose: True if a new part belongs in the second row.
    """

    form: str
    name: str | None
    body: bytes
    checksum: int = 0
    loose: bool = False


Tidy: TypeAlias = Callable[[list[Range], bool], list[Range]]
"""Called with ranges and True for the whole value of a channel; returns other ranges for the same parts."""


class DraftValues(Protocol):
    """Values taken apart, before their parts have numbers.

    They were made for a shelf as last seen, on whose parts they may rely.
    """

    shelf: StorePosition | None
    parts: list[StoredPart]
    relied: list[Range]

    def settle(self, recipe: Recipe, numbers: Sequence[int], tidy: Tidy) -> Recipe:
        """Give the parts of a recipe their numbers."""

    def stamp(self, shelf: StorePosition, numbers: Sequence[int], moves: Mapping[int, int]) -> None:
        """Remember the places of the messages, after the commit."""


Recall: TypeAlias = Callable[[int, list[Range]], tuple[dict[int, Any], list[Range]]]
"""Called with a shelf and ranges of its parts; returns the known parts and the ranges of those to read."""


def nothing_known(shelf: int, ranges: list[Range]) -> tuple[dict[int, Any], list[Range]]:
    """Return no known parts: a `Recall` that reads everything."""
    del shelf
    return {}, ranges


def fits(tx: Transaction, place: StorePosition, draft: DraftValues) -> bool:
    """Return True if the parts that a draft relies on are on a shelf.

    Parts never change, but they may be swept away.

    Args:
        tx: The transaction.
        place: The shelf as it is.
        draft: The values taken apart for a shelf as last seen.
    """
    if draft.shelf == place or not draft.relied:
        return True
    if draft.shelf is None or draft.shelf.shelf != place.shelf:
        return False
    return all(
        len(query.part_hashes(tx, shelf=place.shelf, low=low, high=high)) == high - low
        for low, high in covered(draft.relied)
    )


def shelve(
    tx: Transaction,
    place: StorePosition,
    draft: DraftValues,
    recipes: Sequence[Recipe],
    writer: ShelfWriter | None = None,
) -> tuple[list[bytes], ShelfWriter | None]:
    """Put the parts of a draft on a shelf, those that are not there already.

    Args:
        tx: The transaction.
        place: The shelf, which the draft fits.
        draft: The values taken apart.
        recipes: Their recipes.
        writer: Holds a shelf for the parts of this draft already. Default: the shelf is held now, if need be.

    Returns:
        The packed recipes in the same order, and the writer that holds the shelf; None if no part was needed.

    Raises:
        BranchMoved: The shelf was swept meanwhile; the operation begins again.
    """
    if not any(map(has_parts, recipes)):
        return [pack(recipe) for recipe in recipes], None
    if writer is None or writer.shelf != place.shelf:
        writer = ShelfWriter(tx, place.shelf, draft.parts)
    writer.put(place)
    packed = [pack(draft.settle(recipe, writer.numbers, writer.tidy)) for recipe in recipes]
    writer.copy_parts(place)
    return packed, writer


def shelve_messages(tx: Transaction, place: StorePosition, bodies: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
    """Put messages without ids on a shelf, those that are not there already.

    Args:
        tx: The transaction.
        place: The shelf as it is.
        bodies: The bodies of the messages.

    Returns:
        The recipe of the list of them, and the digests of their bodies.
    """
    writer = ShelfWriter(tx, place.shelf, [StoredPart(MESSAGE, None, body) for body in bodies])
    writer.put(place)
    ranges = writer.tidy(runs(writer.numbers), False)  # noqa: FBT003 - see Tidy
    writer.copy_parts(place)
    return pack([LIST, *written_ranges(ranges)]), [digest for digest, _, _ in writer.keys]


def hold(tx: Transaction, place: StorePosition, *, listed: int = 0) -> None:
    """Keep others from the shelf until the transaction ends.

    Args:
        tx: The transaction.
        place: The shelf as it was seen.
        listed: The count of numbers to take from the first row. Default: 0.

    Raises:
        BranchMoved: The shelf was swept meanwhile, or is gone; the operation begins again.
    """
    rows = query.take_numbers(tx, shelf=place.shelf, listed=listed)
    if not rows or rows[0]["swept"] != place.swept:
        raise BranchMoved


class ShelfWriter:
    """Puts parts on a shelf, and holds the shelf until the transaction ends.

    The shelf is locked before the bodies of its parts, as wherever both are needed, which prevents deadlocks. Making
    the writer sends the queries; `put` waits for them.

    Args:
        tx: The transaction.
        shelf: The shelf's id; it need not exist.
        parts: The parts.

    Attributes:
        shelf: The shelf's id.
        keys: The digest, form and name of each part.
        numbers: The number of each part, after `put`.
        moves: The new numbers of parts that were copied.
    """

    def __init__(self, tx: Transaction, shelf: int, parts: Sequence[StoredPart]) -> None:
        self.shelf = shelf
        self.keys: list[_Key] = [(queries.digest(part.body), part.form, part.name) for part in parts]
        self.numbers: list[int] = []
        self.moves: dict[int, int] = {}
        self._tx = tx
        self._parts = parts
        self._row = query.lock_shelf.ahead(tx, shelf=shelf)
        self._known: Rows = ()
        if parts:
            asked = [(key.hex(), form, name) for key, form, name in dict.fromkeys(self.keys)]
            self._known = query.known_parts.ahead(tx, shelf=shelf, keys=json.dumps(asked))
        self._copies: list[tuple[int, int, int]] = []
        self._first = self._following = 0

    def put(self, place: StorePosition) -> None:
        """Store the parts that are not on the shelf.

        The writes wait for nothing, so that other writers wait only briefly.

        Args:
            place: The shelf as last seen.

        Raises:
            BranchMoved: The shelf was swept meanwhile, or does not exist; the operation begins again.
        """
        if not self._row or self._row[0]["swept"] != place.swept:
            raise BranchMoved
        listed, first = int(self._row[0]["listed"]), int(self._row[0]["loose"])
        known: dict[_Key, set[int]] = {}
        for row in self._known:
            known.setdefault((bytes(row["hash"]), row["form"], row["name"]), set()).add(row["number"])
        found = _known_numbers(self.keys, self._parts, known)
        added = [(key, part) for key, part, number in zip(self.keys, self._parts, found, strict=True) if number is None]
        there = {key for key, _, _ in known}
        queries.store(self._tx, {key[0]: part.body for key, part in added if key[0] not in there})
        loose = dict.fromkeys(key for key, part in added if part.loose)
        count = sum(not part.loose for _, part in added)
        if count or loose:
            query.use_numbers(self._tx, shelf=self.shelf, listed=listed + count, loose=first + len(loose))
        assigned = {key: first + index for index, key in enumerate(loose)}
        new: dict[int, dict[str, object]] = {}
        for key, part, number in zip(self.keys, self._parts, found, strict=True):
            if number is None:
                number = assigned[key] if part.loose else listed  # noqa: PLW2901 - it has its number now
                listed += not part.loose
                new[number] = {"shelf": self.shelf, "number": number, "form": part.form, "name": part.name}
                new[number] |= {"hash": key[0], "checksum": zlib.crc32(part.body)}
            self.numbers.append(number)
        if new:
            rows = list(new.values())
            query.insert_part(self._tx, **rows[0]) if len(rows) == 1 else query.insert_part.many(self._tx, rows)
        self._first = self._following = listed

    def tidy(self, ranges: list[Range], listed: bool) -> list[Range]:  # noqa: FBT001 - see Tidy
        """Join ranges if there are too many, and copy those of a channel's list to the first row."""
        if listed and any(high > LOOSE for _, high in ranges):
            ranges = merged([self._copied([each]) if each[1] > LOOSE else each for each in ranges])
        while len(ranges) > MOST_RANGES:
            width = MOST_RANGES // 2
            at = _lightest(ranges, width)
            ranges = [*ranges[:at], self._copied(ranges[at : at + width]), *ranges[at + width :]]
        return ranges

    def copy_parts(self, place: StorePosition) -> None:
        """Store the copies that `tidy` needs: parts that are stored again in the first row."""
        if self._copies:
            hold(self._tx, place, listed=self._following - self._first)
        for low, high, shift in self._copies:
            query.copy_parts(self._tx, shelf=self.shelf, target=self.shelf, low=low, high=high, shift=shift)

    def _copied(self, ranges: Iterable[Range]) -> Range:
        start = self._following
        for low, high in ranges:
            shift = self._following - low
            self._copies.append((low, high, shift))
            self.moves.update((number, number + shift) for number in range(low, high))
            self._following += high - low
        return start, self._following


def fetch(tx: Transaction, shelf: int, recipes: Iterable[Recipe], recall: Recall) -> dict[int, Any]:
    """Read all the parts that some recipes need, each once.

    Args:
        tx: The transaction.
        shelf: The shelf's id.
        recipes: The recipes.
        recall: Returns the parts that are known without reading them.

    Returns:
        A `StoredPart` for each number, or the result of `recall` for it.
    """
    found, missing = recall(shelf, covered(each for recipe in recipes for each in ranges_of(recipe)))
    if missing:
        rows = query.parts_in(tx, shelf=shelf, ranges=json.dumps(missing))
        if rows and isinstance(rows[0], Mapping):
            rows = [tuple(row.values()) for row in rows]
        for number, form, name, checksum, body in rows:
            found[number] = StoredPart(form, name, bytes(body if body is not None else b""), checksum)
    return found


def adopt(tx: Transaction, place: StorePosition, parts: Mapping[int, StoredPart]) -> dict[int, int]:
    """Put parts of another database on a shelf.

    Args:
        tx: The transaction.
        place: The shelf.
        parts: The parts, by their numbers there.

    Returns:
        The number here of each.
    """
    writer = ShelfWriter(tx, place.shelf, list(parts.values()))
    writer.put(place)
    return dict(zip(parts, writer.numbers, strict=True))


def sweep(tx: Transaction, shelf: int) -> None:
    """Take away the values that no checkpoint has any more, and the parts that no value needs."""
    query.clear_litter(tx, shelf=shelf)  # first, so that nobody puts anything on the shelf meanwhile
    lines = query.shelf_lines(tx, shelf=shelf)
    drop_unneeded(tx, shelf, [each for line in lines for each in _sweep_line(tx, line["id"])])


def drop_unneeded(tx: Transaction, shelf: int, needed: Iterable[Range]) -> None:
    """Delete the parts of a shelf outside the needed ranges, and contents unused elsewhere.

    Args:
        tx: The transaction.
        shelf: The shelf.
        needed: The ranges of the parts that stay.
    """
    hashes: set[bytes] = set()
    for low, high in without([(0, FARTHEST)], needed):
        rows = query.part_hashes(tx, shelf=shelf, low=low, high=high)
        if rows:
            hashes.update(bytes(row["hash"]) for row in rows)
            query.delete_parts(tx, shelf=shelf, low=low, high=high)
    if hashes:
        query.note_sweep(tx, shelf=shelf)
        queries.collect(tx, hashes)


def _known_numbers(
    keys: Sequence[_Key], parts: Sequence[StoredPart], known: Mapping[_Key, set[int]]
) -> list[int | None]:
    """Return the numbers of parts that are stored already; None for those to be stored.

    Equal elements of one list are separate parts: a list that named one part twice would be two ranges. After the end
    of a range, the next one begins at a part that the following element follows, if such a part exists.
    """
    found: list[int | None] = []
    last, used = -1, set[int]()
    for key, part, following in zip_longest(keys, parts, keys[1:]):
        numbers = known.get(key, set())
        number: int | None = last + 1
        if part.loose:
            number = min(numbers, default=None)
        elif number not in numbers or number in used or number >= LOOSE:
            there = {each for each in numbers if each < LOOSE} - used
            joined = {each for each in there if following and each + 1 in known.get(following, ())}
            number = max(joined or there, default=None)
        if not part.loose:
            last = LOOSE if number is None else number
            used.add(last)
        found.append(number)
    return found


def _sweep_line(tx: Transaction, line: int) -> list[Range]:
    """Delete the values of a line that are in no checkpoint; return the ranges still needed."""
    checkpoints = query.line_versions(tx, line=line)
    alive = {pair for row in checkpoints for pair in json.loads(row["versions"]).items()}
    values = query.line_values(tx, line=line)
    dead = [row for row in values if (row["channel"], row["version"]) not in alive]
    if dead:
        gone = [{"line": line, "channel": row["channel"], "version": row["version"]} for row in dead]
        query.delete_value.many(tx, gone)
    kept = [row for row in values if (row["channel"], row["version"]) in alive]
    return [each for row in (*kept, *query.line_writes(tx, line=line)) for each in ranges_of(unpack(row["recipe"]))]


def _lightest(ranges: Sequence[Range], width: int) -> int:
    """Return where so many neighbouring ranges have the fewest parts."""
    sizes = [0, *accumulate(high - low for low, high in ranges)]
    weights = [after - before for before, after in zip(sizes, sizes[width:], strict=False)]
    return weights.index(min(weights))
