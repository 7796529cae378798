"""Notes on the memory that the prompts of a thread contain.

A provider's prompt cache is valid only for a prompt that begins like an earlier one. So the memory for a question is
inserted before the question, and stays there as long as the prompt contains the question. The notes record which memory
this is. A prompt then grows only at its end, until a compaction *restarts* the prompt, with the current core memory at
its start. Memory in the prompt is not inserted again.

A note has ids, scores and signals, but not the texts. The texts are read again for each prompt, without deleted or
invisible items. A note on core memory also has the values, because each prompt starts with the same values as the first
prompt after a restart. Notes are deleted with their thread, with their memory, and after `NOTE_LIFETIME`. They are not
imported.

A prompt waits at most `WRITE_TIMEOUT` until its notes are written. If they cannot be written, the next prompt may begin
differently and miss the cache.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from langchain_core.messages import BaseMessage

from langchain_agentmem.base.clock import from_micros, to_micros
from langchain_agentmem.base.concurrency import Workers, check_cancelled, release_slot
from langchain_agentmem.base.encoding import read_plain, write_plain
from langchain_agentmem.base.hooks import FirstFailures
from langchain_agentmem.base.namespaces import Scopes, ThreadKey, check_id, outer_thread, path_of
from langchain_agentmem.errors import AgentMemoryError, DatabaseBusy, DatabaseReadOnly, DatabaseTimeout, InvalidInput
from langchain_agentmem.messages.history_repair import is_from_user, role_of
from langchain_agentmem.messages.message_marks import summary_in
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.database import Database

START, CHANGES = "start", "changes"
"""The values of `PromptNote.part` for core memory: the values at the start, and the changes since then."""
MAX_RESTART_TOKENS = 1_000
"""The maximum tokens of earlier memory in a restarted prompt, per `PromptNote.reader`. The oldest is removed first."""
NOTE_LIFETIME = 30 * 86_400_000_000
"""The time after which notes are deleted: 30 days, in microseconds."""
WRITE_TIMEOUT = 0.5
"""Seconds that a prompt waits for its notes to be written."""
_write_workers = Workers(4)

T = TypeVar("T")

_failures = FirstFailures(logging.getLogger(__name__))


class PromptNoteItem(NamedTuple):
    """An item of memory that a prompt contained.

    Attributes:
        kind: The kind of the item: "core", "event", "record", "fact", "message", "item", "experience" and so on.
        id: The id of the item; for core memory, the key.
        score: The relevance to the question; None for items that were inserted for any question.
        signals: The contributions to the score, by name: a word of the question, or a signal such as "date".
        reason: The reason for inserting the item, as text. Default: empty.
        row: The kind and row id of the search hit; None for other items.
    """

    kind: str
    id: str
    score: float | None = None
    signals: Mapping[str, float] = MappingProxyType({})
    reason: str = ""
    row: tuple[str, int] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptNote:
    """A note on the items inserted before one message of a thread.

    Attributes:
        message_id: The id of the message.
        part: "start" for core memory at the start of the prompt, "changes" for changes of core memory since then,
            "recall" for the newest events, "archival" for search results, or "experiences".
        reader: The memory that the items were read from: "" for the memory of the run, else the name of a memory or of
            a role's experiences.
        items: The items.
        tokens: The approximate number of tokens of the items.
        is_active: True if every prompt with the message also contains the items. False after a restart removed them.
        values: For core memory, the values by key; for search results in order of time, `{"order": "time"}`; else
            empty.
        begins: The id of the message that the conversation in the prompt starts with: the newest summary, or else the
            first non-system message.
        text_digest: The digest of the message's text. If the text changes, the items are removed.
        created_at: The time of the note; None before it is stored.
    """

    message_id: str
    part: str
    reader: str = ""
    items: tuple[PromptNoteItem, ...] = ()
    tokens: int = 0
    is_active: bool = True
    values: Mapping[str, str] = field(default_factory=dict)
    begins: str | None = None
    text_digest: str = ""
    created_at: datetime | None = None


class PromptNotes:
    """The notes on the current prompt, for one `PromptNote.reader`.

    Attributes:
        question_id: The id of the user's newest message; None if no note can be added.

    Args:
        at: The thread, or None.
        reader: See `PromptNote.reader`.
        messages: The prompt, without the inserted memory.
        notes: The existing notes on these messages.
    """

    def __init__(
        self, at: ThreadKey | None, reader: str, messages: Sequence[BaseMessage], notes: Sequence[PromptNote] = ()
    ) -> None:
        from langchain_agentmem.messages.prompt_forms import last_user_index  # noqa: PLC0415 - slow: loads runnables

        question_index = last_user_index(messages)
        self.question_id = messages[question_index].id if at is not None and question_index is not None else None
        self._thread = at
        self._reader = reader
        self._message_ids = [message.id for message in messages if message.id]
        self._first_message_id = _first_message_id(messages)
        self._digests = {each.id: _hash_text(each) for each in messages if each.id and is_from_user(each)}
        unchanged = (note for note in notes if note.text_digest == self._digests[note.message_id])
        self._notes = {(note.message_id, note.part): note for note in unchanged}
        self._new_notes: dict[tuple[str, str], PromptNote] = {}

    @property
    def start(self) -> PromptNote | None:
        """The note on the prompt's start; None if missing, or if its `begins` no longer applies."""
        candidates = (self._notes.get((key, START)) for key in reversed(self._message_ids))
        return next((note for note in candidates if note is not None and note.begins == self._first_message_id), None)

    def active_notes(self) -> dict[str, dict[str, PromptNote]]:
        """Return the active notes except `START`, by message id and part, in message order."""
        by_message: dict[str, dict[str, PromptNote]] = {}
        for (message_id, part), note in self._notes.items():
            if note.is_active and part != START:
                by_message.setdefault(message_id, {})[part] = note
        return {message_id: by_message[message_id] for message_id in self._message_ids if message_id in by_message}

    def restart(self, values: Mapping[str, str], tokens: int) -> None:
        """Restart the prompt with the current core memory.

        Notes on changes of core memory, and the oldest notes beyond `MAX_RESTART_TOKENS`, become inactive.

        Args:
            values: The values of core memory, by key.
            tokens: The number of tokens of the values.
        """
        free_tokens = MAX_RESTART_TOKENS
        for parts in reversed(self.active_notes().values()):
            free_tokens -= sum(note.tokens for part, note in parts.items() if part != CHANGES)
            for note in [note for part, note in parts.items() if free_tokens < 0 or part == CHANGES]:
                self._set_note(replace(note, is_active=False))
        self.add_note(START, [PromptNoteItem("core", key) for key in values], tokens, values)

    def add_note(
        self, part: str, items: Sequence[PromptNoteItem], tokens: int, values: Mapping[str, str] | None = None
    ) -> None:
        """Add a note on the items before the question.

        Args:
            part: The part of the prompt, see `PromptNote.part`.
            items: All items of the part.
            tokens: The number of tokens of the items.
            values: See `PromptNote.values`. Default: empty.
        """
        old_note = self._notes.get((self.question_id or "", part))
        if self.question_id is None or (old_note is None and not items and part != START):
            return
        new_note = PromptNote(
            message_id=self.question_id,
            part=part,
            reader=self._reader,
            items=tuple(items),
            tokens=tokens,
            values=values or {},
            begins=self._first_message_id,
            text_digest=self._digests[self.question_id],
        )
        if old_note is None or _prompt_content(old_note) != _prompt_content(new_note):
            self._set_note(new_note)

    def store_notes(self, database: Database) -> None:
        """Store the new notes. Give up if this fails or takes longer than `WRITE_TIMEOUT`."""
        if (at := self._thread) is None or not (notes := [*self._new_notes.values()]):
            return
        write = partial(_write_notes, at=at, notes=notes, now=database.now(), until=time.monotonic() + WRITE_TIMEOUT)
        check_cancelled()
        with release_slot(), suppress(RuntimeError):  # raised if no thread can be started
            task = _write_workers.submit(lambda: _try_call("prompt.note", lambda: database.engine.write(write)))
            wait([task], WRITE_TIMEOUT)

    def _set_note(self, note: PromptNote) -> None:
        self._new_notes[note.message_id, note.part] = self._notes[note.message_id, note.part] = note


def load_notes(
    database: Database, config: Mapping[str, Any], messages: Sequence[BaseMessage], reader: str = ""
) -> PromptNotes:
    """Load the notes on a prompt. Without a thread, there are no notes, and none can be added.

    Args:
        database: The database.
        config: The run's config.
        messages: The prompt, without the inserted memory.
        reader: See `PromptNote.reader`. Default: "".
    """
    at = resolve_thread(database.scopes, config)
    keys = [message.id for message in messages if message.id and is_from_user(message)]
    if at is None or not keys:
        return PromptNotes(None, reader, messages)
    notes = _try_call("prompt.notes", lambda: database.engine.read(lambda tx: read_notes(tx, at, keys, reader)))
    return PromptNotes(None if notes is None else at, reader, messages, notes or ())


def count_inserted_tokens(database: Database, at: ThreadKey, keys: Sequence[str]) -> int:
    """Count the tokens of the memory that prompts contain before some messages of a thread.

    Args:
        database: The database.
        at: The thread, or the conversation of a graph nested in it.
        keys: The ids of the messages.
    """
    params = {"path": at.path, "name": outer_thread(at.name), "keys": json.dumps(keys)}
    rows = _try_call("prompt.tokens", lambda: database.engine.read(lambda tx: query.prompt_note_tokens(tx, **params)))
    return int(rows[0]["tokens"]) if rows else 0


def _try_call(name: str, function: Callable[[], T]) -> T | None:
    """Call a function that accesses the database; return None if the call fails.

    A prompt must not fail because of its notes. Errors are logged, unless the database is busy, read-only or too slow.
    """
    check_cancelled()
    try:
        return function()
    except (DatabaseBusy, DatabaseReadOnly, DatabaseTimeout):
        return None
    except AgentMemoryError as error:
        _failures.report(name, "Prompt notes are unavailable; memory may be inserted again.", error=error)
        return None


def read_notes(
    tx: Transaction, at: ThreadKey, keys: Sequence[str] | None = None, reader: str | None = None, *, after: int = 0
) -> list[PromptNote]:
    """Return the notes on the prompts of a thread, the oldest first.

    Args:
        tx: The transaction.
        at: The thread.
        keys: The ids of the messages that the items precede. Default: all.
        reader: See `PromptNote.reader`. Default: any.
        after: The time of the oldest note, in microseconds since 1970. Default: all.
    """
    filters = {"reader": reader, "all_keys": int(keys is None), "keys": json.dumps(keys or []), "after": after}
    return [_note_from_row(row) for row in query.prompt_notes(tx, **at._asdict(), **filters)]


def delete_old_notes(tx: Transaction, *, now: int) -> None:
    """Delete the notes of all threads that are older than `NOTE_LIFETIME`."""
    query.delete_old_prompt_notes(tx, before=now - NOTE_LIFETIME)


def delete_notes_on_erased_memory(tx: Transaction, low: str, high: str, *, only_core: bool) -> bool:
    """Delete the notes of all threads on the memories in a range of namespace paths.

    Args:
        tx: The transaction.
        low: The start of the range, excluded.
        high: The end of the range, excluded.
        only_core: True to delete only notes on core memory, which may contain texts of an erased thread. False to
            delete all notes, because the whole range was erased.

    Returns:
        True if any notes were deleted.
    """
    return bool(query.erase_notes_on_memory(tx, low=low, high=high, everything=int(not only_core)))


def _write_notes(tx: Transaction, at: ThreadKey, notes: Sequence[PromptNote], now: int, until: float) -> None:
    if time.monotonic() > until:
        return  # too late: the prompt no longer waits for the notes
    delete_old_notes(tx, now=now)
    namespace = queries.ensure_namespace(tx, at.path)
    rows = []
    for note in sorted(notes, key=lambda note: (note.message_id, note.part, note.reader)):
        row = {"namespace": namespace, "name": at.name, "reader": note.reader, "body": _encode_body(note)}
        row |= {"key": note.message_id, "part": note.part, "tokens": note.tokens, "in_prompt": int(note.is_active)}
        rows.append(row | {"now": now if note.created_at is None else to_micros(note.created_at)})
    query.save_prompt_note.run_many(tx, rows)


def _prompt_content(note: PromptNote) -> tuple[Any, ...]:
    """Return the values by which two notes are compared; of each item, only kind and id."""
    return note.is_active, note.begins, dict(note.values), [each[:2] for each in note.items]


def _encode_body(note: PromptNote) -> bytes:
    items = [list(item._replace(signals=dict(item.signals))) for item in note.items]
    return write_plain({"items": items, "values": dict(note.values), "begins": note.begins, "said": note.text_digest})


def _note_from_row(row: Any) -> PromptNote:
    body = read_plain(bytes(row["body"]))
    items = [PromptNoteItem(*each) for each in body.pop("items")]
    return PromptNote(
        message_id=row["key"],
        part=row["part"],
        reader=row["reader"],
        items=tuple(each._replace(row=each.row and (each.row[0], each.row[1])) for each in items),
        tokens=row["tokens"],
        is_active=bool(row["in_prompt"]),
        created_at=from_micros(row["created_at"]),
        text_digest=body.pop("said", ""),
        **body,
    )


def _hash_text(message: BaseMessage) -> str:
    return queries.digest(str(message.text).encode("utf-8", "surrogatepass")).hex()


def _first_message_id(messages: Sequence[BaseMessage]) -> str | None:
    """Return the id of the newest summary, or else of the first non-system message."""
    non_system = [message for message in messages if role_of(message) != "system"]
    summaries = [message for message in non_system if summary_in(message) is not None]
    return next((message.id for message in (*summaries[-1:], *non_system[:1])), None)


def resolve_thread(scopes: Scopes, config: Mapping[str, Any]) -> ThreadKey | None:
    """Return the thread of a run, or None.

    Args:
        scopes: The scopes, which resolve the config to a namespace.
        config: The run's config.
    """
    name = (config.get("configurable") or {}).get("thread_id")
    try:
        return None if name is None else ThreadKey(path_of(scopes.resolve(None, config)), check_id(name, "thread"))
    except InvalidInput:
        return None  # code that requires a thread raises its own error
