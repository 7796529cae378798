"""What the layers share: whose memory it is, how it is read and changed, and what is checked before.

A layer reads what its standpoint shows, and changes it: all that one call does is one transaction, made of *drafts*
that are written together. What has expired is swept away with them, a little at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain_agentmem.base.redaction import redact
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Work, aperform, perform
from langchain_agentmem.layers.compression import Compressor
from langchain_agentmem.layers.layer_values import Event, Record
from langchain_agentmem.layers.layers_config import LayersConfig
from langchain_agentmem.rewinding.memory_access import Change, Footing, as_step, changing, looking
from langchain_agentmem.rewinding.memory_rows import EVENT, RECORD, View
from langchain_agentmem.storage import Steps
from langchain_agentmem.tracing import brief

T = TypeVar("T")


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


# -- what is checked -----------------------------------------------------------------------------------------------


def event_shown(each: Event) -> dict[str, Any]:
    """An event."""
    return {"id": each.id, "event_type": each.kind, "content": brief(each.content), "created_at": each.created_at}


def record_shown(each: Record) -> dict[str, Any]:
    """A record."""
    return {"id": each.id, "content": brief(each.content), "tags": each.tags, "updated_at": each.updated_at}


def found_shown(values: Iterable[Event | Record]) -> dict[str, Any]:
    """What a search of a layer found, as documents."""
    return {
        "documents": [
            {
                "id": each.id,
                "page_content": each.content,
                "metadata": {
                    "id": each.id,
                    "kind": EVENT if isinstance(each, Event) else RECORD,
                    "score": None if each.score is None else round(each.score, 4),
                    "why": None if each.why is None else str(each.why),
                },
            }
            for each in values
        ]
    }
