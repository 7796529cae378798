"""The operations of an update, in whatever form a model wrote them.

An update is a JSON object: names of operations, with what they are to do in a form of their own, such as several notes
at once. Here that becomes arguments, one set for each time that an operation is to be done.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.tool_arguments import Arguments, read
from langchain_agentmem.language_models.tool_factory import Operation
from langchain_agentmem.layers.layer_operations import OPERATIONS

MOST_OPERATIONS = 100
"""How many operations one reply may have."""
MOST_PROBLEMS = 20
"""How many problems of one reply are told."""
_LOOKED_AT = 10 * MOST_OPERATIONS
IMPORTANCE = 4
"""The importance of a note that is given none."""
INSIGHT = "LLM_INSIGHT"
"""The tag of records that a model wrote by itself."""

_NAMES: Mapping[str, Operation] = {each.name: each for each in OPERATIONS}
_OTHER_NAMES = {
    "recall_summarize": "mem_recall_summarize",
    "mem_consolidate": "consolidate",
    "mem_core_delete": "mem_core_del",
}
_ORDER = {each.name: place for place, each in enumerate(OPERATIONS)}
_NOT_A_NAME = re.compile(r"\W+")


class Request(NamedTuple):
    """An operation that a model wants to be done.

    Attributes:
        operation: Which.
        arguments: With what.
    """

    operation: Operation
    arguments: Arguments

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.operation.name


class Repeated(dict[str, Any]):
    """An object in which names stand more than once.

    Attributes:
        pairs: All of them.
    """

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def all_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """What a JSON reader makes of an object, so that nothing is lost where a model writes a name twice."""
    values = dict(pairs)
    return values if len(values) == len(pairs) else Repeated(pairs)


def requests_of(updates: Iterable[Mapping[str, Any]]) -> tuple[list[Request], list[str]]:
    """What updates ask for.

    Args:
        updates: The JSON objects that a model wrote.

    Returns:
        The operations in the order in which they are to be done, core memory first, and what is wrong with the others,
        in sentences for the model.
    """
    requests: list[Request] = []
    problems: list[str] = []
    beyond = 0
    for number, (name, operation, given) in enumerate(_wanted(updates)):
        if len(requests) >= MOST_OPERATIONS or number >= _LOOKED_AT:
            beyond += 1
        elif operation is None:
            problems.append(f"{safe_repr(name)}: there is no such operation; there are {', '.join(sorted(_NAMES))}.")
        else:
            try:
                requests.append(Request(operation, read(operation.arguments, given)))
            except InvalidInput as error:
                problems.append(f"{operation.name}: {error}.")
    if len(problems) > MOST_PROBLEMS:
        problems[MOST_PROBLEMS:] = [f"{len(problems) - MOST_PROBLEMS} other operations are wrong too."]
    if beyond:
        problems.append(f"{beyond} operations were not done: a reply may have {MOST_OPERATIONS}.")
    return sorted(requests, key=lambda each: _ORDER[each.name]), problems


def _wanted(updates: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Operation | None, Any]]:
    """Each time that an operation is to be done: its name, the operation if there is one, and its arguments."""
    for update in updates:
        for name, value in update.pairs if isinstance(update, Repeated) else update.items():
            operation = _operation(name)
            for given in (None,) if operation is None else _spelled_out(operation.name, value):
                yield name, operation, given


def _operation(name: str) -> Operation | None:
    plain = _NOT_A_NAME.sub("_", name.strip()).lower()[:100]
    return _NAMES.get(_OTHER_NAMES.get(plain, plain))


def _spelled_out(name: str, value: Any) -> list[Any]:
    try:
        return list(_each(name, value))
    except RecursionError:  # lists in lists in lists
        return [value]


def _each(name: str, value: Any) -> Iterator[Any]:
    """The arguments of each time that an operation is to be done."""
    if value is None or value is False:
        if name in ("mem_core_get", "mem_node_read") and value is None:
            yield {}
    elif name == "mem_core_set":
        yield from _notes(value)
    elif name == "mem_core_get":
        yield {} if value is True else value if _is_spelled_out(value, "keys") else {"keys": _keys(value)}
    elif name == "mem_core_del":
        yield from ({"key": key} for key in _several(_keys(value)))
    elif name == "mem_recall_evict":
        yield _evicted(value)
    elif name == "mem_recall_summarize":
        yield {}
    elif name == "consolidate":
        yield value if isinstance(value, Mapping) else {"level": value if isinstance(value, str) else None}
    elif name == "mem_node_read":
        yield value if isinstance(value, Mapping) else {} if value is True else {"scope": value}
    else:
        yield from (_completed(name, each) for each in _several(value))


def _notes(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from _notes(each)
    elif not isinstance(value, Mapping):
        yield value
    elif _is_spelled_out(value, "key", "value", "importance", "ttl") and {"key", "value"} <= value.keys():
        yield {"importance": IMPORTANCE, **value}
    else:
        for key, said in value.pairs if isinstance(value, Repeated) else value.items():
            whole = (
                isinstance(said, Mapping) and _is_spelled_out(said, "value", "importance", "ttl") and "value" in said
            )
            yield {"importance": IMPORTANCE, "key": key, **(said if whole else {"value": said})}


def _completed(name: str, value: Any) -> Any:
    """One event, record or search; a text stands for what it is about."""
    main = _MAIN.get(name)
    given = {main: value} if main and isinstance(value, str) else value
    if not isinstance(given, Mapping):
        return given
    if name == "mem_recall_search":
        return {"limit": 20, **given} if "k" not in given else given
    if name == "mem_archival_write":
        tags = given.get("tags")
        tags = [tags] if isinstance(tags, str) else tags
        return {**given, "tags": [*(tags or ()), INSIGHT] if isinstance(tags, list | None) else tags}
    return given


_MAIN = {
    "mem_archival_write": "content",
    "mem_archival_search": "query",
    "mem_archival_get": "record_id",
    "mem_recall_append": "content",
    "mem_recall_search": "query",
    "mem_node_fork": "name",
}
"""What a text alone stands for."""


def _evicted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {**value, "oldest": 1} if value.get("oldest") is True else value
    if isinstance(value, bool) or value == "oldest":
        return {"oldest": 1}
    return {"oldest": value} if isinstance(value, int) else {"ids": value}


def _keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value.get("keys", value.get("key", list(value)))
    return value


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_spelled_out(value: Any, *names: str) -> bool:
    return isinstance(value, Mapping) and bool(value) and value.keys() <= set(names)
