"""The oracle of shared memory: heads of the threads of a scope, and memory merged into main.

It follows the scripts of rewind equality, with all threads in one scope. Each id that is remembered has an author, the
thread whose task remembered it; a copy of a thread teaches only what it adds. So what anybody sees follows from the
states at the heads, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from types import SimpleNamespace
from typing import Any

from langchain_core.runnables import RunnableConfig

from langchain_agentmem import AgentMemory
from langchain_agentmem.rewinding import memory_rows

from .adapters import WHOLE, Real
from .oracle import NEVER, World, address, state_of


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
        """Return the ids visible in main."""
        return [each.content for each in self.memory.layers(settings=WHOLE).recall.recent(limit=None)]

    def alone(self, config: RunnableConfig) -> list[str]:
        """Return the ids on a thread's own line."""
        recall = self.memory.layers(config, scope="thread", settings=WHOLE).recall
        return [each.content for each in recall.recent(limit=None)]


class Scope(World):
    """A world in which every thread sees the heads of the others."""

    adapter: Shared

    def __init__(self, adapter: Shared, label: str = "") -> None:
        self.author: dict[str, tuple[str, int]] = {}
        self.lives: dict[str, int] = {}
        self.main: set[str] = set()
        self.began: dict[str, tuple[int, set[str]]] = {}
        """By the `checkpoint_ns` of a task: when it began to look, and what counted of others then."""
        super().__init__(adapter, label)

    def me(self, thread: str) -> tuple[str, int]:
        """The author that a thread is: begun anew under a former id, it is another."""
        return thread, self.lives.get(thread, 0)

    def name(self, caller: str, config: Any) -> str:
        found = super().name(caller, config)
        self.author[found] = self.me(config["configurable"]["thread_id"])
        return found

    def taught(self, thread: str) -> set[str]:
        """Return the own ids at the head of a thread."""
        found = self.here(thread, 1)
        return {each for each in (state_of(found[0]) if found else ()) if self.author[each] == self.me(thread)}

    def others(self, thread: str | None) -> set[str]:
        """Return the visible ids of all threads but one."""
        return self.main.union(*(self.taught(each) for each in self.threads if each != thread))

    def looks(self, config: Any, known: list[str]) -> list[str]:
        thread = config["configurable"]["thread_id"]
        others = self.others(thread) if thread.endswith("apart") else set()
        self.began[config["configurable"]["checkpoint_ns"]] = self.moment(), others
        return known

    def looked(self, config: Any, moment: str, expected: list[str], got: list[str]) -> None:
        if "(together)" in self.where or "(copies)" in self.where:  # what another commits meanwhile is seen, or not yet
            return
        thread = config["configurable"]["thread_id"]
        others = self.others(thread)
        if thread.endswith("apart") and others != self.began[config["configurable"]["checkpoint_ns"]][1]:
            return  # the checkpoint before the step that runs it was put while it looked: it saw that, or not yet
        super().looked(config, moment, [*expected, *sorted(others)], got)

    def out_of_order(self, got: list[str]) -> str | None:
        """Check nothing, since ids of other threads are placed by their commit."""
        return None

    def check(self, threads: Iterable[str], most: int | None = None) -> None:
        self.began.clear()
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

    def do(self, number: int, action: dict[str, Any]) -> list[str]:
        threads = super().do(number, action)
        if problems := self.adapter.memory.database.engine.read(memory_rows.find_problems):
            self.differences.append(f"{self.where}: verify says {problems}")
        return threads

    def follow(self, script: dict[str, Any]) -> None:
        super().follow(script)
        if problems := self.adapter.memory.admin.verify().problems:
            self.differences.append(f"{self.where}: verify says {problems}")

    def perform(self, number: int, action: dict[str, Any]) -> None:
        super().perform(number, action)
        rng = Random(f"{self.label}{number}{self.names}")
        if rng.random() < 0.15:
            self.delete(rng.choice(self.threads))

    def forget(self, thread: str, action: dict[str, Any]) -> None:
        self.delete(thread)

    def delete(self, thread: str) -> None:
        """Delete a thread; its shared memory moves to main."""
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


class SharedCore(Shared):
    """Values of core memory under few keys, set, overwritten and deleted: `memory.layers(config).core`.

    What is remembered under a name is the same each time: a value under one of four keys, or that the key is gone.
    """

    KEYS = "abcd"

    def __init__(self, url: str, scope: str = "") -> None:
        self.void: set[str] = set()
        """Names of deletions of unknown keys, which wrote nothing."""
        super().__init__(url, scope)

    def wish(self, name: str) -> tuple[str, bool]:
        """Return the key of a name, and whether the name deletes it."""
        rng = Random(name.rpartition("#")[2])
        return rng.choice(self.KEYS), rng.random() < 0.25

    def adding(self, config: RunnableConfig, name: str, a: str) -> Any:
        key, deleted = self.wish(name)
        core = self.memory.layers(config, settings=WHOLE).core
        return getattr(core, f"{a}delete")(key) if deleted else getattr(core, f"{a}set")(key, name)

    def added(self, name: str, found: Any) -> None:
        if self.wish(name)[1] and not found:
            self.void.add(name)

    def looking(self, config: RunnableConfig, a: str) -> Any:
        return getattr(self.memory.layers(config, settings=WHOLE).core, f"{a}get")()

    def names(self, found: Any) -> list[str]:
        return sorted(found.values())

    def outside(self) -> list[str]:
        return sorted(self.memory.layers(settings=WHOLE).core.get().values())

    def alone(self, config: RunnableConfig) -> list[str]:
        return sorted(self.memory.layers(config, scope="thread", settings=WHOLE).core.get().values())


class CoreScope(Scope):
    """What is seen of values that many write under one key: the newest by when it was first committed.

    A write is committed by the put that first shows it on the own line of a thread. Of two whose puts overlapped either
    may be the newer: neither of them waited for the other.
    """

    adapter: SharedCore
    AT_LAST = NEVER, NEVER
    """When that is committed which is not yet."""

    def __init__(self, adapter: SharedCore, label: str = "") -> None:
        self.stamps: dict[str, tuple[int, int]] = {}
        """By id: the moments at which its put began and ended."""
        super().__init__(adapter, label)

    def noted(self, config: Any, checkpoint: Any, begun: int) -> None:
        """A checkpoint was put."""
        if not config["configurable"].get("checkpoint_ns"):
            ended = self.moment()
            for name in state_of(SimpleNamespace(checkpoint=checkpoint)):
                self.stamps.setdefault(name, (begun, ended))

    def winners(self, names: Iterable[str], look: int = NEVER) -> dict[str, set[str]]:
        """By key the newest writes: several, where their puts overlapped, or had not ended when a look began."""
        of_keys: dict[str, set[str]] = {}
        for name in {*names} - self.adapter.void:
            of_keys.setdefault(self.adapter.wish(name)[0], set()).add(name)
        stamps = {name: self.stamps.get(name, self.AT_LAST) for each in of_keys.values() for name in each}
        stamps = {name: (begun, NEVER if ended > look else ended) for name, (begun, ended) in stamps.items()}
        return {
            key: {name for name in found if stamps[name][1] >= max(stamps[each][0] for each in found)}
            for key, found in of_keys.items()
        }

    def taught(self, thread: str) -> set[str]:
        found = self.here(thread, 1)
        won = self.winners(state_of(found[0]) if found else ()).values()
        return {each for several in won for each in several if self.author[each] == self.me(thread)}

    def compare(self, view: str, space: str, loop: str, expected: Iterable[str], got: list[str]) -> None:
        """Compare what a view shows with the winners of what state and others say."""
        with self.lock:
            self.checks += 1
            if space and self.failed_calls:  # a called graph keeps the state that its caller passed in, see `World`
                self.excused += 1
                return
            won = self.winners(expected, self.began.get(space, (NEVER, set()))[0])
            shown = {self.adapter.wish(name)[0]: name for name in got}
            for key, several in won.items():
                gone = [self.adapter.wish(name)[1] for name in several]
                fits = shown.get(key) in several if key in shown else any(gone)
                if not fits:
                    said = f"{self.where}: {view}\n    key {key}: state {sorted(several)} gone {gone}, memory {shown}"
                    self.differences.append(said)
            if more := shown.keys() - won.keys():
                self.differences.append(f"{self.where}: {view}\n    memory has {more} of {shown}, and state has none")


class PastScope(CoreScope):
    """A scope in which main sets, overwrites and deletes between the runs, and what past checkpoints show of that.

    A checkpoint shows its own line, and what main said last before it was put. Where another thread wrote a key after
    that and before the put, that thread may not have kept it, and the key is left out.
    """

    MAIN = ("", 0)

    def __init__(self, adapter: SharedCore, label: str = "") -> None:
        self.puts: dict[str, int] = {}
        """By the id of a checkpoint: the moment at which it was put."""
        super().__init__(adapter, label)

    def looked(self, config: Any, moment: str, expected: list[str], got: list[str]) -> None:
        """Compare what a task sees, unless its run may take in again what counted before.

        In such a run's tasks that is as new as what they write themselves, until the run puts a checkpoint.
        """
        if not any(f"({do})" in self.where for do in ("again", "go", "resume", "twice")):
            super().looked(config, moment, expected, got)

    def noted(self, config: Any, checkpoint: Any, begun: int) -> None:
        super().noted(config, checkpoint, begun)
        self.puts.setdefault(checkpoint["id"], self.moments)

    def stamp(self, name: str) -> int:
        return self.stamps.get(name, self.AT_LAST)[1]

    def speak(self, thread: str, action: dict[str, Any]) -> None:
        """Let main write several times."""
        core = self.adapter.memory.layers(settings=WHOLE).core
        for _ in range(action["number"]):
            self.names += 1
            name, now = f"m{self.names}", self.moment()
            key, deleted = self.adapter.wish(name)
            self.author[name], self.stamps[name] = self.MAIN, (now, now)
            self.adapter.added(name, core.delete(key) if deleted else core.set(key, name))
            self.main.add(name)

    def check(self, threads: Iterable[str], most: int | None = None) -> None:
        super().check(threads, most)
        for thread in self.threads:
            for each in self.here(thread, None if most is None else 5 * most):
                self.look_back(each)

    def look_back(self, found: Any) -> None:
        at = address(found)
        moment = self.puts[at["checkpoint_id"]]
        own = {*state_of(found)}
        known = own | {each for each in self.main if self.author[each] == self.MAIN and self.stamp(each) <= moment}
        got = self.adapter.remembered({"configurable": at})
        shown = {self.adapter.wish(name)[0]: name for name in got}
        with self.lock:
            self.checks += 1
            late = [name for name in got if name not in own and self.stamp(name) > moment]
            for key, several in self.winners(known).items():
                newest = self.stamp(next(iter(several)))
                others = {name for name in self.stamps if newest < self.stamp(name) <= moment} - known
                if key in {self.adapter.wish(name)[0] for name in others - self.adapter.void}:
                    continue
                if shown.get(key) not in several if key in shown else not any(map(self.deletes, several)):
                    late.append(f"not {key}: {sorted(several)}")
            if late:
                self.differences.append(f"{self.where}: past of {at}\n    shows {shown}, wrong is {late}")

    def deletes(self, name: str) -> bool:
        return self.adapter.wish(name)[1]
