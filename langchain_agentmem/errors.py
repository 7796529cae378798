"""Every error this package raises on purpose.

    AgentMemoryError
    ├── InvalidInput            also a ValueError: an argument no operation can accept
    │   ├── LimitExceeded       larger than a limit allows, see `MemoryLimits`
    │   ├── MessageError        a message, role or message id is wrong (MARSYS)
    │   └── Outdated            what was to be corrected says something else by now
    ├── StorageError            the database could not do its work
    │   ├── DatabaseUnreadable  not a database, or damaged
    │   ├── ForeignDatabase     a database that belongs to something else
    │   ├── NewerDatabase       written by a newer version of this package
    │   ├── DatabaseReadOnly    a write to a file that may not be written
    │   │   └── NothingStored   no memory is there, and this opening may not make one
    │   ├── DatabaseFull        no room left
    │   ├── DatabaseBusy        another process held the lock for too long
    │   ├── DatabaseTimeout     the server did not answer in time
    │   ├── CheckpointUnreadable  a checkpoint is damaged, or was written with another serializer
    │   └── BranchMoved         somebody else wrote first; the operation is retried for you
    ├── StepIsOver              a step of a graph that another attempt has replaced wanted to remember something
    ├── MemoryClosed            used after close()
    └── MissingExtra            also an ImportError: an optional dependency is not installed

Catch at the height you need. A class's docstring is its default message.
"""

from __future__ import annotations

import sys

from langchain_agentmem.base.safe_repr import safe_repr as safe_repr  # noqa: PLC0414 - what errors show values by

MAX_ERROR_CHARS = 4_000
"""Characters that the text of an error may have: what the system says of a path holds all of it."""
_TAIL_CHARS = 500


class AgentMemoryError(Exception):
    """Something went wrong in langchain-agentmem."""

    def __init__(self, message: str | None = None) -> None:
        text = message or " ".join((type(self).__doc__ or "").split())
        super().__init__(
            text
            if len(text) <= MAX_ERROR_CHARS
            else f"{text[: MAX_ERROR_CHARS - _TAIL_CHARS - 1]}…{text[-_TAIL_CHARS:]}"
        )


class InvalidInput(AgentMemoryError, ValueError):
    """An argument has a value that this operation cannot accept."""


class LimitExceeded(InvalidInput):
    """It is larger than a limit allows. Give less at once, or raise the limit: AgentMemory(..., limits=...)."""


class MessageError(InvalidInput):
    """A message is malformed, or no message has this id."""


class Outdated(InvalidInput):
    """It says something else by now. Look at it again, and correct that."""


class StorageError(AgentMemoryError):
    """The database could not carry out the operation. Nothing was written."""


class DatabaseUnreadable(StorageError):
    """The file is not a database, or it is damaged. Restore it from a backup."""


class ForeignDatabase(StorageError):
    """The database belongs to something else. Give langchain-agentmem a file or database of its own."""


class NewerDatabase(StorageError):
    """The database was written by a newer version of langchain-agentmem. Upgrade the package to open it."""


class DatabaseReadOnly(StorageError):
    """The database may not be written here. Check the permissions of the file and of its folder."""


class NothingStored(DatabaseReadOnly):
    """No memory is stored there, and this opening makes none. Check the address, or run: agentmem migrate DATABASE."""


class DatabaseFull(StorageError):
    """There is no room left for the database. Free some space and try again. Nothing was written."""


class DatabaseBusy(StorageError):
    """Another process kept the database locked for too long. Try again, or raise busy_timeout."""


class DatabaseTimeout(StorageError):
    """The database did not answer in time. Try again, or raise timeout. Nothing was written."""


class CheckpointUnreadable(StorageError):
    """A checkpoint is damaged, or was written with another serializer."""


class BranchMoved(StorageError):
    """The conversation moved while it was being written. Read it again and retry."""


class StepIsOver(AgentMemoryError):
    """This attempt of the step is over: another one has replaced it, its checkpoint was put, or its thread was deleted.

    Nothing was written.
    """


class MemoryClosed(AgentMemoryError):
    """This memory has been closed. Open it again with AgentMemory(...)."""


class MissingExtra(AgentMemoryError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs an optional dependency. Install it with: pip install 'langchain-agentmem[{extra}]'"
        )
        self.extra = extra


def is_graph_bubble_up(error: BaseException) -> bool:
    """Whether LangGraph raised it to leave a node, as `interrupt` does, so that nothing has failed."""
    errors = sys.modules.get("langgraph.errors")  # where a graph runs it is loaded
    return errors is not None and isinstance(error, errors.GraphBubbleUp)
