"""`kill -9` anywhere in a compaction: the next run continues, nothing is lost, no model is asked twice for the same."""

import random
import signal
import textwrap
import time
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.compaction import CompactorConfig, ContextCompactor, ManagedMemoryConfig
from langchain_agentmem.storage import jobs
from langchain_agentmem.testing import assert_valid_for_providers
from tests.compaction.asked import LIMIT
from tests.compaction.summarizers import Summarizer
from tests.forking import Forks

pytestmark = pytest.mark.sqlite_suffices

KILLS = 6

# A graph that talks until it is killed. It says what it has done, and what its model was asked.
TALK = """
    import sys, time
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.graph import START, StateGraph
    from langchain_agentmem import AgentMemory
    from langchain_agentmem.compaction import CompactionState, ManagedMemoryConfig

    url, asked = sys.argv[1:]

    def model(messages):
        text = "|".join(str(message.content) for message in messages)
        time.sleep(0.03)
        with open(asked, "a") as file:
            file.write(repr(text) + "\\n")
        return '{"user_request_summary": "Talk.", "summary": "There was talk of many things, and of some more."}'

    def answer(state):
        assert state["llm_input_messages"][0].content.startswith("said 0 ")
        turn = len(state["messages"]) // 2
        return {"messages": [AIMessage(f"heard {turn} " + "and thought about it " * 6, id=f"a-{turn}")]}

    with AgentMemory(url) as memory:
        node = memory.compaction(model, ManagedMemoryConfig(threshold_tokens=500, token_counter="estimate"))
        builder = StateGraph(CompactionState).add_node("compact", node).add_node("answer", answer)
        builder.add_edge(START, "compact").add_edge("compact", "answer")
        graph = builder.compile(checkpointer=memory.checkpointer)
        thread = {"configurable": {"thread_id": "t"}}
        print("ready", flush=True)
        for _ in range(10_000):
            state = graph.get_state(thread)
            if state.tasks:  # also those that are done and whose step is not
                graph.invoke(None, thread, durability="sync")
            else:
                turn = len(state.values.get("messages", [])) // 2
                said = HumanMessage(f"said {turn} " + "to whoever listens " * 6, id=f"q-{turn}")
                graph.invoke({"messages": [said]}, thread, durability="sync")
            print("turn", flush=True)
"""


# Asks a model that never answers, until it is killed.
ROUNDS = """
    import sys, time
    from langchain_agentmem import AgentMemory
    from langchain_agentmem.compaction import CompactorConfig, ContextCompactor

    def model(messages):
        print("asked", flush=True)
        time.sleep(600)

    session = AgentMemory(sys.argv[1]).session("s")
    for n in range(4):
        session.create_round(f"query{n:03}x of some length")
    ContextCompactor(session, "Planner", model, CompactorConfig(threshold=3, retain_recent=1)).start()
    time.sleep(600)
"""


def killed(forks: Forks, url: str, asked: Path, turns: int, seconds: float) -> int:
    """How many turns a process made before it was killed, so many seconds after so many turns."""
    run = forks.run_killed(textwrap.dedent(TALK), url, str(asked), lines=1 + turns, after=seconds)
    assert run.returncode == -signal.SIGKILL
    ready, *lines = run.stdout.splitlines()
    assert (ready, run.stderr) == ("ready", "")
    return len(lines)


def test_a_summary_of_rounds_is_made_by_the_next_process(url, forks):
    assert forks.run_killed(textwrap.dedent(ROUNDS), url, lines=1, after=0).stdout == "asked\n"
    with AgentMemory(url) as memory:
        memory.database.worker._now = lambda: time.time_ns() // 1000 + 60_000_000  # its lease has run out
        session, model = memory.session("s"), Summarizer()
        assert session.get_role_rounds_with_compaction("Planner")[1] is None
        compactor = ContextCompactor(session, "Planner", model, CompactorConfig(threshold=3, retain_recent=1))
        compactor.start()
        assert compactor.wait(LIMIT)
        compactor.stop()
        assert session.get_role_rounds_with_compaction("Planner")[1].end_index == 3
        assert memory.database.engine.read(jobs.waiting) == 0


@pytest.mark.slow("in every form")
def test_killed_again_and_again_it_goes_on(url, tmp_path, forks):
    luck = random.Random(7)
    asked = tmp_path / "asked.txt"
    asked.touch()
    turns = sum(killed(forks, url, asked, luck.randint(3, 9), luck.uniform(0, 0.2)) for _ in range(KILLS))
    assert turns > 20
    with AgentMemory(url) as memory:
        assert memory.admin.verify().problems == ()
        stored = memory.checkpointer.get_tuple({"configurable": {"thread_id": "t"}})
        state = stored.checkpoint["channel_values"]["messages"]
        assert len(state) >= 2 * turns
        model_calls = asked.read_text().splitlines()
        # A call whose answer was not kept yet when the process was killed is repeated, and no other.
        assert len(model_calls) - len(set(model_calls)) <= KILLS
        said = [message.id for message in memory.conversation("t").messages]
        assert said == list(dict.fromkeys(said))
        assert set(said) >= {message.id for message in state[:-2]}
        model = Summarizer()
        node = memory.compaction(model, ManagedMemoryConfig(threshold_tokens=500, token_counter="estimate"))
        context = node.invoke([*state, HumanMessage("and now?")], {"configurable": {"thread_id": "t"}})
        assert_valid_for_providers(context)
        everything = "".join(model_calls) + model.everything
        shown = "".join(str(message.content) for message in context)
        begun = [" ".join(str(message.content).split()[:2]) + " " for message in state]
        assert [words for words in begun if words not in everything + shown] == []
