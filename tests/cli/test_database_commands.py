"""The commands that write, move and remove: nothing is lost by them that nobody meant to lose."""

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

from .commands import execute, fine, messages, refused, told


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
    fine(agentmem("backup", database, path))
    return path


@pytest.fixture
def target(tmp_path):
    """The path of a database that holds something else."""
    path = str(tmp_path / "target.db")
    with AgentMemory(path) as memory:
        memory.conversation("precious").add(role="user", content="a pearl")
    return path


def precious(path):
    """How much of it is there."""
    with AgentMemory(path) as memory:
        return len(memory.conversation("precious"))


class TestBackupAndRestore:
    def test_a_backup_is_restored_whole(self, agentmem, database, tmp_path):
        copy, again = str(tmp_path / "copy"), str(tmp_path / "again.db")
        assert fine(agentmem("backup", database, copy)).startswith(f"{copy} was written: ")
        before = Path(copy).read_bytes()
        assert "is whole: " in fine(agentmem("restore", again, copy))
        assert messages(again) == messages(database)
        assert Path(copy).read_bytes() == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["again.db", "copy", "memory.db"]

    def test_what_is_there_stays_unless_it_is_forced(self, agentmem, database, copy, target):
        assert "holds memories already" in refused(agentmem("restore", target, copy))
        assert precious(target) == 1
        fine(agentmem("restore", target, copy, "--force"))
        assert messages(target) == messages(database)

    def test_a_damaged_backup_never_takes_the_place(self, agentmem, database, copy, target, tmp_path):
        execute(copy, "update content set body = x'7b7d' where id = 3")
        assert "is damaged, and was not restored" in refused(agentmem("restore", target, copy, "--force"), 3)
        assert precious(target) == 1
        with pytest.raises(InvalidInput, match="not 5"):
            Admin.restore(copy, 5)  # type: ignore[arg-type]
        export = tmp_path / "export"
        fine(agentmem("export", database, str(export)))
        export.write_bytes(export.read_bytes()[:-5000])
        refused(agentmem("restore", str(tmp_path / "new.db"), str(export)), 3)
        assert not (tmp_path / "new.db").exists()
        assert not list(tmp_path.glob(".*"))


class TestExportAndImport:
    def test_what_was_exported_is_added_to_what_is_there(self, agentmem, database, target, tmp_path):
        file = str(tmp_path / "export")
        report = told(agentmem("export", database, str(tmp_path / "plain.json"), "--json"))
        plain = json.loads((tmp_path / "plain.json").read_text())
        assert (report["entries"], len(plain)) == (66, 66 + report["memories"] + report["items"])
        assert any("a grey heron" in each["text"] for each in plain if each["namespace"] == ["ada", "private"])
        assert "3 conversations, 66 entries" in fine(agentmem("export", database, file))
        assert "66 entries" in fine(agentmem("import", target, file))
        assert messages(target) == messages(database)
        assert precious(target) == 1
        again = told(agentmem("import", target, file, "--json"))
        assert (again["entries"], again["checkpoints"], again["audit"]) == (0, 0, 0)

    def test_a_damaged_message_is_refused_by_all_that_read_it(self, agentmem, database, tmp_path):
        with closing(sqlite3.connect(database)) as connection:
            sql = "update content set body = x'7b7d' where id = (select content_id from entry where key = 'ada-7')"
            connection.execute(sql)
            connection.commit()
        file = tmp_path / "export"
        for name, *options in (
            ("show", "one", "--namespace", "ada"),
            ("search", "pond", "--everything", "--limit", "99"),
            ("export", str(file)),
        ):
            line = refused(agentmem(name, database, *options), 3)
            assert line.startswith(("The message 'ada-7' is damaged", "The database is damaged and cannot be exported"))
        assert not file.exists()
        assert "is not what was stored" in agentmem("verify", database).stdout


class TestCopying:
    def test_after_ctrl_c_all_is_as_it_was_and_the_next_run_copies_all(
        self, agentmem, interrupted, database, copy, tmp_path
    ):
        target = str(tmp_path / "target.db")
        for arguments, kept in (
            (("copy", database, target), "The target is as it was."),
            (("restore", target, copy), "The target is as it was."),
            (("verify", database), "Nothing was changed."),
        ):
            run = interrupted(*arguments)
            assert (run.returncode, run.stderr) == (130, f"Interrupted. {kept}\n")
            assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "memory.db"]
        assert "It is whole" in fine(agentmem("copy", database, target))
        assert messages(target) == messages(database)

    def test_a_place_that_cannot_be_written_is_told(self, agentmem, database, tmp_path):
        target = tmp_path / "nowhere" / "target.db"
        for arguments in (("copy", database, str(target)), ("restore", str(target), database)):
            assert "cannot be written" in refused(agentmem(*arguments))
        assert not target.exists()


class TestErasing:
    def test_a_rehearsal_tells_what_would_go_and_changes_nothing(self, agentmem, database):
        before = Path(database).read_bytes()
        said = fine(agentmem("erase", database, "--namespace", "ada", "--dry-run"))
        assert said == "1 conversation, 30 entries would be erased.\n"
        assert len(messages(database)) == 30
        assert Path(database).read_bytes() == before

    def test_it_says_where_else_the_person_has_items_and_how_to_erase_them(self, agentmem, database):
        with AgentMemory(database) as memory:
            memory.store.put(("it's", "ada"), "k", {"text": "a fig tree"})
        for options, said_too in (
            ("--dry-run", "would be erased"),
            ("--yes", "were erased"),
            ("--yes", "nothing to erase in"),
        ):
            said = fine(agentmem("erase", database, "--namespace", "ada", options))
            assert said_too in said
            assert (
                "Items under it's/ada are not below ada: erase them too, with agentmem erase DATABASE --namespace"
                in said
            )
        assert told(agentmem("erase", database, "--namespace", "ada", "--yes", "--json"))["other_namespaces"] == [
            ["it's", "ada"]
        ]

    def test_where_nobody_can_be_asked_nothing_is_erased(self, agentmem, database):
        line = refused(agentmem("erase", database, "--namespace", "ada"))
        assert line.startswith("This deletes in ada, for ever: 1 conversation, 30 entries. There is no terminal")
        assert len(messages(database)) == 30

    def test_with_yes_it_is_gone_from_the_file_too(self, agentmem, database):
        report = told(agentmem("erase", database, "--namespace", "ada", "--yes", "--json"))
        assert report["entries"] == 30
        assert messages(database) == []
        assert b"grey heron" not in Path(database).read_bytes()
        assert len(messages(database, ("ben", "private"))) == 30
        assert fine(agentmem("erase", database, "--thread", "nobody", "--yes")) == "There was nothing to erase.\n"
        fine(agentmem("erase", database, "--namespace", "/", "--yes"))
        with AgentMemory(database) as memory:
            assert memory.admin.stats()["messages"] == memory.admin.stats()["checkpoints"] == 0

    def test_who_names_what_holds_nothing_is_told_where_there_is_something(self, agentmem, database, tmp_path):
        there = "Elsewhere there is something: --namespace ada/private"
        for name, *options in (
            ("erase", "--yes"),
            ("prune", "--keep-messages", "9"),
            ("export", str(tmp_path / "new")),
        ):
            assert there in fine(agentmem(name, database, *options, "--namespace", "ada/privat"))
        said = fine(agentmem("erase", database, "--conversation", "one", "--dry-run"))
        assert "Elsewhere there is something: " in said
        assert "ada/private" in said
        assert there not in fine(agentmem("prune", database, "--namespace", "ada", "--keep-messages", "99"))

    def test_a_variable_that_was_not_set_names_nothing(self, agentmem, database):
        for command, *options in (("erase", "--yes"), ("prune", "--keep-messages", "1")):
            for written in ("", "ada/", "/ada", "ada//private", "//"):
                line = refused(agentmem(command, database, *options, "--namespace", written))
                assert line.endswith("write labels separated by /, such as users/ada; / alone is everything.")
        assert [len(messages(database, (label, "private"))) for label in ("ada", "ben")] == [30, 30]


class TestPruning:
    OPTIONS = ("--keep-checkpoints", "2", "--keep-messages", "10", "--archive-audit")

    def test_a_rehearsal_tells_exactly_what_is_done(self, agentmem, database):
        options = (database, *self.OPTIONS, (datetime.now(UTC) - timedelta(days=30)).isoformat(), "--json")
        before = Path(database).read_bytes()
        report = told(agentmem("prune", *options, "--dry-run"))
        assert Path(database).read_bytes() == before
        assert report["checkpoints"] > 5
        assert (report["threads"], report["conversations"], report["messages"], report["archived"]) == (1, 2, 40, 5)
        done = told(agentmem("prune", *options))
        assert done == {**report, "dry_run": False}
        again = told(agentmem("prune", *options))
        assert not any(again.values())
        assert messages(database) == [f"a grey heron at the pond, {n}" for n in range(20, 30)]
        with AgentMemory(database) as memory:
            assert memory.admin.verify().problems == ()
            assert len(list(memory.checkpointer.list(at("t")))) == 2

    def test_by_age_and_only_within_a_namespace(self, agentmem, database):
        with AgentMemory(database, clock=lambda: datetime.now(UTC) - timedelta(days=3)) as memory:
            for label in ("ada", "ben"):
                memory.conversation("old", (label,)).add_user_message("the day before yesterday")
        for days, place, pruned in (
            ("4", "/", "0 messages of 0 conversations"),
            ("2", "ada", "1 message of 1 conversation"),
            ("2", "/", "1 message of 1 conversation"),
        ):
            said = fine(agentmem("prune", database, "--max-age", days, "--namespace", place))
            assert said.startswith(f"0 checkpoints of 0 threads and {pruned} removed"), (days, place)
        fine(agentmem("prune", database, "--namespace", "ada", "--keep-messages", "1"))
        assert [len(messages(database, (label, "private"))) for label in ("ada", "ben")] == [1, 30]

    def test_something_has_to_be_said(self, agentmem, database):
        assert "Say what to prune" in refused(agentmem("prune", database))
        assert "--namespace, --thread or --conversation" in refused(agentmem("erase", database, "--yes"))
        assert "has not come yet" in refused(agentmem("prune", database, "--archive-audit", "2999-01-01"))
        assert agentmem("prune", database, "--keep-messages", "0").returncode == 2
