"""Whether a model's error says that it was given too much."""

from __future__ import annotations

import re
from typing import Any

_TOO_LARGE = 413
_NAMES = frozenset({"ContextOverflowError", "ContextWindowExceededError", "RequestTooLargeError"})
_CODES = frozenset({"context_length_exceeded", "request_too_large", "string_above_max_length"})
_WORDS = re.compile(
    r"maximum context|context[ _-]?(?:length|window|size|limit)|prompt is too long"
    r"|(?:input|prompt|request|payload|message|content|text)s?(?: \w+){0,3} (?:is|are|was) too (?:long|large|big)"
    r"|(?:request|payload|entity|input|body) too (?:large|long|big)|too many (?:input |prompt )?tokens"
    r"|tokens? (?:limit|count) (?:\w+ )?exceed"
    r"|exceeds? (?:the |this )?(?:model'?s? )?(?:maximum|max|limit)[\w ]{0,40}(?:tokens?|length|size|bytes)",
    re.IGNORECASE,
)
_DEEPEST = 8


def is_too_large(error: BaseException) -> bool:
    """Whether an error, or one that it was raised from, says that the input does not fit.

    It is known by its class's name, by HTTP status 413, by a provider's code or by its words: no provider's package is
    needed to read its errors.

    Args:
        error: What a model raised.
    """
    each: BaseException | None = error
    for _ in range(_DEEPEST):
        if each is None:
            return False
        if _says_so(each):
            return True
        each = each.__cause__ or each.__context__
    return False


def is_payload(error: BaseException) -> bool:
    """Whether such an error is about the bytes of a request, whatever its tokens.

    Args:
        error: What a model raised.
    """
    each: BaseException | None = error
    for _ in range(_DEEPEST):
        if each is None:
            return False
        told = (getattr(each, "status_code", None), getattr(getattr(each, "response", None), "status_code", None))
        if _TOO_LARGE in told or type(each).__name__ == "RequestTooLargeError":
            return True
        each = each.__cause__ or each.__context__
    return False


def _says_so(error: BaseException) -> bool:
    if any(kind.__name__ in _NAMES for kind in type(error).__mro__):
        return True
    response = getattr(error, "response", None)
    told = [
        getattr(each, name, None)
        for each in (error, response)
        for name in ("status_code", "status", "http_status", "code")
    ]
    if any(_is_one_of(value) for value in told) or _is_one_of(_code_in(getattr(error, "body", None))):
        return True
    return bool(_WORDS.search(str(error)))


def _is_one_of(value: Any) -> bool:
    return not isinstance(value, bool) and (value in (_TOO_LARGE, str(_TOO_LARGE)) or str(value) in _CODES)


def _code_in(body: Any) -> Any:
    """The code in the body of a provider's error."""
    inner = body.get("error", body) if isinstance(body, dict) else None
    return (inner.get("code") or inner.get("type")) if isinstance(inner, dict) else None
