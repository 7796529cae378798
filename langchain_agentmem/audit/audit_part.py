"""The audit trail as a part of the database: searched, verified and erased.

To verify, the chain is read in pages, so that of a million entries few are held at a time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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

_ERASED = (
    "salt", "namespace_id", "key", "hidden", "conversation", "thread", "created_at", "junk", "status", "mark",
    "archived", "settled", "document_id", "shelf_id", "messages", "body",
)  # fmt: skip


def verify(tx: Transaction, since: Head | None = None) -> ChainReport:
    """Walk along the whole chain, and see that every entry is what was stored, and where.

    Args:
        tx: The transaction.
        since: A head that was kept elsewhere. With it, it is proved that nothing up to there was changed, even by
            somebody who computed the chain anew, but for what was erased.
    """
    noted = query.audit_head(tx)
    walk = _Walk(since, int(noted[0]["indexed"]) if noted else 0)
    after, shelves = 0, set[int]()
    while found := query.audit_chain(tx, after=after, limit=PAGE):
        if found[-1]["sequence"] <= after:  # an index that is damaged leads back
            walk.wrong(f"the audit trail cannot be followed beyond its number {after}")
            break
        walk.along(found, _digests(tx, found))
        shelves.update(row["shelf_id"] for row in found if row["shelf_id"] is not None)
        after = found[-1]["sequence"]
    for shelf in sorted(shelves):
        for problem in _wrong_messages(tx, shelf):
            walk.wrong(problem)
    return walk.end(Head(int(noted[0]["sequence"]), bytes(noted[0]["link"])) if noted else None)


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


class _Walk:
    """A walk along the chain, from its beginning to its end.

    Args:
        since: A head that was kept elsewhere: everything up to there must be as it was then.
        indexed: The last entry that does not wait.
    """

    def __init__(self, since: Head | None, indexed: int) -> None:
        self._since = since or START
        self._indexed = indexed
        self._at = START
        self._confirmed = self._since == START
        self._found: list[str] = []
        self._count = self._erased = self._places = 0

    def along(self, rows: Sequence[Row], digests: Mapping[int, Mapping[int, bytes]]) -> None:
        """Check some places.

        Args:
            rows: The places, in their order.
            digests: The digests of the messages of their shelves, by shelf and number.
        """
        for row in rows:
            sequence, link, digest = row["sequence"], bytes(row["link"]), bytes(row["digest"])
            self._places += 1
            if sequence != self._at.sequence + 1:
                self.wrong(_missing(self._at.sequence + 1, sequence - 1))
            elif queries.next_link(self._at.link, digest) != link:
                self.wrong(f"{_called(row)} does not follow from what stands before it in the chain")
            self._at = Head(sequence, link)
            if sequence == self._since.sequence:
                self._confirmed = True
                if link != self._since.link:
                    self.wrong(
                        f"what the chain holds up to number {sequence} is not what it was when the head was taken"
                    )
            self._erased += row["kind"] is None
            if (problem := self._problem(row, digest, digests.get(row["shelf_id"], {}))) is not None:
                self.wrong(f"{_called(row)} {problem}")

    def _problem(self, row: Row, digest: bytes, messages: Mapping[int, bytes]) -> str | None:
        """What is wrong with what a place holds."""
        if row["kind"] is None:
            left = [name for name in _ERASED if row[name] is not None]
            return f"was erased, but still has {', '.join(left)}" if left else None
        try:
            if audit_rows.digest_of(row, messages) != digest:
                return "is not what was stored"
        except (KeyError, TypeError, ValueError):
            return "is not what was stored"
        amiss = _amiss(row, self._indexed)
        return f"is marked as no entry can be: {', '.join(amiss)}" if amiss else None

    def wrong(self, problem: str) -> None:
        """Note a problem."""
        self._count += 1
        if self._count <= MOST_PROBLEMS:
            self._found.append(problem)

    def end(self, head: Head | None) -> ChainReport:
        """Come to the end.

        Args:
            head: What is noted of the end; None where nothing is.
        """
        last, since = self._at.sequence, self._since.sequence
        if head is None:
            self.wrong("nothing is noted of where the chain of the audit trail ends")
        elif head.sequence > last:
            self.wrong(f"{_missing(last + 1, head.sequence)}: the end of the chain was cut off")
        elif head.sequence < last:
            self.wrong(f"the chain ends with number {head.sequence}, but there are entries up to {last}")
        elif head.link != self._at.link:
            self.wrong("what is noted of the end of the chain does not fit its last entry")
        if not self._confirmed and since > last:
            self.wrong(f"the chain does not reach to number {since}, where the head was taken")
        elif not self._confirmed:
            self.wrong(f"number {since}, where the head was taken, is missing")
        if (more := self._count - len(self._found)) > 0:
            self._found.append(f"there are {more} more problems")
        return ChainReport(
            entries=self._places, erased=self._erased, problems=tuple(self._found), head=head or self._at
        )


def _missing(first: int, last: int) -> str:
    if first == last:
        return f"number {first} of the audit trail is missing"
    return f"the numbers {first} to {last} of the audit trail are missing"


def _called(row: Row) -> str:
    """How problems name a place of the chain."""
    if row["kind"] is None or row["key"] is None:
        return f"number {row['sequence']} of the audit trail"
    return f"the entry {safe_repr(row['key'])} (number {row['sequence']})"


def _amiss(row: Row, indexed: int) -> list[str]:
    """Which of the columns that may change hold what nobody writes there, so that the entry would not be seen."""
    hidden, junk = row["hidden"], row["junk"]
    is_sound = {
        "hidden": hidden in (audit_rows.SHOWN, audit_rows.JUNK, audit_rows.REPLACED),
        "junk": hidden == audit_rows.REPLACED or (junk is not None) == (hidden == audit_rows.JUNK),
        "status": (row["status"] in STATUSES) if row["kind"] == TODO else row["status"] is None,
        "archived": row["archived"] in (0, 1),
        "settled": row["settled"] == 1 or (row["settled"] == 0 and row["sequence"] > indexed),
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
