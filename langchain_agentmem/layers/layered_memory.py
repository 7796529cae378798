"""`LayeredMemory`: the core, recall and archival memory of a branch or a thread.

    layers = memory.layers("user-42")
    layers.core.set("name", "Ada")
    layers.recall.append("asked", "How is the weather?")
    layers.archival.write("Lives in Turin.", tags=["home"])
    draft = layers.fork("draft")

The fork sees everything that was written before the fork, and nothing that is written to the parent later.

The memory of a thread is part of the thread: time travel, "edit and regenerate" and forks include it. At each
checkpoint an agent has exactly the memory that it had when the checkpoint was written. A step that fails, is retried,
or is resumed after a crash writes its memory once.

    from langchain_core.messages import AIMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph import START, MessagesState, StateGraph

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory:

        def learn(state: MessagesState, config: RunnableConfig):
            layers = memory.layers(config)
            layers.archival.write(state["messages"][-1].text)
            return {"messages": [AIMessage(f"I know: {[record.content for record in layers.archival.all()]}")]}

        builder = StateGraph(MessagesState).add_node(learn).add_edge(START, "learn")
        graph = builder.compile(checkpointer=memory.checkpointer)
        thread = {"configurable": {"thread_id": "edited"}}
        graph.invoke({"messages": [("user", "Hello.")]}, thread)
        before = graph.get_state(thread).config
        graph.invoke({"messages": [("user", "My sister lives in Lisbon.")]}, thread)
        graph.invoke({"messages": [("user", "My sister lives in Porto.")]}, before)  # the user edits the message
        print(graph.get_state(thread).values["messages"][-1].text)  # without Lisbon

A branch belongs to no thread. Threads share branches, and rewinding a thread does not change them. A fork copies
nothing. Branches can be compared:

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory:
        layers = memory.layers("user-42")
        layers.core.set("name", "Ada", importance=5)
        layers.recall.append("asked", "How is the weather in Turin?")
        layers.archival.write("Ada's sister lives in Turin.", tags=["family"])
        draft = layers.fork("user-42 draft")
        draft.core.set("name", "Ada Lovelace")
        print(layers.core.get(), draft.core.get(), draft.archival.search("sister")[0].content)
        print(draft.format_for_prompt("Where does her sister live?"))

Docstrings name the functions of AI-Scientist-v2-HPC that the methods replace.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from langchain_agentmem.base.argument_checks import check_instance, check_value
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.facts.fact_store import FactsContext
from langchain_agentmem.language_models.model_calls import ModelLike
from langchain_agentmem.language_models.tokens import Budget, BudgetLike
from langchain_agentmem.layers import layer, memory_layers, prompt_context
from langchain_agentmem.layers.compression import Compressor
from langchain_agentmem.layers.layer import DEFAULT_SETTINGS, Layer, LayerContext, LayersConfig
from langchain_agentmem.layers.memory_layers import ArchivalMemory, ConsolidationReport, CoreMemory, RecallMemory
from langchain_agentmem.layers.prompt_context import PromptMaterial
from langchain_agentmem.layers.resource_memory import ResourceMemory
from langchain_agentmem.rewinding import branches, memory_rows
from langchain_agentmem.rewinding.branches import BranchDiff, BranchMemory, BranchTree, MemoryPosition, PendingWrite
from langchain_agentmem.rewinding.memory_rows import EVENT, RECORD, MemoryView
from langchain_agentmem.storage import Transaction
from langchain_agentmem.storage.database import MemoryLike, database_of

LAYERS = ("core", "recall", "archival")
"""The names of the layers."""


class WriteResult(NamedTuple):
    """The keys and ids that `LayeredMemory.write` wrote.

    Attributes:
        core: The keys that were set.
        recall: The ids of the events.
        archival: The ids of the records.
    """

    core: tuple[str, ...]
    recall: tuple[str, ...]
    archival: tuple[str, ...]


def _read_layers(
    tx: Transaction, view: MemoryView, layers: Collection[str] = LAYERS, max_events: int | None = None
) -> PromptMaterial:
    """Read some layers of a memory, with the newest `max_events` events (None: all)."""
    core = memory_layers.load_core(tx, view) if "core" in layers else []
    events = memory_rows.load_newest(tx, view, EVENT, limit=max_events) if "recall" in layers else []
    records = memory_rows.load_current(tx, view, RECORD) if "archival" in layers else []
    entries = [layer.convert_core_entry(each) for each in core]
    return PromptMaterial(entries, [*map(layer.convert_event, events)], [*map(layer.convert_record, records)])


# The argument for each accepted field of an entry.
_EVENT_FIELDS = {"kind": "kind", "type": "kind", "event_type": "kind", "content": "content", "at": "at"}
_RECORD_FIELDS = {"content": "content", "text": "content", "tags": "tags"}
_VALUE_FIELDS = {"value": "value", "importance": "importance", "ttl": "ttl"}


def _map_fields(label: str, entry: Any, required: str, names: Mapping[str, str]) -> dict[str, Any]:
    """Map an entry's fields to arguments. A text becomes the `required` argument."""
    if not isinstance(entry, Mapping):
        return {required: entry}
    # An ignored misspelled name would look as if it had taken effect.
    if not entry.keys() <= names.keys() or required not in (fields := {names[name]: entry[name] for name in entry}):
        raise InvalidInput(f"{label} takes {', '.join(names)}, and requires {required}; got {safe_repr(list(entry))}.")
    return fields


def _to_list(name: str, entries: Any) -> list[Any]:
    if isinstance(entries, str | Mapping):
        return [entries]
    return list(check_value(Sequence[Any] | None, entries, name) or ())


LayerEntry: TypeAlias = str | Mapping[str, Any]
"""An event or a record to write: its text, or its fields by name."""


Level: TypeAlias = Literal["low", "medium", "high", "critical"]
LEVELS: tuple[Level, ...] = ("low", "medium", "high", "critical")
THRESHOLDS = (0.70, 0.85, 0.95)
"""The values of `MemoryPressure.overall` at which the level becomes medium, high and critical."""
MANY_RECORDS = 100
"""The number of records above which `pressure` recommends pruning."""
MAX_EVICTED_IMPORTANCE = 2
"""The highest importance of the values that are evicted from core memory at high pressure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryPressure:
    """The pressure of a memory: its fill level, and recommended actions.

    Attributes:
        level: "low", "medium", "high" or "critical".
        overall: The weighted fill level that determines `level`: 0.6 * `core` + 0.4 * min(`recall`, 1).
        core: The size of core memory, divided by its budget.
        recall: The number of events, divided by `recall_max_events` of the settings.
        core_chars: The size of core memory, in characters.
        events: The number of events.
        records: The number of records.
        recommendations: Recommended actions: "consolidate_recall", "evict_core", "compress_core", "summarize_recall",
            "prune_archival".
    """

    level: Level
    overall: float
    core: float
    recall: float
    core_chars: int
    events: int
    records: int
    recommendations: tuple[str, ...]


def compute_pressure(chars: int, events: int, records: int, settings: LayersConfig) -> MemoryPressure:
    """Compute the pressure from the numbers of core characters, events and records."""
    core, recall = chars / settings.core_max_chars, events / settings.recall_max_events
    overall = 0.6 * core + 0.4 * min(recall, 1)
    medium, high, _ = THRESHOLDS
    advice = {
        "consolidate_recall": recall > 1,
        "evict_core": core > high,
        "compress_core": core > medium,
        "summarize_recall": recall > medium,
        "prune_archival": records > MANY_RECORDS,
    }
    return MemoryPressure(
        level=LEVELS[sum(overall >= threshold for threshold in THRESHOLDS)],  # one level higher for each threshold
        overall=overall,
        core=core,
        recall=recall,
        core_chars=chars,
        events=events,
        records=records,
        recommendations=tuple(name for name, applies in advice.items() if applies),
    )


class LayeredMemory(Layer, BranchMemory):
    """The core, recall and archival memory on a branch, or of a thread.

    Every method that reads or writes has an async twin, prefixed with `a`.

    Attributes:
        core: The keys and values that are always in the prompt.
        recall: The timeline of events.
        archival: The permanent records, which are found by search.
        resources: The resources that the agent was given, and its uses of them.
        settings: The settings of the memory.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        branch: The name of a branch, which the first write creates, or a `MemoryPosition`.
        namespace: The namespace of the memory. Default: that of the current run, else the root.
        settings: The settings of the memory. Default: `LayersConfig()`.
        model: The model that compresses long texts and summarizes old events: a LangChain model, a function from
            messages to text, or the name of a model. Default: none; texts are cut, and events listed.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    _context: LayerContext

    def __init__(
        self,
        memory: MemoryLike,
        branch: str | MemoryPosition,
        *,
        namespace: Sequence[str] | None = None,
        settings: LayersConfig | None = None,
        model: ModelLike | None = None,
    ) -> None:
        check_instance(LayersConfig, settings, "settings")
        database = database_of(memory)
        settings = settings or DEFAULT_SETTINGS
        point = branches.resolve_branch(branch, namespace, database.scopes)
        compressor = Compressor(model, database=database, attempts=settings.max_compression_iterations)
        self._set_context(LayerContext(database=database, point=point, settings=settings, compressor=compressor))

    def _set_context(self, context: LayerContext) -> None:
        super().__init__(context)
        self.core = CoreMemory(context)
        self.recall = RecallMemory(context)
        self.archival = ArchivalMemory(context)
        self.resources = ResourceMemory(context, self.core, self.archival)

    @property
    def _facts_context(self) -> FactsContext:
        """The context of the facts of the same branch or thread."""
        return FactsContext(database=self._context.database, point=self._context.point)

    def is_enabled(self) -> bool:
        """Return whether agents should use the memory: the setting `enabled`."""
        return self.settings.enabled

    # -- all layers ------------------------------------------------------------------------------------------------

    def read(self, scope: Literal["all", "core", "recall", "archival"] = "all") -> dict[str, Any]:
        """Return all visible entries of this memory (`mem_node_read` of AI-Scientist-v2-HPC).

        Args:
            scope: "all", "core", "recall" or "archival". Default: "all".

        Returns:
            "core": values by key; "recall": events with "id", "type", "content" and "timestamp", oldest first;
            "archival": records with "id", "content", "tags" and "timestamp". Timestamps are seconds since 1970.

        Raises:
            InvalidInput: The scope is unknown.
        """
        check_value(Literal["all", "core", "recall", "archival"], scope, "scope")
        layers = LAYERS if scope == "all" else (scope,)

        def load(tx: Transaction, view: MemoryView) -> dict[str, Any]:
            data = _read_layers(tx, view, layers).data
            return {name: data[name] for name in layers}

        return self._context.read("layers.read", load, scope=scope)

    aread = awaited(read)

    def write(
        self,
        core: Mapping[str, Any] | None = None,
        recall: LayerEntry | Sequence[LayerEntry] | None = None,
        archival: LayerEntry | Sequence[LayerEntry] | None = None,
    ) -> WriteResult:
        """Write to several layers in one transaction (`mem_node_write` of AI-Scientist-v2-HPC).

        Args:
            core: The values by key. A value is text, or a mapping with "value", "importance" and "ttl".
            recall: One event, or a list of events. An event is text, or a mapping with "kind" (or "type"), "content"
                and "at". The default kind is "note".
            archival: One record, or a list of records. A record is text, or a mapping with "content" (or "text") and
                "tags".

        Returns:
            The keys that were set, and the ids of the events and records.

        Raises:
            InvalidInput: An argument is wrong.
        """
        check_value(Mapping[Any, Any] | None, core, "core")
        checked = [
            self.core._check_value(key, **_map_fields("A value of core memory", value, "value", _VALUE_FIELDS))
            for key, value in (core or {}).items()
        ]
        values = list({each.key: each for each in checked}.values())
        events = [
            self.recall._check_event(**{"kind": "note", **_map_fields("An event", each, "content", _EVENT_FIELDS)})
            for each in _to_list("recall", recall)
        ]
        records = [
            self.archival._check_record(**_map_fields("A record", each, "content", _RECORD_FIELDS))
            for each in _to_list("archival", archival)
        ]
        tags_by_text: dict[str, list[str]] = {}
        for text, tags in records:
            tags_by_text.setdefault(text, []).extend(tags)
        ids = {text: self._context.database.new_id() for text in tags_by_text}

        def add(tx: Transaction, change: PendingWrite) -> bool:
            if values:
                self.core._add_values(tx, change, values)
            change.drafts += events
            for text, tags in tags_by_text.items():
                ids[text] = memory_layers.add_record(tx, change, ids[text], text, list(dict.fromkeys(tags)))
            return memory_layers.needs_consolidation(tx, self._context, change, len(events))

        texts = [memory_rows.decode_text(each.body or b"") for each in events]
        with self._context.step("layers.write", core=values, recall=texts, archival=list(tags_by_text)) as step:
            if self._context.write(None, add):
                memory_layers.consolidate_excess_events(self._context)
            written = WriteResult(
                core=tuple(each.key for each in values),
                recall=tuple(each.key for each in events),
                archival=tuple(ids[text] for text, _ in records),
            )
            step.finish(lambda: {"event_ids": written.recall, "record_ids": written.archival})
        return written

    awrite = awaited(write, writes=True)

    # -- branches --------------------------------------------------------------------------------------------------

    def ancestors(self) -> list[str]:
        """Return the names of the branches from the root of the fork tree to this one."""
        return branches.list_ancestors(self._context)

    aancestors = awaited(ancestors)

    def tree(self) -> BranchTree:
        """Return the whole fork tree that contains this branch; `str` formats it.

        Raises:
            InvalidInput: This is the memory of a thread.
        """
        return branches.read_tree(self._context)

    atree = awaited(tree)

    def diff(self, other: str | LayeredMemory) -> BranchDiff:
        """Compare this memory with another.

        Args:
            other: The memory of another branch of this namespace, or the name of the branch.

        Raises:
            InvalidInput: `other` is not a valid branch name, or its namespace or database is another one.
        """
        return branches.diff_branches(self._context, self._resolve_position(other))

    adiff = awaited(diff)

    # -- pressure --------------------------------------------------------------------------------------------------

    def pressure(self) -> MemoryPressure:
        """Return how full this memory is, with recommended actions."""
        return self._measure_pressure("pressure")

    apressure = awaited(pressure)

    def consolidate(self, level: Level | None = None) -> ConsolidationReport:
        """Free space in this memory, as a level of pressure requires.

        From "medium" on, old events become records of archival memory. From "high" on, values of importance 2 or less
        are evicted from core memory until its size is at most 70 % of its budget. At "critical", values of any
        importance are then evicted until core memory fits its budget. The remaining values do not change.

        Args:
            level: "low", "medium", "high" or "critical". Default: the level of the present pressure.

        Raises:
            InvalidInput: The level is unknown.
        """
        check_value(Level | None, level, "level")
        settings, report = self.settings, ConsolidationReport()

        def evict(tx: Transaction, change: PendingWrite) -> tuple[str, ...]:
            entries = memory_layers.load_core(tx, change.view)
            unimportant = [each for each in entries if (each.importance or 0) <= MAX_EVICTED_IMPORTANCE]
            limit = settings.core_max_chars
            evicted = memory_layers.choose_evicted(entries, int(limit * THRESHOLDS[0]), unimportant)
            if level == "critical":
                evicted += memory_layers.choose_evicted([each for each in entries if each not in evicted], limit)
            self.core._evict(change, evicted)
            return tuple(each.key for each in evicted)

        with self._context.step("layers.consolidate", level=level) as step:
            level = level or self._measure_pressure(None).level
            if level != "low":
                report = memory_layers.consolidate(self._context, keep=settings.recall_max_events)
            evicted = self._context.write("core.relieve", evict) if level in ("high", "critical") else ()
            report = replace(report, level=level, evicted=evicted)
            step.finish(lambda: asdict(report))
        return report

    aconsolidate = awaited(consolidate, writes=True)

    def _measure_pressure(self, step_name: str | None) -> MemoryPressure:
        def measure(tx: Transaction, view: MemoryView) -> MemoryPressure:
            chars = memory_layers.count_core_chars((each.key, each.text) for each in memory_layers.load_core(tx, view))
            events, records = (memory_layers.count_versions(tx, view, kind) for kind in (EVENT, RECORD))
            return compute_pressure(chars, events, records, self.settings)

        return self._context.read(step_name, measure)

    def compress(self, text: str, max_chars: int, hint: str = "") -> str:
        """Return a text that fits `max_chars`: unchanged, shortened by a model, or cut.

        Args:
            text: Any text.
            max_chars: The maximum number of characters of the result.
            hint: A short description of the text for the model. Default: none.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return self._context.compressor.compress(text, max_chars, hint)

    acompress = awaited(compress)

    # -- prompts ---------------------------------------------------------------------------------------------------

    def context(self, task_hint: str | None = None) -> dict[str, Any]:
        """Return the memory for a prompt as data (`get_memory_context` of AI-Scientist-v2-HPC).

        Args:
            task_hint: The topic of the prompt, used as the query for records. Default: no records.

        Returns:
            "core": values by key; "recall": the newest events with "id", "type", "content" and "timestamp", oldest
            first; "archival": the records found, with "id", "content", "tags", "timestamp" and "score".

        Raises:
            InvalidInput: An argument is wrong.
        """
        with self._context.step("layers.context", task_hint=task_hint) as step:
            data = self._load_prompt_material(task_hint).data
            step.finish(lambda: {name: len(part) for name, part in data.items()})
        return data

    acontext = awaited(context)

    def format_for_prompt(self, task_hint: str | None = None, budget: BudgetLike | None = None) -> str:
        """Return the memory for a prompt as text.

        The headings and lines are those of `format_memory_for_prompt` of AI-Scientist-v2-HPC. The text is
        byte-identical until the memory changes.

        Args:
            task_hint: The topic of the prompt, used as the query for records. Default: no records.
            budget: The budget: a number of characters, a mapping or a `Budget`. Default: that of the settings.

        Raises:
            InvalidInput: An argument is wrong.
        """
        limits = Budget.of(budget, self.settings.section_budgets)
        with self._context.step("layers.format_for_prompt", task_hint=task_hint) as step:
            material, shorten = self._load_prompt_material(task_hint), self._context.compressor.compress
            text = prompt_context.compose(material, limits, shorten).text
            step.finish(lambda: {"text": text, "characters": len(text)})
        return text

    aformat_for_prompt = awaited(format_for_prompt)

    def _load_prompt_material(self, task_hint: str | None) -> PromptMaterial:
        """Read the material of a prompt, with the records found for the hint, if there is one."""
        max_events = self.settings.recall_max_events
        material = self._context.read(None, lambda tx, view: _read_layers(tx, view, ("core", "recall"), max_events))
        if task_hint is None:
            return material
        return material._replace(records=self.archival.search(task_hint, self.settings.retrieval_k))

    def export_final(self, output_dir: str | os.PathLike[str]) -> tuple[Path, Path]:
        """Export all visible entries as Markdown and JSON, to the file names of the settings.

        Args:
            output_dir: The folder, which is created if it is missing. Existing files are replaced.

        Returns:
            The paths of the Markdown file and of the JSON file.

        Raises:
            InvalidInput: The two file names are equal, or the files cannot be written.
        """
        material = self._context.read("layers.export_final", _read_layers)
        final = prompt_context.final_memory(material.core, material.events, material.records)
        names = self.settings.final_memory_filename_md, self.settings.final_memory_filename_json
        return prompt_context.write_final(final, output_dir, *names)

    aexport_final = awaited(export_final)

    # -- internals -------------------------------------------------------------------------------------------------

    def _resolve_position(self, other: Any) -> MemoryPosition:
        if not isinstance(other, LayeredMemory):
            return self.at(other)._context.point
        point = other._context.point
        if not other._context.database.is_same_database(self._database) or point.path != self._context.point.path:
            raise InvalidInput(
                "diff() compares branches of one namespace and database. Pass the name of another branch."
            )
        return point

    def _at_position(self, point: MemoryPosition) -> Self:
        other = type(self).__new__(type(self))
        other._set_context(replace(self._context, point=point))
        return other
