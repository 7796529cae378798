"""The agent recalls, answers and remembers, each user in a namespace of their own, on both engines."""

from __future__ import annotations

import pytest
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from langchain_agentmem import AgentMemoryError
from langchain_agentmem.cli.demo import ask, build_agent
from langchain_agentmem.cli.demo_model import NOTHING, QuotingModel

pytestmark = pytest.mark.sqlite_suffices


class Listening(BaseChatModel):
    """Keeps its prompts."""

    prompts: list = []  # noqa: RUF012 - a pydantic field

    @property
    def _llm_type(self):
        return "listening"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.prompts.append(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("I see."))])


class Broken(Listening):
    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        raise RuntimeError("no\nkey")


class TestAgent:
    def test_another_conversation_remembers(self, memory):
        agent = build_agent(memory, QuotingModel())
        ask(agent, "My cat is called Minou.", conversation_id="one", namespace=("ada",), speaker="Ada")
        told = ask(agent, "What is my cat called?", conversation_id="two", namespace=("ada",))
        assert "Ada said" in told.answer
        assert "Minou" in told.answer
        [found] = told.recalled
        assert found.conversation_id == "one"
        assert set(found.why.terms) == {"cat", "called"}

    def test_a_namespace_sees_only_its_own(self, memory):
        agent = build_agent(memory, QuotingModel())
        ask(agent, "My cat is called Minou.", conversation_id="one", namespace=("ada",))
        told = ask(agent, "What is my cat called?", conversation_id="one", namespace=("ben",))
        assert told == (NOTHING, [])

    def test_it_recalls_neither_its_own_words_nor_what_the_prompt_shows_anyway(self, memory):
        agent = build_agent(memory, GenericFakeChatModel(messages=iter([AIMessage("heron"), AIMessage("heron")])))
        ask(agent, "heron", conversation_id="one", namespace=("ada",))
        assert ask(agent, "heron", conversation_id="one", namespace=("ada",)).recalled == []

    def test_it_recalls_no_more_than_the_limit(self, memory):
        for number in range(5):
            memory.conversation("one").add(role="user", content=f"heron {number}")
        told = ask(build_agent(memory, QuotingModel(), limit=3), "heron?", conversation_id="two", namespace=())
        assert len(told.recalled) == 3

    def test_the_model_sees_what_was_said_before_in_the_conversation(self, memory):
        model = Listening()
        agent = build_agent(memory, model)
        ask(agent, "Good morning.", conversation_id="one", namespace=())
        ask(agent, "And now?", conversation_id="one", namespace=())
        assert [message.type for message in model.prompts[-1]] == ["system", "human", "ai", "human"]

    def test_it_stores_what_was_said_in_order(self, memory):
        ask(build_agent(memory, QuotingModel()), "I am Ada.", conversation_id="one", namespace=(), speaker="Ada")
        stored = memory.conversation("one").messages
        assert [(message.type, message.name) for message in stored] == [("human", "Ada"), ("ai", None)]

    def test_in_an_exam_it_stores_nothing(self, memory):
        ask(build_agent(memory, QuotingModel(), remembers=False), "Who?", conversation_id="one", namespace=())
        assert memory.stats()["messages"] == 0

    def test_a_model_that_fails_is_told_on_one_line_and_nothing_is_half_stored(self, memory):
        with pytest.raises(AgentMemoryError, match="gave no answer: RuntimeError: no key"):
            ask(build_agent(memory, Broken()), "Who?", conversation_id="one", namespace=())
        assert memory.stats()["messages"] == 0
