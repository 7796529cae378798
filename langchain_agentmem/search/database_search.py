"""A search of a whole database: by words, and by vectors where there are embeddings."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from langchain_agentmem.base.concurrency import check_cancelled
from langchain_agentmem.errors import DatabaseReadOnly
from langchain_agentmem.search import memory_search
from langchain_agentmem.search.embedding import Embedder
from langchain_agentmem.search.memory_search import Recollection
from langchain_agentmem.search.ranking import WEIGHTS, Weights
from langchain_agentmem.search.timeline import MOST_COMPARED, Order, in_time
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

    asked: memory_search.Inquiry
    walls: memory_search.Walls
    limit: int
    weights: Weights | None = None
    outlook: memory_search.Viewpoint | None = None
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
        limit, (question, now), walls = self.limit, self.asked, self.walls
        if limit == 0 or (walls.kinds is not None and not walls.kinds):
            return []
        phrases, diversity, is_timed = question.phrases, (self.weights or WEIGHTS).diversity, self.order == "time"
        looked = None if self.outlook is None else self.outlook.looked(tx, now)
        walls = walls if looked is None else looked.within(tx, walls, now)
        several = walls.kinds is None or len(walls.kinds) > 1  # of which two may say the same
        many = limit * (memory_search.MORE if phrases or diversity or is_timed else 2 if several else 1)
        while True:
            hits = memory_search.search(
                tx, self.asked, walls, limit=many, weights=self.weights, dense=dense, order=self.order
            )
            given = memory_search.given_to_user(tx, hits, now, looked)
            if is_timed:
                hits.sort()  # what was said at the same time stays in the order of its places
            known = (given[hit.document] for hit in hits if hit.document in given)
            trusted = (each for each in known if memory_search.trusts(each, walls.trusted))
            found = memory_search.once(trusted, in_time=is_timed)
            if phrases:
                found = [memory_search.with_phrases(each, phrases, (self.weights or WEIGHTS).phrase) for each in found]
            seen = len(found)
            if is_timed:
                found = in_time(found, question, limit)
            elif phrases:
                found.sort(key=lambda each: -each.score)
            if (seen if many >= MOST_COMPARED else len(found)) >= limit or len(hits) < many:
                break
            many *= memory_search.MORE  # some of them have expired, cannot be seen from here, or repeat others
        return memory_search.different(found, limit, diversity) if diversity and not is_timed else found[:limit]

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
