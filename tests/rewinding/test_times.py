"""When a checkpoint was made is told by its id."""

from __future__ import annotations

from datetime import UTC, datetime

from langgraph.checkpoint.base.id import uuid6

from langchain_agentmem.base.clock import micros
from langchain_agentmem.rewinding.sealing import time_of


def test_the_id_of_a_checkpoint_holds_its_time_to_the_microsecond_unless_somebody_else_made_it():
    """By the example of RFC 9562, and one a microsecond later."""
    made = micros(datetime(2022, 2, 22, 19, 22, 22, tzinfo=UTC))
    assert time_of("1ec9414c-232a-6b00-b3c8-9f6bdeced846") == made
    assert time_of("1ec9414c-232a-6b0a-b3c8-9f6bdeced846") == made + 1
    assert time_of(str(uuid6())) > made
    for other in ("5b2c1b0e-8f0e-4e63-9d5c-0c2a8a1f6f11", "c8a2f6d2-c74c-11f0-9b3e-0242ac120002", "a checkpoint", ""):
        assert time_of(other) == 0, other
