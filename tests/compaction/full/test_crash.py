"""`kill -9` while a model is asked: the next process makes the summary."""

import textwrap
import time

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.compaction import CompactorConfig, ContextCompactor
from langchain_agentmem.storage import jobs
from tests.compaction.summarizers import Summarizer
from tests.support.models import LIMIT

pytestmark = pytest.mark.sqlite_suffices


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


@pytest.mark.slow
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
