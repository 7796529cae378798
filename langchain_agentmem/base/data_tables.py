"""Functions that load the package's own data files, and a parser for untrusted YAML.

The data files are word lists and tables in YAML, TOML and JSON. They are stored next to the code that uses them.
"""

from __future__ import annotations

import tomllib
from pkgutil import get_data
from typing import Any

from langchain_agentmem.errors import InvalidInput

MAX_YAML_VALUES = 5_000_000
"""The maximum number of values in an untrusted YAML text. Each alias counts as all the values that it repeats."""


def read_data_text(name: str) -> str:
    """Return the text of a data file of the package.

    The loader that imports the package reads the file, so the package may be in a zip archive.

    Args:
        name: The file's path within the package, such as `search/dates.yaml`.
    """
    return (get_data(__package__ or "", f"../{name}") or b"").decode()


def load_data_table(name: str) -> Any:
    """Load a YAML or TOML file of the package. TOML loads many times faster than YAML.

    Args:
        name: The file's path within the package.
    """
    if name.endswith(".toml"):
        return tomllib.loads(read_data_text(name))
    import yaml  # noqa: PLC0415 - imported only when a table is loaded

    return yaml.safe_load(read_data_text(name))


def parse_yaml(text: str) -> Any:
    """Parse untrusted YAML. Tags that name Python objects are refused.

    Raises:
        InvalidInput: The text is not valid YAML, or expands to more than `MAX_YAML_VALUES` values.
    """
    import yaml  # noqa: PLC0415 - imported only when a text is parsed

    try:
        value = yaml.safe_load(text)
        size = _count_values(value, {})
    except (yaml.YAMLError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidInput(f"Invalid YAML: {error}") from error
    if size > MAX_YAML_VALUES:
        raise InvalidInput(f"The YAML expands to more than {MAX_YAML_VALUES:,} values. Remove its repeated aliases.")
    return value


def _count_values(value: Any, counts: dict[int, int]) -> int:
    """Count a value and all values in it, except the keys of mappings.

    The values of an alias count each time that the alias occurs.

    Args:
        value: The parsed YAML.
        counts: The counts of the containers visited so far, by object id.
    """
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in counts:
        counts[id(value)] = MAX_YAML_VALUES + 1  # so a value that contains itself exceeds the maximum
        inner = value.values() if isinstance(value, dict) else value
        counts[id(value)] = 1 + sum(_count_values(each, counts) for each in inner)
    return counts[id(value)]


def word_set(table: dict[str, str], name: str) -> frozenset[str]:
    """Return the words of a table's entry, a text of words separated by whitespace."""
    return frozenset(table[name].split())
