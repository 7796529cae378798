"""The MARSYS interface of facts: adding, retrieving, updating and saving."""

import json
import threading
from datetime import UTC, datetime
from functools import partial

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem.base.events import MemoryResetEvent
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.messages.message import Message

from .scripted import Scripted

DESCRIPTION = {"role": "system", "content": "You are a helpful assistant."}
PARIS = "Paris | is capital of | France"


def day(month, number=1):
    return datetime(2024, month, number, tzinfo=UTC)


def contents(dicts):
    return [each["content"] for each in dicts]


def filled(memory, **options):
    """Two messages and two facts."""
    facts = memory.facts("b", **options)
    facts.add({"role": "user", "content": "one", "message_id": "m1"})
    facts.add_fact("user", "Maya", "likes", "tea")
    facts.add({"role": "assistant", "content": "two", "message_id": "m2"})
    facts.add_fact("assistant", "Maya", "likes", "rain")
    return facts


ORDER = ["one", "Fact (user): Maya likes tea.", "two", "Fact (assistant): Maya likes rain."]


@pytest.mark.sqlite_suffices
class TestCreation:
    def test_unsupported_creation_options_are_rejected(self, here):
        with pytest.raises(InvalidInput, match="'kg' memory"):
            here.create("kg", threshold=3)
        with pytest.raises(InvalidInput):
            here.create("kg", description=7)

    def test_description_comes_first_and_is_stored_lazily(self, memory):
        facts = memory.facts("b", description=DESCRIPTION["content"])
        assert facts.retrieve_all() == [DESCRIPTION]
        assert memory.facts("b").retrieve_all() == []
        facts.add(role="user", content="one")
        assert contents(memory.facts("b").retrieve_all()) == [DESCRIPTION["content"], "one"]
        memory.facts("b", description="Another").add(role="user", content="two")
        assert contents(memory.facts("b").retrieve_all()) == ["Another", "one", "two"]


@pytest.mark.sqlite_suffices
class TestAdding:
    def test_add_returns_the_id_for_retrieval(self, memory):
        facts, hello = memory.facts("b"), {"role": "user", "content": "hello"}
        given = (hello, Message(**hello, message_id="mine"), HumanMessage("hello", id="theirs"), hello)
        ids = [facts.add(each) for each in given]
        assert len(set(ids)) == 4
        assert ids[1:3] == ["mine", "theirs"]
        for each in ids:
            assert facts.retrieve_by_id(each) == hello
            assert facts.retrieve_by_id(each, include_ids=True)["message_id"] == each
        assert facts.retrieve_by_id("nobody") is None

    def test_all_message_fields_are_retrieved(self, here):
        facts, chat = here.facts("b"), here.conversation("c")
        call = {"id": "1", "call_id": "c1", "type": "function", "name": "look", "arguments": "{}"}
        said = {"role": "assistant", "content": {"thought": "hm"}, "name": "Ann", "tool_calls": [call]}
        assert facts.retrieve_by_id(facts.add(**said)) == chat.retrieve_by_id(chat.add(**said))
        result = facts.add(role="tool", content="42", name="look", tool_call_id="c1")
        assert facts.retrieve_by_id(result)["tool_call_id"] == "c1"
        for given in ({}, {"content": "x"}, {"message": 7}, {"message": {"content": "no role"}}):
            with pytest.raises(MessageError):
                facts.add(**given)
        assert len(facts.retrieve_all()) == 2


class TestRetrieving:
    def test_retrieve_returns_the_oldest_first(self, memory):
        facts = filled(memory, description=DESCRIPTION["content"])
        assert contents(facts.retrieve_all()) == [DESCRIPTION["content"], *ORDER]
        assert facts.get_messages() == facts.retrieve_all()
        for n in range(1, 6):
            assert contents(facts.retrieve_recent(n)) == ORDER[-n:]
        assert contents(facts.retrieve_recent()) == ORDER[-1:]

    def test_retrieve_by_role_filters_and_limits(self, memory):
        facts = filled(memory)
        assert contents(facts.retrieve_by_role("user")) == ORDER[:2]
        assert contents(facts.retrieve_by_role("assistant")) == ORDER[2:]
        assert contents(facts.retrieve_by_role("user", 1)) == ORDER[1:2]
        assert facts.retrieve_by_role("tool") == []
        # In the original the last 0 of something were all of it.
        assert facts.retrieve_recent(0) == facts.retrieve_by_role("user", 0) == []
        for role in ("", " ", None, 7):
            with pytest.raises(InvalidInput, match="cannot be a role"):
                facts.retrieve_by_role(role)

    def test_ended_fact_shows_its_end_date(self, memory):
        facts = memory.facts("b")
        facts.add_fact("user", "Maya", "lives_in", "Oslo", valid_from=day(1))
        facts.add_fact("user", "Maya", "lives in", "Rome", valid_from=day(3))
        facts.add_fact("the plumber", "Tom", "said", "wait.")
        oslo, rome = "Fact (user): Maya lives in Oslo (until 2024-03-01).", "Fact (user): Maya lives in Rome."
        assert contents(facts.retrieve_all()) == [oslo, rome, "Fact (the plumber): Tom said wait."]
        assert {each["role"] for each in facts.retrieve_all()} == {"user"}


@pytest.mark.sqlite_suffices
class TestUpdates:
    def test_message_is_updated_by_id(self, memory):
        facts = filled(memory)
        facts.update("m1", content="uno", name="Maya")
        assert facts.retrieve_all()[0] == {"role": "user", "content": "uno", "name": "Maya"}
        assert contents(facts.retrieve_all()) == ["uno", *ORDER[1:]]
        assert [each.id for each in facts.search("uno")] == ["m1"]
        assert facts.search("one") == []

    def test_fact_is_updated_by_id_or_index(self, memory):
        facts = filled(memory, description="Hello")
        facts.replace_memory(1, content="uno")
        facts.replace_memory(-1, obj="snow")
        facts.delete_memory(2)
        assert contents(facts.retrieve_all()) == ["Hello", "uno", "two", "Fact (assistant): Maya likes snow."]
        facts.delete_memory(-2)
        [fact] = facts.as_of()
        facts.update(fact.id, obj="coffee", confidence=0.5, valid_to=None)
        assert contents(facts.retrieve_all()) == ["Hello", "uno", "Fact (assistant): Maya likes coffee."]
        assert facts.get(fact.id).confidence == 0.5

    def test_invalid_updates_are_rejected_without_changes(self, memory):
        facts = filled(memory, description="Hello")
        for idx, told in ((5, "No item has"), (-6, "No item has"), (0, "The desc"), (-5, "The desc")):
            for change in (lambda idx=idx: facts.replace_memory(idx, content="x"), partial(facts.delete_memory, idx)):
                with pytest.raises(MessageError, match=told):
                    change()
        for idx in (None, True, 1.0):
            with pytest.raises(InvalidInput, match="idx must be"):
                facts.delete_memory(idx)
        for key, changes, error in (
            ("nobody", {"content": "x"}, MessageError), ("m1", {"colour": "red"}, MessageError),
            ("m1", {"role": 7}, MessageError), (7, {"content": "x"}, InvalidInput),
        ):  # fmt: skip
            with pytest.raises(error):
                facts.update(key, **changes)
        assert contents(facts.retrieve_all()) == ["Hello", *ORDER]


class TestReset:
    def test_reset_keeps_description_and_declarations(self, memory):
        facts = filled(memory, description="Hello", model=Scripted())
        facts.declare("likes")
        facts.merge("M.", "Maya")
        facts.drain()
        facts.reset_memory()
        assert contents(memory.facts("b").retrieve_all()) == ["Hello"]
        assert (facts.pending_count(), facts.failures(), facts.aliases(), facts.entities()) == (0, [], [], [])
        assert facts.search("Maya tea one") == []
        facts.add_fact("user", "Maya", "likes", "tea")
        facts.add_fact("user", "Maya", "likes", "rain")
        assert [fact.object for fact in facts.as_of(subject="Maya")] == ["rain"]

    def test_reset_emits_an_event(self, here, clock):
        heard = []
        facts = filled(here)
        facts.set_event_context("Researcher", heard.append, "run 1")
        facts.reset_memory()
        facts.set_event_context("Researcher", None)
        facts.reset_memory()
        [event] = heard
        assert isinstance(event, MemoryResetEvent)
        assert event.agent_name == "Researcher"


def changed_facts(memory):
    """Facts with updates, undone facts and pending messages."""
    facts = memory.facts("b", model=Scripted(), description="Hello \ud800 \x00 ✓")
    lines = "Maya | lives in | Oslo | 2024-01-01\nMaya | likes | tea"
    facts.add({"role": "user", "content": lines, "message_id": "m0", "name": "Maya"})
    facts.add({"role": "user", "content": "Maya | lives in | Rome | 2024-03-01", "message_id": "m1"})
    facts.drain()
    corrected = facts.add_fact("user", "Tom", "likes", "te", valid_from=day(1), source="m1", confidence=0.25)
    facts.update(corrected, obj="tea", valid_to=day(5))
    facts.undo(undone := facts.add_fact("user", "Tom", "owns", "a boat"))
    facts.declare("likes")
    facts.declare("works at", single_valued=False)
    facts.merge("Tommy", "Tom")
    plain = memory.facts("b")
    plain.add({"role": "user", "content": "Maya | owns | a dog", "message_id": "m2"})
    return plain, undone


def snapshot(facts):
    """All visible state of a fact memory."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    return {
        "shown": facts.retrieve_all(include_ids=True),
        "held": [facts.as_of(at) for at in (day(2), day(4), now)],
        "history": [facts.history(name) for name in ("Maya", "Tom", "Tommy")],
        "known then": [facts.history("Tom", recorded=fact.recorded_at) for fact in facts.history("Tom")],
        "evidence": [facts.evidence(fact.id) for fact in facts.history("Maya")],
        "aliases": facts.aliases(),
        "waiting": facts.pending_count(),
        "found": sorted(fact.id for fact in facts.search("Maya tea dog Rome", 50)),
    }


@pytest.mark.sqlite_suffices
class TestFiles:
    def test_file_round_trip_keeps_all_state(self, memory, alone, tmp_path):
        facts, undone = changed_facts(memory)
        facts.save_to_file(tmp_path / "kg.json", {"plan": [1, "two"]})
        other = memory.facts("c", namespace=("elsewhere",))
        other.add(role="user", content="what was here before")
        assert other.load_from_file(tmp_path / "kg.json") == {"plan": [1, "two"]}
        assert snapshot(other) == snapshot(facts)
        learned = memory.facts("c", ("elsewhere",), Scripted())
        assert learned.drain() == 1  # what waited waits there
        assert [fact.object for fact in learned.history("Maya", "owns")] == ["a dog"]
        learned.undo(undone)  # and what was taken back can be had again
        assert [fact.object for fact in learned.history("Tom", "owns")] == ["a boat"]

    def test_loaded_pending_messages_are_extracted_in_background(self, here, tmp_path):
        plain = here.facts("b")
        plain.add(role="user", content=PARIS)
        plain.save_to_file(tmp_path / "kg.json")
        learned = threading.Event()
        facts = here.facts("c", model=Scripted(meanwhile=lambda *_: learned.set()))
        facts.load_from_file(tmp_path / "kg.json")
        assert learned.wait(60)

    def test_damaged_files_are_rejected_without_changes(self, memory, alone, tmp_path):
        facts, _ = changed_facts(memory)
        path = tmp_path / "kg.json"
        facts.save_to_file(path)
        whole = json.loads(path.read_text())
        before = snapshot(facts)

        def damaged(change):
            document = json.loads(json.dumps(whole))
            change(document)
            return document

        def of_kind(document, kind):
            return next(each for each in document["entries"] if each["kind"] == kind)

        for document in (
            [],
            {},
            damaged(lambda d: d.update(version=99)),
            damaged(lambda d: d.update(memory_type="conversation_history")),
            damaged(lambda d: d.update(entries=None)),
            damaged(lambda d: d["entries"].append({})),
            damaged(lambda d: d["entries"][0].update(kind="record")),
            damaged(lambda d: d["entries"][0].update(created_at=10**30)),
            *(
                damaged(lambda d, kind=kind: of_kind(d, kind).update(extra={}))
                for kind in ("fact", "fact_text", "fact_due")
            ),
            *("", "{", "\x00", json.dumps(whole)[:-20]),
        ):
            path.write_text(document if isinstance(document, str) else json.dumps(document))
            with pytest.raises(InvalidInput):
                facts.load_from_file(path)
            assert snapshot(facts) == before
        with pytest.raises(InvalidInput):
            facts.load_from_file(tmp_path / "missing.json")
        assert snapshot(facts) == before
