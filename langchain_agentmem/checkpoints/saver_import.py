"""Threads of other savers: opened, and copied one checkpoint at a time.

Nothing is written to the other saver, and no class is imported but those that LangGraph holds to be safe and those that
are allowed by name. An object of any other class would come as plain data, so it is refused instead.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import BaseStore

from langchain_agentmem.base.concurrency import in_worker
from langchain_agentmem.base.events import listener_given
from langchain_agentmem.base.namespaces import CONFIG_KEY
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.checkpoints.checkpoint_codec import address, listed
from langchain_agentmem.errors import InvalidInput, MissingExtra
from langchain_agentmem.storage import Transaction, is_postgres, name_of, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.foreign_tables import read_only
from langchain_agentmem.threads.thread_lines import find


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """How far an import is.

    Attributes:
        checkpoints: How many checkpoints were copied.
        known: How many were there already.
        threads: How many threads they belong to.
        left_out: The threads that went on here and at the source, of which nothing was copied, each with why.
    """

    checkpoints: int = 0
    known: int = 0
    threads: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)


Progress = Callable[[ImportReport], None] | None

WENT_ON = (
    "it went on here since, so what is new at the source does not follow what is newest here: import it into another "
    "namespace, or erase it here before."
)


def refusal(database: Database, configs: Sequence[RunnableConfig]) -> str | None:
    """Return why nothing of a thread is copied: it went on in both places, and has one newest state.

    Args:
        database: The database that the thread is copied to.
        configs: The configs of its checkpoints at the source, the newest first.

    Returns:
        None where the source only went on from what is here, or has nothing new.
    """
    at, _, _ = address(configs[0], database.scopes.foreign)
    own = [_checkpoint_of(config) for config in configs if not config["configurable"].get("checkpoint_ns")]

    def look(tx: Transaction) -> str | None:
        thread = find(tx, at, exact=True)
        newest = [] if thread is None or thread.line is None else query.latest_checkpoint(tx, line=thread.line)
        if thread is None or not newest or newest[0]["name"] in own:
            return None
        there = (query.checkpoint_there(tx, line=thread.line, checkpoint=name) for name in own)
        return None if all(there) else WENT_ON

    return database.engine.read(look)


def _checkpoint_of(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])


def import_checkpoints(
    adopt: Callable[[CheckpointTuple], bool],
    database: Database,
    saver: BaseCheckpointSaver[Any],
    thread_ids: Sequence[str] | None,
    progress: Progress,
) -> ImportReport:
    """Copy the threads of a saver.

    Args:
        adopt: Stores one checkpoint; False if it is known.
        database: Where they go.
        saver: The other saver.
        thread_ids: Only these threads; None for all.
        progress: Is told how far it is.
    """
    _check_saver(saver)
    count = _Count(progress)
    for config in _configs(thread_ids):
        for found in saver.list(config):
            count.see(found)
    for thread in count.threads():
        if count.takes(thread, refusal(database, thread)):
            for config in sorted(thread, key=_checkpoint_of):  # each is put behind its parent, as it was at the source
                if (whole := saver.get_tuple(config)) is not None:
                    count.add(adopted=adopt(whole))
    return count.report()


async def aimport_checkpoints(
    adopt: Callable[[CheckpointTuple], Awaitable[bool]],
    database: Database,
    saver: BaseCheckpointSaver[Any],
    thread_ids: Sequence[str] | None,
    progress: Progress,
) -> ImportReport:
    """Async version of `import_checkpoints`."""
    _check_saver(saver)
    count = _Count(progress)
    for config in _configs(thread_ids):
        async for found in saver.alist(config):
            count.see(found)
    for thread in count.threads():
        if count.takes(thread, await in_worker(partial(refusal, database, thread))):
            for config in sorted(thread, key=_checkpoint_of):
                if (whole := await saver.aget_tuple(config)) is not None:
                    count.add(adopted=await adopt(whole))
    return count.report()


def _check_saver(given: Any) -> None:
    if isinstance(given, BaseStore):
        raise InvalidInput(
            f"{safe_repr(given)} is a store, not a saver: its items come with import_from, of the kind langgraph-store."
        )
    if not all(callable(getattr(given, name, None)) for name in ("list", "alist", "get_tuple", "aget_tuple")):
        raise InvalidInput(f"Threads are imported from another checkpointer, not from {safe_repr(given)}.")


class _Count:
    def __init__(self, progress: Progress) -> None:
        self._progress = listener_given(progress, "progress")
        self._threads: dict[tuple[str, str], list[RunnableConfig]] = {}
        self._counts = {True: 0, False: 0}
        self._left_out: dict[str, str] = {}

    def see(self, found: CheckpointTuple) -> None:
        configurable = found.config["configurable"]
        key = str(configurable["thread_id"]), str(configurable.get(CONFIG_KEY))
        self._threads.setdefault(key, []).append(found.config)

    def threads(self) -> list[list[RunnableConfig]]:
        return list(self._threads.values())

    def takes(self, thread: Sequence[RunnableConfig], reason: str | None) -> bool:
        if reason is not None:
            self._left_out[str(thread[0]["configurable"]["thread_id"])] = reason
        return reason is None

    def add(self, *, adopted: bool) -> None:
        self._counts[adopted] += 1
        if self._progress is not None:
            self._progress(self.report())

    def report(self) -> ImportReport:
        return ImportReport(
            checkpoints=self._counts[True],
            known=self._counts[False],
            threads=len({thread for thread, _ in self._threads}) - len(self._left_out),
            left_out=dict(self._left_out),
        )


def _configs(thread_ids: Sequence[str] | None) -> Iterator[RunnableConfig | None]:
    if thread_ids is None:
        yield None
        return
    for thread_id in listed(thread_ids, "thread"):
        yield {"configurable": {"thread_id": thread_id}}


PAGE = 100
"""Checkpoints that are asked of a PostgresSaver at once: it keeps all that it was asked for in memory."""

_SERIALIZER_LOG = "langgraph.checkpoint.serde.jsonplus"


@contextlib.contextmanager
def open_source(source: str, *, allow: Sequence[str] = ()) -> Iterator[BaseCheckpointSaver[Any]]:
    """Open what a stock saver wrote, to be read.

    Args:
        source: The file of a SqliteSaver, or the URL or connection string of a PostgresSaver.
        allow: Classes to import, as "module.Class".

    Raises:
        InvalidInput: There is no such file or server, or it holds no checkpoints of that saver; or there is no such
            class. While it is read: a checkpoint cannot be read, or holds objects of another class.
        MissingExtra: The saver's package is not installed.
    """
    serde = JsonPlusSerializer(allowed_msgpack_modules=[_class_named(name) for name in allow] or None)
    postgres = is_postgres(name_of(source))
    name = f"the PostgreSQL database {safe_repr(_address_of(source))}" if postgres else safe_repr(source)
    with contextlib.ExitStack() as stack, _refusals() as refused:
        with _told(name):  # it fails here rather than when something was made of it
            saver = stack.enter_context(_postgres(source, serde) if postgres else _sqlite(source, serde))
        refused.clear()
        yield _Source(saver, name, refused, PAGE if postgres else None, stack)


class _Source(BaseCheckpointSaver[Any]):
    """A saver to list the checkpoints of, whose errors are ours."""

    def __init__(
        self,
        saver: BaseCheckpointSaver[Any],
        name: str,
        refused: set[str],
        page: int | None,
        closing: contextlib.ExitStack,
    ) -> None:
        super().__init__(serde=saver.serde)
        self._closing = closing  # a listing that is left early must end before its database closes
        self._saver = saver
        self._name = name
        self._refused = refused
        self._page = page

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        if self._page is None or filter or before or limit is not None:
            found = self._saver.list(config, filter=filter, before=before, limit=limit)
        else:
            found = self._paged(config, self._page)
        close = getattr(found, "close", bool)
        self._closing.callback(close)
        with _told(self._name), contextlib.ExitStack() as stack:
            stack.callback(close)  # it may hold a lock that the next listing wants
            for each in found:
                self._check(each)
                yield each

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        with _told(self._name):
            found = self._saver.get_tuple(config)
            if found is not None:
                self._check(found)
            return found

    def _check(self, found: CheckpointTuple) -> None:
        if self._refused:
            thread, classes = found.config["configurable"]["thread_id"], sorted(self._refused)
            self._refused.clear()
            raise InvalidInput(
                f"The thread {safe_repr(thread)} holds objects of the class {classes[0]}, which would "
                f"come as plain data. If you trust what the database says, give allow={classes}, "
                f"or to the command: --allow {' --allow '.join(classes)}"
            )

    def _paged(self, config: RunnableConfig | None, size: int) -> Iterator[CheckpointTuple]:
        """Ids come once in a thread, but copies of a thread share them, so the last one is asked for again."""
        edge: RunnableConfig | None = None
        known: set[tuple[Any, ...]] = set()
        while True:
            page = [*self._saver.list(config, before=edge, limit=size + len(known))]
            fresh = [each for each in page if _key(each) not in known]
            yield from fresh
            if not fresh:
                return
            last = page[-1].checkpoint["id"]
            known = {_key(each) for each in page if each.checkpoint["id"] == last}
            edge = {"configurable": {"checkpoint_id": f"{last}~"}}


def _key(found: CheckpointTuple) -> tuple[Any, ...]:
    configurable = found.config["configurable"]
    return configurable["thread_id"], configurable["checkpoint_ns"], configurable["checkpoint_id"]


@contextlib.contextmanager
def _told(name: str) -> Iterator[None]:
    """Whatever a saver of others raises becomes an error of ours."""
    try:
        yield
    except (InvalidInput, MissingExtra):
        raise
    except Exception as error:
        raise InvalidInput(
            f"No checkpoints of a stock saver can be read from {name} ({type(error).__name__}: {error})."
        ) from error


@contextlib.contextmanager
def _refusals() -> Iterator[set[str]]:
    """The names of the classes that the serializer would not import meanwhile."""
    refused: set[str] = set()

    def listen(event: SerdeEvent) -> None:
        if event["kind"].endswith("blocked"):
            refused.add(f"{event['module']}.{event['name']}")

    def unsaid(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Blocked deserialization")  # it is an error here, told once

    log = logging.getLogger(_SERIALIZER_LOG)
    log.addFilter(unsaid)
    stop = register_serde_event_listener(listen)
    try:
        yield refused
    finally:
        stop()
        log.removeFilter(unsaid)


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


@contextlib.contextmanager
def _sqlite(path: str, serde: JsonPlusSerializer) -> Iterator[BaseCheckpointSaver[Any]]:
    try:
        from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("Importing from a SqliteSaver", "import") from error
    if not Path(path).is_file():
        raise InvalidInput(f"There is no file at {safe_repr(path)}.")
    with contextlib.closing(read_only(Path(path))) as connection:
        saver = SqliteSaver(connection)
        saver.serde = serde
        saver.is_setup = True  # it would make its tables in whatever file it was given
        try:
            next(saver.list(None, limit=1), None)
        except Exception as error:
            if "task_path" not in str(error):
                raise
            saver._has_task_path = False
        yield saver


def _address_of(url: str) -> str:
    try:
        from langchain_agentmem.storage.postgres import address_of  # noqa: PLC0415 - an extra
    except MissingExtra as error:
        raise MissingExtra("Importing from a PostgresSaver", "import") from error
    return address_of(url)


@contextlib.contextmanager
def _postgres(url: str, serde: JsonPlusSerializer) -> Iterator[BaseCheckpointSaver[Any]]:
    try:
        from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("Importing from a PostgresSaver", "import") from error
    with PostgresSaver.from_conn_string(url) as saver:
        # It prepares all that it asks, and a pooler may send the next question to a server that knows nothing of that.
        saver.conn.prepare_threshold = None  # type: ignore[union-attr]
        saver.serde = serde
        next(saver.list(None, limit=1), None)
        yield saver
