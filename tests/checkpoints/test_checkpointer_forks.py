"""Forks, replays, delta channels and interrupts: every checkpoint keeps its state."""

from __future__ import annotations

from typing import Annotated, TypedDict

import pytest
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, Overwrite

from .graphs import NOTHING, Line, asking_graph, at, everything, id_in, logging_graph


def history(graph, config=None):
    return {id_in(state.config): state for state in graph.get_state_history(config or at())}


def where(graph, *, before, length):
    """Return the config of the checkpoint before a node with a log of the given length."""
    [found] = [
        state.config
        for state in graph.get_state_history(at())
        if state.next == (before,) and len(state.values["log"]) == length
    ]
    return found


class TestForks:
    def test_updating_an_old_checkpoint_leaves_other_branches_unchanged(self, saver):
        graph = logging_graph(saver, "a", "b", "c")
        graph.invoke({"log": ["in"]}, at())
        before, tip = history(graph), graph.get_state(at())
        old = where(graph, before="b", length=2)
        updated = graph.update_state(old, {"log": ["edited"]})
        assert id_in(graph.get_state(updated).parent_config) == id_in(old)
        assert graph.invoke(None, updated)["log"] == ["in", "a", "edited", "b", "c"]
        assert graph.get_state(at()).values["log"] == ["in", "a", "edited", "b", "c"]
        assert graph.get_state(tip.config).values["log"] == ["in", "a", "b", "c"]
        after = history(graph)
        assert after | before == after
        assert len(after) == len(before) + 3

    def test_an_old_checkpoint_can_be_replayed(self, saver):
        graph = logging_graph(saver, "a", "b")
        graph.invoke({"log": ["in"]}, at())
        first = graph.get_state(at()).config
        old = where(graph, before="b", length=2)
        assert graph.invoke(None, old)["log"] == ["in", "a", "b"]
        assert graph.invoke({"log": ["other"]}, old)["log"] == ["in", "a", "other", "a", "b"]
        assert graph.invoke({"log": ["more"]}, first)["log"] == ["in", "a", "b", "more", "a", "b"]
        assert graph.get_state(first).values["log"] == ["in", "a", "b"]
        sources = [state.metadata["source"] for state in graph.get_state_history(at())]
        assert sources.count("fork") == 1


def collect(log, writes):
    return log + [text for write in writes for text in write]


class Delta(TypedDict):
    log: Annotated[list[str], DeltaChannel(collect, snapshot_frequency=3)]
    rare: Annotated[list[str], DeltaChannel(collect)]


def delta_graph(saver):
    nodes = {"b": lambda state: {"log": ["b"], "rare": [f"b of {len(state['log'])}"]}}
    return logging_graph(saver, "a", "b", state=Delta, nodes=nodes)


def grown(graph, turns=4, thread="t", **options):
    for turn in range(turns):
        graph.invoke({"log": [f"in {turn}"]}, at(thread), **options)
    return [text for turn in range(turns) for text in (f"in {turn}", "a", "b")]


class TestDeltaChannels:
    async def test_delta_channel_state_is_rebuilt(self, saver):
        graph = delta_graph(saver)
        for durability in ("sync", "async", "exit"):
            config = at(durability)
            log = grown(graph, thread=durability, durability=durability)
            await graph.ainvoke({"log": ["in 4"]}, config, durability=durability)
            for values in (graph.get_state(config).values, (await graph.aget_state(config)).values):
                assert values["log"] == [*log, "in 4", "a", "b"]
                assert values["rare"] == [f"b of {n}" for n in range(2, 16, 3)]

    async def test_delta_channel_history_matches_the_base_saver(self, saver):
        graph = delta_graph(saver)
        grown(graph)
        told = {"config": None, "channels": ["log", "rare", "unknown"]}
        for state in graph.get_state_history(at()):
            told["config"] = state.config
            found = saver.get_delta_channel_history(**told)
            assert found == BaseCheckpointSaver.get_delta_channel_history(saver, **told)
            assert found == await saver.aget_delta_channel_history(**told)
        assert saver.get_delta_channel_history(config=at(), channels=[]) == {}
        assert saver.get_delta_channel_history(config=at("nobody"), channels=["log"]) == {"log": {"writes": []}}

    async def test_a_none_value_is_not_a_seed(self, saver):
        """As with PostgresSaver: a channel that held nothing begins empty."""
        line = Line(saver)
        saver.put_writes(line.put({"log": None, "rare": ["one"]}), [("log", ["two"]), ("rare", ["two"])], "task")
        line.put({"log": NOTHING, "rare": NOTHING})
        told = {"config": at(), "channels": ["log", "rare"]}
        found = saver.get_delta_channel_history(**told)
        assert found == await saver.aget_delta_channel_history(**told)
        assert found == {
            "log": {"writes": [("task", "log", ["two"])]},
            "rare": {"writes": [("task", "rare", ["two"])], "seed": ["one"]},
        }
        assert delta_graph(saver).get_state(at()).values == {"log": ["two"], "rare": ["one", "two"]}

    def test_delta_channel_history_reads_no_other_channels(self, saver):
        line = Line(saver)
        saver.put_writes(line.put({"log": ["one"], "other": "x"}), [("log", ["two"]), ("other", "y")], "task")
        line.put({"log": NOTHING, "other": NOTHING})
        for table in ("channel_value", "pending_write"):
            damage = f"update {table} set recipe = :none where channel = 'other'"
            saver.database.engine.write(lambda tx, damage=damage: tx.run_sql(damage, {"none": b""}))
        found = saver.get_delta_channel_history(config=at(), channels=["log"])
        assert found == {"log": {"writes": [("task", "log", ["two"])], "seed": ["one"]}}

    def test_pruning_keeps_threads_with_delta_channels(self, saver):
        graph = delta_graph(saver)
        log = grown(graph)
        logging_graph(saver, "a", "b").invoke({"log": ["in"]}, at("plain"))
        before = everything(saver)
        saver.prune(["t", "plain"])
        assert everything(saver) == before
        assert len(everything(saver, "plain")) == 1
        assert graph.get_state(at()).values["log"] == log
        graph.invoke({"log": ["more"]}, at())
        assert graph.get_state(at()).values["log"] == [*log, "more", "a", "b"]
        saver.prune(["t"], strategy="delete")
        assert everything(saver) == []

    def test_delta_channels_survive_copy_prune_and_fork(self, saver):
        graph = delta_graph(saver)
        log = grown(graph)
        saver.copy_thread("t", "copy")
        saver.prune(["t", "copy"])
        for thread in ("t", "copy"):
            old = next(state for state in graph.get_state_history(at(thread)) if len(state.values["log"]) == 5)
            graph.invoke({"log": [f"fork in {thread}"]}, old.config)
            assert graph.get_state(at(thread)).values["log"] == [*log[:5], f"fork in {thread}", "a", "b"]
            updated = graph.update_state(old.config, {"log": ["edited"]}, as_node="a")
            assert graph.invoke(None, updated)["log"] == [*log[:5], "edited", "b"]
        saver.delete_thread("t")
        logs = [state.values["log"] for state in graph.get_state_history(at("copy"))]
        assert log in logs
        assert [*log[:5], "edited", "b"] in logs

    def test_overwrite_resets_a_delta_channel(self, saver):
        graph = delta_graph(saver)
        grown(graph)
        graph.invoke({"log": Overwrite(["anew"])}, at())
        assert graph.get_state(at()).values["log"] == ["anew", "a", "b"]


@pytest.mark.sqlite_suffices
class TestInterrupts:
    def test_resume_answers_belong_to_their_fork(self, saver):
        graph = asking_graph(saver)
        graph.invoke({"log": ["in"]}, at())
        asked = graph.get_state(at())
        graph.invoke(Command(resume="one"), at())
        fork = graph.update_state(asked.parent_config, {"log": ["edited"]}, as_node="__start__")
        graph.invoke(None, fork)
        assert [each.value for each in graph.get_state(at()).interrupts] == ["What?"]
        graph.invoke(Command(resume="two"), at())
        assert graph.get_state(at()).values["log"] == ["in", "edited", "a", "two", "z"]
        assert ["in", "a", "one", "z"] in [state.values["log"] for state in graph.get_state_history(at())]
