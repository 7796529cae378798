"""Incremental updates of the full-text index."""

import random
from collections import Counter

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem.search import search_index


def ids(memory, query, **options):
    return [each.id for each in memory.search(query, limit=1000, **options)]


def indexed(memory, raw):
    """The document frequency of each term in the index."""
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
    memory.database.engine.write(search_index.rebuild_if_old)


@pytest.mark.slow
def test_incremental_index_equals_a_rebuilt_index(memory, raw):
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
    memory.database.engine.write(search_index.index_waiting)
    followed = indexed(memory, raw)
    rebuild(memory, raw)
    assert indexed(memory, raw) == followed
    assert memory.admin.verify().problems == ()
