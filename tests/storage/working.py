"""Handlers of jobs that remember what they did, and how to wait for them."""

import threading

from langchain_agentmem.storage import jobs
from langchain_agentmem.storage.jobs import WantedJob
from tests.support.waiting import Awaited

HOUR = 3_600_000_000


def put(database, *keys, kind="work", **options):
    for key in keys:
        database.engine.write(lambda tx, key=key: jobs.enqueue(tx, WantedJob("", kind, key), now=jobs.now(), **options))


def waiting(database, *kinds):
    return database.engine.read(lambda tx: jobs.waiting(tx, kinds or None))


def find(database, key, kind="work"):
    return database.engine.read(lambda tx: jobs.find(tx, "", kind, key))


class Doing:
    """A handler that remembers what it did; it can be held up, and can fail."""

    def __init__(self, *refused):
        self.tried, self.done, self.refused = Awaited(), Awaited(), set(refused)
        self.began, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def __call__(self, job):
        self.began.set()
        assert self.go_on.wait(60)
        self.tried.append(job.key)
        if job.key in self.refused:
            raise ValueError(f"not {job.key}")
        self.done.append(job.key)


def doing_of(database, *refused):
    """Registers a handler for the work."""
    doing = Doing(*refused)
    database.worker.register("work", doing)
    return doing


def held_up(database):
    """Has a handler begin with a job, and wait."""
    doing = doing_of(database)
    doing.go_on.clear()
    put(database, "a")
    database.worker.wake("work")
    assert doing.began.wait(60)
    return doing
