"""Each fact of a long conversation is learned, and once: whoever is interrupted, killed, or at it at the same time."""

from __future__ import annotations

import os
import random
import threading

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.lifetime import Attendant
from langchain_agentmem.facts.fact import FactsConfig
from langchain_agentmem.storage import jobs
from tests.facts.scripted import Scripted

from .processes import SHORT, Listener, conversation, hear, known_facts, scripted_facts

KILLS = {"sqlite": 6, "postgres": 3}
"""How many processes are killed; AGENTMEM_KILLS=200 kills more of them."""
SOME = 24
"""Messages, where not all are needed."""
SAID = conversation()
SCRIPT = scripted_facts(SAID)


@pytest.fixture(autouse=True)
def short_leases(monkeypatch):
    monkeypatch.setattr(jobs, "LEASE", SHORT)
    monkeypatch.setattr(jobs, "RENEW", SHORT / 6)


@pytest.fixture(scope="module")
def listeners(tmp_path_factory):
    """Two that hear at the same time."""
    folders = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    with (
        Listener(folders[0], "tests.facts.full.processes") as one,
        Listener(folders[1], "tests.facts.full.processes") as other,
    ):
        yield one, other


def kills(kind):
    return int(os.environ.get("AGENTMEM_KILLS", KILLS[kind]))


def at_once(*functions):
    """Call functions in threads of their own, all at the same moment."""
    start, failures = threading.Barrier(len(functions)), []

    def run(function):
        start.wait()
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - it is told to the test
            failures.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def check(facts, script=SCRIPT):
    """Everything is known as it was told, and nothing waits."""
    assert facts.waiting() == 0
    assert facts.failures() == []
    assert known_facts(facts) == script


class TestTheScript:
    def test_is_worth_it(self):
        """Much is told more than once, much changes and comes back, some of it in one batch."""
        assert len(SAID) == 200
        assert len(SCRIPT) > 150
        assert sum(len(fact[-1]) > 1 for fact in SCRIPT) > 20
        lives = [fact for fact in SCRIPT if fact[1] == "lives in"]
        assert len(lives) > len({fact[:3] for fact in lives}) + 20


class TestAWholeRun:
    @pytest.mark.slow
    def test_knows_exactly_what_was_scripted_and_repeated_changes_nothing(self, memory, raw):
        facts = memory.facts("b", model=Scripted())
        hear(facts, SAID)
        check(facts)
        rows = raw(memory, "select max(id) as last from memory")
        model = Scripted()
        again = memory.facts("b", model=model)
        hear(again, SAID)
        check(again)
        assert model.calls == []
        assert raw(memory, "select max(id) as last from memory") == rows

    @pytest.mark.slow
    def test_is_the_same_when_the_model_fails_again_and_again(self):
        """What failed is learned before what was said after it: else who moved away and back would have stayed away."""
        luck = random.Random(3)

        def fails(before, some):
            if luck.random() < 0.4:
                return luck.choice(["I cannot.", "", None, {"facts": "none"}, '{"facts": [{"message": 1}]}'])
            if luck.random() < 0.3:
                raise ConnectionError("no model")
            return None

        with AgentMemory(":memory:") as memory:
            plain = memory.facts("b")
            for message in SAID:
                plain.add(message)
            facts = memory.facts("b", model=Scripted(meanwhile=fails), settings=FactsConfig(max_attempts=1000))
            while facts.waiting():
                facts.drain()
            assert known_facts(facts) == SCRIPT


class TestAtTheSameTime:
    def test_in_threads_and_in_the_background(self, url):
        """Each with its own memory, as processes have it."""
        with AgentMemory(url) as one, AgentMemory(url) as other:
            hearers = [each.facts("b", model=Scripted()) for each in (one, one, other)]
            at_once(*(lambda facts=facts: hear(facts, SAID[:SOME]) for facts in hearers))
            for facts in hearers:
                check(facts, scripted_facts(SAID[:SOME]))

    @pytest.mark.slow("in every form")
    def test_in_two_processes(self, url, listeners):
        for each in listeners:
            each.begin(url, "b", SOME)
        for each in listeners:
            assert each.heard()
        with AgentMemory(url) as memory:
            check(memory.facts("b"), scripted_facts(SAID[:SOME]))

    def test_without_any_right_to_ask(self, memory, monkeypatch):
        """Two ask about the same messages; what one of them kept the other keeps no more."""
        monkeypatch.setattr(Attendant, "notify", lambda self: None)
        together = threading.Barrier(2)
        rivals = []

        def wait(before, some):
            if before == 0:
                together.wait(60)

        for _ in range(2):
            model = Scripted(meanwhile=wait)
            rivals.append((memory.facts("b", model=model), model))
        said = "Tom | lives in | Oslo\nTom | likes | tea"
        taken = []
        at_once(*(lambda facts=facts: taken.extend(facts.extract_and_update_from_text(said)) for facts, _ in rivals))
        facts = memory.facts("b")
        assert facts.waiting() == 0
        assert {fact.object: len(fact.sources) for fact in facts.history("Tom")} == {"Oslo": 2, "tea": 2}

    def test_a_right_that_is_lost_meanwhile_keeps_nothing_and_drain_waits_for_the_rest(self, memory, raw):
        def lose(before, some):
            if before == 0:
                raw(memory, "update job set owner = 'rival', lease_until = 0")

        plain = memory.facts("b")
        for message in SAID[:SOME]:
            plain.add(message)
        model = Scripted(meanwhile=lose)
        facts = memory.facts("b", model=model)
        facts.drain()
        check(facts, scripted_facts(SAID[:SOME]))
        assert model.texts[0] in model.texts[1:]  # what the first answer said was not kept


class TestKilled:
    @pytest.mark.slow("in every form")
    @pytest.mark.parametrize("kind", ["sqlite", "postgres"])
    def test_at_any_moment_and_begun_again_knows_the_same(self, kind, new_database, listeners):
        url, luck, (listener, _) = new_database(kind), random.Random(11), listeners
        listener.begin(url, "whole", SOME)
        count = listener.heard()
        assert count is not None
        killed = 0
        for number in range(kills(kind)):
            listener.begin(url, f"b{number}", SOME, int((number + luck.random()) * count / kills(kind)))
            killed += listener.heard() is None
            listener.begin(url, f"b{number}", SOME)
            assert listener.heard() is not None
        assert killed > kills(kind) / 2  # with some luck, one came to its end with fewer statements than the first
        with AgentMemory(url) as memory:
            for branch in ("whole", *(f"b{number}" for number in range(kills(kind)))):
                check(memory.facts(branch), scripted_facts(SAID[:SOME]))
            assert memory.admin.verify().problems == ()
