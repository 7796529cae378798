"""Whether the audit trail is whole: its chain, its messages, and what a search finds of it.

The chain is read in pages, so that of a million entries few are held at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_agentmem.audit import audit_rows, chain, model_messages
from langchain_agentmem.audit.audit_entry import STATUSES, TODO
from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.storage import Steps, queries, query
from langchain_agentmem.storage.steps import Row

LENGTHS = 500
BYTES_AT_ONCE = 8_000_000
"""Bodies that go through memory together, but for a single one that is larger."""
MESSAGES = 200

_ERASED = (
    "salt", "namespace_id", "key", "hidden", "conversation", "thread", "created_at", "junk", "status", "mark",
    "archived", "settled", "shelf_id", "messages", "body",
)  # fmt: skip


def verify(since: chain.Head | None = None) -> Steps[chain.ChainReport]:
    """Walk along the whole chain, and see that every entry is what was stored, and where.

    Args:
        since: A head that was kept elsewhere. With it, it is proved that nothing up to there was changed, even by
            somebody who computed the chain anew, but for what was erased.
    """
    walk = chain.Walk(since)
    noted = yield query.audit_head()
    indexed = int(noted[0]["indexed"]) if noted else 0
    after = 0
    while True:
        lengths = yield query.audit_lengths(after=after, limit=LENGTHS)
        if not lengths:
            break
        upto = _fitting(lengths)
        if upto <= after:  # an index that is damaged leads back
            walk.wrong(f"the audit trail cannot be followed beyond its number {after}")
            break
        found = yield query.audit_chain(after=after, upto=upto)
        said = yield from _said(found)
        for row in found:
            _look_at(walk, row, said, indexed)
        after = upto
    for problem in (yield from _messages()):
        walk.wrong(problem)
    end = chain.Head(int(noted[0]["sequence"]), bytes(noted[0]["link"])) if noted else None
    return walk.end(end)


def problems() -> Steps[list[str]]:
    """What is wrong with the audit trail, in sentences."""
    report = yield from verify()
    found = list(report.problems)
    unfound = yield query.audit_wrong_documents()
    found += [
        f"number {row['sequence']} of the audit trail is "
        + ("not in the search index" if row["hidden"] == audit_rows.SHOWN else "hidden, but in the search index")
        for row in unfound
    ]
    return found


def _look_at(walk: chain.Walk, row: Row, said: dict[int, dict[int, tuple[bytes, str]]], indexed: int) -> None:
    """See that a place of the chain holds what it was made of."""
    erased = row["kind"] is None
    sequence, stored = int(row["sequence"]), bytes(row["digest"])
    called = f"number {sequence} of the audit trail"
    if not erased and row["key"] is not None:
        called = f"the entry {safe_repr(row['key'])} ({called[: -len(' of the audit trail')]})"
    walk.pass_by(sequence, bytes(row["link"]), stored, called=called, erased=erased)
    if erased:
        if left := [name for name in _ERASED if row[name] is not None]:
            walk.wrong(f"{called} was erased, but still has {', '.join(left)}")
        return
    try:
        intact = audit_rows.digest_of(row, said.get(row["shelf_id"], {})) == stored
    except (TypeError, ValueError):
        intact = False
    if not intact:
        walk.wrong(f"{called} of {_when(row)} is not what was stored")
    elif amiss := _amiss(row, indexed):
        walk.wrong(f"{called} is marked as no entry can be: {', '.join(amiss)}")


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


def _when(row: Row) -> str:
    try:
        return f"{moment(row['created_at']):%Y-%m-%d %H:%M:%S}"
    except (TypeError, OverflowError):
        return "an unknown time"


def _said(found: Sequence[Row]) -> Steps[dict[int, dict[int, tuple[bytes, str]]]]:
    """The digests and ids of the messages that some rows name, by shelf and number."""
    lists: dict[int, list[list[model_messages.Range]]] = {}
    for row in found:
        if row["messages"] is not None and row["shelf_id"] is not None:
            try:
                lists.setdefault(row["shelf_id"], []).append(model_messages.read(row["messages"]))
            except ValueError:
                continue  # its digest will tell
    said = {}
    for number, each in lists.items():
        said[number] = yield from model_messages.identities(number, each)
    return said


def _messages() -> Steps[list[str]]:
    """What is wrong with the messages of model calls."""
    found: list[str] = []
    shelves = yield query.audit_shelves()
    for each in shelves:
        if each["last"] >= each["next"]:
            found.append(f"the messages of {safe_repr(each['name'])} in the audit trail count fewer than there are")
        after = 0
        while page := (yield query.audit_shelf_bodies(shelf=each["id"], after=after, limit=MESSAGES)):
            found += [
                f"message {row['number']} of {safe_repr(each['name'])} in the audit trail is not what was stored"
                for row in page
                if queries.digest(bytes(row["body"])) != bytes(row["hash"])
            ]
            if page[-1]["number"] <= after:
                found.append(f"the messages of {safe_repr(each['name'])} cannot be followed beyond number {after}")
                break
            after = page[-1]["number"]
    return found


def _fitting(lengths: Sequence[Row]) -> int:
    """The last of some places whose bodies may go through memory together."""
    size = 0
    upto = int(lengths[0]["sequence"])
    for row in lengths:
        size += row["bytes"]
        if size > BYTES_AT_ONCE:
            break
        upto = int(row["sequence"])
    return upto
