"""Redaction: traces omit or mask content, and keep names and numbers."""

import json
import re

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.hooks import Hooks
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.tracing import Tracing

from .agent import ANSWERS, CONFIG, OWN_WORDS, TURNS, agent
from .trees import walk

CONTENT = ("tea", "Ana", "Lisbon", "sister", "Name one thing only", "bring a gift", *OWN_WORDS[:1], "predicate")
"""Words that stand only in what was said and remembered."""


def quoted(dumped):
    """Which content is quoted; names of tools, steps and experiences are none."""
    return [word for word in CONTENT if re.search(rf"\b{word}\b", dumped)]


def dumped(run):
    return json.dumps(run, default=str)


def all_of(run):
    """Everything that a trace holds of a run, and of what is beneath it."""
    return "\n".join(
        dumped([each.name, each.inputs, each.outputs, each.error, each.extra, each.events, each.tags, each.serialized])
        for each in walk(run)
    )


def highest_of_ours(roots):
    """The steps of memory that are beneath no other."""
    for root in roots:
        if root.name.startswith("memory."):
            yield root
        else:
            yield from highest_of_ours(root.child_runs)


def test_hidden_content_appears_in_no_trace_or_stream(redacted_memory, tmp_path, collector, heard):
    graph = agent(redacted_memory, tmp_path / "experience")
    answers, streamed = [], []
    for turn in TURNS:
        config, said = {**CONFIG, "callbacks": [collector]}, {"messages": [HumanMessage(turn)]}
        for mode, event in graph.stream(said, config, stream_mode=["custom", "values"]):
            if mode == "custom":
                streamed.append(event)
            else:
                answers.append(event["messages"][-1].text)

    assert [answer for answer in answers if answer in ANSWERS] == [*ANSWERS]
    shown = list(highest_of_ours(collector.roots))
    assert len(shown) > 20
    assert [quoted(all_of(run)) for run in shown] == [[]] * len(shown)
    assert {run.name[:7] for each in shown for run in walk(each)} == {"memory."}  # no model's own runs
    assert quoted(dumped(streamed)) == []
    steps = [event for event in heard if type(event).__name__.startswith("Step")]
    assert len(steps) > 20
    assert quoted(dumped(list(map(str, steps)))) == []


def searched(tracing, config, text="Ana lives in Lisbon.", error=None):
    """A search that shows a bit of everything."""
    options = {"query": text, "limit": 3, "kinds": ["fact"], "thread_id": "t1", "tags": [text]}
    with tracing.step("memory.store.search", run_type="retriever", inputs=lambda: options, config=config) as step:
        if error is not None:
            raise error
        document = {"id": "m1", "page_content": text, "metadata": {"kind": "fact", "score": 0.5, "why": text}}
        step.finish(lambda: {"documents": [document]})


class TestValues:
    @pytest.mark.parametrize(
        ("content", "told"),
        [
            (False, "<20 characters>"),
            (lambda text: text.upper(), "ANA LIVES IN LISBON."),
            (True, "Ana lives in Lisbon."),
        ],
    )
    def test_texts_are_redacted_and_names_and_numbers_kept(self, collector, tracer_config, heard, content, told):
        searched(Tracing(Hooks([heard.append]), {"agentmem_database": "sqlite"}, content=content), tracer_config)

        (run,) = collector.roots
        assert run.inputs == {"query": told}
        where = {"agentmem_database": "sqlite", "limit": 3, "kinds": ["fact"], "thread_id": "t1"}
        assert run.extra["metadata"] == {**where, "tags": [told]}
        (document,) = run.outputs["documents"]
        assert (document.id, document.page_content) == ("m1", told)
        assert document.metadata == {"kind": "fact", "score": 0.5, "why": told}
        assert [event.inputs["query"] for event in heard] == [told] * 2

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            (False, "<38 characters>"),
            (lambda text: text.replace("Ana", "***"), '{"status": "*** is ill", "user_id": 7}'),
        ],
    )
    def test_user_values_are_redacted_whatever_their_keys(self, collector, tracer_config, content, told):
        value = {"status": "Ana is ill", "user_id": 7}
        with Tracing(content=content).step(
            "memory.store.put", inputs=lambda: {"namespace": ("ada",), "value": value}, config=tracer_config
        ) as step:
            step.finish(lambda: {"value": [value], "status": "stored"})

        (run,) = collector.roots
        assert run.inputs == {"namespace": ["ada"], "value": told}
        assert run.outputs["status"] == "stored"
        assert "Ana" not in str(run.outputs)

    def test_item_keys_are_redacted_in_puts_and_searches(self, redacted_memory, collector, heard):
        def put_and_find(_):
            redacted_memory.store.put(("ada",), "Ana", {"text": "tea of Lisbon"})
            assert redacted_memory.store.search(("ada",), query="tea")[0].key == "Ana"
            assert redacted_memory.search("tea", namespace=("ada",))[0].id == "Ana"
            assert "Lisbon" in str(redacted_memory.inject().invoke("tea", CONFIG))

        RunnableLambda(put_and_find).invoke(None, {"callbacks": [collector]})

        (found,) = collector.run("memory.store.search").outputs["documents"]
        assert (found.id, found.metadata["id"], found.metadata["kind"]) == ("<3 characters>", "<3 characters>", "item")
        assert [quoted(all_of(run)) for run in collector.ours()] == [[]] * len(collector.ours())
        assert quoted(repr(heard)) == []

    def test_error_messages_are_redacted(self, collector, tracer_config, heard, caplog):
        mine = InvalidInput("Ana is no namespace.")
        mine.__cause__ = KeyError("Ana")
        with pytest.raises(InvalidInput) as raised:
            searched(Tracing(Hooks([heard.append]), content=False), tracer_config, error=mine)

        assert raised.value is mine
        assert "InvalidInput: <20 characters>" in collector.roots[0].error
        assert str(heard[-1].error) == "InvalidInput: <20 characters>"
        assert "Ana" not in collector.roots[0].error + repr(heard[-1]).replace("Ana lives in", "") + caplog.text

    def test_failing_redaction_function_leaks_nothing(self, collector, tracer_config, heard, caplog):
        def fail(text):
            raise ValueError(f"cannot mask {text}")

        tracing = Tracing(Hooks([heard.append]), {"agentmem_database": "sqlite"}, content=fail)
        searched(tracing, tracer_config)
        with pytest.raises(InvalidInput):
            searched(tracing, tracer_config, error=InvalidInput("Ana is no namespace."))

        good, failed = collector.roots
        assert (good.inputs, good.outputs) == ({"query": ""}, {"documents": []})
        assert "InvalidInput" in failed.error
        assert good.extra["metadata"]["agentmem_database"] == "sqlite"
        assert "cannot be shown" not in caplog.text
        everything = all_of(good) + all_of(failed) + "".join(map(repr, heard)) + caplog.text
        assert quoted(everything) == []
        assert caplog.text.count("Tracing failed") == 3

    def test_invalid_trace_content_is_refused(self):
        for content in (None, "no", 1, 0):
            with pytest.raises(InvalidInput, match="trace_content must be a valid boolean or be callable"):
                AgentMemory(trace_content=content)
