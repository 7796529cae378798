"""Entries of the audit trail as rows, and rows as entries."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

from langchain_agentmem.audit import chain, model_messages
from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.base.clock import micros, moment
from langchain_agentmem.base.encoding import from_plain, is_plain, read_plain, to_plain, write_plain
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import AgentMemoryError, DatabaseUnreadable, InvalidInput
from langchain_agentmem.messages import Message
from langchain_agentmem.storage import Steps
from langchain_agentmem.storage.steps import Row

SHOWN, JUNK, REPLACED = range(3)
"""Why an entry is hidden, if it is."""
MARK_BYTES = 16

_JSON_BEGINS = b"{"
_NAMES = ("title", "model", "error", "run_id", "parent_run_id", "duration")


_Pair: TypeAlias = tuple[Row, dict[str, Any]]
"""A row and its body."""


class Draft(NamedTuple):
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
    parts: Sequence[model_messages.Part] | None = None


def mark_of(mark: str | bytes | None) -> bytes | None:
    """A mark as it is stored and looked up."""
    if mark is None or isinstance(mark, bytes):
        return mark
    return blake2b(mark.encode("utf-8", "surrogatepass"), digest_size=MARK_BYTES).digest()


def row_of(path: str, draft: Draft, placed: model_messages.Placed | None) -> dict[str, Any]:
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
    salt = chain.new_salt()
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
        "messages": None if placed is None else model_messages.written(placed.ranges),
        "body": compressed(body) if entry.archived else body,
    }
    row["digest"] = chain.digest(salt, _lasting(path, row), body, () if placed is None else placed.identities)
    return row


def digest_of(row: Row, messages: Mapping[int, tuple[bytes, str]]) -> bytes:
    """The digest that a stored row has.

    Args:
        row: It.
        messages: The digests and ids of the messages of its shelf, by number.

    Raises:
        ValueError: It is damaged.
    """
    ranges = model_messages.read(row["messages"]) if row["messages"] is not None else []
    try:
        said = [messages[number] for number in model_messages.numbers_in(ranges)]
    except KeyError as error:
        raise ValueError(f"message {error}") from error
    return chain.digest(bytes(row["salt"]), _lasting(row["path"], row), plain_body(row["body"]), said)


def entries(rows: Sequence[Row], *, messages: bool = True) -> Steps[list[AuditEntry]]:
    """Rows as entries, in their order.

    Args:
        rows: As the queries give them.
        messages: Whether calls are given with their messages. Without them, a long history need not be read.

    Raises:
        DatabaseUnreadable: One is damaged.
    """
    pairs = [(row, _read(row)) for row in rows]
    if messages:
        said = yield from _messages(rows)
        found = {row["sequence"]: said[row["shelf_id"]] for row in rows if row["messages"] is not None}
        texts = [_derived(row, body, lambda row, number: found[row["sequence"]][number].text) for row, body in pairs]
    else:
        found = {}
        spoken = yield from _spoken(pairs)
        texts = [_derived(row, body, lambda row, number: spoken[row["shelf_id"]][number]) for row, body in pairs]
    made = []
    for (row, body), (prompt, reply) in zip(pairs, texts, strict=True):
        history = found.get(row["sequence"])
        ranges = [] if history is None else model_messages.read(row["messages"])
        try:
            given = tuple((history or {})[number] for number in model_messages.numbers_in(ranges))
            made.append(_made(row, body, prompt, reply, given))
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(row) from error
    return made


def said(rows: Iterable[Row]) -> Steps[dict[int, tuple[str, str]]]:
    """The prompt and the reply of rows, by their places in the chain. Those that are damaged are left out."""
    whole: list[_Pair] = []
    for row in rows:
        with suppress(DatabaseUnreadable):
            whole.append((row, _read(row)))
    spoken = yield from _spoken(whole)
    found: dict[int, tuple[str, str]] = {}
    for row, body in whole:
        with suppress(DatabaseUnreadable):
            found[row["sequence"]] = _derived(row, body, lambda row, number: spoken[row["shelf_id"]][number])
    return found


def texts(rows: Sequence[Row]) -> Steps[dict[int, str]]:
    """What a search finds rows by, by their places in the chain. What is damaged is found by nothing."""
    found = yield from said(rows)
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


def _messages(rows: Iterable[Row]) -> Steps[dict[int, dict[int, Message]]]:
    """The messages that rows name, by shelf and number."""
    found: dict[int, dict[int, Message]] = {}
    for number, lists in _by_shelf(rows).items():
        found[number] = yield from model_messages.messages(number, lists)
    return found


def _spoken(pairs: Iterable[_Pair]) -> Steps[dict[int, dict[int, str]]]:
    """The texts of the messages that say prompts and replies, by shelf and number."""
    wanted: dict[int, set[int]] = {}
    for row, body in pairs:
        for place in ("said", "answered"):
            if place in body:
                with suppress(TypeError, ValueError):  # whoever needs it will tell
                    number = model_messages.number_at(model_messages.read(row["messages"]), body[place])
                    wanted.setdefault(row["shelf_id"], set()).add(number)
    found: dict[int, dict[int, str]] = {}
    for each, numbers in wanted.items():
        found[each] = yield from model_messages.texts(each, numbers)
    return found


def _derived(row: Row, body: Mapping[str, Any], text_of: Callable[[Row, int], str]) -> tuple[str, str]:
    """The prompt and the reply of a row."""

    def text(name: str, place: str) -> str:
        if place not in body:
            return str(body[name])
        return text_of(row, model_messages.number_at(model_messages.read(row["messages"]), body[place]))

    try:
        return text("prompt", "said"), text("reply", "answered")
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(row) from error


def _by_shelf(rows: Iterable[Row]) -> dict[int, list[list[model_messages.Range]]]:
    found: dict[int, list[list[model_messages.Range]]] = {}
    for row in rows:
        if row["messages"] is not None:
            try:
                found.setdefault(row["shelf_id"], []).append(model_messages.read(row["messages"]))
            except (TypeError, ValueError) as error:
                raise _damaged(row) from error
    return found


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
        junk=tuple(json.loads(row["junk"])) if row["junk"] else (),
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
