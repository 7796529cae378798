"""Every kind of writer: the calls that it makes on a memory that holds something of everything.

A kind is a generator. It yields the calls, is sent what they gave, and can be run by whoever waits and by whoever
awaits. With the same database, clock and ids it writes the same, whenever and wherever it is run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.store.base import GetOp, PutOp

from langchain_agentmem import AgentMemory, Attachment, Retention
from langchain_agentmem.base.files import is_database
from langchain_agentmem.compaction import ManagedMemoryConfig
from langchain_agentmem.experiences.experience import Experience
from langchain_agentmem.upkeep.database_copy import restore

NS = ("users", "ada")
LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)


class Call(NamedTuple):
    """A call of a method.

    Attributes:
        part: Whose method it is.
        name: Its name; its awaited twin has an `a` before it.
        given: What it is given.
        named: The same by name.
    """

    part: Any
    name: str
    given: tuple[Any, ...]
    named: dict[str, Any]

    def wait(self) -> Any:
        """Make it."""
        return getattr(self.part, self.name)(*self.given, **self.named)

    async def aawait(self) -> Any:
        """Make it, awaited."""
        return await getattr(self.part, f"a{self.name}")(*self.given, **self.named)


def call(method: Any, *given: Any, **named: Any) -> Call:
    """A call of a bound method."""
    return Call(method.__self__, method.__name__, given, named)


Calls = Iterator[Call]


class Place(NamedTuple):
    """Where a kind writes.

    Attributes:
        memory: An open memory.
        url: Its path or URL.
        folder: For files.
    """

    memory: AgentMemory
    url: str
    folder: Path


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of writer.

    Attributes:
        name: What it is called.
        calls: What it calls.
        base: What the database holds before.
        awaits: Whether all it calls has an awaited twin.
        in_parts: The names of those calls that are committed in more than one transaction. Each leaves a sound
            database, and to make the call again does what is left. All others are done wholly or not at all.
        refusing: Whether it may be refused where its connections are cut: it works on one of its own, for long.
        files: Gives the files that it writes, each of which is whole or not there; then it can be called again.
    """

    name: str
    calls: Callable[[Place], Calls]
    base: str = "full"
    awaits: bool = True
    in_parts: tuple[str, ...] = ()
    refusing: bool = False
    files: Callable[[Path], dict[Path, Callable[[Path], AgentMemory]]] | None = None


KINDS: dict[str, Kind] = {}


def kind(**more: Any) -> Callable[[Callable[[Place], Calls]], Callable[[Place], Calls]]:
    """Name a generator as a kind of writer."""

    def named(calls: Callable[[Place], Calls]) -> Callable[[Place], Calls]:
        name = calls.__name__
        KINDS[name] = Kind(name=name, calls=calls, **more)
        return calls

    return named


# -- what agents write -----------------------------------------------------------------------------------------------


@kind()
def conversation(at: Place) -> Calls:
    """Messages are added, changed and removed."""
    chat = at.memory.conversation("killed", NS, description="What is said here is killed")
    yield call(chat.add, {"role": "user", "content": "Herons came", "message_id": "k1"})
    yield call(chat.add_messages, [HumanMessage(f"number {n} of many", id=f"k-{n}") for n in range(40)])
    yield call(chat.update, "k1", content="Herons left")
    yield call(chat.remove_by_id, "k-7")
    yield call(chat.replace_memory, 3, {"role": "user", "content": "Cranes came"})
    yield call(at.memory.conversation("c").clear)


@kind()
def session(at: Place) -> Calls:
    """Rounds and posts."""
    ours = at.memory.session("killed", NS)
    begun = yield call(ours.create_round, "What is to be done?")
    plan = Attachment(type="plan", content="First this, then that")
    yield call(ours.add_post, begun.id, send_from="User", send_to="Planner", message="Do it", attachments=[plan])
    yield call(ours.finish_round, begun.id)
    failed = yield call(ours.create_round, "And then?")
    yield call(ours.fail_round, failed.id)


@kind()
def checkpoints(at: Place) -> Calls:
    """What LangGraph puts, and what is done to threads."""
    saver = at.memory.checkpointer
    config: Any = {"configurable": {"thread_id": "killed", "checkpoint_ns": ""}}
    values: dict[str, Any] = {"messages": [HumanMessage("one", id="c1")], "n": 1}
    for step in range(3):
        version = f"{step + 1:032}.0"
        values = {"messages": [*values["messages"], AIMessage(f"answer {step}", id=f"c-{step}")], "n": step}
        checkpoint = {
            "v": 4, "id": f"1f000000-0000-6000-8000-{step:012}", "ts": "2026-01-01T00:00:00+00:00",
            "channel_values": values, "channel_versions": dict.fromkeys(values, version), "versions_seen": {},
            "updated_channels": None,
        }  # fmt: skip
        metadata = {"source": "loop", "step": step, "run_id": f"run {step}"}
        config = yield call(saver.put, config, checkpoint, metadata, dict.fromkeys(values, version))
        yield call(saver.put_writes, config, [("n", step), ("messages", [HumanMessage("more", id="w")])], "task")
    yield call(saver.copy_thread, "killed", "copied")
    yield call(saver.delete_for_runs, ["run 1"])
    yield call(saver.prune, ["copied"])
    yield call(saver.delete_thread, "killed")


@kind()
def items(at: Place) -> Calls:
    """LangGraph's store."""
    store = at.memory.store
    yield call(store.put, ("killed",), "one", {"text": "Ana grows quinces", "n": 1})
    puts = [
        PutOp(("killed", str(n % 3)), f"k{n}", {"text": f"thing {n}"}, None, 60.0 if n % 2 else None) for n in range(9)
    ]
    yield call(store.batch, [*puts, GetOp(("killed",), "one"), PutOp(("killed",), "one", None)])
    yield call(store.put, ("killed", "0"), "k0", {"text": "another thing"})
    yield call(store.delete, ("killed", "1"), "k1")
    yield call(store.sweep_ttl)


@kind()
def blobs(at: Place) -> Calls:
    """LangChain's byte store."""
    store = at.memory.byte_store(NS)
    yield call(store.mset, [(f"k{n}", b"value" * n) for n in range(5)])
    yield call(store.mset, [("k1", b"other")])
    yield call(store.mdelete, ["k2", "k3"])


@kind()
def layers(at: Place) -> Calls:
    """Core, recall and archival memory of a branch, and forks of it."""
    ours = at.memory.layers("killed", NS)
    yield call(ours.core.set, "city", "Lisbon", 4, 3600.0)
    yield call(ours.core.set, "city", "Porto")
    for number in range(3):
        yield call(ours.recall.append, "seen", f"a heron, number {number}")
    record = yield call(ours.archival.write, "Ana grows quinces", ["garden"])
    yield call(ours.archival.update, record, content="Ana grew quinces")
    child = yield call(ours.fork, "child")
    yield call(child.core.set, "city", "Kyoto")
    yield call(child.archival.delete, record)
    yield call(ours.recall.evict, oldest=2)
    yield call(ours.core.delete, "city")
    yield call(ours.consolidate)


@kind()
def facts(at: Place) -> Calls:
    """Facts are told, end others, are merged, extracted and taken back."""
    ours = at.memory.facts("killed", NS)
    yield call(ours.declare, "lives in")
    first = yield call(ours.add_fact, "user", "Ana", "lives in", "Lisbon", valid_from=LONG_AGO, source="m1")
    yield call(ours.add_fact, "user", "Ana", "lives in", "Porto", valid_from=LONG_AGO + timedelta(days=90))
    yield call(ours.add_fact, "user", "Annie", "likes", "tea", confidence=0.5)
    yield call(ours.merge, "Annie", "Ana")
    yield call(ours.add, {"role": "user", "content": "Ana works at Acme", "message_id": "m2"})
    yield call(ours.undo, first)
    yield call(ours.unmerge, "Annie")
    yield call(ours.remove_by_id, "m2")
    yield call(ours.fork, "facts' child")


def told(messages: Sequence[BaseMessage]) -> str:
    """The facts that messages of a prompt tell, as a model answers."""
    facts = [
        dict(zip(("subject", "predicate", "object"), fact, strict=True), message=int(number))
        for number, text in re.findall(
            r'<message number="(\d+)".*?\n(.*?)\n</message>', str(messages[-1].content), re.DOTALL
        )
        for fact in re.findall(r"^(\w+) (lives in|likes) (\w+)$", text, re.MULTILINE)
    ]
    return json.dumps({"facts": facts})


@kind(in_parts=("extract_and_update_from_text", "drain"))
def extraction(at: Place) -> Calls:
    """A model extracts facts, of a text and of what waits."""
    ours = at.memory.facts("killed", NS, told)
    yield call(ours.extract_and_update_from_text, "Tom lives in Oslo\nTom likes rain")
    for number, said in enumerate(("Ana lives in Lisbon", "Ana lives in Porto", "Ana likes tea")):
        yield call(ours.add, {"role": "user", "content": said, "message_id": f"m{number}"})
    yield call(ours.drain)


@kind()
def experiences(at: Place) -> Calls:
    """Files of experiences."""
    ours = at.memory.experiences(at.folder / "experiences")
    yield call(ours.add, Experience(exp_id="rain", who="anyone", when="it rains", what="Stay at home."))


@kind()
def audit(at: Place) -> Calls:
    """The audit trail."""
    trail = at.memory.audit
    yield call(trail.add, "What is the time?", "Late.", "c")
    todos = yield call(trail.add_todo_from_chat, "We need to water the quinces. Please feed the herons.")
    yield call(trail.complete, todos[0].id)
    yield call(trail.reopen, todos[0].id)
    yield call(trail.add_self_reflection, "I was late.")
    yield call(trail.filter_junk)
    yield call(trail.archive, datetime(2027, 1, 1, tzinfo=UTC))
    yield call(trail.import_document, at.folder / "opus.json")


@kind(in_parts=("add_messages",))
def compaction(at: Place) -> Calls:
    """A conversation that is kept small, with a model's summaries."""
    config = ManagedMemoryConfig(threshold_tokens=300, token_counter="estimate")
    chat = at.memory.managed_conversation("kept small", NS, config=config, model=_summary)
    for number in range(3):
        many = [
            HumanMessage(f"number {number}-{n} of many things said about herons", id=f"s{number}-{n}")
            for n in range(12)
        ]
        yield call(chat.add_messages, many)
        yield call(chat.compact_if_needed)
        yield call(chat.get_context)


def _summary(messages: Any) -> str:
    return json.dumps({"user_request_summary": "Herons.", "summary": f"{len(messages)} messages were about herons."})


@kind()
def corrections(at: Place) -> Calls:
    """Corrections in Studio, and their undoing."""
    ours, where = at.memory.corrections, {"by": "Maria", "namespace": NS}
    yield call(at.memory.layers(namespace=NS).core.set, "city", "Lisbon")
    record = yield call(at.memory.layers(namespace=NS).archival.write, "Ana grows quinces")
    fact = yield call(at.memory.facts(namespace=NS).add_fact, "user", "Ana", "lives in", "Lisbon")
    core = yield call(ours.core, "city", "Porto", **where)
    yield call(ours.record, record, "Ana grows pears", **where)
    yield call(ours.fact, fact, obj="Porto", **where)
    yield call(ours.undo, core.id, **where)
    yield call(ours.delete, "record", record, **where)


# -- what looks after a database -------------------------------------------------------------------------------------


@kind()
def imports(at: Place) -> Calls:
    """An export of another database, and what another program remembers."""
    yield call(at.memory.import_, at.folder / "other.export")
    yield call(at.memory.import_from, "opus", at.folder / "opus.json", namespace=NS)
    yield call(at.memory.import_from, "chat-history", at.folder / "chat.json", namespace=NS)


@kind(refusing=True)
def erase(at: Place) -> Calls:
    """A conversation, a thread and a person are erased."""
    yield call(at.memory.erase, conversation_id="managed")
    yield call(at.memory.erase, thread_id="chat")
    yield call(at.memory.erase, namespace=("a",))


@kind(in_parts=("prune",))
def prune(at: Place) -> Calls:
    """Old data are deleted or compacted."""
    yield call(
        at.memory.admin.prune, keep_checkpoints=1, retention=Retention(keep_last=20),
        archive_before=datetime(2027, 1, 1, tzinfo=UTC),
    )  # fmt: skip


@kind()
def adopt(at: Place) -> Calls:
    """A thread is moved to a person's namespace."""
    yield call(at.memory.admin.adopt, "chat", NS)


@kind(base="embedded", in_parts=("settle",))
def upkeep(at: Place) -> Calls:
    """What is otherwise done in the background: documents are embedded."""
    chat = at.memory.conversation("embedded", NS)
    yield call(chat.add_messages, [HumanMessage(f"number {n} about herons", id=f"e{n}") for n in range(80)])
    yield call(at.memory.settle)
    yield call(chat.remove_by_id, "e3")
    yield call(at.memory.settle)


@kind(files=lambda folder: {folder / "a.export": _imported})
def export(at: Place) -> Calls:
    """Everything is written to a file."""
    yield call(at.memory.export, at.folder / "a.export")


@kind(files=lambda folder: {folder / "a.backup": _backed_up})
def backup(at: Place) -> Calls:
    """A copy of the database is made."""
    yield call(at.memory.admin.backup, at.folder / "a.backup")


@kind(refusing=True, files=lambda folder: {folder / "copied.db": AgentMemory})
def copy(at: Place) -> Calls:
    """Everything is copied to a new database."""
    yield call(at.memory.admin.copy, at.folder / "copied.db")


@kind(awaits=False, files=lambda folder: {folder / "restored.db": AgentMemory})
def restored(at: Place) -> Calls:
    """A database is made of an export."""
    yield Call(_Functions, "restore", (at.folder / "other.export", at.folder / "restored.db"), {})


@kind(awaits=False, base="empty", refusing=True, in_parts=("open",))
def create(at: Place) -> Calls:
    """An empty database is opened, and gets its schema."""
    yield from ()


class _Functions:
    restore = staticmethod(restore)


def _imported(path: Path) -> AgentMemory:
    memory = AgentMemory(":memory:")
    memory.import_(path)
    return memory


def _backed_up(path: Path) -> AgentMemory:
    return AgentMemory(path) if is_database(path) else _imported(path)
