"""Fixtures: a database that has everything, and targets of copies."""

import shutil
from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.search.search_index import index_waiting
from tests.everything import fill, with_vectors


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> str:
    """A database that has everything."""
    path = str(tmp_path_factory.mktemp("full") / "full.db")
    with with_vectors(path) as memory:
        fill(memory)
        memory.settle()
    with AgentMemory(path) as memory:
        memory.conversation("late").add(role="user", content="it waits for its vector")
        memory.database.engine.write(index_waiting)  # a copy has counted all its documents
    return path


@pytest.fixture
def source(full, tmp_path) -> str:
    return str(shutil.copy(full, tmp_path / "source.db"))


@pytest.fixture
def target(url):
    return url


@pytest.fixture
def path(full, tmp_path) -> Path:
    (tmp_path / "folder").mkdir()
    return Path(shutil.copy(full, tmp_path / "folder" / "memory.db"))
