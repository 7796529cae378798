"""Options and arguments that pydantic checks, with the errors of this package.

    class CompactorConfig(Options):
        threshold: int = Field(default=10, ge=1)

    CompactorConfig(threshold=0)        # InvalidInput: threshold must be greater than or equal to 1, got 0.

Checks are strict: "3" is no number, and 1 is no flag. Declare a list as `Sequence[str]`, because a strict tuple refuses
lists. Numbers are finite, unless a field says `allow_inf_nan=True`. A validator that raises `ValueError` or
`InvalidInput` writes the whole sentence itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from langchain_agentmem.errors import InvalidInput, safe_repr

STRICT = ConfigDict(
    frozen=True, strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True, defer_build=True
)
_UNKNOWN = "There is no option {}. Options: {}."
_EXPECTED = {"sequence_str": "be a list"}
"""Expectations that pydantic words in another way than "Input should …"."""


class Options(BaseModel):
    """Options that cannot be changed.

    Raises:
        InvalidInput: A value is wrong, or an option is unknown.
    """

    model_config = STRICT

    if not TYPE_CHECKING:  # a type checker takes the signature from the fields

        def __init__(self, /, **given: Any) -> None:
            try:
                super().__init__(**given)
            except ValidationError as error:
                raise InvalidInput(describe_fault(error, known=type(self).model_fields)) from None

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values, which are checked."""
        return type(self)(**{**dict(self), **changes})


def check_options(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Check keyword options and return them.

    Args:
        kind: The `TypedDict` of the options. Its annotations must be importable at run time.
        given: The options.

    Raises:
        InvalidInput: A value is wrong, or an option is unknown.
    """
    types = _types(kind)
    for name in given:
        if name not in types:
            raise InvalidInput(_UNKNOWN.format(safe_repr(name), ", ".join(types)))
    return {name: check_value(types[name], value, name) for name, value in given.items()}


def check_value(kind: Any, value: Any, name: str) -> Any:
    """Check one argument and return it.

    Args:
        kind: Its type, such as `Annotated[int, Ge(1)] | None`.
        value: The argument.
        name: Its name, for the error.

    Raises:
        InvalidInput: The value is wrong.
    """
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise InvalidInput(describe_fault(error, name=name)) from None


def describe_fault(error: ValidationError, *, name: str = "", known: Iterable[str] = ()) -> str:
    """Return the first fault that pydantic found, as a sentence.

    Args:
        error: The error of pydantic.
        name: The name of the argument that was checked. Default: the name of the field.
        known: The options that exist.
    """
    first, *others = error.errors(include_url=False, include_context=False)
    if first["type"] in ("value_error", "assertion_error"):
        return first["msg"].partition(", ")[2]
    field, *inside = [name, *first["loc"]] if name else first["loc"]
    place = str(field) + "".join(f"[{part}]" for part in inside if isinstance(part, int))
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return _UNKNOWN.format(safe_repr(place), ", ".join(known))
    if first["type"] in ("missing", "missing_argument"):
        return f"{place} is missing."
    faults = [first, *(each for each in others if each["input"] is first["input"])]  # of a union, one for each type
    expected = (each["msg"].partition(" should ")[2] or _EXPECTED.get(each["type"], each["msg"]) for each in faults)
    return f"{place} must {' or '.join(dict.fromkeys(expected))}, got {safe_repr(first['input'])}."


@lru_cache(256)
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@lru_cache(256)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind, config=STRICT)
