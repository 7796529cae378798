"""Resource memory: what an agent was given to work with, and what it used of it (document 004).

    layers.resources.load("resources.yaml")          # snapshots of all that the file names
    layers.resources.items()                         # what is known of each
    layers.resources.track_usage("template:baseline:local:data:baseline", "read", "as a starting point")
    layers.resources.used()

Each item is one record of archival memory, tagged so that a search finds it by id, class, name, source and path. An
index of all items, and the digest of the last snapshot, stand in core memory. Whatever is used is noted each time.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from langchain_agentmem.base.argument_checks import text_given
from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.redaction import redact_value
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Work
from langchain_agentmem.layers.archival_memory import ArchivalMemory, record
from langchain_agentmem.layers.core_memory import NO_ROOM, CoreMemory, Setting
from langchain_agentmem.layers.layer import Ground, Layer
from langchain_agentmem.layers.resource_excerpts import ITEM_CHARS
from langchain_agentmem.layers.resource_snapshots import Fetcher, build_resource_snapshot
from langchain_agentmem.layers.truncation import truncated
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import LISTED, Change, listed
from langchain_agentmem.rewinding.memory_rows import RECORD
from langchain_agentmem.storage import Steps

__all__ = ["ResourceMemory", "build_resource_snapshot", "usage_record"]

RESOURCE_INDEX, RESOURCE_DIGEST = "RESOURCE_INDEX", "resource_digest"
"""The keys of core memory."""

RESOURCE_ITEM, RESOURCE_PENDING, RESOURCE_USED = "RESOURCE_ITEM", "RESOURCE_PENDING", "RESOURCE_USED"
"""The tags of archival memory."""

USAGE_TYPES = ("read", "reference", "include")

_LABEL = "resource"
_IMPORTANCE = 5
_INDEX_CHARS = 1_000
_CONTEXT_CHARS = 1_000


def usage_record(resource_id: str, usage_type: str, context: str | None, at: datetime) -> tuple[str, list[str]]:
    """The archival record that says that a resource was used.

    Args:
        resource_id: Which resource.
        usage_type: "read", "reference" or "include".
        context: What for; None if nobody says. At most 1,000 characters are kept.
        at: When.

    Returns:
        Its content, JSON with "resource_id", "usage_type", "context" and "timestamp" (seconds since 1970), and its
        tags.

    Raises:
        InvalidInput: An argument is wrong.
    """
    if not isinstance(resource_id, str) or not resource_id.strip():
        raise InvalidInput(f"A resource is named by its id, not by {safe_repr(resource_id)}.")
    if not isinstance(usage_type, str) or usage_type not in USAGE_TYPES:
        raise InvalidInput(f"A resource is used as one of {', '.join(USAGE_TYPES)}, not as {safe_repr(usage_type)}.")
    used = {
        "resource_id": resource_id,
        "usage_type": usage_type,
        "context": None
        if context is None
        else truncated(text_given(context, "What a resource is used for"), _CONTEXT_CHARS),
        "timestamp": at.timestamp(),
    }
    return json.dumps(used, ensure_ascii=False), [RESOURCE_USED, f"resource_id:{resource_id}"]


class ResourceMemory(Layer):
    """The resources of a layered memory. Every method has an awaited twin, with an `a` before its name.

    Args:
        ground: What the memory stands on.
        core: Its core memory.
        archival: Its archival memory.
    """

    _part = "resources"

    def __init__(self, ground: Ground, core: CoreMemory, archival: ArchivalMemory) -> None:
        super().__init__(ground)
        self._core = core
        self._archival = archival

    def load(
        self,
        resource_file: str | os.PathLike[str],
        config: Mapping[str, Any] | None = None,
        resolve_paths: bool = True,  # noqa: FBT001, FBT002 - the document's signature
        fetcher: Fetcher | None = None,
    ) -> dict[str, Any]:
        """Take a snapshot of what a file names, and remember it.

        All is remembered, or nothing is. What the same file named before, and does not name any more, is forgotten;
        what has not changed stays as it is.

        Args:
            resource_file: See `build_resource_snapshot`, for this and the others.
            config: As there. What counts as secret is as the memory's settings say, where this says nothing.
            resolve_paths: As there.
            fetcher: As there.

        Returns:
            The snapshot. Of each item at most 6,000 characters are remembered.

        Raises:
            InvalidInput: The file or an argument is wrong, or core memory has no room for the index.
        """
        return self._do(self.keeping(self._snapshot(resource_file, config, resolve_paths, fetcher), resource_file))

    async def aload(
        self,
        resource_file: str | os.PathLike[str],
        config: Mapping[str, Any] | None = None,
        resolve_paths: bool = True,  # noqa: FBT001, FBT002 - the document's signature
        fetcher: Fetcher | None = None,
    ) -> dict[str, Any]:
        """`load`, awaited."""
        snapshot = await asyncio.to_thread(self._snapshot, resource_file, config, resolve_paths, fetcher)
        return await self._ado(self.keeping(snapshot, resource_file))

    def items(self) -> list[dict[str, Any]]:
        """What is remembered of each item, in the order of their ids: as snapshots have them."""
        return self._do(self.listing())

    async def aitems(self) -> list[dict[str, Any]]:
        """`items`, awaited."""
        return await self._ado(self.listing())

    def track_usage(self, resource_id: str, usage_type: str, context: str | None = None) -> str:
        """Note that a resource was used.

        Args:
            resource_id: Which: the id of an item.
            usage_type: "read", "reference" or "include".
            context: What for. Default: nobody says.

        Returns:
            The id of the record.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return self._do(self.tracking(resource_id, usage_type, context))

    async def atrack_usage(self, resource_id: str, usage_type: str, context: str | None = None) -> str:
        """`track_usage`, awaited."""
        return await self._ado(self.tracking(resource_id, usage_type, context))

    def used(self) -> list[dict[str, Any]]:
        """What was used, oldest first, each time: "resource_id", "usage_type", "context" and "timestamp"."""
        return self._do(self.using())

    async def aused(self) -> list[dict[str, Any]]:
        """`used`, awaited."""
        return await self._ado(self.using())

    # -- the same as work ------------------------------------------------------------------------------------------

    def keeping(self, snapshot: dict[str, Any], resource_file: str | os.PathLike[str]) -> Work[dict[str, Any]]:
        """Remember a snapshot of a file, as work."""
        name = self._ground.clean(Path(os.fsdecode(resource_file)).name)
        items = [self._kept_of(item, name) for item in snapshot["items"]]

        def make(change: Change) -> Steps[None]:
            there = {each.extra["resource"]["id"]: each for each in (yield from _items(change))}
            named = {item["id"] for item in items}
            for key, old in there.items():
                if old.extra["resource"]["file"] == name and key not in named:
                    change.remove(RECORD, old.key)
            for item in items:
                known = there.get(item["id"])
                if known is None or known.extra["resource"] != item:
                    key = self._ground.database.new_id() if known is None else known.key
                    body = truncated(_body(item), self._most())
                    change.drafts.append(record(key, body, _tags(item), change.now, label=_LABEL, resource=item))
            others = [
                each.extra["resource"] for key, each in there.items()
                if key not in named and each.extra["resource"]["file"] != name
            ]  # fmt: skip
            yield from self._index(change, snapshot["digest"], [*items, *others])

        yield from self._change(
            "load",
            make,
            file=name,
            outputs=lambda _: {
                "items": len(items),
                "pending": sum(item["fetch_status"] != "available" for item in items),
                "resource_ids": [item["id"] for item in items[:LISTED]],
                "digest": snapshot["digest"],
            },
        )
        return snapshot

    def listing(self) -> Work[list[dict[str, Any]]]:
        """`items`, as work."""

        def look(view: memory_rows.View) -> Steps[list[dict[str, Any]]]:
            found = yield from memory_rows.newest(view, RECORD, limit=None, label=_LABEL)
            items = [dict(each.extra["resource"]) for each in found]
            for item in items:
                del item["file"]
            return sorted(items, key=lambda item: str(item["id"]))

        return (
            yield from self._look(
                "items",
                look,
                outputs=lambda items: listed(
                    "resources", items, lambda item: {"id": item["id"], "status": item["fetch_status"]}
                ),
            )
        )

    def tracking(self, resource_id: str, usage_type: str, context: str | None) -> Work[str]:
        """`track_usage`, as work."""
        content, tags = usage_record(resource_id, usage_type, context, moment(self._ground.now()))
        clean, marks = self._archival.checked(content, tags)
        return (
            yield from self._as_step(
                "track_usage",
                self._archival.written(clean, marks),
                content=clean,
                outputs=lambda key: {"record_id": key},
            )
        )

    def using(self) -> Work[list[dict[str, Any]]]:
        """`used`, as work."""
        return (
            yield from self._as_step(
                "used",
                self._using(),
                outputs=lambda uses: listed(
                    "uses", uses, lambda use: {name: use.get(name) for name in ("resource_id", "usage_type")}
                ),
            )
        )

    def _using(self) -> Work[list[dict[str, Any]]]:
        records = yield from self._archival.listing([RESOURCE_USED], shown=False)
        return [used for each in records if (used := _usage(each.content)) is not None]

    def _snapshot(
        self, resource_file: Any, config: Mapping[str, Any] | None, resolve_paths: Any, fetcher: Fetcher | None
    ) -> dict[str, Any]:
        settings = self._ground.settings
        if config is None or isinstance(config, Mapping):
            config = {
                "redact_secrets": settings.redact_secrets,
                "secret_patterns": settings.secret_patterns,
                **(config or {}),
            }
        return build_resource_snapshot(resource_file, config, resolve_paths, fetcher)

    def _kept_of(self, item: Mapping[str, Any], file: str) -> dict[str, Any]:
        """What is remembered of an item."""
        clean: dict[str, Any] = redact_value({**item, "file": file}, self._ground.settings.patterns)
        return clean | {"content_excerpt": truncated(clean["content_excerpt"], self._most())}

    def _most(self) -> int:
        limit = self._ground.settings.archival_max_chars
        return ITEM_CHARS if limit is None else min(ITEM_CHARS, limit)

    def _index(self, change: Change, digest: str, items: list[dict[str, Any]]) -> Steps[None]:
        """Have core memory name all items."""
        most = min(_INDEX_CHARS, self._ground.settings.core_max_chars // 2)
        lines = [f"- {item['id']} ({item['fetch_status']})" for item in sorted(items, key=lambda item: str(item["id"]))]
        index = "\n".join([f"{len(items)} resources; each is a record tagged resource_id:<id>", *lines])
        for _ in range(2):
            wanted = [
                Setting(RESOURCE_INDEX, truncated(index, most), _IMPORTANCE, None),
                Setting(RESOURCE_DIGEST, digest, _IMPORTANCE, None),
            ]
            too_large = yield from self._core.put(change, wanted)
            if too_large is None:
                return
            most = max(0, min(most, too_large.room)) if too_large.setting.key == RESOURCE_INDEX else 0
        raise InvalidInput(NO_ROOM)


def _items(change: Change) -> Steps[list[memory_rows.Kept]]:
    return (yield from memory_rows.newest(change.view, RECORD, limit=None, label=_LABEL))


def _tags(item: Mapping[str, Any]) -> list[str]:
    kind = item["kind"] or item["class"]
    tags = [
        RESOURCE_ITEM,
        f"resource_id:{item['id']}",
        f"resource:{kind}:{item['name']}",
        f"resource_class:{kind}",
        f"resource_name:{item['name']}",
        f"resource_source:{item['class']}",
        f"resource_path:{item['path']}",
    ]
    return tags if item["fetch_status"] == "available" else [*tags, RESOURCE_PENDING]


def _body(item: Mapping[str, Any]) -> str:
    """An item as a model reads it."""
    lines = [
        f"Resource: {item['name']}",
        f"Id: {item['id']}",
        f"Class: {item['kind'] or item['class']}",
        f"Status: {item['fetch_status']}{': ' + item['reason'] if item['reason'] else ''}",
        f"Path: {item['path']}",
    ]
    if item["notes"]:
        lines.append(f"Notes: {item['notes']}")
    for title, text in (("Files", item["tree_summary"]), ("Content", item["content_excerpt"])):
        if text:
            lines += ["", f"{title}:", text]
    return "\n".join(lines)


def _usage(content: str) -> dict[str, Any] | None:
    """What a record says of a use; None where somebody tagged something else so."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) and "resource_id" in said else None
