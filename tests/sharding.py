"""Databases whose memory has shards: one is made and migrated, and copied for each test."""

from __future__ import annotations

import uuid

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage import Opening
from langchain_agentmem.storage.database import Database

from .emptying import url_of

COUNT = 3
"""How many schemas there are."""


def with_shards(patch: pytest.MonkeyPatch) -> None:
    """Have every memory be one with shards that is opened without a word on it."""
    patch.setitem(AgentMemory.__init__.__kwdefaults__, "shards", COUNT)
    patch.setitem(Database.__init__.__kwdefaults__, "opening", Opening(shards=COUNT))
    *others, _, depth = Opening.__new__.__defaults__
    patch.setattr(Opening.__new__, "__defaults__", (*others, COUNT, depth))


class ShardedDatabases:
    """Copies of a database that was migrated once.

    Args:
        server: The URL of the server.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._names: dict[int, str] = {}

    def made(self, depth: int = 1) -> str:
        """The URL of a database, as a first opening leaves it."""
        return url_of(self._server, self._copy(self._original(depth)))

    def drop(self) -> None:
        """Take the databases away."""
        with psycopg.connect(self._server, autocommit=True) as connection:
            for name in self._names.values():
                connection.execute(f"drop database if exists {name} with (force)")

    def _original(self, depth: int) -> str:
        if depth not in self._names:
            name = self._names[depth] = self._copy("template1")
            AgentMemory(url_of(self._server, name), shards=COUNT, tenant_depth=depth).close()
        return self._names[depth]

    def _copy(self, name: str) -> str:
        made = f"agentmem_{uuid.uuid4().hex}"
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(f"create database {made} template {name}")
        return made
