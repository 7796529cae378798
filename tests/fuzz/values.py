"""Arguments for calls: mostly ordinary ones, and hostile ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp

from langchain_agentmem import Message

NAMES = ["c", "a", "b", "main", "main", "User", "Planner", "lives in", "Ana", "Lisbon", "k", "t", "note", "x" * 40]
TEXTS = ["hello", "Ana lives in Lisbon.", "We need to fix the build.", "", "The herons came back on Monday. " * 20, "*"]


class OfCodeGivenError(Exception):
    """Raised by what was given to be called or read: it is the caller's own, and comes through."""


class Hostile:
    """Refuses whatever it is asked."""

    def _refuse_to_be_looked_at(self, *_: object) -> Any:
        raise ZeroDivisionError("hostile")

    def _refuse_to_be_used(self, *_: object, **__: object) -> Any:
        raise OfCodeGivenError

    __repr__ = __str__ = __eq__ = __hash__ = __bool__ = __format__ = _refuse_to_be_looked_at
    __len__ = __iter__ = __getitem__ = __contains__ = __fspath__ = __lt__ = __call__ = _refuse_to_be_used
    __int__ = __float__ = __index__ = _refuse_to_be_used


class Odd:
    """Equal to everything, and of no use."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class HostileText(str):
    """A text that cannot be shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        raise ZeroDivisionError("hostile")


class HostileDict(dict[str, Any]):
    """A mapping that cannot be read."""

    def __iter__(self) -> Any:
        raise OfCodeGivenError

    items = keys = values = __iter__


def deep(kind: type) -> Any:
    value: Any = "bottom"
    for _ in range(3000):
        value = [value] if kind is list else {"x": value}
    return value


def endless() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def _endless_dict() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


HOSTILE: list[Callable[[], Any]] = [
    lambda: "\0", lambda: "a\0b", lambda: "\ud800", lambda: "x\udfffy", lambda: "\u202e\ufeff", lambda: "é" * 300_000,
    lambda: "x" * 5000, lambda: "../up", lambda: ".", lambda: "a/b/c", lambda: "%s %d {} {0}",
    lambda: "'; drop table entry; --", lambda: "\n", lambda: " ", lambda: "\x1b[31m", lambda: "file:x?mode=memory",
    lambda: "http://[::1", lambda: b"bytes", lambda: b"", lambda: bytearray(b"x"), lambda: None, lambda: True,
    lambda: False, lambda: ..., lambda: NotImplemented, lambda: 0, lambda: -1, lambda: 1, lambda: 2**31,
    lambda: 2**63, lambda: -(2**63) - 1, lambda: 10**400, lambda: 1.5, lambda: math.nan, lambda: math.inf,
    lambda: -math.inf, lambda: 1e308, lambda: 5e-324, lambda: 1j, lambda: deep(list), lambda: deep(dict), endless,
    _endless_dict, Hostile, lambda: HostileText("hostile"), HostileDict, list, dict, lambda: (), set, lambda: [None],
    lambda: [[]], lambda: {None: None}, lambda: {1: 2}, lambda: {"a": Hostile()}, lambda: ["a", 1, None],
    lambda: iter(["a"]), lambda: (each for each in "ab"), object, lambda: Exception, lambda: len,
    lambda: ValueError("x"), lambda: datetime.min,
    lambda: datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))), lambda: datetime(2026, 1, 1),
    lambda: timedelta(days=1), Path, lambda: Path("a"), lambda: Path("\0"), lambda: Path("p" * 5000),
    lambda: HumanMessage("\0\ud800"), lambda: AIMessage("", tool_calls=[{"name": "", "args": {}, "id": None}]),
    lambda: range(10**4), lambda: Decimal("NaN"), lambda: RemoveMessage(id="m"), Odd,
    lambda: {"\ud800": "\ud800", "\0": "\0"}, lambda: {"a": [math.nan, 2**70, b"x"]}, lambda: "word " * 40_000,
    lambda: timedelta.max, lambda: datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    lambda: Message(role="user", content={"\ud800": [b"x", 2**70]}),
]  # fmt: skip
"""Functions, as each value may be changed by whoever is given it."""

PATHS = {"path", "target", "directory", "output_dir", "resource_file", "prompt_log_path", "conn_string", "source"}
SEVERAL = {"ids", "keys", "thread_ids", "run_ids", "tags", "roles", "channels", "kinds", "images", "predicates"}


class Values:
    """Makes arguments.

    Args:
        random: Decides.
        folder: Where paths are.
    """

    def __init__(self, random: Random, folder: Path) -> None:
        self._random = random
        self._folder = folder
        self.ids: list[Any] = ["c", "main"]
        self.parts: list[Any] = []
        self.wrong: dict[str, Any] = {}

    def argument(self, name: str, annotation: str) -> Any:
        """A value for an argument of a name and a type."""
        if self.wrong:
            return self.wrong[name]() if name in self.wrong else self._ordinary(name, annotation)
        dice = self._random.random()
        if dice < 0.22:
            return self._random.choice(HOSTILE)()
        if dice < 0.24 and self.parts:
            return self._random.choice(self.parts)
        return self._ordinary(name, annotation)

    def learn(self, value: Any) -> None:
        """Remember what a call gave, to be given to others."""
        found = [value]
        if isinstance(value, list | tuple):
            found = list(value)[:3]
        for each in found:
            for one in (each, getattr(each, "id", None), getattr(each, "key", None), getattr(each, "message_id", None)):
                if isinstance(one, str) and 0 < len(one) < 200:
                    self.ids.append(one)
        del self.ids[2:-40]

    def config(self) -> dict[str, Any]:
        """The config of a thread, perhaps of a checkpoint."""
        configurable: dict[str, Any] = {"thread_id": self._pick(["t", "u", *self.ids[-3:]]), "checkpoint_ns": ""}
        if self._random.random() < 0.3:
            configurable["checkpoint_id"] = f"1f000000-0000-6000-8000-{self._random.randrange(20):012}"
        if self._random.random() < 0.2:
            configurable[self._pick(["checkpoint_ns", "checkpoint_id", "agentmem_namespace", "thread_id"])] = (
                self._random.choice(HOSTILE)()
            )
        return {"configurable": configurable}

    def checkpoint(self) -> dict[str, Any]:
        """A checkpoint."""
        number = self._random.randrange(20)
        return {
            "v": 1,
            "id": f"1f000000-0000-6000-8000-{number:012}",
            "ts": "2026-01-01T00:00:00+00:00",
            "channel_values": {
                "messages": self._messages(),
                "n": self._pick([1, "x", *(each() for each in HOSTILE[:9])]),
            },
            "channel_versions": {"messages": number, "n": number},
            "versions_seen": {},
        }

    def _pick(self, values: list[Any]) -> Any:
        return self._random.choice(values)

    def _messages(self) -> list[Any]:
        call = {"name": "look", "args": {"q": "x"}, "id": f"call-{self._random.randrange(3)}"}
        result = ToolMessage("found", tool_call_id=str(call["id"]))
        told = HumanMessage("Ana lives in Lisbon.", id=self._pick(self.ids))
        some = [HumanMessage("hello"), AIMessage("", tool_calls=[call]), result, SystemMessage("Be kind."), told]
        return [self._pick([*some, AIMessage("hi")]) for _ in range(self._random.randrange(6))]

    def _when(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=self._random.randrange(-500, 500))

    def _ordinary(self, name: str, annotation: str) -> Any:  # noqa: C901, PLR0911, PLR0912 - one answer for each kind
        pick, random = self._pick, self._random
        if (name == "config" and "Runnable" in annotation) or name == "branch_or_config":
            return pick([self.config(), self.config(), "main", None])
        if name in PATHS or (name.endswith("path") and "PathLike" in annotation):
            return self._folder / pick(["one", "two", "three.json", "four.yaml", "five.db", "deep/er", "one"])
        if (name in {"namespace", "prefix", "suffix"} and "Sequence" in annotation) or name == "namespace_prefix":
            return pick([(), ("a",), ("a", "b"), None])
        if name == "checkpoint":
            return self.checkpoint()
        if name == "metadata":
            return {"source": "loop", "step": random.randrange(5)}
        if name == "new_versions":
            return {"messages": random.randrange(20), "n": 1}
        if name == "writes":
            return [("messages", self._messages()), ("n", 1)]
        if name == "ops":
            put = PutOp(("a",), "k", {"n": 1, "text": pick(TEXTS)})
            some = [put, GetOp(("a",), "k"), SearchOp(("a",), query="n"), ListNamespacesOp()]
            return [pick(some) for _ in range(random.randrange(4))]
        if name == "key_value_pairs":
            return [("k", b"v"), (pick(self.ids), b"")]
        if name in {"input", "messages"}:
            return pick([self._messages(), {"messages": self._messages()}, "hello"])
        if name == "message":
            return pick([HumanMessage("hello"), {"role": "user", "content": "hi"}, AIMessage("so"), "hello"])
        if name == "model":
            return pick([None, lambda messages: "A summary.", lambda messages: '{"facts": []}'])
        if (name == "value" and "Any" in annotation) or (name == "value" and "dict" in annotation):
            return {"text": pick(TEXTS), "n": random.randrange(5)}
        if name == "ttl":  # what ends while an export is compared would be a difference
            return pick([None, 86_400])
        if "datetime" in annotation:
            return self._when()
        if "bool" in annotation:
            return random.random() < 0.5
        if ("int" in annotation and "str" not in annotation) or ("float" in annotation and "str" not in annotation):
            return pick([0, 1, 2, 3, 5, 10, -1])
        if "Mapping" in annotation or "dict" in annotation:
            return {pick(NAMES): pick(TEXTS)}
        if name in SEVERAL:
            return [pick([*NAMES, *self.ids[-5:]]) for _ in range(random.randrange(3))]
        if name.endswith("id") or name in {"key", "idx"}:
            return pick([*self.ids, "c", "t"])
        if name in {"text", "content", "query", "prompt", "reply", "summary", "user_query", "note", "task_hint"}:
            return pick(TEXTS)
        return pick([*NAMES, *TEXTS[:3]])
