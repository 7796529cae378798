"""A time to live, in minutes: enforced when an item is read, whether or not anybody sweeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from langgraph.store.base import BaseStore

from tests.contracts.store_calling import Calls, Contract, GetOp, PutOp, Way

MakeCalls = Callable[..., Calls]
Pass = Callable[[float], None]


class ExpiringStoreContract(Contract):
    """What a store with expiry must do. The fixtures `make_store` and `pass_minutes` are to be supplied."""

    @pytest.fixture
    def make_store(self) -> Callable[..., BaseStore]:
        """Gives a function that opens an empty store, `make_store(ttl={"default_ttl": 10, …})`. To be supplied."""
        raise NotImplementedError(f"{type(self).__name__} must have a fixture make_store")

    @pytest.fixture
    def pass_minutes(self) -> Pass:
        """Gives a function that moves the store's clock on by so many minutes. To be supplied."""
        raise NotImplementedError(f"{type(self).__name__} must have a fixture pass_minutes")

    @pytest.fixture
    def calls_of(self, make_store: Callable[..., BaseStore], way: Way) -> MakeCalls:
        """Opens a store with a configuration, called in one of its ways."""
        return lambda **ttl: Calls(make_store(ttl={"omit_expired": True, **ttl}), way)

    async def test_it_says_that_it_can(self, calls_of: MakeCalls) -> None:
        """`supports_ttl` is true, and `ttl_config` what the store was made with."""
        calls = calls_of(default_ttl=10)
        assert calls.store.supports_ttl is True, "supports_ttl must be true"
        assert (calls.store.ttl_config or {}).get("default_ttl") == 10, "ttl_config must be what was given"

    async def test_an_item_is_gone_when_its_time_is_over(self, calls_of: MakeCalls, pass_minutes: Pass) -> None:
        """It is neither got nor found nor is its namespace listed, without any sweep."""
        calls = calls_of(refresh_on_read=False)
        await calls.put(("a",), "short", {"n": 1}, ttl=10)
        await calls.put(("b",), "long", {"n": 1}, ttl=30)
        pass_minutes(8)
        assert await calls.get(("a",), "short") is not None, "an item must live until its time is over"
        pass_minutes(4)
        assert await calls.get(("a",), "short") is None, "get() must not give an item whose time is over"
        assert await calls.keys(()) == ["long"], "search() must not find an item whose time is over"
        assert await calls.keys((), filter={"n": 1}) == ["long"], "nor with a filter"
        assert await calls.namespaces() == [("b",)], "list_namespaces() must not list what only holds such items"
        [got, found] = await calls.batch([GetOp(("a",), "short"), GetOp(("b",), "long")])
        assert (got is None, found is None) == (True, False), "batch() must not give an item whose time is over"

    async def test_the_default_is_for_items_without_a_time_of_their_own(self, calls_of, pass_minutes) -> None:
        """An item's own time goes before the default, and None means for ever."""
        calls = calls_of(default_ttl=10, refresh_on_read=False)
        await calls.put(("a",), "default", {"n": 1})
        await calls.put(("a",), "own", {"n": 1}, ttl=30)
        await calls.put(("a",), "ever", {"n": 1}, ttl=None)
        pass_minutes(12)
        assert await calls.get(("a",), "default") is None, "the default must count for an item without a time"
        assert sorted(await calls.keys(("a",))) == ["ever", "own"], "an item's own time must go before the default"
        pass_minutes(20)
        assert await calls.keys(("a",)) == ["ever"], "ttl=None must mean for ever"

    async def test_a_fraction_of_a_minute_counts(self, calls_of: MakeCalls, pass_minutes: Pass) -> None:
        """Times to live are numbers, not whole ones only."""
        calls = calls_of(refresh_on_read=False)
        await calls.put(("a",), "k", {"n": 1}, ttl=2.5)
        pass_minutes(2)
        assert await calls.get(("a",), "k") is not None, "2.5 minutes must not be cut to 2"
        pass_minutes(0.9)
        assert await calls.get(("a",), "k") is None, "2.5 minutes must not be rounded to 3"

    @pytest.mark.parametrize("configured", [True, False, None])
    @pytest.mark.parametrize("asked", [True, False, None])
    @pytest.mark.parametrize("read", ["get", "search"])
    async def test_a_call_decides_before_the_configuration(
        self, calls_of: MakeCalls, pass_minutes: Pass, configured: bool | None, asked: bool | None, read: str
    ) -> None:
        """`refresh_ttl` of the call, else `refresh_on_read` of the configuration, else yes."""
        calls = calls_of(default_ttl=10, **({} if configured is None else {"refresh_on_read": configured}))
        await calls.put(("a",), "k", {"n": 1})
        for _ in range(2):
            pass_minutes(6)
            if read == "get":
                await calls.get(("a",), "k", refresh_ttl=asked)
            else:
                await calls.search(("a",), refresh_ttl=asked)
        pass_minutes(6)
        refreshed = asked if asked is not None else configured if configured is not None else True
        there = bool(await calls.search(("a",), refresh_ttl=False))
        expected = "give the item its time again" if refreshed else "leave the item its time"
        assert there == refreshed, f"{read}(refresh_ttl={asked}) with refresh_on_read={configured} must {expected}"

    async def test_reading_does_not_bring_back_what_is_over(self, calls_of: MakeCalls, pass_minutes: Pass) -> None:
        """However often it is asked for."""
        calls = calls_of(default_ttl=10)
        await calls.put(("a",), "k", {"n": 1})
        pass_minutes(12)
        for _ in range(2):
            assert await calls.get(("a",), "k", refresh_ttl=True) is None, "get() must not revive an item"
            assert await calls.search(("a",), refresh_ttl=True) == [], "search() must not revive an item"

    async def test_an_update_sets_the_time_anew(self, calls_of: MakeCalls, pass_minutes: Pass) -> None:
        """The new put alone says how long an item lives."""
        calls = calls_of(refresh_on_read=False)
        await calls.put(("a",), "longer", {"n": 1}, ttl=10)
        await calls.put(("a",), "ever", {"n": 1}, ttl=10)
        await calls.put(("a",), "shorter", {"n": 1}, ttl=1_000)
        pass_minutes(6)
        await calls.put(("a",), "longer", {"n": 2}, ttl=10)
        await calls.put(("a",), "ever", {"n": 2})
        await calls.batch([PutOp(("a",), "shorter", {"n": 2}, ttl=2)])
        pass_minutes(6)
        assert sorted(await calls.keys(("a",))) == ["ever", "longer"], "an update must set the time to live anew"

    async def test_what_is_put_after_its_end_is_new(self, calls_of: MakeCalls, pass_minutes: Pass) -> None:
        """An item that was over is not updated but created."""
        calls = calls_of(default_ttl=10)
        await calls.put(("a",), "k", {"n": 1})
        before = (await calls.existing(("a",), "k")).created_at
        pass_minutes(12)
        await calls.put(("a",), "k", {"n": 2})
        after = await calls.existing(("a",), "k")
        assert after.value == {"n": 2}, "the new item must be there"
        assert after.created_at > before, "an item that was over must not lend its created_at to the next"

    async def test_limits_do_not_count_what_is_over(self, calls_of: MakeCalls, pass_minutes: Pass) -> None:
        """Pages are full although items in between are over."""
        calls = calls_of(refresh_on_read=False)
        await calls.batch([PutOp(("a",), f"k{n:02}", {"n": n}, ttl=10 if n % 2 else 100) for n in range(20)])
        pass_minutes(12)
        pages = [await calls.keys(("a",), limit=6, offset=offset) for offset in (0, 6)]
        assert [len(page) for page in pages] == [6, 4], "limits must count living items only"
