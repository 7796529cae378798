"""The state of a graph that has a compaction node."""

from __future__ import annotations

from langchain_core.messages import AnyMessage
from langgraph.graph import MessagesState


class CompactionState(MessagesState):
    """A history under `messages`, and under `llm_input_messages` what the model is to be shown of it."""

    llm_input_messages: list[AnyMessage]
