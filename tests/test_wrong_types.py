"""Arguments of wrong types are refused with errors of this package, and nothing is written."""

import math
import threading
from functools import partial

import pytest

from langchain_agentmem import AgentMemory, FactsConfig, InvalidInput
from langchain_agentmem.compaction import SummarizationConfig
from langchain_agentmem.compaction.role_compactor import ContextCompactor
from langchain_agentmem.errors import MAX_ERROR_CHARS
from langchain_agentmem.stores import item_rows

pytestmark = pytest.mark.sqlite_suffices

CHECKPOINT = {"v": 1, "id": "1f000000-0000-6000-8000-000000000001", "ts": "2026-01-01T00:00:00+00:00",
              "channel_values": {}, "channel_versions": {}, "versions_seen": {}}  # fmt: skip
THREAD = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
CONFIGURABLES = ({1: 2}, "t", [("thread_id", "t")])
INVALID_CONFIGS = ("t", 1, [], {1: 2}, *({"configurable": each} for each in CONFIGURABLES))


async def test_invalid_config_is_refused_everywhere(memory, tmp_path):
    saver, selector = memory.checkpointer, memory.experiences(tmp_path).selector(role="User")
    runnables = [memory.inject("main"), memory.compaction(), memory.remember_facts(lambda messages: "[]"), selector]
    for config in INVALID_CONFIGS:
        for attempt in (
            *(partial(each.invoke, "hello", config) for each in (*runnables, memory.retriever(namespace=()))),
            *(partial(each, config) for each in (saver.get_tuple, saver.history, saver.changes)),
            lambda config=config: list(saver.list(config)) if config else saver.get_tuple(config),
            lambda config=config: list(saver.list(None, before=config)) if config else saver.get_tuple(config),
            partial(saver.put, config, CHECKPOINT, {}, {}),
            partial(saver.put_writes, config, [], "task"),
            partial(saver.get_delta_channel_history, config=config, channels=["m"]),
            partial(memory.search, "hello", config=config),
        ):
            with pytest.raises(InvalidInput, match="config"):
                attempt()
        for each in runnables:
            with pytest.raises(InvalidInput, match="config"):
                await each.ainvoke("hello", config)


class TestCheckpoints:
    def test_invalid_checkpoint_is_refused(self, memory):
        wrong = [("x", {}, {}), ({}, {}, {}), ({**CHECKPOINT, "channel_values": "x"}, {}, {}), (CHECKPOINT, "x", {})]
        for given in (*wrong, (CHECKPOINT, {}, 1), (CHECKPOINT, {}, ["n"])):
            with pytest.raises(InvalidInput):
                memory.checkpointer.put(THREAD, *given)
            assert memory.checkpointer.get_tuple(THREAD) is None


class TestTimeoutsAndErrors:
    @pytest.mark.parametrize("seconds", ["x", True, -1, 1e308, 10**400, math.inf, math.nan, [1]])
    def test_timeout_must_be_a_number_of_seconds(self, memory, tmp_path, seconds):
        memory.store.start_ttl_sweeper()
        for wait in (
            memory.store.stop_ttl_sweeper,
            ContextCompactor(memory.session("s"), "Planner").wait,
            lambda timeout: FactsConfig(timeout=timeout),
            lambda timeout: SummarizationConfig(timeout=timeout),
            lambda timeout: memory.experiences(tmp_path).selector(timeout=timeout),
            lambda timeout: AgentMemory(timeout=timeout),
        ):
            with pytest.raises(InvalidInput, match="timeout must be"):
                wait(seconds)
        assert memory.store.stop_ttl_sweeper(threading.TIMEOUT_MAX)

    def test_sweeper_interval_is_capped_at_the_thread_maximum(self, memory):
        memory.store.start_ttl_sweeper(item_rows.MAX_TTL)
        assert memory.store.stop_ttl_sweeper(timeout=60)

    def test_error_messages_are_truncated(self, memory):
        with pytest.raises(InvalidInput) as refused:
            memory.conversation("c").load_from_file("é" * 300_000)
        assert len(str(refused.value)) <= MAX_ERROR_CHARS
        assert "File name too long" in str(refused.value)
