"""`agent_memory.json` of the original audit memory: read it, whole or damaged, write it, and set damaged files aside.

    loaded = read_document("agent_memory.json")
    if loaded.damaged:
        put_aside("agent_memory.json", memory.clock())
    for entry in loaded.entries: ...

A damaged file is read entry by entry. What could not be read is told with its place, and nothing is made up: an entry
that the file ends in the middle of is none.

`drafts_of` and `as_documented` turn its entries to entries of the trail and back.
"""

from __future__ import annotations

import codecs
import dataclasses
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from langchain_agentmem.audit import audit_rows, audit_store
from langchain_agentmem.audit.audit_entry import OPEN, REFERENCE, TODO, AuditEntry, Kind
from langchain_agentmem.audit.audit_rows import EntryDraft
from langchain_agentmem.audit.audit_todos import todo_key
from langchain_agentmem.base.clock import EPOCH
from langchain_agentmem.base.files import path_of_file, whole_file
from langchain_agentmem.base.namespaces import Namespace, id_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.lenient_json import is_shallow
from langchain_agentmem.storage import Steps
from langchain_agentmem.storage.queries import digest

MARKS: Mapping[Kind, tuple[str, str]] = {
    "todo": ("[TODO]", "todo-capture"),
    "reflection": ("[SELF-REFLECTION]", "self-reflection"),
    "reference": ("[REFERENCE]", "best-practices"),
}
"""How the document tells its kinds of entries: what the prompt begins with, and the conversation it is in."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DocumentEntry:
    """An entry of the document.

    Attributes:
        prompt: Exactly as it stands there, with its mark.
        reply: Exactly as it stands there.
        timestamp: When it was written, in UTC; None if that cannot be read.
        conversation_id: Its conversation; None for none.
        kind: What it is by its mark, or by its conversation: "exchange", "todo", "reflection" or "reference".
        extra: Whatever else it had, and what could not be read as what it should be.
    """

    prompt: str = ""
    reply: str = ""
    timestamp: datetime | None = None
    conversation_id: str | None = None
    kind: Kind = "exchange"
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loaded:
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


def kind_of(prompt: str, conversation_id: str | None = None) -> Kind:
    """Tell the kind of an entry by the document's marks.

    Args:
        prompt: Its prompt.
        conversation_id: Its conversation.

    Returns:
        "todo", "reflection" or "reference" by the mark that the prompt begins with, else by the conversation;
        "exchange" for any other.
    """
    begins = prompt[:200].lstrip()
    for kind, (mark, _) in MARKS.items():
        if begins.startswith(mark):
            return kind
    return next((kind for kind, (_, name) in MARKS.items() if conversation_id == name), "exchange")


def read_document(path: str | os.PathLike[str]) -> Loaded:
    """Read a document, however damaged it is.

    It may also be a bare list of entries, one entry a line, or several documents one after the other; in UTF-8, UTF-16,
    UTF-32 or Latin-1.

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
    reader = _Reader(data)
    del data
    reader.read()
    return Loaded(
        entries=reader.entries, lost=reader.lost, notes=reader.notes, damaged=reader.broken or bool(reader.lost)
    )


def put_aside(path: str | os.PathLike[str], now: datetime) -> Path:
    """Keep a copy of a damaged file beside it. The file itself stays as it is, and no other is overwritten.

    Args:
        path: The file.
        now: The time, aware of its zone, for the name of the copy.

    Returns:
        Where the copy is: ``<name>.corrupt-<YYYYMMDD-HHMMSS>``, in UTC, with a number behind it if that is taken.

    Raises:
        InvalidInput: The time has no zone, or the file cannot be copied.
    """
    source = path_of_file(path)
    if not isinstance(now, datetime) or now.utcoffset() is None:
        raise InvalidInput(f"A time is a datetime with a zone, not {safe_repr(now)}.")
    name = f"{source.name}.corrupt-{now.astimezone(UTC):%Y%m%d-%H%M%S}"
    number = 1
    try:
        with source.open("rb") as original:
            while True:
                target = source.with_name(name if number == 1 else f"{name}-{number}")
                try:
                    copy = target.open("xb")
                    break
                except FileExistsError:
                    number += 1
            try:
                with copy:
                    shutil.copyfileobj(original, copy, 1 << 20)
                    copy.flush()
                    os.fsync(copy.fileno())
            except BaseException:
                target.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise InvalidInput(f"{safe_repr(str(source))} cannot be put aside: {error}.") from error
    return target


def write_document(path: str | os.PathLike[str], entries: Iterable[DocumentEntry]) -> int:
    """Write the document: a history of entries, in ASCII, so that it reads the same whatever encoding is assumed.

    Args:
        path: Where it goes. A file that is there is replaced when everything is written.
        entries: What it holds. One whose kind could not be told from it is given the mark and conversation of its kind.
            `extra` has no place in the document.

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


def _as_written(entry: DocumentEntry) -> dict[str, Any]:
    prompt, conversation = entry.prompt, entry.conversation_id
    if entry.kind in MARKS:
        mark, name = MARKS[entry.kind]
        if kind_of(prompt, conversation) != entry.kind and not conversation:
            conversation = name
        if kind_of(prompt, conversation) != entry.kind:
            prompt = f"{mark} {prompt}"
    written: dict[str, Any] = {"prompt": prompt, "reply": entry.reply}
    if entry.timestamp is not None:
        written["timestamp"] = (entry.timestamp - EPOCH) // timedelta(seconds=1)
    if conversation:
        written["conversation_id"] = conversation
    return written


_KNOWN = ("prompt", "reply", "timestamp", "conversation_id")
_BETWEEN = re.compile(r"[\s,\x00\ufeff]*")
_FRAME = re.compile(r"""(?:[\s,\x00\ufeff\[\]{}]|"history"\s*:)*""")
_OBJECT = re.compile(r'(?<!:)(?<!: )\{(?=\s*"(?!history"))')
_HISTORY = re.compile(r'"history"\s*:\s*\[')
_LONGEST_NUMBER = 400
_MOST_TOLD = 1_000
_TOO_DEEP, _UNENDED = "nested too deeply", "Unterminated string"
_DEPTH_OF_PARSER = 500
"""How many brackets Python's parser goes into, at least."""
_SHORT = len("-Infinity")
"""Where a value is cut off, an error is so near the end, or at a text without an end."""
_FAILURES, _PIECE = 50, 4_096


class _Pairs(dict[str, Any]):
    """A JSON object, which knows which of its keys stood there twice."""

    twice: tuple[tuple[str, Any], ...] = ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = _Pairs(pairs)
    if len(built) < len(pairs):
        last = {key: at for at, (key, _) in enumerate(pairs)}
        built.twice = tuple(pair for at, pair in enumerate(pairs) if at != last[pair[0]])
    return built


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else float(digits)


def _where(at: int) -> str:
    return f"character {at + 1:,}"


class _UnreadableError(Exception):
    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message, self.at = message, at


class _Reader:
    """Reads what it can, from the first character to the last, each a bounded number of times."""

    def __init__(self, data: bytes) -> None:
        self.entries: list[DocumentEntry] = []
        self.lost: list[str] = []
        self.notes: list[str] = []
        self.broken = False
        self.text = self._decoded(data)
        decoder = json.JSONDecoder(strict=False, object_pairs_hook=_object, parse_int=_integer)
        self._decode = decoder.raw_decode
        self._failures = 0

    def read(self) -> None:
        documents, at = 0, self._between(0)
        if at == len(self.text):
            self._tell(self.lost, f"The file {'holds nothing but blanks' if self.text else 'is empty'}.")
        while at < len(self.text):
            try:
                value, after = self._parse(at)
            except _UnreadableError:
                self._salvage(at)
                return
            documents += 1
            self._document(value, at)
            at = self._between(after)
        if documents > 1 and not self.lost:
            self.broken = True
            self._tell(self.notes, f"{documents} documents stand one after the other; all of them were read.")

    def _parse(self, at: int) -> tuple[Any, int]:
        """Read a JSON value, and give where it ends.

        Python's parser counts the lines before each error. So once there are many, it is given pieces.
        """
        text = self.text
        length = len(text) if self._failures < _FAILURES else _PIECE
        while True:
            piece, start = (text, at) if length == len(text) else (text[at : at + length], 0)
            try:
                value, after = self._decode(piece, start)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith(_UNENDED) or error.pos >= len(piece) - _SHORT
                if length >= len(text) - at or not is_cut:
                    self._failures += 1
                    raise _UnreadableError(error.msg, at + error.pos - start) from None
            except RecursionError:
                raise _UnreadableError(_TOO_DEEP, at + _DEPTH_OF_PARSER) from None
            else:
                return value, at + after - start
            length *= 16

    def _salvage(self, at: int) -> None:
        """Read the entries of what is no JSON as a whole."""
        text, why = self.text, "there is no entry"
        unread = at
        while found := _OBJECT.search(text, at):
            start = found.start()
            try:
                value, after = self._parse(start)
            except _UnreadableError as error:
                self._skip(unread, start, why)
                unread, at = start, max(error.at, start + 1)
                if head := _HISTORY.search(text, start, at):  # what began is a document
                    at, why = head.end(), "a document cannot be read as a whole"
                elif error.message == _TOO_DEEP:
                    why = "an entry is nested too deeply"
                elif error.message.startswith(_UNENDED) or (at >= len(text) - _SHORT and not _OBJECT.search(text, at)):
                    begin = repr(text[start : start + 60].strip())
                    self._tell(self.lost, f"The file ends within an entry, which begins at {_where(start)}: {begin}.")
                    return
                else:
                    why = f"an entry cannot be read ({error.message})"
            else:
                self._skip(unread, start, why)
                self._document(value, start)
                unread, at, why = after, after, "there is no entry"
        self._skip(unread, len(text), why)
        if not self.lost:
            self._tell(self.lost, f"The file ends before its document does, after {len(self.entries)} entries.")

    def _skip(self, start: int, end: int, why: str) -> None:
        """Tell what is not read, unless it is only what holds entries together."""
        start = min(end, _FRAME.match(self.text, start).end())  # type: ignore[union-attr]  # matches always
        if start < end:
            begin = repr(self.text[start : min(end, start + 60)].strip())
            self._tell(self.lost, f"{end - start:,} characters are lost at {_where(start)}: {why}: {begin}.")

    def _document(self, value: Any, at: int) -> None:
        """Take the entries of a document: its history, a list of them, or one."""
        if isinstance(value, list):
            for number, each in enumerate(value, 1):
                self._take(each, f"number {number} of the list at {_where(at)}")
            return
        if not isinstance(value, _Pairs):
            self._take(value, _where(at))
            return
        histories = [held for key, held in value.twice if key == "history"] + [value.pop("history", None)]
        value.twice = tuple(pair for pair in value.twice if pair[0] != "history")
        for history in histories:
            if isinstance(history, list | dict):
                self._document(list(history.values()) if isinstance(history, dict) else history, at)
            elif history is not None:
                self._tell(self.lost, f"The history at {_where(at)} is no list, but {_shown(history)}.")
        if any(key in value for key in _KNOWN):
            self._take(value, _where(at))
        elif value:
            self._tell(self.notes, f"The document has {', '.join(map(repr, list(value)[:5]))}, which were left out.")

    def _take(self, value: Any, place: str) -> None:
        if not isinstance(value, _Pairs):
            self._tell(self.lost, f"What stands at {place} is no entry, but {_shown(value)}.")
            return
        where = f"Entry {len(self.entries) + 1}, at {place},"
        extra = {key: held for key, held in value.items() if key not in _KNOWN}
        if extra and not is_shallow(extra):
            self._tell(self.lost, f"{where} has parts that are nested deeper than 100: {', '.join(map(repr, extra))}.")
            extra = {}
        if value.twice:
            self._tell(self.notes, f"{where} has {', '.join(sorted({repr(key) for key, _ in value.twice}))} twice.")
            extra["twice"] = [[key, held] for key, held in value.twice if is_shallow(held)]
        texts = {}
        for name in ("prompt", "reply", "conversation_id"):
            given = value.get(name)
            texts[name] = given if isinstance(given, str) else _as_text(given)
            if not (given is None or isinstance(given, str)):
                self._tell(self.notes, f"{where} has a {name} that is no text, but {_shown(given)}.")
        timestamp = time_of(value.get("timestamp"))
        if timestamp is None and value.get("timestamp") is not None:
            self._tell(self.notes, f"{where} has a timestamp that is no time: {_shown(value['timestamp'])}.")
            if is_shallow(value["timestamp"]):
                extra["timestamp"] = value["timestamp"]
        conversation = texts["conversation_id"] or None
        self.entries.append(
            DocumentEntry(
                prompt=texts["prompt"],
                reply=texts["reply"],
                timestamp=timestamp,
                conversation_id=conversation,
                kind=kind_of(texts["prompt"], conversation),
                extra=extra,
            )
        )

    def _between(self, at: int) -> int:
        return _BETWEEN.match(self.text, at).end()  # type: ignore[union-attr]  # matches always

    def _tell(self, told: list[str], sentence: str) -> None:
        """Keep a sentence; a file of garbage is not told of without end."""
        if len(told) < _MOST_TOLD:
            told.append(sentence)
        elif len(told) == _MOST_TOLD:
            told.append("And more, which is not told of here.")

    def _decoded(self, data: bytes) -> str:
        data = data.removeprefix(codecs.BOM_UTF8)
        # The first letters of JSON are ASCII.
        encoding = "utf-8" if data.startswith(b"\x00" * 4) else json.detect_encoding(data)
        try:
            return str(data, encoding)
        except UnicodeDecodeError as error:
            if encoding == "utf-8" and error.reason == "unexpected end of data":  # cut off within a character
                return str(data[: error.start], encoding)
        text = str(data, encoding, "replace")
        bad = text.count("\ufffd")
        if encoding == "utf-8" and len(text) - len(text.encode("ascii", "ignore")) < 2 * bad:
            self._tell(self.notes, "The file is no UTF-8, and was read as Latin-1.")
            return str(data, "latin-1")
        self.broken = True
        self._tell(self.notes, f"{bad} characters could not be decoded as {encoding.upper()}; \ufffd stands for them.")
        return text


_SECONDS, _MOST = 1e11, 1e20
_NUMERAL = re.compile(r"\s*\d{1,25}(?:\.\d{0,25})?\s*\Z", re.ASCII)


def time_of(value: Any) -> datetime | None:
    """Read a timestamp.

    Args:
        value: Seconds since 1970, or milliseconds, microseconds or nanoseconds if it is too large for that; or such a
            number as text, or a time as ISO 8601 writes it, which is in UTC unless it says otherwise.

    Returns:
        The time in UTC, or None if it is none.
    """
    if isinstance(value, str):
        if _NUMERAL.match(value):
            value = float(value) if "." in value else int(value)
        else:
            try:
                parsed = datetime.fromisoformat(value.strip())
                return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
            except (ValueError, OverflowError):
                return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST:
        return None
    while value >= _SECONDS:
        value /= 1_000
    return EPOCH + timedelta(seconds=value)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""


def _shown(value: Any) -> str:
    return f"{safe_repr(_as_text(value)[:80])}"


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
    documented: Iterable[DocumentEntry],
    namespace: Namespace,
    at: datetime,
    judged: Callable[[AuditEntry], AuditEntry],
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


def bring(path: str, drafts: Sequence[EntryDraft]) -> Steps[int]:
    """Add what a document holds. The original adds its guidelines at each start: the newest version is shown.

    Args:
        path: The path of the namespace.
        drafts: What `drafts_of` gave.

    Returns:
        How many entries are new.
    """
    added = yield from audit_store.add_new(path, drafts)
    new = {entry.id for entry in added if entry.kind == REFERENCE}
    marks = [mark for draft in drafts if draft.entry.id in new and (mark := audit_rows.mark_of(draft.mark)) is not None]
    yield from audit_store.show_newest(path, marks)
    return len(added)


def as_documented(entry: AuditEntry) -> DocumentEntry:
    """An entry as the document has it."""
    named = entry.conversation_id or entry.extra.get("conversation_id")  # see `_named`
    return DocumentEntry(
        prompt=entry.prompt,
        reply=entry.reply,
        timestamp=entry.created_at,
        conversation_id=named if isinstance(named, str) else None,
    )


def _named(documented: DocumentEntry) -> tuple[str | None, dict[str, Any]]:
    """The conversation of an entry, and what else is known of it: also a name that no conversation can have."""
    extra = dict(documented.extra)
    if documented.conversation_id is None:
        return None, extra
    try:
        return id_of(documented.conversation_id, "conversation"), extra
    except InvalidInput:
        return None, {**extra, "conversation_id": documented.conversation_id}
