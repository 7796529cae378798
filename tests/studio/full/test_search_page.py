"""The search page of Studio: results, links and reasons."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from tests.studio.markup import Page, harmless
from tests.support.graphs import at, line

NS = ("users", "ada")


def remember(memory: AgentMemory, text: str = "The lighthouse is old.") -> None:
    """The same in everything that can be found."""
    memory.conversation("chat", NS).add_message(HumanMessage(f"Message: {text}", id="m-1"))
    layers = memory.layers("main", NS)
    layers.recall.append("note", f"Event: {text}")
    layers.archival.write(f"Record: {text}")
    memory.facts("main", NS).add_fact("user", "The lighthouse", "is", "old")
    memory.store.put((*NS, "notes"), "k", {"text": f"Item: {text}"})
    memory.within(NS).audit.add(f"Prompt: {text}", "Reply")


def kinds(html: str) -> list[str]:
    return re.findall(r'<article.*?class="badge">(\w+)<', html, re.DOTALL)


def test_every_kind_is_found_and_linked(memory, browser):
    remember(memory)
    html = browser.text_of("/search?q=lighthouse")
    assert sorted(kinds(html)) == ["event", "fact", "item", "message", "record"]
    links = Page(html).links
    assert "/thread?namespace=users%2Fada&id=chat&message=m-1" in links
    assert links.count("/memory?namespace=users%2Fada&branch=main") == 2
    [fact] = [each for each in links if each.startswith("/fact?")]
    assert "The lighthouse is old" in browser.text_of(fact)
    assert kinds(browser.text_of("/search?q=lighthouse&kind=audit")) == ["audit"]
    assert kinds(browser.text_of("/search?q=lighthouse&kind=record")) == ["record"]


def test_thread_scoped_results_link_to_the_thread(memory, browser):
    def node(state, config):
        memory.facts(config).add_fact("user", "The lighthouse", "is", "old")
        memory.layers(config).archival.write("The lighthouse is white.")

    line(memory.checkpointer, node).invoke({"messages": []}, at(namespace=NS))
    links = Page(browser.text_of("/search?q=lighthouse")).links
    [fact] = [each for each in links if each.startswith("/fact?")]
    assert "thread=t" in fact
    assert "The lighthouse is old" in browser.text_of(fact)
    assert "/thread?namespace=users%2Fada&id=t&show=memory" in links


def test_scores_are_shown_as_bars_with_numbers(memory, browser):
    remember(memory)
    found = memory.search("old lighthouse", namespace=NS, limit=20)
    page = harmless(browser.text_of("/search?q=old+lighthouse"))
    bars = page.all("progress")
    assert len(bars) == sum(1 + len(each.why.parts()) for each in found)
    for each in found:
        assert f"{each.score:.2f}" in page.text
        for name, value in {**each.why.terms, **each.why.nearby, **each.why.signals}.items():
            assert name.replace("_", " ") in page.text
            assert f"{value:+.2f}" in page.text
    assert all(0 <= float(bar["value"]) <= float(bar["max"]) for bar in bars)


def test_results_are_filtered_by_namespace_conversation_and_time(memory, browser):
    for name, labels in (("one", NS), ("two", NS), ("three", ("users", "ben"))):
        memory.conversation(name, labels).add_user_message(f"The lighthouse is old, said {name}.")

    def links(asked):
        return [each for each in Page(browser.text_of(f"/search?q=lighthouse{asked}")).links if "/thread?" in each]

    assert len(links("")) == 3
    assert len(links("&namespace=users")) == 3
    assert len(links("&namespace=users/ada")) == 2
    assert len(links("&namespace=users/ada&conversation=two")) == 1
    assert len(links("&limit=1")) == 1
    said = sorted(hit.created_at for hit in memory.search("lighthouse", everything=True))
    then = quote(said[1].isoformat())
    assert (len(links(f"&since={then}")), len(links(f"&until={then}"))) == (2, 1)


def test_time_order_shows_replaced_results(memory, browser):
    facts = memory.facts("main")
    facts.add_fact("user", "Ada", "lives in", "Lisbon", valid_from=datetime(2021, 1, 1, tzinfo=UTC))
    later = facts.add_fact("user", "Ada", "lives in", "Porto", valid_from=datetime(2023, 1, 1, tzinfo=UTC))
    html = browser.text_of("/search?q=Where+does+Ada+live%3F+Lisbon+Porto&order=time&kind=fact")
    assert html.index("Ada lives in Lisbon") < html.index("Ada lives in Porto")
    assert f"Replaced by fact <bdi>{later}</bdi>" in html
    assert "Replaced by" in browser.text_of("/search?q=Lisbon&kind=fact")


def test_empty_result_names_the_namespace(memory, browser):
    assert "No results in" in browser.text_of("/search?q=lighthouse&namespace=users/ada")
    assert "No results." in browser.text_of("/search?q=lighthouse")


@pytest.mark.sqlite_suffices
class TestVectors:
    def test_page_without_embeddings_says_keyword_search_only(self, browser):
        assert "Keyword search only" in browser.text_of("/search")

    def test_search_uses_vectors_or_words_alone(self, browse):
        with AgentMemory(index={"embed": "static"}) as memory:
            remember(memory)
            memory.settle()
            browser = browse(memory)
            both, words = (browser.text_of(f"/search?q=old+tower&by={by}") for by in ("vectors", "words"))
        assert "Keyword search only" not in both
        assert "vectors" in {bar["aria-label"] for bar in Page(both).all("progress")}
        assert "vectors" not in {bar["aria-label"] for bar in Page(words).all("progress")}
        assert Page(words).all("article")


def test_invalid_parameters_are_refused(browser):
    for asked in [
        "kind=dream",
        "order=chance",
        "by=luck",
        "limit=many",
        "since=then",
        "until=9999-99-99",
        "namespace=a//b",
    ]:
        assert 'class="problem"' in browser.text_of(f"/search?q=x&{asked}", 400), asked


def test_long_texts_are_truncated(memory, browser):
    memory.conversation("chat").add_user_message("The lighthouse is old. " * 10_000)
    assert len(browser.text_of("/search?q=lighthouse")) < 20_000
