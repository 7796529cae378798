"""What counts as a mutant, and which tests are chosen for it."""

from __future__ import annotations

import ast

from tests.mutants.choosing import Timed, is_loaded, within
from tests.mutants.mutants import Mutant, left_out, paths, read

CODE = """
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    SKIPPED = 1

@overload
def chosen(x: int = 2) -> int: ...

def chosen(x: "3", *, y: int | None = 10) -> "4":
    z: "5" = 11
    logger.warning("6", 7)
    if x > 12:
        raise ValueError("8", x + 9)
    return 13
"""


def test_what_changes_nothing_that_is_done_is_left_out() -> None:
    ranges = left_out(CODE)
    kept = {
        int(node.value)
        for node in ast.walk(ast.parse(CODE))
        if isinstance(node, ast.Constant)
        and str(node.value).isdigit()
        and not any(start <= (node.lineno, node.col_offset) < end for start, end in ranges)
    }
    assert kept == {10, 11, 12, 13}


def test_constants_and_defaults_are_loaded_and_what_functions_do_is_not() -> None:
    path = "langchain_agentmem/base/namespaces.py"
    assert path in paths()
    tree = ast.parse(read(path))
    functions = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
    for function in functions:
        last = function.body[-1]
        assert not is_loaded(Mutant(path, "", 0, last.lineno, last.col_offset))
        assert is_loaded(Mutant(path, "", 0, function.lineno, function.col_offset + len("def ")))
    constants = [each for each in tree.body if isinstance(each, ast.Assign)]
    assert functions
    assert constants
    assert all(is_loaded(Mutant(path, "", 0, each.lineno, each.col_offset)) for each in constants)


def test_tests_are_chosen_within_a_time_and_a_number_and_at_least_one() -> None:
    tests = [Timed(2.0, "a.py::1"), Timed(1.0, "b.py::1"), Timed(1.0, "a.py::2"), Timed(9.0, "c.py::1")]
    assert [test.name for test in within(tests, 4.0, 10)] == ["a.py::1", "a.py::2", "b.py::1"]
    assert within(tests, 4.0, 1) == tests[:1]
    assert within(tests[3:], 4.0, 10) == tests[3:]
