"""A reference model of facts: a branch is a list of operations, and every query replays it.

It knows nothing of events, rows or look-ups, and was written from what the docstrings promise. What was known at some
time is what the operations up to then made; then what was removed later is taken out of it, and names are understood
as they are now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import permutations
from typing import Any, NamedTuple

TICK = timedelta(microseconds=1)
SINGLE = ("lives in", "works at")

Source = tuple[str | None, str | None]
"""The id of a message, and that of its conversation."""


class Shown(NamedTuple):
    """A fact as queries return it."""

    id: str
    role: str
    subject: str
    predicate: str
    object: str
    valid_from: datetime
    valid_to: datetime | None
    recorded_at: datetime
    told: tuple[tuple[str | None, str | None, str, datetime], ...]
    confidence: float | None
    ended_by: str | None

    def named(self, what: str) -> str:
        return {"subject": self.subject, "predicate": self.predicate, "obj": self.object}[what]

    def holds_at(self, at: datetime) -> bool:
        return self.valid_from <= at and (self.valid_to is None or at < self.valid_to)


class Happening(NamedTuple):
    """A statement or correction of a fact."""

    number: int
    at: datetime
    kind: str
    what: Mapping[str, Any]
    counts: bool = True


class Entry(NamedTuple):
    """The events of a fact, and when each happened or was undone last."""

    names: tuple[str, str, str]
    role: str
    happenings: tuple[Happening, ...] = ()
    touched: tuple[tuple[datetime, int], ...] = ()


class Content(NamedTuple):
    """The content of a fact without other facts."""

    subject: str
    predicate: str
    object: str
    role: str
    start: datetime
    end: datetime | None
    given: bool
    lasting: bool
    sure: float | None
    tellings: tuple[Happening, ...]

    @property
    def order(self) -> tuple[datetime, datetime, int]:
        return self.start, self.tellings[0].at, self.tellings[0].number


class Operation(NamedTuple):
    at: datetime
    name: str
    given: Mapping[str, Any]


def same_name(name: str) -> str:
    return " ".join(name.replace("_", " ").casefold().split())


@dataclass
class World:
    """The state of a branch at one moment."""

    facts: dict[str, Entry] = field(default_factory=dict)
    messages: dict[str, datetime] = field(default_factory=dict)
    merged: dict[str, str] = field(default_factory=dict)
    single: frozenset[str] = frozenset(SINGLE)
    count: int = 0

    def copy(self) -> World:
        return World(dict(self.facts), dict(self.messages), dict(self.merged), self.single, self.count)

    def apply(self, operation: Operation) -> None:
        getattr(self, operation.name)(operation.at, **operation.given)

    # -- operations: what they do --------------------------------------------------------------------------------------

    def tell(self, at: datetime, key: str, sources: Iterable[Source], **said: Any) -> None:
        known: str | None = None
        for source in sources:
            telling = self.telling(at, source, **said)
            known = known or self.same(telling)
            if known is None:
                known, names = key, (said["subject"], said["predicate"], said["obj"])
                self.facts[key] = Entry(names, said["role"])
                self._happens(key, at, "told", telling)
            elif adds_information(self.content(known), telling):
                self._happens(known, at, "told", telling)

    def undo(self, at: datetime, key: str) -> None:
        entry = self.facts[key]
        last = entry.touched[-1][1]
        happened = (each._replace(counts=each.counts != (each.number == last)) for each in entry.happenings)
        self.facts[key] = entry._replace(happenings=(*happened,), touched=(*entry.touched, (at, last)))

    def correct(self, at: datetime, key: str, **changes: Any) -> None:
        self._happens(key, at, "corrected", changes)

    def remove(self, at: datetime, key: str) -> None:
        self.facts.pop(key, None)

    def keep(self, at: datetime, key: str, said_at: datetime) -> None:
        self.messages[key] = said_at

    def reword(self, at: datetime, key: str) -> None:
        self._drop_source(key)

    def forget(self, at: datetime, key: str) -> None:
        self._drop_source(key)
        self.messages.pop(key, None)

    def merge(self, at: datetime, name: str, into: str) -> None:
        if self.canonical(name) != self.canonical(into):
            self.merged[same_name(name)] = into

    def unmerge(self, at: datetime, name: str) -> None:
        self.merged.pop(same_name(name), None)

    def declare(self, at: datetime, predicate: str, single: bool) -> None:
        one = {same_name(predicate)}
        self.single = self.single | one if single else self.single - one

    # -- what holds ----------------------------------------------------------------------------------------------------

    def canonical(self, name: str) -> str:
        key = same_name(name)
        while key in self.merged:
            key = same_name(self.merged[key])
        return key

    def content(self, key: str) -> Content | None:
        """The content of a fact; None if it is unknown or all its statements were undone."""
        entry = self.facts[key]
        counting = [each for each in entry.happenings if each.counts]
        told = [each for each in counting if each.kind == "told"]
        if not told:
            return None
        start = min(each.what["start"] for each in told)
        ends = [each.what["end"] for each in told if each.what["end"] is not None]
        sure = [each.what["sure"] for each in told if each.what["sure"] is not None]
        content = Content(
            *entry.names,
            role=entry.role,
            start=start,
            end=max(ends, default=None),
            given=any(each.what["given"] for each in told if each.what["start"] == start),
            lasting=any(each.what["end"] is None for each in told),
            sure=max(sure, default=None),
            tellings=tuple(told),
        )
        for each in counting:
            if each.kind == "corrected":
                content = _corrected(content, each.what)
        return content

    def contents(self) -> dict[str, Content]:
        return {key: content for key in self.facts if (content := self.content(key)) is not None}

    def ends(self, known: Mapping[str, Content]) -> dict[str, tuple[datetime | None, str | None]]:
        """When each fact ended, and the fact that ended it, if one did."""
        found: dict[str, tuple[datetime | None, str | None]] = {}
        for key, content in known.items():
            after = [(other.order, name) for name, other in known.items() if self._ends(other, content)]
            order, name = min(after, default=((content.end,), None))
            found[key] = (order[0], name) if content.end is None else (content.end, None)
        return found

    def shown(self) -> list[Shown]:
        known = self.contents()
        ends = self.ends(known)
        return [self._shown(key, known[key], *ends[key]) for key in known]

    def contradictions(self) -> set[tuple[str, str, datetime, datetime | None]]:
        known = self.contents()
        ends = self.ends(known)
        found = set()
        for (one, mine), (other, theirs) in permutations(known.items(), 2):
            if mine.order < theirs.order and self._rivals(mine, theirs):
                start = max(mine.start, theirs.start)
                stop = min((end for end, _ in (ends[one], ends[other]) if end is not None), default=None)
                if stop is None or start < stop:
                    found.add((one, other, start, stop))
        return found

    # -- what is told --------------------------------------------------------------------------------------------------

    def telling(
        self, at: datetime, source: Source, *, start: datetime | None, end: datetime | None, **said: Any
    ) -> dict[str, Any]:
        """A statement, with a default start time."""
        message, conversation = source
        begins = start
        if begins is None:
            begins = self.messages.get(message or "", at)
            if end is not None and end <= begins:  # it ended before it was said: since when, nobody knows
                begins = end - TICK
        return {**said, "start": begins, "end": end, "given": start is not None,
                "message": message, "conversation": conversation}  # fmt: skip

    def same(self, telling: Mapping[str, Any]) -> str | None:
        """The existing fact that a statement repeats."""
        known = self.contents()
        ends = self.ends(known)
        found = [
            (content.start, key)
            for key, content in known.items()
            if self._thing(content) == (self.canonical(telling["subject"]), same_name(telling["predicate"]))
            and self.canonical(content.object) == self.canonical(telling["obj"])
            and (
                _overlap((content.start, ends[key][0]), (telling["start"], telling["end"]))
                or (telling["message"] is not None and not telling["given"] and not adds_information(content, telling))
            )
        ]
        return min(found)[1] if found else None

    # -- plumbing ------------------------------------------------------------------------------------------------------

    def _happens(self, key: str, at: datetime, kind: str, what: Mapping[str, Any]) -> None:
        self.count += 1
        entry = self.facts[key]
        happenings = (*entry.happenings, Happening(self.count, at, kind, what))
        self.facts[key] = entry._replace(happenings=happenings, touched=(*entry.touched, (at, self.count)))

    def _drop_source(self, message: str) -> None:
        for key, entry in list(self.facts.items()):
            lost = {
                each.number
                for each in entry.happenings
                if each.kind == "told" and each.what["message"] == message and each.what["conversation"] is None
            }
            left = tuple(each for each in entry.happenings if each.number not in lost)
            if any(each.kind == "told" for each in left):
                touched = tuple(each for each in entry.touched if each[1] not in lost)
                self.facts[key] = entry._replace(happenings=left, touched=touched)
            else:
                del self.facts[key]

    def _thing(self, content: Content) -> tuple[str, str]:
        return self.canonical(content.subject), same_name(content.predicate)

    def _rivals(self, one: Content, other: Content) -> bool:
        thing, differ = self._thing(one), self.canonical(one.object) != self.canonical(other.object)
        return differ and thing == self._thing(other) and thing[1] in self.single

    def _ends(self, later: Content, earlier: Content) -> bool:
        """Whether a later value ends an earlier one without an explicit end."""
        if not self._rivals(later, earlier) or not later.lasting:
            return False
        if later.start == earlier.start:
            return later.order > earlier.order and not later.given
        return later.start > earlier.start

    def _shown(self, key: str, content: Content, end: datetime | None, by: str | None) -> Shown:
        names = self._spelled(content.subject), content.predicate, self._spelled(content.object)
        told = tuple((t.what["message"], t.what["conversation"], t.what["role"], t.at) for t in content.tellings)
        return Shown(key, content.role, *names, content.start, end, told[0][-1], told, content.sure, by)

    def _spelled(self, name: str) -> str:
        while same_name(name) in self.merged:
            name = self.merged[same_name(name)]
        return name


class Branch:
    """The operations of a branch and of its parent before the fork, with their recording times."""

    def __init__(self, operations: Iterable[Operation] = ()) -> None:
        self.operations: list[Operation] = []
        self._worlds = [World()]
        for operation in operations:
            self.do(operation.at, operation.name, **operation.given)

    def fork(self) -> Branch:
        return Branch(self.operations)

    def do(self, at: datetime, operation_name: str, /, **given: Any) -> None:
        operation = Operation(at, operation_name, given)
        world = self._worlds[-1].copy()
        world.apply(operation)
        self.operations.append(operation)
        self._worlds.append(world)

    @property
    def now(self) -> World:
        return self._worlds[-1]

    def known(self, recorded: datetime | None = None) -> World:
        """The state at a recording time, without later removals and with the current aliases."""
        count = sum(recorded is None or operation.at <= recorded for operation in self.operations)
        world = self._worlds[count].copy()
        for operation in self.operations[count:]:
            if operation.name in ("remove", "reword", "forget"):
                world.apply(operation)
        world.merged, world.single = self.now.merged, self.now.single
        return world

    def as_of(self, valid: datetime | None, recorded: datetime | None = None, **names: str) -> list[Shown]:
        """The facts valid at a time, or ever, as recorded at another; filtered by names."""
        world = self.known(recorded)
        found = [
            fact
            for fact in world.shown()
            if (valid is None or fact.holds_at(valid))
            and all(world.canonical(name) == world.canonical(fact.named(what)) for what, name in names.items())
        ]
        return sorted(found, key=lambda fact: (fact.valid_from, fact.recorded_at, fact.id))

    def get(self, key: str) -> Shown | None:
        return next((fact for fact in self.now.shown() if fact.id == key), None)

    def times(self) -> Iterator[datetime]:
        """All recording, start and end times."""
        for operation in self.operations:
            yield operation.at
        for fact in self.now.shown():
            yield fact.valid_from
            if fact.valid_to is not None:
                yield fact.valid_to


def adds_information(content: Content | None, telling: Mapping[str, Any]) -> bool:
    """Whether a statement adds something new."""
    assert content is not None
    names = ("message", "conversation", "role", "end")
    return not any(
        all(each.what[name] == telling[name] for name in names)
        and (not telling["given"] or (each.what["given"] and each.what["start"] == telling["start"]))
        and (telling["sure"] is None or telling["sure"] <= max(t.what["sure"] or 0 for t in content.tellings))
        for each in content.tellings
    )


def _corrected(content: Content, changes: Mapping[str, Any]) -> Content:
    if "start" in changes:
        content = content._replace(given=True)
    if changes.get("end", ...) is None:
        content = content._replace(lasting=True)
    return content._replace(**changes)


def _overlap(one: tuple[datetime, datetime | None], other: tuple[datetime, datetime | None]) -> bool:
    return (one[1] is None or other[0] < one[1]) and (other[1] is None or one[0] < other[1])
