"""Whether a model's error says that it was given too much: `refusal` reads whatever a provider's client raised.

The wordings, codes and statuses stand in `overflow.yaml`, each with the page that shows it. No provider's package is
needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

from langchain_agentmem.base.data_tables import data_table

Refusal: TypeAlias = Literal["tokens", "bytes", "rate", "unclear", "other"]

_DEEPEST = 8
_UNCLEAR = frozenset({400, 413, 422})
"""With these a server says that it is the request that is wrong."""


def refusal(error: BaseException) -> Refusal:
    """What an error, or one that it was raised from, says of the request.

    Args:
        error: What a model raised.

    Returns:
        "tokens" where the model takes fewer; "bytes" and "rate" where a smaller request is taken, and nothing is said
        of what the model takes; "unclear" where the request is refused in words that nobody knows; else "other".
    """
    chain = [*map(_told, _chain(error))]
    kinds: Iterator[Refusal] = (row["kind"] for told in chain for row in _rows() if _fits(row, told))
    if (kind := next(kinds, None)) is not None:
        return kind
    return "unclear" if next((told.status for told in chain if told.status), None) in _UNCLEAR else "other"


def is_too_large(error: BaseException) -> bool:
    """Whether an error says that the input does not fit.

    Args:
        error: What a model raised.
    """
    return refusal(error) in {"tokens", "bytes", "rate"}


class _Told(NamedTuple):
    """What one error says."""

    classes: frozenset[str]
    status: int | None
    codes: frozenset[str]
    words: str


@cache
def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = data_table("language_models/overflow.yaml")
    return rows


def _fits(row: Mapping[str, Any], told: _Told) -> bool:
    """Whether a row of the table says what was told."""
    return (
        row.get("status", 0) == told.status
        or row.get("code") in told.codes
        or row.get("error") in told.classes
        or ("words" in row and re.search(row["words"], told.words, re.IGNORECASE | re.DOTALL) is not None)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it was raised from."""
    for _ in range(_DEEPEST):
        if error is None:
            return
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _told(error: BaseException) -> _Told:
    """What an error says, wherever its client keeps it: as attributes, in the response, or in the body of that."""
    response = getattr(error, "response", None)
    body = getattr(error, "body", None)
    body = body if isinstance(body, Mapping) else response if isinstance(response, Mapping) else {}  # botocore's
    inner = next((body[key] for key in ("error", "Error") if isinstance(body.get(key), Mapping)), body)
    names = ("status_code", "status", "http_status", "code")
    told = [getattr(each, name, None) for each in (error, response) for name in names]
    told += [(body.get("ResponseMetadata") or {}).get("HTTPStatusCode"), *map(inner.get, ("code", "type", "Code"))]
    said = [str(value) for value in told if isinstance(value, int | str) and not isinstance(value, bool)]
    status = next((int(each) for each in said if re.fullmatch(r"[45]\d\d", each)), None)
    return _Told(frozenset(kind.__name__ for kind in type(error).__mro__), status, frozenset(said), str(error))
