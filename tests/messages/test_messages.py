"""Conversion of messages between LangChain, providers and the database."""

from __future__ import annotations

import base64
import json
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)
from pydantic import BaseModel

from langchain_agentmem.errors import DatabaseUnreadable, MessageError
from langchain_agentmem.messages.langchain_messages import encode_plain, from_langchain, to_langchain
from langchain_agentmem.messages.message import (
    AgentCallMsg,
    Message,
    ToolCallMsg,
    decode_body,
    encode_body,
    message_time,
)
from langchain_agentmem.messages.provider_content import image_part
from tests.base.test_encoding import shape

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8

TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
IDS = st.text(st.characters(exclude_categories=()), min_size=1, max_size=8)
KEYS = TEXT | st.sampled_from(["$agentmem", "agentmem", "created_at", "__openai_role__", "tool_calls", "type"])
JSON_ATOMS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(
    JSON_ATOMS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2), max_leaves=4
)
ARBITRARY = st.recursive(
    JSON_ATOMS | st.binary(max_size=3) | st.datetimes() | st.uuids() | st.decimals(allow_nan=False),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.lists(inner, max_size=2).map(tuple),
        st.frozensets(st.integers(), max_size=2),
        st.dictionaries(KEYS, inner, max_size=2),
        st.dictionaries(st.integers(), inner, max_size=2),
    ),
    max_leaves=4,
)
DICTS = st.dictionaries(KEYS, ARBITRARY, max_size=3)
JSON_DICTS = st.dictionaries(KEYS, JSON, max_size=3)
BLOCKS = st.one_of(
    TEXT,
    DICTS,
    st.builds(lambda text: {"type": "text", "text": text}, TEXT),
    st.builds(lambda text: {"type": "tool_use", "id": "1", "name": "t", "input": {"b": text, "a": 1}}, TEXT),
)
CONTENT = TEXT | st.lists(BLOCKS, max_size=3)
TIMES = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=2))]))
KWARGS = DICTS | st.builds(lambda when: {"created_at": when.isoformat()}, TIMES)
COMMON = {
    "content": CONTENT,
    "additional_kwargs": KWARGS,
    "response_metadata": DICTS,
    "name": st.none() | TEXT,
    "id": IDS,
}
ARGS = JSON_DICTS | DICTS


def calls(kind, **fields):
    """Calls, as LangChain keeps them; each field may be None unless it is said otherwise."""
    some = st.none() | TEXT
    given = {"name": some, "args": some, "id": some, **fields, "type": st.just(kind)}
    return st.lists(st.fixed_dictionaries(given), max_size=2)


CALLS = calls("tool_call", name=TEXT, args=ARGS)
JSON_CALLS = calls("tool_call", name=TEXT, args=JSON_DICTS)
INVALID = calls("invalid_tool_call", args=st.none() | TEXT | st.just('{"a": 1}'), error=st.none() | TEXT)
CHUNKS = calls("tool_call_chunk", args=st.none() | TEXT | st.just('{"a": 1'), index=st.none() | st.integers())
COUNTS = st.integers(min_value=0, max_value=9)
USAGE = st.none() | st.fixed_dictionaries(
    {"input_tokens": COUNTS, "output_tokens": COUNTS, "total_tokens": COUNTS},
    optional={"input_token_details": st.just({"cache_read": 3})},
)
AI = {**COMMON, "invalid_tool_calls": INVALID, "usage_metadata": USAGE}
TOOL = {**COMMON, "tool_call_id": TEXT, "artifact": ARBITRARY, "status": st.sampled_from(["success", "error"])}
FUNCTION = {**COMMON, "name": TEXT}
CHAT = {**COMMON, "role": TEXT | st.sampled_from(["user", "assistant", "tool", "remove", "chat"])}


def built(cls, fields, **extra):
    @st.composite
    def message(draw):
        given = {name: draw(strategy) for name, strategy in {**fields, **extra}.items()}
        if draw(st.integers(0, 9)) == 0:
            given["example"] = True
        return cls(**given)

    return message()


PLAIN = (HumanMessage, HumanMessageChunk, SystemMessage, SystemMessageChunk)
LANGCHAIN = st.one_of(
    *(built(cls, COMMON) for cls in PLAIN),
    *(built(cls, TOOL) for cls in (ToolMessage, ToolMessageChunk)),
    *(built(cls, FUNCTION) for cls in (FunctionMessage, FunctionMessageChunk)),
    *(built(cls, CHAT) for cls in (ChatMessage, ChatMessageChunk)),
    built(AIMessage, AI, tool_calls=CALLS),
    # LangChain itself writes a chunk's calls as JSON, so these must be JSON.
    built(AIMessageChunk, AI, tool_calls=JSON_CALLS, chunk_position=st.sampled_from([None, "last"])),
    built(AIMessageChunk, AI, tool_call_chunks=CHUNKS),
    st.tuples(IDS, DICTS).map(lambda drawn: RemoveMessage(id=drawn[0], additional_kwargs=drawn[1])),
)
TOOL_CALLS = st.builds(
    ToolCallMsg,
    id=TEXT,
    call_id=TEXT,
    type=TEXT | st.just("function"),
    name=TEXT,
    arguments=TEXT | JSON | st.sampled_from(['{"a":1}', '{"a":NaN}', '{"a":1,"a":2}', "", "[]", "null", '{"a": 1}']),
)
AGENT_CALLS = st.builds(AgentCallMsg, agent_name=IDS, request=ARBITRARY)
ENVELOPES = st.builds(lambda call, output: {"tool_call_id": call, "output": output}, TEXT, JSON)
LANGCHAIN_FIELDS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["human", "AIMessageChunk", "chat", "remove", "tool", "ai", "never"]),
        "additional_kwargs": KWARGS,
        "response_metadata": DICTS,
        "artifact": ARBITRARY,
        "status": st.just("error"),
        "extra": st.just({"example": True}),
        "role": TEXT,
        "invented": ARBITRARY,
    },
)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant", "system", "tool", "function", "developer", "remove", "chat"]) | IDS,
    content=st.none() | CONTENT | DICTS | ENVELOPES | ENVELOPES.map(json.dumps),
    message_id=IDS,
    name=st.none() | TEXT,
    tool_calls=st.none() | st.lists(TOOL_CALLS, max_size=3),
    agent_calls=st.none() | st.lists(AGENT_CALLS, max_size=2),
    structured_data=st.none() | DICTS,
    images=st.none() | st.lists(st.sampled_from(["a.png", "https://x/y.png", "data:image/png;base64,AA"])),
    tool_call_id=st.none() | TEXT,
    reasoning_details=st.none() | st.lists(DICTS, max_size=2),
    created_at=st.none() | st.datetimes() | TIMES | st.datetimes(timezones=st.just(ZoneInfo("Europe/Paris"))),
    langchain=LANGCHAIN_FIELDS,
)


BASES = (HumanMessage, AIMessage, SystemMessage)


def built_plainly(cls, text, message_id, data):
    """A message of a text, in which at most one other field was set without validation."""
    message = cls(text, id=message_id)
    if data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(message.__dict__.keys() - {"content", "id", "type"})))
        message.__dict__[name] = data.draw(st.sampled_from([message.__dict__[name], None, "", {}, [], False, "a"]))
    return message


def all_of(message):
    """Everything a LangChain message holds."""
    return shape({**message.__dict__, **(message.model_extra or {})})


class TestRoundTrips:
    @given(LANGCHAIN)
    def test_every_langchain_message_survives_json_and_the_database(self, message):
        ours = from_langchain(message)
        body = encode_body(ours)
        stored = decode_body(body, ours.message_id)
        for kept in (Message.from_dict(json.loads(json.dumps(ours.to_dict()))), stored):
            back = to_langchain(kept)
            assert type(back) is type(message)
            assert back == message
            assert all_of(back) == all_of(message)
        assert encode_body(from_langchain(back)) == body

    @given(MESSAGES)
    def test_every_message_survives_langchain_dictionaries_and_the_database(self, message):
        assert from_langchain(to_langchain(message)) == message
        assert Message.from_dict(json.loads(json.dumps(message.to_dict()))) == message
        back = decode_body(encode_body(message), message.message_id)
        assert back == message
        assert encode_body(back) == encode_body(message)

    @given(LANGCHAIN | st.builds(built_plainly, st.sampled_from(BASES), TEXT, st.none() | IDS | st.just(""), st.data()))
    def test_plain_encoding_equals_the_general_one(self, message):
        if (plain := encode_plain(message)) is not None:
            ours = from_langchain(message, new_id="new")
            assert plain == (message.id or None, ours.role, ours.text, encode_body(ours))
        assert all(encode_plain(each("a", id=message.id)) is not None for each in BASES)

    def test_body_excludes_the_id(self):
        one, two = Message(role="user", content="x"), Message(role="user", content="x")
        assert one.message_id != two.message_id
        body = {key: value for key, value in one.to_dict().items() if key != "message_id"}
        assert encode_body(one) == encode_body(two)
        assert json.loads(encode_body(one)) == body
        assert encode_body(from_langchain(HumanMessage("x"))) == encode_body(one)

    def test_missing_message_id_is_generated_and_kept(self):
        ours = from_langchain(HumanMessage("x"))
        assert UUID(ours.message_id)
        assert to_langchain(ours) == HumanMessage("x", id=ours.message_id)
        assert from_langchain(HumanMessage("x", id="")).message_id

    def test_plain_message_has_no_extra_fields(self):
        for message in (HumanMessage("a", id="1"), AIMessage("a", id="1"), ToolMessage("a", tool_call_id="c")):
            assert from_langchain(message).langchain is None
            assert to_langchain(from_langchain(message)).additional_kwargs == {}

    def test_the_order_and_text_of_arguments_survive(self):
        call = {"name": "t", "args": {"z": 1, "é": [True, 1.0]}, "id": None, "type": "tool_call"}
        ours = from_langchain(AIMessage("", tool_calls=[call]))
        assert ours.tool_calls == [ToolCallMsg(id="", name="t", arguments='{"z": 1, "é": [true, 1.0]}')]
        back = to_langchain(decode_body(encode_body(ours), "x"))
        assert list(back.tool_calls[0]["args"]) == ["z", "é"]

    def test_unserializable_arguments_survive(self):
        for args in ({"a": b"x"}, {"a": {1, 2}}, {"a": float("inf")}, {"a": object}):
            message = AIMessage("", id="1", tool_calls=[{"name": "t", "args": args, "id": "c", "type": "tool_call"}])
            assert to_langchain(from_langchain(message)).tool_calls == message.tool_calls, args
        calls = [ToolCallMsg(id=text, name="t", arguments=text) for text in ('{"a": NaN}', "[1", "{}")]
        message = to_langchain(Message(role="assistant", tool_calls=calls))
        assert [each["args"] for each in message.invalid_tool_calls] == ['{"a": NaN}', "[1"]
        assert [each["id"] for each in message.tool_calls] == ["{}"]
        assert {each.id for each in from_langchain(message).tool_calls} == {each.id for each in calls}

    def test_calls_in_additional_kwargs_are_not_parsed(self):
        """LangChain's constructor would parse them; a message that has been emptied must stay empty."""
        raw = [{"id": "1", "function": {"name": "t", "arguments": "{}"}}]
        message = AIMessage("x", id="1", additional_kwargs={"tool_calls": raw})
        message.tool_calls = []
        assert to_langchain(from_langchain(message)) == message

    def test_custom_class_becomes_its_langchain_base(self):
        class Mine(AIMessageChunk):
            mood: str = "calm"

        back = to_langchain(from_langchain(Mine("x", id="1", mood="glad")))
        assert (type(back), back.mood) == (AIMessageChunk, "glad")

    def test_values_are_not_shared(self):
        message = HumanMessage([{"type": "text", "text": "a"}], id="1", additional_kwargs={"k": [1]})
        ours = from_langchain(message)
        back = to_langchain(ours)
        message.content[0]["text"] = "b"
        message.additional_kwargs["k"].append(2)
        back.additional_kwargs["k"].append(3)
        back.content.append("c")
        ours.to_dict()["content"].append("d")
        assert ours.content == [{"type": "text", "text": "a"}]
        assert ours.langchain == {"additional_kwargs": {"k": [1]}}

    def test_developer_role_becomes_a_system_message(self):
        message = to_langchain(Message(role="developer", content="x", message_id="1"))
        assert message == SystemMessage("x", id="1", additional_kwargs={"__openai_role__": "developer"})
        assert from_langchain(message).role == "developer"


class TestLangChainChanges:
    def test_changed_content_is_kept(self):
        message = Message(role="user", content={"a": 1}, images=["https://x/y.png"], structured_data={"s": 1})
        shown = to_langchain(message)
        changed = from_langchain(shown.model_copy(update={"content": "new"}))
        assert (changed.content, changed.images) == ("new", None)
        assert changed.structured_data == {"s": 1}

    def test_changed_calls_are_kept(self):
        call = ToolCallMsg(id="1", call_id="2", name="t", arguments='{"a":1}')
        shown = to_langchain(Message(role="assistant", tool_calls=[call]))
        shown.tool_calls[0]["args"] = {"a": 2}
        assert from_langchain(shown).tool_calls == [ToolCallMsg(id="1", name="t", arguments='{"a": 2}')]

    def test_user_additional_kwargs_are_kept(self):
        message = AIMessage("x", id="1", additional_kwargs={"agentmem": {"fields": 1}})
        assert to_langchain(from_langchain(message)) == message
        ours = replace(from_langchain(message), structured_data={"a": 1})
        assert from_langchain(to_langchain(ours)) == ours

    def test_langchain_message_is_ready_for_a_model(self):
        shown = to_langchain(Message(role="tool", content='{"tool_call_id": "c", "output": "42"}'))
        assert (shown.content, shown.tool_call_id) == ("42", "c")
        url = "https://x/y.png"
        shown = to_langchain(Message(role="user", content="see", images=[url, "gone.png"]))
        assert shown.content == [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}]


class TestValidation:
    def test_a_malformed_message_is_refused(self):
        bad = {
            "role": ["", None, 5],
            "content": [5, b"x", [1]],
            "name": [5],
            "message_id": [5],
            "tool_calls": ["x", [5], [{"id": "x"}], [{"id": 5, "name": "t"}]],
            "agent_calls": [[{}]],
            "images": ["a.png", [5]],
            "structured_data": [[]],
            "reasoning_details": ["x"],
            "created_at": ["yesterday"],
            "langchain": ["x"],
            "tool_call_id": [5],
        }
        for name, value in ((name, value) for name, values in bad.items() for value in values):
            with pytest.raises(MessageError):
                pytest.fail(f"{Message(**{'role': 'user', name: value})} for {name}={value!r}")

    def test_an_unknown_field_is_refused(self):
        with pytest.raises(MessageError, match="invented"):
            Message.from_dict({"role": "user", "invented": 1})
        with pytest.raises(MessageError, match="role"):
            Message.from_dict({"content": "x"})

    def test_unserializable_artifact_is_rejected_with_its_path(self):
        class Row(BaseModel):
            x: int

        artifact = {"rows": [1, 2, 3, Row(x=1)]}
        message = from_langchain(ToolMessage("x", tool_call_id="c", artifact=artifact))
        with pytest.raises(MessageError, match=r"^artifact\.rows\[3\]: an object of type .*model_dump"):
            encode_body(message)
        with pytest.raises(MessageError, match=r"^artifact\.rows\[3\]"):
            message.to_dict()
        assert to_langchain(message).artifact == artifact

    def test_a_cycle_is_refused(self):
        loop = {}
        loop["self"] = loop
        with pytest.raises(MessageError, match="refers to itself"):
            from_langchain(HumanMessage("x", additional_kwargs=loop))
        with pytest.raises(MessageError, match="refers to itself"):
            encode_body(Message(role="user", structured_data=loop))

    def test_damaged_bytes_are_refused(self):
        odd = b'{"role":"user","content":{"$agentmem":"bytes","value":5}}'
        values = b"", b"{", b"[]", b"5", b"{}", b"\xff", b'{"role":5}', b'{"role":"user","x":1}', odd, b'{"a":' * 50_000
        for body in values:
            with pytest.raises(DatabaseUnreadable, match=r"'m' is damaged\. verify\(\) reports the details"):
                pytest.fail(f"{decode_body(body, 'm')} of {body[:40]!r}")

    def test_message_is_frozen_and_hashed_by_id(self):
        message = Message(role="user", content="x")
        with pytest.raises(FrozenInstanceError):
            message.content = "y"
        assert hash(message) == hash(replace(message, content="z"))
        assert hash(AgentCallMsg(agent_name="a", request={"a": [1]}))

    def test_non_langchain_messages_are_rejected(self):
        for thing in ("text", {"role": "user"}, None, Message(role="user")):
            with pytest.raises(MessageError, match="LangChain message"):
                from_langchain(thing)


class TestProviderFormat:
    def test_blocks_of_invalid_type_are_kept(self):
        calls = [{"id": "1", "name": "look", "arguments": "{}"}]
        for kind in ([], {}, 7, None):
            message = Message(role="user", content=[{"type": kind}], tool_calls=calls)
            shown = message.to_llm_dict(), message.to_api_format()
            assert [each["content"] for each in shown] == [[{"type": kind}]] * 2
            assert message.text == ""

    @given(MESSAGES)
    def test_provider_dictionary_can_be_read_back(self, message):
        """MARSYS: ``memory.add(message=Message(**retrieved))``."""
        out = replace(message, images=None).to_llm_dict(include_id=True)
        again = Message(**out)
        assert again.message_id == message.message_id
        assert again.to_llm_dict(include_id=True) == out

    def test_unset_fields_are_omitted(self):
        assert Message(role="user", content="hi").to_llm_dict() == {"role": "user", "content": "hi"}
        assert Message(role="user").to_llm_dict() == {"role": "user", "content": ""}
        call = {"id": "1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
        full = Message(
            role="assistant",
            tool_calls=[ToolCallMsg(id="1", call_id="2", name="t", arguments="{}")],
            agent_calls=[AgentCallMsg(agent_name="b", request=1)],
            reasoning_details=[{"type": "x"}],
            name="my agent/1",
        )
        bare = {"role": "assistant", "content": None, "name": "my_agent_1", "tool_calls": [call]}
        named = {**bare, "name": "my agent/1", "tool_calls": [{**call, "call_id": "2"}]}
        assert full.to_llm_dict() == {**named, "reasoning_details": [{"type": "x"}]}
        assert full.to_api_format() == bare

    def test_structured_content_is_json_text(self):
        assert Message(role="assistant", content={"é": 1}).to_llm_dict()["content"] == '{"é": 1}'
        assert Message(role="assistant", structured_data={"a": 1}).to_llm_dict()["content"] == '{"a": 1}'

    def test_tool_result_envelopes_are_unwrapped(self):
        envelope, cut, other = {"tool_call_id": "c", "output": {"a": 1}}, '{"tool_call_id": "c"', "d"
        text, more = json.dumps(envelope), '{"tool_call_id": "c", "output": 1, "error": 2}'
        for content, call_id, *expected in (
            (envelope, None, '{"a": 1}', "c"),
            (text, None, '{"a": 1}', "c"),
            (cut, None, cut, None),
            (text, other, text, other),
            (more, None, more, "c"),
        ):
            message = Message(role="tool", content=content, tool_call_id=call_id)
            out = message.to_llm_dict()
            assert [out["content"], out.get("tool_call_id")] == expected, content
            assert message.tool_call_id == call_id

    def test_every_form_of_image_becomes_an_image_url(self):
        data = {"data": "QQ==", "media_type": "image/gif"}
        url = "data:image/gif;base64,QQ=="
        for block, expected in (
            ({"type": "image", "base64": "QQ==", "mime_type": "image/gif"}, url),
            ({"type": "image", "source_type": "base64", "data": "QQ==", "mime_type": "image/gif"}, url),
            ({"type": "image", "source": {"type": "base64", **data}}, url),
            ({"type": "image_url", "image_url": {"url": url}}, url),
            ({"type": "image", "url": "https://x/y"}, "https://x/y"),
        ):
            text, image = Message(role="user", content=["see", block]).to_llm_dict()["content"]
            assert text == {"type": "text", "text": "see"}
            assert image == {"type": "image_url", "image_url": {"url": expected}}, block

    def test_api_format_omits_reasoning_and_call_blocks(self):
        text, call = {"type": "output_text", "text": "yes"}, {"type": "tool_use", "id": "1", "name": "t", "input": {}}
        blocks = [{"type": "thinking", "thinking": "hm"}, text, call]
        message = Message(role="assistant", content=blocks)
        assert message.to_llm_dict()["content"] == blocks
        assert message.to_api_format()["content"] == [{"type": "text", "text": "yes"}]

    def test_an_openai_response_becomes_a_message(self):
        call = {"id": "1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
        reply = {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_details": [{"a": 1}]}
        calls = [ToolCallMsg(id="1", name="t", arguments="{}")]
        own = {"message_id": "m", "name": "agent", "tool_calls": calls, "reasoning_details": [{"a": 1}]}
        found = Message.from_response_dict(reply, default_name="agent", message_id="m")
        assert found == Message(role="assistant", **own)
        assert Message.from_response_dict({"content": "x"}, default_role="critic").role == "critic"
        for wrong in ("x", {"choices": [{"message": reply}]}, {"content": 5}):
            with pytest.raises(MessageError):
                Message.from_response_dict(wrong)

    def test_a_harmonized_response_becomes_a_message(self):
        function = SimpleNamespace(id="1", function=SimpleNamespace(name="t", arguments="{}"), type="function")
        plain = SimpleNamespace(id="2", name="u", arguments={"a": 1})
        more = {"reasoning_details": None, "thinking": "hm", "metadata": SimpleNamespace(model="m")}
        reply = SimpleNamespace(role="assistant", content="x", tool_calls=[function, plain], **more)
        message = Message.from_harmonized_response(reply, default_name="agent", message_id="m")
        calls = [ToolCallMsg(id="1", name="t", arguments="{}"), ToolCallMsg(id="2", name="u", arguments='{"a": 1}')]
        said = {"role": "assistant", "content": "x", "message_id": "m", "name": "agent", "tool_calls": calls}
        thought, metadata = [{"type": "reasoning.text", "text": "hm"}], {"response_metadata": {"model": "m"}}
        assert message == Message(**said, reasoning_details=thought, langchain=metadata)
        reply.metadata.model = "another"
        assert to_langchain(message).response_metadata == {"model": "m"}


class TestImages:
    def test_image_files_are_read_on_demand(self, tmp_path):
        for name in ("right.png", "wrong.jpg", "none", "with space.png"):
            (tmp_path / name).write_bytes(PNG)
        url = "data:image/png;base64," + base64.b64encode(PNG).decode()
        paths = [str(tmp_path / name) for name in ("right.png", "wrong.jpg", "none", "with space.png")]
        paths.append((tmp_path / "with space.png").as_uri())
        addresses = ["https://x/y.png?a=1", "HTTP://x", "data:image/png;base64,AA"]
        message = Message(role="user", content="see", images=paths + addresses)
        assert message.to_dict()["images"] == paths + addresses
        parts = message.to_llm_dict()["content"]
        assert parts[0] == {"type": "text", "text": "see"}
        assert [part["image_url"]["url"] for part in parts[1:]] == [url] * 5 + addresses, (
            "M14: addresses pass untouched"
        )
        assert to_langchain(message, part_of=image_part).content == parts
        assert from_langchain(to_langchain(message, part_of=image_part)) == message

    def test_the_media_type_comes_from_the_first_bytes(self, tmp_path):
        """Original M14: everything unknown was called a PNG."""
        for start, name, kind in (
            (b"\xff\xd8\xff\xe0", "a", "image/jpeg"),
            (b"GIF89a", "a", "image/gif"),
            (b"RIFF\0\0\0\0WEBP", "a", "image/webp"),
            (b"BM", "a", "image/bmp"),
            (b"<svg/>", "a.svg", "image/svg+xml"),
            (b"?", "a.unknown", "application/octet-stream"),
        ):
            (tmp_path / name).write_bytes(start)
            out = Message(role="tool", images=[str(tmp_path / name)]).to_llm_dict()["content"]
            assert out[0]["image_url"]["url"].startswith(f"data:{kind};base64,"), kind

    def test_missing_files_raise_and_changed_files_are_reread(self, tmp_path):
        path = tmp_path / "a.png"
        message = Message(role="user", images=[str(path)])
        with pytest.raises(MessageError, match=r"a\.png"):
            message.to_llm_dict()
        assert to_langchain(message).content == ""
        path.write_bytes(PNG)
        before = message.to_llm_dict()
        path.write_bytes(PNG + b"more")
        assert message.to_llm_dict() != before


def test_text_holds_the_readable_content():
    inner = {"type": "text", "text": "found"}
    url = "data:image/png;base64,QQ"
    for content, text in (
        (None, ""),
        ("hi", "hi"),
        ([], ""),
        (["a", {"type": "text", "text": "b"}, {"type": "output_text", "text": "c"}], "a\nb\nc"),
        ([{"type": "thinking", "thinking": "x", "text": "y"}, {"type": "reasoning", "text": "z"}], ""),
        ([{"type": "image", "base64": "QQ==", "caption": "a cat", "alt": "cat"}], "a cat\ncat"),
        ([{"type": "image_url", "image_url": {"url": url}}], ""),
        ([{"type": "tool_use", "name": "t", "input": {"a": "secret"}}], ""),
        ([{"type": "tool_result", "content": [inner]}], "found"),
        ({"thought": "hm", "n": 5, "deep": [{"x": "y"}], "image": url}, "hm\ny"),
    ):
        assert Message(role="user", content=content).text == text, content


def test_every_form_of_tool_call_is_read():
    expected = ToolCallMsg(id="1", name="t", arguments='{"a": 1}')
    for data in (
        {"id": "1", "type": "function", "function": {"name": "t", "arguments": '{"a": 1}'}},
        {"id": "1", "call_id": "1", "type": "function", "name": "t", "arguments": '{"a": 1}'},
        {"id": "1", "name": "t", "arguments": {"a": 1}},
        {"id": "1", "name": "t", "args": {"a": 1}, "type": "tool_call"},
        {"call_id": "1", "name": "t", "arguments": '{"a": 1}'},
        {"id": None, "call_id": "1", "name": "t", "arguments": '{"a": 1}'},
    ):
        assert ToolCallMsg.from_dict(data) == expected


class TestMessageTime:
    def test_time_is_read_from_every_form(self):
        moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        texts = "2026-01-02T03:04:05Z", "2026-01-02T03:04:05", "2026-01-02T05:04:05+02:00"
        for told in (moment.replace(tzinfo=None), moment, *texts):
            message = HumanMessage("x", additional_kwargs={"created_at": told})
            ours = from_langchain(message)
            own = Message(role="user", created_at=told)
            forms = [ours, own, decode_body(encode_body(ours), "x")]
            assert [message_time(form) for form in forms] == [moment] * 3, told
        assert (ours.created_at, ours.langchain) == (moment, None), "it is kept once"
        assert message_time(Message(role="user")) is None

    def test_invalid_times_are_rejected(self):
        for told in ("yesterday", 5, "", [], True):
            message = HumanMessage("x", id="1", additional_kwargs={"created_at": told})
            assert to_langchain(from_langchain(message)) == message, told
            with pytest.raises(MessageError, match="created_at"):
                message_time(from_langchain(message))
