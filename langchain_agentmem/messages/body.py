"""The bytes that are stored for a message.

A body holds what was said, and not what it is called: two messages that differ only in their ids have one
body, which is stored once. Dictionaries inside keep the order of their keys, since a prompt may depend on it.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.encoding import TAG, encode, read_plain, write_plain
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, MessageError
from langchain_agentmem.messages.message import Message, as_time, kept_fields

_TAGGED = f'"{TAG}"'.encode()


def encode_body(message: Message) -> bytes:
    """Write a message, without its id, as bytes.

    Args:
        message: Any message.

    Returns:
        JSON in UTF-8: `Message.to_dict` without ``message_id``, keys in their order.

    Raises:
        MessageError: Something inside cannot be kept as JSON, such as an object in an artifact. The message
            names the place, the type and the remedy.
    """
    return write_plain(kept_fields(message, copied=False))


def decode_body(body: bytes, message_id: str) -> Message:
    """Read a message.

    Args:
        body: What `encode_body` gave.
        message_id: What the message is called.

    Returns:
        A message equal to the one that was written, of the same types throughout.

    Raises:
        DatabaseUnreadable: The bytes are damaged.
    """
    try:
        fields = read_plain(body)
        if not isinstance(fields, dict):
            raise MessageError("Its body is not a dictionary.")
        fields["message_id"] = message_id
        return Message.from_dict(fields, tagged=_TAGGED in body)
    except InvalidInput as error:
        which = f"The message {safe_repr(message_id)}" if message_id else "A message"
        raise DatabaseUnreadable(f"{which} is damaged; verify() tells more. {error}") from error


def same_body(one: bytes, other: bytes) -> bool:
    """Whether two bodies say the same, in whatever order the keys of their dictionaries stand.

    Args:
        one: What `encode_body` gave.
        other: Another one.
    """
    if one == other:
        return True
    plain, its = read_plain(one), read_plain(other)
    return encode(plain) == encode(its)


def body_text(body: bytes) -> str:
    """Read only what a search should find a message by: `Message.text`, without making the message.

    Args:
        body: What `encode_body` gave.

    Raises:
        DatabaseUnreadable: The bytes are damaged.
    """
    if _TAGGED not in body:
        with suppress(InvalidInput):
            fields = read_plain(body)
            if isinstance(fields, dict) and isinstance(text := fields.get("content"), str):
                return text
    return decode_body(body, "").text


def message_time(message: Message | BaseMessage) -> datetime | None:
    """Find when a message was said, as the message itself tells it.

    Args:
        message: Ours, with its ``created_at``, or LangChain's, with ``additional_kwargs["created_at"]``: a
            datetime or ISO 8601 text.

    Returns:
        A datetime with an offset; a time without one is taken as UTC. None when the message does not tell.

    Raises:
        MessageError: It tells something that is not a time.
    """
    if isinstance(message, Message):
        if message.created_at is not None:
            return message.created_at
        told = ((message.langchain or {}).get("additional_kwargs") or {}).get("created_at")
    else:
        told = message.additional_kwargs.get("created_at")
    return None if told is None else as_time(told)
