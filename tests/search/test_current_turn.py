"""Searches exclude the messages of the current turn."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from tests.support.graphs import at, line

THREAD = at(namespace=("ada",))
SAID = ["The quokka sleeps in a blue tent.", "Turnips cost four euros.", "Please explain photosynthesis."]


@pytest.fixture
def ask(memory):
    """Send a message to a thread; return the search results of a node in that run."""
    found = []

    def node(state):
        text = state["messages"][-1].text
        found.append([each.text for each in memory.search(text)])
        assert text not in [each.page_content for each in memory.retriever().invoke(text)]
        assert text not in [each.text for each in memory.search(text, everything=True)]

    graph = line(memory.checkpointer, node)

    def ask(text, config=THREAD, **options):
        graph.invoke({"messages": [HumanMessage(text)]}, config, **options)
        return found[-1]

    ask.graph = graph
    return ask


def test_current_question_does_not_raise_neighbour_scores(memory, ask):
    assert [ask(text) for text in SAID] == [[], [], []]
    found = ask("How much do turnips cost?")
    assert (found[0], set(found)) == (SAID[1], set(SAID))  # what was said before is found, and lends its words
    assert ask("Please explain photosynthesis!")[0] == SAID[2]


def test_message_equal_to_query_adds_no_neighbours(memory):
    chat = memory.conversation("c")
    for text in SAID:
        chat.add_user_message(text)
    for query in (SAID[2], "please explain PHOTOSYNTHESIS"):
        assert [each.text for each in memory.search(query)] == [SAID[2]]
    assert (
        len(memory.search("Explain photosynthesis to me, please.")) > 1
    )  # another question's neighbours may answer it
    memory.layers().recall.append("asked", SAID[1])
    memory.layers().recall.append("asked", SAID[2])
    assert [each.content for each in memory.layers().recall.search(SAID[2])] == [SAID[2]]


def test_explanation_separates_own_from_neighbour_terms(memory):
    chat = memory.conversation("c")
    chat.add_user_message("Where does the quokka sleep?")
    chat.add_ai_message("In a blue tent.")
    question, answer = sorted(
        memory.search("Which tent does the quokka use?"), key=lambda each: each.text, reverse=True
    )
    assert (set(question.why.terms), set(answer.why.terms)) == ({"quokka"}, {"tent"})
    assert set(answer.why.nearby) == {"quokka"}
    assert str(answer.why).startswith("tent +")
    assert "quokka (nearby) +" in str(answer.why)
    for each in (question, answer):
        parts = (each.why.terms, each.why.nearby, each.why.signals)
        assert sum(value for part in parts for value in part.values()) == pytest.approx(each.score)


def test_current_turn_follows_a_rewound_thread(memory, ask):
    ask(SAID[0])
    before = ask.graph.get_state(THREAD).config
    ask("Turnips cost nine euros.")
    ask("Do turnips cost much?")
    assert set(ask("Do turnips cost a lot?", before)) <= {SAID[0]}  # neither what was abandoned nor the question
    assert ask("Is the quokka asleep in a tent?")[0] == SAID[0]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_inject_excludes_matches_of_the_current_question(memory, durability):
    def node(state):
        prompts.append(str(memory.inject().invoke(state["messages"][-1:])))

    prompts = []
    for text in SAID:
        line(memory.checkpointer, node).invoke({"messages": [HumanMessage(text)]}, THREAD, durability=durability)
    assert [text for prompt in prompts for text in SAID if text in prompt] == SAID


def test_turn_of_hundreds_of_messages_is_excluded(memory):
    found = []
    call = {"name": "look", "args": {}, "id": "c"}
    looked = [(AIMessage("", tool_calls=[call]), ToolMessage(f"Heron {n}.", tool_call_id="c")) for n in range(125)]

    def look(_):
        return {"messages": [each for pair in looked for each in pair]}

    graph = line(memory.checkpointer, look, lambda _: found.append(memory.search("Heron")))
    graph.invoke({"messages": [HumanMessage("Which herons are there?")]}, THREAD)
    assert found == [[]]
