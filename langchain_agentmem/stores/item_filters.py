"""Whether a value is what a filter asks for, decided in Python, so that both databases answer the same.

    fits({"kind": "note", "size": {"width": 3}}, {"kind": "note", "size.width": {"$gte": 2}})  # True

A condition is a plain value (equal), a dictionary of operators, or a dictionary of further conditions on a nested one.
A key that is not there counts as None: `$ne` and None match it, and ordering operators match neither. Values that no
order exists between, such as text and numbers, match no ordering operator, and nothing ever raises while items are
compared: what is wrong with a filter itself is said by `checked`, before the first item is read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from langchain_agentmem.base.encoding import under, write_plain
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

Compare = Callable[[Any, Any], bool]

_NUMBERS = (int, float, Decimal)
_ORDERED = (str, bytes, datetime, date, time, timedelta)
DEEPEST = 64
"""How deeply conditions may be nested."""


def checked(wanted: Any) -> Mapping[str, Any] | None:
    """Check a filter.

    Args:
        wanted: Conditions by key, or None.

    Returns:
        The filter; None where it asks for nothing.

    Raises:
        InvalidInput: It is not a dictionary with text for keys, or has an operator that does not exist.
    """
    if wanted is None:
        return None
    if not isinstance(wanted, Mapping):
        raise InvalidInput(f"A filter is a dictionary of conditions by key, not {type(wanted).__name__}.")
    for key, condition in wanted.items():
        if not isinstance(key, str):
            raise InvalidInput(f"The keys of a filter are text, not {safe_repr(key)}.")
        _check(condition, DEEPEST)
    return dict(wanted) or None


def fits(value: Mapping[Any, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a value meets every condition of a filter.

    Args:
        value: The value of an item.
        wanted: What `checked` gave.
    """
    return all(_meets(under(value, key), condition) for key, condition in wanted.items())


def needle(wanted: Mapping[str, Any]) -> bytes | None:
    """What the stored bytes of every value that fits must hold: the longest text that something has to be equal to.

    A database looks for it much quicker than values are read. None where no text has to be equal to anything.
    """
    texts = sorted((text for condition in wanted.values() for text in _texts(condition)), key=len)
    return write_plain(texts[-1]) if texts else None


def _texts(condition: Any) -> Iterator[str]:
    if isinstance(condition, str):
        yield str(condition)
    elif isinstance(condition, Mapping):
        if _is_operators(condition):
            if isinstance(text := condition.get("$eq"), str):
                yield str(text)
        else:
            for inner in condition.values():
                yield from _texts(inner)
    elif isinstance(condition, list | tuple):
        for inner in condition:
            yield from _texts(inner)


def _check(condition: Any, depth: int) -> None:
    if not depth:
        raise InvalidInput(f"A filter may be nested {DEEPEST} levels deep.")
    if isinstance(condition, Mapping):
        operators = _is_operators(condition)
        for key, inner in condition.items():
            if operators and key not in _OPERATORS:
                raise InvalidInput(
                    f"Unsupported operator {safe_repr(key)} in a filter; there are {', '.join(_OPERATORS)}."
                )
            if not operators:
                _check(inner, depth - 1)
    elif isinstance(condition, list | tuple):
        for inner in condition:
            _check(inner, depth - 1)


def _is_operators(condition: Mapping[Any, Any]) -> bool:
    return any(isinstance(key, str) and key.startswith("$") for key in condition)


def _meets(value: Any, condition: Any) -> bool:
    if isinstance(condition, Mapping):
        if _is_operators(condition):
            return all(_OPERATORS[name](value, operand) for name, operand in condition.items())
        return isinstance(value, Mapping) and all(_meets(under(value, key), inner) for key, inner in condition.items())
    if isinstance(condition, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(condition)
            and all(_meets(mine, inner) for mine, inner in zip(value, condition, strict=True))
        )
    return _equal(value, condition)


def _equal(value: Any, other: Any) -> bool:
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(_equal, value, other))
    try:
        return bool(value == other)
    except ArithmeticError:  # a signalling NaN, which equals nothing
        return False


def _in_order(compare: Compare) -> Compare:
    def ordered(value: Any, other: Any) -> bool:
        numbers = isinstance(value, _NUMBERS) and isinstance(other, _NUMBERS)
        if not numbers and not (type(value) is type(other) and isinstance(value, _ORDERED)):
            return False
        try:
            return bool(compare(value, other))
        except (TypeError, ArithmeticError):  # times with and without a zone; NaN as a decimal
            return False

    return ordered


_OPERATORS: dict[str, Compare] = {
    "$eq": _equal,
    "$ne": lambda value, other: not _equal(value, other),
    "$gt": _in_order(operator.gt),
    "$gte": _in_order(operator.ge),
    "$lt": _in_order(operator.lt),
    "$lte": _in_order(operator.le),
}
