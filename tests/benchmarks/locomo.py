"""Recall on LoCoMo: is the turn that answers a question among the first that a search finds?

    python tests/benchmarks/locomo.py --data locomo10.json [--postgres] [--static] [--hybrid] [--baselines]
                                      [--by-sample] [--exact] [--signals]

The file is not part of this repository, since its licence is non-commercial; instead of `--data`, the environment
variable AGENTMEM_LOCOMO may name it. Every session is one conversation in the sample's namespace, and every turn a
message with its own id, its speaker as name and the session's date as time, a second after the turn before. What a
picture shows belongs to the text.

For each question with evidence, recall@k is the share of its evidence among the first k of
`memory.search(question, namespace=(sample,), limit=k)`. One search for the most is cut into all k; with `--exact` each
k has a search of its own, which must come to the same. Questions of category 5 ask for what nobody said, mostly by
naming the wrong person, so categories 1 to 4 stand beside all.

With `--postgres` the same runs on PostgreSQL too; with `--static` also with the vectors of the extra `[static]`, with
`--hybrid` with those of a small model (`minilm.py`); with `--baselines` next to plain full-text search, BM25 and that
model alone (`baselines.py`). With `--signals` everything is asked again on SQLite with one signal of the ranking after
the other switched off: where that falls below zero, the signal had helped.

Use it from elsewhere with this folder on the path: `locomo.evaluate(locomo.searching(memory), locomo.load(path))`
after `locomo.feed(memory, samples)`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import fmean
from typing import Any

from langchain_core.messages import HumanMessage
from places import NAMES, databases
from transcripts import Transcript, read_transcripts

from langchain_agentmem import AgentMemory

CUTS = (5, 10, 20)
ANSWERABLE = frozenset("1234")
CATEGORIES = {"1": "several turns", "2": "time", "3": "inference", "4": "one turn", "5": "adversarial"}

Search = Callable[[str, str, int], Sequence[str]]
"""Gives the ids of the turns that fit a question best: (sample, question, limit)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one question: recall by cut, and how long the search took."""

    sample: str
    category: str
    question: str
    recall: Mapping[int, float]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of all questions that have evidence."""

    outcomes: Sequence[Outcome]

    def recall(self, cut: int, *, categories: Iterable[str] | None = None, sample: str | None = None) -> float:
        """Mean recall@cut over the questions, or over those of some categories or of one sample."""
        wanted = None if categories is None else frozenset(categories)
        return fmean(
            each.recall[cut]
            for each in self.outcomes
            if (wanted is None or each.category in wanted) and (sample is None or each.sample == sample)
        )

    @property
    def samples(self) -> list[str]:
        return list(dict.fromkeys(each.sample for each in self.outcomes))

    @property
    def categories(self) -> dict[str, int]:
        counts: dict[str, int] = defaultdict(int)
        for each in self.outcomes:
            counts[each.category] += 1
        return dict(sorted(counts.items()))

    def milliseconds(self, percent: int) -> float:
        """A percentile of how long a search took."""
        found = sorted(each.seconds for each in self.outcomes)
        return 1e3 * found[min(len(found) - 1, len(found) * percent // 100)]


def load(path: str | os.PathLike[str]) -> list[Transcript]:
    """Read a LoCoMo file.

    Args:
        path: Where it is.
    """
    return read_transcripts(os.fspath(path))


def feed(memory: AgentMemory, samples: Sequence[Transcript]) -> None:
    """Store every session as a conversation.

    Args:
        memory: An empty one.
        samples: What `load` read.
    """
    for sample in samples:
        for session in sample.sessions:
            memory.conversation(session.id, namespace=(sample.name,)).add_messages(
                [
                    HumanMessage(
                        turn.text,
                        id=turn.id,
                        name=turn.speaker,
                        additional_kwargs={"created_at": (session.time + timedelta(seconds=place)).isoformat()},
                    )
                    for place, turn in enumerate(session.turns)
                ]
            )


def searching(memory: AgentMemory) -> Search:
    """A memory's own search."""
    return lambda sample, question, limit: [
        each.id for each in memory.search(question, namespace=(sample,), limit=limit)
    ]


def evaluate(
    search: Search, samples: Sequence[Transcript], *, cuts: Sequence[int] = CUTS, exact: bool = False
) -> Report:
    """Ask every question that has evidence.

    Args:
        search: What answers.
        samples: What `load` read.
        cuts: The k of recall@k. Default: 5, 10 and 20.
        exact: Whether each cut has a search of its own; the time is then that of the middle one.
    """
    outcomes = []
    for sample in samples:
        asked = [question for question in sample.questions if question.evidence]
        if asked:
            search(sample.name, asked[0].text, max(cuts))  # opens what is opened once
        for question in asked:
            found: dict[int, Sequence[str]] = {}
            taken: dict[int, float] = {}
            for limit in cuts if exact else (max(cuts),):
                began = time.perf_counter()
                found[limit] = search(sample.name, question.text, limit)
                taken[limit] = time.perf_counter() - began
            outcomes.append(
                Outcome(
                    sample=sample.name,
                    category=question.category or "none",
                    question=question.text,
                    recall={
                        cut: len(question.evidence.intersection(found.get(cut, found[max(cuts)])[:cut]))
                        / len(question.evidence)
                        for cut in cuts
                    },
                    seconds=sorted(taken.values())[len(taken) // 2],
                )
            )
    return Report(outcomes=outcomes)


# -- printing ----------------------------------------------------------------------------------------------------


def heading() -> str:
    """The columns of `row`."""
    cuts = "".join(f"{f'R@{cut}':>8}" for cut in CUTS)
    return f"  {'':<42}{cuts}   |{cuts}   | {'p50 ms':>7} {'p95 ms':>7}"


def row(name: str, report: Report) -> str:
    """One line: recall over all questions, over categories 1 to 4, and how long a search takes."""
    every = "".join(f"{report.recall(cut):8.3f}" for cut in CUTS)
    answerable = "".join(f"{report.recall(cut, categories=ANSWERABLE):8.3f}" for cut in CUTS)
    times = f"{report.milliseconds(50):7.2f} {report.milliseconds(95):7.2f}"
    return f"  {name:<42}{every}   |{answerable}   | {times}"


def print_categories(report: Report) -> None:
    """Recall by category."""
    for category, count in report.categories.items():
        title = f"    category {category}, {CATEGORIES.get(category, 'unnamed')} ({count:,})"
        print(f"{title:<44}" + "".join(f"{report.recall(cut, categories=category):8.3f}" for cut in CUTS))


def print_samples(report: Report) -> None:
    """Recall by sample, and its spread."""
    every = {name: [report.recall(cut, sample=name) for cut in CUTS] for name in report.samples}
    answerable = {name: [report.recall(cut, sample=name, categories=ANSWERABLE) for cut in CUTS] for name in every}
    for name, found in every.items():
        print(f"    {name:<40}" + _cells(found) + "   |" + _cells(answerable[name]))
    spreads: list[tuple[str, Callable[[Sequence[float]], float]]] = [("least", min), ("most", max)]
    if len(every) > 1:
        spreads.append(("standard deviation", statistics.stdev))
    for name, spread in spreads:
        columns = [[spread(column) for column in zip(*each.values(), strict=True)] for each in (every, answerable)]
        print(f"    {name:<40}" + "   |".join(_cells(column) for column in columns))


def _cells(values: Sequence[float]) -> str:
    return "".join(f"{value:8.3f}" for value in values)


def print_difference(name: str, one: Report, other: Report) -> None:
    """How far one engine's results are from another's."""
    apart = {cut: other.recall(cut) - one.recall(cut) for cut in CUTS}
    others = sum(a.recall != b.recall for a, b in zip(one.outcomes, other.outcomes, strict=True))
    print(f"  {name:<42}" + "".join(f"{apart[cut]:+8.3f}" for cut in CUTS) + f"   ({others:,} questions differ)")


# -- running -----------------------------------------------------------------------------------------------------


def measure_ours(
    engine: str,
    samples: Sequence[Transcript],
    *,
    index: Mapping[str, Any] | None = None,
    exact: bool = False,
    signals: bool = False,
) -> Report:
    """Feed an empty database on an engine, and ask.

    Args:
        engine: "sqlite" or "postgres".
        samples: What `load` read.
        index: What `AgentMemory` takes as its index: dims and embeddings. Default: none, so without vectors.
        exact: As in `evaluate`.
        signals: Whether to print what each signal of the ranking adds.
    """
    options: dict[str, Any] = {} if index is None else {"index": dict(index)}
    with databases(engine) as new, AgentMemory(new(), **options) as memory:
        began = time.perf_counter()
        feed(memory, samples)
        fed = time.perf_counter()
        report = evaluate(searching(memory), samples, exact=exact)
        turns = sum(sample.turns for sample in samples)
        print(f"    ({NAMES[engine]}: {turns:,} turns stored in {fed - began:.1f} s)", flush=True)
        if signals:
            print(row("with every signal", report))
            print_signals(memory, samples, report)
    return report


def print_signals(memory: AgentMemory, samples: Sequence[Transcript], usual: Report) -> None:
    """What the recall changes by when one signal after the other is switched off."""
    import signals

    for name, weights in signals.without_each():
        with signals.weighed(memory, weights):
            found = evaluate(searching(memory), samples)
        parts = [
            [found.recall(cut, categories=part) - usual.recall(cut, categories=part) for cut in CUTS]
            for part in (None, ANSWERABLE)
        ]
        print(f"  {f'without {name}':<42}" + "   |".join("".join(f"{each:+8.3f}" for each in part) for part in parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("AGENTMEM_LOCOMO"), help="the file (or AGENTMEM_LOCOMO)")
    parser.add_argument("--postgres", action="store_true", help="on PostgreSQL too, and how far the two are apart")
    parser.add_argument("--static", action="store_true", help="with static vectors too")
    parser.add_argument("--hybrid", action="store_true", help="with the vectors of a model too")
    parser.add_argument("--baselines", action="store_true", help="next to plain search")
    parser.add_argument("--by-sample", action="store_true", help="each conversation, and the spread over them")
    parser.add_argument("--exact", action="store_true", help="a search of its own for each k")
    parser.add_argument("--signals", action="store_true", help="what each signal adds")
    options = parser.parse_args()
    if not options.data:
        parser.error("name the LoCoMo file with --data or in AGENTMEM_LOCOMO")
    samples = load(options.data)
    asked = sum(bool(question.evidence) for sample in samples for question in sample.questions)
    turns = sum(sample.turns for sample in samples)
    print(f"{len(samples)} conversations, {turns:,} turns, {asked:,} questions with evidence")
    print("recall over all questions | over categories 1 to 4")
    print(heading())
    engines = ("sqlite", "postgres") if options.postgres else ("sqlite",)
    for title, index in indexes(static=options.static, hybrid=options.hybrid):
        reports: dict[str, Report] = {}
        for engine in engines:
            signals = options.signals and engine == "sqlite"
            reports[engine] = measure_ours(engine, samples, index=index, exact=options.exact, signals=signals)
            print(row(f"langchain-agentmem, {title}, {NAMES[engine]}", reports[engine]))
            print_categories(reports[engine])
            if options.by_sample:
                print_samples(reports[engine])
        if options.postgres:
            print_difference("PostgreSQL less SQLite", reports["sqlite"], reports["postgres"])
    if options.baselines:
        import baselines

        for title, make in baselines.BASELINES.items():
            try:
                report = evaluate(make(samples), samples)
            except ModuleNotFoundError as error:
                print(f"  {title:<42}  not measured: {error}")
                continue
            print(row(title, report))
            if options.by_sample:
                print_samples(report)


def indexes(*, hybrid: bool, static: bool = False) -> Iterable[tuple[str, Mapping[str, Any] | None]]:
    """What `AgentMemory` is given as its index: nothing, static vectors, and the small model."""
    yield "words", None
    if static:
        yield "words and static vectors", {"embed": "static"}
    if hybrid:
        import minilm

        yield "words and vectors", {"dims": minilm.DIMENSIONS, "embed": minilm.MiniLM()}


if __name__ == "__main__":
    main()
