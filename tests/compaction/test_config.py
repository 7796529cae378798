"""Configurations have the names and defaults of MARSYS, and reject invalid values on construction."""

import pytest

from langchain_agentmem.compaction import (
    ActiveContextPolicyConfig,
    BackwardPackingConfig,
    ManagedMemoryConfig,
    ProcessorContext,
    SlidingWindowConfig,
    SummarizationConfig,
    ToolTruncationConfig,
)
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.tokens import TokenCounter

DEFAULTS = {
    ManagedMemoryConfig: {
        "threshold_tokens": 150_000,
        "image_token_estimate": 800,
        "trigger_events": ("add", "get_messages"),
        "cache_invalidation_events": ("add", "remove_by_id", "delete_memory"),
        "token_counter": None,
        "compaction_target_tokens": 90_000,
        "active_context": ActiveContextPolicyConfig(),
    },
    ActiveContextPolicyConfig: {
        "enabled": True, "mode": "compaction", "excluded_processors": (), "min_reduction_ratio": 0.4,
        "processor_order": ("tool_truncation", "summarization", "backward_packing"),
    },
    SummarizationConfig: {
        "enabled": True, "grace_recent_messages": 1, "output_max_tokens": 6000, "include_original_instruction": True,
        "include_image_payload_bytes": False, "max_retained_images": None,
    },
    ToolTruncationConfig: {
        "max_tool_message_tokens": 1200, "grace_recent_messages": 1, "append_marker": " [truncated]",
        "include_tool_payload_user_messages": True,
    },
    SlidingWindowConfig: {"headroom_percent": 0.1},
    BackwardPackingConfig: {"grace_recent_messages": 1},
}  # fmt: skip
WRONG = {
    ManagedMemoryConfig: {"threshold_tokens": 0, "image_token_estimate": -1, "trigger_events": "add"},
    ActiveContextPolicyConfig: {
        "mode": "magic",
        "enabled": "yes",
        "processor_order": "summarization",
        "min_reduction_ratio": 0,
        "summarization": ToolTruncationConfig(),
    },
    SummarizationConfig: {"output_max_tokens": 0, "input_max_tokens": 5, "timeout": 0, "prompt": 3},
    ToolTruncationConfig: {"max_tool_message_tokens": 0, "append_marker": None},
    SlidingWindowConfig: {"headroom_percent": 1},
    BackwardPackingConfig: {"grace_recent_messages": 1.5},
}
ONLY = {"processor_order": ["summarization"], "excluded_processors": ["summarization"]}
UNFIT = [
    (ManagedMemoryConfig, {"active_context": 5}, "active_context"),
    (ManagedMemoryConfig, {"trigger_events": ["never"]}, "never"),
    (ActiveContextPolicyConfig, {"processor_order": ["magic"]}, "magic"),
    (ActiveContextPolicyConfig, {"processor_order": ["summarization", "summarization"]}, "twice"),
    (ActiveContextPolicyConfig, {"processor_order": []}, "No processor"),
    (ActiveContextPolicyConfig, ONLY, "No processor"),
    (ActiveContextPolicyConfig, {"excluded_processors": ["magic"]}, "magic"),
    (SummarizationConfig, {"prompt": "Summarize."}, "content"),
]


def test_defaults_match_and_target_follows_the_threshold():
    for kind, fields in DEFAULTS.items():
        assert {name: getattr(kind(), name) for name in fields} == fields, kind
    active = ActiveContextPolicyConfig(min_reduction_ratio=0.25)
    assert ManagedMemoryConfig(threshold_tokens=1000, active_context=active).compaction_target_tokens == 750


def test_processors_follow_exclusions_and_mode():
    off, order = ToolTruncationConfig(enabled=False), ("summarization", "sliding_window")
    for options, expected in (
        ({"excluded_processors": ["backward_packing"], "tool_truncation": off}, ("summarization",)),
        ({"mode": "sliding_window"}, ("sliding_window",)),
        ({"processor_order": order}, order),
    ):
        assert ActiveContextPolicyConfig(**options).processors == expected


def test_summary_budget_is_a_quarter_of_the_target():
    for target, most in ((100_000, 6_000), (8_000, 2_000), (1_003, 250), (200, 100)):
        assert ProcessorContext(target_tokens=target, counter=TokenCounter("estimate")).summary_tokens == most


def test_invalid_options_are_rejected_by_name():
    wrong = [(kind, {name: value}, name) for kind, fields in WRONG.items() for name, value in fields.items()]
    for kind, fields, names in wrong + UNFIT:
        with pytest.raises(InvalidInput, match=names):
            pytest.fail(f"{kind(**fields)} of {fields}")
