"""What is of the wrong type is refused with an error of ours, whichever part it is given to; nothing is written."""

from __future__ import annotations

import math
import threading
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest

from langchain_agentmem import AgentMemory, Compressor, FactsConfig, InvalidInput
from langchain_agentmem.compaction import SummarizationConfig
from langchain_agentmem.compaction.role_compactor import ContextCompactor
from langchain_agentmem.errors import LONGEST
from langchain_agentmem.experiences.experience_selector import ExperienceSelector
from langchain_agentmem.stores import agent_store, item_rows
from langchain_agentmem.upkeep.admin import Admin

pytestmark = pytest.mark.sqlite_suffices

CHECKPOINT = {"v": 1, "id": "1f000000-0000-6000-8000-000000000001", "ts": "2026-01-01T00:00:00+00:00",
              "channel_values": {}, "channel_versions": {}, "versions_seen": {}}  # fmt: skip
THREAD = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
NO_CONFIGS = [
    "t",
    1,
    [],
    {1: 2},
    {"configurable": {1: 2}},
    {"configurable": "t"},
    {"configurable": [("thread_id", "t")]},
]


class Uncomparable:
    """Nothing can be compared with it."""

    def __eq__(self, other):
        raise AssertionError

    __hash__ = None


@pytest.fixture
def runnables(memory, tmp_path):
    (tmp_path / "experiences").mkdir()
    return [
        memory.inject("main"),
        memory.compaction(),
        memory.remember_facts(lambda messages: "[]"),
        memory.experiences(tmp_path / "experiences").selector(role="User"),
        memory.retriever(namespace=()),
    ]


@pytest.mark.parametrize("config", NO_CONFIGS)
class TestConfigs:
    async def test_no_runnable_takes_what_is_no_config(self, runnables, config):
        for each in runnables:
            with pytest.raises(InvalidInput, match="config"):
                each.invoke("hello", config)
            with pytest.raises(InvalidInput, match="config"):
                await each.ainvoke("hello", config)

    async def test_no_checkpointer_does(self, memory, config):
        saver = memory.checkpointer
        for attempt in (
            lambda: saver.get_tuple(config),
            lambda: list(saver.list(config)) if config else saver.get_tuple(config),
            lambda: list(saver.list(None, before=config)) if config else saver.get_tuple(config),
            lambda: saver.put(config, CHECKPOINT, {}, {}),
            lambda: saver.put_writes(config, [], "task"),
            lambda: saver.history(config),
            lambda: saver.excerpt(config),
            lambda: saver.changes(config),
            lambda: saver.get_delta_channel_history(config=config, channels=["m"]),
        ):
            with pytest.raises(InvalidInput, match="config"):
                attempt()

    def test_no_search_does(self, memory, config):
        with pytest.raises(InvalidInput, match="config"):
            memory.search("hello", config=config)


class TestCheckpoints:
    @pytest.mark.parametrize(
        ("checkpoint", "metadata", "versions"),
        [
            ("x", {}, {}),
            ({}, {}, {}),
            ({**CHECKPOINT, "channel_values": "x"}, {}, {}),
            (CHECKPOINT, "x", {}),
            (CHECKPOINT, {}, 1),
            (CHECKPOINT, {}, ["n"]),
        ],
    )
    def test_what_is_no_checkpoint_is_not_put(self, memory, checkpoint, metadata, versions):
        with pytest.raises(InvalidInput):
            memory.checkpointer.put(THREAD, checkpoint, metadata, versions)
        assert memory.checkpointer.get_tuple(THREAD) is None

    @pytest.mark.parametrize("writes", ["x", 1, [1], [("only",)], {"a": 1}])
    def test_what_are_no_writes_are_not_put(self, memory, writes):
        config = memory.checkpointer.put(THREAD, CHECKPOINT, {}, {})
        with pytest.raises(InvalidInput, match="writes"):
            memory.checkpointer.put_writes(config, writes, "task")

    @pytest.mark.parametrize("channels", [datetime(2026, 1, 1, tzinfo=UTC), "m", [1], [[]]])
    def test_what_names_no_channels_has_no_history(self, memory, channels):
        with pytest.raises(InvalidInput, match="channel"):
            memory.checkpointer.get_delta_channel_history(config=THREAD, channels=channels)

    @pytest.mark.parametrize("current", [datetime(2026, 1, 1, tzinfo=UTC), [], float("nan"), float("inf"), {}])
    def test_no_version_follows_what_is_none(self, memory, current):
        with pytest.raises(InvalidInput, match="version"):
            memory.checkpointer.get_next_version(current, None)

    @pytest.mark.parametrize("strategy", [bytearray(b"x"), [], None, {}])
    def test_there_is_no_strategy_that_is_no_text(self, memory, strategy):
        with pytest.raises(InvalidInput, match="strategy"):
            memory.checkpointer.prune(["t"], strategy=strategy)

    async def test_threads_come_from_a_checkpointer(self, memory):
        with pytest.raises(InvalidInput, match="checkpointer"):
            memory.checkpointer.import_checkpoints("x")
        with pytest.raises(InvalidInput, match="checkpointer"):
            await memory.checkpointer.aimport_checkpoints(1)
        with pytest.raises(InvalidInput, match="CheckpointTuple"):
            memory.checkpointer.adopt("x")


class TestOthers:
    @pytest.mark.parametrize("ops", [Path(), 1, None])
    async def test_a_batch_is_of_several_operations(self, memory, ops):
        with pytest.raises(InvalidInput, match="operations"):
            memory.store.batch(ops)
        with pytest.raises(InvalidInput, match="operations"):
            await memory.store.abatch(ops)

    def test_who_is_told_of_progress_is_a_function(self, memory, tmp_path):
        for attempt in (
            lambda: memory.admin.verify(progress="x"),
            lambda: memory.admin.copy(tmp_path / "copy.db", progress="x"),
            lambda: memory.admin.prune(keep_checkpoints=1, progress="x"),
            lambda: Admin.restore(tmp_path / "backup", tmp_path / "new.db", progress="x"),
            lambda: memory.admin.backup(tmp_path / "backup", progress="x"),
            lambda: memory.export(tmp_path / "export", progress="x"),
            lambda: memory.import_(tmp_path / "export", progress="x"),
            lambda: memory.erase(namespace=("a",), progress="x"),
            lambda: memory.checkpointer.import_checkpoints(memory.checkpointer, progress="x"),
        ):
            with pytest.raises(InvalidInput, match="function"):
                attempt()
        assert [each.name for each in tmp_path.iterdir() if not each.name.startswith("memory")] == []

    @pytest.mark.parametrize("given", [[1], ["a", None], [object()]])
    def test_what_is_no_message_is_not_compacted(self, memory, given):
        with pytest.raises(InvalidInput, match="message"):
            memory.compaction().invoke(given)

    @pytest.mark.parametrize("given", ["a text", b"bytes"])
    def test_no_letter_is_a_message(self, memory, given):
        with pytest.raises(InvalidInput, match="no messages in this"):
            memory.compaction().invoke(given)

    def test_who_watches_rounds_is_a_function(self, memory):
        with pytest.raises(InvalidInput, match="function"):
            memory.session("s").watch_rounds("x")

    def test_attachments_are_several(self, memory):
        session = memory.session("s")
        begun = session.create_round("hello")
        for given in (1, "text", [1]):
            with pytest.raises(InvalidInput, match="ttachment"):
                session.add_post(begun.id, send_from="User", send_to="Planner", message="hi", attachments=given)

    @pytest.mark.parametrize("seconds", ["x", True, -1, 1e308, 10**400, math.inf, math.nan, [1]])
    def test_a_time_to_wait_is_a_number_of_seconds(self, memory, tmp_path, seconds):
        memory.store.start_ttl_sweeper()
        for wait in (
            memory.store.stop_ttl_sweeper,
            ContextCompactor(memory.session("s"), "Planner").wait,
            lambda timeout: Compressor(None, timeout=timeout),
            lambda timeout: FactsConfig(timeout=timeout),
            lambda timeout: SummarizationConfig(timeout=timeout),
            lambda timeout: memory.experiences(tmp_path).selector(timeout=timeout),
            lambda timeout: AgentMemory(timeout=timeout),
        ):
            with pytest.raises(InvalidInput, match="timeout must be a number of seconds"):
                wait(seconds)
        assert memory.store.stop_ttl_sweeper(threading.TIMEOUT_MAX)

    def test_a_sweeper_never_waits_longer_than_a_thread_can(self, memory, monkeypatch):
        waits = []
        monkeypatch.setattr(agent_store, "Sweeper", lambda store, sweep, seconds: waits.append(seconds) or Mock())
        memory.store.start_ttl_sweeper(item_rows.LONGEST_TTL)
        assert waits == [threading.TIMEOUT_MAX]

    def test_what_is_archived_was_written_before_a_time(self, memory):
        with pytest.raises(InvalidInput, match="archive_before"):
            memory.admin.prune(archive_before="yesterday")

    def test_tools_that_are_counted_are_several(self, memory):
        with pytest.raises(InvalidInput, match="tools"):
            memory.conversation("c").count_tokens(tools=Path())

    def test_a_role_is_a_text(self, memory):
        session = memory.session("s")
        for ask in (session.messages_for, session.get_role_rounds, session.get_role_rounds_with_compaction):
            with pytest.raises(InvalidInput, match="must be a text"):
                ask(Uncomparable())

    def test_a_counter_is_asked_whether_it_is_a_name_only_if_it_may_be_one(self, memory):
        with pytest.raises(InvalidInput):
            memory.conversation("c").count_tokens(Uncomparable())

    def test_no_error_is_longer_than_anybody_reads(self, memory):
        with pytest.raises(InvalidInput) as refused:
            memory.conversation("c").load_from_file("é" * 300_000)
        assert len(str(refused.value)) <= LONGEST
        assert "File name too long" in str(refused.value)

    def test_experiences_are_selected_from_a_library(self):
        with pytest.raises(InvalidInput, match="ExperienceLibrary"):
            ExperienceSelector("library", role="User")
