"""Readers for files of TaskWeaver, MARSYS, OPUS (agent_memory.json) and MemGPT.

TaskWeaver writes a session as YAML or JSON. A session has rounds, posts and attachments, whose ids contain times. The
`save_to_file` method of MARSYS writes messages, or facts as sentences. They have no times, so they get the time when
the file was saved. OPUS stores prompts and replies.

MemGPT-style SQLite files contain core, recall and archival memory on branches. Their tables are either `core_memory`,
`recall_memory`, `archival_memory` and `branches`, or `core_kv`, `core_meta`, `events`, `archival` and `branches`. If
only one branch has no parent, it becomes the branch "main". A fork begins with the memory that its parent had when the
fork was created.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from langchain_agentmem.audit import audit_store
from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.audit.junk_rules import junk_reasons
from langchain_agentmem.audit.legacy_json import make_drafts, read_document
from langchain_agentmem.base.argument_checks import check_name, check_text
from langchain_agentmem.base.clock import from_micros, to_micros
from langchain_agentmem.base.data_tables import parse_yaml
from langchain_agentmem.base.namespaces import check_id, namespace_of
from langchain_agentmem.base.redaction import redact, redact_value
from langchain_agentmem.conversations.log_entries import make_post_entry, make_round_entry
from langchain_agentmem.conversations.message_log import LogEntry
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.importers import batches
from langchain_agentmem.importers.batches import ImportBatch, ImportTarget, SkippedEntry, SourceEntry
from langchain_agentmem.language_models.model_calls import SourceNote
from langchain_agentmem.layers.layer import DEFAULT_IMPORTANCE
from langchain_agentmem.layers.memory_layers import MAX_IMPORTANCE, draft_record
from langchain_agentmem.messages.role_rounds import Conversation
from langchain_agentmem.rewinding import branches, memory_rows
from langchain_agentmem.rewinding.branches import MAIN, NAMED_BRANCH, BranchPosition, PendingWrite, apply_change
from langchain_agentmem.rewinding.memory_rows import CORE, EVENT, VersionDraft, encode_text
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.foreign_tables import ForeignTables, foreign_tables
from langchain_agentmem.storage.transfer import PAGE_ROWS, split_pages

_ID_TIME = re.compile(r"-(\d{8}-\d{6})-")
_Row = Mapping[str, Any]


# -- TaskWeaver ----------------------------------------------------------------------------------------------------


def read_taskweaver(source: Any, target: ImportTarget) -> Generator[SourceEntry]:
    """Yield the sessions of TaskWeaver.

    Args:
        source: A YAML or JSON file, or a folder of such files. Its subfolders are read too.
        target: The target.

    Raises:
        InvalidInput: The file does not exist, or has no rounds.
    """
    return batches.read_files(batches.parse_path(source), (".yaml", ".yml", ".json"), _read_session, target)


def _read_session(path: Path, name: str, target: ImportTarget) -> Iterator[SourceEntry]:
    data = batches.parse_file(path, target.limits, json.loads if path.suffix.lower() == ".json" else parse_yaml)
    if isinstance(data, Mapping) and "rounds" not in data and ("exp_id" in data or "experience_text" in data):
        reason = "experiences are not imported: memory.experiences(folder) reads the files."
        if target.wants(data.get("exp_id"), name):
            yield SkippedEntry(f"the experience in {safe_repr(path.name)}", reason, holds="experiences")
        return
    if not isinstance(data, Mapping) or not isinstance(data.get("rounds"), list):
        raise InvalidInput(f"{safe_repr(str(path))} is not a session of TaskWeaver: it has no rounds.")
    _assign_ids(data, batches.StableIds())
    own_id, entries = data.get("id"), _session_entries(Conversation.from_dict(data), batches.time_of_file(path))
    session_id = own_id if isinstance(own_id, str) and own_id else name
    build = partial(batches.conversation_batch, conversation_id=session_id, entries=entries)
    yield from batches.batch_or_skip(target, session_id, f"the session {safe_repr(session_id)}", len(entries), build)


def _assign_ids(data: Mapping[str, Any], ids: batches.StableIds) -> None:
    """Assign unique ids to rounds, posts and attachments. Keep existing unique ids."""
    for round_ in data["rounds"]:
        round_["id"] = ids.next_id(round_.get("id"), "round", round_.get("user_query"))
        for post in round_.get("post_list") or ():
            post["id"] = ids.next_id(post.get("id"), "post", post.get("send_from"), post.get("message"))
            for attachment in post.get("attachment_list") or ():
                attachment["id"] = ids.next_id(attachment.get("id"), "attachment", attachment.get("content"))


def _session_entries(session: Conversation, default_time: int) -> list[LogEntry]:
    entries: list[LogEntry] = []
    for each in session.rounds:
        started_at = _time_in_id(each.id, default_time)
        entries.append(make_round_entry(each, started_at))
        entries += [make_post_entry(post, each.id, _time_in_id(post.id, started_at)) for post in each.post_list]
    return entries


def _time_in_id(name: str, default: int) -> int:
    """Return the time in an id of TaskWeaver, or `default` if the id has none."""
    if (match := _ID_TIME.search(name)) is None:
        return default
    try:
        return to_micros(datetime.strptime(match[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC))
    except ValueError:
        return default


# -- MARSYS --------------------------------------------------------------------------------------------------------


def read_marsys(source: Any, target: ImportTarget) -> Generator[SourceEntry]:
    """Yield the messages or facts of files that MARSYS' `save_to_file` wrote.

    The id of a conversation is the file name without its suffix.

    Args:
        source: The file, or a folder of such files.
        target: The target.

    Raises:
        InvalidInput: The source is not such a file.
    """
    return batches.read_files(batches.parse_path(source), (".json",), _read_marsys_file, target)


def _read_marsys_file(path: Path, name: str, target: ImportTarget) -> Iterator[SourceEntry]:
    data = batches.parse_file(path, target.limits)
    if not isinstance(data, Mapping) or not isinstance(data.get("messages"), list):
        raise InvalidInput(f"{safe_repr(str(path))} was not written by MARSYS' save_to_file: it has no messages.")
    saved_at = batches.time_of(data.get("timestamp"), batches.time_of_file(path))
    messages = data["messages"]
    build = partial(_facts_batch if data.get("memory_type") == "kg" else _marsys_batch, name, messages, saved_at)
    yield from batches.batch_or_skip(target, name, f"the file {safe_repr(path.name)}", len(messages), build)


def _marsys_batch(name: str, messages: Sequence[Any], saved_at: int, target: ImportTarget) -> ImportBatch:
    ids = batches.StableIds()
    keyed = ({**each, "message_id": ids.next_id(each.get("message_id"), each)} for each in messages)
    return batches.conversation_batch(target, name, [batches.log_entry(each, saved_at) for each in keyed])


def _facts_batch(name: str, messages: Sequence[Any], saved_at: int, target: ImportTarget) -> ImportBatch:
    """Return a batch of archival records for facts, since subjects and objects are not known."""
    ids, drafts = batches.StableIds(), []
    for each in messages:
        text = batches.redact_text(each["content"], "A fact")
        drafts.append(draft_record(ids.next_id(None, each), text, ["fact", f"role:{each['role']}"], saved_at))
    return batches.memory_batch(target, f"the facts of {safe_repr(name)}", drafts)


# -- OPUS ----------------------------------------------------------------------------------------------------------


def read_opus(source: Any, target: ImportTarget) -> Generator[SourceEntry]:
    """Yield the prompts and replies of an agent_memory.json as entries of the audit trail.

    If the file is damaged, its readable entries are yielded.

    Args:
        source: The file. Unlike `AuditTrail.import_document`, this reader writes no copy of a damaged file.
        target: The target.

    Raises:
        InvalidInput: The file does not exist.
    """
    path = batches.parse_path(source)
    target.limits.check_file(path)
    document = read_document(path)
    namespace_path = target.path()
    wanted = [each for each in document.entries if (each.prompt or each.reply) and target.wants(each.conversation_id)]
    drafts = make_drafts(wanted, namespace_of(namespace_path), from_micros(target.now), _mark_junk)
    for number, page in enumerate(split_pages(drafts)):
        title = f"entries from {number * PAGE_ROWS + 1:,} on, in {batches.describe_target(target)}"
        yield batches.make_batch("entries", title, len(page), namespace_path, _add_entries(namespace_path, page))
    for reason in document.lost:
        yield SkippedEntry("an entry", reason, holds="entries")


def _mark_junk(entry: AuditEntry) -> AuditEntry:
    return replace(entry, junk=junk_reasons(entry.kind, entry.prompt, entry.reply))


def _add_entries(path: str, page: Sequence[Any]) -> batches.WriteOperation:
    """Return the function that writes a page of audit entries."""
    return lambda tx, now: range(audit_store.add_new(tx, path, page))  # noqa: ARG005 - the signature of `WriteOperation`


# -- MemGPT --------------------------------------------------------------------------------------------------------


_TTL_LIMIT = 1_000_000_000
"""Seconds. A smaller `ttl` in a file is a duration from the last update. Any other is a time since 1970."""


_SCHEMAS = {("core_memory", "recall_memory", "archival_memory"): True, ("core_kv", "events", "archival"): False}
"""The tables of core, recall and archival memory in the two kinds of MemGPT-style files.

The value is True if the file stores the whole core memory of each fork. False if it stores only the changes.
"""
_KEYS_BY_COLUMN = {
    "event_type": "kind",
    "content": "text",
    "timestamp": "created_at",
    "tags_json": "tags",
    "node_name": "name",
    "node_uid": "name",
}
"""The keys of rows in this module, by the name of the column in the file. Other columns keep their names."""


def _read_rows(tables: ForeignTables, table: str, order: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table by the column `order`, with the keys of `_KEYS_BY_COLUMN`."""
    for row in tables.rows(table, order):
        yield {_KEYS_BY_COLUMN.get(name, name): value for name, value in row.items()}


@dataclass(slots=True)
class _Branch:
    """A branch of a MemGPT-style file.

    Attributes:
        id: The id of the branch in the file.
        parent_id: The id of the parent branch in the file, or None.
        name: The name of the imported branch.
        created_at: The creation time, in microseconds since 1970.
        rows: The memories that were written on the branch, with their times, oldest first.
        forks: The branches that were forked from this branch, oldest first.
        whole_core: The value of the file's kind in `_SCHEMAS`. If True, inherited core keys that are not in `rows` are
            deleted from the fork.
    """

    id: str
    parent_id: str | None
    name: str
    created_at: int
    rows: list[tuple[int, VersionDraft]] = field(default_factory=list)
    forks: list[_Branch] = field(default_factory=list)
    whole_core: bool = False


def read_memgpt(source: Any, target: ImportTarget) -> Generator[SourceEntry]:
    """Yield the core, recall and archival memory of a MemGPT-style file.

    Args:
        source: The SQLite file.
        target: The target.

    Raises:
        InvalidInput: The source is not such a file.
    """
    with foreign_tables(batches.parse_path(source)) as tables:
        schema = next((names for names in _SCHEMAS if {*names} <= {*tables.columns}), None)
        if schema is None or "branches" not in tables.columns:
            raise InvalidInput(f"{tables.name} has no tables of core, recall and archival memory with branches.")
        yield from _read_trees(tables, schema, target)


def _read_trees(tables: ForeignTables, schema: tuple[str, str, str], target: ImportTarget) -> Iterator[SourceEntry]:
    """Yield a batch for each branch without a parent, with its forks at all depths."""
    by_id = _read_branches(tables, target)
    yield from _read_memories(tables, schema, by_id, target)
    roots: list[_Branch] = []
    for branch in sorted(by_id.values(), key=lambda each: (each.created_at, each.id)):
        branch.rows.sort(key=lambda row: row[0])
        parent = by_id.get(branch.parent_id or "")
        branch.whole_core = _SCHEMAS[schema]
        (roots if parent is None else parent.forks).append(branch)
    if len(roots) == 1:
        roots[0].name = MAIN
    reached = {each.id for root in roots for each in _with_forks(root)}
    for branch_id in by_id.keys() - reached:
        title, count = f"the branch {safe_repr(branch_id)}", len(by_id[branch_id].rows) or 1
        yield SkippedEntry(title, "its ancestors form a cycle.", count, "memories")
    for root in roots:
        path, count = target.path(), sum(len(each.rows) for each in _with_forks(root))
        position = BranchPosition(path, root.name, target.scopes)
        write = partial(_write_branch, position=position, branch=root, kind=target.kind)
        yield batches.make_batch("memories", f"the branch {safe_repr(root.name)} and its forks", count, path, write)


def _with_forks(branch: _Branch) -> Iterator[_Branch]:
    yield branch
    for each in branch.forks:
        yield from _with_forks(each)


def _read_branches(tables: ForeignTables, target: ImportTarget) -> dict[str, _Branch]:
    by_id: dict[str, _Branch] = {}
    unique_names = batches.StableIds()
    for row in _read_rows(tables, "branches", "created_at"):
        branch_id, parent_id = str(row["id"]), None if row["parent_id"] is None else str(row["parent_id"])
        name = check_id(unique_names.next_id(row.get("name") or branch_id), "branch")
        by_id[branch_id] = _Branch(branch_id, parent_id, name, batches.time_of(row["created_at"], target.now))
    return by_id


def _read_memories(
    tables: ForeignTables, schema: Sequence[str], by_id: Mapping[str, _Branch], target: ImportTarget
) -> Iterator[SkippedEntry]:
    """Add the rows to their branches. Yield a skipped entry for each malformed or expired row."""
    core_details: Mapping[tuple[Any, Any], Mapping[str, Any]] = {}
    if "core_meta" in tables.columns:
        core_details = {(row["branch_id"], row["key"]): row for row in tables.rows("core_meta")}
    ids_by_branch: dict[str, batches.StableIds] = defaultdict(batches.StableIds)
    for table, make_draft in zip(schema, (_core_draft, _event_draft, _record_draft), strict=True):
        for row in _read_rows(tables, table, "id"):
            title = f"{table} {safe_repr(row.get('id', row.get('key')))}"
            branch = by_id.get(str(row["branch_id"]))
            if branch is None:
                yield SkippedEntry(title, f"the branch {safe_repr(row['branch_id'])} does not exist.", holds="memories")
                continue
            details = core_details.get((row["branch_id"], row.get("key")), {})
            try:
                branch.rows.append(make_draft({**details, **row}, ids_by_branch[branch.id], target))
            except batches.MALFORMED_ERRORS as error:
                yield SkippedEntry(title, batches.skip_reason(error), holds="memories")


def _core_draft(row: _Row, ids: batches.StableIds, target: ImportTarget) -> tuple[int, VersionDraft]:
    del ids  # the id of a core value is its key
    created = batches.time_of(row.get("created_at"), batches.time_of(row.get("updated_at"), target.now))
    updated = batches.time_of(row.get("updated_at"), created)
    [(key, value)] = redact_value({check_name(row["key"], "a key"): check_text(row["value"], "A value")}).items()
    importance = DEFAULT_IMPORTANCE if row.get("importance") is None else int(row["importance"])
    importance = min(max(importance, 1), MAX_IMPORTANCE)
    expires_at = None
    if row.get("ttl") not in (None, ""):
        seconds = float(row["ttl"])
        expires_at = int(seconds * 1_000_000) + (updated if seconds < _TTL_LIMIT else 0)
        if expires_at <= target.now:
            raise InvalidInput("it has expired.")
    return updated, VersionDraft(CORE, key, encode_text(value), created, importance=importance, expires_at=expires_at)


def _event_draft(row: _Row, ids: batches.StableIds, target: ImportTarget) -> tuple[int, VersionDraft]:
    time = batches.time_of(row["created_at"], target.now)
    kind, text = check_name(row["kind"], "a kind of event"), check_text(row["text"], "An event")
    key = ids.next_id(None, row["branch_id"], row["created_at"], kind, text)
    return time, VersionDraft(EVENT, key, encode_text(redact(text)), time, label=redact(kind), findable=True)


def _record_draft(row: _Row, ids: batches.StableIds, target: ImportTarget) -> tuple[int, VersionDraft]:
    time = batches.time_of(row["created_at"], target.now)
    text = batches.redact_text(row["text"], "A record")
    record_id = check_id(ids.next_id(row["id"], row["branch_id"], row["created_at"], text), "record")
    return time, draft_record(record_id, text, _parse_tags(row.get("tags")), time)


def _parse_tags(text: Any) -> Sequence[str]:
    if not text:
        return ()
    try:
        tags = json.loads(text)
    except ValueError:
        tags = str(text).split(",")
    return [redact(str(each).strip()) for each in (tags if isinstance(tags, list) else [tags]) if str(each).strip()]


# -- MemGPT: writing -----------------------------------------------------------------------------------------------


def _write_branch(tx: Transaction, now: int, *, position: BranchPosition, branch: _Branch, kind: str) -> list[Any]:
    """Write a branch and its forks. Return the new memories.

    For each fork, first write the parent's rows up to the fork's creation time. Then create the fork, so that it
    inherits exactly these rows.
    """
    new: list[Any] = []
    remaining = branch.rows
    for fork in [*branch.forks, None]:  # None: the rows after the last fork
        count = len(remaining) if fork is None else sum(time <= fork.created_at for time, _ in remaining)
        add = partial(batches.add_new_drafts, drafts=[draft for _, draft in remaining[:count]])
        remaining = remaining[count:]
        new += apply_change(tx, position, add, now, SourceNote("import", kind))
        if fork is not None:
            fork_position = position._replace(name=fork.name)
            if not query.find_branch(tx, path=position.path, kind=NAMED_BRANCH, name=fork.name):
                fork_position = branches.create_fork(tx, position, fork.name, now)
                write = partial(_write_fork_core, fork=fork)
                new += apply_change(tx, fork_position, write, now, SourceNote("import", kind))
            new += _write_branch(tx, now, position=fork_position, branch=fork, kind=kind)
    return new


def _write_fork_core(tx: Transaction, change: PendingWrite, fork: _Branch) -> list[str]:
    """Write the core memory of a new fork, and replace inherited values of the same keys.

    If the file stores the whole core memory of each fork, inherited keys that are not stored are deleted.
    """
    core = {draft.key: draft for _, draft in fork.rows if draft.kind == CORE}
    change.drafts += core.values()
    if fork.whole_core:
        for each in memory_rows.load_current(tx, change.view, CORE):
            if each.key not in core:
                change.remove(CORE, each.key)
    return list(core)
