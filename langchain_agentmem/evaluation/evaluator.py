"""The evaluation of a memory: its search is asked, plain searches beside it, and what was missed is explained."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.clock import micros
from langchain_agentmem.base.namespaces import named
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput, MissingExtra
from langchain_agentmem.evaluation.plain_search import BASELINES, Make, Passage, finding, vectors_alone
from langchain_agentmem.evaluation.recall_report import (
    WHOLE,
    EvaluationQuestion,
    QuestionOutcome,
    RecallReport,
    recall_of,
)
from langchain_agentmem.search.database_search import Search
from langchain_agentmem.search.embedding import embedder_of
from langchain_agentmem.search.memory_search import Range, Recollection, Walls, again, inquiry, once, ranges_of
from langchain_agentmem.search.static_embeddings import StaticEmbeddings
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.stores.search_requests import MOST_HITS, SearchRequest, sought

OURS = "this memory"
"""What the report of the memory itself is called."""
DEEPEST = 200
"""So far it is looked for what was missed."""
ABOVE = 3
"""What stood above it is told of so much."""
_PAGE = 500

Tell = Callable[[str, int, int], object]
"""Is told what is done, how much of it, and how much there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """Evidence that was not among the first.

    Attributes:
        question: The question that it answers.
        id: Its id.
        kind: What it is: "message", "fact", "record", "event" or "item"; None where nothing has this id.
        reason: Why, in a few words.
        found: Itself with its signals, where a search that goes deeper finds it.
        above: The first of what stood above it, the best first, with their signals.
    """

    question: EvaluationQuestion
    id: str
    kind: str | None
    reason: str
    found: Recollection | None = None
    above: tuple[Recollection, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What came of an evaluation.

    Attributes:
        reports: What the memory found, as "this memory"; and what each baseline did, by its name.
        misses: The evidence that the memory does not have among the first `max(cuts)`, in the order of the questions.
        kinds: What each piece of evidence is, by its id, as far as it is there.
        unanswerable: How many questions name no evidence, so that nothing could be found.
        unmeasured: Baselines that were not measured, by name, with the reason.
    """

    reports: Mapping[str, RecallReport]
    misses: tuple[Miss, ...]
    kinds: Mapping[str, str]
    unanswerable: int = 0
    unmeasured: Mapping[str, str]

    @property
    def cuts(self) -> tuple[int, ...]:
        """Among how many of the first the evidence was looked for."""
        return self.reports[OURS].cuts

    def parts(self) -> dict[str, dict[str, dict[str, RecallReport]]]:
        """The reports for each "category", "kind" and "namespace", as far as there are several of them."""
        found: dict[str, dict[str, dict[str, RecallReport]]] = {}
        for by in ("category", "kind", "namespace"):
            values: dict[str, dict[str, RecallReport]] = defaultdict(dict)
            for title, report in self.reports.items():
                for value, part in self._parts(by, report):
                    values[value][title] = part
            if len(values) > 1:
                found[by] = dict(sorted(values.items()))
        return found

    def _parts(self, by: str, report: RecallReport) -> Iterator[tuple[str, RecallReport]]:
        if by == "category":
            yield from report.parts(lambda each: each.question.category or "none").items()
        elif by == "namespace":
            yield from report.parts(lambda each: _where(each.question)).items()
        else:
            for kind in {*self.kinds.values()}:
                if mine := tuple(filter(None, (self._of_kind(kind, each) for each in report.outcomes))):
                    yield kind, RecallReport(mine, report.cuts)

    def _of_kind(self, kind: str, outcome: QuestionOutcome) -> QuestionOutcome | None:
        """The same, as far as this kind of evidence goes."""
        evidence = frozenset(each for each in outcome.question.evidence if self.kinds.get(each) == kind)
        return replace(outcome, question=replace(outcome.question, evidence=evidence)) if evidence else None


def evaluate(
    memory: AgentMemory,
    questions: Iterable[EvaluationQuestion],
    *,
    cuts: Sequence[int] = (5, 10),
    baselines: bool = False,
    tell: Tell = lambda *_: None,
) -> Evaluation:
    """Ask a memory questions, and see whether it finds what answers them. Nothing is stored.

    Args:
        memory: The memory, opened as its agents open it.
        questions: The questions; `read_questions` reads a file of them.
        cuts: Among how many of the first results evidence counts as found, ascending. Default: 5 and 10.
        baselines: Whether BM25 and vectors alone are asked, too: the embeddings of this memory, which then give every
            text its vector anew, else those of the extra `[static]`. Default: not.
        tell: Is told how far it has come.

    Raises:
        InvalidInput: No question has evidence, or the cuts are none.
    """
    every = list(questions)
    asked = [each for each in every if each.evidence]
    if not asked:
        raise InvalidInput("There is no question with evidence, so there is nothing to find.")
    if not cuts or sorted(set(cuts)) != list(cuts) or not 1 <= cuts[0] <= cuts[-1] <= MOST_HITS:
        raise InvalidInput(f"cuts are ascending numbers from 1 to {MOST_HITS}, such as (5, 10), not {safe_repr(cuts)}.")

    def report(title: str, find: Any) -> RecallReport:
        numbers = count(1)
        return recall_of(find, asked, cuts, lambda: tell(f"asking {title}", next(numbers), len(asked)))

    passages = passages_of(memory, tell)
    reports = {OURS: report(OURS, lambda question, limit: [_ids(each) for each in found_by(memory, question, limit)])}
    makes, unmeasured = _baselines(memory) if baselines else ({}, {})
    reports |= {title: report(title, finding(make, passages)) for title, make in makes.items()}
    held: dict[str, list[Passage]] = defaultdict(list)
    for passage in passages:
        for name in passage.ids:
            held[name].append(passage)
    evidence = set().union(*(each.evidence for each in asked))
    return Evaluation(
        reports=reports,
        misses=tuple(_misses(memory, reports[OURS], held, tell)),
        kinds={name: held[name][0].kind for name in sorted(evidence) if name in held},
        unanswerable=len(every) - len(asked),
        unmeasured=unmeasured,
    )


def found_by(memory: AgentMemory, question: EvaluationQuestion, limit: int) -> list[Recollection]:
    """What the search of a memory gives for a question."""
    request = SearchRequest(
        question.text, question.namespace, limit, before=question.at, everything=question.namespace is None
    )
    search = sought(memory.database, request, None, memory.weights)
    if question.at is not None:
        search = search._replace(asked=inquiry(question.text, micros(question.at)))
    return search.find(memory.database)


def passages_of(memory: AgentMemory, tell: Tell = lambda *_: None) -> list[Passage]:
    """All that the search of a memory could find, in the order in which it came; what says the same stands there once.

    Args:
        memory: The memory.
        tell: Is told how far it has come.
    """
    reach = sought(memory.database, SearchRequest("", everything=True), None, None)
    now, read, given = memory.database.now(), 0, list[Recollection]()
    for home in reach.walls.homes(memory.database):
        ranges, total = home.engine.read(partial(_extent, reach.walls))
        for first, end in ranges:
            after = first - 1
            while page := home.engine.read(partial(_page, after, end, now, reach)):
                after, size, found = page
                read += size
                given += [each for each in found if reach.walls.hold(each)]
                tell("reading the texts", read, max(read, total))
    return [
        Passage(_ids(each), each.kind, each.namespace, each.text, each.created_at, _speaker(each.value))
        for each in once(given)
    ]


def _extent(walls: Walls) -> Steps[tuple[list[Range], int]]:
    """The ranges of documents within these walls, and about how many they are."""
    ranges, _ = yield from ranges_of(walls)
    [totals] = yield query.totals(ranges=json.dumps(ranges))
    return ranges, int(totals["documents"])


def _page(after: int, end: int, now: int, reach: Search) -> Steps[tuple[int, int, list[Recollection]] | None]:
    """Some documents before an end: the last one's number, how many they are, and what they are; None for no more."""
    page = [row for row in (yield query.documents_after(after=after, limit=_PAGE)) if row["id"] < end]
    if not page:
        return None
    rows = [(row["kind"], row["owner"]) for row in page if row["kind"] in (reach.walls.kinds or ())]
    found = yield from again(rows, now=now, outlook=reach.outlook)
    return page[-1]["id"], len(page), found


def _baselines(memory: AgentMemory) -> tuple[dict[str, Make], dict[str, str]]:
    embedder = embedder_of(memory.database)
    try:
        embeddings = StaticEmbeddings() if embedder is None else embedder.embeddings
        return {**BASELINES, "vectors alone": vectors_alone(embeddings)}, {}
    except MissingExtra as error:
        return dict(BASELINES), {"vectors alone": str(error)}


def _misses(
    memory: AgentMemory, report: RecallReport, held: Mapping[str, Sequence[Passage]], tell: Tell
) -> Iterator[Miss]:
    most = max(report.cuts)
    missed = [each for each in report.outcomes if each.missing(most)]
    for number, outcome in enumerate(missed, 1):
        question = outcome.question
        ranked = found_by(memory, question, max(DEEPEST, most))
        places = {name: place for place, each in reversed([*enumerate(ranked)]) for name in _ids(each)}
        for name in sorted(outcome.missing(most)):
            there = held.get(name, ())
            place = places.get(name)
            yield Miss(
                question=question,
                id=name,
                kind=there[0].kind if there else None,
                reason=_reason(question, there, place, len(ranked)),
                found=None if place is None else ranked[place],
                above=tuple(ranked[: ABOVE if place is None else min(place, ABOVE)]) if there else (),
            )
        tell("looking for what was missed", number, len(missed))


def _reason(question: EvaluationQuestion, there: Sequence[Passage], place: int | None, looked: int) -> str:
    if place is not None:
        return f"it stands at place {place + 1}"
    if not there:
        return "nothing that can be found has this id"
    near = [each for each in there if each.within(question.namespace)]
    if not near:
        return f"it is in {named(there[0].namespace)}, where the question does not look"
    if question.at is not None and all(each.said_at >= question.at for each in near):
        return f"it was said on {near[0].said_at:%Y-%m-%d}, after the question was asked"
    if looked < DEEPEST:
        return "no word of the question, and nothing else, leads to it"
    return f"it is not among the first {looked}"


def _ids(found: Recollection) -> tuple[str, ...]:
    """What evidence may call it: its id, those of what says the same, and its conversation."""
    named = (found.id, *(name for _, name in found.also))
    is_said = found.kind == "message" and found.conversation_id is not None
    return (*named, f"{WHOLE}{found.conversation_id}") if is_said else named


def _speaker(value: Any) -> str | None:
    return getattr(value, "name", None) or getattr(value, "role", None)


def _where(question: EvaluationQuestion) -> str:
    return "everywhere" if question.namespace is None else named(question.namespace)
