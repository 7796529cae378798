"""Damage to files is reported by `verify` or by an error of this package when the file is opened."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.hooks import Progress
from langchain_agentmem.errors import DatabaseUnreadable, ForeignDatabase, NewerDatabase, StorageError
from langchain_agentmem.upkeep.integrity import list_checks
from tests.everything import fill

from .damage import WAYS

SEEDS = 32
SUFFIXES = ("", "-wal")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that holds something of everything, as a crash leaves it: with the last commits in its log."""
    folder = tmp_path_factory.mktemp("full")
    with AgentMemory(folder / "a.db") as memory:
        fill(memory)
    with AgentMemory(folder / "a.db") as memory:
        memory.conversation("last").add(role="user", content="what was said last")
        for suffix in SUFFIXES:
            shutil.copyfile(f"{folder / 'a.db'}{suffix}", f"{folder / 'crashed.db'}{suffix}")
    return folder / "crashed.db"


@pytest.fixture
def copy(full: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    for suffix in SUFFIXES:
        shutil.copyfile(f"{full}{suffix}", f"{tmp_path / 'a.db'}{suffix}")
    return tmp_path / "a.db"


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_damage_is_reported_or_raises_documented_errors(full, tmp_path, way):
    told = 0
    for seed in range(SEEDS):
        path = tmp_path / f"{seed}.db"
        for suffix in SUFFIXES:
            shutil.copyfile(f"{full}{suffix}", f"{path}{suffix}")
        way(path, random.Random(f"{way.__name__} {seed}"))
        try:
            memory = AgentMemory(path, busy_timeout=1)
        except (DatabaseUnreadable, ForeignDatabase, NewerDatabase, StorageError):
            told += 1
            continue
        with memory:
            report = memory.admin.verify()
        assert all(isinstance(problem, str) and problem for problem in report.problems)
        told += not report.ok
    assert told or way.__name__ == "in_the_log"  # what the log has lost was never acknowledged as safe from a power cut


class TestVerification:
    def test_failed_check_does_not_stop_the_others(self, copy, raw):
        with AgentMemory(copy) as memory:
            raw(memory, "pragma foreign_keys = off")
            raw(memory, "drop table blob")
            raw(memory, "update content set body = x'00' where id = (select min(id) from content)")
            asked = []
            report = memory.admin.verify(progress=asked.append)
        names = ["pages", *list_checks()]
        assert asked == [(f"checking {name}", number, len(names)) for number, name in enumerate(names, 1)]
        assert any("blobs failed" in problem for problem in report.problems)
        assert any("is damaged" in problem for problem in report.problems)

    def test_exception_from_progress_is_raised(self, copy):
        def stop(at: Progress) -> None:
            raise KeyError(at.stage)

        with AgentMemory(copy) as memory, pytest.raises(KeyError, match="pages"):
            memory.admin.verify(progress=stop)
