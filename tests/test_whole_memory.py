"""Random sequences of user actions match a simple model in memory, also after moves of the database."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import MessagesState

from langchain_agentmem import AgentMemory, ManagedMemoryConfig
from tests.support.graphs import at, line

USERS = st.sampled_from(["ada", "ada", "ada", "bob"])
THREADS = st.sampled_from(["monday", "monday", "tuesday"])
CONVERSATIONS = st.sampled_from(["c", "d"])
KEYS = st.sampled_from(["name", "city"])
SMALL = ManagedMemoryConfig(threshold_tokens=60, token_counter="estimate")

TEMPLATE = ("users", "{user_id}")

words = map("wordling{}x".format, itertools.count())
"""Each stands in one text alone, so that a search for it tells whether that is found."""
files = map("{}.db".format, itertools.count())


class Write(NamedTuple):
    """Something was remembered, or deleted where there is no value. The newest of a key counts."""

    stamp: int
    author: str | None
    kind: str
    key: str
    value: str | None


class Line(NamedTuple):
    """The state of a checkpoint: its messages and its memories."""

    said: tuple[str, ...] = ()
    writes: tuple[Write, ...] = ()


@dataclass
class Thread:
    """The lines of a thread by the ids of their checkpoints, the newest last; and what it was given as a copy."""

    lines: dict[str, Line] = field(default_factory=dict)
    given: tuple[str, ...] = ()

    @property
    def head(self) -> Line:
        return list(self.lines.values())[-1] if self.lines else Line()


@dataclass
class Scope:
    """All that is one user's."""

    main: list[Write] = field(default_factory=list)
    threads: dict[str, Thread] = field(default_factory=dict)
    conversations: dict[str, dict[str, str]] = field(default_factory=dict)
    items: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)

    def count(self, writes: Iterable[Write]) -> None:
        """Give writes to main, which keeps the newest of a key."""
        ordered = sorted([*self.main, *writes], key=lambda each: each.stamp)
        self.main = list({(each.kind, each.key): each for each in ordered}.values())

    def counting(self, but: str | None = None) -> Iterator[Write]:
        """Return the writes in the heads of threads, except for one, and in main."""
        yield from self.main
        for name, thread in self.threads.items():
            yield from (each for each in thread.head.writes if each.author == name != but)


def shown(writes: Iterable[Write], kind: str) -> dict[str, str]:
    newest = {each.key: each.value for each in sorted(writes, key=lambda each: each.stamp) if each.kind == kind}
    return {key: value for key, value in newest.items() if value is not None}


What = tuple[str, str, bool]
"""A kind, a key, and whether it is written or deleted."""
WHATS = st.tuples(st.sampled_from(["core", "record"]), KEYS, st.booleans())


def config_of(user: str, name: str, **more: Any) -> dict[str, Any]:
    return at(name, user_id=user, **more)


class WholeMemory(RuleBasedStateMachine):
    """A memory of two users beside the model of it."""

    url: str
    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.scopes = {"ada": Scope(), "bob": Scope()}
        self.stamps = itertools.count()
        self.place = self.url if self.url.startswith("postgresql://") else str(self.folder / next(files))
        self.spoken: dict[str, list[str]] = {"ada": [], "bob": []}
        self.open()
        self.memory.erase(namespace=())

    def open(self) -> None:
        self.memory = AgentMemory(self.place, namespace=TEMPLATE)

    def teardown(self) -> None:
        self.memory.erase(namespace=())
        stats, report = self.memory.admin.stats(), self.memory.admin.verify()
        self.memory.close()
        kinds = ("messages", "threads", "checkpoints", "items", "facts", "core", "records", "blobs")
        assert {name: stats[name] for name in kinds} == dict.fromkeys(kinds, 0)
        assert report.ok

    def word(self, user: str) -> str:
        self.spoken[user].append(next(words))
        return self.spoken[user][-1]

    @initialize(back=st.integers(0, 1))
    def begin(self, back: int) -> None:
        """Both have something of everything, and a thread that may have forked, before anything else is done."""
        for user in self.scopes:
            self.talk(user=user, name="c", count=2)
            self.put(user=user, key="name", kept=True)
            self.tell(user=user, removed=False)
            self.remember(user=user, what=("core", "city", True))
            self.run(user=user, name="monday", turns=[(0, ("core", "name", True)), (back, ("record", "name", True))])

    # -- conversations, items, facts ---------------------------------------------------------------------------

    @rule(user=USERS, name=CONVERSATIONS, count=st.integers(1, 3))
    def talk(self, user: str, name: str, count: int) -> None:
        chat = self.memory.conversation(name, ("users", user))
        held = self.scopes[user].conversations.setdefault(name, {})
        given = [HumanMessage(self.word(user), id=next(words)) for _ in range(count)]
        chat.add_messages(given)
        held.update({each.id: each.content for each in given})

    @rule(user=USERS, name=CONVERSATIONS, place=st.integers(0, 9), removed=st.booleans())
    def change_what_was_said(self, user: str, name: str, place: int, removed: bool) -> None:
        held = self.scopes[user].conversations.get(name)
        if held:
            chat, key = self.memory.conversation(name, ("users", user)), list(held)[place % len(held)]
            if removed:
                assert chat.remove_by_id(key)
                del held[key]
            else:
                held[key] = self.word(user)
                chat.update(key, content=held[key])

    @rule(user=USERS, name=CONVERSATIONS)
    def compact(self, user: str, name: str) -> None:
        managed = self.memory.managed_conversation(name, ("users", user), config=SMALL, model=lambda _: "They spoke.")
        assert all(each.content for each in managed.messages)

    @rule(user=USERS, key=KEYS, kept=st.booleans())
    def put(self, user: str, key: str, kept: bool) -> None:
        items, place = self.scopes[user].items, ("users", user, "items")
        if kept:
            items[key] = self.word(user)
            self.memory.store.put(place, key, {"text": items[key]})
        else:
            items.pop(key, None)
            self.memory.store.delete(place, key)

    @rule(user=USERS, removed=st.booleans())
    def tell(self, user: str, removed: bool) -> None:
        told, facts = self.scopes[user].facts, self.memory.facts(namespace=("users", user))
        if told and removed:
            key, _ = told.popitem()
            assert facts.remove_by_id(key)
        else:
            name = next(words)
            told[facts.add_fact("user", name, "likes", "herons")] = name

    # -- layers and threads ------------------------------------------------------------------------------------

    def _written(self, layers: Any, author: str | None, seen: list[Write], what: What) -> list[Write]:
        """Write something to layers, or delete it, and give what that leaves."""
        kind, key, kept = what
        there, value, stamp = shown(seen, kind), next(words), next(self.stamps)
        if kept and kind == "core":
            layers.core.set(key, value)
        elif kept:
            key = layers.archival.write(value)
        else:
            key = key if kind == "core" else next(iter(there), "no such record")
            assert (layers.core if kind == "core" else layers.archival).delete(key) is (key in there)
        return [Write(stamp, author, kind, key, value if kept else None)] if kept or key in there else []

    @rule(user=USERS, what=WHATS)
    def remember(self, user: str, what: What) -> None:
        scope = self.scopes[user]
        layers = self.memory.layers(namespace=("users", user))
        scope.count(self._written(layers, None, list(scope.counting()), what))

    @rule(user=USERS, name=THREADS, turns=st.lists(st.tuples(st.integers(0, 2), WHATS), min_size=1, max_size=4))
    def run(self, user: str, name: str, turns: list[tuple[int, What]]) -> None:
        for back, what in turns:
            self.turn(user, name, back, what)
            self.check(self.memory)

    def turn(self, user: str, name: str, back: int, what: What) -> None:
        """A thread goes on, from its newest checkpoint or an older one."""
        scope = self.scopes[user]
        thread = scope.threads.setdefault(name, Thread())
        base, config, said = Line(), config_of(user, name), self.word(user)
        if thread.lines:
            place = list(thread.lines)[-1 - back % len(thread.lines)]
            base = thread.lines[place]
            config = config_of(user, name, **({"checkpoint_id": place} if base is not thread.head else {}))
        left: list[Write] = []

        def node(state: MessagesState) -> dict[str, Any]:
            layers, seen = self.memory.layers(), [*scope.counting(but=name), *base.writes]
            assert layers.core.get() == shown(seen, "core")
            left[:] = self._written(layers, name, seen, what)
            return {"messages": [AIMessage(f"{said} it is")]}

        graph = line(self.memory.checkpointer, node)
        graph.invoke({"messages": [HumanMessage(said)]}, config)
        place = graph.get_state(config_of(user, name)).config["configurable"]["checkpoint_id"]
        thread.lines[place] = Line((*base.said, said, f"{said} it is"), (*base.writes, *left))

    @rule(user=USERS, name=THREADS)
    def copy_thread(self, user: str, name: str) -> None:
        scope = self.scopes[user]
        if name in scope.threads and "copy" not in scope.threads:
            self.memory.within(("users", user)).checkpointer.copy_thread(name, "copy")
            source = scope.threads[name]
            scope.threads["copy"] = Thread(dict(source.lines), given=source.head.said)

    @rule(user=USERS, name=THREADS)
    def delete_thread(self, user: str, name: str) -> None:
        """Its writes to shared memory are kept."""
        scope = self.scopes[user]
        if name in scope.threads:
            self.memory.within(("users", user)).checkpointer.delete_thread(name)
            scope.count(each for each in scope.threads.pop(name).head.writes if each.author == name)

    # -- care --------------------------------------------------------------------------------------------------

    @rule(user=USERS, keep=st.integers(1, 2))
    def prune(self, user: str, keep: int) -> None:
        self.memory.admin.prune(namespace=("users", user), keep_checkpoints=keep)
        for name, thread in self.scopes[user].threads.items():
            listed = self.memory.checkpointer.list(config_of(user, name))
            found = {each.config["configurable"]["checkpoint_id"] for each in listed}
            assert next(reversed(thread.lines)) in found
            thread.lines = {place: line for place, line in thread.lines.items() if place in found}

    @rule(user=USERS, name=CONVERSATIONS)
    def erase_conversation(self, user: str, name: str) -> None:
        self.memory.erase(namespace=("users", user), conversation_id=name)
        self.scopes[user].conversations.pop(name, None)

    @rule(user=USERS, name=THREADS)
    def erase_thread(self, user: str, name: str) -> None:
        """Its writes to shared memory are erased, too, and those of an earlier thread with this id."""
        scope = self.scopes[user]
        if "copy" not in scope.threads:
            self.memory.erase(namespace=("users", user), thread_id=name)
            scope.threads.pop(name, None)
            scope.main = [each for each in scope.main if each.author != name]

    @rule(user=USERS)
    def erase_user(self, user: str) -> None:
        self.memory.erase(namespace=("users", user))
        self.scopes[user] = Scope()

    @rule()
    def reopen(self) -> None:
        self.memory.close()
        self.open()

    @rule(way=st.sampled_from(["export", "backup", "copy"]))
    def move(self, way: str) -> None:
        """The memory goes on in another place, where it may."""
        place = self.folder / next(files)
        on_postgres = self.place.startswith("postgresql://")
        if way == "export":
            self.memory.export(place.with_suffix(".jsonl"))
            with AgentMemory(place, namespace=TEMPLATE) as other:
                other.import_(place.with_suffix(".jsonl"))
        elif way == "copy" or on_postgres:
            self.memory.admin.copy(place)
        else:
            self.memory.admin.backup(place)
        if on_postgres:
            with AgentMemory(place, namespace=TEMPLATE) as other:
                self.check(other)
        else:
            self.memory.close()
            self.place = str(place)
            self.open()

    # -- what must hold ----------------------------------------------------------------------------------------

    @invariant()
    def is_as_the_model_says(self) -> None:
        self.check(self.memory)

    def check(self, memory: AgentMemory) -> None:
        for user, scope in self.scopes.items():
            within = ("users", user)
            for name in ("c", "d"):
                held = scope.conversations.get(name, {})
                found = memory.conversation(name, within).messages
                assert {each.id: each.text for each in found} == held
                assert [each.id for each in found] == list(held)
            layers = memory.layers(namespace=within)
            assert layers.core.get() == shown(scope.counting(), "core")
            assert {each.id: each.content for each in layers.archival.all()} == shown(scope.counting(), "record")
            assert {each.subject for each in memory.facts(namespace=within).as_of()} == set(scope.facts.values())
            items = memory.store.search((*within, "items"), limit=10)
            assert {each.key: each.value["text"] for each in items} == scope.items
            for name in ("monday", "tuesday", "copy"):
                self.check_thread(memory, user, name, scope.threads.get(name, Thread()))
            self.check_search(memory, user, scope)

    def check_thread(self, memory: AgentMemory, user: str, name: str, thread: Thread) -> None:
        recorded = [each.text for each in memory.conversation(name, ("users", user)).messages]
        assert recorded == list(thread.head.said)
        for place, there in [*thread.lines.items()][-3:]:
            config = config_of(user, name, checkpoint_id=place)
            saved = memory.checkpointer.get_tuple(config)
            assert saved is not None
            assert [each.text for each in saved.checkpoint["channel_values"]["messages"]] == list(there.said)
            assert memory.layers(config, scope="thread").core.get() == shown(there.writes, "core")

    def check_search(self, memory: AgentMemory, user: str, scope: Scope) -> None:
        """A copy of a thread adds nothing to what others find as long as the thread is there."""
        said = {*scope.items.values(), *(text for talk in scope.conversations.values() for text in talk.values())}
        copied: set[str] = set()
        for thread in scope.threads.values():
            said.update({*thread.head.said} - {*thread.given})
            copied.update(thread.given)
        for word in self.spoken[user][-3:]:
            found = bool(memory.search(word, namespace=("users", user)))
            assert found or word not in said, word
            assert not found or word in said | copied, word
            assert memory.search(word, namespace=("users", "bob" if user == "ada" else "ada")) == []


def run(url: str, folder: Path, examples: int, steps: int) -> None:
    machine = type("Machine", (WholeMemory,), {"url": url, "folder": folder})
    few = settings(max_examples=examples, stateful_step_count=steps, deadline=None, database=None)
    checks, phases = list(HealthCheck), [Phase.generate, Phase.shrink]
    run_state_machine_as_test(
        machine, settings=settings(few, derandomize=examples < FEW, suppress_health_check=checks, phases=phases)
    )


FEW = 10


def test_few_random_sequences_match_the_model(url, tmp_path):
    """The same each time."""
    run(url, tmp_path, 3 if url.startswith("postgres") else 6, 12)


@pytest.mark.deep
@pytest.mark.timeout(0)
def test_many_random_sequences_match_the_model(url, tmp_path):
    run(url, tmp_path, 150, 30)
