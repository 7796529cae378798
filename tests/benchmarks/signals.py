"""What each signal of the ranking adds, or costs: the same questions with one weight after the other set to zero."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace

from langchain_agentmem import AgentMemory
from langchain_agentmem.search.ranking import Weights


def without_each(usual: Weights) -> Iterator[tuple[str, Weights]]:
    """Weights with one of them switched off, by its name, for every weight that is not zero anyway."""
    for field in fields(Weights):
        if getattr(usual, field.name):
            yield field.name, replace(usual, **{field.name: 0.0})


@contextmanager
def weighed(memory: AgentMemory, weights: Weights) -> Iterator[None]:
    """Every search of a memory takes these weights meanwhile.

    Args:
        memory: The memory.
        weights: Instead of its usual ones.
    """
    usual, memory.weights = memory.weights, weights
    try:
        yield
    finally:
        memory.weights = usual
