"""Readers for LangGraph's savers and stores, langmem, and LangChain's chat histories.

A stock saver is LangGraph's own `SqliteSaver` or `PostgresSaver`. Any saver object is read with its `list` method.

The tables of a `SqliteStore` or `PostgresStore` are read directly, and the items keep their expiry times. A store
object is read with its `search` method, which returns no expiry times. The memories of langmem are items of a store.
Their values have the key "content", and usually "kind".

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

from langchain_agentmem.checkpoints.checkpoint_saver import AgentMemorySaver, find_refusal_reason
from langchain_agentmem.conversations.log_entries import make_entry, parse_message
from langchain_agentmem.conversations.message_log import LogEntry
from langchain_agentmem.errors import InvalidInput, MessageError, MissingExtra, safe_repr
from langchain_agentmem.importers import batches
from langchain_agentmem.importers.batches import ImportBatch, ImportTarget, SkippedEntry, SourceEntry
from langchain_agentmem.storage import check_database_url, is_postgres
from langchain_agentmem.storage.foreign_tables import ForeignTables, foreign_tables, list_columns, open_read_only
from langchain_agentmem.storage.transfer import PAGE_ROWS, split_pages
from langchain_agentmem.stores import item_rows, item_search
from langchain_agentmem.stores.item_rows import ItemDraft, ItemPlace, ItemTimes

if TYPE_CHECKING:
    from langchain_agentmem.agent_memory import AgentMemory

CHECKPOINT_PAGE = 100
"""The number of checkpoints that are read from a stock saver at a time."""

_Row = Mapping[str, Any]
_Saver = BaseCheckpointSaver[Any]


def read_saver(source: Any, target: ImportTarget) -> Generator[SourceEntry]:
    """Yield the threads of another package's saver.

    Args:
        source: The file of a `SqliteSaver`, the URL of a `PostgresSaver`, or a saver object.
        target: The target.

    Raises:
        InvalidInput: The source does not exist, or cannot be read.
        MissingExtra: The saver's package is not installed.
    """
    if isinstance(source, BaseCheckpointSaver):
        advice = " Import an async-only saver with memory.checkpointer.aimport_checkpoints."
        with _convert_errors(safe_repr(source), advice):
            counts = Counter(str(each.config["configurable"]["thread_id"]) for each in source.list(None))
        yield from _read_threads(source, counts, target)
        return
    location = batches.path_or_url(source)
    with foreign_tables(location) as tables:
        if not tables.columns.get("checkpoints", frozenset()) >= {"thread_id", "checkpoint_ns", "checkpoint_id"}:
            raise InvalidInput(f"{tables.name} has no table of checkpoints like that of LangGraph's savers.")
        stored_counts = tables.count_values("checkpoints", "thread_id")
    with open_source(str(location), allow=target.allow) as saver:
        yield from _read_threads(saver, stored_counts, target)


def _read_threads(saver: _Saver, counts: Mapping[Any, int], target: ImportTarget) -> Iterator[SourceEntry]:
    for name, count in counts.items():  # the id of each thread, with the number of its checkpoints
        title, build = f"the thread {safe_repr(name)}", partial(_thread_batch, saver, str(name), count)
        metadata = (each.metadata for each in saver.list({"configurable": {"thread_id": str(name)}}))
        entries = [*batches.batch_or_skip(target, name, title, count, build, metadata=metadata, holds="checkpoints")]
        del metadata  # ends the listing before the thread is copied, since an open listing may lock the saver
        yield from entries


def _thread_batch(saver: _Saver, thread_id: str, count: int, target: ImportTarget) -> ImportBatch:
    """Return the batch of a thread. Each checkpoint is written in a transaction of its own."""
    title = f"the thread {safe_repr(thread_id)}"

    def store(memory: AgentMemory, *, dry_run: bool) -> tuple[int, int]:
        target_saver = (memory.within(target.namespace) if target.namespace else memory).checkpointer
        if dry_run:
            return batches.read_or_raise(title, partial(_rehearse_thread, target_saver, saver, thread_id))
        report = batches.read_or_raise(title, partial(target_saver.import_checkpoints, saver, thread_ids=[thread_id]))
        for reason in report.left_out.values():
            raise InvalidInput(reason)
        return report.checkpoints, report.known

    place = batches.ThreadTarget(id=thread_id, namespace=target.namespace)
    return ImportBatch(holds="checkpoints", what=title, count=count, store=store, place=place)


def _rehearse_thread(target_saver: AgentMemorySaver, saver: _Saver, thread_id: str) -> tuple[int, int]:
    """Return the numbers of new and of existing checkpoints of a thread. Write nothing."""
    is_new, configs = [], []
    for each in saver.list({"configurable": {"thread_id": thread_id}}):
        configs.append(each.config)
        is_new.append(target_saver.adopt(each, dry_run=True))
    if configs and (reason := find_refusal_reason(target_saver.database, configs)) is not None:
        raise InvalidInput(reason)
    return is_new.count(True), is_new.count(False)


def read_store(source: Any, target: ImportTarget) -> Generator[SourceEntry]:
    """Yield the items of another package's store.

    For the kind "langmem", an item without langmem's keys results in a skipped entry.

    Args:
        source: The file of a `SqliteStore`, the URL of a `PostgresStore`, or a store object.
        target: The target. The items keep their namespaces, below the target's namespace.

    Raises:
        InvalidInput: The source does not exist, cannot be read, or has no table of items.
    """
    if isinstance(source, BaseStore):
        yield from _read_items(_search_all(source), target)
        return
    with foreign_tables(batches.path_or_url(source)) as tables:
        if not tables.columns.get("store", frozenset()) >= {"prefix", "key", "value"}:
            raise InvalidInput(f"{tables.name} has no table of items like that of LangGraph's stores.")
        rows = ({**row, "namespace": row["prefix"].split(".")} for row in tables.rows("store", "prefix", "key"))
        yield from _read_items(rows, target)


def _search_all(store: BaseStore) -> Iterator[_Row]:
    """Yield all items of a store as rows. Each page is sorted by namespace for `groupby`."""
    offset = 0
    while True:
        with _convert_errors(safe_repr(store)):
            page = store.search((), limit=PAGE_ROWS, offset=offset, refresh_ttl=False)
        if not page:
            return
        offset += len(page)
        for each in sorted(page, key=lambda item: tuple(item.namespace)):
            yield {name: getattr(each, name) for name in ("namespace", "key", "value", "created_at", "updated_at")}


def _read_items(rows: Iterator[_Row], target: ImportTarget) -> Iterator[SourceEntry]:
    for namespace, group in groupby(rows, lambda row: list(row["namespace"])):
        for page in split_pages(group if target.wants(*namespace) else ()):
            drafts: dict[ItemPlace, ItemDraft] = {}
            for row in page:
                try:
                    place, draft = _make_draft(row, namespace, target)
                    drafts[place] = draft
                except batches.MALFORMED_ERRORS as error:
                    title = f"the item {safe_repr(row['key'])} in {batches.describe_target(target, *namespace)}"
                    yield SkippedEntry(title, batches.skip_reason(error), holds="items")
            if drafts:
                title = f"items in {batches.describe_target(target, *namespace)}"
                yield batches.make_batch("items", title, len(drafts), target.path(*namespace), _add_items(drafts))


def _add_items(drafts: Mapping[ItemPlace, ItemDraft]) -> batches.WriteOperation:
    return lambda tx, now: range(item_search.add_new_items(tx, drafts, now=now))


def _make_draft(row: _Row, namespace: Sequence[str], target: ImportTarget) -> tuple[ItemPlace, ItemDraft]:
    place = ItemPlace(target.path(*namespace), item_rows.check_key(row["key"]))
    value = json.loads(row["value"]) if isinstance(row["value"], str | bytes) else row["value"]
    data = item_rows.encode_value(value)
    created = batches.time_of(row.get("created_at"), target.now)
    expires_at = None if row.get("expires_at") is None else batches.time_of(row["expires_at"], target.now)
    times = ItemTimes(created, batches.time_of(row.get("updated_at"), created), expires_at)
    ttl = item_rows.check_ttl(row.get("ttl_minutes"))
    draft = ItemDraft(data, ttl, item_rows.stored_text(value, data), None, times)
    if expires_at is not None and expires_at <= target.now:
        raise InvalidInput("it has expired.")
    has_content = isinstance(value, Mapping) and "content" in value
    if target.kind == "langmem" and not (has_content and ("kind" in value or isinstance(value["content"], str))):
        raise InvalidInput("it lacks langmem's keys kind and content. The kind langgraph-store imports all items.")
    return place, draft._replace(source="import", actor=target.kind)


# -- stock savers --------------------------------------------------------------------------------------------------


@contextmanager
def open_source(source: str, *, allow: Sequence[str] = ()) -> Iterator[_Saver]:
    """Open a stock saver's database for reading.

    The yielded saver reads objects of classes that LangGraph considers safe or that `allow` lists. For an object of any
    other class, LangGraph's own savers return plain data. The yielded saver raises an error instead.

    Args:
        source: The file of a `SqliteSaver`, or the URL or connection string of a `PostgresSaver`.
        allow: The classes to allow, as "module.Class".

    Raises:
        InvalidInput: The file, the server or an allowed class does not exist. The methods of the yielded saver also
            raise it, if a checkpoint cannot be read or contains an object of a refused class.
        MissingExtra: The saver's package is not installed.
    """
    serde = JsonPlusSerializer(allowed_msgpack_modules=[_parse_class(name) for name in allow] or None)
    on_server = is_postgres(check_database_url(source))
    kind, open_saver = ("PostgresSaver", _open_postgres) if on_server else ("SqliteSaver", _open_sqlite)
    with ExitStack() as stack, _collect_refused() as refused:
        try:
            saver, name = open_saver(source, stack)
        except ImportError as error:
            raise MissingExtra(f"Importing from a {kind}", "import") from error
        saver.serde = serde
        yield _StockSaver(saver, name, refused)


class _StockSaver(BaseCheckpointSaver[Any]):
    """A wrapper that reads a stock saver page by page, and raises only `InvalidInput`."""

    def __init__(self, saver: _Saver, name: str, refused: set[str]) -> None:
        super().__init__(serde=saver.serde)
        self._saver, self._name, self._refused_classes = saver, name, refused

    def list(self, config: RunnableConfig | None, **others: Any) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first, one page at a time.

        Checkpoints of copied threads have equal ids, and a page may end between them. The next page therefore begins
        with the last id again, and its checkpoints that were already yielded are omitted.
        """
        del others
        before: RunnableConfig | None = None
        yielded: list[RunnableConfig] = []
        while True:
            with _convert_errors(self._name):
                listed = self._saver.list(config, before=before, limit=CHECKPOINT_PAGE + len(yielded))
                page = [self._check_classes(each) for each in listed]
            new = [each for each in page if each.config not in yielded]
            if not new:
                return
            yield from new
            last_id = page[-1].checkpoint["id"]
            yielded = [each.config for each in page if each.checkpoint["id"] == last_id]
            before = {"configurable": {"checkpoint_id": f"{last_id}~"}}  # sorts after `last_id`, so includes it

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        with _convert_errors(self._name):
            checkpoint = self._saver.get_tuple(config)
            return checkpoint and self._check_classes(checkpoint)

    def _check_classes(self, checkpoint: CheckpointTuple) -> CheckpointTuple:
        """Raise an error if LangGraph refused a class while it read the checkpoint."""
        if self._refused_classes:
            thread, classes = checkpoint.config["configurable"]["thread_id"], sorted(self._refused_classes)
            self._refused_classes.clear()
            raise InvalidInput(
                f"The thread {safe_repr(thread)} contains objects of the class {classes[0]}, which would be read as "
                f"plain data. If you trust the database, pass allow={classes}, or on the command line "
                f"--allow {' --allow '.join(classes)}"
            )
        return checkpoint


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
    """Yield a set that receives the names of classes that LangGraph's serializer refuses.

    Meanwhile the serializer's warnings about these classes are not logged.
    """
    refused: set[str] = set()

    def listen(event: SerdeEvent) -> None:
        if event["kind"].endswith("blocked"):
            refused.add(f"{event['module']}.{event['name']}")

    def is_unrelated(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Blocked deserialization")  # `_StockSaver` raises an error instead

    log = logging.getLogger("langgraph.checkpoint.serde.jsonplus")
    log.addFilter(is_unrelated)
    unregister = register_serde_event_listener(listen)
    try:
        yield refused
    finally:
        unregister()
        log.removeFilter(is_unrelated)


def _parse_class(name: str) -> tuple[str, str]:
    module, _, class_name = name.rpartition(".")
    try:
        getattr(importlib.import_module(module), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(
            f"Unknown class {safe_repr(name)} in allow. Pass it as module.Class, and make it importable, for example "
            f"with PYTHONPATH ({error})."
        ) from error
    return module, class_name


def _open_sqlite(path: str, stack: ExitStack) -> tuple[_Saver, str]:
    from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415 - an extra

    name = safe_repr(path)
    if not Path(path).is_file():
        raise InvalidInput(f"The file {name} does not exist.")
    with _convert_errors(name):
        connection = stack.enter_context(closing(open_read_only(Path(path))))
        saver = SqliteSaver(connection)
        saver.is_setup = True  # otherwise the saver creates its tables in the file
        saver._has_task_path = "task_path" in list_columns(connection).get("writes", ())
    return saver, name


def _open_postgres(url: str, stack: ExitStack) -> tuple[_Saver, str]:
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 - an extra

    from langchain_agentmem.storage.postgres import mask_address  # noqa: PLC0415 - an extra

    name = f"The PostgreSQL database {safe_repr(mask_address(url))}"
    with _convert_errors(name):
        saver = stack.enter_context(PostgresSaver.from_conn_string(url))
    # Prepared statements fail if a pooler sends the next statement to another connection.
    saver.conn.prepare_threshold = None  # type: ignore[union-attr]
    return saver, name


# -- chat histories ------------------------------------------------------------------------------------------------


def read_histories(source: Any, target: ImportTarget) -> Generator[SourceEntry]:
    """Yield the conversations of chat histories.

    Args:
        source: A SQLite file, the URL of a PostgreSQL database, a JSON file, or a folder of JSON files.
        target: The target.

    Raises:
        InvalidInput: The source is none of these.
    """
    location = batches.path_or_url(source)
    if isinstance(location, Path) and not batches.is_sqlite(location):
        yield from batches.read_files(location, (".json",), _read_file, target)
        return
    with foreign_tables(location) as tables:
        table_names = [name for name, columns in sorted(tables.columns.items()) if columns >= {"session_id", "message"}]
        if not table_names:
            raise InvalidInput(f"{tables.name} has no chat history: no table has the columns session_id and message.")
        yield from _read_tables(tables, table_names, target)


def _read_tables(tables: ForeignTables, table_names: list[str], target: ImportTarget) -> Iterator[SourceEntry]:
    for name in table_names:
        # A message without an id gets the name of its table and the id of its row, which later imports find again.
        for session, group in groupby(tables.rows(name, "session_id", "id"), itemgetter("session_id")):
            messages = [
                (row["message"], row.get("created_at"), f"{name}-{row.get('id', n)}") for n, row in enumerate(group)
            ]
            title = f"the conversation {safe_repr(session)}"
            build = partial(_chat_batch, None if session is None else str(session), messages, target.now)
            yield from batches.batch_or_skip(target, session, title, len(messages), build)


def _read_file(path: Path, name: str, target: ImportTarget) -> Iterator[SourceEntry]:
    messages = batches.parse_file(path, target.limits)
    if not isinstance(messages, list):
        raise InvalidInput(f"{safe_repr(str(path))} is not a list of messages, as FileChatMessageHistory writes it.")
    build = partial(_chat_batch, name, [(each, None, None) for each in messages], batches.time_of_file(path))
    yield from batches.batch_or_skip(target, name, f"the file {safe_repr(path.name)}", len(messages), build)


def _chat_batch(
    chat_id: str | None, messages: Sequence[tuple[Any, Any, str | None]], default_time: int, target: ImportTarget
) -> ImportBatch:
    """Return the batch of a conversation.

    Args:
        chat_id: The id of the conversation. None raises an error.
        messages: Tuples of a message, its time or None, and the `own_id` of `_log_entry`.
        default_time: The time of messages without a time.
        target: The target.
    """
    ids, entries = batches.StableIds(), []
    for value, created_at, own_id in messages:
        message = json.loads(value) if isinstance(value, str | bytes) else value
        entries.append(_log_entry(message, ids, batches.time_of(created_at, default_time), own_id))
    return batches.conversation_batch(target, chat_id, entries)


def _log_entry(message: Any, ids: batches.StableIds, created_at: int, own_id: str | None) -> LogEntry:
    """Return the log entry of a message in LangChain's JSON form.

    Args:
        message: A dictionary with the keys "type" and "data".
        ids: The generator of ids.
        created_at: The time of the message, in microseconds since 1970.
        own_id: The id to use if the message has none. None: the id is then a digest of the message.

    Raises:
        MessageError: The value is not a message.
    """
    try:
        [langchain_message] = messages_from_dict([message])
    except Exception as error:  # the class of the message may raise any exception
        raise MessageError(f"{safe_repr(message, 200)} is not a message in LangChain's form: {error}") from error
    message_id = ids.next_id(langchain_message.id or own_id, message)
    parsed, _ = parse_message(langchain_message, new_id=lambda: message_id)
    return make_entry(dataclasses.replace(parsed, message_id=message_id), created_at)
