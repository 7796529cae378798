"""The suites that a memory passes on PostgreSQL it passes on Citus, unchanged."""

from __future__ import annotations

import pytest

from .on_citus import SUITES, run


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("arguments", SUITES.values(), ids=list(SUITES))
def test_they_pass(coordinator, arguments):
    assert run(coordinator, arguments) == 0
