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

Nothing is read outside of the workspace, and nothing is fetched: what lies on GitHub or Hugging Face is "pending",
until the user gives a function that fetches it. A digest depends on the names and contents of files. It does not depend
on where the workspace lies, when a file was written, or in which order things are named, as that of the original did.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from langchain_agentmem.base.argument_checks import check_whole, listed_field, text_given
from langchain_agentmem.base.clock import moment
from langchain_agentmem.base.encoding import encode
from langchain_agentmem.base.redaction import redact, redact_value
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.model_calls import Do, Work, both
from langchain_agentmem.layers.archival_memory import ArchivalMemory, record
from langchain_agentmem.layers.compression import truncated
from langchain_agentmem.layers.core_memory import NO_ROOM, CoreMemory, Setting
from langchain_agentmem.layers.layer import Ground, Layer
from langchain_agentmem.layers.resource_files import (
    CLASSES,
    IGNORED,
    ITEM_CHARS,
    Item,
    Options,
    Parts,
    ResourceFile,
    ResourceSource,
    SeenFile,
    Unreachable,
    Workspace,
    limit_of,
    look,
    plain,
    read_resource_file,
    under,
)
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import LISTED, Change, listed
from langchain_agentmem.rewinding.memory_rows import RECORD, Kept, View
from langchain_agentmem.storage import Steps

__all__ = ["ResourceMemory", "build_resource_snapshot", "usage_record"]

Fetcher = Callable[[dict[str, Any]], Any]
"""Fetches what an item names: gives a `Path` of this machine, or a text, or None for "not yet"; or what can be awaited
for one of these."""

_REASON_CHARS = 300


def build_resource_snapshot(
    resource_file: str | os.PathLike[str],
    config: Mapping[str, Any] | None = None,
    resolve_paths: bool = True,  # noqa: FBT001, FBT002 - the original's signature
    fetcher: Fetcher | None = None,
) -> dict[str, Any]:
    """Take a snapshot of the resources that a file names.

    Args:
        resource_file: A YAML or JSON file, see `resource_files.py`.
        config: What may be said of it; other keys are left out. Default: nothing.

            - "workspace_root": the folder that nothing is read outside of. Default: that of the resource file.
            - "resource_item_max_chars": the most characters of an item's content whose file sets no other limit.
              Default 6,000.
            - "resource_ignore": names of files and folders to leave out, beside `.git`, `node_modules` and their like.
            - "redact_secrets": False shows secrets as they are. Default True.
        resolve_paths: False looks at nothing: every item is "pending", and its path is as it was written. Default True.
        fetcher: Fetches what lies on GitHub and Hugging Face. It is given what the file says of an item, and gives a
            `pathlib.Path` (of the file, or of the whole repository, in which the item's path is looked up) or a text;
            None leaves the item pending. What it raises makes the item "failed".

    Returns:
        "digest", "resource_file_sha", "config_normalized" and "items", as the original has them. An item has "id",
        "class" (local_data, github, huggingface), "fetch_status" (pending, available, failed), "path", "tree_summary"
        and "content_excerpt", and beside these "name", "kind" (its class in the file), "notes", "digest" and "reason"
        (why it is not available, or not whole). What cannot be read, or lies outside of the workspace, has failed.

    Raises:
        InvalidInput: The resource file, the config or the fetcher is wrong.
    """
    options = _options(config)
    if fetcher is not None and not callable(fetcher):
        raise InvalidInput(f"fetcher must be a function, not {safe_repr(fetcher)}.")
    file = read_resource_file(resource_file)
    workspace: Workspace | None = None
    if resolve_paths:
        try:
            workspace = Workspace(file.folder if options.workspace_root is None else options.workspace_root)
        except (Unreachable, ValueError) as error:
            raise InvalidInput(f"The workspace cannot be used: {error}") from error
    items = [_snapshot(item, file, workspace, fetcher, options) for item in file.items]
    said = _normalized(file)
    stable = said | {"local": [entry | {"host_path": ""} for entry in said["local"]]}
    return {
        "digest": _digest({"config": stable, "items": {item["id"]: item["digest"] for item in items}}),
        "resource_file_sha": file.sha,
        "config_normalized": said,
        "items": items,
    }


def _options(config: Any) -> Options:
    if config is not None and not isinstance(config, Mapping):
        raise InvalidInput(f"config must be a dictionary, not {safe_repr(config)}.")
    config = config or {}
    root, chars = config.get("workspace_root"), config.get("resource_item_max_chars", ITEM_CHARS)
    ignored, hides = config.get("resource_ignore", ()), config.get("redact_secrets", True)
    if root is not None and not isinstance(root, str | os.PathLike):
        raise InvalidInput(f"workspace_root must be a path, not {safe_repr(root)}.")
    check_whole("resource_item_max_chars", chars)
    return Options(
        workspace_root=None if root is None else os.fsdecode(root),
        item_chars=chars,
        ignored=IGNORED | {str(name) for name in listed_field("resource_ignore", ignored)},
        redact=redact if hides else str,
    )


def _snapshot(
    item: Item, file: ResourceFile, workspace: Workspace | None, fetcher: Fetcher | None, options: Options
) -> dict[str, Any]:
    """One item, as a snapshot has it."""
    path = _mounted(item.source, item.path)
    try:
        seen = None
        if workspace is not None and item.source.source == "local":
            parts = _local_parts(item, file, workspace)
            seen = look(item, workspace, parts, options)
            path = path or str(workspace.root.joinpath(*parts))
        elif workspace is not None and fetcher is not None:
            seen = _fetched(item, fetcher, options)
    except Unreachable as error:
        seen = SeenFile(status="failed", reason=str(error))
    seen = seen or SeenFile(status="pending")
    content = {"id": item.id, "notes": item.notes, "status": seen.status, "found": seen.found}
    return {
        "id": item.id,
        "class": CLASSES[item.source.source],
        "fetch_status": seen.status,
        "path": path or item.path,
        "tree_summary": seen.tree,
        "content_excerpt": seen.excerpt,
        "name": item.name,
        "kind": item.kind,
        "notes": options.redact(item.notes),
        "digest": _digest(content),
        "reason": truncated(options.redact(seen.reason), _REASON_CHARS),
    }


def _mounted(source: ResourceSource, path: str) -> str:
    """Where the agent sees a path of a source; empty where nobody says."""
    mount = source.mount_path.rstrip("/")
    if not source.mount_path:
        return ""
    return path if under(path, source.mount_path) is not None else mount if path == "." else f"{mount}/{path}"


def _local_parts(item: Item, file: ResourceFile, workspace: Workspace) -> Parts:
    source, path = item.source, item.path
    # A resource file may lie below the workspace, and then name a folder beside its own.
    host = os.path.normpath(os.path.join(file.folder, source.host_path))  # noqa: PTH118 - purely of names
    folder = workspace.parts_of(host)
    if source.mount_path and (rest := under(path, source.mount_path)) is not None:
        path = rest
    return workspace.parts_of(path, folder)


def _fetched(item: Item, fetcher: Fetcher, options: Options) -> SeenFile | None:
    try:
        given = fetcher(_told(item))
        if inspect.isawaitable(given):
            given = _waited_for(given)
    except Exception as error:
        raise Unreachable(f"It could not be fetched: {type(error).__name__}: {error}") from error
    if given is None:
        return None
    if isinstance(given, str):
        digest = hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()
        excerpt = truncated(options.redact(plain(given)), limit_of(item, options))
        return SeenFile(status="available", excerpt=excerpt, found={"text": digest})
    if not isinstance(given, os.PathLike):
        raise Unreachable(f"The fetcher gave a {type(given).__name__}, and not a Path or a text.")
    local = Path(os.fsdecode(given))
    if local.is_file():
        return look(item, Workspace(local.parent), (local.name,), options)
    workspace = Workspace(local)
    return look(item, workspace, workspace.parts_of(item.path), options)


def _waited_for(given: Any) -> Any:
    """What a fetcher gives that has to be awaited."""

    async def awaited() -> Any:
        return await given

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            return runner.run(awaited())
    if inspect.iscoroutine(given):
        given.close()
    raise InvalidInput("A fetcher that is awaited cannot be waited for where a loop runs. Use aload.")


def _told(item: Item) -> dict[str, Any]:
    """What a fetcher is told of an item."""
    return {
        **item.source.as_written(),
        "id": item.id,
        "class": CLASSES[item.source.source],
        "name": item.name,
        "kind": item.kind,
        "path": item.path,
        "include_files": list(item.include_files),
    }


# --- Digests ---------------------------------------------------------------------------------------------------------


def _normalized(file: ResourceFile) -> dict[str, Any]:
    """What a resource file says, whatever the order and notation."""
    said: dict[str, Any] = {
        kind: [each.as_written() for each in file.sources if each.source == kind] for kind in CLASSES
    }
    said["items"] = [
        {
            "id": each.id,
            "name": each.name,
            "class": each.kind,
            "source": each.source.source,
            "resource": each.source.name or each.source.repo,
            "path": each.path,
            "notes": each.notes,
            "include_files": list(each.include_files),
            **asdict(each.limits),
        }
        for each in file.items
    ]
    return said


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
        said = json.loads(content) if RESOURCE_USED in tags else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not isinstance(said.get("resource_id"), str):
        return None
    time, context = said.get("timestamp"), said.get("context")
    is_time = isinstance(time, int | float) and not isinstance(time, bool) and math.isfinite(time)
    return {
        "resource_id": said["resource_id"],
        "usage_type": str(said.get("usage_type") or "reference"),
        "context": None if context is None else str(context),
        "timestamp": time if is_time else at.timestamp(),
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

    def _load_work(
        self,
        resource_file: str | os.PathLike[str],
        config: Mapping[str, Any] | None = None,
        resolve_paths: bool = True,  # noqa: FBT001, FBT002 - the original's signature
        fetcher: Fetcher | None = None,
    ) -> Work[dict[str, Any]]:
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
        snapshot: dict[str, Any] = yield Do(partial(self._snapshot, resource_file, config, resolve_paths, fetcher))
        name = self._ground.clean(Path(os.fsdecode(resource_file)).name)
        items = [self._kept_of(item, name) for item in snapshot["items"]]

        def make(change: Change) -> Steps[None]:
            there = {each.extra["resource"]["id"]: each for each in (yield from _items(change.view))}
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
                    body = truncated(_body(item), ITEM_CHARS)
                    change.drafts.append(record(key, body, _tags(item), change.now, label=_LABEL, resource=item))
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

    load, aload = both(_load_work)

    def _track_usage_work(self, resource_id: str, usage_type: str, context: str | None = None) -> Work[str]:
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
        work = self._archival._written(clean, marks)
        return self._as_step("track_usage", work, content=clean, outputs=lambda key: {"record_id": key})

    track_usage, atrack_usage = both(_track_usage_work)

    def _items_work(self) -> Work[list[dict[str, Any]]]:
        """What is remembered of each item, in the order of their ids: as snapshots have them."""

        def look(view: View) -> Steps[list[dict[str, Any]]]:
            items = [dict(each.extra["resource"]) for each in (yield from _items(view))]
            for item in items:
                del item["file"]
            return sorted(items, key=lambda item: str(item["id"]))

        def show(item: dict[str, Any]) -> dict[str, Any]:
            return {"id": item["id"], "status": item["fetch_status"]}

        return self._look("items", look, outputs=lambda items: listed("resources", items, show))

    items, aitems = both(_items_work)

    def _used_work(self) -> Work[list[dict[str, Any]]]:
        """What was used, oldest first, each time: "resource_id", "usage_type", "context" and "timestamp"."""

        def using() -> Work[list[dict[str, Any]]]:
            records = yield from self._archival._listing([RESOURCE_USED], shown=False)
            uses = (use_of(each.content, each.tags, each.created_at) for each in records)
            return [use for use in uses if use is not None]

        def show(use: dict[str, Any]) -> dict[str, Any]:
            return {name: use.get(name) for name in ("resource_id", "usage_type")}

        return self._as_step("used", using(), outputs=lambda uses: listed("uses", uses, show))

    used, aused = both(_used_work)

    def _snapshot(
        self, resource_file: Any, config: Mapping[str, Any] | None, resolve_paths: Any, fetcher: Fetcher | None
    ) -> dict[str, Any]:
        if config is None or isinstance(config, Mapping):
            config = {"redact_secrets": self.settings.redact_secrets, **(config or {})}
        return build_resource_snapshot(resource_file, config, resolve_paths, fetcher)

    def _kept_of(self, item: Mapping[str, Any], file: str) -> dict[str, Any]:
        """What is remembered of an item."""
        clean: dict[str, Any] = redact_value({**item, "file": file}, self._ground.settings.patterns)
        return clean | {"content_excerpt": truncated(clean["content_excerpt"], ITEM_CHARS)}

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
            too_large = yield from self._core._add_to(change, wanted)
            if too_large is None:
                return
            most = max(0, min(most, too_large.room)) if too_large.setting.key == RESOURCE_INDEX else 0
        raise InvalidInput(NO_ROOM)


def _items(view: View) -> Steps[list[Kept]]:
    return memory_rows.newest(view, RECORD, limit=None, label=_LABEL)


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
