"""The oracle of shared memory: what the heads of the threads of a scope show, and what was folded into main.

It follows the scripts of rewind equality, with all threads in one scope. Each id that is remembered has an author, the
thread whose task remembered it; a copy of a thread teaches only what it adds. So what anybody sees follows from the
states at the heads, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from langchain_core.runnables import RunnableConfig

from langchain_agentmem import AgentMemory

from .adapters import WHOLE, Real
from .oracle import World, address, state_of


class Shared(Real):
    """`memory.layers(config).recall`, where all threads are one scope.

    Args:
        url: The database.
        scope: The scope's name. Default: the root.
    """

    def __init__(self, url: str, scope: str = "") -> None:
        self.scope = (scope,) if scope else ()
        super().__init__(url)

    def opened(self) -> AgentMemory:
        return AgentMemory(self.url, namespace=self.scope)

    def outside(self) -> list[str]:
        """The ids that main shows."""
        return [each.content for each in self.memory.layers(settings=WHOLE).recall.recent(limit=None)]

    def alone(self, config: RunnableConfig) -> list[str]:
        """The ids that a thread's own line shows."""
        recall = self.memory.layers(config, scope="thread", settings=WHOLE).recall
        return [each.content for each in recall.recent(limit=None)]


class Scope(World):
    """A world in which every thread sees what the others' heads show."""

    adapter: Shared

    def __init__(self, adapter: Shared, label: str = "") -> None:
        self.author: dict[str, tuple[str, int]] = {}
        self.lives: dict[str, int] = {}
        self.main: set[str] = set()
        super().__init__(adapter, label)

    def me(self, thread: str) -> tuple[str, int]:
        """The author that a thread is: begun anew under a former id, it is another."""
        return thread, self.lives.get(thread, 0)

    def name(self, caller: str, config: Any) -> str:
        found = super().name(caller, config)
        self.author[found] = self.me(config["configurable"]["thread_id"])
        return found

    def taught(self, thread: str) -> set[str]:
        """What the head of a thread shows of its own."""
        found = self.here(thread, 1)
        return {each for each in (state_of(found[0]) if found else ()) if self.author[each] == self.me(thread)}

    def others(self, thread: str | None) -> set[str]:
        """What counts of all but one."""
        return self.main.union(*(self.taught(each) for each in self.threads if each != thread))

    def looked(self, config: Any, moment: str, expected: list[str], got: list[str]) -> None:
        thread = config["configurable"]["thread_id"]
        super().looked(config, moment, [*expected, *sorted(self.others(thread))], got)

    def out_of_order(self, got: list[str]) -> str | None:
        """What others committed stands where it was committed."""
        return None

    def check(self, threads: Iterable[str], most: int | None = None) -> None:
        for thread in self.threads:
            at: Any = {"configurable": {"thread_id": thread}}
            found = self.here(thread, 1)
            own = state_of(found[0]) if found else []
            self.compare(f"head of {thread}", "", "", [*own, *sorted(self.others(thread))], self.adapter.remembered(at))
        self.compare("main", "", "", sorted(self.others(None)), self.adapter.outside())
        for thread in threads:
            limit = None if most is None else 3 * most
            for each in self.adapter.saver.list({"configurable": {"thread_id": thread}}, limit=limit):
                at = address(each)
                space = at["checkpoint_ns"]
                self.compare(f"line of {at}", space, space, state_of(each), self.adapter.alone({"configurable": at}))

    def follow(self, script: dict[str, Any]) -> None:
        super().follow(script)
        if problems := self.adapter.memory.verify().problems:
            self.differences.append(f"{self.where}: verify says {problems}")

    def perform(self, number: int, action: dict[str, Any]) -> None:
        super().perform(number, action)
        rng = Random(f"{self.label}{number}{self.names}")
        if rng.random() < 0.15:
            self.delete(rng.choice(self.threads))

    def forget(self, thread: str, action: dict[str, Any]) -> None:
        self.delete(thread)

    def delete(self, thread: str) -> None:
        """Delete a thread: what it taught is main's."""
        self.where += f", then {thread} is deleted"
        seen = {each: self.adapter.remembered({"configurable": {"thread_id": each}}) for each in self.threads}
        self.main |= self.taught(thread)
        self.adapter.saver.delete_thread(thread)
        self.lives[thread] = self.lives.get(thread, 0) + 1
        for each in self.threads:
            if each != thread:
                now = self.adapter.remembered({"configurable": {"thread_id": each}})
                self.compare(f"{each} after {thread} was deleted", "", "", seen[each], now)
        self.check([])
