"""Steps of memory as spans and metrics of OpenTelemetry.

    from langchain_agentmem.otel import OpenTelemetryHook

    memory = AgentMemory("agent.db", hooks=[OpenTelemetryHook()])

A step is a span below the step that it is a part of, or else below the span that is current where it began. What it
was given and gave back are attributes, redacted as `AgentMemory(trace_content=...)` says. An exporter that fails or
hangs changes nothing, as for every hook.

Metrics:

- `agentmem.operation.duration`: a histogram of seconds, by `agentmem.operation`, `db.system.name` and `error.type`;
- `agentmem.messages.stored`: how many messages entered a log;
- `agentmem.compaction.tokens`: how many tokens compactions kept out of prompts;
- `agentmem.search.documents`: a histogram of how many documents a search found.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from langchain_agentmem import __version__
from langchain_agentmem.base.events import CompactionEvent, MemoryEvent, MessagesStored, StepFinished, StepStarted
from langchain_agentmem.errors import MissingExtra
from langchain_agentmem.tracing.shown_values import Withheld

try:
    from opentelemetry import metrics, trace
    from opentelemetry.util.types import AttributeValue
except ImportError as error:
    raise MissingExtra("OpenTelemetryHook", "otel") from error

NAME = "langchain_agentmem"
"""What the tracer and the meter are called."""
MOST_OPEN = 10_000
"""Spans that are open at most. Beyond that the oldest is ended, as that of a process which forgot it would be."""

_LISTED = 20
_CLIPPED = 1_000
_DEEPEST = 3
_LARGEST = 2**63
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_DOCUMENTS = (0, 1, 2, 3, 5, 10, 20, 50, 100)
_SYSTEMS = {"sqlite": "sqlite", "postgres": "postgresql"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True, eq=False)
class _Open:
    """A span that has not ended, and when the last of those below it did."""

    span: trace.Span
    covers: int = 0


class OpenTelemetryHook:
    """A hook that makes spans and metrics of what happens in a memory. One may serve several memories and threads.

    Args:
        tracer_provider: Where spans go. Default: the global provider.
        meter_provider: Where metrics go. Default: the global provider.
    """

    def __init__(
        self, tracer_provider: trace.TracerProvider | None = None, meter_provider: metrics.MeterProvider | None = None
    ) -> None:
        self._tracer = trace.get_tracer(NAME, __version__, tracer_provider)
        meter = metrics.get_meter(NAME, __version__, meter_provider)
        self._duration = meter.create_histogram(
            "agentmem.operation.duration",
            unit="s",
            description="How long operations of memory took.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._stored = meter.create_counter(
            "agentmem.messages.stored", unit="{message}", description="Messages that entered a log."
        )
        self._kept_out = meter.create_counter(
            "agentmem.compaction.tokens", unit="{token}", description="Tokens that compactions kept out of prompts."
        )
        self._found = meter.create_histogram(
            "agentmem.search.documents",
            unit="{document}",
            description="How many documents a search found.",
            explicit_bucket_boundaries_advisory=_DOCUMENTS,
        )
        # By the id of the step. Nothing is locked: each change is a single one, which no other thread can interrupt.
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def __call__(self, event: MemoryEvent, /) -> None:
        """Make of the event what there is to make of it."""
        if isinstance(event, StepStarted):
            self._start(event)
        elif isinstance(event, StepFinished):
            self._finish(event)
        elif isinstance(event, MessagesStored):
            self._stored.add(len(event.message_ids))
        elif isinstance(event, CompactionEvent) and event.status == "completed":
            self._kept_out.add(max(event.pre_tokens - event.post_tokens, 0))

    def close(self) -> None:
        """End the spans of steps that have not ended. Those that end later make spans of their own."""
        while self._open:
            self._forget_oldest()

    def _start(self, event: StepStarted | StepFinished) -> _Open:
        parent = self._open.get(event.parent_id) if event.parent_id is not None else None
        span = self._tracer.start_span(
            event.name,
            context=None if parent is None else trace.set_span_in_context(parent.span),
            start_time=_nanoseconds(event.started_at),
            attributes={**_whereabouts(event.metadata), **dict(_flat("agentmem.input", event.inputs))},
        )
        opened = self._open[event.step_id] = _Open(span)
        while len(self._open) > MOST_OPEN:
            self._forget_oldest()
        return opened

    def _finish(self, event: StepFinished) -> None:
        # A step that began unheard has a span all the same.
        opened = self._open.get(event.step_id) or self._start(event)
        self._open.pop(event.step_id, None)
        span = opened.span
        attributes = {"agentmem.operation": event.name}
        if (system := _SYSTEMS.get(str(event.metadata.get("agentmem_database")))) is not None:
            attributes["db.system.name"] = system
        if event.error is not None:
            kind, text = _told(event.error)
            attributes["error.type"] = kind
            span.set_attribute("error.type", kind)
            span.add_event("exception", {"exception.type": kind, "exception.message": text[:_CLIPPED]})
            span.set_status(trace.StatusCode.ERROR, text[:_CLIPPED])
        outputs = event.outputs or {}
        span.set_attributes(dict(_flat("agentmem.output", outputs)))
        # The clock that measured it began when this hook had heard of it, those of its parts a little later.
        end = max(_nanoseconds(event.started_at) + round(event.duration * 1e9), opened.covers)
        if event.parent_id is not None and (parent := self._open.get(event.parent_id)) is not None:
            parent.covers = max(parent.covers, end)
        context = trace.set_span_in_context(span)
        self._duration.record(event.duration, attributes, context)
        if isinstance(documents := outputs.get("documents"), list):
            self._found.record(len(documents), {"agentmem.operation": event.name}, context)
        span.end(end)

    def _forget_oldest(self) -> None:
        try:
            _, opened = self._open.popitem(last=False)
        except KeyError:  # another thread was quicker
            return
        opened.span.set_attribute("agentmem.unfinished", value=True)
        opened.span.end()


def _told(error: BaseException) -> tuple[str, str]:
    """Of which type an error is, and what it says, as far as that is shown."""
    if isinstance(error, Withheld):  # which tells both, and is not the error itself
        kind, _, text = str(error).partition(": ")
        return kind, text
    return type(error).__name__, str(error)


def _whereabouts(metadata: Mapping[str, Any]) -> dict[str, AttributeValue]:
    """Where it happens, under our names and, where there are any, under those that everybody uses."""
    known = {key.removeprefix("agentmem_"): value for key, value in metadata.items()}
    attributes = dict(_flat("agentmem", known))
    if (system := _SYSTEMS.get(str(known.get("database")))) is not None:
        attributes["db.system.name"] = system
    conversation = known.get("conversation_id") or known.get("thread_id")
    if conversation is not None:
        attributes["gen_ai.conversation.id"] = str(conversation)
    return attributes


def _flat(name: str, values: Mapping[str, Any], depth: int = 1) -> Iterator[tuple[str, AttributeValue]]:
    """Plain data as attributes: scalars, short lists of them, and of all other lists how long they are."""
    for key, value in values.items():
        full = f"{name}.{key}"
        if isinstance(value, Mapping):
            if depth < _DEEPEST:
                yield from _flat(full, value, depth + 1)
        elif isinstance(value, list | tuple):
            scalars = [_scalar(each) for each in value[:_LISTED]]
            if len(value) > _LISTED or None in scalars:
                yield f"{full}.count", len(value)
            else:
                yield full, _alike(scalars)
        elif (scalar := _scalar(value)) is not None:
            yield full, scalar


def _scalar(value: Any) -> str | bool | int | float | None:
    if isinstance(value, str):
        return value[:_CLIPPED]
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return str(value)
    return value if isinstance(value, bool | int | float) else None


def _alike(scalars: list[Any]) -> AttributeValue:
    """A list is of one type."""
    return scalars if len({type(each) for each in scalars}) <= 1 else [str(each) for each in scalars]


def _nanoseconds(moment: datetime) -> int:
    since = moment - _EPOCH
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000
