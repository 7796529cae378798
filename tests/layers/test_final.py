"""Final memory export: documented keys and file names, atomic files and stable output."""

import json

import pytest

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.layers.prompt_context import final_markdown, final_memory, write_final
from langchain_agentmem.layers.resource_memory import RESOURCE_USED

from .made import START, at, entry, event, record

pytestmark = pytest.mark.sqlite_suffices

NAMES = {"markdown_name": "final_memory_for_paper.md", "json_name": "final_memory_for_paper.json"}


def usage_record(minutes, **told):
    return record(minutes, json.dumps(told), tags=(RESOURCE_USED, f"resource_id:{told.get('resource_id')}"))


CORE = [entry("goal", "a fast stencil", made=1), entry("name", "Ada")]
EVENTS = [event(5, "40 GFLOPS", "metric_extracted"), event(3, "The baseline\nruns.", "phase_complete")]
RECORDS = [
    record(4, "Guided scheduling wins.", tags=("results", "openmp")),
    usage_record(6, resource_id="template", usage_type="read", context="to begin with", timestamp=at(2).timestamp()),
    usage_record(7, resource_id="template", usage_type="include"),
    record(8, "x" * 900, tags=("results",)),
]


@pytest.fixture
def final():
    return final_memory(CORE, EVENTS, RECORDS)


class TestData:
    def test_data_has_core_recall_and_an_archival_summary(self, final):
        assert final["core"] == {"name": "Ada", "goal": "a fast stencil"}
        assert final["recall"] == [
            {"id": "e3", "type": "phase_complete", "content": "The baseline\nruns.", "timestamp": at(3).timestamp()},
            {"id": "e5", "type": "metric_extracted", "content": "40 GFLOPS", "timestamp": at(5).timestamp()},
        ]
        summary = final["archival_summary"]
        assert (summary["count"], summary["tags"]) == (2, {"results": 2, "openmp": 1})
        told = {"id": "r4", "tags": ["results", "openmp"], "timestamp": at(4).timestamp()}
        assert summary["records"][0] == {**told, "excerpt": "Guided scheduling wins."}
        assert summary["records"][1]["excerpt"] == "x" * 499 + "…"

    def test_resources_list_uses_and_the_timeline_is_chronological(self, final):
        uses = [
            {"usage_type": "read", "context": "to begin with", "timestamp": at(2).timestamp()},
            {"usage_type": "include", "context": None, "timestamp": at(7).timestamp()},
        ]
        assert final["resources_used"] == [{"resource_id": "template", "uses": uses}]
        assert [(each["layer"], each["type"]) for each in final["experiment_timeline"]] == [
            ("resource", "read"), ("recall", "phase_complete"), ("archival", "results, openmp"),
            ("recall", "metric_extracted"), ("resource", "include"), ("archival", "results"),
        ]  # fmt: skip

    def test_malformed_usage_records_are_treated_as_plain_records(self):
        wrong = [f'{{"resource_id": "data", "timestamp": {time}}}' for time in ("NaN", '"soon"', "true", "1e300", "-1")]
        for text in ("", "no JSON", "[1]", "{}", '{"resource_id": 3}', *wrong, "[" * 100_000):
            final = final_memory([], [], [record(1, text, tags=(RESOURCE_USED, "resource_id:data"))])
            assert final["resources_used"] == []
            assert [each["id"] for each in final["archival_summary"]["records"]] == ["r1"]
        for time in ("", ', "timestamp": null'):
            use = record(1, f'{{"resource_id": "data"{time}}}', tags=(RESOURCE_USED,))
            final = final_memory([], [], [use])
            assert final["resources_used"][0]["uses"][0]["timestamp"] == at(1).timestamp()


class TestMarkdown:
    def test_markdown_contains_all_sections(self, final):
        assert final_markdown(final).startswith(
            "# Final Memory\n"
            "\n## Core Memory\n\n- **name**: Ada\n- **goal**: a fast stencil\n"
            "\n## Events\n\n"
            "- 2026-01-01 12:03:00 UTC \\[phase\\_complete\\]:\n\n  ```text\n  The baseline\n  runs.\n  ```\n"
            "- 2026-01-01 12:05:00 UTC \\[metric\\_extracted\\]: 40 GFLOPS\n"
            "\n## Archival Summary\n\n2 records.\n\nTags: results (2), openmp (1).\n\n"
            "- 2026-01-01 12:04:00 UTC \\[results, openmp\\]: Guided scheduling wins.\n"
        )
        assert "- **template**, 2026-01-01 12:02:00 UTC \\[read\\]: to begin with\n" in final_markdown(final)

    def test_an_empty_memory_renders_nothing_placeholders(self):
        text = final_markdown(final_memory([], [], []))
        assert text.count("\n## ") == text.count("Nothing.") == 5


class TestFiles:
    def test_lone_surrogates_survive_the_json_file(self, tmp_path):
        final = final_memory([entry("k", "a\ud800b\udfff\x00\u2028")], [], [])
        _, data = write_final(final, tmp_path, **NAMES)
        assert json.loads(data.read_text(encoding="utf-8"))["core"]["k"] == "a\ud800b\udfff\x00\u2028"

    def test_a_failed_write_keeps_the_old_files(self, final, tmp_path):
        paths = write_final(final, tmp_path, **NAMES)
        before = [path.read_bytes() for path in paths]
        with pytest.raises(TypeError):
            write_final({**final, "core": {"k": object()}}, tmp_path, **NAMES)
        with pytest.raises((TypeError, AttributeError)):
            write_final({**final, "recall": [{"type": "x", "content": object(), "timestamp": 0}]}, tmp_path, **NAMES)
        assert [path.read_bytes() for path in paths] == before
        assert len(list(tmp_path.iterdir())) == 2

    def test_invalid_folders_and_names_are_rejected(self, final, tmp_path):
        (tmp_path / "file").write_text("x")
        for folder in (tmp_path / "file", tmp_path / "file" / "below", "", "a\0b"):
            with pytest.raises(InvalidInput):
                write_final(final, folder, **NAMES)
        with pytest.raises(InvalidInput, match="need different names"):
            write_final(final, tmp_path, markdown_name="same", json_name="same")


async def test_export_final_works_for_empty_and_filled_memory(memory, tmp_path):
    layers = LayeredMemory(memory, "user-42")
    for folder in ("empty", "full"):
        text, data = layers.export_final(tmp_path / folder)
        assert (text.name, data.name) == (NAMES["markdown_name"], NAMES["json_name"])
        final = json.loads(data.read_text(encoding="utf-8"))
        assert text.read_text(encoding="utf-8") == final_markdown(final)
        before = text.read_bytes(), data.read_bytes()
        assert await layers.aexport_final(str(tmp_path / folder)) == (text, data)
        assert (text.read_bytes(), data.read_bytes()) == before
        layers.write({"name": "Ada"}, {"kind": "error_encountered", "content": "It failed."})
        layers.archival.write("It was the cache.", tags=["PHASE0_INTERNAL"])
        use = {"resource_id": "template", "usage_type": "read", "timestamp": START.timestamp()}
        layers.archival.write(json.dumps(use), [RESOURCE_USED])
    assert final["core"] == {"name": "Ada"}
    assert [each["resource_id"] for each in final["resources_used"]] == ["template"]
    timeline = " ".join(each["type"] for each in final["experiment_timeline"])
    assert timeline == "read error_encountered PHASE0_INTERNAL"
