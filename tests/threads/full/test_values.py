"""Values are taken apart and made again as LangGraph's serializer gives them back, and growth costs what grew."""

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
from tests.threads.own_shelf import OwnShelf, aes, ranges, round_trip, strict, told

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
    """Messages of a class; `st.builds` would look at the types of its signature, which say too much."""
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

slowly = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def told_of_round_trip(value):
    try:
        return told(round_trip(value))
    except Exception:  # noqa: BLE001 - whatever LangGraph's serializer says when it refuses
        reject()


class TestMakingAgain:
    @pytest.mark.slow
    @slowly
    @given(VALUES, st.booleans(), st.sampled_from([strict, strict, aes]))
    def test_a_value_is_what_langgraphs_serializer_makes_of_it(self, value, listing, serde):
        expected, before = told_of_round_trip(value), told(value)
        shelf = OwnShelf(serde())
        blob = shelf.put(value, listing=listing)
        assert told(value) == before  # taking it apart leaves it alone
        assert told(shelf.get(blob)) == expected
        assert told(shelf.get(blob, known=False)) == expected
        assert told(OwnShelf(serde(), memory=shelf.memory).get(blob)) == expected

    @pytest.mark.slow
    @settings(slowly, max_examples=60)
    @given(st.lists(VALUES, min_size=2, max_size=4), st.data())
    def test_values_that_follow_each_other_do_not_mix(self, values, data):
        """Each is a mixture of those before, as read or as put, so that most of its parts are known."""
        shelf, known = OwnShelf(), []
        for value in values:
            mixed = value
            if known and type(value) is list:
                older = data.draw(st.sampled_from(known))
                mixed = [*older, *value] if type(older) is list else [older, *value]
            expected = told_of_round_trip(mixed)
            blob = shelf.put(mixed, listing=data.draw(st.booleans()))
            assert told(shelf.get(blob)) == expected
            known.append(data.draw(st.sampled_from([mixed, shelf.get(blob)])))

    @pytest.mark.slow
    @slowly
    @given(st.lists(MESSAGES, max_size=4))
    def test_putting_what_was_read_adds_nothing(self, messages):
        told_of_round_trip(messages)
        shelf = OwnShelf()
        blob = shelf.put(messages)
        parts = shelf.parts()
        for _ in range(3):
            assert shelf.put(shelf.get(blob)) == blob
            assert OwnShelf(memory=shelf.memory).put(shelf.get(blob)) == blob
        assert shelf.parts() == parts

    def test_what_is_deep_or_empty_stays_what_it_is_and_keys_keep_their_order(self):
        shelf, deep = OwnShelf(), [HumanMessage("x", id="m")]
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
            assert told(shelf.get(shelf.put(value), known=False)) == told(value)


MAKERS = {
    "messages": lambda n: HumanMessage(f"message number {n}", id=f"m{n}"),
    "messages with calls": lambda n: AIMessage(
        "", id=f"m{n}", tool_calls=[{"name": "f", "args": {"n": n}, "id": f"{n}"}], additional_kwargs={"n": n}
    ),
    "texts": lambda n: f"text number {n}",
    "dictionaries": lambda n: {"number": n, "text": f"text number {n}", "more": [n, n + 1]},
    "mixed": lambda n: AIMessage(f"{n}") if n % 3 else f"text number {n}",
}
N = 600
SHORTEST = 16 * MOST_RANGES
"""Bytes that the recipe of a long list has at most."""


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def message(n):
    return MAKERS["messages"](n)


class Added(NamedTuple):
    """What a new version of a value added: parts, bytes of content, and bytes of its recipe."""

    parts: int
    size: int
    recipe: int


class Growing:
    """A shelf that tells what each new version of a value adds, and sees that versions of all ages come back."""

    def __init__(self, value, serde=None):
        self.shelf = OwnShelf(serde)
        self.versions = []
        self.put(value)

    def put(self, value):
        parts, size = self.shelf.parts(), self.shelf.bytes()
        blob = self.shelf.put(value)
        self.versions.append((blob, deepcopy(value)))
        return Added(self.shelf.parts() - parts, self.shelf.bytes() - size, len(blob))

    def check(self):
        fresh = OwnShelf(self.shelf.serde, memory=self.shelf.memory)
        for blob, value in [*self.versions[:: len(self.versions) // 4 or 1], self.versions[-1]]:
            assert self.shelf.get(blob) == fresh.get(blob, known=False) == round_trip(value)


class TestGrowing:
    @pytest.mark.slow
    def test_hundreds_of_appended_elements_cost_no_more_than_they_are(self, make):
        """Lists of others than messages end in a chunk that is written again until it is full."""
        value = []
        growing = Growing(value)
        added = [growing.put(value) for n in range(200) if not value.append(make(n))]
        assert sum(each.parts for each in added) <= 2.2 * len(value)
        assert max(each.size for each in added) <= 6 * CHUNK_BYTES
        assert max(each.recipe for each in added) <= SHORTEST
        growing.check()

    @pytest.mark.slow
    def test_an_element_that_is_removed_edited_or_put_in_between_costs_little(self, make):
        value = [make(n) for n in range(N)]
        growing = Growing(value)
        for place, change in itertools.product(
            (1, N // 2, N - 9),
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
            assert added.recipe <= SHORTEST
        growing.check()

    @pytest.mark.slow("in every form")
    def test_what_is_put_before_all_others_costs_what_is_new(self, make):
        value = [make(n) for n in range(N)]
        growing = Growing(value)
        for n in range(80):
            value.insert(0, make(30_000 + n))
            added = growing.put(value)
            assert added.parts <= 2 * MOST_RANGES
            assert added.size <= 6 * CHUNK_BYTES
            assert added.recipe <= SHORTEST
        growing.check()

    def test_a_reversed_or_shuffled_list_is_the_same_messages_once_more(self):
        value = [message(n) for n in range(N)]
        growing = Growing(value)
        for order in (value[::-1], random.Random(3).sample(value, N), random.Random(4).sample(value, N)):
            added = growing.put(order)
            assert added.size == 0
            assert added.parts <= 2 * N
            assert added.recipe <= SHORTEST
            assert growing.put(order)[:2] == (0, 0)
        growing.check()

    def test_an_entry_of_a_dictionary_a_list_within_a_state_and_an_encrypted_message_cost_what_changed(self):
        entries = {f"key {n}": {"number": n, "text": f"text {n}"} for n in range(N)}
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
            (entries, edit, (8, 24 * CHUNK_BYTES, SHORTEST), None),
            (state, append, (4, 8 * CHUNK_BYTES, 2 * SHORTEST), None),
            (messages, lambda n: messages.append(message(200 + n)), (1, 4 * CHUNK_BYTES, 2 * SHORTEST), aes()),
        ):
            growing = Growing(value, serde)
            for n in range(15):
                change(n)
                added = growing.put(value)
                assert all(each <= limit for each, limit in zip(added, limits, strict=True)), (added, limits)
            growing.check()

    def test_a_large_element_is_a_chunk_of_its_own(self):
        value = ["x" * 5_000 + str(n) if n % 9 == 4 else f"text {n}" for n in range(200)]
        growing = Growing(value)
        value[4] = "small now"
        assert growing.put(value).size <= 6 * CHUNK_BYTES
        growing.check()

    def test_equal_values_are_stored_once(self):
        shelf = OwnShelf()
        for value in ("text " * 200, [HumanMessage("hello", id="m")] * 50, [f"element {n}" for n in range(200)]):
            shelf.put(value)
            parts, size = shelf.parts(), shelf.bytes()
            assert shelf.get(shelf.put(round_trip(value))) == value
            assert (shelf.parts(), shelf.bytes()) == (parts, size)


class TestParallelWrites:
    def test_many_versions_with_parallel_writes_do_not_fragment(self):
        """Each turn, tasks put single messages away before the list that has them all is put."""
        shelf, messages = OwnShelf(), []
        for turn in range(150):
            written = [HumanMessage(f"{turn} {task}", id=f"{turn}-{task}") for task in range(3)]
            for each in written:
                shelf.put([each], listing=False)
            messages += written
            blob = shelf.put(messages)
            assert ranges(blob) <= 3
            if turn % 10 == 0:
                messages = shelf.get(blob)
        assert shelf.get(blob) == messages
        assert shelf.parts() == 2 * len(messages)  # each as what a task wrote, and in its place in the list
        assert shelf.memory.admin.stats()["contents"] == len(messages)

    def test_several_lists_that_grow_in_turn_stay_in_few_ranges(self):
        shelf, lists = OwnShelf(), [[], [], []]
        for turn in range(150):
            for number, each in enumerate(lists):
                each.append(HumanMessage(f"{turn} in {number}", id=f"{turn}-{number}"))
                assert ranges(shelf.put(each)) <= MOST_RANGES
        for each in lists:
            assert shelf.get(shelf.put(each)) == each
        assert shelf.parts() <= 3 * 150 * 8
