"""What the layers share: their settings, their values, whose memory they work on, and how they read and change it.

A layer reads what its standpoint shows. All that one call writes is one transaction, made of *drafts* that are written
together. Expired values are swept away with them, a few at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from langchain_agentmem.base.argument_checks import (
    ALL,
    check_whole,
    flag_fields,
    listed_field,
    patterns_given,
    texts_given,
    whole_field,
)
from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.redaction import DEFAULT, SecretPattern, redact
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Performer, Work
from langchain_agentmem.layers.compression import Compressor
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import Change, Footing, as_step, changing, looking, maybe
from langchain_agentmem.rewinding.memory_rows import CORE, Kept, RowDraft, View
from langchain_agentmem.search.memory_search import Why
from langchain_agentmem.storage import Steps
from langchain_agentmem.tracing import brief, documents

PROTECTED_KEYS = ("RESOURCE_INDEX", "resource_digest", "idea_md_summary", "phase0_summary")
"""Keys of core memory that never leave it by themselves."""
SECTION_BUDGETS: Mapping[str, int] = MappingProxyType({"archival_snippet": 3000})


@dataclass(frozen=True, kw_only=True, slots=True)
class LayersConfig:
    """How a layered memory behaves.

    Attributes:
        enabled: Whether agents should use it; `is_enabled()` says so to them. Default: True.
        core_max_chars: How much core memory holds, in characters of its `key: value` lines. Default: 2,000.
        protected_keys: Keys of core memory that are never moved to archival memory to make room.
        oversize: What happens to a value that is larger than the whole budget: "compress" it, or "refuse" it with an
            `InvalidInput`. Default: "compress".
        recall_max_events: How many events stay when old ones are consolidated, and how many `recent` gives.
            Default: 20.
        retrieval_k: How many records a search gives. Default: 8.
        archival_max_chars: How long one record may be; a longer one is compressed or refused, as `oversize` says.
            Default: None, as long as it likes.
        pressure_thresholds: From which share of the budgets on the pressure is medium, high and critical. Default:
            .70, .85 and .95.
        auto_consolidate: Whether old events are consolidated by themselves. Default: True.
        recall_consolidation_threshold: At how many times `recall_max_events` that is done. Default: 1.5.
        consolidate_later: Whether a model that consolidates by itself is asked in the background, so that who appends
            an event does not wait for it. The memory of a thread is always consolidated at once. Default: True.
        max_compression_iterations: How often a model is asked to compress one text. Default: 3.
        section_budgets: How much of a prompt its sections may take. Default: 3,000 characters for a record.
        redact_secrets: Whether secrets are taken out of everything before it enters. Default: True.
        secret_patterns: What is taken for a secret; see `patterns_with`. Default: `secrets.DEFAULT`.
        final_memory_filename_md: The name of the exported text. Default: "final_memory_for_paper.md".
        final_memory_filename_json: The name of the exported data. Default: "final_memory_for_paper.json".

    Raises:
        InvalidInput: A value cannot work.
    """

    enabled: bool = True
    core_max_chars: int = 2000
    protected_keys: Sequence[str] = PROTECTED_KEYS
    oversize: Literal["compress", "refuse"] = "compress"
    recall_max_events: int = 20
    retrieval_k: int = 8
    archival_max_chars: int | None = None
    pressure_thresholds: Sequence[float] = (0.70, 0.85, 0.95)
    auto_consolidate: bool = True
    recall_consolidation_threshold: float = 1.5
    consolidate_later: bool = True
    max_compression_iterations: int = 3
    section_budgets: Mapping[str, int] = field(default_factory=lambda: SECTION_BUDGETS)
    redact_secrets: bool = True
    secret_patterns: Sequence[SecretPattern] = DEFAULT
    final_memory_filename_md: str = "final_memory_for_paper.md"
    final_memory_filename_json: str = "final_memory_for_paper.json"

    def __post_init__(self) -> None:
        for name in ("core_max_chars", "recall_max_events", "retrieval_k", "max_compression_iterations"):
            whole_field(self, name, least=1)
        whole_field(self, "archival_max_chars", least=1, optional=True)
        flag_fields(self)
        if self.oversize not in ("compress", "refuse"):
            raise InvalidInput(f'oversize must be "compress" or "refuse", not {safe_repr(self.oversize)}.')
        threshold: Any = self.recall_consolidation_threshold
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 1 <= threshold < math.inf:
            fault = f"must be a number of 1 or more, not {safe_repr(threshold)}"
            raise InvalidInput(f"recall_consolidation_threshold {fault}.")
        protected = listed_field("protected_keys", self.protected_keys)
        object.__setattr__(self, "protected_keys", tuple(texts_given(protected, "protected_keys")))
        object.__setattr__(self, "pressure_thresholds", _levels(self.pressure_thresholds))
        object.__setattr__(self, "section_budgets", _budgets(self.section_budgets))
        object.__setattr__(self, "secret_patterns", patterns_given(self.secret_patterns))
        for name in ("final_memory_filename_md", "final_memory_filename_json"):
            value: Any = getattr(self, name)
            if not isinstance(value, str) or value in ("", ".", "..") or any(sign in value for sign in "/\\\x00"):
                raise InvalidInput(f"{name} must be the name of a file without a folder, not {safe_repr(value)}.")

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> LayersConfig:
        """Take what concerns layered memory out of a configuration as the original has them.

        Args:
            config: Settings by name. Those that are for something else, such as `db_path`, are left alone.

        Raises:
            InvalidInput: It is no mapping, or a value cannot work.
        """
        if not isinstance(config, Mapping):
            raise InvalidInput(f"A configuration is a mapping of names to values, not {type(config).__name__}.")
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in config.items() if name in known})

    @property
    def consolidates_at(self) -> int:
        """The number of events beyond which old ones are consolidated."""
        return max(self.recall_max_events, math.floor(self.recall_max_events * self.recall_consolidation_threshold))

    @property
    def patterns(self) -> Sequence[SecretPattern]:
        """What is taken out of texts; nothing where secrets are not redacted."""
        return self.secret_patterns if self.redact_secrets else ()


def _levels(values: Any) -> tuple[float, ...]:
    if (
        isinstance(values, str | Mapping)
        or not isinstance(values, Sequence)
        or len(values) != 3  # noqa: PLR2004 - medium, high and critical
        or any(isinstance(each, bool) or not isinstance(each, int | float) for each in values)
        or not 0 < values[0] < values[1] < values[2] < math.inf
    ):
        raise InvalidInput(f"pressure_thresholds must be three ascending numbers above 0, not {safe_repr(values)}.")
    return tuple(map(float, values))


def _budgets(values: Any) -> Mapping[str, int]:
    if not isinstance(values, Mapping):
        raise InvalidInput(f"section_budgets must map names of sections to numbers, not {safe_repr(values)}.")
    for name, value in values.items():
        check_whole(f"section_budgets[{safe_repr(name)}]", value, 0)
    return MappingProxyType({**SECTION_BUDGETS, **values})


USUAL_LAYERS = LayersConfig()
"""How layered memory behaves where nobody says otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What a layer holds: where it comes from.

    Attributes:
        thread_id: The thread that wrote it; None for a branch.
        source: Where it comes from: "user", "model", "tool", "import", "person"; None for the application's code.
        actor: Who that is, such as a tool's name.
    """

    thread_id: str | None = field(default=None, compare=False, repr=False)
    source: str | None = field(default=None, compare=False, repr=False)
    actor: str | None = field(default=None, compare=False, repr=False)


def origin(kept: Kept) -> dict[str, Any]:
    """Where a row comes from, as fields of `Written`."""
    return {"thread_id": kept.thread, "source": kept.source, "actor": kept.actor}


@dataclass(frozen=True, kw_only=True, slots=True)
class Event(Written):
    """Something that happened.

    Attributes:
        id: Its id.
        kind: What kind of thing, such as "execution_result".
        content: What happened.
        created_at: When, in UTC.
        score: How well it answers the search that found it; None if no search did.
        why: Why that found it.
        thread_id: The thread that wrote it; None for a branch.
        source: Where it comes from: "user", "model", "tool", "import", "person"; None for the application's code.
        actor: Who that is, such as a tool's name.
    """

    id: str
    kind: str
    content: str
    created_at: datetime
    score: float | None = None
    why: Why | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Record(Written):
    """A record of archival memory.

    Attributes:
        id: Its id.
        content: What it says.
        tags: Its tags, in the order in which they were given.
        created_at: When it was written first, in UTC.
        updated_at: When this version of it was written.
        score: How well it answers the search that found it; None if no search did.
        why: Why that found it.
        details: Whatever else belongs to it: of a consolidated record the `events` that it stands for.
        thread_id: The thread that wrote this version; None for a branch.
        source: Where it comes from: "user", "model", "tool", "import", "person"; None for the application's code.
        actor: Who that is, such as a tool's name.
    """

    id: str
    content: str
    tags: tuple[str, ...] = ()
    created_at: datetime
    updated_at: datetime
    score: float | None = None
    why: Why | None = None
    details: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)


_BESIDE = ("tags", "words")


def event_of(kept: Kept, score: float | None = None, why: Why | None = None) -> Event:
    """The event that a row is."""
    return Event(
        id=kept.key,
        kind=kept.label or "",
        content=kept.text,
        created_at=moment(kept.created_at),
        score=score,
        why=why,
        **origin(kept),
    )


def record_of(kept: Kept) -> Record:
    """The record that a row is."""
    return Record(
        id=kept.key,
        content=kept.text,
        tags=tuple(kept.extra.get("tags", ())),
        created_at=moment(kept.created_at),
        updated_at=moment(kept.written_at),
        details=MappingProxyType({name: value for name, value in kept.extra.items() if name not in _BESIDE}),
        **origin(kept),
    )


T = TypeVar("T")
F = TypeVar("F", bound="Event | Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground(Footing):
    """What the layers of one memory stand on.

    Attributes:
        settings: How it behaves.
        compressor: Makes texts fit, with a model or without one.
    """

    settings: LayersConfig
    compressor: Compressor

    def clean(self, text: str) -> str:
        """A text without secrets."""
        return redact(text, self.settings.patterns)

    def fitted(self, text: str, limit: int, what: str) -> Work[str]:
        """A text that is no longer than it may be.

        Args:
            text: Any text.
            limit: The most characters that it may have.
            what: What it is, for the model or the error.

        Raises:
            InvalidInput: It is longer, and the settings want that refused.
        """
        if len(text) <= limit:
            return text
        if self.settings.oversize == "refuse":
            raise InvalidInput(
                f"The text has {len(text)} characters, and {what} has room for {limit}. Shorten it, or set "
                'oversize="compress".'
            )
        return (yield from self.compressor._compress_work(text, limit, what))


class Layer(Performer):
    """A part of a layered memory.

    Args:
        ground: What it stands on.
    """

    _part: str

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._database = ground.database

    @property
    def settings(self) -> LayersConfig:
        """How it behaves."""
        return self._ground.settings

    def _look(self, verb: str, look: Callable[[View], Steps[T]], **more: Any) -> Work[T]:
        """Read; see `looking`."""
        return looking(self._ground, f"{self._part}.{verb}", look, **more)

    def _change(self, verb: str, make: Callable[[Change], Steps[T]], **more: Any) -> Work[T]:
        """Write; see `changing`."""
        return changing(self._ground, f"{self._part}.{verb}", make, **more)

    def _as_step(self, verb: str, work: Work[T], **more: Any) -> Work[T]:
        """Do work as one step; see `as_step`."""
        return as_step(self._ground, f"{self._part}.{verb}", work, **more)

    def _one(
        self, kind: str, what: str, key: str, value_of: Callable[[Kept], T], show: Callable[[T], Any]
    ) -> Work[T | None]:
        """Read one thing by its id."""

        def look(view: View) -> Steps[T | None]:
            there = yield from memory_rows.named(view, kind, [key])
            return value_of(there[key]) if key in there else None

        more = {f"{what}_id": key}
        return self._look("get", look, outputs=lambda each: maybe(what, each, show), **more)

    def _deleted(self, kind: str, key: str, /, **inputs: Any) -> Work[bool]:
        """Delete one thing; gives whether it was there."""

        def make(change: Change) -> Steps[bool]:
            there = yield from memory_rows.named(change.view, kind, [key])
            for each in there:
                change.remove(kind, each)
            return key in there

        return self._change("delete", make, outputs=lambda there: {"deleted": there}, **inputs)

    def _searched(self, kind: str, work: Work[list[F]], query: str, most: int, **inputs: Any) -> Work[list[F]]:
        """Search, as a step that LangChain takes for a retriever."""
        inputs |= {"query": query, "limit": bounded(most)}
        shown = partial(documents, about=lambda each: (each.content, {"kind": kind}))
        return self._as_step("search", work, run_type="retriever", outputs=shown, **inputs)


def bounded(most: int) -> int | None:
    """A limit as a trace shows it: None for all."""
    return None if most == ALL else most


def redraft(kept: Kept, **changes: Any) -> RowDraft:
    """The next version of something, the same but for some changes."""
    draft = RowDraft(
        kept.kind,
        kept.key,
        kept.body,
        kept.created_at,
        label=kept.label,
        importance=kept.importance,
        expires_at=kept.expires_at,
        extra=kept.extra or None,
        findable=kept.kind != CORE,
    )
    return draft._replace(**changes)


def event_shown(each: Event) -> dict[str, Any]:
    """An event."""
    return {"id": each.id, "event_type": each.kind, "content": brief(each.content), "created_at": each.created_at}


def record_shown(each: Record) -> dict[str, Any]:
    """A record."""
    return {"id": each.id, "content": brief(each.content), "tags": each.tags, "updated_at": each.updated_at}
