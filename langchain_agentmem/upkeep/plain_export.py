"""What a person said, and what was learned about them, as plain JSON: for who asks for the data that is kept of them.

The file is a list of objects, each with its namespace. `import_` does not read it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_agentmem.base import encoding
from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.files import whole_file
from langchain_agentmem.base.namespaces import Namespace, namespace_of, range_of
from langchain_agentmem.conversations.message_log import ROUND
from langchain_agentmem.messages.message import body_text
from langchain_agentmem.storage import Engine, query
from langchain_agentmem.storage.transfer import RowSource, reading
from langchain_agentmem.stores.item_rows import read

_COUNTED = {"message": "entries", "description": "entries", ROUND: "entries", "item": "items"}


def plain_export(engine: Engine, path: Path, within: Namespace = ()) -> Counter[str]:
    """Write what was said and learned in a namespace to a JSON file.

    Args:
        engine: The database.
        path: The file. A file that is there is replaced, unless it is a database.
        within: The namespace. Default: everything.

    Returns:
        How many objects the file has, by the names of `TransferReport`.

    Raises:
        InvalidInput: The file cannot be written.
        StorageError: Something is damaged.
    """
    counts: Counter[str] = Counter()
    with whole_file(path) as file, reading(engine) as source:
        file.write("[")
        for each in _objects(source, within):
            file.write(",\n" if counts else "\n")
            json.dump(each, file, default=str)
            counts[_COUNTED.get(each["kind"], "memories")] += 1
        file.write("\n]\n")
    return counts


def _objects(source: RowSource, within: Namespace) -> Iterator[dict[str, Any]]:
    low, high = range_of(within)
    for row in source.run(query.plain_messages, low=low, high=high):
        said = encoding.decode(row["body"])["user_query"] if row["kind"] == ROUND else body_text(row["body"])
        yield _object(row, row["kind"], conversation=row["name"], role=row["role"], name=row["sender"], text=said)
    for row in source.run(query.plain_memory, low=low, high=high):
        text = row["body"].decode("utf-8", "surrogatepass")
        yield _object(row, row["kind"], key=row["key"], label=row["label"], source=row["source"], text=text)
    for row in source.run(query.plain_items, low=low, high=high):
        yield _object(row, "item", key=row["key"], value=read(row["value"], row["path"], row["key"]))


def _object(row: dict[str, Any], kind: str, **fields: Any) -> dict[str, Any]:
    told = {name: value for name, value in fields.items() if value is not None}
    at = moment(row["created_at"]).isoformat()
    return {"kind": kind, "namespace": namespace_of(row["path"]), "created_at": at, **told}
