"""The rows of memory: versions of entries that are identified by kind and key, and the views of these versions.

A *view* is the memory that one position sees: a lineage of branches, each up to a position, and *groups* of rows that
have no position on a branch yet. The view shows the newest version of each key. If that version is a deletion mark, the
view shows no entry for the key. New versions go to a *write target*: the next position of a branch, or a group.

`find_problems` reports damage that the database itself cannot detect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any, NamedTuple

from annotated_types import Ge, Len, Lt
from pydantic import TypeAdapter, ValidationError

from langchain_agentmem.base.encoding import as_json, read_column
from langchain_agentmem.base.namespaces import outer_thread
from langchain_agentmem.base.origins import trust_rank
from langchain_agentmem.errors import DatabaseUnreadable, safe_repr
from langchain_agentmem.search import search_index
from langchain_agentmem.search.search_index import DocumentSeries, IndexedDocument
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.transaction import Row, Rows

CORE, EVENT, RECORD = "core", "event", "record"
FACT = "fact"
FORMER_FACT = "fact_former"
"""The kind of a row that marks the fact of the same key as renamed by a correction."""
FACT_TEXT = "fact_text"
"""The kind of an original text from which facts are extracted."""

FACT_DUE, FACT_FAILURE = "fact_due", "fact_failure"
"""The kinds of texts whose facts are still to be extracted, and of failed extractions."""


FOREVER = 2**62
"""The value of the column "until" for a row without a later version on its branch."""
SHARED_KINDS = (CORE, EVENT, RECORD, FACT, FORMER_FACT, "fact_rule", "message")
"""The kinds that the threads of a scope (a namespace with shared memory) share."""
SEARCHABLE_KINDS = ("event", "fact", "fact_text", "record", "thread_item", "thread_post", "thread_round")
"""The kinds that a search finds."""
OTHER_SOURCES = "others"
"""The key of a correction's list of further sources: pairs of a message id, or None, and a thread id."""
STATEMENT = "said"
"""The action of an event in the history of a fact: a message stated the fact. The event names the message."""


class MemoryView(NamedTuple):
    """The memory that is visible from one position.

    Attributes:
        branches: The lineage: the row id of each branch with its last visible position, the nearest branch first.
        groups: The unsealed groups, each with the row id of its last visible row.
        time: The time at which expiry is judged, in microseconds since 1970.
        descends: True if each branch is a fork of the next one, so that its rows are newer than those of the next one.
        scope: The row id of the namespace whose other threads are visible too. Default: no other thread is visible.
        author: The row id of the reading author. The scope adds only rows of other authors.
        max_stamp: Rows of other authors are visible as they were at this stamp. Default: their current rows. A stamp is
            a write time in microseconds, increased if needed to keep the versions of a key in order.
        is_sole_author: True if no other author has written in the scope, so that it adds no rows. Default: False.
    """

    branches: tuple[tuple[int, int], ...]
    groups: tuple[tuple[int, int], ...]
    time: int
    descends: bool = False
    scope: int | None = None
    author: int = 0
    max_stamp: int | None = None
    is_sole_author: bool = False

    @property
    def single_branch(self) -> dict[str, Any] | None:
        """The parameters of `branch_memory`; None if the view may show rows of several branches."""
        if len(self.branches) > 1 or not (self.scope is None or self.is_sole_author):
            return None
        branch, up_to = self.branches[0] if self.branches else (None, 0)
        return {"branch": branch, "up_to": up_to, "groups": as_json(self.groups)}

    def parameters(self) -> dict[str, Any]:
        """Return the view as parameters of queries."""
        return {
            "lineage": as_json(self.branches),
            "groups": as_json(self.groups),
            "scope": self.scope,
            "author": self.author,
            "before": self.max_stamp,
        }


class Author(NamedTuple):
    """The author of memory: a thread, or the branch "main" of a namespace.

    Attributes:
        id: The row id of the author.
        scope: The row id of the namespace.
    """

    id: int
    scope: int


class WriteTarget(NamedTuple):
    """The target of new versions: a position of a locked branch, or an unsealed group.

    Attributes:
        branch: The row id of the branch; None for a group.
        position: The next position of the branch.
        group: The group; None for a branch.
        forked: True if the branch has ancestors.
        author: The author who writes: a thread, or the branch "main". Default: None, as for other named branches.
        shared: True if threads of the namespace see the branch. Versions that their checkpoints show are then kept.
        has_expired: False if no version on the branch has expired. Default: True, so that it must be looked up.
    """

    branch: int | None = None
    position: int | None = None
    group: int | None = None
    forked: bool = False
    author: Author | None = None
    shared: bool = False
    has_expired: bool = True


class VersionDraft(NamedTuple):
    """A version to be written, which has no number and no write time yet.

    Attributes:
        kind: The kind of the entry.
        key: The key of the entry.
        body: The content; None marks the entry as deleted.
        created_at: The creation time of the entry, in microseconds since 1970.
        label: A short classification, such as the kind of an event.
        importance: The importance, from 1 to 5.
        expires_at: The expiry time, in microseconds since 1970.
        extra: Further data, stored as JSON. For a fact, its "told" lists the events of the fact's history.
        subject: The subject, for lookups.
        object: The object, for lookups.
        findable: True if a search finds the version by its `search_words`.
        source: The source: "user", "model", "tool", "import" or "person".
        actor: The name of the source.
        moved: True if the version moves or repeats an earlier one, so that it keeps the earlier source and actor.
        correction: The details of the correction, if a person wrote the version to correct an entry.
    """

    kind: str
    key: str
    body: bytes | None
    created_at: int
    label: str | None = None
    importance: int | None = None
    expires_at: int | None = None
    extra: Mapping[str, Any] | None = None
    subject: str | None = None
    object: str | None = None
    findable: bool = False
    source: str | None = None
    actor: str | None = None
    moved: bool = False
    correction: Mapping[str, Any] | None = None


class MemoryVersion(NamedTuple):
    """A stored version, with its number and its write time.

    Attributes:
        number: Its number in the order of writing.
        branch: The row id of its branch; None before its group is sealed.
        kind: The kind of the entry.
        key: The key of the entry.
        label: A short classification.
        importance: The importance, from 1 to 5; None if it has none.
        expires_at: The expiry time, in microseconds since 1970; None for never.
        created_at: The creation time of the entry, in microseconds since 1970.
        written_at: The time when this version was written, in microseconds since 1970.
        thread: The id of the thread that wrote it; None for a branch.
        source: The source, see `SourceNote`.
        actor: The name of the source.
        body: The content.
        extra: Further data.
    """

    number: int
    branch: int | None
    kind: str
    key: str
    label: str | None
    importance: int | None
    expires_at: int | None
    created_at: int
    written_at: int
    thread: str | None
    source: str | None
    actor: str | None
    body: bytes
    extra: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The body as text."""
        return decode_text(self.body)


_COLUMNS = (
    "kind", "key", "label", "subject", "object", "importance", "expires_at", "created_at", "source", "actor"
)  # fmt: skip
"""The fields of a draft that are stored unchanged."""


def inherit_source(draft: VersionDraft, *versions: MemoryVersion) -> VersionDraft:
    """Return a draft with the least trusted source of the versions that it repeats."""
    least_trusted = max(versions, key=lambda version: trust_rank(version.source))
    return draft._replace(source=least_trusted.source, actor=least_trusted.actor, moved=True)


def encode_text(text: str) -> bytes:
    """Encode a text for storage; any string is allowed, even with lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(body: bytes) -> str:
    """Decode a stored text."""
    return body.decode("utf-8", "surrogatepass")


# -- reading -------------------------------------------------------------------------------------------------------


def load_current(tx: Transaction, view: MemoryView, kind: str) -> list[MemoryVersion]:
    """Return all entries of a kind that a view shows, in the order of writing."""
    if kind == FACT and view.scope is not None:
        return sorted(_merge_versions(tx, view).values(), key=lambda version: version.number)
    # In a scope, entries are sorted by stamp. Only core memory does not need this order: its callers sort it.
    if (branch := view.single_branch) is not None and (view.scope is None or kind == CORE):
        shown = select_visible(query.branch_memory(tx, **branch, kind=kind), view.time)
        return [read_version(row) for row in sorted(shown, key=itemgetter("number"))]
    has_few_keys = kind == CORE and view.scope is not None and view.max_stamp is None
    select = query.current_memory_few_keys if has_few_keys else query.current_memory
    return [read_version(row) for row in select(tx, **view.parameters(), kind=kind, at=view.time)]


def load_named(tx: Transaction, view: MemoryView, kind: str, keys: Iterable[str]) -> dict[str, MemoryVersion]:
    """Return the entries that a view shows under some keys, without deleted and expired ones."""
    keys = list(keys)
    if kind == FACT and view.scope is not None:
        return _merge_versions(tx, view, keys)
    if (branch := view.single_branch) is not None:
        rows = query.branch_memory_of_keys(tx, **branch, kind=kind, keys=as_json(keys))
    else:
        rows = query.memory_of_keys(tx, **view.parameters(), kind=kind, keys=as_json(keys))
    return {row["key"]: read_version(row) for row in select_visible(rows, view.time)}


def select_visible(rows: Iterable[Row], time: int) -> list[Row]:
    """Return the last row of each key, without deleted rows, expired rows and rows of nulls.

    Args:
        rows: The rows, the oldest version of each key first.
        time: The time at which expiry is judged, in microseconds since 1970.
    """
    last_rows = [row for row in {row["key"]: row for row in rows}.values() if row["deleted"] == 0]
    return [row for row in last_rows if row["expires_at"] is None or row["expires_at"] > time]


def find_creation_times(
    tx: Transaction, view: MemoryView, kind: str, new: Mapping[str, int], max_size: int
) -> dict[str, int] | None:
    """Return the creation times of entries that new ones replace, if the new ones surely fit.

    Args:
        tx: The transaction.
        view: The view.
        kind: The kind of the entries.
        new: The keys of the new entries, each with the size of its entry.
        max_size: The maximum size of all entries. The size of an entry is the number of characters of its key and its
            text, and 3.

    Returns:
        The times by key, in microseconds since 1970. None if the view shows several branches or open groups, or if the
        entries may be larger than `max_size`: a text counts with its bytes, which are never fewer than its characters.
    """
    if view.groups or (branch := view.single_branch) is None:
        return None
    rows = query.branch_sizes(tx, **branch, kind=kind, keys=as_json([*new]))
    size = rows[0]["total"] + sum(new.values()) - sum(row["size"] or 0 for row in rows)
    return None if size > max_size else {row["key"]: row["created_at"] for row in select_visible(rows, view.time)}


def _merge_versions(tx: Transaction, view: MemoryView, keys: list[str] | None = None) -> dict[str, MemoryVersion]:
    """Return the facts that a view shows, each merged from the versions of all authors.

    Only versions that are newer than the last deletion of the key are merged.

    In a merged version, `extra["own"]` lists the numbers of the events on the view's own lineage. If the thread is a
    copy, `extra["foreign"]` lists the events that the original thread wrote. Other threads see those events only in the
    original thread.
    """
    if keys is None:
        rows = query.versions_by_author(tx, **view.parameters(), kind=FACT)
    else:
        rows = query.versions_by_author_of(tx, **view.parameters(), kind=FACT, keys=as_json(keys))
    merged: dict[str, MemoryVersion] = {}
    for key, versions in groupby(rows, key=lambda row: str(row["key"])):
        visible: list[Row] = []
        for row in versions:  # the oldest first
            visible = [] if row["deleted"] else [*visible, row]
        if visible:
            merged[key] = _merge_rows(visible, view.author)
    return merged


def _merge_rows(rows: Sequence[Row], author: int) -> MemoryVersion:
    """Merge the versions of one key by several authors into one version."""
    by_number: dict[int, Any] = {}
    own: list[int] = []
    foreign: list[int] = []
    for row in rows:
        extra = read_extra(row)
        events, foreign_of_row = extra["told"], extra.get("foreign", [])
        if row["mine"]:
            own = [event["n"] for event in events]
            foreign = foreign_of_row if row["author_id"] in (None, author) else own
        by_number.update((event["n"], event) for event in events if row["mine"] or event["n"] not in foreign_of_row)
    all_events = sorted(by_number.values(), key=lambda event: (event["at"], event["n"]))
    extra = {**read_extra(rows[0]), "told": all_events, "foreign": foreign}
    newest_version = read_version(rows[-1])
    if len(rows) == 1 and rows[0]["mine"] and not foreign:
        return newest_version
    return newest_version._replace(extra={**extra, "own": own}, created_at=min(row["created_at"] for row in rows))


def load_newest(
    tx: Transaction, view: MemoryView, kind: str, *, limit: int | None, label: str | None = None
) -> list[MemoryVersion]:
    """Return the newest entries of a kind that a view shows, oldest first.

    Args:
        tx: The transaction.
        view: The view.
        kind: The kind.
        limit: The maximum number; None for all.
        label: The label of the entries; None for any.
    """
    if limit is None:
        return [version for version in load_current(tx, view, kind) if label is None or version.label == label]
    # The newest entries of a long lineage are usually on its nearest branches, so these are read first.
    branch_count = limit if view.descends else len(view.branches)
    while True:
        near_view = view._replace(branches=view.branches[:branch_count])
        rows = query.newest_memory(tx, **near_view.parameters(), kind=kind, label=label, limit=limit, at=view.time)
        if len(rows) >= limit or branch_count >= len(view.branches):
            return [read_version(row) for row in reversed(rows)]
        branch_count = 4 * (branch_count + 1)


def visible_numbers(tx: Transaction, view: MemoryView, numbers: Iterable[int]) -> set[int]:
    """Return the numbers of the given versions that a view shows."""
    rows = query.visible_memory(tx, **view.parameters(), ids=as_json(list(numbers)), at=view.time)
    return {row["number"] for row in rows}


# -- writing -------------------------------------------------------------------------------------------------------


def write(
    tx: Transaction, target: WriteTarget, drafts: Sequence[VersionDraft], *, series: DocumentSeries, now: int
) -> list[int]:
    """Write versions; on a branch, each one ends the earlier version of its key.

    Args:
        tx: The transaction.
        target: The branch or group to write to.
        drafts: The versions. Of several versions with the same kind and key, only the last one is written.
        series: The series of the search index for findable versions. Its kind is replaced by the kind of each draft.
        now: The time, in microseconds since 1970.

    Returns:
        The numbers of the new rows.
    """
    drafts = list({(draft.kind, draft.key): draft for draft in drafts}.values())
    author, stamp = target.author, None
    if target.branch is not None:
        has_others: Rows = ()
        if author is not None and any(draft.body is None for draft in drafts):
            has_others = query.has_other_authors.lazy(tx, scope=author.scope)
        stamp = _end_versions(tx, target, drafts, now)
        if not target.forked and not has_others:  # a deletion mark would hide nothing
            drafts = [draft for draft in drafts if draft.body is not None or draft.correction is not None]
    # Bodies are stored after the deletion of ended versions, which also deletes equal bodies that no row uses.
    queries.store_bodies(tx, {queries.digest(draft.body): draft.body for draft in drafts if draft.body is not None})
    # The value of a placement is a batch of documents of one kind, and the index of the draft in that batch.
    placements = _place_documents(tx, series, [draft for draft in drafts if draft.findable and draft.body is not None])
    common = {"branch": target.branch, "position": target.position, "group": target.group, "stamp": stamp, "now": now}
    common |= {"scope": None, "author": None} if author is None else {"scope": author.scope, "author": author.id}
    inserted: list[Rows] = []
    for draft in drafts:
        placement = placements.get((draft.kind, draft.key))
        inserted.append(
            query.insert_memory.lazy(
                tx,
                **common,
                **{name: getattr(draft, name) for name in _COLUMNS},
                hash=None if draft.body is None else queries.digest(draft.body),
                deleted=int(draft.body is None),
                extra=None if draft.extra is None else as_json(draft.extra),
                document=None if placement is None else placement[0].numbers[placement[1]],
                visible_until=FOREVER if author is not None and draft.kind in SHARED_KINDS else 0,
            )
        )
    numbers = [int(row["id"]) for [row] in inserted]
    for draft, number in zip(drafts, numbers, strict=True):
        if sources := list_sources(draft.extra):
            query.insert_source.run_many(tx, [{"memory": number, "source": name} for name in sorted(sources)])
        if draft.correction is not None:
            query.set_correction(tx, id=number, correction=as_json(draft.correction))
    numbers_by_key = {(draft.kind, draft.key): number for draft, number in zip(drafts, numbers, strict=True)}
    for batch in {id(batch): batch for batch, _ in placements.values()}.values():
        owners = [numbers_by_key[key] for key, (key_batch, _) in placements.items() if key_batch is batch]
        search_index.write(tx, batch, owners)
    return numbers


def _end_versions(tx: Transaction, target: WriteTarget, drafts: Sequence[VersionDraft], now: int) -> int | None:
    """End the versions that drafts replace on a branch; delete those that nothing shows.

    Returns:
        The stamp of the drafts; None if the branch has no author.
    """
    place = {"branch": target.branch, "position": target.position}
    scope = None if target.author is None else target.author.scope
    keys = as_json([(draft.kind, draft.key) for draft in drafts])
    rows = query.versions_to_end(tx, **place, keys=keys, scope=scope, now=now, checkpoints=int(target.shared))
    stamp = None if scope is None else max([now, *(row["next_stamp"] for row in rows)])
    ended = [row for row in rows if row["id"] is not None]
    delete_rows(tx, [row for row in ended if row["is_releasable"]])
    for row in ended:
        if not row["is_releasable"]:
            query.end_version.lazy(tx, **place, kind=row["kind"], key=row["key"], stamp=stamp, author=None)
    return stamp


def list_sources(extra: Mapping[str, Any] | None) -> set[str]:
    """Return the names of a version's sources: messages, conversations and threads."""
    names: set[str] = set()
    for event in (extra or {}).get("told", ()):
        if event.get("do") == STATEMENT:
            names |= _list_source_names(event.get("id"), event.get("in"))
        for message, conversation in event.get(OTHER_SOURCES, ()):
            names |= _list_source_names(message, conversation)
    return names


def _list_source_names(message: str | None, conversation: str | None) -> set[str]:
    """Return the names of a message, its conversation and the thread around it."""
    names = set() if message is None else {format_message_source(message)}
    if conversation is not None:
        names |= {format_conversation_source(name) for name in (conversation, outer_thread(conversation))}
    return names


def format_message_source(message_id: str) -> str:
    """Return the text that stands for a message in the table of sources."""
    return f"message {message_id}"


def format_conversation_source(conversation_id: str) -> str:
    """Return the text that stands for a conversation or thread in the table of sources."""
    return f"conversation {conversation_id}"


def delete_unseen(tx: Transaction, ids: Iterable[int]) -> list[int]:
    """Delete the given rows that nothing shows, with their contents and search documents.

    Rows of the branch "main" that checkpoints of its namespace show are kept.

    Args:
        tx: The transaction.
        ids: The numbers of the rows.

    Returns:
        The numbers of the deleted rows.
    """
    if not (ids := list(ids)):
        return []
    rows = query.releasable_memory(tx, ids=as_json(ids), checkpoints=1)
    delete_rows(tx, rows)
    return [row["id"] for row in rows]


def delete_rows(tx: Transaction, rows: Sequence[Row]) -> None:
    """Delete rows.

    Args:
        tx: The transaction.
        rows: The rows, with the columns "id", "document_id", "hash", "body" and "extra".
    """
    if rows:
        _remove_from_index(tx, rows)
        query.delete_memory.run_many(tx, [{"id": row["id"]} for row in rows])
        _delete_unused_bodies(tx, rows)


def mark_deleted(tx: Transaction, rows: Sequence[Row], *, branch_only: bool = False) -> None:
    """Delete the content of rows but keep them as deletion marks, which hide older versions.

    Args:
        tx: The transaction.
        rows: As for `delete_rows`.
        branch_only: True if the marks hide older versions only on their branches, not in views of other threads.
            Default: False.
    """
    if rows:
        _remove_from_index(tx, rows)
        query.mark_memory_deleted.run_many(tx, [{"id": row["id"], "hide": int(branch_only)} for row in rows])
        query.delete_sources.run_many(tx, [{"memory": row["id"]} for row in rows])
        _delete_unused_bodies(tx, rows)


def clean_namespace(tx: Transaction, path: str) -> None:
    """Delete a namespace's empty search series and unused authors; and the namespace if empty."""
    for kind in SEARCHABLE_KINDS:
        search_index.delete_series(tx, path, kind)
    query.delete_idle_authors(tx, path=path)
    query.delete_empty_namespaces(tx, path=path)


def search_words(body: bytes, extra: Mapping[str, Any]) -> str:
    """Return the text by which a search finds a row: `extra["words"]`, or body and tags."""
    if "words" in extra:
        return str(extra["words"])
    return "\n".join([decode_text(body), *extra.get("tags", ())])


def _remove_from_index(tx: Transaction, rows: Sequence[Row]) -> None:
    indexed = [row for row in rows if row["document_id"] is not None]
    search_index.remove(tx, [(row["document_id"], _readable_words(row)) for row in indexed])


def _delete_unused_bodies(tx: Transaction, rows: Sequence[Row]) -> None:
    queries.collect_bodies(tx, [bytes(row["hash"]) for row in rows if row["hash"] is not None])


def _readable_words(row: Row) -> str:
    """Return the search words of a row that may be damaged; empty if it is unreadable."""
    try:
        return search_words(bytes(row["body"] or b""), read_extra(row))
    except (ValueError, DatabaseUnreadable):
        return ""


def _place_documents(
    tx: Transaction, series: DocumentSeries, drafts: Sequence[VersionDraft]
) -> dict[tuple[str, str], tuple[search_index.PlacedDocuments, int]]:
    """Reserve numbers in the search index; return batches and indices by kind and key."""
    placements: dict[tuple[str, str], tuple[search_index.PlacedDocuments, int]] = {}
    for kind in sorted({draft.kind for draft in drafts}):
        drafts_of_kind = [draft for draft in drafts if draft.kind == kind]
        documents = []
        for draft in drafts_of_kind:
            extra = draft.extra or {}
            fields = {"speaker": extra.get("speaker"), "role": extra.get("role")}
            documents.append(IndexedDocument(search_words(draft.body or b"", extra), draft.created_at, **fields))
        batch = search_index.reserve_places(tx, series._replace(kind=kind), documents)
        placements.update({(kind, draft.key): (batch, index) for index, draft in enumerate(drafts_of_kind)})
    return placements


def read_extra(row: Row) -> Mapping[str, Any]:
    """Return the decoded `extra` of a row."""
    return read_column(row["extra"], dict)


_plain_fields = itemgetter(
    "number", "branch_id", "kind", "key", "label", "importance", "expires_at", "created_at", "written_at", "thread",
    "source", "actor",
)  # fmt: skip
"""Returns the columns of a row that are the first fields of a `MemoryVersion`."""


def read_version(row: Row) -> MemoryVersion:
    """Return the version in a row."""
    return MemoryVersion._make((*_plain_fields(row), bytes(row["body"]), read_extra(row)))


PAGE_SIZE = 500
"""The number of rows that `find_problems` reads at a time."""
_INT64 = Annotated[int, Ge(-(2**63)), Lt(2**63)]
_GROUPS: TypeAdapter[list[Any]] = TypeAdapter(list[_INT64] | list[Annotated[list[_INT64], Len(2, 2)]])
"""The JSON of groups: a list of row ids, or of pairs of a group's row id and the row id of its last visible row."""
_CORRECTION_KEYS = frozenset({"id", "by", "undoes", "before", "after", "sources", "events"})
"""The keys that the JSON of a correction must have."""


def find_problems(tx: Transaction) -> list[str]:
    """Find damage in the branches and rows of memory that the database cannot detect.

    Returns:
        The problems as sentences; empty if there are none.
    """
    rows = query.short_branches(tx)
    problems = [f"branch {row['id']} ends at {row['head']}, but {row['what']} at {row['position']}" for row in rows]
    for rows, text in (
        (query.wrong_parents(tx), "branch {} begins on a branch that is not older, or at an incomplete place"),
        (query.overlapping_memory(tx), "memory {} is visible next to a newer version of it"),
        (query.malformed_memory(tx), "memory {} lacks a place or a body, or ends before it begins"),
        (query.unsealed_memory(tx), "memory {} lies on a branch where its group was not sealed"),
        (query.wrong_visibility(tx), "memory {} is marked as current, but no branch head shows it, or the reverse"),
        (query.unfindable_memory(tx), "memory {} is not in the index"),
        (query.unexpected_sources(tx), "memory {} states nothing, but has source messages"),
        (query.lost_groups(tx), "nothing refers to group {} of memory"),
    ):
        problems += [text.format(row["id"]) for row in rows]
    after = 0
    while page := query.extras_after(tx, after=after, limit=PAGE_SIZE):
        listed_sources: dict[int, set[str]] = {row["id"]: set() for row in page}
        for row in query.sources_between(tx, after=after, last=page[-1]["id"]):
            listed_sources.setdefault(row["memory_id"], set()).add(row["source"])
        problems += [problem for row in page if (problem := _check_extra(row, listed_sources[row["id"]]))]
        after = page[-1]["id"]
    for row in query.stored_groups(tx):
        try:
            _GROUPS.validate_json(row["groups"], strict=True)
        except ValidationError:
            problems.append(f"the groups that {row['what']} {safe_repr(row['name'])} had written cannot be read")
    return problems


def _check_extra(row: Row, listed_sources: set[str]) -> str | None:
    """Return the problem of a version's JSON; None if there is none.

    The JSON must name exactly the sources that the table `memory_source` lists for the version.
    """
    try:
        extra, correction = read_extra(row), read_column(row["correction"], dict)
        sources = list_sources(extra) if row["copy_of"] is None else set()  # only originals are in `memory_source`
    except (AttributeError, KeyError, TypeError, ValueError, DatabaseUnreadable):
        return f"the extra data of memory {row['id']} cannot be read"
    if row["correction"] is not None and not correction.keys() >= _CORRECTION_KEYS:
        return f"the correction of memory {row['id']} cannot be read"
    problem = f"memory {row['id']} has other source messages than its source table lists"
    return None if sources == listed_sources else problem
