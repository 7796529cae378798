"""Memories that are held against the oracle: the real one, and rules that are wrong and must be found so."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langchain_agentmem import AgentMemory
from langchain_agentmem.layers.layer import LayersConfig

WHOLE = LayersConfig(recall_max_events=10_000)
"""Old events stay events."""


class Real:
    """`memory.layers(config).recall`, on `memory.checkpointer`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.memory = self.opened()

    def opened(self) -> AgentMemory:
        return AgentMemory(self.url)

    @property
    def saver(self) -> Any:
        return self.memory.checkpointer

    def remember(self, config: RunnableConfig, name: str) -> None:
        self.memory.layers(config, settings=WHOLE).recall.append("note", name)

    async def aremember(self, config: RunnableConfig, name: str) -> None:
        await self.memory.layers(config, settings=WHOLE).recall.aappend("note", name)

    def remembered(self, config: RunnableConfig) -> list[str]:
        recall = self.memory.layers(config, settings=WHOLE).recall
        found = [each.content for each in recall.recent(limit=None)]
        if "__pregel_task_id" not in config["configurable"]:
            newest = [each.content for each in recall.recent(limit=3)]
            assert newest == found[-3:], f"the newest are {newest}, and all are {found}"
        return found

    async def aremembered(self, config: RunnableConfig) -> list[str]:
        return [each.content for each in await self.memory.layers(config, settings=WHOLE).recall.arecent(limit=None)]

    def reopen(self) -> None:
        self.memory.close()
        self.memory = self.opened()

    def close(self) -> None:
        self.memory.close()


class Saver(InMemorySaver):
    """LangGraph's saver in memory, with what it lacks."""

    def __init__(self, rule: Wrong) -> None:
        super().__init__()
        self.rule = rule

    def put(self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any) -> RunnableConfig:
        configurable = config["configurable"]
        thread, space = configurable["thread_id"], configurable.get("checkpoint_ns", "")
        self.rule.putting(thread, space, checkpoint["id"], configurable.get("checkpoint_id"))
        return super().put(config, checkpoint, metadata, new_versions)

    async def aput(self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any) -> RunnableConfig:
        return Saver.put(self, config, checkpoint, metadata, new_versions)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        for space, checkpoints in self.storage[source_thread_id].items():
            self.storage[target_thread_id][space].update(checkpoints)
        for kept in (self.writes, self.blobs):
            for key in [key for key in kept if key[0] == source_thread_id]:
                kept[target_thread_id, *key[1:]] = kept[key]  # type: ignore[index]
        self.rule.copy(source_thread_id, target_thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    def prune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        for thread in thread_ids:
            for space, checkpoints in self.storage[thread].items():
                self.storage[thread][space] = defaultdict(dict, {max(checkpoints): checkpoints[max(checkpoints)]})

    async def aprune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        self.prune(thread_ids)


class Wrong:
    """A rule that looks right. What was remembered has a number, a thread, the step and the task that it came from."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str, str, str, str]] = []  # number, thread, checkpoint, task, id
        self.marks: dict[tuple[str, str, str], int] = {}
        self.parents: dict[tuple[str, str], str | None] = {}
        self.numbers = itertools.count(1)
        self.saver = Saver(self)

    def visible(self, thread: str, space: str, checkpoint: str) -> list[str]:
        raise NotImplementedError

    def putting(self, thread: str, space: str, checkpoint: str, parent: str | None) -> None:
        self.marks[thread, space, checkpoint] = next(self.numbers)
        self.parents[thread, checkpoint] = parent

    def copy(self, source: str, target: str) -> None:
        self.rows += [(number, target, *rest) for number, thread, *rest in self.rows if thread == source]
        self.marks |= {(target, *key[1:]): mark for key, mark in self.marks.items() if key[0] == source}
        self.parents |= {(target, key[1]): each for key, each in self.parents.items() if key[0] == source}

    def remember(self, config: RunnableConfig, name: str) -> None:
        configurable = config["configurable"]
        root = configurable["checkpoint_map"][""]
        self.rows.append((next(self.numbers), configurable["thread_id"], root, configurable["__pregel_task_id"], name))

    async def aremember(self, config: RunnableConfig, name: str) -> None:
        self.remember(config, name)

    def remembered(self, config: RunnableConfig) -> list[str]:
        configurable = config["configurable"]
        thread, task = configurable["thread_id"], configurable.get("__pregel_task_id")
        if task is None:
            return self.visible(thread, configurable["checkpoint_ns"], configurable["checkpoint_id"])
        seen = self.visible(thread, "", configurable["checkpoint_map"][""])
        return [*seen, *(row[4] for row in self.rows if row[1] == thread and row[3] == task and row[4] not in seen)]

    async def aremembered(self, config: RunnableConfig) -> list[str]:
        return self.remembered(config)

    def reopen(self) -> None:
        """Nothing is lost, so nothing changes but for the saver, which is slowed anew."""
        self.saver.__dict__ = {key: each for key, each in self.saver.__dict__.items() if "put" not in key}

    def close(self) -> None:
        pass


class HighWaterMark(Wrong):
    """Wrong: a checkpoint shows what had been remembered in its thread when it was put."""

    def visible(self, thread: str, space: str, checkpoint: str) -> list[str]:
        mark = self.marks.get((thread, space, checkpoint), 1 << 60)
        return [row[4] for row in self.rows if row[1] == thread and row[0] < mark]


class Ancestors(Wrong):
    """Wrong: a checkpoint shows what was remembered under the checkpoints that it descends from."""

    def visible(self, thread: str, space: str, checkpoint: str) -> list[str]:
        line, parent = set(), self.parents.get((thread, checkpoint))
        while parent is not None:
            line.add(parent)
            parent = self.parents.get((thread, parent))
        return [row[4] for row in self.rows if row[1] == thread and row[2] in line]
