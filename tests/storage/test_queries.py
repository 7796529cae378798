"""Stored queries are the same in both dialects and are rewritten for each driver."""

import sqlite3
from contextlib import closing

import pytest

from langchain_agentmem.storage import queries, query
from langchain_agentmem.storage.queries import load_queries, number_parameters, parameter_names


class TestDialects:
    def test_dialects_have_equal_queries_and_parameters(self):
        theirs, others = (
            {name: parameter_names(sql) for name, sql in load_queries(each).items()} for each in queries.DIALECTS
        )
        assert theirs == others

    def test_duplicate_query_name_is_an_error(self, monkeypatch, tmp_path):
        folder = tmp_path / "queries"
        folder.mkdir()
        (folder / "a.sql").write_text("-- name: twice\nselect 1;\n")
        (folder / "b.sql").write_text("-- name: twice\nselect 2;\n")
        monkeypatch.setattr(queries.resources, "files", lambda package: tmp_path)
        with pytest.raises(ValueError, match="twice"):
            queries.load_texts.__wrapped__("sqlite")


def test_unknown_query_error_names_it():
    with pytest.raises(AttributeError, match="no_such_query"):
        _ = query.no_such_query


def test_only_parameters_are_rewritten():
    for ours, theirs in (
        ("select :a", "select $1"),
        ("select :a, :b, :a", "select $1, $2, $1"),
        ("select :a, :a2", "select $1, $2"),
        ("select cast(:a as bigint)::text", "select cast($1 as bigint)::text"),
        ("select '{}'::jsonb, :a::bigint", "select '{}'::jsonb, $1::bigint"),
        ("select ':a', :b", "select ':a', $1"),
        ("select 'it''s :a', :b", "select 'it''s :a', $1"),
        ("select 100 % 7, '50%', :a", "select 100 % 7, '50%', $1"),
        ("select ''''", "select ''''"),
    ):
        assert number_parameters(ours, "$")[0] == theirs
    assert number_parameters("select ':a', :b::text, :d", "$")[1] == ("b", "d")
    assert parameter_names("select :a, ':no', b::no, :c where x = :a") == {"a", "c"}


def test_values_are_bound_by_number(monkeypatch):
    """Python 3.12.0 to 3.12.3 warn of a row of values for numbers, and 3.14 will refuse one for names."""
    for sql, given, rows in (
        ("select 1", {}, [(1,)]),
        ("select :a", {"a": "x", "other": 1}, [("x",)]),
        ("select :b, :a, ':a', :b", {"a": "x", "b": None}, [(None, "x", ":a", None)]),
    ):
        for version in ((3, 11, 7), (3, 12, 1), (3, 12, 3), (3, 12, 4), (3, 13, 0)):
            monkeypatch.setattr(queries.sys, "version_info", version)
            text, values = queries.sqlite_statement.__wrapped__(sql)
            assert (values(given) is given) == ((3, 12) <= version < (3, 12, 4))
            assert ("?1" in text) == (bool(given) and values(given) is not given)
        monkeypatch.undo()
        text, values = queries.sqlite_statement(sql)
        with closing(sqlite3.connect(":memory:")) as connection:
            assert connection.execute(text, values(given)).fetchall() == rows
