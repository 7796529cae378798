"""User-defined classes in states are restored as with LangGraph's savers, or as plain data when strict."""

from __future__ import annotations

import logging
import re
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import HumanMessage
from langchain_core.runnables import AddableDict
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, Send
from pydantic import BaseModel

from langchain_agentmem import AgentMemory, AgentMemorySaver
from langchain_agentmem.checkpoints import checkpoint_codec
from langchain_agentmem.errors import InvalidInput
from tests.checkpoints import own_classes
from tests.checkpoints.graphs import Line, at, started
from tests.checkpoints.own_classes import (
    CLASSES,
    LISBON,
    OWN,
    Box,
    Trip,
    begin,
    history,
    own_graph,
    own_workflow,
    pending,
    shown,
    snapshot,
)
from tests.support.models import ScriptedModel, calling
from tests.threads.own_store import aes

MODULE = own_classes.__name__


@pytest.fixture
def told(caplog, monkeypatch):
    """Return a function that gives the warnings of a logger since the start of the test."""
    for name in ("_warned_unregistered_types", "_warned_blocked_types"):
        monkeypatch.setattr(jsonplus, name, set())
    checkpoint_codec._warn_of_type.cache_clear()
    for logger in (jsonplus.__name__, checkpoint_codec.__name__):
        caplog.set_level(logging.WARNING, logger)
    return lambda logger: [record.getMessage() for record in caplog.records if record.name == logger]


def stock(**options):
    return SqliteSaver.from_conn_string(":memory:", **options)


class TestStates:
    def test_history_and_pending_writes_match_the_stock_saver(self, url):
        """Compare each step, including pending writes."""
        with AgentMemorySaver.from_conn_string(url) as ours, stock() as theirs:
            given = []
            for saver in (ours, theirs):
                graph = own_graph(saver)
                steps = [graph.invoke({}, at()), pending(saver, at())]
                for answer in (LISBON, OWN["leg"]):
                    steps += [graph.invoke(Command(resume=answer), at()), pending(saver, at())]
                steps += [history(graph, at()), snapshot(graph.get_state(at()))]
                given.append(steps)
            assert shown(given[0]) == shown(given[1])
            end = own_graph(ours).get_state(at()).values
            assert shown({name: end[name] for name in OWN}) == shown(OWN)
            assert shown(end["answer"]) == shown(OWN["leg"])
            assert end["seen"] == shown(OWN | {"seen": shown({"leg": OWN["leg"]})})

    @pytest.mark.sqlite_suffices
    def test_a_custom_serializer_restores_own_classes(self, url):
        for thread, serde in (("given", aes()), ("set afterwards", None)):
            with AgentMemorySaver.from_conn_string(url, serde=serde) as saver:
                saver.serde = EncryptedSerializer.from_pycryptodome_aes(key=b"sixteen bytes ok")
                graph = own_graph(saver)
                begin(graph, at(thread))
                end = graph.invoke(Command(resume=LISBON), at(thread))
                assert shown({name: end[name] for name in OWN}) == shown(OWN)


class TestFunctions:
    def test_task_and_entrypoint_results_keep_their_classes(self, url):
        with AgentMemorySaver.from_conn_string(url) as ours, stock() as theirs:
            given = []
            for saver in (ours, theirs):
                workflow = own_workflow(saver)
                for title in ("one", "two"):
                    workflow.invoke(title, at())
                    waiting = pending(saver, at())
                    end = workflow.invoke(Command(resume=OWN["place"]), at())
                    given.append((waiting, shown(end), snapshot(workflow.get_state(at()))))
            assert given[:2] == given[2:]
            previous, trip, answer, leg = end
            assert type(trip) is Trip
            assert type(previous) is type(leg) is own_classes.Leg
            assert answer == OWN["place"]


class TestAgents:
    def test_an_agents_structured_response_keeps_its_class(self, memory):
        model = ScriptedModel(calling("Trip", title="Portugal", days=[1, 2]))
        agent = create_agent(model, [], response_format=ToolStrategy(Trip), checkpointer=memory.checkpointer)
        agent.invoke({"messages": [("user", "Plan a trip")]}, at())
        memory.checkpointer._codec.forget()
        found = agent.get_state(at()).values["structured_response"]
        assert (type(found), found) == (Trip, Trip(title="Portugal", days=[1, 2]))


def written(saver, **values):
    """Put a checkpoint with some objects."""
    return Line(saver).put(values, source="loop")


def kept(saver):
    return saver.get(at())["channel_values"]


@pytest.mark.sqlite_suffices
class TestWarnings:
    def test_unregistered_classes_are_warned_of_once(self, url, told):
        lines = []
        for opened in (AgentMemorySaver.from_conn_string(url), stock()):
            with opened as saver:
                written(saver, **{name: OWN[name] for name in ("place", "trip", "leg", "several")})
                for _ in range(3):
                    kept(saver)
            lines.append(told(jsonplus.__name__))
            jsonplus._warned_unregistered_types.clear()
        ours, both = lines
        assert ours == both[len(ours) :]
        assert len(ours) == len({"Place", "Mood", "Leg", "Trip", "Colour"})
        assert all("unregistered type" in line for line in ours)

    def test_types_that_are_not_preserved_are_warned_of(self, url, told):
        class Local(BaseModel):
            a: int = 1

        changed = {
            "counter": Counter("ab"),
            "ordered": OrderedDict(a=1),
            "within": {"deep": [(defaultdict(list, a=[1]),)]},
            "deque": deque([1], maxlen=2),
            "local": Local(),
            "box": Box[int](value=1),
        }
        with AgentMemorySaver.from_conn_string(url) as saver:
            for _ in range(3):
                written(saver, **changed, more=Counter())
            back = kept(saver)
        lines = told(checkpoint_codec.__name__)
        names = ("Counter", "OrderedDict", "defaultdict", "deque", "Local", "Box[int]")
        assert [sum(f".{name} come back" in line for line in lines) for name in names] == [1] * len(lines)
        assert (type(back["counter"]), back["deque"].maxlen, back["local"]) == (dict, None, {"a": 1})

    def test_preserved_types_cause_no_warnings(self, url, told):
        values = {
            "plain": [1, 2.5, "text", b"bytes", None, {"a": {1: [True]}}, ("user", "hi")],
            "kept": [deque([1]), {1}, Path("a"), Decimal(1), uuid4(), re.compile("a")],
            "box": Box(value=1),
            "time": datetime.now(UTC),
            "langgraph": [ValueError("x"), HumanMessage("hi").text, Send("a", {}), AddableDict(a=1)],
        }
        with AgentMemorySaver.from_conn_string(url) as saver:
            written(saver, **values, **OWN)
        serde = JsonPlusSerializer(allowed_msgpack_modules=CLASSES)
        with AgentMemorySaver.from_conn_string(url, serde=serde) as saver:
            written(saver, **OWN)
            assert shown(kept(saver)) == shown(OWN)
        assert told(jsonplus.__name__) == told(checkpoint_codec.__name__) == []


@pytest.mark.sqlite_suffices
class TestStrict:
    @pytest.fixture(params=["the saver", "from_conn_string", "the memory"])
    def saver(self, request, url):
        """A strict saver, created in each possible way."""
        if request.param == "the memory":
            with AgentMemory(url, strict=True) as memory:
                yield memory.checkpointer
        elif request.param == "the saver":
            with AgentMemory(url) as memory:
                yield AgentMemorySaver(memory, strict=True)
        else:
            with AgentMemorySaver.from_conn_string(url, strict=True) as saver:
                yield saver

    @pytest.mark.slow
    def test_a_strict_saver_returns_plain_data(self, saver):
        with stock() as theirs:
            theirs.serde = JsonPlusSerializer(allowed_msgpack_modules=None)
            given = []
            for each in (saver, theirs):
                graph = own_graph(each)
                begin(graph, at())
                given.append([history(graph, at()), pending(each, at())])
            assert given[0] == given[1]
        assert kept(saver)["place"] == {"name": "Lisbon", "mood": "glad", "messages": own_classes.SAID}

    @pytest.mark.slow
    def test_with_allowlist_shares_the_database(self, saver):
        allowing = saver.with_allowlist([(MODULE, kind.__name__) for kind in CLASSES])
        assert allowing.database is saver.database
        assert type(allowing) is AgentMemorySaver
        graph = own_graph(allowing)
        begin(graph, at())
        values = graph.get_state(at()).values
        assert shown({name: values[name] for name in OWN}) == shown(OWN)
        assert own_graph(saver).get_state(at()).values["mood"] == "glad"
        assert shown(own_graph(saver.with_allowlist(CLASSES)).get_state(at()).values) == shown(values)

    @pytest.mark.slow("in every form")
    def test_strict_msgpack_variable_makes_the_default_strict(self, url):
        with AgentMemorySaver.from_conn_string(url) as saver:
            begin(own_graph(saver), at())
        script = """
            import sys
            from graphs import at
            from langchain_agentmem import AgentMemorySaver
            from tests.checkpoints.own_classes import OWN, own_graph, shown

            with AgentMemorySaver.from_conn_string(sys.argv[1]) as saver:
                assert saver.get(at())["channel_values"]["mood"] == "glad"
                values = own_graph(saver).get_state(at()).values  # LangGraph allows the classes of the schema
                assert [type(values[name]).__name__ for name in ("place", "trip")] == ["Place", "Trip"]
        """
        with started(script, url, environment={"LANGGRAPH_STRICT_MSGPACK": "true"}) as process:
            process.communicate(timeout=120)
        assert process.returncode == 0

    def test_strict_with_a_serializer_is_rejected(self, url):
        with pytest.raises(InvalidInput, match="strict=True or a serde"):
            AgentMemorySaver(url, serde=JsonPlusSerializer(), strict=True)


class TestImport:
    @pytest.mark.slow
    def test_imported_threads_keep_their_classes(self, url):
        with stock() as theirs, AgentMemorySaver.from_conn_string(url) as ours:
            begin(own_graph(theirs), at())
            ours.import_checkpoints(theirs)
            graph = own_graph(ours)
            assert history(graph, at()) == history(own_graph(theirs), at())
            end = graph.invoke(Command(resume=LISBON), at())
            assert shown({name: end[name] for name in OWN}) == shown(OWN)
