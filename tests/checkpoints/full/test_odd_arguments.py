"""Whatever the savers and stores are given, what they raise is an error of ours, which can be shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.store.base import BaseStore, GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import AgentMemoryError

pytestmark = pytest.mark.sqlite_suffices

THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
LONGEST = 2_000


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(10_000):
        value = [value]
    return value


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


class Unspeakable:
    """An object that cannot be shown or looked up."""

    __hash__ = None

    def __repr__(self) -> str:
        raise RuntimeError("shown")


PLAIN: tuple[Any, ...] = (
    None, 5, -1, 2**70, 1.5, float("nan"), float("inf"), True, "", "x", "\0", "\ud800", "a" * 3_000, b"x", [], {}, (),
    (1,), [1], {"a": 1}, {1: 2}, object, len, {"configurable": 3}, {"configurable": None}, {"configurable": []},
)  # fmt: skip
ODD: list[Callable[[], Any]] = [*(partial(lambda value: value, each) for each in PLAIN), deep, endless, Unspeakable]


def configs(odd: Any) -> Iterator[Any]:
    yield odd
    yield {"configurable": odd}
    for key in ("thread_id", "checkpoint_ns", "checkpoint_id", "agentmem_namespace", "run_id"):
        yield {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c", key: odd}}
    yield {**THREAD, "metadata": odd}


def savings(memory: AgentMemory, odd: Any) -> Iterator[Callable[[], Any]]:
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
    for writes in (odd, [odd], [(odd, 1)], [("a", odd)]):
        yield partial(saver.put_writes, stored, writes, "task")
    for task in ((odd,), ("task", odd)):
        yield partial(saver.put_writes, stored, [("a", 1)], *task)
    for options in ({"filter": odd}, {"filter": {"a": odd}}, {"limit": odd}):
        yield lambda options=options: list(saver.list(THREAD, **options))
    for method in (saver.delete_for_runs, saver.prune, partial(saver.get_delta_channel_history, config=THREAD)):
        for given in (odd, [odd]):
            yield partial(method, channels=given) if isinstance(method, partial) else partial(method, given)
    yield from (
        lambda: saver.history(THREAD, limit=odd),
        lambda: saver.delete_thread(odd),
        lambda: saver.copy_thread(odd, "copy"),
        lambda: saver.copy_thread("t", odd),
        lambda: saver.prune(["t"], strategy=odd),
        lambda: saver.get_next_version(odd, None),
    )


def storings(store: BaseStore, odd: Any) -> Iterator[Callable[[], Any]]:
    a = ("a",)
    for place in (odd, (odd,), [odd]):
        yield partial(store.get, place, "k")
        yield partial(store.put, place, "k", {})
        yield partial(store.delete, place, "k")
        yield partial(store.search, place)
        yield partial(store.list_namespaces, prefix=place)
        yield partial(store.list_namespaces, suffix=place)
        yield partial(store.batch, [GetOp(place, odd, odd)])
        yield partial(store.batch, [PutOp(place, odd, odd, odd, odd)])
        yield partial(store.batch, [SearchOp(place, odd, odd, odd, odd)])
        yield partial(store.batch, [ListNamespacesOp(match_conditions=place)])
        yield partial(store.batch, [ListNamespacesOp((MatchCondition("prefix", place),))])
    for options in ({"index": odd}, {"index": [odd]}, {"ttl": odd}):
        yield partial(store.put, a, "k", {"a": 1}, **options)
    filters = (odd, {"a": odd}, {"a": {"$gt": odd}})
    for options in ({"query": odd}, *({"filter": each} for each in filters), {"limit": odd}, {"offset": odd}):
        yield partial(store.search, (), **options)
    for key in ("max_depth", "limit"):
        yield partial(store.list_namespaces, **{key: odd})
    for operations in (odd, [odd], [ListNamespacesOp((MatchCondition(odd, a),))]):
        yield partial(store.batch, operations)
    yield from (
        lambda: store.get(a, odd),
        lambda: store.get(a, "k", refresh_ttl=odd),
        lambda: store.put(a, odd, {}),
        lambda: store.put(a, "k", odd),
        lambda: store.put(a, "k", {"value": odd}),
    )


def others(memory: AgentMemory, odd: Any) -> Iterator[Callable[[], Any]]:
    blobs, core, chat = memory.byte_store(("a",)), memory.layers("main").core, memory.conversation("c")
    yield from (
        *(partial(blobs.mset, given) for given in (odd, [odd], [("k", odd)], [(odd, b"")])),
        lambda: blobs.mget([odd]),
        lambda: blobs.mdelete([odd]),
        lambda: list(blobs.yield_keys(prefix=odd)),
        lambda: core.set(odd, "x"),
        lambda: core.set("k", odd),
        lambda: memory.conversation(odd),
        lambda: memory.conversation("c", namespace=odd),
        lambda: chat.add(role="user", content=odd),
        lambda: chat.add_messages([odd]),
        lambda: memory.search(odd),
        *(partial(memory.search, "x", **{key: odd}) for key in ("namespace", "limit")),
        lambda: memory.facts("main").add_fact("user", odd, "p", "o"),
        lambda: AgentMemory(hooks=odd),
        lambda: AgentMemory(hooks=[odd]),
        *(lambda key=key: AgentMemory(**{key: odd}).close() for key in ("synchronous", "busy_timeout", "index")),
    )


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_only_errors_of_ours_are_raised(memory, odd):
    value, said = odd(), []
    for call in (*savings(memory, value), *storings(memory.store, value), *others(memory, value)):
        try:
            call()
        except AgentMemoryError as error:
            said.append(error)
    assert max(len(str(error)) for error in said) < LONGEST


def test_what_is_nested_too_deeply_is_refused(memory):
    chat = memory.conversation("c")
    for make in (deep, endless):
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
            assert len(str(caught.value)) < LONGEST
    assert len(chat) == 0
