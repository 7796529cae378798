"""Whose memory a model uses, where that is known only when it does: that of the thread it runs in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from langchain_agentmem.base.namespaces import id_of, path_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage.database import Database, database_of

M = TypeVar("M")

_NO_THREAD = (
    "There is no memory to use: this run has no thread_id. Whoever runs the agent gives it one with "
    'config={"configurable": {"thread_id": …}}, or names a branch when the tools are made.'
)


class Whose(Generic[M]):
    """A memory of one kind, or how to find it.

    Args:
        kind: Which: `LayeredMemory` or `KGMemory`.
        part: The method of an `AgentMemory` that hands it out.
        memory: One of this kind; or an `AgentMemory`, or the path or URL of a database.
        where: The name of a branch, or a config that names a thread. Default: the thread of the run that asks.
        namespace: Whose it is. Default: that of the run.
        options: What else both take: settings, and the model that sums up.

    Raises:
        InvalidInput: An argument is wrong.
    """

    def __init__(
        self,
        kind: type[M],
        part: str,
        memory: Any,
        where: str | Mapping[str, Any] | None = None,
        namespace: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        if isinstance(where, str):
            id_of(where, "branch")
        elif where is not None and not isinstance(where, Mapping):
            raise InvalidInput(
                f"Memory is that of a branch or a thread: give a name or a config, not {safe_repr(where)}."
            )
        if not isinstance(memory, kind):
            database_of(memory)
        elif where is not None or namespace is not None:
            raise InvalidInput(
                f"A {kind.__name__} is somebody's already: give the AgentMemory, or no branch and namespace."
            )
        if namespace is not None:
            path_of(namespace)
        self._kind = kind
        self._part = part
        self._memory = memory
        self._where = where
        self._namespace = namespace
        self._options = options

    @property
    def shows_content(self) -> bool:
        """Whether traces show content as it is; of a database that is not open yet they do."""
        ground = getattr(self._memory, "facts_ground", self._memory)
        database = getattr(ground, "database", ground)
        return not isinstance(database, Database) or database.tracing.shows_content

    def memory(self, config: Mapping[str, Any]) -> M:
        """The memory that is meant in a run.

        Args:
            config: The run's config.

        Raises:
            InvalidInput: The run has no thread, and no branch was named.
        """
        if isinstance(self._memory, self._kind):
            return self._memory
        where = config if self._where is None else self._where
        part = getattr(self._memory, self._part, None)
        if not isinstance(where, str):
            if (where.get("configurable") or {}).get("thread_id") is None:
                raise InvalidInput(_NO_THREAD)
            if part is None:
                raise InvalidInput("The memory of a thread is that of an AgentMemory: give one, not its path.")
        make: Callable[..., M] = self._kind
        make = partial(make, self._memory) if part is None else part
        return make(where, namespace=self._namespace, **self._options)
