"""A program that awaits every public method with a large value, and prints what the event loop did that it should not.

    python -m tests.awaited <path or URL> <folder>

It prints one line for each module that was imported there for the first time, and for each function that was given a
large text there and takes as long as that is. What a part needs is imported before the loop runs: as it is made.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.experiences.experience import Experience
from langchain_agentmem.messages.role_rounds import Conversation

FIRST = "1f000000-0000-6000-8000-000000000000"
SIZE = 200_000
LARGE = SIZE // 2
SLOW = (
    *(f"base/{name}" for name in ("encoding", "fencing", "redaction")),
    *("language_models/token", "messages/", "search/", "audit/audit_entry", "audit/junk_rules"),
)
"""Where the package works through texts."""
LATER = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
QUICK = {"<genexpr>", "<lambda>", "<listcomp>"}
SLOW_IN_C = re.compile("(subn?|find(all|iter)|search|(en|de)code|dumps|packb|split|casefold|lower)$")
"""Functions of C that do."""


class Watch:
    """Notes what happens on the loop's thread while the loop runs."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.found: dict[str, None] = {}
        self.doing = ""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """As a finder of modules that finds none."""
        ours = not name.startswith("langchain_core.tracers")  # which LangChain loads with its first run
        if ours and threading.get_ident() == self.thread and self._on_the_loop():
            whose = name if name.startswith("langchain_agentmem") else name.split(".", maxsplit=1)[0]
            self.found[f"{self.doing}: import {whose}"] = None

    def profile(self, frame: FrameType, event: str, given: Any) -> None:
        """As a profiler."""
        if event == "call":
            code = frame.f_code
            ours = any(f"langchain_agentmem/{each}" in code.co_filename for each in SLOW)
            if ours and code.co_name not in QUICK and not code.co_flags & LATER:
                self._note(frame, f"{Path(code.co_filename).stem}.{code.co_name}")
        elif event == "c_call" and "langchain_agentmem" in frame.f_code.co_filename and SLOW_IN_C.match(given.__name__):
            itself = getattr(given, "__self__", None)
            if isinstance(itself, str | bytes):
                if len(itself) > LARGE:
                    self.found[f"{self.doing}: {given.__name__} in {frame.f_code.co_qualname}"] = None
            else:
                self._note(frame, f"{given.__name__} in {frame.f_code.co_qualname}")

    def _note(self, frame: FrameType, what: str) -> None:
        if any(isinstance(each, str | bytes) and len(each) > LARGE for each in frame.f_locals.values()):
            self.found[f"{self.doing}: {what}"] = None

    @staticmethod
    def _on_the_loop() -> bool:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True


Named = dict[str, Any]
"""Arguments by their names."""
EARLY = ("aadd", "aput", "aset", "awrite", "amset", "aappend", "acreate", "asave")
LATE = ("adelete", "aremove", "amdelete", "aundo", "aevict", "arekey", "aerase", "aprune")
LAST = ("aclear", "areset", "aclose")
"""How the names of methods begin that make what others need, and of those that take it away."""


def parts_of(memory: AgentMemory, text: str, folder: Path) -> list[tuple[Any, Named]]:
    """Every part with methods that are awaited, and what these are given, with large values, by names."""
    session, layers, audit, saver = memory.session("s"), memory.layers("main"), memory.audit, memory.checkpointer
    facts, library = memory.facts("main", model=lambda messages: "[]"), memory.experiences(folder / "experiences")
    said, begun = HumanMessage(text, id="said"), session.create_round(text)
    [todo] = audit.add_todo_from_chat("We need to count the herons tomorrow.")
    memory.conversation("spare").add_user_message(text)
    layers.fork("other")
    fact = facts.add_fact("user", "Ana", "lives in", "Lisbon")
    checkpoint: Named = {"v": 1, "id": FIRST, "ts": "2026-01-01T00:00:00+00:00", "channel_values": {},
                         "channel_versions": {}, "versions_seen": {}}  # fmt: skip
    config = saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, checkpoint, {"step": -1}, {})
    of_chats = {"message": said, "messages": [said], "message_id": "said", "idx": 0, "role": "user"}
    of_threads = {"source_thread_id": "t", "target_thread_id": "u", "thread_ids": ["u"], "run_ids": ["r"]}
    put = {"checkpoint": {**checkpoint, "id": f"{FIRST[:-1]}1"}, "metadata": {}, "new_versions": {}, "thread_id": "u"}
    put |= {"writes": [("m", "small")], "task_id": "task", "channels": ["m"], "from_saver": saver}
    some = Experience(exp_id="e", who="anyone", when="it rains", what=text[:5000])
    example = {"exp_id": "x", "when": "it snows", "what": "Stay."}
    return [
        (memory.conversation("c"), {**of_chats, "path": folder / "c.json"}),
        (memory.managed_conversation("m"), {**of_chats, "path": folder / "m.json"}),
        (session, {"round_id": begun.id, "role": "Planner", "entry_type": "plan", "path": folder / "s.json",
                   "source": Conversation.create((), id="s")}),
        (layers.core, {"key": "key"}),
        (layers.archival, {"record_id": layers.archival.write("a record")}),
        (layers.recall, {"event_id": layers.recall.append("note", "an event")}),
        (layers.resources, {"resource_file": folder / "resources.yaml", "resource_id": "notes", "usage_type": "read"}),
        (layers, {"name": "another", "other": "other", "max_chars": 1000, "output_dir": folder / "final"}),
        (facts, {**of_chats, "subject": "Ana", "predicate": "says", "obj": text[:1000], "name": "Ana", "into": "Anna",
                 "entity": "Ana", "fact_id": fact, "message_id": fact, "path": folder / "f.json"}),
        (audit, {"source": text, "todo_id": todo.id, "entry_id": todo.id, "path": folder / "a.json"}),
        (memory.byte_store(("b",)), {"key_value_pairs": [("key", text.encode())], "keys": ["key"]}),
        (memory.store, {"namespace": ("a",), "namespace_prefix": ("a",), "key": "k", "value": {"text": text},
                        "ops": []}),
        (saver, {"config": config, **of_threads, **put}),
        (library, {"experience": some}),
        (memory.inject("main"), {"input": [said]}),
        (memory.compaction(), {"input": [said] * 50}),
        (library.selector(role="anyone"), {"input": [said], "input_variables": {"query": text}, "example": example}),
        (memory.retriever(namespace=()), {"input": text}),
        (memory.admin, {"path": folder / "backup", "target": folder / "copied.db", "thread_id": "spare",
                        "namespace": ("ada",)}),
        (memory, {"path": folder / "export", "kind": "opus", "source": folder / "a.json"}),
    ]  # fmt: skip


def optional(text: str, folder: Path) -> dict[str, Named]:
    """What methods are given that they need not be given, or in place of what their part's methods are given."""
    added = {"role": "user", "content": text}
    several = {"core": {"k": text}, "recall": [{"kind": "note", "content": text}], "archival": [text]}
    restored = folder / "restored.db"
    return {
        "aadd": added, "areplace_memory": added, "asave_to_file": {"additional_state": {"more": text}},
        "ConversationMemory.aupdate": {"content": text}, "ManagedConversationMemory.aupdate": {"content": text},
        "KGMemory.aupdate": {"obj": "Porto"}, "ArchivalMemory.aupdate": {"content": text},
        "KGMemory.areplace_memory": {"role": "user"}, "AuditTrail.aadd": {}, "ExperienceLibrary.aadd": {},
        "aadd_user_message": {"message": text}, "aadd_ai_message": {"message": text},
        "acompact_for_payload_error": {"runtime": {"provider": "openai"}},
        "SessionMemory.aexport": {"path": folder / "s.yaml"},
        "aadd_post": {"send_from": "User", "send_to": "Planner", "message": text}, "LayeredMemory.awrite": several,
        "acontext": {"task_hint": text}, "LayeredMemory.aformat_for_prompt": {"task_hint": text},
        "aappend": {"kind": "note", "content": text}, "asummarize": {"kind": "note"}, "aevict": {"oldest": 1},
        "atrack_usage": {"context": text}, "KGMemory.aformat_for_prompt": {"query": text},
        "adeclare": {"*": ["lives in"]}, "aadd_todo_from_chat": {"text": f"We need to count. {text}"},
        "aadd_reference": {"title": "title"}, "aadd_best_practices_reference": {"path": folder / "rules.md"},
        "AgentMemoryStore.asearch": {"query": text}, "CoreMemory.arestore": {}, "aerase": {"thread_id": "t"},
        "Admin.arestore": {"source": folder / "backup", "target": restored}, "Admin.aprune": {"keep_checkpoints": 1},
        "arekey": {"path": restored, "new_key": bytes(range(32))},
    }  # fmt: skip


def calls_of(memory: AgentMemory, text: str, folder: Path) -> Iterator[tuple[str, Callable[[], Awaitable[Any]]]]:
    """Every public method that is awaited, with large values: what a method needs is given, and little else."""
    large = dict.fromkeys(("text", "query", "content", "value", "prompt", "reply", "summary", "user_query"), text)
    more, told = optional(text, folder), {"key": "k", "value": text, "query": text, "content": text, "id": "said"}
    for part, named in parts_of(memory, text, folder):
        kind = type(part).__name__
        for name in sorted(awaited_of(part), key=_turn):
            method, also = getattr(part, name), dict(more.get(f"{kind}.{name}", more.get(name, {})))
            listed, others = list(also.pop("*", ())), {}
            for each in inspect.signature(method).parameters.values():
                if each.default is not each.empty or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                    continue
                if each.kind is each.KEYWORD_ONLY:
                    others[each.name] = (large | named)[each.name]
                else:
                    listed.append((large | named | also)[each.name])
                    also.pop(each.name, None)
            yield f"{kind}.{name}", partial(method, *listed, **others, **also)
        if part is memory.admin:
            for tool in memory.tools("main"):
                yield tool.name, partial(tool.ainvoke, {each: told[each] for each in tool.args if each in told})


def _turn(name: str) -> tuple[bool, bool, bool, str]:
    return name.startswith(LAST), name.startswith(LATE), not name.startswith(EARLY), name


def awaited_of(part: Any) -> set[str]:
    """The public methods of a part that are awaited, as they are defined in this package."""
    ours = [kind for kind in type(part).__mro__ if kind.__module__.startswith("langchain_agentmem")]
    found = {
        name
        for kind in ours
        for name, each in vars(kind).items()
        if not name.startswith("_") and inspect.iscoroutinefunction(getattr(each, "__func__", each))
    }
    return found if isinstance(part, AgentMemory) else found - {"aclose"}  # each would close the database of all


async def every(calls: Iterable[tuple[str, Callable[[], Awaitable[Any]]]], watch: Watch) -> None:
    for watch.doing, call in calls:
        sys.setprofile(watch.profile)
        try:
            await call()
        except Exception as error:
            sys.setprofile(None)
            if not type(error).__module__.startswith("langchain_agentmem"):
                raise
            print(f"({watch.doing} was refused: {error!s:.200})", file=sys.stderr)
        finally:
            sys.setprofile(None)


def main(url: str, folder: Path) -> None:
    (folder / "rules.md").write_text("Be kind. " * 1000)
    (folder / "experiences").mkdir()
    (folder / "resources.yaml").write_text("resources: []")
    text = "Ana grows quinces near Lisbon. The herons came back on Monday. " * (SIZE // 63)
    memory = AgentMemory(url)
    calls = list(calls_of(memory, text, folder))
    watch = Watch()
    sys.meta_path.insert(0, watch)  # type: ignore[arg-type]
    asyncio.run(every(calls, watch))
    print("\n".join(watch.found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
