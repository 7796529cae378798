"""Every example runs as a reader would run it, and prints what it promises."""

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


def test_every_example_has_its_promise():
    assert {path.name for path in EXAMPLES.glob("*.py")} == PRINTS.keys()


def ran(forks, name, *arguments, **environment):
    program = f"import runpy; runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')"
    return forks.run(program, *arguments, **environment)


@pytest.mark.parametrize("name", sorted(PRINTS))
def test_an_example_keeps_its_promise(name, tmp_path, monkeypatch, forks, request):
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


class TestPostgresql:
    def test_its_example_takes_the_url_from_the_environment_too(self, new_database, forks):
        run = ran(forks, "postgresql.py", AGENTMEM_URL=new_database("postgres"))
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.endswith("erased: []\n")

    def test_its_example_says_what_to_give_it(self, forks):
        run = ran(forks, "postgresql.py")
        assert run.returncode == 1
        assert run.stdout == ""
        assert "python examples/postgresql.py postgresql://" in run.stderr


def test_the_picture_shows_what_the_command_prints_today(forks):
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
class TestAReader:
    def test_is_told_what_to_run_and_what_it_needs(self, name):
        told = " ".join((ast.get_docstring(ast.parse(code(name))) or "").split())
        assert f"`python examples/{name}" in told
        assert re.search(r"It needs ((no extra and )?no key|the extra `\[\w+\]` and no key)\b", told)

    def test_reads_one_story(self, name):
        assert len(code(name).splitlines()) < LINES

    def test_needs_the_extra_that_is_named_and_no_other(self, name):
        named = re.findall(r"the extra `\[(\w+)\]` and no key", " ".join(code(name).split()))
        modules = {module for module, _ in imports(name)}
        others = {module for module in modules if module.split(".")[0] not in {*sys.stdlib_module_names, *OURS}}
        needed = {extra for module in modules for part, extra in EXTRAS.items() if f"{module}.".startswith(f"{part}.")}
        if name == "postgresql.py":
            needed.add("postgres")  # for its URL
        assert needed == set(named)
        assert {module for module in others if module.split(".")[0] not in EXTRAS} == set()

    def test_is_shown_public_names_only(self, name):
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
