"""Does any signal do harm where it does not apply? Chats of a user and an assistant, in six languages.

    python tests/benchmarks/chats.py [--postgres] [--hybrid] [--misses]

The chats in `data/chats/` were written for this: people who ask an assistant about their code, move, knee or
their cat, and long answers with lists and code. Nobody has a name here but "user" and "assistant", answers are longer
than questions, and rules for English do not apply to most of them. Their questions ask as people do, months later and
often in other words; the evidence are the messages that answer them.

Each is asked twice: among the person's own chats alone, and with all chats of all persons in one place. And
again with one signal after the other switched off: where that falls below zero, the signal had helped.
A question more or less is about 0.01, so smaller differences say nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import baselines
import locomo
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from locomo import Report, Search
from places import NAMES, databases
from transcripts import Question, Session, Transcript, Turn

from langchain_agentmem import AgentMemory

FOLDER = Path(__file__).with_name("data") / "chats"
EVERYONE = "everyone"
NOW = datetime(2025, 12, 15, 9, 0, tzinfo=UTC)
"""When the questions are asked, which "in March" is reckoned from."""
CUTS = (1, 5, 10)


def load(folder: Path = FOLDER) -> list[Transcript]:
    """Read the chats: speakers are roles, and the category of a question is its language.

    Args:
        folder: Where they are.
    """
    return [_transcript(json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))]


def _transcript(chat: Mapping[str, Any]) -> Transcript:
    return Transcript(
        name=chat["name"],
        sessions=tuple(
            Session(
                id=each["id"],
                time=datetime.fromisoformat(each["time"]).replace(tzinfo=UTC),
                turns=tuple(Turn(id=said["id"], speaker=said["role"], text=said["text"]) for said in each["messages"]),
            )
            for each in chat["conversations"]
        ),
        questions=tuple(
            Question(
                text=each["question"],
                answer=None,
                evidence=frozenset(each["evidence"]),
                category=chat["language"],
            )
            for each in chat["questions"]
        ),
    )


def feed(memory: AgentMemory, chats: Sequence[Transcript], *, above: tuple[str, ...] = ()) -> None:
    """Store every chat in its person's namespace.

    Args:
        memory: Where to.
        chats: What `load` read.
        above: Labels before the person's.
    """
    for chat in chats:
        for session in chat.sessions:
            memory.conversation(session.id, namespace=(*above, chat.name)).add_messages(
                [
                    _message(turn, session.time + timedelta(seconds=30 * place))
                    for place, turn in enumerate(session.turns)
                ]
            )


def _message(turn: Turn, time: datetime) -> BaseMessage:
    kind = HumanMessage if turn.speaker == "user" else AIMessage
    return kind(turn.text, id=turn.id, additional_kwargs={"created_at": time.isoformat()})


def together(chats: Sequence[Transcript]) -> Transcript:
    """All chats as those of one person."""
    sessions = tuple(session for chat in chats for session in chat.sessions)
    questions = tuple(question for chat in chats for question in chat.questions)
    return Transcript(name=EVERYONE, sessions=sessions, questions=questions)


def misses(search: Search, chats: Sequence[Transcript], *, cut: int = 5) -> None:
    """Print the questions whose evidence is not among the first, with what came first instead."""
    for chat in chats:
        for question in chat.questions:
            found = search(chat.name, question.text, cut)
            if not question.evidence.intersection(found):
                print(f"    {chat.name}: {question.text}   {sorted(question.evidence)}, not {list(found)}")


def _measure(engine: str, chats: Sequence[Transcript], options: argparse.Namespace, index: Any) -> None:
    arguments: dict[str, Any] = {"clock": lambda: NOW} | ({} if index is None else {"index": index})
    every = together(chats)
    with databases(engine) as new, AgentMemory(new(), **arguments) as memory:
        feed(memory, chats)
        feed(memory, chats, above=(EVERYONE,))
        search = locomo.searching(memory)
        alone, mixed = _ask(search, chats), _ask(search, [every])
        title = f"langchain-agentmem{', vectors' if index else ''}, {NAMES[engine]}"
        _print(title, alone, mixed)
        if options.misses:
            misses(search, chats)
        if engine == "sqlite":
            _print_signals(memory, chats, every, alone, mixed)


def _ask(search: Search, chats: Sequence[Transcript]) -> Report:
    return locomo.evaluate(search, chats, cuts=CUTS)


def _print(title: str, alone: Report, mixed: Report) -> None:
    print(_row(title, alone, mixed))
    languages = alone.categories
    for language, count in languages.items():
        print(_row(f"  {language} ({count} questions)", *(_only(report, language) for report in (alone, mixed))))


def _only(report: Report, language: str) -> Report:
    return Report(outcomes=[each for each in report.outcomes if each.category == language])


def _row(title: str, alone: Report, mixed: Report) -> str:
    cells = "   |".join("".join(f"{report.recall(cut):8.3f}" for cut in CUTS) for report in (alone, mixed))
    return f"  {title:<42}{cells}"


def _print_signals(
    memory: AgentMemory, chats: Sequence[Transcript], every: Transcript, alone: Report, mixed: Report
) -> None:
    import signals

    search = locomo.searching(memory)

    print("\n  without this signal: what is below zero, the signal had added")
    moved = False
    for name, weights in signals.without_each():
        with signals.weighed(memory, weights):
            reports = [(alone, _ask(search, chats)), (mixed, _ask(search, [every]))]
        differences = [[found.recall(cut) - usual.recall(cut) for cut in CUTS] for usual, found in reports]
        moved |= any(any(each) for each in differences)
        print(f"  {name:<42}" + "   |".join("".join(f"{each:+8.3f}" for each in part) for part in differences))
    if not moved:
        print("  Nothing changed at all: the search did not take the weights that it was given.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", action="store_true", help="on PostgreSQL too")
    parser.add_argument("--hybrid", action="store_true", help="with vectors too")
    parser.add_argument("--misses", action="store_true", help="the questions that find nothing among the first five")
    options = parser.parse_args()
    chats = load()
    turns, asked = sum(chat.turns for chat in chats), sum(len(chat.questions) for chat in chats)
    print(f"{len(chats)} persons, {turns} messages, {asked} questions")
    print("recall in one's own chats | with all chats in one place")
    cuts = "".join(f"{f'R@{cut}':>8}" for cut in CUTS)
    print(f"  {'':<42}{cuts}   |{cuts}")
    every = together(chats)
    plain = baselines.bm25_plain([*chats, every])
    _print("BM25", _ask(plain, chats), _ask(plain, [every]))
    if options.misses:
        misses(plain, chats)
    for title, index in locomo.indexes(hybrid=options.hybrid):
        del title
        for engine in ("sqlite", "postgres") if options.postgres else ("sqlite",):
            _measure(engine, chats, options, index)


if __name__ == "__main__":
    main()
