"""Which tests are run where nobody says which."""

from types import SimpleNamespace

import pytest

EASY = ["t.py::one", "t.py::form[a]", "t.py::form[b]"]
SLOW = ["t.py::alone", "t.py::many[sqlite]", "t.py::many[postgres]", "t.py::Group::many[sqlite]"]


@pytest.fixture
def selected(request):
    """What is run of some tests, and what is left out, with an option or without."""
    hooks = next(each for each in request.config.pluginmanager.get_plugins() if hasattr(each, "SteppingClock"))

    def select(*, full):
        left_out = []
        items = [
            SimpleNamespace(nodeid=name, get_closest_marker=lambda _, slow=name in SLOW: slow or None)
            for name in [*EASY, *SLOW]
        ]

        def deselected(items):
            left_out.extend(items)

        config = SimpleNamespace(getoption={"full": full}.get, hook=SimpleNamespace(pytest_deselected=deselected))
        hooks.pytest_collection_modifyitems(config, items)
        return [each.nodeid for each in items], [each.nodeid for each in left_out]

    return select


def test_of_what_is_slow_the_first_form_alone_is_run(selected):
    run, left_out = selected(full=False)
    assert run == [*EASY, "t.py::many[sqlite]", "t.py::Group::many[sqlite]"]
    assert left_out == ["t.py::alone", "t.py::many[postgres]"]


def test_all_of_it_is_run_in_full(selected):
    assert selected(full=True) == ([*EASY, *SLOW], [])


@pytest.mark.parametrize(
    ("asked", "full"),
    [({}, False), ({"full": True}, True), ({"keyword": "x"}, True), ({"markexpr": "slow"}, True)],
)
def test_who_names_something_wants_all_of_it(request, asked, full):
    hooks = next(each for each in request.config.pluginmanager.get_plugins() if hasattr(each, "SteppingClock"))
    option = SimpleNamespace(**{"full": False, "keyword": "", "markexpr": "not deep"} | asked)
    source = pytest.Config.ArgsSource
    for given, expected in ((source.TESTPATHS, full), (source.ARGS, True)):
        config = SimpleNamespace(option=SimpleNamespace(**vars(option)), args_source=given)
        hooks.pytest_configure(config)
        assert config.option.full is expected
    worker = SimpleNamespace(option=SimpleNamespace(**vars(option)), args_source=source.ARGS, workerinput={})
    hooks.pytest_configure(worker)
    assert worker.option.full is option.full
