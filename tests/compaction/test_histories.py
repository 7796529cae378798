"""The histories that compaction is tried with hold what they are said to hold, often."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_agentmem.testing import provider_problems

from .histories import random_history

SEEDS = range(500)
KINDS = {HumanMessage: "user", AIMessage: "assistant", SystemMessage: "system", ToolMessage: "tool"}

# What is seen in at least so many of the 500 histories.
OFTEN = {
    "user only": 15,
    "tool only": 15,
    "assistant first": 20,
    "no user at all": 15,
    "one user, then tools": 20,
    "several system messages": 100,
    "system in the middle": 50,
    "users in a row": 100,
    "parallel calls": 200,
    "interleaved calls": 60,
    "results in another order": 100,
    "missing result": 100,
    "late result": 40,
    "duplicate result": 50,
    "orphan result": 60,
    "open calls at the end": 30,
    "invalid call": 50,
    "id of a call used again": 60,
    "calls in the content too": 150,
    "calls in the content only": 10,
    "thinking": 150,
    "redacted_thinking": 150,
    "reasoning": 100,
    "image of the user": 100,
    "image of a tool": 80,
    "image of the assistant": 30,
    "image by link": 80,
    "image as data": 80,
    "empty message": 80,
    "huge tool output": 80,
    "huge user message": 40,
    "name that OpenAI refuses": 40,
    "other scripts": 300,
    "no ids": 80,
    "some ids": 80,
    "valid for every provider": 50,
}


@pytest.fixture(scope="module")
def histories():
    return [random_history(seed) for seed in SEEDS]


@pytest.fixture(scope="module")
def seen(histories):
    return Counter(feature for messages in histories for feature in set(features(messages)))


@pytest.mark.parametrize("feature", OFTEN)
def test_each_feature_occurs_often(seen, feature):
    assert seen[feature] >= OFTEN[feature]


def test_a_seed_always_gives_the_same_history_in_new_objects(histories):
    for seed in SEEDS[::50]:
        again = random_history(seed)
        assert again == histories[seed]
        assert not {id(message) for message in again} & {id(message) for message in histories[seed]}


def test_seeds_differ(histories):
    assert len({"".join(str(message.content)[:40] for message in messages) for messages in histories}) > 490


def test_the_size_is_what_is_asked_for():
    sizes = [len(random_history(seed, size=300)) for seed in range(200)]
    assert sum(300 <= size <= 330 for size in sizes) > 180
    assert all(0 < len(random_history(seed, size=1)) < 40 for seed in range(200))


def features(messages):
    kinds = [KINDS[type(message)] for message in messages]
    spoken = [kind for kind in kinds if kind != "system"]
    head = next((place for place, kind in enumerate(kinds) if kind != "system"), len(kinds))
    with_id = sum(message.id is not None for message in messages)
    whole = {
        "user only": set(spoken) == {"user"},
        "tool only": set(spoken) == {"tool"},
        "assistant first": spoken[:1] == ["assistant"],
        "no user at all": "user" not in kinds,
        "one user, then tools": spoken.count("user") == 1 and spoken.count("tool") > 5,
        "several system messages": head > 1,
        "system in the middle": "system" in kinds[head:],
        "users in a row": ("user", "user") in pairwise(kinds),
        "open calls at the end": isinstance(messages[-1], AIMessage) and bool(messages[-1].tool_calls),
        "no ids": with_id == 0,
        "some ids": 0 < with_id < len(messages),
        "valid for every provider": not provider_problems(messages),
    }
    yield from (feature for feature, holds in whole.items() if holds)
    for message, kind in zip(messages, kinds, strict=True):
        yield from of_message(message, kind)
    yield from of_calls(messages)


def blocks_of(message):
    return message.content if isinstance(message.content, list) else []


def calls_in(message):
    return [*getattr(message, "tool_calls", ()), *(each for each in blocks_of(message) if each["type"] == "tool_use")]


def of_message(message, kind):
    whole = {
        "empty message": is_empty(message),
        "name that OpenAI refuses": message.name == "Dr. Who",
        "huge tool output": kind == "tool" and len(str(message.content)) >= 20_000,
        "huge user message": kind == "user" and len(str(message.content)) >= 8_000,
        "other scripts": any(ord(letter) > 0x400 for letter in str(message.text)),
        "parallel calls": kind == "assistant" and len(message.tool_calls) > 1,
        "invalid call": kind == "assistant" and bool(message.invalid_tool_calls),
    }
    yield from (feature for feature, holds in whole.items() if holds)
    for block in blocks_of(message):
        yield from of_block(block, message, kind)


def is_empty(message):
    return not (
        str(message.text).strip() or calls_in(message) or {each["type"] for each in blocks_of(message)} - {"text"}
    )


def of_block(block, message, kind):
    if block["type"] == "tool_use":
        yield "calls in the content too" if message.tool_calls else "calls in the content only"
    elif block["type"] in {"thinking", "redacted_thinking", "reasoning"}:
        yield block["type"]
    elif block["type"] in {"image", "image_url"}:
        yield {"tool": "image of a tool", "user": "image of the user"}.get(kind, "image of the assistant")
        yield "image by link" if "https:" in str(block) else "image as data"


def of_calls(messages):
    """What becomes of calls. A result belongs to the latest call of its id."""
    made: dict[str, tuple[int, int]] = {}  # where each id was called last: in which message, as which of its calls
    answered: set[str] = set()
    before = (-1, -1)  # the call that the result before answered
    asking = 0
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            key = message.tool_call_id
            yield from of_result(messages[:place], key, made.get(key), asking, before, again=key in answered)
            before = made.get(key, before)
            answered.add(key)
        elif ids := [call["id"] for call in calls_in(message)]:
            if made.keys() & ids:
                yield "id of a call used again"
            made |= {key: (place, number) for number, key in enumerate(ids)}
            answered -= {*ids}
            asking = place
    if any(key not in answered for key, (place, _) in made.items() if place < asking):
        yield "missing result"


def of_result(messages, key, call, asking, before, *, again):
    if call is None:
        yield "orphan result"
    elif again:
        yield "duplicate result"
    elif any(isinstance(other, HumanMessage) for other in messages[call[0] :]):
        yield "late result"
    elif call[0] < asking:
        yield "interleaved calls"
    elif call[0] == before[0] and call[1] < before[1]:
        yield "results in another order"
