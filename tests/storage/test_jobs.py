"""The queue: a job is asked for once, done by one at a time, and never forgotten."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from langchain_agentmem.base.namespaces import path_of
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import jobs
from langchain_agentmem.storage.jobs import WantedJob

NOW = 1_000_000_000
SECOND = 1_000_000
LEASE = 10.0
LONG = "k" * 9_999
HOSTILE = ["", "\0", "a\0b", "\ud800", "'; drop table job; --", "\x1f", "%_\\", "猫 🐈", LONG + "k", LONG + "l"]


@pytest.fixture
def queue(memory):
    """The operations, run on an open database."""
    return Queue(memory.database.engine)


class Queue:
    def __init__(self, engine):
        self.engine = engine

    def put(self, key="k", *, kind="work", payload=b"", path="", now=NOW, **options):
        self.engine.write(lambda tx: jobs.enqueue(tx, WantedJob(path, kind, key, payload), now=now, **options))

    def claim(self, owner="me", *, kind="work", now=NOW, **options):
        return self.engine.write(lambda tx: jobs.claim(tx, kind, owner, now=now, lease=LEASE, **options))

    def __getattr__(self, name):
        return lambda *given, **options: self.engine.write(lambda tx: getattr(jobs, name)(tx, *given, **options))


class TestAsking:
    def test_namespace_kind_and_key_make_the_name(self, queue):
        for path in ("", path_of(("a",))):
            for kind in ("work", "play"):
                for key in ("1", "2"):
                    queue.put(key, kind=kind, path=path)
        assert queue.waiting() == 8
        assert queue.waiting(["work"]) == 4
        assert queue.waiting(["work", "play"]) == 8
        assert queue.waiting([]) == 0
        assert queue.find(path_of(("a",)), "play", "2").namespace == ("a",)
        assert queue.find(path_of(("a",)), "play", "3") is None

    def test_while_it_is_worked_on_has_it_done_again_afterwards(self, queue):
        queue.put(payload=b"old")
        job = queue.claim()
        queue.put(payload=b"new")
        assert queue.claim("other") is None
        assert queue.finish(job) is True
        again = queue.claim("other")
        assert (again.id, again.payload) == (job.id, b"new")
        assert queue.finish(again) is True
        assert queue.waiting() == 0

    def test_for_something_earlier_counts_and_for_something_later_does_not(self, queue):
        queue.put(not_before=NOW + 5)
        queue.put(not_before=NOW + 9)
        assert queue.find("", "work", "k").not_before == NOW + 5
        queue.put(not_before=NOW + 2)
        assert queue.find("", "work", "k").not_before == NOW + 2

    def test_any_text_is_a_key_and_a_small_word_a_kind(self, queue):
        for key in HOSTILE:
            queue.put(key, payload=key.encode("utf-8", "surrogatepass"))
        assert queue.waiting() == len(HOSTILE)
        assert queue.problems() == []
        for left, key in enumerate(reversed(HOSTILE)):
            job = queue.find("", "work", key)
            assert (job.key, job.payload) == (key, key.encode("utf-8", "surrogatepass"))
            assert [queue.remove("", "work", key) for _ in range(2)] == [True, False]
            assert queue.waiting() == len(HOSTILE) - 1 - left
        for kind in ("", "Work", "a b", "a\0", "é", "x" * 41):
            with pytest.raises(InvalidInput, match="kind of job"):
                queue.put(kind=kind)


class TestTaking:
    def test_the_oldest_that_is_due_comes_first(self, queue):
        queue.put("later", not_before=NOW + SECOND)
        queue.put("first")
        queue.put("second")
        assert [queue.claim(name).key for name in "ab"] == ["first", "second"]
        assert queue.claim("c") is None
        assert queue.claim("c", early=True).key == "later"

    def test_the_outlook_says_when_there_is_something_to_do(self, queue):
        assert queue.outlook("work") == (0, None, None)
        queue.put(not_before=NOW + 7)
        assert queue.outlook("work") == (1, NOW + 7, 0)
        job = queue.claim(early=True)
        assert queue.outlook("work") == (1, job.lease_until, job.lease_until)
        assert queue.outlook("play") == (0, None, None)

    def test_no_job_is_ever_shared_by_threads_nor_by_who_opened_the_database_anew(self, opened):
        queues = [Queue(opened().engine) for _ in range(2)]
        for number in range(40):
            queues[0].put(str(number))
        start = threading.Barrier(4)

        def take(name):
            start.wait()
            queue = queues[name % 2]
            return list(iter(lambda: (job := queue.claim(str(name))) and job.key, None))

        with ThreadPoolExecutor(4) as threads:
            taken = [key for keys in threads.map(take, range(4)) for key in keys]
        assert sorted(taken, key=int) == [str(number) for number in range(40)]


class TestLeases:
    def test_one_that_was_renewed_and_ran_out_is_taken_over_and_counts_as_an_attempt(self, queue):
        queue.put()
        assert queue.release(queue.claim("nobody")) is True  # what is given back has not failed
        job = queue.claim("first")
        assert job.lease_until == NOW + 10 * SECOND
        assert queue.claim("second", now=job.lease_until - 1) is None
        assert queue.renew(job, now=NOW + 9 * SECOND, lease=LEASE) is True
        job = queue.find("", "work", "k")
        assert job.lease_until == NOW + 19 * SECOND
        assert queue.claim("second", now=job.lease_until - 1) is None
        taken = queue.claim("second", now=job.lease_until)
        assert (taken.id, taken.owner, taken.attempts) == (job.id, "second", 1)

    def test_the_former_owner_can_do_nothing_any_more(self, queue):
        queue.put()
        job = queue.claim("first")
        assert queue.holds(job)
        taken = queue.claim("second", now=job.lease_until)
        assert [getattr(queue, name)(job) for name in ("holds", "is_of", "finish", "release")] == [False] * 4
        assert queue.fail(job, ValueError(), retry_at=NOW) is False
        assert queue.renew(job, now=NOW, lease=LEASE) is False
        assert queue.find("", "work", "k") == taken
        assert queue.finish(taken) is True

    def test_a_job_that_is_removed_is_nobodys(self, queue):
        queue.put()
        job = queue.claim()
        queue.remove("", "work", "k")
        queue.put()
        assert queue.holds(job) is False
        assert queue.finish(job) is False
        assert queue.waiting() == 1


class TestFailing:
    def test_a_job_waits_says_why_and_can_be_left_out(self, queue):
        queue.put()
        queue.put("other")
        assert queue.fail(queue.claim(), ValueError("no model"), retry_at=NOW + SECOND) is True
        job = queue.find("", "work", "k")
        assert (job.attempts, job.error, job.owner) == (1, "ValueError: no model", None)
        queue.put(payload=b"new")  # which does not hurry it
        assert queue.claim(now=NOW + SECOND - 1).key == "other"
        assert queue.claim(now=NOW + SECOND, failed=[job.id]) is None
        assert queue.outlook("work", failed=[job.id]).jobs == queue.outlook("work").jobs - 1 == 1
        again = queue.claim(now=NOW + SECOND)
        assert again.payload == b"new"
        queue.fail(again, ValueError("again"), retry_at=NOW)
        assert queue.find("", "work", "k").attempts == 2

    def test_any_error_can_be_kept(self, queue):
        queue.put()
        for text in ("\0", "\ud800", "x" * 100_000, "'\"%s"):
            assert queue.fail(queue.claim(), ValueError(text), retry_at=NOW) is True
            assert 0 < len(queue.find("", "work", "k").error) <= jobs.LONGEST_ERROR

    def test_being_done_again_begins_anew(self, queue):
        queue.put()
        queue.fail(queue.claim(), ValueError("no"), retry_at=NOW)
        job = queue.claim()
        queue.put()
        queue.finish(job)
        again = queue.claim()
        assert (again.attempts, again.error) == (0, None)

    def test_the_pause_doubles_up_to_a_minute(self):
        assert [jobs.pause(attempts) for attempts in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
        assert jobs.pause(10_000) == 60


class TestCare:
    def test_erasing_a_namespace_erases_its_jobs_and_those_below(self, queue, memory):
        for namespace in ((), ("a",), ("a", "b"), ("ab",)):
            queue.put(path=path_of(namespace))
        held = queue.claim()
        memory.erase(namespace=("a",))
        assert queue.find(path_of(("a",)), "work", "k") is None
        assert queue.find(path_of(("a", "b")), "work", "k") is None
        assert queue.waiting() == 2
        assert queue.holds(held)
        memory.erase(namespace=())
        assert queue.waiting() == 0
        assert queue.finish(held) is False

    def test_they_are_counted_and_verified(self, queue, memory, raw):
        queue.put("a")
        queue.put("b")
        assert memory.admin.stats()["jobs"] == 2
        report = memory.admin.verify()
        assert report.ok
        assert report.checked["jobs"] == 2
        raw(memory, "update job set kind = 'other' where key = :key", key=b"a")
        [problem] = memory.admin.verify().problems
        assert "is not kept under its name" in problem
