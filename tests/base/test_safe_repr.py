"""How errors show values and addresses."""

import ast
import sys
from collections import OrderedDict, deque, namedtuple
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import IntEnum
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.base.safe_repr import MAX_CHARS, mask_passwords
from langchain_agentmem.errors import safe_repr

ROOT = Path(__file__).parents[2]

Point = namedtuple("Point", "x y")  # noqa: PYI024 - as any library has them
Level = IntEnum("Level", "HIGH")


def fail_if_called(*_: Any) -> Any:
    sys.exit("looked at")


def hostile() -> list[tuple[object, str]]:
    """Objects of which nothing may be called, and how they are shown."""
    meta = type("Meta", (type,), dict.fromkeys(("__repr__", "__instancecheck__", "__getattribute__"), fail_if_called))
    names = ("__repr__", "__str__", "__iter__", "__len__", "__getitem__", "__getattribute__", "items", "keys")
    made = {base: meta("Own", (base,), dict.fromkeys(names, fail_if_called)) for base in (object, list, dict, str)}
    zone = type("Zone", (tzinfo,), dict.fromkeys(("utcoffset", "tzname", "dst", "__repr__"), fail_if_called))
    return [
        (made[object](), f"<{__name__}.Own object>"), (made[object], f"<class {__name__}.Own>"),
        (made[list]([1, 2]), "Own([1, 2])"), (made[dict]({"a": 1}), "Own({'a': 1})"), (made[str]("x"), "Own('x')"),
        (datetime(2026, 1, 1, tzinfo=zone()), "<datetime.datetime object>"),
        (Level.HIGH, "Level(1)"), (Point(1, "a"), "Point((1, 'a'))"), (OrderedDict(a=1), "OrderedDict({'a': 1})"),
        (str, "<class str>"), (safe_repr, "<function safe_repr>"), (deque(), "<collections.deque object>"),
    ]  # fmt: skip


class TestValues:
    def test_small_values_are_shown_as_repr(self):
        for value in (
            None, True, 7, -1.5, 2j, "text", "it's", 'both " and \'', "two\nlines", b"bytes", [], (), set(), {},
            frozenset(), [1, "two", None], (1,), (1, 2), {3}, frozenset({3}), {"a": [1, {"b": ()}]}, range(3),
            UUID(int=1), date(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC), timedelta(1), Decimal("1.50"),
            PurePosixPath("a/b"), ValueError("wrong"), KeyError("k"), "\ud800",
        ):  # fmt: skip
            assert safe_repr(value) == repr(value).replace("frozenset()", "frozenset({})")

    def test_foreign_methods_are_never_called(self):
        for value, shown in hostile():
            assert safe_repr(value) == shown
            assert shown in safe_repr([{"a": (value,)}])

    def test_output_length_is_limited(self):
        keys = {f"key {i}": "v" * 50 for i in range(50)}
        for most, value in product((20, 100, 600), ("x" * 9999, ["x" * 50] * 50, keys, b"\0" * 9999, "\x7f" * 500)):
            assert len(safe_repr(value, most)) <= most + 4
        path = safe_repr("/folder" * 200 + "/agent.db")
        assert path.startswith("'/folder/folder")
        assert path.endswith("/agent.db'")

    def test_cyclic_and_deep_values_are_truncated(self):
        items: list[Any] = []
        items.append(items)
        assert safe_repr(items) == "[[[[[…]]]]]"

    def test_huge_values_are_not_rendered_first(self):
        for value in ("x" * 10**8, b"x" * 10**8, [None] * 10**6, 1 << 10**7, dict.fromkeys(range(10**5)), 10**400):
            calls = []
            sys.setprofile(lambda *call, calls=calls: calls.append(call[1]))
            try:
                shown = safe_repr(value)
            finally:
                sys.setprofile(None)
            assert len(shown) <= MAX_CHARS + 4
            assert len(calls) < 1_000


PASSWORDS = (
    "s3cret", "s3/cret", "s3@cret", "s3:cret", "s3#cret", "s3?cret", "s3%zzcret", "s3 cret", "s3@c/r:e#t", "s3&cret=",
)  # fmt: skip
ADDRESSES = (
    "postgresql://ada:{}@host/db", "postgresql://ada:{}@host:5432/db?sslmode=require", "postgres://ada:{}@[::1",
    "postgresql://:{}@host", "postgresql://ada@corp.example:{}@host/db", "postgresql:/ada:{}@host",
    "postgresql://host/db?user=ada&password={}", "postgresql://host:1/db?password={}&sslmode=require",
    "postgresql://host/db?sslpassword={}", "host=h user=ada password={} dbname=d", "host=h user=ada password='{}'",
    "password = {}", "host=h sslpassword={}", "cannot connect to postgresql://ada:{}@host/db: it is down",
)  # fmt: skip


class TestPasswords:
    def test_no_part_of_a_password_is_shown(self):
        for address, password in product(ADDRESSES, PASSWORDS):
            text = address.format(password)
            shown = [mask_passwords(text), *map(safe_repr, (text, {"url": [text]}, text.encode(), ValueError(text)))]
            shown.append(safe_repr("x" * (MAX_CHARS - 20) + " " + text))
            for piece in ("s3", "cret", "c/r", "e#t", password):
                assert not any(piece in each for each in shown), text
        for text in ("postgresql://ada:s3cret", "postgresql://ada:s3cret/db", "mysql://ada:s3/cret"):
            assert "cret" not in mask_passwords(text)

    def test_non_passwords_are_unchanged(self):
        for text in (
            "agent.db", "/home/ada/a:b@c.db", "C:/agents/a.db", "file:agent.db?mode=ro", "file:///a:b/agent.db",
            "postgresql://host/db", "postgresql://ada@host:5432/db", "postgresql://host:5432,other:5433/db",
            "host=h port=5432 dbname=d user=ada", "max_tokens=5 and next_token=7", "see http://localhost:8000/x",
        ):  # fmt: skip
            assert mask_passwords(text) == text
            assert safe_repr(text) == repr(text)
        assert mask_passwords("postgresql://ada:pw@host:5432/db?a=b") == "postgresql://ada:***@host:5432/db?a=b"
        assert mask_passwords("host=h password='a b' dbname=d") == "host=h password=*** dbname=d"
        shown = safe_repr({"password": "s3cret", "api_key": ["s3cret"], "name": "ada", "token": None, "max_tokens": 5})
        assert shown == "{'password': '***', 'api_key': '***', 'name': 'ada', 'token': None, 'max_tokens': 5}"

    @given(st.text(max_size=60))
    def test_any_text_is_accepted(self, text):
        assert safe_repr(text * 40)
        assert len(mask_passwords(text)) <= len(text) + 3 * text.count("=") + 3 * text.count(":")


def test_package_messages_never_use_repr():
    """`{value!r}` of what somebody gave can fail, take for ever, or show a password; `safe_repr` cannot."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "langchain_agentmem").rglob("*.py")
        if "!r" in (text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FormattedValue) and node.conversion == ord("r")
    ]
    assert found == []
