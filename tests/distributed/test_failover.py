"""Who uses a memory while its server goes away loses nothing, has nothing twice, and sees no error."""

from __future__ import annotations

import pytest

from tests.distributed.failover import EVENTS


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_processes_go_on_by_themselves(event):
    met = event(processes=3, seconds=5.0)
    assert met.errors == []
    assert met.problems == []
    assert all(min(each.said, each.shared, each.items, each.turns, each.awaited) > 0 for each in met.reports)
