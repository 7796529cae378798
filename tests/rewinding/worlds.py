"""Random scripts of operations on LangGraph threads, as plain data.

A script is a list of actions: run, go on, answer, edit, copy, fork, prune, open the database again. What the nodes do
stands in the input of a run, as a plan: a list of steps with lists of operations, such as `["remember", 2, ""]`. A
script can be printed and run again. `graphs.py` holds the graphs that follow a plan, `oracle.py` the rest.
"""

from __future__ import annotations

import copy
import pprint
from collections.abc import Callable
from random import Random
from typing import Any

DURABILITIES = ("sync", "async", "exit")
DELAYS = (0.0, 0.0, 0.001, 0.002)
"""Seconds that a saver waits before each put."""

OPERATIONS = {"remember": 7, "look": 1, "ask": 1.2, "fail": 0.9, "flaky": 0.9}
CALLS = {"task": 0.9, "tasks": 0.5, "call": 0.9, "kept": 0.4, "off": 0.3, "apart": 0.25}
"""Operations that contain other operations."""

STEPS = {"work": 5, "two": 2.5, "send": 1.6, "sub": 1.6, "risky": 0.8}
ACTIONS = {"invoke": 6, "go": 2.5, "resume": 4, "again": 1.5, "update": 2, "bulk": 0.7, "copy": 1.1, "end": 0.4}
ACTIONS |= {"duplicate": 0.5, "prune": 0.35, "forget": 0.15, "reopen": 0.5, "stop": 0.4, "together": 0.6, "inside": 0.3}
RUNS = ("invoke", "go", "resume", "again", "stop", "together")
AGAIN = {"invoke": 2, "go": 3, "resume": 5, "again": 1.5}
"""Weights of the actions that are done twice."""
WIDE = {"invoke": 3, "go": 2, "resume": 6, "again": 1, "update": 0.7, "copy": 0.5, "reopen": 0.4, "stop": 0.3}
WIDE |= {"zombie": 3, "twice": 2, "copies": 3, "prune": 0.2}
CROWDED = {"invoke": 2, "go": 1, "resume": 2.5, "again": 0.5, "update": 0.6, "reopen": 0.3, "zombie": 0.7, "crowd": 7}
KEPT = {"invoke": 6, "go": 1.5, "resume": 5, "again": 1, "update": 1.5, "copy": 1, "inside": 2, "within": 2, "end": 0.2}
KEPT |= {"duplicate": 0.4, "prune": 0.2, "forget": 0.1, "reopen": 0.5, "stop": 0.3, "together": 0.5, "bulk": 0.3}
KEPT_STEPS = {"keeper": 5, "beside": 3, "work": 3, "sub": 1.5, "two": 0.7, "risky": 0.3}
THREADS = {"graph 1": 5, "graph 2": 2, "function": 1.5}


class Writer:
    """Writer of the random script of a seed."""

    actions, operations_here = ACTIONS, OPERATIONS

    def __init__(self, seed: int) -> None:
        self.rng, self.keys = Random(seed), 0
        self.calm = self.rng.random() < 0.15
        """True if nothing fails, interrupts or is retried."""

    def one_of(self, weights: dict[str, float]) -> str:
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def key(self) -> int:
        self.keys += 1
        return self.keys

    def operation(self, depth: int, alone: bool) -> list[Any]:
        weights = self.operations_here | ({"ask": 0, "fail": 0, "flaky": 0} if self.calm else {})
        if depth < 2:
            weights |= CALLS if alone else CALLS | {"kept": 0, "apart": 0}
        name = self.one_of(weights)
        rest: dict[str, Callable[[], list[Any]]] = {
            "remember": lambda: [self.rng.choice((1, 1, 2)), self.rng.choice(("", "", "", "first", "later"))],
            "fail": lambda: [self.key()],
            "flaky": lambda: [self.rng.choice((1, 1, 2))],
            "task": lambda: [[self.operations(depth + 1, False)]],
            "linger": lambda: [self.rng.randrange(1, 6)],
            "tasks": lambda: [[self.operations(depth + 1, False) for _ in range(2)]],
            "call": lambda: [self.plan(depth + 1, alone)],
            "kept": lambda: [self.plan(depth + 1, alone)],
            "off": lambda: [self.plan(2, False)],
            "apart": lambda: [[{"kind": "work", "look": "always", "ops": [["remember", 1, ""]]}]],
        }
        return [name, *rest.get(name, list)()]

    def operations(self, depth: int, alone: bool) -> list[Any]:
        """Operations of one task; one that may run beside others must not use what is shared with them."""
        return [self.operation(depth, alone) for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3)))]

    def step(self, depth: int, alone: bool) -> dict[str, Any]:
        kind = self.one_of(STEPS if depth < 1 else STEPS | {"sub": 0.4 if depth < 2 else 0, "send": 0.8})
        alone &= kind in ("work", "risky", "sub")
        step: dict[str, Any] = {"kind": kind, "look": self.one_of({"always": 6, "first": 1, "never": 1.5})}
        match kind:
            case "send":
                step["pieces"] = [self.operations(depth, False) for _ in range(self.rng.randrange(1, 4))]
            case "sub":
                step["plan"] = self.plan(depth + 1, alone)
            case _:
                step["ops"] = self.operations(depth, alone)
        if kind in ("two", "risky"):
            step["right"] = self.operations(depth, alone)
        if kind == "two" and not self.calm and self.rng.random() < 0.5:  # one has finished where the other stops
            step["ops"] = [["remember", 1, ""], *step["ops"]]
            step["right"] = [["remember", 1, ""], self.rng.choice((["ask"], ["fail", self.key()])), *step["right"]]
        return step

    def plan(self, depth: int = 0, alone: bool = True) -> list[dict[str, Any]]:
        return [self.step(depth, alone) for _ in range(self.rng.choice((1, 2, 2, 3) if depth == 0 else (1, 1, 2)))]

    def action(self, do: str) -> dict[str, Any]:
        rng = self.rng
        action: dict[str, Any] = {"do": do, "thread": self.one_of(THREADS), "awaited": rng.random() < 0.5}
        if rng.random() < 0.35:
            action["back"] = rng.randrange(12)  # how many checkpoints ago
        if rng.random() < 0.4:
            action["in copy"] = True  # of the thread, if there is one
        if do in RUNS:
            action["durability"], action["delay"] = rng.choice(DURABILITIES), rng.choice(DELAYS)
        if do in ("invoke", "stop", "together"):
            action["plan"] = self.plan()
            action["ops"] = self.operations(0, True)
        if do in ("resume", "again", "stop", "prune"):
            action["number"] = rng.randrange(1, 12)
        if do in ("update", "bulk", "inside"):
            action["node"] = rng.choice(("work", "work", "join", "left", None))
            action["plan"] = rng.choice((None, [self.step(1, True)]))
        return action

    def write(self) -> dict[str, Any]:
        actions = [{key: each for key, each in self.action("invoke").items() if key != "back"} | {"thread": "graph 1"}]
        for _ in range(self.rng.randrange(5, 11)):
            actions.append(self.action(self.one_of(self.actions)))
        return {"actions": actions}


class WideWriter(Writer):
    """Writes what `Writer` does, with more `@task`s under callers that fail, with zombies, and with calls made twice.

    A *zombie* is a node of an awaited run that cannot be cancelled with it, and goes on while the run is made again.
    Two *copies* of a thread, whose tasks have the same ids, run at the same time.
    """

    actions, operations_here = WIDE, OPERATIONS | {"linger": 1}

    def wanted(self) -> dict[str, Any]:
        """A call that is made twice."""
        action = self.action(self.one_of(AGAIN))
        return {name: action[name] for name in ("do", "back", "plan", "ops", "number") if name in action}

    def action(self, do: str) -> dict[str, Any]:
        action = super().action(do)
        if do not in ("zombie", "twice", "copies", "crowd"):
            return action
        action |= {"durability": self.rng.choice(DURABILITIES), "delay": self.rng.choice(DELAYS)}
        one = self.wanted()
        other = copy.deepcopy(one) if self.rng.random() < 0.6 else self.wanted()
        if do == "zombie":
            action |= {"awaited": True, "number": self.rng.randrange(2, 25)}  # milliseconds until it is cancelled
            if "plan" in one:  # what goes on is still in the first step, which is there to be taken again
                one["plan"].insert(0, {"kind": "work", "look": "always", "ops": self.lingering()})
                other = self.rng.choice((other, {"do": "go"}, {"do": "go"}))
        return action | {"runs": [one, other]}

    def step(self, depth: int, alone: bool) -> dict[str, Any]:
        if depth > 1 or self.rng.random() < 0.6:
            return super().step(depth, alone)
        step = {"kind": "work", "look": self.one_of({"always": 6, "first": 1, "never": 1.5}), "ops": self.calls(depth)}
        if self.rng.random() < 0.3:
            step |= {"kind": "two", "right": self.calls(depth)}
        return step

    def lingering(self) -> list[Any]:
        """Return operations that may remember, take their time, and remember more."""
        before = self.rng.choice(([], [["remember", 1, ""]]))
        return [*before, ["linger", self.rng.randrange(4, 25)], ["remember", self.rng.choice((1, 2)), ""]]

    def calls(self, depth: int) -> list[Any]:
        """Return operations that call `@task`s and may fail, be retried or interrupt around the calls."""
        ops: list[Any] = []
        if not self.calm and self.rng.random() < 0.4:
            ops.append(self.rng.choice((["flaky", 1], ["slip", self.key()], ["slip", self.key()])))
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            called = [self.called(depth) for _ in range(self.rng.choice((1, 1, 2)))]
            ops += [["tasks" if len(called) > 1 else "task", called], *self.trouble(0.7)]
        return ops + self.rng.choice(([], [["remember", 1, ""]], self.lingering()))

    def called(self, depth: int) -> list[Any]:
        ops = [["remember", 1, ""], *self.trouble(0.2), *self.rng.choice(([], [["remember", 1, ""]]))]
        if depth < 1 and self.rng.random() < 0.2:
            ops.append(["task", [self.called(depth + 1)]])
        return ops

    def trouble(self, probability: float) -> list[Any]:
        """Return operations that stop an execution or delay it, usually after remembering something."""
        if self.calm or self.rng.random() > probability:
            return []
        stops: list[Any] = self.rng.choice(
            (["ask"], ["ask"], ["ask"], ["flaky", 1], ["fail", self.key()], ["linger", 4])
        )
        return [*self.rng.choice(([], [["remember", 1, ""]])), stops]


class CrowdedWriter(WideWriter):
    """Writes what several do with a thread at once: each script has a *crowd*, two runs of one thread."""

    actions = CROWDED

    def write(self) -> dict[str, Any]:
        script = super().write()
        script["actions"].insert(self.rng.randrange(1, 4), self.action("crowd"))
        return script


class KeptWriter(Writer):
    """Writes what is done with subgraphs that keep their state, and with runs that share one control.

    A subgraph waits, and its thread goes on otherwise: with other input, from within, after an edit or a copy.
    """

    actions = KEPT

    def action(self, do: str) -> dict[str, Any]:
        action = super().action(do) | {"shared": self.rng.random() < 0.4}
        if do in ("update", "copy", "inside", "within") and self.rng.random() < 0.6:
            action.pop("back", None)
        if do == "within":
            action |= {"durability": self.rng.choice(DURABILITIES), "delay": self.rng.choice(DELAYS)}
            action["number"] = self.rng.randrange(4)
        if do == "inside":
            work = {"kind": "work", "look": "always", "ops": [["remember", 1, ""]]}
            action |= {"node": self.rng.choice(("__copy__", None, None)), "plan": self.rng.choice((None, [work]))}
        return action

    def step(self, depth: int, alone: bool) -> dict[str, Any]:
        if depth > 1 or not alone:
            return super().step(depth, alone)
        kind = self.one_of(KEPT_STEPS)
        if kind not in ("keeper", "beside"):
            step = super().step(depth, alone)
            if self.rng.random() < 0.2 and step["kind"] == "work":
                step["ops"].append(["apart again", [{"kind": "work", "look": "always", "ops": [["remember", 1, ""]]}]])
            return step
        step = {"kind": kind, "look": self.one_of({"always": 6, "never": 1}), "plan": self.waiting(depth + 1)}
        if kind == "beside":  # what looks beside it cannot know what it has others remember meanwhile
            step["look"] = "never"
            trouble = [["fail", self.key()]] if self.rng.random() < 0.5 and not self.calm else []
            step["right"] = [["remember", 1, ""], *trouble]
        return step

    def waiting(self, depth: int) -> list[dict[str, Any]]:
        """Return the plan of a subgraph that often remembers something and then interrupts."""
        plan = self.plan(depth)
        if not self.calm and self.rng.random() < 0.7:
            plan.append({"kind": "work", "look": "always", "ops": [["remember", 1, ""]]})
            plan.append({"kind": "work", "look": "always", "ops": [["ask"], *self.operations(depth, True)]})
        return plan


def script_of(writer: type[Writer]) -> Callable[[int], dict[str, Any]]:
    """Return a function that writes the script of a seed."""
    return lambda seed: writer(seed).write()


random_script, wide_script, crowded_script, kept_script = map(
    script_of, (Writer, WideWriter, CrowdedWriter, KeptWriter)
)


def printed(script: dict[str, Any]) -> str:
    return "\n".join(
        f"{number}: {pprint.pformat(action, width=150, compact=True, sort_dicts=False)}"
        for number, action in enumerate(script["actions"])
    )
