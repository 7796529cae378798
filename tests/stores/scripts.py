"""Random scripts for LangGraph, as plain data.

A script is a list of actions on two threads: invoke, resume, update, fork, look, open the database again. What the
nodes do stands in the input of an action, as a plan: a list of steps with lists of operations, such as
`["edit", "messages", 3, 17]`. Values are recipes, a kind and a number, so that every execution makes objects of its
own, and a script can be printed, shortened and run again. `scripted_graph.py` holds the graph that follows a plan.
"""

from __future__ import annotations

import copy
import pprint
import re
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage

# Values.

WORDS = ["alpha", "beta", "gamma", "delta", "épsilon", "ζ", "数", "tool", "call", "the", "of", "and", "to"]
ODD = [
    "", "\0", "a\0b", "\ud800", "é", "e\u0301", "😀\u200d👩", "\r\n\u2028", "null", "__remove_all__", "'\"\\", "\ufeff",
]  # fmt: skip


@dataclass
class Thing:
    """Of a class that no saver is told to trust, until a script says so."""

    size: int


def text(rng: Random, length: int) -> str:
    return " ".join(rng.choices(WORDS, k=max(1, length // 5)))[:length]


def little(rng: Random) -> Any:
    return value(rng.choice(("int", "same", "float", "none", "text", "text", "odd")), rng.getrandbits(16))


VALUES: dict[str, Callable[[Random], Any]] = {
    "int": lambda rng: rng.choice([0, -1, 7, 2**31, 2**63 - 1, -(2**63), 2**64 - 1]),
    "same": lambda rng: rng.choice([1, True, 1.0, 0, False, 0.0, -0.0, "1", b"1", [1], [True], {"a": 1}, {"a": 1.0}]),
    "float": lambda rng: rng.choice([0.1, float("nan"), float("inf"), float("-inf"), 5e-324, 1e300]),
    "none": lambda rng: None,
    "text": lambda rng: text(rng, rng.randrange(40)),
    "long": lambda rng: text(rng, rng.randrange(900, 5000)),
    "odd": lambda rng: rng.choice(ODD),
    "bytes": lambda rng: rng.randbytes(rng.choice((0, 3, 2000))),
    "bytearray": lambda rng: bytearray(rng.randbytes(rng.choice((0, 3, 2000)))),
    "time": lambda rng: rng.choice(
        [datetime(2026, 1, 2, 3, 4, 5, 6, UTC), datetime(2026, 1, 2), date(2026, 1, 2), timedelta(1, 2, 3)]
    ),
    "set": lambda rng: rng.choice([set, frozenset, deque])(rng.sample(WORDS, rng.randrange(5))),
    "tuple": lambda rng: (1, (little(rng), "x"), [little(rng)], ()),
    "empty": lambda rng: rng.choice([[], {}, (), "", set(), b"", [[]], {"": {}}]),
    "dict": lambda rng: {key: little(rng) for key in rng.sample(WORDS, 3)} | {"deep": {"list": [little(rng)]}},
    "big dict": lambda rng: {f"key {n}": little(rng) for n in range(rng.randrange(40, 120))},
    "odd keys": lambda rng: {1: "a", None: little(rng), 1.5: "c", "1": "d", "\0": "e"},
    "list": lambda rng: [little(rng) for _ in range(rng.randrange(6))],
    "big list": lambda rng: [little(rng) for _ in range(rng.randrange(60, 250))],
    "other": lambda rng: rng.choice([Decimal("1.50"), uuid.UUID(int=5), Path("/a/b"), re.compile("a+", re.MULTILINE)]),
    "message": lambda rng: message(None, rng.getrandbits(16)),
    "messages": lambda rng: [
        message(rng.choice((None, f"m{n}")), rng.getrandbits(16)) for n in range(rng.randrange(9))
    ],
    "removal": lambda rng: RemoveMessage(id="m1"),
    "document": lambda rng: Document(id="d", page_content=text(rng, 30), metadata={"a": [little(rng)]}),
    "thing": lambda rng: Thing(rng.randrange(9)),
}


KINDS = [*VALUES, "same", "same", "same"]


def value(kind: str, number: int) -> Any:
    return VALUES[kind](Random(f"{kind} {number}"))


def message(message_id: str | None, number: int) -> Any:
    """A message of any type. Ids are few, so that one id has many contents."""
    rng = Random(number)
    more: dict[str, Any] = {"id": message_id}
    if rng.random() < 0.3:
        more["name"] = rng.choice(WORDS)
    if rng.random() < 0.5:
        odd = {"odd": value(rng.choice(("odd keys", "set", "time", "bytes", "tuple", "other", "thing")), number)}
        more["additional_kwargs"] = rng.choice([{"deep": {"a": {"b": (1, 2)}}}, value("dict", number), odd])
    if rng.random() < 0.4:
        more["response_metadata"] = {"model": "m", "logprobs": None, "tags": ["a", little(rng)]}
    content: Any = rng.choice([text(rng, 20), text(rng, 200), text(rng, 3000), rng.choice(ODD)])
    if rng.random() < 0.2:
        url = "data:image/png;base64," + "iVBORw0KGgo" * rng.randrange(200)
        content = [{"type": "text", "text": content}, "bare", {"type": "image_url", "image_url": {"url": url}}]
    match rng.randrange(6):
        case 0 | 1:
            return HumanMessage(content, **more)
        case 2:
            return SystemMessage(content, **more)
        case 3:
            return ChatMessage(content, role="critic", **more)
        case 4:
            artifact, status = rng.choice([None, {"rows": [1, 2]}, (1, 2), b"raw"]), rng.choice(["success", "error"])
            return ToolMessage(content, tool_call_id="call-1", artifact=artifact, status=status, **more)
    if rng.random() < 0.6:
        more["tool_calls"] = [{"name": "f", "args": {"x": little(rng), "y": [1]}, "id": f"call-{n}"} for n in range(2)]
        more["usage_metadata"] = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
        more["invalid_tool_calls"] = [{"name": "g", "args": "{", "id": "call-9", "error": "cut"}]
    return AIMessage(content, **more)


def messages(number: int, count: int) -> list[Any]:
    """So many messages, of which some have one of a few ids and others an id of their own."""
    numbers = range(number, number + count)
    return [
        message(rng.choice([f"n{n}", f"n{n}", f"m{rng.randrange(9)}"]), n)
        for n in numbers
        for rng in [Random(f"id {n}")]
    ]


# Scripts.


OPERATIONS = {"add": 6, "both": 1, "edit": 3, "remove": 2, "clear": 0.4, "overwrite": 1, "note": 3, "put": 1, "row": 3}
OPERATIONS |= {"drop": 1, "box": 3, "retype": 1, "share": 1, "touch": 3, "fail": 0.6, "ask": 0.8, "call": 0.7}
STEPS = {"work": 6, "two": 2, "send": 1.5, "boss": 1, "sub": 1, "kept": 1}
ACTIONS = {"invoke": 6, "go": 1.5, "resume": 3, "goto": 0.4, "stop": 0.5, "update": 2, "bulk": 0.6, "copy": 0.8}
ACTIONS |= {"end": 0.3, "inside": 0.6, "forget": 0.15, "duplicate": 0.4, "look": 1.5, "list": 1, "history": 0.7}
ACTIONS |= {"open again": 0.7, "other saver": 0.8, "allow": 0.2}
RUNS = ("invoke", "stop", "go", "goto", "resume")
IN_PARALLEL = {"box": 0.4, "share": 0.1, "retype": 0.3}  # two values in one step are an error for most of these
OPTIONS = {"interrupt_before": ["work"], "interrupt_after": ["work", "left"], "recursion_limit": 3}
OPTIONS |= {"metadata": {"lot": 7, "by": "a\0b"}, "run_id": str(uuid.UUID(int=7))}
FRESH = ["list", "dict", "set", "big list", "big dict", "messages"]
"""Kinds that can be changed in place."""


class Writer:
    """Writes the script of a seed. `large` scripts have long lists, wide tables and many messages."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.large = self.rng.random() < 0.2

    def one_of(self, weights: dict[str, float]) -> str:
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def number(self) -> int:
        return self.rng.getrandbits(16)

    def count(self) -> int:
        return self.rng.choice((1, 1, 2, 3, 40, 80) if self.large else (1, 1, 2, 3))

    def operation(self, weights: dict[str, float]) -> list[Any]:
        rng, number, name = self.rng, self.number(), self.one_of(OPERATIONS | weights)
        channel, kind = rng.choice(("messages", "messages", "log")), rng.choice(KINDS)
        if name == "call":
            return [name, self.operations({"call": 0}), self.operations({"call": 0})]
        rest: dict[str, Callable[[], list[Any]]] = {
            "add": lambda: [channel, number, self.count()],
            "edit": lambda: [channel, rng.randrange(-3, 9), number],
            "remove": lambda: [channel, [rng.randrange(-9, 9) for _ in range(rng.choice((1, 1, 2, 5)))]],
            "clear": lambda: [number, rng.randrange(3)],
            "overwrite": lambda: [
                rng.choice(("messages", "log", "notes", "notes", "table")),
                *rng.choice([(0, None, 2), (1, None, 1), (0, -1, 1), (None, None, -1), (0, 0, 1)]),
            ],
            "put": lambda: [rng.randrange(-3, 9), kind, number],
            "note": lambda: [kind, number, 1 if kind.startswith("big") else self.count()],
            "row": lambda: [kind, number, 1 if kind.startswith("big") else self.count()],
            "drop": lambda: [number, self.count()],
            "box": lambda: [rng.choice(("box", "box", "twin")), kind, number],
            "retype": lambda: [rng.choice(("notes", "table", "box", "box"))],
            "share": lambda: [rng.choice(("messages", "notes", "table", "box")), number],
            "touch": lambda: [
                rng.choice(("messages", "messages", "log", "notes", "table", "box", "twin")),
                rng.randrange(-3, 9),
                number,
                rng.random() < 0.6,
            ],
        }
        return [name, *rest.get(name, lambda: [number])()]

    def operations(self, weights: dict[str, float]) -> list[Any]:
        return [self.operation(weights) for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3)))]

    def changes(self) -> list[Any]:
        """Operations that need no node to run in."""
        return [self.operation({"fail": 0, "ask": 0, "call": 0}) for _ in range(self.rng.randrange(1, 4))]

    def step(self, weights: dict[str, float]) -> dict[str, Any]:
        kind = self.one_of(STEPS | weights)
        weights = IN_PARALLEL if kind in ("two", "send", "boss") else {}
        step: dict[str, Any] = {"kind": kind, "ops": self.operations(weights)}
        if kind in ("two", "sub", "kept"):
            step["right"] = self.operations(weights)
        if kind in ("send", "boss"):
            step["pieces"] = [self.operations(weights) for _ in range(self.rng.randrange(1, 4))]
        return step

    def story(self) -> list[dict[str, Any]]:
        """Steps that do to one thing what a cache could miss."""
        rng, index = self.rng, self.rng.randrange(9)
        channel = rng.choice(("messages", "messages", "log", "notes", "table", "box", "box", "twin"))
        first = {
            "table": ["row", rng.choice(FRESH), self.number(), 2],
            "notes": ["note", rng.choice([*FRESH, "same"]), self.number(), 3],
        }.get(channel, ["box", channel, rng.choice([*FRESH, "same", "same"]), self.number()])
        if channel in ("messages", "log"):
            first = ["add", channel, self.number(), 3]
        then = [["touch", channel, index, self.number(), True], ["touch", channel, index, self.number(), False]]
        then += [["retype", channel], ["retype", channel]] if channel in ("notes", "table", "box") else []
        then += [["put", index, "text", self.number()]] if channel == "notes" else []
        return [{"kind": "work", "ops": [each]} for each in (first, *rng.sample(then, 2))]

    def plan(self, weights: dict[str, float]) -> list[dict[str, Any]]:
        steps = [self.step(weights) for _ in range(self.rng.choice((1, 2, 2, 3, 4)))]
        return steps[:1] + self.story() + steps[1:2] if self.rng.random() < 0.4 else steps

    def action(self, do: str) -> dict[str, Any]:
        rng = self.rng
        action: dict[str, Any] = {"do": do, "thread": int(rng.random() < 0.25), "awaited": rng.random() < 0.5}
        if rng.random() < 0.35:
            action["back"] = rng.randrange(12)  # how many checkpoints ago
        if do in RUNS:
            action["number"], action["durability"] = self.number(), rng.choice(("sync", "async", "exit"))
            action["options"] = {key: each for key, each in OPTIONS.items() if rng.random() < 0.06}
        if do in ("invoke", "stop"):  # and when it stops, which of parallel tasks have finished would be chance
            action["plan"] = self.plan({"two": 0, "send": 0, "boss": 0} if do == "stop" else {})
        if do in ("invoke", "goto", "stop", "update", "inside", "copy", "resume"):
            action["ops"] = self.changes()
        if do in ("update", "copy"):
            action["node"] = rng.choice(["work", "work", "left", "join", "sent", "sub", "__input__", None])
        if do == "bulk":
            action["steps"] = [{"ops": self.changes(), "right": self.changes()} for _ in range(rng.randrange(1, 3))]
        if do == "resume":
            action["how"] = rng.choice(("one", "one", "each", "each", "update"))
        return action

    def write(self) -> dict[str, Any]:
        actions = [{key: each for key, each in self.action("invoke").items() if key != "back"}]
        for _ in range(self.rng.randrange(5, 12)):
            actions.append(self.action(self.one_of(ACTIONS)))
            if actions[-1]["do"] == "other saver":
                actions += [{**self.action("invoke"), "thread": 0}, self.action("other saver")]
        return {"actions": actions}


def random_script(seed: int) -> dict[str, Any]:
    return Writer(seed).write()


def printed(script: dict[str, Any]) -> str:
    return "\n".join(
        f"{number}: {pprint.pformat(action, width=150, compact=True, sort_dicts=False)}"
        for number, action in enumerate(script["actions"])
    )


def shorter(part: Any, key: str = "actions") -> Iterator[Callable[[], None]]:
    """Ways to shorten a script by one thing: each changes it in place. Big things come first."""
    if isinstance(part, dict):
        for each in part:
            yield from shorter(part[each], each)
    elif isinstance(part, list) and key in ("actions", "plan", "ops", "right", "pieces", "steps"):
        for index in reversed(range(len(part))):
            if key not in ("actions", "steps") or len(part) > 1:
                yield lambda index=index: part.pop(index)
        for each in part:
            yield from shorter(each, "ops" if key == "pieces" else "")


def shortened(script: dict[str, Any], fails: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
    """The shortest script found within a time that still fails."""
    until, tried = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        attempt = copy.deepcopy(script)
        ways = list(shorter(attempt))
        if tried >= len(ways):
            break
        ways[tried]()
        if fails(attempt):
            script = attempt
        else:
            tried += 1
    return script
