"""Random batches, compared with the in-memory store except for intended differences.

Those are: what namespaces are left when the last item of one is gone, the order of a search, that a filter which the
store in memory fails at matches nothing, and `created_at`. They are stated here, in `same_*`.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from langchain_agentmem import AgentMemory
from tests.conftest import SteppingClock

labels = st.sampled_from(["a", "b", "ab", "*", "é", "a b"])
namespaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
keys = st.sampled_from(["k", "K", "x.y", "é", "1", "10"])
leaves = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-1, 1, width=16) | st.sampled_from(["x", "y", ""])
inner = st.recursive(
    leaves,
    lambda each: st.lists(each, max_size=2) | st.dictionaries(st.sampled_from("pq"), each, max_size=2),
    max_leaves=4,
)
values = st.dictionaries(st.sampled_from("pqr"), inner, max_size=3)
conditions = inner | st.fixed_dictionaries({}, optional={"$eq": inner, "$ne": inner}).filter(bool)
filters = st.none() | st.dictionaries(st.sampled_from("pqr"), conditions, max_size=2)
paths = st.lists(labels, min_size=1, max_size=2).map(tuple)
patterns = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), paths)

gets = st.builds(GetOp, namespaces, keys, st.booleans())
puts = st.builds(PutOp, namespaces, keys, st.none() | values, st.sampled_from([None, False, ["p"]]), ttl=st.none())
searches = st.builds(
    SearchOp,
    st.just(()) | namespaces,
    filters,
    limit=st.integers(0, 6) | st.just(1_000),
    offset=st.integers(0, 3),
    query=st.none(),
    refresh_ttl=st.booleans(),
)
lists = st.builds(
    ListNamespacesOp,
    st.none() | st.lists(patterns, max_size=2).map(tuple),
    st.none() | st.integers(1, 3),
    limit=st.integers(0, 5) | st.just(1_000),
    offset=st.integers(0, 3),
)
batches = st.lists(st.lists(gets | puts | puts | searches | lists, max_size=12), max_size=6)


FORMS = ["sqlite", pytest.param("postgres", marks=pytest.mark.slow("in every form"))]


class Ours:
    """The creation and update time of each item, which the in-memory store does not share."""

    def __init__(self):
        self.times = {}

    def follow(self, ops, now):
        written = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        for place, op in written.items():
            if op.value is None:
                self.times.pop(place, None)
            else:
                self.times[place] = (self.times.get(place, (now,))[0], now)

    def of(self, item):
        return self.times[item.namespace, item.key]


def told(item):
    return None if item is None else (item.namespace, item.key, item.value)


def same_item(ours, theirs, times):
    assert told(ours) == told(theirs)
    if ours is not None:
        assert (ours.created_at, ours.updated_at) == times.of(ours)


def same_search(ours, op, oracle, times):
    """Compare a page with the results of the in-memory store, in our order."""
    everything = oracle.batch([op._replace(limit=10_000, offset=0)])[0]
    everything.sort(key=lambda item: (-times.of(item)[1].timestamp(), item.key, item.namespace))
    assert [told(item) for item in ours] == [told(item) for item in everything[op.offset : op.offset + op.limit]]
    assert all(item.score is None for item in ours)


def same_namespaces(ours, op, oracle):
    """Compare with the namespaces of the in-memory store, without empty ones."""
    for namespace in [each for each, items in oracle._data.items() if not items]:
        del oracle._data[namespace]
    assert ours == oracle.batch([op])[0]


def compare(ops, results, oracle, times):
    for op, result in zip(ops, results, strict=True):
        if isinstance(op, GetOp):
            same_item(result, oracle.get(op.namespace, op.key), times)
        elif isinstance(op, SearchOp):
            same_search(result, op, oracle, times)
        elif isinstance(op, ListNamespacesOp):
            same_namespaces(result, op, oracle)
        else:
            assert result is None


def run(memory, batches, clock):
    oracle, store, times = InMemoryStore(), memory.store, Ours()
    empty(store)  # of what an example that failed has left
    for ops in batches:
        compare(ops, store.batch(ops), oracle, times)
        oracle.batch([op for op in ops if isinstance(op, PutOp)])
        times.follow(ops, clock.now)
    empty(store)
    assert memory.admin.stats()["items"] == 0
    assert store.list_namespaces() == []


def empty(store):
    store.batch([PutOp(item.namespace, item.key, None) for item in store.search((), limit=10_000)])


@pytest.mark.parametrize("url", FORMS, indirect=True)
@given(batches)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batches_match_the_in_memory_store(url, batches):
    clock = SteppingClock()
    with AgentMemory(url, clock=clock) as memory:
        run(memory, batches, clock)
        assert memory.admin.verify().problems == ()
