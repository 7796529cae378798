"""A message that was changed in place, however slightly, is never taken for the one that was stored."""

import copy
import itertools
import pickle
from datetime import UTC, datetime

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import convert_to_messages, message_chunk_to_message

from tests.threads.own_shelf import OwnShelf, told

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


def known(shelf, message):
    """Whether a message is taken for one that lies on the shelf already."""
    return next(shelf.known.numbers((message,), shelf.place())) is not None


def handed_out(shelf, message, way):
    """A message that has a stamp: as it was put, or as it was read, once or again."""
    blob = shelf.put([message])
    if way == "put":
        return message
    for _ in range(2 if way == "read again" else 1):
        [message] = shelf.get(blob, known=way != "read")
    return message


@pytest.fixture
def shelf():
    return OwnShelf()


WAYS = ("put", "read", "read again")


@pytest.fixture
def each(shelf):
    """Gives a message of each kind, each of which has its stamp in each way."""

    def give(kinds=MAKERS):
        for make in kinds.values():
            for way in WAYS:
                message = handed_out(shelf, make(), way)
                assert known(shelf, message)
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


class TestChangesInPlace:
    def test_no_change_is_overlooked(self, shelf, each):
        for name, change in CHANGES.items():
            for message in each():
                change(message)
                assert not known(shelf, message), name

    def test_no_value_deep_within_is_overlooked(self, shelf, each):
        for message in each(DEEP):
            places = list(places_in(message.__dict__))
            assert len(places) > 5
            for container, key in places:
                before = container[key]
                for other in others(before):
                    container[key] = other
                    assert not known(shelf, message), f"{before!r} became {other!r}"
                container[key] = before
                assert known(shelf, message)

    def test_equal_is_not_the_same(self, shelf):
        for pair in (
            (True, 1), (False, 0), (1, 1.0), (0.0, -0.0), ("1", 1), ("x", b"x"), (None, False), ([], {}), ("", []),
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([[]], [[], []]), ([1, 2], [2, 1]), ([1], [1, None]), ({"a": 1}, {}),
        ):  # fmt: skip
            for (before, after), way in itertools.product((pair, pair[::-1]), WAYS):
                message = handed_out(shelf, HumanMessage("x", id="m", additional_kwargs={"value": before}), way)
                message.additional_kwargs["value"] = after
                assert not known(shelf, message), (before, after, way)

    def test_one_that_changes_among_many_is_found(self, shelf):
        messages = [HumanMessage(f"{n}", id=f"m{n}") for n in range(500)]
        blob = shelf.put(messages)
        for n in (0, 127, 128, 250, 499):
            read = shelf.get(blob)
            read[n].content += " changed"
            parts = shelf.parts()
            again = shelf.get(shelf.put(read))
            assert [m.content for m in again] == [f"{m} changed" if m == n else f"{m}" for m in range(500)]
            assert shelf.parts() == parts + 1

    def test_the_same_object_may_stand_in_a_list_twice(self, shelf):
        message = HumanMessage("hello", id="m")
        for _ in range(2):
            assert [m.content for m in shelf.get(shelf.put([message, message]))] == [message.content] * 2
            message.content = "changed"


def places_in(value):
    """Every place in nested lists and dictionaries that holds something: its container and its key."""
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
    def test_a_copy_is_the_same_message_without_its_stamp_and_may_be_changed(self, shelf, each):
        for name, make in COPIES.items():
            for message in each():
                again = make(message)
                assert again == message, name
                if name not in ("built again", "validated", "converted", "unchunked"):
                    assert type(again.__pydantic_fields_set__) is set
                    assert again.__pydantic_fields_set__ == message.__pydantic_fields_set__
                    assert not known(shelf, again), name
                assert known(shelf, message), name
                blob, expected = shelf.put([again]), copy.deepcopy(message)
                again.content = "changed"
                assert shelf.get(shelf.put([again]))[0].content == "changed", name
                assert shelf.get(blob) == [expected], name

    def test_what_pydantic_tells_of_a_message_is_as_before(self, shelf):
        message = HumanMessage("hello", id="m")
        fields, dumped = set(message.model_fields_set), message.model_dump(exclude_unset=True)
        shelf.put([message])
        assert message.model_fields_set == fields
        assert message.model_dump(exclude_unset=True) == dumped
        assert message.model_dump_json() == HumanMessage("hello", id="m").model_dump_json()
        assert repr(message) == repr(HumanMessage("hello", id="m"))
        assert message == HumanMessage("hello", id="m")
        assert message.model_fields_set.copy() == message.model_fields_set | set() == fields
