"""The LoCoMo file, read as it is: long talks of two people, with questions that name the turns they rest on.

    [{"sample_id": "…",
      "conversation": {"speaker_a": "…", "speaker_b": "…",
                       "session_1_date_time": "1:56 pm on 8 May, 2023",
                       "session_1": [{"speaker": "…", "dia_id": "D1:1", "text": "…", "blip_caption": "…"}]},
      "qa": [{"question": "…", "answer": "…", "evidence": ["D1:1"], "category": 4}]}]

The file has its quirks, which are accepted: several ids in one string, ids with a colon too many or with leading
zeros, evidence that names no turn, dates of sessions that do not exist, and questions that have only an
"adversarial_answer", because the right answer is that nobody said so.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.demo.place import Place
from langchain_agentmem.demo.transcript import Question, Session, Transcript, Turn, with_image

_SESSION = re.compile(r"session_(\d+)")
_DATE = re.compile(r"\s*(\d{1,2}):(\d{2}) ([ap]m) on (\d{1,2}) (\w+),? (\d{4})\s*", re.IGNORECASE)
_TURN = re.compile(r"D:?\s*(\d+):(\d+)")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


def locomo_transcript(sample: Place, names: set[str]) -> Transcript:
    """Read one sample of a LoCoMo file.

    Args:
        sample: The sample.
        names: The ids of the file's other samples; this one is added.

    Raises:
        InvalidInput: It is malformed.
    """
    name = sample.at("sample_id").label(names)
    talk = sample.at("conversation")
    numbers = sorted(int(match[1]) for key in talk.of(dict, "an object") if (match := _SESSION.fullmatch(key)))
    if not numbers:
        raise talk.wrong('there is no "session_1"')
    taken: set[str] = set()
    sessions = tuple(_session(talk, f"session_{number}", taken) for number in numbers)
    asked = sample.at("qa").each("question") if sample.has("qa") else ()
    return Transcript(name=name, sessions=sessions, questions=tuple(_question(place, taken) for place in asked))


def _session(talk: Place, name: str, taken: set[str]) -> Session:
    return Session(
        id=name,
        time=_time(talk.at(f"{name}_date_time")),
        turns=tuple(
            Turn(
                id=turn.at("dia_id").id("turn", taken),
                speaker=turn.at("speaker").filled(),
                text=with_image(turn.at("text").text(), turn.optional_text("blip_caption")),
            )
            for turn in talk.at(name).each("turn")
        ),
    )


def _time(place: Place) -> datetime:
    """A session's time. Months are read here, since `strptime` would read them in the language of the machine."""
    wrong = place.wrong(f"{safe_repr(place.text())} is not a time such as '1:56 pm on 8 May, 2023'")
    match = _DATE.fullmatch(place.text())
    if not match or match[5].lower() not in _MONTHS:
        raise wrong
    hour, minute, half, day, month, year = match.groups()
    hours = int(hour) % 12 + (12 if half.lower() == "pm" else 0)
    try:
        return datetime(int(year), _MONTHS.index(month.lower()) + 1, int(day), hours, int(minute), tzinfo=UTC)
    except ValueError as error:
        raise wrong from error


def _question(place: Place, turns: set[str]) -> Question:
    named = place.at("evidence").each("id") if place.has("evidence") else ()
    ids = {f"D{int(match[1])}:{int(match[2])}" for each in named for match in _TURN.finditer(each.text())}
    return Question(
        text=place.at("question").filled(),
        answer=place.optional_text("answer"),
        evidence=frozenset(ids & turns),
        category=place.optional_text("category"),
    )
