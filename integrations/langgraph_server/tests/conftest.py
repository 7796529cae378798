from __future__ import annotations

import json
import shutil
import uuid

import pytest

from .readme import CONFIG, PYTHON
from .serving import APP, TURN, Server


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The app of this folder and that of the README, on SQLite, for everyone: without users."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(APP / "agent.py", folder)
    (folder / "of_readme.py").write_text(PYTHON["agent.py"])
    config = json.loads(CONFIG)
    config["graphs"]["readme"] = "./of_readme.py:graph"
    (folder / "langgraph.json").write_text(json.dumps(config))
    with Server(folder) as server:
        yield server


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


@pytest.fixture(autouse=True)
def whose(monkeypatch):
    """Each test has a namespace of its own: threads of one remember together."""
    monkeypatch.setitem(TURN["configurable"], "agentmem_namespace", [f"ada-{uuid.uuid4().hex}"])


@pytest.fixture
def thread(client):
    return client.threads.create()["thread_id"]
