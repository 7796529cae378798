"""The demo's agent on recorded conversations: it lives through them, session by session, and is then asked about them.

    python tests/benchmarks/exam.py                       # data/orchard.json, without a model
    python tests/benchmarks/exam.py --file locomo10.json --questions 100 --model openai:gpt-5-mini

Each session is one conversation in the transcript's namespace, and each turn is stored under its own id: feeding a
transcript twice adds nothing. While it is asked, the agent remembers nothing, so that no question helps to answer the
next one. It prints some answers, and how much of the evidence was among what was recalled.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from places import given_options
from recall_report import EvaluationQuestion, QuestionOutcome, RecallReport
from transcripts import Transcript, feed, read_transcripts

from langchain_agentmem import AgentMemory
from langchain_agentmem.cli.demo import answer_of
from langchain_agentmem.language_models.model_calls import usable_model
from langchain_agentmem.search.memory_search import Recollection

SAMPLE = Path(__file__).with_name("data") / "orchard.json"
TOP = 10
"""Among how many of the recalled messages evidence counts as found."""
EXAMPLES = 3
MOST = 1_000_000
"""Questions."""


class Answered(NamedTuple):
    """A question with what came of it."""

    question: EvaluationQuestion
    answer: str
    recalled: Sequence[Recollection]
    seconds: float

    def outcome(self) -> QuestionOutcome:
        """What was found."""
        return QuestionOutcome(self.question, tuple(each.id for each in self.recalled))


def sit_exam(
    memory: AgentMemory,
    transcripts: Sequence[Transcript],
    model: Any = None,
    *,
    questions: int | None = None,
    limit: int = TOP,
) -> list[Answered]:
    """Live through transcripts, then answer their questions, at most so many."""
    feed(memory, transcripts)
    answered = []
    asked = [(each.name, question) for each in transcripts for question in each.questions]
    for namespace, question in asked[:questions]:
        begun = time.perf_counter()
        recalled = memory.search(question.text, namespace=(namespace,), limit=limit, roles=["user"])
        answer = answer_of(model, question.text, recalled).text
        answered.append(Answered(question, answer, recalled, time.perf_counter() - begun))
    return answered


def lines(answered: Sequence[Answered], memory: AgentMemory) -> list[str]:
    """What is printed: some of the answers, then the figures."""
    told = []
    for each in answered[:: max(1, len(answered) // EXAMPLES)][:EXAMPLES]:
        told += [each.question.text, f"  answer:   {each.answer}", f"  expected: {each.question.answer}"]
        told += [f"  why:      {found.why}" for found in each.recalled[:1]]
    report = RecallReport(tuple(each.outcome() for each in answered if each.question.evidence), (TOP,))
    told.append(f"questions        {len(answered):,} ({len(report.outcomes):,} with evidence)")
    told.append(f"recall@{TOP}        {report.recall(TOP):.3f}")
    parts = report.parts(lambda each: str(each.question.category))
    told += [f"  category {name}: {part.recall(TOP):.3f} of {len(part.outcomes)}" for name, part in parts.items()]
    told.append(f"ms per question  {1000 * fmean(each.seconds for each in answered):.1f}")
    stored = memory.admin.stats()
    told.append(f"messages stored  {stored['messages']:,} in {stored['conversations']:,} conversations")
    told.append(f"database size    {stored['bytes'] / 1e6:.1f} MB")
    return told


def main() -> None:
    given = given_options(__doc__, file=SAMPLE, model=None, database=":memory:", questions=MOST, limit=TOP)
    model = usable_model(given.model)
    with AgentMemory(given.database) as memory:
        transcripts = read_transcripts(given.file)
        print(
            *lines(sit_exam(memory, transcripts, model, questions=given.questions, limit=given.limit), memory), sep="\n"
        )


if __name__ == "__main__":
    main()
