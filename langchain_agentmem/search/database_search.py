"""A search of a whole database: by words, and by vectors where there are embeddings."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from langchain_agentmem.base.concurrency import check_cancelled
from langchain_agentmem.errors import DatabaseReadOnly
from langchain_agentmem.search.embedding import Embedder
from langchain_agentmem.search.memory_search import Inquiry, Recollection, Viewpoint, Walls, recollect
from langchain_agentmem.search.ranking import Weights
from langchain_agentmem.search.timeline import Order
from langchain_agentmem.search.vectors import Near
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import Part, all_parts
from langchain_agentmem.storage.transaction import Transaction
from langchain_agentmem.tracing import SILENT, Step, Thunk, documents


class Search(NamedTuple):
    """A search of a database.

    Attributes:
        asked: The query, analysed.
        walls: Where to look.
        limit: Most results.
        weights: How much each signal counts. Default: as measured, with vectors or without.
        outlook: From where it looks. Default: from nowhere in particular.
        name: The name of the step in a trace, `<part>.<verb>`. None for a detail of the surrounding step.
        inputs: What a trace shows beside the query and the limit.
        order: "score", the best first, or "time", the oldest first.
    """

    asked: Inquiry
    walls: Walls
    limit: int
    weights: Weights | None = None
    outlook: Viewpoint | None = None
    name: str | None = "search"
    inputs: Thunk | None = None
    order: Order = "score"

    def find(self, database: Database) -> list[Recollection]:
        """Search a database, as one traced step.

        Returns:
            What answers the query best, the best first.
        """
        check_cancelled()
        engine, embedder = database.engine, database.attachment(Embedder)
        with self._step(database) as step:
            for part in all_parts().all:
                stored_as = {each.stored_as for forms in part.found.values() for each in forms}
                if part.unsettled and stored_as.intersection(self.walls.kinds or ()) and engine.read(part.unsettled):
                    _settle(database, part)
            near = None if embedder is None or not self.limit else embedder.near(self.asked, self.walls)
            found = engine.read(lambda tx: self._found(tx, near))
            step.finish(lambda: documents(found))
        return found

    def _found(self, tx: Transaction, dense: Near | None) -> list[Recollection]:
        given = self._asdict()
        more = {name: given[name] for name in ("asked", "walls", "limit", "weights", "outlook", "order")}
        return recollect(tx, **more, dense=dense)

    def _step(self, database: Database) -> Step:
        if self.name is None:
            return SILENT
        asked, more = {"query": self.asked.question.text, "limit": self.limit}, self.inputs
        return database.tracing.step(
            f"memory.{self.name}", run_type="retriever", inputs=lambda: {**asked, **(more() if more else {})}
        )


def _settle(database: Database, part: Part) -> None:
    """Have what waits enter the index, where somebody looks for it; a file may be read only."""
    if part.settle is not None:
        with suppress(DatabaseReadOnly):
            database.engine.write(part.settle)
