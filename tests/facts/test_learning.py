"""Extraction of facts from pending messages: batches, failures, changes and branches."""

import asyncio
import json
import threading

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.facts import fact_extraction
from langchain_agentmem.facts.fact import FactsConfig
from langchain_agentmem.facts.fact_extraction import MAX_ANSWER_CHARS
from langchain_agentmem.storage import background
from tests.support.models import ScriptedModel

from .scripted import CASES, STYLES, Scripted, told

pytestmark = pytest.mark.sqlite_suffices

TIMEOUT = 60.0


def async_model(script):
    async def answer(messages):
        return script(messages)

    return answer


MODELS = {
    "a function": lambda script: script,
    "an async function": async_model,
    "a runnable": RunnableLambda,
    "a chat model": ScriptedModel,
}


def extracted_in_background(memory, model):
    """The facts of a branch after background extraction."""
    facts = memory.facts("b", model=model)
    assert facts._task.wait(TIMEOUT)
    return facts


def said(facts, *texts, first=0):
    """Add messages."""
    for number, text in enumerate(texts, first):
        facts.add({"role": "user", "content": text, "message_id": f"m{number}"})


def known(facts, subject="Maya"):
    """The facts of a subject, each with its sources."""
    return {(fact.predicate, fact.object): fact.sources for fact in facts.history(subject)}


def learned(memory, model, *texts, **settings):
    """The facts of a branch after extraction from all texts."""
    said(memory.facts("b"), *texts)
    facts = memory.facts("b", model=model, settings=FactsConfig(**settings))
    assert facts.drain() == len(texts)
    assert facts.pending_count() == 0
    return facts


def likes(*things):
    return [f"Maya | likes | {each}" for each in things]


@pytest.mark.usefixtures("alone")
class TestModels:
    @pytest.mark.parametrize("kind", MODELS)
    async def test_model_is_called_once_per_batch(self, here, kind):
        facts = learned(here, MODELS[kind](Scripted()), *likes("tea", "rain"), "Tom | likes | tea")
        assert known(facts) == {("likes", "tea"): ("m0",), ("likes", "rain"): ("m1",)}
        assert known(facts, "Tom") == {("likes", "tea"): ("m2",)}
        assert facts.drain() == facts.pending_count() == 0
        assert facts.failures() == []
        said(here.facts("b"), *likes("figs"), first=3)
        assert await facts.adrain() == 1
        [fact] = await facts.aextract_and_update_from_text("Maya | likes | snow")
        assert (fact.object, fact.role) == ("snow", "user")
        assert await facts.apending_count() == 0
        assert [fact.object for fact in await facts.ahistory("Maya")] == ["tea", "rain", "figs", "snow"]

    def test_model_answers_in_any_format_are_parsed(self):
        for style in STYLES:
            with AgentMemory(":memory:") as here:
                model, plain = Scripted(STYLES[style]), here.facts("b")
                said(plain, *likes("tea"), "Maya | lives in | Oslo | 2024-01-01\nTom | likes | tea", "Hello!")
                facts = here.facts("b", model=model)
                facts.drain()
                assert known(facts) == {("likes", "tea"): ("m0",), ("lives in", "Oslo"): ("m1",)}, style
                assert known(facts, "Tom") == {("likes", "tea"): ("m1",)}, style
                # Of a message that tells nothing, an answer that is cut off says nothing, so it is asked for again.
                assert len(model.calls) == {"unnumbered": 4, "cut off": 5}.get(style, 1), style
                assert facts.pending_count() == (1 if style == "cut off" else 0), style

    def test_truncated_answer_is_retried_message_by_message(self, here):
        """Otherwise the truncated facts would be lost."""
        model = Scripted(meanwhile=lambda _, some: json.dumps(told(some))[:250])
        facts = learned(here, model, *likes(*"abcdef"))
        assert list(map(len, model.calls)) == [6, 1, 1, 1, 1, 1, 1]
        assert known(facts) == {("likes", each): (f"m{n}",) for n, each in enumerate("abcdef")}
        [failure] = facts.failures()
        assert failure.error == "The answer cannot be used: It is cut off."

    def test_without_model_messages_stay_pending_and_searchable(self, memory):
        facts = memory.facts("b")
        said(facts, "Maya lives in Lisbon.")
        assert (facts.drain(), facts.pending_count()) == (0, 1)
        [found] = facts.search("Lisbon")
        assert (found.raw, found.text, found.id) == (True, "Maya lives in Lisbon.", "m0")
        with pytest.raises(InvalidInput, match="pass a model"):
            facts.extract_and_update_from_text("Maya likes tea.")
        assert facts.pending_count() == 1
        for model in (7, object(), ["gpt"]):
            with pytest.raises(InvalidInput, match="is not a model"):
                memory.facts("b", model=model)


class TestAdding:
    def test_add_does_not_block_on_the_model(self, url):
        """While the model hangs, messages can be added and read and the memory closed."""
        hangs, go_on = threading.Event(), threading.Event()

        def hang(before, some):
            hangs.set()
            assert go_on.wait(TIMEOUT)

        with AgentMemory(url) as memory:
            facts = memory.facts("b", model=Scripted(meanwhile=hang))
            said(facts, *likes("tea"))
            assert hangs.wait(TIMEOUT)
            said(facts, *likes(*"abcdef"), first=1)
            facts.add_fact("user", "Maya", "owns", "a boat")
            assert facts.pending_count() == 7
            assert [fact.object for fact in facts.history("Maya")] == ["a boat"]
            assert len(facts.retrieve_all()) == 8
        go_on.set()
        with AgentMemory(url) as memory:  # what it answered came too late, and nothing of it is lost
            facts = memory.facts("b", model=Scripted())
            facts.drain()
            assert len(known(facts)) == 8

    async def test_event_loop_is_not_blocked_by_model(self, here):
        """A blocking model does not stop other tasks."""
        asked, go_on = threading.Event(), threading.Event()

        def wait(before, some):
            asked.set()
            assert go_on.wait(TIMEOUT)

        facts = here.facts("b", model=Scripted(meanwhile=wait))
        learning = asyncio.create_task(facts.aextract_and_update_from_text("Maya | likes | tea"))
        assert await asyncio.to_thread(asked.wait, TIMEOUT)
        go_on.set()
        assert [fact.object for fact in await learning] == ["tea"]

    def test_pending_messages_are_extracted_once_model_exists(self, url):
        with AgentMemory(url) as memory:
            said(memory.facts("b"), *likes("tea"))
        with AgentMemory(url) as memory:
            facts = extracted_in_background(memory, Scripted())
            assert known(facts) == {("likes", "tea"): ("m0",)}

    def test_repeated_message_is_added_once(self, memory):
        model = Scripted()
        facts = memory.facts("b", model=model)
        for _ in range(3):
            said(facts, *likes("tea"))
            facts.drain()
        assert len(model.calls) == 1
        assert known(facts) == {("likes", "tea"): ("m0",)}
        with pytest.raises(MessageError, match="Another message has the id 'm0'"):
            said(facts, *likes("rain"))
        for content in ("", "  \n", None):  # which says nothing
            facts.add(role="user", content=content)
        assert facts.pending_count() == 0


@pytest.mark.usefixtures("alone")
class TestBatches:
    def test_batches_are_limited_by_count_and_size(self, here, monkeypatch):
        learned(here, model := Scripted(), *likes(*map(str, range(20))))
        assert list(map(len, model.calls)) == [8, 8, 4]
        assert [text for texts in model.texts for text in texts] == likes(*map(str, range(20)))
        monkeypatch.setattr(fact_extraction, "MAX_BATCH_CHARS", 100)
        texts = ["x" * 40, "y" * 40, "z" * 40, "w"]
        with AgentMemory(":memory:") as other:
            learned(other, model := Scripted(), *texts)
        assert model.texts == [texts[:2], texts[2:]]

    def test_invalid_settings_are_rejected(self):
        for settings in CASES["wrong settings"]:
            with pytest.raises(InvalidInput):
                FactsConfig(**settings)


NONSENSE = {
    "It is empty.": ["", None, AIMessage("")],
    "It contains no JSON object with facts.": ["Maya seems to like tea.", 42, "I cannot help with that."],
    "It is cut off.": ["```json\n{", "{" * 2_000, '{"facts": [{"subject": "Maya", "pred'],
    "Fact 1: The subject of a fact must be text": [{}, {"facts": "none"}],
    "Fact 1: it is not an object": ['[["Maya", "likes"]]'],
}


def failing(memory, model, *texts, **settings):
    """The facts of a branch after failed extraction from all texts."""
    said(memory.facts("b"), *texts)
    facts = memory.facts("b", model=model, settings=FactsConfig(**settings))
    assert facts.drain() == 0
    assert facts.pending_count() == len(texts)
    return facts


@pytest.mark.usefixtures("alone")
class TestFailures:
    def test_unusable_answers_are_recorded_and_messages_parked(self):
        for what, answer in ((what, each) for what, answers in NONSENSE.items() for each in answers):
            model = Scripted(lambda _, answer=answer: answer)
            with AgentMemory(":memory:") as memory:
                facts = failing(memory, model, *likes("tea"))
                assert (len(model.calls), known(facts)) == (3, {}), answer
                failures = facts.failures()
            assert [failure.message_ids for failure in failures] == [("m0",)] * 3, answer
            assert all(each.error.startswith(f"The answer cannot be used: {what}") for each in failures), answer
            assert not isinstance(answer, str) or failures[0].answer == answer[:MAX_ANSWER_CHARS], answer

    def test_model_exceptions_are_recorded(self):
        for error in (ConnectionError("no route"), KeyError("x"), RecursionError(), MemoryError()):
            with AgentMemory(":memory:") as memory:
                facts = failing(memory, ScriptedModel(error).reply, *likes("tea"))
                failures = facts.failures()
                assert len(failures) == 2
                assert failures[0].error == f"The model gave no answer: {type(error).__name__}: {error}"
                assert known(facts) == {}
                assert facts.retrieve_by_id("m0") is not None

    @pytest.mark.parametrize("kind", ["a function", "an async function"])
    def test_hanging_model_times_out(self, here, kind):
        over = threading.Event()
        script = Scripted(meanwhile=lambda *_: over.wait(TIMEOUT) and None)
        try:
            facts = failing(here, MODELS[kind](script), *likes("tea"), timeout=0.02)
        finally:
            over.set()
        assert all("TimeoutError" in failure.error for failure in facts.failures())

    def test_failed_messages_are_retried_before_later_ones(self, here, monkeypatch):
        """Otherwise a value that changed and came back would be lost."""
        monkeypatch.setattr(fact_extraction, "MAX_BATCH_MESSAGES", 1)
        towns = ["Oslo", "Rome", "Oslo"]
        said(here.facts("b"), *(f"Maya | lives in | {town} | 2024-0{n}-01" for n, town in enumerate(towns, 1)))
        model = Scripted(meanwhile=lambda before, some: "no" if before in {1, 2} else None)
        facts = here.facts("b", model=model)
        facts.drain()
        assert [fact.object for fact in facts.history("Maya")] == towns
        assert [fact.sources for fact in facts.as_of(subject="Maya")] == [("m2",)]

    def test_only_the_latest_failures_are_kept(self, here, monkeypatch):
        monkeypatch.setattr(fact_extraction, "MAX_BATCH_MESSAGES", 1)
        monkeypatch.setattr(fact_extraction, "MAX_FAILURES", 10)
        facts = failing(here, Scripted(lambda _: "no"), *likes(*"abcdefgh"), max_attempts=2)
        failures = facts.failures()
        assert (len(failures), failures[-1].message_ids) == (10, ("m7",))
        assert facts.failures(2) == failures[-2:]
        assert facts.failures(0) == []

    def test_drain_retries_parked_messages(self, here):
        model = Scripted(lambda _: "no")
        facts = failing(here, model, *likes("tea"), max_attempts=1)
        assert len(model.calls) == 1
        model.style = STYLES["json"]
        assert facts.drain() == 1
        assert known(facts) == {("likes", "tea"): ("m0",)}


def test_background_extraction_is_retried_after_failure(here, monkeypatch):
    monkeypatch.setattr(background, "backoff", lambda *_: 0.01)
    said(here.facts("b"), *likes("tea"))

    def fail_at_first(before, some):
        if before < 2:
            raise ConnectionError("busy")

    facts = extracted_in_background(here, Scripted(meanwhile=fail_at_first))
    assert known(facts)
    assert len(facts.failures()) == 2


@pytest.mark.usefixtures("alone")
class TestChangedMessages:
    @pytest.mark.parametrize("change", ["removed", "changed"])
    def test_message_changed_during_extraction_uses_new_text(self, memory, change):
        plain = memory.facts("b")
        said(plain, *likes("tea", "rain"))

        def meanwhile(before, some):
            if before == 0:
                plain.remove_by_id("m0") if change == "removed" else plain.update("m0", content="Maya | likes | opera")

        facts = memory.facts("b", model=(model := Scripted(meanwhile=meanwhile)))
        facts.drain()
        assert (facts.pending_count(), facts.failures()) == (0, [])
        more = {("likes", "opera"): ("m0",)} if change == "changed" else {}
        assert known(facts) == {("likes", "rain"): ("m1",)} | more
        assert model.texts[1:] == [likes("opera")] * len(more)

    def test_updated_message_is_extracted_again(self, memory):
        facts = memory.facts("b", model=Scripted())
        said(facts, *likes("tea", "tea"), "Maya | lives in | Oslo | 2024-01-01", "Maya | lives in | Rome | 2024-02-01")
        facts.drain()
        facts.update("m0", content="Maya | likes | rain")
        facts.update("m3", content="Maya | owns | a house in Rome")
        facts.drain()
        assert known(facts) == {
            ("likes", "tea"): ("m1",), ("likes", "rain"): ("m0",),
            ("lives in", "Oslo"): ("m2",), ("owns", "a house in Rome"): ("m3",),
        }  # fmt: skip
        assert next(fact for fact in facts.history("Maya", "lives in")).valid_to is None  # nothing ended it


@pytest.mark.usefixtures("alone")
class TestBranches:
    def test_models_see_only_their_own_branch(self, memory):
        one, two = Scripted(), Scripted()
        for branch, namespace, model in (("b", None, one), ("c", None, two), ("b", ("them",), two)):
            facts, text = memory.facts(branch, namespace, model), f"{branch} of {namespace}"
            said(facts, f"Maya | likes | {text}")
            facts.drain()
            assert list(known(memory.facts(branch, namespace))) == [("likes", text)]
        assert one.texts == [["Maya | likes | b of None"]]
        assert two.texts == [["Maya | likes | c of None"], ["Maya | likes | b of ('them',)"]]

    def test_pending_messages_are_extracted_on_both_forks(self, memory):
        plain = memory.facts("b")
        said(plain, *likes("tea"))
        fork = plain.fork("f")
        said(plain, *likes("rain"), first=1)
        said(fork, *likes("opera"), first=2)
        for branch in ("b", "f"):
            memory.facts(branch, model=Scripted()).drain()
        assert known(plain) == {("likes", "tea"): ("m0",), ("likes", "rain"): ("m1",)}
        assert known(fork) == {("likes", "tea"): ("m0",), ("likes", "opera"): ("m2",)}
        assert plain.pending_count() == fork.pending_count() == 0


@pytest.mark.usefixtures("alone")
def test_secrets_are_redacted_from_facts(here):
    facts = learned(here, Scripted(), "Maya | has the key | sk-abcdefghijklmnopqrstuvwxyz123456")
    [fact] = facts.history("Maya")
    assert "sk-" not in fact.object


def test_immediate_extraction_calls_the_model_once(here):
    """The background task skips such texts."""
    model = Scripted()
    facts = here.facts("b", model=model)
    for number in range(20):
        facts.extract_and_update_from_text(f"Maya | likes | tea {number}")
    assert list(map(len, model.calls)) == [1] * 20
