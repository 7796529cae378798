"""Rounds, posts and attachments as values: serialization and validation."""

import json
import re
from datetime import timedelta

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.role_rounds import (
    Attachment,
    AttachmentType,
    Conversation,
    MessageContent,
    Post,
    Retention,
    Round,
    SharedMemoryEntry,
    new_id,
)

TEXT = st.text(st.characters(exclude_categories=()), max_size=10)
IDS = st.text(min_size=1, max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
ENTRIES = st.builds(
    SharedMemoryEntry, id=IDS, type=TEXT, scope=st.sampled_from(["round", "conversation"]), content=TEXT
)
OTHER_TYPES = [kind for kind in AttachmentType if kind is not AttachmentType.shared_memory_entry]
ATTACHMENTS = st.builds(Attachment, id=IDS, type=st.sampled_from(OTHER_TYPES), content=TEXT, extra=JSON) | st.builds(
    Attachment, id=IDS, type=st.just(AttachmentType.shared_memory_entry), content=TEXT, extra=ENTRIES
)
ATTACHMENT_LISTS = st.lists(ATTACHMENTS, max_size=2)
POSTS = st.builds(Post, id=IDS, message=TEXT, send_from=TEXT, send_to=TEXT, attachment_list=ATTACHMENT_LISTS)
STATES = st.sampled_from(["created", "finished", "failed"])
ROUNDS = st.builds(Round, id=IDS, user_query=TEXT, state=STATES, post_list=st.lists(POSTS, max_size=2))
CONVERSATIONS = st.builds(Conversation, id=IDS, rounds=st.lists(ROUNDS, max_size=2), enabled=st.booleans())


class TestRoundTrips:
    @given(CONVERSATIONS | ENTRIES | ATTACHMENTS)
    def test_every_value_survives_dictionaries_json_and_yaml(self, value):
        kind = type(value)
        assert kind.from_dict(value.to_dict()) == value
        assert kind.from_json(value.to_json()) == value
        assert kind.from_yaml(value.to_yaml()) == value

    def test_yaml_keeps_every_text(self):
        for text in ("", "\0", "\x85", "\u2028", "\ufeff", "\ud800", "no", "2026-01-01", " - a: b\n", "\r\n", "\t"):
            post = Post.create(text, text)
            assert Post.from_yaml(post.to_yaml()) == post, text

    def test_every_attachment_type_survives(self):
        """Original T2: a text could be written but not read; T3: a shared entry was a dictionary after a reload."""
        assert len(AttachmentType) == 22
        for kind in AttachmentType:
            assert kind.value == kind.name
            entry = SharedMemoryEntry.create("plan", "conversation", "do it")
            extra = entry if kind is AttachmentType.shared_memory_entry else {"a": 1}
            attachment = Attachment.create(kind, "content", extra)
            assert Attachment.from_json(attachment.to_json()) == attachment, kind
            assert type(Attachment.from_dict(attachment.to_dict()).extra) is type(extra), kind


def test_removed_types_are_dropped():
    for removed in ("init_plan", "python", "sample", "never_was"):
        data = {"type": removed, "content": "x", "extra": None, "id": "a"}
        assert Attachment.from_dict(data) is None
        kept = Attachment.create("plan", "p").to_dict()
        post = Post.from_dict({"send_from": "A", "attachment_list": [data, kept]})
        assert [attachment.content for attachment in post.attachment_list] == ["p"]
        with pytest.raises(InvalidInput, match="no longer exists"):
            Attachment.from_json(json.dumps(data))


class TestMalformedDumps:
    def test_malformed_data_is_rejected_with_its_field(self):
        for kind, data, said in (
            (Post, [], "expected a dictionary"),
            (Post, {"message": "x"}, "Post: send_from is missing"),
            (Post, {"message": 5, "send_from": "A"}, "message must be a valid string, got 5"),
            (Post, {"send_from": "A", "attachment_list": "x"}, "attachment_list must be a valid tuple"),
            (Post, {"send_from": "A", "attachment_list": [{"content": ""}]}, "Post: Attachment: 'type' is missing"),
            (Post, {"send_from": "A", "id": 5}, "id must be a valid string"),
            (Round, {"user_query": "q", "state": "done"}, "got 'done'"),
            (Round, {"user_query": "q", "post_list": [None]}, "post_list[0]"),
            (Conversation, {"enabled": "yes"}, "enabled must be a valid boolean"),
            (Attachment, {"type": "plan", "content": 5}, "content must be a valid string"),
            (Attachment, {"type": ["plan"], "content": ""}, "Unknown attachment type ['plan']"),
            (Attachment, {"content": ""}, "'type' is missing"),
            (SharedMemoryEntry, {"type": "a", "scope": "b", "content": ""}, "'round' or 'conversation'"),
            (MessageContent, {"next_action": "sleep"}, "'sleep'"),
            (MessageContent, {"thought": 5}, "thought must be a valid string"),
            (MessageContent, {"action_input": []}, "action_input must be a valid dictionary"),
        ):
            with pytest.raises(InvalidInput, match=re.escape(said)):
                pytest.fail(f"{kind.from_dict(data)} of {data}")

    def test_unparsable_text_is_rejected(self):
        for text in ("{", "!!python/object/apply:os.getcwd []", "a: b: c", "5"):
            for read in (Post.from_yaml, Post.from_json):
                with pytest.raises(InvalidInput):
                    read(text)


class TestValues:
    def test_a_value_is_frozen_and_compares_by_content(self):
        post = Post.create("m", "A", id="p")
        assert Post.create(None, "A", "B", id="p") == Post.create("", "A", "B", id="p")
        assert post.send_to == "Unknown"
        assert post == Post.create("m", "A", id="p")
        assert post != Post.create("m", "A", id="q")
        assert hash(post) == hash(Post.create("m", "A", id="p"))
        with pytest.raises(ValueError, match="frozen"):
            post.message = "x"
        with pytest.raises(TypeError):
            Post("id")

    def test_with_attachment_returns_a_copy(self):
        post = Post.create("m", "A")
        plan, thought = Attachment.create("plan", "p", extra={"a": [1]}), Attachment.create("thought", "t")
        full = post.with_attachment(plan, thought)
        assert len({post, full}) == 2
        assert post.attachment_list == ()
        assert full.id == post.id
        assert full.get_attachment(AttachmentType.plan) == (plan,)

    def test_unserializable_extra_is_rejected(self):
        with pytest.raises(InvalidInput, match="cannot be written as JSON"):
            Attachment.create("plan", "p", extra={"a": [object()]})
        with pytest.raises(InvalidInput, match="two keys"):
            Attachment.create("plan", "p", extra={"a": {1: "x", "1": "y"}})
        with pytest.raises(InvalidInput, match="cannot be written as JSON"):
            Attachment.create("plan", "p", extra=SharedMemoryEntry.create("a", "round", "b"))
        assert Attachment.create("plan", "p", extra=(1, 2)).extra == [1, 2]

    def test_extra_is_copied(self):
        extra = {"a": []}
        attachment = Attachment.create("plan", "p", extra)
        extra["a"].append(1)
        attachment.to_dict()["extra"]["a"].append(2)
        assert attachment.extra == {"a": []}

    @pytest.mark.parametrize("action", [None, "call_tool", "invoke_agent", "final_response"])
    def test_message_content_survives_its_dictionary(self, action):
        content = MessageContent(thought="hm", next_action=action, action_input={"a": (1,)})
        assert MessageContent.from_dict(content.to_dict()) == MessageContent.from_json(content.to_json()) == content
        assert MessageContent().to_dict() == {}
        assert MessageContent.from_dict({"other": 1}) == MessageContent()

    def test_lists_of_wrong_types_are_rejected(self):
        with pytest.raises(InvalidInput, match=r"post_list\[0\] must be .* Post, got 'x'"):
            Round(user_query="q", post_list=["x"])
        with pytest.raises(InvalidInput, match="rounds must be a valid tuple, got 5"):
            Conversation(rounds=5)

    def test_ids_contain_kind_and_time(self):
        assert re.fullmatch(r"conv-\d{8}-\d{6}-[0-9a-f]{8}", new_id("conv"))
        assert new_id("conv") != new_id("conv")
        assert Conversation().id.startswith("conv-")
        assert Round.create("q").id.startswith("round-")
        assert Attachment.create("plan", "").id.startswith("atta-")
        assert SharedMemoryEntry.create("plan", "round", "").id.startswith("sme-")

    def test_yaml_is_readable(self):
        text = Post.create("dix écus 你好", "A", id="p").to_yaml()
        assert "dix écus 你好" in text
        assert list(yaml.safe_load(text)) == ["id", "message", "send_from", "send_to", "attachment_list"]


def test_invalid_limits_are_rejected():
    assert Retention().is_off
    counts, ages = (0, -1, True, 1.5), (timedelta(0), timedelta(-1), 5)
    for limit in (*({"keep_last": each} for each in counts), *({"max_age": each} for each in ages)):
        with pytest.raises(InvalidInput):
            pytest.fail(f"{Retention(**limit)} of {limit}")
