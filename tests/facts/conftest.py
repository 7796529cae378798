"""What the tests of facts share."""

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage.background import Task


@pytest.fixture
def memory(memory):
    """An open memory, which is whole after each test, too."""
    yield memory
    assert memory.admin.verify().problems == ()


@pytest.fixture
def here():
    """A memory, where the engine makes no difference."""
    with AgentMemory(":memory:") as memory:
        yield memory


@pytest.fixture
def light(clock, new_id):
    """The same, with a clock and ids that are known."""
    with AgentMemory(clock=clock, new_id=new_id) as memory:
        yield memory


@pytest.fixture
def alone(monkeypatch):
    """Nothing is done in the background, so that it can be counted who asks what."""
    monkeypatch.setattr(Task, "wake", lambda self: None)
