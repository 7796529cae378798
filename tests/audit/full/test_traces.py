"""Operations of the audit trail and entries of model calls appear in traces."""

import pytest
from langchain_core.runnables import RunnableLambda

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import StepFinished
from tests.audit.entries import model_graph
from tests.support.graphs import at
from tests.support.models import ScriptedModel
from tests.tracing.trees import Collector

SECRET = "Xanadu"
ADD = "memory.audit.add"
pytestmark = pytest.mark.sqlite_suffices


class TestHandlerTraces:
    async def test_write_is_traced_beside_the_model_call(self, memory, collector, do):
        graph, given = model_graph(ScriptedModel("It is by the river.")), {"messages": ["Where is it?"]}
        config = {"callbacks": [collector, memory.audit.handler()], **at(namespace=("ada",))}
        await do(graph, "invoke", given, config)
        # One run of ours, though it is told to the very tracers that heard of the model.
        node = ("node0", [("call", [("ScriptedModel", []), (ADD, [])])])
        assert collector.shapes == [("LangGraph", [node])]
        run = collector.run(ADD)
        told = {name: run.inputs[name] for name in ("kind", "prompt", "reply")}
        assert told == {"kind": "call", "prompt": "Where is it?", "reply": "It is by the river."}
        assert run.inputs["of_run_id"] == str(collector.run("ScriptedModel").id)
        assert run.inputs["junk"] == []
        metadata = run.extra["metadata"]
        assert (metadata["thread_id"], metadata["agentmem_namespace"]) == ("t", "ada")

    def test_failed_write_is_a_traced_error_not_raised(self, memory, collector):
        model = ScriptedModel("Hello.")
        handler = memory.audit.handler()

        def failing(*_, **__):
            raise OSError("the disk is full")

        memory.database.engine.write = failing
        chain = RunnableLambda(lambda _: model.invoke("Hi.").text).with_config(run_name="mine")
        assert chain.invoke(None, {"callbacks": [collector, handler]}) == "Hello."
        del memory.database.engine.write
        assert "the disk is full" in collector.run(ADD).error
        assert collector.roots[0].error is None


async def test_content_is_omitted_without_trace_content(collector, tmp_path):
    steps = []
    with AgentMemory(":memory:", hooks=[steps.append], trace_content=False) as quiet:
        trail = quiet.audit
        collector.under(lambda: trail.add(f"Where is {SECRET}?", f"{SECRET} is far.", "c"))
        await collector.aunder(lambda: trail.asearch(SECRET))
        collector.under(lambda: trail.add_todo_from_chat(f"We need to buy a map of {SECRET}."))
        collector.under(lambda: trail.add_reference(f"All of {SECRET}", title=SECRET))
        collector.under(trail.todos)
        collector.under(lambda: trail.last(3))
        collector.under(lambda: trail.export_document(tmp_path / "agent_memory.json"))
    assert len(collector.ours()) >= 7
    assert SECRET not in str([run.model_dump() for run in collector.ours()])
    assert SECRET not in str([step for step in steps if isinstance(step, StepFinished)])
    assert collector.run(ADD).inputs["conversation_id"] == "c"


CALLS = [
    (lambda trail: trail.add("More?", "Certainly, as you like."), "add", {"count": 1}),
    (lambda trail: trail.add("continue", "", "c"), "add", {"count": 1}),
    (lambda trail: trail.add_reference("Be kind.", "Rules"), "add_reference", {"id": "id-5"}),
    (lambda trail: trail.last(2, "c"), "last", {"count": 1}),
    (lambda trail: trail.get("no"), "get", {"result": None}),
    (lambda trail: list(trail.entries(kinds=["todo"])), "entries", {"count": 1}),
    (lambda trail: trail.todos(), "todos", {"count": 1}),
    (lambda trail: trail.complete("id-2"), "complete", {"result": True}),
    (lambda trail: trail.reopen("id-2"), "reopen", {"result": True}),
    (lambda trail: trail.add_todo_from_chat("Nice."), "add_todo_from_chat", {"count": 0}),
    (lambda trail: trail.filter_junk(), "filter_junk", {"result": 0}),
    (lambda trail: trail.archive(), "archive", {"result": 0}),
    (lambda trail: trail.verify(), "verify", {"entries": 5, "erased": 0, "problems": []}),
    (lambda trail: trail.report(), "report", {"conversations": 1, "open_todos": 1}),
]


@pytest.fixture
def filled_trail(trail):
    trail.add("Where do we meet?", "In the office, at nine.", "c")
    trail.add_todo_from_chat("We need to buy tea.")
    return trail


class TestTracedCalls:
    def test_each_call_is_one_step_with_outputs(self, filled_trail):
        for call, verb, outputs in CALLS:
            collector = Collector()
            collector.under(lambda call=call: call(filled_trail))
            run = collector.only()
            assert (run.name, run.outputs | outputs, run.error) == (f"memory.audit.{verb}", run.outputs, None), verb
            assert run.inputs, verb

    def test_rejected_call_is_traced_as_an_error(self, trail, collector):
        with pytest.raises(Exception, match="Unknown todo"):
            collector.under(lambda: trail.complete("no"))
        assert "InvalidInput" in collector.only().error

    async def test_search_is_traced_as_a_retriever_with_documents(self, filled_trail, collector):
        [found] = await collector.aunder(lambda: filled_trail.asearch("office meet", 3, "c"))
        run = collector.only()
        assert (run.name, run.run_type, run.inputs) == ("memory.audit.search", "retriever", {"query": "office meet"})
        [document] = run.outputs["documents"]
        assert (document.id, document.page_content) == (found.id, found.text)
        assert document.metadata["why"] == str(found.why)
        assert run.extra["metadata"]["conversation_id"] == "c"
        assert run.extra["metadata"]["limit"] == 3
