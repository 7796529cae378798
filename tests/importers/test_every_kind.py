"""Tests of an import that hold for every kind of source."""

import sqlite3
from contextlib import closing

import pytest

from langchain_agentmem import AgentMemory, InvalidInput
from langchain_agentmem.base.events import MessagesStored

from .sources import SOURCES, chat_history

HERE = ("users",)


def exported_rows(memory, path):
    """What a memory holds, without the times at which it was written here, and without ids that were made here."""
    memory.export(path)
    found = (
        "select hash from content", "select path from namespace", "select key, value from item",
        "select key, kind, role, sender from entry", "select kind, key, label, subject, object, source from memory",
        "select name, parent from checkpoint", "select key, kind, conversation from audit",
    )  # fmt: skip
    with closing(sqlite3.connect(path)) as connection:
        return [sorted(connection.execute(each).fetchall(), key=repr) for each in found]


def files(path):
    folder = path if path.is_dir() else path.parent
    return {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}


class TestEveryKind:
    async def test_import_is_complete_below_the_namespace(self, memory, source, tmp_path, new_database):
        kind, path = source
        before, told = files(path), []
        report = memory.import_from(kind, path, namespace=HERE, progress=told.append)

        assert sum(report.added.values()) > 0
        assert not any(report.known.values())
        assert memory.admin.verify().ok
        assert files(path) == before
        assert [each.done for each in told] == sorted(each.done for each in told)
        assert told[-1].done == sum(report.added.values()) + report.left
        async with AgentMemory(new_database("sqlite")) as other:
            awaited = await other.within(("mine",)).aimport_from(kind, path)
            assert (awaited.added, awaited.left_by) == (report.added, report.left_by)
            for each, name in ((memory, "users"), (other, "mine")):
                each.export(tmp_path / f"{name}.jsonl")
                with closing(sqlite3.connect(tmp_path / f"{name}.jsonl")) as connection:
                    paths = connection.execute("select path from namespace").fetchall()
                assert {path.partition("\x1f")[0] for (path,) in paths if path} == {name}

    def test_repeated_import_adds_nothing_and_cites_sources(self, memory, source, tmp_path):
        kind, path = source
        first = memory.import_from(kind, path, namespace=HERE)
        found = memory.search("Lisbon herons tea", namespace=HERE, kinds=["record", "event"], limit=50)
        assert {(each.source, each.actor) for each in found} <= {("import", kind)}
        before = exported_rows(memory, tmp_path / "before.jsonl")
        second = memory.import_from(kind, path, namespace=HERE)

        assert not any(second.added.values())
        assert dict(second.known) == dict(first.added)
        assert second.left_out == first.left_out
        assert exported_rows(memory, tmp_path / "after.jsonl") == before

    def test_dry_run_reports_without_writing(self, memory, source, tmp_path):
        kind, path = source
        before = exported_rows(memory, tmp_path / "before.jsonl")
        told = memory.import_from(kind, path, namespace=HERE, dry_run=True)
        assert exported_rows(memory, tmp_path / "after.jsonl") == before

        done = memory.import_from(kind, path, namespace=HERE)
        assert (told.added, told.known, told.left_out) == (done.added, done.known, done.left_out)
        assert (told.dry_run, done.dry_run) == (True, False)
        again = memory.import_from(kind, path, namespace=HERE, dry_run=True)
        assert not any(again.added.values())

    @pytest.mark.sqlite_suffices
    def test_interrupted_import_resumes(self, memory, new_database, source, tmp_path):
        kind, path = source

        def stop(progress):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            memory.import_from(kind, path, progress=stop)
        report = memory.import_from(kind, path)
        with AgentMemory(new_database("sqlite")) as other:
            whole = other.import_from(kind, path)
        assert {each: report.added.get(each, 0) + report.known.get(each, 0) for each in whole.added} == whole.added


CHOSEN = {
    "langgraph-saver": "ada", "langgraph-store": "ada", "langmem": "ada", "chat-history": "ada",
    "chat-history in files": "bob/monday", "mem0": "bob", "letta": "watcher",
    "letta server": "agent-b", "taskweaver": "example", "marsys": "watcher", "opus": "a",
}  # fmt: skip
"""What is there of one name in each source, but for those that come whole."""


@pytest.mark.sqlite_suffices
class TestSelection:
    @pytest.mark.parametrize("name", CHOSEN)
    def test_only_limits_the_import_and_rest_follows(self, memory, tmp_path, name):
        kind, make = SOURCES[name]
        path = make(tmp_path)
        whole = memory.import_from(kind, path, dry_run=True)
        nothing = memory.import_from(kind, path, only=["nobody"])
        told = memory.import_from(kind, path, only=[CHOSEN[name]], dry_run=True)
        some = memory.import_from(kind, path, only=[CHOSEN[name]])
        rest = memory.import_from(kind, path)
        assert not any(nothing.added.values())
        assert nothing.left_out[-1].what == "'nobody'"
        assert 0 < sum(some.added.values()) == sum(told.added.values()) <= sum(whole.added.values())
        assert sum(rest.known.values()) == sum(some.added.values())
        assert sum(rest.added.values()) == sum(whole.added.values()) - sum(some.added.values())

    def test_branches_cannot_be_selected(self, memory, tmp_path):
        with pytest.raises(InvalidInput, match="do not support only"):
            memory.import_from("memgpt", SOURCES["memgpt"][1](tmp_path), only=["child"])


@pytest.mark.sqlite_suffices
class TestOwners:
    def test_sessions_map_to_their_owners(self, memory, tmp_path):
        path = SOURCES["chat-history"][1](tmp_path)
        memory.import_from("chat-history", path, namespace=("users", "{session_id}"))
        memory.import_from("chat-history", path, namespace=("of", "{who}"), owners={"ada": "u-1"})
        there = {(each.namespace, each.conversation_id) for each in memory.conversations()}
        assert there == {(("users", "ada"), "ada"), (("users", "bob"), "bob"), (("of", "u-1"), "ada")}

    def test_invalid_owners_and_unused_options_are_rejected(self, memory, tmp_path):
        path, users = SOURCES["chat-history"][1](tmp_path), ("users", "{user_id}")
        for given, said in (
            ({"owners": {"ada": "u-1"}}, "owners needs a namespace with exactly one key"),
            ({"owners": {"ada": 1}, "namespace": users}, "owners must be"),
            ({"owners": "owners.json", "namespace": users}, "owners must be"),
            ({"namespace": ("{a}-{b}",)}, "several keys"),
            ({"allow": ["my_app.Plan"]}, "allow applies only to the kind langgraph-saver"),
        ):
            with pytest.raises(InvalidInput, match=said):
                memory.import_from("chat-history", path, **given)
        with pytest.raises(InvalidInput, match="name the parent of all imported"):
            memory.import_from("mem0", SOURCES["mem0"][1](tmp_path), namespace=users)


@pytest.mark.sqlite_suffices
def test_unknown_kind_and_missing_source_are_rejected(memory, tmp_path):
    wrong = [(kind, tmp_path / "nothing.db", "does not exist") for kind, _ in SOURCES.values()]
    wrong += [
        ("mem1", "x.json", "langgraph-saver"),
        ("marsys", "postgresql://localhost/x", "not a PostgreSQL database"),
    ]
    for kind, source, says in wrong:
        with pytest.raises(InvalidInput, match=says):
            memory.import_from(kind, source)


@pytest.mark.sqlite_suffices
def test_hooks_receive_imported_messages(url, tmp_path):
    told = []
    with AgentMemory(url, hooks=[told.append]) as memory:
        memory.import_from("chat-history", chat_history(tmp_path), dry_run=True)
        memory.import_from("chat-history", tmp_path / "chat.db")
    stored = [each for each in told if isinstance(each, MessagesStored)]
    assert {each.conversation_id for each in stored} == {"ada", "bob"}
    assert sum(len(each.message_ids) for each in stored) == 12
