"""Jobs of processes that are killed, end or fork."""

import multiprocessing
import signal

import pytest

from langchain_agentmem.storage import jobs
from langchain_agentmem.storage.jobs import Worker
from tests.storage.working import HOUR, Doing, doing_of, find, put, waiting


class TestLeases:
    def test_after_kill_9_in_the_middle_of_a_job_the_next_process_does_it(self, url, opened, forks):
        script = (
            "import os, signal, sys\nfrom langchain_agentmem.storage.database import Database\n"
            "from tests.storage.working import put\ndatabase = Database(sys.argv[1])\nput(database, 'a')\n"
            "database.worker.register('work', lambda job: os.kill(os.getpid(), signal.SIGKILL))\n"
            "database.worker.settle()\n"
        )
        assert forks.run(script, url).returncode == -signal.SIGKILL
        database, doing = opened(), Doing()
        assert find(database, "a").owner is not None
        late = Worker(database.engine, now=lambda: jobs.now() + HOUR)
        late.register("work", lambda job: (doing(job), doing.done.append(job.attempts)))
        late.settle()
        assert doing.done == ["a", 1]
        assert waiting(database) == 0
        late.close()


class TestClosing:
    def test_a_program_that_ends_without_closing_gives_back_what_it_worked_on(self, url, opened, forks):
        script = (
            "import sys, threading\nfrom langchain_agentmem.storage.database import Database\n"
            "from tests.storage.working import held_up\ndatabase = Database(sys.argv[1])\nheld_up(database)\n"
        )
        assert forks.run(script, url).returncode == 0
        job = find(opened(), "a")
        assert (job.owner, job.attempts) == (None, 0)

    @pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
    def test_a_child_of_this_process_does_what_its_parent_has_not_begun(self, database):
        doing = doing_of(database)
        put(database, "a")

        def child():
            database.worker.settle()
            assert doing.done == ["a"]
            database.worker.close()

        with database.worker._lanes["work"]._news, database.worker._leases._taking:
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
            process.join(60)
        assert process.exitcode == 0
        database.worker.settle()
        assert doing.done == []

    @pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
    def test_a_child_of_this_process_leaves_its_parent_what_that_has_begun(self, database):
        went_on = []

        def doing(job):
            process = multiprocessing.get_context("fork").Process(target=database.worker.close)
            process.start()
            process.join(60)
            assert process.exitcode == 0
            went_on.append(database.engine.read(lambda tx: jobs.is_of(tx, job)))

        database.worker.register("work", doing)
        put(database, "a")
        database.worker.settle()
        assert went_on == [True]
