"""`CompactionMiddleware`: an agent's context fits, a refusal is answered, and the state is never changed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel, Field

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import CompactionEvent
from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig
from langchain_agentmem.compaction.compaction_middleware import CompactionMiddleware
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


@tool
def report() -> str:
    """A long report."""
    return "One line of the report. " * 1_000


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
    fields = {name: options.pop(name) for name in ("conversation_id", "namespace", "window") if name in options}
    own = CompactionMiddleware(memory, options.pop("summarizer", None), config, tools=offered, **fields)
    options.setdefault("checkpointer", memory.checkpointer)
    return create_agent(model, [*tools], middleware=[*middleware, own, *after], **options)


def texts(messages):
    return "\n".join(message.text for message in messages)


def questions(messages):
    return [message.text.split()[0] for message in messages if message.text.startswith("question-")]


class TestTheView:
    @pytest.mark.slow
    @pytest.mark.parametrize("awaited", [False, True])
    @pytest.mark.parametrize("somebody_elses", [False, True], ids=["our checkpointer", "LangGraph's"])
    async def test_is_what_the_model_is_shown_and_the_state_keeps_everything(self, memory, somebody_elses, awaited):
        model = Scripted()
        saver = InMemorySaver() if somebody_elses else memory.checkpointer
        agent = agent_of(memory, model, checkpointer=saver)
        for turn in range(25):
            await aask(agent, turn) if awaited else ask(agent, turn)
            shown = model.shown[-1]
            assert not provider_problems(shown)
            assert questions(shown)[0] == "question-000"
            assert questions(shown)[-1] == f"question-{turn:03}"
            assert COUNTER.count(shown) <= 1_000
        assert any(summary_in(message) for message in model.shown[-1])
        everything = "\n".join(model.asked) + texts(model.shown[-1])
        assert all(f"question-{turn:03}" in everything for turn in range(25)), "whatever left it was summarized"
        state = (await agent.aget_state(on())).values["messages"]
        assert questions(state) == [f"question-{turn:03}" for turn in range(25)]
        assert not any(summary_in(message) for message in state)

    def test_of_a_short_history_is_the_history(self, memory):
        model = Scripted()
        agent = agent_of(memory, model, LARGE, system_prompt="Count.")
        for turn in range(5):
            ask(agent, turn)
        state = agent.get_state(on()).values["messages"]
        assert model.shown[-1] == [SystemMessage("Count."), *state[:-1]]
        assert not model.asked

    def test_leaves_room_for_the_system_message_and_the_tools(self, memory):
        def spare(**options):
            model = Scripted()
            agent = agent_of(memory, model, MIDDLING, **options)
            for turn in range(12):
                ask(agent, turn, on(repr(options)[:50]))
            return not model.asked

        @tool
        def look(where: str) -> str:
            """Look."""
            return where

        look.description = TALK * 55

        class Answer(BaseModel):
            text: str = Field(description=TALK * 55)

        assert spare()
        assert not spare(system_prompt=TALK * 55)
        assert not spare(tools=[look])
        model = Scripted(lambda messages: calling("Answer", key=f"c{len(messages)}-", text="seven"))
        agent = agent_of(memory, model, MIDDLING, response_format=ToolStrategy(Answer))
        for turn in range(12):
            ask(agent, turn, on("answers"))
        assert model.asked

    def test_that_has_little_room_beside_the_system_message_is_told_once(self, memory, caplog):
        agent = agent_of(memory, Scripted(), MIDDLING, system_prompt=TALK * 200)
        for turn in range(2):
            ask(agent, turn)
        ask(agent_of(memory, Scripted(), MIDDLING, system_prompt=TALK), 0, on("short"))
        [told] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert "leaves little for messages" in told

    @pytest.mark.parametrize(("more", "told"), [(-2, 1), (2, 0)])
    def test_that_has_less_than_a_quarter_beside_it_is_told(self, memory, caplog, more, told):
        beside = COUNTER.count((), system=TALK * 20)
        agent = agent_of(memory, Scripted(), budget(beside * 4 // 3 + more), system_prompt=TALK * 20)
        ask(agent, 0)
        assert caplog.text.count("leaves little for messages") == told

    def test_costs_no_second_call_after_a_restart(self, url, clock):
        with AgentMemory(url, clock=clock) as memory:
            agent = agent_of(memory, model := Scripted(), summarizer=(before := Summarizer()))
            long_talk(agent)
        assert before.asked
        assert not model.asked, "it is made by the model that was given"
        with AgentMemory(url, clock=clock) as memory:
            model = Scripted()
            agent = agent_of(memory, model, summarizer=(after := Summarizer()))
            ask(agent, 12)
            assert any(summary_in(message) for message in model.shown[0])
        assert not after.asked

    def test_is_of_the_thread(self, memory):
        model = Scripted()
        agent = agent_of(memory, model)
        with ThreadPoolExecutor(4) as pool:
            for turn in range(12):
                list(pool.map(lambda n, turn=turn: ask(agent, 100 * n + turn, on(f"thread-{n}")), range(4)))
        for shown in model.shown:
            assert len({each[:10] for each in questions(shown)}) == 1, "never what was said in another thread"
        for n in range(4):
            assert questions(memory.conversation(f"thread-{n}").messages) == [
                f"question-{100 * n + turn:03}" for turn in range(12)
            ]

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

    def test_is_each_models_own(self, memory):
        small = Scripted(profile={"max_input_tokens": 1_000}, name_="small")
        large = Scripted(profile={"max_input_tokens": 200_000}, name_="large")

        class Choosing(AgentMiddleware):
            def wrap_model_call(self, request, handler):
                return handler(request.override(model=large if "007" in request.messages[-1].text else small))

        agent = agent_of(memory, small, self.CONFIG, middleware=[Choosing()])
        for turn in range(7):
            ask(agent, turn)
        ask(agent, 7)
        assert not large.asked
        for turn in range(8, 12):
            ask(agent, turn)
        assert small.asked
        assert all(COUNTER.count(shown) <= 1_000 for shown in small.shown)

    @pytest.mark.parametrize(
        ("told", "known"),
        [
            ("anthropic-chat", "anthropic"),
            ("openai", "openai"),
            ("azure-openai-chat", "openai"),
            ("google_genai", "google"),
            ("xai-chat", "xai"),
            ("openrouter", "openrouter"),
            ("somebody", ""),
        ],
    )
    def test_a_models_provider_is_known_by_what_it_tells(self, told, known):
        model = Scripted(name_=told)
        assert provider_of(model) == provider_of(model.bind(stop=["."])) == known

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
    )
    def test_wrong_options_are_refused_when_it_is_built(self, memory, options):
        with pytest.raises(InvalidInput):
            CompactionMiddleware(memory, **options)


class Refused(Exception):
    """What another provider's client raises."""

    def __init__(self, status_code, text="no"):
        super().__init__(text)
        self.status_code = status_code


def long_talk(agent, turns=12):
    for turn in range(turns):
        ask(agent, turn)


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

    def test_of_bytes_says_nothing_about_tokens(self, memory):
        model = Scripted(refuse=lambda call: Refused(413) if call == 8 else None)
        agent = agent_of(memory, model, LARGE)
        long_talk(agent, 30)
        assert len(model.shown[8]) < len(model.shown[7])
        assert COUNTER.count(model.shown[-1]) > COUNTER.count(model.shown[7])

    def test_is_answered_twice(self, memory):
        def script(messages):
            return (
                "Thank you."
                if messages[-1].type == "tool"
                else calling("report")
                if "005" in messages[-1].text
                else "Yes."
            )

        model = Scripted(script, limit=1_500)
        agent = agent_of(memory, model, LARGE, tools=[report])
        long_talk(agent, 6)
        assert agent.get_state(on()).values["messages"][-1].text == "Thank you."
        first, second, third = model.shown[-3:]
        assert COUNTER.count(first) > COUNTER.count(second) > 1_500 >= COUNTER.count(third)
        assert not provider_problems(third)
        assert "One line of the report." in third[-1].text
        assert len(agent.get_state(on()).values["messages"][-2].text) == 24_000

    @pytest.mark.parametrize("awaited", [False, True])
    def test_is_never_answered_a_third_time_and_the_first_error_is_raised(self, memory, awaited, monkeypatch):
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
            asyncio.run(aask(agent, 0)) if awaited else ask(agent, 0)
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

    @pytest.mark.parametrize("error", [Refused(429, "Too many requests"), ValueError("What?"), Refused(500)], ids=str)
    def test_of_another_kind_passes_as_it_is(self, memory, error):
        model = Scripted(refuse=lambda call: error if call == 8 else None)
        agent = agent_of(memory, model, LARGE)
        long_talk(agent, 7)
        with pytest.raises(type(error)) as raised:
            ask(agent, 7)
        assert raised.value is error
        assert len(model.shown) == 8
        assert not model.asked

    @pytest.mark.parametrize(
        "error",
        [
            Refused(400, "Invalid 'messages[10].tool_calls[0].id': string too long. Expected maximum length 40."),
            Refused(429, "Rate limit reached: too many tokens per minute."),
            Refused(400, "An error occurred (ThrottlingException): Too many tokens, please wait before trying again."),
        ],
        ids=["an id", "a rate", "throttling"],
    )
    def test_of_what_sounds_like_it_passes_and_lowers_nothing(self, memory, error):
        model = Scripted(refuse=lambda call: error if call == 8 else None)
        agent = agent_of(memory, model, LARGE, window=1_500)
        long_talk(agent, 7)
        with pytest.raises(Refused):
            ask(agent, 7)
        assert len(model.shown) == 8
        ask(agent, 8)
        assert len(model.shown[-1]) > len(model.shown[-2]), "nothing was compacted"

    def test_of_a_rate_is_answered_and_lowers_nothing(self, memory):
        error = Refused(413, "Request too large for model `k` on tokens per minute (TPM): Limit 900, Requested 1100.")
        model = Scripted(refuse=lambda call: error if call == 12 else None)
        agent = agent_of(memory, model, LARGE)
        long_talk(agent, 30)
        assert len(model.shown[12]) < len(model.shown[11])
        assert COUNTER.count(model.shown[-1]) > COUNTER.count(model.shown[11])

    @pytest.mark.slow
    @pytest.mark.parametrize("awaited", [False, True])
    async def test_in_unknown_words_is_answered_once_where_the_window_was_nearly_full(self, memory, awaited):
        def refuse(call):
            return Refused(400, "E17") if COUNTER.count(model.shown[-1]) > 1_500 else None

        model = Scripted(refuse=refuse)
        agent = agent_of(memory, model, LARGE, window=1_700)
        for turn in range(30):
            await aask(agent, turn) if awaited else ask(agent, turn)
        assert sum(COUNTER.count(shown) > 1_500 for shown in model.shown) == 1, "what was taken is remembered"

    @pytest.mark.slow
    @pytest.mark.parametrize(("window", "calls"), [(1_700, 2), (17_000, 1), (None, 1)])
    def test_in_unknown_words_is_raised_where_that_does_not_help_or_is_not_likely_to(self, memory, window, calls):
        errors = [Refused(422, "E17"), Refused(422, "E17")]
        model = Scripted()
        agent = agent_of(memory, model, LARGE, window=window)
        turn = 0
        while not model.shown or COUNTER.count(model.shown[-1]) < 1_450:
            ask(agent, turn)
            turn += 1
        before = len(model.shown)
        model.refuse = lambda call: errors[call - before - 1]
        with pytest.raises(Refused) as raised:
            ask(agent, turn)
        assert len(model.shown) == before + calls
        assert raised.value in errors
        model.refuse = None
        for later in range(turn + 1, turn + 20):
            ask(agent, later)
        assert max(map(COUNTER.count, model.shown[-19:])) > 1_400, "what never succeeded lowers nothing"

    def test_in_unknown_words_is_never_answered_twice(self, memory, monkeypatch):
        def smaller(compactor, messages, at, **more):
            return ContextView(messages[:1], 99)
            yield

        monkeypatch.setattr(Compactor, "smaller", smaller)
        model = Scripted(refuse=lambda call: Refused(400, "E17"))
        with pytest.raises(Refused):
            ask(agent_of(memory, model, LARGE, window=70), 0)
        assert len(model.shown) == 2

    def test_that_no_smaller_context_helped_lowers_nothing(self, memory):
        model = Scripted()
        agent = agent_of(memory, model, LARGE)
        long_talk(agent, 11)
        model.refuse = lambda call: ContextOverflowError("no")
        with pytest.raises(ContextOverflowError):
            ask(agent, 11)
        model.refuse = None
        for turn in range(12, 30):
            ask(agent, turn)
        assert COUNTER.count(model.shown[-1]) > COUNTER.count(model.shown[11])

    def test_of_a_small_context_does_not_make_all_others_tiny(self, memory):
        model = Scripted(refuse=lambda call: ContextOverflowError("no") if call == 4 else None)
        agent = agent_of(memory, model, LARGE, system_prompt=TALK * 3)
        long_talk(agent, 20)
        assert COUNTER.count(model.shown[3][1:]) < 500 < max(COUNTER.count(shown[1:]) for shown in model.shown[4:])

    def test_of_what_is_small_already_allows_no_more_than_before(self, memory):
        refuse = {6: ContextOverflowError("no")}.get
        model = Scripted(lambda messages: "Seven.", refuse=refuse)
        agent = agent_of(memory, model, budget(430))
        long_talk(agent, 20)
        assert len(model.shown) == 21
        assert max(map(COUNTER.count, model.shown)) <= 430

    def test_followed_by_an_error_of_another_kind_passes_that_on(self, memory):
        answers = {8: ContextOverflowError("too much"), 9: Refused(429, "slower")}
        model = Scripted(refuse=answers.get)
        agent = agent_of(memory, model, LARGE)
        long_talk(agent, 7)
        with pytest.raises(Refused, match="slower"):
            ask(agent, 7)
        assert len(model.shown) == 9


class TestAsAContextEdit:
    def agent(self, memory, model, config=SMALL, **options):
        own = CompactionMiddleware(memory, Summarizer(), config, **options)
        return create_agent(
            model, [], middleware=[ContextEditingMiddleware(edits=[own])], checkpointer=memory.checkpointer
        )

    @pytest.mark.parametrize("awaited", [False, True])
    async def test_it_puts_the_view_in_the_place_of_the_messages(self, memory, awaited):
        model = Scripted()
        agent = self.agent(memory, model)
        for turn in range(20):
            await aask(agent, turn) if awaited else ask(agent, turn)
            assert COUNTER.count(model.shown[-1]) <= 1_000
        assert len(questions(agent.get_state(on()).values["messages"])) == 20
        assert len(questions(memory.conversation("t").messages)) == 20, "the thread is that of the run"

    def test_by_hand_it_changes_the_list_and_no_message(self, memory):
        history = [each for turn in range(12) for each in (question(turn), AIMessage(f"answer {TALK}", id=f"a-{turn}"))]
        messages, before = list(history), deepcopy(history)
        CompactionMiddleware(memory, Summarizer(), SMALL).apply(messages, count_tokens=len)
        assert len(messages) < len(history)
        assert messages[0] is history[0]
        assert messages[-1] is history[-1]
        assert history == before
        nothing: list[Any] = []
        CompactionMiddleware(memory, Summarizer(), SMALL).apply(nothing, count_tokens=len)
        assert nothing == []


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

    async def test_are_usable_when_awaited(self, memory):
        def script(messages):
            last = messages[-1]
            return calling("expand", id="q-0") if "whole" in last.text else "Yes."

        agent = agent_of(memory, Scripted(script), LARGE, offered=True)
        await aask(agent, 0)
        await aask(agent, 1)
        state = await agent.ainvoke({"messages": [HumanMessage("Show me the first one whole.")]}, on())
        assert "question-000" in state["messages"][-2].text

    def test_are_not_offered_where_nobody_wants_them(self, memory):
        model = Scripted()
        ask(agent_of(memory, model, tools=[count]), 0)
        assert model.offered == [["count"]]


class TestWhatItTells:
    @pytest.mark.parametrize(("config", "limit"), [(SMALL, None), (LARGE, 1_500)], ids=["budget", "refusal"])
    def test_hooks_hear_of_every_compaction(self, url, clock, config, limit):
        events = []
        with AgentMemory(url, clock=clock, hooks=[events.append]) as memory:
            own = CompactionMiddleware(memory, Summarizer(), config, tools=False)
            agent = create_agent(Scripted(limit=limit), [], middleware=[own], checkpointer=memory.checkpointer)
            long_talk(agent, 15)
        told = [event for event in events if isinstance(event, CompactionEvent)]
        assert [event.status for event in told[:2]] == ["started", "completed"]
        assert {event.session_id for event in told} == {"t"}
        assert told[1].pre_tokens > 1_000 > told[1].post_tokens > 0
        assert told[1].stages_run


class TestAmongOthers:
    def test_parallel_tools(self, memory):
        def script(messages):
            if messages[-1].type == "tool":
                return "So many."
            return calling("count", "count", "count", key=f"{messages[-1].text[:12]}-", basket="A")

        model = Scripted(script)
        agent = agent_of(memory, model, MIDDLING, tools=[count])
        long_talk(agent, 20)
        assert model.asked
        assert all(not provider_problems(shown) for shown in model.shown)
        assert len([each for each in agent.get_state(on()).values["messages"] if each.type == "tool"]) == 60

    @pytest.mark.slow
    @pytest.mark.parametrize("how", [ToolStrategy, ProviderStrategy])
    def test_structured_answers(self, memory, how):
        class Sum(BaseModel):
            apples: int

        def script(messages):
            if how is ToolStrategy:
                return calling("Sum", key=f"s{len(messages)}", apples=7)
            return '{"apples": 7}'

        model = Scripted(script)
        agent = agent_of(memory, model, response_format=how(Sum))
        for turn in range(15):
            state = agent.invoke({"messages": [question(turn)]}, on())
            assert state["structured_response"] == Sum(apples=7)
            assert not provider_problems(model.shown[-1])
        assert model.asked

    def test_a_person_in_the_loop(self, memory):
        def script(messages):
            if messages[-1].type == "tool":
                return f"So many. {TALK}"
            return calling("count", key=f"{messages[-1].text[:12]}-", basket="A")

        model = Scripted(script)
        asking = HumanInTheLoopMiddleware(interrupt_on={"count": True})
        agent = agent_of(memory, model, tools=[count], after=[asking])
        for turn in range(8):
            assert agent.invoke({"messages": [question(turn)]}, on())["__interrupt__"]
            decision = {"type": "approve"} if turn % 2 else {"type": "reject", "message": "No."}
            state = agent.invoke(Command(resume={"decisions": [decision]}), on())
            assert state["messages"][-1].text.startswith("So many.")
            assert not provider_problems(model.shown[-1])
        assert model.asked
        assert len(questions(agent.get_state(on()).values["messages"])) == 8

    def test_a_subagent_on_the_thread_of_its_caller(self, memory):
        inner_model = Scripted()
        inner = agent_of(memory, inner_model, checkpointer=None)

        @tool
        def helper(wish: str) -> str:
            """Ask somebody else."""
            return inner.invoke({"messages": [HumanMessage(f"{wish} {TALK * 6}")]})["messages"][-1].text

        def script(messages):
            if messages[-1].type == "tool":
                return "He says so."
            return calling("helper", key=f"{messages[-1].text[:12]}-", wish=messages[-1].text[:12])

        model = Scripted(script)
        agent = agent_of(memory, model, tools=[helper])
        for turn in range(10):
            assert ask(agent, turn)[-1].text == "He says so."
            assert not provider_problems(model.shown[-1])
            assert questions(model.shown[-1])[0] == "question-000"
        assert model.asked
        assert [len(shown) for shown in inner_model.shown] == [1] * 10, "it knows nothing of its caller"

    def test_langchains_own_summarization_that_never_triggers_and_a_list_of_things_to_do(self, memory):
        model = Scripted()
        idle = SummarizationMiddleware(model, trigger=None)
        agent = agent_of(memory, model, middleware=[idle, TodoListMiddleware()])
        long_talk(agent)
        assert model.asked
        assert all(not provider_problems(shown) for shown in model.shown)

    def test_what_is_added_to_the_view_is_not_recorded(self, memory):
        class Reminding(AgentMiddleware):
            def wrap_model_call(self, request, handler):
                return handler(request.override(messages=[*request.messages, HumanMessage("Be quick!")]))

        model = Scripted()
        agent = agent_of(memory, model, after=[Reminding()])
        long_talk(agent, 8)
        assert model.shown[-1][-1].text == "Be quick!"
        assert "Be quick!" not in texts(memory.conversation("t").messages)

    def test_a_refusal_goes_before_retries_and_other_models(self, memory):
        model, other = Scripted(limit=1_500), Scripted(name_="other")
        retry = ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
        agent = agent_of(memory, model, LARGE, middleware=[ModelFallbackMiddleware(other), retry])
        long_talk(agent, 15)
        assert sum(COUNTER.count(shown) > 1_500 for shown in model.shown) == 1
        assert not other.shown

    def test_an_agent_with_no_messages_yet(self, memory):
        model = Scripted()
        agent = agent_of(memory, model, system_prompt="Begin.")
        agent.invoke({"messages": []}, on())
        assert model.shown == [[SystemMessage("Begin.")]]


class TestWithoutLangchain:
    @pytest.mark.slow("in every form")
    def test_the_package_is_importable_and_the_middleware_says_what_to_install(self):
        program = (
            "import sys\n"
            "sys.modules['langchain'] = None\n"
            "import langchain_agentmem\n"
            "try:\n"
            "    import langchain_agentmem.compaction.compaction_middleware\n"
            "except langchain_agentmem.MissingExtra as error:\n"
            "    print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert "pip install 'langchain-agentmem[agents]'" in done.stdout
