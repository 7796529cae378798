"""Word lists and tables that stand in YAML files beside the code that uses them."""

from __future__ import annotations

from importlib import resources
from typing import Any


def data_table(name: str) -> Any:
    """What a YAML file of the package holds.

    Args:
        name: Its path within the package, as `search/dates.yaml`.
    """
    import yaml  # noqa: PLC0415 - only who looks something up pays

    return yaml.safe_load(resources.files("langchain_agentmem").joinpath(name).read_text(encoding="utf-8"))


def word_set(table: dict[str, str], name: str) -> frozenset[str]:
    """The words of one list of a table."""
    return frozenset(table[name].split())
