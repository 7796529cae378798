"""Every example runs as its reader would run it, and prints its expected output."""

import ast
import importlib
import re
import runpy
import sys
from pathlib import Path

import pytest
import yaml

EXAMPLES = Path(__file__).parents[3] / "examples"
DOCS = EXAMPLES.parent / "docs"
LINES = 80
"""With more of them nobody reads it as one story."""
OURS = ("langchain_agentmem", "langchain_core", "langgraph")
"""What is installed without any extra."""
EXTRAS = {"langchain": "agents", "langgraph.checkpoint.sqlite": "import", "langgraph.checkpoint.postgres": "import"}
PUBLIC = ("langchain_agentmem", "langchain_agentmem.compaction")

PRINTS = yaml.safe_load(Path(__file__).parents[1].joinpath("prints.yaml").read_text("utf-8"))
"""What each prints: among other things, in this order."""


def test_every_example_has_expected_output():
    assert {path.name for path in EXAMPLES.glob("*.py")} == PRINTS.keys()


def ran(forks, name, *arguments, **environment):
    program = f"import runpy; runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')"
    return forks.run(program, *arguments, **environment)


@pytest.mark.parametrize("name", sorted(PRINTS))
def test_example_prints_its_expected_output(name, tmp_path, monkeypatch, forks, request):
    arguments = []
    if name == "postgresql.py":
        arguments.append(request.getfixturevalue("new_database")("postgres"))
    monkeypatch.chdir(tmp_path)
    run = ran(forks, name, *arguments)
    assert (run.returncode, run.stderr) == (0, "")
    at = 0
    for promised in PRINTS[name]:
        assert promised in run.stdout[at:]
        at = run.stdout.index(promised, at)
    assert list(tmp_path.iterdir()) == []


class TestPostgresExample:
    def test_example_takes_its_url_from_the_environment(self, new_database, forks):
        run = ran(forks, "postgresql.py", AGENTMEM_URL=new_database("postgres"))
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.endswith("erased: []\n")

    def test_example_without_url_prints_its_usage(self, forks):
        run = ran(forks, "postgresql.py")
        assert run.returncode == 1
        assert run.stdout == ""
        assert "python examples/postgresql.py postgresql://" in run.stderr


def test_picture_shows_the_current_output(forks):
    drawn = runpy.run_path(str(DOCS / "picture.py"))["picture"](
        ran(forks, "tracing.py").stdout, "python examples/tracing.py"
    )
    kept = (DOCS / "tracing.svg").read_text(encoding="utf-8")

    assert timeless(kept) == timeless(drawn), f"Draw it anew, as {DOCS / 'picture.py'} says."
    assert "@font-face" not in kept  # nothing is fetched to show it


def timeless(svg):
    """What stands in a picture, without how long it all took."""
    return re.sub(r"[\d.]+(?= ms)", "", " ".join(re.findall(r">([^<>]*)</text>", svg)).replace("&#160;", " ")).split()


@pytest.mark.parametrize("name", sorted(PRINTS))
class TestExampleCode:
    def test_docstring_names_its_command_and_requirements(self, name):
        told = " ".join((ast.get_docstring(ast.parse(code(name))) or "").split())
        assert f"`python examples/{name}" in told
        assert re.search(r"It needs ((no extra and )?no key|the extra `\[\w+\]` and no key)\b", told)

    def test_example_is_short(self, name):
        assert len(code(name).splitlines()) < LINES

    def test_example_needs_only_its_named_extra(self, name):
        named = re.findall(r"the extra `\[(\w+)\]` and no key", " ".join(code(name).split()))
        modules = {module for module, _ in imports(name)}
        others = {module for module in modules if module.split(".")[0] not in {*sys.stdlib_module_names, *OURS}}
        needed = {extra for module in modules for part, extra in EXTRAS.items() if f"{module}.".startswith(f"{part}.")}
        if name == "postgresql.py":
            needed.add("postgres")  # for its URL
        assert needed == set(named)
        assert {module for module in others if module.split(".")[0] not in EXTRAS} == set()

    def test_example_uses_only_public_names(self, name):
        tree = ast.walk(ast.parse(code(name)))
        assert [each.attr for each in tree if isinstance(each, ast.Attribute) and each.attr[0] == "_"] == []
        for module, names in imports(name):
            if module.startswith("langchain_agentmem"):
                assert module in PUBLIC
                assert set(names) <= set(dir(importlib.import_module(module)))


def imports(name):
    """The modules that an example imports, and what it takes of them."""
    for each in ast.walk(ast.parse(code(name))):
        if isinstance(each, ast.ImportFrom):
            yield each.module, [alias.name for alias in each.names]
        elif isinstance(each, ast.Import):
            yield from ((alias.name, []) for alias in each.names)


def code(name):
    return (EXAMPLES / name).read_text(encoding="utf-8")
