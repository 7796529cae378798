"""Facts are extracted from messages that wait: the question to the model, how its answer is read, and what is kept.

The model is shown some messages, numbered, as data, and answers with JSON. Anything that is no fact is noted as a
problem, and the rest of the answer counts.

One transaction keeps the facts of a batch and ends the waiting of its messages. So neither an interruption nor another
process at work on the same messages does harm: what was kept waits no more, and what waits was not kept.

What a model fails at goes on waiting. Where it answers nonsense about a message, it is asked again after a second,
then after two, then the message is *parked*: others go before it, and it is asked about once a day. Where there is no
answer at all, the model is taken to be down, and nothing is asked for a time that doubles, up to ten minutes: an outage
uses nothing up, and changes no order. A message may be the reason, so after some questions in vain another one is asked
about as well. If that is answered, it counts as nonsense about the first.
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
"""How many failures are remembered."""
LONGEST_ANSWER = 2_000
LONGEST_SILENCE = 600.0
"""Seconds between two questions to a model that gives no answers."""
PARKED = 86_400.0
"""Seconds between two questions about a message of which a model made nonsense again and again."""
FAILED = "failed"
"""The label of what waits and was asked about in vain."""

logger = logging.getLogger(__name__)


class PendingMessage(NamedTuple):
    """A message that waits.

    Attributes:
        key: The key under which it is kept.
        message: It.
        said_at: When it was said, in microseconds since 1970.
        conversation: The conversation or thread that it belongs to, if it is known.
        listed: Whether it is shown and found beside the facts.
        attempts: How often a model failed at it, and not at others.
        failed: Whether it was asked about in vain.
        until: Before when it is not asked about unless somebody wants it now.
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
        error: Why it cannot be used, or which of its facts cannot; "" if all of it can.
        unplaced: Whether some facts do not say which message they come from.
        readable: Whether it is an answer at all.
        text: The text of the answer.
        silent: Whether the model gave none.
    """

    facts: tuple[tuple[int, FactStatement], ...] = ()
    error: str = ""
    unplaced: bool = False
    readable: bool = True
    text: str = ""
    silent: bool = False


# -- the question, and its answer --------------------------------------------------------------------------------------


def question(some: Sequence[PendingMessage], settings: FactsConfig, single: Sequence[str]) -> list[BaseMessage]:
    """What a model is asked.

    Args:
        some: The messages that it is shown.
        settings: What it is told besides.
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
        some: The messages that it was shown.
    """
    answer = strip_reasoning(reply)
    items, is_cut = _items(answer), is_cut_off(answer)
    problems = ["It is cut off."] if is_cut else []
    if items is None or (is_cut and len(some) > 1):  # nobody knows what else it would have said of which of them
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
    """When something began and ended, as a model or a tool means it.

    A day, a month or a year means its beginning, so that what ended on the day on which the next thing began does not
    last beside that. What began and ended in one of them lasted to its end.

    Args:
        start: When it began.
        end: When it ended.
        now: The time that words such as "yesterday" are meant from.

    Returns:
        Both; what is none of these, see `time_in`, is None.
    """
    begun, ended = time_in(start, now), time_in(end, now)
    if begun is not None and ended is not None and ended <= begun:
        ended = time_in(end, now, last=True)
    return begun, ended


def time_in(value: Any, now: int, *, last: bool = False) -> int | None:
    """The time that a model or a tool means.

    Args:
        value: A date or a time, as ISO 8601 or in words, or a year; whatever else is none.
        now: The time that words such as "yesterday" are meant from.
        last: Whether, of a day, a month or a year, its end is meant.
    """
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    is_day = len(text) <= len("2024-01-01")
    with contextlib.suppress(InvalidInput, OverflowError):  # it is in words, then
        return micros(time_written(text) + timedelta(days=1 if last and is_day else 0))
    found = spans(text, now)
    return None if not found else found[0].end if last else found[0].start


def _items(answer: str) -> list[Any] | None:
    """Return the facts in an answer: those of its object "facts", its list, or its objects; None if it has no JSON."""
    objects = read_row(answer)
    listed = next((each["facts"] for each in objects if isinstance(each.get("facts"), list)), None)
    if listed is None:
        listed = read_json(answer, wanted=list)
    return listed if listed is not None else objects or None


def _fact(item: Any, some: Sequence[PendingMessage]) -> tuple[int, FactStatement]:
    """A fact, and the place of the message that says so; -1 if that is not known."""
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
    """A number or a truth as text: models leave out the quotes."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _sure(value: Any) -> float | None:
    try:
        sure = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return min(1.0, max(0.0, sure)) if math.isfinite(sure) else None


# -- what waits --------------------------------------------------------------------------------------------------------


def waiting(facts: FactView, keys: Sequence[str] | None = None) -> list[PendingMessage]:
    """The messages that wait, in the order in which they came: it can matter for what holds in the end.

    Args:
        facts: From where.
        keys: Only these. Default: all.
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
    """Which messages may be asked about, and in which order.

    Those that are parked come last. Of the others none goes before one that was said earlier: it can matter for what
    holds in the end.

    Args:
        facts: From where.
        most: After how many attempts a message is parked.
        now: When.
        wanted: Only these of the messages that wait. Default: all.

    Returns:
        They, and when the next of the others may be asked about; None where there is none.
    """
    waits = [due for due in waiting(facts) if wanted(due)]
    last = memory_rows.newest(facts.tx, facts.view, FAILURE, limit=1)
    # Whoever wants just what was never asked about asks for it, however long the model has been down.
    if last and (last[0].extra.get("until") or 0) > now and any(due.failed for due in waits):
        return [], last[0].extra["until"]
    ready = list(takewhile(lambda due: due.until <= now, (due for due in waits if due.attempts < most)))
    ready += [due for due in waits if due.attempts >= most and due.until <= now]
    return ready, min((due.until for due in waits if due.until > now), default=None)


def _first_batch(ready: Sequence[PendingMessage]) -> list[PendingMessage]:
    """The messages that a model is shown next. What failed is tried alone, so that it cannot spoil it for others."""
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
    """What went wrong, the newest last."""
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
    """A model was asked about a message in vain. It is asked about alone next, and later if it is to blame for that."""
    attempts, pause = due.attempts, 0.0
    if blamed:
        attempts, pause = due.attempts + 1, backoff(due.attempts) if due.attempts + 1 < most else PARKED
    now = facts.change.now
    extra = {"told": _resting_on([due], now), "attempts": attempts, "until": now + int(pause * 1_000_000)}
    facts.change.drafts.append(VersionDraft(DUE, due.key, b"", now, label=FAILED, extra=extra))


def _record(facts: FactChanges, some: Sequence[PendingMessage], error: str, answer: str, silent: int) -> None:
    """Note what went wrong, and how often in a row the model gave no answer: it is left alone for a while then."""
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
    """Return how often in a row a model gave no answer, this time included. One that answers is not down any more."""
    last = memory_rows.newest(facts.tx, facts.view, FAILURE, limit=1)
    silent = (last[0].extra.get("silent") or 0) if last else 0
    if answered and silent:
        extra = {**last[0].extra, "silent": 0, "until": 0}
        facts.change.drafts.append(VersionDraft(FAILURE, last[0].key, b"", last[0].created_at, extra=extra))
    is_early = silent > 0 and last[0].extra["until"] > facts.change.now  # who does not wait learns nothing new
    return 0 if answered else silent + (not is_early)


def _resting_on(some: Sequence[PendingMessage], now: int) -> list[dict[str, Any]]:
    """The events by which a row rests on messages."""
    return [
        fact_store.said_event(place, now, due.message.message_id, due.conversation) for place, due in enumerate(some, 1)
    ]


# -- learning ----------------------------------------------------------------------------------------------------------


class BatchOutcome(NamedTuple):
    """What a model was asked about some messages, and what came of it.

    Attributes:
        read: How many messages wait no more.
        fact_ids: The facts that were added or changed.
        learned: What the model said of them, as sentences.
        failure: Why the answer was not kept, or that there was none.
        silent: How often in a row the model was found to be down.
        lost: Whether somebody else has the right to extract by now.
    """

    read: int = 0
    fact_ids: Sequence[str] = ()
    learned: Sequence[str] = ()
    failure: str | None = None
    silent: int = 0
    lost: bool = False


def summary(outcomes: Sequence[BatchOutcome]) -> dict[str, Any]:
    """What a trace shows of what was learned."""
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
    """Have facts extracted from what waits.

    Args:
        ground: The memory.
        model: Who extracts them: whatever `usable_model` gives, but None.
        holds: Whether the right to do so is still held; asked in the transaction that keeps them. Default: it is.
        wanted: From which messages. Default: all.
        patient: Whether to ask only about what may be asked about now, and to stop when something fails. Default: ask
            about everything, again at once where an answer cannot be used, until it is parked; and stop when the model
            gives no answer.
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
        ready = others if outcome.read else []  # what waits is read again: it is shown in other batches from now on
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
    """Have facts extracted from some messages. If the model answers, it is `suspects` that it was silent about."""
    answer = _asked(ground, model, some)

    def keep(facts: FactChanges) -> BatchOutcome:
        if not holds(facts.tx):
            return BatchOutcome(lost=True)
        # What was changed meanwhile waits to be shown as it is now.
        shown = {due.key: (due.message, due.said_at) for due in some}
        still = [due for due in waiting(facts, list(shown)) if (due.message, due.said_at) == shown[due.key]]
        facts.change.writer = SourceNote("model")
        most = ground.settings.max_attempts
        error, text = answer.error, answer.text
        if len(still) < len(some):  # the answer may quote what is gone by now, and is not kept
            error, text = "Some of the messages are gone meanwhile, so the answer is not kept.", ""
        silent = _silence(facts, answered=not answer.silent)
        for due in waiting(facts, [] if silent else [due.key for due in suspects]):
            _postpone(facts, due, most)
        if still and answer.error:
            _record(facts, still, error, text, silent)
        if not answer.readable or answer.unplaced:
            # A fact that names no message has no source. Shown one at a time, none is needed.
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
    """What goes wrong with extraction, told in the log once for each database and each way to fail."""


def _asked(ground: FactsContext, model: Any, some: Sequence[PendingMessage]) -> ExtractionAnswer:
    """What a model answers about some messages; that there was no answer, where it raised something."""
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
    except Exception as error:  # whatever a model raises, the messages go on waiting
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
