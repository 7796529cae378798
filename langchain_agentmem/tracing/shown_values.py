"""What is shown of a step: plain data that a person can read, with content only as far as the user wants it.

Every text is content unless its key says that it is the name of something: an id, a namespace, a kind. So what nobody
thought of is withheld, and not shown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from itertools import islice
from typing import Any, TypeAlias

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

Content: TypeAlias = bool | Callable[[str], str]
"""How content is shown: as it is, not at all, or as a function gives it."""

NAMES = {
    "branch", "branches", "checkpoint_ns", "duration", "error_type", "from_branch", "into", "junk", "kind", "kinds",
    "layer", "layers", "level", "memory", "model", "namespace", "namespace_prefix", "namespace_suffix", "namespaces",
    "operation", "prefer", "processors", "provider", "recommendations", "role", "roles", "scope", "source", "stage",
    "status", "strategy", "trigger", "type", "verdict",
}  # fmt: skip
"""Keys whose texts are names. So are those that are, or end in, "id", "ids" and "at", and those of "agentmem"."""

GIVEN = {"filter", "value", "values"}
"""Keys of what users gave in a form of their own. Its keys say nothing, and its numbers are content too."""

_DEEPEST = 8
_LISTED = 20
_CHARACTERS, _LENGTH_SHOWN = 300, 30


class Withheld(Exception):
    """Stands for an error whose text is content. It is told in place of it, and never raised."""


def checked_content(content: Content) -> Content:
    """Return how content is shown.

    Raises:
        InvalidInput: It is something else.
    """
    if not isinstance(content, bool) and not callable(content):
        raise InvalidInput(
            "trace_content must be True, False or a function from text to text, "
            f"not {type(content).__name__}: {safe_repr(content)}"
        )
    return content


def show_values(given: Mapping[str, Any], content: Content) -> dict[str, Any]:
    """Return values as plain data, with content as it is to be shown."""
    told = {key: summary(value) for key, value in given.items()}
    return told if content is True else {key: _masked(key, value, content) for key, value in told.items()}


def show_error(error: BaseException, content: Content) -> BaseException:
    """Return the error itself, or one that says of which type it is and shows its text as content is shown."""
    return error if content is True else Withheld(f"{type(error).__name__}: {_text(str(error), content)}")


def _masked(key: str, value: Any, content: Content) -> Any:
    if isinstance(value, str):
        return value if _names(key) else _text(value, content)
    if key in GIVEN and isinstance(value, list | dict):
        return _text(json.dumps(value, ensure_ascii=False), content)
    if isinstance(value, list):
        return [_masked(key, each, content) for each in value]
    if isinstance(value, dict):
        masked = {name: _masked(name, each, content) for name, each in value.items()}
        return masked | {"id": _text(str(value["id"]), content)} if _is_item(value) else masked
    return value


def _text(text: str, content: Content) -> str:
    return str(content(text)) if callable(content) else f"<{len(text)} characters>"


def _names(key: str) -> bool:
    return (
        key in NAMES
        or key in {"id", "ids", "at"}
        or key.endswith(("_id", "_ids", "_at"))
        or key.startswith(("agentmem_", "langgraph_"))
    )


def _is_item(told: Mapping[str, Any]) -> bool:
    """Whether it tells of an item of a store, whose id is the key that a user chose: content, as where it is put."""
    about = told.get("metadata")
    return "id" in told and "item" in (told.get("kind"), about.get("kind") if isinstance(about, dict) else None)


def documents(found: Iterable[Any], kind: str | None = None) -> dict[str, Any]:
    """Return the outputs of a retriever: the hits of a search as documents, with the reasons for each.

    Args:
        found: The hits.
        kind: The kind of all of them. Default: the kind of each.
    """
    return {"documents": [_document(each, kind or each.kind) for each in found]}


def _document(hit: Any, kind: str) -> dict[str, Any]:
    text = hit.text if hasattr(hit, "text") else hit.content
    score = None if hit.score is None else round(hit.score, 4)
    why = None if hit.why is None else str(hit.why)
    return {"id": hit.id, "page_content": text, "metadata": {"id": hit.id, "kind": kind, "score": score, "why": why}}


def outcome(value: Any) -> dict[str, Any]:
    """Return what a trace shows of the result of an operation: the fields of a record, or how many items there are.

    The keys of a mapping may be chosen by a user, so each is shown as a value.
    """
    if isinstance(value, Mapping):
        value = [{"key": key, "value": each} for key, each in value.items()]
    shown = summary(value)
    if isinstance(shown, list):
        return {"count": len(value), "items": shown}
    return shown if isinstance(shown, dict) else {"result": shown}


def outcome_with(value: Any, **names: str) -> dict[str, Any]:
    """Return the outcome with other names of fields, where one that is among `NAMES` holds content.

    Args:
        value: The result.
        **names: The name to show, by the name of the field.
    """
    shown = outcome(value)
    for each in shown.get("items", [shown]):
        for field in names.keys() & each if isinstance(each, dict) else ():
            each[names[field]] = each.pop(field)
    return shown


def given_only(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that were given, as inputs of a step."""
    return {name: value for name, value in values.items() if value is not None}


def brief(text: str) -> str:
    """Return the first 300 characters of a text, and how long it is if it is longer.

    Half a surrogate pair cannot be sent: storage keeps it exactly, a trace need not.
    """
    is_long = len(text) > _CHARACTERS + _LENGTH_SHOWN
    shown = f"{text[:_CHARACTERS]}… ({len(text)} characters)" if is_long else text
    return shown if shown.isascii() else shown.encode("utf-8", "backslashreplace").decode()


def summary(value: Any, depth: int = 0) -> Any:  # noqa: C901, PLR0911 - one line for each type
    """Return plain data that a person can read: ids, numbers, and the first 300 characters of texts.

    Args:
        value: Anything. Of bytes only the number is shown, of a list the first 20, of other objects the fields.
        depth: How many containers it stands in.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return brief(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, date):
        return value.isoformat()
    if depth >= _DEEPEST:  # which also ends cycles
        return "…"
    if isinstance(value, Mapping):
        return {brief(str(key)): summary(each, depth + 1) for key, each in islice(value.items(), _LISTED)}
    if not isinstance(value, type):
        for name in ("_asdict", "model_dump"):  # of named tuples, and of LangChain's messages
            if callable(fields_of := getattr(value, name, None)):
                return {key: summary(each, depth + 1) for key, each in fields_of().items()}
    if isinstance(value, list | tuple | set | frozenset):
        listed = [summary(each, depth + 1) for each in islice(value, _LISTED)]
        return listed if len(value) <= _LISTED else [*listed, f"… ({len(value)} in all)"]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: summary(getattr(value, each.name), depth + 1) for each in fields(value)}
    return brief(str(value))
