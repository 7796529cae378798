"""Lazy imports: the names of a package are imported at their first use, so importing the package is fast."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import get_data
from typing import Any

_IMPORT = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)


def modules_in_stub(package: str) -> dict[str, str]:
    """Return the module of each name that the stub `__init__.pyi` of a package imports."""
    stub = (get_data(package, "__init__.pyi") or b"").decode()
    return {name: module for module, name in _IMPORT.findall(stub)}


def lazy_exports(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package.

    Args:
        package: The name of the package.
        modules: The module of each name.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names
