"""Merge the rows of an export into a database with other rows, in one transaction.

In this module, "here" means in the database that receives the rows. New rows get new ids here. Existing objects stay
unchanged. Threads, conversations and named branches are identified by namespace and name, items and byte-store values
by namespace and key, audit entries by id. The import reads and writes pages of rows, so that it needs little RAM.
Existing threads and conversations get the missing checkpoints and messages.

The branches of a thread have no names to identify them. So if a checkpoint has no position on a branch here, its branch
in the export is imported, with all entries. Imported branches do not replace the branches of an existing thread. Memory
that was deleted here since the export is restored, except on a named branch that still exists here.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from secrets import randbits
from typing import Any, TypeAlias

from langchain_agentmem.audit import audit_store
from langchain_agentmem.audit.audit_rows import REPLACED, EntryDraft
from langchain_agentmem.base.encoding import as_json
from langchain_agentmem.base.hooks import Watch
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.conversations import compaction_records, conversation_part
from langchain_agentmem.errors import BranchMoved, InvalidInput, safe_repr
from langchain_agentmem.rewinding import sealing, thread_memory
from langchain_agentmem.rewinding.branches import NAMED_BRANCH
from langchain_agentmem.rewinding.memory_rows import FOREVER
from langchain_agentmem.search import search_index
from langchain_agentmem.search.search_index import DocumentSeries, IndexedDocument
from langchain_agentmem.storage import Transaction, queries, query, transfer
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.part import all_parts
from langchain_agentmem.storage.transfer import TABLES, TABLES_BY_NAME, RowSource, number_documents, split_pages
from langchain_agentmem.threads import thread_rows

Row: TypeAlias = dict[str, Any]

_VERSION_ID_KEYS = {"thread_post": "first", "thread_round": "first", "thread_item_read": "of"}
"""The kinds of memory whose column `extra` contains the id of another version, and the JSON key of that id."""
_SKIPPED_TABLES = (
    "namespace", "content", "audit_head", "search_scope", "search_series", "search_total",
    "search_speaker", "search_vector", "search_unembedded", "search_state", "prompt_note",
)  # fmt: skip
"""Tables whose rows are imported with other rows, are rebuilt, or are only valid in their own database."""
_REPORT_FIELDS_BY_TABLE = {"entry": "entries", "checkpoint": "checkpoints", "blob": "blobs", "item": "items"}
"""The field of `TransferReport` that counts the rows of a table. Default: the name of the table."""
_DOCUMENT_TABLES = {"message": "entry", "nested_message": "entry", "item": "item"}
"""The table with the rows of the search documents, by kind. Default: "memory". A document's "owner" is its row's id."""


class MemoryImport:
    """The import of an export into a database.

    Args:
        source: The rows of the export.
        export_tx: A transaction of the export.
        tx: A transaction of the database.
        database: The database.
        progress: Receives the number of rows processed.

    Attributes:
        added: The counts of a `TransferReport`, and the number of rows written to each other table.
        conversations: The path of the namespace, the id, and the ids of the new messages of each conversation.
    """

    def __init__(
        self, source: RowSource, export_tx: Transaction, tx: Transaction, database: Database, progress: Watch | None
    ) -> None:
        self._source, self._export_tx, self._tx = source, export_tx, tx
        self._now, self._limits = database.now(), database.limits
        tables = [table for table in TABLES if table.name not in _SKIPPED_TABLES]
        self._counter = transfer.CountingProgress(progress, "importing", map(source.count, tables))
        # In these attributes, keys are ids in the export, and values are ids here.
        self._ids: dict[str, dict[int, int]] = defaultdict(dict)  # by table
        self._existing_threads: dict[int, int] = {}
        self._existing_ns: dict[int, int] = {}  # the checkpoint namespaces of the existing threads
        self._group_ids: dict[int, int] = {}
        # These attributes use ids in the export, except `_old_heads`.
        self._existing_branches: dict[int, Row] = {}  # the rows in the export
        self._existing_authors: set[int] = set()
        self._fork_positions: dict[int, list[int]] = defaultdict(list)  # of the imported forks of each branch
        self._needed_groups: set[int] = set()  # groups that an imported task or subgraph refers to
        self._old_heads: dict[int, tuple[int, int] | None] = {}  # of the existing threads, before the import
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
        self._import_table("compaction", renumber, size=1)  # one row per page: the parent of a row is imported first
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
        adjust: Callable[[Row], object] | None = None,
        *,
        key_columns: Sequence[str] = (),
        rows: Iterable[Row] | None = None,
        size: int | None = None,
    ) -> None:
        """Insert the rows of a table whose references were all imported.

        Args:
            name: The name of the table.
            adjust: Changes a row after its ids were translated. If it returns False, the row is skipped. Default: no
                change.
            key_columns: The columns that identify a row, to skip rows that exist here. Default: no row is looked up.
            rows: The rows in the export. Default: all rows of the table.
            size: The number of rows per page. Default: that of `split_pages`.
        """
        has_own_id = TABLES_BY_NAME[name].key == ("id",) and name != "memory_group"
        for page in split_pages(self._source.find_rows(name) if rows is None else rows, size):
            self._counter.add(len(page))
            ids = iter(self._tx.take_ids(name, len(page)) if has_own_id else ())
            new_rows: list[tuple[Any, Row]] = []  # each with its id in the export
            for row in page:
                old_id: Any = row.get("id")
                if self._translate(name, row):
                    new_rows.append((old_id, row))
                    if (new_id := next(ids, None)) is not None:
                        self._ids[name][old_id] = row["id"] = new_id
            if key_columns:
                new_rows = self._drop_existing(name, key_columns, new_rows)
            self._insert(name, [row for _, row in new_rows if adjust is None or adjust(row) is not False])

    def _drop_existing(self, name: str, keys: Sequence[str], rows: Sequence[tuple[Any, Row]]) -> list[tuple[Any, Row]]:
        """Return the rows that do not exist here."""
        lookups = [transfer.find_row(self._tx, name, {column: row[column] for column in keys}) for _, row in rows]
        for (old_id, _), exists in zip(rows, lookups, strict=True):
            if exists:
                self._ids[name].pop(old_id, None)
        return [row for row, exists in zip(rows, lookups, strict=True) if not exists]

    def _translate(self, name: str, row: Row) -> bool:
        """Replace the ids of other rows in a row. Return False if one was not imported."""
        for column, table in TABLES_BY_NAME[name].references.items():
            if row[column] is not None and table != "content":
                is_namespace, old_id = table == "namespace", row[column]
                new_id = self._ensure_namespace_id(old_id) if is_namespace else self._ids[table].get(old_id)
                if new_id is None:
                    return False
                row[column] = new_id
        return True

    def _ensure_namespace_id(self, old_id: int) -> int:
        """Return the id of a namespace here. Create the namespace if it is missing."""
        ids = self._ids["namespace"]
        if old_id not in ids:
            [row] = self._source.find_rows("namespace", id=old_id)
            ids[old_id] = queries.ensure_namespace(self._tx, row["path"])
        return ids[old_id]

    def _insert(self, name: str, rows: Sequence[Row]) -> None:
        """Insert rows of a table and the contents that they refer to. Indexing follows later."""
        if not rows:
            return
        self._store_contents(name, rows)
        for row in rows:
            self._limits.check_rows(f"table {name}", list(row), row)
            if "document_id" in row:
                row["document_id"] = None
        self._tx.insert_rows(name, list(rows[0]), [tuple(row.values()) for row in rows])
        self.added[_REPORT_FIELDS_BY_TABLE.get(name, name)] += len(rows)

    def _store_contents(self, name: str, rows: Sequence[Row]) -> None:
        columns = [column for column, table in TABLES_BY_NAME[name].references.items() if table == "content"]
        content_ids = {row[column] for row in rows for column in columns} - {None}
        if not content_ids:
            return
        contents = self._source.run(query.exported_contents, ids=json.dumps(sorted(content_ids)))
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
            raise BranchMoved  # the database repeats this transaction, since another one deleted a body meanwhile
        for row in rows:
            row.update({column: ids[hashes[row[column]]] for column in columns if row[column] is not None})

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
        store_ids = json.dumps(sorted({row["store_id"] for row in new}))
        self._import_table("part_store", rows=self._source.run(query.exported_stores, ids=store_ids))
        self._import_table("thread", rows=new)
        for name in ("checkpoint_ns", "part", "checkpoint", "channel_value", "pending_write"):
            self._import_table(name)
        for key, row in existing:
            self._merge_thread(key, row)
        self._ids["thread"] |= self._existing_threads

    def _merge_thread(self, key: ThreadKey, thread: Row) -> None:
        """Add the missing checkpoints of an existing thread."""
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
        # The branches of new checkpoints, and of existing checkpoints without a position here, must be imported.
        ns_ids = self._ids["checkpoint_ns"]
        needed = {row["branch_id"] for row in self._source.find_rows("checkpoint_position") if row["ns_id"] in ns_ids}
        needed |= {row["branch_id"] for ns_id in self._existing_ns for row in self._list_missing_positions(ns_id)}
        for row in self._source.run(query.exported_branches):  # the newest first, so that each comes after its forks
            if row["name"] is not None:
                existing = query.branch_details(self._tx, path=row["path"], kind=row["kind"], name=row["name"])
                if not existing:
                    needed.add(row["id"])
                elif row["kind"] == NAMED_BRANCH:
                    self._match_branch(row, existing[0])
            if row["id"] in needed and row["id"] not in self._existing_branches:
                needed |= {row["parent_id"], row["base_id"]} - {None}
                if (parent := row["parent_id"]) is not None:
                    self._fork_positions[parent].append(row["parent_position"])
                self.added["branches"] += row["kind"] == NAMED_BRANCH
        needed -= self._existing_branches.keys()
        self._import_table("branch", rows=(row for row in self._source.find_rows("branch") if row["id"] in needed))
        for row in self._source.find_rows("branch_base"):
            if row["branch_id"] in needed:
                self._needed_groups.update(group for group, _ in json.loads(row["groups"]))

    def _list_missing_positions(self, ns_id: int) -> list[Row]:
        """Return the positions in the export of existing checkpoints that have no position here."""
        rows = list(self._source.find_rows("checkpoint_position", ns_id=ns_id))
        keys = json.dumps([row["checkpoint"] for row in rows])
        unplaced = query.unplaced_checkpoints(self._tx, ns_id=self._existing_ns[ns_id], keys=keys)
        names = {row["name"] for row in unplaced}
        return [row for row in rows if row["checkpoint"] in names]

    def _import_positions(self) -> None:
        self._import_table("checkpoint_position")
        missing = [row for ns_id in self._existing_ns for row in self._list_missing_positions(ns_id)]
        self._ids["checkpoint_ns"] |= self._existing_ns
        self._import_table("checkpoint_position", rows=missing)

    def _match_branch(self, branch: Row, existing: Any) -> None:
        """Record that a named branch of the export already exists here.

        Raises:
            InvalidInput: The existing branch has other content.
        """
        is_same = all(branch[name] == existing[name] for name in ("parent", "parent_position", "created_at"))
        if not is_same or existing["head"] < branch["head"]:
            raise _build_conflict_error(branch)
        self._ids["branch"][branch["id"]] = existing["id"]
        self._existing_branches[branch["id"]] = branch | {"is_newer_here": existing["head"] > branch["head"]}

    def _import_authors(self) -> None:
        """Import the authors of memory: threads, and the branches "main" of namespaces."""
        for row in self._source.find_rows("author"):
            old_id, namespace, thread = row["id"], self._ensure_namespace_id(row["namespace_id"]), row["thread_id"]
            new_id = None
            if thread in self._existing_threads:
                self._existing_authors.add(old_id)
                new_id = sealing.ensure_author(self._tx, self._existing_threads[thread]).id
            elif thread is None:
                new_id = query.find_author(self._tx, namespace=namespace, name=row["name"])[0]["id"]
            if new_id is None:
                self._import_table("author", rows=[row])
            else:
                self._ids["author"][old_id] = new_id

    # -- memory ----------------------------------------------------------------------------------------------------

    def _import_memory(self) -> None:
        """Import the versions on imported branches, and the versions of needed groups.

        A version may have copies on other branches, which follow it in the export. If the version is not imported, its
        first imported copy becomes the original of the other copies.
        """
        ids = self._ids["memory"]
        for page in split_pages(self._source.run(query.exported_memory)):
            self._counter.add(len(page))
            new_rows = []
            for row, new_id in zip(page, self._tx.take_ids("memory", len(page)), strict=True):
                original = row["copy_of"] or row["id"]
                if not self._is_wanted(row, original):
                    continue
                if row["author_id"] in self._existing_authors:
                    row["visible_until"] = 0  # hidden, unless `_update_visibility` shows the version
                row["id"], row["copy_of"] = new_id, None
                self._translate("memory", row)
                row["copy_of"] = ids.get(original)
                ids.setdefault(original, new_id)
                self._adjust_group(row)
                self._update_version_id(row)
                new_rows.append(row)
            self._insert("memory", new_rows)
            self.added["memories"] += sum(row["kind"] != "message" for row in new_rows)

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
        """Check that an existing branch has a version of the export, or has deleted it since.

        Raises:
            InvalidInput: The version differs, or was deleted although an imported fork needs it.
        """
        columns = {name: row[name] for name in ("kind", "key", "position")}
        versions = query.version_at(self._tx, branch=self._ids["branch"][branch["id"]], **columns)
        content_id = row["content_id"]
        content_hash = next(self._source.find_rows("content", id=content_id))["hash"] if content_id else None
        names = ("label", "importance", "expires_at", "created_at")
        expected = [content_hash, *(row[name] for name in names)]
        existing = [[row["hash"] and bytes(row["hash"]), *(row[name] for name in names)] for row in versions]
        if not versions and branch["is_newer_here"]:
            if any(row["position"] <= fork < row["until"] for fork in self._fork_positions[branch["id"]]):
                raise InvalidInput(
                    f"The branch {safe_repr(branch['name'])} has newer entries here, and lacks a version that a fork "
                    "of the export needs. Import the file into another database."
                )
        elif expected not in existing:
            raise _build_conflict_error(branch)

    def _update_version_id(self, row: Row) -> None:
        """Replace the version id in the `extra` of a row by the id here."""
        key = _VERSION_ID_KEYS.get(row["kind"])
        extra = json.loads(row["extra"]) if key and row["extra"] else {}
        if key in extra:
            row["extra"] = as_json(extra | {key: self._find_version_id(extra[key])})

    def _find_version_id(self, old_id: int) -> int:
        """Return the id of a version here, else the greatest id of an older version."""
        ids = self._ids["memory"]
        return ids.get(old_id) or max((new for old, new in ids.items() if old <= old_id), default=0)

    # -- adjustments and other tables ------------------------------------------------------------------------------

    def _choose_group_id(self, old_id: int) -> int:
        """Return the id of a group here: the id in the export, or a random one if it is taken."""
        if old_id not in self._group_ids:
            is_taken = query.known_groups(self._tx, ids=json.dumps([old_id]))
            self._group_ids[old_id] = randbits(62) if is_taken else old_id
        return self._group_ids[old_id]

    def _adjust_group(self, row: Row) -> None:
        row["group_id"] = row["group_id"] and self._choose_group_id(row["group_id"])

    def _adjust_task(self, row: Row) -> None:
        groups = json.loads(row["groups"])
        self._needed_groups.update(groups)
        row["groups"] = json.dumps(sorted(map(self._choose_group_id, groups)))

    def _adjust_memory_group(self, row: Row) -> bool:
        """Set the new id of a group, and clear its run token. Return whether the group is needed."""
        is_needed = row["id"] in self._needed_groups
        row["id"], row["owner"] = self._choose_group_id(row["id"]), None
        return is_needed

    def _adjust_base(self, row: Row) -> None:
        """Set the new ids of the outer graph's groups that a subgraph's branch shows."""
        bounds, find_id = json.loads(row["groups"]), self._find_version_id  # bounds: last visible version per group
        new = [(self._choose_group_id(group), last if last == FOREVER else find_id(last)) for group, last in bounds]
        row["groups"] = json.dumps(sorted(new))

    def _import_audit(self) -> None:
        """Append the audit entries that are missing here to the chain of digests."""
        rows = self._source.run(query.exported_audit)
        for path, rows_of_path in groupby(rows, key=lambda row: str(row["path"])):
            for page in split_pages(rows_of_path):
                self._counter.add(len(page))
                entries_of_page = audit_store.load_by_number(self._export_tx, [row["sequence"] for row in page])
                drafts = [
                    EntryDraft(entry, row["mark"], replaced=row["hidden"] == REPLACED)
                    for row, entry in zip(page, entries_of_page, strict=True)
                ]
                self.added["audit"] += audit_store.add_new(self._tx, path, drafts)

    def _merge_conversations(self) -> None:
        """Add missing messages to existing conversations, and fill `conversations`."""
        for row in self._source.run(query.exported_conversations):
            key = ThreadKey(row["path"], row["name"])
            if row["id"] in self._ids["branch"]:  # a new conversation, whose entries are already imported
                message_ids = [entry["key"] for entry in self._source.find_rows("entry", branch_id=row["id"])]
            else:
                records = conversation_part.dump_records(self._export_tx, key)
                message_ids = conversation_part.restore_records(self._tx, key, records, now=self._now, has_thread=True)
                self.added["entries"] += len(message_ids)
            self.added["conversations"] += 1
            self.conversations.append((key.path, key.name, message_ids))

    def _update_visibility(self) -> None:
        """Update which rows of existing threads are visible, since their heads may have moved."""
        for thread, old_head in self._old_heads.items():
            sealing.update_visibility(self._tx, thread, old_head, thread_memory.head_place(self._tx, thread), self._now)

    # -- the search index ------------------------------------------------------------------------------------------

    def _index_rows(self) -> None:
        """Index the imported rows that have documents in the export, series by series.

        The text of a document depends on whether the next version of the message has a document too. So all messages
        with documents are first marked with the document number 0.
        """
        ids = self._ids["entry"]
        for page in split_pages(self._source.run(query.exported_documents)):
            entry_ids = [row["owner"] for row in page if _DOCUMENT_TABLES.get(row["kind"]) == "entry"]
            marks = [{"document": 0, "id": ids[old_id]} for old_id in entry_ids if old_id in ids]
            number_documents(self._tx, "entry", marks)
        documents = self._source.run(query.exported_documents)
        for _, series in groupby(documents, key=lambda row: int(row["series"])):
            for page in split_pages(series):
                self._counter.add(len(page))
                table = _DOCUMENT_TABLES.get(page[0]["kind"], "memory")
                if imported := [row for row in page if row["owner"] in self._ids[table]]:
                    self._index_page(imported, table)

    def _index_page(self, rows: Sequence[Row], table: str) -> None:
        ids, first = self._ids[table], rows[0]
        row_ids = [ids[row["owner"]] for row in rows]
        texts = all_parts().texts[first["kind"]](self._tx, row_ids)
        documents = [
            IndexedDocument("\n".join(texts.get(row_id, ())), row["created_at"], role=row["role"])
            for row, row_id in zip(rows, row_ids, strict=True)
        ]
        target = DocumentSeries(first["path"], first["kind"], first["name"])
        placed = search_index.reserve_places(self._tx, target, documents)
        search_index.write(self._tx, placed, row_ids)
        numbered = list(zip(rows, placed.numbers, strict=True))
        number_documents(self._tx, table, [{"document": number, "id": ids[row["owner"]]} for row, number in numbered])
        speakers = [{"id": number, "speaker": row["speaker"]} for row, number in numbered if row["speaker"] is not None]
        if speakers:
            series = placed.numbers[0] >> search_index.PLACE_BITS  # the upper bits of a number identify the series
            query.set_speaker.run_many(self._tx, speakers)
            rows_of_words = self._source.find_rows("search_speaker", series_id=first["series"])
            words = [{"word": row["word"], "speaker": row["speaker"], "series": series} for row in rows_of_words]
            query.insert_speaker.run_many(self._tx, words)


def _build_conflict_error(branch: Row) -> InvalidInput:
    return InvalidInput(
        f"The branch {safe_repr(branch['name'])} exists here with other content than in the export. Erase its "
        "namespace first, or import the file into another database."
    )
