"""The pictures of `docs/studio.md`: each page of Studio, of the life that the demo shows.

    python -m tests.browser.pictures [--dark] [FOLDER]

They go to `docs/images`, unless another folder is named. It needs Chromium, and the extra `[browser]`.
"""

import argparse
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from langchain_agentmem import AgentMemory
from langchain_agentmem.studio import sample

from .serving import CHROMIUM, PAGES, serving

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SIZE = {"width": 1200, "height": 800}


def take(folder: Path, scheme: str) -> None:
    """Take a picture of each page."""
    with tempfile.TemporaryDirectory() as temporary:
        experiences = Path(temporary, "experiences")
        experiences.mkdir()
        with AgentMemory(Path(temporary, "agent.db")) as memory:
            sample.live(memory, experiences)
        database = Path(temporary, "agent.db")
        with serving(database, "--experiences", str(experiences)) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)
            page.goto(address)
            for name, path in PAGES.items():
                page.goto(address.partition("/?")[0] + path)
                page.wait_for_load_state("networkidle")
                page.screenshot(path=folder / f"{name}.png")
            browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=IMAGES)
    parser.add_argument("--dark", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    take(given.folder, "dark" if given.dark else "light")
