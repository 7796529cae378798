"""Random histories of facts, compared at many times with the reference model in `brute.py`.

A history is drawn from a seed. All of an engine share one database, each on branches of its own.
`AGENTMEM_EXAMPLES=5000 pytest -o timeout=0` runs so many seeds per engine. A seed that fails is named in the error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from itertools import count
from random import Random
from typing import Any, NamedTuple

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput, MessageError

from .brute import TICK, Branch, Shown

EXAMPLES = {"sqlite": 100, "postgres": 6}
QUICK_EXAMPLES = 20
"""Seeds of the quick ring."""

PEOPLE = ("Maya", "maya", "Ben", "M. Ortiz", "Benny")
PLACES = ("Lisbon", "Porto", "Faro", "LISBON", "Lisboa", "Acme")
PREDICATES = ("lives in", "lives in", "lives_in", "works at", "likes")
ALIASES = (("M. Ortiz", "Maya"), ("Benny", "Ben"), ("Lisboa", "Lisbon"), ("Acme", "Porto"), ("Ben", "Maya"))
UNSTORED_MESSAGE_IDS = ("note-1", "note-2", "note-3")
"""Ids of messages that are kept nowhere."""
ACTIONS = {"tell": 9, "again": 4, "undo": 4, "undo_last": 2, "correct": 3, "keep": 2, "reword": 0.3, "fork": 0.7}
RETROACTIVE_ACTIONS = {"remove": 1, "forget": 1, "merge": 1, "unmerge": 0.6, "declare": 0.8}
"""What changes the past as well."""
PAUSES = (0, 0, 5, 3600, 86_400, 10 * 86_400)


class Said(NamedTuple):
    """The facts that a branch returned at a time."""

    at: datetime
    facts: list[Any]


class Telling(NamedTuple):
    """A branch in the package and in the reference model."""

    facts: Any
    brute: Branch
    said: list[Said]
    """What it said and must say again, if asked for the past."""


class History:
    """A random history and its checks."""

    def __init__(self, memory: AgentMemory, clock: Any, seed: int) -> None:
        self.rng, self.clock, self.name = Random(seed), clock, f"history {seed}"
        self.branches = [Telling(memory.facts(self.name), Branch(), [])]
        self.actions = dict(ACTIONS) if self.rng.random() < 0.4 else ACTIONS | RETROACTIVE_ACTIONS
        self.first = clock.now
        self.last: tuple[Telling, str] | None = None
        self.told: list[dict[str, Any]] = []

    def run(self) -> None:
        for _ in range(self.rng.randrange(4, 24)):
            self.clock.pass_time(seconds=self.rng.choice(PAUSES))
            branch = self.rng.choice(self.branches)
            action = self.rng.choices(list(self.actions), list(self.actions.values()))[0]
            getattr(self, action)(branch)
            if action in RETROACTIVE_ACTIONS or action == "reword":
                branch.said.clear()
            if self.rng.random() < 0.4:
                branch.said.append(Said(self.clock.now + timedelta(seconds=1), branch.facts.as_of()))
        for branch in self.branches:
            self.check(branch)

    # -- what is done --------------------------------------------------------------------------------------------------

    def tell(self, branch: Telling) -> None:
        rng = self.rng
        start, end = (self.some_time(branch) if rng.random() < chance else None for chance in (0.5, 0.2))
        if start is not None and end is not None and end <= start:
            start, end = (end, start) if end < start else (start, None)
        names = {"subject": rng.choice(PEOPLE), "predicate": rng.choice(PREDICATES), "obj": rng.choice(PLACES)}
        sure = rng.choice((None, None, None, 0.2, 0.9))
        said = {"role": rng.choice(("user", "user", "assistant")), **names, "start": start, "end": end, "sure": sure}
        self.told.append(said)
        self.state(branch, said)

    def again(self, branch: Telling) -> None:
        if self.told:
            said = self.rng.choice(self.told[-3:])
            changed = self.rng.choice(({}, {}, {"start": None, "end": None}, {"obj": self.rng.choice(PLACES)}))
            self.state(branch, {**said, **changed})

    def state(self, branch: Telling, said: dict[str, Any]) -> None:
        sources = self.sources(branch)
        key = branch.facts.add_fact(
            *(said[name] for name in ("role", "subject", "predicate", "obj")),
            valid_from=said["start"],
            valid_to=said["end"],
            confidence=said["sure"],
            source=[message if where is None else (message, where) for message, where in sources] or None,
        )
        at = self.clock.now
        before = set(branch.brute.now.facts)
        branch.brute.do(at, "tell", key=key, sources=sources or [(None, None)], **said)
        if key not in before:
            assert set(branch.brute.now.facts) == before | {key}, f"{said} is told again, not new"
        else:
            assert set(branch.brute.now.facts) == before, f"{said} is new, and not {key}"

    def sources(self, branch: Telling) -> list[tuple[str, str | None]]:
        rng = self.rng
        kept = [(key, None) for key in branch.brute.now.messages]
        plain = [
            (key, rng.choice((None, None, "talk"))) for key in rng.sample(UNSTORED_MESSAGE_IDS, rng.choice((1, 1, 2)))
        ]
        return rng.choice(([], [], plain, [rng.choice(kept)] if kept else plain))

    def undo(self, branch: Telling) -> None:
        known = list(branch.brute.now.facts)
        if known:
            self.last = branch, self.rng.choice(known)
            self.undo_last(branch)

    def undo_last(self, _: Telling) -> None:
        if self.last is None:
            return
        branch, key = self.last
        if key not in branch.brute.now.facts:
            with pytest.raises(MessageError):
                branch.facts.undo(key)
            return
        branch.facts.undo(key)
        branch.brute.do(self.clock.now, "undo", key=key)

    def correct(self, branch: Telling) -> None:
        if not branch.brute.now.facts:
            return
        rng, key = self.rng, self.rng.choice(list(branch.brute.now.facts))
        one = rng.choice(("subject", "object", "predicate", "start", "end", "end", "sure", "role"))
        values = {"subject": PEOPLE, "object": PLACES, "predicate": PREDICATES, "start": [self.some_time(branch)],
                  "end": [None, self.some_time(branch)], "sure": [None, 0.5], "role": ["tool"]}  # fmt: skip
        changes: dict[str, Any] = {one: rng.choice(values[one])}
        if rng.random() < 0.2:
            changes |= {"object": rng.choice(PLACES)}
        names = {"start": "valid_from", "end": "valid_to", "sure": "confidence", "object": "obj"}
        given = {names.get(name, name): value for name, value in changes.items()}
        known = branch.brute.now.content(key)
        end = changes.get("end", known and known.end)
        refused = known is None or (end is not None and end <= changes.get("start", known.start))
        with pytest.raises(MessageError if known is None else InvalidInput) if refused else nullcontext():
            branch.facts.update(key, **given)
        if not refused:
            branch.brute.do(self.clock.now, "correct", key=key, **changes)

    def remove(self, branch: Telling) -> None:
        if branch.brute.now.facts:
            key = self.rng.choice(list(branch.brute.now.facts))
            assert [branch.facts.remove_by_id(key) for _ in range(2)] == [True, False]
            branch.brute.do(self.clock.now, "remove", key=key)

    def keep(self, branch: Telling) -> None:
        key = branch.facts.add(role="user", content="Much has changed.")
        branch.brute.do(self.clock.now, "keep", key=key, said_at=self.clock.now)

    def reword(self, branch: Telling) -> None:
        if branch.brute.now.messages:
            key = self.rng.choice(list(branch.brute.now.messages))
            branch.facts.update(key, content="Nothing has changed.")
            branch.brute.do(self.clock.now, "reword", key=key)

    def forget(self, branch: Telling) -> None:
        if branch.brute.now.messages:
            key = self.rng.choice(list(branch.brute.now.messages))
            branch.facts.remove_by_id(key)
            branch.brute.do(self.clock.now, "forget", key=key)

    def merge(self, branch: Telling) -> None:
        name, into = self.rng.choice(ALIASES)
        branch.facts.merge(name, into)
        branch.brute.do(self.clock.now, "merge", name=name, into=into)

    def unmerge(self, branch: Telling) -> None:
        name, _ = self.rng.choice(ALIASES)
        branch.facts.unmerge(name)
        branch.brute.do(self.clock.now, "unmerge", name=name)

    def declare(self, branch: Telling) -> None:
        predicate, single = self.rng.choice(PREDICATES), self.rng.random() < 0.5
        branch.facts.declare(predicate, single_valued=single)
        branch.brute.do(self.clock.now, "declare", predicate=predicate, single=single)

    def fork(self, branch: Telling) -> None:
        if len(self.branches) < 4:
            facts = branch.facts.fork(f"{self.name} {len(self.branches)}")
            self.branches.append(Telling(facts, branch.brute.fork(), list(branch.said)))

    def some_time(self, branch: Telling) -> datetime:
        """A day around the history, or the time of one of its operations."""
        if self.rng.random() < 0.2 and branch.brute.operations:
            return self.rng.choice(branch.brute.operations).at
        return self.first + timedelta(days=self.rng.randrange(-8, 16))

    # -- what is checked -----------------------------------------------------------------------------------------------

    def check(self, branch: Telling) -> None:
        facts, brute, rng = branch.facts, branch.brute, self.rng
        for said in branch.said:
            assert facts.as_of(said.at, said.at) == said.facts, f"{said.at} is told otherwise than it was then"
        for operation in brute.operations:
            assert shown(facts.as_of(operation.at, operation.at)) == brute.as_of(operation.at, operation.at)
        times = sorted({near for time in brute.times() for near in (time - TICK, time, time + TICK)})
        learned = [None, None, self.first, *(operation.at for operation in brute.operations)]
        for _ in range(10):
            recorded = rng.choice(learned)
            if recorded is not None:
                recorded += rng.choice((-TICK, TICK * 0, TICK))
            filters = self.filters()
            if rng.random() < 0.3:
                subject = filters.pop("subject", "Maya")
                filters.pop("obj", None)
                past = shown(facts.history(subject, **filters, recorded=recorded))
                assert past == brute.as_of(None, recorded, subject=subject, **filters), (recorded, subject, filters)
            else:
                valid = rng.choice(times or [self.first])
                there = shown(facts.as_of(valid, recorded, **filters))
                assert there == brute.as_of(valid, recorded, **filters), (valid, recorded, filters)
            size = rng.randrange(1, 8)
            found, page = [], facts.latest(size, recorded=recorded)
            while page:
                found += page
                page = facts.latest(size, before=page[-1].id, recorded=recorded)
            assert [fact.recorded_at for fact in found] == sorted((f.recorded_at for f in found), reverse=True)
            found.sort(key=lambda fact: (fact.valid_from, fact.recorded_at, fact.id))
            assert shown(found) == brute.as_of(None, recorded), (size, recorded)
        self.check_now(branch)

    def check_now(self, branch: Telling) -> None:
        facts, brute = branch.facts, branch.brute
        filters = self.filters()
        filters.pop("obj", None)
        wanted = {fact.id for fact in brute.as_of(None, **filters)}
        assert {
            (*(fact.id for fact in each.facts), each.valid_from, each.valid_to)
            for each in facts.contradictions(**filters)
        } == {each for each in brute.now.contradictions() if each[0] in wanted}
        for key in self.rng.sample(sorted(brute.now.facts), min(2, len(brute.now.facts))):
            known = facts.get(key)
            assert (None if known is None else shown([known])[0]) == brute.get(key)

    def filters(self) -> dict[str, str]:
        rng = self.rng
        every = {"subject": PEOPLE, "predicate": PREDICATES, "obj": PLACES}
        return {name: rng.choice(values) for name, values in every.items() if rng.random() < 0.4}


def shown(facts: list[Any]) -> list[Shown]:
    """Facts in the form of the reference model."""

    def told(fact: Any) -> tuple[Any, ...]:
        return tuple((each.message_id, each.conversation_id, each.role, each.recorded_at) for each in fact.mentions)

    names = Shown._fields
    return [Shown(*(told(fact) if name == "told" else getattr(fact, name) for name in names)) for fact in facts]


def unordered_ids() -> Callable[[], str]:
    """Make ids in no meaningful order."""
    numbers = count(1)
    return lambda: f"id-{next(numbers) * 7_919 % 100_003:05}"


@contextmanager
def note_seed(seed: int) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(f"This was the history of seed {seed}.")
        raise


def test_facts_at_any_time_match_brute_force(url, clock, pytestconfig):
    kind = "postgres" if url.startswith("postgresql:") else "sqlite"
    most = EXAMPLES[kind] if pytestconfig.option.full else QUICK_EXAMPLES
    with AgentMemory(url, clock=clock, new_id=unordered_ids()) as memory:
        for seed in range(int(os.environ.get("AGENTMEM_EXAMPLES", most))):
            with note_seed(seed):
                History(memory, clock, seed).run()
