"""`ContextCompactor`: a role's old rounds are summarized in the background, ahead of need, as in TaskWeaver.

    compactor = ContextCompactor(session, "Planner", model, CompactorConfig(threshold=10, retain_recent=3))
    compactor.start()
    ...
    rounds, summary = session.get_role_rounds_with_compaction("Planner")

Whoever writes a round only leaves word. A thread that lives as long as there is something to do looks whether enough
rounds have no summary, and asks the model. The summary is in the database, and so is the right to make it: a restart
goes on from there, and of several processes one does it.
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
    """Keeps the rounds of one role within bounds, in the background.

    The rounds are never changed. What the model answers that is no summary, what it raises and what takes too long
    leaves everything as it was; it is tried again after 1, 2, 4 and so on up to 60 seconds, and when the next round
    begins.

    Args:
        session: The session. `create_round` leaves word by itself; where another process writes, call
            `notify_rounds_changed`.
        role: The role.
        model: What summarizes: a LangChain model, a function from messages to text, or a name such as
            "openai:gpt-5-mini". Default None: summaries are made of what was said, without a model.
        config: When, and with which instructions. Default: `CompactorConfig()`.
        summarization: How long a summary may be, how long to wait for it, and so on. Default: `SummarizationConfig()`.

    Raises:
        InvalidInput: An argument is wrong.
    """

    _turning = PerProcess(threading.Lock)  # who stops it must not meet who has begun to start it

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
        """Summarize from now on, beginning with what there is. Starting twice is starting once."""
        with self._turning:
            if not self.config.enabled or (self._task is not None and not self._task.stopped):
                return
            self._task = Task(self._database.background, self._key, self._due, self._summarize)
        self.notify_rounds_changed()

    def stop(self) -> None:
        """Summarize no more. Nothing is waited for: a model that is being asked may answer, and its answer is kept."""
        if (task := self._task) is not None:
            task.stop()

    def notify_rounds_changed(self) -> None:
        """Leave word that there may be something to do. Does nothing unless started; never waits."""
        if (task := self._task) is not None:
            task.wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there is nothing to do, or until time is up.

        Args:
            timeout: Seconds. Default: for ever.

        Returns:
            Whether there is nothing to do.

        Raises:
            InvalidInput: The time to wait is no number of seconds.
        """
        timeout = check_timeout(timeout)
        task = self._task
        return task is None or task.wait(timeout)

    # -- the thread --------------------------------------------------------------------------------------------

    def _due(self, tx: Transaction) -> float | None:
        return 0.0 if seen_by(tx, self._at, self.role).due(self.config) else None

    def _summarize(self, lease: Lease) -> None:
        """Summarize the rounds that are due, and keep the summary."""
        report = CompactionReport(self._database, self._at.name, agent_name=self.role)
        with report.step(COMPACT, self._at, "rounds", role=self.role):
            seen = self._database.read(None, lambda tx: seen_by(tx, self._at, self.role))
            if going := seen.due(self.config):
                self._summarize_rounds(going, seen, lease, report)

    # -- what is done ------------------------------------------------------------------------------------------

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
        """Keep the summary of rounds, if they are still what was summarized and nobody else was quicker."""
        found = message_log.locked(tx, self._at)
        if found is None or not lease.holds(tx):
            return
        here = seen_by(tx, self._at, self.role)
        unchanged = all(each in here.rest for each in going)
        if unchanged and (here.record and here.record.id) == (seen.record and seen.record.id):
            keep(tx, self._at, lane_of(self.role), record, now=now)
            query.prune_compactions(tx, branch=found[0], lane=lane_of(self.role), limit=KEPT)

    def _prompt(self) -> str | None:
        """The instructions of the template's file; those of the configuration where there is none that can be used."""
        usual, path = self._summarization.prompt, self.config.prompt_template_path
        try:
            text = yaml.safe_load(Path(path).read_text(encoding="utf-8"))["content"] if path else None
            return self._summarization.replace(prompt=text).prompt or usual
        except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError, InvalidInput):
            logger.warning("The template %r cannot be used; our own instructions are.", path, exc_info=True)
            return usual
