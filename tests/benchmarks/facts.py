"""Facts at size: how long it takes to add one, and to ask for what held, with 100,000 of them there.

    python tests/benchmarks/facts.py [--facts 100000] [--hub 10000] [--forks 100] [--url postgresql://…]
                                     [--only networkx,…]

`--hub` facts name one entity, and `--forks` forks lie one above the other: 0 leaves that out. Without a URL of an empty
PostgreSQL database it is a new SQLite file. `--only none` leaves out all peers.

The same facts, in the same order, go into this package and into its peers, one at a time; then all are asked the same:

- networkx: a graph in memory. Nothing is kept on disk.
- sqlite3 by hand: one table with an index on each end.
- SqliteStore: LangGraph's store, with an item under the subject and another under the object, as it looks up quickly.

A person lives somewhere and works somewhere, one place at a time and several over the years. The peers are told which
place was before, and end it; ours finds that out. Only ours is asked what it knew at some time, for a search, and for
a prompt: the peers have no answer. All must give the same answers. Times are in milliseconds: the median, and what 95
of 100 do not exceed.
"""

from __future__ import annotations

import importlib.util
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from facts_peers import PEERS
from places import given_options

from langchain_agentmem import AgentMemory
from langchain_agentmem.facts.kg_memory import KGMemory

START = datetime(2015, 1, 1, tzinfo=UTC)
SINGLE = {"lives in": "City", "works at": "Company"}
MANY = {"knows": "Person", "likes": "Topic"}
KINDS = {"Person": 0.6, "City": 0.1, "Company": 0.15, "Topic": 0.05}
ADDED = 2_000
ASKED = 300
PAGE, PAGES = 50, 100
LIMIT = 30
"""Seconds for one kind of question: what takes longer is asked less often."""


class Told(NamedTuple):
    """A fact as everybody is told it. `before` is the value that it ends, if it ends one, and `number` its place."""

    number: int
    subject: str
    predicate: str
    object: str
    start: datetime
    before: str | None


def names(facts: int) -> dict[str, list[str]]:
    """One entity for five facts, each with a name of its own: two words for a person, one for the others."""
    chance = random.Random(4)
    parts = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]
    words: dict[str, None] = {}
    count = max(facts // 5, 20)
    while len(words) < count:
        words["".join(chance.choices(parts, k=3)).title()] = None
    free = iter(words)
    made = {kind: [next(free) for _ in range(max(int(count * share), 2))] for kind, share in KINDS.items()}
    first = [next(free) for _ in range(min(100, count // 10))]
    made["Person"] = [f"{first[number % len(first)]} {word}" for number, word in enumerate(made["Person"])]
    return made


def told(facts: int, seed: int = 1) -> Iterator[Told]:
    """Facts in the order of their times. A few cities, companies and topics are named much more often than the rest."""
    chance = random.Random(seed)
    some = names(facts)
    now: dict[tuple[str, str], str] = {}
    known: set[tuple[str, str, str]] = set()
    number = 0
    while number < facts:
        subject = chance.choice(some["Person"])
        predicate = chance.choices([*SINGLE, *MANY], (3, 2, 3, 3))[0]
        others = some[(SINGLE | MANY)[predicate]]
        obj = chance.choice(others) if predicate == "knows" else others[int(len(others) * chance.random() ** 1.5)]
        before = now.get((subject, predicate))
        if obj in (subject, before) or (subject, predicate, obj) in known:
            continue
        if predicate in SINGLE:
            now[subject, predicate] = obj
        else:
            known.add((subject, predicate, obj))
        yield Told(number, subject, predicate, obj, START + timedelta(minutes=40 * number), before)
        number += 1


class Ours:
    """This package."""

    def __init__(self, place: str | Path) -> None:
        self.memory = AgentMemory(place)
        self.facts: KGMemory = self.memory.facts("benchmark", namespace=("benchmark",))
        self.path = place

    def add(self, fact: Told) -> None:
        self.facts.add_fact("user", fact.subject, fact.predicate, fact.object, valid_from=fact.start)

    def neighbours(self, name: str) -> set[str]:
        return {each.name for each in self.facts.neighbours(name, 2)}

    def holding(self, name: str, at: datetime) -> set[str]:
        return {fact.object for fact in self.facts.as_of(at, subject=name)}

    def history(self, name: str) -> list[str]:
        return [fact.object for fact in self.facts.history(name, "lives in")]

    def size(self) -> int:
        return self.memory.admin.stats()["bytes"]

    def close(self) -> None:
        self.memory.close()


def timed(act: Callable[[Any], object], asked: list[Any]) -> tuple[float, float]:
    """Milliseconds of an act: the median, and what 95 of 100 do not exceed."""
    took: list[float] = []
    end = time.perf_counter() + LIMIT
    for each in asked:
        began = time.perf_counter()
        act(each)
        took.append((time.perf_counter() - began) * 1e3)
        if time.perf_counter() > end:
            break
    took.sort()
    return statistics.median(took), took[int(len(took) * 0.95)]


def questions(facts: int) -> dict[str, list[Any]]:
    chance, some = random.Random(2), names(facts)
    people = [chance.choice(some["Person"]) for _ in range(ASKED)]
    length = timedelta(minutes=40 * facts)
    times = [START + length * chance.random() for _ in people]
    return {
        "neighbours(depth=2)": people,
        "as_of(valid, subject)": list(zip(people, times, strict=True)),
        "history(subject, predicate)": people,
    }


def acts(one: Any) -> Iterator[Callable[[Any], object]]:
    """What everybody does when asked, in the order of the questions."""
    yield from (one.neighbours, lambda given: one.holding(*given), one.history)


def asked(one: Any, facts: int) -> dict[str, tuple[float, float]]:
    """What everybody is asked."""
    return {name: timed(act, given) for act, (name, given) in zip(acts(one), questions(facts).items(), strict=True)}


def asked_of_us(ours: Ours, facts: int, learned: list[datetime]) -> dict[str, tuple[float, float]]:
    """What only ours is asked."""
    kg, chance, some = ours.facts, random.Random(3), names(facts)
    people = [chance.choice(some["Person"]) for _ in range(ASKED)]
    past = [(person, chance.choice(learned)) for person in people]
    where = [f"Where did {person} live?" for person in people]
    cities = [chance.choice(some["City"]) for _ in range(ASKED)]
    return {
        "as_of(subject)": timed(lambda person: kg.as_of(subject=person), people),
        "as_of(subject, recorded=past)": timed(lambda each: kg.as_of(recorded=each[1], subject=each[0]), past),
        "as_of(obj)": timed(lambda city: kg.as_of(obj=city), cities),
        "neighbours(depth=2, recorded=past)": timed(lambda each: kg.neighbours(each[0], 2, recorded=each[1]), past),
        "search": timed(kg.search, where),
        "format_for_prompt": timed(lambda question: kg.format_for_prompt(question, 2_000), where),
        "retrieve_recent(10)": timed(lambda _: kg.retrieve_recent(10), people),
        "entities(prefix, limit=10)": timed(lambda person: kg.entities(person[:8], 10), people),
        "as_of(), everything": timed(lambda _: kg.as_of(), people[:3]),
        **pages(kg, "a page of all that holds"),
    }


def pages(kg: KGMemory, name: str, entity: str | None = None) -> dict[str, tuple[float, float]]:
    """The first page of what holds, of everything or of an entity, and the pages behind the tenth, from there anew."""
    later = [kg.latest(10 * PAGE, entity=entity, valid=kg.now)[-1].id]

    def turn(_: Any) -> None:
        page = kg.latest(PAGE, before=later[-1], entity=entity, valid=kg.now)
        later.append(page[-1].id if page else later[0])

    first = timed(lambda _: kg.latest(PAGE, entity=entity, valid=kg.now), [None] * PAGES)
    return {name: first, "… a later one": timed(turn, [None] * PAGES)}


def hub(ours: Ours, count: int) -> dict[str, tuple[float, float]]:
    """An entity that so many facts name: each of so many people lives there."""
    kg = ours.facts
    for number in range(count):
        kg.add_fact("user", f"Citizen {number}", "lives in", "Metropolis")
    again = [f"Newcomer {number}" for number in range(ASKED)]
    return {
        "add_fact": timed(lambda name: kg.add_fact("user", name, "lives in", "Metropolis"), again),
        "as_of(subject) of a citizen": timed(lambda name: kg.as_of(subject=name), again),
        "as_of(obj)": timed(lambda _: kg.as_of(obj="Metropolis"), again[:20]),
        "neighbours(depth=1)": timed(lambda _: kg.neighbours("Metropolis", 1), again[:20]),
        "search": timed(lambda _: kg.search("Who lives in Metropolis?"), again[:20]),
        **pages(kg, "a page of all that holds of it", "Metropolis"),
    }


def forked(ours: Ours, facts: int, levels: int) -> dict[str, tuple[float, float]]:
    """The same memory through so many forks, with a fact on each."""
    kg = ours.facts
    people = questions(facts)["neighbours(depth=2)"]
    for level in range(levels):
        kg = kg.fork(f"level {level}")
        kg.add_fact("user", people[level % len(people)], "likes", f"level {level}")
    fresh = [f"Stranger {number}" for number in range(ASKED)]
    return {
        "add_fact": timed(lambda name: kg.add_fact("user", name, "likes", "forks"), fresh),
        "as_of(subject)": timed(lambda person: kg.as_of(subject=person), people),
        "neighbours(depth=2)": timed(lambda person: kg.neighbours(person, 2), people),
    }


def line(name: str, took: tuple[float, float], beside: str = "") -> None:
    print(f"  {name:38} {took[0]:10.2f} {took[1]:10.2f}   {beside}".rstrip(), flush=True)


def filled(one: Any, facts: int) -> tuple[tuple[float, float], list[datetime]]:
    """Tell somebody all facts; what the last of them took, and the times at which the facts were learned."""
    took: list[float] = []
    learned: list[datetime] = []
    for fact in told(facts):
        began = time.perf_counter()
        one.add(fact)
        took.append((time.perf_counter() - began) * 1e3)
        if fact.number % 1_000 == 0:
            learned.append(datetime.now(UTC))
    last = sorted(took[-ADDED:])
    return (statistics.median(last), last[int(len(last) * 0.95)]), learned


def same_answers(one: Any, other: Any, facts: int) -> None:
    """Whoever is compared answers the same."""
    for mine, theirs, given in zip(acts(one), acts(other), questions(facts).values(), strict=True):
        for each in given[:20]:
            assert mine(each) == theirs(each), each


def compare(ours: Ours, folder: Path, facts: int, mine: dict[str, tuple[float, float]], only: set[str]) -> None:
    for name, (make, needs) in PEERS.items():
        if only and name not in only:
            continue
        if importlib.util.find_spec(needs) is None:
            print(f"{name}: not installed", flush=True)
            continue
        peer = make(folder / name)
        took = {"add_fact": filled(peer, facts)[0]}
        same_answers(ours, peer, facts)
        took |= asked(peer, facts)
        size = f"{peer.size() / facts:.0f} bytes a fact" if peer.size() else "nothing on disk"
        print(f"{name} ({size})", flush=True)
        for act, theirs in took.items():
            line(act, theirs, f"ours takes {mine[act][0] / theirs[0]:.2f} times that")
        peer.close()


def main() -> None:
    given = given_options(__doc__, facts=100_000, hub=10_000, forks=100, url=None, only="")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = Ours(given.url or folder / "ours.db")
        added, learned = filled(ours, given.facts)
        size = ours.size() / given.facts
        print(f"{given.facts:,} facts, {size:.0f} bytes each: median and 95 of 100, in ms", flush=True)
        mine = {"add_fact": added, **asked(ours, given.facts)}
        for act, took in (mine | asked_of_us(ours, given.facts, learned)).items():
            line(act, took)
        compare(ours, folder, given.facts, mine, set(filter(None, given.only.split(","))))
        if given.hub:
            print(f"with an entity that {given.hub:,} facts name", flush=True)
            for act, took in hub(ours, given.hub).items():
                line(act, took)
        if given.forks:
            print(f"through {given.forks} forks", flush=True)
            for act, took in forked(ours, given.facts, given.forks).items():
                line(act, took)
        ours.close()


if __name__ == "__main__":
    main()
