"""Progress reports of long operations: monotonic, with a total, up to the end."""

from collections import defaultdict

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import sqlite, transfer
from langchain_agentmem.upkeep.admin import Admin


@pytest.fixture
def filled(memory, monkeypatch):
    monkeypatch.setattr(transfer, "PAGE_ROWS", 8)
    monkeypatch.setattr(sqlite, "BACKUP_PAGES", 8)
    for label in ("ada", "ben"):
        chat = memory.conversation("talk", (label,))
        chat.add_messages([HumanMessage(f"heron {number} of {label}", id=f"{label}{number}") for number in range(20)])
    memory.store.put(("docs",), "one", {"text": "quinces"})
    return memory


class ProgressRecorder:
    """Is told of progress, and checks that it goes on and never beyond what there is."""

    def __init__(self) -> None:
        self.told = defaultdict(list)

    def __call__(self, at) -> None:
        assert 0 <= at.done <= at.total
        assert at.done >= self.told[at.stage][-1] if self.told[at.stage] else True
        self.told[at.stage].append(at.done)
        self.last = at


@pytest.mark.slow
def test_every_operation_reports_progress_to_its_total(filled, tmp_path):
    file, backup = tmp_path / "export.db", tmp_path / "backup"
    with AgentMemory(tmp_path / "other.db") as other:
        for work in (
            filled.admin.verify,
            lambda progress: filled.admin.backup(backup, progress=progress),
            lambda progress: filled.export(file, progress=progress),
            lambda progress: other.import_(file, progress=progress),
            lambda progress: filled.admin.prune(retention=Retention(keep_last=10), progress=progress),
            lambda progress: filled.admin.copy(tmp_path / "copy.db", progress=progress),
            lambda progress: Admin.restore(backup, tmp_path / "restored.db", progress=progress),
            lambda progress: filled.erase(namespace=("ada",), progress=progress),
        ):
            watching = ProgressRecorder()
            work(progress=watching)
            assert watching.last.done >= 0.9 * watching.last.total > 0, watching.told
    with AgentMemory(tmp_path / "restored.db") as restored:
        assert len(restored.conversation("talk", ("ada",))) == 20
        assert restored.admin.verify().ok


async def test_progress_within_a_namespace_counts_only_it(filled, tmp_path):
    watching = ProgressRecorder()
    await filled.within(("ben",)).aexport(tmp_path / "export.db", progress=watching)
    assert watching.told["copying"]
    assert 40 <= watching.last.done == watching.last.total < 60


def test_backup_is_a_snapshot_during_concurrent_writes(filled, tmp_path):
    """And it does not begin anew for them."""
    written = []

    def write(at) -> None:
        written.append(filled.conversation("later").add(role="user", content="x" * 10_000))

    filled.admin.backup(tmp_path / "backup", progress=write)
    assert written
    assert len(written) < 100
    target = tmp_path / "restored.db"
    Admin.restore(tmp_path / "backup", target)
    with AgentMemory(target) as restored:
        assert len(restored.conversation("later")) == 0
        assert restored.admin.verify().ok


def test_exception_from_progress_aborts_the_import(filled, tmp_path):
    filled.export(tmp_path / "export.db")

    def stop(at) -> None:
        if at.done > at.total // 2:
            raise KeyboardInterrupt

    with AgentMemory(tmp_path / "other.db") as other:
        with pytest.raises(KeyboardInterrupt):
            other.import_(tmp_path / "export.db", progress=stop)
        assert other.admin.stats()["messages"] == 0
