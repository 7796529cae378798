"""Any history of a thread, forks included: each run finds what a store in memory would hold at that point, and in the
end each checkpoint shows what it showed then."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from langchain_agentmem import AgentMemory
from tests.conftest import SteppingClock
from tests.living import one_node, thread
from tests.stores.full.test_items_like_in_memory import FORMS, Ours, compare, gets, lists, puts, searches, told

batches = st.lists(gets | puts | puts | puts | searches | lists, max_size=12)
histories = st.lists(st.tuples(st.integers(0, 5), batches), max_size=8)


class Point:
    """A checkpoint with the expected state of an in-memory store."""

    def __init__(self, config, oracle, times):
        self.config, self.oracle, self.times = config, oracle, times

    def copy(self):
        oracle, times = InMemoryStore(), Ours()
        for namespace, items in self.oracle._data.items():
            oracle._data[namespace] = dict(items)
        times.times = dict(self.times.times)
        return Point(self.config, oracle, times)


def run(memory, history, clock):
    given, told_at = {}, {}

    def node(state):
        told_at["results"] = memory.thread_store.batch(given["ops"])
        told_at["now"] = clock.now
        return {"n": 1}

    graph = one_node(node, memory)
    points = [Point(thread(), InMemoryStore(), Ours())]
    for back, ops in history:
        point = points[-1 - back % len(points)].copy()
        given["ops"] = ops
        # The beginning is no checkpoint that one could go back to, but another thread that never ran.
        config = point.config if "checkpoint_id" in point.config["configurable"] else thread(f"t{len(points)}")
        graph.invoke({"n": 0}, config, durability="sync")
        compare(ops, told_at["results"], point.oracle, point.times)
        writes = [op for op in ops if isinstance(op, PutOp)]
        point.oracle.batch(writes)
        point.times.follow(writes, told_at["now"])
        point.config = graph.get_state(thread(config["configurable"]["thread_id"])).config
        points.append(point)
    for point in points:
        found = memory.thread_store.at(point.config).search((), limit=1_000)
        there = point.oracle.search((), limit=1_000)
        assert sorted(map(told, found), key=repr) == sorted(map(told, there), key=repr)
    for name in {point.config["configurable"]["thread_id"] for point in points}:
        memory.erase(thread_id=name)
    assert memory.admin.verify().problems == ()


@pytest.mark.parametrize("url", FORMS, indirect=True)
@given(histories)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_checkpoint_matches_the_in_memory_store(url, history):
    clock = SteppingClock()
    with AgentMemory(url, clock=clock) as memory:
        run(memory, history, clock)
