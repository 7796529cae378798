"""What several views, runs and copies of one log must agree on."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableLambda

from langchain_agentmem import AgentMemory, ConversationMemory, Retention, SessionMemory
from langchain_agentmem.base.events import ConversationErased, MessagesRemoved, MessagesStored, MessageUpdated
from langchain_agentmem.errors import MessageError
from langchain_agentmem.storage import query
from tests.emptying import direct


class TestTheTail:
    def test_the_rhythm_of_rounds_does_not_keep_posts_out_of_the_index(self, new_database):
        with AgentMemory(new_database("sqlite")) as memory:
            session = memory.session("work")
            for number in range(100):  # round, post, post, finished round: four rows, of which the last fills the tail
                begun = session.create_round(f"task {number}")
                session.add_post(begun.id, send_from="User", send_to="Planner", message=f"fetch apple {number}")
                session.add_post(begun.id, send_from="Planner", send_to="User", message="done")
                session.finish_round(begun.id)

            def waiting():
                return (yield query.count_index())

            assert memory.database.engine.read(waiting)[0]["waiting"] < memory.database.engine.index_tail
            assert memory.search("apple 7", limit=1)[0].text == "fetch apple 7"
            assert memory.admin.verify().problems == ()


@pytest.mark.sqlite_suffices
class TestWhoseItIs:
    def test_a_part_that_is_built_in_a_run_belongs_to_the_run(self, memory):
        def node(_):
            ConversationMemory(memory, "c").add_user_message("built directly")
            memory.conversation("c").add_user_message("asked of the memory")
            SessionMemory(memory, "s").create_round("task")

        RunnableLambda(node).invoke(None, {"configurable": {"agentmem_namespace": ("alice",)}})
        assert len(memory.conversation("c", ("alice",))) == 2
        assert len(memory.session("s", ("alice",)).rounds) == 1
        assert len(memory.conversation("c")) == 0

    def test_an_erasure_in_a_run_stays_in_its_namespace(self, memory):
        memory.conversation("c").add_user_message("of the root")
        memory.conversation("c", ("alice",)).add_user_message("of Alice")
        RunnableLambda(lambda _: memory.erase(conversation_id="c")).invoke(
            None, {"configurable": {"agentmem_namespace": ("alice",)}}
        )
        assert len(memory.conversation("c")) == 1
        assert len(memory.conversation("c", ("alice",))) == 0

    def test_a_search_understands_langchains_names_of_roles(self, memory):
        memory.conversation("c").add_messages([HumanMessage("about lemons"), AIMessage("about lemons too")])
        assert [found.text for found in memory.search("lemons", roles=["human"])] == ["about lemons"]
        assert [found.text for found in memory.search("lemons", roles=["ai"])] == ["about lemons too"]

    def test_add_understands_langchains_names_of_roles(self, memory):
        chat = memory.conversation("c")
        chat.add(role="human", content="hello")
        assert chat.retrieve_all() == [{"role": "user", "content": "hello"}]


@pytest.mark.sqlite_suffices
class TestCopies:
    def test_an_edit_made_after_an_export_arrives_with_the_next(self, url, tmp_path):
        with AgentMemory() as source, AgentMemory(url) as target:
            chat = source.conversation("c")
            chat.add(message={"role": "user", "content": "v1", "message_id": "m"})
            source.export(tmp_path / "first")
            target.import_(tmp_path / "first")
            chat.update("m", content="v2")
            source.export(tmp_path / "second")
            assert target.import_(tmp_path / "second").entries == 1
            copied = target.conversation("c").history_of("m")
            assert [version.message.content for version in copied] == ["v1", "v2"]
            assert target.import_(tmp_path / "second").entries == 0

    def test_an_edit_made_here_is_not_undone_by_an_import(self, url, tmp_path):
        with AgentMemory() as source, AgentMemory(url) as target:
            source.conversation("c").add(message={"role": "user", "content": "v1", "message_id": "m"})
            source.export(tmp_path / "first")
            target.import_(tmp_path / "first")
            source.conversation("c").update("m", content="theirs")
            target.conversation("c").update("m", content="ours")
            source.export(tmp_path / "second")
            target.import_(tmp_path / "second")
            assert target.conversation("c").messages[0].content == "ours"

    def test_a_loaded_file_keeps_its_own_description(self, memory, tmp_path):
        memory.conversation("old", description="A").add_user_message("hello")
        memory.conversation("old").save_to_file(tmp_path / "saved")
        new = memory.conversation("new", description="B")
        new.load_from_file(tmp_path / "saved")
        assert [message.content for message in new.messages] == ["A", "hello"]


@pytest.mark.sqlite_suffices
class TestIds:
    def test_an_id_that_is_made_twice_is_refused(self, url):
        with AgentMemory(url, new_id=lambda: "always the same") as memory:
            chat = memory.conversation("c")
            chat.add_user_message("one")
            with pytest.raises(Exception, match=r"UNIQUE|unique"):
                chat.add_user_message("two")
            assert [message.content for message in chat.messages] == ["one"]
            assert memory.admin.verify().ok


@pytest.mark.sqlite_suffices
class TestRetention:
    def test_what_it_drops_is_told(self, url):
        told = []
        with AgentMemory(url, hooks=[told.append], retention=Retention(keep_last=2)) as memory:
            chat = memory.conversation("c")
            for number in range(3):
                chat.add_messages([HumanMessage("hello", id=f"m{number}")])
        removed = [event for event in told if isinstance(event, MessagesRemoved)]
        assert [event.message_ids for event in removed] == [("m0",)]

    def test_it_holds_for_sessions_too(self, url):
        with AgentMemory(url, retention=Retention(keep_last=2)) as memory:
            session = memory.session("s")
            begun = session.create_round("task")
            for number in range(5):
                session.add_post(begun.id, send_from="Planner", send_to="User", message=f"{number}")
            assert [post.message for post in session.rounds[0].post_list] == ["3", "4"]

    def test_rounds_that_lost_all_their_posts_go_with_them(self, url):
        with AgentMemory(url, retention=Retention(keep_last=2)) as memory:
            session = memory.session("s")
            for number in range(4):
                begun = session.create_round(f"task {number}")
                session.add_post(begun.id, send_from="Planner", send_to="User", message=f"{number}")
            assert [each.user_query for each in session.rounds] == ["task 2", "task 3"]
            assert memory.admin.verify().problems == ()

    def test_old_messages_go_however_many_there_are(self, memory, clock):
        memory.conversation("c").add_messages([HumanMessage(f"{number}") for number in range(100)])
        clock.pass_time(days=2)
        chat = memory.conversation("c", retention=Retention(max_age=timedelta(days=1)))
        chat.add_messages(
            [AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "t"}]), ToolMessage("", tool_call_id="t")]
        )
        assert [message.type for message in chat.messages] == ["ai", "tool"]


@pytest.mark.sqlite_suffices
class TestEvents:
    def test_every_way_in_and_out_is_told(self, url, tmp_path):
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

    def test_the_event_bus_hears_what_happens_to_messages(self, memory):
        heard = []
        chat = memory.conversation("c")
        chat.set_event_context("agent", heard.append)
        message_id = chat.add(role="user", content="hello")
        chat.update(message_id, content="hello again")
        chat.remove_by_id(message_id)
        assert [type(event) for event in heard] == [MessagesStored, MessageUpdated, MessagesRemoved]


@pytest.mark.sqlite_suffices
class TestWaiting:
    def test_a_reader_with_a_description_does_not_wait_for_a_writer(self, url):
        with AgentMemory(url) as memory, AgentMemory(url) as other:
            memory.conversation("c", description="Be kind.").add_user_message("hello")
            began, end = threading.Event(), threading.Event()

            def slow():
                yield query.lock_branch(path="", kind="conversation", name="c")
                yield query.create_namespace(path="held\x1f")
                began.set()
                end.wait(120)

            writer = threading.Thread(target=other.database.engine.write, args=[slow])
            writer.start()
            try:
                assert began.wait(120)
                chat = memory.conversation("c", description="Be kind.")
                assert [message.content for message in chat.messages] == ["Be kind.", "hello"]
            finally:
                end.set()
                writer.join()

    def test_a_description_that_came_late_is_there_after_a_reset(self, memory):
        memory.conversation("c").add_user_message("hello")
        late = memory.conversation("c", description="Be kind.")
        assert [message.content for message in late.messages] == ["hello"]
        late.reset_memory()
        assert [message.content for message in late.messages] == ["Be kind."]

    def test_a_lost_connection_is_replaced_without_a_word(self, new_database, raw):
        with AgentMemory(new_database("postgres")) as memory:
            chat = memory.conversation("c")
            chat.add_user_message("one")
            for _ in range(3):
                raw(
                    memory,
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where datname = current_database() and pid <> pg_backend_pid()",
                )
                chat.add_user_message("more")
                assert len(memory.search("more")) > 0
            assert len(chat) == 4


class TestWhoWaits:
    """On PostgreSQL, while another transaction holds the conversation that something new is said in."""

    LOCKED = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"

    @pytest.mark.parametrize(
        ("meanwhile", "left"),
        [
            ("update branch set namespace_id = (select id from namespace where path <> '')", ["one"]),
            ("delete from branch", []),
            ("update branch set head = head + 1", None),
        ],
    )
    def test_writes_where_the_conversation_is_by_then(self, new_database, meanwhile, left):
        with AgentMemory(new_database("postgres")) as memory, ThreadPoolExecutor(1) as pool:
            chat, elsewhere = memory.conversation("c"), memory.conversation("c", ("elsewhere",))
            memory.conversation("other", ("elsewhere",)).add_user_message("hello")
            memory.erase(namespace=("elsewhere",), conversation_id="other")
            memory.store.put(("elsewhere",), "k", {})
            chat.add_user_message("one")
            with psycopg.connect(direct(memory.database.engine._url), options="-c search_path=agentmem") as connection:
                connection.execute("select * from branch for update")
                adding = pool.submit(chat.add_user_message, "two")
                while not connection.execute(self.LOCKED).fetchone()[0]:
                    time.sleep(0.01)
                connection.execute(meanwhile)
            adding.result()
            assert [each.content for each in chat.messages] == (["two"] if left is not None else ["one", "two"])
            assert [each.content for each in elsewhere.messages] == (left or [])
            assert len(chat) == len(chat.messages)


@pytest.mark.sqlite_suffices
class TestOddMessages:
    def test_an_instruction_to_remove_is_no_message(self, memory):
        chat = memory.conversation("c")
        with pytest.raises(MessageError, match="remove_by_id"):
            chat.add_messages([HumanMessage("hello"), RemoveMessage(id="m")])
        assert chat.messages == []

    def test_calls_are_given_to_a_provider_once(self, memory):
        chat = memory.conversation("c")
        blocks = [
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "t", "name": "look", "input": {}},
        ]
        chat.add_messages([AIMessage(blocks, tool_calls=[{"name": "look", "args": {}, "id": "t"}])])
        [given] = chat.retrieve_all()
        assert given["content"] == [{"type": "text", "text": "Let me see."}]
        assert [call["id"] for call in given["tool_calls"]] == ["t"]
        assert chat.messages[0].content == blocks

    def test_an_assistant_sees_plain_messages_as_they_are(self, memory):
        said = [
            HumanMessage(
                [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "https://a/b"}}]
            ),
            AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "t"}]),
            ToolMessage("a cat", tool_call_id="t"),
        ]
        memory.conversation("c").add_messages(said)
        seen = memory.session("c").messages_for("Assistant")
        assert [message.model_copy(update={"id": None}) for message in seen] == said

    def test_a_round_of_plain_messages_is_only_shown(self, memory):
        memory.conversation("c").add_user_message("hello")
        session = memory.session("c")
        with pytest.raises(MessageError, match="create_round"):
            session.finish_round(session.rounds[0].id)


class TestCounting:
    def test_a_database_that_is_only_read_is_counted_too(self, tmp_path):
        with AgentMemory(tmp_path / "a.db") as memory:
            memory.conversation("c").add_user_message("three little words")
        with AgentMemory(f"file:{tmp_path / 'a.db'}?mode=ro") as memory:
            assert memory.conversation("c").count_tokens() > 2
