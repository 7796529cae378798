"""The pages of the documentation: their code runs, their pictures are what is drawn, their links lead somewhere."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

from .forking import COMMAND, Forks

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = {"json", "sql", "toml"}
"""What a reader does elsewhere: in a server, in a file."""
OF_THEIR_OWN = {"moving.md", "studio.md"}
"""Pages with tests of their own, which make what the commands open, or end what would go on."""


def steps_of(page: str) -> list[tuple[str, str]]:
    """What a reader of a page runs, in order: programs, which go on with what the one before made, and commands."""
    steps: list[tuple[str, str]] = []
    for language, text in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if language == "python" and steps and steps[-1][0] == "python":
            steps[-1] = ("python", f"{steps[-1][1]}\n{text}")
        elif language == "python":
            steps.append(("python", text))
        elif language not in NOT_RUN:
            assert language == "sh", f"{page} has a block of {language}"
            steps += [("sh", line) for line in text.splitlines() if line and not line.startswith("#")]
    return steps


RUN = [
    page
    for page in PAGES
    if page not in OF_THEIR_OWN
    and any(kind == "python" or line.startswith("agentmem") for kind, line in steps_of(page))
]


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    modules = ("langgraph.graph", "langchain.agents", "langchain_agentmem.checkpoints.checkpoint_saver")
    with Forks(tmp_path_factory.mktemp("outputs"), *modules, home=tmp_path_factory.mktemp("home")) as forks:
        yield forks


@pytest.mark.parametrize("page", RUN)
def test_the_code_of_a_page_runs(page, forks, tmp_path):
    here = f"import os; os.chdir({str(tmp_path)!r})\n"
    for kind, text in steps_of(page):
        if kind == "python":
            run = forks.run(here + text)
            assert "print(" not in text or run.stdout.strip()
        elif text.startswith("agentmem "):
            run = forks.run(here + COMMAND, *shlex.split(text)[1:])
        else:
            assert text.startswith("pip install "), text
            continue
        assert run.returncode == 0, f"{text}\n{run.stderr}"


def test_the_pictures_are_what_the_command_draws(tmp_path):
    runpy.run_path(str(DOCS / "diagrams.py"))["main"](tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
    for drawn in tmp_path.iterdir():
        assert drawn.read_text(encoding="utf-8") == (DOCS / "images" / drawn.name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_page(page):
    text = re.sub(r"```.*?```", "", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", text):
        assert ((DOCS / page).parent / target).resolve().exists(), target


def test_every_page_is_reached_from_the_contents():
    contents = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page for page in PAGES if page not in contents] == []
