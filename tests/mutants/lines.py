"""A plugin of pytest that writes down which lines of the code each test runs, and how long it takes.

    python -m pytest -n 0 -p tests.mutants.lines …          with MUTANTS_LINES=FILE in the environment

Only code of the modules that are asked for is watched, and each line of it once in a test, so tests are nearly as quick
as ever. What runs in another process is not seen.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.mutants.mutants import ROOT, is_mutated

TOOL = sys.monitoring.COVERAGE_ID
_seen: dict[str, set[int]] = defaultdict(set)


def _on_line(code: CodeType, line: int) -> object:
    _seen[code.co_filename].add(line)
    return sys.monitoring.DISABLE


def _watch(code: CodeType) -> None:
    sys.monitoring.set_local_events(TOOL, code, sys.monitoring.events.LINE)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _watch(constant)


class _Watched(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        if code is not None:
            _watch(code)
        return code


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path) if is_mutated(fullname) else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Watched(fullname, spec.origin)
        return spec


# As this is loaded, since conftest.py, which loads our code, comes before anything that pytest calls.
sys.monitoring.use_tool_id(TOOL, "mutants")
sys.monitoring.register_callback(TOOL, sys.monitoring.events.LINE, _on_line)
sys.meta_path.insert(0, _Finder())

_passed: dict[str, bool] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    report = yield
    _passed[item.nodeid] = report.passed and _passed.get(item.nodeid, True)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _seen.clear()
    sys.monitoring.restart_events()
    begun = time.perf_counter()
    result = yield
    seconds = time.perf_counter() - begun
    if _passed.get(item.nodeid):
        lines = {os.path.relpath(name, ROOT): sorted(numbers) for name, numbers in list(_seen.items())}
        with Path(os.environ["MUTANTS_LINES"]).open("a", encoding="utf-8") as file:
            print(json.dumps({"test": item.nodeid, "seconds": round(seconds, 3), "lines": lines}), file=file)
    return result
