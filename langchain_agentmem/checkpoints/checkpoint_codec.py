"""The conversion between LangGraph's checkpoints and the thread log.

- `parse_config` returns the thread and checkpoint that a config names. `report_damage` and `report_unstorable` raise
  errors that name the thread.
- `make_serializer` determines which classes a serializer may import. LangGraph's serializer writes an object as the
  name of its class with plain data. By default, deserialization imports any class that the data names. So a person who
  can write to the database can make this process import modules and call their classes. A strict serializer imports
  only the classes that LangGraph considers safe and the classes on the serializer's allowlist.
- `CheckpointCodec` splits values into *parts*, such as single messages, which are stored once. The *recipe* of a value
  lists its parts. The *header* is a checkpoint without its values and channel versions.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache, partial
from itertools import islice
from typing import Any, TypeAlias
from uuid import UUID

import ormsgpack
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, PendingWrite, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from langchain_agentmem.base import concurrency, namespaces
from langchain_agentmem.base.concurrency import PerProcess
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.errors import AgentMemoryError, CheckpointUnreadable, InvalidInput, safe_repr
from langchain_agentmem.rewinding.graph_runs import parse_thread_key
from langchain_agentmem.storage.part import CheckpointMessage
from langchain_agentmem.threads import checkpoint_log, value_store
from langchain_agentmem.threads.checkpoint_log import StoredCheckpoint, pack_header, short_versions, unpack_header
from langchain_agentmem.threads.thread_rows import ROOT_NS, DeletedThread, Thread
from langchain_agentmem.threads.value_codec import VALUE_PREFIX, MessageCache, ValueDraft, ValueReader, sharing_level
from langchain_agentmem.threads.value_store import DamagedValue, Recipe, StoredPart, StorePosition, StoreWriter

logger = logging.getLogger(__name__)


def make_serializer(*, strict: bool) -> JsonPlusSerializer:
    """Return LangGraph's own serializer.

    Args:
        strict: True to import only the classes that LangGraph considers safe. False for LangGraph's default, which is
            strict only if the environment variable LANGGRAPH_STRICT_MSGPACK has a value such as "true".
    """
    return JsonPlusSerializer(allowed_msgpack_modules=None) if strict else JsonPlusSerializer()


_PRESERVED_TYPES = frozenset({bool, bytes, float, int, str, type(None)})
_MAX_CHECKED_VALUES, _MAX_CHECKED_PER_LIST = 64, 4
"""The maximum numbers of values whose types are checked: in a channel, and in each of its lists and tuples."""


def warn_of_lost_types(value: Any) -> None:
    """Log a warning, once per type, if LangGraph's serializer loses the type of a value.

    The first few nested values of dictionaries, lists and tuples are checked too.
    """
    pending, remaining = [value], _MAX_CHECKED_VALUES
    while pending and remaining:
        element, remaining = pending.pop(), remaining - 1
        value_type = type(element)
        if value_type is dict:
            pending += islice(element.values(), remaining)
        elif value_type in (list, tuple):
            pending += element[:_MAX_CHECKED_PER_LIST]
        elif value_type not in _PRESERVED_TYPES and (value_type is not deque or element.maxlen is not None):
            _warn_of_type(value_type)  # type: ignore[arg-type]  # classes are hashable


@lru_cache(256)
def _warn_of_type(cls: type) -> None:
    module, name = cls.__module__, cls.__name__
    if cls is deque:
        restored_as = "a deque without its maxlen"
    elif issubclass(cls, dict | list):
        restored_as = "a plain dict or list"
    elif issubclass(cls, BaseException) or (issubclass(cls, int | str) and not issubclass(cls, Enum)):
        return  # LangGraph stores errors as strings; losing a subclass of string or number does no harm
    elif getattr(cls, "__pydantic_generic_metadata__", {}).get("args"):
        restored_as = "plain data in a process that has not created this type yet"
    elif getattr(sys.modules.get(module), name, None) is not cls:
        restored_as = "plain data, since no module has the class under this name"
    else:
        return
    if module.partition(".")[0] not in ("langchain_core", "langgraph"):
        logger.warning("Values of the type %s.%s come back from a checkpoint as %s.", module, name, restored_as)


@contextmanager
def report_damage(at: ThreadKey, checkpoint_id: str | None, *, decoding: bool = False) -> Iterator[None]:
    """Raise `CheckpointUnreadable` that names the checkpoint if the block finds damage.

    Args:
        at: The thread.
        checkpoint_id: The id. With None, the error names the checkpoint of the `DamagedValue`, else the newest one.
        decoding: True for a block that runs the serializer, in which every error is damage. Default: False: only a
            `DamagedValue` is damage.
    """
    try:
        yield
    except AgentMemoryError:
        raise
    except Exception as error:
        if not decoding and not isinstance(error, DamagedValue):
            raise
        checkpoint_id = checkpoint_id or getattr(error, "checkpoint", None)
        label = "newest checkpoint" if checkpoint_id is None else f"checkpoint {safe_repr(checkpoint_id)}"
        raise CheckpointUnreadable(
            f"The {label} of the thread {safe_repr(at.name)} cannot be read: it is damaged, or was "
            f"written with another serializer ({type(error).__name__}: {error})."
        ) from error


@contextmanager
def report_unstorable(at: ThreadKey, kind: str, name: str | None = None) -> Iterator[None]:
    """Raise `InvalidInput` that names thread and object if the block cannot serialize a value.

    Args:
        at: The thread.
        kind: The kind of the written object, such as "channel".
        name: The name of the object; None if it has no name.
    """
    try:
        yield
    except AgentMemoryError:
        raise
    except Exception as error:
        label = kind if name is None else f"{kind} {safe_repr(name)}"
        raise InvalidInput(
            f"The {label} of the thread {safe_repr(at.name)} contains a value that cannot be stored "
            f"({type(error).__name__}: {error})."
        ) from error


def parse_config(
    config: RunnableConfig, scopes: namespaces.Scopes, *, whole_thread: bool = False
) -> tuple[ThreadKey, Any, str | None]:
    """Return the thread, checkpoint namespace and checkpoint id that a config names.

    Args:
        config: The config.
        scopes: The rules that resolve a config to its namespace.
        whole_thread: True to return None (all checkpoint namespaces) if the config names no checkpoint namespace.
            Default: False: return the root namespace.

    Raises:
        InvalidInput: The config names no thread, or has an invalid id.
    """
    configurable = namespaces.configurable_of(namespaces.check_config(config))
    at = parse_thread_key(config, scopes)
    ns = configurable.get("checkpoint_ns")
    if ns is None and not whole_thread:
        ns = ROOT_NS
    checkpoint_id = configurable.get("checkpoint_id")
    checkpoint_id = None if checkpoint_id is None else check_id(checkpoint_id, "checkpoint", empty=True)
    return at, ns if ns is None else check_id(ns, "subgraph", empty=True), checkpoint_id or None


def check_id(value: Any, kind: str, *, empty: bool = False) -> str:
    """Check an id from LangGraph, and return it as a string.

    Args:
        value: The id.
        kind: The kind of the object that has the id, for the error.
        empty: True to allow an empty string. Default: False.

    Raises:
        InvalidInput: The id is not a string or UUID, or a database cannot store it.
    """
    if isinstance(value, UUID):
        value = str(value)
    if not isinstance(value, str) or "\0" in value or not (value or empty):
        raise InvalidInput(f"{safe_repr(value)} cannot be the id of a {kind}.")
    return value


def check_checkpoint(checkpoint: Any, metadata: Any, new_versions: Any) -> None:
    """Check the arguments of a checkpointer's `put`.

    Raises:
        InvalidInput: An argument is not a mapping, or the checkpoint lacks a valid id, channel values or versions.
    """
    for field, value in (("checkpoint", checkpoint), ("metadata", metadata), ("new_versions", new_versions)):
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{field} must be a dictionary, not {safe_repr(value)}.")
    check_id(checkpoint.get("id"), "checkpoint")
    for field in ("channel_values", "channel_versions"):
        if not isinstance(checkpoint.get(field), Mapping):
            raise InvalidInput(f"{field} of a checkpoint must be a dictionary, not {safe_repr(checkpoint.get(field))}.")


def read_message(part: StoredPart, serde: SerializerProtocol) -> CheckpointMessage | None:
    """Return the id and the message in a part; None if the part is not a message.

    Args:
        part: A part of a stored value, such as an element of a list.
        serde: The serializer, for messages of user-defined classes.
    """
    if part.form == value_store.MESSAGE_FORM:
        return part.name, part.body
    if not part.form.startswith(VALUE_PREFIX):
        return None
    value = serde.loads_typed((part.form.removeprefix(VALUE_PREFIX), part.body))
    return (value.id, value) if isinstance(value, BaseMessage) else None


def check_list(values: Any, kind: str) -> list[Any]:
    """Check that a value is iterable, and return its elements as a list.

    Raises:
        InvalidInput: The value is not iterable, or is a string or bytes, which would be split into characters.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidInput(f"Give a list of {kind}s, not {safe_repr(values)}.")
    return list(values)


def check_writes(writes: Any) -> list[tuple[Any, Any]]:
    """Check the writes of a task, and return them as a list.

    Raises:
        InvalidInput: The value is not iterable, or an element is not a pair of channel and value.
    """
    checked = check_list(writes, "write")
    for pair in checked:
        if not isinstance(pair, tuple | list) or len(pair) != 2:  # noqa: PLR2004 - a pair
            raise InvalidInput(f"writes must be pairs of a channel and a value, not {safe_repr(pair)}.")
    return checked


def make_config(thread_id: Any, path: str, ns: str, checkpoint_id: str, scopes: namespaces.Scopes) -> RunnableConfig:
    """Return the config of a checkpoint, with the keys that name the namespace of its thread.

    Args:
        thread_id: The id of the thread.
        path: The path of the thread's namespace.
        ns: The checkpoint namespace; empty for the thread's own graph.
        checkpoint_id: The id of the checkpoint.
        scopes: The rules that resolve configs to their namespace.
    """
    configurable = scopes.keys_of(path) | {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    if path:
        configurable[namespaces.CONFIG_KEY] = namespace = namespaces.namespace_of(path)
        if isinstance(thread_id, str):
            configurable["thread_id"] = namespaces.ThreadId(thread_id, namespace)
    return {"configurable": configurable}


MAX_CACHED_THREADS = 1_024
"""The maximum number of threads in the cache of a `CheckpointCodec`."""

ValueRows: TypeAlias = list[dict[str, object]]
"""The row of each value to store, as a mapping of column names. The column of the recipe is added later."""


class CheckpointCodec:
    """The codec of a saver's checkpoints, with caches of messages and threads.

    A saver and its shallow copies share one codec.

    Args:
        scopes: The rules that resolve configs to their namespace.

    Attributes:
        message_cache: The messages that were read or stored recently.
        threads: The threads as last read. The `ns_id` of a thread is that of its root checkpoint namespace, or None.
    """

    _threads_lock = PerProcess(threading.Lock)

    def __init__(self, scopes: namespaces.Scopes = namespaces.Scopes()) -> None:  # noqa: B008 - a value
        self.scopes = scopes
        self.message_cache = MessageCache()
        self.threads: dict[ThreadKey, Thread] = {}

    def plan_write(
        self,
        serde: SerializerProtocol,
        at: ThreadKey,
        rows: ValueRows,
        values: Sequence[tuple[str, Any]],
        *,
        for_channels: bool,
    ) -> checkpoint_log.WritePlan:
        """Split values into parts before the transaction, and plan which parts to store.

        The plan relies on the parts that the database is known to have. If some of these parts were deleted, the
        transaction splits the values again, as they are at that time.

        Args:
            serde: The serializer.
            at: The thread.
            rows: The row of each value, without its recipe.
            values: The pairs of channel and value.
            for_channels: True for the values of channels, False for pending writes. Parts of lists in channels
                are numbered consecutively, because such lists grow.

        Raises:
            InvalidInput: The serializer refuses a value.
        """
        last_seen = self.threads.get(at)

        def split_values(store: StorePosition | None) -> tuple[ValueDraft, list[Recipe]]:
            draft = ValueDraft(serde, self.message_cache, store, for_channels=for_channels)
            recipes = []
            for channel, value in values:
                with report_unstorable(at, "channel", channel):
                    recipes.append(draft.make_recipe(value))
            return draft, recipes

        if sharing_level(serde):  # LangGraph's serializer, whose losses are known
            for _, value in values:
                warn_of_lost_types(value)
        return checkpoint_log.WritePlan(*split_values(last_seen and last_seen.store), rows, split_values, last_seen)

    def note_stored(
        self, at: ThreadKey, ns: str, thread: Thread, plan: checkpoint_log.WritePlan, writer: StoreWriter | None
    ) -> None:
        """Mark messages, once they are committed, with their part numbers; cache the thread."""
        if writer is not None:
            plan.draft.stamp_messages(thread.store, writer.numbers, writer.moves)
        self._cache_thread(at, ns, thread)

    def forget(self, deleted: Iterable[DeletedThread] | None = None) -> None:
        """Remove threads from the caches.

        Args:
            deleted: The deleted threads. Default: all threads.
        """
        with self._threads_lock:
            if deleted is None:
                self.threads.clear()
                self.message_cache.forget()
            for at, store_id in deleted or ():
                self.threads.pop(at, None)
                self.threads.pop(at._replace(path=""), None)  # a call without a namespace may have found the thread
                self.message_cache.forget(store_id)

    def _cache_thread(self, at: ThreadKey, ns: str, thread: Thread) -> None:
        with self._threads_lock:
            cached = self.threads.get(at)
            if ns != ROOT_NS:
                thread = thread._replace(ns_id=cached.ns_id if cached is not None and cached.id == thread.id else None)
            if len(self.threads) >= MAX_CACHED_THREADS:
                self.threads.clear()
            self.threads[at] = thread

    def prepare_checkpoint(
        self,
        serde: SerializerProtocol,
        at: ThreadKey,
        checkpoint: dict[str, Any],
        metadata: Mapping[str, Any],
        parent: str | None,
        values: Mapping[str, Any],
    ) -> checkpoint_log.Checkpoint:
        """Serialize the header and the metadata of a checkpoint; return its row.

        Args:
            serde: The serializer.
            at: The thread.
            checkpoint: The checkpoint.
            metadata: The metadata of the checkpoint.
            parent: The id of the parent checkpoint.
            values: The new values, by channel.

        Raises:
            InvalidInput: The serializer refuses a value.
        """
        run_id = metadata.get("run_id")
        # LangGraph adds the counters for graphs with DeltaChannels. Step -2 marks an empty checkpoint before the first.
        has_counters = "counters_since_delta_snapshot" in metadata or metadata.get("step") == -2  # noqa: PLR2004
        with report_unstorable(at, "checkpoint"):
            versions = short_versions(checkpoint)
            return checkpoint_log.Checkpoint(
                name=check_id(checkpoint["id"], "checkpoint"),
                parent=parent,
                run_id=None if run_id is None else str(run_id),
                versions=versions,
                header=_encode_blob(serde, pack_header(checkpoint, versions), as_json(versions)),
                metadata=_encode_blob(serde, metadata),
                delta=has_counters or any(type(value) is _DeltaSnapshot for value in values.values()),
            )

    def make_tuple(
        self, serde: SerializerProtocol, saved: StoredCheckpoint, thread_id: Any, at: ThreadKey, ns: str
    ) -> CheckpointTuple:
        """Return LangGraph's tuple of a stored checkpoint.

        Args:
            serde: The serializer.
            saved: The stored checkpoint.
            thread_id: The id of the thread, as the caller passed it.
            at: The thread.
            ns: The checkpoint namespace.

        Raises:
            CheckpointUnreadable: The checkpoint is damaged, or was written with another serializer.
        """
        self._cache_thread(at, ns, saved.thread)
        reader = ValueReader(serde, self.message_cache, saved.thread.store, saved.parts)
        with report_damage(at, saved.name, decoding=True), concurrency.pause_gc():
            values = {
                channel: reader.read_value(saved.values[channel])
                for channel in saved.versions
                if channel in saved.values
            }
            header = decode_blob(serde, saved.header, as_json(saved.versions))
            checkpoint: Any = unpack_header(header, saved.versions, saved.name, values)
            metadata = decode_blob(serde, saved.metadata)
            writes = read_writes(saved.writes, reader)
        make_config_of = partial(make_config, thread_id, saved.thread.path, ns, scopes=self.scopes)
        parent_config = None if saved.parent is None else make_config_of(saved.parent)
        return CheckpointTuple(make_config_of(saved.name), checkpoint, metadata, parent_config, writes)


_MSGPACK_PREFIX = b"\xc1"
"""The byte before data of the type "msgpack". Other data is stored in a packed list, which begins with other bytes."""


def decode_blob(serde: SerializerProtocol, blob: bytes, extra_text: str = "") -> Any:
    """Decode the header or the metadata of a checkpoint.

    Args:
        serde: The serializer.
        blob: The stored bytes, which begin with a checksum.
        extra_text: The separately stored text that the checksum also covers.

    Raises:
        DamagedValue: The checksum does not match.
        Exception: The serializer cannot read the bytes; its error may have any type.
    """
    data = value_store.strip_checksum(blob, extra_text)
    if data.startswith(_MSGPACK_PREFIX):
        return serde.loads_typed(("msgpack", data[1:]))
    return serde.loads_typed(tuple(ormsgpack.unpackb(data)))


def _encode_blob(serde: SerializerProtocol, value: Any, extra_text: str = "") -> bytes:
    """Encode the header or the metadata of a checkpoint, with a checksum; see `decode_blob`."""
    type_name, data = serde.dumps_typed(value)
    packed = _MSGPACK_PREFIX + data if type_name == "msgpack" else ormsgpack.packb([type_name, bytes(data)])
    return value_store.add_checksum(packed, extra_text)


def read_writes(writes: Sequence[checkpoint_log.TaskWrite], reader: ValueReader) -> list[PendingWrite]:
    """Read the values of pending writes, in the order in which LangGraph applies them."""
    ordered = sorted(writes, key=lambda write: writes_sort_key(write.path, write.task, write.idx))
    return [(write.task, write.channel, reader.read_value(write.recipe)) for write in ordered]
