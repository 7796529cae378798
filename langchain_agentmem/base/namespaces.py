"""Namespaces and ids: what may name a tenant, a user, a topic or a conversation.

A namespace is a tuple of labels. It is stored as a path in which every label is ended by U+001F; the namespaces
below a prefix are then one range of paths, which an index answers. Control characters are therefore not allowed
in labels, and since ids travel through two databases, logs and URLs, not in ids either.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

C = TypeVar("C")

Namespace: TypeAlias = tuple[str, ...]

CONFIG_KEY = "agentmem_namespace"
"""Where a run's `config["configurable"]` names its namespace."""

EXAMPLE = '{"configurable": {"thread_id": "…"}}'
"""A config, as errors show one."""

LONGEST_LABEL = 200
LONGEST_PATH = 2_000
LONGEST_ID = 500

_END = "\x1f"
_AFTER_END = "\x20"
_LAST = "\U0010ffff" * (LONGEST_LABEL + 1)  # behind every path, that of the last label of all included
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def path_of(namespace: Any) -> str:
    """The stored form of a namespace.

    Args:
        namespace: A tuple or list of labels; empty for the root.

    Raises:
        InvalidInput: It is not a tuple of usable labels.
    """
    if isinstance(namespace, str):
        raise InvalidInput(
            f"A namespace is a tuple of strings: write ({safe_repr(namespace)},) instead of {safe_repr(namespace)}."
        )
    if not isinstance(namespace, tuple | list):
        raise InvalidInput(f"A namespace is a tuple of strings, not {type(namespace).__name__}.")
    for label in namespace:
        if not isinstance(label, str) or not label or len(label) > LONGEST_LABEL or _FORBIDDEN.search(label):
            raise InvalidInput(
                f"The label {safe_repr(label)} cannot be part of a namespace: labels are strings of 1 to "
                f"{LONGEST_LABEL} characters without control characters."
            )
    path = "".join(label + _END for label in namespace)
    if (size := len(path.encode())) > LONGEST_PATH:
        raise InvalidInput(f"A namespace may have {LONGEST_PATH} bytes in all; this one has {size}.")
    return path


def namespace_of(path: str) -> Namespace:
    """The namespace that a stored path stands for."""
    return tuple(path.split(_END)[:-1])


def range_of(namespace: Any) -> tuple[str, str]:
    """The paths of a namespace and of all below it: from the first, up to but without the second."""
    path = path_of(namespace)
    return (path, path[:-1] + _AFTER_END) if path else ("", _LAST)


def id_of(value: Any, what: str, error: type[InvalidInput] = InvalidInput) -> str:
    """Check an id given by a user.

    Args:
        value: A string; whole numbers and UUIDs are written as one.
        what: What it names, for the error.
        error: The error to raise.

    Raises:
        InvalidInput: It is empty, too long, or has control characters.
    """
    text = value if isinstance(value, str) else str(value) if _is_like_an_id(value) else ""
    if not text or len(text) > LONGEST_ID or _FORBIDDEN.search(text):
        named = f"an {what}" if what[:1] in "aeiou" else f"a {what}"
        raise error(
            f"{safe_repr(value)} cannot be the id of {named}: ids are strings of 1 to {LONGEST_ID} characters without "
            "control characters."
        )
    return text


def resolve(given: Any, config: Mapping[str, Any] | None = None) -> Namespace:
    """The namespace that a call means: the given one, else that of the run it is made in, else the root.

    Args:
        given: What the caller said; None or an empty tuple for nothing.
        config: The run's config, where the caller has it. Default: that of the run this is called in.

    Raises:
        InvalidInput: It is not a tuple of usable labels.
    """
    if given is None or (isinstance(given, tuple | list) and not given):
        config = config if config is not None else running_config()
        given = configurable_of(config).get(CONFIG_KEY, ())
    return namespace_of(path_of(given))


def config_given(config: C) -> C:
    """A config that a caller gave, or None.

    Raises:
        InvalidInput: It is no config.
    """
    given: Any = config
    for names in (configurable_of(config), given or ()):
        if not set(map(type, names)) <= {str} and not all(isinstance(name, str) for name in names):
            raise InvalidInput(f"A config is a dictionary such as {EXAMPLE}, not {safe_repr(config)}.")
    return config


def configurable_of(config: Any) -> Mapping[str, Any]:
    """What a config says of its run: its thread, its checkpoint, its namespace.

    Args:
        config: A config of LangChain's; None says nothing.

    Raises:
        InvalidInput: It is no config.
    """
    if config is None:
        return {}
    found = config.get("configurable") if isinstance(config, Mapping) else config
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise InvalidInput(f"A config is a dictionary such as {EXAMPLE}, not {safe_repr(config)}.")
    return found


def running_config() -> Mapping[str, Any] | None:
    """The config of the run that this is called in, if any."""
    # Where LangChain was never loaded, nothing runs.
    runs = sys.modules.get("langchain_core.runnables.config")
    config: Mapping[str, Any] | None = runs.var_child_runnable_config.get() if runs else None
    return config


def _is_like_an_id(value: Any) -> bool:
    return isinstance(value, UUID) or (isinstance(value, int) and not isinstance(value, bool))
