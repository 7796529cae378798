"""The shape of the package: its size, its layers, and one name for each thing."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import langchain_agentmem
from langchain_agentmem import AgentMemory
from langchain_agentmem.storage.engine import migrations
from langchain_agentmem.storage.queries import DIALECTS

LIMITS = {
    "lines of code": 34_332,
    "files": 170,
    "lines of SQL": 3_228,
    "tables": 38,
    "exported names": 66,
    "public options": 100,
    "attributes of AgentMemory": 35,
    "lines of code of the tests": 53_911,
}
"""The size that each of these may have. A commit that removes something lowers it."""
SAME_NAME: dict[str, str] = {}
"""Names that two modules may share, with the reason."""
OPTION_CLASSES = ("Config", "Options", "Weights", "Limits", "Rule", "Retention", "Policy")
"""The last words of the classes whose fields are options."""

EXPORTED = {*langchain_agentmem.__all__, *langchain_agentmem._MODULES}
"""With the middleware, whose extra may not be installed."""
ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "langchain_agentmem"
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = [path for path in FILES if path.name != "__init__.py"]


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def lines_of_code(path: Path) -> int:
    """Count the lines with code: no docstrings, comments or blank lines."""
    text = path.read_text(encoding="utf-8")
    lines = {n for n, line in enumerate(text.splitlines(), 1) if line.strip() and not line.lstrip().startswith("#")}
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno != node.lineno:
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines - docstrings)


def lines_of_sql(path: Path) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return sum(bool(line.strip()) and not line.startswith("--") for line in lines)


def tables() -> int:
    """Count the tables of the dialect that has more of them."""
    schemas = ["".join(migration.sql for migration in migrations(dialect)) for dialect in DIALECTS]
    return max(len(re.findall(r"^create (?:virtual )?table ", each, re.MULTILINE)) for each in schemas)


def options() -> Iterator[tuple[str, str]]:
    """Yield the options of the exported classes: keyword arguments of constructors, and fields of configurations."""
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.ClassDef) or node.name not in EXPORTED:
                continue
            declared = [ast.unparse(each) for each in (*node.decorator_list, *node.bases)]
            has_fields = any("dataclass" in each or each == "Options" for each in declared)
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and member.name == "__init__":
                    yield from ((node.name, each.arg) for each in member.args.kwonlyargs)
                elif has_fields and node.name.endswith(OPTION_CLASSES) and isinstance(member, ast.AnnAssign):
                    yield node.name, ast.unparse(member.target)


def attributes() -> set[str]:
    """The public attributes of a memory, without the awaited twin of a method."""
    with AgentMemory() as memory:
        names = {name for name in dir(memory) if not name.startswith("_")}
    return {name for name in names if not (name.startswith("a") and name[1:] in names)}


@pytest.fixture(scope="module")
def sizes(pytestconfig) -> dict[str, int]:
    """Measure the package and the tests, and print a table by folder."""
    folders: dict[str, Counter[str]] = defaultdict(Counter)
    for path in [*FILES, *PACKAGE.rglob("*.pyi")]:
        folder = folders[str(path.parent.relative_to(PACKAGE))]
        folder.update({"files": path.suffix == ".py", "code": lines_of_code(path)})
    for path in PACKAGE.rglob("*.sql"):
        folders[path.relative_to(PACKAGE).parts[0]]["SQL"] += lines_of_sql(path)
    total: Counter[str] = sum(folders.values(), Counter())
    measured = {
        "lines of code": total["code"],
        "files": total["files"],
        "lines of SQL": total["SQL"],
        "tables": tables(),
        "exported names": len(EXPORTED),
        "public options": len(set(options())),
        "attributes of AgentMemory": len(attributes()),
        "lines of code of the tests": sum(map(lines_of_code, (ROOT / "tests").rglob("*.py"))),
    }
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n  {'folder':<20}{'files':>6}{'code':>8}{'SQL':>7}")
        for name, folder in [*sorted(folders.items()), ("all", total)]:
            print(f"  {name:<20}{folder['files']:>6}{folder['code']:>8,}{folder['SQL'] or '':>7}")
        for name, size in measured.items():
            print(f"  {name:<30}{size:>8,} of {LIMITS[name]:,}")
    return measured


@pytest.mark.parametrize("what", LIMITS)
def test_the_size_is_within_its_limit(what, sizes):
    assert sizes[what] <= LIMITS[what]


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


def test_every_module_says_what_it_is():
    assert [path for path in FILES if not ast.get_docstring(tree_of(path))] == []


def test_files_that_pages_and_docstrings_name_are_there():
    folders = ("langchain_agentmem", "tests", "examples", "docs")
    tree = [*ROOT.glob("*.md"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    there = {f"/{path.relative_to(ROOT).as_posix()}" for path in tree}
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in tree
        if path.suffix in {".md", ".py"}
        for name in re.findall(r'(?:`|"(?=tests/))([\w/]+\.(?:py|sql|yaml))[`"]', path.read_text(encoding="utf-8"))
        if not any(each.endswith(f"/{name}") for each in there)
    ]
    assert missing == []


ITERATES = {
    "storage/postgres_session.py Session._receive_while": "psycopg's protocol for waiting on a connection",
    "stores/agent_store.py Sweeper.__await__": "Python's protocol of awaitables",
    "base/concurrency.py AwaitableNumber.__await__": "the same",
    "base/concurrency.py CompletedAwaitable.__await__": "the same",
    "checkpoints/checkpoint_saver.py AgentMemorySaver.list": "the interface of LangGraph's savers",
    "checkpoints/checkpoint_saver.py AgentMemorySaver.alist": "the same",
    "importers/langchain_sources.py _StockSaver.list": "the same",
}
"""Public methods that are generators, and generators to which values are sent, with the interface that asks for it."""


INTERFACES = {"list", "alist", "yield_keys", "ayield_keys", "stream", "astream", "transform", "atransform"}
"""The methods of LangChain's and LangGraph's classes that return iterators."""


def generators() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, list[ast.AST]]]:
    """Yield the generators of the package that are no context managers, with their own nodes."""
    for path in FILES:
        waiting: list[tuple[str, ast.AST]] = [(f"{path.relative_to(PACKAGE).as_posix()} ", tree_of(path))]
        while waiting:
            name, node = waiting.pop()
            own: list[ast.AST] = []
            left = list(ast.iter_child_nodes(node))
            while left:
                each = left.pop()
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    waiting.append((f"{name.rstrip('.')}{'' if name.endswith(' ') else '.'}{each.name}", each))
                else:
                    own.append(each)
                    left += [] if isinstance(each, ast.Lambda) else ast.iter_child_nodes(each)
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and any(isinstance(each, ast.Yield | ast.YieldFrom) for each in own)
                and not any("contextmanager" in ast.unparse(each) for each in node.decorator_list)
            ):
                yield name, node, own


def test_generators_are_only_iterators():
    """No function waits to be sent something, and an interface that returns an iterator is listed."""
    found = set()
    for name, node, own in generators():
        statements = {id(each.value) for each in own if isinstance(each, ast.Expr)}
        sent_to = any(isinstance(each, ast.Yield | ast.YieldFrom) and id(each) not in statements for each in own)
        iterates = re.match(
            r"(Async)?(Iterator|Iterable|Generator)\b", ast.unparse(node.returns) if node.returns else ""
        )
        public = "." in name.split(" ")[1] and not re.search(r"[. ]_(?!StockSaver)", name) and node.name in INTERFACES
        if sent_to or not iterates or public or node.name == "__await__":
            found.add(name)
    assert found == set(ITERATES)


HANDLES: dict[str, str] = {}
"""Operations that may handle exceptions around a call that is given the transaction, with the reason."""


def guarded(node: ast.AST) -> list[ast.stmt]:
    """Return the statements whose exceptions a statement handles."""
    if isinstance(node, ast.Try) and node.handlers:
        return node.body
    if isinstance(node, ast.With) and any("suppress(" in ast.unparse(each) for each in node.items):
        return node.body
    return []


def uses_transaction(node: ast.AST) -> bool:
    """Return whether a node calls something with `tx`, or a method of it."""
    return any(
        isinstance(each, ast.Name) and each.id == "tx"
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        for part in (*call.args, *(each.value for each in call.keywords), getattr(call.func, "value", call.func))
        for each in [part.value if isinstance(part, ast.Starred) else part]
    )


def test_no_operation_handles_an_error_of_a_query():
    """A transaction in which a query failed is aborted: whatever follows in it fails too, or is lost."""
    found = set()
    for path in FILES:
        for operation in ast.walk(tree_of(path)):
            if not isinstance(operation, ast.FunctionDef) or "tx" not in {each.arg for each in operation.args.args}:
                continue
            if any(uses_transaction(each) for node in ast.walk(operation) for each in guarded(node)):
                found.add(f"{path.relative_to(PACKAGE).as_posix()} {operation.name}")
    assert found == set(HANDLES)


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
