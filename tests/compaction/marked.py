"""Random histories whose messages are known again wherever their texts went, and models that remember what they saw."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import orjson
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import BaseMessage, ToolMessage

from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.message_marks import summary_in
from tests.support.histories import random_history

MARK = re.compile(r"mk(\d+)[a-c]x")


def remembered(function):
    """Ask a function but once about an object: ten thousand histories are many, and nothing may change a message."""
    known = {}

    def ask(message):
        if id(message) not in known:
            if len(known) > 2_000:
                known.clear()
            known[id(message)] = message, function(message)
        return known[id(message)][1]

    return ask


COUNTER = TokenCounter(lambda text: len(text) // 4 + 1)  # quick, and as good as any here
COUNTER.count_message = remembered(COUNTER.count_message)


class Sample(NamedTuple):
    """A random history.

    Attributes:
        seed: Its seed.
        given: The history, with marks.
        before: What it was, to compare with.
        valid: The history repaired.
    """

    seed: int
    given: list[BaseMessage]
    before: bytes
    valid: list[BaseMessage]


def costs(messages):
    return sum(map(COUNTER.count_message, messages))


def marked_history(seed):
    """A random history whose messages say which they are: `mk7ax … mk7bx`, and `mk7cx` in their calls.

    One of ten is as long as they come, the others are short: what breaks, breaks among few messages.
    """
    history = random_history(seed, size=None if seed // 7 % 10 == 0 else 1 + seed % 16)
    for place, message in enumerate(history):
        message.content = with_marks(message.content, f"mk{place}ax", f"mk{place}bx")
        calls = getattr(message, "tool_calls", ()) or ()
        for call in calls:
            call["args"] = {"mark": f"mk{place}cx", **call["args"]}
    return history


def with_odd_calls(history, seed):
    """A history whose calls have ids as some models and frameworks make them; it is changed.

    Most have the ids that they had, others long ones, ones of other signs, or ones that are long and begin alike.
    """
    form = ("{}", "{}", "{}".ljust(60 + seed % 300, "x"), "functions.look:{}", "p" * 60 + "{}")[seed % 5]
    make = form.format
    for message in history:
        if isinstance(message, ToolMessage):
            message.tool_call_id = make(message.tool_call_id)
        blocks = message.content if isinstance(message.content, list) else []
        calls = [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]
        for call in (*calls, *(block for block in blocks if block.get("type") == "tool_use")):
            call["id"] = make(call["id"])
    return history


def with_halves(history, seed):
    """Add half of a surrogate pair, as of a text that was cut in JavaScript, to some texts of a history."""
    for place, message in enumerate(history if seed % 3 == 0 else []):
        if isinstance(message.content, str) and message.content and place % 2:
            message.content += "\ud83d"
        for call in getattr(message, "tool_calls", ()):
            call["args"] = {**call["args"], "a\udc00": ["\ud83d", {"b": "\ud83d"}]}
    return history


@remembered
def marks(message):
    return tuple(found.group() for found in MARK.finditer(said_by(message)))


def with_marks(content, first, last):
    if isinstance(content, str):
        return f"{first} {content} {last}" if content.strip() else content
    texts = [block for block in content if block.get("type") == "text" and block["text"].strip()]
    if texts:
        texts[0]["text"] = f"{first} {texts[0]['text']}"
        texts[-1]["text"] = f"{texts[-1]['text']} {last}"
    return content


def snapshot(history):
    """All that is in a history."""
    return orjson.dumps([message.__dict__ for message in history])


def said_by(message):
    """All that a message says, as one text."""
    content = message.content if isinstance(message.content, str) else json.dumps(message.content, ensure_ascii=False)
    return f"{content} {json.dumps([call['args'] for call in getattr(message, 'tool_calls', ())])}"


def all_marks(messages):
    return {mark for message in messages for mark in marks(message)}


def marks_in(texts):
    return {found.group() for text in texts for found in MARK.finditer(text)}


def places_in(messages):
    """The places of the original messages that are shown, in the order in which they are; a summary shows none."""
    shown = []
    for message in messages:
        if summary_in(message) is None:
            for mark in marks(message):
                if (place := int(mark[2:-2])) not in shown[-1:]:
                    shown.append(place)
    return shown


# --- Models -----------------------------------------------------------------------------------------------------------


class Model:
    """Answers as its kind does, and remembers what it was given."""

    KINDS = ("good", "good", "good", "images", "prose", "small", "fails", "late", "nonsense")

    def __init__(self, kind, number=0):
        self.kind = kind
        self.number = number
        self.asked = []

    def __call__(self, messages):
        text = "\n".join(message.text for message in messages)
        if self.kind == "small" and COUNTER.count(messages) > 1_500:
            raise ContextOverflowError("prompt is too long")
        self.asked.append(text)
        if self.kind == "fails" or (self.kind == "late" and len(self.asked) > 1):
            raise ConnectionError("The model is not there.")
        if self.kind == "nonsense":
            return (
                "",
                "  \n",
                "[]",
                "[1, 2, 3]",
                "{}",
                "I'm sorry, I can't help with that.",
                text * 20,
                '{"summary": ',
            )[self.number % 8]
        if self.kind == "prose":
            return "The user wanted things, and the assistant did them one by one."
        names = re.findall(r"img_[0-9a-f]{8}", text) if self.kind == "images" else []
        return json.dumps(
            {
                "user_request_summary": "What the user asked for at first and asks for now.",
                "summary": f"What was done, as of call {len(self.asked)}.",
                "salient_facts": ["A fact that matters."],
                "open_threads": [],
                "keep_images": [{"image_id": name, "context": "needed"} for name in names],
            }
        )

    @property
    def is_good(self):
        return self.kind in {"good", "images", "prose", "small"}
