"""Recall on LongMemEval: are the sessions and turns that answer a question among the first that a search finds?

    python tests/benchmarks/longmemeval.py --data FILE [--limit 50] [--roles user] [--baselines] [--hybrid]

The files are the official ones (longmemeval_s, _m and _oracle); nothing of them is part of this repository. Each
question comes with a history of its own, which is stored in an empty database: every session is a conversation, every
turn a message a second after the one before. It is asked at its own date, by the memory's clock.

any@k: at least one of the right ones is among the first k; all@k: all of them are. A session counts from the first of
its turns that is found. Right sessions are those that the file names, right turns those that it marks; questions
without marked turns are left out of the turns' figures. Questions that cannot be answered ("_abs") are left out, as the
official evaluation does. That one also looks at what the user said alone: `--roles user` does so here, and then counts
only turns of the user, and sessions with such a turn.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import recall
from plain_search import bm25, stems
from recall_report import EvaluationQuestion
from transcripts import Transcript, feed, read_transcripts

from langchain_agentmem import AgentMemory

CUTS = (5, 10)
DEEPEST = 200
"""So many turns are asked for, to have enough sessions among them."""
ROLES = ("user", "assistant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One question with its history.

    Attributes:
        transcript: Both.
        answers: The ids of the sessions that hold the answer.
    """

    transcript: Transcript
    answers: frozenset[str]

    @property
    def question(self) -> EvaluationQuestion:
        """The question."""
        return self.transcript.questions[0]

    @property
    def answerable(self) -> bool:
        """Whether the history holds the answer at all."""
        return not self.transcript.name.endswith("_abs")

    def right_turns(self, roles: Sequence[str] = ROLES) -> frozenset[str]:
        """The ids of the marked turns of these roles."""
        said = {turn.id for session in self.transcript.sessions for turn in session.turns if turn.speaker in roles}
        return self.question.evidence & said

    def right_sessions(self, roles: Sequence[str] = ROLES) -> frozenset[str]:
        """The ids of the sessions that hold the answer; of one role alone, only those with a marked turn of it."""
        if set(roles) >= set(ROLES):
            return self.answers
        return frozenset(session_of(turn) for turn in self.right_turns(roles))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one question: by ("session" or "turn", "any" or "all", k), where that can be said."""

    kind: str
    scores: Mapping[tuple[str, str, int], bool]
    seconds: float


def load(path: str | os.PathLike[str]) -> list[Task]:
    """Read an official file.

    Args:
        path: Where it is.
    """
    records = json.loads(Path(path).read_text(encoding="utf-8"))
    return [
        Task(transcript=each, answers=frozenset(record["answer_session_ids"]))
        for each, record in zip(read_transcripts(path), records, strict=True)
    ]


def session_of(turn: str) -> str:
    """The id of the session that a turn belongs to."""
    return turn.rpartition("_")[0]


def judge(task: Task, found: Sequence[str], *, roles: Sequence[str] = ROLES) -> dict[tuple[str, str, int], bool]:
    """any@k and all@k of sessions and turns.

    Args:
        task: The question.
        found: The ids of the turns that were found, the best first.
        roles: Whose turns count.
    """
    scores = {}
    for level, right, ranked in (
        ("session", task.right_sessions(roles), list(dict.fromkeys(map(session_of, found)))),
        ("turn", task.right_turns(roles), found),
    ):
        if right:
            for cut in CUTS:
                hit = right.intersection(ranked[:cut])
                scores[level, "any", cut] = bool(hit)
                scores[level, "all", cut] = hit == right
    return scores


def ours(task: Task, roles: Sequence[str], index: Mapping[str, Any] | None = None) -> tuple[Sequence[str], float]:
    """What a memory finds that holds this history alone, and how long that took."""
    options: dict[str, Any] = {} if index is None else {"index": dict(index)}
    asked, home = task.question, (task.transcript.name,)
    with AgentMemory(clock=lambda: asked.at, **options) as memory:
        feed(memory, [task.transcript])
        memory.search("warm", namespace=home, limit=1)
        began = time.perf_counter()
        wanted = None if set(roles) >= set(ROLES) else roles
        found = memory.search(asked.text, namespace=home, limit=DEEPEST, roles=wanted)
        return [each.id for each in found], time.perf_counter() - began


def plain(task: Task, roles: Sequence[str]) -> tuple[Sequence[str], float]:
    """What BM25 finds."""
    turns = [turn for session in task.transcript.sessions for turn in session.turns if turn.speaker in roles]
    ranked = bm25([turn.text for turn in turns], stems())
    began = time.perf_counter()
    found = [turns[number].id for number in [*ranked(task.question.text)][:DEEPEST]]
    return found, time.perf_counter() - began


def evaluate(
    tasks: Sequence[Task],
    find: Callable[[Task, Sequence[str]], tuple[Sequence[str], float]] = ours,
    *,
    roles: Sequence[str] = ROLES,
) -> list[Outcome]:
    """Ask every question that can be answered.

    Args:
        tasks: What `load` read.
        find: What answers: `ours` or `plain`.
        roles: Whose turns are looked at.
    """
    outcomes = []
    for task in tasks:
        if task.answerable and task.right_sessions(roles):
            found, seconds = find(task, roles)
            outcomes.append(
                Outcome(kind=task.question.category or "", scores=judge(task, found, roles=roles), seconds=seconds)
            )
    return outcomes


def mean(outcomes: Sequence[Outcome], score: tuple[str, str, int]) -> float | None:
    """The mean of one score over the questions that have it, or None."""
    values = [each.scores[score] for each in outcomes if score in each.scores]
    return fmean(values) if values else None


SCORES = [(level, which, cut) for level in ("session", "turn") for which in ("any", "all") for cut in CUTS]


def print_table(title: str, outcomes: Sequence[Outcome]) -> None:
    """All scores, over all questions and by type."""
    print(f"\n{title}: {len(outcomes):,} questions, {1e3 * fmean(each.seconds for each in outcomes):.1f} ms each")
    print(f"  {'':<32}" + "".join(f"{level + ' ' + which + '@' + str(cut):>16}" for level, which, cut in SCORES))
    kinds = sorted({each.kind for each in outcomes})
    for name, part in [
        ("all", outcomes),
        *((kind, [each for each in outcomes if each.kind == kind]) for kind in kinds),
    ]:
        cells = (mean(part, score) for score in SCORES)
        shown = "".join(f"{'-' if cell is None else format(cell, '.3f'):>16}" for cell in cells)
        print(f"  {f'{name} ({len(part):,})':<32}{shown}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="an official file")
    parser.add_argument("--limit", type=int, help="only so many questions, evenly spread over the file")
    parser.add_argument("--roles", choices=("all", "user"), default="all", help="whose turns are looked at")
    parser.add_argument("--baselines", action="store_true", help="next to BM25")
    parser.add_argument("--hybrid", action="store_true", help="with vectors too")
    options = parser.parse_args()
    tasks = load(options.data)
    if options.limit and options.limit < len(tasks):
        tasks = tasks[:: max(1, len(tasks) // options.limit)][: options.limit]
    roles = ROLES if options.roles == "all" else ("user",)
    for title, index in recall.indexes(hybrid=options.hybrid):
        print_table(
            f"langchain-agentmem, {title}",
            evaluate(tasks, lambda task, roles, index=index: ours(task, roles, index), roles=roles),
        )
    if options.baselines:
        print_table("BM25, stems, stop words", evaluate(tasks, plain, roles=roles))


if __name__ == "__main__":
    main()
