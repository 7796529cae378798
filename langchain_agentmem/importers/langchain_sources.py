"""Readers for other LangGraph and LangChain packages: threads with checkpoints, items, and chat histories.

A `SqliteStore` or `PostgresStore` is read from its tables, with times and ends; any other store through its own
methods. The memories of langmem are items of such a store, in their own form.

Chat histories are what `RunnableWithMessageHistory` stores: tables of `SQLChatMessageHistory`, files of
`FileChatMessageHistory`. A table has a row for each message, with "session_id" and "message", LangChain's own form as
JSON. So has that of `PostgresChatMessageHistory`, which also has the time of each message. A file is a list in the same
form; its name is taken for the id of the conversation.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import logging
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.messages import messages_from_dict
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import BaseStore

from langchain_agentmem.checkpoints.checkpoint_saver import AgentMemorySaver, refusal
from langchain_agentmem.conversations.log_entries import entry_of, message_of
from langchain_agentmem.conversations.message_log import LogEntry
from langchain_agentmem.errors import InvalidInput, MessageError, MissingExtra, safe_repr
from langchain_agentmem.importers import parcels
from langchain_agentmem.storage import is_postgres, name_of
from langchain_agentmem.storage.foreign_tables import ForeignTables, columns_in, foreign_tables, read_only
from langchain_agentmem.storage.transfer import PAGE, pages
from langchain_agentmem.stores import item_rows, item_search
from langchain_agentmem.stores.item_rows import ItemDraft, ItemPlace, ItemTimes

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory

CHECKPOINTS_AT_ONCE = 100
"""Checkpoints that are held in memory when a stock saver is listed."""

_Row = Mapping[str, Any]


def read_saver(source: Any, to: parcels.ImportTarget) -> Generator[parcels.Thing]:
    """Yield the threads of a saver of another package.

    Args:
        source: The file of a SqliteSaver, the URL of a PostgresSaver, or any saver.
        to: The target.

    Raises:
        InvalidInput: The source does not exist, or cannot be read.
        MissingExtra: The saver's package is not installed.
    """
    if isinstance(source, BaseCheckpointSaver):
        awaited = " A saver that can only be awaited is imported by memory.checkpointer.aimport_checkpoints."
        with _readable(safe_repr(source), awaited):
            counts = Counter(str(each.config["configurable"]["thread_id"]) for each in source.list(None))
        yield from _threads(source, counts, to)
        return
    given = parcels.path_or_url(source)
    with foreign_tables(given) as tables:
        if not tables.columns.get("checkpoints", frozenset()) >= {"thread_id", "checkpoint_ns", "checkpoint_id"}:
            raise InvalidInput(f"{tables.name} has no table of checkpoints, as LangGraph's savers have.")
        stored = tables.counts("checkpoints", "thread_id")
    with open_source(str(given), allow=to.allow) as saver:
        yield from _threads(saver, stored, to)


def _threads(
    saver: BaseCheckpointSaver[Any], counts: Mapping[Any, int], to: parcels.ImportTarget
) -> Iterator[parcels.Thing]:
    for thread, count in counts.items():
        what, build = f"the thread {safe_repr(thread)}", partial(_thread, saver, str(thread), count)
        told = (each.metadata for each in _checkpoints(saver, str(thread)))
        found = [*parcels.owned(to, thread, what, count, build, told=told, holds="checkpoints")]
        del told  # ends the listing, for which a saver may hold a lock, before the thread is listed to be copied
        yield from found


def _thread(
    saver: BaseCheckpointSaver[Any], thread: str, count: int, home: parcels.ImportTarget
) -> parcels.ImportBatch:
    """Return the batch of a thread, each checkpoint of which is written separately."""
    what = f"the thread {safe_repr(thread)}"

    def store(memory: AgentMemory, *, dry_run: bool) -> tuple[int, int]:
        ours = (memory.within(home.namespace) if home.namespace else memory).checkpointer
        if dry_run:
            return parcels.whole(what, partial(_rehearsed, ours, saver, thread))
        done = parcels.whole(what, partial(ours.import_checkpoints, saver, thread_ids=[thread]))
        for reason in done.left_out.values():
            raise InvalidInput(reason)
        return done.checkpoints, done.known

    place = parcels.ThreadTarget(id=thread, namespace=home.namespace)
    return parcels.ImportBatch(holds="checkpoints", what=what, count=count, store=store, place=place)


def _rehearsed(ours: AgentMemorySaver, saver: BaseCheckpointSaver[Any], thread: str) -> tuple[int, int]:
    new, configs = [], []
    for each in _checkpoints(saver, thread):
        configs.append(each.config)
        new.append(ours.adopt(each, dry_run=True))
    if configs and (reason := refusal(ours.database, configs)) is not None:
        raise InvalidInput(reason)
    return new.count(True), new.count(False)


def _checkpoints(saver: BaseCheckpointSaver[Any], thread: str) -> Iterator[CheckpointTuple]:
    return saver.list({"configurable": {"thread_id": thread}})


def read_store(source: Any, to: parcels.ImportTarget) -> Generator[parcels.Thing]:
    """Yield the items of a store of another package; for kind langmem, only langmem's.

    Args:
        source: The file of a SqliteStore, the URL of a PostgresStore, or any store.
        to: The target. Items keep their namespaces, below that of the import.

    Raises:
        InvalidInput: The source does not exist, or is no store.
    """
    if isinstance(source, BaseStore):
        yield from _items(_through_methods(source), to)
        return
    with foreign_tables(parcels.path_or_url(source)) as tables:
        if not tables.columns.get("store", frozenset()) >= {"prefix", "key", "value"}:
            raise InvalidInput(f"{tables.name} has no table of items, as LangGraph's stores have.")
        rows = ({**row, "namespace": row["prefix"].split(".")} for row in tables.rows("store", "prefix", "key"))
        yield from _items(rows, to)


def _through_methods(store: BaseStore) -> Iterator[_Row]:
    """Yield all items of a store, each page sorted by namespace."""
    offset = 0
    while True:
        with _readable(safe_repr(store)):
            page = store.search((), limit=PAGE, offset=offset, refresh_ttl=False)
        if not page:
            return
        offset += len(page)
        for each in sorted(page, key=lambda item: tuple(item.namespace)):
            yield {name: getattr(each, name) for name in ("namespace", "key", "value", "created_at", "updated_at")}


def _items(rows: Iterator[_Row], to: parcels.ImportTarget) -> Iterator[parcels.Thing]:
    for namespace, group in groupby(rows, lambda row: list(row["namespace"])):
        for page in pages(group if to.wants(*namespace) else ()):
            drafts: dict[ItemPlace, ItemDraft] = {}
            for row in page:
                try:
                    at, draft = _drafted(row, namespace, to)
                    drafts[at] = draft
                except parcels.MALFORMED as error:
                    what = f"the item {safe_repr(row['key'])} in {parcels.where(to, *namespace)}"
                    yield parcels.SkippedEntry(what, parcels.why(error), holds="items")
            if drafts:
                what = f"items in {parcels.where(to, *namespace)}"
                yield parcels.written("items", what, len(drafts), to.path(*namespace), _added(drafts))


def _added(drafts: Mapping[ItemPlace, ItemDraft]) -> parcels.Make:
    return lambda tx, now: range(item_search.add_new(tx, drafts, now=now))


def _is_of_langmem(value: Any) -> bool:
    return isinstance(value, Mapping) and "content" in value and ("kind" in value or isinstance(value["content"], str))


def _drafted(row: _Row, namespace: Sequence[str], to: parcels.ImportTarget) -> tuple[ItemPlace, ItemDraft]:
    at = ItemPlace(to.path(*namespace), item_rows.key_of(row["key"]))
    value = json.loads(row["value"]) if isinstance(row["value"], str | bytes) else row["value"]
    data = item_rows.written(value)
    created = parcels.time_of(row.get("created_at"), to.now)
    end = None if row.get("expires_at") is None else parcels.time_of(row["expires_at"], to.now)
    times = ItemTimes(created, parcels.time_of(row.get("updated_at"), created), end)
    minutes = row.get("ttl_minutes")
    draft = ItemDraft(data, item_rows.ttl_of(minutes), item_rows.text_of(value, data), None, times)
    if end is not None and end <= to.now:
        raise InvalidInput("it has expired.")
    if to.kind == "langmem" and not _is_of_langmem(value):
        raise InvalidInput("it is none of langmem's, which have kind and content: langgraph-store brings all items.")
    return at, draft._replace(source="import", actor=to.kind)


# -- stock savers --------------------------------------------------------------------------------------------------


@contextmanager
def open_source(source: str, *, allow: Sequence[str] = ()) -> Iterator[BaseCheckpointSaver[Any]]:
    """Open the checkpoints of a stock saver for reading.

    Only classes that LangGraph considers safe and those allowed by name are imported. An object of any other class
    would be read as plain data, so it is an error.

    Args:
        source: The file of a SqliteSaver, or the URL or connection string of a PostgresSaver.
        allow: Classes to import, as "module.Class".

    Raises:
        InvalidInput: The file, server or class does not exist, or the source has no checkpoints of that saver. While
            reading: a checkpoint cannot be read, or contains objects of another class.
        MissingExtra: The saver's package is not installed.
    """
    serde = JsonPlusSerializer(allowed_msgpack_modules=[_class_named(name) for name in allow] or None)
    kind, opened = ("PostgresSaver", _postgres) if is_postgres(name_of(source)) else ("SqliteSaver", _sqlite)
    with ExitStack() as stack, _refused_classes() as refused:
        try:
            saver, name = opened(source, stack)
        except ImportError as error:
            raise MissingExtra(f"Importing from a {kind}", "import") from error
        saver.serde = serde
        yield _StockSaver(saver, name, refused)


class _StockSaver(BaseCheckpointSaver[Any]):
    """A stock saver that is read in pages of checkpoints, and raises `InvalidInput`."""

    def __init__(self, saver: BaseCheckpointSaver[Any], name: str, refused: set[str]) -> None:
        super().__init__(serde=saver.serde)
        self._saver, self._name, self._refused = saver, name, refused

    def list(self, config: RunnableConfig | None, **others: Any) -> Iterator[CheckpointTuple]:
        """Yield checkpoints. Copied threads share ids, so each page repeats the last id."""
        del others
        edge: RunnableConfig | None = None
        known: list[RunnableConfig] = []
        while True:
            with _readable(self._name):
                listed = self._saver.list(config, before=edge, limit=CHECKPOINTS_AT_ONCE + len(known))
                page = [self._checked(each) for each in listed]
            fresh = [each for each in page if each.config not in known]
            if not fresh:
                return
            yield from fresh
            last = page[-1].checkpoint["id"]
            known = [each.config for each in page if each.checkpoint["id"] == last]
            edge = {"configurable": {"checkpoint_id": f"{last}~"}}

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        with _readable(self._name):
            found = self._saver.get_tuple(config)
            return found and self._checked(found)

    def _checked(self, found: CheckpointTuple) -> CheckpointTuple:
        if self._refused:
            thread, classes = found.config["configurable"]["thread_id"], sorted(self._refused)
            self._refused.clear()
            raise InvalidInput(
                f"The thread {safe_repr(thread)} holds objects of the class {classes[0]}, which would "
                f"come as plain data. If you trust what the database says, give allow={classes}, "
                f"or to the command: --allow {' --allow '.join(classes)}"
            )
        return found


@contextmanager
def _readable(name: str, advice: str = "") -> Iterator[None]:
    """Convert any exception of a foreign saver or store into `InvalidInput`."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:  # it is theirs, whatever it is
        raise InvalidInput(f"{name} cannot be read ({type(error).__name__}: {error}).{advice}") from error


@contextmanager
def _refused_classes() -> Iterator[set[str]]:
    """Collect the names of the classes that the serializer refuses to import."""
    refused: set[str] = set()

    def listen(event: SerdeEvent) -> None:
        if event["kind"].endswith("blocked"):
            refused.add(f"{event['module']}.{event['name']}")

    def is_other(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Blocked deserialization")  # it is an error here, told once

    log = logging.getLogger("langgraph.checkpoint.serde.jsonplus")
    log.addFilter(is_other)
    stop = register_serde_event_listener(listen)
    try:
        yield refused
    finally:
        stop()
        log.removeFilter(is_other)


def _class_named(name: str) -> tuple[str, str]:
    module, _, last = name.rpartition(".")
    try:
        getattr(importlib.import_module(module), last)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(
            f"There is no class {safe_repr(name)} to allow: give it as module.Class, where Python finds it, "
            f"with PYTHONPATH for instance ({error})."
        ) from error
    return module, last


def _sqlite(path: str, stack: ExitStack) -> tuple[BaseCheckpointSaver[Any], str]:
    from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415 - an extra

    name = safe_repr(path)
    if not Path(path).is_file():
        raise InvalidInput(f"There is no file at {name}.")
    with _readable(name):
        connection = stack.enter_context(closing(read_only(Path(path))))
        saver = SqliteSaver(connection)
        saver.is_setup = True  # it would make its tables in whatever file it was given
        columns = columns_in(connection)
        saver._has_task_path = "task_path" in columns.get("writes", ())
    return saver, name


def _postgres(url: str, stack: ExitStack) -> tuple[BaseCheckpointSaver[Any], str]:
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 - an extra

    from langchain_agentmem.storage.postgres import address_of  # noqa: PLC0415 - an extra

    name = f"The PostgreSQL database {safe_repr(address_of(url))}"
    with _readable(name):
        saver = stack.enter_context(PostgresSaver.from_conn_string(url))
    # It prepares all that it asks, and a pooler may send the next question to a server that knows nothing of that.
    saver.conn.prepare_threshold = None  # type: ignore[union-attr]
    return saver, name


# -- chat histories ------------------------------------------------------------------------------------------------


def read_histories(source: Any, to: parcels.ImportTarget) -> Generator[parcels.Thing]:
    """Yield chat histories.

    Args:
        source: A SQLite file, a PostgreSQL database, a JSON file, or a folder of JSON files.
        to: The target.

    Raises:
        InvalidInput: The source is none of these.
    """
    given = parcels.path_or_url(source)
    if isinstance(given, Path) and not parcels.is_sqlite(given):
        yield from parcels.of_files(given, (".json",), _in_file, to)
        return
    with foreign_tables(given) as tables:
        names = [name for name, columns in sorted(tables.columns.items()) if columns >= {"session_id", "message"}]
        if not names:
            raise InvalidInput(f"{tables.name} has no table with session_id and message, as chat histories have.")
        yield from _in_tables(tables, names, to)


def _in_tables(tables: ForeignTables, names: Sequence[str], to: parcels.ImportTarget) -> Iterator[parcels.Thing]:
    for name in names:
        # Messages without an id are known by their row, so that a table is read the same however it grows.
        for session, group in groupby(tables.rows(name, "session_id", "id"), itemgetter("session_id")):
            rows = list(group)
            told = [(row["message"], row.get("created_at"), f"{name}-{row.get('id', n)}") for n, row in enumerate(rows)]
            build = partial(_chat, None if session is None else str(session), told, to.now)
            yield from parcels.owned(to, session, f"the conversation {safe_repr(session)}", len(rows), build)


def _in_file(path: Path, name: str, to: parcels.ImportTarget) -> Iterator[parcels.Thing]:
    messages = parcels.value_of_file(path, to.limits)
    if not isinstance(messages, list):
        raise InvalidInput(f"{safe_repr(str(path))} holds no list of messages, as FileChatMessageHistory writes it.")
    build = partial(_chat, name, [(each, None, None) for each in messages], parcels.time_of_file(path))
    yield from parcels.owned(to, name, f"the file {safe_repr(path.name)}", len(messages), build)


def _chat(
    name: str | None, told: Sequence[tuple[Any, Any, str | None]], otherwise: int, to: parcels.ImportTarget
) -> parcels.ImportBatch:
    """Return the batch of a conversation from its messages.

    Each message has a time or None, and the id to use if it has none.
    """
    names, entries = parcels.StableIds(), []
    for value, said_at, own in told:
        message = json.loads(value) if isinstance(value, str | bytes) else value
        entries.append(_entry(message, names, parcels.time_of(said_at, otherwise), own))
    return parcels.conversation(to, name, entries)


def _entry(message: Any, names: parcels.StableIds, said_at: int, own: str | None) -> LogEntry:
    """Return the log entry of a message in LangChain's form.

    Args:
        message: A dictionary of its type and its data.
        names: Gives ids.
        said_at: Its time, if the message has none.
        own: The id to use if it has none. None: an id is made from its content.

    Raises:
        MessageError: The value is no message.
    """
    try:
        [found] = messages_from_dict([message])
    except Exception as error:  # whatever its class refuses
        raise MessageError(f"{safe_repr(message, 200)} is no message in LangChain's form: {error}") from error
    key = names.given(found.id or own, message)
    made, _ = message_of(found, new_id=lambda: key)
    return entry_of(dataclasses.replace(made, message_id=key), said_at)
