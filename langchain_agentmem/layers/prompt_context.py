"""The sections of a prompt that contain memory, and the final memory: an export of all entries as data or Markdown.

    ## Core Memory
    **name**: Ada

    ## Recent Events
    - [phase_complete] The baseline runs.

    ## Retrieved Context
    - Guided scheduling beats dynamic by 12 %.

A value cannot imitate a section or an entry: control sequences are removed from it, and all its lines after the first
are indented further than headings and entries. The same material always produces the same lines, and a changed value of
core memory keeps its place, so that a provider can reuse its prompt cache. Only the `Shortener` may call a model. All
other functions except `write_final` are pure.

The export of an unchanged memory is byte-identical. In the Markdown of the export, a value cannot form a heading, list,
link or tag.
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
from langchain_agentmem.layers.resource_memory import parse_use
from langchain_agentmem.search.memory_search import Explanation, origin_of

HEADINGS: Mapping[str, str] = {CORE: "## Core Memory", RECALL: "## Recent Events", ARCHIVAL: "## Retrieved Context"}
PROMPT_EVENTS = 5
"""The maximum number of events in a prompt."""
EVENT_CHARS = 200
"""The maximum number of characters of an event in a prompt."""

_LINE_INDENT, _ITEM_INDENT = "\n" + " " * 4, "\n" + " " * 6
_LABEL_SPECIAL = re.compile(r"[*\\\]]")
# A text that begins like a Markdown block: a list item, heading, quotation, fence or rule.
_BLOCK_START = re.compile(r"\A(\d{0,9})([#>`~]|[-+*=_.)](?=[\s=*_-]|\Z))")

T = TypeVar("T")
Shortener = Callable[[str, int, str], str]
"""A function that shortens a text to a number of characters. Its third argument describes the text."""


class PromptPassage(NamedTuple):
    """A search result, such as a message or a fact, that is shown like a record.

    Attributes:
        id: Its id.
        content: Its text.
        created_at: The time it was written.
        label: The label at the start of its line, such as the speaker and the day.
        tags: Its tags.
        kind: Its kind, such as "record" or "event".
        score: Its relevance to the query; None if unknown.
        why: The explanation of the score.
        sequence: The number by which passages of the same time are sorted.
        row: Its kind and row number in the search index; None if it is not from the index.
    """

    id: str
    content: str
    created_at: datetime
    label: str = ""
    tags: tuple[str, ...] = ()
    kind: str = "record"
    score: float | None = None
    why: Explanation | None = None
    sequence: int = 0
    row: tuple[str, int] | None = None


AnyRecord: TypeAlias = "Record | PromptPassage"
"""A record, or a passage that is shown like a record."""


class PromptSections(NamedTuple):
    """The sections of a prompt, with the values, events and records in them.

    Attributes:
        sections: The sections that are not empty, each with its heading: "core", "recall", "archival", in this order.
        core: The values in the prompt, in the order of the section.
        events: The events in the prompt, oldest first.
        records: The records in the prompt, in the order of the section.
    """

    sections: dict[str, str]
    core: Sequence[CoreEntry] = ()
    events: Sequence[Event] = ()
    records: Sequence[AnyRecord] = ()

    @property
    def text(self) -> str:
        """The sections, separated by empty lines; "" if there are none."""
        return "\n\n".join(self.sections.values())


class PromptMaterial(NamedTuple):
    """The material from which a prompt is composed.

    Attributes:
        core: Core memory, in any order.
        events: The events, oldest first.
        records: The records and passages found, the best first.
        chronological: True to sort the records that fit by time, oldest first.
    """

    core: Sequence[CoreEntry] = ()
    events: Sequence[Event] = ()
    records: Sequence[AnyRecord] = ()
    chronological: bool = False

    @property
    def data(self) -> dict[str, Any]:
        """The material as data.

        "core": values by key, in the order of a prompt. "recall": events with "id", "type", "content" and "timestamp"
        (seconds since 1970), oldest first. "archival": records in their order, with "id", "content", "tags",
        "timestamp" and, for the results of a search, "score".
        """
        return {
            "core": {each.key: each.value for each in sort_core(self.core)},
            "recall": [describe_event(each) for each in self.events],
            "archival": [describe_record(each) for each in self.records],
        }


def describe_event(event: Event) -> dict[str, Any]:
    """Convert an event to a dictionary for contexts and exports."""
    return {"id": event.id, "type": event.kind, "content": event.content, "timestamp": event.created_at.timestamp()}


def describe_record(record: AnyRecord) -> dict[str, Any]:
    """Convert a record to a dictionary for contexts and exports."""
    data: dict[str, Any] = {"id": record.id, "content": record.content, "tags": list(record.tags)}
    data["timestamp"] = record.created_at.timestamp()
    return data if record.score is None else {**data, "score": record.score}


def compose(
    material: PromptMaterial,
    budget: Budget | None = None,
    shorten: Shortener | None = None,
    counter: TokenCounter | None = None,
) -> PromptSections:
    """Compose the sections of a prompt within a budget.

    Args:
        material: The material. Only the newest `PROMPT_EVENTS` of its events are used.
        budget: The budget for the lines of the prompt. Default: unlimited.
        shorten: The function that shortens records that exceed their limit. Default: they are cut at the limit.
        counter: The counter of tokens, for a budget in tokens.
    """
    budget = budget or Budget()
    measure = Measure(budget, counter)
    filler = _BudgetFiller(budget, measure)

    entries = sort_core(material.core)
    priorities = [(each.key in PROTECTED_KEYS, each.importance, each.updated_at) for each in entries]
    core = filler.fill(CORE, entries, list(map(_format_core_line, entries)), priorities)
    events = material.events[-PROMPT_EVENTS:]
    events = filler.fill(RECALL, events, list(map(_format_event_line, events)), range(len(events)))
    record_lines: list[str] = []  # the line of each record that may fit, the best first
    room = filler.room(ARCHIVAL)
    for record in material.records:
        if room is not None and measure.size("\n".join(record_lines)) >= room:
            break  # do not shorten records that do not fit
        limit = budget.archival_snippet if room is None else min(budget.archival_snippet, room)
        text = record.content
        if measure.size(text) > limit and shorten is not None:
            text = shorten(text, measure.characters(limit), "archival snippet")
        record_lines.append(_format_record_line(record, measure.cut(text, limit)))
    candidates, ranks = material.records, list(range(len(record_lines)))
    if material.chronological:
        ranks.sort(key=lambda rank: (candidates[rank].created_at, getattr(candidates[rank], "sequence", 0)))
    lines = [record_lines[rank] for rank in ranks]
    records = filler.fill(ARCHIVAL, [candidates[rank] for rank in ranks], lines, [-rank for rank in ranks])
    return PromptSections(filler.sections, core, events, records)


class _BudgetFiller:
    """A writer of prompt sections, one after the other, within a budget."""

    def __init__(self, budget: Budget, measure: Measure) -> None:
        self._budget = budget
        self._measure = measure
        self.sections: dict[str, str] = {}

    def room(self, name: str) -> int | None:
        """Return the remaining budget of a section; None if unlimited."""
        limits: list[int | None] = [getattr(self._budget, name)]
        if self._budget.total is not None:
            used = "\n\n".join([*self.sections.values(), ""])
            limits.append(max(0, self._budget.total - self._measure.size(used)))
        return min((limit for limit in limits if limit is not None), default=None)

    def fill(self, name: str, items: Sequence[T], lines: Sequence[str], priorities: Sequence[Any]) -> list[T]:
        """Write a section with the lines of highest priority that fit. Return their items.

        Args:
            name: The name of the section.
            items: The items, in the order of the section.
            lines: The line of each item.
            priorities: The priority of each item. If priorities are equal, the last item is preferred.
        """
        ranking = sorted(range(len(lines)), key=lambda index: (priorities[index], index), reverse=True)
        room, count = self.room(name), len(lines)

        def format_best(number: int) -> str:
            return _format_section(name, [lines[index] for index in sorted(ranking[:number])])

        if room is not None:
            # The binary search finds the smallest number of lines that do not fit. One line less fits.
            numbers = range(len(lines) + 1)
            count = bisect_right(numbers, room, lo=1, key=lambda number: self._measure.size(format_best(number))) - 1
        text = format_best(count)
        if lines and not count and room is not None:  # no line fits: cut the best one
            count, text = 1, self._measure.cut(format_best(1), room)
            if len(text) <= len(_format_section(name, [CUT_MARKER])):  # nothing of the line is left
                text = ""
        if text:
            self.sections[name] = text
        return [items[index] for index in sorted(ranking[:count])] if text else []


def _format_section(name: str, lines: Sequence[str]) -> str:
    return "\n".join([HEADINGS[name], *lines]) if lines else ""


def sort_core(entries: Sequence[CoreEntry]) -> list[CoreEntry]:
    """Sort core memory by the time at which its keys were first set."""
    return sorted(entries, key=lambda each: (each.created_at, each.key))


def _format_core_line(entry: CoreEntry) -> str:
    origin = origin_of(entry)
    # The line names the origin only if a tool or an import set the value, and not if a person or the agent set it.
    marker = f" ({_escape_label(origin)}, {entry.updated_at:%Y-%m-%d})" if origin.startswith(("tool", "import")) else ""
    return f"**{_escape_label(entry.key)}**{marker}: {_indent(sanitize_text(entry.value), _LINE_INDENT)}"


def _format_event_line(event: Event) -> str:
    text = sanitize_text(event.content)
    if len(text) > EVENT_CHARS:
        text = text[:EVENT_CHARS] + CUT_MARKER
    origin = origin_of(event)
    kind = f"{event.kind}, {origin}" if origin else event.kind
    return f"- {_bracket(kind)} {_indent(text, _ITEM_INDENT)}"


def _format_record_line(record: AnyRecord, text: str) -> str:
    if isinstance(record, PromptPassage):
        label = record.label
    else:
        origin = origin_of(record)
        label = f"record, {record.updated_at:%Y-%m-%d}, {origin}" if origin else ""
    value = _indent(sanitize_text(text), _ITEM_INDENT)
    # Without a label, the text begins the line: escape characters that would start a Markdown block.
    return f"- {_bracket(label)} {value}" if label else "- " + _BLOCK_START.sub(r"\g<1>\\\g<2>", value)


def _escape_label(text: str) -> str:
    """Escape a key or a kind, so that nothing in it ends its label."""
    return _LABEL_SPECIAL.sub(r"\\\g<0>", sanitize_line(text))


def _bracket(text: str) -> str:
    """Put a label in brackets.

    If the result would be a special token of a model, such as [INST], the label is escaped.
    """
    label = _escape_label(text)
    return f"[{label}]" if sanitize_text(f"[{label}]") == f"[{label}]" else f"[\\{label}]"


def _indent(text: str, indent: str) -> str:
    """Indent all lines of a text after the first."""
    return re.sub(r"[ \t]*\n", indent, text).strip()


_MARKDOWN_SPECIAL = re.compile(r"[\\`*_\[\]<>|~#]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def final_memory(core: Sequence[CoreEntry], events: Sequence[Event], records: Sequence[AnyRecord]) -> dict[str, Any]:
    """Return all entries of a memory as data. Times are seconds since 1970.

    Args:
        core: All values of core memory.
        events: All events.
        records: All records.

    Returns:
        "core": values by key. "recall": events with "id", "type", "content" and "timestamp". "archival_summary": the
        number of records ("count"), the number of records for each tag ("tags"), and the beginning of each record
        ("records"). "resources_used": each resource with its "uses"; a record that stores the use of a resource is not
        in "archival_summary". "experiment_timeline": all events, records and uses of resources, in the order of time.
        AI-Scientist-v2-HPC named this key, which is not limited to experiments.
    """
    events = sorted(events, key=lambda each: (each.created_at, each.id))
    records = sorted(records, key=lambda each: (each.created_at, each.id))
    pairs = [(each, parse_use(each.content, each.tags, each.created_at)) for each in records]
    uses = [use for _, use in pairs if use is not None]
    records = [each for each, use in pairs if use is None]
    tags = Counter(tag for each in records for tag in each.tags)
    return {
        "core": {each.key: each.value for each in sort_core(core)},
        "recall": [describe_event(each) for each in events],
        "archival_summary": {
            "count": len(records),
            "tags": {tag: tags[tag] for tag in sorted(tags, key=lambda tag: (-tags[tag], tag))},
            "records": [
                {"id": each.id, "tags": list(each.tags), "timestamp": each.created_at.timestamp()}
                | {"excerpt": _excerpt(each.content, 500)}
                for each in records
            ],
        },
        "resources_used": _group_uses(uses),
        "experiment_timeline": _build_timeline(events, records, uses),
    }


def final_markdown(final: Mapping[str, Any]) -> str:
    """Format the final memory as Markdown.

    Args:
        final: The result of `final_memory`.
    """
    summary = final["archival_summary"]
    records = [_format_item(_format_title(row, ", ".join(row["tags"])), row["excerpt"]) for row in summary["records"]]
    if records:
        tags = ", ".join(f"{_escape(tag)} ({count})" for tag, count in summary["tags"].items())
        records = [f"{summary['count']} records.", *(["", f"Tags: {tags}."] if tags else []), "", *records]
    sections = {
        "Core Memory": [_format_item(f"**{_escape(key)}**", value) for key, value in final["core"].items()],
        "Events": [_format_item(_format_title(each, each["type"]), each["content"]) for each in final["recall"]],
        "Archival Summary": records,
        "Resources Used": [
            _format_item(f"**{_escape(row['resource_id'])}**, {_format_title(use, use['usage_type'])}", use["context"])
            for row in final["resources_used"]
            for use in row["uses"]
        ],
        "Experiment Timeline": [
            _format_item(_format_title(each, ": ".join(filter(None, (each["layer"], each["type"])))), each["summary"])
            for each in final["experiment_timeline"]
        ],
    }
    document = ["# Final Memory"]
    for heading, lines in sections.items():
        document += ["", f"## {heading}", "", *(lines or ["Nothing."])]
    return "\n".join(document) + "\n"


def write_final(
    final: Mapping[str, Any], output_dir: str | os.PathLike[str], markdown_name: str, json_name: str
) -> tuple[Path, Path]:
    """Write the final memory to a Markdown file and a JSON file, each atomically.

    Args:
        final: The result of `final_memory`.
        output_dir: The folder, which is created if it is missing. Existing files are replaced.
        markdown_name: The name of the Markdown file.
        json_name: The name of the JSON file.

    Returns:
        The paths of the Markdown file and of the JSON file.

    Raises:
        InvalidInput: The two names are equal, or the files cannot be written.
    """
    folder = check_path(output_dir)
    if markdown_name == json_name:
        raise InvalidInput(f"The two files of the final memory need different names, not {safe_repr(json_name)} twice.")
    markdown_path, json_path = folder / markdown_name, folder / json_name
    with write_atomically(markdown_path, make_folder=True) as text, write_atomically(json_path) as data:
        text.write(final_markdown(final))
        # Lone surrogates, which UTF-8 cannot encode, are written as escapes.
        encoded = json.dumps(final, ensure_ascii=False, indent=2)
        data.write(_SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", encoded) + "\n")
    return markdown_path, json_path


def _group_uses(uses: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for use in uses:
        groups.setdefault(use["resource_id"], []).append({key: use[key] for key in use if key != "resource_id"})
    return [{"resource_id": resource_id, "uses": groups[resource_id]} for resource_id in sorted(groups)]


def _build_timeline(events: Sequence[Event], records: Sequence[AnyRecord], uses: Sequence[Any]) -> list[dict[str, Any]]:
    entries = [(each.created_at.timestamp(), "recall", each.kind, each.content) for each in events]
    entries += [(each.created_at.timestamp(), "archival", ", ".join(each.tags), each.content) for each in records]
    for use in uses:
        text = ": ".join(filter(None, (use["resource_id"], use["context"])))
        entries.append((use["timestamp"], "resource", use["usage_type"], text))
    entries.sort(key=lambda each: each[0])
    return [
        {"timestamp": time, "layer": layer, "type": kind, "summary": _excerpt(text, 200)}
        for time, layer, kind, text in entries
    ]


def _excerpt(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def _format_item(title: str, text: str | None) -> str:
    """Format a list item: a title and a text, in a fenced block if it has several lines."""
    text = sanitize_text(text or "").strip("\n")
    if "\n" not in text:
        return f"- {title}: {_escape(text.strip())}" if text.strip() else f"- {title}"
    # The fence is longer than each sequence of backticks in the text.
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    block = [f"  {line}" if line.strip() else "" for line in (fence + "text", *text.split("\n"), fence)]
    return "\n".join([f"- {title}:", "", *block])


def _format_title(entry: Mapping[str, Any], kind: str) -> str:
    """Return the title of an entry: its time, and its kind in brackets."""
    time = f"{datetime.fromtimestamp(entry['timestamp'], UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{time} \\[{_escape(kind)}\\]" if kind else time


def _escape(text: str) -> str:
    """Return a text on one line, with its Markdown characters escaped."""
    return _MARKDOWN_SPECIAL.sub(r"\\\g<0>", sanitize_line(text))
