"""Consistency of conversations across views, runs, imports and events."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableLambda

from langchain_agentmem import AgentMemory, ConversationMemory, Retention, SessionMemory
from langchain_agentmem.base.events import ConversationErased, MessagesRemoved, MessagesStored, MessageUpdated
from langchain_agentmem.errors import MessageError


@pytest.mark.sqlite_suffices
class TestOwnership:
    def test_parts_created_in_run_use_its_namespace(self, memory):
        def node(_):
            ConversationMemory(memory, "c").add_user_message("built directly")
            memory.conversation("c").add_user_message("asked of the memory")
            SessionMemory(memory, "s").create_round("task")

        RunnableLambda(node).invoke(None, {"configurable": {"agentmem_namespace": ("alice",)}})
        assert len(memory.conversation("c", ("alice",))) == 2
        assert len(memory.session("s", ("alice",)).rounds) == 1
        assert len(memory.conversation("c")) == 0

    def test_erase_in_run_is_limited_to_its_namespace(self, memory):
        memory.conversation("c").add_user_message("of the root")
        memory.conversation("c", ("alice",)).add_user_message("of Alice")
        RunnableLambda(lambda _: memory.erase(conversation_id="c")).invoke(
            None, {"configurable": {"agentmem_namespace": ("alice",)}}
        )
        assert len(memory.conversation("c")) == 1
        assert len(memory.conversation("c", ("alice",))) == 0

    def test_langchain_role_names_are_mapped(self, memory):
        chat = memory.conversation("c")
        chat.add(role="human", content="about lemons")
        chat.add_messages([AIMessage("about lemons too")])
        assert chat.retrieve_all()[0] == {"role": "user", "content": "about lemons"}
        assert [found.text for found in memory.search("lemons", roles=["human"])] == ["about lemons"]
        assert [found.text for found in memory.search("lemons", roles=["ai"])] == ["about lemons too"]


@pytest.mark.sqlite_suffices
class TestImport:
    def test_import_does_not_undo_local_edits(self, url, tmp_path):
        with AgentMemory() as source, AgentMemory(url) as target:
            source.conversation("c").add(message={"role": "user", "content": "v1", "message_id": "m"})
            source.export(tmp_path / "first")
            target.import_(tmp_path / "first")
            source.conversation("c").update("m", content="theirs")
            target.conversation("c").update("m", content="ours")
            source.export(tmp_path / "second")
            target.import_(tmp_path / "second")
            assert target.conversation("c").messages[0].content == "ours"


@pytest.mark.sqlite_suffices
class TestRetention:
    def test_retention_emits_removal_events(self, url):
        told = []
        with AgentMemory(url, hooks=[told.append], retention=Retention(keep_last=2)) as memory:
            chat = memory.conversation("c")
            for number in range(3):
                chat.add_messages([HumanMessage("hello", id=f"m{number}")])
        assert [event.message_ids for event in told if isinstance(event, MessagesRemoved)] == [("m0",)]

    def test_retention_applies_to_session_rounds(self, url):
        with AgentMemory(url, retention=Retention(keep_last=3)) as memory:
            session = memory.session("s")
            for number in range(4):
                begun = session.create_round(f"task {number}")
                for each in "ab":
                    session.add_post(begun.id, send_from="Planner", send_to="User", message=f"{number}{each}")
            found = [(each.user_query, [post.message for post in each.post_list]) for each in session.rounds]
            assert found == [("task 2", ["2b"]), ("task 3", ["3a", "3b"])]
            assert memory.admin.verify().problems == ()


@pytest.mark.sqlite_suffices
class TestEvents:
    def test_loading_and_erasing_emit_events(self, url, tmp_path):
        told = []
        with AgentMemory(url, hooks=[told.append]) as memory:
            chat = memory.conversation("c", ("ada",))
            chat.add_messages([HumanMessage("hello", id="m")])
            chat.save_to_file(tmp_path / "saved")
            memory.export(tmp_path / "exported")
            told.clear()

            def of(kind):
                return [event for event in told if isinstance(event, kind)]

            chat.load_from_file(tmp_path / "saved")
            assert [event.message_ids for event in of(MessagesStored)] == [("m",)]
            memory.erase(namespace=("ada",))
            assert of(ConversationErased) == [ConversationErased(namespace=("ada",), conversation_id="c")]
            told.clear()
            memory.import_(tmp_path / "exported")
            assert of(MessagesStored) == [MessagesStored(namespace=("ada",), conversation_id="c", message_ids=("m",))]

    def test_event_bus_receives_message_events(self, memory):
        heard = []
        chat = memory.conversation("c")
        chat.set_event_context("agent", heard.append)
        message_id = chat.add(role="user", content="hello")
        chat.update(message_id, content="hello again")
        chat.remove_by_id(message_id)
        assert [type(event) for event in heard] == [MessagesStored, MessageUpdated, MessagesRemoved]


@pytest.mark.sqlite_suffices
class TestSpecialMessages:
    def test_remove_message_is_rejected(self, memory):
        chat = memory.conversation("c")
        with pytest.raises(MessageError, match="remove_by_id"):
            chat.add_messages([HumanMessage("hello"), RemoveMessage(id="m")])
        assert chat.messages == []

    def test_tool_calls_are_not_duplicated_for_providers(self, memory):
        chat = memory.conversation("c")
        blocks = [{"type": "text", "text": "Let me see."}, {"type": "tool_use", "id": "t", "name": "look", "input": {}}]
        chat.add_messages([AIMessage(blocks, tool_calls=[{"name": "look", "args": {}, "id": "t"}])])
        [given] = chat.retrieve_all()
        assert given["content"] == [{"type": "text", "text": "Let me see."}]
        assert [call["id"] for call in given["tool_calls"]] == ["t"]
        assert chat.messages[0].content == blocks

    def test_rounds_of_plain_messages_are_read_only(self, memory):
        memory.conversation("c").add_user_message("hello")
        session = memory.session("c")
        with pytest.raises(MessageError, match="create_round"):
            session.finish_round(session.rounds[0].id)
