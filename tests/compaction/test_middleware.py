"""`CompactionMiddleware`: an agent's context fits, a refusal is answered, and the state is never changed."""

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


def asked_of(turns):
    return [f"question-{turn:03}" for turn in range(turns)]


class Refused(Exception):
    """An error of another provider's client."""

    def __init__(self, status_code, text="no"):
        super().__init__(text)
        self.status_code = status_code


def long_talk(agent, turns=12, begin=0, config=None):
    for turn in range(begin, turns):
        ask(agent, turn, config)


class TestTheView:
    @pytest.mark.parametrize("somebody_elses", [False, True], ids=["our checkpointer", "LangGraph's"])
    async def test_is_what_the_model_is_shown_and_the_state_keeps_everything(self, memory, somebody_elses, do):
        model = AgentModel()
        agent = agent_of(memory, model, checkpointer=InMemorySaver() if somebody_elses else memory.checkpointer)
        for turn in range(12):
            await do(agent, "invoke", {"messages": [question(turn)]}, at())
            shown = model.asked[-1]
            assert not provider_problems(shown)
            assert (questions(shown)[0], questions(shown)[-1]) == ("question-000", f"question-{turn:03}")
            assert COUNTER.count(shown) <= 1_000
        assert any(summary_in(message) for message in model.asked[-1])
        everything = model.summarizer.everything + model.texts[-1]
        assert all(each in everything for each in asked_of(12)), "whatever left it was summarized"
        state = (await agent.aget_state(at())).values["messages"]
        assert questions(state) == asked_of(12)
        assert not any(summary_in(message) for message in state)

    def test_of_a_short_history_is_the_history(self, memory):
        model = AgentModel()
        agent = agent_of(memory, model, LARGE, system_prompt="Count.")
        long_talk(agent, 5)
        assert model.asked[-1] == [SystemMessage("Count."), *agent.get_state(at()).values["messages"][:-1]]
        assert not model.summarizer.asked

    def test_that_has_less_than_a_quarter_beside_the_system_message_is_told_once(self, memory, caplog):
        beside = COUNTER.count((), system=TALK * 20)
        for more, told in ((2, 0), (-2, 1)):
            agent = agent_of(memory, AgentModel(), budget(beside * 4 // 3 + more), system_prompt=TALK * 20)
            long_talk(agent, 2)
            assert caplog.text.count("leaves little for messages") == told

    def test_is_recorded_where_one_says(self, memory):
        long_talk(agent_of(memory, AgentModel(), conversation_id="the log", namespace=("org", "me")), 2)
        assert questions(memory.conversation("the log", namespace=("org", "me")).messages) == asked_of(2)
        ask(agent_of(memory, AgentModel()), 2, at("u", namespace=("org", "you")))
        assert questions(memory.conversation("u", namespace=("org", "you")).messages) == ["question-002"]


class TestTheWindow:
    @pytest.mark.parametrize("given", [False, True])
    def test_is_what_the_agents_model_tells_or_what_is_given(self, memory, given):
        model = AgentModel() if given else AgentModel(profile={"max_input_tokens": 1_000})
        long_talk(agent_of(memory, model, LARGE, window=1_000 if given else None), 15)
        assert all(COUNTER.count(shown) <= 1_000 for shown in model.asked)
        assert model.summarizer.asked

    def test_a_models_provider_is_known_by_what_it_tells(self):
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

    def test_wrong_options_are_refused_when_it_is_built(self, memory):
        from langchain_agentmem import CompactionMiddleware

        for options in (
            *({"config": "small"}, {"window": 0}, {"window": True}),
            *({"conversation_id": ""}, {"namespace": "me"}, {"model": 5}),
        ):
            with pytest.raises(InvalidInput):
                pytest.fail(f"{CompactionMiddleware(memory, **options)} of {options}")


class TestARefusal:
    async def test_is_answered_by_a_smaller_context_and_remembered_for_its_thread_alone(self, memory, do):
        model = AgentModel(limit=1_500)
        agent = agent_of(memory, model, LARGE)
        for turn in range(25):
            await do(agent, "invoke", {"messages": [question(turn)]}, at())
        assert sum(COUNTER.count(shown) > 1_500 for shown in model.asked) == 1, "the second time it is known"
        everything = model.summarizer.everything + model.texts[-1]
        assert all(each in everything for each in asked_of(25)), "nothing is left out of the summary"
        assert questions(agent.get_state(at()).values["messages"]) == asked_of(25)
        assert all(not provider_problems(shown) and questions(shown)[0] == "question-000" for shown in model.asked)
        model.limit = None
        long_talk(agent, 15, config=at("another"))
        assert COUNTER.count(model.asked[-1]) > 1_500

    @pytest.mark.parametrize("text", ["no", "Request too large for model `k` on tokens per minute (TPM): Limit 900."])
    def test_of_bytes_or_of_a_rate_is_answered_and_says_nothing_about_tokens(self, memory, text):
        model = AgentModel(refuse={12: Refused(413, text)}.get)
        long_talk(agent_of(memory, model, LARGE), 30)
        assert len(model.asked[12]) < len(model.asked[11])
        assert COUNTER.count(model.asked[-1]) > COUNTER.count(model.asked[11])

    async def test_is_never_answered_a_third_time_and_the_first_error_is_raised(self, memory, do, monkeypatch):
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

    def test_that_cannot_be_answered_is_raised_and_not_what_went_wrong_with_it(self, memory, monkeypatch):
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
    def test_of_another_kind_passes_as_it_is_and_lowers_nothing(self, memory, error):
        model = AgentModel(refuse={8: error}.get)
        agent = agent_of(memory, model, LARGE, window=1_500)
        long_talk(agent, 7)
        with pytest.raises(type(error)) as raised:
            ask(agent, 7)
        assert (raised.value, len(model.asked)) == (error, 8)
        ask(agent, 8)
        assert len(model.asked[-1]) > len(model.asked[-2]), "nothing was compacted"


def test_its_tools_are_offered_where_somebody_wants_them_and_bring_back_what_left(memory):
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
def test_hooks_hear_of_every_compaction(config, limit):
    events = []
    with AgentMemory(":memory:", hooks=[events.append]) as memory:
        long_talk(agent_of(memory, AgentModel(limit=limit), config), 15)
    told = [event for event in events if isinstance(event, CompactionEvent)]
    assert [event.status for event in told[:2]] == ["started", "completed"]
    assert {event.session_id for event in told} == {"t"}
    assert told[1].pre_tokens > 1_000 > told[1].post_tokens > 0
    assert told[1].stages_run
