"""Whatever a history looks like, and however it grew: a view is valid for every provider, and what it does not show is
accounted for.

Two thousand random histories, each given step by step to a node or to a managed conversation, with any processors. All
that was said is shown, stands behind a summary that is shown, or was told of when it left; nothing is there twice.
`pytest -m deep` tries twenty thousand, and asks the providers' own clients about each.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import CompactionEvent, CompactionFellShort
from langchain_agentmem.compaction import CompactionMiddleware, messages_behind
from langchain_agentmem.compaction.compaction_config import (
    ActiveContextPolicyConfig,
    BackwardPackingConfig,
    ManagedMemoryConfig,
    ToolOffloadConfig,
    ToolTruncationConfig,
)
from langchain_agentmem.compaction.compaction_node import CompactionNode
from langchain_agentmem.language_models.summarization import SummarizationConfig
from langchain_agentmem.messages.history_repair import repaired
from langchain_agentmem.messages.langchain_messages import to_langchain
from langchain_agentmem.messages.message_marks import summary_in
from langchain_agentmem.testing import assert_valid_for_providers, provider_problems
from tests.compaction.loopback import loopback
from tests.compaction.marked import COUNTER, Model, costs, marked_history, places_in, with_halves, with_odd_calls
from tests.compaction.provider_clients import CLIENTS, chat_client
from tests.compaction.validators import IMAGE, refusals
from tests.support.histories import PIXEL

CHUNKS = 10
HISTORIES = 2_000
ASKED_ONE_OF = 8
"""Of so many histories the clients are asked about one: they are slow."""
ORDERS = (
    ("tool_truncation", "summarization", "backward_packing"),
    ("tool_offload", "summarization"),
    ("summarization",),
    ("tool_truncation", "tool_offload", "summarization", "backward_packing"),
    ("backward_packing",),
    None,
)
"""Processors; None is a sliding window."""


@pytest.mark.slow("in every form")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_it_is_valid_and_what_it_does_not_show_is_accounted_for(chunk):
    events = []
    with AgentMemory(":memory:", hooks=[events.append]) as memory:
        for seed in range(chunk, HISTORIES, CHUNKS):
            follow(memory, events, seed, asked=seed % ASKED_ONE_OF == 0)


@pytest.mark.slow("in every form")
def test_so_it_is_on_either_engine(url):
    events = []
    with AgentMemory(url, hooks=[events.append]) as memory:
        for seed in range(60):
            follow(memory, events, seed)


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_so_it_is_for_twenty_thousand(chunk):
    events = []
    with AgentMemory(":memory:", hooks=[events.append]) as memory:
        for seed in range(HISTORIES + chunk, HISTORIES + 20_000, CHUNKS):
            follow(memory, events, seed, asked=True)


HALF = "half \ud83d of a pair"
RAW = {"id": "c\ud83d", "type": "function", "function": {"name": "look", "arguments": '{"a": "\ud83d"}'}}


def with_halves_everywhere():
    calls = [
        {"name": "look\ud83d", "args": {"a\udc00": [HALF, {"b": HALF}]}, "id": f"c{half}"} for half in "\ud83d\udc00"
    ]
    use = {"type": "tool_use", "id": "c\ud83d", "name": "look\ud83d", "input": {"a": HALF}}
    return [
        SystemMessage(HALF),
        HumanMessage([{"type": "text", "text": HALF}, IMAGE], name="Maya\ud83d"),
        AIMessage([{"type": "text", "text": HALF}, use], tool_calls=calls, additional_kwargs={"tool_calls": [RAW]}),
        ToolMessage([{"type": "text", "text": HALF}], tool_call_id="c\ud83d", name="look\ud83d"),
        ToolMessage(HALF, tool_call_id="c\udc00"),
        AIMessage(HALF, additional_kwargs={"refusal": HALF}),
        HumanMessage("two halves \ud83d\ude00"),
    ]


@pytest.mark.parametrize("client", CLIENTS)
def test_half_of_a_surrogate_pair_reaches_no_client(client):
    asked, given = [], with_halves_everywhere()
    with AgentMemory(":memory:") as memory, loopback() as server:

        def summarize(messages):
            asked.extend(messages)
            return client(server).invoke(messages) and "{}"

        memory.layers("user").core.set("name", HALF)
        memory.inject("user").invoke([HumanMessage(HALF)])
        summarization = SummarizationConfig(timeout=None, grace_recent_messages=0)
        policy = ActiveContextPolicyConfig(summarization=summarization)
        config = ManagedMemoryConfig(threshold_tokens=60, active_context=policy)
        views = [
            Node(memory, None, None, "node").view(given, []),
            Middleware(memory, None, None, "middleware").view(given[1:], []),
            Managed(memory, None, None, "managed").view(given, given),
            Node(memory, summarize, config, "short").view(given, []),
            memory.inject("user").invoke([HumanMessage(HALF)]),
        ]
        for view in views:
            assert_valid_for_providers(view)
            client(server).invoke(view)
        assert asked
        assert_valid_for_providers(asked)
        assert views[0][-1].content == "two halves \U0001f600"
        assert views[0][-2].content == "half \ufffd of a pair"
        assert [each.content for each in memory.conversation("managed").messages][-2:] == [
            given[-2].content,
            given[-1].content,
        ]
    assert given == with_halves_everywhere()


def test_what_is_nested_very_deeply_or_shows_no_image_stops_no_view():
    deep = {}
    for _ in range(900):
        deep = {"deeper": deep}
    call = AIMessage("", tool_calls=[{"name": "look", "args": deep, "id": "c1"}])
    nothing = AIMessage([{"type": "image_url", "image_url": None}, {"type": "image_url", "image_url": {}}, "Here."])
    view = repaired([HumanMessage("Draw."), call, ToolMessage("ok", tool_call_id="c1"), nothing, HumanMessage("And?")])
    assert view[1].tool_calls == call.tool_calls
    assert [each.type for each in view] == ["human", "ai", "tool", "ai", "human"]


DRAWN = [
    {"type": "image_generation_call", "id": "ig_1", "result": PIXEL, "status": "completed"},
    {"type": "image", "id": "ig_1", "base64": PIXEL, "mime_type": "image/png"},
    IMAGE,
    {"type": "media", "mime_type": "image/png", "data": PIXEL},
    {"inline_data": {"mime_type": "image/png", "data": PIXEL}},
    {"type": "input_image", "image_url": IMAGE["image_url"]["url"]},
]


@pytest.mark.parametrize("block", DRAWN)
def test_an_image_that_the_model_made_is_shown_to_it_while_there_is_room(block):
    call = {"name": "look", "args": {}, "id": "c1"}
    drawn = AIMessage([block, {"type": "text", "text": "Here."}], id="drawn")
    for said in (
        [drawn],
        [AIMessage([block], tool_calls=[call]), ToolMessage("ok", tool_call_id="c1"), AIMessage("Done.")],
    ):
        history = [HumanMessage("Draw a cat.", id="ask"), *said, HumanMessage("Make it blue.", id="more")]
        with AgentMemory(":memory:") as memory, loopback() as server:
            views = [
                Node(memory, None, None, "node").view(history, []),
                Managed(memory, None, None, "managed").view(history, history),
            ]
            for view in views:
                assert IMAGE in view[-2].content
                assert view[-1].content == "Make it blue."
                assert refusals(view) == provider_problems(view) == []
                assert repaired(view) == view
                chat_client(server).invoke(view)
            assert len(memory.conversation("managed").messages) == len(history)
            before = Node(memory, None, None, "before").view(history[:-1], [])
            assert before == views[0][: len(before)]
            small = ManagedMemoryConfig(threshold_tokens=700, token_counter="estimate")
            view = Node(memory, None, small, "small").view([*history, AIMessage("Blue."), HumanMessage("Thanks.")], [])
            assert not any(IMAGE in each.content for each in view if isinstance(each.content, list))


def follow(memory, events, seed, *, asked=False):
    """Give ever more of a history to whatever shows it; the clients are asked about the last view, with memory, too."""
    dice = random.Random(seed)
    given = with_halves(with_odd_calls(marked_history(seed), seed), seed)
    kind = dice.choice((Node, Node, Middleware, Managed, Managed))
    if kind is Middleware:  # an agent's system message is no message of its state
        given = [message for message in given if not isinstance(message, SystemMessage)]
    if not repaired(given):
        return  # nothing was said
    model = Model("good", seed)
    config = random_config(dice, given)
    shown = kind(memory, model, config, f"{kind.__name__}-{seed}")
    account = Account(memory, events, shown.name, config, f"seed {seed}, {kind.__name__}")
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
        if not repaired(history):
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


def random_config(dice, given):
    grace = dice.choice((0, 1, 1, 2))
    order = dice.choice(ORDERS)
    limits = ActiveContextPolicyConfig(
        mode="sliding_window" if order is None else "compaction",
        processor_order=[*(order or ORDERS[0])],
        min_reduction_ratio=dice.choice((0.2, 0.4, 0.7)),
        tool_truncation=ToolTruncationConfig(max_tool_message_tokens=dice.randint(5, 60), grace_recent_messages=grace),
        tool_offload=ToolOffloadConfig(
            max_tool_message_tokens=dice.randint(30, 100), preview_tokens=10, grace_recent_messages=grace
        ),
        summarization=SummarizationConfig(timeout=None, grace_recent_messages=grace),
        backward_packing=BackwardPackingConfig(grace_recent_messages=grace),
    )
    threshold = max(60, int(costs(given) * dice.uniform(0.1, 0.8)))
    return ManagedMemoryConfig(threshold_tokens=threshold, token_counter=COUNTER, active_context=limits)


# --- What shows a history ---------------------------------------------------------------------------------------------


class Node:
    removes = True

    def __init__(self, memory, model, config, name):
        self.name = name
        self.node = CompactionNode(memory, model, config)

    def view(self, history, new):
        return self.node.invoke([*history], {"configurable": {"thread_id": self.name}})


class Middleware:
    removes = True

    def __init__(self, memory, model, config, name):
        self.name = name
        self._compactor = CompactionMiddleware(memory, model, config, conversation_id=name, tools=False)

    def view(self, history, new):
        seen = []
        self._compactor.wrap_model_call(request_of(history), lambda request: seen.append(request.messages))
        return seen[0]


class Managed:
    removes = False

    def __init__(self, memory, model, config, name):
        self.name = name
        self.chat = memory.managed_conversation(name, config=config, model=model)

    def view(self, history, new):
        self.chat.add_messages([message.model_copy(deep=True) for message in new])
        return self.chat.get_context()


def request_of(messages):
    from langchain.agents.middleware.types import ModelRequest

    return ModelRequest(
        model=None,
        messages=[*messages],
        system_message=None,
        tools=[],
        tool_choice=None,
        response_format=None,
        state={},
        runtime=None,
    )


# --- What must hold ---------------------------------------------------------------------------------------------------


class Account:
    """What became of each message of a history."""

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
        return [*map(to_langchain, messages_behind(self.memory, summary, conversation_id=self.name))]

    def dropped(self, events):
        """The places of what left the context, as events told it: its texts are in the log."""
        keys = {key for event in events if isinstance(event, CompactionEvent) for key in event.dropped_ids}
        said = self.memory.conversation(self.name).messages if keys else []
        return places_in(message for message in said if message.id in keys)
