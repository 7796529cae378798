"""`Corrections`: a person corrects what is remembered. Each change says who made it and when, and can be undone.

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory:
        memory.layers(namespace=("users", "ada")).core.set("city", "Lisbon")
        made = memory.corrections.core("city", "Porto", by="Maria", namespace=("users", "ada"))
        print(made.by, made.at, made.before, made.after)
        memory.corrections.undo(made.id, by="Maria", namespace=("users", "ada"))
        print([each.after for each in memory.corrections.history("core", "city", namespace=("users", "ada"))])

Where threads share a namespace, what one of them remembers is corrected on the branch "main", for all of them. A thread
that shares nothing is corrected at its newest checkpoint, with `thread_id`; its past stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from langchain_agentmem.base.argument_checks import ALL, check_flag, limit_given, name_given
from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.encoding import read_column, write_plain
from langchain_agentmem.base.namespaces import Namespace, id_of, namespace_of, path_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations import message_log
from langchain_agentmem.conversations.log_entries import edited, new_version
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, MessageError, Outdated
from langchain_agentmem.facts import fact_commands, fact_events
from langchain_agentmem.facts.fact_extraction import FactsGround
from langchain_agentmem.language_models.model_calls import Performer, Run, Shown, Work, Writer, both
from langchain_agentmem.layers.archival_memory import next_version
from langchain_agentmem.layers.core_memory import USUAL
from langchain_agentmem.layers.layer import redraft
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.messages.message import decode_body, kept_fields
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import MAIN
from langchain_agentmem.rewinding.memory_access import Change, changing, looking
from langchain_agentmem.rewinding.memory_rows import CORE, FACT, RECORD, SAID, Kept, RowDraft, View, body_of, text_of
from langchain_agentmem.rewinding.thread_memory import amending
from langchain_agentmem.storage import Steps, queries, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.steps import Row

MESSAGE = "message"
CorrectedKind: TypeAlias = Literal["core", "record", "fact", "message"]
KINDS = (CORE, RECORD, FACT, MESSAGE)
"""The kinds that can be corrected."""
PERSON = "person"
"""The source of a corrected value, see `Writer`."""
_KEY = "the key of what is corrected"
Values: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    """A change that a person made.

    What it holds is for "core" a `value`, `importance` and `expires_at`; for "record" `content` and `tags`; for "fact"
    `role`, `subject`, `predicate`, `object`, `valid_from`, `valid_to` and `confidence`; for "message" its fields, as
    long as the conversation keeps that version.

    Attributes:
        id: Its id, one of its own in the namespace.
        kind: What was corrected: "core", "record", "fact" or "message".
        key: The key, or the id of the record, fact or message.
        namespace: Whose it is.
        branch: The branch; of a message the conversation, and of what is a thread's alone its id.
        by: Who corrected it.
        at: When, in UTC.
        before: What was there; None where nothing was.
        after: What is there since; None where it was deleted.
        undoes: The correction that this one takes back, if it does.
        thread_id: The thread, where it is that thread's alone.
    """

    id: str
    kind: str
    key: str
    namespace: Namespace
    branch: str
    by: str
    at: datetime
    before: Values | None
    after: Values | None
    undoes: str | None = None
    thread_id: str | None = None


class PresentValue(NamedTuple):
    """What can be corrected, as it is now.

    Attributes:
        value: What it holds, as in a `Correction`; None where nothing is there.
        version: Tells it from what it was and will be: given as `expected`, it keeps a correction from replacing what
            nobody has looked at.
        at: When this version was written, in UTC.
        source: Where it comes from: "user", "model", "tool", "import", "person"; None for the application's code.
        actor: Who that is.
        thread_id: The thread that wrote it; None for a branch.
    """

    value: Values | None
    version: str
    at: datetime | None = None
    source: str | None = None
    actor: str | None = None
    thread_id: str | None = None


class Revisable(Protocol):
    """A conversation whose messages get new versions."""

    def _correct_work(
        self,
        message_id: str,
        make: Callable[[message_log.Stored], message_log.LogEntry],
    ) -> Work[None]:
        """See `ConversationMemory._correct_work`."""
        ...


class StoredCorrection(NamedTuple):
    """A correction as its version stores it.

    Attributes:
        id: Its id, unique in the namespace.
        path: The path of the namespace.
        kind: One of `KINDS`.
        key: The key, or the id of the record, fact or message.
        name: The branch or conversation; None for a thread's own memory.
        thread: The thread, if the memory is that thread's own.
        by: The person.
        at: The time, in microseconds since 1970.
        before: The value before, None if there was none; the body of a message.
        after: The value since.
        undoes: The correction that this one reverts.
        sources: The threads and conversations that the value before came from.
        events: The numbers of the events of a fact that undoing switches off.
    """

    id: str
    path: str
    kind: str
    key: str
    name: str | None
    thread: str | None
    by: str
    at: int
    before: Any
    after: Any
    undoes: str | None = None
    sources: Sequence[str] = ()
    events: Sequence[int] = ()


_Edit: TypeAlias = Callable[[Change, Kept | None], Steps[tuple[RowDraft | Kept | None, Sequence[int]]]]
"""Adds drafts to a change, and returns the new value, with the events of a fact that undoing switches off."""
_Check: TypeAlias = Callable[[Any], None]
"""Raises if the present value is not the one that the caller has seen."""


class Corrections(Performer):
    """What people correct. Every method has an awaited twin, with an `a` before its name.

    A correction is a version with the source "person", which names the person. It stays in the history when newer
    versions follow, until its value, or what the value before came from, is erased.

    Args:
        database: Where.
        conversation: Gives a conversation, by its id and namespace.
    """

    def __init__(self, database: Database, conversation: Callable[[str, Namespace], Revisable]) -> None:
        self._database: Database = database
        self._conversation = conversation

    # -- correcting --------------------------------------------------------------------------------------------------

    def _core_work(
        self,
        key: str,
        value: str,
        *,
        by: str,
        namespace: Sequence[str] | None = None,
        branch: str = MAIN,
        thread_id: str | None = None,
        importance: int | None = None,
        expected: str | None = None,
    ) -> Work[Correction]:
        """Correct a value of core memory, or add one. Its end stays, and nothing leaves to make room.

        Args:
            key: Its key.
            value: What it says from now on.
            by: Who corrects it.
            namespace: Whose it is. Default: the running config's, else the root.
            branch: The branch. Default: "main", which a namespace's threads see.
            thread_id: A thread that shares nothing with others, at its newest checkpoint, in place of a branch.
            importance: From 1 to 5. Default: as it was, for a new one 3.
            expected: The `version` that `present` told of it. Default: whatever is there.

        Raises:
            InvalidInput: An argument is wrong, or it says so already.
            Outdated: It has another version.
        """
        layers = self._layers(namespace, branch, thread_id)
        setting = layers.core._setting_of(key, value, USUAL if importance is None else importance)

        def edit(change: Change, old: Kept | None) -> Steps[tuple[RowDraft, Sequence[int]]]:
            body = body_of(setting.value)
            if old is None:
                draft = RowDraft(CORE, setting.key, body, change.now, importance=setting.importance)
            else:
                draft = redraft(old, body=body, importance=old.importance if importance is None else importance)
            change.drafts.append(draft)
            return draft, ()
            yield

        return self._correcting(layers, CORE, setting.key, by, edit, _is(expected))

    core, acore = both(_core_work)

    def _record_work(
        self,
        record_id: str,
        content: str | None = None,
        tags: Sequence[str] | None = None,
        *,
        by: str,
        namespace: Sequence[str] | None = None,
        branch: str = MAIN,
        thread_id: str | None = None,
        expected: str | None = None,
    ) -> Work[Correction]:
        """Correct a record of archival memory; what is not given stays as it is.

        Args:
            record_id: Which record.
            content: What it says from now on.
            tags: Its tags; an empty list takes them all.
            by: Who corrects it.
            namespace: Whose it is. Default: the running config's, else the root.
            branch: The branch. Default: "main".
            thread_id: A thread that shares nothing with others, in place of a branch.
            expected: The `version` that `present` told of it. Default: whatever is there.

        Raises:
            InvalidInput: An argument is wrong, there is no such record, or it says so already.
            Outdated: It has another version.
        """
        layers = self._layers(namespace, branch, thread_id)
        clean, marks = layers.archival._checked("" if content is None else content, () if tags is None else tags)

        def edit(change: Change, old: Kept | None) -> Steps[tuple[RowDraft, Sequence[int]]]:
            there = _there(RECORD, record_id, old)
            draft = next_version(there, None if content is None else clean, None if tags is None else marks)
            change.drafts.append(draft)
            return draft, ()
            yield

        return self._correcting(layers, RECORD, record_id, by, edit, _is(expected))

    record, arecord = both(_record_work)

    def _fact_work(
        self,
        fact_id: str,
        /,
        *,
        by: str,
        namespace: Sequence[str] | None = None,
        branch: str = MAIN,
        thread_id: str | None = None,
        expected: str | None = None,
        **changes: Any,
    ) -> Work[Correction]:
        """Correct a fact. It knows what it said before, as after `KGMemory.update`.

        Args:
            fact_id: Which fact.
            by: Who corrects it.
            namespace: Whose it is. Default: the running config's, else the root.
            branch: The branch. Default: "main".
            thread_id: A thread that shares nothing with others, in place of a branch.
            expected: The `version` that `present` told of it. Default: whatever is there.
            **changes: `role`, `subject`, `predicate`, `obj`, `valid_from`, `valid_to` (None: it goes on) and
                `confidence`.

        Raises:
            InvalidInput: A value cannot be one, there is no such fact, or it says so already.
            Outdated: It has another version.
        """
        layers = self._layers(namespace, branch, thread_id)
        ground = layers._facts_ground

        def edit(change: Change, old: Kept | None) -> Steps[tuple[Kept, Sequence[int]]]:
            there = _there(FACT, fact_id, old)
            book = yield from ground.book(change)
            book.correct(there, fact_commands.fields_given(ground, there.extra, changes))
            new = book.written[there.key]
            return new, [new.extra["told"][-1]["n"]]

        return self._correcting(layers, FACT, fact_id, by, edit, _is(expected))

    fact, afact = both(_fact_work)

    def _message_work(
        self,
        conversation_id: str,
        message_id: str,
        /,
        *,
        by: str,
        namespace: Sequence[str] | None = None,
        expected: str | None = None,
        **changes: Any,
    ) -> Work[Correction]:
        """Correct a message: a new version of it, as after `ConversationMemory.update`.

        The state of a thread is LangGraph's: what its next prompts show is changed with the graph's `update_state`.

        Args:
            conversation_id: Which conversation.
            message_id: Which message.
            by: Who corrects it.
            namespace: Whose it is. Default: the running config's, else the root.
            expected: The `version` that `present` told of it. Default: whatever is there.
            **changes: Fields of `Message` with their new values.

        Raises:
            InvalidInput: A value cannot be one, there is no such message, or it says so already.
            Outdated: It has another version.
        """
        at = self._address(conversation_id, namespace)
        return self._rewording(at, message_id, by, lambda old: edited(old, changes), _is(expected))

    message, amessage = both(_message_work)

    def _delete_work(
        self,
        kind: Literal["core", "record", "fact"],
        key: str,
        *,
        by: str,
        namespace: Sequence[str] | None = None,
        branch: str = MAIN,
        thread_id: str | None = None,
        expected: str | None = None,
    ) -> Work[Correction]:
        """Have a value, a record or a fact be gone; undone, it is there again.

        What is to leave no trace is erased, and a message removed from its conversation.

        Args:
            kind: "core", "record" or "fact".
            key: The key, or the id.
            by: Who says so.
            namespace: Whose it is. Default: the running config's, else the root.
            branch: The branch. Default: "main".
            thread_id: A thread that shares nothing with others, in place of a branch.
            expected: The `version` that `present` told of it. Default: whatever is there.

        Raises:
            InvalidInput: An argument is wrong, or it is not there.
            Outdated: It has another version.
        """
        if _kind_given(kind) == MESSAGE:
            raise InvalidInput("A message is removed with memory.conversation(…).remove_by_id(…), and for good.")
        layers = self._layers(namespace, branch, thread_id)

        def edit(change: Change, old: Kept | None) -> Steps[tuple[Kept | None, Sequence[int]]]:
            there = _there(kind, key, old)
            if kind == FACT:
                told = [event["n"] for event in fact_events.counting(there.extra["told"]) if event["do"] == SAID]
                return (yield from _switched(layers._facts_ground, change, there, told)), told
            change.remove(kind, there.key)
            return None, ()

        return self._correcting(layers, kind, key, by, edit, _is(expected))

    delete, adelete = both(_delete_work)

    def _undo_work(
        self, correction_id: str, *, by: str, namespace: Sequence[str] | None = None, force: bool = False
    ) -> Work[Correction]:
        """Take a correction back. That is a correction, too, and can be undone.

        Args:
            correction_id: Which correction.
            by: Who takes it back.
            namespace: Whose it is. Default: the running config's, else the root.
            force: Whether what was written since is replaced. Default: no.

        Raises:
            InvalidInput: There is no such correction, or the version before is not kept any more.
            Outdated: It was changed since, and `force` is not set.
        """
        check_flag("force", force)
        path = path_of(self._database.scopes.resolve(namespace))
        name = id_of(correction_id, "correction")
        every = yield Run("corrections.find", partial(self._stored, path, path + "\x01"), shown=False)
        made = next((each for each in every if each.id == name), None)
        if made is None:
            raise InvalidInput(f"There is no correction {safe_repr(name)} in {safe_repr(namespace_of(path))}.")

        def check(present: Values | None) -> None:
            if not force and _version_of(present) != _version_of(made.after):
                raise Outdated(
                    f"The {made.kind} {safe_repr(made.key)} was changed since it was corrected. Look at what it says "
                    "now, and correct that, or undo it with force=True."
                )

        if made.kind == MESSAGE:
            message = decode_body(made.before, made.key)
            at = message_log.Address(path, str(made.name))
            return (yield from self._rewording(at, made.key, by, lambda old: new_version(old, message), check, made.id))
        layers = self._layers(namespace_of(path), made.name or MAIN, made.thread)

        def edit(change: Change, old: Kept | None) -> Steps[tuple[RowDraft | Kept | None, Sequence[int]]]:
            if made.kind == FACT:
                there = _there(FACT, made.key, old)
                return (yield from _switched(layers._facts_ground, change, there, made.events)), made.events
            if made.before is None:
                change.remove(made.kind, made.key)
                return None, ()
            change.drafts.append(draft := _draft_of(made.kind, made.key, made.before))
            return draft, ()

        return (yield from self._correcting(layers, made.kind, made.key, by, edit, check, made))

    undo, aundo = both(_undo_work)

    # -- reading -----------------------------------------------------------------------------------------------------

    def _present_work(
        self,
        kind: CorrectedKind,
        key: str,
        *,
        namespace: Sequence[str] | None = None,
        branch: str = MAIN,
        thread_id: str | None = None,
    ) -> Work[PresentValue]:
        """What something says now, with the version by which a correction knows that it does still.

        Args:
            kind: "core", "record", "fact" or "message".
            key: The key, or the id.
            namespace: Whose it is. Default: the running config's, else the root.
            branch: The branch; of a message the conversation. Default: "main".
            thread_id: A thread that shares nothing with others, in place of a branch.

        Raises:
            InvalidInput: An argument is wrong.
        """
        if _kind_given(kind) == MESSAGE:
            at = self._address(branch, namespace)
            name = id_of(key, "message", MessageError)
            run = Run("corrections.present", partial(message_log.get, at, name), inputs=lambda: {"message_id": name})
            stored = yield run
            if stored is None or stored.kind == message_log.ROUND:
                return PresentValue(None, _version_of(None))
            return PresentValue(_shown(MESSAGE, stored.body, name), _version_of(stored.body), moment(stored.written_at))
        layers = self._layers(namespace, branch, thread_id)
        key = name_given(key, _KEY)

        def look(view: View) -> Steps[PresentValue]:
            kept = (yield from memory_rows.named(view, kind, [key])).get(key)
            row = _row_of(kind, kept)
            if kept is None or row is None:
                return PresentValue(None, _version_of(None))
            at = moment(kept.written_at)
            return PresentValue(_shown(kind, row, key), _version_of(row), at, kept.source, kept.actor, kept.thread)

        told = partial(dict[str, Any], found=True)
        return (
            yield from looking(layers._facts_ground, "corrections.present", look, outputs=lambda _: told(), key=key)
        )

    present, apresent = both(_present_work)

    def _history_work(
        self,
        kind: CorrectedKind | None = None,
        key: str | None = None,
        *,
        namespace: Sequence[str] | None = None,
        branch: str = MAIN,
        thread_id: str | None = None,
        limit: int | None = 50,
        offset: int = 0,
    ) -> Work[list[Correction]]:
        """What was corrected, the newest first.

        Args:
            kind: "core", "record", "fact" or "message"; with the key, the corrections of that alone. Default: all that
                were made in the namespace and all below it.
            key: The key, or the id.
            namespace: Whose it is. Default: the running config's, else the root.
            branch: The branch; of a message the conversation. Default: "main".
            thread_id: A thread that shares nothing with others, in place of a branch.
            limit: Most corrections; None for all. Default: 50.
            offset: How many of the first to leave out. Default: 0.

        Raises:
            InvalidInput: An argument is wrong.
        """
        if (kind is None) != (key is None):
            raise InvalidInput("Give the kind and the key of what was corrected, or neither.")
        most, first = limit_given(limit), message_log.count_given("offset", offset)
        where = self._database.scopes.resolve(namespace, bare=kind is None)
        low, high = range_of(where)
        find = partial(self._stored, low, high, limit=most, offset=first)
        if kind is not None and key is not None:
            thread = None if thread_id is None else id_of(thread_id, "thread")
            given = (_kind_given(kind), name_given(key, _KEY))
            find = partial(
                self._stored,
                low,
                low + "\x01",
                limit=most,
                offset=first,
                of=self._slot(low, *given, id_of(branch, "branch"), thread),
            )

        def steps() -> Steps[list[Correction]]:
            return [_correction(each) for each in (yield from find())]

        return (yield Run("corrections.history", steps, outputs=lambda found: {"count": len(found)}))  # type: ignore[no-any-return]

    history, ahistory = both(_history_work)

    # -- plumbing ----------------------------------------------------------------------------------------------------

    def _layers(self, namespace: Sequence[str] | None, branch: str, thread_id: str | None) -> LayeredMemory:
        if thread_id is None:
            return LayeredMemory(self._database, id_of(branch, "branch"), namespace=namespace)
        path = path_of(self._database.scopes.resolve(namespace))
        return LayeredMemory(self._database, amending(self._database, id_of(thread_id, "thread"), path))

    def _address(self, conversation_id: str, namespace: Sequence[str] | None) -> message_log.Address:
        path = path_of(self._database.scopes.resolve(namespace))
        return message_log.Address(path, id_of(conversation_id, "conversation"))

    def _stored(
        self, low: str, high: str, *, limit: int = ALL, offset: int = 0, of: Values | None = None
    ) -> Steps[list[StoredCorrection]]:
        """Read the corrections of some namespaces, or those of one thing, the newest first.

        Raises:
            DatabaseUnreadable: One is damaged.
        """
        of = {"kind": None, "key": None, "name": None, "thread": None} if of is None else of
        rows = yield query.corrections_within(low=low, high=high, limit=limit, offset=offset, **of)
        return [_stored_of(row, shared=self._database.scopes.shared(row["path"])) for row in rows]

    def _slot(self, path: str, kind: str, key: str, branch: str, thread: str | None) -> Values:
        """Name what corrections are about, as the queries take it."""
        if thread is None and branch == MAIN and self._database.scopes.shared(path):
            thread = ""  # that of any thread which has moved here
        return {"kind": kind, "key": key, "name": None if thread else branch, "thread": thread}

    def _correcting(
        self,
        layers: LayeredMemory,
        kind: str,
        key: str,
        by: str,
        edit: _Edit,
        check: _Check,
        undone: StoredCorrection | None = None,
    ) -> Work[Correction]:
        """Write a version that is a correction."""
        who, ground = _who(by), layers._facts_ground
        thread, path = ground.point.thread, path_of(layers.namespace)
        name_given(key, _KEY)

        def make(change: Change) -> Steps[StoredCorrection]:
            change.writer = Writer(PERSON, who)
            old = (yield from memory_rows.named(change.view, kind, [key])).get(key)
            before = _row_of(kind, old)
            check(before)
            of = self._slot(path, kind, key, layers.name, thread)
            last = yield from self._stored(path, path + "\x01", limit=1, of=of)
            # A correction may still have words of those from whom its predecessor came.
            inherited = {each for made in last if made.after == before for each in made.sources}
            new, events = yield from edit(change, old)
            after = _row_of(kind, change.signed(new) if isinstance(new, RowDraft) else new)
            _check_new(kind, key, before, after)
            told: dict[str, Any] = {
                "id": self._database.new_id(),
                "undoes": None if undone is None else undone.id,
                "before": before,
                "after": after,
                "sources": sorted(
                    {*_sources_of(old), *inherited, *(undone.sources if undone else ()), *filter(None, [thread])}
                ),
                "events": list(events),
            }
            place = max(n for n, draft in enumerate(change.drafts) if (draft.kind, draft.key) == (kind, key))
            change.drafts[place] = change.drafts[place]._replace(correction=told)
            return StoredCorrection(
                path=path, kind=kind, key=key, name=layers.name, thread=thread, by=who, at=change.now, **told
            )

        made = yield from changing(ground, _step(undone), make, outputs=_made_shown, kind=kind, key=key, by=who)
        return _correction(made)

    def _rewording(
        self,
        at: message_log.Address,
        message_id: str,
        by: str,
        edit: Callable[[message_log.Stored], message_log.LogEntry],
        check: _Check,
        undoes: str | None = None,
    ) -> Work[Correction]:
        """Write a version of a message that is a correction."""
        who, key = _who(by), id_of(message_id, "message", MessageError)
        made: list[StoredCorrection] = []

        def make(old: message_log.Stored) -> message_log.LogEntry:
            check(old.body)
            entry = edit(old)
            _check_new(MESSAGE, key, old.body, entry.body)
            told: dict[str, Any] = {"id": self._database.new_id(), "by": who, "undoes": undoes}
            now = self._database.now()
            made[:] = [
                StoredCorrection(
                    path=at.path,
                    kind=MESSAGE,
                    key=key,
                    name=at.name,
                    thread=None,
                    at=now,
                    before=old.body,
                    after=entry.body,
                    **told,
                )
            ]
            return entry._replace(correction=told)

        work = self._conversation(at.name, namespace_of(at.path))._correct_work(key, make)
        inputs = partial(dict[str, Any], kind=MESSAGE, key=key, by=who)
        yield Shown(_step(undoes), work, inputs, lambda _: _made_shown(made[0]))
        return _correction(made[0])


def _stored_of(row: Row, *, shared: bool) -> StoredCorrection:
    told = read_column(row["correction"], dict)
    if row["kind"] == MESSAGE:
        told |= {"before": bytes(row["earlier"]), "after": bytes(row["body"])}
    else:
        told["by"] = row["actor"]
    # A thread that has moved into a namespace is corrected on the branch that its threads share.
    thread = row["thread"] if row["place"] == "thread" and not shared else None
    where = {name: row[name] for name in ("path", "kind", "key", "name")}
    try:
        made = StoredCorrection(**where, thread=thread, at=row["written_at"], **told)
        _correction(made)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DatabaseUnreadable(f"A correction of {safe_repr(row['key'])} is damaged; verify() tells more.") from error
    return made


def _check_new(kind: str, key: str, before: Any, after: Any) -> None:
    if _version_of(after) == _version_of(before):
        raise InvalidInput(f"The {kind} {safe_repr(key)} says so already: nothing was changed.")


def _step(undone: object) -> str:
    """What a trace calls it."""
    return "corrections.correct" if undone is None else "corrections.undo"


def _who(by: Any) -> str:
    return name_given(by, "the name of who corrects")


def _kind_given(kind: Any) -> str:
    if kind not in KINDS:
        raise InvalidInput(f"What can be corrected is {', '.join(KINDS)}, not {safe_repr(kind)}.")
    return str(kind)


def _is(version: str | None) -> _Check:
    """Checks that something has the version that somebody has looked at."""

    def check(present: Values | None) -> None:
        if version is not None and version != _version_of(present):
            raise Outdated

    return check


def _there(kind: str, key: str, kept: Kept | None) -> Kept:
    if kept is None:
        raise InvalidInput(
            f"There is no {kind} {safe_repr(key)} here. What is a thread's that shares nothing with others is named "
            "by thread_id."
        )
    return kept


def _sources_of(kept: Kept | None) -> set[str]:
    """The threads and conversations that something comes from."""
    if kept is None:
        return set()
    told = {event["in"] for event in kept.extra.get("told", ()) if event.get("in") is not None}
    return told if kept.thread is None else told | {kept.thread}


def _switched(ground: FactsGround, change: Change, kept: Kept, events: Sequence[int]) -> Steps[Kept]:
    """Have some events of a fact not count; those that do not already count again."""
    book = yield from ground.book(change)
    book.switch(kept, events)
    return book.written[kept.key]


def _row_of(kind: str, given: Kept | RowDraft | None) -> Values | None:
    """What a correction holds of something; None where it is not there, or was taken back."""
    if given is None or given.body is None:
        return None
    extra = given.extra or {}
    if kind != FACT:
        told = {name: getattr(given, name) for name in ("label", "importance", "expires_at", "created_at")}
        return {"text": text_of(given.body), **told, "extra": dict(extra)}
    known = fact_events.state(extra)
    if known is None:
        return None
    return {name: getattr(known, name) for name in ("role", "subject", "predicate", "object", "start", "end", "sure")}


def _draft_of(kind: str, key: str, row: Values) -> RowDraft:
    """The version that says what a correction holds."""
    others = {name: row[name] for name in ("label", "importance", "expires_at")}
    body, findable = body_of(row["text"]), kind != CORE
    return RowDraft(kind, key, body, row["created_at"], extra=row["extra"] or None, findable=findable, **others)


def _shown(kind: str, row: Any, key: str) -> Values | None:
    """Return a value as a user is shown it."""
    if row is None:
        return None
    if kind == MESSAGE:
        return kept_fields(decode_body(row, key), copied=True)
    if kind == CORE:
        return {"value": row["text"], "importance": row["importance"], "expires_at": _moment(row["expires_at"])}
    if kind == RECORD:
        return {"content": row["text"], "tags": tuple(row["extra"].get("tags", ()))}
    named = {name: row[name] for name in ("role", "subject", "predicate", "object")}
    times = {"valid_from": _moment(row["start"]), "valid_to": _moment(row["end"])}
    return {**named, **times, "confidence": row["sure"]}


def _moment(time: int | None) -> datetime | None:
    return None if time is None else moment(time)


def _version_of(row: Any) -> str:
    """Return a digest of a value."""
    return queries.digest(row if isinstance(row, bytes) else write_plain(row)).hex()


def _correction(made: StoredCorrection) -> Correction:
    return Correction(
        id=made.id,
        kind=made.kind,
        key=made.key,
        namespace=namespace_of(made.path),
        branch=made.thread or made.name or MAIN,
        by=made.by,
        at=moment(made.at),
        before=_shown(made.kind, made.before, made.key),
        after=_shown(made.kind, made.after, made.key),
        undoes=made.undoes,
        thread_id=made.thread,
    )


def _made_shown(made: StoredCorrection) -> dict[str, Any]:
    return {"correction_id": made.id, "undoes": made.undoes}
