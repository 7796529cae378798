"""`search(…, order="time")`: chronological results without repeats, with replaced statements."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from langchain_agentmem import InvalidInput
from langchain_agentmem.search import timeline
from langchain_agentmem.search.analysis import analyze_query
from langchain_agentmem.search.timeline import choose_order

DENIAL = "I have never worn lined boots."
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
    """Add messages a day apart; return their ids."""
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
    def test_oldest_result_comes_first(self, memory):
        said = ["I painted the shed.", "I planted a quince beside the shed.", "Now I clear out the shed."]
        say(memory, *said)
        assert texts(ask(memory, "shed planted quince")) == said
        assert texts(ask(memory, "shed planted quince", order="score"))[0] == said[1]

    def test_asearch_and_retriever_return_the_same_timeline(self, memory):
        say(memory, "The shed is red.", "No, the shed is not red.")
        found = ask(memory, "Is the shed red?")
        assert asyncio.run(memory.asearch("Is the shed red?", namespace=("a",), order="time")) == found
        documents = memory.retriever(namespace=("a",), order="time").invoke("Is the shed red?")
        assert [each.id for each in documents] == [each.id for each in found]
        assert documents[0].metadata["replaced_by"] == ["message", found[1].id]
        assert "replaced_by" not in documents[1].metadata

    def test_unknown_order_is_rejected(self, memory):
        for order in ("Time", "", None, 1, ["time"]):
            for use in (partial(ask, memory, "shed"), memory.retriever):
                with pytest.raises(InvalidInput, match="order must be 'score' or 'time'"):
                    use(order=order)


class TestRepeats:
    def test_repeat_is_merged_into_the_fuller_text(self, memory):
        full = "I planted two tall old quince trees beside the wall of the garden."
        ids = say(memory, full, "I planted two old quince trees beside the wall of the garden!")
        [found] = ask(memory, "quince trees")
        assert (found.id, found.also) == (ids[0], (("message", ids[1]),))

    def test_equal_texts_keep_the_latest(self, memory):
        *others, last = say(memory, "The quince is in bloom.", "the quince, IS in bloom", "In bloom is the quince")
        for asked in ("quince", '"is in bloom"', '"bloom is the quince"'):
            [found] = ask(memory, asked)
            assert (found.id, {each for _, each in found.also}) == (last, set(others))

    def test_different_numbers_speakers_and_negations_are_kept(self, memory):
        meet = "We meet in the old mill at"
        say(memory, f"{meet} 9.", f"{meet} 8.", "We never meet in the old mill at 8.")
        say(memory, f"{meet} 8.", name="Zoe", conversation="d")
        assert len(ask(memory, "old mill")) == 4
        german = ("Wir treffen uns in der alten Mühle im Tal", "Wir treffen uns nie in der alten Mühle im Tal")
        say(memory, *german, namespace=("a", "de"))
        assert len(ask(memory, "alte Mühle", namespace=("a", "de"))) == 2

    def test_many_repeats_do_not_exhaust_the_search(self, memory):
        chat = memory.conversation("c", ("a",))
        chat.add_messages([{"role": "user", "content": "The quince is in bloom beside the shed."}] * 90)
        chat.add({"role": "user", "content": "The quince beside the other shed bore no fruit in the end."})
        assert len(ask(memory, "quince in bloom beside the shed", limit=2)) == 2


class TestChanges:
    def test_earlier_statement_names_its_replacement(self, memory):
        for number, (asked, *both) in enumerate(CHANGES):
            _, later = say(memory, *both, namespace=("a", f"{number}"))
            old, new = ask(memory, asked, namespace=("a", f"{number}"))
            assert texts([old, new]) == both
            assert (old.replaced_by, new.replaced_by) == (("message", later), None)
            assert old.score == pytest.approx(new.score)

    def test_contradicted_statement_is_returned_with_its_replacement(self, memory):
        costs = (f"Lined boots for hiking cost {price}." for price in range(100, 106))
        say(memory, DENIAL, *costs, "For hiking I wear lined boots of felt.")
        best = texts(memory.search("lined boots of felt for hiking", namespace=("a",), limit=5))
        assert DENIAL not in best
        old, new = ask(memory, "lined boots of felt for hiking", limit=2)
        assert (old.text, old.replaced_by) == (DENIAL, ("message", new.id))
        assert old.why.signals["change"] > 0

    def test_change_detection_limits_compared_statements(self, memory, monkeypatch):
        compared = []
        monkeypatch.setattr(timeline, "_is_change", lambda old, new: compared.append(old))
        say(memory, *("\n".join(f"shed {row * column}" for row in range(200)) for column in range(20)))
        assert len(ask(memory, "shed")) == 10
        assert len(compared) <= 20 * 20 / 2 * timeline._MAX_STATEMENTS**2

    def test_compatible_statements_are_not_replaced(self, memory):
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

    def test_other_speakers_do_not_replace_statements(self, memory):
        say(memory, "The shed is red.")
        say(memory, "The shed is not red.", role="assistant", conversation="d")
        say(memory, "The shed is not red.", name="Zoe", conversation="e")
        assert [each.replaced_by for each in ask(memory, "Is the shed red?")] == [None] * 3

    def test_ended_fact_names_its_successor(self, memory):
        facts = memory.facts(namespace=("a",))
        facts.add_fact("user", "Ana", "lives in", "Porto")
        facts.add_fact("user", "Ana", "lives in", "Lisbon")
        old, new = ask(memory, "Where does Ana live?", kinds=["fact"])
        assert (old.value.object, new.value.object) == ("Porto", "Lisbon")
        assert (old.replaced_by, new.replaced_by) == (("fact", new.id), None)


def test_order_is_chosen_from_the_query():
    for text, order in {
        "List the order in which I brought up the garden": "time",
        "Summarize how my garden developed": "time",
        "Have I ever planted a quince?": "time",
        "Where did I plant the quince?": "score",
        "Can you order two pizzas in order to feed us?": "score",
        "Wann habe ich die Quitte gepflanzt?": "score",
    }.items():
        assert choose_order(analyze_query(text)) == order, text
