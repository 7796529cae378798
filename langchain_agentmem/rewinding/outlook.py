"""Memory as a search finds it: its texts for the index, and the hits as the user gets them.

Within a standpoint a search finds what the standpoint shows. Elsewhere it finds what counts now: the end of a named
branch, and the view of a thread's newest checkpoint; in a run, of its own thread, what the task sees.

A layer's search is that of `memory.search`, limited to what the memory shows.
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
from langchain_agentmem.base.clock import moment, time_given
from langchain_agentmem.base.origins import Trust, trusted_given
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.message import column_role
from langchain_agentmem.rewinding import branches, memory_rows
from langchain_agentmem.rewinding.branches import BranchPosition, MemorySession, Standpoint, families
from langchain_agentmem.rewinding.memory_rows import MemoryVersion, MemoryView
from langchain_agentmem.rewinding.thread_memory import ThreadPosition, conversation_of_run, thread_point
from langchain_agentmem.search.analysis import question
from langchain_agentmem.search.memory_search import Recollection, Search, SearchFilter, SearchHit
from langchain_agentmem.search.ranking import Weights
from langchain_agentmem.search.timeline import Order
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import all_parts, thread_listener
from langchain_agentmem.storage.transaction import Row, Rows
from langchain_agentmem.threads.thread_lines import find


class CurrentTurn(NamedTuple):
    """The newest turn of the conversation of a run.

    Attributes:
        path: The path of the conversation's namespace.
        name: Its id.
        before: The start of the run, if its input may not be stored yet: messages shown there are of an earlier turn.
    """

    path: str
    name: str
    before: ThreadPosition | None = None


class SearchView(NamedTuple):
    """The position that a search looks from.

    Attributes:
        point: The standpoint whose memory counts as it is seen from there.
        alone: Whether only the memory of the point is searched.
        view: The view of the point, once it is known.
        scopes: The namespaces that share their memory.
        abandoned: Whether messages are found, too, that no newest checkpoint shows any more.
        conversations: Those that are asked for: what a copy of a thread was given, and what was said in a nested graph,
            is found in its own alone.
        turn: The conversation of a run, whose current turn the model is shown anyway.
        context: The ids of the messages that the model is shown, where they are known.
    """

    point: Standpoint | None = None
    alone: bool = False
    view: MemoryView | None = None
    scopes: namespaces.Scopes = namespaces.Scopes()
    abandoned: bool = False
    conversations: tuple[str, ...] = ()
    turn: CurrentTurn | None = None
    context: frozenset[str] | None = None

    def within(self, tx: Transaction, walls: SearchFilter, now: int) -> SearchFilter:
        """Limit a search filter to the thread, without what the model is shown anyway.

        A thread of no scope searches its own line alone.

        Args:
            tx: The transaction.
            walls: The search filter.
            now: The time, in microseconds since 1970.
        """
        if self.turn is not None and (walls.kinds is None or "message" in walls.kinds):
            walls = walls._replace(ignored=thread_listener().current_turn(tx, self, now))
        if self.alone or self.view is None or not isinstance(self.point, ThreadPosition):
            return walls
        if walls.conversations is not None:
            return walls
        if walls.low == "" and (path := home_of(tx, self.point)):
            walls = walls._replace(low=path, high=path + "\x1f")
        return walls._replace(conversations=families(tx, self.point, self.view))

    def looked(self, tx: Transaction, now: int) -> SearchView:
        """Return a copy with the point's view, which must be known before anything is read.

        A view holds the current places; what was read before may not have reached them yet.

        Args:
            tx: The transaction.
            now: The time, in microseconds since 1970.
        """
        return self if self.point is None else self._replace(view=self.point.view(tx, now))


EVERYWHERE = SearchView()


def said_from(tx: Transaction, outlook: SearchView, slots: Collection[int], now: int) -> Rows:
    """Return the given messages that a position shows, with the wording shown there.

    The messages are those that follow their threads.

    Args:
        tx: The transaction.
        outlook: The position.
        slots: The messages.
        now: The time, in microseconds since 1970.
    """
    view, name = outlook.view or MemoryView((), (), now), None if outlook.point is None else outlook.point.name
    whose = {"name": name, "anywhere": int(outlook.view is None), "keys": json.dumps(outlook.conversations)}
    return query.shown_said(tx, **view.parameters(), **whose, ids=json.dumps(sorted(slots))) if slots else ()


def row_texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the texts by which a search finds rows.

    Args:
        tx: The transaction.
        owners: The rows.
    """
    found = query.memory_texts(tx, ids=json.dumps(list(owners)))
    return {row["id"]: (memory_rows.words_of(bytes(row["body"]), memory_rows.extra_of(row)),) for row in found}


def sighted(
    tx: Transaction, hits: Sequence[SearchHit], now: int, outlook: SearchView | None
) -> tuple[dict[int, Row], list[tuple[MemoryView | None, set[int]]]]:
    """Return the rows that a search found, and which views show which of them.

    Args:
        tx: The transaction.
        hits: The hits of the search.
        now: The time, in microseconds since 1970.
        outlook: The position it looks from. Default: `EVERYWHERE`.

    Returns:
        The rows by their numbers; and views, each with the numbers of the rows that it shows. None in place of a view
        stands for the ends of named branches.
    """
    found = query.remembered(tx, ids=json.dumps([hit.owner for hit in hits]))
    there = {row["id"]: row for row in found}
    outlook = outlook or EVERYWHERE
    if outlook.point is not None and outlook.view is not None:
        return there, [(outlook.view, memory_rows.shown(tx, outlook.view, there))]
    sights: list[tuple[MemoryView | None, set[int]]] = []
    scopes = {row["scope_id"] for row in there.values() if outlook.scopes.shared(row["path"])} - {None}
    for scope in sorted(scopes):
        view = MemoryView((), (), now, scope=scope)
        sights.append((view, memory_rows.shown(tx, view, there)))
    ends = {
        number
        for number, row in there.items()
        if (row["branch_kind"], row["until"]) == (branches.KIND, memory_rows.FOREVER)
        and (row["expires_at"] is None or row["expires_at"] > now)
    }
    sights.append((None, ends))
    apart = {
        number: row
        for number, row in there.items()
        if row["kind"] not in memory_rows.SHARED or not outlook.scopes.shared(row["path"])
    }
    of_threads = {row["branch_id"] for row in apart.values() if row["branch_kind"] == "thread"}
    if of_threads:
        # What a subgraph remembered lies on its caller's branch too, as a copy.
        copies = query.branches_of_copies(tx, ids=json.dumps(list(apart)))
        of_threads.update(row["id"] for row in copies)
        for place in query.newest_places(tx, ids=json.dumps(sorted(of_threads))):
            view = branches.view_of(tx, place["branch_id"], place["position"], now)
            sights.append((view, memory_rows.shown(tx, view, apart)))
    return there, sights


def recollections_of(
    hits: Sequence[SearchHit], there: Mapping[int, Row], values: Mapping[int, tuple[str, Any]], kind: str | None = None
) -> dict[int, Recollection]:
    """Return hits as `Recollection` objects, by the numbers of their documents.

    Args:
        hits: The hits of a search.
        there: The rows, by their numbers.
        values: The texts of the visible rows, and their values for the user.
        kind: The user's name for their kind. Default: that of the index.
    """
    return {
        hit.document: Recollection(
            kind=kind or hit.kind,
            id=row["key"],
            text=values[hit.owner][0],
            score=hit.score,
            namespace=namespaces.namespace_of(row["path"]),
            conversation_id=row["name"],
            created_at=moment(row["created_at"]),
            value=values[hit.owner][1],
            why=hit.why,
            row=(hit.kind, hit.owner),
            thread_id=row["thread"],
            source=row["source"],
            actor=row["actor"],
        )
        for hit in hits
        if hit.owner in values and (row := there[hit.owner])
    }


SeenValues: TypeAlias = Callable[[MemoryView | None, list[MemoryVersion]], dict[int, tuple[str, Any]]]
"""Returns the text and the value of rows that a view shows, by their numbers; it is None for the ends of branches."""


def seen_recollections(
    tx: Transaction, hits: Sequence[SearchHit], now: int, outlook: SearchView | None, values_of: SeenValues
) -> dict[int, Recollection]:
    """Return the visible hits as `Recollection` objects, by the numbers of their documents.

    Args:
        tx: The transaction.
        hits: The hits of a search.
        now: The time, in microseconds since 1970.
        outlook: The position it looks from.
        values_of: Returns their texts, and their values for the user.
    """
    there, sights = sighted(tx, hits, now, outlook)
    values: dict[int, tuple[str, Any]] = {}
    for view, numbers in sights:
        values |= values_of(view, [memory_rows.version_of(there[number]) for number in sorted(numbers)])
    return recollections_of(hits, there, values)


def reach_of(
    database: Database, namespace: Sequence[str] | None, config: Mapping[str, Any] | None, *, everything: bool = False
) -> tuple[SearchFilter, SearchView]:
    """Return the filter of a search, and the position it looks from.

    A namespace that is named is searched with all below it. Otherwise a run reaches its own, and of that what its
    thread sees, where memory follows the thread; a run of no scope reaches its thread alone.

    Args:
        database: The database of the memory.
        namespace: Where to look. Default: where the run belongs, else the root.
        config: The run on whose behalf to look. Default: the one this is called in.
        everything: Whether to look wherever this memory leads.

    Raises:
        InvalidInput: The namespace is invalid or missing.
    """
    scopes = database.scopes
    given = config if config is not None else namespaces.running_config() if scopes.leads_here() else None
    outside = SearchView(scopes=scopes, turn=running_turn(database, given))
    if everything:
        if namespace is not None and namespaces.path_of(namespace):
            raise InvalidInput("Give a namespace or everything=True, not both.")
        return SearchFilter(*namespaces.range_of(scopes.within or ())), outside
    path = namespaces.path_of(scopes.resolve(namespace, config))
    alone = namespaces.configurable_of(given).get("thread_id") is None
    named = bool(namespace) or (alone and scopes.within is not None)
    walls = SearchFilter(*(namespaces.range_of(namespaces.namespace_of(path)) if named else (path, path + "\x1f")))
    if alone:
        return walls, outside
    try:
        thread = thread_point(database, given)
    except InvalidInput:
        if not namespace or config is not None:
            raise
        return walls, outside  # the run is another graph's, which names nobody here
    if thread.follows:
        return walls, outside._replace(point=thread) if not named or path == thread.path else outside
    return walls if named or scopes.shared(path) else walls._replace(conversations=(thread.name,)), outside


def running_turn(database: Database, given: Mapping[str, Any] | None) -> CurrentTurn | None:
    """Return the newest turn of the conversation of a run.

    None outside of runs, and where the run has no conversation.
    """
    try:
        thread = thread_point(database, given or {})
        name = conversation_of_run(database, given) if thread.writable else None
    except InvalidInput:  # it names no thread, or the run is another graph's, which names nobody here
        return None
    if name is None:
        return None
    base = None
    if thread.follows and name == thread.name:
        base = thread.runs.began_with(thread.configurable, thread.at)
    before = None if base is None else thread._replace(configurable={"checkpoint_id": base}, alone=True)
    return CurrentTurn(thread.path, name, before)


MORE = 4
"""The factor by which the limit grows when some of the hits are left out."""


def found(
    ground: MemorySession,
    kinds: Sequence[str],
    query: str,
    limit: int,
    wanted: Callable[[MemoryVersion], bool] = lambda _: True,
) -> list[tuple[MemoryVersion, Recollection]]:
    """Find things that a memory shows; the caller makes it the step of a trace.

    Args:
        ground: The memory.
        kinds: The kinds to find; no two of them share a key.
        query: Any text.
        limit: The greatest number of hits.
        wanted: Returns whether a version counts; the others do not take a place. Default: all count.

    Returns:
        The versions with their hits, the best first.
    """
    if not limit:
        return []
    walls = ground.read(None, lambda tx, view: walls_around(tx, ground.point, view, kinds))
    ground.database.limits.check("query_chars", len(query), "The query")
    search = Search(
        question(query, ground.now()), walls, limit, outlook=SearchView(ground.point, alone=True), name=None
    )
    while True:
        given = search.find(ground.database)
        same = [[each.id, *(key for _, key in each.also)] for each in given]
        there = ground.read(None, partial(_named, kinds=kinds, keys=[key for keys in same for key in keys]))
        hits = []
        for each, keys in zip(given, same, strict=True):  # of those that say the same, the first that is wanted
            if kept := next((there[key] for key in keys if key in there and wanted(there[key])), None):
                hits.append((kept, each))
        if len(hits) >= limit or len(given) < search.limit:
            return hits[:limit]
        search = search._replace(limit=search.limit * MORE)


def _named(tx: Transaction, view: MemoryView, kinds: Sequence[str], keys: Sequence[str]) -> dict[str, MemoryVersion]:
    return {key: kept for kind in kinds for key, kept in memory_rows.named(tx, view, kind, keys).items()}


def home_of(tx: Transaction, point: Standpoint) -> str:
    """Return the path of the namespace of a standpoint.

    A config may name by its id alone a thread that has another namespace.

    Args:
        tx: The transaction.
        point: The standpoint.

    Raises:
        InvalidInput: Several namespaces have a thread of this id.
    """
    thread = None if point.path or isinstance(point, BranchPosition) else find(tx, point.at)
    return point.path if thread is None else thread.path


def walls_around(tx: Transaction, point: Standpoint, view: MemoryView, kinds: Sequence[str]) -> SearchFilter:
    """Return the search filter for what is seen from a standpoint.

    Args:
        tx: The transaction.
        point: The standpoint.
        view: The view of the standpoint.
        kinds: The kinds to find.
    """
    path = home_of(tx, point)
    return SearchFilter(path, path + "\x1f", kinds=tuple(kinds), conversations=families(tx, point, view))


MOST_HITS = 10_000
_TEXT = InstanceOf[str]  # made once: pydantic takes each for another type; its own refuses surrogates


class SearchRequest(NamedTuple):
    """The request of a search, with the arguments of `AgentMemory.search` as given."""

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
    """Check a search request, and return the search to run.

    Args:
        database: The database of the memory.
        asked: The request.
        config: The run on whose behalf to look. Default: the one this is called in.
        weights: How much each signal counts. Default: as measured, with vectors or without.

    Raises:
        InvalidInput: An argument is wrong.
    """
    text, namespace, limit, kinds, conversation_id, roles, before, after, everything, abandoned, order, trust = asked
    check = database.limits.check
    check("query_chars", len(check_value(_TEXT, text, "query")), "The query")
    for name, values in (("kinds", kinds), ("roles", roles)):
        check("conditions", len(check_value(Sequence[str] | None, values, name) or ()), f"The list of {name}")
    check_value(Annotated[int, Ge(0), Le(MOST_HITS)], limit, "limit")
    if unknown := [kind for kind in kinds or () if kind not in all_parts().kinds]:
        raise InvalidInput(f"There is no kind {safe_repr(unknown[0])}; there are {', '.join(all_parts().kinds)}.")
    check_value(Order, order, "order")
    check_instance(Weights, weights, "weights")
    walls, outlook = reach_of(database, namespace, config, everything=check_value(bool, everything, "everything"))
    if conversation_id is not None:
        walls = walls._replace(conversations=(namespaces.id_of(conversation_id, "conversation"),))
        outlook = outlook._replace(conversations=walls.conversations or ())
    walls = walls._replace(
        kinds=all_parts().stored_as(kinds, named=conversation_id is not None),
        roles=None if roles is None else tuple(str(column_role(role)) for role in roles),
        before=None if before is None else time_given(before, "before"),
        after=None if after is None else time_given(after, "after"),
        trusted=trusted_given(trust),
    )
    outlook = outlook._replace(abandoned=check_value(bool, abandoned, "abandoned"))
    return Search(question(text, database.now()), walls, limit, weights, outlook, order=order)
