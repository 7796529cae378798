"""What `facts.py` compares with: each keeps the same facts as a careful user of it would, and is asked the same.

Whoever adds the new value of a predicate that has one at a time is told the value before, and ends it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOREVER = datetime.max.replace(tzinfo=UTC)


def around(name: str, depth: int, named_by: Callable[[str], Iterable[str]]) -> set[str]:
    """Whom facts connect with an entity, level by level, given whom they connect with one."""
    seen, frontier = {name}, {name}
    for _ in range(depth):
        frontier = {other for each in frontier for other in named_by(each)} - seen
        seen |= frontier
    return seen - {name}


class Networkx:
    """A graph in memory whose edges are facts."""

    def __init__(self, path: Path) -> None:
        import networkx as nx

        del path
        self.graph = nx.MultiDiGraph()

    def add(self, fact: Any) -> None:
        for edge in self.graph[fact.subject][fact.before].values() if fact.before is not None else ():
            if edge["predicate"] == fact.predicate and edge["end"] == FOREVER:
                edge["end"] = fact.start
        self.graph.add_edge(
            fact.subject, fact.object, key=fact.number, predicate=fact.predicate, start=fact.start, end=FOREVER
        )

    def _near(self, name: str) -> Iterable[str]:
        now = datetime.now(UTC)
        to, of = self.graph.out_edges(name, data=True), self.graph.in_edges(name, data=True)
        ends = [*((other, edge) for _, other, edge in to), *((other, edge) for other, _, edge in of)]
        return [other for other, edge in ends if edge["start"] <= now < edge["end"]]

    def neighbours(self, name: str) -> set[str]:
        return around(name, 2, self._near) if name in self.graph else set()

    def _edges(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        known = name in self.graph
        return [(other, edge) for _, other, edge in self.graph.out_edges(name, data=True)] if known else []

    def holding(self, name: str, at: datetime) -> set[str]:
        return {other for other, edge in self._edges(name) if edge["start"] <= at < edge["end"]}

    def history(self, name: str) -> list[str]:
        edges = sorted((edge["start"], other) for other, edge in self._edges(name) if edge["predicate"] == "lives in")
        return [other for _, other in edges]

    def size(self) -> int:
        return 0

    def close(self) -> None:
        self.graph.clear()


class ByHand:
    """A table with an index on each end, in a file, with a transaction for each fact."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = sqlite3.connect(path, isolation_level=None)
        self.rows.executescript("""
            pragma journal_mode = wal; pragma synchronous = normal;
            create table fact (id integer primary key, subject, predicate, object, start, stop);
            create index by_subject on fact (subject, predicate); create index by_object on fact (object);
        """)

    def add(self, fact: Any) -> None:
        self.rows.execute("begin immediate")
        if fact.before is not None:
            self.rows.execute(
                "update fact set stop = ? where subject = ? and predicate = ? and stop = ?",
                (fact.start.isoformat(), fact.subject, fact.predicate, FOREVER.isoformat()),
            )
        self.rows.execute(
            "insert into fact (subject, predicate, object, start, stop) values (?, ?, ?, ?, ?)",
            (fact.subject, fact.predicate, fact.object, fact.start.isoformat(), FOREVER.isoformat()),
        )
        self.rows.execute("commit")

    def _near(self, name: str) -> list[str]:
        now = datetime.now(UTC).isoformat()
        found = self.rows.execute(
            "select object from fact where subject = :name and start <= :now and stop > :now "
            "union all select subject from fact where object = :name and start <= :now and stop > :now",
            {"name": name, "now": now},
        )
        return [row[0] for row in found]

    def neighbours(self, name: str) -> set[str]:
        return around(name, 2, self._near)

    def holding(self, name: str, at: datetime) -> set[str]:
        found = self.rows.execute(
            "select object from fact where subject = :name and start <= :now and stop > :now",
            {"name": name, "now": at.isoformat()},
        )
        return {row[0] for row in found}

    def history(self, name: str) -> list[str]:
        found = self.rows.execute(
            "select object from fact where subject = ? and predicate = 'lives in' order by start", (name,)
        )
        return [row[0] for row in found]

    def size(self) -> int:
        self.rows.execute("pragma wal_checkpoint(truncate)")
        return self.path.stat().st_size

    def close(self) -> None:
        self.rows.close()


class Items:
    """LangGraph's SqliteStore: an item under the subject, and one under the object."""

    def __init__(self, path: Path) -> None:
        from langgraph.store.sqlite import SqliteStore

        self.path = path
        self.opened = SqliteStore.from_conn_string(str(path))
        self.store = self.opened.__enter__()
        self.store.setup()

    def add(self, fact: Any) -> None:
        from langgraph.store.base import PutOp

        value = {"subject": fact.subject, "predicate": fact.predicate, "object": fact.object}
        value |= {"start": fact.start.isoformat(), "stop": FOREVER.isoformat()}
        of, key = ("facts", "of", fact.subject), str(fact.number)
        puts = [PutOp(of, key, value), PutOp(("facts", "to", fact.object), key, value)]
        known = self.store.search(of, filter={"predicate": fact.predicate}, limit=1_000) if fact.before else ()
        for item in (each for each in known if each.value["stop"] == FOREVER.isoformat()):
            ended = {**item.value, "stop": fact.start.isoformat()}
            puts += [PutOp(of, item.key, ended), PutOp(("facts", "to", fact.before), item.key, ended)]
        self.store.batch(puts)

    def _values(self, side: str, name: str) -> list[dict[str, Any]]:
        return [item.value for item in self.store.search(("facts", side, name), limit=100_000)]

    def _near(self, name: str) -> Iterable[str]:
        now = datetime.now(UTC).isoformat()
        for side, end in (("of", "object"), ("to", "subject")):
            for value in self._values(side, name):
                if value["start"] <= now < value["stop"]:
                    yield value[end]

    def neighbours(self, name: str) -> set[str]:
        return around(name, 2, self._near)

    def holding(self, name: str, at: datetime) -> set[str]:
        when = at.isoformat()
        return {each["object"] for each in self._values("of", name) if each["start"] <= when < each["stop"]}

    def history(self, name: str) -> list[str]:
        values = [each for each in self._values("of", name) if each["predicate"] == "lives in"]
        return [each["object"] for each in sorted(values, key=lambda each: each["start"])]

    def size(self) -> int:
        return sum(each.stat().st_size for each in self.path.parent.glob(self.path.name + "*"))

    def close(self) -> None:
        self.opened.__exit__(None, None, None)


PEERS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "networkx": (Networkx, "networkx"),
    "sqlite3 by hand": (ByHand, "sqlite3"),
    "SqliteStore": (Items, "langgraph.store.sqlite"),
}
"""How each is made, and what must be installed for it."""
