"""An HTTP client of Studio that reads pages and submits forms as a browser does."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from starlette.testclient import TestClient

from .markup import harmless


class Browser(TestClient):
    """A client that fills in forms as a browser would."""

    def text_of(self, url: str, status: int = 200, **asked: Any) -> str:
        answer = self.get(url, params=asked or None)
        assert answer.status_code == status, answer.text
        return answer.text

    def settled(self, url: str) -> str:
        """Read a page until it shows the results of its background work; each request waits for these for a while."""
        while 'aria-busy="true"' in (text := self.text_of(url)):
            pass
        return text

    def harmless(self, url: str) -> str:
        """Read a page of hostile texts and check that it runs, loads and hides nothing."""
        text = self.settled(url)
        harmless(text)
        return text

    def walk(self, url: str | None) -> list[str]:
        """Read a page and all older ones that its links lead to."""
        pages = []
        while url:
            pages.append(self.settled(url))
            older = re.search(r'<a href="([^"]*)">Older</a>', pages[-1])
            url = older and unescape(older[1])
        return pages

    def submit(self, url: str, form_on: str = "/", **fields: str) -> Any:
        found = re.search(r'name="csrf" value="(\w+)"', self.get(form_on).text)
        csrf = {"csrf": found[1]} if found else {}
        return self.post(url, data={**csrf, **fields}, headers={"Origin": "http://testserver"})
