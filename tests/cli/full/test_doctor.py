"""`agentmem doctor` on servers."""

from contextlib import contextmanager

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import postgres
from langchain_agentmem.upkeep import integrity
from langchain_agentmem.upkeep.integrity import diagnose
from tests.cli.commands import read_json
from tests.cli.test_doctor_command import found, problem
from tests.emptying import direct


def given(url, **settings):
    """The URL with settings of the server's for its connections."""
    options = "%20".join(f"-c%20{name}%3D{value}" for name, value in settings.items())
    return f"{url}{'&' if '?' in url else '?'}options={options}"


@contextmanager
def executed(url, before, after):
    """Execute a statement, and undo it after the block."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(before)
        try:
            yield connection
        finally:
            connection.execute(after)


class TestServers:
    def test_healthy_server_has_no_problems(self, new_database):
        url = new_database("postgres")
        with AgentMemory(url) as memory:
            memory.conversation("one").add(role="user", content="a heron")
        findings = found(url, deep=True)
        assert [each.name for each in findings.values() if each.level == "problem"] == []
        assert {"postgresql", "permissions", "connections", "schema", "vectors", "verify"} <= findings.keys()

    def test_unreachable_server_is_a_problem(self):
        assert problem("postgresql://nobody:secret@127.0.0.1:1/x", "database")
        assert not any("secret" in each.text for each in diagnose("postgresql://nobody:secret@127.0.0.1:1/x"))

    def test_newer_schema_is_a_problem(self, new_database):
        url = new_database("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("insert into agentmem.agentmem_migration values ('9999_from_the_future', 1)")
            try:
                assert "9999" in problem(url, "database", deep=True).text
            finally:
                connection.execute("delete from agentmem.agentmem_migration where name like '9999%'")

    def test_locked_table_is_reported_without_waiting(self, new_database, monkeypatch):
        monkeypatch.setattr(integrity, "LOCK_TIMEOUT", 0.01)
        url = new_database("postgres")
        with psycopg.connect(url) as connection:
            connection.execute("lock agentmem.search_state in access exclusive mode")
            assert "locked" in problem(url, "database").text

    def test_missing_schema_permission_is_reported(self, new_database):
        url = new_database("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create role agentmem_stranger")
            try:
                assert (
                    "role lacks the permission" in found(given(direct(url), role="agentmem_stranger"))["database"].text
                )
            finally:
                connection.execute("drop role agentmem_stranger")

    @pytest.mark.bare
    def test_empty_server_is_a_problem(self, new_database):
        assert "Nothing is stored" in problem(new_database("postgres"), "database").text

    def test_exhausted_connections_are_reported(self, new_database, monkeypatch):
        monkeypatch.setattr(postgres, "CROWDED_SHARE", 0.0)
        assert "connections are in use" in problem(new_database("postgres"), "connections").text

    def test_commands_and_diagnosis_accept_a_schema(self, new_database, agentmem):
        url = new_database("postgres")
        with executed(url, "create schema other", "drop schema other cascade"):
            with AgentMemory(url, schema="other") as memory:
                memory.conversation("one").add(role="user", content="a heron")
            for given, variables in ((["--schema", "other"], {}), ([], {"AGENTMEM_SCHEMA": "other"})):
                assert read_json(agentmem("stats", url, *given, "--json", **variables))["messages"] == 1
            assert read_json(agentmem("stats", url, "--json"))["messages"] == 0
            findings = {each.name: each for each in diagnose(url, schema="other")}
        assert (findings["schema"].level, findings["verify"].level) == ("ok", "ok")
        with pytest.raises(InvalidInput, match="schema must be"):
            list(diagnose(url, schema="no name"))
