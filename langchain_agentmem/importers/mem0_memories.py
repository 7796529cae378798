"""mem0: what its `get_all` gives, kept as JSON, and the file "history.db" beside it.

A memory becomes a record of archival memory under its own id, in the namespace of its user. Its other ids and its
categories are tags, "agent:…", "run:…"; what else it has are details of the record. Relations of its graph become
facts. The history knows no users; of it come what each memory says last, what it said before, as details, and the
newest messages that it keeps of each session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any
from urllib.parse import unquote

from langchain_agentmem.base.clock import new_uuid
from langchain_agentmem.base.namespaces import id_of
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.facts.fact import name_of
from langchain_agentmem.facts.fact_store import FactChanges, FactStatement
from langchain_agentmem.importers import parcels
from langchain_agentmem.language_models.model_calls import Writer
from langchain_agentmem.layers.memory_layers import record
from langchain_agentmem.rewinding.branches import MAIN, BranchAt, Change, changed
from langchain_agentmem.rewinding.memory_rows import RowDraft
from langchain_agentmem.storage import Transaction
from langchain_agentmem.storage.foreign_tables import ForeignTables, foreign_tables

HISTORY, SAID = "history", "messages"
_HISTORY = frozenset({"memory_id", "new_memory", "event"})
_TAGS = {"agent_id": "agent", "run_id": "run", "app_id": "app"}
_KNOWN = frozenset({"id", "memory", "user_id", "categories", "created_at", "expiration_date", *_TAGS})


def read_mem0(source: Any, to: parcels.Destination, stack: ExitStack) -> Iterator[parcels.Thing]:
    """What mem0 remembers, see above.

    Args:
        source: A JSON file with what `get_all` gives, or "history.db".
        to: Where it goes.
        stack: Closes the source.

    Raises:
        InvalidInput: It is neither.
    """
    path = parcels.path_given(source)
    if parcels.is_sqlite(path):
        tables = stack.enter_context(foreign_tables(path))
        if not tables.columns.get(HISTORY, frozenset()) >= _HISTORY:
            raise InvalidInput(f"{tables.name} has no table of mem0's history.")
        return _of_history(tables, to)
    given = parcels.value_of_file(path, to.limits)
    lists = given if isinstance(given, Mapping) else {"results": given}
    found, relations = lists.get("results", lists.get("memories")), lists.get("relations") or ()
    if not isinstance(found, list) or not isinstance(relations, Sequence):
        raise InvalidInput(f"{safe_repr(str(path))} does not hold what mem0's get_all gives: a list of results.")
    return _of_export(found, relations, to)


def _of_export(found: Sequence[Any], relations: Sequence[Any], to: parcels.Destination) -> Iterator[parcels.Thing]:
    by_user: dict[str | None, list[Any]] = {}
    for each in found:
        user = each.get("user_id") if isinstance(each, Mapping) else None
        if not isinstance(user, str | None):
            yield parcels.LeftOut(f"the memory {safe_repr(each, 200)}", "its user is no text.", holds="memories")
        elif to.chosen.has(user):
            by_user.setdefault(user, []).append(each)
    for user, rows in by_user.items():
        labels = () if user is None else (user,)
        make = partial(_memory, to)
        yield from parcels.remembered(to, rows, make, lambda row: f"the memory {safe_repr(row, 200)}", *labels)
    for number, each in enumerate(relations, 1):
        if not to.chosen or (isinstance(each, Mapping) and to.chosen.has(each.get("user_id"))):
            yield parcels.parcel_of(f"the relation {number}", 1, partial(_relation, each, to), "facts")


def _memory(to: parcels.Destination, given: Mapping[str, Any]) -> RowDraft:
    text = parcels.clean(given["memory"], "A memory")
    tags = [f"{tag}:{given[name]}" for name, tag in _TAGS.items() if given.get(name)]
    tags += [str(each) for each in given.get("categories") or ()]
    details = {name: value for name, value in given.items() if name not in _KNOWN and value not in (None, {}, [])}
    key = id_of(parcels.Names().given(given.get("id"), text), "record")
    end = given.get("expiration_date")
    if end is not None and parcels.time_of(end, to.now) <= to.now:
        raise InvalidInput("it has expired.")
    made = parcels.time_of(given.get("created_at"), to.now)
    expires_at = None if end is None else parcels.time_of(end, to.now)
    more = {"mem0": parcels.json_plain(details)} if details else {}
    return record(key, text, tags, made, **more)._replace(expires_at=expires_at)


def _relation(given: Mapping[str, Any], to: parcels.Destination) -> parcels.Parcel:
    subject, predicate, object_ = (
        name_of(parcels.clean(value, "A name"), "A name")
        for value in (
            given["source"],
            given.get("relationship") or given["relation"],
            given.get("target") or given["destination"],
        )
    )
    user = given.get("user_id")
    at = BranchAt(to.path(*([] if user is None else [user])), MAIN, to.scopes)
    said = FactStatement("user", subject, predicate, object_)

    def tell(tx: Transaction, change: Change) -> list[str]:
        turn = FactChanges(tx, change, at.path, new_uuid).tell(said)
        return [turn.fact_id] if turn.operation == "added" else []

    def make(tx: Transaction, now: int) -> list[str]:
        return changed(tx, at, tell, now, Writer("import", to.kind))

    what = f"the fact {safe_repr(f'{subject} {predicate} {object_}')}"
    return parcels.written("facts", what, 1, at.path, make)


# -- history.db ----------------------------------------------------------------------------------------------------


def _of_history(tables: ForeignTables, to: parcels.Destination) -> Iterator[parcels.Thing]:
    def last(memory: tuple[Any, list[dict[str, Any]]]) -> RowDraft | None:
        return _last(*memory, to) if to.chosen.has(memory[0]) else None

    grouped = _grouped(tables, HISTORY, "memory_id")
    yield from parcels.remembered(to, grouped, last, lambda memory: f"the memory {safe_repr(memory[0])}")
    if SAID in tables.columns:
        for scope, rows in _grouped(tables, SAID, "session_scope"):
            if to.chosen.has(scope, _user_of(scope)):
                what = f"the session {safe_repr(scope)}"
                yield parcels.parcel_of(what, len(rows), partial(_session, scope, rows, to), "messages")


def _grouped(tables: ForeignTables, table: str, column: str) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    """The rows of a table by a column, those of one value as they came."""
    for value, group in groupby(tables.rows(table, column), itemgetter(column)):
        yield value, sorted(group, key=lambda row: str(row.get("created_at") or ""))


def _last(key: Any, rows: Sequence[Mapping[str, Any]], to: parcels.Destination) -> RowDraft:
    rows = sorted(rows, key=lambda row: str(row["updated_at"] or row["created_at"] or ""))
    last = rows[-1]
    if last["is_deleted"] or last["event"] == "DELETE":
        raise InvalidInput("it was deleted there.")
    times = [parcels.time_of(row["updated_at"] or row["created_at"], to.now) for row in rows]
    before: Any = [[at, redact(str(row["new_memory"]))] for at, row in zip(times, rows, strict=True)][:-1]
    text = parcels.clean(last["new_memory"], "A memory")
    made = parcels.time_of(rows[0]["created_at"], times[0])
    details: dict[str, Any] = {"before": before} if before else {}
    return record(id_of(key, "record"), text, (), made, **details)


def _session(scope: str, rows: Sequence[Mapping[str, Any]], to: parcels.Destination) -> parcels.Parcel:
    names, entries = parcels.Names(), []
    for row in rows:
        key = names.given(row["id"], row["content"])
        given = {"role": row["role"], "content": row["content"], "name": row["name"], "message_id": key}
        entries.append(parcels.said(given, parcels.time_of(row["created_at"], to.now)))
    return parcels.conversation(to, scope, entries, *filter(None, [_user_of(scope)]))


def _user_of(scope: Any) -> str:
    """The user that the scope of a session names; empty where it names none."""
    return unquote(dict(part.partition("=")[::2] for part in str(scope).split("&")).get("user_id", ""))
