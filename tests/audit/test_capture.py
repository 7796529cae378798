"""Any callback data of a model call becomes an entry that can be stored."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from pydantic import BaseModel

from langchain_agentmem.audit import model_call_capture
from langchain_agentmem.audit.model_call_capture import finish_entry, redact_entry, start_entry, to_message, to_storable
from langchain_agentmem.base.encoding import encode, to_plain
from langchain_agentmem.base.redaction import redact_value
from langchain_agentmem.errors import safe_repr
from langchain_agentmem.messages.langchain_messages import from_langchain
from langchain_agentmem.messages.message import encode_body

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
CALL = {"name": "weather", "args": {"city": "Rome"}, "id": "c1", "type": "tool_call"}


def call(given=("Hi",), **told):
    messages = [HumanMessage(each) if isinstance(each, str) else each for each in given]
    return start_entry(messages, entry_id="e1", run_id="r1", created_at=NOW, **told)


def result(*messages, llm_output=None, **info):
    generations = [ChatGeneration(message=each, generation_info=info or None) for each in messages]
    return LLMResult(generations=[generations], llm_output=llm_output)


def entry(given=("Hi",), *answers, llm_output=None, info=None, **told):
    answers = answers or (AIMessage("Hello."),)
    response = result(*answers, llm_output=llm_output, **(info or {}))
    return finish_entry(call(given, **told), response, duration=0.5)


def stored(entry):
    """What storage would write of an entry; it raises where something cannot be written."""
    return [encode_body(each) for each in entry.messages], encode(dict(entry.extra))


def test_entry_has_messages_reply_model_and_metadata():
    made = entry(
        ("Hi", AIMessage("Yes?"), "What is 6 times 7?", ToolMessage("42", tool_call_id="c1")),
        AIMessage("42", response_metadata={"model_name": "gpt-test", "finish_reason": "stop"}),
        metadata={"thread_id": "t1", "langgraph_node": "agent", "langgraph_checkpoint_ns": "agent:1", "user": "ann"},
        parent_run_id="r0",
    )

    assert (made.kind, made.id, made.run_id, made.parent_run_id) == ("call", "e1", "r1", "r0")
    assert (made.prompt, made.reply, made.model, made.error) == ("What is 6 times 7?", "42", "gpt-test", None)
    assert (made.thread_id, made.conversation_id, made.namespace) == ("t1", "t1", ())
    assert (made.created_at, made.duration, made.junk) == (NOW, 0.5, ())
    assert [each.role for each in made.messages] == ["user", "assistant", "user", "tool", "assistant"]
    where = {"node": "agent", "checkpoint_ns": "agent:1", "metadata": {"user": "ann"}}
    assert made.extra == {**where, "stop_reason": "stop", "answers": 1}


def test_messages_equal_those_stored_by_conversations():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    given = [SystemMessage("Be brief."), HumanMessage([{"type": "text", "text": "What is this?"}, picture], id="h1")]
    thought = {"type": "thinking", "thinking": "It is a dot.", "signature": "s"}
    answer = AIMessage([thought, {"type": "text", "text": "A dot."}], tool_calls=[CALL], id="a1")

    made = entry(given, answer)

    assert list(made.messages[1:]) == [from_langchain(given[1]), from_langchain(answer)]
    assert made.messages[0].content == "Be brief."
    assert (made.prompt, made.reply) == ("What is this?", "A dot.")
    [asked] = made.messages[2].tool_calls
    assert (asked.name, json.loads(asked.arguments)) == ("weather", {"city": "Rome"})


def test_streamed_reply_equals_message_in_next_prompt():
    chunk = AIMessageChunk("Hello.", id="a1", response_metadata={"finish_reason": "stop"}) + AIMessageChunk(
        "", id="a1", usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}, chunk_position="last"
    )

    made = finish_entry(call(), LLMResult(generations=[[ChatGenerationChunk(message=chunk)]]), duration=1.0)
    following = call(
        ["Hi", AIMessage(**chunk.model_dump(include={"content", "id", "response_metadata", "usage_metadata"}))]
    )

    assert encode_body(made.messages[-1]) == encode_body(following.messages[-1])
    assert (made.input_tokens, made.output_tokens) == (3, 2)


def test_all_answers_are_kept_first_is_the_reply():
    usage = {"input_tokens": 9, "output_tokens": 6, "total_tokens": 15}
    made = entry(("Hi",), *(AIMessage(each, usage_metadata=usage) for each in ("One.", "Two.", "Three.")))

    assert made.reply == "One."
    assert [each.text for each in made.messages] == ["Hi", "One.", "Two.", "Three."]
    assert made.extra["answers"] == 3
    assert (made.input_tokens, made.output_tokens) == (9, 6)  # a provider tells each answer the sum of all


def test_model_name_prefers_response_over_request():
    for metadata, told in (
        ({"model_name": "answered"}, {"invocation_params": {"model": "asked"}}),
        ({"model": "answered"}, {"metadata": {"ls_model_name": "asked"}}),
        ({}, {"llm_output": {"model_name": "answered"}, "invocation_params": {"model": "asked"}}),
        ({}, {"invocation_params": {"model": "answered"}, "metadata": {"ls_model_name": "asked"}}),
        ({}, {"invocation_params": {"model": ""}, "metadata": {"ls_model_name": "answered"}}),
        ({"model_name": ""}, {"invocation_params": {"model": None, "model_id": "answered"}}),
    ):
        assert entry(("Hi",), AIMessage("Hello.", response_metadata=metadata), **told).model == "answered"
    assert entry(invocation_params={"_type": "fake"}).model is None
    assert entry([SystemMessage("Summarize nothing.")]).prompt == "Summarize nothing."
    assert entry([]).prompt == ""


def test_token_usage_is_read_from_every_provider_form():
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    for message, told, tokens in (
        ({"usage_metadata": usage}, {}, (3, 2)),
        ({}, {"llm_output": {"token_usage": {"prompt_tokens": 3, "completion_tokens": 2}}}, (3, 2)),
        ({"response_metadata": {"usage": {"inputTokens": 3, "outputTokens": 0}}}, {}, (3, 0)),
        ({"response_metadata": {"prompt_eval_count": 3, "eval_count": 2}}, {}, (3, 2)),
        ({}, {"info": {"usage_metadata": {"prompt_token_count": 3, "candidates_token_count": 2}}}, (3, 2)),
        ({"response_metadata": {"token_usage": {"prompt_tokens": 3}}}, {}, (3, None)),
        ({"response_metadata": {"token_usage": {"prompt_tokens": -1, "completion_tokens": True}}}, {}, (None, None)),
        ({"response_metadata": {"token_usage": "many"}}, {"llm_output": {"usage": None}}, (None, None)),
        ({}, {}, (None, None)),
    ):
        made = entry(("Hi",), AIMessage("Hello.", **message), **told)
        assert (made.input_tokens, made.output_tokens) == tokens, (message, told)


class Mute(Exception):
    def __str__(self):
        raise LookupError


def test_errors_are_recorded_by_type_and_message():
    for error, said in (
        (KeyError("k"), "KeyError: 'k'"),
        (TimeoutError(), "TimeoutError"),
        (Mute(), "Mute"),
        (ValueError("x" * 50_000), "ValueError: " + "x" * (model_call_capture.MAX_ERROR_CHARS - 13) + "…"),
    ):
        assert finish_entry(call(), None, duration=None, error=error).error == said
    # Of a refusal the status is kept, and no header.
    metadata = {"body": {"error": "no"}, "headers": {"set-cookie": "s3cr3t"}, "status_code": 500, "request_id": "q"}
    response = LLMResult(generations=[[ChatGeneration(message=AIMessage("", response_metadata=metadata))]])
    made = finish_entry(call(), response, duration=1.0, error=RuntimeError("Error code: 500"))
    assert (made.extra["status_code"], made.extra["request_id"], made.extra["answers"]) == (500, "q", 0)
    assert "partial" not in made.extra
    assert b"s3cr3t" not in b"".join([*stored(made)[0], stored(made)[1]])


def test_conversation_id_defaults_to_thread_id():
    made = entry(metadata={"thread_id": "t1", "conversation_id": "c1"})

    assert (made.thread_id, made.conversation_id) == ("t1", "c1")
    assert entry(configurable={"thread_id": "t2"}).conversation_id == "t2"
    assert entry(configurable={"thread_id": "t2"}, metadata={"thread_id": "t1"}).thread_id == "t1"
    assert entry().conversation_id is None


def test_invalid_ids_are_kept_in_extra():
    for given, used in (
        (7, "7"), (UUID(int=1), "00000000-0000-0000-0000-000000000001"), ("a\x00b", None), ("\n", None),
        ("x" * 900, None), ("", None),
    ):  # fmt: skip
        made = entry(metadata={"thread_id": given})
        assert made.thread_id == made.conversation_id == used
        if isinstance(given, str) and used != given and given:
            assert made.extra["thread_id"] == given
        stored(made)


def test_namespace_comes_from_config_invalid_one_is_recorded():
    for told in ("metadata", "configurable"):
        assert entry(**{told: {"agentmem_namespace": ("acme", "ann")}}).namespace == ("acme", "ann")
        assert entry(**{told: {"agentmem_namespace": ["acme"]}}).namespace == ("acme",)
    for wrong in ("acme", ("a\x00",), ("",), 7, {"a": 1}):
        made = entry(metadata={"agentmem_namespace": wrong})
        assert made.namespace == ()
        assert made.extra["namespace"] == (list(wrong) if isinstance(wrong, tuple) else wrong)
        stored(made)


def test_extra_has_the_call_settings():
    made = entry(
        name="summary",
        tags=["mine", "nostream", "seq:step:2", "graph:step:1", 5],
        invocation_params={"tools": [{"type": "function", "function": {"name": "weather"}}, {"name": "search"}, "x"]},
        metadata={"ls_provider": "openai", "ls_temperature": 0.0, "ls_stop": ["."], "lc_agent_name": "clerk"},
    )

    assert made.extra == {
        "name": "summary",
        "agent": "clerk",
        "provider": "openai",
        "tags": ["mine", "nostream"],
        "tools": ["weather", "search"],
        "settings": {"temperature": 0.0, "stop": ["."]},
        "answers": 1,
    }


class Parsed(BaseModel):
    city: str


@dataclass
class Table:
    rows: list[object]


class Nameless:
    pass


class Hostile:
    def __repr__(self):
        raise RuntimeError


class Empty:
    """Has whatever it is asked for, and nothing of use."""

    def __init__(self, *generations):
        if generations:
            (self.generations,) = generations

    def __getattr__(self, name):
        return Nameless()


def cyclic():
    table = {"name": "cycle"}
    table["self"] = table
    return table


def deep():
    nested = []
    for _ in range(300):
        nested = [nested]
    return nested


def test_unserializable_values_are_kept_in_a_storable_form():
    for value, told in (
        (Parsed(city="Rome"), {"city": "Rome"}),
        (Table(rows=[1, {"a": Nameless()}]), {"rows": [1, {"a": f"<{__name__}.Nameless object>"}]}),
        (Hostile(), f"<{__name__}.Hostile object>"),
        ({"keep": (1, b"x"), Nameless: 2}, {"keep": [1, "x"], f"<class {__name__}.Nameless>": 2}),
        (cyclic(), safe_repr(cyclic())),
        (range(10_000), "range(0, 10000)"),
        ({1, 2}, [1, 2]),
        (1e400, "inf"),
    ):
        assert to_storable(value) == told
        to_plain(to_storable(value))
        made = entry(["Hi", ToolMessage("done", tool_call_id="c1", artifact=value)], metadata={"mine": value})
        stored(made)
        assert [each.text for each in made.messages] == ["Hi", "done", "Hello."]
    made = entry(("Hi",), AIMessage('{"city":"Rome"}', additional_kwargs={"parsed": Parsed(city="Rome")}))
    stored(made)
    assert made.messages[-1].langchain["additional_kwargs"] == {"parsed": {"city": "Rome"}}
    many = []
    many += [many, {"again": many}, [many] * 50] * 50
    assert len(json.dumps(entry(metadata={"many": many}).extra)) < 100_000


def test_malformed_messages_are_recorded_as_far_as_possible():
    contents = (None, 7, Nameless(), [Nameless(), "text"], cyclic(), [deep()], {"a": deep()})
    for kind, content in itertools.product((HumanMessage, AIMessage, SystemMessage, AIMessageChunk), contents):
        broken = kind("x", id="m1")
        broken.__dict__["content"] = content
        message = to_message(broken)
        encode_body(message)
        assert message.role in {"user", "assistant", "system"}
    for given in (None, 7, b"bytes", object(), {"role": "user"}, "\ud800 half", "\x00" * 10, "x" * 10**6):
        begin = start_entry([given], entry_id="e1", run_id="r1", created_at=NOW)
        made = finish_entry(begin, result(AIMessage("Hello.")), duration=0.0)
        stored(made)
        assert made.messages[0].role == "user"
        assert made.prompt == given or not isinstance(given, str)


def test_malformed_callback_data_still_gives_an_entry():
    nothing = (LLMResult(generations=[]), LLMResult(generations=[[]]))
    for response in (None, "text", 7, Empty(), Empty([[Empty()]]), *nothing):
        made = finish_entry(call(), response, duration=0.0)
        stored(made)
        assert made.prompt == "Hi"
    values = (None, 7, "x", [7], {7: 7}, Nameless())
    for told, value in itertools.product(("tags", "metadata", "invocation_params", "configurable", "name"), values):
        made = entry(**{told: value})
        stored(made)
        assert made.reply == "Hello."


def test_secrets_are_redacted_everywhere():
    key = "sk-proj-Abc123def456Ghi789jkl012Mno345"
    given = [HumanMessage(f"My key is {key}"), ToolMessage("ok", tool_call_id="c1", artifact={"api_key": key})]
    answer = AIMessage(
        [{"type": "text", "text": f"I used {key}."}],
        tool_calls=[{"name": "login", "args": {"token": key}, "id": "c2"}],
        additional_kwargs={"note": key},
    )
    failure = finish_entry(call(given), result(answer), duration=1.0, error=PermissionError(f"bad key {key}"))

    clean = redact_entry(failure, redact_value)

    assert key in repr(failure)
    assert key not in repr(clean)
    assert clean.prompt == "My key is ***"
    assert clean.messages[0].text == clean.prompt
    assert json.loads(clean.messages[-1].tool_calls[0].arguments) == {"token": "***"}
    assert clean.error == "PermissionError: bad key ***"
