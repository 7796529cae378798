"""Batches of LangGraph's store operations.

A batch checks all operations before it runs the first one. It runs them in one transaction, and returns their results
in the order of the operations.

A trace shows a batch as one step. The name of the step is the kind of the operations, such as "get" or "search", or
"batch" for operations of several kinds. If all operations are searches, the step is traced as a retriever, with
the results as documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Annotated, Any, TypeAlias

from annotated_types import Ge, Le
from langgraph.store import base as langgraph
from langgraph.store.base import Op, PutOp, Result
from pydantic import PositiveInt

from langchain_agentmem.base.argument_checks import MemoryLimits, check_value
from langchain_agentmem.base.clock import from_micros
from langchain_agentmem.base.encoding import json_value
from langchain_agentmem.base.namespaces import Namespace, namespace_of, path_of, path_range
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.language_models.model_calls import current_source
from langchain_agentmem.search.vectors import VectorQuery
from langchain_agentmem.storage import Transaction
from langchain_agentmem.stores import item_rows
from langchain_agentmem.stores.item_search import ItemQuery, SharedItems, ThreadItems, check_filter
from langchain_agentmem.tracing import format_result, shorten_text


def name_operation(op: Op) -> str:
    """Return the kind of an operation, such as "get"."""
    if isinstance(op, PutOp):
        return "delete" if op.value is None else "put"
    if isinstance(op, langgraph.GetOp):
        return "get"
    return "search" if isinstance(op, langgraph.SearchOp) else "list_namespaces"


def _trace_fields(op: Op) -> dict[str, Any]:
    fields = {
        name: value for name, value in op._asdict().items() if value is not None and value is not langgraph.NOT_PROVIDED
    }
    if isinstance(op, langgraph.SearchOp):
        return {**fields, "query": op.query or "", "namespace": op.namespace_prefix}
    return fields


def _trace_document(item: langgraph.SearchItem) -> dict[str, Any]:
    score = None if item.score is None else round(item.score, 4)
    metadata = {"id": item.key, "kind": "item", "namespace": list(item.namespace), "score": score}
    return {"id": item.key, "page_content": shorten_text(item_rows.full_text(item.value)), "metadata": metadata}


WHOLE_VALUE = "$"
"""The path of the whole value in LangGraph's index options."""
_COUNT: Any = Annotated[int, Ge(0), Le(2**31)]
"""The valid range of a limit or an offset."""

Fields = tuple[str, ...]
"""The paths of the fields of a value to index, such as "parts[*].text"."""
ItemAccess: TypeAlias = SharedItems | ThreadItems
"""An object that reads and writes items, either shared items or those of a thread, in one transaction."""


class InvalidNamespace(InvalidInput, langgraph.InvalidNamespaceError):
    """An error for a namespace that cannot contain items. LangGraph's error is a base class."""


BatchResults: TypeAlias = tuple[list[Result], list[item_rows.StoredItem]]
"""The results of the operations, and the items that were read and whose expiry the caller must postpone."""


class Batch:
    """A batch of store operations.

    Args:
        ops: The operations.
        ttl: The TTL configuration of the store.
        fields: The paths of values to index, for operations without paths of their own. None for the whole value.
        base: The namespace that precedes the namespaces of the operations.
        limits: The limits of the length of queries and of the number of conditions in a filter.

    Raises:
        InvalidInput: An operation is invalid. No operation is run.
    """

    def __init__(
        self, ops: Iterable[Op], ttl: langgraph.TTLConfig, fields: Fields | None, base: Namespace, limits: MemoryLimits
    ) -> None:
        self._limits = limits
        self._ttl, self._fields, self._base, self._writer = ttl, fields, base, current_source()
        # By the number of the operation. The boolean is whether the read postpones the expiry of the items.
        self._gets: dict[int, tuple[item_rows.ItemPlace, bool]] = {}
        self._searches: dict[int, tuple[ItemQuery, bool]] = {}
        self._lists: dict[int, tuple[langgraph.ListNamespacesOp, str, str]] = {}  # with the range of namespace paths
        self.changes: dict[item_rows.ItemPlace, item_rows.ItemDraft | None] = {}  # None to delete the item
        self._ops: list[Op] = []
        if not isinstance(ops, Iterable):
            raise InvalidInput(f"ops must be a list of operations, not {safe_repr(ops)}.")
        for number, op in enumerate(ops):
            self._add(number, op)
            self._ops.append(op)

    @cached_property
    def trace_name(self) -> str:
        """The name of the batch in a trace."""
        kinds = set(map(name_operation, self._ops))
        return kinds.pop() if len(kinds) == 1 else "batch"

    def trace_inputs(self) -> Mapping[str, Any]:
        """Return the inputs of the batch for a trace."""
        if len(self._ops) == 1:
            return _trace_fields(self._ops[0])
        operations = [{"operation": name_operation(op), **_trace_fields(op)} for op in self._ops]
        inputs: dict[str, Any] = {"operations": operations}
        if self.trace_name == "search":
            inputs["query"] = "; ".join(op.query or "" for op in self._ops if isinstance(op, langgraph.SearchOp))
        return inputs

    def trace_outputs(self, results: list[Any]) -> Mapping[str, Any]:
        """Return the results for a trace."""
        if self.trace_name == "search":
            return {"documents": [_trace_document(item) for items in results for item in items]}
        return format_result(results[0] if len(results) == 1 else results)

    def embed(self, make_query_vector: Callable[[ItemQuery], VectorQuery | None]) -> None:
        """Embed the texts of the searches, before the transaction begins.

        Args:
            make_query_vector: A function that embeds a query. It returns None if the store has no embeddings.
        """
        for number, (item_query, refresh) in self._searches.items():
            if item_query.text and item_query.limit:  # other searches compare no text, or return nothing
                self._searches[number] = (item_query._replace(dense=make_query_vector(item_query)), refresh)

    def read(self, tx: Transaction, items: ItemAccess, now: int) -> BatchResults:
        """Run the operations that read. Callers may modify the returned values.

        Args:
            tx: The transaction.
            items: The items.
            now: The current time, in microseconds since 1970.
        """
        results: list[Result] = [None] * len(self._ops)
        touched: list[item_rows.StoredItem] = []
        stored = items.get(tx, [place for place, _ in self._gets.values()], now=now) if self._gets else {}
        for number, (place, refresh) in self._gets.items():
            if (item := stored.get(place)) is not None:
                results[number] = make_item(item, self._base)
                touched += [item] if refresh and item.ttl is not None else []
        for number, (item_query, refresh) in self._searches.items():
            hits = items.find(tx, item_query, now=now)
            results[number] = [
                langgraph.SearchItem(value=hit.value, score=hit.score, **_item_fields(hit.item, self._base))
                for hit in hits
            ]
            touched += [hit.item for hit in hits if refresh and hit.item.ttl is not None]
        for number, (op, low, high) in self._lists.items():
            results[number] = self._select_page(op, items.namespaces(tx, low, high, now=now))
        return results, touched

    def _select_page(self, op: langgraph.ListNamespacesOp, namespaces: Iterable[Namespace]) -> list[Namespace]:
        """Return the namespaces that an operation lists, from its offset up to its limit."""
        matching: dict[Namespace, None] = {}  # a set that keeps the order
        for namespace in namespaces:
            labels = namespace[len(self._base) :]
            if all(_matches(labels, condition) for condition in op.match_conditions or ()):
                matching[labels[: op.max_depth]] = None
                if len(matching) >= op.offset + op.limit:
                    break
        return list(matching)[op.offset : op.offset + op.limit]

    def run(self, tx: Transaction, items: ItemAccess, now: int) -> BatchResults:
        """Run the operations that read, postpone the expiry of items read, then run the writes.

        Args:
            tx: The transaction.
            items: The items.
            now: The current time, in microseconds since 1970.
        """
        locked_rows: Any = items.lock(tx, self.changes)  # None for the items of a thread
        results, touched = self.read(tx, items, now)
        items.touch(tx, touched, now=now)
        items.write(tx, self.changes, locked_rows, now=now)
        return results, []

    def _add(self, number: int, op: Op) -> None:
        if isinstance(op, langgraph.GetOp):
            place = make_place(op.namespace, op.key, self._base)
            self._gets[number] = (place, should_refresh(self._ttl, op.refresh_ttl))
        elif isinstance(op, langgraph.SearchOp):
            item_query = _parse_search(op, self._base, self._limits)
            self._searches[number] = (item_query, should_refresh(self._ttl, op.refresh_ttl))
        elif isinstance(op, langgraph.ListNamespacesOp):
            self._lists[number] = (op, *_parse_path_range(op, self._base))
        elif isinstance(op, PutOp):
            place = make_place(op.namespace, op.key, self._base)
            self.changes[place] = None if op.value is None else self._make_draft(op)
        else:
            raise InvalidInput(
                f"Unknown operation {safe_repr(op)}. Valid operations: GetOp, SearchOp, PutOp, ListNamespacesOp."
            )

    def _make_draft(self, op: PutOp) -> item_rows.ItemDraft:
        if not op.namespace:
            raise InvalidNamespace("Items need a namespace with at least one label, such as ('users',), got ().")
        value = item_rows.encode_value(op.value)  # type: ignore[arg-type]  # `_add` handles deletions
        ttl = item_rows.check_ttl(self._ttl.get("default_ttl") if isinstance(op.ttl, langgraph.NotProvided) else op.ttl)
        draft = item_rows.ItemDraft(value, ttl, source=self._writer.source, actor=self._writer.actor)
        if op.index is False:
            return draft
        fields = self._fields if op.index is None else check_fields("index", op.index)
        if fields is None:  # index the whole value
            return draft._replace(text=item_rows.stored_text(op.value, value))  # type: ignore[arg-type]
        texts = _select_texts(dict(op.value or {}), fields)
        return draft._replace(text="\n".join(texts), field_texts=texts)


def make_place(namespace: Any, key: Any, base: Namespace) -> item_rows.ItemPlace:
    """Return the place of an item.

    Args:
        namespace: The namespace of an operation.
        key: The key.
        base: The namespace that precedes the namespace.

    Raises:
        InvalidInput: The namespace or the key is invalid.
    """
    path = check_item_namespace(namespace)
    return item_rows.ItemPlace(path_of((*base, *namespace)) if base else path, item_rows.check_key(key))


def make_item(item: item_rows.StoredItem, base: Namespace) -> langgraph.Item:
    """Convert a stored item to LangGraph's form. Its namespace is relative to `base`.

    Raises:
        DatabaseUnreadable: The stored value is damaged.
    """
    return langgraph.Item(value=item_rows.decode_value(item.value, *item.place), **_item_fields(item, base))


def _item_fields(item: item_rows.StoredItem, base: Namespace) -> dict[str, Any]:
    created_at = from_micros(item.created_at)
    return {
        "key": item.place.key,
        "namespace": _cached_namespace(item.place.path)[len(base) :],
        "created_at": created_at,
        "updated_at": created_at if item.updated_at == item.created_at else from_micros(item.updated_at),
    }


def should_refresh(ttl: langgraph.TTLConfig, requested: bool | None) -> bool:  # noqa: FBT001 - LangGraph's option
    """Return whether a read postpones the expiry of its items."""
    return ttl.get("refresh_on_read", True) if requested is None else bool(requested)


def check_fields(name: str, fields: Any) -> Fields | None:
    """Check the paths of the fields to index.

    Args:
        name: The name of the argument, for the error.
        fields: The paths, or a single path.

    Returns:
        The paths. None for the whole value.

    Raises:
        InvalidInput: The paths are not a list of strings.
    """
    paths = (fields,) if isinstance(fields, str) else fields
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        raise InvalidInput(
            f"{name} must be a list of paths such as 'title' or 'parts[*].text', got {safe_repr(fields)}."
        )
    return None if tuple(paths) == (WHOLE_VALUE,) else tuple(paths)


def _select_texts(value: dict[str, Any], fields: Fields) -> tuple[str, ...]:
    """Return the texts of some fields of a value. Blank texts are omitted."""
    plain_value = json_value(value)
    texts: list[str] = []
    for path in fields:
        if path in {WHOLE_VALUE, ""}:
            texts.append(item_rows.full_text(plain_value))
        else:
            texts += langgraph.get_text_at_path(plain_value, langgraph.tokenize_path(path))
    return tuple(text for text in texts if text.strip())


def check_item_namespace(namespace: Any) -> str:
    """Check that a namespace can contain items, and return its path, as `path_of` does.

    Raises:
        InvalidNamespace: The namespace cannot contain items.
    """
    if type(namespace) is tuple and set(map(type, namespace)) <= {str}:
        return _cached_path(namespace)
    return _check_path(namespace)  # a list or invalid labels, which may not be hashable for the cache


def _check_path(namespace: Any) -> str:
    try:
        path = path_of(namespace)
        langgraph.validate_op_namespace(langgraph.GetOp(namespace, ""))
    except (InvalidInput, langgraph.InvalidNamespaceError) as error:
        raise InvalidNamespace(str(error)) from error
    return path


_cached_path = lru_cache(1024)(_check_path)
_cached_namespace = lru_cache(1024)(namespace_of)


def _parse_search(op: langgraph.SearchOp, base: Namespace, limits: MemoryLimits) -> ItemQuery:
    check_item_namespace(op.namespace_prefix)
    if op.query is not None and not isinstance(op.query, str):
        raise InvalidInput(f"query must be a string, not {type(op.query).__name__}.")
    limits.check("query_chars", len(op.query or ""), "The query")
    limit, offset = check_value(_COUNT, op.limit, "limit"), check_value(_COUNT, op.offset, "offset")
    low, high = path_range((*base, *op.namespace_prefix))
    return ItemQuery(low, high, check_filter(op.filter, limits), op.query or "", limit, offset)


def _parse_path_range(op: langgraph.ListNamespacesOp, base: Namespace) -> tuple[str, str]:
    """Check a listing of namespaces, and return the range of namespace paths to read."""
    check_value(_COUNT, op.limit, "limit")
    check_value(_COUNT, op.offset, "offset")
    check_value(PositiveInt | None, op.max_depth, "max_depth")
    low, high = path_range(base)
    if op.match_conditions is not None and not isinstance(op.match_conditions, Iterable):
        raise InvalidInput(f"match_conditions must be a tuple, got {safe_repr(op.match_conditions)}.")
    for condition in op.match_conditions or ():
        if not isinstance(condition, langgraph.MatchCondition) or condition.match_type not in ("prefix", "suffix"):
            raise InvalidInput(f"Unsupported match {safe_repr(condition)}: match_type must be 'prefix' or 'suffix'.")
        check_item_namespace(condition.path)
        if condition.match_type == "prefix":  # narrow the range to the labels before the first wildcard
            prefix_low, prefix_high = path_range((*base, *takewhile(lambda label: label != "*", condition.path)))
            low, high = max(low, prefix_low), min(high, prefix_high)
    return low, high


def _matches(namespace: Namespace, condition: langgraph.MatchCondition) -> bool:
    pattern, size = tuple(condition.path), len(condition.path)
    if len(namespace) < size:
        return False
    labels = namespace[:size] if condition.match_type == "prefix" else namespace[len(namespace) - size :]
    return all(wanted in {"*", label} for label, wanted in zip(labels, pattern, strict=True))
