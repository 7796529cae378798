"""`agent_memory.json` of the original audit memory: read it, whole or damaged, write it, and set damaged files aside.

A damaged file is read entry by entry. What could not be read is reported with its place, and nothing is made up: an
entry in whose middle the file ends is left out.
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
from langchain_agentmem.base.files import is_database, path_of_file, whole_file
from langchain_agentmem.base.namespaces import Namespace, id_of
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.storage.queries import digest

MARKS: Mapping[Kind, tuple[str, str]] = {
    "todo": ("[TODO]", "todo-capture"),
    "reflection": ("[SELF-REFLECTION]", "self-reflection"),
    "reference": ("[REFERENCE]", "best-practices"),
}
"""How the document marks its kinds of entries: what the prompt begins with, and the conversation it is in."""

_OBJECT = re.compile(r'(?<!:)(?<!: )\{(?=\s*"(?!history"))')
_HISTORY = re.compile(r'"history"\s*:\s*\[')
_MOST_LOST = 1_000
"""Sentences about what could not be read; then the reading ends."""
_DECODER = json.JSONDecoder(strict=False)
_LATEST = 253_402_300_799
"""Seconds from 1970 to the end of the year 9999."""


class DocumentEntry(NamedTuple):
    """An entry of the document.

    Attributes:
        prompt: Exactly as it stands there, with its mark.
        reply: Exactly as it stands there.
        timestamp: When it was written, in UTC; None if that cannot be read.
        conversation_id: Its conversation; None for none.
        extra: Whatever else it had, and a timestamp that is no time.
    """

    prompt: str
    reply: str
    timestamp: datetime | None
    conversation_id: str | None
    extra: Mapping[str, Any]

    @property
    def kind(self) -> Kind:
        """What it is by the mark that its prompt begins with, else by its conversation."""
        begins = self.prompt[:200].lstrip()
        marked: list[Kind] = [kind for kind, (mark, _) in MARKS.items() if begins.startswith(mark)]
        marked += [kind for kind, (_, name) in MARKS.items() if self.conversation_id == name]
        return marked[0] if marked else "exchange"


class ParsedDocument(NamedTuple):
    """The content of a document.

    Attributes:
        entries: In their order there.
        lost: What could not be read, and where; a sentence each.
        damaged: Whether the file is not what the document describes: something is lost, or it is no JSON.
    """

    entries: list[DocumentEntry]
    lost: list[str]
    damaged: bool


def read_document(path: str | os.PathLike[str]) -> ParsedDocument:
    """Read a document, however damaged it is.

    It may also be a bare list of entries, one entry a line, or several documents one after the other; in UTF-8, UTF-16
    or UTF-32.

    Args:
        path: The file. It stays as it is.

    Raises:
        InvalidInput: There is no such file, or it may not be read.
    """
    source = path_of_file(path)
    try:
        data = source.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{safe_repr(str(source))} cannot be read: {error}.") from error
    if is_database(source):
        raise InvalidInput(f"{safe_repr(str(source))} is a database, and no agent_memory.json.")
    text = data.decode(encoding := json.detect_encoding(data), "replace")
    lost: list[str] = []
    try:
        values = [_DECODER.decode(text)]
        damaged = "\ufffd" in text and text.encode(encoding) != data
    except (ValueError, RecursionError) as error:
        values, damaged = _objects_in(text, lost), True
        # Documents that stand one after the other are no JSON, and whole.
        if not lost and not str(error).startswith("Extra data"):
            lost.append("The file is no JSON as a whole, and was read entry by entry.")
    entries: list[DocumentEntry] = []
    for value in values:
        history = value.get("history", value) if isinstance(value, dict) else value
        for each in history if isinstance(history, list) else [history]:
            if isinstance(each, dict):
                entry = _entry_of(each)
                try:
                    to_plain(entry.extra)
                except InvalidInput as error:
                    lost.append(f"Entry {len(entries) + 1} has parts that cannot be stored: {error}")
                    entry = entry._replace(extra={})
                entries.append(entry)
            else:
                lost.append(f"In place of an entry there is {safe_repr(each, 80)}.")
    return ParsedDocument(entries, lost, damaged or bool(lost))


def _objects_in(text: str, lost: list[str]) -> list[Any]:
    """The objects of a text that is no JSON as a whole; what cannot be read is added to `lost`."""
    found: list[Any] = []
    at = 0
    while (begins := _OBJECT.search(text, at)) and len(lost) < _MOST_LOST:
        start = begins.start()
        try:
            value, at = _DECODER.raw_decode(text, start)
            found.append(value)
        except (ValueError, RecursionError) as error:
            stop = error.pos if isinstance(error, json.JSONDecodeError) else start + 1
            if head := _HISTORY.search(text, start, stop):  # what began is a document
                at = head.end()
            else:
                at = max(stop, start + 1)
                lost.append(f"No entry can be read at character {start + 1:,}: {safe_repr(text[start : start + 60])}.")
    return found


def _entry_of(value: dict[str, Any]) -> DocumentEntry:
    extra = dict(value)
    prompt, reply, conversation = [_as_text(extra.pop(each, None)) for each in ("prompt", "reply", "conversation_id")]
    if timestamp := time_of(extra.get("timestamp")):
        del extra["timestamp"]
    return DocumentEntry(prompt, reply, timestamp, conversation or None, extra)


def put_aside(path: str | os.PathLike[str], now: datetime) -> Path:
    """Keep a copy of a damaged file beside it. The file itself stays as it is, and no other is overwritten.

    Args:
        path: The file.
        now: The time, for the name of the copy.

    Returns:
        Where the copy is: ``<name>.corrupt-<YYYYMMDD-HHMMSS-microseconds>``, in UTC.

    Raises:
        InvalidInput: The file cannot be copied.
    """
    source = path_of_file(path)
    target = source.with_name(f"{source.name}.corrupt-{now.astimezone(UTC):%Y%m%d-%H%M%S-%f}")
    try:
        with target.open("xb") as copy:
            copy.write(source.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{safe_repr(str(source))} cannot be put aside: {error}.") from error
    return target


def write_document(path: str | os.PathLike[str], entries: Iterable[AuditEntry]) -> int:
    """Write the document: a history of entries, in ASCII, so that it reads the same whatever encoding is assumed.

    Args:
        path: Where it goes. A file that is there is replaced when everything is written.
        entries: What it holds. `extra` has no place in the document.

    Returns:
        How many entries there are.

    Raises:
        InvalidInput: It cannot be written.
    """
    count = 0
    with whole_file(path) as file:
        file.write('{\n  "history": [')
        for entry in entries:
            written = {"prompt": entry.prompt, "reply": entry.reply, "timestamp": int(entry.created_at.timestamp())}
            conversation = entry.conversation_id or entry.extra.get("conversation_id")  # see `drafts_of`
            written |= {"conversation_id": conversation} if isinstance(conversation, str) else {}
            text = json.dumps(written, indent=2).replace("\n", "\n    ")
            file.write(f"{',' if count else ''}\n    {text}")
            count += 1
        file.write("\n  ]\n}\n" if count else "]\n}\n")
    return count


def time_of(value: Any) -> datetime | None:
    """Read a timestamp.

    Args:
        value: Seconds since 1970.

    Returns:
        The time in UTC, or None if it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
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
    """What came of reading a document.

    Attributes:
        added: Entries that were added.
        known: Entries that were here already.
        lost: What of the file could not be read, in sentences.
        kept: Where a copy of a damaged file lies; None where it was whole.
    """

    added: int
    known: int
    lost: tuple[str, ...]
    kept: Path | None


def drafts_of(
    documented: Iterable[DocumentEntry], namespace: Namespace, at: datetime, judged: Callable[[AuditEntry], AuditEntry]
) -> list[EntryDraft]:
    """Entries of a document, with ids that are the same each time it is read.

    Args:
        documented: The entries, in their order.
        namespace: Where they go.
        at: When the first was written, if it does not say so.
        judged: Says of an entry whether it is junk.
    """
    drafts, times = [], Counter[bytes]()
    for each in documented:
        at = each.timestamp or at  # one that has no time was written after the one before it
        content = [each.kind, each.prompt, each.reply, str(each.timestamp), each.conversation_id or ""]
        key = digest("\x1f".join(content).encode("utf-8", "surrogatepass"))
        times[key] += 1
        conversation, extra = each.conversation_id, each.extra
        if conversation is not None:
            try:
                conversation = id_of(conversation, "conversation")
            except InvalidInput:  # the original takes any name
                conversation, extra = None, {**extra, "conversation_id": conversation}
        title = each.prompt.strip().removeprefix(MARKS[each.kind][0]).strip() if each.kind in MARKS else ""
        entry = AuditEntry(
            id=f"imported-{key.hex()[:32]}-{times[key]}",
            kind=each.kind,
            prompt=each.prompt,
            reply=each.reply,
            created_at=at,
            conversation_id=conversation,
            namespace=namespace,
            status="open" if each.kind == "todo" else None,
            title=title or None if each.kind == "reference" else None,
            extra=extra,
        )
        mark = todo_key(title) if each.kind == "todo" else title if each.kind == "reference" else ""
        drafts.append(EntryDraft(judged(entry), mark or None))
    return drafts
