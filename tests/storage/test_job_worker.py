"""The threads that do what the queue holds: each job once, none forgotten, none in the way of another."""

import asyncio
import gc
import threading
import weakref

import pytest

from langchain_agentmem.errors import MemoryClosed, StorageError
from langchain_agentmem.storage import jobs
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.jobs import WantedJob
from tests.storage.working import HOUR, Doing, doing_of, find, held_up, put, waiting
from tests.support.waiting import Awaited


class TestInTheBackground:
    def test_what_another_process_asks_for_is_seen(self, database, opened, monkeypatch):
        monkeypatch.setattr(jobs, "LOOK", 0.02)
        doing = doing_of(database)
        database.worker.wake("work")
        put(opened(), "a")
        doing.done.wait(1)
        assert doing.done == ["a"]

    def test_one_kind_does_not_wait_for_another_and_no_news_is_lost_while_it_works(self, database):
        slow, quick = held_up(database), Doing()
        database.worker.register("play", quick)
        put(database, "b", kind="play")
        database.worker.wake("play")
        quick.done.wait(1)
        assert slow.done == []
        put(database, "a", "c", "d")
        database.worker.wake("work")
        slow.go_on.set()
        slow.done.wait(4)
        assert slow.done in (["a", "a", "c", "d"], ["a", "c", "d", "a"])

    def test_a_kind_that_nobody_here_knows_is_left_for_others(self, database):
        put(database, "a")
        database.worker.wake("work")
        database.worker.hurry("work", 0.0)
        database.worker.settle()
        database.worker.settle(["work"])
        database.worker.stop("work")
        assert waiting(database) == 1

    def test_an_idle_queue_is_read_but_never_written(self, database, monkeypatch):
        monkeypatch.setattr(jobs, "LOOK", 0.01)
        database.worker.register("work", Doing())
        put(database, "later", not_before=jobs.now() + HOUR)
        reads, writes = Awaited(), []
        read, write = database.engine.read, database.engine.write
        monkeypatch.setattr(database.engine, "read", lambda make: (reads.append(make), read(make))[1])
        monkeypatch.setattr(database.engine, "write", lambda make: (writes.append(make), write(make))[1])
        database.worker.wake("work")
        reads.wait(21)
        assert writes == []

    def test_what_ought_to_be_in_the_queue_is_found_and_done(self, database):
        doing = Doing()

        def wanted(tx):
            known = jobs.find(tx, "", "work", "found")
            return [] if known or doing.done else [WantedJob("", "work", "found", b"payload")]

        database.worker.register("work", doing, find=wanted)
        database.worker.settle()
        assert doing.done == ["found"]
        assert waiting(database) == 0


class TestFailing:
    def test_a_job_that_fails_is_tried_again_and_keeps_no_other(self, database, monkeypatch, caplog):
        monkeypatch.setattr(jobs, "pause", lambda attempts: 0.05)
        monkeypatch.setattr(jobs, "LOOK", 3_600.0)  # it is looked for when it is due
        doing = doing_of(database, "bad")
        put(database, "bad", "good")
        database.worker.wake("work")
        doing.tried.wait(4)  # when it begins for the third time, the second is in the queue
        assert find(database, "bad").attempts >= 2
        assert doing.done == ["good"]
        assert find(database, "bad").error == "ValueError: not bad"
        assert "not bad" in caplog.text
        doing.refused.clear()
        doing.done.wait(2)
        database.worker.settle()
        assert doing.done == ["good", "bad"]

    def test_a_database_that_fails_for_a_while_does_not_end_the_work(self, database, monkeypatch, caplog):
        monkeypatch.setattr(jobs, "LOOK", 0.02)
        doing, real, broken, reads = Doing(), database.engine.read, threading.Event(), Awaited()
        broken.set()

        def read(make):
            if broken.is_set():
                reads.append(make)
                raise StorageError("busy")
            return real(make)

        monkeypatch.setattr(database.engine, "read", read)
        database.worker.register("work", doing)
        put(database, "a")
        database.worker.wake("work")
        reads.wait(2)
        broken.clear()
        doing.done.wait(1)
        assert "cannot be looked at" in caplog.text

    def test_nothing_that_a_handler_raises_ends_the_thread(self, database):
        done, errors = Awaited(), {"a": SystemExit, "b": KeyboardInterrupt, "c": asyncio.CancelledError}

        def handler(job):
            if job.key in errors:
                raise errors[job.key]
            done.append(job.key)

        database.worker.register("work", handler)
        put(database, *errors, "good")
        database.worker.wake("work")
        done.wait(1)
        assert {find(database, key).attempts for key in errors} == {1}

    def test_who_is_interrupted_gives_the_job_back(self, database):
        def interrupted(job):
            raise KeyboardInterrupt

        database.worker.register("work", interrupted)
        put(database, "a")
        with pytest.raises(KeyboardInterrupt):
            database.worker.settle()
        assert (find(database, "a").owner, find(database, "a").attempts) == (None, 0)


class TestSettling:
    def test_it_does_everything_here_and_now(self, database):
        doing, threads = Doing(), []
        database.worker.register("work", lambda job: (threads.append(threading.current_thread()), doing(job)))
        put(database, "a")
        put(database, "later", not_before=jobs.now() + HOUR)
        database.worker.settle()
        assert doing.done == ["a", "later"]
        assert set(threads) == {threading.current_thread()}

    async def test_awaited_it_holds_up_nobody_and_after_the_end_it_says_so(self, database):
        doing = doing_of(database)
        doing.go_on.clear()
        put(database, "a")
        settling = asyncio.create_task(database.worker.asettle())
        assert await asyncio.to_thread(doing.began.wait, 60)
        doing.go_on.set()
        await settling
        assert doing.done == ["a"]
        database.close()
        with pytest.raises(MemoryClosed):
            await database.worker.asettle()

    def test_it_raises_the_first_failure_when_all_were_tried(self, database):
        doing = doing_of(database, "a", "c")
        put(database, "a", "b", "c", "d")
        with pytest.raises(ValueError, match="not a"):
            database.worker.settle()
        assert doing.done == ["b", "d"]
        assert {find(database, key).attempts for key in "ac"} == {1}
        doing.refused.clear()  # what failed is tried again, though it is not due
        database.worker.settle()
        assert doing.done == ["b", "d", "a", "c"]

    def test_a_handler_that_settles_does_not_wait_for_itself(self, database):
        play, seen = Doing(), Awaited()
        database.worker.register("play", play)

        def handler(job):
            put(database, job.key, kind="play")
            database.worker.settle()
            database.worker.hurry("work", 3_600.0)
            seen.append(list(play.done))

        database.worker.register("work", handler)
        put(database, "a")
        database.worker.wake("work")
        seen.wait(1)
        put(database, "b")
        database.worker.settle()
        assert seen == [["a"], ["a", "b"]]

    def test_it_waits_for_what_others_work_on(self, opened):
        one, other = opened(), opened()
        doing = held_up(one)
        doing_of(other)
        begun, seen = threading.Event(), []
        thread = threading.Thread(target=lambda: (begun.set(), other.worker.settle(), seen.extend(doing.done)))
        thread.start()
        assert begun.wait(60)
        doing.go_on.set()
        thread.join(60)
        assert seen == ["a"]


class TestHurrying:
    def test_who_waited_in_vain_spares_the_next_ones_the_waiting(self, database, monkeypatch):
        monkeypatch.setattr(jobs, "LOOK", 3_600.0)  # nobody but who hurries has it done
        doing = doing_of(database)
        doing.go_on.clear()
        put(database, "a")
        database.worker.hurry("work", 0.01)
        database.worker.hurry("work", 3_600.0)
        doing.go_on.set()
        lane = database.worker._lanes["work"]
        with lane._news:
            assert lane._news.wait_for(lambda: not lane._behind, 60)
        put(database, "b")
        database.worker.hurry("work", 60.0)
        assert doing.done == ["a", "b"]


class TestLeases:
    def test_a_lease_is_renewed_as_long_as_the_work_takes_and_a_failure_tried_again(
        self, database, monkeypatch, caplog
    ):
        monkeypatch.setattr(jobs, "RENEW", 0.01)
        real, failures, renewals = jobs.renew, [StorageError("busy")], Awaited()

        def renew(tx, job, **options):
            renewals.append(job)
            if failures:
                raise failures.pop()
            return real(tx, job, **options)

        monkeypatch.setattr(jobs, "renew", renew)
        doing = held_up(database)
        first = find(database, "a").lease_until
        renewals.wait(len(renewals) + 3)  # one may fail, and the last has only begun
        assert find(database, "a").lease_until > first
        assert "not renewed" in caplog.text
        doing.go_on.set()
        database.worker.settle()
        assert (doing.done, waiting(database)) == (["a"], 0)


class TestClosing:
    def test_it_waits_for_no_handler_and_gives_the_job_back(self, database, opened):
        hung, doing = held_up(database), Doing()
        database.close()
        other = opened()
        assert find(other, "a").owner is None
        other.worker.register("work", doing)
        other.worker.settle()
        assert doing.done == ["a"]
        hung.go_on.set()
        hung.done.wait(1)
        assert waiting(other) == 0

    @pytest.mark.parametrize("closed", [True, False], ids=["closed twice", "nobody uses it any more"])
    def test_nothing_runs_on_after_the_end_of_a_database(self, url, closed):
        before = set(threading.enumerate())
        database, gone = Database(url), threading.Event()
        weakref.finalize(database, gone.set)
        doing = doing_of(database)
        put(database, "a")
        database.worker.wake("work")
        doing.done.wait(1)
        threads = set(threading.enumerate()) - before
        assert {thread.name for thread in threads} >= {"agentmem-work", "agentmem-lease"}
        for _ in range(2 * closed):
            database.close()
        del database
        gc.collect()
        assert gone.wait(60)
        for thread in threads:
            thread.join(60)
        assert not set(threading.enumerate()) - before

    def test_closing_while_a_job_is_about_to_be_taken_is_no_failure_and_gives_it_back(
        self, database, monkeypatch, caplog
    ):
        take = jobs._Leases.take

        def late(leases, *given):
            database.worker.stop("work")  # meanwhile
            return take(leases, *given)

        monkeypatch.setattr(jobs._Leases, "take", late)
        doing = doing_of(database)
        put(database, "a")
        database.worker.wake("work")
        database.worker._lanes["work"]._thread.join(60)
        assert (doing.done, find(database, "a").owner, caplog.records) == ([], None, [])

    def test_one_kind_can_be_stopped_and_is_then_done_only_when_asked(self, database, monkeypatch):
        monkeypatch.setattr(jobs, "LOOK", 0.01)
        doing, other = doing_of(database), Doing()
        database.worker.register("play", other)
        database.worker.wake("work")
        database.worker.stop("work")
        put(database, "a")
        put(database, "b", kind="play")
        for kind in ("work", "play"):
            database.worker.wake(kind)
            database.worker.hurry(kind, 60.0)
        assert (doing.done, other.done) == ([], ["b"])
        database.worker.settle(["work"])
        assert doing.done == ["a"]


class TestErasing:
    def test_what_a_job_made_of_erased_things_is_not_written(self, memory):
        database, held = memory.database, []

        def handler(job):
            memory.erase(namespace=())  # while a model thinks about it
            held.append(database.engine.write(lambda tx: jobs.holds(tx, job)))

        database.worker.register("work", handler)
        put(database, "a")
        database.worker.settle()
        assert held == [False]
        assert waiting(database) == 0


class TestAttempting:
    """Work that whoever wants it does itself, if nobody else is at it."""

    def test_it_is_done_in_this_thread_and_gone(self, database):
        put(database, "b", "c")
        here, done = threading.get_ident(), []
        for key in "ac":
            wanted = WantedJob("", "work", key)
            assert database.worker.attempt(wanted, lambda job: done.append((job.key, threading.get_ident()))) is None
        assert done == [("a", here), ("c", here)]
        assert waiting(database) == 1

    def test_while_another_is_at_it_nobody_waits_for_it(self, opened):
        one, other = opened(), opened()
        wanted = WantedJob("", "work", "a")
        pauses = []
        one.worker.attempt(wanted, lambda _: pauses.append(other.worker.attempt(wanted, pytest.fail)))
        assert 0 < pauses[0] < 1
        assert waiting(other) == 0

    def test_what_fails_is_raised_and_waits(self, database):
        wanted = WantedJob("", "work", "a")
        with pytest.raises(ZeroDivisionError):
            database.worker.attempt(wanted, lambda _: 1 / 0)
        assert 0 < database.worker.attempt(wanted, pytest.fail) <= 1
