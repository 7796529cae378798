"""Values and addresses as errors show them."""

from __future__ import annotations

import ast
import sys
from collections import OrderedDict, UserDict, deque, namedtuple
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_agentmem.base.safe_repr import MOST, safe_repr, without_passwords

ROOT = Path(__file__).parents[2]
SOURCES = list((ROOT / "langchain_agentmem").rglob("*.py"))

Point = namedtuple("Point", "x y")  # noqa: PYI024 - as any library has them


class Color(Enum):
    RED = 1


class Level(IntEnum):
    HIGH = 3


class Label(str):
    __slots__ = ()

    def __repr__(self) -> str:
        raise RuntimeError


class Listener:
    def asked(self) -> None:
        raise AssertionError


def hostile(answer: Any) -> object:
    """An object whose every way to be told calls what must not be called."""

    class Hostile:
        def __repr__(self) -> str:
            return answer()

        __str__ = __repr__

        def __getattribute__(self, name: str) -> Any:
            return answer()

    return Hostile()


def raising() -> str:
    raise RuntimeError("looked at")


def ending() -> str:
    sys.exit("looked at")


class TestValues:
    @pytest.mark.parametrize(
        "value",
        [
            None, True, 7, -1.5, 2j, "text", "it's", 'both " and \'', "two\nlines", b"bytes", [], (), set(), {},
            frozenset(), [1, "two", None], (1,), (1, 2), {3}, frozenset({3}), {"a": [1, {"b": ()}]}, range(3),
            UUID(int=1), date(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC), timedelta(1), Decimal("1.50"),
            PurePosixPath("a/b"), ValueError("wrong"), KeyError("k"), "\ud800",
        ],
        ids=repr,
    )  # fmt: skip
    def test_what_is_small_is_shown_as_python_writes_it(self, value):
        assert safe_repr(value) == repr(value).replace("frozenset()", "frozenset({})")

    @pytest.mark.parametrize(
        ("value", "told"),
        [
            (Color.RED, "Color.RED"),
            (Level.HIGH, "Level.HIGH"),
            (Point(1, "a"), "Point((1, 'a'))"),
            (OrderedDict(a=1), "OrderedDict({'a': 1})"),
            (Label("x"), "Label('x')"),
            (str, "<class str>"),
            (Point, "<class tests.base.test_safe_repr.Point>"),
            (safe_repr, "<function safe_repr>"),
            (Label.upper, "<method_descriptor object>"),
            (Listener().asked, "<function Listener.asked>"),
            ([].append, "<function list.append>"),
            (deque([1]), "<collections.deque object>"),
            (UserDict(a=1), "<collections.UserDict object>"),
            (HumanMessage("hello"), "<langchain_core.messages.human.HumanMessage object>"),
        ],
        ids=lambda each: each if isinstance(each, str) else "",
    )
    def test_an_object_is_told_by_its_class(self, value, told):
        assert safe_repr(value).replace(f"{__name__}.", "tests.base.test_safe_repr.") == told

    def test_a_long_text_keeps_its_beginning_and_its_end(self):
        told = safe_repr("/folder" * 200 + "/agent.db")
        assert told.startswith("'/folder/folder")
        assert told.endswith("/agent.db'")
        assert "…" in told
        assert len(told) < MOST + 5

    @pytest.mark.parametrize("most", [20, 100, 600])
    def test_no_more_is_shown_than_is_asked_for(self, most):
        values = [
            "x" * 10_000,
            ["x" * 50] * 50,
            {f"key {i}": "v" * 50 for i in range(50)},
            b"\0" * 9999,
            "\U000e0001" * 500,
        ]
        for value in values:
            assert len(safe_repr(value, most)) <= most + 4

    def test_what_is_nested_without_end_is_shown_to_a_depth(self):
        deep: Any = "x"
        for _ in range(100_000):
            deep = [deep]
        assert safe_repr(deep) == "[[[[[…]]]]]"
        wide: Any = {}
        for _ in range(5_000):
            wide = {"a": wide, "b": (wide,)}
        assert "…" in safe_repr(wide)
        while deep != "x":  # freed level by level, as Python itself would recurse
            deep = deep[0]

    def test_what_contains_itself_is_shown(self):
        items: list[Any] = []
        items.append(items)
        mapping: dict[str, Any] = {"items": items}
        mapping["self"] = mapping
        assert safe_repr(items) == "[[[[[…]]]]]"
        assert safe_repr(mapping).startswith("{'items': [[[[…]]]], 'self':")

    @pytest.mark.parametrize("answer", [raising, ending, lambda: 5], ids=["raises", "exits", "no text"])
    def test_nothing_of_a_foreign_class_is_called(self, answer):
        assert safe_repr(hostile(answer)).endswith("Hostile object>")
        assert "Hostile object>" in safe_repr([{"a": (hostile(answer),)}])

        class Zone(tzinfo):
            utcoffset = tzname = dst = __repr__ = lambda *_: answer()

        assert safe_repr(datetime(2026, 1, 1, tzinfo=Zone())) == "<datetime.datetime object>"

    def test_a_metaclass_is_not_asked_either(self):
        class Meta(type):
            __repr__ = __instancecheck__ = __subclasscheck__ = __getattribute__ = lambda *_: raising()

        class Odd(metaclass=Meta):
            pass

        assert safe_repr(Odd).endswith("Odd>")
        assert safe_repr(Odd()).endswith("Odd object>")

    def test_subclasses_of_containers_are_read_as_what_they_are(self):
        class Items(list):
            __iter__ = __len__ = __repr__ = __getitem__ = lambda *_: raising()

        class Mapping(dict):
            items = keys = __iter__ = __len__ = __repr__ = lambda *_: raising()

        assert safe_repr(Items([1, 2])) == "Items([1, 2])"
        assert safe_repr(Mapping({"a": 1})) == "Mapping({'a': 1})"

    @pytest.mark.parametrize(
        "value",
        ["x" * 10**8, b"x" * 10**8, [None] * 10**6, 1 << 10**7, dict.fromkeys(range(10**5)), 10**400],
        ids=["text", "bytes", "list", "number", "dict", "more digits"],
    )
    def test_what_is_huge_is_not_written_out_first(self, value):
        def count(frame: Any, event: str, argument: object) -> None:
            nonlocal calls
            calls += 1

        calls = 0
        sys.setprofile(count)
        try:
            told = safe_repr(value)
        finally:
            sys.setprofile(None)
        assert len(told) <= MOST + 4
        assert calls < 1_000


PASSWORDS = (
    "s3cret",
    "s3/cret",
    "s3@cret",
    "s3:cret",
    "s3#cret",
    "s3?cret",
    "s3%zzcret",
    "s3 cret",
    "s3@c/r:e#t",
    "s3&cret=",
)


def told_of(password: str, text: str) -> list[str]:
    """The pieces of a password that a text shows."""
    pieces = {"s3", "cret", "c/r", "e#t", password}
    return [piece for piece in sorted(pieces) if piece in text]


class TestPasswords:
    @pytest.mark.parametrize("password", PASSWORDS)
    @pytest.mark.parametrize(
        "address",
        [
            "postgresql://ada:{}@host/db",
            "postgresql://ada:{}@host:5432/db?sslmode=require",
            "postgres://ada:{}@[::1",
            "postgresql://:{}@host",
            "postgresql://ada@corp.example:{}@host/db",
            "postgresql:/ada:{}@host",
            "postgresql://host/db?user=ada&password={}",
            "postgresql://host:1/db?password={}&sslmode=require",
            "postgresql://host/db?sslpassword={}",
            "host=h user=ada password={} dbname=d",
            "host=h user=ada password='{}'",
            "password = {}",
            "host=h sslpassword={}",
            "cannot connect to postgresql://ada:{}@host/db: it is down",
        ],
    )
    def test_no_part_of_a_password_is_shown(self, address, password):
        text = address.format(password)
        assert told_of(password, without_passwords(text)) == []
        assert told_of(password, safe_repr(text)) == []
        assert told_of(password, safe_repr({"url": [text]})) == []
        assert told_of(password, safe_repr(text.encode())) == []
        assert told_of(password, safe_repr(ValueError(text))) == []
        assert told_of(password, safe_repr("x" * (MOST - 20) + " " + text)) == []

    @pytest.mark.parametrize("text", ["postgresql://ada:s3cret", "postgresql://ada:s3cret/db", "mysql://ada:s3/cret"])
    def test_a_password_without_a_host_is_hidden_too(self, text):
        assert told_of("s3cret", without_passwords(text)) == []

    @pytest.mark.parametrize(
        "text",
        [
            "agent.db", "/home/ada/a:b@c.db", "C:/agents/a.db", "file:agent.db?mode=ro", "file:///a:b/agent.db",
            "postgresql://host/db", "postgresql://ada@host:5432/db", "postgresql://host:5432,other:5433/db",
            "host=h port=5432 dbname=d user=ada", "max_tokens=5 and token_count=7", "see http://localhost:8000/x",
        ],
    )  # fmt: skip
    def test_what_is_no_password_stays(self, text):
        assert without_passwords(text) == text
        assert safe_repr(text) == repr(text)

    def test_the_rest_of_an_address_stays(self):
        assert without_passwords("postgresql://ada:pw@host:5432/db?sslmode=require") == (
            "postgresql://ada:***@host:5432/db?sslmode=require"
        )
        assert without_passwords("host=h password='a b' dbname=d") == "host=h password=*** dbname=d"

    def test_what_a_key_calls_a_secret_is_hidden(self):
        told = safe_repr({"password": "s3cret", "api_key": ["s3cret"], "name": "ada", "token": None, "max_tokens": 5})
        assert told == "{'password': '***', 'api_key': '***', 'name': 'ada', 'token': None, 'max_tokens': 5}"

    @given(st.text(max_size=60))
    def test_any_text_is_shown(self, text):
        assert safe_repr(text)
        assert len(without_passwords(text)) <= len(text) + 3 * text.count("=") + 3 * text.count(":")

    @pytest.mark.parametrize(
        "text", ["a=" + " " * 9_000, "a" * 9_000 + "=", "x:/" * 3_000, "x://" + ":" * 9_000, "a=" * 4_000]
    )
    def test_an_odd_text_is_read_through(self, text):
        assert len(without_passwords(text)) <= 8_000


class TestThePackage:
    def test_no_message_is_written_with_repr(self):
        """`{value!r}` of what somebody gave can fail, take for ever, or tell a password; `safe_repr` cannot."""
        found = [
            f"{path.relative_to(ROOT)}:{node.lineno}"
            for path in SOURCES
            if "!r" in (text := path.read_text("utf-8"))
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FormattedValue) and node.conversion == ord("r")
        ]
        assert found == []
