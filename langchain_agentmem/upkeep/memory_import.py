"""Merge the rows of an export into a database that has other rows, in one transaction.

Rows get new ids. What is here stays: a thread, a conversation and a named branch are known by their namespace and
name, items and values by their keys, entries of the audit trail by their ids. What is new comes row by row, table by
table, so that memory is bounded. A thread or conversation that is here gets what it lacks.

The branches of a thread have no names. Checkpoints that stand nowhere here bring the branches that they stand on, with
all that lies there; so a thread keeps what it has, and gets back what is gone.
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
_POINTERS = {"thread_post": "first", "thread_round": "first", "thread_item_read": "of"}
"""Kinds of memory that name the id of another version in `extra`, and under which key."""
_SKIPPED_TABLES = (
    "namespace", "content", "audit_head", "search_scope", "search_series", "search_total",
    "search_speaker", "search_vector", "search_unembedded", "search_state", "prompt_note",
)  # fmt: skip
"""Tables whose rows come with those of others, are made anew, or belong to one database alone."""
_FIELDS_BY_TABLE = {"entry": "entries", "checkpoint": "checkpoints", "blob": "blobs", "item": "items"}
_OWNER_TABLES = {"message": "entry", "nested_message": "entry", "item": "item"}
"""The tables of what the search index finds, by its kinds. Default: "memory"."""


class MemoryImport:
    """One import of an export into a database.

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
        self, source: RowSource, file: Transaction, tx: Transaction, database: Database, progress: Watch | None = None
    ) -> None:
        self._source, self._file, self._tx = source, file, tx
        self._now, self._limits = database.now(), database.limits
        tables = [table for table in TABLES if table.name not in _SKIPPED_TABLES]
        self._counter = CountingProgress(progress, "importing", map(source.count, tables))
        self._ids: dict[str, dict[int, int]] = defaultdict(dict)  # by table: ids in the export, and here
        self._existing_threads: dict[int, int] = {}
        self._old_heads: dict[int, tuple[int, int] | None] = {}  # of these threads, as they were
        self._existing_ns: dict[int, int] = {}
        self._existing_branches: dict[int, Row] = {}
        self._existing_authors: set[int] = set()
        self._forks: dict[int, list[int]] = defaultdict(list)  # where branches that were taken begin
        self._group_ids: dict[int, int] = {}
        self._needed_groups: set[int] = set()  # groups that lie nowhere, and that a task or a subgraph stands on
        self.added: Counter[str] = Counter()
        self.conversations: list[tuple[str, str, list[str]]] = []

    def run(self) -> MemoryImport:
        """Write everything that is new.

        Raises:
            InvalidInput: An object of the same name exists here with other content.
        """
        self._import_threads()
        self._import_branches()
        self._import_authors()
        self._import_table("entry")
        self._import_table(
            "compaction", partial(compaction_records.renumber_parent, ids=self._ids["compaction"]), size=1
        )
        self._import_table("item", known=("namespace_id", "key"))
        self._import_table("blob", known=("namespace_id", "key"))
        self._import_table("finished_task", self._adjust_task, known=("thread_id", "task"))
        self._import_table("finished_group", self._adjust_group, known=("group_id", "thread_id", "task"))
        self._import_memory()
        self._import_table("memory_source")
        self._import_table("memory_group", self._adjust_memory_group)
        self._import_table("sealed_group", self._adjust_group)
        self._import_table("branch_base", self._adjust_base)
        self._import_table("base_group", self._adjust_group)
        self._import_places()
        self._import_audit()
        self._merge_conversations()
        self._move_marks()
        self._index_rows()
        return self

    # -- rows ------------------------------------------------------------------------------------------------------

    def _import_table(
        self,
        name: str,
        adjust: Callable[[Row], object] = bool,
        *,
        known: Sequence[str] = (),
        rows: Iterable[Row] | None = None,
        size: int | None = None,
    ) -> None:
        """Insert the rows of a table that name only rows that were taken.

        Args:
            name: The table.
            adjust: Changes a translated row; the row is left out if it returns False.
            known: The columns that identify an existing row; such a row is left out.
            rows: Some of the table's rows. Default: all.
            size: The number of rows per insert.
        """
        has_own = _TABLES_BY_NAME[name].key == ("id",) and name != "memory_group"
        for page in split_pages(self._source.find_rows(name) if rows is None else rows, size):
            self._counter.add(len(page))
            ids = iter(self._tx.take_ids(name, len(page)) if has_own else ())
            fresh: list[tuple[Any, Row]] = []  # with the ids in the export
            for row in page:
                old: Any = row.get("id")
                if self._translate(name, row):
                    fresh.append((old, row))
                    if (new := next(ids, None)) is not None:
                        self._ids[name][old] = row["id"] = new
            if known:
                fresh = self._drop_existing(name, known, fresh)
            self._insert(name, [row for _, row in fresh if adjust(row) is not False])

    def _drop_existing(self, name: str, known: Sequence[str], rows: Sequence[tuple[Any, Row]]) -> list[tuple[Any, Row]]:
        """Leave out rows that already exist here."""
        lookups = [has_row(self._tx, name, {column: row[column] for column in known}) for _, row in rows]
        fresh = []
        for (old, row), exists in zip(rows, lookups, strict=True):
            if exists:
                self._ids[name].pop(old, None)
            else:
                fresh.append((old, row))
        return fresh

    def _translate(self, name: str, row: Row) -> bool:
        """Replace the references of a row by ids here; return False if one was not taken."""
        for column, table in _TABLES_BY_NAME[name].references.items():
            if row[column] is not None and table != "content":
                new = self._namespace_id(row[column]) if table == "namespace" else self._ids[table].get(row[column])
                if new is None:
                    return False
                row[column] = new
        return True

    def _namespace_id(self, old: int) -> int:
        """Return the id of a namespace here; create the namespace when the first row needs it."""
        ids = self._ids["namespace"]
        if old not in ids:
            [row] = self._source.find_rows("namespace", id=old)
            ids[old] = queries.ensure_namespace(self._tx, row["path"])
        return ids[old]

    def _insert(self, name: str, rows: Sequence[Row]) -> None:
        """Insert rows of a table with the contents that they reference. Documents come later."""
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
            raise BranchMoved  # somebody else removed one between the two: begin again
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
        # Those on which checkpoints stand that were taken, or stand nowhere here.
        ns_ids = self._ids["checkpoint_ns"]
        wanted = {row["branch_id"] for row in self._source.find_rows("checkpoint_position") if row["ns_id"] in ns_ids}
        wanted |= {row["branch_id"] for ns_id in self._existing_ns for row in self._missing_places(ns_id)}
        for row in self._source.run(query.exported_branches):  # the youngest first: each after those that begin on it
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

    def _missing_places(self, ns_id: int) -> list[Row]:
        """Return the places of checkpoints on an existing line that have no place here."""
        rows = list(self._source.find_rows("checkpoint_position", ns_id=ns_id))
        keys = json.dumps([row["checkpoint"] for row in rows])
        missing = {
            row["name"] for row in query.unplaced_checkpoints(self._tx, ns_id=self._existing_ns[ns_id], keys=keys)
        }
        return [row for row in rows if row["checkpoint"] in missing]

    def _import_places(self) -> None:
        self._import_table("checkpoint_position")
        placeless = [row for ns_id in self._existing_ns for row in self._missing_places(ns_id)]
        self._ids["checkpoint_ns"] |= self._existing_ns
        self._import_table("checkpoint_position", rows=placeless)

    def _match_branch(self, branch: Row, existing: Any) -> None:
        """Record a named branch that already exists here.

        Raises:
            InvalidInput: It has other content.
        """
        same = all(branch[name] == existing[name] for name in ("parent", "parent_position", "created_at"))
        if not same or existing["head"] < branch["head"]:
            raise _branch_conflict(branch)
        self._ids["branch"][branch["id"]] = existing["id"]
        self._existing_branches[branch["id"]] = branch | {"ahead": existing["head"] > branch["head"]}

    def _import_authors(self) -> None:
        for row in self._source.find_rows("author"):
            old, scope, thread = row["id"], self._namespace_id(row["namespace_id"]), row["thread_id"]
            if thread in self._existing_threads:
                self._existing_authors.add(old)
                self._ids["author"][old] = sealing.author_of(self._tx, self._existing_threads[thread]).id
                continue
            author_id = None
            if thread is None:
                author_id = query.find_author(self._tx, namespace=scope, name=row["name"])[0]["id"]
            if author_id is None:
                self._import_table("author", rows=[row])
            else:
                self._ids["author"][old] = author_id

    # -- memory ----------------------------------------------------------------------------------------------------

    def _import_memory(self) -> None:
        """Import the versions on imported branches, and those of needed groups.

        The copies of a version follow it. If the version was not taken, its first copy replaces it.
        """
        ids = self._ids["memory"]
        rows = self._source.run(query.exported_memory)
        for page in split_pages(rows):
            self._counter.add(len(page))
            fresh = []
            for row, new in zip(page, self._tx.take_ids("memory", len(page)), strict=True):
                number = row["copy_of"] or row["id"]
                if not self._is_wanted(row, number):
                    continue
                if row["author_id"] in self._existing_authors:
                    row["visible_until"] = 0
                row["id"], row["copy_of"] = new, None
                self._translate("memory", row)
                row["copy_of"] = ids.get(number)
                ids.setdefault(number, new)
                self._adjust_group(row)
                self._update_pointer(row)
                fresh.append(row)
            self._insert("memory", fresh)
            self.added["memories"] += sum(row["kind"] != "message" for row in fresh)

    def _is_wanted(self, row: Row, number: int) -> bool:
        branch = row["branch_id"]
        if branch is None:
            return row["group_id"] in self._needed_groups and number not in self._ids["memory"]
        if branch in self._existing_branches:
            self._compare_version(row, self._existing_branches[branch])
            return False
        return branch in self._ids["branch"]

    def _compare_version(self, row: Row, branch: Row) -> None:
        """Check that an existing branch has a version, or had it and has advanced since.

        Raises:
            InvalidInput: The version differs, or a fork of the export needs it.
        """
        branch_id = self._ids["branch"][branch["id"]]
        versions = query.version_at(
            self._tx, branch=branch_id, kind=row["kind"], key=row["key"], position=row["position"]
        )
        content = row["content_id"]
        hash_ = next(self._source.find_rows("content", id=content))["hash"] if content else None
        names = ("label", "importance", "expires_at", "created_at")
        expected = [hash_, *(row[name] for name in names)]
        if not versions and branch["ahead"]:
            if any(row["position"] <= fork < row["until"] for fork in self._forks[branch["id"]]):
                raise InvalidInput(
                    f"The branch {safe_repr(branch['name'])} has gone on here, and lost what a fork of the export "
                    "needs. Import the file into another database."
                )
        elif expected not in [
            [each["hash"] and bytes(each["hash"]), *(each[name] for name in names)] for each in versions
        ]:
            raise _branch_conflict(branch)

    def _update_pointer(self, row: Row) -> None:
        """Replace the version id in the `extra` of a row by the id here."""
        name = _POINTERS.get(row["kind"])
        extra = json.loads(row["extra"]) if name and row["extra"] else {}
        if name in extra:
            row["extra"] = as_json(extra | {name: self._version_id(extra[name])})

    def _version_id(self, old: int) -> int:
        """Return the id of a version here; if it was not taken, the id of the last one before it."""
        ids = self._ids["memory"]
        return ids.get(old) or max((new for each, new in ids.items() if each <= old), default=0)

    # -- what some tables need besides -----------------------------------------------------------------------------

    def _group_id(self, old: int) -> int:
        """Return the number of a group here: its own, unless this database knows it already."""
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
        needed = row["id"] in self._needed_groups
        row["id"], row["owner"] = self._group_id(row["id"]), None
        return needed

    def _adjust_base(self, row: Row) -> None:
        bounds = json.loads(row["groups"])
        row["groups"] = json.dumps(
            sorted(
                (self._group_id(group), last if last == FOREVER else self._version_id(last)) for group, last in bounds
            )
        )

    def _import_audit(self) -> None:
        """Append the new entries of the audit trail to the chain."""
        rows = self._source.run(query.exported_audit)
        for path, entries in groupby(rows, key=lambda row: str(row["path"])):
            for page in split_pages(entries):
                self._counter.add(len(page))
                read = audit_store.load_by_number(self._file, [row["sequence"] for row in page])
                drafts = [
                    EntryDraft(entry, row["mark"], replaced=row["hidden"] == REPLACED)
                    for row, entry in zip(page, read, strict=True)
                ]
                self.added["audit"] += audit_store.add_new(self._tx, path, drafts)

    def _merge_conversations(self) -> None:
        """Add missing messages to existing conversations, and record the new ones of each."""
        for row in self._source.run(query.exported_conversations):
            key = ThreadKey(row["path"], row["name"])
            if row["id"] in self._ids["branch"]:
                new = self._source.find_rows("entry", branch_id=row["id"])
                keys = [entry["key"] for entry in new]
            else:
                records = conversation_part.dump_records(self._file, key)
                keys = conversation_part.restore_records(self._tx, key, records, now=self._now, following=True)
                self.added["entries"] += len(keys)
            self.added["conversations"] += 1
            self.conversations.append((key.path, key.name, keys))

    def _move_marks(self) -> None:
        """Move the marks of existing threads whose heads have moved, so that their writes count."""
        for thread, old_head in self._old_heads.items():
            sealing.move_marks(self._tx, thread, old_head, thread_memory.head_place(self._tx, thread), self._now)

    # -- the search index ------------------------------------------------------------------------------------------

    def _index_rows(self) -> None:
        """Index the imported rows that have documents in the export, series by series.

        The text of a document ends where the next wording of the message has one, so all are marked before.
        """
        ids = self._ids["entry"]
        for page in split_pages(self._source.run(query.exported_documents)):
            imported = [
                row["owner"] for row in page if _OWNER_TABLES.get(row["kind"]) == "entry" and row["owner"] in ids
            ]
            number_documents(self._tx, "entry", [{"document": 0, "id": ids[owner]} for owner in imported])
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
        placed = search_index.reserve_places(
            self._tx, DocumentSeries(first["path"], first["kind"], first["name"]), documents
        )
        search_index.write(self._tx, placed, owners)
        numbered = list(zip(rows, placed.numbers, strict=True))
        number_documents(self._tx, table, [{"document": number, "id": ids[row["owner"]]} for row, number in numbered])
        speakers = [{"id": number, "speaker": row["speaker"]} for row, number in numbered if row["speaker"] is not None]
        if speakers:
            series = placed.numbers[0] >> search_index.PLACE_BITS
            words = self._source.find_rows("search_speaker", series_id=first["series"])
            query.set_speaker.run_many(self._tx, speakers)
            query.insert_speaker.run_many(
                self._tx, [{"word": each["word"], "speaker": each["speaker"], "series": series} for each in words]
            )


def _branch_conflict(branch: Row) -> InvalidInput:
    return InvalidInput(
        f"There is a branch {safe_repr(branch['name'])} here with other content than the export's. Erase its "
        "namespace first, or import the file into another database."
    )
