"""Readers for files of TaskWeaver, MARSYS, OPUS (agent_memory.json) and MemGPT.

TaskWeaver writes a session as YAML or JSON: rounds, their posts, their attachments; the ids contain the times. MARSYS'
`save_to_file` writes the messages without ids and times, facts as sentences. OPUS keeps prompts and replies.

MemGPT-style SQLite files hold core, recall and archival memory on branches. Two forms are known, that of the design
(`core_memory`, `recall_memory`, `archival_memory`, `branches`) and that of the code that followed it (`core_kv` and
`core_meta`, `events`, `archival`, `branches`). The only branch without a parent becomes "main"; a fork begins where its
parent was when it was made.
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
from langchain_agentmem.audit.junk_rules import reasons
from langchain_agentmem.audit.legacy_json import drafts_of, read_document
from langchain_agentmem.base.argument_checks import name_given, text_given
from langchain_agentmem.base.clock import micros, moment
from langchain_agentmem.base.data_tables import read_yaml
from langchain_agentmem.base.namespaces import id_of, namespace_of
from langchain_agentmem.base.redaction import redact, redact_value
from langchain_agentmem.conversations.log_entries import post_entry, round_entry
from langchain_agentmem.conversations.message_log import LogEntry
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.importers import parcels
from langchain_agentmem.language_models.model_calls import SourceNote
from langchain_agentmem.layers.layer import USUAL
from langchain_agentmem.layers.memory_layers import MOST, record
from langchain_agentmem.messages.role_rounds import Conversation
from langchain_agentmem.rewinding import branches, memory_rows
from langchain_agentmem.rewinding.branches import KIND, MAIN, BranchPosition, PendingWrite, changed
from langchain_agentmem.rewinding.memory_rows import CORE, EVENT, VersionDraft, body_of
from langchain_agentmem.storage import Transaction, query
from langchain_agentmem.storage.foreign_tables import ForeignTables, foreign_tables
from langchain_agentmem.storage.transfer import PAGE, pages

_TIME = re.compile(r"-(\d{8}-\d{6})-")


# -- TaskWeaver ----------------------------------------------------------------------------------------------------


def read_taskweaver(source: Any, to: parcels.ImportTarget) -> Generator[parcels.Thing]:
    """Yield the sessions of TaskWeaver.

    Args:
        source: A YAML or JSON file, or a folder with such files in it or below it.
        to: The target.

    Raises:
        InvalidInput: The file does not exist, or is no session.
    """
    return parcels.of_files(parcels.path_given(source), (".yaml", ".yml", ".json"), _session, to)


def _session(path: Path, name: str, to: parcels.ImportTarget) -> Iterator[parcels.Thing]:
    given = parcels.value_of_file(path, to.limits, json.loads if path.suffix.lower() == ".json" else read_yaml)
    if isinstance(given, Mapping) and "rounds" not in given and ("exp_id" in given or "experience_text" in given):
        why = "memory.experiences(folder) reads experiences where they are."
        if to.wants(given.get("exp_id"), name):
            yield parcels.SkippedEntry(f"the experience in {safe_repr(path.name)}", why, holds="experiences")
        return
    if not isinstance(given, Mapping) or not isinstance(given.get("rounds"), list):
        raise InvalidInput(f"{safe_repr(str(path))} is no session of TaskWeaver: it has no rounds.")
    _give_ids(given, parcels.StableIds())
    session = Conversation.from_dict(given)
    own, entries = given.get("id"), _entries(session, parcels.time_of_file(path))
    key = own if isinstance(own, str) and own else name
    what, build = f"the session {safe_repr(key)}", partial(parcels.conversation, name=key, entries=entries)
    yield from parcels.owned(to, key, what, len(entries), build)


def _give_ids(given: Mapping[str, Any], names: parcels.StableIds) -> None:
    """Give an id to rounds, posts and attachments that have none."""
    for each in given["rounds"]:
        each["id"] = names.given(each.get("id"), "round", each.get("user_query"))
        for post in each.get("post_list") or ():
            post["id"] = names.given(post.get("id"), "post", post.get("send_from"), post.get("message"))
            for attached in post.get("attachment_list") or ():
                attached["id"] = names.given(attached.get("id"), "attachment", attached.get("content"))


def _entries(session: Conversation, otherwise: int) -> list[LogEntry]:
    entries: list[LogEntry] = []
    for each in session.rounds:
        begun = _time_in(each.id, otherwise)
        entries.append(round_entry(each, begun))
        entries += [post_entry(post, each.id, _time_in(post.id, begun)) for post in each.post_list]
    return entries


def _time_in(name: str, otherwise: int) -> int:
    """Return the time in an id of TaskWeaver, or `otherwise` if there is none."""
    if (found := _TIME.search(name)) is None:
        return otherwise
    try:
        return micros(datetime.strptime(found[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC))
    except ValueError:
        return otherwise


# -- MARSYS --------------------------------------------------------------------------------------------------------


def read_marsys(source: Any, to: parcels.ImportTarget) -> Generator[parcels.Thing]:
    """Yield what MARSYS' `save_to_file` wrote. The file name is the conversation's id.

    Args:
        source: The file, or a folder of such files.
        to: The target.

    Raises:
        InvalidInput: The source is no such file.
    """
    return parcels.of_files(parcels.path_given(source), (".json",), _saved, to)


def _saved(path: Path, name: str, to: parcels.ImportTarget) -> Iterator[parcels.Thing]:
    given = parcels.value_of_file(path, to.limits)
    if not isinstance(given, Mapping) or not isinstance(given.get("messages"), list):
        raise InvalidInput(f"{safe_repr(str(path))} was not written by MARSYS' save_to_file: it has no messages.")
    saved_at = parcels.time_of(given.get("timestamp"), parcels.time_of_file(path))
    messages = given["messages"]
    build = _facts if given.get("memory_type") == "kg" else _conversation
    made = partial(build, name, messages, saved_at)
    yield from parcels.owned(to, name, f"the file {safe_repr(path.name)}", len(messages), made)


def _conversation(name: str, messages: Sequence[Any], saved_at: int, to: parcels.ImportTarget) -> parcels.ImportBatch:
    names, entries = parcels.StableIds(), []
    for each in messages:
        key = names.given(each.get("message_id"), each)
        entries.append(parcels.said({**each, "message_id": key}, saved_at))
    return parcels.conversation(to, name, entries)


def _facts(name: str, messages: Sequence[Any], saved_at: int, to: parcels.ImportTarget) -> parcels.ImportBatch:
    """Return facts as records: their sentences do not separate subject and object."""
    names, drafts = parcels.StableIds(), []
    for each in messages:
        text = parcels.clean(each["content"], "A fact")
        drafts.append(record(names.given(None, each), text, ["fact", f"role:{each['role']}"], saved_at))
    return parcels.memories(to, f"the facts of {safe_repr(name)}", drafts)


# -- OPUS ----------------------------------------------------------------------------------------------------------


def read_opus(source: Any, to: parcels.ImportTarget) -> Generator[parcels.Thing]:
    """Yield the prompts and replies of an agent_memory.json as entries of the audit trail.

    A damaged file is read as far as possible.

    Args:
        source: The file. It is not changed, and no copy of a damaged one is kept next to it.
        to: The target.

    Raises:
        InvalidInput: The file does not exist.
    """
    path = parcels.path_given(source)
    to.limits.check_file(path)
    loaded = read_document(path)
    path_ = to.path()
    here = [each for each in loaded.entries if (each.prompt or each.reply) and to.wants(each.conversation_id)]
    drafts = drafts_of(here, namespace_of(path_), moment(to.now), _judged)
    for number, page in enumerate(pages(drafts)):
        what = f"entries from {number * PAGE + 1:,} on, in {parcels.where(to)}"
        yield parcels.written("entries", what, len(page), path_, _added(path_, page))
    for each in loaded.lost:
        yield parcels.SkippedEntry("an entry", each, holds="entries")


def _judged(entry: AuditEntry) -> AuditEntry:
    return replace(entry, junk=reasons(entry.kind, entry.prompt, entry.reply))


def _added(path: str, page: Sequence[Any]) -> parcels.Make:
    """Return the operation that writes entries."""
    return lambda tx, now: range(audit_store.add_new(tx, path, page))  # noqa: ARG005 - as every `Make`


# -- MemGPT --------------------------------------------------------------------------------------------------------


_ALWAYS = 1_000_000_000
"""Seconds: a smaller `ttl` counts from when the value was set, a greater one is a time."""


class _Form(NamedTuple):
    """The names of the tables of a file.

    Attributes:
        core: The table of core memory.
        recall: The table of events.
        archival: The table of records.
        copies: True if a fork has a copy of its parent's core memory.
    """

    core: str
    recall: str
    archival: str
    copies: bool


_FORMS = (
    _Form("core_memory", "recall_memory", "archival_memory", copies=True),
    _Form("core_kv", "events", "archival", copies=False),
)
_COLUMNS = {
    "event_type": "kind",
    "content": "text",
    "timestamp": "created_at",
    "tags_json": "tags",
    "node_name": "name",
    "node_uid": "name",
}
"""The names of columns here, if they differ."""


def _rows(tables: ForeignTables, table: str, order: str) -> Iterator[dict[str, Any]]:
    for row in tables.rows(table, order):
        yield {_COLUMNS.get(name, name): value for name, value in row.items()}


@dataclass(slots=True)
class _Branch:
    """A branch of the source.

    Attributes:
        key: Its id in the source.
        parent: The id of the branch that it was forked from; None for a root.
        name: Its name here.
        made: Its creation time, in microseconds since 1970.
        rows: The memories written on it, with their times, oldest first.
        forks: The branches that were forked from it, oldest first.
        copied: True if a fork has a copy of its parent's core memory, so that keys missing from it are deleted.
    """

    key: str
    parent: str | None
    name: str
    made: int
    rows: list[tuple[int, VersionDraft]] = field(default_factory=list)
    forks: list[_Branch] = field(default_factory=list)
    copied: bool = False


def read_memgpt(source: Any, to: parcels.ImportTarget) -> Generator[parcels.Thing]:
    """Yield the core, recall and archival memory of a MemGPT-style file.

    Args:
        source: The SQLite file.
        to: The target.

    Raises:
        InvalidInput: The source is no such file.
    """
    with foreign_tables(parcels.path_given(source)) as tables:
        form = next((each for each in _FORMS if {each.core, each.recall, each.archival} <= tables.columns.keys()), None)
        if form is None or "branches" not in tables.columns:
            raise InvalidInput(f"{tables.name} has no tables of core, recall and archival memory with branches.")
        yield from _trees(tables, form, to)


def _trees(tables: ForeignTables, form: _Form, to: parcels.ImportTarget) -> Iterator[parcels.Thing]:
    """Yield each branch without a parent, with all its forks."""
    found = _branches(tables, to)
    yield from _remembered(tables, form, found, to)
    roots: list[_Branch] = []
    for branch in sorted(found.values(), key=lambda each: (each.made, each.key)):
        branch.rows.sort(key=lambda row: row[0])
        parent = found.get(branch.parent or "")
        branch.copied = form.copies
        (roots if parent is None else parent.forks).append(branch)
    if len(roots) == 1:
        roots[0].name = MAIN
    reached = {each.key for root in roots for each in _all(root)}
    for key in found.keys() - reached:
        what, count = f"the branch {safe_repr(key)}", len(found[key].rows) or 1
        yield parcels.SkippedEntry(what, "it is among its own parents.", count, "memories")
    for root in roots:
        at = BranchPosition(to.path(), root.name, to.scopes)
        count = sum(len(each.rows) for each in _all(root))
        make = partial(_replayed, at=at, branch=root, kind=to.kind)
        yield parcels.written("memories", f"the branch {safe_repr(root.name)} and its forks", count, at.path, make)


def _all(branch: _Branch) -> Iterator[_Branch]:
    yield branch
    for each in branch.forks:
        yield from _all(each)


def _branches(tables: ForeignTables, to: parcels.ImportTarget) -> dict[str, _Branch]:
    found: dict[str, _Branch] = {}
    names = parcels.StableIds()
    for row in _rows(tables, "branches", "created_at"):
        key, parent = str(row["id"]), None if row["parent_id"] is None else str(row["parent_id"])
        name = id_of(names.given(row.get("name") or key), "branch")
        found[key] = _Branch(key, parent, name, parcels.time_of(row["created_at"], to.now))
    return found


def _remembered(
    tables: ForeignTables, form: _Form, found: Mapping[str, _Branch], to: parcels.ImportTarget
) -> Iterator[parcels.SkippedEntry]:
    """Add all rows to their branches, and yield those that cannot be imported."""
    meta: Mapping[tuple[Any, Any], Mapping[str, Any]] = {}
    if "core_meta" in tables.columns:
        meta = {(row["branch_id"], row["key"]): row for row in tables.rows("core_meta")}
    names: dict[str, parcels.StableIds] = defaultdict(parcels.StableIds)
    for table, drafted in ((form.core, _core), (form.recall, _event), (form.archival, _record)):
        for row in _rows(tables, table, "id"):
            what = f"{table} {safe_repr(row.get('id', row.get('key')))}"
            branch = found.get(str(row["branch_id"]))
            if branch is None:
                yield parcels.SkippedEntry(what, f"there is no branch {safe_repr(row['branch_id'])}.", holds="memories")
                continue
            more = meta.get((row["branch_id"], row.get("key")), {})
            try:
                branch.rows.append(drafted({**more, **row}, names[branch.key], to))
            except parcels.MALFORMED as error:
                yield parcels.SkippedEntry(what, parcels.why(error), holds="memories")


def _core(row: Mapping[str, Any], names: parcels.StableIds, to: parcels.ImportTarget) -> tuple[int, VersionDraft]:
    del names
    created = parcels.time_of(row.get("created_at"), parcels.time_of(row.get("updated_at"), to.now))
    updated = parcels.time_of(row.get("updated_at"), created)
    [(key, value)] = redact_value({name_given(row["key"], "a key"): text_given(row["value"], "A value")}).items()
    importance = USUAL if row.get("importance") is None else min(max(int(row["importance"]), 1), MOST)
    end = None
    if row.get("ttl") not in (None, ""):
        seconds = float(row["ttl"])
        end = int(seconds * 1_000_000) + (updated if seconds < _ALWAYS else 0)
        if end <= to.now:
            raise InvalidInput("it has expired.")
    return updated, VersionDraft(CORE, key, body_of(value), created, importance=importance, expires_at=end)


def _event(row: Mapping[str, Any], names: parcels.StableIds, to: parcels.ImportTarget) -> tuple[int, VersionDraft]:
    at = parcels.time_of(row["created_at"], to.now)
    kind, text = name_given(row["kind"], "a kind of event"), text_given(row["text"], "An event")
    key = names.given(None, row["branch_id"], row["created_at"], kind, text)
    return at, VersionDraft(EVENT, key, body_of(redact(text)), at, label=redact(kind), findable=True)


def _record(row: Mapping[str, Any], names: parcels.StableIds, to: parcels.ImportTarget) -> tuple[int, VersionDraft]:
    at = parcels.time_of(row["created_at"], to.now)
    text = parcels.clean(row["text"], "A record")
    own = row["id"] if isinstance(row["id"], str) else None
    key = id_of(names.given(own, row["branch_id"], row["created_at"], text), "record")
    return at, record(key, text, _tags(row.get("tags")), at)


def _tags(written: Any) -> Sequence[str]:
    if not written:
        return ()
    try:
        found = json.loads(written)
    except ValueError:
        found = str(written).split(",")
    return [redact(str(each).strip()) for each in (found if isinstance(found, list) else [found]) if str(each).strip()]


# -- MemGPT: writing -----------------------------------------------------------------------------------------------


def _replayed(tx: Transaction, now: int, *, at: BranchPosition, branch: _Branch, kind: str) -> list[Any]:
    """Write a branch and its forks by time, so that each fork sees the rows before it."""
    new: list[Any] = []
    waiting = branch.rows
    for fork in [*branch.forks, None]:
        before = len(waiting) if fork is None else sum(at <= fork.made for at, _ in waiting)
        add = partial(parcels.add_unknown, drafts=[draft for _, draft in waiting[:before]])
        waiting = waiting[before:]
        new += changed(tx, at, add, now, SourceNote("import", kind))
        if fork is not None:
            own = at._replace(name=fork.name)
            if not query.find_branch(tx, path=at.path, kind=KIND, name=fork.name):
                own = branches.fork(tx, at, fork.name, now)
                new += changed(tx, own, partial(_begun, fork=fork), now, SourceNote("import", kind))
            new += _replayed(tx, now, at=own, branch=fork, kind=kind)
    return new


def _begun(tx: Transaction, change: PendingWrite, fork: _Branch) -> list[str]:
    """Write the core memory of a new fork, independent of its parent's."""
    core = {draft.key: draft for _, draft in fork.rows if draft.kind == CORE}
    change.drafts += core.values()
    if fork.copied:
        for each in memory_rows.current(tx, change.view, CORE):
            if each.key not in core:
                change.remove(CORE, each.key)
    return list(core)
