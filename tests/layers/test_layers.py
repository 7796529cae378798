"""Layered memory as a whole: construction, settings, prompts and threads."""

import pytest

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory
from tests.support.graphs import Log, at, line
from tests.support.models import ScriptedModel

pytestmark = pytest.mark.sqlite_suffices


class TestConstruction:
    def test_layers_method_equals_the_class(self, memory):
        memory.layers("main", ("a",)).core.set("k", "v")
        assert LayeredMemory(memory, "main", namespace=("a",)).core.get() == {"k": "v"}
        assert repr(memory.layers("main", ("a",))) == "LayeredMemory('main', namespace=('a',))"

    def test_constructor_takes_url_settings_and_model(self, url):
        """`MemoryManager(db_path, config=None, llm_client=None, llm_model=None)`"""
        config = {"db_path": url, "use_fts": "auto", "core_max_chars": 300, "recall_max_events": 7}
        layers = LayeredMemory(url, "root", settings=LayersConfig.from_config(config), model=ScriptedModel("short"))
        assert (layers.settings.core_max_chars, layers.settings.recall_max_events) == (300, 7)
        assert layers.compress("a long text, " * 9, 20) == "short"
        assert layers.is_enabled() is True
        assert LayeredMemory(url, "root", settings=LayersConfig(enabled=False)).is_enabled() is False

    def test_redaction_of_secrets_can_be_disabled(self, memory):
        for redacted, kept in ((True, "api_key=***"), (False, "api_key=abcd1234efgh")):
            layers = memory.layers(f"{redacted}", settings=LayersConfig(redact_secrets=redacted))
            layers.core.set("k", "api_key=abcd1234efgh")
            assert layers.core.get() == {"k": kept}

    def test_invalid_arguments_are_rejected(self, memory):
        for branch in ("", "a\x00", 5, None, {"k": "v"}):
            with pytest.raises(InvalidInput):
                LayeredMemory(memory, branch)
        with pytest.raises(InvalidInput, match="LayersConfig"):
            LayeredMemory(memory, "main", settings={"core_max_chars": 5})
        with pytest.raises(InvalidInput, match="is not a model"):
            LayeredMemory(memory, "main", model=5)
        for wrong in (
            {"core_max_chars": 0}, {"core_max_chars": "2000"}, {"recall_max_events": True}, {"retrieval_k": 0},
            {"enabled": "yes"}, {"section_budgets": {"archival_snippet": -1}}, {"section_budgets": 3000},
            {"final_memory_filename_md": "../x.md"}, {"final_memory_filename_json": ""},
        ):  # fmt: skip
            with pytest.raises(InvalidInput):
                LayersConfig(**wrong)

    def test_settings_have_the_documented_defaults(self):
        settings = LayersConfig()
        assert (settings.core_max_chars, settings.recall_max_events, settings.retrieval_k) == (2000, 20, 8)
        assert (settings.section_budgets["archival_snippet"], settings.max_compression_iterations) == (3000, 3)


class TestPrompts:
    def test_a_star_hint_respects_the_record_limit(self, layers):
        layers.write(recall=["event"] * 30, archival=[f"About otter {number}." for number in range(20)])
        assert (len(layers.context()["recall"]), layers.context()["archival"]) == (20, [])
        assert len(layers.context("otter")["archival"]) == len(layers.context("*")["archival"]) == 8

    def test_prompt_is_stable_while_memory_is_unchanged(self, layers):
        layers.write(core={"b": "1", "a": "2"}, recall=["one", "two"], archival=["About otters.", "Otters again."])
        text = layers.format_for_prompt("otters")
        assert text == layers.format_for_prompt("otters") == layers.at("main").format_for_prompt("otters")
        layers.core.set("b", "3")
        assert layers.format_for_prompt("otters") == text.replace("**b**: 1", "**b**: 3")

    def test_prompt_budget_applies_in_characters_and_tokens(self, layers):
        layers.write(core={"k": "word " * 100}, recall=["word " * 30] * 5, archival="otters " * 100)
        assert len(layers.format_for_prompt("otters", budget=300)) <= 300
        assert len(layers.format_for_prompt("otters", {"total": 60, "unit": "tokens"})) < 600


def test_thread_memory_cannot_be_forked_directly(memory):
    graph = line(memory.checkpointer, lambda state: memory.layers().core.set("k", "v"), state=Log)
    graph.invoke({"log": ["turn"]}, at())
    layers = memory.layers(at())
    for act in (lambda: layers.fork("fork"), layers.tree):
        with pytest.raises(InvalidInput, match="forked by LangGraph"):
            act()
    assert layers.ancestors() == ["t"]
    assert layers.diff("nobody").core.mine == {"k": "v"}
    with pytest.raises(InvalidInput):  # outside of a task it can only be read
        layers.core.set("k", "w")
    assert layers.core.get() == {"k": "v"}
