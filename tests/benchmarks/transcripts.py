"""Transcripts: recorded conversations, and questions about them, read from JSON. Four formats are known.

Ours is one object, or a list of them (`data/orchard.json` is one):

    {"name": "orchard",
     "sessions": [{"id": "session_1", "time": "2024-03-02T18:30",
                   "turns": [{"id": "1.1", "speaker": "Maya", "text": "I planted two quince trees.",
                              "image": "two saplings beside a wall"}]}],
     "questions": [{"question": "How many quince trees are there?", "answer": "two", "evidence": ["1.1"],
                    "category": "one session"}]}

"image" (what a picture shows), "answer", "evidence" (ids of the turns that hold the answer), "category" and
"questions" itself may be left out. A time is ISO 8601; without an offset it is UTC.

A chat of a user with an assistant (`data/chats`, `data/long_replies`); the category of a question is its kind, or else
the language:

    {"name": "en-coding", "language": "en",
     "conversations": [{"id": "csv-import", "time": "2025-03-03T19:10",
                        "messages": [{"id": "csv-import.1", "role": "user", "text": "…"}]}],
     "questions": [{"question": "…", "kind": "update", "evidence": ["csv-import.1"]}]}

The file of BEAM as it is, of which each batch is a session; its first message says when it was:

    [{"chat": 1,
      "batches": [{"batch": 1,
                   "messages": [{"id": 0, "role": "user", "content": "…", "time_anchor": "March-15-2024"}]}],
      "questions": [{"type": "abstention", "question": "…", "evidence": [0]}]}]

And the file of LoCoMo as it is:

    [{"sample_id": "…",
      "conversation": {"speaker_a": "…", "speaker_b": "…",
                       "session_1_date_time": "1:56 pm on 8 May, 2023",
                       "session_1": [{"speaker": "…", "dia_id": "D1:1", "text": "…", "blip_caption": "…"}]},
      "qa": [{"question": "…", "answer": "…", "evidence": ["D1:1"], "category": 4}]}]

Its quirks are accepted: several ids in one string, ids with a colon too many or with leading zeros, evidence that names
no turn, dates of sessions that do not exist, and questions that have only an "adversarial_answer", because the right
answer is that nobody said so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SAMPLE = Path(__file__).parent / "data" / "orchard.json"

_SESSION = re.compile(r"session_(\d+)")
_TURN = re.compile(r"D:?\s*(\d+):(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One thing that somebody said: its id, unique in its transcript, and what was said and shown."""

    id: str
    speaker: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation, and when it took place."""

    id: str
    time: datetime
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question: what is held to be true, the ids of the turns that say so, and the kind of question."""

    text: str
    answer: str | None
    evidence: frozenset[str]
    category: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """Conversations between the same people, in their order, and questions about them."""

    name: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]

    @property
    def turns(self) -> int:
        """How many turns there are."""
        return sum(len(session.turns) for session in self.sessions)


def read_transcripts(path: Path | str) -> list[Transcript]:
    """Read a file of transcripts in any of the formats."""
    document = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    samples = document if isinstance(document, list) else [document]
    return [next(read for key, read in _FORMATS.items() if key in sample)(sample) for sample in samples]


def _of_ours(sample: Mapping[str, Any]) -> Transcript:
    sessions = tuple(
        Session(
            id=session["id"],
            time=_in_utc(datetime.fromisoformat(session["time"])),
            turns=tuple(_turn(turn, "id", "image") for turn in session["turns"]),
        )
        for session in sample["sessions"]
    )
    questions = tuple(_question(each, frozenset(each.get("evidence", ()))) for each in sample.get("questions", ()))
    return Transcript(name=sample["name"], sessions=sessions, questions=questions)


def _of_locomo(sample: Mapping[str, Any]) -> Transcript:
    talk = sample["conversation"]
    numbers = sorted(int(match[1]) for key in talk if (match := _SESSION.fullmatch(key)))
    sessions = tuple(
        Session(
            id=f"session_{number}",
            time=_in_utc(datetime.strptime(talk[f"session_{number}_date_time"].strip(), "%I:%M %p on %d %B, %Y")),
            turns=tuple(_turn(turn, "dia_id", "blip_caption") for turn in talk[f"session_{number}"]),
        )
        for number in numbers
    )
    turns = {turn.id for session in sessions for turn in session.turns}
    questions = []
    for each in sample.get("qa", ()):
        named = _TURN.finditer(" ".join(map(str, each.get("evidence", ()))))
        questions.append(_question(each, frozenset(f"D{int(match[1])}:{int(match[2])}" for match in named) & turns))
    return Transcript(name=sample["sample_id"], sessions=sessions, questions=tuple(questions))


def _of_chat(sample: Mapping[str, Any]) -> Transcript:
    sessions = tuple(
        Session(
            id=talk["id"],
            time=_in_utc(datetime.fromisoformat(talk["time"])),
            turns=tuple(Turn(id=said["id"], speaker=said["role"], text=said["text"]) for said in talk["messages"]),
        )
        for talk in sample["conversations"]
    )
    questions = tuple(
        Question(
            text=each["question"],
            answer=None,
            evidence=frozenset(each["evidence"]),
            category=each.get("kind", sample["language"]),
        )
        for each in sample["questions"]
    )
    return Transcript(name=sample["name"], sessions=sessions, questions=questions)


def _of_beam(sample: Mapping[str, Any]) -> Transcript:
    sessions = tuple(
        Session(
            id=str(batch["batch"]),
            time=_in_utc(datetime.strptime(batch["messages"][0]["time_anchor"], "%B-%d-%Y")),
            turns=tuple(
                Turn(id=str(said["id"]), speaker=said["role"], text=said["content"]) for said in batch["messages"]
            ),
        )
        for batch in sample["batches"]
    )
    questions = tuple(
        Question(
            text=each["question"],
            answer=None,
            evidence=frozenset(map(str, each["evidence"])),
            category=each["type"].replace("_", " "),
        )
        for each in sample["questions"]
    )
    return Transcript(name=str(sample["chat"]), sessions=sessions, questions=questions)


def _turn(turn: Mapping[str, Any], name: str, image: str) -> Turn:
    picture = f" [picture: {turn[image]}]" if turn.get(image) else ""
    return Turn(id=str(turn[name]), speaker=turn["speaker"], text=f"{turn['text']}{picture}".strip())


def _question(each: Mapping[str, Any], evidence: frozenset[str]) -> Question:
    answer, category = (None if each.get(name) is None else str(each[name]) for name in ("answer", "category"))
    return Question(text=each["question"], answer=answer, evidence=evidence, category=category)


def _in_utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


_FORMATS = {"conversation": _of_locomo, "batches": _of_beam, "conversations": _of_chat, "sessions": _of_ours}
"""How a transcript is read, by the key that only its format has."""
