"""The trace of an agent with every part of memory, in LangSmith and in other tracers."""

import asyncio
from datetime import datetime
from functools import partial

import pytest
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langsmith import traceable

from langchain_agentmem import AgentMemory
from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig
from langchain_agentmem.compaction.compaction_middleware import CompactionMiddleware
from langchain_agentmem.experiences.experience_middleware import ExperienceMiddleware
from langchain_agentmem.injection.memory_middleware import MemoryMiddleware
from tests.compaction.loopback import loopback
from tests.tracing.agent import ANSWERS, GIFTS, TURNS, aconverse, agent, converse, said, scripted
from tests.tracing.loopback import arrive
from tests.tracing.trees import walk

pytestmark = pytest.mark.sqlite_suffices
INJECT = (
    "inject(MemoryInjection(injection.inject(core.read recall.recent archival.search facts.search retrieval.search)))"
)
ANSWER = "agent(answer(ChatOpenAI) tools_condition)"
STEPS = (
    "compact(CompactionNode(compaction.compact(compaction.record compaction.summarize(ChatOpenAI))))",
    INJECT,
    "experience(ExperienceSelector(experience.select(experience.choose(ChatOpenAI))))",
    ANSWER,
    "tools(mem_archival_search(archival.search))",
    "compact(CompactionNode(compaction.compact(compaction.record)))",
    INJECT,
    "experience(ExperienceSelector(experience.select))",
    ANSWER,
    "facts(RememberFacts(facts.remember(facts.extract(ChatOpenAI) facts.learn)))",
)
"""Of the second turn: it compacts, searches with a tool, and learns."""


@pytest.fixture
def openai():
    """Gives OpenAI's real client for each model, in front of a server on this machine."""
    with loopback(script=said) as server:
        yield lambda name: ChatOpenAI(model=name, base_url=server.url, api_key="not-a-key")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "experience"


def at(text):
    return datetime.fromisoformat(text)


def told(tree):
    """The tree as its names, each followed by those beneath it in brackets."""
    name, children = tree
    return name.removeprefix("memory.") + (f"({' '.join(map(told, children))})" if children else "")


def plainly(tree):
    """The tree without what LangChain takes to read an answer in a given form."""
    name, children = tree
    below = [plainly(child) for child in children if not child[0].startswith(("Json", "_"))]
    flat = [each for child in below for each in (child[1] if child[0].startswith("Runnable") else [child])]
    return (name, flat)


class TestLangSmith:
    def test_every_turn_is_one_trace_with_all_steps(self, memory, folder, openai, server, langsmith_on, collector):
        assert converse(agent(memory, folder, openai), callbacks=[collector]) == [*ANSWERS]
        arrive(langsmith_on)

        assert len(server.roots) == len(TURNS)
        assert told(plainly(server.shapes[1])) == f"LangGraph({' '.join(STEPS)})"
        assert server.shapes == collector.shapes
        for root in server.roots:
            self.check(server, root, root)
        seen = {str(run.id): run for run in collector.runs}
        for run in server.runs.values():
            if run["name"].startswith("memory."):
                assert run["run_type"] == seen[run["id"]].run_type
                assert run["inputs"] == seen[run["id"]].inputs
                if run["run_type"] == "chain":
                    assert run["outputs"] == seen[run["id"]].outputs
                where = {"agentmem_database": "sqlite", "agentmem_namespace": "ada", "thread_id": "t1"}
                assert run["extra"]["metadata"].items() >= where.items()
                assert run["extra"]["metadata"]["checkpoint_id"]

    def check(self, server, run, root):
        """A run and all beneath it, as LangSmith puts them together."""
        assert run["trace_id"] == root["id"]
        assert run.get("error") is None
        assert at(run["start_time"]) <= at(run["end_time"])
        assert run["dotted_order"].endswith(run["id"])
        for child in server.children(run["id"]):
            assert child["dotted_order"].rpartition(".")[0] == run["dotted_order"]
            assert at(run["start_time"]) <= at(child["start_time"])
            assert at(child["end_time"]) <= at(run["end_time"])
            self.check(server, child, root)


class TestTraceShape:
    async def test_async_runs_have_the_same_trace(self, memory, tmp_path, folder, collector):
        assert converse(agent(memory, folder), callbacks=[collector]) == [*ANSWERS]
        synchronous = collector.shapes
        collector.roots.clear()
        with AgentMemory(tmp_path / "b.db") as other:
            assert await aconverse(agent(other, folder), callbacks=[collector]) == [*ANSWERS]

        assert collector.shapes == synchronous

    async def test_traceable_functions_are_parents_of_the_trace(self, memory, folder, server, langsmith_on, collector):
        graph = agent(memory, folder)
        mine = traceable(name="mine")(partial(converse, graph, TURNS[:1], callbacks=[collector]))
        awaited = traceable(name="awaited")(partial(aconverse, graph, TURNS[:1], callbacks=[collector]))

        mine()
        await awaited()
        await asyncio.to_thread(arrive, langsmith_on)

        first, second = collector.shapes
        assert server.shapes == [("mine", [first]), ("awaited", [second])]


async def test_langchain_agents_are_traced(memory, folder, tmp_path, collector):
    folder.mkdir()
    (folder / "handcrafted_exp_gifts.yaml").write_text(GIFTS)
    budget = ManagedMemoryConfig(threshold_tokens=160)

    def made(memory):
        return create_agent(
            scripted("agent"),
            memory.tools(),
            middleware=[
                CompactionMiddleware(memory, scripted("summarizer"), budget, tools=False),
                MemoryMiddleware(memory),
                ExperienceMiddleware(memory.experiences(folder), model=scripted("chooser")),
            ],
            checkpointer=memory.checkpointer,
        )

    assert converse(made(memory), TURNS[:2], callbacks=[collector]) == [*ANSWERS[:2]]
    steps = {run.name for run in walk(collector.roots[1])}
    assert steps >= {f"memory.{part}" for part in ("compaction.compact", "injection.inject", "experience.select")}
    with AgentMemory(tmp_path / "b.db") as other:
        assert await aconverse(made(other), TURNS[:2], callbacks=[collector]) == [*ANSWERS[:2]]
    assert collector.shapes[2:] == collector.shapes[:2]
