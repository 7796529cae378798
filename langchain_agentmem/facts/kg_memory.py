"""`KGMemory`: facts that know when they were true, as subject, predicate and object, on a branch or of a thread.

    facts = memory.facts("user-42", model=model)
    facts.add(role="user", content="I moved to Lisbon in March.")     # kept at once; its facts are extracted later
    facts.add_fact("user", "Maya", "works at", "Acme")
    facts.add_fact("user", "Maya", "works at", "Globex")              # so the one before has ended
    facts.as_of(subject="Maya")                                      # what holds now
    facts.history("Maya", "works at")                                # and all that did

It needs no model; with one, facts are extracted from what is added, in the background.

Each fact has the time in which it held and the time at which we learned it, and names the messages that it comes
from. A new value of what has one at a time, such as "lives in", ends the value before; nothing is overwritten, and
`undo` takes it back.

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
the thread. A message that is removed or erased takes the facts that nothing else tells of. `as_of(recorded=…)` says
what was known at some time, `contradictions()` what cannot both be true, `merge(name, into)` that two names are one,
until `unmerge`; `to_networkx` returns the graph.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import partial, update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, Unpack

from langchain_agentmem.base.argument_checks import check_flag, check_whole, limit_given, text_given
from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.events import MemoryResetEvent
from langchain_agentmem.base.lifetime import Attendant, Looked
from langchain_agentmem.base.namespaces import Namespace, id_of, namespace_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations.log_entries import message_of
from langchain_agentmem.conversations.persistence import (
    EventSource,
    additional_in,
    document_of,
    read_document,
    write_document,
)
from langchain_agentmem.errors import InvalidInput, MemoryClosed, MessageError
from langchain_agentmem.facts import fact_commands, fact_graph, fact_part, fact_queries, fact_store, source_texts
from langchain_agentmem.facts.fact import ExtractionFailure, Fact, FactsConfig
from langchain_agentmem.facts.fact_extraction import FactsGround, Learned, learning
from langchain_agentmem.language_models.model_calls import Do, ModelLike, Work, both, usable_model
from langchain_agentmem.messages.message import (
    AgentCallLike,
    Content,
    Message,
    MessageFields,
    MessageLike,
    ToolCallLike,
)
from langchain_agentmem.messages.provider_content import ImageFiles
from langchain_agentmem.rewinding import branch_tree, memory_rows
from langchain_agentmem.rewinding.branches import BranchAt, Standpoint, branch_at
from langchain_agentmem.rewinding.memory_access import as_step, listed, looking
from langchain_agentmem.rewinding.memory_rows import TEXT, View
from langchain_agentmem.storage import Steps, jobs
from langchain_agentmem.storage.database import MemoryLike, database_of
from langchain_agentmem.storage.jobs import Job, WantedJob
from langchain_agentmem.tracing import brief

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

TYPE = "kg"
"""What a file of facts says it is."""
JOBS = "facts"
"""The kind of the jobs by which one process at a time extracts facts."""
_SPEAKERS = ("user", "assistant", "system")


def _verb(
    work: Callable[Concatenate[FactsGround, P], Work[T]],
) -> tuple[Callable[Concatenate[KGMemory, P], T], Callable[Concatenate[KGMemory, P], Coroutine[Any, Any, T]]]:
    """The method of `KGMemory`, and its awaited twin, that do some work where its facts are kept; see `both`."""

    def on_memory(self: KGMemory, /, *args: P.args, **kwargs: P.kwargs) -> Work[T]:
        return work(self._ground, *args, **kwargs)

    update_wrapper(on_memory, work)
    signature = inspect.signature(work)
    ground, *others = signature.parameters.values()
    own = ground.replace(name="self", annotation=inspect.Parameter.empty)
    on_memory.__dict__["__signature__"] = signature.replace(parameters=[own, *others])
    on_memory.__doc__ = re.sub(r" *ground: The facts\.\n", "", work.__doc__ or "")
    on_memory.__qualname__ = f"KGMemory.{work.__name__}"
    work.__qualname__ = on_memory.__qualname__.removesuffix("_work")  # by which Python tells of wrong arguments
    return both(on_memory)


class FactFields(MessageFields, total=False):
    """What `KGMemory.update` changes: of what was said, the fields of a `Message`; of a fact, `role` and these."""

    subject: str
    predicate: str
    obj: str
    valid_from: datetime
    valid_to: datetime | None
    confidence: float | None


class KGMemory(EventSource):
    """Facts on a branch, or of a thread.

    Every method that reads or writes has an awaited twin, with an `a` before its name. Times without a time zone are
    taken as UTC.

    A fact has the time in which it held, `valid_from` up to but not at `valid_to`, and the time at which we learned it.
    A new value of a predicate that has one at a time (see `declare`) ends the one before, which is kept. What is told
    twice is one fact with two sources, as long as it holds. Each fact names the messages that it comes from, and goes
    with the last of them when they are removed or erased.

    On a thread facts rewind with it. There only nodes can change them, so what is added in one is extracted by `drain`
    in a node, or by the node `memory.remember_facts(model)`, and not in the background.

    What waits is never given up. While the model gives no answers it is asked less and less, up to every ten minutes;
    what it makes nonsense of is asked about once a day, and by `drain`. `failures` tells why, and
    `memory.admin.stats()` how many messages wait.

    Attributes:
        memory_type: What `AgentMemory.create` and its files call it: "kg".
        settings: How facts are kept and learned.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        branch: The name of a branch, which begins to exist with the first write; or a standpoint. Default: "main".
        namespace: Whose it is. Default: the running config's, else the root.
        model: Who extracts facts from what is added: a LangChain model, a function from messages to text, or the name
            of a model. Default: nobody; what is added is kept and found.
        description: A text with which the memory begins, and that a reset keeps. Default: the one it has, if any.
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
        if settings is not None and not isinstance(settings, FactsConfig):
            raise InvalidInput(f"settings must be a FactsConfig, not {type(settings).__name__}.")
        if not isinstance(branch, str) and not hasattr(branch, "view"):
            raise InvalidInput(f"Facts are those of a branch; give its name, not {safe_repr(branch)}.")
        if description is not None:
            text_given(description, "A description")
        database = database_of(memory)
        self._model = usable_model(model)
        self._attendant = Attendant(self._look, "agentmem-facts")
        self._asking: list[None] = []  # one for each caller who is having a text extracted just now
        point = branch_at(branch, namespace, database.scopes)
        self.settings = settings or FactsConfig()
        self._ground = FactsGround(database=database, point=point, settings=self.settings, description=description)
        self._database = self._ground.database
        self._wanted = WantedJob(point.path, JOBS, point.name)
        if self._model is not None and isinstance(point, BranchAt):
            self._database.draining.add(self)
            self._attendant.start()
            self._attendant.notify()  # another process may have left something

    @property
    def name(self) -> str:
        """The name of the branch, or the thread's id."""
        return self._ground.point.name

    @property
    def namespace(self) -> Namespace:
        """Whose memory it is."""
        return namespace_of(self._ground.point.path)

    @property
    def now(self) -> datetime:
        """What time it is for this memory, in UTC."""
        return moment(self._ground.now())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({safe_repr(self.name)}, namespace={safe_repr(self.namespace)})"

    # -- facts: see `fact_commands`, `fact_queries` and `fact_graph` -------------------------------------------------

    add_fact, aadd_fact = _verb(fact_commands.add_fact_work)
    undo, aundo = _verb(fact_commands.undo_work)
    declare, adeclare = _verb(fact_commands.declare_work)
    merge, amerge = _verb(fact_commands.merge_work)
    unmerge, aunmerge = _verb(fact_commands.unmerge_work)
    remove_by_id, aremove_by_id = _verb(fact_commands.remove_by_id_work)

    get, aget = _verb(fact_queries.get_work)
    as_of, aas_of = _verb(fact_queries.as_of_work)
    latest, alatest = _verb(fact_queries.latest_work)
    history, ahistory = _verb(fact_queries.history_work)
    contradictions, acontradictions = _verb(fact_queries.contradictions_work)
    evidence, aevidence = _verb(fact_queries.evidence_work)
    from_message, afrom_message = _verb(fact_queries.from_message_work)
    search, asearch = _verb(fact_queries.search_work)
    format_for_prompt, aformat_for_prompt = _verb(fact_queries.format_for_prompt_work)

    aliases, aaliases = _verb(fact_graph.aliases_work)
    entities, aentities = _verb(fact_graph.entities_work)
    neighbours, aneighbours = _verb(fact_graph.neighbours_work)
    to_networkx, ato_networkx = _verb(fact_graph.to_networkx_work)

    # -- what was said -----------------------------------------------------------------------------------------------

    def _add_work(
        self,
        message: MessageLike | None = None,
        *,
        role: str | None = None,
        content: Content = None,
        name: str | None = None,
        tool_calls: Sequence[ToolCallLike] | None = None,
        agent_calls: Sequence[AgentCallLike] | None = None,
        images: Sequence[str] | None = None,
        tool_call_id: str | None = None,
    ) -> Work[str]:
        """Keep what was said, and have facts extracted from it later; nobody waits for a model.

        The same message added again, by its id, is kept once.

        Args:
            message: A `Message`, a LangChain message or a dictionary of `Message`'s fields. It takes precedence.
            role: "user", "assistant", "system", "tool", or another; needed when there is no `message`.
            content: Text, a dictionary, or a list of content blocks.
            name: The name of the speaker or of the tool.
            tool_calls: Tool calls, as values or dictionaries.
            agent_calls: Agent calls, as values or dictionaries.
            images: Paths or URLs.
            tool_call_id: Which call a tool's message answers.

        Returns:
            The message's id.

        Raises:
            MessageError: Neither message nor role is given, the message is malformed, or its id is taken by other
                content.
        """
        said, _ = message_of(
            message,
            new_id=self._database.new_id,
            role=role,
            content=content,
            name=name,
            tool_calls=tool_calls,
            agent_calls=agent_calls,
            images=images,
            tool_call_id=tool_call_id,
        )
        yield from fact_commands.keep(self._ground, [said])
        self._attendant.notify()
        return said.message_id

    add, aadd = both(_add_work)

    def _update_work(self, /, message_id: str, **changes: Unpack[FactFields]) -> Work[None]:
        """Change what was said, and have it extracted anew; or correct a fact.

        Args:
            message_id: The id of either.
            **changes: Of what was said, fields of `Message`; of a fact, `role`, `subject`, `predicate`, `obj`,
                `valid_from`, `valid_to` (None: it goes on) and `confidence`.

        Raises:
            InvalidInput: A value cannot be one.
            MessageError: There is neither, the fact was taken back, or a change does not fit.
        """
        if (yield from fact_commands.update(self._ground, message_id, changes)):
            self._attendant.notify()

    update, aupdate = both(_update_work)

    def _replace_memory_work(self, /, idx: int, **changes: Unpack[FactFields]) -> Work[None]:
        """`update`, of what stands at an index of `retrieve_all`.

        Args:
            idx: The index; negative ones count from the end.
            **changes: As for `update`.

        Raises:
            MessageError: Nothing stands there, or a change does not fit.
        """
        yield from self._update_work((yield from self._key_at(idx)), **changes)

    replace_memory, areplace_memory = both(_replace_memory_work)

    def _delete_memory_work(self, idx: int) -> Work[None]:
        """`remove_by_id`, of what stands at an index of `retrieve_all`.

        Args:
            idx: The index; negative ones count from the end.

        Raises:
            MessageError: Nothing stands there.
        """
        yield from fact_commands.remove_by_id_work(self._ground, (yield from self._key_at(idx)))

    delete_memory, adelete_memory = both(_delete_memory_work)

    def _reset_memory_work(self) -> Work[None]:
        """Delete everything but the description, and what is declared of predicates. Listeners are told."""
        yield from fact_commands.reset(self._ground)
        now = self._database.clock()
        self._tell(lambda agent_name: MemoryResetEvent(agent_name=agent_name, timestamp=now))

    reset_memory, areset_memory = both(_reset_memory_work)

    # -- what a provider takes ---------------------------------------------------------------------------------------

    def _retrieve_all_work(self, *, include_ids: bool = False) -> Work[list[dict[str, Any]]]:
        """The description, what was said and the facts, as a provider takes them, oldest first.

        Args:
            include_ids: Whether to tell each one's "message_id". Default: False.
        """
        return self._retrieved("all", self._everything(), include_ids)

    retrieve_all, aretrieve_all = both(_retrieve_all_work)

    def _get_messages_work(self) -> Work[list[dict[str, Any]]]:
        """The same as `retrieve_all`."""
        return self._retrieve_all_work()

    get_messages, aget_messages = both(_get_messages_work)

    def _retrieve_recent_work(self, n: int = 1, *, include_ids: bool = False) -> Work[list[dict[str, Any]]]:
        """The last of what was said and of the facts, oldest first.

        Args:
            n: How many. Default: 1.
            include_ids: Whether to tell each one's "message_id". Default: False.

        Raises:
            InvalidInput: n is no whole number of 0 or more.
        """
        check_whole("n", n)
        return self._retrieved("recent", self._latest(n), include_ids, n=n)

    retrieve_recent, aretrieve_recent = both(_retrieve_recent_work)

    def _retrieve_by_id_work(self, message_id: str, *, include_ids: bool = False) -> Work[dict[str, Any] | None]:
        """What was said, or the fact, under an id; None where there is none.

        Args:
            message_id: The id.
            include_ids: Whether to tell its "message_id". Default: False.
        """
        text_given(message_id, "An id")
        return next(
            iter((yield from self._retrieved("by_id", self._one(message_id), include_ids, id=message_id))), None
        )

    retrieve_by_id, aretrieve_by_id = both(_retrieve_by_id_work)

    def _retrieve_by_role_work(
        self, role: str, n: int | None = None, *, include_ids: bool = False
    ) -> Work[list[dict[str, Any]]]:
        """What somebody said, and the facts that they stated, oldest first.

        Args:
            role: Who, such as "user".
            n: The last of them, at most so many. Default: all.
            include_ids: Whether to tell each one's "message_id". Default: False.

        Raises:
            InvalidInput: An argument is wrong.
        """
        if n is not None:
            check_whole("n", n)
        work = self._latest(n, fact_commands.role_given(role))
        return self._retrieved("by_role", work, include_ids, role=role, n=n)

    retrieve_by_role, aretrieve_by_role = both(_retrieve_by_role_work)

    # -- files -------------------------------------------------------------------------------------------------------

    def _save_to_file_work(
        self, path: str | os.PathLike[str], additional_state: Mapping[str, Any] | None = None
    ) -> Work[None]:
        """Write this memory to a JSON file, whole or not at all: facts with their history, and what waits.

        Args:
            path: Where to. A file that is there is replaced.
            additional_state: What to keep beside it; JSON must be able to hold it. Default: nothing.

        Raises:
            InvalidInput: The additional state is not JSON, or the file cannot be written.
        """
        records = yield from fact_part.dump(self._ground)
        yield Do(lambda: write_document(path, document_of(TYPE, records, additional_state)))

    save_to_file, asave_to_file = both(_save_to_file_work)

    def _load_from_file_work(self, path: str | os.PathLike[str]) -> Work[dict[str, Any] | None]:
        """Take the place of what this memory holds with what a file holds.

        Args:
            path: A file that `save_to_file` wrote.

        Returns:
            The additional state in the file, or None.

        Raises:
            InvalidInput: The file is missing, damaged or of another kind. This memory is as it was.
        """
        document = yield Do(partial(read_document, path, TYPE))
        yield from fact_part.load(self._ground, document["entries"])
        self._attendant.notify()
        return additional_in(document)

    load_from_file, aload_from_file = both(_load_from_file_work)

    # -- extraction --------------------------------------------------------------------------------------------------

    def _extract_and_update_from_text_work(self, text: str, role: str = "user") -> Work[list[Fact]]:
        """Keep a text and extract its facts at once.

        Args:
            text: What was said.
            role: Who said it. Default: "user".

        Returns:
            The facts that it tells of. Where the model fails, none; the text waits to be asked about again, and
            `failures` says why.

        Raises:
            InvalidInput: There is no model, or an argument is wrong.
        """
        if self._model is None:
            raise InvalidInput(
                "To extract facts a model is needed: memory.facts(…, model=…). Without one, use add_fact()."
            )
        content, role = text_given(text, "The text"), fact_commands.role_given(role)
        said, _ = message_of(new_id=self._database.new_id, role=role, content=content)
        self._asking.append(None)  # meanwhile nobody begins to ask about it in the background too
        try:
            return (
                yield from as_step(
                    self._ground,
                    "facts.remember",
                    self._extracted(said),
                    outputs=fact_store.facts_shown,
                    messages=partial(fact_store.messages_shown, [said]),
                )
            )
        finally:
            self._asking.pop()
            self._attendant.notify()

    extract_and_update_from_text, aextract_and_update_from_text = both(_extract_and_update_from_text_work)

    def _drain_work(self) -> Work[int]:
        """Have facts extracted from all that waits, now, and wait for it.

        Where an answer cannot be used the model is asked again at once, up to `max_attempts` of the settings; then the
        message is parked. Where the model gives no answer, it is asked once more, and this ends. What it failed at goes
        on waiting, and `failures` says why; nothing of that is raised.

        Whoever else extracts just now, in the background or in another process, is waited for; one that died holds
        the right to do so for some seconds yet.

        Returns:
            How many messages this call has had read, beside those that others did; 0 without a model.
        """
        if self._model is None:
            return 0
        learned = Learned()
        work = learning(self._ground, self._model, learned=learned)
        if isinstance(self._ground.point, BranchAt):
            work = self._in_turn(learned)
        yield from as_step(self._ground, "facts.drain", work, outputs=Learned.told)
        return learned.messages

    drain, adrain = both(_drain_work)

    def _waiting_work(self) -> Work[int]:
        """How many messages wait to have facts extracted from them."""

        def look(view: View) -> Steps[int]:
            return len((yield from source_texts.waiting(view)))

        return looking(self._ground, "facts.waiting", look, outputs=lambda count: {"waiting": count})

    waiting, awaiting = both(_waiting_work)

    def _failures_work(self, limit: int | None = None) -> Work[list[ExtractionFailure]]:
        """What went wrong when facts were extracted, the newest last; the last 100 are kept.

        Args:
            limit: The last of them, at most so many. Default: all.
        """
        look = partial(source_texts.failures, limit=limit_given(limit))

        def told(found: list[ExtractionFailure]) -> dict[str, Any]:
            some = [{"message_ids": each.message_ids, "failure": brief(each.error), "at": each.at} for each in found]
            return {"count": len(found), "failures": some}

        return looking(self._ground, "facts.failures", look, outputs=told)

    failures, afailures = both(_failures_work)

    # -- branches ----------------------------------------------------------------------------------------------------

    def at(self, name: str) -> Self:
        """The facts of another branch of this namespace, with the same model and settings.

        Raises:
            InvalidInput: This cannot be the name of a branch.
        """
        return self._on(BranchAt(self._ground.point.path, id_of(name, "branch"), self._ground.database.scopes))

    def _fork_work(self, name: str) -> Work[KGMemory]:
        """Begin a branch here: it sees all that this one has, and nothing of what comes later. Nothing is copied.

        The branch is that of `memory.layers` too.

        Args:
            name: The name of the fork.

        Raises:
            InvalidInput: The name is taken, or this is the memory of a thread.
        """
        return self._on((yield from branch_tree.forking(self._ground, id_of(name, "branch"))))

    fork, afork = both(_fork_work)

    # -- plumbing ----------------------------------------------------------------------------------------------------

    def _on(self, point: Standpoint) -> Self:
        return type(self)(
            self._database, point, model=self._model, description=self._ground.description, settings=self.settings
        )

    def _retrieved(
        self, verb: str, work: Work[list[_Item]], include_ids: Any, **asked: Any
    ) -> Work[list[dict[str, Any]]]:
        check_flag("include_ids", include_ids)
        there = yield from as_step(
            self._ground,
            f"facts.retrieve_{verb}",
            work,
            outputs=lambda some: listed("ids", some, lambda each: each[0]),
            **asked,
        )
        return [{**told, "message_id": key} if include_ids else told for key, told in there]

    def _everything(self) -> Work[list[_Item]]:
        """The description, and all that was said and all facts."""
        description = yield from fact_commands.description_of(self._ground)
        first = [] if description is None else [(fact_commands.DESCRIPTION, {"role": "system", "content": description})]
        return first + (yield from self._latest(None))

    def _latest(self, limit: int | None, role: str | None = None) -> Work[list[_Item]]:
        """The last of what was said and of the facts, in the order in which they came; of a role, if one is given."""
        if limit == 0:
            return []
        if role is None:
            facts = yield from fact_queries.listing(self._ground, limit=limit)
        else:
            facts = yield from fact_queries.listing(self._ground, wanted=lambda fact: fact.role == role)
        return (yield from self._items(facts if limit is None else facts[max(0, len(facts) - limit) :]))

    def _one(self, key: str) -> Work[list[_Item]]:
        look = partial(fact_queries.fact_in, self._ground, key)
        fact = yield from looking(self._ground, "facts.get", look, shown=False)
        return (yield from self._items([] if fact is None else [fact]))

    def _key_at(self, idx: int) -> Work[str]:
        """The id of what stands at an index among all that is shown, the description included."""
        if isinstance(idx, bool) or not isinstance(idx, int):
            raise InvalidInput(f"An index is a whole number, not {safe_repr(idx)}.")
        there = yield from self._everything()
        if not -len(there) <= idx < len(there):
            raise MessageError(f"There is nothing at the index {idx}; there are {len(there)} messages and facts.")
        key, told = there[idx]
        if key == fact_commands.DESCRIPTION and told["role"] == "system" and idx in (0, -len(there)):
            raise MessageError("This is the description; it is given when the memory is made.")
        return key

    def _items(self, facts: Sequence[Fact]) -> Work[list[_Item]]:
        raw = [fact.id for fact in facts if fact.raw]
        images = ImageFiles()

        def look(view: View) -> Steps[dict[str, Message]]:
            found = yield from memory_rows.named(view, TEXT, raw)
            return {key: fact_store.message_of(kept) for key, kept in found.items()}

        messages = (yield from looking(self._ground, "facts.messages", look, shown=False)) if raw else {}

        def items() -> list[_Item]:
            return [(fact.id, _provider_dict(fact, messages.get(fact.id), images)) for fact in facts]

        if not any(message.images for message in messages.values()):
            return items()
        found: list[_Item] = yield Do(items)  # files are read, and not on an event loop
        for event in images.events(self.namespace, self.name):
            self._database.hooks.emit(event)
        return found

    def _extracted(self, said: Message) -> Work[list[Fact]]:
        yield from fact_commands.keep(self._ground, [said], shown=False)
        yield from learning(self._ground, self._model, wanted=lambda due: due.key == said.message_id, patient=True)
        look = partial(fact_queries.facts_told_by, self._ground, said.message_id)
        return (yield from looking(self._ground, "facts.from_message", look, shown=False))

    def _in_turn(self, learned: Learned) -> Work[Learned]:
        """Learn once it is this memory's turn, and until nobody else is at it."""
        while True:
            learned.lost = False
            learn = partial(self._learn, learned, patient=False)
            pause = yield Do(partial(self._database.worker.attempt, self._wanted, learn))
            if pause is None and not learned.lost:
                return learned
            yield Do(partial(time.sleep, pause or 0.0))

    def _look(self) -> Looked:
        """Extract facts from what waits, in the background."""
        learned, pause = Learned(), None
        try:
            due_in = self._database.engine.read(self._due_in)
            if self._asking:
                return Looked()
            if due_in == 0:
                pause = self._database.worker.attempt(self._wanted, partial(self._learn, learned, patient=True))
                due_in = self._database.engine.read(self._due_in)
        except MemoryClosed:
            return Looked(over=True)
        except Exception:  # what waits goes on waiting
            if not self._database.engine.usable:
                return Looked(over=True)
            logger.warning("No facts were extracted for %r; it will be tried again.", self.name, exc_info=True)
            return Looked(jobs.pause(0), failed=True)
        if learned.lost:  # whoever has the right now may die
            pause = jobs.pause(0)
        again_in = due_in if pause is None else pause
        # Nobody waits here for what is parked for a day: whoever looks then asks about it.
        return Looked(None if again_in is None or again_in > source_texts.LONGEST_SILENCE else again_in)

    def _due_in(self) -> Steps[float | None]:
        """The seconds after which the model may be asked about something that waits; None if nothing does."""
        now = self._ground.now()
        waits = yield from source_texts.waiting((yield from self._ground.point.view(now)))
        ready, later = source_texts.in_time(waits, self.settings.max_attempts, now)
        return 0.0 if ready else None if later is None else (later - now) / 1_000_000

    def _learn(self, learned: Learned, job: Job, *, patient: bool) -> None:
        work = learning(self._ground, self._model, learned=learned, holds=partial(jobs.holds, job), patient=patient)
        # `drain` is one step, however often it has to try; in the background nothing else shows what is done.
        self._do(as_step(self._ground, "facts.drain", work, outputs=Learned.told) if patient else work)


_Item: TypeAlias = tuple[str, dict[str, Any]]
"""Something that is shown: its id, and what a provider is given."""


def _provider_dict(fact: Fact, message: Message | None, images: ImageFiles) -> dict[str, Any]:
    """A fact, or the message that was kept, as a provider takes it."""
    if message is not None:
        return message.to_llm_dict(part_of=images.of(fact.id))
    until = "" if fact.valid_to is None else f" (until {fact.valid_to:%Y-%m-%d})"
    role = fact.role if fact.role in _SPEAKERS else "user"
    return {"role": role, "content": f"Fact ({fact.role}): {fact.text.rstrip('.')}{until}."}
