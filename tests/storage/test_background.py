"""Background tasks: each runs in one process at a time, none is lost, none blocks another."""

import multiprocessing
import os
import signal
import threading
from unittest import mock

import pytest

from langchain_agentmem.base.concurrency import Workers
from langchain_agentmem.errors import MemoryClosed, StorageError
from langchain_agentmem.storage import DatabaseOptions, background
from langchain_agentmem.storage.background import Lease, Task, TaskKey
from langchain_agentmem.storage.database import Database
from tests.support.waiting import Awaited

KEY = TaskKey("", "work", "a")


class Work:
    """A task that has some things to do, and remembers what it did. It can be held up, and can fail."""

    def __init__(self, database, todo=("a",), key=KEY, **options):
        self.todo, self.done, self.failures = list(todo), Awaited(), []
        self.began, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.task = Task(database.background, key, lambda _: 0.0 if self.todo else None, self, **options)

    def __call__(self, lease):
        self.began.set()
        assert self.go_on.wait(60)
        if self.failures:
            raise self.failures.pop(0)
        if self.todo:  # another may have done it between the look at what is due and the lease
            self.done.append(self.todo.pop(0))

    @classmethod
    def held_up(cls, database, **options):
        work = cls(database, **options)
        work.go_on.clear()
        work.task.wake()
        assert work.began.wait(60)
        return work


def leases(database):
    return database.engine.read(lambda tx: background.lease_seconds_left(tx, KEY))


class TestBackgroundTasks:
    def test_task_runs_until_nothing_is_due(self, database):
        work = Work.held_up(database, todo="ab")
        work.todo.append("c")
        work.task.wake()
        work.go_on.set()
        work.done.wait(3)
        assert work.task.wait(60)
        assert (work.done, leases(database)) == (["a", "b", "c"], 0)

    def test_tasks_do_not_wait_for_each_other(self, database):
        slow = Work.held_up(database)
        quick = Work(database, key=TaskKey("", "play"))
        quick.task.wake()
        quick.done.wait(1)
        assert slow.done == []
        slow.go_on.set()

    def test_polling_sees_work_of_others(self, database):
        work = Work(database, (), poll=0.01)
        work.task.wake()
        work.todo.append("a")
        work.done.wait(1)

    def test_failed_work_is_logged_and_retried(self, database, monkeypatch, caplog):
        monkeypatch.setattr(background, "backoff", lambda _: 0.01)
        work = Work(database)
        work.failures = [ValueError("no"), SystemExit(), StorageError("busy")]
        work.task.wake()
        work.done.wait(1)
        assert caplog.text.count("will be retried") == 3

    def test_retry_waits_for_backoff_unless_run_now(self, database, monkeypatch):
        monkeypatch.setattr(background, "backoff", lambda _: 3_600.0)
        work = Work(database)
        work.failures = [ValueError("no")]
        work.task.run_now(60)
        work.task.wake()
        assert work.done == []
        work.task.run_now(60)
        assert work.done == ["a"]

    def test_timed_out_run_now_spares_later_waits(self, database):
        work = Work.held_up(database)
        work.task.run_now(0.01)
        work.task.run_now(3_600)
        work.go_on.set()

    def test_running_work_is_not_started_twice(self, database):
        work = Work.held_up(database)
        database.background._call_once(KEY, lambda: work.done.append("again"))
        work.go_on.set()
        assert work.task.wait(60)
        assert work.done == ["a"]

    @pytest.mark.parametrize("works", [True, False])
    def test_unstartable_thread_defers_work(self, database, monkeypatch, works):
        if not works:
            monkeypatch.setattr(background, "_workers", Workers(1))
        other = Work.held_up(database, key=TaskKey("", "other")) if works else None
        work, begun = Work(database), Awaited()
        with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
            work.task.wake()
            database.background.start_once(TaskKey("", "once"), lambda: begun.append(1))
            if other is not None:
                other.go_on.set()
                work.done.wait(1)
                begun.wait(1)
                work.todo.append("b")
                work.task.settle()
        work.task.wake()
        database.background.start_once(TaskKey("", "once"), lambda: begun.append(1))
        assert work.task.wait(60)
        begun.wait(1)
        assert (work.todo, leases(database)) == ([], 0)


class TestLeases:
    def test_settle_waits_and_overtaken_lease_cannot_write(self, opened):
        one, other = opened(), opened()
        first = Work.held_up(one)
        second = Work(other)
        thread = threading.Thread(target=second.task.settle)
        thread.start()
        first.go_on.set()
        thread.join(60)
        assert (first.done, second.done) == (["a"], ["a"])
        lease = Lease(one.background, KEY)
        assert lease.take()
        assert not Lease(other.background, KEY).take()
        assert one.engine.write(lease.renew)
        one.engine.write(lambda tx: background.query.erase_leases(tx, low="", high="~"))
        assert not one.engine.write(lease.renew)

    def test_exclusive_run_waits_its_turn(self, opened):
        one, other = opened(), opened()
        first = Work.held_up(one)
        order = []
        thread = threading.Thread(
            target=lambda: other.background.run_exclusively(KEY, lambda _: order.append(list(first.done)))
        )
        thread.start()
        first.go_on.set()
        thread.join(60)
        assert order == [["a"]]

    def test_lease_is_renewed_while_work_runs(self, database, monkeypatch, caplog):
        monkeypatch.setattr(background, "RENEW_SECONDS", 0.01)
        real, failures, renewals = Lease.renew, [StorageError("busy")], Awaited()

        def holds(lease, tx):
            renewals.append(lease)
            if failures:
                raise failures.pop()
            return real(lease, tx)

        monkeypatch.setattr(Lease, "renew", holds)
        work = Work.held_up(database)
        renewals.wait(3)
        assert "was not renewed" in caplog.text
        work.go_on.set()
        assert work.task.wait(60)

    @pytest.mark.parametrize("raised", [ValueError("no"), KeyboardInterrupt()])
    def test_settle_raises_failure_and_releases_lease(self, database, raised):
        work = Work(database)
        work.failures = [raised]
        with pytest.raises(type(raised)):
            work.task.settle()
        assert leases(database) == 0
        work.task.settle()
        assert work.done == ["a"]

    def test_work_can_settle_itself(self, database):
        work = Work(database)
        work.done = type("Done", (list,), {"append": lambda self, _: work.task.settle() or work.task.run_now(3_600)})()
        work.task.settle()

    def test_another_process_takes_over_after_kill(self, url, opened, forks, monkeypatch):
        script = (
            "import os, signal, sys\nfrom langchain_agentmem.storage import background\n"
            "from langchain_agentmem.storage.database import Database\nfrom tests.storage.test_background import KEY\n"
            "background.LEASE_SECONDS = 1.0\ndatabase = Database(sys.argv[1])\n"
            "die = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
            "background.Task(database.background, KEY, lambda _: 0.0, die).settle()\n"
        )
        assert forks.run(script, url).returncode == -signal.SIGKILL
        work = Work(opened())
        work.task.wake()
        work.done.wait(1)


class TestClosing:
    def test_close_does_not_wait_and_releases_lease(self, database, opened):
        hung = Work.held_up(database)
        database.close()
        other = opened()
        assert leases(other) == 0
        work = Work(other)
        work.task.settle()
        hung.go_on.set()
        assert hung.task.wait(60)
        hung.task.wake()
        with pytest.raises(MemoryClosed):
            hung.task.settle()

    def test_read_only_database_runs_no_tasks(self, url):
        Database(url).close()
        reading = Database(url, options=DatabaseOptions(read_only=True))
        work = Work(reading)
        work.task.wake()
        work.task.run_now(60)
        reading.close()
        assert work.done == []

    @pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
    def test_forked_child_leaves_parent_tasks_alone(self, database):
        work = Work.held_up(database)

        def child():
            own = Work(database, key=TaskKey("", "own"))
            own.task.wake()
            own.done.wait(1)
            database.background.close()

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(60)
        assert process.exitcode == 0
        assert leases(database) > 0
        work.go_on.set()
        assert work.task.wait(60)
