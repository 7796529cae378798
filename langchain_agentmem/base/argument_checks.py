"""Checks of the options and arguments that callers pass, and upper limits for values.

    class CompactorConfig(Options):
        threshold: int = Field(default=10, ge=1)

    CompactorConfig(threshold=0)        # InvalidInput: threshold must be greater than or equal to 1, got 0.

Checks are strict: "3" is not a number, and 1 is not a boolean. Declare a list as `Sequence[str]`, because a strict
`tuple` refuses lists. Numbers must be finite, unless the field sets `allow_inf_nan=True`. If a validator raises
`ValueError` or `InvalidInput`, its text becomes the whole error message.

Each method checks its arguments, except the sizes of values. `storage/engine.py` checks these sizes in the transaction
that writes the values, so an error undoes the whole call.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar, get_type_hints

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from langchain_agentmem.base.lazy_imports import lazy_pattern
from langchain_agentmem.errors import InvalidInput, LimitExceeded, safe_repr

T = TypeVar("T")

STRICT_CONFIG = ConfigDict(
    frozen=True, strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True, defer_build=True
)
_UNKNOWN_OPTION = "Unknown option {}. Valid options: {}."
_EXPECTED_TEXTS = {"sequence_str": "be a list"}
"""The text after "must" in this package's message, by the type of each pydantic error whose message has no "should"."""


class Options(BaseModel):
    """A base class of immutable options.

    Raises:
        InvalidInput: A value is invalid, or an option is unknown.
    """

    model_config = STRICT_CONFIG

    if not TYPE_CHECKING:  # type checkers derive the signature from the fields

        def __init__(self, /, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise InvalidInput(describe_fault(error, valid_names=type(self).model_fields)) from None

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some values changed. All values are checked again."""
        return type(self)(**{**dict(self), **changes})


def check_options(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Check keyword options and return them.

    Args:
        kind: The `TypedDict` of the options. Its annotations must be importable at run time.
        options: The name and value of each option.

    Raises:
        InvalidInput: A value is invalid, or an option is unknown.
    """
    types = _type_hints(kind)
    for name in options:
        if name not in types:
            raise InvalidInput(_UNKNOWN_OPTION.format(safe_repr(name), ", ".join(types)))
    return {name: check_value(types[name], value, name) for name, value in options.items()}


def check_value(kind: Any, value: Any, name: str) -> Any:
    """Check one argument and return it.

    Args:
        kind: The type of the argument, such as `Annotated[int, Ge(1)] | None`.
        value: The argument.
        name: The argument's name, for the error.

    Raises:
        InvalidInput: The value is invalid.
    """
    try:
        return _type_adapter(kind).validate_python(value)
    except ValidationError as error:
        raise InvalidInput(describe_fault(error, name=name)) from None


def check_instance(kind: type[T], value: T | None, name: str) -> T | None:
    """Return an argument after checking that it is None or an instance of a class.

    `check_value` is not used, because pydantic would accept a dict in place of a model.

    Args:
        kind: The class.
        value: The argument.
        name: The argument's name, for the error.

    Raises:
        InvalidInput: The argument is of another type.
    """
    if value is not None and not isinstance(value, kind):
        raise InvalidInput(f"{name} must be an instance of {kind.__name__}, got {safe_repr(value)}.")
    return value


def describe_fault(error: ValidationError, *, name: str = "", valid_names: Iterable[str] = ()) -> str:
    """Return a sentence that describes the first fault that pydantic found.

    Args:
        error: The error that pydantic raised.
        name: The name of the argument that was checked. Default: the name of the field.
        valid_names: The names of the valid options.
    """
    first_error, *other_errors = error.errors(include_url=False, include_context=False)
    if first_error["type"] in ("value_error", "assertion_error"):
        return first_error["msg"].partition(", ")[2]  # after pydantic's prefix "Value error, "
    field, *rest = [name, *first_error["loc"]] if name else first_error["loc"]
    path = str(field) + "".join(f"[{part}]" for part in rest if isinstance(part, int))
    if first_error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return _UNKNOWN_OPTION.format(safe_repr(path), ", ".join(valid_names))
    if first_error["type"] in ("missing", "missing_argument"):
        return f"{path} is missing."
    # For a value of no type of a union, pydantic reports one error per type, all with this value as the input.
    faults = [first_error, *(each for each in other_errors if each["input"] is first_error["input"])]
    texts = (each["msg"].partition(" should ")[2] or _EXPECTED_TEXTS.get(each["type"], each["msg"]) for each in faults)
    return f"{path} must {' or '.join(dict.fromkeys(texts))}, got {safe_repr(first_error['input'])}."


@lru_cache(256)
def _type_hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@lru_cache(256)
def _type_adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind, config=STRICT_CONFIG)


# --- Texts, names, numbers and lists ----------------------------------------------------------------------------------

MAX_NAME_CHARS = 500
MATCH_ALL = "*"
"""The query that matches everything."""
NO_LIMIT = 2**31 - 1  # the largest 32-bit integer, so every database accepts it in a query
CONTROL_CHARS = lazy_pattern(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Control characters and surrogates, which names, labels and ids must not contain."""


def check_text(value: Any, label: str) -> str:
    """Return a caller's argument after checking that it is text.

    Args:
        value: The argument.
        label: The subject of the error message, such as "The text".

    Raises:
        InvalidInput: The argument is not text.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{label} must be text, not {type(value).__name__}.")
    return value


def check_name(value: Any, label: str) -> str:
    """Return the name of a key, event type or tag, after checking it.

    Args:
        value: The argument.
        label: The kind of name, for the error, such as "a role".

    Raises:
        InvalidInput: The name is not text, is blank or too long, or contains control characters or surrogates.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_NAME_CHARS or CONTROL_CHARS.search(value):
        raise InvalidInput(
            f"{safe_repr(value)} cannot be {label}: it must be text of 1 to {MAX_NAME_CHARS} characters without "
            "control characters."
        )
    return value


def parse_limit(value: Any) -> int:
    """Return a caller's maximum number of results, or `NO_LIMIT` for None.

    Raises:
        InvalidInput: The limit is not a whole number of 0 or more.
    """
    if value is None:
        return NO_LIMIT
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"A limit must be a whole number of 0 or more, or None, not {safe_repr(value)}.")
    return min(value, NO_LIMIT)


def parse_texts(values: Any, label: str) -> list[str]:
    """Return a caller's texts as a list; a single text becomes a list of one.

    Raises:
        InvalidInput: The argument is neither a text nor a sequence or set of texts.
    """
    if isinstance(values, str):
        return [values]
    if isinstance(values, Mapping) or not isinstance(values, Sequence | set | frozenset):
        raise InvalidInput(f"{label} must be a list of texts, not {type(values).__name__}.")
    if others := [each for each in values if not isinstance(each, str)]:
        raise InvalidInput(f"{label} must be texts, but {safe_repr(others[0])} is not one.")
    return list(values)


def check_integer(name: str, value: Any, minimum: int = 0) -> None:
    """Check an option that is a whole number.

    Raises:
        InvalidInput: The value is not a whole number, or is less than `minimum`.
    """
    check_value(Annotated[int, Ge(minimum)], value, name)


def check_timeout(value: Any) -> float | None:
    """Check a timeout in seconds, and return it.

    0 means no waiting, None means no limit.

    Raises:
        InvalidInput: The value is neither None nor a number from 0 to `threading.TIMEOUT_MAX`.
    """
    kind = Annotated[float, Ge(0), Le(threading.TIMEOUT_MAX)] | None
    return check_value(kind, value, "timeout")  # type: ignore[no-any-return]  # the checked type


def check_flag(name: str, value: Any) -> bool:
    """Check a boolean option, and return it.

    Raises:
        InvalidInput: The value is neither True nor False.
    """
    return check_value(bool, value, name)  # type: ignore[no-any-return]  # the checked type


# --- Upper limits ----------------------------------------------------------------------------------------------------

_SIZED_TYPES = (bytes, str, memoryview)


class MemoryLimits(Options):
    """The upper limits of arguments, for `AgentMemory(limits=MemoryLimits(...))`.

    Attributes:
        value_bytes: Bytes of one stored value: a whole message, an item, a record, a fact, an audit entry, or a part of
            a checkpoint. Default: 256 MiB.
        batch: Values that one call writes: messages, items, blobs. Default: 1,000,000.
        query_chars: Characters of a search query. Longer queries are refused. A search uses only the first 100,000.
            Default: 1,000,000.
        conditions: Conditions of a store filter, including nested conditions. The limit also applies to the number of
            kinds of memory, or of roles, that a search is restricted to. Default: 1,000.
        tags: Tags of a record. Default: 1,000.
        import_bytes: Bytes of a file that is read as a whole, such as a file of another program. Default: 1 GiB.

    Raises:
        InvalidInput: A limit is not a whole number of 1 or more.
    """

    value_bytes: int = Field(default=256 * 2**20, ge=1)
    batch: int = Field(default=1_000_000, ge=1)
    query_chars: int = Field(default=1_000_000, ge=1)
    conditions: int = Field(default=1_000, ge=1)
    tags: int = Field(default=1_000, ge=1)
    import_bytes: int = Field(default=2**30, ge=1)

    def check(self, name: str, size: int, label: str) -> None:
        """Refuse a size above a limit.

        Args:
            name: The name of the limit.
            size: The size.
            label: The subject of the error message, such as "The query".

        Raises:
            LimitExceeded: The size is above the limit.
        """
        if size > (maximum := getattr(self, name)):
            raise LimitExceeded(
                f"{label} is too large: {size:,}, and the limit {name} is {maximum:,}. Pass less data, or raise the "
                f"limit with AgentMemory(..., limits=MemoryLimits({name}={size}))."
            )

    def check_file(self, path: str | os.PathLike[str]) -> None:
        """Refuse a file that is too large to be read as a whole.

        A file whose size cannot be read, such as a missing one, is not refused.

        Raises:
            LimitExceeded: The file is larger than `import_bytes`.
        """
        try:
            size = os.stat(os.fspath(path)).st_size  # noqa: PTH116 - fspath refuses an integer, which stat accepts
        except (OSError, ValueError, TypeError):
            return
        self.check("import_bytes", size, f"The file {safe_repr(str(path))}")

    def check_rows(self, query: str, names: Sequence[str], rows: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Refuse rows or values above a limit before a query writes them.

        Args:
            query: The name of the query that writes the values.
            names: The names of the parameters to check.
            rows: The parameters of the query: a dictionary for one row, or a list of them.

        Raises:
            LimitExceeded: A value is larger than `value_bytes`, or the number of rows exceeds `batch`.
        """
        if not isinstance(rows, list):
            rows = [rows]
        elif len(rows) > self.batch:
            self.check("batch", len(rows), f"The number of rows of one call ({query})")
        safe_length = self.value_bytes // 4  # UTF-8 needs at most 4 bytes for a character
        for row in rows:
            for name in names:
                value = row[name]
                if isinstance(value, _SIZED_TYPES) and len(value) > safe_length:
                    data = value.encode(errors="surrogatepass") if isinstance(value, str) else value
                    self.check("value_bytes", len(data), f"A value to store ({query})")


DEFAULT_LIMITS = MemoryLimits.model_construct()  # without checks, which would take 8 ms of each import
UNLIMITED = DEFAULT_LIMITS.model_copy(update=dict.fromkeys(MemoryLimits.model_fields, 2**62))
"""Limits that no real value reaches. They apply to copies of stored data, so a backup can always be restored."""
