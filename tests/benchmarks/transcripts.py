"""Transcripts: recorded conversations, and questions about them, read from JSON. Four formats are known.

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

Those of LongMemEval ("longmemeval"), where each question has a history of its own and is asked at its own time. The
evidence are the turns that are marked; where none is, the sessions that are named. A session that a history has twice
counts once. A question of which the id ends in "_abs" has no evidence, since the history does not hold the answer:

    [{"question_id": "…", "question_type": "…", "question": "…", "question_date": "2023/05/20 (Sat) 02:21",
      "answer_session_ids": ["…"], "haystack_session_ids": ["…"], "haystack_dates": ["2023/05/01 (Mon) 10:00"],
      "haystack_sessions": [[{"role": "user", "content": "…", "has_answer": true}]]}]

And ours ("transcript"), one object or a list of them:

    {"name": "orchard",
     "sessions": [{"id": "session_1", "time": "2024-03-02T18:30",
                   "turns": [{"id": "1.1", "speaker": "Maya", "text": "I planted two quince trees.",
                              "image": "two saplings beside a wall"}]}],
     "questions": [{"question": "How many quince trees are there?", "answer": "two", "evidence": ["1.1"],
                    "category": "one session"}]}

"image" (what a picture shows), "answer", "evidence" (ids of the turns that hold the answer), "category" and
"questions" itself may be left out. A time is ISO 8601; without an offset it is UTC.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from recall_report import WHOLE, EvaluationQuestion

from langchain_agentmem.agent_memory import AgentMemory

_SESSION = re.compile(r"session_(\d+)")
_TURN = re.compile(r"D:?\s*(\d+):(\d+)")
ROLES: Mapping[str, type[BaseMessage]] = {"user": HumanMessage, "assistant": AIMessage}
"""Speakers that are roles; everybody else is a person with a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTurn:
    """One thing that somebody said: its id, unique in its transcript, and what was said and shown."""

    id: str
    speaker: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSession:
    """One conversation, and when it took place."""

    id: str
    time: datetime
    turns: tuple[RecordedTurn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
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


def feed(memory: AgentMemory, transcripts: Sequence[Transcript], told: Callable[[], object] = lambda: None) -> None:
    """Store every session as a conversation in the namespace of its transcript, its turns a second apart.

    Args:
        memory: The memory. What it has already, it does not get twice.
        transcripts: What to store.
        told: Is called after each session.
    """
    for transcript in transcripts:
        for session in transcript.sessions:
            said = [_message(session, turn, place) for place, turn in enumerate(session.turns)]
            memory.conversation(session.id, namespace=(transcript.name,)).add_messages(said)
            told()


def _message(session: RecordedSession, turn: RecordedTurn, place: int) -> BaseMessage:
    return ROLES.get(turn.speaker, HumanMessage)(
        turn.text,
        id=turn.id,
        name=None if turn.speaker in ROLES else turn.speaker,
        additional_kwargs={"created_at": (session.time + timedelta(seconds=place)).isoformat()},
    )


def _of_ours(sample: Mapping[str, Any]) -> Transcript:
    sessions = tuple(
        RecordedSession(
            id=session["id"],
            time=in_utc(datetime.fromisoformat(session["time"])),
            turns=tuple(_turn(turn, "id", "image") for turn in session["turns"]),
        )
        for session in sample["sessions"]
    )
    name = sample["name"]
    asked = (_question(name, each, frozenset(each.get("evidence", ()))) for each in sample.get("questions", ()))
    return Transcript(name=name, sessions=sessions, questions=tuple(asked))


def _of_locomo(sample: Mapping[str, Any]) -> Transcript:
    talk, name = sample["conversation"], sample["sample_id"]
    numbers = sorted(int(match[1]) for key in talk if (match := _SESSION.fullmatch(key)))
    sessions = tuple(
        RecordedSession(
            id=f"session_{number}",
            time=_time(talk[f"session_{number}_date_time"].strip(), "%I:%M %p on %d %B, %Y"),
            turns=tuple(_turn(turn, "dia_id", "blip_caption") for turn in talk[f"session_{number}"]),
        )
        for number in numbers
    )
    turns = {turn.id for session in sessions for turn in session.turns}
    questions = []
    for each in sample.get("qa", ()):
        said = _TURN.finditer(" ".join(map(str, each.get("evidence", ()))))
        evidence = frozenset(f"D{int(match[1])}:{int(match[2])}" for match in said) & turns
        questions.append(_question(name, each, evidence))
    return Transcript(name=name, sessions=sessions, questions=tuple(questions))


def _of_beam(sample: Mapping[str, Any]) -> Transcript:
    sessions = tuple(
        RecordedSession(
            id=str(batch["batch"]),
            time=_time(batch["messages"][0]["time_anchor"], "%B-%d-%Y"),
            turns=tuple(
                RecordedTurn(id=str(said["id"]), speaker=said["role"], text=said["content"])
                for said in batch["messages"]
            ),
        )
        for batch in sample["batches"]
    )
    name = str(sample["chat"])
    questions = tuple(
        EvaluationQuestion(
            text=each["question"],
            evidence=frozenset(map(str, each["evidence"])),
            namespace=(name,),
            category=each["type"].replace("_", " "),
        )
        for each in sample["questions"]
    )
    return Transcript(name=name, sessions=sessions, questions=questions)


def _of_longmemeval(sample: Mapping[str, Any]) -> Transcript:
    columns = (sample["haystack_session_ids"], sample["haystack_dates"], sample["haystack_sessions"])
    histories: dict[str, Sequence[Any]] = {}
    for name, *history in zip(*columns, strict=True):
        histories.setdefault(name, history)
    sessions, evidence, named = [], set[str](), frozenset(sample["answer_session_ids"])
    for name, (date, said) in histories.items():
        turns = tuple(
            RecordedTurn(id=f"{name}_{place}", speaker=turn["role"], text=turn["content"])
            for place, turn in enumerate(said, 1)
        )
        sessions.append(RecordedSession(id=name, time=_day(date), turns=turns))
        if name in named:
            evidence |= {turn.id for turn, each in zip(turns, said, strict=True) if each.get("has_answer")}
    name = sample["question_id"]
    question = EvaluationQuestion(
        text=sample["question"],
        evidence=frozenset(
            () if name.endswith("_abs") else evidence or (f"{WHOLE}{each}" for each in named & histories.keys())
        ),
        namespace=(name,),
        category="abstention" if name.endswith("_abs") else sample["question_type"],
        at=_day(sample["question_date"]),
        answer=None if sample.get("answer") is None else str(sample["answer"]),
    )
    return Transcript(name=name, sessions=tuple(sessions), questions=(question,))


def _day(text: str) -> datetime:
    """A date such as "2023/05/20 (Sat) 02:21". The day of the week is not read: its name depends on the machine."""
    day, _, rest = text.partition("(")
    return _time(day.strip() + rest.partition(")")[2], "%Y/%m/%d %H:%M")


def _turn(turn: Mapping[str, Any], name: str, image: str) -> RecordedTurn:
    picture = f" [picture: {turn[image]}]" if turn.get(image) else ""
    return RecordedTurn(id=str(turn[name]), speaker=turn["speaker"], text=f"{turn['text']}{picture}".strip())


def _question(name: str, each: Mapping[str, Any], evidence: frozenset[str]) -> EvaluationQuestion:
    answer, category = (None if each.get(key) is None else str(each[key]) for key in ("answer", "category"))
    return EvaluationQuestion(
        text=each["question"], evidence=evidence, namespace=(name,), category=category, answer=answer
    )


def _time(text: str, form: str) -> datetime:
    return datetime.strptime(text, form).replace(tzinfo=UTC)


def in_utc(time: datetime) -> datetime:
    """The time, in UTC where it has no offset."""
    return time if time.tzinfo else time.replace(tzinfo=UTC)


FORMATS: Mapping[str, Callable[[Mapping[str, Any]], Transcript]] = {
    "conversation": _of_locomo,
    "batches": _of_beam,
    "haystack_sessions": _of_longmemeval,
    "sessions": _of_ours,
}
"""The reader of each format, by the key that only this format has."""
