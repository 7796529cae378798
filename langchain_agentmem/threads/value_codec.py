"""The conversion of channel values to recipes and parts, and back.

`ValueDraft` splits values into parts. A message becomes a part that shares its body with the conversation log and all
other threads. A long list or dictionary is cut into chunks at boundaries that its content determines, so an
insertion or a removal changes only the chunks around it. LangGraph's serializer writes everything else as a whole.

The serializer determines how much can be shared. With LangGraph's `JsonPlusSerializer`, all parts can be shared. With
its `EncryptedSerializer`, each message is encrypted separately, once, and is shared within its thread. Everything else
is encrypted as a whole. Any other serializer writes each value as a whole, because its output is unknown.

*Prototypes* are recently read or stored messages; callers receive copies. A prototype cannot be stale: a part never
changes, and its number is never reused. Prototypes are a cache of limited size that avoids reading known parts again.

*Stamps* mark message objects whose part is known. A graph passes its whole state to every checkpoint. Nearly all
messages in it are the same objects that were read or stored before. A stamp holds the part number of such an object. It
is a subclass of `set` that replaces `__pydantic_fields_set__` of the message, and is therefore freed together with the
message. A stamp also holds the stored fields, or a fingerprint of them, to detect messages that were changed in
place.
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
from langchain_agentmem.messages.stored_messages import (
    MessagePrototype,
    copy_messages,
    encode_message,
    read_message,
    read_prototype,
)
from langchain_agentmem.threads import value_store
from langchain_agentmem.threads.value_store import DamagedValue, Range, Recipe, StoredPart, StorePosition

MOST_BYTES = 32_000_000
"""The default maximum size of all prototypes of a cache in bytes."""
_PROTOTYPE_BYTES = 1_000
"""The approximate size of a prototype in bytes, without its body."""
_NESTED_FACTOR = 8
"""The maximum size of a prototype with nested lists and dictionaries, as a multiple of the size of its body."""


def _prototype_size(prototype: MessagePrototype) -> int:
    return len(prototype.body) * (1 if prototype.flat else _NESTED_FACTOR) + _PROTOTYPE_BYTES


EXACT_OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
"""The options that make ormsgpack refuse types other than MessagePack's own, whose changes a hash could miss."""

BLOCK_SIZE = 128
"""The number of messages that are compared at a time, which fit into a processor's cache."""

_set_attribute = object.__setattr__
_get_stamp, _get_extra = attrgetter("__pydantic_fields_set__"), attrgetter("__pydantic_extra__")
_get_fields, _get_mark = attrgetter("__dict__"), attrgetter("mark")
_get_owner, _get_store, _get_number = attrgetter("owner"), attrgetter("store"), attrgetter("number")


def fingerprint(message: Any) -> int | None:
    """Return a hash of all fields of a message; None if it cannot be computed exactly.

    It can be computed only if the message has no extra fields, and all values are of MessagePack's own types. Examples
    of these types are strings, numbers, lists and dictionaries.
    """
    if message.__pydantic_extra__:
        return None
    try:
        return hash(ormsgpack.packb(message.__dict__, option=EXACT_OPTIONS))
    except ormsgpack.MsgpackEncodeError:
        return None


class MessageStamp(set[str]):
    """The set of the explicitly set fields of a message, with the part number of the message.

    Attributes:
        owner: The cache that created the stamp.
        store: The part store's id and number of sweeps.
        number: The number of the part.
        mark: The stored fields, if a comparison with them detects every change; else their fingerprint.
    """

    __slots__ = ("mark", "number", "owner", "store")

    owner: MessageCache
    store: tuple[int, int]
    number: int
    mark: dict[str, Any] | int

    def __reduce__(self) -> tuple[type[set[str]], tuple[list[str]]]:
        """Copy and pickle a stamp as a plain set."""
        return set, (list(self),)


class MessageCache:
    """A cache of messages that a saver read or stored: prototypes, and stamps on objects.

    Prototypes are safe to use from any OS thread. A stamp is valid only for the saver that created it.

    Args:
        max_bytes: The maximum size of the prototypes in bytes.
    """

    __slots__ = ("_bytes", "_max_bytes", "_prototypes")

    def __init__(self, max_bytes: int = MOST_BYTES) -> None:
        self._prototypes: dict[int, dict[int, MessagePrototype]] = {}
        self._bytes = 0
        self._max_bytes = max_bytes

    def add_prototype(self, store_id: int, number: int, prototype: MessagePrototype) -> None:
        """Add a prototype. If the cache exceeds its maximum size, discard all others."""
        prototypes = self._prototypes.setdefault(store_id, {})
        if number in prototypes:
            return
        prototypes[number] = prototype
        size = _prototype_size(prototype)
        self._bytes += size
        if self._bytes > self._max_bytes:
            self._prototypes = {store_id: {number: prototype}}
            self._bytes = size

    def recall(self, store_id: int, ranges: list[Range]) -> tuple[dict[int, MessagePrototype], list[Range]]:
        """Return the cached prototypes by part number, and the ranges of uncached parts.

        Args:
            store_id: The id of the part store.
            ranges: The ranges of the wanted parts.
        """
        prototypes = self._prototypes.get(store_id, {})
        cached: dict[int, MessagePrototype] = {}
        missing: list[Range] = []
        for start, stop in ranges:
            in_range = list(map(prototypes.get, range(start, stop)))
            if None not in in_range:  # the usual case, without a loop
                cached.update(zip(range(start, stop), in_range, strict=True))  # type: ignore[arg-type]  # none is None
                continue
            for number, prototype in enumerate(in_range, start):
                if prototype is not None:
                    cached[number] = prototype
                elif missing and missing[-1][1] == number:
                    missing[-1] = missing[-1][0], number + 1
                else:
                    missing.append((number, number + 1))
        return cached, missing

    def forget(self, store_id: int | None = None) -> None:
        """Discard the prototypes of a part store. Default: of all part stores."""
        if store_id is None:
            self._prototypes, self._bytes = {}, 0
        else:
            self._bytes -= sum(map(_prototype_size, self._prototypes.pop(store_id, {}).values()))

    def stamp(self, message: Any, store: tuple[int, int], number: int, mark: dict[str, Any] | int | None) -> None:
        """Stamp a message with its part number.

        Args:
            message: The message object.
            store: The part store's id and number of sweeps.
            number: The number of the part.
            mark: The stored fields, or their fingerprint, which was computed before they were written. With None,
                the message is not stamped.
        """
        if mark is None:
            return
        stamp = MessageStamp(message.__pydantic_fields_set__)
        stamp.owner, stamp.store, stamp.number, stamp.mark = self, store, number, mark
        _set_attribute(message, "__pydantic_fields_set__", stamp)

    def stamp_copies(self, prototype: MessagePrototype, store: tuple[int, int], number: int) -> None:
        """Stamp a prototype, so that all its future copies share the stamp.

        Args:
            prototype: The prototype.
            store: The part store's id and number of sweeps.
            number: The number of the part.
        """
        stamp = prototype.fields_set
        if type(stamp) is not MessageStamp or stamp.owner is not self:
            mark = prototype.fields if prototype.flat else fingerprint(prototype.copy())
            if mark is None:
                return
            stamp = MessageStamp(stamp)
            stamp.owner, stamp.mark = self, mark
        stamp.number, stamp.store = number, store
        prototype.fields_set = stamp

    def part_numbers(self, items: Iterable[Any], store: tuple[int, int]) -> Iterator[int | None]:
        """Yield the part number of each item; None for an item without a valid stamp.

        An item has no valid stamp if it is not a message, was changed, or was stamped for another `store`.

        Args:
            items: Any values.
            store: The part store's id and number of sweeps.
        """
        for item in items:
            stamp = getattr(item, "__pydantic_fields_set__", None)
            if type(stamp) is not MessageStamp or stamp.owner is not self or stamp.store != store:
                yield None
                continue
            mark = stamp.mark
            if type(mark) is int:
                yield stamp.number if mark == fingerprint(item) else None
                continue
            try:
                is_unchanged = item.__dict__ == mark and not item.__pydantic_extra__
            except Exception:  # noqa: BLE001 - a field has a value that cannot be compared
                is_unchanged = False
            yield stamp.number if is_unchanged else None

    def known_prefix(self, items: Sequence[Any], store: tuple[int, int]) -> tuple[int, list[Range]]:
        """Return the length and ranges of the stored and unchanged prefix of a list.

        Items are compared a block at a time. After a block with a new or changed item, the blocks are half as long, so
        the prefix ends before the first such item.

        Args:
            items: Any values.
            store: The part store's id and number of sweeps.

        Returns:
            The number of items, and the ranges of their parts. The caller must check each of the remaining items.
        """
        numbers: list[int] = []
        size = BLOCK_SIZE
        while size and (block := items[len(numbers) : len(numbers) + size]):
            try:
                stamps = list(map(_get_stamp, block))
                contents: list[Any] = list(map(_get_fields, block))
                marks = list(map(_get_mark, stamps))
                if int in map(type, marks):
                    triples = zip(block, contents, marks, strict=True)
                    contents = [fingerprint(item) if type(mark) is int else each for item, each, mark in triples]
                is_known = (
                    contents == marks
                    and list(map(_get_owner, stamps)).count(self) == len(block)
                    and list(map(_get_store, stamps)).count(store) == len(block)
                    and not any(map(_get_extra, block))
                )
            except Exception:  # noqa: BLE001 - some are not messages, have no stamp, or cannot be compared
                is_known = False
            if is_known:
                numbers += map(_get_number, stamps)
            else:
                size = len(block) // 2
        return len(numbers), value_store.to_ranges(numbers)

    def move_stamps(self, messages: Iterable[Any], store: tuple[int, int], moves: Mapping[int, int]) -> None:
        """Update the part numbers in the stamps of messages whose parts were copied.

        Args:
            messages: The message objects.
            store: The part store's id and number of sweeps.
            moves: The new numbers of copied parts.
        """
        for message in messages:
            stamp = getattr(message, "__pydantic_fields_set__", None)
            if type(stamp) is MessageStamp and stamp.owner is self and stamp.store == store:
                stamp.number = moves.get(stamp.number, stamp.number)


ELEMENTS = "elements"
ENTRIES = "entries"
VALUE_PREFIX = "value:"
"""The forms of a part other than `MESSAGE_FORM`: a chunk of a list, a chunk of a dictionary, and serialized data.

The form of serialized data is the prefix, followed by the serializer's name of the type, as in "value:msgpack".
"""

INLINE_BYTES = 256
"""The maximum size in bytes of a value that is written inline in its recipe."""
CHUNK_BYTES = 512
"""The approximate average size of a chunk in bytes."""
CHUNK_OVERHEAD = 8
"""The bytes added to an element's size in `_add_chunks`, so that small elements can also end a chunk."""
FEW_ELEMENTS = 32
"""The number of elements up to which a list or dictionary is not cut into chunks."""
MAX_DEPTH = 12
"""The nesting depth at which values are no longer split, but written as a whole."""

_SURROGATES = re.compile("[\ud800-\udfff]")


class ValueDraft:
    """A set of values split into parts, before their new parts are stored.

    Args:
        serde: The serializer.
        cache: The cache of messages that were read or stored recently.
        store: The part store as last read; None for a new one.
        for_channels: True for the values of channels, whose lists grow. Their parts get numbers of the first series.

    Attributes:
        store: The part store as last read; None for a new one.
        parts: The parts that are not known to be stored.
        relied_ranges: The ranges of the parts that the recipes use and that were stored when the draft was made.
    """

    def __init__(
        self, serde: SerializerProtocol, cache: MessageCache, store: StorePosition | None, *, for_channels: bool
    ) -> None:
        self.store = store
        self.parts: list[StoredPart] = []
        self.relied_ranges: list[Range] = []
        self._serde = serde
        self._cache = cache
        self._sharing = sharing_level(serde)
        self._for_channels = for_channels
        self._loose = True  # see `StoredPart.loose`
        self._new_messages: list[tuple[BaseMessage, int, int | None, MessagePrototype | None]] = []
        self._message_lists: list[tuple[list[Any], list[Range]]] = []  # each with the ranges of its stored prefix

    def make_recipe(self, value: Any) -> Recipe:
        """Split a value into parts, and return its recipe.

        New parts have no numbers before `assign_numbers`. Until then, the negative number `~index` stands for
        `parts[index]`, and a `LIST` or `DICT` recipe contains a list of such numbers and of ranges.

        Raises:
            TypeError: The serializer cannot write the value.
        """
        value_type = type(value)
        grows = value_type in (list, tuple) or (value_type is dict and len(value) > FEW_ELEMENTS)
        self._loose = not (self._for_channels and grows)
        return self._split_value(value, 0)

    def assign_numbers(self, recipe: Recipe, numbers: Sequence[int], tidy: value_store.Tidy) -> Recipe:
        """Return a recipe with the assigned numbers of its parts.

        Args:
            recipe: The result of `make_recipe`.
            numbers: The number of each of `parts`.
            tidy: The function that limits the number of ranges. Its flag is True for the whole value of a channel.
        """

        def number(index: int) -> int:
            return index if index >= 0 else numbers[~index]

        def assign_ranges(part: Recipe) -> Recipe:
            ranges = [each if type(each) is tuple else (numbers[~each], numbers[~each] + 1) for each in part[1]]
            tidied = tidy(value_store.merge_adjacent(ranges), part is recipe and self._for_channels)
            return [part[0], *value_store.encode_ranges(tidied)]

        return value_store.map_recipe(recipe, number, assign_ranges)

    def stamp_messages(self, store: StorePosition, numbers: Sequence[int], moves: Mapping[int, int]) -> None:
        """Stamp the messages with their part numbers, after the commit.

        Args:
            store: The part store.
            numbers: The number of each of `parts`.
            moves: The new numbers of copied parts.
        """
        for message, index, mark, prototype in self._new_messages:
            number = moves.get(numbers[index], numbers[index])
            if prototype is not None:
                self._cache.add_prototype(store.store_id, number, prototype)
            self._cache.stamp(message, store, number, prototype.fields if prototype and prototype.flat else mark)
        for value, ranges in self._message_lists if moves else ():
            start = 0
            for low, high in ranges:
                stop = start + high - low
                if not moves.keys().isdisjoint(range(low, high)):
                    self._cache.move_stamps(value[start:stop], store, moves)
                start = stop
            self._cache.move_stamps(value[start:], store, moves)

    # -- splitting ------------------------------------------------------------------------------------------------

    def _split_value(self, value: Any, depth: int) -> Recipe:
        if self._sharing and depth < MAX_DEPTH:
            if type(value) is list and value:
                return self._list_recipe(value, depth)
            if isinstance(value, BaseMessage):
                number = None if self.store is None else next(self._cache.part_numbers((value,), self.store))
                return [value_store.ONE_PART, self._add_message(value) if number is None else self._use_part(number)[0]]
            if self._sharing == SHARE_EVERYTHING:
                return self._shared_recipe(value, depth)
        return self._whole_recipe(value)

    def _shared_recipe(self, value: Any, depth: int) -> Recipe:  # the value is neither a list nor a message
        recipe: Recipe | None = None
        value_type = type(value)
        if value_type is dict and value and all(map(_is_plain_key, value)):
            if len(value) > FEW_ELEMENTS and not any(map(_contains_messages, value.values())):
                entries = [(key, *self._serde.dumps_typed(item)) for key, item in value.items()]
                return self._chunked_recipe(value_store.DICT, value, entries, ENTRIES)
            if any(_needs_recipe(item) for item in value.values()):
                fields = [self._split_value(item, depth + 1) for item in value.values()]
                recipe = [value_store.FIELDS, list(value), fields]
        elif value_type is Send:
            timeout = [] if value.timeout is None else [self._whole_recipe(value.timeout)]
            recipe = [value_store.SEND, value.node, [self._split_value(value.arg, depth + 1), *timeout]]
        elif value_type is _DeltaSnapshot:
            recipe = [value_store.SNAPSHOT, None, [self._split_value(value.value, depth + 1)]]
        elif value_type is tuple and _contains_messages(value):
            recipe = self._messages_recipe(list(value))  # the serializer reads tuples as lists, too
        return recipe if recipe is not None and value_store.has_parts(recipe) else self._whole_recipe(value)

    def _list_recipe(self, value: list[Any], depth: int) -> Recipe:
        if any(isinstance(item, BaseMessage) for item in value):
            if self._sharing == SHARE_EVERYTHING or all(isinstance(item, BaseMessage) for item in value):
                return self._messages_recipe(value)
        elif self._sharing == SHARE_EVERYTHING:
            if len(value) > FEW_ELEMENTS and not any(map(_contains_messages, value)):
                elements = [self._serde.dumps_typed(item) for item in value]
                return self._chunked_recipe(value_store.LIST, value, elements, ELEMENTS)
            if any(_needs_recipe(item) for item in value):
                recipe = [value_store.ITEMS, None, [self._split_value(item, depth + 1) for item in value]]
                if value_store.has_parts(recipe):
                    return recipe
        return self._whole_recipe(value)

    def _messages_recipe(self, value: list[Any]) -> Recipe:  # at least one element is a message
        known_count, ranges = (0, []) if self.store is None else self._cache.known_prefix(value, self.store)
        self._message_lists.append((value, ranges))
        items: list[Range | int] = [*ranges]
        self.relied_ranges += ranges
        remaining = value[known_count:]
        numbers = itertools.repeat(None) if self.store is None else self._cache.part_numbers(remaining, self.store)
        rest: list[Any] = []  # elements that are not messages, and wait to be added as chunks
        for item, number in zip(remaining, numbers, strict=False):
            if number is None and not isinstance(item, BaseMessage):
                rest.append(item)
                continue
            if rest:
                items += self._add_chunks(map(self._serde.dumps_typed, rest), ELEMENTS)
                rest = []
            items.append(self._add_message(item) if number is None else self._use_part(number))
        if rest:
            items += self._add_chunks(map(self._serde.dumps_typed, rest), ELEMENTS)
        return [value_store.LIST, items]

    def _use_part(self, number: int) -> Range:  # the part is stored already
        self.relied_ranges.append((number, number + 1))
        return self.relied_ranges[-1]

    def _add_message(self, message: BaseMessage) -> int:
        mark = fingerprint(message)  # computed before the message is written, to detect later changes
        prototype = None
        encoded = encode_message(message) if self._sharing == SHARE_EVERYTHING else None
        if encoded is not None and (message.id is None or _is_printable(message.id)):
            body, prototype = encoded
            number = self._add_part(value_store.MESSAGE_FORM, body, message.id)
        else:
            type_name, body = self._serde.dumps_typed(message)
            number = self._add_part(VALUE_PREFIX + type_name, body)
        self._new_messages.append((message, ~number, mark, prototype))
        return number

    def _chunked_recipe(self, kind: int, value: Any, serialized: list[tuple[Any, ...]], form: str) -> Recipe:
        if sum(len(each[-1]) for each in serialized) <= INLINE_BYTES:
            return self._whole_recipe(value)
        return [kind, self._add_chunks(serialized, form)]

    def _add_chunks(self, serialized: Iterable[tuple[Any, ...]], form: str) -> list[int]:
        """Cut serialized elements into chunks, add these as parts, and return their numbers.

        The size and checksum of an element determine whether a chunk ends after it. A large element has its own chunk.

        Args:
            serialized: The elements. The last item of each is its bytes.
            form: The form of the parts.
        """
        numbers: list[int] = []
        chunk: list[Any] = []
        size = 0

        def close() -> None:
            numbers.append(self._add_part(form, ormsgpack.packb(chunk, option=ormsgpack.OPT_REPLACE_SURROGATES)))

        for each in serialized:
            data: bytes = each[-1]
            if chunk and len(data) >= CHUNK_BYTES:
                close()
                chunk, size = [], 0
            chunk += each
            size += len(data)
            is_large = size >= 4 * CHUNK_BYTES or len(data) >= CHUNK_BYTES
            if is_large or zlib.crc32(data) % CHUNK_BYTES < len(data) + CHUNK_OVERHEAD:
                close()
                chunk, size = [], 0
        if chunk:
            close()
        return numbers

    def _whole_recipe(self, value: Any) -> Recipe:  # the value is not split: it is inline, or one part
        type_name, data = self._serde.dumps_typed(value)
        if len(data) <= INLINE_BYTES:
            return [value_store.INLINE, type_name, bytes(data)]
        return [value_store.ONE_PART, self._add_part(VALUE_PREFIX + type_name, bytes(data))]

    def _add_part(self, form: str, body: bytes, name: str | None = None) -> int:
        self.parts.append(StoredPart(form=form, name=name, body=body, loose=self._loose))
        return ~(len(self.parts) - 1)


class ValueReader:
    """The reader that turns recipes and parts into values again.

    Args:
        serde: The serializer.
        cache: The cache of messages that were read or stored recently.
        store: The part store.
        parts: The needed parts, by number. Each is a stored part or a prototype.
    """

    def __init__(
        self,
        serde: SerializerProtocol,
        cache: MessageCache,
        store: StorePosition,
        parts: Mapping[int, StoredPart | MessagePrototype],
    ) -> None:
        self._serde = serde
        self._cache = cache
        self._store = store
        self._parts = parts

    def read_value(self, recipe: Recipe) -> Any:  # noqa: PLR0911 - one line for each kind
        """Return the value of a recipe.

        Raises:
            DamagedValue: A part is missing or damaged.
            Exception: Any error of the serializer for bytes that it cannot read.
        """
        kind = recipe[0]
        if kind == value_store.INLINE:
            return self._serde.loads_typed((recipe[1], recipe[2]))
        if kind == value_store.ONE_PART:
            [value] = self._read_part(recipe[1])
            return value
        if kind == value_store.LIST:
            return self._read_list(recipe)
        if kind == value_store.DICT:
            ranges = value_store.decode_ranges(recipe[1:])
            return dict(item for low, high in ranges for n in range(low, high) for item in self._read_part(n))
        inner = map(self.read_value, recipe[2])
        if kind == value_store.FIELDS:
            return dict(zip(recipe[1], inner, strict=True))
        if kind == value_store.ITEMS:
            return list(inner)
        if kind == value_store.SEND:
            argument, *timeout = inner
            return Send(recipe[1], argument, timeout=timeout[0] if timeout else None)
        if kind == value_store.SNAPSHOT:
            return _DeltaSnapshot(*inner)
        raise DamagedValue(f"unknown kind of recipe {safe_repr(kind)}")

    def _read_list(self, recipe: Recipe) -> list[Any]:
        value: list[Any] = []
        prototypes: list[MessagePrototype] = []  # of the last messages, which are copied together
        for start, stop in value_store.decode_ranges(recipe[1:]):
            for number in range(start, stop):
                if (prototype := self._find_prototype(number)) is not None:
                    prototypes.append(prototype)
                else:
                    value += copy_messages(prototypes)
                    prototypes = []
                    value += self._read_other_part(number)
        return value + copy_messages(prototypes)

    def _find_prototype(self, number: int) -> MessagePrototype | None:
        """Return the stamped prototype of a part; None for a part that has none.

        Raises:
            DamagedValue: The part is missing or damaged.
        """
        part = self._parts.get(number)
        if isinstance(part, MessagePrototype):
            stamp = part.fields_set
            if type(stamp) is not MessageStamp or stamp.store != self._store or stamp.number != number:
                self._cache.stamp_copies(part, self._store, number)
            return part
        if part is None:
            raise DamagedValue(f"its part {number} is missing")
        if zlib.crc32(part.body) != part.checksum:
            raise DamagedValue(f"the checksum of its part {number} does not match")
        prototype = read_prototype(part.body, part.name) if part.form == value_store.MESSAGE_FORM else None
        if prototype is None:
            return None
        self._cache.add_prototype(self._store.store_id, number, prototype)
        self._cache.stamp_copies(prototype, self._store, number)
        return prototype

    def _read_part(self, number: int) -> Sequence[Any]:
        prototype = self._find_prototype(number)
        return self._read_other_part(number) if prototype is None else (prototype.copy(),)

    def _read_other_part(self, number: int) -> Sequence[Any]:  # the part has no prototype
        form, name, body, _, _ = self._parts[number]  # type: ignore[misc]  # a `StoredPart`
        if form == value_store.MESSAGE_FORM:
            message = read_message(body, name)
            self._cache.stamp(message, self._store, number, fingerprint(message))
            return (message,)
        if form == ELEMENTS:
            typed = ormsgpack.unpackb(body)
            return [self._serde.loads_typed(each) for each in zip(typed[::2], typed[1::2], strict=True)]
        if form == ENTRIES:
            typed = ormsgpack.unpackb(body)
            rows = zip(typed[::3], typed[1::3], typed[2::3], strict=True)
            return [(key, self._serde.loads_typed((type_name, data))) for key, type_name, data in rows]
        if not form.startswith(VALUE_PREFIX):
            raise DamagedValue(f"unknown form of part {safe_repr(form)}")
        value = self._serde.loads_typed((form.removeprefix(VALUE_PREFIX), body))
        if isinstance(value, BaseMessage):
            self._cache.stamp(value, self._store, number, fingerprint(value))
        return (value,)


SHARE_NOTHING, SHARE_MESSAGES, SHARE_EVERYTHING = range(3)
"""The levels of sharing that a serializer allows."""


def sharing_level(serde: SerializerProtocol) -> int:
    """Return the level of sharing that a serializer allows."""
    if type(serde) is JsonPlusSerializer:
        return SHARE_EVERYTHING
    if type(serde) is EncryptedSerializer and type(serde.serde) is JsonPlusSerializer:
        return SHARE_MESSAGES
    return SHARE_NOTHING


def _needs_recipe(value: Any) -> bool:
    return (
        isinstance(value, list | dict | Send | _DeltaSnapshot | BaseMessage)
        or (isinstance(value, str | bytes) and len(value) > INLINE_BYTES)
        or (type(value) is tuple and _contains_messages(value))
    )


def _contains_messages(value: Any) -> bool:
    """Return True for messages, `Send`, and collections that contain messages.

    For a dictionary, the values are checked. Such a collection gets its own recipe, so that its messages are shared.
    """
    if type(value) is dict:
        return any(map(_contains_messages, value.values()))
    if type(value) in (list, tuple):
        return any(isinstance(item, BaseMessage) for item in value)
    return isinstance(value, BaseMessage | Send)


def _is_plain_key(key: Any) -> bool:
    """Return True if MessagePack stores a dictionary key unchanged.

    Surrogates are replaced, so two keys with surrogates might become equal.
    """
    return type(key) is str and (key.isascii() or _SURROGATES.search(key) is None)


def _is_printable(text: Any) -> bool:
    """Return True for a printable text, which SQLite and PostgreSQL can store in a column."""
    return type(text) is str and text.isprintable()
