"""Databases of other programs are read as of one moment, and never written to."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage.foreign_tables import foreign_tables
from tests.emptying import direct

SCRIPT = """create table "odd ""table" (id integer, "a b" text); insert into "odd ""table" values (2, 'x'), (1, 'y');"""


@pytest.fixture
def source(tmp_path, url):
    """What names a database with one table, and a connection that writes to it."""
    if not url.startswith("postgresql"):
        path = tmp_path / "their.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("pragma journal_mode = wal")
            connection.executescript(SCRIPT)
            yield path, connection
        return
    url = direct(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute('drop table if exists "odd ""table"')
        connection.execute(SCRIPT)
        yield url, connection
        connection.execute('drop table "odd ""table"')


class TestReading:
    def test_tables_are_read_in_one_snapshot(self, source):
        name, writer = source
        for count in (2, 3):
            with foreign_tables(name) as tables:
                assert tables.columns['odd "table'] == {"id", "a b"}
                rows = list(tables.rows('odd "table', "id", "missing"))
                assert rows[:2] == [{"id": 1, "a b": "y"}, {"id": 2, "a b": "x"}]
                writer.execute("""insert into "odd ""table" values (3, 'z')""")
                assert len(tables.count_values('odd "table', "a b")) == count

    def test_writes_are_rejected(self, source):
        with foreign_tables(source[0]) as tables, pytest.raises(InvalidInput, match="cannot be read"):
            list(tables._read("""insert into "odd ""table" values (3, 'z') returning id"""))


class TestFiles:
    def test_reading_creates_no_log_files(self, tmp_path):
        path = tmp_path / "their.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("pragma journal_mode = wal")
            connection.executescript(SCRIPT)
        before = path.read_bytes()
        with foreign_tables(path) as tables:
            assert len(tables.count_values('odd "table', "a b")) == 2
            assert [each.name for each in tmp_path.iterdir()] == ["their.db"]
        assert path.read_bytes() == before

    def test_non_database_is_rejected_and_empty_file_accepted(self, tmp_path):
        path = tmp_path / "their.db"
        path.touch()
        with foreign_tables(path) as tables:
            assert tables.columns == {}
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript("create table t (x text); insert into t values (cast(x'ff41' as text));")
        with foreign_tables(path) as tables:
            assert tables.count_values("t", "x") == {"\ufffdA": 1}
        for data in (b"nothing", b"SQLite format 3\0" + bytes(200)):
            path.write_bytes(data)
            with pytest.raises(InvalidInput, match="cannot be read"), foreign_tables(path):
                pytest.fail("it was read")


def test_unreachable_server_error_hides_the_password():
    url = "postgresql://ada:secret@127.0.0.1:1/x"
    with pytest.raises(InvalidInput, match="cannot be read") as raised, foreign_tables(url):
        pass
    assert "secret" not in str(raised.value)
