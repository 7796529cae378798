"""How a context is kept within its budget: the configurations of document 003, and what they have come to need.

All are checked when they are built: what cannot work is refused then, and not in the middle of a run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from langchain_agentmem.base.argument_checks import flag_fields, listed_field, number_field, text_field, whole_field
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.summarization import SummarizationConfig

PROCESSORS = ("tool_truncation", "tool_offload", "summarization", "backward_packing", "sliding_window")
"""The names that `processor_order` may hold, beside functions."""

ORDER = ("tool_truncation", "summarization", "backward_packing")
EVENTS = ("add", "get_messages")
CHANGES = ("add", "remove_by_id", "delete_memory", "update", "replace_memory")

Mode: TypeAlias = Literal["compaction", "sliding_window"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolTruncationConfig:
    """Long tool output is cut, and what is cut off stays in the log.

    Attributes:
        enabled: Whether it is done at all. Default True.
        max_tool_message_tokens: What a tool message may keep, in tokens. Default 1,200.
        grace_recent_messages: From the so-manyth last assistant message on, nothing is cut. Default 1.
        append_marker: What stands where it was cut. Default `" [truncated]"`.
        include_tool_payload_user_messages: Whether user messages that carry a tool's output ("Tool … returned: …") are
            cut too. Default True.
    """

    enabled: bool = True
    max_tool_message_tokens: int = 1_200
    grace_recent_messages: int = 1
    append_marker: str = " [truncated]"
    include_tool_payload_user_messages: bool = True

    def __post_init__(self) -> None:
        whole_field(self, "max_tool_message_tokens", least=1)
        whole_field(self, "grace_recent_messages", least=0)
        text_field(self, "append_marker")
        flag_fields(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOffloadConfig:
    """Large tool output leaves the context for the archive; a stub with its id stays, and a tool brings it back.

    Attributes:
        enabled: Whether it is done at all. Default True.
        max_tool_message_tokens: What a tool message may have before it is offloaded, in tokens. Default 4,000.
        preview_tokens: How much of its beginning the stub shows, in tokens. Default 200.
        grace_recent_messages: From the so-manyth last assistant message on, nothing is offloaded. Default 1.
    """

    enabled: bool = True
    max_tool_message_tokens: int = 4_000
    preview_tokens: int = 200
    grace_recent_messages: int = 1

    def __post_init__(self) -> None:
        whole_field(self, "max_tool_message_tokens", least=1)
        whole_field(self, "preview_tokens", least=0)
        whole_field(self, "grace_recent_messages", least=0)
        flag_fields(self)
        if self.preview_tokens >= self.max_tool_message_tokens:
            raise InvalidInput(
                f"preview_tokens ({self.preview_tokens}) must be less than max_tool_message_tokens "
                f"({self.max_tool_message_tokens}), or a stub is longer than what it stands for."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class BackwardPackingConfig:
    """The newest messages that fit are kept, calls with their results; what is left out stays in the log.

    Attributes:
        enabled: Whether it is done at all. Default True.
        grace_recent_messages: The so-manyth last assistant message and all after it are always kept. Default 1.
    """

    enabled: bool = True
    grace_recent_messages: int = 1

    def __post_init__(self) -> None:
        whole_field(self, "grace_recent_messages", least=0)
        flag_fields(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class SlidingWindowConfig:
    """Only the newest messages are shown, as many as fit, and no model is asked.

    Attributes:
        headroom_percent: Which share of the budget stays free, from 0 up to but without 1. Default 0.1.
    """

    headroom_percent: float = 0.1

    def __post_init__(self) -> None:
        number_field(self, "headroom_percent", below=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ActiveContextPolicyConfig:
    """What is done to a context that has outgrown its threshold (document 003).

    Attributes:
        enabled: Whether anything is. Default True.
        mode: "compaction", which summarizes and keeps what it did, or "sliding_window", which shows the newest
        messages.
            Default "compaction".
        processor_order: The processors in the order in which they run, until the context is small enough: names, see
            `PROCESSORS`, or functions that take messages and a `Situation` and give messages. Default:
            "tool_truncation", "summarization", "backward_packing".
        excluded_processors: Names that are left out of the order. Default: none.
        min_reduction_ratio: By which share of the threshold a compaction makes room: more than 0, less than 1. Default
            0.4.
        tool_truncation: See there.
        tool_offload: See there; used where "tool_offload" is in the order.
        summarization: See there.
        backward_packing: See there.
        sliding_window: See there.

    Raises:
        InvalidInput: A value is wrong, or values do not go together.
    """

    enabled: bool = True
    mode: Mode = "compaction"
    processor_order: list[str | Callable[..., Any]] = field(default_factory=lambda: [*ORDER])
    excluded_processors: list[str] = field(default_factory=list)
    min_reduction_ratio: float = 0.4
    tool_truncation: ToolTruncationConfig = field(default_factory=ToolTruncationConfig)
    tool_offload: ToolOffloadConfig = field(default_factory=ToolOffloadConfig)
    summarization: SummarizationConfig = field(default_factory=SummarizationConfig)
    backward_packing: BackwardPackingConfig = field(default_factory=BackwardPackingConfig)
    sliding_window: SlidingWindowConfig = field(default_factory=SlidingWindowConfig)

    def __post_init__(self) -> None:
        flag_fields(self)
        if self.mode not in ("compaction", "sliding_window"):
            raise InvalidInput(f"mode must be 'compaction' or 'sliding_window', not {safe_repr(self.mode)}.")
        object.__setattr__(self, "processor_order", listed_field("processor_order", self.processor_order))
        object.__setattr__(self, "excluded_processors", listed_field("excluded_processors", self.excluded_processors))
        number_field(self, "min_reduction_ratio", below=1)
        if not self.min_reduction_ratio:
            raise InvalidInput("min_reduction_ratio must be more than 0, or every turn compacts anew.")
        for name, kind in _PARTS.items():
            if not isinstance(getattr(self, name), kind):
                raise InvalidInput(f"{name} must be a {kind.__name__}, not {type(getattr(self, name)).__name__}.")
        for each in (*filter(_is_no_function, self.processor_order), *self.excluded_processors):
            if each not in PROCESSORS:
                raise InvalidInput(f"There is no processor {safe_repr(each)}; there are {', '.join(PROCESSORS)}.")
        if len(set(map(_identity, self.processor_order))) < len(self.processor_order):
            raise InvalidInput("processor_order names a processor twice.")
        if self.enabled and self.mode == "compaction" and not self.processors:
            raise InvalidInput("No processor is left to make a context smaller. Name one, or set enabled=False.")

    @property
    def processors(self) -> tuple[str | Callable[..., Any], ...]:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ManagedMemoryConfig:
    """When a context has outgrown its budget, and what is done then (document 003).

    Whatever threshold is passed first counts.

    Attributes:
        threshold_tokens: More tokens than this are too many. Default 150,000; never more than the model's window, where
            that is known.
        threshold_fraction: The same as a share of the model's window, in place of `threshold_tokens`; more than 0, at
        most
            1. Needs a model whose `profile` tells its window. Default None.
        threshold_messages: More messages than this are too many. Default None.
        threshold_rounds: So many rounds are too many; a round begins with a user's message. Default None. (Document 000
            compacts at 10.)
        retain_messages: How many of the newest messages stay where messages were too many. Default None: what
            `min_reduction_ratio` leaves.
        retain_rounds: How many of the newest rounds stay where rounds were too many. Default 3.
        image_token_estimate: Tokens for an image. Default 800.
        trigger_events: What makes a managed conversation look whether it must compact: "add", "get_messages". Default:
            both.
        cache_invalidation_events: Which changes `get_cache_stats` counts as invalidations: "add", "remove_by_id",
            "delete_memory", "update", "replace_memory". Whatever stands here, the cache is never stale: what is added
            extends it, and every other change has it read anew. Default: those of document 003.
        token_counter: What counts tokens: a function from text to a number, a LangChain model, "estimate", "tiktoken"
        or a
            `TokenCounter`. Default None: tiktoken where its file is on this machine, else the estimate.
        active_context: What is done.

    Raises:
        InvalidInput: A value is wrong, or values do not go together.
    """

    threshold_tokens: int = 150_000
    threshold_fraction: float | None = None
    threshold_messages: int | None = None
    threshold_rounds: int | None = None
    retain_messages: int | None = None
    retain_rounds: int = 3
    image_token_estimate: int = 800
    trigger_events: list[str] = field(default_factory=lambda: [*EVENTS])
    cache_invalidation_events: list[str] = field(default_factory=lambda: [*CHANGES[:3]])
    token_counter: Any = None
    active_context: ActiveContextPolicyConfig = field(default_factory=ActiveContextPolicyConfig)

    def __post_init__(self) -> None:
        whole_field(self, "threshold_tokens", least=1)
        number_field(self, "threshold_fraction", below=math.nextafter(1, 2), optional=True)
        if self.threshold_fraction == 0:
            raise InvalidInput("threshold_fraction must be more than 0.")
        whole_field(self, "threshold_messages", least=2, optional=True)
        whole_field(self, "threshold_rounds", least=1, optional=True)
        whole_field(self, "retain_messages", least=1, optional=True)
        whole_field(self, "retain_rounds", least=1)
        whole_field(self, "image_token_estimate", least=0)
        if self.retain_messages is not None and (
            self.threshold_messages is None or self.retain_messages >= self.threshold_messages
        ):
            raise InvalidInput("retain_messages needs a larger threshold_messages, or there is nothing to compact.")
        if self.threshold_rounds is not None and self.retain_rounds >= self.threshold_rounds:
            raise InvalidInput(
                f"retain_rounds ({self.retain_rounds}) must be less than threshold_rounds ({self.threshold_rounds})."
            )
        for name, known in (("trigger_events", EVENTS), ("cache_invalidation_events", CHANGES)):
            listed = listed_field(name, getattr(self, name))
            if unknown := [each for each in listed if each not in known]:
                raise InvalidInput(f"{name} knows {', '.join(known)}, not {safe_repr(unknown[0])}.")
            object.__setattr__(self, name, listed)
        if not isinstance(self.active_context, ActiveContextPolicyConfig):
            raise InvalidInput(
                f"active_context must be an ActiveContextPolicyConfig, not {type(self.active_context).__name__}."
            )

    @property
    def compaction_target_tokens(self) -> int:
        """What a compaction brings a context down to: the threshold without the share it makes room by."""
        return int(self.threshold_tokens * (1 - self.active_context.min_reduction_ratio))


_PARTS = {
    "tool_truncation": ToolTruncationConfig,
    "tool_offload": ToolOffloadConfig,
    "summarization": SummarizationConfig,
    "backward_packing": BackwardPackingConfig,
    "sliding_window": SlidingWindowConfig,
}


def _is_no_function(each: Any) -> bool:
    return not callable(each)


def _identity(each: Any) -> Any:
    return each if isinstance(each, str) else id(each)
