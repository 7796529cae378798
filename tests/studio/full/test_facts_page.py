"""Facts in Studio: valid time, recorded time, contradictions and sources."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem.studio.application import PAGE
from tests.studio.markup import Page
from tests.support.graphs import at, line

NS = ("users", "ada")
HERE = "namespace=users/ada"


def day(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


@pytest.fixture
def facts(memory):
    facts = memory.facts("main", NS)
    memory.conversation("chat", NS).add_message(HumanMessage("I moved to Porto.", id="m-1"))
    facts.add_fact("user", "Ada", "lives in", "Lisbon", valid_from=day(2021))
    facts.add_fact("user", "Ada", "lives in", "Porto", valid_from=day(2023), source=("m-1", "chat"))
    facts.add_fact("user", "Ben", "knows", "Ada", valid_from=day(2020), confidence=0.7)
    return facts


def rows(html: str) -> dict[str, str]:
    """Of each line of the table what it says, and whether that held then."""
    found = [given for given in Page(html).all("tr") if "data-id" in given]
    return {f"{each['data-subject']} {each['data-predicate']} {each['data-object']}": each["class"] for each in found}


class TestValidFacts:
    def test_shows_facts_valid_now(self, facts, browser):
        assert rows(browser.text_of(f"/facts?{HERE}")) == {
            "Ada lives in Porto": "holds",
            "Ada lives in Lisbon": "ended",
            "Ben knows Ada": "holds",
        }

    def test_shows_facts_valid_at_any_change(self, facts, browser):
        times = [each["value"] for each in Page(browser.text_of(f"/facts?{HERE}")).all("option")]
        assert times == ["", day(2023).isoformat(), day(2021).isoformat(), day(2020).isoformat()]
        held = [rows(browser.text_of(f"/facts?{HERE}&valid={quote(each)}")) for each in times]
        assert [[text for text, state in each.items() if state == "holds"] for each in held] == [
            ["Ada lives in Porto", "Ben knows Ada"],
            ["Ada lives in Porto", "Ben knows Ada"],
            ["Ada lives in Lisbon", "Ben knows Ada"],
            ["Ben knows Ada"],
        ]
        assert held[2]["Ada lives in Porto"] == "later"

    def test_shows_facts_as_recorded_at_a_time(self, memory, facts, browser):
        first = facts.latest()[-1]
        html = browser.text_of(f"/facts?{HERE}&recorded={quote(first.recorded_at.isoformat())}")
        assert rows(html) == {"Ada lives in Lisbon": "holds"}
        assert "Contradictions" not in html

    def test_time_field_is_rounded_up_to_a_second(self, facts, browser):
        html = browser.text_of(f"/facts?{HERE}&recorded=2030-01-01T00:00:59.5Z&valid=2022-05-05")
        [given] = [each for each in Page(html).all("input") if each.get("id") == "recorded"]
        assert given["value"] == "2030-01-01T00:01:00"
        [chosen] = [each for each in Page(html).all("option") if "selected" in each]
        assert chosen["value"] == "2022-05-05T00:00:00+00:00"

    def test_entity_filter_matches_subject_and_object(self, facts, browser):
        assert rows(browser.text_of(f"/facts?{HERE}&entity=ADA")).keys() == {
            "Ada lives in Porto",
            "Ada lives in Lisbon",
            "Ben knows Ada",
        }
        assert list(rows(browser.text_of(f"/facts?{HERE}&entity=Ben"))) == ["Ben knows Ada"]
        assert "/search?namespace=users%2Fada&amp;kind=fact&amp;q=Zoe" in browser.text_of(f"/facts?{HERE}&entity=Zoe")

    def test_facts_are_paged(self, memory, browser):
        facts = memory.facts("main", NS)
        for number in range(2 * PAGE + 1):
            facts.add_fact("user", f"Friend {number}", "likes", "tea")
        seen, address, pages = [], f"/facts?{HERE}", 0
        while address:
            html = browser.text_of(address)
            seen += rows(html)
            pages += 1
            address = next((each for each in Page(html).links if "before=" in each), None)
        assert (pages, len(seen), len(set(seen))) == (3, 2 * PAGE + 1, 2 * PAGE + 1)
        assert f"/facts?{HERE.replace('/', '%2F')}" in Page(html).links  # back to the newest

    def test_contradictions_are_listed(self, facts, browser):
        assert "Contradictions" not in browser.text_of(f"/facts?{HERE}")
        facts.add_fact("user", "Ada", "lives in", "Faro", valid_from=day(2023))
        html = browser.text_of(f"/facts?{HERE}")
        assert "Contradictions" in html
        assert html.index("Ada lives in Porto") < html.index("Ada lives in Faro")


class TestFactScopes:
    def test_page_links_to_branches_and_namespaces(self, memory, facts, browser):
        facts.fork("try/1").add_fact("user", "Ada", "likes", "tea")
        memory.facts("main", ("users", "ben")).add_fact("user", "Ben", "likes", "tea")
        links = Page(browser.text_of("/facts?namespace=users")).links
        assert {"/facts?namespace=users%2Fada", "/facts?namespace=users%2Fben"} <= set(links)
        html = browser.text_of(f"/facts?{HERE}")
        [link] = [each for each in Page(html).links if "try" in each]
        assert "Ada likes tea" in rows(browser.text_of(link))
        assert "Ada likes tea" not in rows(html)

    def test_facts_of_threads_are_shown_in_their_namespace(self, memory, browser):
        def node(state, config):
            memory.facts(config).add_fact("user", "Ada", "lives in", "Lisbon")

        for config in (at("t/1", namespace=NS), at("alone")):
            line(memory.checkpointer, node).invoke({"messages": []}, config)
        for asked in (HERE, f"{HERE}&thread=t/1", "thread=alone"):
            html = browser.text_of(f"/facts?{asked}")
            assert rows(html) == {"Ada lives in Lisbon": "holds"}
            [link] = {each for each in Page(html).links if each.startswith("/fact?")}
            assert "Ada lives in Lisbon" in browser.text_of(link)

    def test_empty_root_falls_back_to_namespace_with_facts(self, memory, browser):
        def node(state, config):
            memory.facts(config).add_fact("user", "Ada", "likes", "tea")

        memory.layers("main", ("notes",)).core.set("a", "b")
        memory.layers("main", ("notes",)).core.set("c", "d")
        line(memory.checkpointer, node).invoke({"messages": []}, at(namespace=NS))
        browser.settled("/")
        html = browser.text_of("/facts")
        assert list(rows(html)) == ["Ada likes tea"]
        assert 'value="users/ada"' in html
        root = browser.text_of("/facts?namespace=/")
        assert rows(root) == {}
        assert "/facts?namespace=users%2Fada" in Page(root).links
        memory.facts("main").add_fact("user", "Nobody", "likes", "tea")
        assert list(rows(browser.text_of("/facts"))) == ["Nobody likes tea"]

    def test_memory_within_a_namespace_shows_no_other_facts(self, memory, facts, browse):
        inside = browse(memory.within(("users", "ben")))
        inside.text_of(f"/facts?{HERE}", 400)
        assert "There are no facts" in inside.text_of("/facts")


class TestFactPage:
    def test_fact_page_shows_sources_and_earlier_facts(self, facts, browser):
        [fact] = facts.as_of(obj="Porto")
        html = browser.text_of(f"/fact?{HERE}&id={fact.id}")
        assert "/thread?namespace=users%2Fada&id=chat&message=m-1" in Page(html).links
        text = Page(html).text
        assert "I moved to Porto." in text
        assert "2023-01-01" in text
        assert "Lisbon" in text
        [before] = facts.history("Ada", "lives in")[:1]
        [link] = [each for each in Page(html).links if before.id in each]
        assert f"id={fact.id}" in browser.text_of(link)  # it tells what ended it

    def test_fact_page_links_to_its_recording_time(self, facts, browser):
        [fact] = facts.as_of(obj="Porto")
        links = Page(browser.text_of(f"/fact?{HERE}&id={fact.id}")).links
        [then] = [each for each in links if "recorded=" in each]
        assert parse_qs(urlsplit(then).query)["recorded"] == [fact.recorded_at.isoformat()]
        assert rows(browser.text_of(then)) == {"Ada lives in Porto": "holds", "Ada lives in Lisbon": "ended"}

    def test_fact_page_lists_contradictions(self, facts, browser):
        other = facts.add_fact("user", "Ada", "lives in", "Faro", valid_from=day(2023))
        assert "Contradictions" in browser.text_of(f"/fact?{HERE}&id={other}")
        [fact] = facts.as_of(subject="Ben")
        assert "Contradictions" not in browser.text_of(f"/fact?{HERE}&id={fact.id}")

    def test_missing_or_removed_fact_is_not_found(self, facts, browser):
        [fact] = facts.as_of(obj="Porto")
        facts.remove_by_id(fact.id)
        kept = facts.add(role="user", content="said")
        for name in (fact.id, kept, "no-such"):
            assert "There is no fact" in browser.text_of(f"/fact?{HERE}&id={name}", 404)


def test_invalid_parameters_are_refused(browser):
    of_facts = (
        "namespace=a//b",
        "namespace=" + "x" * 300,
        "branch=%00",
        "thread=%01",
        "valid=yesterday",
        "before=no-such",
    )
    many = (
        "/fact",
        "/fact?id=%07",
        "/facts?recorded=9999-12-31T23:59:59-12:00",
        *(f"/facts?{each}" for each in of_facts),
    )
    for asked in many:
        assert 'class="problem"' in browser.text_of(asked, 400), asked


@pytest.mark.sqlite_suffices
def test_entity_link_escapes_special_characters(memory, browser):
    facts = memory.facts("main")
    facts.add_fact("user", "a&b=c #1 + 100%", "likes", "\u202etea")
    [row] = [each for each in Page(browser.text_of("/facts")).links if "entity=a" in each]
    assert len(rows(browser.text_of(row))) == 1


def test_graph_script_loads_on_the_facts_page_only(browser):
    scripts = [each["src"] for each in Page(browser.text_of("/facts")).all("script")]
    assert "/static/cytoscape.min.js" in scripts
    for name in scripts:
        assert browser.get(name).status_code == 200
    assert "cytoscape" not in browser.text_of("/search")
