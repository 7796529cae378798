"""Models for the demo: a small deterministic one that needs no key, and any real one by its name.

`QuotingModel` is a chat model like any other, but it knows nothing: it picks the recalled sentences that share
the rarest words with the question, and quotes them. If it answers well, memory did the work.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.cli.network_fence import Passage, unfence
from langchain_agentmem.errors import InvalidInput, MissingExtra
from langchain_agentmem.search import analysis

NOTED = "Thank you, I will remember that."
NOTHING = "I do not remember anything about that."
MOST_QUOTES = 2

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class QuotingModel(BaseChatModel):
    """A deterministic chat model that answers from the fenced memory in its prompt, and from nothing else."""

    @property
    def _llm_type(self) -> str:
        return "agentmem-quoting"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - LangChain's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        passages, question = _read(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply(question, passages)))])


class _Sentence(NamedTuple):
    text: str
    passage: Passage
    terms: frozenset[str]


def reply(question: str, passages: Sequence[Passage]) -> str:
    """Answer a question by quoting, or take note of a statement.

    Args:
        question: What was just said.
        passages: What was recalled, the best first.
    """
    if "?" not in question:
        return NOTED
    wanted = frozenset(analysis.question(question).terms)
    sentences = list(_sentences(passages))
    counts = Counter(term for sentence in sentences for term in sentence.terms & wanted)
    weights = {term: math.log(1 + len(sentences) / count) for term, count in counts.items()}
    quotes: list[str] = []
    enough = 0.0
    for _ in range(MOST_QUOTES):
        best = max(sentences, key=lambda each: _weight(each, weights), default=None)
        if best is None or _weight(best, weights) <= enough:
            break
        enough = _weight(best, weights) / 2
        quotes.append(f"{best.passage.speaker} said on {best.passage.said}: “{best.text}”")
        # A second quote must say what the first did not, and not much less.
        weights = {term: weight for term, weight in weights.items() if term not in best.terms}
    return " ".join(quotes) or NOTHING


def real_model(name: str) -> BaseChatModel:
    """A real model, through LangChain's `init_chat_model`.

    Args:
        name: "provider:name", "openai:gpt-5-mini".

    Raises:
        MissingExtra: langchain is not installed.
        InvalidInput: There is no such provider, its package is missing, or it has no key.
    """
    try:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("A real model", "agents") from error
    try:
        model = init_chat_model(name)
    except Exception as error:
        raise InvalidInput(f"The model {safe_repr(name)} cannot be used: {one_line(error)}") from error
    if not isinstance(model, BaseChatModel):
        raise InvalidInput(f"{safe_repr(name)} does not name one model; write provider:name.")
    return model


def one_line(error: Exception) -> str:
    """What an error of somebody else's says, short enough for a sentence of ours.

    Args:
        error: The error.
    """
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said[:300]}" if said else type(error).__name__


def _read(messages: Sequence[BaseMessage]) -> tuple[list[Passage], str]:
    """The memory and the question: the blocks of the last thing the user said."""
    last = next((message for message in reversed(messages) if isinstance(message, HumanMessage)), None)
    if last is None:
        return [], ""
    if isinstance(last.content, str):
        return [], last.content
    texts = [block if isinstance(block, str) else str(block.get("text", "")) for block in last.content]
    return unfence(texts[0]) if texts else [], texts[-1] if texts else ""


def _sentences(passages: Sequence[Passage]) -> list[_Sentence]:
    """Every sentence that tells something; a question answers no question."""
    return [
        _Sentence(text, each, frozenset(analysis.terms(text)))
        for each in passages
        for text in _SENTENCE.split(each.text.strip())
        if text and not text.endswith("?")
    ]


def _weight(sentence: _Sentence, weights: dict[str, float]) -> float:
    return sum(weight for term, weight in weights.items() if term in sentence.terms)
