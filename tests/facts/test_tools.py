"""An agent keeps facts, finds them and looks up how they changed; whatever it does wrong comes back as a message."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage

from langchain_agentmem import AgentMemory, InvalidInput, KGMemory, fact_tools
from langchain_agentmem.facts.fact_tools import MAX_QUOTE_CHARS, MAX_RESULTS, MAX_SOURCES, OPERATIONS
from langchain_agentmem.language_models.tool_factory import MAX_LIST_LENGTH
from tests.conftest import SteppingClock
from tests.support.graphs import at
from tests.support.models import ScriptedModel, calling
from tests.support.tools import check_mistakes, check_schemas

from .scripted import CASES

pytestmark = pytest.mark.sqlite_suffices


MARCH = ("Maya lives in Lisbon", "maya LIVES IN Rome")


def day(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def on(text):
    """The beginning of a day as a model is told of it."""
    return day(text).isoformat()


@pytest.fixture
def facts(light):
    return light.facts("user-42")


@pytest.fixture
def tools(light):
    return {tool.name: tool for tool in fact_tools(light, "user-42")}


@pytest.fixture
def add(tools):
    def keep(subject, predicate, obj, **more):
        return tools["fact_add"].invoke({"subject": subject, "predicate": predicate, "object": obj, **more})

    return keep


class TestOffered:
    def test_each_has_a_schema_that_a_provider_takes(self, tools):
        assert list(tools) == ["fact_add", "fact_search", "fact_history"]
        check_schemas(tools.values())
        assert all(operation.description.endswith(".") for operation in OPERATIONS)

    def test_the_facade_hands_them_out_to_who_asks_for_them(self, light):
        assert [tool.name for tool in light.tools(include=["fact_*"])] == ["fact_add", "fact_search", "fact_history"]
        assert not [tool for tool in light.tools() if tool.name.startswith("fact_")]
        [adding] = light.tools("user-42", include=["fact_add"])
        adding.invoke({"subject": "Maya", "predicate": "likes", "object": "tea"})
        assert [fact.text for fact in light.facts("user-42").as_of()] == ["Maya likes tea"]

    def test_what_cannot_be_is_refused_when_they_are_made(self, light):
        for arguments in ((5,), ("",), (None, "ns"), ("x", ("",))):
            with pytest.raises(InvalidInput):
                fact_tools(light, *arguments)
        with pytest.raises(InvalidInput, match="A KGMemory is somebody's already"):
            fact_tools(KGMemory(light, "x"), "y")

    async def test_an_agent_keeps_facts_of_its_thread_and_no_other(self, memory):
        porto, lisbon = (
            calling("fact_add", subject="Maya", predicate="lives in", object=place, valid_from=since)
            for place, since in (("Porto", "2024-01-01"), ("Lisbon", "2024-03-01"))
        )
        wrong, looking = calling("fact_add", subject="Maya", wrong=2), calling("fact_history", subject="Maya")
        model = ScriptedModel(porto, wrong, lisbon, looking, "She lives in Lisbon.")
        agent = create_agent(model, tools=fact_tools(memory), checkpointer=memory.checkpointer)
        state = await agent.ainvoke({"messages": [("user", "Where does Maya live?")]}, at())
        added, refused, moved, history = [each.text for each in state["messages"] if isinstance(each, ToolMessage)]
        assert added.startswith("The fact is kept, ")
        assert "predicate is missing" in refused
        assert "it ended: 'Maya lives in Porto'" in moved
        assert [each["valid_to"] for each in json.loads(history)["history"]] == [on("2024-03-01"), None]
        assert [fact.object for fact in memory.facts(at()).as_of(subject="Maya")] == ["Lisbon"]
        assert memory.facts(at("u")).search("*") == []


class TestAdding:
    def test_a_fact_is_kept_as_the_assistants_with_no_source(self, add, facts):
        said = add("Maya", "lives in", "Lisbon")
        [fact] = facts.as_of()
        assert (fact.text, fact.role, fact.sources, fact.valid_to) == ("Maya lives in Lisbon", "assistant", (), None)
        told = f"with the id {fact.id}; it is now known: 'Maya lives in Lisbon', since 2026-01-01."
        assert said == f"The fact is kept, {told}"

    def test_what_it_ends_and_what_it_contradicts_is_told(self, add):
        add("Maya", "lives in", "Porto", valid_from="2024-01-01")
        said = add("Maya", "lives in", "Lisbon", valid_from="2024-03-01")
        assert "; it ended: 'Maya lives in Porto', from 2024-01-01 until 2024-03-01." in said
        said = add("maya", "LIVES_IN", "Rome", valid_from="2024-03-01")
        assert said.endswith("; it contradicts: 'Maya lives in Lisbon', since 2024-03-01.")
        said = add("Maya", "lives in", "Oslo", valid_from="2024-04-01")
        assert "Porto" not in said
        lisbon, rome = (f"'{each}', from 2024-03-01 until 2024-04-01" for each in MARCH)
        assert said.endswith(f"; it ended: {lisbon}, {rome}.")

    def test_times_are_iso_or_words(self):
        for given, start, end in CASES["times of tools"]:
            with AgentMemory(clock=SteppingClock()) as memory:
                [adding, *_] = fact_tools(memory, "x")
                adding.invoke({"subject": "Maya", "predicate": "visited", "object": "Rome", **given})
                [fact] = memory.facts("x").history("Maya")
            assert (fact.valid_from, fact.valid_to) == (day(start), None if end is None else day(end)), given


class TestSearching:
    def test_facts_are_found_with_their_times_and_what_was_said_as_it_was(self, tools, add, facts):
        add("Maya", "lives in", "Porto", valid_from="2024-01-01")
        add("Maya", "lives in", "Lisbon", valid_from="2024-03-01")
        message = facts.add(role="user", content="Maya is happy in Lisbon.")
        found = json.loads(tools["fact_search"].invoke({"query": "Maya Lisbon Porto"}))["found"]
        by_text = {each.pop("text"): each for each in found}
        porto, lisbon = by_text["Maya lives in Porto"], by_text["Maya lives in Lisbon"]
        assert (porto["valid_from"], porto["valid_to"]) == (on("2024-01-01"), on("2024-03-01"))
        assert (lisbon["valid_from"], lisbon["valid_to"]) == (on("2024-03-01"), None)
        assert facts.get(lisbon["id"]).object == "Lisbon"
        said = by_text["Maya is happy in Lisbon."]
        assert (said["id"], said["said_by"], said["time"][:10]) == (message, "user", "2026-01-01")
        assert len(json.loads(tools["fact_search"].invoke({"query": "Maya", "k": "1"}))["found"]) == 1

    def test_a_star_finds_the_newest(self, tools, add, facts):
        add("Maya", "likes", "tea")
        facts.add(role="user", content="It rains.")
        add("Maya", "likes", "rain")
        found = json.loads(tools["fact_search"].invoke({"query": "*", "limit": 2}))["found"]
        assert [each["text"] for each in found] == ["Maya likes rain", "It rains."]
        assert [fact.text for fact in facts.search("*")] == ["Maya likes rain", "It rains.", "Maya likes tea"]
        then = facts.search("Maya tea", 1)[0].valid_from
        assert [fact.text for fact in facts.search("*", 2, valid=then)] == ["It rains.", "Maya likes tea"]

    def test_what_was_taken_back_or_only_read_takes_the_place_of_none_of_the_newest(self, light, facts):
        said = facts.add(role="user", content="It rains.")
        kept = facts.add_fact("user", "Maya", "likes", "tea")
        for number in range(10):
            facts.undo(facts.add_fact("user", "Maya", "likes", f"thing {number}"))
        read = [HumanMessage(f"Hello {number}") for number in range(10)]
        light.remember_facts(lambda _: '{"facts": []}', branch="user-42").invoke(read)
        assert [fact.id for fact in facts.search("*", 2)] == [kept, said]
        assert [fact.id for fact in facts.search("*", 1)] == [kept]
        assert [each["message_id"] for each in facts.retrieve_recent(2, include_ids=True)] == [said, kept]
        assert facts.search("*", 0) == []

    def test_what_a_search_shows_is_bounded_and_what_was_left_out_counted(self, tools, facts):
        for number in range(40):
            facts.add(role="user", content=f"word {number} " + "x" * 900)
        text = tools["fact_search"].invoke({"query": "word", "limit": 10**9})
        found = json.loads(text)
        assert len(text) < MAX_LIST_LENGTH + 2_000
        assert len(found["found"]) + found["left_out"] == 40
        facts.add(role="user", content="zebra " * 1_000)
        [found] = json.loads(tools["fact_search"].invoke("zebra"))["found"]
        assert len(found["text"]) < 1_100
        assert found["text"].endswith(f"(a part of message {found['id']})")


class TestHistory:
    def test_all_that_held_is_told_with_its_times_and_how_it_is_known(self, tools, facts):
        said = facts.add(role="user", content="I lived in Porto, and moved to Lisbon in March.")
        facts.add_fact("user", "Maya", "lives in", "Porto", valid_from=day("2024-01-01"), source=said)
        facts.add_fact("user", "Maya", "lives in", "Lisbon", valid_from=day("2024-03-01"), source=said, confidence=0.5)
        facts.add_fact("user", "Maya", "likes", "tea", source=("m9", "elsewhere"))
        porto, lisbon, tea = json.loads(tools["fact_history"].invoke({"subject": "maya"}))["history"]
        assert (porto["text"], porto["valid_from"], porto["valid_to"]) == (
            "Maya lives in Porto", on("2024-01-01"), on("2024-03-01")
        )  # fmt: skip
        assert (lisbon["text"], lisbon["valid_to"], lisbon["confidence"]) == ("Maya lives in Lisbon", None, 0.5)
        [source] = lisbon["sources"]
        assert (source["said_by"], source["message"]) == ("user", said)
        assert source["text"] == "I lived in Porto, and moved to Lisbon in March."
        assert tea["sources"][0]["message"] == "m9"
        assert "text" not in tea["sources"][0]
        only = json.loads(tools["fact_history"].invoke({"subject": "Maya", "predicate": "lives_in"}))["history"]
        assert [each["id"] for each in only] == [porto["id"], lisbon["id"]]

    def test_what_a_source_says_is_short_and_so_is_their_list(self, tools, facts):
        for number in range(MAX_SOURCES + 2):
            said = facts.add(role="user", content=f"{number} " + "x" * 1_000)
            facts.add_fact("user", "Maya", "likes", "tea", source=said)
        [fact] = json.loads(tools["fact_history"].invoke("Maya"))["history"]
        assert [source["text"][0] for source in fact["sources"]] == ["0", "1", "2"]
        assert all(len(source["text"]) <= MAX_QUOTE_CHARS + 2 for source in fact["sources"])
        assert fact["more_sources"] == 2

    def test_of_a_long_history_the_newest_is_told_in_order_and_the_rest_counted(self, tools, facts):
        for number in range(MAX_RESULTS + 5):
            start = day("2020-01-01") + timedelta(minutes=number)
            facts.add_fact("user", "Maya", "saw", f"bird {number}", valid_from=start)
        told = json.loads(tools["fact_history"].invoke("Maya"))
        assert [each["text"] for each in told["history"]] == [f"Maya saw bird {n}" for n in range(5, MAX_RESULTS + 5)]
        assert told["left_out"] == 5
        assert tools["fact_history"].invoke("Ben") == "Nothing is known of 'Ben'; fact_search finds by words."
        said = tools["fact_history"].invoke({"subject": "Ben", "predicate": "likes"})
        assert said.startswith("Nothing is known of 'Ben' and 'likes';")


class TestMistakes:
    async def test_they_come_back_as_a_message_that_says_what_is_wrong(self, tools, facts):
        await check_mistakes(tools, CASES["mistakes"])
        assert facts.search("*") == []

    def test_what_was_stored_is_data(self, tools, add, facts):
        evil = "</facts>\x1b[2J\u202e\u2028\U000e0041"
        message = facts.add(role="user", content=evil)
        facts.add_fact("user", "Maya", "said", evil, source=message)
        told = [
            tools["fact_search"].invoke("Maya"),
            tools["fact_search"].invoke("*"),
            tools["fact_history"].invoke("Maya"),
            add("Maya", "said", evil),
            tools["fact_history"].invoke(evil),
        ]
        for text in told:
            assert not {"\x1b", "\u202e", "\u2028", "\U000e0041", "\n"} & {*text}
        [found] = [each for each in json.loads(told[1])["found"] if each["id"] == message]
        assert found["text"] == evil
