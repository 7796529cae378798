"""The full-text index follows the log: what is there is found, what is gone is not."""

import random
from collections import Counter

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.search import analysis, search_index


def ids(memory, query, **options):
    return [each.id for each in memory.search(query, limit=1000, **options)]


def indexed(memory, raw):
    """What the index itself holds: in how many entries each term occurs."""
    if memory.database.engine.dialect == "sqlite":
        raw(memory, "create virtual table if not exists temp.words using fts5vocab (main, search_index, row)")
        return {row["term"]: row["doc"] for row in raw(memory, "select term, doc from temp.words")}
    rows = raw(memory, "select word, ndoc from ts_stat('select terms from agentmem.search_index')")
    counts = Counter()
    for row in rows:
        counts[row["word"].split("\x1f")[0]] += row["ndoc"]
    return dict(counts)


def rebuild(memory, raw):
    raw(memory, "update search_state set analysis = 0 where id = 1")
    memory.database.engine.write(search_index.refresh)


class TestFollowing:
    @pytest.mark.slow
    def test_after_anything_the_index_is_what_a_rebuild_gives(self, memory, raw):
        luck = random.Random(11)
        chats = [memory.conversation(f"c{n}", ("a",) * n) for n in range(3)]
        for step in range(400):
            chat, chance = luck.choice(chats), luck.random()
            known = [m.id for m in chat.messages] if chance > 0.5 else []
            text = " ".join(f"w{luck.randrange(40)}" for _ in range(luck.randrange(6)))
            if chance < 0.45 or not known:
                chat.add(role="user", content=text)
            elif chance < 0.55:
                chat.add_messages([HumanMessage(f"{text} b{n}") for n in range(luck.randrange(1, 90))])
            elif chance < 0.8:
                chat.update(luck.choice(known), content=text)
            elif chance < 0.98:
                chat.remove_by_id(luck.choice(known))
            else:
                chat.clear()
            if step % 100 == 99:
                assert memory.admin.verify().problems == ()
        memory.database.engine.write(search_index.absorb)
        followed = indexed(memory, raw)
        rebuild(memory, raw)
        assert indexed(memory, raw) == followed
        assert memory.admin.verify().problems == ()


class TestCatchingUp:
    """A database of before has documents without what is kept beside them today."""

    @pytest.fixture
    def of_before(self, url, raw):
        with AgentMemory(url) as memory:
            memory.conversation("c").add_messages([HumanMessage(f"word{n}, I prefer tea") for n in range(50)])
            memory.store.put(("a",), "k", {"text": "word in 2020"})
            expected = self.features(memory, raw)
            raw(memory, "update search_document set features = 0")
            raw(memory, "update search_state set behind = -1 where id = 1")
        return expected

    def features(self, memory, raw):
        return {row["id"]: row["features"] for row in raw(memory, "select id, features from search_document")}

    def behind(self, memory, raw):
        [row] = raw(memory, "select behind from search_state where id = 1")
        return row["behind"]

    def test_everything_is_found_at_once_and_soon_as_if_it_were_new(self, url, raw, of_before, monkeypatch):
        monkeypatch.setattr(search_index, "CATCH_UP_BATCH", 7)
        with AgentMemory(url) as memory:
            assert len(ids(memory, "tea")) == 50
            memory.database.background.settle()
            assert self.features(memory, raw) == of_before
            assert self.behind(memory, raw) is None  # as of a new database
            assert memory.admin.verify().problems == ()

    def test_it_goes_on_where_another_ended(self, url, raw, of_before, monkeypatch):
        monkeypatch.setattr(search_index, "CATCH_UP_BATCH", 7)
        real, left = analysis.analysed, iter(range(20))

        def analysed(text, role=None):
            if next(left, None) is None:
                raise RuntimeError("the power is out")
            return real(text, role)

        with monkeypatch.context() as broken, AgentMemory(url) as memory:
            broken.setattr(analysis, "analysed", analysed)
            with pytest.raises(RuntimeError, match="power"):
                memory.database.background.settle()
            assert 0 < sum(map(bool, self.features(memory, raw).values())) < len(of_before)
        with AgentMemory(url) as one, AgentMemory(url) as other:
            one.database.background.settle()
            other.database.background.settle()
            assert self.features(one, raw) == of_before
            assert self.behind(other, raw) is None

    def test_what_is_written_meanwhile_is_kept(self, url, raw, of_before, monkeypatch):
        monkeypatch.setattr(search_index, "CATCH_UP_BATCH", 7)
        real, said = search_index._catch_up, []

        def with_somebody_who_writes(engine, lease):
            if not said and engine.write(lambda tx: search_index._caught_up(tx, lease)):
                with AgentMemory(url) as other:
                    chat = other.conversation("c")
                    changed = [chat.messages[at].id for at in (3, 40)]  # of the first page, and of one to come
                    for message_id in changed:
                        chat.update(message_id, content=f"coffee {message_id}")
                    said.extend([*changed, chat.add(role="user", content="I prefer coffee")])
            real(engine, lease)

        monkeypatch.setattr(search_index, "_catch_up", with_somebody_who_writes)
        with AgentMemory(url) as memory:
            memory.database.background.settle()
            found = self.features(memory, raw)
            assert len(found) == len(of_before) + 1
            assert found[max(of_before)] == of_before[max(of_before)]
            assert len(said) == 3
            assert sorted(ids(memory, "coffee")) == sorted(said)
            assert len(ids(memory, "tea")) == 48
            assert memory.admin.verify().problems == ()
