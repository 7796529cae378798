"""`search(…, order="time")`: the evidence of a topic as it came, without repeats, with both sides of a change."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from langchain_agentmem import InvalidInput
from langchain_agentmem.search import timeline
from langchain_agentmem.search.analysis import analyze_query
from langchain_agentmem.search.timeline import order_for

NEVER = "I have never worn lined boots."
CHANGES = (
    ("Have I been to Lisbon?", "I have never been to Lisbon.", "I went to Lisbon last week, it was hot."),
    ("Have I met Kelly?", "I met Kelly at the library, we talked.", "Sorry, I've never met Kelly at any library."),
    ("deadline of the sprint", "The sprint has its deadline on April 1.", "The sprint's new deadline is April 5."),
    ("Benutze ich Zotero?", "Ich benutze Zotero für Zitate.", "Ich habe Zotero nie benutzt."),
    ("我有猫吗", "我有一只猫。", "我没有猫。"),
    ("Do I eat walnuts with cheese?", "I eat walnuts with cheese.", "I can't eat walnuts with cheese."),
)
MONDAY = datetime(2025, 3, 3, 9, 0, tzinfo=UTC)


def say(memory, *said, role="user", namespace=("a",), conversation="c", name=None):
    """What was said, a day apart; gives the ids."""
    chat = memory.conversation(conversation, namespace)
    common = {"role": role, "name": name}
    return [
        chat.add({**common, "content": text, "created_at": MONDAY + timedelta(days=day)})
        for day, text in enumerate(said)
    ]


def ask(memory, text, **options):
    return memory.search(text, **{"namespace": ("a",), "order": "time", **options})


def texts(found):
    return [each.text for each in found]


class TestOrder:
    def test_the_oldest_comes_first(self, memory):
        said = ["I painted the shed.", "I planted a quince beside the shed.", "Now I clear out the shed."]
        say(memory, *said)
        assert texts(ask(memory, "shed planted quince")) == said
        assert texts(ask(memory, "shed planted quince", order="score"))[0] == said[1]

    def test_awaited_and_by_the_retriever_it_is_the_same(self, memory):
        say(memory, "The shed is red.", "No, the shed is not red.")
        found = ask(memory, "Is the shed red?")
        assert asyncio.run(memory.asearch("Is the shed red?", namespace=("a",), order="time")) == found
        documents = memory.retriever(namespace=("a",), order="time").invoke("Is the shed red?")
        assert [each.id for each in documents] == [each.id for each in found]
        assert documents[0].metadata["replaced_by"] == ["message", found[1].id]
        assert "replaced_by" not in documents[1].metadata

    def test_no_other_order_is_known(self, memory):
        for order in ("Time", "", None, 1, ["time"]):
            for use in (partial(ask, memory, "shed"), memory.retriever):
                with pytest.raises(InvalidInput, match="order must be 'score' or 'time'"):
                    use(order=order)


class TestRepeats:
    def test_the_fuller_stands_and_names_the_other(self, memory):
        full = "I planted two tall old quince trees beside the wall of the garden."
        ids = say(memory, full, "I planted two old quince trees beside the wall of the garden!")
        [found] = ask(memory, "quince trees")
        assert (found.id, found.also) == (ids[0], (("message", ids[1]),))

    def test_of_equals_the_later_stands(self, memory):
        *others, last = say(memory, "The quince is in bloom.", "the quince, IS in bloom", "In bloom is the quince")
        for asked in ("quince", '"is in bloom"', '"bloom is the quince"'):
            [found] = ask(memory, asked)
            assert (found.id, {each for _, each in found.also}) == (last, set(others))

    def test_another_number_another_speaker_and_a_denial_are_no_repeats_in_other_languages_neither(self, memory):
        meet = "We meet in the old mill at"
        say(memory, f"{meet} 9.", f"{meet} 8.", "We never meet in the old mill at 8.")
        say(memory, f"{meet} 8.", name="Zoe", conversation="d")
        assert len(ask(memory, "old mill")) == 4
        german = ("Wir treffen uns in der alten Mühle im Tal", "Wir treffen uns nie in der alten Mühle im Tal")
        say(memory, *german, namespace=("a", "de"))
        assert len(ask(memory, "alte Mühle", namespace=("a", "de"))) == 2

    def test_a_topic_of_many_repeats_is_looked_for_further(self, memory):
        chat = memory.conversation("c", ("a",))
        chat.add_messages([{"role": "user", "content": "The quince is in bloom beside the shed."}] * 90)
        chat.add({"role": "user", "content": "The quince beside the other shed bore no fruit in the end."})
        assert len(ask(memory, "quince in bloom beside the shed", limit=2)) == 2


class TestChanges:
    def test_the_earlier_says_by_what_it_was_replaced(self, memory):
        for number, (asked, *both) in enumerate(CHANGES):
            _, later = say(memory, *both, namespace=("a", f"{number}"))
            old, new = ask(memory, asked, namespace=("a", f"{number}"))
            assert texts([old, new]) == both
            assert (old.replaced_by, new.replaced_by) == (("message", later), None)
            assert old.score == pytest.approx(new.score)

    def test_both_sides_are_there_where_one_alone_would_be(self, memory):
        costs = (f"Lined boots for hiking cost {price}." for price in range(100, 106))
        say(memory, NEVER, *costs, "For hiking I wear lined boots of felt.")
        best = texts(memory.search("lined boots of felt for hiking", namespace=("a",), limit=5))
        assert NEVER not in best
        old, new = ask(memory, "lined boots of felt for hiking", limit=2)
        assert (old.text, old.replaced_by) == (NEVER, ("message", new.id))
        assert old.why.signals["change"] > 0

    def test_a_pasted_table_holds_nobody_up(self, memory, monkeypatch):
        compared = []
        monkeypatch.setattr(timeline, "_is_change", lambda old, new: compared.append(old))
        say(memory, *("\n".join(f"shed {row * column}" for row in range(200)) for column in range(20)))
        assert len(ask(memory, "shed")) == 10
        assert len(compared) <= 20 * 20 / 2 * timeline._MAX_STATEMENTS**2

    def test_what_says_nothing_else_of_the_same_replaces_nothing(self, memory):
        for number, both in enumerate(
            [
                ("The quince has 3 buds.", "The quince has bloomed."),
                ("The quince has 3 buds.", "The quince has 5 buds."),  # both may be
                ("I met Kelly.", "The quince has not bloomed."),
                ("The quince of Kelly blooms.", "The quince of Kelly won a prize."),  # as in "won't"
                ("Kelly, quince: blüht.", "Kelly, quince: blüht ab dem 5. Mai."),  # which is "never" in Italian
            ]
        ):
            say(memory, *both, namespace=("a", f"{number}"))
            found = ask(memory, "Has the quince of Kelly bloomed?", namespace=("a", f"{number}"))
            assert [each.replaced_by for each in found] == [None, None], both

    def test_what_an_assistant_or_somebody_else_says_replaces_nothing(self, memory):
        say(memory, "The shed is red.")
        say(memory, "The shed is not red.", role="assistant", conversation="d")
        say(memory, "The shed is not red.", name="Zoe", conversation="e")
        assert [each.replaced_by for each in ask(memory, "Is the shed red?")] == [None] * 3

    def test_of_facts_it_is_what_ended_them(self, memory):
        facts = memory.facts(namespace=("a",))
        facts.add_fact("user", "Ana", "lives in", "Porto")
        facts.add_fact("user", "Ana", "lives in", "Lisbon")
        old, new = ask(memory, "Where does Ana live?", kinds=["fact"])
        assert (old.value.object, new.value.object) == ("Porto", "Lisbon")
        assert (old.replaced_by, new.replaced_by) == (("fact", new.id), None)


class TestWhichOrder:
    def test_suits_the_question(self):
        for text, order in {
            "List the order in which I brought up the garden": "time",
            "Summarize how my garden developed": "time",
            "Have I ever planted a quince?": "time",
            "Where did I plant the quince?": "score",
            "Can you order two pizzas in order to feed us?": "score",
            "Wann habe ich die Quitte gepflanzt?": "score",
        }.items():
            assert order_for(analyze_query(text)) == order, text
