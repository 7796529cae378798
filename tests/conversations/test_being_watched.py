"""What others see of a conversation: hooks, tracers, and those who count tokens."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.base import BaseTracer
from langgraph.graph import END, START, StateGraph

from langchain_agentmem import AgentMemory, Message, MessageError, TokenCounter
from langchain_agentmem.events import (
    Event,
    MemoryResetEvent,
    MessagesRemoved,
    MessagesStored,
    MessageUpdated,
    StepFinished,
)


class TestHooks:
    @pytest.fixture
    def events(self) -> list[Event]:
        return []

    @pytest.fixture
    def memory(self, url, clock, new_id, events) -> Any:
        def keep(event: Event) -> None:
            if not isinstance(event, StepFinished):
                events.append(event)

        with AgentMemory(url, clock=clock, new_id=new_id, hooks=[keep]) as memory:
            yield memory

    async def test_they_hear_what_happened(self, memory, events, do):
        chat = memory.conversation("chat", ("ada",))
        where: dict[str, Any] = {"namespace": ("ada",), "conversation_id": "chat"}
        await do(chat, "add", Message(role="user", content="a", message_id="1"))
        await do(chat, "add_messages", [AIMessage("b", id="2"), HumanMessage("a", id="1"), AIMessage("c", id="3")])
        await do(chat, "update", "1", content="A")
        await do(chat, "replace_memory", 1, role="assistant", content="B")
        await do(chat, "remove_by_id", "1")
        await do(chat, "delete_memory", 0)
        await do(chat, "reset_memory")
        assert [event for event in events if not isinstance(event, MemoryResetEvent)] == [
            MessagesStored(message_ids=("1",), **where),
            MessagesStored(message_ids=("2", "3"), **where),
            MessageUpdated(message_id="1", **where),
            MessageUpdated(message_id="2", **where),
            MessagesRemoved(message_ids=("1",), **where),
            MessagesRemoved(message_ids=("2",), **where),
        ]
        assert isinstance(events[-1], MemoryResetEvent)
        assert events[-1].agent_name == ""

    async def test_they_hear_of_posts(self, memory, events, do):
        session = memory.session("chat")
        post = await do(session, "add_post", (await do(session, "create_round", "q")).id, send_from="a", send_to="b")
        assert events == [MessagesStored(namespace=(), conversation_id="chat", message_ids=(post.id,))]

    async def test_they_hear_nothing_of_what_changed_nothing(self, memory, events, do):
        chat = memory.conversation("chat")
        await do(chat, "add", Message(role="user", content="a", message_id="1"))
        events.clear()
        await do(chat, "add", Message(role="user", content="a", message_id="1"))
        await do(chat, "update", "1", content="a")
        await do(chat, "replace_memory", 0, role="user", content="a")
        await do(chat, "remove_by_id", "unknown")
        await do(chat, "add_messages", [])
        with pytest.raises(MessageError):
            await do(chat, "add_messages", [HumanMessage("new"), HumanMessage("b", id="1")])
        assert events == []

    def test_they_hear_after_it_is_stored(self, url):
        seen: list[int] = []

        def look(event: Event) -> None:
            if isinstance(event, MessagesStored):
                with AgentMemory(url) as other:
                    seen.append(len(other.conversation("chat")))

        with AgentMemory(url, hooks=[look]) as memory:
            memory.conversation("chat").add_messages([HumanMessage("a"), AIMessage("b")])
        assert seen == [2]

    async def test_one_that_fails_changes_nothing(self, url, do, caplog):
        def fail(_: Event) -> None:
            msg = "broken hook"
            raise RuntimeError(msg)

        async def fail_later(event: Event) -> None:
            await asyncio.sleep(0)
            fail(event)

        with AgentMemory(url, hooks=[fail, fail_later]) as memory:
            chat = memory.conversation("chat")
            await do(chat, "add", role="user", content="a")
            await do(chat, "clear")
            await do(chat, "add", role="user", content="b")
            assert [message.text for message in chat.messages] == ["b"]
            await asyncio.sleep(0.01)
        assert "broken hook" in caplog.text


class Collector(BaseTracer):
    """A LangChain tracer that keeps the finished trees."""

    def __init__(self) -> None:
        super().__init__()
        self.roots: list[Any] = []

    def _persist_run(self, run: Any) -> None:
        self.roots.append(run)


def found(run: Any, name: str) -> list[Any]:
    return [*([run] if run.name == name else []), *(hit for child in run.child_runs for hit in found(child, name))]


class State(TypedDict):
    text: str


class TestTracing:
    async def test_an_operation_is_a_step_of_the_callers_run(self, memory, do):
        chat, tracer = memory.conversation("chat", ("ada",)), Collector()

        async def act(text: str) -> None:
            await do(chat, "add", role="user", content=text)

        await RunnableLambda(act).ainvoke("hello", {"callbacks": [tracer]})
        [root] = tracer.roots
        [step] = root.child_runs
        assert step.name == "memory.conversation.add"
        assert step.inputs == {"conversation_id": "chat", "namespace": ["ada"], "messages": 1}
        assert step.outputs == {"keys": 1, "dropped": 0}
        assert step.error is None

    async def test_every_verb_has_its_name(self, memory, do):
        chat, session, tracer = memory.conversation("chat"), memory.session("chat"), Collector()

        async def act(_: str) -> None:
            await do(chat, "add", Message(role="user", content="a", message_id="1"))
            await do(chat, "retrieve_all")
            await do(chat, "update", "1", content="b")
            await do(chat, "remove_by_id", "1")
            await do(chat, "reset_memory")
            await do(chat, "clear")
            await do(session, "add_post", (await do(session, "create_round", "q")).id, send_from="a", send_to="b")

        await RunnableLambda(act).ainvoke("x", {"callbacks": [tracer]})
        assert [child.name.removeprefix("memory.") for child in tracer.roots[0].child_runs] == [
            "conversation.add",
            "conversation.retrieve",
            "conversation.update",
            "conversation.remove",
            "conversation.reset",
            "conversation.clear",
            "session.create_round",
            "session.add_post",
        ]
        assert all("namespace" in child.inputs for child in tracer.roots[0].child_runs)

    async def test_in_a_node_of_a_graph_it_is_a_step_of_the_node(self, memory, do):
        chat, tracer = memory.conversation("chat"), Collector()

        async def node(state: State) -> State:
            await do(chat, "add", role="user", content=state["text"])
            return state

        graph = StateGraph(State)
        graph.add_node("remember", node)
        graph.add_edge(START, "remember")
        graph.add_edge("remember", END)
        await graph.compile().ainvoke({"text": "hello"}, {"callbacks": [tracer]})
        [run] = found(tracer.roots[0], "remember")
        assert [child.name for child in run.child_runs] == ["memory.conversation.add"]

    async def test_an_error_is_recorded_and_passes(self, memory, do):
        chat, tracer = memory.conversation("chat"), Collector()

        async def act(_: str) -> None:
            await do(chat, "update", "unknown", content="x")

        with pytest.raises(MessageError):
            await RunnableLambda(act).ainvoke("x", {"callbacks": [tracer]})
        [step] = found(tracer.roots[0], "memory.conversation.update")
        assert "MessageError" in step.error


class TestCountingTokens:
    @pytest.fixture
    def asked(self) -> list[str]:
        return []

    @pytest.fixture
    def counting(self, asked) -> Any:
        """Makes a counter that notes what it is asked."""

        def words(text: str) -> int:
            asked.append(text)
            return len(text.split())

        return lambda: TokenCounter(words)

    async def test_only_new_messages_are_counted_the_second_time(self, memory, do, counting, asked):
        chat, counter = memory.conversation("chat"), counting()
        chat.add_messages([HumanMessage("one"), AIMessage("two words")])
        first = await do(chat, "count_tokens", counter)
        assert any("one" in text for text in asked)
        asked.clear()
        assert await do(chat, "count_tokens", counter) == first
        assert [text for text in asked if text.strip() and ("one" in text or "two" in text)] == []
        chat.add_user_message("three more words")
        second = await do(chat, "count_tokens", counter)
        assert second > first
        assert any("three" in text for text in asked)
        assert not any("one" in text for text in asked)

    async def test_an_edit_is_counted_again(self, memory, do, counting, asked):
        chat, counter = memory.conversation("chat"), counting()
        message_id = chat.add(role="user", content="one")
        first = await do(chat, "count_tokens", counter)
        chat.update(message_id, content="one two three")
        assert await do(chat, "count_tokens", counter) == first + 2
        chat.update(message_id, content="one")
        asked.clear()
        assert await do(chat, "count_tokens", counter) == first
        assert not any("one" in text for text in asked)

    async def test_the_estimates_are_kept_in_the_database(self, memory, do, monkeypatch):
        counted = []
        count = TokenCounter.count_message
        monkeypatch.setattr(TokenCounter, "count_message", lambda self, m: counted.append(m.text) or count(self, m))
        chat = memory.conversation("chat")
        chat.add_messages([HumanMessage("one"), AIMessage("two words")])
        first = await do(chat, "count_tokens", TokenCounter("estimate"))
        assert counted == ["one", "two words"]
        chat.add_user_message("three more words")
        assert await do(chat, "count_tokens", TokenCounter("estimate")) > first
        assert counted == ["one", "two words", "three more words"]

    async def test_what_a_count_depends_on_keeps_counts_apart(self, memory, do):
        chat = memory.conversation("chat")
        chat.add(role="user", content="look", images=["https://example.org/cat.png"])
        many = await do(chat, "count_tokens", TokenCounter("estimate", image_tokens=800))
        few = await do(chat, "count_tokens", TokenCounter("estimate", image_tokens=0))
        assert many == few + 800
        ones = await do(chat, "count_tokens", TokenCounter(lambda _: 1))
        assert await do(chat, "count_tokens", TokenCounter(lambda _: 1000)) > ones

    async def test_every_way_of_counting_has_its_own_counts(self, memory, do, counting, asked):
        def letters(text: str) -> int:
            return 100 * len(text)

        chat = memory.conversation("chat")
        chat.add_user_message("one")
        first = await do(chat, "count_tokens", counting())
        assert await do(chat, "count_tokens", TokenCounter(letters)) >= 300
        assert await do(chat, "count_tokens", counting()) == first

    async def test_system_prompt_and_tools_count_too(self, memory, do, counting):
        chat = memory.conversation("chat")
        empty = await do(chat, "count_tokens", counting())
        assert await do(chat, "count_tokens", counting(), system="four words are here") >= empty + 4
        tool = {"name": "look", "description": "Look something up", "parameters": {}}
        assert await do(chat, "count_tokens", counting(), tools=[tool]) > empty
        chat.add_user_message("word")
        assert await do(chat, "count_tokens", counting()) > empty

    async def test_a_counter_is_not_needed(self, memory, do):
        chat = memory.conversation("chat")
        chat.add_user_message("Tell me about the orchard.")
        assert 4 <= await do(chat, "count_tokens") <= 20
