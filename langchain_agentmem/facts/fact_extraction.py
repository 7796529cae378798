"""Facts are extracted from messages that wait: the question to the model, how its answer is read, and what is kept.

The model is shown some messages, numbered, as data, and answers with JSON. Anything that is not a fact is recorded as a
problem, and the rest of the answer is used.

One transaction keeps the facts of a batch and ends the waiting of its messages. So neither an interruption nor another
process at work on the same messages does harm: a message waits exactly until its facts are kept.

Failed messages keep waiting. After an unusable answer about a message, the model is asked again after a second, then
after two, then the message is *parked*: others go before it, and the model is asked about it once a day. Without any
answer, the model is considered down, and the pause before the next question doubles, up to ten minutes: an outage uses
up no attempts, and changes no order. A message may be the reason, so after some questions in vain the model is asked
about another one as well. If it answers, the silence is blamed on the first message.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langchain_agentmem.base.argument_checks import parse_limit
from langchain_agentmem.base.clock import EARLIEST, from_micros, parse_time, to_micros
from langchain_agentmem.base.data_tables import load_data_table
from langchain_agentmem.base.events import FirstFailures
from langchain_agentmem.base.fencing import fence_text, sanitize_text
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.errors import InvalidInput, is_graph_bubble_up, safe_repr
from langchain_agentmem.facts import fact_store
from langchain_agentmem.facts.fact import ExtractionFailure, FactsConfig, parse_name, sentence
from langchain_agentmem.facts.fact_store import FactChanges, FactsContext, FactStatement, FactView
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
"""Most messages that one call of a model is shown, and most characters of them: a longer one is shown alone, and
clipped."""
MAX_FAILURES = 100
"""The number of failures that are kept."""
MAX_ANSWER_CHARS = 2_000
MAX_PAUSE = 600.0
"""Most seconds between two questions to a model that does not answer."""
PARKED_PAUSE = 86_400.0
"""Seconds between two questions about a parked message."""
FAILED = "failed"
"""The label of a waiting message that a model was asked about in vain."""

logger = logging.getLogger(__name__)


class PendingMessage(NamedTuple):
    """A message that waits for extraction.

    Attributes:
        key: The key under which it is kept.
        message: The message.
        sent_at: When it was said, in microseconds since 1970.
        conversation: The conversation or thread that it belongs to, if it is known.
        listed: Whether it is shown and found together with the facts.
        attempts: The number of failures that were blamed on it.
        failed: Whether a model was asked about it in vain.
        retry_at: The earliest time of the next question about it, unless a caller wants it now.
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
    """The answer of a model.

    Attributes:
        facts: The facts in it, each with the place of its message among those that the model was shown.
        error: Why the answer, or some of its facts, cannot be used; "" if all of it can.
        unplaced: Whether some facts do not say which message they come from.
        readable: Whether the answer can be used at least in part.
        text: The text of the answer.
        silent: Whether the model did not answer.
    """

    facts: tuple[tuple[int, FactStatement], ...] = ()
    error: str = ""
    unplaced: bool = False
    readable: bool = True
    text: str = ""
    silent: bool = False


# -- the question, and its answer --------------------------------------------------------------------------------------


def build_prompt(messages: Sequence[PendingMessage], settings: FactsConfig, single: Sequence[str]) -> list[BaseMessage]:
    """Return the prompt that asks a model for facts.

    Args:
        messages: The messages that the model is shown.
        settings: Their `instructions` are added.
        single: The predicates that have one value at a time.
    """
    instructions = [load_data_table("facts/extraction_prompt.yaml")["instructions"]]
    if single:
        instructions.append(f"These have one value at a time, so a new one ends the old: {', '.join(single)}.")
    if settings.instructions:
        instructions.append(settings.instructions)
    blocks = [
        fence_text(
            "message",
            shorten(sanitize_text(due.message.text), limit=MAX_BATCH_CHARS),
            number=number,
            speaker=sanitize_text(due.message.name or due.message.role),
            time=f"{from_micros(due.sent_at):%A, %Y-%m-%d %H:%M} UTC",
        )
        for number, due in enumerate(messages, 1)
    ]
    return [SystemMessage("\n\n".join(instructions)), HumanMessage("\n\n".join(blocks))]


def parse_answer(reply: str, messages: Sequence[PendingMessage]) -> ExtractionAnswer:
    """Read the facts in a model's answer.

    Args:
        reply: The text of the answer.
        messages: The messages that the model was shown.
    """
    answer = strip_reasoning(reply)
    items, is_cut = _parse_items(answer), is_cut_off(answer)
    problems = ["It is cut off."] if is_cut else []
    if items is None or (is_cut and len(messages) > 1):  # the missing part may concern any of the messages
        problems = problems or ["It is empty." if not answer.strip() else "It holds no JSON object with facts."]
        items = []
    elif is_cut and not answer.rstrip("` \n").endswith(("}", "]")):
        items = items[:-1]
    facts: list[tuple[int, FactStatement]] = []
    for number, item in enumerate(items, 1):
        try:
            facts.append(_parse_fact(item, messages))
        except (InvalidInput, ValueError) as fault:
            problems.append(f"Fact {number}: {fault}")
    sourced = tuple((place, fact) for place, fact in facts if place >= 0)
    readable = not problems or bool(sourced)
    error = " ".join(problems if readable else ["The answer cannot be used:", *problems])
    return ExtractionAnswer(sourced, error, len(sourced) < len(facts), readable, reply)


def parse_period(start: Any, end: Any, now: int) -> tuple[int | None, int | None]:
    """Return the start and end that a model or a tool stated, in microseconds since 1970.

    A day, a month or a year means its beginning, so that a fact that ended on the day on which the next one began does
    not overlap it. A fact that began and ended in the same period lasted to the end of that period.

    Args:
        start: When it began.
        end: When it ended.
        now: The time that words such as "yesterday" refer to.

    Returns:
        Start and end; each is None if it is no time, see `parse_fact_time`.
    """
    started, ended = parse_fact_time(start, now), parse_fact_time(end, now)
    if started is not None and ended is not None and ended <= started:
        ended = parse_fact_time(end, now, last=True)
    return started, ended


def parse_fact_time(value: Any, now: int, *, last: bool = False) -> int | None:
    """Return the time that a model or a tool stated, in microseconds since 1970.

    Args:
        value: A date or a time, as ISO 8601 or in words, or a year. Any other value results in None.
        now: The time that words such as "yesterday" refer to.
        last: Return the end of a day, a month or a year. Default: its beginning.
    """
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    is_day = len(text) <= len("2024-01-01")
    with contextlib.suppress(InvalidInput, OverflowError):  # the time is in words
        return to_micros(parse_time(text) + timedelta(days=1 if last and is_day else 0))
    found = find_times(text, now)
    return None if not found else found[0].end if last else found[0].start


def _parse_items(answer: str) -> list[Any] | None:
    """Return the facts in an answer; None if it has no JSON.

    They are the list "facts" of an object, a list, or objects.
    """
    objects = read_objects(answer)
    items = next((each["facts"] for each in objects if isinstance(each.get("facts"), list)), None)
    if items is None:
        items = read_json(answer, wanted=list)
    return items if items is not None else objects or None


def _parse_fact(item: Any, messages: Sequence[PendingMessage]) -> tuple[int, FactStatement]:
    """Return a fact and the place of its message in `messages`; -1 if that is not known."""
    if not isinstance(item, Mapping):
        raise InvalidInput(f"it is no object with a subject, a predicate and an object: {safe_repr(item)}.")
    triple = ("subject", "predicate", "object")
    subject, predicate, obj = (parse_name(_as_text(item.get(part)), f"The {part}") for part in triple)
    number = str(item.get("message", "")).strip()
    place = int(number) - 1 if number.isdecimal() and 0 < int(number) <= len(messages) else -1
    place = 0 if len(messages) == 1 else place
    due = messages[max(place, 0)]
    start, end = parse_period(item.get("valid_from"), item.get("valid_to"), due.sent_at)
    if end is not None and end <= (EARLIEST if start is None else start):
        raise InvalidInput("it ends before it begins.")
    confidence, message = _parse_confidence(item.get("confidence")), due.message
    source = message.message_id, due.conversation, due.sent_at
    return place, FactStatement(message.role, subject, predicate, obj, start, end, confidence, *source)


def _as_text(value: Any) -> Any:
    """Return a number or a boolean as text, since models leave out the quotes."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _parse_confidence(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return min(1.0, max(0.0, number)) if math.isfinite(number) else None


# -- waiting messages --------------------------------------------------------------------------------------------------


def load_pending(facts: FactView, keys: Sequence[str] | None = None) -> list[PendingMessage]:
    """Return the messages that wait for extraction, in the order in which they came.

    The order can change which facts hold in the end.

    Args:
        facts: The view that is read.
        keys: Only messages with these keys. Default: all.
    """
    rows = (
        {version.key: version for version in facts.rows_of_kind(FACT_DUE)}
        if keys is None
        else facts.rows_by_key(FACT_DUE, keys)
    )
    texts = facts.rows_by_key(FACT_TEXT, rows)
    return [
        PendingMessage(
            key=text.key,
            message=fact_store.message_of(text),
            sent_at=text.created_at,
            conversation=fact_store.conversation_of(text),
            listed=text.label is None,
            attempts=rows[text.key].extra["attempts"],
            failed=rows[text.key].label == FAILED,
            retry_at=rows[text.key].extra.get("until") or 0,
        )
        for text in sorted(
            texts.values(), key=lambda version: version.number
        )  # a failure writes what is due, not the text
    ]


def load_due(
    facts: FactView, max_attempts: int, now: int, wanted: Callable[[PendingMessage], bool] = lambda _: True
) -> tuple[list[PendingMessage], int | None]:
    """Return the messages that a model may be asked about now, in their order.

    Parked messages come last. The others keep the order in which they came, since it can change which facts hold in
    the end.

    Args:
        facts: The view that is read.
        max_attempts: The number of attempts after which a message is parked.
        now: The current time.
        wanted: Selects among the messages that wait. Default: all.

    Returns:
        The messages, and the earliest time for the next of the others; None if there is no other.
    """
    pending = [due for due in load_pending(facts) if wanted(due)]
    last = memory_rows.load_newest(facts.tx, facts.view, FACT_FAILURE, limit=1)
    # A caller that wants only messages never asked about asks, even while the model is down.
    if last and (last[0].extra.get("until") or 0) > now and any(due.failed for due in pending):
        return [], last[0].extra["until"]
    ready = list(takewhile(lambda due: due.retry_at <= now, (due for due in pending if due.attempts < max_attempts)))
    ready += [due for due in pending if due.attempts >= max_attempts and due.retry_at <= now]
    return ready, min((due.retry_at for due in pending if due.retry_at > now), default=None)


def _first_batch(ready: Sequence[PendingMessage]) -> list[PendingMessage]:
    """Return the messages that a model is shown next.

    A message that failed is shown alone, so that it cannot spoil the answer for others.
    """
    batch: list[PendingMessage] = []
    size = 0
    for due in ready[:MAX_BATCH_MESSAGES]:
        length = min(len(due.message.text), MAX_BATCH_CHARS)
        if due.failed:
            return batch or [due]
        if batch and size + length > MAX_BATCH_CHARS:
            break
        batch.append(due)
        size += length
    return batch


def load_failures(facts: FactView, limit: int | None) -> list[ExtractionFailure]:
    """Return the extraction failures, the newest last."""
    return [
        ExtractionFailure(
            message_ids=tuple(event["id"] for event in version.extra["told"]),
            error=version.extra["error"],
            answer=version.extra["answer"],
            at=from_micros(version.created_at),
        )
        for version in memory_rows.load_newest(facts.tx, facts.view, FACT_FAILURE, limit=parse_limit(limit))
    ]


def _postpone(facts: FactChanges, due: PendingMessage, max_attempts: int, *, blamed: bool = True) -> None:
    """Postpone a message that a model was asked about in vain.

    The message is shown alone next time, and later if the failure is blamed on it.
    """
    attempts, pause = due.attempts, 0.0
    if blamed:
        attempts, pause = due.attempts + 1, backoff(due.attempts) if due.attempts + 1 < max_attempts else PARKED_PAUSE
    now = facts.change.now
    extra = {"told": _source_events([due], now), "attempts": attempts, "until": now + int(pause * 1_000_000)}
    facts.change.drafts.append(VersionDraft(FACT_DUE, due.key, b"", now, label=FAILED, extra=extra))


def _record_failure(
    facts: FactChanges, messages: Sequence[PendingMessage], error: str, answer: str, silent: int
) -> None:
    """Record a failure, and a pause if the model was silent (`silent` times in a row)."""
    now = facts.change.now
    extra = {
        "told": _source_events(messages, now),
        "rests_on_all": True,  # the answer may repeat any of them
        "error": error[:MAX_ANSWER_CHARS],
        "answer": answer[:MAX_ANSWER_CHARS],
        "silent": silent,
        "until": now + int(backoff(silent - 1, MAX_PAUSE) * 1_000_000) if silent else 0,
    }
    facts.change.drafts.append(VersionDraft(FACT_FAILURE, facts.new_id(), b"", now, extra=extra))
    old = facts.rows_of_kind(FACT_FAILURE)
    for version in old[: max(0, len(old) + 1 - MAX_FAILURES)]:
        facts.change.remove(FACT_FAILURE, version.key)


def _count_silence(facts: FactChanges, *, answered: bool) -> int:
    """Return how often in a row a model did not answer, this time included.

    An answer resets the count to 0.
    """
    newest = memory_rows.load_newest(facts.tx, facts.view, FACT_FAILURE, limit=1)
    silent = (newest[0].extra.get("silent") or 0) if newest else 0
    if answered and silent:
        extra = {**newest[0].extra, "silent": 0, "until": 0}
        facts.change.drafts.append(VersionDraft(FACT_FAILURE, newest[0].key, b"", newest[0].created_at, extra=extra))
    is_early = silent > 0 and newest[0].extra["until"] > facts.change.now  # a question during the pause does not count
    return 0 if answered else silent + (not is_early)


def _source_events(messages: Sequence[PendingMessage], now: int) -> list[dict[str, Any]]:
    """Return the events that make a row rest on messages."""
    return [
        fact_store.source_event(place, now, due.message.message_id, due.conversation)
        for place, due in enumerate(messages, 1)
    ]


# -- learning ----------------------------------------------------------------------------------------------------------


class BatchOutcome(NamedTuple):
    """The outcome of asking a model about a batch of messages.

    Attributes:
        message_count: The number of messages that no longer wait.
        fact_ids: The facts that were added or changed.
        fact_texts: The facts in the answer, as sentences.
        failure: Why the answer is missing or was not kept.
        silent: How often in a row the model was found to be down.
        lost_lease: Whether another process now has the right to extract.
    """

    message_count: int = 0
    fact_ids: Sequence[str] = ()
    fact_texts: Sequence[str] = ()
    failure: str | None = None
    silent: int = 0
    lost_lease: bool = False


def summarize(outcomes: Sequence[BatchOutcome]) -> dict[str, Any]:
    """Return the fields that a trace shows of some outcomes."""
    return {
        "read": sum(each.message_count for each in outcomes),
        "failed": any(each.failure is not None for each in outcomes),
        "fact_ids": list(dict.fromkeys(fact_id for each in outcomes for fact_id in each.fact_ids)),
    }


def extract_facts(
    context: FactsContext,
    model: Any,
    *,
    holds: Callable[[Transaction], bool] = lambda _: True,
    wanted: Callable[[PendingMessage], bool] = lambda _: True,
    patient: bool = False,
) -> list[BatchOutcome]:
    """Extract facts from waiting messages.

    Args:
        context: The memory.
        model: The model that extracts them, as `usable_model` returns it, but not None.
        holds: Returns whether the right to extract is still held, in the transaction that keeps the facts. Default: it
            is.
        wanted: Selects messages. Default: all.
        patient: Ask only about messages that are due now, and stop at a failure. Default: ask about all messages, again
            immediately after an unusable answer, until a message is parked; and stop when the model does not answer.
    """
    outcomes: list[BatchOutcome] = []
    max_attempts = context.settings.max_attempts
    parked: set[str] = set()
    ready: list[PendingMessage] = []

    def load_ready(facts: FactView) -> list[PendingMessage]:
        now = context.now() if patient else FOREVER
        return load_due(facts, max_attempts, now, lambda due: wanted(due) and due.key not in parked)[0]

    while True:
        ready = ready or context.read_facts(None, load_ready)
        if not ready:
            return outcomes
        batch = _first_batch(ready)
        outcome = _extract_batch(context, model, batch, holds)
        outcomes.append(outcome)
        is_last = batch[0].failed
        others = ready[len(batch) :]
        ready = others if outcome.message_count else []  # read the waiting messages again: their batches have changed
        if (
            outcome.silent
            and others
            and (outcome.silent >= max_attempts or batch[0].attempts or (is_last and not patient))
        ):
            is_last, suspects = True, batch
            batch = [others[outcome.silent % len(others)]]
            outcome = _extract_batch(context, model, batch, holds, suspects)
            outcomes.append(outcome)
        if outcome.lost_lease or (outcome.failure is not None and (patient or (outcome.silent and is_last))):
            return outcomes
        if outcome.failure is not None and not outcome.silent:
            parked |= {due.key for due in batch if due.attempts + 1 >= max_attempts}


def _extract_batch(
    context: FactsContext,
    model: Any,
    messages: Sequence[PendingMessage],
    holds: Callable[[Transaction], bool],
    suspects: Sequence[PendingMessage] = (),
) -> BatchOutcome:
    """Extract facts from some messages.

    If the model answers, its silence before is blamed on `suspects`.
    """
    answer = _ask_model(context, model, messages)

    def store_answer(facts: FactChanges) -> BatchOutcome:
        if not holds(facts.tx):
            return BatchOutcome(lost_lease=True)
        # A message changed meanwhile waits to be shown in its new form.
        asked = {due.key: (due.message, due.sent_at) for due in messages}
        unchanged = [due for due in load_pending(facts, list(asked)) if (due.message, due.sent_at) == asked[due.key]]
        facts.change.writer = SourceNote("model")
        max_attempts = context.settings.max_attempts
        error, text = answer.error, answer.text
        if len(unchanged) < len(messages):  # the answer may quote a removed message, so it is not kept
            error, text = "Some of the messages are gone meanwhile, so the answer is not kept.", ""
        silent = _count_silence(facts, answered=not answer.silent)
        for due in load_pending(facts, [] if silent else [due.key for due in suspects]):
            _postpone(facts, due, max_attempts)
        if unchanged and answer.error:
            _record_failure(facts, unchanged, error, text, silent)
        if not answer.readable or answer.unplaced:
            # A fact that names no message has no source. Messages shown one at a time need no names.
            for due in unchanged:
                _postpone(facts, due, max_attempts, blamed=not silent and not answer.readable)
            return BatchOutcome(failure=None if answer.readable else error, silent=silent)
        keys = {due.key for due in unchanged}
        learned = []
        for fact in [fact for place, fact in answer.facts if messages[place].key in keys]:
            redacted = fact._replace(subject=redact(fact.subject), object=redact(fact.object))
            facts.record_statement(redacted)
            learned.append(sentence(redacted.subject, redacted.predicate, redacted.object))
        for due in unchanged:
            facts.change.remove(FACT_DUE, due.key)
        return BatchOutcome(len(unchanged), list(facts.written), learned)

    return context.write_facts("facts.learn", store_answer, message_ids=[due.message.message_id for due in messages])


class _FailureLog(FirstFailures):
    """A log of extraction failures: one entry for each database and kind of failure."""


def _ask_model(context: FactsContext, model: Any, messages: Sequence[PendingMessage]) -> ExtractionAnswer:
    """Ask a model about some messages. An exception of the model counts as no answer."""
    predicates = context.read_facts(None, lambda facts: sorted(facts.rules.single))
    raised: Exception | None = None
    try:
        reply = ask_model(
            context.database,
            model,
            build_prompt(messages, context.settings, predicates),
            "facts.extract",
            context.settings.timeout,
            inputs=lambda: context.trace_inputs(said=[due.message for due in messages]),
        )
        answer = parse_answer(reply, messages)
    except Exception as error:  # after any exception of a model the messages keep waiting
        if is_graph_bubble_up(error):
            raise
        raised = error
        problem = f"The model gave no answer: {type(error).__name__}: {error}"
        answer = ExtractionAnswer(error=problem, readable=False, silent=True)
    if not answer.readable:
        reports = context.database.get_attachment(_FailureLog, partial(_FailureLog, logger))
        message = "No facts were extracted from %d messages, which wait to be tried again; see failures(). %s"
        source = "an answer" if raised is None else type(raised).__name__
        reports.report(source, message, len(messages), shorten_text(answer.error), error=raised)
    return answer
