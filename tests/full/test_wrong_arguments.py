"""Whatever the methods that store are given, they store what can be read, or refuse it with an error of ours.

For each method stands one call as it is meant. Each of its arguments is replaced by each of the wrong values, and
afterwards the memory verifies, and comes back from its own export as it was.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp

from langchain_agentmem import (
    AgentMemory,
    AgentMemoryError,
    AgentMemoryStore,
    Attachment,
    Conversation,
    Message,
    Post,
    Round,
)

LAST = datetime.max.replace(tzinfo=timezone(-timedelta(hours=14)))
FIRST = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))


class Text(str):
    __slots__ = ()


class Odd:
    """Equal to everything, and of no use."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


WRONG: list[Callable[[], Any]] = [
    lambda: None, lambda: True, lambda: False, lambda: 0, lambda: -1, lambda: 2**31, lambda: 2**63,
    lambda: -(2**63) - 1, lambda: 10**400, lambda: 1.5, lambda: float("nan"), lambda: float("inf"),
    lambda: float("-inf"), lambda: Decimal("NaN"), lambda: "", lambda: " \n \t ", lambda: "\u200b", lambda: "a\0b",
    lambda: "a\ud800b", lambda: "\"'`.;:", lambda: "x" * 3_000, lambda: "word " * 40_000, lambda: Text("text"),
    lambda: b"\xff\x00", list, lambda: [None], lambda: ["a", "a", "\ud800", ""], lambda: [1, float("nan"), 2**70],
    lambda: ("a", "b"), lambda: {"a"}, lambda: {"a": 1}, lambda: {1: 2, None: 3},
    lambda: {"\ud800": "\ud800", "\0": "\0"}, lambda: {"a": [float("nan"), 2**70, b"x"]}, object,
    Odd, lambda: int, lambda: print, lambda: (each for each in "ab"), lambda: date(2024, 1, 1),
    lambda: datetime(2024, 1, 1), lambda: FIRST, lambda: LAST, lambda: datetime(1, 1, 1, tzinfo=UTC),
    lambda: datetime.max.replace(tzinfo=UTC), lambda: timedelta.max, lambda: HumanMessage("hi", id="m"),
    lambda: RemoveMessage(id="m"), lambda: AIMessage("", tool_calls=[{"name": "a", "args": {}, "id": None}]),
    lambda: Message(role="user", content={"\ud800": [b"x", 2**70]}),
]  # fmt: skip
"""What nobody should give."""


@dataclass(frozen=True)
class Part:
    """A part of the memory.

    Attributes:
        of: Gives it.
        calls: For each of its methods that stores, the arguments of a call as it is meant.
        others: Its other public methods: what reads, opens or closes.
        first: Puts something there, of which it gives names for the arguments.
    """

    of: Callable[[AgentMemory], Any]
    calls: Mapping[str, Mapping[str, Any]]
    others: frozenset[str] = frozenset()
    first: Callable[[Any], Mapping[str, Any]] = field(default=lambda _: {})


def a_fact(facts: Any) -> dict[str, Any]:
    facts.add(role="user", content="Hello.")
    first = facts.add_fact("user", "Ana", "lives in", "Lisbon")
    facts.add_fact("user", "Ana", "lives in", "Porto")
    facts.merge("Anna", "Ana")
    facts.save_to_file("facts.json")
    return {"fact": first}


def a_message(chat: Any) -> dict[str, Any]:
    first = chat.add(role="user", content="Hello.")
    chat.save_to_file("chat.json")
    return {"message": first}


def a_round(session: Any) -> dict[str, Any]:
    first = session.create_round("What?").id
    session.save_to_file("session.json")
    return {"round": first}


def a_record(archival: Any) -> dict[str, Any]:
    return {"record": archival.write("A record.", ["tag"])}


def an_entry(trail: Any) -> dict[str, Any]:
    trail.add("Hi", "Hello", "c")
    trail.export_document("audit.json")
    Path("practices.md").write_text("Water them weekly.", encoding="utf-8")
    return {"todo": trail.add_todo_from_chat("Please add a page for the quinces.")[0].id}


TIME = datetime(2020, 1, 1, tzinfo=UTC)
MESSAGE = {
    "message": None,
    "role": "user",
    "content": "Hi",
    "name": "Ana",
    "tool_calls": None,
    "agent_calls": None,
    "images": None,
    "tool_call_id": None,
}
FIELDS = {
    "role": "user",
    "content": "Hi",
    "structured_data": {"a": 1},
    "reasoning_details": [],
    "created_at": "2024-01-01",
    "langchain": None,
    "images": [],
}


class Operations:
    """A store, asked as LangGraph's own methods ask it, which look at some of their arguments first."""

    def __init__(self, store: AgentMemoryStore) -> None:
        self.batch = store.batch

    def put(self, **fields: Any) -> None:
        self.batch([PutOp(**fields)])

    def get(self, **fields: Any) -> None:
        self.batch([GetOp(**fields)])

    def search(self, **fields: Any) -> None:
        self.batch([SearchOp(**fields)])

    def list_namespaces(self, **fields: Any) -> None:
        self.batch([ListNamespacesOp(**fields)])


class Openings:
    """The parts of a memory by what they are opened with, each with something written into it."""

    def __init__(self, memory: AgentMemory) -> None:
        self._memory = memory

    def conversation(self, **given: Any) -> None:
        self._memory.conversation(**given).add(role="user", content="Hi")

    def managed_conversation(self, **given: Any) -> None:
        self._memory.managed_conversation(**given).add(role="user", content="Hi")

    def session(self, **given: Any) -> None:
        self._memory.session(**given).create_round("What?")

    def facts(self, **given: Any) -> None:
        facts = self._memory.facts(**given)
        facts.add(role="user", content="Hi")
        facts.add_fact("user", "Ana", "lives in", "Porto")

    def layers(self, **given: Any) -> None:
        self._memory.layers(**given).write(core={"a": "b"}, recall="It rains.", archival="A record.")

    def byte_store(self, **given: Any) -> None:
        self._memory.byte_store(**given).mset([("k", b"v")])


PARTS = {
    "openings": Part(
        of=Openings,
        calls={
            "conversation": {"conversation_id": "c", "namespace": ["a"], "description": "Be kind.", "retention": None},
            "managed_conversation": {"conversation_id": "c", "namespace": ["a"], "description": "Be kind."}
            | {"retention": None, "config": None, "model": None},
            "session": {"session_id": "s", "namespace": ["a"]},
            "facts": {"branch_or_config": "b", "namespace": ["a"], "description": "Facts.", "settings": None},
            "layers": {"branch_or_config": "b", "namespace": ["a"], "settings": None, "model": None},
            "byte_store": {"namespace": ["a"]},
        },
    ),
    "facts": Part(
        of=lambda memory: memory.facts("b"),
        first=a_fact,
        calls={
            "add": MESSAGE,
            "add_fact": {
                "role": "user",
                "subject": "Ana",
                "predicate": "lives in",
                "obj": "Faro",
                "valid_from": None,
                "valid_to": None,
                "source": "m-1",
                "confidence": 0.5,
            },
            "update": {"message_id": "<fact>", "obj": "Braga", "valid_from": TIME, "valid_to": None, "confidence": 1}
            | {"role": "user", "subject": "Ana", "predicate": "lives in"},
            "replace_memory": {"idx": 1, "obj": "Braga", "confidence": 1, "role": "user"},
            "declare": {"*": "likes", "single_valued": True},
            "merge": {"name": "Ben", "into": "Benjamin"},
            "unmerge": {"name": "Anna"},
            "undo": {"fact_id": "<fact>"},
            "remove_by_id": {"message_id": "<fact>"},
            "delete_memory": {"idx": 0},
            "as_of": {"valid": None, "recorded": None, "subject": "Ana", "predicate": None, "obj": None, "limit": 3},
            "history": {"subject": "Ana", "predicate": None, "recorded": None},
            "latest": {"limit": 3, "before": "<fact>", "entity": "Ana", "predicate": None, "recorded": None},
            "contradictions": {"subject": None, "predicate": None},
            "evidence": {"fact_id": "<fact>"},
            "from_message": {"message_id": "m-1"},
            "get": {"fact_id": "<fact>"},
            "search": {"query": "Ana", "limit": 3, "valid": None},
            "format_for_prompt": {"query": "Ana", "budget": 100, "valid": None},
            "aliases": {"proposed": False},
            "entities": {"prefix": "A", "limit": 3},
            "failures": {"limit": 3},
            "neighbours": {"entity": "Ana", "depth": 1, "predicates": None, "valid": None, "recorded": None},
            "to_networkx": {"entity": "Ana", "depth": 1, "valid": None, "recorded": None},
            "retrieve_all": {"include_ids": False},
            "retrieve_by_id": {"message_id": "<fact>", "include_ids": False},
            "retrieve_by_role": {"role": "user", "n": 2, "include_ids": False},
            "retrieve_recent": {"n": 2, "include_ids": False},
            "save_to_file": {"path": "facts.json", "additional_state": {"a": 1}},
            "load_from_file": {"path": "facts.json"},
            "fork": {"name": "b2"},
            "at": {"name": "b2"},
            "set_event_context": {"agent_name": "a", "event_bus": None, "session_id": None},
            "compact_if_needed": {"runtime": None},
            "compact_for_payload_error": {"runtime": None},
        },
        others=frozenset({"drain", "extract_and_update_from_text", "get_messages", "reset_memory", "waiting"}),
    ),
    "core": Part(
        of=lambda memory: memory.layers("b").core,
        calls={
            "set": {"key": "goal", "value": "Ship it.", "importance": 3, "ttl": 60},
            "delete": {"key": "goal"},
            "restore": {"key": "goal"},
            "get": {"keys": ["goal"]},
        },
        others=frozenset({"entries"}),
    ),
    "recall": Part(
        of=lambda memory: memory.layers("b").recall,
        calls={
            "append": {"kind": "note", "content": "It rains.", "at": None, "event_type": None},
            "evict": {"ids": ["a"], "kind": None, "oldest": None},
            "recent": {"limit": 3, "kind": None},
            "get": {"event_id": "e"},
            "search": {"query": "rain", "limit": 3},
            "summarize": {"kind": None, "keep": 3},
        },
    ),
    "archival": Part(
        of=lambda memory: memory.layers("b").archival,
        first=a_record,
        calls={
            "write": {"content": "A record.", "tags": ["tag"]},
            "update": {"record_id": "<record>", "content": "Another.", "tags": ["tag"]},
            "delete": {"record_id": "<record>"},
            "get": {"record_id": "<record>"},
            "all": {"tags": None, "limit": 3},
            "search": {"query": "record", "limit": 3, "tags": None},
        },
    ),
    "resources": Part(
        of=lambda memory: memory.layers("b").resources,
        calls={
            "track_usage": {"resource_id": "r", "usage_type": "read", "context": "c"},
            "load": {"resource_file": "r.yaml", "config": None, "resolve_paths": True},
        },
        others=frozenset({"items", "used"}),
    ),
    "layers": Part(
        of=lambda memory: memory.layers("b"),
        calls={
            "write": {"core": {"goal": "Ship it."}, "recall": ["It rains."], "archival": ["A record."]},
            "read": {"scope": "all"},
            "fork": {"name": "f"},
            "at": {"name": "f"},
            "diff": {"other": "child"},
            "compress": {"text": "long " * 100, "max_chars": 50, "hint": ""},
            "consolidate": {"level": None},
            "context": {"task_hint": "rain", "budget": 100},
            "format_for_prompt": {"task_hint": "rain", "budget": 100},
            "export_final": {"output_dir": "final"},
        },
        others=frozenset({"ancestors", "is_enabled", "pressure", "tree"}),
        first=lambda layers: layers.fork("child").core.set("a", "b") or {},
    ),
    "conversation": Part(
        of=lambda memory: memory.conversation("c"),
        first=a_message,
        calls={
            "add": MESSAGE,
            "add_message": {"message": HumanMessage("Hi")},
            "add_messages": {"messages": [HumanMessage("Hi")]},
            "add_user_message": {"message": "Hi"},
            "add_ai_message": {"message": "Hi"},
            "update": {"message_id": "<message>", **FIELDS},
            "replace_memory": {"idx": 0, "message": None, **FIELDS},
            "delete_memory": {"idx": 0},
            "remove_by_id": {"message_id": "<message>"},
            "around": {"message_id": "<message>", "before": 1, "after": 1},
            "history_of": {"message_id": "<message>"},
            "shown": {"message_id": "<message>"},
            "compactions": {"limit": 3},
            "retrieve_all": {"include_ids": False},
            "retrieve_by_id": {"message_id": "<message>", "include_ids": False},
            "retrieve_by_role": {"role": "user", "n": 2, "include_ids": False},
            "retrieve_recent": {"n": 2, "include_ids": False},
            "count_tokens": {"counter": "estimate", "tools": None, "system": None},
            "save_to_file": {"path": "chat.json", "additional_state": {"a": 1}},
            "load_from_file": {"path": "chat.json"},
            "set_event_context": {"agent_name": "a", "event_bus": None, "session_id": None},
            "compact_if_needed": {"runtime": None},
            "compact_for_payload_error": {"runtime": None},
        },
        others=frozenset({"clear", "get_messages", "reset_memory"}),
    ),
    "session": Part(
        of=lambda memory: memory.session("s"),
        first=a_round,
        calls={
            "create_round": {"user_query": "What?"},
            "add_post": {
                "round_id": "<round>",
                "post": None,
                "send_from": "User",
                "send_to": "Planner",
                "message": "Hi",
                "attachments": [Attachment.create("plan", "p")],
            },
            "finish_round": {"round_id": "<round>"},
            "fail_round": {"round_id": "<round>"},
            "import_": {"source": Conversation.create([Round.create("q", post_list=[Post.create("m", "a", "b")])])},
            "export": {"path": "s.yaml"},
            "get_role_rounds": {"role": "User", "include_failure_rounds": False},
            "get_role_rounds_with_compaction": {"role": "User", "include_failure_rounds": False},
            "get_shared_memory_entries": {"entry_type": "plan"},
            "messages_for": {"role": "User"},
            "watch_rounds": {"notify": print},
            "save_to_file": {"path": "session.json", "additional_state": {"a": 1}},
            "load_from_file": {"path": "session.json"},
            "set_event_context": {"agent_name": "a", "event_bus": None, "session_id": None},
            "compact_if_needed": {"runtime": None},
            "compact_for_payload_error": {"runtime": None},
        },
        others=frozenset({"reset_memory", "to_conversation"}),
    ),
    "store": Part(
        of=lambda memory: Operations(memory.store),
        calls={
            "put": {"namespace": ("a",), "key": "k", "value": {"text": "v"}, "index": None, "ttl": 60.0},
            "get": {"namespace": ("a",), "key": "k", "refresh_ttl": True},
            "search": {"namespace_prefix": ("a",), "filter": {"a": 1}, "limit": 3, "offset": 0, "query": "v"}
            | {"refresh_ttl": True},
            "list_namespaces": {"match_conditions": None, "max_depth": 1, "limit": 3, "offset": 0},
            "batch": {"ops": [PutOp(("a",), "k", {"a": 1})]},
        },
    ),
    "byte store": Part(
        of=lambda memory: memory.byte_store(("a",)),
        calls={
            "mset": {"key_value_pairs": [("k", b"v")]},
            "mget": {"keys": ["k"]},
            "mdelete": {"keys": ["k"]},
            "yield_keys": {"prefix": "k"},
        },
        others=frozenset({"ayield_keys"}),
    ),
    "audit": Part(
        of=lambda memory: memory.audit,
        first=an_entry,
        calls={
            "add": {"prompt": "Hi", "reply": "Hello", "conversation_id": "c"},
            "add_reference": {"source": "https://example.org", "title": "t"},
            "add_best_practices_reference": {"path": "practices.md"},
            "add_self_reflection": {"summary": "It went well."},
            "add_todo_from_chat": {"text": "Please remove the page for the pears."},
            "archive": {"before": None},
            "complete": {"todo_id": "<todo>"},
            "reopen": {"todo_id": "<todo>"},
            "entries": {"conversation_id": None, "kinds": None, "include_junk": True},
            "last": {
                "n": 3,
                "conversation_id": None,
                "kinds": None,
                "include_junk": False,
                "before": None,
                "messages": True,
            },
            "search": {"query": "hi", "limit": 3, "conversation_id": None},
            "get": {"entry_id": "<todo>"},
            "todos": {"status": "open"},
            "verify": {"since": None},
            "export_document": {"path": "audit.json"},
            "import_document": {"path": "audit.json"},
        },
        others=frozenset({"aentries", "filter_junk", "handler", "head", "report"}),
    ),
}
CALLS = [(part, method) for part, each in PARTS.items() for method in each.calls]


@pytest.mark.sqlite_suffices
@pytest.mark.parametrize("part", PARTS)
def test_every_public_method_is_tried(memory, part):
    kind = type(PARTS[part].of(memory))
    public = {
        name
        for name in dir(kind)
        if not name.startswith("_")
        and callable(function := inspect.getattr_static(kind, name))
        and not inspect.iscoroutinefunction(function)
    }
    assert public == (PARTS[part].calls.keys() | PARTS[part].others) - {"batch"}


@pytest.mark.slow
@pytest.mark.sqlite_suffices
@pytest.mark.parametrize(("part", "method"), CALLS)
def test_wrong_arguments_are_refused_or_stored_whole(memory, tmp_path, monkeypatch, part, method):
    monkeypatch.chdir(tmp_path)
    owner = PARTS[part].of(memory)
    known = {f"<{name}>": value for name, value in PARTS[part].first(owner).items()}
    meant = {
        name: known.get(value, value) if isinstance(value, str) else value
        for name, value in PARTS[part].calls[method].items()
    }
    if method != "load":  # a file of resources has its own tests
        called(owner, method, meant)
    raised: list[str] = []
    for name in meant:
        for make in WRONG:
            try:
                called(owner, method, {**meant, name: make()})
            except AgentMemoryError:
                continue
            except Exception as error:  # noqa: BLE001 - all of them are told at once
                raised.append(f"{name}={make()!r:.60}: {type(error).__name__}: {str(error)[:100]}")
    assert not raised, "\n".join(raised)
    assert memory.admin.verify().problems == ()
    comes_back(memory, tmp_path)


def called(owner: Any, method: str, arguments: Mapping[str, Any]) -> None:
    positional = [value for name, value in arguments.items() if name == "*"]
    given = getattr(owner, method)(*positional, **{name: value for name, value in arguments.items() if name != "*"})
    if inspect.isgenerator(given):
        list(given)


def comes_back(memory: AgentMemory, tmp_path: Path) -> None:
    """Rows have other numbers in another database, so the second export is the one to compare with."""
    memory.export(tmp_path / "0.export")
    for number in (1, 2):
        with AgentMemory(":memory:") as other:
            other.import_(tmp_path / f"{number - 1}.export")
            assert other.admin.verify().problems == ()
            other.export(tmp_path / f"{number}.export")
    one, two = (
        [json.loads(line) for line in (tmp_path / f"{number}.export").read_text(encoding="utf-8").splitlines()[1:]]
        for number in (1, 2)
    )
    assert one == two
