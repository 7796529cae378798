"""The pages where a person corrects memories and undoes corrections."""

import html
import re

import pytest

from tests.studio.browser import Browser
from tests.support.graphs import at, line

ADA = ("users", "ada")
HOSTILE = [
    "<script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "javascript:alert(1)",
    "\u202egnirts\u2066 turned",
    "</textarea><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}",
    "\nbegins with a line",
]


def address(kind, key, namespace="users/ada", branch=None, path="/correct"):
    more = {"kind": kind, "key": key, "namespace": namespace} | ({} if branch is None else {"branch": branch})
    return path + "?" + "&".join(f"{name}={value}" for name, value in more.items())


def version_on(text):
    return re.search(r'name="version" value="(\w+)"', text)[1]


def correct(browser, where, **fields):
    """Change fields of the form on a page and send it, as a browser would."""
    return browser.submit(where, form_on=where, version=version_on(browser.text_of(where)), **fields)


def undo_on(browser, where):
    [found] = re.findall(r'action="([^"]*/undo[^"]*)"', browser.text_of(where))
    return browser.submit(html.unescape(found), form_on=where)


class TestCorrections:
    def test_correction_adds_a_missing_value(self, memory, browser):
        where = address("core", "city")
        assert "Add a value" in browser.text_of(where)
        correct(browser, where, value="Porto")
        assert memory.layers(namespace=ADA).core.get("city") == {"city": "Porto"}

    def test_record_is_corrected_with_its_tags(self, memory, browser):
        key = memory.layers(namespace=ADA).archival.write("Ada likes tea.\nAnd milk.", ["a b", "c"])
        where = address("record", key)
        correct(browser, where, content="Ada likes coffee.\r\nAnd milk.", tags="a b\r\n\r\nd \r\n")
        record = memory.layers(namespace=ADA).archival.get(key)
        assert (record.content, record.tags) == ("Ada likes coffee.\nAnd milk.", ("a b", "d"))
        correct(browser, where, do="delete")
        assert memory.layers(namespace=ADA).archival.get(key) is None
        assert "Correct the value" not in browser.text_of(where)
        undo_on(browser, where)
        assert memory.layers(namespace=ADA).archival.get(key).tags == ("a b", "d")

    def test_correcting_a_fact_keeps_its_other_fields(self, memory, browser):
        facts = memory.facts(namespace=ADA)
        key = facts.add_fact("user", "Ada", "lives in", "Lisbon", confidence=0.5)
        before = facts.get(key)
        where = address("fact", key)
        correct(browser, where, object="Porto")
        after = facts.get(key)
        assert (after.object, after.valid_from, after.confidence) == ("Porto", before.valid_from, 0.5)
        correct(browser, where, valid_from="2024-05-01", valid_to="2024-06-01 12:30", confidence="")
        fact = facts.get(key)
        assert (fact.valid_from.month, fact.valid_to.minute, fact.confidence) == (5, 30, None)
        undo_on(browser, where)
        assert facts.get(key).valid_from == before.valid_from

    def test_values_of_a_thread_are_corrected(self, memory, browser):
        def remember(state, config):
            memory.layers(config).core.set("city", "Lisbon")

        thread = at("alone")
        line(memory.checkpointer, remember).invoke({"messages": [("user", "Hi")]}, thread)
        where = address("core", "city", namespace="/") + "&thread=alone"
        answer = correct(browser, where, value="Porto")
        assert "newest checkpoint of the thread" in answer.text
        assert memory.layers(thread).core.get("city") == {"city": "Porto"}
        [link] = re.findall(r'href="([^"]*/correct\?[^"]*)"', browser.text_of("/corrections"))
        undo_on(browser, html.unescape(link))
        assert memory.layers(thread).core.get("city") == {"city": "Lisbon"}

    @pytest.mark.parametrize("namespace", [ADA, ()])
    def test_correction_appears_in_the_newest_checkpoint_only(self, memory, browser, namespace):
        def remember(state, config):
            if state["messages"][-1].text == "Hi":
                memory.layers(config).core.set("city", "Lisbon")
                memory.facts(config).add_fact("user", "Ada", "likes", "tea")

        thread = at("one", namespace=namespace or None)
        for text in ("Hi", "Bye"):
            line(memory.checkpointer, remember).invoke({"messages": [("user", text)]}, thread)
        page = f"/thread?id=one&namespace={'/'.join(namespace) or '/'}&show=memory"
        before = memory.checkpointer.get_tuple(thread).parent_config["configurable"]["checkpoint_id"]
        [link] = re.findall(r'href="([^"]*/correct\?kind=core[^"]*)"', browser.text_of(page))
        correct(browser, html.unescape(link), value="Porto")
        [fact] = memory.facts(thread).as_of()
        where = {"namespace": namespace} if namespace else {"thread_id": "one"}
        memory.corrections.fact(fact.id, obj="coffee", by="ada", **where)
        assert all(text in browser.text_of(page) for text in ("Porto", "coffee"))
        assert all(text in browser.text_of(f"{page}&at={before}") for text in ("Lisbon", "tea"))

    def test_author_of_a_correction_comes_from_the_request(self, memory):
        memory.layers(namespace=ADA).core.set("city", "Lisbon")
        app = memory.studio(user=lambda scope: dict(scope["headers"])[b"x-user"].decode())
        with Browser(app, headers={"x-user": "Maria"}) as browser:
            correct(browser, address("core", "city"), value="Porto")
        [made] = memory.corrections.history(namespace=ADA)
        assert made.by == "Maria"


class TestConcurrentEditors:
    def test_second_editor_gets_conflict_and_keeps_its_input(self, memory, browser):
        memory.layers(namespace=ADA).core.set("city", "Lisbon")
        where = address("core", "city")
        seen = version_on(browser.text_of(where))
        browser.submit(where, form_on=where, version=seen, value="Porto")
        answer = browser.submit(where, form_on=where, version=seen, value="Faro, said the second")
        assert answer.status_code == 409
        assert "The value was changed meanwhile" in answer.text
        assert "Porto" in answer.text
        assert "Faro, said the second</textarea>" in answer.text
        assert memory.layers(namespace=ADA).core.get("city") == {"city": "Porto"}
        for version in ({"version": seen}, {"version": ""}, {}):  # of what was seen before, or of nothing
            assert browser.submit(where, form_on=where, do="delete", **version).status_code == 409, version
        assert memory.layers(namespace=ADA).core.get("city") == {"city": "Porto"}
        assert len(memory.corrections.history(namespace=ADA)) == 1
        browser.submit(where, form_on=where, version=version_on(answer.text), value="Faro, said the second")
        assert memory.layers(namespace=ADA).core.get("city") == {"city": "Faro, said the second"}

    def test_undo_is_refused_after_a_later_change(self, memory, browser):
        memory.layers(namespace=ADA).core.set("city", "Lisbon")
        made = memory.corrections.core("city", "Porto", by="ada", namespace=ADA)
        memory.layers(namespace=ADA).core.set("city", "Rome")
        assert "/undo" not in browser.text_of(address("core", "city"))
        where = f"/undo?namespace=users/ada&id={made.id}"
        form = address("core", "city")
        answer = browser.submit(where, form_on=form)
        assert answer.status_code == 400
        assert "has changed meanwhile" in answer.text
        assert memory.layers(namespace=ADA).core.get("city") == {"city": "Rome"}


def test_invalid_fields_show_an_alert_and_write_nothing(memory, browser):
    key = memory.facts(namespace=ADA).add_fact("user", "Ada", "lives in", "Lisbon")
    where = address("fact", key)
    wrong = {"valid_from": ("yesterday", ""), "valid_to": ("1999-01-01",), "confidence": ("much", "nan", "inf")}
    for fields in ({name: value} for name, values in {**wrong, "object": (" ",)}.items() for value in values):
        answer = correct(browser, where, **fields)
        assert answer.status_code == 400, fields
        assert 'role="alert"' in answer.text
    assert memory.corrections.history(namespace=ADA) == []
    assert memory.facts(namespace=ADA).get(key).object == "Lisbon"


class TestCorrectionList:
    def test_lists_newest_first_in_pages(self, memory, browser):
        for number in range(60):
            memory.corrections.core("city", f"value {number};", by="ada", namespace=ADA)
        first = browser.text_of("/corrections")
        assert "value 59;" in first
        assert "value 5;" not in first
        assert "Newer" not in first
        second = browser.text_of("/corrections?start=50")
        assert "value 5;" in second
        assert "Older" not in second
        assert first.count("<tr>") == 51

    def test_lists_a_namespace_and_its_descendants(self, memory, browser):
        memory.corrections.core("city", "Porto", by="ada", namespace=ADA)
        memory.corrections.core("city", "Rome", by="ada", namespace=("others",))
        text = browser.text_of("/corrections?namespace=users")
        assert "Porto" in text
        assert "Rome" not in text
        assert "There are no corrections" in browser.text_of("/corrections?namespace=nobody")


class TestHostileTexts:
    @pytest.mark.parametrize("text", HOSTILE)
    def test_hostile_texts_are_escaped_and_survive_a_form(self, memory, browser, text):
        name = text.strip()
        memory.layers(namespace=ADA).core.set("city", text)
        key = memory.layers(namespace=ADA).archival.write(text, [name])
        memory.corrections.core("city", f"{text}!", by="ada", namespace=ADA)
        memory.corrections.record(key, f"{text}!", by=name[:50], namespace=ADA)
        fact = memory.facts(namespace=ADA).add_fact("user", name, name, name)
        for where in (address("core", "city"), address("record", key), address("fact", fact)):
            browser.harmless(where)
        browser.harmless("/corrections")
        shown = browser.text_of(address("core", "city"))
        in_form = html.unescape(re.search(r'name="value">\n(.*?)</textarea>', shown, re.DOTALL)[1])
        assert in_form == f"{text}!"
        correct(browser, address("core", "city"), value=in_form.replace("\n", "\r\n") + "?")
        assert memory.layers(namespace=ADA).core.get("city") == {"city": f"{text}!?"}

    def test_texts_that_forms_cannot_submit_are_read_only(self, memory, browser):
        for text in ("half \ud800", "null \0", "return \r"):
            memory.layers(namespace=ADA).core.set("city", text)
            shown = browser.text_of(address("core", "city"))
            assert "a form cannot submit" in shown
            assert "<textarea" not in shown
