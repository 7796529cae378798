"""What a transcript is: recorded conversations, and questions about them. `reading.py` reads them from files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One thing that somebody said.

    Attributes:
        id: Unique in its transcript.
        speaker: Who said it.
        text: What was said, with what a picture showed.
    """

    id: str
    speaker: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation.

    Attributes:
        id: Unique in its transcript.
        time: When it took place.
        turns: What was said, in order.
    """

    id: str
    time: datetime
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question about a transcript.

    Attributes:
        text: The question.
        answer: What the transcript's author holds to be true, or None.
        evidence: The ids of the turns that hold the answer.
        category: The kind of question, or None.
    """

    text: str
    answer: str | None
    evidence: frozenset[str]
    category: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """Conversations between the same people, and questions about them.

    Attributes:
        name: Unique in its file; the label of its namespace.
        sessions: In the order in which they took place.
        questions: In the file's order.
    """

    name: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]

    @property
    def turns(self) -> int:
        """How many turns there are."""
        return sum(len(session.turns) for session in self.sessions)


def with_image(text: str, image: str | None) -> str:
    """What a turn says, with what its picture shows.

    Args:
        text: What was said.
        image: What the picture shows, or None.
    """
    return f"{text} [picture: {image}]".strip() if image else text
