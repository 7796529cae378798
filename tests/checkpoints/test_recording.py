"""The checkpointer records what is said in its threads."""

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
    """The oldest checkpoint at which the state holds just these messages, as a config."""
    states = list(graph.get_state_history(config or at()))
    return [each.config for each in states if [m.id for m in each.values.get("messages", ())] == list(ids)][-1]


class TestASaidMessage:
    def test_is_found_as_soon_as_it_is_committed_the_last_reply_too(self, memory, graph):
        say(graph, "apples are ripe")
        assert found(memory, "apples") == {"apples", "re-apples"}
        assert said(memory) == ["apples", "re-apples"]
        [hit] = memory.search("ripe", limit=1, roles=["assistant"])
        assert (hit.id, hit.conversation_id, hit.value.text) == ("re-apples", "t", "As to apples are ripe: yes")
        assert memory.admin.verify().ok
        say(graph, "plums")
        stats = memory.admin.stats()
        assert (stats["messages"], stats["memories"]) == (4, 0)

    def test_is_found_when_the_next_node_runs_but_not_in_its_own_turn(self, memory):
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

    def test_is_told_to_hooks_once(self, url):
        events = []
        with AgentMemory(url, hooks=[events.append]) as memory:
            graph = build(memory.checkpointer)
            say(graph, "apples")
            say(graph, "pears")
        stored = [key for each in events if isinstance(each, MessagesStored) for key in each.message_ids]
        assert stored == ["apples", "re-apples", "pears", "re-pears"]

    def test_is_recorded_whenever_its_checkpoint_is_put(self, memory, graph):
        for durability in ("sync", "async", "exit"):
            for text in ("apples", "pears"):
                say(graph, text, at(durability), durability=durability)
            assert said(memory, durability) == ["apples", "re-apples", "pears", "re-pears"]

    def test_without_an_id_is_recorded_as_often_as_it_was_said(self, memory):
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

    def test_is_recorded_in_whatever_the_channel_holds_it(self, memory):
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

    def test_of_a_delta_channel_is_recorded(self, memory):
        class State(TypedDict):
            messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]

        graph = build(memory.checkpointer, schema=State)
        say(graph, "apples")
        say(graph, "pears")
        assert said(memory) == ["apples", "re-apples", "pears", "re-pears"]

    def test_of_a_subgraph_is_recorded_where_the_graph_has_it(self, memory):
        say(build(memory.checkpointer, build(None)), "apples")
        assert said(memory) == ["apples", "re-apples"]

    def test_whose_time_is_none_or_whose_class_is_ones_own_does_not_fail_the_put(self, memory):
        graph = build(memory.checkpointer, lambda _: {"messages": [Own("pears", id="own")]})
        odd = HumanMessage("apples", id="odd", additional_kwargs={"created_at": "yesterday"})
        graph.invoke({"messages": [odd]}, at())
        assert found(memory, "apples pears") == {"odd", "own"}


class TestTheOption:
    def test_another_channel(self, url):
        class State(TypedDict):
            messages: Annotated[list[AnyMessage], add_messages]
            notes: Annotated[list[AnyMessage], add_messages]

        def note(state):
            return {"notes": [AIMessage("pears", id="note")]}

        with AgentMemory(url, record=("notes",)) as memory:
            say(build(memory.checkpointer, note, State), "apples")
            assert found(memory, "apples pears") == {"note"}

    def test_a_saver_of_its_own_records_when_asked(self, url):
        for record, messages in (((), []), (("messages",), ["apples", "re-apples"])):
            with AgentMemorySaver.from_conn_string(url, record=record) as saver:
                say(build(saver), "apples", at("asked" if record else "not"))
            with AgentMemory(url) as memory:
                assert said(memory, "asked" if record else "not") == messages

    def test_that_names_no_channels_is_refused(self):
        for wrong in (3, None, [1], {"messages": 1}):
            with pytest.raises(InvalidInput, match="The channels to record"):
                pytest.fail(f"{AgentMemory(':memory:', record=wrong)} records {wrong!r}")

    def test_what_is_encrypted_is_not_recorded(self, memory):
        serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
        with pytest.raises(InvalidInput, match="plain text"):
            AgentMemorySaver(memory, serde=serde, record=("messages",))
        say(build(AgentMemorySaver(memory, serde=serde)), "apples")
        assert found(memory, "apples") == set()


class TestGoingBack:
    @pytest.fixture
    def forked(self, graph):
        say(graph, "apples")
        say(graph, "pears")
        say(graph, "plums", checkpoint_with(graph, "apples", "re-apples"))
        return graph

    def test_what_was_abandoned_is_found_on_request_only(self, memory, forked):
        assert found(memory, "apples pears plums") == {"apples", "re-apples", "plums", "re-plums"}
        assert found(memory, "pears", abandoned=True) == {"pears", "re-pears"}
        assert said(memory) == ["apples", "re-apples", "plums", "re-plums"]
        assert len(memory.conversation("t")) == 4

    def test_hides_for_the_run_itself_before_it_has_put_anything(self, memory, forked):
        seen = []

        def look(state):
            seen.append(found(memory, "apples pears plums"))
            return {}

        past = checkpoint_with(forked, "apples", "re-apples", "pears", "re-pears")
        build(memory.checkpointer, look).invoke({"messages": []}, past, durability="exit")
        assert seen == [{"apples", "re-apples", "pears", "re-pears"}]


class TestAnEdit:
    """Of a message that its thread has said in several wordings, the one that the head shows counts."""

    @pytest.fixture
    def edited(self, memory, graph):
        say(graph, "okapi first", key="k1")
        self.old = graph.get_state(at()).config
        graph.update_state(at(), {"messages": [HumanMessage("walrus edit", id="k1")]})
        assert self.seen(memory) == ["walrus edit", [], ["k1"]]
        return graph

    def seen(self, memory, **asked):
        """What the conversation says, and what is found by the words of either wording."""
        by = [[hit.id for hit in memory.search(word, roles=["user"], **asked)] for word in ("okapi", "walrus")]
        return [memory.conversation("t").messages[0].text, *by]

    @pytest.mark.slow
    @pytest.mark.parametrize("back", ["update", "run", "by id"])
    def test_that_is_taken_back_does_not_count(self, memory, edited, back):
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

    def test_is_not_yet_found_where_the_past_is_looked_at(self, memory, edited):
        assert self.seen(memory, config=self.old)[1:] == [["k1"], []]

    @pytest.mark.slow
    def test_by_hand_of_what_a_thread_went_back_to_is_shown(self, memory, edited):
        edited.update_state(self.old, None)
        memory.conversation("t").update("k1", content="numbat by hand")
        assert self.seen(memory) == ["numbat by hand", [], []]
        assert found(memory, "numbat") == {"k1"}
        say(edited, "pears")
        assert memory.conversation("t").messages[0].text == "numbat by hand"

    def test_by_hand_belongs_to_the_wording_that_it_edits(self, memory, edited):
        memory.conversation("t").update("k1", content="numbat by hand")
        assert self.seen(memory) == ["numbat by hand", [], []]
        edited.update_state(self.old, None)
        assert self.seen(memory) == ["okapi first", ["k1"], []]
        assert found(memory, "numbat") == set()

    def test_leaves_nothing_behind_when_the_message_goes(self, memory, edited):
        edited.update_state(self.old, None)
        memory.conversation("t").remove_by_id("k1")
        assert self.seen(memory, abandoned=True)[1:] == [[], []]
        assert memory.admin.verify().ok
        memory.conversation("t").clear()


class TestWhatLeaves:
    def test_the_state_was_said_and_stays_found(self, memory, graph):
        say(graph, "apples")
        graph.update_state(at(), {"messages": [RemoveMessage("apples")]})
        graph.update_state(at(), {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("pears", id="p")]})
        assert said(memory) == ["apples", "re-apples", "p"]
        assert found(memory, "apples") == {"apples", "re-apples"}

    def test_a_conversation_by_hand_stays_away_until_something_else_is_said_under_its_id(self, memory, graph):
        say(graph, "apples")
        memory.conversation("t").remove_by_id("apples")
        graph.update_state(at(), {"messages": [HumanMessage("apples", id="apples")]})
        assert said(memory) == ["re-apples"]
        graph.update_state(at(), {"messages": [HumanMessage("pears", id="apples")]})
        assert said(memory) == ["re-apples", "apples"]
        assert found(memory, "pears") == {"apples"}
        say(graph, "plums")
        assert said(memory) == ["re-apples", "apples", "plums", "re-plums"]

    def test_what_was_edited_by_hand_stays_edited(self, memory, graph):
        say(graph, "apples")
        memory.conversation("t").update("apples", content="quinces")
        say(graph, "pears")
        [hit] = memory.search("quinces")
        assert (hit.id, hit.text) == ("apples", "quinces")

    def test_the_thread_that_is_deleted_goes_with_its_messages(self, memory, graph):
        say(graph, "apples")
        memory.conversation("t").add_message(HumanMessage("written by hand", id="hand"))
        memory.checkpointer.delete_thread("t")
        assert found(memory, "apples hand", abandoned=True) == {"hand"}
        assert memory.admin.verify().ok
        say(graph, "apples", at("other"))
        memory.checkpointer.delete_thread("other")
        assert [each.conversation_id for each in memory.conversations()] == ["t"]


class TestNobodySaid:
    def test_what_is_injected_or_summed_up(self, memory, graph):
        made = [
            memory_message("core", "name: Ada"),
            summary_message(Summary(summary="apples", stands_for=2), id="sum-1"),
        ]
        graph.update_state(at(), {"messages": [*made, HumanMessage("pears", id="pears")]})
        assert said(memory) == ["pears"]
        marked = HumanMessage("apples", id="a", additional_kwargs={"agentmem_memory": "core"})  # on something else
        graph.update_state(at(), {"messages": [marked]})
        assert said(memory) == ["pears", "a"]

    def test_a_summary_of_langchains_own_middleware(self, memory, graph):
        [summary] = SummarizationMiddleware._build_new_messages("apples")
        say(graph, "pears")
        kept = graph.get_state(at()).values["messages"]
        graph.update_state(at(), {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), summary, *kept]})
        other = AIMessage("plums", id="other", additional_kwargs={"lc_source": "search"})
        graph.update_state(at(), {"messages": [other]})
        assert said(memory) == ["pears", "re-pears", "other"]


class TestWhoeverRecords:
    def test_a_compaction_stores_it_no_second_time(self, memory):
        graph = line(memory.checkpointer, ("compact", memory.compaction(shrink=True)), reply)
        for text in ("apples", "pears"):
            say(graph, text)
        assert said(memory) == ["apples", "re-apples", "pears", "re-pears"]
        assert memory.admin.stats()["messages"] == 4

    def test_what_somebody_writes_afterwards_is_the_same_message_too(self, memory, graph):
        say(graph, "apples")
        chat = memory.conversation("t")
        chat.add({"role": "user", "content": "apples", "message_id": "apples", "name": "Ada"})
        assert said(memory) == ["apples", "re-apples"]
        with pytest.raises(MessageError, match="other content"):
            chat.add({"role": "user", "content": "pears", "message_id": "apples"})

    def test_what_somebody_wrote_first_is_the_same_message(self, memory, graph):
        memory.conversation("t").add_message(HumanMessage("apples", id="apples"))
        say(graph, "apples")
        assert said(memory) == ["apples", "re-apples"]
        assert memory.admin.stats()["messages"] == 2


class TestThreadsOfBefore:
    def test_are_read_once_at_their_next_put_with_what_it_removes(self, url):
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

    def test_what_was_said_several_times_in_its_order(self, url):
        class State(TypedDict):
            messages: Annotated[list[AnyMessage], operator.add]

        for record in ((), ("messages",)):
            with AgentMemory(url, record=record) as memory:
                graph = build(memory.checkpointer, lambda _: {"messages": [AIMessage("no")]}, State)
                graph.invoke({"messages": [HumanMessage("yes"), HumanMessage("yes")]}, at())
        with AgentMemory(url) as memory:
            texts = [message.text for message in memory.conversation("t").messages]
            assert texts == ["yes", "yes", "no"] * 2

    def test_imported_ones_when_they_are_imported(self, memory):
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
    def test_what_the_source_said_since_the_last_import_and_what_it_took_back(self, url):
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

    def test_imported_ones_were_said_when_their_checkpoints_were_made(self, url):
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


class TestACopy:
    """A copy of a thread has a conversation of its own, which begins with what it was given."""

    @pytest.fixture
    def copied(self, memory, graph):
        say(graph, "apples")
        memory.checkpointer.copy_thread("t", "copy")
        return graph

    def test_keeps_it_when_the_original_goes(self, memory, graph):
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

    def test_that_is_brought_up_to_date_has_what_was_said_since(self, memory, copied):
        say(copied, "pears")
        memory.checkpointer.copy_thread("t", "copy")
        assert said(memory, "copy") == ["apples", "re-apples", "pears", "re-pears"]

    @pytest.mark.slow
    def test_in_a_scope_teaches_only_what_it_adds(self, memory, graph):
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


class TestAScope:
    def test_without_one_a_run_finds_its_own_thread_alone(self, memory, graph):
        say(graph, "apples", at("one"))
        say(graph, "pears", at("two"))
        assert found(memory, "apples pears", config=at("two")) == {"pears", "re-pears"}
        assert found(memory, "apples pears") == {"apples", "re-apples", "pears", "re-pears"}


def test_the_text_is_stored_once_for_checkpoint_and_conversation(memory, graph):
    graph.update_state(at(), {"messages": [ToolMessage("apples " * 500, tool_call_id="c", id="tool")]})
    assert memory.admin.stats()["contents"] == 1


WORDS = ("apples", "pears", "plums", "figs", "quinces")


def led_to(saver, config):
    """What the messages on the line of a thread's newest checkpoint say last, by id, as its states tell it."""
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
    """One thing that happens to one of some threads, at its newest or at an earlier checkpoint."""
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
def test_what_is_found_is_what_led_to_the_newest_states(memory, graph, seed):
    chance = random.Random(seed)
    configs = [at(name, namespace=("ada",)) for name in ("one", "two", "three")]
    for _ in range(25):
        play(memory, graph, chance, configs)
        says = [led_to(memory.checkpointer, config) for config in configs]
        for config, own in zip(configs, says, strict=True):
            assert set(said(memory, config["configurable"]["thread_id"], ("ada",))) == set(own)
            hits = memory.search(" ".join(WORDS), config=config, limit=1000, kinds=["message"])
            assert {(hit.conversation_id, hit.id, hit.text) for hit in hits} == {
                (other["configurable"]["thread_id"], *each)
                for other, theirs in zip(configs, says, strict=True)
                for each in theirs.items()
            }
