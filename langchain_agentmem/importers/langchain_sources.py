"""Readers for LangGraph's savers and stores, langmem, and LangChain's chat histories.

The database of a `SqliteStore` or `PostgresStore`, given as a path or URL, is read from its tables. Its items keep
their expiry times. A store object is searched with its own `search` method, which returns no expiry times. The memories
of langmem are items of such a store. Their values have the key "content", and usually "kind".

Chat histories are the tables of `SQLChatMessageHistory` and `PostgresChatMessageHistory`, and the files of
`FileChatMessageHistory`. A table has one row for each message. Its column "session_id" is the id of the conversation.
Its column "message" is the message in LangChain's JSON form. `PostgresChatMessageHistory` also stores the time of each
message. A file is a JSON list of messages in the same form. The file name is the id of the conversation.
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

from langchain_agentmem.checkpoints.checkpoint_saver import AgentMemorySaver, refusal_reason
from langchain_agentmem.conversations.log_entries import entry_of, parse_message
from langchain_agentmem.conversations.message_log import LogEntry
from langchain_agentmem.errors import InvalidInput, MessageError, MissingExtra, safe_repr
from langchain_agentmem.importers import batches
from langchain_agentmem.storage import is_postgres, name_of
from langchain_agentmem.storage.foreign_tables import ForeignTables, columns_in, foreign_tables, open_read_only
from langchain_agentmem.storage.transfer import PAGE_ROWS, split_pages
from langchain_agentmem.stores import item_rows, item_search
from langchain_agentmem.stores.item_rows import ItemDraft, ItemPlace, ItemTimes

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory

CHECKPOINT_PAGE = 100
"""The number of checkpoints in one page of a stock saver."""

_Row = Mapping[str, Any]
_Saver = BaseCheckpointSaver[Any]


def read_saver(source: Any, to: batches.ImportTarget) -> Generator[batches.SourceEntry]:
    """Yield the threads of another package's saver.

    Args:
        source: The file of a SqliteSaver, the URL of a PostgresSaver, or a saver object.
        to: The target.

    Raises:
        InvalidInput: The source does not exist, or cannot be read.
        MissingExtra: The saver's package is not installed.
    """
    if isinstance(source, BaseCheckpointSaver):
        advice = " Import an async-only saver with memory.checkpointer.aimport_checkpoints."
        with _convert_errors(safe_repr(source), advice):
            counts = Counter(str(each.config["configurable"]["thread_id"]) for each in source.list(None))
        yield from _read_threads(source, counts, to)
        return
    given = batches.path_or_url(source)
    with foreign_tables(given) as tables:
        if not tables.columns.get("checkpoints", frozenset()) >= {"thread_id", "checkpoint_ns", "checkpoint_id"}:
            raise InvalidInput(f"{tables.name} has no table of checkpoints like that of LangGraph's savers.")
        stored = tables.count_values("checkpoints", "thread_id")
    with open_source(str(given), allow=to.allow) as saver:
        yield from _read_threads(saver, stored, to)


def _read_threads(saver: _Saver, counts: Mapping[Any, int], to: batches.ImportTarget) -> Iterator[batches.SourceEntry]:
    for thread, count in counts.items():
        label, build = f"the thread {safe_repr(thread)}", partial(_thread_batch, saver, str(thread), count)
        metadata = (each.metadata for each in _list_checkpoints(saver, str(thread)))
        found = [*batches.batch_or_skip(to, thread, label, count, build, metadata=metadata, holds="checkpoints")]
        del metadata  # ends the listing before the thread is copied, since an open listing may lock the saver
        yield from found


def _thread_batch(saver: _Saver, thread: str, count: int, home: batches.ImportTarget) -> batches.ImportBatch:
    """Return the batch of a thread. Each of its checkpoints is written separately."""
    label = f"the thread {safe_repr(thread)}"

    def store(memory: AgentMemory, *, dry_run: bool) -> tuple[int, int]:
        target_saver = (memory.within(home.namespace) if home.namespace else memory).checkpointer
        if dry_run:
            return batches.read_or_raise(label, partial(_rehearse_thread, target_saver, saver, thread))
        done = batches.read_or_raise(label, partial(target_saver.import_checkpoints, saver, thread_ids=[thread]))
        for reason in done.left_out.values():
            raise InvalidInput(reason)
        return done.checkpoints, done.known

    place = batches.ThreadTarget(id=thread, namespace=home.namespace)
    return batches.ImportBatch(holds="checkpoints", what=label, count=count, store=store, place=place)


def _rehearse_thread(target_saver: AgentMemorySaver, saver: _Saver, thread: str) -> tuple[int, int]:
    new, configs = [], []
    for each in _list_checkpoints(saver, thread):
        configs.append(each.config)
        new.append(target_saver.adopt(each, dry_run=True))
    if configs and (reason := refusal_reason(target_saver.database, configs)) is not None:
        raise InvalidInput(reason)
    return new.count(True), new.count(False)


def _list_checkpoints(saver: _Saver, thread: str) -> Iterator[CheckpointTuple]:
    return saver.list({"configurable": {"thread_id": thread}})


def read_store(source: Any, to: batches.ImportTarget) -> Generator[batches.SourceEntry]:
    """Yield the items of another package's store.

    For the kind langmem, items that lack the keys of langmem are yielded as skipped entries.

    Args:
        source: The file of a SqliteStore, the URL of a PostgresStore, or a store object.
        to: The target. The namespaces of the items are created below that of the import.

    Raises:
        InvalidInput: The source does not exist, cannot be read, or has no table of items.
    """
    if isinstance(source, BaseStore):
        yield from _read_items(_search_all(source), to)
        return
    with foreign_tables(batches.path_or_url(source)) as tables:
        if not tables.columns.get("store", frozenset()) >= {"prefix", "key", "value"}:
            raise InvalidInput(f"{tables.name} has no table of items like that of LangGraph's stores.")
        rows = ({**row, "namespace": row["prefix"].split(".")} for row in tables.rows("store", "prefix", "key"))
        yield from _read_items(rows, to)


def _search_all(store: BaseStore) -> Iterator[_Row]:
    """Yield all items of a store as rows. Each page is sorted by namespace."""
    offset = 0
    while True:
        with _convert_errors(safe_repr(store)):
            page = store.search((), limit=PAGE_ROWS, offset=offset, refresh_ttl=False)
        if not page:
            return
        offset += len(page)
        for each in sorted(page, key=lambda item: tuple(item.namespace)):
            yield {name: getattr(each, name) for name in ("namespace", "key", "value", "created_at", "updated_at")}


def _read_items(rows: Iterator[_Row], to: batches.ImportTarget) -> Iterator[batches.SourceEntry]:
    for namespace, group in groupby(rows, lambda row: list(row["namespace"])):
        for page in split_pages(group if to.wants(*namespace) else ()):
            drafts: dict[ItemPlace, ItemDraft] = {}
            for row in page:
                try:
                    at, draft = _make_draft(row, namespace, to)
                    drafts[at] = draft
                except batches.MALFORMED_ERRORS as error:
                    label = f"the item {safe_repr(row['key'])} in {batches.target_label(to, *namespace)}"
                    yield batches.SkippedEntry(label, batches.skip_reason(error), holds="items")
            if drafts:
                label = f"items in {batches.target_label(to, *namespace)}"
                yield batches.make_batch("items", label, len(drafts), to.path(*namespace), _add_items(drafts))


def _add_items(drafts: Mapping[ItemPlace, ItemDraft]) -> batches.WriteOperation:
    return lambda tx, now: range(item_search.add_new_items(tx, drafts, now=now))


def _is_of_langmem(value: Any) -> bool:
    return isinstance(value, Mapping) and "content" in value and ("kind" in value or isinstance(value["content"], str))


def _make_draft(row: _Row, namespace: Sequence[str], to: batches.ImportTarget) -> tuple[ItemPlace, ItemDraft]:
    place = ItemPlace(to.path(*namespace), item_rows.check_key(row["key"]))
    value = json.loads(row["value"]) if isinstance(row["value"], str | bytes) else row["value"]
    data = item_rows.encode_value(value)
    created = batches.time_of(row.get("created_at"), to.now)
    end = None if row.get("expires_at") is None else batches.time_of(row["expires_at"], to.now)
    times = ItemTimes(created, batches.time_of(row.get("updated_at"), created), end)
    minutes = row.get("ttl_minutes")
    draft = ItemDraft(data, item_rows.check_ttl(minutes), item_rows.stored_text(value, data), None, times)
    if end is not None and end <= to.now:
        raise InvalidInput("it has expired.")
    if to.kind == "langmem" and not _is_of_langmem(value):
        raise InvalidInput("it lacks langmem's keys kind and content. The kind langgraph-store imports all items.")
    return place, draft._replace(source="import", actor=to.kind)


# -- stock savers --------------------------------------------------------------------------------------------------


@contextmanager
def open_source(source: str, *, allow: Sequence[str] = ()) -> Iterator[_Saver]:
    """Open a stock saver's database for reading.

    Objects of classes that LangGraph considers safe, or that `allow` names, are imported. LangGraph would read an
    object of another class as plain data. Here it raises an error.

    Args:
        source: The file of a SqliteSaver, or the URL or connection string of a PostgresSaver.
        allow: Classes to import, as "module.Class".

    Raises:
        InvalidInput: The file, the server or an allowed class does not exist. The saver raises it too, for a checkpoint
            that cannot be read or contains an object of another class.
        MissingExtra: The saver's package is not installed.
    """
    serde = JsonPlusSerializer(allowed_msgpack_modules=[_parse_class(name) for name in allow] or None)
    on_server = is_postgres(name_of(source))
    kind, open_saver = ("PostgresSaver", _open_postgres) if on_server else ("SqliteSaver", _open_sqlite)
    with ExitStack() as stack, _collect_refused() as refused:
        try:
            saver, name = open_saver(source, stack)
        except ImportError as error:
            raise MissingExtra(f"Importing from a {kind}", "import") from error
        saver.serde = serde
        yield _StockSaver(saver, name, refused)


class _StockSaver(BaseCheckpointSaver[Any]):
    """A wrapper of a stock saver that reads it in pages and raises `InvalidInput` for errors."""

    def __init__(self, saver: _Saver, name: str, refused: set[str]) -> None:
        super().__init__(serde=saver.serde)
        self._saver, self._name, self._refused_classes = saver, name, refused

    def list(self, config: RunnableConfig | None, **others: Any) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, one page at a time.

        Copied threads have checkpoints with the same id. Each page therefore begins again at the last id of the page
        before it, and checkpoints that were yielded already are omitted.
        """
        del others
        before: RunnableConfig | None = None
        known: list[RunnableConfig] = []
        while True:
            with _convert_errors(self._name):
                listed = self._saver.list(config, before=before, limit=CHECKPOINT_PAGE + len(known))
                page = [self._check_classes(each) for each in listed]
            fresh = [each for each in page if each.config not in known]
            if not fresh:
                return
            yield from fresh
            last = page[-1].checkpoint["id"]
            known = [each.config for each in page if each.checkpoint["id"] == last]
            before = {"configurable": {"checkpoint_id": f"{last}~"}}

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        with _convert_errors(self._name):
            found = self._saver.get_tuple(config)
            return found and self._check_classes(found)

    def _check_classes(self, found: CheckpointTuple) -> CheckpointTuple:
        if self._refused_classes:
            thread, classes = found.config["configurable"]["thread_id"], sorted(self._refused_classes)
            self._refused_classes.clear()
            raise InvalidInput(
                f"The thread {safe_repr(thread)} contains objects of the class {classes[0]}, which would be read as "
                f"plain data. If you trust the database, pass allow={classes}, or to the command: "
                f"--allow {' --allow '.join(classes)}"
            )
        return found


@contextmanager
def _convert_errors(name: str, advice: str = "") -> Iterator[None]:
    """Convert any exception of another package's saver or store into `InvalidInput`."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:  # other packages may raise any exception
        raise InvalidInput(f"{name} cannot be read ({type(error).__name__}: {error}).{advice}") from error


@contextmanager
def _collect_refused() -> Iterator[set[str]]:
    """Collect the names of the classes that LangGraph's serializer refuses to import.

    The block receives a set. The serializer's warnings about these classes are not logged.
    """
    refused: set[str] = set()

    def listen(event: SerdeEvent) -> None:
        if event["kind"].endswith("blocked"):
            refused.add(f"{event['module']}.{event['name']}")

    def is_other(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Blocked deserialization")  # `_StockSaver` raises an error instead

    log = logging.getLogger("langgraph.checkpoint.serde.jsonplus")
    log.addFilter(is_other)
    stop = register_serde_event_listener(listen)
    try:
        yield refused
    finally:
        stop()
        log.removeFilter(is_other)


def _parse_class(name: str) -> tuple[str, str]:
    module, _, last = name.rpartition(".")
    try:
        getattr(importlib.import_module(module), last)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(
            f"Unknown class {safe_repr(name)} in allow. Pass it as module.Class, and make it importable, for example "
            f"with PYTHONPATH ({error})."
        ) from error
    return module, last


def _open_sqlite(path: str, stack: ExitStack) -> tuple[_Saver, str]:
    from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415 - an extra

    name = safe_repr(path)
    if not Path(path).is_file():
        raise InvalidInput(f"The file {name} does not exist.")
    with _convert_errors(name):
        connection = stack.enter_context(closing(open_read_only(Path(path))))
        saver = SqliteSaver(connection)
        saver.is_setup = True  # otherwise the saver creates its tables in the file
        columns = columns_in(connection)
        saver._has_task_path = "task_path" in columns.get("writes", ())
    return saver, name


def _open_postgres(url: str, stack: ExitStack) -> tuple[_Saver, str]:
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 - an extra

    from langchain_agentmem.storage.postgres import address_of  # noqa: PLC0415 - an extra

    name = f"The PostgreSQL database {safe_repr(address_of(url))}"
    with _convert_errors(name):
        saver = stack.enter_context(PostgresSaver.from_conn_string(url))
    # Prepared statements fail if a pooler sends the next statement to another connection.
    saver.conn.prepare_threshold = None  # type: ignore[union-attr]
    return saver, name


# -- chat histories ------------------------------------------------------------------------------------------------


def read_histories(source: Any, to: batches.ImportTarget) -> Generator[batches.SourceEntry]:
    """Yield the conversations of chat histories.

    Args:
        source: A SQLite file, a PostgreSQL database, a JSON file, or a folder of JSON files.
        to: The target.

    Raises:
        InvalidInput: The source is none of these.
    """
    given = batches.path_or_url(source)
    if isinstance(given, Path) and not batches.is_sqlite(given):
        yield from batches.read_files(given, (".json",), _read_file, to)
        return
    with foreign_tables(given) as tables:
        names = [name for name, columns in sorted(tables.columns.items()) if columns >= {"session_id", "message"}]
        if not names:
            raise InvalidInput(f"{tables.name} has no table of a chat history, with session_id and message.")
        yield from _read_tables(tables, names, to)


def _read_tables(tables: ForeignTables, names: list[str], to: batches.ImportTarget) -> Iterator[batches.SourceEntry]:
    for name in names:
        # A message without an id gets one from the id of its row, which stays the same when the table grows.
        for session, group in groupby(tables.rows(name, "session_id", "id"), itemgetter("session_id")):
            rows = list(group)
            keys = [f"{name}-{row.get('id', n)}" for n, row in enumerate(rows)]
            messages = [(row["message"], row.get("created_at"), key) for row, key in zip(rows, keys, strict=True)]
            build = partial(_chat_batch, None if session is None else str(session), messages, to.now)
            yield from batches.batch_or_skip(to, session, f"the conversation {safe_repr(session)}", len(rows), build)


def _read_file(path: Path, name: str, to: batches.ImportTarget) -> Iterator[batches.SourceEntry]:
    messages = batches.parse_file(path, to.limits)
    if not isinstance(messages, list):
        raise InvalidInput(f"{safe_repr(str(path))} is not a list of messages, as FileChatMessageHistory writes it.")
    build = partial(_chat_batch, name, [(each, None, None) for each in messages], batches.time_of_file(path))
    yield from batches.batch_or_skip(to, name, f"the file {safe_repr(path.name)}", len(messages), build)


def _chat_batch(
    name: str | None, messages: Sequence[tuple[Any, Any, str | None]], default_time: int, to: batches.ImportTarget
) -> batches.ImportBatch:
    """Return the batch of a conversation.

    Args:
        name: The id of the conversation.
        messages: Tuples of a message, its time or None, and the id to use for a message without an id, or None.
        default_time: The time of messages without a time.
        to: The target.
    """
    names, entries = batches.StableIds(), []
    for value, created_at, own_id in messages:
        message = json.loads(value) if isinstance(value, str | bytes) else value
        entries.append(_log_entry(message, names, batches.time_of(created_at, default_time), own_id))
    return batches.conversation_batch(to, name, entries)


def _log_entry(message: Any, names: batches.StableIds, created_at: int, own_id: str | None) -> LogEntry:
    """Return the log entry of a message in LangChain's JSON form.

    Args:
        message: A dictionary with the keys "type" and "data".
        names: The generator of ids.
        created_at: The time of the message, in microseconds since 1970.
        own_id: The id to use if the message has none. If it is None, the id is a digest of the content.

    Raises:
        MessageError: The value is not a message.
    """
    try:
        [found] = messages_from_dict([message])
    except Exception as error:  # the class of the message may raise any exception
        raise MessageError(f"{safe_repr(message, 200)} is not a message in LangChain's form: {error}") from error
    key = names.next_id(found.id or own_id, message)
    parsed, _ = parse_message(found, new_id=lambda: key)
    return entry_of(dataclasses.replace(parsed, message_id=key), created_at)
