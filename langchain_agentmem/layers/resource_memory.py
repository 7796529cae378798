r"""Resource memory: what an agent was given to work with, and what it used of it.

    layers.resources.load("resources.yaml")          # snapshots of all that the file names
    layers.resources.items()                         # what is known of each
    layers.resources.track_usage("template:baseline:local:data:baseline", "read", "as a starting point")
    layers.resources.used()

Each item is one record of archival memory, tagged so that a search finds it by id, class, name, source and path. An
index of all items, and the digest of the last snapshot, are kept in core memory. Each use is recorded.

A snapshot has a digest that tells whether the resources changed, and the beginning of each of them:

    {"digest": "sha256:…", "resource_file_sha": "…", "config_normalized": {…}, "items": [
        {"id": "template:baseline:local:data:baseline", "class": "local_data", "fetch_status": "available",
         "path": "/workspace/input/data/baseline", "tree_summary": "main.c\nMakefile", "content_excerpt": "File: …"}]}

Nothing outside of the workspace is read, and nothing is fetched: an item on GitHub or Hugging Face is "pending"; clone
it and name it under `local` to have it read. A digest depends on the names and contents of files. It does not depend on
the place of the workspace, the times of files, or the order of entries, as that of the original did.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from langchain_agentmem.base.argument_checks import text_given
from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.encoding import encode
from langchain_agentmem.base.redaction import redact, redact_value
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers import resource_files
from langchain_agentmem.layers.archival_memory import ArchivalMemory, record
from langchain_agentmem.layers.compression import truncated
from langchain_agentmem.layers.core_memory import NO_ROOM, CoreMemory, Setting
from langchain_agentmem.layers.layer import Ground, Layer
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import Change
from langchain_agentmem.rewinding.memory_rows import RECORD, Kept, View
from langchain_agentmem.storage import Transaction

__all__ = ["ResourceMemory", "build_resource_snapshot", "usage_record"]

_REASON_CHARS = 300


def build_resource_snapshot(
    resource_file: str | os.PathLike[str],
    config: Mapping[str, Any] | None = None,
    resolve_paths: bool = True,  # noqa: FBT001, FBT002 - the original's signature
) -> dict[str, Any]:
    """Take a snapshot of the resources that a file names.

    Args:
        resource_file: A YAML or JSON file, see `resource_files.py`.
        config: "workspace_root", the folder outside of which nothing is read (default: that of the resource file), and
            "redact_secrets" (default: True). Other keys are ignored.
        resolve_paths: Whether local paths are read. If not, every item is "pending", with its path as written.
            Default: True.

    Returns:
        "digest", "resource_file_sha", "config_normalized" and "items", as the original has them. An item has "id",
        "class" (local_data, github, huggingface), "fetch_status" (pending, available, failed), "path", "tree_summary"
        and "content_excerpt", and besides "name", "kind" (its class in the file), "notes", "digest" and "reason" (the
        reason why it is not available, or incomplete). An item that cannot be read, or is outside of the workspace,
        has failed.

    Raises:
        InvalidInput: The resource file or the config is wrong.
    """
    if config is not None and not isinstance(config, Mapping):
        raise InvalidInput(f"config must be a dictionary, not {safe_repr(config)}.")
    given = config or {}
    file = resource_files.read_resource_file(resource_file)
    root = file.folder if given.get("workspace_root") is None else given["workspace_root"]
    if not isinstance(root, str | os.PathLike) or not Path(root).is_dir():
        raise InvalidInput(f"workspace_root must be the path of a folder, not {safe_repr(root)}.")
    clean = redact if given.get("redact_secrets", True) else str
    workspace = Path(os.path.realpath(root)) if resolve_paths else None
    items = [_snapshot(item, file.folder, workspace, clean) for item in file.items]
    normalized: dict[str, Any] = {
        kind: [each.model_dump() for each in file.sources if each.source == kind] for kind in resource_files.CLASSES
    }
    normalized["items"] = [each.model_dump() for each in file.items]
    stable = normalized | {"local": [entry | {"host_path": ""} for entry in normalized["local"]]}
    return {
        "digest": _digest({"config": stable, "items": {item["id"]: item["digest"] for item in items}}),
        "resource_file_sha": file.sha,
        "config_normalized": normalized,
        "items": items,
    }


def _snapshot(
    item: resource_files.Item, folder: Path, workspace: Path | None, clean: Callable[[str], str]
) -> dict[str, Any]:
    """Take the snapshot of one item."""
    source, path = item.place, item.path
    mounted = source.mount_path and str(PurePosixPath(source.mount_path, path))
    seen = resource_files.ItemExcerpt("pending")
    if workspace is not None and source.source == "local":
        local = folder / source.host_path / resource_files.below(path, source.mount_path)
        try:
            seen, path = resource_files.read_item(item, workspace, local, clean), os.path.normpath(local)
        except resource_files.Unreachable as error:
            seen = resource_files.ItemExcerpt("failed", reason=str(error))
    return {
        "id": item.id,
        "class": resource_files.CLASSES[source.source],
        "fetch_status": seen.status,
        "path": mounted or path,
        "tree_summary": seen.tree,
        "content_excerpt": seen.excerpt,
        "name": item.name,
        "kind": item.kind,
        "notes": clean(item.notes),
        "digest": _digest({"id": item.id, "notes": item.notes, "status": seen.status, "found": seen.found}),
        "reason": truncated(clean(seen.reason), _REASON_CHARS),
    }


def _digest(value: Any) -> str:
    return f"sha256:{hashlib.sha256(encode(value)).hexdigest()}"


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


def use_of(content: str, tags: Sequence[str], at: datetime) -> dict[str, Any] | None:
    """What a record says of the use of a resource; None where it says nothing of the kind.

    Args:
        content: Its content.
        tags: Its tags.
        at: When it was written, which is the time of a use that names none.
    """
    try:
        told = json.loads(content) if RESOURCE_USED in tags else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or not isinstance(told.get("resource_id"), str):
        return None
    time: Any = told.get("timestamp")
    context = told.get("context")
    return {
        "resource_id": told["resource_id"],
        "usage_type": str(told.get("usage_type") or "reference"),
        "context": None if context is None else str(context),
        "timestamp": time if type(time) in (int, float) and abs(time) < math.inf else at.timestamp(),
    }


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
        resolve_paths: bool = True,  # noqa: FBT001, FBT002 - the original's signature
    ) -> dict[str, Any]:
        """Take a snapshot of what a file names, and remember it.

        All is remembered, or nothing is. What the same file named before, and does not name any more, is forgotten;
        what has not changed stays as it is.

        Args:
            resource_file: See `build_resource_snapshot`, for this and the others.
            config: As there. The default of "redact_secrets" is that of the memory's settings.
            resolve_paths: As there.

        Returns:
            The snapshot. Of each item at most 6,000 characters are remembered.

        Raises:
            InvalidInput: The file or an argument is wrong, or core memory has no room for the index.
        """
        given = config
        if config is None or isinstance(config, Mapping):
            given = {"redact_secrets": self.settings.redact_secrets, **(config or {})}
        snapshot = build_resource_snapshot(resource_file, given, resolve_paths)
        name = self._ground.clean(Path(os.fsdecode(resource_file)).name)
        items = [self._kept_of(item, name) for item in snapshot["items"]]

        def make(tx: Transaction, change: Change) -> None:
            there = {each.extra["resource"]["id"]: each for each in _items(tx, change.view)}
            named = {item["id"] for item in items}
            others = []
            for key, old in there.items():
                if old.extra["resource"]["file"] != name and key not in named:
                    others.append(old.extra["resource"])
                elif key not in named:
                    change.remove(RECORD, old.key)
            for item in items:
                known = there.get(item["id"])
                if known is None or known.extra["resource"] != item:
                    key = self._ground.database.new_id() if known is None else known.key
                    body = truncated(_body(item), resource_files.ITEM_CHARS)
                    change.drafts.append(record(key, body, _tags(item), change.now, label=_LABEL, resource=item))
            self._index(tx, change, snapshot["digest"], [*items, *others])

        outputs = {"resource_ids": [item["id"] for item in items], "digest": snapshot["digest"]}
        self._change("load", make, file=name, outputs=lambda _: outputs)
        return snapshot

    aload = awaited(load, writes=True)

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
        made = usage_record(resource_id, usage_type, context, moment(self._ground.now()))
        clean, marks = self._archival._checked(*made)
        with self._step("track_usage", content=clean) as step:
            key = self._archival._written(clean, marks)
            step.finish(lambda: {"record_id": key})
        return key

    atrack_usage = awaited(track_usage, writes=True)

    def items(self) -> list[dict[str, Any]]:
        """What is remembered of each item, in the order of their ids: as snapshots have them."""

        def look(tx: Transaction, view: View) -> list[dict[str, Any]]:
            items = [dict(each.extra["resource"]) for each in _items(tx, view)]
            for item in items:
                del item["file"]
            return sorted(items, key=lambda item: str(item["id"]))

        return self._look("items", look)

    aitems = awaited(items)

    def used(self) -> list[dict[str, Any]]:
        """What was used, oldest first, each time: "resource_id", "usage_type", "context" and "timestamp"."""
        with self._step("used") as step:
            records = self._archival._listed(None, [RESOURCE_USED])
            uses = [use for each in records if (use := use_of(each.content, each.tags, each.created_at))]
            step.finish(lambda: {"count": len(uses)})
        return uses

    aused = awaited(used)

    def _kept_of(self, item: Mapping[str, Any], file: str) -> dict[str, Any]:
        """What is remembered of an item."""
        clean: dict[str, Any] = redact_value({**item, "file": file}, self._ground.settings.patterns)
        return clean | {"content_excerpt": truncated(clean["content_excerpt"], resource_files.ITEM_CHARS)}

    def _index(self, tx: Transaction, change: Change, digest: str, items: list[dict[str, Any]]) -> None:
        """Have core memory name all items."""
        most = min(_INDEX_CHARS, self._ground.settings.core_max_chars // 2)
        lines = [f"- {item['id']} ({item['fetch_status']})" for item in sorted(items, key=lambda item: str(item["id"]))]
        index = "\n".join([f"{len(items)} resources; each is a record tagged resource_id:<id>", *lines])
        for _ in range(2):
            wanted = [
                Setting(RESOURCE_INDEX, truncated(index, most), _IMPORTANCE, None),
                Setting(RESOURCE_DIGEST, digest, _IMPORTANCE, None),
            ]
            too_large = self._core._add_to(tx, change, wanted)
            if too_large is None:
                return
            most = max(0, min(most, too_large.room)) if too_large.setting.key == RESOURCE_INDEX else 0
        raise InvalidInput(NO_ROOM)


def _items(tx: Transaction, view: View) -> list[Kept]:
    return memory_rows.newest(tx, view, RECORD, limit=None, label=_LABEL)


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
