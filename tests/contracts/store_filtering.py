"""Filters: every operator, nested and dotted keys, and keys that are missing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contracts.store_calling import Calls, Contract

NUMBERS: list[tuple[dict[str, Any], set[str]]] = [
    ({"$eq": 2}, {"two"}),
    ({"$ne": 2}, {"one", "half", "three"}),
    ({"$gt": 2}, {"half", "three"}),
    ({"$gte": 2}, {"two", "half", "three"}),
    ({"$lt": 2}, {"one"}),
    ({"$lte": 2}, {"one", "two"}),
    ({"$gt": 2.4, "$lt": 3}, {"half"}),
    ({"$gte": 2, "$ne": 3}, {"two", "half"}),
    ({"$gt": 3}, set()),
    ({"$lt": 10}, {"one", "two", "half", "three"}),  # as numbers, not as text
]

EQUAL: dict[str, dict[str, Any]] = {
    "text": {"text": 'one\'s 100% "own" _ \\ ключ'},
    "a whole number": {"n": 1},
    "a fraction": {"f": 1.5},
    "true": {"yes": True},
    "false": {"no": False},
    "a list": {"list": ["a", "b"]},
    "two keys": {"n": 1, "yes": True},
    "a key with quotes": {'it\'s "so"': 1},
    "a key with a space": {"a b": 1},
    "a key with a percent sign": {"100%": 1},
}

WHOLE = {"text": "one's 100% \"own\" _ \\ ключ", "n": 1, "f": 1.5, "yes": True, "no": False, "list": ["a", "b"],
         "it's \"so\"": 1, "a b": 1, "100%": 1}  # fmt: skip
OTHER = {"text": "one's 100x \"own\" x \\ ключ", "n": 10, "f": 1.25, "yes": False, "no": True, "list": ["b", "a"],
         "it's \"so\"": 2, "a b": 2, "100%": 2}  # fmt: skip


def shown(given: Any) -> str:
    """How a parameter is named: what is expected has no fixed order, and stays aside."""
    return str(given) if isinstance(given, dict) else ""


class FilterContract(Contract):
    """`filter` of a search."""

    async def _found(self, calls: Calls, filter: dict[str, Any]) -> set[str]:  # noqa: A002 - LangGraph's name
        found = await calls.keys(("a",), filter=filter, limit=100)
        assert len(found) == len(set(found)), f"an item must be found once, not as often as in {found}"
        return set(found)

    @pytest.mark.parametrize("wanted", EQUAL.values(), ids=EQUAL.keys())
    async def test_a_value_must_be_equal(self, calls: Calls, wanted: dict[str, Any]) -> None:
        """A filter of plain values matches where all of them are equal, whatever their type."""
        await calls.put_all(("a",), {"whole": WHOLE, "other": OTHER, "empty": {}})
        assert await self._found(calls, wanted) == {"whole"}, f"{wanted} must match the item that has it, and no other"
        for name, value in wanted.items():
            assert await self._found(calls, {name: {"$eq": value}}) >= {"whole"}, "$eq must do the same"

    @pytest.mark.parametrize(("condition", "expected"), NUMBERS, ids=shown)
    async def test_operators_compare_numbers(self, calls: Calls, condition: dict[str, Any], expected: set[str]) -> None:
        """Whole numbers and fractions are compared as numbers; several operators must all hold."""
        await calls.put_all(("a",), {"one": {"n": 1}, "two": {"n": 2}, "half": {"n": 2.5}, "three": {"n": 3}})
        assert await self._found(calls, {"n": condition}) == expected, f"{condition} must match these"

    @pytest.mark.parametrize(
        ("condition", "expected"),
        [
            ({"$gt": "b"}, {"c"}),
            ({"$gte": "b"}, {"b", "c"}),
            ({"$lt": "b"}, {"a", "10"}),
            ({"$lte": "b"}, {"a", "b", "10"}),
            ({"$lt": "9"}, {"10"}),  # as text
        ],
        ids=shown,
    )
    async def test_operators_compare_texts(self, calls: Calls, condition: dict[str, Any], expected: set[str]) -> None:
        """Texts are compared as texts, by their code points."""
        await calls.put_all(("a",), {text: {"t": text} for text in ("a", "b", "c", "10")})
        assert await self._found(calls, {"t": condition}) == expected, f"{condition} must match these"

    async def test_a_missing_key_is_not_equal(self, calls: Calls) -> None:
        """`$ne` matches an item that lacks the key; a plain value and `$eq` do not."""
        await calls.put_all(("a",), {"same": {"n": 1}, "other": {"n": 2}, "without": {"m": 1}})
        assert await self._found(calls, {"n": {"$ne": 1}}) == {"other", "without"}, "$ne must match a missing key"
        assert await self._found(calls, {"n": 1}) == {"same"}, "a missing key must not be equal to anything"
        assert await self._found(calls, {"n": {"$eq": 1}}) == {"same"}, "$eq must not match a missing key"

    @pytest.mark.parametrize("operator", ["$gt", "$gte", "$lt", "$lte"])
    async def test_a_missing_key_has_no_order(self, calls: Calls, operator: str) -> None:
        """The operators of order match no item that lacks the key, and do not fail on one."""
        await calls.put_all(("a",), {"with": {"n": 1}, "without": {"m": 1}, "none": {"n": None}})
        expected = {"with"} if "e" in operator else set()
        assert await self._found(calls, {"n": {operator: 1}}) == expected, f"{operator} must match no missing key"

    @pytest.mark.parametrize("operator", ["$gt", "$gte", "$lt", "$lte"])
    async def test_values_of_other_kinds_have_no_order(self, calls: Calls, operator: str) -> None:
        """A text is neither before nor after a number, and comparing them does not fail."""
        await calls.put_all(("a",), {"number": {"n": 1}, "text": {"n": "many"}, "list": {"n": [1]}})
        expected = {"number"} if "e" in operator else set()
        assert await self._found(calls, {"n": {operator: 1}}) == expected, f"{operator} must match numbers only"

    async def test_nested_keys_match(self, calls: Calls) -> None:
        """A dictionary in a filter asks for the keys it names, and leaves the others aside."""
        await calls.put_all(
            ("a",),
            {
                "one": {"in": {"a": 1, "b": {"c": 1}}},
                "two": {"in": {"a": 2, "b": {"c": 2}}},
                "flat": {"in": 2},
                "not": {},
            },
        )
        assert await self._found(calls, {"in": {"a": 2}}) == {"two"}, "a nested key must match"
        assert await self._found(calls, {"in": {"b": {"c": 2}}}) == {"two"}, "a key nested twice must match"
        assert await self._found(calls, {"in": {"a": 2, "b": {"c": 1}}}) == set(), "every nested key must match"
        assert await self._found(calls, {"in": {"a": {"$gte": 1, "$lt": 2}}}) == {"one"}, "operators may be nested"

    async def test_dotted_keys_match(self, calls: Calls) -> None:
        """`"a.b"` is the key b of a, with and without operators."""
        await calls.put_all(("a",), {"one": {"in": {"a": 1, "b": {"c": 1}}}, "two": {"in": {"a": 2, "b": {"c": 2}}}})
        assert await self._found(calls, {"in.a": 2}) == {"two"}, "a dotted key must match"
        assert await self._found(calls, {"in.b.c": 1}) == {"one"}, "a key with two dots must match"
        assert await self._found(calls, {"in.a": {"$gt": 1}}) == {"two"}, "operators must work with dotted keys"
        assert await self._found(calls, {"in.missing": 1}) == set(), "a missing dotted key must not match"

    async def test_every_key_must_match(self, calls: Calls) -> None:
        """The conditions of several keys are all asked for."""
        await calls.put_all(("a",), {f"{x}{y}": {"x": x, "y": y} for x in range(3) for y in range(3)})
        found = await self._found(calls, {"x": {"$gte": 1}, "y": {"$ne": 2}, "missing": {"$ne": 1}})
        assert found == {"10", "11", "20", "21"}, "every condition must hold"
        assert len(await self._found(calls, {})) == 9, "an empty filter must match everything"

    @pytest.mark.parametrize("operator", ["$regex", "$in", "$and", "$"])
    async def test_an_unknown_operator_is_refused(self, calls: Calls, operator: str) -> None:
        """It raises a ValueError instead of matching nothing."""
        await calls.put(("a",), "k", {"n": 1})
        with pytest.raises(ValueError):
            await calls.search(("a",), filter={"n": {operator: 1}})

    async def test_limits_count_what_matches(self, calls: Calls) -> None:
        """A limit and an offset cut what the filter let through."""
        await calls.put_all(("a",), {f"k{n:02}": {"even": n % 2 == 0} for n in range(20)})
        first = await calls.keys(("a",), filter={"even": True}, limit=6)
        rest = await calls.keys(("a",), filter={"even": True}, limit=6, offset=6)
        assert (len(first), len(rest)) == (6, 4), "a limit must count what matches only"
        assert sorted(first + rest) == [f"k{n:02}" for n in range(0, 20, 2)], "pages must give each match once"

    async def test_a_filter_reads_the_newest_value(self, calls: Calls) -> None:
        """What an item was before its update matches no more."""
        await calls.put(("a",), "k", {"n": 1})
        await calls.put(("a",), "k", {"n": 2})
        assert await self._found(calls, {"n": 1}) == set(), "an old value must not match"
        assert await self._found(calls, {"n": 2}) == {"k"}, "the new value must match"
