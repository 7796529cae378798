"""`ContextCompactor`: a background summarizer of the old rounds of a role, as in TaskWeaver.

    compactor = ContextCompactor(session, "Planner", model, CompactorConfig(threshold=10, retain_recent=3))
    compactor.start()
    ...
    rounds, summary = session.get_role_rounds_with_compaction("Planner")

A round is one user query with the posts that roles such as "Planner" send to each other. Writing a round only notifies
the compactor. Its background thread counts the rounds that no summary covers. If they reach the threshold, the thread
calls the model. The database stores the summary, so a restart continues from it. The database also stores a lease, the
exclusive right to do this work, so that only one of several processes calls the model.
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
from langchain_agentmem.compaction.compacted_context import COMPACT_STEP, CompactionReport
from langchain_agentmem.compaction.compaction_config import window_of
from langchain_agentmem.compaction.processors import PipelineOutcome
from langchain_agentmem.conversations import message_log, session_memory
from langchain_agentmem.conversations.compaction_records import CompactionRecord, store_record
from langchain_agentmem.conversations.session_memory import (
    CompactedMessage,
    CompactorConfig,
    RoleHistory,
    SessionMemory,
)
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import ModelLike, compaction_key, usable_model
from langchain_agentmem.language_models.summarization import SummarizationConfig, summarize
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.message_marks import summary_message
from langchain_agentmem.messages.role_rounds import Round
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.background import Lease, Task

__all__ = ["CompactedMessage", "CompactorConfig", "ContextCompactor"]

logger = logging.getLogger(__name__)

_WINDOW_SHARE = 0.8  # the input of one call, as a share of the summarizer's maximum input
_DEFAULT_WINDOW = 100_000  # tokens; used if the maximum input of the model is unknown


class ContextCompactor:
    """A background summarizer of the rounds of one role.

    The rounds are never modified. If the model raises, times out or returns no summary, nothing changes. The compactor
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

    _start_lock = PerProcess(threading.Lock)  # `start` must not run twice at the same time

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
                "The session belongs to a LangGraph thread. Only the nodes of its graph may change it, so it cannot be "
                "summarized in the background. Use memory.compaction() in a node to shorten the model's input."
            )
        check_instance(CompactorConfig, config, "config")
        check_instance(SummarizationConfig, summarization, "summarization")
        self.session = session
        self.role = role
        self.config = config or CompactorConfig()
        self._session_key = ThreadKey(path_of(session.namespace), session.session_id)
        self._database = session._database
        self._model = usable_model(model)
        self._summarization = summarization or SummarizationConfig()
        self._counter = TokenCounter()
        self._key = compaction_key(self._session_key, session_memory.make_role_lane(role))
        self._task: Task | None = None

    def start(self) -> None:
        """Start summarizing, beginning with the existing rounds. A second call has no effect."""
        with self._start_lock:
            if not self.config.enabled or (self._task is not None and not self._task.stopped):
                return
            self._task = Task(self._database.background, self._key, self._seconds_until_due, self._summarize)
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

    # -- background task ---------------------------------------------------------------------------------------

    def _seconds_until_due(self, tx: Transaction) -> float | None:
        return 0.0 if self._load_history(tx).due_rounds(self.config) else None

    def _load_history(self, tx: Transaction) -> RoleHistory:
        return session_memory.load_role_history(tx, self._session_key, self.role)

    def _summarize(self, lease: Lease) -> None:
        """Summarize the rounds that are due, if any, and store the summary."""
        report = CompactionReport(self._database, self._session_key.name, agent=self.role)
        with report.step(COMPACT_STEP, self._session_key, "rounds", role=self.role):
            history = self._database.read(None, self._load_history)
            if not (rounds := history.due_rounds(self.config)):
                return
            covered_count = history.record.reached if history.record else 0
            messages = session_memory.convert_rounds(rounds, covered_count + 1)
            window = window_of(self._model) or _DEFAULT_WINDOW
            tokens_before = sum(map(self._counter.count_message, messages))
            with report.compaction(tokens_before, len(messages)):
                result = summarize(
                    messages,
                    earlier=history.summary,
                    model=self._model,
                    config=self._summarization.replace(prompt=self._load_prompt()),
                    counter=self._counter,
                    output_tokens=self._summarization.output_max_tokens,
                    input_tokens=self._summarization.input_max_tokens or int(window * _WINDOW_SHARE),
                    database=self._database,
                )
                if result.failure is not None:
                    raise result.failure
                message, earlier = summary_message(result.summary, id=None), history.summary
                summary_tokens = self._counter.count_message(message)
                if earlier is not None:
                    tokens_before += self._counter.count_message(summary_message(earlier, id=None))
                saved = max(0, tokens_before - summary_tokens)
                record = history.next_record(rounds, result.summary, tried=self._model is not None, saved=saved)
                self._database.write(None, lambda tx: self._store_summary(tx, lease, history, rounds, record))
            summary, stages = result.summary, ("summarization",)
            outcome = PipelineOutcome(messages=[message], tokens=summary_tokens, stages_run=stages, summary=summary)
            report.emit_completed(outcome, None, (summary_tokens, 1))

    def _store_summary(
        self, tx: Transaction, lease: Lease, history: RoleHistory, rounds: list[Round], record: CompactionRecord
    ) -> None:
        """Store a summary, unless its rounds changed or another process stored a summary first."""
        branch_head = message_log.lock_conversation(tx, self._session_key)
        if branch_head is None or not lease.renew(tx):
            return
        current, lane = self._load_history(tx), session_memory.make_role_lane(self.role)
        rounds_unchanged = all(each in current.remaining for each in rounds)
        if rounds_unchanged and (current.record and current.record.id) == (history.record and history.record.id):
            store_record(tx, self._session_key, lane, record, now=self._database.now())
            query.prune_compactions(tx, branch=branch_head[0], context=lane, limit=session_memory.MAX_COMPACTIONS)

    def _load_prompt(self) -> str | None:
        """Return the instructions of the template file; if it is unusable, the configured ones."""
        configured_prompt, path = self._summarization.prompt, self.config.prompt_template_path
        try:
            template = yaml.safe_load(Path(path).read_text(encoding="utf-8"))["content"] if path else None
            return self._summarization.replace(prompt=template).prompt or configured_prompt
        except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError, InvalidInput):
            logger.warning("The template %r is unusable, so the configured prompt is used.", path, exc_info=True)
            return configured_prompt
