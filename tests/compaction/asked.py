"""A model that remembers what it was asked, and histories to ask it about."""

from __future__ import annotations

import json
import threading

from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_agentmem.language_models.model_calls import perform
from langchain_agentmem.language_models.summarization import SummarizationConfig, summarizing
from langchain_agentmem.language_models.tokens import TokenCounter

COUNTER = TokenCounter("estimate")
GOAL = "Plan a trip to Kassel for Maya; the budget is 800 €."
REPLY = json.dumps(
    {
        "user_request_summary": GOAL,
        "summary": "Forty hotels were looked at.",
        "salient_facts": ["The budget is 800 €."],
        "open_threads": ["Book one."],
        "keep_images": [],
    }
)
FILLER = "The quick brown fox jumps over the lazy dog. "


def work(messages, model, *, earlier=None, output=400, room=2_000, **config):
    return summarizing(
        messages,
        earlier=earlier,
        model=model,
        config=SummarizationConfig(**config),
        counter=COUNTER,
        output_tokens=output,
        input_tokens=room,
    )


def summarized(messages, model, **how):
    return perform(work(messages, model, **how))


def tool_rounds(count: int):
    history = [HumanMessage(GOAL)]
    for n in range(count):
        call = {"name": "search", "args": {"q": f"ask{n:03}x"}, "id": f"call{n:03}x"}
        history.append(AIMessage("", tool_calls=[call]))
        history.append(
            ToolMessage(f"Hotel result{n:03}x is free. {FILLER * 3}", tool_call_id=f"call{n:03}x", name="search")
        )
    return history


class Counting:
    """Answers always the same, and remembers what it was given."""

    def __init__(self, reply=REPLY, limit=None):
        self.reply = reply
        self.limit = limit
        self.seen = []

    def __call__(self, messages):
        size = COUNTER.count(messages)
        if self.limit is not None and size > self.limit:
            raise ContextOverflowError("too much")
        self.seen.append(messages)
        return self.reply(len(self.seen)) if callable(self.reply) else self.reply

    @property
    def calls(self):
        return len(self.seen)

    @property
    def text(self):
        return "\n".join(message.text for messages in self.seen for message in messages)


LIMIT = 60
"""Seconds in which whatever happens in the background has happened."""


class Waiting:
    """Answers when it is let, and remembers what it was asked, and in which threads."""

    def __init__(self, *replies, usual=lambda count: REPLY):
        self.replies = list(replies)
        self.usual = usual
        self.asked = []
        self.free = threading.Event()
        self.free.set()
        self.began = threading.Semaphore(0)

    def __call__(self, messages):
        self.asked.append("\n".join(message.text for message in messages))
        self.began.release()
        assert self.free.wait(LIMIT)
        reply = self.replies.pop(0) if self.replies else self.usual(len(self.asked))
        if isinstance(reply, Exception):
            raise reply
        return reply


def image(n: int):
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{n:08}"}}


def with_image(n: int):
    return HumanMessage([{"type": "text", "text": f"Look at picture {n}."}, image(n)])
