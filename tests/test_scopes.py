"""Namespaces of calls: templates, `within`, and isolation."""

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
    """Return the core memory that a node sees."""
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
    def test_template_gives_each_user_a_separate_memory(self, templated):
        said(templated, at("monday", user_id="ada"), "Lisbon")
        assert core_in(templated, at("tuesday", user_id="ada")) == {"monday": "Lisbon"}
        assert core_in(templated, at("tuesday", user_id="bob")) == {}
        assert core_in(templated, at("monday", user_id="bob")) == {}
        assert core_in(templated, at("tuesday", langgraph_auth_user_id="ada")) == {"monday": "Lisbon"}

    def test_missing_or_conflicting_template_keys_are_refused(self, templated):
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

    def test_partial_template_keys_are_refused(self, url):
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

    def test_new_thread_requires_the_keys_of_its_user(self, url):
        with AgentMemory(url, namespace=TEMPLATE, bare_threads=True) as memory:
            said(memory, at("t", user_id="ada"))
            said(memory, at("t"))
            with pytest.raises(InvalidInput, match="user_id"):
                said(memory, at("new"))
            said(memory, at("t", user_id="bob"))
            with pytest.raises(InvalidInput, match="several namespaces"):
                said(memory, at("t"))
            assert memory.admin.stats()["threads"] == 2

    def test_missing_key_outside_runs_hints_at_within(self, templated):
        for ask in (templated.layers, templated.facts, lambda: templated.search("x")):
            with pytest.raises(InvalidInput, match=r"within\(user_id"):
                ask()
        for ask in (lambda: templated.within(TEMPLATE), lambda: templated.search("x", namespace=TEMPLATE)):
            with pytest.raises(InvalidInput, match=r"is the template\. .*within\(user_id=…\)"):
                ask()
        with pytest.raises(InvalidInput, match=r"Missing user_id.*everything=True"):
            templated.search("x", namespace=())

    def test_label_has_at_most_one_template_key(self, url):
        for label in ("{a}-{b}", "{a}{b}", "{", "{}", "{a b}", "a}", "{1}"):
            with pytest.raises(InvalidInput, match="label"):
                AgentMemory(url, namespace=("users", label))

    @pytest.mark.parametrize("configurable", [{}, {"userid": "bob"}], ids=["nobody", "misspelt"])
    def test_run_without_user_cannot_reach_all_users(self, templated, configurable, tmp_path):
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

    def test_run_is_limited_to_its_users_namespace(self, templated, tmp_path):
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

    def test_ambiguous_thread_id_is_refused_for_deletion(self, templated):
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
    def test_unknown_config_key_is_refused(self, memory):
        with pytest.raises(InvalidInput, match="agentmem_namepsace"):
            said(memory, at("t", agentmem_namepsace=ADA))

    def test_run_without_template_reaches_only_its_thread(self, memory):
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
    def test_handles_of_different_namespaces_are_isolated(self, memory, tmp_path):
        check_apart({user: memory.within(("users", user)) for user in ("heron", "quince")}, tmp_path)
        assert memory.store.get(("users", "heron", "notes"), "k").value == {"text": "the fruit of the item is heron"}
        assert memory.layers(namespace=("users", "heron")).core.get()["fruit"] == "heron"
        assert memory.admin.verify().ok

    def test_within_takes_template_keys_or_a_namespace(self, templated):
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

    def test_handle_refuses_every_outside_namespace(self, memory):
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

    def test_store_of_a_handle_has_relative_namespaces(self, memory):
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

    def test_checkpointer_of_a_handle_sets_the_user(self, memory):
        ada = memory.within(ADA)
        said(ada, at("monday"), "Lisbon")
        assert core_in(ada, at("tuesday")) == {"monday": "Lisbon"}
        assert core_in(memory, at("wednesday")) == {}
        assert core_in(memory, at("tuesday")) == {"monday": "Lisbon"}  # the only thread of this id is hers
        assert core_in(memory, at("thursday", agentmem_namespace=ADA)) == {"monday": "Lisbon"}

    def test_whole_memory_is_limited_in_a_handles_run(self, templated):
        seen = []

        def node(state, config):
            templated.layers().core.set("city", "Lisbon")
            templated.conversation("side").add_user_message("quinces")
            seen.append([each.kind for each in templated.search("Lisbon", kinds=["message"])])
            with pytest.raises(InvalidInput, match="its keys select"):
                templated.layers(at("t", user_id="bob", agentmem_namespace=ADA))

        said(templated, at("b", user_id="bob"), "Lisbon")
        inner = line(None, node)
        for ada in (templated.within(user_id="ada"), templated.within(ADA)):
            graph_of(ada, inner).invoke({"messages": []}, at("t"))
            assert ada.layers().core.get() == {"city": "Lisbon"}
        assert {each.namespace for each in templated.search("quinces", everything=True)} == {ADA}
        assert seen == [[], []]
        assert templated.within(user_id="bob").layers().core.get() == {"b": "Lisbon"}

    def test_handle_uses_its_main_branch_in_foreign_runs(self, memory):
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

    def test_closing_a_handle_keeps_the_database_open(self, url):
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


class TestIsolation:
    def test_invalid_label_is_refused(self, memory):
        for label in ("", "a\x1fb", "a\x00", "\ud800", "a" * 201, 5, None, ("a",)):
            for call in (
                lambda label=label: memory.within(("users", label)),
                lambda label=label: memory.search("x", namespace=("users", label)),
                lambda label=label: memory.layers(namespace=("users", label)),
                lambda label=label: said(memory, at("t", agentmem_namespace=("users", label))),
            ):
                with pytest.raises(InvalidInput):
                    call()

    def test_similar_labels_are_isolated(self, memory, url):
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


class TestLangGraphConfigs:
    """LangGraph leads to subgraphs by the id of their thread alone, and nested graphs run beside each other."""

    @pytest.mark.parametrize("scoped", [False, True])
    def test_subgraph_state_is_read_despite_shared_thread_ids(self, url, scoped):
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
    def test_run_with_thread_id_alone_uses_its_namespace(self, url, thread):
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

    def test_import_stays_within_the_namespace(self, templated):
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
    def test_explicit_config_counts_inside_runs_of_others(self, templated, saver):
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

    def test_own_namespace_in_a_run_means_the_thread(self, memory):
        seen = []

        def node(state, config):
            memory.layers(config, namespace=ADA).core.set("city", "Lisbon")
            seen.append(memory.layers(namespace=ADA).core.get())
            seen.append(memory.layers(config, namespace=list(ADA), scope="thread").core.get())

        graph_of(memory, node).invoke({"messages": []}, at("t", agentmem_namespace=ADA))
        assert seen == [{}, {"city": "Lisbon"}]
