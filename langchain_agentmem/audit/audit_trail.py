"""`AuditTrail`: the prompts, replies and model calls of a namespace, in a chain that reveals changes.

    trail = memory.audit
    trail.add("How many trees are there?", "42", conversation_id="monday")
    graph.invoke(state, {"callbacks": [trail.handler()]})      # every model call of a run
    print(trail.last(5, conversation_id="monday"), trail.todos(), trail.verify().ok)

Rules hide junk entries, such as small talk, but never delete them. `entry.junk` has the names of the rules that match.
Each entry is linked to the previous one, so that `verify` finds changed or missing entries. `AgentMemory.erase` removes
the content of entries, and the chain stays valid.

A complete example:

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

`verify(since=head)` compares the chain with a head that you stored elsewhere. It then detects changes up to this head,
except erasures, even if an attacker recomputed the chain. To add a junk rule, import `JunkRule` from
`langchain_agentmem.audit.junk_rules`:

    trail.rules = [*trail.rules, JunkRule(name="ping", pattern="^ping$", field="prompt")]
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_agentmem.audit import audit_store, legacy_json
from langchain_agentmem.audit.audit_entry import AuditEntry, ChainHead, ChainReport, Kind, Status
from langchain_agentmem.audit.audit_rows import EntryDraft
from langchain_agentmem.audit.audit_store import EntryFilter, WithJunk
from langchain_agentmem.audit.junk_rules import RULES, JunkRule, find_todos, junk_reasons, todo_key
from langchain_agentmem.base.argument_checks import check_flag, check_integer, check_value
from langchain_agentmem.base.clock import check_time, from_micros
from langchain_agentmem.base.concurrency import awaited, iterate_in_worker
from langchain_agentmem.base.files import check_path
from langchain_agentmem.base.namespaces import check_id, path_of, path_range
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.rewinding.thread_memory import conversation_of_run
from langchain_agentmem.search.analysis import analyze_query
from langchain_agentmem.search.memory_search import Recollection, Search, SearchFilter
from langchain_agentmem.storage import Transaction
from langchain_agentmem.storage.database import Database, MemoryLike, database_of
from langchain_agentmem.tracing import Thunk, drop_none, format_result, summarize_value

if TYPE_CHECKING:
    from langchain_agentmem.audit.audit_report import AuditHealth
    from langchain_agentmem.audit.model_call_capture import AuditHandler

T = TypeVar("T")

# The prefix of the prompt and the conversation id of each kind, as in the original audit memory.
TODO_MARK, TODO_CHAT = legacy_json.MARKS["todo"]
REFLECTION_MARK, REFLECTION_CHAT = legacy_json.MARKS["reflection"]
REFERENCE_MARK, BEST_PRACTICES_CHAT = legacy_json.MARKS["reference"]
GUIDELINES_FILE, GUIDELINES_TITLE = "AI_GUI_BEST_PRACTICES.md", "GUI Best Practices Checklist"

_ARCHIVE_AGE_MICROS = timedelta(days=30) // timedelta(microseconds=1)
_RANGE_END = "\x01"
"""The suffix of a path that makes the exclusive end of a range with this path only."""
_NO_LIMIT = 2**31
"""A limit greater than the number of entries of any trail."""


class AuditTrail:
    """The audit trail of a namespace.

    Its entries are prompts with replies, model calls, todos, reflections and references.

    Methods that access the database have async versions, whose names begin with `a`. Texts of any length are stored in
    full. None is stored as an empty text. Bytes are decoded as UTF-8, with U+FFFD for invalid bytes. Other types raise
    `InvalidInput`. The content of an entry never changes. A changed reference is a new entry that hides the old one.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database. Default: ":memory:".
        namespace: The namespace of the trail. Default: the namespace of the running config, else the root.
        rules: The junk rules. Default: `RULES`.

    Raises:
        InvalidInput: An argument is invalid.
        StorageError: The database cannot be opened.
    """

    def __init__(
        self,
        memory: MemoryLike = ":memory:",
        namespace: Sequence[str] | None = None,
        *,
        rules: Iterable[JunkRule] | None = None,
    ) -> None:
        if namespace is not None:
            path_of(namespace)  # raises InvalidInput now, not in the first call
        self._database: Database = database_of(memory)
        self._namespace = namespace
        self.rules = RULES if rules is None else rules

    @property
    def rules(self) -> tuple[JunkRule, ...]:
        """The junk rules.

        New rules apply to new entries. `filter_junk` applies them to the existing entries.
        """
        return self._rules

    @rules.setter
    def rules(self, rules: Iterable[JunkRule]) -> None:
        as_tuple = tuple(rules) if isinstance(rules, Iterable) else (rules,)
        self._rules: tuple[JunkRule, ...] = check_value(tuple[JunkRule, ...], as_tuple, "rules")

    def add(self, prompt: str | None, reply: str | None, conversation_id: str | None = None) -> AuditEntry:
        """Add a prompt and its reply.

        Args:
            prompt: The prompt.
            reply: The reply.
            conversation_id: The id of the conversation. Default: None.

        Returns:
            The entry. It is hidden if its `junk` is not empty.

        Raises:
            InvalidInput: An argument is invalid.
        """
        return self._add("exchange", prompt, reply, conversation_id)

    aadd = awaited(add, writes=True)

    def add_self_reflection(self, summary: str | None) -> AuditEntry:
        """Add an agent's reflection on its own work.

        By the default rules, a reflection of at most 20 characters is junk. If it has Chinese, Japanese or Korean
        characters, the limit is 6.

        Args:
            summary: A description of the completed work and the lessons learned.
        """
        return self._add("reflection", f"{REFLECTION_MARK} Agent status report", summary, REFLECTION_CHAT)

    aadd_self_reflection = awaited(add_self_reflection, writes=True)

    def add_todo_from_chat(self, text: str | None) -> list[AuditEntry]:
        """Add a todo for each sentence of a text that asks for something.

        Args:
            text: The text, such as a user's message.

        Returns:
            The new todos. A sentence that repeats an open todo adds none.
        """
        content = entry_text(text, "A request")

        def add() -> list[AuditEntry]:
            drafts = [
                self._make_draft("todo", f"{TODO_MARK} {todo}", "", TODO_CHAT, mark=todo_key(todo), status="open")
                for todo in find_todos(content)
            ]
            path = self._path()
            return self._database.write(None, lambda tx: audit_store.add_todos(tx, path, drafts)) if drafts else []

        return self._run_step("add_todo_from_chat", add, text=content)

    aadd_todo_from_chat = awaited(add_todo_from_chat, writes=True)

    def add_reference(self, source: str | os.PathLike[str], title: str | None = None) -> AuditEntry:
        """Add a reference text. It replaces the previous version with the same title.

        Adding the same text again has no effect. Replaced versions are hidden.

        Args:
            source: A path, or the text itself. A string is a path if a file with this path exists.
            title: The title. Default: the name of the file. Required for a text.

        Raises:
            InvalidInput: The file cannot be read, or the title is missing or invalid.
        """
        return self._put_reference(source, title, None)

    aadd_reference = awaited(add_reference, writes=True)

    def add_best_practices_reference(self, path: str | os.PathLike[str] = GUIDELINES_FILE) -> AuditEntry:
        """Add the guidelines of a project as a reference.

        Call it at each start of the application: an unchanged file adds nothing.

        Args:
            path: The file. Default: "AI_GUI_BEST_PRACTICES.md" in the working directory.

        Raises:
            InvalidInput: The file cannot be read.
        """
        return self._put_reference(check_path(path), GUIDELINES_TITLE, BEST_PRACTICES_CHAT)

    aadd_best_practices_reference = awaited(add_best_practices_reference, writes=True)

    def handler(self, *, redact: bool | Callable[[str], str] = False) -> AuditHandler:
        """Create a callback handler that adds every model call of a run as a "call" entry.

        `graph.invoke(state, {"callbacks": [memory.audit.handler()]})`

        Args:
            redact: True to remove secrets before writing, see `base.redaction`. Or a function that receives a text and
                returns it without secrets. If the removal fails, the entry contains no texts. Default: False.

        Raises:
            InvalidInput: `redact` is neither a bool nor a function.
        """
        from langchain_agentmem.audit.model_call_capture import AuditHandler  # noqa: PLC0415 - imports LangChain

        database = self._database
        handler = AuditHandler(
            self._add_call,
            database.new_id,
            database.clock,
            scopes=database.scopes,
            find_conversation=partial(conversation_of_run, database),
            redact=check_value(bool | Callable[[str], str], redact, "redact"),
        )
        database.pending_writers.add(handler)  # so that closing the database writes the unfinished calls
        return handler

    # -- reading ------------------------------------------------------------------------------------------------

    def last(
        self,
        n: int = 5,
        conversation_id: str | None = None,
        *,
        kinds: Sequence[Kind] | None = None,
        include_junk: WithJunk = False,
        before: str | None = None,
        messages: bool = True,
    ) -> list[AuditEntry]:
        """Return the last entries, from the oldest to the newest.

        Args:
            n: The maximum number of entries. 0 returns none. Default: 5.
            conversation_id: The conversation of the entries. Default: None, entries with any or no conversation.
            kinds: The kinds of the entries: "exchange", "call", "todo", "reflection", "reference". Default: None, all.
            include_junk: True to include entries hidden as junk, "only" to exclude all others. Default: False.
            before: The id of the entry before which to end. Default: None, the end of the trail.
            messages: True to load the messages of model calls. False loads only prompt and reply. Default: True.

        Raises:
            InvalidInput: An argument is invalid.
        """
        check_integer("n", n)
        check_flag("messages", messages)
        filters = _parse_filter(conversation_id, kinds, include_junk)
        before_id = None if before is None else check_id(before, "trail entry")
        inputs = self._step_inputs(n=n, conversation_id=conversation_id, kinds=kinds, before=before_id)
        n, path = min(n, _NO_LIMIT), self._path()
        find = partial(audit_store.load_last, path=path, n=n, before=before_id, messages=messages, **filters)
        return self._database.read("audit.last", find, inputs)

    alast = awaited(last)

    def get(self, entry_id: str) -> AuditEntry | None:
        """Return the entry with an id, even a hidden one. Return None if it does not exist."""
        checked_id = check_id(entry_id, "trail entry")
        find = partial(audit_store.get, path=self._path(), entry_id=checked_id)
        return self._database.read("audit.get", find, self._step_inputs(entry_id=checked_id))

    aget = awaited(get)

    def entries(
        self, conversation_id: str | None = None, *, kinds: Sequence[Kind] | None = None, include_junk: WithJunk = True
    ) -> Iterator[AuditEntry]:
        """Iterate over the entries, the oldest first. Omit replaced references.

        The arguments have the same meaning as in `last`, but `include_junk` is True by default.
        """
        return chain.from_iterable(self._pages(self._path(), _parse_filter(conversation_id, kinds, include_junk)))

    def aentries(
        self, conversation_id: str | None = None, *, kinds: Sequence[Kind] | None = None, include_junk: WithJunk = True
    ) -> AsyncIterator[AuditEntry]:
        """Run `entries` asynchronously."""
        pages = self._pages(self._path(), _parse_filter(conversation_id, kinds, include_junk))
        return (entry async for page in iterate_in_worker(pages) for entry in page)

    def search(self, query: str, limit: int = 10, conversation_id: str | None = None) -> list[Recollection]:
        """Search the visible entries by keywords. Archived entries are included.

        Args:
            query: Any text.
            limit: The maximum number of results. Default: 10.
            conversation_id: The conversation of the entries. Default: None, entries with any or no conversation.
        """
        conversations = None if conversation_id is None else (check_id(conversation_id, "conversation"),)
        search_filter = SearchFilter(*self._exact_range(), kinds=(audit_store.KIND,), conversations=conversations)
        check_integer("limit", limit)
        text = entry_text(query, "A query")
        self._database.limits.check("query_chars", len(text), "The query")
        analyzed, limit = analyze_query(text, self._database.now()), min(limit, _NO_LIMIT)
        inputs = self._step_inputs(conversation_id=conversation_id)
        return Search(analyzed, search_filter, limit, name="audit.search", inputs=inputs).find(self._database)

    asearch = awaited(search)

    # -- todos --------------------------------------------------------------------------------------------------

    def todos(self, status: Status = "open") -> list[AuditEntry]:
        """Return the visible todos with a status, "open" or "done", the oldest first."""
        check_value(Status, status, "status")
        find = partial(audit_store.load_todos, path=self._path(), status=status)
        return self._database.read("audit.todos", find, self._step_inputs(status=status))

    atodos = awaited(todos)

    def complete(self, todo_id: str) -> None:
        """Set a todo to "done".

        Raises:
            InvalidInput: No todo has this id.
        """
        self._set_status("complete", todo_id, "done")

    acomplete = awaited(complete, writes=True)

    def reopen(self, todo_id: str) -> None:
        """Set a todo to "open" again.

        Raises:
            InvalidInput: No todo has this id.
        """
        self._set_status("reopen", todo_id, "open")

    areopen = awaited(reopen, writes=True)

    # -- maintenance --------------------------------------------------------------------------------------------

    def filter_junk(self) -> int:
        """Apply the current rules to the existing entries. Skip replaced references.

        New entries are checked when they are added.

        Returns:
            The number of entries whose `junk` changed.
        """
        apply = partial(audit_store.apply_rules, path=self._path(), reasons=partial(junk_reasons, rules=self._rules))
        return self._run_step("filter_junk", partial(self._change_pages, apply))

    afilter_junk = awaited(filter_junk, writes=True)

    def archive(self, before: datetime | None = None) -> int:
        """Compress old entries in place. Reading and search work as before.

        Args:
            before: Only entries created before this time are compressed. Default: None, 30 days ago.

        Returns:
            The number of compressed entries.
        """
        micros = self._database.now() - _ARCHIVE_AGE_MICROS if before is None else check_time(before, "before")
        low, high = self._exact_range()
        compress = partial(audit_store.archive, low=low, high=high, before=micros)
        return self._run_step("archive", partial(self._change_pages, compress), before=from_micros(micros))

    aarchive = awaited(archive, writes=True)

    def head(self) -> ChainHead:
        """Return the head of the database's chain. Store it elsewhere, for `verify(since=…)`."""
        return self._database.read("audit.head", audit_store.load_head)

    ahead = awaited(head)

    def verify(self, since: ChainHead | str | None = None) -> ChainReport:
        """Check the chain of the whole database for changed or removed entries.

        Args:
            since: A head that was stored elsewhere, or its text. The check then detects changed entries up to this head
                even if an attacker recomputed the chain. It does not detect erasures. To find them, compare the
                report's `erased` with the expected number. Default: None.
        """
        since_head = since if since is None or isinstance(since, ChainHead) else ChainHead.parse(since)
        check = partial(audit_store.verify, since=since_head)
        return self._database.read("audit.verify", check, lambda: {"since": since and str(since)})

    averify = awaited(verify)

    # -- reports ------------------------------------------------------------------------------------------------

    def report(self) -> AuditHealth:
        """Return a health report on the trails of this namespace and of the namespaces below it.

        `print(memory.audit.report())` prints it as text.
        """
        from langchain_agentmem.audit.audit_report import make_report  # noqa: PLC0415 - loaded on demand

        low, high = path_range(self._database.scopes.resolve(self._namespace))
        make = partial(make_report, low=low, high=high, now=self._database.clock(), rules=self._rules)
        return self._database.read("audit.report", make, self._step_inputs())

    areport = awaited(report)

    # -- files --------------------------------------------------------------------------------------------------

    def import_document(self, path: str | os.PathLike[str]) -> legacy_json.LegacyImport:
        """Import an `agent_memory.json` of the original audit memory, in one transaction.

        If the file is damaged, its readable entries are imported, and the file is copied to a new file next to it.
        Existing entries remain unchanged. A second import of a file adds nothing.

        Args:
            path: The file.

        Raises:
            InvalidInput: The file does not exist, cannot be read or is a database, or a damaged file cannot be copied.
        """

        def add() -> legacy_json.LegacyImport:
            document, now = legacy_json.read_document(path), self._database.clock()
            copy_path = legacy_json.copy_damaged_file(path, now) if document.damaged else None
            namespace, namespace_path = self._database.scopes.resolve(self._namespace), self._path()
            drafts = legacy_json.make_drafts(document.entries, namespace, now, self._mark_junk)
            added = self._database.write(None, lambda tx: audit_store.add_new(tx, namespace_path, drafts))
            return legacy_json.LegacyImport(added, len(drafts) - added, tuple(document.lost), copy_path)

        return self._run_step("import_document", add)

    aimport_document = awaited(import_document, writes=True)

    def export_document(self, path: str | os.PathLike[str]) -> int:
        """Export the entries, except replaced references, as an `agent_memory.json`.

        Junk is included. The file has only the prompt, reply, time and conversation of each entry. It has no ids, so an
        import into the same trail adds new entries. `memory.export` exports all data.

        Args:
            path: The file to write. An existing file is replaced when the new one is complete.

        Returns:
            The number of exported entries.
        """
        pages = self._pages(self._path(), {"include_junk": True}, None)
        return self._run_step("export_document", lambda: legacy_json.write_document(path, chain.from_iterable(pages)))

    aexport_document = awaited(export_document)

    # -- helpers ------------------------------------------------------------------------------------------------

    def _pages(self, path: str, filters: EntryFilter, step: str | None = "audit.entries") -> Iterator[list[AuditEntry]]:
        after: int | None = 0
        while after is not None:
            read = partial(audit_store.load_page, path=path, after=after, **filters)
            entries, after = self._database.read(step, read, self._step_inputs(), lambda page: format_result(page[0]))
            yield entries

    def _set_status(self, verb: str, todo_id: Any, status: Status) -> None:
        checked_id = check_id(todo_id, "todo")
        change = partial(audit_store.set_status, path=self._path(), todo_id=checked_id, status=status)
        self._database.write(f"audit.{verb}", change, self._step_inputs(todo_id=checked_id))

    def _change_pages(self, change: Callable[..., audit_store.EntryPage]) -> int:
        """Change entries page by page, each page in its own transaction, and count the changes."""
        changed = 0
        after: int | None = 0
        while after is not None:
            page = self._database.write(None, partial(change, after=after))
            changed, after = changed + page.entries, page.after
        return changed

    def _exact_range(self) -> tuple[str, str]:
        """Return the range of paths that contains this namespace only."""
        low = self._path()
        return low, low + _RANGE_END

    def _run_step(self, verb: str, operation: Callable[[], T], **inputs: Any) -> T:
        """Run several operations as one traced step."""
        with self._database.step(f"audit.{verb}", self._step_inputs(**inputs)) as step:
            value = operation()
            step.finish(lambda: format_result(value))
        return value

    def _path(self) -> str:
        return path_of(self._database.scopes.resolve(self._namespace))

    def _make_draft(
        self, kind: Kind, prompt: Any, reply: Any, conversation_id: Any, *, mark: str | None = None, **fields: Any
    ) -> EntryDraft:
        entry = AuditEntry(
            id=self._database.new_id(),
            kind=kind,
            prompt=entry_text(prompt, "A prompt"),
            reply=entry_text(reply, "A reply"),
            created_at=self._database.clock(),
            conversation_id=None if conversation_id is None else check_id(conversation_id, "conversation"),
            namespace=self._database.scopes.resolve(self._namespace),
            **fields,
        )
        return EntryDraft(self._mark_junk(entry), mark)

    def _mark_junk(self, entry: AuditEntry) -> AuditEntry:
        junk = junk_reasons(entry.kind, entry.prompt, entry.reply, self._rules)
        return replace(entry, junk=junk) if junk != entry.junk else entry

    def _add_call(self, entry: AuditEntry) -> None:
        """Add a model call, in the namespace of the trail or the memory, else in that of the run."""
        if self._namespace is not None or self._database.scopes.boundary is not None:
            entry = replace(entry, namespace=self._database.scopes.resolve(self._namespace))
        self._write("add", audit_store.add, [EntryDraft(self._mark_junk(entry))])

    def _add(self, kind: Kind, prompt: Any, reply: Any, conversation_id: Any) -> AuditEntry:
        draft = self._make_draft(kind, prompt, reply, conversation_id)
        self._write("add", audit_store.add, [draft])
        return draft.entry

    def _write(self, verb: str, add: Callable[[Transaction, str, list[EntryDraft]], T], drafts: list[EntryDraft]) -> T:
        entry = drafts[0].entry
        path = path_of(entry.namespace)
        return self._database.write(f"audit.{verb}", lambda tx: add(tx, path, drafts), partial(_entry_inputs, entry))

    def _step_inputs(self, **values: Any) -> Thunk:
        """Return a function that returns the inputs of a traced step: the namespace and `values`."""
        scopes, namespace = self._database.scopes, self._namespace
        return lambda: summarize_value(drop_none({"namespace": scopes.resolve(namespace), **values}))

    def _put_reference(self, source: Any, title: Any, conversation: str | None) -> AuditEntry:
        if title is not None and (not isinstance(title, str) or not title.strip()):
            raise InvalidInput(f"title must be a non-empty text, got {safe_repr(title)}.")
        text, file_name = _read_reference(source)
        if (final_title := title or file_name) is None:
            raise InvalidInput("A reference given as text needs a title: add_reference(text, title=…).")
        prompt = f"{REFERENCE_MARK} {final_title}"
        draft = self._make_draft("reference", prompt, text, conversation, mark=final_title, title=final_title)
        return self._write("add_reference", audit_store.put_reference, [draft])


def entry_text(value: Any, label: str) -> str:
    """Convert a value to the text to store, see `AuditTrail`. `label` names it in an error."""
    if type(value) is str:
        return value
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if not isinstance(value, str):
        raise InvalidInput(f"{label} must be text, got {type(value).__name__}.")
    return str.__str__(value)  # a subclass of str, such as the text of a LangChain message


def _read_reference(source: Any) -> tuple[str, str | None]:
    """Return the text of a reference, and the name of its file or None."""
    is_file = type(source) is str and os.path.isfile(source)  # noqa: PTH113 - False for a name that is too long
    if not isinstance(source, os.PathLike) and not is_file:
        return entry_text(source, "A reference"), None
    path = check_path(source)
    try:
        return path.read_bytes().decode("utf-8-sig", "replace"), path.name
    except OSError as error:
        raise InvalidInput(f"{safe_repr(str(path))} cannot be read: {error.strerror or error}.") from error


def _entry_inputs(entry: AuditEntry) -> dict[str, Any]:
    """Return the inputs to trace for adding an entry."""
    names = ("namespace", "conversation_id", "thread_id", "kind", "model", "prompt", "reply", "error", "junk")
    values = {name: summarize_value(getattr(entry, name)) for name in names}
    return {"entry_id": entry.id, "of_run_id": entry.run_id, **values}


def _parse_filter(conversation_id: Any, kinds: Any, include_junk: Any) -> EntryFilter:
    """Validate the filter arguments of `last` and return the filter."""
    check_value(WithJunk, include_junk, "include_junk")
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds) if isinstance(kinds, list | set) else kinds
    check_value(tuple[Kind, ...] | None, kinds, "kinds")
    conversation = None if conversation_id is None else check_id(conversation_id, "conversation")
    return {"conversation": conversation, "kinds": kinds, "include_junk": include_junk}
