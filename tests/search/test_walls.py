"""Isolation of namespaces and filters: results and scores depend only on entries in scope."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from langchain_agentmem.search import memory_search as module
from langchain_agentmem.search.analysis import extract_terms

pytestmark = pytest.mark.sqlite_suffices

NAMESPACES = [
    (), ("a",), ("ab",), ("a", "b"), ("a", "bc"), ("b",), ("a\u0020",), ("ä",), ("a", "b", "c"), ("\U0010ffff",)
]  # fmt: skip
CONVERSATIONS = ["one", "two", "on", "message", "item", "a"]
ROLES = ["user", "assistant", "tool", "system"]
NAMES = [None, None, "Ann", "Bob", "a", "user"]
WORDS = ["cat", "dog", "tea", "car", "sun", "may", "ann", "bob", "2025", "a", "the", "猫犬", "naïve", "item"]
START = datetime(2025, 1, 1, tzinfo=UTC)


class StoredEntry(NamedTuple):
    """An entry that the oracle expects to be stored."""

    kind: str
    namespace: tuple[str, ...]
    id: str
    conversation: str | None
    role: str | None
    at: datetime
    text: str


class SearchScope(NamedTuple):
    """The filters of a search."""

    namespace: tuple[str, ...] = ()
    kinds: list[str] | None = None
    conversation_id: str | None = None
    roles: list[str] | None = None
    before: datetime | None = None
    after: datetime | None = None

    def lets(self, thing):
        return (
            thing.namespace[: len(self.namespace)] == self.namespace
            and (self.kinds is None or thing.kind in self.kinds)
            and (self.conversation_id is None or thing.conversation == self.conversation_id)
            and (self.roles is None or thing.role in self.roles)
            and (self.before is None or thing.at < self.before)
            and (self.after is None or thing.at >= self.after)
        )


def random_text(luck):
    return " ".join(luck.choices(WORDS, k=luck.randrange(1, 8)))


def fill(memory, luck, count, namespaces=NAMESPACES):
    """Store random entries in random namespaces."""
    things = []
    for n in range(count):
        namespace, text = luck.choice(namespaces), random_text(luck)
        if namespace and luck.random() < 0.25:
            key = f"k{n}"
            memory.store.put(namespace, key, {"text": text})
            item = memory.store.get(namespace, key)
            things.append(StoredEntry("item", namespace, key, None, None, item.created_at, text))
            continue
        conversation, role = luck.choice(CONVERSATIONS), luck.choice(ROLES)
        at = START + timedelta(hours=luck.randrange(24 * 500))
        said = {"role": role, "content": text, "created_at": at, "name": luck.choice(NAMES)}
        message_id = memory.conversation(conversation, namespace).add(said | {"message_id": luck.randbytes(8).hex()})
        things.append(StoredEntry("message", namespace, message_id, conversation, role, at, text))
    return things


def random_scope(luck):
    def maybe(value, chance=0.3):
        return value if luck.random() < chance else None

    return SearchScope(
        luck.choice(NAMESPACES),
        maybe(luck.sample(["message", "item"], luck.randrange(3))),
        maybe(luck.choice([*CONVERSATIONS, "none such"])),
        maybe(luck.sample(ROLES, luck.randrange(4))),
        maybe(START + timedelta(days=luck.randrange(500))),
        maybe(START + timedelta(days=luck.randrange(500))),
    )


def random_query(luck):
    words = luck.choices(WORDS, k=luck.randrange(1, 5))
    ending = luck.choice(
        ["", "?", " in May 2025?", " yesterday", f' "{luck.choice(WORDS)}"', f" by {luck.choice(NAMES)}"]
    )
    return luck.choice(["", "Who saw the ", "When did Ann see ", "What did Bob say of "]) + " ".join(words) + ending


def hit_key(found):
    return (found.kind, found.namespace, found.id, found.conversation_id, found.created_at)


def keys_with_duplicates(results):
    return {(each.namespace, *one) for each in results for one in ((each.kind, each.id), *each.also)}


def shown(found):
    """The visible parts of each result."""
    return [(hit_key(each), each.score, str(each.why)) for each in found]


class TestSearchScope:
    @pytest.mark.parametrize("seed", range(2))
    def test_hits_match_the_oracle(self, memory, seed):
        luck = random.Random(seed)
        things = fill(memory, luck, 220)
        for _ in range(120):
            where, asked = random_scope(luck), random_query(luck)
            allowed = {(t.kind, t.namespace, t.id, t.conversation, t.at) for t in things if where.lets(t)}
            options = {"limit": 1000, "everything": not where.namespace, **where._asdict()}
            found = [hit_key(each) for each in memory.search(asked, **options)]
            assert len(found) == len(set(found))
            assert set(found) <= allowed, (asked, where)
            word = luck.choice(["cat", "dog", "tea", "car", "sun", "猫犬", "naive"])
            [term] = extract_terms(word)[-1:]
            allowed = {(t.namespace, t.kind, t.id) for t in things if where.lets(t) and term in extract_terms(t.text)}
            assert keys_with_duplicates(memory.search(word, **options)) == allowed, (word, where)

    def test_adjoining_series_of_tenants_are_not_neighbours(self, memory, raw):
        """The last document of one tenant and the first of the next have adjoining numbers."""
        [one, two] = [memory.conversation("c", (who,)) for who in ("a", "b")]
        one.add(role="user", content="first")
        raw(memory, "update search_series set next = 4194303")
        raw(memory, "update search_scope set series = 32767")
        one.add(role="user", content="Where is the striped zebra?")  # at the last place of the series
        memory.conversation("d", ("a",)).add(role="user", content="x")  # the last series of the scope
        raw(memory, "update search_series set next = 4194303 where name = 'd'")
        memory.conversation("d", ("a",)).add(role="user", content="Where is the striped zebra?")
        two.add(role="user", content="In the zoo.")
        scopes = raw(memory, "select id from search_scope order by id")
        assert [row["id"] for row in scopes] == [scopes[0]["id"], scopes[0]["id"] + 1]
        places = [row["id"] for row in raw(memory, "select id from search_document order by id")]
        assert places[-1] == places[-2] + 1
        asked = "Where was the striped zebra on 1 January 2026?"  # when all of it was said
        found = memory.search(asked, namespace=("a",), limit=100)
        assert {each.namespace for each in found} == {("a",)}
        assert {each.text for each in memory.search(asked, namespace=("b",))} == {"In the zoo."}
        assert not memory.search(asked, namespace=("b",))[0].why.terms
        assert {each.text for each in memory.search("Where is the striped zebra?", everything=True)} == {
            "Where is the striped zebra?"
        }
        assert memory.search("zoo", namespace=("a",)) == []


class TestScoreIsolation:
    @pytest.mark.parametrize("most", [2_000, 15], ids=["few", "common"])
    def test_other_namespaces_do_not_affect_scores(self, memory, monkeypatch, most):
        monkeypatch.setattr(module, "MAX_POSTINGS", most)
        luck = random.Random(8)
        mine, others = [("a",), ("a", "b")], [("ab",), ("b",), ("ä",), ("a\u0020",)]
        for namespaces in (others, mine, others):
            fill(memory, luck, 70, namespaces)
        asked = [(random_query(luck), random_scope(luck)._replace(namespace=luck.choice(mine))) for _ in range(40)]

        def answers():
            return [shown(memory.search(question, limit=50, **where._asdict())) for question, where in asked]

        before = answers()
        assert sum(map(len, before)) > 100
        fill(memory, luck, 150, others)
        assert answers() == before
        for namespace in others:
            memory.erase(namespace=namespace)
        assert answers() == before

    def test_speaker_names_of_other_namespaces_are_ignored(self, memory):
        memory.conversation("c", ("0",)).add(role="user", content="hello", name="Rose")
        memory.conversation("c", ("a",)).add(role="user", content="The rose is red.")
        before = shown(memory.search("Is a red rose red?", namespace=("a",)))
        memory.conversation("c", ("b",)).add(role="user", content="hello", name="Rose")
        assert shown(memory.search("Is a red rose red?", namespace=("a",))) == before
        assert before[0][2].count("rose") == 1


def test_merged_ranges_exclude_other_kinds(memory, monkeypatch):
    monkeypatch.setattr(module, "MAX_RANGES", 1)
    for n in range(3):
        memory.conversation("c", ("a", f"{n}")).add(role="user", content="a heron")
        memory.store.put(("a", f"{n}"), "k", {"text": "a heron"})
    found = memory.search("heron", kinds=["item"], everything=True)
    assert {each.kind for each in found} == {"item"}
