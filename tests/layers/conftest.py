"""Fixtures with layered memories."""

import pytest

from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layered_memory import LayeredMemory


@pytest.fixture
def layers(memory):
    return LayeredMemory(memory, "main")


@pytest.fixture
def main(memory):
    """A layered memory with room for more events."""
    return LayeredMemory(memory, "main", settings=LayersConfig(recall_max_events=100))
