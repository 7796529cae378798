"""Fact tools for agents: adding, searching, history and error messages."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage

from langchain_agentmem import AgentMemory, InvalidInput, KGMemory, fact_tools
from langchain_agentmem.facts.fact_tools import MAX_QUOTE_CHARS, MAX_SOURCES, OPERATIONS
from langchain_agentmem.language_models.tool_factory import MAX_LIST_LENGTH, MAX_RESULTS
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
    """The beginning of a day in ISO format."""
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


class TestToolCreation:
    def test_tool_schemas_are_valid_for_providers(self, tools):
        assert list(tools) == ["fact_add", "fact_search", "fact_history"]
        check_schemas(tools.values())
        assert all(operation.description.endswith(".") for operation in OPERATIONS)

    def test_memory_tools_include_fact_tools_on_request(self, light):
        assert [tool.name for tool in light.tools(include=["fact_*"])] == ["fact_add", "fact_search", "fact_history"]
        assert not [tool for tool in light.tools() if tool.name.startswith("fact_")]
        [adding] = light.tools("user-42", include=["fact_add"])
        adding.invoke({"subject": "Maya", "predicate": "likes", "object": "tea"})
        assert [fact.text for fact in light.facts("user-42").as_of()] == ["Maya likes tea"]

    def test_invalid_tool_arguments_are_rejected(self, light):
        for arguments in ((5,), ("",), (None, "ns"), ("x", ("",))):
            with pytest.raises(InvalidInput):
                fact_tools(light, *arguments)
        with pytest.raises(InvalidInput, match="A KGMemory already has a branch"):
            fact_tools(KGMemory(light, "x"), "y")

    async def test_agent_facts_belong_to_its_thread(self, memory):
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
    def test_added_fact_has_assistant_role_without_source(self, add, facts):
        said = add("Maya", "lives in", "Lisbon")
        [fact] = facts.as_of()
        assert (fact.text, fact.role, fact.sources, fact.valid_to) == ("Maya lives in Lisbon", "assistant", (), None)
        told = f"with the id {fact.id}; it is now known: 'Maya lives in Lisbon', since 2026-01-01."
        assert said == f"The fact is kept, {told}"

    def test_fact_add_reports_ended_and_contradicted_facts(self, add):
        add("Maya", "lives in", "Porto", valid_from="2024-01-01")
        said = add("Maya", "lives in", "Lisbon", valid_from="2024-03-01")
        assert "; it ended: 'Maya lives in Porto', from 2024-01-01 until 2024-03-01." in said
        said = add("maya", "LIVES_IN", "Rome", valid_from="2024-03-01")
        assert said.endswith("; it contradicts: 'Maya lives in Lisbon', since 2024-03-01.")
        said = add("Maya", "lives in", "Oslo", valid_from="2024-04-01")
        assert "Porto" not in said
        lisbon, rome = (f"'{each}', from 2024-03-01 until 2024-04-01" for each in MARCH)
        assert said.endswith(f"; it ended: {lisbon}, {rome}.")

    def test_fact_add_accepts_iso_and_relative_times(self):
        for given, start, end in CASES["times of tools"]:
            with AgentMemory(clock=SteppingClock()) as memory:
                [adding, *_] = fact_tools(memory, "x")
                adding.invoke({"subject": "Maya", "predicate": "visited", "object": "Rome", **given})
                [fact] = memory.facts("x").history("Maya")
            assert (fact.valid_from, fact.valid_to) == (day(start), None if end is None else day(end)), given


class TestSearch:
    def test_search_returns_facts_with_times_and_messages(self, tools, add, facts):
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

    def test_star_query_returns_the_newest(self, tools, add, facts):
        add("Maya", "likes", "tea")
        facts.add(role="user", content="It rains.")
        add("Maya", "likes", "rain")
        found = json.loads(tools["fact_search"].invoke({"query": "*", "limit": 2}))["found"]
        assert [each["text"] for each in found] == ["Maya likes rain", "It rains."]
        assert [fact.text for fact in facts.search("*")] == ["Maya likes rain", "It rains.", "Maya likes tea"]
        then = facts.search("Maya tea", 1)[0].valid_from
        assert [fact.text for fact in facts.search("*", 2, valid=then)] == ["It rains.", "Maya likes tea"]

    def test_undone_facts_do_not_use_the_limit(self, light, facts):
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

    def test_search_output_is_bounded_and_counts_omissions(self, tools, facts):
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
    def test_history_lists_facts_with_times_and_sources(self, tools, facts):
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

    def test_history_truncates_source_quotes_and_lists(self, tools, facts):
        for number in range(MAX_SOURCES + 2):
            said = facts.add(role="user", content=f"{number} " + "x" * 1_000)
            facts.add_fact("user", "Maya", "likes", "tea", source=said)
        [fact] = json.loads(tools["fact_history"].invoke("Maya"))["history"]
        assert [source["text"][0] for source in fact["sources"]] == ["0", "1", "2"]
        assert all(len(source["text"]) <= MAX_QUOTE_CHARS + 2 for source in fact["sources"])
        assert fact["more_sources"] == 2

    def test_long_history_shows_newest_and_counts_rest(self, tools, facts):
        for number in range(MAX_RESULTS + 5):
            start = day("2020-01-01") + timedelta(minutes=number)
            facts.add_fact("user", "Maya", "saw", f"bird {number}", valid_from=start)
        told = json.loads(tools["fact_history"].invoke("Maya"))
        assert [each["text"] for each in told["history"]] == [f"Maya saw bird {n}" for n in range(5, MAX_RESULTS + 5)]
        assert told["left_out"] == 5
        assert tools["fact_history"].invoke("Ben") == "Nothing is known of 'Ben'; fact_search finds by words."
        said = tools["fact_history"].invoke({"subject": "Ben", "predicate": "likes"})
        assert said.startswith("Nothing is known of 'Ben' and 'likes';")


class TestInvalidCalls:
    async def test_invalid_calls_return_an_error_message(self, tools, facts):
        await check_mistakes(tools, CASES["mistakes"])
        assert facts.search("*") == []

    def test_stored_text_cannot_break_the_output(self, tools, add, facts):
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
