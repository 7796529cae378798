"""Facts are extracted from messages that wait: the question to the model, how its answer is read, and what is kept.

The model is shown some messages, numbered, as data. Its answer is structured output where the model supports that, else
JSON in whatever it wrote. Anything that is no fact is noted as a problem, and the rest of the answer counts.

One transaction keeps the facts of a batch and ends the waiting of its messages. So neither an interruption nor another
process at work on the same messages does harm: what was kept waits no more, and what waits was not kept.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_agentmem.base.clock import EARLIEST, micros, moment
from langchain_agentmem.base.events import FirstFailures
from langchain_agentmem.base.fencing import fenced, harmless
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput, leaves_the_node
from langchain_agentmem.facts import source_texts
from langchain_agentmem.facts.fact import Alias, FactsConfig, data_file, entity_key, name_of
from langchain_agentmem.facts.fact_events import named_alike
from langchain_agentmem.facts.fact_store import Book, FactStatement, FactView, SpokenTurn
from langchain_agentmem.facts.source_texts import Due, ExtractionTrouble
from langchain_agentmem.language_models.lenient_json import read_json, read_row, strip_reasoning
from langchain_agentmem.language_models.model_calls import Writer, ask
from langchain_agentmem.language_models.summarization import is_refusal
from langchain_agentmem.rewinding.memory_access import Change, MemorySession
from langchain_agentmem.rewinding.memory_rows import DUE, FOREVER
from langchain_agentmem.search.dates import spans
from langchain_agentmem.storage import Transaction
from langchain_agentmem.tracing import brief

_NAMES = {
    "subject": ("subject", "s", "source", "head", "entity"),
    "predicate": ("predicate", "relation", "p", "rel", "relationship"),
    "object": ("object", "obj", "o", "target", "tail", "value"),
    "message": ("message", "message_number", "index", "source_message"),
    "start": ("valid_from", "from", "since", "start"),
    "end": ("valid_to", "to", "until", "end"),
    "sure": ("confidence", "score"),
    "facts": ("facts", "triplets", "triples", "relations", "relationships", "knowledge"),
}
"""What models call the parts of an answer."""
_TRIPLE = ("subject", "predicate", "object")
BATCH_MESSAGES, BATCH_CHARS = 8, 12_000
"""Most messages that one call of a model is shown, and most characters of them: a longer one is shown alone, and
clipped."""
_GONE = "The answer cannot be used. Some of the messages are gone meanwhile, so what it says is not kept."

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ExtractionAnswer(NamedTuple):
    """What a model answered.

    Attributes:
        facts: The facts in it, each with the place of its message among those that the model was shown.
        same: Pairs of names that it takes for one, each with its reason.
        problems: What of it cannot be used, in sentences.
        unplaced: Whether some facts do not say which message they come from.
        readable: Whether it is an answer at all.
    """

    facts: tuple[tuple[int, FactStatement], ...] = ()
    same: tuple[tuple[str, str, str], ...] = ()
    problems: tuple[str, ...] = ()
    unplaced: bool = False
    readable: bool = True


def question(some: Sequence[Due], settings: FactsConfig, single: Sequence[str]) -> list[BaseMessage]:
    """What a model is asked.

    Args:
        some: The messages that it is shown.
        settings: What it is told besides.
        single: The predicates that have one value at a time.
    """
    told = [data_file("extraction_prompt.yaml")["instructions"]]
    if single:
        told.append(f"These have one value at a time, so a new one ends the old: {', '.join(single)}.")
    if settings.instructions:
        told.append(settings.instructions)
    shown = [
        fenced(
            "message",
            _clipped(harmless(due.message.text), BATCH_CHARS),
            number=number,
            speaker=harmless(due.message.name or due.message.role),
            time=f"{moment(due.said_at):%A, %Y-%m-%d %H:%M} UTC",
        )
        for number, due in enumerate(some, 1)
    ]
    return [SystemMessage("\n\n".join(told)), HumanMessage("\n\n".join(shown))]


def structured(model: Any) -> Any | None:
    """The model so that its answer has the form of `extraction_prompt.yaml`; None if it knows no such thing."""
    bind = getattr(model, "with_structured_output", None)
    if bind is None:
        return None
    try:
        return bind(data_file("extraction_prompt.yaml")["schema"], include_raw=True)
    except (NotImplementedError, AttributeError, TypeError, ValueError, ImportError):
        return None


def reply_of(reply: Any) -> Any:
    """What of a model's reply its answer is read from: an object, a list of them, or text. A refusal is an object."""
    if isinstance(reply, Mapping) and "raw" in reply and "parsed" in reply:
        raw, parsed = reply["raw"], reply["parsed"]
        several = isinstance(raw, AIMessage) and len(raw.tool_calls) > 1  # of which only the first is parsed
        # A parser may have taken what stands in the reasoning.
        thought = isinstance(raw, AIMessage) and not raw.tool_calls and strip_reasoning(raw.text) != raw.text
        reply = raw if parsed is None or several or thought else parsed
    if isinstance(reply, AIMessage) and reply.tool_calls:
        return [call["args"] for call in reply.tool_calls]
    if isinstance(reply, AIMessage) and reply.invalid_tool_calls:
        return reply.invalid_tool_calls[0]["args"] or ""
    if isinstance(reply, BaseMessage):
        blocks = reply.content if isinstance(reply.content, list) else []
        refusals = [block.get("refusal") for block in blocks if isinstance(block, Mapping)]
        refusal = next(filter(None, [reply.additional_kwargs.get("refusal"), *refusals]), None)
        return {"refusal": refusal} if refusal else str(reply.text)
    if isinstance(reply, Mapping | list | str) or hasattr(reply, "model_dump"):
        return reply
    content = getattr(reply, "content", reply)
    return "" if content is None else str(content)


def read(reply: Any, some: Sequence[Due]) -> ExtractionAnswer:
    """What a model answered.

    Args:
        reply: What `reply_of` gave.
        some: The messages that it was shown.
    """
    reply = strip_reasoning(reply) if isinstance(reply, str) else reply
    given = _parts(reply)
    is_cut = isinstance(reply, str) and repr(_parsed(reply, complete=True)) != repr(_parsed(reply))
    if given is None:
        return ExtractionAnswer(problems=("It is cut off." if is_cut else _unlike(reply),), readable=False)
    problems = ["It is cut off."] if is_cut else []
    if is_cut and len(some) > 1:  # nobody knows what else it would have said of which of them
        return ExtractionAnswer(problems=tuple(problems), readable=False)
    items, same = given
    if is_cut and not reply.rstrip("` \n").endswith(("}", "]")):
        items = items[:-1]
    facts: list[tuple[int, FactStatement]] = []
    for number, item in enumerate(items, 1):
        try:
            facts.append(_fact(item, some))
        except (InvalidInput, ValueError) as error:
            problems.append(f"Fact {number}: {error}")
    placed = tuple((place, fact) for place, fact in facts if place >= 0)
    pairs = tuple(pair for item in same if (pair := _pair(item)) is not None)
    return ExtractionAnswer(placed, pairs, tuple(problems), len(placed) < len(facts), not problems or bool(placed))


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
    if isinstance(value, bool) or not isinstance(value, str | int) or not (text := str(value).strip()):
        return None
    with contextlib.suppress(ValueError, OverflowError):  # it is in words, then
        if not text.isdigit() or len(text) == len("20240101"):
            at = datetime.fromisoformat(text)
            if not (last and len(text) <= len("2024-01-01")):  # a whole day
                return micros(at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC))
            text = f"{at:%Y-%m-%d}"
    found = spans(text, now)
    return None if not found else found[0].end if last else found[0].start


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} […]"


def _parts(reply: Any) -> tuple[list[Any], list[Any]] | None:
    """The facts and the pairs of names in an answer; None if it is none.

    One fact, a list of facts and a list of answers are answers, too.
    """
    if hasattr(reply, "model_dump"):
        reply = reply.model_dump()
    if isinstance(reply, str):
        reply = _parsed(reply)
    facts, same = list[Any](), list[Any]()
    for part in reply if isinstance(reply, list) else [reply]:
        if isinstance(part, Mapping) and isinstance(_first(part, "facts"), list):
            facts += _first(part, "facts")
            same += part["same"] if isinstance(part.get("same"), list) else []
        elif isinstance(reply, list) or _is_fact(part):
            facts.append(part)
        else:
            return None
    return facts, same


def _unlike(reply: Any) -> str:
    """What a reply is that holds no facts."""
    if isinstance(reply, str) and not reply.strip():
        return "It is empty."
    if is_refusal(reply.strip()) if isinstance(reply, str) else isinstance(reply, Mapping) and reply.get("refusal"):
        return "It is a refusal."
    if isinstance(reply, str) and not {"{", "["} & set(reply):
        return "It is prose, and no JSON object."
    return "It is neither an object with facts nor a list of them."


def _parsed(text: str, *, complete: bool = False) -> Any:
    """What a model meant by a text."""
    reply = read_json(text, complete=complete)
    if isinstance(reply, Mapping) and isinstance(_first(reply, "facts"), list):
        return reply
    listed = read_json(text, wanted=list, complete=complete)
    if not _is_fact(reply):
        return reply if listed is None else listed
    return max([reply], listed or [], read_row(text, complete=complete), key=len)


def _is_fact(item: Any) -> bool:
    return isinstance(item, Mapping) and all(any(name in item for name in _NAMES[part]) for part in _TRIPLE[:2])


def _fact(item: Any, some: Sequence[Due]) -> tuple[int, FactStatement]:
    """A fact, and the place of the message that says so; -1 if that is not known."""
    if isinstance(item, list | tuple) and len(item) == len(_TRIPLE):
        item = dict(zip(_TRIPLE, item, strict=True))
    if not isinstance(item, Mapping):
        raise InvalidInput(f"it is no object with a subject, a predicate and an object: {safe_repr(item)}.")
    subject, predicate, obj = (name_of(_spelled(_first(item, part)), f"The {part}") for part in _TRIPLE)
    place = 0 if len(some) == 1 else _place(_first(item, "message"), len(some))
    due = some[max(place, 0)]
    start, end = times_in(_first(item, "start"), _first(item, "end"), due.said_at)
    if end is not None and end <= (EARLIEST if start is None else start):
        raise InvalidInput("it ends before it begins.")
    sure, message = _sure(_first(item, "sure")), due.message
    source = message.message_id, due.conversation, due.said_at
    return place, FactStatement(message.role, subject, predicate, obj, start, end, sure, *source)


def _pair(item: Any) -> tuple[str, str, str] | None:
    if not isinstance(item, Mapping):
        return None
    try:
        name, into = name_of(item.get("name"), "A name"), name_of(item.get("same_as"), "A name")
    except InvalidInput:
        return None
    why = item.get("why")
    return (name, into, why if isinstance(why, str) else "") if entity_key(name) != entity_key(into) else None


def _first(item: Mapping[str, Any], part: str) -> Any:
    return next((item[name] for name in _NAMES[part] if item.get(name) is not None), None)


def _spelled(value: Any) -> Any:
    """A number or a truth as text: models leave out the quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _place(value: Any, count: int) -> int:
    """The place of the message that a model names by its number; -1 if it names none."""
    try:
        number = int(str(value).strip().lstrip("#"))
    except ValueError:
        return -1
    return number - 1 if 1 <= number <= count else -1


def _sure(value: Any) -> float | None:
    text = str(value).strip()
    try:
        sure = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return min(1.0, max(0.0, sure)) if math.isfinite(sure) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsGround(MemorySession):
    """What the facts of one memory stand on.

    Attributes:
        settings: How they are kept and learned.
        description: The text with which the memory begins, if somebody gave one.
    """

    settings: FactsConfig
    description: str | None = None

    def look(self, name: str | None, find: Callable[[FactView], T], **inputs: Any) -> T:
        """`read`, given the facts that the memory shows."""
        return self.read(name, lambda tx, view: find(FactView(tx, view)), **inputs)

    def edit(self, name: str | None, make: Callable[[Book], T], **inputs: Any) -> T:
        """`write`, given where facts are changed."""
        return self.write(name, lambda tx, change: make(self.book(tx, change)), **inputs)

    def book(self, tx: Transaction, change: Change) -> Book:
        """Where facts are changed."""
        facts = FactView(tx, change.view)
        return Book(facts=facts, change=change, path=self.point.path, new_id=self.database.new_id)


@dataclass(slots=True)
class Learned:
    """What learning came to.

    Attributes:
        messages: How many messages wait no more.
        failed: Whether a model gave no answer, or one that could not be used.
        lost: Whether somebody else has the right to extract by now.
        fact_ids: The facts that were added, or of which more is known.
    """

    messages: int = 0
    failed: bool = False
    lost: bool = False
    fact_ids: dict[str, None] = field(default_factory=dict)

    def told(self) -> dict[str, Any]:
        """What a trace shows of it."""
        return {"read": self.messages, "failed": self.failed, "fact_ids": list(self.fact_ids)}


class _BatchOutcome(NamedTuple):
    """What a batch came to: how many messages wait no more, what was said, what was refused, and what went wrong.

    `silent` says how often in a row the model was found to be down, `lost` that somebody else may extract by now.
    """

    read: int
    turns: Sequence[SpokenTurn] = ()
    refused: Sequence[str] = ()
    failure: ExtractionTrouble | None = None
    silent: int = 0
    lost: bool = False


def learn(
    ground: FactsGround,
    model: Any,
    *,
    learned: Learned | None = None,
    holds: Callable[[Transaction], bool] | None = None,
    wanted: Callable[[Due], bool] = lambda _: True,
    patient: bool = False,
) -> Learned:
    """Have facts extracted from what waits.

    Args:
        ground: The memory.
        model: Who extracts them: whatever `usable_model` gives, but None.
        learned: What was learned before, to which more is added. Default: nothing.
        holds: Whether the right to do so is still held; asked in the transaction that keeps them. Default: it is.
        wanted: From which messages. Default: all.
        patient: Whether to ask only about what may be asked about now, and to stop when something fails. Default: ask
            about everything, again at once where an answer cannot be used, until it is parked; and stop when the model
            gives no answer.
    """
    learned = Learned() if learned is None else learned
    most = ground.settings.max_attempts
    alone: set[str] = set()
    parked: set[str] = set()
    while True:
        waits = ground.look(None, source_texts.waiting)
        here = [due for due in waits if wanted(due) and due.key not in parked]
        ready, _ = source_texts.in_time(here, most, ground.now() if patient else FOREVER)
        for some in _batches(ready, alone):
            outcome = _batch(ground, model, some, holds, alone)
            is_last = some[0].failed
            in_doubt = outcome.silent >= most or some[0].attempts > 0 or (is_last and not patient)
            others = [due for due in ready if due not in some] if outcome.silent and in_doubt else []
            if others:
                learned.failed = is_last = True
                probe = others[outcome.silent % len(others)]
                outcome = _batch(ground, model, [probe], holds, alone, keeps=False)
            if outcome.lost:
                learned.lost = True
                return learned
            learned.messages += outcome.read
            learned.fact_ids |= {turn.fact_id: None for turn in outcome.turns if turn.operation != "known"}
            if outcome.failure is not None:
                learned.failed = True
                if patient or (outcome.silent and is_last):
                    return learned
                if not outcome.silent and not others:
                    parked |= {due.key for due in some if due.attempts + 1 >= most}
            if others or not outcome.read:
                break  # what waits is shown in other batches from now on, and what failed comes before what follows it
        if not ready:
            return learned


def _batch(
    ground: FactsGround,
    model: Any,
    some: Sequence[Due],
    holds: Callable[[Transaction], bool] | None,
    alone: set[str],
    *,
    keeps: bool = True,
) -> _BatchOutcome:
    """Have facts extracted from some messages; or, where nothing is kept of it, see whether the model answers."""
    answer, said, failure = _asked(ground, model, some)
    if failure is None and answer.unplaced and keeps:
        # A fact that names no message has no source. Shown one at a time, none is needed.
        alone.update(due.key for due in some)
        return _BatchOutcome(0)

    def keep(book: Book) -> _BatchOutcome:
        if holds is not None and not holds(book.facts.tx):
            return _BatchOutcome(0, lost=True)
        # What was changed meanwhile waits to be shown as it is now.
        shown = {due.key: due.shown for due in some}
        still = [due for due in source_texts.waiting(book.facts, list(shown)) if due.shown == shown[due.key]]
        book.change.writer = Writer("model")
        most = ground.settings.max_attempts
        told = ExtractionTrouble(" ".join(answer.problems), said) if failure is None else failure
        if len(still) < len(some):  # the answer may quote what is gone by now, and is not kept
            told = told._replace(error=_GONE, answer="")
        if failure is not None:
            silent = source_texts.failed(book, still, told, most) if still else 0
            return _BatchOutcome(0, failure=told, silent=silent)
        source_texts.answered(book, some, most)
        if not keeps:
            return _BatchOutcome(0)
        if answer.problems and still:
            source_texts.record(book, still, told)
        turns = _tell(book, answer, some, still)
        for due in still:
            book.change.remove(DUE, due.key)
        return _BatchOutcome(len(still), turns, answer.problems)

    return ground.edit("facts.learn", keep, message_ids=[due.message.message_id for due in some])


class _Reports(FirstFailures):
    """What goes wrong with extraction, told in the log once for each database and each way to fail."""


def _asked(
    ground: FactsGround, model: Any, some: Sequence[Due]
) -> tuple[ExtractionAnswer, str, ExtractionTrouble | None]:
    """What a model answers about some messages, in its words too, and what went wrong."""
    single = ground.look(None, lambda facts: sorted(facts.rules.single))
    try:
        reply = ask(
            ground.database,
            model if some[0].failed else structured(model) or model,  # what failed is asked without a form
            question(some, ground.settings, single),
            "facts.extract",
            ground.settings.timeout,
            reply_of,
            inputs=lambda: ground.trace_inputs(said=[due.message for due in some]),
        )
        answer = read(reply, some)
        source, raised = "".join(answer.problems[:1]), None
        trouble = ExtractionTrouble("The answer cannot be used: " + " ".join(answer.problems), str(reply))
    except Exception as error:  # whatever a model raises, the messages go on waiting
        if leaves_the_node(error):
            raise
        answer, source, raised = ExtractionAnswer(readable=False), type(error).__name__, error
        trouble = ExtractionTrouble(f"The model gave no answer: {source}: {error}", "", silent=True)
    if answer.readable:
        return answer, str(reply), None
    reports = ground.database.attached(_Reports, partial(_Reports, logger))
    message = "No facts were extracted from %d messages, which wait to be tried again; see failures(). %s"
    reports.report(source, message, len(some), brief(trouble.error), error=raised)
    return answer, trouble.answer, trouble


def _tell(book: Book, answer: ExtractionAnswer, asked: Sequence[Due], still: Sequence[Due]) -> list[SpokenTurn]:
    """Keep what a model answered about messages, of which some still wait."""
    keys = {due.key for due in still}
    turns = [
        book.tell(fact._replace(subject=redact(fact.subject), object=redact(fact.object)))
        for place, fact in answer.facts
        if asked[place].key in keys
    ]
    for name, into, why in answer.same if len(still) == len(asked) else ():
        if entity_key(name) not in book.facts.rules.aliases:
            now = book.change.now
            alias = Alias(name=name, into=into, merged=False, why=why)
            book.change.drafts.append(named_alike(alias, now, told=source_texts.resting_on(still, now)))
    return turns


def _batches(waits: Sequence[Due], alone: Collection[str]) -> Iterator[list[Due]]:
    """What waits, some at a time. What failed is tried alone, so that one message cannot spoil it for others.

    Args:
        waits: What waits.
        alone: The keys of what is to be shown alone as well.
    """
    some: list[Due] = []
    size = 0
    for due in waits:
        length = min(len(due.message.text), BATCH_CHARS)
        single = due.failed or due.key in alone
        full = len(some) >= BATCH_MESSAGES or size + length > BATCH_CHARS
        if some and (single or full):
            yield some
            some, size = [], 0
        some.append(due)
        size = BATCH_CHARS if single else size + length
    if some:
        yield some
