"""Hostile text in memory stays data: it does not escape its line, block or list item."""

import json

import pytest
from hypothesis import example, given, settings
from langchain_core.messages import HumanMessage

from langchain_agentmem.base.fencing import sanitize_text
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.injection.memory_injection import MemoryInjection
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.layers.prompt_context import (
    PromptMaterial,
    PromptPassage,
    compose,
    final_markdown,
    final_memory,
)
from langchain_agentmem.layers.resource_memory import RESOURCE_USED
from langchain_agentmem.messages.message_marks import is_injected, memory_message
from tests.layers.hostile import CASES, HOSTILE, TEXTS, TOKENS, UNSEEN, headings, marks, structure
from tests.layers.made import START, entry, event, record
from tests.support.fences import unfenced

pytestmark = pytest.mark.sqlite_suffices

BLOCKS = ("core_memory", "recalled_memory")
HEADINGS = ["Core Memory", "Recent Events", "Retrieved Context"]


def material(text):
    """Return material that contains a text in every field."""
    values = [("before", "x"), ("k", text), (text, "y"), ("after", text)]
    return PromptMaterial(
        [entry(key, value, made=number) for number, (key, value) in enumerate(values)],
        [event(0, text), event(0, "x", text), event(0, "z")],
        [record(0, text), PromptPassage("m", text, START, f"by {text}"), record(0, "last")],
    )


def assert_only_our_structure(text, hostile):
    """Assert that only our own lines start at the margin and that Markdown sees only our headings."""
    ours = [line for line in text.splitlines() if line and not line.startswith("    ")]
    starts = ["## Core", *["**"] * 4, "## Recent", *["- ["] * 3, "## Retrieved", "- ", "- [", "- last"]
    assert len(ours) == len(starts), hostile
    for line, start in zip(ours, starts, strict=True):
        assert line.startswith(start), hostile
    assert headings(text) == HEADINGS, hostile
    assert not UNSEEN.search(text), hostile
    assert not TOKENS.search(text), hostile


def shown(text):
    return compose(material(text)).text


def assert_stays_in_its_block(told, hostile):
    for part, tag in zip(("core", "recalled"), BLOCKS, strict=True):
        message = memory_message(part, told)
        assert marks(message.content, tag) == [f"<{tag}", f"</{tag}"], hostile
        assert is_injected(message), hostile
        assert unfenced(tag, message.content.split("\n", 1)[1]) == told, hostile


def final_of(text):
    given = material(text)
    written = text.encode("utf-8", "replace").decode()
    use = json.dumps({"resource_id": f"r{written}", "context": written})
    records = [record(0, text, tags=(text, "tag")), record(0, use, tags=(RESOURCE_USED,)), record(0, "last")]
    return final_markdown(final_memory(given.core, given.events, records))


def assert_final_has_only_our_structure(text):
    told = final_of(text)
    assert headings(told) == [
        "Final Memory", "Core Memory", "Events", "Archival Summary", "Resources Used", "Experiment Timeline"
    ]  # fmt: skip
    seen = structure(told)
    allowed = {
        "heading_open", "paragraph_open", "bullet_list_open", "list_item_open", "strong_open", "fence", "inline", "text"
    }  # fmt: skip
    assert set(seen) <= allowed | {"text_special"}
    assert seen.count("bullet_list_open") == 5
    assert seen.count("list_item_open") == 4 + 3 + 2 + 1 + 6
    assert not UNSEEN.search(told)
    assert not TOKENS.search(told)


class TestSanitizing:
    def test_hostile_strings_stay_in_their_prompt_line(self):
        for text in HOSTILE:
            told = shown(text)
            assert_only_our_structure(told, text)
            assert_stays_in_its_block(told, text)

    @pytest.mark.slow
    def test_hostile_strings_add_no_structure_to_final_memory(self):
        for text in HOSTILE:
            assert_final_has_only_our_structure(text)

    @pytest.mark.slow
    @given(TEXTS.filter(lambda text: text not in ("before", "k", "after")))  # which are keys already
    @example("[INST")
    @settings(max_examples=300, deadline=None)
    def test_random_text_stays_in_its_line_and_block(self, text):
        told = shown(text)
        assert_only_our_structure(told, text)
        assert_stays_in_its_block(told, text)
        assert_final_has_only_our_structure(text)

    @given(TEXTS)
    @settings(max_examples=300, deadline=None)
    def test_sanitizing_is_idempotent(self, text):
        once = sanitize_text(text)
        assert sanitize_text(once) == once
        assert not UNSEEN.search(once)
        assert not TOKENS.search(once)


def test_stored_hostile_strings_are_injected_as_data(memory):
    layers = LayeredMemory(memory, "user", namespace=("hostile",))
    for text in HOSTILE[::4]:
        layers.recall.append("note", text)
        layers.archival.write(f"quince {text}")
        try:
            layers.core.set(text[:200], text[:50])
        except InvalidInput:
            layers.core.set("k", text[:50])
    found = MemoryInjection(memory, "user", namespace=("hostile",), limit=60).invoke([HumanMessage("a quince?")])
    assert [is_injected(message) for message in found] == [True, True, False]
    for message, tag in zip(found, BLOCKS, strict=False):
        assert marks(message.content, tag) == [f"<{tag}", f"</{tag}"]
    sections = compose(PromptMaterial(layers.core.entries(), layers.recall.recent(None))).sections
    assert headings("\n\n".join(sections.values())) == HEADINGS[:2]


def test_harmless_text_is_not_changed():
    for text in CASES["harmless"]:
        assert sanitize_text(text) == text
