"""Readers for files of TaskWeaver, MARSYS, OPUS (agent_memory.json) and MemGPT.

TaskWeaver writes a session as YAML or JSON. It has rounds, posts and attachments, and their ids contain times. The
`save_to_file` method of MARSYS writes messages, or facts as sentences. Its messages have no times, so they get the time
when the file was saved. OPUS stores prompts and replies.

MemGPT-style SQLite files contain core, recall and archival memory on branches. Two sets of tables are supported. The
design has `core_memory`, `recall_memory`, `archival_memory` and `branches`. The later code has `core_kv`, `core_meta`,
`events`, `archival` and `branches`. A branch without a parent becomes "main" if it is the only one. A fork begins with
the memory that its parent had when the fork was created.
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
from typing import Any, NamedTuple

from langchain_agentmem.audit import audit_store
from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.audit.junk_rules import junk_reasons
from langchain_agentmem.audit.legacy_json import drafts_of, read_document
from langchain_agentmem.base.argument_checks import check_name, check_text
from langchain_agentmem.base.clock import from_micros, to_micros
from langchain_agentmem.base.data_tables import parse_yaml
from langchain_agentmem.base.namespaces import check_id, namespace_of
from langchain_agentmem.base.redaction import redact, redact_value
from langchain_agentmem.conversations.log_entries import post_entry, round_entry
from langchain_agentmem.conversations.message_log import LogEntry
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.importers import batches
from langchain_agentmem.language_models.model_calls import SourceNote
from langchain_agentmem.layers.layer import DEFAULT_IMPORTANCE
from langchain_agentmem.layers.memory_layers import MAX_IMPORTANCE, record_draft
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


def read_taskweaver(source: Any, to: batches.ImportTarget) -> Generator[batches.SourceEntry]:
    """Yield the sessions of TaskWeaver.

    Args:
        source: A YAML or JSON file, or a folder of such files. Its subfolders are read too.
        to: The target.

    Raises:
        InvalidInput: The file does not exist, or has no rounds.
    """
    return batches.read_files(batches.parse_path(source), (".yaml", ".yml", ".json"), _read_session, to)


def _read_session(path: Path, name: str, to: batches.ImportTarget) -> Iterator[batches.SourceEntry]:
    given = batches.parse_file(path, to.limits, json.loads if path.suffix.lower() == ".json" else parse_yaml)
    if isinstance(given, Mapping) and "rounds" not in given and ("exp_id" in given or "experience_text" in given):
        reason = "experiences are not imported: memory.experiences(folder) reads the files."
        if to.wants(given.get("exp_id"), name):
            yield batches.SkippedEntry(f"the experience in {safe_repr(path.name)}", reason, holds="experiences")
        return
    if not isinstance(given, Mapping) or not isinstance(given.get("rounds"), list):
        raise InvalidInput(f"{safe_repr(str(path))} is not a session of TaskWeaver: it has no rounds.")
    _give_ids(given, batches.StableIds())
    session = Conversation.from_dict(given)
    own_id, entries = given.get("id"), _session_entries(session, batches.time_of_file(path))
    key = own_id if isinstance(own_id, str) and own_id else name
    label, build = f"the session {safe_repr(key)}", partial(batches.conversation_batch, name=key, entries=entries)
    yield from batches.batch_or_skip(to, key, label, len(entries), build)


def _give_ids(given: Mapping[str, Any], names: batches.StableIds) -> None:
    """Assign ids to the rounds, posts and attachments that have none. Change repeated ids."""
    for each in given["rounds"]:
        each["id"] = names.next_id(each.get("id"), "round", each.get("user_query"))
        for post in each.get("post_list") or ():
            post["id"] = names.next_id(post.get("id"), "post", post.get("send_from"), post.get("message"))
            for attached in post.get("attachment_list") or ():
                attached["id"] = names.next_id(attached.get("id"), "attachment", attached.get("content"))


def _session_entries(session: Conversation, default: int) -> list[LogEntry]:
    entries: list[LogEntry] = []
    for each in session.rounds:
        started_at = _time_in_id(each.id, default)
        entries.append(round_entry(each, started_at))
        entries += [post_entry(post, each.id, _time_in_id(post.id, started_at)) for post in each.post_list]
    return entries


def _time_in_id(name: str, default: int) -> int:
    """Return the time in an id of TaskWeaver, or `default` if the id has none."""
    if (found := _ID_TIME.search(name)) is None:
        return default
    try:
        return to_micros(datetime.strptime(found[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC))
    except ValueError:
        return default


# -- MARSYS --------------------------------------------------------------------------------------------------------


def read_marsys(source: Any, to: batches.ImportTarget) -> Generator[batches.SourceEntry]:
    """Yield the messages or facts of files that MARSYS' `save_to_file` wrote.

    The id of a conversation is the file name without its suffix.

    Args:
        source: The file, or a folder of such files.
        to: The target.

    Raises:
        InvalidInput: The source is not such a file.
    """
    return batches.read_files(batches.parse_path(source), (".json",), _read_saved, to)


def _read_saved(path: Path, name: str, to: batches.ImportTarget) -> Iterator[batches.SourceEntry]:
    given = batches.parse_file(path, to.limits)
    if not isinstance(given, Mapping) or not isinstance(given.get("messages"), list):
        raise InvalidInput(f"{safe_repr(str(path))} was not written by MARSYS' save_to_file: it has no messages.")
    saved_at = batches.time_of(given.get("timestamp"), batches.time_of_file(path))
    messages = given["messages"]
    build = _facts_batch if given.get("memory_type") == "kg" else _marsys_batch
    make_batch = partial(build, name, messages, saved_at)
    yield from batches.batch_or_skip(to, name, f"the file {safe_repr(path.name)}", len(messages), make_batch)


def _marsys_batch(name: str, messages: Sequence[Any], saved_at: int, to: batches.ImportTarget) -> batches.ImportBatch:
    names, entries = batches.StableIds(), []
    for each in messages:
        key = names.next_id(each.get("message_id"), each)
        entries.append(batches.log_entry({**each, "message_id": key}, saved_at))
    return batches.conversation_batch(to, name, entries)


def _facts_batch(name: str, messages: Sequence[Any], saved_at: int, to: batches.ImportTarget) -> batches.ImportBatch:
    """Return the batch of a file's facts, as records of archival memory.

    They cannot be stored as facts, because a sentence does not separate subject and object.
    """
    names, drafts = batches.StableIds(), []
    for each in messages:
        text = batches.redact_text(each["content"], "A fact")
        drafts.append(record_draft(names.next_id(None, each), text, ["fact", f"role:{each['role']}"], saved_at))
    return batches.memory_batch(to, f"the facts of {safe_repr(name)}", drafts)


# -- OPUS ----------------------------------------------------------------------------------------------------------


def read_opus(source: Any, to: batches.ImportTarget) -> Generator[batches.SourceEntry]:
    """Yield the prompts and replies of an agent_memory.json as entries of the audit trail.

    The readable entries of a damaged file are imported.

    Args:
        source: The file. It is only read, and no backup of a damaged file is made.
        to: The target.

    Raises:
        InvalidInput: The file does not exist.
    """
    path = batches.parse_path(source)
    to.limits.check_file(path)
    document = read_document(path)
    namespace_path = to.path()
    wanted = [each for each in document.entries if (each.prompt or each.reply) and to.wants(each.conversation_id)]
    drafts = drafts_of(wanted, namespace_of(namespace_path), from_micros(to.now), _mark_junk)
    for number, page in enumerate(split_pages(drafts)):
        label = f"entries from {number * PAGE_ROWS + 1:,} on, in {batches.target_label(to)}"
        yield batches.make_batch("entries", label, len(page), namespace_path, _add_entries(namespace_path, page))
    for each in document.lost:
        yield batches.SkippedEntry("an entry", each, holds="entries")


def _mark_junk(entry: AuditEntry) -> AuditEntry:
    return replace(entry, junk=junk_reasons(entry.kind, entry.prompt, entry.reply))


def _add_entries(path: str, page: Sequence[Any]) -> batches.WriteOperation:
    """Return the function that writes a page of audit entries."""
    return lambda tx, now: range(audit_store.add_new(tx, path, page))  # noqa: ARG005 - the signature of `WriteOperation`


# -- MemGPT --------------------------------------------------------------------------------------------------------


_TTL_LIMIT = 1_000_000_000
"""Seconds. A smaller `ttl` is a duration from the last update. Others are times since 1970."""


class _Form(NamedTuple):
    """The form of a MemGPT-style file: the names of its tables.

    Attributes:
        core: The table of core memory.
        recall: The table of events.
        archival: The table of records.
        copies: True if the file has a copy of the parent's core memory for each fork.
    """

    core: str
    recall: str
    archival: str
    copies: bool


_FORMS = (
    _Form("core_memory", "recall_memory", "archival_memory", copies=True),
    _Form("core_kv", "events", "archival", copies=False),
)
_COLUMN_NAMES = {
    "event_type": "kind",
    "content": "text",
    "timestamp": "created_at",
    "tags_json": "tags",
    "node_name": "name",
    "node_uid": "name",
}
"""The keys of rows in this module by the names of the file's columns, where they differ."""


def _renamed_rows(tables: ForeignTables, table: str, order: str) -> Iterator[dict[str, Any]]:
    for row in tables.rows(table, order):
        yield {_COLUMN_NAMES.get(name, name): value for name, value in row.items()}


@dataclass(slots=True)
class _Branch:
    """A branch of a MemGPT-style file.

    Attributes:
        key: The id in the source.
        parent: The id of its parent in the source. None for a branch without a parent.
        name: The name of the imported branch.
        created_at: The creation time, in microseconds since 1970.
        rows: The memories that were written on it, with their times, oldest first.
        forks: The branches that were forked from it, oldest first.
        copied: True if a fork in the source has a copy of its parent's core memory. Inherited keys that the copy
            lacks are then deleted from the fork.
    """

    key: str
    parent: str | None
    name: str
    created_at: int
    rows: list[tuple[int, VersionDraft]] = field(default_factory=list)
    forks: list[_Branch] = field(default_factory=list)
    copied: bool = False


def read_memgpt(source: Any, to: batches.ImportTarget) -> Generator[batches.SourceEntry]:
    """Yield the core, recall and archival memory of a MemGPT-style file.

    Args:
        source: The SQLite file.
        to: The target.

    Raises:
        InvalidInput: The source is not such a file.
    """
    with foreign_tables(batches.parse_path(source)) as tables:
        form = next((each for each in _FORMS if {each.core, each.recall, each.archival} <= tables.columns.keys()), None)
        if form is None or "branches" not in tables.columns:
            raise InvalidInput(f"{tables.name} has no tables of core, recall and archival memory with branches.")
        yield from _read_trees(tables, form, to)


def _read_trees(tables: ForeignTables, form: _Form, to: batches.ImportTarget) -> Iterator[batches.SourceEntry]:
    """Yield a batch for each branch without a parent. The batch includes all its forks."""
    found = _read_branches(tables, to)
    yield from _read_memories(tables, form, found, to)
    roots: list[_Branch] = []
    for branch in sorted(found.values(), key=lambda each: (each.created_at, each.key)):
        branch.rows.sort(key=lambda row: row[0])
        parent = found.get(branch.parent or "")
        branch.copied = form.copies
        (roots if parent is None else parent.forks).append(branch)
    if len(roots) == 1:
        roots[0].name = MAIN
    reached = {each.key for root in roots for each in _with_forks(root)}
    for key in found.keys() - reached:
        label, count = f"the branch {safe_repr(key)}", len(found[key].rows) or 1
        yield batches.SkippedEntry(label, "it descends from itself.", count, "memories")
    for root in roots:
        at = BranchPosition(to.path(), root.name, to.scopes)
        count = sum(len(each.rows) for each in _with_forks(root))
        make = partial(_write_branch, at=at, branch=root, kind=to.kind)
        yield batches.make_batch("memories", f"the branch {safe_repr(root.name)} and its forks", count, at.path, make)


def _with_forks(branch: _Branch) -> Iterator[_Branch]:
    yield branch
    for each in branch.forks:
        yield from _with_forks(each)


def _read_branches(tables: ForeignTables, to: batches.ImportTarget) -> dict[str, _Branch]:
    found: dict[str, _Branch] = {}
    names = batches.StableIds()
    for row in _renamed_rows(tables, "branches", "created_at"):
        key, parent = str(row["id"]), None if row["parent_id"] is None else str(row["parent_id"])
        name = check_id(names.next_id(row.get("name") or key), "branch")
        found[key] = _Branch(key, parent, name, batches.time_of(row["created_at"], to.now))
    return found


def _read_memories(
    tables: ForeignTables, form: _Form, found: Mapping[str, _Branch], to: batches.ImportTarget
) -> Iterator[batches.SkippedEntry]:
    """Add the rows to their branches. Yield a skipped entry for each row that is not valid."""
    meta: Mapping[tuple[Any, Any], Mapping[str, Any]] = {}
    if "core_meta" in tables.columns:
        meta = {(row["branch_id"], row["key"]): row for row in tables.rows("core_meta")}
    names: dict[str, batches.StableIds] = defaultdict(batches.StableIds)
    for table, make_draft in ((form.core, _core_draft), (form.recall, _event_draft), (form.archival, _record_draft)):
        for row in _renamed_rows(tables, table, "id"):
            label = f"{table} {safe_repr(row.get('id', row.get('key')))}"
            branch = found.get(str(row["branch_id"]))
            if branch is None:
                reason = f"the branch {safe_repr(row['branch_id'])} does not exist."
                yield batches.SkippedEntry(label, reason, holds="memories")
                continue
            more = meta.get((row["branch_id"], row.get("key")), {})
            try:
                branch.rows.append(make_draft({**more, **row}, names[branch.key], to))
            except batches.MALFORMED_ERRORS as error:
                yield batches.SkippedEntry(label, batches.skip_reason(error), holds="memories")


def _core_draft(row: _Row, names: batches.StableIds, to: batches.ImportTarget) -> tuple[int, VersionDraft]:
    del names
    created = batches.time_of(row.get("created_at"), batches.time_of(row.get("updated_at"), to.now))
    updated = batches.time_of(row.get("updated_at"), created)
    [(key, value)] = redact_value({check_name(row["key"], "a key"): check_text(row["value"], "A value")}).items()
    given = DEFAULT_IMPORTANCE if row.get("importance") is None else int(row["importance"])
    importance = min(max(given, 1), MAX_IMPORTANCE)
    end = None
    if row.get("ttl") not in (None, ""):
        seconds = float(row["ttl"])
        end = int(seconds * 1_000_000) + (updated if seconds < _TTL_LIMIT else 0)
        if end <= to.now:
            raise InvalidInput("it has expired.")
    return updated, VersionDraft(CORE, key, encode_text(value), created, importance=importance, expires_at=end)


def _event_draft(row: _Row, names: batches.StableIds, to: batches.ImportTarget) -> tuple[int, VersionDraft]:
    at = batches.time_of(row["created_at"], to.now)
    kind, text = check_name(row["kind"], "a kind of event"), check_text(row["text"], "An event")
    key = names.next_id(None, row["branch_id"], row["created_at"], kind, text)
    return at, VersionDraft(EVENT, key, encode_text(redact(text)), at, label=redact(kind), findable=True)


def _record_draft(row: _Row, names: batches.StableIds, to: batches.ImportTarget) -> tuple[int, VersionDraft]:
    at = batches.time_of(row["created_at"], to.now)
    text = batches.redact_text(row["text"], "A record")
    own_id = row["id"] if isinstance(row["id"], str) else None
    key = check_id(names.next_id(own_id, row["branch_id"], row["created_at"], text), "record")
    return at, record_draft(key, text, _parse_tags(row.get("tags")), at)


def _parse_tags(text: Any) -> Sequence[str]:
    if not text:
        return ()
    try:
        found = json.loads(text)
    except ValueError:
        found = str(text).split(",")
    return [redact(str(each).strip()) for each in (found if isinstance(found, list) else [found]) if str(each).strip()]


# -- MemGPT: writing -----------------------------------------------------------------------------------------------


def _write_branch(tx: Transaction, now: int, *, at: BranchPosition, branch: _Branch, kind: str) -> list[Any]:
    """Write a branch and its forks in the order of time.

    A fork is created after the rows that are not newer than it. It therefore inherits these rows.
    """
    new: list[Any] = []
    remaining = branch.rows
    for fork in [*branch.forks, None]:
        before = len(remaining) if fork is None else sum(at <= fork.created_at for at, _ in remaining)
        add = partial(batches.add_new_drafts, drafts=[draft for _, draft in remaining[:before]])
        remaining = remaining[before:]
        new += apply_change(tx, at, add, now, SourceNote("import", kind))
        if fork is not None:
            fork_position = at._replace(name=fork.name)
            if not query.find_branch(tx, path=at.path, kind=NAMED_BRANCH, name=fork.name):
                fork_position = branches.create_fork(tx, at, fork.name, now)
                write = partial(_write_fork_core, fork=fork)
                new += apply_change(tx, fork_position, write, now, SourceNote("import", kind))
            new += _write_branch(tx, now, at=fork_position, branch=fork, kind=kind)
    return new


def _write_fork_core(tx: Transaction, change: PendingWrite, fork: _Branch) -> list[str]:
    """Write the core memory of a new fork, also for keys that it inherits from its parent.

    If the source has a copy of the core memory for each fork, inherited keys that the copy lacks are deleted.
    """
    core = {draft.key: draft for _, draft in fork.rows if draft.kind == CORE}
    change.drafts += core.values()
    if fork.copied:
        for each in memory_rows.load_current(tx, change.view, CORE):
            if each.key not in core:
                change.remove(CORE, each.key)
    return list(core)
