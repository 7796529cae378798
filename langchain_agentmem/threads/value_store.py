"""Recipes of values, and the part store of a thread.

A recipe describes a value as ranges of parts, with small values inline. It is a small tree of lists, which is stored as
MessagePack after a CRC-32 that detects damage:

- `[INLINE, type, bytes]`: a small value, as the serializer wrote it.
- `[ONE_PART, number]`: one part.
- `[LIST, gap, length, …]`: the elements in ranges of parts. A gap starts at the end of the previous range.
- `[DICT, gap, length, …]`: the entries in ranges of parts.
- `[FIELDS, [key, …], [recipe, …]]`: a small dictionary.
- `[ITEMS, None, [recipe, …]]`: a small list whose elements have their own recipes.
- `[SEND, node, [recipe, …]]`: LangGraph's `Send`, with recipes of its argument and, if set, its timeout.
- `[SNAPSHOT, None, [recipe]]`: LangGraph's snapshot of a DeltaChannel.

A part store holds the parts of a thread's values, numbered in the order of insertion. There are two number series. The
first one is for the growing lists and dictionaries of channels, so that a long list is one range. The second one starts
at `LOOSE_START`, and is for all other parts, such as those of task writes.

A stored part is never changed or renumbered, and no number is reused. A sweep deletes parts that no value needs. While
the number of sweeps stays the same, part numbers that a process has cached are valid.
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

INLINE, ONE_PART, LIST, DICT, FIELDS, ITEMS, SEND, SNAPSHOT = range(8)
"""The kinds of recipes: the first item of each recipe."""

Recipe: TypeAlias = list[Any]
Range: TypeAlias = tuple[int, int]
"""A range of part numbers: the first number, and the number after the last."""

MAX_PART_NUMBER = 2**48
"""The exclusive upper bound of part numbers."""

_CHECK_BYTES = 4
"""The number of bytes of a checksum."""


class DamagedValue(ValueError):
    """An error for stored bytes that are damaged.

    Args:
        problem: The description of the damage.
        checkpoint: The id of the damaged checkpoint, if it is known.
    """

    def __init__(self, problem: str, checkpoint: str | None = None) -> None:
        super().__init__(problem)
        self.checkpoint = checkpoint


def add_checksum(data: bytes, extra_text: str = "") -> bytes:
    """Prepend a checksum to bytes.

    Args:
        data: The bytes.
        extra_text: A separately stored text that the checksum also covers. Default: none.
    """
    return zlib.crc32(data, zlib.crc32(extra_text.encode())).to_bytes(_CHECK_BYTES, "big") + data


def strip_checksum(blob: bytes, extra_text: str = "") -> bytes:
    """Check the checksum of stored bytes, and return the bytes without it.

    Args:
        blob: The stored bytes.
        extra_text: The separately stored text that the checksum also covers. Default: none.

    Raises:
        DamagedValue: The checksum does not match.
    """
    data = bytes(blob)[_CHECK_BYTES:]
    checksum = zlib.crc32(data, zlib.crc32(extra_text.encode()))
    if len(blob) < _CHECK_BYTES or checksum != int.from_bytes(blob[:_CHECK_BYTES], "big"):
        raise DamagedValue("its checksum does not match")
    return data


def pack(recipe: Recipe) -> bytes:
    """Serialize a recipe."""
    return add_checksum(ormsgpack.packb(recipe, option=ormsgpack.OPT_REPLACE_SURROGATES))


def unpack(blob: bytes) -> Recipe:
    """Deserialize a recipe.

    Raises:
        DamagedValue: The data is damaged.
    """
    try:
        recipe = ormsgpack.unpackb(strip_checksum(blob))
    except ormsgpack.MsgpackDecodeError as error:
        raise DamagedValue(str(error)) from error
    if type(recipe) is not list or not recipe:
        raise DamagedValue("it is not a recipe")
    try:
        is_valid = all(
            type(low) is type(high) is int and 0 <= low <= high < MAX_PART_NUMBER for low, high in ranges_of(recipe)
        )
    except (TypeError, ValueError, IndexError, KeyError, RecursionError) as error:
        raise DamagedValue(f"it is not a recipe ({error})") from error
    if not is_valid:
        raise DamagedValue("it is not a recipe")
    return recipe


def encode_ranges(ranges: Iterable[Range]) -> list[int]:
    """Encode ranges as numbers: for each range the gap before it, then its length."""
    numbers: list[int] = []
    end = 0
    for start, stop in ranges:
        numbers += (start - end, stop - start)
        end = stop
    return numbers


def decode_ranges(numbers: list[int]) -> Iterator[Range]:
    """Yield the ranges that `encode_ranges` encoded."""
    end = 0
    for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
        start = end + gap
        end = start + length
        yield start, end


def ranges_of(recipe: Recipe) -> Iterator[Range]:
    """Yield every range of parts that a recipe needs, in no particular order."""
    kind = recipe[0]
    if kind == ONE_PART:
        yield recipe[1], recipe[1] + 1
    elif kind in (LIST, DICT):
        yield from decode_ranges(recipe[1:])
    elif kind != INLINE:
        for inner in recipe[2]:
            yield from ranges_of(inner)


def has_parts(recipe: Recipe) -> bool:
    """Return True if a recipe needs any part."""
    return recipe[0] in (ONE_PART, LIST, DICT) or (recipe[0] != INLINE and any(map(has_parts, recipe[2])))


def renumber(recipe: Recipe, get_number: Callable[[int], int]) -> Recipe:
    """Convert the part numbers of a recipe to those of another part store.

    Args:
        recipe: The recipe.
        get_number: A function that returns a part's number in the other store for its number in this store.
    """

    def renumber_list(part: Recipe) -> Recipe:
        numbers = [get_number(number) for start, stop in decode_ranges(part[1:]) for number in range(start, stop)]
        return [part[0], *encode_ranges(to_ranges(numbers))]

    return map_recipe(recipe, get_number, renumber_list)


def map_recipe(recipe: Recipe, replace_part: Callable[[Any], Any], replace_list: Callable[[Recipe], Recipe]) -> Recipe:
    """Replace the parts in a recipe, and return the new recipe.

    Args:
        recipe: The recipe.
        replace_part: A function that returns the replacement for the number in a `ONE_PART` recipe.
        replace_list: A function that returns the replacement for a `LIST` or `DICT` recipe.
    """

    def map_inner(recipe: Recipe) -> Recipe:
        return map_recipe(recipe, replace_part, replace_list)

    kind = recipe[0]
    if kind == ONE_PART:
        return [ONE_PART, replace_part(recipe[1])]
    if kind in (LIST, DICT):
        return replace_list(recipe)
    return recipe if kind == INLINE else [kind, recipe[1], list(map(map_inner, recipe[2]))]


def to_ranges(numbers: list[int]) -> list[Range]:
    """Return the fewest ranges that contain some numbers in their order."""
    if numbers and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return [(numbers[0], numbers[0] + len(numbers))]  # the usual case, without a loop
    return merge_adjacent((number, number + 1) for number in numbers)


def merge_adjacent(ranges: Iterable[Range]) -> list[Range]:
    """Join each range with the next one if that begins where the range ends."""
    joined: list[Range] = []
    for start, stop in ranges:
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], stop
        else:
            joined.append((start, stop))
    return joined


def union_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Return the union of ranges: sorted, and without overlaps."""
    union: list[Range] = []
    for start, stop in sorted(set(ranges)):
        if union and start <= union[-1][1]:
            union[-1] = union[-1][0], max(stop, union[-1][1])
        else:
            union.append((start, stop))
    return union


def subtract_ranges(ranges: Iterable[Range], others: Iterable[Range]) -> Iterator[Range]:
    """Yield the subranges of `ranges` that are outside `others`, in the order of `ranges`."""
    excluded = union_ranges(others)
    for start, stop in ranges:
        low = start
        for begin, end in excluded:
            if end > low and begin < stop:
                if low < begin:
                    yield low, begin
                low = end
        if low < stop:
            yield low, stop


def count_repeats(ranges: Iterable[Range]) -> Counter[int]:
    """Count the ranges that contain each part. Only parts in several ranges are returned."""
    counts: Counter[int] = Counter()
    end = 0  # the end of all previous ranges
    for start, stop in sorted(ranges):
        for number in range(start, min(stop, end)):
            counts[number] = (counts[number] or 1) + 1
        end = max(end, stop)
    return counts


LOOSE_START = 2**40
"""The first number of the second series of part numbers."""
MESSAGE_FORM = "message"
"""The form of a part with the body of a message."""
MOST_RANGES = 64
"""The maximum number of ranges in a recipe. Beyond it, neighbouring ranges are replaced by one range of copies."""


_PartKey: TypeAlias = tuple[bytes, str, str | None]
"""The key by which equal parts are found: the digest of the body, the form and the name."""


class StorePosition(NamedTuple):
    """A part store as last read: its row id and its number of sweeps."""

    store_id: int
    sweep_count: int


class StoredPart(NamedTuple):
    """A part of a value, stored or to be stored.

    Attributes:
        form: The format of its body.
        name: The id of the message; None for other parts and messages without an id.
        body: The bytes.
        checksum: The CRC-32 that was stored with the body; 0 for a part that is not stored yet.
        loose: True if a new part belongs to the second number series, so that no list depends on its position.
    """

    form: str
    name: str | None
    body: bytes
    checksum: int = 0
    loose: bool = False


Tidy: TypeAlias = Callable[[list[Range], bool], list[Range]]
"""A function that limits the number of ranges: it returns ranges of the same parts, or of copies of them.

Its flag is True for a channel's whole value.
"""


class DraftValues(Protocol):
    """A set of values split into parts, before the new parts have numbers.

    Attributes:
        store: The part store as last read; None for a new one.
        parts: The parts that are not known to be stored.
        relied_ranges: The ranges of the parts that the recipes use and that were stored when the draft was made.
    """

    store: StorePosition | None
    parts: list[StoredPart]
    relied_ranges: list[Range]

    def assign_numbers(self, recipe: Recipe, numbers: Sequence[int], tidy: Tidy) -> Recipe:
        """Return a recipe with the assigned numbers of its parts."""

    def stamp_messages(self, store: StorePosition, numbers: Sequence[int], moves: Mapping[int, int]) -> None:
        """Stamp the messages with their part numbers, after the commit."""


Recall: TypeAlias = Callable[[int, list[Range]], tuple[dict[int, Any], list[Range]]]
"""A function that returns the cached parts in ranges of a part store, and the ranges of the parts to read."""


def recall_nothing(store_id: int, ranges: list[Range]) -> tuple[dict[int, Any], list[Range]]:
    """Return no cached parts, so that all parts are read. This is a `Recall`."""
    del store_id
    return {}, ranges


def has_relied_parts(tx: Transaction, store: StorePosition, draft: DraftValues) -> bool:
    """Return True if the stored parts that a draft uses still exist: a sweep may delete parts.

    Args:
        tx: The transaction.
        store: The current part store.
        draft: The draft, which was created for an earlier position of the part store.
    """
    if draft.store == store or not draft.relied_ranges:
        return True
    if draft.store is None or draft.store.store_id != store.store_id:
        return False
    return all(
        len(query.part_hashes(tx, store=store.store_id, low=low, high=high)) == high - low
        for low, high in union_ranges(draft.relied_ranges)
    )


def write_parts(
    tx: Transaction,
    store: StorePosition,
    draft: DraftValues,
    recipes: Sequence[Recipe],
    writer: StoreWriter | None = None,
) -> tuple[list[bytes], StoreWriter | None]:
    """Store the new parts of a draft.

    Args:
        tx: The transaction.
        store: The part store, which contains the draft's `relied_ranges`.
        draft: The draft.
        recipes: The recipes of its values.
        writer: A writer for this draft, which is ignored if it is for another store. Default: a new one, if a recipe
            has parts.

    Returns:
        The packed recipes in the same order, and the writer that has locked the store. The writer is None if no recipe
        has parts.

    Raises:
        BranchMoved: The store was swept meanwhile; the operation is retried.
    """
    if not any(map(has_parts, recipes)):
        return [pack(recipe) for recipe in recipes], None
    if writer is None or writer.store_id != store.store_id:
        writer = StoreWriter(tx, store.store_id, draft.parts)
    writer.put(store)
    packed = [pack(draft.assign_numbers(recipe, writer.numbers, writer.tidy_ranges)) for recipe in recipes]
    writer.copy_parts(store)
    return packed, writer


def write_messages(tx: Transaction, store: StorePosition, bodies: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
    """Store messages without ids, except those that are stored already.

    Args:
        tx: The transaction.
        store: The current part store.
        bodies: The bodies of the messages.

    Returns:
        The packed recipe of the list of messages, and the digests of their bodies.
    """
    writer = StoreWriter(tx, store.store_id, [StoredPart(MESSAGE_FORM, None, body) for body in bodies])
    writer.put(store)
    ranges = writer.tidy_ranges(to_ranges(writer.numbers), False)  # noqa: FBT003 - see Tidy
    writer.copy_parts(store)
    return pack([LIST, *encode_ranges(ranges)]), [digest for digest, _, _ in writer.keys]


def lock_store(tx: Transaction, store: StorePosition, *, count: int = 0) -> None:
    """Lock a part store until the transaction ends.

    Args:
        tx: The transaction.
        store: The part store as last read.
        count: The number of part numbers to reserve in the first series. Default: 0.

    Raises:
        BranchMoved: The store was swept or deleted meanwhile; the operation is retried.
    """
    rows = query.reserve_part_numbers(tx, store=store.store_id, count=count)
    if not rows or rows[0]["sweep_count"] != store.sweep_count:
        raise BranchMoved


class StoreWriter:
    """A writer of parts, which locks the part store until the transaction ends.

    Every operation locks the store before it locks the bodies of parts, which prevents deadlocks. The constructor sends
    the queries that lock the store and find stored parts. `put` waits for their results.

    Args:
        tx: The transaction.
        store_id: The id of the part store, which need not exist.
        parts: The parts.

    Attributes:
        store_id: The id of the part store.
        keys: The digest, form and name of each part.
        numbers: The number of each part, after `put`.
        moves: The number of the copy of each copied part, by the number of the part.
    """

    def __init__(self, tx: Transaction, store_id: int, parts: Sequence[StoredPart]) -> None:
        self.store_id = store_id
        self.keys: list[_PartKey] = [(queries.digest(part.body), part.form, part.name) for part in parts]
        self.numbers: list[int] = []
        self.moves: dict[int, int] = {}
        self._tx = tx
        self._parts = parts
        self._store_row = query.lock_store.lazy(tx, store=store_id)
        self._known_rows: Rows = ()
        if parts:
            lookup_keys = [(digest.hex(), form, name) for digest, form, name in dict.fromkeys(self.keys)]
            self._known_rows = query.known_parts.lazy(tx, store=store_id, keys=json.dumps(lookup_keys))
        self._copies: list[tuple[int, int, int]] = []
        self._first_copy = self._next_copy = 0  # the number of the first and of the next copy

    def put(self, store: StorePosition) -> None:
        """Store the parts that the part store lacks.

        The lock and the lookup precede the first write, so that other writers wait only briefly.

        Args:
            store: The part store as last read.

        Raises:
            BranchMoved: The store was swept meanwhile, or does not exist; the operation is retried.
        """
        if not self._store_row or self._store_row[0]["sweep_count"] != store.sweep_count:
            raise BranchMoved
        # `next_element` is the next free number of the first series, `next_part` that of the second.
        next_element, next_part = int(self._store_row[0]["next_element"]), int(self._store_row[0]["next_part"])
        stored_numbers: dict[_PartKey, set[int]] = {}
        for row in self._known_rows:
            stored_numbers.setdefault((bytes(row["hash"]), row["encoding"], row["name"]), set()).add(row["number"])
        known_numbers = _known_numbers(self.keys, self._parts, stored_numbers)
        numbered_parts = list(zip(self.keys, self._parts, known_numbers, strict=True))
        added = [(key, part) for key, part, number in numbered_parts if number is None]
        stored_hashes = {digest for digest, _, _ in stored_numbers}
        queries.store_bodies(self._tx, {key[0]: part.body for key, part in added if key[0] not in stored_hashes})
        loose = dict.fromkeys(key for key, part in added if part.loose)
        count = sum(not part.loose for _, part in added)
        if count or loose:
            query.set_numbers(
                self._tx, store=self.store_id, next_element=next_element + count, next_part=next_part + len(loose)
            )
        assigned = {key: next_part + index for index, key in enumerate(loose)}
        new: dict[int, dict[str, object]] = {}
        for key, part, number in numbered_parts:
            if number is None:
                number = assigned[key] if part.loose else next_element  # noqa: PLW2901 - the new number
                next_element += not part.loose
                new[number] = {"store": self.store_id, "number": number, "encoding": part.form, "name": part.name}
                new[number] |= {"hash": key[0], "checksum": zlib.crc32(part.body)}
            self.numbers.append(number)
        if new:
            rows = list(new.values())
            query.insert_part(self._tx, **rows[0]) if len(rows) == 1 else query.insert_part.run_many(self._tx, rows)
        self._first_copy = self._next_copy = next_element

    def tidy_ranges(self, ranges: list[Range], for_channel: bool) -> list[Range]:  # noqa: FBT001 - see Tidy
        """Limit the number of ranges by planned copies of parts, and return the new ranges.

        This is a `Tidy`.

        Parts of a channel's list that are in the second series get copies in the first. If more than `MOST_RANGES`
        ranges remain, neighbouring ones are replaced by one range of copies.
        """
        if for_channel and any(high > LOOSE_START for _, high in ranges):
            ranges = merge_adjacent([self._plan_copy([each]) if each[1] > LOOSE_START else each for each in ranges])
        while len(ranges) > MOST_RANGES:
            width = MOST_RANGES // 2
            index = _find_lightest_ranges(ranges, width)
            ranges = [*ranges[:index], self._plan_copy(ranges[index : index + width]), *ranges[index + width :]]
        return ranges

    def copy_parts(self, store: StorePosition) -> None:
        """Store the copies that `tidy_ranges` planned. Their numbers are in the first series.

        Raises:
            BranchMoved: The store was swept or deleted meanwhile; the operation is retried.
        """
        if self._copies:
            lock_store(self._tx, store, count=self._next_copy - self._first_copy)
        for low, high, shift in self._copies:
            query.copy_parts(self._tx, store=self.store_id, target=self.store_id, low=low, high=high, shift=shift)

    def recall(self, store_id: int, ranges: list[Range]) -> tuple[dict[int, Any], list[Range]]:
        """Return the parts of this writer in some ranges, and the ranges of the other parts.

        This is a `Recall`. It saves reading parts that were just written.
        """
        del store_id
        numbered = zip(self.numbers, self._parts, strict=True)
        parts = {self.moves.get(number, number): part for number, part in numbered}
        found = {each: part for each, part in parts.items() if any(low <= each < high for low, high in ranges)}
        return found, list(subtract_ranges(ranges, [(number, number + 1) for number in found]))

    def _plan_copy(self, ranges: Iterable[Range]) -> Range:
        start = self._next_copy
        for low, high in ranges:
            shift = self._next_copy - low
            self._copies.append((low, high, shift))
            self.moves.update((number, number + shift) for number in range(low, high))
            self._next_copy += high - low
        return start, self._next_copy


def fetch_parts(tx: Transaction, store_id: int, recipes: Iterable[Recipe], recall: Recall) -> dict[int, Any]:
    """Read all parts that some recipes need, each once.

    Args:
        tx: The transaction.
        store_id: The id of the part store.
        recipes: The recipes.
        recall: Returns the cached parts.

    Returns:
        The parts, by number. Each is a `StoredPart`, or the result of `recall`.
    """
    found, missing = recall(store_id, union_ranges(each for recipe in recipes for each in ranges_of(recipe)))
    if missing:
        rows = query.parts_in_ranges(tx, store=store_id, ranges=json.dumps(missing))
        if rows and isinstance(rows[0], Mapping):
            rows = [tuple(row.values()) for row in rows]
        for number, form, name, checksum, body in rows:
            found[number] = StoredPart(form, name, bytes(body if body is not None else b""), checksum)
    return found


def import_parts(tx: Transaction, store: StorePosition, parts: Mapping[int, StoredPart]) -> dict[int, int]:
    """Store parts of another database, except those that are stored already.

    Args:
        tx: The transaction.
        store: The part store.
        parts: The parts, by their numbers in the other database.

    Returns:
        The number of each part in this store, by its number in the other database.
    """
    writer = StoreWriter(tx, store.store_id, list(parts.values()))
    writer.put(store)
    return dict(zip(parts, writer.numbers, strict=True))


def sweep_store(tx: Transaction, store_id: int) -> None:
    """Delete unused values and parts of a part store.

    A value is unused if no checkpoint has it. A part is unused if no remaining value or pending write needs it.
    """
    query.reset_removed_count(tx, store=store_id)  # this must be the first query, because it locks the store
    namespaces = query.ns_of_store(tx, store=store_id)
    delete_unneeded(tx, store_id, [each for row in namespaces for each in _sweep_values(tx, row["id"])])


def delete_unneeded(tx: Transaction, store_id: int, needed: Iterable[Range]) -> None:
    """Delete the parts outside the needed ranges, and their bodies without other references.

    Args:
        tx: The transaction.
        store_id: The id of the part store.
        needed: The ranges of the parts to keep.
    """
    hashes: set[bytes] = set()
    for low, high in subtract_ranges([(0, MAX_PART_NUMBER)], needed):
        rows = query.part_hashes(tx, store=store_id, low=low, high=high)
        if rows:
            hashes.update(bytes(row["hash"]) for row in rows)
            query.delete_parts(tx, store=store_id, low=low, high=high)
    if hashes:
        query.count_sweep(tx, store=store_id)
        queries.collect_bodies(tx, hashes)


def _known_numbers(
    keys: Sequence[_PartKey], parts: Sequence[StoredPart], stored_numbers: Mapping[_PartKey, set[int]]
) -> list[int | None]:
    """Return the number of an equal stored part for each part; None if it must be stored.

    Elements of a list get consecutive numbers if possible, so that the list is one range. Equal elements therefore get
    separate parts. If an element cannot continue the range of the previous element, another stored part equal to it is
    used, preferably one whose next part equals the next element.
    """
    found_numbers: list[int | None] = []
    last, used = -1, set[int]()
    for key, part, following in zip_longest(keys, parts, keys[1:]):
        numbers = stored_numbers.get(key, set())
        number: int | None = last + 1
        if part.loose:
            number = min(numbers, default=None)
        elif number not in numbers or number in used or number >= LOOSE_START:
            candidates = {each for each in numbers if each < LOOSE_START} - used
            followed = {each for each in candidates if following and each + 1 in stored_numbers.get(following, ())}
            number = max(followed or candidates, default=None)
        if not part.loose:
            last = LOOSE_START if number is None else number
            used.add(last)
        found_numbers.append(number)
    return found_numbers


def _sweep_values(tx: Transaction, ns_id: int) -> list[Range]:
    """Delete unused values of a checkpoint namespace; return the part ranges still needed."""
    checkpoints = query.ns_versions(tx, ns_id=ns_id)
    used_keys = {pair for row in checkpoints for pair in json.loads(row["versions"]).items()}
    values = {(row["channel"], row["version"]): row for row in query.ns_values(tx, ns_id=ns_id)}
    unused = [{"ns_id": ns_id, "channel": key[0], "version": key[1]} for key in values if key not in used_keys]
    if unused:
        query.delete_value.run_many(tx, unused)
    rows = [row for key, row in values.items() if key in used_keys]
    return [each for row in (*rows, *query.ns_writes(tx, ns_id=ns_id)) for each in ranges_of(unpack(row["recipe"]))]


def _find_lightest_ranges(ranges: Sequence[Range], width: int) -> int:
    """Return the first index of the `width` neighbouring ranges with the fewest parts."""
    totals = [0, *accumulate(high - low for low, high in ranges)]
    window_sizes = [after - before for before, after in zip(totals, totals[width:], strict=False)]
    return window_sizes.index(min(window_sizes))
