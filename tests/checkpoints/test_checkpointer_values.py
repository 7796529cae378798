"""Values of graph state: unusual, shared and mutated values are restored, without unrequested imports."""

from __future__ import annotations

import gc
import importlib
import sys
import weakref
from datetime import UTC, datetime
from unittest.mock import patch

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langchain_agentmem import AgentMemorySaver
from langchain_agentmem.errors import InvalidInput

from .graphs import Line, at, chat_graph

pytestmark = pytest.mark.sqlite_suffices


class TestUserClasses:
    def test_a_strict_saver_imports_only_allowed_classes(self, url, tmp_path, monkeypatch):
        imports, name = tmp_path / "imports", "spied_module"
        (tmp_path / f"{name}.py").write_text(f"""
import dataclasses
from langchain_core.messages import HumanMessage
with open({str(imports)!r}, 'a') as file:
    file.write('x')
@dataclasses.dataclass
class Thing:
    text: str = 'x'
class Said(HumanMessage):
    pass
""")
        monkeypatch.syspath_prepend(tmp_path)
        with AgentMemorySaver.from_conn_string(url) as saver, patch.dict(sys.modules):  # and then not imported any more
            theirs = importlib.import_module(name)
            channels = {"a": theirs.Thing(), "messages": [theirs.Said("hello"), theirs.Thing()]}
            saver.put_writes(Line(saver).put(channels, source="loop"), [("a", theirs.Said("hello"))], "task")
        with AgentMemorySaver.from_conn_string(url, strict=True) as saver, patch.dict(sys.modules):
            found = saver.get_tuple(at())
            assert found.checkpoint["channel_values"].keys() == {"a", "messages"}
            assert len(list(saver.list(at()))) == 1
            assert name not in sys.modules
            assert imports.read_text() == "x"
            allowed = saver.with_allowlist([(name, "Thing"), (name, "Said")]).get_tuple(at())
            values = allowed.checkpoint["channel_values"]
            things = [values["a"], *values["messages"], allowed.pending_writes[0][2]]
            assert [type(thing).__name__ for thing in things] == ["Thing", "Said", "Thing", "Said"]
            assert imports.read_text() == "xx"


CALL = {"name": "look", "args": {"deep": {"n": [1, None]}}, "id": "call", "type": "tool_call"}
ODD = [
    HumanMessage([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "https://a/b"}}]),
    HumanMessage("same"),
    HumanMessage("same"),
    HumanMessage("same", id="with an id"),
    SystemMessage(
        "", name="someone", additional_kwargs={"bytes": b"\x00\xff", "when": datetime(2026, 1, 2, tzinfo=UTC)}
    ),
    AIMessage(
        ["text", {"type": "reasoning", "summary": []}],
        tool_calls=[CALL],
        invalid_tool_calls=[{"name": "f", "args": "{", "id": "x", "error": None, "type": "invalid_tool_call"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        response_metadata={"pair": (1, 2), "set": {3}, "none": None},
    ),
    AIMessageChunk("part", tool_call_chunks=[{"name": "f", "args": "{", "id": "x", "index": 0}]),
    ToolMessage("nul \x00 é 🐈", tool_call_id="call", artifact={"bytes": b"x", "pair": (1, (2,))}, status="error"),
    ChatMessage("hm", role="critic"),
    FunctionMessage("4", name="two plus two"),
    RemoveMessage("gone"),
    HumanMessage("extra", additional_kwargs={"z": 1, "a": {"y": 1, "b": 2}}, unknown_field=[1, (2,)]),
]


def shown(value):
    """Return the classes and contents of a value, ignoring key order and counting tuples as lists."""
    if isinstance(value, BaseMessage):
        return [type(value).__name__, shown(vars(value)), shown(value.__pydantic_extra__)]
    if isinstance(value, dict):
        return {"a dict": sorted((repr(key), repr(shown(each))) for key, each in value.items())}
    return [*map(shown, value)] if isinstance(value, list | tuple) else f"{type(value).__name__} {value!r}"


class TestMessages:
    def test_unusual_messages_match_the_stock_serializer(self, saver):
        serde = JsonPlusSerializer(allowed_msgpack_modules=None)
        for values in (ODD, [ODD[:6], {"nested": (ODD[5], ODD[7])}], ODD[3], ODD * 30, tuple(ODD)):
            expected = shown(serde.loads_typed(serde.dumps_typed(values)))
            config = Line(saver).put({"messages": values})
            saver.put_writes(config, [("messages", values)], "task")
            found = saver.get_tuple(config)
            assert shown(found.checkpoint["channel_values"]["messages"]) == expected
            assert shown(found.pending_writes[0][2]) == expected

    def test_keys_keep_their_order(self, saver):
        """The order of a call's arguments is part of the prompt, so a provider's cache is lost when it changes."""
        call = CALL | {"args": {"path": "/a", "content": {"z": 1, "b": 2}, "append": True}}
        given = [
            AIMessage([{"type": "text", "text": "x"}], tool_calls=[call], additional_kwargs={"z": 1, "a": 2}),
            ToolMessage([{"type": "text", "text": "x"}], tool_call_id="call", artifact={"z": 1, "a": 2}),
        ]
        config = Line(saver).put({"messages": given})
        assert repr(saver.get(config)["channel_values"]["messages"]) == repr(given)


def swap(message, name, value):
    message.additional_kwargs[name] = value


CHANGES = {
    "text": lambda m: m.content.append("more"),
    "within a block": lambda m: m.content[0].update(text=m.content[0]["text"] + "!"),
    "argument": lambda m: m.tool_calls[0]["args"]["n"].append(3),
    "number to bool": lambda m: swap(m, "number", True),
    "number to float": lambda m: swap(m, "number", 1.0),
    "none to nothing": lambda m: m.additional_kwargs.pop("none", None),
    "text to bytes": lambda m: swap(m, "text", b"x" if m.additional_kwargs.get("text") == "x" else "x"),
    "an own class": lambda m: swap(m, "when", datetime(2026, 1, 1 + len(m.additional_kwargs), tzinfo=UTC)),
    "name": lambda m: setattr(m, "name", f"{m.name}."),
    "extra": lambda m: setattr(m, "extra", [*getattr(m, "extra", []), 1]),
}
"""In-place changes of a message, each of which makes a different message."""


class TestKeys:
    def test_keys_with_surrogates_are_rejected(self, saver):
        """Replaced by question marks, two such keys would become one."""
        for count in (2, 50):
            with pytest.raises(InvalidInput, match="surrogates"):
                Line(saver).put({"a": {chr(0xD800 + n): f"{n} " * 200 for n in range(count)}})
            assert saver.get_tuple(at()) is None
        line = Line(saver)
        line.put({"a": {chr(0x10000 + n): f"{n} " * 200 for n in range(count)}})
        assert saver.get(at())["channel_values"] == line.values


class TestMutation:
    def test_in_place_changes_of_messages_are_stored(self, saver):
        for name, change in CHANGES.items():
            line = Line(saver)
            given = AIMessage(
                [{"type": "text", "text": "old"}],
                id="m",
                tool_calls=[CALL | {"args": {"n": [1, 2]}}],
                additional_kwargs={"list": [1, 2], "number": 1, "none": None},
            )
            configs, seen = [line.put({"messages": [HumanMessage("other", id="o"), given]})], []
            for read_first in (False, True):
                if read_first:
                    line.values = saver.get(at())["channel_values"]
                seen.append(shown(line.values["messages"]))
                change(line.values["messages"][1])
                configs.append(line.put({"messages": line.values["messages"]}))
            seen.append(shown(line.values["messages"]))
            assert seen[0] != seen[1], name
            assert [shown(saver.get(config)["channel_values"]["messages"]) for config in configs] == seen, name

    def test_a_growing_list_is_stored_at_each_put(self, saver):
        line, values = Line(saver), []
        configs = []
        for n in range(5):
            values.append({"n": n, "deep": [n]})
            values[0]["deep"].append(n)
            configs.append(line.put({"values": values}))
        values.clear()
        lengths = [len(saver.get(config)["channel_values"]["values"]) for config in configs]
        assert lengths == [1, 2, 3, 4, 5]
        firsts = [saver.get(config)["channel_values"]["values"][0]["deep"] for config in configs]
        assert firsts == [[0, 0], [0, 0, 1], [0, 0, 1, 2], [0, 0, 1, 2, 3], [0, 0, 1, 2, 3, 4]]

    def test_changing_returned_values_does_not_affect_storage(self, saver):
        graph = chat_graph(saver)
        graph.invoke({"messages": [HumanMessage("one", id="m", additional_kwargs={"deep": {"n": 1}})]}, at())

        def spoil(values):
            values["messages"][0].content = "spoiled"
            values["messages"][0].additional_kwargs["deep"]["n"] = 2
            values["messages"].append("spoiled")

        for _ in range(3):
            state = graph.get_state(at())
            assert [message.text for message in state.values["messages"]] == ["one", "ONE"]
            assert state.values["messages"][0].additional_kwargs == {"deep": {"n": 1}}
            spoil(state.values)
            state.metadata["source"] = "spoiled"
            spoil(saver.get(at())["channel_values"])
            found = next(saver.list(at()))
            assert found.metadata["source"] == "loop"
            spoil(found.checkpoint["channel_values"])
            found.checkpoint["channel_versions"].clear()
            found.metadata.clear()
        graph.invoke({"messages": [("user", "two")]}, at())
        assert [message.text for message in graph.get_state(at()).values["messages"]] == ["one", "ONE", "two", "TWO"]

    def test_changing_put_values_does_not_affect_storage(self, saver):
        message, deep = HumanMessage("one", id="m"), {"n": [1]}
        line = Line(saver)
        config = line.put({"messages": [message], "deep": deep})
        saver.put_writes(config, [("messages", [message]), ("deep", deep)], "task")
        message.content = "spoiled"
        deep["n"].append(2)
        line.values["messages"].append("spoiled")
        found = saver.get_tuple(config)
        assert found.checkpoint["channel_values"] == {"messages": [HumanMessage("one", id="m")], "deep": {"n": [1]}}
        assert [value for _, _, value in found.pending_writes] == [[HumanMessage("one", id="m")], {"n": [1]}]


def test_stored_messages_are_freed_without_a_collection_of_cycles(url):
    message = HumanMessage("hello", id="1")
    freed = weakref.ref(message)
    with AgentMemorySaver.from_conn_string(url) as saver:
        gc.disable()
        try:
            Line(saver).put({"messages": [message]})
            del message
            assert freed() is None
        finally:
            gc.enable()
