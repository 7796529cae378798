"""Searches with filters over many documents."""

from datetime import UTC, datetime, timedelta

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem.search import memory_search as module

START = datetime(2025, 5, 1, tzinfo=UTC)


def say(memory, name, said, namespace=("a",)):
    memory.conversation(name, namespace).add_messages([HumanMessage(text) for text in said])


@pytest.fixture
def few_postings(monkeypatch):
    """Limit the postings per term to 20."""
    monkeypatch.setattr(module, "MAX_POSTINGS", 20)


@pytest.mark.sqlite_suffices
class TestFilters:
    def test_best_match_is_found_behind_a_filter(self, memory):
        say(memory, "c", ["cat and more"] * 400)
        memory.conversation("c", ("a",)).add(role="user", content="a cat and a zebra")
        say(memory, "d", ["cat and more"] * 400)
        [found] = memory.search("cat with zebra", namespace=("a",), roles=["user"], limit=1)
        assert found.text == "a cat and a zebra"

    def test_common_term_is_found_within_time_range(self, memory, few_postings):
        chat = memory.conversation("c", ("a",))
        for n in range(200):
            chat.add({"role": "user", "content": f"cat {n}", "created_at": START + timedelta(days=n)})
        after, before = START + timedelta(days=80), START + timedelta(days=90)
        found = memory.search("cat", namespace=("a",), after=after, before=before)
        assert sorted(each.text for each in found) == [f"cat {n}" for n in range(80, 90)]

    def test_common_term_is_found_in_rare_role(self, memory, few_postings):
        chat = memory.conversation("c", ("a",))
        for n in range(200):
            chat.add(role="tool" if n == 90 else "user", content=f"cat {n}")
        assert [each.text for each in memory.search("cat", namespace=("a",), roles=["tool"])] == ["cat 90"]
