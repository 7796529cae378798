"""The chapters that the package docstring names, whose code runs."""

from __future__ import annotations

import ast
import pydoc
import re
import textwrap
from pathlib import Path

import pytest

import langchain_agentmem
from tests.forking import Forks

PACKAGE = Path(langchain_agentmem.__file__).parent
CHAPTERS = re.findall(r"^    (langchain_agentmem(?:\.\w+)+)  ", langchain_agentmem.__doc__, re.MULTILINE)


def programs(module: str) -> list[str]:
    """The indented blocks of a module's docstring that are whole: they begin with what they import."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    |\n    ))+", text + "\n", re.MULTILINE)
    return [code for block in blocks if (code := textwrap.dedent(block).strip()).startswith(("from ", "import "))]


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    modules = ("langgraph.graph", "langchain.agents", "langchain_agentmem.checkpoints.checkpoint_saver")
    with Forks(tmp_path_factory.mktemp("outputs"), *modules, home=tmp_path_factory.mktemp("home")) as forks:
        yield forks


def test_package_docstring_names_its_chapters():
    assert len(CHAPTERS) >= 14
    assert sum(len(programs(module)) for module in CHAPTERS) >= 16


@pytest.mark.parametrize("module", CHAPTERS)
def test_code_of_each_chapter_runs(module, forks):
    for code in programs(module):
        run = forks.run(code)
        assert run.returncode == 0, f"{code}\n{run.stderr}"
        assert "print(" not in code or run.stdout.strip()


def test_pydoc_renders_the_package():
    page = pydoc.plain(pydoc.render_doc(langchain_agentmem))
    assert "To read about a module" in page
    assert "class AgentMemory(" in page
