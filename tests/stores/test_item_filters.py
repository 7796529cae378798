"""Filters on item values."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.memory import _compare_values

from langchain_agentmem.base.argument_checks import DEFAULT_LIMITS
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.stores.item_rows import encode_value
from langchain_agentmem.stores.item_search import check_filter, matches_filter, required_text

NOTE = {
    "kind": "note", "stars": 4, "ratio": 0.5, "done": True, "nothing": None, "tags": ["red", "blue"],
    "size": {"width": 3, "deep": {"er": "x"}}, "a.b": "literal", "at": datetime(2026, 5, 1, tzinfo=UTC),
}  # fmt: skip

MATCHING = [
    # Equal values.
    {"kind": "note"}, {"kind": {"$eq": "note"}}, {"stars": 4.0}, {"tags": ["red", "blue"]}, {"tags": ("red", "blue")},
    {"nothing": None}, {"kind": "note", "stars": 4}, {}, {"size": {"$eq": {"width": 3, "deep": {"er": "x"}}}},
    # Nested conditions and dotted keys say the same.
    {"size": {"width": 3}}, {"size.width": 3}, {"size": {"deep": {"er": "x"}}}, {"size.deep.er": "x"},
    {"size": {"deep.er": "x"}}, {"size.deep": {"er": "x"}}, {"size": {"width": {"$gte": 3, "$lt": 4}}},
    {"size.width": {"$gt": 2}}, {"a.b": "literal"},
    # Missing keys.
    {"missing": {"$ne": 1}}, {"size.missing": {"$ne": 1}}, {"missing": None}, {"kind.of": None},
    # Numbers, text and times have an order.
    {"stars": {"$gt": 3}}, {"stars": {"$gte": 4.0}}, {"stars": {"$lt": Decimal("4.5")}}, {"ratio": {"$lte": 0.5}},
    {"kind": {"$gt": "nota"}}, {"kind": {"$lte": "note"}}, {"at": {"$gt": datetime(2026, 1, 1, tzinfo=UTC)}},
    # Conditions are joined and denied.
    {"stars": {"$in": [1, 4.0]}}, {"missing": {"$in": [None]}}, {"missing": {"$nin": [1]}},
    {"$and": [{"kind": "note"}, {"stars": {"$gt": 3}}]}, {"$or": [{"kind": "page"}, {"size.width": 3}]},
    {"$not": {"kind": "note", "stars": 5}}, {"stars": {"$or": [1, {"$gte": 4}], "$ne": 5}},
    {"kind": "note", "$or": [{"stars": 1}, {"$not": {"$and": [{"done": True}, {"ratio": 1}]}}]},
    {"size": {"$or": [{"width": 1}, {"deep.er": "x"}], "width": 3}},
]  # fmt: skip
NOT_MATCHING = [
    {"kind": "Note"}, {"stars": "4"}, {"tags": ["red"]}, {"tags": "red"}, {"kind": "note", "stars": 5},
    {"size": {"$eq": {"width": 3}}}, {"kind.of": 1}, {"size.width.more": {"$gt": 0}}, {"missing": {"$ne": None}},
    {"stars": {"$in": [1, "4"]}}, {"stars": {"$nin": [1, 4]}}, {"$and": [{"kind": "note"}, {"stars": {"$gt": 4}}]},
    {"$or": [{"kind": "page"}, {"stars": 5}]}, {"$not": {"kind": "note"}}, {"kind": "page", "$or": [{"stars": 4}]},
    {"stars": {"$not": {"$in": [4]}}}, {"missing": {"$or": [{"width": 1}]}},
]  # fmt: skip
UNORDERED = [
    ("5", 3), (3, "5"), ({"a": 2}, 1), (None, 1), (datetime(2026, 1, 1), date(2025, 1, 1)),
    (datetime(2026, 1, 1, tzinfo=UTC), datetime(2025, 1, 1)), (Decimal("NaN"), 1), (Decimal("sNaN"), Decimal("sNaN")),
    (float("nan"), 1), (b"a", "a"), (3, np.array([1, 2])),
]  # fmt: skip
ORDER_OPERATORS = ("$gt", "$gte", "$lt", "$lte")

INVALID_FILTERS = [
    ({"x": {"$near": 1}}, "Unsupported operator '\\$near'"),
    ({"x": {"$gt": 1, "plain": 2}}, "Unsupported operator 'plain'"),
    ({"x": {"deep": [{"$some": []}]}}, "Unsupported operator '\\$some'"),
    ({"$some": 1}, "Unsupported operator '\\$some' in a filter. Valid here: \\$and, \\$or, \\$not"),
    ({"$eq": 1}, 'To compare a value, write {"<key>": {"\\$gte": …}}'),
    ({"$and": [{"x": 1}, {"$gte": 1}]}, "Unsupported operator '\\$gte'"),
    ({"$not": {"$lt": 1}}, "Unsupported operator '\\$lt'"),
    ({"$or": []}, "\\$or must be a non-empty list"),
    ({"$or": {"x": 1}}, "\\$or must be a non-empty list"),
    ({"x": {"$in": "text"}}, "\\$in must be a non-empty list"),
    *((wrong, "dictionary") for wrong in ({"$not": [{"x": 1}]}, {"$and": ["x"]}, ["x"], "x")),
    *((wrong, "keys of a filter must be strings") for wrong in ({"$or": [{1: 2}]}, {1: 2})),
]


def matches(wanted, value=NOTE):
    return matches_filter(value, check_filter(wanted, DEFAULT_LIMITS) or {})


def test_filters_match_exactly_the_expected_values():
    assert [wanted for wanted in MATCHING if not matches(wanted)] == []
    assert [wanted for wanted in NOT_MATCHING if matches(wanted)] == []


def test_dotted_paths_match_keys_with_dots():
    for value in ({"x.y": {"z": 1}}, {"x": {"y.z": 1}}, {"x": {"y": {"z": 1}}, "x.z": 2}):
        assert matches({"x.y.z": 1}, value), value


def test_unordered_values_never_match_or_raise():
    for operator in ORDER_OPERATORS:
        for operand in (0, "", None, -1.5):
            assert not matches({"missing": {operator: operand}}), (operator, operand)
            assert not matches({"nothing": {operator: operand}}), (operator, operand)
    for value, operand in UNORDERED:
        assert not any(matches({"x": {operator: operand}}, {"x": value}) for operator in ORDER_OPERATORS), (
            value,
            operand,
        )
        assert matches({"x": {"$ne": operand}}, {"x": value}) is not matches({"x": {"$eq": operand}}, {"x": value}), (
            value
        )


async def test_search_and_asearch_apply_filters(memory):
    for name, kind in (("tea", "drink"), ("fig", "fruit"), ("egg", "food")):
        memory.store.put(("p",), name, {"kind": kind, "text": f"a {name}"})
    wanted = {"$or": [{"kind": {"$in": ["drink"]}}, {"$not": {"kind": {"$ne": "fruit"}}}]}
    assert {item.key for item in memory.store.search(("p",), filter=wanted)} == {"tea", "fig"}
    assert [item.key for item in await memory.store.asearch(("p",), query="egg fig", filter=wanted)] == ["fig"]
    with pytest.raises(InvalidInput, match="compare a value"):
        await memory.store.asearch(("p",), filter={"$in": ["drink"]})


def test_invalid_filters_are_rejected():
    endless: dict = {}
    endless["x"] = endless
    for wanted, says in [*INVALID_FILTERS, (endless, "levels")]:
        with pytest.raises(InvalidInput, match=says):
            check_filter(wanted, DEFAULT_LIMITS)


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
ordering = st.dictionaries(st.sampled_from(["$eq", "$ne", *ORDER_OPERATORS]), plain, max_size=3)


class TestAnyFilter:
    @given(values, st.dictionaries(st.sampled_from("xyz"), plain | operators, max_size=3))
    def test_equality_matches_the_in_memory_store(self, value, wanted):
        assert matches(wanted, value) == all(_compare_values(value.get(key), wanted[key]) for key in wanted)

    @given(values, st.dictionaries(st.sampled_from(["x", "y", "x.y", "z.x.y"]), plain | ordering, max_size=3))
    def test_valid_filters_never_raise(self, value, wanted):
        assert matches(wanted, value) in {True, False}


class TestRequiredText:
    """The text that the database searches in the stored bytes."""

    def test_required_text_is_the_longest_mandatory_string(self):
        assert required_text({"$and": [{"a": "text"}, {"b": {"c": {"$eq": 'lo"nger'}}}]}) == b'"lo\\"nger"'
        assert required_text({"$or": [{"a": "text"}], "$not": {"a": "text"}, "a": {"$in": ["text"]}}) is None

    @given(values, anything)
    def test_required_text_occurs_in_every_match(self, value, other):
        for wanted in (value, other, *({key: each} for key, each in value.items())):
            if matches(wanted, value) and (bytes_ := required_text(wanted)) is not None:
                assert bytes_ in encode_value(value)
