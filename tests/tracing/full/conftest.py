from __future__ import annotations

import threading
from collections.abc import Iterator

import langsmith
import pytest
from langsmith import run_trees

from tests.tracing.conftest import forget_environment
from tests.tracing.loopback import LangSmith


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
