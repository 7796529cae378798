"""Listeners that hang, and are let go when a test is over."""

import logging
import threading

import pytest

from langchain_agentmem.base import events
from tests.support.waiting import Awaited


@pytest.fixture
def heard():
    return Awaited()


@pytest.fixture
def patient(monkeypatch):
    """So patient that a test which waits for a listener in vain ends by its timeout."""
    monkeypatch.setattr(events, "PATIENCE", 600)


class Hung(threading.Event):
    """Whoever is told that a listener waits for this has lost patience with it, and with no other."""

    def wait(self, timeout=None):
        if not self.is_set():
            events.PATIENCE = 0
        return super().wait(timeout)


@pytest.fixture
def hung(patient):
    """Listeners may wait for this, and are let go when the test is over."""

    def noted(record):
        if "does not answer" in record.msg:
            events.PATIENCE = 600
        return True

    gate, logger = Hung(), logging.getLogger("langchain_agentmem.base.events")
    logger.addFilter(noted)
    yield gate
    gate.set()
    logger.removeFilter(noted)
