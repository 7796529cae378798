"""`MemoryInjection`: puts memory into a prompt, into messages, or into the input that a graph passes to its model.

    chain = memory.inject("user-42") | model                    # text, messages or a prompt in, the same out

    builder = StateGraph(CompactionState)                       # in a graph, the memory of the thread
    builder.add_node("memory", memory.inject())
    builder.add_node("answer", lambda state: {"messages": [model.invoke(state["llm_input_messages"])]})

Core memory is in the prefix, and the hits for a question are right before that question. In a thread, prompts grow only
at their end, so that a provider's cache of them stays valid: injected memory stays in place as long as its question is
shown, and is not injected again. Changes of core memory are next to the question, until a compaction begins the prompt
anew. Deleted or rewound memory is no longer shown. All of it is data, in fences that its content cannot end.
`memory.conversation(thread_id).shown()` returns what each prompt was shown, and why.
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
_IN_TIME = {"order": "time"}  # the note of a block in the order of time


class InjectionOptions(TypedDict, total=False):
    """The keyword options of `MemoryInjection`."""

    namespace: Sequence[str] | None
    query: Callable[[Any], str] | None
    kinds: Sequence[MemoryKind] | None
    limit: int
    budget: BudgetLike | None
    role: Role
    trust: Trust | None


class InjectionRequest(NamedTuple):
    """A prompt to inject memory into.

    Attributes:
        layers: The layered memory; None if there is none.
        asked: The question.
        messages: The messages, without injected ones.
        config: The config of the run.
    """

    layers: LayeredMemory | None
    asked: str
    messages: Sequence[BaseMessage]
    config: Mapping[str, Any]


@dataclass(eq=False, repr=False)
class MemoryInjection(MemoryRunnable):
    """A Runnable that puts memory into the input of a model.

    It returns its input with the memory in it:

    - Messages, or a prompt made of messages: core memory comes after the system messages, and hits right before the
      last user message, never between a call and its result.
    - A text, or a prompt that is one: both come before it.
    - The state of a graph, or a dictionary that has "messages": as messages. As a node of a graph it does not change
      the history and puts the messages under "llm_input_messages", as `CompactionNode` does. If an earlier node has put
      its version of this history there, such as a compaction, it continues from that.
    - Any other dictionary: the memory is added as a text under "memory", for a prompt that has this variable.

    If the question asks for an order of events, a summary, or contradictions, the hits are in the order of time, each
    with its day, and both sides of a change are included. The budget still goes to the best hits.

    Memory that is in the messages already is removed first; no conversation stores it as a message. Place the injection
    after a compaction, which would otherwise remove injected memory with the messages around it.

    The memory is that of the named branch; else of the thread it runs in, if its graph has this memory's checkpointer;
    else, in a namespace, of its branch "main"; else there is no core memory, and everything in the root is searched. A
    thread or branch in a namespace of its own also finds other messages and memory stored there. The root namespace
    reaches every other, so there a thread finds only its own memory, unless `kinds` are given. A memory whose settings
    disable it for agents is not shown.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        branch_or_config: The name of a branch, a `LayeredMemory`, or the config of a thread. Default: the run's.
        namespace: The namespace of the memory; the search covers it and all below it. Default: the run's.
        query: A function from the input to the question. Default: the last user message; of a dictionary, "input",
            "question" or "query", or its only text.
        kinds: The kinds to search: "record", "event", "message", "item" and so on. Default: see above.
        limit: The maximum number of hits. Default: 8.
        budget: The room for core memory and the hits of one question, see `Budget.of`. The text around them and changes
            of core memory come on top. Default: unlimited.
        role: The role of the message with core memory: "user" or "system". Hits always have the role "user". Default:
            "user".
        trust: The least trusted source to show: "user", "person", "model", "tool", "import" or "unknown", each with all
            before it; or the trusted sources. With "model", the content of a web page is not shown, nor anything
            derived from it. Default: all is shown.

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
        """Return the texts to inject.

        Args:
            given: The input, from which the question is taken.
            messages: The context of the prompt; memory that it contains already is not injected again.
            config: The config of the run.

        Raises:
            InvalidInput: The function for the question returns something else, or the named memory is that of a
                thread whose graph has another checkpointer.
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
        """Return whether a run uses the memory of one thread, which no other thread sees.

        Args:
            config: The config of the run.
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
        """Return all texts to show, and the sections before the question, with core memory."""
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
        """Return core memory as the prompt begins with it, and the values shown so far.

        A prompt that begins anew begins with the present core memory. So does one that shows deleted values, or that
        has no room for the changes.
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
        """Return the events and hits to show that are not in the context yet."""
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
        """Return the present versions of what the context shows already, by kind and id."""
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
                if walls.hold(hit) and trusts(hit, self._trusted):  # a deleted entry's row may be another's by now
                    there[hit.kind, hit.id] = _hit(hit)
        return there

    def _reach(self, request: InjectionRequest) -> tuple[SearchFilter, SearchView]:
        """Return the filter and view of a search; a given layered memory names its namespace."""
        run = None if isinstance(self.branch_or_config, LayeredMemory) else request.config
        return reach_of(self._database, self._named, run)

    def _inputs(self, request: InjectionRequest) -> dict[str, Any]:
        """Return the inputs of a request that a trace shows."""
        told: dict[str, Any] = {"query": brief(request.asked), "messages": len(request.messages), "limit": self.limit}
        if request.layers is None:
            return {"namespace": "/".join(self._database.scopes.resolve(self._named, request.config)), **told}
        return request.layers._facts_ground.trace_inputs(**told)

    def _always(self, layers: LayeredMemory | None) -> tuple[LayeredMemory | None, PromptMaterial]:
        """Return the memory, None if unreadable, and what every question shows of it."""
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
        """The given namespace, or that of a given layered memory."""
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
        """Return the key of the notes: each memory, and each level of trust, has its own."""
        whose = ""
        if layers is not None and not (self.branch_or_config is None and self.namespace is None):
            whose = f"{path_of(layers.namespace)}{layers.name}"
        return " ".join([whose, *sorted(self._trusted or ())])

    def _found(self, request: InjectionRequest, order: Order, context: frozenset[str] | None) -> list[Any]:
        """Return hits for a question: the best of each search, then the second best, and so on."""
        layers, asked, _, config = request
        lists: list[list[Any]] = []
        # 30 more than are shown, as some hits are in the context already.
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
        if layers is not None:  # its own entries were searched above
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
    """Convert a hit to the item that prompt notes keep."""
    why, score = found.why, found.score
    signals = {} if why is None else {name: round(value, 4) for name, value in why.parts().items()}
    row = getattr(found, "row", None)
    reason = _REPLACED if isinstance(found, PromptPassage) and found.about.endswith(_REPLACED) else ""
    return PromptNoteItem(getattr(found, "kind", RECORD), found.id, score and round(score, 4), signals, reason, row)


def _passage(found: Event | Record | PromptPassage, noted: PromptNoteItem, *, in_time: bool) -> Record | PromptPassage:
    """Return an entry as it was shown among the hits."""
    if isinstance(found, Event):
        return _event(found, dated=in_time)
    if isinstance(found, Record):
        return _record(found) if in_time else found
    return found._replace(about=f"{found.about}, {_REPLACED}") if noted.reason == _REPLACED else found


def _told(found: Record | PromptPassage) -> dict[str, Any]:
    """Return the fields of a hit that a trace shows."""
    return {
        "id": found.id,
        "kind": getattr(found, "kind", RECORD),
        "score": None if found.score is None else round(found.score, 4),
        "why": None if found.why is None else str(found.why),
        "text": brief(found.content),
    }


def _event(event: Event, *, dated: bool) -> PromptPassage:
    """Convert an event to a passage labelled with its kind and, if dated, its day."""
    about = f"{event.kind}, {event.created_at:%Y-%m-%d}" if dated else event.kind
    about = _with_origin(about, event)
    return PromptPassage(event.id, event.content, event.created_at, about, (), "event", event.score, event.why)


def _fact(fact: Fact, kind: str = "fact") -> PromptPassage:
    """Convert a fact to a passage labelled with its time."""
    about = f"{fact.subject}, {fact.valid_from:%Y-%m-%d}" if fact.raw else _with_origin(f"fact, {fact.period}", fact)
    return PromptPassage(fact.id, fact.text, fact.recorded_at, about, (), kind, fact.score, fact.why)


def _record(record: Record) -> PromptPassage:
    """Convert a record to a passage labelled with its day, for a timeline."""
    about = _with_origin(f"{RECORD}, {record.created_at:%Y-%m-%d}", record)
    return PromptPassage(
        record.id, record.content, record.created_at, about, record.tags, RECORD, record.score, record.why
    )


def _with_origin(about: str, found: Any) -> str:
    """Add the origin of a hit to a label, unless it is unknown or a user."""
    origin = origin_of(found)
    return about if origin.partition(" ")[0] in ("", "user") else f"{about}, {origin}"


def _says(found: Recollection) -> bool:
    """Return whether a hit is more than a tool call or the result of a memory tool."""
    said = found.value
    if not isinstance(said, Message):
        return True
    return bool(said.text.strip()) and not (said.role == "tool" and said.name in OWN_TOOLS)


def _hit(found: Recollection) -> PromptPassage:
    """Convert a search hit to a passage labelled with its speaker or kind and its day."""
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
