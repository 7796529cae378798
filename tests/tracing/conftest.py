from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import langsmith
import pytest
from langsmith import run_trees
from langsmith.utils import get_env_var

from langchain_agentmem.tracing import Tracing
from langchain_agentmem.tracing.langchain_runs import environment_asks_for_tracing

from .loopback import LangSmith
from .trees import Collector


@pytest.fixture
def collector() -> Collector:
    return Collector()


@pytest.fixture
def traced_by(collector: Collector) -> dict[str, Any]:
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
    environment_asks_for_tracing.cache_clear()


@pytest.fixture
def server() -> Iterator[LangSmith]:
    """LangSmith, on this machine."""
    with LangSmith() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.let_go()
        running.shutdown()
        thread.join()


@pytest.fixture
def client(server: LangSmith, monkeypatch: pytest.MonkeyPatch) -> Iterator[langsmith.Client]:
    """The real client, as the one that LangSmith and LangChain share."""
    monkeypatch.setenv("LANGSMITH_ENDPOINT", server.url)
    monkeypatch.setenv("LANGSMITH_API_KEY", "not-a-key")
    forget_environment()
    made = langsmith.Client()
    monkeypatch.setattr(run_trees, "_CLIENT", made)
    yield made
    server.let_go()
    made.cleanup(timeout=0 if server.ill else 10)  # what an ill server was to be told is lost
    made.session.close()


@pytest.fixture
def langsmith_on(client: langsmith.Client, monkeypatch: pytest.MonkeyPatch) -> langsmith.Client:
    """The same, and the environment asks for it."""
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    forget_environment()
    return client
