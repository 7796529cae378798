"""The audit trail as a part of the database: searched, verified and erased.

To verify, the chain is read in pages, so that of a million entries few are held at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from langchain_agentmem.audit import audit_rows, audit_store
from langchain_agentmem.audit.audit_entry import START, STATUSES, TODO, ChainReport, Head
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.search.memory_search import Hit, Recollection
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.part import Erasure, Found, Part
from langchain_agentmem.storage.transaction import Row


def texts(tx: Transaction, owners: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """The texts by which entries are found, by their numbers.

    Args:
        tx: The transaction.
        owners: Their numbers in the chain.
    """
    found = query.audit_rows(tx, sequences=json.dumps(list(owners)))
    said = audit_rows.texts(tx, found)
    return {number: (text,) for number, text in said.items()}


def recollections(tx: Transaction, hits: Sequence[Hit], now: int, outlook: object) -> Mapping[int, Recollection]:
    """What hits are to the user, by the numbers of their documents.

    Args:
        tx: The transaction.
        hits: Entries that a search found. What was hidden or erased meanwhile is left out.
        now: When. Entries do not expire.
        outlook: From where it looks. They are seen from everywhere.
    """
    del now, outlook
    found = query.audit_rows(tx, sequences=json.dumps([hit.owner for hit in hits]))
    shown = [row for row in found if row["hidden"] == audit_rows.SHOWN]
    read = audit_rows.entries(tx, shown)
    there = {row["sequence"]: entry for row, entry in zip(shown, read, strict=True)}
    return {
        hit.document: Recollection(
            kind="audit",
            id=entry.id,
            text=entry.text,
            score=hit.score,
            namespace=entry.namespace,
            conversation_id=entry.conversation_id,
            created_at=entry.created_at,
            value=entry,
            why=hit.why,
            row=(hit.kind, hit.owner),
        )
        for hit in hits
        if (entry := there.get(hit.owner)) is not None
    }


PAGE = 100
MESSAGES = 200
MOST_PROBLEMS = 100
"""Problems that a check names; of more it says how many there were."""
_ALWAYS = ("sequence", "link", "digest", "path")
"""What a place has whose entry was erased; the path comes from its namespace."""


def verify(tx: Transaction, since: Head | None = None) -> ChainReport:
    """Walk along the whole chain, and see that every entry is what was stored, and where.

    Args:
        tx: The transaction.
        since: A head that was kept elsewhere. With it, it is proved that nothing up to there was changed, even by
            somebody who computed the chain anew, but for what was erased.
    """
    noted = query.audit_head(tx)
    head = Head(int(noted[0]["sequence"]), bytes(noted[0]["link"])) if noted else None
    since = since or START
    link_then = START.link if since == START else None
    found: list[str] = []
    at, entries, erased, shelves = START, 0, 0, set[int]()
    while rows := query.audit_chain(tx, after=at.sequence, limit=PAGE):
        if rows[-1]["sequence"] <= at.sequence:  # an index that is damaged leads back
            found.append(f"the audit trail cannot be followed beyond its number {at.sequence}")
            break
        digests = _digests(tx, rows)
        for row in rows:
            found += _wrong_with(row, at, digests.get(row["shelf_id"], {}))
            at = Head(row["sequence"], bytes(row["link"]))
            link_then = at.link if at.sequence == since.sequence else link_then
            erased += row["kind"] is None
        entries += len(rows)
        shelves.update(row["shelf_id"] for row in rows if row["shelf_id"] is not None)
    for shelf in sorted(shelves):
        found += _wrong_messages(tx, shelf)
    found += _wrong_with_end(head, at)
    if link_then is None and since.sequence > at.sequence:
        found.append(f"the chain does not reach to number {since.sequence}, where the head was taken")
    elif link_then is None:
        found.append(f"number {since.sequence}, where the head was taken, is missing")
    elif link_then != since.link:
        held = f"what the chain holds up to number {since.sequence}"
        found.append(f"{held} is not what it was when the head was taken")
    if (more := len(found) - MOST_PROBLEMS) > 0:
        found[MOST_PROBLEMS:] = [f"there are {more} more problems"]
    return ChainReport(entries=entries, erased=erased, problems=tuple(found), head=head or at)


def problems(tx: Transaction) -> list[str]:
    """What is wrong with the audit trail, in sentences."""
    report = verify(tx)
    found = list(report.problems)
    unfound = query.audit_wrong_documents(tx)
    found += [
        f"number {row['sequence']} of the audit trail is "
        + ("not in the search index" if row["hidden"] == audit_rows.SHOWN else "hidden, but in the search index")
        for row in unfound
    ]
    return found


def _wrong_with(row: Row, before: Head, messages: Mapping[int, bytes]) -> Iterator[str]:
    """Find out what is wrong with a place of the chain, given the place before it."""
    called = f"number {row['sequence']} of the audit trail"
    if row["kind"] is not None and row["key"] is not None:
        called = f"the entry {safe_repr(row['key'])} (number {row['sequence']})"
    digest = bytes(row["digest"])
    if row["sequence"] != before.sequence + 1:
        yield _missing(before.sequence + 1, row["sequence"] - 1)
    elif queries.next_link(before.link, digest) != bytes(row["link"]):
        yield f"{called} does not follow from what stands before it in the chain"
    if row["kind"] is None:
        if left := [name for name in row.keys() if name not in _ALWAYS and row[name] is not None]:  # noqa: SIM118
            yield f"{called} was erased, but still has {', '.join(left)}"
        return
    try:
        is_whole = audit_rows.digest_of(row, messages) == digest
    except (KeyError, TypeError, ValueError):
        is_whole = False
    if not is_whole:
        yield f"{called} is not what was stored"
    elif amiss := _amiss(row):
        yield f"{called} is marked as no entry can be: {', '.join(amiss)}"


def _wrong_with_end(head: Head | None, last: Head) -> Iterator[str]:
    """Find out what is wrong with what is noted of the end of the chain."""
    if head is None:
        yield "nothing is noted of where the chain of the audit trail ends"
    elif head.sequence > last.sequence:
        yield f"{_missing(last.sequence + 1, head.sequence)}: the end of the chain was cut off"
    elif head.sequence < last.sequence:
        yield f"the chain ends with number {head.sequence}, but there are entries up to {last.sequence}"
    elif head.link != last.link:
        yield "what is noted of the end of the chain does not fit its last entry"


def _missing(first: int, last: int) -> str:
    if first == last:
        return f"number {first} of the audit trail is missing"
    return f"the numbers {first} to {last} of the audit trail are missing"


def _amiss(row: Row) -> list[str]:
    """Which of the columns that may change hold what nobody writes there, so that the entry would not be seen."""
    hidden, junk = row["hidden"], row["junk"]
    is_sound = {
        "hidden": hidden in (audit_rows.SHOWN, audit_rows.JUNK, audit_rows.REPLACED),
        "junk": hidden == audit_rows.REPLACED or (junk is not None) == (hidden == audit_rows.JUNK),
        "status": (row["status"] in STATUSES) if row["kind"] == TODO else row["status"] is None,
        "archived": row["archived"] in (0, 1),
        "shelf_id": (row["shelf_id"] is None) == (row["messages"] is None),
    }
    return [name for name, sound in is_sound.items() if not sound]


def _digests(tx: Transaction, found: Sequence[Row]) -> dict[int, dict[int, bytes]]:
    """The digests of the messages that some rows name, by shelf and number."""
    numbers: dict[int, set[int]] = {}
    for row in found:
        if row["messages"] is not None and row["shelf_id"] is not None:
            with suppress(TypeError, ValueError):  # its digest will tell
                numbers.setdefault(row["shelf_id"], set()).update(audit_rows.numbers_of(row["messages"]))
    return {shelf: audit_rows.digests(tx, shelf, each) for shelf, each in numbers.items()}


def _wrong_messages(tx: Transaction, shelf: int) -> list[str]:
    """Return what is wrong with the messages of model calls on a shelf."""
    found: list[str] = []
    after = -1
    while page := query.parts_after(tx, shelf=shelf, after=after, limit=MESSAGES):
        found += [
            f"message {row['number']} of shelf {shelf} in the audit trail is not what was stored"
            for row in page
            if row["body"] is None or queries.digest(bytes(row["body"])) != bytes(row["hash"])
        ]
        if page[-1]["number"] <= after:  # an index that is damaged leads back
            return [*found, f"the messages of shelf {shelf} cannot be followed beyond number {after}"]
        after = page[-1]["number"]
    return found


def _erase(tx: Transaction, erasure: Erasure) -> None:
    erasure.removed["audit"] += audit_store.erase(tx, erasure.low, erasure.high, erasure.name)


PART = Part(
    found={"audit": (Found(stored_as=audit_store.KIND, texts=texts, recollections=recollections),)},
    usual=False,  # the audit trail repeats what messages say
    unsettled=audit_store.waiting,
    settle=audit_store.settle,
    tables={"audit": ("audit", "audit_head")},
    verify={"audit": problems},
    erase=_erase,
)
