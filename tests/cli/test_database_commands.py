"""The commands that write: backup, restore, export, import, copy, erase and prune."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.progress import Progress

from langchain_agentmem import AgentMemory, InvalidInput
from langchain_agentmem.storage import transfer
from langchain_agentmem.upkeep.admin import Admin
from tests.checkpoints.graphs import at

from .commands import error_of, execute, messages, read_json, stdout_of


@pytest.fixture
def interrupted(agentmem, monkeypatch):
    """Runs a command that is interrupted as soon as it tells how far it has come."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    def run(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(transfer, "PAGE_ROWS", 20)
            patch.setattr(Progress, "update", stop)
            return agentmem(*arguments)

    return run


@pytest.fixture
def copy(agentmem, database, tmp_path):
    """The path of a backup of the database."""
    path = str(tmp_path / "copy")
    stdout_of(agentmem("backup", database, path))
    return path


@pytest.fixture
def target(tmp_path):
    """The path of a database that holds something else."""
    path = str(tmp_path / "target.db")
    with AgentMemory(path) as memory:
        memory.conversation("precious").add(role="user", content="a pearl")
    return path


def count_precious(path):
    """Count its messages."""
    with AgentMemory(path) as memory:
        return len(memory.conversation("precious"))


class TestBackupAndRestore:
    def test_backup_is_restored_completely(self, agentmem, database, tmp_path):
        copy, again = str(tmp_path / "copy"), str(tmp_path / "again.db")
        assert stdout_of(agentmem("backup", database, copy)).startswith(f"Wrote {copy}: ")
        before = Path(copy).read_bytes()
        assert "Verified " in stdout_of(agentmem("restore", again, copy))
        assert messages(again) == messages(database)
        assert Path(copy).read_bytes() == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["again.db", "copy", "memory.db"]

    def test_restore_replaces_stored_memories_only_with_force(self, agentmem, database, copy, target):
        assert "already holds memories" in error_of(agentmem("restore", target, copy))
        assert count_precious(target) == 1
        stdout_of(agentmem("restore", target, copy, "--force"))
        assert messages(target) == messages(database)

    def test_damaged_backup_is_not_restored(self, agentmem, database, copy, target, tmp_path):
        execute(copy, "update content set body = x'7b7d' where id = 3")
        assert "is damaged, and was not restored" in error_of(agentmem("restore", target, copy, "--force"), 3)
        assert count_precious(target) == 1
        with pytest.raises(InvalidInput, match="not 5"):
            Admin.restore(copy, 5)  # type: ignore[arg-type]
        export = tmp_path / "export"
        stdout_of(agentmem("export", database, str(export)))
        export.write_bytes(export.read_bytes()[:-5000])
        error_of(agentmem("restore", str(tmp_path / "new.db"), str(export)), 3)
        assert not (tmp_path / "new.db").exists()
        assert not list(tmp_path.glob(".*"))


class TestExportAndImport:
    def test_export_is_merged_into_an_existing_database(self, agentmem, database, target, tmp_path):
        file = str(tmp_path / "export")
        report = read_json(agentmem("export", database, str(tmp_path / "plain.json"), "--json"))
        plain = json.loads((tmp_path / "plain.json").read_text())
        assert (report["entries"], len(plain)) == (66, 66 + report["memories"] + report["items"])
        assert any("a grey heron" in each["text"] for each in plain if each["namespace"] == ["ada", "private"])
        assert "3 conversations, 66 entries" in stdout_of(agentmem("export", database, file))
        assert "66 entries" in stdout_of(agentmem("import", target, file))
        assert messages(target) == messages(database)
        assert count_precious(target) == 1
        again = read_json(agentmem("import", target, file, "--json"))
        assert (again["entries"], again["checkpoints"], again["audit"]) == (0, 0, 0)

    def test_damaged_message_is_refused_by_reading_commands(self, agentmem, database, tmp_path):
        with closing(sqlite3.connect(database)) as connection:
            sql = "update entry set body = x'7b7d' where key = 'ada-7'"
            connection.execute(sql)
            connection.commit()
        file = tmp_path / "export"
        for name, *options in (
            ("show", "one", "--namespace", "ada"),
            ("search", "pond", "--everything", "--limit", "99"),
            ("export", str(file)),
        ):
            line = error_of(agentmem(name, database, *options), 3)
            assert line.startswith(("The message 'ada-7' is damaged", "The database is damaged and cannot be exported"))
        assert not file.exists()
        assert "is damaged" in agentmem("verify", database).stdout


class TestCopy:
    def test_interrupted_copy_changes_nothing_and_can_be_repeated(
        self, agentmem, interrupted, database, copy, tmp_path
    ):
        target = str(tmp_path / "target.db")
        for arguments, kept in (
            (("copy", database, target), "The target is unchanged."),
            (("restore", target, copy), "The target is unchanged."),
            (("verify", database), "Nothing was changed."),
        ):
            run = interrupted(*arguments)
            assert (run.returncode, run.stderr) == (130, f"Interrupted. {kept}\n")
            assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "memory.db"]
        assert "The copy is verified" in stdout_of(agentmem("copy", database, target))
        assert messages(target) == messages(database)

    def test_unwritable_target_is_refused(self, agentmem, database, tmp_path):
        target = tmp_path / "nowhere" / "target.db"
        for arguments in (("copy", database, str(target)), ("restore", str(target), database)):
            assert "cannot be written" in error_of(agentmem(*arguments))
        assert not target.exists()


class TestErasure:
    def test_dry_run_reports_counts_and_changes_nothing(self, agentmem, database):
        before = Path(database).read_bytes()
        said = stdout_of(agentmem("erase", database, "--namespace", "ada", "--dry-run"))
        assert said == "Would erase in ada: 1 conversation, 30 entries.\n"
        assert len(messages(database)) == 30
        assert Path(database).read_bytes() == before

    def test_erase_reports_other_namespaces_of_the_person(self, agentmem, database):
        with AgentMemory(database) as memory:
            memory.store.put(("it's", "ada"), "k", {"text": "a fig tree"})
        for options, said_too in (
            ("--dry-run", "Would erase"),
            ("--yes", "Erased in ada"),
            ("--yes", "Nothing to erase in"),
        ):
            said = stdout_of(agentmem("erase", database, "--namespace", "ada", options))
            assert said_too in said
            assert (
                "Items under it's/ada are outside of ada. To erase them, run agentmem erase DATABASE --namespace"
                in said
            )
        assert read_json(agentmem("erase", database, "--namespace", "ada", "--yes", "--json"))["other_namespaces"] == [
            ["it's", "ada"]
        ]

    def test_erase_without_confirmation_is_refused(self, agentmem, database):
        line = error_of(agentmem("erase", database, "--namespace", "ada"))
        assert line.startswith("This permanently deletes in ada: 1 conversation, 30 entries. Nothing was erased")
        assert len(messages(database)) == 30

    def test_erased_data_is_removed_from_the_file(self, agentmem, database):
        report = read_json(agentmem("erase", database, "--namespace", "ada", "--yes", "--json"))
        assert report["entries"] == 30
        assert messages(database) == []
        assert b"grey heron" not in Path(database).read_bytes()
        assert len(messages(database, ("ben", "private"))) == 30
        assert stdout_of(agentmem("erase", database, "--thread", "nobody", "--yes")) == "Nothing to erase.\n"
        stdout_of(agentmem("erase", database, "--namespace", "/", "--yes"))
        with AgentMemory(database) as memory:
            assert memory.admin.stats()["messages"] == memory.admin.stats()["checkpoints"] == 0

    def test_empty_namespace_hints_at_namespaces_with_entries(self, agentmem, database, tmp_path):
        there = "Entries exist under --namespace ada/private"
        for name, *options in (
            ("erase", "--yes"),
            ("prune", "--keep-messages", "9"),
            ("export", str(tmp_path / "new")),
        ):
            assert there in stdout_of(agentmem(name, database, *options, "--namespace", "ada/privat"))
        said = stdout_of(agentmem("erase", database, "--conversation", "one", "--dry-run"))
        assert "Entries exist under " in said
        assert "ada/private" in said
        assert there not in stdout_of(agentmem("prune", database, "--namespace", "ada", "--keep-messages", "99"))

    def test_malformed_namespace_is_refused(self, agentmem, database):
        for command, *options in (("erase", "--yes"), ("prune", "--keep-messages", "1")):
            for written in ("", "ada/", "/ada", "ada//private", "//"):
                line = error_of(agentmem(command, database, *options, "--namespace", written))
                assert line.endswith("Write labels separated by /, such as users/ada, or / for the root.")
        assert [len(messages(database, (label, "private"))) for label in ("ada", "ben")] == [30, 30]


class TestPruning:
    OPTIONS = ("--keep-checkpoints", "2", "--keep-messages", "10", "--archive-audit")

    def test_dry_run_reports_the_same_as_prune(self, agentmem, database):
        options = (database, *self.OPTIONS, (datetime.now(UTC) - timedelta(days=30)).isoformat(), "--json")
        before = Path(database).read_bytes()
        report = read_json(agentmem("prune", *options, "--dry-run"))
        assert Path(database).read_bytes() == before
        assert report["checkpoints"] > 5
        assert (report["threads"], report["conversations"], report["messages"], report["archived"]) == (1, 2, 40, 5)
        done = read_json(agentmem("prune", *options))
        assert done == {**report, "dry_run": False}
        again = read_json(agentmem("prune", *options))
        assert not any(again.values())
        assert messages(database) == [f"a grey heron at the pond, {n}" for n in range(20, 30)]
        with AgentMemory(database) as memory:
            assert memory.admin.verify().problems == ()
            assert len(list(memory.checkpointer.list(at("t")))) == 2

    def test_prune_by_age_respects_the_namespace(self, agentmem, database):
        with AgentMemory(database, clock=lambda: datetime.now(UTC) - timedelta(days=3)) as memory:
            for label in ("ada", "ben"):
                memory.conversation("old", (label,)).add_user_message("the day before yesterday")
        for days, place, pruned in (
            ("4", "/", "0 messages of 0 conversations"),
            ("2", "ada", "1 message of 1 conversation"),
            ("2", "/", "1 message of 1 conversation"),
        ):
            said = stdout_of(agentmem("prune", database, "--max-age", days, "--namespace", place))
            assert said.startswith(f"0 checkpoints of 0 threads and {pruned} removed"), (days, place)
        stdout_of(agentmem("prune", database, "--namespace", "ada", "--keep-messages", "1"))
        assert [len(messages(database, (label, "private"))) for label in ("ada", "ben")] == [1, 30]

    def test_missing_scope_or_criteria_is_refused(self, agentmem, database):
        assert "Nothing to prune" in error_of(agentmem("prune", database))
        assert "--namespace, --thread or --conversation" in error_of(agentmem("erase", database, "--yes"))
        assert "must be in the past" in error_of(agentmem("prune", database, "--archive-audit", "2999-01-01"))
        assert agentmem("prune", database, "--keep-messages", "0").returncode == 2
