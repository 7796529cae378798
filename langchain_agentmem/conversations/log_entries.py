"""A message as an entry of the log: its bytes, its text for the index, and the columns it is filtered by."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage

from langchain_agentmem.base import encoding
from langchain_agentmem.base.clock import micros, moment
from langchain_agentmem.base.namespaces import id_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import MessageError
from langchain_agentmem.messages import Message, decode_body, encode_body, from_langchain, message_time, to_langchain
from langchain_agentmem.messages.injected import MARK, is_injected
from langchain_agentmem.messages.message import LANGCHAIN_ROLES, plain
from langchain_agentmem.messages.role_rounds import AttachmentType

_IMAGE = AttachmentType.image_url.value


def message_of(given: Any = None, *, new_id: Callable[[], str], **fields: Any) -> tuple[Message, bool]:
    """The message that a caller means, and whether its id was made for it just now.

    Args:
        given: A `Message`, a LangChain message or a dictionary of `Message`'s fields; or None, and then:
        new_id: Makes an id for a message that has none.
        **fields: `role`, which is needed, and other fields of `Message`.

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
        message = from_langchain(given)
        return (message, False) if given.id else (dataclasses.replace(message, message_id=new_id()), True)
    if isinstance(given, Mapping):
        return _made(given), False
    raise MessageError(f"A message is a Message, a LangChain message or a dict, not {type(given).__name__}.")


def entry_of(message: Message, now: int, *, new_key: bool = False) -> message_log.Entry:
    """Make the entry that stores a message.

    Args:
        message: The message.
        now: Its time unless it tells one itself, in microseconds since 1970.
        new_key: Whether its id was made just now, so that nothing can hold it yet.

    Raises:
        MessageError: The id or time cannot be one, or something in the message cannot be stored.
    """
    said_at = _said_at(message)
    return message_log.Entry(
        id_of(message.message_id, "message", MessageError),
        encode_body(message),
        message.text,
        now if said_at is None else said_at,
        role=plain(message.role),
        sender=plain(message.name),
        new_key=new_key,
    )


def shown_message(body: bytes, key: str, attachments: bytes | None) -> Message:
    """A stored message as it is shown: with the images that are attached to it, where the user said it as a post.

    Other roles' attachments stay beside their posts, since no provider takes an image from an assistant.

    Args:
        body: Its bytes.
        key: Its id.
        attachments: The bytes of the list of its attachments, or None.
    """
    message = decode_body(body, key)
    if attachments is None or message.role != "user":
        return message
    found = [
        each["content"] for each in encoding.decode(bytes(attachments)) if each["type"] == _IMAGE and each["content"]
    ]
    return dataclasses.replace(message, images=[*(message.images or ()), *found]) if found else message


def brings_memory(entry: message_log.Entry) -> bool:
    """Whether an entry is a message by which memory was put into a context: what it tells is stored already."""
    return MARK.encode() in entry.body and is_injected(to_langchain(decode_body(entry.body, entry.key)))


def edited(old: message_log.Stored, changes: Mapping[str, Any]) -> message_log.Entry:
    """The entry for a message in which some fields have changed.

    Args:
        old: The entry as it is stored.
        changes: Fields of `Message` with their new values.

    Raises:
        MessageError: It is no message, or a change does not fit.
    """
    if old.kind == message_log.ROUND:
        raise MessageError(f"{safe_repr(old.key)} is a round, not a message.")
    return new_version(old, changed(decode_body(old.body, old.key), changes))


def changed(message: Message, changes: Mapping[str, Any]) -> Message:
    """A message in which some fields have changed.

    Args:
        message: As it was.
        changes: Fields of `Message` with their new values.

    Raises:
        MessageError: A change does not fit.
    """
    try:
        return dataclasses.replace(message, **changes)
    except TypeError as error:
        raise MessageError(f"This change does not fit a message: {error}.") from error


def new_version(old: message_log.Stored, message: Message) -> message_log.Entry:
    """The entry for another message in the place of a stored one: what stands beside it stays as it was."""
    check_langchain(message)
    return entry_of(message, old.created_at)._replace(
        kind=old.kind, recipient=old.recipient, round_key=old.round_key, attachments=old.attachments
    )


def check_langchain(message: Message) -> None:
    """Refuse what only LangChain knows about a message where LangChain could not read it back.

    Raises:
        MessageError: `Message.langchain` is not as `from_langchain` gives it.
    """
    if message.langchain is None:
        return
    try:
        to_langchain(message)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MessageError(f"A message's 'langchain' is not as from_langchain gives it: {error}.") from error


def _made(fields: Mapping[str, Any]) -> Message:
    try:
        message = Message(**fields)
    except TypeError as error:
        raise MessageError(f"This does not describe a message: {error}.") from error
    check_langchain(message)
    return message


def _said_at(message: Message) -> int | None:
    """The time that a message itself tells, as the database keeps it."""
    told = message_time(message)
    if told is None:
        return None
    try:
        moment(micros(told))
    except OverflowError as error:
        raise MessageError(f"created_at lies outside the years 1 to 9999 in UTC: {safe_repr(told)}.") from error
    return micros(told)
