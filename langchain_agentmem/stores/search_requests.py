"""What `memory.search` is asked for, checked. It is apart from the retriever, which takes long to load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_agentmem.base.argument_checks import check_flag
from langchain_agentmem.base.clock import time_given
from langchain_agentmem.base.namespaces import id_of
from langchain_agentmem.base.origins import Trust, trusted_given
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.message import column_role
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import all_parts

if TYPE_CHECKING:
    from langchain_agentmem.search.database_search import Search
    from langchain_agentmem.search.ranking import Weights
    from langchain_agentmem.search.timeline import Order

MOST_HITS = 10_000


class SearchRequest(NamedTuple):
    """What a search was asked for. The fields are arguments of `AgentMemory.search`, as they were given."""

    query: str
    namespace: Sequence[str] | None = None
    limit: int = 10
    kinds: Sequence[str] | None = None
    conversation_id: str | None = None
    roles: Sequence[str] | None = None
    before: datetime | None = None
    after: datetime | None = None
    everything: bool = False
    abandoned: bool = False
    order: Order = "score"
    trust: Trust | None = None


def sought(
    database: Database, asked: SearchRequest, config: Mapping[str, Any] | None, weights: Weights | None
) -> Search:
    """What to look for and where.

    Args:
        database: Where.
        asked: What was asked for.
        config: The run on whose behalf to look. Default: the one this is called in.
        weights: How much each signal counts. Default: as measured, with vectors or without.

    Raises:
        InvalidInput: An argument is wrong.
    """
    from langchain_agentmem.rewinding.outlook import reach_of  # noqa: PLC0415 - who searches pays
    from langchain_agentmem.search.database_search import Search  # noqa: PLC0415
    from langchain_agentmem.search.memory_search import inquiry  # noqa: PLC0415
    from langchain_agentmem.search.timeline import ORDERS  # noqa: PLC0415

    query, namespace, limit, kinds, conversation_id, roles, before, after, everything, abandoned, order, trust = asked
    if not isinstance(query, str):
        raise InvalidInput(f"A query is text, not {type(query).__name__}.")
    check = database.limits.check
    check("query_chars", len(query), "The query")
    for name, values in (("kinds", kinds), ("roles", roles)):
        check("conditions", len(values) if isinstance(values, Sized) else 0, f"The list of {name}")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= MOST_HITS:
        raise InvalidInput(f"limit must be a whole number from 0 to {MOST_HITS}, not {safe_repr(limit)}.")
    if unknown := [kind for kind in _texts_given("kinds", kinds) or () if kind not in all_parts().kinds]:
        raise InvalidInput(f"There is no kind {safe_repr(unknown[0])}; there are {', '.join(all_parts().kinds)}.")
    if not isinstance(order, str) or order not in ORDERS:
        raise InvalidInput(f'order must be "score" or "time", not {safe_repr(order)}.')
    walls, outlook = reach_of(database, namespace, config, everything=check_flag("everything", everything))
    if conversation_id is not None:
        walls = walls._replace(conversations=(id_of(conversation_id, "conversation"),))
        outlook = outlook._replace(conversations=walls.conversations or ())
    walls = walls._replace(
        kinds=all_parts().stored_as(_texts_given("kinds", kinds), named=conversation_id is not None),
        roles=None if roles is None else tuple(str(column_role(role)) for role in _texts_given("roles", roles) or ()),
        before=None if before is None else time_given(before, "before"),
        after=None if after is None else time_given(after, "after"),
        trusted=trusted_given(trust),
    )
    outlook = outlook._replace(abandoned=check_flag("abandoned", abandoned))
    return Search(inquiry(query, database.now()), walls, limit, checked_weights(weights), outlook, order=order)


def checked_weights(weights: Any) -> Weights | None:
    """Weights that a user gave; None for the usual ones.

    Raises:
        InvalidInput: They are something else.
    """
    if weights is None:
        return None
    from langchain_agentmem.search.ranking import Weights  # noqa: PLC0415 - who weighs pays

    if not isinstance(weights, Weights):
        raise InvalidInput(f"weights must be Weights, not {type(weights).__name__}.")
    return weights


def _texts_given(name: str, values: Sequence[str] | None) -> tuple[str, ...] | None:
    if values is None:
        return None
    found = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (None,)
    if not all(isinstance(value, str) for value in found):
        raise InvalidInput(f"{name} must be a list of strings, not {safe_repr(values)}.")
    return tuple(str(value) for value in found)
