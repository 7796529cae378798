"""The selector in chains: it streams, batches, is awaited, keeps config and callbacks, and traces show what it did."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig, RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tracers.base import BaseTracer

from langchain_agentmem import AgentMemory, Experience, InvalidInput
from langchain_agentmem.base.events import StepFinished
from langchain_agentmem.experiences.experience import section
from langchain_agentmem.messages.message_marks import is_injected

from .conftest import CHARTS, FILES, LOAD, PLOT, REFUNDS, WEATHER, Picky

pytestmark = pytest.mark.sqlite_suffices

STEP = "memory.experience.select"
PROMPT = ChatPromptTemplate([("system", "Be kind.\n{experiences}"), ("user", "{input}")])
QUERIES = [PLOT, LOAD, WEATHER]
EXPECTED = [section([CHARTS]), section([FILES]), ""]


class Recorder(BaseTracer):
    """Keeps the trees of runs."""

    def __init__(self):
        super().__init__()
        self.trees = []

    def _persist_run(self, run):
        self.trees.append(run)

    def named(self, name):
        return [run for tree in self.trees for run in below(tree) if run.name == name]


def below(run):
    return [run, *(each for child in run.child_runs for each in below(child))]


def path_to(tree, run):
    """The names from the root down to a run."""
    if tree is run:
        return [run.name]
    return next(([tree.name, *path] for child in tree.child_runs if (path := path_to(child, run))), [])


class Echo(GenericFakeChatModel):
    """Says what it is shown, word by word when it is streamed."""

    def __init__(self, **fields):
        super().__init__(messages=iter(()), **fields)

    def _generate(self, messages, stop=None, run_manager=None, **options):
        self.messages = iter([AIMessage("\n".join(message.text for message in messages))])
        return super()._generate(messages, stop, run_manager, **options)


def said(query, expected):
    return f"Be kind.\n{expected}\n{query}"


@pytest.fixture
def chain(library):
    return library.selector() | PROMPT | Echo() | StrOutputParser()


class TestEveryWayToRun:
    async def test_one_and_many_waiting_and_awaited(self, chain):
        given = [{"input": query} for query in QUERIES]
        expected = [said(*each) for each in zip(QUERIES, EXPECTED, strict=True)]
        assert [chain.invoke(each) for each in given] == expected
        assert [await chain.ainvoke(each) for each in given] == expected
        assert chain.batch(given) == expected
        assert await chain.abatch(given, {"max_concurrency": 2}) == expected
        assert dict(chain.batch_as_completed(given)) == dict(enumerate(expected))

    async def test_what_comes_after_it_is_streamed(self, chain):
        chunks = list(chain.stream({"input": PLOT}))
        assert len(chunks) > 5
        assert "".join(chunks) == said(PLOT, EXPECTED[0])
        assert "".join([chunk async for chunk in chain.astream({"input": PLOT})]) == said(PLOT, EXPECTED[0])

    async def test_alone_it_streams_what_it_gives(self, library):
        selector = library.selector()
        for given in (PLOT, [HumanMessage(PLOT, id="q")], {"input": PLOT}, {"messages": [HumanMessage(PLOT, id="q")]}):
            assert list(selector.stream(given)) == [selector.invoke(given)]
            assert [each async for each in selector.astream(given)] == [selector.invoke(given)]

    def test_what_is_streamed_to_it_is_read_to_its_end(self, library):
        def words(_):
            yield from ("Draw a ", "chart ", "or plot")

        [found] = (RunnableLambda(words) | library.selector()).stream("x")
        assert found == f"{EXPECTED[0]}\n\nDraw a chart or plot"

    async def test_events_tell_of_it(self, chain):
        names = [event["name"] async for event in chain.astream_events({"input": PLOT}, version="v2")]
        assert "ExperienceSelector" in names
        assert STEP in names

    def test_failures_in_a_batch_are_each_ones_own(self, library):
        found = library.selector().batch([PLOT, 3, WEATHER], return_exceptions=True)
        assert isinstance(found[1], InvalidInput)
        assert [found[0], found[2]] == [f"{EXPECTED[0]}\n\n{PLOT}", WEATHER]


class TestAnyPlaceInAChainOfThree:
    """A prompt, a model and a parser, and the selector before, between and behind them."""

    def chains(self, selector):
        prompt, model, parser = (
            ChatPromptTemplate([("system", "Be kind."), ("user", "{input}")]),
            Echo(),
            StrOutputParser(),
        )
        return {
            "first": selector | PROMPT | model | parser,
            "second": prompt | selector | model | parser,
            "third": prompt | model | selector | RunnableLambda(lambda found: found[0].content),
            "last": prompt | model | parser | selector,
        }

    @pytest.mark.parametrize("place", ["first", "second", "third", "last"])
    async def test_it_works(self, library, place):
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

    @pytest.mark.parametrize("place", ["first", "second", "third", "last"])
    def test_config_and_callbacks_reach_what_comes_after_it(self, library, place):
        seen, tracer = [], Recorder()

        def look(given, config: RunnableConfig):
            seen.append((config["metadata"]["who"], config["tags"], config["configurable"]["key"]))
            return given

        query = None if place != "third" else lambda given: given.text
        chain = self.chains(library.selector(query=query))[place] | RunnableLambda(look)
        config = {"tags": ["mine"], "metadata": {"who": "Ada"}, "configurable": {"key": 7}, "callbacks": [tracer]}
        chain.invoke({"input": PLOT}, config)
        assert seen == [("Ada", ["mine"], 7)]
        [run] = tracer.named("ExperienceSelector")
        assert run.metadata["who"] == "Ada"
        assert "mine" in run.tags

    @pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory")
    def test_in_a_history_only_what_was_said_is_kept(self, memory, filled):
        seen = []
        selector = memory.experiences(filled.path).selector(rounds=0)
        chain = selector | RunnableLambda(lambda context: seen.append(context) or AIMessage("done"))
        talk = RunnableWithMessageHistory(chain, memory.conversation)
        for query in QUERIES:
            talk.invoke([HumanMessage(query)], {"configurable": {"session_id": "s"}})
        assert [sum(map(is_injected, context)) for context in seen] == [1, 1, 0]
        assert [message.type for message in memory.conversation("s").messages] == ["human", "ai"] * 3


class TestInOtherRunnables:
    def test_beside_others(self, library):
        both = RunnableParallel(text=library.selector(), rules=library.selector(alone=True), same=RunnablePassthrough())
        assert both.invoke(PLOT) == {"text": f"{EXPECTED[0]}\n\n{PLOT}", "rules": EXPECTED[0], "same": PLOT}

    async def test_assigned(self, library):
        chain = RunnablePassthrough.assign(rules=library.selector(alone=True))
        assert chain.invoke({"input": PLOT, "n": 1}) == {"input": PLOT, "n": 1, "rules": EXPECTED[0]}
        assert await chain.ainvoke({"input": WEATHER}) == {"input": WEATHER, "rules": ""}
        assert (chain | (lambda given: given["rules"])).invoke({"input": PLOT}) == EXPECTED[0]

    def test_with_a_config_of_its_own(self, library):
        tracer = Recorder()
        selector = library.selector().with_config(run_name="rules", tags=["mine"], callbacks=[tracer])
        selector.invoke(PLOT)
        [tree] = tracer.trees
        assert (tree.name, tree.tags) == ("rules", ["mine"])

    def test_tried_again(self, library, monkeypatch):
        left = [RuntimeError("once"), RuntimeError("twice")]
        look = library.folders.look

        def failing(sub_path=None):
            if left:
                raise left.pop()
            return look(sub_path)

        monkeypatch.setattr(library.folders, "look", failing)
        retried = library.selector().with_retry(stop_after_attempt=3, wait_exponential_jitter=False)
        assert retried.invoke(PLOT) == f"{EXPECTED[0]}\n\n{PLOT}"

    def test_fallbacks_listeners_and_types(self, library):
        heard = []
        selector = library.selector().with_listeners(on_end=lambda run: heard.append(run.outputs["output"]))
        assert heard == [selector.invoke(PLOT)]
        safe = library.selector().with_fallbacks([RunnableLambda(lambda given: "fallback")])
        assert safe.invoke(3) == "fallback"
        assert library.selector().get_name() == "ExperienceSelector"
        assert (library.selector() | PROMPT).get_graph().nodes
        assert library.selector().map().invoke([PLOT, WEATHER])[1] == WEATHER

    def test_keywords_that_are_not_for_it_do_no_harm(self, library):
        assert library.selector().bind(stop=["x"]).invoke(WEATHER) == WEATHER


class TestTraces:
    @pytest.mark.parametrize("asynchronous", [False, True])
    async def test_what_was_done_stands_beneath_the_callers_run(self, library, asynchronous):
        tracer = Recorder()
        said = '{"charts": {"relevant": true, "reason": "it is a chart"}, "files": false}'
        selector = library.selector(role="Planner", model=Picky(lambda messages: said))
        chain = (selector | PROMPT | Echo()).with_config(run_name="mine")
        config = {"callbacks": [tracer], "metadata": {"who": "Ada"}}
        await chain.ainvoke({"input": PLOT}, config) if asynchronous else chain.invoke({"input": PLOT}, config)
        [tree] = tracer.trees
        [step] = tracer.named(STEP)
        assert path_to(tree, step) == ["mine", "ExperienceSelector", STEP]
        assert step.inputs == {"query": PLOT, "role": "Planner", "strategy": "model", "namespace": []}
        assert [each["exp_id"] for each in step.outputs["candidates"]] == ["charts", "refunds"]
        [chosen] = step.outputs["chosen"]
        assert (chosen["exp_id"], chosen["reason"]) == ("charts", "it is a chart")
        assert step.outputs["asked_ids"] == ["charts", "refunds"]
        assert step.extra["metadata"]["who"] == "Ada"
        [asked] = tracer.named("memory.experience.choose")
        assert path_to(tree, asked) == ["mine", "ExperienceSelector", STEP, "memory.experience.choose"]
        assert [run.run_type for run in asked.child_runs] == ["llm"]
        assert asked.extra["metadata"]["who"] == "Ada"
        assert step.error is None

    def test_reasons_are_told_without_a_model_too(self, library):
        tracer = Recorder()
        library.selector().invoke(PLOT, {"callbacks": [tracer]})
        [step] = tracer.named(STEP)
        assert "chart" in step.outputs["chosen"][0]["reason"]
        assert {"exp_id": "refunds", "score": 0} in step.outputs["candidates"]
        assert "fell_back" not in step.outputs

    def test_a_fallback_is_told(self, library):
        tracer = Recorder()
        library.selector(model=Picky(ValueError("no"))).invoke(PLOT, {"callbacks": [tracer]})
        [step] = tracer.named(STEP)
        assert step.outputs["fell_back"] == "The model failed: ValueError."
        [asked] = tracer.named("memory.experience.choose")
        assert "ValueError" in asked.error

    @pytest.mark.parametrize("asynchronous", [False, True])
    async def test_the_config_given_to_select_counts(self, library, asynchronous):
        tracer = Recorder()
        selector = library.selector(model=Picky(["charts"]))
        config = {"callbacks": [tracer], "tags": ["mine"], "metadata": {"who": "Ada"}}
        await selector.aselect(PLOT, config=config) if asynchronous else selector.select(PLOT, config=config)
        [tree] = tracer.trees
        assert tree.name == STEP
        assert [run.name for run in tree.child_runs] == ["memory.experience.choose"]

    def test_hooks_are_told(self, filled):
        events = []
        with AgentMemory(":memory:", hooks=[events.append]) as memory:
            memory.experiences(filled.path).selector().invoke(PLOT)
        [step] = [event for event in events if isinstance(event, StepFinished) and event.name == STEP]
        assert [each["exp_id"] for each in step.outputs["chosen"]] == ["charts"]

    def test_one_that_is_off_shows_no_step(self, library):
        tracer = Recorder()
        library.selector(enabled=False).invoke(PLOT, {"callbacks": [tracer]})
        assert tracer.named(STEP) == []

    def test_handlers_hear_begin_and_end(self, library):
        heard = []

        class Handler(BaseCallbackHandler):
            def on_chain_start(self, serialized, inputs, **more):
                heard.append(("start", more.get("name")))

            def on_chain_end(self, outputs, **more):
                heard.append(("end", type(outputs).__name__))

            def on_chain_error(self, error, **more):
                heard.append(("error", type(error).__name__))

        library.selector().invoke(PLOT, {"callbacks": [Handler()]})
        assert (heard[0], heard[-1]) == (("start", "ExperienceSelector"), ("end", "str"))
        heard.clear()
        with pytest.raises(InvalidInput):
            library.selector().invoke(3, {"callbacks": [Handler()]})
        assert heard == [("start", "ExperienceSelector"), ("error", "InvalidInput")]


class TestManyAtOnce:
    def test_threads(self, memory, filled):
        picky = Picky(lambda messages: '["charts"]' if "chart" in messages[1].text else "[]")
        library = memory.experiences(filled.path)
        selector = library.selector(model=picky)
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(selector.invoke, [PLOT, WEATHER, f"{PLOT} again", "nothing"] * 12))
        assert [CHARTS.what in each for each in found] == [True, False, True, False] * 12
        [charts, *_] = library.report()
        assert (charts.tally.considered, charts.tally.chosen) == (48, 24)

    async def test_tasks(self, memory, filled):
        async def pick(messages):
            await asyncio.sleep(0)
            return '["charts"]' if "chart" in messages[1].text else "[]"

        library = memory.experiences(filled.path)
        selector = library.selector(model=pick)
        found = await asyncio.gather(*(selector.ainvoke(query) for query in [PLOT, WEATHER] * 12))
        assert [CHARTS.what in each for each in found] == [True, False] * 12
        [charts, *_] = await library.areport()
        assert (charts.tally.considered, charts.tally.chosen) == (24, 12)

    async def test_within_a_loop_those_who_wait_may_ask_an_awaited_model(self, library):
        async def pick(messages):
            await asyncio.sleep(0)
            return '["charts"]'

        assert library.selector(model=pick).select(PLOT).ids == ("charts",)

    def test_while_the_folder_is_edited_everybody_sees_one_whole_version(self, quick, shelf):
        words = "Say nothing but this. " * 40
        shelf.write(Experience("charts", (), CHARTS.when, f"0 {words}"), REFUNDS)
        selector = quick.experiences(shelf.path).selector()

        def edit(number):
            new = shelf.put("new", Experience("charts", (), CHARTS.when, f"{number} {words}").to_yaml())
            new.replace(shelf.path / "handcrafted_exp_charts.yaml")

        with ThreadPoolExecutor(3) as pool:
            looking = [pool.submit(selector.select, PLOT) for _ in range(40)]
            for number in range(20):
                edit(number)
            found = [each.result() for each in looking]
        assert all([len(one.what) > len(words) for one in each.experiences] == [True] for each in found)


def test_messages_are_the_same_objects_as_given(library):
    given: list[BaseMessage] = [HumanMessage(PLOT), AIMessage("done"), HumanMessage(PLOT)]
    found = library.selector().invoke(given)
    assert all(one is other for one, other in zip(found[1:], given, strict=True))
