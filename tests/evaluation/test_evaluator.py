"""The evaluation of any memory: every kind counts, plain searches see the same texts, and misses say why."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import InvalidInput
from langchain_agentmem.evaluation import EvaluationQuestion, evaluate
from langchain_agentmem.evaluation import evaluator as evaluating
from langchain_agentmem.evaluation.evaluator import OURS, passages_of
from langchain_agentmem.evaluation.recall_report import recall_of


def asked(text, *evidence, **more):
    return EvaluationQuestion(text=text, evidence=frozenset(evidence), **more)


def said(memory, conversation, namespace, *texts):
    """Messages of a user, one a day from the first of March; their ids are numbers behind the conversation's."""
    chat = memory.conversation(conversation, namespace)
    for number, text in enumerate(texts, 1):
        told = {"created_at": datetime(2026, 3, number, tzinfo=UTC).isoformat()}
        chat.add_message(HumanMessage(text, id=f"{conversation}{number}", additional_kwargs=told))


@pytest.fixture
def filled(memory):
    said(memory, "a", ("ada",), "A grey heron stood at the pond.", "It rained all day.", "The heron ate a frog.")
    said(memory, "b", ("ben",), "My sister bought a canoe.", "We had soup.")
    memory.facts(namespace=("ada",)).add_fact("user", "Ada", "lives_in", "Lisbon")
    memory.layers(namespace=("ada",)).archival.write("The boat key hangs behind the door.")
    memory.store.put(("ben",), "tea", {"text": "Ben likes his tea with honey"})
    return memory


class TestRecall:
    @pytest.mark.slow
    def test_evidence_may_be_of_any_kind_and_is_told_by_kind(self, filled):
        ids = {each.kind: each.ids[0] for each in passages_of(filled)}
        assert ids.keys() == {"message", "fact", "record", "item"}
        found = evaluate(
            filled,
            [
                asked("Where is the heron?", "a1", "a3", namespace=("ada",)),
                asked("Where does Ada live?", ids["fact"], namespace=("ada",)),
                asked("Where is the key of the boat?", ids["record"], namespace=("ada",)),
                asked("How does Ben like tea?", "tea", namespace=("ben",)),
            ],
        )
        assert found.reports[OURS].recall(5) == 1
        assert found.misses == ()
        assert found.parts()["kind"].keys() == {"message", "fact", "record", "item"}
        assert found.parts()["namespace"].keys() == {"ada", "ben"}
        assert "category" not in found.parts()

    def test_of_mixed_evidence_each_kind_has_its_own_recall(self, filled):
        [fact] = [each.ids[0] for each in passages_of(filled) if each.kind == "fact"]
        found = evaluate(filled, [asked("Where does Ada live?", fact, "b2")], cuts=(1,))
        assert found.reports[OURS].recall(1) == 0.5
        parts = found.parts()["kind"]
        assert (parts["fact"][OURS].recall(1), parts["message"][OURS].recall(1)) == (1, 0)

    def test_what_is_kept_as_several_things_counts_by_the_id_of_each(self, memory):
        memory.layers().archival.write("The heron lives at the pond.")
        memory.layers().recall.append("said", "The heron lives at the pond.")
        [passage] = passages_of(memory)
        assert len(passage.ids) == 2
        for name in passage.ids:
            assert evaluate(memory, [asked("heron", name)]).reports[OURS].recall(5) == 1

    def test_a_question_without_a_namespace_looks_everywhere_and_the_root_is_the_root_alone(self, filled):
        for namespace, recall in ((None, 1), ((), 0), (("ben",), 1), (("ada",), 0)):
            found = evaluate(filled, [asked("Who bought a canoe?", "b1", namespace=namespace)], baselines=True)
            assert {name: each.recall(5) for name, each in found.reports.items() if name != "vectors alone"} == {
                OURS: recall,
                "BM25": recall,
                "BM25, stems": recall,
            }

    def test_a_question_with_a_time_finds_what_was_said_before_and_never_itself(self, filled):
        said(filled, "c", ("ada",), "Thaw.", "Where did the heron stand?", "The heron stood at the pond.")
        one = asked("Where did the heron stand?", "a1", namespace=("ada",), at=datetime(2026, 3, 2, tzinfo=UTC))
        found = evaluate(filled, [one], cuts=(1,), baselines=True)
        assert {each.recall(1) for each in found.reports.values()} == {1}

    def test_a_memory_within_a_namespace_is_asked_there(self, filled):
        told = []
        questions = [asked("heron", "a1"), asked("canoe", "b1")]
        found = evaluate(filled.within(("ada",)), questions, baselines=True, tell=lambda *at: told.append(at))
        assert {each.recall(5) for each in found.reports.values()} == {0.5}
        assert {total for doing, _, total in told if doing == "reading the texts"} == {5}

    def test_twice_is_the_same_to_the_last_byte_and_nothing_is_stored(self, filled):
        questions = [asked("Where is the heron?", "a1", "a3"), asked("canoe soup", "b2", category="food")]
        before = filled.stats()["bytes_by_part"]
        one, other = (json.dumps(asdict(evaluate(filled, questions, baselines=True)), default=repr) for _ in range(2))
        assert one == other
        assert filled.stats()["bytes_by_part"] == before

    def test_an_interval_holds_the_mean_and_is_the_same_each_time(self):
        questions = [asked(str(number), "a") for number in range(50)]

        def intervals():
            report = recall_of(lambda question, limit: [["a"]] * (int(question.text) % 3 > 0), questions, (1,))
            [(low, high)] = report.intervals()
            assert low < report.recall(1) < high
            return low, high

        assert len({intervals() for _ in range(5)}) == 1

    def test_questions_without_evidence_are_counted_and_not_asked(self, filled):
        found = evaluate(filled, [asked("heron", "a1"), asked("Who slept?")])
        assert (found.unanswerable, len(found.reports[OURS].outcomes)) == (1, 1)

    def test_an_empty_memory_finds_nothing(self, memory):
        found = evaluate(memory, [asked("Where is the heron?", "a1")], baselines=True)
        assert {each.recall(5) for each in found.reports.values()} == {0}
        assert [each.reason for each in found.misses] == ["nothing that can be found has this id"]

    @pytest.mark.parametrize("cuts", [(), (10, 5), (0, 5), (5, 5), (20_000,)])
    def test_cuts_that_are_none_are_refused(self, memory, cuts):
        with pytest.raises(InvalidInput, match="ascending numbers"):
            evaluate(memory, [asked("heron", "a1")], cuts=cuts)

    def test_where_nothing_could_be_found_nothing_is_measured(self, memory):
        for questions in ([], [asked("Who slept?")]):
            with pytest.raises(InvalidInput, match="no question with evidence"):
                evaluate(memory, questions)


class TestBaselines:
    def test_without_the_extra_vectors_are_said_to_be_missing(self, filled, monkeypatch):
        def missing():
            raise evaluating.MissingExtra("static vectors", "static")

        monkeypatch.setattr(evaluating, "StaticEmbeddings", missing)
        found = evaluate(filled, [asked("heron", "a1")], baselines=True)
        assert found.reports.keys() == {OURS, "BM25", "BM25, stems"}
        assert "langchain-agentmem[static]" in found.unmeasured["vectors alone"]

    def test_progress_is_told_to_the_end(self, filled, monkeypatch):
        monkeypatch.setattr(evaluating, "_PAGE", 3)
        told = []
        evaluate(filled, [asked("heron", "a1"), asked("canoe", "b1")], baselines=True, tell=lambda *at: told.append(at))
        ends = {doing: done == total for doing, done, total in told}
        assert ends == {
            "reading the texts": True,
            **{f"asking {name}": True for name in (OURS, "BM25", "BM25, stems", "vectors alone")},
        }


class TestMisses:
    def test_each_says_why(self, filled):
        march = datetime(2026, 3, 2, tzinfo=UTC)
        misses = evaluate(
            filled,
            [
                asked("Where is the heron?", "nothing"),
                asked("Who has a canoe?", "b1", namespace=("ada",)),
                asked("What did the heron eat?", "a3", namespace=("ada",), at=march),
                asked("Where is Vesuvius?", "b2", namespace=("ben",)),
            ],
        ).misses
        assert [(each.id, each.kind, each.reason) for each in misses] == [
            ("nothing", None, "nothing that can be found has this id"),
            ("b1", "message", "it is in ben, where the question does not look"),
            ("a3", "message", "it was said on 2026-03-03, after the question was asked"),
            ("b2", "message", "no word of the question, and nothing else, leads to it"),
        ]
        assert all(each.found is None for each in misses)

    def test_what_stands_further_down_has_its_place_its_signals_and_what_stood_above(self, memory):
        said(memory, "a", (), *(f"The heron ate frog {number} at the pond." for number in range(8)), "A heron.")
        [miss] = evaluate(memory, [asked("What did the heron eat at the pond?", "a9")], cuts=(2, 3)).misses
        place = int(miss.reason.removeprefix("it stands at place "))
        assert 3 < place <= 9
        assert miss.found.id == "a9"
        assert "heron" in miss.found.why.terms
        assert len(miss.above) == 3
        assert all(each.score >= miss.found.score for each in miss.above)

    def test_only_what_stands_above_it_is_told(self, memory):
        said(memory, "a", (), "The heron ate a frog at the pond.", "A heron.")
        [miss] = evaluate(memory, [asked("What did the heron eat at the pond?", "a2")], cuts=(1,)).misses
        assert miss.reason == "it stands at place 2"
        assert [each.id for each in miss.above] == ["a1"]

    def test_of_the_deepest_search_it_is_told_how_deep_that_was(self, memory, monkeypatch):
        monkeypatch.setattr(evaluating, "DEEPEST", 2)
        said(memory, "a", (), *(f"The heron ate frog {number} at the pond." for number in range(8)), "A heron.")
        [miss] = evaluate(memory, [asked("What did the heron eat at the pond?", "a9")], cuts=(1,)).misses
        assert miss.reason == "it is not among the first 2"
