"""All SQL lives in the `.sql` files of storage/, and each query of them is used."""

import ast
import re
from functools import cache
from pathlib import Path

import langchain_agentmem
from langchain_agentmem.storage import queries
from langchain_agentmem.storage.queries import load_queries

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


class TestNames:
    def test_every_query_exists_and_is_used(self):
        assert set(load_queries("sqlite")) == set(used_queries())

    def test_run_many_queries_return_no_rows(self):
        # From Python 3.12 on, `executemany` fails at the second row when the first returned something.
        many = {
            node.value.attr
            for _, tree in modules()
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr == "run_many" and isinstance(node.value, ast.Attribute)
        }
        assert "insert_entries" in many
        assert [
            name
            for name in sorted(many)
            for sql in (load_queries(dialect)[name] for dialect in queries.DIALECTS)
            if "returning" in sql and queries.returns_rows(sql)
        ] == []


def test_no_sql_or_driver_outside_storage():
    found = []
    for path, tree in modules():
        if STORAGE in path.parents:
            continue
        prose = {id(constant) for constant in docstrings(tree)}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in prose else ""
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            drivers = {"sqlite3", "psycopg"} & {name.partition(".")[0] for name in names}
            if drivers or (isinstance(text, str) and SQL.search(text)):
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert found == []
