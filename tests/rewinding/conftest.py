"""Fixtures of rewinding: a `Mind` on either engine, in every durability, sync and async."""

from __future__ import annotations

import pytest

from langchain_agentmem import AgentMemory

from .minds import Mind
from .test_care import at, fill, say

FORMS = {
    "durability": {"async": "async", "exit": "exit", "sync": "sync"},
    "awaited": {"waiting": False, "awaiting": True},
}
QUICK = {"durability": 2, "awaited": 1}
"""Number of forms that the quick ring runs."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test with its forms, unless it names its own."""
    own = {each.args[0] for each in metafunc.definition.iter_markers("parametrize")}
    for name, forms in FORMS.items():
        if name in metafunc.fixturenames and name not in own:
            few = [*forms][: None if metafunc.config.option.full else QUICK[name]]
            metafunc.parametrize(name, [forms[each] for each in few], ids=few)


@pytest.fixture
def mind(url, durability, awaited):
    mind = Mind(url, durability, awaited=awaited)
    yield mind
    mind.close()


@pytest.fixture
def filled(request, url, clock, new_id):
    """A memory that was opened after its content was written."""
    with AgentMemory(url, clock=clock, new_id=new_id) as memory:
        fill(memory)
    return request.getfixturevalue("memory")


@pytest.fixture
def another(request, new_database, url, clock):
    """A memory on the other engine, or in another file in the quick ring."""
    kind = "postgres" if request.config.option.full and not url.startswith("postgres") else "sqlite"
    with AgentMemory(new_database(kind), clock=clock) as memory:
        yield memory


@pytest.fixture
def exported(filled, tmp_path):
    filled.export(tmp_path / "all.jsonl")
    return tmp_path / "all.jsonl"


@pytest.fixture
def older(memory):
    """A root thread with a fork and a conversation, next to another thread."""
    for said in ("one", "two, forget it"):
        say(memory, said)
    early = list(memory.checkpointer.list(at()))[9].config["configurable"]
    say(memory, "on a fork", checkpoint_id=early["checkpoint_id"], checkpoint_ns="")
    memory.conversation("t").add(role="user", content="somebody said one more thing", name="Ana")
    say(memory, "three", "other")
    return memory
