"""Failing or hanging tracers and hooks do not change an agent."""

import asyncio
import threading

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.clock import utc_now
from langchain_agentmem.base.events import StepFinished, StepStarted
from tests.tracing.agent import ANSWERS, CONFIG, aconverse, agent, converse
from tests.tracing.conftest import forget_environment
from tests.tracing.test_failing import Broken
from tests.tracing.trees import Collector


@pytest.fixture(scope="module")
def unobserved(tmp_path_factory):
    """The outcome without failures."""
    return outcome(tmp_path_factory.mktemp("usual"))


def outcome(folder, *hooks, conversing=converse, **config):
    """Run the agent, and return its answers, memories and steps."""
    steps = []
    with AgentMemory(folder / "a.db", hooks=[steps.append, *hooks]) as memory:
        answers = conversing(agent(memory, folder / "experience"), **config)
        return result(memory, answers, steps)


def awaited(graph, **config):
    return asyncio.run(aconverse(graph, **config))


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


class TestObservedAgent:
    """An agent has the same answers, memories and steps when its observers fail or hang."""

    def test_unobserved_agent_answers_and_remembers(self, unobserved):
        assert unobserved["answers"] == [*ANSWERS]
        assert unobserved["records"] == ["Ana is the sister, and lives in Lisbon."]
        assert unobserved["facts"] == [("Ana", "lives in", "Lisbon")]
        assert len(unobserved["steps"]) > 60

    @pytest.mark.slow
    @pytest.mark.parametrize("conversing", [converse, awaited])
    def test_failing_tracers_and_hooks_change_nothing(self, unobserved, tmp_path, conversing):
        class Raising(Broken):
            raise_error = False

        def fail(event):
            raise RuntimeError("broken hook")

        async def afail(event):
            raise RuntimeError("broken hook")

        assert outcome(tmp_path, fail, afail, callbacks=[Raising()], conversing=conversing) == unobserved

    def test_hanging_tracer_thread_changes_nothing(self, unobserved, tmp_path):
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
        assert outcome(tmp_path, callbacks=[tracer]) == unobserved
        assert all(thread.is_alive() for thread in tracer.threads)
        free.set()
        for thread in tracer.threads:
            thread.join()

    @pytest.mark.slow
    @pytest.mark.parametrize("illness", ["refuses", "hangs", "hangs up"])
    def test_failing_ingestion_server_changes_nothing(self, unobserved, tmp_path, server, client, monkeypatch, illness):
        """The server that hangs answers nothing until the agent is done, which therefore never waits for it."""
        monkeypatch.setenv("LANGSMITH_TRACING", "true")
        forget_environment()
        server.ill = illness
        assert outcome(tmp_path) == unobserved
        assert server.asked.wait(60)
        assert server.runs == {}
        server.let_go()
