from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langsmith.utils import get_env_var

from langchain_agentmem import AgentMemory
from langchain_agentmem.tracing import Tracing, has_tracing_env

from .trees import Collector


@pytest.fixture
def tracer_config(collector: Collector) -> dict[str, Any]:
    return {"callbacks": [collector]}


@pytest.fixture
def heard() -> list[Any]:
    return []


@pytest.fixture
def tracing() -> Tracing:
    return Tracing(metadata={"agentmem_database": "sqlite"})


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """LangSmith reads the environment once; each test starts as a new process would."""
    for library in ("LANGSMITH", "LANGCHAIN"):
        for name in ("TRACING", "TRACING_V2", "API_KEY", "ENDPOINT", "PROJECT"):
            monkeypatch.delenv(f"{library}_{name}", raising=False)
    forget_environment()
    yield
    forget_environment()


def forget_environment() -> None:
    get_env_var.cache_clear()
    has_tracing_env.cache_clear()


@pytest.fixture
def redacted_memory(tmp_path, heard):
    with AgentMemory(tmp_path / "a.db", hooks=[heard.append], trace_content=False) as memory:
        yield memory
