"""All that is one tenant's moves from one schema to another, in one transaction.

Rows go through the client, page by page, since Citus refuses a statement on two schemas that it has distributed. They
keep their numbers, which are different in all schemas. Other numbers has only what a schema has once for all tenants: a
body that the other schema has already, the namespace of the root and its scopes of the search, and the places of the
audit trail, whose entries leave stubs behind, as erased ones do, and are added to the chain of the other schema.

Threads of the root that are copies of each other move together, since they share what they hold.
"""

# ruff: noqa: S608 - tables, columns and conditions are our own, and the names of schemas are checked

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

from langchain_agentmem.base.events import Progress, Watch
from langchain_agentmem.base.namespaces import namespace_of, range_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput, MissingExtra
from langchain_agentmem.storage import jobs
from langchain_agentmem.storage.engine import MOST_SHARDS
from langchain_agentmem.storage.queries import for_psycopg, load
from langchain_agentmem.storage.table_copy import TABLES

try:
    import psycopg
    from psycopg.rows import DictRow
except ImportError as error:
    raise MissingExtra("A PostgreSQL database", "postgres") from error

Connection: TypeAlias = psycopg.Connection[DictRow]
Link: TypeAlias = Callable[[bytes, bytes], bytes]
"""Gives what follows a link of the audit trail, by that link and the digest of the entry between."""

PAGE = 2_000
"""Rows that are held at a time."""
_TOGETHER = 500
"""Rows of one statement, whose parameters the server counts with 16 bits."""
_PLACE_BITS, _SERIES_BITS = 22, 15  # of the number of a document, see `search/search_index.py`

_OF_LINES = "line_id in (select id from checkpoint_line where thread_id = any(%(threads)s))"
_OF_MEMORY = (
    "branch_id = any(%(branches)s) or group_id in (select id from memory_group where thread_id = any(%(threads)s))"
)
_OF_SHELVES = "shelf_id in (select id from audit_shelf where namespace_id = any(%(whole)s))"
_OF_SCOPES = "scope_id in (select id from search_scope where namespace_id = any(%(apart)s))"
_ENTRIES = "select sequence from audit where namespace_id = any(%(whole)s)"
_CONTENTS = f"""
    select content_id from entry where branch_id = any(%(branches)s)
    union select attachments_id from entry where branch_id = any(%(branches)s)
    union select content_id from part where shelf_id = any(%(shelves)s)
    union select content_id from memory where {_OF_MEMORY}
    union select content_id from audit_message where {_OF_SHELVES}
"""
_ITEMS = "select id from item where namespace_id = any(%(whole)s)"
_DOCUMENTS = f"""
    select document_id from entry where branch_id = any(%(branches)s)
    union all select document_id from memory where {_OF_MEMORY}
    union all select document_id from item where namespace_id = any(%(whole)s)
    union all select document_id from audit_document where sequence in ({_ENTRIES})
"""
_OF_DOCUMENTS = f"document_id in ({_DOCUMENTS})"

_WHERE: Mapping[str, str] = {
    "namespace": "id = any(%(whole)s)",
    "content": f"id in ({_CONTENTS})",
    "branch": "id = any(%(branches)s)",
    "entry": "branch_id = any(%(branches)s)",
    "token_count": f"content_id in ({_CONTENTS})",
    "shelf": "id = any(%(shelves)s)",
    "thread": "id = any(%(threads)s)",
    "author": "id = any(%(authors)s)",
    "checkpoint_line": "thread_id = any(%(threads)s)",
    "part": "shelf_id = any(%(shelves)s)",
    "checkpoint": _OF_LINES,
    "channel_value": _OF_LINES,
    "pending_write": _OF_LINES,
    "item": "namespace_id = any(%(whole)s)",
    "blob": "namespace_id = any(%(whole)s)",
    "search_scope": "namespace_id = any(%(apart)s)",
    "search_total": _OF_SCOPES,
    "search_series": _OF_SCOPES,
    "search_speaker": f"series_id in (select id from search_series where {_OF_SCOPES})",
    "search_document": f"id in ({_DOCUMENTS})",
    "search_index": _OF_DOCUMENTS,
    "search_vector": _OF_DOCUMENTS,
    "search_pgvector": _OF_DOCUMENTS,
    "search_unembedded": _OF_DOCUMENTS,
    "job": "path >= %(low)s and path < %(high)s and (%(names)s::text[] is null or "
    "%(names)s = '{}' and left(encode(key, 'hex'), 2) <> '1f' or substring(key from 1 for 33) = any(%(jobs)s))",
    "compaction": "branch_id = any(%(branches)s)",
    "memory": _OF_MEMORY,
    "memory_source": f"memory_id in (select id from memory where {_OF_MEMORY})",
    "memory_group": "thread_id = any(%(threads)s)",
    "seal": "branch_id = any(%(branches)s)",
    "finished_task": "thread_id = any(%(threads)s)",
    "finished_group": "thread_id = any(%(threads)s)",
    "place": _OF_LINES,
    "branch_base": "branch_id = any(%(branches)s)",
    "base_group": "branch_id = any(%(branches)s)",
    "prompt_note": "namespace_id = any(%(spaces)s) and (%(names)s::text[] is null or name = any(%(names)s))",
    "correction": "namespace_id = any(%(spaces)s) and (%(names)s::text[] is null or "
    "case when kind = 'message' or name < ' ' then ltrim(name, e'\\x1f') = any(%(names)s) else %(names)s = '{}' end)",
    "audit_namespace": "namespace_id = any(%(whole)s)",
    "audit_shelf": "namespace_id = any(%(whole)s)",
    "audit_message": _OF_SHELVES,
    "audit": f"sequence in ({_ENTRIES})",
    "audit_document": f"sequence in ({_ENTRIES})",
}
"""Which rows are a tenant's. `whole` are the namespaces in which everything is, `apart` those of them that the other
schema does not have, so that their scopes of the search move as they are."""

_BESIDE = {"search_scope": "search_total", "search_document": "search_index", "search_vector": "search_pgvector"}
"""What belongs behind some of `TABLES`, and is made anew by a copy to another engine."""
_TABLES = [name for table in TABLES for name in (table.name, _BESIDE.get(table.name, "")) if name in _WHERE]
_KEYS = {table.name: table.key for table in TABLES}
_ONCE = {"token_count", "author", "job", "audit_namespace"}
"""Of these, the other schema may have the same rows."""
_VECTORS = {"search_vector", "search_pgvector", "search_unembedded"}

_SHARED = """
    select from branch
    where parent_id is not null and (id = any(%(branches)s)) <> (parent_id = any(%(branches)s))
    union all
    select from branch_base
    where base_id is not null and (branch_id = any(%(branches)s)) <> (base_id = any(%(branches)s))
    union all
    select from place p join checkpoint_line l on l.id = p.line_id
    where (l.thread_id = any(%(threads)s)) <> (p.branch_id = any(%(branches)s))
    union all
    select from thread where (id = any(%(threads)s)) <> (shelf_id = any(%(shelves)s))
    limit 1
"""
"""Whether somebody else has a part in it."""

_COPIES = """
    select t.name from thread t join namespace n on n.id = t.namespace_id and n.path = ''
    where t.shelf_id in (
        select o.shelf_id from thread o where o.namespace_id = t.namespace_id and o.name = any(%(names)s)
    )
    union
    select b.thread from branch b join namespace n on n.id = b.namespace_id and n.path = ''
    where b.thread is not null and b.id in (
        select o.parent_id from branch o where o.thread = any(%(names)s)
        union all
        select o.id from branch o join branch p on p.id = o.parent_id where p.thread = any(%(names)s)
        union all
        select s.base_id from branch_base s join branch o on o.id = s.branch_id where o.thread = any(%(names)s)
        union all
        select s.branch_id from branch_base s join branch o on o.id = s.base_id where o.thread = any(%(names)s)
        union all
        select p.branch_id from place p
        join checkpoint_line l on l.id = p.line_id
        join thread t on t.id = l.thread_id where t.name = any(%(names)s)
    )
"""
"""Threads of the root that share something with some of them."""

_LAST_NUMBERS = """
    select format('%%I.%%I', t.schemaname, t.sequencename)::regclass as sequence,
        s.last_value as last, t.last_value as there
    from pg_sequences s
    join pg_sequences t on t.schemaname = %(target)s and t.sequencename = s.sequencename
    where s.schemaname = %(source)s and s.last_value > coalesce(t.last_value, 0)
"""
_COUNTED = 100_000
"""Numbers that are skipped one by one: so many others cannot take at the moment when the rest is skipped at once."""


class Moving(NamedTuple):
    """Where something moves.

    Attributes:
        home: The schema of the map.
        source: Where it is.
        target: Where it will be.
        pin: The number of the target.
        hashed: Gives the number of the schema that a tenant is in unless it is pinned.
        depth: How many labels name a tenant.
    """

    home: str
    source: str
    target: str
    pin: int
    hashed: Callable[[str], int]
    depth: int


def lock_of(tenant: str) -> int:
    """The number of the advisory lock that keeps a tenant where it is."""
    return int.from_bytes(digest_of(tenant), signed=True)


def digest_of(tenant: str) -> bytes:
    """What decides where a tenant is."""
    return blake2b(tenant.encode(), digest_size=8).digest()


def hold(connection: Connection, tenants: Iterable[str]) -> None:
    """Have nobody write anything of some tenants until the transaction ends."""
    for tenant in sorted(tenants):
        connection.execute("select pg_advisory_xact_lock(%s)", (lock_of(tenant),))


def count(connection: Connection, tenant: str, depth: int) -> dict[str, int]:
    """How many rows of each table are a tenant's, in the schema that the transaction looks in.

    Args:
        connection: A connection, in a transaction.
        tenant: The tenant.
        depth: How many labels name a tenant.
    """
    held = _held(connection, tenant, _companions(connection, tenant), depth)
    counts = {}
    for table in _there(connection):
        [row] = connection.execute(f"select count(*) as rows from {table} where {_WHERE[table]}", held).fetchall()
        counts[table] = int(row["rows"])
    return {table: rows for table, rows in counts.items() if rows}


def move(
    connection: Connection, tenant: str, moving: Moving, link: Link | None, progress: Watch | None = None
) -> dict[str, int]:
    """Move all that is a tenant's, and change the map.

    Args:
        connection: A connection, in a transaction that looks in the source, and holds the tenant.
        tenant: The tenant.
        moving: From where, and where to.
        link: How the audit trail goes on. Threads of the root have none.
        progress: Is told of how many of the tables the rows were moved.

    Returns:
        How many rows of each table were moved.

    Raises:
        InvalidInput: It shares what it remembers with another tenant.
    """
    tenants = {tenant}
    while more := {tenant, *_companions(connection, tenant)} - tenants:
        hold(connection, more)
        tenants |= more
    held = _held(connection, tenant, tenants, moving.depth)
    if connection.execute(_SHARED, held).fetchall():
        raise InvalidInput(
            f"{safe_repr(tenant)} shares what it remembers with another tenant, by a fork of one of its branches. They "
            "stay in one schema."
        )
    there_is = any(held[name] for name in ("whole", "threads", "branches", "authors"))
    moved = _Move(connection, moving, held, link, progress).run() if there_is else {}
    with connection.cursor() as cursor:
        rows = [{"tenant": each, "number": moving.pin} for each in sorted(tenants)]
        left = "insert into moved_tenant (tenant) values (%(tenant)s) on conflict (tenant) do nothing"
        cursor.executemany(left, rows)
        cursor.executemany(f"delete from {moving.target}.moved_tenant where tenant = %(tenant)s", rows)
        cursor.executemany(f"delete from {moving.home}.pin where tenant = %(tenant)s", rows)
        pinned = f"insert into {moving.home}.pin (tenant, number) values (%(tenant)s, %(number)s)"
        cursor.executemany(pinned, [row for row in rows if moving.hashed(str(row["tenant"])) != moving.pin])
    return moved


def _companions(connection: Connection, tenant: str) -> set[str]:
    """The tenants that a thread of the root shares something with, it included."""
    if not _is_thread(tenant):
        return {tenant}
    names: set[str] = set()
    more = {tenant[1:]}
    while more:
        names |= more
        found = connection.execute(_COPIES, {"names": sorted(names)}).fetchall()
        more = {row["name"] for row in found} - names
    return {tenant[0] + name for name in names}


def _is_thread(tenant: str) -> bool:
    return tenant.startswith("\x1f")


_MINE = {
    "all": "true",
    "root": "kind <> 'conversation' and thread is null",
    "threads": "kind = 'conversation' and name = any(%(names)s) or thread = any(%(names)s)",
}
"""Which branches of its namespaces are a tenant's: of namespaces, of the root itself, of threads of the root."""


def _held(connection: Connection, tenant: str, tenants: Iterable[str], depth: int) -> dict[str, Any]:
    """What is a tenant's: the numbers of what all else belongs to."""
    labels, names = namespace_of(tenant), None
    if _is_thread(tenant):
        kind, names, low, high = "threads", sorted(each[1:] for each in tenants), "", "\x01"
    elif len(labels) >= depth:
        kind, (low, high) = "all", range_of(labels)
    else:
        kind, names, low, high = "all" if tenant else "root", None if tenant else [], tenant, tenant + "\x01"
    marks = [jobs.key_in(each).encode() for each in names or ()]
    held: dict[str, Any] = {"names": names, "low": low, "high": high, "jobs": marks}

    def numbers(sql: str) -> list[int]:
        return [row["id"] for row in connection.execute(sql, held).fetchall()]

    held["spaces"] = numbers("select id from namespace where path >= %(low)s and path < %(high)s")
    named = "namespace_id = any(%(spaces)s) and (%(names)s::text[] is null or name = any(%(names)s))"
    held["whole"] = [] if kind == "threads" else held["spaces"]
    held["apart"] = held["spaces"] if kind == "all" else []
    held["threads"] = numbers(f"select id from thread where {named}")
    held["shelves"] = numbers("select distinct shelf_id as id from thread where id = any(%(threads)s)")
    held["branches"] = numbers(f"select id from branch where namespace_id = any(%(spaces)s) and ({_MINE[kind]})")
    authors = "namespace_id = any(%(spaces)s) and name is null" if kind == "root" else named
    held["authors"] = numbers(
        f"select id from author where {authors} union select author_id from memory where author_id is not null "
        f"and ({_OF_MEMORY})"
    )
    return held


def _there(connection: Connection) -> list[str]:
    """The tables, without those that only some databases have."""
    rows = connection.execute(
        "select name from unnest(%s::text[]) name where to_regclass(name) is not null", (_TABLES,)
    )
    there = {row["name"] for row in rows}
    return [table for table in _TABLES if table in there]


class _Move:
    """One move, in its transaction."""

    def __init__(
        self, connection: Connection, moving: Moving, held: dict[str, Any], link: Link | None, progress: Watch | None
    ) -> None:
        self._progress = progress
        self._connection, self._held, self._link = connection, held, link
        self._source, self._target, self._number = moving.source, moving.target, moving.pin
        self._moved: Counter[str] = Counter()
        # What is called otherwise in the other schema, by what it is called here.
        self._spaces: dict[int, int] = {}
        self._bodies: dict[int, int] = {}
        self._series: dict[int, int] = {}
        self._places: dict[int, tuple[int, bytes]] = {}  # of entries of the trail, with their links
        self._owners: dict[int, int] = {}  # the same places, by documents
        self._hashes: list[bytes] = []
        self._documents: list[int] = []

    def run(self) -> dict[str, int]:
        """Move everything; how many rows of each table."""
        tables = _there(self._connection)
        self._count_on()
        self._open_namespaces()
        self._move_bodies()
        self._move_trail()
        self._move_series()
        for number, table in enumerate(tables, 1):
            if self._progress is not None:
                self._progress(Progress("moving the rows of tables", number, len(tables)))
            if table not in {"namespace", "content", *_VECTORS}:
                self._move_rows(table)
        if self._hold_vectors():
            for table in tables:
                if table in _VECTORS:
                    self._move_rows(table)
        else:
            self._want_vectors()
        if self._rows(f"select from {self._source}.search_state where behind is not null"):
            # Documents of before are of before there, too.
            self._connection.execute(f"update {self._target}.search_state set behind = -1 where id = 1")
        self._leave(tables)
        return {table: rows for table, rows in self._moved.items() if rows}

    def _count_on(self) -> None:
        """Have the next rows of the other schema get greater numbers than those that move there."""
        self._connection.execute("select pg_advisory_xact_lock(%s)", (lock_of(f"\x1f\x1f{self._target}"),))
        for row in self._rows(_LAST_NUMBERS, source=self._source, target=self._target):
            next_one = row["last"] - row["last"] % MOST_SHARDS + MOST_SHARDS + self._number
            behind = (next_one - (row["there"] or 0)) // MOST_SHARDS
            if behind > _COUNTED:
                self._rows("select setval(%(sequence)s, %(next_one)s)", **row, next_one=next_one)
            elif behind > 0:  # others count on meanwhile, and nothing may go back
                self._rows(
                    "select max(nextval(%(sequence)s)) from generate_series(1, %(behind)s)", **row, behind=behind
                )

    def _hold_vectors(self) -> bool:
        """Have nobody else keep vectors; whether those of one schema are of use in the other."""
        one, other = (
            self._rows(f"select dimensions, pgvector from {schema}.search_state where id = 1 for update")
            for schema in sorted((self._source, self._target))
        )
        return one == other

    def _open_namespaces(self) -> None:
        rows = self._rows("select id, path from namespace where id = any(%(spaces)s)")
        self._each(
            f"insert into {self._target}.namespace (id, path) overriding system value values (%(id)s, %(path)s) "
            "on conflict (path) do nothing",
            rows,
        )
        found = self._rows(
            f"select id, path from {self._target}.namespace where path = any(%(paths)s)",
            paths=[row["path"] for row in rows],
        )
        there = {row["path"]: row["id"] for row in found}
        self._spaces = {row["id"]: there[row["path"]] for row in rows}
        taken = {row["namespace_id"] for row in self._rows(f"select namespace_id from {self._target}.search_scope")}
        self._held["apart"] = [each for each in self._held["apart"] if self._spaces[each] == each and each not in taken]
        self._moved["namespace"] = len(self._held["whole"])

    def _move_bodies(self) -> None:
        for page in self._pages("content", "id, hash, body"):
            self._add("content (id, hash, body)", [tuple(row.values()) for row in page])
            hashes = [row["hash"] for row in page]
            found = self._rows(
                f"select id, hash from {self._target}.content where hash = any(%(hashes)s) for key share", hashes=hashes
            )
            there = {bytes(row["hash"]): row["id"] for row in found}
            self._bodies |= {row["id"]: there[bytes(row["hash"])] for row in page}
            self._hashes += map(bytes, hashes)
            self._moved["content"] += len(page)

    def _move_trail(self) -> None:
        """Give the entries of the audit trail their places at the end of the other chain."""
        mine = f"select sequence, digest from audit where sequence in ({_ENTRIES}) order by sequence"
        if self._link is None or not (entries := self._rows(mine)):
            return
        ends = {
            schema: self._rows(f"select sequence, link from {schema}.audit_head where id = 1 for update")
            for schema in sorted((self._source, self._target))
        }
        [end] = ends[self._target]
        place, link = int(end["sequence"]), bytes(end["link"])
        for entry in entries:
            place, link = place + 1, self._link(link, bytes(entry["digest"]))
            self._places[entry["sequence"]] = place, link
        self._rows(
            f"update {self._target}.audit_head set sequence = %(place)s, link = %(link)s where id = 1 returning id",
            place=place,
            link=link,
        )
        found = self._rows(f"select document_id, sequence from audit_document where sequence in ({_ENTRIES})")
        self._owners = {row["document_id"]: self._places[row["sequence"]][0] for row in found}

    def _move_series(self) -> None:
        """Make places for documents whose scope others have a part in."""
        rows = self._rows(
            "select s.id, s.name, s.next, s.first_at, s.last_at, c.id as scope, c.kind, c.namespace_id, "
            "count(*) as documents, sum(d.length)::bigint as words from search_document d "
            "join search_series s on s.id = d.id >> 22 join search_scope c on c.id = s.scope_id "
            f"where d.id in ({_DOCUMENTS}) and c.namespace_id <> all(%(apart)s) group by s.id, c.id"
        )
        for row in rows:
            scope, number = self._one_more_series(self._spaces[row["namespace_id"]], row["kind"])
            self._series[row["id"]] = made = (scope << _SERIES_BITS) + number - 1
            counted = {**row, "old": row["id"], "id": made, "scope": scope}
            self._each(
                f"insert into {self._target}.search_series "
                "(id, scope_id, name, next, documents, words, first_at, last_at) "
                "values (%(id)s, %(scope)s, %(name)s, %(next)s, %(documents)s, %(words)s, %(first_at)s, %(last_at)s)",
                [counted],
            )
            speakers = self._rows("select word, speaker from search_speaker where series_id = %(old)s", old=row["id"])
            self._each(
                f"insert into {self._target}.search_speaker (word, series_id, speaker) "
                "values (%(word)s, %(id)s, %(speaker)s)",
                [{**each, "id": made} for each in speakers],
            )
            [left] = self._rows(
                "update search_series set documents = documents - %(documents)s, words = words - %(words)s "
                "where id = %(id)s returning documents",
                **row,
            )
            gone = int(not left["documents"])
            if gone:
                self._each("delete from search_series where id = %(id)s", [row])
            self._change_totals(self._target, scope, 1, row["documents"], row["words"], row["last_at"])
            self._change_totals(self._source, row["scope"], -gone, -row["documents"], -row["words"], 0)

    def _one_more_series(self, namespace: int, kind: str) -> tuple[int, int]:
        """The scope that a series gets, and how many that has then."""
        given = {"namespace": namespace, "kind": kind}
        found = self._rows(
            f"update {self._target}.search_scope set series = series + 1 where id = (select max(id) "
            f"from {self._target}.search_scope where namespace_id = %(namespace)s and kind = %(kind)s) "
            "and series < %(most)s returning id, series",
            **given,
            most=1 << _SERIES_BITS,
        ) or self._rows(
            f"insert into {self._target}.search_scope (namespace_id, kind, series) values (%(namespace)s, %(kind)s, 1) "
            "returning id, series",
            **given,
        )
        return found[0]["id"], found[0]["series"]

    def _change_totals(self, schema: str, scope: int, series: int, documents: int, words: int, last_at: int) -> None:
        self._connection.execute(
            f"insert into {schema}.search_total (id, scope_id, series, documents, words, last_at) "
            "values (%s, %s, %s, %s, %s, %s)",
            (secrets.randbits(62), scope, series, documents, words, last_at),
        )

    def _move_rows(self, table: str) -> None:
        found = self._rows(
            "select column_name as name from information_schema.columns where table_schema = %(schema)s "
            "and table_name = %(table)s order by ordinal_position",
            schema=self._source,
            table=table,
        )
        columns = [row["name"] for row in found]
        order = ", ".join(_KEYS.get(table, ("1",)))
        for page in self._pages(table, ", ".join(columns), order=order):
            if table == "search_document":
                self._documents += [row["id"] for row in page]
            self._moved[table] += len(page)
            rows = [tuple(self._renamed(table, row).values()) for row in page]
            into = f"{table} ({', '.join(columns)})"
            if table in _ONCE:
                self._add(into, rows)
                continue
            with self._connection.cursor() as cursor, cursor.copy(f"copy {self._target}.{into} from stdin") as copy:
                for row in rows:
                    copy.write_row(row)

    def _add(self, into: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write rows of which the other schema may have some."""
        for first in range(0, len(rows), _TOGETHER):
            some = rows[first : first + _TOGETHER]
            marks = ", ".join([f"({', '.join(['%s'] * len(some[0]))})"] * len(some))
            self._connection.execute(
                f"insert into {self._target}.{into} overriding system value values {marks} on conflict do nothing",
                [value for row in some for value in row],
            )

    def _renamed(self, table: str, row: dict[str, Any]) -> dict[str, Any]:
        """A row as the other schema has it."""
        if table in {"audit", "audit_document"}:
            place, link = self._places[row["sequence"]]
            row |= {"sequence": place, "link": link} if table == "audit" else {"sequence": place}
        if table == "search_document":
            row |= {"id": self._document(row["id"]), "owner": self._owners.get(row["id"], row["owner"])}
        if table == "search_index":  # each term ends with its scope, before the quote
            scopes = (
                number >> _SERIES_BITS + _PLACE_BITS
                for number in (row["document_id"], self._document(row["document_id"]))
            )
            here, there = (f"\x1f{scope}'" for scope in scopes)
            row["terms"] = row["terms"].replace(here, there)
        for column, known in (
            ("namespace_id", self._spaces),
            ("content_id", self._bodies),
            ("attachments_id", self._bodies),
            ("scope_id", self._spaces if table == "memory" else {}),
        ):
            if column in row:
                row[column] = known.get(row[column], row[column])
        if row.get("document_id") is not None:
            row["document_id"] = self._document(row["document_id"])
        return row

    def _document(self, number: int) -> int:
        series = number >> _PLACE_BITS
        return number + ((self._series.get(series, series) - series) << _PLACE_BITS)

    def _want_vectors(self) -> None:
        wanted = [{"id": self._document(each)} for each in self._documents if each not in self._owners]
        self._each(
            f"insert into {self._target}.search_unembedded (document_id) "
            f"select %(id)s from {self._target}.search_state where dimensions is not null",
            wanted,
        )

    def _leave(self, tables: Sequence[str]) -> None:
        """Delete what was moved."""
        for first in range(0, len(self._documents), PAGE):
            page = self._documents[first : first + PAGE]
            self._connection.execute("delete from search_document where id = any(%s)", (page,))
        self._rows(f"delete from memory where {_OF_MEMORY} returning id")
        for table in reversed(tables):
            if table not in {"namespace", "content", "token_count", "author", "audit"}:
                self._connection.execute(f"delete from {table} where {_WHERE[table]}", self._held)
        self._connection.execute(
            "delete from author where id = any(%(authors)s) "
            "and not exists (select from memory where author_id = author.id)",
            self._held,
        )
        named = load("postgres")
        erase, collect = (  # all in one statement, as one in each
            for_psycopg(named[name]).replace(f"= %({one})s", f"= any(%({one})s)")
            for name, one in (("audit_erase", "sequence"), ("collect_content", "hash"))
        )
        self._connection.execute(erase, {"sequence": list(self._places)})
        hashes = json.dumps([each.hex() for each in self._hashes])
        self._connection.execute(for_psycopg(named["lock_contents"]), {"hashes": hashes})
        self._connection.execute(collect, {"hash": self._hashes})
        self._connection.execute("delete from namespace where id = any(%(whole)s) and path <> ''", self._held)
        for schema in (self._source, self._target):
            self._connection.execute(
                f"update {schema}.search_state set removed = removed + 1 where dimensions is not null"
            )

    def _rows(self, sql: str, **more: Any) -> list[DictRow]:
        return self._connection.execute(sql, self._held | more).fetchall()

    def _each(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            with self._connection.cursor() as cursor:
                cursor.executemany(sql, rows)

    def _pages(self, table: str, columns: str, *, order: str = "1") -> Iterator[list[DictRow]]:
        """What is moved of a table, a page at a time."""
        with self._connection.cursor("moving") as cursor:
            cursor.execute(f"select {columns} from {table} where {_WHERE[table]} order by {order}", self._held)
            while page := cursor.fetchmany(PAGE):
                yield page
