"""Conversion of messages, rounds and posts to entries of the log and back.

An entry stores a message as bytes, with a text for the search index and columns for filters. Functions of this module
rebuild rounds and their posts from entries, for all roles or as one role sees them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, RemoveMessage

from langchain_agentmem.base import encoding
from langchain_agentmem.base.clock import EARLIEST, LATEST, to_micros
from langchain_agentmem.base.namespaces import check_id
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import MessageError, safe_repr
from langchain_agentmem.messages import message as message_fields
from langchain_agentmem.messages.langchain_messages import encode_plain, from_langchain, to_langchain
from langchain_agentmem.messages.message import Message, decode_body, encode_body, escape_name
from langchain_agentmem.messages.provider_content import part_or_placeholder

if TYPE_CHECKING:
    from langchain_agentmem.messages.role_rounds import Post, Round, SharedMemoryEntry

_MEMORY_MARK = message_fields.MEMORY_MARK.encode()


def parse_message(value: Any = None, *, new_id: Callable[[], str], **fields: Any) -> tuple[Message, bool]:
    """Convert arguments to a message.

    Args:
        value: A `Message`, a LangChain message or a dictionary of `Message`'s fields. Default: none.
        new_id: The function that makes an id for a LangChain message, or for fields, without an id.
        **fields: The fields of `Message`, used only without `value`. `role` is then required.

    Returns:
        The message, and True if the function `new_id` made its id.

    Raises:
        MessageError: Neither message nor role is given, or the message is malformed.
    """
    if value is None:
        if fields.get("role") is None:
            raise MessageError("A message needs a role: give message= or role=.")
        if isinstance(fields["role"], str):
            fields["role"] = message_fields.LANGCHAIN_ROLES.get(fields["role"], fields["role"])
        return _message_from_fields({"message_id": new_id(), **fields}), "message_id" not in fields
    if isinstance(value, Message):
        check_langchain(value)
        return value, False
    if isinstance(value, RemoveMessage):
        raise MessageError(f"A RemoveMessage cannot be stored: use remove_by_id({safe_repr(value.id)}) instead.")
    if isinstance(value, BaseMessage):
        return (from_langchain(value), False) if value.id else (from_langchain(value, new_id=new_id()), True)
    if isinstance(value, Mapping):
        return _message_from_fields(value), False
    raise MessageError(f"message must be a Message, a LangChain message or a dict, not {type(value).__name__}.")


def make_entry(message: Message, now: int, *, new_key: bool = False, body: bytes | None = None) -> message_log.LogEntry:
    """Make the entry that stores a message.

    Args:
        message: The message.
        now: The time of a message that has no time of its own, in microseconds since 1970.
        new_key: True if the message's id is newly generated, so that no stored entry can have it. Default: False.
        body: The encoded message, if it is encoded already. Default: the message is encoded.

    Raises:
        MessageError: The id or time is invalid, or a value in the message cannot be stored.
    """
    time = message_fields.message_time(message)
    created_at = now if time is None else to_micros(time)
    if time is not None and not EARLIEST <= created_at <= LATEST:
        raise MessageError(f"created_at must be in the years 1 to 9999 in UTC, not {safe_repr(time)}.")
    return message_log.LogEntry(
        check_id(message.message_id, "message", MessageError),
        encode_body(message) if body is None else body,
        message.text,
        created_at,
        role=escape_name(message.role),
        sender=escape_name(message.name),
        new_key=new_key,
    )


def make_plain_entry(message: Any, now: int, new_id: Callable[[], str]) -> message_log.LogEntry | None:
    """Make the entry that stores a LangChain message with only a text and an id.

    The entry equals the result of `parse_message` and `make_entry`, which take three times as long.

    Args:
        message: Anything.
        now: The time of the message, in microseconds since 1970.
        new_id: The function that makes the id of a message without one.

    Returns:
        The entry. None for any other message.

    Raises:
        MessageError: The id is invalid.
    """
    if (plain := encode_plain(message)) is None:
        return None
    message_id, role, text, body = plain
    key = check_id(message_id or new_id(), "message", MessageError)
    return message_log.LogEntry(key, body, text, now, role=role, new_key=message_id is None)


def make_round_entry(round_value: Round, now: int) -> message_log.LogEntry:
    """Make the entry that stores a round, without its posts.

    Args:
        round_value: The round.
        now: The start time of the round, in microseconds since 1970.

    Raises:
        MessageError: The id of the round is invalid.
    """
    body = encoding.encode({"user_query": round_value.user_query, "state": round_value.state})
    key = check_id(round_value.id, "round", MessageError)
    return message_log.LogEntry(key, body, round_value.user_query, now, kind=message_log.ROUND, role="user")


def make_post_entry(post: Post, round_id: str, now: int) -> message_log.LogEntry:
    """Make the entry that stores a post.

    Args:
        post: The post.
        round_id: The id of the round that the post belongs to.
        now: The time of the post, in microseconds since 1970.

    Raises:
        MessageError: An id, the sender or the recipient is invalid.
    """
    role = "user" if post.send_from == USER else "assistant"
    message = Message(role=role, content=post.message, name=post.send_from, message_id=post.id)
    attachments = [attachment.to_dict() for attachment in post.attachment_list]
    return make_entry(message, now)._replace(
        sender=check_id(post.send_from, "sender", MessageError),
        recipient=check_id(post.send_to, "recipient", MessageError),
        round_key=check_id(round_id, "round", MessageError),
        attachments=encoding.encode(attachments) if attachments else None,
    )


def message_with_images(body: bytes, key: str, attachments: bytes | None) -> Message:
    """Decode a stored message, and add the attached images if it is from a user.

    Images attached by other roles are not added, because no provider accepts images in an assistant message.

    Args:
        body: The encoded message.
        key: The id of the message.
        attachments: The encoded list of the attachments, or None.
    """
    message = decode_body(body, key)
    if attachments is None or message.role != "user":
        return message
    decoded = encoding.decode(bytes(attachments))
    images = [each["content"] for each in decoded if each["type"] == "image_url" and each["content"]]
    return dataclasses.replace(message, images=[*(message.images or ()), *images]) if images else message


def to_langchain_message(entry: message_log.LogEntry) -> BaseMessage:
    """Convert a stored message to a LangChain message, with its images."""
    return to_langchain(message_with_images(entry.body, entry.key, entry.attachments), part_of=part_or_placeholder)


def has_injected_memory(entry: message_log.LogEntry) -> bool:
    """Return whether a message contains memory that `inject` inserted into a prompt."""
    if _MEMORY_MARK not in entry.body:
        return False
    from langchain_agentmem.messages.message_marks import is_injected  # noqa: PLC0415 - imported when needed

    return is_injected(to_langchain(decode_body(entry.body, entry.key)))


def change_message(message: Message, changes: Mapping[str, Any]) -> Message:
    """Return a copy of a message with changed fields.

    Args:
        message: The message. It is not modified.
        changes: The new values, by the names of the fields. All fields except `message_id` can be changed.

    Raises:
        MessageError: A field is unknown or has an invalid value.
    """
    message_fields.check_fields(changes, message_fields.STORED_FIELDS)
    return dataclasses.replace(message, **changes)


def make_new_version(old: message_log.LogEntry, message: Message) -> message_log.LogEntry:
    """Make the entry that replaces a stored message.

    The new entry keeps the kind, recipient, round and attachments of the old one. If the message has no time, the new
    entry also keeps the old time.
    """
    check_langchain(message)
    return make_entry(message, old.created_at)._replace(
        kind=old.kind, recipient=old.recipient, round_key=old.round_key, attachments=old.attachments
    )


def check_langchain(message: Message) -> None:
    """Check a message's field `langchain`: the data that only LangChain messages have.

    Raises:
        MessageError: The field does not have the form that `from_langchain` writes.
    """
    if message.langchain is None:
        return
    try:
        to_langchain(message)  # raises if the field is malformed
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MessageError(f"A message's 'langchain' must have the form of from_langchain: {error}.") from error


def _message_from_fields(fields: Mapping[str, Any]) -> Message:
    message = Message.from_dict(fields, tagged=False)
    check_langchain(message)
    return message


USER, ASSISTANT = "User", "Assistant"
"""The sender and recipient of plain messages, which have no names of roles."""

TEMPORAL_START, TEMPORAL_END = "{{DELIMITER_START_TEMPORAL}}", "{{DELIMITER_END_TEMPORAL}}"
_TEMPORAL = re.compile(re.escape(TEMPORAL_START) + ".*?" + re.escape(TEMPORAL_END), re.DOTALL)


def temporal(text: str) -> str:
    """Mark text in a post that is visible only while its round is the last one.

    `get_role_rounds` removes the marked text from all earlier rounds. Marks in posts of the user have no effect.
    """
    return f"{TEMPORAL_START}{text}{TEMPORAL_END}"


def build_rounds(rounds: Sequence[message_log.LogEntry], messages: Sequence[message_log.LogEntry]) -> list[Round]:
    """Build rounds with their posts.

    Messages without a round form additional rounds, called implicit here. Each user message among them begins a new
    round. The round is finished when another message follows.

    Args:
        rounds: The entries of a conversation's rounds.
        messages: The entries of its messages, oldest first.
    """
    from langchain_agentmem.messages.role_rounds import Round  # noqa: PLC0415 - imported when needed

    by_key: dict[str, Round] = {}
    positions: dict[str, tuple[int, int]] = {}  # the row id of the entry, and its index
    posts: dict[str, list[Post]] = {}  # by the key of their round
    for order, entry in enumerate(rounds):
        fields = encoding.decode(entry.body)
        by_key[entry.key] = Round.create(fields["user_query"], id=entry.key, state=fields["state"])
        positions[entry.key] = (entry.slot, order)
    implicit_key = ""  # the key of the current implicit round
    for order, entry in enumerate(messages):
        if entry.kind == message_log.DESCRIPTION:
            continue
        post = _to_post(entry)
        if entry.round_key in by_key:
            posts.setdefault(entry.round_key, []).append(post)
            continue
        is_question = entry.role == "user"  # the sender may have any name
        if not implicit_key or is_question:
            implicit_key = f"round-{entry.key}"
            query = post.message if is_question else ""
            by_key[implicit_key] = Round.create(query, id=implicit_key, state="created" if is_question else "finished")
            positions[implicit_key] = (entry.slot, order)
        elif by_key[implicit_key].state == "created":
            by_key[implicit_key] = by_key[implicit_key].replace(state="finished")  # this message is the answer
        posts.setdefault(implicit_key, []).append(post)
    return [by_key[key].with_post(*posts.get(key, ())) for key in sorted(by_key, key=positions.__getitem__)]


def _to_post(entry: message_log.LogEntry) -> Post:
    from langchain_agentmem.messages.role_rounds import Attachment, Post  # noqa: PLC0415 - imported when needed

    message = decode_body(entry.body, entry.key)
    is_user = message.role == "user"
    attachments = () if entry.attachments is None else encoding.decode(entry.attachments)
    parsed = [value for each in attachments if (value := Attachment.from_dict(each)) is not None]
    sender = message.name or (USER if is_user else ASSISTANT)
    recipient = entry.recipient or (ASSISTANT if is_user else USER)
    return Post.create(message.text, sender, recipient, parsed, id=entry.key)


def select_rounds(rounds: Sequence[Round], role: str, *, include_failures: bool) -> list[Round]:
    """Return the rounds with the posts visible to a role, see `SessionMemory.get_role_rounds`."""
    included = [round_ for round_ in rounds if include_failures or round_.state != "failed"]
    visible = []
    for round_ in included:
        posts = [post for post in round_.post_list if role in (post.send_from, post.send_to)]
        visible_posts = tuple(_remove_marks(post, keep_text=round_ is included[-1]) for post in posts)
        visible.append(round_.replace(post_list=visible_posts))
    return visible


def find_shared_entries(rounds: Sequence[Round], entry_type: str) -> list[SharedMemoryEntry]:
    """Return each sender's newest shared entry of a type, the oldest first.

    See `SessionMemory.get_shared_memory_entries`.
    """
    from langchain_agentmem.messages.role_rounds import AttachmentType, SharedMemoryEntry  # noqa: PLC0415 - imported when needed

    newest: dict[str, SharedMemoryEntry] = {}
    for round_ in rounds:
        for post in round_.post_list:
            for attachment in post.get_attachment(AttachmentType.shared_memory_entry):
                entry = attachment.extra
                if not isinstance(entry, SharedMemoryEntry) or entry.type != entry_type:
                    continue
                if entry.scope == "conversation" or round_ is rounds[-1]:
                    newest.pop(post.send_from, None)  # so that the next line inserts the sender at the end
                    newest[post.send_from] = entry
    return list(newest.values())


def _remove_marks(post: Post, *, keep_text: bool) -> Post:
    """Remove the marks of `temporal` from a post, and the marked text unless `keep_text`."""
    if post.send_from == USER or TEMPORAL_START not in post.message:
        return post
    text = post.message
    text = text.replace(TEMPORAL_START, "").replace(TEMPORAL_END, "") if keep_text else _TEMPORAL.sub("", text)
    return post.replace(message=text)
