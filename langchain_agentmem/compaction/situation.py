"""What a compaction has to reach, and with what: the same for every processor of one run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_agentmem.compaction.compaction_config import ActiveContextPolicyConfig, ManagedMemoryConfig
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.history_shape import count_rounds
from langchain_agentmem.messages.synthetic_messages import is_made

_SHARE_OF_WINDOW = 0.8
_SHARE_OF_SUMMARY = 4
_LEAST_SUMMARY = 100
LEAST_INPUT = 8_000
"""Tokens that any model takes in one call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How large a context may be. What is None is no limit.

    Attributes:
        tokens: Tokens.
        messages: Messages.
        rounds: Rounds.
    """

    tokens: int | None = None
    messages: int | None = None
    rounds: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """What a processor may go by.

    Attributes:
        target: How large the context may be when it is done.
        counter: Counts tokens.
        config: What is to be done.
        model: What summarizes; None where there is none.
        input_tokens: Most tokens that the model is given in one call.
        overhead_tokens: Tokens that are sent beside the messages, such as the tools' schemas.
        thorough: Whether all that may be summarized is, whatever the target.
        image_bytes: How many bytes of images may be kept beside a summary; None for any number.
        originals: By their ids, messages as they were said, of which the context has shortened copies.
        archive: Keeps a message that leaves the context and gives the id by which it is brought back, or None where it
            cannot; used by `tool_offload`. Default: the message's own id.
    """

    target: Size
    counter: TokenCounter
    config: ActiveContextPolicyConfig = field(default_factory=ActiveContextPolicyConfig)
    model: Any = None
    input_tokens: int = 100_000
    overhead_tokens: int = 0
    thorough: bool = False
    image_bytes: int | None = None
    originals: Mapping[str, BaseMessage] = field(default_factory=dict, repr=False)
    archive: Callable[[BaseMessage], str | None] = field(default=lambda message: message.id)
    _costs: dict[int, tuple[BaseMessage, int]] = field(default_factory=dict, repr=False, compare=False)

    def cost(self, message: BaseMessage) -> int:
        """What a message costs, in tokens; counted once, as long as nobody changes messages meanwhile."""
        known = self._costs.get(id(message))
        if known is None:
            known = self._costs[id(message)] = message, self.counter.count_message(message)
        return known[1]

    def as_said(self, message: BaseMessage) -> BaseMessage:
        """A message as it was said, where it is a shortened copy: what goes is summarized whole."""
        return self.originals.get(message.id, message) if message.id and is_made(message) else message

    def tokens(self, messages: Sequence[BaseMessage]) -> int:
        """What a context costs, in tokens, with what is sent beside it."""
        return self.overhead_tokens + sum(map(self.cost, messages))

    def fits(self, messages: Sequence[BaseMessage], *, spare: int = 0) -> bool:
        """Whether a context is small enough.

        Args:
            messages: The context.
            spare: Tokens that are still to be added.
        """
        return is_within(self.target, self.tokens(messages) + spare, len(messages), lambda: count_rounds(messages))

    @property
    def counts_messages(self) -> bool:
        """Whether fewer messages are wanted, and not only fewer tokens."""
        return self.target.messages is not None or self.target.rounds is not None

    @property
    def summary_tokens(self) -> int:
        """How long a summary may be, in tokens: at most a quarter of the target."""
        most = self.config.summarization.output_max_tokens
        if self.target.tokens is None:
            return most
        return min(most, max(_LEAST_SUMMARY, self.target.tokens // _SHARE_OF_SUMMARY))


def is_within(size: Size, tokens: int, messages: int, rounds: Callable[[], int]) -> bool:
    """Whether so many tokens, messages and rounds are within a size; rounds are counted only if they count."""
    return (
        (size.tokens is None or tokens <= size.tokens)
        and (size.messages is None or messages <= size.messages)
        and (size.rounds is None or rounds() <= size.rounds)
    )


def limit_of(config: ManagedMemoryConfig, window: int | None) -> Size:
    """Beyond which size a context is compacted.

    Args:
        config: The configuration.
        window: The tokens that the model takes, if that is known.

    Raises:
        InvalidInput: The threshold is a share of a window that nobody knows.
    """
    tokens = config.threshold_tokens
    if config.threshold_fraction is not None:
        if window is None:
            raise InvalidInput(
                "threshold_fraction needs a model whose profile tells its window, model.profile['max_input_tokens']. "
                "Give such a model, or threshold_tokens."
            )
        tokens = int(window * config.threshold_fraction)
    elif window is not None:
        tokens = min(tokens, window)
    rounds = None if config.threshold_rounds is None else config.threshold_rounds - 1  # it is too many at the threshold
    return Size(tokens=tokens, messages=config.threshold_messages, rounds=rounds)


def target_of(config: ManagedMemoryConfig, limit: Size) -> Size:
    """The size that a compaction brings a context down to.

    Args:
        config: The configuration.
        limit: Its `limit_of`.
    """
    left = 1 - config.active_context.min_reduction_ratio
    return Size(
        tokens=None if limit.tokens is None else max(1, int(limit.tokens * left)),
        messages=config.retain_messages or (limit.messages and max(1, math.floor(limit.messages * left))),
        rounds=None if limit.rounds is None else config.retain_rounds,
    )


def window_of(model: Any) -> int | None:
    """The tokens that a model takes, by its `profile`; None where it does not tell."""
    profile = getattr(model, "profile", None)
    if profile is None and (bound := getattr(model, "bound", None)) is not None:  # a model with tools bound to it
        return window_of(bound)
    window = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
    return window if isinstance(window, int) and window > 0 else None


def input_tokens_of(config: ManagedMemoryConfig, model: Any, limit: Size) -> int:
    """Most tokens that a summarizing model is given in one call."""
    given = config.active_context.summarization.input_max_tokens
    if given is not None:
        return given
    window = window_of(model)
    return int(window * _SHARE_OF_WINDOW) if window else max(limit.tokens or 0, LEAST_INPUT)
