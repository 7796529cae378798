"""The selector in chains: streaming, batches and async calls, at every position."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from langchain_agentmem import InvalidInput
from langchain_agentmem.experiences.experience import section
from langchain_agentmem.messages.message_marks import is_injected
from tests.experiences.conftest import CHARTS, FILES, LOAD, PLOT, WEATHER
from tests.support.models import ScriptedModel

pytestmark = pytest.mark.sqlite_suffices

PROMPT = ChatPromptTemplate([("system", "Be kind.\n{experiences}"), ("user", "{input}")])
QUERIES = [PLOT, LOAD, WEATHER]
EXPECTED = [section([CHARTS]), section([FILES]), ""]


def echo():
    """A model that says what it is shown."""
    return ScriptedModel(lambda messages: "\n".join(message.text for message in messages))


class TestExecution:
    async def test_selector_streams_its_result(self, library):
        selector = library.selector()
        for given in (PLOT, [HumanMessage(PLOT, id="q")], {"input": PLOT}, {"messages": [HumanMessage(PLOT, id="q")]}):
            assert list(selector.stream(given)) == [selector.invoke(given)]
            assert [each async for each in selector.astream(given)] == [selector.invoke(given)]

    def test_batch_failures_are_separate(self, library):
        found = library.selector().batch([PLOT, 3, WEATHER], return_exceptions=True)
        assert isinstance(found[1], InvalidInput)
        assert [found[0], found[2]] == [f"{EXPECTED[0]}\n\n{PLOT}", WEATHER]


class TestChainPositions:
    """A prompt, a model and a parser, and the selector before, between and behind them."""

    def chains(self, selector):
        prompt = ChatPromptTemplate([("system", "Be kind."), ("user", "{input}")])
        model, parser = echo(), StrOutputParser()
        return {
            "first": selector | PROMPT | model | parser,
            "second": prompt | selector | model | parser,
            "third": prompt | model | selector | RunnableLambda(lambda found: found[0].content),
            "last": prompt | model | parser | selector,
        }

    @pytest.mark.parametrize("place", ["first", "second", "third", "last"])
    async def test_selector_works_at_every_position(self, library, place):
        query = None if place != "third" else lambda given: given.text
        chain = self.chains(library.selector(query=query))[place]
        found = chain.invoke({"input": PLOT})
        assert EXPECTED[0] in found
        assert await chain.ainvoke({"input": PLOT}) == found
        assert chain.batch([{"input": PLOT}] * 3) == [found] * 3
        assert await chain.abatch([{"input": PLOT}] * 3) == [found] * 3
        assert "".join(chain.stream({"input": PLOT})) == found
        assert "".join([each async for each in chain.astream({"input": PLOT})]) == found
        if place != "third":
            assert CHARTS.what not in chain.invoke({"input": WEATHER})

    @pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory")
    def test_history_keeps_only_conversation_messages(self, memory, filled):
        model = ScriptedModel("done")
        talk = RunnableWithMessageHistory(memory.experiences(filled.path).selector() | model, memory.conversation)
        for query in QUERIES:
            talk.invoke([HumanMessage(query)], {"configurable": {"session_id": "s"}})
        assert [sum(map(is_injected, context)) for context in model.asked] == [1, 1, 0]
        assert [message.type for message in memory.conversation("s").messages] == ["human", "ai"] * 3


class TestBoundArguments:
    def test_unrelated_bound_keywords_are_ignored(self, library):
        assert library.selector().bind(stop=["x"]).invoke(WEATHER) == WEATHER


class TestConcurrency:
    async def test_concurrent_tasks_select_independently(self, memory, filled):
        async def pick(messages):
            await asyncio.sleep(0)
            return '["charts"]' if "chart" in messages[1].text else "[]"

        selector = memory.experiences(filled.path).selector(model=pick)
        found = await asyncio.gather(*(selector.ainvoke(query) for query in [PLOT, WEATHER] * 12))
        assert [CHARTS.what in each for each in found] == [True, False] * 12
        assert selector.select(f"{PLOT} again").ids == ("charts",)  # within a loop those who wait may ask it, too


def test_given_messages_are_returned_unchanged(library):
    given: list[BaseMessage] = [HumanMessage(PLOT), AIMessage("done"), HumanMessage(PLOT)]
    found = library.selector().invoke(given)
    assert all(one is other for one, other in zip([*found[:2], found[3]], given, strict=True))
