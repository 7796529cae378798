"""The named queries. Their SQL is stored in `.sql` files, and values are always passed as parameters.

Each query in the files of `queries/` begins with a line `-- name: the_name`. A file such as `log.sql` is for both
dialects. `log.postgres.sql` and `log.sqlite.sql` contain the queries that differ between dialects. Parameters are
written `:name`.

Text that several queries share is a *fragment*, which begins with a line `-- fragment: the_name`. A query includes it
as `{the_name}`. Some fragments need names. `{in_texts keys}` tests a value against the list in the parameter `:keys`.
`{lookup memory x}` joins the table `memory` under the alias `x`. In the text of these fragments, `:list`, `the_table`
and `the_row` stand for the names.

Operations call a query as an attribute, `query.insert_entry(tx, branch=1, …)`, and are independent of dialects. Each
engine looks up the SQL of its dialect by the query's name.

This module also stores bodies, such as those of large messages, in the table `content`. There, each body is stored
once, with its BLAKE2b-160 digest as the key. A transaction stores a body before the first row that refers to it. A
transaction that deletes such rows then deletes the bodies to which no row refers.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from hashlib import blake2b
from importlib import resources
from operator import itemgetter
from typing import Any

from langchain_agentmem.errors import BranchMoved, safe_repr
from langchain_agentmem.storage.transaction import Rows, Transaction

DIALECTS = ("sqlite", "postgres")

_HEADING = re.compile(r"\n-- (name|fragment): *([a-z_][a-z0-9_]*) *(?=\n)")
_COMMENT = re.compile(r"^ *--.*\n?", re.MULTILINE)
_FRAGMENT = re.compile(r"\{([a-z_]+)((?: [a-z_]+)*)\}")
# A parameter is :name. A doubled colon is PostgreSQL's cast, and a quoted string contains no parameters.
_PARAMETER = re.compile(r"'(?:[^']|'')*'|(?<!:):([a-z_][a-z0-9_]*)")

_QUOTED = re.compile(r"'(?:[^']|'')*'")
_WORD = re.compile(r"[a-z_]+")
_VERBS = frozenset({"select", "values", "insert", "update", "delete"})
_INNERMOST_PARENTHESES = re.compile(r"\([^()]*\)")


@cache
def load_queries(dialect: str) -> Mapping[str, str]:
    """Return the SQL of all queries of a dialect by name, see `query_sql`."""
    return {name: query_sql(dialect, name) for kind, name in load_texts(dialect) if kind == "name"}


@cache
def query_sql(dialect: str, name: str) -> str:
    """Return the SQL of a query with its fragments. Most processes need few of the queries.

    Args:
        dialect: "sqlite" or "postgres".
        name: The name of the query.

    Returns:
        The SQL, with parameters written `:name`. A query in a file of the dialect replaces the query of this name in a
        common file.

    Raises:
        KeyError: The query is unknown, or includes an unknown fragment.
    """
    texts = load_texts(dialect)

    def expand(text: str) -> str:
        return _FRAGMENT.sub(insert, _COMMENT.sub("", text).strip())

    def insert(fragment: re.Match[str]) -> str:
        text = texts["fragment", fragment[1]]
        if names := fragment[2].split():
            text = text.replace(":list", f":{names[0]}").replace("the_table", names[0]).replace("the_row", names[-1])
        return expand(text)

    return expand(texts["name", name])


@cache
def load_texts(dialect: str) -> Mapping[tuple[str, str], str]:
    """Load the queries and fragments of a dialect.

    Returns:
        The texts in the files, by type ("name" or "fragment") and name.

    Raises:
        ValueError: A name occurs twice in the common files, or twice in the files of the dialect.
    """
    files = sorted(resources.files(__package__).joinpath("queries").iterdir(), key=lambda file: file.name)
    all_texts: dict[tuple[str, str], str] = {}
    for ending in (".sql", f".{dialect}.sql"):
        file_texts: dict[tuple[str, str], str] = {}
        for file in files:
            if file.name == file.name.partition(".")[0] + ending:
                # The split returns the text before the first heading, and then type, name and SQL in turn.
                parts = iter(_HEADING.split("\n" + file.read_text(encoding="utf-8"))[1:])
                for kind, name, sql in zip(parts, parts, parts, strict=True):
                    if (kind, name) in file_texts:
                        raise ValueError(f"{safe_repr(f'{kind} {name}')} occurs twice, also in {safe_repr(file.name)}")
                    file_texts[kind, name] = sql
        all_texts |= file_texts
    return all_texts


def parameter_names(sql: str) -> frozenset[str]:
    """Return the names of a query's parameters."""
    return frozenset(match[1] for match in _PARAMETER.finditer(sql) if match[1])


def number_parameters(sql: str, sign: str) -> tuple[str, tuple[str, ...]]:
    """Rewrite each `:name` as a sign and a number: `$1` for PostgreSQL, `?1` for SQLite.

    Args:
        sql: The SQL.
        sign: "$" or "?".

    Returns:
        The new SQL, and the names of the parameters in the order of their numbers.
    """
    names: dict[str, int] = {}

    def rewrite(match: re.Match[str]) -> str:
        return f"{sign}{names.setdefault(match[1], len(names) + 1)}" if match[1] else match[0]

    return _PARAMETER.sub(rewrite, sql), tuple(names)


@cache
def sqlite_statement(sql: str) -> tuple[str, Callable[[Mapping[str, Any]], Any]]:
    """Rewrite each `:name` as a number: SQLite binds values by position in half the time.

    Python 3.12.0 to 3.12.3 cannot bind `?1` by position, so the SQL is unchanged there.

    Returns:
        The SQL, and a function that converts a mapping of parameters to the argument of the driver.
    """
    if (3, 12) <= sys.version_info < (3, 12, 4):
        return sql, lambda parameters: parameters
    text, names = number_parameters(sql, "?")
    if len(names) > 1:
        return text, itemgetter(*names)
    return text, lambda parameters: tuple(parameters[name] for name in names)


@cache
def sqlite_query(name: str) -> tuple[str, Callable[[Mapping[str, Any]], Any]]:
    """Return the `sqlite_statement` of a named query."""
    return sqlite_statement(query_sql("sqlite", name))


def returns_rows(sql: str) -> bool:
    """Return whether a query returns rows.

    A query returns rows if its verb is "select" or "values", or if it has a "returning" clause. Subqueries are ignored:
    text in parentheses is removed, the innermost first.
    """
    outer, count = _QUOTED.sub("", sql), 1
    while count:
        outer, count = _INNERMOST_PARENTHESES.subn("", outer)
    words = _words(outer)
    verb = next((word for word in words if word in _VERBS), None) if words[0] == "with" else words[0]
    return verb in {"select", "values"} or "returning" in words


def is_write(sql: str) -> bool:
    """Return whether a query may write."""
    return not {"insert", "update", "delete", "truncate"}.isdisjoint(_words(sql))


_VALUE_PARAMETERS = (
    "body", "value", "recipe", "head", "metadata", "extra", "versions", "indexed", "note", "payload", "messages",
)  # fmt: skip
"""The names of parameters whose values come from callers, and may therefore be large."""


@cache
def value_parameters(dialect: str, name: str) -> tuple[str, ...] | None:
    """Return the names of a query's parameters whose sizes must be checked before a write.

    Returns:
        The names; None if nothing is checked. () for `insert_entries`: only its number of rows is checked.
    """
    sql = query_sql(dialect, name) if ("name", name) in load_texts(dialect) else ""
    names = tuple(filter(parameter_names(sql).__contains__, _VALUE_PARAMETERS))
    stores_values = not {"insert", "update"}.isdisjoint(_words(sql))
    return names if stores_values and (names or name == "insert_entries") else None


def _words(sql: str) -> list[str]:
    return _WORD.findall(_QUOTED.sub("", sql).lower())


class Query:
    """A named query. A call with a transaction and parameters returns its rows."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, tx: Transaction, /, **parameters: Any) -> Rows:
        """Run the query."""
        return tx.run(self.name, parameters)

    def lazy(self, tx: Transaction, /, **parameters: Any) -> Rows:
        """Run the query and return lazy rows; see `Transaction.run`."""
        return tx.run(self.name, parameters, lazy=True)

    def run_many(self, tx: Transaction, rows: list[dict[str, Any]]) -> None:
        """Run the query once for each dictionary of parameters."""
        tx.run_many(self.name, rows)


class _Queries:
    def __init__(self) -> None:
        self.__dict__.update((name, Query(name)) for kind, name in load_texts(DIALECTS[0]) if kind == "name")

    def __getattr__(self, name: str) -> Query:
        raise AttributeError(f"Unknown query {safe_repr(name)}: storage/queries does not define it.")


query = _Queries()


def digest(body: bytes) -> bytes:
    """Return the key of a body: its BLAKE2b digest of 20 bytes."""
    return blake2b(body, digest_size=20).digest()


LINK_BYTES = 32
"""The size of a link of the audit trail in bytes."""


def next_link(link: bytes, entry: bytes) -> bytes:
    """Compute the link of an audit entry: a digest of the entry and all entries before it.

    Args:
        link: The link of the previous entry.
        entry: The digest of the entry.
    """
    return blake2b(link + entry, digest_size=LINK_BYTES).digest()


def store_bodies(tx: Transaction, bodies: Mapping[bytes, bytes]) -> None:
    """Store those bodies that are not stored yet.

    Args:
        tx: The transaction.
        bodies: The bodies, by digest.
    """
    # All writers store bodies in the order of their keys, so that they cannot deadlock.
    rows = [{"hash": key, "body": bodies[key]} for key in sorted(bodies)]
    if len(rows) == 1:
        query.store_content(tx, **rows[0])
    elif rows:
        query.store_content.run_many(tx, rows)


def collect_bodies(tx: Transaction, hashes: Iterable[bytes]) -> None:
    """Delete the given bodies to which no row refers.

    Args:
        tx: The transaction.
        hashes: The digests of the bodies.
    """
    if rows := [{"hash": key} for key in sorted(set(hashes))]:
        query.lock_contents(tx, hashes=json.dumps([row["hash"].hex() for row in rows]))
        query.collect_content.run_many(tx, rows)


def ensure_namespace(tx: Transaction, path: str) -> int:
    """Return the row id of a namespace. Create the namespace if it is missing.

    Args:
        tx: The transaction.
        path: The path of the namespace.

    Raises:
        BranchMoved: Another transaction deleted the namespace meanwhile, so the engine retries the operation.
    """
    rows = query.find_namespace(tx, path=path)
    if not rows:
        query.create_namespace(tx, path=path)
        rows = query.find_namespace(tx, path=path)
    if not rows:
        raise BranchMoved
    return int(rows[0]["id"])
