"""`memory.session(config)`: rounds and posts of a thread, which are rewound with it."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from langchain_agentmem import AgentMemory, Attachment, InvalidInput, Retention, SessionMemory, SharedMemoryEntry
from langchain_agentmem.base.events import MessagesStored
from langchain_agentmem.compaction.role_compactor import ContextCompactor
from tests.conversations import test_sessions as plain
from tests.living import State, live_task, one_node, thread

pytestmark = pytest.mark.sqlite_suffices


@pytest.fixture
def task(memory):
    with live_task(memory) as task:
        yield task


@pytest.fixture
def session(memory, task) -> SessionMemory:
    """The session of a thread, in a task that runs as long as the test."""
    return memory.session(task.config)


class TestRounds(plain.TestRounds):
    """A session in a task passes the same tests."""

    async def test_reset_removes_all_rounds(self, memory, session, do):
        session.add_post(session.create_round("q").id, send_from="a", send_to="b", message="m")
        await do(session, "reset_memory")
        assert await do(session, "rounds") == []
        assert memory.search("m", config=thread()) == []


def talk(memory: Any) -> Any:
    """A graph that creates a round with one post per input."""

    def node(state: dict[str, Any], runtime: Runtime) -> dict[str, Any]:
        session = memory.session(runtime)
        begun = session.create_round(str(state["n"]))
        entry = SharedMemoryEntry.create("plan", "conversation", f"plan {state['n']}")
        attachments = [Attachment.create("shared_memory_entry", "", extra=entry)]
        message = f"apples {state['n']}"
        session.add_post(begun.id, send_from="Planner", send_to="User", message=message, attachments=attachments)
        for each in session.rounds[:-1]:
            session.finish_round(each.id)
        return {"n": -1}

    return one_node(node, memory)


def shown(session: SessionMemory) -> list[tuple[str, str, list[str]]]:
    return [(each.user_query, each.state, [post.message for post in each.post_list]) for each in session.rounds]


def test_rewound_session_drops_later_rounds(memory):
    graph = talk(memory)
    graph.invoke({"n": 1}, thread())
    first = graph.get_state(thread()).config
    for number in (2, 3):
        graph.invoke({"n": number}, first)
    session = memory.session(thread())
    assert [each.user_query for each in session.rounds] == ["1", "3"]
    assert [entry.content for entry in session.get_shared_memory_entries("plan")] == ["plan 3"]
    assert {found.text for found in memory.search("apples", kinds=["message"])} == {"apples 1", "apples 3"}
    assert {found.text for found in memory.search("apples", config=first)} == {"apples 1"}
    assert memory.admin.verify().ok


def test_posts_are_searchable_after_the_checkpoint(memory, task, session):
    session.add_post(session.create_round("q").id, send_from="a", send_to="b", message="apples")
    assert memory.search("apples") == []
    assert task.context.copy().run(memory.search, "apples") != []


class TestInvalidUse:
    def test_writes_outside_a_run_are_rejected(self, memory):
        talk(memory).invoke({"n": 1}, thread())
        session = memory.session(thread())
        [only] = session.rounds
        for write in (
            lambda: session.create_round("q"),
            lambda: session.add_post(only.id, send_from="a", send_to="b"),
            lambda: session.finish_round(only.id),
            session.reset_memory,
        ):
            with pytest.raises(InvalidInput, match="only be read"):
                write()
        assert shown(session) == [("1", "created", ["apples 1"])]

    def test_own_retention_or_namespace_is_rejected(self, memory):
        with pytest.raises(InvalidInput, match="retention"):
            SessionMemory(memory, thread(), retention=Retention(keep_last=3))
        with pytest.raises(InvalidInput, match="namespace"):
            memory.session(thread(), namespace=("ada",))
        assert memory.session(thread(agentmem_namespace=("ada",)), namespace=("ada",)).namespace == ("ada",)

    def test_memory_retention_does_not_apply_to_threads(self, memory):
        graph = talk(memory)
        memory.retention = Retention(keep_last=1)
        for number in (1, 2):
            graph.invoke({"n": number}, thread())
        found = [post.message for each in memory.session(thread()).rounds for post in each.post_list]
        assert found == ["apples 1", "apples 2"]

    def test_background_compaction_is_rejected(self, memory):
        with pytest.raises(InvalidInput, match="background"):
            ContextCompactor(memory.session(thread()), "Planner")

    def test_other_checkpointer_is_rejected(self, memory):
        def node(state):
            memory.session(get_config()).create_round("q")

        builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
        with pytest.raises(InvalidInput, match="checkpointer"):
            builder.compile(checkpointer=InMemorySaver()).invoke({"n": 0}, thread())

    @pytest.mark.parametrize("wrong", [{}, {"configurable": {}}, {"configurable": 5}])
    def test_config_without_thread_is_rejected(self, memory, wrong):
        with pytest.raises(InvalidInput, match="thread"):
            memory.session(wrong)


class TestSessionIsolation:
    def test_thread_and_conversation_of_equal_id_are_separate(self, memory):
        memory.session("t").create_round("plain")
        talk(memory).invoke({"n": 1}, thread())
        assert [each.user_query for each in memory.session("t").rounds] == ["plain"]
        assert [each.user_query for each in memory.session(thread()).rounds] == ["1"]
        assert (memory.session("t").follows_thread, memory.session(thread()).follows_thread) == (False, True)

    def test_hooks_receive_posts_of_nodes(self):
        told = []
        with AgentMemory(hooks=[told.append]) as memory:
            talk(memory).invoke({"n": 1}, thread())
        assert [each.conversation_id for each in told if isinstance(each, MessagesStored)] == ["t"]
