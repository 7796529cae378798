"""Memory of branches and threads in statistics, verification, erasure, adoption and transfer."""

from __future__ import annotations

import operator
from typing import Annotated, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import ThreadMoved
from langchain_agentmem.errors import InvalidInput
from tests.support import graphs
from tests.support.graphs import line
from tests.upkeep.test_integrity import stored_bytes

NS, THREADS = ("users", "ana"), ("t", "copy", "asking")
WORDS = {
    "branch": "brindlefork8", "key": "quixotry31", "value": "zyxquorvex", "kind": "kestrelkind",
    "event": "wubblefrond", "record": "plovernook", "tag": "jibtagged4", "thread": "threadgrackle9",
    "namespace": "tenantsable",
}  # fmt: skip
MEMORIES = ("branches", "forks", "memories", "core", "events", "records", "old_memories", "waiting_groups", "contents")


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def graph_of(memory):
    """Return a graph that writes every layer, and interrupts if the message contains "ask"."""

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

    def forget(state, config):
        if "forget" in state["said"][-1]:
            memory.layers(config).core.delete("last")

    def left(state, config):
        memory.layers(config).recall.append("left", state["said"][-1])

    def right(state, config):
        memory.layers(config).core.set("before the question", state["said"][-1])
        answer = interrupt("Well?") if "ask" in state["said"][-1] else "none"
        memory.layers(config).core.set("answer", answer)

    sub = line(None, note, right, state=State)
    builder = StateGraph(State).add_sequence([note, forget, left, ("sub", sub)]).add_node(right)
    builder.add_edge(START, "note").add_edge("forget", "right").add_edge("right", "sub")
    return builder.compile(checkpointer=memory.checkpointer)


def at(thread="t", namespace=(), **more):
    return graphs.at(thread, namespace=namespace, **more)


def say(memory, said, thread="t", namespace=(), **more):
    return graph_of(memory).invoke({"said": [said]}, at(thread, namespace, **more), durability="sync")


def answer(memory, text="yes", thread="asking"):
    graph_of(memory).invoke(Command(resume=text), at(thread), durability="sync")


def fill_threads(memory, namespace=()):
    """Create a thread with a fork, a copy that continued, and one interrupted next to a finished task."""
    for said in ("one", "two, forget it", "three"):
        say(memory, said, namespace=namespace)
    early = list(memory.checkpointer.list(at(namespace=namespace)))[9].config["configurable"]
    say(memory, "on a fork", namespace=namespace, checkpoint_id=early["checkpoint_id"], checkpoint_ns="")
    memory.checkpointer.copy_thread("t", "copy")
    say(memory, "in the copy", "copy", namespace)
    say(memory, "early", "asking", namespace)
    say(memory, "ask", "asking", namespace)


def fill_branches(memory, namespace=NS):
    """Create a branch with nested forks, each of which changed inherited memory."""
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
    """Return everything that the named branches show."""
    layers = [memory.layers(name, NS) for name in ("root", "fork", "deep")] + [memory.layers("alone")]
    return [(each.read(), each.ancestors(), str(each.tree())) for each in layers]


def shown(memory, namespace=()):
    """Return everything that each checkpoint of the threads shows."""
    seen = {}
    for thread in THREADS:
        for each in memory.checkpointer.list(at(thread)):
            seen[thread, each.config["configurable"]["checkpoint_ns"], each.checkpoint["id"]] = (
                memory.layers(each.config, namespace).read(),
                memory.session(each.config).to_conversation().to_dict(),
                [item.dict() for item in memory.thread_store.at(each.config).search((), limit=100, refresh_ttl=False)],
            )
    return seen


def counted(memory):
    return {name: memory.admin.stats()[name] for name in MEMORIES}


class TestStatistics:
    def test_statistics_count_branches_and_memories(self, memory):
        fill_branches(memory)
        assert counted(memory) == {
            "branches": 4, "forks": 2, "memories": 12, "core": 4, "events": 2, "records": 3, "old_memories": 1,
            "waiting_groups": 0, "contents": memory.admin.stats()["contents"],
        }  # fmt: skip

    def test_statistics_of_a_namespace_omit_recorded_messages(self, memory):
        config = graphs.at(namespace=("ada",))
        line(memory.checkpointer, lambda state: {}).invoke({"messages": [("user", "Hello.")]}, config)
        for each in (memory, memory.within(("ada",))):
            statistics = each.admin.stats()
            assert (statistics["messages"], statistics["memories"], statistics["old_memories"]) == (1, 0, 0)

    async def test_verify_checks_all_memories_and_branches(self, filled):
        report = filled.admin.verify()
        assert report.problems == ()
        assert report.checked["memories"] == filled.admin.stats()["memories"]
        assert report.checked["branches"] == 4
        assert await filled.admin.averify() == report


def write_distinctive_words(memory):
    """Write distinctive words into every field of memory."""
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

    for said in ("one", "two"):
        line(memory.checkpointer, node, state=State).invoke({"said": [said]}, at(WORDS["thread"], namespace))


def traces(memory, url):
    pages = stored_bytes(memory, url)
    return sorted({word for content in pages.values() for word in WORDS.values() if word.encode() in content})


class TestErasure:
    def test_erased_memory_leaves_no_bytes_in_storage(self, url, raw):
        with AgentMemory(url) as memory:
            write_distinctive_words(memory)
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

    def test_a_copy_keeps_its_own_memory_after_erasure(self, memory):
        fill_threads(memory)
        layers = memory.layers(at("copy"))
        assert len(layers.recall.recent(limit=100)) > 1
        memory.erase(thread_id="t")
        assert {each.content for each in layers.recall.recent(limit=100)} == {"in the copy"}
        own = {"last", "about in the copy", "before the question", "answer"}
        assert set(layers.core.get()) == own
        assert {each.content for each in layers.archival.all()} == {"Somebody said in the copy"}
        kinds = ["event", "record", "item"]
        assert memory.search("somebody said one two three fork", kinds=kinds, limit=50) != []
        assert memory.search("one two three fork forget", kinds=kinds, limit=50) == []
        assert memory.admin.verify().problems == ()
        memory.erase(thread_id="copy")
        memory.erase(thread_id="asking")
        assert set(counted(memory).values()) == {0}

    def test_erasing_a_namespace_erases_only_its_branches(self, filled):
        elsewhere = filled.layers("root", ("users", "anabel"))
        elsewhere.core.set("name", "Anabel")
        report = filled.erase(namespace=NS)
        assert (report.branches, report.threads) == (3, 0)
        assert elsewhere.core.get() == {"name": "Anabel"}
        assert filled.layers("alone").core.get() == {"pet": "cat"}
        assert filled.layers("root", NS).read() == {"core": {}, "recall": [], "archival": []}
        assert filled.search("medlars quinces", namespace=NS) == []
        assert filled.admin.verify().problems == ()
        filled.layers("root", NS).core.set("name", "Bea")
        assert filled.layers("root", NS).fork("fork").core.get() == {"name": "Bea"}

    def test_erasing_a_conversation_keeps_equally_named_branches(self, filled):
        for name in ("t", "alone"):
            filled.conversation(name).add_user_message("hello")
        before = named(filled), shown(filled)
        assert [filled.erase(conversation_id=name).memories for name in ("t", "alone")] == [0, 0]
        assert filled.erase(thread_id="alone").branches == 0
        assert (named(filled), shown(filled)) == before


def said_in(memory, namespace, *threads):
    """Return the threads' own memory, the search hits and the conversation "t" of a namespace."""
    views = [memory.layers(at(thread, namespace), scope="thread").read() for thread in threads]
    hits = memory.search("somebody said one two", namespace=namespace, limit=100)
    said = memory.conversation("t", namespace=namespace).retrieve_all()
    return views, {(each.kind, each.text) for each in hits}, said


class TestAdoption:
    def test_an_adopted_thread_shares_memory_with_its_namespace(self, older):
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
        [first, *_] = older.search("what did Ana say", namespace=NS, kinds=["message"])
        assert (first.text, first.namespace) == ("somebody said one more thing", NS)

    def test_an_adopted_thread_leaves_nothing_in_the_root(self, older):
        older.admin.adopt("t", NS)
        assert [each.namespace for each in older.admin.threads(thread_id="t").threads] == [NS]
        assert older.conversation("t").retrieve_all() == []
        assert {text for _, text in said_in(older, ())[1]} & {"one", "Somebody said one"} == set()
        say(older, "later", namespace=NS)
        early = list(older.checkpointer.list(at(namespace=NS)))[-2].config["configurable"]
        assert "about later" in older.layers("main", NS).core.get()
        say(older, "again", namespace=NS, checkpoint_id=early["checkpoint_id"], checkpoint_ns="")
        assert "about later" not in older.layers("main", NS).core.get()
        older.erase(namespace=NS)
        assert older.layers("main", NS).core.get() == {}
        assert older.admin.verify().problems == ()
        assert older.layers(at("other")).core.get("last") == {"last": "three"}

    async def test_conversations_are_adopted_and_hooks_notified(self, url):
        told = []
        async with AgentMemory(url, hooks=[told.append]) as memory:
            for name in ("c", "d"):
                memory.conversation(name).add(role="user", content="hello")
            memory.admin.adopt("c", NS)
            await memory.admin.aadopt("d", NS)
            for name in ("c", "d"):
                assert memory.conversation(name, namespace=NS).retrieve_all() == [{"role": "user", "content": "hello"}]
                assert memory.conversation(name).retrieve_all() == []
            assert memory.admin.verify().problems == ()
        moved = [each for each in told if isinstance(each, ThreadMoved)]
        assert moved == [ThreadMoved(namespace=NS, conversation_id=name) for name in ("c", "d")]

    def test_invalid_adoptions_are_rejected_without_changes(self, older):
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
        with pytest.raises(InvalidInput, match="no thread or conversation 'copy' in the root"):
            older.admin.adopt("copy", ("other",))
        assert said_in(older, NS, "copy")[0] == before[0][0][1:2]
        assert older.admin.verify().problems == ()


def told(memory, *view):
    """Return the core memory and the event texts of a view."""
    seen = memory.layers(*view).read()
    return seen["core"], [each["content"] for each in seen["recall"]]


class TestTransfer:
    def test_import_restores_every_branch_and_checkpoint(self, filled, another, exported):
        """A second import adds nothing. Memory of an unfinished task is not exported."""
        read = another.import_(exported)
        assert (read.branches, read.memories) == (4, another.admin.stats()["memories"])
        before = named(filled), shown(filled)
        assert filled.admin.stats()["waiting_groups"] - another.admin.stats()["waiting_groups"] == 1
        for memory in (another, filled):
            held = counted(memory)
            assert (named(memory), shown(memory)) == before
            report = memory.import_(exported)
            assert (report.branches, report.memories, report.checkpoints) == (0, 0, 0)
            assert (counted(memory), named(memory), shown(memory)) == (held, *before)
            assert memory.admin.verify().problems == ()

    def test_reimport_restores_deleted_memory_and_keeps_new(self, filled, another, exported):
        before = shown(filled)
        another.import_(exported)
        for memory in (filled, another):
            memory.layers("root", NS).core.set("name", "Later")
            memory.layers("fork", NS).fork("third").recall.append("note", "third")
            answer(memory)
            say(memory, "four")
            say(memory, "again in the copy", "copy")
        assert named(another)[2] == named(filled)[2]
        for view in (*((name, NS) for name in ("root", "fork", "third")), *((at(name),) for name in THREADS)):
            assert told(another, *view) == told(filled, *view), view
        asking = another.layers(at("asking"))
        assert asking.core.get("answer") == {"answer": "yes"}
        assert [each.content for each in asking.recall.recent(kind="left")] == ["early", "ask"]
        new = shown(another)
        another.checkpointer.prune(["t", "asking"])
        another.checkpointer.delete_thread("copy")
        assert another.import_(exported).memories > 0
        after = shown(another)
        assert {key: after[key] for key in before} == before
        assert {key: new[key] for key in new if key in after} == after
        assert another.admin.verify().problems == ()
        assert another.import_(exported).memories == 0

    def test_export_contains_no_pending_memory_of_other_namespaces(self, memory, tmp_path):
        say(memory, "ours", namespace=NS)
        say(memory, "ask, theirs", namespace=("users", "bob"))
        assert memory.admin.stats()["waiting_groups"] == 2
        memory.within(NS).export(tmp_path / "ours.db")
        held = (tmp_path / "ours.db").read_bytes()
        assert b"ours" in held
        assert b"theirs" not in held

    @pytest.mark.parametrize("change", ["other value", "fewer", "other branch", "other parent"])
    def test_import_rejects_a_conflicting_branch(self, filled, another, tmp_path, change):
        path = tmp_path / "all.jsonl"
        if change == "fewer":
            filled.export(path)
            another.import_(path)
            filled.layers("root", NS).core.set("new", "value")
        elif change == "other parent":
            another.layers("other", NS).fork("deep")
        else:
            another.layers("root" if change == "other branch" else "alone", NS).core.set("name", "Bea")
            another.layers("alone").core.set("pet", "dog")
        filled.export(path)
        before = counted(another)
        with pytest.raises(InvalidInput, match="other content"):
            another.import_(path)
        assert counted(another) == before
        assert another.admin.stats()["threads"] == (3 if change == "fewer" else 0)


@pytest.mark.parametrize("config", [graphs.at("one"), at("one"), at("one", ("users", "bo"))])
def test_a_bare_thread_id_resolves_to_its_namespace(memory, tmp_path, config):
    """Memory of the run is visible in the namespace and the thread, and part of its export."""
    say(memory, "the first word", "one", ("users", "bo"))
    graph_of(memory).invoke({"said": ["quinces"]}, config)
    assert {found.namespace for found in memory.search("quinces", limit=20, everything=True)} == {("users", "bo")}
    assert len(memory.layers(config).archival.search("quinces")) == 1
    assert memory.thread_store.at(config).search((), query="quinces")
    assert memory.search("quinces", config=config)
    memory.within(("users", "bo")).export(tmp_path / "bo.db")
