"""Random memories, and a reader of everything in a memory.

fill(memory, random.Random(7))     # the same each time, but for ids and times
assert readable(memory) == readable(its_copy)
"""

from __future__ import annotations

import contextlib
import random
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory, AgentMemorySaver
from langchain_agentmem.errors import AgentMemoryError
from tests.checkpoints.graphs import chat_graph, comparable
from tests.rewinding import test_care as remembered
from tests.support.graphs import at
from tests.support.histories import WORDS, random_history

NAMESPACES: tuple[tuple[str, ...], ...] = ((), ("users", "ana"), ("users", "bo"), ("users", "bo", "deep"))
COUNTED = (
    "conversations", "messages", "rounds", "edits", "threads", "checkpoints", "writes", "blobs", "blob_bytes", "items",
    "compactions", "branches", "audit",
)  # fmt: skip
NAMES, BRANCHES = ("one", "two"), ("main", "plan")


def fill(memory: AgentMemory, rng: random.Random, steps: int = 60) -> None:
    """Do random things with a memory."""
    known: list[tuple[Any, str]] = []  # records and facts, with the part of the memory that has them
    for number in range(steps):
        with contextlib.suppress(AgentMemoryError, IndexError):  # such as that there is nothing to edit
            _do(memory, rng, known, f"{' '.join(rng.choices(WORDS, k=3))} {number}")
    memory.settle()


def _do(memory: AgentMemory, rng: random.Random, known: list[tuple[Any, str]], text: str) -> None:  # noqa: C901, PLR0912, PLR0915
    namespace, name, branch = rng.choice(NAMESPACES), rng.choice(NAMES), rng.choice(BRANCHES)
    saver, chat, layers = memory.checkpointer, memory.conversation(name, namespace), memory.layers(branch, namespace)
    facts, trail = memory.facts(branch, namespace), memory.within(namespace).audit if namespace else memory.audit
    match rng.randrange(22):
        case 0 | 1:
            chat.add_messages(random_history(rng.randrange(10**6), size=rng.randint(1, 6)))
        case 2 | 3:
            change = rng.choice((lambda key: chat.update(key, content=text), chat.remove_by_id))
            change(rng.choice(chat.messages).id)
        case 4:
            session = memory.session(name, namespace)
            session.add_post(session.create_round(text).id, send_from="User", send_to="Planner", message=text)
        case 5 | 6:
            said = [HumanMessage(text), AIMessage(text)]
            config, graph = at(f"chat {name}", namespace=namespace), chat_graph(saver)
            graph.invoke({"messages": said}, config)
            before = graph.get_state(config)
            again = HumanMessage(f"{text} in other words", id=rng.choice(before.values["messages"]).id)
            graph.update_state(config, {"messages": [again]})
            if rng.random() < 0.5:
                graph.update_state(before.config, None)
        case 7 | 8:
            remembered.say(memory, "ask " * (rng.random() < 0.2) + text, name, namespace)
        case 9:
            there = [each.config["configurable"] for each in saver.list(at(name, namespace=namespace))]
            place = rng.choice([each["checkpoint_id"] for each in there if not each["checkpoint_ns"]])
            remembered.say(memory, text, name, namespace, checkpoint_id=place, checkpoint_ns="")
        case 10:
            saver.copy_thread(name, f"copy for {text}")
        case 11 | 12:
            layers.core.set(name, text, importance=rng.randint(1, 5), ttl=rng.choice((None, None, 10.0**9)))
            layers.recall.append(name, text)
        case 13:
            layers.core.delete(name)
        case 14:
            known.append((layers.archival, layers.archival.write(text, tags=[name])))
        case 15:
            layers.fork(f"fork for {text}").core.set(name, text)
        case 16:
            facts.declare("lives in")
            facts.merge(rng.choice(WORDS), name)
        case 17:
            since = rng.choice((None, datetime(2024, rng.randint(1, 12), 1, tzinfo=UTC)))
            known.append((facts, facts.add_fact("user", name, "lives in", rng.choice(WORDS), valid_from=since)))
        case 18:
            part, key = rng.choice(known)
            rng.choice((part.delete, part.update) if part.__class__ is type(layers.archival) else (part.undo,))(key)
        case 19:
            with memory.written_by("tool", "search") if rng.random() < 0.3 else contextlib.nullcontext():
                memory.store.put((*namespace, name), rng.choice(WORDS[:4]), {"text": text}, ttl=rng.choice((None, 1e6)))
            key = rng.choice((name, "\udbff", "\U0010ffff" * 600, "", text))
            memory.byte_store(namespace).mset([(key, rng.randbytes(rng.randint(0, 3_000)))])
        case 20:
            trail.add(text, text, name)
            trail.add_todo_from_chat(f"todo: {text}")
        case 21:
            asked = [HumanMessage(text, id=f"about {text}")]
            memory.inject(branch, namespace=namespace).invoke(asked, at(name, namespace=namespace))
            memory.corrections.core(name, text, by="Maria", namespace=namespace, branch=branch)


def readable(memory: AgentMemory) -> dict[str, Any]:
    """Everything that a user can read of a memory, by kind and place."""
    found: dict[str, Any] = {"conversations": memory.conversations((), limit=10_000)}
    for each in found["conversations"]:
        chat, place = memory.conversation(each.conversation_id, each.namespace), (each.namespace, each.conversation_id)
        found["messages", *place] = [
            (message, [(version.message, version.written_at) for version in chat.history_of(message.id)])
            for message in chat.messages
        ]
        found["session", *place] = memory.session(each.conversation_id, each.namespace).to_conversation().to_dict()
        found["compactions", *place] = [
            (each.created_at, each.lane, each.reached, each.dropped, each.generated_messages, each.saved)
            for each in chat.compactions()
        ]
    saver = AgentMemorySaver(memory.database, serde=memory.checkpointer.serde)
    for each in saver.list(None):
        config = each.config
        found["checkpoint", *map(str, config["configurable"].values())] = (
            comparable(each),
            memory.layers(config).read(),
            memory.layers(config).core.entries(),
            memory.facts(config).latest(),
            memory.session(config).to_conversation().to_dict(),
            [item.dict() for item in memory.thread_store.at(config).search((), limit=100, refresh_ttl=False)],
        )
    for branch in memory.admin.branches(()):
        layers, facts = memory.layers(branch.name, branch.namespace), memory.facts(branch.name, branch.namespace)
        entities = facts.entities()
        found["branch", branch.namespace, branch.name] = (
            branch,
            layers.read(),
            layers.core.entries(),
            layers.recall.recent(None),
            layers.archival.all(),
            layers.ancestors(),
            str(layers.tree()),
            [facts.history(each.name) for each in entities],
            facts.aliases(),
            facts.contradictions(),
            facts.retrieve_all(include_ids=True),
            memory.corrections.history(namespace=branch.namespace, branch=branch.name),
        )
    for namespace in sorted({(), *(each.namespace for each in memory.admin.namespaces(()))}):
        values = memory.byte_store(namespace)
        found["values", namespace] = [(key, values.mget([key])) for key in values.yield_keys()]
        trail = memory.audit if not namespace else memory.within(namespace).audit
        found["audit", namespace] = (trail.last(10_000, include_junk=True), trail.todos())
        found["search", namespace] = [
            sorted((hit.kind, hit.id, hit.text, hit.created_at, hit.source or "", hit.actor or "") for hit in hits)
            for word in WORDS[:5]
            for hits in (memory.search(word, namespace=namespace, abandoned=old, limit=10_000) for old in (False, True))
        ]
    found["items"] = [item.dict() for item in memory.store.search((), limit=10_000, refresh_ttl=False)]
    found["counted"] = {name: memory.admin.stats()[name] for name in COUNTED}
    return found


def differences(one: dict[str, Any], other: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the differences of two memories, by kind; empty if they show the same."""
    keys = [*one, *(key for key in other if key not in one)]
    return {str(key): (one.get(key), other.get(key)) for key in keys if one.get(key) != other.get(key)}
