"""The audit page of Studio: entries, junk with its reasons, todos, and the chain."""

import re
from html import unescape

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from langchain_agentmem.audit.audit_trail import AuditTrail

ADA = ("users", "ada")


def prompts(text):
    found = re.findall(r'Prompt</p>\s*<div class="text">([^<]*)</div>', text)
    return [unescape(each) for each in found]


def test_newest_entry_is_first_and_junk_is_hidden(memory, browse):
    trail = memory.audit
    trail.add("Where do herons nest?", "In the alders.", "birds")
    trail.add("thanks", "You're welcome!", "birds")
    trail.add("When?", "In March.")
    browser = browse(memory)
    assert prompts(browser.text_of("/audit")) == ["When?", "Where do herons nest?"]
    shown = browser.text_of("/audit?junk=with")
    assert prompts(shown) == ["When?", "thanks", "Where do herons nest?"]
    [reasons] = re.findall(r"Hidden as junk: ([^<]*)<", shown)
    assert unescape(reasons) == ", ".join(trail.last(2, include_junk=True)[0].junk)
    assert prompts(browser.text_of("/audit?junk=only")) == ["thanks"]
    assert browser.get("/audit?junk=yes").status_code == 400


def test_entries_are_filtered_by_kind_conversation_and_words(memory, browse):
    trail = memory.audit
    trail.add("Where do herons nest?", "In the alders.", "birds")
    trail.add("Where do quinces grow?", "In the orchard.", "trees")
    trail.add_self_reflection("I looked into the orchard and drew a map of all its trees.")
    model = GenericFakeChatModel(messages=iter([AIMessage("Called.")]))
    model.invoke("A call?", {"callbacks": [trail.handler()]})
    browser = browse(memory)
    assert prompts(browser.text_of("/audit?kind=call")) == ["A call?"]
    assert prompts(browser.text_of("/audit?conversation=birds")) == ["Where do herons nest?"]
    assert len(prompts(browser.text_of("/audit?q=orchard"))) == 2
    assert prompts(browser.text_of("/audit?q=orchard&conversation=trees")) == ["Where do quinces grow?"]
    assert prompts(browser.text_of("/audit?q=orchard&kind=exchange")) == ["Where do quinces grow?"]
    assert "No matching entries." in browser.text_of("/audit?q=pelican")
    assert browser.get("/audit?kind=none").status_code == 400


@pytest.mark.sqlite_suffices
def test_page_has_fifty_entries_and_links_to_older(memory, browse):
    for number in range(120):
        memory.audit.add(f"Question {number}?", "An answer.", "many" if number % 2 else None)
    browser = browse(memory)
    *_, text = shown = browser.walk("/audit")
    pages = [prompts(each) for each in shown]
    assert [len(each) for each in pages] == [50, 50, 20]
    assert [each for page in pages for each in page] == [f"Question {number}?" for number in reversed(range(120))]
    assert '<a href="/audit">Newest</a>' in text
    assert len(prompts(browser.text_of("/audit?conversation=many"))) == 50
    assert browser.get("/audit?before=nothing").status_code == 400


def test_todos_are_filtered_by_status(memory, browse):
    [first] = memory.audit.add_todo_from_chat("Please add a page for the quinces.")
    memory.audit.add_todo_from_chat("Please add a page for the pears.")
    memory.audit.complete(first.id)
    browser = browse(memory)
    assert re.findall("page for the (\\w+)", browser.text_of("/audit/todos")) == ["pears"]
    assert re.findall("page for the (\\w+)", browser.text_of("/audit/todos?status=done")) == ["quinces"]
    assert browser.get("/audit/todos?status=never").status_code == 400


def test_chain_is_verified_on_request(memory, browse, raw):
    memory.audit.add("Where?", "Here.")
    head = memory.audit.head()
    browser = browse(memory)
    text = browser.text_of("/audit/chain")
    assert f"The chain has 1 entry. Its head is <code>{head}</code>." in text
    assert "holds" not in text
    text = browser.settled("/audit/chain?verify=1")
    assert "The chain is valid, as of" in text
    raw(memory, "update audit set junk = :junk, hidden = 0", junk="[]")
    text = browse(memory).settled("/audit/chain?verify=1")
    assert "The chain is broken: 1 problem" in text
    assert "has impossible values: junk" in text


def test_each_namespace_has_its_own_audit_trail(memory, browse):
    memory.audit.add("Who is the root?", "Nobody.")
    AuditTrail(memory, ADA).add("Who is Ada?", "She is.")
    browser = browse(memory)
    browser.settled("/")  # what each namespace holds is known from then on
    text = browser.text_of("/audit")
    assert prompts(text) == ["Who is the root?"]
    assert 'href="/audit?namespace=users%2Fada"' in text
    text = browser.text_of("/audit?namespace=users/ada")
    assert prompts(text) == ["Who is Ada?"]
    assert 'href="/audit/todos?namespace=users%2Fada"' in text
    assert prompts(browser.text_of("/audit?namespace=users")) == []


def test_long_text_is_collapsed(memory, browse):
    memory.audit.add("x" * 5_000, "y" * 100)
    text = browse(memory).text_of("/audit")
    assert f'<details><summary><span class="text">{"x" * 2_000}…</span></summary>' in text
    assert f'<div class="text">{"x" * 3_000}</div>' in text
