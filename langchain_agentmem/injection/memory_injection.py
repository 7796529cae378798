"""`MemoryInjection`: puts memory into a text, a prompt, messages or the state of a graph.

    chain = memory.inject("user-42") | model                    # accepts text, messages or a prompt

    builder = StateGraph(CompactionState)                       # in a graph: the thread's memory
    builder.add_node("memory", memory.inject())
    builder.add_node("answer", lambda state: {"messages": [model.invoke(state["llm_input_messages"])]})

Core memory is in the prefix of a prompt, and the hits for a question are directly before that question. In a thread,
prompts grow only at their end, so that the provider's prompt cache stays valid. Injected memory stays in place as long
as its question is in the prompt, and is not injected again. Later changes of core memory are placed before the current
question. After a compaction, the prefix contains the current core memory again. Deleted or rewound memory is removed.
Injected memory is marked as data, and its content cannot close the delimiters around it.
`memory.conversation(thread_id).prompt_notes()` returns the items injected into each prompt, and why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypedDict

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_agentmem.base.argument_checks import check_integer, check_value, parse_texts
from langchain_agentmem.base.namespaces import ThreadLike, check_id, path_of
from langchain_agentmem.base.origins import Trust, parse_trust
from langchain_agentmem.conversations import prompt_notes
from langchain_agentmem.conversations.prompt_notes import CHANGES, PromptNote, PromptNoteItem, PromptNotes
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.facts import fact_reader
from langchain_agentmem.facts.fact import Fact
from langchain_agentmem.facts.fact_store import FactView
from langchain_agentmem.language_models.tokens import ARCHIVAL, CORE, RECALL, Budget, BudgetLike, TokenCounter
from langchain_agentmem.layers import prompt_context
from langchain_agentmem.layers.layer import CoreEntry, Event, Record, convert_event, convert_record
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.layers.prompt_context import PromptMaterial, PromptPassage, PromptSections, compose
from langchain_agentmem.messages.message import OWN_TOOLS, Message
from langchain_agentmem.messages.message_marks import Role, is_injected
from langchain_agentmem.messages.prompt_forms import MemoryRunnable, MemoryTexts, insert_memory, question_of, read_form
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import EVENT, RECORD, MemoryView
from langchain_agentmem.rewinding.search_view import LIMIT_GROWTH, SearchView, resolve_search
from langchain_agentmem.rewinding.thread_memory import resolve_position
from langchain_agentmem.search import memory_search
from langchain_agentmem.search.analysis import analyze_query
from langchain_agentmem.search.memory_search import MemoryKind, Recollection, SearchFilter, is_trusted, origin_of
from langchain_agentmem.search.timeline import Order, choose_order
from langchain_agentmem.storage import Transaction
from langchain_agentmem.storage.database import Database, MemoryLike, database_of
from langchain_agentmem.storage.part import all_parts
from langchain_agentmem.tracing import shorten_text

logger = logging.getLogger(__name__)

_REPLACED_LABEL = "perhaps replaced later"  # the label of a hit with an outdated value
_TIME_ORDER = {"order": "time"}  # the `values` of a prompt note (`PromptNote`) whose hits are in the order of time


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
        query: The question.
        messages: The messages of the prompt, without injected memory.
        config: The config that selects the memory: `branch_or_config` if that is a config, else that of the run.
    """

    layers: LayeredMemory | None
    query: str
    messages: Sequence[BaseMessage]
    config: Mapping[str, Any]


@dataclass(eq=False, repr=False)
class MemoryInjection(MemoryRunnable):
    """A Runnable that puts memory into the input of a model.

    It returns its input with the memory in it:

    - Messages, or a prompt made of messages: core memory comes after the system messages. Hits come directly before the
      last user message, never between a tool call and its result.
    - A text, or a prompt that consists of a text: core memory and hits come before the text.
    - The state of a graph, or a dictionary with the key "messages": its messages are treated as above. A node of a
      graph does not change the history. It returns the messages under "llm_input_messages", as `CompactionNode` does.
      If an earlier node, such as a compaction, stored messages under this key, memory is added to those messages.
    - Any other dictionary: the memory is added as a text under "memory", for a prompt that has this variable.

    If the question asks for an order of events, a summary, or contradictions, the hits are in the order of time, each
    with its day. Hits then include the values before and after a change. If not all hits fit the budget, the best stay.

    The Runnable first removes memory that the messages already contain. No conversation stores injected memory as a
    message. Place the injection after a compaction, which would otherwise remove injected memory with the messages
    around it.

    The first of these that exists is injected:

    - The memory of `branch_or_config`.
    - The memory of the run's thread, if the graph was compiled with the checkpointer of `memory`.
    - The branch "main" of the namespace, if that is not the root.

    If none of these exists, there is no core memory, and the search covers all namespaces. In a namespace other than
    the root, the search also finds messages and the memory of other threads. In the root, a thread finds only its own
    memory, unless `kinds` are passed, because a search in the root covers all namespaces. Memory with the setting
    `enabled=False` is not injected.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        branch_or_config: The name of a branch, a `LayeredMemory`, or the config of a thread. Default: see above.
        namespace: The namespace of the memory; the search covers it and all below it. Default: that of the run.
        query: A function from the input to the question. Default: the last user message. For a dictionary without
            messages: its key "input", "question", "query" or "user_query", or its only text.
        kinds: The kinds to search: "record", "event", "message", "item" and so on. Default: see above.
        limit: The maximum number of hits. Default: 8.
        budget: The maximum size of core memory and the hits of one question, see `Budget.of`. Delimiters and changes of
            core memory are not included. Default: unlimited.
        role: The role of the message with core memory: "user" or "system". Hits always have the role "user". Default:
            "user".
        trust: The least trusted source to inject, or a list of exactly the sources to inject. The order of trust is
            "user", "person", "model", "tool", "import", "unknown". With "model", the results of tools, such as a web
            page, are not injected; notes that the agent wrote about that page are. Default: all sources.

    Raises:
        InvalidInput: An argument is invalid.
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
            check_id(self.branch_or_config, "branch")
        if self.namespace is not None:
            path_of(self.namespace)  # raises InvalidInput now, not in the first run
        check_value(Callable[..., Any] | None, self.query, "query")
        check_integer("limit", self.limit)
        self._kinds = None if self.kinds is None else tuple(dict.fromkeys(parse_texts(self.kinds, "kinds")))
        valid_kinds = all_parts().kinds
        if unknown := [each for each in self._kinds or () if each not in valid_kinds]:
            raise InvalidInput(f"Unknown kind {safe_repr(unknown[0])}. Pass some of: {', '.join(valid_kinds)}.")
        self._budget = Budget.of(self.budget)
        self._trusted = parse_trust(self.trust)
        self._counter = TokenCounter()
        self._warned = False

    def _run(self, given: Any, config: RunnableConfig) -> Any:
        form = read_form(given, config, "memory")
        texts = self._collect_texts(given, form.messages, ensure_config(config))

        def insert(messages: list[BaseMessage]) -> list[BaseMessage]:
            return insert_memory(messages, texts, self.role)

        return form.fill(insert, "\n\n".join(texts.blocks()))

    def _collect_texts(self, given: Any, messages: Sequence[BaseMessage], config: Mapping[str, Any]) -> MemoryTexts:
        """Return the texts to inject.

        Args:
            given: The input, which contains the question.
            messages: The messages of the prompt. Memory that they contain is not injected again.
            config: The config of the run.

        Raises:
            InvalidInput: The `query` function returns no text, or the thread of `branch_or_config` has another
                checkpointer.
        """
        layers = self._open_layers(config)
        memory_config = self.branch_or_config if isinstance(self.branch_or_config, Mapping) else config
        if layers is not None and not layers.is_enabled():
            return MemoryTexts()
        query = question_of(self.query, given, messages)[:4_000]
        originals = [message for message in messages if not is_injected(message)]
        notes = prompt_notes.load_notes(self._database, config, originals, self._make_notes_key(layers))
        request = InjectionRequest(layers, query, originals, memory_config)
        with self._database.step("injection.inject", lambda: self._describe_request(request)) as step:
            texts, section = self._compose(notes, request)
            step.finish(
                lambda: {
                    "core": [each.key for each in section.core],
                    "event_ids": [each.id for each in section.events],
                    "records": [_describe_hit(each) for each in section.records],
                }
            )
        return texts

    def _is_thread_only(self, config: Mapping[str, Any]) -> bool:
        """Return whether a run uses memory that only its own thread can see.

        Args:
            config: The config of the run.
        """
        has_target = self.branch_or_config is not None or bool(self.namespace)
        if has_target or (config.get("configurable") or {}).get("thread_id") is None:
            return False
        scopes = self._database.scopes
        return not scopes.is_shared(path_of(scopes.resolve(None, config)))

    def _compose(self, notes: PromptNotes, request: InjectionRequest) -> tuple[MemoryTexts, PromptSections]:
        """Return all texts to inject, and the section with core memory and the current hits."""
        layers, material = self._load_material(request.layers)
        request = request._replace(layers=layers)
        prefix, prompt_values = self._choose_prefix(notes, material.core)
        visible_notes = notes.active_notes()
        current_hits = self._reload_hits(request, visible_notes)
        new = self._find_new_hits(request, material.events, current_hits)
        changed_now = {each.key: each.value for each in material.core if prompt_values.get(each.key) != each.value}
        recalled: dict[str | None, str] = {}
        # The current question is last: after the loop, the variables contain its texts.
        for question_id in [*(each for each in visible_notes if each != notes.question_id), notes.question_id]:
            part_notes = visible_notes.get(question_id or "", {})
            core_values = part_notes[CHANGES].values if CHANGES in part_notes else {}
            # The first two fields of an item are its kind and id, which are the keys of `current_hits`.
            event_items = _get_note_items(part_notes, RECALL)
            events = [current_hits[each[:2]] for each in event_items if each[:2] in current_hits]
            by_time = ARCHIVAL in part_notes and part_notes[ARCHIVAL].values == _TIME_ORDER
            archival_items = [each for each in _get_note_items(part_notes, ARCHIVAL) if each[:2] in current_hits]
            records = [_restore_hit(current_hits[each[:2]], each, by_time=by_time) for each in archival_items]
            if question_id == notes.question_id:
                core_values = {**core_values, **changed_now}
                events, records = [*events, *new.events], [*records, *new.records]
                by_time = by_time or new.chronological
            changed = [replace(each, value=core_values[each.key]) for each in material.core if each.key in core_values]
            changes = compose(PromptMaterial(changed), self._budget, counter=self._counter)
            section = compose(PromptMaterial(prefix, events, records, by_time), self._budget, counter=self._counter)
            changes_text = changes.text.replace(prompt_context.HEADINGS[CORE], "## Core Memory, changed since", 1)
            texts = {CHANGES: changes_text, **section.sections}
            core = texts.pop(CORE, "")
            if text := "\n\n".join(filter(None, texts.values())):
                recalled[question_id] = text
        sizes = {part: self._counter.count_text(text) for part, text in texts.items()}
        notes.add_note(CHANGES, [PromptNoteItem(CORE, each) for each in core_values], sizes[CHANGES], core_values)
        notes.add_note(RECALL, [PromptNoteItem(EVENT, each.id) for each in section.events], sizes.get(RECALL, 0))
        note_values = _TIME_ORDER if by_time else None
        notes.add_note(ARCHIVAL, [_to_note_item(each) for each in section.records], sizes.get(ARCHIVAL, 0), note_values)
        notes.store_notes(self._database)
        return MemoryTexts(core, recalled), section

    def _choose_prefix(self, notes: PromptNotes, core: Sequence[CoreEntry]) -> tuple[list[CoreEntry], dict[str, str]]:
        """Return the core memory for the prefix of the prompt, and all core values in the prompt.

        A new prompt has the current core memory in its prefix. So has a prompt that is restarted, because it contains
        deleted values, or because the changes of core memory exceed the budget.
        """
        values = {each.key: each.value for each in core}
        start_values = {} if notes.start is None else notes.start.values
        prompt_values = dict(start_values)
        for part_notes in notes.active_notes().values():
            prompt_values.update(part_notes[CHANGES].values if CHANGES in part_notes else {})
        changed = [each for each in core if start_values.get(each.key) != each.value]
        changes = compose(PromptMaterial(changed), self._budget, counter=self._counter)
        if notes.start is not None and prompt_values.keys() <= values.keys() and len(changes.core) == len(changed):
            core = [replace(each, value=start_values[each.key]) for each in core if each.key in start_values]
            return core, prompt_values
        notes.restart(values, sum(self._counter.count_text(f"{key}: {value}") for key, value in values.items()))
        return list(core), values

    def _find_new_hits(
        self, request: InjectionRequest, events: Sequence[Event], current_hits: Mapping[tuple[str, str], Any]
    ) -> PromptMaterial:
        """Return the events and hits to inject that are not in the context yet."""
        # `injected` contains both the ids and the texts of the hits in the context.
        injected = {value for (_, id_), hit in current_hits.items() for value in (id_, hit.content.strip())}
        order = choose_order(analyze_query(request.query))
        new: list[Any] = []
        if self.limit and request.query.strip():
            ids = {each.id for each in request.messages}
            known_ids = {event.id for event in events} | ids
            texts = {"", *(str(each.text).strip() for each in request.messages)}  # "" excludes hits without text
            context_ids = frozenset(filter(None, ids)) if all(ids) else None  # None: some messages have no id
            hits = self._search(request, order, context_ids)
            groups = memory_search.group_by_text(hits, lambda each: each.content)
            new = [each for each, *_ in groups if each.id not in known_ids and each.content.strip() not in texts]
            new = [each for each in new[: self.limit] if injected.isdisjoint((each.id, each.content.strip()))]
        return PromptMaterial((), [event for event in events if event.id not in injected], new, order == "time")

    def _reload_hits(
        self, request: InjectionRequest, visible_notes: Mapping[str, Mapping[str, PromptNote]]
    ) -> dict[tuple[str, str], Any]:
        """Return the current versions of the hits in the context, by kind and id."""
        groups = [_get_note_items(notes, part) for notes in visible_notes.values() for part in (RECALL, ARCHIVAL)]
        items = [each for group in groups for each in group]
        current_hits: dict[tuple[str, str], Any] = {}
        if request.layers is not None and (layer_items := [each for each in items if each.row is None]):
            # Only hits of the search index have a row. The items without a row were read from the layers.
            facts_context = request.layers._facts_context  # also reads events and records

            def read_entries(tx: Transaction, view: MemoryView) -> None:
                for kind, convert in ((EVENT, convert_event), (RECORD, convert_record)):
                    keys = [each.id for each in layer_items if each.kind == kind]
                    by_key = memory_rows.load_named(tx, view, kind, keys) if keys else {}
                    entries = {(kind, key): convert(each) for key, each in by_key.items()}
                    current_hits.update({key: each for key, each in entries.items() if is_trusted(each, self._trusted)})
                facts = FactView(tx, view)
                for each in layer_items:
                    fact = facts.fact(each.id) if each.kind == "fact" else None
                    if fact is not None and is_trusted(fact, self._trusted):
                        current_hits["fact", each.id] = _make_fact_passage(fact)

            facts_context.read(None, read_entries)
        if rows := [each.row for each in items if each.row is not None]:
            search_filter, search_view = self._resolve_search(request)
            reload = partial(memory_search.reload_results, rows=rows, now=self._database.now(), search_view=search_view)
            for hit in self._database.read(None, reload):
                # The row of a deleted entry may now contain a new entry.
                if search_filter.contains(hit) and is_trusted(hit, self._trusted):
                    current_hits[hit.kind, hit.id] = _make_hit_passage(hit)
        return current_hits

    def _resolve_search(self, request: InjectionRequest) -> tuple[SearchFilter, SearchView]:
        """Return the filter and view of a search. A passed `LayeredMemory` sets the namespace."""
        config = None if isinstance(self.branch_or_config, LayeredMemory) else request.config
        return resolve_search(self._database, self._namespace, config)

    def _describe_request(self, request: InjectionRequest) -> dict[str, Any]:
        """Return the inputs of a request that a trace shows."""
        inputs = {"query": shorten_text(request.query), "messages": len(request.messages), "limit": self.limit}
        if request.layers is None:
            return {"namespace": "/".join(self._database.scopes.resolve(self._namespace, request.config)), **inputs}
        return request.layers._facts_context.trace_inputs(**inputs)

    def _load_material(self, layers: LayeredMemory | None) -> tuple[LayeredMemory | None, PromptMaterial]:
        """Return the memory (None if unreadable), with its core entries and newest events."""
        if layers is None:
            return None, PromptMaterial()
        try:
            core = layers.core.entries()
            # Untrusted events are omitted below, so request more events than needed.
            max_events = prompt_context.PROMPT_EVENTS * (1 if self._trusted is None else LIMIT_GROWTH)
            events = [] if self._budget.recall == 0 else layers.recall.recent(max_events)
        except InvalidInput as error:
            if self.branch_or_config is not None:
                raise
            if not self._warned:
                self._warned = True
                logger.warning("A thread's memory cannot be read. Only search hits are injected: %s", error)
            return None, PromptMaterial()
        events = [each for each in events if is_trusted(each, self._trusted)]
        core = [each for each in core if is_trusted(each, self._trusted)]
        return layers, PromptMaterial(core, events[-prompt_context.PROMPT_EVENTS :])

    @property
    def _namespace(self) -> Sequence[str] | None:
        """The namespace passed by the user, or that of the `LayeredMemory` passed."""
        target = self.branch_or_config
        return target.namespace if self.namespace is None and isinstance(target, LayeredMemory) else self.namespace

    def _open_layers(self, config: Mapping[str, Any]) -> LayeredMemory | None:
        """Return the layered memory to inject; None if only the search applies."""
        target = self.branch_or_config
        if isinstance(target, LayeredMemory):
            return target
        if isinstance(target, str):
            namespace = self._database.scopes.resolve(self.namespace, config)
            return LayeredMemory(self._database, target, namespace=namespace)
        if target is None and (config.get("configurable") or {}).get("thread_id") is None:
            scopes = self._database.scopes
            if not scopes.is_shared(path_of(scopes.resolve(self.namespace, config))):
                return None
        thread = config if target is None else target
        return LayeredMemory(self._database, resolve_position(self._database, thread, self.namespace))

    def _make_notes_key(self, layers: LayeredMemory | None) -> str:
        """Return the key of the prompt notes, which are separate by memory and trust."""
        memory_key = ""
        if layers is not None and not (self.branch_or_config is None and self.namespace is None):
            memory_key = f"{path_of(layers.namespace)}{layers.name}"
        return " ".join([memory_key, *sorted(self._trusted or ())])

    def _search(self, request: InjectionRequest, order: Order, context_ids: frozenset[str] | None) -> list[Any]:
        """Return hits for a question, interleaved by rank.

        The best hit of each search is first, then the second best, and so on.
        """
        layers, query, _, config = request
        lists: list[list[Any]] = []
        # Hits that are in the context already, and untrusted hits, are omitted. So request more hits than needed.
        max_hits = (self.limit + 30) * (1 if self._trusted is None else LIMIT_GROWTH)
        if layers is not None and (self._kinds is None or "record" in self._kinds):
            records = [each for each in layers.archival.search(query, max_hits) if is_trusted(each, self._trusted)]
            lists.append([_make_record_passage(each) for each in records] if order == "time" else records)
        if layers is not None and (self._kinds is None or "fact" in self._kinds):
            facts = fact_reader.find_facts(layers._facts_context, query, max_hits)
            lists.append([_make_fact_passage(each) for each in facts if is_trusted(each, self._trusted)])
        if layers is not None and self._kinds is not None and "event" in self._kinds:
            events = [each for each in layers.recall.search(query, max_hits) if is_trusted(each, self._trusted)]
            lists.append([_make_event_passage(each, dated=order == "time") for each in events])
        namespace = self._database.scopes.resolve(self._namespace, config)
        kinds: Sequence[str] | None = self._kinds  # None: all kinds
        if layers is not None:  # events, facts and records were searched above
            if kinds is None:
                kinds = all_parts().default_kinds if self._database.scopes.is_shared(path_of(namespace)) else ()
            kinds = [kind for kind in kinds if kind not in ("event", "fact", "record")]
        if kinds is None or kinds:
            search_filter, search_view = self._resolve_search(request)
            search = memory_search.Search(
                analyze_query(query, self._database.now()),
                search_filter._replace(kinds=all_parts().index_names(kinds), trusted=self._trusted),
                max_hits,
                search_view=search_view._replace(context_ids=context_ids),
                name="retrieval.search",
                inputs=lambda: {"namespace": "/".join(namespace), "kinds": None if kinds is None else list(kinds)},
                order=order,
            )
            hits = search.find(self._database)
            # `sequence` keeps the order of the search for passages of the same time.
            passages = [_make_hit_passage(hit)._replace(sequence=n) for n, hit in enumerate(hits) if _has_content(hit)]
            lists.append(sorted(passages, key=lambda each: -(each.score or 0.0)))
        return [each for rank in range(max_hits) for hits in lists for each in hits[rank : rank + 1]]


def _get_note_items(part_notes: Mapping[str, PromptNote], part: str) -> tuple[PromptNoteItem, ...]:
    return part_notes[part].items if part in part_notes else ()


def _to_note_item(hit: Record | PromptPassage) -> PromptNoteItem:
    """Convert a hit to an item of a prompt note."""
    why, score = hit.why, hit.score
    signals = {} if why is None else {name: round(value, 4) for name, value in why.parts().items()}
    row = getattr(hit, "row", None)
    reason = _REPLACED_LABEL if isinstance(hit, PromptPassage) and hit.label.endswith(_REPLACED_LABEL) else ""
    return PromptNoteItem(getattr(hit, "kind", RECORD), hit.id, score and round(score, 4), signals, reason, row)


def _restore_hit(hit: Event | Record | PromptPassage, item: PromptNoteItem, *, by_time: bool) -> Record | PromptPassage:
    """Convert a reloaded hit to the form in which it was injected before."""
    if isinstance(hit, Event):
        return _make_event_passage(hit, dated=by_time)
    if isinstance(hit, Record):
        return _make_record_passage(hit) if by_time else hit
    return hit._replace(label=f"{hit.label}, {_REPLACED_LABEL}") if item.reason == _REPLACED_LABEL else hit


def _describe_hit(hit: Record | PromptPassage) -> dict[str, Any]:
    """Return the fields of a hit that a trace shows."""
    return {
        "id": hit.id,
        "kind": getattr(hit, "kind", RECORD),
        "score": None if hit.score is None else round(hit.score, 4),
        "why": None if hit.why is None else str(hit.why),
        "text": shorten_text(hit.content),
    }


def _make_event_passage(event: Event, *, dated: bool) -> PromptPassage:
    """Convert an event to a passage labelled with its kind and, if dated, its day."""
    label = f"{event.kind}, {event.created_at:%Y-%m-%d}" if dated else event.kind
    label = _add_origin(label, event)
    return PromptPassage(event.id, event.content, event.created_at, label, (), "event", event.score, event.why)


def _make_fact_passage(fact: Fact, kind: str = "fact") -> PromptPassage:
    """Convert a fact or a raw message to a passage labelled with its period or its day."""
    label = f"{fact.subject}, {fact.valid_from:%Y-%m-%d}" if fact.raw else _add_origin(f"fact, {fact.period}", fact)
    return PromptPassage(fact.id, fact.text, fact.recorded_at, label, (), kind, fact.score, fact.why)


def _make_record_passage(record: Record) -> PromptPassage:
    """Convert a record to a passage labelled with its day, for a timeline."""
    time = record.created_at
    label = _add_origin(f"{RECORD}, {time:%Y-%m-%d}", record)
    return PromptPassage(record.id, record.content, time, label, record.tags, RECORD, record.score, record.why)


def _add_origin(label: str, entry: Any) -> str:
    """Add the origin of a hit to a label, unless the origin is unknown or a user."""
    origin = origin_of(entry)
    return label if origin.partition(" ")[0] in ("", "user") else f"{label}, {origin}"


def _has_content(hit: Recollection) -> bool:
    """Return whether a hit has a text, and is not the result of a memory tool."""
    value = hit.value
    if not isinstance(value, Message):
        return True
    return bool(value.text.strip()) and not (value.role == "tool" and value.name in OWN_TOOLS)


def _make_hit_passage(hit: Recollection) -> PromptPassage:
    """Convert a search hit to a passage labelled with its speaker or kind and its day."""
    speaker = hit.kind
    if isinstance(hit.value, Fact):
        return _make_fact_passage(hit.value, hit.kind)._replace(score=hit.score, why=hit.why, row=hit.row)
    if isinstance(hit.value, Message):
        speaker = origin_of(hit) if hit.source == "tool" else str(hit.value.name or hit.value.role)
    label = f"{speaker}, {hit.created_at:%Y-%m-%d}"
    label = label if isinstance(hit.value, Message) else _add_origin(label, hit)
    label += f", {_REPLACED_LABEL}" if hit.replaced_by else ""
    return PromptPassage(hit.id, hit.text, hit.created_at, label, (), hit.kind, hit.score, hit.why, row=hit.row)
