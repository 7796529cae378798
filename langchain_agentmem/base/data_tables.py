"""Word lists and tables that stand in YAML files beside the code that uses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parent.parent


def data_table(name: str) -> Any:
    """What a YAML file of the package holds.

    Args:
        name: Its path within the package, as `search/dates.yaml`.
    """
    import yaml  # noqa: PLC0415 - only who looks something up pays

    return yaml.safe_load((_PACKAGE / name).read_text(encoding="utf-8"))


def word_set(table: dict[str, str], name: str) -> frozenset[str]:
    """The words of one list of a table."""
    return frozenset(table[name].split())
