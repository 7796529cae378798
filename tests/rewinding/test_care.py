"""What is remembered is counted, verified, erased, exported and imported with everything else."""

from __future__ import annotations

import itertools
import json
import operator
import re
from base64 import b64decode
from dataclasses import replace
from typing import Annotated, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import ThreadMoved
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput
from langchain_agentmem.layers.layer import LayersConfig
from tests.upkeep.test_integrity import stored_bytes

from .adapters import Real
from .oracle import World
from .worlds import random_script

NS = ("users", "ana")
WORDS = {
    "branch": "brindlefork8",
    "key": "quixotry31",
    "value": "zyxquorvex",
    "kind": "kestrelkind",
    "event": "wubblefrond",
    "record": "plovernook",
    "tag": "jibtagged4",
    "thread": "threadgrackle9",
    "namespace": "tenantsable",
}
MEMORIES = ("branches", "forks", "memories", "core", "events", "records", "old_memories", "waiting_groups", "contents")


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def graph_of(memory):
    """A graph that remembers what is said, in every layer, beside a question that somebody has to answer at times."""

    def note(state, config):
        layers, said = memory.layers(config), state["said"][-1]
        layers.core.set("last", said)
        layers.core.set(f"about {said}", said, importance=4, ttl=10**9)
        layers.recall.append("said", said)
        layers.archival.write(f"Somebody said {said}", tags=[said])
        session, store = memory.session(config), memory.thread_store
        begun = session.create_round(f"to do {said}")
        session.add_post(begun.id, send_from="User", send_to="Planner", message=f"Please do {said}")
        session.finish_round(begun.id)
        store.put(("things",), "last", {"thing": f"thing {said}"}, ttl=1_000_000)
        store.put(("things",), said, {"thing": f"thing {said}"})
        store.get(("things",), "last")
        return {"said": []}

    def forget(state, config):
        said = state["said"][-1]
        if "forget" in said:
            memory.layers(config).core.delete("last")
        return {"said": []}

    def left(state, config):
        memory.layers(config).recall.append("left", state["said"][-1])
        return {"said": []}

    def right(state, config):
        memory.layers(config).core.set("before the question", state["said"][-1])
        answer = interrupt("Well?") if "ask" in state["said"][-1] else "none"
        memory.layers(config).core.set("answer", answer)
        return {"said": []}

    inner = StateGraph(State)
    inner.add_sequence([("note", note), ("right", right)])
    inner.add_edge(START, "note")
    builder = StateGraph(State)
    for name, node in {"note": note, "forget": forget, "left": left, "right": right, "sub": inner.compile()}.items():
        builder.add_node(name, node)
    builder.add_edge(START, "note")
    builder.add_edge("note", "forget")
    builder.add_edge("forget", "left")
    builder.add_edge("forget", "right")
    builder.add_edge(["left", "right"], "sub")
    return builder.compile(checkpointer=memory.checkpointer)


def at(thread="t", namespace=()):
    return {"configurable": {"thread_id": thread, "agentmem_namespace": namespace}}


def say(memory, said, thread="t", namespace=(), **more):
    config = at(thread, namespace)
    config["configurable"].update(more)
    return graph_of(memory).invoke({"said": [said]}, config, durability="sync")


def fill_threads(memory, namespace=()):
    """A thread with a fork, a copy of it that went on, and one that waits for an answer while others are done."""
    for said in ("one", "two, forget it", "three"):
        say(memory, said, namespace=namespace)
    early = list(memory.checkpointer.list(at(namespace=namespace)))[9].config["configurable"]
    say(memory, "on a fork", namespace=namespace, checkpoint_id=early["checkpoint_id"], checkpoint_ns="")
    memory.checkpointer.copy_thread("t", "copy")
    say(memory, "in the copy", "copy", namespace)
    say(memory, "early", "asking", namespace)
    say(memory, "ask", "asking", namespace)


def fill_branches(memory, namespace=NS):
    """A branch with forks of forks, where each has changed what it saw."""
    root = memory.layers("root", namespace)
    root.write(core={"name": "Ana", "home": {"value": "Lisbon", "importance": 5}}, recall=["born", "moved"])
    root.archival.write("Ana likes quinces", tags=["fruit"])
    fork = root.fork("fork")
    root.core.set("name", "Ana Maria")
    fork.core.delete("home")
    fork.archival.update(fork.archival.all()[0].id, "Ana likes medlars")
    deep = fork.fork("deep")
    deep.core.set("soon", "gone", ttl=3600)
    deep.recall.evict(oldest=1)
    memory.layers("alone").core.set("pet", "cat")


def fill(memory):
    fill_branches(memory)
    fill_threads(memory)
    return memory


def named(memory):
    """What the named branches show."""
    layers = [memory.layers(name, NS) for name in ("root", "fork", "deep")] + [memory.layers("alone")]
    return [(each.read(), each.ancestors(), str(each.tree())) for each in layers]


def shown(memory, threads=("t", "copy", "asking"), namespace=()):
    """What every checkpoint of threads shows."""
    seen = {}
    for thread in threads:
        for found in memory.checkpointer.list(at(thread, namespace)):
            configurable = found.config["configurable"]
            key = thread, configurable["checkpoint_ns"], configurable["checkpoint_id"]
            items = memory.thread_store.at(found.config).search((), limit=100, refresh_ttl=False)
            seen[key] = (
                memory.layers(found.config, namespace).read(),
                memory.session(found.config).to_conversation().to_dict(),
                [item.dict() for item in items],
            )
    return seen


def counted(memory):
    return {name: memory.admin.stats()[name] for name in MEMORIES}


@pytest.fixture
def filled(request, url, fill_once):
    """A memory that was opened when all of this was there."""
    fill_once(url, fill)
    return request.getfixturevalue("memory")


@pytest.fixture
def another(new_database, url, clock):
    """A memory on the other engine."""
    with AgentMemory(new_database("sqlite" if url.startswith("postgres") else "postgres"), clock=clock) as memory:
        yield memory


@pytest.fixture(scope="module")
def exports():
    """What a memory that was filled exports, by the kind of its database."""
    return {}


@pytest.fixture
def exported(request, url, exports, tmp_path):
    path, kind = tmp_path / "all.jsonl", url.partition(":")[0]
    if kind not in exports:
        request.getfixturevalue("filled").export(path)
        exports[kind] = path.read_bytes()
    path.write_bytes(exports[kind])
    return path


class TestCounting:
    def test_statistics_tell_of_branches_and_of_what_lies_there(self, memory):
        fill_branches(memory)
        assert counted(memory) == {
            "branches": 4, "forks": 2, "memories": 12, "core": 4, "events": 2, "records": 3, "old_memories": 1,
            "waiting_groups": 0, "contents": memory.admin.stats()["contents"],
        }  # fmt: skip

    def test_what_waits_for_its_checkpoint_is_counted(self, memory):
        say(memory, "ask")
        assert memory.admin.stats()["waiting_groups"] == 2
        for answer in ("yes", "yes again"):  # in the graph, and in its subgraph
            graph_of(memory).invoke(Command(resume=answer), at(), durability="sync")
        assert memory.admin.stats()["waiting_groups"] == 0

    @pytest.mark.slow
    async def test_verification_looks_at_all_of_it(self, filled):
        report = filled.admin.verify()
        assert report.problems == ()
        assert report.checked["memories"] == filled.admin.stats()["memories"]
        assert report.checked["branches"] == 4
        assert await filled.admin.averify() == report


DAMAGE = {
    "a head behind what lies there": (
        "update branch set head = 0 where name = 'root'",
        "ends at 0, but something lies",
    ),
    "a checkpoint behind the end": ("update place set position = 99", "but a checkpoint stands at 99"),
    "a fork behind the end": (
        "update branch set parent_position = 99 where name = 'fork'",
        "but a branch begins at 99",
    ),
    "a subgraph behind the end": ("update branch_base set base_position = 99", "but a subgraph stands at 99"),
    "a group sealed behind the end": ("update seal set position = 99", "but a group was sealed at 99"),
    "an end behind the end": ("update memory set until = 99 where until < 99", "but something ends at 99"),
    "a circle of branches": (
        "update branch set parent_id = id, parent_position = 0 where name = 'root'",
        "begins on a branch that is not older",
    ),
    "half a parent": ("update branch set parent_position = null where name = 'deep'", "or nowhere"),
    "an old version that did not end": (
        "update memory set until = 4611686018427387904 where kind = 'core'",
        "is seen beside a newer version",
    ),
    "no body": ("update memory set content_id = null where kind = 'event'", "lacks a place or a body"),
    "no place": ("update memory set position = null where kind = 'event'", "lacks a place or a body"),
    "no seal": ("delete from seal", "where its group was not sealed"),
    "no document": ("update memory set document_id = null where kind = 'event'", "nothing owns the document"),
    "another document": ("update memory set document_id = 7 where kind = 'record'", "is not in the index"),
    "extras that are none": ("update memory set extra = '{' where kind = 'record'", "cannot be read"),
    "sources that are none": (
        "update memory set extra = '{\"told\":[7]}' where kind = 'record'",
        "rests on cannot be read",
    ),
    "groups that are none": ("update finished_task set groups = '[true]'", "had written cannot be read"),
    "a base that is none": ("update branch_base set groups = '[[1]]'", "stands on cannot be read"),
    "a group that no database holds": (
        "update finished_task set groups = '[9223372036854775808]'",
        "had written cannot be read",
    ),
    "a row that no database holds": (
        "update branch_base set groups = '[[1,-9223372036854775809]]'",
        "stands on cannot be read",
    ),
    "a group nobody knows": (
        "update memory set branch_id = null, position = null, group_id = 5 where kind = 'core'",
        "nothing refers to group 5",
    ),
}


@pytest.mark.sqlite_suffices
class TestVerifying:
    @pytest.mark.parametrize("damage", DAMAGE)
    def test_damage_is_found(self, filled, raw, damage):
        sql, says = DAMAGE[damage]
        raw(filled, sql)
        problems = " | ".join(filled.admin.verify().problems)
        assert re.search(says, problems), problems

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(6))
    def test_nothing_is_found_after_whatever_graphs_do(self, url, seed):
        world = World(Real(url))
        try:
            world.follow(random_script(seed))
            report = world.adapter.memory.admin.verify()
        finally:
            world.close()
        assert report.problems == ()


def tell_secrets(memory):
    """Distinctive words in every place of memory that can hold one."""
    namespace = (WORDS["namespace"],)
    layers = memory.layers(WORDS["branch"], namespace)
    for number in range(70):
        layers.core.set(f"{WORDS['key']} {number % 3}", f"{WORDS['value']} {number}")
        layers.recall.append(WORDS["kind"], f"{WORDS['event']} {number}")
    layers.archival.write(WORDS["record"], tags=[WORDS["tag"]])
    layers.fork(f"{WORDS['branch']} again").core.delete(f"{WORDS['key']} 0")

    def node(state, config):
        layers = memory.layers(config)
        layers.write(core={WORDS["key"]: WORDS["value"]}, recall={"kind": WORDS["kind"], "content": WORDS["event"]})
        layers.archival.write(WORDS["record"], tags=[WORDS["tag"]])
        if len(state["said"]) > 1:
            interrupt("Well?")
        return {"said": []}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
    for said in ("one", "two"):
        graph.compile(checkpointer=memory.checkpointer).invoke({"said": [said]}, at(WORDS["thread"], namespace))


def traces(memory, url):
    pages = stored_bytes(memory, url)
    return sorted({word for content in pages.values() for word in WORDS.values() if word.encode() in content})


class TestErasing:
    @pytest.mark.slow
    def test_nothing_that_was_remembered_can_be_read_from_the_storage(self, url, raw):
        with AgentMemory(url) as memory:
            tell_secrets(memory)
            fill(memory)
            before, held = (named(memory), shown(memory)), memory.admin.stats()["memories"]
            if memory.database.engine.dialect == "postgres":
                raw(memory, "analyze")
            assert set(traces(memory, url)) == set(WORDS.values())
            report = memory.erase(namespace=(WORDS["namespace"],))
            assert (report.branches, report.threads) == (2, 1)
            assert report.memories == held - memory.admin.stats()["memories"] > 30
            assert traces(memory, url) == []
            assert (named(memory), shown(memory)) == before
            assert memory.admin.verify().problems == ()

    @pytest.mark.slow
    def test_the_servers_statistics_sample_nothing_of_it(self, new_database, raw):
        with AgentMemory(new_database("postgres")) as memory:
            tell_secrets(memory)
            raw(memory, "analyze")
            samples = raw(
                memory,
                "select s.tablename || '.' || s.attname as sampled from pg_stats s "
                "join information_schema.columns c on c.table_schema = s.schemaname "
                "and c.table_name = s.tablename and c.column_name = s.attname "
                "where s.schemaname = 'agentmem' and c.data_type not in ('bigint', 'integer') and s.tablename in "
                "('memory', 'memory_group', 'seal', 'finished_task', 'place', 'branch_base', 'branch')",
            )
        assert {row["sampled"] for row in samples} <= {"branch.kind", "memory.kind"}

    @pytest.mark.slow
    def test_nothing_is_left_of_a_single_thread(self, url):
        with AgentMemory(url) as memory:
            say(memory, WORDS["value"], WORDS["thread"])
            say(memory, f"ask {WORDS['event']}", WORDS["thread"])
            memory.conversation(WORDS["thread"]).add_user_message(WORDS["record"])
            say(memory, "something else", "other")
            assert len(traces(memory, url)) == 4
            report = memory.erase(thread_id=WORDS["thread"])
            assert (report.threads, report.conversations, report.branches) == (1, 1, 0)
            assert report.memories > 4
            assert traces(memory, url) == []
            assert memory.admin.verify().problems == ()

    @pytest.mark.slow
    def test_a_copy_of_an_erased_thread_keeps_what_it_remembered_itself(self, memory):
        fill_threads(memory)
        layers = memory.layers(at("copy"))
        assert len(layers.recall.recent(limit=100)) > 1
        memory.erase(thread_id="t")
        assert {each.content for each in layers.recall.recent(limit=100)} == {"in the copy"}
        own = {"last", "about in the copy", "before the question", "answer"}
        assert set(layers.core.get()) == own
        assert {each.content for each in layers.archival.all()} == {"Somebody said in the copy"}
        assert memory.search("somebody said one two three fork", kinds=["event", "record", "item"], limit=50) != []
        for each in memory.search("one two three fork forget", kinds=["event", "record", "item"], limit=50):
            assert "in the copy" in each.text
        assert memory.admin.verify().problems == ()
        memory.erase(thread_id="copy")
        memory.erase(thread_id="asking")
        assert set(counted(memory).values()) == {0}

    @pytest.mark.slow
    def test_a_namespace_takes_its_branches_with_their_forks_and_no_others(self, filled):
        elsewhere = filled.layers("root", ("users", "anabel"))
        elsewhere.core.set("name", "Anabel")
        report = filled.erase(namespace=NS)
        assert (report.branches, report.threads) == (3, 0)
        assert elsewhere.core.get() == {"name": "Anabel"}
        assert filled.layers("alone").core.get() == {"pet": "cat"}
        assert filled.layers("root", NS).read() == {"core": {}, "recall": [], "archival": []}
        assert filled.search("medlars quinces", namespace=NS) == []
        assert filled.admin.verify().problems == ()

    @pytest.mark.slow
    def test_a_branch_that_was_erased_can_begin_again(self, filled):
        filled.erase(namespace=NS)
        root = filled.layers("root", NS)
        root.core.set("name", "Bea")
        assert root.fork("fork").core.get() == {"name": "Bea"}

    @pytest.mark.slow
    def test_an_erased_conversation_takes_no_branch_or_thread_of_its_name_along(self, filled):
        for name in ("t", "alone"):
            filled.conversation(name).add_user_message("hello")
        before = named(filled), shown(filled)
        assert [filled.erase(conversation_id=name).memories for name in ("t", "alone")] == [0, 0]
        assert filled.erase(thread_id="alone").branches == 0
        assert (named(filled), shown(filled)) == before

    @pytest.mark.slow
    async def test_the_awaited_twin_erases_everything(self, url):
        async with AgentMemory(url) as memory:
            tell_secrets(memory)
            fill_branches(memory)
            assert (await memory.aerase(namespace=())).branches == 6
            assert traces(memory, url) == []
            assert set(counted(memory).values()) == {0}

    @pytest.mark.slow
    @pytest.mark.parametrize("damage", sorted(set(DAMAGE) - {"another document"}))
    def test_what_is_damaged_goes_too(self, filled, raw, damage):
        raw(filled, DAMAGE[damage][0])
        filled.erase(namespace=())
        assert counted(filled) | {"contents": 0} == dict.fromkeys(MEMORIES, 0)


def said_in(memory, namespace, *threads):
    """What threads of a namespace show of their own, what the search finds there, and what "t" says."""
    views = [memory.layers(at(thread, namespace), scope="thread").read() for thread in threads]
    hits = memory.search("somebody said one two", namespace=namespace, limit=100)
    said = memory.conversation("t", namespace=namespace).retrieve_all()
    return views, {(each.kind, each.text) for each in hits}, said


class TestAdopting:
    @pytest.fixture
    def older(self, memory):
        """A thread of the root that has a fork and a conversation, beside another one."""
        for said in ("one", "two, forget it"):
            say(memory, said)
        early = list(memory.checkpointer.list(at()))[9].config["configurable"]
        say(memory, "on a fork", checkpoint_id=early["checkpoint_id"], checkpoint_ns="")
        memory.conversation("t").add(role="user", content="somebody said one more thing", name="Ana")
        say(memory, "three", "other")
        return memory

    @pytest.mark.slow
    def test_a_thread_is_as_it_was_and_others_of_the_namespace_see_what_it_taught(self, older):
        checkpoints = [each.checkpoint["id"] for each in older.checkpointer.list(at())]
        views, found, said = said_in(older, (), "t")
        assert len(found) > 5
        assert len(checkpoints) > 10
        older.admin.adopt("t", NS)
        assert older.admin.verify().problems == ()
        assert [each.checkpoint["id"] for each in older.checkpointer.list(at(namespace=NS))] == checkpoints
        assert said_in(older, NS, "t")[::2] == (views, said)
        assert {each for each in found if "three" not in each[1]} <= said_in(older, NS, "t")[1]
        say(older, "later", "new", NS)
        core = older.layers(at("new", NS)).core.get()
        assert {"about one", "about on a fork", "about later"} <= core.keys()
        assert "about three" not in core

    @pytest.mark.slow
    def test_the_root_has_nothing_of_it_left(self, older):
        older.admin.adopt("t", NS)
        assert [each.namespace for each in older.admin.threads(thread_id="t").threads] == [NS]
        assert older.conversation("t").retrieve_all() == []
        assert {text for _, text in said_in(older, ())[1]} & {"one", "Somebody said one"} == set()
        older.erase(namespace=NS)
        assert older.admin.verify().problems == ()
        assert older.layers(at("other")).core.get("last") == {"last": "three"}

    @pytest.mark.slow
    def test_it_goes_on_rewinds_and_is_erased_there(self, older):
        older.admin.adopt("t", NS)
        say(older, "later", namespace=NS)
        early = list(older.checkpointer.list(at(namespace=NS)))[-2].config["configurable"]
        assert "about later" in older.layers("main", NS).core.get()
        say(older, "again", namespace=NS, checkpoint_id=early["checkpoint_id"], checkpoint_ns="")
        assert "about later" not in older.layers("main", NS).core.get()
        older.erase(thread_id="t")
        assert older.layers("main", NS).core.get() == {}
        assert older.admin.verify().problems == ()

    @pytest.mark.slow
    def test_who_speaks_is_known_there_too(self, older):
        older.admin.adopt("t", NS)
        [first, *_] = older.search("what did Ana say", namespace=NS, kinds=["message"])
        assert (first.text, first.namespace) == ("somebody said one more thing", NS)

    def test_a_conversation_that_is_no_thread_moves_too(self, memory):
        memory.conversation("c").add(role="user", content="hello")
        memory.admin.adopt("c", NS)
        assert memory.conversation("c", namespace=NS).retrieve_all() == [{"role": "user", "content": "hello"}]
        assert memory.conversation("c").retrieve_all() == []
        assert memory.admin.verify().problems == ()

    async def test_the_awaited_twin_moves_it_and_the_hooks_are_told(self, url):
        told = []
        async with AgentMemory(url, hooks=[told.append]) as memory:
            memory.conversation("c").add(role="user", content="hello")
            await memory.admin.aadopt("c", NS)
            assert len(memory.conversation("c", namespace=NS)) == 1
        moved = [each for each in told if isinstance(each, ThreadMoved)]
        assert moved == [ThreadMoved(namespace=NS, conversation_id="c")]

    @pytest.mark.slow
    def test_what_cannot_be_is_refused_and_nothing_moves(self, older):
        say(older, "elsewhere", "other", NS)
        for namespace in ((), NS):
            older.conversation("c", namespace=namespace).add(role="user", content="hello")
        older.checkpointer.copy_thread("t", "copy")
        before = said_in(older, (), "t", "copy", "other"), said_in(older, NS, "other")
        for thread, namespace, why in (
            ("nobody", NS, "no thread or conversation 'nobody'"),
            ("other", NS, "already"),
            ("c", NS, "already"),
            ("t", NS, "delete one of them"),
            ("copy", NS, "delete one of them"),
            ("t", (), "another namespace"),
            ("", NS, "thread"),
        ):
            with pytest.raises(InvalidInput, match=why):
                older.admin.adopt(thread, namespace)
        assert (said_in(older, (), "t", "copy", "other"), said_in(older, NS, "other")) == before
        older.checkpointer.delete_thread("t")
        older.admin.adopt("copy", NS)
        with pytest.raises(InvalidInput, match=r"imported anew, with a namespace such as users/\{user_id\}"):
            older.admin.adopt("copy", ("other",))
        assert said_in(older, NS, "copy")[0] == before[0][0][1:2]
        assert older.admin.verify().problems == ()


class TestMoving:
    @pytest.mark.slow("in every form")
    def test_every_branch_and_every_checkpoint_shows_the_same_on_the_other_engine(self, filled, another, tmp_path):
        written = filled.export(tmp_path / "all.jsonl")
        read = another.import_(tmp_path / "all.jsonl")
        assert read == written
        assert (read.branches, read.memories) == (4, another.admin.stats()["memories"])
        assert named(another) == named(filled)
        assert shown(another) == shown(filled)
        assert another.admin.verify().problems == ()

    @pytest.mark.slow("in every form")
    def test_what_was_imported_goes_on(self, filled, another, exported):
        another.import_(exported)
        for memory in (filled, another):
            memory.layers("root", NS).core.set("name", "Later")
            memory.layers("fork", NS).fork("third").recall.append("note", "third")
            graph_of(memory).invoke(Command(resume="yes"), at("asking"), durability="sync")
            say(memory, "four")
            say(memory, "again in the copy", "copy")
        assert named(another)[2] == named(filled)[2]
        for name in ("root", "fork", "third"):
            mine, theirs = (each.layers(name, NS).read() for each in (filled, another))
            assert mine["core"] == theirs["core"]
            assert [each["content"] for each in mine["recall"]] == [each["content"] for each in theirs["recall"]]
        for thread in ("t", "copy", "asking"):
            mine, theirs = (each.layers(at(thread)).read() for each in (filled, another))
            assert mine["core"] == theirs["core"]
            assert [each["content"] for each in mine["recall"]] == [each["content"] for each in theirs["recall"]]
        assert another.layers(at("asking")).core.get("answer") == {"answer": "yes"}
        assert another.admin.verify().problems == ()

    @pytest.mark.slow
    def test_copies_of_a_thread_still_share_what_they_have_in_common(self, filled, another, tmp_path):
        filled.erase(thread_id="asking")
        filled.export(tmp_path / "all.jsonl")
        another.import_(tmp_path / "all.jsonl")
        mine, theirs = counted(filled), counted(another)
        for name in ("branches", "forks", "core", "events", "records"):
            assert theirs[name] == mine[name], name
        assert theirs["memories"] < mine["memories"], "what a step replaced itself, nobody sees, and stays behind"

    @pytest.mark.slow
    def test_what_an_unfinished_task_remembered_stays_behind(self, filled, another, exported):
        """Nobody sees it, and the task runs again; what its finished sibling remembered comes along."""
        another.import_(exported)
        assert filled.admin.stats()["waiting_groups"] - another.admin.stats()["waiting_groups"] == 1
        graph_of(another).invoke(Command(resume="yes"), at("asking"), durability="sync")
        assert [each.content for each in another.layers(at("asking")).recall.recent(kind="left")] == ["early", "ask"]

    @pytest.mark.slow
    def test_a_search_finds_it_and_knows_who_remembered_it(self, filled, another, exported):
        another.import_(exported)
        for asked in ("quinces", "medlars", "somebody said three", "moved", "please do one", "thing"):
            mine, theirs = (
                [
                    (each.kind, each.id, each.text, each.conversation_id, each.namespace)
                    for each in memory.search(asked, everything=True)
                ]
                for memory in (filled, another)
            )
            assert sorted(mine) == sorted(theirs)
            assert mine

    @pytest.mark.slow("in every form")
    def test_twice_adds_nothing_and_into_itself_neither(self, filled, another, exported):
        another.import_(exported)
        for memory in (another, filled):
            before = counted(memory), named(memory), shown(memory)
            report = memory.import_(exported)
            assert (report.branches, report.memories, report.checkpoints) == (0, 0, 0)
            assert (counted(memory), named(memory), shown(memory)) == before

    @pytest.mark.slow("in every form")
    def test_what_went_on_here_stays_as_it_is(self, filled, another, exported):
        another.import_(exported)
        another.layers("root", NS).write(core={"name": "Later"}, recall="later")
        another.layers("deep", NS).core.delete("soon")
        say(another, "later")
        before = named(another), shown(another)
        assert another.import_(exported).memories == 0
        assert (named(another), shown(another)) == before

    @pytest.mark.slow("in every form")
    def test_a_thread_gets_back_what_is_gone_and_keeps_what_is_new(self, filled, another, exported):
        before = shown(filled)
        another.import_(exported)
        say(another, "later")
        new = shown(another)
        another.checkpointer.prune(["t", "asking"])
        another.checkpointer.delete_thread("copy")
        assert another.import_(exported).memories > 0
        after = shown(another)
        assert {key: after[key] for key in before} == before
        assert {key: new[key] for key in new if key in after} == after
        assert another.admin.verify().problems == ()
        assert another.import_(exported).memories == 0
        graph_of(another).invoke(Command(resume="yes"), at("asking"), durability="sync")
        assert another.layers(at("asking")).core.get("answer") == {"answer": "yes"}
        assert another.admin.verify().problems == ()

    @pytest.mark.slow
    def test_a_checkpoint_that_came_back_goes_on_without_what_came_after_it(self, memory, another, tmp_path):
        def node(state, config):
            key, value = state["said"][-1].split("=")
            memory_of[config["metadata"]["where"]].layers(config).core.set(key, value)
            return {"said": []}

        def tell(where, said, **more):
            config = at() | {"metadata": {"where": where}}
            config["configurable"].update(more)
            graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
            graph.compile(checkpointer=memory_of[where].checkpointer).invoke({"said": [said]}, config)

        memory_of = {"here": memory, "there": another}
        for said in ("k=1", "k=2"):
            tell("here", said)
        early = list(memory.checkpointer.list(at()))[3].config
        memory.export(tmp_path / "all.jsonl")
        another.import_(tmp_path / "all.jsonl")
        another.checkpointer.prune(["t"])
        another.import_(tmp_path / "all.jsonl")
        assert another.layers(early).core.get() == {"k": "1"}
        tell("there", "j=1", checkpoint_id=early["configurable"]["checkpoint_id"], checkpoint_ns="")
        assert another.layers(at()).core.get() == {"k": "1", "j": "1"}

    @pytest.mark.slow
    def test_rounds_stand_where_they_stood_whatever_was_there_before(self, memory, another, tmp_path):
        def node(state, config):
            session = memory.session(config)
            begun = session.create_round(state["said"][-1])
            if state["said"][-1] == "finished":
                session.finish_round(begun.id)
            return {"said": []}

        graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
        for said in ("open", "finished", "open too"):
            graph.compile(checkpointer=memory.checkpointer).invoke({"said": [said]}, at())
        another.layers("x", settings=LayersConfig(recall_max_events=1_000)).write(recall=["event"] * 50)
        memory.export(tmp_path / "all.jsonl")
        another.import_(tmp_path / "all.jsonl")
        assert [each.user_query for each in another.session(at()).rounds] == ["open", "finished", "open too"]

    @pytest.mark.slow
    @pytest.mark.parametrize("change", ["other value", "fewer", "other branch", "other parent"])
    def test_a_branch_of_the_same_name_with_other_content_refuses_all_of_it(self, filled, another, tmp_path, change):
        if change == "fewer":
            filled.export(tmp_path / "early.jsonl")
            another.import_(tmp_path / "early.jsonl")
            filled.layers("root", NS).core.set("new", "value")
        elif change == "other parent":
            another.layers("other", NS).fork("deep")
        else:
            another.layers("root" if change == "other branch" else "alone", NS).core.set("name", "Bea")
            another.layers("alone").core.set("pet", "dog")
        filled.export(tmp_path / "all.jsonl")
        before = counted(another)
        with pytest.raises(InvalidInput, match="other content"):
            another.import_(tmp_path / "all.jsonl")
        assert counted(another) == before
        assert another.admin.stats()["threads"] == (3 if change == "fewer" else 0)

    @pytest.mark.slow
    def test_what_a_scope_shares_is_shared_where_it_was_imported(self, memory, tmp_path):
        main = memory.layers("main", NS)
        for value in ("Turin", "Lisbon"):
            main.core.set("home", value)
        memory.layers("experiment", NS).core.set("pet", "cat")
        say(memory, "one", namespace=NS)
        seen = memory.layers(at("new", NS)).core.get()
        assert ("pet" in seen, seen["home"], seen["about one"]) == (False, "Lisbon", "one")
        memory.export(tmp_path / "all.jsonl")
        with AgentMemory(tmp_path / "other.db") as other:
            other.import_(tmp_path / "all.jsonl")
            assert other.layers(at("new", NS)).core.get() == seen
            assert other.admin.verify().problems == ()

    def test_a_forks_own_version_counts_where_it_was_imported_whatever_the_clock_had_said(
        self, memory, clock, tmp_path
    ):
        root = memory.layers("root")
        root.core.set("name", "Ana")
        clock.pass_time(hours=-1)
        root.fork("fork").core.set("name", "Bea")
        memory.export(tmp_path / "all.jsonl")
        with AgentMemory(tmp_path / "other.db") as other:
            other.import_(tmp_path / "all.jsonl")
            assert other.layers("fork").core.get() == {"name": "Bea"}
            assert other.layers("root").core.get() == {"name": "Ana"}

    @pytest.mark.slow
    def test_nothing_of_another_namespace_comes_along_that_waits_there(self, memory, tmp_path):
        say(memory, "ours", namespace=NS)
        say(memory, "ask, theirs", namespace=("users", "bob"))
        assert memory.admin.stats()["waiting_groups"] == 2
        memory.within(NS).export(tmp_path / "ours.jsonl")
        lines = [json.loads(line) for line in (tmp_path / "ours.jsonl").read_text().splitlines()]
        bodies = [b64decode(line["body"]) for line in lines if line.get("record") == "memory" and line["body"]]
        assert any(b"ours" in body for body in bodies)
        assert not any(b"theirs" in body for body in bodies)

    def test_a_subgraph_comes_along_that_remembered_nothing_itself(self, memory, tmp_path):
        inner = StateGraph(State).add_node("idle", lambda state: {"said": []}).add_edge(START, "idle").compile()

        def caller(state, config):
            memory.layers(config).core.set("before", "it")
            inner.invoke(state)
            memory.layers(config).core.set("after", "it")
            return {"said": []}

        graph = StateGraph(State).add_node("caller", caller).add_edge(START, "caller")
        graph.compile(checkpointer=memory.checkpointer).invoke({"said": ["one"]}, at())
        seen = [
            (each.config, memory.layers(each.config).core.get())
            for each in memory.checkpointer.list({"configurable": {"thread_id": "t"}})
            if each.config["configurable"]["checkpoint_ns"]
        ]
        assert seen[-1][1] == seen[0][1] == {"before": "it"}
        memory.export(tmp_path / "all.jsonl")
        with AgentMemory(tmp_path / "other.db") as other:
            other.import_(tmp_path / "all.jsonl")
            assert [(config, other.layers(config).core.get()) for config, _ in seen] == seen

    def test_a_fork_whose_parent_has_gone_on_without_it_is_refused(self, memory, another, tmp_path):
        root = memory.layers("root")
        root.core.set("name", "Ana")
        memory.export(tmp_path / "early.jsonl")
        another.import_(tmp_path / "early.jsonl")
        another.layers("root").core.set("name", "Bea")
        root.fork("fork")
        memory.export(tmp_path / "late.jsonl")
        with pytest.raises(InvalidInput, match="has gone on here"):
            another.import_(tmp_path / "late.jsonl")
        assert another.admin.stats()["branches"] == 1

    @pytest.mark.slow
    def test_a_time_to_live_comes_along(self, filled, another, clock, exported):
        another.import_(exported)
        assert another.layers("deep", NS).core.get("soon") == {"soon": "gone"}
        clock.pass_time(hours=2)
        assert another.layers("deep", NS).core.get("soon") == {}

    def test_texts_of_every_sort_come_through(self, memory, another, tmp_path):
        layers = memory.layers("x")
        for text in ("half of one \ud83d", "\ude00 the other", "NUL \0, line \u2028 \x85", " "):
            layers.recall.append("note", text)
            layers.archival.write(text, tags=["tag ünïcode"])
        memory.export(tmp_path / "all.jsonl")
        another.import_(tmp_path / "all.jsonl")
        assert another.layers("x").read() == layers.read()

    @pytest.mark.slow("in every form")
    def test_many_versions_move_in_pages_and_keep_their_order(self, memory, another, tmp_path):
        layers = memory.layers("x", settings=LayersConfig(recall_max_events=1_000))
        layers.write(recall=[f"event {n}" for n in range(450)])
        fork = layers.fork("y")
        layers.write(recall=[f"later {n}" for n in range(250)])
        fork.write(recall=[f"on the fork {n}" for n in range(3)], core={"k": "v"})
        assert memory.export(tmp_path / "all.jsonl").memories == 704
        heads = [json.loads(line).get("record") for line in (tmp_path / "all.jsonl").read_text().splitlines()]
        assert heads.count("memories") == 4, "or it is held as a whole"
        another.import_(tmp_path / "all.jsonl")
        for name in ("x", "y"):
            assert another.layers(name).read() == memory.layers(name).read()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("record", "damage"),
        [
            ("memory", {"body": "AAAA"}),
            ("memory", {"checksum": None}),
            ("memory", {"number": True}),
            ("memory", {"key": 7}),
            ("memory", {"key": "\0"}),
            ("memory", {"position": None}),
            ("memory", {"branch": None, "position": None, "group": None}),
            ("memory", {"number": 10**9}),
            ("memory", {"until": "soon"}),
            ("memory", {"created_at": 2**63}),
            ("memory", {"created_at": "7"}),
            ("memory", {"extra": [1]}),
            ("memory", {"found": {"namespace": [1], "series": "x"}}),
            ("branch", {"kind": "conversation"}),
            ("branch", {"name": "", "kind": "layers"}),
            ("branch", {"parent": 10**9, "parent_position": 0}),
            ("branch", {"head": -1}),
            ("branch", {"seals": [[1]]}),
            ("branch", {"base": {}}),
            ("place", {"branch": 10**9}),
            ("place", {"position": 99}),
            ("finished", {"groups": "[]"}),
            ("group", {"task": None}),
            ("thread_memory", {"id": "nobody"}),
        ],
    )
    def test_a_damaged_record_is_refused_and_nothing_is_written(self, exported, another, record, damage):
        lines = [json.loads(line) for line in exported.read_text(encoding="utf-8").splitlines()]
        [line, *_] = [line for line in lines if line["record" if "record" in line else "format"] == record]
        line.update(damage)
        exported.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        before = another.admin.stats()
        with pytest.raises(InvalidInput):
            another.import_(exported)
        assert {name: another.admin.stats()[name] for name in MEMORIES} == {name: before[name] for name in MEMORIES}

    def test_a_branch_that_is_told_twice_is_refused(self, exported, another):
        lines = [json.loads(line) for line in exported.read_text(encoding="utf-8").splitlines()]
        branch = next(line for line in lines if line.get("record") == "branch" and line["kind"] == "layers")
        lines.insert(lines.index(branch), {**branch, "number": 10**9})
        exported.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        with pytest.raises(InvalidInput, match="twice"):
            another.import_(exported)
        assert another.admin.stats()["branches"] == 0

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "damage",
        [
            "update memory set extra = '{' where kind = 'record'",
            "update finished_task set groups = '[true]'",
            "update branch_base set groups = '[[1]]'",
            "update memory set content_id = (select min(id) from content) where kind = 'event'",
        ],
    )
    def test_what_is_damaged_is_not_exported(self, filled, raw, tmp_path, damage):
        if "content" in damage:
            raw(filled, "update content set body = :body where id = (select min(id) from content)", body=b"{}")
        raw(filled, damage)
        with pytest.raises(DatabaseUnreadable, match="verify"):
            filled.export(tmp_path / "all.jsonl")
        assert not (tmp_path / "all.jsonl").exists()


class Moving(Real):
    """A memory that moves to another database, of the other engine, whenever it is opened again."""

    def __init__(self, urls, folder):
        super().__init__(next(urls))
        self.urls, self.path, self.moved = urls, folder / "all.jsonl", 0

    def reopen(self):
        assert self.memory.admin.verify().problems == ()
        written = self.memory.export(self.path)
        self.memory.close()
        self.url = next(self.urls)
        self.memory = AgentMemory(self.url)
        read = self.memory.import_(self.path)
        assert replace(read, memories=0) == replace(written, memories=0)
        assert read.memories <= written.memories, "what only copies were made of stays behind"
        again = self.memory.import_(self.path)
        assert (again.memories, again.branches, again.checkpoints) == (0, 0, 0)
        assert self.memory.admin.verify().problems == ()
        self.moved += written.memories


def with_moves(script):
    """A script that opens its database again after every third action, and at the end."""
    reopen = {"do": "reopen", "thread": "graph 1", "awaited": False}
    actions = [[each, reopen] if number % 3 == 2 else [each] for number, each in enumerate(script["actions"])]
    return {"actions": [*itertools.chain(*actions), reopen]}


@pytest.mark.slow("in every form")
@pytest.mark.parametrize("seed", range(12))
def test_whatever_graphs_do_memory_is_what_state_says_after_each_move(seed, new_database, tmp_path):
    world = World(Moving((new_database(kind) for kind in itertools.cycle(["sqlite", "postgres"])), tmp_path))
    try:
        world.follow(with_moves(random_script(seed)))
    finally:
        world.close()
    assert world.differences == []
