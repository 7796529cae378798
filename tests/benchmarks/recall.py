"""Recall in one table: is the message that answers a question among the first that a search finds?

    python tests/benchmarks/recall.py [--only TEXT] [--by-type] [--by-conversation] [--signals]
                                      [--postgres] [--static] [--hybrid]

Four corpora, each next to plain means in the same run (`baselines.py`):

- LoCoMo: two named people who chat. Its licence is non-commercial, so AGENTMEM_LOCOMO names the file.
- BEAM: a user, and an assistant who answers at length. AGENTMEM_BEAM names the file.
- `data/chats`: a user and an assistant in six languages, each person's own chats alone, and all in one place.
- `data/long_replies`: the same with long answers, in three languages.

Every session is one conversation in its transcript's namespace, and every turn a message with its own id. For each
question with evidence, recall@k is the share of its evidence among the first k of `memory.search(question, limit=20)`;
with `order="time"`, among the best k of what that gives.
Behind each recall stands its interval of 95 %, by a seeded bootstrap over the questions. Two runs print the same.

With `--signals` everything is asked again with one signal of the ranking after the other switched off: where that falls
below zero, the signal had helped. `--static` adds the vectors of the extra `[static]`, `--hybrid` those of a small
model (`minilm.py`): each with our words, and alone. `--postgres` adds the other engine, and says whether it finds the
same.
Below our rows stands what is required of them (`FLOORS`) and what was aimed at (`GOALS`).

Use it from elsewhere with this folder on the path: `recall.evaluate(recall.searching(memory), transcripts)` after
`recall.feed(memory, transcripts)`.
"""

from __future__ import annotations

import argparse
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

import baselines
import signals
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from places import NAMES, databases
from transcripts import Session, Transcript, Turn, read_transcripts

from langchain_agentmem import AgentMemory
from langchain_agentmem.search.ranking import WEIGHTS, WEIGHTS_WITH_VECTORS, Weights
from langchain_agentmem.search.static_embeddings import DIMENSIONS, StaticEmbeddings

CUTS = (5, 10, 20)
DATA = Path(__file__).with_name("data")
ROLES: Mapping[str, type[BaseMessage]] = {"user": HumanMessage, "assistant": AIMessage}
NOW = datetime(2026, 12, 15, 9, 0, tzinfo=UTC)
"""When the questions are asked. "In March" is reckoned from then, or from the last message if that is earlier."""
RESAMPLED = 1_000
FLOORS = {
    "LoCoMo": (0.770, 0.840, 0.885),
    "BEAM": (0.54, 0.63, 0.71),
    "chats, alone": (0.77, 0.87),
    "chats, all in one place": (0.76, 0.87),
}
"""What every row of ours must reach at the first of `CUTS`."""
GOALS = {
    "words": {
        "LoCoMo": (0.785, 0.855, 0.895),
        "BEAM": (0.58, 0.67, 0.74),
        "chats, alone": (0.80, 0.90),
        "chats, all in one place": (0.79, 0.89),
    },
    "words and static vectors": {
        "LoCoMo": (0.80, 0.872, 0.91),
        "BEAM": (0.60, 0.69, 0.76),
        "chats, alone": (0.80, 0.90),
        "chats, all in one place": (0.80, 0.91),
    },
}
"""What was aimed at, by the rows and corpora."""

Search = Callable[[str, str, int], Sequence[str]]
"""Gives the ids of the turns that fit a question best: (transcript, question, limit)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one question: the turns that were found, and the recall at each of `CUTS`."""

    transcript: str
    category: str
    found: tuple[str, ...]
    recall: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What came of all questions that have evidence."""

    outcomes: Sequence[Outcome]

    def recall(self, cut: int) -> float:
        """Mean recall@cut."""
        return fmean(each.recall[CUTS.index(cut)] for each in self.outcomes)

    def parts(self, by: Callable[[Outcome], str]) -> dict[str, Report]:
        """The outcomes by category, or whatever else, in the order of their names."""
        found: dict[str, list[Outcome]] = defaultdict(list)
        for each in self.outcomes:
            found[by(each)].append(each)
        return {name: Report(found[name]) for name in sorted(found)}

    def intervals(self) -> list[tuple[float, float]]:
        """For each of `CUTS`, between what the mean lies in 95 % of the samples of as many questions."""
        chance = random.Random(0)
        drawn = [chance.choices(self.outcomes, k=len(self.outcomes)) for _ in range(RESAMPLED)]
        means = [sorted(fmean(each.recall[place] for each in sample) for sample in drawn) for place in range(len(CUTS))]
        return [(found[RESAMPLED // 40], found[-RESAMPLED // 40]) for found in means]


def corpora() -> Iterator[tuple[str, list[Transcript] | None]]:
    """Each corpus by its name; None for one whose file is not here."""
    for name, variable in (("LoCoMo", "AGENTMEM_LOCOMO"), ("BEAM", "AGENTMEM_BEAM")):
        path = os.environ.get(variable)
        yield f"{name} ({variable})", read_transcripts(path) if path else None
    chats = read_folder("chats")
    yield "chats, alone", chats
    yield "chats, all in one place", [together(chats)]
    for transcript in read_folder("long_replies"):
        yield f"long replies, {transcript.name}", [transcript]


def read_folder(name: str) -> list[Transcript]:
    """The transcripts of a folder of `data`."""
    return [each for path in sorted((DATA / name).glob("*.json")) for each in read_transcripts(path)]


def together(transcripts: Sequence[Transcript]) -> Transcript:
    """All transcripts as those of one person."""
    sessions = tuple(session for each in transcripts for session in each.sessions)
    return Transcript(name="everyone", sessions=sessions, questions=tuple(q for t in transcripts for q in t.questions))


def feed(memory: AgentMemory, transcripts: Sequence[Transcript]) -> None:
    """Store every session as a conversation, its turns a second apart.

    Args:
        memory: An empty one.
        transcripts: What to store. Who is not "user" or "assistant" is a person with a name.
    """
    for transcript in transcripts:
        for session in transcript.sessions:
            memory.conversation(session.id, namespace=(transcript.name,)).add_messages(
                [_message(session, turn, place) for place, turn in enumerate(session.turns)]
            )


def _message(session: Session, turn: Turn, place: int) -> BaseMessage:
    return ROLES.get(turn.speaker, HumanMessage)(
        turn.text,
        id=turn.id,
        name=None if turn.speaker in ROLES else turn.speaker,
        additional_kwargs={"created_at": (session.time + timedelta(seconds=place)).isoformat()},
    )


def searching(memory: AgentMemory) -> Search:
    """A memory's own search."""
    return lambda transcript, question, limit: [
        each.id for each in memory.search(question, namespace=(transcript,), limit=limit)
    ]


def searching_in_time(memory: AgentMemory) -> Search:
    """A memory's search for the evidence of a topic, here with the best first again."""
    return lambda transcript, question, limit: [
        each.id
        for each in sorted(
            memory.search(question, namespace=(transcript,), limit=limit, order="time"), key=lambda each: -each.score
        )
    ]


def evaluate(search: Search, transcripts: Sequence[Transcript]) -> Report:
    """Ask every question that has evidence.

    Args:
        search: What answers.
        transcripts: Whose questions.
    """
    outcomes = []
    for transcript in transcripts:
        for question in transcript.questions:
            if question.evidence:
                found = search(transcript.name, question.text, max(CUTS))
                shares = tuple(len(question.evidence.intersection(found[:k])) / len(question.evidence) for k in CUTS)
                category = question.category or "none"
                outcomes.append(
                    Outcome(transcript=transcript.name, category=category, found=tuple(found), recall=shares)
                )
    return Report(outcomes)


# -- printing ----------------------------------------------------------------------------------------------------


def row(name: str, report: Report) -> str:
    """One line: recall at each cut, with its interval."""
    between = zip(CUTS, report.intervals(), strict=True)
    cells = "".join(f"   {report.recall(cut):.3f} [{low:.3f} {high:.3f}]" for cut, (low, high) in between)
    return f"  {name:<42}{cells}"


def print_parts(report: Report, options: argparse.Namespace) -> None:
    """A line for each type of question, and for each transcript, as far as they are asked for."""
    wanted: list[Callable[[Outcome], str]] = []
    if options.by_type:
        wanted.append(lambda each: each.category)
    if options.by_conversation:
        wanted.append(lambda each: each.transcript)
    for by in wanted:
        for name, part in report.parts(by).items():
            print(row(f"    {name} ({len(part.outcomes)})", part))


def print_targets(corpus: str, title: str, report: Report) -> None:
    """What a row of ours had to reach, and where it did not."""
    for kind, targets in (("floor", FLOORS), ("goal", GOALS.get(title, {}))):
        if wanted := targets.get(corpus.split(" (", maxsplit=1)[0]):
            missed = [f"R@{cut}" for cut, least in zip(CUTS, wanted, strict=False) if report.recall(cut) < least]
            print(f"    {kind} {'/'.join(f'{least:.3f}' for least in wanted)}: ", end="")
            print(f"missed at {', '.join(missed)}" if missed else "reached")


def print_signals(memory: AgentMemory, transcripts: Sequence[Transcript], usual: Report, weights: Weights) -> None:
    """What the recall changes by when one of these weights after the other is zero."""
    for name, fewer in signals.without_each(weights):
        with signals.weighed(memory, fewer):
            found = evaluate(searching(memory), transcripts)
        cells = "".join(f"   {found.recall(cut) - usual.recall(cut):+.3f}{'':<14}" for cut in CUTS)
        print(f"    {f'without {name}':<40}{cells}".rstrip())


def measure(corpus: str, transcripts: Sequence[Transcript], options: argparse.Namespace) -> None:
    """Print the rows of one corpus."""
    plain = dict(baselines.BASELINES)
    for title, index in indexes(static=options.static, hybrid=options.hybrid):
        reports: list[Report] = []
        if index is not None:
            plain[f"{title.removeprefix('words and ')} alone"] = baselines.vectors_alone(index["embed"])
        for engine in ("sqlite", "postgres") if options.postgres else ("sqlite",):
            arguments: dict[str, Any] = {"clock": lambda: NOW} | ({} if index is None else {"index": dict(index)})
            with databases(engine) as new, AgentMemory(new(), **arguments) as memory:
                feed(memory, transcripts)
                memory.settle()
                reports.append(report := evaluate(searching(memory), transcripts))
                print(row(f"ours, {title}, {NAMES[engine]}", report), flush=True)
                print_targets(corpus, title, report)
                print_parts(report, options)
                in_time = evaluate(searching_in_time(memory), transcripts)
                print(row(f"in the order of time, {title}, {NAMES[engine]}", in_time), flush=True)
                print_parts(in_time, options)
                if options.signals and engine == "sqlite":
                    print_signals(memory, transcripts, report, WEIGHTS if index is None else WEIGHTS_WITH_VECTORS)
        if len(reports) > 1:
            differ = sum(one != other for one, other in zip(*(each.outcomes for each in reports), strict=True))
            print(f"    questions that find something else on PostgreSQL: {differ}")
    for title, make in plain.items():
        report = evaluate(make(transcripts), transcripts)
        print(row(title, report), flush=True)
        print_parts(report, options)


def indexes(*, static: bool = False, hybrid: bool = False) -> Iterable[tuple[str, Mapping[str, Any] | None]]:
    """What `AgentMemory` is given as its index: nothing, and then the vectors that are asked for."""
    yield "words", None
    if static:
        yield "words and static vectors", {"dims": DIMENSIONS, "embed": StaticEmbeddings()}
    if hybrid:
        import minilm

        yield "words and MiniLM", {"dims": minilm.DIMENSIONS, "embed": minilm.MiniLM()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="the corpora whose names hold this, such as LoCoMo or chats")
    parser.add_argument("--by-type", action="store_true", help="a line for each type of question, or its language")
    parser.add_argument("--by-conversation", action="store_true", help="a line for each conversation")
    parser.add_argument("--signals", action="store_true", help="what each signal adds")
    parser.add_argument("--postgres", action="store_true", help="on PostgreSQL too")
    parser.add_argument("--static", action="store_true", help="with static vectors too")
    parser.add_argument("--hybrid", action="store_true", help="with the vectors of a small model too")
    options = parser.parse_args()
    print(f"  {'':<42}" + "".join(f"   {f'R@{cut}':<19}" for cut in CUTS).rstrip())
    for name, transcripts in corpora():
        if options.only.lower() not in name.lower():
            continue
        if transcripts is None:
            print(f"{name}: not measured, since the variable names no file")
            continue
        turns, asked = (
            sum(each.turns for each in transcripts),
            sum(bool(q.evidence) for t in transcripts for q in t.questions),
        )
        print(f"{name}: {turns:,} messages, {asked:,} questions")
        measure(name, transcripts, options)


if __name__ == "__main__":
    main()
