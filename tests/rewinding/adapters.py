"""The memory that is held against the oracle."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig

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
