"""The part of a memory that goes into a prompt, as text and as data, and the final memory: everything it holds.

    ## Core Memory
    **name**: Ada

    ## Recent Events
    - [phase_complete] The baseline runs.

    ## Retrieved Context
    - Guided scheduling beats dynamic by 12 %.

Every line of a value but its first is indented further than a heading or an entry can be, and control sequences are
removed from it, so no value can pass for a section or an entry. The order of the lines changes only with their
content, so that a provider's cache of the prompt lives as long as possible. Only the function that shortens a record
may ask a model; everything else here is pure.

The final memory of the same memory is the same bytes. Values may hold anything: in its text, they form no heading,
list, link or tag of their own.
"""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from langchain_agentmem.base.fencing import sanitize_line, sanitize_text
from langchain_agentmem.base.files import check_path, write_atomically
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.language_models.tokens import ARCHIVAL, CORE, CUT_MARKER, RECALL, Budget, Measure, TokenCounter
from langchain_agentmem.layers.layer import CoreEntry, Event, Record
from langchain_agentmem.layers.memory_layers import PROTECTED_KEYS
from langchain_agentmem.layers.resource_memory import use_of
from langchain_agentmem.search.memory_search import Explanation, origin_of

HEADINGS: Mapping[str, str] = {CORE: "## Core Memory", RECALL: "## Recent Events", ARCHIVAL: "## Retrieved Context"}
PROMPT_EVENTS = 5
"""The number of newest events that a prompt shows."""
EVENT_CHARS = 200
"""The characters of an event that a prompt shows."""

_LINE_INDENT, _ITEM_INDENT = "\n" + " " * 4, "\n" + " " * 6
_LABEL_SIGNS = re.compile(r"[*\\\]]")
_BLOCK_START = re.compile(r"\A(\d{0,9})([#>`~]|[-+*=_.)](?=[\s=*_-]|\Z))")

T = TypeVar("T")
Cutter = Callable[[str, int, str], str]
"""A function that shortens a text to a number of characters, given a short description of it."""


class PromptPassage(NamedTuple):
    """A passage that was found for a query and is no record.

    Attributes:
        id: Its id.
        content: Its text.
        created_at: The time it was written.
        label: The label in its line, such as the speaker and the day.
        tags: Its tags.
        kind: Its kind, such as "event".
        score: The relevance to the query; None if unknown.
        why: The explanation of the score.
        place: Its place among passages of the same time.
        row: See `Recollection`.
    """

    id: str
    content: str
    created_at: datetime
    label: str = ""
    tags: tuple[str, ...] = ()
    kind: str = "record"
    score: float | None = None
    why: Explanation | None = None
    place: int = 0
    row: tuple[str, int] | None = None


AnyRecord: TypeAlias = "Record | PromptPassage"


class PromptSection(NamedTuple):
    """The sections of a prompt, with the values, events and records that they show.

    Attributes:
        sections: The sections that are not empty, each with its heading: "core", "recall", "archival", in this order.
        core: The values shown, in the order of the section.
        events: The events shown, oldest first.
        records: The records shown, in the order of the section.
    """

    sections: dict[str, str]
    core: Sequence[CoreEntry] = ()
    events: Sequence[Event] = ()
    records: Sequence[AnyRecord] = ()

    @property
    def text(self) -> str:
        """The sections, one after the other; "" if there are none."""
        return "\n\n".join(self.sections.values())


class PromptMaterial(NamedTuple):
    """The material from which a prompt is composed.

    Attributes:
        core: Core memory, in any order.
        events: The events, oldest first.
        records: The records and passages found, the best first.
        chronological: Whether those that fit are shown oldest first.
    """

    core: Sequence[CoreEntry] = ()
    events: Sequence[Event] = ()
    records: Sequence[AnyRecord] = ()
    chronological: bool = False

    @property
    def data(self) -> dict[str, Any]:
        """The material as data.

        "core" holds values by key, in the order of a prompt; "recall" events with "id", "type", "content" and
        "timestamp" (seconds since 1970), oldest first; "archival" records with "id", "content", "tags", "timestamp"
        and, if a search returned one, "score", in their order.
        """
        return {
            "core": {each.key: each.value for each in sort_core(self.core)},
            "recall": [event_data(each) for each in self.events],
            "archival": [record_data(each) for each in self.records],
        }


def event_data(event: Event) -> dict[str, Any]:
    """Convert an event to a dictionary for contexts and exports."""
    time = event.created_at.timestamp()
    return {"id": event.id, "type": event.kind, "content": event.content, "timestamp": time}


def record_data(record: AnyRecord) -> dict[str, Any]:
    """Convert a record to a dictionary for contexts and exports."""
    data: dict[str, Any] = {"id": record.id, "content": record.content, "tags": list(record.tags)}
    data["timestamp"] = record.created_at.timestamp()
    return data if record.score is None else {**data, "score": record.score}


def compose(
    material: PromptMaterial,
    budget: Budget | None = None,
    shorten: Cutter | None = None,
    counter: TokenCounter | None = None,
) -> PromptSection:
    """Compose the sections of a prompt, as much as a budget allows.

    Args:
        material: The material. Only its newest five events are shown.
        budget: The room for the lines of the prompt. Default: unlimited.
        shorten: The function that shortens records beyond their limit. Default: they are cut.
        counter: The counter of tokens.
    """
    budget = budget or Budget()
    measure = Measure(budget, counter)
    filler = _BudgetFiller(budget, measure)

    def worth_of(entry: CoreEntry) -> tuple[Any, ...]:
        return entry.key in PROTECTED_KEYS, entry.importance, entry.updated_at

    entries = sort_core(material.core)
    core = filler.fill(CORE, entries, list(map(_core_line, entries)), list(map(worth_of, entries)))
    events = material.events[-PROMPT_EVENTS:]
    shown_events = filler.fill(RECALL, events, list(map(_event_line, events)), range(len(events)))
    record_lines: list[tuple[AnyRecord, str]] = []
    room = filler.room(ARCHIVAL)
    for record in material.records:
        if room is not None and measure.size("\n".join(line for _, line in record_lines)) >= room:
            break  # records that are not shown need not be shortened
        most = budget.archival_snippet if room is None else min(budget.archival_snippet, room)
        text = record.content
        if measure.size(text) > most and shorten is not None:
            text = shorten(text, measure.characters(most), "archival snippet")
        record_lines.append((record, _record_line(record, measure.cut(text, most))))
    ranks = list(range(len(record_lines)))
    if material.chronological:
        ranks.sort(key=lambda rank: (record_lines[rank][0].created_at, getattr(record_lines[rank][0], "place", 0)))
    records, lines = [record_lines[rank][0] for rank in ranks], [record_lines[rank][1] for rank in ranks]
    shown_records = filler.fill(ARCHIVAL, records, lines, [-rank for rank in ranks])
    return PromptSection(filler.sections, core, shown_events, shown_records)


class _BudgetFiller:
    """A filler of a budget, one section after the other."""

    def __init__(self, budget: Budget, measure: Measure) -> None:
        self._budget = budget
        self._measure = measure
        self.sections: dict[str, str] = {}

    def room(self, name: str) -> int | None:
        """Return the room that a section has; None if unlimited."""
        own, total = getattr(self._budget, name), self._budget.total
        if total is not None:
            used = "\n\n".join([*self.sections.values(), ""])
            total = max(0, total - self._measure.size(used))
        return total if own is None else own if total is None else min(own, total)

    def fill(self, name: str, things: Sequence[T], lines: Sequence[str], worth: Sequence[Any]) -> list[T]:
        """Write a section with the most valuable lines that fit; return the things they show.

        Args:
            name: The name of the section.
            things: The things to show, in the order of the section.
            lines: The line of each.
            worth: The value of each. Of equals, the last is the most valuable.
        """
        best = sorted(range(len(lines)), key=lambda index: (worth[index], index), reverse=True)
        room, count = self.room(name), len(lines)

        def text_of(count: int) -> str:
            return _format_section(name, [lines[index] for index in sorted(best[:count])])

        if room is not None:
            sizes = range(len(lines) + 1)
            count = bisect_right(sizes, room, lo=1, key=lambda count: self._measure.size(text_of(count))) - 1
        text = text_of(count)
        if lines and not count and room is not None:  # cut the only line, if more than the heading fits
            count, text = 1, self._measure.cut(text_of(1), room)
            if len(text) <= len(_format_section(name, [CUT_MARKER])):
                text = ""
        if text:
            self.sections[name] = text
        return [things[index] for index in sorted(best[:count])] if text else []


def _format_section(name: str, lines: Sequence[str]) -> str:
    return "\n".join([HEADINGS[name], *lines]) if lines else ""


def sort_core(entries: Sequence[CoreEntry]) -> list[CoreEntry]:
    """Sort core memory as it is shown: in the order in which its keys were first set."""
    return sorted(entries, key=lambda each: (each.created_at, each.key))


def _core_line(entry: CoreEntry) -> str:
    origin = origin_of(entry)
    # The origin is shown if neither a person nor the agent vouches for the value.
    doubt = f" ({_escape_label(origin)}, {entry.updated_at:%Y-%m-%d})" if origin.startswith(("tool", "import")) else ""
    return f"**{_escape_label(entry.key)}**{doubt}: {_indent(sanitize_text(entry.value), _LINE_INDENT)}"


def _event_line(event: Event) -> str:
    text = sanitize_text(event.content)
    if len(text) > EVENT_CHARS:
        text = text[:EVENT_CHARS] + CUT_MARKER
    origin = origin_of(event)
    kind = f"{event.kind}, {origin}" if origin else event.kind
    return f"- {_bracket(kind)} {_indent(text, _ITEM_INDENT)}"


def _record_line(record: AnyRecord, text: str) -> str:
    if isinstance(record, PromptPassage):
        label = record.label
    else:
        origin = origin_of(record)
        label = f"record, {record.updated_at:%Y-%m-%d}, {origin}" if origin else ""
    value = _indent(sanitize_text(text), _ITEM_INDENT)
    # Without a label before it, a text could begin a heading or a list of its own.
    return f"- {_bracket(label)} {value}" if label else "- " + _BLOCK_START.sub(r"\g<1>\\\g<2>", value)


def _escape_label(text: str) -> str:
    """Escape a key or a kind for its line, so that nothing in it ends it early."""
    return _LABEL_SIGNS.sub(r"\\\g<0>", sanitize_line(text))


def _bracket(text: str) -> str:
    """Put a label in brackets, so that the result is no special token of a model."""
    label = _escape_label(text)
    return f"[{label}]" if sanitize_text(f"[{label}]") == f"[{label}]" else f"[\\{label}]"


def _indent(text: str, indent: str) -> str:
    """Indent the further lines of a text deeper than any heading or entry."""
    return re.sub(r"[ \t]*\n", indent, text).strip()


_FINAL_SIGNS = re.compile(r"[\\`*_\[\]<>|~#]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def final_memory(core: Sequence[CoreEntry], events: Sequence[Event], records: Sequence[AnyRecord]) -> dict[str, Any]:
    """Return everything that a memory holds, as data. Times are seconds since 1970.

    Args:
        core: Core memory.
        events: Every event.
        records: Every record.

    Returns:
        "core": values by key; "recall": events with "id", "type", "content" and "timestamp"; "archival_summary": the
        number of records ("count"), the number for each tag ("tags"), and the beginning of each record ("records");
        "resources_used": each resource with its "uses"; "experiment_timeline": all of it in the order of time.
    """
    events = sorted(events, key=lambda each: (each.created_at, each.id))
    records = sorted(records, key=lambda each: (each.created_at, each.id))
    record_uses = [(each, use_of(each.content, each.tags, each.created_at)) for each in records]
    uses = [use for _, use in record_uses if use is not None]
    written = [each for each, use in record_uses if use is None]
    tags = Counter(tag for each in written for tag in each.tags)
    return {
        "core": {each.key: each.value for each in sort_core(core)},
        "recall": [event_data(each) for each in events],
        "archival_summary": {
            "count": len(written),
            "tags": {tag: tags[tag] for tag in sorted(tags, key=lambda tag: (-tags[tag], tag))},
            "records": [
                {"id": each.id, "tags": list(each.tags), "timestamp": each.created_at.timestamp()}
                | {"excerpt": _excerpt(each.content, 500)}
                for each in written
            ],
        },
        "resources_used": _group_uses(uses),
        "experiment_timeline": _timeline(events, written, uses),
    }


def final_markdown(final: Mapping[str, Any]) -> str:
    """Format the final memory as Markdown.

    Args:
        final: The result of `final_memory`.
    """
    summary = final["archival_summary"]
    records = [
        _format_item(_format_head(each, ", ".join(each["tags"])), each["excerpt"]) for each in summary["records"]
    ]
    if records:
        tags = ", ".join(f"{_escape(tag)} ({count})" for tag, count in summary["tags"].items())
        records = [f"{summary['count']} records.", *(["", f"Tags: {tags}."] if tags else []), "", *records]
    sections = {
        "Core Memory": [_format_item(f"**{_escape(key)}**", value) for key, value in final["core"].items()],
        "Events": [_format_item(_format_head(each, each["type"]), each["content"]) for each in final["recall"]],
        "Archival Summary": records,
        "Resources Used": [
            _format_item(
                f"**{_escape(each['resource_id'])}**, {_format_head(use, use['usage_type'])}", use["context"] or ""
            )
            for each in final["resources_used"]
            for use in each["uses"]
        ],
        "Experiment Timeline": [
            _format_item(_format_head(each, ": ".join(filter(None, (each["layer"], each["type"])))), each["summary"])
            for each in final["experiment_timeline"]
        ],
    }
    text = ["# Final Memory"]
    for heading, lines in sections.items():
        text += ["", f"## {heading}", "", *(lines or ["Nothing."])]
    return "\n".join(text) + "\n"


def write_final(
    final: Mapping[str, Any], output_dir: str | os.PathLike[str], markdown_name: str, json_name: str
) -> tuple[Path, Path]:
    """Write the final memory to two files, each whole or not at all.

    Args:
        final: The result of `final_memory`.
        output_dir: The folder, which is created if it is missing. Files of these names are replaced.
        markdown_name: The name of the file for the text.
        json_name: The name of the file for the data.

    Returns:
        The paths of the text and of the data.

    Raises:
        InvalidInput: The two names are equal, or the files cannot be written.
    """
    folder = check_path(output_dir)
    if markdown_name == json_name:
        raise InvalidInput(f"The text and the data of the final memory cannot both be called {safe_repr(json_name)}.")
    markdown_path, json_path = folder / markdown_name, folder / json_name
    with write_atomically(markdown_path, make_folder=True) as text, write_atomically(json_path) as data:
        text.write(final_markdown(final))
        # Lone surrogates, which UTF-8 cannot encode, are written as escapes.
        encoded = json.dumps(final, ensure_ascii=False, indent=2)
        data.write(_SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", encoded) + "\n")
    return markdown_path, json_path


def _group_uses(uses: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    uses_by_id: dict[str, list[dict[str, Any]]] = {}
    for use in uses:
        uses_by_id.setdefault(use["resource_id"], []).append({key: use[key] for key in use if key != "resource_id"})
    return [{"resource_id": name, "uses": uses_by_id[name]} for name in sorted(uses_by_id)]


def _timeline(
    events: Sequence[Event], records: Sequence[AnyRecord], uses: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    entries = [(each.created_at.timestamp(), "recall", each.kind, each.content) for each in events]
    entries += [(each.created_at.timestamp(), "archival", ", ".join(each.tags), each.content) for each in records]
    for use in uses:
        text = ": ".join(filter(None, (use["resource_id"], use["context"])))
        entries += [(use["timestamp"], "resource", use["usage_type"], text)]
    entries.sort(key=lambda each: each[0])
    return [
        {"timestamp": time, "layer": layer, "type": kind, "summary": _excerpt(text, 200)}
        for time, layer, kind, text in entries
    ]


def _excerpt(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _format_item(head: str, text: str) -> str:
    """Format a list item: its text after its head, or several lines as a fenced block."""
    text = sanitize_text(text).strip("\n")
    if "\n" not in text:
        return f"- {head}: {_escape(text.strip())}" if text.strip() else f"- {head}"
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    block = [f"  {line}" if line.strip() else "" for line in (fence + "text", *text.split("\n"), fence)]
    return "\n".join([f"- {head}:", "", *block])


def _format_head(entry: Mapping[str, Any], kind: str) -> str:
    time = f"{datetime.fromtimestamp(entry['timestamp'], UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{time} \\[{_escape(kind)}\\]" if kind else time


def _escape(text: str) -> str:
    """Return a text on one line, with all Markdown escaped."""
    return _FINAL_SIGNS.sub(r"\\\g<0>", sanitize_line(text))
