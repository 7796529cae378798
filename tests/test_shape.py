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
    "lines of code": 32_830,
    "files": 171,
    "lines of SQL": 3_365,
    "tables": 38,
    "exported names": 66,
    "public options": 100,
    "attributes of AgentMemory": 35,
    "lines of code of the tests": 54_532,
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
def test_size_is_within_its_limit(what, sizes):
    assert sizes[what] <= LIMITS[what]


class TestNames:
    def test_module_names_are_unique(self):
        names = Counter(path.stem for path in MODULES)
        assert {name for name, count in names.items() if count > 1} <= set(SAME_NAME)

    def test_public_class_names_are_unique(self):
        names = Counter(
            node.name
            for path in MODULES
            for node in tree_of(path).body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        )
        assert {name for name, count in names.items() if count > 1} <= set(SAME_NAME)


FORBIDDEN_NAMES = """
    above after again all amiss apart any before behind below beside both brought done each else elsewhere every
    felt found given gone here hers his how it its kept known led left lent less made many meant met more most none
    nothing once other said seen shown some somebody something sought spoken such taken that them there these they
    this those told too what whatever when where whether which who whoever whole whose why woven written yet
"""
"""Pronouns, adverbs and irregular participles: no class or function has such a name."""
FORBIDDEN_CLASSES = """
    Address Analysed Appended Arrival Arriving Ask Asked Attendant Bar Beforehand Book BranchAt Bringing Brought
    Bundle Change Chosen Closeness Composed Counted Delivery Destination Doomed Drafted Draining Due Fared Figures
    Finding Finished Footing Found FoundBlock FoundHere FoundHit FoundItem FoundPassage GivenPool Ground Head Health
    Heard HeldParts Hidden Import Imported In InGroup InUse Inquiry Judged Keeper Kept Later Learned LearnedAt
    LeftOut Level Live Loaded Log Looked Loop Material Moved Near NoteBook Noted Occupied OnBranch OnDatabase
    Opening Outlook Parcel Parent Performer Placed Plan Planned Prepared Prototype Put Question Ranked Ready
    Remembering Renewed Rests Run Runaway RunSight Runs Said Saved Screen Seen Series Setting Shape Shelved Shown
    Sight Sign Situation Stamp Standpoint Steps Stored Subject Success Tally ThreadPoint Told TooLarge Unopened View
    Viewpoint Waiting Walls Whole Why Withheld Work Writing
"""
"""Names of classes that were riddles, as metaphors and participles are."""
ALLOWED_NAMES = {
    "all": "the method that returns all of it, as SQLAlchemy's does",
    "awaited": "declares the awaited twin of a method",
    "missing": "`__missing__` of Python's dictionaries",
    "why": "a command of the command line",
}
"""Forbidden words that are right as a name here, with the reason."""
PARTICIPLE = re.compile(r"[a-z]+(?<!e)(?:ed|ing)")
NOT_PARTICIPLES = {"embed", "tracing"}
VERBS = """
    Acquire Add Advance Allow Analyze Answer Append Apply Ask Assign Begin Borrow Build Calibrate Call Change Check
    Choose Classify Clear Close Collect Combine Commit Compact Compare Compose Compress Compute Consolidate Continue
    Convert Copy Correct Count Create Cut Declare Decode Delete Describe Deserialize Detect Diagnose Discard
    Distribute Do Draw Drop Embed Emit Empty Enable Enclose Encode Encrypt End Erase Escape Estimate Explain Export
    Extract Fill Find Fold Follow Forget Fork Format Free Group Handle Hide Import Indent Index Insert Inspect
    Iterate Join Keep Limit List Load Lock Log Lower Make Map Mark Mask Merge Move Notify Open Pack Parse Pass Pause
    Play Postpone Prepare Prepend Print Prune Put Quote Raise Read Rebuild Receive Record Redirect Reduce Refuse
    Register Release Remember Remove Renew Replace Report Reserve Resolve Restart Restore Retry Return Revert
    Rewrite Roll Run Scale Schedule Score Seal Search Select Send Serialize Serve Set Shorten Show Sort Split Stamp
    Start Stop Store Summarize Suppress Sweep Sync Translate Undo Unite Update Use Validate Verify Wait Wake Weigh
    Wrap Write Yield
"""
"""The first words of functions' docstrings."""
NOUN_PHRASES = "A All An One The Two"
"""The first words of classes' docstrings."""
HEADLESS = {"How", "That", "Those", "What", "Where", "Whether", "Who", "Whoever"}
"""Words with which no docstring begins: the reader would have to look for its noun."""
SENTENCE_WORDS = 35
"""The most words of a sentence in the documentation."""


def definitions() -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield every class and function of the package, with the name of its module."""
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield path.relative_to(PACKAGE).as_posix(), node


def is_forbidden(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    name = node.name.strip("_")
    if isinstance(node, ast.ClassDef):
        return name in FORBIDDEN_CLASSES.split() or name.lower() in FORBIDDEN_NAMES.split()
    is_participle = PARTICIPLE.fullmatch(name) and name not in NOT_PARTICIPLES
    return bool(name in FORBIDDEN_NAMES.split() or is_participle) and name not in ALLOWED_NAMES


def is_property(node: ast.AST) -> bool:
    return any("property" in ast.unparse(each) for each in getattr(node, "decorator_list", ()))


def sentences(page: str) -> Iterator[str]:
    """Yield the sentences of a page: of its text and the cells of its tables, without code."""
    text = re.sub(r"^( *)```.*?^\1```|<!--.*?-->", "", page, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|:#]|\d+\.))", text):
        for cell in " ".join(block.split()).split("|"):
            yield from re.split(r"(?<=[.!?])\**\s+|(?<=[.!?]\*\*)\s+|:\s+(?=\W*[A-Z])", cell)


class TestLanguage:
    def test_class_and_function_names_are_not_forbidden(self):
        assert [f"{where}: {node.name}" for where, node in definitions() if is_forbidden(node)] == []

    def test_private_name_has_one_meaning_in_a_folder(self):
        meanings: dict[str, dict[str, str]] = defaultdict(dict)
        for path in MODULES:
            for node in tree_of(path).body:
                named = [node] if hasattr(node, "name") else getattr(node, "targets", [getattr(node, "target", None)])
                for name in {getattr(each, "name", None) or getattr(each, "id", "") for each in named}:
                    if name.startswith("_") and not name.startswith("__"):
                        meanings[f"{path.parent.name}: {name}"][path.name] = ast.unparse(node)
        assert {name: list(found) for name, found in meanings.items() if len(set(found.values())) > 1} == {}

    def test_docstrings_begin_with_verbs_or_noun_phrases(self):
        wrong = []
        for where, node in definitions():
            first, *_ = (ast.get_docstring(node) or "").partition("\n")
            if not first or (where == "errors.py" and isinstance(node, ast.ClassDef)):  # which are the texts of errors
                continue
            begins = re.split(r"[\s.,:]", first)[0]
            words = (NOUN_PHRASES if isinstance(node, ast.ClassDef) else VERBS).split()
            fits = begins not in HEADLESS if is_property(node) else begins in words
            if not fits or len(first) > 88:
                wrong.append(f"{where} {node.name}: {first}")
        assert wrong == []

    def test_documentation_sentences_are_short(self):
        pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")]
        assert [
            f"{page.relative_to(ROOT)}: {sentence}"
            for page in pages
            for sentence in sentences(page.read_text(encoding="utf-8"))
            if len(re.findall(r"(?:^|\s)\S*\w", sentence)) > SENTENCE_WORDS
        ] == []

    def test_glossary_has_at_most_forty_terms(self):
        terms = re.findall(r"^\*\*(.+)\*\*", (ROOT / "docs/glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
        assert 10 < len(terms) <= 40
        assert terms == sorted(terms, key=str.casefold)


def test_every_module_has_a_docstring():
    assert [path for path in FILES if not ast.get_docstring(tree_of(path))] == []


def test_files_named_in_documentation_exist():
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


def test_operations_handle_no_query_errors():
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

    def test_contract_names_every_folder(self):
        [contract] = [each for each in self.CONTRACT["contracts"] if each["type"] == "layers"]
        assert contract["exhaustive"]
        named = {name.strip() for row in contract["layers"] for name in row.split("|")}
        folders = {path.parent.name for path in PACKAGE.glob("*/*.py")}
        assert folders - named <= set(contract["exhaustive_ignores"])
        assert sum(any(name.strip() in folders for name in row.split("|")) for row in contract["layers"]) <= 11

    def test_folders_do_not_import_each_other(self):
        imports = set()
        for path in FILES:
            folder = path.relative_to(PACKAGE).parts[0]
            for node in ast.walk(tree_of(path)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("langchain_agentmem."):
                    other = str(node.module).split(".")[1]
                    if (PACKAGE / folder).is_dir() and (PACKAGE / other).is_dir() and other != folder:
                        imports.add((folder, other))
        assert {(one, other) for one, other in imports if (other, one) in imports} == set()
