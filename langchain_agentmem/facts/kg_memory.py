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
    check_value,
    check_whole,
    name_given,
    text_given,
)
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.namespaces import id_of
from langchain_agentmem.conversations.log_entries import message_of as message_given
from langchain_agentmem.conversations.persistence import EventSource, read_document, write_document
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
from langchain_agentmem.rewinding.branches import BranchPosition, Standpoint, branch_at
from langchain_agentmem.rewinding.memory_rows import TEXT
from langchain_agentmem.storage import Transaction
from langchain_agentmem.storage.background import Lease, Task, TaskKey, backoff
from langchain_agentmem.storage.database import MemoryLike, database_of
from langchain_agentmem.tracing import given_only, outcome

TYPE = "kg"
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

    memory_type = TYPE

    def __init__(
        self,
        memory: MemoryLike = ":memory:",
        branch: str | Standpoint = "main",
        *,
        namespace: Sequence[str] | None = None,
        model: ModelLike | None = None,
        description: str | None = None,
        settings: FactsConfig | None = None,
    ) -> None:
        if not isinstance(branch, str) and not hasattr(branch, "view"):
            raise InvalidInput(f"Facts are those of a branch; give its name, not {safe_repr(branch)}.")
        if description is not None:
            text_given(description, "A description")
        self._database = database = database_of(memory)
        self._model = usable_model(model)
        self._asking: list[None] = []  # one for each caller that is extracting a text now
        point = branch_at(branch, namespace, database.scopes)
        self.settings = check_instance(FactsConfig, settings, "settings") or FactsConfig()
        self._ground = FactsContext(database=database, point=point, settings=self.settings, description=description)
        self._key = TaskKey(point.path, "facts", point.name)
        self._task: Task | None = None
        if self._model is not None and isinstance(point, BranchPosition):
            self._database.draining.add(self)
            self._task = Task(self._database.background, self._key, self._due_in, self._learn_due)
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
        start, end = fact_values.maybe_time(valid_from, "valid_from"), fact_values.maybe_time(valid_to, "valid_to")
        fact_values.check_order(start, end)
        said = FactStatement(
            role=name_given(role, "a role"),
            subject=fact_values.thing_given(subject, "The subject"),
            predicate=fact_values.name_of(predicate, "The predicate"),
            object=fact_values.thing_given(obj, "The object"),
            start=start,
            end=end,
            sure=fact_values.confidence_given(confidence),
        )
        sources = fact_values.sources_given(source)

        def make(facts: FactChanges) -> str:
            here = facts.texts(sources)
            fact_id = None
            for message, conversation in sources:
                text = here.get((message, conversation))
                at = None if text is None else text.created_at
                told = said._replace(message=message, conversation=conversation, said_at=at)
                fact_id, _ = facts.tell(told, fact_id)
            return facts.tell(said)[0] if fact_id is None else fact_id

        named = {"subject": said.subject, "predicate": said.predicate, "object": said.object}
        message_ids = [message for message, _ in sources]
        return self._ground.edit("facts.add_fact", make, role=said.role, **named, message_ids=message_ids)

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
        text_given(fact_id, "An id")

        self._ground.edit("facts.undo", lambda facts: facts.undo(facts.row(fact_id)), fact_id=fact_id)

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
        names = [fact_values.name_of(each, "A predicate") for each in predicates]

        def make(facts: FactChanges) -> None:
            for each in names:
                facts.rule(fact_values.SINGLE, each, {"single": single_valued})

        self._ground.edit("facts.declare", make, predicates=names, single_valued=single_valued)

    adeclare = awaited(declare, writes=True)

    def merge(self, name: str, into: str) -> None:
        """Merge two names of one entity. Stored facts do not change; `unmerge` reverts it.

        Args:
            name: The name to merge.
            into: The name of the entity from now on.

        Raises:
            InvalidInput: The names are merged the other way round.
        """
        name, into = fact_values.name_of(name, "A name"), fact_values.name_of(into, "A name")

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
            facts.rule(fact_values.ALIAS, name, {"name": name, "into": into})
            return True

        self._ground.edit("facts.merge", make, alias=name, same_as=into)

    amerge = awaited(merge, writes=True)

    def unmerge(self, name: str) -> bool:
        """Take back the merge of a name.

        Args:
            name: The name that was merged.

        Returns:
            Whether it was merged.
        """
        name = fact_values.name_of(name, "A name")

        def make(facts: FactChanges) -> bool:
            there = fact_values.entity_key(name) in facts.rules.aliases
            if there:
                facts.rule(fact_values.ALIAS, name, None)
            return there

        return self._ground.edit("facts.unmerge", make, alias=name)

    aunmerge = awaited(unmerge, writes=True)

    def remove_by_id(self, message_id: str) -> bool:
        """Delete a fact, or a message with the facts that no other message states.

        A fact that a deleted one had ended goes on.

        Args:
            message_id: The id of the fact or message.

        Returns:
            Whether it existed.
        """
        key = text_given(message_id, "An id")
        return self._ground.edit("facts.remove", lambda facts: facts.remove(key), id=key)

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
        said, _ = message_given(message, new_id=self._database.new_id, **fields)
        self._keep("facts.add", said)
        self._wake()
        return said.message_id

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
        text_given(message_id, "An id")
        shown = {"id": message_id, "changes": given_only(changes)}
        if self._ground.edit("facts.update", lambda facts: facts.update(message_id, changes), **shown):
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
        self.update(self._key_at(idx), **changes)

    areplace_memory = awaited(replace_memory, writes=True)

    def delete_memory(self, idx: int) -> None:
        """Call `remove_by_id` for the item at an index of `retrieve_all`.

        Args:
            idx: The index; negative ones count from the end.

        Raises:
            MessageError: There is no item at the index.
        """
        self.remove_by_id(self._key_at(idx))

    adelete_memory = awaited(delete_memory, writes=True)

    def reset_memory(self) -> None:
        """Delete everything but the description and the declarations. Notify listeners."""

        def make(facts: FactChanges) -> int:
            gone = facts.clear()
            facts.describe(self._ground.description)
            return gone

        self._ground.edit("facts.reset", make)
        self._announce_reset()

    areset_memory = awaited(reset_memory, writes=True)

    # -- messages for providers --------------------------------------------------------------------------------------

    def retrieve_all(self, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """Return the description, messages and facts as a provider takes them, oldest first.

        Args:
            include_ids: Add the "message_id" of each item. Default: False.
        """
        return self._retrieve("facts.retrieve_all", self._everything, include_ids=include_ids)

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
        check_whole("n", n)
        find = partial(fact_reader.listing, limit=n)
        return self._retrieve("facts.retrieve_recent", find, include_ids=include_ids, n=n)

    aretrieve_recent = awaited(retrieve_recent)

    def retrieve_by_id(self, message_id: str, *, include_ids: bool = False) -> dict[str, Any] | None:
        """Return the message or fact with an id; None if there is none.

        Args:
            message_id: The id.
            include_ids: Add its "message_id". Default: False.
        """
        text_given(message_id, "An id")

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
            check_whole("n", n)
        name_given(role, "a role")
        find = partial(fact_reader.listing, limit=n, wanted=lambda fact: fact.role == role)
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
        write_document(path, TYPE, self._ground.look("facts.save", fact_part.dump), additional_state)

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
        saved = read_document(path, TYPE)
        drafts = [fact_part.draft_of(record) for record in saved.entries]
        self._ground.edit("facts.load", partial(fact_part.load, drafts=drafts), records=len(drafts))
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
        content, role = text_given(text, "The text"), name_given(role, "a role")
        said, _ = message_given(new_id=self._database.new_id, role=role, content=content)
        key, path = said.message_id, self._ground.point.path
        self._asking.append(None)  # keeps the background from asking about it too
        try:
            with self._ground.step("facts.remember", messages=[said]) as step:
                self._keep(None, said)
                fact_extraction.learn(self._ground, self._model, wanted=lambda due: due.key == key, patient=True)
                facts = self._ground.look(None, lambda facts: facts.told_by(key, path))
                step.finish(lambda: outcome(facts))
            return facts
        finally:
            self._asking.pop()
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
        learned: list[BatchOutcome] = []
        work = partial(fact_extraction.learn, self._ground, self._model)
        with self._ground.step("facts.drain") as step:
            if not isinstance(self._ground.point, BranchPosition):
                learned = work()
            else:
                lost = True
                while lost:
                    more = self._database.background.in_turn(self._key, lambda lease: work(holds=lease.holds))
                    learned += more
                    lost = bool(more) and more[-1].lost
            step.finish(lambda: fact_extraction.summary(learned))
        return sum(each.read for each in learned)

    adrain = awaited(drain, writes=True)

    def waiting(self) -> int:
        """Return the number of messages that wait for extraction."""
        return self._ground.look("facts.waiting", lambda facts: len(fact_extraction.waiting(facts)))

    awaiting = awaited(waiting)

    def failures(self, limit: int | None = None) -> list[fact_values.ExtractionFailure]:
        """Return the extraction failures, the newest last. The last 100 are kept.

        Args:
            limit: The most failures; the last ones are returned. Default: all.
        """
        return self._ground.look("facts.failures", partial(fact_extraction.failures, limit=limit))

    afailures = awaited(failures)

    # -- branches ----------------------------------------------------------------------------------------------------

    def at(self, name: str) -> Self:
        """Return the facts of another branch of this namespace, with this model and settings.

        Raises:
            InvalidInput: The name of the branch is invalid.
        """
        return self._on(BranchPosition(self._ground.point.path, id_of(name, "branch"), self._ground.database.scopes))

    def fork(self, name: str) -> KGMemory:
        """Create a branch that sees everything here so far, but no later changes.

        Nothing is copied. `memory.layers` has the same branch.

        Args:
            name: The name of the fork.

        Raises:
            InvalidInput: The name is taken, or this is the memory of a thread.
        """
        return self._on(branches.forking(self._ground, id_of(name, "branch")))

    afork = awaited(fork, writes=True)

    # -- internals ---------------------------------------------------------------------------------------------------

    def _on(self, point: Standpoint) -> Self:
        return type(self)(
            self._database, point, model=self._model, description=self._ground.description, settings=self.settings
        )

    def _keep(self, name: str | None, said: Message) -> None:
        description = self._ground.description
        self._ground.edit(name, lambda facts: facts.keep([said], description=description), messages=[said])

    def _everything(self, facts: FactView) -> list[Fact]:
        """Return the description, all messages and all facts."""
        first, now = self._ground.description if facts.description is None else facts.description, self.now
        there = fact_reader.listing(facts)
        if first is None:
            return there
        described = Fact(
            id=fact_store.DESCRIPTION, role="system", subject="system", predicate=RAW_PREDICATE, object=first,
            valid_from=now, recorded_at=now, raw=True,
        )  # fmt: skip
        return [described, *there]

    def _key_at(self, idx: int) -> str:
        """Return the id of the item at an index of `retrieve_all`."""
        check_value(int, idx, "idx")
        there = self._ground.look(None, self._everything)
        if not -len(there) <= idx < len(there):
            raise MessageError(f"There is nothing at the index {idx}; there are {len(there)} messages and facts.")
        if there[idx].id == fact_store.DESCRIPTION:
            raise MessageError("This is the description; it is given when the memory is made.")
        return there[idx].id

    def _retrieve(
        self, name: str, find: Callable[[FactView], list[Fact]], *, include_ids: bool, **asked: Any
    ) -> list[dict[str, Any]]:
        """Return facts and messages as a provider takes them."""
        check_flag("include_ids", include_ids)

        def look(facts: FactView) -> list[tuple[Fact, Message | None]]:
            items = find(facts)
            raw = facts.named(TEXT, [item.id for item in items if item.raw])
            return [(item, fact_store.message_of(raw[item.id]) if item.id in raw else None) for item in items]

        told = []
        for fact, message in self._ground.look(name, look, **asked):
            shown = _provider_dict(fact) if message is None else message.to_llm_dict(part_of=part_or_placeholder)
            told.append({**shown, "message_id": fact.id} if include_ids else shown)
        return told

    def _wake(self) -> None:
        if self._task is not None:
            self._task.wake()

    def _due_in(self, tx: Transaction) -> float | None:
        """Return the seconds until the next extraction is due; None if none is due soon."""
        if self._asking:
            return None
        now = self._ground.now()
        facts = FactView(tx, self._ground.point.view(tx, now))
        ready, later = fact_extraction.in_time(facts, self.settings.max_attempts, now)
        if ready or later is None:
            return 0.0 if ready else None
        # Do not wait a day for a parked message: the next look after that asks about it.
        pause = (later - now) / 1_000_000
        return pause if pause <= fact_extraction.LONGEST_SILENCE else None

    def _learn_due(self, lease: Lease) -> float | None:
        """Extract facts from waiting messages in the background.

        Returns:
            The seconds until another attempt if the lease was lost, since its new holder may die; else None.
        """
        with self._ground.step("facts.drain") as step:
            learned = fact_extraction.learn(self._ground, self._model, holds=lease.holds, patient=True)
            step.finish(lambda: fact_extraction.summary(learned))
        return backoff(0) if learned and learned[-1].lost else None


def _provider_dict(fact: Fact) -> dict[str, Any]:
    """Return a fact, or the description, as a provider takes it."""
    if fact.raw:
        return {"role": fact.role, "content": fact.object}
    until = "" if fact.valid_to is None else f" (until {fact.valid_to:%Y-%m-%d})"
    role = fact.role if fact.role in ("user", "assistant", "system") else "user"
    return {"role": role, "content": f"Fact ({fact.role}): {fact.text.rstrip('.')}{until}."}
