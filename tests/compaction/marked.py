"""Random histories with marked messages, which can be traced through compaction, and models that record their input."""

import json
import re

import orjson
from langchain_core.messages import ToolMessage

from langchain_agentmem.compaction import (
    ActiveContextPolicyConfig,
    BackwardPackingConfig,
    SlidingWindowConfig,
    SummarizationConfig,
    ToolTruncationConfig,
)
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.message_marks import summary_in
from tests.compaction.summarizers import SUMMARY, Summarizer
from tests.support.histories import random_history

MARK = re.compile(r"mk(\d+)[a-c]x")


def remembered(function):
    """Cache the results of a function by object identity, which makes thousands of histories affordable."""
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


def costs(messages):
    return sum(map(COUNTER.count_message, messages))


def marked_history(seed):
    """A random history whose messages say which they are: `mk7ax … mk7bx`, and `mk7cx` in their calls.

    One of ten is long, the others are short, as most failures need only a few messages.
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
    """Serialize a history, to compare it later."""
    return orjson.dumps([message.__dict__ for message in history])


def said_by(message):
    """Return the content and the call arguments of a message as one text."""
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


# --- Models and limits -----------------------------------------------------------------------------------------------

KINDS = ("good", "good", "good", "images", "prose", "small", "fails", "late", "nonsense")
"""How models answer; those that fail come last."""
NONSENSE = ("", "  \n", "[]", "[1, 2, 3]", "{}", "I'm sorry, I can't help with that.", '{"summary": ')


def model_of(kind, number=0):
    """A model that answers as its kind does; a small one refuses long prompts."""
    error = ConnectionError("The model is not there.")
    replies = {
        "prose": ["The user wanted things, and the assistant did them one by one."],
        "fails": [error],
        "late": [answer, error],
        "nonsense": [(*NONSENSE, lambda messages: messages[-1].text * 200)[number % 8]],
    }.get(kind, [lambda messages: answer(messages, images=kind == "images")])
    return Summarizer(*replies, limit=1_500 if kind == "small" else None)


def is_good(kind):
    return kind in {"good", "images", "prose", "small"}


def answer(messages, *, images=False):
    names = re.findall(r"img_[0-9a-f]{8}", messages[-1].text) if images else []
    return json.dumps({**SUMMARY, "summary": "Much was done.", "keep_images": [{"image_id": each} for each in names]})


ORDERS = (
    ("tool_truncation", "summarization", "backward_packing"),
    ("tool_truncation", "summarization", "backward_packing"),
    ("summarization",),
    ("tool_truncation", "backward_packing"),
    ("backward_packing",),
)


def random_policy(dice):
    grace = dice.choice((0, 1, 1, 2, 4))
    limit = dice.randint(5, 400)
    return ActiveContextPolicyConfig(
        mode=dice.choices(("compaction", "sliding_window"), (9, 1))[0],
        processor_order=[*dice.choice(ORDERS)],
        min_reduction_ratio=dice.choice((0.2, 0.4, 0.7)),
        tool_truncation=ToolTruncationConfig(max_tool_message_tokens=limit, grace_recent_messages=grace),
        summarization=SummarizationConfig(
            grace_recent_messages=grace,
            include_original_instruction=dice.random() < 0.9,
            max_retained_images=dice.choice((None, 0, 1, 2)),
            output_max_tokens=dice.choice((100, 400, 6_000)),
            timeout=None,
        ),
        backward_packing=BackwardPackingConfig(grace_recent_messages=grace),
        sliding_window=SlidingWindowConfig(headroom_percent=dice.choice((0, 0.1))),
    )
