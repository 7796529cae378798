"""Operations on item rows by concurrent callers."""

import pytest

from langchain_agentmem.stores import item_rows
from langchain_agentmem.stores.item_rows import MINUTE_MICROS, ItemDraft, ItemPlace

pytestmark = pytest.mark.sqlite_suffices

AT = ItemPlace("a\x1f", "k")


@pytest.fixture
def engine(memory):
    return memory.database.engine


def put(engine, ttl, now):
    engine.write(lambda tx: item_rows.write(tx, {AT: ItemDraft(b"{}", ttl)}, now=now))
    return engine.read(lambda tx: item_rows.get(tx, [AT], now=now))[AT]


def exists(engine, now):
    return AT in engine.read(lambda tx: item_rows.get(tx, [AT], now=now))


class TestTtlRefresh:
    """The TTL is refreshed after the reading transaction, so others may write in between."""

    def test_older_read_does_not_shorten_the_ttl(self, engine):
        item = put(engine, 10, 0)
        engine.write(lambda tx: item_rows.touch(tx, [item], now=5 * MINUTE_MICROS))
        engine.write(lambda tx: item_rows.touch(tx, [item], now=3 * MINUTE_MICROS))
        assert exists(engine, 14 * MINUTE_MICROS)

    def test_rewritten_item_keeps_its_new_ttl(self, engine):
        item = put(engine, 60, 0)
        put(engine, 10, MINUTE_MICROS)
        engine.write(lambda tx: item_rows.touch(tx, [item], now=2 * MINUTE_MICROS))
        assert not exists(engine, 12 * MINUTE_MICROS)

    def test_refresh_does_not_revive_expired_items(self, engine):
        item = put(engine, 10, 0)
        engine.write(lambda tx: item_rows.touch(tx, [item], now=11 * MINUTE_MICROS))
        assert not exists(engine, 12 * MINUTE_MICROS)
        engine.write(lambda tx: item_rows.write(tx, {AT: None}, now=0))
        engine.write(lambda tx: item_rows.touch(tx, [item], now=5 * MINUTE_MICROS))
        assert not exists(engine, 6 * MINUTE_MICROS)
