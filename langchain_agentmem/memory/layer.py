"""What the layers share: whose memory it is, how it is read and changed, and what is checked before.

A layer reads what its standpoint shows, and changes it: all that one call does is one transaction, made of *drafts*
that are written together. What has expired is swept away with them, a little at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from langchain_agentmem.database import Database, Outputs
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.memory.compress import Compressor
from langchain_agentmem.memory.secrets.redaction import redact
from langchain_agentmem.memory.seen import inputs_of, standing
from langchain_agentmem.memory.settings import LayersConfig
from langchain_agentmem.retrieval.index import Series
from langchain_agentmem.rewinding import rows
from langchain_agentmem.rewinding.branches import Standpoint, family
from langchain_agentmem.rewinding.rows import Draft, OnBranch, View
from langchain_agentmem.safe_repr import safe_repr
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.tracing import RunType
from langchain_agentmem.work import Run, Shown, Work, aperform, perform

T = TypeVar("T")

SWEPT = 20
"""Most rows that have expired which one call sweeps away."""
LONGEST_NAME = 500
EVERYTHING = "*"
"""The query that means all."""
ALL = 2**31 - 1
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(slots=True, kw_only=True)
class Change:
    """What a call is about to write.

    Attributes:
        view: What was there.
        now: When, in microseconds since 1970.
        drafts: What is to be written.
        evicted: The keys that leave core memory to make room.
        consolidated: The ids of the records that old events become.
    """

    view: View
    now: int
    drafts: list[Draft] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    consolidated: list[str] = field(default_factory=list)

    def remove(self, kind: str, key: str) -> None:
        """Have something be gone."""
        self.drafts.append(Draft(kind, key, None, self.now))


@dataclass(frozen=True, slots=True, kw_only=True)
class Footing:
    """Where a memory is.

    Attributes:
        database: Where it is kept.
        point: Whose memory it is.
    """

    database: Database
    point: Standpoint

    def now(self) -> int:
        """The time, in microseconds since 1970."""
        return self.database.now()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground(Footing):
    """What the layers of one memory stand on.

    Attributes:
        settings: How it behaves.
        compressor: Makes texts fit, with a model or without one.
    """

    settings: LayersConfig
    compressor: Compressor

    def clean(self, text: str) -> str:
        """A text without secrets."""
        return redact(text, self.settings.patterns)

    def fitted(self, text: str, limit: int, what: str) -> Work[str]:
        """A text that is no longer than it may be.

        Args:
            text: Any text.
            limit: The most characters that it may have.
            what: What it is, for the model or the error.

        Raises:
            InvalidInput: It is longer, and the settings want that refused.
        """
        if len(text) <= limit:
            return text
        if self.settings.oversize == "refuse":
            raise InvalidInput(
                f"The text has {len(text)} characters, and {what} has room for {limit}. Shorten it, or set "
                'oversize="compress".'
            )
        return (yield from self.compressor.compressing(text, limit, what))


class Layer:
    """A part of a layered memory.

    Args:
        ground: What it stands on.
    """

    _part: str

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    @property
    def settings(self) -> LayersConfig:
        """How it behaves."""
        return self._ground.settings

    def _do(self, work: Work[T]) -> T:
        return perform(work, self._ground.database)

    async def _ado(self, work: Work[T]) -> T:
        return await aperform(work, self._ground.database)

    def _look(self, verb: str, look: Callable[[View], Steps[T]], **more: Any) -> Work[T]:
        """Read; see `looking`."""
        return looking(self._ground, f"{self._part}.{verb}", look, **more)

    def _change(self, verb: str, make: Callable[[Change], Steps[T]], **more: Any) -> Work[T]:
        """Write; see `changing`."""
        return changing(self._ground, f"{self._part}.{verb}", make, **more)

    def _as_step(self, verb: str, work: Work[T], **more: Any) -> Work[T]:
        """Do work as one step; see `as_step`."""
        return as_step(self._ground, f"{self._part}.{verb}", work, **more)


def looking(
    ground: Footing,
    name: str,
    look: Callable[[View], Steps[T]],
    *,
    outputs: Outputs | None = None,
    shown: bool = True,
    newest: int | None = None,
    **inputs: Any,
) -> Work[T]:
    """Read what a memory shows.

    Args:
        ground: The memory.
        name: What the step is called in a trace.
        look: Reads, given a view.
        outputs: What a trace shows of the value. Default: how much that is.
        shown: Whether it is a step. If not, it is a detail of another. Default: it is.
        newest: How many of the newest things `look` lists, at most. A long line is not followed further than for these.
        inputs: What a trace shows of it, beside whose memory it is; a function is called for it if somebody looks.
    """
    point, now = ground.point, ground.now()

    def steps() -> Steps[T]:
        if newest is not None:
            view = yield from point.view(now, newest)
            value: Any = yield from look(view)
            # Of a view that is whole, another look in this transaction may be of a later moment: a checkpoint that was
            # put meanwhile is known, and not seen.
            if not view.cut or (view.descends and len(value) >= newest):
                return cast("T", value)
        view = yield from point.view(now)
        return (yield from look(view))

    value: T = yield Run(name, steps, inputs=lambda: whose(ground, **inputs), outputs=outputs, shown=shown)
    return value


def changing(
    ground: Footing,
    name: str,
    make: Callable[[Change], Steps[T]],
    *,
    outputs: Outputs | None = None,
    shown: bool = True,
    **inputs: Any,
) -> Work[T]:
    """Change a memory, in one transaction.

    Args:
        ground: The memory.
        name: What the step is called in a trace.
        make: Adds drafts to a `Change`, and gives the value.
        outputs: What a trace shows of the value. Default: how much that is.
        shown: Whether it is a step. If not, it is a detail of another. Default: it is.
        inputs: What a trace shows of it, beside whose memory it is; a function is called for it if somebody looks.
    """
    now = ground.now()
    value: T = yield Run(
        name,
        lambda: changed(ground.point, make, now, ground.database.tail),
        write=True,
        inputs=lambda: whose(ground, **inputs),
        outputs=outputs,
        shown=shown,
    )
    return value


def as_step(
    ground: Footing,
    name: str,
    work: Work[T],
    *,
    outputs: Outputs | None = None,
    run_type: RunType = "chain",
    **inputs: Any,
) -> Work[T]:
    """Do work on a memory as one step, with what it wishes for beneath.

    Args:
        ground: The memory.
        name: What the step is called in a trace.
        work: The work.
        outputs: What a trace shows of the value. Default: nothing.
        run_type: What LangChain takes it for: a "retriever" has an input "query" and gives "documents". Default:
            "chain".
        inputs: What a trace shows of it, beside whose memory it is; a function is called for it if somebody looks.
    """
    value: T = yield Shown(name, work, lambda: whose(ground, **inputs), outputs, run_type)
    return value


def changed(point: Standpoint, make: Callable[[Change], Steps[T]], now: int, tail: int) -> Steps[T]:
    """The same, as an operation.

    Args:
        point: Whose memory.
        make: Adds drafts to a `Change`, and gives the value.
        now: When.
        tail: How many documents may wait for the index.
    """
    view, place = yield from point.open(now)
    change = Change(view=view, now=now)
    value = yield from make(change)
    drafts = change.drafts
    if isinstance(place, OnBranch):
        expired = yield query.expired_memory(branch=place.branch, at=now, limit=SWEPT)
        # What is written anew needs no sweeping; where it is swept as well, the later draft counts.
        drafts = [*(Draft(row["kind"], row["key"], None, now) for row in expired), *drafts]
    if drafts:
        name = yield from family(point, view)
        yield from rows.write(place, drafts, series=Series(point.path, drafts[0].kind, name), now=now, tail=tail)
    return value


def whose(ground: Footing, **inputs: Any) -> dict[str, Any]:
    """What a trace shows of a step on a memory: whose it is, and what was asked.

    Args:
        ground: The memory.
        **inputs: What was asked: functions are called, long texts cut, and what is None is left out.
    """
    return {**standing(ground.point), **inputs_of(inputs)}


# -- what is checked -----------------------------------------------------------------------------------------------


def text_given(value: Any, what: str) -> str:
    """A text that a user gave.

    Args:
        value: What was given.
        what: What it is, for the error.

    Raises:
        InvalidInput: It is no text.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{what} is text, not {type(value).__name__}.")
    return value


def name_given(value: Any, what: str) -> str:
    """A name that a user gave: of a key, of a kind of event, a tag.

    Args:
        value: What was given.
        what: What it is, for the error.

    Raises:
        InvalidInput: It is empty, too long, or has control characters.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_NAME or _FORBIDDEN.search(value):
        raise InvalidInput(
            f"{safe_repr(value)} cannot be {what}: that is a text of 1 to {LONGEST_NAME} characters without control "
            "characters."
        )
    return value


def limit_given(value: Any) -> int:
    """How many things a user wants at most; None for all.

    Raises:
        InvalidInput: It is no number of 0 or more.
    """
    if value is None:
        return ALL
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"A limit is a whole number of 0 or more, or None for all, not {safe_repr(value)}.")
    return min(value, ALL)


def texts_given(values: Any, what: str) -> list[str]:
    """Texts that a user gave: one, or several.

    Raises:
        InvalidInput: It is something else.
    """
    if isinstance(values, str):
        return [values]
    if isinstance(values, Mapping) or not isinstance(values, Sequence | set | frozenset):
        raise InvalidInput(f"{what} are a list of texts, not {type(values).__name__}.")
    return [text_given(each, f"Each of {what}") for each in values]
