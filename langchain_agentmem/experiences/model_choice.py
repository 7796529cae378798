"""Which experiences apply: by the words of their conditions, or by a model that is shown the conditions.

A model is asked about all candidates ("model"), or only about those of which the words leave it open ("auto"). Where it
fails, or says nothing that can be understood, the words decide.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langchain_agentmem.base import forks
from langchain_agentmem.experiences.answers import Reading, selected
from langchain_agentmem.experiences.experience import Experience
from langchain_agentmem.experiences.experience_rows import Tally
from langchain_agentmem.experiences.lexical_choice import THRESHOLD, UNSURE, Judged, judged
from langchain_agentmem.experiences.sections import section
from langchain_agentmem.experiences.selection_template import SelectionTemplate
from langchain_agentmem.language_models.model_calls import Ask, Work
from langchain_agentmem.storage.queries import digest
from langchain_agentmem.tracing import brief

Strategy: TypeAlias = Literal["lexical", "model", "auto"]
STRATEGIES = ("lexical", "model", "auto")

FEEDBACK = 0.25
"""How much of its score an experience gains or loses at most by what is said of its help."""
LONGEST_ANSWER = 100_000
"""Characters of a model's answer that are read."""
_DOUBT = 4
"""How many reports it takes until they count half."""
_REMEMBERED = 256
"""How many answers of a model are remembered."""
_CONTEXT = "\n\nConversation Context:\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Which experiences apply to a query.

    Attributes:
        query: The query.
        role: The role that asks; None for nobody in particular.
        experiences: Those that apply, the best first.
        candidates: The ids of those that were considered.
        scores: How well the words of each candidate's condition fit, from 0 to 1, feedback included.
        reasons: Why each was chosen, by id.
        strategy: "lexical", "model" or "auto".
        asked: The ids of those that a model was asked about.
        fell_back: Why the words had to decide, in a sentence; "" where they did not have to.
    """

    query: str
    role: str | None = None
    experiences: tuple[Experience, ...] = ()
    candidates: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    reasons: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    strategy: Strategy = "lexical"
    asked: tuple[str, ...] = ()
    fell_back: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of those that apply, the best first."""
        return tuple(each.exp_id for each in self.experiences)

    @property
    def section(self) -> str:
        """What they say, as a section of a prompt; "" where none applies."""
        return section(self.experiences)


class Wanted(NamedTuple):
    """What a selection is made for.

    Attributes:
        query: What was asked.
        role: Who asks.
        context: How it went so far, see `situation.py`.
    """

    query: str
    role: str | None
    context: str


class Failure(NamedTuple):
    """Why a model was of no use."""

    reason: str
    error: BaseException | None = None


class Chooser:
    """Chooses among experiences. May be used from any thread.

    Args:
        strategy: How.
        model: Who is asked; None for "lexical".
        template: What it is asked.
        max_selected: Most that are chosen; None for all that apply.
        threshold: The score from which the words decide that one applies.
        timeout: Seconds to wait for the model; None for ever.
    """

    def __init__(
        self,
        strategy: Strategy,
        model: Any,
        template: SelectionTemplate,
        *,
        max_selected: int | None = None,
        threshold: float = THRESHOLD,
        timeout: float | None = None,
    ) -> None:
        self.strategy = strategy
        self._model = model
        self._template = template
        self._most = max_selected
        self._threshold = threshold
        self._timeout = timeout
        self._known = _Remembered()

    def choosing(
        self,
        wanted: Wanted,
        candidates: Sequence[Experience],
        tallies: Mapping[str, Tally],
        *,
        log: Callable[[Sequence[BaseMessage]], Work[None]],
        failed: Callable[[Failure], None],
    ) -> Work[Selection]:
        """Choose.

        Args:
            wanted: For what.
            candidates: Among which: those that the role may be given.
            tallies: How each has fared.
            log: Is given what a model is asked.
            failed: Is told why a model was of no use.
        """
        found = judged(wanted.query, wanted.context, [each.when for each in candidates])
        scores = {
            each.exp_id: weighed(said.score, tallies.get(each.exp_id))
            for each, said in zip(candidates, found, strict=True)
        }
        applies = {exp_id for exp_id, score in scores.items() if score >= self._threshold}
        reasons = {each.exp_id: by_words(said) for each, said in zip(candidates, found, strict=True)}
        open_ones = [each for each in candidates if self._is_open(scores[each.exp_id])]
        failure = None
        if open_ones:
            reading = yield from self._asking(wanted, open_ones, log)
            if isinstance(reading, Failure):
                failure = reading
                failed(failure)
            else:
                applies = (applies - {each.exp_id for each in open_ones}) | set(reading.chosen)
                reasons |= {each: reading.reasons.get(each, "the model chose it") for each in reading.chosen}
        chosen = sorted(
            (each for each in candidates if each.exp_id in applies),
            key=lambda each: (scores[each.exp_id], help_of(tallies.get(each.exp_id))),
            reverse=True,  # sorted keeps the order of the library among equals, also in reverse
        )[: self._most]
        return Selection(
            query=wanted.query,
            role=wanted.role,
            experiences=tuple(chosen),
            candidates=tuple(scores),
            scores=scores,
            reasons={each.exp_id: reasons[each.exp_id] for each in chosen},
            strategy=self.strategy,
            asked=tuple(each.exp_id for each in open_ones),
            fell_back="" if failure is None else failure.reason,
        )

    def _is_open(self, score: float) -> bool:
        """Whether a model has to say if an experience applies."""
        low, high = UNSURE
        return self.strategy == "model" or (self.strategy == "auto" and low <= score < high)

    def _asking(
        self,
        wanted: Wanted,
        candidates: Sequence[Experience],
        log: Callable[[Sequence[BaseMessage]], Work[None]],
    ) -> Work[Reading | Failure]:
        messages = self._messages(wanted, candidates)
        yield from log(messages)
        ids = [each.exp_id for each in candidates]
        key = digest("\x1f".join([*ids, *(str(each.content) for each in messages)]).encode("utf-8", "surrogatepass"))
        if (known := self._known.get(key)) is not None:
            return known
        try:
            answer = yield Ask(
                self._model,
                messages,
                "experience.choose",
                self._timeout,
                inputs=lambda: {"query": brief(wanted.query), "role": wanted.role, "exp_ids": ids},
            )
        except Exception as error:  # noqa: BLE001 - a model that fails must not end the run
            return Failure(f"The model failed: {type(error).__name__}.", error)
        reading = selected(str(answer)[:LONGEST_ANSWER], ids)
        if reading is None:
            return Failure("The model's answer says nothing that can be understood.")
        self._known.put(key, reading)
        return reading

    def _messages(self, wanted: Wanted, candidates: Sequence[Experience]) -> list[BaseMessage]:
        """What a model is asked, as document 000 has it. Of the candidates it sees the conditions only."""
        shown = "\n\n".join(
            f"--- Experience {number} (ID: {each.exp_id}) ---\n{each.when.strip()}"
            for number, each in enumerate(candidates, 1)
        )
        context = f"{_CONTEXT}{wanted.context}" if wanted.context else ""
        system = self._template.fill(experiences=shown, user_query=wanted.query, context=context)
        return [SystemMessage(system), HumanMessage(f"Select relevant experiences for: {wanted.query}")]


def help_of(tally: Tally | None) -> float:
    """How much an experience is said to help, from -1 to 1: the more reports there are, the more they count."""
    if tally is None:
        return 0.0
    return (tally.helped - tally.not_helped) / (tally.helped + tally.not_helped + _DOUBT)


def weighed(score: float, tally: Tally | None) -> float:
    """A score with feedback in it, from 0 to 1."""
    return min(1.0, score * (1 + FEEDBACK * help_of(tally)))


def by_words(said: Judged) -> str:
    """What of a query led to an experience, the most telling first."""
    terms = sorted(said.terms.items(), key=lambda each: -each[1])
    return ", ".join(f"{term} {worth:.2f}" for term, worth in terms if worth > 0)


class _Remembered:
    """The last answers of a model, by what it was asked."""

    def __init__(self) -> None:
        self._readings: OrderedDict[bytes, Reading] = OrderedDict()
        self._lock = forks.lock()

    def get(self, key: bytes) -> Reading | None:
        with self._lock:
            if key in self._readings:
                self._readings.move_to_end(key)
            return self._readings.get(key)

    def put(self, key: bytes, reading: Reading) -> None:
        with self._lock:
            self._readings[key] = reading
            self._readings.move_to_end(key)
            while len(self._readings) > _REMEMBERED:
                self._readings.popitem(last=False)
