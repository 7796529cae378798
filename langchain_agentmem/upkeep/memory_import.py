"""Merge the rows of an export into a database with other rows, in one transaction.

New rows get new ids. Existing objects stay unchanged. Threads, conversations and named branches are identified by
namespace and name, items and byte-store values by key, audit entries by id. The import reads and writes the tables in
pages, so that its memory is bounded. Existing threads and conversations get the missing checkpoints and messages.

The branches of a thread have no names. So if a checkpoint has no position on a branch in this database, its branch is
imported from the export, with all entries. An existing thread keeps its memory, and gets back deleted memory.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from secrets import randbits
from typing import Any, TypeAlias

from langchain_agentmem.audit import audit_store
from langchain_agentmem.audit.audit_rows import REPLACED, EntryDraft
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.base.events import Watch
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.conversations import compaction_records, conversation_part
from langchain_agentmem.errors import BranchMoved, InvalidInput, safe_repr
from langchain_agentmem.rewinding import sealing, thread_memory
from langchain_agentmem.rewinding.branches import NAMED_BRANCH
from langchain_agentmem.rewinding.memory_rows import FOREVER
from langchain_agentmem.search import search_index
from langchain_agentmem.search.search_index import DocumentSeries, IndexedDocument
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import all_parts
from langchain_agentmem.storage.transfer import (
    TABLES,
    CountingProgress,
    RowSource,
    Table,
    has_row,
    number_documents,
    split_pages,
)
from langchain_agentmem.threads import thread_rows

Row: TypeAlias = dict[str, Any]

_TABLES_BY_NAME: Mapping[str, Table] = {table.name: table for table in TABLES}
_VERSION_ID_KEYS = {"thread_post": "first", "thread_round": "first", "thread_item_read": "of"}
"""The key in `extra` with the id of another version, by the kind of memory."""
_SKIPPED_TABLES = (
    "namespace", "content", "audit_head", "search_scope", "search_series", "search_total",
    "search_speaker", "search_vector", "search_unembedded", "search_state", "prompt_note",
)  # fmt: skip
"""Tables whose rows are imported with other rows, are rebuilt, or belong to one database only."""
_FIELDS_BY_TABLE = {"entry": "entries", "checkpoint": "checkpoints", "blob": "blobs", "item": "items"}
"""The field of `TransferReport` for a table."""
_OWNER_TABLES = {"message": "entry", "nested_message": "entry", "item": "item"}
"""The table of each kind of searchable object. Default: "memory"."""


class MemoryImport:
    """The import of an export into a database.

    Args:
        source: The rows of the export.
        file: A transaction of the export.
        tx: A transaction of the database.
        database: The database.
        progress: Receives the number of rows processed.

    Attributes:
        added: The counts of a `TransferReport`, and the number of rows written to each table.
        conversations: Path, name and new messages of each conversation.
    """

    def __init__(
        self, source: RowSource, file: Transaction, tx: Transaction, database: Database, progress: Watch | None
    ) -> None:
        self._source, self._export_tx, self._tx = source, file, tx
        self._now, self._limits = database.now(), database.limits
        tables = [table for table in TABLES if table.name not in _SKIPPED_TABLES]
        self._counter = CountingProgress(progress, "importing", map(source.count, tables))
        self._ids: dict[str, dict[int, int]] = defaultdict(dict)  # by table and id in the export: the id here
        self._existing_threads: dict[int, int] = {}
        self._old_heads: dict[int, tuple[int, int] | None] = {}  # of the existing threads, before the import
        self._existing_ns: dict[int, int] = {}
        self._existing_branches: dict[int, Row] = {}
        self._existing_authors: set[int] = set()
        self._forks: dict[int, list[int]] = defaultdict(list)  # by branch: positions of its imported forks
        self._group_ids: dict[int, int] = {}
        self._needed_groups: set[int] = set()  # groups without a branch that a task or a subgraph refers to
        self.added: Counter[str] = Counter()
        self.conversations: list[tuple[str, str, list[str]]] = []

    def run(self) -> MemoryImport:
        """Write all new rows.

        Raises:
            InvalidInput: An object of the same name exists here with other content.
        """
        self._import_threads()
        self._import_branches()
        self._import_authors()
        self._import_table("entry")
        renumber = partial(compaction_records.renumber_parent, ids=self._ids["compaction"])
        self._import_table("compaction", renumber, size=1)
        self._import_table("item", key_columns=("namespace_id", "key"))
        self._import_table("blob", key_columns=("namespace_id", "key"))
        self._import_table("finished_task", self._adjust_task, key_columns=("thread_id", "task"))
        self._import_table("finished_group", self._adjust_group, key_columns=("group_id", "thread_id", "task"))
        self._import_memory()
        self._import_table("memory_source")
        self._import_table("memory_group", self._adjust_memory_group)
        self._import_table("sealed_group", self._adjust_group)
        self._import_table("branch_base", self._adjust_base)
        self._import_table("base_group", self._adjust_group)
        self._import_positions()
        self._import_audit()
        self._merge_conversations()
        self._update_visibility()
        self._index_rows()
        return self

    # -- rows ------------------------------------------------------------------------------------------------------

    def _import_table(
        self,
        name: str,
        adjust: Callable[[Row], object] = bool,
        *,
        key_columns: Sequence[str] = (),
        rows: Iterable[Row] | None = None,
        size: int | None = None,
    ) -> None:
        """Insert the rows of a table whose references were all imported.

        Args:
            name: The name of the table.
            adjust: Changes a translated row. If it returns False, the row is skipped. Default: no change.
            key_columns: The columns that identify a row. Existing rows are skipped. Default: no row exists.
            rows: Some of the table's rows. Default: all.
            size: The number of rows per insert. Default: that of `split_pages`.
        """
        has_own_id = _TABLES_BY_NAME[name].key == ("id",) and name != "memory_group"
        for page in split_pages(self._source.find_rows(name) if rows is None else rows, size):
            self._counter.add(len(page))
            ids = iter(self._tx.take_ids(name, len(page)) if has_own_id else ())
            fresh: list[tuple[Any, Row]] = []  # each with its id in the export
            for row in page:
                old: Any = row.get("id")
                if self._translate(name, row):
                    fresh.append((old, row))
                    if (new := next(ids, None)) is not None:
                        self._ids[name][old] = row["id"] = new
            if key_columns:
                fresh = self._drop_existing(name, key_columns, fresh)
            self._insert(name, [row for _, row in fresh if adjust(row) is not False])

    def _drop_existing(self, name: str, keys: Sequence[str], rows: Sequence[tuple[Any, Row]]) -> list[tuple[Any, Row]]:
        """Return the rows that do not exist here."""
        lookups = [has_row(self._tx, name, {column: row[column] for column in keys}) for _, row in rows]
        fresh = []
        for (old, row), exists in zip(rows, lookups, strict=True):
            if exists:
                self._ids[name].pop(old, None)
            else:
                fresh.append((old, row))
        return fresh

    def _translate(self, name: str, row: Row) -> bool:
        """Replace the references of a row by ids here. Return False if one was not imported."""
        for column, table in _TABLES_BY_NAME[name].references.items():
            if row[column] is not None and table != "content":
                new = self._namespace_id(row[column]) if table == "namespace" else self._ids[table].get(row[column])
                if new is None:
                    return False
                row[column] = new
        return True

    def _namespace_id(self, old: int) -> int:
        """Return the id of a namespace here. Create the namespace for its first row."""
        ids = self._ids["namespace"]
        if old not in ids:
            [row] = self._source.find_rows("namespace", id=old)
            ids[old] = queries.ensure_namespace(self._tx, row["path"])
        return ids[old]

    def _insert(self, name: str, rows: Sequence[Row]) -> None:
        """Insert rows of a table with the contents that they reference, without documents."""
        if not rows:
            return
        self._store_contents(name, rows)
        for row in rows:
            for value in row.values():
                if isinstance(value, str | bytes):
                    self._limits.check("value_bytes", len(value), f"A value of the table {name}")
            if "document_id" in row:
                row["document_id"] = None
        self._tx.insert_rows(name, list(rows[0]), [tuple(row.values()) for row in rows])
        self.added[_FIELDS_BY_TABLE.get(name, name)] += len(rows)

    def _store_contents(self, name: str, rows: Sequence[Row]) -> None:
        columns = [column for column, table in _TABLES_BY_NAME[name].references.items() if table == "content"]
        wanted = {row[column] for row in rows for column in columns} - {None}
        if not wanted:
            return
        contents = self._source.run(query.exported_contents, ids=json.dumps(sorted(wanted)))
        hashes: dict[int, bytes] = {}
        bodies: dict[bytes, bytes] = {}
        for row in contents:
            self._limits.check("value_bytes", len(row["body"]), "A value of the export")
            hashes[row["id"]] = row["hash"]
            bodies[row["hash"]] = row["body"]
        queries.store_bodies(self._tx, bodies)
        stored = query.contents_of_hashes(self._tx, hashes=json.dumps([each.hex() for each in bodies]))
        ids = {bytes(row["hash"]): row["id"] for row in stored}
        if len(ids) < len(bodies):
            raise BranchMoved  # another program deleted a body in between: retry the transaction
        for target in rows:
            target.update({column: ids[hashes[target[column]]] for column in columns if target[column] is not None})

    # -- threads ---------------------------------------------------------------------------------------------------

    def _import_threads(self) -> None:
        """Import new threads, and add missing checkpoints to existing threads."""
        new, existing = [], []
        for row in self._source.run(query.exported_threads):
            key = ThreadKey(row.pop("path"), row["name"])
            thread = thread_rows.find_thread(self._tx, key, exact=True)
            if thread is None:
                new.append(row)
            else:
                existing.append((key, row))
                self._existing_threads[row["id"]] = thread.id
                self._old_heads[thread.id] = thread_memory.head_place(self._tx, thread.id)
        self.added["threads"] = len(new) + len(existing)
        storage_ids = json.dumps(sorted({row["store_id"] for row in new}))
        self._import_table("part_store", rows=self._source.run(query.exported_stores, ids=storage_ids))
        self._import_table("thread", rows=new)
        for name in ("checkpoint_ns", "part", "checkpoint", "channel_value", "pending_write"):
            self._import_table(name)
        for key, row in existing:
            self._merge_thread(key, row)
        self._ids["thread"] |= self._existing_threads

    def _merge_thread(self, key: ThreadKey, thread: Row) -> None:
        rows: list[Row] = []
        ns_by_id = {row["id"]: row["ns"] for row in self._source.find_rows("checkpoint_ns", thread_id=thread["id"])}
        for ns_id, ns in ns_by_id.items():
            for name in ("channel_value", "pending_write", "checkpoint"):
                rows += [row | {"ns": ns} for row in self._source.find_rows(name, ns_id=ns_id)]
        parts = self._source.run(query.exported_parts, store=thread["store_id"])
        self.added["checkpoints"] += thread_rows.merge_thread(self._tx, key, parts, rows, delta=bool(thread["delta"]))
        for ns_id, ns in ns_by_id.items():
            existing = thread_rows.find_thread(self._tx, key, ns, exact=True)
            if existing is not None and existing.ns_id is not None:
                self._existing_ns[ns_id] = existing.ns_id

    # -- branches --------------------------------------------------------------------------------------------------

    def _import_branches(self) -> None:
        """Import new conversations and named branches, and the branches that checkpoints need."""
        # The branches of imported checkpoints, and of existing ones without a position here.
        ns_ids = self._ids["checkpoint_ns"]
        wanted = {row["branch_id"] for row in self._source.find_rows("checkpoint_position") if row["ns_id"] in ns_ids}
        wanted |= {row["branch_id"] for ns_id in self._existing_ns for row in self._missing_positions(ns_id)}
        for row in self._source.run(query.exported_branches):  # the newest first: each after its forks
            if row["name"] is not None:
                existing = query.branch_details(self._tx, path=row["path"], kind=row["kind"], name=row["name"])
                if not existing:
                    wanted.add(row["id"])
                elif row["kind"] == NAMED_BRANCH:
                    self._match_branch(row, existing[0])
            if row["id"] in wanted and row["id"] not in self._existing_branches:
                wanted |= {row["parent_id"], row["base_id"]} - {None}
                if (parent := row["parent_id"]) is not None:
                    self._forks[parent].append(row["parent_position"])
                self.added["branches"] += row["kind"] == NAMED_BRANCH
        wanted -= self._existing_branches.keys()
        self._import_table("branch", rows=(row for row in self._source.find_rows("branch") if row["id"] in wanted))
        for row in self._source.find_rows("branch_base"):
            if row["branch_id"] in wanted:
                self._needed_groups.update(group for group, _ in json.loads(row["groups"]))

    def _missing_positions(self, ns_id: int) -> list[Row]:
        """Return the positions of existing checkpoints that have no position here."""
        rows = list(self._source.find_rows("checkpoint_position", ns_id=ns_id))
        keys = json.dumps([row["checkpoint"] for row in rows])
        unplaced = query.unplaced_checkpoints(self._tx, ns_id=self._existing_ns[ns_id], keys=keys)
        names = {row["name"] for row in unplaced}
        return [row for row in rows if row["checkpoint"] in names]

    def _import_positions(self) -> None:
        self._import_table("checkpoint_position")
        missing = [row for ns_id in self._existing_ns for row in self._missing_positions(ns_id)]
        self._ids["checkpoint_ns"] |= self._existing_ns
        self._import_table("checkpoint_position", rows=missing)

    def _match_branch(self, branch: Row, existing: Any) -> None:
        """Record a named branch that already exists here.

        Raises:
            InvalidInput: The existing branch has other content.
        """
        same = all(branch[name] == existing[name] for name in ("parent", "parent_position", "created_at"))
        if not same or existing["head"] < branch["head"]:
            raise _branch_conflict(branch)
        self._ids["branch"][branch["id"]] = existing["id"]
        self._existing_branches[branch["id"]] = branch | {"ahead": existing["head"] > branch["head"]}

    def _import_authors(self) -> None:
        for row in self._source.find_rows("author"):
            old, namespace, thread = row["id"], self._namespace_id(row["namespace_id"]), row["thread_id"]
            new = None
            if thread in self._existing_threads:
                self._existing_authors.add(old)
                new = sealing.author_of(self._tx, self._existing_threads[thread]).id
            elif thread is None:
                new = query.find_author(self._tx, namespace=namespace, name=row["name"])[0]["id"]
            if new is None:
                self._import_table("author", rows=[row])
            else:
                self._ids["author"][old] = new

    # -- memory ----------------------------------------------------------------------------------------------------

    def _import_memory(self) -> None:
        """Import the versions on imported branches, and the versions of needed groups.

        The copies of a version follow it. If the version was not imported, its first copy replaces it.
        """
        ids = self._ids["memory"]
        rows = self._source.run(query.exported_memory)
        for page in split_pages(rows):
            self._counter.add(len(page))
            fresh = []
            for row, new in zip(page, self._tx.take_ids("memory", len(page)), strict=True):
                original = row["copy_of"] or row["id"]
                if not self._is_wanted(row, original):
                    continue
                if row["author_id"] in self._existing_authors:
                    row["visible_until"] = 0
                row["id"], row["copy_of"] = new, None
                self._translate("memory", row)
                row["copy_of"] = ids.get(original)
                ids.setdefault(original, new)
                self._adjust_group(row)
                self._update_version_id(row)
                fresh.append(row)
            self._insert("memory", fresh)
            self.added["memories"] += sum(row["kind"] != "message" for row in fresh)

    def _is_wanted(self, row: Row, original: int) -> bool:
        """Return whether to import a version. If its branch exists here, compare the version."""
        branch = row["branch_id"]
        if branch is None:
            return row["group_id"] in self._needed_groups and original not in self._ids["memory"]
        if branch in self._existing_branches:
            self._compare_version(row, self._existing_branches[branch])
            return False
        return branch in self._ids["branch"]

    def _compare_version(self, row: Row, branch: Row) -> None:
        """Check that an existing branch has a version, or had it and has advanced since.

        Raises:
            InvalidInput: The version differs, or a fork of the export needs it.
        """
        columns = {name: row[name] for name in ("kind", "key", "position")}
        versions = query.version_at(self._tx, branch=self._ids["branch"][branch["id"]], **columns)
        content = row["content_id"]
        hash_ = next(self._source.find_rows("content", id=content))["hash"] if content else None
        names = ("label", "importance", "expires_at", "created_at")
        expected = [hash_, *(row[name] for name in names)]
        found = [[each["hash"] and bytes(each["hash"]), *(each[name] for name in names)] for each in versions]
        if not versions and branch["ahead"]:
            if any(row["position"] <= fork < row["until"] for fork in self._forks[branch["id"]]):
                raise InvalidInput(
                    f"The branch {safe_repr(branch['name'])} has newer entries here, and lacks a version that a fork "
                    "of the export needs. Import the file into another database."
                )
        elif expected not in found:
            raise _branch_conflict(branch)

    def _update_version_id(self, row: Row) -> None:
        """Replace the version id in the `extra` of a row by the id here."""
        name = _VERSION_ID_KEYS.get(row["kind"])
        extra = json.loads(row["extra"]) if name and row["extra"] else {}
        if name in extra:
            row["extra"] = as_json(extra | {name: self._version_id(extra[name])})

    def _version_id(self, old: int) -> int:
        """Return the id of a version here, else that of the last imported version before it."""
        ids = self._ids["memory"]
        return ids.get(old) or max((new for each, new in ids.items() if each <= old), default=0)

    # -- adjustments and other tables ------------------------------------------------------------------------------

    def _group_id(self, old: int) -> int:
        """Return the id of a group here: the same id, unless this database already has it."""
        if old not in self._group_ids:
            known = query.known_groups(self._tx, ids=json.dumps([old]))
            self._group_ids[old] = randbits(62) if known else old
        return self._group_ids[old]

    def _adjust_group(self, row: Row) -> None:
        row["group_id"] = row["group_id"] and self._group_id(row["group_id"])

    def _adjust_task(self, row: Row) -> None:
        groups = json.loads(row["groups"])
        self._needed_groups.update(groups)
        row["groups"] = json.dumps(sorted(map(self._group_id, groups)))

    def _adjust_memory_group(self, row: Row) -> bool:
        """Set the new id of a group, and clear its owner. Return whether the group is needed."""
        needed = row["id"] in self._needed_groups
        row["id"], row["owner"] = self._group_id(row["id"]), None
        return needed

    def _adjust_base(self, row: Row) -> None:
        bounds = json.loads(row["groups"])
        new = [(self._group_id(id_), end if end == FOREVER else self._version_id(end)) for id_, end in bounds]
        row["groups"] = json.dumps(sorted(new))

    def _import_audit(self) -> None:
        """Append the new entries of the audit trail to the chain."""
        rows = self._source.run(query.exported_audit)
        for path, entries in groupby(rows, key=lambda row: str(row["path"])):
            for page in split_pages(entries):
                self._counter.add(len(page))
                loaded = audit_store.load_by_number(self._export_tx, [row["sequence"] for row in page])
                drafts = [
                    EntryDraft(entry, row["mark"], replaced=row["hidden"] == REPLACED)
                    for row, entry in zip(page, loaded, strict=True)
                ]
                self.added["audit"] += audit_store.add_new(self._tx, path, drafts)

    def _merge_conversations(self) -> None:
        """Add missing messages to existing conversations, and record the new messages."""
        for row in self._source.run(query.exported_conversations):
            key = ThreadKey(row["path"], row["name"])
            if row["id"] in self._ids["branch"]:
                new = self._source.find_rows("entry", branch_id=row["id"])
                keys = [entry["key"] for entry in new]
            else:
                records = conversation_part.dump_records(self._export_tx, key)
                keys = conversation_part.restore_records(self._tx, key, records, now=self._now, following=True)
                self.added["entries"] += len(keys)
            self.added["conversations"] += 1
            self.conversations.append((key.path, key.name, keys))

    def _update_visibility(self) -> None:
        """Mark the visible rows of existing threads whose head has moved to another place."""
        for thread, old_head in self._old_heads.items():
            sealing.update_visibility(self._tx, thread, old_head, thread_memory.head_place(self._tx, thread), self._now)

    # -- the search index ------------------------------------------------------------------------------------------

    def _index_rows(self) -> None:
        """Index the imported rows that have documents in the export, series by series.

        The text of a document depends on whether the next version of the message has a document. So all messages with
        documents are marked first.
        """
        ids = self._ids["entry"]
        for page in split_pages(self._source.run(query.exported_documents)):
            owners = [row["owner"] for row in page if _OWNER_TABLES.get(row["kind"]) == "entry"]
            marks = [{"document": 0, "id": ids[owner]} for owner in owners if owner in ids]
            number_documents(self._tx, "entry", marks)
        documents = self._source.run(query.exported_documents)
        for _, series in groupby(documents, key=lambda row: int(row["series"])):
            for page in split_pages(series):
                self._counter.add(len(page))
                table = _OWNER_TABLES.get(page[0]["kind"], "memory")
                if imported := [row for row in page if row["owner"] in self._ids[table]]:
                    self._index_page(imported, table)

    def _index_page(self, rows: Sequence[Row], table: str) -> None:
        ids, first = self._ids[table], rows[0]
        owners = [ids[row["owner"]] for row in rows]
        texts = all_parts().texts[first["kind"]](self._tx, owners)
        documents = [
            IndexedDocument("\n".join(texts.get(owner, ())), row["created_at"], role=row["role"])
            for row, owner in zip(rows, owners, strict=True)
        ]
        target = DocumentSeries(first["path"], first["kind"], first["name"])
        placed = search_index.reserve_places(self._tx, target, documents)
        search_index.write(self._tx, placed, owners)
        numbered = list(zip(rows, placed.numbers, strict=True))
        number_documents(self._tx, table, [{"document": number, "id": ids[row["owner"]]} for row, number in numbered])
        speakers = [{"id": number, "speaker": row["speaker"]} for row, number in numbered if row["speaker"] is not None]
        if speakers:
            series = placed.numbers[0] >> search_index.PLACE_BITS
            query.set_speaker.run_many(self._tx, speakers)
            words = self._source.find_rows("search_speaker", series_id=first["series"])
            new = [{"word": each["word"], "speaker": each["speaker"], "series": series} for each in words]
            query.insert_speaker.run_many(self._tx, new)


def _branch_conflict(branch: Row) -> InvalidInput:
    return InvalidInput(
        f"The branch {safe_repr(branch['name'])} exists here with other content than in the export. Erase its "
        "namespace first, or import the file into another database."
    )
