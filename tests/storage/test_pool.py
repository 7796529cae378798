"""A pool lends sessions."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from langchain_agentmem.storage.postgres_session import Pool


class Lent:
    """Stands for a session."""

    closed = False

    def close(self):
        self.closed = True


class TestPool:
    def test_the_session_that_came_back_last_is_lent_first_and_who_finds_none_waits(self):
        pool = Pool(Lent, size=2, timeout=120)
        first, second = pool.take(), pool.take()
        pool.give_back(second)
        assert pool.take() is second
        with ThreadPoolExecutor(1) as threads:
            third = threads.submit(pool.take)
            while not pool._condition._waiters:
                pass
            pool.give_back(first)
            assert third.result() is first

    def test_a_session_that_cannot_be_opened_takes_no_place(self):
        def failing():
            raise ZeroDivisionError

        pool = Pool(failing, size=1, timeout=0)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                pool.take()

    def test_closing_closes_those_in_use_when_they_come_back(self):
        pool = Pool(Lent, size=2, timeout=0)
        used, idle = pool.take(), pool.take()
        pool.give_back(idle)
        pool.close()
        assert (used.closed, idle.closed) == (False, True)
        pool.give_back(used)
        assert used.closed
