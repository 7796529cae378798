"""What a trace shows of a batch of store operations: what was asked, and what came of it.

A call of a store is one step. It is named by what the batch holds, "get", "search" and so on, and "batch" where it
holds several kinds; searches alone show as a retriever, with what they found as documents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.store.base import GetOp, ListNamespacesOp, Op, SearchOp

from langchain_agentmem.base.namespaces import Namespace, namespace_of
from langchain_agentmem.stores.item_rows import Stored
from langchain_agentmem.stores.item_search import Found
from langchain_agentmem.stores.item_values import plain_view, whole_text
from langchain_agentmem.tracing import brief

SEARCH = "search"
MOST = 20
"""Operations, items and namespaces that are shown of many."""


def verb_of(op: Op) -> str:
    """What an operation does."""
    if isinstance(op, GetOp):
        return "get"
    if isinstance(op, SearchOp):
        return SEARCH
    if isinstance(op, ListNamespacesOp):
        return "list_namespaces"
    return "delete" if op.value is None else "put"


def inputs(ops: Sequence[Op]) -> dict[str, Any]:
    """What was asked."""
    if len(ops) == 1:
        return _asked(ops[0])
    told: dict[str, Any] = {"count": len(ops)}
    if ops and all(isinstance(op, SearchOp) for op in ops):
        told["query"] = "; ".join(op.query or "" for op in ops if isinstance(op, SearchOp))
    return {**told, "operations": [{"operation": verb_of(op), **_asked(op)} for op in ops[:MOST]]}


def outputs(ops: Sequence[Op], results: Mapping[int, Any]) -> dict[str, Any]:
    """What came of it.

    Args:
        ops: The operations.
        results: What was found, by the place of the operation that asked for it.
    """
    if ops and all(isinstance(op, SearchOp) for op in ops):
        return {"documents": [_document(each) for found in results.values() for each in found]}
    if len(ops) == 1:
        return _answer(ops[0], results.get(0))
    shown = [{"operation": verb_of(op), **_answer(op, results.get(number))} for number, op in enumerate(ops[:MOST])]
    return {"count": len(ops), "operations": shown}


def _asked(op: Op) -> dict[str, Any]:
    if isinstance(op, SearchOp):
        told = {"query": op.query or "", "namespace": list(op.namespace_prefix), "limit": op.limit}
        told |= {"filter": op.filter} if op.filter else {}
        return {**told, "offset": op.offset} if op.offset else told
    if isinstance(op, ListNamespacesOp):
        matches = {f"namespace_{each.match_type}": list(each.path) for each in op.match_conditions or ()}
        depth = {} if op.max_depth is None else {"max_depth": op.max_depth}
        return {**matches, **depth, "limit": op.limit, "offset": op.offset}
    told = {"namespace": list(op.namespace), "key": op.key}
    if isinstance(op, GetOp) or op.value is None:
        return told
    ttl = {"ttl": op.ttl} if isinstance(op.ttl, int | float) else {}
    return {**told, "value": brief(_json(op.value)), **ttl}


def _answer(op: Op, found: Any) -> dict[str, Any]:
    if isinstance(op, SearchOp):
        return {"count": len(found), "keys": [each.item.at.key for each in found[:MOST]]}
    if isinstance(op, ListNamespacesOp):
        named: Sequence[Namespace] = found
        return {"count": len(named), "namespaces": [list(each) for each in named[:MOST]]}
    if isinstance(op, GetOp):
        item: Stored | None = found
        return {"found": False} if item is None else {"found": True, "value": brief(item.value.decode())}
    return {"deleted": True} if op.value is None else {"stored": True}


def _document(found: Found) -> dict[str, Any]:
    item, score = found.item, found.score
    return {
        "id": item.at.key,
        "page_content": brief(whole_text(found.value)),
        "metadata": {
            "id": item.at.key,
            "kind": "item",
            "namespace": list(namespace_of(item.at.path)),
            "score": None if score is None else round(score, 4),
        },
    }


def _json(value: Any) -> str:
    return json.dumps(plain_view(value), ensure_ascii=False)
