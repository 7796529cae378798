"""Batches: one result for each operation, and reads that see the state before the writes."""

from __future__ import annotations

import asyncio

import pytest

from tests.contracts.store_calling import Calls, Contract, GetOp, ListNamespacesOp, PutOp, SearchOp


class BatchContract(Contract):
    """`batch` and `abatch`."""

    async def test_results_come_in_the_order_of_the_operations(self, calls: Calls) -> None:
        """Each operation has its result at its place; a put has None."""
        await calls.put_all(("a",), {"k": {"n": 1}, "l": {"n": 2}})
        results = await calls.batch(
            [
                GetOp(("a",), "l"),
                PutOp(("b",), "m", {"n": 3}),
                SearchOp(("a",), filter={"n": 1}),
                GetOp(("a",), "missing"),
                ListNamespacesOp(),
                PutOp(("a",), "k", None),
                GetOp(("a",), "k"),
                SearchOp(("nowhere",)),
            ]
        )
        assert len(results) == 8, "there must be one result for each operation"
        got, put, found, missing, listed, deleted, again, none = results
        assert getattr(got, "value", None) == {"n": 2}, "a GetOp must give its item"
        assert (put, deleted, missing) == (None, None, None), "a PutOp must give None, as a GetOp of nothing does"
        assert [item.key for item in found] == ["k"], "a SearchOp must give its items"  # type: ignore[union-attr]
        assert listed == [("a",)], "a ListNamespacesOp must give the namespaces"
        assert getattr(again, "value", None) == {"n": 1}, "a GetOp must see the state before the batch's writes"
        assert none == [], "a SearchOp of nothing must give an empty list"

    async def test_operations_may_come_from_a_generator(self, calls: Calls) -> None:
        """`batch` takes any iterable."""
        assert await calls.batch([]) == [], "an empty batch must give an empty list"
        results = await calls.batch(PutOp(("a",), key, {"n": 1}) for key in "abc")
        assert list(results) == [None, None, None], "there must be one result for each operation"
        assert sorted(await calls.keys(("a",))) == ["a", "b", "c"], "every operation must be carried out"

    async def test_reads_see_the_state_before_the_writes(self, calls: Calls) -> None:
        """Wherever in the batch they stand."""
        await calls.put(("a",), "old", {"n": 1})
        results = await calls.batch(
            [
                PutOp(("a",), "old", {"n": 2}),
                PutOp(("a",), "new", {"n": 2}),
                PutOp(("b",), "new", {"n": 2}),
                GetOp(("a",), "old"),
                GetOp(("a",), "new"),
                SearchOp(()),
                ListNamespacesOp(),
            ]
        )
        assert getattr(results[3], "value", None) == {"n": 1}, "get must see the value before the batch's writes"
        assert results[4] is None, "get must not see what the batch puts"
        found = [(item.key, item.value) for item in results[5]]  # type: ignore[union-attr]
        assert found == [("old", {"n": 1})], "search must see the state before the batch's writes"
        assert results[6] == [("a",)], "list_namespaces must see the state before the batch's writes"
        assert (await calls.existing(("a",), "old")).value == {"n": 2}, "after the batch its writes must be there"

    async def test_the_last_put_of_a_key_counts(self, calls: Calls) -> None:
        """A batch that puts and deletes one key leaves what came last."""
        await calls.batch(
            [
                PutOp(("a",), "put twice", {"n": 1, "old": True}),
                PutOp(("a",), "deleted last", {"n": 1}),
                PutOp(("a",), "put last", None),
                PutOp(("b",), "put twice", {"n": 9}),
                PutOp(("a",), "put twice", {"n": 2}),
                PutOp(("a",), "deleted last", None),
                PutOp(("a",), "put last", {"n": 3}),
            ]
        )
        assert (await calls.existing(("a",), "put twice")).value == {"n": 2}, "the last put of a key must count"
        assert (await calls.existing(("b",), "put twice")).value == {"n": 9}, "another namespace must be left alone"
        assert await calls.get(("a",), "deleted last") is None, "a deletion that comes last must count"
        assert (await calls.existing(("a",), "put last")).value == {"n": 3}, "a put after a deletion must count"

    async def test_a_batch_is_written_whole_or_not_at_all(self, calls: Calls) -> None:
        """One value that cannot be stored leaves nothing of the batch behind."""
        await calls.put(("a",), "there", {"n": 1})
        ops = [
            PutOp(("a",), "good", {"n": 1}), PutOp(("a",), "there", None), PutOp(("a",), "bad", {"wrong": object()}),
            PutOp(("a",), "also good", {"n": 2}),
        ]  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            await calls.batch(ops)
        assert await calls.keys(("a",)) == ["there"], "a batch that was refused must leave everything as it was"

    async def test_a_large_batch_is_carried_out_whole(self, calls: Calls) -> None:
        """More operations than one statement of a database takes."""
        many = [f"k{n:04}" for n in range(2_000)]
        await calls.batch([PutOp(("a",), key, {"key": key}) for key in many])
        results = await calls.batch([GetOp(("a",), key) for key in reversed(many)])
        assert [getattr(item, "key", None) for item in results] == many[::-1], "every item must come at its place"
        await calls.batch([PutOp(("a",), key, None) for key in many])
        assert await calls.search(("a",)) == [], "every item must be deleted"

    async def test_calls_at_the_same_time_lose_nothing(self, calls: Calls) -> None:
        """Any number of tasks may write at once."""
        await asyncio.gather(*(calls.put((f"n{n % 3}",), f"k{n:02}", {"n": n}) for n in range(30)))
        found = {item.key: item.value["n"] for item in await calls.search((), limit=100)}
        assert found == {f"k{n:02}": n for n in range(30)}, "every write must be there"
