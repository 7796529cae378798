"""The operations on items, where two callers meet."""

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


def is_there(engine, now):
    return AT in engine.read(lambda tx: item_rows.get(tx, [AT], now=now))


class TestPuttingOff:
    """What was read in one transaction is put off in another; between them, others may have been here."""

    def test_an_older_reading_never_brings_the_end_nearer(self, engine):
        item = put(engine, 10, 0)
        engine.write(lambda tx: item_rows.touch(tx, [item], now=5 * MINUTE_MICROS))
        engine.write(lambda tx: item_rows.touch(tx, [item], now=3 * MINUTE_MICROS))
        assert is_there(engine, 14 * MINUTE_MICROS)

    def test_what_was_written_meanwhile_keeps_its_own_end(self, engine):
        item = put(engine, 60, 0)
        put(engine, 10, MINUTE_MICROS)
        engine.write(lambda tx: item_rows.touch(tx, [item], now=2 * MINUTE_MICROS))
        assert not is_there(engine, 12 * MINUTE_MICROS)

    def test_what_has_expired_or_was_deleted_does_not_come_back(self, engine):
        item = put(engine, 10, 0)
        engine.write(lambda tx: item_rows.touch(tx, [item], now=11 * MINUTE_MICROS))
        assert not is_there(engine, 12 * MINUTE_MICROS)
        engine.write(lambda tx: item_rows.write(tx, {AT: None}, now=0))
        engine.write(lambda tx: item_rows.touch(tx, [item], now=5 * MINUTE_MICROS))
        assert not is_there(engine, 6 * MINUTE_MICROS)
