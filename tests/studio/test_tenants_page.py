"""The page of tenants: what each holds with all below it, and where it lies."""

from __future__ import annotations

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit.audit_trail import AuditTrail
from langchain_agentmem.studio.kept_answers import KeptAnswers
from langchain_agentmem.studio.pages.tenants import parted
from langchain_agentmem.upkeep.namespace_sizes import NamespaceSummary

ADA, BEN = ("users", "ada"), ("users", "ben")


def summary(*namespace, size=1, schema=None, **counts):
    held = dict.fromkeys(("threads", "messages", "checkpoints", "memories", "items", "audit"), 0) | counts
    return NamespaceSummary(namespace=namespace, schema=schema, bytes=size, **held)


class TestParting:
    def test_each_holds_what_is_below_it_and_the_largest_comes_first(self):
        tenants = parted(
            [
                summary("users", "ada", size=3, messages=1),
                summary("users", "ada", "notes", size=4, messages=2),
                summary("users", "ben", size=9),
                summary("teams", size=1, threads=1),
                summary("empty", size=0),
            ]
        )
        assert [(each.namespace, each.below, each.messages, each.bytes) for each in tenants] == [
            (("users",), 3, 3, 16),
            (("teams",), 0, 0, 1),
        ]

    def test_a_label_that_tells_nobody_apart_is_parted_in_its_turn(self):
        every = [summary("users", "ada", size=2), summary("users", "ben", size=5), summary(size=3), summary("users")]
        assert [(each.namespace, each.itself) for each in parted(every)] == [
            (("users", "ben"), False),
            ((), True),
            (("users", "ada"), False),
            (("users",), True),
        ]
        assert [(each.namespace, each.itself) for each in parted(every, ("users", "ada"))] == [(ADA, False)]

    def test_what_lies_in_several_schemas_says_so(self):
        [root] = parted([summary(schema="a", threads=1), summary(schema="b", threads=2), summary(schema="a")])
        assert (root.schemas, root.threads, root.below) == (("a", "b"), 3, 0)


@pytest.fixture
def filled(memory):
    memory.conversation("t", ADA).add_user_message("x" * 1_000)
    memory.conversation("t", (*ADA, "notes")).add_user_message("hello")
    AuditTrail(memory, BEN).add("Where?", "Here.")
    return memory


def test_each_tells_its_sizes_and_can_be_erased(filled, browse):
    text = browse(filled).settled("/tenants")
    assert text.index("users/ada</bdi>") < text.index("users/ben</bdi>")
    for address in ("/erase?namespace=users%2Fada", "/threads?namespace=users%2Fada", "/audit?namespace=users%2Fben"):
        assert f'href="{address}"' in text
    assert "2 namespaces, each with all below it" in text


def test_read_only_nothing_leads_to_erasing(tmp_path, browse):
    with AgentMemory(tmp_path / "a.db") as memory:
        memory.conversation("t", ADA).add_user_message("hello")
    with AgentMemory(tmp_path / "a.db", read_only=True) as memory:
        browser = browse(memory)
        for url in ("/tenants", "/tenants?namespace=users/ada", "/", "/threads", "/audit", "/audit/chain?verify=1"):
            assert "/erase" not in browser.settled(url)


def test_one_shows_what_is_in_it(filled, browse):
    text = browse(filled).settled("/tenants?namespace=users/ada")
    assert "users/ada/notes</bdi>" in text
    assert '<span class="quiet">itself</span>' in text
    assert 'href="/tenants?namespace=users"' in text
    assert "users/ben" not in text


def test_where_nothing_is_stored_it_says_so(filled, browse):
    browser = browse(filled)
    browser.settled("/tenants")
    assert "Nothing is stored in users/nobody." in browser.text_of("/tenants?namespace=users/nobody", status=404)
    assert browser.get("/tenants?namespace=//").status_code == 400


def test_an_empty_memory_has_none(memory, browse):
    assert "Nothing is stored yet." in browse(memory).settled("/tenants")


@pytest.mark.parametrize("url", ["shards"], indirect=True)
def test_with_shards_each_says_where_it_lies(filled, browse):
    text = browse(filled).settled("/tenants?namespace=users")
    [schema] = {each.schema for each in filled.namespaces(ADA)}
    assert '<th scope="col">Schema</th>' in text
    assert f"<td>{schema}</td>" in text


@pytest.mark.sqlite_suffices
def test_nobody_waits_for_the_count(filled, browse, monkeypatch):
    async def look(*_, **__):
        return None

    monkeypatch.setattr(KeptAnswers, "look", look)
    text = browse(filled).text_of("/tenants?namespace=users")
    assert '<a href="/tenants?namespace=users">Look again</a>' in text


def test_hostile_labels_stay_text(memory, browse):
    memory.conversation("t", ("<script>alert(1)</script>", '" onmouseover="x')).add_user_message("hello")
    memory.conversation("t", ("javascript:alert(1)", "\u202eevil")).add_user_message("hello")
    browser = browse(memory)
    text = browser.harmless("/tenants")
    assert "&lt;script&gt;alert(1)&lt;%2Fscript&gt;" in text
    browser.harmless("/tenants?namespace=javascript:alert(1)")
    browser.harmless("/tenants?namespace=%3Cscript%3Ealert(1)%3C%252Fscript%3E")
