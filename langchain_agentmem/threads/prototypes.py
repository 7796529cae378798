"""Messages that were read or stored lately, to make copies of.

What is kept here can never be stale: a part of a shelf is never changed, and its number is never given to another. It
only saves reading what is known; how much is kept is bounded.
"""

from __future__ import annotations

from langchain_agentmem.messages.stored_messages import Prototype
from langchain_agentmem.threads.value_recipe import Range
from langchain_agentmem.tracing.measures import Measures

CACHE = "messages of checkpoints"
"""What the measures call them."""
MOST_BYTES = 32_000_000
_OVERHEAD = 1_000
"""Bytes that a prototype takes beside its body, roughly."""
_NESTED = 8
"""How many times its body a prototype takes that has lists and dictionaries, at most."""


class Prototypes:
    """The prototypes of one saver. Safe to use from any thread.

    Args:
        most_bytes: How much is kept.
        measures: Is told how often they were there. Default: nobody is.
    """

    __slots__ = ("_bytes", "_known", "_measures", "_most")

    def __init__(self, most_bytes: int = MOST_BYTES, measures: Measures | None = None) -> None:
        self._measures = measures
        self._known: dict[int, dict[int, Prototype]] = {}
        self._bytes = 0
        self._most = most_bytes

    def put(self, shelf: int, number: int, prototype: Prototype) -> None:
        """Keep a prototype. Where there is no room, everything else is forgotten."""
        known = self._known.setdefault(shelf, {})
        if number in known:
            return
        known[number] = prototype
        size = _size(prototype)
        self._bytes += size
        if self._bytes > self._most:
            self._known = {shelf: {number: prototype}}
            self._bytes = size

    def take(self, shelf: int, ranges: list[Range]) -> tuple[dict[int, Prototype], list[Range]]:
        """The prototypes of the parts in some ranges, and the ranges of those that are not known."""
        known = self._known.get(shelf, {})
        found: dict[int, Prototype] = {}
        missing: list[Range] = []
        for start, stop in ranges:
            for number in range(start, stop):
                prototype = known.get(number)
                if prototype is not None:
                    found[number] = prototype
                elif missing and missing[-1][1] == number:
                    missing[-1] = missing[-1][0], number + 1
                else:
                    missing.append((number, number + 1))
        if self._measures is not None:
            self._measures.cache(CACHE, len(found), sum(stop - start for start, stop in missing))
        return found, missing

    def forget(self, shelf: int | None = None) -> None:
        """Keep nothing of a shelf any more; of none where none is named."""
        if shelf is None:
            self._known, self._bytes = {}, 0
        else:
            self._bytes -= sum(map(_size, self._known.pop(shelf, {}).values()))


def _size(prototype: Prototype) -> int:
    return len(prototype.body) * (1 if prototype.flat else _NESTED) + _OVERHEAD
