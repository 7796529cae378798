"""What a fork learned of facts becomes its parent's: what was told of a fact on either goes together.

A fact is what was told of it, so two branches cannot be at odds about one: what the child was told is told to the
parent, what it forgot is forgotten, and what then ended when follows by itself. What was learned on both sides, each
for itself, becomes one fact, as it would have on one branch. Only what the child changed since the fork is looked at.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_agentmem.base.clock import NewId
from langchain_agentmem.facts import fact_events, fact_store, source_texts, validity
from langchain_agentmem.facts.entity_names import entity_key, predicate_key
from langchain_agentmem.facts.fact import SINGLE_VALUED
from langchain_agentmem.facts.fact_events import Event
from langchain_agentmem.facts.fact_writes import Book
from langchain_agentmem.facts.predicate_rules import RULE, Rules, agreement, in_words
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branch_merge import same
from langchain_agentmem.rewinding.memory_access import Change
from langchain_agentmem.rewinding.memory_rows import DUE, FACT, FAILURE, FORMER, SAID, TEXT, Draft, Kept, View
from langchain_agentmem.rewinding.message_sources import UNDO
from langchain_agentmem.rewinding.promotion import Conflict, Prefer, promoted
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.queries import digest

Name = tuple[str, int]
"""What tells an event from others: what it says, and which of those that say the same it is."""


class PromotedFacts(NamedTuple):
    """What a parent has from its child.

    Attributes:
        facts: The ids of the facts that were added or changed.
        texts: The ids of the messages that were added or changed.
        rules: The keys of what is agreed on names and predicates.
        removed: The ids and keys of what is gone here too.
        conflicts: What both had changed.
    """

    facts: list[str]
    texts: list[str]
    rules: list[str]
    removed: list[str]
    conflicts: list[Conflict]


class _Sides(NamedTuple):
    """Things of one kind that the child changed, by key: at the fork, in the parent and in the child."""

    base: dict[str, Kept]
    parent: dict[str, Kept]
    child: dict[str, Kept]


def promoting(change: Change, base: View, child: View, prefer: Prefer, new_id: NewId) -> Steps[PromotedFacts]:
    """Have a parent know what its child learned of facts.

    Args:
        change: The transaction of the parent.
        base: What the child saw at the fork.
        child: What it sees.
        prefer: Whose state counts where both changed a message, or what is agreed on a name.
        new_id: Makes ids.
    """
    found = PromotedFacts([], [], [], [], [])
    agreed = yield from _rules(change, base, child, prefer, found)
    book = Book(change=change, agreed=agreed, new_id=new_id)
    yield from _texts(change, base, child, prefer, found)
    yield from _facts(book, base, child, found)
    return found


def _sides(change: Change, base: View, child: View, kind: str) -> Steps[_Sides]:
    own = child.line[: len(child.line) - len(base.line)]
    touched: dict[str, None] = {}
    for branch, up_to in own:
        rows_there = yield query.touched_keys(branch=branch, kind=kind, position=up_to)
        touched.update((row["key"], None) for row in rows_there)
    if not touched:
        return _Sides({}, {}, {})
    return _Sides(
        base=(yield from memory_rows.named(base, kind, touched)),
        parent=(yield from memory_rows.named(change.view, kind, touched)),
        child=(yield from memory_rows.named(child, kind, touched)),
    )


# -- names and predicates --------------------------------------------------------------------------------------------


def _rules(change: Change, base: View, child: View, prefer: Prefer, found: PromotedFacts) -> Steps[Rules]:
    sides = yield from _sides(change, base, child, RULE)
    news = promoted("facts", *sides, prefer, in_words)
    there = {kept.key: kept for kept in (yield from memory_rows.current(change.view, RULE))}
    for kept in news.new:
        there[kept.key] = kept
        change.drafts.append(Draft(RULE, kept.key, kept.body, kept.created_at, label=kept.label, extra=kept.extra))
    for key in news.gone:
        del there[key]
        change.remove(RULE, key)
    found.rules.extend(kept.key for kept in news.new)
    found.removed.extend(news.gone)
    found.conflicts.extend(news.conflicts)
    return agreement(there.values(), SINGLE_VALUED)


# -- messages --------------------------------------------------------------------------------------------------------


def _texts(change: Change, base: View, child: View, prefer: Prefer, found: PromotedFacts) -> Steps[None]:
    sides = yield from _sides(change, base, child, TEXT)
    kept_twice = {  # the same message, added on both sides
        key
        for key, kept in sides.child.items()
        if key in sides.parent and (kept.body, kept.label) == (sides.parent[key].body, sides.parent[key].label)
    }
    base_too, parent, theirs = ({key: kept for key, kept in side.items() if key not in kept_twice} for side in sides)
    news = promoted("facts", base_too, parent, theirs, prefer, lambda kept: fact_store.message_of(kept).text)
    for kept in news.new:
        change.drafts.append(source_texts.again(kept))
    for key in news.gone:
        change.remove(TEXT, key)
    found.texts.extend(kept.key for kept in news.new)
    found.removed.extend(news.gone)
    found.conflicts.extend(news.conflicts)
    dues = yield from _sides(change, base, child, DUE)
    come = {kept.key for kept in news.new}
    keys = list(dict.fromkeys([*dues.base, *dues.child, *come, *news.gone]))
    said, says = (
        (yield from memory_rows.named(base, TEXT, keys)),
        (yield from memory_rows.named(change.view, TEXT, keys)),
    )
    for key in keys:
        waits = dues.child.get(key)
        if key in come and waits is not None:
            change.drafts.append(Draft(DUE, key, b"", waits.created_at, extra=waits.extra))
        elif waits is None and (key in come or key in news.gone or same(said.get(key), says.get(key))):
            change.remove(DUE, key)  # the child learned what there was to learn
    failures = yield from _sides(change, base, child, FAILURE)
    for kept in promoted("facts", *failures, prefer).new:
        change.drafts.append(Draft(FAILURE, kept.key, kept.body, kept.created_at, extra=kept.extra))


# -- facts -----------------------------------------------------------------------------------------------------------


def _facts(book: Book, base: View, child: View, found: PromotedFacts) -> Steps[None]:
    change = book.change
    sides = yield from _sides(change, base, child, FACT)
    homes = yield from _homes(book, sides)
    ids = {key: home.key for key, home in homes.items()}
    for key in dict.fromkeys([*sides.base, *sides.child]):
        was, theirs = sides.base.get(key), sides.child.get(key)
        if same(was, theirs):
            continue
        goal = ids.get(key, key)
        mine = book.written.get(goal) or homes.get(key) or sides.parent.get(key)
        extra = _together(was, mine, theirs, ids, joined=key in ids)
        like = mine or theirs
        if extra is None:
            if mine is not None:
                yield from book.remove(mine)
                found.removed.append(goal)
        elif like is not None and (mine is None or extra != mine.extra):
            book.restate(like if mine is not None else like._replace(extra={}), extra)
    found.facts.extend(book.written)
    for kept in (yield from _sides(change, base, child, FORMER)).child.values():
        fact = ids.get(kept.extra["fact"], kept.extra["fact"])
        if fact in book.written:
            yield from _former(change, kept, fact)


def _homes(book: Book, sides: _Sides) -> Steps[dict[str, Kept]]:
    """The facts of the parent that facts of the child are one with, though each was learned for itself."""
    homes: dict[str, Kept] = {}
    for key, theirs in sides.child.items():
        if key not in sides.base and key not in sides.parent:
            home = yield from _home(book, theirs, homes)
            if home is not None:
                homes[key] = home
    return homes


def _home(book: Book, theirs: Kept, taken: Mapping[str, Kept]) -> Steps[Kept | None]:
    """The fact of the parent that a fact of the child is one with: it says the same of the same time."""
    agreed = book.agreed
    triples = {_triple(agreed, fact_store.state_of(theirs.extra)), _triple(agreed, fact_events.told(theirs.extra))}
    here: dict[str, Kept] = {}
    for subject, predicate, _ in triples:
        here |= yield from fact_store.about(
            book.change.view, subjects=agreed.keys_of([subject]), predicates=[predicate], former=True
        )
    # It went there when the child was merged before.
    names = {name for name, event in _named(theirs.extra["told"], {}) if event["do"] == SAID}
    for kept in here.values():
        if _triple(agreed, fact_events.told(kept.extra)) in triples and any(
            name in names for name, event in _named(kept.extra["told"], {}) if event["do"] == SAID
        ):
            return kept
    if any(event["do"] != SAID for event in theirs.extra["told"]):
        return None  # what happened to it did not happen to what the parent knows
    states = fact_store.states_of(here)
    ends = validity.endings(states, agreed)
    known = fact_store.state_of(theirs.extra)
    used = {kept.key for kept in taken.values()}
    same_thing = [
        key
        for key, state in states.items()
        if _triple(agreed, state) in triples
        and key not in used
        and validity.overlaps(state, ends[key].at, known.start, known.end)
    ]
    return here[min(same_thing, key=lambda key: (states[key].start, key))] if same_thing else None


def _together(
    was: Kept | None, mine: Kept | None, theirs: Kept | None, ids: Mapping[str, str], *, joined: bool
) -> dict[str, Any] | None:
    """What was told of a fact in parent and child, but for what either forgot; None if nobody tells of it any more.

    Args:
        was: The fact at the fork.
        mine: The fact in the parent.
        theirs: The fact in the child.
        ids: What facts of the child are called here, if they are called something else.
        joined: Whether parent and child learned it each for itself.
    """
    before, here, there = (
        _named(() if each is None else each.extra["told"], renamed)
        for each, renamed in ((was, {}), (mine, {}), (theirs, ids))
    )
    known, coming = {name for name, _ in before}, {name for name, _ in there}
    gone = known - coming
    events = [event for name, event in here if name not in gone]
    forgotten = {event["n"] for name, event in here if name in gone}
    numbers_here = {name: event["n"] for name, event in here}
    used = {event["n"] for _, event in here}
    numbers: dict[int, int] = {}
    for name, event in there:
        if name in numbers_here:
            numbers[event["n"]] = numbers_here[name]
        elif name not in known:
            twin = _twin(events, event) if joined else None
            if twin is not None:
                numbers[event["n"]] = twin
                continue
            number = event["n"] if event["n"] not in used else max(used) + 1
            used.add(number)
            numbers[event["n"]] = number
            told = {**event, "n": number}
            if event["do"] == UNDO:
                if event["of"] not in numbers:
                    continue  # the parent forgot what was undone
                told["of"] = numbers[event["of"]]
            events.append(told)
    events = [event for event in events if not (event["do"] == UNDO and event["of"] in forgotten)]
    if not any(event["do"] == SAID for event in events):
        return None
    like = mine or theirs or was
    # What was learned first comes first.
    return {**(like.extra if like else {}), "told": sorted(events, key=lambda event: event["at"])}


def _twin(events: Sequence[Event], event: Event) -> int | None:
    """The number of the event that says what another says, which somebody learned at another time."""
    if event["do"] != SAID:
        return None
    for each in events:
        if each["do"] == SAID and _said(each) == _said(event):
            return int(each["n"])
    return None


def _said(event: Event) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in ("n", "at")}


def _named(told: Iterable[Event], ids: Mapping[str, str]) -> list[tuple[Name, dict[str, Any]]]:
    """Events with what tells each from others, also on another branch, where it may have another number."""
    found: list[tuple[Name, dict[str, Any]]] = []
    names: dict[int, Name] = {}
    seen: Counter[str] = Counter()
    for each in told:
        event = dict(each)
        if event["do"] == fact_events.BESIDE:
            event["of"] = sorted(ids.get(key, key) for key in event["of"])
        says = {**event, "n": None}
        if event["do"] == UNDO:
            says["of"] = names.get(event["of"])
        text = json.dumps(says, sort_keys=True)
        names[event["n"]] = (text, seen[text])
        seen[text] += 1
        found.append((names[event["n"]], event))
    return found


def _triple(agreed: Rules, known: fact_events.State) -> tuple[str, str, str]:
    return agreed.canonical(known.subject), predicate_key(known.predicate), agreed.canonical(known.object)


def _former(change: Change, kept: Kept, fact: str) -> Steps[None]:
    """Have a fact be found by what it said once, on the child."""
    subject, predicate, obj = kept.extra["names"]
    key = f"{fact} {digest(kept.body).hex()[:16]}"
    if key not in (yield from memory_rows.named(change.view, FORMER, [key])):
        change.drafts.append(
            Draft(
                FORMER,
                key,
                kept.body,
                kept.created_at,
                label=predicate_key(predicate),
                extra={**kept.extra, "fact": fact},
                subject=entity_key(subject),
                object=entity_key(obj),
            )
        )
