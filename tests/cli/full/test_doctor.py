"""`agentmem doctor` on servers."""

from contextlib import contextmanager

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import postgres
from langchain_agentmem.upkeep import integrity
from langchain_agentmem.upkeep.integrity import diagnose
from tests.cli.commands import told
from tests.cli.test_doctor_command import found, problem
from tests.emptying import direct


def given(url, **settings):
    """The URL with settings of the server's for its connections."""
    options = "%20".join(f"-c%20{name}%3D{value}" for name, value in settings.items())
    return f"{url}{'&' if '?' in url else '?'}options={options}"


@contextmanager
def executed(url, before, after):
    """What was executed holds for a while."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(before)
        try:
            yield connection
        finally:
            connection.execute(after)


class TestServers:
    def test_a_sound_one(self, new_database):
        url = new_database("postgres")
        with AgentMemory(url) as memory:
            memory.conversation("one").add(role="user", content="a heron")
        findings = found(url, deep=True)
        assert [each.name for each in findings.values() if each.level == "problem"] == []
        assert {"postgresql", "permissions", "connections", "schema", "vectors", "verify"} <= findings.keys()

    def test_one_that_is_not_there(self):
        assert problem("postgresql://nobody:secret@127.0.0.1:1/x", "database")
        assert not any("secret" in each.text for each in diagnose("postgresql://nobody:secret@127.0.0.1:1/x"))

    def test_a_newer_schema(self, new_database):
        url = new_database("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("insert into agentmem.agentmem_migration values ('9999_from_the_future', 1)")
            try:
                assert "9999" in problem(url, "database", deep=True).text
            finally:
                connection.execute("delete from agentmem.agentmem_migration where name like '9999%'")

    def test_a_table_that_somebody_has_locked_keeps_nobody_waiting(self, new_database, monkeypatch):
        monkeypatch.setattr(integrity, "LOCK_TIMEOUT", 0.01)
        url = new_database("postgres")
        with psycopg.connect(url) as connection:
            connection.execute("lock agentmem.search_state in access exclusive mode")
            assert "locked" in problem(url, "database").text

    def test_a_user_who_may_not_use_the_schema(self, new_database):
        url = new_database("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create role agentmem_stranger")
            try:
                assert "role may not" in found(given(direct(url), role="agentmem_stranger"))["database"].text
            finally:
                connection.execute("drop role agentmem_stranger")

    @pytest.mark.bare
    def test_nothing_stored_yet(self, new_database):
        assert "Nothing is stored" in problem(new_database("postgres"), "database").text

    def test_few_connections_are_left(self, new_database, monkeypatch):
        monkeypatch.setattr(postgres, "CROWDED_SHARE", 0.0)
        assert "connections are in use" in problem(new_database("postgres"), "connections").text

    def test_another_schema(self, new_database, agentmem):
        url = new_database("postgres")
        with executed(url, "create schema other", "drop schema other cascade"):
            with AgentMemory(url, schema="other") as memory:
                memory.conversation("one").add(role="user", content="a heron")
            for given, variables in ((["--schema", "other"], {}), ([], {"AGENTMEM_SCHEMA": "other"})):
                assert told(agentmem("stats", url, *given, "--json", **variables))["messages"] == 1
            assert told(agentmem("stats", url, "--json"))["messages"] == 0
            findings = {each.name: each for each in diagnose(url, schema="other")}
        assert (findings["schema"].level, findings["verify"].level) == ("ok", "ok")
        with pytest.raises(InvalidInput, match="schema must be"):
            list(diagnose(url, schema="no name"))
