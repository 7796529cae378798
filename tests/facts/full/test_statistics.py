"""PostgreSQL statistics contain no content of facts."""

import pytest

from langchain_agentmem import AgentMemory
from tests.facts.test_sources import SECRETS, tell_secrets
from tests.support.plans import sampled_columns


@pytest.mark.sqlite_suffices
def test_postgres_statistics_contain_no_fact_content(new_database, raw):
    with AgentMemory(new_database("postgres")) as memory:
        tell_secrets(memory)
        for number in range(70):
            memory.facts("user").add_fact("user", SECRETS[number % 3], *SECRETS[3:5], source=f"m{number % 3}")
        sampled = sampled_columns(memory, raw)
    assert {each for each in sampled if each.startswith(("memory.", "memory_source."))} <= {"memory.kind"}
