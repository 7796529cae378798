"""The pool of PostgreSQL sessions."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from langchain_agentmem.storage.postgres_session import Pool


class FakeSession:
    """Stands for a session."""

    closed = False

    def close(self):
        self.closed = True


class TestPool:
    def test_last_returned_session_is_lent_first(self):
        pool = Pool(FakeSession, size=2, timeout=120)
        first, second = pool.take(), pool.take()
        pool.give_back(second)
        assert pool.take() is second
        with ThreadPoolExecutor(1) as threads:
            third = threads.submit(pool.take)
            while not pool._condition._waiters:
                pass
            pool.give_back(first)
            assert third.result() is first

    def test_failed_open_takes_no_place(self):
        def failing():
            raise ZeroDivisionError

        pool = Pool(failing, size=1, timeout=0)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                pool.take()

    def test_close_defers_sessions_in_use(self):
        pool = Pool(FakeSession, size=2, timeout=0)
        used, idle = pool.take(), pool.take()
        pool.give_back(idle)
        pool.close()
        assert (used.closed, idle.closed) == (False, True)
        pool.give_back(used)
        assert used.closed
