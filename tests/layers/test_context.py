"""Prompt context: format, budgets and stable output."""

import pytest

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.tokens import Budget, TokenCounter
from langchain_agentmem.layers.prompt_context import PromptMaterial, PromptPassage, compose

from .made import START, entry, event, record

COUNTER = TokenCounter("estimate")


def text_of(material, budget=None, shorten=None, **more):
    return compose(material, budget, shorten, counter=COUNTER, **more).text


class TestPromptFormat:
    def test_prompt_matches_the_documented_format(self):
        material = PromptMaterial(
            [entry("name", "Ada"), entry("goal", "a fast stencil", made=1)],
            [event(1, "The baseline runs.", "phase_complete")],
            [record(1, "Guided scheduling wins."), record(2, "Compile with -O3.")],
        )
        assert text_of(material) == (
            "## Core Memory\n**name**: Ada\n**goal**: a fast stencil\n"
            "\n## Recent Events\n- [phase_complete] The baseline runs.\n"
            "\n## Retrieved Context\n- Guided scheduling wins.\n- Compile with -O3."
        )

    def test_empty_sections_are_omitted(self):
        assert text_of(PromptMaterial()) == ""
        assert text_of(PromptMaterial(records=[record(1)])) == "## Retrieved Context\n- record 1"

    def test_prompt_shows_the_newest_five_events(self):
        text = text_of(PromptMaterial(events=[event(number) for number in range(1, 13)]))
        assert text.splitlines()[1:] == [f"- [note] event {number}" for number in (8, 9, 10, 11, 12)]

    def test_events_longer_than_200_characters_are_truncated(self):
        for length, shown in ((200, "x" * 200), (201, "x" * 200 + "...")):
            assert text_of(PromptMaterial(events=[event(1, "x" * length)])).endswith(f"] {shown}"), length

    def test_passages_show_their_speaker_and_date(self):
        found = PromptPassage("m1", "I planted a quince.", START, "Maya, 2026-01-01")
        assert (
            text_of(PromptMaterial(records=[found])) == "## Retrieved Context\n- [Maya, 2026-01-01] I planted a quince."
        )

    def test_multiline_values_are_indented_and_keys_are_escaped(self):
        material = PromptMaterial([entry("plan", "one\n## two\r\nthree\u2028- four\n")], [event(1, "a\n- [note] b")])
        assert text_of(material) == (
            "## Core Memory\n**plan**: one\n    ## two\n    three\n    - four\n"
            "\n## Recent Events\n- [note] a\n      - [note] b"
        )
        material = PromptMaterial([entry("a**: b\\", "c")], [event(1, "d", "x] y")])
        assert text_of(material) == "## Core Memory\n**a\\*\\*: b\\\\**: c\n\n## Recent Events\n- [x\\] y] d"

    def test_data_has_documented_keys_and_unmodified_text(self):
        long = "x" * 500 + "\n## y\u200b"
        events = [event(number, long) for number in range(20)]
        material = PromptMaterial([entry("b", "2", made=1), entry("a", long)], events, [record(1, long, 0.5, ("t",))])
        context = material.data
        assert list(context) == ["core", "recall", "archival"]
        assert context["core"] == {"a": long, "b": "2"}
        assert context["recall"] == [
            {"id": each.id, "type": "note", "content": long, "timestamp": each.created_at.timestamp()}
            for each in events
        ]
        time = record(1).created_at.timestamp()
        assert context["archival"] == [{"id": "r1", "content": long, "tags": ["t"], "timestamp": time, "score": 0.5}]


class TestBudgets:
    CORE = (entry("low", "x" * 30, 1), entry("high", "y" * 30, 5, made=1), entry("middle", "z" * 30, 3, made=2))

    def test_equal_memory_composes_identical_text(self):
        core = [entry(f"k{number}", "v" * number, number % 5 + 1, made=number) for number in range(20)]
        for budget in (None, Budget(total=120), Budget(core=50, unit="tokens")):
            assert text_of(PromptMaterial(core), budget) == text_of(PromptMaterial(core[::-1]), budget)

    def test_core_entries_are_dropped_by_importance_and_recency(self):
        text = text_of(PromptMaterial(self.CORE), Budget(core=100))
        assert [line[2:6] for line in text.splitlines()[1:]] == ["high", "midd"]
        equal = [entry("a", "x" * 30, made=0, updated=9), entry("b", "y" * 30, made=1), entry("c", "z" * 30, made=2)]
        digest = [*self.CORE, entry("resource_digest", "x" * 30, 1)]
        for core, most, left in (
            (self.CORE, 100, ["high", "middle"]), (equal, 100, ["a", "c"]), (digest, 70, ["resource_digest"])
        ):  # fmt: skip
            assert [each.key for each in compose(PromptMaterial(core), Budget(core=most)).core] == left

    def test_oldest_events_are_dropped_first(self):
        events = [event(number, "x" * 30) for number in range(5)]
        assert text_of(PromptMaterial(events=events), Budget(recall=100)).count("\n- ") == 2
        assert compose(PromptMaterial(events=events), Budget(recall=100)).events == events[-2:]

    def test_lowest_ranked_records_are_dropped_first(self):
        records = [record(number, f"{number}" * 30) for number in range(5)]
        assert compose(PromptMaterial(records=records), Budget(archival=100)).records == records[:2]

    @pytest.mark.parametrize("unit", ["characters", "tokens"])
    def test_total_and_section_budgets_are_never_exceeded(self, unit):
        material = PromptMaterial(
            [entry(f"key-{number}", "some words " * number, number % 5 + 1) for number in range(9)],
            [event(number, "it happened\nthen " * number) for number in range(9)],
            [record(number, "found words " * number * 9) for number in range(1, 9)],
        )
        count = len if unit == "characters" else COUNTER.count_text
        for total in (0, 1, 5, 17, 20, 25, 60, 150, 400, 2_000):
            text = text_of(material, Budget(total=total, unit=unit))
            assert count(text) <= total
            if total >= 60:
                assert text.startswith("## Core Memory\n**key-")
        most = {"core": 150, "recall": 90, "archival": 200}
        sections = compose(material, Budget(**most, unit=unit), counter=COUNTER).sections
        assert list(sections) == list(most)
        assert all(count(text) <= most[name] for name, text in sections.items())

    def test_an_oversized_only_line_is_truncated_or_dropped(self):
        material = PromptMaterial([entry("idea", "w" * 500)])
        text = text_of(material, Budget(core=60))
        assert len(text) == 60
        assert text.startswith("## Core Memory\n**idea**: www")
        assert text.endswith("www...")
        assert text_of(material, Budget(core=len("## Core Memory\n..."))) == ""

    def test_long_records_are_shortened_to_the_snippet_budget(self):
        asked = []

        def shorten(text, most, what):
            asked.append((len(text), most, what))
            return "short"

        text = text_of(PromptMaterial(records=[record(1, "x" * 5_000), record(2, "y")]), None, shorten)
        assert text == "## Retrieved Context\n- short\n- y"
        assert asked == [(5_000, 3_000, "archival snippet")]

    def test_records_still_too_long_are_truncated(self):
        def shorten(text, most, what):
            return text

        for given in (shorten, None):
            text = text_of(PromptMaterial(records=[record(1, "x" * 5_000)]), Budget(archival_snippet=100), given)
            assert text == "## Retrieved Context\n- " + "x" * 97 + "..."


def test_budget_defaults_to_settings_and_rejects_invalid_values():
    settings = {"archival_snippet": 100, "results": 4_000, "core": 7}
    assert Budget.of({"core": 9}, settings) == Budget(core=9, archival_snippet=100)
    assert Budget.of(None, settings) == Budget(core=7, archival_snippet=100)
    for given in ("500", -1, True, 1.5, {"heading": 3}, {"core": -1}, {"core": "3"}, {"unit": "words"}, [1], {1: 2}):
        with pytest.raises(InvalidInput, match=r"budget|must be|Unknown option"):
            Budget.of(given)
