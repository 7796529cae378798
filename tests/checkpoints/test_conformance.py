"""LangGraph's conformance suite, through the asynchronous and the synchronous methods."""

from importlib.metadata import version

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate

from langchain_agentmem import AgentMemorySaver

pytestmark = [pytest.mark.sqlite_suffices, pytest.mark.encrypted_too]

CHECKS = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}
"""Number of checks per capability in version 0.0.2 of the suite."""


class SyncAdapter(BaseCheckpointSaver):
    """A saver whose asynchronous methods call the synchronous ones of another saver."""

    def __init__(self, saver):
        super().__init__(serde=saver.serde)
        self.saver = saver

    def get_next_version(self, current, channel):
        return self.saver.get_next_version(current, channel)

    async def alist(self, config, **options):
        for found in self.saver.list(config, **options):
            yield found

    async def aget_tuple(self, config):
        return self.saver.get_tuple(config)

    async def aput(self, config, checkpoint, metadata, new_versions):
        return self.saver.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config, writes, task_id, task_path=""):
        self.saver.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id):
        self.saver.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids):
        self.saver.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id, target_thread_id):
        self.saver.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids, *, strategy="keep_latest"):
        self.saver.prune(thread_ids, strategy=strategy)

    def get_delta_channel_history(self, *, config, channels):
        return self.saver.get_delta_channel_history(config=config, channels=channels)

    async def aget_delta_channel_history(self, *, config, channels):
        return self.saver.get_delta_channel_history(config=config, channels=channels)


class TestConformance:
    @pytest.mark.parametrize("way", ["async", "sync"])
    async def test_the_conformance_suite_passes_completely(self, url, way):
        @checkpointer_test(name=f"AgentMemorySaver, {way}")
        async def checkpointer():
            with AgentMemorySaver.from_conn_string(url) as saver:
                yield saver if way == "async" else SyncAdapter(saver)

        report = await validate(checkpointer)

        assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
        assert all(result.detected and result.passed for result in report.results.values())
        assert sum(result.tests_skipped for result in report.results.values()) == 0
        assert report.passed_all()
        made = {name: result.tests_passed for name, result in report.results.items()}
        if version("langgraph-checkpoint-conformance") == "0.0.2":
            assert made == CHECKS
        else:
            assert made.keys() >= CHECKS.keys()
            assert sum(made.values()) >= sum(CHECKS.values())
