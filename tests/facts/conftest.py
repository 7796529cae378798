"""Fixtures for the tests of facts."""

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage.background import Task


@pytest.fixture
def memory(memory):
    """An open memory that is verified after each test."""
    yield memory
    assert memory.admin.verify().problems == ()


@pytest.fixture
def here():
    """An in-memory database, for tests that do not depend on the engine."""
    with AgentMemory(":memory:") as memory:
        yield memory


@pytest.fixture
def light(clock, new_id):
    """An in-memory database with a fixed clock and ids."""
    with AgentMemory(clock=clock, new_id=new_id) as memory:
        yield memory


@pytest.fixture
def alone(monkeypatch):
    """Disable the background task, so that model calls can be counted."""
    monkeypatch.setattr(Task, "wake", lambda self: None)
