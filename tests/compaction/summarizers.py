"""Summarizing models, budgets, conversations and graphs for tests."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import Field

from langchain_agentmem.compaction import ActiveContextPolicyConfig, CompactionState, ManagedMemoryConfig
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.message_marks import summary_in
from tests.support.graphs import line
from tests.support.models import ScriptedModel, calling

COUNTER = TokenCounter("estimate")
FILLER = "The quick brown fox jumps over the lazy dog. "
TALK = "how many apples are there in this basket and in the other one " * 4
SUMMARY = {
    "user_request_summary": "The user counts things.",
    "salient_facts": ["Counting began at nought."],
    "open_threads": [],
    "keep_images": [],
}


class Summarizer(ScriptedModel):
    """Answers with a short summary if nothing else is in its script; callable as a plain function, too.

    Attributes:
        things: The things that its summaries are about.
        limit: The number of tokens above which it refuses, and remembers nothing.
    """

    things: str = "many things"
    limit: int | None = None

    def __init__(self, *replies: Any, **options: Any) -> None:
        usual = replies[-1] if replies else lambda messages: self.summary()
        super().__init__(*replies, **{"usual": usual, **options})

    def __call__(self, messages: Any) -> Any:
        return self.reply(messages)

    def summary(self) -> str:
        text = f"Summary number {len(self.asked)}: {self.things} were counted, one after the other."
        return json.dumps({**SUMMARY, "summary": text})

    def reply(self, messages: Any) -> Any:
        if self.limit is not None and COUNTER.count(messages) > self.limit:
            raise ContextOverflowError("too much")
        return super().reply(messages)

    @property
    def everything(self) -> str:
        """All texts that the model received."""
        return "\n".join(self.texts)


class AgentModel(ScriptedModel):
    """An agent's model, which answers by a function of the messages and refuses what is too large.

    Attributes:
        limit: The number of tokens above which it refuses.
        refuse: From the number of a call to the error that it raises, or None.
        kind: Its provider.
        summarizer: The model that is asked for summaries in its place.
    """

    limit: int | None = None
    refuse: Any = None
    kind: str = "scripted"
    summarizer: Summarizer = Field(default_factory=Summarizer)

    def __init__(self, script: Any = None, **options: Any) -> None:
        usual = script or (lambda messages: f"answer {len(self.asked)} {TALK}")
        super().__init__(usual=usual, **options)

    @property
    def _llm_type(self) -> str:
        return self.kind

    def reply(self, messages: Any) -> Any:
        if "You keep the record" in messages[0].text:
            return self.summarizer.reply(messages)
        answer = super().reply(messages)
        if self.refuse is not None and (error := self.refuse(len(self.asked))) is not None:
            raise error
        if self.limit is not None and COUNTER.count(messages) > self.limit:
            raise ContextOverflowError(f"more than {self.limit} tokens")
        return answer


def budget(tokens, **policy):
    """The configuration of a budget of so many estimated tokens."""
    active = ActiveContextPolicyConfig(**policy)
    return ManagedMemoryConfig(threshold_tokens=tokens, token_counter="estimate", active_context=active)


def question(turn, prefix=""):
    return HumanMessage(
        f"{prefix}question-{turn:03} " + "how many are there in this basket " * 2, id=f"{prefix}q-{turn}"
    )


def talk(turns, prefix=""):
    said = []
    for turn in range(turns):
        answer = f"{prefix}answer-{turn:03} " + "this many are in it " * 3
        said += [question(turn, prefix), AIMessage(answer, id=f"{prefix}a-{turn}")]
    return said


def with_a_call(output, **more):
    """A user message, a call with its result, and an answer."""
    return [
        HumanMessage("go", id="go"),
        AIMessage("", tool_calls=calling("look", "c1").tool_calls, id="ai-1"),
        ToolMessage(output, tool_call_id="c1", id="tool-1", **more),
        AIMessage("done", id="ai-2"),
    ]


def build(memory, node, schema=CompactionState):
    """A graph that compacts and answers, and a list of what its model was shown."""
    shown = []

    def answer(state):
        shown.append(state.get("llm_input_messages", state["messages"]))
        turn = len(shown) - 1
        return {"messages": [AIMessage(f"answer-{turn:03} " + "this many are in it " * 3, id=f"a-{turn}")]}

    return line(memory.checkpointer, node, answer, state=schema), shown


def only_summary(messages):
    """The one message of a context that is a summary."""
    [found] = [message for message in messages if summary_in(message) is not None]
    return found
