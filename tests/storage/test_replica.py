"""A replica that cannot be relied upon is left alone for a while. What takes a second server: `tests/distributed`."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace

import pytest

from langchain_agentmem.errors import StorageError
from langchain_agentmem.storage import Opening, postgres_replica
from langchain_agentmem.storage.postgres_replica import ReplicatedEngine, _Replica
from langchain_agentmem.storage.queries import number_of
from tests.emptying import direct


class Standby:
    """Stands for how far a replica is: on the server of the primary, with a clock of its own."""

    now, follows = 0.0, False

    def __init__(self):
        self.asked = []

    def position(self, *_):
        self.asked.append(self.now)
        if not self.follows:
            raise StorageError("it was promoted")
        return 2**62

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def standby(monkeypatch):
    standby = Standby()
    monkeypatch.setattr(_Replica, "_position", standby.position)
    clock = SimpleNamespace(monotonic=lambda: 1_000.0 + standby.now, sleep=standby.sleep)
    monkeypatch.setattr(postgres_replica, "time", clock)
    return standby


@pytest.fixture
def reads(new_database, standby):
    """Reads once a second, for so many seconds, and gives when the replica was asked."""
    url = direct(new_database("postgres"))
    with closing(ReplicatedEngine(url, Opening(read_url=url))) as engine:
        number = engine.write(lambda: number_of("a\x1f"))

        def read(seconds):
            standby.asked.clear()
            for _ in range(seconds):
                assert engine.read(lambda: number_of("a\x1f"), replica=True) == number
                standby.now += 1.0
            return list(standby.asked)

        yield read


def test_it_is_tried_again_after_a_pause_that_doubles_up_to_a_minute(reads, caplog):
    assert reads(200) == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    assert [each.getMessage().rpartition(": ")[2] for each in caplog.records] == ["it was promoted"]


def test_once_it_answers_again_it_is_asked_each_time_and_the_pauses_begin_anew(reads, standby):
    assert reads(5) == [0, 1, 3]
    standby.follows = True
    assert reads(4) == [7, 8]
    assert reads(3) == [9, 10, 11]
    standby.follows = False
    assert reads(4) == [12, 13, 15]
