"""The contract of expiry: a time to live, in minutes, is enforced on reads, with or without a sweep."""

import itertools

import pytest
from langgraph.store.base import GetOp, PutOp

from tests.contracts.store_contract import Calls, Contract


class ExpiringStoreContract(Contract):
    """What a store with expiry must do.

    The fixtures `make_store`, which opens an empty store with a configuration, and `pass_minutes`, which moves its
    clock on, are to be supplied.
    """

    @pytest.fixture
    def calls_of(self, make_store, way):
        return lambda **ttl: Calls(make_store({"omit_expired": True, **ttl}), way)

    async def test_expired_items_are_gone(self, calls_of, pass_minutes):
        """It is neither got nor found nor is its namespace listed, without any sweep."""
        calls = calls_of(default_ttl=10, refresh_on_read=False)
        assert calls.store.supports_ttl is True
        assert calls.store.ttl_config["default_ttl"] == 10
        await calls.put(("a",), "short", {"n": 1}, ttl=10)
        await calls.put(("b",), "long", {"n": 1}, ttl=30)
        pass_minutes(8)
        assert await calls.get(("a",), "short") is not None
        pass_minutes(4)
        assert await calls.get(("a",), "short") is None
        assert await calls.keys(()) == await calls.keys((), filter={"n": 1}) == ["long"]
        assert await calls.namespaces() == [("b",)]
        [got, found] = await calls.batch([GetOp(("a",), "short"), GetOp(("b",), "long")])
        assert (got is None, found is None) == (True, False)

    async def test_item_ttl_overrides_the_default(self, calls_of, pass_minutes):
        calls = calls_of(default_ttl=10, refresh_on_read=False)
        await calls.put(("a",), "part", {"n": 1}, ttl=2.5)
        await calls.put(("a",), "default", {"n": 1})
        await calls.put(("a",), "own", {"n": 1}, ttl=30)
        await calls.put(("a",), "ever", {"n": 1}, ttl=None)
        for minutes, there in (
            (1, ["default", "ever", "own", "part"]),
            (1.9, ["default", "ever", "own"]),
            (9, ["ever", "own"]),
            (20, ["ever"]),
        ):
            pass_minutes(minutes)
            assert sorted(await calls.keys(("a",))) == there

    @pytest.mark.parametrize("configured", [True, False, None])
    async def test_refresh_ttl_overrides_the_configuration(self, calls_of, pass_minutes, configured):
        """`refresh_ttl` of the call counts, else `refresh_on_read` of the configuration, else yes."""
        calls = calls_of(default_ttl=10, **({} if configured is None else {"refresh_on_read": configured}))
        for asked, read in itertools.product((True, False, None), ("get", "search")):
            await calls.put((read, str(asked)), "k", {"n": 1})
            for _ in range(2):
                pass_minutes(6)
                if read == "get":
                    await calls.get((read, str(asked)), "k", refresh_ttl=asked)
                else:
                    await calls.search((read, str(asked)), refresh_ttl=asked)
            pass_minutes(6)
            refreshed = asked if asked is not None else configured is not False
            assert bool(await calls.search((read, str(asked)), refresh_ttl=False)) == refreshed, (read, asked)

    async def test_expired_items_cannot_be_refreshed(self, calls_of, pass_minutes):
        calls = calls_of(default_ttl=10)
        await calls.put(("a",), "k", {"n": 1})
        before = (await calls.existing(("a",), "k")).created_at
        pass_minutes(12)
        for _ in range(2):
            assert await calls.get(("a",), "k", refresh_ttl=True) is None
            assert await calls.search(("a",), refresh_ttl=True) == []
        await calls.put(("a",), "k", {"n": 2})
        after = await calls.existing(("a",), "k")
        assert after.value == {"n": 2}
        assert after.created_at > before

    async def test_update_resets_the_ttl(self, calls_of, pass_minutes):
        calls = calls_of(refresh_on_read=False)
        await calls.put(("a",), "longer", {"n": 1}, ttl=10)
        await calls.put(("a",), "ever", {"n": 1}, ttl=10)
        await calls.put(("a",), "shorter", {"n": 1}, ttl=1_000)
        pass_minutes(6)
        await calls.put(("a",), "longer", {"n": 2}, ttl=10)
        await calls.put(("a",), "ever", {"n": 2})
        await calls.batch([PutOp(("a",), "shorter", {"n": 2}, ttl=2)])
        pass_minutes(6)
        assert sorted(await calls.keys(("a",))) == ["ever", "longer"]

    async def test_limits_ignore_expired_items(self, calls_of, pass_minutes):
        calls = calls_of(refresh_on_read=False)
        await calls.batch([PutOp(("a",), f"k{n:02}", {"n": n}, ttl=10 if n % 2 else 100) for n in range(20)])
        pass_minutes(12)
        assert [len(await calls.keys(("a",), limit=6, offset=offset)) for offset in (0, 6)] == [6, 4]
