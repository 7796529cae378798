"""What an audit trail tells of its use: topics, how often it went well, when, and which models did the work.

    insights = memory.audit.insights()
    print(insights)                          # a page of text
    insights.topics[0].name, insights.success.rate, insights.hours[9], insights.models[0].median_duration

How success is told is said in `outcomes`, how topics are found in `topics`. Neither asks a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import partial

from langchain_agentmem.audit import reading
from langchain_agentmem.audit.audit_entry import CALL, AuditEntry
from langchain_agentmem.audit.outcomes import Outcomes, Success
from langchain_agentmem.audit.reading import Sizes
from langchain_agentmem.audit.topics import Topic, Topics
from langchain_agentmem.audit.walking import Seen, walk
from langchain_agentmem.language_models.model_calls import Run, Work

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MOST_TOPICS = 20
MOST_MODELS = 200

_SAMPLE = 4_096
_TOLD = 10
_BUSIEST = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelUse:
    """What a model did.

    Attributes:
        model: Its name; None where the provider gave none.
        calls: How often it was called.
        errors: How many of the calls failed.
        input_tokens: Tokens that it was given, as far as they are known.
        output_tokens: Tokens that it answered with, as far as they are known.
        median_duration: Seconds that half of the calls took at most; of more than 4,096 calls, by a sample spread over
            all of them. None where it is not known.
    """

    model: str | None
    calls: int
    errors: int
    input_tokens: int
    output_tokens: int
    median_duration: float | None

    def __str__(self) -> str:
        took = "" if self.median_duration is None else f", median {self.median_duration:,.2f} s"
        return (
            f"{self.model or 'unknown'}: {self.calls:,} call{'s' * (self.calls != 1)}, {self.errors:,} failed, "
            f"{self.input_tokens:,} tokens in, {self.output_tokens:,} out{took}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Insights:
    """What an audit trail tells of its use. Entries that are hidden as junk are no prompts here.

    Attributes:
        topics: What users often speak of, those of most weight first.
        success: How often what was asked was done.
        hours: Prompts by hour of the day, from 0 to 23.
        weekdays: Prompts by day of the week, from Monday.
        timezone: The time zone of both.
        models: The models that were called, those with most calls first.
    """

    topics: tuple[Topic, ...] = ()
    success: Success = field(default_factory=Success)
    hours: tuple[int, ...] = (0,) * 24
    weekdays: tuple[int, ...] = (0,) * 7
    timezone: str = "UTC"
    models: tuple[ModelUse, ...] = ()

    @property
    def busiest_hours(self) -> tuple[int, ...]:
        """The hours of the day with most prompts, at most three, the busiest first."""
        return _busiest(self.hours)

    @property
    def busiest_weekdays(self) -> tuple[str, ...]:
        """The days of the week with most prompts, at most three, the busiest first."""
        return tuple(WEEKDAYS[day] for day in _busiest(self.weekdays))

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterable[str]:
        """The report, line by line."""
        success = self.success
        if success.turns:
            told = "".join(f"; {name} {count:,}" for name, count in success.because.items())
            known = success.succeeded + success.failed
            of = f"{known:,} of {success.turns:,} prompts have an end that is known{told}."
            yield f"Success: {of}" if success.rate is None else f"Success: {100 * success.rate:.1f}%; {of}"
            hours = ", ".join(f"{hour:02d}:00" for hour in self.busiest_hours)
            yield f"Busiest: {hours}; {', '.join(self.busiest_weekdays)} ({self.timezone})."
        for title, items in (("Common topics", self.topics), ("Models", self.models)):
            if items:
                yield f"{title}:"
                yield from (f"  {each}" for each in items[:_TOLD])


def learning(low: str, high: str, *, timezone: tzinfo = UTC, topics: int = MOST_TOPICS) -> Work[Insights]:
    """What the audit trail of the namespaces in a range of paths tells of its use.

    Args:
        low: The first path of the namespaces.
        high: The path behind the last.
        timezone: Of the hours and weekdays. Default: UTC.
        topics: Most topics.
    """
    sizes: Sizes = yield Run("audit.count", partial(reading.sizes, low, high), shown=False)
    found = _Found(timezone, sizes.entries)
    yield from walk(low, high, [found])
    return found.insights(topics)


class _Found:
    """Gathers what there is to tell; walks along the audit trail."""

    def __init__(self, timezone: tzinfo, expected: int) -> None:
        self._timezone = timezone
        self._outcomes = Outcomes()
        self._topics = Topics(expected)
        self._hours = [0] * 24
        self._weekdays = [0] * 7
        self._models: dict[str | None, _Use] = {}

    def take(self, seen: Seen) -> None:
        entry = seen.entry
        if entry.kind == CALL:
            self._called(entry)
        if self._outcomes.take(seen):
            at = _local(entry.created_at, self._timezone)
            self._hours[at.hour] += 1
            self._weekdays[at.weekday()] += 1
            self._topics.count(entry)

    def insights(self, topics: int) -> Insights:
        models = (use.told(name) for name, use in self._models.items())
        return Insights(
            topics=self._topics.found(topics),
            success=self._outcomes.found(),
            hours=tuple(self._hours),
            weekdays=tuple(self._weekdays),
            timezone=str(self._timezone),
            models=tuple(sorted(models, key=lambda use: (-use.calls, use.model or ""))),
        )

    def _called(self, entry: AuditEntry) -> None:
        if entry.model not in self._models and len(self._models) >= MOST_MODELS:
            return  # names that were made up, and no models
        self._models.setdefault(entry.model, _Use()).add(entry)


class _Use:
    def __init__(self) -> None:
        self._calls = self._errors = self._input = self._output = 0
        self._durations: list[float] = []
        self._timed = 0
        self._every = 1

    def add(self, entry: AuditEntry) -> None:
        self._calls += 1
        self._errors += entry.error is not None
        self._input += entry.input_tokens or 0
        self._output += entry.output_tokens or 0
        if entry.duration is not None:
            if self._timed % self._every == 0:
                self._durations.append(entry.duration)
            self._timed += 1
            if len(self._durations) > _SAMPLE:  # from here on every second one, as if it had been so from the beginning
                self._durations = self._durations[::2]
                self._every *= 2

    def told(self, model: str | None) -> ModelUse:
        return ModelUse(
            model=model,
            calls=self._calls,
            errors=self._errors,
            input_tokens=self._input,
            output_tokens=self._output,
            median_duration=_median(self._durations),
        )


def _local(at: datetime, timezone: tzinfo) -> datetime:
    try:
        return at.astimezone(timezone)
    except OverflowError:  # in the first or last hours of all time
        return at


def _median(values: Sequence[float]) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _busiest(counts: Sequence[int]) -> tuple[int, ...]:
    order = sorted((-count, place) for place, count in enumerate(counts) if count)
    return tuple(place for _, place in order[:_BUSIEST])
