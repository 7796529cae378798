"""What a model is shown anyway is no answer to it, and no reason for what stands next to it."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from tests.support.graphs import at, line

THREAD = at(namespace=("ada",))
SAID = ["The quokka sleeps in a blue tent.", "Turnips cost four euros.", "Please explain photosynthesis."]


@pytest.fixture
def ask(memory):
    """Says something in a thread, and gives what a node of that run finds."""
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


def test_a_question_is_no_reason_for_its_neighbours(memory, ask):
    assert [ask(text) for text in SAID] == [[], [], []]
    found = ask("How much do turnips cost?")
    assert (found[0], set(found)) == (SAID[1], set(SAID))  # what was said before is found, and lends its words
    assert ask("Please explain photosynthesis!")[0] == SAID[2]


def test_nor_is_a_message_that_equals_the_query_outside_of_runs(memory):
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


def test_reasons_tell_a_hits_own_words_from_borrowed_ones(memory):
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


def test_the_turn_is_that_of_the_run_after_going_back(memory, ask):
    ask(SAID[0])
    before = ask.graph.get_state(THREAD).config
    ask("Turnips cost nine euros.")
    ask("Do turnips cost much?")
    assert set(ask("Do turnips cost a lot?", before)) <= {SAID[0]}  # neither what was abandoned nor the question
    assert ask("Is the quokka asleep in a tent?")[0] == SAID[0]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_nothing_is_injected_because_of_the_question(memory, durability):
    def node(state):
        prompts.append(str(memory.inject().invoke(state["messages"][-1:])))

    prompts = []
    for text in SAID:
        line(memory.checkpointer, node).invoke({"messages": [HumanMessage(text)]}, THREAD, durability=durability)
    assert [text for prompt in prompts for text in SAID if text in prompt] == SAID


def test_a_turn_of_hundreds_of_messages_is_the_current_one_too(memory):
    found = []
    call = {"name": "look", "args": {}, "id": "c"}
    looked = [(AIMessage("", tool_calls=[call]), ToolMessage(f"Heron {n}.", tool_call_id="c")) for n in range(125)]

    def look(_):
        return {"messages": [each for pair in looked for each in pair]}

    graph = line(memory.checkpointer, look, lambda _: found.append(memory.search("Heron")))
    graph.invoke({"messages": [HumanMessage("Which herons are there?")]}, THREAD)
    assert found == [[]]
