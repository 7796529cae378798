"""What the original (the MemGPT-style memory of AI-Scientist-v2) promises, each row of its list by its number.

The tests of each part hold the details; here the whole is used through the facade, as the original uses it.
"""

from __future__ import annotations

import json

import pytest

from langchain_agentmem import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory

pytestmark = pytest.mark.sqlite_suffices


@pytest.fixture
def layers(memory):
    return memory.layers("root")


class Model:
    def __init__(self, *answers):
        self.answers = list(answers)

    def __call__(self, messages):
        return self.answers.pop(0)


def test_1_it_is_made_of_a_database_a_configuration_and_a_model(url):
    """`MemoryManager(db_path, config=None, llm_client=None, llm_model=None)`"""
    config = {"db_path": url, "use_fts": "auto", "core_max_chars": 300, "recall_max_events": 7}
    layers = LayeredMemory(url, "root", settings=LayersConfig.from_config(config), model=Model("short"))
    assert (layers.settings.core_max_chars, layers.settings.recall_max_events) == (300, 7)
    assert layers.compress("a long text, " * 9, 20) == "short"
    plain = LayeredMemory(url, "root")
    plain.core.set("k", "v")
    assert layers.core.get() == {"k": "v"}


def test_6_the_context_is_core_the_newest_events_and_what_fits_the_task(memory):
    layers = memory.layers("root")
    layers.core.set("name", "Ada")
    for number in range(30):
        layers.recall.append("step", f"{number} " + "x" * 300)
    layers.archival.write("otters " + "y" * 4000)
    assert len(layers.context()["recall"]) == 20
    assert layers.context()["archival"] == []
    assert len(layers.context("otters")["archival"]) == 1
    text = layers.format_for_prompt("otters")
    core, recall, archival = text.split("\n\n")
    assert core == "## Core Memory\n**name**: Ada"
    assert recall.splitlines()[0] == "## Recent Events"
    assert [line.split()[2] for line in recall.splitlines()[1:]] == ["25", "26", "27", "28", "29"]
    assert all(line.endswith("...") and len(line) == len("- [step] ...") + 200 for line in recall.splitlines()[1:])
    assert archival.startswith("## Retrieved Context\n- otters")
    assert len(archival) <= len("## Retrieved Context\n- ") + 3000


def test_11_agents_ask_whether_it_is_enabled_and_note_the_results_of_their_nodes(layers, memory):
    parts = ["Write the code."]
    if layers.is_enabled():
        layers.core.set("goal", "a fast stencil")
        parts.insert(0, f"## Memory Context\n{layers.format_for_prompt()}\n")
    assert parts[0] == "## Memory Context\n## Core Memory\n**goal**: a fast stencil\n"
    result = {"status": "success", "gflops": 40}
    layers.archival.write(json.dumps(result), tags=["results:node-7", result["status"]])
    [record] = layers.archival.search("gflops", tags=["results:node-7", "success"])
    assert json.loads(record.content) == result
    assert memory.layers("root", settings=LayersConfig(enabled=False)).is_enabled() is False


class Test13TheCompanionDocument:
    def test_secrets_are_redacted_unless_that_is_switched_off(self, memory):
        told = "api_key=abcd1234efgh"
        memory.layers("root").core.set("k", told)
        memory.layers("open", settings=LayersConfig(redact_secrets=False)).core.set("k", told)
        assert memory.layers("root").core.get() == {"k": "api_key=***"}
        assert memory.layers("open").core.get() == {"k": told}
