"""Fixtures of rewinding: a mind on either engine, in every durability, waiting and awaiting."""

from __future__ import annotations

import pytest

from .minds import Mind


@pytest.fixture(params=["sync", "async", "exit"])
def durability(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["waiting", "awaiting"])
def mind(request, url, durability):
    mind = Mind(url, durability, awaited=request.param)
    yield mind
    mind.close()
