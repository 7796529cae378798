"""`AgentMemory.revoke`: what was derived from a source is taken back, to any depth.

A version that rests on the source is taken out of the history of its branch, as if it had never been written: the
version before it lasts until where the next one begins. So forks, past checkpoints and threads that are rewound show
what they would have shown without it, and nothing brings it back. Of a fact the events go that rest on the source; it
stays as long as somebody else tells of it, and then what rests on it stays, too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.base.namespaces import Namespace, namespace_of, nested_range, path_of
from langchain_agentmem.base.origins import ITEM, MESSAGE, NOWHERE, SOURCES, THREAD, MemoryOrigin
from langchain_agentmem.conversations import message_log, prompt_notes
from langchain_agentmem.conversations.message_log import Address
from langchain_agentmem.facts import fact_store
from langchain_agentmem.facts.fact import sentence
from langchain_agentmem.layers import correction_part
from langchain_agentmem.messages import message as messages
from langchain_agentmem.rewinding import memory_rows, message_sources
from langchain_agentmem.rewinding.derivation import RESTING, THREAD_ITEM, origins_of_event
from langchain_agentmem.rewinding.memory_rows import (
    CORE,
    FACT,
    FORMER,
    RESTS,
    conversation_source,
    message_source,
    origins_in,
)
from langchain_agentmem.search import search_index
from langchain_agentmem.search.search_index import IndexedDocument
from langchain_agentmem.storage import Steps, queries, query
from langchain_agentmem.storage.steps import Row
from langchain_agentmem.stores import item_rows
from langchain_agentmem.stores.item_rows import ItemPlace
from langchain_agentmem.tracing import brief

WHOLE = (*RESTING, THREAD_ITEM)
"""The kinds of which a version goes as a whole."""
NAMES: Mapping[str, str] = {FORMER: FACT, THREAD_ITEM: ITEM}
"""What a user calls kinds that are stored under other names."""
_REVOCABLE = (*WHOLE, FACT, FORMER, "fact_rule", "fact_text", "fact_due", "fact_failure")
"""The kinds that are looked at: what was said belongs to conversations."""
_ROLES = {source: role for role, source in messages.SOURCES.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Revoked:
    """Something that was taken back.

    Attributes:
        kind: "message", "core", "event", "record", "fact", "item"; what was agreed on names and predicates is
            "fact_rule", and what waits to have facts extracted "fact_text", "fact_due" and "fact_failure".
        id: Its id; of core memory, its key.
        namespace: Whose it was.
        where: The branch or thread on which it was; of a message its conversation. None of an item of `memory.store`.
        text: What it said, its beginning.
        now: What it says instead: the last version that does not rest on the source. None where it is gone.
    """

    kind: str
    id: str
    namespace: Namespace
    where: str | None
    text: str
    now: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RevokeReport:
    """What a revocation took back.

    Attributes:
        taken: Each thing, on each branch and in each thread once, messages first.
        versions: How many versions were taken out of histories, copies included.
        corrections: How many corrections that people made of these went with them.
    """

    taken: tuple[Revoked, ...] = ()
    versions: int = 0
    corrections: int = 0


class Revocation(NamedTuple):
    """What is revoked.

    Attributes:
        low: The first path of the namespaces.
        high: The path behind the last.
        origin: It.
        messages: Whether the messages that it said go too.
    """

    low: str
    high: str
    origin: MemoryOrigin
    messages: bool = True


@dataclass(slots=True)
class _Taking:
    """A revocation that goes on: what is revoked by now, and what was taken."""

    source: Revocation
    now: int
    tail: int
    origins: set[MemoryOrigin]
    taken: dict[tuple[Any, ...], Revoked] = field(default_factory=dict)
    versions: int = 0
    corrections: int = 0

    def covers(self, others: Iterable[MemoryOrigin]) -> bool:
        """Whether any of some origins is revoked."""
        return any(not self.origins.isdisjoint(other.covered_by()) for other in others)


def revoke(source: Revocation, *, now: int, tail: int) -> Steps[RevokeReport]:
    """Take back what was derived from a source.

    Args:
        source: What is revoked, and where.
        now: When.
        tail: How many documents may wait for the index.
    """
    taking = _Taking(source, now, tail, {source.origin})
    removed = yield from _messages(taking)
    first = yield from _of_itself(source)
    new = sorted(taking.origins, key=str)
    while new:  # a fact that is gone takes with it what rests on it
        names = {f"rests {each}" for each in new}
        yield from _items(taking, names)
        new = yield from _rows(taking, new, names, first)
        first = []
        taking.origins.update(new)
    for at, key in removed:  # what rests on them is known by now
        yield from message_log.disown(at, key)
        yield from message_log.remove(at, [key])
    corrected = yield from correction_part.resting_on(source.low, source.high, taking.covers)
    yield query.delete_correction.many([{"id": number} for number in corrected])
    taking.corrections += len(corrected)
    gone = {(each.namespace, each.kind, each.id) for each in taking.taken.values()}
    for namespace, kind, key in sorted(gone):
        others = yield query.forget_corrections_of(path=path_of(namespace), kind=kind, key=key)
        taking.corrections += len(others)
    if any(kind == CORE for _, kind, _ in gone):  # prompts show core memory as they began with it
        yield query.erase_shown_core(low=source.low, high=source.high)
        yield from prompt_notes.erase_elsewhere(source.low, source.high, "")
    return RevokeReport(taken=tuple(taking.taken.values()), versions=taking.versions, corrections=taking.corrections)


def _messages(taking: _Taking) -> Steps[list[tuple[Address, str]]]:
    """Find the messages of the source, which are revoked with it. Gives those that are to be removed."""
    removed: list[tuple[Address, str]] = []
    source, origin = taking.source, taking.source.origin
    asked: dict[str, Any] = {"name": None, "key": None, "role": None, "sender": None}
    if origin.kind == MESSAGE:
        asked |= {"key": origin.name, "name": origin.thread}
    elif origin.kind == THREAD:
        asked["name"] = origin.name
    elif origin.kind in _ROLES:
        asked |= {"role": _ROLES[origin.kind], "sender": origin.name}
    else:
        return removed
    first, last = nested_range(asked["name"] or "")
    found = yield query.messages_of_source(low=source.low, high=source.high, first=first, last=last, **asked)
    for row in found:
        taking.origins.update(MemoryOrigin(MESSAGE, row["key"], thread) for thread in (row["name"], NOWHERE))
        if source.messages:
            text, at_path = messages.body_text(bytes(row["body"])), namespace_of(row["path"])
            _note(taking, Revoked(kind=MESSAGE, id=row["key"], namespace=at_path, where=row["name"], text=text))
            removed.append((Address(row["path"], row["name"]), row["key"]))
    return removed


def _of_itself(source: Revocation) -> Steps[list[int]]:
    """The versions that the source wrote, or that it is."""
    within = {"low": source.low, "high": source.high}
    origin = source.origin
    if origin.kind in SOURCES:
        rows = yield query.written_by_source(**within, source=origin.kind, actor=origin.name)
    elif origin.kind == THREAD:
        rows = yield query.rows_of_authors(**within, name=origin.name)
    elif origin.kind == MESSAGE:
        return []
    elif origin.kind == ITEM:
        head = as_json({"key": origin.name})[:-1] + ","
        rows = yield query.thread_items_of_key(**within, name=origin.name, head=head)
    else:
        rows = yield query.versions_of(**within, kind=origin.kind, keys=json.dumps([origin.name]))
    return [row["id"] for row in rows]


def _items(taking: _Taking, names: Iterable[str]) -> Steps[None]:
    """Take the items that rest on some origins, by the names of these, and those that are the source."""
    source, origin = taking.source, taking.source.origin
    within = {"low": source.low, "high": source.high}
    rows = yield query.items_resting(keys=json.dumps(sorted(names)), **within)
    mine = (yield query.items_of_keys(keys=json.dumps([origin.name]), **within)) if origin.kind == ITEM else ()
    itself, resting = ({ItemPlace(row["path"], row["key"]) for row in some} for some in (mine, rows))

    def goes(at: ItemPlace, extra: Mapping[str, Any]) -> bool:
        return at in itself or taking.covers(origins_in(extra))

    if places := itself | resting:
        for each in (yield from item_rows.take(places, goes, now=taking.now, tail=taking.tail)):
            taking.versions += each.versions
            path, key = each.at
            text, left = each.was, each.now
            _note(taking, Revoked(kind=ITEM, id=key, namespace=namespace_of(path), where=None, text=text, now=left))


def _rows(
    taking: _Taking, new: Sequence[MemoryOrigin], names: set[str], own: Sequence[int]
) -> Steps[list[MemoryOrigin]]:
    """Take what rests on some origins, by the names of these, and the versions that the source wrote itself.

    Returns:
        The facts that nobody tells of any more, as origins of what rests on them.
    """
    names = names | {message_source(each.name or "") for each in new if each.kind == MESSAGE}
    names |= {conversation_source(each.name or "") for each in new if each.kind == THREAD}
    ids = {row["id"] for row in (yield query.resting_anywhere(keys=json.dumps(sorted(names))))} | {*own}
    if not ids:
        return []
    within = {"low": taking.source.low, "high": taking.source.high}
    ask = {"ids": json.dumps(sorted(ids)), **within}
    branches = sorted({row["branch_id"] for row in (yield query.revocable(**ask)) if row["branch_id"] is not None})
    yield query.hold_branches(ids=json.dumps(branches))
    lost: list[Row] = []
    for row in (yield query.revocable(**ask)):
        if (left := _left(taking, row, itself=message_sources.number_of(row) in own)) is None:
            lost.append(row)
        elif left != memory_rows.extra_of(row):
            yield from _retell(taking, row, left)
    yield from _take(taking, lost)
    facts = sorted({row["key"] for row in lost if row["kind"] == FACT})
    if not facts:
        return []
    rows = yield query.versions_of(**within, kind=FACT, keys=json.dumps(facts))
    still = yield query.revocable(ids=json.dumps([row["id"] for row in rows]), **within)
    return [MemoryOrigin(FACT, key) for key in facts if key not in {row["key"] for row in still}]


def _left(taking: _Taking, row: Row, *, itself: bool) -> dict[str, Any] | None:
    """What is left of what belongs to a version; None where all of it rests on the source."""
    if row["kind"] not in _REVOCABLE:
        return dict(memory_rows.extra_of(row))  # what was said is a conversation's, which it is removed from
    try:
        extra = dict(memory_rows.extra_of(row))
        if row["kind"] in WHOLE or "told" not in extra:
            return None if itself or taking.covers(origins_in(extra)) else extra
        if itself and not any(RESTS in event for event in extra["told"]):
            return None
        if itself and taking.source.origin.kind not in SOURCES:
            return None
        return message_sources.without(extra, lambda event: taking.covers(origins_of_event(event)), corrections=True)
    except (AttributeError, KeyError, TypeError, ValueError):  # nobody can read it, and it is not to stay for that
        return None


def _take(taking: _Taking, lost: Sequence[Row]) -> Steps[None]:
    """Take versions out of the history of their branches. Those that came last on their branch come first."""
    alone = []
    gone = {row["id"] for row in lost}
    ends: dict[int, tuple[int, int]] = {}
    for row in lost:
        until, gone_at = ends.get(row["id"], (row["until"], row["gone"]))
        before = None
        if row["branch_id"] is not None:
            place = {"branch": row["branch_id"], "position": row["position"]}
            found = yield query.version_before(**place, kind=row["kind"], key=row["key"])
            before = found[0] if found else None
        if before is None:
            alone.append(row)
        else:
            counts = before["author_id"] == row["author_id"] or row["branch_kind"] == "layers"
            mark = max(gone_at, before["gone"]) if counts else before["gone"]
            ends[before["id"]] = until, mark
            yield query.extend_memory(id=before["id"], until=until, gone=mark)
        stays = before is not None and not before["deleted"] and before["id"] not in gone
        now = memory_rows.text_of(bytes(before["body"])) if before is not None and stays else None
        if row["kind"] == FORMER:
            continue
        _note(taking, _revoked(row, now))
    taking.versions += len(lost)
    hiding = yield from message_sources.hiding(alone)
    buried = [row for row in alone if message_sources.number_of(row) in hiding]
    held = {row["id"] for row in buried}
    yield from memory_rows.bury(buried)
    yield from memory_rows.discard([row for row in lost if row["id"] not in held])


def _retell(taking: _Taking, row: Row, left: Mapping[str, Any]) -> Steps[None]:
    """Have a fact, or what is told otherwise, be what is left of it."""
    extra = memory_rows.extra_of(row)
    yield query.retell(id=row["id"], extra=as_json(left))
    lost = memory_rows.sources_of(extra) - memory_rows.sources_of(left)
    yield query.delete_sources.many([{"memory": row["id"], "source": name} for name in sorted(lost)])
    taking.versions += 1
    if row["kind"] != FACT:
        return
    names = fact_store.names_of(left)
    body = memory_rows.body_of(sentence(*names))
    if body != bytes(row["body"]):
        draft = fact_store.looked_up_by(memory_rows.RowDraft(FACT, row["key"], body, 0), names)
        hashed = queries.digest(body)
        yield from queries.store({hashed: body})
        found = {"label": draft.label, "subject": draft.subject, "object": draft.object, "hash": hashed}
        yield query.restate_memory(id=row["id"], extra=as_json(left), **found)
        if row["document_id"] is not None:
            old = memory_rows.words_of(bytes(row["body"]), extra)
            [at] = yield query.document_time(id=row["document_id"])
            document = IndexedDocument(memory_rows.words_of(body, left), at["created_at"])
            yield from search_index.replace(row["document_id"], old, row["id"], document, tail=taking.tail)
        yield from queries.collect([bytes(row["hash"])])
    _note(taking, _revoked(row, memory_rows.text_of(body)))


def _revoked(row: Row, now: str | None) -> Revoked:
    """A version that is taken back, as a report shows it."""
    text = memory_rows.text_of(bytes(row["body"] or b""))
    if row["kind"] == THREAD_ITEM:
        text = memory_rows.words_of(b"", memory_rows.extra_of(row))
    return Revoked(
        kind=NAMES.get(row["kind"], row["kind"]),
        id=row["key"],
        namespace=namespace_of(row["path"]),
        where=row["branch"] if row["branch_kind"] == "layers" else row["thread"],
        text=text,
        now=now,
    )


def _note(taking: _Taking, taken: Revoked) -> None:
    """Note what was taken: of several versions of one thing the last says what it said, the first what is left."""
    key = taken.kind, taken.id, taken.namespace, taken.where
    known = taking.taken.get(key, taken)
    now = known.now if taken.now is None else taken.now
    taking.taken[key] = replace(known, text=brief(known.text), now=now if now is None else brief(now))


def added(reports: Sequence[RevokeReport]) -> RevokeReport:
    """What several databases took, as one report."""
    return RevokeReport(
        taken=tuple(each for report in reports for each in report.taken),
        versions=sum(report.versions for report in reports),
        corrections=sum(report.corrections for report in reports),
    )


def taken_shown(report: RevokeReport) -> dict[str, Any]:
    """What a trace shows of a revocation."""
    kinds = Counter(each.kind for each in report.taken)
    return {"versions": report.versions, "corrections": report.corrections, **kinds}
