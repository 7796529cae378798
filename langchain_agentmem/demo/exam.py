"""The exam: the agent lives through a transcript, session by session, and is then asked about it.

Each session is one conversation in the transcript's namespace, and each turn is stored when it is said, under its
own id: feeding a transcript twice adds nothing. While it is asked, the agent remembers nothing, so that no question
helps to answer the next one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.demo.agent import Exchange, ask, build_agent
from langchain_agentmem.demo.model import QuotingModel, real_model
from langchain_agentmem.demo.reading import read_transcripts
from langchain_agentmem.demo.screen import Screen
from langchain_agentmem.demo.story import NO_KEY
from langchain_agentmem.demo.transcript import Question, Session, Transcript
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.stats import Stats

TOP = 10
"""Among how many of the recalled messages evidence counts as found."""

EXAMPLES = 3
SHOWN = 3


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
            title = f"Living through {each.name} ({each.turns:,} turns)"
            for session in screen.progress(title, each.sessions, unit="sessions"):
                live(memory, session, namespace=(each.name,))
        lived = time.perf_counter() - begun
        answered = _answers(screen, memory, transcripts, chat_model, questions=questions, limit=limit)
        stored = memory.stats()
    _print_examples(screen, answered)
    _print_summary(screen, answered, stored, lived=lived, top=min(TOP, limit))
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
            raise InvalidInput(f"Turn {turn.id!r} of {session.id!r} cannot be stored: {error}") from error


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
    """Print some questions, spread over all; a star marks what holds the answer."""
    if not answered:
        return
    screen.heading("Some of the questions; * marks the turns that hold the answer")
    step = max(1, len(answered) // EXAMPLES)
    for each in answered[::step][:EXAMPLES]:
        screen.line()
        screen.line(f"  {each.transcript}: {each.question.text}", "cyan")
        screen.line(f"  Agent: {each.exchange.answer}", "green")
        if each.question.answer is not None:
            screen.line(f"  Expected: {each.question.answer}")
        screen.recollections(each.exchange.recalled, most=SHOWN, marked=each.question.evidence)


def _print_summary(screen: Screen, answered: Sequence[Answered], stored: Stats, *, lived: float, top: int) -> None:
    counted = [each for each in answered if each.question.evidence]
    screen.heading("Summary")
    screen.line(f"  questions         {len(answered):,} ({len(counted):,} with evidence)")
    if counted and top:
        screen.line(f"  recall@{top:<2}         {fmean(each.recall(top) for each in counted):.3f}")
        categories: dict[str, list[Answered]] = defaultdict(list)
        for each in counted:
            if each.question.category is not None:
                categories[each.question.category].append(each)
        for name, members in sorted(categories.items()):
            share = fmean(each.recall(top) for each in members)
            screen.line(f"    category {name}: {share:.3f} of {len(members):,} questions")
    if answered:
        screen.line(f"  ms per question   {1000 * fmean(each.seconds for each in answered):.1f}")
    screen.line(f"  messages stored   {stored['messages']:,} in {stored['conversations']:,} conversations")
    screen.line(f"  database size     {stored['bytes'] / 1e6:.1f} MB")
    screen.line(f"  living took       {lived:.1f} s")
