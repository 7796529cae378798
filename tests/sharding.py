"""Databases whose memory has shards: made and migrated once, and emptied for each test."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage import Opening, is_postgres
from langchain_agentmem.storage.database import Database

from .emptying import url_of

COUNT = 3
"""How many schemas there are."""

KEPT = """
create schema kept;
create function kept.tables() returns table (schema name, name name) language sql stable as $$
    select schemaname, tablename from pg_tables where schemaname like 'agentmem\\_%%'
$$;
do $$ declare found record; filled bool;
begin
    for found in select * from kept.tables() loop
        execute format('select exists (select from %%I.%%I)', found.schema, found.name) into filled;
        if filled then
            execute format('create table kept.%%I as table %%I.%%I', found.schema || found.name, found.schema, found.name);
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
        execute format('select exists (select from %%I.%%I)', found.schema, found.name) into filled;
        if filled then
            execute format('delete from %%I.%%I', found.schema, found.name);
        end if;
        if to_regclass(format('kept.%%I', found.schema || found.name)) is not null then
            execute format('insert into %%I.%%I overriding system value table kept.%%I',
                found.schema, found.name, found.schema || found.name);
        end if;
    end loop;
    delete from agentmem.pin;
end $$;
"""


def with_shards(patch: pytest.MonkeyPatch) -> None:
    """Have every memory on PostgreSQL be one with shards that is opened without a word on it."""
    open_ = Database.__init__

    def opened(self: Database, url: Any, *, opening: Opening = Opening(), **options: Any) -> None:
        if opening.shards is None and isinstance(url, str) and is_postgres(url):
            opening = opening._replace(shards=COUNT)
        open_(self, url, opening=opening, **options)

    patch.setattr(Database, "__init__", opened)


class ShardedDatabases:
    """A few databases of one server, which serve all tests.

    Args:
        server: The URL of the server.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._names: dict[tuple[int, int], str] = {}

    def made(self, number: int, depth: int = 1) -> str:
        """The URL of a database, as a first opening leaves it.

        Args:
            number: Which of those that one test needs.
            depth: How many labels name a tenant.
        """
        if (number, depth) in self._names:
            url = url_of(self._server, self._names[number, depth])
            self._run(url, "set session_replication_role = replica", EMPTY)
            return url
        name = self._names[number, depth] = f"agentmem_{uuid.uuid4().hex}"
        self._run(self._server, f"create database {name}")
        url = url_of(self._server, name)
        AgentMemory(url, shards=COUNT, tenant_depth=depth).close()
        self._run(url, KEPT)
        return url

    def drop(self) -> None:
        """Take the databases away."""
        self._run(self._server, *(f"drop database if exists {name} with (force)" for name in self._names.values()))

    @staticmethod
    def _run(url: str, *statements: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            for each in statements:
                connection.execute(each.replace("%%", "%"))
