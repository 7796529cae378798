"""`AuditTrail`: every prompt and reply, clean and complete (document 002).

    trail = memory.audit
    trail.add("How many trees are there?", "42", conversation_id="monday")
    graph.invoke(state, {"callbacks": [trail.handler()]})      # every model call of a run
    print(trail.last(5, conversation_id="monday"), trail.todos(), trail.verify().ok)

Nothing is destroyed to keep it clean: what is junk by a rule is hidden, with the names of the rules. Every entry is a
link of a chain, so that one that is changed or missing is noticed; `erase` takes out what an entry says, and the chain
stays whole.

A small trail, whole:

    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory:
        trail = memory.audit
        trail.add("How many trees are there?", "42", conversation_id="monday")
        trail.add("thanks", "You're welcome!", conversation_id="monday")
        model = GenericFakeChatModel(messages=iter([AIMessage("In the orchard.")]))
        model.invoke("Where are they?", {"callbacks": [trail.handler()]})  # or a whole graph

        print([entry.prompt for entry in trail.last(5)])  # without the small talk
        print([(entry.prompt, entry.junk) for entry in trail.last(5, include_junk=True)])
        [todo] = trail.add_todo_from_chat("That looks good. Please add a page for the quinces.")
        trail.complete(todo.id)
        print(trail.search("orchard")[0].value.reply)
        assert trail.verify().ok

`verify(since=head)` proves that nothing but what was erased changed up to a head that you keep elsewhere. Rules for
junk are data: `trail.rules = [*trail.rules, JunkRule(name="ping", pattern="^ping$", field="prompt")]`, from
`langchain_agentmem.audit.junk_rules`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from langchain_agentmem.audit import audit_check, audit_store, audit_traces, keeping, reading
from langchain_agentmem.audit.adding import Adding, text_given
from langchain_agentmem.audit.audit_entry import DONE, KINDS, OPEN, TODO, AuditEntry
from langchain_agentmem.audit.audit_rows import Draft
from langchain_agentmem.audit.chain import ChainReport, Head
from langchain_agentmem.audit.imports import Imported, as_documented, bring, drafts_of
from langchain_agentmem.audit.junk_rules import reasons
from langchain_agentmem.audit.legacy_json import Loaded, put_aside, read_document, write_document
from langchain_agentmem.base.apart import apart
from langchain_agentmem.base.clock import moment, time_given
from langchain_agentmem.base.namespaces import id_of, path_of, range_of, resolve
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Do, Run, Shown, Work, aperform, perform
from langchain_agentmem.search.finding import Search
from langchain_agentmem.search.memory_search import Recollection, Walls, inquiry
from langchain_agentmem.storage import Operation, Steps
from langchain_agentmem.storage.database import Outputs
from langchain_agentmem.tracing import Thunk

if TYPE_CHECKING:
    from langchain_agentmem.audit.health import Health
    from langchain_agentmem.audit.insights import Insights

T = TypeVar("T")

ARCHIVE_AFTER = timedelta(days=30)
_EVER = 2**62
_AND_NOT_BELOW = "\x01"
"""Behind the path of a namespace: the end of a range of paths in which it is alone."""
_MOST = 2**31
"""More entries than this are as good as all."""

_Pages: TypeAlias = Callable[[int], Operation[reading.Listed]]
"""Makes what reads the page behind a number."""


class AuditTrail(Adding):
    """Every prompt and reply of a namespace. Methods that wait have awaited twins, whose names begin with an `a`.

    Texts are kept whole, however long. None is kept as an empty text, and bytes are read as UTF-8, with U+FFFD for what
    is none; anything else is refused. Entries are never changed: of a reference there may be a newer version, and a
    todo can be done.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        namespace: Whose it is. Default: the running config's, else the root.
        rules: By which entries are junk. Default: those of document 002.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    # -- reading ------------------------------------------------------------------------------------------------

    def last(
        self,
        n: int = 5,
        conversation_id: str | None = None,
        *,
        kinds: Sequence[str] | None = None,
        include_junk: bool = False,
    ) -> list[AuditEntry]:
        """The last entries, from the oldest to the newest.

        Args:
            n: How many. Of 0 there are none.
            conversation_id: Only those of this conversation. Default: of all, and of none.
            kinds: Only these kinds: "exchange", "call", "todo", "reflection", "reference", "digest". Default: all.
            include_junk: Whether those are given that are hidden, with the reasons in `junk`. Default: no.

        Raises:
            InvalidInput: An argument is wrong.
        """
        make = self._last(n, conversation_id, kinds, include_junk=include_junk)
        return self._database.read("audit.last", make, self._asked(n, conversation_id, kinds), audit_traces.listed)

    async def alast(
        self,
        n: int = 5,
        conversation_id: str | None = None,
        *,
        kinds: Sequence[str] | None = None,
        include_junk: bool = False,
    ) -> list[AuditEntry]:
        """`last`, awaited."""
        make = self._last(n, conversation_id, kinds, include_junk=include_junk)
        return await self._database.aread(
            "audit.last", make, self._asked(n, conversation_id, kinds), audit_traces.listed
        )

    def get(self, entry_id: str) -> AuditEntry | None:
        """The entry of an id, also if it is hidden; None if there is none."""
        return self._database.read("audit.get", *self._one(entry_id))

    async def aget(self, entry_id: str) -> AuditEntry | None:
        """`get`, awaited."""
        return await self._database.aread("audit.get", *self._one(entry_id))

    def entries(
        self, conversation_id: str | None = None, *, kinds: Sequence[str] | None = None, include_junk: bool = True
    ) -> Iterator[AuditEntry]:
        """Every entry, from the oldest to the newest, a page at a time; arguments as for `last`."""
        return self._walk(self._pages(conversation_id, kinds, include_junk=include_junk))

    def aentries(
        self, conversation_id: str | None = None, *, kinds: Sequence[str] | None = None, include_junk: bool = True
    ) -> AsyncIterator[AuditEntry]:
        """`entries`, awaited."""
        return self._awalk(self._pages(conversation_id, kinds, include_junk=include_junk))

    def search(self, query: str, limit: int = 10, conversation_id: str | None = None) -> list[Recollection]:
        """Find entries by their words, without a model, archived ones included, hidden ones not.

        Args:
            query: Any text.
            limit: Most results.
            conversation_id: Only in this conversation. Default: in all.
        """
        return perform(self._searching(query, limit, conversation_id), self._database)

    async def asearch(self, query: str, limit: int = 10, conversation_id: str | None = None) -> list[Recollection]:
        """`search`, awaited."""
        return await aperform(self._searching(query, limit, conversation_id), self._database)

    # -- todos --------------------------------------------------------------------------------------------------

    def todos(self, status: str = OPEN) -> list[AuditEntry]:
        """The todos that are "open", or "done", the oldest first."""
        return self._database.read("audit.todos", *self._of_status(status))

    async def atodos(self, status: str = OPEN) -> list[AuditEntry]:
        """`todos`, awaited."""
        return await self._database.aread("audit.todos", *self._of_status(status))

    def complete(self, todo_id: str) -> None:
        """Say that a todo is done.

        Raises:
            InvalidInput: There is no such todo.
        """
        perform(self._setting(todo_id, DONE), self._database)

    async def acomplete(self, todo_id: str) -> None:
        """`complete`, awaited."""
        await aperform(self._setting(todo_id, DONE), self._database)

    def reopen(self, todo_id: str) -> None:
        """Say that a todo is to be done after all.

        Raises:
            InvalidInput: There is no such todo.
        """
        perform(self._setting(todo_id, OPEN), self._database)

    async def areopen(self, todo_id: str) -> None:
        """`reopen`, awaited."""
        await aperform(self._setting(todo_id, OPEN), self._database)

    # -- care ---------------------------------------------------------------------------------------------------

    def filter_junk(self) -> int:
        """Judge every entry anew by the rules, which is done to each when it is added (document 002).

        Returns:
            How many are judged otherwise than before.
        """
        return perform(self._seen("filter_junk", self._judging(), audit_traces.changed), self._database)

    async def afilter_junk(self) -> int:
        """`filter_junk`, awaited."""
        return await aperform(self._seen("filter_junk", self._judging(), audit_traces.changed), self._database)

    def archive(self, before: datetime | None = None) -> int:
        """Compress old entries where they are. They are read and found as before.

        Args:
            before: Those that were made before this time. Default: more than 30 days ago.

        Returns:
            How many were compressed.
        """
        return perform(self._archive(before), self._database)

    async def aarchive(self, before: datetime | None = None) -> int:
        """`archive`, awaited."""
        return await aperform(self._archive(before), self._database)

    def unarchive(self) -> int:
        """Undo `archive`. Returns how many entries were archived."""
        return perform(self._unarchive(), self._database)

    async def aunarchive(self) -> int:
        """`unarchive`, awaited."""
        return await aperform(self._unarchive(), self._database)

    def head(self) -> Head:
        """The end of the chain of the whole database. Who keeps it elsewhere can prove later what was before it."""
        return self._database.read("audit.head", reading.head, outputs=audit_traces.head)

    async def ahead(self) -> Head:
        """`head`, awaited."""
        return await self._database.aread("audit.head", reading.head, outputs=audit_traces.head)

    def verify(self, since: Head | str | None = None) -> ChainReport:
        """Walk along the chain of the whole database, and see that nothing was changed or taken away.

        Args:
            since: A head that was kept elsewhere, or its text: nothing up to there may have changed, even by somebody
                who made the chain anew, but for what was erased. The report counts that: see that it is as expected.
        """
        return self._database.read("audit.verify", *_verifying(since))

    async def averify(self, since: Head | str | None = None) -> ChainReport:
        """`verify`, awaited."""
        return await self._database.aread("audit.verify", *_verifying(since))

    # -- reports ------------------------------------------------------------------------------------------------

    def report(self) -> Health:
        """How the trail fares, here and below: its size and growth, what runs away, todos, what to archive, its junk.

        `print(memory.audit.report())` prints a page of text.
        """
        return perform(self._examining(), self._database)

    async def areport(self) -> Health:
        """`report`, awaited."""
        return await aperform(await apart(self._examining), self._database)

    def insights(self, *, timezone: tzinfo = UTC) -> Insights:
        """What the trail tells of its use, here and below: topics, success, busiest hours, models. No model is asked.

        Args:
            timezone: Of the hours and weekdays. Default: UTC.
        """
        return perform(self._learning(timezone), self._database)

    async def ainsights(self, *, timezone: tzinfo = UTC) -> Insights:
        """`insights`, awaited."""
        return await aperform(await apart(partial(self._learning, timezone)), self._database)

    def digest(
        self,
        conversation_id: str | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        model: Any = None,
    ) -> AuditEntry | None:
        """What was asked, decided and done in a conversation, or in a span of time, kept as an entry.

        Args:
            conversation_id: The conversation. Default: none, but a span of time.
            since: When the span begins.
            until: When it ends. Default: not yet.
            model: Who writes it, see `usable_model`. Default None: it is made without a model.

        Returns:
            The digest, the same as before where nothing is new; None where nothing was said.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return perform(self._digesting(conversation_id, since, until, model), self._database)

    async def adigest(
        self,
        conversation_id: str | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        model: Any = None,
    ) -> AuditEntry | None:
        """`digest`, awaited."""
        work = await apart(partial(self._digesting, conversation_id, since, until, model))
        return await aperform(work, self._database)

    # -- files --------------------------------------------------------------------------------------------------

    def import_document(self, path: str | os.PathLike[str]) -> Imported:
        """Add what an `agent_memory.json` of document 002 holds, all of it or nothing.

        Of a damaged file what can be read is taken, and a copy of it is kept beside it. What is here already stays;
        importing the same file twice adds nothing.

        Args:
            path: The file.

        Raises:
            InvalidInput: It is not there, or nothing of that kind.
        """
        return perform(self._importing(path), self._database)

    async def aimport_document(self, path: str | os.PathLike[str]) -> Imported:
        """`import_document`, awaited."""
        return await aperform(self._importing(path), self._database)

    def export_document(self, path: str | os.PathLike[str]) -> int:
        """Write the entries in the form of document 002, hidden ones included. Of model calls it has prompt and reply.

        That form has no ids: read back into the same trail, its entries are new ones. `memory.export` keeps everything.

        Args:
            path: Where to. A file that is there is replaced, when the new one is whole.

        Returns:
            How many there are.
        """
        with self._database.tracing.step("memory.audit.export_document", inputs=self._where()) as step:
            pages = self._pages(None, None, include_junk=True)
            count = write_document(path, map(as_documented, self._walk(pages, shown=False)))
            step.finish(lambda: {"entries": count})
        return count

    async def aexport_document(self, path: str | os.PathLike[str]) -> int:
        """`export_document`, awaited."""
        return await asyncio.to_thread(self.export_document, path)

    # -- plumbing -----------------------------------------------------------------------------------------------

    def _asked(self, n: int, conversation_id: str | None, kinds: Sequence[str] | None) -> Thunk:
        return self._where(n=n, conversation_id=conversation_id, kinds=kinds)

    def _one(self, entry_id: Any) -> tuple[Operation[AuditEntry | None], Thunk, Outputs]:
        path, wanted = self._path(), id_of(entry_id, "trail entry")

        def look() -> Steps[AuditEntry | None]:
            return (yield from reading.get(path, [wanted])).get(wanted)

        return look, self._where(entry_id=wanted), audit_traces.maybe

    def _of_status(self, status: str) -> tuple[Operation[list[AuditEntry]], Thunk, Outputs]:
        make = partial(reading.of_status, self._path(), _status(status))
        return make, self._where(status=status), audit_traces.listed

    def _last(
        self, n: Any, conversation_id: Any, kinds: Any, *, include_junk: bool
    ) -> Callable[[], Steps[list[AuditEntry]]]:
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise InvalidInput(f"How many entries is a whole number of 0 or more, not {safe_repr(n)}.")
        return partial(
            reading.last,
            self._path(),
            min(n, _MOST),
            conversation=None if conversation_id is None else id_of(conversation_id, "conversation"),
            kinds=_kinds(kinds),
            include_junk=_flag(include_junk),
        )

    def _pages(self, conversation_id: Any, kinds: Any, *, include_junk: bool) -> _Pages:
        path, wanted, junk = self._path(), _kinds(kinds), _flag(include_junk)
        conversation = None if conversation_id is None else id_of(conversation_id, "conversation")

        def page(after: int) -> Steps[reading.Listed]:
            return reading.page(path, after, conversation=conversation, kinds=wanted, include_junk=junk)

        return lambda after: partial(page, after)

    def _walk(self, make: _Pages, *, shown: bool = True) -> Iterator[AuditEntry]:
        after: int | None = 0
        while after is not None:
            page = self._database.read("audit.entries", make(after), self._where(), audit_traces.page, shown=shown)
            yield from page.entries
            after = page.after

    async def _awalk(self, make: _Pages) -> AsyncIterator[AuditEntry]:
        after: int | None = 0
        while after is not None:
            page = await self._database.aread("audit.entries", make(after), self._where(), audit_traces.page)
            for entry in page.entries:
                yield entry
            after = page.after

    def _searching(self, query: Any, limit: Any, conversation_id: Any) -> Work[list[Recollection]]:
        conversations = None if conversation_id is None else (id_of(conversation_id, "conversation"),)
        low = self._path()
        walls = Walls(low, low + _AND_NOT_BELOW, kinds=(audit_store.KIND,), conversations=conversations)
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise InvalidInput(f"limit must be a whole number of 0 or more, not {safe_repr(limit)}.")
        found: list[Recollection] = yield Search(
            inquiry(text_given(query, "A query"), self._database.now()),
            walls,
            min(limit, _MOST),
            name="audit.search",
            inputs=self._where(conversation_id=conversation_id),
        )
        return found

    def _setting(self, todo_id: Any, status: str) -> Work[None]:
        wanted = id_of(todo_id, "todo")
        verb = "complete" if status == DONE else "reopen"
        yield Shown(
            f"audit.{verb}",
            self._set(wanted, status),
            self._where(todo_id=wanted),
            lambda count: {"changed": count > 0},
        )

    def _set(self, wanted: str, status: str) -> Work[int]:
        path = self._path()
        there = yield Run("audit.find_todo", partial(reading.get, path, [wanted]), shown=False)
        if wanted not in there or there[wanted].kind != TODO:
            raise InvalidInput(f"There is no todo {safe_repr(wanted)}. todos() lists them, with their ids.")
        make = partial(audit_store.set_status, path, [wanted], status)
        count: int = yield Run("audit.set_status", make, write=True, shown=False)
        return count

    def _judging(self) -> Work[int]:
        path, changed = self._path(), 0
        after: int | None = 0
        judge = partial(reasons, rules=self._rules)
        while after is not None:
            page = yield Run(
                "audit.judge", partial(audit_store.judge, path, judge, after=after), write=True, shown=False
            )
            changed, after = changed + page.changed, page.after
        return changed

    def _archive(self, before: datetime | None) -> Work[int]:
        at = self._before(before)
        work = self._archiving(keeping.archive, at)
        return self._seen("archive", work, lambda count: {"archived": count}, before=moment(at))

    def _unarchive(self) -> Work[int]:
        work = self._archiving(keeping.unarchive, _EVER)
        return self._seen("unarchive", work, lambda count: {"unarchived": count})

    def _archiving(self, archive: Callable[..., Any], before: int) -> Work[int]:
        low, changed = self._path(), 0
        after: int | None = 0
        while after is not None:
            make = partial(archive, low, low + _AND_NOT_BELOW, before, after=after)
            page = yield Run("audit.rewrite", make, write=True, shown=False)
            changed, after = changed + page.entries, page.after
        return changed

    def _examining(self) -> Work[Health]:
        from langchain_agentmem.audit.health import examining  # noqa: PLC0415 - who needs it pays

        work = examining(*range_of(resolve(self._namespace)), clock=self._database.clock, rules=self._rules)
        return self._seen("report", work, audit_traces.health)

    def _learning(self, timezone: Any) -> Work[Insights]:
        if not isinstance(timezone, tzinfo):
            raise InvalidInput(f"timezone is a tzinfo, such as ZoneInfo('Europe/Berlin'), not {safe_repr(timezone)}.")
        from langchain_agentmem.audit.insights import learning  # noqa: PLC0415 - who needs it pays

        work = learning(*range_of(resolve(self._namespace)), timezone=timezone)
        return self._seen("insights", work, audit_traces.insights, timezone=str(timezone))

    def _digesting(self, conversation_id: Any, since: Any, until: Any, model: Any) -> Work[AuditEntry | None]:
        from langchain_agentmem.audit.audit_digest import Subject, digesting  # noqa: PLC0415 - who needs it pays

        subject = Subject(conversation_id=conversation_id, since=since, until=until)
        clock, new_id = self._database.clock, self._database.new_id
        work = digesting(self._path(), subject, clock=clock, new_id=new_id, model=model)
        asked = {"conversation_id": conversation_id, "since": since, "until": until}
        return self._seen("digest", work, audit_traces.maybe, **asked)

    def _before(self, given: datetime | None) -> int:
        if given is None:
            return self._database.now() - ARCHIVE_AFTER // timedelta(microseconds=1)
        return time_given(given, "before")

    def _seen(self, verb: str, work: Work[T], told: Callable[[T], dict[str, Any]], **asked: Any) -> Work[T]:
        """Do work as one step of a trace."""
        value: T = yield Shown(f"audit.{verb}", work, self._where(**asked), told)
        return value

    def _importing(self, source: Any) -> Work[Imported]:
        return self._seen("import_document", self._imported(source), audit_traces.imported)

    def _imported(self, source: Any) -> Work[Imported]:
        loaded: Loaded = yield Do(partial(read_document, source))
        kept: Path | None = None
        if loaded.damaged:
            kept = yield Do(partial(put_aside, source, self._database.clock()))
        namespace = resolve(self._namespace)
        drafts: list[Draft] = yield Do(
            partial(drafts_of, loaded.entries, namespace, self._database.clock(), self._judged)
        )
        added = yield Run("audit.bring", partial(bring, path_of(namespace), drafts), write=True, shown=False)
        return Imported(added, len(drafts) - added, tuple(loaded.lost), kept, tuple(loaded.notes))


def _verifying(since: Head | str | None) -> tuple[Operation[ChainReport], Thunk, Outputs]:
    head = _head(since)
    return partial(audit_check.verify, head), lambda: {"since": None if head is None else str(head)}, audit_traces.chain


def _status(given: Any) -> str:
    if not isinstance(given, str) or given not in (OPEN, DONE):
        raise InvalidInput(f"A todo is 'open' or 'done', not {safe_repr(given)}.")
    return str(given)


def _flag(given: Any) -> bool:
    if not isinstance(given, bool | int):
        raise InvalidInput(f"include_junk is True or False, not {safe_repr(given)}.")
    return bool(given)


def _kinds(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    kinds = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    if unknown := [each for each in kinds if each not in KINDS]:
        raise InvalidInput(f"There is no kind of entry {safe_repr(unknown[0])}; there are {', '.join(KINDS)}.")
    return kinds


def _head(given: Head | str | None) -> Head | None:
    return given if given is None or isinstance(given, Head) else Head.of(given)
