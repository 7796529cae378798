"""Studio, as a browser that has a session sees it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from starlette.testclient import TestClient

from langchain_agentmem import AgentMemory


class Harmless(HTMLParser):
    """Reads a page, and finds what no page of Studio has."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert tag not in {"img", "iframe", "style", "object", "embed", "b"}, tag
        assert tag != "script" or given.keys() == {"src", "defer"}, given
        for name, value in attrs:
            assert name != "style", given
            assert not name.startswith("on"), given
            if name in {"href", "src", "action", "hx-get"}:
                assert (value or "").startswith(("/", "#")), given
                assert not (value or "").startswith("//"), given


class Browser(TestClient):
    """A client that fills in forms as a browser would."""

    def text_of(self, url: str, status: int = 200) -> str:
        answer = self.get(url)
        assert answer.status_code == status, answer.text
        return answer.text

    def settled(self, url: str) -> str:
        """A page, once it shows what it finds out beside the requests."""
        while 'aria-busy="true"' in (text := self.text_of(url)):
            time.sleep(0.01)
        return text

    def harmless(self, url: str) -> str:
        """A page of hostile texts, which runs nothing, leads nowhere else, and hides and turns around nothing."""
        text = self.settled(url)
        assert not re.search("[\u200b\u202a-\u202e\u2066-\u2069\ufeff]", text)
        Harmless().feed(text)
        return text

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
