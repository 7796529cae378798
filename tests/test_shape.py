"""The shape of the package: its size, its layers, and one name for each thing."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "langchain_agentmem"
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = [path for path in FILES if path.name != "__init__.py"]
LINES, COUNT, TESTS = 49_212, 194, 87_582
"""Most lines of code, modules, and lines of code of the tests."""
APART, LINES_APART = {"importers", "studio"}, 7_000
"""Folders that are counted by themselves, as no agent needs them, and the most lines of code of theirs."""
SAME_NAME: dict[str, str] = {}
"""Names that two modules may have, with the reason."""
NOT_LINES = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def lines_of_code(path: Path) -> int:
    """The lines that hold code: no docstrings, comments or blank lines."""
    text = path.read_text(encoding="utf-8")
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_LINES:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


class TestSize:
    def test_of_the_package(self, record_property, capsys):
        sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for path in FILES:
            folder = sizes[str(path.parent.relative_to(PACKAGE))]
            folder[0] += path.name != "__init__.py"
            folder[1] += lines_of_code(path)
        with capsys.disabled():
            print()
            for folder, (modules, lines) in sorted(sizes.items()):
                print(f"  {folder:<20}{modules:>5} modules{lines:>8,} lines")
        apart = {folder for folder in sizes if folder.split("/")[0] in APART}
        assert sum(lines for folder, (_, lines) in sizes.items() if folder not in apart) <= LINES
        assert sum(modules for folder, (modules, _) in sizes.items() if folder not in apart) <= COUNT
        assert sum(sizes[folder][1] for folder in apart) <= LINES_APART

    def test_of_the_tests(self):
        assert sum(map(lines_of_code, (ROOT / "tests").rglob("*.py"))) <= TESTS


class TestNames:
    def test_each_module_has_one_of_its_own(self):
        names = Counter(path.stem for path in MODULES)
        assert {name for name, count in names.items() if count > 1} <= set(SAME_NAME)

    def test_each_public_class_has_one_of_its_own(self):
        names = Counter(
            node.name
            for path in MODULES
            for node in tree_of(path).body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        )
        assert {name for name, count in names.items() if count > 1} <= set(SAME_NAME)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(tree_of(path))


def test_files_that_pages_and_docstrings_name_are_there():
    folders = ("langchain_agentmem", "tests", "examples", "docs")
    tree = [*ROOT.glob("*.md"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    there = {f"/{path.relative_to(ROOT).as_posix()}" for path in tree}
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in tree
        if path.suffix in {".md", ".py"}
        for name in re.findall(r"`([\w/]+\.(?:py|sql|yaml))`", path.read_text(encoding="utf-8"))
        if not any(each.endswith(f"/{name}") for each in there)
    ]
    assert missing == []


class TestLayers:
    CONTRACT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]

    def test_the_contract_names_every_folder(self):
        [contract] = [each for each in self.CONTRACT["contracts"] if each["type"] == "layers"]
        assert contract["exhaustive"]
        named = {name.strip() for row in contract["layers"] for name in row.split("|")}
        folders = {path.parent.name for path in PACKAGE.glob("*/*.py")}
        assert folders - named <= set(contract["exhaustive_ignores"])
        assert sum(any(name.strip() in folders for name in row.split("|")) for row in contract["layers"]) <= 11

    def test_no_two_folders_import_each_other(self):
        imports = set()
        for path in FILES:
            folder = path.relative_to(PACKAGE).parts[0]
            for node in ast.walk(tree_of(path)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("langchain_agentmem."):
                    other = str(node.module).split(".")[1]
                    if (PACKAGE / folder).is_dir() and (PACKAGE / other).is_dir() and other != folder:
                        imports.add((folder, other))
        assert {(one, other) for one, other in imports if (other, one) in imports} == set()
