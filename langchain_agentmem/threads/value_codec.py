"""The conversion of channel values to recipes and parts, and back.

`ValueDraft` takes values apart. A message becomes a part that shares its body with the conversation log and every other
thread; a longer list or dictionary is cut into chunks whose ends depend on what is in them, so that an insertion or a
removal changes the chunk it falls into and no other; everything else goes through LangGraph's serializer whole.

The serializer determines how much can be shared. LangGraph's own shares everything. Under encryption each message is
encrypted by itself, once, and is shared within its thread; everything else is encrypted whole. What another serializer
does with a value is unknown, so each value is stored as it wrote it.

*Prototypes* are messages that were read or stored lately, of which copies are handed out. They can never be stale: a
part of a shelf is never changed, and its number is never given to another. It only saves reading what is known; how
much is kept is bounded.

*Stamps* say which message objects are known to be on a shelf already. A graph hands its whole state to every
checkpoint, and nearly all messages in it are the very objects that were read or stored before. A stamp tells where such
an object lies. It rides on the message itself, in the set in which pydantic notes the fields that were given, so it
lives and dies with the message. And it knows all that was stored, or a fingerprint of it, so a message that was changed
in place since is never taken for the one that was stored.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import ormsgpack
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send

from langchain_agentmem.errors import safe_repr
from langchain_agentmem.messages.stored_messages import MessagePrototype, body_of, message_of, prototype_of
from langchain_agentmem.threads import value_store as shelves

MOST_BYTES = 32_000_000
_OVERHEAD = 1_000
"""Approximate size of a prototype in bytes, without its body."""
_NESTED = 8
"""Maximum size of a prototype with lists and dictionaries, as a multiple of its body."""


def _size(prototype: MessagePrototype) -> int:
    return len(prototype.body) * (1 if prototype.flat else _NESTED) + _OVERHEAD


EXACTLY = (
    ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
"""Only what MessagePack itself can say: whatever could hide a change has no fingerprint."""

BLOCK = 128
"""Messages per comparison: as many as fit into a processor's cache."""

_set = object.__setattr__
_given, _extra = attrgetter("__pydantic_fields_set__"), attrgetter("__pydantic_extra__")
_fields, _mark = attrgetter("__dict__"), attrgetter("mark")
_owner, _shelf, _number = attrgetter("owner"), attrgetter("shelf"), attrgetter("number")


def fingerprint(message: Any) -> int | None:
    """Return a hash of everything in a message; None if it has other than plain values.

    Plain values are text, numbers, lists and dictionaries.
    """
    if message.__pydantic_extra__:
        return None
    try:
        return hash(ormsgpack.packb(message.__dict__, option=EXACTLY))
    except ormsgpack.MsgpackEncodeError:
        return None


class MessageStamp(set[str]):
    """The fields of a message that were given, and the place of the message.

    Attributes:
        owner: The cache that made it.
        shelf: The shelf's id and number of sweeps.
        number: The part's number there.
        mark: The stored fields, if equal fields are the same fields; else their fingerprint.
    """

    __slots__ = ("mark", "number", "owner", "shelf")

    owner: KnownMessages
    shelf: tuple[int, int]
    number: int
    mark: dict[str, Any] | int

    def __reduce__(self) -> tuple[type[set[str]], tuple[list[str]]]:
        """Copy and pickle a stamp as a plain set."""
        return set, (list(self),)


class KnownMessages:
    """A cache of messages that a saver read or stored: prototypes, and stamps on objects.

    Prototypes are safe to use from any thread. A stamp is valid only for the saver that made it.

    Args:
        most_bytes: The maximum size of the kept prototypes in bytes.
    """

    __slots__ = ("_bytes", "_known", "_most")

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._known: dict[int, dict[int, MessagePrototype]] = {}
        self._bytes = 0
        self._most = most_bytes

    def keep(self, shelf: int, number: int, prototype: MessagePrototype) -> None:
        """Keep a prototype. If there is no room, discard everything else."""
        known = self._known.setdefault(shelf, {})
        if number in known:
            return
        known[number] = prototype
        size = _size(prototype)
        self._bytes += size
        if self._bytes > self._most:
            self._known = {shelf: {number: prototype}}
            self._bytes = size

    def take(self, shelf: int, ranges: list[shelves.Range]) -> tuple[dict[int, MessagePrototype], list[shelves.Range]]:
        """Return the known prototypes of parts in some ranges, and the ranges of unknown parts."""
        known = self._known.get(shelf, {})
        found: dict[int, MessagePrototype] = {}
        missing: list[shelves.Range] = []
        for start, stop in ranges:
            for number in range(start, stop):
                prototype = known.get(number)
                if prototype is not None:
                    found[number] = prototype
                elif missing and missing[-1][1] == number:
                    missing[-1] = missing[-1][0], number + 1
                else:
                    missing.append((number, number + 1))
        return found, missing

    def forget(self, shelf: int | None = None) -> None:
        """Discard everything of a shelf. Default: of all shelves."""
        if shelf is None:
            self._known, self._bytes = {}, 0
        else:
            self._bytes -= sum(map(_size, self._known.pop(shelf, {}).values()))

    def stamp(self, message: Any, shelf: tuple[int, int], number: int, mark: dict[str, Any] | int | None) -> None:
        """Remember the place of a message.

        Args:
            message: The object.
            shelf: The shelf's id and number of sweeps.
            number: The part's number.
            mark: The stored fields, if equal fields are the same, else their fingerprint, taken before they were
                written. With None, nothing is remembered.
        """
        if mark is None:
            return
        stamp = MessageStamp(message.__pydantic_fields_set__)
        stamp.owner, stamp.shelf, stamp.number, stamp.mark = self, shelf, number, mark
        _set(message, "__pydantic_fields_set__", stamp)

    def stamp_copies(self, prototype: MessagePrototype, shelf: tuple[int, int], number: int) -> None:
        """Stamp all future copies of a prototype: they share one stamp."""
        stamp = prototype.given
        if type(stamp) is not MessageStamp or stamp.owner is not self:
            mark = prototype.fields if prototype.flat else fingerprint(prototype.copy())
            if mark is None:
                return
            stamp = MessageStamp(stamp)
            stamp.owner, stamp.mark = self, mark
        stamp.number, stamp.shelf = number, shelf
        prototype.given = stamp

    def numbers(self, items: Iterable[Any], shelf: tuple[int, int]) -> Iterator[int | None]:
        """Yield the part number of each unchanged item; None if it is unknown or no message."""
        for item in items:
            stamp = getattr(item, "__pydantic_fields_set__", None)
            if type(stamp) is not MessageStamp or stamp.owner is not self or stamp.shelf != shelf:
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

    def head(self, items: Sequence[Any], shelf: tuple[int, int]) -> tuple[int, list[shelves.Range]]:
        """Return the length of the known, unchanged beginning of a list, and its ranges.

        Items are compared a block at a time.

        Args:
            items: Any values.
            shelf: The shelf's id and number of sweeps.

        Returns:
            The number of items, and their ranges. The caller checks each following item.
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
        return len(numbers), shelves.runs(numbers)

    def move(self, message: Any, shelf: tuple[int, int], moves: Mapping[int, int]) -> None:
        """Note the new number of a part that a message lies in, if it has one."""
        stamp = getattr(message, "__pydantic_fields_set__", None)
        if type(stamp) is MessageStamp and stamp.owner is self and stamp.shelf == shelf:
            stamp.number = moves.get(stamp.number, stamp.number)


ELEMENTS = "elements"
ENTRIES = "entries"
VALUE = "value:"
"""The forms of a part other than `MESSAGE`: a chunk of a list or dictionary, or serialized data of a type."""

SMALL = 256
"""Bytes up to which a value is written out in its recipe."""
CHUNK = 512
"""Bytes that a chunk has on the average."""
OVERHEAD = 8
FEW = 32
"""Elements up to which a list or dictionary is looked into one by one instead of being cut into chunks."""
DEEPEST = 12
"""Containers within containers that are looked into."""

_HALVES = re.compile("[\ud800-\udfff]")


class ValueDraft:
    """Values taken apart, with the parts that are not known to be on the shelf yet.

    Args:
        serde: The serializer.
        known: The messages that are known.
        shelf: The shelf as it was last seen; None for a new one.
        listing: The values are those of channels, whose lists grow.

    Attributes:
        shelf: The shelf.
        parts: The parts to put on the shelf.
        relied: Ranges of what lies there already.
    """

    def __init__(
        self, serde: SerializerProtocol, known: KnownMessages, shelf: shelves.StorePosition | None, *, listing: bool
    ) -> None:
        self.shelf = shelf
        self.parts: list[shelves.StoredPart] = []
        self.relied: list[shelves.Range] = []
        self._serde = serde
        self._cache = known
        self._sharing = sharing(serde)
        self._listing = listing
        self._loose = True
        self._new: list[tuple[BaseMessage, int, int | None, MessagePrototype | None]] = []
        self._lists: list[list[Any]] = []

    def recipe(self, value: Any) -> shelves.Recipe:
        """Take a value apart, and return its recipe.

        Until it is settled, lists hold ranges, and negative numbers stand for `parts`.

        Raises:
            TypeError: The serializer cannot write it.
        """
        kind = type(value)
        self._loose = not (self._listing and (kind in (list, tuple) or (kind is dict and len(value) > FEW)))
        return self._any(value, 0)

    def settle(self, recipe: shelves.Recipe, numbers: Sequence[int], tidy: shelves.Tidy) -> shelves.Recipe:
        """Give the parts the numbers they got.

        Args:
            recipe: The result of `recipe`.
            numbers: The number of each of `parts`.
            tidy: May return other ranges for the same parts; its flag says if they are a channel's whole value.
        """

        def number(index: int) -> int:
            return index if index >= 0 else numbers[~index]

        def listed(part: shelves.Recipe) -> shelves.Recipe:
            ranges = [each if type(each) is tuple else (numbers[~each], numbers[~each] + 1) for each in part[1]]
            tidied = tidy(shelves.merged(ranges), part is recipe and self._listing)
            return [part[0], *shelves.written_ranges(tidied)]

        return shelves.rebuilt(recipe, number, listed)

    def stamp(self, shelf: shelves.StorePosition, numbers: Sequence[int], moves: Mapping[int, int]) -> None:
        """Remember where the messages lie, after the commit.

        Args:
            shelf: The shelf.
            numbers: The number of each of `parts`.
            moves: New numbers of parts that were known before.
        """
        for message, index, mark, prototype in self._new:
            number = moves.get(numbers[index], numbers[index])
            if prototype is not None:
                self._cache.keep(shelf.shelf, number, prototype)
            self._cache.stamp(
                message, shelf, number, prototype.fields if prototype is not None and prototype.flat else mark
            )
        if moves:
            for value in self._lists:
                for message in value:
                    self._cache.move(message, shelf, moves)

    # -- taking apart ------------------------------------------------------------------------------------------

    def _any(self, value: Any, depth: int) -> shelves.Recipe:
        kind = type(value)
        if self._sharing and depth < DEEPEST:
            if kind is list and value:
                return self._list(value, depth)
            if isinstance(value, BaseMessage):
                number = None if self.shelf is None else next(self._cache.numbers((value,), self.shelf))
                return [shelves.PART, self._new_message(value) if number is None else self._known(number)[0]]
            if self._sharing == EVERYTHING:
                return self._shared(value, kind, depth)
        return self._whole(value)

    def _shared(self, value: Any, kind: type, depth: int) -> shelves.Recipe:
        recipe: shelves.Recipe | None = None
        if kind is dict and value and all(map(_is_key, value)):
            if len(value) > FEW and not any(map(_holds_messages, value.values())):
                entries = [(key, *self._serde.dumps_typed(item)) for key, item in value.items()]
                return self._chunked(shelves.DICT, value, entries, ENTRIES)
            if any(_is_deep(item) for item in value.values()):
                recipe = [shelves.FIELDS, list(value), [self._any(item, depth + 1) for item in value.values()]]
        elif kind is Send:
            timeout = [] if value.timeout is None else [self._whole(value.timeout)]
            recipe = [shelves.SEND, value.node, [self._any(value.arg, depth + 1), *timeout]]
        elif kind is _DeltaSnapshot:
            recipe = [shelves.SNAPSHOT, None, [self._any(value.value, depth + 1)]]
        elif kind is tuple and _holds_messages(value):
            recipe = self._messages(list(value))  # as the serializer reads it
        return recipe if recipe is not None and shelves.has_parts(recipe) else self._whole(value)

    def _list(self, value: list[Any], depth: int) -> shelves.Recipe:
        if any(isinstance(item, BaseMessage) for item in value):
            if self._sharing == EVERYTHING or all(isinstance(item, BaseMessage) for item in value):
                return self._messages(value)
        elif self._sharing == EVERYTHING:
            if len(value) > FEW and not any(map(_holds_messages, value)):
                elements = [self._serde.dumps_typed(item) for item in value]
                return self._chunked(shelves.LIST, value, elements, ELEMENTS)
            if any(_is_deep(item) for item in value):
                recipe = [shelves.ITEMS, None, [self._any(item, depth + 1) for item in value]]
                if shelves.has_parts(recipe):
                    return recipe
        return self._whole(value)

    def _messages(self, value: list[Any]) -> shelves.Recipe:
        self._lists.append(value)
        seen, ranges = (0, []) if self.shelf is None else self._cache.head(value, self.shelf)
        items: list[shelves.Range | int] = [*ranges]
        self.relied += ranges
        later = value[seen:]
        known = itertools.repeat(None) if self.shelf is None else self._cache.numbers(later, self.shelf)
        rest: list[Any] = []  # neighbouring elements that are no messages
        for item, number in zip(later, known, strict=False):
            if number is None and not isinstance(item, BaseMessage):
                rest.append(item)
                continue
            if rest:
                items += self._chunks(map(self._serde.dumps_typed, rest), ELEMENTS)
                rest = []
            items.append(self._new_message(item) if number is None else self._known(number))
        if rest:
            items += self._chunks(map(self._serde.dumps_typed, rest), ELEMENTS)
        return [shelves.LIST, items]

    def _known(self, number: int) -> shelves.Range:
        self.relied.append((number, number + 1))
        return self.relied[-1]

    def _new_message(self, message: BaseMessage) -> int:
        mark = fingerprint(message)  # before it is written: what changes in between is then noticed
        prototype = None
        written = body_of(message) if self._sharing == EVERYTHING else None
        if written is not None and (message.id is None or _is_name(message.id)):
            body, prototype = written
            number = self._part(shelves.MESSAGE, body, message.id)
        else:
            kind, body = self._serde.dumps_typed(message)
            number = self._part(VALUE + kind, body)
        self._new.append((message, ~number, mark, prototype))
        return number

    def _chunked(self, kind: int, value: Any, typed: list[tuple[Any, ...]], form: str) -> shelves.Recipe:
        if sum(len(each[-1]) for each in typed) <= SMALL:
            return self._whole(value)
        return [kind, self._chunks(typed, form)]

    def _chunks(self, typed: Iterable[tuple[Any, ...]], form: str) -> list[int]:
        """Cut what lies in a row into chunks that end where an element's own bytes say so."""
        numbers: list[int] = []
        chunk: list[Any] = []
        size = 0

        def close() -> None:
            numbers.append(self._part(form, ormsgpack.packb(chunk, option=ormsgpack.OPT_REPLACE_SURROGATES)))

        for each in typed:
            data: bytes = each[-1]
            if chunk and len(data) >= CHUNK:
                close()
                chunk, size = [], 0
            chunk += each
            size += len(data)
            if size >= 4 * CHUNK or len(data) >= CHUNK or zlib.crc32(data) % CHUNK < len(data) + OVERHEAD:
                close()
                chunk, size = [], 0
        if chunk:
            close()
        return numbers

    def _whole(self, value: Any) -> shelves.Recipe:
        kind, data = self._serde.dumps_typed(value)
        if len(data) <= SMALL:
            return [shelves.WRITTEN, kind, bytes(data)]
        return [shelves.PART, self._part(VALUE + kind, bytes(data))]

    def _part(self, form: str, body: bytes, name: str | None = None) -> int:
        self.parts.append(shelves.StoredPart(form=form, name=name, body=body, loose=self._loose))
        return ~(len(self.parts) - 1)


class ValueReading:
    """Parts become values again.

    Args:
        serde: The serializer.
        known: The cache for the messages that are made.
        shelf: The shelf that the parts lie on.
        parts: The parts that are needed, by number: as they are stored, or what is known of them.
    """

    def __init__(
        self,
        serde: SerializerProtocol,
        known: KnownMessages,
        shelf: shelves.StorePosition,
        parts: Mapping[int, shelves.StoredPart | MessagePrototype],
    ) -> None:
        self._serde = serde
        self._cache = known
        self._shelf = shelf
        self._parts = parts

    def value(self, recipe: shelves.Recipe) -> Any:  # noqa: PLR0911 - one line for each kind
        """Make the value that a recipe stands for.

        Raises:
            Damaged: A part is missing or is not what was stored.
            Exception: Whatever the serializer raises about bytes that it cannot read.
        """
        kind = recipe[0]
        if kind == shelves.WRITTEN:
            return self._serde.loads_typed((recipe[1], recipe[2]))
        if kind == shelves.PART:
            [value] = self._part(recipe[1])
            return value
        if kind == shelves.LIST:
            return self._list(recipe)
        if kind == shelves.DICT:
            return dict(item for a, b in shelves.read_ranges(recipe[1:]) for n in range(a, b) for item in self._part(n))
        inner = map(self.value, recipe[2])
        if kind == shelves.FIELDS:
            return dict(zip(recipe[1], inner, strict=True))
        if kind == shelves.ITEMS:
            return list(inner)
        if kind == shelves.SEND:
            argument, *timeout = inner
            return Send(recipe[1], argument, timeout=timeout[0] if timeout else None)
        if kind == shelves.SNAPSHOT:
            return _DeltaSnapshot(*inner)
        raise shelves.DamagedValue(f"recipes of kind {safe_repr(kind)} are not known")

    def _list(self, recipe: shelves.Recipe) -> list[Any]:
        value: list[Any] = []
        parts, shelf = self._parts, self._shelf
        for start, stop in shelves.read_ranges(recipe[1:]):
            for number in range(start, stop):
                part = parts.get(number)
                given = part.given if type(part) is MessagePrototype else None
                if type(given) is MessageStamp and given.shelf == shelf and given.number == number:
                    value.append(part.copy())  # type: ignore[union-attr]  # the usual case, without further ado
                else:
                    value += self._part(number)
        return value

    def _part(self, number: int) -> Sequence[Any]:
        part = self._parts.get(number)
        if part is None:
            raise shelves.DamagedValue(f"its part {number} is missing")
        if type(part) is MessagePrototype:
            return (self._copy(part, number),)
        form, name, body, checksum, _ = part  # type: ignore[misc]  # a row, since it is no prototype
        if zlib.crc32(body) != checksum:
            raise shelves.DamagedValue(f"the checksum of its part {number} does not fit")
        if form == shelves.MESSAGE:
            if (prototype := prototype_of(body, name)) is not None:
                self._cache.keep(self._shelf.shelf, number, prototype)
                return (self._copy(prototype, number),)
            message = message_of(body, name)
            self._cache.stamp(message, self._shelf, number, fingerprint(message))
            return (message,)
        if form == ELEMENTS:
            typed = ormsgpack.unpackb(body)
            return [self._serde.loads_typed(each) for each in zip(typed[::2], typed[1::2], strict=True)]
        if form == ENTRIES:
            typed = ormsgpack.unpackb(body)
            rows = zip(typed[::3], typed[1::3], typed[2::3], strict=True)
            return [(key, self._serde.loads_typed((kind, data))) for key, kind, data in rows]
        if not form.startswith(VALUE):
            raise shelves.DamagedValue(f"parts of the form {safe_repr(form)} are not known")
        value = self._serde.loads_typed((form.removeprefix(VALUE), body))
        if isinstance(value, BaseMessage):
            self._cache.stamp(value, self._shelf, number, fingerprint(value))
        return (value,)

    def _copy(self, prototype: MessagePrototype, number: int) -> BaseMessage:
        self._cache.stamp_copies(prototype, self._shelf, number)
        return prototype.copy()


NOTHING, MESSAGES, EVERYTHING = range(3)
"""The levels of sharing that a serializer allows."""


def sharing(serde: SerializerProtocol) -> int:
    """Return how much can be shared under a serializer."""
    if type(serde) is JsonPlusSerializer:
        return EVERYTHING
    if type(serde) is EncryptedSerializer and type(serde.serde) is JsonPlusSerializer:
        return MESSAGES
    return NOTHING


def _is_deep(value: Any) -> bool:
    return (
        isinstance(value, list | dict | Send | _DeltaSnapshot | BaseMessage)
        or (isinstance(value, str | bytes) and len(value) > SMALL)
        or (type(value) is tuple and _holds_messages(value))
    )


def _holds_messages(value: Any) -> bool:
    """Return True if a value directly contains messages, which its own recipe would share."""
    if type(value) is dict:
        return any(map(_holds_messages, value.values()))
    if type(value) in (list, tuple):
        return any(isinstance(item, BaseMessage) for item in value)
    return isinstance(value, BaseMessage | Send)


def _is_key(key: Any) -> bool:
    """Return True if a dictionary key is stored unchanged.

    Halves of characters are not stored unchanged, and two such keys might become one.
    """
    return type(key) is str and (key.isascii() or _HALVES.search(key) is None)


def _is_name(text: Any) -> bool:
    """Return True if both databases can store a text in a column."""
    return type(text) is str and text.isprintable()
