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

from langchain_agentmem.base.argument_checks import limit_given
from langchain_agentmem.base.clock import EARLIEST, micros, moment, time_written
from langchain_agentmem.base.data_tables import data_table
from langchain_agentmem.base.events import FirstFailures
from langchain_agentmem.base.fencing import fenced, harmless
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.errors import InvalidInput, leaves_the_node, safe_repr
from langchain_agentmem.facts import fact_store
from langchain_agentmem.facts.fact import ExtractionFailure, FactsConfig, name_of, sentence
from langchain_agentmem.facts.fact_store import FactChanges, FactsContext, FactStatement, FactView
from langchain_agentmem.language_models.lenient_json import is_cut_off, read_json, read_row, strip_reasoning
from langchain_agentmem.language_models.model_calls import SourceNote, ask
from langchain_agentmem.language_models.tool_factory import passage
from langchain_agentmem.messages.message import Message
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import DUE, FAILURE, FOREVER, TEXT, VersionDraft
from langchain_agentmem.search.dates import spans
from langchain_agentmem.storage import Transaction
from langchain_agentmem.storage.background import backoff
from langchain_agentmem.tracing import brief

BATCH_MESSAGES, BATCH_CHARS = 8, 12_000
"""Most messages that one call of a model is shown, and most characters of them: a longer one is shown alone, and
clipped."""
KEPT_FAILURES = 100
"""The number of failures that are kept."""
LONGEST_ANSWER = 2_000
LONGEST_SILENCE = 600.0
"""Most seconds between two questions to a model that does not answer."""
PARKED = 86_400.0
"""Seconds between two questions about a parked message."""
FAILED = "failed"
"""The label of a waiting message that a model was asked about in vain."""

logger = logging.getLogger(__name__)


class PendingMessage(NamedTuple):
    """A message that waits for extraction.

    Attributes:
        key: The key under which it is kept.
        message: The message.
        said_at: When it was said, in microseconds since 1970.
        conversation: The conversation or thread that it belongs to, if it is known.
        listed: Whether it is shown and found together with the facts.
        attempts: The number of failures that were blamed on it.
        failed: Whether a model was asked about it in vain.
        until: The earliest time of the next question about it, unless a caller wants it now.
    """

    key: str
    message: Message
    said_at: int
    conversation: str | None
    listed: bool = True
    attempts: int = 0
    failed: bool = False
    until: int = 0


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


def question(some: Sequence[PendingMessage], settings: FactsConfig, single: Sequence[str]) -> list[BaseMessage]:
    """Return the prompt that asks a model for facts.

    Args:
        some: The messages that the model is shown.
        settings: Their `instructions` are added.
        single: The predicates that have one value at a time.
    """
    told = [data_table("facts/extraction_prompt.yaml")["instructions"]]
    if single:
        told.append(f"These have one value at a time, so a new one ends the old: {', '.join(single)}.")
    if settings.instructions:
        told.append(settings.instructions)
    shown = [
        fenced(
            "message",
            passage(harmless(due.message.text), most=BATCH_CHARS),
            number=number,
            speaker=harmless(due.message.name or due.message.role),
            time=f"{moment(due.said_at):%A, %Y-%m-%d %H:%M} UTC",
        )
        for number, due in enumerate(some, 1)
    ]
    return [SystemMessage("\n\n".join(told)), HumanMessage("\n\n".join(shown))]


def read(reply: str, some: Sequence[PendingMessage]) -> ExtractionAnswer:
    """Read the facts in a model's answer.

    Args:
        reply: The text of the answer.
        some: The messages that the model was shown.
    """
    answer = strip_reasoning(reply)
    items, is_cut = _items(answer), is_cut_off(answer)
    problems = ["It is cut off."] if is_cut else []
    if items is None or (is_cut and len(some) > 1):  # the missing part may concern any of the messages
        problems = problems or ["It is empty." if not answer.strip() else "It holds no JSON object with facts."]
        items = []
    elif is_cut and not answer.rstrip("` \n").endswith(("}", "]")):
        items = items[:-1]
    facts: list[tuple[int, FactStatement]] = []
    for number, item in enumerate(items, 1):
        try:
            facts.append(_fact(item, some))
        except (InvalidInput, ValueError) as fault:
            problems.append(f"Fact {number}: {fault}")
    placed = tuple((place, fact) for place, fact in facts if place >= 0)
    readable = not problems or bool(placed)
    error = " ".join(problems if readable else ["The answer cannot be used:", *problems])
    return ExtractionAnswer(placed, error, len(placed) < len(facts), readable, reply)


def times_in(start: Any, end: Any, now: int) -> tuple[int | None, int | None]:
    """Return the start and end that a model or a tool stated, in microseconds since 1970.

    A day, a month or a year means its beginning, so that a fact that ended on the day on which the next one began does
    not overlap it. A fact that began and ended in the same period lasted to the end of that period.

    Args:
        start: When it began.
        end: When it ended.
        now: The time that words such as "yesterday" refer to.

    Returns:
        Start and end; each is None if it is no time, see `time_in`.
    """
    begun, ended = time_in(start, now), time_in(end, now)
    if begun is not None and ended is not None and ended <= begun:
        ended = time_in(end, now, last=True)
    return begun, ended


def time_in(value: Any, now: int, *, last: bool = False) -> int | None:
    """Return the time that a model or a tool stated, in microseconds since 1970.

    Args:
        value: A date or a time, as ISO 8601 or in words, or a year. Any other value results in None.
        now: The time that words such as "yesterday" refer to.
        last: Return the end of a day, a month or a year. Default: its beginning.
    """
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    is_day = len(text) <= len("2024-01-01")
    with contextlib.suppress(InvalidInput, OverflowError):  # the time is in words
        return micros(time_written(text) + timedelta(days=1 if last and is_day else 0))
    found = spans(text, now)
    return None if not found else found[0].end if last else found[0].start


def _items(answer: str) -> list[Any] | None:
    """Return the facts in an answer; None if it has no JSON.

    They are the list "facts" of an object, a list, or objects.
    """
    objects = read_row(answer)
    listed = next((each["facts"] for each in objects if isinstance(each.get("facts"), list)), None)
    if listed is None:
        listed = read_json(answer, wanted=list)
    return listed if listed is not None else objects or None


def _fact(item: Any, some: Sequence[PendingMessage]) -> tuple[int, FactStatement]:
    """Return a fact and the place of its message in `some`; -1 if that is not known."""
    if not isinstance(item, Mapping):
        raise InvalidInput(f"it is no object with a subject, a predicate and an object: {safe_repr(item)}.")
    triple = ("subject", "predicate", "object")
    subject, predicate, obj = (name_of(_spelled(item.get(part)), f"The {part}") for part in triple)
    number = str(item.get("message", "")).strip()
    place = int(number) - 1 if number.isdecimal() and 0 < int(number) <= len(some) else -1
    place = 0 if len(some) == 1 else place
    due = some[max(place, 0)]
    start, end = times_in(item.get("valid_from"), item.get("valid_to"), due.said_at)
    if end is not None and end <= (EARLIEST if start is None else start):
        raise InvalidInput("it ends before it begins.")
    sure, message = _sure(item.get("confidence")), due.message
    source = message.message_id, due.conversation, due.said_at
    return place, FactStatement(message.role, subject, predicate, obj, start, end, sure, *source)


def _spelled(value: Any) -> Any:
    """Return a number or a boolean as text, since models leave out the quotes."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _sure(value: Any) -> float | None:
    try:
        sure = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return min(1.0, max(0.0, sure)) if math.isfinite(sure) else None


# -- waiting messages --------------------------------------------------------------------------------------------------


def waiting(facts: FactView, keys: Sequence[str] | None = None) -> list[PendingMessage]:
    """Return the messages that wait for extraction, in the order in which they came.

    The order can change which facts hold in the end.

    Args:
        facts: The view that is read.
        keys: Only messages with these keys. Default: all.
    """
    rows = {kept.key: kept for kept in facts.every(DUE)} if keys is None else facts.named(DUE, keys)
    texts = facts.named(TEXT, rows)
    return [
        PendingMessage(
            key=text.key,
            message=fact_store.message_of(text),
            said_at=text.created_at,
            conversation=fact_store.conversation_of(text),
            listed=text.label is None,
            attempts=rows[text.key].extra["attempts"],
            failed=rows[text.key].label == FAILED,
            until=rows[text.key].extra.get("until") or 0,
        )
        for text in sorted(texts.values(), key=lambda kept: kept.number)  # a failure writes what is due, not the text
    ]


def in_time(
    facts: FactView, most: int, now: int, wanted: Callable[[PendingMessage], bool] = lambda _: True
) -> tuple[list[PendingMessage], int | None]:
    """Return the messages that a model may be asked about now, in their order.

    Parked messages come last. The others keep the order in which they came, since it can change which facts hold in
    the end.

    Args:
        facts: The view that is read.
        most: The number of attempts after which a message is parked.
        now: The current time.
        wanted: Selects among the messages that wait. Default: all.

    Returns:
        The messages, and the earliest time for the next of the others; None if there is no other.
    """
    waits = [due for due in waiting(facts) if wanted(due)]
    last = memory_rows.newest(facts.tx, facts.view, FAILURE, limit=1)
    # A caller that wants only messages never asked about asks, even while the model is down.
    if last and (last[0].extra.get("until") or 0) > now and any(due.failed for due in waits):
        return [], last[0].extra["until"]
    ready = list(takewhile(lambda due: due.until <= now, (due for due in waits if due.attempts < most)))
    ready += [due for due in waits if due.attempts >= most and due.until <= now]
    return ready, min((due.until for due in waits if due.until > now), default=None)


def _first_batch(ready: Sequence[PendingMessage]) -> list[PendingMessage]:
    """Return the messages that a model is shown next.

    A message that failed is shown alone, so that it cannot spoil the answer for others.
    """
    some: list[PendingMessage] = []
    size = 0
    for due in ready[:BATCH_MESSAGES]:
        length = min(len(due.message.text), BATCH_CHARS)
        if due.failed:
            return some or [due]
        if some and size + length > BATCH_CHARS:
            break
        some.append(due)
        size += length
    return some


def failures(facts: FactView, limit: int | None) -> list[ExtractionFailure]:
    """Return the extraction failures, the newest last."""
    return [
        ExtractionFailure(
            message_ids=tuple(event["id"] for event in kept.extra["told"]),
            error=kept.extra["error"],
            answer=kept.extra["answer"],
            at=moment(kept.created_at),
        )
        for kept in memory_rows.newest(facts.tx, facts.view, FAILURE, limit=limit_given(limit))
    ]


def _postpone(facts: FactChanges, due: PendingMessage, most: int, *, blamed: bool = True) -> None:
    """Postpone a message that a model was asked about in vain.

    The message is shown alone next time, and later if the failure is blamed on it.
    """
    attempts, pause = due.attempts, 0.0
    if blamed:
        attempts, pause = due.attempts + 1, backoff(due.attempts) if due.attempts + 1 < most else PARKED
    now = facts.change.now
    extra = {"told": _resting_on([due], now), "attempts": attempts, "until": now + int(pause * 1_000_000)}
    facts.change.drafts.append(VersionDraft(DUE, due.key, b"", now, label=FAILED, extra=extra))


def _record(facts: FactChanges, some: Sequence[PendingMessage], error: str, answer: str, silent: int) -> None:
    """Record a failure, and a pause if the model was silent (`silent` times in a row)."""
    now = facts.change.now
    extra = {
        "told": _resting_on(some, now),
        "rests_on_all": True,  # the answer may repeat any of them
        "error": error[:LONGEST_ANSWER],
        "answer": answer[:LONGEST_ANSWER],
        "silent": silent,
        "until": now + int(backoff(silent - 1, LONGEST_SILENCE) * 1_000_000) if silent else 0,
    }
    facts.change.drafts.append(VersionDraft(FAILURE, facts.new_id(), b"", now, extra=extra))
    old = facts.every(FAILURE)
    for kept in old[: max(0, len(old) + 1 - KEPT_FAILURES)]:
        facts.change.remove(FAILURE, kept.key)


def _silence(facts: FactChanges, *, answered: bool) -> int:
    """Return how often in a row a model did not answer, this time included.

    An answer resets the count to 0.
    """
    last = memory_rows.newest(facts.tx, facts.view, FAILURE, limit=1)
    silent = (last[0].extra.get("silent") or 0) if last else 0
    if answered and silent:
        extra = {**last[0].extra, "silent": 0, "until": 0}
        facts.change.drafts.append(VersionDraft(FAILURE, last[0].key, b"", last[0].created_at, extra=extra))
    is_early = silent > 0 and last[0].extra["until"] > facts.change.now  # a question during the pause does not count
    return 0 if answered else silent + (not is_early)


def _resting_on(some: Sequence[PendingMessage], now: int) -> list[dict[str, Any]]:
    """Return the events that make a row rest on messages."""
    return [
        fact_store.said_event(place, now, due.message.message_id, due.conversation) for place, due in enumerate(some, 1)
    ]


# -- learning ----------------------------------------------------------------------------------------------------------


class BatchOutcome(NamedTuple):
    """The outcome of asking a model about a batch of messages.

    Attributes:
        read: The number of messages that no longer wait.
        fact_ids: The facts that were added or changed.
        learned: The facts in the answer, as sentences.
        failure: Why the answer is missing or was not kept.
        silent: How often in a row the model was found to be down.
        lost: Whether another process now has the right to extract.
    """

    read: int = 0
    fact_ids: Sequence[str] = ()
    learned: Sequence[str] = ()
    failure: str | None = None
    silent: int = 0
    lost: bool = False


def summary(outcomes: Sequence[BatchOutcome]) -> dict[str, Any]:
    """Return the fields that a trace shows of some outcomes."""
    return {
        "read": sum(each.read for each in outcomes),
        "failed": any(each.failure is not None for each in outcomes),
        "fact_ids": list(dict.fromkeys(fact_id for each in outcomes for fact_id in each.fact_ids)),
    }


def learn(
    ground: FactsContext,
    model: Any,
    *,
    holds: Callable[[Transaction], bool] = lambda _: True,
    wanted: Callable[[PendingMessage], bool] = lambda _: True,
    patient: bool = False,
) -> list[BatchOutcome]:
    """Extract facts from waiting messages.

    Args:
        ground: The memory.
        model: The model that extracts them, as `usable_model` returns it, but not None.
        holds: Returns whether the right to extract is still held, in the transaction that keeps the facts. Default: it
            is.
        wanted: Selects messages. Default: all.
        patient: Ask only about messages that are due now, and stop at a failure. Default: ask about all messages, again
            immediately after an unusable answer, until a message is parked; and stop when the model does not answer.
    """
    outcomes: list[BatchOutcome] = []
    most = ground.settings.max_attempts
    parked: set[str] = set()
    ready: list[PendingMessage] = []

    def look(facts: FactView) -> list[PendingMessage]:
        now = ground.now() if patient else FOREVER
        return in_time(facts, most, now, lambda due: wanted(due) and due.key not in parked)[0]

    while True:
        ready = ready or ground.look(None, look)
        if not ready:
            return outcomes
        some = _first_batch(ready)
        outcome = _batch(ground, model, some, holds)
        outcomes.append(outcome)
        is_last = some[0].failed
        others = ready[len(some) :]
        ready = others if outcome.read else []  # read the waiting messages again: their batches have changed
        if outcome.silent and others and (outcome.silent >= most or some[0].attempts or (is_last and not patient)):
            is_last, suspects = True, some
            some = [others[outcome.silent % len(others)]]
            outcome = _batch(ground, model, some, holds, suspects)
            outcomes.append(outcome)
        if outcome.lost or (outcome.failure is not None and (patient or (outcome.silent and is_last))):
            return outcomes
        if outcome.failure is not None and not outcome.silent:
            parked |= {due.key for due in some if due.attempts + 1 >= most}


def _batch(
    ground: FactsContext,
    model: Any,
    some: Sequence[PendingMessage],
    holds: Callable[[Transaction], bool],
    suspects: Sequence[PendingMessage] = (),
) -> BatchOutcome:
    """Extract facts from some messages.

    If the model answers, its silence before is blamed on `suspects`.
    """
    answer = _asked(ground, model, some)

    def keep(facts: FactChanges) -> BatchOutcome:
        if not holds(facts.tx):
            return BatchOutcome(lost=True)
        # A message changed meanwhile waits to be shown in its new form.
        shown = {due.key: (due.message, due.said_at) for due in some}
        still = [due for due in waiting(facts, list(shown)) if (due.message, due.said_at) == shown[due.key]]
        facts.change.writer = SourceNote("model")
        most = ground.settings.max_attempts
        error, text = answer.error, answer.text
        if len(still) < len(some):  # the answer may quote a removed message, so it is not kept
            error, text = "Some of the messages are gone meanwhile, so the answer is not kept.", ""
        silent = _silence(facts, answered=not answer.silent)
        for due in waiting(facts, [] if silent else [due.key for due in suspects]):
            _postpone(facts, due, most)
        if still and answer.error:
            _record(facts, still, error, text, silent)
        if not answer.readable or answer.unplaced:
            # A fact that names no message has no source. Messages shown one at a time need no names.
            for due in still:
                _postpone(facts, due, most, blamed=not silent and not answer.readable)
            return BatchOutcome(failure=None if answer.readable else error, silent=silent)
        keys = {due.key for due in still}
        learned = []
        for fact in [fact for place, fact in answer.facts if some[place].key in keys]:
            told = fact._replace(subject=redact(fact.subject), object=redact(fact.object))
            facts.tell(told)
            learned.append(sentence(told.subject, told.predicate, told.object))
        for due in still:
            facts.change.remove(DUE, due.key)
        return BatchOutcome(len(still), list(facts.written), learned)

    return ground.edit("facts.learn", keep, message_ids=[due.message.message_id for due in some])


class _FailureLog(FirstFailures):
    """A log of extraction failures: one entry for each database and kind of failure."""


def _asked(ground: FactsContext, model: Any, some: Sequence[PendingMessage]) -> ExtractionAnswer:
    """Ask a model about some messages. An exception of the model counts as no answer."""
    single = ground.look(None, lambda facts: sorted(facts.rules.single))
    raised: Exception | None = None
    try:
        reply = ask(
            ground.database,
            model,
            question(some, ground.settings, single),
            "facts.extract",
            ground.settings.timeout,
            inputs=lambda: ground.trace_inputs(said=[due.message for due in some]),
        )
        answer = read(reply, some)
    except Exception as error:  # after any exception of a model the messages keep waiting
        if leaves_the_node(error):
            raise
        raised = error
        problem = f"The model gave no answer: {type(error).__name__}: {error}"
        answer = ExtractionAnswer(error=problem, readable=False, silent=True)
    if not answer.readable:
        reports = ground.database.attached(_FailureLog, partial(_FailureLog, logger))
        message = "No facts were extracted from %d messages, which wait to be tried again; see failures(). %s"
        source = "an answer" if raised is None else type(raised).__name__
        reports.report(source, message, len(some), brief(answer.error), error=raised)
    return answer
