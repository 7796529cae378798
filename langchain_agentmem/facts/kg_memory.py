"""`KGMemory`: facts that know when they were true, as subject, predicate and object, on a branch or of a thread.

    facts = memory.facts("user-42", model=model)
    facts.add(role="user", content="I moved to Lisbon in March.")     # kept now; its facts are extracted later
    facts.add_fact("user", "Maya", "works at", "Acme")
    facts.add_fact("user", "Maya", "works at", "Globex")              # ends the fact before
    facts.as_of(subject="Maya")                                      # the facts that hold now
    facts.history("Maya", "works at")                                # all that ever held

No model is needed. With a model, facts are extracted from added messages in the background.

Each fact has the time in which it held and the time at which we learned it, and names the messages that it comes
from. A new value of a single-valued predicate, such as "lives in", ends the value before. Nothing is overwritten, and
`undo` takes the change back.

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

In a graph the node `memory.remember_facts(model)` reads each new message of the state once, and the facts rewind with
the thread. Removing or erasing a message removes the facts that no other source states. `as_of(recorded=…)` returns
what was known at some time, and `contradictions()` returns conflicting facts. `merge(name, into)` merges two names
until `unmerge`. `to_networkx` returns the graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Self, Unpack

from langchain_agentmem.base.argument_checks import (
    check_flag,
    check_instance,
    check_integer,
    check_name,
    check_text,
    check_value,
)
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.namespaces import check_id
from langchain_agentmem.conversations.log_entries import parse_message as message_given
from langchain_agentmem.conversations.log_memory import EventSource, read_document, write_document
from langchain_agentmem.errors import InvalidInput, MessageError, safe_repr
from langchain_agentmem.facts import fact as fact_values
from langchain_agentmem.facts import fact_extraction, fact_part, fact_reader, fact_store
from langchain_agentmem.facts.fact import RAW_PREDICATE, Fact, FactsConfig
from langchain_agentmem.facts.fact_extraction import BatchOutcome
from langchain_agentmem.facts.fact_reader import FactReader
from langchain_agentmem.facts.fact_store import FactChanges, FactsContext, FactStatement, FactView
from langchain_agentmem.language_models.model_calls import ModelLike, usable_model
from langchain_agentmem.messages.message import Message, MessageFields, MessageLike
from langchain_agentmem.messages.provider_content import part_or_placeholder
from langchain_agentmem.rewinding import branches
from langchain_agentmem.rewinding.branches import BranchPosition, MemoryPosition, resolve_branch
from langchain_agentmem.rewinding.memory_rows import FACT_TEXT
from langchain_agentmem.storage import Transaction
from langchain_agentmem.storage.background import Lease, Task, TaskKey, backoff
from langchain_agentmem.storage.database import MemoryLike, database_of
from langchain_agentmem.tracing import drop_none, format_result

MEMORY_TYPE = "kg"
"""The type in a file of facts."""


class FactFields(MessageFields, total=False):
    """The fields that `KGMemory.update` changes.

    A message has the fields of `Message`; a fact has `role` and the fields below.
    """

    subject: str
    predicate: str
    obj: str
    valid_from: datetime
    valid_to: datetime | None
    confidence: float | None


class KGMemory(FactReader, EventSource):
    """Facts on a branch, or of a thread.

    Every method that reads or writes has an awaited twin, with an `a` before its name. Times without a time zone are
    taken as UTC.

    A fact has the time in which it held, `valid_from` up to but not at `valid_to`, and the time at which we learned it.
    A new value of a single-valued predicate (see `declare`) ends the one before, which is kept. A fact that is stated
    twice while it holds is one fact with two sources. Each fact names its source messages, and is removed with the last
    of them when they are removed or erased.

    On a thread facts rewind with it. There only nodes can change them, so messages are not extracted in the background:
    call `drain` in a node, or use the node `memory.remember_facts(model)`.

    Waiting messages are never given up. While the model does not answer, the pauses between questions grow up to ten
    minutes. The model is asked about parked messages once a day, and by `drain`. `failures` returns the reasons, and
    `memory.admin.stats()` the number of waiting messages.

    Attributes:
        memory_type: The name of this kind for `AgentMemory.create` and in files: "kg".
        settings: How facts are kept and learned.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        branch: The name of a branch, which begins to exist with the first write; or a standpoint. Default: "main".
        namespace: The namespace of the branch. Default: the running config's, else the root.
        model: The model that extracts facts from added messages: a LangChain model, a function from messages to text,
            or the name of a model. Default: none; messages are only kept and found.
        description: A text with which the memory begins, and that a reset keeps. Default: its present one, if any.
        settings: How facts are kept and learned. Default: `FactsConfig()`.

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
        if not isinstance(branch, str) and not hasattr(branch, "view"):
            raise InvalidInput(f"Facts are those of a branch; give its name, not {safe_repr(branch)}.")
        if description is not None:
            check_text(description, "A description")
        self._database = database = database_of(memory)
        self._model = usable_model(model)
        self._active_extractions: list[None] = []  # one for each caller that is extracting a text now
        point = resolve_branch(branch, namespace, database.scopes)
        self.settings = check_instance(FactsConfig, settings, "settings") or FactsConfig()
        self._context = FactsContext(database=database, point=point, settings=self.settings, description=description)
        self._key = TaskKey(point.path, "facts", point.name)
        self._task: Task | None = None
        if self._model is not None and isinstance(point, BranchPosition):
            self._database.fact_workers.add(self)
            self._task = Task(self._database.background, self._key, self._extraction_delay, self._learn_due)
            self._task.wake()  # another process may have left waiting messages

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
        """State a fact. A fact that holds already gets another source.

        Args:
            role: The role that states it, such as "user".
            subject: The entity that it is about.
            predicate: The relation, such as "lives in".
            obj: The value or entity that the relation names.
            valid_from: When it began to hold. Default: the time of its source if that was added here, else now. A fact
                that had ended by then gets only its last moment.
            valid_to: When it ceased to hold. Default: it goes on until another value ends it.
            source: The message that states it: its id, or the message itself; a pair of its id and its conversation's
                id; or a list of these, which all state this one fact. Default: the caller states it.
            confidence: The confidence, from 0 to 1. Default: none is stated.

        Returns:
            The id of the fact.

        Raises:
            InvalidInput: An argument is wrong.
        """
        start, end = (
            fact_values.parse_optional_time(valid_from, "valid_from"),
            fact_values.parse_optional_time(valid_to, "valid_to"),
        )
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

        def make(facts: FactChanges) -> str:
            existing = facts.message_rows(sources)
            fact_id = None
            for message, conversation in sources:
                text = existing.get((message, conversation))
                at = None if text is None else text.created_at
                sourced = statement._replace(message=message, conversation=conversation, stated_at=at)
                fact_id, _ = facts.record_statement(sourced, fact_id)
            return facts.record_statement(statement)[0] if fact_id is None else fact_id

        names = {"subject": statement.subject, "predicate": statement.predicate, "object": statement.object}
        message_ids = [message for message, _ in sources]
        return self._context.write_facts("facts.add_fact", make, role=statement.role, **names, message_ids=message_ids)

    aadd_fact = awaited(add_fact, writes=True)

    def undo(self, fact_id: str) -> None:
        """Take back the last statement or correction of a fact; a second call restores it.

        A new fact is then gone, and a fact that it had ended goes on. So to continue a fact that
        another value ended, undo that other fact.

        Args:
            fact_id: The id of the fact.

        Raises:
            MessageError: There is no such fact.
        """
        check_text(fact_id, "An id")

        self._context.write_facts("facts.undo", lambda facts: facts.undo_last(facts.row(fact_id)), fact_id=fact_id)

    aundo = awaited(undo, writes=True)

    def declare(self, *predicates: str, single_valued: bool = True) -> None:
        """Declare that predicates, such as "lives in", have one value at a time.

        A new value then ends the one before. The declaration applies to existing facts too and can be taken back, since
        it changes no fact.

        Args:
            *predicates: The names of the predicates.
            single_valued: False allows several values at a time. Default: True.

        Raises:
            InvalidInput: A name is invalid, or `single_valued` is neither True nor False.
        """
        check_flag("single_valued", single_valued)
        names = [fact_values.parse_name(each, "A predicate") for each in predicates]

        def make(facts: FactChanges) -> None:
            for each in names:
                facts.set_rule(fact_values.SINGLE, each, {"single": single_valued})

        self._context.write_facts("facts.declare", make, predicates=names, single_valued=single_valued)

    adeclare = awaited(declare, writes=True)

    def merge(self, name: str, into: str) -> None:
        """Merge two names of one entity. Stored facts do not change; `unmerge` reverts it.

        Args:
            name: The name to merge.
            into: The name of the entity from now on.

        Raises:
            InvalidInput: The names are merged the other way round.
        """
        name, into = fact_values.parse_name(name, "A name"), fact_values.parse_name(into, "A name")

        def make(facts: FactChanges) -> bool:
            one, other = map(facts.rules.canonical, (name, into))
            if one == other:
                key = fact_values.entity_key(name)
                if key == fact_values.entity_key(into) or one != key:
                    return False  # the names are merged already
                raise InvalidInput(
                    f"{safe_repr(into)} is merged into {safe_repr(name)}. Take that back with "
                    f"unmerge({safe_repr(into)}) first."
                )
            facts.set_rule(fact_values.ALIAS, name, {"name": name, "into": into})
            return True

        self._context.write_facts("facts.merge", make, alias=name, same_as=into)

    amerge = awaited(merge, writes=True)

    def unmerge(self, name: str) -> bool:
        """Take back the merge of a name.

        Args:
            name: The name that was merged.

        Returns:
            Whether it was merged.
        """
        name = fact_values.parse_name(name, "A name")

        def make(facts: FactChanges) -> bool:
            is_merged = fact_values.entity_key(name) in facts.rules.aliases
            if is_merged:
                facts.set_rule(fact_values.ALIAS, name, None)
            return is_merged

        return self._context.write_facts("facts.unmerge", make, alias=name)

    aunmerge = awaited(unmerge, writes=True)

    def remove_by_id(self, message_id: str) -> bool:
        """Delete a fact, or a message with the facts that no other message states.

        A fact that a deleted one had ended goes on.

        Args:
            message_id: The id of the fact or message.

        Returns:
            Whether it existed.
        """
        key = check_text(message_id, "An id")
        return self._context.write_facts("facts.remove", lambda facts: facts.remove(key), id=key)

    aremove_by_id = awaited(remove_by_id, writes=True)

    # -- messages ----------------------------------------------------------------------------------------------------

    def add(self, message: MessageLike | None = None, **fields: Unpack[MessageFields]) -> str:
        """Keep a message and queue it for extraction, without waiting for a model.

        A message that is added again with the same id is kept once.

        Args:
            message: A `Message`, a LangChain message or a dictionary of `Message`'s fields. It takes precedence.
            **fields: The fields of a `Message`, if `message` is None: `role`, which is required, `content`, `name`, ….

        Returns:
            The message's id.

        Raises:
            MessageError: Neither message nor role is given, the message is malformed, or its id is taken by other
                content.
        """
        new_message, _ = message_given(message, new_id=self._database.new_id, **fields)
        self._add_message("facts.add", new_message)
        self._wake()
        return new_message.message_id

    aadd = awaited(add, writes=True)

    def update(self, /, message_id: str, **changes: Unpack[FactFields]) -> None:
        """Change a message and queue it for extraction again; or correct a fact.

        Args:
            message_id: The id of the message or fact.
            **changes: Of a message, fields of `Message`; of a fact, `role`, `subject`, `predicate`, `obj`,
                `valid_from`, `valid_to` (None: it goes on) and `confidence`.

        Raises:
            InvalidInput: A value is invalid.
            MessageError: There is neither, the fact was taken back, or a change does not fit.
        """
        check_text(message_id, "An id")
        inputs = {"id": message_id, "changes": drop_none(changes)}
        if self._context.write_facts("facts.update", lambda facts: facts.update(message_id, changes), **inputs):
            self._wake()

    aupdate = awaited(update, writes=True)

    def replace_memory(self, /, idx: int, **changes: Unpack[FactFields]) -> None:
        """Call `update` for the item at an index of `retrieve_all`.

        Args:
            idx: The index; negative ones count from the end.
            **changes: As for `update`.

        Raises:
            MessageError: There is no item at the index, or a change does not fit.
        """
        self.update(self._id_at(idx), **changes)

    areplace_memory = awaited(replace_memory, writes=True)

    def delete_memory(self, idx: int) -> None:
        """Call `remove_by_id` for the item at an index of `retrieve_all`.

        Args:
            idx: The index; negative ones count from the end.

        Raises:
            MessageError: There is no item at the index.
        """
        self.remove_by_id(self._id_at(idx))

    adelete_memory = awaited(delete_memory, writes=True)

    def reset_memory(self) -> None:
        """Delete everything but the description and the declarations. Notify listeners."""

        def make(facts: FactChanges) -> int:
            removed = facts.clear()
            facts.set_description(self._context.description)
            return removed

        self._context.write_facts("facts.reset", make)
        self._announce_reset()

    areset_memory = awaited(reset_memory, writes=True)

    # -- messages for providers --------------------------------------------------------------------------------------

    def retrieve_all(self, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """Return the description, messages and facts as a provider takes them, oldest first.

        Args:
            include_ids: Add the "message_id" of each item. Default: False.
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
            n: The number of items. Default: 1.
            include_ids: Add the "message_id" of each item. Default: False.

        Raises:
            InvalidInput: `n` is not a whole number of 0 or more.
        """
        check_integer("n", n)
        find = partial(fact_reader.list_facts, limit=n)
        return self._retrieve("facts.retrieve_recent", find, include_ids=include_ids, n=n)

    aretrieve_recent = awaited(retrieve_recent)

    def retrieve_by_id(self, message_id: str, *, include_ids: bool = False) -> dict[str, Any] | None:
        """Return the message or fact with an id; None if there is none.

        Args:
            message_id: The id.
            include_ids: Add its "message_id". Default: False.
        """
        check_text(message_id, "An id")

        def find(facts: FactView) -> list[Fact]:
            return [fact for fact in [facts.fact(message_id)] if fact is not None]

        return next(iter(self._retrieve("facts.retrieve_by_id", find, include_ids=include_ids, id=message_id)), None)

    aretrieve_by_id = awaited(retrieve_by_id)

    def retrieve_by_role(self, role: str, n: int | None = None, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """Return the messages of a role and the facts that it stated, oldest first.

        Args:
            role: The role, such as "user".
            n: The most items; the last ones are returned. Default: all.
            include_ids: Add the "message_id" of each item. Default: False.

        Raises:
            InvalidInput: An argument is wrong.
        """
        if n is not None:
            check_integer("n", n)
        check_name(role, "a role")
        find = partial(fact_reader.list_facts, limit=n, wanted=lambda fact: fact.role == role)
        return self._retrieve("facts.retrieve_by_role", find, include_ids=include_ids, role=role, n=n)

    aretrieve_by_role = awaited(retrieve_by_role)

    # -- files -------------------------------------------------------------------------------------------------------

    def save_to_file(self, path: str | os.PathLike[str], additional_state: Mapping[str, Any] | None = None) -> None:
        """Write this memory to a JSON file, whole or not at all.

        The file holds facts with their history, and waiting messages.

        Args:
            path: The path of the file. An existing file is replaced.
            additional_state: JSON-serializable data to add to the file. Default: none.

        Raises:
            InvalidInput: The additional state is not JSON, or the file cannot be written.
        """
        write_document(
            path, MEMORY_TYPE, self._context.read_facts("facts.save", fact_part.dump_records), additional_state
        )

    asave_to_file = awaited(save_to_file)

    def load_from_file(self, path: str | os.PathLike[str]) -> dict[str, Any] | None:
        """Replace everything that this memory holds with the content of a file.

        Args:
            path: A file that `save_to_file` wrote.

        Returns:
            The additional state in the file, or None.

        Raises:
            InvalidInput: The file is missing, damaged or of another kind. This memory is unchanged.
        """
        saved = read_document(path, MEMORY_TYPE)
        drafts = [fact_part.parse_record(record) for record in saved.entries]
        self._context.write_facts("facts.load", partial(fact_part.restore_records, drafts=drafts), records=len(drafts))
        self._wake()
        return saved.additional_state

    aload_from_file = awaited(load_from_file, writes=True)

    # -- extraction --------------------------------------------------------------------------------------------------

    def extract_and_update_from_text(self, text: str, role: str = "user") -> list[Fact]:
        """Keep a text and extract its facts immediately.

        Args:
            text: The text.
            role: The role that said it. Default: "user".

        Returns:
            The facts that the text states. If the model fails, there are none; the text waits for another attempt, and
            `failures` returns the reason.

        Raises:
            InvalidInput: There is no model, or an argument is wrong.
        """
        if self._model is None:
            raise InvalidInput(
                "To extract facts a model is needed: memory.facts(…, model=…). Without one, use add_fact()."
            )
        content, role = check_text(text, "The text"), check_name(role, "a role")
        message, _ = message_given(new_id=self._database.new_id, role=role, content=content)
        key, path = message.message_id, self._context.point.path
        self._active_extractions.append(None)  # keeps the background from asking about it too
        try:
            with self._context.step("facts.remember", messages=[message]) as step:
                self._add_message(None, message)
                fact_extraction.extract_facts(
                    self._context, self._model, wanted=lambda due: due.key == key, patient=True
                )
                facts = self._context.read_facts(None, lambda facts: facts.facts_of_message(key, path))
                step.finish(lambda: format_result(facts))
            return facts
        finally:
            self._active_extractions.pop()
            self._wake()

    aextract_and_update_from_text = awaited(extract_and_update_from_text, writes=True)

    def drain(self) -> int:
        """Extract facts from all waiting messages, and return when that is done.

        After an unusable answer the model is asked again immediately, up to `max_attempts` of the settings; then the
        message is parked. If the model does not answer, it is asked once more, and this call ends. Failed messages keep
        waiting, and `failures` returns the reasons; no failure is raised.

        The call waits for extractions in the background or in other processes. A process that died holds the right to
        extract for some more seconds.

        Returns:
            The number of messages that this call processed, without those of other processes; 0 without a model.
        """
        if self._model is None:
            return 0
        outcomes: list[BatchOutcome] = []
        work = partial(fact_extraction.extract_facts, self._context, self._model)
        with self._context.step("facts.drain") as step:
            if not isinstance(self._context.point, BranchPosition):
                outcomes = work()
            else:
                lost = True
                while lost:
                    added = self._database.background.run_exclusively(self._key, lambda lease: work(holds=lease.renew))
                    outcomes += added
                    lost = bool(added) and added[-1].lost_lease
            step.finish(lambda: fact_extraction.summarize(outcomes))
        return sum(each.message_count for each in outcomes)

    adrain = awaited(drain, writes=True)

    def pending_count(self) -> int:
        """Return the number of messages that wait for extraction."""
        return self._context.read_facts("facts.waiting", lambda facts: len(fact_extraction.load_pending(facts)))

    apending_count = awaited(pending_count)

    def failures(self, limit: int | None = None) -> list[fact_values.ExtractionFailure]:
        """Return the extraction failures, the newest last. The last 100 are kept.

        Args:
            limit: The most failures; the last ones are returned. Default: all.
        """
        return self._context.read_facts("facts.failures", partial(fact_extraction.load_failures, limit=limit))

    afailures = awaited(failures)

    # -- branches ----------------------------------------------------------------------------------------------------

    def at(self, name: str) -> Self:
        """Return the facts of another branch of this namespace, with this model and settings.

        Raises:
            InvalidInput: The name of the branch is invalid.
        """
        return self._at_position(
            BranchPosition(self._context.point.path, check_id(name, "branch"), self._context.database.scopes)
        )

    def fork(self, name: str) -> KGMemory:
        """Create a branch that sees everything here so far, but no later changes.

        Nothing is copied. `memory.layers` has the same branch.

        Args:
            name: The name of the fork.

        Raises:
            InvalidInput: The name is taken, or this is the memory of a thread.
        """
        return self._at_position(branches.fork_branch(self._context, check_id(name, "branch")))

    afork = awaited(fork, writes=True)

    # -- internals ---------------------------------------------------------------------------------------------------

    def _at_position(self, point: MemoryPosition) -> Self:
        return type(self)(
            self._database, point, model=self._model, description=self._context.description, settings=self.settings
        )

    def _add_message(self, name: str | None, message: Message) -> None:
        description = self._context.description
        self._context.write_facts(
            name, lambda facts: facts.add_messages([message], description=description), messages=[message]
        )

    def _all_items(self, facts: FactView) -> list[Fact]:
        """Return the description, all messages and all facts."""
        description, now = self._context.description if facts.description is None else facts.description, self.now
        items = fact_reader.list_facts(facts)
        if description is None:
            return items
        as_fact = Fact(
            id=fact_store.DESCRIPTION, role="system", subject="system", predicate=RAW_PREDICATE, object=description,
            valid_from=now, recorded_at=now, raw=True,
        )  # fmt: skip
        return [as_fact, *items]

    def _id_at(self, idx: int) -> str:
        """Return the id of the item at an index of `retrieve_all`."""
        check_value(int, idx, "idx")
        items = self._context.read_facts(None, self._all_items)
        if not -len(items) <= idx < len(items):
            raise MessageError(f"There is nothing at the index {idx}; there are {len(items)} messages and facts.")
        if items[idx].id == fact_store.DESCRIPTION:
            raise MessageError("This is the description; it is given when the memory is made.")
        return items[idx].id

    def _retrieve(
        self, name: str, find: Callable[[FactView], list[Fact]], *, include_ids: bool, **inputs: Any
    ) -> list[dict[str, Any]]:
        """Return facts and messages as a provider takes them."""
        check_flag("include_ids", include_ids)

        def load_items(facts: FactView) -> list[tuple[Fact, Message | None]]:
            items = find(facts)
            raw = facts.rows_by_key(FACT_TEXT, [item.id for item in items if item.raw])
            return [(item, fact_store.message_of(raw[item.id]) if item.id in raw else None) for item in items]

        dicts = []
        for fact, message in self._context.read_facts(name, load_items, **inputs):
            item_dict = _provider_dict(fact) if message is None else message.to_llm_dict(part_of=part_or_placeholder)
            dicts.append({**item_dict, "message_id": fact.id} if include_ids else item_dict)
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
        ready, later = fact_extraction.load_due(facts, self.settings.max_attempts, now)
        if ready or later is None:
            return 0.0 if ready else None
        # Do not wait a day for a parked message: the next look after that asks about it.
        pause = (later - now) / 1_000_000
        return pause if pause <= fact_extraction.MAX_PAUSE else None

    def _learn_due(self, lease: Lease) -> float | None:
        """Extract facts from waiting messages in the background.

        Returns:
            The seconds until another attempt if the lease was lost, since its new holder may die; else None.
        """
        with self._context.step("facts.drain") as step:
            outcomes = fact_extraction.extract_facts(self._context, self._model, holds=lease.renew, patient=True)
            step.finish(lambda: fact_extraction.summarize(outcomes))
        return backoff(0) if outcomes and outcomes[-1].lost_lease else None


def _provider_dict(fact: Fact) -> dict[str, Any]:
    """Return a fact, or the description, as a provider takes it."""
    if fact.raw:
        return {"role": fact.role, "content": fact.object}
    until = "" if fact.valid_to is None else f" (until {fact.valid_to:%Y-%m-%d})"
    role = fact.role if fact.role in ("user", "assistant", "system") else "user"
    return {"role": role, "content": f"Fact ({fact.role}): {fact.text.rstrip('.')}{until}."}
