"""The overview page of Studio: counts, growth and health."""

import re

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage.engine import HealthCheck
from langchain_agentmem.studio import pages
from langchain_agentmem.upkeep.admin import NamespaceSummary

ADA = ("users", "ada")


def figure(text, name):
    return re.search(rf"<dt>{name}</dt><dd>([^<]*)</dd>", text)[1]


def test_overview_counts_stored_objects(memory, browse):
    memory.conversation("t", ADA).add_messages([HumanMessage("Where?"), AIMessage("Here.")])
    memory.layers(namespace=ADA).core.set("name", "Ada")
    memory.layers(namespace=ADA).archival.write("A record.")
    memory.audit.add("Where?", "Here.")
    text = browse(memory).settled("/")
    counted = {name: figure(text, name) for name in ("Messages", "Core memory", "Records", "Audit entries", "Facts")}
    assert counted == {"Messages": "2", "Core memory": "1", "Records": "1", "Audit entries": "1", "Facts": "0"}
    assert figure(text, "Size").endswith("B")
    assert "users/ada</bdi>" in text


def summary(*namespace, size=1, **counts):
    held = dict.fromkeys(("threads", "messages", "checkpoints", "memories", "items", "audit"), 0) | counts
    return NamespaceSummary(namespace=namespace, bytes=size, **held)


def test_usage_includes_descendants_and_is_sorted_by_size():
    found = pages.usage_by_label(
        [
            summary("users", "ada", size=3, messages=1),
            summary("users", "ada", "notes", size=4, messages=2),
            summary("users", "ben", size=9),
            summary("teams", size=1, threads=1),
            summary("empty", size=0),
        ]
    )
    assert [(each.namespace, each.below, each.messages, each.bytes) for each in found] == [
        (("users",), 3, 3, 16),
        (("teams",), 0, 0, 1),
    ]


def test_label_shared_by_all_namespaces_is_split():
    every = [summary("users", "ada", size=2), summary("users", "ben", size=5), summary(size=3), summary("users")]
    assert [(each.namespace, each.is_own) for each in pages.usage_by_label(every)] == [
        (("users", "ben"), False),
        ((), True),
        (("users", "ada"), False),
        (("users",), True),
    ]


def test_read_only_studio_has_no_erase_links(tmp_path, browse):
    with AgentMemory(tmp_path / "a.db") as memory:
        memory.conversation("t", ADA).add_user_message("hello")
        assert 'href="/erase?namespace=users%2Fada"' in browse(memory).settled("/")
    with AgentMemory(tmp_path / "a.db", read_only=True) as memory:
        browser = browse(memory)
        for url in ("/", "/threads", "/conversation?namespace=users/ada&id=t", "/audit", "/audit/chain?verify=1"):
            assert "/erase" not in browser.settled(url)


def test_growth_has_chart_and_table(memory, browse, clock):
    memory.conversation("t").add_messages([HumanMessage("Where?"), AIMessage("Here.")])
    clock.pass_time(days=3)
    memory.conversation("t").add_messages([HumanMessage("When?")])
    text = browse(memory).settled("/")
    assert "<title>2026-01-01: 2</title>" in text
    assert "<title>2026-01-04: 1</title>" in text
    assert "3 in 30 days, maximum 2" in text
    assert re.search(r'<th scope="row">2026-01-04</th><td class="number">1</td>', text)
    assert text.count('<th scope="row">2026-') + text.count('<th scope="row">2025-') == 30


@pytest.mark.sqlite_suffices
def test_health_problems_are_shown_with_remedies(memory, browse, monkeypatch):
    found = [HealthCheck("disk", "problem", "No <b>room</b>.", "Make some."), HealthCheck("python", "ok", "Python 3")]
    monkeypatch.setattr(type(memory.admin), "diagnose", lambda _: found)
    text = browse(memory).harmless("/")
    assert "<strong>disk</strong> No &lt;b&gt;room&lt;/b&gt;.<br>Make some." in text
    assert "1 check passed" in text


@pytest.mark.sqlite_suffices
def test_pending_and_failed_extractions_are_shown(memory, browse, monkeypatch):
    stats = memory.admin.stats() | {"waiting_facts": 3, "failed_facts": 1}
    monkeypatch.setattr(type(memory.admin), "stats", lambda _: stats)
    text = browse(memory).settled("/")
    assert "3 messages waiting for fact extraction" in text
    assert "1 messages whose fact extraction failed" in text
    assert "None.</li>" not in text


def test_empty_memory_has_an_overview(memory, browse):
    text = browse(memory).settled("/")
    assert figure(text, "Messages") == "0"
    assert "0 in 30 days" in text
    assert "None." in text
    assert "None.</li>" in text


@pytest.mark.sqlite_suffices
@pytest.mark.parametrize(("page", "part"), [("/", "figures"), ("/audit/chain?verify=1", "chain")])
def test_request_does_not_wait_for_slow_values(memory, browse, slow_values_pending, page, part):
    text = browse(memory).text_of(page)
    assert f'hx-get="{page}" hx-trigger="load delay:500ms" hx-select="#{part}"' in text
    assert f'<a href="{page}">Reload</a>' in text


def test_only_ten_largest_namespaces_are_shown(memory, browse):
    for number in range(12):
        memory.conversation("t", ("users", f"u{number:02}")).add_user_message("x" * (100 + number))
    text = browse(memory).settled("/")
    assert re.findall(r"users/(u\d+)</bdi>", text) == [f"u{number:02}" for number in range(11, 1, -1)]
    assert pages.MAX_NAMESPACES == 10
