"""Types of the public interface: real annotations, named options, and nothing internal."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import langchain_agentmem
from langchain_agentmem import compaction
from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.lazy_imports import modules_in_stub
from langchain_agentmem.compaction.compaction_node import CompactionNode, CompactionOptions
from langchain_agentmem.facts.fact import _FACT_FIELDS
from langchain_agentmem.facts.fact_tools import RememberFacts, RememberFactsOptions
from langchain_agentmem.facts.kg_memory import FactFields
from langchain_agentmem.injection.memory_injection import InjectionOptions, MemoryInjection
from langchain_agentmem.messages.message import Message, MessageFields
from langchain_agentmem.storage.engine import OpeningOptions
from langchain_agentmem.stores.retriever import RetrieverOptions, SearchOptions

ROOT = Path(__file__).parents[2]
USERS = ROOT / "tests" / "typing"
PUBLIC = {
    name: getattr(package, name)
    for package in (langchain_agentmem, compaction)
    for name in sorted(modules_in_stub(package.__name__))
}
JSON = re.compile(r"\b(?:Mapping|dict)\[str, Any\]")
ANY = {
    "ConnectionPool[Any]": "of whatever connections",
    "BaseCheckpointSaver[Any]": "of whatever versions",
    "invoke.input": "LangChain's, as are the others of a Runnable",
    "invoke.kwargs": "LangChain's",
    "invoke.return": "LangChain's",
    "__init__.query": "takes what a Runnable is given",
    "wrap_model_call.request": "LangChain's, of an agent whose state and context nobody knows",
    "wrap_model_call.handler": "LangChain's",
    "wrap_model_call.return": "LangChain's",
    "apply.messages": "LangChain's: a list that is changed in place, of any kind of messages",
    "put_writes.writes": "LangGraph's",
    "model_post_init.context": "pydantic's",
    "__init__.request": "JSON: what an agent is asked",
    "__init__.reasoning_details": "JSON: a provider's own form",
    "create.extra": "JSON: what an attachment brings along",
    "redact_value.return": "JSON: what it was given",
    "__init__.value": "a message, a fact, an item, …: search lies below what it finds",
    "to_networkx.return": "networkx tells no types",
    "__init__.values": "options, which pydantic checks; a type checker sees the fields",
    "__init__.options": "options of another class, which are checked",
    "replace.changes": "options, which pydantic checks",
}
"""Where `Any` stands on the public surface, and why."""


def functions(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """What of ours can be called of something public."""
    if inspect.isfunction(thing):
        yield name, thing
    for kind in inspect.getmro(thing) if inspect.isclass(thing) else ():
        for member, value in list(vars(kind).items()) if kind.__module__.startswith("langchain_agentmem.") else ():
            function = getattr(value, "fget", getattr(value, "func", getattr(value, "__func__", value)))
            if inspect.isfunction(function) and (member == "__init__" or not member.startswith("_")):
                yield member, function


def annotations_of(options: Any) -> dict[str, str]:
    """Types of options; what pydantic checks besides is no part of them."""
    found = {name: getattr(of, "__forward_arg__", of) for name, of in options.__annotations__.items()}
    return {name: re.sub(r"^Annotated\[(\w+), .*\]$", r"\1", of) for name, of in found.items()}


def keywords_of(function: Any, without: set[str] = frozenset()) -> dict[str, str]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.annotation for each in parameters if each.name not in {"self", "cls", *without}}


class TestTypedOptions:
    @pytest.mark.parametrize(
        ("options", "function", "without"),
        [
            (CompactionOptions, CompactionNode.__init__, {"memory", "model", "config"}),
            (RememberFactsOptions, RememberFacts.__init__, {"memory", "model"}),
            (InjectionOptions, MemoryInjection.__init__, {"memory", "branch_or_config"}),
        ],
    )
    def test_typed_options_match_the_constructor(self, options, function, without):
        assert annotations_of(options) == keywords_of(function, without)

    def test_opening_options_match_the_memory(self):
        assert annotations_of(OpeningOptions).items() <= keywords_of(AgentMemory.__init__).items()

    def test_retriever_options_match_the_search(self):
        langchains = {"tags", "metadata", "name"}
        ours = {name: of for name, of in annotations_of(SearchOptions).items() if name not in langchains}
        assert ours == {**keywords_of(AgentMemory.search, {"query", "config"}), "k": ours["limit"]}
        assert set(annotations_of(RetrieverOptions)) - {"k"} <= set(
            langchain_agentmem.AgentMemoryRetriever.model_fields
        )

    def test_message_and_fact_fields_match_their_classes(self):
        fields = {each.name for each in dataclasses.fields(Message)} - {"message_id"}
        assert set(annotations_of(MessageFields)) == fields
        assert set(annotations_of(FactFields)) == fields | set(_FACT_FIELDS) - {"object"}


class TestPublicSurface:
    def test_public_annotations_contain_no_any(self):
        found: set[str] = set()
        for name, thing in PUBLIC.items():
            for member, function in functions(name, thing):
                for parameter, annotation in function.__annotations__.items():
                    told = JSON.sub("", str(annotation))
                    generic = next((each for each in ANY if each in told), None)
                    if re.search(r"\bAny\b", told if generic is None else told.replace(generic, "")):
                        awaited = f"{member[1:]}.{parameter}" in ANY
                        found.add(f"{member[1:] if awaited else member}.{parameter}")
                    elif generic is not None:
                        found.add(generic)
        assert found == set(ANY)

    def test_public_attributes_are_documented(self, tmp_path):
        (tmp_path / "experiences").mkdir()
        with AgentMemory() as memory:
            layers, library = memory.layers("main"), memory.experiences(tmp_path / "experiences")
            parts = [
                memory, memory.conversation(), memory.managed_conversation(), memory.session(), layers, layers.core,
                layers.recall, layers.archival, layers.resources, memory.facts("main"), library, library.selector(),
                memory.audit, memory.checkpointer, memory.store, memory.thread_store, memory.byte_store(),
                memory.retriever(), memory.compaction(), memory.inject(),
            ]  # fmt: skip
            shown = [(each, name) for each in parts for name in dir(each) if not name.startswith("_")]
        assert [f"{type(part).__name__}.{name}" for part, name in shown if not is_documented(part, name)] == []

    def test_documents_import_only_public_modules(self):
        names = ("model", "testing")
        paths = {f"langchain_agentmem.{name}" for name in names}
        pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("integrations/*/README.md")]
        texts = [page.read_text(encoding="utf-8") for page in pages]
        code = [
            each for text in texts for each in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        ]
        code += [path.read_text(encoding="utf-8") for path in ROOT.glob("examples/*.py")]
        imports = [node for text in code for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
        modules = {each.module for each in imports if str(each.module).split(".")[0] == "langchain_agentmem"}
        assert modules - paths == {"langchain_agentmem"}


def is_documented(part: Any, name: str) -> bool:
    """Whether a public name is LangChain's, or says what it is, or the docstring of a class of ours does."""
    kinds = [each for each in type(part).__mro__ if each.__module__.startswith("langchain_agentmem.")]
    theirs = set(type(part).__mro__) - set(kinds)
    if any(hasattr(each, name) or name in getattr(each, "__annotations__", {}) for each in theirs):
        return True
    static = inspect.getattr_static(type(part), name, None)
    if callable(static) or isinstance(static, property | cached_property | classmethod):
        return bool(inspect.getdoc(static))
    return any(re.search(rf"^ *{name}: ", inspect.getdoc(each) or "", re.MULTILINE) for each in kinds)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The Python of an environment in which the package is installed, beside all that is installed here."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "others.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return Path(sysconfig.get_path("scripts", vars={"base": str(folder)})) / "python"


def marked() -> set[tuple[str, int]]:
    lines = (USERS / "wrong.py").read_text(encoding="utf-8").splitlines()
    return {("wrong.py", number) for number, line in enumerate(lines, 1) if "  # wrong: " in line}


@pytest.mark.sqlite_suffices
class TestUserCode:
    """`typing/right.py` has no errors, and `typing/wrong.py` one on each line that is marked."""

    @pytest.mark.slow
    def test_mypy_accepts_right_and_rejects_wrong_code(self, installed, pytestconfig):
        command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-executable", str(installed)]
        cache = pytestconfig.cache.mkdir("mypy")
        command += ["--cache-dir", str(cache), "right.py", "wrong.py"]
        done = subprocess.run(command, cwd=USERS, capture_output=True, text=True, check=False)
        found = re.findall(r"^(\w+\.py):(\d+): error: ", done.stdout, re.MULTILINE)
        assert {(name, int(line)) for name, line in found} == marked(), done.stdout + done.stderr

    @pytest.mark.slow
    def test_pyright_accepts_right_and_rejects_wrong_code(self, installed):
        command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(installed)]
        command += ["right.py", "wrong.py"]
        done = subprocess.run(command, cwd=USERS, capture_output=True, text=True, check=False)
        errors: list[Mapping[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
        found = {
            (Path(each["file"]).name, each["range"]["start"]["line"] + 1): each["message"]
            for each in errors
            if each["severity"] == "error"
        }
        assert found.keys() == marked(), found
