"""Visibility of memory in a scope, case by case. A and B are threads of Ada."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.types import Command, interrupt

from langchain_agentmem import AgentMemory, Retention
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage.queries import load_queries
from tests.support import graphs as support

TEMPLATE, ADA = ("users", "{user_id}"), ("users", "ada")
at = partial(support.at, user_id="ada")


class State(TypedDict):
    act: str


class Threads:
    """Threads whose node runs a given function, and their views of core memory."""

    def __init__(self, memory):
        self.memory = memory
        self.acts: dict[str, Any] = {}
        self.graph = support.line(memory.checkpointer, self.node, state=State)

    def node(self, state, config):
        self.acts[state["act"]](self.memory.layers(config).core)
        return {"act": ""}

    def does(self, thread, act, **more):
        name = f"act {len(self.acts)}"
        self.acts[name] = act
        self.graph.invoke({"act": name}, at(thread), **more)

    def sets(self, thread, **values):
        self.does(thread, lambda core: [core.set(key, value) for key, value in values.items()])

    def sees(self, thread):
        return self.memory.layers(at(thread)).core.get()

    @property
    def outside(self):
        return self.memory.layers(namespace=ADA).core.get()

    def config(self, thread, back=0):
        return list(self.graph.get_state_history(at(thread)))[back].config

    def back(self, thread, back):
        self.graph.update_state(self.config(thread, back), {"act": ""})


@pytest.fixture
def threads(url):
    with AgentMemory(url, namespace=TEMPLATE) as memory:
        yield Threads(memory)


def test_committed_memory_is_visible_to_all_threads(threads):
    threads.sets("a", city="Lisbon")
    assert threads.sees("a") == threads.sees("b") == threads.outside == {"city": "Lisbon"}
    assert threads.memory.layers(at("a", user_id="bob")).core.get() == {}


@pytest.mark.parametrize("fails", [True, False])
def test_uncommitted_memory_is_visible_only_to_its_task(threads, fails):
    def act(core):
        core.set("city", "Lisbon")
        assert core.get() == {"city": "Lisbon"}
        assert threads.sees("b") == threads.outside == {}
        if fails:
            raise ValueError("failed")
        interrupt("?")

    with pytest.raises(ValueError, match="failed") if fails else nullcontext():
        threads.does("a", act)
    assert threads.sees("b") == threads.outside == {}
    if fails:
        assert threads.sees("a") == {}
    else:
        threads.graph.invoke(Command(resume="yes"), at("a"))
        assert threads.sees("b") == threads.outside == {"city": "Lisbon"}


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_the_later_commit_wins_across_threads(threads, durability):
    def act(core):
        core.set("city", "Lisbon")
        threads.sets("b", city="Porto")
        assert core.get() == {"city": "Lisbon"}
        assert threads.sees("b") == threads.outside == {"city": "Porto"}

    threads.does("a", act, durability=durability)
    assert threads.sees("a") == threads.sees("b") == threads.outside == {"city": "Lisbon"}


def test_rewinding_reveals_the_earlier_values(threads):
    threads.sets("a", city="1")
    past = threads.config("a")
    threads.sets("b", city="2")
    assert threads.sees("a") == threads.outside == {"city": "2"}
    assert threads.memory.layers(past).core.get() == {"city": "1"}
    threads.sets("a", city="3")
    assert threads.sees("b") == {"city": "3"}
    threads.graph.update_state(past, {"act": ""})
    assert threads.sees("a") == threads.sees("b") == {"city": "2"}
    assert threads.memory.layers(past).core.get() == {"city": "1"}


def test_past_checkpoints_show_memory_changed_since(threads):
    main, facts = threads.memory.layers(namespace=ADA), threads.memory.facts(namespace=ADA)
    main.write(core={"city": "Lisbon", "pet": "cat"})
    kept, gone = main.archival.write("quinces are ripe"), main.archival.write("quinces are sour")
    told = facts.add_fact("user", "Ada", "lives in", "Lisbon")
    for car in ("none", "red"):
        threads.sets("a", car=car)
    threads.sets("b", name="Bea")
    past = threads.config("b")
    threads.sets("a", car="blue")
    main.archival.update(kept, "medlars are ripe")
    main.archival.delete(gone)
    facts.remove_by_id(told)
    for city in ("Porto", "Faro"):
        main.core.set("city", city)
    main.core.delete("pet")
    assert threads.memory.layers(past).core.get() == {"city": "Lisbon", "pet": "cat", "car": "red", "name": "Bea"}
    assert threads.sees("b") == threads.outside == {"city": "Faro", "car": "blue", "name": "Bea"}
    then = threads.memory.layers(past).archival
    assert [each.content for each in then.all()] == ["quinces are ripe", "quinces are sour"]
    assert len(then.search("quinces")) == 2
    assert [each.object for each in threads.memory.facts(past).as_of()] == ["Lisbon"]
    assert facts.as_of() == []
    assert threads.memory.search("quinces", namespace=ADA) == []
    assert threads.memory.admin.verify().problems == ()


@pytest.mark.parametrize("end", ["prune", "delete", "retention"])
def test_old_main_values_are_deleted_with_their_checkpoints(url, raw, end):
    keep = Retention(keep_last=1) if end == "retention" else None
    with AgentMemory(url, namespace=TEMPLATE, retention=keep) as memory:
        threads, main = Threads(memory), memory.layers(namespace=ADA)
        for city in ("Lisbon", "Porto"):
            main.core.set("city", city)
        threads.sets("b", pet="cat")
        main.core.set("city", "Faro")
        main.core.set("city", "Braga")
        assert versions(memory, raw) == ["Braga", "Porto", "cat"]
        ada = memory.within(user_id="ada").checkpointer
        for number in range({"prune": 1, "delete": 0, "retention": 12}[end]):
            threads.sets("b", pet=f"dog {number}")
        if end == "prune":
            ada.prune(["b"])
        elif end == "delete":
            ada.delete_thread("b")
        assert "Porto" not in versions(memory, raw)
        assert threads.outside["city"] == "Braga"
        assert memory.admin.verify().problems == ()


@pytest.mark.sqlite_suffices
@pytest.mark.parametrize("name", ["releasable_memory", "superseded_memory"])
def test_checkpoints_showing_a_value_are_found_by_index(threads, raw, name):
    plan = raw(
        threads.memory, f"explain query plan {load_queries('sqlite')[name]}", ids="[1]", checkpoints=1, scope=1, limit=1
    )
    assert any("checkpoint_view_stamp (namespace_id=? AND <expr>>? AND <expr><?)" in row["detail"] for row in plan)


def versions(memory, raw):
    """Return all stored versions of core memory values."""
    rows = raw(memory, "select c.body from memory m join content c on c.id = m.content_id where m.kind = 'core'")
    return sorted(bytes(row["body"]).decode() for row in rows)


def test_a_task_writes_only_to_its_own_thread(threads):
    threads.sets("a", city="Lisbon")
    past = threads.config("a")

    def act(core):
        core.set("city", "Porto")
        layers = threads.memory.layers
        layers(at("a")).core.set("pet", "cat")
        assert layers(at("a")).core.get() == core.get() == {"city": "Porto", "pet": "cat"}
        assert layers(past).core.get() == layers(at("b")).core.get() == {"city": "Lisbon"}
        for other in (past, at("b")):
            with pytest.raises(InvalidInput, match="written by its nodes"):
                layers(other).core.set("pet", "dog")

    threads.does("a", act)
    assert threads.sees("b") == {"city": "Porto", "pet": "cat"}


def test_a_copied_thread_contributes_only_its_additions(threads):
    threads.sets("a", city="Lisbon")
    threads.memory.within(user_id="ada").checkpointer.copy_thread("a", "c")
    threads.back("a", -1)
    assert threads.sees("c") == {"city": "Lisbon"}
    assert threads.sees("b") == threads.outside == {}
    threads.sets("c", pet="cat")
    assert threads.outside == {"pet": "cat"}
    assert threads.sees("c") == {"city": "Lisbon", "pet": "cat"}


def test_a_restarted_thread_drops_its_earlier_memory(threads):
    threads.sets("a", city="Lisbon")
    begun = {**at("a")["configurable"], "checkpoint_ns": ""}
    threads.memory.checkpointer.put({"configurable": begun}, empty_checkpoint(), {"source": "input", "step": -1}, {})
    assert threads.sees("a") == threads.sees("b") == threads.outside == {}
    assert threads.memory.admin.verify().problems == ()


def test_expiry_does_not_reveal_older_values(url, clock):
    with AgentMemory(url, namespace=TEMPLATE, clock=clock) as memory:
        threads = Threads(memory)
        threads.sets("a", city="Lisbon")
        threads.does("b", lambda core: core.set("city", "Porto", ttl=60))
        assert threads.outside == {"city": "Porto"}
        clock.pass_time(seconds=120)
        assert threads.outside == {}


def test_named_branches_are_separate_from_threads(threads):
    threads.sets("a", city="Lisbon")
    experiment = threads.memory.within(user_id="ada").layers("experiment")
    experiment.core.set("pet", "cat")
    assert experiment.core.get() == {"pet": "cat"}
    assert threads.outside == {"city": "Lisbon"}
    threads.sets("b", name="Ada")
    assert threads.memory.layers(at("b"), scope="thread").core.get() == {"name": "Ada"}
