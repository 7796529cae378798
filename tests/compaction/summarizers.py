"""Scripted models that summarize, budgets, and conversations, for tests."""

from __future__ import annotations

import json

from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem.compaction import ActiveContextPolicyConfig, ManagedMemoryConfig


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


class Summarizer:
    """A model that answers with a short summary, and remembers what it was asked."""

    def __init__(self):
        self.asked: list[str] = []

    def __call__(self, messages):
        self.asked.append("\n".join(str(message.content) for message in messages))
        return json.dumps(
            {
                "user_request_summary": "The user counts things.",
                "summary": f"Summary number {len(self.asked)}: many things were counted, one after the other.",
                "salient_facts": ["Counting began at nought."],
                "open_threads": [],
                "keep_images": [],
            }
        )

    @property
    def everything(self) -> str:
        """All that it was ever given."""
        return "\n".join(self.asked)
