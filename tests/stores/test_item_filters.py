"""Filters: which values meet which conditions, whatever is in either."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.memory import _compare_values

from langchain_agentmem.base.limits import USUAL_LIMITS
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.stores.item_rows import written
from langchain_agentmem.stores.item_search import checked, fits, needle

NOTE = {
    "kind": "note",
    "stars": 4,
    "ratio": 0.5,
    "done": True,
    "nothing": None,
    "tags": ["red", "blue"],
    "size": {"width": 3, "deep": {"er": "x"}},
    "a.b": "literal",
    "at": datetime(2026, 5, 1, tzinfo=UTC),
}


def meets(wanted, value=NOTE):
    return fits(value, checked(wanted, USUAL_LIMITS) or {})


class TestEquality:
    @pytest.mark.parametrize(
        "wanted",
        [
            {"kind": "note"},
            {"kind": {"$eq": "note"}},
            {"stars": 4.0},
            {"tags": ["red", "blue"]},
            {"tags": ("red", "blue")},
            {"nothing": None},
            {"kind": "note", "stars": 4},
            {},
        ],
    )
    def test_what_is_equal_is_met(self, wanted):
        assert meets(wanted)

    @pytest.mark.parametrize(
        "wanted", [{"kind": "Note"}, {"stars": "4"}, {"tags": ["red"]}, {"tags": "red"}, {"kind": "note", "stars": 5}]
    )
    def test_what_is_not_is_not(self, wanted):
        assert not meets(wanted)


class TestNesting:
    @pytest.mark.parametrize(
        "wanted",
        [
            {"size": {"width": 3}},
            {"size.width": 3},
            {"size": {"deep": {"er": "x"}}},
            {"size.deep.er": "x"},
            {"size": {"deep.er": "x"}},
            {"size.deep": {"er": "x"}},
            {"size": {"width": {"$gte": 3, "$lt": 4}}},
            {"size.width": {"$gt": 2}},
            {"a.b": "literal"},
        ],
    )
    def test_nested_conditions_and_dotted_keys_say_the_same(self, wanted):
        assert meets(wanted)

    def test_a_dotted_key_finds_its_way_past_keys_with_dots(self):
        assert meets({"x.y.z": 1}, {"x.y": {"z": 1}})
        assert meets({"x.y.z": 1}, {"x": {"y.z": 1}})
        assert meets({"x.y": 1}, {"x": {"y": 1}, "x.z": 2})

    def test_a_way_that_leads_nowhere_is_a_missing_key(self):
        assert not meets({"kind.of": 1})
        assert meets({"kind.of": None})
        assert not meets({"size.width.more": {"$gt": 0}})


class TestMissingKeys:
    def test_not_equal_matches_them(self):
        assert meets({"missing": {"$ne": 1}})
        assert meets({"size.missing": {"$ne": 1}})
        assert not meets({"missing": {"$ne": None}})

    @pytest.mark.parametrize("operator", ["$gt", "$gte", "$lt", "$lte"])
    @pytest.mark.parametrize("operand", [0, "", None, -1.5])
    def test_no_order_does(self, operator, operand):
        assert not meets({"missing": {operator: operand}})
        assert not meets({"nothing": {operator: operand}})

    def test_none_does(self):
        assert meets({"missing": None})


class TestOrder:
    @pytest.mark.parametrize(
        "wanted",
        [
            {"stars": {"$gt": 3}},
            {"stars": {"$gte": 4.0}},
            {"stars": {"$lt": Decimal("4.5")}},
            {"ratio": {"$lte": 0.5}},
            {"kind": {"$gt": "nota"}},
            {"kind": {"$lte": "note"}},
            {"at": {"$gt": datetime(2026, 1, 1, tzinfo=UTC)}},
        ],
    )
    def test_numbers_text_and_times_have_one(self, wanted):
        assert meets(wanted)

    @pytest.mark.parametrize(
        ("value", "operand"),
        [
            ("5", 3),
            (3, "5"),
            ([1], [0]),
            ({"a": 2}, 1),
            (None, 1),
            (datetime(2026, 1, 1, tzinfo=UTC), datetime(2025, 1, 1)),
            (datetime(2026, 1, 1), date(2025, 1, 1)),
            (Decimal("NaN"), 1),
            (Decimal("sNaN"), Decimal("sNaN")),
            (float("nan"), 1),
            (b"a", "a"),
            ({1}, {1, 2}),
        ],
    )
    def test_what_has_none_never_matches_and_never_raises(self, value, operand):
        for operator in ("$gt", "$gte", "$lt", "$lte"):
            assert not meets({"x": {operator: operand}}, {"x": value})
        assert meets({"x": {"$ne": operand}}, {"x": value}) is not meets({"x": {"$eq": operand}}, {"x": value})


class TestLogic:
    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({"stars": {"$in": [1, 4.0]}}, True),
            ({"stars": {"$in": [1, "4"]}}, False),
            ({"missing": {"$in": [None]}}, True),
            ({"stars": {"$nin": [1, 4]}}, False),
            ({"missing": {"$nin": [1]}}, True),
            ({"$and": [{"kind": "note"}, {"stars": {"$gt": 3}}]}, True),
            ({"$and": [{"kind": "note"}, {"stars": {"$gt": 4}}]}, False),
            ({"$or": [{"kind": "page"}, {"size.width": 3}]}, True),
            ({"$or": [{"kind": "page"}, {"stars": 5}]}, False),
            ({"$not": {"kind": "note", "stars": 5}}, True),
            ({"$not": {"kind": "note"}}, False),
            ({"kind": "note", "$or": [{"stars": 1}, {"$not": {"$and": [{"done": True}, {"ratio": 1}]}}]}, True),
            ({"kind": "page", "$or": [{"stars": 4}]}, False),
            ({"stars": {"$or": [1, {"$gte": 4}], "$ne": 5}}, True),
            ({"stars": {"$not": {"$in": [4]}}}, False),
            ({"size": {"$or": [{"width": 1}, {"deep.er": "x"}], "width": 3}}, True),
            ({"missing": {"$or": [{"width": 1}]}}, False),
        ],
    )
    def test_conditions_are_joined_and_denied(self, wanted, expected):
        assert meets(wanted) is expected

    async def test_every_store_does(self, memory):
        for name, kind in (("tea", "drink"), ("fig", "fruit"), ("egg", "food")):
            memory.store.put(("p",), name, {"kind": kind, "text": f"a {name}"})
        wanted = {"$or": [{"kind": {"$in": ["drink"]}}, {"$not": {"kind": {"$ne": "fruit"}}}]}
        assert {item.key for item in memory.store.search(("p",), filter=wanted)} == {"tea", "fig"}
        assert [item.key for item in await memory.store.asearch(("p",), query="egg fig", filter=wanted)] == ["fig"]
        with pytest.raises(InvalidInput, match="compares the value of a key"):
            await memory.store.asearch(("p",), filter={"$in": ["drink"]})


class TestWrongFilters:
    @pytest.mark.parametrize(
        ("wanted", "says"),
        [
            ({"x": {"$near": 1}}, "Unsupported operator '\\$near'"),
            ({"x": {"$gt": 1, "plain": 2}}, "Unsupported operator 'plain'"),
            ({"x": {"deep": [{"$some": []}]}}, "Unsupported operator '\\$some'"),
            ({"$some": 1}, "Unsupported operator '\\$some' in a filter; there are \\$eq, .*\\$in, .*\\$not"),
            ({"$eq": 1}, 'compares the value of a key, so write {"<key>": {"\\$eq": …}}'),
            ({"$in": [1]}, "Next to keys there are \\$and, \\$or, \\$not"),
            ({"$and": [{"x": 1}, {"$gte": 1}]}, "\\$gte compares the value of a key"),
            ({"$not": {"$lt": 1}}, "\\$lt compares the value of a key"),
            ({"$or": []}, "\\$or takes a list that is not empty"),
            ({"$or": {"x": 1}}, "\\$or takes a list"),
            ({"x": {"$in": "text"}}, "\\$in takes a list"),
            ({"$not": [{"x": 1}]}, "dictionary"),
            ({"$and": ["x"]}, "dictionary"),
            ({"$or": [{1: 2}]}, "keys of a filter are text"),
            ({1: 2}, "keys of a filter are text"),
            (["x"], "dictionary"),
            ("x", "dictionary"),
        ],
    )
    def test_they_are_refused_before_anything_is_compared(self, wanted, says):
        with pytest.raises(InvalidInput, match=says):
            checked(wanted, USUAL_LIMITS)

    def test_so_is_one_that_has_no_end(self):
        endless: dict = {}
        endless["x"] = endless
        with pytest.raises(InvalidInput, match="levels"):
            checked(endless, USUAL_LIMITS)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)
values = st.dictionaries(st.sampled_from("xyz"), plain, max_size=3)
operators = st.dictionaries(st.sampled_from(["$eq", "$ne"]), plain, min_size=1, max_size=2)
anything = st.recursive(
    st.dictionaries(st.sampled_from(["x", "y", "x.y", "z.x.y"]), plain | operators, max_size=3),
    lambda inner: (
        st.dictionaries(st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=2), min_size=1)
        | inner.map(lambda each: {"$not": each})
        | st.builds(lambda key, each: {key: each}, st.sampled_from("xy"), inner)
    ),
    max_leaves=4,
)
ordering = st.dictionaries(st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), plain, max_size=3)


class TestAnyFilter:
    @given(values, st.dictionaries(st.sampled_from("xyz"), plain | operators, max_size=3))
    def test_equality_is_that_of_the_store_in_memory(self, value, wanted):
        assert meets(wanted, value) == all(_compare_values(value.get(key), wanted[key]) for key in wanted)

    @given(values, st.dictionaries(st.sampled_from(["x", "y", "x.y", "z.x.y"]), plain | ordering, max_size=3))
    def test_none_raises(self, value, wanted):
        assert meets(wanted, value) in {True, False}


class TestSortingOutBeforehand:
    """What the database looks for in the stored bytes."""

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({"a": "text"}, b'"text"'),
            ({"a": {"$eq": "text"}, "b": 3}, b'"text"'),
            ({"a": {"b": ["x", {"c": "longer"}]}}, b'"longer"'),
            ({"a": 'quo"te\n\0ü\ud800'}, b'"quo\\"te\\n\\u0000\xc3\xbc\xed\xa0\x80"'),
            ({"$and": [{"a": "text"}, {"b": {"$eq": "longer"}}]}, b'"longer"'),
            ({"$or": [{"a": "text"}], "$not": {"a": "text"}, "a": {"$in": ["text"]}}, None),
            ({"a": {"$ne": "text"}}, None),
            ({"a": {"$gt": "text"}}, None),
            ({"a": 3, "b": None, "c": True, "d": {"$eq": ["text"]}}, None),
        ],
    )
    def test_it_is_the_longest_text_that_must_be_there(self, wanted, expected):
        assert needle(wanted) == expected

    @given(values, anything)
    def test_it_is_in_every_value_that_fits(self, value, wanted):
        if meets(wanted, value) and (bytes_ := needle(wanted)) is not None:
            assert bytes_ in written(value)
