"""Who uses a memory while its server goes away loses nothing, has nothing twice, and sees no error."""

import pytest

from tests.distributed.failover import EVENTS, crash, failover, restart

QUICK = (failover, crash, restart)


@pytest.mark.parametrize(
    "event", [pytest.param(each, marks=() if each in QUICK else pytest.mark.deep, id=each.__name__) for each in EVENTS]
)
def test_processes_go_on_by_themselves(event):
    met = event(processes=3, seconds=5.0)
    assert met.errors == []
    assert met.problems == []
    assert all(min(each.said, each.shared, each.items, each.turns, each.awaited) > 0 for each in met.reports)
