"""All errors that this package raises deliberately.

    AgentMemoryError
    ├── InvalidInput            also a ValueError: an invalid argument
    │   ├── LimitExceeded       a value above a limit, see `MemoryLimits`
    │   ├── MessageError        an invalid message, role or message id
    │   └── Outdated            the value to correct has changed meanwhile
    ├── StorageError            the database operation failed
    │   ├── DatabaseUnreadable  the file is no database, or is damaged
    │   ├── ForeignDatabase     a database of another program
    │   ├── NewerDatabase       written by a newer version of this package
    │   ├── DatabaseReadOnly    a write to a read-only file or server
    │   │   └── NothingStored   the database has no memory, and none may be created
    │   ├── DatabaseFull        no space left
    │   ├── DatabaseBusy        another process locked the database for too long
    │   ├── DatabaseTimeout     the server did not answer in time
    │   ├── CheckpointUnreadable  a checkpoint is damaged, or was written with another serializer
    │   └── BranchMoved         another writer changed the conversation first; on PostgreSQL, after 100 attempts
    ├── StepIsOver              a write by a task's attempt that has ended, or that a retry has replaced
    ├── MemoryClosed            used after close()
    └── MissingExtra            also an ImportError: an optional dependency is not installed

To handle several errors alike, catch their common base class. The docstring of a class is its default message.
"""

from __future__ import annotations

import sys

from langchain_agentmem.base.safe_repr import safe_repr as safe_repr  # noqa: PLC0414 - for the texts of errors

MAX_ERROR_CHARS = 4_000
"""The maximum length of an error's text. Longer texts, such as errors with very long paths, are shortened."""
_END_CHARS = 500
"""The number of characters kept from the end of a shortened text. The end often says what to do."""


class AgentMemoryError(Exception):
    """An operation of langchain-agentmem failed."""

    def __init__(self, message: str | None = None) -> None:
        text = message or " ".join((type(self).__doc__ or "").split())
        super().__init__(
            text if len(text) <= MAX_ERROR_CHARS else f"{text[: MAX_ERROR_CHARS - _END_CHARS - 1]}…{text[-_END_CHARS:]}"
        )


class InvalidInput(AgentMemoryError, ValueError):
    """An argument has a value that this operation cannot accept."""


class LimitExceeded(InvalidInput):
    """A value exceeds a limit. Pass less, or raise the limit with AgentMemory(..., limits=...)."""


class MessageError(InvalidInput):
    """A message is malformed, or no message has this id."""


class Outdated(InvalidInput):
    """The value has changed meanwhile. Read it again, then correct it."""


class StorageError(AgentMemoryError):
    """The database operation failed. Nothing was written."""


class DatabaseUnreadable(StorageError):
    """The file is not a database, or it is damaged. Restore it from a backup."""


class ForeignDatabase(StorageError):
    """The database belongs to another program. Use a separate file or database for langchain-agentmem."""


class NewerDatabase(StorageError):
    """The database was written by a newer version of langchain-agentmem. Upgrade the package to open it."""


class DatabaseReadOnly(StorageError):
    """The database cannot be written. Check the permissions of the file and its folder."""


class NothingStored(DatabaseReadOnly):
    """No memory is stored here, and none may be created. Check the address, or run: agentmem migrate DATABASE."""


class DatabaseFull(StorageError):
    """The database has no space left. Free some space and try again. Nothing was written."""


class DatabaseBusy(StorageError):
    """Another process locked the database for too long. Try again, or increase busy_timeout."""


class DatabaseTimeout(StorageError):
    """The database did not answer in time. Try again, or increase timeout. Nothing was written."""


class CheckpointUnreadable(StorageError):
    """A checkpoint is damaged, or was written with another serializer."""


class BranchMoved(StorageError):
    """Another writer changed the conversation at the same time. Read it again and retry."""


class StepIsOver(AgentMemoryError):
    """This attempt of the task has ended.

    Another attempt replaced it, its checkpoint was stored, or its thread was deleted. Nothing was written.
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
    """Return whether an error is LangGraph's `GraphBubbleUp`, which is not a failure.

    LangGraph raises it to leave a node, for example for `interrupt`.
    """
    langgraph_errors = sys.modules.get("langgraph.errors")  # loaded if a graph runs in this process
    return langgraph_errors is not None and isinstance(error, langgraph_errors.GraphBubbleUp)
