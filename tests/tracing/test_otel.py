"""Steps of memory as spans and metrics of OpenTelemetry."""

import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from langchain_agentmem import AgentMemory, __version__, otel
from langchain_agentmem.base import events
from langchain_agentmem.base.events import CompactionEvent, MessagesStored, StepFinished, StepStarted
from langchain_agentmem.otel import OpenTelemetryHook
from langchain_agentmem.tracing import Tracing
from langchain_agentmem.tracing.shown_values import Withheld

pytestmark = pytest.mark.sqlite_suffices

BEGAN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
AT_SQLITE = {"agentmem_database": "sqlite"}


class Seen:
    """A hook and what comes of it."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.hook = OpenTelemetryHook(self.tracer_provider, MeterProvider([self.reader]))

    @property
    def spans(self):
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def tree(self):
        """Names below the names of their parents."""
        spans = self.exporter.get_finished_spans()
        names = {span.context.span_id: span.name for span in spans}
        return {(names.get(span.parent.span_id) if span.parent else None, span.name) for span in spans}

    def points(self, name):
        data = self.reader.get_metrics_data()
        every = [
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]
        return [point for metric in every if metric.name == name for point in metric.data.data_points]


@pytest.fixture
def seen():
    return Seen()


def started(step_id="s1", parent_id=None, name="memory.retrieval.search", inputs=None, metadata=AT_SQLITE, at=BEGAN):
    return StepStarted(
        step_id=step_id, parent_id=parent_id, name=name, started_at=at, inputs=inputs or {}, metadata=metadata
    )


def finished(
    step_id="s1",
    parent_id=None,
    name="memory.retrieval.search",
    inputs=None,
    metadata=AT_SQLITE,
    at=BEGAN,
    duration=0.25,
    outputs=None,
    error=None,
):
    return StepFinished(
        step_id=step_id,
        parent_id=parent_id,
        name=name,
        started_at=at,
        duration=duration,
        inputs=inputs or {},
        outputs=None if error else outputs or {},
        error=error,
        metadata=metadata,
    )


class TestSpans:
    def test_a_step_is_a_span_with_its_times(self, seen):
        seen.hook(started())
        assert seen.spans == {}
        seen.hook(finished())

        span = seen.spans["memory.retrieval.search"]
        assert span.start_time == 1767323045_678901_000
        assert span.end_time - span.start_time == 250_000_000
        assert span.status.status_code is StatusCode.UNSET
        assert (span.instrumentation_scope.name, span.instrumentation_scope.version) == (
            "langchain_agentmem",
            __version__,
        )

    def test_a_step_is_below_the_one_that_it_is_a_part_of(self, seen):
        seen.hook(started("outer", name="memory.inject"))
        seen.hook(started("inner", "outer", "memory.retrieval.search"))
        seen.hook(started("innermost", "inner", "memory.embed"))
        seen.hook(finished("innermost", "inner", "memory.embed"))
        seen.hook(finished("inner", "outer", "memory.retrieval.search"))
        seen.hook(finished("outer", name="memory.inject"))

        assert seen.tree() == {
            (None, "memory.inject"),
            ("memory.inject", "memory.retrieval.search"),
            ("memory.retrieval.search", "memory.embed"),
        }

    def test_the_outermost_is_below_the_span_that_is_current(self, seen):
        tracer = seen.tracer_provider.get_tracer("the user's")
        with tracer.start_as_current_span("agent"):
            seen.hook(started("outer", name="memory.inject"))
            with tracer.start_as_current_span("something else"):
                seen.hook(started("inner", "outer", "memory.retrieval.search"))
            seen.hook(started("stray", "unknown", "memory.add"))
        for step_id, name in (
            ("inner", "memory.retrieval.search"),
            ("outer", "memory.inject"),
            ("stray", "memory.add"),
        ):
            seen.hook(finished(step_id, "outer" if step_id == "inner" else None, name))

        assert seen.tree() == {
            (None, "agent"),
            ("agent", "something else"),
            ("agent", "memory.inject"),
            ("memory.inject", "memory.retrieval.search"),
            ("agent", "memory.add"),
        }

    def test_it_has_ended_when_its_parts_have(self, seen):
        seen.hook(started("outer", name="memory.inject"))
        seen.hook(started("inner", "outer", at=BEGAN + timedelta(seconds=0.2)))
        seen.hook(finished("inner", "outer", at=BEGAN + timedelta(seconds=0.2), duration=0.1))
        seen.hook(finished("outer", name="memory.inject", duration=0.25))

        assert seen.spans["memory.inject"].end_time == seen.spans["memory.retrieval.search"].end_time

    def test_where_it_happens_has_the_names_that_everybody_uses(self, seen):
        metadata = {
            "agentmem_database": "postgres",
            "agentmem_namespace": "acme/ada",
            "agentmem_branch": "main",
            "thread_id": "t1",
            "checkpoint_id": "c1",
        }
        seen.hook(started(metadata=metadata))
        seen.hook(finished(metadata=metadata))

        assert dict(seen.spans["memory.retrieval.search"].attributes) == {
            "agentmem.database": "postgres",
            "agentmem.namespace": "acme/ada",
            "agentmem.branch": "main",
            "agentmem.thread_id": "t1",
            "agentmem.checkpoint_id": "c1",
            "db.system.name": "postgresql",
            "gen_ai.conversation.id": "t1",
        }

    def test_inputs_and_outputs_are_attributes_as_far_as_they_can_be(self, seen):
        inputs = {"query": "q" * 2000, "limit": 5, "kinds": ["message", "item"], "until": None, "walls": {"user": "a"}}
        outputs = {
            "documents": [{"id": "m1", "page_content": "text"}],
            "ids": [str(number) for number in range(100)],
            "mixed": [1, "a", 2.5],
            "none": [],
            "score": 0.5,
            "sure": True,
            "huge": 2**70,
            "deep": {"deeper": {"deepest": {"lost": 1}, "kept": 1}},
        }
        seen.hook(started(inputs=inputs))
        seen.hook(finished(inputs=inputs, outputs=outputs))

        attributes = dict(seen.spans["memory.retrieval.search"].attributes)
        del attributes["agentmem.database"], attributes["db.system.name"]
        assert attributes == {
            "agentmem.input.query": "q" * 1000,
            "agentmem.input.limit": 5,
            "agentmem.input.kinds": ("message", "item"),
            "agentmem.input.walls.user": "a",
            "agentmem.output.documents.count": 1,
            "agentmem.output.ids.count": 100,
            "agentmem.output.mixed": ("1", "a", "2.5"),
            "agentmem.output.none": (),
            "agentmem.output.score": 0.5,
            "agentmem.output.sure": True,
            "agentmem.output.huge": str(2**70),
            "agentmem.output.deep.deeper.kept": 1,
        }

    @pytest.mark.parametrize(
        ("error", "says"), [(KeyError("who"), "'who'"), (Withheld("KeyError: <5 characters>"), "<5 characters>")]
    )
    def test_a_step_that_fails_is_an_error(self, seen, error, says):
        seen.hook(started())
        seen.hook(finished(error=error))

        span = seen.spans["memory.retrieval.search"]
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == says
        assert span.attributes["error.type"] == "KeyError"
        (event,) = span.events
        assert event.name == "exception"
        assert dict(event.attributes) == {"exception.type": "KeyError", "exception.message": says}

    def test_a_step_that_began_unheard_is_a_span_too(self, seen):
        seen.hook(finished(inputs={"limit": 5}))

        assert seen.spans["memory.retrieval.search"].attributes["agentmem.input.limit"] == 5
        assert seen.spans["memory.retrieval.search"].start_time == 1767323045_678901_000

    def test_steps_that_do_not_end_are_bounded(self, seen, monkeypatch):
        monkeypatch.setattr(otel, "MOST_OPEN", 2)
        for number in range(5):
            seen.hook(started(f"s{number}", name=f"memory.step{number}"))

        assert sorted(seen.spans) == ["memory.step0", "memory.step1", "memory.step2"]
        assert all(span.attributes["agentmem.unfinished"] for span in seen.spans.values())

        seen.hook.close()
        assert len(seen.spans) == 5

    def test_many_threads_may_use_it(self, seen):
        def work(name):
            for number in range(100):
                seen.hook(started(f"{name}{number}", name=f"memory.{name}{number}"))
                seen.hook(started(f"{name}{number}+", f"{name}{number}", f"memory.{name}{number}.part"))
                seen.hook(finished(f"{name}{number}+", f"{name}{number}", f"memory.{name}{number}.part"))
                seen.hook(finished(f"{name}{number}", name=f"memory.{name}{number}"))

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        tree = seen.tree()
        assert len(tree) == 800
        assert all(parent == (name.removesuffix(".part") if name.endswith(".part") else None) for parent, name in tree)
        assert not seen.hook._open


class TestMetrics:
    def test_durations_are_told_by_operation_database_and_error(self, seen):
        seen.hook(finished(duration=0.5))
        seen.hook(finished(duration=0.25))
        seen.hook(finished(duration=2.0, error=ValueError("no")))
        seen.hook(finished(name="memory.fork", metadata={"agentmem_database": "postgres"}))

        found = {tuple(sorted(point.attributes.items())): point for point in seen.points("agentmem.operation.duration")}
        search = (("agentmem.operation", "memory.retrieval.search"), ("db.system.name", "sqlite"))
        failed = (search[0], search[1], ("error.type", "ValueError"))
        fork = (("agentmem.operation", "memory.fork"), ("db.system.name", "postgresql"))
        assert set(found) == {search, failed, fork}
        assert (found[search].count, found[search].sum) == (2, 0.75)
        assert (found[failed].count, found[failed].sum) == (1, 2.0)
        assert found[search].explicit_bounds[0] == 0.0001

    def test_messages_are_counted(self, seen):
        for ids in (("m1", "m2"), ("m3",)):
            seen.hook(MessagesStored(namespace=("acme",), conversation_id="c", message_ids=ids))

        assert [point.value for point in seen.points("agentmem.messages.stored")] == [3]

    def test_tokens_kept_out_of_prompts_are_counted_when_a_compaction_is_done(self, seen, caplog):
        compaction = {"session_id": "s", "agent_name": "a"}
        seen.hook(CompactionEvent(**compaction, status="started", pre_tokens=1000))
        seen.hook(CompactionEvent(**compaction, status="failed", pre_tokens=1000))
        seen.hook(CompactionEvent(**compaction, status="completed", pre_tokens=1000, post_tokens=400))
        seen.hook(CompactionEvent(**compaction, status="completed", pre_tokens=10, post_tokens=20))

        assert [point.value for point in seen.points("agentmem.compaction.tokens")] == [600]
        assert caplog.records == []  # OpenTelemetry would complain of a negative number

    def test_documents_are_counted_by_search(self, seen):
        seen.hook(finished(outputs={"documents": [{"id": str(number)} for number in range(30)]}))
        seen.hook(finished(outputs={"documents": []}))
        seen.hook(finished(name="memory.fork", outputs={"branch": "b"}))

        (point,) = seen.points("agentmem.search.documents")
        assert (point.count, point.sum) == (2, 30)
        assert dict(point.attributes) == {"agentmem.operation": "memory.retrieval.search"}


class Respond:
    """A graph of one node, which remembers and looks something up."""

    def __init__(self, memory):
        self.memory = memory
        builder = StateGraph(MessagesState)
        builder.add_node("respond", self.respond)
        builder.add_edge(START, "respond")
        builder.add_edge("respond", END)
        self.graph = builder.compile()

    def respond(self, state):
        self.memory.conversation("t1").add_messages(state["messages"])  # that of the thread
        found = self.memory.search("Ada")
        return {"messages": [("ai", found[0].text)]}


class TestAMemory:
    def run(self, memory, seen):
        agent = Respond(memory)
        with seen.tracer_provider.get_tracer("the user's").start_as_current_span("agent"):
            state = agent.graph.invoke(
                {"messages": [HumanMessage("Call Ada on Monday."), HumanMessage("Whom do I call?")]},
                {"configurable": {"thread_id": "t1"}},
            )
        return state["messages"][-1].content

    def test_its_operations_in_a_graph_are_spans_below_the_agents(self, url, seen):
        with AgentMemory(url, hooks=[seen.hook]) as memory:
            assert self.run(memory, seen) == "Call Ada on Monday."

        assert {("agent", "memory.conversation.add"), ("agent", "memory.retrieval.search")} <= seen.tree()
        search = seen.spans["memory.retrieval.search"]
        assert search.attributes["agentmem.thread_id"] == "t1"
        assert search.attributes["agentmem.input.query"] == "Ada"
        assert search.attributes["agentmem.output.documents.count"] == 1
        assert len({span.context.trace_id for span in seen.spans.values()}) == 1
        assert [point.value for point in seen.points("agentmem.messages.stored")] == [2]
        assert not seen.hook._open

    async def test_its_awaited_operations_are_too(self, url, seen):
        async with AgentMemory(url, hooks=[seen.hook]) as memory:
            with seen.tracer_provider.get_tracer("the user's").start_as_current_span("agent"):
                await memory.conversation("chat").aadd_messages([HumanMessage("Call Ada on Monday.")])
                await memory.asearch("Ada")

        assert {("agent", "memory.conversation.add"), ("agent", "memory.retrieval.search")} <= seen.tree()

    def test_steps_within_steps_are_spans_within_spans(self, seen):
        with AgentMemory(":memory:", hooks=[seen.hook]) as memory:
            tracing: Tracing = memory.database.tracing
            with tracing.step("memory.outer"):
                memory.search("Ada")

        assert ("memory.outer", "memory.retrieval.search") in seen.tree()

    def test_content_is_left_out_where_it_is_to_be(self, seen):
        with AgentMemory(":memory:", hooks=[seen.hook], trace_content=False) as memory:
            memory.search("Ada")

        assert seen.spans["memory.retrieval.search"].attributes["agentmem.input.query"] == "<3 characters>"

    def test_an_exporter_that_fails_changes_nothing(self, seen, caplog):
        class Fails(SpanProcessor):
            def on_start(self, span, parent_context=None):
                raise OSError("no route")

            def on_end(self, span):
                raise OSError("no route")

        seen.tracer_provider.add_span_processor(Fails())
        with AgentMemory(":memory:", hooks=[seen.hook]) as memory:
            memory.conversation("chat").add_messages([HumanMessage("Call Ada on Monday.")])
            assert [hit.text for hit in memory.search("Ada")] == ["Call Ada on Monday."]

        assert len([each for each in caplog.records if each.name == "langchain_agentmem.base.events"]) == 1

    def test_an_exporter_that_hangs_changes_nothing(self, seen, caplog, monkeypatch):
        gate = threading.Event()

        class Hangs(SpanProcessor):
            def on_end(self, span):
                gate.wait()

        monkeypatch.setattr(events, "PATIENCE", 0.05)
        seen.tracer_provider.add_span_processor(Hangs())
        with AgentMemory(":memory:", hooks=[seen.hook]) as memory:
            memory.conversation("chat").add_messages([HumanMessage("Call Ada on Monday.")])
            assert [hit.text for hit in memory.search("Ada")] == ["Call Ada on Monday."]
        gate.set()

        (record,) = [each for each in caplog.records if each.name == "langchain_agentmem.base.events"]
        assert "does not answer" in record.getMessage()


def test_without_the_extra_one_line_says_what_to_install():
    program = (
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"
        "from langchain_agentmem import MissingExtra\n"
        "try:\n"
        "    import langchain_agentmem.otel\n"
        "except MissingExtra as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)

    assert done.stdout == (
        "OpenTelemetryHook needs an optional dependency. Install it with: pip install 'langchain-agentmem[otel]'\n"
    )
