"""Erasures on a server, copies while others write, and damaged exports."""

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseBusy, InvalidInput
from tests.support.plans import sampled_columns
from tests.upkeep.test_integrity import fill, put_secrets, stored_bytes, tell_secrets, traces


class TestErasing:
    def test_the_servers_statistics_sample_nothing_that_was_said(self, new_database, raw):
        with AgentMemory(new_database("postgres")) as memory:
            tell_secrets(memory)
            put_secrets(memory)
            sampled = sampled_columns(memory, raw)
        harmless = {"agentmem_migration.name", "branch.kind", "entry.kind", "entry.follows"}
        assert sampled <= harmless


class TestOldTransactions:
    """What the server keeps for a transaction that began before an erasure could still be read from its files."""

    @pytest.fixture
    def secrets(self, new_database):
        return new_database("postgres")

    def test_an_erasure_waits_for_one_that_reads_or_writes_anywhere_but_for_one_that_reads_elsewhere(
        self, secrets, new_database
    ):
        reading = ("set transaction isolation level repeatable read", "select 1")
        elsewhere, writing = new_database("postgres"), ("select pg_current_xact_id()",)
        for where, does in ((secrets, reading), (secrets, writing), (elsewhere, writing), (elsewhere, reading)):
            with AgentMemory(secrets, busy_timeout=0.2) as memory, psycopg.connect(where) as other:
                tell_secrets(memory, 20)
                for statement in does:
                    other.execute(statement)
                if (where, does) != (elsewhere, reading):
                    with pytest.raises(DatabaseBusy, match="older transaction"):
                        memory.erase(namespace=())
                    assert memory.admin.stats()["messages"] == 0
                    other.rollback()
                memory.erase(namespace=())
                assert traces(stored_bytes(memory, secrets)) == [], (where, does)


@pytest.mark.sqlite_suffices
class TestTransfer:
    DAMAGES = (
        lambda lines: [*lines[:-1], lines[-1][: len(lines[-1]) // 2]],
        lambda lines: lines[1:],
        lambda lines: [lines[0].replace('"version": 1', '"version": 2'), *lines[1:]],
        lambda lines: [lines[0].replace("agentmem", "other"), *lines[1:]],
        lambda lines: ["not json", *lines],
        lambda lines: [*lines[:-1], '{"record": "surprise"}', lines[-1]],
        lambda lines: [*lines[:-1], '{"record": "entry"}', lines[-1]],
        lambda lines: [lines[0], lines[2]],
        lambda lines: [*lines[:-1], '{"record": "conversation", "namespace": "text", "id": "c"}', lines[-1]],
        lambda lines: [line.replace('"kind": "message"', '"kind": "spell"') for line in lines],
        lambda lines: [line.replace('"call": 2', '"call": "x"') for line in lines],
        lambda lines: [],
        lambda lines: ["[" * 100_000],
    )

    def test_a_damaged_file_is_refused_and_nothing_is_imported(self, url, tmp_path):
        path = tmp_path / "all.jsonl"
        with AgentMemory() as memory:
            fill(memory).export(path)
        lines = path.read_text(encoding="utf-8").splitlines()
        with AgentMemory(url) as memory:
            for number, damage in enumerate(self.DAMAGES):
                path.write_text("\n".join(damage(lines)), encoding="utf-8", errors="surrogateescape")
                with pytest.raises(InvalidInput):
                    pytest.fail(f"{number}: {memory.import_(path)}")
            stats = memory.admin.stats()
            assert (stats["messages"], stats["contents"], stats["conversations"]) == (0, 0, 0)
