"""The memory that is compared with the oracle."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig

from langchain_agentmem import AgentMemory
from langchain_agentmem.layers.layer import LayersConfig

WHOLE = LayersConfig(recall_max_events=10_000)
"""Settings without consolidation of old events."""


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

    def recall(self, config: RunnableConfig) -> Any:
        return self.memory.layers(config, settings=WHOLE).recall

    def adding(self, config: RunnableConfig, name: str, a: str) -> Any:
        """Add an id to the memory of a task; if `a` is "a", return an awaitable."""
        return getattr(self.recall(config), f"{a}append")("note", name)

    def added(self, name: str, found: Any) -> None:
        """Hook: an id was added."""

    def looking(self, config: RunnableConfig, a: str) -> Any:
        """Read the memory of a task or checkpoint; if `a` is "a", return an awaitable."""
        return getattr(self.recall(config), f"{a}recent")(limit=None)

    def names(self, found: Any) -> list[str]:
        """Return the ids in a result of `looking`, in order."""
        return [each.content for each in found]

    def remember(self, config: RunnableConfig, name: str) -> None:
        self.added(name, self.adding(config, name, ""))

    async def aremember(self, config: RunnableConfig, name: str) -> None:
        self.added(name, await self.adding(config, name, "a"))

    def remembered(self, config: RunnableConfig) -> Any:
        found = self.names(self.looking(config, ""))
        if type(self) is Real and "__pregel_task_id" not in config["configurable"]:
            newest = self.names(self.recall(config).recent(limit=3))
            assert newest == found[-3:], f"the newest are {newest}, and all are {found}"
        return found

    async def aremembered(self, config: RunnableConfig) -> Any:
        return self.names(await self.looking(config, "a"))

    def reopen(self) -> None:
        """Reopen the database, as another process would."""
        self.memory.close()
        self.memory = self.opened()

    def close(self) -> None:
        self.memory.close()
