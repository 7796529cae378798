"""What became of experiences, as it is kept: how often each was chosen, and whether it helped.

Experiences are files. What the database knows of them it knows by their ids, in namespaces: one row of counts for each,
its *tally*, and one row for each time that somebody said whether it helped. Files may go and come back meanwhile.

What became of experiences leaves a database and enters another, and is looked at for damage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from langchain_agentmem.base.clock import is_time, micros, moment
from langchain_agentmem.base.namespaces import id_of, namespace_of, path_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import BranchMoved, DatabaseUnreadable, InvalidInput
from langchain_agentmem.storage import Steps, queries, query
from langchain_agentmem.storage.part import Erasure, Import, Part, Record, WriteRecord
from langchain_agentmem.storage.steps import Row

NEWEST = 100
"""So much feedback is read unless more is asked for."""


class Tally(NamedTuple):
    """What is known of an experience.

    Attributes:
        considered: How often it was a candidate.
        chosen: How often it was chosen.
        helped: How often somebody said that it helped.
        not_helped: How often somebody said that it did not.
        last_chosen_at: When it was last chosen, None if never.
    """

    considered: int = 0
    chosen: int = 0
    helped: int = 0
    not_helped: int = 0
    last_chosen_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What somebody said of an experience.

    Attributes:
        feedback_id: Its id, one of its own in the namespace.
        exp_id: The experience.
        helped: Whether it helped.
        note: Why, in any words.
        conversation_id: The conversation or thread in which it did, if that is known: erased with it.
        created_at: When it was said, with a time zone; kept in UTC, to the microsecond.
    """

    feedback_id: str
    exp_id: str
    helped: bool
    note: str = ""
    conversation_id: str | None = None
    created_at: datetime


def count(path: str, considered: Sequence[str], chosen: Collection[str], *, now: int) -> Steps[None]:
    """Note that experiences were candidates, and which of them were chosen; all in one statement.

    Args:
        path: The path of the namespace.
        considered: The ids of the candidates; one that stands there twice counts once.
        chosen: The ids of those that were chosen. What was chosen was a candidate, whether or not it is among them.
        now: When, in microseconds since 1970.

    Raises:
        InvalidInput: An id is no id.
    """
    taken = {id_of(each, "experience") for each in chosen}
    seen = dict.fromkeys((*(id_of(each, "experience") for each in considered), *taken))
    if seen:
        namespace = yield from queries.number_of(path)
        pairs = json.dumps([[each, int(each in taken)] for each in seen])
        yield query.count_experiences(namespace=namespace, seen=pairs, now=now)


def add_feedback(path: str, feedback: Feedback) -> Steps[None]:
    """Keep what somebody said of an experience. The same once more changes nothing.

    Args:
        path: The path of the namespace.
        feedback: What was said.

    Raises:
        InvalidInput: A field is wrong, or other feedback has this id. Nothing was kept.
    """
    fields = stored(feedback)
    yield from keep((yield from queries.number_of(path)), fields)


def feedback_of(
    low: str, high: str, exp_ids: Iterable[str] | None = None, *, limit: int = NEWEST
) -> Steps[list[Feedback]]:
    """What was said of experiences, the newest first.

    Args:
        low: The first path of the namespaces.
        high: The path behind the last.
        exp_ids: Which experiences. Default: all.
        limit: Most of them.

    Raises:
        DatabaseUnreadable: Some of it is damaged.
    """
    wanted = None if exp_ids is None else json.dumps([id_of(each, "experience") for each in exp_ids])
    rows = yield query.feedback_within(low=low, high=high, exp_ids=wanted, limit=limit)
    return [feedback_in(row) for row in rows]


def counts(low: str, high: str) -> Steps[dict[str, Tally]]:
    """What is known of each experience, by its id: the sums over the namespaces in a range of paths."""
    rows = yield query.experience_counts(low=low, high=high)
    return {
        row["exp_id"]: Tally(
            int(row["considered"]),
            int(row["chosen"]),
            int(row["helped"]),
            int(row["not_helped"]),
            moment(row["last_chosen_at"]) if is_time(row["last_chosen_at"]) else None,
        )
        for row in rows
    }


def erase(low: str, high: str, name: str | None = None) -> Steps[int]:
    """Delete all that is known of experiences in the namespaces of a range of paths.

    Args:
        low: The first path.
        high: The path behind the last.
        name: A conversation or thread; then only the feedback that came from it goes, since a tally tells of nobody.

    Returns:
        How many rows there were, tallies and feedback.
    """
    if name is not None:
        said = yield query.feedback_rows_from(low=low, high=high, name=name)
        for row in said:
            yield query.delete_feedback_from(path=row["path"], name=name)
            yield query.delete_empty_namespaces(path=row["path"])
        return sum(int(row["feedback"]) for row in said)
    held = yield query.experience_rows(low=low, high=high)
    for row in held:
        yield query.delete_tallies(path=row["path"])
        yield query.delete_feedback(path=row["path"])
        yield query.delete_empty_namespaces(path=row["path"])
    return sum(int(row["tallies"]) + int(row["feedback"]) for row in held)


# -- the parts of the above ----------------------------------------------------------------------------------------


def keep(namespace: int, fields: dict[str, Any]) -> Steps[bool]:
    """Add feedback as it is stored, unless it is there. Returns whether it was added."""
    if (yield query.add_feedback(namespace=namespace, **fields)):
        return True
    there = yield query.find_feedback(namespace=namespace, feedback_id=fields["feedback_id"])
    if not there:
        raise BranchMoved  # it was erased between the two: begin again
    if any(there[0][name] != value for name, value in fields.items()):
        raise InvalidInput(
            f"There is other feedback under the id {safe_repr(fields['feedback_id'])}: give it a new one."
        )
    return False


def fault_of_feedback(row: Row) -> str | None:
    """What is wrong with a row of feedback, if anything is."""
    about = f"the feedback {safe_repr(row['feedback_id'])}"
    if not row["exp_id"] or not row["feedback_id"] or row["conversation_id"] == "":
        return f"{about} has an empty id"
    if row["helped"] not in (0, 1):
        return f"{about} says neither that the experience helped nor that it did not"
    if not is_time(row["created_at"]):
        return f"{about} was given at no time that there is"
    try:
        bytes(row["note"]).decode("utf-8", "surrogatepass")
    except (TypeError, ValueError):
        return f"the note of {about} is not what was stored"
    return None


def feedback_in(row: Row) -> Feedback:
    """Feedback as it was said.

    Raises:
        DatabaseUnreadable: It is damaged.
    """
    if fault := fault_of_feedback(row):
        raise DatabaseUnreadable(f"What was said of an experience is damaged: {fault}. Restore it from a backup.")
    return Feedback(
        feedback_id=row["feedback_id"],
        exp_id=row["exp_id"],
        helped=bool(row["helped"]),
        note=bytes(row["note"]).decode("utf-8", "surrogatepass"),
        conversation_id=row["conversation_id"],
        created_at=moment(row["created_at"]),
    )


def stored(feedback: Feedback) -> dict[str, Any]:
    """Feedback as it is stored.

    Raises:
        InvalidInput: A field is wrong.
    """
    said, note, conversation_id = feedback.created_at, feedback.note, feedback.conversation_id
    if not isinstance(feedback.helped, bool):
        raise InvalidInput(f"An experience helped or not: give True or False, not {safe_repr(feedback.helped)}.")
    if not isinstance(note, str):
        raise InvalidInput(f"A note is a text, not {type(note).__name__}.")
    if not isinstance(said, datetime) or said.tzinfo is None or not is_time(micros(said)):
        raise InvalidInput(f"The time of feedback is a datetime with a time zone, not {safe_repr(said)}.")
    return {
        "feedback_id": id_of(feedback.feedback_id, "feedback"),
        "exp_id": id_of(feedback.exp_id, "experience"),
        "helped": int(feedback.helped),
        "conversation_id": None if conversation_id is None else id_of(conversation_id, "conversation"),
        "created_at": micros(said),
        "note": note.encode("utf-8", "surrogatepass"),
    }


EXPERIENCES = "experiences"
HOLDS: Mapping[str, set[str]] = {EXPERIENCES: {"tally", "feedback"}}
"""The records of an export that hold others, and which."""
PAGE = 100
"""Rows that go through memory together."""

See: TypeAlias = Callable[[Row], object]

_TALLY = ("exp_id", "considered", "chosen", "first_chosen_at", "last_chosen_at")
_MOST = 2**53
"""More than anything was ever counted; both engines hold sums of it."""
_BEHIND = "\x01"
"""What follows on an id in the order of ids, which have no control characters."""


def dump(low: str, high: str, tell: WriteRecord) -> Steps[int]:
    """Tell all that is known of experiences as records that JSON can hold, a page at a time.

    Args:
        low: The first path of the namespaces.
        high: The path behind the last.
        tell: Takes each record.

    Returns:
        How many tallies and feedback there were.

    Raises:
        DatabaseUnreadable: Some of it is damaged.
    """
    return (
        yield from _walk(
            low,
            high,
            lambda path: tell({"record": EXPERIENCES, "namespace": namespace_of(path)}),
            lambda row: tell({"record": "tally"} | _sound_tally(row)),
            lambda row: tell(_record(feedback_in(row))),
        )
    )


def restore(path: str, records: Iterable[Mapping[str, Any]]) -> Steps[int]:
    """Add what records tell of experiences. Of a tally that is here already the larger numbers count.

    Args:
        path: The path of the namespace.
        records: What `dump` told of it.

    Returns:
        How many tallies were added or grew, and how much feedback was added.

    Raises:
        InvalidInput: A record is damaged, or other feedback has its id here.
    """
    tallies, said = [], []
    for record in records:
        try:
            if record["record"] == "tally":
                tallies.append(_read_tally(record))
            else:
                said.append(_read_feedback(record))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"A record of what became of experiences is damaged: {safe_repr(error)}.") from error
    if not tallies and not said:
        return 0
    namespace = yield from queries.number_of(path)
    added = 0
    for tally in sorted(tallies, key=lambda each: str(each["exp_id"])):  # in the order in which `count` has them
        added += len((yield query.merge_tally(namespace=namespace, **tally)))
    for each in said:
        added += yield from keep(namespace, each)
    return added


def problems(low: str, high: str) -> Steps[list[str]]:
    """What is wrong with the rows of the namespaces in a range of paths, in sentences."""
    found: list[str | None] = []
    yield from _walk(
        low,
        high,
        lambda _: None,
        lambda row: found.append(_fault_of_tally(row)),
        lambda row: found.append(fault_of_feedback(row)),
    )
    return [fault for fault in found if fault is not None]


# -- the parts of the above ------------------------------------------------------------------------------------------


def _walk(low: str, high: str, enter: Callable[[str], object], tally: See, feedback: See) -> Steps[int]:
    """Go through all rows, a page at a time, namespace by namespace. Returns how many there were."""
    seen = 0
    for held in (yield query.experience_rows(low=low, high=high)):
        path = held["path"]
        enter(path)
        start, after = "", -1
        while page := (yield query.tallies_from(path=path, start=start, limit=PAGE)):
            for row in page:
                tally(row)
            seen, start = seen + len(page), page[-1]["exp_id"] + _BEHIND
        while page := (yield query.feedback_after(path=path, after=after, limit=PAGE)):
            for row in page:
                feedback(row)
            seen, after = seen + len(page), page[-1]["id"]
    return seen


def _fault_of_tally(tally: Mapping[str, Any]) -> str | None:
    """What is wrong with a tally, if anything is."""
    exp_id, considered, chosen, first, last = (tally[name] for name in _TALLY)
    if not exp_id:
        return "the tally of an experience has an empty id"
    numbers = all(isinstance(each, int) and not isinstance(each, bool) for each in (considered, chosen))
    if not numbers or not 0 <= chosen <= considered <= _MOST:
        times = f"{safe_repr(chosen, 20)} times of {safe_repr(considered, 20)}"
        return f"the experience {safe_repr(exp_id)} cannot have been chosen {times}"
    if not ((is_time(first) and is_time(last) and first <= last) if chosen else first is last is None):
        return f"the experience {safe_repr(exp_id)} cannot have been chosen when its tally says"
    return None


def _sound_tally(row: Row) -> dict[str, Any]:
    if fault := _fault_of_tally(row):
        raise DatabaseUnreadable(f"What became of an experience is damaged: {fault}. Restore it from a backup.")
    return {name: row[name] for name in _TALLY}


def _read_tally(record: Mapping[str, Any]) -> dict[str, Any]:
    if fault := _fault_of_tally(record):
        raise InvalidInput(f"{fault}.")
    return {name: record[name] for name in _TALLY} | {"exp_id": id_of(record["exp_id"], "experience")}


def _record(said: Feedback) -> dict[str, Any]:
    return {"record": "feedback"} | asdict(said) | {"created_at": micros(said.created_at)}


def _read_feedback(record: Mapping[str, Any]) -> dict[str, Any]:
    if not is_time(record["created_at"]):
        raise InvalidInput(f"{safe_repr(record['created_at'])} is not a time.")
    told = {each.name: record[each.name] for each in fields(Feedback)}
    return stored(Feedback(**told | {"created_at": moment(record["created_at"])}))


def _erase(erasure: Erasure) -> Steps[None]:
    erasure.removed["experiences"] += yield from erase(erasure.low, erasure.high, erasure.name)


def _dump(write: WriteRecord) -> Steps[Mapping[str, int]]:
    return {"experiences": (yield from dump(*range_of(()), write))}


def _load(into: Import, head: Record, records: Sequence[Record]) -> Steps[None]:
    into.added["experiences"] += yield from restore(path_of(head.get("namespace")), records)


PART = Part(
    tables={"experiences": ("experience_tally", "experience_feedback")},
    verify={"experiences": partial(problems, *range_of(()))},
    erase=_erase,
    records=HOLDS,
    dump=_dump,
    load=_load,
)
