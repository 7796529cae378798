from __future__ import annotations

import pytest


@pytest.fixture
def store(memory):
    return memory.store
