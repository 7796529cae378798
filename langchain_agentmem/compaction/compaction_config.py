"""How a context is kept within its budget: MARSYS's configurations, and what they have come to need.

All are checked when they are built: what cannot work is refused then, and not in the middle of a run.

What a compaction has to reach, and with what: the same for every processor of one run.

"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from langchain_core.messages import BaseMessage
from pydantic import Field, field_validator, model_validator

from langchain_agentmem.base.argument_checks import Options
from langchain_agentmem.errors import safe_repr
from langchain_agentmem.language_models.model_calls import ModelLike
from langchain_agentmem.language_models.summarization import SummarizationConfig
from langchain_agentmem.language_models.tokens import CounterLike, TokenCounter
from langchain_agentmem.messages.message_marks import is_made

PROCESSORS = ("tool_truncation", "summarization", "backward_packing", "sliding_window")
"""The names that `processor_order` may hold, beside functions."""

ORDER = ("tool_truncation", "summarization", "backward_packing")

Mode: TypeAlias = Literal["compaction", "sliding_window"]
Trigger: TypeAlias = Literal["add", "get_messages"]
Change: TypeAlias = Literal["add", "remove_by_id", "delete_memory", "update", "replace_memory"]
Processor: TypeAlias = Callable[[list[BaseMessage], "ProcessorContext"], Sequence[BaseMessage]]
"""A function from the messages of a context, and what there is to know of it, to fewer or smaller ones."""
if TYPE_CHECKING:
    _TokenCounter: TypeAlias = TokenCounter | CounterLike | None
else:
    _TokenCounter = Any  # the counter checks what it is given


class ToolTruncationConfig(Options):
    """Long tool output is cut, and what is cut off stays in the log.

    Attributes:
        enabled: Whether it is done at all. Default True.
        max_tool_message_tokens: What a tool message may keep, in tokens. Default 1,200.
        grace_recent_messages: From the so-manyth last assistant message on, nothing is cut. Default 1.
        append_marker: What stands where it was cut; `{id}` in it is the id of the message, by which the tool `expand`
            shows all of it. Default `" [truncated]"`.
        include_tool_payload_user_messages: Whether user messages that carry a tool's output ("Tool … returned: …") are
            cut too. Default True.
    """

    enabled: bool = True
    max_tool_message_tokens: int = Field(default=1_200, ge=1)
    grace_recent_messages: int = Field(default=1, ge=0)
    append_marker: str = " [truncated]"
    include_tool_payload_user_messages: bool = True


class BackwardPackingConfig(Options):
    """The newest messages that fit are kept, calls with their results; what is left out stays in the log.

    Attributes:
        enabled: Whether it is done at all. Default True.
        grace_recent_messages: The so-manyth last assistant message and all after it are always kept. Default 1.
    """

    enabled: bool = True
    grace_recent_messages: int = Field(default=1, ge=0)


class SlidingWindowConfig(Options):
    """Only the newest messages are shown, as many as fit, and no model is asked.

    Attributes:
        headroom_percent: Which share of the budget stays free, from 0 up to but without 1. Default 0.1.
    """

    headroom_percent: float = Field(default=0.1, ge=0, lt=1)


class ActiveContextPolicyConfig(Options):
    """What is done to a context that has outgrown its threshold, as MARSYS configures it.

    Attributes:
        enabled: Whether anything is. Default True.
        mode: "compaction", which summarizes and keeps what it did, or "sliding_window", which shows the newest
            messages. Default "compaction".
        processor_order: The processors in the order in which they run, until the context is small enough: names, see
            `PROCESSORS`, or functions that take messages and a `ProcessorContext` and give messages. Default:
            "tool_truncation", "summarization", "backward_packing".
        excluded_processors: Names that are left out of the order. Default: none.
        min_reduction_ratio: By which share of the threshold a compaction makes room: more than 0, less than 1. Default
            0.4.
        tool_truncation: See there.
        summarization: See there.
        backward_packing: See there.
        sliding_window: See there.

    Raises:
        InvalidInput: A value is wrong, or values do not go together.
    """

    enabled: bool = True
    mode: Mode = "compaction"
    processor_order: Sequence[str | Processor] = ORDER
    excluded_processors: Sequence[str] = ()
    min_reduction_ratio: float = Field(default=0.4, gt=0, lt=1)
    tool_truncation: ToolTruncationConfig = Field(default_factory=ToolTruncationConfig)
    summarization: SummarizationConfig = Field(default_factory=SummarizationConfig)
    backward_packing: BackwardPackingConfig = Field(default_factory=BackwardPackingConfig)
    sliding_window: SlidingWindowConfig = Field(default_factory=SlidingWindowConfig)

    @field_validator("processor_order", "excluded_processors")
    @classmethod
    def _check_names(cls, given: Sequence[str | Processor]) -> Sequence[str | Processor]:
        for each in given:
            if not callable(each) and each not in PROCESSORS:
                raise ValueError(f"Unknown processor {safe_repr(each)}. Processors: {', '.join(PROCESSORS)}.")
        if len({id(each) if callable(each) else each for each in given}) < len(given):
            raise ValueError("processor_order names a processor twice.")
        return given

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.enabled and self.mode == "compaction" and not self.processors:
            raise ValueError("No processor is left to make a context smaller. Name one, or set enabled=False.")
        return self

    @property
    def processors(self) -> tuple[str | Processor, ...]:
        """The processors that run, in their order: neither excluded nor turned off."""
        if self.mode == "sliding_window":
            return ("sliding_window",)
        return tuple(
            each
            for each in self.processor_order
            if callable(each) or (each not in self.excluded_processors and self._is_on(each))
        )

    def _is_on(self, name: str) -> bool:
        return bool(getattr(getattr(self, name), "enabled", True))


class ManagedMemoryConfig(Options):
    """When a context has outgrown its budget, and what is done then, as MARSYS configures it.

    Attributes:
        threshold_tokens: More tokens than this are too many. Default 150,000; never more than the model's window, where
            that is known.
        image_token_estimate: Tokens for an image. Default 800.
        trigger_events: What makes a managed conversation look whether it must compact: "add", "get_messages". Default:
            both.
        cache_invalidation_events: Which changes `get_cache_stats` counts as invalidations: "add", "remove_by_id",
            "delete_memory", "update", "replace_memory". Whatever stands here, the cache is never stale: what is added
            extends it, and every other change has it read anew. Default: MARSYS's.
        token_counter: A `TokenCounter`, or what one takes: a function of a text or of messages, such as LangChain's
            `count_tokens_approximately`, a LangChain model, "approximate", "estimate" or "tiktoken". Default None:
            tiktoken where its file is on this machine, else the estimate.
        active_context: What is done.

    Raises:
        InvalidInput: A value is wrong, or values do not go together.
    """

    threshold_tokens: int = Field(default=150_000, ge=1)
    image_token_estimate: int = Field(default=800, ge=0)
    trigger_events: Sequence[Trigger] = ("add", "get_messages")
    cache_invalidation_events: Sequence[Change] = ("add", "remove_by_id", "delete_memory")
    token_counter: _TokenCounter = None
    active_context: ActiveContextPolicyConfig = Field(default_factory=ActiveContextPolicyConfig)

    @property
    def compaction_target_tokens(self) -> int:
        """What a compaction brings a context down to: the threshold without the share it makes room by."""
        return int(self.threshold_tokens * (1 - self.active_context.min_reduction_ratio))


_SHARE_OF_SUMMARY = 4
_LEAST_SUMMARY = 100
LEAST_INPUT = 8_000
"""Tokens that any model takes in one call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessorContext:
    """What a processor may go by.

    Attributes:
        target_tokens: What the context may cost when it is done, in tokens.
        counter: Counts tokens.
        config: What is to be done.
        model: What summarizes; None where there is none.
        input_tokens: Most tokens that the model is given in one call.
        overhead_tokens: Tokens that are sent beside the messages, such as the tools' schemas.
        thorough: Whether all that may be summarized is, whatever the target.
        image_bytes: How many bytes of images may be kept beside a summary; None for any number.
        originals: By their ids, messages as they were said, of which the context has shortened copies.
    """

    target_tokens: int
    counter: TokenCounter
    config: ActiveContextPolicyConfig = field(default_factory=ActiveContextPolicyConfig)
    model: ModelLike | None = None
    input_tokens: int = 100_000
    overhead_tokens: int = 0
    thorough: bool = False
    image_bytes: int | None = None
    originals: Mapping[str, BaseMessage] = field(default_factory=dict, repr=False)
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

    def fits(self, messages: Sequence[BaseMessage]) -> bool:
        """Whether a context is small enough."""
        return self.tokens(messages) <= self.target_tokens

    @property
    def summary_tokens(self) -> int:
        """How long a summary may be, in tokens: at most a quarter of the target."""
        most = self.config.summarization.output_max_tokens
        return min(most, max(_LEAST_SUMMARY, self.target_tokens // _SHARE_OF_SUMMARY))


def window_of(model: Any) -> int | None:
    """The tokens that a model takes, by its `profile`; None where it does not tell."""
    profile = getattr(model, "profile", None)
    if profile is None and (bound := getattr(model, "bound", None)) is not None:  # a model with tools bound to it
        return window_of(bound)
    window = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
    return window if isinstance(window, int) and window > 0 else None
