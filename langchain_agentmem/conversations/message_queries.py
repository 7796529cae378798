"""What a chat history asks of the log: messages by id, index and role, their versions and tokens; conversations.

Operations on the messages of one conversation, on top of the log's. Arguments are checked before anything is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.namespaces import Namespace, id_of, namespace_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations import message_log
from langchain_agentmem.conversations.log_entries import edited, new_version, shown_message
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.messages.langchain_messages import to_langchain
from langchain_agentmem.messages.message import Message, column_role, decode_body
from langchain_agentmem.messages.provider_content import ImageFiles, named_part
from langchain_agentmem.storage import Steps, query

if TYPE_CHECKING:
    from langchain_agentmem.language_models.tokens import TokenCounter

_FIELDS = frozenset(field.name for field in dataclasses.fields(Message)) - {"message_id"}


def change(
    at: message_log.Address, message_id: str, changes: Mapping[str, Any], *, now: int, tail: int
) -> Steps[str | None]:
    """Give fields of a message new values.

    Returns:
        The message's id, or None where the message was so already.

    Raises:
        MessageError: There is no such field, no message has the id, or a value does not fit.
    """
    if unknown := sorted(set(changes) - _FIELDS):
        raise MessageError(
            f"A message has no field {safe_repr(unknown[0])} to change; it has {', '.join(sorted(_FIELDS))}."
        )
    key = id_of(message_id, "message", MessageError)
    return (yield from _revised(at, key, lambda old: edited(old, changes), now=now, tail=tail))


def replace(at: message_log.Address, idx: int, message: Message, *, now: int, tail: int) -> Steps[str | None]:
    """Put another message in the place of the one at an index, under its id; gives that, or None as `change` does."""
    row = yield from _at_index(at, idx)
    moved = dataclasses.replace(message, message_id=row.key)
    return (yield from _revised(at, row.key, lambda old: new_version(old, moved), now=now, tail=tail))


def _revised(
    at: message_log.Address, key: str, make: Callable[[message_log.Stored], message_log.LogEntry], **now: int
) -> Steps[str | None]:
    changed = yield from message_log.update(at, key, make, **now)
    if changed:
        yield from message_log.disown(at, key)
    return key if changed else None


def delete(at: message_log.Address, idx: int) -> Steps[list[str]]:
    """Remove the message at an index; gives its id."""
    return (yield from remove(at, (yield from _at_index(at, idx)).key))


def remove(at: message_log.Address, message_id: str) -> Steps[list[str]]:
    """Remove the message of an id; gives the id if it was there.

    Raises:
        MessageError: This cannot be an id.
    """
    found = yield from by_id(at, message_id)
    for row in found:
        yield from message_log.disown(at, row.key)
    return (yield from message_log.remove(at, [row.key for row in found]))


def by_id(at: message_log.Address, message_id: str) -> Steps[list[message_log.Stored]]:
    """The message of an id, or nothing. A round under this id is the session's affair.

    Raises:
        MessageError: This cannot be an id.
    """
    row = yield from message_log.get(at, id_of(message_id, "message", MessageError))
    return [] if row is None or row.kind == message_log.ROUND else [row]


def versions(at: message_log.Address, message_id: str) -> Steps[list[message_log.Stored]]:
    """Every version of a message, oldest first.

    Raises:
        MessageError: This cannot be an id, or no message has it.
    """
    key = id_of(message_id, "message", MessageError)
    found = [row for row in (yield from message_log.history(at, key)) if row.kind != message_log.ROUND]
    if not found:
        raise message_log.unknown(key, at)
    return found


def around(at: message_log.Address, message_id: str | None, before: int, after: int) -> Steps[list[Message]]:
    """A message with its neighbours, or the last messages; each with the time at which it was said.

    Raises:
        MessageError: An argument is wrong, or no message has this id.
    """
    before, after = count_given("n", before, MessageError), count_given("n", after, MessageError)
    if message_id is None:
        rows = yield from message_log.recent(at, limit=before)
    else:
        key = id_of(message_id, "message", MessageError)
        found = yield from message_log.around(at, key, before=min(before, message_log.ALL - 1), after=after)
        if found is None:
            raise message_log.unknown(key, at)
        rows = found
    return [dataclasses.replace(decode_body(row.body, row.key), created_at=moment(row.created_at)) for row in rows]


def of_role(at: message_log.Address, role: str, n: int | None) -> Steps[list[message_log.Stored]]:
    """The last messages of one role, or all of them, oldest first.

    Raises:
        MessageError: The role is empty, or `n` is negative.
    """
    if not isinstance(role, str) or not role:
        raise MessageError(f"A role is a name such as 'user' or 'assistant', not {safe_repr(role)}.")
    limit = message_log.ALL if n is None else count_given("n", n, MessageError)
    return (yield from message_log.recent(at, limit=limit, role=column_role(role)))


def langchain_of(row: message_log.Stored, images: ImageFiles) -> BaseMessage:
    """A stored message as LangChain's, with its images."""
    message = shown_message(row.body, row.key, row.attachments)
    return to_langchain(message, read_images=message.images is not None and images.of(row.key))


def dict_of(row: message_log.Stored, images: ImageFiles, *, include_ids: bool) -> dict[str, Any]:
    """A stored message as a dictionary for a provider, with its images."""
    try:
        message = shown_message(row.body, row.key, row.attachments)
        return message.to_llm_dict(include_id=include_ids, part_of=images.of(row.key))
    except MessageError as error:
        raise MessageError(f"The message {safe_repr(row.key)} cannot be given to a model. {error}") from error


def count_tokens(counter: TokenCounter, rows: Sequence[message_log.Counted]) -> tuple[int, dict[bytes, int]]:
    """The tokens of messages before calibration, and those counts that were not known yet, by digest of the body.

    Args:
        counter: How to count.
        rows: The messages, each with the tokens that are kept for it or with its body.
    """
    total = 0
    new: dict[bytes, int] = {}
    for row in rows:
        tokens = new.get(row.content_hash) if row.tokens is None else row.tokens
        if tokens is None:
            message = to_langchain(decode_body(row.body or b"", ""), read_images=named_part)
            tokens = new[row.content_hash] = counter.count_message(message)
        total += tokens
    return total, new


def _at_index(at: message_log.Address, idx: int) -> Steps[message_log.Stored]:
    if isinstance(idx, bool) or not isinstance(idx, int):
        raise MessageError(f"An index is a whole number, not {safe_repr(idx)}.")
    row = None if abs(idx) > message_log.ALL else (yield from message_log.at_index(at, idx))
    if row is None:
        raise MessageError(f"The conversation {safe_repr(at.name)} has no message at index {idx}.")
    return row


class ListedConversation(NamedTuple):
    """A conversation, without what was said in it.

    Attributes:
        conversation_id: Its id.
        namespace: Whose it is.
        messages: How many messages it has.
        first_at: When its first message was said, in UTC.
        last_at: When its last message was said.
    """

    conversation_id: str
    namespace: Namespace
    messages: int
    first_at: datetime
    last_at: datetime


def conversations(namespace: Namespace, limit: int, offset: int) -> Steps[list[ListedConversation]]:
    """The conversations of a namespace and of all below it.

    Raises:
        InvalidInput: A number is none, or negative.
    """
    low, high = range_of(namespace)
    counts = {"limit": count_given("limit", limit), "offset": count_given("offset", offset)}
    rows = yield query.newest_conversations(low=low, high=high, kind=message_log.CONVERSATION, **counts)
    return [
        ListedConversation(
            conversation_id=row["name"],
            namespace=namespace_of(row["path"]),
            messages=row["messages"],
            first_at=moment(row["first_at"]),
            last_at=moment(row["last_at"]),
        )
        for row in rows
    ]


def conversations_shown(found: list[ListedConversation]) -> dict[str, Any]:
    """What a trace shows of a list."""
    return {"count": len(found), "conversations": [each.conversation_id for each in found[:20]]}


def count_given(name: str, number: Any, error: type[InvalidInput] = InvalidInput) -> int:
    """A number of rows that somebody wants.

    Raises:
        InvalidInput: It is none, or negative.
    """
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise error(f"{name} must be a whole number of 0 or more, not {safe_repr(number)}.")
    return min(number, message_log.ALL)
