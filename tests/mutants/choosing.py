"""Which tests run what a mutant changes."""

from __future__ import annotations

import ast
import functools
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutants.mutants import FUNCTIONS, Mutant, paths, read


class Timed(NamedTuple):
    """A test.

    Attributes:
        seconds: How long it took.
        name: pytest's name of it.
    """

    seconds: float
    name: str

    @property
    def file(self) -> str:
        """Where it stands."""
        return self.name.partition("::")[0]


Line = tuple[str, int]


class Reach:
    """Which tests run which lines.

    Args:
        file: What `lines.py` wrote.
    """

    def __init__(self, file: Path) -> None:
        self._tests: dict[Line, set[Timed]] = defaultdict(set)
        for line in file.read_text("utf-8").splitlines():
            found = json.loads(line)
            test = Timed(found["seconds"], found["test"])
            for path, numbers in found["lines"].items():
                for number in numbers:
                    self._tests[path, number].add(test)

    def named(self) -> list[Timed]:
        """All tests that run any line, by their names."""
        return sorted(set().union(*self._tests.values()), key=lambda test: test.name)

    def tests(self, mutant: Mutant) -> list[Timed]:
        """Those that run what a mutant changes: spread over files, those of its own folder first, the quickest of each.

        What runs when a module is loaded (a constant, a default) is run by whatever runs code that uses it.
        """
        found: set[Timed] = set()
        for lines in places(mutant):
            if found := set().union(*(self._tests[each] for each in lines if each in self._tests)):
                break
        by_file: dict[str, list[Timed]] = defaultdict(list)
        for test in sorted(found):
            by_file[test.file].append(test)
        home = f"tests/{mutant.part}/"
        files = sorted(by_file.values(), key=lambda tests: (not tests[0].file.startswith(home), tests[0]))
        rows = itertools.zip_longest(*files)
        return [test for row in rows for test in row if test is not None]


def within(tests: Iterable[Timed], seconds: float, count: int) -> list[Timed]:
    """The first of these that fit in a time and a number; at least one, the tests of each file together."""
    chosen: dict[str, list[Timed]] = {}
    for test in tests:
        if count and (test.seconds <= seconds or not chosen):
            chosen.setdefault(test.file, []).append(test)
            count, seconds = count - 1, seconds - test.seconds
    return [test for each in chosen.values() for test in each]


@functools.cache
def _tree(path: str) -> ast.Module:
    return ast.parse(read(path))


def is_loaded(mutant: Mutant) -> bool:
    """Whether what it changes is done when the module is loaded, not when a function is called."""
    return _around(_inside(mutant), mutant) is None


def _inside(mutant: Mutant) -> list[Any]:
    inside: list[Any] = []
    node: Any = _tree(mutant.path)
    while node is not None:
        inside.append(node)
        node = next((each for each in ast.iter_child_nodes(node) if _spans(each, mutant)), None)
    return inside


def _around(inside: list[Any], mutant: Mutant) -> Any:
    return next((each for each in reversed(inside) if isinstance(each, FUNCTIONS) and _in_body(each, mutant)), None)


def places(mutant: Mutant) -> list[set[Line]]:
    """The lines whose running tells that what a mutant changes is run: the first of these sets that any test runs."""
    inside = _inside(mutant)
    function = _around(inside, mutant)
    statement = next(each for each in reversed(inside) if isinstance(each, ast.stmt | ast.ExceptHandler))
    if function is not None:
        return [{(mutant.path, mutant.line)}, _lines(mutant.path, *_head(statement))]
    around = next((each for each in reversed(inside) if isinstance(each, (*FUNCTIONS, ast.ClassDef))), None)
    if isinstance(around, FUNCTIONS):
        return [_lines(mutant.path, around.body[0].lineno, around.body[-1].end_lineno or 0)]
    names = {each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    whole = _lines(mutant.path, 1, read(mutant.path).count("\n") + 1)
    if isinstance(around, ast.ClassDef):
        methods = _lines(mutant.path, around.lineno, around.end_lineno or 0)
        return [_uses(frozenset(names)) | methods, _uses(frozenset({around.name})), whole]
    return [_uses(frozenset(names)), whole]


def _spans(node: Any, mutant: Mutant) -> bool:
    if not isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
        return False
    if isinstance(node, ast.match_case):
        return node.pattern.lineno <= mutant.line <= (node.body[-1].end_lineno or 0)
    first = min((each.lineno for each in getattr(node, "decorator_list", [])), default=node.lineno)
    return first <= mutant.line <= (node.end_lineno or 0)


def _in_body(function: Any, mutant: Mutant) -> bool:
    first = function.body[0]
    return (first.lineno, first.col_offset) <= (mutant.line, mutant.column)


def _head(statement: Any) -> tuple[int, int]:
    body = getattr(statement, "body", None)
    return statement.lineno, max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno


def _lines(path: str, first: int, last: int) -> set[Line]:
    return {(path, line) for line in range(first, last + 1)}


@functools.cache
def _uses(names: frozenset[str]) -> set[Line]:
    return {
        (path, node.lineno)
        for path in paths()
        for node in ast.walk(_tree(path))
        if (isinstance(node, ast.Name) and node.id in names) or (isinstance(node, ast.Attribute) and node.attr in names)
    }
