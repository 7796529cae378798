"""`CompactionMiddleware`: an agent's context fits, overflows are retried, and the state is never changed."""

from __future__ import annotations

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import CompactionEvent
from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig
from langchain_agentmem.compaction.graph_compactor import Compactor, ContextView, provider_of
from langchain_agentmem.errors import InvalidInput, StorageError
from langchain_agentmem.messages.message_marks import summary_in
from langchain_agentmem.testing import provider_problems
from tests.compaction.summarizers import COUNTER, TALK, AgentModel, Summarizer, budget
from tests.support.graphs import at
from tests.support.models import calling

pytestmark = pytest.mark.sqlite_suffices

SMALL = budget(1_000)
LARGE = ManagedMemoryConfig(token_counter="estimate")


@tool
def count(basket: str) -> str:
    """Count the apples in a basket."""
    return f"There are 7 apples in basket {basket}. " + TALK


def question(turn):
    return HumanMessage(f"question-{turn:03} {TALK}", id=f"q-{turn}")


def ask(agent, turn, config=None):
    return agent.invoke({"messages": [question(turn)]}, config or at())["messages"]


def agent_of(memory, model, config=SMALL, *, middleware=(), after=(), tools=(), offered=False, **options):
    """An agent with the middleware, which offers no tools of its own unless that is what is tested."""
    from langchain.agents import create_agent

    from langchain_agentmem import CompactionMiddleware

    fields = {name: options.pop(name) for name in ("conversation_id", "namespace", "window") if name in options}
    own = CompactionMiddleware(memory, options.pop("summarizer", None), config, tools=offered, **fields)
    options.setdefault("checkpointer", memory.checkpointer)
    return create_agent(model, [*tools], middleware=[*middleware, own, *after], **options)


def texts(messages):
    return "\n".join(message.text for message in messages)


def questions(messages):
    return [message.text.split()[0] for message in messages if message.text.startswith("question-")]


def expected_questions(turns):
    return [f"question-{turn:03}" for turn in range(turns)]


class Refused(Exception):
    """An error of another provider's client."""

    def __init__(self, status_code, text="no"):
        super().__init__(text)
        self.status_code = status_code


def long_talk(agent, turns=12, begin=0, config=None):
    for turn in range(begin, turns):
        ask(agent, turn, config)


class TestView:
    @pytest.mark.parametrize("foreign_checkpointer", [False, True], ids=["our checkpointer", "LangGraph's"])
    async def test_model_sees_the_view_and_state_keeps_everything(self, memory, foreign_checkpointer, do):
        model = AgentModel()
        agent = agent_of(memory, model, checkpointer=InMemorySaver() if foreign_checkpointer else memory.checkpointer)
        for turn in range(12):
            await do(agent, "invoke", {"messages": [question(turn)]}, at())
            shown = model.asked[-1]
            assert not provider_problems(shown)
            assert (questions(shown)[0], questions(shown)[-1]) == ("question-000", f"question-{turn:03}")
            assert COUNTER.count(shown) <= 1_000
        assert any(summary_in(message) for message in model.asked[-1])
        everything = model.summarizer.everything + model.texts[-1]
        assert all(each in everything for each in expected_questions(12)), "whatever left it was summarized"
        state = (await agent.aget_state(at())).values["messages"]
        assert questions(state) == expected_questions(12)
        assert not any(summary_in(message) for message in state)

    def test_short_history_is_shown_unchanged(self, memory):
        model = AgentModel()
        agent = agent_of(memory, model, LARGE, system_prompt="Count.")
        long_talk(agent, 5)
        assert model.asked[-1] == [SystemMessage("Count."), *agent.get_state(at()).values["messages"][:-1]]
        assert not model.summarizer.asked

    def test_small_room_beside_the_system_message_warns_once(self, memory, caplog):
        beside = COUNTER.count((), system=TALK * 20)
        for more, told in ((2, 0), (-2, 1)):
            agent = agent_of(memory, AgentModel(), budget(beside * 4 // 3 + more), system_prompt=TALK * 20)
            long_talk(agent, 2)
            assert caplog.text.count("Compaction cannot reduce these") == told

    def test_messages_are_recorded_in_the_given_conversation(self, memory):
        long_talk(agent_of(memory, AgentModel(), conversation_id="the log", namespace=("org", "me")), 2)
        assert questions(memory.conversation("the log", namespace=("org", "me")).messages) == expected_questions(2)
        ask(agent_of(memory, AgentModel()), 2, at("u", namespace=("org", "you")))
        assert questions(memory.conversation("u", namespace=("org", "you")).messages) == ["question-002"]


class TestWindow:
    @pytest.mark.parametrize("given", [False, True])
    def test_window_comes_from_the_option_or_model_profile(self, memory, given):
        model = AgentModel() if given else AgentModel(profile={"max_input_tokens": 1_000})
        long_talk(agent_of(memory, model, LARGE, window=1_000 if given else None), 15)
        assert all(COUNTER.count(shown) <= 1_000 for shown in model.asked)
        assert model.summarizer.asked

    def test_provider_is_derived_from_the_model_type(self):
        for told, known in (
            *((name, name) for name in ("openai", "openrouter")),
            ("anthropic-chat", "anthropic"),
            ("azure-openai-chat", "openai"),
            ("google_genai", "google"),
            ("xai-chat", "xai"),
            ("somebody", ""),
        ):
            model = AgentModel(kind=told)
            assert provider_of(model) == provider_of(model.bind(stop=["."])) == known, told

    def test_invalid_options_are_rejected(self, memory):
        from langchain_agentmem import CompactionMiddleware

        for options in (
            *({"config": "small"}, {"window": 0}, {"window": True}),
            *({"conversation_id": ""}, {"namespace": "me"}, {"model": 5}),
        ):
            with pytest.raises(InvalidInput):
                pytest.fail(f"{CompactionMiddleware(memory, **options)} of {options}")


class TestContextOverflow:
    async def test_overflow_limit_is_remembered_for_its_thread_only(self, memory, do):
        model = AgentModel(limit=1_500)
        agent = agent_of(memory, model, LARGE)
        for turn in range(25):
            await do(agent, "invoke", {"messages": [question(turn)]}, at())
        assert sum(COUNTER.count(shown) > 1_500 for shown in model.asked) == 1, "the second time it is known"
        everything = model.summarizer.everything + model.texts[-1]
        assert all(each in everything for each in expected_questions(25)), "nothing is left out of the summary"
        assert questions(agent.get_state(at()).values["messages"]) == expected_questions(25)
        assert all(not provider_problems(shown) and questions(shown)[0] == "question-000" for shown in model.asked)
        model.limit = None
        long_talk(agent, 15, config=at("another"))
        assert COUNTER.count(model.asked[-1]) > 1_500

    @pytest.mark.parametrize("text", ["no", "Request too large for model `k` on tokens per minute (TPM): Limit 900."])
    def test_payload_refusal_shrinks_without_lowering_token_limit(self, memory, text):
        model = AgentModel(refuse={12: Refused(413, text)}.get)
        long_talk(agent_of(memory, model, LARGE), 30)
        assert len(model.asked[12]) < len(model.asked[11])
        assert COUNTER.count(model.asked[-1]) > COUNTER.count(model.asked[11])

    async def test_third_overflow_raises_the_first_error(self, memory, do, monkeypatch):
        attempts = []

        def smaller(compactor, messages, at, *, attempt, **more):
            attempts.append(attempt)
            return ContextView(messages[:1], 100 - attempt)

        monkeypatch.setattr(Compactor, "shrink_history", smaller)
        errors = [ContextOverflowError(f"refusal {n}") for n in range(5)]
        errors[0].__cause__ = cause = ValueError("400")
        model = AgentModel(refuse=lambda call: errors[call - 1])
        agent = agent_of(memory, model, LARGE)
        with pytest.raises(ContextOverflowError) as raised:
            await do(agent, "invoke", {"messages": [question(0)]}, at())
        assert (raised.value, raised.value.__cause__) == (errors[0], cause)
        assert (attempts, len(model.asked)) == ([1, 2], 3)

    def test_failed_recovery_raises_the_overflow_error(self, memory, monkeypatch):
        def broken(*args, **kwargs):
            raise StorageError("The disk is full.")

        monkeypatch.setattr(Compactor, "shrink_history", broken)
        with pytest.raises(ContextOverflowError, match="refused"):
            ask(agent_of(memory, AgentModel(refuse=lambda call: ContextOverflowError("refused")), LARGE), 0)

    @pytest.mark.parametrize(
        "error",
        [
            ValueError("What?"),
            Refused(400, "Invalid 'tool_calls[0].id': string too long. Expected maximum length 40."),
            Refused(429, "Rate limit reached: too many tokens per minute."),
        ],
        ids=str,
    )
    def test_other_errors_pass_and_lower_nothing(self, memory, error):
        model = AgentModel(refuse={8: error}.get)
        agent = agent_of(memory, model, LARGE, window=1_500)
        long_talk(agent, 7)
        with pytest.raises(type(error)) as raised:
            ask(agent, 7)
        assert (raised.value, len(model.asked)) == (error, 8)
        ask(agent, 8)
        assert len(model.asked[-1]) > len(model.asked[-2]), "nothing was compacted"


def test_offered_tools_recall_dropped_messages(memory):
    def script(messages):
        if messages[-1].text == "And what was the password?":
            return calling("recall_dropped", query="password")
        return f"Yes. {TALK}"

    model = AgentModel(script)
    agent = agent_of(memory, model, offered=True, summarizer=Summarizer())
    ask(agent, 0)
    agent.invoke({"messages": [HumanMessage(f"The password is Kingfisher. {TALK}")]}, at())
    long_talk(agent, 10, 1)
    assert "Kingfisher" not in model.texts[-1], "it left the context"
    found = agent.invoke({"messages": [HumanMessage("And what was the password?")]}, at())["messages"][-2]
    assert found.name == "recall_dropped"
    assert "The password is Kingfisher." in found.text
    assert all({"recall_dropped", "expand"} == {*offered} for offered in model.tools)
    ask(agent_of(memory, model, tools=[count]), 0, at("u"))
    assert model.tools[-1] == ["count"]


@pytest.mark.parametrize(("config", "limit"), [(SMALL, None), (LARGE, 1_500)], ids=["budget", "refusal"])
def test_hooks_receive_every_compaction(config, limit):
    events = []
    with AgentMemory(":memory:", hooks=[events.append]) as memory:
        long_talk(agent_of(memory, AgentModel(limit=limit), config), 15)
    told = [event for event in events if isinstance(event, CompactionEvent)]
    assert [event.status for event in told[:2]] == ["started", "completed"]
    assert {event.session_id for event in told} == {"t"}
    assert told[1].pre_tokens > 1_000 > told[1].post_tokens > 0
    assert told[1].stages_run
