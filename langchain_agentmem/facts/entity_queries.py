"""Names, and facts as a graph of what they name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from langchain_agentmem.facts import fact_commands, fact_graph, fact_traces
from langchain_agentmem.facts.fact import Alias, Entity, Fact, Neighbour
from langchain_agentmem.facts.kg_memory_base import LearningFacts
from langchain_agentmem.language_models.model_calls import Do, Work
from langchain_agentmem.rewinding.memory_access import as_step, listed, looking
from langchain_agentmem.rewinding.memory_rows import View
from langchain_agentmem.storage import Steps

T = TypeVar("T")


class ConnectedFacts(LearningFacts):
    """Names, entities and what connects them; see `KGMemory`."""

    def merge(self, name: str, into: str) -> None:
        """Have two names mean one thing. Facts stay as they were told; `unmerge` takes it back.

        Args:
            name: The one name.
            into: The name that both go by from now on.

        Raises:
            InvalidInput: They are merged the other way round.
        """
        return self._do(fact_commands.merging_names(self._ground, name, into))

    async def amerge(self, name: str, into: str) -> None:
        """`merge`, awaited."""
        return await self._ado(fact_commands.merging_names(self._ground, name, into))

    def unmerge(self, name: str) -> bool:
        """Have a name mean only itself again, or refuse a proposal.

        Args:
            name: The name that was merged.

        Returns:
            Whether it was merged, or proposed to be.
        """
        return self._do(fact_commands.parting(self._ground, name))

    async def aunmerge(self, name: str) -> bool:
        """`unmerge`, awaited."""
        return await self._ado(fact_commands.parting(self._ground, name))

    def aliases(self, *, proposed: bool = False) -> list[Alias]:
        """The names that are merged.

        Args:
            proposed: Those that a model proposes to merge, instead. Nothing comes of a proposal until `merge` is
            called.
        """
        return self._do(self._aliases(proposed=proposed))

    async def aaliases(self, *, proposed: bool = False) -> list[Alias]:
        """`aliases`, awaited."""
        return await self._ado(self._aliases(proposed=proposed))

    def entities(self, prefix: str = "", limit: int | None = None) -> list[Entity]:
        """What facts are about, or name, by the beginning of a name.

        Args:
            prefix: How the name begins; case does not count. Default: any name.
            limit: Most entities. Default: all.
        """
        return self._do(fact_graph.entities(self._ground, prefix, limit))

    async def aentities(self, prefix: str = "", limit: int | None = None) -> list[Entity]:
        """`entities`, awaited."""
        return await self._ado(fact_graph.entities(self._ground, prefix, limit))

    def neighbours(
        self,
        entity: str,
        depth: int = 1,
        *,
        predicates: Sequence[str] | None = None,
        valid: datetime | None = None,
        recorded: datetime | None = None,
    ) -> list[Neighbour]:
        """What is connected with an entity by facts, whichever way they point.

        Args:
            entity: Its name.
            depth: How many facts may lie between, at most 1,000, which is what more counts as. Default: 1.
            predicates: Only by facts with these predicates. Default: any.
            valid: Only by what held at this time. Default: now.
            recorded: What we learned later does not count. Default: all counts.

        Returns:
            The nearest first, by name.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return self._do(
            fact_graph.neighbours(self._ground, entity, depth, predicates=predicates, valid=valid, recorded=recorded)
        )

    async def aneighbours(
        self,
        entity: str,
        depth: int = 1,
        *,
        predicates: Sequence[str] | None = None,
        valid: datetime | None = None,
        recorded: datetime | None = None,
    ) -> list[Neighbour]:
        """`neighbours`, awaited."""
        return await self._ado(
            fact_graph.neighbours(self._ground, entity, depth, predicates=predicates, valid=valid, recorded=recorded)
        )

    def path(
        self,
        start: str,
        end: str,
        *,
        max_depth: int = fact_graph.FARTHEST,
        predicates: Sequence[str] | None = None,
        valid: datetime | None = None,
        recorded: datetime | None = None,
    ) -> list[Fact] | None:
        """A shortest chain of facts that connects two entities, whichever way they point.

        Args:
            start: The one.
            end: The other.
            max_depth: Most facts, at most 1,000, which is what more counts as. Default: 6.
            predicates: Only facts with these predicates. Default: any.
            valid: Only what held at this time. Default: now.
            recorded: What we learned later does not count. Default: all counts.

        Returns:
            The facts in their order; empty for one and the same entity; None if there is no such chain.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return self._do(
            fact_graph.path(
                self._ground,
                start,
                end,
                max_depth=max_depth,
                predicates=predicates,
                valid=valid,
                recorded=recorded,
            )
        )

    async def apath(
        self,
        start: str,
        end: str,
        *,
        max_depth: int = fact_graph.FARTHEST,
        predicates: Sequence[str] | None = None,
        valid: datetime | None = None,
        recorded: datetime | None = None,
    ) -> list[Fact] | None:
        """`path`, awaited."""
        return await self._ado(
            fact_graph.path(
                self._ground,
                start,
                end,
                max_depth=max_depth,
                predicates=predicates,
                valid=valid,
                recorded=recorded,
            )
        )

    def to_networkx(
        self,
        entity: str | None = None,
        depth: int = 2,
        *,
        valid: datetime | None = None,
        recorded: datetime | None = None,
    ) -> Any:
        """The facts as a `networkx.MultiDiGraph` (extra `[graph]`), whose edges are facts, with their fields.

        Args:
            entity: Only what is around this. Default: all.
            depth: How far around it, at most 1,000 facts, which is what more counts as. Default: 2.
            valid: What held at this time. Default: now.
            recorded: What we learned later does not count. Default: all counts.

        Raises:
            MissingExtra: networkx is not installed.
        """
        return self._do(self._drawn(fact_graph.as_networkx, entity, depth, valid, recorded))

    async def ato_networkx(
        self,
        entity: str | None = None,
        depth: int = 2,
        *,
        valid: datetime | None = None,
        recorded: datetime | None = None,
    ) -> Any:
        """`to_networkx`, awaited."""
        return await self._ado(self._drawn(fact_graph.as_networkx, entity, depth, valid, recorded))

    def to_json(
        self,
        entity: str | None = None,
        depth: int = 2,
        *,
        valid: datetime | None = None,
        recorded: datetime | None = None,
    ) -> dict[str, Any]:
        """The facts as nodes and links, as networkx (`node_link_graph`) and D3 read them.

        Args:
            entity: Only what is around this. Default: all.
            depth: How far around it, at most 1,000 facts, which is what more counts as. Default: 2.
            valid: What held at this time. Default: now.
            recorded: What we learned later does not count. Default: all counts.
        """
        return self._do(self._drawn(fact_graph.as_json, entity, depth, valid, recorded))

    async def ato_json(
        self,
        entity: str | None = None,
        depth: int = 2,
        *,
        valid: datetime | None = None,
        recorded: datetime | None = None,
    ) -> dict[str, Any]:
        """`to_json`, awaited."""
        return await self._ado(self._drawn(fact_graph.as_json, entity, depth, valid, recorded))

    def to_mermaid(
        self,
        entity: str | None = None,
        depth: int = 2,
        *,
        valid: datetime | None = None,
        recorded: datetime | None = None,
    ) -> str:
        """The facts as a flow chart of Mermaid.

        Args:
            entity: Only what is around this. Default: all.
            depth: How far around it, at most 1,000 facts, which is what more counts as. Default: 2.
            valid: What held at this time. Default: now.
            recorded: What we learned later does not count. Default: all counts.
        """
        return self._do(self._drawn(fact_graph.as_mermaid, entity, depth, valid, recorded))

    async def ato_mermaid(
        self,
        entity: str | None = None,
        depth: int = 2,
        *,
        valid: datetime | None = None,
        recorded: datetime | None = None,
    ) -> str:
        """`to_mermaid`, awaited."""
        return await self._ado(self._drawn(fact_graph.as_mermaid, entity, depth, valid, recorded))

    def _aliases(self, *, proposed: bool) -> Work[list[Alias]]:
        def look(view: View) -> Steps[list[Alias]]:
            agreed = yield from self._ground.rules(view)
            return [alias for alias in agreed.aliases.values() if alias.merged is not proposed]

        told = partial(listed, "aliases", show=lambda each: {"alias": each.name, "same_as": each.into})
        return (yield from looking(self._ground, "facts.aliases", look, outputs=told, proposed=proposed))

    def _drawn(
        self,
        draw: Callable[[Iterable[Fact]], T],
        entity: str | None,
        depth: int,
        valid: datetime | None,
        recorded: datetime | None,
    ) -> Work[T]:
        work = fact_graph.shown(self._ground, entity, depth, valid=valid, recorded=recorded)
        asked: dict[str, Any] = {"entity": entity, "depth": depth, "valid": valid, "recorded": recorded}
        facts = yield from as_step(self._ground, "facts.draw", work, outputs=fact_traces.listed, **asked)
        drawn: T = yield Do(partial(draw, facts))  # it may have to load what draws
        return drawn
