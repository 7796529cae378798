"""The suites that a memory passes on one schema it passes on several, unchanged."""

from __future__ import annotations

import pytest

from .on_shards import SUITES, run


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("suite", ["contracts", "rewinding"])
def test_they_pass(suite):
    assert run(SUITES[suite]) == 0
