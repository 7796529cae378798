"""Nodes that use and read all of a memory: core, events, records and search.

The scripts are those of rewind equality. Where they remember, here something random is done: a value is set with or
without an end, deleted or brought back; an event is appended, evicted, summed up; a record written, changed, deleted.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig

from langchain_agentmem import AgentMemory
from langchain_agentmem.layers.layer import CoreEntry, Event, LayersConfig, Record
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.search.memory_search import Recollection

from .adapters import Real
from .oracle import World, address

SMALL = LayersConfig(core_max_chars=70, recall_max_events=3)
"""Settings so small that core entries are evicted and events consolidated."""
KINDS = ("event", "record")
MANY = 5_000
ENDS = (None, None, None, 0.002, 0.02, 86_400.0)
OPERATIONS = {"append": 6, "set": 5, "write": 3, "unset": 1, "evict": 1, "summarize": 0.7, "change": 1.5}
OPERATIONS |= {"tag": 0.5, "delete": 0.7, "consolidate": 0.5}


class Look(NamedTuple):
    """Everything that a memory shows, and the errors found in it."""

    core: tuple[CoreEntry, ...]
    events: tuple[Event, ...]
    records: tuple[Record, ...]
    found: dict[str, Recollection]
    wrong: tuple[str, ...]

    @property
    def shown(self) -> tuple[Any, ...]:
        return self.core, self.events, self.records

    @property
    def ids(self) -> set[str]:
        """Return the ids that a search can find; of records with equal texts it finds one."""
        found = {each.content for each in self.records if each.id in self.found}
        records = [each for each in self.records if each.id in self.found or each.content not in found]
        return {each.id for each in (*self.events, *records)}


class Diary(Real):
    """All layers of `memory.layers(config)`.

    Args:
        url: The database.
        word: Stands in every text, so that a search finds all of them.
        retention: How many checkpoints are kept.
    """

    def __init__(self, url: str, word: str, retention: Retention | None = None) -> None:
        self.word, self.retention = word, retention
        super().__init__(url)

    def opened(self) -> AgentMemory:
        return AgentMemory(self.url, retention=self.retention)

    def layers(self, config: RunnableConfig) -> LayeredMemory:
        return self.memory.layers(config, settings=SMALL)

    def adding(self, config: RunnableConfig, name: str, a: str) -> Any:
        part, method, *arguments = self.wish(self.layers(config), name)
        return getattr(part, f"{a}{method}")(*arguments)

    def wish(self, layers: LayeredMemory, name: str) -> Any:  # noqa: C901, PLR0911 - one for each thing that can be done
        """Return the operation for a name: the same each time."""
        rng = Random(zlib.crc32(f"{self.word} {name}".encode()))
        text, key = f"{self.word} {name}", rng.choice("abcde")
        ids = [each.id for each in layers.archival.all()] or ["none"]
        end: Any = rng.choice(ENDS)
        if end is not None and rng.random() < 0.3:
            end = datetime.now(UTC) + timedelta(seconds=1 + end)
        match rng.choices(list(OPERATIONS), list(OPERATIONS.values()))[0]:
            case "set":
                return layers.core, "set", key, text, rng.randrange(1, 6), end
            case "unset":
                return layers.core, "delete", key
            case "write":
                return layers.archival, "write", text, [key]
            case "change":
                return layers.archival, "update", rng.choice(ids), f"{text} changed"
            case "tag":
                return layers.archival, "update", rng.choice(ids), None, [key, "tagged"]
            case "delete":
                return layers.archival, "delete", rng.choice(ids)
            case "evict":
                return layers.recall, "evict", None, rng.choice(("note", "plan")), rng.choice((1, None))
            case "summarize":
                return layers.recall, "summarize", None, 1
            case "consolidate":
                return layers, "consolidate", rng.choice(("medium", "high", "critical"))
        return layers.recall, "append", rng.choice(("note", "plan")), text

    def remembered(self, config: RunnableConfig) -> Any:
        layers = self.layers(config)
        look = layers.core.entries(), layers.recall.recent(limit=None), layers.archival.all()
        return self.looked_at(config, layers, *look)

    async def aremembered(self, config: RunnableConfig) -> Any:
        layers = self.layers(config)
        look = await layers.core.aentries(), await layers.recall.arecent(limit=None), await layers.archival.aall()
        return self.looked_at(config, layers, *look)

    def looked_at(self, config: Any, layers: LayeredMemory, core: Any, events: Any, records: Any) -> Look:
        hits = self.memory.search(self.word, config=config, kinds=KINDS, limit=MANY)
        archival = layers.archival.search(self.word, limit=MANY)
        wrong = [
            *differing("core.get()", layers.core.get(), {each.key: each.value for each in core}),
            *differing("recall.recent(3)", layers.recall.recent(limit=3), events[-3:]),
            *differing("archival.all(2)", layers.archival.all(limit=2), records[-2:]),
            *differing("a search of recall", ids_of(layers.recall.search(self.word, limit=MANY)), ids_of(events)),
            *differing("a search of archival", texts_of(archival), texts_of(records)),
        ]
        found = {each.id: each for each in hits}
        if len({(each.id, each.text, getattr(each.value, "tags", ())) for each in hits}) < len(hits):
            wrong.append("memory.search finds something twice")  # of what another thread changed there are two versions
        return Look(tuple(core), tuple(events), tuple(records), found, tuple(wrong))


def without_tasks(part: Any) -> Any:
    """Return a script without calls of `@task`s, whose memory their caller may or may not see."""
    match part:
        case ["task" | "tasks", *_]:
            return ["remember", 2, ""]
        case "function":
            return "graph 2"
        case dict():
            return {name: without_tasks(each) for name, each in part.items()}
        case list():
            return [without_tasks(each) for each in part]
    return part


def differing(what: str, got: Any, expected: Any) -> Iterable[str]:
    return [] if got == expected else [f"{what} gives {got}, not {expected}"]


def ids_of(things: Iterable[Any]) -> list[str]:
    return sorted(each.id for each in things)


def texts_of(records: Iterable[Record]) -> set[str]:
    """Return the texts of records as a set, since summaries of one second may be equal."""
    return {each.content for each in records}


class Witness(World):
    """A world that checks that a checkpoint always shows the same memory, and what its node saw."""

    adapter: Diary

    def __init__(self, adapter: Diary, label: str) -> None:
        self.seen: dict[tuple[str, str], tuple[Any, ...]] = {}
        self.named: set[str] = set()
        super().__init__(adapter, label)
        shared = adapter.memory.layers(f"shared {label}", settings=SMALL)
        self.named = {shared.recall.append("note", f"{adapter.word} for all"), shared.archival.write(adapter.word)}
        shared.fork(f"fork {label}").recall.append("note", f"{adapter.word} there")
        self.named.add(adapter.memory.layers(f"fork {label}").recall.recent()[-1].id)

    def looked(self, config: Any, moment: str, expected: Sequence[str], got: Any) -> None:
        configurable = config["configurable"]
        steps = configurable["checkpoint_map"]
        if not self.counts(config):
            return
        wrong = [*got.wrong, *differing("a search", set(got.found), got.ids)]
        if moment == "at the start":
            [*_, (space, checkpoint)] = steps.items()
            wrong += self.same(space, checkpoint, got.shown)
        self.tell(f"{configurable['checkpoint_ns']} {moment}", wrong)

    def same(self, space: str, checkpoint: str, shown: tuple[Any, ...]) -> Iterable[str]:
        """Compare what a checkpoint shows with what it showed when it was first looked at.

        A called graph may go on from where a caller stood that has been executed again since.
        """
        with self.lock:
            self.checks += 1
            before = self.seen.setdefault((space, checkpoint), shown)
            return [] if space and self.failed_calls else differing("it", shown, before)

    def tell(self, where: str, wrong: Iterable[str]) -> None:
        with self.lock:
            self.differences += [f"{self.where}: {where}\n    {each}" for each in wrong]

    def check(self, threads: Iterable[str], most: int | None = None) -> None:
        for thread in threads:
            for each in self.adapter.saver.list({"configurable": {"thread_id": thread}}, limit=most):
                at = address(each)
                got = self.adapter.remembered({"configurable": at})
                wrong = [*got.wrong, *differing("memory.search", set(got.found), got.ids)]
                self.tell(str(at), [*wrong, *self.same(at["checkpoint_ns"], at["checkpoint_id"], got.shown)])
