"""Entries of the audit trail and the messages of model calls as rows, and rows as entries.

Each call of a model is given the whole history again. So what the models of a conversation were given stands on a
*shelf*, message after message, and a call names ranges of it, usually one. Bodies are those that conversations and
checkpoints keep too: a message that is known anywhere is not stored again. Messages are known by what they say, not by
their ids, since a chain without a checkpointer makes new ids each time; the first id that one came with is kept.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import accumulate, chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

from langchain_agentmem.audit import audit_entry
from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.base.clock import micros, moment
from langchain_agentmem.base.encoding import (
    as_json,
    from_plain,
    is_plain,
    read_column,
    read_plain,
    to_plain,
    write_plain,
)
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import AgentMemoryError, DatabaseUnreadable, InvalidInput
from langchain_agentmem.messages.message import Message, body_text, decode_body, encode_body, plain
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.threads.value_recipe import Range, covered, runs, without

T = TypeVar("T")

MOST_RANGES = 32
"""A list of more ranges than this has the lightest half of them put on the shelf once more, as one."""
PAGE = 500
_FARTHEST = 2**40


class CallMessage(NamedTuple):
    """A message that is to be put on a shelf.

    Attributes:
        key: Its id.
        hash: The digest of its body.
        body: Its body; None where it is stored already.
    """

    key: str
    hash: bytes
    body: bytes | None


class PlacedCallMessage(NamedTuple):
    """Where the messages of an entry stand.

    Attributes:
        shelf: The shelf.
        ranges: Its ranges, in order.
        identities: The digest and the id of each message.
    """

    shelf: int
    ranges: list[Range]
    identities: list[tuple[bytes, str]]


def parts_of(messages: Iterable[Message]) -> list[CallMessage]:
    """Messages as they are stored.

    Raises:
        MessageError: One cannot be stored.
    """
    bodies = ((message.message_id, encode_body(message)) for message in messages)
    return [CallMessage(plain(key) or "-", queries.digest(body), body) for key, body in bodies]


def put(tx: Transaction, path: str, namespace: int, name: str, parts: Sequence[CallMessage]) -> PlacedCallMessage:
    """Put messages on a shelf, but for those that stand there. Whoever calls holds the end of the chain.

    Args:
        tx: The transaction.
        path: The path of the namespace.
        namespace: Its row.
        name: The conversation or thread.
        parts: The messages, in order.
    """
    rows = query.audit_find_shelf(tx, path=path, name=name)
    if not rows:
        rows = query.audit_create_shelf(tx, namespace=namespace, name=name)
    shelf, following = int(rows[0]["id"]), int(rows[0]["next"])
    hashes = json.dumps(sorted({part.hash.hex() for part in parts}))
    known = query.audit_known_messages(tx, shelf=shelf, hashes=hashes)
    numbers: dict[bytes, set[int]] = {}
    names: dict[int, str] = {}
    for row in known:
        numbers.setdefault(bytes(row["hash"]), set()).add(int(row["number"]))
        names[int(row["number"])] = row["key"]
    places = _new_places([part.hash for part in parts], numbers, following)
    places = _fewer_ranges(places, following)
    new = {place: part for place, part in zip(places, parts, strict=True) if place not in names}
    if new:
        bodies = {part.hash: part.body for part in new.values() if part.hash not in numbers and part.body is not None}
        queries.store(tx, bodies)
        added = [{"shelf": shelf, "number": place, "key": new[place].key, "hash": new[place].hash} for place in new]
        query.audit_put_message.many(tx, added) if len(added) > 1 else query.audit_put_message(tx, **added[0])
        query.audit_use_numbers(tx, shelf=shelf, next=max(new) + 1)
    names |= {place: part.key for place, part in new.items()}
    identities = [(part.hash, names[place]) for place, part in zip(places, parts, strict=True)]
    return PlacedCallMessage(shelf, runs(places), identities)


def messages(
    tx: Transaction, shelf: int, lists: Iterable[Sequence[Range]], decode: Callable[[bytes, str], T]
) -> dict[int, T]:
    """What the messages in some ranges of a shelf say, by their numbers. Those that are damaged are left out."""
    rows = query.audit_messages_in(tx, shelf=shelf, ranges=written(covered(chain.from_iterable(lists))))
    found: dict[int, T] = {}
    for row in rows:
        with suppress(DatabaseUnreadable):
            found[int(row["number"])] = decode(bytes(row["body"]), row["key"])
    return found


def identities(tx: Transaction, shelf: int, lists: Iterable[Sequence[Range]]) -> dict[int, tuple[bytes, str]]:
    """The digests and ids of the messages in some ranges of a shelf, by their numbers."""
    rows = query.audit_identities_in(tx, shelf=shelf, ranges=written(covered(chain.from_iterable(lists))))
    return {int(row["number"]): (bytes(row["hash"]), row["key"]) for row in rows}


def free(tx: Transaction, shelf: int) -> None:
    """Take away what no entry needs any more of a shelf, and the shelf if that is all."""
    needed: list[Range] = []
    after = 0
    while rows := query.audit_ranges(tx, shelf=shelf, after=after, limit=PAGE):
        try:
            needed = covered(chain(needed, *(read(row["messages"]) for row in rows)))
        except ValueError:
            return  # nobody knows what a damaged entry needs
        after = rows[-1]["sequence"]
    hashes: set[bytes] = set()
    for low, high in without([(1, 2**62)], needed):
        gone = query.audit_message_hashes(tx, shelf=shelf, low=low, high=high)
        if gone:
            hashes.update(bytes(row["hash"]) for row in gone)
            query.audit_drop_messages(tx, shelf=shelf, low=low, high=high)
    if not needed:
        query.audit_drop_shelf(tx, shelf=shelf)
    queries.collect(tx, hashes)


def written(ranges: Sequence[Range]) -> str:
    """Ranges as they are stored: by the first and the last number of each."""
    return as_json([(low, high - 1) for low, high in ranges])


def read(text: str) -> list[Range]:
    """Ranges that were stored.

    Raises:
        ValueError: They are damaged.
    """
    ranges: Any = json.loads(text)
    try:
        if len(ranges) > MOST_RANGES:
            raise ValueError(text)
        return [_range(first, last) for first, last in ranges]
    except TypeError as error:
        raise ValueError(text) from error


def number_at(ranges: Sequence[Range], place: int) -> int:
    """The number of the message that stands at some place of a list, counted from 0.

    Raises:
        ValueError: The list is shorter, or that is no place.
    """
    if type(place) is not int or place < 0:
        raise ValueError(place)
    for low, high in ranges:
        if place < high - low:
            return low + place
        place -= high - low
    raise ValueError(place)


def named(messages: Mapping[int, T], ranges: str) -> list[T]:
    """The messages that stored ranges name, in their order.

    Raises:
        ValueError: The ranges are damaged, or one of the messages is not there.
    """
    try:
        return [messages[number] for number in numbers_in(read(ranges))]
    except KeyError as error:
        raise ValueError(f"message {error}") from error


def numbers_in(ranges: Iterable[Range]) -> Iterator[int]:
    """The numbers of a list of ranges, one by one: there is no end of them where somebody has written a wrong one."""
    return (number for low, high in ranges for number in range(low, high))


def _new_places(hashes: Sequence[bytes], known: Mapping[bytes, set[int]], following: int) -> list[int]:
    """The number of each message of a list, those that stand there and those that will.

    Equal messages of one list have numbers of their own: a list that named one of them twice would be two ranges. Where
    a range ends, the next begins where the following message stands behind this one too, if it does anywhere.
    """
    places: list[int] = []
    used: set[int] = set()
    last = 0
    for key, after in zip(hashes, (*hashes[1:], None), strict=True):
        number = last + 1
        if number not in known.get(key, ()) or number in used:
            there = sorted(known.get(key, set()) - used, reverse=True)
            goes_on = known.get(after, ()) if after is not None else ()
            number = next((each for each in there if each + 1 in goes_on), there[0] if there else following)
        following = max(following, number + 1)
        used.add(number)
        places.append(number)
        last = number
    return places


def _fewer_ranges(places: list[int], following: int) -> list[int]:
    """A list in which there are not too many ranges: the lightest half of them gets new numbers, as one."""
    while len(ranges := runs(places)) > MOST_RANGES:
        width = len(ranges) // 2
        ends = list(accumulate((high - low for low, high in ranges), initial=0))
        start = min(range(len(ranges) - width + 1), key=lambda at: ends[at + width] - ends[at])
        low, high = ends[start], ends[start + width]
        # What is new in any case is numbered anew as well, so that no number is used that no entry names.
        new = [number for at, number in enumerate(places) if not low <= at < high and number >= following]
        renamed = {number: following + index for index, number in enumerate(new)}
        first = following + len(new)
        places = [
            first + at - low if low <= at < high else renamed.get(number, number) for at, number in enumerate(places)
        ]
    return places


def _range(first: Any, last: Any) -> Range:
    if type(first) is not int or type(last) is not int or not 0 < first <= last < _FARTHEST:
        raise ValueError(first, last)
    return first, last + 1


SHOWN, JUNK, REPLACED = range(3)
"""Why an entry is hidden, if it is."""
MARK_BYTES = 16

_JSON_BEGINS = b"{"
_NAMES = ("title", "model", "error", "run_id", "parent_run_id", "duration")


_Pair: TypeAlias = tuple[Row, dict[str, Any]]
"""A row and its body."""
_Said: TypeAlias = dict[int, Mapping[int, Message | str]]
"""Messages or their texts, by shelf and number."""


class EntryDraft(NamedTuple):
    """An entry that is to be added.

    Attributes:
        entry: The entry.
        mark: What tells that a todo or a reference is there already, such as `todo_key(text)` or a title. Default None:
            nothing does.
        replaced: Whether there is a newer version of it.
        body: Its body, where it comes from another database. Default None: it is made.
        parts: Its messages, where it comes from another database. Default None: those of the entry.
    """

    entry: AuditEntry
    mark: str | bytes | None = None
    replaced: bool = False
    body: bytes | None = None
    parts: Sequence[CallMessage] | None = None


def mark_of(mark: str | bytes | None) -> bytes | None:
    """A mark as it is stored and looked up."""
    if mark is None or isinstance(mark, bytes):
        return mark
    return blake2b(mark.encode("utf-8", "surrogatepass"), digest_size=MARK_BYTES).digest()


def row_of(path: str, draft: EntryDraft, placed: PlacedCallMessage | None) -> dict[str, Any]:
    """What is stored of an entry, but for its place in the chain; with its digest.

    Args:
        path: The path of its namespace.
        draft: The entry.
        placed: Where its messages stand, if it has any.

    Raises:
        InvalidInput: Its `extra` holds what cannot be stored.
    """
    entry = draft.entry
    body = _body(entry) if draft.body is None else draft.body
    salt = audit_entry.new_salt()
    row: dict[str, Any] = {
        "salt": salt,
        "key": entry.id,
        "kind": entry.kind,
        "hidden": REPLACED if draft.replaced else JUNK if entry.junk else SHOWN,
        "conversation": entry.conversation_id,
        "thread": entry.thread_id,
        "created_at": micros(entry.created_at),
        "junk": json.dumps(entry.junk) if entry.junk else None,
        "status": entry.status,
        "mark": mark_of(draft.mark),
        "archived": int(entry.archived),
        "shelf": None if placed is None else placed.shelf,
        "messages": None if placed is None else written(placed.ranges),
        "body": compressed(body) if entry.archived else body,
    }
    row["digest"] = audit_entry.digest(salt, _lasting(path, row), body, () if placed is None else placed.identities)
    return row


def digest_of(row: Row, messages: Mapping[int, tuple[bytes, str]]) -> bytes:
    """The digest that a stored row has.

    Args:
        row: It.
        messages: The digests and ids of the messages of its shelf, by number.

    Raises:
        ValueError: It is damaged.
    """
    said = [] if row["messages"] is None else named(messages, row["messages"])
    return audit_entry.digest(bytes(row["salt"]), _lasting(row["path"], row), plain_body(row["body"]), said)


def entries(tx: Transaction, rows: Sequence[Row], *, messages: bool = True) -> list[AuditEntry]:
    """Rows as entries, in their order.

    Args:
        tx: The transaction.
        rows: As the queries give them.
        messages: Whether calls are given with their messages. Without them, a long history need not be read.

    Raises:
        DatabaseUnreadable: One is damaged.
    """
    pairs = [(row, _read(row)) for row in rows]
    shelves: _Said = _messages(tx, rows) if messages else _spoken(tx, pairs)
    made = []
    for row, body in pairs:
        there = shelves.get(row["shelf_id"], {})
        prompt, reply = _derived(row, body, there)
        ranges = read(row["messages"]) if messages and row["messages"] is not None else []
        try:
            given: Any = tuple(there[number] for number in numbers_in(ranges))
            made.append(_made(row, body, prompt, reply, given))
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(row) from error
    return made


def said(tx: Transaction, rows: Iterable[Row]) -> dict[int, tuple[str, str]]:
    """The prompt and the reply of rows, by their places in the chain. Those that are damaged are left out."""
    whole: list[_Pair] = []
    for row in rows:
        with suppress(DatabaseUnreadable):
            whole.append((row, _read(row)))
    spoken = _spoken(tx, whole)
    found: dict[int, tuple[str, str]] = {}
    for row, body in whole:
        with suppress(DatabaseUnreadable):
            found[row["sequence"]] = _derived(row, body, spoken.get(row["shelf_id"], {}))
    return found


def texts(tx: Transaction, rows: Sequence[Row]) -> dict[int, str]:
    """What a search finds rows by, by their places in the chain. What is damaged is found by nothing."""
    found = said(tx, rows)
    return {row["sequence"]: "\n".join(found.get(row["sequence"], ())) for row in rows}


def compressed(body: bytes) -> bytes:
    """A body as it is kept when it is archived: compressed, unless that would make it larger."""
    packed = zlib.compress(body, 9)
    return packed if len(packed) < len(body) else body


def plain_body(body: Any) -> bytes:
    """A body as it was written.

    Raises:
        ValueError: It is damaged.
    """
    given = bytes(body)
    if given.startswith(_JSON_BEGINS):
        return given
    try:
        return zlib.decompress(given)
    except zlib.error as error:
        raise ValueError(str(error)) from error


def _lasting(path: str, row: Row) -> list[Any]:
    """What stands in columns and never changes."""
    mark = row["mark"]
    return [
        path,
        row["key"],
        row["kind"],
        row["conversation"],
        row["thread"],
        row["created_at"],
        None if mark is None else bytes(mark).hex(),
    ]


def _body(entry: AuditEntry) -> bytes:
    fields: dict[str, Any] = {}
    said, answered = _places(entry)
    if said is None:
        fields["prompt"] = entry.prompt
    else:
        fields["said"] = said
    if answered is None:
        fields["reply"] = entry.reply
    else:
        fields["answered"] = answered
    for name in _NAMES:
        if (value := getattr(entry, name)) is not None:
            fields[name] = value
    if entry.input_tokens is not None or entry.output_tokens is not None:
        fields["tokens"] = [entry.input_tokens, entry.output_tokens]
    if entry.extra:
        extra = dict(entry.extra)
        fields["extra"] = extra if is_plain(extra) else to_plain(extra)
    try:
        return write_plain(fields)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"The entry {safe_repr(entry.id)} cannot be stored: {error}.") from error


def _places(entry: AuditEntry) -> tuple[int | None, int | None]:
    """Which of its messages say the prompt and the reply, counted from 0, so that their texts are not kept twice."""
    if not entry.messages:
        return None, None
    last = len(entry.messages) - 1
    asked = next((at for at in range(last, -1, -1) if entry.messages[at].role == "user"), None)
    said = asked if asked is not None and entry.messages[asked].text == entry.prompt else None
    answered = last if last != said and entry.messages[last].text == entry.reply else None
    return said, answered


def _read(row: Row) -> dict[str, Any]:
    try:
        body = read_plain(plain_body(row["body"]))
    except (ValueError, AgentMemoryError) as error:
        raise _damaged(row) from error
    if not isinstance(body, dict):
        raise _damaged(row)
    return body


def _messages(tx: Transaction, rows: Iterable[Row]) -> _Said:
    """The messages that rows name, by shelf and number."""
    lists: dict[int, list[list[Range]]] = {}
    for row in rows:
        if row["messages"] is not None:
            try:
                lists.setdefault(row["shelf_id"], []).append(read(row["messages"]))
            except (TypeError, ValueError) as error:
                raise _damaged(row) from error
    found: _Said = {}
    for number, each in lists.items():
        found[number] = messages(tx, number, each, decode_body)
    return found


def _spoken(tx: Transaction, pairs: Iterable[_Pair]) -> _Said:
    """The texts of the messages that say prompts and replies, by shelf and number."""
    wanted: dict[int, set[int]] = {}
    for row, body in pairs:
        for place in ("said", "answered"):
            if place in body:
                with suppress(TypeError, ValueError):  # whoever needs it will tell
                    number = number_at(read(row["messages"]), body[place])
                    wanted.setdefault(row["shelf_id"], set()).add(number)
    found: _Said = {}
    for each, numbers in wanted.items():
        found[each] = messages(tx, each, [runs(sorted(numbers))], lambda body, _: body_text(body))
    return found


def _derived(row: Row, body: Mapping[str, Any], there: Mapping[int, Message | str]) -> tuple[str, str]:
    """The prompt and the reply of a row, of which the messages stand there, or their texts."""

    def text(name: str, place: str) -> str:
        if place not in body:
            return str(body[name])
        said = there[number_at(read(row["messages"]), body[place])]
        return said if isinstance(said, str) else said.text

    try:
        return text("prompt", "said"), text("reply", "answered")
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(row) from error


def entry_of(body: Mapping[str, Any], **fields: Any) -> AuditEntry:
    """An entry of its body and what stands beside it.

    Args:
        body: Its body.
        **fields: The other fields.
    """
    asked, answered = body.get("tokens", (None, None))
    fields |= {name: body.get(name) for name in _NAMES}
    return AuditEntry(input_tokens=asked, output_tokens=answered, extra=from_plain(body.get("extra", {})), **fields)


def _made(row: Row, body: Mapping[str, Any], prompt: str, reply: str, messages: tuple[Message, ...]) -> AuditEntry:
    return entry_of(
        body,
        id=row["key"],
        kind=row["kind"],
        prompt=prompt,
        reply=reply,
        created_at=moment(row["created_at"]),
        conversation_id=row["conversation"],
        namespace=namespace_of(row["path"]),
        junk=tuple(read_column(row["junk"], list)),
        status=row["status"],
        thread_id=row["thread"],
        messages=messages,
        archived=bool(row["archived"]),
    )


def _damaged(row: Row) -> DatabaseUnreadable:
    return DatabaseUnreadable(
        f"The entry {safe_repr(row['key'])} of the audit trail, number {row['sequence']}, is damaged. Restore "
        "it from a backup, or erase its conversation or namespace."
    )
