"""Stamps of messages: a message changed in place is never mistaken for the stored one."""

import copy
import itertools
import pickle
import random
from datetime import UTC, datetime

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import convert_to_messages, message_chunk_to_message

from langchain_agentmem.threads.value_codec import ValueDraft
from tests.threads.own_store import OwnStore, told

FLAT = {
    "human": lambda: HumanMessage("hello", id="m"),
    "system": lambda: SystemMessage("hello", id="m", name="n"),
    "assistant": lambda: AIMessage("hello"),
    "tool": lambda: ToolMessage("hello", tool_call_id="c", id="m"),
}
DEEP = {
    "blocks": lambda: HumanMessage([{"type": "text", "text": "hello"}, "more"], id="m"),
    "metadata": lambda: AIMessage("hello", id="m", response_metadata={"model": {"name": "x", "size": 1}}),
    "calls": lambda: AIMessage(
        "hello",
        id="m",
        tool_calls=[{"name": "f", "args": {"a": [1, {"b": True}]}, "id": "c"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    ),
    "kwargs": lambda: HumanMessage("hello", id="m", additional_kwargs={"a": {"b": [1, 2.0, None, "x", b"x"]}}),
    "artifact": lambda: ToolMessage("hello", tool_call_id="c", id="m", artifact={"rows": [[1, 2], [3]]}),
}
MAKERS = FLAT | DEEP


def known(part_store, message):
    """Return whether the part store recognizes a message as stored."""
    return next(part_store.known.part_numbers((message,), part_store.place())) is not None


def handed_out(part_store, message, way):
    """Return a stamped message: as put, as read, or as read twice."""
    blob = part_store.put([message])
    if way == "put":
        return message
    for _ in range(2 if way == "read again" else 1):
        [message] = part_store.get(blob, known=way != "read")
    return message


@pytest.fixture
def part_store():
    return OwnStore()


WAYS = ("put", "read", "read again")


@pytest.fixture
def each(part_store):
    """Return a function that yields a stamped message of each kind, stamped in each way."""

    def give(kinds=MAKERS):
        for make in kinds.values():
            for way in WAYS:
                message = handed_out(part_store, make(), way)
                assert known(part_store, message)
                yield message

    return give


def set_key(fields, key, value):
    fields[key] = value


CHANGES = {
    "an attribute of its own": lambda m: setattr(m, "reviewed", True),
    "an object": lambda m: set_key(m.additional_kwargs, "when", datetime(2026, 1, 1, tzinfo=UTC)),
    "what cannot be compared": lambda m: set_key(m.additional_kwargs, "odd", Incomparable()),
    "fields behind its back": lambda m: m.__dict__.update(content="other"),
    "fields that are replaced": lambda m: object.__setattr__(m, "__dict__", m.__dict__ | {"name": "Ada"}),
}


class Incomparable:
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError


class CountedMoves(dict):
    """The new numbers of copied parts, which count how often they are iterated."""

    passes = 0

    def __iter__(self):
        self.passes += 1
        return super().__iter__()


class TestInPlaceChanges:
    def test_every_in_place_change_is_detected(self, part_store, each):
        for name, change in CHANGES.items():
            for message in each():
                change(message)
                assert not known(part_store, message), name

    def test_changes_of_nested_values_are_detected(self, part_store, each):
        for message in each(DEEP):
            places = list(places_in(message.__dict__))
            assert len(places) > 5
            for container, key in places:
                before = container[key]
                for other in others(before):
                    container[key] = other
                    assert not known(part_store, message), f"{before!r} became {other!r}"
                container[key] = before
                assert known(part_store, message)

    def test_equal_values_of_other_types_are_detected(self, part_store):
        for pair in (
            (True, 1), (False, 0), (1, 1.0), (0.0, -0.0), ("1", 1), ("x", b"x"), (None, False), ([], {}), ("", []),
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([[]], [[], []]), ([1, 2], [2, 1]), ([1], [1, None]), ({"a": 1}, {}),
        ):  # fmt: skip
            for (before, after), way in itertools.product((pair, pair[::-1]), WAYS):
                message = handed_out(part_store, HumanMessage("x", id="m", additional_kwargs={"value": before}), way)
                message.additional_kwargs["value"] = after
                assert not known(part_store, message), (before, after, way)

    def test_one_changed_message_among_many_is_stored(self, part_store):
        messages = [HumanMessage(f"{n}", id=f"m{n}") for n in range(500)]
        blob = part_store.put(messages)
        for n in (0, 127, 128, 250, 499):
            read = part_store.get(blob)
            read[n].content += " changed"
            parts = part_store.parts()
            again = part_store.get(part_store.put(read))
            assert [m.content for m in again] == [f"{m} changed" if m == n else f"{m}" for m in range(500)]
            assert part_store.parts() == parts + 1

    @pytest.mark.parametrize("seed", range(20))
    def test_the_known_prefix_ends_before_the_first_changed_or_new_item(self, part_store, seed):
        chance = random.Random(seed)
        count = chance.choice([1, 2, 127, 128, 129, 300])
        items = [chance.choice([*MAKERS.values()])() for _ in range(count)]
        blob = part_store.put(items)
        items = part_store.get(blob, known=True) if chance.random() < 0.5 else items
        for _ in range(chance.randrange(4)):
            index = chance.randrange(len(items))
            changed = chance.choice([HumanMessage("new"), "no message", items[index]])
            if changed is items[index] and changed != "no message":
                changed.additional_kwargs = {"changed": True}
            items[index] = changed
        numbers = list(part_store.known.part_numbers(items, part_store.place()))
        expected = numbers.index(None) if None in numbers else len(numbers)
        count, ranges = part_store.known.known_prefix(items, part_store.place())
        assert count == expected
        assert [number for low, high in ranges for number in range(low, high)] == numbers[:count]

    def test_copied_parts_are_searched_once_for_a_list_of_many_ranges(self, part_store):
        messages = [HumanMessage(str(number), id=str(number)) for number in range(300)]
        part_store.put(messages)
        place, items = part_store.place(), messages[::-1]
        numbers = list(part_store.known.part_numbers(items, place))
        draft = ValueDraft(part_store.serde, part_store.known, place, for_channels=True)
        draft.make_recipe(items)  # each message is a range of its own
        moves = CountedMoves({number: number + 1000 for number in numbers})
        draft.stamp_messages(place, [], moves)
        assert list(part_store.known.part_numbers(items, place)) == [number + 1000 for number in numbers]
        assert moves.passes <= 1

    def test_a_list_may_contain_an_object_twice(self, part_store):
        message = HumanMessage("hello", id="m")
        for _ in range(2):
            assert [m.content for m in part_store.get(part_store.put([message, message]))] == [message.content] * 2
            message.content = "changed"


def places_in(value):
    """Yield the container and key of every value in nested lists and dictionaries."""
    keys = list(value) if type(value) is dict else range(len(value))
    for key in keys:
        yield value, key
        if type(value[key]) in (dict, list):
            yield from places_in(value[key])


def others(value):
    yield from (
        other
        for other in (None, "", "other", 0, 1, True, 1.5, [], {}, [value], {"x": value})
        if told(other) != told(value)
    )


COPIES = {
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "model_copy": lambda m: m.model_copy(),
    "deep model_copy": lambda m: m.model_copy(deep=True),
    "built again": lambda m: type(m)(**m.model_dump()),
    "validated": lambda m: type(m).model_validate(m.model_dump()),
    "converted": lambda m: convert_to_messages([m])[0],
    "unchunked": message_chunk_to_message,
}


class TestCopies:
    def test_copies_of_messages_carry_no_stamp(self, part_store, each):
        for name, make in COPIES.items():
            for message in each():
                again = make(message)
                assert again == message, name
                if name not in ("built again", "validated", "converted", "unchunked"):
                    assert type(again.__pydantic_fields_set__) is set
                    assert again.__pydantic_fields_set__ == message.__pydantic_fields_set__
                    assert not known(part_store, again), name
                assert known(part_store, message), name
                blob, expected = part_store.put([again]), copy.deepcopy(message)
                again.content = "changed"
                assert part_store.get(part_store.put([again]))[0].content == "changed", name
                assert part_store.get(blob) == [expected], name

    def test_stamps_do_not_affect_pydantic_output(self, part_store):
        message = HumanMessage("hello", id="m")
        fields, dumped = set(message.model_fields_set), message.model_dump(exclude_unset=True)
        part_store.put([message])
        assert message.model_fields_set == fields
        assert message.model_dump(exclude_unset=True) == dumped
        assert message.model_dump_json() == HumanMessage("hello", id="m").model_dump_json()
        assert repr(message) == repr(HumanMessage("hello", id="m"))
        assert message == HumanMessage("hello", id="m")
        assert message.model_fields_set.copy() == message.model_fields_set | set() == fields
