"""Fixtures of the tests of checkpoints."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory, AgentMemorySaver
from tests.forking import Forks


@pytest.fixture(scope="session")
def run_script(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Run a script in a fork of a fresh process, where `graphs.py` is importable as `graphs`."""
    modules = ("checkpoints.checkpoint_saver", "storage.postgres", "storage.sqlite")
    names = ("langgraph.graph", "langgraph.types", *(f"langchain_agentmem.{name}" for name in modules))
    with Forks(tmp_path_factory.mktemp("scripts"), *names, home=Path(__file__).parent) as forks:
        yield lambda script, *arguments: forks.run(textwrap.dedent(script), *map(str, arguments))


@pytest.fixture
def saver(memory: AgentMemory) -> AgentMemorySaver:
    return memory.checkpointer
