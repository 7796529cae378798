"""Damage of recipes is noticed."""

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.threads.value_recipe import (
    DICT,
    FIELDS,
    ITEMS,
    LIST,
    PART,
    SEND,
    SNAPSHOT,
    WRITTEN,
    Damaged,
    guarded,
    pack,
    unpack,
    written_ranges,
)

NUMBERS = st.integers(0, 300) | st.integers(2**40, 2**40 + 300)
RANGES = st.lists(st.tuples(NUMBERS, st.integers(1, 40)).map(lambda each: (each[0], sum(each))), max_size=8)
LEAVES = (
    st.builds(lambda kind, data: [WRITTEN, kind, data], st.sampled_from(["msgpack", "null"]), st.binary(max_size=9))
    | st.builds(lambda number: [PART, number], NUMBERS)
    | st.builds(lambda kind, ranges: [kind, *written_ranges(ranges)], st.sampled_from([LIST, DICT]), RANGES)
)


def inner(recipes):
    fields = st.dictionaries(st.text(max_size=3), recipes, max_size=3)
    return (
        fields.map(lambda each: [FIELDS, list(each), list(each.values())])
        | st.lists(recipes, max_size=3).map(lambda each: [ITEMS, each])
        | st.builds(lambda node, what, timeout: [SEND, node, what, timeout], st.text(), recipes, st.none() | recipes)
        | recipes.map(lambda each: [SNAPSHOT, each])
    )


RECIPES = st.recursive(LEAVES, inner, max_leaves=8)


class TestDamage:
    @given(RECIPES, st.data())
    def test_any_few_turned_bits_are_noticed(self, recipe, data):
        blob = pack(recipe)
        bits = data.draw(st.sets(st.integers(0, len(blob) * 8 - 1), min_size=1, max_size=3))
        turned = bytearray(blob)
        for bit in bits:
            turned[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damaged, match="checksum"):
            unpack(turned)

    @given(RECIPES, st.data())
    def test_what_was_cut_or_grew_is_noticed(self, recipe, data):
        blob = pack(recipe)
        length = data.draw(st.integers(0, len(blob) - 1))
        for damaged in (blob[:length], blob[length:] * bool(length), blob + blob[length:]):
            with pytest.raises(Damaged):
                unpack(damaged)

    def test_what_is_no_recipe_is_noticed_under_a_right_checksum(self):
        for data in (b"", b"\xc1", ormsgpack.packb([]), ormsgpack.packb({}), ormsgpack.packb("x")):
            with pytest.raises(Damaged):
                unpack(guarded(data))
