"""All layers of a memory at once: read and written in one transaction, and made into what a prompt shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_agentmem.base.argument_checks import ALL
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Work
from langchain_agentmem.language_models.tokens import Budget
from langchain_agentmem.layers.archival_memory import ArchivalMemory, record
from langchain_agentmem.layers.consolidation import adding, asking
from langchain_agentmem.layers.core_memory import (
    ATTEMPTS,
    NO_ROOM,
    CoreMemory,
    Setting,
    TooLarge,
    entry_of,
    everything,
    setting_shown,
)
from langchain_agentmem.layers.final_context import final_memory
from langchain_agentmem.layers.layer import Ground
from langchain_agentmem.layers.layer_values import Record, event_of, record_of
from langchain_agentmem.layers.prompt_context import Material, context_of, prompt_text
from langchain_agentmem.layers.recall_memory import RecallMemory, events
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import Change, as_step, changing, looking
from langchain_agentmem.rewinding.memory_rows import RECORD, Draft, View
from langchain_agentmem.storage import Steps
from langchain_agentmem.tracing import brief

SCOPES = ("all", "core", "recall", "archival")
NOTE = "note"
"""The kind of an event of which nothing but the text is given."""


class Written(NamedTuple):
    """What was written.

    Attributes:
        core: The keys that were set.
        recall: The ids of the events.
        archival: The ids of the records.
    """

    core: tuple[str, ...]
    recall: tuple[str, ...]
    archival: tuple[str, ...]


def reading(ground: Ground, scope: Any) -> Work[dict[str, Any]]:
    """Everything that a memory shows.

    Args:
        ground: The memory.
        scope: Of which layers.

    Raises:
        InvalidInput: There is no such scope.
    """
    if not isinstance(scope, str) or scope not in SCOPES:
        raise InvalidInput(f"scope must be one of {', '.join(SCOPES)}, not {safe_repr(scope)}.")

    def look(view: View) -> Steps[dict[str, Any]]:
        found: dict[str, Any] = {}
        if scope in ("all", "core"):
            found["core"] = {each.key: each.text for each in (yield from everything(view))}
        if scope in ("all", "recall"):
            found["recall"] = [
                {
                    "id": each.id,
                    "type": each.kind,
                    "content": each.content,
                    "timestamp": each.created_at.timestamp(),
                }
                for each in map(event_of, (yield from events(view, ALL)))
            ]
        if scope in ("all", "archival"):
            found["archival"] = [
                {
                    "id": each.id,
                    "content": each.content,
                    "tags": list(each.tags),
                    "timestamp": each.created_at.timestamp(),
                }
                for each in map(record_of, (yield from memory_rows.current(view, RECORD)))
            ]
        return found

    return (yield from looking(ground, "layers.read", look, scope=scope, outputs=_counts))


def writing(
    ground: Ground,
    core: CoreMemory,
    recall: RecallMemory,
    archival: ArchivalMemory,
    values: Any,
    happened: Any,
    records: Any,
) -> Work[Written]:
    """Write to several layers, all of it or nothing.

    Args:
        ground: The memory.
        core: Its core memory.
        recall: Its recall memory.
        archival: Its archival memory.
        values: For core memory, by key.
        happened: For recall memory.
        records: For archival memory.

    Raises:
        InvalidInput: Something of it is wrong.
    """
    settings = _settings(core, values)
    new = [_event(recall, each) for each in _listed(happened)]
    clean = [archival.checked(*_content(each)) for each in _listed(records)]
    return (
        yield from as_step(
            ground,
            "layers.write",
            _writing(ground, core, archival, settings, new, clean),
            core=lambda: [setting_shown(each) for each in settings],
            recall=lambda: [
                {"event_type": each.label, "content": brief(memory_rows.text_of(each.body or b""))} for each in new
            ],
            archival=lambda: [{"content": brief(text), "tags": tags} for text, tags in clean],
            outputs=lambda written: {"event_ids": written.recall, "record_ids": written.archival},
        )
    )


def _writing(
    ground: Ground,
    core: CoreMemory,
    archival: ArchivalMemory,
    settings: Sequence[Setting],
    new: Sequence[Draft],
    clean: Sequence[tuple[str, list[str]]],
) -> Work[Written]:
    kept = []
    for text, tags in clean:
        kept.append((ground.database.new_id(), (yield from archival.fitted(text)), tags))

    def make(change: Change) -> Steps[TooLarge | bool]:
        too_large = (yield from core.put(change, settings)) if settings else None
        if too_large is not None:
            return too_large
        change.drafts += new
        change.drafts += [record(*each, change.now) for each in kept]
        return (yield from adding(ground, change, len(new)))

    for _ in range(ATTEMPTS + len(settings)):
        outcome = yield from changing(ground, "layers.put", make, shown=False)
        if not isinstance(outcome, TooLarge):
            break
        settings = yield from core.smaller(settings, outcome)
    else:
        raise InvalidInput(NO_ROOM)
    if outcome:
        yield from asking(ground)
    return Written(
        tuple(each.key for each in settings), tuple(each.key for each in new), tuple(key for key, _, _ in kept)
    )


def finishing(ground: Ground) -> Work[dict[str, Any]]:
    """The final memory: everything that a memory holds, as data."""

    def look(view: View) -> Steps[dict[str, Any]]:
        core = [entry_of(each) for each in (yield from everything(view))]
        happened = [event_of(each) for each in (yield from events(view, ALL))]
        return final_memory(
            core, happened, [record_of(each) for each in (yield from memory_rows.current(view, RECORD))]
        )

    return (yield from looking(ground, "layers.export_final", look, outputs=_final_counts))


def gathering(ground: Ground, archival: ArchivalMemory, task_hint: str | None) -> Work[Material]:
    """What there is for a prompt.

    Args:
        ground: The memory.
        archival: Its archival memory.
        task_hint: What records are searched for; None for no records.
    """

    def look(view: View) -> Steps[Material]:
        core = [entry_of(each) for each in (yield from everything(view))]
        happened = yield from events(view, ground.settings.recall_max_events)
        return Material(core=core, events=[event_of(each) for each in happened])

    material = yield from looking(ground, "layers.gather", look, shown=False)
    found: Sequence[Record] = ()
    if task_hint is not None:
        found = yield from archival.searching(task_hint, ground.settings.retrieval_k)
    return material._replace(records=found)


def context(ground: Ground, archival: ArchivalMemory, task_hint: str | None, budget: Any) -> Work[dict[str, Any]]:
    """What a prompt shows, as data; see `gathering` and `Budget.of`."""
    room = Budget.of(budget, ground.settings.section_budgets)

    def work() -> Work[dict[str, Any]]:
        material = yield from gathering(ground, archival, task_hint)
        return context_of(material, room, protected=ground.settings.protected_keys)

    return (yield from as_step(ground, "layers.context", work(), task_hint=lambda: task_hint, outputs=_counts))


def prompt(ground: Ground, archival: ArchivalMemory, task_hint: str | None, budget: Any) -> Work[str]:
    """What a prompt shows, as text; see `gathering` and `Budget.of`."""
    room = Budget.of(budget, ground.settings.section_budgets)

    def work() -> Work[str]:
        material = yield from gathering(ground, archival, task_hint)
        return (
            yield from prompt_text(
                material, room, ground.compressor.compressing, protected=ground.settings.protected_keys
            )
        )

    return (
        yield from as_step(
            ground,
            "layers.format_for_prompt",
            work(),
            task_hint=lambda: task_hint,
            outputs=lambda text: {"text": brief(text), "characters": len(text)},
        )
    )


def _settings(core: CoreMemory, values: Any) -> list[Setting]:
    if values is None:
        return []
    if not isinstance(values, Mapping):
        raise InvalidInput(f"core is a mapping of keys to values, not {type(values).__name__}.")
    made: dict[str, Setting] = {}
    for key, value in values.items():
        given = value if isinstance(value, Mapping) else {"value": value}
        if "value" not in given or (unknown := given.keys() - {"value", "importance", "ttl"}):
            what = "no value" if "value" not in given else f"an unknown {safe_repr(min(map(str, unknown)))}"
            raise InvalidInput(f"The value of {safe_repr(key)} has {what}; give text, or value, importance and ttl.")
        setting = core.setting_of(key, **given)
        made[setting.key] = setting
    return list(made.values())


def _event(recall: RecallMemory, given: Any) -> Draft:
    if isinstance(given, str):
        return recall.event_of(NOTE, given)
    names = ("kind", "type", "event_type")
    _check_names("An event", given, (*names, "content", "at"))
    kind = next((given[name] for name in names if name in given), NOTE)
    return recall.event_of(kind, given.get("content"), given.get("at"))


def _content(given: Any) -> tuple[Any, Any]:
    if isinstance(given, str):
        return given, ()
    _check_names("A record", given, ("content", "text", "tags"))
    return given.get("content", given.get("text")), given.get("tags") or ()


def _check_names(what: str, given: Mapping[Any, Any], known: Sequence[str]) -> None:
    """A misspelled name that is passed over in silence would look as if it had been obeyed."""
    if unknown := [name for name in given if name not in known]:
        raise InvalidInput(f"{what} has no {safe_repr(unknown[0])}; it has {', '.join(known)}.")


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, str | Mapping):
        return [given]
    if not isinstance(given, Sequence) or not all(isinstance(each, str | Mapping) for each in given):
        raise InvalidInput(f"Events and records are texts or mappings, or lists of them, not {safe_repr(given)}.")
    return list(given)


def _counts(found: Mapping[str, Any]) -> dict[str, Any]:
    """What a trace shows of whole layers: how much there is of each."""
    return {name: len(values) for name, values in found.items() if isinstance(values, Mapping | list)}


def _final_counts(final: Mapping[str, Any]) -> dict[str, Any]:
    counts = {name: len(final[name]) for name in ("core", "recall", "resources_used")}
    return {**counts, "archival": final["archival_summary"]["count"]}
