"""Facts as a graph: neighbours, entities and export to networkx."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import networkx as nx
import pytest

from langchain_agentmem.errors import MissingExtra
from langchain_agentmem.facts import fact_reader

JANUARY, MARCH, JUNE = (datetime(2024, month, 1, tzinfo=UTC) for month in (1, 3, 6))


@pytest.fixture
def facts(memory):
    """Ana knows Ben, who has moved from Acme to Globex; Eve works there too, and Zoe knows nobody of them."""
    facts = memory.facts("graph")
    facts.add_fact("user", "Ana", "knows", "Ben", valid_from=JANUARY)
    facts.add_fact("user", "Ben", "works at", "Acme", valid_from=JANUARY)
    facts.add_fact("user", "Ben", "works at", "Globex", valid_from=MARCH)
    facts.add_fact("user", "Eve", "works at", "Globex", valid_from=JANUARY)
    facts.add_fact("user", "Zoe", "likes", "tea", valid_from=JANUARY)
    return facts


def names(found) -> list[tuple[str, int]]:
    return [(each.name, each.distance) for each in found]


@pytest.mark.sqlite_suffices
class TestNeighbours:
    def test_neighbours_follow_both_directions_nearest_first(self, facts):
        assert names(facts.neighbours("Ben")) == [("Ana", 1), ("Globex", 1)]
        assert names(facts.neighbours("ana", 3)) == [("Ben", 1), ("Globex", 2), ("Eve", 3)]
        assert [str(each) for each in facts.neighbours("Globex")] == ["Ben", "Eve"]
        assert facts.neighbours("Ana", 2)[1].fact.text == "Ben works at Globex"

    def test_neighbours_at_a_past_time(self, facts):
        assert names(facts.neighbours("Ana", 2, valid=JANUARY)) == [("Ben", 1), ("Acme", 2)]
        assert facts.neighbours("Ana", valid=datetime(2023, 1, 1, tzinfo=UTC)) == []
        assert facts.neighbours("Ana", recorded=datetime(2000, 1, 1, tzinfo=UTC)) == []

    def test_neighbours_are_filtered_by_predicates(self, facts):
        assert names(facts.neighbours("Ana", 9, predicates=["KNOWS"])) == [("Ben", 1)]
        assert names(facts.neighbours("Ben", predicates="works at")) == [("Globex", 1)]
        assert facts.neighbours("Ana", predicates=[]) == []

    def test_merged_names_share_their_neighbours(self, facts):
        facts.merge("Benjamin", "Ben")
        facts.add_fact("user", "Benjamin", "likes", "coffee")
        assert names(facts.neighbours("Benjamin")) == [("Ana", 1), ("Globex", 1), ("coffee", 1)]
        assert names(facts.neighbours("coffee")) == [("Ben", 1)]


@pytest.mark.sqlite_suffices
def test_graph_depth_is_limited(here, monkeypatch):
    monkeypatch.setattr(fact_reader, "MAX_DEPTH", 5)
    facts = here.facts("chain")
    for number in range(9):
        facts.add_fact("user", str(number), "leads to", str(number + 1))
    for found in ({str(each) for each in facts.neighbours("0", 2**31)}, {*facts.to_networkx("0", 2**31)}):
        assert "5" in found
        assert "6" not in found


class TestEntities:
    def test_entities_are_found_by_prefix(self, facts):
        assert [(each.name, each.facts) for each in facts.entities("g")] == [("Globex", 2)]
        assert [each.name for each in facts.entities()] == ["Acme", "Ana", "Ben", "Eve", "Globex", "tea", "Zoe"]
        assert [each.name for each in facts.entities(limit=2)] == ["Acme", "Ana"]
        assert facts.entities("nobody") == []

    def test_entities_are_found_by_alias(self, facts):
        facts.add_fact("user", "Benjamin", "likes", "coffee")
        facts.merge("Benjamin", "Ben")
        [found] = facts.entities("benj")
        assert (found.name, found.aliases) == ("Ben", ("Benjamin",))
        facts.unmerge("Benjamin")
        assert [each.name for each in facts.entities("ben")] == ["Ben", "Benjamin"]


@pytest.mark.sqlite_suffices
class TestNetworkx:
    def test_graph_has_entity_nodes_and_fact_edges(self, facts):
        graph = facts.to_networkx()
        assert isinstance(graph, nx.MultiDiGraph)
        assert sorted(graph) == ["Ana", "Ben", "Eve", "Globex", "Zoe", "tea"]
        [knows] = [told for _, _, told in graph.edges(data=True) if told["predicate"] == "knows"]
        assert (knows["subject"], knows["object"], knows["valid_from"]) == ("Ana", "Ben", JANUARY.isoformat())

    def test_graph_around_an_entity_at_a_time(self, facts):
        assert sorted(facts.to_networkx("Ana", 1)) == ["Ana", "Ben"]
        assert sorted(facts.to_networkx("Ana", 2, valid=JANUARY)) == ["Acme", "Ana", "Ben"]
        assert list(facts.to_networkx("nobody")) == []

    def test_missing_networkx_error_names_the_extra(self, here, monkeypatch):
        monkeypatch.setitem(sys.modules, "networkx", None)
        with pytest.raises(MissingExtra, match="graph"):
            here.facts().to_networkx()
