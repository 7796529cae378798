"""The rows of memory: versions of things that are known by kind and key, and the views of them.

A *view* is a line of branches, each up to a position, and groups of rows without a place on a branch yet. Of every key
it shows the newest version; a version that marks the thing as deleted hides it. A *place* is where new versions go:
the next position of a branch, or a group.

`problems` reports damage that the database itself cannot detect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any, NamedTuple

from annotated_types import Ge, Len, Lt
from pydantic import TypeAdapter, ValidationError

from langchain_agentmem.base.encoding import as_json, read_column
from langchain_agentmem.base.namespaces import thread_around
from langchain_agentmem.base.origins import rank_of
from langchain_agentmem.errors import DatabaseUnreadable, safe_repr
from langchain_agentmem.search import search_index
from langchain_agentmem.search.search_index import DocumentSeries, IndexedDocument
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.transaction import Row

CORE, EVENT, RECORD = "core", "event", "record"
FACT = "fact"
FORMER = "fact_former"
"""The kind of a row that marks, by its key, a fact that had other names before it was corrected."""
TEXT = "fact_text"
"""The kind of a text as it was said."""

DUE, FAILURE = "fact_due", "fact_failure"
"""The kinds of texts whose facts are still to be extracted, and of failures of that."""


FOREVER = 2**62
"""The end of a row that no version has followed."""
SHARED = (CORE, EVENT, RECORD, FACT, FORMER, "fact_rule", "message")
"""The kinds that threads of a scope show each other."""
FINDABLE = ("event", "fact", "fact_text", "record", "thread_item", "thread_post", "thread_round")
"""The kinds that a search finds."""
OTHERS = "others"
"""The key under which a correction of a fact names its other sources: pairs of a message or None, and its thread."""
SAID = "said"
"""The action of an event that states something: the event names the message that says so."""


class MemoryView(NamedTuple):
    """The memory that is visible from one position.

    Attributes:
        line: Branches with the last position that counts, the nearest first.
        groups: Groups without a place yet, each with the last row that counts.
        at: The time by which expiry is judged, in microseconds since 1970.
        descends: Whether each branch was forked from the next one, so that everything on it is newer.
        scope: The row of the namespace whose threads are seen too. Default: no other thread is.
        author: The author who looks; its own rows are seen by the line alone.
        before: The stamp up to which others are seen. Default: as they are now.
    """

    line: tuple[tuple[int, int], ...]
    groups: tuple[tuple[int, int], ...]
    at: int
    descends: bool = False
    scope: int | None = None
    author: int = 0
    before: int | None = None

    def parameters(self) -> dict[str, Any]:
        """Return the view as parameters of queries."""
        return {
            "line": as_json(self.line),
            "groups": as_json(self.groups),
            "scope": self.scope,
            "author": self.author,
            "before": self.before,
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
        findable: Whether a search finds it, by the words of `words_of`.
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
        return text_of(self.body)


_COLUMNS = (
    "kind", "key", "label", "subject", "object", "importance", "expires_at", "created_at", "source", "actor"
)  # fmt: skip
"""The fields of a draft that are stored as they are."""


def moved(draft: VersionDraft, *versions: MemoryVersion) -> VersionDraft:
    """Return a draft that repeats others' words, with the least trusted source of them."""
    least = max(versions, key=lambda each: rank_of(each.source))
    return draft._replace(source=least.source, actor=least.actor, moved=True)


def body_of(text: str) -> bytes:
    """Encode a text for storage; any string is allowed, even with lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def text_of(body: bytes) -> str:
    """Decode a stored text."""
    return body.decode("utf-8", "surrogatepass")


# -- reading -------------------------------------------------------------------------------------------------------


def current(tx: Transaction, view: MemoryView, kind: str) -> list[MemoryVersion]:
    """Return everything of a kind that a view shows, in the order of writing."""
    if kind == FACT and view.scope is not None:
        return sorted(_put_together(tx, view, kind).values(), key=lambda kept: kept.number)
    few = kind == CORE and view.scope is not None and view.before is None
    make = query.current_of_few_keys if few else query.current_memory
    rows = make(tx, **view.parameters(), kind=kind, at=view.at)
    return [version_of(row) for row in rows]


def named(tx: Transaction, view: MemoryView, kind: str, keys: Iterable[str]) -> dict[str, MemoryVersion]:
    """Return what a view shows under some keys, without what is gone or has expired."""
    keys = list(keys)
    if kind == FACT and view.scope is not None:
        return _put_together(tx, view, kind, keys)
    rows = query.named_memory(tx, **view.parameters(), kind=kind, keys=as_json(keys))
    return {
        row["key"]: version_of(row)
        for row in rows
        if not row["deleted"] and (row["expires_at"] is None or row["expires_at"] > view.at)
    }


def _put_together(
    tx: Transaction, view: MemoryView, kind: str, keys: Sequence[str] | None = None
) -> dict[str, MemoryVersion]:
    """Return the versions that a view shows on all its lines, merged by key.

    Only versions that are newer than the last deletion of the key count.

    `extra["own"]` has the numbers of the events on the view's own line. `extra["foreign"]` has those of them that
    another thread wrote there, of which this one is a copy: it shows others only what it adds.
    """
    if keys is None:
        rows = query.accounts(tx, **view.parameters(), kind=kind)
    else:
        rows = query.accounts_of(tx, **view.parameters(), kind=kind, keys=as_json(keys))
    found: dict[str, MemoryVersion] = {}
    for key, versions in groupby(rows, key=lambda row: str(row["key"])):
        there: list[Row] = []
        for row in versions:  # the oldest first
            there = [] if row["deleted"] else [*there, row]
        if there:
            found[key] = _account(there, view.author)
    return found


def _account(rows: Sequence[Row], author: int) -> MemoryVersion:
    """Merge the versions of one key on several lines into one version."""
    told: dict[int, Any] = {}
    own: list[int] = []
    foreign: list[int] = []
    for row in rows:
        extra = extra_of(row)
        events, others = extra["told"], extra.get("foreign", [])
        if row["mine"]:
            own = [event["n"] for event in events]
            foreign = others if row["author_id"] in (None, author) else own
        told.update((event["n"], event) for event in events if row["mine"] or event["n"] not in others)
    every = sorted(told.values(), key=lambda event: (event["at"], event["n"]))
    extra = {**extra_of(rows[0]), "told": every, "foreign": foreign}
    newest = version_of(rows[-1])
    if len(rows) == 1 and rows[0]["mine"] and not foreign:
        return newest
    return newest._replace(extra={**extra, "own": own}, created_at=min(row["created_at"] for row in rows))


def newest(
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
        return [each for each in current(tx, view, kind) if label is None or each.label == label]
    levels = limit if view.descends else len(view.line)
    while True:  # what is newest lies on the first levels of a long line
        near = view._replace(line=view.line[:levels])
        rows = query.newest_memory(tx, **near.parameters(), kind=kind, label=label, limit=limit, at=view.at)
        if len(rows) >= limit or levels >= len(view.line):
            return [version_of(row) for row in reversed(rows)]
        levels = 4 * (levels + 1)


def shown(tx: Transaction, view: MemoryView, numbers: Iterable[int]) -> set[int]:
    """Return the numbers of the given versions that a view shows."""
    rows = query.shown_memory(tx, **view.parameters(), ids=as_json(list(numbers)), at=view.at)
    return {row["number"] for row in rows}


# -- writing -------------------------------------------------------------------------------------------------------


def write(
    tx: Transaction, place: WriteTarget, drafts: Sequence[VersionDraft], *, series: DocumentSeries, now: int
) -> list[int]:
    """Write versions, which replace those that their branch has of the same keys.

    Args:
        tx: The transaction.
        place: The branch or group to write to.
        drafts: The versions; of two with the same kind and key the later one counts.
        series: The series of findable versions in the search; each kind has its own, of the same name.
        now: The time, in microseconds since 1970.

    Returns:
        The numbers of the new rows.
    """
    drafts = list({(draft.kind, draft.key): draft for draft in drafts}.values())
    author, stamp = place.author, None
    if place.branch is not None:
        others = False
        if author is not None:
            keys = as_json([(draft.kind, draft.key) for draft in drafts])
            [newest] = query.newest_stamp_named(tx, scope=author.scope, keys=keys)
            stamp = max(now, (newest["stamp"] or 0) + 1)
            others = bool(query.has_other_authors(tx, scope=author.scope))
        ended: list[Row] = []
        for draft in drafts:
            of = {"kind": draft.kind, "key": draft.key}
            ended += query.supersede(tx, branch=place.branch, position=place.position, **of, stamp=stamp, author=None)
        release(tx, [row["id"] for row in ended], past=place.shared)
        if not place.forked and not others:  # there is nothing that would have to be hidden
            drafts = [draft for draft in drafts if draft.body is not None or draft.correction is not None]
    # After what they replace is gone, or the same body would be stored and then collected with it.
    queries.store(tx, {queries.digest(draft.body): draft.body for draft in drafts if draft.body is not None})
    placed = _places(tx, series, [draft for draft in drafts if draft.findable and draft.body is not None])
    where = {"branch": place.branch, "position": place.position, "group": place.group, "stamp": stamp, "now": now}
    where |= {"scope": None, "author": None} if author is None else {"scope": author.scope, "author": author.id}
    numbers: list[int] = []
    for draft in drafts:
        found = placed.get((draft.kind, draft.key))
        [row] = query.insert_memory(
            tx,
            **where,
            **{name: getattr(draft, name) for name in _COLUMNS},
            hash=None if draft.body is None else queries.digest(draft.body),
            deleted=int(draft.body is None),
            extra=None if draft.extra is None else as_json(draft.extra),
            document=None if found is None else found[0].numbers[found[1]],
            gone=FOREVER if author is not None and draft.kind in SHARED else 0,
        )
        numbers.append(row["id"])
        if sources := sources_of(draft.extra):
            query.insert_source.many(tx, [{"memory": row["id"], "source": name} for name in sorted(sources)])
        if draft.correction is not None:
            query.sign_memory(tx, id=row["id"], correction=as_json(draft.correction))
    owners = {(draft.kind, draft.key): number for draft, number in zip(drafts, numbers, strict=True)}
    for each in {id(each): each for each, _ in placed.values()}.values():
        mine = [owners[key] for key, (other, _) in placed.items() if other is each]
        search_index.write(tx, each, mine)
    return numbers


def sources_of(extra: Mapping[str, Any] | None) -> set[str]:
    """Return the names of a version's sources: messages, and what these belong to."""
    names: set[str] = set()
    for event in (extra or {}).get("told", ()):
        if event.get("do") == SAID:
            names |= _names(event.get("id"), event.get("in"))
        for message, conversation in event.get(OTHERS, ()):
            names |= _names(message, conversation)
    return names


def _names(message: str | None, conversation: str | None) -> set[str]:
    """Return the names of a message, and of the conversation and thread around it."""
    names = set() if message is None else {message_source(message)}
    if conversation is not None:
        names |= {conversation_source(each) for each in (conversation, thread_around(conversation))}
    return names


def message_source(message_id: str) -> str:
    """Return the name of a message as a source."""
    return f"message {message_id}"


def conversation_source(conversation_id: str) -> str:
    """Return the name of a conversation or thread as a source."""
    return f"conversation {conversation_id}"


def release(tx: Transaction, ids: Iterable[int], *, past: bool = True) -> list[int]:
    """Delete the given rows that nobody can see any more, with documents and contents.

    Args:
        tx: The transaction.
        ids: The rows.
        past: Whether rows of "main" stay that checkpoints of its namespace show. Default: they stay.

    Returns:
        The numbers of the deleted rows.
    """
    if not (ids := list(ids)):
        return []
    rows = query.releasable(tx, ids=as_json(ids), past=int(past))
    discard(tx, rows)
    return [row["id"] for row in rows]


def discard(tx: Transaction, rows: Sequence[Row]) -> None:
    """Delete rows.

    Args:
        tx: The transaction.
        rows: With "id", "document_id", "hash", "body" and "extra".
    """
    if rows:
        _unindex(tx, rows)
        query.delete_memory.many(tx, [{"id": row["id"]} for row in rows])
        _collect(tx, rows)


def bury(tx: Transaction, rows: Sequence[Row], *, gone: bool = False) -> None:
    """Turn rows into deletion marks: their content goes, and what they hid stays hidden.

    Args:
        tx: The transaction.
        rows: As for `discard`.
        gone: Whether they hide nothing from others any more. Default: they do.
    """
    if rows:
        _unindex(tx, rows)
        query.bury_memory.many(tx, [{"id": row["id"], "gone": int(gone)} for row in rows])
        query.delete_every_source.many(tx, [{"memory": row["id"]} for row in rows])
        _collect(tx, rows)


def close(tx: Transaction, path: str) -> None:
    """Remove a namespace's empty search series and idle authors, and an empty namespace."""
    for kind in FINDABLE:
        search_index.close(tx, path, kind)
    query.delete_idle_authors(tx, path=path)
    query.delete_empty_namespaces(tx, path=path)


def words_of(body: bytes, extra: Mapping[str, Any]) -> str:
    """Return the words that a search finds a row by.

    These are the words named for it in `extra`, or else its text and its tags.
    """
    if "words" in extra:
        return str(extra["words"])
    return "\n".join([text_of(body), *extra.get("tags", ())])


def _unindex(tx: Transaction, rows: Sequence[Row]) -> None:
    search_index.remove(tx, [(row["document_id"], _words_left(row)) for row in rows if row["document_id"] is not None])


def _collect(tx: Transaction, rows: Sequence[Row]) -> None:
    queries.collect(tx, [bytes(row["hash"]) for row in rows if row["hash"] is not None])


def _words_left(row: Row) -> str:
    """Return the search words of a row that may be damaged; empty if it is unreadable."""
    try:
        return words_of(bytes(row["body"] or b""), extra_of(row))
    except (ValueError, DatabaseUnreadable):
        return ""


def _places(
    tx: Transaction, series: DocumentSeries, drafts: Sequence[VersionDraft]
) -> dict[tuple[str, str], tuple[search_index.PlacedDocuments, int]]:
    """Return the places of drafts in the search, by kind and key."""
    placed: dict[tuple[str, str], tuple[search_index.PlacedDocuments, int]] = {}
    for kind in sorted({draft.kind for draft in drafts}):
        mine = [draft for draft in drafts if draft.kind == kind]
        documents = []
        for draft in mine:
            extra = draft.extra or {}
            words = words_of(draft.body or b"", extra)
            documents.append(
                IndexedDocument(words, draft.created_at, speaker=extra.get("speaker"), role=extra.get("role"))
            )
        found = search_index.places(tx, series._replace(kind=kind), documents)
        placed.update({(kind, draft.key): (found, number) for number, draft in enumerate(mine)})
    return placed


def extra_of(row: Row) -> Mapping[str, Any]:
    """Return the decoded `extra` of a row."""
    return read_column(row["extra"], dict)


_read_plain = itemgetter(
    "number", "branch_id", "kind", "key", "label", "importance", "expires_at", "created_at", "written_at", "thread",
    "source", "actor",
)  # fmt: skip
"""Reads the columns of a row that are the first fields of a `MemoryVersion`."""


def version_of(row: Row) -> MemoryVersion:
    """Return the version that a row holds."""
    return MemoryVersion._make((*_read_plain(row), bytes(row["body"]), extra_of(row)))


PAGE = 500
_WHOLE = Annotated[int, Ge(-(2**63)), Lt(2**63)]
_GROUPS: TypeAdapter[list[Any]] = TypeAdapter(list[_WHOLE] | list[Annotated[list[_WHOLE], Len(2, 2)]])
_CORRECTION = frozenset({"id", "by", "undoes", "before", "after", "sources", "events"})
"""The keys that the JSON of a correction must have."""


def problems(tx: Transaction) -> list[str]:
    """Check the branches and the rows on them.

    Returns:
        The problems as sentences; empty if there are none.
    """
    rows = query.short_branches(tx)
    found = [f"branch {row['id']} ends at {row['head']}, but {row['what']} at {row['position']}" for row in rows]
    for rows, problem in (
        (query.wrong_parents(tx), "branch {} begins on a branch that is not older, or nowhere"),
        (query.overlapping_memory(tx), "memory {} is seen beside a newer version of it"),
        (query.hollow_memory(tx), "memory {} lacks a place or a body, or ends before it begins"),
        (query.unsealed_memory(tx), "memory {} lies where its group was not sealed"),
        (query.wrong_marks(tx), "memory {} counts, and no head shows it, or the reverse"),
        (query.unfindable_memory(tx), "memory {} is not in the index"),
        (query.sources_of_nothing(tx), "memory {} says nothing, and rests on messages"),
        (query.lost_groups(tx), "nothing refers to group {} of memory"),
    ):
        found += [problem.format(row["id"]) for row in rows]
    after = 0
    while page := query.extras_after(tx, after=after, limit=PAGE):
        noted: dict[int, set[str]] = {row["id"]: set() for row in page}
        for row in query.sources_between(tx, after=after, last=page[-1]["id"]):
            noted.setdefault(row["memory_id"], set()).add(row["source"])
        found += [wrong for row in page if (wrong := _wrong_extra(row, noted[row["id"]]))]
        after = page[-1]["id"]
    for row in query.stored_groups(tx):
        try:
            _GROUPS.validate_json(row["groups"], strict=True)
        except ValidationError:
            found.append(f"what {row['what']} {safe_repr(row['name'])} had written cannot be read")
    return found


def _wrong_extra(row: Row, noted: set[str]) -> str | None:
    """Describe what is wrong with the JSON of a version; None if nothing is.

    The JSON must name exactly the sources that are noted for the version.
    """
    try:
        extra, correction = extra_of(row), read_column(row["correction"], dict)
        sources = sources_of(extra) if row["origin"] is None else set()  # a copy is found by its original
    except (AttributeError, KeyError, TypeError, ValueError, DatabaseUnreadable):
        return f"what belongs to memory {row['id']} cannot be read"
    if row["correction"] is not None and not correction.keys() >= _CORRECTION:
        return f"the correction of memory {row['id']} cannot be read"
    return None if sources == noted else f"memory {row['id']} rests on other messages than is noted of it"
