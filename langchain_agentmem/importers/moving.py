"""`import_from`: everything that a source of some kind holds, brought here parcel by parcel."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_agentmem.base.argument_checks import texts_given
from langchain_agentmem.base.events import Progress, Watch, listener_given
from langchain_agentmem.base.safe_repr import safe_repr, without_passwords
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.importers import SourceKind
from langchain_agentmem.importers.chat_histories import read_histories
from langchain_agentmem.importers.langgraph_sources import read_langmem, read_saver, read_store
from langchain_agentmem.importers.layered_tables import read_memgpt
from langchain_agentmem.importers.mem0_memories import read_mem0
from langchain_agentmem.importers.parcels import Destination, LeftOut, Parcel, Reader, SourceReading, whole, why
from langchain_agentmem.importers.saved_files import read_marsys, read_opus, read_taskweaver
from langchain_agentmem.language_models.model_calls import Do, Shown, Work

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory

KINDS: Mapping[SourceKind, Reader] = {
    "langgraph-saver": read_saver,
    "langgraph-store": read_store,
    "langmem": read_langmem,
    "chat-history": read_histories,
    "mem0": read_mem0,
    "memgpt": read_memgpt,
    "taskweaver": read_taskweaver,
    "marsys": read_marsys,
    "opus": read_opus,
}
"""What reads each kind of source."""
MOST_TOLD = 1_000
"""How much of what was left out is told one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingReport:
    """What an import brought.

    Attributes:
        kind: The kind of the source.
        source: What names it, without passwords.
        dry_run: Whether nothing was written, and this is what would come.
        added: How much is new, by what it is: "messages", "items", "memories", "facts", "entries", "checkpoints".
        known: How much was here already, by the same.
        left_out: What was left out and why, at most 1,000.
        left: How many things were left out in all.
    """

    kind: str
    source: str
    dry_run: bool
    added: Mapping[str, int]
    known: Mapping[str, int]
    left_out: tuple[LeftOut, ...]
    left: int


class _Tally:
    """Counts what came."""

    def __init__(self) -> None:
        self.added: Counter[str] = Counter()
        self.known: Counter[str] = Counter()
        self.left_out: list[LeftOut] = []
        self.left = 0

    def leave(self, thing: LeftOut) -> None:
        self.left += thing.count
        if len(self.left_out) < MOST_TOLD:
            self.left_out.append(thing)

    @property
    def done(self) -> int:
        return self.added.total() + self.known.total() + self.left


def moving(
    memory: AgentMemory,
    kind: SourceKind,
    source: Any,
    *,
    namespace: Sequence[str] | None,
    dry_run: bool,
    allow: Sequence[str],
    progress: Watch | None,
) -> Work[MovingReport]:
    """See `AgentMemory.import_from`."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"There is no kind {safe_repr(kind)} of sources; there are {', '.join(KINDS)}.")
    tell = listener_given(progress, "progress")
    scopes = memory.database.scopes
    classes, limits = tuple(texts_given(allow, "allow")), memory.database.limits
    to = Destination(kind, scopes.resolve(namespace, bare=True), scopes, memory.database.now(), classes, limits)
    name = without_passwords(os.fspath(source)) if isinstance(source, str | os.PathLike) else safe_repr(source)

    def work() -> Work[MovingReport]:
        tally = _Tally()
        with ExitStack() as stack:
            reading: SourceReading = yield Do(partial(whole, name, partial(KINDS[kind], source, to, stack)))
            look = partial(whole, name, partial(next, reading.things, None))
            while (thing := (yield Do(look))) is not None:
                if isinstance(thing, LeftOut):
                    tally.leave(thing)
                else:
                    yield from _bring(memory, thing, tally, dry_run=dry_run)
                if tell is not None:
                    tell(Progress(thing.what, tally.done, reading.total))
        return MovingReport(
            kind=kind,
            source=name,
            dry_run=dry_run,
            added=dict(+tally.added),
            known=dict(+tally.known),
            left_out=tuple(tally.left_out),
            left=tally.left,
        )

    inputs = {"kind": kind, "source": name, "namespace": list(to.namespace), "dry_run": dry_run}
    report: MovingReport = yield Shown("care.import_from", work(), lambda: inputs, _shown)
    return report


def _bring(memory: AgentMemory, parcel: Parcel, tally: _Tally, *, dry_run: bool) -> Work[None]:
    try:
        stored = yield from parcel.stored(memory, dry_run=dry_run)
    except InvalidInput as error:
        tally.leave(LeftOut(parcel.what, why(error), parcel.count))
    else:
        tally.added[parcel.holds] += stored.added
        tally.known[parcel.holds] += stored.known


def _shown(report: MovingReport) -> dict[str, Any]:
    """What a trace shows of an import."""
    return {name: value for name, value in asdict(report).items() if name in ("added", "known", "left")}
