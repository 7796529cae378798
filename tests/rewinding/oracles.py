"""All oracles of rewinding by name: the writer of their scripts and the world that runs them.

    outcomes = follow_all("one after the other", range(20), url)

Memory is what state says, at every checkpoint and in every node: of layers, of the store and the session of a thread,
where runs are deleted between others, and where several do something at the same time. A past view is what a node saw
when it started its checkpoint, with everything that a memory allows (`diary.py`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any

import pytest

from langchain_agentmem import Post, Round
from langchain_agentmem.base.concurrency import run_in_worker
from langchain_agentmem.conversations.log_entries import make_post_entry, make_round_entry
from langchain_agentmem.messages.role_rounds import Retention

from .adapters import Real
from .diary import Diary, Witness, without_tasks
from .oracle import World, followed, report
from .scopes import CoreScope, PastScope, Scope, Shared, SharedCore
from .worlds import ACTIONS, Writer, crowded_script, kept_script, random_script, wide_script

NS = ("notes",)


class Items(Real):
    """`memory.thread_store`."""

    def adding(self, config, name, a):
        return getattr(self.memory.thread_store.at(config), f"{a}put")(NS, name, {"text": name})

    def looking(self, config, a):
        return getattr(self.memory.thread_store.at(config), f"{a}search")(NS, limit=10_000)

    def names(self, found):
        return [item.key for item in sorted(found, key=lambda item: item.created_at)]


class Rounds(Real):
    """`memory.session(config)`: a round for each thing, and a post in it."""

    def adding(self, config, name, a):
        """Both at once: a task that calls others sees what they have written so far."""
        session, begun, now = self.memory.session(config), Round.create(name), self.memory.database.now()
        entries = [make_round_entry(begun, now), make_post_entry(Post.create(name, "a", "b"), begun.id, now)]
        add = partial(session._run, "add", session._append_operation(entries), write=True)
        return run_in_worker(add, writes=True) if a else add()

    def looking(self, config, a):
        return getattr(self.memory.session(config), f"{a}to_conversation")()

    def names(self, found):
        rounds = found.rounds
        assert [[post.message for post in each.post_list] for each in rounds] == [[each.user_query] for each in rounds]
        return [each.user_query for each in rounds]


class RunsWriter(Writer):
    """Writer of scripts whose steps stop often, are resumed, and lose runs in between."""

    actions = ACTIONS | {"resume": 6, "go": 4, "delete_runs": 4, "stop": 0.2}

    def write(self) -> dict[str, Any]:
        """Return a script in which a step stops, is finished by a run that is deleted, and goes on once more."""
        script = super().write()
        for _ in range(self.rng.choice((1, 2))):
            stop = self.rng.choice((["ask"], ["ask"], ["fail", self.key()]))
            step = {"kind": "two", "look": "always", "ops": [["remember", 1, ""], *self.operations(1, False)]}
            begun = self.action("invoke") | {"plan": [{**step, "right": [["remember", 1, ""], stop]}, *self.plan()]}
            some = [
                begun,
                *(self.action(do) for do in self.rng.choices(("resume", "go", "delete_runs"), (4, 2, 5), k=6)),
            ]
            where = self.rng.randrange(1, len(script["actions"]) + 1)
            script["actions"][where:where] = [{**each, "thread": "graph 1"} for each in some]
        return script

    def action(self, do: str) -> dict[str, Any]:
        action = super().action(do)
        return action | {"number": self.rng.randrange(12)} if do == "delete_runs" else action


class DeletedRuns(World):
    """A world whose runs have ids, by which they are deleted."""

    def __init__(self, adapter: Any, label: str = "") -> None:
        self.begun: dict[str, list[str]] = {}
        super().__init__(adapter, label)

    def at(self, thread: str, action: dict[str, Any]) -> Any:
        names = self.begun.setdefault(thread, [])
        names.append(f"{thread} run {len(names)}")
        return {**super().at(thread, action), "metadata": {"run_id": names[-1]}}

    def delete_runs(self, thread: str, action: dict[str, Any]) -> str | None:
        """Delete one or two of the latest runs of a thread."""
        names = self.begun.get(thread, [])
        held = {each.metadata.get("run_id") for each in self.here(thread)}
        if not (there := [name for name in names if name in held][-4:]):
            return "no run to delete"
        chosen = Random(action["number"]).sample(there, 1 + (len(there) > 1 and action["number"] % 3 == 0))
        if action["number"] > 5:  # the latest, which has sealed what others left finished
            chosen = there[-1:]
        self.call(self.adapter.saver, "delete_for_runs", chosen)
        self.check(self.threads)
        return None


class MainWriter(Writer):
    """Writes scripts in which the branch "main" of the threads' namespace changes between the runs.

    Nothing runs beside something else: nobody could say in which order that was committed.
    """

    actions = ACTIONS | {"speak": 12, "stop": 0, "together": 0}

    def operation(self, depth: int, alone: bool) -> list[Any]:
        operation = super().operation(depth, alone)
        return ["remember", 1, ""] if operation[0] == "apart" else operation

    def action(self, do: str) -> dict[str, Any]:
        action = super().action(do)
        return action | {"number": self.rng.randrange(1, 5)} if do == "speak" else action


def without(script, *kinds):
    """The script without runs that go on when another has taken their place: when they commit is nobody's to say."""
    return {**script, "actions": [action for action in script["actions"] if action["do"] not in kinds]}


Write = Callable[[int], dict[str, Any]]
Make = Callable[[str, str], World]


def scope(url: str, label: str) -> World:
    return Scope(Shared(url, f"scope {label}"))


def core_scope(url: str, label: str) -> World:
    return CoreScope(SharedCore(url, f"scope {label}"))


def past_view(retention: Retention | None) -> tuple[Write, Make]:
    def make(url: str, label: str) -> World:
        return Witness(Diary(url, f"apple{label.strip()}x", retention), label)

    return lambda seed: without_tasks(random_script(10_000 + seed)), make


def in_a_scope(write: Write) -> tuple[Write, Make]:
    return lambda seed: without(write(seed), "zombie"), scope


def under_one_key(write: Write) -> tuple[Write, Make]:
    return lambda seed: without(without_tasks(write(seed)), "zombie", "copies"), core_scope


def plain(url: str, label: str) -> World:
    return World(Real(url), label)


ORACLES: dict[str, tuple[Write, Make]] = {
    "one after the other": (random_script, plain),
    "subgraphs that stay": (kept_script, plain),
    "whoever goes on when its run is over": (wide_script, plain),
    "two run a thread at once": (crowded_script, plain),
    "runs are deleted": (lambda seed: RunsWriter(seed).write(), lambda url, label: DeletedRuns(Real(url), label)),
    "items": (random_script, lambda url, label: World(Items(url), label)),
    "rounds": (random_script, lambda url, label: World(Rounds(url), label)),
    "past views": past_view(None),
    "past views of few checkpoints": past_view(Retention(keep_last=5)),
    "past views while main changes": (
        lambda seed: without_tasks(MainWriter(seed).write()),
        lambda url, label: PastScope(SharedCore(url, f"scope {label}")),
    ),
    "heads of a scope": in_a_scope(random_script),
    "heads of a scope, wide": in_a_scope(wide_script),
    "heads of a scope that keeps state": in_a_scope(kept_script),
    "the newest commit under a key": under_one_key(random_script),
    "the newest commit under a key, wide": under_one_key(wide_script),
    "the newest commit under a key with kept state": under_one_key(kept_script),
}


def follow_all(name: str, seeds: Iterable[int], url: str) -> Counter[str]:
    """Run the scripts of some seeds of an oracle."""
    return follow(*ORACLES[name], seeds, url)


def follow(write: Write, world: Make, seeds: Iterable[int], url: str) -> Counter[str]:
    """Follow the scripts of some seeds, on one database, each with threads of its own.

    Returns:
        How often each action was performed, and each exception raised.
    """
    numbers, outcomes, checks, excused = itertools.count(), Counter[str](), 0, 0

    def make() -> World:
        return world(url, f"{next(numbers)} ")

    for seed in seeds:
        found = followed(script := write(seed), make)
        if found.differences:
            pytest.fail(report(seed, script, found), pytrace=False)
        outcomes, checks = outcomes + found.outcomes, checks + found.checks
        excused += 0 if isinstance(found, Scope) else found.excused
    assert checks > 0
    assert excused <= 0.1 * checks
    return outcomes
