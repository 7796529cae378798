"""The final memory: everything that a memory holds at the end, as data and as a text to be read (document 004).

The same memory gives the same bytes. Values may hold anything: in the text, they make no heading, list, link or tag of
their own.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_agentmem.base.fencing import harmless, on_one_line
from langchain_agentmem.base.files import path_of_file, whole_file
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.layer_values import Event, Record
from langchain_agentmem.layers.prompt_context import in_order
from langchain_agentmem.layers.resource_memory import RESOURCE_USED

if TYPE_CHECKING:
    from langchain_agentmem.layers.core_memory import CoreEntry

RESOURCE_TAG = "resource_id:"
"""With the resource's id behind it, a tag of records that say that a resource was used."""
EXCERPT = 500
"""How much of a record its summary shows, in characters."""
LINE = 200
"""How much of anything the timeline shows, in characters."""

_SIGNS = re.compile(r"[\\`*_\[\]<>|~#]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def final_memory(core: Sequence[CoreEntry], events: Sequence[Event], records: Sequence[Record]) -> dict[str, Any]:
    """Everything that a memory holds, as data. Times are seconds since 1970.

    Args:
        core: Core memory.
        events: Every event.
        records: Every record.

    Returns:
        "core": values by key; "recall": events with "type", "content" and "timestamp"; "archival_summary": how many
        records there are ("count"), how many of each tag ("tags"), and of each its beginning ("records");
        "resources_used": each resource with its "uses"; "experiment_timeline": all of it in the order of time.
    """
    events = sorted(events, key=lambda each: (each.created_at, each.id))
    records = sorted(records, key=lambda each: (each.created_at, each.id))
    uses = [_use(each) for each in records if RESOURCE_USED in each.tags]
    written = [each for each in records if RESOURCE_USED not in each.tags]
    tags = Counter(tag for each in written for tag in each.tags)
    return {
        "core": {each.key: each.value for each in in_order(core)},
        "recall": [
            {"type": each.kind, "content": each.content, "timestamp": each.created_at.timestamp()} for each in events
        ],
        "archival_summary": {
            "count": len(written),
            "tags": {tag: tags[tag] for tag in sorted(tags, key=lambda tag: (-tags[tag], tag))},
            "records": [
                {
                    "id": each.id,
                    "tags": list(each.tags),
                    "timestamp": each.created_at.timestamp(),
                    "excerpt": _beginning(each.content, EXCERPT),
                }
                for each in written
            ],
        },
        "resources_used": _by_resource(uses),
        "experiment_timeline": _timeline(events, written, uses),
    }


def final_markdown(final: Mapping[str, Any]) -> str:
    """The same as text.

    Args:
        final: What `final_memory` gives.
    """
    return "\n".join(["# Final Memory", *_lines(final)]) + "\n"


def write_final(
    final: Mapping[str, Any], output_dir: str | os.PathLike[str], *, markdown_name: str, json_name: str
) -> tuple[Path, Path]:
    """Write the final memory to two files, each whole or not at all.

    Args:
        final: What `final_memory` gives.
        output_dir: Where to; the folder is made if it is not there. Files of these names are replaced.
        markdown_name: The name of the text.
        json_name: The name of the data.

    Returns:
        The paths of the text and of the data.

    Raises:
        InvalidInput: They cannot be written.
    """
    folder = path_of_file(output_dir)
    if markdown_name == json_name:
        raise InvalidInput(f"The text and the data of the final memory cannot both be called {safe_repr(json_name)}.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"The folder {safe_repr(str(folder))} cannot be made: {error}.") from error
    markdown_path, json_path = folder / markdown_name, folder / json_name
    with whole_file(markdown_path) as text, whole_file(json_path) as data:
        text.write(final_markdown(final))
        data.write(_json(final) + "\n")
    return markdown_path, json_path


# -- as data -------------------------------------------------------------------------------------------------------


def _use(record: Record) -> dict[str, Any]:
    """What a record says of the use of a resource; whatever it does not say, its tags and its time do."""
    try:
        told = json.loads(record.content)
    except (ValueError, RecursionError):
        told = None
    told = told if isinstance(told, dict) else {"context": record.content}
    named = next((tag.removeprefix(RESOURCE_TAG) for tag in record.tags if tag.startswith(RESOURCE_TAG)), "")
    time = told.get("timestamp")
    is_time = isinstance(time, int | float) and not isinstance(time, bool) and math.isfinite(time)
    return {
        "resource_id": str(told.get("resource_id") or named),
        "usage_type": str(told.get("usage_type") or "reference"),
        "context": None if told.get("context") is None else str(told["context"]),
        "timestamp": time if is_time else record.created_at.timestamp(),
    }


def _by_resource(uses: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for use in uses:
        found.setdefault(use["resource_id"], []).append({key: use[key] for key in use if key != "resource_id"})
    return [{"resource_id": name, "uses": found[name]} for name in sorted(found)]


def _timeline(
    events: Sequence[Event], records: Sequence[Record], uses: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    happened = [
        *((each.created_at.timestamp(), "recall", each.kind, each.content) for each in events),
        *((each.created_at.timestamp(), "archival", ", ".join(each.tags), each.content) for each in records),
        *(
            (
                use["timestamp"],
                "resource",
                use["usage_type"],
                ": ".join(filter(None, (use["resource_id"], use["context"]))),
            )
            for use in uses
        ),
    ]
    happened.sort(key=lambda each: each[0])
    return [
        {"timestamp": time, "layer": layer, "type": kind, "summary": _beginning(text, LINE)}
        for time, layer, kind, text in happened
    ]


def _beginning(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _json(value: Any) -> str:
    """JSON that any reader reads: halves of characters, which UTF-8 has no bytes for, are written as escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


# -- as text -------------------------------------------------------------------------------------------------------


def _lines(final: Mapping[str, Any]) -> Iterator[str]:
    yield from _section("Core Memory", [_item(f"**{_escaped(key)}**", value) for key, value in final["core"].items()])
    yield from _section("Events", [_item(_head(each, each["type"]), each["content"]) for each in final["recall"]])
    summary = final["archival_summary"]
    told = [f"{summary['count']} records."]
    if summary["tags"]:
        told += ["", "Tags: " + ", ".join(f"{_escaped(tag)} ({count})" for tag, count in summary["tags"].items()) + "."]
    items = [_item(_head(each, ", ".join(each["tags"])), each["excerpt"]) for each in summary["records"]]
    yield from _section("Archival Summary", [*told, "", *items] if items else [])
    used = [
        _item(f"**{_escaped(each['resource_id'])}**, {_head(use, use['usage_type'])}", use["context"] or "")
        for each in final["resources_used"]
        for use in each["uses"]
    ]
    yield from _section("Resources Used", used)
    timeline = [
        _item(_head(each, f"{each['layer']}: {each['type']}" if each["type"] else each["layer"]), each["summary"])
        for each in final["experiment_timeline"]
    ]
    yield from _section("Experiment Timeline", timeline)


def _section(heading: str, lines: Sequence[str]) -> Iterator[str]:
    yield from ["", f"## {heading}", "", *(lines or ["Nothing."])]


def _item(head: str, text: str) -> str:
    """An item of a list: a text of one line behind its head, a longer one as a block that only its own fence ends."""
    text = harmless(text).strip("\n")
    if "\n" not in text:
        return f"- {head}: {_escaped(text.strip())}" if text.strip() else f"- {head}"
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join(
        [
            f"- {head}:",
            "",
            *(f"  {line}" if line.strip() else "" for line in [fence + "text", *text.split("\n"), fence]),
        ]
    )


def _head(told: Mapping[str, Any], kind: str) -> str:
    time = _time(told["timestamp"])
    return f"{time} \\[{_escaped(kind)}\\]" if kind else time


def _time(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return "at some time"


def _escaped(text: str) -> str:
    """A text of one line in which nothing means anything in Markdown."""
    return _SIGNS.sub(r"\\\g<0>", on_one_line(text))
