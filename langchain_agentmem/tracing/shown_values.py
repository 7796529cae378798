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
from typing import Any, TypeAlias

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

Content: TypeAlias = bool | Callable[[str], str]
"""How content is shown: as it is, not at all, or as a function gives it."""

NAMES = frozenset(
    {
        "branch",
        "branches",
        "checkpoint_ns",
        "duration",
        "error_type",
        "from_branch",
        "into",
        "junk",
        "kind",
        "kinds",
        "layer",
        "layers",
        "level",
        "memory",
        "model",
        "namespace",
        "namespace_prefix",
        "namespace_suffix",
        "namespaces",
        "operation",
        "prefer",
        "processors",
        "provider",
        "recommendations",
        "role",
        "roles",
        "scope",
        "source",
        "stage",
        "status",
        "strategy",
        "trigger",
        "type",
        "verdict",
    }
)
"""Keys whose texts are names. So are those that are, or end in, "id", "ids" and "at", and those of "agentmem"."""

GIVEN = frozenset({"filter", "value", "values"})
"""Keys of what users gave in a form of their own. Its keys say nothing, and its numbers are content too."""

_DEEPEST = 8
_BRIEF = 300
_CLIPPED = 200
_LISTED = 20


class Withheld(Exception):
    """Stands for an error whose text is content. It is told in place of it, and never raised."""


class Showing:
    """Shows the values of steps.

    Args:
        content: Whether texts are shown (True), left out (False), or as a function from text to text gives them.

    Raises:
        InvalidInput: It is something else.
    """

    __slots__ = ("_content",)

    def __init__(self, content: Content) -> None:
        if not isinstance(content, bool) and not callable(content):
            raise InvalidInput(
                "trace_content must be True, False or a function from text to text, "
                f"not {type(content).__name__}: {safe_repr(content)}"
            )
        self._content = content

    @property
    def everything(self) -> bool:
        """Whether content is shown as it is."""
        return self._content is True

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Plain data, with content as it is to be shown."""
        told = {plain_text(str(key)): plain(value) for key, value in given.items()}
        return told if self.everything else {key: self._masked(key, value) for key, value in told.items()}

    def error(self, error: BaseException) -> BaseException:
        """The error itself, or one that says of which type it is and shows its text as content is shown."""
        if self.everything:
            return error
        text = self._text(str(error))
        return Withheld(f"{type(error).__name__}: {text}")

    def _masked(self, key: str, value: Any) -> Any:
        if isinstance(value, str):
            return value if _names(key) else self._text(value)
        if key in GIVEN and isinstance(value, list | dict):
            return self._text(json.dumps(value, ensure_ascii=False))
        if isinstance(value, list):
            return [self._masked(key, each) for each in value]
        if isinstance(value, dict):
            masked = {name: self._masked(name, each) for name, each in value.items()}
            return masked | {"id": self._text(str(value["id"]))} if _is_item(value) else masked
        return value

    def _text(self, text: str) -> str:
        if callable(self._content):
            return str(self._content(text))
        return f"<{len(text)} characters>"


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


def documents(
    found: Iterable[Any],
    about: Callable[[Any], tuple[str, dict[str, Any]]] = lambda each: (each.text, {"kind": each.kind}),
) -> dict[str, Any]:
    """The outputs of a retriever: what a search found, as documents, and why each of them.

    Args:
        found: What was found.
        about: The text of each, and what else is told of it. Default: its kind.
    """

    def document(each: Any) -> dict[str, Any]:
        text, more = about(each)
        score = None if each.score is None else round(each.score, 4)
        why = None if each.why is None else str(each.why)
        return {"id": each.id, "page_content": text, "metadata": {"id": each.id, "score": score, "why": why, **more}}

    return {"documents": [document(each) for each in found]}


def given_only(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that were given, as inputs of a step."""
    return {name: value for name, value in values.items() if value is not None}


def brief(text: str) -> str:
    """A text as a step shows it: the beginning of one that is long, and how long it is."""
    return text if len(text) <= _BRIEF else f"{text[:_BRIEF]}… ({len(text)} characters)"


def small(value: Any) -> Any:
    """What a stream of events carries of plain data: long texts are cut, long lists counted, documents named."""
    if isinstance(value, str):
        return value if len(value) <= _CLIPPED else f"{value[:_CLIPPED]}… ({len(value)} characters)"
    if isinstance(value, list):
        listed = [small(each) for each in value[:_LISTED]]
        return listed if len(value) <= _LISTED else [*listed, f"… ({len(value)} in all)"]
    if isinstance(value, dict):
        if "page_content" in value:
            known = value.get("metadata") or {}
            return {"id": value.get("id"), "kind": known.get("kind"), "score": known.get("score")}
        return {key: small(each) for key, each in value.items()}
    return value


def plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON knows it, for a person to read. Of bytes only the number is told."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, date):
        return value.isoformat()
    return plain_text(value) if isinstance(value, str) else _plain_parts(value, depth)


def plain_text(text: str) -> str:
    """The text, as it can be sent. Half a surrogate pair cannot: storage keeps it exactly; a trace need not."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _plain_parts(value: Any, depth: int) -> Any:
    if depth >= _DEEPEST:  # which also ends cycles
        return "…"
    if isinstance(value, Mapping):
        return {plain_text(str(key)): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, depth + 1) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name), depth + 1) for each in fields(value)}
    # LangChain's messages and documents are pydantic models.
    if not isinstance(value, type) and callable(dump := getattr(value, "model_dump", None)):
        return plain(dump(), depth + 1)
    return plain_text(str(value))
