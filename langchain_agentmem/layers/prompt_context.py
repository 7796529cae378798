"""What of a memory goes into a prompt: as data, and as text with the headings and lines of document 004.

    ## Core Memory
    **name**: Ada

    ## Recent Events
    - [phase_complete] The baseline runs.

    ## Retrieved Context
    - Guided scheduling beats dynamic by 12 %.

Every line of a value but its first stands further in than a heading or an entry can, and what acts on a reader is taken
out of it, so no value can pass for a section or an entry. The lines have an order that only changes where what they say
does, so that a provider's cache of the prompt lives as long as possible. Everything here is pure but for whoever
shortens a record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_agentmem.base.fencing import harmless, on_one_line
from langchain_agentmem.language_models.model_calls import Work
from langchain_agentmem.language_models.tokens import ARCHIVAL, CORE, CUT, RECALL, Budget, Measure, TokenCounter
from langchain_agentmem.layers.layer_values import Event, Record
from langchain_agentmem.search.memory_search import Why

if TYPE_CHECKING:
    from langchain_agentmem.layers.core_memory import CoreEntry

HEADINGS: Mapping[str, str] = {
    CORE: "## Core Memory",
    RECALL: "## Recent Events",
    ARCHIVAL: "## Retrieved Context",
}
NEWEST = 5
"""How many events a prompt shows: the newest."""
EVENT_CHARS = 200
"""How much of an event a prompt shows, in characters."""
SNIPPET = "archival snippet"
"""What whoever shortens a record is told it is."""

_WITHIN_LINE, _WITHIN_ITEM = "\n" + " " * 4, "\n" + " " * 6
_SIGNS = re.compile(r"[*\\\]]")
_BEGINNING = re.compile(r"\A(\d{0,9})([#>`~]|[-+*=_.)](?=[\s=*_-]|\Z))")

Shorten = Callable[[str, int, str], Work[str]]
"""Makes a text have at most so many characters; the last argument says in a few words what it is."""


class Found(NamedTuple):
    """Something that was found for a query and is no record.

    Attributes:
        id: Its id.
        content: What it says.
        created_at: When it was said.
        about: Who said it, and when, as its line shows it.
        tags: Its tags.
        kind: What it is.
        score: How well it answers the query; None where nobody says.
        why: Why it was found.
    """

    id: str
    content: str
    created_at: datetime
    about: str = ""
    tags: tuple[str, ...] = ()
    kind: str = "record"
    score: float | None = None
    why: Why | None = None


class Composed(NamedTuple):
    """What a prompt shows.

    Attributes:
        sections: The sections that say something, each with its heading: "core", "recall", "archival", in this order.
        core: The values that are in it, in its order.
        events: The events, oldest first.
        records: The records, the best first.
    """

    sections: dict[str, str]
    core: Sequence[CoreEntry] = ()
    events: Sequence[Event] = ()
    records: Sequence[Record | Found] = ()


class Material(NamedTuple):
    """What there is to be shown.

    Attributes:
        core: Core memory, in any order.
        events: What happened, oldest first.
        records: What was found, the best first.
    """

    core: Sequence[CoreEntry] = ()
    events: Sequence[Event] = ()
    records: Sequence[Record | Found] = ()


# -- as data -------------------------------------------------------------------------------------------------------


def context_of(
    material: Material,
    budget: Budget | None = None,
    *,
    protected: Sequence[str] = (),
    counter: TokenCounter | None = None,
) -> dict[str, Any]:
    """What is to be shown, as document 004's `get_memory_context` gives it, and as much of it as a budget allows.

    Args:
        material: What there is.
        budget: How much room there is, for the lines that a prompt would have. Default: as much as it takes.
        protected: Keys of core memory that leave it last.
        counter: Counts tokens.

    Returns:
        "core": values by key, in the order of a prompt; "recall": events with "type", "content" and "timestamp"
        (seconds since 1970), oldest first; "archival": records with "id", "content", "tags", "timestamp" and, where a
        search gave one, "score", the best first.
    """
    budget = budget or Budget()
    fit = _Fitting(budget, Measure(budget, counter))
    core = fit.kept(CORE, *_core_lines(material.core, protected))
    entries = in_order(material.core)
    events = fit.kept(RECALL, [_event_line(each, None) for each in material.events], _newest_first(material.events))
    found = fit.kept(ARCHIVAL, [_record_line(each, each.content) for each in material.records], None)
    return {
        "core": {entries[place].key: entries[place].value for place in core},
        "recall": [_event(material.events[place]) for place in events],
        "archival": [_record(material.records[place]) for place in found],
    }


def _event(event: Event) -> dict[str, Any]:
    return {"type": event.kind, "content": event.content, "timestamp": event.created_at.timestamp()}


def _record(record: Record | Found) -> dict[str, Any]:
    told = {
        "id": record.id,
        "content": record.content,
        "tags": list(record.tags),
        "timestamp": record.created_at.timestamp(),
    }
    score = getattr(record, "score", None)
    return told if score is None else {**told, "score": score}


# -- as text -------------------------------------------------------------------------------------------------------


def prompt_text(
    material: Material,
    budget: Budget | None = None,
    shorten: Shorten | None = None,
    *,
    protected: Sequence[str] = (),
    counter: TokenCounter | None = None,
) -> Work[str]:
    """What is to be shown, as text; arguments as for `composed`.

    Returns:
        The sections that say something, one after the other; "" where there is nothing.
    """
    shown = yield from composed(material, budget, shorten, protected=protected, counter=counter)
    return "\n\n".join(shown.sections.values())


def composed(
    material: Material,
    budget: Budget | None = None,
    shorten: Shorten | None = None,
    *,
    protected: Sequence[str] = (),
    counter: TokenCounter | None = None,
) -> Work[Composed]:
    """What is to be shown, as texts.

    Args:
        material: What there is. Of the events, the newest five are shown.
        budget: How much room there is. Default: as much as it takes.
        shorten: Shortens records that are longer than one may be. Default: they are cut.
        protected: Keys of core memory that leave it last.
        counter: Counts tokens.

    Returns:
        What fits.
    """
    budget = budget or Budget()
    measure = Measure(budget, counter)
    fit = _Fitting(budget, measure)
    entries = in_order(material.core)
    core = fit.kept(CORE, *_core_lines(entries, protected))
    events = material.events[-NEWEST:]
    recalled = fit.kept(RECALL, [_event_line(each, EVENT_CHARS) for each in events], _newest_first(events))
    lines: list[str] = []
    room = fit.room(ARCHIVAL)
    for record in material.records:
        if room is not None and measure.size("\n".join(lines)) >= room:
            break  # nobody needs to shorten what is not shown
        most = budget.archival_snippet if room is None else min(budget.archival_snippet, room)
        lines.append(_record_line(record, (yield from _shortened(record.content, most, measure, shorten))))
    found = fit.kept(ARCHIVAL, lines, None)
    return Composed(
        fit.sections,
        [entries[place] for place in core],
        [events[place] for place in recalled],
        [material.records[place] for place in found],
    )


def _shortened(text: str, room: int, measure: Measure, shorten: Shorten | None) -> Work[str]:
    if measure.size(text) > room and shorten is not None:
        text = yield from shorten(text, measure.characters(room), SNIPPET)
    return measure.cut(text, room)


class _Fitting:
    """Fills a budget, one section after the other."""

    def __init__(self, budget: Budget, measure: Measure) -> None:
        self._budget = budget
        self._measure = measure
        self.sections: dict[str, str] = {}

    def room(self, name: str) -> int | None:
        """The room that a section has; None for as much as it takes."""
        own, total = getattr(self._budget, name), self._budget.total
        if total is not None:
            used = "\n\n".join([*self.sections.values(), ""])
            total = max(0, total - self._measure.size(used))
        return total if own is None else own if total is None else min(own, total)

    def kept(self, name: str, lines: Sequence[str], worth: Sequence[int] | None) -> list[int]:
        """Write a section; gives the places of those lines that are in it.

        Args:
            name: Which.
            lines: Its lines, in their order.
            worth: The places of the lines, that of the most valuable first. Default: as they stand.
        """
        worth = range(len(lines)) if worth is None else worth
        room = self.room(name)
        count = len(lines) if room is None else self._how_many(name, lines, worth, room)
        places = sorted(worth[:count])
        text = _section(name, [lines[place] for place in places])
        if not places and lines and room is not None:
            places = [worth[0]]
            text = self._cut(name, lines[worth[0]], room)
        if text:
            self.sections[name] = text
        return places if text else []

    def _how_many(self, name: str, lines: Sequence[str], worth: Sequence[int], room: int) -> int:
        low, high = 0, len(lines)
        while low < high:
            middle = (low + high + 1) // 2
            if self._measure.size(_section(name, [lines[place] for place in sorted(worth[:middle])])) <= room:
                low = middle
            else:
                high = middle - 1
        return low

    def _cut(self, name: str, line: str, room: int) -> str:
        """A section of one line that is too long, where more than its beginning can be shown."""
        text = self._measure.cut(_section(name, [line]), room)
        return text if len(text) > len(_section(name, [_head(line)])) + len(CUT) else ""


def _section(name: str, lines: Sequence[str]) -> str:
    return "\n".join([HEADINGS[name], *lines]) if lines else ""


def _head(line: str) -> str:
    """What stands before the value in a line."""
    found = re.match(r"\*\*.*?\*\*: |- (?:\[(?:[^\\\]]|\\.)*\] )?", line)
    return found.group() if found else ""


def in_order(entries: Sequence[CoreEntry]) -> list[CoreEntry]:
    """Core memory as it is shown: in the order in which its keys came, whatever was updated since."""
    return sorted(entries, key=lambda each: (each.created_at, each.key))


def _core_lines(entries: Sequence[CoreEntry], protected: Sequence[str]) -> tuple[list[str], list[int]]:
    entries = in_order(entries)
    worth = sorted(
        range(len(entries)),
        key=lambda place: (
            entries[place].key in protected,
            entries[place].importance,
            entries[place].updated_at,
            place,
        ),
        reverse=True,
    )
    return [f"**{_label(each.key)}**: {_value(each.value, _WITHIN_LINE)}" for each in entries], worth


def _newest_first(events: Sequence[Event]) -> list[int]:
    return [*reversed(range(len(events)))]


def _event_line(event: Event, most: int | None) -> str:
    text = harmless(event.content)
    if most is not None and len(text) > most:
        text = text[:most] + CUT
    return f"- {_bracketed(event.kind)} {_inset(text, _WITHIN_ITEM)}"


def _record_line(record: Record | Found, text: str) -> str:
    about = getattr(record, "about", "")
    value = _value(text, _WITHIN_ITEM)
    # Where nothing of ours stands before it, a text could begin a heading or a list of its own.
    return f"- {_bracketed(about)} {value}" if about else "- " + _BEGINNING.sub(r"\g<1>\\\g<2>", value)


def _label(text: str) -> str:
    """A key or a kind as it stands in its line, with nothing that would end it there."""
    return _SIGNS.sub(r"\\\g<0>", on_one_line(text))


def _bracketed(text: str) -> str:
    """A label in brackets, which together must not be the token of a model either."""
    label = _label(text)
    return f"[{label}]" if harmless(f"[{label}]") == f"[{label}]" else f"[\\{label}]"


def _value(text: str, within: str) -> str:
    return _inset(harmless(text), within)


def _inset(text: str, within: str) -> str:
    """A text whose further lines stand further in than anything of ours does."""
    return re.sub(r"[ \t]*\n", within, text).strip()
