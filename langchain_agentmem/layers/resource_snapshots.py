r"""What an agent's resources are at a moment: a digest that tells whether they changed, and a beginning of each.

    {"digest": "sha256:…", "resource_file_sha": "…", "config_normalized": {…}, "items": [
        {"id": "template:baseline:local:data:baseline", "class": "local_data", "fetch_status": "available",
         "path": "/workspace/input/data/baseline", "tree_summary": "main.c\nMakefile", "content_excerpt": "File: …"}]}

Nothing is read outside of the workspace, and nothing is fetched: what lies on GitHub or Hugging Face is "pending",
until the user gives a function that fetches it. A digest depends on what the files are called and hold, and not on
where the workspace lies, when a file was written, or in which order things are named; the document's original did.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from langchain_agentmem.base.encoding import encode
from langchain_agentmem.base.redaction import DEFAULT, SecretPattern, redact
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.layers.resource_excerpts import IGNORED, ITEM_CHARS, Options, Seen, limit_of, look, plain
from langchain_agentmem.layers.resource_files import CLASSES, Item, ResourceFile, Source, read_resource_file
from langchain_agentmem.layers.resource_workspace import Parts, Unreachable, Workspace, under
from langchain_agentmem.layers.truncation import truncated

Fetcher = Callable[[dict[str, Any]], Any]
"""Fetches what an item names: gives a `Path` of this machine, or a text, or None for "not yet"; or what can be awaited
for one of these."""

_REASON_CHARS = 300


def build_resource_snapshot(
    resource_file: str | os.PathLike[str],
    config: Mapping[str, Any] | None = None,
    resolve_paths: bool = True,  # noqa: FBT001, FBT002 - the document's signature
    fetcher: Fetcher | None = None,
) -> dict[str, Any]:
    """Take a snapshot of the resources that a file names (document 004).

    Args:
        resource_file: A YAML or JSON file, see `resource_file.py`.
        config: What may be said of it; other keys are left out. Default: nothing.

            - "workspace_root": the folder that nothing is read outside of. Default: that of the resource file.
            - "resource_item_max_chars": the most characters of an item's content whose file sets no other limit.
              Default 6,000.
            - "resource_ignore": names of files and folders to leave out, beside `.git`, `node_modules` and their like.
            - "redact_secrets": False shows secrets as they are. Default True.
            - "secret_patterns": what is taken for a secret, see `patterns_with`. Default: `secrets.DEFAULT`.
        resolve_paths: False looks at nothing: every item is "pending", and its path is as it was written. Default True.
        fetcher: Fetches what lies on GitHub and Hugging Face. It is given what the file says of an item, and gives a
            `pathlib.Path` (of the file, or of the whole repository, in which the item's path is looked up) or a text;
            None leaves the item pending. What it raises makes the item "failed".

    Returns:
        "digest", "resource_file_sha", "config_normalized" and "items", as document 004 has them. An item has "id",
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
    if config is None:
        return Options()
    if not isinstance(config, Mapping):
        raise InvalidInput(f"config must be a dictionary, not {safe_repr(config)}.")
    root, chars = config.get("workspace_root"), config.get("resource_item_max_chars", ITEM_CHARS)
    ignored, hides = config.get("resource_ignore", ()), config.get("redact_secrets", True)
    patterns = config.get("secret_patterns", DEFAULT)
    if isinstance(patterns, str) or not all(isinstance(each, SecretPattern) for each in patterns):
        raise InvalidInput("secret_patterns must be a list of patterns; make one with patterns_with([...]).")
    if root is not None and not isinstance(root, str | os.PathLike):
        raise InvalidInput(f"workspace_root must be a path, not {safe_repr(root)}.")
    if isinstance(chars, bool) or not isinstance(chars, int) or chars < 0:
        raise InvalidInput(f"resource_item_max_chars must be a whole number, 0 or more, not {safe_repr(chars)}.")
    if isinstance(ignored, str) or not isinstance(ignored, Sequence | set | frozenset):
        raise InvalidInput(f"resource_ignore must be a list of names, not {safe_repr(ignored)}.")
    return Options(
        workspace_root=None if root is None else os.fsdecode(root),
        item_chars=chars,
        ignored=IGNORED | {str(name) for name in ignored},
        redact=partial(redact, patterns=patterns) if hides else str,
    )


def _snapshot(
    item: Item, file: ResourceFile, workspace: Workspace | None, fetcher: Fetcher | None, options: Options
) -> dict[str, Any]:
    """One item, as a snapshot has it."""
    seen = Seen(status="pending", path=_mounted(item.source, item.path) or item.path)
    try:
        if workspace is not None and item.source.source == "local":
            parts = _local_parts(item, file, workspace)
            mounted = _mounted(item.source, item.path)
            seen = look(item, workspace, parts, options, mounted or str(workspace.root.joinpath(*parts)))
        elif workspace is not None and fetcher is not None:
            seen = _fetched(item, fetcher, options) or seen
    except Unreachable as error:
        seen = Seen(status="failed", path=seen.path, reason=str(error))
    content = {"id": item.id, "notes": item.notes, "status": seen.status, "found": seen.found}
    return {
        "id": item.id,
        "class": CLASSES[item.source.source],
        "fetch_status": seen.status,
        "path": seen.path,
        "tree_summary": seen.tree,
        "content_excerpt": seen.excerpt,
        "name": item.name,
        "kind": item.kind,
        "notes": options.redact(item.notes),
        "digest": _digest(content),
        "reason": truncated(options.redact(seen.reason), _REASON_CHARS),
    }


def _mounted(source: Source, path: str) -> str:
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


def _fetched(item: Item, fetcher: Fetcher, options: Options) -> Seen | None:
    path = _mounted(item.source, item.path) or item.path
    try:
        given = fetcher(_told(item))
        if inspect.isawaitable(given):
            given = _waited_for(given)
    except Exception as error:  # noqa: BLE001 - whatever a fetcher raises, the other items are looked at
        return Seen(status="failed", path=path, reason=f"It could not be fetched: {type(error).__name__}: {error}")
    if given is None:
        return None
    if isinstance(given, str):
        data = given.encode("utf-8", "surrogatepass")
        excerpt = truncated(options.redact(plain(given)), limit_of(item, options))
        return Seen(status="available", path=path, excerpt=excerpt, found={"text": hashlib.sha256(data).hexdigest()})
    if not isinstance(given, os.PathLike):
        kind = type(given).__name__
        return Seen(status="failed", path=path, reason=f"The fetcher gave a {kind}, and not a Path or a text.")
    local = Path(os.fsdecode(given))
    if local.is_file():
        return look(item, Workspace(local.parent), (local.name,), options, path)
    workspace = Workspace(local)
    return look(item, workspace, workspace.parts_of(item.path), options, path)


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
    source = item.source
    github = source.source == "github"
    return {
        "id": item.id,
        "class": CLASSES[source.source],
        "name": item.name,
        "kind": item.kind,
        "path": item.path,
        "include_files": list(item.include_files),
        "repo" if github else "repo_id": source.repo,
        "ref" if github else "revision": source.ref,
        "as" if github else "type": source.use,
        "dest": source.mount_path,
    }


# --- Digests ---------------------------------------------------------------------------------------------------------


def _normalized(file: ResourceFile) -> dict[str, Any]:
    """What a resource file says, whatever the order and notation."""
    of = partial(_sources, file)
    return {
        "local": [
            {"name": each.name, "host_path": each.host_path, "mount_path": each.mount_path, "read_only": each.read_only}
            for each in of("local")
        ],
        "github": [
            {"name": each.name, "repo": each.repo, "ref": each.ref, "dest": each.mount_path, "as": each.use}
            for each in of("github")
        ],
        "huggingface": [
            {"name": each.name, "type": each.use, "repo_id": each.repo, "revision": each.ref, "dest": each.mount_path}
            for each in of("huggingface")
        ],
        "items": [
            {
                "id": each.id,
                "name": each.name,
                "class": each.kind,
                "source": each.source.source,
                "resource": each.source.name or each.source.repo,
                "path": each.path,
                "notes": each.notes,
                "include_tree": each.limits.include_tree,
                "include_content": each.limits.include_content,
                "include_files": list(each.include_files),
                "max_files": each.limits.max_files,
                "max_chars": each.limits.max_chars,
                "max_total_chars": each.limits.max_total_chars,
            }
            for each in file.items
        ],
    }


def _sources(file: ResourceFile, kind: str) -> list[Source]:
    return [each for each in file.sources if each.source == kind]


def _digest(value: Any) -> str:
    return f"sha256:{hashlib.sha256(encode(value)).hexdigest()}"
