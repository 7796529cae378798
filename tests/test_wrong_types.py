"""What is of the wrong type is refused with an error of ours, whichever part it is given to; nothing is written."""

import math
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory, Compressor, FactsConfig, InvalidInput
from langchain_agentmem.compaction import SummarizationConfig
from langchain_agentmem.compaction.role_compactor import ContextCompactor
from langchain_agentmem.errors import LONGEST
from langchain_agentmem.experiences.experience_selector import ExperienceSelector
from langchain_agentmem.stores import item_rows
from langchain_agentmem.upkeep.admin import Admin

pytestmark = pytest.mark.sqlite_suffices

CHECKPOINT = {"v": 1, "id": "1f000000-0000-6000-8000-000000000001", "ts": "2026-01-01T00:00:00+00:00",
              "channel_values": {}, "channel_versions": {}, "versions_seen": {}}  # fmt: skip
THREAD = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
CONFIGURABLES = ({1: 2}, "t", [("thread_id", "t")])
NO_CONFIGS = ("t", 1, [], {1: 2}, *({"configurable": each} for each in CONFIGURABLES))


class Uncomparable:
    """Nothing can be compared with it."""

    def __eq__(self, other):
        raise AssertionError

    __hash__ = None


async def test_nothing_takes_what_is_no_config(memory, tmp_path):
    saver, selector = memory.checkpointer, memory.experiences(tmp_path).selector(role="User")
    runnables = [memory.inject("main"), memory.compaction(), memory.remember_facts(lambda messages: "[]"), selector]
    for config in NO_CONFIGS:
        for attempt in (
            *(partial(each.invoke, "hello", config) for each in (*runnables, memory.retriever(namespace=()))),
            *(partial(each, config) for each in (saver.get_tuple, saver.history, saver.excerpt, saver.changes)),
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
    def test_what_is_no_checkpoint_is_not_put(self, memory):
        wrong = [("x", {}, {}), ({}, {}, {}), ({**CHECKPOINT, "channel_values": "x"}, {}, {}), (CHECKPOINT, "x", {})]
        for given in (*wrong, (CHECKPOINT, {}, 1), (CHECKPOINT, {}, ["n"])):
            with pytest.raises(InvalidInput):
                memory.checkpointer.put(THREAD, *given)
            assert memory.checkpointer.get_tuple(THREAD) is None

    def test_what_is_of_another_type_is_refused_by_name(self, memory):
        saver, day, nan = memory.checkpointer, datetime(2026, 1, 1, tzinfo=UTC), float("nan")
        config = saver.put(THREAD, CHECKPOINT, {}, {})
        channels = partial(saver.get_delta_channel_history, config=THREAD)
        for told, attempt, wrong in (
            ("writes", lambda writes: saver.put_writes(config, writes, "task"), ["x", 1, [1], [("only",)], {"a": 1}]),
            ("channel", lambda names: channels(channels=names), [day, "m", [1], [[]]]),
            ("version", lambda current: saver.get_next_version(current, None), [day, [], nan, float("inf"), {}]),
            ("strategy", lambda strategy: saver.prune(["t"], strategy=strategy), [bytearray(b"x"), [], None, {}]),
            ("checkpointer", saver.import_checkpoints, ["x", 1]),
            ("CheckpointTuple", saver.adopt, ["x"]),
            ("dry_run", lambda dry_run: saver.adopt(saver.get_tuple(config), dry_run=dry_run), [1, "x", None]),
            ("ends must be", lambda ends: saver.history(config, ends=ends), ["x", day, None]),
        ):
            for given in wrong:
                with pytest.raises(InvalidInput, match=told):
                    attempt(given)


class TestOthers:
    async def test_a_batch_is_of_several_operations(self, memory):
        for ops in (Path(), 1, None):
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

    def test_what_is_of_another_type_is_refused_by_name(self, memory, tmp_path):
        session, compact = memory.session("s"), memory.compaction().invoke
        begun = session.create_round("hello").id
        for told, attempt in (
            *(("message", partial(compact, given)) for given in ([1], ["a", None], [object()])),
            *(("no messages in this", partial(compact, given)) for given in ("a", b"b")),
            ("function", lambda: session.watch_rounds("x")),
            ("message", lambda: session.add_post(begun, send_from="User", send_to="Planner", message=0)),
            ("archive_before", lambda: memory.admin.prune(archive_before="yesterday")),
            ("dry_run", lambda: memory.admin.prune(keep_checkpoints=1, dry_run=Uncomparable())),
            ("dry_run", lambda: memory.erase(namespace=("a",), dry_run=1)),
            ("force", lambda: memory.admin.copy(tmp_path / "copy.db", force=Uncomparable())),
            ("tuple of strings", lambda: memory.search("hello", namespace=Uncomparable(), everything=True)),
            ("tuple of strings", lambda: memory.layers(THREAD, namespace=0)),
            ("order", lambda: memory.search("hello", order=Uncomparable())),
            ("tools", lambda: memory.conversation("c").count_tokens(tools=Path())),
            (None, lambda: memory.conversation("c").count_tokens(Uncomparable())),
            ("must be a text", lambda: session.messages_for(Uncomparable())),
            ("must be a text", lambda: session.get_role_rounds(Uncomparable())),
            ("must be a text", lambda: session.get_role_rounds_with_compaction(Uncomparable())),
            ("ExperienceLibrary", lambda: ExperienceSelector("library", role="User")),
        ):
            with pytest.raises(InvalidInput, match=told):
                attempt()

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

    def test_a_sweeper_never_waits_longer_than_a_thread_can(self, memory):
        memory.store.start_ttl_sweeper(item_rows.LONGEST_TTL)
        assert memory.store.stop_ttl_sweeper(timeout=60)

    def test_no_error_is_longer_than_anybody_reads(self, memory):
        with pytest.raises(InvalidInput) as refused:
            memory.conversation("c").load_from_file("é" * 300_000)
        assert len(str(refused.value)) <= LONGEST
        assert "File name too long" in str(refused.value)
