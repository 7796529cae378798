"""Threads and items of LangGraph's savers and stores are imported unchanged."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langchain_agentmem import AgentMemory, InvalidInput
from tests.checkpoints.graphs import at, chat_graph

from .sources import database, saver, store

pytestmark = pytest.mark.sqlite_suffices


class TestSavers:
    def test_imported_threads_continue(self, memory, tmp_path):
        report = memory.import_from("langgraph-saver", saver(tmp_path))
        assert report.added == {"checkpoints": 12}
        assert len(memory.conversation("ada").messages) == 4
        graph = chat_graph(memory.checkpointer)
        assert len(graph.invoke({"messages": [HumanMessage("More")]}, at("ada"))["messages"]) > 4

    def test_diverged_thread_is_skipped_and_others_are_imported(self, memory):
        theirs = InMemorySaver()

        def say(saver, thread, text):
            return chat_graph(saver).invoke({"messages": [HumanMessage(text)]}, at(thread))

        say(theirs, "a", "herons")
        say(theirs, "b", "storks")
        places = memory.import_from("langgraph-saver", theirs).places
        assert [(place.id, place.namespace) for place in places] == [("a", ()), ("b", ())]
        say(memory.checkpointer, "a", "here")
        say(theirs, "a", "there")
        say(theirs, "b", "cranes")
        for dry_run in (True, False):
            report = memory.import_from("langgraph-saver", theirs, dry_run=dry_run)
            assert [each.what for each in report.left_out] == ["the thread 'a'"]
            assert "the thread also advanced here" in report.left_out[0].why
            assert report.added["checkpoints"] == 3
        assert "cranes" in [hit.text for hit in memory.search("cranes")]
        assert "there" not in [message.text for message in memory.conversation("a").messages]
        assert memory.admin.verify().problems == ()

    def test_threads_go_to_users_named_by_checkpoints(self, url):
        theirs = InMemorySaver()
        for thread, user in (("a", "ada"), ("b", "bob"), ("c", None)):
            config = {"configurable": {"thread_id": thread, **({"user_id": user} if user else {})}}
            chat_graph(theirs).invoke({"messages": [HumanMessage(f"I am {thread}.")]}, config)
        users = ("users", "{user_id}")
        with AgentMemory(url, namespace=users) as memory:
            told = memory.import_from("langgraph-saver", theirs, namespace=users, dry_run=True)
            report = memory.import_from("langgraph-saver", theirs, namespace=users)
            assert (told.added, told.left_out) == (report.added, report.left_out)
            assert report.added_to == {"threads": 2}
            assert report.left_by["threads"] == 1
            assert "its metadata has no user_id" in report.left_out[0].why
            config = {"configurable": {"thread_id": "a", "user_id": "ada"}}
            said = chat_graph(memory.checkpointer).invoke({"messages": [HumanMessage("And now?")]}, config)["messages"]
            assert len(said) > 2
            [left] = memory.import_from("langgraph-saver", theirs, namespace=("users", "{user}"), only=["a"]).left_out
            hint = "Pass the owners with owners=…, or on the command line with --owners"
            assert f"its metadata has no user, only user_id. {hint}" in left.why
            memory.import_from("langgraph-saver", theirs, namespace=users, owners={"c": "eve"}, only=["c"])
            assert memory.within(user_id="eve").conversation("c").messages[0].text == "I am c."
            report = memory.within(user_id="bob").import_from("langgraph-saver", theirs, namespace=users)
            assert report.left_by["threads"] == 2

    def test_threads_outside_only_are_not_read(self, memory):
        class Watched(InMemorySaver):
            def list(self, config, **options):
                assert config is None or config["configurable"]["thread_id"] != "b"
                yield from super().list(config, **options)

        theirs = Watched()
        for thread in ("a", "b"):
            chat_graph(theirs).invoke({"messages": [HumanMessage("Hi.")]}, {"configurable": {"thread_id": thread}})
        owners = {"a": "ada", "b": "bob"}
        report = memory.import_from("langgraph-saver", theirs, namespace=("of", "{who}"), owners=owners, only=["a"])
        assert (report.added_to, report.left_out) == ({"threads": 1}, [])

    def test_unreadable_sources_are_rejected(self, memory, url, tmp_path):
        class Awaited(InMemorySaver):
            def list(self, *arguments, **options):
                raise NotImplementedError

        class Broken(InMemoryStore):
            def search(self, *arguments, **options):
                raise ConnectionError("gone")

        for kind, source, says in (
            ("langgraph-saver", Awaited(), "aimport_checkpoints"),
            ("langgraph-saver", store(tmp_path), "no table of checkpoints"),
            (
                "langgraph-saver",
                database(tmp_path / "x.db", "create table checkpoints (thread_id)"),
                "no table of checkp",
            ),
            ("langgraph-saver", InMemoryStore(), "file path must be"),
            ("langgraph-store", InMemorySaver(), "file path must be"),
            ("langgraph-store", Broken(), "gone"),
        ):
            with pytest.raises(InvalidInput, match=says):
                memory.import_from(kind, source)
        with (
            AgentMemory(url, namespace=("users", "{user_id}")) as other,
            pytest.raises(InvalidInput, match=r"pass namespace=\('users', '\{user_id\}'\)"),
        ):
            other.import_from("langgraph-saver", saver(tmp_path), namespace=("users",))


class TestStores:
    def test_items_keep_key_value_times_and_expiry(self, memory, tmp_path):
        path = store(tmp_path)
        memory.import_from("langgraph-store", path, namespace=("moved",))
        with closing(sqlite3.connect(path)) as connection:
            (created,) = connection.execute("select created_at from store where key = 'bird'").fetchone()
        item = memory.store.get(("moved", "users", "ada"), "bird")
        assert item.value == {"text": "likes herons", "n": 3}
        assert item.created_at == datetime.fromisoformat(created).replace(tzinfo=UTC)
        assert memory.store.search(("moved",), query="herons")[0].key == "bird"

    def test_expired_and_invalid_items_are_skipped(self, url, tmp_path):
        path = store(tmp_path)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(
                "insert into store (prefix, key, value) values ('users', 'list', '[1]'), ('', 'x', '{}'), "
                "('users', 'cut', '{'), ('users', '', '{}');"
            )
        with AgentMemory(url, clock=lambda: datetime.now(UTC) + timedelta(hours=2)) as memory:
            report = memory.import_from("langgraph-store", path)
        assert (report.added, report.left) == ({"items": 2}, 5)
        told = {each.what: each.why for each in report.left_out}
        assert told["the item 'tea' in users/ada"] == "it has expired."

    def test_any_store_object_is_accepted(self, memory):
        theirs = InMemoryStore()
        for number in range(1_203):
            theirs.put(("a", str(number % 2)), str(number), {"n": number})
        theirs.put(("a",), "top", {"n": -1})
        assert memory.import_from("langgraph-store", theirs).added == {"items": 1_204}
        assert memory.store.get(("a", "1"), "1201").value == {"n": 1_201}
        assert memory.import_from("langgraph-store", theirs).added == {}

    def test_existing_item_is_kept_langmem_imports_own_items(self, memory, tmp_path):
        path = store(tmp_path)
        memory.store.put(("users", "ada"), "bird", {"text": "likes owls"})
        report = memory.import_from("langmem", path)
        assert (report.added, report.left_out[0].what) == ({"items": 2}, "the item 'bird' in users/ada")
        report = memory.import_from("langgraph-store", path)
        assert (report.added, report.known) == ({}, {"items": 3})
        assert memory.store.get(("users", "ada"), "bird").value == {"text": "likes owls"}
