"""Whose memory a call means: templates, `within`, and the walls between namespaces."""

import asyncio
import copy
import pickle
import re
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import ListNamespacesOp, MatchCondition
from langgraph.types import interrupt

from langchain_agentmem import AgentMemory, AuditTrail, InvalidInput
from tests.apart import check_apart
from tests.support.graphs import at, line

ADA = ("users", "ada")
TEMPLATE = ("users", "{user_id}")


def graph_of(memory, node):
    return line(memory.checkpointer, node)


def said(memory, config, text="hello"):
    """One turn of a thread that remembers what was said in its core memory, under the thread's name."""

    def node(state, config):
        memory.layers(config).core.set(str(config["configurable"]["thread_id"]), state["messages"][-1].content)
        return {"messages": [AIMessage("noted")]}

    return graph_of(memory, node).invoke({"messages": [HumanMessage(text)]}, config)


def core_in(memory, config):
    """What a node sees in core memory."""
    seen = {}

    def node(state, config):
        seen.update(memory.layers(config).core.get())

    graph_of(memory, node).invoke({"messages": []}, config)
    return seen


@pytest.fixture
def templated(url):
    with AgentMemory(url, namespace=TEMPLATE) as memory:
        yield memory


class TestTemplate:
    def test_threads_of_one_user_are_one_memory_and_nobody_elses(self, templated):
        said(templated, at("monday", user_id="ada"), "Lisbon")
        assert core_in(templated, at("tuesday", user_id="ada")) == {"monday": "Lisbon"}
        assert core_in(templated, at("tuesday", user_id="bob")) == {}
        assert core_in(templated, at("monday", user_id="bob")) == {}
        assert core_in(templated, at("tuesday", langgraph_auth_user_id="ada")) == {"monday": "Lisbon"}

    def test_what_does_not_lead_to_one_namespace_is_an_error_that_names_it(self, templated):
        said(templated, at("t", user_id="ada"))
        for configurable, named in (
            ({}, "user_id"),
            ({"userid": "ada"}, "user_id"),
            *(({"user_id": wrong}, "user_id") for wrong in (None, "", ["ada"])),
            ({"user_id": "ada", "agentmem_namespace": ("users", "bob")}, "bob"),
            ({"user_id": "ada", "agentmem_namespace": "users"}, "users"),
            ({"agentmem_namespace": ADA}, "user_id"),
            ({"user_id": "ada", "agentmem_namspace": ADA}, "agentmem_namspace"),
            ({"user_id": "ada", "langgraph_auth_user_id": "bob"}, "user_id"),
        ):
            with pytest.raises(InvalidInput, match=named):
                said(templated, at("t", **configurable))
        assert templated.admin.stats()["threads"] == 1

    def test_a_part_of_the_keys_leads_to_nobody_else(self, url):
        with AgentMemory(url, namespace=("{org}", "{user}"), bare_threads=True) as memory:
            said(memory, at("t", org="acme", user="ada"))
            assert memory.layers(at("t")).core.get() == {"t": "hello"}
            acme = memory.within(org="acme", user="ada")
            for configurable in (
                {"org": "evil"},
                {"org": "acme"},
                {"user": "bob", "agentmem_namespace": ("acme", "ada")},
            ):
                with pytest.raises(InvalidInput):
                    memory.checkpointer.get_tuple(at("t", **configurable))
                with pytest.raises(InvalidInput):
                    memory.layers(at("t", **configurable)).core.get()
            with pytest.raises(InvalidInput, match="evil"):
                acme.layers(at("t", org="evil"))
            assert acme.layers(at("t", org="acme")).core.get() == {"t": "hello"}

    def test_a_thread_begins_only_where_its_user_is_named(self, url):
        with AgentMemory(url, namespace=TEMPLATE, bare_threads=True) as memory:
            said(memory, at("t", user_id="ada"))
            said(memory, at("t"))
            with pytest.raises(InvalidInput, match="user_id"):
                said(memory, at("new"))
            said(memory, at("t", user_id="bob"))
            with pytest.raises(InvalidInput, match="several namespaces"):
                said(memory, at("t"))
            assert memory.admin.stats()["threads"] == 2

    def test_outside_of_runs_a_call_that_names_nobody_is_told_of_within(self, templated):
        for ask in (templated.layers, templated.facts, lambda: templated.search("x")):
            with pytest.raises(InvalidInput, match=r"within\(user_id"):
                ask()
        for ask in (lambda: templated.within(TEMPLATE), lambda: templated.search("x", namespace=TEMPLATE)):
            with pytest.raises(InvalidInput, match=r"template itself.*within\(user_id=…\)"):
                ask()
        with pytest.raises(InvalidInput, match=r"needs user_id.*everything=True"):
            templated.search("x", namespace=())

    def test_a_label_holds_one_key_at_most(self, url):
        for label in ("{a}-{b}", "{a}{b}", "{", "{}", "{a b}", "a}", "{1}"):
            with pytest.raises(InvalidInput, match="label"):
                AgentMemory(url, namespace=("users", label))

    @pytest.mark.parametrize("configurable", [{}, {"userid": "bob"}], ids=["nobody", "misspelt"])
    def test_a_run_that_names_nobody_is_not_everybodys(self, templated, configurable, tmp_path):
        said(templated, at("monday", user_id="ada"))
        admin, saver, path = templated.admin, templated.checkpointer, tmp_path / "all.jsonl"

        def node(state):
            for call in (
                templated.conversations,
                *(admin.threads, admin.branches, admin.namespaces, admin.growth, admin.stats),
                lambda: admin.prune(keep_checkpoints=1),
                lambda: templated.export(path),
                lambda: templated.erase(thread_id="monday"),
                lambda: list(saver.list(None)),
                lambda: saver.delete_thread("monday"),
                lambda: saver.prune(["monday"]),
                lambda: saver.copy_thread("monday", "copy"),
            ):
                with pytest.raises(InvalidInput, match="user_id"):
                    call()

        plain = line(None, node)
        plain.invoke({"messages": []}, at("monday", **configurable))
        assert not path.exists()
        assert core_in(templated, at("tuesday", user_id="ada")) == {"monday": "hello"}

    def test_in_a_run_all_means_all_of_its_user(self, templated, tmp_path):
        for user in ("ada", "bob"):
            said(templated, at("monday", user_id=user), f"hello from {user}")
        found = {}

        def node(state):
            found["pruned"] = templated.admin.prune(keep_checkpoints=1, dry_run=True).threads
            found["messages"] = templated.admin.stats()["messages"]
            templated.export(tmp_path / "all.jsonl")

        graph_of(templated, node).invoke({"messages": []}, at("monday", user_id="ada"))
        assert found == {"pruned": 1, "messages": 2}
        written = (tmp_path / "all.jsonl").read_bytes()
        assert b"hello from ada" in written
        assert b"bob" not in written

    def test_whose_thread_is_deleted_pruned_or_erased_is_told_where_several_have_it(self, templated):
        for user in ("ada", "bob"):
            said(templated, at("monday", user_id=user))
        said(templated, at("tuesday", user_id="ada"))
        templated.checkpointer.delete_thread("tuesday")
        whole = templated.admin.stats()["checkpoints"]
        for call, way in (
            (lambda: templated.checkpointer.delete_thread("monday"), "within"),
            (lambda: templated.checkpointer.prune(["monday"]), "within"),
            (lambda: templated.checkpointer.prune(["monday"], strategy="delete"), "within"),
            (lambda: templated.erase(thread_id="monday"), "namespace="),
            (lambda: templated.erase(thread_id="monday", dry_run=True), "namespace="),
        ):
            with pytest.raises(InvalidInput, match=f"several namespaces.*{way}"):
                call()
        assert templated.admin.stats()["checkpoints"] == whole
        for delete in (
            lambda: templated.within(user_id="ada").checkpointer.delete_thread("monday"),
            lambda: templated.within(user_id="ada").erase(thread_id="monday"),
        ):
            delete()
            assert [each.namespace for each in templated.admin.threads().threads] == [("users", "bob")]
            said(templated, at("monday", user_id="ada"))
        templated.erase(thread_id="monday", namespace=())
        assert not templated.admin.threads().threads


class TestUnscoped:
    def test_an_unknown_key_is_refused(self, memory):
        with pytest.raises(InvalidInput, match="agentmem_namepsace"):
            said(memory, at("t", agentmem_namepsace=ADA))

    def test_a_run_reaches_its_own_thread_alone(self, memory):
        memory.conversation("other").add_user_message("the secret word is abracadabra")
        memory.layers().archival.write("the secret word is abracadabra")
        found = []

        def node(state, config):
            found.extend(memory.search("secret word abracadabra"))
            found.extend(memory.retriever().invoke("secret word abracadabra", config))

        graph_of(memory, node).invoke({"messages": []}, at("t"))
        without = line(None, node)
        without.invoke({"messages": []}, at("t"))
        assert found == []
        [outside] = memory.search("secret word abracadabra")
        assert (outside.kind, [kind for kind, _ in outside.also]) == ("message", ["record"])


class TestWithin:
    def test_everything_is_inside(self, memory, tmp_path):
        check_apart({user: memory.within(("users", user)) for user in ("heron", "quince")}, tmp_path)
        assert memory.store.get(("users", "heron", "notes"), "k").value == {"text": "the fruit of the item is heron"}
        assert memory.layers(namespace=("users", "heron")).core.get()["fruit"] == "heron"
        assert memory.admin.verify().ok

    def test_by_the_keys_of_a_template(self, templated):
        said(templated, at("monday", user_id="ada"), "Lisbon")
        assert templated.within(user_id="ada").layers().core.get() == {"monday": "Lisbon"}
        assert templated.within(ADA).layers().core.get() == {"monday": "Lisbon"}
        for arguments, keys in (
            ((), {}),
            ((ADA,), {"user_id": "ada"}),
            (("ada",), {}),
            ((5,), {}),
            ((), {"usr_id": "a"}),
        ):
            with pytest.raises(InvalidInput, match="usr_id" if "usr_id" in keys else None):
                templated.within(*arguments, **keys)
        with pytest.raises(InvalidInput, match="agentmem_namspace"):
            templated.search("x", namespace=ADA, config=at("t", user_id="ada", agentmem_namspace=ADA))

    def test_nothing_leads_out(self, memory):
        ada = memory.within(ADA)
        for call in (
            lambda: ada.search("x", namespace=("users", "bob")),
            lambda: ada.layers(namespace=("users",)),
            lambda: ada.facts(namespace=("users", "bob")),
            lambda: ada.conversation("c", namespace=("users", "ad")),
            lambda: ada.session("c", namespace=("users", "adam")),
            lambda: ada.erase(namespace=("users",)),
            lambda: ada.admin.prune(namespace=("users",), keep_checkpoints=1),
            lambda: ada.byte_store(("users",)),
            lambda: ada.within(("users", "bob")),
            lambda: ada.layers(at("t", agentmem_namespace=("users", "bob"))),
            lambda: ada.checkpointer.get_tuple(at("t", agentmem_namespace=("users", "bob"))),
            lambda: AuditTrail(ada, ("users", "bob")).last(),
            lambda: ada.admin.threads(("users", "bob")),
        ):
            with pytest.raises(InvalidInput, match="users"):
                call()
        for call in (ada.admin.verify, lambda: ada.admin.backup("x.db"), lambda: ada.admin.copy("y.db")):
            with pytest.raises(InvalidInput, match="whole database"):
                call()
        ada.conversation("c", namespace=(*ADA, "work")).add_user_message("below is inside")
        assert [each.text for each in ada.search("inside")] == ["below is inside"]

    def test_its_store_begins_there_whatever_is_asked(self, memory):
        star = memory.within(("users", "*"))
        memory.store.put(("users", "bob", "notes"), "k", {"text": "secret"})
        star.store.put(("notes", "deep"), "k", {"text": "abracadabra"})
        assert star.store.list_namespaces(prefix=("*",)) == [("notes", "deep")]
        assert star.store.list_namespaces(max_depth=1) == [("notes",)]
        assert star.store.list_namespaces(suffix=("deep",)) == [("notes", "deep")]
        [found] = star.store.batch([ListNamespacesOp((MatchCondition("prefix", ("*", "deep")),), None, 10, 0)])
        assert found == [("notes", "deep")]
        assert [each.value["text"] for each in star.store.search((), query="secret abracadabra")] == ["abracadabra"]
        star.store.delete(("notes", "deep"), "k")
        assert star.store.search(()) == []
        assert memory.store.get(("users", "bob", "notes"), "k") is not None

    def test_a_graph_with_its_checkpointer_names_no_user(self, memory):
        ada = memory.within(ADA)
        said(ada, at("monday"), "Lisbon")
        assert core_in(ada, at("tuesday")) == {"monday": "Lisbon"}
        assert core_in(memory, at("wednesday")) == {}
        assert core_in(memory, at("tuesday")) == {"monday": "Lisbon"}  # the only thread of this id is hers
        assert core_in(memory, at("thursday", agentmem_namespace=ADA)) == {"monday": "Lisbon"}

    def test_the_whole_memory_is_the_users_in_a_run_of_that_graph(self, templated):
        seen = []

        def node(state, config):
            templated.layers().core.set("city", "Lisbon")
            templated.conversation("side").add_user_message("quinces")
            seen.append([each.kind for each in templated.search("Lisbon", kinds=["message"])])
            with pytest.raises(InvalidInput, match="lead to"):
                templated.layers(at("t", user_id="bob", agentmem_namespace=ADA))

        said(templated, at("b", user_id="bob"), "Lisbon")
        inner = line(None, node)
        for ada in (templated.within(user_id="ada"), templated.within(ADA)):
            graph_of(ada, inner).invoke({"messages": []}, at("t"))
            assert ada.layers().core.get() == {"city": "Lisbon"}
        assert {each.namespace for each in templated.search("quinces", everything=True)} == {ADA}
        assert seen == [[], []]
        assert templated.within(user_id="bob").layers().core.get() == {"b": "Lisbon"}

    def test_in_the_run_of_another_it_is_main_of_its_own(self, memory):
        ada = memory.within(ADA)
        seen = {}

        def node(state, config):
            ada.layers().core.set("city", "Lisbon")
            memory.layers().core.set("city", "Porto")
            seen.update(ada.layers().core.get())
            seen["found"] = ada.search("Lisbon")

        graph_of(memory, node).invoke({"messages": []}, at("t", agentmem_namespace=("users", "bob")))
        assert seen == {"city": "Lisbon", "found": []}
        assert ada.layers().core.get() == {"city": "Lisbon"}

    def test_it_closes_nothing_and_keeps_the_database_open(self, url):
        ada = AgentMemory(url).within(ADA)
        with ada:
            ada.layers().core.set("city", "Lisbon")
        asyncio.run(ada.aclose())
        assert ada.layers().core.get() == {"city": "Lisbon"}
        ada.database.original.close()


LABELS = [
    "ada", "Ada", "ADA", "ad", "adab", "ada ", " ada", "ada.", "ada/", "ada\\", "ada:", "ada|", "ada%", "ada_", "ada*",
    "ada?", "*", "%", "_", "?", ".", "..", "/", "{user id}", "{}", "a-da", "a,da", "('users', 'ada')", '["ada"]', "'",
    '"', "''; --", "$1", ":low", "%s", "\u00e9", "e\u0301", "\u0430da", "\uff41da", "ada\u200b", "ada\u00a0",
    "ada\ufeff", "\u00df", "ss", "\ufb00", "ff", "\u0130", "i\u0307", "\u0131", "I", "\U0001f600", "ada\U0010fffe",
    "null", "None", "0", "00", "users", "main", "root", "langgraph", "a" * 200, "a" * 199,
]  # fmt: skip


class TestWalls:
    def test_what_can_be_no_label_is_an_error(self, memory):
        for label in ("", "a\x1fb", "a\x00", "\ud800", "a" * 201, 5, None, ("a",)):
            for call in (
                lambda label=label: memory.within(("users", label)),
                lambda label=label: memory.search("x", namespace=("users", label)),
                lambda label=label: memory.layers(namespace=("users", label)),
                lambda label=label: said(memory, at("t", agentmem_namespace=("users", label))),
            ):
                with pytest.raises(InvalidInput):
                    call()

    def test_nothing_is_seen_through_any_spelling_of_another(self, memory, url):
        labels = LABELS[::3] if url.startswith("postgres") else LABELS
        for number, label in enumerate(labels):
            handle = memory.within(("users", label))
            secret = f"secret number{number}"
            said(handle, at("t"), secret)
            handle.layers().archival.write(secret)
            handle.layers().recall.append("note", secret)
            handle.facts().add_fact("user", "user", "keeps", secret)
            handle.conversation("c").add_user_message(secret)
            handle.store.put(("notes",), "k", {"text": secret})
            handle.byte_store().mset([("k", secret.encode())])
            handle.audit.add("what?", secret)
        for number, label in enumerate(labels):
            handle, namespace = memory.within(("users", label)), ("users", label)
            secret = f"secret number{number}"
            seen: list[Any] = []

            def node(state, config, seen=seen, handle=handle):
                seen += [each.text for each in memory.search("secret", limit=200)]
                seen += [each.page_content for each in memory.retriever(limit=200).invoke("secret", config)]
                seen += memory.layers().core.get().values()
                seen += [each.content for each in memory.layers().archival.search("secret", 100)]
                seen += [each.object for each in memory.facts().as_of()]
                seen += [str(memory.inject().invoke([HumanMessage("secret")], config))]

            graph_of(memory, node).invoke({"messages": []}, at("u", agentmem_namespace=namespace))
            seen += [each.text for each in memory.search("secret", namespace=namespace, limit=200)]
            seen += [each.text for each in handle.search("secret", limit=200, kinds=["audit", "item", "event", "fact"])]
            seen += [each.content for each in handle.layers().recall.search("secret", limit=100)]
            seen += [each.object for each in handle.facts().search("secret", 100)]
            seen += [each.value["text"] for each in handle.store.search((), query="secret")]
            seen += [each.reply for each in handle.audit.last(100)]
            seen += [handle.byte_store().mget(["k"])[0].decode()]
            assert len(seen) > 15
            assert set(re.findall(r"number\d+", " ".join(map(str, seen)))) == {f"number{number}"}, label
            assert {each.namespace for each in handle.admin.threads().threads} == {namespace}


class TestWhatLangGraphHandsOut:
    """LangGraph leads to subgraphs by the id of their thread alone, and nested graphs run beside each other."""

    @pytest.mark.parametrize("scoped", [False, True])
    def test_the_state_of_a_subgraph_that_waits_is_read_wherever_others_have_the_id(self, url, scoped):
        def ask(state):
            interrupt("?")

        with AgentMemory(url, namespace=TEMPLATE if scoped else None) as memory:
            inner = line(None, ask)
            graph = graph_of(memory, inner)
            name = (lambda user: {"user_id": user}) if scoped else lambda user: {"agentmem_namespace": ("users", user)}
            for user in ("ada", "bob"):
                graph.invoke({"messages": [HumanMessage(f"I am {user}")]}, at("t", **name(user)))
            for user in ("ada", "bob"):
                [task] = graph.get_state(at("t", **name(user)), subgraphs=True).tasks
                assert [each.text for each in task.state.values["messages"]] == [f"I am {user}"]
                [task] = graph.get_state(at("t", **name(user))).tasks
                assert graph.get_state(task.state).next == ("ask",)
                copied = pickle.loads(pickle.dumps(copy.deepcopy(task.state)))
                assert graph.get_state(copied).values["messages"][0].text == f"I am {user}"
            if scoped:
                with pytest.raises(InvalidInput, match="user_id"):
                    graph.get_state(at(str(task.state["configurable"]["thread_id"])))

    @pytest.mark.parametrize("thread", ["t", UUID(int=7), 7])
    def test_a_run_that_names_its_thread_alone_is_wholly_in_the_scope_of_that(self, url, thread):
        with AgentMemory(url) as memory:
            said(memory, at("other", agentmem_namespace=ADA), "Lisbon")
            said(memory, at(thread, agentmem_namespace=ADA))
            found = []

            def node(state):
                memory.layers().archival.write("quinces in the garden")
                memory.conversation("side").add_user_message("quinces in the pot")
                found.extend(hit.text for hit in memory.search("Lisbon"))

            graph_of(memory, node).invoke({"messages": [HumanMessage("quinces?")]}, at(thread))
            assert "Lisbon" in found
            told = {hit.text for hit in memory.within(ADA).search("quinces")}
            assert told == {"quinces in the garden", "quinces in the pot", "quinces?"}
            assert memory.search("quinces") == []

    def test_an_import_stays_within(self, templated):
        ada, other, of_bob = templated.within(user_id="ada"), InMemorySaver(), AgentMemory(":memory:")
        line(other, lambda state: None).invoke({"messages": [HumanMessage("quinces")]}, at("t"))
        ada.checkpointer.import_checkpoints(other)
        assert [(each.namespace, each.thread_id) for each in templated.admin.threads().threads] == [(ADA, "t")]
        assert [hit.text for hit in ada.search("quinces")] == ["quinces"]
        templated.checkpointer.import_checkpoints(other)  # into the root
        templated.admin.adopt("t", ("users", "carol"))
        assert [hit.text for hit in templated.within(user_id="carol").search("quinces")] == ["quinces"]
        with of_bob:
            run = at("t", agentmem_namespace=("users", "bob"))
            line(of_bob.checkpointer, lambda state: None).invoke({"messages": []}, run)
            with pytest.raises(InvalidInput, match="bob"):
                ada.checkpointer.import_checkpoints(of_bob.checkpointer)

    @pytest.mark.parametrize("saver", [None, InMemorySaver()])
    def test_what_is_named_counts_in_the_run_of_another_or_of_another_graph(self, templated, saver):
        ada, bob = (at(user, user_id=user) for user in ("ada", "bob"))
        said(templated, ada, "quinces of ada")
        said(templated, bob, "quinces of bob")
        mine = templated.within(user_id="ada")
        asked = HumanMessage("quinces?")

        def looks(state=None):
            retriever = templated.retriever(limit=20)
            told = {
                "search": templated.search("quinces", config=ada),
                "named": templated.search("quinces", namespace=ADA),
                "retriever": retriever.invoke("quinces", ada),
                "batch": retriever.batch(["quinces"] * 2, [ada, ada]),
                "core": templated.layers(ada).core.get(),
                "facts": templated.facts(ada).as_of(),
                "inject": templated.inject(ada).invoke([asked]),
                "layers": templated.inject(mine.layers()).invoke([asked]),
            }
            assert not [each for each in told.items() if "bob" in str(each)]
            assert [each for each in told if "of ada" not in str(told[each])] == ["facts"]

        looks()
        line(saver, looks).invoke({"messages": []}, at("job"))
        graph_of(templated, looks).invoke({"messages": []}, at("job", user_id="bob"))

    def test_a_thread_whose_own_namespace_is_named_is_the_thread(self, memory):
        seen = []

        def node(state, config):
            memory.layers(config, namespace=ADA).core.set("city", "Lisbon")
            seen.append(memory.layers(namespace=ADA).core.get())
            seen.append(memory.layers(config, namespace=list(ADA), scope="thread").core.get())

        graph_of(memory, node).invoke({"messages": []}, at("t", agentmem_namespace=ADA))
        assert seen == [{}, {"city": "Lisbon"}]
