"""The visibility rules of searches, and the conversion of visible hits to `Recollection` objects.

From a memory position, a search finds the memory that the position shows. Without a position it finds current memory:
the ends of named branches, and the views of the newest checkpoints of threads. In a run, it finds the memory that the
task sees of its own thread.

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
from langchain_agentmem.rewinding.branches import BranchPosition, MemoryPosition, MemorySession, visible_series
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
    """The newest turn of the conversation of a run.

    Attributes:
        path: The path of the conversation's namespace.
        name: Its id.
        run_start: The start of the run, if its input may not be stored yet. Messages visible there belong to an earlier
            turn.
    """

    path: str
    name: str
    run_start: ThreadPosition | None = None


class SearchView(NamedTuple):
    """The position and the visibility rules of a search.

    Attributes:
        point: The memory position whose memory is searched as seen from there; None for current memory.
        own_only: True to search only the memory of the position.
        view: The view of the position, once it is known.
        scopes: The namespaces that share their memory.
        abandoned: True to also find messages that no newest checkpoint shows.
        conversations: The requested conversations. Messages that a copied thread inherited, and messages of a nested
            graph, are found only as messages of their own conversation.
        turn: The current turn of a run's conversation. It is left out, since the model's context contains it.
        context_ids: The ids of the messages in the model's context, if they are known.
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
        """Limit a search filter to the thread, and leave out the current turn.

        A thread without a scope searches only its own lineage.

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
        if search_filter.low == "" and (path := home_path(tx, self.point)):
            search_filter = search_filter._replace(low=path, high=path + "\x1f")
        return search_filter._replace(conversations=visible_series(tx, self.point, self.view))

    def with_view(self, tx: Transaction, now: int) -> SearchView:
        """Return a copy with the view of the position.

        Load the view before any rows. Rows that were read before the view may lack places that the view contains.

        Args:
            tx: The transaction.
            now: The time, in microseconds since 1970.
        """
        return self if self.point is None else self._replace(view=self.point.view(tx, now))


EVERYWHERE = SearchView()


def visible_messages(tx: Transaction, search_view: SearchView, numbers: Collection[int], now: int) -> Rows:
    """Return the given messages that a position shows, with the wording visible there.

    Args:
        tx: The transaction.
        search_view: The position of the search.
        numbers: The numbers of the messages. All of them must belong to memory that follows its thread.
        now: The time, in microseconds since 1970.
    """
    view = search_view.view or MemoryView((), (), now)
    name = None if search_view.point is None else search_view.point.name
    where = {"name": name, "anywhere": int(search_view.view is None), "keys": json.dumps(search_view.conversations)}
    return query.visible_messages(tx, **view.parameters(), **where, ids=json.dumps(sorted(numbers))) if numbers else ()


def row_texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the texts by which a search finds rows, by the numbers of the rows."""
    rows = query.memory_texts(tx, ids=json.dumps(list(owners)))
    return {row["id"]: (memory_rows.search_words(bytes(row["body"]), memory_rows.extra_of(row)),) for row in rows}


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
        The rows by their numbers; and views, each with the numbers of the rows that it shows. The view None stands for
        the ends of all named branches.
    """
    loaded = query.memory_hits(tx, ids=json.dumps([hit.owner for hit in hits]))
    rows = {row["id"]: row for row in loaded}
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
    unshared = {
        number: row
        for number, row in rows.items()
        if row["kind"] not in memory_rows.SHARED_KINDS or not search_view.scopes.is_shared(row["path"])
    }
    thread_branches = {row["branch_id"] for row in unshared.values() if row["branch_kind"] == "thread"}
    if thread_branches:
        # Memory of a subgraph also lies on its caller's branch, as a copy.
        copies = query.branches_of_copies(tx, ids=json.dumps(list(unshared)))
        thread_branches.update(row["id"] for row in copies)
        for place in query.newest_positions(tx, ids=json.dumps(sorted(thread_branches))):
            view = branches.view_of(tx, place["branch_id"], place["position"], now)
            views.append((view, memory_rows.visible_numbers(tx, view, unshared)))
    return rows, views


def recollections_of(
    hits: Sequence[SearchHit], rows: Mapping[int, Row], values: Mapping[int, tuple[str, Any]], kind: str | None = None
) -> dict[int, Recollection]:
    """Return hits as `Recollection` objects, by the numbers of their documents.

    Args:
        hits: The hits of a search.
        rows: The rows, by their numbers.
        values: The texts of the visible rows, and their values for the user, by the numbers of the rows.
        kind: The public name of their kind. Default: the name in the index.
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
"""Returns the text and value of each given version, by number. The view is None for the ends of named branches."""


def visible_recollections(
    tx: Transaction, hits: Sequence[SearchHit], now: int, search_view: SearchView | None, values_of: VisibleValues
) -> dict[int, Recollection]:
    """Return the visible hits as `Recollection` objects, by the numbers of their documents.

    Args:
        tx: The transaction.
        hits: The hits of a search.
        now: The time, in microseconds since 1970.
        search_view: The position of the search.
        values_of: Returns their texts, and their values for the user.
    """
    rows, views = visible_rows(tx, hits, now, search_view)
    values: dict[int, tuple[str, Any]] = {}
    for view, numbers in views:
        values |= values_of(view, [memory_rows.version_of(rows[number]) for number in sorted(numbers)])
    return recollections_of(hits, rows, values)


def resolve_search(
    database: Database, namespace: Sequence[str] | None, config: Mapping[str, Any] | None, *, everything: bool = False
) -> tuple[SearchFilter, SearchView]:
    """Return the filter and the position of a search.

    A given namespace is searched with all namespaces below it. Otherwise a run searches its own namespace. If memory
    follows the thread, the run finds the memory that its thread shows. In a namespace that does not share memory, a run
    finds only its own thread.

    Args:
        database: The database of the memory.
        namespace: The namespace to search. Default: the namespace of the run, else the root.
        config: The config of the run. Default: the run in which this is called.
        everything: True to search every namespace of this memory.

    Raises:
        InvalidInput: The namespace is invalid or missing.
    """
    scopes = database.scopes
    run_config = config if config is not None else namespaces.running_config() if scopes.is_run_allowed() else None
    base_view = SearchView(scopes=scopes, turn=running_turn(database, run_config))
    if everything:
        if namespace is not None and namespaces.path_of(namespace):
            raise InvalidInput("Give a namespace or everything=True, not both.")
        return SearchFilter(*namespaces.path_range(scopes.boundary or ())), base_view
    path = namespaces.path_of(scopes.resolve(namespace, config))
    no_thread = namespaces.configurable_of(run_config).get("thread_id") is None
    is_named = bool(namespace) or (no_thread and scopes.boundary is not None)
    low, high = namespaces.path_range(namespaces.namespace_of(path)) if is_named else (path, path + "\x1f")
    search_filter = SearchFilter(low, high)
    if no_thread:
        return search_filter, base_view
    try:
        thread = thread_position(database, run_config)
    except InvalidInput:
        if not namespace or config is not None:
            raise
        return search_filter, base_view  # another graph's run
    if thread.follows_thread:
        return search_filter, base_view._replace(point=thread) if not is_named or path == thread.path else base_view
    conversations = None if is_named or scopes.is_shared(path) else (thread.name,)
    return search_filter._replace(conversations=conversations), base_view


def running_turn(database: Database, config: Mapping[str, Any] | None) -> CurrentTurn | None:
    """Return the newest turn of the conversation of a run; None if there is none."""
    try:
        thread = thread_position(database, config or {})
        name = conversation_of_run(database, config) if thread.writable else None
    except InvalidInput:  # no thread, or another graph's run
        return None
    if name is None:
        return None
    base = None
    if thread.follows_thread and name == thread.name:
        base = thread.runs.start_checkpoint(thread.configurable, thread.at)
    run_start = None if base is None else thread._replace(configurable={"checkpoint_id": base}, own_only=True)
    return CurrentTurn(thread.path, name, run_start)


LIMIT_GROWTH = 4
"""The factor by which the search limit grows when too few of the hits are wanted."""


def find_versions(
    session: MemorySession,
    kinds: Sequence[str],
    query: str,
    limit: int,
    wanted: Callable[[MemoryVersion], bool] = lambda _: True,
) -> list[tuple[MemoryVersion, Recollection]]:
    """Find entries in a memory, without a traced step of its own.

    Args:
        session: The session of the memory.
        kinds: The kinds to find. Keys must be unique across these kinds.
        query: The text to search for.
        limit: The maximum number of hits.
        wanted: Returns True if a version may be a hit. Default: all may.

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
        key_lists = [[each.id, *(key for _, key in each.also)] for each in recollections]
        load = partial(_load_named, kinds=kinds, keys=[key for keys in key_lists for key in keys])
        versions = session.read(None, load)
        hits = []
        for each, keys in zip(recollections, key_lists, strict=True):  # the first wanted entry of each text
            if version := next((versions[key] for key in keys if key in versions and wanted(versions[key])), None):
                hits.append((version, each))
        if len(hits) >= limit or len(recollections) < search.limit:
            return hits[:limit]
        search = search._replace(limit=search.limit * LIMIT_GROWTH)


def _load_named(tx: Transaction, view: MemoryView, kinds: Sequence[str], keys: list[str]) -> dict[str, MemoryVersion]:
    return {key: version for kind in kinds for key, version in memory_rows.load_named(tx, view, kind, keys).items()}


def home_path(tx: Transaction, point: MemoryPosition) -> str:
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
    path = home_path(tx, point)
    return SearchFilter(path, path + "\x1f", kinds=tuple(kinds), conversations=visible_series(tx, point, view))


MOST_HITS = 10_000
_TEXT = InstanceOf[str]  # one object, since pydantic caches by identity; its own `str` rejects surrogates


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
    check = database.limits.check
    check("query_chars", len(check_value(_TEXT, text, "query")), "The query")
    for name, values in (("kinds", kinds), ("roles", roles)):
        check("conditions", len(check_value(Sequence[str] | None, values, name) or ()), f"The list of {name}")
    check_value(Annotated[int, Ge(0), Le(MOST_HITS)], limit, "limit")
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
