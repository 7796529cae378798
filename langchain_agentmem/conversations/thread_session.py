"""The log of a session that belongs to a thread: rounds and posts as rows that rewind with it.

It answers what a session asks of a log, and is one in a task of the thread or at one of its checkpoints: what a view
shows is what there is. Nothing of it is in the conversation of the same id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from langchain_agentmem.base.encoding import read_plain, write_plain
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.conversations import message_log
from langchain_agentmem.conversations.conversation_part import TEXTS, record_of
from langchain_agentmem.conversations.message_log import Appended, LogEntry, says_the_same
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import Kept, Place, View
from langchain_agentmem.rewinding.thread_memory import ThreadPoint
from langchain_agentmem.search.search_index import Series
from langchain_agentmem.storage import Transaction, queries
from langchain_agentmem.storage.database import Database

POST_KIND, ROUND_KIND = "thread_post", "thread_round"
_SLOT = attrgetter("slot")


class ThreadLog:
    """The log of a thread's session, with the functions of `message_log` that a session uses.

    Who writes must be in a task of the thread.

    Args:
        point: The thread.
        database: Where it is kept.
    """

    def __init__(self, point: ThreadPoint, database: Database) -> None:
        self._point, self._database = point, database

    def append(
        self,
        tx: Transaction,
        at: ThreadKey,
        entries: Sequence[LogEntry],
        *,
        now: int,
        tail: int,
        retention: Retention | None = None,
    ) -> Appended:
        """Add entries at the end, all of them or none.

        Raises:
            InvalidInput: This is no task.
            MessageError: A key is taken by other content.
            StepIsOver: Another attempt of the task has taken its place.
        """
        del at, retention  # what a thread's checkpoints show is kept
        view, place = self._point.open(tx, now)
        here = _named(tx, view, [entry.key for entry in entries])
        known = {key: (_stored(kept), kept.extra.get("earlier", ())) for key, kept in here.items()}
        fresh: list[LogEntry] = []
        for entry in entries:
            old, earlier = known.setdefault(entry.key, (entry, ()))
            if old is entry:
                fresh.append(entry)
            # What was edited since is here all the same: a step that is run again repeats its first words.
            elif not says_the_same(old, entry) and not (old.kind == entry.kind and _mark(entry.body) in earlier):
                raise message_log.taken(entry.key)
        self._write(tx, place, [_draft(entry) for entry in fresh], now, tail)
        return Appended([entry.key for entry in fresh], [])

    def update(
        self, tx: Transaction, at: ThreadKey, key: str, change: Callable[[LogEntry], LogEntry], *, now: int, tail: int
    ) -> bool:
        """Store a new version of one entry, in the place of the old one.

        Returns:
            Whether the new version differs; if not, nothing was written.

        Raises:
            InvalidInput: This is no task.
            MessageError: Nothing has this key.
            StepIsOver: Another attempt of the task has taken its place.
        """
        view, place = self._point.open(tx, now)
        kept = _named(tx, view, [key]).get(key)
        if kept is None:
            raise message_log.unknown(key, at)
        old = _stored(kept)
        entry = change(old)._replace(key=key)
        if entry.body == old.body and entry.attachments == old.attachments:
            return False
        earlier = [*kept.extra.get("earlier", ()), _mark(kept.body)]
        self._write(tx, place, [_draft(entry, first=old.slot, earlier=earlier)], now, tail)
        return True

    def clear(self, tx: Transaction, at: ThreadKey, *, keep_description: bool) -> int:
        """Delete everything, or everything but the description. What past checkpoints show stays as it is.

        Returns:
            How many entries were deleted.

        Raises:
            InvalidInput: This is no task.
            StepIsOver: Another attempt of the task has taken its place.
        """
        del at
        now = self._database.now()
        view, place = self._point.open(tx, now)
        drafts = [
            memory_rows.RowDraft(each.kind, each.key, None, now)
            for kind in (ROUND_KIND, POST_KIND)
            for each in memory_rows.current(tx, view, kind)
            if not (keep_description and each.label == message_log.DESCRIPTION)
        ]
        self._write(tx, place, drafts, now, self._database.tail)
        return len(drafts)

    def get(self, tx: Transaction, at: ThreadKey, key: str) -> LogEntry | None:
        """One entry by its key, or None."""
        del at
        found = _named(tx, self._view(tx), [key])
        return _stored(found[key]) if key in found else None

    def history(self, tx: Transaction, at: ThreadKey, key: str) -> list[LogEntry]:
        """The newest version of one entry: those before it are what earlier checkpoints show."""
        found = self.get(tx, at, key)
        return [] if found is None else [found]

    def rounds(self, tx: Transaction, at: ThreadKey) -> tuple[list[LogEntry], list[LogEntry]]:
        """The rounds and all messages, each in the order in which they came."""
        del at
        view = self._view(tx)
        begun, said = (map(_stored, memory_rows.current(tx, view, kind)) for kind in (ROUND_KIND, POST_KIND))
        return sorted(begun, key=_SLOT), sorted(said, key=_SLOT)

    def dump(self, tx: Transaction) -> list[dict[str, Any]]:
        """Everything as records, as `conversation_part.dump` gives them; of each entry the newest version."""
        begun, said = self.rounds(tx, ThreadKey(self._point.path, self._point.name))
        rows = sorted((*begun, *said), key=_SLOT)
        return [record_of(each._asdict(), each.slot, edit=False) for each in rows]

    def _view(self, tx: Transaction) -> View:
        return self._point.view(tx, self._database.now())

    def _write(
        self, tx: Transaction, place: Place, drafts: Sequence[memory_rows.RowDraft], now: int, tail: int
    ) -> None:
        series = Series(self._point.path, POST_KIND, self._point.name)
        memory_rows.write(tx, place, drafts, series=series, now=now, tail=tail)


def is_of_thread(given: Any) -> bool:
    """Return whether something is a config or a runtime, by which LangGraph names a thread, and no id."""
    return isinstance(given, Mapping) or hasattr(given, "stream_writer")


def _named(tx: Transaction, view: View, keys: Iterable[str]) -> dict[str, Kept]:
    """Rounds and posts by their keys; none is both."""
    wanted = list(keys)
    begun = memory_rows.named(tx, view, ROUND_KIND, wanted)
    return begun | memory_rows.named(tx, view, POST_KIND, wanted)


def _draft(entry: LogEntry, *, first: int | None = None, earlier: Sequence[str] = ()) -> memory_rows.RowDraft:
    """An entry as a row.

    Args:
        entry: The entry.
        first: The number of its first version, which says where it stands; None for the first one.
        earlier: What marks the versions before.
    """
    extra: dict[str, Any] = {name: value for name in TEXTS if (value := getattr(entry, name)) is not None}
    if entry.attachments is not None:
        extra["attachments"] = read_plain(entry.attachments)
    if first is not None:
        extra |= {"first": first, "earlier": list(earlier)}
    if entry.findable:
        extra["words"] = entry.words
        if entry.role != "tool" and entry.sender is not None:
            extra["speaker"] = entry.sender
    return memory_rows.RowDraft(
        ROUND_KIND if entry.kind == message_log.ROUND else POST_KIND,
        entry.key,
        entry.body,
        entry.created_at,
        label=entry.kind,
        extra=extra,
        findable=entry.findable,
    )


def _stored(kept: Kept) -> LogEntry:
    texts: dict[str, Any] = {name: kept.extra.get(name) for name in TEXTS}
    attachments = kept.extra.get("attachments")
    return LogEntry(
        kept.key,
        kept.body,
        "",
        kept.created_at,
        kind=kept.label or message_log.MESSAGE,
        attachments=None if attachments is None else write_plain(attachments),
        written_at=kept.written_at,
        slot=kept.extra.get("first", kept.number),
        **texts,
    )


def _mark(body: bytes) -> str:
    return queries.digest(body).hex()
