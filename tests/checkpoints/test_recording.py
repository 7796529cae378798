"""Recording of thread messages as conversations by the checkpointer."""

from __future__ import annotations

import operator
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import MessagesState
from langgraph.graph.message import REMOVE_ALL_MESSAGES, _messages_delta_reducer, add_messages

from langchain_agentmem import AgentMemory, AgentMemorySaver
from langchain_agentmem.base.events import MessagesStored
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.messages.message_marks import Summary, memory_message, summary_message
from tests.support.graphs import at, line

pytestmark = pytest.mark.verified


class Own(AIMessage):
    mood: str = "good"


def grown(old, new):
    return type(old)([*old, *new])


class Listed(TypedDict):
    messages: Annotated[list, grown]


class Tupled(TypedDict):
    messages: Annotated[tuple, grown]


def reply(state):
    asked = state["messages"][-1]
    return {"messages": [AIMessage(f"As to {asked.text}: yes", id=f"re-{asked.id}")]}


def build(saver, node=reply, schema=MessagesState):
    return line(saver, ("reply", node), state=schema)


@pytest.fixture
def graph(saver):
    return build(saver)


def say(graph, text, config=None, key=None, **options):
    given = {"messages": [HumanMessage(text, id=key or text.split()[0])]}
    return graph.invoke(given, config or at(), **options)


def found(memory, query, **asked):
    return {hit.id for hit in memory.search(query, limit=100, **asked)}


def said(memory, thread="t", namespace=None):
    return [message.id for message in memory.conversation(thread, namespace).messages]


def checkpoint_with(graph, *ids, config=None):
    """Return the config of the oldest checkpoint whose state holds exactly these messages."""
    states = list(graph.get_state_history(config or at()))
    return [each.config for each in states if [m.id for m in each.values.get("messages", ())] == list(ids)][-1]


class TestRecordedMessages:
    def test_messages_are_searchable_once_committed(self, memory, graph):
        say(graph, "apples are ripe")
        assert found(memory, "apples") == {"apples", "re-apples"}
        assert said(memory) == ["apples", "re-apples"]
        [hit] = memory.search("ripe", limit=1, roles=["assistant"])
        assert (hit.id, hit.conversation_id, hit.value.text) == ("re-apples", "t", "As to apples are ripe: yes")
        assert memory.admin.verify().ok
        say(graph, "plums")
        stats = memory.admin.stats()
        assert (stats["messages"], stats["memories"]) == (4, 0)

    def test_input_messages_are_hidden_from_their_own_run(self, memory):
        seen = []

        def look(state):
            with ThreadPoolExecutor(1) as elsewhere:  # outside of the run
                seen.append((found(memory, "apples"), elsewhere.submit(found, memory, "apples").result()))
            return reply(state)

        graph = build(memory.checkpointer, look)
        say(graph, "apples are ripe", durability="sync")
        assert seen == [(set(), {"apples"})]
        say(graph, "pears", durability="sync")
        assert seen[1:] == [({"apples", "re-apples"}, {"apples", "re-apples"})]

    def test_hooks_receive_each_message_once(self, url):
        events = []
        with AgentMemory(url, hooks=[events.append]) as memory:
            graph = build(memory.checkpointer)
            say(graph, "apples")
            say(graph, "pears")
        stored = [key for each in events if isinstance(each, MessagesStored) for key in each.message_ids]
        assert stored == ["apples", "re-apples", "pears", "re-pears"]

    def test_messages_are_recorded_in_every_durability(self, memory, graph):
        for durability in ("sync", "async", "exit"):
            for text in ("apples", "pears"):
                say(graph, text, at(durability), durability=durability)
            assert said(memory, durability) == ["apples", "re-apples", "pears", "re-pears"]

    def test_messages_without_ids_are_recorded_each_time(self, memory):
        for thread, state in (("t", Listed), ("u", Tupled)):
            graph = build(memory.checkpointer, lambda _: {"messages": [AIMessage("no"), AIMessage("no")]}, state)
            chat = memory.conversation(thread)
            for count in (1, 2, 3):
                graph.invoke({"messages": [HumanMessage("yes")]}, at(thread))
                assert [message.text for message in chat.messages] == ["yes", "no", "no"] * count
            [hit] = memory.search("yes", roles=["user"], conversation_id=thread)
            assert len({hit.id, *(key for _, key in hit.also)}) == 3
            chat.remove_by_id(chat.messages[0].id)
            graph.invoke({"messages": [HumanMessage("yes")]}, at(thread))
            assert [message.text for message in chat.messages] == ["no", "no", *["yes", "no", "no"] * 3]

    def test_messages_in_any_container_are_recorded(self, memory):
        class State(TypedDict):
            messages: Any

        graph = build(memory.checkpointer, lambda _: {}, State)
        words = [HumanMessage("apples", id="a"), HumanMessage("pears", id="b"), Own("plums", id="own")]
        serde = InMemorySaver().serde
        ways = {
            "tuple": tuple,
            "list": list,
            "dict": lambda given: {"all": tuple(given)},
            "one": lambda given: given[-1],
        }
        for way, hold in ways.items():
            for many in (1, 2, 3):
                graph.invoke({"messages": hold(words[:many])}, at(way))
            assert said(memory, way) == ["a", "b", "own"]
            assert graph.get_state(at(way)).values["messages"] == serde.loads_typed(serde.dumps_typed(hold(words)))
            memory.conversation(way).remove_by_id("a")
            graph.invoke({"messages": hold([*words, AIMessage("figs", id="f")])}, at(way))
            assert said(memory, way) == ["b", "own", "f"]

    def test_delta_channel_messages_are_recorded(self, memory):
        class State(TypedDict):
            messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]

        graph = build(memory.checkpointer, schema=State)
        say(graph, "apples")
        say(graph, "pears")
        assert said(memory) == ["apples", "re-apples", "pears", "re-pears"]

    def test_subgraph_messages_are_recorded_in_the_thread(self, memory):
        say(build(memory.checkpointer, build(None)), "apples")
        assert said(memory) == ["apples", "re-apples"]

    def test_unusual_messages_do_not_fail_the_put(self, memory):
        graph = build(memory.checkpointer, lambda _: {"messages": [Own("pears", id="own")]})
        odd = HumanMessage("apples", id="odd", additional_kwargs={"created_at": "yesterday"})
        graph.invoke({"messages": [odd]}, at())
        assert found(memory, "apples pears") == {"odd", "own"}


class TestRecordOption:
    def test_record_selects_another_channel(self, url):
        class State(TypedDict):
            messages: Annotated[list[AnyMessage], add_messages]
            notes: Annotated[list[AnyMessage], add_messages]

        def note(state):
            return {"notes": [AIMessage("pears", id="note")]}

        with AgentMemory(url, record=("notes",)) as memory:
            say(build(memory.checkpointer, note, State), "apples")
            assert found(memory, "apples pears") == {"note"}

    def test_a_standalone_saver_records_on_request(self, url):
        for record, messages in (((), []), (("messages",), ["apples", "re-apples"])):
            with AgentMemorySaver.from_conn_string(url, record=record) as saver:
                say(build(saver), "apples", at("asked" if record else "not"))
            with AgentMemory(url) as memory:
                assert said(memory, "asked" if record else "not") == messages

    def test_invalid_record_values_are_rejected(self):
        for wrong in (3, None, [1], {"messages": 1}):
            with pytest.raises(InvalidInput, match="The channels to record"):
                pytest.fail(f"{AgentMemory(':memory:', record=wrong)} records {wrong!r}")

    def test_encrypted_savers_do_not_record(self, memory):
        serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
        with pytest.raises(InvalidInput, match="without encryption"):
            AgentMemorySaver(memory, serde=serde, record=("messages",))
        say(build(AgentMemorySaver(memory, serde=serde)), "apples")
        assert found(memory, "apples") == set()


class TestRewinding:
    @pytest.fixture
    def forked(self, graph):
        say(graph, "apples")
        say(graph, "pears")
        say(graph, "plums", checkpoint_with(graph, "apples", "re-apples"))
        return graph

    def test_abandoned_messages_are_found_only_on_request(self, memory, forked):
        assert found(memory, "apples pears plums") == {"apples", "re-apples", "plums", "re-plums"}
        assert found(memory, "pears", abandoned=True) == {"pears", "re-pears"}
        assert said(memory) == ["apples", "re-apples", "plums", "re-plums"]
        assert len(memory.conversation("t")) == 4

    def test_a_run_from_the_past_hides_later_messages(self, memory, forked):
        seen = []

        def look(state):
            seen.append(found(memory, "apples pears plums"))
            return {}

        past = checkpoint_with(forked, "apples", "re-apples", "pears", "re-pears")
        build(memory.checkpointer, look).invoke({"messages": []}, past, durability="exit")
        assert seen == [{"apples", "re-apples", "pears", "re-pears"}]


class TestEdits:
    """If a message has several versions, the one in the head's state counts."""

    @pytest.fixture
    def edited(self, memory, graph):
        say(graph, "okapi first", key="k1")
        self.old = graph.get_state(at()).config
        graph.update_state(at(), {"messages": [HumanMessage("walrus edit", id="k1")]})
        assert self.seen(memory) == ["walrus edit", [], ["k1"]]
        return graph

    def seen(self, memory, **asked):
        """Return the message text and the hits for the words of either version."""
        by = [[hit.id for hit in memory.search(word, roles=["user"], **asked)] for word in ("okapi", "walrus")]
        return [memory.conversation("t").messages[0].text, *by]

    @pytest.mark.slow
    @pytest.mark.parametrize("back", ["update", "run", "by id"])
    def test_a_reverted_edit_restores_the_old_text(self, memory, edited, back):
        if back == "update":
            edited.update_state(self.old, None)
        elif back == "run":
            say(edited, "pears", self.old)
        else:
            edited.update_state(at(), {"messages": [HumanMessage("okapi first", id="k1")]})
        chat = memory.conversation("t")
        assert self.seen(memory) == ["okapi first", ["k1"], []]
        assert self.seen(memory, config=at()) == ["okapi first", ["k1"], []]
        assert self.seen(memory, abandoned=True) == ["okapi first", ["k1"], ["k1"]]
        assert chat.retrieve_by_id("k1")["content"] == "okapi first"
        assert chat.around("k1")[0].text == "okapi first"
        assert chat.retrieve_by_role("user", n=5)[0]["content"] == "okapi first"
        [hit] = memory.search("walrus", abandoned=True, roles=["user"])
        assert hit.text == "walrus edit"
        assert memory.admin.verify().ok
        edited.update_state(at(), {"messages": [HumanMessage("walrus edit", id="k1")]})
        assert self.seen(memory) == ["walrus edit", [], ["k1"]]
        assert memory.admin.stats()["messages"] == (4 if back == "run" else 2)

    def test_edits_are_invisible_at_earlier_checkpoints(self, memory, edited):
        assert self.seen(memory, config=self.old)[1:] == [["k1"], []]

    @pytest.mark.slow
    def test_a_manual_edit_applies_after_rewinding(self, memory, edited):
        edited.update_state(self.old, None)
        memory.conversation("t").update("k1", content="numbat by hand")
        assert self.seen(memory) == ["numbat by hand", [], []]
        assert found(memory, "numbat") == {"k1"}
        say(edited, "pears")
        assert memory.conversation("t").messages[0].text == "numbat by hand"

    def test_a_manual_edit_belongs_to_its_version(self, memory, edited):
        memory.conversation("t").update("k1", content="numbat by hand")
        assert self.seen(memory) == ["numbat by hand", [], []]
        edited.update_state(self.old, None)
        assert self.seen(memory) == ["okapi first", ["k1"], []]
        assert found(memory, "numbat") == set()

    def test_removing_a_message_removes_all_its_versions(self, memory, edited):
        edited.update_state(self.old, None)
        memory.conversation("t").remove_by_id("k1")
        assert self.seen(memory, abandoned=True)[1:] == [[], []]
        assert memory.admin.verify().ok
        memory.conversation("t").clear()


class TestRemoval:
    def test_messages_removed_from_state_stay_searchable(self, memory, graph):
        say(graph, "apples")
        graph.update_state(at(), {"messages": [RemoveMessage("apples")]})
        graph.update_state(at(), {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("pears", id="p")]})
        assert said(memory) == ["apples", "re-apples", "p"]
        assert found(memory, "apples") == {"apples", "re-apples"}

    def test_a_removed_message_returns_only_with_new_content(self, memory, graph):
        say(graph, "apples")
        memory.conversation("t").remove_by_id("apples")
        graph.update_state(at(), {"messages": [HumanMessage("apples", id="apples")]})
        assert said(memory) == ["re-apples"]
        graph.update_state(at(), {"messages": [HumanMessage("pears", id="apples")]})
        assert said(memory) == ["re-apples", "apples"]
        assert found(memory, "pears") == {"apples"}
        say(graph, "plums")
        assert said(memory) == ["re-apples", "apples", "plums", "re-plums"]

    def test_manual_edits_survive_later_turns(self, memory, graph):
        say(graph, "apples")
        memory.conversation("t").update("apples", content="quinces")
        say(graph, "pears")
        [hit] = memory.search("quinces")
        assert (hit.id, hit.text) == ("apples", "quinces")

    def test_deleting_a_thread_deletes_its_recorded_messages(self, memory, graph):
        say(graph, "apples")
        memory.conversation("t").add_message(HumanMessage("written by hand", id="hand"))
        memory.checkpointer.delete_thread("t")
        assert found(memory, "apples hand", abandoned=True) == {"hand"}
        assert memory.admin.verify().ok
        say(graph, "apples", at("other"))
        memory.checkpointer.delete_thread("other")
        assert [each.conversation_id for each in memory.conversations()] == ["t"]


class TestExcludedMessages:
    def test_injected_memory_and_summaries_are_not_recorded(self, memory, graph):
        made = [
            memory_message("core", "name: Ada"),
            summary_message(Summary(summary="apples", stands_for=2), id="sum-1"),
        ]
        graph.update_state(at(), {"messages": [*made, HumanMessage("pears", id="pears")]})
        assert said(memory) == ["pears"]
        marked = HumanMessage("apples", id="a", additional_kwargs={"agentmem_memory": "core"})  # on something else
        graph.update_state(at(), {"messages": [marked]})
        assert said(memory) == ["pears", "a"]

    def test_summarization_middleware_messages_are_not_recorded(self, memory, graph):
        [summary] = SummarizationMiddleware._build_new_messages("apples")
        say(graph, "pears")
        kept = graph.get_state(at()).values["messages"]
        graph.update_state(at(), {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), summary, *kept]})
        other = AIMessage("plums", id="other", additional_kwargs={"lc_source": "search"})
        graph.update_state(at(), {"messages": [other]})
        assert said(memory) == ["pears", "re-pears", "other"]


class TestSharedRecording:
    def test_compaction_does_not_duplicate_messages(self, memory):
        graph = line(memory.checkpointer, ("compact", memory.compaction(shrink=True)), reply)
        for text in ("apples", "pears"):
            say(graph, text)
        assert said(memory) == ["apples", "re-apples", "pears", "re-pears"]
        assert memory.admin.stats()["messages"] == 4

    def test_adding_a_recorded_message_does_not_duplicate_it(self, memory, graph):
        say(graph, "apples")
        chat = memory.conversation("t")
        chat.add({"role": "user", "content": "apples", "message_id": "apples", "name": "Ada"})
        assert said(memory) == ["apples", "re-apples"]
        with pytest.raises(MessageError, match="other content"):
            chat.add({"role": "user", "content": "pears", "message_id": "apples"})

    def test_thread_shares_the_bodies_of_existing_messages(self, memory, graph, raw):
        chat = memory.conversation("t")
        chat.add_messages([HumanMessage("pears are ripe", id="pears"), HumanMessage("more", id="more")])
        chat.update("pears", content="pears were ripe")
        say(graph, "pears were ripe")  # repeats the newest version
        chat.update("pears", content="pears will be ripe")
        rows = raw(memory, "select key, content_id from entry where body is null")
        assert [row["key"] for row in rows] == ["pears", "pears", "re-pears", "pears"]
        assert len({row["content_id"] for row in rows}) == 4
        assert [row["key"] for row in raw(memory, "select key from entry where body is not null")] == ["more"]
        assert found(memory, "pears") == {"pears", "re-pears"}
        assert memory.admin.verify().problems == ()
        memory.checkpointer.delete_thread("t")
        chat.clear()
        assert memory.admin.stats()["contents"] == 0

    def test_recording_an_existing_message_does_not_duplicate_it(self, memory, graph):
        memory.conversation("t").add_message(HumanMessage("apples", id="apples"))
        say(graph, "apples")
        assert said(memory) == ["apples", "re-apples"]
        assert memory.admin.stats()["messages"] == 2


class TestExistingThreads:
    def test_existing_threads_are_recorded_at_the_next_put(self, url):
        with AgentMemory(url, record=()) as memory:
            for thread in ("t", "u"):
                say(build(memory.checkpointer), "apples", at(thread))
        with AgentMemory(url) as memory:
            graph = build(memory.checkpointer)
            assert found(memory, "apples") == set() == set(said(memory))
            say(graph, "pears")
            assert said(memory) == ["apples", "re-apples", "pears", "re-pears"]
            update = [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("pears", id="pears")]
            graph.update_state(at("u"), {"messages": update})
            assert said(memory, "u") == ["apples", "re-apples", "pears"]

    def test_repeated_existing_messages_keep_their_order(self, url):
        class State(TypedDict):
            messages: Annotated[list[AnyMessage], operator.add]

        for record in ((), ("messages",)):
            with AgentMemory(url, record=record) as memory:
                graph = build(memory.checkpointer, lambda _: {"messages": [AIMessage("no")]}, State)
                graph.invoke({"messages": [HumanMessage("yes"), HumanMessage("yes")]}, at())
        with AgentMemory(url) as memory:
            texts = [message.text for message in memory.conversation("t").messages]
            assert texts == ["yes", "yes", "no"] * 2

    def test_imported_threads_are_recorded_on_import(self, memory):
        other = InMemorySaver()
        for text, thread in (("apples", "t"), ("figs", "t"), ("plums", "u")):
            say(build(other), text, at(thread))
        build(other).update_state(at("u"), {"messages": [HumanMessage("kiwis", id="kiwis")]})
        AgentMemorySaver(memory, record=()).import_checkpoints(other, thread_ids=["u"])
        assert said(memory, "u") == []
        memory.checkpointer.delete_thread("u")
        for _ in range(2):
            memory.checkpointer.import_checkpoints(other)
            assert said(memory) == ["apples", "re-apples", "figs", "re-figs"]
            assert said(memory, "u") == ["plums", "re-plums", "kiwis"]
            assert found(memory, "figs plums") >= {"figs", "re-figs", "plums", "re-plums"}
        say(build(memory.checkpointer), "pears")
        memory.checkpointer.import_checkpoints(other)
        assert said(memory) == ["apples", "re-apples", "figs", "re-figs", "pears", "re-pears"]

    @pytest.mark.slow
    def test_reimport_records_new_messages_and_follows_rewinds(self, url):
        other = InMemorySaver()
        theirs = build(other)
        say(theirs, "apples")
        first = theirs.get_state(at()).config
        with AgentMemory(url, namespace=()) as memory:
            memory.checkpointer.import_checkpoints(other)
            say(theirs, "figs")
            memory.checkpointer.import_checkpoints(other)
            assert memory.admin.verify().problems == ()
            theirs.invoke({"messages": [HumanMessage("plums", id="plums")]}, first)  # figs lie on no line of its head
            memory.checkpointer.import_checkpoints(other)
            assert memory.admin.verify().problems == ()
            assert found(memory, "apples figs plums") == {"apples", "re-apples", "plums", "re-plums"}
            graph = build(memory.checkpointer)
            graph.invoke({"messages": [HumanMessage("kiwis", id="kiwis")]}, graph.get_state(first).config)
            assert memory.admin.verify().problems == ()
            assert {"kiwis", "apples"} <= found(memory, "apples kiwis figs plums")
            assert not {"figs", "plums"} & found(memory, "apples kiwis figs plums")

    def test_imported_messages_get_their_checkpoints_time(self, url):
        class Earlier(InMemorySaver):
            def put(self, config, checkpoint, *rest):
                return super().put(config, {**checkpoint, "ts": f"2024-02-0{1 + len(self.storage['t'][''])}"}, *rest)

        other = Earlier()
        say(build(other), "apples")
        with AgentMemory(url) as memory:
            memory.checkpointer.import_checkpoints(other)
            days = {hit.id: hit.created_at.date().isoformat() for hit in memory.search("apples")}
            assert days == {"apples": "2024-02-02", "re-apples": "2024-02-03"}
            assert memory.admin.threads().threads[0].changed_at.year == 2024


class TestThreadCopy:
    """A copied thread has its own conversation, which starts with the copied messages."""

    @pytest.fixture
    def copied(self, memory, graph):
        say(graph, "apples")
        memory.checkpointer.copy_thread("t", "copy")
        return graph

    def test_a_copy_keeps_messages_when_the_original_is_deleted(self, memory, graph):
        for gone in (
            lambda: memory.checkpointer.delete_thread("t"),
            lambda: memory.erase(thread_id="t"),
            lambda: memory.conversation("t").clear(),
        ):
            say(graph, "apples")
            memory.checkpointer.copy_thread("t", "copy")
            gone()
            for config in (None, at("copy")):
                assert found(memory, "apples", config=config) == {"apples", "re-apples"}
            say(graph, "pears", at("copy"))
            assert said(memory, "copy") == ["apples", "re-apples", "pears", "re-pears"]
            assert found(memory, "apples pears", config=at("copy")) == set(said(memory, "copy"))
            assert memory.admin.verify().ok
            memory.checkpointer.delete_thread("copy")
            assert found(memory, "apples pears", abandoned=True) == set()
            assert memory.admin.verify().ok

    def test_copying_again_adds_later_messages(self, memory, copied):
        say(copied, "pears")
        memory.checkpointer.copy_thread("t", "copy")
        assert said(memory, "copy") == ["apples", "re-apples", "pears", "re-pears"]

    @pytest.mark.slow
    def test_a_copy_contributes_only_its_additions(self, memory, graph):
        one, two, three = (at(name, namespace=("ada",)) for name in ("one", "two", "three"))
        say(graph, "apples", one)
        say(graph, "figs", one)
        ada = memory.within(("ada",))
        ada.checkpointer.copy_thread("one", "two")
        say(graph, "plums", two)
        say(graph, "kiwis", three)
        everything = {"apples", "re-apples", "figs", "re-figs", "plums", "re-plums", "kiwis", "re-kiwis"}
        assert sorted(hit.id for hit in ada.search("apples figs plums kiwis", limit=20)) == sorted(everything)
        graph.update_state(checkpoint_with(graph, "apples", "re-apples", config=one), {"messages": []})
        assert found(ada, "apples figs plums kiwis") == everything - {"figs", "re-figs"}
        assert found(memory, "apples figs plums kiwis", config=three) == everything - {"figs", "re-figs"}
        assert found(memory, "apples figs plums kiwis", config=two) == everything
        assert found(ada, "figs", conversation_id="two") >= {"figs", "re-figs"}
        assert said(ada, "two") == ["apples", "re-apples", "figs", "re-figs", "plums", "re-plums"]
        ada.erase(thread_id="one")
        assert found(ada, "apples figs plums kiwis") == {"plums", "re-plums", "kiwis", "re-kiwis"}


class TestScope:
    def test_a_run_without_namespace_searches_its_thread(self, memory, graph):
        say(graph, "apples", at("one"))
        say(graph, "pears", at("two"))
        assert found(memory, "apples pears", config=at("two")) == {"pears", "re-pears"}
        assert found(memory, "apples pears") == {"apples", "re-apples", "pears", "re-pears"}


def test_text_is_stored_once_for_checkpoint_and_conversation(memory, graph):
    graph.update_state(at(), {"messages": [ToolMessage("apples " * 500, tool_call_id="c", id="tool")]})
    assert memory.admin.stats()["contents"] == 1


WORDS = ("apples", "pears", "plums", "figs", "quinces")


def messages_of_head(saver, config):
    """Return the last text of each message on the line of a thread's newest checkpoint, by id."""
    every = {each.config["configurable"]["checkpoint_id"]: each for each in saver.list(config)}
    line, name = [], max(every, default=None)
    while name in every:
        line.append(every[name])
        parent = every[name].parent_config
        name = None if parent is None else parent["configurable"]["checkpoint_id"]
    says = {}
    for each in reversed(line):
        says.update((m.id, m.text) for m in each.checkpoint["channel_values"].get("messages", ()))
    return says


def play(memory, graph, chance, configs):
    """Apply one random operation to a random thread, at its newest or an earlier checkpoint."""
    config = chance.choice(configs)
    states = list(graph.get_state_history(config))
    point = chance.choice(states).config if states and chance.random() < 0.4 else config
    key = f"m{chance.randrange(40)}"
    message = HumanMessage(f"{chance.choice(WORDS)} {key} {chance.randrange(1000)}", id=key)
    what = chance.choice(["say", "say", "write", "remove", "copy"])
    if what == "say":
        graph.invoke({"messages": [message]}, point, durability=chance.choice(["sync", "async", "exit"]))
    elif what == "write":
        graph.update_state(point, {"messages": [message]})
    elif what == "remove":
        there = [m.id for m in graph.get_state(point).values.get("messages", ())]
        if there:
            graph.update_state(point, {"messages": [RemoveMessage(chance.choice(there))]})
    elif states:
        graph.update_state(point, None, "__copy__")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_search_matches_messages_of_the_newest_states(memory, graph, seed):
    chance = random.Random(seed)
    configs = [at(name, namespace=("ada",)) for name in ("one", "two", "three")]
    for _ in range(25):
        play(memory, graph, chance, configs)
        says = [messages_of_head(memory.checkpointer, config) for config in configs]
        for config, own in zip(configs, says, strict=True):
            assert set(said(memory, config["configurable"]["thread_id"], ("ada",))) == set(own)
            hits = memory.search(" ".join(WORDS), config=config, limit=1000, kinds=["message"])
            assert {(hit.conversation_id, hit.id, hit.text) for hit in hits} == {
                (other["configurable"]["thread_id"], *each)
                for other, theirs in zip(configs, says, strict=True)
                for each in theirs.items()
            }
