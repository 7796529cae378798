"""Databases whose memory has shards: made and migrated once, and emptied for each test."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage import Opening
from langchain_agentmem.storage.database import Database

from .emptying import url_of

COUNT = 3
"""How many schemas there are."""

KEPT = """
create schema kept;
create function kept.tables() returns table (schema name, name name) language sql stable as $$
    select schemaname, tablename from pg_tables where schemaname like 'agentmem\\_%'
$$;
do $$ declare found record; filled bool;
begin
    for found in select * from kept.tables() loop
        execute format('select exists (select from %I.%I)', found.schema, found.name) into filled;
        if filled then
            execute format('create table kept.%I as table %I.%I',
                found.schema || found.name, found.schema, found.name);
        end if;
    end loop;
end $$;
"""

EMPTY = """
select pg_terminate_backend(pid, 30000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid();
do $$ declare found record; filled bool;
begin
    for found in select * from kept.tables() loop
        execute format('select exists (select from %I.%I)', found.schema, found.name) into filled;
        if filled then
            execute format('delete from %I.%I', found.schema, found.name);
        end if;
        if to_regclass(format('kept.%I', found.schema || found.name)) is not null then
            execute format('insert into %I.%I overriding system value table kept.%I',
                found.schema, found.name, found.schema || found.name);
        end if;
    end loop;
    delete from agentmem.pin;
end $$;
"""


def with_shards(patch: pytest.MonkeyPatch, url: str) -> str:
    """Have every memory of a database be one with shards that is opened without a word on it.

    How many labels name a tenant is decided by whoever opens it first.

    Args:
        patch: Until when.
        url: The URL of an empty database.
    """
    open_ = Database.__init__
    decided: list[int] = []

    def opened(self: Database, given: Any, **options: Any) -> None:
        opening = options.pop("opening", Opening())
        if opening.shards is None and given == url:
            opening = opening._replace(shards=COUNT)
            if not decided:
                decided.append(opening.tenant_depth)
                run(url, f"update agentmem.shard set tenant_depth = {opening.tenant_depth}")
        open_(self, given, opening=opening, **options)

    patch.setattr(Database, "__init__", opened)
    return url


def run(url: str, *statements: str) -> None:
    """Run statements, each in a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        for each in statements:
            connection.execute(each)


class ShardedDatabases:
    """A few databases of one server, which serve all tests.

    Args:
        server: The URL of the server.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._names: dict[int, str] = {}

    def made(self, number: int) -> str:
        """The URL of a database, as a first opening leaves it.

        Args:
            number: Which of those that one test needs.
        """
        if number in self._names:
            url = url_of(self._server, self._names[number])
            run(url, "set session_replication_role = replica", EMPTY)
            return url
        name = self._names[number] = f"agentmem_{uuid.uuid4().hex}"
        run(self._server, f"create database {name}")
        url = url_of(self._server, name)
        AgentMemory(url, shards=COUNT).close()
        run(url, KEPT)
        return url

    def drop(self) -> None:
        """Take the databases away."""
        run(self._server, *(f"drop database if exists {name} with (force)" for name in self._names.values()))
