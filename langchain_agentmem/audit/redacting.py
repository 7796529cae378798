"""What nobody is to read is taken out of a model call before it is written.

An audit trail is complete unless somebody wants it otherwise. Where it is to hold no secrets and taking them out fails,
nothing that was said is written, and the entry says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.base.redaction import redact_value
from langchain_agentmem.messages import Message

Clean: TypeAlias = Callable[[Any], Any]
"""Gives a text, or a dictionary or list with texts in it, without what nobody is to read."""


def cleaner_of(redact: bool | Callable[[str], str]) -> Clean | None:  # noqa: FBT001 - it is a user's setting
    """How entries are cleaned.

    Args:
        redact: True for what `memory.secrets` finds, a function from text to text, or False.

    Returns:
        None where they are not.
    """
    if isinstance(redact, bool):
        return redact_value if redact else None
    change = redact

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, Mapping):
            return {key: clean(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(clean, value))
        return value

    return clean


def without_secrets(entry: AuditEntry, clean: Clean) -> AuditEntry:
    """The entry with everything that was said, and what went wrong, cleaned.

    Args:
        entry: A call.
        clean: Gives texts, and dictionaries and lists of them, without what nobody is to read.
    """
    return replace(
        entry,
        prompt=clean(entry.prompt),
        reply=clean(entry.reply),
        error=None if entry.error is None else clean(entry.error),
        messages=tuple(_cleaned(message, clean) for message in entry.messages),
        extra=clean(dict(entry.extra)),
    )


def withheld(entry: AuditEntry, reason: BaseException) -> AuditEntry:
    """The entry without anything that was said: it could not be cleaned."""
    error = None if entry.error is None else entry.error.partition(":")[0]
    extra = {"answers": 0, "withheld": type(reason).__name__}
    return replace(entry, prompt="", reply="", error=error, messages=(), extra=extra)


def _cleaned(message: Message, clean: Clean) -> Message:
    calls, agents = message.tool_calls, message.agent_calls
    return replace(
        message,
        content=clean(message.content),
        tool_calls=calls and [replace(call, arguments=clean(call.arguments)) for call in calls],
        agent_calls=agents and [replace(call, request=clean(call.request)) for call in agents],
        structured_data=clean(message.structured_data),
        images=clean(message.images),
        reasoning_details=clean(message.reasoning_details),
        langchain=clean(message.langchain),
    )
