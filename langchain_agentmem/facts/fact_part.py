"""Facts as a part of the database: searched, verified, exported, saved to files and merged into another branch.

A record is one thing that is kept: a fact with all that was told of it, a message, an agreement on names. Records from
a file are checked before anything is written.

Merging a branch into its parent takes over what only the branch changed since the fork (`promoted`). Two branches
cannot be at odds about one fact: its events on both sides go together, what the branch forgot is forgotten, and when it
ended follows. A fact that both sides learned each for itself becomes one fact, as it would have on one branch. Only
what the branch changed since the fork is read.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import Field, InstanceOf, TypeAdapter

from langchain_agentmem.base.clock import EARLIEST, LATEST, NewId
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput
from langchain_agentmem.facts import fact_commands, fact_events, fact_store
from langchain_agentmem.facts.fact import SINGLE_VALUED, Fact, data_file, predicate_key, sentence
from langchain_agentmem.facts.fact_events import RULE, Event, Rules, agreement, in_words, rules_in, state
from langchain_agentmem.facts.fact_extraction import FactsGround
from langchain_agentmem.facts.fact_store import Book
from langchain_agentmem.language_models.model_calls import Work
from langchain_agentmem.messages.message import decode_body
from langchain_agentmem.rewinding import branches, memory_rows
from langchain_agentmem.rewinding.branch_merge import Conflict, Prefer, Promoted, Sides, promoted, same, sides_of
from langchain_agentmem.rewinding.memory_access import Change, changing, looking
from langchain_agentmem.rewinding.memory_rows import FACT, FORMER, SAID, TEXT, Kept, RowDraft, View
from langchain_agentmem.rewinding.message_sources import SET, UNDO
from langchain_agentmem.rewinding.outlook import Outlook, recollections_of, row_texts, sighted
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.part import Found, Import, Part, Record
from langchain_agentmem.storage.queries import digest
from langchain_agentmem.storage.steps import Row

FOUND_AS = "fact"
"""What a user calls both."""


def recollections(hits: Sequence[Hit], now: int, outlook: Outlook | None) -> Steps[Mapping[int, Recollection]]:
    """What hits are to the user, by the numbers of their documents; what cannot be seen is left out.

    Args:
        hits: Facts, or what was said, that a search found.
        now: When.
        outlook: From where it looks.
    """
    there, sights = yield from sighted(hits, now, outlook)
    values: dict[int, Fact] = {}
    for sight in sights:
        new = {number: there[number] for number in sorted(sight.numbers - values.keys())}
        if sight.view is not None:
            values |= yield from _values(sight.view, new)
            continue
        for branch in sorted({row["branch_id"] for row in new.values()}):  # each stands at the end of its own
            view = yield from branches.view_of(branch, memory_rows.FOREVER - 1, now)
            values |= yield from _values(view, {n: row for n, row in new.items() if row["branch_id"] == branch})
    found = {number: (value.text, value) for number, value in values.items()}
    shown = recollections_of(hits, there, found, FOUND_AS)
    ended = {number: each.value.ended_by for number, each in shown.items() if each.value.ended_by is not None}
    return shown | {number: replace(shown[number], replaced_by=(FOUND_AS, by)) for number, by in ended.items()}


def _values(view: View, some: Mapping[int, Row]) -> Steps[dict[int, Fact]]:
    """Rows as they are seen from somewhere."""
    if not some:
        return {}
    kept: dict[int, Kept] = {number: memory_rows.kept_of(row) for number, row in some.items()}
    values = {number: fact_store.raw_fact(each) for number, each in kept.items() if each.kind != FACT}
    facts = {each.key: each for each in kept.values() if each.kind == FACT}
    if facts:
        agreed = yield from rules_in(view, SINGLE_VALUED)
        settled = {fact.id: fact for fact in (yield from fact_store.settled(view, agreed, facts))}
        values |= {number: settled[each.key] for number, each in kept.items() if each.key in settled}
    return values


KINDS = (RULE, TEXT, memory_rows.DUE, FACT, FORMER)
"""What is kept in a file."""
CHECKED = (*KINDS, memory_rows.FAILURE)
"""What can be told to be whole."""


def record_of(kept: Kept) -> dict[str, Any]:
    """Something that is kept, as a record that JSON knows."""
    return {
        "kind": kept.kind,
        "id": kept.key,
        "label": kept.label,
        "body": memory_rows.text_of(kept.body),
        "created_at": kept.created_at,
        "extra": dict(kept.extra),
    }


def draft_of(record: Any) -> RowDraft:
    """What a record says, to be written.

    Raises:
        InvalidInput: The record is damaged.
    """
    try:
        return _draft(record)
    except (AttributeError, DatabaseUnreadable, KeyError, StopIteration, TypeError, ValueError) as error:
        raise InvalidInput(
            f"The file is damaged: this is no record of a memory of facts: {safe_repr(record)}."
        ) from error


def dump(ground: FactsGround) -> Work[list[dict[str, Any]]]:
    """All that a memory holds, as records that JSON knows."""

    def look(view: View) -> Steps[list[dict[str, Any]]]:
        found = []
        for kind in KINDS:
            found += yield from memory_rows.current(view, kind)
        return [record_of(kept) for kept in found]

    def told(found: list[dict[str, Any]]) -> dict[str, Any]:
        return {"records": len(found), **fact_store.kinds_shown(record["kind"] for record in found)}

    return looking(ground, "facts.save", look, outputs=told)


def load(ground: FactsGround, records: list[Any]) -> Work[None]:
    """Have a memory hold what was dumped, and nothing else.

    Raises:
        InvalidInput: A record is damaged. The memory is as it was.
    """
    drafts = [draft_of(record) for record in records]

    def make(change: Change) -> Steps[None]:
        yield from fact_commands.clear(change, rules=True)
        anew = {(draft.kind, draft.key) for draft in drafts}
        gone = [draft for draft in change.drafts if (draft.kind, draft.key) not in anew]
        change.drafts = gone + drafts  # what is here already is written in the order of the file, too

    here = fact_store.kinds_shown(draft.kind for draft in drafts)
    yield from changing(ground, "facts.load", make, outputs=lambda _: here, records=len(records))


def _draft(record: Any) -> RowDraft:
    forms = data_file("fact_records.yaml")
    _holds(record, forms["record"])
    kind, key, extra, label = record["kind"], record["id"], record["extra"], record["label"]
    _holds(extra, forms[label if kind == RULE else kind])
    if kind != RULE or "told" in extra:
        for event in extra["told"]:
            _holds(event, forms["event"])
            if kind in (FACT, FORMER):
                _holds(event, forms[event["do"]])
            if event["do"] == SET:
                _holds(event["fields"], {name: forms["fields"][name] for name in event["fields"]})
        if kind != FACT:  # of which another line may tell
            next(event for event in extra["told"] if event["do"] == SAID)
    draft = RowDraft(kind, key, memory_rows.body_of(record["body"]), record["created_at"], label=label, extra=extra)
    if kind == TEXT:
        decode_body(draft.body or b"", extra["told"][0]["id"])
        return draft._replace(subject=extra["role"], findable=label is None)
    if kind in (FACT, FORMER):
        names = fact_store.names_of(extra) if kind == FACT else extra["names"]
        found = kind == FACT and state(extra) is not None
        return fact_store.looked_up_by(draft._replace(findable=found), names)
    return draft


def _holds(given: Any, form: Mapping[str, str]) -> None:
    """Check the fields of something.

    Raises:
        KeyError: One is missing.
        ValueError: One is of another type.
    """
    for name, type_name in form.items():
        optional = type_name.startswith("maybe ")
        value = given.get(name) if optional else given[name]
        if not (optional and value is None):
            _TYPES[type_name.removeprefix("maybe ")].validate_python(value, strict=True)


_Text: TypeAlias = InstanceOf[str]  # pydantic's own refuses halves of characters
_TYPES: Mapping[str, TypeAdapter[Any]] = {
    "flag": TypeAdapter(bool),
    "object": TypeAdapter(dict[_Text, Any]),
    "origins": TypeAdapter(list[Annotated[list[_Text], Field(min_length=1, max_length=3)]]),
    "sure": TypeAdapter(Annotated[float, Field(ge=0, le=1)]),
    "text": TypeAdapter(_Text),
    "texts": TypeAdapter(list[_Text]),
    "time": TypeAdapter(Annotated[int, Field(ge=EARLIEST, le=LATEST)]),
    "whole": TypeAdapter(Annotated[int, Field(ge=-(2**63), lt=2**63)]),
}


PAGE = 500


def fact_problems() -> Steps[list[str]]:
    """What is wrong with facts, and with what is kept beside them.

    Returns:
        Sentences; empty when all is well.
    """
    found: list[str] = []
    after = 0
    kinds = as_json(CHECKED)
    while page := (yield query.facts_after(after=after, kinds=kinds, limit=PAGE)):
        after = page[-1]["id"]
        for row in page:
            indexed = row["origin"] is not None or row["document_id"] is not None
            try:
                trouble = _trouble_of(row, bytes(row["body"]), json.loads(row["extra"] or "{}"), indexed=indexed)
            except (TypeError, ValueError, RecursionError):
                trouble = "cannot be read"
            if trouble is not None:
                found.append(f"memory {row['id']}, a {row['kind'].replace('_', ' ')}, {trouble}")
    return found


def _trouble_of(row: Any, body: bytes, extra: Any, *, indexed: bool = True) -> str | None:
    """What is wrong with something, if anything is."""
    record = {name: row[name] for name in ("kind", "label", "created_at")}
    try:
        draft = draft_of({**record, "id": row["key"], "body": memory_rows.text_of(body), "extra": extra or {}})
    except (InvalidInput, UnicodeDecodeError):
        return "cannot be read"
    if row["kind"] == FACT and state(extra) is None:
        return None  # what was taken back is looked up by nobody but who knows its id
    if row["kind"] in (FACT, FORMER):
        if (row["label"], row["subject"], row["object"]) != (draft.label, draft.subject, draft.object):
            return "is not looked up by what it says"
        names = extra["names"] if row["kind"] == FORMER else fact_store.names_of(extra)
        if body != memory_rows.body_of(sentence(*names)):
            return "does not say what was told of it"
    return "is not in the index" if draft.findable and not indexed else None


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


def promote_facts(change: Change, base: View, child: View, prefer: Prefer, new_id: NewId) -> Steps[PromotedFacts]:
    """Have a parent know what its child learned of facts.

    Args:
        change: The transaction of the parent.
        base: What the child saw at the fork.
        child: What it sees.
        prefer: Whose state counts where both changed a message, or what is agreed on a name.
        new_id: Makes ids.
    """
    found = PromotedFacts([], [], [], [], [])
    agreed = yield from _promote_rules(change, base, child, prefer, found)
    book = Book(change=change, agreed=agreed, new_id=new_id)
    yield from _promote_texts(change, base, child, prefer, found)
    yield from _promote_facts(book, base, child, found)
    return found


# -- what a fork learned goes to its parent --------------------------------------------------------------------------


def _promote(
    change: Change, kind: str, sides: Sides, prefer: Prefer, say: Callable[[Kept], str] = lambda kept: kept.text
) -> Promoted:
    """Have the parent hold what only the child changed of a kind; what both changed is a conflict."""
    news = promoted("facts", *sides, prefer, say)
    change.drafts += map(_again, news.new)
    for key in news.gone:
        change.remove(kind, key)
    return news


def _again(kept: Kept) -> RowDraft:
    """What is kept elsewhere, to be kept as it is."""
    return draft_of(record_of(kept))


def _promote_rules(change: Change, base: View, child: View, prefer: Prefer, found: PromotedFacts) -> Steps[Rules]:
    news = _promote(change, RULE, (yield from sides_of(change, base, child, RULE)), prefer, in_words)
    found.rules.extend(kept.key for kept in news.new)
    found.removed.extend(news.gone)
    found.conflicts.extend(news.conflicts)
    there = {kept.key: kept for kept in (yield from memory_rows.current(change.view, RULE))}
    there.update({kept.key: kept for kept in news.new})
    return agreement((kept for key, kept in there.items() if key not in news.gone), SINGLE_VALUED)


def _promote_texts(change: Change, base: View, child: View, prefer: Prefer, found: PromotedFacts) -> Steps[None]:
    texts = yield from sides_of(change, base, child, TEXT)
    news = _promote(change, TEXT, texts, prefer, lambda kept: fact_store.message_of(kept).text)
    found.texts.extend(kept.key for kept in news.new)
    found.removed.extend(news.gone)
    # The same message that was added on both sides is none.
    found.conflicts.extend(each for each in news.conflicts if each.parent != each.child)
    for kind in (memory_rows.DUE, memory_rows.FAILURE):
        _promote(change, kind, (yield from sides_of(change, base, child, kind)), prefer)


# -- facts -----------------------------------------------------------------------------------------------------------


def _promote_facts(book: Book, base: View, child: View, found: PromotedFacts) -> Steps[None]:
    change = book.change
    sides = yield from sides_of(change, base, child, FACT)
    homes = yield from _homes(book, sides)
    ids = {key: home.key for key, home in homes.items()}
    for key in dict.fromkeys([*sides.base, *sides.child]):
        was, theirs = sides.base.get(key), sides.child.get(key)
        if same(was, theirs):
            continue
        goal = ids.get(key, key)
        mine = book.written.get(goal) or homes.get(key) or sides.parent.get(key)
        extra = _together(was, mine, theirs, ids)
        like = mine or theirs
        if extra is None:
            if mine is not None:
                yield from book.remove(mine)
                found.removed.append(goal)
        elif like is not None and (mine is None or extra != mine.extra):
            book.restate(like if mine is not None else like._replace(extra={}), extra)
    found.facts.extend(book.written)
    for kept in (yield from sides_of(change, base, child, FORMER)).child.values():
        fact = ids.get(kept.extra["fact"], kept.extra["fact"])
        if fact in book.written:
            yield from _promote_former(change, kept, fact)


def _homes(book: Book, sides: Sides) -> Steps[dict[str, Kept]]:
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
    triples = {
        _triple(agreed, fact_store.state_of(theirs.extra)),
        _triple(agreed, fact_store.first_told(theirs.extra)),
    }
    here: dict[str, Kept] = {}
    for subject, predicate, _ in triples:
        here |= yield from fact_store.about(
            book.change.view, subjects=agreed.keys_of([subject]), predicates=[predicate], former=True
        )
    # It went there when the child was merged before.
    names = {name for name, event in _named(theirs.extra["told"], {}) if event["do"] == SAID}
    for kept in here.values():
        if _triple(agreed, fact_store.first_told(kept.extra)) in triples and any(
            name in names for name, event in _named(kept.extra["told"], {}) if event["do"] == SAID
        ):
            return kept
    if any(event["do"] != SAID for event in theirs.extra["told"]):
        return None  # what happened to it did not happen to what the parent knows
    states = fact_store.states_of(here)
    ends = fact_events.endings(states, agreed)
    known = fact_store.state_of(theirs.extra)
    used = {kept.key for kept in taken.values()}
    same_thing = [
        key
        for key, state in states.items()
        if _triple(agreed, state) in triples
        and key not in used
        and fact_events.overlaps(state, ends[key].at, known.start, known.end)
    ]
    return here[min(same_thing, key=lambda key: (states[key].start, key))] if same_thing else None


def _together(
    was: Kept | None, mine: Kept | None, theirs: Kept | None, ids: Mapping[str, str]
) -> dict[str, Any] | None:
    """What was told of a fact in parent and child, but for what either forgot; None if nobody tells of it any more.

    Args:
        was: The fact at the fork.
        mine: The fact in the parent.
        theirs: The fact in the child.
        ids: What facts of the child are called here, if they are called something else.
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


def _named(told: Iterable[Event], ids: Mapping[str, str]) -> list[tuple[Name, dict[str, Any]]]:
    """Events with what tells each from others, also on another branch, where it may have another number.

    Who says the same from the same message says it once, whenever it was learned.
    """
    found: list[tuple[Name, dict[str, Any]]] = []
    names: dict[int, Name] = {}
    seen: Counter[str] = Counter()
    for each in told:
        event = dict(each)
        if event["do"] == fact_events.BESIDE:
            event["of"] = sorted(ids.get(key, key) for key in event["of"])
        says = {**event, "n": None, "at": None if event["do"] == SAID else event["at"]}
        if event["do"] == UNDO:
            says["of"] = names.get(event["of"])
        text = json.dumps(says, sort_keys=True)
        names[event["n"]] = (text, seen[text])
        seen[text] += 1
        found.append((names[event["n"]], event))
    return found


def _triple(agreed: Rules, known: fact_events.State) -> tuple[str, str, str]:
    return agreed.canonical(known.subject), predicate_key(known.predicate), agreed.canonical(known.object)


def _promote_former(change: Change, kept: Kept, fact: str) -> Steps[None]:
    """Have a fact be found by what it said once, on the child."""
    key = f"{fact} {digest(kept.body).hex()[:16]}"
    if key not in (yield from memory_rows.named(change.view, FORMER, [key])):
        change.drafts.append(_again(kept._replace(key=key, extra={**kept.extra, "fact": fact})))


def _load(into: Import, head: Record, records: Sequence[Record]) -> Steps[None]:
    """Refuse damaged facts among the versions that `rewinding` takes."""
    del into, head
    for record in records:
        if record["kind"] in CHECKED and record["body"] is not None:
            trouble = _trouble_of(record, b64decode(record["body"]), record["extra"])
            if trouble is not None:
                raise InvalidInput(f"A record of what is remembered is damaged: {safe_repr(record['key'])} {trouble}.")
    return
    yield


PART = Part(
    found={
        FOUND_AS: tuple(Found(stored_as=kind, texts=row_texts, recollections=recollections) for kind in (FACT, TEXT))
    },
    verify={"facts": fact_problems},
    records={"memories": ()},
    load=_load,
)
