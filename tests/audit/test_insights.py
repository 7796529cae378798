"""What an audit trail tells of its use: topics, how often it went well, which models did the work."""

from __future__ import annotations

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit import audit_report
from langchain_agentmem.audit.audit_report import Insights, Success, learn
from langchain_agentmem.base.namespaces import range_of
from langchain_agentmem.language_models.model_calls import NO_STREAM

from .entries import SENTENCES, add, add_all, call, entry, read

pytestmark = pytest.mark.sqlite_suffices


@pytest.fixture
def quick():
    """A memory on the engine at hand that is quickest, where both would do the same."""
    with AgentMemory(":memory:") as memory:
        yield memory


def learned(memory, namespace=(), **options):
    return read(memory, learn, *range_of(namespace), **options)


def talk(*turns, conversation="c", **fields):
    """A conversation: prompts, each with its reply."""
    return [entry(prompt, reply, conversation_id=conversation, **fields) for prompt, reply in turns]


def success(memory, *turns):
    add_all(memory, talk(*turns))
    return learned(memory).success


class TestSuccess:
    def test_nothing_is_known_of_nothing(self, quick):
        found = learned(quick)
        assert found == Insights()
        assert (found.success.rate, str(found)) == (None, "")

    def test_the_share_of_what_went_well_is_told_with_what_told_it(self, memory):
        add_all(
            memory,
            [
                *talk(("Where is it?", "Here."), ("Thanks! And the other?", "There."), ("Who has it?", "Maya.")),
                *talk(("Add it up", "41"), ("No, that's wrong", "42"), ("Now print it", "Done."), conversation="d"),
            ],
        )
        found = learned(memory).success
        assert (found.turns, found.succeeded, found.failed, found.unknown) == (6, 3, 1, 2)
        assert (found.rate, found.because) == (0.75, {"corrected": 1, "thanked": 1, "went on": 2})
        assert "Success: 75.0%; 4 of 6 prompts have an end that is known; corrected 1;" in str(learned(memory))

    @pytest.mark.parametrize("complaint", SENTENCES["complaints"])
    def test_a_prompt_that_corrects_or_complains_says_that_the_one_before_failed(self, quick, complaint):
        found = success(quick, ("Paint it", "Painted."), (complaint, "Sorry."))
        assert (found.failed, found.because) == (1, {"corrected": 1})

    @pytest.mark.parametrize("further", SENTENCES["going_on"])
    def test_any_other_prompt_says_that_it_went_well(self, quick, further):
        found = success(quick, ("Paint it", "Painted."), (further, "Fine, that is painted too."))
        assert (found.succeeded, found.failed) == (1, 0)

    def test_a_no_that_answers_a_question_is_no_complaint(self, quick):
        assert success(quick, ("Delete it", "Shall I keep a copy?"), ("No", "Deleted.")).succeeded == 1

    @pytest.mark.parametrize("reply", SENTENCES["giving_up"])
    def test_a_reply_that_gives_up_failed_though_the_user_goes_on(self, quick, reply):
        assert success(quick, ("Do it", reply), ("Then do that", "Done.")).because == {"gave up": 1}

    @pytest.mark.parametrize("reply", SENTENCES["speaking_of_failures"])
    def test_a_reply_that_only_speaks_of_failures_did_not_fail(self, quick, reply):
        assert success(quick, ("Do it", reply), ("Then do that", "Done.")).failed == 0

    def test_a_prompt_that_asks_the_same_again_says_so(self, quick):
        assert success(quick, ("Where is it?", "Here."), ("where is  it", "There.")).because == {"asked again": 1}

    def test_a_call_that_ended_with_an_error_failed_also_where_nothing_follows(self, memory):
        failed = call(["Where?"], "", error="TimeoutError: 30 s", conversation_id="c")
        add(memory, failed, entry("Alone", "Something went wrong."), entry("Alone too", "Fine."))
        found = learned(memory).success
        assert (found.because, found.unknown) == ({"error": 1, "gave up": 1}, 1)

    def test_calls_with_tools_retries_and_the_exchange_they_end_in_are_one_turn(self, memory):
        again = [
            call(["Where?"], reply, error=error, conversation_id="c") for reply, error in [("", "503"), ("", None)]
        ]
        add(memory, *again, call(["Where?"], "Here.", conversation_id="c"), *talk(("Where?", "Here."), ("Thanks", "!")))
        found = learned(memory).success
        assert (found.turns, found.because) == (2, {"thanked": 1})

    def test_hidden_entries_are_no_turns_but_tell_of_the_turn_before(self, quick):
        add_all(quick, [*talk(("Where?", "Here.")), *talk(("thanks", "welcome"), junk=("small talk",))])
        found = learned(quick)
        assert (found.success.turns, found.success.because) == (1, {"thanked": 1})

    def test_calls_that_memory_makes_itself_are_no_turns(self, memory):
        add(memory, call(["Summarize."], "Done.", conversation_id="c", model="m", extra={"tags": [NO_STREAM]}))
        found = learned(memory)
        assert found.success == Success()
        assert [use.calls for use in found.models] == [1]

    def test_conversations_may_be_interleaved_and_be_of_many_namespaces(self, memory):
        for path in ("a\x1f", "b\x1f"):
            add_all(memory, talk(("Where?", "Here.")), path)
        for path, following in (("a\x1f", "Wrong."), ("b\x1f", "Thanks.")):
            add_all(memory, talk((following, "Well.")), path)
        assert learned(memory).success.because == {"corrected": 1, "thanked": 1}
        assert learned(memory, ("a",)).success.because == {"corrected": 1}


class TestTopics:
    def test_what_many_conversations_speak_of_comes_first(self, memory):
        add_all(
            memory,
            [
                each
                for i in range(9)
                for each in talk(
                    ("How do I prune the quince trees?", "So."),
                    ("Please show me the pruning of my quince trees", "So."),
                    (f"What does code {i} mean, and item{chr(97 + i)}?", "That."),
                    conversation=f"c{i}",
                )
            ]
            + [each for i in range(30) for each in talk(("Tell me of bees", "They hum."), conversation="bees")],
        )
        found = learned(memory).topics
        assert [each.name for each in found] == ["prune", "quince", "trees", "code"]
        assert (found[0].conversations, found[0].prompts) == (9, 18)
        assert "quince: 9 conversations, 18 prompts" in str(learned(memory))

    def test_a_long_talk_in_one_conversation_is_no_common_topic(self, quick):
        add_all(quick, [each for _ in range(30) for each in talk(("All about bees", "They hum."))])
        add_all(quick, talk(("Where are the keys?", "Here."), conversation="d"))
        assert learned(quick).topics == ()

    def test_of_a_single_conversation_what_comes_up_again_is_told(self, quick):
        add_all(quick, talk(("Prune the quince", "So."), ("The quince is ill", "Oh."), ("And the pear?", "No.")))
        assert [each.name for each in learned(quick).topics] == ["quince"]

    def test_how_people_speak_is_no_topic_in_any_language(self, quick):
        said = ["birnen", "quitten", "kirschen", "pflaumen", "himbeeren"]
        prompts = [f"Wie schneide ich meine {said[i % 5]} im Herbst?" for i in range(40)]
        add_all(quick, [each for i, text in enumerate(prompts) for each in talk((text, "So."), conversation=f"c{i}")])
        names = {each.name for each in learned(quick).topics}
        assert names == set(said)

    def test_other_scripts_are_counted_too(self, quick):
        for i in range(3):
            add_all(quick, talk(("Где растёт айва?", "Там."), ("果樹園", "是"), conversation=f"c{i}"))
        names = {each.name for each in learned(quick).topics}
        assert any("аива" in name for name in names)
        assert "果樹" in names

    def test_the_agents_words_and_hidden_entries_do_not_count(self, quick):
        for i in range(4):
            add_all(quick, talk(("Where?", "In the orchard."), conversation=f"c{i}"))
            add_all(quick, talk(("testing zebra", "ok"), conversation=f"c{i}", junk=("test entry",)))
        assert learned(quick).topics == ()

    def test_what_is_common_is_found_among_more_words_than_are_remembered(self, quick, monkeypatch):
        monkeypatch.setattr(audit_report, "MOST_WORDS", 60)
        letters = "bcdfghklmnpqrstvwxz"
        made = [f"{a}u{b}o {b}a{a}e{b} quince" for a in letters for b in letters]
        add_all(quick, [each for i, text in enumerate(made) for each in talk((text, "So."), conversation=f"c{i % 90}")])
        add_all(quick, [entry("Where are the keys?", conversation_id=f"k{i}") for i in range(100)])
        assert "quince" in [each.name for each in learned(quick).topics]

    def test_of_very_many_entries_the_newest_are_read(self, memory, monkeypatch):
        monkeypatch.setattr(audit_report, "MOST_READ", 6)
        for what in ("bees", "keys"):
            add_all(memory, [entry(f"Where are the {what}?", conversation_id=f"{what}{i}") for i in range(5)])
        found = learned(memory)
        assert (found.read, found.success.turns, [each.name for each in found.topics]) == (6, 6, ["keys"])

    def test_so_many_are_told_as_are_asked_for(self, quick):
        for i in range(3):
            add_all(quick, talk(("Quince, pear and apple", "So."), ("Apple!", "So."), conversation=f"c{i}"))
        assert len(learned(quick, topics=2).topics) == 2

    def test_hostile_prompts_do_no_harm(self, quick):
        texts = ["", "\x00" * 1000, "a" * 1_000_000, "\ud800", "?" * 100_000, "0x" + "f" * 5_000, "é" * 3_000]
        add_all(
            quick, [entry(text.replace("\ud800", "\ufffd"), conversation_id=f"c{i}") for i, text in enumerate(texts)]
        )
        assert learned(quick).success.turns == len(texts)


class TestModels:
    def test_each_is_told_with_its_calls_tokens_errors_and_median_duration(self, memory):
        add(
            memory,
            call(["a"], "b", model="large", input_tokens=10, output_tokens=3, duration=1.0),
            call(["c"], "d", model="large", input_tokens=20, duration=9.0),
            call(["e"], "", model="large", error="503", duration=2.0),
            call(["g"], "h", duration=None),
        )
        large, unknown = learned(memory).models
        assert (large.model, large.calls, large.errors) == ("large", 3, 1)
        assert (large.input_tokens, large.output_tokens, large.median_duration) == (30, 3, 2.0)
        assert (unknown.model, unknown.calls, unknown.median_duration) == (None, 1, None)
        assert str(large) == "large: 3 calls, 1 failed, 30 tokens in, 3 out, median 2.00 s"
