"""Recipes: a value as ranges of a shelf, with small things written out.

A recipe is a small tree of lists. It is stored as MessagePack behind a CRC-32, so that damage is noticed:

    [WRITTEN, type, bytes]              a small value, as the serializer wrote it
    [PART, number]                      one part of the shelf
    [LIST, gap, length, …]              the elements of ranges of parts; a gap counts from the end of the range before
    [DICT, gap, length, …]              the entries of ranges of parts
    [FIELDS, [key, …], [recipe, …]]     a small dictionary
    [ITEMS, [recipe, …]]                a small list whose elements have recipes of their own
    [SEND, node, recipe, recipe | None] LangGraph's `Send`: where to, with what, and its timeout
    [SNAPSHOT, recipe]                  LangGraph's snapshot of a DeltaChannel
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import ormsgpack

WRITTEN, PART, LIST, DICT, FIELDS, ITEMS, SEND, SNAPSHOT = range(8)

Recipe: TypeAlias = list[Any]
Range: TypeAlias = tuple[int, int]
"""The numbers of neighbouring parts: from the first, up to but without the second."""

FARTHEST = 2**48
"""Beyond all numbers of parts."""

_CHECK_BYTES = 4


class Damaged(ValueError):
    """Stored bytes are not what was stored.

    Args:
        problem: What is wrong with them.
        checkpoint: The id of the checkpoint they belong to, where that is known.
    """

    def __init__(self, problem: str, checkpoint: str | None = None) -> None:
        super().__init__(problem)
        self.checkpoint = checkpoint


def guarded(data: bytes, beside: str = "") -> bytes:
    """Put a checksum before bytes.

    Args:
        data: The bytes.
        beside: A text that is stored elsewhere, and that the checksum guards too.
    """
    return zlib.crc32(data, zlib.crc32(beside.encode())).to_bytes(_CHECK_BYTES, "big") + data


def opened(blob: bytes, beside: str = "") -> bytes:
    """Take the checksum off again.

    Raises:
        Damaged: It does not fit.
    """
    data = bytes(blob)[_CHECK_BYTES:]
    checksum = zlib.crc32(data, zlib.crc32(beside.encode()))
    if len(blob) < _CHECK_BYTES or checksum != int.from_bytes(blob[:_CHECK_BYTES], "big"):
        raise Damaged("its checksum does not fit")
    return data


def pack(recipe: Recipe) -> bytes:
    """Write a recipe."""
    return guarded(ormsgpack.packb(recipe, option=ormsgpack.OPT_REPLACE_SURROGATES))


def unpack(blob: bytes) -> Recipe:
    """Read a recipe.

    Raises:
        Damaged: It is not what was stored.
    """
    try:
        recipe = ormsgpack.unpackb(opened(blob))
    except ormsgpack.MsgpackDecodeError as error:
        raise Damaged(str(error)) from error
    if type(recipe) is not list or not recipe:
        raise Damaged("it is no recipe")
    try:
        sound = all(type(low) is type(high) is int and 0 <= low <= high < FARTHEST for low, high in ranges_of(recipe))
    except (TypeError, ValueError, IndexError, KeyError, RecursionError) as error:
        raise Damaged(f"it is no recipe ({error})") from error
    if not sound:
        raise Damaged("it is no recipe")
    return recipe


def written_ranges(ranges: Iterable[Range]) -> list[int]:
    """Ranges as gaps and lengths."""
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
    """Every range of parts that a recipe needs, in no particular order."""
    kind = recipe[0]
    if kind == PART:
        yield recipe[1], recipe[1] + 1
    elif kind in (LIST, DICT):
        yield from read_ranges(recipe[1:])
    else:
        for inner in _inner(recipe):
            yield from ranges_of(inner)


def has_parts(recipe: Recipe) -> bool:
    """Whether a recipe needs any part of the shelf."""
    return recipe[0] in (PART, LIST, DICT) or any(map(has_parts, _inner(recipe)))


def moved(recipe: Recipe, place: Callable[[int], int]) -> Recipe:
    """The same recipe for another shelf.

    Args:
        recipe: A recipe.
        place: Gives the number there of a part here.
    """
    return rebuilt(recipe, place, lambda each: [each[0], *written_ranges(runs(list(map(place, _numbers(each)))))])


def with_parts(recipe: Recipe, part: Callable[[int], Any]) -> Recipe:
    """A recipe in which parts stand for their numbers.

    Args:
        recipe: A recipe.
        part: Gives the part of a number.
    """
    return rebuilt(recipe, part, lambda each: [each[0], *map(part, _numbers(each))])


def rebuilt(recipe: Recipe, part: Callable[[Any], Any], listed: Callable[[Recipe], Recipe]) -> Recipe:
    """A recipe with other parts.

    Args:
        recipe: A recipe.
        part: Gives what takes the place of a number.
        listed: Gives what takes the place of a recipe of ranges.
    """

    def again(recipe: Recipe) -> Recipe:
        return rebuilt(recipe, part, listed)

    kind = recipe[0]
    if kind == PART:
        return [PART, part(recipe[1])]
    if kind in (LIST, DICT):
        return listed(recipe)
    if kind == FIELDS:
        return [FIELDS, recipe[1], list(map(again, recipe[2]))]
    if kind == ITEMS:
        return [ITEMS, list(map(again, recipe[1]))]
    if kind == SEND:
        return [SEND, recipe[1], again(recipe[2]), recipe[3] and again(recipe[3])]
    return [SNAPSHOT, again(recipe[1])] if kind == SNAPSHOT else recipe


def _numbers(recipe: Recipe) -> Iterator[int]:
    """The numbers in a recipe of ranges."""
    return (number for start, stop in read_ranges(recipe[1:]) for number in range(start, stop))


def runs(numbers: list[int]) -> list[Range]:
    """Numbers in their order, as few ranges as can be."""
    if numbers and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return [(numbers[0], numbers[0] + len(numbers))]  # the usual case, at once
    return merged((number, number + 1) for number in numbers)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Ranges in their order, neighbours as one."""
    found: list[Range] = []
    for start, stop in ranges:
        if found and found[-1][1] == start:
            found[-1] = found[-1][0], stop
        else:
            found.append((start, stop))
    return found


def covered(ranges: Iterable[Range]) -> list[Range]:
    """The union of ranges, ascending and apart from each other."""
    union: list[Range] = []
    for start, stop in sorted(set(ranges)):
        if union and start <= union[-1][1]:
            union[-1] = union[-1][0], max(stop, union[-1][1])
        else:
            union.append((start, stop))
    return union


def without(ranges: Iterable[Range], others: Iterable[Range]) -> Iterator[Range]:
    """What of some ranges no other one holds, in their order."""
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
    """The parts that several of some ranges hold, and how many do."""
    times: Counter[int] = Counter()
    end = 0
    for start, stop in sorted(ranges):
        for number in range(start, min(stop, end)):
            times[number] = (times[number] or 1) + 1
        end = max(end, stop)
    return times


def _inner(recipe: Recipe) -> list[Recipe]:
    kind = recipe[0]
    if kind == FIELDS:
        return list(recipe[2])
    if kind == ITEMS:
        return list(recipe[1])
    if kind == SEND:
        return [inner for inner in recipe[2:4] if inner is not None]
    return [recipe[1]] if kind == SNAPSHOT else []
