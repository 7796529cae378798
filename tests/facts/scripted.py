"""Scripted models: each message contains its facts in a simple notation.

    Maya Ortiz | lives in | Lisbon | 2024-03-01
    Maya Ortiz | likes | tea
    Maya likes rain

A model here reads the messages that it was shown, as they stand in the prompt, and answers with the facts of each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage

CASES = json.loads(Path(__file__).with_name("cases.json").read_text("utf-8"))
"""Tables of the tests: what is given, and what comes of it."""
_MESSAGE = re.compile(r'<message number="(\d+)" speaker="([^"]*)" time="([^"]*)">\n(.*?)\n</message>', re.DOTALL)
_SENTENCE = re.compile(r"(\w+) (lives in|works at|likes) (\w+)()()")
_FACT = re.compile(r"^([^|\n]+) \| ([^|\n]+) \| ([^|\n]+?)(?: \| ([\d-]*)(?: \| ([\d-]+))?)?$", re.MULTILINE)


class Shown(NamedTuple):
    """A message as a model was shown it."""

    number: int
    speaker: str
    time: str
    text: str


def shown(messages: Sequence[BaseMessage]) -> list[Shown]:
    """The messages that a model was shown."""
    found = _MESSAGE.findall(str(messages[-1].content))
    return [Shown(int(number), speaker, time, text) for number, speaker, time, text in found]


def facts_in(text: str, **more: Any) -> list[dict[str, Any]]:
    """The facts stated in a text."""
    found = []
    for subject, predicate, obj, start, end in [*_FACT.findall(text), *_SENTENCE.findall(text)]:
        fact = {**more, "subject": subject, "predicate": predicate, "object": obj}
        found.append(fact | ({"valid_from": start} if start else {}) | ({"valid_to": end} if end else {}))
    return found


def told(some: Sequence[Shown]) -> dict[str, Any]:
    """The correct answer for messages."""
    return {"facts": [fact for each in some for fact in facts_in(each.text, message=each.number)]}


STYLES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "json": json.dumps,
    "object": dict,
    "fenced": lambda answer: f"```json\n{json.dumps(answer, indent=2)}\n```",
    "amid prose": lambda answer: f"Here is what I found:\n\n{json.dumps(answer)}\n\nShall I look for more?",
    "pythonic": repr,
    "cut off": lambda answer: json.dumps(answer)[:-2],
    "bare list": lambda answer: json.dumps(answer["facts"]),
    "unnumbered": lambda answer: json.dumps([{k: fact[k] for k in fact if k != "message"} for fact in answer["facts"]]),
    "worded": lambda answer: json.dumps([{**fact, "message": f" {fact['message']} "} for fact in answer["facts"]]),
    "message": lambda answer: AIMessage([{"type": "text", "text": json.dumps(answer)}]),
}
"""How a right answer may look."""


class Scripted:
    """A function from messages to an answer, which records its calls; `ScriptedModel(Scripted())` is a model.

    Args:
        style: How its answer looks.
        meanwhile: Called whenever it is asked, with how often it was before, and what it is shown; what it raises is
            raised, and what it returns, unless None, is the answer.
    """

    def __init__(
        self,
        style: Callable[[dict[str, Any]], Any] = json.dumps,
        meanwhile: Callable[[int, list[Shown]], Any] = lambda *_: None,
    ) -> None:
        self.style, self.meanwhile = style, meanwhile
        self.calls: list[list[Shown]] = []

    def __call__(self, messages: Sequence[BaseMessage]) -> Any:
        some = shown(messages)
        self.calls.append(some)
        answer = self.meanwhile(len(self.calls) - 1, some)
        return self.style(told(some)) if answer is None else answer

    @property
    def texts(self) -> list[list[str]]:
        """The message texts of each call."""
        return [[each.text for each in some] for some in self.calls]
