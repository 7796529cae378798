"""A memory with shards, as whoever uses it sees it: like any other."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from langchain_agentmem import AgentMemory, AgentMemorySaver
from langchain_agentmem.audit import audit_entry
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.base.namespaces import Scopes
from langchain_agentmem.errors import DatabaseBusy, InvalidInput
from langchain_agentmem.search.memory_search import Walls
from langchain_agentmem.storage import Opening, jobs
from langchain_agentmem.storage.shards import Shards
from tests.sharding import COUNT, run
from tests.word_embeddings import WordEmbeddings

LINK = audit_entry.following
USERS = [f"user-{number}" for number in range(8)]
"""So many that each shard has one."""


@pytest.fixture
def url(new_database):
    return new_database("shards")


@pytest.fixture
def memory(url, clock, new_id):
    with AgentMemory(url, clock=clock, new_id=new_id) as memory:
        yield memory


@pytest.fixture
def filled(memory):
    """Each user has said something, and an item, a record and an audit entry; in the root, each has a thread."""
    for user in USERS:
        memory.conversation("c", (user,)).add_user_message(f"the heron of {user}")
        memory.conversation(user).add_user_message(f"a heron in the root says {user}")
        memory.store.put((user, "notes"), "k", {"text": f"a heron noted by {user}"})
        memory.layers(namespace=(user,)).archival.write(f"a heron remembered by {user}")
        AuditTrail(memory, (user,)).add(f"where is the heron of {user}?", "on the lake")
    return memory


def homes(memory, paths):
    return {memory.database.at(*path).engine.home for path in paths}


class TestWhoseItIs:
    def test_the_first_labels_name_the_tenant(self):
        scopes = Scopes(tenant_depth=2)
        assert scopes.tenant_of("a\x1fb\x1fc\x1f") == scopes.tenant_of("a\x1fb\x1f", "t") == "a\x1fb\x1f"
        assert scopes.tenant_of("a\x1f") == "a\x1f"
        assert [scopes.one_tenant(path) for path in ("", "a\x1f", "a\x1fb\x1f")] == [False, False, True]

    def test_in_the_root_it_is_the_thread_told_apart_from_labels(self):
        scopes = Scopes()
        assert len({scopes.tenant_of(""), scopes.tenant_of("", "a"), scopes.tenant_of("a\x1f")}) == 3

    def test_tenants_are_spread_and_what_is_one_tenants_is_together(self, memory):
        assert len(homes(memory, [(f"{user}\x1f",) for user in USERS])) == COUNT
        assert len(homes(memory, [("ada\x1f", "t"), ("ada\x1f",), ("ada\x1fnotes\x1f",)])) == 1

    def test_without_shards_there_is_nothing_to_choose(self):
        with AgentMemory() as memory:
            database = memory.database
            assert database.at("a\x1f") is database
            assert database.everywhere == database.below("a\x1f") == (database,)


class TestOpening:
    def test_on_sqlite_shards_are_refused(self):
        with pytest.raises(InvalidInput, match="leave shards out"):
            AgentMemory(shards=2)

    def test_tools_open_it_as_it_was_made(self, filled, url):
        with AgentMemory(url, shards=0) as memory:
            assert memory.stats()["conversations"] == 2 * len(USERS)
        with AgentMemory(shards=0) as memory:
            assert not memory.database.has_shards

    def test_what_forgets_to_say_whose_it_is_fails(self, memory):
        for call in ("read", "write", "sizes", "rehearse"):
            with pytest.raises(AssertionError, match="of no tenant"):
                getattr(memory.database.engine, call)


class TestStore:
    def test_a_batch_gives_results_in_its_order_and_sees_what_was_there_before(self, filled):
        ops = [
            GetOp(("user-3", "notes"), "k"),
            PutOp(("user-1", "notes"), "new", {"text": "new"}),
            SearchOp((), limit=100),
            GetOp(("user-0", "notes"), "k"),
            GetOp(("user-1", "notes"), "new"),
        ]
        third, nothing, found, first, new = filled.store.batch(ops)
        assert (third.namespace[0], nothing, first.namespace[0], new) == ("user-3", None, "user-0", None)
        assert len(found) == len(USERS)
        assert filled.store.get(("user-1", "notes"), "new").value == {"text": "new"}

    def test_limits_and_offsets_count_over_all(self, filled):
        newest = [f"user-{number}" for number in reversed(range(8))]
        assert [each.namespace[0] for each in filled.store.search(())] == newest
        pages = [filled.store.search((), limit=3, offset=start) for start in (0, 3, 6, 9)]
        assert [each.namespace[0] for page in pages for each in page] == newest
        found = filled.store.search((), query="heron", limit=100)
        assert sorted(each.namespace[0] for each in found) == USERS
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
        assert len(filled.store.search((), query="heron", limit=3, offset=2)) == 3

    def test_namespaces_are_listed_in_one_order(self, filled):
        assert filled.store.list_namespaces() == [(user, "notes") for user in USERS]
        assert filled.store.list_namespaces(max_depth=1, limit=3, offset=2) == [(user,) for user in USERS[2:5]]
        one = ListNamespacesOp((MatchCondition("prefix", ("user-5",)),))
        assert filled.store.batch([one]) == [[("user-5", "notes")]]


class TestSearching:
    def test_an_administrator_finds_what_everybody_said(self, filled):
        found = filled.search("heron", everything=True, kinds=["message", "record", "item"], limit=100)
        assert len(found) == 4 * len(USERS)
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
        items = asyncio.run(filled.asearch("heron", everything=True, limit=100, kinds=["item"]))
        assert sorted(each.namespace[0] for each in items) == USERS
        assert len(filled.search("heron", everything=True, limit=5)) == 5

    def test_a_user_finds_his_own(self, filled):
        found = filled.search("heron", namespace=("user-2",), limit=100)
        assert {each.namespace[0] for each in found} == {"user-2"}
        assert [each.conversation_id for each in filled.search("user-2", conversation_id="user-2")] == ["user-2"]

    def test_what_is_embedded_is_found_in_every_shard(self, url):
        def embed(texts):
            return [[float("bird" in text or "heron" in text), 1.0] for text in texts]

        with AgentMemory(url, index={"embed": embed, "dims": 2}) as memory:
            for user in USERS:
                memory.store.put((user,), "k", {"text": "a heron"})
                memory.store.put((user,), "other", {"text": "a stone"})
            memory.settle()
            found = memory.store.search((), query="bird", limit=len(USERS))
            assert {each.key for each in found} == {"k"}


class TestThreads:
    def test_a_bare_id_means_the_only_thread_of_it(self, memory):
        saver, bare = memory.checkpointer, {"configurable": {"thread_id": "t"}}
        put(saver, "t", "ada")
        assert saver.get_tuple(bare).config["configurable"]["agentmem_namespace"] == ("ada",)
        for user in USERS:
            put(saver, "t", user)
        with pytest.raises(InvalidInput, match="several namespaces"):
            saver.get_tuple(bare)

    def test_a_bare_id_means_the_roots_thread_where_there_is_one(self, memory):
        put(memory.checkpointer, "t")
        for user in USERS:
            put(memory.checkpointer, "t", user)
        found = memory.checkpointer.get_tuple({"configurable": {"thread_id": "t"}})
        assert "agentmem_namespace" not in found.config["configurable"]

    def test_all_are_listed_newest_first_and_deleted_by_the_id_alone(self, memory):
        saver = memory.checkpointer
        stored = [put(saver, "t", user) for user in USERS]
        listed = [each.config["configurable"]["checkpoint_id"] for each in saver.list(None)]
        assert listed == stored[::-1]
        assert len(list(saver.list(None, limit=3))) == 3
        saver.delete_thread("t")
        assert list(saver.list(None)) == []

    def test_pruning_asks_all(self, memory):
        saver = memory.checkpointer
        for user in (*USERS, *USERS):
            put(saver, "t", user)
        saver.prune(["t"])
        assert len(list(saver.list(None))) == len(USERS)
        saver.prune(["t"], strategy="delete")
        assert list(saver.list(None)) == []

    @pytest.mark.slow
    def test_a_copy_is_where_its_source_is(self, memory):
        saver = memory.checkpointer
        for name in USERS:
            put(saver, name)
            saver.copy_thread(name, f"copy of {name}")
            assert saver.get_tuple({"configurable": {"thread_id": f"copy of {name}"}}) is not None
            assert len(homes(memory, [("", name), ("", f"copy of {name}")])) == 1
        assert memory.verify().ok

    def test_a_copy_is_where_its_source_has_moved_to_meanwhile(self, memory, monkeypatch):
        saver, database = memory.checkpointer, memory.database
        put(saver, "t")
        shards = database.engine.shards
        stays = database.home_of("", "t")
        elsewhere = next(each for each in shards.engines if each is not stays)
        copy, moved = AgentMemorySaver._change, []

        def after_a_move(self, *arguments, **options):
            moved.append(shards.move("\x1ft", elsewhere.schema, audit_entry.following))
            return copy(self, *arguments, **options)

        monkeypatch.setattr(AgentMemorySaver, "_change", after_a_move)
        saver.copy_thread("t", "copy")
        assert moved
        assert saver.get_tuple({"configurable": {"thread_id": "copy"}}) is not None
        assert database.home_of("", "copy") is elsewhere


class TestCare:
    @pytest.mark.slow
    def test_what_there_is_is_counted_and_listed(self, filled):
        counts = filled.stats()
        assert (counts["messages"], counts["items"], counts["audit"]) == (2 * len(USERS), len(USERS), len(USERS))
        assert counts["bytes"] == sum(each.engine.sizes().total for each in filled.database.everywhere)
        listed = filled.conversations()
        assert [each.last_at for each in listed] == sorted((each.last_at for each in listed), reverse=True)
        assert filled.conversations(limit=3, offset=2) == listed[2:5]
        assert filled.threads(limit=3).total == 2 * len(USERS)
        assert len(filled.branches()) == len(USERS)
        assert filled.verify().checked["messages"] == 2 * len(USERS)
        assert AuditTrail(filled, ("user-1",)).report().sizes.entries == 1
        with pytest.raises(InvalidInput, match="report of each"):
            filled.audit.report()
        assert filled.within(("user-1",)).stats()["messages"] == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["sqlite", "shards"])
    def test_an_export_holds_all_and_each_record_comes_to_its_tenant(self, filled, new_database, kind, tmp_path):
        exported = filled.export(tmp_path / "all.jsonl")
        with AgentMemory(new_database(kind)) as other:
            assert asdict(other.import_(tmp_path / "all.jsonl")) == asdict(exported)
            assert other.verify().ok
            for user in USERS:
                assert len(other.search("heron", namespace=(user,), limit=100)) == 3
                assert len(other.conversation(user).messages) == 1
            assert not any(asdict(other.import_(tmp_path / "all.jsonl"))[name] for name in ("entries", "items"))

    def test_a_tenant_is_erased_and_everything_is(self, filled):
        assert filled.erase(namespace=("user-4",), dry_run=True).items == 1
        assert filled.erase(namespace=("user-4",)).items == 1
        assert filled.stats()["items"] == len(USERS) - 1
        assert filled.erase(conversation_id="user-4").conversations == 1
        assert filled.erase(namespace=()).conversations == 2 * len(USERS) - 2
        assert filled.stats()["messages"] == 0

    def test_copies_of_the_files_are_refused(self, filled, tmp_path):
        for copy in (filled.backup, filled.copy):
            with pytest.raises(InvalidInput, match="pg_dump"):
                copy(tmp_path / "copy.db")

    def test_a_thread_of_the_root_cannot_be_merged_with_its_branches(self, memory):
        with pytest.raises(InvalidInput, match="one tenant's"):
            memory.layers({"configurable": {"thread_id": "t"}}).diff("main")


def put(saver, thread, *namespace):
    """Put a checkpoint, and give its id."""
    from langgraph.checkpoint.base import empty_checkpoint

    configurable = {"thread_id": thread, "checkpoint_ns": ""}
    if namespace:
        configurable["agentmem_namespace"] = namespace
    checkpoint = empty_checkpoint()
    saver.put({"configurable": configurable}, checkpoint, {"source": "input", "step": -1, "parents": {}}, {})
    return checkpoint["id"]


class TestMovesMeanwhile:
    """Another process moves tenants while this one has the memory open."""

    @pytest.fixture
    def shards(self, url, memory):
        shards = Shards(url, Opening(shards=None, busy_timeout=0.2))
        yield shards
        shards.close()
        memory.close()
        run(url, "drop schema if exists vault cascade", "delete from agentmem.pin")
        run(url, f"delete from agentmem.shard where number >= {COUNT}")

    @pytest.fixture
    def map_reads(self, memory, monkeypatch):
        home, seen = memory.database._shards.home, []
        read = home.read
        monkeypatch.setattr(home, "read", lambda *args, **options: seen.append(1) or read(*args, **options))
        return seen

    def test_the_map_is_not_looked_at_where_nobody_cares_for_it(self, filled, map_reads):
        filled.store.search(())
        filled.search("heron", everything=True)
        assert not map_reads
        filled.stats()
        assert map_reads

    def test_no_tenant_moves_while_something_is_written_everywhere(self, memory, shards):
        with memory.database.still(""), pytest.raises(DatabaseBusy):
            shards.move("user-1\x1f", "agentmem_00", LINK)
        with memory.database.still("user-2\x1f"):
            assert {shards.move("user-1\x1f", each.schema, LINK).target for each in shards.engines}

    @pytest.mark.slow
    @pytest.mark.parametrize("tenant", ["user-1\x1f", "\x1fuser-1"])
    def test_what_was_corrected_moves_with_its_tenant_and_is_undone_there(self, memory, shards, tenant):
        namespace, branch = (("user-1",), "main") if tenant.endswith("\x1f") else ((), "user-1")
        if namespace:
            memory.layers(namespace=namespace).core.set("city", "Lisbon")
            made = memory.corrections.core("city", "Porto", by="Maria", namespace=namespace)
        else:
            key = memory.conversation(branch).add(role="user", content="Lisbon")
            made = memory.corrections.message(branch, key, content="Porto", by="Maria")
        for each in shards.engines:
            shards.move(tenant, each.schema, LINK)
            assert memory.corrections.history(made.kind, made.key, namespace=namespace, branch=branch) == [made]
        memory.corrections.undo(made.id, by="Ben", namespace=namespace)
        assert memory.corrections.present(made.kind, made.key, namespace=namespace, branch=branch).value == made.before

    @pytest.mark.slow
    def test_what_was_corrected_of_a_thread_of_the_root_moves_with_it(self, memory, shards):
        put(memory.checkpointer, "user-1")
        made = memory.corrections.core("city", "Porto", by="Maria", thread_id="user-1")
        for each in shards.engines:
            shards.move("\x1fuser-1", each.schema, LINK)
            assert memory.corrections.history("core", "city", thread_id="user-1") == [made]
        memory.corrections.undo(made.id, by="Ben")
        assert memory.layers({"configurable": {"thread_id": "user-1"}}).core.get() == {}
        assert memory.verify().ok

    @pytest.mark.slow
    def test_everything_is_erased_whatever_moves(self, memory, shards):
        done = threading.Event()

        def move():
            for number in itertools.count():
                if done.is_set():
                    return
                with contextlib.suppress(DatabaseBusy):
                    shards.move(f"{USERS[number % 8]}\x1f", f"agentmem_{number % COUNT:02}", LINK)

        with ThreadPoolExecutor(1) as pool:
            moving = pool.submit(move)
            try:
                for user in USERS:
                    memory.store.put((user, "notes"), "k", {"text": "heron"})
                assert memory.erase(namespace=()).items == len(USERS)
            finally:
                done.set()
            moving.result()
        assert memory.verify().ok

    def test_a_schema_that_is_made_meanwhile_has_its_vectors_made(self, url, shards):
        with AgentMemory(url, index={"embed": WordEmbeddings(8), "dims": 8}) as memory:
            shards.move("user-1\x1f", "vault", LINK, own=True)
            memory.conversation("c", ("user-1",)).add_user_message("heron")
            memory.settle()
            assert memory.search("heron", namespace=("user-1",))[0].why.signals["vectors"] > 0
            assert memory.stats()["messages"] == 1

    @pytest.mark.slow
    def test_conversations_are_searched_where_they_are_now(self, filled, shards):
        database, names = filled.database, (None, *USERS[:2])
        walls = Walls("", "\x01", conversations=USERS[:2])
        for target in ("agentmem_00", "agentmem_01"):
            shards.move(f"\x1f{USERS[0]}", "agentmem_00", LINK)
            shards.move(f"\x1f{USERS[1]}", target, LINK)
            found = [each.tenant for each in walls.homes(database)]
            assert len(found) == len({database.home_of("", name) for name in names})

    @pytest.mark.slow
    def test_a_job_is_finished_where_its_tenant_is(self, filled, shards):
        database = filled.database.at("", "user-1")
        wanted = jobs.WantedJob("", "tidy", jobs.key_in("user-1", "lane"))
        held = []

        def work(job):
            for each in shards.engines:
                shards.move("\x1fuser-1", each.schema, LINK)
            held.append(database.engine.write(lambda: jobs.holds(job)))

        assert database.attempt(wanted, work) is None
        assert held == [True]
        assert not any(each.engine.read(jobs.waiting) for each in filled.database.everywhere)
