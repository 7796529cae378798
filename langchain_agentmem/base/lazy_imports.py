"""Lazy imports: a package imports each exported name when it is first used, so importing the package is fast."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import get_data
from typing import Any

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
