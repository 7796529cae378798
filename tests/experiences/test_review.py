"""What somebody found who tried to break the selection of experiences."""

from __future__ import annotations

import asyncio
import inspect
import re
import textwrap
from typing import TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from langchain_agentmem import Experience, InvalidInput
from langchain_agentmem.base.events import ExperienceSelectionFellBack
from langchain_agentmem.experiences import experience_library as guide
from langchain_agentmem.language_models.model_calls import usable_model

from .conftest import PLOT

pytestmark = pytest.mark.sqlite_suffices


class Variables(TypedDict):
    question: str
    experiences: str


class TestAModel:
    async def test_that_has_run_out_of_answers_is_not_waited_for_without_end(self, library):
        answers = iter(())
        selector = library.selector(model=lambda _: next(answers))
        found = await asyncio.wait_for(selector.aselect(PLOT), 120)
        assert found.ids == ("charts",)
        assert found.fell_back.startswith("The model failed")

    @pytest.mark.parametrize("asynchronous", [False, True])
    @pytest.mark.parametrize("seconds", [None, 20])
    async def test_that_asks_a_person_interrupts_the_graph(self, library, events, asynchronous, seconds, memory):
        selector = library.selector(model=lambda _: interrupt("Which?"), timeout=seconds)
        graph = StateGraph(Variables).add_node("experience", selector).add_edge(START, "experience")
        compiled = graph.compile(checkpointer=memory.checkpointer)
        thread = {"configurable": {"thread_id": "t"}}

        async def run(given):
            return await compiled.ainvoke(given, thread) if asynchronous else compiled.invoke(given, thread)

        [asked] = (await run({"question": PLOT}))["__interrupt__"]
        assert asked.value == "Which?"
        found = await run(Command(resume='{"refunds": true}'))
        assert "open a ticket" in found["experiences"]
        assert "Label both axes" not in found["experiences"]
        assert not [each for each in events if isinstance(each, ExperienceSelectionFellBack)]

    def test_that_never_stops_talking_is_not_read_to_its_end(self, library):
        talk = "hmm " * 30_000
        selector = library.selector(model=lambda _: f'{talk}["refunds"]')
        assert selector.select(PLOT).ids == ("charts",)

    def test_without_its_key_is_refused_by_an_error_of_ours(self, monkeypatch):
        class NoKey(Exception):
            pass

        def made(name):
            raise NoKey("Missing credentials.")

        monkeypatch.setattr("langchain.chat_models.init_chat_model", made)
        with pytest.raises(InvalidInput, match="'openai:some-model' cannot be used: Missing credentials"):
            usable_model("openai:some-model")


def test_an_id_that_is_none_is_refused_in_plain_english():
    with pytest.raises(InvalidInput, match="the id of an experience"):
        Experience("a\x01", (), "When", "What")


def test_the_example_of_the_guide_is_given_its_instruction(quick, shelf):
    example = inspect.getdoc(guide)
    written = textwrap.dedent(example.split("'''")[1])
    [question] = re.findall(r'"question": "([^"]*)"', example)
    shelf.put("handcrafted_exp_files.yaml", written)
    selector = quick.experiences(shelf.path).selector(role="CodeInterpreter")
    assert selector.select(question).ids == ("file-validation",)
    assert selector.select("What is the capital of Peru?").ids == ()
