"""The pictures of `docs/studio.md`: each page of Studio, with the sample of the demo.

    python -m tests.browser.pictures [--dark] [FOLDER]

Those that the page names go to `docs/images`; to another folder, all. It needs Chromium, and the extra `[browser]`.
"""

import argparse
import re
import tempfile
from collections.abc import Collection
from pathlib import Path

from playwright.sync_api import sync_playwright

from langchain_agentmem import AgentMemory
from langchain_agentmem.studio import sample

from .serving import CHROMIUM, PAGES, serving

DOCS = Path(__file__).parents[2] / "docs"
SIZE = {"width": 1200, "height": 800}


def take(folder: Path, names: Collection[str], scheme: str) -> None:
    """Take pictures of these pages."""
    with tempfile.TemporaryDirectory() as temporary:
        experiences = Path(temporary, "experiences")
        experiences.mkdir()
        with AgentMemory(Path(temporary, "agent.db")) as memory:
            sample.play_story(memory, experiences)
        database = Path(temporary, "agent.db")
        with serving(database, "--experiences", str(experiences)) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)
            page.goto(address)
            for name in names:
                page.goto(address.partition("/?")[0] + PAGES[name])
                page.wait_for_load_state("networkidle")
                page.screenshot(path=folder / f"{name}.png")
            browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--dark", action="store_true")
    given = parser.parse_args()
    folder, names = given.folder or DOCS / "images", PAGES
    if given.folder is None:
        names = re.findall(r"images/([\w-]+)\.png", (DOCS / "studio.md").read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    take(folder, names, "dark" if given.dark else "light")
