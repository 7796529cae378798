"""Configurations: the names and defaults of MARSYS, and what cannot work is refused when it is built."""

import pytest

from langchain_agentmem.compaction import (
    ActiveContextPolicyConfig,
    BackwardPackingConfig,
    ManagedMemoryConfig,
    Situation,
    Size,
    SlidingWindowConfig,
    SummarizationConfig,
    ToolOffloadConfig,
    ToolTruncationConfig,
)
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.tokens import TokenCounter


class TestDefaults:
    def test_managed_memory(self):
        config = ManagedMemoryConfig()
        assert config.threshold_tokens == 150_000
        assert config.image_token_estimate == 800
        assert config.trigger_events == ["add", "get_messages"]
        assert config.cache_invalidation_events == ["add", "remove_by_id", "delete_memory"]
        assert config.token_counter is None
        assert config.compaction_target_tokens == 90_000

    def test_active_context(self):
        config = ManagedMemoryConfig().active_context
        assert config.enabled is True
        assert config.mode == "compaction"
        assert config.processor_order == ["tool_truncation", "summarization", "backward_packing"]
        assert config.excluded_processors == []
        assert config.min_reduction_ratio == 0.4

    def test_summarization(self):
        config = SummarizationConfig()
        assert (config.enabled, config.grace_recent_messages, config.output_max_tokens) == (True, 1, 6000)
        assert config.include_original_instruction is True
        assert config.include_image_payload_bytes is False
        assert config.max_retained_images is None

    def test_the_hidden_ones(self):
        tools = ToolTruncationConfig()
        assert (tools.max_tool_message_tokens, tools.grace_recent_messages) == (1200, 1)
        assert (tools.append_marker, tools.include_tool_payload_user_messages) == (" [truncated]", True)
        tools = ToolOffloadConfig()
        assert (tools.max_tool_message_tokens, tools.preview_tokens, tools.grace_recent_messages) == (4000, 200, 1)
        assert SlidingWindowConfig().headroom_percent == 0.1
        assert BackwardPackingConfig().grace_recent_messages == 1

    def test_the_target_follows_the_threshold(self):
        active = ActiveContextPolicyConfig(min_reduction_ratio=0.25)
        assert ManagedMemoryConfig(threshold_tokens=1000, active_context=active).compaction_target_tokens == 750

    def test_what_is_excluded_or_turned_off_does_not_run(self):
        config = ActiveContextPolicyConfig(
            excluded_processors=["backward_packing"], tool_truncation=ToolTruncationConfig(enabled=False)
        )
        assert config.processors == ("summarization",)

    def test_a_window_slides_alone(self):
        assert ActiveContextPolicyConfig(mode="sliding_window").processors == ("sliding_window",)

    def test_or_after_others(self):
        order = ("summarization", "sliding_window")
        assert ActiveContextPolicyConfig(processor_order=order).processors == order

    @pytest.mark.parametrize(
        ("target", "most"), [(None, 6_000), (100_000, 6_000), (8_000, 2_000), (1_003, 250), (200, 100)]
    )
    def test_a_summary_may_take_a_quarter_of_the_target(self, target, most):
        situation = Situation(target=Size(tokens=target), counter=TokenCounter("estimate"))
        assert situation.summary_tokens == most


class TestRefusals:
    @pytest.mark.parametrize(
        ("make", "names"),
        [
            (lambda: ManagedMemoryConfig(threshold_tokens=0), "threshold_tokens"),
            (lambda: ManagedMemoryConfig(threshold_rounds=3), "retain_rounds"),
            (lambda: ManagedMemoryConfig(image_token_estimate=-1), "image_token_estimate"),
            (lambda: ManagedMemoryConfig(trigger_events="add"), "trigger_events"),
            (lambda: ManagedMemoryConfig(trigger_events=["never"]), "never"),
            (lambda: ManagedMemoryConfig(active_context={}), "active_context"),
            (lambda: ActiveContextPolicyConfig(mode="magic"), "mode"),
            (lambda: ActiveContextPolicyConfig(enabled="yes"), "enabled"),
            (lambda: ActiveContextPolicyConfig(processor_order=["magic"]), "magic"),
            (lambda: ActiveContextPolicyConfig(processor_order="summarization"), "processor_order"),
            (lambda: ActiveContextPolicyConfig(processor_order=["summarization", "summarization"]), "twice"),
            (lambda: ActiveContextPolicyConfig(processor_order=[]), "No processor"),
            (
                lambda: ActiveContextPolicyConfig(
                    processor_order=["summarization"], excluded_processors=["summarization"]
                ),
                "No processor",
            ),
            (lambda: ActiveContextPolicyConfig(excluded_processors=["magic"]), "magic"),
            (lambda: ActiveContextPolicyConfig(min_reduction_ratio=0), "min_reduction_ratio"),
            (lambda: ActiveContextPolicyConfig(summarization=ToolTruncationConfig()), "summarization"),
            (lambda: SummarizationConfig(output_max_tokens=0), "output_max_tokens"),
            (lambda: SummarizationConfig(input_max_tokens=5), "input_max_tokens"),
            (lambda: SummarizationConfig(timeout=0), "timeout"),
            (lambda: SummarizationConfig(prompt="Summarize."), "content"),
            (lambda: SummarizationConfig(prompt=3), "prompt"),
            (lambda: ToolTruncationConfig(max_tool_message_tokens=0), "max_tool_message_tokens"),
            (lambda: ToolTruncationConfig(append_marker=None), "append_marker"),
            (lambda: ToolOffloadConfig(max_tool_message_tokens=100, preview_tokens=100), "preview_tokens"),
            (lambda: SlidingWindowConfig(headroom_percent=1), "headroom_percent"),
            (lambda: BackwardPackingConfig(grace_recent_messages=1.5), "grace_recent_messages"),
        ],
    )
    def test_each_says_what_is_wrong(self, make, names):
        with pytest.raises(InvalidInput, match=names):
            make()
