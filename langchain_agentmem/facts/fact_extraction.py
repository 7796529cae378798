"""Facts are extracted from messages that wait: the question to the model, how its answer is read, and what is kept.

The model is shown some messages, numbered, as data. Its answer is structured output where the model supports that, else
JSON in whatever it wrote. Anything that is no fact is noted as a problem, and the rest of the answer counts.

One transaction keeps the facts of a batch and ends the waiting of its messages. So neither an interruption nor another
process at work on the same messages does harm: what was kept waits no more, and what waits was not kept.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_agentmem.base.clock import EARLIEST, micros, moment
from langchain_agentmem.base.fencing import fenced, harmless
from langchain_agentmem.base.redaction import redact
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.facts import fact_store, source_texts
from langchain_agentmem.facts.fact import SINGLE_VALUED, Alias, FactsConfig, entity_key, name_of, predicate_key
from langchain_agentmem.facts.fact_events import Rules, declared, named_alike, rules_in
from langchain_agentmem.facts.fact_store import Book, FactStatement, SpokenTurn
from langchain_agentmem.facts.source_texts import Due, ExtractionTrouble
from langchain_agentmem.language_models.lenient_json import read_json, read_row
from langchain_agentmem.language_models.model_calls import Ask, Work
from langchain_agentmem.rewinding.memory_access import Change, Footing, changing, looking, whose
from langchain_agentmem.rewinding.memory_rows import View
from langchain_agentmem.search.dates import spans
from langchain_agentmem.storage import Steps
from langchain_agentmem.tracing import brief

_SUBJECT, _OBJECT = ("subject", "s", "source", "head", "entity"), ("object", "obj", "o", "target", "tail", "value")
_PREDICATE = ("predicate", "relation", "p", "rel", "relationship")
_NAMES = {
    "message": ("message", "message_number", "index", "source_message"),
    "start": ("valid_from", "from", "since", "start"),
    "end": ("valid_to", "to", "until", "end"),
    "sure": ("confidence", "score"),
}
_TRIPLE = 3
_PER_CENT = 100


class ToldFact(NamedTuple):
    """A fact as a model told it.

    Attributes:
        message: The place of the message among those it was shown.
        subject: What it is about.
        predicate: What it says.
        object: Of what.
        start: Since when, in microseconds since 1970, if it said so.
        end: Until when, if it said so.
        sure: How sure it is, from 0 to 1, if it said so.
    """

    message: int
    subject: str
    predicate: str
    object: str
    start: int | None
    end: int | None
    sure: float | None


class ExtractionAnswer(NamedTuple):
    """What a model answered.

    Attributes:
        facts: The facts in it.
        same: Pairs of names that it takes for one, each with its reason.
        problems: What of it cannot be used, in sentences.
        unplaced: Whether some facts do not say which message they come from.
        readable: Whether it is an answer at all.
    """

    facts: tuple[ToldFact, ...] = ()
    same: tuple[tuple[str, str, str], ...] = ()
    problems: tuple[str, ...] = ()
    unplaced: bool = False
    readable: bool = True


@cache
def asked_for() -> dict[str, Any]:
    """The instructions of the model, and the JSON schema of its answer."""
    import yaml  # noqa: PLC0415 - who extracts pays

    text = files(__package__).joinpath("extraction_prompt.yaml").read_text("utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def question(
    some: Sequence[Due], *, predicates: Sequence[str], single: Sequence[str], instructions: str, most: int
) -> list[BaseMessage]:
    """What a model is asked.

    Args:
        some: The messages that it is shown.
        predicates: The predicates that it is to use where they fit.
        single: Those that have one value at a time.
        instructions: What it is told besides.
        most: How many characters of a message it is shown.
    """
    told = [asked_for()["instructions"]]
    if predicates:
        told.append(f"Use these predicates where they fit: {', '.join(predicates)}.")
    if single:
        told.append(f"These have one value at a time, so a new one ends the old: {', '.join(single)}.")
    if instructions:
        told.append(instructions)
    shown = [
        fenced(
            "message",
            _clipped(harmless(due.message.text), most),
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
        return bind(asked_for()["schema"], include_raw=True)
    except (NotImplementedError, AttributeError, TypeError, ValueError, ImportError):
        return None


def reply_of(reply: Any) -> Any:
    """What of a model's reply its answer is read from: an object, or text."""
    if isinstance(reply, Mapping) and "raw" in reply and "parsed" in reply:
        raw, parsed = reply["raw"], reply["parsed"]
        several = isinstance(raw, AIMessage) and len(raw.tool_calls) > 1  # of which only the first is parsed
        return parsed if parsed is not None and not several else _text_of(raw)
    return _text_of(reply)


def read(reply: Any, some: Sequence[Due]) -> ExtractionAnswer:
    """What a model answered.

    Args:
        reply: An object, or text.
        some: The messages that it was shown.
    """
    given = _object(reply)
    if given is None:
        return ExtractionAnswer(problems=("It is neither an object with facts nor a list of them.",), readable=False)
    facts: list[ToldFact] = []
    problems: list[str] = []
    unplaced = False
    items = given["facts"]
    if _is_cut_off(reply):
        problems.append("It is cut off.")
        if len(some) > 1:  # nobody knows what else it would have said of which of them
            return ExtractionAnswer(problems=tuple(problems), readable=False)
        items = items if reply.rstrip("` \n").endswith(("}", "]")) else items[:-1]
    for number, item in enumerate(items, 1):
        try:
            fact = _fact(item, some)
        except (InvalidInput, ValueError) as error:
            problems.append(f"Fact {number}: {error}")
            continue
        if fact.message < 0:
            unplaced = True
            continue
        facts.append(fact)
    same = tuple(pair for item in _listed(given.get("same")) if (pair := _pair(item)) is not None)
    readable = not problems or bool(facts)
    return ExtractionAnswer(tuple(facts), same, tuple(problems), unplaced, readable)


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
    try:
        if not text.isdigit() or len(text) == len("20240101"):
            at = datetime.fromisoformat(text)
            whole_day = len(text) <= len("2024-01-01")
            if not (whole_day and last):
                return micros(at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC))
            text = f"{at:%Y-%m-%d}"
    except (ValueError, OverflowError):
        text = text.strip()  # in words, then
    found = spans(text, now)
    return None if not found else found[0].end if last else found[0].start


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} […]"


def _object(reply: Any) -> dict[str, Any] | None:
    """The object that an answer is: a list of facts, or one fact, stands for one that holds them."""
    if hasattr(reply, "model_dump"):
        reply = reply.model_dump()
    if isinstance(reply, str):
        reply = _parsed(reply)
    if isinstance(reply, list):
        return {"facts": reply}
    if not isinstance(reply, Mapping):
        return None
    if _is_fact(reply):
        return {"facts": [reply]}
    name = _facts_in(reply)
    if name is None:
        return None
    return {**reply, "facts": _listed(reply[name])}


def _parsed(text: str, *, complete: bool = False) -> Any:
    """What a model meant by a text."""
    reply = read_json(text, complete=complete)
    if not isinstance(reply, Mapping) or not (_facts_in(reply) or _is_fact(reply)):
        listed = read_json(text, wanted=list, complete=complete)
        return listed if listed is not None else reply
    if not _is_fact(reply):
        return reply
    several = read_json(text, wanted=list, complete=complete)
    if isinstance(several, list) and len(several) > 1:
        return several
    row = read_row(text, complete=complete)
    return row if len(row) > 1 else reply


def _is_cut_off(reply: Any) -> bool:
    """Whether a model stopped in the middle of what it meant."""
    return isinstance(reply, str) and repr(_parsed(reply, complete=True)) != repr(_parsed(reply))


def _facts_in(reply: Mapping[str, Any]) -> str | None:
    names = ("facts", "triplets", "triples", "relations", "relationships", "knowledge")
    return next((name for name in names if isinstance(reply.get(name), list)), None)


def _is_fact(item: Mapping[str, Any]) -> bool:
    return any(name in item for name in _SUBJECT) and any(name in item for name in _PREDICATE)


def _fact(item: Any, some: Sequence[Due]) -> ToldFact:
    if isinstance(item, list | tuple) and len(item) == _TRIPLE:
        item = dict(zip(("subject", "predicate", "object"), item, strict=True))
    if not isinstance(item, Mapping):
        raise InvalidInput(f"it is no object with a subject, a predicate and an object: {safe_repr(item)}.")
    subject = name_of(_spelled(_first(item, _SUBJECT)), "The subject")
    predicate = name_of(_spelled(_first(item, _PREDICATE)), "The predicate")
    obj = name_of(_spelled(_first(item, _OBJECT)), "The object")
    place = 0 if len(some) == 1 else _place(_first(item, _NAMES["message"]), len(some))
    now = some[max(place, 0)].said_at
    start, end = times_in(_first(item, _NAMES["start"]), _first(item, _NAMES["end"]), now)
    if end is not None and end <= (EARLIEST if start is None else start):
        raise InvalidInput("it ends before it begins.")
    return ToldFact(place, subject, predicate, obj, start, end, _sure(_first(item, _NAMES["sure"])))


def _pair(item: Any) -> tuple[str, str, str] | None:
    if not isinstance(item, Mapping):
        return None
    try:
        name, into = name_of(item.get("name"), "A name"), name_of(item.get("same_as"), "A name")
    except InvalidInput:
        return None
    why = item.get("why")
    return (name, into, why if isinstance(why, str) else "") if entity_key(name) != entity_key(into) else None


def _first(item: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((item[name] for name in names if item.get(name) is not None), None)


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
    try:
        sure = float(str(value).strip().rstrip("%"))
    except ValueError:
        return None
    if isinstance(value, str) and value.strip().endswith("%"):
        sure /= _PER_CENT
    return min(1.0, max(0.0, sure)) if math.isfinite(sure) else None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text_of(reply: Any) -> Any:
    if isinstance(reply, AIMessage):
        if len(reply.tool_calls) > 1:
            parts = [_object(call["args"]) or {"facts": [call["args"]]} for call in reply.tool_calls]
            return {name: [each for part in parts for each in _listed(part.get(name))] for name in ("facts", "same")}
        if reply.tool_calls:
            return reply.tool_calls[0]["args"]
        if reply.invalid_tool_calls:
            return reply.invalid_tool_calls[0]["args"] or ""
    if isinstance(reply, BaseMessage):
        return str(reply.text)
    if isinstance(reply, Mapping | list | str) or hasattr(reply, "model_dump"):
        return reply
    content = getattr(reply, "content", reply)
    return "" if content is None else str(content)


logger = logging.getLogger(__name__)

_USUAL = frozenset(predicate_key(name) for name in SINGLE_VALUED)
_LAPSES = 2
"""After how many answers in a row that do not tell messages apart a model is shown one message at a time."""
_GONE = "The answer cannot be used. Some of the messages are gone meanwhile, so what it says is not kept."


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsGround(Footing):
    """What the facts of one memory stand on.

    Attributes:
        settings: How they are kept and learned.
        description: The text with which the memory begins, if somebody gave one.
    """

    settings: FactsConfig
    description: str | None = None

    def clean(self, text: str) -> str:
        """A text without secrets."""
        return redact(text, self.settings.patterns)

    def rules(self, view: View) -> Steps[Rules]:
        """What is agreed on names."""
        return (yield from rules_in(view, self.settings.single_valued))

    def book(self, change: Change) -> Steps[Book]:
        """Where facts are changed."""
        agreed = yield from self.rules(change.view)
        # Whoever looks without these settings is to see the same, so what is unusual in them goes with the facts.
        for key in sorted((agreed.single ^ _USUAL) - agreed.declared):
            change.drafts.append(declared(key, single=key in agreed.single, now=change.now))
        return Book(change=change, agreed=agreed, new_id=self.database.new_id)


class Teacher:
    """A model that is asked for facts, and what it turned out to know.

    Attributes:
        model: The model.
        lapses: How many answers in a row left out, or got wrong, which message some fact comes from.

    Args:
        model: Whatever `usable_model` gives, but None.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self._structured = structured(model)
        self.lapses = 0

    @property
    def names_messages(self) -> bool:
        """Whether it says which message a fact comes from, so that it can be shown several. It may err once."""
        return self.lapses < _LAPSES

    def heard(self, answer: ExtractionAnswer) -> None:
        """Note whether it told several messages apart."""
        if not answer.unplaced:
            self.lapses = 0
        else:
            self.lapses = self.lapses + 1 if answer.facts else _LAPSES

    def asked(self, attempts: int) -> Any:
        """What is asked: with the form of the answer, if it knows such a thing; and if that failed, without."""
        return self._structured if self._structured is not None and attempts == 0 else self.model


class Learned(NamedTuple):
    """What a round of learning came to.

    Attributes:
        messages: How many messages wait no more.
        failed: Whether a model could not be asked, or its answer could not be used.
        lost: Whether somebody else has the right to extract by now.
        unplaced: Whether the messages are to be shown one at a time, since the answer did not tell them apart.
        fact_ids: The facts that were added, or of which more is known.
    """

    messages: int
    failed: bool
    lost: bool = False
    unplaced: bool = False
    fact_ids: tuple[str, ...] = ()

    def told(self) -> dict[str, Any]:
        """What a trace shows of it."""
        return {"read": self.messages, "failed": self.failed, "fact_ids": list(dict.fromkeys(self.fact_ids))}


class _BatchOutcome(NamedTuple):
    """What a batch came to, and for a trace what was said in it, what was refused, and what went wrong."""

    learned: Learned
    turns: tuple[SpokenTurn, ...] = ()
    refused: tuple[str, ...] = ()
    failure: str | None = None

    def told(self) -> dict[str, Any]:
        failure = {} if self.failure is None else {"failure": brief(self.failure)}
        return {"read": self.learned.messages, **fact_store.turns_shown(self.turns, self.refused), **failure}


def learning(
    ground: FactsGround,
    teacher: Teacher,
    *,
    holds: Callable[[], Steps[bool]] | None = None,
    only: Sequence[str] | None = None,
    wanted: Callable[[Due], bool] = lambda _: True,
    patient: bool = False,
) -> Work[Learned]:
    """Have facts extracted from what waits.

    Args:
        ground: The memory.
        teacher: Who extracts them.
        holds: Whether the right to do so is still held; asked in the transaction that keeps them. Default: it is.
        only: Only these messages, by their ids. Default: all.
        wanted: Which of them. Default: all.
        patient: Whether to stop when something fails, and come again later. Default: try again at once.

    Returns:
        How many messages wait no more, given up or not.
    """
    count, failed = 0, False
    fact_ids: list[str] = []
    alone: set[str] = set()
    while True:
        waits: list[Due] = yield from looking(
            ground, "facts.due", lambda view: source_texts.waiting(view, only), shown=False
        )
        progress = False
        here = [due for due in waits if wanted(due)]
        for some in _batches(here, ground.settings, alone=None if not teacher.names_messages else alone):
            outcome = yield from _batch(ground, teacher, some, holds)
            if outcome is None:  # somebody else has the right now
                return Learned(count, failed, lost=True, fact_ids=tuple(fact_ids))
            progress = True
            count += outcome.messages
            failed = failed or outcome.failed
            fact_ids += outcome.fact_ids
            if outcome.failed and patient:
                return Learned(count, failed, fact_ids=tuple(fact_ids))
            if outcome.unplaced:
                alone.update(due.key for due in some)
            if outcome.failed or outcome.unplaced:
                break  # what waits is shown in other batches from now on, and what failed comes before what follows it
        if not progress:
            return Learned(count, failed, fact_ids=tuple(fact_ids))


def _batch(
    ground: FactsGround, teacher: Teacher, some: Sequence[Due], holds: Callable[[], Steps[bool]] | None
) -> Work[Learned | None]:
    settings = ground.settings
    agreed: Rules = yield from looking(ground, "facts.rules", ground.rules, shown=False)
    asked = question(
        some,
        predicates=settings.predicates,
        single=sorted(agreed.single),
        instructions=settings.instructions,
        most=settings.batch_chars,
    )
    answer, failure, said = ExtractionAnswer(), None, ""
    try:
        reply = yield Ask(
            teacher.asked(some[0].attempts),
            asked,
            "facts.extract",
            settings.timeout,
            reply_of,
            inputs=lambda: whose(ground, said=fact_store.messages_shown([due.message for due in some])),
        )
        said = str(reply)
        answer = read(reply, some)
    except Exception as error:  # whatever a model raises, the messages go on waiting
        failure = ExtractionTrouble(f"The model gave no answer: {type(error).__name__}: {error}", "")
        logger.warning("No facts were extracted from %d messages; it will be tried again.", len(some), exc_info=True)
    if failure is None and not answer.readable:
        failure = ExtractionTrouble("The answer cannot be used: " + " ".join(answer.problems), said)
    if failure is None and len(some) > 1:
        teacher.heard(answer)
        if answer.unplaced:  # A fact that names no message has no source. Shown one at a time, none is needed.
            return Learned(0, failed=False, unplaced=True)

    def keep(change: Change) -> Steps[_BatchOutcome | None]:
        if holds is not None and not (yield from holds()):
            return None
        # What was changed meanwhile waits to be shown as it is now.
        asked_of = {due.key: due.shown for due in some}
        still = [
            due
            for due in (yield from source_texts.waiting(change.view, list(asked_of)))
            if due.shown == asked_of[due.key]
        ]
        known = {due.key: due for due in still}
        book = yield from ground.book(change)
        whole = len(still) == len(some)  # else the answer may quote what is gone by now, and is not kept
        if failure is not None:
            told = failure if whole else ExtractionTrouble(_GONE, "")
            given_up = bool(still) and (yield from source_texts.failed(book, still, told, settings.max_attempts))
            return _BatchOutcome(Learned(len(still) if given_up else 0, failed=True), failure=told.error)
        if answer.problems and still:
            told = ExtractionTrouble(" ".join(answer.problems), said) if whole else ExtractionTrouble(_GONE, "")
            source_texts.record(book, still, told, given_up=False)
        yield from _tell(ground, book, answer, [known.get(due.key) for due in some])
        for due in still:
            source_texts.done(book, due)
        changed = dict.fromkeys(turn.key for turn in book.turns if turn.changed)
        learned = Learned(len(still), failed=False, fact_ids=tuple(changed))
        return _BatchOutcome(learned, tuple(book.turns), answer.problems)

    kept: _BatchOutcome | None = yield from changing(
        ground,
        "facts.learn",
        keep,
        outputs=lambda kept: {"lost": True} if kept is None else kept.told(),
        message_ids=[due.message.message_id for due in some],
    )
    return None if kept is None else kept.learned


def _tell(ground: FactsGround, book: Book, answer: ExtractionAnswer, some: Sequence[Due | None]) -> Steps[None]:
    """Keep what a model answered about messages; those that are None wait no more."""
    now = book.change.now
    for fact in answer.facts:
        due = some[fact.message]
        if due is None:
            continue
        yield from book.tell(
            FactStatement(
                role=due.message.role,
                subject=ground.clean(fact.subject),
                predicate=fact.predicate,
                object=ground.clean(fact.object),
                start=fact.start,
                end=fact.end,
                sure=fact.sure,
                message=due.message.message_id,
                conversation=due.conversation,
                said_at=due.said_at,
            )
        )
    there = [due for due in some if due is not None]
    for name, into, why in answer.same if len(there) == len(some) else ():
        if entity_key(name) not in book.agreed.aliases:
            alias = Alias(name=name, into=into, merged=False, why=why)
            book.change.drafts.append(named_alike(alias, now, told=source_texts.resting_on(there, now)))


def _batches(waits: Sequence[Due], settings: FactsConfig, *, alone: Collection[str] | None) -> Iterator[list[Due]]:
    """What waits, some at a time. What failed is tried alone, so that one message cannot spoil it for others.

    Args:
        waits: What waits.
        settings: How many at a time.
        alone: The keys of what is to be shown alone as well; None: all.
    """
    some: list[Due] = []
    size = 0
    for due in waits:
        length = min(len(due.message.text), settings.batch_chars)
        single = alone is None or due.attempts > 0 or due.key in alone
        full = len(some) >= settings.batch_messages or size + length > settings.batch_chars
        if some and (single or full):
            yield some
            some, size = [], 0
        some.append(due)
        size += length
        if single:
            yield some
            some, size = [], 0
    if some:
        yield some
