"""When facts held, rule by rule: ends, ties, contradictions, late news, undoing, sources, corrections, names."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.facts.fact import FactsConfig


def day(number: int, month: int = 3) -> datetime:
    return datetime(2025, month, number, tzinfo=UTC)


@pytest.fixture
def memory(new_database, clock):
    numbers = itertools.count(999, -1)  # so that nothing can rest on the order of ids
    with AgentMemory(new_database("sqlite"), clock=clock, new_id=lambda: f"id-{next(numbers)}") as memory:
        yield memory


@pytest.fixture
def facts(memory):
    return memory.facts()


@pytest.fixture
def lives(facts):
    """States where Maya lives, and gives the id of the fact."""

    def state(place, start=None, end=None, **more):
        return facts.add_fact("user", "Maya", "lives in", place, valid_from=start, valid_to=end, **more)

    return state


def places(found):
    return [fact.object for fact in found]


def periods(facts, subject="Maya", predicate="lives in"):
    return [(fact.object, fact.valid_from, fact.valid_to) for fact in facts.history(subject, predicate)]


class TestEnds:
    def test_a_new_value_of_what_has_one_at_a_time_ends_the_one_before(self, facts, lives):
        lisbon, porto = lives("Lisbon", day(1)), lives("Porto", day(9))
        assert periods(facts) == [("Lisbon", day(1), day(9)), ("Porto", day(9), None)]
        assert facts.get(lisbon).ended_by == porto
        assert facts.get(porto).ended_by is None

    def test_a_fact_holds_from_its_start_up_to_but_not_at_its_end(self, facts, lives):
        lives("Lisbon", day(1))
        lives("Porto", day(9))
        tick = timedelta(microseconds=1)
        assert places(facts.as_of(day(1) - tick)) == []
        assert places(facts.as_of(day(1))) == ["Lisbon"]
        assert places(facts.as_of(day(9) - tick)) == ["Lisbon"]
        assert places(facts.as_of(day(9))) == ["Porto"]

    def test_what_may_have_many_values_ends_nothing(self, facts):
        facts.add_fact("user", "Maya", "likes", "tea")
        facts.add_fact("user", "Maya", "likes", "chess")
        assert places(facts.as_of()) == ["tea", "chess"]

    def test_other_subjects_and_predicates_end_nothing(self, facts, lives):
        lives("Lisbon")
        facts.add_fact("user", "Ben", "lives in", "Porto")
        facts.add_fact("user", "Maya", "works at", "Acme")
        assert places(facts.as_of(subject="Maya")) == ["Lisbon", "Acme"]

    def test_spelling_of_the_predicate_does_not_count(self, facts, lives):
        lives("Lisbon")
        facts.add_fact("user", "Maya", "LIVES_IN", "Porto")
        facts.add_fact("user", "maya", "livesIn", "Faro")
        assert places(facts.as_of(predicate="lives-in")) == ["Faro"]

    def test_a_given_end_stays_whatever_comes_next(self, facts, lives):
        lives("Lisbon", day(1), day(5))
        lives("Porto", day(9))
        assert periods(facts)[0] == ("Lisbon", day(1), day(5))
        assert facts.as_of(day(7)) == []

    def test_a_stay_that_was_said_to_end_ends_nothing(self, facts, lives):
        lives("Lisbon", day(1))
        lives("Porto", day(5), day(7))
        assert places(facts.as_of(day(6))) == ["Lisbon", "Porto"]
        assert places(facts.as_of(day(8))) == ["Lisbon"]

    def test_once_another_says_that_it_goes_on_it_ends_what_was_before(self, facts, lives):
        lives("Lisbon", day(1))
        lives("Porto", day(5), day(7), source="m1")
        lives("Porto", day(5), source="m2")
        assert periods(facts) == [("Lisbon", day(1), day(5)), ("Porto", day(5), day(7))]

    def test_the_same_value_does_not_end_itself_after_a_pause(self, facts, lives):
        lives("Lisbon", day(1), day(3))
        lives("Lisbon", day(5))
        assert periods(facts) == [("Lisbon", day(1), day(3)), ("Lisbon", day(5), None)]
        assert facts.contradictions() == []

    def test_somebody_who_comes_back_lived_there_twice(self, facts, lives):
        first = lives("Lisbon", day(1))
        lives("Porto", day(5))
        again = lives("Lisbon", day(9))
        assert again != first
        assert periods(facts) == [("Lisbon", day(1), day(5)), ("Porto", day(5), day(9)), ("Lisbon", day(9), None)]

    def test_who_says_no_time_says_it_of_now(self, facts, lives, clock):
        key = lives("Lisbon")
        assert facts.get(key).valid_from == facts.get(key).recorded_at == clock.now - timedelta(seconds=2)

    def test_a_message_that_is_kept_says_it_of_the_time_at_which_it_was_said(self, facts, lives, clock):
        said = facts.add(role="user", content="I have moved to Lisbon.")
        said_at = clock.now
        clock.pass_time(days=40)
        fact = facts.get(lives("Lisbon", source=said))
        assert fact.valid_from == said_at
        assert fact.recorded_at > said_at + timedelta(days=40)

    def test_of_what_ended_at_some_time_before_only_the_last_moment_is_known(self, facts, lives):
        lives("Lisbon", end=day(1))
        assert periods(facts) == [("Lisbon", day(1) - timedelta(microseconds=1), day(1))]

    def test_an_end_before_all_time_is_refused_and_spoils_nothing(self, facts, lives):
        with pytest.raises(InvalidInput, match="valid_to must come after"):
            lives("Eden", end=datetime.min)
        assert lives("Rome", end=datetime.min + timedelta(days=1)) == facts.history("Maya")[0].id

    def test_an_end_before_the_start_is_refused(self, facts, lives):
        with pytest.raises(InvalidInput, match="valid_to must come after valid_from"):
            lives("Lisbon", day(5), day(5))
        assert facts.history("Maya") == []


class TestDeclaring:
    def test_what_is_declared_counts_for_what_is_known_already_and_can_be_taken_back(self, facts):
        for month, rank in enumerate(("captain", "major"), 1):
            facts.add_fact("user", "Maya", "has rank", rank, valid_from=day(1, month))
        assert places(facts.as_of()) == ["captain", "major"]
        facts.declare("HAS_RANK")
        assert places(facts.as_of()) == ["major"]
        facts.declare("has rank", single_valued=False)
        assert places(facts.as_of()) == ["captain", "major"]

    @pytest.mark.parametrize("wrong", ["yes", None, 1, 0, [], object()])
    def test_whether_a_predicate_has_one_value_is_yes_or_no(self, memory, wrong, tmp_path):
        facts = memory.facts("declared")
        with pytest.raises(InvalidInput, match="single_valued must be True or False"):
            facts.declare("lives in", single_valued=wrong)
        facts.add_fact("user", "Ana", "lives in", "Porto")
        assert memory.verify().ok
        memory.export(tmp_path / "export")
        with AgentMemory(":memory:") as other:
            other.import_(tmp_path / "export")
            assert other.verify().ok

    def test_settings_say_which_predicates_have_one_value_unless_it_is_declared(self, memory):
        facts = memory.facts(settings=FactsConfig(single_valued=("likes best",)))
        for fruit in ("figs", "plums"):
            facts.add_fact("user", "Maya", "likes best", fruit)
            facts.add_fact("user", "Maya", "lives in", fruit)
        assert places(facts.as_of()) == ["figs", "plums", "plums"]
        facts.declare("likes best", single_valued=False)
        assert places(facts.as_of(predicate="likes best")) == ["figs", "plums"]


class TestTies:
    def test_of_two_that_began_when_they_were_said_the_later_one_counts(self, facts, lives):
        said = facts.add(role="user", content="I live in Lisbon. No, wait: in Porto.")
        lisbon, porto = lives("Lisbon", source=said), lives("Porto", source=said)
        assert facts.get(lisbon).valid_from == facts.get(lisbon).valid_to == facts.get(porto).valid_from
        assert places(facts.as_of()) == ["Porto"]
        assert places(facts.history("Maya")) == ["Lisbon", "Porto"]
        assert facts.contradictions() == []

    def test_of_two_that_were_learned_at_once_the_one_that_was_said_last_counts(self, memory):
        told = [
            {"message": 1, "subject": "Maya", "predicate": "lives in", "object": each} for each in ("Porto", "Faro")
        ]
        facts = memory.facts(model=lambda messages: json.dumps({"facts": told}))
        porto, faro = facts.extract_and_update_from_text("I live in Porto. Sorry, in Faro.")
        assert porto.recorded_at == faro.recorded_at
        assert places(facts.as_of()) == ["Faro"]
        facts.undo(porto.id)
        assert {fact.id for fact in facts.as_of()} == {porto.id, faro.id}

    def test_two_that_were_said_to_begin_on_one_day_contradict_each_other(self, facts, lives):
        lisbon, porto = lives("Lisbon", day(1)), lives("Porto", day(1))
        assert places(facts.as_of()) == ["Lisbon", "Porto"]
        [found] = facts.contradictions()
        assert [fact.id for fact in found.facts] == [lisbon, porto]
        assert (found.valid_from, found.valid_to) == (day(1), None)

    def test_the_next_value_ends_both(self, facts, lives):
        lives("Lisbon", day(1))
        lives("Porto", day(1))
        lives("Faro", day(5))
        assert periods(facts) == [("Lisbon", day(1), day(5)), ("Porto", day(1), day(5)), ("Faro", day(5), None)]
        assert [(each.valid_from, each.valid_to) for each in facts.contradictions()] == [(day(1), day(5))]

    def test_whoever_names_the_day_later_makes_it_a_contradiction(self, facts, lives):
        said = facts.add(role="user", content="I live in Lisbon. No, wait: in Porto.")
        lives("Lisbon", source=said)
        begun = facts.get(lives("Porto", source=said)).valid_from
        lives("Porto", begun, source=said)
        assert places(facts.as_of()) == ["Lisbon", "Porto"]


class TestContradictions:
    def test_a_stay_within_another_is_one_for_as_long_as_it_was(self, facts, lives):
        lisbon, porto = lives("Lisbon", day(1)), lives("Porto", day(5), day(7))
        [found] = facts.contradictions("maya", "lives_in")
        assert ([fact.id for fact in found.facts], found.valid_from, found.valid_to) == (
            [lisbon, porto],
            day(5),
            day(7),
        )

    def test_only_those_of_a_subject_or_predicate_are_told_if_wanted(self, facts):
        for subject in ("Maya", "Ben"):
            for predicate in ("lives in", "works at"):
                for value in ("Lisbon", "Porto"):
                    facts.add_fact("user", subject, predicate, value, valid_from=day(1))
        assert len(facts.contradictions()) == 4
        assert {each.facts[0].subject for each in facts.contradictions("Ben")} == {"Ben"}
        assert [each.facts[1].predicate for each in facts.contradictions(predicate="works at")] == ["works at"] * 2
        assert len(facts.contradictions("Ben", "works at")) == 1
        assert facts.contradictions(predicate="likes") == []

    @pytest.mark.parametrize("asked", [{"subject": 5}, {"predicate": 5}])
    def test_of_what_is_no_name_are_none(self, facts, asked):
        with pytest.raises(InvalidInput, match="is text, not int"):
            facts.contradictions(**asked)

    def test_what_was_replaced_at_once_contradicts_nothing(self, facts, lives, clock):
        faro = lives("Faro", day(1), clock.now + timedelta(days=9))
        said = facts.add(role="user", content="I live in Lisbon. No, wait: in Porto.")
        lives("Lisbon", source=said)
        porto = lives("Porto", source=said)
        assert [[fact.id for fact in each.facts] for each in facts.contradictions()] == [[faro, porto]]

    def test_one_that_follows_the_other_is_none(self, facts, lives):
        lives("Lisbon", day(1), day(5))
        lives("Porto", day(5))
        assert facts.contradictions() == []


class TestLateNews:
    def test_what_is_learned_late_takes_its_place_in_between(self, facts, lives):
        lives("Lisbon", day(1))
        lives("Faro", day(9))
        lives("Porto", day(5))
        assert periods(facts) == [("Lisbon", day(1), day(5)), ("Porto", day(5), day(9)), ("Faro", day(9), None)]

    def test_what_was_before_all_is_ended_by_the_first(self, facts, lives):
        lives("Lisbon", day(5))
        lives("Porto", day(1))
        assert periods(facts) == [("Porto", day(1), day(5)), ("Lisbon", day(5), None)]

    def test_what_we_learned_later_we_did_not_know_before(self, facts, lives, clock):
        lives("Lisbon", day(1))
        known = clock.now
        lives("Porto", day(5))
        assert places(facts.as_of(day(6), known)) == ["Lisbon"]
        assert places(facts.as_of(day(6))) == ["Porto"]
        assert [fact.valid_to for fact in facts.history("Maya", recorded=known)] == [None]
        assert facts.as_of(day(6), known - timedelta(microseconds=1)) == []

    def test_an_earlier_start_of_what_is_known_makes_it_longer(self, facts, lives, clock):
        first = lives("Lisbon", day(5))
        known = clock.now
        assert lives("Lisbon", day(1)) == first
        assert periods(facts) == [("Lisbon", day(1), None)]
        assert facts.as_of(day(3), known) == []


class TestTheSameAgain:
    def test_it_is_one_fact_with_two_sources(self, facts, lives):
        first = lives("Lisbon", source="m1")
        assert lives("LISBON", source=("m2", "talk")) == first
        [fact] = facts.as_of()
        assert (fact.object, fact.sources) == ("Lisbon", ("m1", "m2"))
        assert [each.conversation_id for each in fact.told] == [None, "talk"]

    def test_who_says_it_twice_says_it_once(self, facts, lives):
        first = lives("Lisbon", source="m1")
        known = facts.get(first)
        assert lives("Lisbon", source="m1") == first
        assert facts.get(first) == known

    def test_a_message_that_is_read_again_after_the_fact_has_ended_says_nothing_new(self, facts, lives):
        first = lives("Lisbon", source="m1")
        lives("Porto", source="m2")
        before = facts.history("Maya")
        assert lives("Lisbon", source="m1") == first
        assert facts.history("Maya") == before
        assert places(facts.as_of()) == ["Porto"]

    def test_a_message_can_tell_of_a_stay_and_of_coming_back(self, facts, lives):
        lives("Lisbon", end=day(1), source="m1")
        lives("Porto", day(1), source="m1")
        lives("Lisbon", source="m1")
        assert places(facts.as_of()) == ["Lisbon"]
        assert places(facts.history("Maya")) == ["Lisbon", "Porto", "Lisbon"]

    def test_it_holds_from_the_first_start_to_the_last_end_that_were_given(self, facts, lives):
        key = lives("Lisbon", day(5), day(7), source="m1")
        assert lives("Lisbon", day(6), day(9), source="m2") == key
        assert lives("Lisbon", day(1), day(6), source="m3") == key
        assert periods(facts) == [("Lisbon", day(1), day(9))]

    def test_after_its_end_it_is_another_fact(self, facts, lives):
        first = lives("Lisbon", day(1), day(5))
        assert lives("Lisbon", day(5), day(9)) != first

    def test_the_sources_of_one_call_tell_of_one_fact(self, facts, lives):
        first = lives("Lisbon", source="m1")
        lives("Porto", source="m2")
        again = lives("Lisbon", source=["m3", "m1"])
        assert again != first
        assert facts.get(again).sources == ("m3", "m1")

    def test_the_surest_counts(self, facts, lives):
        key = lives("Lisbon", confidence=0.5)
        assert facts.get(key).confidence == 0.5
        for confidence, known in ((0.9, 0.9), (0.2, 0.9), (None, 0.9)):
            lives("Lisbon", confidence=confidence)
            assert facts.get(key).confidence == known
        assert len(facts.get(key).told) == 2  # nobody said anything new by being less sure


class TestUndoing:
    def test_a_new_fact_is_gone_and_what_it_had_ended_goes_on(self, facts, lives):
        lives("Lisbon", day(1))
        porto = lives("Porto", day(5))
        facts.undo(porto)
        assert facts.get(porto) is None
        assert periods(facts) == [("Lisbon", day(1), None)]

    def test_undone_again_it_is_as_it_was(self, facts, lives):
        lives("Lisbon", day(1))
        porto = lives("Porto", day(5))
        before = facts.history("Maya")
        facts.undo(porto)
        facts.undo(porto)
        assert facts.history("Maya") == before

    def test_what_another_ended_goes_on_beside_it(self, facts, lives):
        lisbon, porto = lives("Lisbon", day(1)), lives("Porto", day(5))
        facts.undo(lisbon)
        assert periods(facts) == [("Lisbon", day(1), None), ("Porto", day(5), None)]
        [found] = facts.contradictions()
        assert ([fact.id for fact in found.facts], found.valid_from) == ([lisbon, porto], day(5))
        facts.undo(lisbon)
        assert facts.get(lisbon).ended_by == porto

    def test_beside_one_it_still_ends_by_the_next(self, facts, lives):
        lisbon = lives("Lisbon", day(1))
        lives("Porto", day(5))
        facts.undo(lisbon)
        faro = lives("Faro", day(9))
        assert (facts.get(lisbon).ended_by, facts.get(lisbon).valid_to) == (faro, day(9))

    def test_it_goes_on_beside_as_many_as_it_is_wanted_to(self, facts, lives):
        lisbon = lives("Lisbon", day(1))
        lives("Porto", day(5))
        facts.undo(lisbon)
        lives("Faro", day(9))
        facts.undo(lisbon)
        assert facts.get(lisbon).valid_to is None
        assert [(each.valid_from, each.valid_to) for each in facts.contradictions()] == [
            (day(5), day(9)),
            (day(9), None),
        ]

    def test_the_last_source_does_not_count(self, facts, lives):
        key = lives("Lisbon", day(5), source="m1")
        lives("Lisbon", day(1), source="m2")
        facts.undo(key)
        assert (facts.get(key).valid_from, facts.get(key).sources) == (day(5), ("m1",))

    def test_news_of_itself_are_taken_back_before_an_older_end(self, facts, lives):
        lisbon = lives("Lisbon", day(2), source="m1")
        porto = lives("Porto", day(5))
        lives("Lisbon", day(1), source="m2")
        facts.undo(lisbon)
        assert (facts.get(lisbon).valid_from, facts.get(lisbon).ended_by) == (day(2), porto)

    def test_an_end_by_a_correction_of_another_is_the_last_that_happened(self, facts, lives):
        porto = facts.add_fact("user", "Ben", "lives in", "Porto", valid_from=day(5))
        lisbon = lives("Lisbon", day(1))
        facts.update(porto, subject="Maya")
        assert facts.get(lisbon).ended_by == porto
        facts.undo(lisbon)
        assert places(facts.as_of()) == ["Lisbon", "Porto"]

    def test_a_correction_is_taken_back_and_had_again(self, facts, lives):
        key = lives("Lisbon", day(1))
        facts.update(key, obj="Porto")
        for expected in ("Lisbon", "Porto", "Lisbon"):
            facts.undo(key)
            assert facts.get(key).object == expected

    def test_what_was_known_before_is_known_of_that_time(self, facts, lives, clock):
        lives("Lisbon", day(1))
        porto = lives("Porto", day(5))
        before = clock.now
        facts.undo(porto)
        after = clock.now
        facts.undo(porto)
        assert places(facts.as_of(day(6), before)) == ["Porto"]
        assert places(facts.as_of(day(6), after)) == ["Lisbon"]
        assert places(facts.as_of(day(6))) == ["Porto"]

    def test_told_again_what_was_taken_back_is_a_new_fact(self, facts, lives):
        first = lives("Lisbon", day(1))
        facts.undo(first)
        assert lives("Lisbon", day(1)) != first
        assert places(facts.as_of()) == ["Lisbon"]

    def test_what_is_not_there_cannot_be_undone(self, facts):
        with pytest.raises(MessageError, match="There is no fact"):
            facts.undo("nothing")


class TestCorrections:
    def test_the_past_is_asked_for_under_the_names_of_then(self, facts, lives, clock):
        key = lives("Lisbon", day(1))
        then = clock.now
        facts.update(key, subject="Ben", obj="Porto")
        assert facts.as_of(subject="Maya") == []
        [was] = facts.as_of(day(2), then, subject="Maya")
        assert (was.id, was.object) == (key, "Lisbon")
        assert facts.as_of(day(2), then, subject="Ben") == []
        assert [fact.id for fact in facts.as_of(day(2), then, obj="Lisbon")] == [key]

    def test_what_it_said_until_the_correction_was_undone_is_found_as_well(self, facts, lives, clock):
        key = lives("Lisbon", day(1))
        facts.update(key, subject="Ben")
        then = clock.now
        facts.undo(key)
        assert [fact.id for fact in facts.as_of(day(2), then, subject="Ben")] == [key]
        assert facts.as_of(subject="Ben") == []

    def test_what_was_corrected_away_had_ended_another_then(self, facts, lives, clock):
        lives("Lisbon", day(1))
        porto = lives("Porto", day(5))
        then = clock.now
        facts.update(porto, subject="Ben")
        assert places(facts.as_of(day(6), subject="Maya")) == ["Lisbon"]
        assert places(facts.as_of(day(6), then, subject="Maya")) == ["Porto"]
        assert places(facts.as_of(day(6), then, obj="Lisbon")) == []

    def test_an_end_can_be_given_and_taken_away(self, facts, lives):
        key = lives("Lisbon", day(1))
        facts.update(key, valid_to=day(5))
        assert periods(facts) == [("Lisbon", day(1), day(5))]
        facts.update(key, valid_to=None)
        assert periods(facts) == [("Lisbon", day(1), None)]

    def test_a_stay_that_is_said_to_go_on_after_all_ends_what_was_before(self, facts, lives):
        lives("Lisbon", day(1))
        key = lives("Porto", day(5), day(7))
        facts.update(key, valid_to=None)
        assert periods(facts) == [("Lisbon", day(1), day(5)), ("Porto", day(5), None)]

    def test_it_stands_against_what_others_say_later(self, facts, lives):
        key = lives("Lisbon", day(5), source="m1")
        facts.update(key, valid_from=day(6))
        assert lives("Lisbon", day(1), source="m2") == key
        assert facts.get(key).valid_from == day(6)
        assert facts.get(key).sources == ("m1", "m2")

    def test_an_end_before_the_start_is_refused(self, facts, lives):
        key = lives("Lisbon", day(5))
        with pytest.raises(InvalidInput, match="valid_to must come after"):
            facts.update(key, valid_to=day(5))
        assert periods(facts) == [("Lisbon", day(5), None)]

    def test_what_was_taken_back_cannot_be_corrected(self, facts, lives):
        key = lives("Lisbon")
        facts.undo(key)
        with pytest.raises(MessageError, match="was taken back"):
            facts.update(key, obj="Porto")
        facts.undo(key)
        assert facts.get(key).object == "Lisbon"


class TestRemoval:
    def test_what_is_removed_is_not_known_of_any_time_and_what_it_had_ended_goes_on(self, facts, lives, clock):
        lives("Lisbon", day(1))
        porto = lives("Porto", day(5))
        then = clock.now
        assert facts.remove_by_id(porto) is True
        assert places(facts.as_of(day(6), then)) == ["Lisbon"]
        assert periods(facts) == [("Lisbon", day(1), None)]
        with pytest.raises(MessageError):
            facts.undo(porto)

    def test_a_corrected_fact_is_not_found_by_what_it_was(self, facts, lives, clock):
        key = lives("Lisbon", day(1))
        then = clock.now
        facts.update(key, subject="Ben")
        facts.remove_by_id(key)
        assert facts.as_of(day(6), then, subject="Maya") == []

    def test_with_a_message_goes_what_it_alone_says(self, facts, lives):
        said = facts.add(role="user", content="I moved from Lisbon to Porto.")
        lives("Lisbon", day(1), source=[said, "m1"])
        lives("Porto", day(5), source=said)
        facts.remove_by_id(said)
        [fact] = facts.history("Maya")
        assert (fact.object, fact.sources, fact.valid_to) == ("Lisbon", ("m1",), None)


class TestNames:
    def test_merged_names_are_one_and_parted_they_are_two(self, facts, lives):
        lives("Lisbon", day(1))
        facts.add_fact("user", "M. Ortiz", "lives in", "Porto", valid_from=day(5))
        facts.merge("M. Ortiz", "Maya")
        assert [(fact.subject, fact.object) for fact in facts.as_of()] == [("Maya", "Porto")]
        assert periods(facts, "M. Ortiz") == periods(facts) == [("Lisbon", day(1), day(5)), ("Porto", day(5), None)]
        assert facts.unmerge("M. Ortiz") is True
        assert periods(facts) == [("Lisbon", day(1), None)]
        assert [(fact.subject, fact.object) for fact in facts.as_of(subject="m. ortiz")] == [("M. Ortiz", "Porto")]

    def test_values_that_are_one_end_and_contradict_nothing(self, facts, lives):
        lives("Lisbon", day(1))
        lives("Lisboa", day(5))
        assert periods(facts)[0] == ("Lisbon", day(1), day(5))
        facts.merge("Lisboa", "Lisbon")
        assert periods(facts) == [("Lisbon", day(1), None), ("Lisbon", day(5), None)]
        assert facts.contradictions() == []

    def test_the_same_told_under_another_name_is_another_source(self, facts, lives):
        first = lives("Lisbon")
        facts.merge("M. Ortiz", "Maya")
        assert facts.add_fact("user", "M. ORTIZ", "lives in", "Lisbon", source="m1") == first

    def test_merges_are_followed_from_name_to_name(self, facts):
        facts.merge("M", "M. Ortiz")
        facts.merge("M. Ortiz", "Maya")
        facts.add_fact("user", "M", "lives in", "Lisbon")
        assert [fact.subject for fact in facts.as_of(subject="Maya")] == ["Maya"]

    def test_a_name_that_is_merged_anew_means_only_what_was_said_last(self, facts):
        facts.merge("Bob", "Robert")
        facts.merge("Bob", "Robin")
        facts.add_fact("user", "Bob", "lives in", "Lisbon")
        assert places(facts.as_of(subject="Robin")) == ["Lisbon"]
        assert facts.as_of(subject="Robert") == []

    def test_names_cannot_be_merged_both_ways(self, facts):
        facts.merge("Bob", "Robert")
        with pytest.raises(InvalidInput, match="Take that back"):
            facts.merge("Robert", "Bob")
        facts.merge("Bob", "Robert")
        assert [(alias.name, alias.into) for alias in facts.aliases()] == [("Bob", "Robert")]


class TestForks:
    def test_a_fork_knows_all_that_was_known_and_goes_its_own_way(self, facts, lives):
        lisbon = lives("Lisbon", day(1))
        fork = facts.fork("what if")
        porto = fork.add_fact("user", "Maya", "lives in", "Porto", valid_from=day(5))
        lives("Faro", day(7))
        assert periods(facts) == [("Lisbon", day(1), day(7)), ("Faro", day(7), None)]
        assert periods(fork) == [("Lisbon", day(1), day(5)), ("Porto", day(5), None)]
        fork.undo(lisbon)
        fork.update(porto, subject="Ben")
        assert periods(facts) == [("Lisbon", day(1), day(7)), ("Faro", day(7), None)]
        assert periods(fork) == [("Lisbon", day(1), None)]

    def test_what_is_removed_on_one_side_stays_on_the_other(self, facts, lives):
        key = lives("Lisbon", day(1))
        fork = facts.fork("what if")
        assert fork.remove_by_id(key) is True
        assert periods(fork) == []
        assert periods(facts) == [("Lisbon", day(1), None)]
        again = facts.fork("again")
        facts.remove_by_id(key)
        assert places(again.as_of()) == ["Lisbon"]
