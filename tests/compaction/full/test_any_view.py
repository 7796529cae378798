"""Views of random growing histories are valid for every provider, and account for every message that they omit.

Two thousand random histories, each given step by step to a node or to a managed conversation, with any processors.
Every message is shown, replaced by a shown summary, or reported as dropped by an event; none is there twice.
`pytest -m deep` tries twenty thousand, and asks the providers' own clients about each.
"""

import random
from collections import Counter

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import CompactionEvent, CompactionFellShort
from langchain_agentmem.compaction import CompactionMiddleware, replaced_messages
from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig
from langchain_agentmem.compaction.compaction_node import CompactionNode
from langchain_agentmem.messages.history_repair import repair_messages
from langchain_agentmem.messages.langchain_messages import to_langchain
from langchain_agentmem.messages.message_marks import summary_in
from langchain_agentmem.testing import provider_problems
from tests.compaction.loopback import chat_client, loopback
from tests.compaction.marked import (
    COUNTER,
    costs,
    marked_history,
    model_of,
    places_in,
    random_policy,
    with_halves,
    with_odd_calls,
)
from tests.compaction.validators import IMAGE, refusals
from tests.support.graphs import at
from tests.support.histories import PIXEL
from tests.support.models import calling


def test_repair_accepts_deep_arguments_and_empty_images():
    deep = {}
    for _ in range(900):
        deep = {"deeper": deep}
    call = AIMessage("", tool_calls=[{"name": "look", "args": deep, "id": "c1"}])
    nothing = AIMessage([{"type": "image_url", "image_url": None}, {"type": "image_url", "image_url": {}}, "Here."])
    view = repair_messages(
        [HumanMessage("Draw."), call, ToolMessage("ok", tool_call_id="c1"), nothing, HumanMessage("And?")]
    )
    assert view[1].tool_calls == call.tool_calls
    assert [each.type for each in view] == ["human", "ai", "tool", "ai", "human"]


CHUNK = 200
"""Histories of a chunk; of eight one is shown to the clients, which are slow, and of the deep ones each."""
DEEP = [pytest.param(chunk, marks=[pytest.mark.deep, pytest.mark.timeout(7200)]) for chunk in range(10, 110)]


@pytest.mark.slow("in every form")
@pytest.mark.parametrize("chunk", [*range(10), *DEEP])
def test_random_views_are_valid_and_lose_nothing(chunk):
    check_histories(":memory:", range(chunk * CHUNK, (chunk + 1) * CHUNK), asked_one_of=8 if chunk < 10 else 1)


@pytest.mark.slow("in every form")
def test_random_views_are_valid_on_every_engine(url):
    check_histories(url, range(60))


def check_histories(url, seeds, *, asked_one_of=100):
    events = []
    with AgentMemory(url, hooks=[events.append]) as memory:
        for seed in seeds:
            replay_history(memory, events, seed, asked=seed % asked_one_of == 0)


GENERATED_IMAGES = [
    {"type": "image_generation_call", "id": "ig_1", "result": PIXEL, "status": "completed"},
    {"type": "image", "id": "ig_1", "base64": PIXEL, "mime_type": "image/png"},
    IMAGE,
    {"type": "media", "mime_type": "image/png", "data": PIXEL},
    {"inline_data": {"mime_type": "image/png", "data": PIXEL}},
    {"type": "input_image", "image_url": IMAGE["image_url"]["url"]},
]


@pytest.mark.parametrize("block", GENERATED_IMAGES)
def test_generated_images_are_shown_within_the_budget(block):
    called = [AIMessage([block], tool_calls=calling("look").tool_calls), ToolMessage("ok", tool_call_id="call-1")]
    for said in ([AIMessage([block, {"type": "text", "text": "Here."}], id="drawn")], [*called, AIMessage("Done.")]):
        history = [HumanMessage("Draw a cat.", id="ask"), *said, HumanMessage("Make it blue.", id="more")]
        with AgentMemory(":memory:") as memory, loopback() as server:
            views = [kind(memory, None, None, kind.__name__).view(history, history) for kind in (Node, Managed)]
            for view in views:
                assert IMAGE in view[-2].content
                assert view[-1].content == "Make it blue."
                assert refusals(view) == provider_problems(view) == []
                assert repair_messages(view) == view
                chat_client(server).invoke(view)
            before = Node(memory, None, None, "before").view(history[:-1], [])
            assert before == views[0][: len(before)]
            small = ManagedMemoryConfig(threshold_tokens=700, token_counter="estimate")
            view = Node(memory, None, small, "small").view([*history, AIMessage("Blue."), HumanMessage("Thanks.")], [])
            assert not any(IMAGE in each.content for each in view if isinstance(each.content, list))


def replay_history(memory, events, seed, *, asked=False):
    """Give a history step by step to a node or a managed conversation; clients check the last view, with memory too."""
    dice = random.Random(seed)
    given = with_halves(with_odd_calls(marked_history(seed), seed), seed)
    kind = dice.choice((Node, Node, Middleware, Managed, Managed))
    if kind is Middleware:  # an agent's system message is no message of its state
        given = [message for message in given if not isinstance(message, SystemMessage)]
    if not repair_messages(given):
        return  # nothing was said
    model = model_of("good")
    threshold = max(60, int(costs(given) * dice.uniform(0.1, 0.8)))
    policy = random_policy(dice)
    config = ManagedMemoryConfig(threshold_tokens=threshold, token_counter=COUNTER, active_context=policy)
    shown = kind(memory, model, config, f"{kind.__name__}-{seed}")
    account = MessageAccounting(memory, events, shown.name, config, f"seed {seed}, {kind.__name__}")
    length, history = 0, []
    while length < len(given):
        step = dice.randint(1, 9)
        new, length = given[length : length + step], length + step
        if shown.removes and history and dice.random() < 0.05:
            history = [*history]
            del history[dice.randrange(len(history))]  # as a RemoveMessage does to a graph's state
            new = [RemoveMessage(id="gone"), *new]
            account.begins_anew = True
        history = [*history, *new]
        if not repair_messages(history):
            continue
        view = shown.view(history, new)
        account.check(history, view)
        calls = len(model.asked)
        if length >= len(given) or dice.random() < 0.2:
            assert shown.view(history, []) == view, f"{account.where}: the second time is another"
            assert len(model.asked) == calls, f"{account.where}: a second call for the same history"
            compacted = [event for event in events if isinstance(event, CompactionEvent)]
            assert not compacted, f"{account.where}: compacted again, though nothing was said"
        if asked and length >= len(given):
            assert refusals(view) == [], account.where
            memory.layers("user").core.set("name", "Ada")
            assert refusals(memory.inject("user", limit=0).invoke(view)) == [], account.where


# --- What shows a history ---------------------------------------------------------------------------------------------


class Node:
    removes = True

    def __init__(self, memory, model, config, name):
        self.name = name
        self.node = CompactionNode(memory, model, config)

    def view(self, history, new):
        return self.node.invoke([*history], at(self.name))


class Middleware(Node):
    def __init__(self, memory, model, config, name):
        self.name = name
        self.edit = CompactionMiddleware(memory, model, config, conversation_id=name, tools=False)

    def view(self, history, new):
        messages = [*history]
        self.edit.apply(messages, count_tokens=costs)
        return messages


class Managed:
    removes = False

    def __init__(self, memory, model, config, name):
        self.name = name
        self.chat = memory.managed_conversation(name, config=config, model=model)

    def view(self, history, new):
        self.chat.add_messages([message.model_copy(deep=True) for message in new])
        return self.chat.get_context()


# --- What must hold ---------------------------------------------------------------------------------------------------


class MessageAccounting:
    """Tracks for each message of a history whether it is shown, summarized or dropped."""

    def __init__(self, memory, events, name, config, where):
        self.memory, self.events, self.name, self.config, self.where = memory, events, name, config, where
        self.told = set()
        self.begins_anew = False

    def check(self, history, view):
        assert provider_problems(view) == [], self.where
        events = [*self.events]
        self.events.clear()
        if costs(view) > self.config.threshold_tokens:
            assert any(isinstance(event, CompactionFellShort) for event in events), f"{self.where}: it is too large"
        shown = places_in(message for message in view if summary_in(message) is None)
        summaries = [message for message in view if summary_in(message) is not None]
        stand = [message for summary in summaries for message in self.behind(summary)]
        behind = places_in(stand)
        if self.begins_anew:  # what left the context before may be in it again
            self.told -= {*shown}
            self.begins_anew = False
        self.told.update(self.dropped(events))
        times = Counter(shown + behind)
        assert [place for place, count in times.items() if count > 1] == [], f"{self.where}: twice"
        assert not self.told & {*shown}, f"{self.where}: told as gone, and shown"
        lost = {*places_in(history)} - {*shown} - {*behind} - self.told
        assert not lost, f"{self.where}: lost {sorted(lost)}"
        assert sum(summary_in(message).stands_for for message in summaries) == len(stand), self.where

    def behind(self, summary):
        return [*map(to_langchain, replaced_messages(self.memory, summary, conversation_id=self.name))]

    def dropped(self, events):
        """Return the indices of the messages that events report as dropped, read from the log."""
        keys = {key for event in events if isinstance(event, CompactionEvent) for key in event.dropped_ids}
        said = self.memory.conversation(self.name).messages if keys else []
        return places_in(message for message in said if message.id in keys)
