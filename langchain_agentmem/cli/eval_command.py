"""`agentmem eval`: how much of what answers questions a memory finds, next to plain searches, and what it misses."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.namespaces import named, namespace_named
from langchain_agentmem.base.safe_repr import counted, safe_repr
from langchain_agentmem.cli.console import (
    AsJson,
    Bar,
    FirstDatabase,
    Screen,
    database_given,
    existing,
    hit,
    interruptible,
    print_json,
    progress_bar,
    reasons,
    shortened,
)
from langchain_agentmem.errors import InvalidInput

if TYPE_CHECKING:
    from langchain_agentmem.evaluation import Evaluation, Miss, RecallReport, Transcript
    from langchain_agentmem.search.memory_search import Recollection
    from langchain_agentmem.stores.agent_store import IndexGiven

SHOWN = 5
"""Misses that are printed."""


def evaluate(
    *,
    questions: Annotated[str, typer.Option("--questions", metavar="FILE", help="The questions, as said above.")],
    database: FirstDatabase = None,
    form: Annotated[
        Literal["questions", "locomo", "beam", "longmemeval", "transcript"],
        typer.Option("--format", help="All but questions have conversations: they fill a temporary database."),
    ] = "questions",
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", metavar="A/B", help="Where questions look that name none. Default: everywhere."),
    ] = None,
    cuts: Annotated[
        str, typer.Option("--k", metavar="N,N", help="Among how many of the first results evidence counts.")
    ] = "5,10",
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Ask BM25 and vectors alone, too, over the same texts.")
    ] = False,
    index: Annotated[
        Literal["static"] | None,
        typer.Option(help="The embeddings of the memory, where searches go by vectors, too; they are kept."),
    ] = None,
    misses: Annotated[
        int, typer.Option("--misses", min=0, metavar="N", help="Print so many misses. In JSON all are.")
    ] = SHOWN,
    as_json: AsJson = False,
) -> None:
    """Measure how much of what answers questions is found.

    Recall at k is the share of the evidence that is among the first k results, in the mean over the questions. Each
    line of FILE is a question, of which only the first two have to be there:

    {"question": "Where does Ana live?", "evidence": ["m17"], "namespace": ["users", "ana"], "category": "places",
    "at": "2026-05-31T18:30"}

    Evidence are ids of messages, facts, records, events or items. With "at", only what was said before is found.
    Nothing depends on chance or on the time.

    JSON: an object with questions, unanswerable, all, by_category, by_kind, by_namespace, misses, unmeasured. In all,
    this memory and each baseline have questions, recall and interval (of 95 %); the others have that for each of their
    values, without intervals. A miss has question, namespace, category, id, kind, reason, found, above.
    """
    from langchain_agentmem import evaluation  # noqa: PLC0415 - the other commands do without

    vectors: IndexGiven | None = None if index is None else {"embed": index}
    kept = "Nothing was changed." if vectors is None else "Vectors that were made are kept."
    with interruptible(kept), progress_bar("reading") as bar:
        if form == "questions":
            asked = evaluation.read_questions(questions)
            home: AbstractContextManager[AgentMemory] = existing(
                database_given(database), read_only=vectors is None, index=vectors
            )
        else:
            transcripts = evaluation.read_transcripts(questions, form)
            asked = [question for each in transcripts for question in each.questions]
            home = _filled(transcripts, vectors, bar)
        if namespace is not None and namespace != "/":
            within = namespace_named(namespace)
            asked = [replace(each, namespace=within) if each.namespace is None else each for each in asked]
        with home as memory:
            if vectors is not None:
                memory.settle()
            found = evaluation.evaluate(memory, asked, cuts=_numbers(cuts), baselines=baselines, tell=bar.show)
    if as_json:
        print_json(_told(found))
    else:
        _print(Screen(), found, misses)


@contextmanager
def _filled(transcripts: Sequence[Transcript], index: IndexGiven | None, bar: Bar) -> Iterator[AgentMemory]:
    """A temporary database with these conversations."""
    from langchain_agentmem.evaluation import feed  # noqa: PLC0415

    sessions, numbers = sum(len(each.sessions) for each in transcripts), count(1)
    with (
        tempfile.TemporaryDirectory(prefix="agentmem-") as folder,
        AgentMemory(Path(folder) / "evaluation.db", index=index) as memory,
    ):
        feed(memory, transcripts, lambda: bar.show("storing the conversations", next(numbers), sessions))
        yield memory


def _numbers(written: str) -> list[int]:
    try:
        return sorted({int(each) for each in written.split(",")})
    except ValueError as error:
        raise InvalidInput(f"--k takes numbers such as 5,10, not {safe_repr(written)}.") from error


def _told(found: Evaluation) -> dict[str, Any]:
    """An evaluation as JSON has it."""
    every = {
        title: _figures(report) | {"interval": {str(cut): list(each) for cut, each in _with_intervals(report)}}
        for title, report in found.reports.items()
    }
    parts = {
        f"by_{by}": {
            value: {title: _figures(report) for title, report in reports.items()} for value, reports in values.items()
        }
        for by, values in found.parts().items()
    }
    return {
        "questions": len(next(iter(found.reports.values())).outcomes),
        "unanswerable": found.unanswerable,
        "all": every,
        **parts,
        "misses": [_missed(each) for each in found.misses],
        "unmeasured": found.unmeasured,
    }


def _figures(report: RecallReport) -> dict[str, Any]:
    return {"questions": len(report.outcomes), "recall": {str(cut): report.recall(cut) for cut in report.cuts}}


def _missed(miss: Miss) -> dict[str, Any]:
    return {
        "question": miss.question.text,
        "namespace": miss.question.namespace,
        "category": miss.question.category,
        "id": miss.id,
        "kind": miss.kind,
        "reason": miss.reason,
        "found": None if miss.found is None else hit(miss.found),
        "above": [hit(each) for each in miss.above],
    }


def _print(screen: Screen, found: Evaluation, misses: int) -> None:
    ours, *_ = found.reports.values()
    cuts, pieces = found.cuts, sum(len(each.question.evidence) for each in ours.outcomes)
    left = f"; {found.unanswerable:,} without evidence were not asked" if found.unanswerable else ""
    screen.line(f"{counted(len(ours.outcomes), 'questions')}, evidence in {counted(pieces, 'places')}{left}.")
    screen.line()
    rows = [
        (title, *(f"{report.recall(cut):.3f} [{low:.3f} {high:.3f}]" for cut, (low, high) in _with_intervals(report)))
        for title, report in found.reports.items()
    ]
    screen.table(("recall [95 %]", *(f"at {cut}" for cut in cuts)), rows)
    for title, reason in found.unmeasured.items():
        screen.line(f"{title}: not measured. {reason}", "dim")
    first, *others = found.reports
    if others:
        columns = {title: (title, cuts[-1]) for title in found.reports}
    else:
        columns = {f"at {cut}": (first, cut) for cut in cuts}
    for by, values in found.parts().items():
        screen.heading(f"By {by}: recall{f' at {cuts[-1]}' if others else ''}")
        table = [
            (
                value,
                f"{len(each[first].outcomes):,}",
                *(f"{each[one].recall(cut):.3f}" for one, cut in columns.values()),
            )
            for value, each in values.items()
        ]
        screen.table((by, "asked", *columns), table, right=("asked", *columns))
    if not found.misses:
        screen.line()
        screen.line(f"All of the evidence is among the first {cuts[-1]}.")
        return
    screen.heading(f"Misses: {len(found.misses):,} of {pieces:,} are not among the first {cuts[-1]}")
    for miss in found.misses[:misses]:
        _print_miss(screen, miss)
    if len(found.misses) > misses:
        screen.line(f"… and {len(found.misses) - misses:,} more: --misses {len(found.misses)}", "dim")


def _with_intervals(report: RecallReport) -> Iterator[tuple[int, tuple[float, float]]]:
    return zip(report.cuts, report.intervals(), strict=True)


def _print_miss(screen: Screen, miss: Miss) -> None:
    asked = miss.question
    where = "everywhere" if asked.namespace is None else named(asked.namespace)
    screen.line(f"{shortened(asked.text)}  {where}{f'  {asked.category}' if asked.category else ''}", "bold")
    screen.line(f"   missed: {f'{miss.kind} ' if miss.kind else ''}{miss.id}: {miss.reason}")
    if miss.found is not None:
        screen.line(f"   {_scored(miss.found)}")
    for place, each in enumerate(miss.above, 1):
        screen.line(f"   above it, {place}. {each.kind} {each.id}: {_scored(each)}", "dim")


def _scored(found: Recollection) -> str:
    return f"{found.score:.2f}  {shortened(found.text, 60)}  ({reasons(found.why)})"
