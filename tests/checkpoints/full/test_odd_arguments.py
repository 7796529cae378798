"""Hostile arguments of savers and stores raise only our own errors; `tests/fuzz` defines the arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.store.base import BaseStore, GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import MAX_ERROR_CHARS, AgentMemoryError
from tests.fuzz.values import HOSTILE, Hostile, OfCodeGivenError, deep, endless

pytestmark = pytest.mark.sqlite_suffices

THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
ODD = [make for make in HOSTILE if make is not Hostile and make() is not NotImplemented]
"""Hostile values that have a truth value, which the checkpointer needs of a `checkpoint_ns`."""


def configs(odd: Any) -> Iterator[Any]:
    yield odd
    yield {"configurable": odd}
    for key in ("thread_id", "checkpoint_ns", "checkpoint_id", "agentmem_namespace", "run_id"):
        yield {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c", key: odd}}
    yield {**THREAD, "metadata": odd}


def saver_calls(memory: AgentMemory, odd: Any) -> Iterator[Callable[[], Any]]:
    saver, new = memory.checkpointer, empty_checkpoint
    stored: Any = saver.put(THREAD, new(), {}, {})
    for config in configs(odd):
        yield partial(saver.get_tuple, config)
        yield lambda config=config: list(saver.list(config))
        yield lambda config=config: list(saver.list(THREAD, before=config))
        yield partial(saver.put, config, new(), {}, {})
        yield partial(saver.put_writes, config, [("a", 1)], "task")
        yield partial(saver.history, config)
        yield partial(saver.get_delta_channel_history, config=config, channels=["a"])
        yield partial(memory.search, "x", config=config)
        yield partial(memory.layers, config)
        yield partial(memory.tools, config)
    for key in ("id", "ts", "v", "channel_values", "channel_versions", "versions_seen", "updated_channels"):
        yield partial(saver.put, THREAD, {**new(), key: odd}, {}, {})
    values: Any = {**new(), "channel_values": {"a": odd}, "channel_versions": {"a": "1"}}
    told = {"source": odd, "step": odd, "own": odd}
    for puts in ((odd, {}, {}), (new(), odd, {}), (new(), told, {}), (new(), {}, odd)):
        yield partial(saver.put, THREAD, *puts)
    for version in ("1", odd):
        yield partial(saver.put, THREAD, values, {}, {"a": version})
    for writes in ([odd], [(odd, 1)], [("a", odd)]):
        yield partial(saver.put_writes, stored, writes, "task")
    yield lambda: list(saver.list(THREAD, filter={"a": odd}))
    for method in (saver.delete_for_runs, saver.prune):
        yield partial(method, [odd])
    yield partial(saver.get_delta_channel_history, config=THREAD, channels=[odd])


def store_calls(store: BaseStore, odd: Any) -> Iterator[Callable[[], Any]]:
    for place in ((odd,), [odd]):
        yield partial(store.get, place, "k")
        yield partial(store.put, place, "k", {})
        yield partial(store.search, place)
        yield partial(store.list_namespaces, prefix=place)
        yield partial(store.batch, [ListNamespacesOp((MatchCondition("prefix", place),))])
    for op in (GetOp(odd, odd, odd), PutOp(odd, odd, odd, odd, odd), SearchOp(odd, odd, odd, odd, odd), odd):
        yield partial(store.batch, [op])
    yield partial(store.batch, [ListNamespacesOp((MatchCondition(odd, ("a",)),))])
    yield partial(store.put, ("a",), "k", {"a": 1}, index=[odd])
    for wanted in ({"a": odd}, {"a": {"$gt": odd}}):
        yield partial(store.search, (), filter=wanted)


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_hostile_arguments_raise_only_agentmem_errors(memory, odd):
    value, said = odd(), []
    for call in (*saver_calls(memory, value), *store_calls(memory.store, value)):
        try:
            call()
        except (AgentMemoryError, OfCodeGivenError) as error:
            said.append(error)
    assert all(len(str(error)) <= MAX_ERROR_CHARS for error in said)


def test_too_deeply_nested_values_are_rejected(memory):
    chat = memory.conversation("c")
    for make in (partial(deep, list), endless):
        values: Any = {**empty_checkpoint(), "channel_values": {"a": make()}, "channel_versions": {"a": "1"}}
        for call in (
            lambda made: memory.store.put(("a",), "k", {"value": made}),
            lambda _, values=values: memory.checkpointer.put(THREAD, values, {}, {"a": "1"}),
            lambda made: chat.add(role="user", content=made),
            lambda made: memory.layers("main").core.set("k", made),
            memory.search,
            lambda made: memory.facts("main").add_fact("user", made, "p", "o"),
        ):
            with pytest.raises(AgentMemoryError) as caught:
                call(make())
            assert len(str(caught.value)) <= MAX_ERROR_CHARS
    assert len(chat) == 0
