"""Recipes come back as they were written, damage is noticed, and ranges say just which parts are meant."""

import itertools

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
    covered,
    guarded,
    merged,
    moved,
    pack,
    ranges_of,
    read_ranges,
    unpack,
    with_parts,
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


def numbers(ranges):
    return [number for start, stop in ranges for number in range(start, stop)]


def parts_of(recipe):
    return numbers(ranges_of(recipe))


class TestWriting:
    @given(RECIPES.filter(bool))
    def test_a_recipe_comes_back_as_it_was(self, recipe):
        assert unpack(pack(recipe)) == recipe

    def test_a_long_list_is_two_numbers(self):
        assert len(pack([LIST, *written_ranges([(0, 1_000_000)])])) < 16

    def test_a_view_of_the_bytes_will_do(self):
        assert unpack(memoryview(pack([PART, 7]))) == [PART, 7]


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


class TestRanges:
    @given(RANGES)
    def test_they_come_back_in_their_order(self, ranges):
        assert list(read_ranges(written_ranges(ranges))) == ranges

    @given(RANGES)
    def test_merging_neighbours_changes_neither_parts_nor_order(self, ranges):
        joined = merged(ranges)
        assert numbers(joined) == numbers(ranges)
        assert all(one[1] != two[0] for one, two in itertools.pairwise(joined))

    @given(RANGES)
    def test_a_union_is_ascending_and_apart(self, ranges):
        union = covered(ranges)
        assert set(numbers(union)) == set(numbers(ranges))
        assert all(one[1] < two[0] for one, two in itertools.pairwise(union))
        assert covered(reversed(union)) == union

    def test_half_a_pair_is_noticed(self):
        with pytest.raises(ValueError, match="shorter"):
            list(read_ranges([1]))


class TestParts:
    @given(RECIPES)
    def test_those_of_a_recipe_are_all_that_it_names(self, recipe):
        asked = []
        with_parts(recipe, lambda number: asked.append(number) or f"part {number}")
        assert sorted(asked) == sorted(parts_of(recipe))

    @given(RECIPES, st.randoms())
    def test_a_moved_recipe_names_the_same_parts_elsewhere_however_scattered(self, recipe, random):
        known, before = sorted(set(parts_of(recipe))), pack(recipe)
        places = dict(zip(known, random.sample(range(10_000), len(known)), strict=True))
        back = {there: here for here, there in places.items()}
        there = unpack(pack(moved(recipe, places.__getitem__)))
        assert parts_of(there) == [places[number] for number in parts_of(recipe)]
        assert with_parts(there, back.__getitem__) == with_parts(recipe, lambda number: number)
        assert pack(recipe) == before
