"""Fixtures that open Studio in a client with a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from langchain_agentmem import AgentMemory

if TYPE_CHECKING:
    from .browser import Browser


@pytest.fixture
def browse() -> Iterator[Callable[..., Browser]]:
    """Opens Studio on a memory."""
    from .browser import Browser  # a web framework, which only these tests need

    opened: list[Browser] = []

    def open_one(memory: AgentMemory, **options: Any) -> Browser:
        browser = Browser(memory.studio(user="ada", **options), raise_server_exceptions=True)
        opened.append(browser)
        return browser

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def browser(memory: AgentMemory, browse: Callable[..., Browser]) -> Browser:
    return browse(memory)


@pytest.fixture
def slow_values_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow values never become known."""
    from langchain_agentmem.studio.application import ResultCache

    monkeypatch.setattr(ResultCache, "fetch", mock.AsyncMock(return_value=None))
