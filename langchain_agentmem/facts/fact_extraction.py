"""The extraction of facts from pending messages: the prompt, the parsing of the answer, and the storing of facts.

The prompt contains a batch of messages, numbered and enclosed in delimiters that mark them as data. The model answers
with JSON. Each part of the answer that is not a fact is reported as a problem, and the rest is used.

One transaction stores the facts of a batch and removes its messages from the queue. A message is therefore pending
exactly until its facts are stored, even if the process is interrupted or another process has the same batch.

Failed messages remain pending. After an unusable answer, the model is asked again about the message after one second,
then after two seconds. After the third attempt (`max_attempts`), the message is *parked*: it is retried after all
others, with a pause of one day.

If a call of the model fails, the model is considered down. The pause before the next call doubles each time, up to ten
minutes. These calls do not count as attempts, and do not change the order of the messages. However, a message itself
may cause its failed calls. After several failed calls, the model is therefore also asked about another message. If the
model answers about that one, the failed calls count as one failed attempt of the first message.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langchain_agentmem.base.argument_checks import parse_limit
from langchain_agentmem.base.clock import EARLIEST, from_micros, parse_time, to_micros
from langchain_agentmem.base.data_tables import load_data_table
from langchain_agentmem.base.fencing import fence_text, sanitize_text
from langchain_agentmem.base.hooks import FirstFailures
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.errors import InvalidInput, is_graph_bubble_up, safe_repr
from langchain_agentmem.facts import fact_store
from langchain_agentmem.facts.fact import ExtractionFailure, FactsConfig, format_sentence, parse_name
from langchain_agentmem.facts.fact_store import FactChanges, FactsContext, FactStatement, FactView, make_source_event
from langchain_agentmem.language_models.lenient_json import is_cut_off, read_json, read_objects, strip_reasoning
from langchain_agentmem.language_models.model_calls import SourceNote, ask_model
from langchain_agentmem.language_models.tool_factory import shorten
from langchain_agentmem.messages.message import Message
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import FACT_DUE, FACT_FAILURE, FACT_TEXT, FOREVER, VersionDraft
from langchain_agentmem.search.dates import find_times
from langchain_agentmem.storage import Transaction
from langchain_agentmem.storage.background import backoff
from langchain_agentmem.tracing import shorten_text

MAX_BATCH_MESSAGES, MAX_BATCH_CHARS = 8, 12_000
"""The maximum number of messages in a prompt, and of characters in these. A longer message is cut and sent alone."""
MAX_FAILURES = 100
"""The maximum number of stored failures."""
MAX_ANSWER_CHARS = 2_000
"""The maximum number of characters of the answer and of the error that are stored with a failure."""
MAX_PAUSE = 600.0
"""The maximum number of seconds between two calls of a model whose calls fail."""
PARKED_PAUSE = 86_400.0
"""The minimum number of seconds between two attempts for a parked message."""
FAILED = "failed"
"""The label of a pending message after a failed attempt."""

logger = logging.getLogger(__name__)


class PendingMessage(NamedTuple):
    """A message that is queued for extraction.

    Attributes:
        key: The key of its row.
        message: The message.
        sent_at: The time of the message, in microseconds since 1970.
        conversation: The conversation or thread of the message; None if unknown.
        listed: True if lists and searches of facts also return the message.
        attempts: The number of failed attempts that the message caused.
        failed: True after a failed attempt, whatever its cause.
        retry_at: The earliest time of the next attempt, in microseconds since 1970. `extract_facts` ignores it unless
            `respect_pauses` is set.
    """

    key: str
    message: Message
    sent_at: int
    conversation: str | None
    listed: bool = True
    attempts: int = 0
    failed: bool = False
    retry_at: int = 0


class ExtractionAnswer(NamedTuple):
    """The parsed answer of a model.

    Attributes:
        facts: The facts, each with the index of its message in the prompt.
        error: The reason why the answer, or some of its facts, cannot be used; "" if there is none.
        unsourced: True if some facts do not refer to a message in the prompt.
        usable: True if the answer has usable facts, or has no problems.
        text: The text of the answer.
        call_failed: True if the call of the model failed, so that there is no answer.
    """

    facts: tuple[tuple[int, FactStatement], ...] = ()
    error: str = ""
    unsourced: bool = False
    usable: bool = True
    text: str = ""
    call_failed: bool = False


# -- the prompt, and its answer --------------------------------------------------------------------------------------


def build_prompt(messages: Sequence[PendingMessage], settings: FactsConfig, single: Sequence[str]) -> list[BaseMessage]:
    """Return the prompt that asks a model for facts.

    Args:
        messages: The messages in the prompt.
        settings: The settings, with additional `instructions`.
        single: The names of the single-valued predicates.
    """
    instructions = [load_data_table("facts/extraction_prompt.yaml")["instructions"]]
    if single:
        instructions.append(f"These have one value at a time, so a new one ends the old: {', '.join(single)}.")
    if settings.instructions:
        instructions.append(settings.instructions)
    blocks = [
        fence_text(
            "message",
            shorten(sanitize_text(pending.message.text), limit=MAX_BATCH_CHARS),
            number=number,
            speaker=sanitize_text(pending.message.name or pending.message.role),
            time=f"{from_micros(pending.sent_at):%A, %Y-%m-%d %H:%M} UTC",
        )
        for number, pending in enumerate(messages, 1)
    ]
    return [SystemMessage("\n\n".join(instructions)), HumanMessage("\n\n".join(blocks))]


def parse_answer(reply: str, messages: Sequence[PendingMessage]) -> ExtractionAnswer:
    """Parse the facts in a model's answer.

    Args:
        reply: The text of the answer.
        messages: The messages in the prompt.
    """
    answer = strip_reasoning(reply)
    items, is_cut = _parse_items(answer), is_cut_off(answer)
    problems = ["It is cut off."] if is_cut else []
    if items is None or (is_cut and len(messages) > 1):  # the missing part may concern any of the messages
        problems = problems or ["It is empty." if not answer.strip() else "It contains no JSON object with facts."]
        items = []
    elif is_cut and not answer.rstrip("` \n").endswith(("}", "]")):
        items = items[:-1]
    facts: list[tuple[int, FactStatement]] = []
    for number, item in enumerate(items, 1):
        try:
            facts.append(_parse_fact(item, messages))
        except (InvalidInput, ValueError) as problem:
            problems.append(f"Fact {number}: {problem}")
    sourced = tuple((index, fact) for index, fact in facts if index >= 0)
    usable = not problems or bool(sourced)
    error = " ".join(problems if usable else ["The answer cannot be used:", *problems])
    return ExtractionAnswer(sourced, error, len(sourced) < len(facts), usable, reply)


def parse_period(start: Any, end: Any, now: int) -> tuple[int | None, int | None]:
    """Return the start and end that a model stated, in microseconds since 1970.

    A day, a month or a year is read as its beginning. If one fact ended on the day on which another began, the two
    therefore do not overlap. If an end that is read like this is not after the start, it is read as the end of its day,
    month or year instead. A fact that began and ended in 2024 thus lasted until the end of 2024.

    Args:
        start: The stated start.
        end: The stated end.
        now: The reference time of words such as "yesterday", in microseconds since 1970.

    Returns:
        The start and the end; each is None if it is not a time. See `parse_fact_time`.
    """
    started, ended = parse_fact_time(start, now), parse_fact_time(end, now)
    if started is not None and ended is not None and ended <= started:
        ended = parse_fact_time(end, now, last=True)
    return started, ended


def parse_fact_time(value: Any, now: int, *, last: bool = False) -> int | None:
    """Return the time that a model stated, in microseconds since 1970.

    Args:
        value: A date or a time, as ISO 8601 or in words, or a year. Any other value results in None.
        now: The reference time of words such as "yesterday", in microseconds since 1970.
        last: True to return the end of a day, a month or a year. Default: False; its beginning is returned.
    """
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    is_day = len(text) <= len("2024-01-01")  # a date without a time of day
    with contextlib.suppress(InvalidInput, OverflowError):  # otherwise the time is in words
        return to_micros(parse_time(text) + timedelta(days=1 if last and is_day else 0))
    periods = find_times(text, now)
    return None if not periods else periods[0].end if last else periods[0].start


def _parse_items(answer: str) -> list[Any] | None:
    """Return the facts in an answer; None if it contains no JSON.

    The answer may be an object with the list "facts", a list of facts, or single facts.
    """
    objects = read_objects(answer)
    items = next((candidate["facts"] for candidate in objects if isinstance(candidate.get("facts"), list)), None)
    if items is None:
        items = read_json(answer, wanted=list)
    return items if items is not None else objects or None


def _parse_fact(item: Any, messages: Sequence[PendingMessage]) -> tuple[int, FactStatement]:
    """Return a fact and the index of its message in `messages`; -1 if unknown."""
    if not isinstance(item, Mapping):
        raise InvalidInput(f"it is not an object with a subject, a predicate and an object: {safe_repr(item)}.")
    names = ("subject", "predicate", "object")
    subject, predicate, obj = (parse_name(_add_quotes(item.get(name)), f"The {name}") for name in names)
    number = str(item.get("message", "")).strip()
    index = int(number) - 1 if number.isdecimal() and 0 < int(number) <= len(messages) else -1
    index = 0 if len(messages) == 1 else index
    pending = messages[max(index, 0)]
    start, end = parse_period(item.get("valid_from"), item.get("valid_to"), pending.sent_at)
    if end is not None and end <= (EARLIEST if start is None else start):
        raise InvalidInput("it ends before it begins.")
    confidence, message = _parse_confidence(item.get("confidence")), pending.message
    source = message.message_id, pending.conversation, pending.sent_at
    return index, FactStatement(message.role, subject, predicate, obj, start, end, confidence, *source)


def _add_quotes(value: Any) -> Any:
    """Return a number or a boolean as text, because some models omit the quotes."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _parse_confidence(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return min(1.0, max(0.0, number)) if math.isfinite(number) else None


# -- pending messages --------------------------------------------------------------------------------------------------


def load_pending(facts: FactView, keys: Sequence[str] | None = None) -> list[PendingMessage]:
    """Return the pending messages, in the order in which they were added.

    The order can affect which facts hold in the end.

    Args:
        facts: The view to read.
        keys: Only messages with these keys. Default: all.
    """
    rows: Iterable[memory_rows.MemoryVersion]
    rows = facts.rows_of_kind(FACT_DUE) if keys is None else facts.rows_by_key(FACT_DUE, keys).values()
    queue = {row.key: row for row in rows}
    # The number of the message's row is the order. A failed attempt writes a new version only of the queue's row.
    texts = sorted(facts.rows_by_key(FACT_TEXT, queue).values(), key=lambda text: text.number)
    return [
        PendingMessage(
            key=text.key,
            message=fact_store.decode_message(text),
            sent_at=text.created_at,
            conversation=fact_store.get_conversation(text),
            listed=text.label is None,
            attempts=queue[text.key].extra["attempts"],
            failed=queue[text.key].label == FAILED,
            retry_at=queue[text.key].extra.get("until") or 0,
        )
        for text in texts
    ]


def load_due(
    facts: FactView, max_attempts: int, now: int, should_extract: Callable[[PendingMessage], bool] = lambda _: True
) -> tuple[list[PendingMessage], int | None]:
    """Return the messages that are due for extraction.

    Parked messages are last. The others are in the order in which they were added. A message that must wait also
    delays the messages after it, because the order can affect which facts hold in the end.

    Args:
        facts: The view to read.
        max_attempts: The number of attempts after which a message is parked.
        now: The current time, in microseconds since 1970.
        should_extract: A function that returns whether to consider a pending message. Default: all messages.

    Returns:
        The messages, and the earliest later time at which a message is due; None if no message must wait.
    """
    messages = [pending for pending in load_pending(facts) if should_extract(pending)]
    failures = memory_rows.load_newest(facts.tx, facts.view, FACT_FAILURE, limit=1)
    # During an outage, no message is due, unless none of the considered messages has a failed attempt.
    if failures and (failures[0].extra.get("until") or 0) > now and any(pending.failed for pending in messages):
        return [], failures[0].extra["until"]
    unparked = (each for each in messages if each.attempts < max_attempts)
    due = list(takewhile(lambda each: each.retry_at <= now, unparked))
    due += [each for each in messages if each.attempts >= max_attempts and each.retry_at <= now]
    return due, min((pending.retry_at for pending in messages if pending.retry_at > now), default=None)


def _choose_batch(due: Sequence[PendingMessage]) -> list[PendingMessage]:
    """Return the messages of the next prompt: the first due messages that fit into it.

    A message with a failed attempt is sent alone, so that it cannot spoil the answer about others.
    """
    batch: list[PendingMessage] = []
    size = 0
    for pending in due[:MAX_BATCH_MESSAGES]:
        length = min(len(pending.message.text), MAX_BATCH_CHARS)
        if pending.failed:
            return batch or [pending]
        if batch and size + length > MAX_BATCH_CHARS:
            break
        batch.append(pending)
        size += length
    return batch


def load_failures(facts: FactView, limit: int | None) -> list[ExtractionFailure]:
    """Return the newest extraction failures, sorted from the oldest to the newest."""
    return [
        ExtractionFailure(
            message_ids=tuple(event["id"] for event in version.extra["told"]),
            error=version.extra["error"],
            answer=version.extra["answer"],
            at=from_micros(version.created_at),
        )
        for version in memory_rows.load_newest(facts.tx, facts.view, FACT_FAILURE, limit=parse_limit(limit))
    ]


def _postpone(facts: FactChanges, pending: PendingMessage, max_attempts: int, *, count: bool = True) -> None:
    """Postpone a message after a failed attempt.

    The message is sent alone next time. With `count`, the attempt is counted, which delays the next attempt.
    """
    attempts, pause = pending.attempts, 0.0
    if count:
        attempts, pause = attempts + 1, backoff(attempts) if attempts + 1 < max_attempts else PARKED_PAUSE
    now = facts.change.now
    extra = {"told": _source_events([pending], now), "attempts": attempts, "until": now + int(pause * 1_000_000)}
    facts.change.drafts.append(VersionDraft(FACT_DUE, pending.key, b"", now, label=FAILED, extra=extra))


def _record_failure(facts: FactChanges, batch: Sequence[PendingMessage], error: str, answer: str, calls: int) -> None:
    """Record a failure, and a pause that grows with `calls`, the failed calls in a row."""
    now = facts.change.now
    extra = {
        "told": _source_events(batch, now),
        "rests_on_all": True,  # the answer may quote any of the messages
        "error": error[:MAX_ANSWER_CHARS],
        "answer": answer[:MAX_ANSWER_CHARS],
        "silent": calls,  # the number of consecutive failed calls
        "until": now + int(backoff(calls - 1, MAX_PAUSE) * 1_000_000) if calls else 0,
    }
    facts.change.drafts.append(VersionDraft(FACT_FAILURE, facts.new_id(), b"", now, extra=extra))
    old = facts.rows_of_kind(FACT_FAILURE)
    for version in old[: max(0, len(old) + 1 - MAX_FAILURES)]:
        facts.change.remove(FACT_FAILURE, version.key)


def _count_failed_calls(facts: FactChanges, *, answered: bool) -> int:
    """Return the number of consecutive failed calls of the model, including the current call.

    An answer resets the number to 0. A failed call during a pause does not increase it.
    """
    newest = memory_rows.load_newest(facts.tx, facts.view, FACT_FAILURE, limit=1)
    failed_calls = (newest[0].extra.get("silent") or 0) if newest else 0
    if answered and failed_calls:
        extra = {**newest[0].extra, "silent": 0, "until": 0}
        facts.change.drafts.append(VersionDraft(FACT_FAILURE, newest[0].key, b"", newest[0].created_at, extra=extra))
    is_paused = failed_calls > 0 and newest[0].extra["until"] > facts.change.now
    return 0 if answered else failed_calls + (not is_paused)


def _source_events(messages: Sequence[PendingMessage], now: int) -> list[dict[str, Any]]:
    """Return the events that make a row depend on messages, and be deleted with them."""
    return [make_source_event(n, now, each.message.message_id, each.conversation) for n, each in enumerate(messages, 1)]


# -- extraction --------------------------------------------------------------------------------------------------------


class BatchOutcome(NamedTuple):
    """The outcome of the extraction from one batch of messages.

    Attributes:
        message_count: The number of messages that are no longer pending.
        fact_ids: The ids of the facts that were added or changed.
        fact_texts: The facts in the answer, as sentences.
        failure: The reason why the answer is missing or was not used; None if there is none.
        failed_calls: The number of consecutive failed calls of the model, including earlier batches.
        lost_lease: True if another process now has the lease.
    """

    message_count: int = 0
    fact_ids: Sequence[str] = ()
    fact_texts: Sequence[str] = ()
    failure: str | None = None
    failed_calls: int = 0
    lost_lease: bool = False


def summarize(outcomes: Sequence[BatchOutcome]) -> dict[str, Any]:
    """Return the outcomes of some batches as one dictionary, for the trace."""
    return {
        "message_count": sum(outcome.message_count for outcome in outcomes),
        "failure": next((outcome.failure for outcome in outcomes if outcome.failure is not None), None),
        "fact_ids": list(dict.fromkeys(fact_id for outcome in outcomes for fact_id in outcome.fact_ids)),
    }


def extract_facts(
    context: FactsContext,
    model: Any,
    *,
    has_lease: Callable[[Transaction], bool] = lambda _: True,
    should_extract: Callable[[PendingMessage], bool] = lambda _: True,
    respect_pauses: bool = False,
) -> list[BatchOutcome]:
    """Extract facts from pending messages.

    Args:
        context: The memory.
        model: The model, as `usable_model` returns it, but not None.
        has_lease: A function that returns whether this process still has the lease. It is called in the transaction
            that stores the facts. Default: always True.
        should_extract: A function that returns whether to process a pending message. Default: all messages.
        respect_pauses: True to process only messages that are due now, and stop at the first failure. Default: False;
            pauses are ignored. After an unusable answer, the message is retried immediately until it is parked. If
            calls of the model fail, this function retries once and then returns.

    Returns:
        The outcome of each batch, in order.
    """
    outcomes: list[BatchOutcome] = []
    max_attempts = context.settings.max_attempts
    parked: set[str] = set()
    due: list[PendingMessage] = []

    def load(facts: FactView) -> list[PendingMessage]:
        now = context.now() if respect_pauses else FOREVER
        return load_due(facts, max_attempts, now, lambda each: should_extract(each) and each.key not in parked)[0]

    while True:
        due = due or context.read_facts(None, load)
        if not due:
            return outcomes
        batch = _choose_batch(due)
        outcome = _extract_batch(context, model, batch, has_lease)
        outcomes.append(outcome)
        is_retry = batch[0].failed
        others = due[len(batch) :]
        due = others if outcome.message_count else []  # after a failure, read the pending messages again
        is_suspect = outcome.failed_calls >= max_attempts or batch[0].attempts or (is_retry and not respect_pauses)
        if outcome.failed_calls and others and is_suspect:
            # The batch may cause the failed calls: ask about another message, a different one each time.
            is_retry, suspects = True, batch
            batch = [others[outcome.failed_calls % len(others)]]
            outcome = _extract_batch(context, model, batch, has_lease, suspects)
            outcomes.append(outcome)
        must_stop = respect_pauses or (outcome.failed_calls and is_retry)
        if outcome.lost_lease or (outcome.failure is not None and must_stop):
            return outcomes
        if outcome.failure is not None and not outcome.failed_calls:
            parked |= {pending.key for pending in batch if pending.attempts + 1 >= max_attempts}


def _extract_batch(
    context: FactsContext,
    model: Any,
    messages: Sequence[PendingMessage],
    has_lease: Callable[[Transaction], bool],
    suspects: Sequence[PendingMessage] = (),
) -> BatchOutcome:
    """Extract facts from a batch of messages.

    If the model answers, its previous failed calls count as a failed attempt of each of the `suspects`.
    """
    answer = _ask_model(context, model, messages)

    def store_answer(facts: FactChanges) -> BatchOutcome:
        if not has_lease(facts.tx):
            return BatchOutcome(lost_lease=True)
        # A message that was changed during the call of the model remains pending.
        sent = {pending.key: (pending.message, pending.sent_at) for pending in messages}
        unchanged = [each for each in load_pending(facts, list(sent)) if (each.message, each.sent_at) == sent[each.key]]
        facts.change.writer = SourceNote("model")
        max_attempts = context.settings.max_attempts
        error, text = answer.error, answer.text
        if len(unchanged) < len(messages):  # the answer may quote a removed message, so it is not stored
            error, text = "Some messages were changed or removed meanwhile, so the answer is not stored.", ""
        failed_calls = _count_failed_calls(facts, answered=not answer.call_failed)
        for pending in load_pending(facts, [] if failed_calls else [suspect.key for suspect in suspects]):
            _postpone(facts, pending, max_attempts)
        if unchanged and answer.error:
            _record_failure(facts, unchanged, error, text, failed_calls)
        if not answer.usable or answer.unsourced:
            # Next time each message is sent alone, so that it is the source of all facts in the answer.
            for pending in unchanged:
                _postpone(facts, pending, max_attempts, count=not failed_calls and not answer.usable)
            return BatchOutcome(failure=None if answer.usable else error, failed_calls=failed_calls)
        keys = {pending.key for pending in unchanged}
        fact_texts = []
        for fact in [fact for index, fact in answer.facts if messages[index].key in keys]:
            redacted = fact._replace(subject=redact(fact.subject), object=redact(fact.object))
            facts.record_statement(redacted)
            fact_texts.append(format_sentence(redacted.subject, redacted.predicate, redacted.object))
        for pending in unchanged:
            facts.change.remove(FACT_DUE, pending.key)
        return BatchOutcome(len(unchanged), list(facts.written), fact_texts)

    return context.write_facts("facts.learn", store_answer, message_ids=[each.message.message_id for each in messages])


class _FailureLog(FirstFailures):
    """A log of extraction failures, with one entry for each database and kind of failure."""


def _ask_model(context: FactsContext, model: Any, messages: Sequence[PendingMessage]) -> ExtractionAnswer:
    """Ask a model about a batch of messages. If it raises, set `call_failed` of the answer."""
    predicates = context.read_facts(None, lambda facts: sorted(facts.rules.single))
    raised: Exception | None = None
    try:
        prompt = build_prompt(messages, context.settings, predicates)
        inputs = partial(context.trace_inputs, said=[pending.message for pending in messages])
        reply = ask_model(context.database, model, prompt, "facts.extract", context.settings.timeout, inputs=inputs)
        answer = parse_answer(reply, messages)
    except Exception as error:  # after any exception of the model, the messages remain pending
        if is_graph_bubble_up(error):
            raise
        raised = error
        problem = f"The model gave no answer: {type(error).__name__}: {error}"
        answer = ExtractionAnswer(error=problem, usable=False, call_failed=True)
    if not answer.usable:
        failure_log = context.database.get_attachment(_FailureLog, partial(_FailureLog, logger))
        message = "No facts were extracted from %d messages. They remain pending; see failures(). %s"
        kind = "an answer" if raised is None else type(raised).__name__
        failure_log.report(kind, message, len(messages), shorten_text(answer.error), error=raised)
    return answer
