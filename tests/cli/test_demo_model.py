"""The deterministic model knows nothing but what was recalled; a real one is asked for by name."""

from __future__ import annotations

import subprocess
import sys

import pytest
from langchain_core.messages import HumanMessage, SystemMessage

from langchain_agentmem.cli.demo_model import NOTED, NOTHING, QuotingModel, real_model, reply
from langchain_agentmem.cli.network_fence import Passage, fence
from langchain_agentmem.errors import InvalidInput

PASSAGES = [
    Passage("Ada", "2024-01-01", "It rains. My cat Minou sleeps on the piano."),
    Passage("Ben", "2024-02-02", "Where does Minou sleep? My dog sleeps outside."),
]


def prompt(question: str, passages=PASSAGES):
    blocks = [{"type": "text", "text": fence(passages)}, {"type": "text", "text": question}]
    return [SystemMessage("s"), HumanMessage(blocks)]


class TestQuotingModel:
    def test_it_quotes_the_sentence_that_fits_with_its_speaker_and_day(self):
        assert reply("Who sleeps on the piano?", PASSAGES) == (
            "Ada said on 2024-01-01: “My cat Minou sleeps on the piano.”"
        )

    def test_its_answer_comes_from_what_was_recalled_and_from_nothing_else(self):
        moved = [Passage("Ada", "2024-01-01", "My cat Minou sleeps on the oven.")]
        assert "oven" in QuotingModel().invoke(prompt("Where does the cat sleep?", moved)).text
        assert QuotingModel().invoke(prompt("Where does the cat sleep?", [])).text == NOTHING

    def test_it_says_when_nothing_fits(self):
        assert reply("Who is the mayor?", PASSAGES) == NOTHING

    def test_a_question_is_no_answer(self):
        assert reply("Where?", [Passage("Ada", "2024-01-01", "Where?")]) == NOTHING

    def test_a_second_quote_says_what_the_first_did_not(self):
        two = [Passage("Ada", "1", "The heron fishes."), Passage("Ben", "2", "The otter swims. The heron fishes.")]
        assert reply("What do heron and otter do?", two) == (
            "Ben said on 2: “The otter swims.” Ada said on 1: “The heron fishes.”"
        )

    def test_it_takes_note_of_a_statement(self):
        assert reply("I have a cat.", PASSAGES) == NOTED

    @pytest.mark.parametrize("messages", [[SystemMessage("s")], [HumanMessage("Who?")], [HumanMessage([])]])
    def test_a_prompt_without_memory_is_no_error(self, messages):
        assert QuotingModel().invoke(messages).text in {NOTED, NOTHING}

    async def test_it_answers_the_same_however_it_is_called(self):
        model, asked = QuotingModel(), prompt("Who sleeps on the piano?")
        answers = {
            model.invoke(asked).text,
            model.invoke(asked).text,
            (await model.ainvoke(asked)).text,
            "".join(chunk.text for chunk in model.stream(asked)),
            "".join([chunk.text async for chunk in model.astream(asked)]),
        }
        assert len(answers) == 1


class TestRealModel:
    @pytest.mark.parametrize("name", ["nobody:nothing", "nothing", ":", ""])
    def test_one_that_does_not_exist_is_refused_on_one_line(self, name):
        with pytest.raises(InvalidInput, match=r"cannot be used|provider:name"):
            real_model(name)

    def test_it_is_what_langchain_makes_of_the_name(self, monkeypatch):
        made = QuotingModel()
        monkeypatch.setattr("langchain.chat_models.init_chat_model", {"openai:gpt": made}.__getitem__)
        assert real_model("openai:gpt") is made

    def test_without_langchain_the_extra_is_named(self):
        code = (
            "import sys; sys.modules['langchain'] = None\n"
            "from langchain_agentmem import MissingExtra\n"
            "from langchain_agentmem.cli.demo_model import real_model\n"
            "try: real_model('openai:gpt')\n"
            "except MissingExtra as error: print(error)"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert "langchain-agentmem[agents]" in run.stdout
