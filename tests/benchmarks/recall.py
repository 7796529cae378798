"""Recall in one table: is the message that answers a question among the first that a search finds?

    python tests/benchmarks/recall.py [--only TEXT] [--by-type] [--by-conversation] [--signals]
                                      [--postgres] [--static] [--hybrid]

Six corpora, each next to plain means in the same run (`plain_search.py`):

- LoCoMo: two named people who chat. Its licence is non-commercial, so AGENTMEM_LOCOMO names the file.
- BEAM: a user, and an assistant who answers at length. AGENTMEM_BEAM names the file.
- `data/chats`: a user and an assistant in six languages, each person's own chats alone, and all in one place.
- `data/long_replies`: the same with long answers, in three languages.
- `tests/data/notes`: short notes of fifty users in one place, in English and in Chinese.
- `tests/data/long_queries`: long queries in both languages: a pasted text with a question, or a user turn without one.

The last two were written before anything was measured on them, and no weight was fitted to them. Our own files have the
chats of a user with an assistant:

    {"name": "en-coding", "language": "en",
     "conversations": [{"id": "csv-import", "time": "2025-03-03T19:10",
                        "messages": [{"id": "csv-import.1", "role": "user", "text": "…"}]}],
     "questions": [{"question": "…", "kind": "update", "evidence": ["csv-import.1"]}]}

Every session is one conversation in its transcript's namespace, and every turn a message with its own id. For each
question with evidence, recall@k is the share of its evidence among the first k of `memory.search(question, limit=20)`;
with `order="time"`, among the best k of what that gives.
Behind each recall stands its interval of 95 %, by a seeded bootstrap over the questions. Two runs print the same.

With `--signals` everything is asked again with one signal of the ranking after the other switched off: where that falls
below zero, the signal had helped. `--static` adds the vectors of the extra `[static]`, `--hybrid` those of
all-MiniLM-L6-v2 (`pip install langchain-huggingface sentence-transformers`): each with our words, and alone.
`--postgres` adds the other engine, and says whether it finds the same.
Below our rows stands what is required of them (`FLOORS`, and BM25 in the same run) and what was aimed at (`GOALS`).

`--only` takes the corpora whose names hold a text, such as LoCoMo or chats; `--by-type` prints a line for each type of
question, or its language, and `--by-conversation` one for each conversation.

Use it from elsewhere with this folder on the path: `recall.evaluate(recall.searching(memory), transcripts)` after
`recall.feed(memory, transcripts)`.
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from places import NAMES, databases, given_options
from plain_search import BASELINES, Make, Passage, finding, vectors_alone
from recall_report import EvaluationQuestion, QuestionOutcome, RecallReport, recall_of
from transcripts import RecordedSession, RecordedTurn, Transcript, feed, in_utc, read_transcripts

from langchain_agentmem import AgentMemory
from langchain_agentmem.search.ranking import WEIGHTS, WEIGHTS_WITH_VECTORS, Weights
from langchain_agentmem.search.vectors import STATIC_DIMENSIONS, StaticEmbeddings

CUTS = (5, 10, 20)
DATA = Path(__file__).with_name("data")
UNSEEN = DATA.parent.with_name("data")
"""The folder of the corpora to which no weight was fitted."""
NOW = datetime(2026, 12, 15, 9, 0, tzinfo=UTC)
"""When the questions are asked. "In March" is reckoned from then, or from the last message if that is earlier."""
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
CHATS, TOGETHER = "chats, alone", "chats, all in one place"
FLOORS = {"LoCoMo": (0.770, 0.840, 0.885), "BEAM": (0.54, 0.63, 0.71), CHATS: (0.77, 0.87), TOGETHER: (0.76, 0.87)}
"""What every row of ours must reach at the first of `CUTS`."""
BM25_LEADS = {"pooled notes": 0.02, "long queries": 0.02}
"""By how much every row of ours must surpass BM25 at each cut; elsewhere by nothing."""
WITH_VECTORS = "words and static vectors"
GOALS = {
    "words": {
        "LoCoMo": (0.785, 0.855, 0.895), "BEAM": (0.58, 0.67, 0.74), CHATS: (0.80, 0.90), TOGETHER: (0.79, 0.89)
    },
    WITH_VECTORS: {
        "LoCoMo": (0.80, 0.872, 0.91), "BEAM": (0.60, 0.69, 0.76), CHATS: (0.80, 0.90), TOGETHER: (0.80, 0.91)
    },
}  # fmt: skip
"""What was aimed at, by the rows and corpora."""
Search = Callable[[str, str, int], Sequence[str]]
"""Gives the ids of the turns that fit a question best: (transcript, question, limit)."""


def corpora() -> Iterator[tuple[str, list[Transcript] | None]]:
    """Each corpus by its name; None for one whose file is not here."""
    for name, variable in (("LoCoMo", "AGENTMEM_LOCOMO"), ("BEAM", "AGENTMEM_BEAM")):
        path = os.environ.get(variable)
        yield f"{name} ({variable})", read_transcripts(path) if path else None
    chats = read_folder(DATA / "chats")
    yield CHATS, chats
    yield TOGETHER, [together(chats)]
    for transcript in read_folder(DATA / "long_replies"):
        yield f"long replies, {transcript.name}", [transcript]
    for name, folder in (("pooled notes", "notes"), ("long queries", "long_queries")):
        yield name, read_folder(UNSEEN / folder)


def read_folder(folder: Path) -> list[Transcript]:
    """The transcripts of a folder."""
    samples = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return [_chat(each) for sample in samples for each in (sample if isinstance(sample, list) else [sample])]


def _chat(sample: Mapping[str, Any]) -> Transcript:
    """A chat of a user with an assistant; the category of a question is its kind, or else the language."""
    sessions = []
    for talk in sample["conversations"]:
        turns = tuple(RecordedTurn(said["id"], said["role"], said["text"]) for said in talk["messages"])
        sessions.append(RecordedSession(talk["id"], in_utc(datetime.fromisoformat(talk["time"])), turns))
    name, language = sample["name"], sample["language"]
    questions = (
        EvaluationQuestion(each["question"], frozenset(each["evidence"]), name, each.get("kind", language))
        for each in sample["questions"]
    )
    return Transcript(name, tuple(sessions), tuple(questions))


def together(transcripts: Sequence[Transcript]) -> Transcript:
    """All transcripts as those of one person."""
    sessions = tuple(session for each in transcripts for session in each.sessions)
    questions = (question._replace(transcript="everyone") for question in _questions(transcripts))
    return Transcript("everyone", sessions, tuple(questions))


def passages(transcripts: Sequence[Transcript]) -> list[Passage]:
    """What plain means look through."""
    return [
        Passage(turn.id, each.name, turn.text, session.time, turn.speaker)
        for each in transcripts
        for session in each.sessions
        for turn in session.turns
    ]


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


def evaluate(search: Search, transcripts: Sequence[Transcript]) -> RecallReport:
    """Ask every question that has evidence.

    Args:
        search: What answers.
        transcripts: Whose questions.
    """

    return recall_of(
        lambda question, limit: search(question.transcript, question.text, limit), _questions(transcripts), CUTS
    )


def plainly(make: Make, transcripts: Sequence[Transcript]) -> RecallReport:
    """What a plain search finds."""
    return recall_of(finding(make, passages(transcripts)), _questions(transcripts), CUTS)


def _questions(transcripts: Sequence[Transcript]) -> Iterator[EvaluationQuestion]:
    return (question for each in transcripts for question in each.questions)


# -- printing ----------------------------------------------------------------------------------------------------


def row(name: str, report: RecallReport) -> str:
    """One line: recall at each cut, with its interval."""
    between = zip(CUTS, report.intervals(), strict=True)
    cells = "".join(f"   {report.recall(cut):.3f} [{low:.3f} {high:.3f}]" for cut, (low, high) in between)
    return f"  {name:<42}{cells}"


def print_parts(report: RecallReport, options: Namespace) -> None:
    """A line for each type of question, and for each transcript, as far as they are asked for."""
    wanted: list[Callable[[QuestionOutcome], str]] = []
    if options.by_type:
        wanted.append(lambda each: each.question.category or "none")
    if options.by_conversation:
        wanted.append(lambda each: each.question.transcript)
    for by in wanted:
        for name, part in report.parts(by).items():
            print(row(f"    {name} ({len(part.outcomes)})", part))


def print_targets(corpus: str, title: str, report: RecallReport, plain: Sequence[RecallReport]) -> None:
    """What a row of ours had to reach, and where it did not. `plain` are the reports of BM25."""
    name = corpus.split(" (", maxsplit=1)[0]
    lead = BM25_LEADS.get(name, 0.0)
    best = tuple(max(each.recall(cut) for each in plain) + lead for cut in CUTS)
    for kind, targets in (("BM25", {name: best}), ("floor", FLOORS), ("goal", GOALS.get(title, {}))):
        if wanted := targets.get(name):
            missed = [f"R@{cut}" for cut, least in zip(CUTS, wanted, strict=False) if report.recall(cut) < least]
            print(f"    {kind} {'/'.join(f'{least:.3f}' for least in wanted)}: ", end="")
            print(f"missed at {', '.join(missed)}" if missed else "reached")


def print_signals(
    memory: AgentMemory, transcripts: Sequence[Transcript], usual: RecallReport, weights: Weights
) -> None:
    """What the recall changes by when one of these weights after the other is zero."""
    for name in (name for name, weight in weights if weight):
        memory.weights = weights.replace(**{name: 0.0})
        found = evaluate(searching(memory), transcripts)
        cells = "".join(f"   {found.recall(cut) - usual.recall(cut):+.3f}{'':<14}" for cut in CUTS)
        print(f"    {f'without {name}':<40}{cells}".rstrip())
    memory.weights = None


def measure(corpus: str, transcripts: Sequence[Transcript], options: Namespace) -> None:
    """Print the rows of one corpus."""
    plain, baselines = dict(BASELINES), [plainly(make, transcripts) for make in BASELINES.values()]
    for title, index in indexes(static=options.static, hybrid=options.hybrid):
        reports: list[RecallReport] = []
        if index is not None:
            plain[f"{title.removeprefix('words and ')} alone"] = vectors_alone(index["embed"])
        for engine in ("sqlite", "postgres") if options.postgres else ("sqlite",):
            arguments: dict[str, Any] = {"clock": lambda: NOW} | ({} if index is None else {"index": dict(index)})
            with databases(engine) as new, AgentMemory(new(), **arguments) as memory:
                feed(memory, transcripts)
                memory.settle()
                reports.append(report := evaluate(searching(memory), transcripts))
                print(row(f"ours, {title}, {NAMES[engine]}", report), flush=True)
                print_targets(corpus, title, report, baselines)
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
        report = plainly(make, transcripts)
        print(row(title, report), flush=True)
        print_parts(report, options)


def indexes(*, static: bool = False, hybrid: bool = False) -> Iterable[tuple[str, Mapping[str, Any] | None]]:
    """What `AgentMemory` is given as its index: nothing, and then the vectors that are asked for."""
    yield "words", None
    if static:
        yield WITH_VECTORS, {"dims": STATIC_DIMENSIONS, "embed": StaticEmbeddings()}
    if hybrid:
        from langchain_huggingface import HuggingFaceEmbeddings

        model = HuggingFaceEmbeddings(model_name=MINILM, encode_kwargs={"normalize_embeddings": True})
        yield "words and MiniLM", {"dims": 384, "embed": model}


def main() -> None:
    options = given_options(__doc__, "by-type by-conversation signals postgres static hybrid", only="")
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
