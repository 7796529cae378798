"""Every integration is a separate distribution with the same layout, which uses only public names."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import langchain_agentmem

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent for path in (ROOT / "integrations").glob("*/pyproject.toml"))
PUBLIC = ("", "compaction", "errors", "model", "testing")
"""The modules of this package that others may import from; the first is the package itself."""

of_each = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def blocks(folder: Path) -> list[tuple[str, str]]:
    """The language and the text of each block of code in an integration's README."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", (folder / "README.md").read_text(), re.DOTALL | re.MULTILINE)


def sources(folder: Path) -> Iterator[tuple[str, str]]:
    """The name and the code of all Python in an integration, that of its README included."""
    for path in folder.rglob("*.py"):
        yield str(path.relative_to(folder)), path.read_text()
    for language, code in blocks(folder):
        if language == "python":
            yield "README.md", code


def public(module: str) -> set[str]:
    """The names that a public module of ours is for."""
    found = importlib.import_module(f"langchain_agentmem.{module}".rstrip("."))
    defined = {name for name, value in vars(found).items() if getattr(value, "__module__", None) == found.__name__}
    return {name for name in getattr(found, "__all__", defined) if not name.startswith("_")} | {"__version__"}


def imported(code: str) -> Iterator[tuple[str, str]]:
    """What a piece of code imports from here: modules, each with a name or with nothing."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            found = [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        else:
            continue
        for module, name in found:
            top, _, rest = module.partition(".")
            if top == "langchain_agentmem":
                yield rest, name


def private(code: str) -> list[str]:
    """What a piece of code imports from here, and should not."""
    found = []
    for module, name in imported(code):
        # `from langchain_agentmem import compaction` names a module too.
        of_package = module == "" and name in PUBLIC
        if module not in PUBLIC or (name and not of_package and name not in public(module)):
            found.append(f"{module}:{name}")
    return found


@of_each
def test_integration_has_package_typing_marker_and_tests(folder):
    package = folder / f"langchain_agentmem_{folder.name}"
    assert (package / "__init__.py").is_file()
    assert (package / "py.typed").is_file()
    assert list((folder / "tests").glob("test_*.py"))
    assert not (folder / "tests" / "__init__.py").exists()


@of_each
def test_metadata_matches_the_main_package(folder):
    ours, its = project(ROOT), project(folder)
    assert its["name"] == f"langchain-agentmem-{folder.name.replace('_', '-')}"
    for key in ("version", "license", "requires-python"):
        assert its[key] == ours[key], key
    assert its["readme"] == "README.md"
    assert its["description"]
    assert "test" in its["optional-dependencies"]


@of_each
def test_dependencies_have_version_ranges(folder):
    needed = {found.name: found for found in map(Requirement, project(folder)["dependencies"])}
    assert needed["langchain-agentmem"].specifier == SpecifierSet(">=0.1,<0.2")
    assert needed["langchain-agentmem"].specifier.contains(langchain_agentmem.__version__)
    assert len(needed) > 1
    for found in needed.values():
        assert {each.operator for each in found.specifier} >= {">=", "<"}, found


@of_each
def test_integration_imports_only_public_names(folder):
    found = {name: names for name, code in sources(folder) if (names := private(code))}
    assert found == {}


@of_each
def test_readme_has_install_command_and_tested_code(folder):
    kinds = [language for language, _ in blocks(folder)]
    assert set(kinds) > {"sh"}
    assert "" not in kinds
    assert re.search(rf"pip install .*\b{project(folder)['name']}\b", (folder / "README.md").read_text())
    assert "does not do" in (folder / "README.md").read_text()
    tests = "".join(path.read_text() for path in (folder / "tests").glob("*.py"))
    assert "README.md" in tests


def test_private_imports_are_detected():
    for code in (
        "from langchain_agentmem.storage.database import Database",
        "import langchain_agentmem.storage",
        "from langchain_agentmem import agent_memory",
        "from langchain_agentmem import _MODULES",
        "def late():\n    from langchain_agentmem.compaction.compaction_node import CompactionNode",
        "from langchain_agentmem.errors import Any",
    ):
        assert private(code), code
