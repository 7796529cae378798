"""Memory pressure: how full core and recall memory are, and what could be done about it (document 004)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Work
from langchain_agentmem.layers.consolidation import ConsolidationReport, consolidating, count, report_shown
from langchain_agentmem.layers.core_memory import CoreMemory, everything, leaving, size
from langchain_agentmem.layers.layer import Ground
from langchain_agentmem.layers.layers_config import LayersConfig
from langchain_agentmem.rewinding.memory_access import Change, as_step, changing, looking
from langchain_agentmem.rewinding.memory_rows import EVENT, RECORD, View
from langchain_agentmem.storage import Steps

LEVELS = ("low", "medium", "high", "critical")
MANY_RECORDS = 100
"""From more records than these on it is said that some could go."""
UNIMPORTANT = 2
"""What leaves core memory at high pressure is at most so important."""
_SHARE_OF_CORE = 0.6
_SHARE_OF_RECALL = 0.4


@dataclass(frozen=True, kw_only=True, slots=True)
class Pressure:
    """How full a memory is.

    Attributes:
        level: "low", "medium", "high" or "critical".
        overall: The share by which the level is judged: 60 % that of core, 40 % that of recall memory.
        core: The share of its budget that core memory takes.
        recall: How many times its window recall memory has.
        core_chars: What core memory takes, in characters.
        events: How many events there are.
        records: How many records there are.
        recommendations: What could be done: "consolidate_recall", "evict_core", "compress_core", "summarize_recall",
            "prune_archival".
    """

    level: str
    overall: float
    core: float
    recall: float
    core_chars: int
    events: int
    records: int
    recommendations: tuple[str, ...]


def pressure_of(pairs: Iterable[tuple[str, str]], events: int, records: int, settings: LayersConfig) -> Pressure:
    """How full a memory is.

    Args:
        pairs: The keys and values of core memory.
        events: How many events there are.
        records: How many records there are.
        settings: The budgets and thresholds.
    """
    chars = size(pairs)
    core, recall = chars / settings.core_max_chars, events / settings.recall_max_events
    overall = _SHARE_OF_CORE * core + _SHARE_OF_RECALL * min(recall, 1)
    medium, high, _ = settings.pressure_thresholds
    advice = {
        "consolidate_recall": recall > 1,
        "evict_core": core > high,
        "compress_core": core > medium,
        "summarize_recall": recall > medium,
        "prune_archival": records > MANY_RECORDS,
    }
    return Pressure(
        level=LEVELS[sum(overall >= threshold for threshold in settings.pressure_thresholds)],
        overall=overall,
        core=core,
        recall=recall,
        core_chars=chars,
        events=events,
        records=records,
        recommendations=tuple(name for name, holds in advice.items() if holds),
    )


def measuring(ground: Ground, *, shown: bool = True) -> Work[Pressure]:
    """How full a memory is, as work.

    Args:
        ground: The memory.
        shown: Whether it is a step of a trace. If not, it is a detail of another. Default: it is.
    """

    def look(view: View) -> Steps[Pressure]:
        core = yield from everything(view)
        events = yield from count(view, EVENT)
        records = yield from count(view, RECORD)
        return pressure_of(((each.key, each.text) for each in core), events, records, ground.settings)

    return (yield from looking(ground, "layers.pressure", look, outputs=asdict, shown=shown))


def relieving(ground: Ground, core: CoreMemory, level: Any = None) -> Work[ConsolidationReport]:
    """Do what a level of pressure asks for.

    From "medium" on old events are consolidated. From "high" on what is unimportant leaves core memory, until it takes
    no more than the first threshold of its budget; at "critical" whatever is beyond the budget leaves.

    Args:
        ground: The memory.
        core: Its core memory.
        level: The level. Default: that of the pressure there is.

    Raises:
        InvalidInput: There is no such level.
    """
    if level is not None and not (isinstance(level, str) and level in LEVELS):
        raise InvalidInput(f"level must be one of {', '.join(LEVELS)}, not {safe_repr(level)}.")
    return (
        yield from as_step(
            ground, "layers.consolidate", _relieving(ground, core, level), level=level, outputs=report_shown
        )
    )


def _relieving(ground: Ground, core: CoreMemory, level: str | None) -> Work[ConsolidationReport]:
    if level is None:
        level = (yield from measuring(ground, shown=False)).level
    rank = LEVELS.index(level)
    report = ConsolidationReport()
    if rank >= LEVELS.index("medium"):
        report = yield from consolidating(ground, keep=ground.settings.recall_max_events)
    evicted: tuple[str, ...] = ()
    if rank >= LEVELS.index("high"):
        evicted = yield from changing(
            ground,
            "core.relieve",
            lambda change: _relieve(core, change, ground.settings, rank),
            outputs=lambda keys: {"evicted": keys},
        )
    return ConsolidationReport(level=level, events=report.events, records=report.records, evicted=evicted)


def _relieve(core: CoreMemory, change: Change, settings: LayersConfig, rank: int) -> Steps[tuple[str, ...]]:
    there = yield from everything(change.view)
    goal = int(settings.core_max_chars * settings.pressure_thresholds[0])
    gone = leaving(there, settings, limit=goal, wanted=lambda each: (each.importance or 0) <= UNIMPORTANT)
    if rank >= LEVELS.index("critical"):
        gone += leaving([each for each in there if each not in gone], settings)
    core.evict(change, gone)
    return tuple(each.key for each in gone)
