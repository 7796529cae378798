"""Fixtures: Chromium, and a server of Studio with a sample memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from langchain_agentmem import AgentMemory
from langchain_agentmem.studio import sample

from .serving import CHROMIUM, serving

PATIENCE = 20_000
"""Milliseconds that a browser may take for anything, on a machine that is busy."""
Visit = Callable[..., Page]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser."""
    if CHROMIUM is None:
        pytest.fail("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Served(NamedTuple):
    """Studio at work.

    Attributes:
        database: What it shows.
        root: Where it is.
        session: What the browser keeps of the session that the token opened, once.
    """

    database: Path
    root: str
    session: Any


@pytest.fixture(scope="module")
def served(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Studio on the life that the demo shows; of one module, which may change it."""
    folder, experiences = tmp_path_factory.mktemp("life"), tmp_path_factory.mktemp("experiences")
    with AgentMemory(folder / "agent.db") as memory:
        sample.play_story(memory, experiences)
    with serving(folder / "agent.db", "--experiences", str(experiences)) as address:
        yield opened(chromium, folder / "agent.db", address)


def opened(chromium: Browser, database: Path, address: str) -> Served:
    """Open Studio by its token."""
    context = chromium.new_context()
    context.new_page().goto(address)
    session = context.storage_state()
    context.close()
    return Served(database, address.partition("/?")[0], session)


class Watched(NamedTuple):
    """A window, and what it complained of."""

    context: BrowserContext
    complaints: list[str]


@pytest.fixture
def visit(chromium: Browser, served: Served) -> Iterator[Visit]:
    """Opens a page of Studio in a window of its own; complaints of the browser fail the test."""
    windows: list[Watched] = []

    def go(path: str = "/", studio: Served = served, **options: Any) -> Page:
        size = {"width": 1280, "height": 900}
        context = chromium.new_context(storage_state=studio.session, viewport=size, **options)
        context.set_default_timeout(PATIENCE)
        complaints: list[str] = []
        windows.append(Watched(context, complaints))
        page = context.new_page()
        watch(page, complaints)
        answer = page.goto(f"{studio.root}{path}")
        assert answer is not None
        assert answer.status == 200, page.inner_text("body")
        return page

    yield go
    for context, _ in windows:
        context.close()
    assert [each for _, complaints in windows for each in complaints] == []


def watch(page: Page, complaints: list[str]) -> None:
    """Note what a browser complains of: errors of scripts, of the console, of the policy, and dialogs."""

    def heard(message: ConsoleMessage) -> None:
        refusal = message.location.get("url") == page.url  # a page that says what is wrong, such as 409
        if message.type in {"error", "warning"} and not refusal:
            complaints.append(message.text)

    page.on("console", heard)
    page.on("pageerror", lambda error: complaints.append(str(error)))

    def failed(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # which is a page that was left
            complaints.append(f"{request.url}: {request.failure}")

    page.on("requestfailed", failed)

    def dialog(shown: Any) -> None:
        complaints.append(f"a dialog: {shown.message}")
        shown.dismiss()

    page.on("dialog", dialog)
