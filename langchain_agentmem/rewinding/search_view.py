"""The visibility rules of searches, and the conversion of visible hits to `Recollection` objects.

A search at a memory position finds the memory that the position shows. A search without a position finds current
memory: the memory at the ends of named branches and at the newest checkpoints of threads. In a run, the position is the
running task.

The search method of a layer uses the same search as `memory.search`, limited to one memory position.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeAlias

from annotated_types import Ge, Le
from pydantic import InstanceOf

from langchain_agentmem.base import namespaces
from langchain_agentmem.base.argument_checks import check_instance, check_value
from langchain_agentmem.base.clock import check_time, from_micros
from langchain_agentmem.base.origins import Trust, parse_trust
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.message import column_role
from langchain_agentmem.rewinding import branches, memory_rows
from langchain_agentmem.rewinding.branches import BranchPosition, MemoryPosition, MemorySession, list_visible_series
from langchain_agentmem.rewinding.memory_rows import MemoryVersion, MemoryView
from langchain_agentmem.rewinding.thread_memory import ThreadPosition, conversation_of_run, thread_position
from langchain_agentmem.search.analysis import analyze_query
from langchain_agentmem.search.memory_search import Recollection, Search, SearchFilter, SearchHit
from langchain_agentmem.search.ranking import Weights
from langchain_agentmem.search.timeline import Order
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import all_parts, thread_recorder
from langchain_agentmem.storage.transaction import Row, Rows
from langchain_agentmem.threads.thread_rows import find_thread


class CurrentTurn(NamedTuple):
    """The newest turn of a run's conversation: a user message and the answers to it.

    Attributes:
        path: The path of the conversation's namespace.
        name: The id of the conversation.
        run_start: The checkpoint that the run began with, if the input of the run may not be stored yet. Messages that
            are visible there belong to an earlier turn.
    """

    path: str
    name: str
    run_start: ThreadPosition | None = None


class SearchView(NamedTuple):
    """The position and the visibility rules of a search.

    Attributes:
        point: The memory position; None to search current memory.
        own_only: True to search only the memory of the position.
        view: The view of the position; None before `with_view`.
        scopes: The rules that determine which namespaces share memory.
        abandoned: True to also find messages that only older checkpoints show.
        conversations: The ids of the requested conversations; empty for all. A message that a copied thread inherited,
            or that is in a nested graph, is found only in its original conversation.
        turn: The current turn of a run's conversation. A search omits its messages, which are in the model's context.
        context_ids: The ids of the messages in the model's context, if known.
    """

    point: MemoryPosition | None = None
    own_only: bool = False
    view: MemoryView | None = None
    scopes: namespaces.Scopes = namespaces.Scopes()
    abandoned: bool = False
    conversations: tuple[str, ...] = ()
    turn: CurrentTurn | None = None
    context_ids: frozenset[str] | None = None

    def narrow_filter(self, tx: Transaction, search_filter: SearchFilter, now: int) -> SearchFilter:
        """Limit a search filter to the memory of the thread, and leave out the current turn.

        A thread that does not share memory searches only its own lineage.

        Args:
            tx: The transaction.
            search_filter: The search filter.
            now: The time, in microseconds since 1970.
        """
        if self.turn is not None and (search_filter.kinds is None or "message" in search_filter.kinds):
            search_filter = search_filter._replace(ignored=thread_recorder().current_turn(tx, self, now))
        if self.own_only or self.view is None or not isinstance(self.point, ThreadPosition):
            return search_filter
        if search_filter.conversations is not None:
            return search_filter
        if search_filter.low == "" and (path := find_home_path(tx, self.point)):
            search_filter = search_filter._replace(low=path, high=path + "\x1f")  # without namespaces below
        return search_filter._replace(conversations=list_visible_series(tx, self.point, self.view))

    def with_view(self, tx: Transaction, now: int) -> SearchView:
        """Return a copy with the view of the position.

        Call this before rows are read: a group that is sealed in between would be missing in rows that were read first.

        Args:
            tx: The transaction.
            now: The time, in microseconds since 1970.
        """
        return self if self.point is None else self._replace(view=self.point.view(tx, now))


EVERYWHERE = SearchView()
"""The search view of a search of all current memory."""


def visible_messages(tx: Transaction, search_view: SearchView, slots: Collection[int], now: int) -> Rows:
    """Return the given messages that a position shows, in the versions shown there.

    Args:
        tx: The transaction.
        search_view: The position of the search.
        slots: The slots of the messages, the row ids of their first versions. Each message must rewind with its thread.
        now: The time, in microseconds since 1970.
    """
    view = search_view.view or MemoryView((), (), now)
    name = None if search_view.point is None else search_view.point.name
    filters = {"name": name, "anywhere": int(search_view.view is None), "keys": json.dumps(search_view.conversations)}
    return query.visible_messages(tx, **view.parameters(), **filters, ids=json.dumps(sorted(slots))) if slots else ()


def row_texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the texts by which a search finds rows, by the numbers of the rows."""
    rows = query.memory_texts(tx, ids=json.dumps(list(owners)))
    return {row["id"]: (memory_rows.search_words(bytes(row["body"]), memory_rows.read_extra(row)),) for row in rows}


def visible_rows(
    tx: Transaction, hits: Sequence[SearchHit], now: int, search_view: SearchView | None
) -> tuple[dict[int, Row], list[tuple[MemoryView | None, set[int]]]]:
    """Return the rows that a search found, and the views that show them.

    Args:
        tx: The transaction.
        hits: The hits of the search.
        now: The time, in microseconds since 1970.
        search_view: The position of the search. Default: `EVERYWHERE`.

    Returns:
        The rows by their numbers; and views, each with the numbers of the rows that it shows. None stands for the view
        at the ends of all named branches.
    """
    rows = {row["id"]: row for row in query.memory_hits(tx, ids=json.dumps([hit.owner for hit in hits]))}
    search_view = search_view or EVERYWHERE
    if search_view.point is not None and search_view.view is not None:
        return rows, [(search_view.view, memory_rows.visible_numbers(tx, search_view.view, rows))]
    views: list[tuple[MemoryView | None, set[int]]] = []
    scopes = {row["scope_id"] for row in rows.values() if search_view.scopes.is_shared(row["path"])} - {None}
    for scope in sorted(scopes):
        view = MemoryView((), (), now, scope=scope)
        views.append((view, memory_rows.visible_numbers(tx, view, rows)))
    branch_ends = {
        number
        for number, row in rows.items()
        if (row["branch_kind"], row["until"]) == (branches.NAMED_BRANCH, memory_rows.FOREVER)
        and (row["expires_at"] is None or row["expires_at"] > now)
    }
    views.append((None, branch_ends))
    unshared_rows = {
        number: row
        for number, row in rows.items()
        if row["kind"] not in memory_rows.SHARED_KINDS or not search_view.scopes.is_shared(row["path"])
    }
    thread_branches = {row["branch_id"] for row in unshared_rows.values() if row["branch_kind"] == "thread"}
    if thread_branches:
        # Rows of a subgraph's branch also have a copy on the branch of the graph that called it.
        copies = query.branches_of_copies(tx, ids=json.dumps(list(unshared_rows)))
        thread_branches.update(row["id"] for row in copies)
        for head in query.newest_positions(tx, ids=json.dumps(sorted(thread_branches))):
            view = branches.load_view(tx, head["branch_id"], head["position"], now)
            views.append((view, memory_rows.visible_numbers(tx, view, unshared_rows)))
    return rows, views


def make_recollections(
    hits: Sequence[SearchHit], rows: Mapping[int, Row], values: Mapping[int, tuple[str, Any]], kind: str | None = None
) -> dict[int, Recollection]:
    """Return hits as `Recollection` objects, by the numbers of their documents.

    Args:
        hits: The hits of a search.
        rows: The rows, by their numbers.
        values: The text of each visible row, and the object that the user receives, by the number of the row.
        kind: The public name of the rows' kind. Default: the name in the search index.
    """
    return {
        hit.document: Recollection(
            kind=kind or hit.kind,
            id=row["key"],
            text=values[hit.owner][0],
            score=hit.score,
            namespace=namespaces.namespace_of(row["path"]),
            conversation_id=row["name"],
            created_at=from_micros(row["created_at"]),
            value=values[hit.owner][1],
            why=hit.why,
            row=(hit.kind, hit.owner),
            thread_id=row["thread"],
            source=row["source"],
            actor=row["actor"],
        )
        for hit in hits
        if hit.owner in values and (row := rows[hit.owner])
    }


VisibleValues: TypeAlias = Callable[[MemoryView | None, list[MemoryVersion]], dict[int, tuple[str, Any]]]
"""A function that returns the text and the user's object of each version, by number, for a view of `visible_rows`."""


def visible_recollections(
    tx: Transaction, hits: Sequence[SearchHit], now: int, search_view: SearchView | None, load_values: VisibleValues
) -> dict[int, Recollection]:
    """Return the visible hits as `Recollection` objects, by the numbers of their documents.

    Args:
        tx: The transaction.
        hits: The hits of a search.
        now: The time, in microseconds since 1970.
        search_view: The position of the search.
        load_values: Returns the texts of the visible versions, and the objects that the user receives.
    """
    rows, views = visible_rows(tx, hits, now, search_view)
    values: dict[int, tuple[str, Any]] = {}
    for view, numbers in views:
        values |= load_values(view, [memory_rows.read_version(rows[number]) for number in sorted(numbers)])
    return make_recollections(hits, rows, values)


def resolve_search(
    database: Database, namespace: Sequence[str] | None, config: Mapping[str, Any] | None, *, everything: bool = False
) -> tuple[SearchFilter, SearchView]:
    """Return the filter and the position of a search.

    A given namespace is searched with all namespaces below it. Otherwise a run searches its own namespace. If the graph
    uses this memory's checkpointer, the run finds the memory that its task sees. With another checkpointer, a run finds
    only the conversation of its thread, unless the namespace shares memory.

    Args:
        database: The database of the memory.
        namespace: The namespace to search. Default: the namespace of the run, else the root.
        config: The config of the run. Default: the run in which this function is called.
        everything: True to search every namespace of this memory.

    Raises:
        InvalidInput: The namespace is invalid or missing.
    """
    scopes = database.scopes
    run_config = config if config is not None else namespaces.running_config() if scopes.is_run_allowed() else None
    search_view = SearchView(scopes=scopes, turn=running_turn(database, run_config))
    if everything:
        if namespace is not None and namespaces.path_of(namespace):
            raise InvalidInput("Give a namespace or everything=True, not both.")
        return SearchFilter(*namespaces.path_range(scopes.boundary or ())), search_view
    path = namespaces.path_of(scopes.resolve(namespace, config))
    no_thread = namespaces.configurable_of(run_config).get("thread_id") is None
    subtree = bool(namespace) or (no_thread and scopes.boundary is not None)
    low, high = namespaces.path_range(namespaces.namespace_of(path)) if subtree else (path, path + "\x1f")
    search_filter = SearchFilter(low, high)
    if no_thread:
        return search_filter, search_view
    try:
        thread = thread_position(database, run_config)
    except InvalidInput:
        if not namespace or config is not None:
            raise
        return search_filter, search_view  # the graph of the run does not use this memory
    if thread.follows_thread:
        return search_filter, search_view._replace(point=thread) if not subtree or path == thread.path else search_view
    conversations = None if subtree or scopes.is_shared(path) else (thread.name,)
    return search_filter._replace(conversations=conversations), search_view


def running_turn(database: Database, config: Mapping[str, Any] | None) -> CurrentTurn | None:
    """Return the newest turn of a run's conversation; None if the run has no conversation."""
    try:
        thread = thread_position(database, config or {})
        name = conversation_of_run(database, config) if thread.writable else None
    except InvalidInput:  # the config names no thread, or the graph of the run does not use this memory
        return None
    if name is None:
        return None
    is_own = thread.follows_thread and name == thread.name  # not the conversation of a nested graph
    start_id = thread.runs.find_start_checkpoint(thread.configurable, thread.at) if is_own else None
    run_start = None if start_id is None else thread._replace(configurable={"checkpoint_id": start_id}, own_only=True)
    return CurrentTurn(thread.path, name, run_start)


LIMIT_GROWTH = 4
"""The factor by which the search limit grows when too few hits pass the condition."""


def find_versions(
    session: MemorySession,
    kinds: Sequence[str],
    query: str,
    limit: int,
    is_wanted: Callable[[MemoryVersion], bool] = lambda _: True,
) -> list[tuple[MemoryVersion, Recollection]]:
    """Find entries in a memory, without a traced step of its own.

    Args:
        session: The session of the memory.
        kinds: The kinds to find. Keys must be unique across these kinds.
        query: The text to search for.
        limit: The maximum number of hits.
        is_wanted: The condition: returns True if a version may be a hit. Default: any version may be one.

    Returns:
        The versions with their hits, the best first.
    """
    if not limit:
        return []
    search_filter = session.read(None, lambda tx, view: position_filter(tx, session.point, view, kinds))
    session.database.limits.check("query_chars", len(query), "The query")
    search_view, analyzed = SearchView(session.point, own_only=True), analyze_query(query, session.now())
    search = Search(analyzed, search_filter, limit, search_view=search_view, name=None)
    while True:
        recollections = search.find(session.database)
        # Each recollection has the id of its entry, and the ids of other entries with an equal text.
        key_lists = [[hit.id, *(key for _, key in hit.also)] for hit in recollections]
        load = partial(_load_named, kinds=kinds, keys=[key for keys in key_lists for key in keys])
        versions = session.read(None, load)
        hits = []
        for hit, keys in zip(recollections, key_lists, strict=True):  # the first wanted entry of each text
            if version := next((versions[key] for key in keys if key in versions and is_wanted(versions[key])), None):
                hits.append((version, hit))
        if len(hits) >= limit or len(recollections) < search.limit:
            return hits[:limit]
        search = search._replace(limit=search.limit * LIMIT_GROWTH)


def _load_named(tx: Transaction, view: MemoryView, kinds: Sequence[str], keys: list[str]) -> dict[str, MemoryVersion]:
    """Return the entries of several kinds that a view shows under some keys."""
    return {key: version for kind in kinds for key, version in memory_rows.load_named(tx, view, kind, keys).items()}


def find_home_path(tx: Transaction, point: MemoryPosition) -> str:
    """Return the path of the namespace of a memory position.

    A config that names only a thread's id may refer to a thread in another namespace.

    Args:
        tx: The transaction.
        point: The memory position.

    Raises:
        InvalidInput: Several namespaces have a thread of this id.
    """
    thread = None if point.path or isinstance(point, BranchPosition) else find_thread(tx, point.at)
    return point.path if thread is None else thread.path


def position_filter(tx: Transaction, point: MemoryPosition, view: MemoryView, kinds: Sequence[str]) -> SearchFilter:
    """Return the search filter for the memory that a position shows.

    Args:
        tx: The transaction.
        point: The memory position.
        view: The view of the position.
        kinds: The kinds to find.
    """
    path = find_home_path(tx, point)
    return SearchFilter(path, path + "\x1f", kinds=tuple(kinds), conversations=list_visible_series(tx, point, view))


MAX_HITS = 10_000
"""The largest limit of a search."""
_TEXT, _NAMES, _LIMIT = InstanceOf[str], Sequence[str] | None, Annotated[int, Ge(0), Le(MAX_HITS)]
"""The types of arguments. Unlike `str`, `_TEXT` allows surrogates. Making a type in each call would take 5 µs."""


class SearchRequest(NamedTuple):
    """The unchecked arguments of a call of `AgentMemory.search`."""

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


def build_search(
    database: Database, request: SearchRequest, config: Mapping[str, Any] | None, weights: Weights | None
) -> Search:
    """Check a search request, and return the search to run.

    Args:
        database: The database of the memory.
        request: The request.
        config: The config of the run. Default: the run in which this is called.
        weights: The weights of the signals. Default: the measured weights, with vectors or without.

    Raises:
        InvalidInput: An argument is wrong.
    """
    text, namespace, limit, kinds, conversation_id, roles, before, after, everything, abandoned, order, trust = request
    check_limit = database.limits.check
    check_limit("query_chars", len(check_value(_TEXT, text, "query")), "The query")
    for name, values in (("kinds", kinds), ("roles", roles)):
        check_limit("conditions", len(check_value(_NAMES, values, name) or ()), f"The list of {name}")
    check_value(_LIMIT, limit, "limit")
    if unknown := [kind for kind in kinds or () if kind not in all_parts().kinds]:
        raise InvalidInput(f"Unknown kind {safe_repr(unknown[0])}. Valid kinds: {', '.join(all_parts().kinds)}.")
    check_value(Order, order, "order")
    check_instance(Weights, weights, "weights")
    check_value(bool, everything, "everything")
    search_filter, search_view = resolve_search(database, namespace, config, everything=everything)
    if conversation_id is not None:
        search_filter = search_filter._replace(conversations=(namespaces.check_id(conversation_id, "conversation"),))
        search_view = search_view._replace(conversations=search_filter.conversations or ())
    search_filter = search_filter._replace(
        kinds=all_parts().index_names(kinds, has_conversation=conversation_id is not None),
        roles=None if roles is None else tuple(str(column_role(role)) for role in roles),
        before=None if before is None else check_time(before, "before"),
        after=None if after is None else check_time(after, "after"),
        trusted=parse_trust(trust),
    )
    search_view = search_view._replace(abandoned=check_value(bool, abandoned, "abandoned"))
    return Search(analyze_query(text, database.now()), search_filter, limit, weights, search_view, order=order)
