"""Those who keep a context in its budget, side by side: ours, LangChain's middleware, langmem's node.

Each is given the same histories, turn by turn, with the same threshold, the same counter and the same model, and
everything else as it comes. A message carries a mark at its beginning, in its middle and at its end, so that it is
known what of it reached the prompt or the model that summarizes.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from langchain_agentmem import AgentMemory
from langchain_agentmem.compaction.compaction_config import (
    ActiveContextPolicyConfig,
    ManagedMemoryConfig,
    ToolTruncationConfig,
)
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.testing import provider_problems

THRESHOLD = 8_000
KEPT = 0.6
COUNTER = TokenCounter("estimate")
MARK = re.compile(r"mk\d+[abc]x")
WORDS = (
    "We went through the invoice of the kettle from Oslo line by line, and found that the second item had been charged "
    "twice; the seller promised to send a new one by Tuesday, and the old receipt stays in the blue folder. "
)
SUMMARY = "The user had the invoices of the last weeks checked. " * 12

Prompt = Callable[[Sequence[BaseMessage]], list[BaseMessage]]
"""Is given the whole history so far, and gives what a model is to be shown."""


class Summarizer(BaseChatModel):
    """A model that answers at once, and remembers what it was asked."""

    asked: list[str] = []  # noqa: RUF012 - a field: each object has its own

    @property
    def _llm_type(self) -> str:
        return "summarizer"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.asked.append("\n".join(message.text for message in messages))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"Record {len(self.asked)}. {SUMMARY}"))])


# --- Histories --------------------------------------------------------------------------------------------------------


def marked(number: int, text: str) -> str:
    """A text with marks, at least one sentence apart."""
    middle = len(text) // 2
    return f"mk{number}ax {text[:middle]} mk{number}bx {text[middle:]} mk{number}cx"


class History:
    """A history while it grows."""

    def __init__(self) -> None:
        self.messages: list[BaseMessage] = [SystemMessage("You keep the books.", id="system")]

    def say(self, kind: Callable[..., BaseMessage], text: str, **fields: Any) -> None:
        number = len(self.messages)
        self.messages.append(kind(marked(number, text), id=f"m{number}", **fields))

    def round(self, count: int, text: str) -> None:
        """So many calls at once, with their results."""
        at = len(self.messages)
        ids = [f"call-{at}-{each}" for each in range(count)]
        calls = [{"name": "look", "args": {"page": each}, "id": key} for each, key in enumerate(ids)]
        self.say(AIMessage, "I look that up.", tool_calls=calls)
        for key in ids:
            self.say(ToolMessage, text, tool_call_id=key, name="look")


def long_chat() -> Iterator[list[BaseMessage]]:
    """Two hundred questions and answers."""
    history = History()
    for _ in range(200):
        history.say(HumanMessage, WORDS)
        yield history.messages
        history.say(AIMessage, WORDS * 2)


def one_task() -> Iterator[list[BaseMessage]]:
    """One user message, and a hundred rounds of tools."""
    history = History()
    history.say(HumanMessage, "Check every invoice of this year. " + WORDS)
    for _ in range(100):
        yield history.messages
        history.round(1, WORDS * 3)
    yield history.messages


def huge_outputs() -> Iterator[list[BaseMessage]]:
    """Thirty questions, each of which a tool answers with 20,000 characters."""
    history = History()
    for _ in range(30):
        history.say(HumanMessage, WORDS)
        yield history.messages
        history.round(1, (WORDS * 100)[:20_000])
        yield history.messages
        history.say(AIMessage, WORDS)


def parallel_tools() -> Iterator[list[BaseMessage]]:
    """Sixty questions, each with three calls at once, twice."""
    history = History()
    for _ in range(60):
        history.say(HumanMessage, WORDS)
        for _ in range(2):
            yield history.messages
            history.round(3, WORDS)
        yield history.messages
        history.say(AIMessage, WORDS)


HISTORIES = {
    "long chat": long_chat,
    "one task": one_task,
    "huge outputs": huge_outputs,
    "parallel tools": parallel_tools,
}


# --- Contenders -------------------------------------------------------------------------------------------------------


def ours(model: Summarizer, memory: AgentMemory, name: str, *, cut: bool = True) -> Prompt:
    """The node of this package, which also records every message in its database."""
    policy = ActiveContextPolicyConfig(min_reduction_ratio=1 - KEPT, tool_truncation=ToolTruncationConfig(enabled=cut))
    config = ManagedMemoryConfig(threshold_tokens=THRESHOLD, token_counter=COUNTER, active_context=policy)
    node = memory.compaction(model, config)
    return lambda history: node.invoke(history, {"configurable": {"thread_id": name}})


def langchain(model: Summarizer) -> Prompt:
    """LangChain's middleware, which replaces the history in the state."""
    from langchain.agents.middleware import SummarizationMiddleware

    middleware = SummarizationMiddleware(
        model, trigger=("tokens", THRESHOLD), keep=("tokens", int(THRESHOLD * KEPT)), token_counter=COUNTER.count
    )
    state: list[BaseMessage] = []
    seen = 0

    def prompt(history: Sequence[BaseMessage]) -> list[BaseMessage]:
        nonlocal state, seen
        # The system message is no part of an agent's state: it is sent before it.
        state += [message for message in history[seen:] if not isinstance(message, SystemMessage)]
        seen = len(history)
        update = middleware.before_model({"messages": state}, None)  # type: ignore[typeddict-item, arg-type]
        if update is not None:
            state = list(update["messages"][1:])  # behind the removal of all others
        return [history[0], *state]

    return prompt


def langmem(model: Summarizer) -> Prompt:
    """langmem's node, with its running summary kept between turns."""
    from langmem.short_term import SummarizationNode

    node = SummarizationNode(
        model=model, max_tokens=THRESHOLD, max_tokens_before_summary=THRESHOLD, token_counter=COUNTER.count
    )
    context: dict[str, Any] = {}

    def prompt(history: Sequence[BaseMessage]) -> list[BaseMessage]:
        nonlocal context
        update = node.invoke({"messages": list(history), "context": context})
        context = update.get("context", context)
        return update["summarized_messages"]

    return prompt


# --- What is measured -------------------------------------------------------------------------------------------------


@dataclass
class Report:
    """What came of one history.

    Attributes:
        unseen: Messages that neither the last prompt nor any question to the model showed.
        partly: Messages of which a part was shown and a part was not.
        orphans: Prompts with a tool's result without its call, or a call without its result.
        refused: Prompts that some provider refuses, for that or anything else.
        without_goal: Prompts without the first thing that the user said.
        too_large: Prompts beyond the threshold.
        calls: Questions to the model.
        kept: What the prompts had, in tokens, on average.
        seconds: What it all took, the model not counted.
        shared: How much of a prompt the prompt before began with, on average, as a share.
        error: What went wrong, if it could not be done.
    """

    unseen: int = 0
    partly: int = 0
    orphans: int = 0
    refused: int = 0
    without_goal: int = 0
    too_large: int = 0
    calls: int = 0
    kept: float = 0
    seconds: float = 0
    shared: float = 1
    prompts: int = 0
    error: str = field(default="")


def measure(
    prompt: Prompt, model: Summarizer, history: Iterator[list[BaseMessage]], *, most: int | None = None
) -> Report:
    """Give one contender one history.

    Args:
        prompt: The contender.
        model: The model that it was given.
        history: The history as it is before each call of the agent's model.
        most: After how many prompts to stop; None for all.
    """
    report, before, shares, sizes = Report(), "", [], []
    given: list[BaseMessage] = []
    shown: list[BaseMessage] = []
    for messages in history:
        if most is not None and report.prompts >= most:
            break
        given = list(messages)
        began = time.perf_counter()
        try:
            shown = prompt(given)
        except Exception as error:  # noqa: BLE001 - that a contender fails is a result
            report.error = f"{type(error).__name__}: {error}"[:100]
            break
        report.seconds += time.perf_counter() - began
        report.prompts += 1
        problems = provider_problems(shown)
        report.orphans += any("answer" in problem for problem in problems)
        report.refused += bool(problems)
        report.without_goal += not any(each.content == given[1].content for each in shown)
        sizes.append(sum(map(COUNTER.count_message, shown)))
        report.too_large += sizes[-1] > THRESHOLD
        now = written(shown)
        if before:
            same = len(os.path.commonprefix([before, now]))  # noqa: RUF071 - characters are meant
            shares.append(same / min(len(before), len(now)))
        before = now
    known = set(MARK.findall(written(shown))) | {mark for text in model.asked for mark in MARK.findall(text)}
    for message in given[1:]:
        marks = set(MARK.findall(message.text))
        report.unseen += not marks & known
        report.partly += bool(marks & known) and not marks <= known
    report.calls = len(model.asked)
    report.kept = statistics.mean(sizes) if sizes else 0
    report.shared = statistics.mean(shares) if shares else 1
    return report


def written(messages: Sequence[BaseMessage]) -> str:
    """What a provider is sent of messages, as text."""
    names = ("type", "content", "tool_calls", "tool_call_id", "name")
    return "\n".join(json.dumps([getattr(message, name, None) for name in names]) for message in messages)
