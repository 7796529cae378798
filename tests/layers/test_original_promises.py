"""What the original (the MemGPT-style memory of AI-Scientist-v2) promises, each row of its list by its number.

The tests of each part hold the details; here the whole is used through the facade, as the original uses it.
"""

from __future__ import annotations

import json

import pytest

from langchain_agentmem import LayersConfig, build_resource_snapshot
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


def test_2_core_memory_is_set_read_and_deleted(layers, clock):
    layers.core.set("name", "Ada")
    layers.core.set("goal", "a fast stencil", importance=5, ttl=60)
    assert layers.core.get() == {"name": "Ada", "goal": "a fast stencil"}
    assert layers.core.get(["goal", "nothing"]) == {"goal": "a fast stencil"}
    assert [each.importance for each in layers.core.entries()] == [3, 5]
    clock.pass_time(minutes=2)
    layers.core.delete("nothing")
    assert layers.core.get() == {"name": "Ada"}
    layers.core.delete("name")
    assert layers.core.get() == {}


def test_3_recall_memory_is_appended_to_and_searched_and_a_star_means_all(memory):
    layers = memory.layers("root")
    for number in range(25):
        layers.recall.append(event_type="metric_extracted", content=f"loss {number}")
    assert len(layers.recall.search("loss")) == len(layers.recall.search("*")) == 10
    assert len(layers.recall.search("*", limit=None)) == 25
    newest = layers.context()["recall"][-1]
    assert newest.keys() == {"type", "content", "timestamp"}
    assert (newest["type"], newest["content"]) == ("metric_extracted", "loss 24")


def test_4_archival_memory_is_written_changed_found_and_read_by_id(layers):
    record_id = layers.archival.write("Guided scheduling wins.", tags=["results"])
    for number in range(12):
        layers.archival.write(f"scheduling {number}")
    assert len(layers.archival.search("scheduling")) == layers.settings.retrieval_k == 8
    assert len(layers.archival.search("scheduling", limit=3)) == 3
    layers.archival.update(record_id, "Guided scheduling loses.", tags=["results", "retracted"])
    found = layers.archival.get(record_id)
    assert (found.content, found.tags) == ("Guided scheduling loses.", ("results", "retracted"))
    assert layers.archival.get("nothing") is None


def test_5_a_branch_is_forked_with_all_that_it_inherits_read_and_written(layers, clock):
    layers.core.set("goal", "a fast stencil", importance=5, ttl=3600)
    inherited = layers.core.entries()
    child = layers.fork("child")
    assert child.core.entries() == inherited
    child.write(core={"k": "v"}, recall="began", archival=["a", "b"])
    assert child.fork("grandchild").ancestors() == ["root", "child", "grandchild"]
    assert set(child.read("all")) == {"core", "recall", "archival"}
    assert set(child.read("core")) == {"core"}
    assert [each["content"] for each in child.read("archival")["archival"]] == ["a", "b"]
    assert layers.read("recall") == {"recall": []}


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


def test_7_every_row_knows_its_branch_its_importance_its_end_and_its_times(layers, memory, clock):
    """The columns of the original; a key is there once on a branch, and a branch without its parent cannot be."""
    before = clock.now
    layers.core.set("k", "old")
    layers.core.set("k", "new", ttl=60)
    layers.recall.append("step", "done")
    layers.archival.write("text", tags=["t"])
    [entry] = layers.core.entries()
    assert (entry.value, entry.importance) == ("new", 3)
    assert before < entry.created_at < entry.updated_at < entry.expires_at
    assert before < layers.recall.recent()[0].created_at < layers.archival.all()[0].created_at
    assert memory.layers("other").read() == {"core": {}, "recall": [], "archival": []}
    layers.fork("child")
    assert [each.name for each in layers.tree().children] == ["child"]
    assert memory.admin.verify().problems == ()


def test_8_compression_tries_what_fits_then_what_it_remembers_then_the_model_then_cuts(memory):
    asked = []

    def model(messages):
        asked.append(messages)
        if len(asked) > 4:
            raise RuntimeError("down")
        return "short enough" if len(asked) == 1 else "much too long " * 9

    layers = memory.layers("root", model=model)
    long = "words and more words " * 20
    assert layers.compress("it fits", 20) == "it fits"
    assert [layers.compress(long, 20, "idea summary") for _ in range(2)] == ["short enough"] * 2
    assert len(asked) == 1
    assert len(layers.compress(long, 30)) <= 30
    assert len(asked) == 1 + layers.settings.max_compression_iterations == 4
    assert layers.compress(long, 40) == "words and more words words and more…"


def test_9_resources_are_described_and_their_use_is_noted(layers, tmp_path):
    (tmp_path / "notes.md").write_text("Read me.")
    items = [
        {"name": "notes", "class": "document", "source": "local", "path": "notes.md"},
        {"name": "solver", "class": "library", "source": "github", "repo": "example/solver"},
        {"name": "small", "class": "model", "source": "huggingface", "repo_id": "example/small"},
    ]
    (tmp_path / "resources.json").write_text(json.dumps({"items": items}))
    snapshot = build_resource_snapshot(tmp_path / "resources.json", {})
    assert snapshot.keys() >= {"digest", "resource_file_sha", "config_normalized", "items"}
    assert snapshot["digest"].startswith("sha256:")
    found = {each["class"]: each for each in snapshot["items"]}
    assert {name: each["fetch_status"] for name, each in found.items()} == {
        "local_data": "available",
        "github": "pending",
        "huggingface": "pending",
    }
    assert "Read me." in found["local_data"]["content_excerpt"]
    layers.resources.track_usage("notes", "read", "to begin with")
    [record] = layers.archival.all(tags=["RESOURCE_USED", "resource_id:notes"])
    assert json.loads(record.content).keys() == {"resource_id", "usage_type", "context", "timestamp"}


def test_10_the_final_memory_is_written_as_markdown_and_as_json(layers, tmp_path):
    layers.write(core={"k": "v"}, recall="began", archival="a result")
    markdown, data = layers.export_final(tmp_path / "out")
    assert (markdown.name, data.name) == ("final_memory_for_paper.md", "final_memory_for_paper.json")
    final = json.loads(data.read_text())
    assert list(final) == ["core", "recall", "archival_summary", "resources_used", "experiment_timeline"]
    assert final["core"] == {"k": "v"}
    assert "a result" in markdown.read_text()
    named = LayersConfig(final_memory_filename_md="final.md", final_memory_filename_json="final.json")
    written = LayeredMemory(layers._ground.database, "root", settings=named).export_final(tmp_path)
    assert [each.name for each in written] == ["final.md", "final.json"]


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


class Test12WhatTheDocumentTests:
    def test_archival_search(self, layers):
        wanted = layers.archival.write("OpenMP loop scheduling")
        layers.archival.write("something else")
        assert [each.id for each in layers.archival.search("How did we schedule the OpenMP loops?")] == [wanted]

    def test_branch_isolation(self, layers):
        one, other = layers.fork("one"), layers.fork("other")
        one.write(core={"k": "one"}, recall="one", archival="one")
        assert other.read() == layers.read() == {"core": {}, "recall": [], "archival": []}


class Test13TheCompanionDocument:
    def test_the_budget_may_be_16000_and_the_least_important_leaves_first(self, memory):
        layers = memory.layers("root", settings=LayersConfig(core_max_chars=16_000))
        for importance in (3, 1, 5, 2, 4):
            layers.core.set(str(importance), "x" * 3_900, importance=importance)
        assert set(layers.core.get()) == {"2", "3", "4", "5"}
        assert [each.tags[1] for each in layers.archival.all()] == ["core_key:1"]

    @pytest.mark.parametrize(
        "tag",
        ["PHASE0_INTERNAL", "IDEA_MD", "ROOT_IDEA", "resource:template:baseline", "code:node-1", "results:node-1"],
    )
    def test_its_tags_are_tags(self, layers, tag):
        record_id = layers.archival.write("text", tags=[tag])
        layers.archival.write("text", tags=[f"{tag}2"])
        assert [each.id for each in layers.archival.search("text", tags=[tag])] == [record_id]

    def test_secrets_are_redacted_unless_that_is_switched_off(self, memory):
        told = "api_key=abcd1234efgh"
        memory.layers("root").core.set("k", told)
        memory.layers("open", settings=LayersConfig(redact_secrets=False)).core.set("k", told)
        assert memory.layers("root").core.get() == {"k": "api_key=***"}
        assert memory.layers("open").core.get() == {"k": told}
