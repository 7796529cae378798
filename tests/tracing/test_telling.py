"""Hooks and the log receive every step."""

import logging
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

import langchain_agentmem.tracing as traced
from langchain_agentmem.base.events import StepFinished, StepStarted
from langchain_agentmem.base.hooks import Hooks
from langchain_agentmem.tracing import Tracing, logger

from .trees import never, remember


def ticking(*ticks: float) -> SimpleNamespace:
    """A clock in place of the module `time`."""
    return SimpleNamespace(perf_counter=iter(ticks).__next__)


class TestHooksAndLog:
    def test_hook_receives_start_and_finish_with_all_fields(self, heard, monkeypatch):
        moment = datetime(2026, 1, 2, tzinfo=UTC)
        monkeypatch.setattr(traced, "utc_now", lambda: moment)
        monkeypatch.setattr(traced, "time", ticking(10.0, 10.25, 0, 0))
        remember(Tracing(Hooks([heard.append]), {"agentmem_database": "sqlite"}))

        started, event = heard
        assert isinstance(started, StepStarted)
        assert isinstance(event, StepFinished)
        assert (started.step_id, started.parent_id, started.name) == (event.step_id, None, event.name)
        assert (started.started_at, started.inputs, started.metadata) == (moment, event.inputs, event.metadata)
        assert (event.name, event.started_at, event.duration) == ("memory.conversation.add", moment, 0.25)
        assert event.inputs == {"messages": 2}
        assert event.outputs == {"ids": ["m1", "m2"]}
        assert event.error is None
        assert event.metadata == {"agentmem_database": "sqlite"}

        mine = ValueError("mine")
        with pytest.raises(ValueError), Tracing(Hooks([heard.append])).step("memory.conversation.add"):
            raise mine
        assert (heard[3].error, heard[3].outputs) == (mine, None)

    def test_log_has_a_debug_line_without_computing_inputs(self, caplog, monkeypatch):
        caplog.set_level(logging.DEBUG, "langchain_agentmem")
        monkeypatch.setattr(traced, "time", ticking(10.0, 10.0012, 0, 0))
        with Tracing().step("memory.conversation.add", inputs=never) as step:
            step.finish(never)

        assert not step.has_listeners
        assert [record.getMessage() for record in caplog.records if record.name == logger.name] == [
            "memory.conversation.add 1.2 ms"
        ]

        with pytest.raises(ValueError), Tracing().step("memory.conversation.add"):
            raise ValueError("a secret")

        assert "failed with ValueError" in caplog.text
        assert "secret" not in "".join(caplog.messages)
