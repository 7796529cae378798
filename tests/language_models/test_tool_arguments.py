"""Null arguments in the tool calls of models."""

import itertools
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from langchain_agentmem import AgentMemory
from langchain_agentmem.language_models.tool_arguments import ArchivalWrite

NOW = datetime(2026, 7, 1, tzinfo=UTC)
CALLS = {
    "mem_core_set": {"key": "city", "value": "Lisbon"},
    "mem_core_get": {},
    "mem_core_del": {"key": "pet"},
    "mem_recall_append": {"content": "It rained."},
    "mem_recall_search": {"query": "rained"},
    "mem_recall_evict": {"oldest": 1},
    "mem_recall_summarize": {},
    "mem_archival_write": {"content": "Quinces are yellow."},
    "mem_archival_search": {"query": "quinces"},
    "mem_archival_update": {"record_id": "nobody", "content": "Quinces are ripe."},
    "mem_archival_get": {"record_id": "nobody"},
    "mem_node_fork": {"name": "plan-b"},
    "mem_node_read": {},
    "mem_node_write": {"recall": "It snowed."},
    "consolidate": {},
    "fact_add": {"subject": "Ada", "predicate": "lives in", "object": "Porto"},
    "fact_search": {"query": "Ada"},
    "fact_history": {"subject": "Ada"},
    "recall_dropped": {"query": "quinces"},
    "expand": {"id": "nothing"},
}


@pytest.fixture
def answers():
    """The answers of all tools, called in turn on a new memory with the arguments that a function makes of a tool."""

    def called(arguments_of):
        ids = itertools.count()
        with AgentMemory(clock=lambda: NOW, new_id=lambda: f"id-{next(ids)}") as memory:
            every = memory.tools("user-42", ["*"])
            assert {tool.name for tool in every} == {*CALLS}
            tools = {tool.name: tool for tool in every}
            return {name: tools[name].invoke(arguments_of(tools[name])) for name in CALLS}

    return called


def test_null_means_the_default_for_every_tool(answers):
    def with_nulls(tool):
        optional = {name: None for name, field in tool.args_schema.model_fields.items() if not field.is_required()}
        return {**optional, **CALLS[tool.name]}

    plain = answers(lambda tool: CALLS[tool.name])
    assert answers(with_nulls) == plain
    assert not [told for told in plain.values() if "arguments are invalid" in told]


def test_null_with_an_alias_is_ignored():
    assert ArchivalWrite(text="Quinces", tags=None) == ArchivalWrite(content="Quinces")


@pytest.mark.parametrize("given", [{"content": None}, {"content": "x", "labels": None}])
def test_required_null_and_unknown_names_are_rejected(given):
    with pytest.raises(ValidationError):
        ArchivalWrite(**given)
