"""`MemoryInjection`: what is remembered goes into a prompt, into messages, or into what a graph shows its model.

    chain = memory.inject("user-42") | model                    # text, messages or a prompt in, the same out

    builder = StateGraph(CompactionState)                       # in a graph, the memory of the thread
    builder.add_node("memory", memory.inject())
    builder.add_node("answer", lambda state: {"messages": [model.invoke(state["llm_input_messages"])]})

Core memory stands in the prefix, and what was found for a question right before that. In a thread, prompts grow at
their end alone, so that a provider's cache of them lives on: what was brought stays where it is as long as its question
is shown, and is not brought again; changes of core memory are told beside the question, until a compaction begins the
prompt anew. What is deleted, or was rewound, is not shown any more. All of it is data, in fences that nothing in it can
end. `memory.conversation(thread_id).shown()` tells what a prompt was shown, and why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple, TypedDict

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_agentmem.base.argument_checks import check_value, check_whole, texts_given
from langchain_agentmem.base.namespaces import ThreadLike, id_of, path_of
from langchain_agentmem.base.origins import Trust, trusted_given
from langchain_agentmem.conversations import prompt_notes
from langchain_agentmem.conversations.prompt_notes import CHANGES, PromptNote, PromptNoteItem, PromptNotes
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.facts import fact_reader
from langchain_agentmem.facts.fact import Fact
from langchain_agentmem.facts.fact_store import FactView
from langchain_agentmem.language_models.tokens import ARCHIVAL, CORE, RECALL, Budget, BudgetLike, TokenCounter
from langchain_agentmem.layers.layer import CoreEntry, Event, Record, event_of, record_of
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.layers.prompt_context import (
    HEADINGS,
    NEWEST,
    PromptMaterial,
    PromptPassage,
    PromptSection,
    composed,
)
from langchain_agentmem.messages.message import OWN_TOOLS, Message
from langchain_agentmem.messages.message_marks import Role, is_injected
from langchain_agentmem.messages.prompt_forms import MemoryRunnable, PromptTexts, form_of, question_of, woven
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import EVENT, RECORD, MemoryView
from langchain_agentmem.rewinding.outlook import MORE, SearchView, reach_of
from langchain_agentmem.rewinding.thread_memory import standpoint_of
from langchain_agentmem.search import memory_search
from langchain_agentmem.search.analysis import question
from langchain_agentmem.search.memory_search import (
    MemoryKind,
    Recollection,
    SearchFilter,
    group_by_text,
    origin_of,
    trusts,
)
from langchain_agentmem.search.timeline import Order, order_for
from langchain_agentmem.storage import Transaction
from langchain_agentmem.storage.database import Database, MemoryLike, database_of
from langchain_agentmem.storage.part import all_parts
from langchain_agentmem.tracing import brief

logger = logging.getLogger(__name__)

_REPLACED = "perhaps replaced later"
_IN_TIME = {"order": "time"}  # what is noted of a block in the order of time


class InjectionOptions(TypedDict, total=False):
    """What `MemoryInjection` takes beside the memory and whose it is."""

    namespace: Sequence[str] | None
    query: Callable[[Any], str] | None
    kinds: Sequence[MemoryKind] | None
    limit: int
    budget: BudgetLike | None
    role: Role
    trust: Trust | None


class InjectionRequest(NamedTuple):
    """A prompt that memory is for.

    Attributes:
        layers: The layered memory; None if there is none.
        asked: The question.
        messages: The messages, without those that were put in.
        config: The run.
    """

    layers: LayeredMemory | None
    asked: str
    messages: Sequence[BaseMessage]
    config: Mapping[str, Any]


@dataclass(eq=False, repr=False)
class MemoryInjection(MemoryRunnable):
    """Puts memory into whatever a model is about to be given.

    It gives back what it is given, with the memory in it:

    - Messages, or a prompt made of messages: core memory comes after the system messages, and what was found right
      before the last thing the user said, never between a call and its result.
    - A text, or a prompt that is one: both come before it.
    - The state of a graph, or a dictionary that has "messages": as messages. As a node of a graph it leaves the history
      alone and puts the messages under "llm_input_messages", as `CompactionNode` does. Where a node before it has put
      there what it made of this history, such as a compaction, it goes on from that.
    - Any other dictionary: the memory is added as a text under "memory", for a prompt that has this variable.

    Where the question asks for an order of events, a summary, or what contradicts what, what was found stands in the
    order of time, each with its day, and of a change both sides are there; the budget goes to the best all the same.

    Memory that is in the messages already is taken out first; no conversation stores it as if it had been said. Let it
    stand after a compaction, which would take what was brought out of the context with the messages around it.

    Whose memory it is: that of the named branch; else of the thread it runs in, if its graph has this memory's
    checkpointer; else, in a namespace, of its branch "main"; else there is no core memory, and everything in the root
    is searched. A thread or branch in a namespace of its own also finds what else was said and stored there. The root
    namespace reaches every other, so there a thread finds only what is its own, unless `kinds` are given. Of a memory
    whose settings say that agents should not use it, nothing is shown.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        branch_or_config: The name of a branch, a `LayeredMemory`, or the config of a thread. Default: the run's.
        namespace: Whose memory, and where to look: this namespace and all below it. Default: the run's.
        query: Gives the question, from what this is given. Default: the last thing the user said; of a dictionary,
            "input", "question" or "query", or its only text.
        kinds: What is looked for: "record", "event", "message", "item" and so on. Default: see above.
        limit: How much is found at most. Default 8.
        budget: How much room core memory and what is brought for one question may take, see `Budget.of`; what stands
            around it comes on top, and so do changes of core memory. Default: as much as it takes.
        role: In whose role core memory stands: "user" or "system". What is found is always in the user's. Default
            "user".
        trust: How far what is shown must be trusted at least: "user", "person", "model", "tool", "import" or "unknown",
            each with all before it; or which of these are trusted. With "model", what a web page said is not shown, nor
            what was made of that. Default: all is shown.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    memory: MemoryLike
    branch_or_config: str | LayeredMemory | ThreadLike | None = None
    _: KW_ONLY
    namespace: Sequence[str] | None = None
    query: Callable[[Any], str] | None = None
    kinds: Sequence[MemoryKind] | None = None
    limit: int = 8
    budget: BudgetLike | None = None
    role: Role = "user"
    trust: Trust | None = None

    def __post_init__(self) -> None:
        check_value(Role, self.role, "role")
        self._database: Database = database_of(self.memory)
        if isinstance(self.branch_or_config, str):
            id_of(self.branch_or_config, "branch")
        if self.namespace is not None:
            path_of(self.namespace)
        check_value(Callable[..., Any] | None, self.query, "query")
        check_whole("limit", self.limit)
        self._kinds = None if self.kinds is None else tuple(dict.fromkeys(texts_given(self.kinds, "kinds")))
        known = all_parts().kinds
        if unknown := [each for each in self._kinds or () if each not in known]:
            raise InvalidInput(f"There is no {safe_repr(unknown[0])} among kinds; there are {', '.join(known)}.")
        self._budget = Budget.of(self.budget)
        self._trusted = trusted_given(self.trust)
        self._counter = TokenCounter()
        self._warned = False

    def _run(self, given: Any, config: RunnableConfig) -> Any:
        form = form_of(given, config, "memory")
        brought = self._bring(given, form.messages, ensure_config(config))

        def among(messages: list[BaseMessage]) -> list[BaseMessage]:
            return woven(messages, brought, self.role)

        return form.close(among, "\n\n".join(brought.blocks()))

    def _bring(self, given: Any, messages: Sequence[BaseMessage], config: Mapping[str, Any]) -> PromptTexts:
        """What there is to be shown.

        Args:
            given: What the question is taken from.
            messages: The context that the memory is for: what stands there already is not brought.
            config: The run.

        Raises:
            InvalidInput: The function that gives the question gives something else, or the memory that was named is
                that of a thread, and its graph has another checkpointer.
        """
        whose, run = self.branch_or_config, config
        layers = self._layers(config)
        if isinstance(whose, Mapping) and layers is not None:
            config = whose
        if layers is not None and not layers.is_enabled():
            return PromptTexts()
        asked = question_of(self.query, given, messages)[:4_000]
        said = [message for message in messages if not is_injected(message)]
        book = prompt_notes.opening(self._database, run, said, self._reader(layers))
        request = InjectionRequest(layers, asked, said, config)
        with self._database.step("injection.inject", lambda: self._inputs(request)) as step:
            brought, shown = self._compose(book, request)
            step.finish(
                lambda: {
                    "core": [each.key for each in shown.core],
                    "event_ids": [each.id for each in shown.events],
                    "records": [_told(each) for each in shown.records],
                }
            )
        return brought

    def _is_of_one_thread(self, config: Mapping[str, Any]) -> bool:
        """Whether in a run it is the memory of one thread, which no other sees.

        Args:
            config: The run.
        """
        named = (config.get("configurable") or {}).get("thread_id") is not None
        scopes = self._database.scopes
        return (
            named
            and self.branch_or_config is None
            and not self.namespace
            and not scopes.shared(path_of(scopes.resolve(None, config)))
        )

    def _compose(self, book: PromptNotes, request: InjectionRequest) -> tuple[PromptTexts, PromptSection]:
        """Return all that is shown, and what of it stands before the question, with core memory."""
        layers, material = self._always(request.layers)
        request = request._replace(layers=layers)
        prefix, told = self._begun(book, material.core)
        standing = book.standing()
        there = self._again(request, standing)
        new = self._new(request, material.events, there)
        changed_now = {each.key: each.value for each in material.core if told.get(each.key) != each.value}
        recalled: dict[str | None, str] = {}
        for key in [*(key for key in standing if key != book.question), book.question]:
            noted = standing.get(key or "", {})
            values = noted[CHANGES].values if CHANGES in noted else {}
            events = [there[each[:2]] for each in _items(noted, RECALL) if each[:2] in there]
            in_time = ARCHIVAL in noted and noted[ARCHIVAL].values == _IN_TIME
            found = [each for each in _items(noted, ARCHIVAL) if each[:2] in there]
            records = [_passage(there[each[:2]], each, in_time=in_time) for each in found]
            if key == book.question:
                values = {**values, **changed_now}
                events, records = [*events, *new.events], [*records, *new.records]
                in_time = in_time or new.in_time
            changed = [replace(each, value=values[each.key]) for each in material.core if each.key in values]
            changes = composed(PromptMaterial(changed), self._budget, counter=self._counter)
            shown = composed(PromptMaterial(prefix, events, records, in_time), self._budget, counter=self._counter)
            told_anew = changes.text.replace(HEADINGS[CORE], "## Core Memory, changed since", 1)
            texts = {CHANGES: told_anew, **shown.sections}
            core = texts.pop(CORE, "")
            if text := "\n\n".join(filter(None, texts.values())):
                recalled[key] = text
        sizes = {part: self._counter.count_text(text) for part, text in texts.items()}  # the last is the question's
        book.note(CHANGES, [PromptNoteItem(CORE, each) for each in values], sizes[CHANGES], values)
        book.note(RECALL, [PromptNoteItem(EVENT, each.id) for each in shown.events], sizes.get(RECALL, 0))
        order = _IN_TIME if in_time else None
        book.note(ARCHIVAL, [_noted(each) for each in shown.records], sizes.get(ARCHIVAL, 0), order)
        book.keeping(self._database)
        return PromptTexts(core, recalled), shown

    def _begun(self, book: PromptNotes, core: Sequence[CoreEntry]) -> tuple[list[CoreEntry], dict[str, str]]:
        """Core memory as the prompt begins with it, and as it is told by now, changes included.

        A prompt that begins anew begins with what core memory is now. So does one that shows what was deleted, or that
        has no room for what has changed.
        """
        values = {each.key: each.value for each in core}
        before = {} if book.start is None else book.start.values
        told = dict(before)
        for noted in book.standing().values():
            told.update(noted[CHANGES].values if CHANGES in noted else {})
        changed = [each for each in core if before.get(each.key) != each.value]
        changes = composed(PromptMaterial(changed), self._budget, counter=self._counter)
        if book.start is not None and told.keys() <= values.keys() and len(changes.core) == len(changed):
            return [replace(each, value=before[each.key]) for each in core if each.key in before], told
        book.begin(values, sum(self._counter.count_text(f"{key}: {value}") for key, value in values.items()))
        return list(core), values

    def _new(
        self, request: InjectionRequest, events: Sequence[Event], there: Mapping[tuple[str, str], Any]
    ) -> PromptMaterial:
        """What is to be shown beside core memory, and stands nowhere in the context."""
        standing = {text for (_, key), each in there.items() for text in (key, each.content.strip())}
        order = order_for(question(request.asked))
        new: list[Any] = []
        if self.limit and request.asked.strip():
            ids = {each.id for each in request.messages}
            shown = {event.id for event in events} | ids
            texts = {"", *(str(each.text).strip() for each in request.messages)}  # "" as of a call of a tool
            context = frozenset(filter(None, ids)) if all(ids) else None
            found = self._found(request, order, context)
            groups = group_by_text(found, lambda each: each.content)
            new = [each for each, *_ in groups if each.id not in shown and each.content.strip() not in texts]
            new = [each for each in new[: self.limit] if standing.isdisjoint((each.id, each.content.strip()))]
        return PromptMaterial((), [event for event in events if event.id not in standing], new, order == "time")

    def _again(
        self, request: InjectionRequest, standing: Mapping[str, Mapping[str, PromptNote]]
    ) -> dict[tuple[str, str], Any]:
        """What stands in the context already, as it is now, by kind and id."""
        items = [each for noted in standing.values() for part in (RECALL, ARCHIVAL) for each in _items(noted, part)]
        there: dict[tuple[str, str], Any] = {}
        if request.layers is not None and (own := [each for each in items if each.row is None]):
            ground = request.layers._facts_ground

            def look(tx: Transaction, view: MemoryView) -> None:
                for kind, make in ((EVENT, event_of), (RECORD, record_of)):
                    keys = [each.id for each in own if each.kind == kind]
                    kept = memory_rows.named(tx, view, kind, keys) if keys else {}
                    found = {(kind, key): make(each) for key, each in kept.items()}
                    there.update({place: each for place, each in found.items() if trusts(each, self._trusted)})
                facts = FactView(tx, view)
                for each in own:
                    fact = facts.fact(each.id) if each.kind == "fact" else None
                    if fact is not None and trusts(fact, self._trusted):
                        there["fact", each.id] = _fact(fact)

            ground.read(None, look)
        if rows := [each.row for each in items if each.row is not None]:
            walls, outlook = self._reach(request)
            now = self._database.now()
            hits = self._database.read(None, lambda tx: memory_search.again(tx, rows, now=now, outlook=outlook))
            for hit in hits:
                if walls.hold(hit) and trusts(hit, self._trusted):  # the row of what is gone may be another's by now
                    there[hit.kind, hit.id] = _hit(hit)
        return there

    def _reach(self, request: InjectionRequest) -> tuple[SearchFilter, SearchView]:
        """How far a search reaches: the namespace of a layered memory that was given is named."""
        run = None if isinstance(self.branch_or_config, LayeredMemory) else request.config
        return reach_of(self._database, self._named, run)

    def _inputs(self, request: InjectionRequest) -> dict[str, Any]:
        """What a trace shows of what was asked."""
        told: dict[str, Any] = {"query": brief(request.asked), "messages": len(request.messages), "limit": self.limit}
        if request.layers is None:
            return {"namespace": "/".join(self._database.scopes.resolve(self._named, request.config)), **told}
        return request.layers._facts_ground.trace_inputs(**told)

    def _always(self, layers: LayeredMemory | None) -> tuple[LayeredMemory | None, PromptMaterial]:
        """What of a memory is shown whatever the question, and the memory, if it can be read."""
        if layers is None:
            return None, PromptMaterial()
        try:
            core = layers.core.entries()
            most = NEWEST if self._trusted is None else MORE * NEWEST
            events = [] if self._budget.recall == 0 else layers.recall.recent(most)
        except InvalidInput as error:
            if self.branch_or_config is not None:
                raise
            if not self._warned:
                self._warned = True
                logger.warning("A thread's memory cannot be shown, only what a search finds: %s", error)
            return None, PromptMaterial()
        trusted = [each for each in events if trusts(each, self._trusted)]
        return layers, PromptMaterial([each for each in core if trusts(each, self._trusted)], trusted[-NEWEST:])

    @property
    def _named(self) -> Sequence[str] | None:
        """The namespace that is named: that of a layered memory, where that was given."""
        whose = self.branch_or_config
        return whose.namespace if self.namespace is None and isinstance(whose, LayeredMemory) else self.namespace

    def _layers(self, config: Mapping[str, Any]) -> LayeredMemory | None:
        whose = self.branch_or_config
        if isinstance(whose, LayeredMemory):
            return whose
        if isinstance(whose, str):
            return LayeredMemory(self._database, whose, namespace=self._database.scopes.resolve(self.namespace, config))
        if whose is None and (config.get("configurable") or {}).get("thread_id") is None:
            scopes = self._database.scopes
            if not scopes.shared(path_of(scopes.resolve(self.namespace, config))):
                return None
        given = config if whose is None else whose
        return LayeredMemory(self._database, standpoint_of(self._database, given, self.namespace))

    def _reader(self, layers: LayeredMemory | None) -> str:
        """Who notes what is shown: each memory that a thread is shown, or part of one, begins prompts for itself."""
        whose = ""
        if layers is not None and not (self.branch_or_config is None and self.namespace is None):
            whose = f"{path_of(layers.namespace)}{layers.name}"
        return " ".join([whose, *sorted(self._trusted or ())])

    def _found(self, request: InjectionRequest, order: Order, context: frozenset[str] | None) -> list[Any]:
        """What fits a question: the best of each search, then the second best, and so on."""
        layers, asked, _, config = request
        lists: list[list[Any]] = []
        # 30 more than are shown, as some of what is found stands in the context already.
        many = (self.limit + 30) * (1 if self._trusted is None else MORE)
        if layers is not None and (self._kinds is None or "record" in self._kinds):
            records = [each for each in layers.archival.search(asked, many) if trusts(each, self._trusted)]
            lists.append([_record(each) for each in records] if order == "time" else records)
        if layers is not None and (self._kinds is None or "fact" in self._kinds):
            facts = fact_reader.find_facts(layers._facts_ground, asked, many)
            lists.append([_fact(each) for each in facts if trusts(each, self._trusted)])
        if layers is not None and self._kinds is not None and "event" in self._kinds:
            events = layers.recall.search(asked, many)
            lists.append([_event(each, dated=order == "time") for each in events if trusts(each, self._trusted)])
        namespace = self._database.scopes.resolve(self._named, config)
        kinds: Sequence[str] | None = self._kinds  # None for all
        if layers is not None:  # which has looked for its own
            usual = all_parts().usual_kinds if self._database.scopes.shared(path_of(namespace)) else ()
            kinds = [kind for kind in (usual if kinds is None else kinds) if kind not in ("event", "fact", "record")]
        if kinds is None or kinds:
            walls, outlook = self._reach(request)
            search = memory_search.Search(
                question(asked, self._database.now()),
                walls._replace(kinds=all_parts().stored_as(kinds), trusted=self._trusted),
                many,
                outlook=outlook._replace(context=context),
                name="retrieval.search",
                inputs=lambda: {"namespace": "/".join(namespace), "kinds": None if kinds is None else list(kinds)},
                order=order,
            )
            hits = search.find(self._database)
            passages = [_hit(each)._replace(place=place) for place, each in enumerate(hits) if _says(each)]
            lists.append(sorted(passages, key=lambda each: -(each.score or 0.0)))
        return [each for rank in range(many) for found in lists for each in found[rank : rank + 1]]


def _items(noted: Mapping[str, PromptNote], part: str) -> tuple[PromptNoteItem, ...]:
    return noted[part].items if part in noted else ()


def _noted(found: Record | PromptPassage) -> PromptNoteItem:
    """What is noted of something that was found."""
    why, score = found.why, found.score
    signals = {} if why is None else {name: round(value, 4) for name, value in why.parts().items()}
    row = getattr(found, "row", None)
    reason = _REPLACED if isinstance(found, PromptPassage) and found.about.endswith(_REPLACED) else ""
    return PromptNoteItem(getattr(found, "kind", RECORD), found.id, score and round(score, 4), signals, reason, row)


def _passage(found: Event | Record | PromptPassage, noted: PromptNoteItem, *, in_time: bool) -> Record | PromptPassage:
    """Something as it was shown among what was found."""
    if isinstance(found, Event):
        return _event(found, dated=in_time)
    if isinstance(found, Record):
        return _record(found) if in_time else found
    return found._replace(about=f"{found.about}, {_REPLACED}") if noted.reason == _REPLACED else found


def _told(found: Record | PromptPassage) -> dict[str, Any]:
    """What a trace shows of something that was found."""
    return {
        "id": found.id,
        "kind": getattr(found, "kind", RECORD),
        "score": None if found.score is None else round(found.score, 4),
        "why": None if found.why is None else str(found.why),
        "text": brief(found.content),
    }


def _event(event: Event, *, dated: bool) -> PromptPassage:
    """An event, as its line shows it: with its kind, and in a timeline its day."""
    about = f"{event.kind}, {event.created_at:%Y-%m-%d}" if dated else event.kind
    about = _with_origin(about, event)
    return PromptPassage(event.id, event.content, event.created_at, about, (), "event", event.score, event.why)


def _fact(fact: Fact, kind: str = "fact") -> PromptPassage:
    """A fact, as its line shows it: with its time."""
    about = f"{fact.subject}, {fact.valid_from:%Y-%m-%d}" if fact.raw else _with_origin(f"fact, {fact.period}", fact)
    return PromptPassage(fact.id, fact.text, fact.recorded_at, about, (), kind, fact.score, fact.why)


def _record(record: Record) -> PromptPassage:
    """A record, as a line of a timeline shows it: with its day."""
    about = _with_origin(f"{RECORD}, {record.created_at:%Y-%m-%d}", record)
    return PromptPassage(
        record.id, record.content, record.created_at, about, record.tags, RECORD, record.score, record.why
    )


def _with_origin(about: str, found: Any) -> str:
    """A label with where something comes from, where it is known and not what users say."""
    origin = origin_of(found)
    return about if origin.partition(" ")[0] in ("", "user") else f"{about}, {origin}"


def _says(found: Recollection) -> bool:
    """Whether something says more than what a tool was called with, or what a tool of memory answered."""
    said = found.value
    if not isinstance(said, Message):
        return True
    return bool(said.text.strip()) and not (said.role == "tool" and said.name in OWN_TOOLS)


def _hit(found: Recollection) -> PromptPassage:
    """What a search found, as its line shows it: who said it, and when."""
    speaker = found.kind
    if isinstance(found.value, Fact):
        return _fact(found.value, found.kind)._replace(score=found.score, why=found.why, row=found.row)
    if isinstance(found.value, Message):
        speaker = origin_of(found) if found.source == "tool" else str(found.value.name or found.value.role)
    about = f"{speaker}, {found.created_at:%Y-%m-%d}"
    about = about if isinstance(found.value, Message) else _with_origin(about, found)
    about += f", {_REPLACED}" if found.replaced_by else ""
    return PromptPassage(
        found.id, found.text, found.created_at, about, (), found.kind, found.score, found.why, row=found.row
    )
