"""Work that is done later: one queue in the database, for every kind of work and every process.

A job has a name, of namespace, kind and key, and there is one of each name at most: who asks for it twice gets it once.
Whoever works on it has a *lease*, and renews it meanwhile. When a process dies its leases run out, and another takes
its jobs over; the former owner, should it come back, can no longer finish them. News that comes while a job is being
worked on makes it be done again afterwards, so none is lost.

The operations come first, then the `Worker` with its threads. Times are microseconds since 1970 by the system's clock,
which all who share a queue go by.

What is asked for in the queue is done: in the background by threads of this process, or at once by whoever settles.

A kind of job has a handler, a function that does one job and raises if it cannot, and a thread of its own, so that none
waits for another's. The thread begins when there is something to do for the first time. `wake` tells it of news in this
process; what other processes ask for it sees within some seconds. An idle queue is read now and then, never written.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

from langchain_agentmem.base.concurrency import PerProcess
from langchain_agentmem.base.namespaces import Namespace, namespace_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import AgentMemoryError, InvalidInput, MemoryClosed
from langchain_agentmem.storage import Engine, Operation, Transaction, query
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


class WantedJob(NamedTuple):
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


class JobOutlook(NamedTuple):
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


def pause(attempts: int, longest: float = LONGEST_PAUSE) -> float:
    """Seconds until something is tried again that has failed so often before: 1, 2, 4, and so on up to a longest."""
    return min(2.0 ** min(attempts, 10), longest)


def key_in(name: str, what: str = "") -> str:
    """The key of a job on a thread or conversation: a move knows it by its beginning, and no name stands in it.

    Args:
        name: The id of the thread.
        what: What tells several jobs on one apart. Default: the beginning that all have.
    """
    marks = (blake2b(_bytes(text), digest_size=16).hexdigest() for text in (name, what) if text)
    return "\x1f" + "".join(marks)


def enqueue(tx: Transaction, wanted: WantedJob, *, now: int, not_before: int = AT_ONCE) -> None:
    """Ask for a job.

    One of the same name that waits already gets the new payload; a time that is earlier counts, unless it waits because
    it failed. One that somebody works on is done again afterwards, with the new payload.

    Args:
        tx: The transaction.
        wanted: What is to be done.
        now: When it is asked for.
        not_before: When to do it. Default: at once.

    Raises:
        InvalidInput: The kind is no word of small letters.
    """
    query.enqueue_job(
        tx,
        mark=_mark(wanted.path, wanted.kind, wanted.key),
        path=wanted.path,
        kind=wanted.kind,
        key=_bytes(wanted.key),
        payload=wanted.payload,
        not_before=not_before,
        now=now,
    )


def claim(
    tx: Transaction, kind: str, owner: str, *, now: int, lease: float, early: bool = False, failed: Iterable[int] = ()
) -> Job | None:
    """Take the oldest job that is due and that nobody works on.

    Args:
        tx: The transaction.
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
    rows = query.claim_job(tx, kind=kind, owner=owner, now=now, until=until, due=due, failed=_listed(failed))
    return _job(rows[0]) if rows else None


def claim_named(tx: Transaction, wanted: WantedJob, owner: str, *, now: int, lease: float) -> Job | None:
    """Take the job of a name, if it is due and nobody works on it; arguments as for `claim`."""
    mark = _mark(wanted.path, wanted.kind, wanted.key)
    rows = query.claim_named_job(tx, mark=mark, owner=owner, now=now, until=now + int(lease * _SECOND))
    return _job(rows[0]) if rows else None


def outlook(tx: Transaction, kind: str, *, failed: Iterable[int] = ()) -> JobOutlook:
    """What there is to do of one kind, but for the jobs of some numbers."""
    [row] = query.job_outlook(tx, kind=kind, failed=_listed(failed))
    return JobOutlook(row["jobs"], row["due_at"], row["free_at"])


def renew(tx: Transaction, job: Job, *, now: int, lease: float) -> bool:
    """Have the lease last longer. Returns whether it still is the owner's."""
    return bool(query.renew_job(tx, id=job.id, owner=job.owner, until=now + int(lease * _SECOND)))


def holds(tx: Transaction, job: Job) -> bool:
    """Whether the lease still is the owner's. It stays so to the end of the transaction, which must be one that writes.

    Whoever writes what a job was for asks in the same transaction: what was erased meanwhile, or is done by another, is
    then not written.
    """
    return bool(query.hold_job(tx, id=job.id, owner=job.owner))


def is_of(tx: Transaction, job: Job) -> bool:
    """Whether the lease is the owner's at this moment. Before it goes on with long work, a handler may ask."""
    found = query.find_job(tx, mark=_mark(job.path, job.kind, job.key))
    return bool(found) and found[0]["owner"] == job.owner


def finish(tx: Transaction, job: Job) -> bool:
    """The job is done: it goes, or waits to be done again if it was asked for meanwhile.

    Returns:
        Whether it still was the owner's; if not, nothing changes.
    """
    if query.delete_done_job(tx, id=job.id, owner=job.owner):
        return True
    return bool(query.repeat_job(tx, id=job.id, owner=job.owner))


def fail(tx: Transaction, job: Job, error: BaseException, *, retry_at: int) -> bool:
    """The job failed and waits to be tried again.

    Args:
        tx: The transaction.
        job: Which.
        error: Why; kept beside the job, clipped.
        retry_at: When to try again.

    Returns:
        Whether it still was the owner's; if not, nothing changes.
    """
    return bool(query.fail_job(tx, id=job.id, owner=job.owner, error=_said(error), retry_at=retry_at))


def release(tx: Transaction, job: Job) -> bool:
    """The job is put back undone, for anybody. Returns whether it still was the owner's."""
    return bool(query.release_job(tx, id=job.id, owner=job.owner))


def find(tx: Transaction, path: str, kind: str, key: str = "") -> Job | None:
    """The job of a name, whether it waits or is worked on; None when there is none."""
    rows = query.find_job(tx, mark=_mark(path, kind, key))
    return _job(rows[0]) if rows else None


def waiting(tx: Transaction, kinds: Iterable[str] | None = None) -> int:
    """How many jobs of some kinds are not done, those included that somebody works on. Default: of all kinds."""
    wanted = None if kinds is None else set(kinds)
    rows = query.count_jobs(tx)
    return sum(row["jobs"] for row in rows if wanted is None or row["kind"] in wanted)


def remove(tx: Transaction, path: str, kind: str, key: str = "") -> bool:
    """Delete the job of a name; who works on it cannot finish it. Returns whether there was one."""
    return bool(query.delete_job(tx, mark=_mark(path, kind, key)))


def erase(tx: Transaction, low: str, high: str) -> int:
    """Delete every job of the namespaces in a range of paths. Returns how many there were."""
    return len(query.erase_jobs(tx, low=low, high=high))


def problems(tx: Transaction) -> list[str]:
    """What is wrong with the queue, in sentences."""
    found: list[str] = []
    after = -1
    while rows := query.job_marks(tx, after=after, limit=PAGE):
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
    key = bytes(row["key"]).decode("utf-8", "surrogatepass")
    return Job(**{**row, "key": key, "payload": bytes(row["payload"])})


logger = logging.getLogger(__name__)

LEASE = 15.0
"""Seconds after which the job of a process that died may be taken over."""
RENEW = 5.0
"""Seconds between two renewals of the leases on what is worked on."""
LOOK = 5.0
"""Seconds after which a thread looks again unasked: another process may have asked for something."""
_SOON, _LATER = 0.02, 0.25  # seconds between two looks whether another has done its job
_THREADS = "agentmem-"

Handler = Callable[[Job], object]
"""Does one job. What it raises makes the job wait and be tried again."""


class Worker:
    """Does the jobs of one open database.

    Args:
        engine: The database.
        now: Gives the time in microseconds. Default: the system's.
    """

    def __init__(self, engine: Engine, *, now: Callable[[], int] = now) -> None:
        self._engine = engine
        self._now = now
        self._leases = _Leases(now)
        self._lanes: dict[str, _Lane] = {}

    def register(self, kind: str, handler: Handler, *, find: Operation[Iterable[WantedJob]] | None = None) -> None:
        """Say how jobs of a kind are done, from now on. They are, once `wake` or `settle` is called.

        Args:
            kind: What kind of job.
            handler: Does one, in any thread, as long as it takes. The worker's thread holds it, so what it holds is
                kept. What it did it writes only if `jobs.holds` says in the same transaction that it is still wanted.
            find: Finds what ought to be in the queue and is not; called whenever somebody looks. It only reads.
        """
        lane = self._lanes.get(kind)
        if lane is None:
            lane = self._lanes[kind] = _Lane(kind, self._engine, self._now, self._leases)
        lane.handler, lane.find = handler, find

    def wake(self, kind: str) -> None:
        """There may be jobs of a kind: go to work in the background. Does nothing where nobody knows how, or may."""
        if (lane := self._lanes.get(kind)) is not None and not self._engine.opening.read_only:
            lane.wake()

    def hurry(self, kind: str, patience: float) -> None:
        """Have the jobs of a kind done now, also those that are not due yet, and wait a little for it.

        Who waited in vain need not wait again before that work is done.

        Args:
            kind: What kind of jobs.
            patience: Seconds to wait at most.
        """
        if (lane := self._lanes.get(kind)) is not None and not self._engine.opening.read_only:
            lane.hurry(patience)

    def attempt(self, wanted: WantedJob, handler: Handler) -> float | None:
        """Do one job in this thread, unless it failed a moment ago or somebody else is at it.

        Args:
            wanted: The job. It is asked for, if it is not yet.
            handler: Does it.

        Returns:
            None when it is done; else the seconds after which another attempt makes sense.

        Raises:
            BaseException: What the handler raised. The job waits to be tried again.
        """
        now, engine = self._now(), self._engine
        there = engine.read(lambda tx: find(tx, wanted.path, wanted.kind, wanted.key))
        if there is not None and there.owner is not None and (there.lease_until or 0) > now:
            return _LATER
        if there is not None and there.not_before > now:
            return max((there.not_before - now) / _SECOND, _SOON)
        job = self._leases.take(engine, lambda tx: self._take(tx, wanted))
        if job is None:  # another was quicker
            return _SOON
        lane = _Lane(wanted.kind, engine, self._now, self._leases)
        lane.handler = handler
        if (error := lane.do(job, background=False)) is not None:
            raise error
        return None

    def _take(self, tx: Transaction, wanted: WantedJob) -> Job | None:
        now = self._now()
        enqueue(tx, wanted, now=now)
        return claim_named(tx, wanted, secrets.token_hex(16), now=now, lease=LEASE)

    def settle(self, kinds: Iterable[str] | None = None) -> None:
        """Do all jobs now, also those that are not due yet, and wait for those that others work on.

        A handler that calls it does not wait for jobs of its own kind.

        Args:
            kinds: Jobs of which kinds. Default: of all that this process knows how to do.

        Raises:
            Exception: What the first handler that failed has raised, after all jobs were tried.
        """
        asked = dict.fromkeys(self._lanes if kinds is None else kinds)
        lanes = [self._lanes[kind] for kind in asked if kind in self._lanes]
        failed: dict[str, dict[int, BaseException]] = {lane.kind: {} for lane in lanes}
        working = True
        while working:  # one kind of job may ask for another
            working = False
            for lane in lanes:
                working = lane.work(failed[lane.kind], early=True) or working
        for errors in failed.values():
            for error in errors.values():
                raise error

    async def asettle(self, kinds: Iterable[str] | None = None) -> None:
        """Async version of `settle`."""
        await asyncio.to_thread(self.settle, kinds)

    def stop(self, kind: str) -> None:
        """Do jobs of a kind no more in the background. One that is being done is not waited for."""
        if (lane := self._lanes.get(kind)) is not None:
            lane.stop()

    def close(self) -> None:
        """Work no more. Nothing is waited for: what is being done is given back to the queue, for another process."""
        for lane in self._lanes.values():
            lane.stop()
        # The last user of a database may let go of it in one of its own threads, perhaps within a transaction.
        inside = threading.current_thread().name.startswith(_THREADS)
        for engine, job in self._leases.close(wait=not inside):
            with contextlib.suppress(AgentMemoryError):
                engine.write(partial(release, job=job))


class _Lane:
    """The jobs of one kind, with the thread that does them."""

    handler: Handler
    find: Operation[Iterable[WantedJob]] | None

    _news = PerProcess(threading.Condition)  # guards what follows
    _thread: PerProcess[threading.Thread | None] = PerProcess(lambda: None)
    _woken = PerProcess(bool)
    _hurried = PerProcess(bool)
    _begun = PerProcess(int)  # rounds
    _ended = PerProcess(int)
    _behind = PerProcess(bool)  # somebody has waited in vain, so the next ones need not
    _at_work: PerProcess[set[int]] = PerProcess(set)  # threads, whether the lane's own or not, that are doing a job

    def __init__(self, kind: str, engine: Engine, now: Callable[[], int], leases: _Leases) -> None:
        self.kind = kind
        self._engine = engine
        self._now = now
        self._leases = leases
        self._stopped = False

    def wake(self) -> None:
        with self._news:
            self._woken = True
            self._go_to_work()

    def hurry(self, patience: float) -> None:
        with self._news:
            if self._stopped or self._behind or threading.get_ident() in self._at_work:
                return
            self._hurried = True
            self._go_to_work()
            mine = self._begun + 1
            if not self._news.wait_for(lambda: self._stopped or self._ended >= mine, patience):
                self._behind = True

    def stop(self) -> None:
        with self._news:
            self._stopped = True
            self._news.notify_all()

    def work(self, failed: dict[int, BaseException], *, early: bool, background: bool = False) -> bool:
        """Do jobs until there are none that may be done.

        Args:
            failed: What the handler raised, by the numbers of jobs; these are not tried again.
            early: Whether to do those that are not due yet, and to wait for what others work on.
            background: Whether this is the lane's thread, which ends when it is to.

        Returns:
            Whether anything was done.
        """
        done = False
        delay = _SOON
        if threading.get_ident() in self._at_work:
            return done
        while not (background and self._stopped):
            # Also says whether the database is open.
            wanted, outlook = self._engine.read(lambda tx: self._look(tx, failed))
            at = outlook.free_at if early else outlook.due_at
            job = None
            if wanted or (at is not None and at <= self._now()):
                job = self._leases.take(self._engine, partial(self._take, wanted=wanted, failed=failed, early=early))
            if job is not None and background and self._stopped:  # meanwhile
                with self._leases.on(job):
                    self._engine.write(partial(release, job=job))
            elif job is not None:
                error = self.do(job, background=background)
                if error is None:
                    done, delay = True, _SOON
                else:
                    failed[job.id] = error
            elif early and (outlook.jobs or wanted):
                with self._news:
                    self._news.wait(delay)
                delay = min(2 * delay, _LATER)
            else:
                break
        return done

    def _look(self, tx: Transaction, failed: Iterable[int]) -> tuple[list[WantedJob], JobOutlook]:
        wanted = [] if self.find is None else list(self.find(tx))
        return wanted, outlook(tx, self.kind, failed=failed)

    def _take(self, tx: Transaction, wanted: Iterable[WantedJob], failed: Iterable[int], *, early: bool) -> Job | None:
        now = self._now()
        for each in wanted:
            enqueue(tx, each, now=now)
        owner = secrets.token_hex(16)
        return claim(tx, self.kind, owner, now=now, lease=LEASE, early=early, failed=failed)

    def do(self, job: Job, *, background: bool) -> BaseException | None:
        """Do a job, and say what went wrong."""
        failure: BaseException | None = None
        with self._leases.on(job):
            self._at_work.add(threading.get_ident())
            try:
                self.handler(job)
            except BaseException as error:
                if not (background or isinstance(error, Exception)):  # the caller was interrupted
                    self._engine.write(partial(release, job=job))
                    raise
                failure = error
                retry_at = self._now() + int(pause(job.attempts) * _SECOND)
                self._engine.write(partial(fail, job=job, error=error, retry_at=retry_at))
            else:
                self._engine.write(lambda tx: finish(tx, job))
            finally:
                self._at_work.discard(threading.get_ident())
        with self._news:
            self._news.notify_all()
        return failure

    def _go_to_work(self) -> None:
        if self._thread is None and not self._stopped:
            self._thread = threading.Thread(target=self._run, name=_THREADS + self.kind, daemon=True)
            self._thread.start()
        self._news.notify_all()

    def _run(self) -> None:
        pause, hurried = 0.0, False
        while True:
            with self._news:
                self._news.wait_for(lambda: self._stopped or self._hurried or self._woken, pause)
                hurried, self._woken, self._hurried = self._hurried, False, False
                self._begun += 1
                if self._stopped:
                    break
            try:
                pause = self._round(early=hurried)
            except Exception:  # the jobs wait on
                if self._stopped or not self._engine.usable:
                    break
                pause = LOOK
                logger.warning("The jobs of the kind %r cannot be looked at now.", self.kind, exc_info=True)
            with self._news:
                self._ended = self._begun
                self._behind = False
                self._news.notify_all()
        self.stop()

    def _round(self, *, early: bool) -> float:
        """Do what there is to do. Returns how many seconds to wait before looking again."""
        failed: dict[int, BaseException] = {}
        self.work(failed, early=early, background=True)
        for error in failed.values():
            logger.warning("A job of the kind %r failed, and will be tried again.", self.kind, exc_info=error)
        due_at = self._engine.read(lambda tx: outlook(tx, self.kind)).due_at
        return LOOK if due_at is None else min(max((due_at - self._now()) / _SECOND, _SOON), LOOK)


class _Leases:
    """The leases on what this process works on, renewed by a thread as long as there are any."""

    _taking = PerProcess(threading.RLock)  # held from before a job is taken until it is known here
    _news = PerProcess(threading.Condition)  # guards what follows
    _held: PerProcess[dict[str | None, tuple[Engine, Job]]] = PerProcess(dict)  # by owner
    _thread: PerProcess[threading.Thread | None] = PerProcess(lambda: None)

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._closed = False

    def take(self, engine: Engine, make: Operation[Job | None]) -> Job | None:
        """Run an operation that takes a job, and renew its lease from now on.

        Args:
            engine: Runs it.
            make: Makes it.

        Raises:
            MemoryClosed: No more work is to begin.
        """
        with self._taking:
            if self._closed:
                raise MemoryClosed
            job = engine.write(make)
            if job is not None:
                with self._news:
                    self._held[job.owner] = engine, job
                    if self._thread is None:
                        self._thread = threading.Thread(target=self._run, name=_THREADS + "lease", daemon=True)
                        self._thread.start()
                    self._news.notify_all()
        return job

    @contextlib.contextmanager
    def on(self, job: Job) -> Iterator[None]:
        """Let go of the lease on a job when the block ends."""
        try:
            yield
        finally:
            with self._news:
                self._held.pop(job.owner, None)

    def close(self, *, wait: bool) -> list[tuple[Engine, Job]]:
        """Renew no more.

        Args:
            wait: Whether to wait for a job that is just being taken.

        Returns:
            The jobs that were worked on, with where; none without waiting.
        """
        with self._taking if wait else contextlib.nullcontext(), self._news:
            self._closed = True
            held = list(self._held.values()) if wait else []
            self._held.clear()
            self._news.notify_all()
        return held

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._closed or self._held)
                if self._closed or self._news.wait_for(lambda: self._closed, RENEW):
                    return
                held = list(self._held.values())
            for engine, job in held:
                try:
                    engine.write(partial(renew, job=job, now=self._now(), lease=LEASE))
                except Exception:  # the next time may be in time
                    if not engine.usable:
                        return
                    logger.warning("The lease on a job of the kind %r was not renewed.", job.kind, exc_info=True)
