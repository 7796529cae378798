"""A batch of LangGraph's store operations: checked as a whole, run in one go, answered in their order.

A trace shows a batch as one step. It is named by what the batch holds, "get", "search" and so on, and "batch" where it
holds several kinds; searches alone show as a retriever, with what they found as documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias

from langgraph.store import base as langgraph
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, Result, SearchItem, SearchOp

from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.limits import USUAL_LIMITS, MemoryLimits
from langchain_agentmem.base.namespaces import Namespace, namespace_of, path_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import writer
from langchain_agentmem.search.vectors import Near
from langchain_agentmem.storage import Transaction
from langchain_agentmem.stores import item_rows
from langchain_agentmem.stores.item_search import FoundItem, Look, NamespaceListing, SharedItems, ThreadItems, checked
from langchain_agentmem.tracing import brief, outcome

SEARCH = "search"


def verb_of(op: Op) -> str:
    """What an operation does."""
    if isinstance(op, GetOp):
        return "get"
    if isinstance(op, SearchOp):
        return SEARCH
    if isinstance(op, ListNamespacesOp):
        return "list_namespaces"
    return "delete" if op.value is None else "put"


def _fields_of(op: Op) -> dict[str, Any]:
    fields = {
        name: value for name, value in op._asdict().items() if value is not None and value is not langgraph.NOT_PROVIDED
    }
    if isinstance(op, SearchOp):
        return {**fields, "query": op.query or "", "namespace": op.namespace_prefix}
    return fields


def _document(found: FoundItem) -> dict[str, Any]:
    at, score = found.item.at, None if found.score is None else round(found.score, 4)
    about = {"id": at.key, "kind": "item", "namespace": list(namespace_of(at.path)), "score": score}
    return {"id": at.key, "page_content": brief(item_rows.whole_text(found.value)), "metadata": about}


WHOLE = "$"
"""The path of a whole value."""
MOST = 2**31
"""Results that may be asked for, or left out."""

Fields = tuple[str, ...]
Items: TypeAlias = SharedItems | ThreadItems
"""Where items are kept. One is made for each transaction."""


class InvalidNamespace(InvalidInput, langgraph.InvalidNamespaceError):
    """A namespace that no item can be in. Both an error of ours and one of LangGraph's."""


class Read(NamedTuple):
    """What was read.

    Attributes:
        results: What each operation found, by its place in the batch: items, or namespaces.
        touched: The items whose end a reading has to put off.
    """

    results: dict[int, Any]
    touched: list[item_rows.StoredItem]


class Batch:
    """Operations that belong together.

    Args:
        ops: The operations.
        ttl: The store's configuration of expiry.
        fields: The paths whose texts items are found by, unless they name their own; None for the whole value.
        base: Where the namespaces of the operations begin. Default: at the root.
        limits: How long queries may be, and how many conditions filters may have.

    Raises:
        InvalidInput: One of them is wrong. None is run.
    """

    def __init__(
        self,
        ops: Iterable[Op],
        ttl: langgraph.TTLConfig,
        fields: Fields | None,
        base: Namespace = (),
        limits: MemoryLimits = USUAL_LIMITS,
    ) -> None:
        self._limits = limits
        self._ttl, self._fields, self._base, self._writer = ttl, fields, base, writer()
        self._gets: dict[int, tuple[item_rows.ItemPlace, bool]] = {}
        self._searches: dict[int, tuple[Look, bool]] = {}
        self._lists: dict[int, tuple[ListNamespacesOp, str, str]] = {}
        self._changes: dict[item_rows.ItemPlace, item_rows.ItemDraft | None] = {}
        self._ops: list[Op] = []
        if not isinstance(ops, Iterable):
            raise InvalidInput(f"Give a list of operations, not {safe_repr(ops)}.")
        for number, op in enumerate(ops):
            self._add(number, op)
            self._ops.append(op)

    @property
    def writes(self) -> bool:
        """Whether anything is to be written."""
        return bool(self._changes)

    @cached_property
    def verb(self) -> str:
        """What a trace calls it."""
        verbs = set(map(verb_of, self._ops))
        return verbs.pop() if len(verbs) == 1 else "batch"

    def asked(self) -> Mapping[str, Any]:
        """What a trace shows of it."""
        if len(self._ops) == 1:
            return _fields_of(self._ops[0])
        told: dict[str, Any] = {"operations": [{"operation": verb_of(op), **_fields_of(op)} for op in self._ops]}
        if self.verb == SEARCH:
            told["query"] = "; ".join(op.query or "" for op in self._ops if isinstance(op, SearchOp))
        return told

    def told(self, found: Read) -> Mapping[str, Any]:
        """What a trace shows of what came of it."""
        if self.verb == SEARCH:
            return {"documents": [_document(each) for hits in found.results.values() for each in hits]}
        answers = self.answers(found)
        return outcome(answers[0] if len(answers) == 1 else answers)

    @property
    def asks(self) -> bool:
        """Whether it looks for words."""
        return any(look.question and look.limit for look, _ in self._searches.values())

    def embed(self, near: Callable[[Look], Near | None], *, cosine: bool) -> None:
        """Give the words that it looks for their vectors, before it is run.

        Args:
            near: Gives the vector.
            cosine: Whether nothing but what lies near to it is wanted.
        """
        for number, (look, refresh) in self._searches.items():
            if look.question and look.limit:
                self._searches[number] = (look._replace(dense=near(look), cosine=cosine), refresh)

    def read(self, tx: Transaction, items: Items, now: int) -> Read:
        """Run what reads.

        Args:
            tx: The transaction.
            items: Where.
            now: When.
        """
        results: dict[int, Any] = {}
        touched: list[item_rows.StoredItem] = []
        if self._gets:
            there = items.get(tx, [at for at, _ in self._gets.values()], now=now)
            for number, (at, refresh) in self._gets.items():
                if (item := there.get(at)) is not None:
                    results[number] = item
                    touched += [item] if refresh and item.ttl is not None else []
        for number, (look, refresh) in self._searches.items():
            found = items.find(tx, look, now=now)
            results[number] = found
            touched += [each.item for each in found if refresh and each.item.ttl is not None]
        for number, (op, low, high) in self._lists.items():
            above, conditions = len(self._base), op.match_conditions or ()

            def fits(named: Namespace, above: int = above, conditions: Any = conditions) -> bool:
                return all(_matches(named[above:], condition) for condition in conditions)

            depth = None if op.max_depth is None else above + op.max_depth
            listing = NamespaceListing(low, high, fits, depth, op.limit, op.offset)
            results[number] = [named[above:] for named in items.namespaces(tx, listing, now=now)]
        return Read(results, touched)

    def run(self, tx: Transaction, items: Items, now: int) -> Read:
        """Run everything: what reads sees what was there before.

        Args:
            tx: The transaction.
            items: Where.
            now: When.
        """
        locked: Any = items.lock(tx, self._changes)
        found = self.read(tx, items, now)
        items.touch(tx, found.touched, now=now)
        items.write(tx, self._changes, locked, now=now)
        return found._replace(touched=[])

    def answers(self, found: Read) -> list[Result]:
        """The result of each operation, in their order. Every value is made anew for the caller."""
        answers: list[Result] = [None] * len(self._ops)
        for number in self._gets:
            if number in found.results:
                answers[number] = _item(found.results[number], len(self._base))
        for number in self._searches:
            answers[number] = [_search_item(each, len(self._base)) for each in found.results[number]]
        for number in self._lists:
            answers[number] = found.results[number]
        return answers

    def _add(self, number: int, op: Op) -> None:
        if isinstance(op, GetOp):
            self._gets[number] = (self._place(op), self._refresh(op.refresh_ttl))
        elif isinstance(op, SearchOp):
            self._searches[number] = (_look(op, self._base, self._limits), self._refresh(op.refresh_ttl))
        elif isinstance(op, ListNamespacesOp):
            self._lists[number] = (op, *_range_listed(op, self._base))
        elif isinstance(op, PutOp):
            place = self._place(op)
            self._changes[place] = None if op.value is None else self._draft(op)
        else:
            raise InvalidInput(f"Unknown operation {safe_repr(op)}: give GetOp, SearchOp, PutOp or ListNamespacesOp.")

    def _place(self, op: GetOp | PutOp) -> item_rows.ItemPlace:
        path = path_of_items(op.namespace)
        return item_rows.ItemPlace(
            path_of((*self._base, *op.namespace)) if self._base else path, item_rows.key_of(op.key)
        )

    def _refresh(self, given: bool | None) -> bool:  # noqa: FBT001 - as LangGraph has it
        return self._ttl.get("refresh_on_read", True) if given is None else bool(given)

    def _draft(self, op: PutOp) -> item_rows.ItemDraft:
        if not op.namespace:
            raise InvalidNamespace("An item cannot be in the empty namespace (): give it a label, as in ('users',).")
        value = item_rows.written(op.value)  # type: ignore[arg-type]  # a deletion has no draft
        ttl = item_rows.ttl_of(self._ttl.get("default_ttl") if isinstance(op.ttl, langgraph.NotProvided) else op.ttl)
        draft = item_rows.ItemDraft(value, ttl, source=self._writer.source, actor=self._writer.actor)
        if op.index is False:
            return draft
        fields = self._fields if op.index is None else checked_fields("index", op.index)
        if fields is None:
            return draft._replace(text=item_rows.text_of(op.value, value))  # type: ignore[arg-type]
        named = _texts(dict(op.value or {}), fields)
        return draft._replace(text="\n".join(named), named=named)


def checked_fields(name: str, fields: Any) -> Fields | None:
    """Check paths into values.

    Args:
        name: What they were given as, for the error.
        fields: The paths, or one.

    Returns:
        The paths; None where the whole value is meant.

    Raises:
        InvalidInput: They are no list of text.
    """
    paths = (fields,) if isinstance(fields, str) else fields
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        raise InvalidInput(
            f"{name} must be a list of paths such as 'title' or 'parts[*].text', not {safe_repr(fields)}."
        )
    return None if tuple(paths) == (WHOLE,) else tuple(paths)


def _texts(value: dict[str, Any], fields: Fields) -> Fields:
    """The texts at some paths of a value, without those that are empty."""
    view = item_rows.plain_view(value)
    found: list[str] = []
    for path in fields:
        if path in {WHOLE, ""}:
            found.append(item_rows.whole_text(view))
        else:
            found += langgraph.get_text_at_path(view, langgraph.tokenize_path(path))
    return tuple(text for text in found if text.strip())


def path_of_items(namespace: Any) -> str:
    """The path of a namespace in which items can be.

    Raises:
        InvalidNamespace: There can be none.
    """
    if type(namespace) is tuple and set(map(type, namespace)) <= {str}:
        return _checked_path(namespace)
    return _newly_checked_path(namespace)  # a list, or what is no label: neither can be looked up


def _newly_checked_path(namespace: Any) -> str:
    with _namespaces():
        path = path_of(namespace)
        langgraph.validate_op_namespace(GetOp(namespace, ""))
    return path


_checked_path = lru_cache(1024)(_newly_checked_path)
_namespace_of = lru_cache(1024)(namespace_of)


def _look(op: SearchOp, base: Namespace, limits: MemoryLimits) -> Look:
    path_of_items(op.namespace_prefix)
    if op.query is not None and not isinstance(op.query, str):
        raise InvalidInput(f"A query is text, not {type(op.query).__name__}.")
    limits.check("query_chars", len(op.query or ""), "The query")
    limit, offset = _number("limit", op.limit), _number("offset", op.offset)
    return Look(*range_of((*base, *op.namespace_prefix)), checked(op.filter, limits), op.query or "", limit, offset)


def _range_listed(op: ListNamespacesOp, base: Namespace) -> tuple[str, str]:
    """Check what namespaces are asked for, and give the range of paths that they must be in."""
    _number("limit", op.limit)
    _number("offset", op.offset)
    if op.max_depth is not None and _number("max_depth", op.max_depth) == 0:
        raise InvalidInput("max_depth must be at least 1.")
    low, high = range_of(base)
    if op.match_conditions is not None and not isinstance(op.match_conditions, Iterable):
        raise InvalidInput(f"match_conditions must be a tuple, not {safe_repr(op.match_conditions)}.")
    for condition in op.match_conditions or ():
        if not isinstance(condition, MatchCondition) or condition.match_type not in ("prefix", "suffix"):
            raise InvalidInput(f"Unsupported match {safe_repr(condition)}: match_type is 'prefix' or 'suffix'.")
        with _namespaces():
            path_of(condition.path)
        if condition.match_type == "prefix":
            within = range_of((*base, *takewhile(lambda label: label != "*", condition.path)))
            low, high = max(low, within[0]), min(high, within[1])
    with _namespaces():
        langgraph.validate_op_namespace(op)
    return low, high


def _matches(namespace: Namespace, condition: MatchCondition) -> bool:
    wanted = tuple(condition.path)
    if len(namespace) < len(wanted):
        return False
    labels = namespace[: len(wanted)] if condition.match_type == "prefix" else namespace[len(namespace) - len(wanted) :]
    return all(pattern in {"*", label} for label, pattern in zip(labels, wanted, strict=True))


def _number(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise InvalidInput(f"{name} must be a whole number from 0 to {MOST}, not {safe_repr(value)}.")
    return value


class _namespaces:  # noqa: N801 - it reads as a function
    """A block whose errors are those of a namespace."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, InvalidInput | langgraph.InvalidNamespaceError) and not isinstance(
            error, InvalidNamespace
        ):
            raise InvalidNamespace(str(error)) from error


def _item(item: item_rows.StoredItem, above: int) -> Item:
    return Item(value=item_rows.read(item.value, *item.at), **_about(item, above))


def _search_item(found: FoundItem, above: int) -> SearchItem:
    return SearchItem(value=found.value, score=found.score, **_about(found.item, above))


def _about(item: item_rows.StoredItem, above: int) -> dict[str, Any]:
    made = moment(item.created_at)
    return {
        "key": item.at.key,
        "namespace": _namespace_of(item.at.path)[above:],
        "created_at": made,
        "updated_at": made if item.updated_at == item.created_at else moment(item.updated_at),
    }
