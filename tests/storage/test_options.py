"""Options of opening a database: schema, pool size, read-only access, migration."""

from decimal import Decimal
from fractions import Fraction

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseReadOnly, InvalidInput
from langchain_agentmem.storage import engine
from tests import everything
from tests.checkpoints.graphs import at, chat_graph
from tests.storage.sessions import add_texts, texts_of

pytestmark = pytest.mark.bare


def test_invalid_options_are_rejected_before_opening(url, tmp_path):
    for option in (
        {"schema": "Agent"}, {"schema": "a; drop table x"}, {"schema": "pg_x"}, {"schema": ""}, {"schema": 1},
        {"pool_size": 0}, {"pool_size": True}, {"pool_size": "10"}, {"timeout": -1}, {"timeout": "60"},
        {"timeout": float("nan")}, {"timeout": 604_801}, {"timeout": 1e12}, {"busy_timeout": None},
        {"read_only": 1}, {"migrate": None},
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=next(iter(option))):
            AgentMemory(url, **option)
    assert not list(tmp_path.glob("*.db"))

    AgentMemory(url, busy_timeout=Decimal("0.5"), timeout=Fraction(60)).close()
    for option in ({"schema": "other"}, {"pool_size": 3}):
        with pytest.raises(InvalidInput, match="PostgreSQL"):
            AgentMemory(tmp_path / "memory.db", **option)


class TestReadOnly:
    @pytest.mark.slow
    def test_everything_is_readable_and_nothing_writable(self, url):
        with AgentMemory(url) as memory:
            everything.fill(memory)
            add_texts(memory, "a heron", conversation="of herons")
        with AgentMemory(url, read_only=True) as memory:
            assert texts_of(memory, "of herons") == ["a heron"]
            assert len(memory.search("heron", everything=True)) == 10
            assert memory.store.get(("docs", "ana"), "one").value["n"] == 1.5
            assert list(memory.checkpointer.list(None))
            assert memory.admin.stats()["messages"] > 0
            assert memory.admin.verify().problems == ()
            for write in (
                lambda: add_texts(memory, "no"),
                lambda: memory.store.put(("a",), "k", {"v": 1}),
                lambda: memory.erase(namespace=()),
                lambda: memory.layers().core.set("k", "v"),
                lambda: chat_graph(memory.checkpointer).invoke({"messages": [HumanMessage("no")]}, at("new")),
            ):
                with pytest.raises(DatabaseReadOnly, match="read_only"):
                    write()
            assert texts_of(memory, "of herons") == ["a heron"]

    def test_read_only_creates_no_database(self, url, tmp_path):
        with pytest.raises(DatabaseReadOnly):
            AgentMemory(url, read_only=True)
        assert not list(tmp_path.glob("*.db"))


def test_older_database_is_rejected_without_migration(url, monkeypatch):
    AgentMemory(url).close()
    every, later = engine.migrations, engine.Migration("0999_later", "create table later (id integer);")
    monkeypatch.setattr(engine, "migrations", lambda dialect: (*every(dialect), later))
    for option in ({"migrate": False}, {"read_only": True}):
        with pytest.raises(DatabaseReadOnly, match="older version"):
            AgentMemory(url, **option)
    AgentMemory(url).close()
    AgentMemory(url, migrate=False, read_only=True).close()
