"""A body of 500 bytes or more is stored once and deleted with its last reference. A smaller one is part of its row."""

from langchain_agentmem import Attachment

LONG = "the same words " * 40


class TestContentAddressing:
    def test_equal_bodies_are_stored_once_until_unreferenced(self, memory):
        chats = [memory.conversation(f"c{n}", (f"user{n % 3}",)) for n in range(4)]
        ids = [chat.add(role="user", content=LONG) for chat in chats]
        stats = memory.admin.stats()
        assert (stats["contents"], stats["messages"]) == (1, 4)
        chats[0].remove_by_id(ids[0])
        chats[1].clear()
        chats[3].clear()
        assert memory.admin.stats()["contents"] == 1
        chats[2].reset_memory()
        assert memory.admin.stats()["contents"] == 0
        assert memory.admin.verify().problems == ()

    def test_edit_keeps_both_versions_removal_frees_both(self, memory):
        chat = memory.conversation("c")
        message_id = chat.add(role="user", content=LONG)
        chat.update(message_id, content=LONG * 2)
        chat.update(message_id, content=LONG)
        assert memory.admin.stats()["contents"] == 2
        assert memory.admin.stats()["edits"] == 2
        chat.remove_by_id(message_id)
        assert memory.admin.stats()["contents"] == 0
        assert memory.admin.verify().problems == ()

    def test_attachments_are_shared_and_freed(self, memory):
        session = memory.session("s")
        current, plan = session.create_round("what is it"), Attachment(type="plan", content="a plan", id="atta-1")
        for _ in range(3):
            session.add_post(current.id, send_from="User", send_to="Planner", message="look", attachments=[plan])
        many = memory.admin.stats()
        assert memory.admin.verify().problems == ()
        memory.conversation("s").clear()
        assert many["contents"] >= 3
        assert memory.admin.stats()["contents"] == 0
        assert memory.admin.verify().problems == ()
