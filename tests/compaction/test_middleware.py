"""`CompactionMiddleware`: an agent's context fits, a refusal is answered, and the state is never changed."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import CompactionEvent
from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig
from langchain_agentmem.compaction.graph_compactor import Compactor, ContextView
from langchain_agentmem.compaction.overflow_recovery import provider_of
from langchain_agentmem.errors import InvalidInput, StorageError
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.message_marks import summary_in
from langchain_agentmem.testing import provider_problems
from tests.compaction.summarizers import Summarizer, budget

pytestmark = pytest.mark.sqlite_suffices

SMALL = budget(1_000)
MIDDLING = budget(4_000)
LARGE = ManagedMemoryConfig(token_counter="estimate")
COUNTER = TokenCounter("estimate")
TALK = "how many apples are there in this basket and in the other one " * 4


class Scripted(BaseChatModel):
    """A chat model that answers by a function, and may refuse what is too large."""

    script: Any = None
    limit: int | None = None
    refuse: Any = None
    name_: str = "scripted"
    shown: list[Any] = Field(default_factory=list)
    offered: list[Any] = Field(default_factory=list)
    asked: list[str] = Field(default_factory=list)

    def __init__(self, script=None, **fields):
        super().__init__(script=script, **fields)

    @property
    def _llm_type(self) -> str:
        return self.name_

    def bind_tools(self, tools, *, tool_choice=None, **options):
        return self.bind(tools=[each["name"] if isinstance(each, dict) else each.name for each in tools])

    def _generate(self, messages, stop=None, run_manager=None, *, tools=(), **options):
        if "You keep the record" in messages[0].text:
            self.asked.append("\n".join(message.text for message in messages))
            return _result(AIMessage(Summarizer()(messages)))
        self.shown.append(messages)
        self.offered.append([*tools])
        if self.refuse is not None and (error := self.refuse(len(self.shown))) is not None:
            raise error
        if self.limit is not None and COUNTER.count(messages) > self.limit:
            raise ContextOverflowError(f"{COUNTER.count(messages)} tokens are more than {self.limit}")
        said = self.script(messages) if self.script else f"answer {len(self.shown)} " + TALK
        return _result(said if isinstance(said, AIMessage) else AIMessage(said))


def _result(message):
    return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def count(basket: str) -> str:
    """Count the apples in a basket."""
    return f"There are 7 apples in basket {basket}. " + TALK


def calling(*names, key="c", **arguments):
    made = [{"name": name, "args": arguments, "id": f"{key}{n}"} for n, name in enumerate(names)]
    return AIMessage("", tool_calls=made)


def on(thread="t", **more):
    return {"configurable": {"thread_id": thread, **more}}


def question(turn):
    return HumanMessage(f"question-{turn:03} {TALK}", id=f"q-{turn}")


def ask(agent, turn, config=None):
    return agent.invoke({"messages": [question(turn)]}, on() if config is None else config)["messages"]


async def aask(agent, turn, config=None):
    return (await agent.ainvoke({"messages": [question(turn)]}, on() if config is None else config))["messages"]


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


class TestTheView:
    @pytest.mark.parametrize("awaited", [False, True])
    @pytest.mark.parametrize("somebody_elses", [False, True], ids=["our checkpointer", "LangGraph's"])
    async def test_is_what_the_model_is_shown_and_the_state_keeps_everything(self, memory, somebody_elses, awaited):
        model = Scripted()
        agent = agent_of(memory, model, checkpointer=InMemorySaver() if somebody_elses else memory.checkpointer)
        for turn in range(12):
            await aask(agent, turn) if awaited else ask(agent, turn)
            shown = model.shown[-1]
            assert not provider_problems(shown)
            assert questions(shown)[0] == "question-000"
            assert questions(shown)[-1] == f"question-{turn:03}"
            assert COUNTER.count(shown) <= 1_000
        assert any(summary_in(message) for message in model.shown[-1])
        everything = "\n".join(model.asked) + texts(model.shown[-1])
        assert all(f"question-{turn:03}" in everything for turn in range(12)), "whatever left it was summarized"
        state = (await agent.aget_state(on())).values["messages"]
        assert questions(state) == [f"question-{turn:03}" for turn in range(12)]
        assert not any(summary_in(message) for message in state)

    def test_of_a_short_history_is_the_history(self, memory):
        model = Scripted()
        agent = agent_of(memory, model, LARGE, system_prompt="Count.")
        for turn in range(5):
            ask(agent, turn)
        state = agent.get_state(on()).values["messages"]
        assert model.shown[-1] == [SystemMessage("Count."), *state[:-1]]
        assert not model.asked

    @pytest.mark.parametrize(("more", "told"), [(-2, 1), (2, 0)])
    def test_that_has_less_than_a_quarter_beside_the_system_message_is_told_once(self, memory, caplog, more, told):
        beside = COUNTER.count((), system=TALK * 20)
        agent = agent_of(memory, Scripted(), budget(beside * 4 // 3 + more), system_prompt=TALK * 20)
        long_talk(agent, 2)
        assert caplog.text.count("leaves little for messages") == told

    def test_costs_no_second_call_after_a_restart(self, url):
        with AgentMemory(url) as memory:
            agent = agent_of(memory, model := Scripted(), summarizer=(before := Summarizer()))
            long_talk(agent)
        assert before.asked
        assert not model.asked, "it is made by the model that was given"
        with AgentMemory(url) as memory:
            model = Scripted()
            agent = agent_of(memory, model, summarizer=(after := Summarizer()))
            ask(agent, 12)
            assert any(summary_in(message) for message in model.shown[0])
        assert not after.asked

    def test_without_a_thread_is_remembered_by_the_object_alone(self, memory):
        model = Scripted()
        agent = agent_of(memory, model, checkpointer=False)
        history = [each for turn in range(12) for each in (question(turn), AIMessage(f"answer {TALK}", id=f"a-{turn}"))]
        for _ in range(3):
            agent.invoke({"messages": [*history, question(12)]})
        assert len(model.asked) == 1
        assert memory.admin.stats()["messages"] == 0

    def test_is_recorded_where_one_says(self, memory):
        agent = agent_of(memory, Scripted(), conversation_id="the log", namespace=("org", "me"))
        ask(agent, 0)
        ask(agent, 1)
        assert questions(memory.conversation("the log", namespace=("org", "me")).messages) == [
            "question-000",
            "question-001",
        ]
        ask(agent_of(memory, Scripted()), 2, on("u", agentmem_namespace=("org", "you")))
        assert questions(memory.conversation("u", namespace=("org", "you")).messages) == ["question-002"]


class TestTheWindow:
    CONFIG = ManagedMemoryConfig(token_counter="estimate")

    @pytest.mark.parametrize("given", [False, True])
    def test_is_what_the_agents_model_tells_or_what_is_given(self, memory, given):
        model = Scripted() if given else Scripted(profile={"max_input_tokens": 1_000})
        agent = agent_of(memory, model, self.CONFIG, window=1_000 if given else None)
        for turn in range(15):
            ask(agent, turn)
            assert COUNTER.count(model.shown[-1]) <= 1_000
        assert model.asked

    def test_a_models_provider_is_known_by_what_it_tells(self):
        same = ["openai", "openrouter"]
        others = {
            "anthropic-chat": "anthropic",
            "azure-openai-chat": "openai",
            "google_genai": "google",
            "xai-chat": "xai",
        }
        for told, known in (dict(zip(same, same, strict=True)) | others | {"somebody": ""}).items():
            model = Scripted(name_=told)
            assert provider_of(model) == provider_of(model.bind(stop=["."])) == known, told

    @pytest.mark.parametrize(
        "options",
        [
            {"config": "small"},
            {"window": 0},
            {"window": True},
            {"conversation_id": ""},
            {"namespace": "me"},
            {"model": 5},
        ],
        ids=str,
    )
    def test_wrong_options_are_refused_when_it_is_built(self, memory, options):
        from langchain_agentmem import CompactionMiddleware

        with pytest.raises(InvalidInput):
            CompactionMiddleware(memory, **options)


class Refused(Exception):
    """What another provider's client raises."""

    def __init__(self, status_code, text="no"):
        super().__init__(text)
        self.status_code = status_code


def long_talk(agent, turns=12, begin=0, config=None):
    for turn in range(begin, turns):
        ask(agent, turn, config)


class TestARefusal:
    @pytest.mark.parametrize("awaited", [False, True])
    async def test_is_answered_by_a_smaller_context(self, memory, awaited):
        model = Scripted(limit=1_500)
        agent = agent_of(memory, model, LARGE)
        for turn in range(20):
            await aask(agent, turn) if awaited else ask(agent, turn)
        assert sum(COUNTER.count(shown) > 1_500 for shown in model.shown) == 1
        everything = "\n".join(model.asked) + texts(model.shown[-1])
        assert all(f"question-{turn:03}" in everything for turn in range(20)), "nothing is left out of the summary"
        assert len(questions(agent.get_state(on()).values["messages"])) == 20
        assert all(not provider_problems(shown) for shown in model.shown)
        assert all(questions(shown)[0] == "question-000" for shown in model.shown)

    def test_is_remembered_for_its_thread_alone(self, memory):
        model = Scripted(limit=1_500)
        agent = agent_of(memory, model, LARGE)
        long_talk(agent, 30)
        assert sum(COUNTER.count(shown) > 1_500 for shown in model.shown) == 1, "the second time it is known"
        model.limit = None
        for turn in range(15):
            ask(agent, turn, on("another"))
        assert COUNTER.count(model.shown[-1]) > 1_500

    @pytest.mark.parametrize(
        "error",
        [
            Refused(413),
            Refused(413, "Request too large for model `k` on tokens per minute (TPM): Limit 900, Requested 1100."),
        ],
        ids=["bytes", "rate"],
    )
    def test_of_bytes_or_of_a_rate_is_answered_and_says_nothing_about_tokens(self, memory, error):
        model = Scripted(refuse=lambda call: error if call == 12 else None)
        agent = agent_of(memory, model, LARGE)
        long_talk(agent, 30)
        assert len(model.shown[12]) < len(model.shown[11])
        assert COUNTER.count(model.shown[-1]) > COUNTER.count(model.shown[11])

    @pytest.mark.parametrize("awaited", [False, True])
    async def test_is_never_answered_a_third_time_and_the_first_error_is_raised(self, memory, awaited, monkeypatch):
        attempts = []

        def smaller(compactor, messages, at, *, attempt, **more):
            attempts.append(attempt)
            return ContextView(messages[:1], 100 - attempt)
            yield

        monkeypatch.setattr(Compactor, "smaller", smaller)
        errors = [ContextOverflowError(f"refusal {n}") for n in range(5)]
        errors[0].__cause__ = cause = ValueError("400")
        model = Scripted(refuse=lambda call: errors[call - 1])
        agent = agent_of(memory, model, LARGE)
        with pytest.raises(ContextOverflowError) as raised:
            await aask(agent, 0) if awaited else ask(agent, 0)
        assert raised.value is errors[0]
        assert raised.value.__cause__ is cause
        assert attempts == [1, 2]
        assert len(model.shown) == 3

    def test_that_cannot_be_answered_is_raised_and_not_what_went_wrong_with_it(self, memory, monkeypatch):
        model = Scripted()
        agent = agent_of(memory, model, LARGE)
        long_talk(agent, 5)

        def broken(*args, **kwargs):
            raise StorageError("The disk is full.")
            yield

        monkeypatch.setattr(Compactor, "smaller", broken)
        model.refuse = lambda call: ContextOverflowError("refused")
        with pytest.raises(ContextOverflowError, match="refused"):
            ask(agent, 5)

    @pytest.mark.parametrize(
        "error",
        [
            ValueError("What?"),
            Refused(429, "Too many requests"),
            Refused(400, "Invalid 'tool_calls[0].id': string too long. Expected maximum length 40."),
            Refused(429, "Rate limit reached: too many tokens per minute."),
            Refused(400, "(ThrottlingException): Too many tokens, please wait before trying again."),
        ],
        ids=str,
    )
    def test_of_another_kind_passes_as_it_is_and_lowers_nothing(self, memory, error):
        model = Scripted(refuse=lambda call: error if call == 8 else None)
        agent = agent_of(memory, model, LARGE, window=1_500)
        long_talk(agent, 7)
        with pytest.raises(type(error)) as raised:
            ask(agent, 7)
        assert raised.value is error
        assert len(model.shown) == 8
        ask(agent, 8)
        assert len(model.shown[-1]) > len(model.shown[-2]), "nothing was compacted"


class TestItsTools:
    def test_are_offered_and_bring_back_what_left(self, memory):
        def script(messages):
            if messages[-1].text == "And what was the password?":
                return calling("recall_dropped", query="password")
            return f"Yes. {TALK}"

        model = Scripted(script)
        agent = agent_of(memory, model, offered=True)
        agent.invoke({"messages": [question(0)]}, on())
        agent.invoke({"messages": [HumanMessage(f"The password is Kingfisher. {TALK}")]}, on())
        for turn in range(1, 10):
            ask(agent, turn)
        assert "Kingfisher" not in texts(model.shown[-1]), "it left the context"
        found = agent.invoke({"messages": [HumanMessage("And what was the password?")]}, on())["messages"][-2]
        assert found.name == "recall_dropped"
        assert "The password is Kingfisher." in found.text
        assert all({"recall_dropped", "expand"} == {*offered} for offered in model.offered)

    async def test_are_usable_when_awaited_and_not_offered_where_nobody_wants_them(self, memory):
        model = Scripted(lambda messages: calling("expand", id="q-0") if "whole" in messages[-1].text else "Yes.")
        agent = agent_of(memory, model, LARGE, offered=True)
        await aask(agent, 0)
        state = await agent.ainvoke({"messages": [HumanMessage("Show me the first one whole.")]}, on())
        assert "question-000" in state["messages"][-2].text
        ask(agent_of(memory, model, tools=[count]), 0, on("u"))
        assert model.offered[-1] == ["count"]


class TestWhatItTells:
    @pytest.mark.parametrize(("config", "limit"), [(SMALL, None), (LARGE, 1_500)], ids=["budget", "refusal"])
    def test_hooks_hear_of_every_compaction(self, config, limit):
        events = []
        with AgentMemory(":memory:", hooks=[events.append]) as memory:
            long_talk(agent_of(memory, Scripted(limit=limit), config, summarizer=Summarizer()), 15)
        told = [event for event in events if isinstance(event, CompactionEvent)]
        assert [event.status for event in told[:2]] == ["started", "completed"]
        assert {event.session_id for event in told} == {"t"}
        assert told[1].pre_tokens > 1_000 > told[1].post_tokens > 0
        assert told[1].stages_run
