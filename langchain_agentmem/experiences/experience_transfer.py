"""What became of experiences leaves a database and enters another, and is looked at for damage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from typing import Any, TypeAlias

from langchain_agentmem.base.clock import is_time, micros, moment
from langchain_agentmem.base.namespaces import id_of, namespace_of, path_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput
from langchain_agentmem.experiences.experience_rows import (
    Feedback,
    erase,
    fault_of_feedback,
    feedback_in,
    keep,
    stored,
)
from langchain_agentmem.storage import Steps, queries, query
from langchain_agentmem.storage.part import Erasure, Import, Part, Record, WriteRecord
from langchain_agentmem.storage.steps import Row

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
