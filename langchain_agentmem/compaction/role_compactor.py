"""`ContextCompactor`: summarizes a role's old rounds in the background, ahead of need, as in TaskWeaver.

    compactor = ContextCompactor(session, "Planner", model, CompactorConfig(threshold=10, retain_recent=3))
    compactor.start()
    ...
    rounds, summary = session.get_role_rounds_with_compaction("Planner")

Writing a round only sends a notification. A background thread, which runs as long as there is work, checks whether
enough rounds have no summary, and calls the model. The database stores the summary and the lease for making it. So a
restart continues from the stored summary, and only one of several processes makes it.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import yaml
from pydantic import InstanceOf

from langchain_agentmem.base.argument_checks import check_instance, check_timeout, check_value
from langchain_agentmem.base.concurrency import PerProcess
from langchain_agentmem.base.namespaces import ThreadKey, path_of
from langchain_agentmem.compaction.compacted_context import COMPACT, CompactionReport
from langchain_agentmem.compaction.compaction_config import window_of
from langchain_agentmem.compaction.processors import PipelineOutcome
from langchain_agentmem.conversations import message_log
from langchain_agentmem.conversations.compaction_records import CompactionRecord, keep
from langchain_agentmem.conversations.session_memory import (
    KEPT,
    CompactedMessage,
    CompactorConfig,
    RoleHistory,
    SessionMemory,
    lane_of,
    seen_by,
    told,
)
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import ModelLike, compaction_key, usable_model
from langchain_agentmem.language_models.summarization import SummarizationConfig, summarizing
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.message_marks import summary_message
from langchain_agentmem.messages.role_rounds import Round
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.background import Lease, Task

__all__ = ["CompactedMessage", "CompactorConfig", "ContextCompactor"]

logger = logging.getLogger(__name__)

_SHARE_OF_WINDOW = 0.8
_INPUT = 100_000


class ContextCompactor:
    """A background summarizer of the rounds of one role.

    The rounds are never modified. If the model raises, times out or answers no summary, nothing changes. The compactor
    tries again after 1, 2, 4 and so on up to 60 seconds, and when the next round begins.

    Args:
        session: The session. `create_round` notifies the compactor; if another process writes, call
            `notify_rounds_changed`.
        role: The role.
        model: The summarizer: a LangChain model, a function from messages to text, or a name such as
            "openai:gpt-5-mini". Default None: extractive summaries from the original messages, without a model.
        config: The thresholds and the instructions. Default: `CompactorConfig()`.
        summarization: The length of a summary, the timeout, and so on. Default: `SummarizationConfig()`.

    Raises:
        InvalidInput: An argument is invalid.
    """

    _turning = PerProcess(threading.Lock)  # `start` must not run twice at the same time

    def __init__(
        self,
        session: SessionMemory,
        role: str,
        model: ModelLike | None = None,
        config: CompactorConfig | None = None,
        *,
        summarization: SummarizationConfig | None = None,
    ) -> None:
        check_value(InstanceOf[SessionMemory], session, "session")
        if session.follows_thread:
            raise InvalidInput(
                "The session of a thread is changed by the nodes of its graph alone, so it cannot be summarized in the "
                "background. In a node, compact what the model is given: memory.compaction()."
            )
        check_instance(CompactorConfig, config, "config")
        check_instance(SummarizationConfig, summarization, "summarization")
        self.session = session
        self.role = role
        self.config = config or CompactorConfig()
        self._at = ThreadKey(path_of(session.namespace), session.session_id)
        self._database = session._database
        self._model = usable_model(model)
        self._summarization = summarization or SummarizationConfig()
        self._counter = TokenCounter()
        self._key = compaction_key(self._at, lane_of(role))
        self._task: Task | None = None

    def start(self) -> None:
        """Start summarizing, beginning with the existing rounds. A second call has no effect."""
        with self._turning:
            if not self.config.enabled or (self._task is not None and not self._task.stopped):
                return
            self._task = Task(self._database.background, self._key, self._due, self._summarize)
        self.notify_rounds_changed()

    def stop(self) -> None:
        """Stop summarizing, without waiting. The answer to a running model call is still stored."""
        if (task := self._task) is not None:
            task.stop()

    def notify_rounds_changed(self) -> None:
        """Notify the compactor of changed rounds. Never waits; has no effect before `start`."""
        if (task := self._task) is not None:
            task.wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no work is left, or until the timeout.

        Args:
            timeout: Seconds. Default: no timeout.

        Returns:
            Whether no work is left.

        Raises:
            InvalidInput: The timeout is not a number of seconds.
        """
        timeout = check_timeout(timeout)
        task = self._task
        return task is None or task.wait(timeout)

    # -- the thread --------------------------------------------------------------------------------------------

    def _due(self, tx: Transaction) -> float | None:
        return 0.0 if seen_by(tx, self._at, self.role).due(self.config) else None

    def _summarize(self, lease: Lease) -> None:
        """Summarize the rounds that are due, and store the summary."""
        report = CompactionReport(self._database, self._at.name, agent_name=self.role)
        with report.step(COMPACT, self._at, "rounds", role=self.role):
            seen = self._database.read(None, lambda tx: seen_by(tx, self._at, self.role))
            if going := seen.due(self.config):
                self._summarize_rounds(going, seen, lease, report)

    # -- summarizing -------------------------------------------------------------------------------------------

    def _summarize_rounds(self, going: list[Round], seen: RoleHistory, lease: Lease, report: CompactionReport) -> None:
        reached = seen.record.reached if seen.record else 0
        messages = told(going, reached + 1)
        window = window_of(self._model)
        before = sum(map(self._counter.count_message, messages))
        with report.compacting(before, len(messages)):
            made = summarizing(
                messages,
                earlier=seen.summary,
                model=self._model,
                config=self._summarization.replace(prompt=self._prompt()),
                counter=self._counter,
                output_tokens=self._summarization.output_max_tokens,
                input_tokens=self._summarization.input_max_tokens or int((window or _INPUT) * _SHARE_OF_WINDOW),
                database=self._database,
            )
            if made.failure is not None:
                raise made.failure
            shown = summary_message(made.summary, id=None)
            tokens = self._counter.count_message(shown)
            earlier = 0 if seen.summary is None else self._counter.count_message(summary_message(seen.summary, id=None))
            now, saved = self._database.now(), max(0, before + earlier - tokens)
            record = seen.record_with(going, made.summary, tried=self._model is not None, saved=saved)
            self._database.write(None, lambda tx: self._keep(tx, lease, seen, going, record, now))
        outcome = PipelineOutcome(messages=[shown], tokens=tokens, stages_run=("summarization",), summary=made.summary)
        report.completed(outcome, None, tokens=tokens, messages=1)

    def _keep(
        self, tx: Transaction, lease: Lease, seen: RoleHistory, going: list[Round], record: CompactionRecord, now: int
    ) -> None:
        """Store a summary, unless its rounds changed or another process stored one first."""
        found = message_log.locked(tx, self._at)
        if found is None or not lease.holds(tx):
            return
        here = seen_by(tx, self._at, self.role)
        unchanged = all(each in here.rest for each in going)
        if unchanged and (here.record and here.record.id) == (seen.record and seen.record.id):
            keep(tx, self._at, lane_of(self.role), record, now=now)
            query.prune_compactions(tx, branch=found[0], lane=lane_of(self.role), limit=KEPT)

    def _prompt(self) -> str | None:
        """Return the instructions of the template file, or the configured ones if it is unusable."""
        usual, path = self._summarization.prompt, self.config.prompt_template_path
        try:
            text = yaml.safe_load(Path(path).read_text(encoding="utf-8"))["content"] if path else None
            return self._summarization.replace(prompt=text).prompt or usual
        except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError, InvalidInput):
            logger.warning("The template %r cannot be used; our own instructions are.", path, exc_info=True)
            return usual
