"""What each feature tells of itself, so that search and upkeep serve all features and know none of them by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from langchain_agentmem.storage.engine import Engine
from langchain_agentmem.storage.transaction import Operation, Transaction

TextsOf: TypeAlias = Callable[[Transaction, Sequence[int]], dict[int, tuple[str, ...]]]
"""Gives the texts by which things of a kind are found, by their rows."""
RecollectionsOf: TypeAlias = Callable[[Transaction, Sequence[Any], int, Any], Mapping[int, Any]]
"""Gives what some hits of a search are to the user, at a time and seen from somewhere, by their documents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchableKind:
    """A kind of thing that a search finds.

    Attributes:
        stored_as: What the index calls it.
        texts: How its texts are read, for when the index is made anew.
        recollections: What its hits are to the user.
        named: Whether it is found only where its conversation is named.
    """

    stored_as: str
    texts: TextsOf
    recollections: RecollectionsOf
    named: bool = False


@dataclass(kw_only=True, slots=True)
class Erasure:
    """A deletion that every feature takes part in.

    Attributes:
        low: The first path of the namespaces.
        high: The path behind the last.
        name: Only what belongs to the conversation or thread of this id. Default: everything in the namespaces.
        threads: Whether threads are deleted too: not where a conversation alone was named.
        removed: How much was deleted, by the names of `EraseReport`.
        conversations: Path and name of the conversations that were deleted.
    """

    low: str
    high: str
    name: str | None = None
    threads: bool = True
    removed: Counter[str] = field(default_factory=Counter)
    conversations: list[tuple[str, str]] = field(default_factory=list)


CheckpointMessage: TypeAlias = tuple[str | None, Any]
"""A message of a checkpoint: its id or None, and its stored body, or the message where that is stored otherwise."""


class RecordedMessage(NamedTuple):
    """A message of a checkpoint, as the conversation of its thread stores it.

    Attributes:
        entry: The entry of the log; its key is the name of the message there.
        hash: The digest of its body.
        nameless: Whether it is named by its content, and by how often that was named before.
        made: Whether a compaction made or altered it, so that it is no newer version of what was said.
        new: Whether it was not there, or had other content.
    """

    entry: Any
    hash: bytes
    nameless: bool = False
    made: bool = False
    new: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A feature, as what serves all features needs to know it.

    Attributes:
        found: What a search finds of it, by what a user calls it; a kind may be stored in several forms.
        usual: Whether it is looked for by a user who names no kinds. Default: it is.
        unsettled: Whether something waits to be entered in the index before it is searched. Default: nothing does.
        settle: Enters it.
        tables: Its tables, by what `stats` calls that part of the database.
        verify: Its checks, by name; each gives what is wrong, in sentences.
        erase: Deletes what an erasure names.
    """

    found: Mapping[str, Sequence[SearchableKind]] = field(default_factory=dict)
    usual: bool = True
    unsettled: Operation[bool] | None = None
    settle: Operation[Any] | None = None
    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)
    verify: Mapping[str, Operation[list[str]]] = field(default_factory=dict)
    erase: Callable[[Transaction, Erasure], None] | None = None


class Parts:
    """All features.

    Attributes:
        all: The features.
        kinds: What a user can look for.
        usual_kinds: What a user looks for who names no kinds.
        texts: How texts are read, by what the index calls their kind.
        recollections: What hits are to the user, by the same.

    Args:
        parts: The features.
    """

    def __init__(self, parts: Iterable[Part]) -> None:
        self.all = tuple(parts)
        kinds = sorted((name, each.usual) for each in self.all for name in each.found)
        self.kinds = tuple(name for name, _ in kinds)
        self.usual_kinds = tuple(name for name, usual in kinds if usual)
        self._found = {name: tuple(each.found[name]) for each in self.all for name in each.found}
        every = list(chain.from_iterable(self._found.values()))
        self.texts: Mapping[str, TextsOf] = {each.stored_as: each.texts for each in every}
        self.recollections: Mapping[str, RecollectionsOf] = {each.stored_as: each.recollections for each in every}

    def stored_as(self, kinds: Sequence[str] | None, *, named: bool = False) -> tuple[str, ...]:
        """What the index calls what a user looks for.

        Args:
            kinds: Some of `kinds`; None for `usual_kinds`.
            named: Whether a conversation is named.
        """
        wanted = self.usual_kinds if kinds is None else kinds
        return tuple(each.stored_as for kind in wanted for each in self._found[kind] if named or not each.named)


@cache
def all_parts() -> Parts:
    """Every feature of the package, loaded when they are first wanted: `langchain_agentmem.parts` names them."""
    return Parts(import_module("langchain_agentmem.parts").PARTS)


@cache
def thread_listener() -> Any:
    """Return the module that records the messages of threads, `conversations/recorded_messages.py`."""
    return import_module("langchain_agentmem.conversations.recorded_messages")


def bring_up_to_date(engine: Engine) -> None:
    """Have the search index renewed in a database that is opened, where an older version made it."""
    import_module("langchain_agentmem.search.search_index").bring_up_to_date(engine)
