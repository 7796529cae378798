"""Stamps: which message objects are known to be on a shelf already.

A graph hands its whole state to every checkpoint, and nearly all messages in it are the very objects that were read or
stored before. A stamp tells where such an object lies. It rides on the message itself, in the set in which pydantic
notes the fields that were given, so it lives and dies with the message. And it knows all that was stored, or a
fingerprint of it, so a message that was changed in place since is never taken for the one that was stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import ormsgpack

from langchain_agentmem.messages.stored_messages import Prototype
from langchain_agentmem.threads.value_recipe import Range, runs

EXACTLY = (
    ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
"""Only what MessagePack itself can say: whatever could hide a change has no fingerprint."""

BLOCK = 128
"""Messages that are compared at once: as many as a processor keeps at hand."""

_set = object.__setattr__
_given, _extra = attrgetter("__pydantic_fields_set__"), attrgetter("__pydantic_extra__")
_fields, _mark = attrgetter("__dict__"), attrgetter("mark")
_owner, _shelf, _number = attrgetter("owner"), attrgetter("shelf"), attrgetter("number")


def fingerprint(message: Any) -> int | None:
    """A hash of everything a message holds; None when it holds more than text, numbers, lists and dictionaries."""
    if message.__pydantic_extra__:
        return None
    try:
        return hash(ormsgpack.packb(message.__dict__, option=EXACTLY))
    except ormsgpack.MsgpackEncodeError:
        return None


class Stamp(set[str]):
    """The fields of a message that were given, and where the message lies.

    Attributes:
        owner: Whose stamp it is.
        shelf: The shelf's id, and how often it was swept.
        number: The part's number there.
        mark: The fields that were stored, where equal fields are the same fields; else their fingerprint.
    """

    __slots__ = ("mark", "number", "owner", "shelf")

    owner: Stamps
    shelf: tuple[int, int]
    number: int
    mark: dict[str, Any] | int

    def __reduce__(self) -> tuple[type[set[str]], tuple[list[str]]]:
        """A copy, and what is pickled, is a plain set."""
        return set, (list(self),)


class Stamps:
    """The stamps of one saver."""

    __slots__ = ()

    def put(self, message: Any, shelf: tuple[int, int], number: int, mark: dict[str, Any] | int | None) -> None:
        """Remember where a message lies.

        Args:
            message: The object.
            shelf: The shelf's id, and how often it was swept.
            number: The part's number.
            mark: The fields that were stored, where equal fields are the same, else their fingerprint, taken before
                they were written out. None is not remembered.
        """
        if mark is None:
            return
        stamp = Stamp(message.__pydantic_fields_set__)
        stamp.owner, stamp.shelf, stamp.number, stamp.mark = self, shelf, number, mark
        _set(message, "__pydantic_fields_set__", stamp)

    def put_on_copies(self, prototype: Prototype, shelf: tuple[int, int], number: int) -> None:
        """Stamp all copies that are made of a prototype: they share one stamp."""
        stamp = prototype.given
        if type(stamp) is not Stamp or stamp.owner is not self:
            mark = prototype.fields if prototype.flat else fingerprint(prototype.copy())
            if mark is None:
                return
            stamp = Stamp(stamp)
            stamp.owner, stamp.mark = self, mark
        stamp.number, stamp.shelf = number, shelf
        prototype.given = stamp

    def number(self, message: Any, shelf: tuple[int, int]) -> int | None:
        """The number of the part that holds just this message, unchanged; None if that is not known."""
        [number] = self.numbers((message,), shelf)
        return number

    def numbers(self, items: Iterable[Any], shelf: tuple[int, int]) -> Iterator[int | None]:
        """The same for many at once; they may be anything."""
        for item in items:
            stamp = getattr(item, "__pydantic_fields_set__", None)
            if type(stamp) is not Stamp or stamp.owner is not self or stamp.shelf != shelf:
                yield None
                continue
            mark = stamp.mark
            if type(mark) is int:
                yield stamp.number if mark == fingerprint(item) else None
                continue
            try:
                same = item.__dict__ == mark and not item.__pydantic_extra__
            except Exception:  # noqa: BLE001 - a field was given something that cannot be compared
                same = False
            yield stamp.number if same else None

    def head(self, items: Sequence[Any], shelf: tuple[int, int]) -> tuple[int, list[Range]]:
        """How much of the beginning of a list is known and unchanged, seen a block at a time.

        Args:
            items: Anything.
            shelf: The shelf's id, and how often it was swept.

        Returns:
            How many items, and where they lie. What follows takes a closer look at each.
        """
        numbers: list[int] = []
        for start in range(0, len(items), BLOCK):
            block = items[start : start + BLOCK]
            try:
                stamps = list(map(_given, block))
                known = (
                    list(map(_fields, block)) == list(map(_mark, stamps))
                    and list(map(_owner, stamps)).count(self) == len(block)
                    and list(map(_shelf, stamps)).count(shelf) == len(block)
                    and not any(map(_extra, block))
                )
            except Exception:  # noqa: BLE001 - some are no messages, or have no stamp, or cannot be compared
                known = False
            if not known:
                break
            numbers += map(_number, stamps)
        return len(numbers), runs(numbers)

    def move(self, message: Any, shelf: tuple[int, int], moves: Mapping[int, int]) -> None:
        """Note the new number of a part that a message lies in, if it has one."""
        stamp = getattr(message, "__pydantic_fields_set__", None)
        if type(stamp) is Stamp and stamp.owner is self and stamp.shelf == shelf:
            stamp.number = moves.get(stamp.number, stamp.number)
