"""Facts are learned: messages that wait are shown to a model, some at a time, and what it answers is kept.

One transaction keeps the facts of a batch and lets its messages wait no more. So whoever is interrupted, and whoever
else is at the same messages, can do no harm: what was kept is not waiting, and what waits was not kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_agentmem.base.redaction import redact
from langchain_agentmem.facts import fact_extraction, fact_traces, source_texts
from langchain_agentmem.facts.entity_names import entity_key, predicate_key
from langchain_agentmem.facts.fact import SINGLE_VALUED, Alias, FactsConfig
from langchain_agentmem.facts.fact_extraction import Answer
from langchain_agentmem.facts.fact_writes import Book, Statement, Turn
from langchain_agentmem.facts.predicate_rules import Rules, declared, named_alike, rules
from langchain_agentmem.facts.source_texts import Due, Failure
from langchain_agentmem.language_models.model_calls import Ask, Work
from langchain_agentmem.rewinding.memory_access import Change, Footing, changing, looking, whose
from langchain_agentmem.rewinding.memory_rows import View
from langchain_agentmem.storage import Steps
from langchain_agentmem.tracing import brief

logger = logging.getLogger(__name__)

_LAPSES = 2
"""After how many answers in a row that do not tell messages apart a model is shown one message at a time."""
_GONE = "The answer cannot be used. Some of the messages are gone meanwhile, so what it says is not kept."


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsGround(Footing):
    """What the facts of one memory stand on.

    Attributes:
        settings: How they are kept and learned.
    """

    settings: FactsConfig

    def clean(self, text: str) -> str:
        """A text without secrets."""
        return redact(text, self.settings.patterns)

    def rules(self, view: View) -> Steps[Rules]:
        """What is agreed on names."""
        return (yield from rules(view, self.settings.single_valued))

    def book(self, change: Change) -> Steps[Book]:
        """Where facts are changed."""
        agreed = yield from self.rules(change.view)
        # Whoever looks without these settings is to see the same, so what is unusual in them goes with the facts.
        usual = {predicate_key(name) for name in SINGLE_VALUED}
        for key in sorted((agreed.single ^ usual) - agreed.declared):
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
        self._structured = fact_extraction.structured(model)
        self.lapses = 0

    @property
    def names_messages(self) -> bool:
        """Whether it says which message a fact comes from, so that it can be shown several. It may err once."""
        return self.lapses < _LAPSES

    def heard(self, answer: Answer) -> None:
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


class _Kept(NamedTuple):
    """What a batch came to, and for a trace what was said in it, what was refused, and what went wrong."""

    learned: Learned
    turns: tuple[Turn, ...] = ()
    refused: tuple[str, ...] = ()
    failure: str | None = None

    def told(self) -> dict[str, Any]:
        failure = {} if self.failure is None else {"failure": brief(self.failure)}
        return {"read": self.learned.messages, **fact_traces.told(self.turns, self.refused), **failure}


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
    asked = fact_extraction.question(
        some,
        predicates=settings.predicates,
        single=sorted(agreed.single),
        instructions=settings.instructions,
        most=settings.batch_chars,
    )
    answer, failure, said = Answer(), None, ""
    try:
        reply = yield Ask(
            teacher.asked(some[0].attempts),
            asked,
            "facts.extract",
            settings.timeout,
            fact_extraction.reply_of,
            inputs=lambda: whose(ground, said=fact_traces.messages([due.message for due in some])),
        )
        said = str(reply)
        answer = fact_extraction.read(reply, some)
    except Exception as error:  # whatever a model raises, the messages go on waiting
        failure = Failure(f"The model gave no answer: {type(error).__name__}: {error}", "")
        logger.warning("No facts were extracted from %d messages; it will be tried again.", len(some), exc_info=True)
    if failure is None and not answer.readable:
        failure = Failure("The answer cannot be used: " + " ".join(answer.problems), said)
    if failure is None and len(some) > 1:
        teacher.heard(answer)
        if answer.unplaced:  # A fact that names no message has no source. Shown one at a time, none is needed.
            return Learned(0, failed=False, unplaced=True)

    def keep(change: Change) -> Steps[_Kept | None]:
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
            told = failure if whole else Failure(_GONE, "")
            given_up = bool(still) and (yield from source_texts.failed(book, still, told, settings.max_attempts))
            return _Kept(Learned(len(still) if given_up else 0, failed=True), failure=told.error)
        if answer.problems and still:
            told = Failure(" ".join(answer.problems), said) if whole else Failure(_GONE, "")
            source_texts.record(book, still, told, given_up=False)
        yield from _tell(ground, book, answer, [known.get(due.key) for due in some])
        for due in still:
            source_texts.done(book, due)
        changed = dict.fromkeys(turn.key for turn in book.turns if turn.changed)
        learned = Learned(len(still), failed=False, fact_ids=tuple(changed))
        return _Kept(learned, tuple(book.turns), answer.problems)

    kept: _Kept | None = yield from changing(
        ground,
        "facts.learn",
        keep,
        outputs=lambda kept: {"lost": True} if kept is None else kept.told(),
        message_ids=[due.message.message_id for due in some],
    )
    return None if kept is None else kept.learned


def _tell(ground: FactsGround, book: Book, answer: Answer, some: Sequence[Due | None]) -> Steps[None]:
    """Keep what a model answered about messages; those that are None wait no more."""
    now = book.change.now
    for fact in answer.facts:
        due = some[fact.message]
        if due is None:
            continue
        yield from book.tell(
            Statement(
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
