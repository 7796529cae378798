"""What a config names, and errors that name it too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig

from langchain_agentmem.base.namespaces import (
    CONFIG_KEY,
    config_given,
    configurable_of,
    id_of,
    namespace_of,
    path_of,
    resolve,
)
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.checkpoints import state_classes
from langchain_agentmem.errors import AgentMemoryError, CheckpointUnreadable, InvalidInput
from langchain_agentmem.threads.thread_lines import OWN_LINE, ThreadAt
from langchain_agentmem.threads.value_recipe import Damaged

PAIR = 2


_PAIR = 2


class readable:  # noqa: N801 - it reads as a function
    """A block in which damage becomes an error that names the thread and the checkpoint.

    Args:
        at: The thread.
        name: The checkpoint's id; None for the newest.
        decoding: Whether the serializer is at work, all of whose errors are damage.
    """

    def __init__(self, at: ThreadAt, name: str | None, *, decoding: bool = False) -> None:
        self._at, self._name = at, name
        self._decoding = decoding

    def __enter__(self) -> None:
        state_classes.reading.ours = self._decoding

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state_classes.reading.ours = False
        if isinstance(error, Exception if self._decoding else Damaged) and not isinstance(error, AgentMemoryError):
            name = self._name or getattr(error, "checkpoint", None)
            which = "newest checkpoint" if name is None else f"checkpoint {safe_repr(name)}"
            raise CheckpointUnreadable(
                f"The {which} of the thread {safe_repr(self._at.name)} cannot be read: it is damaged, or was "
                f"written with another serializer ({type(error).__name__}: {error})."
            ) from error


class storable:  # noqa: N801 - it reads as a function
    """A block in which what the serializer refuses becomes an error that names the thread and the place.

    Args:
        at: The thread.
        what: What is being written.
    """

    def __init__(self, at: ThreadAt, what: str) -> None:
        self._at, self._what = at, what

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, AgentMemoryError):
            raise InvalidInput(
                f"The {self._what} of the thread {safe_repr(self._at.name)} holds what cannot be stored "
                f"({type(error).__name__}: {error})."
            ) from error


def address(config: RunnableConfig, *, whole_thread: bool = False) -> tuple[ThreadAt, Any, str | None]:
    """The thread, line and checkpoint that a config names.

    Args:
        config: The config.
        whole_thread: Where no line is named, none is meant; else the thread's own.

    Raises:
        InvalidInput: It names no thread, or something that cannot be an id.
    """
    configurable = configurable_of(config_given(config))
    if "thread_id" not in configurable:
        raise InvalidInput('A checkpointer needs config["configurable"]["thread_id"].')
    at = ThreadAt(path_of(resolve(None, config)), id_of(configurable["thread_id"], "thread"))
    ns = configurable.get("checkpoint_ns")
    if ns is None and not whole_thread:
        ns = OWN_LINE
    name = configurable.get("checkpoint_id")
    name = None if name is None else text_of(name, "checkpoint", empty=True)
    return at, ns if ns is None else text_of(ns, "subgraph", empty=True), name or None


def text_of(value: Any, what: str, *, empty: bool = False) -> str:
    """Check an id that LangGraph made.

    Raises:
        InvalidInput: It is no text, or one that no database can keep.
    """
    if isinstance(value, UUID):
        value = str(value)
    if not isinstance(value, str) or "\0" in value or not (value or empty):
        raise InvalidInput(f"{safe_repr(value)} cannot be the id of a {what}.")
    return value


def check_checkpoint(checkpoint: Any, metadata: Any, new_versions: Any) -> None:
    """Check what a checkpointer is to put.

    Raises:
        InvalidInput: It is no checkpoint, or what goes with it is no dictionary.
    """
    for what, given in (("checkpoint", checkpoint), ("metadata", metadata), ("new_versions", new_versions)):
        if not isinstance(given, Mapping):
            raise InvalidInput(f"{what} must be a dictionary, not {safe_repr(given)}.")
    text_of(checkpoint.get("id"), "checkpoint")
    for what in ("channel_values", "channel_versions"):
        if not isinstance(checkpoint.get(what), Mapping):
            raise InvalidInput(f"A checkpoint has a dictionary of {what}, not {safe_repr(checkpoint.get(what))}.")


def listed(values: Any, what: str) -> list[Any]:
    """Check that several of something are given.

    Raises:
        InvalidInput: It is no list, or a single text, each letter of which would be taken for one of them.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidInput(f"Give a list of {what}s, not {safe_repr(values)}.")
    return list(values)


def pairs(writes: Any) -> list[tuple[Any, Any]]:
    """Check what a task wrote.

    Raises:
        InvalidInput: It is no list of channels with values.
    """
    given = listed(writes, "write")
    for each in given:
        if not isinstance(each, tuple | list) or len(each) != PAIR:
            raise InvalidInput(f"writes must be pairs of a channel and a value, not {safe_repr(each)}.")
    return given


def config_of(thread_id: Any, path: str, ns: str, name: str) -> RunnableConfig:
    """The config that names a checkpoint, and the namespace of its thread."""
    configurable = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": name}
    if path:
        configurable[CONFIG_KEY] = namespace_of(path)
    return {"configurable": configurable}
