"""Ways to damage a database file: those of disks, copies, other programs and people."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

PAGE = 4096
ODD: tuple[Any, ...] = (
    None, "", "x", "\0", "[]", "{}", "[1, 2", '{"a": NaN}', "null", "[" * 5_000, '{"$agentmem": "int", "value": "zz"}',
    -1, 0, 1, 2**62, -(2**63), 1.5, float("inf"), b"", b"\0", b"\xff\xfe\xfd", b"x" * 300, "\N{SNOWMAN}" * 300,
    b'{"$agentmem": 1}',
)  # fmt: skip
"""Unexpected values for columns."""


def flipped(path: Path, dice: random.Random) -> None:
    """Single bits change."""
    data = bytearray(path.read_bytes())
    for _ in range(dice.choice((1, 8, 64))):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def flipped_in_the_header(path: Path, dice: random.Random) -> None:
    """Bytes of the first page change: SQLite's own header, and the schema."""
    data = bytearray(path.read_bytes())
    for _ in range(dice.choice((1, 4))):
        data[dice.randrange(PAGE)] = dice.randrange(256)
    path.write_bytes(data)


def zeroed(path: Path, dice: random.Random) -> None:
    """A stretch is lost."""
    data = bytearray(path.read_bytes())
    start, length = dice.randrange(len(data)), dice.choice((16, 512, PAGE, 8 * PAGE))
    data[start : start + length] = bytes(len(data[start : start + length]))
    path.write_bytes(data)


def overwritten(path: Path, dice: random.Random) -> None:
    """A page gets the content of another, or of nothing known."""
    data = bytearray(path.read_bytes())
    pages = len(data) // PAGE
    to, source = dice.randrange(pages) * PAGE, dice.randrange(pages) * PAGE
    data[to : to + PAGE] = data[source : source + PAGE] if dice.random() < 0.7 else dice.randbytes(PAGE)
    path.write_bytes(data)


def truncated(path: Path, dice: random.Random) -> None:
    """The end is cut off."""
    data = path.read_bytes()
    path.write_bytes(
        data[: dice.choice((dice.randrange(len(data)), dice.randrange(200), len(data) // PAGE // 2 * PAGE))]
    )


def changed(path: Path, dice: random.Random) -> None:
    """Somebody changes columns: to another type, to what cannot be read, or to what is not there."""
    with _behind_its_back(path) as connection:
        for _ in range(dice.choice((1, 1, 3))):
            table = dice.choice(_tables(connection))
            column = dice.choice([row[1] for row in connection.execute(f"pragma table_info({table})")])
            rows = "true" if dice.random() < 0.2 else _rows(connection, table, dice, 1)
            with suppress(sqlite3.Error):  # a key or a check of the schema may not allow it
                connection.execute(f"update {table} set {column} = ? where {rows}", (dice.choice(ODD),))


def removed(path: Path, dice: random.Random) -> None:
    """Somebody deletes rows, and leaves what refers to them."""
    with _behind_its_back(path) as connection:
        table = dice.choice(_tables(connection))
        rows = "true" if dice.random() < 0.3 else _rows(connection, table, dice, dice.choice((1, 3)))
        with suppress(sqlite3.Error):
            connection.execute(f"delete from {table} where {rows}")


def dropped(path: Path, dice: random.Random) -> None:
    """A table or an index is gone, or has another name."""
    with _behind_its_back(path) as connection:
        indexes = connection.execute("select name from sqlite_master where type = 'index' and sql is not null")
        table, index = dice.choice(_tables(connection)), dice.choice([name for (name,) in indexes])
        statement = dice.choice((f"drop table {table}", f"alter table {table} rename to gone", f"drop index {index}"))
        with suppress(sqlite3.Error):
            connection.execute(statement)


def said_otherwise(path: Path, dice: random.Random) -> None:
    """The schema says something else than what is there."""
    kinds = (
        ("rootpage", dice.randrange(200)), ("sql", "x"), ("sql", b"\xff\xfe"), ("sql", None), ("name", b"\xff\xfe"),
        ("name", "\0"), ("type", "view"), ("tbl_name", "entry"),
    )  # fmt: skip
    with _behind_its_back(path) as connection:
        connection.execute("pragma writable_schema = on")
        name = dice.choice([name for (name,) in connection.execute("select name from sqlite_master")])
        column, value = dice.choice(kinds)
        with suppress(sqlite3.Error):
            connection.execute(f"update sqlite_master set {column} = ? where name = ?", (value, name))


def in_the_log(path: Path, dice: random.Random) -> None:
    """The write-ahead log, which holds the last commits, is damaged, or gone."""
    log = Path(f"{path}-wal")
    dice.choice((flipped, truncated, zeroed, lambda log, _: log.unlink()))(log, dice)


WAYS: tuple[Callable[[Path, random.Random], None], ...] = (
    flipped, flipped_in_the_header, zeroed, overwritten, truncated, changed, removed, dropped, said_otherwise,
    in_the_log,
)  # fmt: skip


@contextmanager
def _behind_its_back(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma foreign_keys = off")
        connection.execute("pragma ignore_check_constraints = on")
        yield connection


def _tables(connection: sqlite3.Connection) -> list[str]:
    """The tables, of those that FTS5 keeps for the index only the one with the index itself."""
    rows = connection.execute("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'")
    return [name for (name,) in rows if not name.startswith("search_index_") or name.endswith("data")]


def _rows(connection: sqlite3.Connection, table: str, dice: random.Random, count: int) -> str:
    """A condition that some rows fulfil."""
    try:
        rows = [row for (row,) in connection.execute(f"select rowid from {table}")]
    except sqlite3.Error:  # a table without rowids
        return "true"
    return f"rowid in ({', '.join(map(str, dice.sample(rows, min(count, len(rows)))))})"
