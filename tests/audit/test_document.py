"""The file of the original audit memory is read, intact or damaged; a damaged file is kept."""

import json
from datetime import UTC, datetime

import pytest

from langchain_agentmem.audit.legacy_json import copy_damaged_file, read_document, time_of
from langchain_agentmem.errors import InvalidInput

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
HISTORY = [
    {"prompt": 'a{"b"} ü [x]', "reply": '```\n{"prompt": "x"}\n```', "timestamp": 1738439400, "conversation_id": "t1"},
    {"prompt": "[TODO] 😀", "reply": "", "timestamp": 1738439402, "conversation_id": "to", "m": {"k": [1]}},
    {"reply": None, "prompt": "[REFERENCE] G"},
    {"prompt": "p\\", "reply": "r", "turns": [{"prompt": "in", "reply": "ner"}]},
]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "agent_memory.json"


def read(file, data):
    file.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return read_document(file)


def prompts(loaded):
    return [entry.prompt for entry in loaded.entries]


def test_entries_are_read_with_kind_time_and_extra(file):
    loaded = read(file, {"history": HISTORY})
    assert [entry.kind for entry in loaded.entries] == ["exchange", "todo", "reference", "exchange"]
    assert loaded.entries[0].timestamp == datetime(2025, 2, 1, 19, 50, tzinfo=UTC)
    assert loaded.entries[1].extra == {"m": {"k": [1]}}
    assert (loaded.entries[2].reply, loaded.entries[2].timestamp) == ("", None)
    assert (loaded.lost, loaded.damaged) == ([], False)


@pytest.mark.parametrize("shape", [{"history": HISTORY}, HISTORY, {"version": 2, "history": HISTORY, "z": {"a": [1]}}])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_truncated_file_yields_a_prefix_of_entries(file, shape, encoding):
    data = json.dumps(shape, ensure_ascii=False).encode(encoding)
    whole = read(file, data)
    assert prompts(whole) == [entry["prompt"] for entry in HISTORY]
    for end in range(len(data)):
        cut = read(file, data[:end])
        assert cut.entries == whole.entries[: len(cut.entries)]
        assert cut.damaged
        assert cut.lost


@pytest.mark.parametrize("before", [{}, {"version": 2, "by": "agent"}])
def test_garbage_costs_only_the_entries_it_hits(file, before):
    history = [{"prompt": f"q{n}", "reply": "a"} for n in range(9)]
    data = json.dumps({**before, "history": history}).encode()
    at = data.index(b"q4")
    loaded = read(file, data[:at] + b'\xff"\x00{[garb' + data[at + 4 :])
    assert prompts(loaded) == [f"q{n}" for n in range(9) if n != 4]
    assert loaded.damaged
    assert any("character" in sentence for sentence in loaded.lost)


def test_concatenated_documents_are_both_read(file):
    one = json.dumps({"history": HISTORY[:2]})
    loaded = read(file, (one + one).encode())
    assert len(loaded.entries) == 4
    assert (loaded.damaged, loaded.lost) == (True, [])
    assert len(read(file, (one[:-30] + one).encode()).entries) == 3


def test_non_entries_are_reported(file):
    loaded = read(file, {"history": [7, {"prompt": 5, "reply": ["x"], "conversation_id": 3}, "text"]})
    assert [(entry.prompt, entry.reply, entry.conversation_id) for entry in loaded.entries] == [("5", '["x"]', "3")]
    assert len(loaded.lost) == 2
    assert loaded.damaged


def test_invalid_timestamp_is_kept_in_extra(file):
    for value in ("yesterday", True, -5, float("nan"), float("inf"), 10**400, [], "", 1738439400000):
        assert time_of(value) is None
        loaded = read(file, {"history": [{"prompt": "a", "reply": "b", "timestamp": value}]})
        assert loaded.entries[0].timestamp is None
        assert "timestamp" in loaded.entries[0].extra


def test_unreadable_file_yields_no_entries(file):
    for data in (
        b"", b" ", b'{"a":' * 50_000, b"[" * 50_000, b'{"prompt": "' * 5_000, b"{" * 50_000, b'"' * 50_000,
        b'{"x"' * 5_000, b"\x00" * 9, b"\xff\xfe\xff", b"null", b'{"history": null}', b'{"history": 5}',
        b'{"history": {"a": [', b"\xef\xbb",
    ):  # fmt: skip
        assert read(file, data).entries == [], data[:20]


def test_damaged_file_is_copied_and_kept(file):
    file.write_bytes(b"{damaged")
    first, second = copy_damaged_file(file, NOW), copy_damaged_file(file, NOW.replace(microsecond=5))
    assert first.name == "agent_memory.json.corrupt-20260304-050607-000000"
    assert first.read_bytes() == second.read_bytes() == file.read_bytes() == b"{damaged"


def test_missing_file_is_rejected(file):
    for call in (lambda: read_document(file), lambda: copy_damaged_file(file, NOW), lambda: read_document(b"")):
        with pytest.raises(InvalidInput):
            call()
