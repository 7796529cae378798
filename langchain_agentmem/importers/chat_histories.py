"""What `RunnableWithMessageHistory` stores: tables of `SQLChatMessageHistory`, files of `FileChatMessageHistory`.

A table has a row for each message, with "session_id" and "message", LangChain's own form as JSON. So has that of
`PostgresChatMessageHistory`, which also knows when each was said. A file is a list in the same form; its name is taken
for the id of the conversation.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from langchain_core.messages import messages_from_dict

from langchain_agentmem.conversations.log_entries import entry_of, message_of
from langchain_agentmem.conversations.message_log import LogEntry
from langchain_agentmem.errors import InvalidInput, MessageError, safe_repr
from langchain_agentmem.importers import parcels
from langchain_agentmem.storage.foreign_tables import ForeignTables, foreign_tables

WANTED = frozenset({"session_id", "message"})


def read_histories(source: Any, to: parcels.Destination, stack: ExitStack) -> Iterator[parcels.Thing]:
    """Chat histories, see above.

    Args:
        source: A SQLite file, a PostgreSQL database, a JSON file, or a folder of JSON files.
        to: Where they go.
        stack: Closes the source.

    Raises:
        InvalidInput: It is none of these.
    """
    given = parcels.path_or_url(source)
    if isinstance(given, str) or parcels.is_sqlite(given):
        tables = stack.enter_context(foreign_tables(given))
        names = [name for name, columns in sorted(tables.columns.items()) if columns >= WANTED]
        if not names:
            raise InvalidInput(f"{tables.name} has no table with session_id and message, as chat histories have.")
        return _in_tables(tables, names, to)
    return parcels.of_files(given, (".json",), _in_file, to)


def _in_tables(tables: ForeignTables, names: Sequence[str], to: parcels.Destination) -> Iterator[parcels.Thing]:
    for name in names:
        # Messages without an id are known by their row, so that a table is read the same however it grows.
        for session, group in groupby(tables.rows(name, "session_id", "id"), itemgetter("session_id")):
            rows = list(group)
            build = partial(_of_rows, name, session, rows)
            yield from parcels.owned(to, session, f"the conversation {safe_repr(session)}", len(rows), build)


def _of_rows(table: str, session: Any, rows: Sequence[Mapping[str, Any]], to: parcels.Destination) -> parcels.Parcel:
    names, entries = parcels.Names(), []
    for place, row in enumerate(rows):
        value = row["message"]
        message = json.loads(value) if isinstance(value, str | bytes) else value
        said_at = parcels.time_of(row.get("created_at"), to.now)
        entries.append(entry_given(message, names, said_at, f"{table}-{row.get('id', place)}"))
    return parcels.conversation(to, None if session is None else str(session), entries)


def _in_file(path: Path, name: str, to: parcels.Destination) -> Iterator[parcels.Thing]:
    messages = parcels.value_of_file(path, to.limits)
    if not isinstance(messages, list):
        raise InvalidInput(f"{safe_repr(str(path))} holds no list of messages, as FileChatMessageHistory writes it.")
    build = partial(_of_list, path, name, messages)
    yield from parcels.owned(to, name, f"the file {safe_repr(path.name)}", len(messages), build)


def _of_list(path: Path, name: str, messages: Sequence[Any], to: parcels.Destination) -> parcels.Parcel:
    names, said_at = parcels.Names(), parcels.time_of_file(path)
    return parcels.conversation(to, name, [entry_given(each, names, said_at) for each in messages])


def entry_given(message: Any, names: parcels.Names, said_at: int, own: str | None = None) -> LogEntry:
    """The entry of a message in LangChain's form.

    Args:
        message: A dictionary of its type and its data.
        names: Gives ids.
        said_at: When it was said, if it does not say so itself.
        own: The id of one that has none. Default: one made of what it says.

    Raises:
        MessageError: It is no message.
    """
    try:
        [found] = messages_from_dict([message])
    except Exception as error:  # whatever its class refuses
        raise MessageError(f"{safe_repr(message, 200)} is no message in LangChain's form: {error}") from error
    key = names.given(found.id or own, message)
    made, _ = message_of(found, new_id=lambda: key)
    return entry_of(dataclasses.replace(made, message_id=key), said_at)
