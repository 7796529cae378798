"""A list that tests wait for."""

import pytest

from tests.support.waiting import Awaited


@pytest.fixture
def heard():
    return Awaited()
