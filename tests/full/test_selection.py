"""The selection of tests by options, also in workers of xdist."""

import inspect
import subprocess
import sys

import pytest

TESTS = """
import pytest

def test_quick(): ...

@pytest.mark.parametrize("url", ["sqlite", "postgres"])
def test_on(url): ...

@pytest.mark.slow
@pytest.mark.parametrize("form", "ab")
def test_slow(form): ...

@pytest.mark.slow("in every form")
@pytest.mark.parametrize("form", "ab")
def test_slower(form): ...
"""
OPTIONS = """
import pytest

def pytest_addoption(parser):
    for name in ("--full", "--rest"):
        parser.addoption(name, action="store_true")
"""


@pytest.mark.parametrize(
    ("asked", "passed"),
    [([], 3), (["--full", "-n", "1"], 5), (["--full", "-m", "slow"], 4), (["--full", "--rest"], 2)],
    ids=str,
)
def test_options_select_the_tests_of_a_ring(tmp_path, request, asked, passed):
    hooks = next(each for each in request.config.pluginmanager.get_plugins() if hasattr(each, "SteppingClock"))
    selecting = (hooks.pytest_ignore_collect, hooks.pytest_collection_modifyitems, hooks._is_of_another_engine)
    (tmp_path / "conftest.py").write_text(
        "from __future__ import annotations\n" + "\n\n".join([OPTIONS, *map(inspect.getsource, selecting)])
    )
    (tmp_path / "pytest.ini").write_text(
        '[pytest]\naddopts = -m "not deep" --import-mode=importlib\nnorecursedirs = full\nmarkers =\n  slow\n  deep\n'
    )
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "test_more.py").write_text("def test_long(): ...\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *asked]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"{passed} passed" in ran.stdout, ran.stdout + ran.stderr
