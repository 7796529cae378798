"""A search of a whole database: by words, and by vectors where there are embeddings."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from langchain_agentmem.errors import DatabaseReadOnly
from langchain_agentmem.search.embedding import Embedder
from langchain_agentmem.search.memory_search import Inquiry, Recollection, Viewpoint, Walls, recollect
from langchain_agentmem.search.ranking import Weights
from langchain_agentmem.search.timeline import Order
from langchain_agentmem.search.vectors import Near
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import Part, all_parts
from langchain_agentmem.tracing import SILENT, Step, Thunk, documents


class Search(NamedTuple):
    """A search, as it can be asked of a database, or yielded by work; the answer is a list of recollections.

    Attributes:
        asked: The query, analysed.
        walls: Where to look.
        limit: Most results.
        weights: How much each signal counts. Default: as measured, with vectors or without.
        outlook: From where it looks. Default: from nowhere in particular.
        name: What the step is called in a trace, `<part>.<verb>`.
        inputs: What a trace shows beside the query and the limit.
        order: "score", the best first, or "time", the oldest first.
        shown: Whether work that yields it has a step of its own for it. If not, it is a detail of the step around it.
    """

    asked: Inquiry
    walls: Walls
    limit: int
    weights: Weights | None = None
    outlook: Viewpoint | None = None
    name: str = "search"
    inputs: Thunk | None = None
    order: Order = "score"
    shown: bool = True

    def find(self, database: Database) -> list[Recollection]:
        """What answers the query best, the best first."""
        engine = database.engine
        for part in self._unsettled():
            if engine.read(part.unsettled):
                _settle(database, part)
        return engine.read(partial(self._found, self._near(database)))

    async def afind(self, database: Database) -> list[Recollection]:
        """`find`, awaited."""
        engine = database.engine
        for part in self._unsettled():
            if await engine.aread(part.unsettled):
                await engine.in_thread(_settle, database, part, write=True)
        embedder = database.attachment(Embedder) if self.limit else None
        dense = None if embedder is None else await embedder.in_thread(self._near, database)
        return await engine.aread(partial(self._found, dense))

    def answer(self, database: Database) -> list[Recollection]:
        """`find`, as a step."""
        with self._step(database) as step:
            found = self.find(database)
            step.finish(lambda: documents(found))
        return found

    async def aanswer(self, database: Database) -> list[Recollection]:
        """`answer`, awaited."""
        async with self._step(database) as step:
            found = await self.afind(database)
            step.finish(lambda: documents(found))
        return found

    def _near(self, database: Database) -> Near | None:
        embedder = database.attachment(Embedder)
        return None if embedder is None or not self.limit else embedder.near(self.asked, self.walls)

    def _found(self, dense: Near | None) -> Any:
        return recollect(
            self.asked,
            self.walls,
            limit=self.limit,
            weights=self.weights,
            dense=dense,
            outlook=self.outlook,
            order=self.order,
        )

    def _unsettled(self) -> list[Any]:
        kinds = self.walls.kinds or ()
        return [
            part
            for part in all_parts().all
            if part.unsettled and any(each.stored_as in kinds for forms in part.found.values() for each in forms)
        ]

    def _step(self, database: Database) -> Step:
        if not self.shown:
            return SILENT
        return database.tracing.step(f"memory.{self.name}", run_type="retriever", inputs=self._sought)

    def _sought(self) -> dict[str, Any]:
        return {
            "query": self.asked.question.text,
            "limit": self.limit,
            **({} if self.inputs is None else self.inputs()),
        }


def _settle(database: Database, part: Part) -> None:
    """Have what waits enter the index, where somebody looks for it; a file may be read only."""
    if part.settle is not None:
        with suppress(DatabaseReadOnly):
            database.engine.write(part.settle)
