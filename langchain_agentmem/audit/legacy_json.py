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
_SPACE = re.compile(r"\s*")
_ENTRY = re.compile(r'\{(?=\s*"(?:prompt|reply|timestamp|conversation_id)"\s*:)')
_NEXT = re.compile(r'(?<!:)(?<!: )\{(?=\s*")|"history"\s*:\s*(?=\[)')
_HISTORY = re.compile(r'\{\s*"history"\s*:\s*(?=\[)')
_BOMS = (
    (b"\xff\xfe\x00\x00", "utf-32-le"), (b"\x00\x00\xfe\xff", "utf-32-be"), (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"),
)  # fmt: skip
_LONGEST_NUMBER = 400
_DEEPEST = 100
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
    built = dict(pairs)
    if len(built) == len(pairs):
        return built
    twice, last = _Pairs(), {key: at for at, (key, _) in enumerate(pairs)}
    for at, (key, value) in enumerate(pairs):
        if at == last[key] and not (value is None and twice.get(key) is not None):
            twice[key] = value
        elif at != last[key]:
            twice.setdefault(key, value)
            twice.twice += ((key, value),)
    return twice


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else float(digits)


def _is_cut(error: json.JSONDecodeError, length: int) -> bool:
    return error.msg.startswith(_UNENDED) or error.pos >= length - _SHORT


def _where(at: int) -> str:
    return f"character {at + 1:,}"


def _begin(text: str, start: int, end: int | None = None) -> str:
    return repr(text[start : min(len(text) if end is None else end, start + 60)].strip())


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
        text, end, documents = self.text, len(self.text), 0
        at = self._between(0)
        if at == end:
            self._lose("The file is empty." if not text else "The file holds nothing but blanks.")
        while at < end:
            documents += 1
            if text[at] == "[":
                at = self._list(at)
            elif header := _HISTORY.match(text, at):
                at = self._rest_of_object(self._list(header.end()), {})
            elif text[at] == "{" and not _ENTRY.match(text, at):
                at = self._rest_of_object(at + 1, {})
            elif text[at] == "{":
                at = self._element(at)
            else:
                at = self._skip(at, at, "there is no JSON")
            at = self._between(at)
        if documents > 1 and not self.lost:
            self.broken = True
            self._note(f"{documents} documents stand one after the other; all of them were read.")

    def _parse(self, text: str, at: int) -> tuple[Any, int]:
        """Read a JSON value, and give where it ends.

        Python's parser counts the lines before each error. So once there are many, it is given pieces.
        """
        length = len(text) if self._failures < _FAILURES else _PIECE
        while True:
            whole = length >= len(text) - at
            piece, start = (text, at) if length == len(text) else (text[at : at + length], 0)
            try:
                value, after = self._decode(piece, start)
            except json.JSONDecodeError as error:
                if whole or not _is_cut(error, len(piece)):
                    self._failures += 1
                    raise _UnreadableError(error.msg, at + error.pos - start) from None
            except RecursionError:
                raise _UnreadableError(_TOO_DEEP, at + _DEPTH_OF_PARSER) from None
            else:
                return value, at + after - start
            length *= 16

    def _list(self, at: int) -> int:
        """Read the entries of a list, and give where it ends."""
        text, end = self.text, len(self.text)
        at = self._between(at + 1)
        while at < end:
            if text[at] == "]":
                return at + 1
            if _HISTORY.match(text, at):  # another document, where the list before it was cut off
                self._lose(f"A list of entries has no end before {_where(at)}.")
                return at
            at = self._between(self._element(at))
        if not self.lost or not self.lost[-1].startswith("The file ends within"):
            self._lose(f"The file ends before its list of entries does, after {len(self.entries)} entries.")
        return end

    def _rest_of_object(self, at: int, members: dict[str, Any]) -> int:
        """Read the members of a document, and give where it ends."""
        text, end = self.text, len(self.text)
        at = self._between(at)
        while at < end and text[at] == '"':
            start = at
            try:
                key, at = self._parse(text, at)
                at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # matches always
                if text[at : at + 1] != ":":
                    raise _UnreadableError("Expecting ':' delimiter", at)  # noqa: TRY301
                at = _SPACE.match(text, at + 1).end()  # type: ignore[union-attr]
                if key == "history" and text[at : at + 1] == "[":
                    at = self._between(self._list(at))
                    continue
                value, at = self._parse(text, at)
            except _UnreadableError as error:
                return self._failed(start, error, "a document")
            members[key] = value
            at = self._between(at)
        if at < end and text[at] == "}":
            self._members(members, at)
            return at + 1
        self._members(members, at)
        if at == end:
            if not self.lost or not self.lost[-1].startswith("The file ends"):
                self._lose(f"The file ends before its document does, after {len(self.entries)} entries.")
            return end
        return self._skip(at, at, "a document does not go on here")

    def _members(self, members: dict[str, Any], at: int) -> None:
        history = members.pop("history", None)
        if isinstance(history, dict):
            for value in history.values():
                self._take(value, at)
        elif history is not None:
            self._lose(f"The history before {_where(at)} is no list, but {_shown(history)}.")
        if any(key in members for key in ("prompt", "reply")):
            self._take(members, at)
        elif members:
            self._note(f"The document has {', '.join(map(repr, list(members)[:5]))}, which were left out.")

    def _element(self, at: int) -> int:
        """Read what should be an entry, and give where it ends."""
        try:
            value, after = self._parse(self.text, at)
        except _UnreadableError as error:
            return self._failed(at, error, "an entry")
        self._take(value, at)
        return after

    def _failed(self, start: int, error: _UnreadableError, what: str) -> int:
        """Tell what is lost, and give where there may be something again."""
        text, after = self.text, max(error.at, start + 1)
        if error.message == _TOO_DEEP:
            return self._skip(start, after, f"{what} is nested too deeply")
        if error.message.startswith(_UNENDED) or (error.at >= len(text) - _SHORT and not _NEXT.search(text, after)):
            self._lose(f"The file ends within {what}, which begins at {_where(start)}: {_begin(text, start)}.")
            return len(text)
        return self._skip(start, after, f"{what} cannot be read ({error.message})")

    def _skip(self, start: int, at: int, why: str) -> int:
        """Give where the next entry begins, and tell what is between."""
        found = _NEXT.search(self.text, at)
        after = len(self.text) if found is None else found.start()
        if found and found.group().startswith('"'):
            after = found.end()
        begin = _begin(self.text, start, after)
        self._lose(f"{after - start:,} characters are lost at {_where(start)}: {why}: {begin}.")
        return after

    def _take(self, value: Any, at: int) -> None:
        if not isinstance(value, dict):
            self._lose(f"What stands at {_where(at)} is no entry, but {_shown(value)}.")
            return
        where = f"Entry {len(self.entries) + 1}, at {_where(at)},"
        extra = {key: held for key, held in value.items() if key not in _KNOWN}
        if extra and not _is_shallow(extra):
            self._lose(f"{where} has parts that are nested deeper than {_DEEPEST}: {', '.join(map(repr, extra))}.")
            extra = {}
        if isinstance(value, _Pairs):
            self._note(f"{where} has {', '.join(sorted({repr(key) for key, _ in value.twice}))} twice.")
            extra["twice"] = [[key, held] for key, held in value.twice if _is_shallow(held)]
        texts = {}
        for name in ("prompt", "reply", "conversation_id"):
            given = value.get(name)
            texts[name] = given if isinstance(given, str) else _as_text(given)
            if not (given is None or isinstance(given, str)):
                self._note(f"{where} has a {name} that is no text, but {_shown(given)}.")
        timestamp = time_of(value.get("timestamp"))
        if timestamp is None and value.get("timestamp") is not None:
            self._note(f"{where} has a timestamp that is no time: {_shown(value['timestamp'])}.")
            if _is_shallow(value["timestamp"]):
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

    def _lose(self, sentence: str) -> None:
        self._tell(self.lost, sentence)

    def _note(self, sentence: str) -> None:
        self._tell(self.notes, sentence)

    def _tell(self, told: list[str], sentence: str) -> None:
        """Keep a sentence; a file of garbage is not told of without end."""
        if len(told) < _MOST_TOLD:
            told.append(sentence)
        elif len(told) == _MOST_TOLD:
            told.append("And more, which is not told of here.")

    def _decoded(self, data: bytes) -> str:
        encoding, begin = next(((name, len(bom)) for bom, name in _BOMS if data.startswith(bom)), ("", 0))
        if not encoding:  # the first letters of JSON are ASCII
            encoding = "utf-8" if data.startswith(b"\x00" * 4) else json.detect_encoding(data)
        view = memoryview(data)[begin:]
        try:
            return str(view, encoding)
        except UnicodeDecodeError as error:
            if encoding != "utf-8":
                text = str(view, encoding, "replace")
            elif error.end >= len(view) and error.reason == "unexpected end of data":  # cut off within a character
                return str(view[: error.start], encoding)
            else:
                text = str(view, encoding, "replace")
                bad = text.count("\ufffd")
                if len(text) - len(text.encode("ascii", "ignore")) < 2 * bad:
                    self._note("The file is no UTF-8, and was read as Latin-1.")
                    return str(view, "latin-1")
            if bad := text.count("\ufffd"):
                self.broken = True
                self._note(f"{bad} characters could not be decoded as {encoding.upper()}; \ufffd stands for them.")
            return text


_SECONDS, _MILLISECONDS, _MICROSECONDS = 1e11, 1e14, 1e17
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
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MICROSECONDS * 1e3:
        return None
    for limit, unit in ((_SECONDS, 1), (_MILLISECONDS, 1_000), (_MICROSECONDS, 1_000_000), (float("inf"), 10**9)):
        if value < limit:
            whole, rest = divmod(value, unit)
            try:
                return EPOCH + timedelta(seconds=int(whole), microseconds=round(rest * 1_000_000 / unit) + _part(whole))
            except OverflowError:
                return None
    return None


def _part(seconds: float) -> int:
    return round((seconds - int(seconds)) * 1_000_000)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""


def _shown(value: Any) -> str:
    return f"{safe_repr(_as_text(value)[:80])}"


def _is_shallow(value: Any) -> bool:
    level, depth = [value], 0
    while level:
        if (depth := depth + 1) > _DEEPEST:
            return False
        level = [
            item
            for held in level
            if isinstance(held, dict | list)
            for item in (held.values() if isinstance(held, dict) else held)
        ]
    return True


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
