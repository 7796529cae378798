"""Configuration of compaction, and the `ProcessorContext` of a compaction.

The options have the names that the agent framework MARSYS uses. Each configuration is validated when it is created.

A `ProcessorContext` has the target, counter and model of one compaction. All processors of the compaction receive it.
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
from langchain_agentmem.messages.message_marks import is_from_compaction

PROCESSORS = ("tool_truncation", "summarization", "backward_packing", "sliding_window")
"""The names that `processor_order` accepts, in addition to functions."""

DEFAULT_ORDER = ("tool_truncation", "summarization", "backward_packing")

Mode: TypeAlias = Literal["compaction", "sliding_window"]
Trigger: TypeAlias = Literal["add", "get_messages"]
Change: TypeAlias = Literal["add", "remove_by_id", "delete_memory", "update", "replace_memory"]
Processor: TypeAlias = Callable[[list[BaseMessage], "ProcessorContext"], Sequence[BaseMessage]]
"""A function that receives messages and a `ProcessorContext`, and returns fewer or smaller messages."""
if TYPE_CHECKING:
    _CounterOption: TypeAlias = TokenCounter | CounterLike | None
else:
    _CounterOption = Any  # not validated here, since `TokenCounter` checks its argument


class ToolTruncationConfig(Options):
    """The options for cutting long tool output. The log keeps the full output.

    Attributes:
        enabled: True enables the processor. Default: True.
        max_tool_message_tokens: The tokens that a tool message may keep. Default: 1,200.
        grace_recent_messages: The number of the last assistant messages in the protected tail. Messages from the first
            of these on are not cut. 0 protects the last user message and all messages after it. Default: 1.
        append_marker: The text at the cut. `{id}` is replaced by the message's id. The tool `expand` returns the whole
            message for this id. Default: `" [truncated]"`.
        include_tool_payload_user_messages: True also cuts user messages that contain a tool's output, such as
            "Tool … returned: …". Default: True.
    """

    enabled: bool = True
    max_tool_message_tokens: int = Field(default=1_200, ge=1)
    grace_recent_messages: int = Field(default=1, ge=0)
    append_marker: str = " [truncated]"
    include_tool_payload_user_messages: bool = True


class BackwardPackingConfig(Options):
    """The options for keeping only the newest messages that fit the target.

    A tool call and its results are kept or dropped together. The log keeps the dropped messages.

    Attributes:
        enabled: True enables the processor. Default: True.
        grace_recent_messages: The number of the last assistant messages in the protected tail. Messages from the first
            of these on are always kept. 0 protects the last user message and all messages after it. Default: 1.
    """

    enabled: bool = True
    grace_recent_messages: int = Field(default=1, ge=0)


class SlidingWindowConfig(Options):
    """The options of the sliding window: the newest messages that fit, without a summary.

    Attributes:
        headroom_percent: The share of the target that stays free, at least 0 and less than 1; not a percentage.
            Default: 0.1.
    """

    headroom_percent: float = Field(default=0.1, ge=0, lt=1)


class ActiveContextPolicyConfig(Options):
    """The policy for a context that exceeds its threshold.

    Attributes:
        enabled: True enables compaction. Default: True.
        mode: "compaction" runs the processors of `processor_order`. "sliding_window" runs only the processor
            `sliding_window`, which keeps the newest messages. Default: "compaction".
        processor_order: The processors: names from `PROCESSORS`, or functions of the type `Processor`. They run in this
            order until the context is within its target. Default: "tool_truncation", "summarization",
            "backward_packing".
        excluded_processors: The names of processors to skip. Default: none.
        min_reduction_ratio: The share of the threshold that a compaction tries to free, more than 0 and less than 1.
            Default: 0.4.
        tool_truncation: See `ToolTruncationConfig`.
        summarization: See `SummarizationConfig`.
        backward_packing: See `BackwardPackingConfig`.
        sliding_window: See `SlidingWindowConfig`.

    Raises:
        InvalidInput: A value is invalid, or values contradict each other.
    """

    enabled: bool = True
    mode: Mode = "compaction"
    processor_order: Sequence[str | Processor] = DEFAULT_ORDER
    excluded_processors: Sequence[str] = ()
    min_reduction_ratio: float = Field(default=0.4, gt=0, lt=1)
    tool_truncation: ToolTruncationConfig = Field(default_factory=ToolTruncationConfig)
    summarization: SummarizationConfig = Field(default_factory=SummarizationConfig)
    backward_packing: BackwardPackingConfig = Field(default_factory=BackwardPackingConfig)
    sliding_window: SlidingWindowConfig = Field(default_factory=SlidingWindowConfig)

    @field_validator("processor_order", "excluded_processors")
    @classmethod
    def _check_names(cls, processors: Sequence[str | Processor]) -> Sequence[str | Processor]:
        for each in processors:
            if not callable(each) and each not in PROCESSORS:
                raise ValueError(f"Unknown processor {safe_repr(each)}. Processors: {', '.join(PROCESSORS)}.")
        if len({id(each) if callable(each) else each for each in processors}) < len(processors):
            raise ValueError("A processor is listed twice. List each processor once.")
        return processors

    @model_validator(mode="after")
    def _check_any_enabled(self) -> Self:
        if self.enabled and self.mode == "compaction" and not self.processors:
            raise ValueError("No processor is enabled. Enable one in processor_order, or set enabled=False.")
        return self

    @property
    def processors(self) -> tuple[str | Processor, ...]:
        """The processors that run, in their order: the enabled ones that are not excluded."""
        if self.mode == "sliding_window":
            return ("sliding_window",)
        included = [each for each in self.processor_order if each not in self.excluded_processors]
        return tuple(each for each in included if callable(each) or getattr(getattr(self, each), "enabled", True))


class ManagedMemoryConfig(Options):
    """The token budget of a context, and the policy for larger contexts.

    Attributes:
        threshold_tokens: The tokens above which a context is compacted. If the maximum input of the model is known and
            smaller, it applies instead. Default: 150,000.
        image_token_estimate: The tokens of an image. Not used if `token_counter` is a `TokenCounter`. Default: 800.
        trigger_events: The operations at which a managed conversation checks its size: "add", "get_messages". Default:
            both.
        cache_invalidation_events: The changes that `get_cache_stats` counts as invalidations: "add", "remove_by_id",
            "delete_memory", "update", "replace_memory". The option affects only this count, since every change updates
            the cache. Default: "add", "remove_by_id", "delete_memory".
        token_counter: A `TokenCounter`, or the value of its argument `counter`, such as "tiktoken" or a LangChain
            model. Default None: tiktoken if its vocabulary file is on this machine, else an estimate.
        active_context: The policy. Default: `ActiveContextPolicyConfig()`.

    Raises:
        InvalidInput: A value is invalid, or values contradict each other.
    """

    threshold_tokens: int = Field(default=150_000, ge=1)
    image_token_estimate: int = Field(default=800, ge=0)
    trigger_events: Sequence[Trigger] = ("add", "get_messages")
    cache_invalidation_events: Sequence[Change] = ("add", "remove_by_id", "delete_memory")
    token_counter: _CounterOption = None
    active_context: ActiveContextPolicyConfig = Field(default_factory=ActiveContextPolicyConfig)

    @property
    def compaction_target_tokens(self) -> int:
        """The target size of a compaction: `threshold_tokens` minus the share to free."""
        return int(self.threshold_tokens * (1 - self.active_context.min_reduction_ratio))


_SUMMARY_DIVISOR = 4  # a summary may use the target divided by this number
_MIN_SUMMARY_LIMIT = 100  # tokens
MIN_INPUT_TOKENS = 8_000
"""The tokens of input that every model is assumed to accept in one call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessorContext:
    """The target, counter, policy and model of one compaction, for its processors.

    Attributes:
        target_tokens: The maximum size of the compacted context in tokens, including `overhead_tokens`.
        counter: The token counter.
        config: The policy. Default: `ActiveContextPolicyConfig()`.
        model: The summarizer, or None. Default: None.
        input_tokens: The maximum input of the model in one call, in tokens. Default: 100,000.
        overhead_tokens: The tokens sent in addition to the messages, such as the tools' schemas. Default: 0.
        thorough: True summarizes every message that may be summarized. False summarizes only as many messages as the
            target requires. Default: False.
        image_bytes: The maximum size of the images kept with a summary, in bytes. Default None: no limit.
        originals: The original messages of shortened copies in the context, by their ids. Default: none.
        _costs: The counted tokens by object id. Each value contains the message, so that the id is not reused.
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
        """Return the tokens of a message. The count is cached, so do not modify the message later."""
        if id(message) not in self._costs:
            self._costs[id(message)] = message, self.counter.count_message(message)
        return self._costs[id(message)][1]

    def original_of(self, message: BaseMessage) -> BaseMessage:
        """Return the original of a shortened copy, so that its full text is summarized.

        Any other message is returned itself.
        """
        return self.originals.get(message.id, message) if message.id and is_from_compaction(message) else message

    def tokens(self, messages: Sequence[BaseMessage]) -> int:
        """Count the tokens of a context, including the overhead."""
        return self.overhead_tokens + sum(map(self.cost, messages))

    def fits(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether a context is within the target."""
        return self.tokens(messages) <= self.target_tokens

    @property
    def summary_tokens(self) -> int:
        """The maximum size of a summary, in tokens.

        It is a quarter of the target, but at least 100. It never exceeds `output_max_tokens`.
        """
        limit = self.config.summarization.output_max_tokens
        return min(limit, max(_MIN_SUMMARY_LIMIT, self.target_tokens // _SUMMARY_DIVISOR))


def window_of(model: Any) -> int | None:
    """Return a model's maximum input tokens from its `profile`; None if unknown."""
    profile = getattr(model, "profile", None)
    if profile is None and (bound := getattr(model, "bound", None)) is not None:  # a model with tools has this field
        return window_of(bound)
    window = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
    return window if isinstance(window, int) and window > 0 else None
