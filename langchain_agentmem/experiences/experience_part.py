"""What became of experiences, as it is kept: how often each was chosen, and whether it helped.

Experiences are files. What the database knows of them it knows by their ids, in namespaces: one row of counts for each,
its *tally*, and one row for each time that somebody said whether it helped. Files may go and come back meanwhile.

What became of experiences leaves a database and enters another, and is looked at for damage.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, TypeVar

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
    kept = stored(feedback)
    yield from _keep((yield from queries.number_of(path)), kept)


def feedback_of(low: str, high: str, *, limit: int = NEWEST) -> Steps[list[Feedback]]:
    """What was said of experiences in a range of paths, the newest first, and no more than so much.

    Raises:
        DatabaseUnreadable: Some of it is damaged.
    """
    rows = yield query.feedback_within(low=low, high=high, limit=limit)
    return [_sound(_read_row, row) for row in rows]


def added(told: Iterable[Mapping[str, Tally]]) -> dict[str, Tally]:
    """The sums of what is known of each experience in several places.

    Args:
        told: What `counts` gave of each.
    """
    sums: dict[str, Tally] = {}
    for counted in told:
        for exp_id, tally in counted.items():
            known = sums.get(exp_id, Tally())
            times = [each for each in (known.last_chosen_at, tally.last_chosen_at) if each is not None]
            counts = map(operator.add, known[:4], tally[:4])
            sums[exp_id] = Tally(*counts)._replace(last_chosen_at=max(times, default=None))
    return sums


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


def _erase(erasure: Erasure) -> Steps[None]:
    """Delete what is known of experiences: of a conversation or thread its feedback, since a tally tells of nobody."""
    low, high, name = erasure.low, erasure.high, erasure.name
    held = yield (
        query.experience_rows(low=low, high=high)
        if name is None
        else query.feedback_rows_from(low=low, high=high, name=name)
    )
    for row in held:
        if name is None:
            yield query.delete_tallies(path=row["path"])
            yield query.delete_feedback(path=row["path"])
            erasure.removed["experiences"] += int(row["tallies"])
        else:
            yield query.delete_feedback_from(path=row["path"], name=name)
        yield query.delete_empty_namespaces(path=row["path"])
        erasure.removed["experiences"] += int(row["feedback"])


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


def _keep(namespace: int, kept: dict[str, Any]) -> Steps[bool]:
    """Add feedback as it is stored, unless it is there. Returns whether it was added."""
    if (yield query.add_feedback(namespace=namespace, **kept)):
        return True
    there = yield query.find_feedback(namespace=namespace, feedback_id=kept["feedback_id"])
    if not there:
        raise BranchMoved  # it was erased between the two: begin again
    if any(there[0][name] != value for name, value in kept.items()):
        raise InvalidInput(f"There is other feedback under the id {safe_repr(kept['feedback_id'])}: give it a new one.")
    return False


# -- as records of an export -----------------------------------------------------------------------------------------

EXPERIENCES = "experiences"
HOLDS: Mapping[str, set[str]] = {EXPERIENCES: {"tally", "feedback"}}
"""The records of an export that hold others, and which."""
PAGE = 100
"""Rows that go through memory together."""

R = TypeVar("R")
See: TypeAlias = Callable[[Callable[[Row], Any], Row], object]

_TALLY = ("exp_id", "considered", "chosen", "first_chosen_at", "last_chosen_at")
_MOST = 2**53
"""More than anything was ever counted; both engines hold sums of it."""
_BEHIND = "\x01"
"""What follows on an id in the order of ids, which have no control characters."""


def _dump(write: WriteRecord, low: str, high: str) -> Steps[Mapping[str, int]]:
    def see(read: Callable[[Row], Any], row: Row) -> None:
        found = _sound(read, row)
        if isinstance(found, Feedback):
            write({"record": "feedback"} | asdict(found) | {"created_at": micros(found.created_at)})
        else:
            write({"record": "tally"} | found)

    def enter(path: str) -> None:
        write({"record": EXPERIENCES, "namespace": namespace_of(path)})

    return {"experiences": (yield from _walk(enter, see, low, high))}


def _load(into: Import, head: Record, records: Sequence[Record]) -> Steps[None]:
    """Add what records tell of experiences. Of a tally that is here already the larger numbers count."""
    path = path_of(head.get("namespace"))
    tallies, said = [], []
    for record in records:
        try:
            if record["record"] == "tally":
                tallies.append(_read_tally(record))
            else:
                told = {each.name: record[each.name] for each in fields(Feedback)}
                said.append(stored(Feedback(**told | {"created_at": _time(record)})))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"A record of what became of experiences is damaged: {safe_repr(error)}.") from error
    if not tallies and not said:
        return
    namespace = yield from queries.number_of(path)
    for tally in sorted(tallies, key=lambda each: str(each["exp_id"])):  # in the order in which `count` has them
        into.added["experiences"] += len((yield query.merge_tally(namespace=namespace, **tally)))
    for each in said:
        into.added["experiences"] += yield from _keep(namespace, each)


def _verify() -> Steps[list[str]]:
    """What is wrong with any row, in sentences."""
    found: list[str] = []

    def see(read: Callable[[Row], Any], row: Row) -> None:
        try:
            _sound(read, row)
        except DatabaseUnreadable as error:
            found.append(str(error))

    yield from _walk(lambda _: None, see, *range_of(()))
    return found


def _walk(enter: Callable[[str], object], see: See, low: str, high: str) -> Steps[int]:
    """Go through the rows of some paths, a page at a time, namespace by namespace. Returns how many there were."""
    seen = 0
    for held in (yield query.experience_rows(low=low, high=high)):
        path = held["path"]
        enter(path)
        start, after = "", -1
        while page := (yield query.tallies_from(path=path, start=start, limit=PAGE)):
            for row in page:
                see(_read_tally, row)
            seen, start = seen + len(page), page[-1]["exp_id"] + _BEHIND
        while page := (yield query.feedback_after(path=path, after=after, limit=PAGE)):
            for row in page:
                see(_read_row, row)
            seen, after = seen + len(page), page[-1]["id"]
    return seen


def _sound(read: Callable[[Row], R], row: Row) -> R:
    """What a row tells.

    Raises:
        DatabaseUnreadable: It is damaged.
    """
    try:
        return read(row)
    except (TypeError, ValueError) as error:
        raise DatabaseUnreadable(
            f"What became of the experience {safe_repr(row['exp_id'])} is damaged: {error} Restore it from a backup."
        ) from error


def _read_tally(given: Mapping[str, Any]) -> dict[str, Any]:
    """A tally, of a row or a record."""
    tally = {name: given[name] for name in _TALLY}
    exp_id, considered, chosen, first, last = tally.values()
    numbers = all(isinstance(each, int) and not isinstance(each, bool) for each in (considered, chosen))
    if not numbers or not 0 <= chosen <= considered <= _MOST:
        raise InvalidInput(f"It cannot have been chosen {safe_repr(chosen, 20)} times of {safe_repr(considered, 20)}.")
    if not ((is_time(first) and is_time(last) and first <= last) if chosen else first is last is None):
        raise InvalidInput("It cannot have been chosen when its tally says.")
    return tally | {"exp_id": id_of(exp_id, "experience")}


def _read_row(row: Row) -> Feedback:
    """Feedback, of a row."""
    helped: Any = row["helped"]
    try:
        said = Feedback(
            feedback_id=row["feedback_id"],
            exp_id=row["exp_id"],
            helped={0: False, 1: True}.get(helped, helped),
            note=bytes(row["note"]).decode("utf-8", "surrogatepass"),
            conversation_id=row["conversation_id"],
            created_at=_time(row),
        )
        stored(said)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"In the feedback {safe_repr(row['feedback_id'])}: {error}") from error
    return said


def _time(given: Mapping[str, Any]) -> datetime:
    if not is_time(given["created_at"]):
        raise InvalidInput(f"{safe_repr(given['created_at'])} is not a time.")
    return moment(given["created_at"])


PART = Part(
    tables={"experiences": ("experience_tally", "experience_feedback")},
    verify={"experiences": _verify},
    erase=_erase,
    records=HOLDS,
    dump=_dump,
    load=_load,
)
