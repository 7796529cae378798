"""Messages, rounds and posts as entries of the log.

A message becomes bytes, a text for the index, and the columns that filter it. Rounds with their posts are rebuilt from
entries, as each role sees them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage

from langchain_agentmem.base import encoding
from langchain_agentmem.base.clock import EARLIEST, LATEST, micros
from langchain_agentmem.base.namespaces import id_of
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import MessageError, safe_repr
from langchain_agentmem.messages.langchain_messages import from_langchain, to_langchain
from langchain_agentmem.messages.message import (
    KEPT,
    LANGCHAIN_ROLES,
    Message,
    check_fields,
    decode_body,
    encode_body,
    message_time,
    plain,
)
from langchain_agentmem.messages.message_marks import MEMORY_MARK, is_injected
from langchain_agentmem.messages.provider_content import part_or_placeholder
from langchain_agentmem.messages.role_rounds import Attachment, AttachmentType, Post, Round, SharedMemoryEntry


def message_of(given: Any = None, *, new_id: Callable[[], str], **fields: Any) -> tuple[Message, bool]:
    """Convert a caller's arguments to a message, and return whether its id is new.

    Args:
        given: A `Message`, a LangChain message or a dictionary of `Message`'s fields; or None, and then:
        new_id: Makes an id for a message that has none.
        **fields: `role`, which is required, and other fields of `Message`.

    Raises:
        MessageError: Neither message nor role is given, or the message is malformed.
    """
    if given is None:
        if fields.get("role") is None:
            raise MessageError("A message needs a role: give message= or role=.")
        if isinstance(fields["role"], str):
            fields["role"] = LANGCHAIN_ROLES.get(fields["role"], fields["role"])
        return _made({"message_id": new_id(), **fields}), "message_id" not in fields
    if isinstance(given, Message):
        check_langchain(given)
        return given, False
    if isinstance(given, RemoveMessage):
        raise MessageError(
            f"A RemoveMessage is an instruction, not a message: use remove_by_id({safe_repr(given.id)})."
        )
    if isinstance(given, BaseMessage):
        return (from_langchain(given), False) if given.id else (from_langchain(given, new_id=new_id()), True)
    if isinstance(given, Mapping):
        return _made(given), False
    raise MessageError(f"A message is a Message, a LangChain message or a dict, not {type(given).__name__}.")


def entry_of(message: Message, now: int, *, new_key: bool = False, body: bytes | None = None) -> message_log.LogEntry:
    """Make the entry that stores a message.

    Args:
        message: The message.
        now: Its time unless the message has one, in microseconds since 1970.
        new_key: Whether its id is new, so that no entry can have it yet. Default: False.
        body: Its bytes, if known. Default: they are encoded.

    Raises:
        MessageError: The id or time is invalid, or a value in the message cannot be stored.
    """
    said_at = _said_at(message)
    return message_log.LogEntry(
        id_of(message.message_id, "message", MessageError),
        encode_body(message) if body is None else body,
        message.text,
        now if said_at is None else said_at,
        role=plain(message.role),
        sender=plain(message.name),
        new_key=new_key,
    )


def round_entry(given: Round, now: int) -> message_log.LogEntry:
    """Make the entry that stores a round, without its posts.

    Args:
        given: The round.
        now: The time at which it began, in microseconds since 1970.

    Raises:
        MessageError: Its id is invalid.
    """
    body = encoding.encode({"user_query": given.user_query, "state": given.state})
    key = id_of(given.id, "round", MessageError)
    return message_log.LogEntry(key, body, given.user_query, now, kind=message_log.ROUND, role="user")


def post_entry(post: Post, round_id: str, now: int) -> message_log.LogEntry:
    """Make the entry that stores a post.

    Args:
        post: The post.
        round_id: The round that it belongs to.
        now: Its time, in microseconds since 1970.

    Raises:
        MessageError: An id, the sender or the recipient is invalid.
    """
    role = "user" if post.send_from == USER else "assistant"
    message = Message(role=role, content=post.message, name=post.send_from, message_id=post.id)
    attachments = [attachment.to_dict() for attachment in post.attachment_list]
    return entry_of(message, now)._replace(
        sender=id_of(post.send_from, "sender", MessageError),
        recipient=id_of(post.send_to, "recipient", MessageError),
        round_key=id_of(round_id, "round", MessageError),
        attachments=encoding.encode(attachments) if attachments else None,
    )


def shown_message(body: bytes, key: str, attachments: bytes | None) -> Message:
    """Read a stored message, with the attached images if it is a user's post.

    Images attached by other roles stay with their posts, since no provider takes an image from an assistant.

    Args:
        body: Its bytes.
        key: Its id.
        attachments: The bytes of the list of its attachments, or None.
    """
    message = decode_body(body, key)
    if attachments is None or message.role != "user":
        return message
    found = [
        each["content"]
        for each in encoding.decode(bytes(attachments))
        if each["type"] == "image_url" and each["content"]
    ]
    return dataclasses.replace(message, images=[*(message.images or ()), *found]) if found else message


def langchain_of(row: message_log.LogEntry) -> BaseMessage:
    """Return a stored message as a LangChain message, with its images."""
    return to_langchain(shown_message(row.body, row.key, row.attachments), part_of=part_or_placeholder)


def brings_memory(entry: message_log.LogEntry) -> bool:
    """Return whether an entry is a message that brings memory, which is already stored."""
    return MEMORY_MARK.encode() in entry.body and is_injected(to_langchain(decode_body(entry.body, entry.key)))


def changed(message: Message, changes: Mapping[str, Any]) -> Message:
    """Return a message with changed fields.

    Args:
        message: The message. It is not changed.
        changes: Fields of `Message` with their new values.

    Raises:
        MessageError: A field is unknown or has an invalid value.
    """
    check_fields(changes, KEPT)
    return dataclasses.replace(message, **changes)


def new_version(old: message_log.LogEntry, message: Message) -> message_log.LogEntry:
    """Make the entry that replaces a stored message, with its round, recipient, attachments."""
    check_langchain(message)
    return entry_of(message, old.created_at)._replace(
        kind=old.kind, recipient=old.recipient, round_key=old.round_key, attachments=old.attachments
    )


def check_langchain(message: Message) -> None:
    """Check that LangChain can read the field `Message.langchain` back.

    Raises:
        MessageError: `Message.langchain` does not have the form that `from_langchain` returns.
    """
    if message.langchain is None:
        return
    try:
        to_langchain(message)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MessageError(f"A message's 'langchain' is not as from_langchain gives it: {error}.") from error


def _made(fields: Mapping[str, Any]) -> Message:
    message = Message.from_dict(fields, tagged=False)
    check_langchain(message)
    return message


def _said_at(message: Message) -> int | None:
    """Return the time in a message, in microseconds since 1970, or None."""
    told = message_time(message)
    if told is None:
        return None
    if not EARLIEST <= (said_at := micros(told)) <= LATEST:
        raise MessageError(f"created_at lies outside the years 1 to 9999 in UTC: {safe_repr(told)}.")
    return said_at


USER, ASSISTANT = "User", "Assistant"

TEMPORAL_START, TEMPORAL_END = "{{DELIMITER_START_TEMPORAL}}", "{{DELIMITER_END_TEMPORAL}}"
_TEMPORAL = re.compile(re.escape(TEMPORAL_START) + ".*?" + re.escape(TEMPORAL_END), re.DOTALL)


def temporal(text: str) -> str:
    """Mark text that is visible only while its round is the last.

    `get_role_rounds` leaves it out of all rounds but the last. Marks apply to posts of agents only: a user's text is
    never cut.
    """
    return f"{TEMPORAL_START}{text}{TEMPORAL_END}"


def assembled(rounds: Sequence[message_log.LogEntry], messages: Sequence[message_log.LogEntry]) -> list[Round]:
    """Build rounds with their posts; other messages form one round for each question.

    Args:
        rounds: The rounds of a conversation.
        messages: Its messages.
    """
    made: dict[str, Round] = {}
    began: dict[str, tuple[int, int]] = {}
    posts: dict[str, list[Post]] = {}
    for order, row in enumerate(rounds):
        fields = encoding.decode(row.body)
        made[row.key] = Round.create(fields["user_query"], id=row.key, state=fields["state"])
        began[row.key] = (row.slot, order)
    loose = ""
    for order, row in enumerate(messages):
        if row.kind == message_log.DESCRIPTION:
            continue
        post = _as_post(row)
        if row.round_key in made:
            posts.setdefault(row.round_key, []).append(post)
            continue
        asks = row.role == "user"  # regardless of the user's name
        if not loose or asks:
            loose = f"round-{row.key}"
            query = post.message if asks else ""
            made[loose] = Round.create(query, id=loose, state="created" if asks else "finished")
            began[loose] = (row.slot, order)
        elif made[loose].state == "created":
            made[loose] = made[loose].replace(state="finished")  # it has an answer
        posts.setdefault(loose, []).append(post)
    in_order = sorted(made, key=began.__getitem__)
    return [made[key].with_post(*posts.get(key, ())) for key in in_order]


def _as_post(row: message_log.LogEntry) -> Post:
    message = decode_body(row.body, row.key)
    is_user = message.role == "user"
    attachments = () if row.attachments is None else encoding.decode(row.attachments)
    kept = [value for each in attachments if (value := Attachment.from_dict(each)) is not None]
    return Post.create(
        message.text,
        message.name or (USER if is_user else ASSISTANT),
        row.recipient or (ASSISTANT if is_user else USER),
        id=row.key,
    ).with_attachment(*kept)


def role_rounds(rounds: Sequence[Round], role: str, *, include_failures: bool) -> list[Round]:
    """Return the rounds as one role sees them, see `SessionMemory.get_role_rounds`."""
    kept = [each for each in rounds if include_failures or each.state != "failed"]
    seen = []
    for each in kept:
        posts = [post for post in each.post_list if role in (post.send_from, post.send_to)]
        shown = tuple(_without_marks(post, keep_text=each is kept[-1]) for post in posts)
        seen.append(each.replace(post_list=shown))
    return seen


def shared_entries(rounds: Sequence[Round], entry_type: str) -> list[SharedMemoryEntry]:
    """Return the shared entries of one type, see `SessionMemory.get_shared_memory_entries`."""
    newest: dict[str, SharedMemoryEntry] = {}
    for each in rounds:
        for post in each.post_list:
            for attachment in post.get_attachment(AttachmentType.shared_memory_entry):
                entry = attachment.extra
                if not isinstance(entry, SharedMemoryEntry) or entry.type != entry_type:
                    continue
                if entry.scope == "conversation" or each is rounds[-1]:
                    newest.pop(post.send_from, None)  # a newer entry also moves to the end
                    newest[post.send_from] = entry
    return list(newest.values())


def _without_marks(post: Post, *, keep_text: bool) -> Post:
    if post.send_from == USER or TEMPORAL_START not in post.message:
        return post
    text = post.message
    text = text.replace(TEMPORAL_START, "").replace(TEMPORAL_END, "") if keep_text else _TEMPORAL.sub("", text)
    return post.replace(message=text)
