"""Speaker names in queries."""

import pytest

from langchain_agentmem.search.ranking import WEIGHTS

pytestmark = pytest.mark.sqlite_suffices


@pytest.fixture
def talk(memory):
    chat = memory.conversation("c", ("a",))
    for name, text in [
        ("Ann Brown", "I planted tomatoes."),
        ("Zoë", "I planted beans."),
        (None, "Somebody planted peas."),
    ]:
        chat.add({"role": "user", "content": text, "name": name})
    return memory


def ask(memory, question, **options):
    return memory.search(question, namespace=("a",), **options)


class TestNames:
    def test_messages_of_the_named_speaker_rank_first(self, talk):
        for name, first in (("Ann", "tomatoes"), ("brown", "tomatoes"), ("ZOE", "beans")):
            [best, *rest] = ask(talk, f"What has {name} planted there?")
            assert best.text == f"I planted {first}."
            assert best.why.signals["speaker"] == pytest.approx(WEIGHTS.speaker)
            assert all("speaker" not in each.why.signals for each in rest)
            assert set(best.why.terms) == {"planted"}

    def test_name_query_finds_speaker_messages_and_mentions(self, talk):
        talk.conversation("c", ("a",)).add(role="user", content="Ann is here.")
        talk.conversation("elsewhere", ("b",)).add({"role": "user", "content": "A tree.", "name": "Ann"})
        assert [each.text for each in ask(talk, "Ann")] == ["I planted tomatoes.", "Ann is here."]
        assert [each.text for each in ask(talk, "zoë")] == ["I planted beans."]

    def test_speaker_names_match_stop_words_and_spellings(self, talk):
        for name, text in [("Will", "I planted figs."), ("Jürgen", "I planted kale.")]:
            talk.conversation("c", ("a",)).add({"role": "user", "content": text, "name": name})
        assert {each.text for each in ask(talk, "Will Ann")} == {"I planted tomatoes."}
        for query in ("Jürgen", "Juergen", "jurgen"):
            assert [each.text for each in ask(talk, query)] == ["I planted kale."]

    def test_speaker_name_applies_only_in_own_conversations(self, talk):
        talk.conversation("d", ("a",)).add(role="user", content="Ann planted a tree.")
        found = ask(talk, "What has Ann planted there?", conversation_id="d")
        assert set(found[0].why.terms) == {"ann", "planted"}

    def test_tool_names_are_not_speakers(self, memory):
        chat = memory.conversation("c", ("a",))
        chat.add(role="user", content="How is it there?")
        chat.add({"role": "tool", "content": "18 degrees", "name": "get_weather", "tool_call_id": "x"})
        chat.add(role="assistant", content="The weather in Lisbon was fine.")
        [first, *_] = ask(memory, "Tell of the weather in Lisbon")
        assert first.text == "The weather in Lisbon was fine."
        assert set(first.why.terms) == {"weather", "lisbon"}
