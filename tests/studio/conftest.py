"""Studio, as a browser that has a session sees it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from langchain_agentmem import AgentMemory


class Browser(TestClient):
    """A client that fills in forms as a browser would."""

    def text_of(self, url: str, status: int = 200) -> str:
        answer = self.get(url)
        assert answer.status_code == status, answer.text
        return answer.text

    def submit(self, url: str, form_on: str = "/", **fields: str) -> Any:
        found = re.search(r'name="csrf" value="(\w+)"', self.get(form_on).text)
        csrf = {"csrf": found[1]} if found else {}
        return self.post(url, data={**csrf, **fields}, headers={"Origin": "http://testserver"})


@pytest.fixture
def browse() -> Iterator[Callable[..., Browser]]:
    """Opens Studio on a memory."""
    opened: list[Browser] = []

    def open_one(memory: AgentMemory, **options: Any) -> Browser:
        browser = Browser(memory.studio(user="ada", **options), raise_server_exceptions=True)
        opened.append(browser)
        return browser

    yield open_one
    for each in opened:
        each.close()
