"""`SessionMemory`: rounds and posts between roles (TaskWeaver)."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import (
    AgentMemory,
    Attachment,
    AttachmentType,
    InvalidInput,
    MessageError,
    Post,
    Round,
    SessionMemory,
    SharedMemoryEntry,
)
from langchain_agentmem.conversations.log_entries import TEMPORAL_START, temporal

pytestmark = pytest.mark.sqlite_suffices


@pytest.fixture
def session(memory: AgentMemory) -> SessionMemory:
    return memory.session("task")


def said(rounds: list[Round]) -> list[list[str]]:
    return [[post.message for post in each.post_list] for each in rounds]


def share(session: SessionMemory, round_id: str, sender: str, scope: str, content: str) -> None:
    entry = SharedMemoryEntry.create("plan", scope, content)
    session.add_post(
        round_id,
        send_from=sender,
        send_to="Worker",
        message="",
        attachments=[Attachment.create(AttachmentType.shared_memory_entry, "", extra=entry)],
    )


def shared(session: SessionMemory) -> list[str]:
    return [entry.content for entry in session.get_shared_memory_entries("plan")]


class TestRounds:
    async def test_round_states_created_finished_and_failed(self, session, do):
        first = await do(session, "create_round", "one")
        second = await do(session, "create_round", "two")
        third = await do(session, "create_round", "three")
        assert (first.state, first.user_query, first.post_list) == ("created", "one", ())
        await do(session, "finish_round", second.id)
        await do(session, "fail_round", third.id)
        assert [(each.id, each.state) for each in await do(session, "rounds")] == [
            (first.id, "created"),
            (second.id, "finished"),
            (third.id, "failed"),
        ]

    async def test_posts_store_every_attachment_type(self, session, do):
        entry = SharedMemoryEntry.create("plan", "round", "p")
        extras = {kind: {"n": [1, None]} for kind in AttachmentType} | {AttachmentType.shared_memory_entry: entry}
        attachments = [Attachment.create(kind, kind.value, extra=extra) for kind, extra in extras.items()]
        assert len(attachments) == 22
        post = Post.create("see", "Planner", "User", attachments)
        each = await do(session, "create_round", "q")
        assert await do(session, "add_post", each.id, post) == post
        assert (await do(session, "rounds"))[0].post_list == (post,)

    async def test_unknown_round_is_rejected(self, session, do):
        post_id = session.add_post(session.create_round("q").id, send_from="a", send_to="b").id
        for round_id in ("unknown", "", None, 5, "a\0b", [], post_id):
            for name in ("finish_round", "fail_round", "add_post"):
                with pytest.raises(MessageError):
                    await do(
                        session, name, round_id, **({"send_from": "a", "send_to": "b"} if name == "add_post" else {})
                    )
        assert said(session.rounds) == [[""]]

    async def test_repeated_post_is_stored_once(self, session, do):
        first, second = session.create_round("one"), session.create_round("two")
        post = Post.create("hi", "a", "b", id="p")
        for _ in range(2):
            await do(session, "add_post", first.id, post)
        for round_id, other in (
            (second.id, post),
            (first.id, Post.create("bye", "a", "b", id="p")),
            (first.id, Post.create("hi", "c", "b", id="p")),
            (first.id, Post.create("hi", "a", "c", id="p")),
            (first.id, post.with_attachment(Attachment.create("text", "x"))),
            (first.id, Post.create("hi", "a", "b", id=first.id)),
        ):
            with pytest.raises(MessageError, match="other content"):
                await do(session, "add_post", round_id, other)
        assert said(session.rounds) == [["hi"], []]

    async def test_invalid_posts_are_rejected(self, session, do):
        each = session.create_round("q")
        for fields in (
            {}, {"send_from": "a"}, {"send_to": "b"}, {"send_from": "", "send_to": "b"}, {"send_from": 5,
            "send_to": "b"},
            {"send_from": "a", "send_to": 5}, {"send_from": "a\0", "send_to": "b"}, {"send_from": "a",
            "send_to": "\ud800"},
            {"send_from": "a", "send_to": "b", "message": 5}, {"send_from": "a", "send_to": "b", "attachments": [5]},
            {"post": "text"}, {"post": {"send_from": "a"}}, {"post": Post.create("hi", "", "b")},
            {"post": Post.create("hi", "a", "b", id="x" * 501)},
        ):  # fmt: skip
            with pytest.raises(InvalidInput):
                await do(session, "add_post", each.id, **fields)
        for query in (None, 5, []):
            with pytest.raises(InvalidInput):
                await do(session, "create_round", query)
        assert said(session.rounds) == [[]]

    async def test_reset_removes_all_rounds(self, memory, session, do):
        session.add_post(session.create_round("q").id, send_from="a", send_to="b", message="m")
        await do(session, "reset_memory")
        assert await do(session, "rounds") == []
        assert memory.admin.stats()["content_bytes"] == 0

    def test_invalid_session_ids_are_rejected(self, memory):
        for session_id in ("", "a\0b", "x" * 501, [], 1.5):
            with pytest.raises(InvalidInput, match="cannot be the id of a session"):
                memory.session(session_id)
        assert memory.session(0).session_id == "0"
        assert memory.session().session_id != memory.session().session_id


class TestRoleRounds:
    @pytest.fixture
    def talk(self, session) -> SessionMemory:
        for number, state in enumerate(("finished", "failed", "created")):
            each = session.create_round(f"q{number}")
            for sender, recipient in (("User", "Planner"), ("Planner", "Worker"), ("Worker", "Planner")):
                text = f"{sender[0]}{recipient[0]}{number}"
                session.add_post(each.id, send_from=sender, send_to=recipient, message=text)
            if state == "finished":
                session.finish_round(each.id)
            if state == "failed":
                session.fail_round(each.id)
        return session

    async def test_role_rounds_contain_posts_of_the_role(self, talk, do):
        assert said(await do(talk, "get_role_rounds", "Planner")) == [["UP0", "PW0", "WP0"], ["UP2", "PW2", "WP2"]]
        assert said(await do(talk, "get_role_rounds", "Worker")) == [["PW0", "WP0"], ["PW2", "WP2"]]
        rounds = await do(talk, "get_role_rounds", "Nobody")
        assert [(each.user_query, each.post_list) for each in rounds] == [("q0", ()), ("q2", ())]

    async def test_failed_rounds_are_included_on_request(self, talk, do):
        rounds = await do(talk, "get_role_rounds", "User", include_failure_rounds=True)
        assert [each.state for each in rounds] == ["finished", "failed", "created"]
        assert [each.id for each in rounds] == [each.id for each in talk.rounds]

    async def test_temporal_text_appears_only_in_last_successful_round(self, session, do):
        for number in range(2):
            each = session.create_round("q")
            text = f"keep{temporal(f' this{chr(10)}once')} and {temporal('that')}end{number}"
            session.add_post(each.id, send_from="Planner", send_to="User", message=text)
        session.fail_round(session.create_round("failed").id)
        shown = [["keep and end0"], ["keep this\nonce and thatend1"]]
        assert said(await do(session, "get_role_rounds", "Planner")) == shown
        assert temporal("that") in session.rounds[0].post_list[0].message

    async def test_temporal_marks_of_users_are_kept(self, session, do):
        for _ in range(2):
            each = session.create_round("q")
            session.add_post(each.id, send_from="User", send_to="Planner", message=temporal("mine"))
            session.add_post(each.id, send_from="Planner", send_to="User", message=f"unended {TEMPORAL_START} x")
        rounds = await do(session, "get_role_rounds", "Planner")
        assert [each[0] for each in said(rounds)] == [temporal("mine")] * 2
        assert said(rounds)[0][1].endswith(" x")


class TestSharedMemoryEntries:
    def test_latest_entry_per_sender_in_order(self, session):
        each = session.create_round("q")
        share(session, each.id, "Planner", "conversation", "a")
        share(session, each.id, "Worker", "round", "b")
        assert shared(session) == ["a", "b"]
        share(session, each.id, "Planner", "conversation", "c")
        assert shared(session) == ["b", "c"]

    def test_conversation_entry_returns_after_round_entry(self, session):
        share(session, session.create_round("one").id, "Planner", "conversation", "lasting")
        share(session, session.create_round("two").id, "Planner", "round", "passing")
        assert shared(session) == ["passing"]
        session.create_round("three")
        assert shared(session) == ["lasting"]

    async def test_entries_of_failed_rounds_are_found(self, session, do):
        each = session.create_round("one")
        share(session, each.id, "Planner", "conversation", "a")
        session.fail_round(each.id)
        assert [entry.content for entry in await do(session, "get_shared_memory_entries", "plan")] == ["a"]
        for other in ("experience_sub_path", "", None, 5):
            assert await do(session, "get_shared_memory_entries", other) == []


class TestConversationView:
    async def test_posts_appear_as_named_messages(self, memory, session, do):
        each = session.create_round("q")
        for sender, recipient in (("User", "Planner"), ("Planner", "User")):
            await do(session, "add_post", each.id, Post.create("hi", sender, recipient, id=sender))
        assert await do(memory.conversation("task"), "messages") == [
            HumanMessage("hi", name="User", id="User"),
            AIMessage("hi", name="Planner", id="Planner"),
        ]

    async def test_plain_messages_appear_as_posts(self, memory, session, do):
        chat = memory.conversation("task", description="Be kind.")
        messages = [AIMessage("Hi!"), HumanMessage("one"), AIMessage("two"), HumanMessage("three", name="ada")]
        chat.add_messages(messages)
        rounds = await do(session, "rounds")
        assert [each.user_query for each in rounds] == ["", "one", "three"]
        assert [each.state for each in rounds] == ["finished", "finished", "created"]  # the last has no answer yet
        assert [[(post.send_from, post.send_to) for post in each.post_list] for each in rounds] == [
            [("Assistant", "User")], [("User", "Assistant"), ("Assistant", "User")], [("ada", "Assistant")]
        ]  # fmt: skip
        assert session.rounds == rounds

    async def test_rounds_and_messages_keep_their_order(self, memory, session, do):
        chat = memory.conversation("task")
        chat.add_user_message("plain one")
        each = session.create_round("asked")
        session.add_post(each.id, send_from="User", send_to="Planner", message="asked")
        chat.add_user_message("plain two")
        session.add_post(each.id, send_from="Planner", send_to="User", message="late")
        assert said(await do(session, "rounds")) == [["plain one"], ["asked", "late"], ["plain two"]]
        assert [each.text for each in await do(chat, "messages")] == ["plain one", "asked", "plain two", "late"]

    async def test_rounds_are_not_messages(self, memory, session, do):
        each = session.create_round("q")
        chat = memory.conversation("task")
        assert await do(chat, "messages") == []
        assert await do(chat, "retrieve_by_id", each.id) is None
        assert await do(chat, "remove_by_id", each.id) is False
        for name in ("history_of", "update"):
            with pytest.raises(MessageError):
                await do(chat, name, each.id)
        assert session.rounds == [each]

    def test_edited_post_keeps_its_attachments(self, memory, session):
        each = session.create_round("q")
        post = Post.create("old", "Planner", "User", [Attachment.create("plan", "x")])
        session.add_post(each.id, post)
        memory.conversation("task").update(post.id, content="new")
        [back] = session.rounds[0].post_list
        assert (back.message, back.send_to, back.attachment_list) == ("new", "User", post.attachment_list)


LEGACY = """
id: conv-old
rounds:
- id: round-old
  user_query: count the rows
  state: finished
  post_list:
  - id: post-1
    message: count the rows
    send_from: User
    send_to: Planner
    attachment_list: []
  - id: post-2
    message: null
    send_from: Planner
    send_to: CodeInterpreter
    attachment_list:
    - {id: a-1, type: init_plan, content: "1. load\\n2. count", extra: null}
    - {id: a-2, type: python, content: "df.shape"}
    - {id: a-3, type: current_plan_step, content: "2. count"}
    - {type: artifact_paths, content: [a.csv, b.csv]}
    - {id: a-5, type: text, content: "kept"}
- user_query: and then?
  post_list: null
"""


class TestFiles:
    @pytest.fixture
    def talk(self, session) -> SessionMemory:
        for number in range(2):
            each = session.create_round(f"q{number}")
            session.add_post(each.id, send_from="User", send_to="Planner", message="x\ud800 \x85 🦜\0")
            share(session, each.id, "Planner", "conversation", "p")
            session.finish_round(each.id)
        return session

    def test_yaml_round_trip_keeps_rounds_and_ids(self, memory, talk, tmp_path: Path):
        path, before = tmp_path / "session.yaml", talk.to_conversation()
        path.write_text(before.to_yaml(), encoding="utf-8")
        memory.import_from("taskweaver", path, namespace=("other",))
        assert memory.session("task", namespace=("other",)).to_conversation() == before

    def test_original_taskweaver_dump_is_imported(self, memory, tmp_path: Path):
        path = tmp_path / "old.yaml"
        path.write_text(LEGACY, encoding="utf-8")
        memory.import_from("taskweaver", path)
        [listed] = memory.conversations()
        first, second = memory.session(listed.conversation_id).rounds
        assert (first.id, first.state, second.state) == ("round-old", "finished", "created")
        assert [(post.id, post.message) for post in first.post_list] == [("post-1", "count the rows"), ("post-2", "")]
        attached = [(each.type.value, each.content) for each in first.post_list[1].attachment_list]
        assert attached == [("current_plan_step", "2. count"), ("artifact_paths", "a.csv\nb.csv"), ("text", "kept")]
        assert second.user_query == "and then?"
