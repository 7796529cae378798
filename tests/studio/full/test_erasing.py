"""Erasure from Studio: preview, confirmation by name, deletion."""

import html
import re

import pytest

ADA, BEN = ("users", "ada"), ("users", "ben")


@pytest.fixture
def browser(memory, browse):
    for namespace in (ADA, BEN):
        memory.conversation("chat", namespace).add_user_message("Hello there")
        memory.conversation("other", namespace).add_user_message("Hello again")
        memory.layers(namespace=namespace).core.set("city", "Lisbon")
        memory.corrections.core("city", "Porto", by="ada", namespace=namespace)
    return browse(memory)


def counts_on(text):
    found = re.findall(r'<th scope="row">(\w+)</th><td class="number">([\d,]+)', text)
    return {name: int(number) for name, number in found}


def test_erasure_preview_equals_the_erasure(memory, browser):
    where = "?namespace=users/ada"
    memory.store.put(("ada", "facts"), "k", {"text": "a fig tree"})
    told = browser.submit(f"/erase/rehearse{where}", form_on=f"/erase{where}").text
    assert "ada/facts" in told
    assert len(memory.conversations(ADA)) == 2
    done = browser.submit(f"/erase{where}", form_on=f"/erase{where}", name="users/ada").text
    assert counts_on(done) == counts_on(told)
    assert memory.conversations(ADA) == []
    assert memory.layers(namespace=ADA).core.get() == {}
    assert len(memory.conversations(BEN)) == 2


def test_one_conversation_is_erased_alone(memory, browser):
    where = "?namespace=users%2Fada&conversation=chat"
    assert f'href="/erase{html.escape(where)}"' in browser.text_of("/conversation?namespace=users/ada&id=chat")
    told = counts_on(browser.submit(f"/erase/rehearse{where}", form_on=f"/erase{where}").text)
    assert told == {"conversations": 1, "entries": 1}
    browser.submit(f"/erase{where}", form_on=f"/erase{where}", name="chat")
    assert [each.conversation_id for each in memory.conversations(ADA)] == ["other"]


def test_thread_erasure_is_confirmed_by_its_id(memory, browser):
    where = "?namespace=users/ada&thread=chat"
    text = browser.submit(f"/erase/rehearse{where}", form_on=f"/erase{where}").text
    assert "all namespaces below it" in text
    browser.submit(f"/erase{where}", form_on=f"/erase{where}", name=" chat ")
    assert len(memory.conversations(ADA)) == 1


@pytest.mark.parametrize("asked", ["", "?namespace=/", "?thread=a&conversation=b", "?namespace=a//b"])
def test_erasing_the_root_or_nothing_is_refused(memory, browser, asked):
    assert browser.get(f"/erase{asked}").status_code == 400
    answer = browser.submit(f"/erase{asked}", form_on="/erase?namespace=users/ada", name="/")
    assert answer.status_code == 400
    assert len(memory.conversations()) == 4
