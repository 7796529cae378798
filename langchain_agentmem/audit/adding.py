"""What adds to an audit trail: prompts with replies, todos, reflections, references, and model calls of whole runs."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_agentmem.audit import audit_store, audit_traces
from langchain_agentmem.audit.audit_entry import EXCHANGE, OPEN, REFERENCE, REFLECTION, TODO, AuditEntry, Kind
from langchain_agentmem.audit.audit_rows import Draft
from langchain_agentmem.audit.audit_todos import todo_key, todos_in
from langchain_agentmem.audit.junk_rules import RULES, JunkRule, reasons
from langchain_agentmem.audit.legacy_json import MARKS
from langchain_agentmem.base.apart import aside
from langchain_agentmem.base.files import path_of_file
from langchain_agentmem.base.namespaces import id_of, path_of, resolve
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Do, Run, Shown, Work, aperform, perform
from langchain_agentmem.storage.database import Database, HasDatabase, Outputs, database_of
from langchain_agentmem.tracing import Thunk, brief

if TYPE_CHECKING:
    from langchain_agentmem.audit.handler import AuditHandler

TODO_MARK, TODO_CAPTURE = MARKS[TODO]
REFLECTION_MARK, SELF_REFLECTION = MARKS[REFLECTION]
REFERENCE_MARK, BEST_PRACTICES = MARKS[REFERENCE]
STATUS_REPORT = f"{REFLECTION_MARK} Agent status report"
GUIDELINES, GUIDELINES_TITLE = "AI_GUI_BEST_PRACTICES.md", "GUI Best Practices Checklist"
_LONGEST_PATH = 4_000


class Adding:
    """Adds entries to an audit trail, see `AuditTrail`."""

    def __init__(
        self,
        memory: HasDatabase | Database | str | os.PathLike[str] = ":memory:",
        namespace: Sequence[str] | None = None,
        *,
        rules: Iterable[JunkRule] = RULES,
    ) -> None:
        if namespace is not None:
            path_of(namespace)
        self._database = database_of(memory)
        self._namespace = namespace
        self.rules = rules

    @property
    def rules(self) -> tuple[JunkRule, ...]:
        """By which entries are junk. New ones hold for what is added from now on; after `filter_junk`, for all."""
        return self._rules

    @rules.setter
    def rules(self, rules: Iterable[JunkRule]) -> None:
        given = tuple(rules) if isinstance(rules, Iterable) else (rules,)
        if wrong := [each for each in given if not isinstance(each, JunkRule)]:
            raise InvalidInput(f"The rules of an audit trail are JunkRules, not {type(wrong[0]).__name__}.")
        self._rules: tuple[JunkRule, ...] = given

    def add(self, prompt: str | None, reply: str | None, conversation_id: str | None = None) -> AuditEntry:
        """Add a prompt and its reply.

        Args:
            prompt: What was asked.
            reply: What was answered.
            conversation_id: In which conversation. Default: in none.

        Returns:
            The entry; its `junk` says whether it is hidden, and by which rules.

        Raises:
            InvalidInput: An argument is wrong.
        """
        path, draft = self._drafted(EXCHANGE, prompt, reply, conversation_id)
        self._database.write("audit.add", partial(audit_store.add, path, [draft]), *_told(draft))
        return draft.entry

    async def aadd(self, prompt: str | None, reply: str | None, conversation_id: str | None = None) -> AuditEntry:
        """`add`, awaited."""
        path, draft = await aside(self._drafted, EXCHANGE, prompt, reply, conversation_id)
        await self._database.awrite("audit.add", partial(audit_store.add, path, [draft]), *_told(draft))
        return draft.entry

    def add_self_reflection(self, summary: str | None) -> AuditEntry:
        """Add what an agent says of its own work (document 002). One that says next to nothing is junk.

        Args:
            summary: What it did and learned.
        """
        path, draft = self._drafted(REFLECTION, STATUS_REPORT, summary, SELF_REFLECTION)
        self._database.write("audit.add", partial(audit_store.add, path, [draft]), *_told(draft))
        return draft.entry

    async def aadd_self_reflection(self, summary: str | None) -> AuditEntry:
        """`add_self_reflection`, awaited."""
        path, draft = await aside(self._drafted, REFLECTION, STATUS_REPORT, summary, SELF_REFLECTION)
        await self._database.awrite("audit.add", partial(audit_store.add, path, [draft]), *_told(draft))
        return draft.entry

    def add_todo_from_chat(self, text: str | None) -> list[AuditEntry]:
        """Add what a text asks to be done, one todo a sentence (document 002).

        Args:
            text: What somebody wrote.

        Returns:
            The new todos. What is to be done already is not added again.
        """
        return perform(self._told_of(text), self._database)

    async def aadd_todo_from_chat(self, text: str | None) -> list[AuditEntry]:
        """`add_todo_from_chat`, awaited."""
        return await aperform(self._told_of(text), self._database)

    def add_reference(self, source: str | os.PathLike[str], title: str | None = None) -> AuditEntry:
        """Keep a text to look things up in. Of a title the newest version is shown; one that is the same is not added.

        Args:
            source: A path, or the text itself. A string that is the path of a file is taken for it.
            title: What it is called. Default: the name of the file.

        Raises:
            InvalidInput: The file cannot be read, or a text has no title.
        """
        return perform(self._referring(source, title, None), self._database)

    async def aadd_reference(self, source: str | os.PathLike[str], title: str | None = None) -> AuditEntry:
        """`add_reference`, awaited."""
        return await aperform(self._referring(source, title, None), self._database)

    def add_best_practices_reference(self, path: str | os.PathLike[str] = GUIDELINES) -> AuditEntry:
        """Keep the guidelines of a project (document 002). Call it at each start: what has not changed costs nothing.

        Args:
            path: The file. Default: "AI_GUI_BEST_PRACTICES.md" in the working directory.

        Raises:
            InvalidInput: It cannot be read.
        """
        return perform(self._referring(path_of_file(path), GUIDELINES_TITLE, BEST_PRACTICES), self._database)

    async def aadd_best_practices_reference(self, path: str | os.PathLike[str] = GUIDELINES) -> AuditEntry:
        """`add_best_practices_reference`, awaited."""
        return await aperform(self._referring(path_of_file(path), GUIDELINES_TITLE, BEST_PRACTICES), self._database)

    def handler(self, **options: Any) -> AuditHandler:
        """A callback handler that adds every model call of the runs it is given to, as entries of the kind "call".

        `graph.invoke(state, {"callbacks": [memory.audit.handler()]})`

        Args:
            **options: What `AuditHandler` takes besides, such as `redact`.

        Raises:
            InvalidInput: An option is wrong, or there is none of that name.
        """
        from langchain_agentmem.audit.handler import AuditHandler  # noqa: PLC0415 - it loads LangChain

        database = self._database
        make = partial(AuditHandler, self._record, database.new_id, database.clock)
        try:
            inspect.signature(make).bind(**options)
        except TypeError as error:
            raise InvalidInput(f"A handler of the audit trail cannot be made of this: {error}.") from error
        handler = make(**options)
        database.writing.add(handler)  # calls that never end are told when the database closes
        return handler

    # -- plumbing -----------------------------------------------------------------------------------------------

    def _path(self) -> str:
        return path_of(resolve(self._namespace))

    def _drafted(
        self,
        kind: Kind,
        prompt: Any,
        reply: Any,
        conversation_id: Any,
        *,
        mark: str | None = None,
        **fields: Any,
    ) -> tuple[str, Draft]:
        namespace = resolve(self._namespace)
        entry = AuditEntry(
            id=self._database.new_id(),
            kind=kind,
            prompt=text_given(prompt, "A prompt"),
            reply=text_given(reply, "A reply"),
            created_at=self._database.clock(),
            conversation_id=None if conversation_id is None else id_of(conversation_id, "conversation"),
            namespace=namespace,
            **fields,
        )
        return path_of(namespace), Draft(self._judged(entry), mark)

    def _judged(self, entry: AuditEntry) -> AuditEntry:
        junk = reasons(entry.kind, entry.prompt, entry.reply, self._rules)
        return replace(entry, junk=junk) if junk != entry.junk else entry

    def _record(self, entry: AuditEntry) -> None:
        """Add a model call. Its namespace is that of its run, unless the trail has one."""
        if self._namespace is not None:
            entry = replace(entry, namespace=resolve(self._namespace))
        draft = Draft(self._judged(entry))
        self._database.write("audit.add", partial(audit_store.add, path_of(entry.namespace), [draft]), *_told(draft))

    def _where(self, **given: Any) -> Thunk:
        """What a trace shows of a step on this trail: whose it is, and what was given."""
        return lambda: {
            "namespace": resolve(self._namespace),
            **{name: value for name, value in given.items() if value is not None},
        }

    def _told_of(self, text: Any) -> Work[list[AuditEntry]]:
        said = text_given(text, "What is to be done")
        todos: list[AuditEntry] = yield Shown(
            "audit.add_todo_from_chat", self._capturing(said), self._where(text=brief(said)), audit_traces.listed
        )
        return todos

    def _capturing(self, text: str) -> Work[list[AuditEntry]]:
        sentences = yield Do(partial(todos_in, text))
        found = [
            self._drafted(TODO, f"{TODO_MARK} {each}", "", TODO_CAPTURE, mark=todo_key(each), status=OPEN)
            for each in sentences
        ]
        if not found:
            return []
        drafts = [draft for _, draft in found]
        make = partial(audit_store.add_once, found[0][0], drafts, statuses={OPEN})
        added: list[AuditEntry] = yield Run("audit.keep_todos", make, write=True, shown=False)
        return added

    def _referring(self, source: Any, title: Any, conversation: str | None) -> Work[AuditEntry]:
        if title is not None and (not isinstance(title, str) or not title.strip()):
            raise InvalidInput(f"The title of a reference is a text, not {safe_repr(title)}.")
        text, name = yield Do(partial(_read, source))
        if (called := title or name) is None:
            raise InvalidInput("A reference that is no file needs a title: add_reference(text, title=…).")
        path, draft = self._drafted(
            REFERENCE, f"{REFERENCE_MARK} {called}", text, conversation, mark=called, title=called
        )
        kept, _ = yield Run(
            "audit.add_reference",
            partial(audit_store.put_reference, path, draft),
            write=True,
            inputs=partial(audit_traces.given, draft.entry),
            outputs=lambda done: {"entry_id": done[0].id, "is_new": done[1]},
        )
        return kept  # type: ignore[no-any-return]  # what Run gives is not typed


def text_given(given: Any, what: str) -> str:
    """A text as it is kept, see `AuditTrail`."""
    if type(given) is str:
        return given
    if given is None:
        return ""
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given).decode("utf-8", "replace")
    if not isinstance(given, str):
        raise InvalidInput(f"{what} is text, not {type(given).__name__}.")
    return str.__str__(given)  # such as the text of a LangChain message, which is more than a text


def _read(source: Any) -> tuple[str, str | None]:
    """The text of a reference, and the name of its file; None where it is no file."""
    if not isinstance(source, os.PathLike) and not _is_file(source):
        return text_given(source, "A reference"), None
    path = path_of_file(source)
    try:
        return path.read_bytes().decode("utf-8-sig", "replace"), path.name
    except OSError as error:
        raise InvalidInput(f"{safe_repr(str(path))} cannot be read: {error.strerror or error}.") from error


def _is_file(source: Any) -> bool:
    try:
        return type(source) is str and len(source) <= _LONGEST_PATH and "\n" not in source and Path(source).is_file()
    except OSError:  # no file has so long a name
        return False


def _told(draft: Draft) -> tuple[Thunk, Outputs]:
    """What a trace shows of an entry that is added."""
    return partial(audit_traces.given, draft.entry), lambda _: audit_traces.added(draft.entry)
