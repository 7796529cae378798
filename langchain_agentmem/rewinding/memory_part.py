"""Memory rows of whole namespaces: erased, whatever state they are in, and exported as records for another database.

Branches and versions have numbers in an export: those that they had where they came from. Parents come before their
branches, and versions in the order in which they were written, with the copies of one beside each other; so whoever
reads an export needs no look ahead. Groups keep their numbers, which are random.

What is remembered enters another database.

Named branches come with their names; one that is here already must be the same. Branches of threads have none: what
the checkpoints need that stand nowhere here comes on new branches, up to the last position that any of them needs.
So a thread that is here already keeps all that it has, and gets back what is gone.
"""

from __future__ import annotations

import json
import secrets
import zlib
from array import array
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from langchain_agentmem.base.clock import EARLIEST, LATEST
from langchain_agentmem.base.encoding import as_json, read_column
from langchain_agentmem.base.limits import MemoryLimits
from langchain_agentmem.base.namespaces import id_of, namespace_of, path_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput
from langchain_agentmem.rewinding import memory_rows, message_sources, sealing, thread_memory
from langchain_agentmem.rewinding.branches import KIND, MAIN, main_author
from langchain_agentmem.rewinding.memory_rows import (
    FINDABLE,
    FOREVER,
    Author,
    bounds_of,
    groups_of,
    lost_groups,
    rest,
    words_of,
)
from langchain_agentmem.rewinding.sealing import drop_group
from langchain_agentmem.rewinding.thread_memory import BATCH
from langchain_agentmem.search import search_index
from langchain_agentmem.search.search_index import IndexedDocument, Placed, Series
from langchain_agentmem.storage import Transaction, queries, query
from langchain_agentmem.storage.part import Erasure, Import, Part, Record, WriteRecord
from langchain_agentmem.storage.transaction import Row
from langchain_agentmem.threads.thread_lines import ThreadAt, find


def erase(tx: Transaction, low: str, high: str) -> int:
    """Delete the branches of some namespaces with all that lies on them, after their threads are gone.

    Groups that belong to nobody, which only an accident leaves, go with any erasure.

    Args:
        tx: The transaction.
        low: The first namespace path.
        high: Path after the last.

    Returns:
        How many named branches there were.
    """
    branches = query.remembering_branches(tx, low=low, high=high)
    ids = json.dumps([row["id"] for row in branches])
    query.unhook_places(tx, ids=ids)
    query.unhook_bases(tx, ids=ids)
    query.unhook_branches(tx, ids=ids)
    for row in branches:
        while page := query.memory_on(tx, branch=row["id"], limit=BATCH):
            memory_rows.discard(tx, page)
        query.delete_branch(tx, branch=row["id"])
    for group in lost_groups(tx):
        drop_group(tx, group)
    for path in sorted({row["path"] for row in branches}):
        memory_rows.close(tx, path)
    return sum(row["kind"] == KIND for row in branches)


PAGE = 200
THREAD, BRANCHES, MEMORIES = "thread_memory", "branches", "memories"
HOLDS: Mapping[str, set[str]] = {
    THREAD: {"place", "finished", "group"},
    BRANCHES: {"branch"},
    MEMORIES: {"memory"},
}
"""The records of an export that hold others, and which."""


def dump(tx: Transaction, tell: WriteRecord, low: str, high: str) -> Mapping[str, int]:
    """Tell all that is remembered in some namespaces, a page at a time.

    Args:
        tx: The transaction.
        tell: Takes each record.
        low: The first path of the namespaces.
        high: The path behind the last.

    Returns:
        How many named branches and versions were written.

    Raises:
        DatabaseUnreadable: Something is damaged.
    """
    waiting = {row["group_id"] for row in query.unplaced_groups(tx)}
    needed: set[int] = set()
    for row in query.threads_within(tx, low=low, high=high, name=None):
        head = {"record": THREAD, "namespace": namespace_of(row["path"]), "id": row["name"]}
        needed |= waiting & _dump_thread(tx, row["id"], head, tell)
    inside: set[int] = set()
    branches = _dump_branches(tx, tell, low, high, waiting, needed, inside)
    memories = _dump_memories(tx, tell, sorted(needed), inside)
    return {"branches": branches, "memories": memories}


def _dump_thread(tx: Transaction, thread: int, head: Record, tell: WriteRecord) -> set[int]:
    """Tell where the checkpoints of a thread stand, and which tasks finished. Gives the groups of those."""
    mentioned: set[int] = set()
    ns, checkpoint = "", ""
    while page := query.places_after(tx, thread=thread, ns=ns, checkpoint=checkpoint, limit=PAGE):
        ns, checkpoint = page[-1]["ns"], page[-1]["checkpoint"]
        _tell_page(tell, head, (
            {"record": "place", "ns": row["ns"], "checkpoint": row["checkpoint"], "branch": row["branch_id"],
             "position": row["position"]}
            for row in page
        ))  # fmt: skip
    task = ""
    while page := query.thread_finished_after(tx, thread=thread, task=task, limit=PAGE):
        task = page[-1]["task"]
        told = []
        for row in page:
            if (groups := groups_of(row["groups"])) is None:
                raise _damaged(f"what the task {safe_repr(row['task'])} had written")
            mentioned |= set(groups)
            told.append({"record": "finished", **_fields(row), "groups": groups})
        _tell_page(tell, head, told)
    after = -1
    while page := query.thread_groups_after(tx, thread=thread, after=after, limit=PAGE):
        after = page[-1]["id"]
        _tell_page(tell, head, ({"record": "group", **_fields(row)} for row in page))
    return mentioned


def _dump_branches(
    tx: Transaction, tell: WriteRecord, low: str, high: str, waiting: set[int], needed: set[int], inside: set[int]
) -> int:
    """Tell the branches, and note them and which groups those of subgraphs need. Gives the number of named ones."""
    named, after = 0, 0
    while found := query.branches_after(tx, after=after, limit=PAGE):
        after = found[-1]["id"]
        page = [row for row in found if low <= row["path"] < high]
        inside |= {row["id"] for row in page}
        seals: dict[int, list[tuple[int, int, str | None]]] = {row["id"]: [] for row in page}
        for row in query.seals_on(tx, ids=json.dumps(list(seals))):
            seals[row["branch_id"]].append((row["group_id"], row["position"], row["thread"]))
        told = []
        for row in page:
            base = None
            if row["groups"] is not None:
                if (bounds := bounds_of(row["groups"])) is None:
                    raise _damaged(f"what branch {row['id']} stands on")
                needed |= waiting & set(bounds)
                base = {
                    "branch": row["base_id"],
                    "position": row["base_position"],
                    "checkpoint": row["checkpoint"],
                    "groups": [(group, None if last == FOREVER else last) for group, last in bounds.items()],
                }
            told.append(
                {
                    "record": "branch",
                    "number": row["id"],
                    "namespace": namespace_of(row["path"]),
                    "parent": row["parent_id"],
                    **{name: row[name] for name in _BRANCH_COLUMNS},
                    "base": base,
                    "seals": seals[row["id"]],
                }
            )
            named += row["kind"] == KIND
        _tell_page(tell, {"record": BRANCHES}, told)
    return named


def _dump_memories(tx: Transaction, tell: WriteRecord, groups: list[int], inside: set[int]) -> int:
    """Tell every version that somebody can see on some branches, and those of some groups. Gives their number."""
    count, after = 0, 0
    while page := query.memory_after(tx, after=after, limit=PAGE, ids=json.dumps(groups)):
        after = page[-1]["number"]
        told = [
            _told(row)
            for row in page
            if row["id"] is not None and (row["branch_id"] is None or row["branch_id"] in inside)
        ]
        _tell_page(tell, {"record": MEMORIES}, told)
        # A message of a thread lies there to be found: `stats` counts what is remembered.
        count += sum(version["kind"] != "message" for version in told)
    return count


def _told(row: Row) -> dict[str, Any]:
    body = None if row["body"] is None else bytes(row["body"])
    whole = bool(row["deleted"]) if body is None else queries.digest(body) == bytes(row["hash"])
    try:
        extra = None if row["extra"] is None else json.loads(row["extra"])
    except (ValueError, RecursionError) as error:
        raise _damaged(f"memory {row['id']}") from error
    if not whole:
        raise _damaged(f"memory {row['id']}")
    return {
        "record": "memory",
        "number": row["number"],
        "branch": row["branch_id"],
        "position": row["position"],
        "until": None if row["until"] == FOREVER else row["until"],
        "group": row["group_id"],
        **{name: row[name] for name in _VERSION_COLUMNS},
        "body": None if body is None else b64encode(body).decode("ascii"),
        "checksum": None if body is None else zlib.crc32(body),
        "extra": extra,
        "found": None if row["series"] is None else {"namespace": namespace_of(row["path"]), "series": row["series"]},
        **({} if row["correction"] is None else {"correction": read_column(row["correction"], dict)}),
        "stamp": row["stamp"],
        "author": None
        if row["author_id"] is None
        else {"name": row["author"], "living": row["author"] is not None and row["living"] is not None},
    }


def _tell_page(tell: WriteRecord, head: Record, records: Iterable[Record]) -> None:
    first = True
    for record in records:
        if first:
            tell(head)
        first = False
        tell(record)


def _fields(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in row.keys()}  # noqa: SIM118 - a database row, not a dict


def _damaged(what: str) -> DatabaseUnreadable:
    return DatabaseUnreadable(f"{what[0].upper()}{what[1:]} is damaged and cannot be exported; verify() tells more.")


_POINTERS = {"thread_post": "first", "thread_round": "first", "thread_item_read": "of"}
"""Kinds that name the number of another version among what else belongs to them, and under which name."""


_BRANCH_COLUMNS = ("kind", "name", "thread", "parent_position", "head", "created_at")
_VERSION_COLUMNS = (
    "kind", "key", "label", "subject", "object", "importance", "expires_at", "created_at", "written_at", "source",
    "actor",
)  # fmt: skip
"""Columns that stand in an export as they are in the database."""

Whole = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
Time = Annotated[int, Field(strict=True, ge=EARLIEST, le=LATEST)]
Text = Annotated[str, Field(strict=True, pattern=r"\A[^\x00]*\z")]
Path = Annotated[str, BeforeValidator(path_of), Field(validation_alias="namespace")]


_NUMBER: TypeAdapter[int] = TypeAdapter(Whole)


class _Place(BaseModel):
    """Where a checkpoint stands."""

    ns: Text
    checkpoint: Text
    branch: Whole
    position: Whole


class _Finished(BaseModel):
    """A task that finished, and the groups that it wrote."""

    task: Text
    ns: Text
    checkpoint: Text
    caller: Text | None
    groups: list[Whole]
    created_at: Whole


class _Group(BaseModel):
    """The execution that a group belongs to."""

    id: Whole
    ns: Text
    checkpoint: Text
    task: Text
    created_at: Whole


class _Base(BaseModel):
    """What a subgraph's branch stands on, in the numbers of the export."""

    branch: Whole | None
    position: Whole | None
    checkpoint: Text
    groups: Annotated[dict[Whole, Whole | None], BeforeValidator(dict)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.branch is None) != (self.position is None):
            raise ValueError("a branch and a position belong together")
        return self


class _Branch(BaseModel):
    """A branch as the export tells of it."""

    number: Whole
    kind: Literal["layers", "thread"]
    path: Path
    name: Text | None
    thread: Text | None
    parent: Whole | None
    parent_position: Whole | None
    head: Whole
    created_at: Whole
    base: _Base | None
    seals: list[tuple[Whole, Whole, Text | None]]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.parent is None) != (self.parent_position is None):
            raise ValueError("a parent and a position belong together")
        if (self.name is None) == (self.kind == KIND):
            raise ValueError("only a named branch has a name")
        if self.name is not None:
            id_of(self.name, "branch")
        return self


class _InSearch(BaseModel):
    """Where the search has a version."""

    path: Path
    series: Text


def _end(until: Any) -> Any:
    return FOREVER if until is None else until


def _decoded(body: Any) -> bytes | None:
    return None if body is None else b64decode(body, validate=True)


class _Author(BaseModel):
    """Who wrote a version: a thread, which may be gone, or "main", which has no name."""

    name: Text | None
    living: Annotated[bool, Field(strict=True)]


class _Correction(BaseModel):
    """A correction that a person made with a version."""

    id: Text
    by: Text
    undoes: Text | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    sources: list[Text]
    events: list[Whole]


class _Version(BaseModel):
    """A version as the export tells of it."""

    number: Whole
    branch: Whole | None
    position: Whole | None
    until: Annotated[Whole, BeforeValidator(_end)]
    group: Whole | None
    kind: Text
    key: Text
    label: Text | None
    subject: Text | None
    object: Text | None
    body: Annotated[bytes | None, BeforeValidator(_decoded)]
    checksum: Whole | None
    importance: Whole | None
    expires_at: Time | None
    extra: dict[str, Any] | None
    found: _InSearch | None
    created_at: Time
    written_at: Time
    stamp: Time | None = None
    author: _Author | None = None
    source: Text | None = None
    actor: Text | None = None
    correction: _Correction | None = None

    @property
    def series(self) -> Series | None:
        """Where the search has it."""
        return None if self.found is None else Series(self.found.path, self.kind, self.found.series)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.body is not None and zlib.crc32(self.body) != self.checksum:
            raise ValueError("the body does not fit its checksum")
        if (self.branch is None) != (self.position is None) or (self.branch is None and self.group is None):
            raise ValueError("it lies nowhere")
        if self.found is not None and self.kind not in FINDABLE:
            raise ValueError("its kind is not searched")
        return self


class _Landing(NamedTuple):
    """Where a version goes: its branch here, if any, its position there, and where it ends."""

    branch: int | None
    position: int | None
    until: int


@dataclass(slots=True)
class _Made:
    """What a branch of the export is here.

    Attributes:
        id: Its row.
        reach: The last position that is needed of it.
        ahead: Whether it was here, and has gone on since.
        was_here: Whether it was here.
        forks: Where new branches begin on it.
    """

    id: int
    reach: int
    was_here: bool = False
    ahead: bool = False
    forks: list[int] = field(default_factory=list)


class Arrival:
    """One import: takes the records of an export in their order, and writes what is missing here.

    Args:
        tail: How many documents may wait for the search index.
        limits: How many tags a record may have.
    """

    def __init__(self, *, tail: int, limits: MemoryLimits) -> None:
        self._tail, self._limits = tail, limits
        self._places: list[tuple[int, str, int, int]] = []  # line, checkpoint, branch, position
        self._groups: dict[int, int] = {}
        self._needed: set[int] = set()
        self._executions: dict[int, dict[str, Any]] = {}
        self._told: dict[int, _Branch] = {}
        self._made: dict[int, _Made] | None = None
        # What versions were numbered, ascending, and what their numbers are here.
        self._numbers, self._rows = array("q"), array("q")
        self._authors: dict[tuple[str, str, bool], Author] = {}
        self._heads: dict[int, Author] = {}
        self._branches = self._memories = 0

    def take(self, tx: Transaction, head: Record, records: Sequence[Record]) -> None:
        """Take a page of records.

        Args:
            tx: The transaction.
            head: The record that holds them.
            records: They.

        Raises:
            InvalidInput: A record is damaged, or a branch of the same name has other content.
        """
        try:
            if head["record"] == THREAD:
                at = ThreadAt(path_of(head.get("namespace")), id_of(head.get("id"), "thread"))
                self._take_thread(tx, at, records)
            elif head["record"] == BRANCHES:
                self._take_branches(records)
            else:
                if self._made is None:
                    self._made = self._make_branches(tx)
                self._take_versions(tx, [_Version.model_validate(record) for record in records], self._made)
        except ValidationError as error:
            [first, *_] = error.errors(include_url=False, include_context=False, include_input=False)
            where = ".".join(map(str, first["loc"])) or head["record"]
            raise InvalidInput(
                f"A record of what is remembered is damaged: {safe_repr(where)}: {first['msg']}."
            ) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"A record of what is remembered is damaged: {safe_repr(error)}.") from error

    def finish(self, tx: Transaction) -> Mapping[str, int]:
        """Write what had to wait for all records.

        Returns:
            How much was written.
        """
        if self._made is None:
            self._made = self._make_branches(tx)
        for number, made in self._made.items():
            if not made.was_here and (base := self._told[number].base) is not None:
                groups = sorted(self._bounded(base))
                query.insert_base(
                    tx,
                    branch=made.id,
                    base=None if base.branch is None else self._made[base.branch].id,
                    base_position=base.position,
                    checkpoint=base.checkpoint,
                    groups=json.dumps(groups),
                )
                query.insert_base_group.many(tx, [{"group": group, "branch": made.id} for group, _ in groups])
        for line, checkpoint, branch, position in self._places:
            query.insert_place(tx, line=line, checkpoint=checkpoint, branch=self._made[branch].id, position=position)
        for number, made in self._made.items():
            if not made.was_here and (self._told[number].kind, self._told[number].name) == (KIND, MAIN):
                query.mark_end(tx, branch=made.id)
        for thread, author in self._heads.items():
            query.unmark(tx, author=author.id, branch=0)
            sealing.move_marks(tx, thread, None, thread_memory.head_of(tx, thread), 0)
        return {"branches": self._branches, "memories": self._memories}

    # -- threads ---------------------------------------------------------------------------------------------------

    def _take_thread(self, tx: Transaction, at: ThreadAt, records: Sequence[Record]) -> None:
        thread = find(tx, at, exact=True)
        if thread is None:
            raise InvalidInput(
                f"The export remembers something of the thread {safe_repr(at.name)}, but has no such thread."
            )
        places = [_Place.model_validate(record) for record in records if record["record"] == "place"]
        for ns, group in groupby(places, key=lambda place: place.ns):
            there = {place.checkpoint: place for place in group}
            line = find(tx, at, ns, exact=True).line  # type: ignore[union-attr]  # it was found above
            for row in query.placeless(tx, line=line or 0, keys=json.dumps(list(there))):
                place = there[row["name"]]
                self._places.append((line or 0, row["name"], place.branch, place.position))
        for record in records:
            if record["record"] == "finished":
                self._take_finished(tx, thread.id, _Finished.model_validate(record))
            elif record["record"] == "group":
                told = _Group.model_validate(record)
                task = told.model_dump(exclude={"id", "created_at"})
                self._executions[told.id] = {"thread": thread.id, "owner": None, "now": told.created_at, **task}

    def _take_finished(self, tx: Transaction, thread: int, finished: _Finished) -> None:
        self._meet(tx, finished.groups)
        groups = json.dumps(sorted(self._groups[group] for group in finished.groups))
        new = query.add_finished(tx, thread=thread, **finished.model_dump(exclude={"groups"}), groups=groups)
        if new:
            query.insert_finished_groups(tx, thread=thread, task=finished.task, ids=groups)
            self._needed.update(finished.groups)

    def _meet(self, tx: Transaction, groups: Iterable[int]) -> None:
        """Give groups their numbers here: their own, unless this database knows them already."""
        if unmet := [group for group in groups if group not in self._groups]:
            known = {row["group_id"] for row in query.known_groups(tx, ids=json.dumps(unmet))}
            self._groups.update((group, secrets.randbits(62) if group in known else group) for group in unmet)

    # -- branches --------------------------------------------------------------------------------------------------

    def _take_branches(self, records: Sequence[Record]) -> None:
        for record in records:
            branch = _Branch.model_validate(record)
            before = (branch.parent, None if branch.base is None else branch.base.branch)
            if (
                self._made is not None
                or branch.number in self._told
                or any(each is not None and each not in self._told for each in before)
            ):
                raise InvalidInput(f"The record of branch {branch.number} is damaged: it comes at a wrong place.")
            self._told[branch.number] = branch

    def _make_branches(self, tx: Transaction) -> dict[int, _Made]:
        """Make the branches that are needed here, parents first."""
        made: dict[int, _Made] = {}
        for branch in self._told.values():
            if branch.kind == KIND and (here := self._here(tx, branch)) is not None:
                made[branch.number] = here
        reach = self._reach(made)
        for number, branch in self._told.items():
            if number in reach and number not in made:
                made[number] = self._make(tx, branch, reach[number], made)
        return made

    def _here(self, tx: Transaction, branch: _Branch) -> _Made | None:
        """The named branch as it is here already, if it is.

        Raises:
            InvalidInput: It is another one.
        """
        found = query.named_branch(tx, path=branch.path, kind=KIND, name=branch.name)
        if not found:
            return None
        [row] = found
        parent = None if branch.parent is None else self._told[branch.parent].name
        same = (row["parent"], row["parent_position"], row["created_at"]) == (
            parent,
            branch.parent_position,
            branch.created_at,
        )
        if not same or row["head"] < branch.head:
            raise _other(branch)
        return _Made(row["id"], branch.head, was_here=True, ahead=row["head"] > branch.head)

    def _reach(self, made: Mapping[int, _Made]) -> dict[int, int]:
        """The last position that is needed of each branch: by checkpoints, by named branches, and by their forks."""
        reach = {number: branch.head for number, branch in self._told.items() if branch.kind == KIND}
        for _, _, number, position in self._places:
            reach[number] = max(reach.get(number, 0), position)
        for number in reversed(self._told):
            if number in reach and number not in made:
                branch = self._told[number]
                spots: list[tuple[int | None, int | None]] = [(branch.parent, branch.parent_position)]
                if branch.base is not None:
                    spots.append((branch.base.branch, branch.base.position))
                for before, up_to in spots:
                    if before is not None:
                        reach[before] = max(reach.get(before, 0), up_to or 0)
        for number, position in reach.items():
            if number not in self._told or position > self._told[number].head:
                raise InvalidInput(f"Something of the export stands on branch {number}, which does not reach so far.")
        return reach

    def _make(self, tx: Transaction, branch: _Branch, reach: int, made: Mapping[int, _Made]) -> _Made:
        query.create_namespace(tx, path=branch.path)
        rows = query.add_branch(
            tx,
            path=branch.path,
            parent=None if branch.parent is None else made[branch.parent].id,
            **branch.model_dump(include=set(_BRANCH_COLUMNS)) | {"head": reach},
        )
        if not rows:
            raise InvalidInput(f"The export has the branch {safe_repr(branch.name)} twice.")
        if branch.parent is not None and branch.parent_position is not None:
            made[branch.parent].forks.append(branch.parent_position)
        new = _Made(rows[0]["id"], reach)
        if branch.base is not None:
            self._meet(tx, branch.base.groups)
            self._needed.update(branch.base.groups)
        seals = [seal for seal in branch.seals if seal[1] <= reach]
        self._meet(tx, [group for group, _, _ in seals])
        if seals:
            query.insert_seal.many(
                tx,
                [
                    {"group": self._groups[group], "branch": new.id, "position": position, "thread": thread}
                    for group, position, thread in seals
                ],
            )
        self._branches += branch.kind == KIND
        return new

    def _bounded(self, base: _Base) -> Iterable[tuple[int, int]]:
        for group, last in base.groups.items():
            yield self._groups[group], FOREVER if last is None else self._number(last)

    # -- versions --------------------------------------------------------------------------------------------------

    def _take_versions(self, tx: Transaction, versions: Sequence[_Version], made: Mapping[int, _Made]) -> None:
        numbers = [*self._numbers[-1:], *(version.number for version in versions)]
        if numbers != sorted(numbers):
            raise InvalidInput("What is remembered does not come in its order: the export is damaged.")
        for version in versions:
            self._limits.check("tags", len((version.extra or {}).get("tags", ())), "The list of tags of a record")
        wanted: list[tuple[_Version, _Landing]] = []
        landed: set[int] = set()
        for version in versions:
            landing = self._landing(tx, version, made, first=version.number not in landed)
            if landing is not None:
                wanted.append((version, landing))
                landed.add(version.number)
        bodies = [version.body for version, _ in wanted if version.body is not None]
        queries.store(tx, {queries.digest(body): body for body in bodies})
        self._meet(tx, dict.fromkeys(version.group for version, _ in wanted if version.group is not None))
        placed = self._placed(tx, [version for version, _ in wanted])
        owners: dict[int, int] = {}
        for version, landing in wanted:
            owners.setdefault(version.number, self._write(tx, version, landing, placed))
        for series in {id(each): each for each, _ in placed.values()}.values():
            mine = [owners[number] for number, (other, _) in placed.items() if other is series]
            search_index.write(tx, series, mine, tail=self._tail)
        self._memories += sum(version.kind != "message" for version, _ in wanted)

    def _landing(
        self, tx: Transaction, version: _Version, made: Mapping[int, _Made], *, first: bool
    ) -> _Landing | None:
        """Where a version goes; None if it is here, or not needed. `first` says that no copy of it has landed yet."""
        branch = None if version.branch is None else made.get(version.branch)
        if branch is not None and branch.was_here:
            self._compare(tx, version, branch)
            return None
        if branch is not None and version.position is not None and version.position <= branch.reach:
            until = version.until if version.until <= branch.reach else FOREVER
            return _Landing(branch.id, version.position, until)
        # Of what lies elsewhere, a task that finished or a subgraph may need the group.
        return _Landing(None, None, FOREVER) if version.group in self._needed and first else None

    def _compare(self, tx: Transaction, version: _Version, branch: _Made) -> None:
        """See that a branch that was here has a version, or had it and has gone on since."""
        told = self._told[version.branch or 0]
        found = query.version_at(tx, branch=branch.id, kind=version.kind, key=version.key, position=version.position)
        hash_ = None if version.body is None else queries.digest(version.body)
        mine = (version.label, hash_, version.importance, version.expires_at, version.extra, version.created_at)
        theirs = [
            (
                row["label"],
                None if row["hash"] is None else bytes(row["hash"]),
                row["importance"],
                row["expires_at"],
                None if row["extra"] is None else read_column(row["extra"], dict),
                row["created_at"],
            )
            for row in found
        ]
        gone = not theirs and branch.ahead
        if gone and any((version.position or 0) <= fork < version.until for fork in branch.forks):
            raise InvalidInput(
                f"The branch {safe_repr(told.name)} has gone on here, and lost what a fork of the export needs. "
                "Import the file into another database."
            )
        if not gone and mine not in theirs:
            raise _other(told)

    def _placed(self, tx: Transaction, versions: Sequence[_Version]) -> dict[int, tuple[Placed, int]]:
        """Places in the search for versions that can be found, each once, by their numbers."""
        placed: dict[int, tuple[Placed, int]] = {}
        by_series: dict[Series, dict[int, IndexedDocument]] = {}
        for version in versions:
            if version.series is not None and version.body is not None:
                extra = version.extra or {}
                words = words_of(version.body, extra)
                document = IndexedDocument(words, version.created_at, extra.get("speaker"), extra.get("role"))
                by_series.setdefault(version.series, {}).setdefault(version.number, document)
        for series, documents in by_series.items():
            found = search_index.places(tx, series, list(documents.values()))
            placed.update({number: (found, place) for place, number in enumerate(documents)})
        return placed

    def _write(
        self, tx: Transaction, version: _Version, landing: _Landing, placed: Mapping[int, tuple[Placed, int]]
    ) -> int:
        """Write a version. Of those with one number, which are copies of each other, the first is the original."""
        first = not self._numbers or version.number != self._numbers[-1]
        document = placed.get(version.number) if first else None
        group = None if version.group is None else self._groups[version.group]
        if landing.branch is None and version.group in self._executions:
            query.create_group(tx, group=group, **self._executions[version.group])
        [row] = query.add_memory(
            tx,
            branch=landing.branch,
            position=landing.position,
            until=landing.until,
            group=group,
            origin=None if first else self._rows[-1],
            **version.model_dump(include=set(_VERSION_COLUMNS)),
            hash=None if version.body is None else queries.digest(version.body),
            deleted=int(version.body is None),
            extra=None if version.extra is None else as_json(self._pointing(version)),
            correction=None if version.correction is None else as_json(version.correction.model_dump()),
            document=None if document is None else document[0].numbers[document[1]],
            **self._committed(tx, version, landing),
        )
        if first:
            rest(tx, row["id"], version.extra)
            self._numbers.append(version.number)
            self._rows.append(row["id"])
        return int(row["id"])

    def _committed(self, tx: Transaction, version: _Version, landing: _Landing) -> dict[str, Any]:
        """Whose a version is and when it was first committed; an export of before says neither."""
        found: dict[str, Any] = {"scope": None, "author": None, "stamp": version.stamp}
        branch = None if version.branch is None else self._told[version.branch]
        if branch is None or landing.branch is None or (branch.kind == KIND and branch.name != MAIN):
            return found
        if branch.kind == KIND and (version.author is None or version.author.name is None):
            author = main_author(tx, branch.path)
        else:
            sealed = {group: thread for group, _, thread in branch.seals}
            name = version.author.name if version.author else sealed.get(version.group or 0) or branch.thread
            living = version.author is None or version.author.living
            author = self._author(tx, branch.path, str(name), living=living)
        if version.stamp is None and branch.base is None:
            found["stamp"] = version.written_at
        return found | {"scope": author.scope, "author": author.id}

    def _author(self, tx: Transaction, path: str, name: str, *, living: bool) -> Author:
        if (path, name, living) not in self._authors:
            thread = find(tx, ThreadAt(path, name), exact=True) if living else None
            if thread is not None:
                found = sealing.author_of(tx, thread.id)
                self._heads[thread.id] = found
            else:
                [row] = query.former_author(tx, path=path, name=name)
                if row["id"] is None:
                    [made] = query.create_former_author(tx, scope=row["scope"], name=name)
                found = Author(made["id"] if row["id"] is None else row["id"], row["scope"])
            self._authors[path, name, living] = found
        return self._authors[path, name, living]

    def _number(self, number: int) -> int:
        """What the number of a version is here; of one that did not come, that of the last before it."""
        place = bisect_right(self._numbers, number)
        return self._rows[place - 1] if place else 0

    def _pointing(self, version: _Version) -> dict[str, Any]:
        """What else belongs to a version, with the numbers of others that it names as they are here."""
        name = _POINTERS.get(version.kind, "")
        extra = dict(version.extra or {})
        return extra | {name: self._number(_NUMBER.validate_python(extra[name]))} if name in extra else extra


def _other(branch: _Branch) -> InvalidInput:
    return InvalidInput(
        f"There is a branch {safe_repr(branch.name)} here with other content than the export's. Erase its "
        "namespace first, or import the file into another database."
    )


def _erase(tx: Transaction, erasure: Erasure) -> None:
    """Delete threads with what they remembered, branches, and what was learned from what is erased."""
    low, high, name = erasure.low, erasure.high, erasure.name
    [before] = query.memory_total(tx, last=None)
    if name is not None:
        message_sources.forget_corrections(tx, low, high, name, take_back=erasure.threads)
        message_sources.forget(tx, low, high, name)
    if erasure.threads:
        erasure.removed["threads"] += len(thread_memory.delete(tx, low, high, name))
        if name is not None:
            thread_memory.forget_authors(tx, low, high, name)
    if name is None:
        erasure.removed["branches"] += erase(tx, low, high)
    [after] = query.memory_total(tx, last=before["last"])  # what others write meanwhile does not count
    erasure.removed["memories"] += max(0, before["found"] - after["found"])


def _arrival(into: Import) -> Arrival:
    return Arrival(tail=into.tail, limits=into.limits)


def _load(tx: Transaction, into: Import, head: Record, records: Sequence[Record]) -> None:
    into.kept(_arrival).take(tx, head, records)


def _finish(tx: Transaction, into: Import) -> None:
    into.added.update(into.kept(_arrival).finish(tx))


PART = Part(
    tables={
        "layers": (
            "author",
            "memory",
            "memory_source",
            "memory_group",
            "seal",
            "finished_task",
            "finished_group",
            "place",
            "branch_base",
            "base_group",
        )
    },
    verify={"memories": memory_rows.problems},
    erase=_erase,
    records=HOLDS,
    dump=dump,
    load=_load,
    finish=_finish,
)
