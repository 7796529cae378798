"""Traces of stores, searches and maintenance."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.store.base import GetOp, PutOp, SearchOp

from langchain_agentmem import AgentMemory, InvalidInput
from tests.support.graphs import line
from tests.tracing.trees import Collector, traced

NS = ("users", "ana")
AT = {"namespace": ["users", "ana"]}
MARK = "xyzzy-content"
pytestmark = pytest.mark.sqlite_suffices


def told(tracer: Collector) -> list[tuple[str, str, Any, Any]]:
    assert all(not run.child_runs for run in tracer.ours())
    return [(run.name.removeprefix("memory."), run.run_type, run.inputs, run.outputs) for run in tracer.ours()]


async def use(memory: AgentMemory, do: Any) -> None:
    store = memory.store
    await do(store, "put", NS, "home", {"text": f"Lisbon {MARK}"}, ttl=5)
    await do(store, "get", NS, "home")
    await do(store, "get", NS, "none")
    await do(store, "search", ("users",), query="Lisbon", limit=3)
    await do(store, "list_namespaces", prefix=("users",))
    await do(store, "batch", [GetOp(NS, "home"), PutOp(NS, "home", {"text": MARK})])
    await do(store, "batch", [SearchOp(NS), SearchOp(NS, query=MARK)])
    await do(store, "delete", NS, "home")


class TestStores:
    async def test_each_store_call_is_one_traced_run(self, memory, do):
        tracer = await traced(lambda: use(memory, do))
        put, got, none, search, listed, batch, searches, deleted = told(tracer)
        value = {"text": f"Lisbon {MARK}"}
        assert put == ("store.put", "chain", {**AT, "key": "home", "value": value, "ttl": 5}, {"result": None})
        assert got[:3] == ("store.get", "chain", {**AT, "key": "home", "refresh_ttl": True})
        assert str(value) in got[3]["result"]
        assert none[3] == {"result": None}
        assert search[:3] == ("store.search", "retriever", {"query": "Lisbon"})
        [document] = search[3]["documents"]
        assert (document.id, document.page_content) == ("home", f"Lisbon {MARK}")
        score = document.metadata.pop("score")
        assert score > 0
        assert document.metadata == {"id": "home", "kind": "item", "namespace": ["users", "ana"]}
        run = tracer.run("memory.store.put")
        assert run.extra["metadata"]["agentmem_namespace"] == "users/ana"
        asked = {"match_conditions": [{"match_type": "prefix", "path": ["users"]}], "limit": 100, "offset": 0}
        assert listed == ("store.list_namespaces", "chain", asked, {"count": 1, "items": [["users", "ana"]]})
        assert batch[:2] == ("store.batch", "chain")
        assert [each["operation"] for each in batch[2]["operations"]] == ["get", "put"]
        assert (batch[3]["count"], batch[3]["items"][1]) == (2, None)
        assert searches[:3] == ("store.search", "retriever", {"query": f"; {MARK}"})
        assert [each.id for each in searches[3]["documents"]] == ["home", "home"]
        assert deleted == ("store.delete", "chain", {**AT, "key": "home"}, {"result": None})

    async def test_traces_count_bytes_without_content(self, memory, do):
        store = memory.byte_store(("ada",))

        async def act() -> None:
            await do(store, "mset", [("k", b"secret")])
            await do(store, "mget", ["k", "none"])
            list(store.yield_keys(prefix="k"))
            await do(store, "mdelete", ["k"])

        at = {"namespace": ["ada"]}
        assert told(await traced(act)) == [
            ("bytes.set", "chain", {**at, "keys": ["k"]}, {"result": None}),
            ("bytes.get", "chain", {**at, "keys": ["k", "none"]}, {"count": 2, "items": ["<6 bytes>", None]}),
            ("bytes.list", "chain", {**at, "prefix": "k"}, {"count": 1, "items": ["k"]}),
            ("bytes.delete", "chain", {**at, "keys": ["k"]}, {"result": None}),
        ]

    async def test_trace_content_can_be_disabled(self, do, tmp_path):
        async def act() -> None:
            await use(memory, do)
            await do(memory.byte_store(), "mset", [(MARK, b"x")])
            memory.conversation("c", ("ada",)).add(role="user", content=MARK)
            assert [each.page_content for each in await do(retriever, "invoke", MARK)] == [MARK]
            await do(memory, "export", tmp_path / MARK)
            await do(memory.admin, "backup", tmp_path / f"{MARK}.db")

        with AgentMemory(tmp_path / "m.db", trace_content=False) as memory:
            retriever = memory.retriever(namespace=("ada",))
            tracer = await traced(act)
        assert len(tracer.ours()) == 13
        for run in tracer.ours():
            assert MARK not in repr([run.inputs, run.outputs, run.error, run.extra.get("metadata")])


class TestSearchAndMaintenance:
    async def test_search_trace_has_query_and_results(self, memory, do):
        memory.conversation("c", ("ada",)).add(role="user", content="Ana lives in Lisbon.")

        async def act() -> None:
            await do(memory, "search", "Lisbon", namespace=("ada",), limit=3, roles=["user"])
            with pytest.raises(InvalidInput):
                await do(memory, "search", "Lisbon", limit=-1)

        right, wrong = (await traced(act)).ours()
        assert (right.name, right.inputs) == ("memory.retrieval.search", {"query": "Lisbon"})
        metadata = right.extra["metadata"]
        assert (metadata["limit"], metadata["roles"], metadata["agentmem_namespace"]) == (3, ["user"], "ada")
        assert "kinds" not in metadata
        assert [each.page_content for each in right.outputs["documents"]] == ["Ana lives in Lisbon."]
        assert "limit" in wrong.error

    async def test_each_maintenance_call_is_one_traced_run(self, memory, do, tmp_path):
        memory.conversation("c", ("ada",)).add(role="user", content="a")

        async def act() -> None:
            await do(memory, "export", tmp_path / "export.jsonl")
            await do(memory.admin, "backup", tmp_path / "copy.db")
            await do(memory.admin, "verify")
            await do(memory, "erase", conversation_id="c", namespace=("ada",))
            await do(memory, "import_", tmp_path / "export.jsonl")

        export, backup, verify, erase, imported = told(await traced(act))
        assert [each[0] for each in (export, backup, verify, erase, imported)] == [
            f"care.{verb}" for verb in ("export", "backup", "verify", "erase", "import")
        ]
        assert export[2] == imported[2] == {"path": str(tmp_path / "export.jsonl")}
        for report in (export[3], imported[3], erase[3]):
            assert (report["conversations"], report["entries"], report["threads"]) == (1, 1, 0)
        assert (verify[3]["problems"], verify[3]["checked"]["messages"]) == ([], 1)
        assert erase[2] == {"namespace": ["ada"], "conversation_id": "c"}


async def test_checkpointer_calls_are_not_traced(memory, do):
    tracer = Collector()
    inner = line(True, RunnableLambda(lambda _: {}))
    graph = line(memory.checkpointer, RunnableLambda(lambda _: {"messages": [("ai", MARK)]}), inner)
    config = {"configurable": {"thread_id": "t"}, "callbacks": [tracer]}
    await do(graph, "invoke", {"messages": [("human", "hello")]}, config)
    assert tracer.ours() == []
