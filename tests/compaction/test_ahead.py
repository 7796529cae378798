"""A graph's context is compacted before it must be, so that no turn waits for a model that summarizes."""

from __future__ import annotations

import logging
import textwrap
import time

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.compaction import graph_compactor as module
from langchain_agentmem.compaction.dropped_messages import messages_behind
from langchain_agentmem.language_models.summarization import SummarizationConfig
from langchain_agentmem.messages.message_marks import summary_in
from langchain_agentmem.storage import jobs
from langchain_agentmem.testing import provider_problems
from tests.compaction.summarizers import budget

from .asked import COUNTER, FILLER, LIMIT, Waiting

CONFIG = {"configurable": {"thread_id": "t"}}
SETTINGS = budget(2_000, summarization=SummarizationConfig(timeout=None))


# Asks a model that never answers, until it is killed.
TALK = """
    import sys, time
    from langchain_core.messages import HumanMessage
    from langchain_agentmem import AgentMemory
    from langchain_agentmem.compaction import ManagedMemoryConfig

    def model(messages):
        print("asked", flush=True)
        time.sleep(600)

    memory = AgentMemory(sys.argv[1])
    settings = ManagedMemoryConfig(threshold_tokens=2_000, token_counter="estimate")
    history = [HumanMessage("word " * 100, id=f"m{n}") for n in range(17)]
    memory.compaction(model, settings, background=True).invoke(history, {"configurable": {"thread_id": "t"}})
    time.sleep(600)
"""


def turns(first, last):
    for n in range(first, last):
        yield HumanMessage(f"Question {n:03}. {FILLER}", id=f"q{n}")
        yield AIMessage(f"Answer {n:03}. {FILLER}", id=f"a{n}")


def node_of(memory, model, **options):
    return memory.compaction(model, SETTINGS, background=True, **options)


def until_near(node, model, config=CONFIG, *, at=0):
    """Turns until a summary is being made in the background. Gives the number of turns."""
    for n in range(at + 1, at + 200):
        context = node.invoke([*turns(0, n)], config)
        assert not any(summary_in(each) for each in context)
        if node._compactor.ahead._begun or model.threads:
            assert model.began.acquire(timeout=LIMIT)
            return n
    raise AssertionError("nothing was made ahead")


def until_passed(node, at, config=CONFIG):
    """Turns until the context has a summary. Gives the context and the number of turns."""
    for n in range(at, at + 200):
        context = node.invoke([*turns(0, n)], config)
        if any(summary_in(each) for each in context):
            return context, n
    raise AssertionError("nothing was compacted")


@pytest.mark.sqlite_suffices
class TestAhead:
    def test_no_turn_waits_for_the_model(self, memory):
        model = Waiting()
        node = node_of(memory, model)
        model.free.clear()
        at = until_near(node, model)  # and goes on while the model is at work
        assert COUNTER.count([*turns(0, at)]) < 2_000
        assert not any(summary_in(each) for each in node.invoke([*turns(0, at)], CONFIG))
        model.free.set()
        assert node._compactor.ahead.wait(LIMIT)
        context, _ = until_passed(node, at)
        assert model.threads == ["agentmem-ahead"]
        assert COUNTER.count(context) < 2_000
        assert not provider_problems(context)

    @pytest.mark.slow
    @pytest.mark.parametrize("awaited", [False, True])
    async def test_in_a_long_run_the_model_is_never_asked_in_a_turn(self, memory, awaited):
        model = Waiting()
        node = node_of(memory, model)
        for n in range(1, 200):
            history = [*turns(0, n)]
            context = await node.ainvoke(history, CONFIG) if awaited else node.invoke(history, CONFIG)
            assert node._compactor.ahead.wait(LIMIT)
            assert COUNTER.count(context) <= 2_000
        assert model.asked_in_a_turn == []
        total = COUNTER.count([*turns(0, 200)])
        assert len(model.threads) <= 1 + total / (2_000 * 0.4)

    def test_the_summary_lists_what_it_stands_for(self, memory):
        model = Waiting()
        node = node_of(memory, model)
        at = until_near(node, model)
        assert node._compactor.ahead.wait(LIMIT)
        context, at = until_passed(node, at)
        kept = {each.id for each in context}
        summary = next(each for each in context if summary_in(each))
        behind = [each.message_id for each in messages_behind(memory, summary, conversation_id="t")]
        assert behind == [each.id for each in turns(0, at) if each.id not in kept]

    def test_a_history_that_nobody_keeps_is_compacted_when_it_must_be(self, memory):
        model = Waiting()
        node = node_of(memory, model)
        context, _ = until_passed(node, 1, config={})
        assert model.asked_in_a_turn == model.threads != []
        assert not provider_problems(context)

    def test_one_that_is_not_ready_in_time_is_not_waited_for(self, memory):
        model = Waiting()
        node = node_of(memory, model)
        model.free.clear()
        at = until_near(node, model)
        model.free.set()  # whoever asks now has an answer, and the one in the background too
        context, _ = until_passed(node, at)
        assert COUNTER.count(context) <= 2_000
        assert node._compactor.ahead.wait(LIMIT)

    def test_on_another_branch_it_is_not_used(self, memory):
        model = Waiting()
        node = node_of(memory, model)
        at = until_near(node, model)
        assert node._compactor.ahead.wait(LIMIT)
        other = [*turns(0, 2), *turns(500, 500 + at)]
        context = node.invoke([*other, *turns(600, 620)], CONFIG)
        assert len(model.asked_in_a_turn) == 1
        assert not provider_problems(context)


@pytest.mark.sqlite_suffices
class TestFailing:
    def test_a_model_that_fails_breaks_no_turn_and_is_asked_again(self, memory, monkeypatch, caplog):
        monkeypatch.setattr(jobs, "pause", lambda attempts: 0.0)
        model = Waiting(RuntimeError("busy"), "")
        node = node_of(memory, model)
        with caplog.at_level(logging.CRITICAL):
            at = until_near(node, model)
            for _ in range(3):
                assert node._compactor.ahead.wait(LIMIT)
                node.invoke([*turns(0, at)], CONFIG)
        assert node._compactor.ahead.wait(LIMIT)
        assert len(model.threads) == 3
        context, _ = until_passed(node, at)
        assert model.asked_in_a_turn == []
        assert not next(summary for each in context if (summary := summary_in(each))).provisional

    def test_what_was_deleted_meanwhile_is_not_kept(self, memory, raw):
        model = Waiting()
        node = node_of(memory, model)
        model.free.clear()
        until_near(node, model)
        memory.conversation("t").reset_memory()
        model.free.set()
        assert node._compactor.ahead.wait(LIMIT)
        assert raw(memory, "select id from compaction") == []

    def test_closing_the_memory_meanwhile_breaks_nothing(self, url):
        model = Waiting()
        with AgentMemory(url) as memory:
            node = node_of(memory, model)
            model.free.clear()
            until_near(node, model)
        model.free.set()
        assert node._compactor.ahead.wait(LIMIT)
        with AgentMemory(url) as memory:
            assert memory.admin.verify().ok

    def test_many_conversations_at_once(self, memory):
        model = Waiting()
        node = node_of(memory, model)
        near = next(n for n in range(200) if COUNTER.count([*turns(0, n)]) > 1_700)
        for n in range(10):
            node.invoke([*turns(0, near)], {"configurable": {"thread_id": f"t{n}"}})
        assert node._compactor.ahead.wait(LIMIT)
        assert len(model.threads) == 10
        assert model.asked_in_a_turn == []


class TestOnce:
    @pytest.mark.slow
    def test_a_restart_uses_what_was_made_before(self, url):
        model = Waiting()
        with AgentMemory(url) as memory:
            node = node_of(memory, model)
            at = until_near(node, model)
            assert node._compactor.ahead.wait(LIMIT)
        with AgentMemory(url) as memory:
            until_passed(node_of(memory, model), at)
        assert model.threads == ["agentmem-ahead"]

    @pytest.mark.slow
    def test_two_memories_on_one_database_ask_the_model_once(self, url):
        model = Waiting()
        with AgentMemory(url) as one, AgentMemory(url) as other:
            nodes = [node_of(each, model) for each in (one, other)]
            model.free.clear()
            at = until_near(nodes[0], model)
            nodes[1].invoke([*turns(0, at)], CONFIG)
            assert nodes[1]._compactor.ahead.wait(LIMIT)  # it saw that the other one is at it
            model.free.set()
            assert nodes[0]._compactor.ahead.wait(LIMIT)
            nodes[1].invoke([*turns(0, at)], CONFIG)
            assert nodes[1]._compactor.ahead.wait(LIMIT)
            for node in nodes:
                until_passed(node, at)
        assert len(model.threads) == 1

    @pytest.mark.slow
    def test_one_that_begins_when_another_has_just_ended_sees_it(self, url, monkeypatch):
        model = Waiting()
        with AgentMemory(url) as one, AgentMemory(url) as other:
            late = node_of(other, model)
            begun = []
            monkeypatch.setattr(late._compactor.ahead, "begin", lambda *given: begun.append(given))
            first = node_of(one, model)
            at = until_near(first, model)
            assert first._compactor.ahead.wait(LIMIT)
            monkeypatch.setattr(module, "_is_ahead", lambda *given: False)  # it looks before the other has ended
            late.invoke([*turns(0, at)], CONFIG)
            monkeypatch.undo()
            [(database, address, lane, make)] = begun
            assert late._compactor.ahead.begin(database, address, lane, make)
            assert late._compactor.ahead.wait(LIMIT)
        assert len(model.threads) == 1

    def test_after_kill_9_the_next_process_does_it(self, url, forks):
        assert forks.run_killed(textwrap.dedent(TALK), url, lines=1, after=0).stdout == "asked\n"
        history = [HumanMessage("word " * 100, id=f"m{n}") for n in range(18)]
        model = Waiting()
        with AgentMemory(url) as memory:
            node = node_of(memory, model)
            node.invoke(history, CONFIG)
            assert node._compactor.ahead.wait(LIMIT)
            assert model.threads == []  # the one that died may still be at it
            memory.database.worker._now = lambda: time.time_ns() // 1000 + 60_000_000  # its lease has run out
            node.invoke(history, CONFIG)
            assert node._compactor.ahead.wait(LIMIT)
            assert model.threads == ["agentmem-ahead"]
            assert memory.database.engine.read(jobs.waiting) == 0


@pytest.mark.slow
def test_shrinking_the_state_waits_for_no_model_either(memory):
    model = Waiting()
    node = node_of(memory, model, shrink=True)
    state = []
    for n in range(150):
        state += turns(n, n + 1)
        update = node.invoke({"messages": list(state)}, CONFIG)
        if update:
            state = list(update["messages"].value)
        assert node._compactor.ahead.wait(LIMIT)
    assert model.threads
    assert model.asked_in_a_turn == []
