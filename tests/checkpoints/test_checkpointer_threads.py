"""Deletion, copying and pruning of whole threads, without effects on other threads."""

import contextlib

import pytest

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import query
from langchain_agentmem.threads import thread_rows

from .graphs import NOTHING, Line, at, everything, id_in, ids, new_checkpoint

pytestmark = pytest.mark.verified

LONG = " and so on" * 40  # so that it becomes a part of the part store


def fill_thread(saver, thread="t", length=3, **metadata):
    """Put a root and a child namespace with carried values, an emptied channel and pending writes."""
    configs = []
    for ns in ("", "child:1"):
        line = Line(saver, thread, ns)
        configs.append(line.put({"a": f"{thread}{ns} first" + LONG, "kept": [f"{thread}{ns} kept" + LONG]}, **metadata))
        for n in range(1, length):
            saver.put_writes(line.config, [("a", n), ("b", None)], f"task {n}", "path")
            configs.append(line.put({"a": f"{thread}{ns} {n}" + LONG, "b": NOTHING}, **metadata))
        saver.put_writes(line.config, [("a", "pending" + LONG)], "task")
    return configs


@pytest.mark.sqlite_suffices
class TestDeleteThread:
    def test_deleted_writes_do_not_reappear(self, saver):
        checkpoint = new_checkpoint({"a": 1}, {"a": "1"})
        saver.put_writes(at(checkpoint_id=checkpoint["id"]), [("a", "early")], "task")
        saver.delete_thread("t")
        saver.put(at(), checkpoint, {}, {"a": "1"})
        assert saver.get_tuple(at()).pending_writes == []

    def test_unknown_threads_are_ignored_and_strings_rejected(self, saver):
        fill_thread(saver, run_id="r")
        before = everything(saver)
        for wrong in ("the threads", b"t", None):
            for strategy in ("keep_latest", "delete"):  # each of its letters would be a thread
                with pytest.raises(InvalidInput, match="list of threads"):
                    saver.prune(wrong, strategy=strategy)
        with pytest.raises(InvalidInput, match="list of runs"):
            saver.delete_for_runs("r")
        with pytest.raises(InvalidInput, match="strategy"):
            saver.prune(["t"], strategy="keep_some")
        for thread in ("t", "nobody"):
            with contextlib.suppress(InvalidInput):
                saver.copy_thread(thread, "t")
        saver.delete_thread("nobody")
        saver.delete_for_runs([])
        saver.delete_for_runs(["unknown", "R", "%"])
        saver.prune([])
        saver.prune([], strategy="delete")
        assert everything(saver) == before


class TestDeleteWhileListing:
    def test_listing_skips_deleted_and_recreated_threads(self, saver):
        line = Line(saver)
        for n in range(6):
            line.put({"a": [f"{n}" + LONG]})
        saver.copy_thread("t", "copy")
        listing = saver.list(at("copy"))
        assert next(listing).checkpoint["channel_values"] == {"a": [f"{n}" + LONG]}
        saver.delete_thread("copy")
        saver.copy_thread("t", "another")  # whose line may have the number that the copy's had
        Line(saver, "copy").put({"a": ["new"]})
        assert list(listing) == []

    def test_listing_distinguishes_equal_ids_across_namespaces(self, saver, memory):
        for rank, namespace in ((3, ()), (2, ("b",)), (1, ("a",))):
            config = at()
            config["configurable"]["agentmem_namespace"] = namespace
            for n in range(2):
                checkpoint = new_checkpoint({"a": n}, {"a": f"{n}"}, id=f"{rank}-{n}")
                saver.put(config, checkpoint, {}, {"a": f"{n}"})
        listing = saver.list(None)
        assert "agentmem_namespace" not in next(listing).config["configurable"]
        root = {"low": "", "high": "\x01", "name": "t"}
        memory.database.engine.write(lambda tx: thread_rows.delete_threads(tx, query.threads_within(tx, **root)))
        assert [found.config["configurable"]["agentmem_namespace"] for found in listing] == [("b",)] * 2 + [("a",)] * 2


class TestDeleteRuns:
    def test_values_carried_by_later_runs_are_kept(self, saver, memory):
        line = Line(saver)
        line.put({"a": ["of the first run"], "b": 1}, run_id="r1")
        second = line.put({"b": 2}, run_id="r2")
        saver.delete_for_runs(["r1"])
        assert ids(saver.list(at())) == [id_in(second)]
        assert saver.get(at())["channel_values"] == {"a": ["of the first run"], "b": 2}
        line.put({"b": 3}, run_id="r3")
        assert saver.get(at())["channel_values"] == {"a": ["of the first run"], "b": 3}


@pytest.mark.sqlite_suffices
class TestCopyThread:
    def test_copy_and_original_are_independent(self, saver, memory):
        fill_thread(saver, "t")
        before = everything(saver, "t")
        saver.copy_thread("t", "copy")
        line = Line(saver, "copy").fork(saver.get_tuple(at("copy")).config)
        saver.put_writes(line.config, [("a", "more")], "task of the copy")
        line.put({"a": "only in the copy"})
        assert everything(saver, "t") == before
        after = everything(saver, "copy")
        saver.put_writes(saver.get_tuple(at("t")).config, [("a", "more")], "task of the original")
        saver.delete_thread("t")
        assert everything(saver, "copy") == after
        assert saver.get(at("copy"))["channel_values"]["a"] == "only in the copy"
        assert saver.get(at("copy"))["channel_values"]["kept"] == ["t kept" + LONG]

    def test_early_writes_are_copied_with_their_checkpoint(self, saver):
        line = Line(saver)
        line.put({"a": 1})
        checkpoint, metadata, new = line.next({"a": 2})
        saver.put_writes(at(checkpoint_id=checkpoint["id"]), [("a", "early")], "task")
        saver.put(line.config, checkpoint, metadata, new)
        saver.copy_thread("t", "copy")
        assert saver.get_tuple(at("copy")).pending_writes == [("task", "a", "early")]

    def test_copying_again_adds_new_checkpoints(self, saver):
        fill_thread(saver, "t")
        saver.copy_thread("t", "copy")
        once = everything(saver, "copy")
        saver.copy_thread("t", "copy")
        assert everything(saver, "copy") == once
        Line(saver).fork(saver.get_tuple(at("t")).config).put({"a": "new"})
        saver.copy_thread("t", "copy")
        assert everything(saver, "copy") == everything(saver, "t")

    def test_copy_rejects_an_existing_unrelated_target(self, saver, memory):
        for thread in ("source", "target"):
            version = saver.get_next_version(None, None)
            saver.put(at(thread), new_checkpoint({"a": thread}, {"a": version}), {}, {"a": version})
        before = everything(saver, "target")
        with pytest.raises(InvalidInput, match="Use another id"):
            saver.copy_thread("source", "target")
        assert everything(saver, "target") == before
        assert memory.admin.verify().problems == ()


class TestPrune:
    def test_prune_keeps_the_latest_of_each_namespace(self, saver, memory):
        fill_thread(saver, "t", length=5)
        fill_thread(saver, "u")
        untouched = everything(saver, "u")
        latest = [saver.get_tuple(at(ns=ns)) for ns in ("", "child:1")]
        saver.prune(["t"])
        left = list(saver.list({"configurable": {"thread_id": "t"}}))
        assert sorted(ids(left)) == sorted(ids(latest))
        for before in latest:
            after = saver.get_tuple(before.config)
            assert (after.checkpoint, after.metadata) == (before.checkpoint, before.metadata)
            assert after.pending_writes == before.pending_writes == [("task", "a", "pending" + LONG)]
        assert everything(saver, "u") == untouched

    def test_a_pruned_thread_continues(self, saver):
        configs = fill_thread(saver, "t", length=5)
        saver.prune(["t"])
        line = Line(saver).fork(saver.get_tuple(at()).config)
        line.put({"b": "new"})
        assert saver.get(at())["channel_values"] == {"a": "t 4" + LONG, "b": "new", "kept": ["t kept" + LONG]}
        assert ids(saver.list(at())) == [id_in(line.config), id_in(configs[4])]

    def test_pruned_writes_do_not_reappear(self, saver):
        line = Line(saver)
        checkpoint, metadata, new = line.next({"a": 1})
        config = saver.put(line.config, checkpoint, metadata, new)
        saver.put_writes(config, [("a", "pending")], "task")
        line.put({"a": 2})
        saver.prune(["t"])
        assert saver.get_tuple(config) is None
        saver.put(at(), checkpoint, metadata, new)
        assert saver.get_tuple(config).pending_writes == []

    def test_deleted_threads_leave_no_rows(self, saver, memory, raw):
        empty = memory.admin.stats()
        for thread in ("t", "u"):
            fill_thread(saver, thread)
        saver.copy_thread("t", "copy")
        saver.prune(["copy"])
        saver.delete_thread("t")
        saver.delete_for_runs(["unknown"])
        saver.prune(["copy", "u"], strategy="delete")
        for name, number in memory.admin.stats().items():
            if isinstance(number, int) and name not in ("bytes", "free_bytes", "log_bytes"):
                assert number == empty[name], name
        assert raw(memory, "select id from part_store") == []
