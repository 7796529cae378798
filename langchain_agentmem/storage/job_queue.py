"""Work that is done later: one queue in the database, for every kind of work and every process.

A job has a name, of namespace, kind and key, and there is one of each name at most: who asks for it twice gets it once.
Whoever works on it has a *lease*, and renews it meanwhile. When a process dies its leases run out, and another takes
its jobs over; the former owner, should it come back, can no longer finish them. News that comes while a job is being
worked on makes it be done again afterwards, so none is lost.

These are the operations; `worker.py` has the threads. Times are microseconds since 1970 by the system's clock, which
all who share a queue go by.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_agentmem.base.namespaces import Namespace, namespace_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.queries import digest

AT_ONCE = 0
"""The time of a job that need not wait."""
LONGEST_PAUSE = 60.0
"""Seconds between two attempts at a job that goes on failing."""
LONGEST_ERROR = 1_000
"""Characters of an error that are kept with a job."""
PAGE = 1_000

_EVER = 2**62
_SECOND = 1_000_000
_KIND = re.compile(r"[a-z][a-z_]{0,39}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it was read.

    Attributes:
        id: Its number.
        path: The path of its namespace.
        kind: What is to be done.
        key: What it is to be done to.
        payload: What whoever does it needs to know.
        attempts: How often it failed so far, or was left by one who died.
        not_before: When it may be worked on first, or again.
        owner: Whose lease it is, None while nobody works on it.
        lease_until: How long the lease lasts unless it is renewed.
        error: Why the last attempt failed.
        created_at: When it was first asked for.
    """

    id: int
    path: str
    kind: str
    key: str
    payload: bytes
    attempts: int
    not_before: int
    owner: str | None
    lease_until: int | None
    error: str | None
    created_at: int

    @property
    def namespace(self) -> Namespace:
        """Whose it is."""
        return namespace_of(self.path)


class Wanted(NamedTuple):
    """A job to be done.

    Attributes:
        path: The path of its namespace.
        kind: What is to be done.
        key: What it is to be done to: any text.
        payload: What whoever does it needs to know.
    """

    path: str
    kind: str
    key: str = ""
    payload: bytes = b""


class Outlook(NamedTuple):
    """What there is to do of one kind.

    Attributes:
        jobs: How many jobs there are, those included that somebody works on.
        due_at: When the first of them is due and nobody works on it; None without jobs.
        free_at: The same, as if all that wait were due.
    """

    jobs: int
    due_at: int | None
    free_at: int | None


def now() -> int:
    """The system's time, in microseconds since 1970."""
    return time.time_ns() // 1000


def pause(attempts: int) -> float:
    """Seconds until a job is tried again that has failed so often before: 1, 2, 4, and so on up to 60."""
    return min(2.0 ** min(attempts, 10), LONGEST_PAUSE)


def enqueue(wanted: Wanted, *, now: int, not_before: int = AT_ONCE) -> Steps[None]:
    """Ask for a job.

    One of the same name that waits already gets the new payload; a time that is earlier counts, unless it waits because
    it failed. One that somebody works on is done again afterwards, with the new payload.

    Args:
        wanted: What is to be done.
        now: When it is asked for.
        not_before: When to do it. Default: at once.

    Raises:
        InvalidInput: The kind is no word of small letters.
    """
    yield query.enqueue_job(
        mark=_mark(wanted.path, wanted.kind, wanted.key),
        path=wanted.path,
        kind=wanted.kind,
        key=_bytes(wanted.key),
        payload=wanted.payload,
        not_before=not_before,
        now=now,
    )


def claim(
    kind: str, owner: str, *, now: int, lease: float, early: bool = False, failed: Iterable[int] = ()
) -> Steps[Job | None]:
    """Take the oldest job that is due and that nobody works on.

    Args:
        kind: What kind of job.
        owner: A word that nobody else has: the lease is known by it.
        now: When.
        lease: Seconds that it lasts unless it is renewed.
        early: Whether jobs that are not due yet will do.
        failed: The numbers of jobs that are not wanted.

    Returns:
        The job; None when there is none.
    """
    until = now + int(lease * _SECOND)
    due = _EVER if early else now
    rows = yield query.claim_job(kind=kind, owner=owner, now=now, until=until, due=due, failed=_listed(failed))
    return _job(rows[0]) if rows else None


def claim_named(wanted: Wanted, owner: str, *, now: int, lease: float) -> Steps[Job | None]:
    """Take the job of a name, if it is due and nobody works on it; arguments as for `claim`."""
    mark = _mark(wanted.path, wanted.kind, wanted.key)
    rows = yield query.claim_named_job(mark=mark, owner=owner, now=now, until=now + int(lease * _SECOND))
    return _job(rows[0]) if rows else None


def outlook(kind: str, *, failed: Iterable[int] = ()) -> Steps[Outlook]:
    """What there is to do of one kind, but for the jobs of some numbers."""
    [row] = yield query.job_outlook(kind=kind, failed=_listed(failed))
    return Outlook(row["jobs"], row["due_at"], row["free_at"])


def renew(job: Job, *, now: int, lease: float) -> Steps[bool]:
    """Have the lease last longer. Returns whether it still is the owner's."""
    return bool((yield query.renew_job(id=job.id, owner=job.owner, until=now + int(lease * _SECOND))))


def holds(job: Job) -> Steps[bool]:
    """Whether the lease still is the owner's. It stays so to the end of the transaction, which must be one that writes.

    Whoever writes what a job was for asks in the same transaction: what was erased meanwhile, or is done by another, is
    then not written.
    """
    return bool((yield query.hold_job(id=job.id, owner=job.owner)))


def is_of(job: Job) -> Steps[bool]:
    """Whether the lease is the owner's at this moment. Before it goes on with long work, a handler may ask."""
    found = yield query.find_job(mark=_mark(job.path, job.kind, job.key))
    return bool(found) and found[0]["owner"] == job.owner


def finish(job: Job) -> Steps[bool]:
    """The job is done: it goes, or waits to be done again if it was asked for meanwhile.

    Returns:
        Whether it still was the owner's; if not, nothing changes.
    """
    if (yield query.delete_done_job(id=job.id, owner=job.owner)):
        return True
    return bool((yield query.repeat_job(id=job.id, owner=job.owner)))


def fail(job: Job, error: BaseException, *, retry_at: int) -> Steps[bool]:
    """The job failed and waits to be tried again.

    Args:
        job: Which.
        error: Why; kept beside the job, clipped.
        retry_at: When to try again.

    Returns:
        Whether it still was the owner's; if not, nothing changes.
    """
    return bool((yield query.fail_job(id=job.id, owner=job.owner, error=_said(error), retry_at=retry_at)))


def release(job: Job) -> Steps[bool]:
    """The job is put back undone, for anybody. Returns whether it still was the owner's."""
    return bool((yield query.release_job(id=job.id, owner=job.owner)))


def find(path: str, kind: str, key: str = "") -> Steps[Job | None]:
    """The job of a name, whether it waits or is worked on; None when there is none."""
    rows = yield query.find_job(mark=_mark(path, kind, key))
    return _job(rows[0]) if rows else None


def waiting(kinds: Iterable[str] | None = None) -> Steps[int]:
    """How many jobs of some kinds are not done, those included that somebody works on. Default: of all kinds."""
    wanted = None if kinds is None else set(kinds)
    rows = yield query.count_jobs()
    return sum(row["jobs"] for row in rows if wanted is None or row["kind"] in wanted)


def remove(path: str, kind: str, key: str = "") -> Steps[bool]:
    """Delete the job of a name; who works on it cannot finish it. Returns whether there was one."""
    return bool((yield query.delete_job(mark=_mark(path, kind, key))))


def erase(low: str, high: str) -> Steps[int]:
    """Delete every job of the namespaces in a range of paths. Returns how many there were."""
    return len((yield query.erase_jobs(low=low, high=high)))


def problems() -> Steps[list[str]]:
    """What is wrong with the queue, in sentences."""
    found: list[str] = []
    after = -1
    while rows := (yield query.job_marks(after=after, limit=PAGE)):
        found += [
            f"the job {row['id']} is not kept under its name"
            for row in rows
            if digest(_name(row["path"], row["kind"], bytes(row["key"]))) != bytes(row["mark"])
        ]
        after = rows[-1]["id"]
    return found


def _mark(path: str, kind: str, key: str) -> bytes:
    if not _KIND.fullmatch(kind):
        raise InvalidInput(
            f"{safe_repr(kind)} cannot be a kind of job: kinds are words of small letters, such as 'embed'."
        )
    return digest(_name(path, kind, _bytes(key)))


def _name(path: str, kind: str, key: bytes) -> bytes:
    return b"%s\0%s\0%s" % (path.encode(), kind.encode(), key)  # neither path nor kind has a NUL


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _listed(numbers: Iterable[int]) -> str:
    return json.dumps(list(numbers))


def _said(error: BaseException) -> str:
    """An error as a text that every database can keep."""
    text = f"{type(error).__name__}: {error}"[:LONGEST_ERROR]
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _job(row: Any) -> Job:
    return Job(
        id=row["id"],
        path=row["path"],
        kind=row["kind"],
        key=bytes(row["key"]).decode("utf-8", "surrogatepass"),
        payload=bytes(row["payload"]),
        attempts=row["attempts"],
        not_before=row["not_before"],
        owner=row["owner"],
        lease_until=row["lease_until"],
        error=row["error"],
        created_at=row["created_at"],
    )
