"""`KGMemory`: the facts of a branch or a thread, each with the period in which it holds and its sources.

    facts = memory.facts("user-42", model=model)
    facts.add(role="user", content="I moved to Lisbon in March.")     # stored now; its facts are extracted later
    facts.add_fact("user", "Maya", "works at", "Acme")
    facts.add_fact("user", "Maya", "works at", "Globex")              # ends the previous fact
    facts.as_of(subject="Maya")                                      # the facts that hold now
    facts.history("Maya", "works at")                                # including ended facts

No model is needed. With a model, facts are extracted from added messages in the background.

Each fact has the period in which it holds, the time at which it was recorded, and its source messages. A new value of a
single-valued predicate, such as "lives in", ends the previous value. Nothing is overwritten, and `undo` reverts the
last change of a fact.

    from datetime import UTC, datetime

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory:
        facts = memory.facts("user-42")
        january, april = datetime(2024, 1, 8, tzinfo=UTC), datetime(2024, 4, 1, tzinfo=UTC)
        facts.add_fact("user", "Ana", "lives in", "Lisbon", valid_from=january, source="message-7")
        facts.add_fact("user", "Ana", "lives in", "Porto", valid_from=april)
        facts.add_fact("user", "Ana", "knows", "Ben")
        facts.add_fact("user", "Ben", "works at", "Acme")

        [march] = facts.as_of(datetime(2024, 3, 15, tzinfo=UTC), subject="Ana")
        print(march.text, "|", march.period, "|", march.sources)
        print([fact.object for fact in facts.history("Ana", "lives in")])
        print([str(each) for each in facts.neighbours("Ana", 2)])
        print(facts.format_for_prompt("Where does Ana live?"))

In a graph, the node `memory.remember_facts(model)` processes each new message of the state once, and the facts are
rewound with the thread. Removing or erasing a message removes the facts that no other source states.
`as_of(recorded=…)` returns the facts as they were recorded at some time, and `contradictions()` the conflicting facts.
`merge(name, into)` merges two names of one entity, and `unmerge(name)` reverts the merge. `to_networkx` returns the
facts as a graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Self, Unpack

from langchain_agentmem.base import argument_checks
from langchain_agentmem.base.argument_checks import check_flag, check_integer, check_name, check_text, check_value
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.conversations.log_entries import parse_message
from langchain_agentmem.conversations.log_memory import EventSource, read_document, write_document
from langchain_agentmem.errors import InvalidInput, MessageError, safe_repr
from langchain_agentmem.facts import fact as fact_values
from langchain_agentmem.facts import fact_extraction, fact_part, fact_reader, fact_store
from langchain_agentmem.facts.fact import RAW_PREDICATE, Fact, FactsConfig
from langchain_agentmem.facts.fact_extraction import BatchOutcome, extract_facts
from langchain_agentmem.facts.fact_reader import FactReader
from langchain_agentmem.facts.fact_store import FactChanges, FactsContext, FactStatement, FactView
from langchain_agentmem.language_models.model_calls import ModelLike, usable_model
from langchain_agentmem.messages.message import Message, MessageFields, MessageLike
from langchain_agentmem.messages.provider_content import part_or_placeholder
from langchain_agentmem.rewinding.branches import BranchPosition, MemoryPosition, resolve_branch
from langchain_agentmem.rewinding.memory_rows import FACT_TEXT
from langchain_agentmem.storage import Transaction
from langchain_agentmem.storage.background import Lease, Task, TaskKey, backoff
from langchain_agentmem.storage.database import MemoryLike, database_of
from langchain_agentmem.tracing import drop_none, format_result

MEMORY_TYPE = "kg"
"""The `memory_type` of this class, also stored in its files."""


class FactFields(MessageFields, total=False):
    """The fields that `KGMemory.update` can change.

    A message has the fields of `Message`; a fact has `role` and the fields below.
    """

    subject: str
    predicate: str
    obj: str
    valid_from: datetime
    valid_to: datetime | None
    confidence: float | None


class KGMemory(FactReader, EventSource):
    """The facts on a branch, or of a thread.

    Every method that reads or writes has an async twin, prefixed with `a`. Times without a time zone are read as UTC.

    A fact holds from `valid_from` until just before `valid_to`. It also has the time at which it was recorded. A new
    value of a single-valued predicate (see `declare`) ends the previous value, which remains in the history. A fact
    that is stated twice while it holds is one fact with two sources. A fact is removed when all its source messages are
    removed or erased.

    The facts of a thread are rewound with it. Apart from corrections, only the nodes of its graph can change them, so
    no extraction runs in the background: call `drain` in a node, or use the node `memory.remember_facts(model)`.

    Pending messages, which are queued for extraction, are never dropped. While the model does not answer, the pauses
    between calls grow up to ten minutes. After `max_attempts` failed attempts, a message is parked: it is retried once
    a day, and by `drain`. `failures` returns the reasons, and `memory.admin.stats()` the number of pending messages.

    Attributes:
        memory_type: The name of this class for `AgentMemory.create` and in files: "kg".
        settings: The settings of the memory.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        branch: The name of a branch, which the first write creates; or a `MemoryPosition`. Default: "main".
        namespace: The namespace of the branch. Default: that of the current run, else the root.
        model: The model that extracts facts from added messages: a LangChain model, a function from messages to text,
            or the name of a model. Default: none; messages are only stored and searched.
        description: A description of the memory, the first item of `retrieve_all`. A reset does not delete it.
            Default: the stored description, if any.
        settings: The settings of the memory. Default: `FactsConfig()`.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    memory_type = MEMORY_TYPE

    def __init__(
        self,
        memory: MemoryLike = ":memory:",
        branch: str | MemoryPosition = "main",
        *,
        namespace: Sequence[str] | None = None,
        model: ModelLike | None = None,
        description: str | None = None,
        settings: FactsConfig | None = None,
    ) -> None:
        if description is not None:
            check_text(description, "A description")
        self._database = database = database_of(memory)
        self._model = usable_model(model)
        self._active_extractions: list[None] = []  # one entry for each running `extract_and_update_from_text`
        point = resolve_branch(branch, namespace, database.scopes)
        self.settings = argument_checks.check_instance(FactsConfig, settings, "settings") or FactsConfig()
        self._context = FactsContext(database=database, point=point, settings=self.settings, description=description)
        self._key = TaskKey(point.path, "facts", point.name)
        self._task: Task | None = None
        if self._model is not None and isinstance(point, BranchPosition):
            self._database.fact_workers.add(self)
            self._task = Task(self._database.background, self._key, self._extraction_delay, self._extract_pending)
            self._task.wake()  # another process may have left pending messages

    # -- facts -------------------------------------------------------------------------------------------------------

    def add_fact(
        self,
        role: str,
        subject: str,
        predicate: str,
        obj: str,
        *,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        source: fact_values.FactSource | Iterable[fact_values.FactSource] | None = None,
        confidence: float | None = None,
    ) -> str:
        """Add a fact, or another source to a fact that already holds.

        Args:
            role: The role that states it, such as "user".
            subject: The entity that it is about.
            predicate: The relation, such as "lives in".
            obj: The value, or the related entity.
            valid_from: The time it began to hold. Default: the time of its source message if that is stored here, else
                now. If that is not before `valid_to`: the latest time before `valid_to`.
            valid_to: The time it ended. Default: no end, until another value ends it.
            source: The message that states it: the message, its id, or a pair of its id and the id of its conversation;
                or a list of these, if several messages state it. Default: no message.
            confidence: The confidence, from 0 to 1. Default: none.

        Returns:
            The id of the fact.

        Raises:
            InvalidInput: An argument is wrong.
        """
        start = fact_values.parse_optional_time(valid_from, "valid_from")
        end = fact_values.parse_optional_time(valid_to, "valid_to")
        fact_values.check_order(start, end)
        statement = FactStatement(
            role=check_name(role, "a role"),
            subject=fact_values.parse_entity(subject, "The subject"),
            predicate=fact_values.parse_name(predicate, "The predicate"),
            object=fact_values.parse_entity(obj, "The object"),
            start=start,
            end=end,
            confidence=fact_values.check_confidence(confidence),
        )
        sources = fact_values.parse_sources(source)

        def add(facts: FactChanges) -> str:
            rows = facts.message_rows(sources)
            fact_id = None
            for message, conversation in sources:
                row = rows.get((message, conversation))
                sent_at = None if row is None else row.created_at
                message_statement = statement._replace(message=message, conversation=conversation, stated_at=sent_at)
                fact_id, _ = facts.record_statement(message_statement, fact_id)
            return facts.record_statement(statement)[0] if fact_id is None else fact_id

        names = {"subject": statement.subject, "predicate": statement.predicate, "object": statement.object}
        message_ids = [message for message, _ in sources]
        return self._context.write_facts("facts.add_fact", add, role=statement.role, **names, message_ids=message_ids)

    aadd_fact = awaited(add_fact, writes=True)

    def undo(self, fact_id: str) -> None:
        """Undo the last statement or correction of a fact. A second call restores it.

        After its only statement is undone, the fact no longer exists. If it had ended another fact, the other fact
        holds again. To make an ended fact hold again, undo the fact with the value that ended it.

        Args:
            fact_id: The id of the fact.

        Raises:
            MessageError: The fact does not exist.
        """
        check_text(fact_id, "An id")
        self._context.write_facts("facts.undo", lambda facts: facts.undo_last(facts.row(fact_id)), fact_id=fact_id)

    aundo = awaited(undo, writes=True)

    def declare(self, *predicates: str, single_valued: bool = True) -> None:
        """Declare predicates, such as "lives in", as single-valued.

        A new value of a single-valued predicate ends the previous value. The declaration also applies to existing
        facts, whose ends are computed with it. A declaration can be reverted, since no stored fact changes.

        Args:
            *predicates: The names of the predicates.
            single_valued: True if the predicates have one value at a time, False if they can have several. Default:
                True.

        Raises:
            InvalidInput: A name is wrong, or `single_valued` is neither True nor False.
        """
        check_flag("single_valued", single_valued)
        names = [fact_values.parse_name(each, "A predicate") for each in predicates]

        def set_rules(facts: FactChanges) -> None:
            for name in names:
                facts.set_rule(fact_values.SINGLE, name, {"single": single_valued})

        self._context.write_facts("facts.declare", set_rules, predicates=names, single_valued=single_valued)

    adeclare = awaited(declare, writes=True)

    def merge(self, name: str, into: str) -> None:
        """Merge two names of one entity. Stored facts do not change; `unmerge` reverts it.

        Args:
            name: The name to merge.
            into: The main name of the entity.

        Raises:
            InvalidInput: A name is wrong, or `into` is already merged into `name`.
        """
        name, into = fact_values.parse_name(name, "A name"), fact_values.parse_name(into, "A name")

        def add_alias(facts: FactChanges) -> bool:
            entity, target = map(facts.rules.resolve, (name, into))
            if entity == target:
                key = fact_values.entity_key(name)
                if key == fact_values.entity_key(into) or entity != key:
                    return False  # the names are merged already
                label = safe_repr(into)
                raise InvalidInput(f"{label} is already merged into {safe_repr(name)}. Call unmerge({label}) first.")
            facts.set_rule(fact_values.ALIAS, name, {"name": name, "into": into})
            return True

        self._context.write_facts("facts.merge", add_alias, alias=name, same_as=into)

    amerge = awaited(merge, writes=True)

    def unmerge(self, name: str) -> bool:
        """Revert the merge of a name.

        Args:
            name: The merged name.

        Returns:
            True if it was merged.
        """
        name = fact_values.parse_name(name, "A name")

        def remove_alias(facts: FactChanges) -> bool:
            is_merged = fact_values.entity_key(name) in facts.rules.aliases
            if is_merged:
                facts.set_rule(fact_values.ALIAS, name, None)
            return is_merged

        return self._context.write_facts("facts.unmerge", remove_alias, alias=name)

    aunmerge = awaited(unmerge, writes=True)

    def remove_by_id(self, message_id: str) -> bool:
        """Delete a fact, or a message with the facts that no other message states.

        If the deleted fact had ended another fact, the other fact holds again.

        Args:
            message_id: The id of the fact or message.

        Returns:
            True if it existed.
        """
        id_ = check_text(message_id, "An id")
        return self._context.write_facts("facts.remove", lambda facts: facts.remove(id_), id=id_)

    aremove_by_id = awaited(remove_by_id, writes=True)

    # -- messages ----------------------------------------------------------------------------------------------------

    def add(self, message: MessageLike | None = None, **fields: Unpack[MessageFields]) -> str:
        """Store a message and queue it for extraction, without waiting for a model.

        A message that is added again with the same id and content is stored once.

        Args:
            message: A `Message`, a LangChain message or a dictionary of the fields of a `Message`. It takes precedence
                over `fields`.
            **fields: The fields of a `Message`: `role` (required), `content`, `name`, ….

        Returns:
            The id of the message.

        Raises:
            MessageError: Neither message nor role is passed, the message is malformed, or another message has its id.
        """
        new_message, _ = parse_message(message, new_id=self._database.new_id, **fields)
        self._add_message("facts.add", new_message)
        self._wake()
        return new_message.message_id

    aadd = awaited(add, writes=True)

    def update(self, /, message_id: str, **changes: Unpack[FactFields]) -> None:
        """Change a message and queue it for extraction again; or correct a fact.

        Args:
            message_id: The id of the message or fact.
            **changes: For a message, the fields of `Message`. For a fact, `role`, `subject`, `predicate`, `obj`,
                `valid_from`, `valid_to` (None: no end) and `confidence`.

        Raises:
            InvalidInput: A value is wrong.
            MessageError: No message or fact has this id, the fact was undone, or a change is not possible.
        """
        check_text(message_id, "An id")
        inputs = {"id": message_id, "changes": drop_none(changes)}
        if self._context.write_facts("facts.update", lambda facts: facts.update(message_id, changes), **inputs):
            self._wake()

    aupdate = awaited(update, writes=True)

    def replace_memory(self, /, idx: int, **changes: Unpack[FactFields]) -> None:
        """Call `update` for the item at an index of `retrieve_all`.

        Args:
            idx: The index; a negative index counts from the end.
            **changes: As for `update`.

        Raises:
            MessageError: No item has this index, or a change is not possible.
        """
        self.update(self._id_at(idx), **changes)

    areplace_memory = awaited(replace_memory, writes=True)

    def delete_memory(self, idx: int) -> None:
        """Call `remove_by_id` for the item at an index of `retrieve_all`.

        Args:
            idx: The index; a negative index counts from the end.

        Raises:
            MessageError: No item has this index.
        """
        self.remove_by_id(self._id_at(idx))

    adelete_memory = awaited(delete_memory, writes=True)

    def reset_memory(self) -> None:
        """Delete all but the description and the declarations, and emit a reset event."""

        def reset(facts: FactChanges) -> int:
            removed = facts.clear()
            facts.set_description(self._context.description)
            return removed

        self._context.write_facts("facts.reset", reset)
        self._announce_reset()

    areset_memory = awaited(reset_memory, writes=True)

    # -- messages for providers --------------------------------------------------------------------------------------

    def retrieve_all(self, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """Return the description, messages and facts in the format of providers, oldest first.

        Args:
            include_ids: True to add the "message_id" of each item. Default: False.
        """
        return self._retrieve("facts.retrieve_all", self._all_items, include_ids=include_ids)

    aretrieve_all = awaited(retrieve_all)

    def get_messages(self) -> list[dict[str, Any]]:
        """Return the result of `retrieve_all`."""
        return self.retrieve_all()

    aget_messages = awaited(get_messages)

    def retrieve_recent(self, n: int = 1, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """Return the last messages and facts, oldest first.

        Args:
            n: The maximum number of items. Default: 1.
            include_ids: True to add the "message_id" of each item. Default: False.

        Raises:
            InvalidInput: `n` is not a whole number of 0 or more.
        """
        check_integer("n", n)
        find = partial(fact_reader.list_facts, limit=n)
        return self._retrieve("facts.retrieve_recent", find, include_ids=include_ids, n=n)

    aretrieve_recent = awaited(retrieve_recent)

    def retrieve_by_id(self, message_id: str, *, include_ids: bool = False) -> dict[str, Any] | None:
        """Return the message or fact with an id; None if it does not exist.

        Args:
            message_id: The id.
            include_ids: True to add its "message_id". Default: False.
        """
        check_text(message_id, "An id")

        def find(facts: FactView) -> list[Fact]:
            return [fact for fact in [facts.fact(message_id)] if fact is not None]

        return next(iter(self._retrieve("facts.retrieve_by_id", find, include_ids=include_ids, id=message_id)), None)

    aretrieve_by_id = awaited(retrieve_by_id)

    def retrieve_by_role(self, role: str, n: int | None = None, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """Return the messages and facts of a role, oldest first.

        Args:
            role: The role, such as "user".
            n: The maximum number of items, the last ones. Default: all.
            include_ids: True to add the "message_id" of each item. Default: False.

        Raises:
            InvalidInput: An argument is wrong.
        """
        if n is not None:
            check_integer("n", n)
        check_name(role, "a role")
        find = partial(fact_reader.list_facts, limit=n, is_match=lambda fact: fact.role == role)
        return self._retrieve("facts.retrieve_by_role", find, include_ids=include_ids, role=role, n=n)

    aretrieve_by_role = awaited(retrieve_by_role)

    # -- files -------------------------------------------------------------------------------------------------------

    def save_to_file(self, path: str | os.PathLike[str], additional_state: Mapping[str, Any] | None = None) -> None:
        """Write this memory to a JSON file, completely or not at all.

        The file contains facts with their history, rules, and messages, including pending ones.

        Args:
            path: The path of the file. An existing file is replaced.
            additional_state: JSON-serializable data to add to the file. Default: none.

        Raises:
            InvalidInput: The additional state is not JSON, or the file cannot be written.
        """
        records = self._context.read_facts("facts.save", fact_part.dump_records)
        write_document(path, MEMORY_TYPE, records, additional_state)

    asave_to_file = awaited(save_to_file)

    def load_from_file(self, path: str | os.PathLike[str]) -> dict[str, Any] | None:
        """Replace the content of this memory with the content of a file.

        Args:
            path: A file that `save_to_file` wrote.

        Returns:
            The additional state in the file, or None.

        Raises:
            InvalidInput: The file is missing, damaged or of another kind. This memory is unchanged.
        """
        document = read_document(path, MEMORY_TYPE)
        drafts = [fact_part.parse_record(record) for record in document.entries]
        self._context.write_facts("facts.load", partial(fact_part.restore_records, drafts=drafts), records=len(drafts))
        self._wake()
        return document.additional_state

    aload_from_file = awaited(load_from_file, writes=True)

    # -- extraction --------------------------------------------------------------------------------------------------

    def extract_and_update_from_text(self, text: str, role: str = "user") -> list[Fact]:
        """Store a text and extract its facts immediately.

        Args:
            text: The text.
            role: The role of its author. Default: "user".

        Returns:
            The facts that the text states. If the model fails, the list is empty, the text remains pending, and
            `failures` returns the reason.

        Raises:
            InvalidInput: The memory has no model, or an argument is wrong.
        """
        if self._model is None:
            raise InvalidInput("To extract facts, pass a model: memory.facts(…, model=…). Without one, use add_fact().")
        content, role = check_text(text, "The text"), check_name(role, "a role")
        message, _ = parse_message(new_id=self._database.new_id, role=role, content=content)
        key, path = message.message_id, self._context.point.path
        self._active_extractions.append(None)  # so that the background worker does not extract from this text too
        try:
            with self._context.step("facts.remember", messages=[message]) as step:
                self._add_message(None, message)
                extract_facts(self._context, self._model, should_extract=lambda m: m.key == key, respect_pauses=True)
                facts = self._context.read_facts(None, lambda facts: facts.facts_of_message(key, path))
                step.finish(lambda: format_result(facts))
            return facts
        finally:
            self._active_extractions.pop()
            self._wake()

    aextract_and_update_from_text = awaited(extract_and_update_from_text, writes=True)

    def drain(self) -> int:
        """Extract facts from all pending messages, and wait until they are processed.

        After an unusable answer, the model is asked again immediately. After `max_attempts` failed attempts, the
        message is parked. If the model does not answer, this call retries once and then returns. Failures are not
        raised: failed messages remain pending, and `failures` returns the reasons.

        The call waits for extractions in the background and in other processes. If another process died, its lease
        expires after some seconds.

        Returns:
            The number of messages that this call processed; 0 without a model.
        """
        if self._model is None:
            return 0
        outcomes: list[BatchOutcome] = []
        extract = partial(extract_facts, self._context, self._model)
        with self._context.step("facts.drain") as step:
            if not isinstance(self._context.point, BranchPosition):
                outcomes = extract()
            else:
                run_exclusively, lease_lost = self._database.background.run_exclusively, True
                while lease_lost:
                    new_outcomes = run_exclusively(self._key, lambda lease: extract(has_lease=lease.renew))
                    outcomes += new_outcomes
                    lease_lost = bool(new_outcomes) and new_outcomes[-1].lost_lease
            step.finish(lambda: fact_extraction.summarize(outcomes))
        return sum(outcome.message_count for outcome in outcomes)

    adrain = awaited(drain, writes=True)

    def pending_count(self) -> int:
        """Return the number of messages that are queued for extraction."""
        return self._context.read_facts("facts.pending_count", lambda facts: len(fact_extraction.load_pending(facts)))

    apending_count = awaited(pending_count)

    def failures(self, limit: int | None = None) -> list[fact_values.ExtractionFailure]:
        """Return the extraction failures, oldest first. At most the newest 100 are stored.

        Args:
            limit: The maximum number of failures, the last ones. Default: all.
        """
        return self._context.read_facts("facts.failures", partial(fact_extraction.load_failures, limit=limit))

    afailures = awaited(failures)

    # -- internals ---------------------------------------------------------------------------------------------------

    def _at_position(self, point: MemoryPosition) -> Self:
        description, settings = self._context.description, self.settings
        return type(self)(self._database, point, model=self._model, description=description, settings=settings)

    def _add_message(self, name: str | None, message: Message) -> None:
        add = partial(FactChanges.add_messages, messages=[message], description=self._context.description)
        self._context.write_facts(name, add, messages=[message])

    def _all_items(self, facts: FactView) -> list[Fact]:
        """Return the description, all messages and all facts."""
        description, now = self._context.description if facts.description is None else facts.description, self.now
        items = fact_reader.list_facts(facts)
        if description is None:
            return items
        description_item = Fact(
            id=fact_store.DESCRIPTION, role="system", subject="system", predicate=RAW_PREDICATE, object=description,
            valid_from=now, recorded_at=now, raw=True,
        )  # fmt: skip
        return [description_item, *items]

    def _id_at(self, idx: int) -> str:
        """Return the id of the item at an index of `retrieve_all`."""
        check_value(int, idx, "idx")
        items = self._context.read_facts(None, self._all_items)
        if not -len(items) <= idx < len(items):
            raise MessageError(f"No item has the index {idx}. The memory has {len(items)} items.")
        if items[idx].id == fact_store.DESCRIPTION:
            raise MessageError("The description cannot be changed here. Pass description= to memory.facts().")
        return items[idx].id

    def _retrieve(
        self, name: str, find: Callable[[FactView], list[Fact]], *, include_ids: bool, **inputs: Any
    ) -> list[dict[str, Any]]:
        """Return facts and messages in the format of providers."""
        check_flag("include_ids", include_ids)

        def load_items(facts: FactView) -> list[tuple[Fact, Message | None]]:
            items = find(facts)
            rows = facts.rows_by_key(FACT_TEXT, [item.id for item in items if item.raw])
            return [(item, fact_store.decode_message(rows[item.id]) if item.id in rows else None) for item in items]

        dicts = []
        for fact, message in self._context.read_facts(name, load_items, **inputs):
            data = _provider_dict(fact) if message is None else message.to_llm_dict(part_of=part_or_placeholder)
            dicts.append({**data, "message_id": fact.id} if include_ids else data)
        return dicts

    def _wake(self) -> None:
        if self._task is not None:
            self._task.wake()

    def _extraction_delay(self, tx: Transaction) -> float | None:
        """Return the seconds until the next extraction is due; None if none is due soon."""
        if self._active_extractions:
            return None
        now = self._context.now()
        facts = FactView(tx, self._context.point.view(tx, now))
        due, next_due_at = fact_extraction.load_due(facts, self.settings.max_attempts, now)
        if due or next_due_at is None:
            return 0.0 if due else None
        # Do not wait a day for a parked message: a later poll of the background worker finds it.
        pause = (next_due_at - now) / 1_000_000
        return pause if pause <= fact_extraction.MAX_PAUSE else None

    def _extract_pending(self, lease: Lease) -> float | None:
        """Extract facts from pending messages in the background.

        Returns:
            The seconds until the next attempt if the lease was lost, in case its new holder dies; else None.
        """
        with self._context.step("facts.drain") as step:
            outcomes = extract_facts(self._context, self._model, has_lease=lease.renew, respect_pauses=True)
            step.finish(lambda: fact_extraction.summarize(outcomes))
        return backoff(0) if outcomes and outcomes[-1].lost_lease else None


def _provider_dict(fact: Fact) -> dict[str, Any]:
    """Return a fact, or the description, in the format of providers."""
    if fact.raw:
        return {"role": fact.role, "content": fact.object}
    until = "" if fact.valid_to is None else f" (until {fact.valid_to:%Y-%m-%d})"
    role = fact.role if fact.role in ("user", "assistant", "system") else "user"
    return {"role": role, "content": f"Fact ({fact.role}): {fact.text.rstrip('.')}{until}."}
