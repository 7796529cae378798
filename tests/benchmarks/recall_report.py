"""Questions, what came of them, and the recall over all or some of them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import NamedTuple, TypeAlias

RESAMPLED = 1_000
"""Samples of the questions from which an interval is told."""


class EvaluationQuestion(NamedTuple):
    """A question, and what answers it.

    Attributes:
        text: The question.
        evidence: The ids of the turns that hold the answer.
        transcript: The name of the transcript that it is about.
        category: What kind of question it is. Default: none.
    """

    text: str
    evidence: frozenset[str]
    transcript: str
    category: str | None = None


Find: TypeAlias = Callable[[EvaluationQuestion, int], Sequence[str]]
"""Gives the ids of the turns that answer a question best, at most so many."""


class QuestionOutcome(NamedTuple):
    """What came of a question.

    Attributes:
        question: The question.
        found: The ids of what was found, the best first.
    """

    question: EvaluationQuestion
    found: tuple[str, ...]

    def recall(self, cut: int) -> float:
        """The share of the evidence that is among the first `cut`, 0 to 1."""
        evidence = self.question.evidence
        return len(evidence.intersection(self.found[:cut])) / len(evidence)


@dataclass(frozen=True)
class RecallReport:
    """What came of all questions that have evidence, or of some of them.

    Attributes:
        outcomes: One for each question; at least one.
        cuts: Among how many of the first the evidence is looked for.
    """

    outcomes: tuple[QuestionOutcome, ...]
    cuts: tuple[int, ...]

    @cached_property
    def _shares(self) -> list[list[float]]:
        return [[each.recall(cut) for each in self.outcomes] for cut in self.cuts]

    def recall(self, cut: int) -> float:
        """The mean recall among the first `cut`, one of `cuts`."""
        return fmean(self._shares[self.cuts.index(cut)])

    def parts(self, by: Callable[[QuestionOutcome], str]) -> dict[str, RecallReport]:
        """The outcomes by category, or whatever else, in the order of their names."""
        found: dict[str, list[QuestionOutcome]] = defaultdict(list)
        for each in self.outcomes:
            found[by(each)].append(each)
        return {name: RecallReport(tuple(found[name]), self.cuts) for name in sorted(found)}

    def intervals(self) -> list[tuple[float, float]]:
        """For each of `cuts`, between what the mean lies in 95 % of samples of as many questions, by a fixed seed."""
        chance, numbers = random.Random(0), range(len(self.outcomes))
        drawn = [chance.choices(numbers, k=len(numbers)) for _ in range(RESAMPLED)]
        means = [sorted(fmean(shares[each] for each in sample) for sample in drawn) for shares in self._shares]
        return [(found[RESAMPLED // 40], found[-RESAMPLED // 40]) for found in means]


def recall_of(find: Find, questions: Iterable[EvaluationQuestion], cuts: Sequence[int]) -> RecallReport:
    """Ask every question that has evidence.

    Args:
        find: The search to ask.
        questions: The questions.
        cuts: The numbers of first results among which the evidence is looked for.
    """
    outcomes = (QuestionOutcome(each, tuple(find(each, max(cuts)))) for each in questions if each.evidence)
    return RecallReport(tuple(outcomes), tuple(cuts))
