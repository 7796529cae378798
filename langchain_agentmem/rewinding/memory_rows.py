"""The rows of memory: versions of things that are known by kind and key, and the views of them.

A *view* is a line of branches, each up to a position, and groups of rows without a place on a branch yet. Of every key
it shows the newest version; a version that marks the thing as deleted hides it. A *place* is where new versions go:
the next position of a branch, or a group.

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
from langchain_agentmem.storage.transaction import Row

CORE, EVENT, RECORD = "core", "event", "record"
FACT = "fact"
FORMER_FACT = "fact_former"
"""The kind of a row that marks, by its key, a fact that had other names before it was corrected."""
FACT_TEXT = "fact_text"
"""The kind of a text as it was said."""

FACT_DUE, FACT_FAILURE = "fact_due", "fact_failure"
"""The kinds of texts whose facts are still to be extracted, and of failures of that."""


FOREVER = 2**62
"""The end of a row that no version has followed."""
SHARED_KINDS = (CORE, EVENT, RECORD, FACT, FORMER_FACT, "fact_rule", "message")
"""The kinds that threads of a scope show each other."""
SEARCHABLE_KINDS = ("event", "fact", "fact_text", "record", "thread_item", "thread_post", "thread_round")
"""The kinds that a search finds."""
OTHER_SOURCES = "others"
"""The key under which a correction of a fact names its other sources: pairs of a message or None, and its thread."""
STATEMENT = "said"
"""The action of an event that states something: the event names the message that says so."""


class MemoryView(NamedTuple):
    """The memory that is visible from one position.

    Attributes:
        branches: Branches with the last position that counts, the nearest first.
        groups: Groups without a place yet, each with the last row that counts.
        time: The time by which expiry is judged, in microseconds since 1970.
        descends: Whether each branch was forked from the next one, so that everything on it is newer.
        scope: The row of the namespace whose threads are seen too. Default: no other thread is.
        author: The author who looks; its own rows are seen by the line alone.
        max_stamp: The stamp up to which others are seen. Default: as they are now.
    """

    branches: tuple[tuple[int, int], ...]
    groups: tuple[tuple[int, int], ...]
    time: int
    descends: bool = False
    scope: int | None = None
    author: int = 0
    max_stamp: int | None = None

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
        id: The row.
        scope: The row of the namespace.
    """

    id: int
    scope: int


class WriteTarget(NamedTuple):
    """The target of new versions: a position of a locked branch, or an unsealed group.

    Attributes:
        branch: The branch. Default: none, but a group.
        position: The next position of the branch.
        group: The group. Default: none, but a branch.
        forked: Whether the branch has branches before it.
        author: The author of the scope who writes on the branch, such as "main". Default: nobody.
        shared: Whether the threads of the namespace show the branch, so that their checkpoints keep what ends there.
            Default: no.
    """

    branch: int | None = None
    position: int | None = None
    group: int | None = None
    forked: bool = False
    author: Author | None = None
    shared: bool = False


class VersionDraft(NamedTuple):
    """A version to be written. Unlike a `MemoryVersion` it has no number and no time yet.

    It has no body where a thing is deleted.

    Attributes:
        kind: The kind of thing.
        key: The key of the thing.
        body: The content; None marks the thing as deleted.
        created_at: When the thing began, in microseconds since 1970.
        label: A word about it, such as the kind of an event.
        importance: From 1 to 5.
        expires_at: When it ends by itself, in microseconds since 1970.
        extra: Further data, as JSON. The "said" events in its "told" name the messages that it rests on.
        subject: The subject, by which it can be looked up.
        object: The object, by which it can be looked up too.
        findable: Whether a search finds it, by the words of `search_words`.
        source: The source: "user", "model", "tool", "import" or "person".
        actor: The name of the source.
        moved: Whether somebody else wrote it before, and it only moves: it then has its own source.
        correction: The correction that it is, if a person wrote it to correct something.
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
    """A version as it was found, with its number and its time, which a `VersionDraft` has not.

    Attributes:
        number: Its place in the order in which versions were written.
        branch: Its branch; None while it has none.
        kind: The kind of thing.
        key: The key of the thing.
        label: A word about it.
        body: The content.
        importance: From 1 to 5, if it has one.
        expires_at: When it ends by itself.
        extra: Further data.
        created_at: When the thing began.
        written_at: When this version was written.
        thread: The id of the thread that wrote it; None for a branch.
        source: The source, see `SourceNote`.
        actor: The name of the source.
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
"""The fields of a draft that are stored as they are."""


def inherit_source(draft: VersionDraft, *versions: MemoryVersion) -> VersionDraft:
    """Return a draft that repeats others' words, with the least trusted source of them."""
    least_trusted = max(versions, key=lambda each: trust_rank(each.source))
    return draft._replace(source=least_trusted.source, actor=least_trusted.actor, moved=True)


def encode_text(text: str) -> bytes:
    """Encode a text for storage; any string is allowed, even with lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(body: bytes) -> str:
    """Decode a stored text."""
    return body.decode("utf-8", "surrogatepass")


# -- reading -------------------------------------------------------------------------------------------------------


def load_current(tx: Transaction, view: MemoryView, kind: str) -> list[MemoryVersion]:
    """Return everything of a kind that a view shows, in the order of writing."""
    if kind == FACT and view.scope is not None:
        return sorted(_merge_versions(tx, view, kind).values(), key=lambda version: version.number)
    has_few_keys = kind == CORE and view.scope is not None and view.max_stamp is None
    select = query.current_memory_few_keys if has_few_keys else query.current_memory
    rows = select(tx, **view.parameters(), kind=kind, at=view.time)
    return [version_of(row) for row in rows]


def load_named(tx: Transaction, view: MemoryView, kind: str, keys: Iterable[str]) -> dict[str, MemoryVersion]:
    """Return what a view shows under some keys, without what is gone or has expired."""
    keys = list(keys)
    if kind == FACT and view.scope is not None:
        return _merge_versions(tx, view, kind, keys)
    rows = query.memory_of_keys(tx, **view.parameters(), kind=kind, keys=as_json(keys))
    return {
        row["key"]: version_of(row)
        for row in rows
        if not row["deleted"] and (row["expires_at"] is None or row["expires_at"] > view.time)
    }


def _merge_versions(
    tx: Transaction, view: MemoryView, kind: str, keys: Sequence[str] | None = None
) -> dict[str, MemoryVersion]:
    """Return the versions that a view shows on all its lines, merged by key.

    Only versions that are newer than the last deletion of the key count.

    `extra["own"]` has the numbers of the events on the view's own line. `extra["foreign"]` has those of them that
    another thread wrote there, of which this one is a copy: it shows others only what it adds.
    """
    if keys is None:
        rows = query.versions_by_author(tx, **view.parameters(), kind=kind)
    else:
        rows = query.versions_by_author_of(tx, **view.parameters(), kind=kind, keys=as_json(keys))
    merged: dict[str, MemoryVersion] = {}
    for key, versions in groupby(rows, key=lambda row: str(row["key"])):
        visible: list[Row] = []
        for row in versions:  # the oldest first
            visible = [] if row["deleted"] else [*visible, row]
        if visible:
            merged[key] = _merge_rows(visible, view.author)
    return merged


def _merge_rows(rows: Sequence[Row], author: int) -> MemoryVersion:
    """Merge the versions of one key on several lines into one version."""
    by_number: dict[int, Any] = {}
    own: list[int] = []
    foreign: list[int] = []
    for row in rows:
        extra = extra_of(row)
        events, others = extra["told"], extra.get("foreign", [])
        if row["mine"]:
            own = [event["n"] for event in events]
            foreign = others if row["author_id"] in (None, author) else own
        by_number.update((event["n"], event) for event in events if row["mine"] or event["n"] not in others)
    all_events = sorted(by_number.values(), key=lambda event: (event["at"], event["n"]))
    extra = {**extra_of(rows[0]), "told": all_events, "foreign": foreign}
    newest_version = version_of(rows[-1])
    if len(rows) == 1 and rows[0]["mine"] and not foreign:
        return newest_version
    return newest_version._replace(extra={**extra, "own": own}, created_at=min(row["created_at"] for row in rows))


def load_newest(
    tx: Transaction, view: MemoryView, kind: str, *, limit: int | None, label: str | None = None
) -> list[MemoryVersion]:
    """Return the newest things of a kind that a view shows, oldest first.

    Args:
        tx: The transaction.
        view: The view.
        kind: The kind.
        limit: The greatest number of them; None for all.
        label: Only those with this label.
    """
    if limit is None:
        return [each for each in load_current(tx, view, kind) if label is None or each.label == label]
    levels = limit if view.descends else len(view.branches)
    while True:  # what is newest lies on the first levels of a long line
        near_view = view._replace(branches=view.branches[:levels])
        rows = query.newest_memory(tx, **near_view.parameters(), kind=kind, label=label, limit=limit, at=view.time)
        if len(rows) >= limit or levels >= len(view.branches):
            return [version_of(row) for row in reversed(rows)]
        levels = 4 * (levels + 1)


def visible_numbers(tx: Transaction, view: MemoryView, numbers: Iterable[int]) -> set[int]:
    """Return the numbers of the given versions that a view shows."""
    rows = query.visible_memory(tx, **view.parameters(), ids=as_json(list(numbers)), at=view.time)
    return {row["number"] for row in rows}


# -- writing -------------------------------------------------------------------------------------------------------


def write(
    tx: Transaction, target: WriteTarget, drafts: Sequence[VersionDraft], *, series: DocumentSeries, now: int
) -> list[int]:
    """Write versions, which replace those that their branch has of the same keys.

    Args:
        tx: The transaction.
        target: The branch or group to write to.
        drafts: The versions; of two with the same kind and key the later one counts.
        series: The series of findable versions in the search; each kind has its own, of the same name.
        now: The time, in microseconds since 1970.

    Returns:
        The numbers of the new rows.
    """
    drafts = list({(draft.kind, draft.key): draft for draft in drafts}.values())
    author, stamp = target.author, None
    if target.branch is not None:
        has_others = False
        if author is not None:
            keys = as_json([(draft.kind, draft.key) for draft in drafts])
            [newest] = query.newest_stamp_of_keys(tx, scope=author.scope, keys=keys)
            stamp = max(now, (newest["stamp"] or 0) + 1)
            has_others = bool(query.has_other_authors(tx, scope=author.scope))
        ended: list[Row] = []
        for draft in drafts:
            slot = {"kind": draft.kind, "key": draft.key}
            ended += query.end_version(
                tx, branch=target.branch, position=target.position, **slot, stamp=stamp, author=None
            )
        delete_unseen(tx, [row["id"] for row in ended], keep_past=target.shared)
        if not target.forked and not has_others:  # there is nothing that would have to be hidden
            drafts = [draft for draft in drafts if draft.body is not None or draft.correction is not None]
    # After what they replace is gone, or the same body would be stored and then collected with it.
    queries.store_bodies(tx, {queries.digest(draft.body): draft.body for draft in drafts if draft.body is not None})
    placements = _place_documents(tx, series, [draft for draft in drafts if draft.findable and draft.body is not None])
    where = {"branch": target.branch, "position": target.position, "group": target.group, "stamp": stamp, "now": now}
    where |= {"scope": None, "author": None} if author is None else {"scope": author.scope, "author": author.id}
    numbers: list[int] = []
    for draft in drafts:
        placement = placements.get((draft.kind, draft.key))
        [row] = query.insert_memory(
            tx,
            **where,
            **{name: getattr(draft, name) for name in _COLUMNS},
            hash=None if draft.body is None else queries.digest(draft.body),
            deleted=int(draft.body is None),
            extra=None if draft.extra is None else as_json(draft.extra),
            document=None if placement is None else placement[0].numbers[placement[1]],
            visible_until=FOREVER if author is not None and draft.kind in SHARED_KINDS else 0,
        )
        numbers.append(row["id"])
        if sources := sources_of(draft.extra):
            query.insert_source.run_many(tx, [{"memory": row["id"], "source": name} for name in sorted(sources)])
        if draft.correction is not None:
            query.set_correction(tx, id=row["id"], correction=as_json(draft.correction))
    owners = {(draft.kind, draft.key): number for draft, number in zip(drafts, numbers, strict=True)}
    for each in {id(each): each for each, _ in placements.values()}.values():
        mine = [owners[key] for key, (other, _) in placements.items() if other is each]
        search_index.write(tx, each, mine)
    return numbers


def sources_of(extra: Mapping[str, Any] | None) -> set[str]:
    """Return the names of a version's sources: messages, and what these belong to."""
    names: set[str] = set()
    for event in (extra or {}).get("told", ()):
        if event.get("do") == STATEMENT:
            names |= _source_names(event.get("id"), event.get("in"))
        for message, conversation in event.get(OTHER_SOURCES, ()):
            names |= _source_names(message, conversation)
    return names


def _source_names(message: str | None, conversation: str | None) -> set[str]:
    """Return the names of a message, and of the conversation and thread around it."""
    names = set() if message is None else {message_source(message)}
    if conversation is not None:
        names |= {conversation_source(each) for each in (conversation, outer_thread(conversation))}
    return names


def message_source(message_id: str) -> str:
    """Return the name of a message as a source."""
    return f"message {message_id}"


def conversation_source(conversation_id: str) -> str:
    """Return the name of a conversation or thread as a source."""
    return f"conversation {conversation_id}"


def delete_unseen(tx: Transaction, ids: Iterable[int], *, keep_past: bool = True) -> list[int]:
    """Delete the given rows that nobody can see any more, with documents and contents.

    Args:
        tx: The transaction.
        ids: The rows.
        keep_past: Whether rows of "main" stay that checkpoints of its namespace show. Default: they stay.

    Returns:
        The numbers of the deleted rows.
    """
    if not (ids := list(ids)):
        return []
    rows = query.releasable_memory(tx, ids=as_json(ids), checkpoints=int(keep_past))
    delete_rows(tx, rows)
    return [row["id"] for row in rows]


def delete_rows(tx: Transaction, rows: Sequence[Row]) -> None:
    """Delete rows.

    Args:
        tx: The transaction.
        rows: With "id", "document_id", "hash", "body" and "extra".
    """
    if rows:
        _unindex(tx, rows)
        query.delete_memory.run_many(tx, [{"id": row["id"]} for row in rows])
        _collect_bodies(tx, rows)


def mark_deleted(tx: Transaction, rows: Sequence[Row], *, hides_nothing: bool = False) -> None:
    """Turn rows into deletion marks: their content goes, and what they hid stays hidden.

    Args:
        tx: The transaction.
        rows: As for `delete_rows`.
        hides_nothing: Whether they hide nothing from others any more. Default: they do.
    """
    if rows:
        _unindex(tx, rows)
        query.mark_memory_deleted.run_many(tx, [{"id": row["id"], "hide": int(hides_nothing)} for row in rows])
        query.delete_sources.run_many(tx, [{"memory": row["id"]} for row in rows])
        _collect_bodies(tx, rows)


def clean_namespace(tx: Transaction, path: str) -> None:
    """Remove a namespace's empty search series and idle authors, and an empty namespace."""
    for kind in SEARCHABLE_KINDS:
        search_index.delete_series(tx, path, kind)
    query.delete_idle_authors(tx, path=path)
    query.delete_empty_namespaces(tx, path=path)


def search_words(body: bytes, extra: Mapping[str, Any]) -> str:
    """Return the words that a search finds a row by.

    These are the words named for it in `extra`, or else its text and its tags.
    """
    if "words" in extra:
        return str(extra["words"])
    return "\n".join([decode_text(body), *extra.get("tags", ())])


def _unindex(tx: Transaction, rows: Sequence[Row]) -> None:
    search_index.remove(
        tx, [(row["document_id"], _readable_words(row)) for row in rows if row["document_id"] is not None]
    )


def _collect_bodies(tx: Transaction, rows: Sequence[Row]) -> None:
    queries.collect_bodies(tx, [bytes(row["hash"]) for row in rows if row["hash"] is not None])


def _readable_words(row: Row) -> str:
    """Return the search words of a row that may be damaged; empty if it is unreadable."""
    try:
        return search_words(bytes(row["body"] or b""), extra_of(row))
    except (ValueError, DatabaseUnreadable):
        return ""


def _place_documents(
    tx: Transaction, series: DocumentSeries, drafts: Sequence[VersionDraft]
) -> dict[tuple[str, str], tuple[search_index.PlacedDocuments, int]]:
    """Return the places of drafts in the search, by kind and key."""
    placements: dict[tuple[str, str], tuple[search_index.PlacedDocuments, int]] = {}
    for kind in sorted({draft.kind for draft in drafts}):
        mine = [draft for draft in drafts if draft.kind == kind]
        documents = []
        for draft in mine:
            extra = draft.extra or {}
            words = search_words(draft.body or b"", extra)
            documents.append(
                IndexedDocument(words, draft.created_at, speaker=extra.get("speaker"), role=extra.get("role"))
            )
        batch = search_index.reserve_places(tx, series._replace(kind=kind), documents)
        placements.update({(kind, draft.key): (batch, number) for number, draft in enumerate(mine)})
    return placements


def extra_of(row: Row) -> Mapping[str, Any]:
    """Return the decoded `extra` of a row."""
    return read_column(row["extra"], dict)


_plain_fields = itemgetter(
    "number", "branch_id", "kind", "key", "label", "importance", "expires_at", "created_at", "written_at", "thread",
    "source", "actor",
)  # fmt: skip
"""Reads the columns of a row that are the first fields of a `MemoryVersion`."""


def version_of(row: Row) -> MemoryVersion:
    """Return the version that a row holds."""
    return MemoryVersion._make((*_plain_fields(row), bytes(row["body"]), extra_of(row)))


PAGE_SIZE = 500
_INT64 = Annotated[int, Ge(-(2**63)), Lt(2**63)]
_GROUPS: TypeAdapter[list[Any]] = TypeAdapter(list[_INT64] | list[Annotated[list[_INT64], Len(2, 2)]])
_CORRECTION = frozenset({"id", "by", "undoes", "before", "after", "sources", "events"})
"""The keys that the JSON of a correction must have."""


def find_problems(tx: Transaction) -> list[str]:
    """Check the branches and the rows on them.

    Returns:
        The problems as sentences; empty if there are none.
    """
    rows = query.short_branches(tx)
    faults = [f"branch {row['id']} ends at {row['head']}, but {row['what']} at {row['position']}" for row in rows]
    for rows, problem in (
        (query.wrong_parents(tx), "branch {} begins on a branch that is not older, or nowhere"),
        (query.overlapping_memory(tx), "memory {} is seen beside a newer version of it"),
        (query.malformed_memory(tx), "memory {} lacks a place or a body, or ends before it begins"),
        (query.unsealed_memory(tx), "memory {} lies where its group was not sealed"),
        (query.wrong_visibility(tx), "memory {} counts, and no head shows it, or the reverse"),
        (query.unfindable_memory(tx), "memory {} is not in the index"),
        (query.unexpected_sources(tx), "memory {} says nothing, and rests on messages"),
        (query.lost_groups(tx), "nothing refers to group {} of memory"),
    ):
        faults += [problem.format(row["id"]) for row in rows]
    after = 0
    while page := query.extras_after(tx, after=after, limit=PAGE_SIZE):
        noted_sources: dict[int, set[str]] = {row["id"]: set() for row in page}
        for row in query.sources_between(tx, after=after, last=page[-1]["id"]):
            noted_sources.setdefault(row["memory_id"], set()).add(row["source"])
        faults += [fault for row in page if (fault := _check_extra(row, noted_sources[row["id"]]))]
        after = page[-1]["id"]
    for row in query.stored_groups(tx):
        try:
            _GROUPS.validate_json(row["groups"], strict=True)
        except ValidationError:
            faults.append(f"what {row['what']} {safe_repr(row['name'])} had written cannot be read")
    return faults


def _check_extra(row: Row, noted_sources: set[str]) -> str | None:
    """Describe what is wrong with the JSON of a version; None if nothing is.

    The JSON must name exactly the sources that are noted for the version.
    """
    try:
        extra, correction = extra_of(row), read_column(row["correction"], dict)
        sources = sources_of(extra) if row["copy_of"] is None else set()  # a copy is found by its original
    except (AttributeError, KeyError, TypeError, ValueError, DatabaseUnreadable):
        return f"what belongs to memory {row['id']} cannot be read"
    if row["correction"] is not None and not correction.keys() >= _CORRECTION:
        return f"the correction of memory {row['id']} cannot be read"
    return None if sources == noted_sources else f"memory {row['id']} rests on other messages than is noted of it"
