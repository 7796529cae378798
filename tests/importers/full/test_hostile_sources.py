"""Whatever a source holds, there is a report or an error of ours, and nothing is half-written."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem import AgentMemory, InvalidInput
from langchain_agentmem.importers.moving import KINDS
from tests.importers.sources import SOURCES

pytestmark = pytest.mark.sqlite_suffices

GARBAGE = (
    b"", bytes(range(256)) * 64, b"SQLite format 3\0" + bytes(100), b"Dear diary,\n", b"[" * 20_000, b"[]", b"{}",
    b'[null, 1, "x", [], {}, {"type": 7}]',
    b'{"results": [1, null, {"memory": 3}], "messages": [1, {}], "rounds": [{"id": {}}]}',
)  # fmt: skip
JSON_KINDS = ("chat-history", "mem0", "taskweaver", "marsys", "opus")
SMALL = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def brought(memory, kind, path):
    """The report, or None for an error of ours; the memory is whole in any case."""
    try:
        return memory.import_from(kind, path)
    except InvalidInput:
        return None
    finally:
        assert memory.admin.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_garbage_is_told(memory, tmp_path, kind):
    for garbage in GARBAGE:
        for ending in (".json", ".yaml", ".db"):
            path = tmp_path / f"source{ending}"
            path.write_bytes(garbage)
            report = brought(memory, kind, path)
            assert report is None or not report.added, garbage


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, (kind, _) in SOURCES.items() if kind in JSON_KINDS])
def test_json_in_which_values_were_exchanged_does_no_harm(name, tmp_path_factory):
    kind, make = SOURCES[name]
    source = make(tmp_path_factory.mktemp("their"))
    files = sorted(source.rglob("*.json")) if source.is_dir() else [source]
    if files[0].suffix != ".json":
        return
    document = json.loads(files[0].read_text())
    target = tmp_path_factory.mktemp("hostile") / "source.json"

    @given(SMALL, st.integers(0, 10_000))
    def check(value, seed):
        target.write_text(json.dumps(exchanged(document, value, random.Random(seed))))
        with AgentMemory(":memory:") as memory:
            first = brought(memory, kind, target)
            second = brought(memory, kind, target)
            assert (first is None) == (second is None)
            assert second is None or not second.added

    check()


def exchanged(document, value, chance):
    """A document in which one value, somewhere, is another."""
    places = []

    def walk(at):
        for key in at if isinstance(at, dict) else range(len(at)):
            places.append((at, key))
            if isinstance(at[key], dict | list):
                walk(at[key])

    new = json.loads(json.dumps(document))
    walk(new)
    at, key = chance.choice(places)
    at[key] = value
    return new


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SOURCES if name != "langmem"])
def test_a_database_in_which_values_were_exchanged_does_no_harm(name, tmp_path):
    kind, make = SOURCES[name]
    path = make(tmp_path)
    if path.suffix != ".db":
        return
    with closing(sqlite3.connect(path)) as connection:
        tables = [each for (each,) in connection.execute("select name from sqlite_master where type = 'table'")]
        columns = {each: [row[1] for row in connection.execute(f'pragma table_info("{each}")')] for each in tables}
    for number, value in enumerate((None, b"\xff\xfe", "not a time", -1e300)):
        for table in (each for each in tables if "fts" not in each and not each.startswith("sqlite_")):
            for column in columns[table]:
                copy = tmp_path / f"copy{number}.db"
                copy.write_bytes(path.read_bytes())
                try:
                    with closing(sqlite3.connect(copy)) as connection:
                        connection.execute(f'update "{table}" set "{column}" = ?', (value,))
                        connection.commit()
                except sqlite3.IntegrityError:
                    continue
                with AgentMemory(":memory:") as memory:
                    brought(memory, kind, copy)
