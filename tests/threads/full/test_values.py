"""Stored values equal those of LangGraph's serializer, and growing values store only the difference."""

from __future__ import annotations

import itertools
import random
from copy import deepcopy
from datetime import UTC, timedelta
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send

from langchain_agentmem.threads.value_codec import CHUNK_BYTES, FEW_ELEMENTS, INLINE_BYTES
from langchain_agentmem.threads.value_store import MOST_RANGES
from tests.threads.own_store import OwnStore, aes, ranges, round_trip, strict, told

TEXT = st.text(max_size=12) | st.text(st.characters(codec="utf-8"), min_size=INLINE_BYTES, max_size=INLINE_BYTES + 9)
NUMBER = st.integers(-(2**63), 2**64 - 1) | st.floats() | st.booleans()
PLAIN = st.none() | NUMBER | TEXT | st.binary(max_size=9)
ODD = (
    st.datetimes(timezones=st.sampled_from([None, UTC]))
    | st.uuids()
    | st.frozensets(st.integers(-5, 5), max_size=3)
    | st.tuples(st.integers(-5, 5), TEXT)
    | st.dictionaries(st.integers(-5, 5), TEXT, max_size=3)
    | st.just(timedelta(days=1))
)


def nested(leaves):
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
        max_leaves=12,
    )


EXTRA = st.dictionaries(st.text(max_size=4), nested(PLAIN), max_size=3)
IDS = st.none() | st.text(min_size=1, max_size=4) | st.just("run--1")
CONTENT = TEXT | st.lists(
    TEXT | st.builds(lambda text: {"type": "text", "text": text}, TEXT) | EXTRA.filter(bool), max_size=3
)
CALLS = st.lists(
    st.builds(
        lambda name, args, call: {"name": name, "args": args, "id": call, "type": "tool_call"},
        st.text(min_size=1, max_size=4), EXTRA, st.none() | st.text(max_size=4),
    ),
    max_size=2,
)  # fmt: skip
SHARED = {
    "content": CONTENT,
    "id": IDS,
    "name": st.none() | TEXT,
    "additional_kwargs": EXTRA,
    "response_metadata": EXTRA,
}


def made(kind, **fields):
    """Return a strategy for a message class; `st.builds` would use its too general signature."""
    return st.fixed_dictionaries(fields).map(lambda given: kind(**given))


USAGE = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8, "input_token_details": {"cache_read": 1}}
MESSAGES = st.one_of(
    made(HumanMessage, **SHARED),
    made(SystemMessage, **SHARED),
    made(AIMessage, **SHARED, tool_calls=CALLS),
    made(AIMessage, content=TEXT, id=IDS, usage_metadata=st.just(USAGE)),
    made(
        ToolMessage,
        **SHARED,
        tool_call_id=st.text(max_size=4),
        artifact=nested(PLAIN),
        status=st.sampled_from(["success", "error"]),
    ),
    made(HumanMessage, content=TEXT, id=IDS, extra_attribute=nested(PLAIN)),
    made(AIMessageChunk, content=TEXT, id=IDS),
    made(RemoveMessage, id=st.text(min_size=1, max_size=4)),
    made(FunctionMessage, content=TEXT, name=TEXT, id=IDS),
)
SENDS = st.builds(Send, st.text(max_size=4), nested(PLAIN | MESSAGES))
LONG = st.lists(PLAIN | MESSAGES, max_size=3).flatmap(
    lambda few: st.integers(FEW_ELEMENTS - 1, FEW_ELEMENTS + 60).map(
        lambda times: [few[n % len(few)] if few else n for n in range(times)]
    )
)
LARGE = st.dictionaries(st.text(max_size=6), nested(PLAIN), min_size=FEW_ELEMENTS - 2, max_size=FEW_ELEMENTS + 20)
VALUES = (
    nested(PLAIN | MESSAGES | ODD | SENDS | st.tuples(TEXT, MESSAGES))
    | st.lists(MESSAGES, max_size=5)
    | LONG
    | LARGE
    | nested(LONG | LARGE | SENDS)
    | nested(MESSAGES | SENDS).map(_DeltaSnapshot)
)

slow_settings = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def told_of_round_trip(value):
    try:
        return told(round_trip(value))
    except Exception:  # noqa: BLE001 - whatever LangGraph's serializer says when it refuses
        reject()


class TestRoundTrip:
    @pytest.mark.slow
    @slow_settings
    @given(VALUES, st.booleans(), st.sampled_from([strict, strict, aes]))
    def test_values_match_langgraphs_serializer(self, value, listing, serde):
        expected, before = told_of_round_trip(value), told(value)
        part_store = OwnStore(serde())
        blob = part_store.put(value, listing=listing)
        assert told(value) == before  # taking it apart leaves it alone
        assert told(part_store.get(blob)) == expected
        assert told(part_store.get(blob, known=False)) == expected
        assert told(OwnStore(serde(), memory=part_store.memory).get(blob)) == expected

    @pytest.mark.slow
    @settings(slow_settings, max_examples=60)
    @given(st.lists(VALUES, min_size=2, max_size=4), st.data())
    def test_successive_values_do_not_mix(self, values, data):
        """Each value mixes in earlier ones, as read or as put, so that most parts are known."""
        part_store, known = OwnStore(), []
        for value in values:
            mixed = value
            if known and type(value) is list:
                older = data.draw(st.sampled_from(known))
                mixed = [*older, *value] if type(older) is list else [older, *value]
            expected = told_of_round_trip(mixed)
            blob = part_store.put(mixed, listing=data.draw(st.booleans()))
            assert told(part_store.get(blob)) == expected
            known.append(data.draw(st.sampled_from([mixed, part_store.get(blob)])))

    @pytest.mark.slow
    @slow_settings
    @given(st.lists(MESSAGES, max_size=4))
    def test_putting_read_values_adds_no_parts(self, messages):
        told_of_round_trip(messages)
        part_store = OwnStore()
        blob = part_store.put(messages)
        parts = part_store.parts()
        for _ in range(3):
            assert part_store.put(part_store.get(blob)) == blob
            assert OwnStore(memory=part_store.memory).put(part_store.get(blob)) == blob
        assert part_store.parts() == parts

    def test_nested_and_empty_values_keep_their_form(self):
        part_store, deep = OwnStore(), [HumanMessage("x", id="m")]
        for n in range(40):
            deep = {"deeper": deep, "text": f"{n}" * INLINE_BYTES} if n % 2 else [deep, "text" * INLINE_BYTES]
        for value in (
            deep,
            {"b": "x" * INLINE_BYTES, "a": "y" * INLINE_BYTES},
            {str(n): n for n in range(1_000, 0, -1)},
            [HumanMessage("x", additional_kwargs={"b": 1, "a": {"d": 1, "c": 2}})],
            [AIMessage("x", tool_calls=[{"name": "f", "args": {"b": 1, "a": 2}, "id": "1"}])],
            *([], {}, "", b"", bytearray(), None, 0, False, [[]], [{}], {"": {}}, [None], [b""]),
        ):
            assert told(part_store.get(part_store.put(value), known=False)) == told(value)


MAKERS = {
    "messages": lambda n: HumanMessage(f"message number {n}", id=f"m{n}"),
    "messages with calls": lambda n: AIMessage(
        "", id=f"m{n}", tool_calls=[{"name": "f", "args": {"n": n}, "id": f"{n}"}], additional_kwargs={"n": n}
    ),
    "texts": lambda n: f"text number {n}",
    "dictionaries": lambda n: {"number": n, "text": f"text number {n}", "more": [n, n + 1]},
    "mixed": lambda n: AIMessage(f"{n}") if n % 3 else f"text number {n}",
}
LIST_LENGTH = 600
MAX_RECIPE_BYTES = 16 * MOST_RANGES
"""Maximum size in bytes of the recipe of a long list."""


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def message(n):
    return MAKERS["messages"](n)


class Added(NamedTuple):
    """Difference that a new version of a value stored: parts, bytes of content and bytes of recipe."""

    parts: int
    size: int
    recipe: int


class GrowingValue:
    """A part store that measures what each version adds, and checks that all versions are readable."""

    def __init__(self, value, serde=None):
        self.part_store = OwnStore(serde)
        self.versions = []
        self.put(value)

    def put(self, value):
        parts, size = self.part_store.parts(), self.part_store.bytes()
        blob = self.part_store.put(value)
        self.versions.append((blob, deepcopy(value)))
        return Added(self.part_store.parts() - parts, self.part_store.bytes() - size, len(blob))

    def check(self):
        fresh = OwnStore(self.part_store.serde, memory=self.part_store.memory)
        for blob, value in [*self.versions[:: len(self.versions) // 4 or 1], self.versions[-1]]:
            assert self.part_store.get(blob) == fresh.get(blob, known=False) == round_trip(value)


class TestGrowth:
    @pytest.mark.slow
    def test_appending_stores_only_the_new_elements(self, make):
        """Lists without messages end in a chunk that is rewritten until it is full."""
        value = []
        growing = GrowingValue(value)
        added = [growing.put(value) for n in range(200) if not value.append(make(n))]
        assert sum(each.parts for each in added) <= 2.2 * len(value)
        assert max(each.size for each in added) <= 6 * CHUNK_BYTES
        assert max(each.recipe for each in added) <= MAX_RECIPE_BYTES
        growing.check()

    @pytest.mark.slow
    def test_edits_within_a_list_store_little(self, make):
        value = [make(n) for n in range(LIST_LENGTH)]
        growing = GrowingValue(value)
        for place, change in itertools.product(
            (1, LIST_LENGTH // 2, LIST_LENGTH - 9),
            (
                value.pop,
                lambda place: value.__setitem__(place - 1, make(10_001)),
                lambda place: value.insert(place, make(10_002)),
                lambda place: value.__setitem__(slice(place, place + 3), [make(10_003)]),
            ),
        ):
            change(place)
            added = growing.put(value)
            assert added.parts <= 4
            assert added.size <= 12 * CHUNK_BYTES
            assert added.recipe <= MAX_RECIPE_BYTES
        growing.check()

    @pytest.mark.slow("in every form")
    def test_prepending_stores_only_the_new_elements(self, make):
        value = [make(n) for n in range(LIST_LENGTH)]
        growing = GrowingValue(value)
        for n in range(80):
            value.insert(0, make(30_000 + n))
            added = growing.put(value)
            assert added.parts <= 2 * MOST_RANGES
            assert added.size <= 6 * CHUNK_BYTES
            assert added.recipe <= MAX_RECIPE_BYTES
        growing.check()

    def test_reordering_stores_no_new_content(self):
        value = [message(n) for n in range(LIST_LENGTH)]
        growing = GrowingValue(value)
        for order in (
            value[::-1],
            random.Random(3).sample(value, LIST_LENGTH),
            random.Random(4).sample(value, LIST_LENGTH),
        ):
            added = growing.put(order)
            assert added.size == 0
            assert added.parts <= 2 * LIST_LENGTH
            assert added.recipe <= MAX_RECIPE_BYTES
            assert growing.put(order)[:2] == (0, 0)
        growing.check()

    def test_nested_and_encrypted_changes_store_only_the_difference(self):
        entries = {f"key {n}": {"number": n, "text": f"text {n}"} for n in range(LIST_LENGTH)}
        state = {"messages": [message(n) for n in range(200)], "steps": list(range(200)), "note": "x" * 999}
        messages = [message(n) for n in range(200)]

        def edit(n):
            entries[f"key {n * 30}"] = {"number": -n, "text": "edited"}
            entries[f"new key {n}"] = [n]
            entries.pop(f"key {n * 30 + 15}")

        def append(n):
            state["messages"].append(message(200 + n))
            state["steps"].append(200 + n)

        for value, change, limits, serde in (
            (entries, edit, (8, 24 * CHUNK_BYTES, MAX_RECIPE_BYTES), None),
            (state, append, (4, 8 * CHUNK_BYTES, 2 * MAX_RECIPE_BYTES), None),
            (messages, lambda n: messages.append(message(200 + n)), (1, 4 * CHUNK_BYTES, 2 * MAX_RECIPE_BYTES), aes()),
        ):
            growing = GrowingValue(value, serde)
            for n in range(15):
                change(n)
                added = growing.put(value)
                assert all(each <= limit for each, limit in zip(added, limits, strict=True)), (added, limits)
            growing.check()

    def test_a_large_element_is_its_own_chunk(self):
        value = ["x" * 5_000 + str(n) if n % 9 == 4 else f"text {n}" for n in range(200)]
        growing = GrowingValue(value)
        value[4] = "small now"
        assert growing.put(value).size <= 6 * CHUNK_BYTES
        growing.check()

    def test_equal_values_are_stored_once(self):
        part_store = OwnStore()
        for value in ("text " * 200, [HumanMessage("hello", id="m")] * 50, [f"element {n}" for n in range(200)]):
            part_store.put(value)
            parts, size = part_store.parts(), part_store.bytes()
            assert part_store.get(part_store.put(round_trip(value))) == value
            assert (part_store.parts(), part_store.bytes()) == (parts, size)


class TestParallelWrites:
    def test_many_versions_with_parallel_writes_do_not_fragment(self):
        """Each turn, tasks write single messages before the whole list is put."""
        part_store, messages = OwnStore(), []
        for turn in range(150):
            written = [HumanMessage(f"{turn} {task}", id=f"{turn}-{task}") for task in range(3)]
            for each in written:
                part_store.put([each], listing=False)
            messages += written
            blob = part_store.put(messages)
            assert ranges(blob) <= 3
            if turn % 10 == 0:
                messages = part_store.get(blob)
        assert part_store.get(blob) == messages
        assert part_store.parts() == 2 * len(messages)  # each as what a task wrote, and in its place in the list
        assert part_store.memory.admin.stats()["contents"] == len(messages)

    def test_alternately_growing_lists_do_not_fragment(self):
        part_store, lists = OwnStore(), [[], [], []]
        for turn in range(150):
            for number, each in enumerate(lists):
                each.append(HumanMessage(f"{turn} in {number}", id=f"{turn}-{number}"))
                assert ranges(part_store.put(each)) <= MOST_RANGES
        for each in lists:
            assert part_store.get(part_store.put(each)) == each
        assert part_store.parts() <= 3 * 150 * 8
