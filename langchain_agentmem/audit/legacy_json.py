"""Functions that read and write `agent_memory.json`, the file of the original audit memory.

The file is a JSON object whose "history" is the list of entries. A damaged file is read entry by entry. Unreadable
parts, such as an incomplete entry at the end, are reported with their positions.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from langchain_agentmem.audit.audit_entry import AuditEntry, Kind
from langchain_agentmem.audit.audit_rows import EntryDraft
from langchain_agentmem.audit.junk_rules import todo_key
from langchain_agentmem.base.clock import EPOCH
from langchain_agentmem.base.encoding import to_plain
from langchain_agentmem.base.files import check_path, is_database, write_atomically
from langchain_agentmem.base.namespaces import Namespace, check_id
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.storage.queries import digest

MARKS: Mapping[Kind, tuple[str, str]] = {
    "todo": ("[TODO]", "todo-capture"),
    "reflection": ("[SELF-REFLECTION]", "self-reflection"),
    "reference": ("[REFERENCE]", "best-practices"),
}
"""The prompt prefix and the conversation id by which the file marks a kind. Not the `mark` of an `EntryDraft`."""

_ENTRY_START = re.compile(r'(?<!:)(?<!: )\{(?=\s*"(?!history"))')  # an object that is neither a value nor a document
_HISTORY_START = re.compile(r'"history"\s*:\s*\[')
_MAX_LOST = 1_000
"""The number of unreadable parts after which the rest of a file is not read."""
_DECODER = json.JSONDecoder(strict=False)  # accepts control characters in strings
_MAX_TIMESTAMP = 253_402_300_799
"""Seconds from 1970 to the end of the year 9999."""


class DocumentEntry(NamedTuple):
    """An entry of the document.

    Attributes:
        prompt: The unchanged prompt, with its mark.
        reply: The unchanged reply.
        timestamp: The time of the entry in UTC. None if the time is missing or invalid.
        conversation_id: The id of the conversation. None if the id is missing or empty.
        extra: All other fields, and the timestamp if it is invalid.
    """

    prompt: str
    reply: str
    timestamp: datetime | None
    conversation_id: str | None
    extra: Mapping[str, Any]

    @property
    def kind(self) -> Kind:
        """The kind of the entry, from the mark of its prompt, else from its conversation id."""
        beginning = self.prompt[:200].lstrip()
        kinds: list[Kind] = [kind for kind, (mark, _) in MARKS.items() if beginning.startswith(mark)]
        kinds += [kind for kind, (_, conversation_id) in MARKS.items() if self.conversation_id == conversation_id]
        return kinds[0] if kinds else "exchange"


class ParsedDocument(NamedTuple):
    """The content of a document.

    Attributes:
        entries: The entries, in the order of the document.
        lost: Descriptions of the parts that were not read, with positions where they are known.
        damaged: True if a part is unreadable, or the file is not valid JSON.
    """

    entries: list[DocumentEntry]
    lost: list[str]
    damaged: bool


def read_document(path: str | os.PathLike[str]) -> ParsedDocument:
    """Read a document, even a damaged one.

    Instead of a document, the file may contain a list of entries, one entry per line, or several consecutive documents.
    The encoding may be UTF-8, UTF-16 or UTF-32.

    Args:
        path: The file. It is not modified.

    Raises:
        InvalidInput: The file does not exist, cannot be read, or is a database.
    """
    source = check_path(path)
    try:
        data = source.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{safe_repr(str(source))} cannot be read: {error}.") from error
    if is_database(source):
        raise InvalidInput(f"{safe_repr(str(source))} is a database, not an agent_memory.json file.")
    text = data.decode(encoding := json.detect_encoding(data), "replace")
    lost: list[str] = []
    try:
        values = [_DECODER.decode(text)]
        damaged = "\ufffd" in text and text.encode(encoding) != data
    except (ValueError, RecursionError) as error:
        values, damaged = _scan_objects(text, lost), True
        # Consecutive documents are not valid JSON, but nothing is lost.
        if not lost and not str(error).startswith("Extra data"):
            lost.append("The file is not valid JSON. It was read entry by entry.")
    entries: list[DocumentEntry] = []
    for value in values:
        history = value.get("history", value) if isinstance(value, dict) else value
        for item in history if isinstance(history, list) else [history]:
            if isinstance(item, dict):
                entry = _parse_entry(item)
                try:
                    to_plain(entry.extra)
                except InvalidInput as error:
                    lost.append(f"Entry {len(entries) + 1} has parts that cannot be stored: {error}")
                    entry = entry._replace(extra={})
                entries.append(entry)
            else:
                lost.append(f"Expected an entry, found {safe_repr(item, 80)}.")
    return ParsedDocument(entries, lost, damaged or bool(lost))


def _scan_objects(text: str, lost: list[str]) -> list[Any]:
    """Return the readable objects of an invalid JSON text. Add unreadable parts to `lost`."""
    objects: list[Any] = []
    position = 0
    while (match := _ENTRY_START.search(text, position)) and len(lost) < _MAX_LOST:
        start = match.start()
        try:
            value, position = _DECODER.raw_decode(text, start)
            objects.append(value)
        except (ValueError, RecursionError) as error:
            error_position = error.pos if isinstance(error, json.JSONDecodeError) else start + 1
            if history_start := _HISTORY_START.search(text, start, error_position):  # the object is a document
                position = history_start.end()
            else:
                position = max(error_position, start + 1)
                lost.append(f"No entry can be read at character {start + 1:,}: {safe_repr(text[start : start + 60])}.")
    return objects


def _parse_entry(value: dict[str, Any]) -> DocumentEntry:
    extra = dict(value)
    prompt, reply, conversation = [_as_text(extra.pop(key, None)) for key in ("prompt", "reply", "conversation_id")]
    if timestamp := time_of(extra.get("timestamp")):
        del extra["timestamp"]
    return DocumentEntry(prompt, reply, timestamp, conversation or None, extra)


def copy_damaged_file(path: str | os.PathLike[str], now: datetime) -> Path:
    """Copy a damaged file to a new file next to it. Never overwrite an existing file.

    Args:
        path: The file.
        now: The current time. The name of the copy contains it.

    Returns:
        The path of the copy: ``<name>.corrupt-<YYYYMMDD-HHMMSS-microseconds>``, in UTC.

    Raises:
        InvalidInput: The file cannot be copied.
    """
    source = check_path(path)
    target = source.with_name(f"{source.name}.corrupt-{now.astimezone(UTC):%Y%m%d-%H%M%S-%f}")
    try:
        with target.open("xb") as copy:
            copy.write(source.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{safe_repr(str(source))} cannot be copied: {error}.") from error
    return target


def write_document(path: str | os.PathLike[str], entries: Iterable[AuditEntry]) -> int:
    """Write entries as a document in ASCII, which every reader decodes correctly.

    Args:
        path: The file to write. An existing file is replaced when the new one is complete.
        entries: The entries. The document contains their prompt, reply, time in whole seconds, and conversation id.

    Returns:
        The number of written entries.

    Raises:
        InvalidInput: The file cannot be written.
    """
    count = 0
    with write_atomically(path) as file:
        file.write('{\n  "history": [')
        for entry in entries:
            fields = {"prompt": entry.prompt, "reply": entry.reply, "timestamp": int(entry.created_at.timestamp())}
            conversation = entry.conversation_id or entry.extra.get("conversation_id")  # see `make_drafts`
            fields |= {"conversation_id": conversation} if isinstance(conversation, str) else {}
            text = json.dumps(fields, indent=2).replace("\n", "\n    ")
            file.write(f"{',' if count else ''}\n    {text}")
            count += 1
        file.write("\n  ]\n}\n" if count else "]\n}\n")
    return count


def time_of(value: Any) -> datetime | None:
    """Convert a timestamp to a time in UTC.

    Args:
        value: Seconds since 1970.

    Returns:
        The time. None if the value is not a number, or not between 1970 and the end of the year 9999.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_TIMESTAMP:
        return None
    return EPOCH + timedelta(seconds=value)


def _as_text(value: Any) -> str:
    if isinstance(value, str | None):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""


class LegacyImport(NamedTuple):
    """The result of importing a document.

    Attributes:
        added: The number of added entries.
        known: The number of entries that existed already.
        lost: Descriptions of the parts of the file that were not read.
        copy_path: The path of the copy of a damaged file. None if the file is not damaged.
    """

    added: int
    known: int
    lost: tuple[str, ...]
    copy_path: Path | None


def make_drafts(
    entries: Iterable[DocumentEntry], namespace: Namespace, at: datetime, mark_junk: Callable[[AuditEntry], AuditEntry]
) -> list[EntryDraft]:
    """Convert the entries of a document to drafts.

    The id of a draft is computed from the content of the entry, so that a second import finds the existing entry.

    Args:
        entries: The entries, in their order.
        namespace: The namespace of the drafts.
        at: The time of the entries before the first entry with a time.
        mark_junk: A function that returns the entry with its `junk` set.
    """
    drafts, counts = [], Counter[bytes]()
    for source in entries:
        at = source.timestamp or at  # an entry without a time gets the time of the previous one
        content = [source.kind, source.prompt, source.reply, str(source.timestamp), source.conversation_id or ""]
        key = digest("\x1f".join(content).encode("utf-8", "surrogatepass"))
        counts[key] += 1
        conversation, extra = source.conversation_id, source.extra
        if conversation is not None:
            try:
                conversation = check_id(conversation, "conversation")
            except InvalidInput:  # OPUS, which contains the original audit memory, accepts any conversation id
                conversation, extra = None, {**extra, "conversation_id": conversation}
        title = source.prompt.strip().removeprefix(MARKS[source.kind][0]).strip() if source.kind in MARKS else ""
        entry = AuditEntry(
            id=f"imported-{key.hex()[:32]}-{counts[key]}",
            kind=source.kind,
            prompt=source.prompt,
            reply=source.reply,
            created_at=at,
            conversation_id=conversation,
            namespace=namespace,
            status="open" if source.kind == "todo" else None,
            title=title or None if source.kind == "reference" else None,
            extra=extra,
        )
        mark = todo_key(title) if source.kind == "todo" else title if source.kind == "reference" else ""
        drafts.append(EntryDraft(mark_junk(entry), mark or None))
    return drafts
