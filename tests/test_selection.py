"""Which tests are run where nobody says which."""

import inspect
import subprocess
import sys
from types import SimpleNamespace

import pytest

EASY = ["t.py::one", "t.py::form[a]", "t.py::form[b]"]
SLOW = ["t.py::alone", "t.py::many[sqlite]", "t.py::many[postgres]", "t.py::Group::many[sqlite]"]
IN_EVERY_FORM = ["t.py::long[sqlite]", "t.py::long[postgres]"]


@pytest.fixture
def selected(request):
    """What is run of some tests, and what is left out, with an option or without."""
    hooks = next(each for each in request.config.pluginmanager.get_plugins() if hasattr(each, "SteppingClock"))

    def select(*, full):
        left_out = []
        marks = dict.fromkeys(SLOW, pytest.mark.slow) | dict.fromkeys(IN_EVERY_FORM, pytest.mark.slow("in every form"))
        tests = [(name, marks.get(name)) for name in [*EASY, *SLOW, *IN_EVERY_FORM]]
        items = [SimpleNamespace(nodeid=name, get_closest_marker=lambda _, mark=mark: mark) for name, mark in tests]

        def deselected(items):
            left_out.extend(items)

        config = SimpleNamespace(getoption={"full": full}.get, hook=SimpleNamespace(pytest_deselected=deselected))
        hooks.pytest_collection_modifyitems(config, items)
        return [each.nodeid for each in items], [each.nodeid for each in left_out]

    return select


def test_of_what_is_slow_the_first_form_alone_is_run(selected):
    run, left_out = selected(full=False)
    assert run == [*EASY, "t.py::many[sqlite]", "t.py::Group::many[sqlite]"]
    assert left_out == ["t.py::alone", "t.py::many[postgres]", *IN_EVERY_FORM]


def test_all_of_it_is_run_in_full(selected):
    assert selected(full=True) == ([*EASY, *SLOW, *IN_EVERY_FORM], [])


@pytest.mark.parametrize(
    ("asked", "full"),
    [
        ({}, False),
        *(({name: True}, True) for name in ("full", "every_engine", "encrypted", "lf")),
        ({"keyword": "x"}, True),
        ({"markexpr": "slow"}, True),
    ],
)
def test_who_names_something_wants_all_of_it(request, asked, full):
    hooks = next(each for each in request.config.pluginmanager.get_plugins() if hasattr(each, "SteppingClock"))
    source = pytest.Config.ArgsSource
    for given, expected in ((source.TESTPATHS, full), (source.ARGS, True)):
        option = SimpleNamespace(**{"full": False, "keyword": "", "markexpr": "not deep"} | asked)
        hooks.pytest_configure(SimpleNamespace(option=option, args_source=given))
        assert option.full is expected


@pytest.mark.parametrize(("asked", "passed"), [([], 2), (["-m", "slow"], 2), (["test_it.py"], 3)])
def test_workers_of_xdist_select_alike(tmp_path, request, asked, passed):
    """Each collects for itself, and hears of the options only as they were written."""
    hooks = next(each for each in request.config.pluginmanager.get_plugins() if hasattr(each, "SteppingClock"))
    selecting = map(inspect.getsource, (hooks.pytest_configure, hooks.pytest_collection_modifyitems))
    options = "def pytest_addoption(parser):\n    for name in ('full', 'encrypted'):\n"
    options += "        parser.addoption(f'--{name}', action='store_true')\n\n"
    (tmp_path / "conftest.py").write_text("import pytest\n\n" + options + "\n\n".join(selecting))
    (tmp_path / "pytest.ini").write_text(
        '[pytest]\naddopts = -m "not deep"\ntestpaths = .\nmarkers =\n  slow\n  deep\n'
    )
    forms = "@pytest.mark.slow\n@pytest.mark.parametrize('form', 'ab')\ndef test_slow(form): ...\n\n"
    alone = "def test_quick(): ...\n"
    (tmp_path / "test_it.py").write_text("import pytest\n\n" + forms + alone)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", *asked]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"{passed} passed" in ran.stdout, ran.stdout + ran.stderr
