"""Memories of mem0 are imported for the users that own them."""

import json
from dataclasses import asdict
from datetime import UTC, datetime

import pytest

from langchain_agentmem import InvalidInput

from .sources import mem0

pytestmark = pytest.mark.sqlite_suffices

MOVED = "0961a05b-d6bb-489f-9055-d5d4b5d3cf32"
TEA = "1d1b91d2-9d33-4696-a20e-6209cfee8951"


def export(path, *results, **more):
    path.write_text(json.dumps({"results": results, **more}))
    return path


class TestExport:
    def test_memories_become_records_of_their_users(self, memory, tmp_path):
        memory.import_from("mem0", mem0(tmp_path), namespace=("users",))
        record = memory.layers(namespace=("users", "ada")).archival.get(MOVED)
        assert record.content == "My sister Ana lives in Porto now."
        assert record.created_at == datetime.fromisoformat("2026-11-25T20:37:10.162705+00:00")
        assert record.details["mem0"]["metadata"] == {"topic": "family"}
        tea = memory.layers(namespace=("users", "bob")).archival.get(TEA)
        assert tea.tags == ("agent:waiter", "run:r1")

    def test_relations_are_skipped(self, memory, tmp_path):
        path = export(tmp_path / "x.json", relations=[{"source": "ana", "target": "porto"}])
        assert memory.import_from("mem0", path).left_by == {"relations": 1}

    def test_empty_and_expired_memories_are_skipped(self, memory, tmp_path):
        old = {"id": "o", "memory": "Old.", "expiration_date": "2020-01-01"}
        (bare := tmp_path / "bare.json").write_text(json.dumps([{"id": "m", "memory": "Likes tea."}]))
        memory.import_from("mem0", bare, namespace=("here",))
        assert memory.layers(namespace=("here",)).archival.get("m").content == "Likes tea."
        tea = {"id": "b", "memory": "Likes tea: api_key=abcdefgh12345678"}
        report = memory.import_from("mem0", export(tmp_path / "x.json", {"id": "a"}, "nonsense", old, tea, tea))
        assert (report.added, report.left) == ({"memories": 1}, 3)
        [record] = memory.layers().archival.all()
        assert "abcdefgh12345678" not in record.content  # secrets do not enter

    def test_database_time_formats_are_parsed(self, memory, tmp_path):
        times = ("2024-05-31 12:00:00+00", "2024-05-31T14:00:00+02:00", "20240531T120000Z", 1717156800)
        memories = [{"id": str(at), "memory": "Tea.", "created_at": at} for at in times]
        report = memory.import_from("mem0", export(tmp_path / "x.json", *memories))
        assert (report.left_out, asdict(report)["added"]) == ([], {"memories": 4})
        assert {each.created_at for each in memory.layers().archival.all()} == {datetime(2024, 5, 31, 12, tzinfo=UTC)}

    def test_future_expiry_is_kept_other_json_rejected(self, memory, clock, tmp_path):
        path = export(tmp_path / "x.json", {"memory": "Tea.", "expiration_date": "2026-02-01"})
        memory.import_from("mem0", path)
        assert len(memory.layers().archival.all()) == 1
        clock.pass_time(days=60)
        assert memory.layers().archival.all() == []
        for other in (b'{"users": []}', b"SQLite format 3\0"):
            path.write_bytes(other)
            with pytest.raises(InvalidInput, match="get_all"):
                memory.import_from("mem0", path)
