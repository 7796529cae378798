"""Transcripts: recorded conversations, and questions about them, read from JSON. Two formats are known.

The file of LoCoMo ("locomo") as it is:

    [{"sample_id": "…",
      "conversation": {"speaker_a": "…", "speaker_b": "…",
                       "session_1_date_time": "1:56 pm on 8 May, 2023",
                       "session_1": [{"speaker": "…", "dia_id": "D1:1", "text": "…", "blip_caption": "…"}]},
      "qa": [{"question": "…", "answer": "…", "evidence": ["D1:1"], "category": 4}]}]

Its quirks are accepted: several ids in one string, ids with a colon too many or with leading zeros, evidence that names
no turn, dates of sessions that do not exist, and questions that have only an "adversarial_answer", because the right
answer is that nobody said so.

That of BEAM ("beam"), of which each batch is a session; its first message says when it was:

    [{"chat": 1,
      "batches": [{"batch": 1,
                   "messages": [{"id": 0, "role": "user", "content": "…", "time_anchor": "March-15-2024"}]}],
      "questions": [{"type": "abstention", "question": "…", "evidence": [0]}]}]
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from recall_report import EvaluationQuestion

from langchain_agentmem.agent_memory import AgentMemory

_SESSION = re.compile(r"session_(\d+)")
_TURN = re.compile(r"D:?\s*(\d+):(\d+)")
ROLES: Mapping[str, type[BaseMessage]] = {"user": HumanMessage, "assistant": AIMessage}
"""Speakers that are roles; everybody else is a person with a name."""


class RecordedTurn(NamedTuple):
    """One thing that somebody said: its id, unique in its transcript, and what was said and shown."""

    id: str
    speaker: str
    text: str


class RecordedSession(NamedTuple):
    """One conversation, and when it took place."""

    id: str
    time: datetime
    turns: tuple[RecordedTurn, ...]


class Transcript(NamedTuple):
    """Conversations between the same people, in their order, and questions about them, in the namespace of its name."""

    name: str
    sessions: tuple[RecordedSession, ...]
    questions: tuple[EvaluationQuestion, ...]

    @property
    def turns(self) -> int:
        """How many turns there are."""
        return sum(len(session.turns) for session in self.sessions)


def read_transcripts(path: str | os.PathLike[str]) -> list[Transcript]:
    """Read a file of transcripts, in UTF-8. The key that only its format has tells how."""
    document = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    samples = document if isinstance(document, list) else [document]
    return [next(read for key, read in FORMATS.items() if key in sample)(sample) for sample in samples]


def feed(memory: AgentMemory, transcripts: Sequence[Transcript]) -> None:
    """Store every session as a conversation in the namespace of its transcript, its turns a second apart.

    Args:
        memory: The memory. What it has already, it does not get twice.
        transcripts: What to store.
    """
    for transcript in transcripts:
        for session in transcript.sessions:
            said = [_message(session, turn, place) for place, turn in enumerate(session.turns)]
            memory.conversation(session.id, namespace=(transcript.name,)).add_messages(said)


def _message(session: RecordedSession, turn: RecordedTurn, place: int) -> BaseMessage:
    return ROLES.get(turn.speaker, HumanMessage)(
        turn.text,
        id=turn.id,
        name=None if turn.speaker in ROLES else turn.speaker,
        additional_kwargs={"created_at": (session.time + timedelta(seconds=place)).isoformat()},
    )


def _of_locomo(sample: Mapping[str, Any]) -> Transcript:
    talk, name, sessions = sample["conversation"], sample["sample_id"], []
    for number in sorted(int(match[1]) for key in talk if (match := _SESSION.fullmatch(key))):
        key = f"session_{number}"
        time = _time(talk[f"{key}_date_time"].strip(), "%I:%M %p on %d %B, %Y")
        sessions.append(RecordedSession(key, time, _turns(talk[key])))
    turns = {turn.id for session in sessions for turn in session.turns}
    questions = []
    for each in sample.get("qa", ()):
        said = _TURN.finditer(" ".join(map(str, each.get("evidence", ()))))
        evidence = frozenset(f"D{int(match[1])}:{int(match[2])}" for match in said) & turns
        questions.append(EvaluationQuestion(each["question"], evidence, name, str(each["category"])))
    return Transcript(name, tuple(sessions), tuple(questions))


def _of_beam(sample: Mapping[str, Any]) -> Transcript:
    sessions = []
    for batch in sample["batches"]:
        turns = tuple(RecordedTurn(str(said["id"]), said["role"], said["content"]) for said in batch["messages"])
        time = _time(batch["messages"][0]["time_anchor"], "%B-%d-%Y")
        sessions.append(RecordedSession(str(batch["batch"]), time, turns))
    name = str(sample["chat"])
    questions = (
        EvaluationQuestion(
            each["question"], frozenset(map(str, each["evidence"])), name, each["type"].replace("_", " ")
        )
        for each in sample["questions"]
    )
    return Transcript(name, tuple(sessions), tuple(questions))


def _turns(turns: Sequence[Mapping[str, Any]]) -> tuple[RecordedTurn, ...]:
    pictures = [f" [picture: {turn['blip_caption']}]" if turn.get("blip_caption") else "" for turn in turns]
    return tuple(
        RecordedTurn(str(turn["dia_id"]), turn["speaker"], f"{turn['text']}{picture}".strip())
        for turn, picture in zip(turns, pictures, strict=True)
    )


def _time(text: str, form: str) -> datetime:
    return datetime.strptime(text, form).replace(tzinfo=UTC)


def in_utc(time: datetime) -> datetime:
    """The time, in UTC where it has no offset."""
    return time if time.tzinfo else time.replace(tzinfo=UTC)


FORMATS: Mapping[str, Callable[[Mapping[str, Any]], Transcript]] = {"conversation": _of_locomo, "batches": _of_beam}
"""The reader of each format, by the key that only this format has."""
