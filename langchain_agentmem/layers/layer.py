"""The settings and values that the layers share, and the context in which they read and change a memory.

A layer reads the memory that is visible at its position. Each change is written in one transaction. If the change is
written to a branch, the transaction also deletes up to 20 expired entries of the branch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import NonNegativeInt, PositiveInt, StringConstraints

from langchain_agentmem.base.argument_checks import MATCH_ALL, NO_LIMIT, Options
from langchain_agentmem.base.clock import from_micros
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.compression import Compressor
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import MemorySession, PendingWrite
from langchain_agentmem.rewinding.memory_rows import CORE, EVENT, RECORD, MemoryVersion, MemoryView
from langchain_agentmem.rewinding.search_view import find_versions, row_texts, visible_recollections
from langchain_agentmem.search.memory_search import Explanation
from langchain_agentmem.storage import Transaction
from langchain_agentmem.storage.part import Part, SearchableKind
from langchain_agentmem.tracing import document_outputs

SNIPPET_CHARS = 3000
"""The default maximum number of characters of a record in a prompt."""
FileName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[^/\\\x00]+$")]
"""A file name without a folder."""


class LayersConfig(Options):
    """The settings of a layered memory.

    Attributes:
        enabled: True if agents should use the memory. `is_enabled()` returns this setting. Default: True.
        core_max_chars: The budget of core memory, in characters of its `key: value` lines. Default: 2,000.
        recall_max_events: The number of events that remain after a consolidation, and that `recent` returns by default.
            Older events are consolidated when a memory has more than 1.5 times this number of events. Default: 20.
        retrieval_k: The maximum number of records in a prompt, and of a search without `limit`. Default: 8.
        max_compression_iterations: The maximum number of model calls to compress one text. Default: 3.
        section_budgets: The maximum numbers of characters in the sections of a prompt, by name. Default: 3,000 for a
            record ("archival_snippet").
        redact_secrets: True to remove secrets from texts before they are stored. Default: True.
        final_memory_filename_md: The file name of the exported text. Default: "final_memory_for_paper.md".
        final_memory_filename_json: The file name of the exported data. Default: "final_memory_for_paper.json".

    Raises:
        InvalidInput: A value is wrong.
    """

    enabled: bool = True
    core_max_chars: PositiveInt = 2000
    recall_max_events: PositiveInt = 20
    retrieval_k: PositiveInt = 8
    max_compression_iterations: PositiveInt = 3
    section_budgets: Mapping[str, NonNegativeInt] = {"archival_snippet": SNIPPET_CHARS}
    redact_secrets: bool = True
    final_memory_filename_md: FileName = "final_memory_for_paper.md"
    final_memory_filename_json: FileName = "final_memory_for_paper.json"

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> LayersConfig:
        """Read the settings from a configuration of AI-Scientist-v2-HPC.

        Args:
            config: Settings by name, as in `LayersConfig`. Other settings, such as `db_path`, are ignored.

        Raises:
            InvalidInput: The configuration is not a mapping, or a value is wrong.
        """
        if not isinstance(config, Mapping):
            raise InvalidInput(f"config must be a mapping of names to values, not {type(config).__name__}.")
        return cls(**{name: value for name, value in config.items() if name in cls.model_fields})


DEFAULT_SETTINGS = LayersConfig()
"""The default settings of a layered memory."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenEntry:
    """An entry of a layer, with its origin.

    Attributes:
        thread_id: The id of the thread that wrote the entry; None if it was written on a branch.
        source: The source: "user", "model", "tool", "import" or "person"; None for the application's code.
        actor: The name of the source, such as a tool's name; None if unknown.
    """

    thread_id: str | None = field(default=None, compare=False, repr=False)
    source: str | None = field(default=None, compare=False, repr=False)
    actor: str | None = field(default=None, compare=False, repr=False)


def origin_fields(version: MemoryVersion) -> dict[str, Any]:
    """Return the origin of a stored version as the fields of a `WrittenEntry`."""
    return {"thread_id": version.thread, "source": version.source, "actor": version.actor}


DEFAULT_IMPORTANCE = 3
"""The default importance of a value of core memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CoreEntry(WrittenEntry):
    """A value of core memory.

    Attributes:
        key: Its key.
        value: Its text.
        importance: Its importance, from 1 to 5.
        expires_at: The time at which it expires, in UTC; None if it does not expire.
        created_at: The time at which the key was first set, in UTC.
        updated_at: The time at which this value was set, in UTC.
        thread_id: The id of the thread that set it; None if it was set on a branch.
        source: Its source: "user", "model", "tool", "import" or "person"; None for the application's code.
        actor: The name of the source, such as a tool's name; None if unknown.
    """

    key: str
    value: str
    importance: int
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Event(WrittenEntry):
    """An event of recall memory.

    Attributes:
        id: Its id.
        kind: Its kind, such as "execution_result".
        content: Its text.
        created_at: The time at which it happened, in UTC.
        score: Its relevance to the query; None if it was not found by a search.
        why: The explanation of the score; None if there is no score.
        thread_id: The id of the thread that wrote it; None if it was written on a branch.
        source: Its source: "user", "model", "tool", "import" or "person"; None for the application's code.
        actor: The name of the source, such as a tool's name; None if unknown.
    """

    id: str
    kind: str
    content: str
    created_at: datetime
    score: float | None = None
    why: Explanation | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Record(WrittenEntry):
    """A record of archival memory.

    Attributes:
        id: Its id.
        content: Its text.
        tags: Its tags, in the order in which they were passed.
        created_at: The time at which it was first written, in UTC.
        updated_at: The time at which this version was written, in UTC.
        score: Its relevance to the query; None if it was not found by a search.
        why: The explanation of the score; None if there is no score.
        details: Its other fields, such as the `events` that a consolidated record replaces.
        thread_id: The id of the thread that wrote this version; None if it was written on a branch.
        source: Its source: "user", "model", "tool", "import" or "person"; None for the application's code.
        actor: The name of the source, such as a tool's name; None if unknown.
    """

    id: str
    content: str
    tags: tuple[str, ...] = ()
    created_at: datetime
    updated_at: datetime
    score: float | None = None
    why: Explanation | None = None
    details: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)


def convert_core_entry(version: MemoryVersion) -> CoreEntry:
    """Convert a stored version to a `CoreEntry`."""
    return CoreEntry(
        key=version.key,
        value=version.text,
        importance=version.importance or DEFAULT_IMPORTANCE,
        expires_at=None if version.expires_at is None else from_micros(version.expires_at),
        created_at=from_micros(version.created_at),
        updated_at=from_micros(version.written_at),
        **origin_fields(version),
    )


def convert_event(version: MemoryVersion) -> Event:
    """Convert a stored version to an `Event`."""
    return Event(
        id=version.key,
        kind=version.label or "",
        content=version.text,
        created_at=from_micros(version.created_at),
        **origin_fields(version),
    )


def convert_record(version: MemoryVersion) -> Record:
    """Convert a stored version to a `Record`."""
    # "words" are the additional search terms of a consolidated record.
    details = {name: value for name, value in version.extra.items() if name not in ("tags", "words")}
    return Record(
        id=version.key,
        content=version.text,
        tags=tuple(version.extra.get("tags", ())),
        created_at=from_micros(version.created_at),
        updated_at=from_micros(version.written_at),
        details=MappingProxyType(details),
        **origin_fields(version),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerContext(MemorySession):
    """The context that the layers of one memory share.

    Attributes:
        settings: The settings of the memory.
        compressor: The compressor that shortens texts to their limits.
    """

    settings: LayersConfig
    compressor: Compressor

    def remove_secrets(self, text: str) -> str:
        """Remove secrets from a text if `redact_secrets` is set."""
        return redact(text) if self.settings.redact_secrets else text


class Layer:
    """A layer of a layered memory.

    Args:
        context: The context that the layer shares with the other layers.
    """

    def __init__(self, context: LayerContext) -> None:
        self._context = context
        self._database = context.database

    @property
    def settings(self) -> LayersConfig:
        """The settings of the memory."""
        return self._context.settings

    def _get_one(self, kind: str, id_: str, convert: Callable[[MemoryVersion], T], **options: Any) -> T | None:
        """Return the event or record with an id; None if it does not exist."""

        def load(tx: Transaction, view: MemoryView) -> T | None:
            version = memory_rows.load_named(tx, view, kind, [id_]).get(id_)
            return None if version is None else convert(version)

        inputs: dict[str, Any] = {f"{kind}_id": id_}
        return self._context.read(f"{LAYER_NAMES[kind]}.get", load, **inputs, **options)

    def _list_newest(
        self,
        step_name: str | None,
        kind: str,
        limit: int,
        tags: Collection[str] = (),
        label: str | None = None,
        **options: Any,
    ) -> list[Any]:
        """List the newest events or records, sorted from the oldest to the newest.

        Args:
            step_name: The name of the step in a trace; None to trace no step.
            kind: "event" or "record".
            limit: The maximum number of entries.
            tags: Only records that have all of these tags. Default: all.
            label: Only events of this kind. Default: all.
            options: The other keyword arguments of `MemorySession.read`.
        """

        def load(tx: Transaction, view: MemoryView) -> list[Any]:
            versions = memory_rows.load_newest(tx, view, kind, limit=None if tags else finite_limit(limit), label=label)
            values = [CONVERTERS[kind](each) for each in versions if has_tags(each, tags)]
            return values[max(0, len(values) - limit) :]

        inputs: dict[str, Any] = {"limit": finite_limit(limit), "event_type": label, "tags": sorted(set(tags)) or None}
        return self._context.read(step_name, load, **inputs, **options)

    def _search(self, kind: str, query: str, limit: int, tags: Collection[str] = ()) -> list[Any]:
        """Search events or records, and return them with the best first.

        Args:
            kind: "event" or "record".
            query: Any text. "*" matches all; the newest entries are first and have no score.
            limit: The maximum number of entries.
            tags: Only records that have all of these tags. Default: all.
        """
        inputs = {"query": query, "limit": finite_limit(limit), "tags": tags or None}
        with self._context.step(f"{LAYER_NAMES[kind]}.search", "retriever", **inputs) as step:
            if query.strip() == MATCH_ALL:
                values = self._list_newest(None, kind, limit, tags)[::-1]
            else:
                hits = find_versions(self._context, (kind,), query, limit, lambda version: has_tags(version, tags))
                values = [replace(CONVERTERS[kind](version), score=hit.score, why=hit.why) for version, hit in hits]
            step.finish(lambda: document_outputs(values, kind))
        return values

    def _delete(self, kind: str, key: str, /, **inputs: Any) -> bool:
        """Delete one entry, and return whether it existed."""

        def remove(tx: Transaction, change: PendingWrite) -> bool:
            visible = memory_rows.load_named(tx, change.view, kind, [key])
            for each in visible:
                change.remove(kind, each)
            return key in visible

        return self._context.write(f"{LAYER_NAMES[kind]}.delete", remove, **inputs)


def has_tags(version: MemoryVersion, tags: Collection[str]) -> bool:
    """Return whether a stored version has all of some tags."""
    return set(tags) <= set(version.extra.get("tags", ()))


def finite_limit(limit: int) -> int | None:
    """Return a limit as a query or a trace takes it: None for `NO_LIMIT`."""
    return None if limit == NO_LIMIT else limit


LAYER_NAMES = {CORE: "core", EVENT: "recall", RECORD: "archival"}
"""The name of each layer, by the kind of its entries."""
CONVERTERS: Mapping[str, Callable[[MemoryVersion], Any]] = {EVENT: convert_event, RECORD: convert_record}
"""The functions that convert stored versions to public values, by kind."""


def _convert_versions(_: MemoryView | None, versions: list[MemoryVersion]) -> dict[int, tuple[str, Any]]:
    """Return the text and the public value of each version, by version number."""
    return {each.number: (each.text, CONVERTERS[each.kind](each)) for each in versions}


_load_recollections = partial(visible_recollections, load_values=_convert_versions)
PART = Part(
    search_kinds={
        kind: (SearchableKind(index_name=kind, texts=row_texts, recollections=_load_recollections),)
        for kind in (EVENT, RECORD)
    }
)
