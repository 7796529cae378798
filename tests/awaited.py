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
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.experiences.experience import Experience
from langchain_agentmem.messages.role_rounds import Conversation
from langchain_agentmem.upkeep.admin import Admin

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


Calls = dict[str, Callable[[], Awaitable[Any]]]


def plain(part: Any, names: str) -> Calls:
    """The methods that take no arguments."""
    return {name: getattr(part, name) for name in names.split()}


def calls_of(memory: AgentMemory, text: str, folder: Path) -> dict[Any, Calls]:
    """Every public method that is awaited, with large values, by the part that has it."""
    chat, facts, session, audit = memory.conversation("c"), memory.facts("main"), memory.session("s"), memory.audit
    managed, layers, blobs = memory.managed_conversation("m"), memory.layers("main"), memory.byte_store(("b",))
    store, saver, library = memory.store, memory.checkpointer, memory.experiences(folder / "experiences")
    said = HumanMessage(text, id="said")
    told = {
        "recall_dropped": {"query": text},
        "expand": {"id": "said"},
        "mem_core_set": {"key": "k", "value": text},
        "mem_core_del": {"key": "k"},
        "mem_archival_write": {"content": text},
        "mem_archival_search": {"query": text},
    }
    inject, compaction, selector = memory.inject("main"), memory.compaction(), library.selector(role="anyone")
    learner = memory.facts("learned", model=lambda messages: "[]")
    begun = session.create_round(text)
    memory.conversation("spare").add_user_message(text)
    key = layers.archival.write("a record")
    event = layers.recall.append("note", "an event")
    [todo] = audit.add_todo_from_chat("We need to count the herons tomorrow.")
    fact = facts.add_fact("user", "Ana", "lives in", "Lisbon")
    checkpoint: Any = {
        "v": 1,
        "id": "1f000000-0000-6000-8000-000000000000",
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": {},
        "channel_versions": {},
        "versions_seen": {},
    }
    config = saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, checkpoint, {"step": -1}, {})
    chat_calls: Calls = {
        **plain(
            chat,
            "aget_messages araw_messages aretrieve_all aget_message_dicts ashown acompactions "
            "acount_tokens acompact_if_needed acompact_for_payload_error areset_memory aclear",
        ),
        "aadd": lambda: chat.aadd(role="user", content=text),
        "aadd_messages": lambda: chat.aadd_messages([said]),
        "aadd_message": lambda: chat.aadd_message(HumanMessage(text)),
        "aadd_user_message": lambda: chat.aadd_user_message(text),
        "aadd_ai_message": lambda: chat.aadd_ai_message(text),
        "aupdate": lambda: chat.aupdate("said", content=text + "!"),
        "areplace_memory": lambda: chat.areplace_memory(0, role="user", content=text),
        "aretrieve_recent": lambda: chat.aretrieve_recent(2),
        "aretrieve_by_id": lambda: chat.aretrieve_by_id("said"),
        "aretrieve_by_role": lambda: chat.aretrieve_by_role("user"),
        "aaround": lambda: chat.aaround("said"),
        "ahistory_of": lambda: chat.ahistory_of("said"),
        "asave_to_file": lambda: chat.asave_to_file(folder / "c.json", {"more": text}),
        "aload_from_file": lambda: chat.aload_from_file(folder / "c.json"),
        "aremove_by_id": lambda: chat.aremove_by_id("said"),
        "adelete_memory": lambda: chat.adelete_memory(0),
    }
    return {
        chat: chat_calls,
        managed: {
            **plain(managed, "aget_context aget_message_dicts aget_raw_messages aget_cache_stats acompact_if_needed"),
            "aadd": lambda: managed.aadd(role="user", content=text),
            "aadd_messages": lambda: managed.aadd_messages([said]),
            "acompact_for_payload_error": lambda: managed.acompact_for_payload_error({"provider": "openai"}),
        },
        session: {
            **plain(session, "ato_conversation arounds areset_memory acompact_if_needed acompact_for_payload_error"),
            "acreate_round": lambda: session.acreate_round(text),
            "aadd_post": lambda: session.aadd_post(begun.id, send_from="User", send_to="Planner", message=text),
            "afinish_round": lambda: session.afinish_round(begun.id),
            "afail_round": lambda: session.afail_round(begun.id),
            "aget_role_rounds": lambda: session.aget_role_rounds("Planner"),
            "aget_role_rounds_with_compaction": lambda: session.aget_role_rounds_with_compaction("Planner"),
            "aget_shared_memory_entries": lambda: session.aget_shared_memory_entries("plan"),
            "amessages_for": lambda: session.amessages_for("Planner"),
            "aexport": lambda: session.aexport(folder / "s.yaml"),
            "aimport_": lambda: session.aimport_(Conversation.create((), id="s")),
            "asave_to_file": lambda: session.asave_to_file(folder / "s.json"),
            "aload_from_file": lambda: session.aload_from_file(folder / "s.json"),
        },
        layers.core: {
            "aset": lambda: layers.core.aset("key", text),
            "aget": layers.core.aget,
            "aentries": layers.core.aentries,
            "adelete": lambda: layers.core.adelete("key"),
            "arestore": lambda: layers.core.arestore("key"),
        },
        layers.archival: {
            "awrite": lambda: layers.archival.awrite(text, ["tag"]),
            "aupdate": lambda: layers.archival.aupdate(key, text),
            "aget": lambda: layers.archival.aget(key),
            "asearch": lambda: layers.archival.asearch(text),
            "aall": layers.archival.aall,
            "adelete": lambda: layers.archival.adelete(key),
        },
        layers.recall: {
            "aappend": lambda: layers.recall.aappend("note", text),
            "aget": lambda: layers.recall.aget(event),
            "arecent": layers.recall.arecent,
            "asearch": lambda: layers.recall.asearch(text),
            "asummarize": lambda: layers.recall.asummarize("note"),
            "aevict": lambda: layers.recall.aevict([event]),
        },
        layers.resources: {
            "aload": lambda: layers.resources.aload(folder / "resources.yaml"),
            "aitems": layers.resources.aitems,
            "atrack_usage": lambda: layers.resources.atrack_usage("notes", "read", text),
            "aused": layers.resources.aused,
        },
        layers: {
            **plain(layers, "aread aancestors atree apressure aconsolidate"),
            "awrite": lambda: layers.awrite(
                core={"k": text}, recall=[{"kind": "note", "content": text}], archival=[text]
            ),
            "afork": lambda: layers.afork("other"),
            "adiff": lambda: layers.adiff("other"),
            "acompress": lambda: layers.acompress(text, 1000),
            "acontext": lambda: layers.acontext(text),
            "aformat_for_prompt": lambda: layers.aformat_for_prompt(text),
            "aexport_final": lambda: layers.aexport_final(folder / "final"),
        },
        facts: {
            **plain(
                facts,
                "aretrieve_all aget_messages adrain awaiting afailures aaliases aentities aas_of "
                "alatest acontradictions acompact_if_needed acompact_for_payload_error areset_memory",
            ),
            "aadd": lambda: facts.aadd(role="user", content=text),
            "aadd_fact": lambda: facts.aadd_fact("user", "Bob", "says", text[:1000]),
            "aupdate": lambda: facts.aupdate(fact, obj="Porto"),
            "aretrieve_recent": lambda: facts.aretrieve_recent(2),
            "aretrieve_by_id": lambda: facts.aretrieve_by_id(fact),
            "aretrieve_by_role": lambda: facts.aretrieve_by_role("user"),
            "asave_to_file": lambda: facts.asave_to_file(folder / "f.json", {"more": text}),
            "aload_from_file": lambda: facts.aload_from_file(folder / "f.json"),
            "aextract_and_update_from_text": lambda: learner.aextract_and_update_from_text(text, "user"),
            "amerge": lambda: facts.amerge("Ana", "Anna"),
            "aunmerge": lambda: facts.aunmerge("Ana"),
            "aneighbours": lambda: facts.aneighbours("Ana"),
            "ato_networkx": lambda: facts.ato_networkx("Ana"),
            "aget": lambda: facts.aget(fact),
            "ahistory": lambda: facts.ahistory("Ana"),
            "adeclare": lambda: facts.adeclare("lives in", single_valued=True),
            "aevidence": lambda: facts.aevidence(fact),
            "afrom_message": lambda: facts.afrom_message("m"),
            "asearch": lambda: facts.asearch(text),
            "aformat_for_prompt": lambda: facts.aformat_for_prompt(text),
            "afork": lambda: facts.afork("of facts"),
            "aundo": lambda: facts.aundo(fact),
            "areplace_memory": lambda: facts.areplace_memory(0, role="user"),
            "adelete_memory": lambda: facts.adelete_memory(0),
            "aremove_by_id": lambda: facts.aremove_by_id(fact),
        },
        audit: {
            **plain(audit, "atodos afilter_junk aarchive ahead averify areport"),
            "aadd": lambda: audit.aadd(text, text),
            "aadd_self_reflection": lambda: audit.aadd_self_reflection(text),
            "aadd_todo_from_chat": lambda: audit.aadd_todo_from_chat("We need to count. " + text),
            "aadd_reference": lambda: audit.aadd_reference(text, "title"),
            "aadd_best_practices_reference": lambda: audit.aadd_best_practices_reference(folder / "rules.md"),
            "alast": lambda: audit.alast(5),
            "aget": lambda: audit.aget(todo.id),
            "asearch": lambda: audit.asearch(text),
            "acomplete": lambda: audit.acomplete(todo.id),
            "areopen": lambda: audit.areopen(todo.id),
            "aexport_document": lambda: audit.aexport_document(folder / "a.json"),
            "aimport_document": lambda: audit.aimport_document(folder / "a.json"),
        },
        blobs: {
            "amset": lambda: blobs.amset([("key", text.encode())]),
            "amget": lambda: blobs.amget(["key"]),
            "amdelete": lambda: blobs.amdelete(["key"]),
        },
        store: {
            "aput": lambda: store.aput(("a",), "k", {"text": text}),
            "aget": lambda: store.aget(("a",), "k"),
            "asearch": lambda: store.asearch(("a",), query=text),
            "alist_namespaces": store.alist_namespaces,
            "abatch": lambda: store.abatch([]),
            "asweep_ttl": store.asweep_ttl,
            "adelete": lambda: store.adelete(("a",), "k"),
        },
        saver: {
            "aget_tuple": lambda: saver.aget_tuple(config),
            "aget": lambda: saver.aget(config),
            "ahistory": lambda: saver.ahistory(config),
            "aexcerpt": lambda: saver.aexcerpt(config),
            "achanges": lambda: saver.achanges(config),
            "aget_delta_channel_history": lambda: saver.aget_delta_channel_history(config=config, channels=["m"]),
            "acopy_thread": lambda: saver.acopy_thread("t", "u"),
            "aprune": lambda: saver.aprune(["u"]),
            "adelete_for_runs": lambda: saver.adelete_for_runs(["r"]),
            "adelete_thread": lambda: saver.adelete_thread("u"),
            "aimport_checkpoints": lambda: saver.aimport_checkpoints(saver),
            # What is in a checkpoint is written out before the next node may change it, so it is on the loop.
            "aput": lambda: saver.aput(
                config, {**saver.get(config), "id": "1f000000-0000-6000-8000-000000000001"}, {}, {}
            ),
            "aput_writes": lambda: saver.aput_writes(config, [("m", "small")], "task"),
        },
        library: {
            "aadd": lambda: library.aadd(Experience(exp_id="e", who="anyone", when="it rains", what=text[:5000])),
            "aload": library.aload,
            "avalidate": library.avalidate,
        },
        inject: {"ainvoke": lambda: inject.ainvoke([said])},
        compaction: {"ainvoke": lambda: compaction.ainvoke([said] * 50)},
        selector: {
            "ainvoke": lambda: selector.ainvoke([said]),
            "aselect": lambda: selector.aselect(text),
            "aselect_examples": lambda: selector.aselect_examples({"query": text}),
            "aadd_example": lambda: selector.aadd_example({"exp_id": "x", "when": "it snows", "what": "Stay."}),
        },
        memory.admin: {
            **plain(memory.admin, "athreads abranches anamespaces agrowth adiagnose astats averify"),
            "abackup": lambda: memory.admin.abackup(folder / "backup"),
            "arestore": lambda: Admin.arestore(folder / "backup", folder / "restored.db"),
            "acopy": lambda: memory.admin.acopy(folder / "copied.db"),
            "aprune": lambda: memory.admin.aprune(keep_checkpoints=1),
            "aadopt": lambda: memory.admin.aadopt("spare", ("ada",)),
            "arekey": lambda: Admin.arekey(folder / "restored.db", new_key=bytes(range(32))),
        },
        memory: {
            **plain(memory, "aconversations asettle aclose"),
            **{tool.name: partial(tool.ainvoke, told[tool.name]) for tool in memory.tools("main")},
            "the retriever": partial(memory.retriever(namespace=()).ainvoke, text),
            "asearch": lambda: memory.asearch(text),
            "aexport": lambda: memory.aexport(folder / "export"),
            "aimport_": lambda: memory.aimport_(folder / "export"),
            "aimport_from": lambda: memory.aimport_from("opus", folder / "a.json"),
            "aerase": lambda: memory.aerase(thread_id="t"),
        },
    }


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


async def every(calls: dict[Any, Calls], watch: Watch) -> None:
    for part, named in calls.items():
        for name, call in named.items():
            watch.doing = f"{type(part).__name__}.{name}"
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
    calls = calls_of(memory, text, folder)
    for part, named in calls.items():
        if type(part).__name__ != "ManagedConversationMemory" and (missing := awaited_of(part) - set(named)):
            print(f"{type(part).__name__}: nobody awaits {', '.join(sorted(missing))}")
    watch = Watch()
    sys.meta_path.insert(0, watch)  # type: ignore[arg-type]
    asyncio.run(every(calls, watch))
    print("\n".join(watch.found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
