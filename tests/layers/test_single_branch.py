"""Reads and writes of a single branch take shorter paths, with the results of the general ones."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial

import pytest

from langchain_agentmem import AgentMemory, LayersConfig
from langchain_agentmem.errors import InvalidInput, MemoryClosed
from langchain_agentmem.layers.memory_layers import load_core
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.branches import MemorySession
from langchain_agentmem.rewinding.memory_rows import MemoryView
from tests.support.graphs import at, turn

NS = ("users", "ada")
START = datetime(2026, 1, 1, tzinfo=UTC)
SMALL = LayersConfig(core_max_chars=120, recall_max_events=4)
KEYS = ("a", "b", "c", "phase0_summary", "über")
VALUES = ("", "v", "long " * 8, "ü" * 30, "\ud800", "nul\x00nul")


def read_generally(layers) -> dict[str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryView, "single_branch", None)
        return layers._context.read(None, lambda tx, view: {each.key: each.text for each in load_core(tx, view)})


def check(layers) -> None:
    """Compare the values that all reads return with those of the general path."""
    expected = read_generally(layers)
    assert list(layers.core.get().items()) == list(expected.items())
    for key in KEYS:
        value = {key: expected[key]} if key in expected else {}
        assert layers.core.get(key) == layers.core.get([key, "missing"]) == value


def change_in_thread(layers, rng: random.Random, results: list[object]) -> None:
    """Change the memory of a thread in a task."""
    for _ in range(rng.randrange(1, 6)):
        try:
            layers.core.set(rng.choice(KEYS), rng.choice(VALUES), importance=rng.randrange(1, 6))
            layers.recall.append("note", "event")
            results.append(layers.core.delete(rng.choice(KEYS)))
        except InvalidInput as error:
            results.append(str(error))
        check(layers)
    results += list_memory(layers)


def list_memory(layers) -> list[object]:
    entries = [(each.key, each.value, each.created_at, each.importance) for each in layers.core.entries()]
    return [entries, len(layers.recall.recent(limit=None)), sorted(each.content for each in layers.archival.all())]


def act(memory, seed: int) -> list[object]:
    """Change the memory of branches, forks and threads at random; return all results."""
    rng, results = random.Random(seed), []
    branches = [
        memory.layers(namespace=NS, settings=SMALL),
        memory.layers("branch", settings=SMALL),
        memory.layers("main", settings=SMALL),
    ]
    for step in range(60):
        # LangGraph's threads read the clock too, so it stands still within a step.
        memory.database.clock = partial(START.replace, minute=step)
        layers, key, value = rng.choice(branches), rng.choice(KEYS), rng.choice(VALUES)
        match rng.randrange(12):
            case 0:
                results.append(layers.core.delete(key))
            case 1:
                branches.append(layers.fork(f"fork {step}"))
            case 2:
                entries = {each: rng.choice(VALUES) for each in rng.sample(KEYS, 2)}
                try:
                    results.append(layers.write(core=entries))
                except InvalidInput as error:
                    results.append(str(error))
            case 3:
                # With a shared namespace, the branch "main" has another author from now on.
                config = at("t") if step < 30 else at("t", namespace=NS)
                change = partial(change_in_thread, rng=rng, results=results)
                turn(memory.checkpointer, config, lambda config, act=change: act(memory.layers(config, settings=SMALL)))
            case 4:
                layers.core.set(key, "expires", ttl=60 * rng.randrange(1, 9))
            case _:
                try:
                    layers.core.set(key, value, importance=rng.randrange(1, 6))
                except InvalidInput as error:
                    results.append(str(error))
        check(layers)
        results += list_memory(layers)
    return results


@pytest.mark.verified
@pytest.mark.parametrize("seed", range(6))
def test_random_changes_have_the_results_of_the_general_path(memory, seed, new_id, monkeypatch):
    results = act(memory, seed)
    with AgentMemory(new_id=type(new_id)()) as other:
        monkeypatch.setattr(MemoryView, "single_branch", None)
        monkeypatch.setattr(MemorySession, "select_texts", lambda *_: None)
        assert act(other, seed) == results


def test_the_size_of_values_decides_whether_all_are_read(memory, monkeypatch):
    core = memory.layers("b", settings=LayersConfig(core_max_chars=20)).core
    loads: list[object] = []
    load_current = memory_rows.load_current
    monkeypatch.setattr(memory_rows, "load_current", lambda *given: loads.append(given) or load_current(*given))
    core.set("a", "1234567")  # 10 characters
    core.set("b", "123456")  # 9, and a line break
    assert loads == []
    core.set("b", "654321")  # the replaced value does not count
    assert loads == []
    core.set("b", "1234567")
    assert len(loads) == 1
    monkeypatch.undo()
    assert core.get() == {"b": "1234567"}


def test_hooks_report_the_same_step_on_both_paths(url):
    steps = []
    with AgentMemory(url, hooks=[steps.append]) as memory:
        layers = memory.layers("b")
        layers.core.set("k", "v")
        fork = layers.fork("f")
        steps.clear()
        assert layers.core.get() == fork.core.get() == layers.core.get("k") == fork.core.get("k") == {"k": "v"}
        finished = [step for step in steps if hasattr(step, "duration")]
        assert [step.name for step in finished] == ["memory.core.get"] * 4
        assert [step.outputs for step in finished] == [{"count": 1, "items": [{"key": "k", "value": "v"}]}] * 4
        assert [step.inputs.get("keys") for step in finished] == [None, None, ["k"], ["k"]]


def test_closed_memory_cannot_be_read(memory):
    core = memory.layers("b").core
    core.set("k", "v")
    memory.close()
    for keys in (None, "k"):
        with pytest.raises(MemoryClosed):
            core.get(keys)


async def test_cancelled_reads_leave_the_memory_usable(memory):
    core = memory.layers("b").core
    core.set("k", "v")
    reads = [asyncio.create_task(core.aget("k")) for _ in range(50)]
    await asyncio.sleep(0)
    for read in reads[::2]:
        read.cancel()
    results = await asyncio.gather(*reads, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in results[::2])
    assert results[1::2] == [{"k": "v"}] * 25
    assert await core.aget() == {"k": "v"}


def test_threads_read_whole_writes(memory):
    layers = memory.layers(namespace=NS)
    layers.write(core={"a": "0", "b": "0"})

    def read(_) -> None:
        for _ in range(30):
            values = layers.core.get()
            assert values["a"] == values["b"]
            assert len(layers.core.get("a")) == 1

    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(read, number) for number in range(3)]
        for number in range(30):
            layers.write(core={"a": str(number), "b": str(number)})
        for future in futures:
            future.result()


WRITER = """
import sys
from langchain_agentmem import AgentMemory
with AgentMemory(sys.argv[1]) as memory:
    layers = memory.layers(namespace=("users", "ada"))
    for number in range(40):
        layers.write(core={"a": str(number), "b": str(number), f"of {sys.argv[2]}": str(number)})
        values = layers.core.get()
        assert values["a"] == values["b"], values
        assert layers.core.get(f"of {sys.argv[2]}") == {f"of {sys.argv[2]}": str(number)}
"""


@pytest.mark.slow
def test_processes_that_write_one_branch_lose_nothing(url):
    processes = [subprocess.Popen([sys.executable, "-c", WRITER, url, name]) for name in ("x", "y")]
    assert [process.wait() for process in processes] == [0, 0]
    with AgentMemory(url) as memory:
        assert memory.layers(namespace=NS).core.get() == {"a": "39", "b": "39", "of x": "39", "of y": "39"}
        assert memory.admin.verify().problems == ()
