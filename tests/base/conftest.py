"""A list of received events that tests can wait for."""

import pytest

from tests.support.waiting import Awaited


@pytest.fixture
def received():
    return Awaited()
