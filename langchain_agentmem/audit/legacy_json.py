"""`agent_memory.json` of the original audit memory: read it, whole or damaged, write it, and set damaged files aside.

A damaged file is read entry by entry. What could not be read is told with its place, and nothing is made up: an entry
that the file ends in the middle of is none.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from langchain_agentmem.audit.audit_entry import OPEN, REFERENCE, TODO, AuditEntry, Kind
from langchain_agentmem.audit.audit_rows import EntryDraft
from langchain_agentmem.audit.audit_todos import todo_key
from langchain_agentmem.base.clock import EPOCH
from langchain_agentmem.base.files import is_database, path_of_file, whole_file
from langchain_agentmem.base.namespaces import Namespace, id_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.lenient_json import is_shallow
from langchain_agentmem.storage.queries import digest

MARKS: Mapping[Kind, tuple[str, str]] = {
    "todo": ("[TODO]", "todo-capture"),
    "reflection": ("[SELF-REFLECTION]", "self-reflection"),
    "reference": ("[REFERENCE]", "best-practices"),
}
"""How the document tells its kinds of entries: what the prompt begins with, and the conversation it is in."""

_KNOWN = ("prompt", "reply", "timestamp", "conversation_id")
_OBJECT = re.compile(r'(?<!:)(?<!: )\{(?=\s*"(?!history"))')
_HISTORY = re.compile(r'"history"\s*:\s*\[')
_LONGEST_NUMBER = 400
_MOST_TOLD = 1_000
_LATEST = 253_402_300_799
"""Seconds from 1970 to the end of the year 9999."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DocumentEntry:
    """An entry of the document.

    Attributes:
        prompt: Exactly as it stands there, with its mark.
        reply: Exactly as it stands there.
        timestamp: When it was written, in UTC; None if that cannot be read.
        conversation_id: Its conversation; None for none.
        extra: Whatever else it had, and what could not be read as what it should be.
    """

    prompt: str = ""
    reply: str = ""
    timestamp: datetime | None = None
    conversation_id: str | None = None
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        """What it is by the mark that its prompt begins with, else by its conversation."""
        begins = self.prompt[:200].lstrip()
        for kind, (mark, _) in MARKS.items():
            if begins.startswith(mark):
                return kind
        return next((kind for kind, (_, name) in MARKS.items() if self.conversation_id == name), "exchange")


class Loaded(NamedTuple):
    """What was read of a document.

    Attributes:
        entries: In their order there.
        lost: What could not be read, why, and where; a sentence each.
        notes: What was read, but otherwise than it stands there; a sentence each.
        damaged: Whether the file is not what the document describes: something is lost, or it is no JSON.
    """

    entries: list[DocumentEntry]
    lost: list[str]
    notes: list[str]
    damaged: bool


def read_document(path: str | os.PathLike[str]) -> Loaded:
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
    reader = _Reader()
    reader.read(data)
    return Loaded(reader.entries, reader.lost, reader.notes, reader.broken or bool(reader.lost))


def put_aside(path: str | os.PathLike[str], now: datetime) -> Path:
    """Keep a copy of a damaged file beside it. The file itself stays as it is, and no other is overwritten.

    Args:
        path: The file.
        now: The time, for the name of the copy.

    Returns:
        Where the copy is: ``<name>.corrupt-<YYYYMMDD-HHMMSS>``, in UTC, with a number behind it if that is taken.

    Raises:
        InvalidInput: The file cannot be copied.
    """
    source = path_of_file(path)
    name = f"{source.name}.corrupt-{now.astimezone(UTC):%Y%m%d-%H%M%S}"
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    try:
        data = source.read_bytes()
        target = next(target for each in names if not (target := source.with_name(each)).exists())
        with target.open("xb") as copy:
            copy.write(data)
            copy.flush()
            os.fsync(copy.fileno())
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
            text = json.dumps(_as_written(entry), indent=2).replace("\n", "\n    ")
            file.write(f"{',' if count else ''}\n    {text}")
            count += 1
        file.write("\n  ]\n}\n" if count else "]\n}\n")
    return count


def _as_written(entry: AuditEntry) -> dict[str, Any]:
    written: dict[str, Any] = {
        "prompt": entry.prompt,
        "reply": entry.reply,
        "timestamp": (entry.created_at - EPOCH) // timedelta(seconds=1),
    }
    conversation = entry.conversation_id or entry.extra.get("conversation_id")  # see `_named`
    return {**written, "conversation_id": conversation} if isinstance(conversation, str) else written


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else float(digits)


class _Reader:
    """Reads what it can."""

    def __init__(self) -> None:
        self.entries: list[DocumentEntry] = []
        self.lost: list[str] = []
        self.notes: list[str] = []
        self.broken = False
        self._decoder = json.JSONDecoder(strict=False, parse_int=_integer)

    def read(self, data: bytes) -> None:
        text = self._decoded(data)
        try:
            value = self._decoder.decode(text)
        except (json.JSONDecodeError, RecursionError) as error:
            self.broken = True
            self._salvage(text)
            why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            if not self.lost:  # documents that stand one after the other are no JSON, and whole
                told = self.notes if why == "Extra data" else self.lost
                told.append(f"The file is no JSON as a whole ({why}), and was read entry by entry.")
        else:
            self._document(value)

    def _salvage(self, text: str) -> None:
        """Read the entries of what is no JSON as a whole."""
        at = 0
        while (found := _OBJECT.search(text, at)) and len(self.lost) <= _MOST_TOLD:
            start = found.start()
            try:
                value, at = self._decoder.raw_decode(text, start)
            except (json.JSONDecodeError, RecursionError) as error:
                parsed = error.pos if isinstance(error, json.JSONDecodeError) else start + 1
                if head := _HISTORY.search(text, start, parsed):  # what began is a document
                    at = head.end()
                    continue
                begin = safe_repr(text[start : start + 60])
                at = max(parsed, start + 1)
                if str(error).startswith("Unterminated string") or not text[at:].strip():
                    self._tell(
                        self.lost, f"The file ends within an entry, which begins at character {start + 1:,}: {begin}."
                    )
                    return
                self._tell(self.lost, f"An entry cannot be read at character {start + 1:,}: {begin}.")
            else:
                self._document(value)

    def _document(self, value: Any) -> None:
        """Take the entries of a document: its history, a list of them, or one."""
        if isinstance(value, dict) and "history" in value:
            rest = [key for key in value if key != "history"]
            if rest:
                self._tell(self.notes, f"The document has {', '.join(map(repr, rest[:5]))}, which were left out.")
            value = value["history"]
        for number, each in enumerate(value if isinstance(value, list) else [value], 1):
            if isinstance(each, dict):
                self._take(each)
            else:
                self._tell(self.lost, f"Number {number} of a list is no entry, but {_shown(each)}.")

    def _take(self, value: dict[str, Any]) -> None:
        where = f"Entry {len(self.entries) + 1}"
        extra = {key: held for key, held in value.items() if key not in _KNOWN}
        texts = {}
        for name in ("prompt", "reply", "conversation_id"):
            given = value.get(name)
            texts[name] = given if isinstance(given, str) else _as_text(given)
            if not (given is None or isinstance(given, str)):
                self._tell(self.notes, f"{where} has a {name} that is no text, but {_shown(given)}.")
        timestamp = time_of(value.get("timestamp"))
        if timestamp is None and value.get("timestamp") is not None:
            self._tell(self.notes, f"{where} has a timestamp that is no time: {_shown(value['timestamp'])}.")
            extra["timestamp"] = value["timestamp"]
        if not is_shallow(extra):
            self._tell(self.lost, f"{where} has parts that are nested deeper than 100: {', '.join(map(repr, extra))}.")
            extra = {}
        self.entries.append(
            DocumentEntry(
                prompt=texts["prompt"],
                reply=texts["reply"],
                timestamp=timestamp,
                conversation_id=texts["conversation_id"] or None,
                extra=extra,
            )
        )

    def _tell(self, told: list[str], sentence: str) -> None:
        """Keep a sentence; a file of garbage is not told of without end."""
        if len(told) < _MOST_TOLD:
            told.append(sentence)
        elif len(told) == _MOST_TOLD:
            told.append("And more, which is not told of here.")

    def _decoded(self, data: bytes) -> str:
        encoding = json.detect_encoding(data)  # the first letters of JSON are ASCII
        try:
            return str(data, encoding)
        except UnicodeDecodeError:
            self.broken = True
            self._tell(self.notes, f"The file is no {encoding.upper()}; \ufffd stands for what could not be read.")
            return str(data, encoding, "replace")


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
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""


def _shown(value: Any) -> str:
    return safe_repr(_as_text(value)[:80])


class Imported(NamedTuple):
    """What came of reading a document.

    Attributes:
        added: Entries that were added.
        known: Entries that were here already.
        lost: What of the file could not be read, in sentences.
        kept: Where a copy of a damaged file lies; None where it was whole.
        notes: What was read otherwise than it stands there, in sentences.
    """

    added: int
    known: int
    lost: tuple[str, ...]
    kept: Path | None
    notes: tuple[str, ...] = ()


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
        said = [each.kind, each.prompt, each.reply, str(each.timestamp), each.conversation_id or ""]
        told = digest("\x1f".join(said).encode("utf-8", "surrogatepass"))
        times[told] += 1
        name, extra = _named(each)
        mark = each.prompt.strip().removeprefix(MARKS[each.kind][0]).strip() if each.kind in MARKS else ""
        entry = AuditEntry(
            id=f"imported-{told.hex()[:32]}-{times[told]}",
            kind=each.kind,
            prompt=each.prompt,
            reply=each.reply,
            created_at=at,
            conversation_id=name,
            namespace=namespace,
            status=OPEN if each.kind == TODO else None,
            title=mark or None if each.kind == REFERENCE else None,
            extra=extra,
        )
        key = todo_key(mark) if each.kind == TODO else mark if each.kind == REFERENCE else ""
        drafts.append(EntryDraft(judged(entry), key or None))
    return drafts


def _named(documented: DocumentEntry) -> tuple[str | None, dict[str, Any]]:
    """The conversation of an entry, and what else is known of it: also a name that no conversation can have."""
    extra = dict(documented.extra)
    if documented.conversation_id is None:
        return None, extra
    try:
        return id_of(documented.conversation_id, "conversation"), extra
    except InvalidInput:
        return None, {**extra, "conversation_id": documented.conversation_id}
