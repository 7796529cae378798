"""An agent proposes experiences and says what helped; whatever it does wrong comes back as a message."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from langchain_agentmem import AgentMemory, Experience, InvalidInput

AT = {"configurable": {"thread_id": "t\u20287"}}
GOOD = {"when": "Use when files are read.", "what": "Check that the file exists."}


class Scripted(FakeMessagesListChatModel):
    """A model that says what it is told to."""

    def bind_tools(self, tools, **_):
        return self


@pytest.fixture
def light(clock, new_id):
    with AgentMemory(clock=clock, new_id=new_id) as memory:
        yield memory


@pytest.fixture
def library(light, tmp_path):
    library = light.experiences(tmp_path)
    library.add(Experience("known", when="Use when x.", what="Do y."))
    return library


@pytest.fixture
def tools(library):
    return {tool.name: tool for tool in library.tools()}


def proposals(library):
    return [
        Experience.from_yaml(path.read_text(encoding="utf-8"))
        for path in sorted(library.directory.rglob("proposed_*"))
        if path.is_file()
    ]


class TestOffered:
    def test_each_has_a_schema_that_a_provider_takes(self, tools):
        assert list(tools) == ["experience_propose", "experience_feedback"]
        for tool in tools.values():
            schema = convert_to_openai_tool(tool)["function"]
            assert schema["description"] == tool.description
            assert all("description" in each for each in schema["parameters"]["properties"].values())
            assert "config" not in schema["parameters"]["properties"]

    def test_some_of_them_can_be_wanted(self, library):
        assert [tool.name for tool in library.tools(["experience_feedback"])] == ["experience_feedback"]
        assert [tool.name for tool in library.tools(include=["experience_*"])] == [
            tool.name for tool in library.tools()
        ]
        with pytest.raises(InvalidInput, match="There is no tool 'other'"):
            library.tools(["other"])


class TestProposing:
    def test_it_is_a_file_for_a_person_that_names_the_thread(self, tools, library):
        said = tools["experience_propose"].invoke({**GOOD, "who": "Planner", "exp_id": "check-file"}, AT)
        where = "proposed/proposed_exp_check-file.yaml"
        assert said == f"It is proposed, in {where!r}. It is not in use until a person has reviewed it."
        [proposed] = proposals(library)
        assert proposed == Experience("check-file", ("Planner",), GOOD["when"], GOOD["what"])
        text = (library.directory / where).read_text()
        assert "# It comes from an agent in the thread 't\\u20287'.\n# It is as an agent wrote it.\n" in text
        assert [each.exp_id for each in library.load()] == ["known"]

    async def test_awaited_and_without_a_name_or_thread(self, tools, library):
        said = await tools["experience_propose"].ainvoke(GOOD)
        assert "'proposed/proposed_exp_files-read.yaml'" in said
        assert (
            "# It comes from an agent.\n" in (library.directory / "proposed/proposed_exp_files-read.yaml").read_text()
        )

    async def test_when_a_run_is_repeated_it_is_there_once(self, tools, library):
        for _ in range(2):
            await tools["experience_propose"].ainvoke(GOOD, AT)
            tools["experience_propose"].invoke(GOOD, AT)
        assert len(proposals(library)) == 1

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({**GOOD, "exp_id": "known"}, "experience_propose was not done: The library has 'known' already"),
            ({**GOOD, "when": " "}, "has no 'when': write it as a text"),
            ({**GOOD, "exp_id": "a\nb"}, "cannot be the id"),
            ({**GOOD, "what": "x" * 20_000}, "its arguments are wrong: what"),
            ({"when": "x"}, "its arguments are wrong: what"),
            ({**GOOD, "active": True}, "its arguments are wrong: active: there is no such argument"),
        ],
    )
    async def test_what_is_wrong_is_told(self, tools, library, given, told):
        assert told in tools["experience_propose"].invoke(given, AT)
        assert told in await tools["experience_propose"].ainvoke(given, AT)
        assert proposals(library) == []


class TestFeedback:
    async def test_it_is_kept_with_the_thread(self, tools, library):
        feedback = tools["experience_feedback"]
        assert feedback.invoke({"exp_id": "known", "helped": "yes", "note": "It was so."}, AT) == (
            "It is noted that 'known' helped."
        )
        assert await feedback.ainvoke({"exp_id": " known ", "helped": False}, AT) == (
            "It is noted that 'known' did not help."
        )
        [usage] = library.report()
        assert (usage.tally.helped, usage.tally.not_helped, usage.verdict) == (1, 1, "disputed")
        assert {(note.note, note.conversation_id) for note in usage.notes} == {
            ("It was so.", "t\u20287"),
            ("", "t\u20287"),
        }

    def test_what_is_wrong_is_told(self, tools, library):
        feedback = tools["experience_feedback"]
        assert "There is no experience 'other'" in feedback.invoke({"exp_id": "other", "helped": True})
        assert "its arguments are wrong: helped" in feedback.invoke({"exp_id": "known", "helped": "perhaps"})
        assert library.report()[0].tally.helped == 0


def test_an_agent_uses_them(light, library):
    calls = [
        {"name": "experience_feedback", "args": {"exp_id": "known", "helped": True}, "id": "c1"},
        {"name": "experience_propose", "args": GOOD, "id": "c2"},
        {"name": "experience_feedback", "args": {"exp_id": "nothing", "helped": True}, "id": "c3"},
    ]
    model = Scripted(responses=[AIMessage("", tool_calls=calls), AIMessage("Done.")])
    agent = create_agent(model, tools=library.tools(), checkpointer=light.checkpointer)
    state = agent.invoke({"messages": [HumanMessage("Hi.")]}, AT)
    told = [message.text for message in state["messages"] if isinstance(message, ToolMessage)]
    assert told[0] == "It is noted that 'known' helped."
    assert told[1].startswith("It is proposed, in")
    assert told[2].startswith("experience_feedback was not done: There is no experience 'nothing'")
    assert library.report()[0].notes[0].conversation_id == "t\u20287"
    assert len(proposals(library)) == 1
