"""Fixtures of the tests of checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory, AgentMemorySaver
from tests.forking import Forks

from . import graphs


@pytest.fixture(scope="session", autouse=True)
def _interpreter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    modules = ("checkpoints.checkpoint_saver", "storage.postgres", "storage.sqlite")
    names = ("langgraph.graph", "langgraph.types", *(f"langchain_agentmem.{name}" for name in modules))
    with Forks(tmp_path_factory.mktemp("scripts"), *names, home=Path(__file__).parent) as forks:
        graphs.INTERPRETERS[:] = [forks]
        yield


@pytest.fixture
def saver(memory: AgentMemory) -> AgentMemorySaver:
    return memory.checkpointer
