"""Lazy imports and lazy patterns, so that importing the package is fast.

A package imports each exported name when the name is first used. A regular expression is compiled at its first use.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import get_data
from typing import Any, cast

_IMPORT = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)


def modules_in_stub(package: str) -> dict[str, str]:
    """Return the names that a package's stub `__init__.pyi` imports, each with its module.

    Only lines of the form `from module import Name as Name` count.
    """
    stub = (get_data(package, "__init__.pyi") or b"").decode()
    return {name: module for module, name in _IMPORT.findall(stub)}


def lazy_exports(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a lazy `__getattr__` and a matching `__dir__` for a package.

    Args:
        package: The name of the package.
        modules: The exported names, each with the module that defines it.
    """

    def get_export(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get_export, list_names


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return an object with the methods of a pattern, which is compiled at their first use."""
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))


class _LazyPattern:
    def __init__(self, *pattern_and_flags: Any) -> None:
        self._arguments = pattern_and_flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # `copy` and `pickle` ask for such names before `_arguments` exists
            raise AttributeError(name)
        value = getattr(re.compile(*self._arguments), name)
        setattr(self, name, value)  # later uses of the method find it as a plain attribute
        return value
