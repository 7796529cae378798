"""What goes wrong with those who look on changes nothing for what they look at."""

import logging
import threading
import time

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables.config import var_child_runnable_config

from langchain_agentmem import AgentMemory
from langchain_agentmem.base import events
from langchain_agentmem.base.clock import utc_now
from langchain_agentmem.base.events import StepFinished, StepStarted
from langchain_agentmem.tracing import langchain_runs
from langchain_agentmem.tracing.trace_steps import logger

from .agent import ANSWERS, CONFIG, aconverse, agent, converse
from .conftest import forget_environment
from .trees import Collector, aremember, remember


def unreadable():
    raise LookupError("this cannot be read")


def complaints(caplog):
    return [r for r in caplog.records if r.name == logger.name and r.levelno == logging.WARNING]


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

        monkeypatch.setattr(langchain_runs.StepRun, turn, fail)
        for _ in range(2):
            with tracing.step("memory.conversation.add", config=traced_by):
                done = True

        assert done
        assert len(complaints(caplog)) == 1
        assert var_child_runnable_config.get() is None

    async def test_a_failing_mechanism_is_logged_once_in_async_code(self, tracing, traced_by, monkeypatch, caplog):
        async def fail(*args, **kwargs):
            raise RuntimeError("the mechanism")

        monkeypatch.setattr(langchain_runs.StepRun, "start", fail)
        await aremember(tracing, config=traced_by)
        await aremember(tracing, config=traced_by)

        assert len(complaints(caplog)) == 1


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """What it does and remembers while all is well."""
    return outcome(tmp_path_factory.mktemp("usual"))


def outcome(folder, *hooks, **config):
    """What the agent answers and remembers, and the steps that it takes."""
    steps = []
    with AgentMemory(folder / "a.db", hooks=[steps.append, *hooks]) as memory:
        answers = converse(agent(memory, folder / "experience"), **config)
        return result(memory, answers, steps)


async def aoutcome(folder, *hooks, **config):
    steps = []
    async with AgentMemory(folder / "a.db", hooks=[steps.append, *hooks]) as memory:
        answers = await aconverse(agent(memory, folder / "experience"), **config)
        return result(memory, answers, steps)


def result(memory, answers, steps):
    done = [(type(each), each.name) for each in steps if isinstance(each, StepStarted | StepFinished)]
    layers, facts = memory.layers(CONFIG), memory.facts(CONFIG)
    counted = memory.admin.stats()
    stored = {key: counted[key] for key in ("messages", "checkpoints", "compactions", "memories", "facts", "records")}
    return {
        "answers": answers,
        "records": [each.content for each in layers.archival.all()],
        "facts": [(each.subject, each.predicate, each.object) for each in facts.as_of(utc_now())],
        "stored": stored,
        "steps": done,
    }


class TestAgent:
    """Whoever looks on at a whole agent may fail or hang: it answers the same, remembers the same, does the same."""

    def test_as_it_should_be(self, usual):
        assert usual["answers"] == [*ANSWERS]
        assert usual["records"] == ["Ana is the sister, and lives in Lisbon."]
        assert usual["facts"] == [("Ana", "lives in", "Lisbon")]
        assert len(usual["steps"]) > 60

    @pytest.mark.slow
    async def test_a_tracer_that_raises(self, usual, tmp_path):
        class Raising(Broken):
            raise_error = False

        assert outcome(tmp_path, callbacks=[Raising()]) == usual
        (tmp_path / "awaited").mkdir()
        assert await aoutcome(tmp_path / "awaited", callbacks=[Raising()]) == usual

    def test_a_tracer_whose_own_thread_hangs(self, usual, tmp_path):
        free = threading.Event()

        class Sending(Collector):
            """Hands each tree to a thread that never comes back to take the next."""

            def __init__(self):
                super().__init__()
                self.threads = []

            def _persist_run(self, run):
                thread = threading.Thread(target=free.wait, args=(60,))
                thread.start()
                self.threads.append(thread)

        tracer = Sending()
        assert outcome(tmp_path, callbacks=[tracer]) == usual
        assert all(thread.is_alive() for thread in tracer.threads)
        free.set()
        for thread in tracer.threads:
            thread.join()

    def test_a_tracer_that_takes_its_time(self, usual, tmp_path):
        class Slow(Collector):
            def _start_trace(self, run):
                time.sleep(0.001)
                super()._start_trace(run)

        assert outcome(tmp_path, callbacks=[Slow()]) == usual

    @pytest.mark.slow
    @pytest.mark.parametrize("illness", ["refuses", "hangs", "hangs up"])
    def test_an_ingestion_server_that_is_ill(self, usual, tmp_path, server, client, monkeypatch, illness):
        """The server that hangs answers nothing until the agent is done, which therefore never waits for it."""
        monkeypatch.setenv("LANGSMITH_TRACING", "true")
        forget_environment()
        server.ill = illness
        assert outcome(tmp_path) == usual
        while not server.asked:
            time.sleep(0.001)
        assert server.runs == {}
        server.let_go()

    @pytest.mark.slow
    async def test_hooks_that_raise(self, usual, tmp_path):
        def fail(event):
            raise RuntimeError("broken hook")

        async def afail(event):
            raise RuntimeError("broken hook")

        assert outcome(tmp_path, fail, afail) == usual
        (tmp_path / "awaited").mkdir()
        assert await aoutcome(tmp_path / "awaited", fail, afail) == usual

    def test_hooks_that_hang(self, usual, tmp_path, monkeypatch):
        """It is let go only when the agent is done, which therefore did not wait for it."""
        monkeypatch.setattr(events, "PATIENCE", 0.05)
        free = threading.Event()
        heard = []

        def hang(event):
            heard.append(event)
            free.wait(60)

        try:
            assert outcome(tmp_path, hang) == usual
            assert len(heard) == 1
        finally:
            free.set()
