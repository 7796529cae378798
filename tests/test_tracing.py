"""Every operation can be seen where it happened, and being seen changes nothing about it."""

import asyncio
import contextvars
import json
import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, SimpleNamespace
from typing import Any, TypedDict

import langsmith
import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler, CallbackManager
from langchain_core.documents import Document
from langchain_core.globals import set_debug
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.context import collect_runs, tracing_v2_enabled
from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.graph import END, START, StateGraph
from langsmith import get_current_run_tree, run_trees, traceable, tracing_context
from langsmith.utils import get_env_var

from langchain_agentmem import tracing as module
from langchain_agentmem.events import Hooks
from langchain_agentmem.tracing import Tracing, plain


class Collector(BaseTracer):
    """A LangChain tracer that keeps the finished trees."""

    def __init__(self):
        super().__init__()
        self.roots = []

    def _persist_run(self, run):
        self.roots.append(run)


def shape(run):
    """A run as (name, [children])."""
    return (run.name, [shape(child) for child in run.child_runs])


def never():
    pytest.fail("nobody listens, so this must not be computed")


def unreadable():
    raise LookupError("this cannot be read")


@pytest.fixture
def collector():
    return Collector()


@pytest.fixture
def traced_by(collector):
    return {"callbacks": [collector]}


@pytest.fixture
def heard():
    return []


@pytest.fixture
def tracing():
    return Tracing(metadata={"agentmem_database": "sqlite"})


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch):
    """LangSmith reads the environment once; each test starts as a new process would."""
    for library in ("LANGSMITH", "LANGCHAIN"):
        for name in ("TRACING", "TRACING_V2", "API_KEY", "ENDPOINT", "PROJECT"):
            monkeypatch.delenv(f"{library}_{name}", raising=False)
    forget_environment()
    yield
    forget_environment()


def forget_environment():
    get_env_var.cache_clear()
    module._environment_asks_for_tracing.cache_clear()


def remember(tracing, **options):
    with tracing.step("memory.conversation.add", inputs=lambda: {"messages": 2}, **options) as step:
        step.finish(lambda: {"ids": ["m1", "m2"]})
    return step


async def aremember(tracing, **options):
    async with tracing.step("memory.conversation.add", inputs=lambda: {"messages": 2}, **options) as step:
        await asyncio.sleep(0)
        step.finish(lambda: {"ids": ["m1", "m2"]})
    return step


def complaints(caplog):
    return [r for r in caplog.records if r.name == module.__name__ and r.levelno == logging.WARNING]


class TestSilence:
    def test_nothing_is_computed_when_nobody_listens(self, tracing):
        with tracing.step("memory.conversation.add", inputs=never, metadata=never) as step:
            step.finish(never)

        assert not step.listening

    async def test_nothing_is_computed_when_nobody_listens_to_async_code(self, tracing):
        async with tracing.step("memory.conversation.add", inputs=never, metadata=never) as step:
            step.finish(never)

        assert not step.listening

    def test_all_silent_steps_are_one(self, tracing):
        assert tracing.step("memory.conversation.add") is Tracing().step("memory.recall.search")

    def test_a_run_without_tracers_is_silent(self, tracing):
        steps = []
        RunnableLambda(lambda _: steps.append(remember(tracing))).invoke(None)

        assert not steps[0].listening

    def test_an_error_passes_through_silence(self, tracing):
        with pytest.raises(ValueError, match="mine"), tracing.step("memory.conversation.add"):
            raise ValueError("mine")

    def test_turning_langsmith_off_for_a_block_is_silence(self, tracing, monkeypatch):
        monkeypatch.setenv("LANGSMITH_TRACING", "true")
        get_env_var.cache_clear()
        with tracing_context(enabled=False):
            assert not remember(tracing).listening
            assert not module._may_be_traced(None)

    def test_a_maybe_that_comes_to_nothing_computes_nothing(self, tracing, monkeypatch):
        monkeypatch.setattr(module, "_may_be_traced", lambda config: True)
        with tracing.step("memory.conversation.add", inputs=never, metadata=never) as step:
            step.finish(never)

    def test_the_module_loads_no_library(self):
        program = (
            "import sys; from langchain_agentmem.tracing import Tracing\n"
            "with Tracing().step('memory.conversation.add'): pass\n"
            "loaded = {name.partition('.')[0] for name in sys.modules}\n"
            "assert not loaded & {'langchain_core', 'langgraph', 'langsmith', 'numpy', 'psycopg'}, loaded\n"
        )
        subprocess.run([sys.executable, "-c", program], check=True)


class TestRuns:
    def test_a_step_is_a_run_with_what_a_person_wants_to_know(self, tracing, collector, traced_by):
        remember(tracing, config=traced_by, metadata=lambda: {"thread_id": "t"})

        (run,) = collector.roots
        assert (run.name, run.run_type, run.error) == ("memory.conversation.add", "chain", None)
        assert run.inputs == {"messages": 2}
        assert run.outputs == {"ids": ["m1", "m2"]}
        assert run.extra["metadata"] == {"agentmem_database": "sqlite", "thread_id": "t"}

    def test_a_search_is_a_retriever_with_its_documents(self, tracing, collector, traced_by):
        with tracing.step(
            "memory.recall.search",
            run_type="retriever",
            inputs=lambda: {"query": "cats", "limit": 2},
            config=traced_by,
        ) as step:
            step.finish(
                lambda: {
                    "documents": [
                        {"page_content": "a cat", "metadata": {"score": 0.5}, "id": "m1"},
                        Document("two cats", id="m2"),
                    ]
                }
            )

        (run,) = collector.roots
        assert run.run_type == "retriever"
        assert run.inputs == {"query": "cats"}
        assert run.extra["metadata"]["limit"] == 2
        assert run.outputs == {
            "documents": [
                Document("a cat", metadata={"score": 0.5}, id="m1"),
                Document("two cats", id="m2"),
            ]
        }

    def test_a_tool_call_is_a_tool(self, tracing, collector, traced_by):
        remember(tracing, run_type="tool", config=traced_by)

        (run,) = collector.roots
        assert (run.name, run.run_type) == ("memory.conversation.add", "tool")
        assert run.inputs == {"messages": 2}
        assert run.outputs == {"output": {"ids": ["m1", "m2"]}}

    @pytest.mark.parametrize("run_type", ["chain", "retriever", "tool"])
    async def test_async_steps_are_the_same_runs(self, tracing, collector, traced_by, run_type):
        await aremember(tracing, run_type=run_type, config=traced_by)
        remember(tracing, run_type=run_type, config=traced_by)

        asynchronous, synchronous = collector.roots
        assert asynchronous.run_type == run_type
        assert asynchronous.inputs == synchronous.inputs
        assert asynchronous.outputs == synchronous.outputs

    @pytest.mark.parametrize("run_type", ["chain", "retriever", "tool"])
    def test_an_error_is_recorded_and_passes_unchanged(self, tracing, collector, traced_by, run_type):
        mine = ValueError("mine")

        def fail():
            with tracing.step("memory.conversation.add", run_type=run_type, config=traced_by) as step:
                step.finish(never)
                raise mine

        with pytest.raises(ValueError) as raised:
            fail()

        assert raised.value is mine
        assert mine.__context__ is None
        (run,) = collector.roots
        assert "mine" in run.error

    def test_an_interrupt_is_recorded(self, tracing, collector, traced_by):
        with (
            pytest.raises(KeyboardInterrupt),
            tracing.step("memory.conversation.add", config=traced_by),
        ):
            raise KeyboardInterrupt

        assert "KeyboardInterrupt" in collector.roots[0].error

    async def test_a_cancelled_step_is_recorded(self, tracing, collector, traced_by, heard):
        begun = asyncio.Event()
        tracing = Tracing(Hooks([heard.append]))

        async def operation():
            async with tracing.step("memory.conversation.add", config=traced_by):
                begun.set()
                await asyncio.sleep(3600)

        task = asyncio.create_task(operation())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert "CancelledError" in collector.roots[0].error
        assert isinstance(heard[0].error, asyncio.CancelledError)


class TestNesting:
    def test_steps_and_models_within_a_step_are_its_children(self, tracing, collector, traced_by):
        with tracing.step("memory.compaction.run", config=traced_by):
            remember(tracing)
            FakeListChatModel(responses=["short"]).invoke("summarize")

        assert [shape(run) for run in collector.roots] == [
            ("memory.compaction.run", [("memory.conversation.add", []), ("FakeListChatModel", [])])
        ]

    def test_after_a_step_the_surroundings_are_as_before(self, tracing, collector, traced_by):
        def twice(_):
            before = var_child_runnable_config.get()
            remember(tracing)
            assert var_child_runnable_config.get() is before
            remember(tracing)

        RunnableLambda(twice).with_config(run_name="chain").invoke(None, traced_by)

        add = ("memory.conversation.add", [])
        assert [shape(run) for run in collector.roots] == [("chain", [add, add])]
        assert var_child_runnable_config.get() is None

    def test_a_failed_step_gives_the_surroundings_back(self, tracing, traced_by):
        with pytest.raises(ValueError), tracing.step("memory.conversation.add", config=traced_by):
            raise ValueError

        assert var_child_runnable_config.get() is None

    def test_a_step_nests_under_a_chain(self, tracing, collector, traced_by):
        chain = RunnableLambda(lambda _: remember(tracing)).with_config(run_name="chain")
        chain.invoke(None, traced_by)

        assert [shape(run) for run in collector.roots] == [("chain", [("memory.conversation.add", [])])]

    async def test_a_step_nests_under_an_async_chain(self, tracing, collector, traced_by):
        async def remembering(_):
            async with tracing.step("memory.compaction.run"):
                await aremember(tracing)
                remember(tracing)

        await RunnableLambda(remembering).with_config(run_name="chain").ainvoke(None, traced_by)

        add = ("memory.conversation.add", [])
        assert [shape(run) for run in collector.roots] == [("chain", [("memory.compaction.run", [add, add])])]

    def test_a_step_nests_under_a_graph_node(self, tracing, collector, traced_by):
        graph = graph_of(lambda state: remember(tracing) and {})
        graph.invoke({"text": ""}, traced_by)

        assert [shape(run) for run in collector.roots] == [("LangGraph", [("node", [("memory.conversation.add", [])])])]

    async def test_a_step_nests_under_an_async_graph_node(self, tracing, collector, traced_by):
        async def node(state):
            await aremember(tracing)
            return {}

        await graph_of(node).ainvoke({"text": ""}, traced_by)

        assert [shape(run) for run in collector.roots] == [("LangGraph", [("node", [("memory.conversation.add", [])])])]

    async def test_streaming_events_shows_the_step(self, tracing):
        async def node(state):
            await aremember(tracing)
            return {}

        events = [event async for event in graph_of(node).astream_events({"text": ""}, version="v2")]

        mine = [event["event"] for event in events if event["name"] == "memory.conversation.add"]
        assert mine == ["on_chain_start", "on_chain_end"]

    def test_a_thread_with_the_context_nests(self, tracing, collector, traced_by):
        with (
            tracing.step("memory.compaction.run", config=traced_by),
            ThreadPoolExecutor(1) as threads,
        ):
            threads.submit(contextvars.copy_context().run, remember, tracing).result()

        assert [shape(run) for run in collector.roots] == [("memory.compaction.run", [("memory.conversation.add", [])])]

    async def test_parallel_tasks_nest_each_under_its_own(self, tracing, collector, traced_by):
        async def part(name):
            async with tracing.step(name):
                await asyncio.sleep(0)
                await aremember(tracing)

        async with tracing.step("memory.compaction.run", config=traced_by):
            await asyncio.gather(part("memory.facts.extract"), part("memory.archival.write"))

        (run,) = collector.roots
        add = [("memory.conversation.add", [])]
        assert sorted(shape(child) for child in run.child_runs) == [
            ("memory.archival.write", add),
            ("memory.facts.extract", add),
        ]

    def test_a_step_closed_in_another_context_still_ends(self, tracing, collector, traced_by):
        step = tracing.step("memory.conversation.add", config=traced_by)
        contextvars.copy_context().run(step.__enter__)
        contextvars.copy_context().run(step.__exit__, None, None, None)

        assert collector.roots[0].end_time is not None

    def test_plain_code_is_seen_by_collect_runs(self, tracing):
        with collect_runs() as collected:
            remember(tracing)

        assert [run.name for run in collected.traced_runs] == ["memory.conversation.add"]

    def test_the_global_debug_switch_shows_steps(self, tracing, capsys):
        set_debug(True)
        try:
            remember(tracing)
        finally:
            set_debug(False)

        assert "memory.conversation.add" in capsys.readouterr().out

    def test_a_library_that_has_moved_its_switches_is_asked_itself(self, tracing, monkeypatch):
        monkeypatch.setitem(sys.modules, "langsmith._internal._context", ModuleType("moved"))
        assert module._may_be_traced(None)

    def test_a_langsmith_with_other_modules_is_asked_itself(self, monkeypatch):
        answer = SimpleNamespace(tracing_is_enabled=lambda: "local")
        assert module._langsmith_may_listen({"langsmith.utils": answer})

    @pytest.mark.parametrize("name", ["LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"])
    def test_the_environment_is_heard_before_langsmith_is_loaded(self, monkeypatch, name):
        assert not module._langsmith_may_listen({})
        monkeypatch.setenv(name, "true")
        forget_environment()
        assert module._langsmith_may_listen({})


class State(TypedDict):
    text: str


def graph_of(node):
    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile()


class Broken(BaseCallbackHandler):
    """Fails at every turn, and asks that its failures be raised."""

    raise_error = True

    def __getattribute__(self, name):
        if name.startswith("on_"):
            return self.fail
        return super().__getattribute__(name)

    def fail(self, *args, **kwargs):
        raise RuntimeError("broken handler")


class BrokenAsync(AsyncCallbackHandler):
    raise_error = True

    async def on_chain_start(self, *args, **kwargs):
        raise RuntimeError("broken handler")

    async def on_chain_end(self, *args, **kwargs):
        raise RuntimeError("broken handler")


class TestFailingListeners:
    @pytest.mark.parametrize("broken", [Broken, BrokenAsync])
    def test_a_failing_handler_breaks_neither_operation_nor_tracer(self, tracing, collector, broken):
        remember(tracing, config={"callbacks": [broken(), collector]})

        assert collector.roots[0].outputs == {"ids": ["m1", "m2"]}

    def test_langchain_logs_a_failing_handler_under_its_own_name(self, tracing, caplog):
        remember(tracing, config={"callbacks": [Broken()]})

        assert "Broken.on_chain_start" in caplog.text

    def test_models_within_a_step_still_get_the_handler_as_it_is(self, tracing):
        model = FakeListChatModel(responses=["short"])
        with (
            tracing.step("memory.compaction.run", config={"callbacks": [Broken()]}),
            pytest.raises(RuntimeError, match="broken handler"),
        ):
            model.invoke("summarize")

    @pytest.mark.parametrize("broken", [Broken, BrokenAsync])
    async def test_nor_in_async_code(self, tracing, collector, broken):
        await aremember(tracing, config={"callbacks": [broken(), collector]})

        assert collector.roots[0].outputs == {"ids": ["m1", "m2"]}

    def test_the_operations_own_error_survives_a_failing_handler(self, tracing):
        with (
            pytest.raises(ValueError, match="mine"),
            tracing.step("memory.conversation.add", config={"callbacks": [Broken()]}),
        ):
            raise ValueError("mine")

    def test_inputs_that_cannot_be_read_cost_only_themselves(self, tracing, collector, traced_by, caplog):
        for _ in range(2):
            with tracing.step("memory.conversation.add", inputs=unreadable, config=traced_by) as step:
                step.finish(lambda: {"ids": []})

        assert [run.inputs for run in collector.roots] == [{}, {}]
        (record,) = complaints(caplog)
        assert "inputs of memory.conversation.add" in record.getMessage()
        assert record.exc_info[0] is LookupError

    def test_outputs_that_cannot_be_read_cost_only_themselves(self, tracing, collector, traced_by, caplog):
        with tracing.step("memory.conversation.add", config=traced_by) as step:
            step.finish(unreadable)

        assert collector.roots[0].outputs == {}
        assert len(complaints(caplog)) == 1

    @pytest.mark.parametrize("turn", ["of", "start", "enter", "end"])
    def test_a_failing_mechanism_is_logged_once(self, tracing, traced_by, monkeypatch, caplog, turn):
        def fail(*args, **kwargs):
            raise RuntimeError("the mechanism")

        monkeypatch.setattr(module._Run, turn, fail)
        for _ in range(2):
            with tracing.step("memory.conversation.add", config=traced_by):
                done = True

        assert done
        assert len(complaints(caplog)) == 1
        assert var_child_runnable_config.get() is None

    async def test_a_failing_mechanism_is_logged_once_in_async_code(self, tracing, traced_by, monkeypatch, caplog):
        async def fail(*args, **kwargs):
            raise RuntimeError("the mechanism")

        monkeypatch.setattr(module._Run, "start", fail)
        await aremember(tracing, config=traced_by)
        await aremember(tracing, config=traced_by)

        assert len(complaints(caplog)) == 1


class TestHooksAndLog:
    def test_a_hook_gets_the_whole_step(self, heard):
        moment = datetime(2026, 1, 2, tzinfo=UTC)
        ticks = iter([10.0, 10.25])
        tracing = Tracing(
            Hooks([heard.append]),
            {"agentmem_database": "sqlite"},
            clock=lambda: moment,
            timer=lambda: next(ticks),
        )
        remember(tracing)

        (event,) = heard
        assert (event.name, event.started_at, event.duration) == ("memory.conversation.add", moment, 0.25)
        assert event.inputs == {"messages": 2}
        assert event.outputs == {"ids": ["m1", "m2"]}
        assert event.error is None
        assert event.metadata == {"agentmem_database": "sqlite"}

    def test_a_hook_hears_of_errors(self, heard):
        mine = ValueError("mine")
        with pytest.raises(ValueError), Tracing(Hooks([heard.append])).step("memory.conversation.add"):
            raise mine

        assert heard[0].error is mine
        assert heard[0].outputs is None

    async def test_a_hook_hears_of_async_steps(self, heard):
        await aremember(Tracing(Hooks([heard.append])))

        assert heard[0].outputs == {"ids": ["m1", "m2"]}

    async def test_an_asynchronous_hook_is_awaited(self, heard):
        async def hook(event):
            await asyncio.sleep(0)
            heard.append(event.name)

        hooks = Hooks([hook])
        await aremember(Tracing(hooks))
        await hooks.settle()

        assert heard == ["memory.conversation.add"]

    def test_the_log_has_a_debug_line_and_computes_nothing_for_it(self, caplog):
        caplog.set_level(logging.DEBUG, "langchain_agentmem")
        ticks = iter([10.0, 10.0012])
        with Tracing(timer=lambda: next(ticks)).step("memory.conversation.add", inputs=never) as step:
            step.finish(never)

        assert not step.listening
        assert [record.getMessage() for record in caplog.records if record.name == module.__name__] == [
            "memory.conversation.add 1.2 ms"
        ]

    def test_the_log_names_the_kind_of_error_but_does_not_quote_it(self, caplog):
        caplog.set_level(logging.DEBUG, "langchain_agentmem")
        with pytest.raises(ValueError), Tracing().step("memory.conversation.add"):
            raise ValueError("a secret")

        assert "failed with ValueError" in caplog.text
        assert "secret" not in caplog.messages[0]


@dataclass
class Part:
    when: datetime
    names: tuple[str, ...]


class TestPlainValues:
    @pytest.mark.parametrize(
        ("value", "readable"),
        [
            (("acme", "user"), ["acme", "user"]),
            ({1: {"a"}}, {"1": ["a"]}),
            (b"1234", "<4 bytes>"),
            (float("nan"), "nan"),
            (
                Part(datetime(2026, 1, 2, tzinfo=UTC), ("x",)),
                {"when": "2026-01-02T00:00:00+00:00", "names": ["x"]},
            ),
            ("half \ud800 a pair", "half \\ud800 a pair"),
            ("ganze Wörter", "ganze Wörter"),
            (ValueError("bad"), "bad"),
        ],
    )
    def test_whatever_is_told_can_be_sent_and_read(self, value, readable):
        assert plain(value) == readable
        json.dumps(plain(value), allow_nan=False).encode()

    def test_a_cycle_ends(self):
        endless: list[Any] = []
        endless.append(endless)

        assert "…" in json.dumps(plain(endless), ensure_ascii=False)


class LoopbackLangSmith(ThreadingHTTPServer):
    """Speaks as much of LangSmith's ingestion as the client needs, and keeps what it is sent."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Ingestion)
        self.runs: dict[str, dict] = {}

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def tree(self):
        def subtree(run_id):
            children = [i for i, run in self.runs.items() if run.get("parent_run_id") == run_id]
            children.sort(key=lambda i: self.runs[i]["dotted_order"])
            return (self.runs[run_id]["name"], [subtree(child) for child in children])

        return [subtree(i) for i, run in self.runs.items() if run.get("parent_run_id") is None]

    def run(self, name):
        (found,) = [run for run in self.runs.values() if run["name"] == name]
        return found


class _Ingestion(BaseHTTPRequestHandler):
    def do_GET(self):
        self._answer(b"{}")

    def do_POST(self):
        self._read()
        self._answer(b"{}", 202)

    def _read(self):
        from email import message_from_bytes, policy

        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        for part in message_from_bytes(head + body, policy=policy.HTTP).iter_parts():
            _, run_id, *where = part.get_param("name", header="Content-Disposition").split(".")
            value = json.loads(part.get_payload(decode=True))
            run = self.server.runs.setdefault(run_id, {})
            run.update({where[0]: value} if where else value)

    def _answer(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with LoopbackLangSmith() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def client(server, monkeypatch):
    """The real client, as the one that LangSmith and LangChain share."""
    monkeypatch.setenv("LANGSMITH_ENDPOINT", server.url)
    monkeypatch.setenv("LANGSMITH_API_KEY", "not-a-key")
    forget_environment()
    made = langsmith.Client()
    monkeypatch.setattr(run_trees, "_CLIENT", made)
    yield made
    made.cleanup(timeout=10)
    made.session.close()


@pytest.fixture
def langsmith_on(client, monkeypatch):
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    forget_environment()
    return client


def arrive(client):
    wait_for_all_tracers()
    client.flush()


class TestLangSmith:
    def test_plain_code_is_traced_when_the_environment_says_so(self, tracing, server, langsmith_on):
        remember(tracing)
        arrive(langsmith_on)

        run = server.run("memory.conversation.add")
        assert run["inputs"] == {"messages": 2}
        assert run["outputs"] == {"ids": ["m1", "m2"]}
        assert run["extra"]["metadata"]["agentmem_database"] == "sqlite"

    def test_plain_code_is_traced_within_tracing_v2_enabled(self, tracing, server, client):
        with tracing_v2_enabled(client=client):
            remember(tracing)
        arrive(client)

        assert server.tree() == [("memory.conversation.add", [])]

    def test_plain_code_is_traced_within_a_tracing_context(self, tracing, server, client):
        with tracing_context(enabled=True, client=client):
            remember(tracing)
        arrive(client)

        assert server.tree() == [("memory.conversation.add", [])]

    def test_a_step_stands_between_the_users_functions(self, tracing, server, langsmith_on):
        @traceable(name="inner")
        def inner():
            return 1

        @traceable(name="outer")
        def outer():
            with tracing.step("memory.compaction.run"):
                assert get_current_run_tree().name == "memory.compaction.run"
                inner()
                remember(tracing)
            assert get_current_run_tree().name == "outer"
            inner()

        outer()
        arrive(langsmith_on)

        assert server.tree() == [
            (
                "outer",
                [
                    ("memory.compaction.run", [("inner", []), ("memory.conversation.add", [])]),
                    ("inner", []),
                ],
            )
        ]

    async def test_an_async_step_stands_between_the_users_functions(self, tracing, server, langsmith_on):
        @traceable(name="inner")
        async def inner():
            await asyncio.sleep(0)

        @traceable(name="outer")
        async def outer():
            async with tracing.step("memory.compaction.run"):
                await inner()
                await aremember(tracing)

        await outer()
        await asyncio.to_thread(arrive, langsmith_on)

        assert server.tree() == [
            ("outer", [("memory.compaction.run", [("inner", []), ("memory.conversation.add", [])])])
        ]

    def test_a_graph_shows_the_same_tree_as_any_tracer(self, tracing, server, langsmith_on, collector, traced_by):
        graph_of(lambda state: remember(tracing) and {}).invoke({"text": ""}, traced_by)
        arrive(langsmith_on)

        assert server.tree() == [shape(run) for run in collector.roots]
        assert server.tree() == [("LangGraph", [("node", [("memory.conversation.add", [])])])]

    def test_an_error_arrives_as_an_error(self, tracing, server, langsmith_on):
        with pytest.raises(ValueError), tracing.step("memory.conversation.add"):
            raise ValueError("mine")
        arrive(langsmith_on)

        assert "mine" in server.run("memory.conversation.add")["error"]

    def test_documents_arrive_as_documents(self, tracing, server, langsmith_on):
        with tracing.step("memory.recall.search", run_type="retriever", inputs=lambda: {"query": "cats"}) as step:
            step.finish(lambda: {"documents": [{"page_content": "a cat", "metadata": {"score": 0.5}}]})
        arrive(langsmith_on)

        run = server.run("memory.recall.search")
        assert run["run_type"] == "retriever"
        (document,) = run["outputs"]["documents"]
        assert document["page_content"] == "a cat"

    def test_a_server_that_is_gone_changes_nothing(self, tracing, monkeypatch, heard):
        monkeypatch.setenv("LANGSMITH_TRACING", "true")
        monkeypatch.setenv("LANGSMITH_ENDPOINT", "http://127.0.0.1:1")
        monkeypatch.setenv("LANGSMITH_API_KEY", "not-a-key")
        forget_environment()
        client = langsmith.Client()
        monkeypatch.setattr(run_trees, "_CLIENT", client)
        try:
            assert remember(tracing).listening
        finally:
            client.cleanup(timeout=0)
            client.session.close()


class TestListeners:
    def test_a_manager_without_handlers_is_nobody(self):
        assert not module._has_handlers(CallbackManager([]))
        assert not module._has_handlers(None)
        assert not module._has_handlers([])
        assert module._has_handlers([Collector()])
