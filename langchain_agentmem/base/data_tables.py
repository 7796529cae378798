"""Word lists and tables that stand in YAML and JSON files beside the code that uses them."""

from __future__ import annotations

from pkgutil import get_data
from typing import Any


def data_text(name: str) -> str:
    """The text of a data file of the package, read as its modules are.

    Args:
        name: Its path within the package, as `search/dates.yaml`.
    """
    found = get_data(__package__ or "", f"../{name}")
    if found is None:
        raise FileNotFoundError(name)
    return found.decode()


def data_table(name: str) -> Any:
    """What a YAML file of the package holds.

    Args:
        name: Its path within the package.
    """
    import yaml  # noqa: PLC0415 - only who looks something up pays

    return yaml.safe_load(data_text(name))


def word_set(table: dict[str, str], name: str) -> frozenset[str]:
    """The words of one list of a table."""
    return frozenset(table[name].split())
