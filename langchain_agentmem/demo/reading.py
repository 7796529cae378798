"""Transcripts are read from JSON: checked wholly before anything is stored.

Our own format is one object, or a list of them (`sample.json` is one):

    {"name": "orchard",
     "sessions": [{"id": "session_1", "time": "2024-03-02T18:30",
                   "turns": [{"id": "1.1", "speaker": "Maya", "text": "I planted two quince trees.",
                              "image": "two saplings beside a wall"}]}],
     "questions": [{"question": "How many quince trees are there?", "answer": "two", "evidence": ["1.1"],
                    "category": "one session"}]}

"image" (what a picture shows), "answer", "evidence" (ids of the turns that hold the answer), "category" and
"questions" itself may be left out. A time is ISO 8601; without an offset it is UTC.

The LoCoMo file is accepted too (`locomo.py`).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.demo.locomo import locomo_transcript
from langchain_agentmem.demo.place import Place
from langchain_agentmem.demo.transcript import Question, Session, Transcript, Turn, with_image
from langchain_agentmem.errors import InvalidInput

SAMPLE = "sample"
"""The name under which the transcript that is shipped with the package is asked for."""


def read_transcripts(name: str) -> list[Transcript]:
    """Read a file of transcripts, in our own format or as the LoCoMo file has them.

    Args:
        name: The path of a file, or "sample".

    Returns:
        One or more transcripts.

    Raises:
        InvalidInput: The file cannot be read or is malformed; the message says what is wrong, and where.
    """
    document = Place(_parsed(name), name)
    samples = list(document.each("sample")) if isinstance(document.value, list) else [document]
    if not samples:
        raise document.wrong("there is no transcript in it")
    names: set[str] = set()
    return [
        locomo_transcript(sample, names) if sample.has("conversation") else _transcript(sample, names)
        for sample in samples
    ]


def _parsed(name: str) -> Any:
    path = files("langchain_agentmem.demo").joinpath("sample.json") if name == SAMPLE else Path(name)
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"{name}, line {error.lineno}, column {error.colno}: this is not JSON: {error.msg}"
        ) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, a NUL in the path, a number or a nesting out of bounds
        raise InvalidInput(f"{name}: this cannot be read as JSON: {error}") from error
    except OSError as error:
        raise InvalidInput(f"{name}: the transcript cannot be read: {error.strerror or error}") from error


def _transcript(sample: Place, names: set[str]) -> Transcript:
    if not sample.has("sessions"):
        raise sample.wrong('a transcript has "sessions" (or, in a LoCoMo file, a "conversation"); this has neither')
    ids: set[str] = set()
    taken: set[str] = set()
    name = sample.at("name").label(names)
    sessions = tuple(_session(place, ids, taken) for place in sample.at("sessions").each("session"))
    asked = sample.at("questions").each("question") if sample.has("questions") else ()
    return Transcript(name=name, sessions=sessions, questions=tuple(_question(place, taken) for place in asked))


def _session(place: Place, ids: set[str], taken: set[str]) -> Session:
    told = place.at("time")
    try:
        time = datetime.fromisoformat(told.text())
    except ValueError as error:
        raise told.wrong(f"{safe_repr(told.value)} is not a time such as 2024-03-02T18:30") from error
    return Session(
        id=place.at("id").id("session", ids),
        time=time if time.tzinfo else time.replace(tzinfo=UTC),
        turns=tuple(
            Turn(
                id=turn.at("id").id("turn", taken),
                speaker=turn.at("speaker").filled(),
                text=with_image(turn.at("text").text(), turn.optional_text("image")),
            )
            for turn in place.at("turns").each("turn")
        ),
    )


def _question(place: Place, turns: set[str]) -> Question:
    evidence = list(place.at("evidence").each("id")) if place.has("evidence") else []
    for each in evidence:
        if each.text() not in turns:
            raise each.wrong(f"no turn has the id {safe_repr(each.value)}")
    return Question(
        text=place.at("question").filled(),
        answer=place.optional_text("answer"),
        evidence=frozenset(each.text() for each in evidence),
        category=place.optional_text("category"),
    )
