"""SQL lives in the `.sql` files of storage/ and nowhere else, and both dialects say the same."""

import ast
import re
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

import langchain_agentmem
from langchain_agentmem.storage import queries, query
from langchain_agentmem.storage.queries import for_libpq, load, parameters
from langchain_agentmem.storage.steps import Statement

PACKAGE = Path(langchain_agentmem.__file__).parent
STORAGE = PACKAGE / "storage"
SQL = re.compile(
    r"^\s*(select\s.+\sfrom\s|insert\s+into\s|update\s+\w+\s+set\s|delete\s+from\s|create\s+(table|index|virtual)\s|"
    r"drop\s+table|alter\s+table|pragma\s+\w+|vacuum\b|begin\s+(immediate|exclusive))",
    re.IGNORECASE | re.DOTALL,
)


@cache
def modules():
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(PACKAGE.rglob("*.py"))]


def used_queries():
    used = {}
    for path, tree in modules():
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {alias.asname or alias.name for node in imports for alias in node.names}
        if "query" not in names and path.name != "queries.py":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "query":
                used.setdefault(node.attr, path)
    return used


def docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


class TestDialects:
    def test_both_know_the_same_queries(self):
        assert set(load("sqlite")) == set(load("postgres"))

    @pytest.mark.parametrize("name", sorted(load("sqlite")))
    def test_a_query_takes_the_same_parameters_in_both(self, name):
        assert parameters(load("sqlite")[name]) == parameters(load("postgres")[name])

    def test_an_override_without_a_counterpart_would_be_noticed(self):
        own = {
            dialect: {
                name
                for path in (STORAGE / "queries").glob(f"*.{dialect}.sql")
                for name, _ in queries._split(path.read_text(encoding="utf-8"))
            }
            for dialect in queries.DIALECTS
        }
        shared = {
            name
            for path in (STORAGE / "queries").glob("*.sql")
            if path.name.count(".") == 1
            for name, _ in queries._split(path.read_text(encoding="utf-8"))
        }
        assert (own["sqlite"] ^ own["postgres"]) <= shared

    def test_a_name_that_stands_twice_is_an_error(self, monkeypatch, tmp_path):
        folder = tmp_path / "queries"
        folder.mkdir()
        (folder / "a.sql").write_text("-- name: twice\nselect 1;\n")
        (folder / "b.sql").write_text("-- name: twice\nselect 2;\n")
        monkeypatch.setattr(queries.resources, "files", lambda package: tmp_path)
        with pytest.raises(ValueError, match="twice"):
            load.__wrapped__("sqlite")


class TestNames:
    def test_every_query_the_code_asks_for_exists(self):
        missing = {name: str(path) for name, path in used_queries().items() if name not in load("sqlite")}
        assert missing == {}

    def test_every_query_in_the_files_is_used(self):
        assert set(load("sqlite")) - set(used_queries()) == set()

    def test_what_is_run_once_for_each_row_returns_none(self):
        # From Python 3.12 on, `executemany` fails at the second row when the first returned something.
        many = {
            node.value.attr
            for _, tree in modules()
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr == "many" and isinstance(node.value, ast.Attribute)
        }
        assert "insert_entries" in many
        assert [
            name
            for name in sorted(many)
            for sql in (load(dialect)[name] for dialect in queries.DIALECTS)
            if "returning" in sql and queries.returns_rows(sql)
        ] == []

    def test_an_unknown_query_is_an_error_that_names_it(self):
        with pytest.raises(AttributeError, match="no_such_query"):
            _ = query.no_such_query

    def test_a_call_gives_a_statement(self):
        given = {"path": "", "kind": "k", "name": "n"}
        assert query.find_branch(**given) == Statement("find_branch", given)
        assert query.find_branch.ahead(**given) == Statement("find_branch", given, ahead=True)
        assert query.delete_entry.many([{"id": 1}]) == Statement("delete_entry", [{"id": 1}])


class TestWhereSqlLives:
    def test_nothing_outside_storage_contains_sql(self):
        found = []
        for path, tree in modules():
            if STORAGE in path.parents:
                continue
            prose = {id(constant) for constant in docstrings(tree)}
            found += [
                f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.value[:60]!r}"
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in prose
                and SQL.search(node.value)
            ]
        assert found == []

    def test_nothing_outside_storage_imports_a_driver(self):
        found = []
        for path, tree in modules():
            if STORAGE in path.parents:
                continue
            for node in ast.walk(tree):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                found += [(path.name, name) for name in names if name.split(".")[0] in {"sqlite3", "psycopg"}]
        assert found == []

    def test_the_check_recognises_sql(self):
        assert SQL.search("select id from entry")
        assert SQL.search("insert into entry (id) values (1)")
        assert not SQL.search("Select what you need.")


class TestPostgresForm:
    @pytest.mark.parametrize(
        ("ours", "theirs"),
        [
            ("select :a", "select $1"),
            ("select :a, :a2", "select $1, $2"),
            ("select cast(:a as bigint)::text", "select cast($1 as bigint)::text"),
            ("select '{}'::jsonb, :a::bigint", "select '{}'::jsonb, $1::bigint"),
            ("select ':a', :b", "select ':a', $1"),
            ("select 'it''s :a', :b", "select 'it''s :a', $1"),
            ("select 100 % 7, '50%', :a", "select 100 % 7, '50%', $1"),
            ("-- it takes :a and 5%\nselect :b", "-- it takes :a and 5%\nselect $1"),
            ("select ''''", "select ''''"),
        ],
    )
    def test_parameters_are_rewritten_and_nothing_else(self, ours, theirs):
        assert for_libpq(ours)[0] == theirs

    def test_the_parameters_of_a_query_are_found(self):
        assert parameters("select :a, ':no', b::no, :c -- :no\nwhere x = :a") == {"a", "c"}


class TestSqliteForm:
    @pytest.mark.parametrize("version", [(3, 11, 7), (3, 12, 1), (3, 12, 3), (3, 12, 4), (3, 13, 0)])
    @pytest.mark.parametrize(
        ("sql", "given", "rows"),
        [
            ("select 1", {}, [(1,)]),
            ("select :a", {"a": "x", "other": 1}, [("x",)]),
            ("select :b, :a, ':a', :b -- :c", {"a": "x", "b": None}, [(None, "x", ":a", None)]),
        ],
    )
    def test_values_are_bound_by_number_where_numbers_are_no_names(self, monkeypatch, version, sql, given, rows):
        """Python 3.12.0 to 3.12.3 warn of a row of values for numbers, and 3.14 will refuse one for names."""
        monkeypatch.setattr(queries.sys, "version_info", version)
        text, values = queries.for_sqlite.__wrapped__(sql)
        assert (values(given) is given) == ((3, 12) <= version < (3, 12, 4))
        assert ("?1" in text) == (bool(given) and values(given) is not given)
        monkeypatch.undo()
        text, values = queries.for_sqlite(sql)
        with closing(sqlite3.connect(":memory:")) as connection:
            assert connection.execute(text, values(given)).fetchall() == rows
