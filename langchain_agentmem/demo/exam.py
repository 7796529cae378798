"""The exam: the agent lives through a transcript, session by session, and is then asked about it.

Each session is one conversation in the transcript's namespace, and each turn is stored when it is said, under its
own id: feeding a transcript twice adds nothing. While it is asked, the agent remembers nothing, so that no question
helps to answer the next one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.cli.console import count
from langchain_agentmem.cli.demo import Exchange, ask, build_agent
from langchain_agentmem.cli.demo_model import QuotingModel, real_model
from langchain_agentmem.cli.demo_story import NO_KEY
from langchain_agentmem.cli.screen import Screen
from langchain_agentmem.demo.reading import read_transcripts
from langchain_agentmem.demo.transcript import Question, Session, Transcript
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.upkeep.database_report import Stats

TOP = 10
"""Among how many of the recalled messages evidence counts as found."""

EXAMPLES = 3


class Answered(NamedTuple):
    """A question with what came of it.

    Attributes:
        transcript: The name of the transcript it is about.
        question: The question.
        exchange: The agent's answer, and what it recalled.
        seconds: How long that took.
    """

    transcript: str
    question: Question
    exchange: Exchange
    seconds: float

    def recall(self, top: int) -> float:
        """The share of the evidence that is among the first `top` that were recalled."""
        found = {each.id for each in self.exchange.recalled[:top]}
        return len(self.question.evidence & found) / len(self.question.evidence)


def sit_exam(
    screen: Screen, *, transcript: str, database: str, model: str | None, questions: int | None, limit: int
) -> list[Answered]:
    """Live through the transcripts of a file, answer their questions, and print how it went.

    Args:
        screen: Where to print.
        transcript: The file's path, or "sample".
        database: The path or URL of the database.
        model: A real model's name, or None for the deterministic one.
        questions: How many questions to ask at most. None: all.
        limit: How much is recalled at most for each question.

    Returns:
        Every question that was asked, with what came of it.

    Raises:
        InvalidInput: The file cannot be read or is malformed, and nothing of it was stored; or the database holds
            other words under a turn's id.
    """
    transcripts = read_transcripts(transcript)
    chat_model: BaseChatModel = QuotingModel() if model is None else real_model(model)
    if model is None:
        screen.line(NO_KEY)
    with AgentMemory(database) as memory:
        begun = time.perf_counter()
        for each in transcripts:
            title = f"Living through {each.name} ({count(each.turns, 'turn')})"
            for session in screen.progress(title, each.sessions, unit="sessions"):
                live(memory, session, namespace=(each.name,))
        lived = time.perf_counter() - begun
        answered = _answers(screen, memory, transcripts, chat_model, questions=questions, limit=limit)
        stored = memory.stats()
    _print_examples(screen, answered)
    figures = _figures(answered, stored, lived=lived, top=min(TOP, limit))
    screen.summary(figures, _lines(figures))
    return answered


def live(memory: AgentMemory, session: Session, *, namespace: Sequence[str]) -> None:
    """Store a session as it takes place, one turn after the other.

    Args:
        memory: Where to.
        session: The session.
        namespace: Whose it is.

    Raises:
        InvalidInput: The database holds other words under a turn's id.
    """
    conversation = memory.conversation(session.id, namespace)
    for turn in session.turns:
        told = {"created_at": session.time.isoformat()}
        message = HumanMessage(turn.text, id=turn.id, name=turn.speaker, additional_kwargs=told)
        try:
            conversation.add_message(message)
        except MessageError as error:
            raise InvalidInput(
                f"Turn {safe_repr(turn.id)} of {safe_repr(session.id)} cannot be stored: {error}"
            ) from error


def _answers(
    screen: Screen,
    memory: AgentMemory,
    transcripts: Sequence[Transcript],
    model: BaseChatModel,
    *,
    questions: int | None,
    limit: int,
) -> list[Answered]:
    agent = build_agent(memory, model, limit=limit, remembers=False)
    conversation = memory.conversation().conversation_id  # a new one, in which nothing was said
    answered: list[Answered] = []
    for transcript in transcripts:
        room = None if questions is None else questions - len(answered)
        asked = transcript.questions[:room]
        if not asked:
            continue
        for question in screen.progress(f"Answering about {transcript.name}", asked, unit="questions"):
            begun = time.perf_counter()
            exchange = ask(agent, question.text, conversation_id=conversation, namespace=(transcript.name,))
            answered.append(Answered(transcript.name, question, exchange, time.perf_counter() - begun))
    return answered


def _print_examples(screen: Screen, answered: Sequence[Answered]) -> None:
    """Print some questions; a star marks what holds the answer."""
    if not answered:
        return
    screen.heading("Some of the questions; * marks the turns that hold the answer")
    for each in screen.examples(answered, EXAMPLES):
        screen.exchange(
            {
                "transcript": each.transcript,
                "category": each.question.category,
                "said": each.question.text,
                "answer": each.exchange.answer,
                "expected": each.question.answer,
                "evidence": sorted(each.question.evidence),
                "ms": 1000 * each.seconds,
                "recalled": each.exchange.recalled,
            }
        )


class _Share(TypedDict):
    """How much of the evidence was recalled for some questions."""

    recall_at_k: float
    questions: int


class _Figures(TypedDict):
    """How the exam went; None where nothing tells."""

    questions: int
    with_evidence: int
    k: int
    recall_at_k: float | None
    by_category: dict[str, _Share]
    ms_per_question: float | None
    messages: int
    conversations: int
    bytes: int
    seconds: float


def _figures(answered: Sequence[Answered], stored: Stats, *, lived: float, top: int) -> _Figures:
    counted = [each for each in answered if each.question.evidence]
    categories: dict[str, list[float]] = defaultdict(list)
    for each in counted:
        if each.question.category is not None:
            categories[each.question.category].append(each.recall(top))
    return {
        "questions": len(answered),
        "with_evidence": len(counted),
        "k": top,
        "recall_at_k": fmean(each.recall(top) for each in counted) if counted else None,
        "by_category": {
            name: {"recall_at_k": fmean(shares), "questions": len(shares)}
            for name, shares in sorted(categories.items())
        },
        "ms_per_question": 1000 * fmean(each.seconds for each in answered) if answered else None,
        "messages": stored["messages"],
        "conversations": stored["conversations"],
        "bytes": stored["bytes"],
        "seconds": lived,
    }


def _lines(told: _Figures) -> Iterator[str]:
    """What people are told of the figures."""
    yield ""
    yield "Summary"
    yield f"  questions         {told['questions']:,} ({told['with_evidence']:,} with evidence)"
    if told["recall_at_k"] is not None:
        yield f"  recall@{told['k']:<2}         {told['recall_at_k']:.3f}"
    for name, share in told["by_category"].items():
        yield f"    category {name}: {share['recall_at_k']:.3f} of {count(share['questions'], 'question')}"
    if told["ms_per_question"] is not None:
        yield f"  ms per question   {told['ms_per_question']:.1f}"
    yield f"  messages stored   {told['messages']:,} in {count(told['conversations'], 'conversation')}"
    yield f"  database size     {told['bytes'] / 1e6:.1f} MB"
    yield f"  living took       {told['seconds']:.1f} s"
