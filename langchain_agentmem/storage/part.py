"""The description of each feature for search and maintenance, which know no feature by name."""

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
"""A function that returns the searchable texts of a kind, by their rows."""
RecollectionsOf: TypeAlias = Callable[[Transaction, Sequence[Any], int, Any], Mapping[int, Any]]
"""A function that converts hits, by their documents, into results for a user at a time and position."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchableKind:
    """A kind of thing that a search finds.

    Attributes:
        stored_as: The name of the kind in the index.
        texts: Reads the texts of the kind, to rebuild the index.
        recollections: Converts hits into results for the user.
        named: Find the kind only if its conversation is named.
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
        high: The path after the last.
        name: Only what belongs to the conversation or thread of this id. Default: everything in the namespaces.
        threads: Delete threads too. False if only a conversation was named.
        removed: The numbers of deleted entries, by the names of `EraseReport`.
        conversations: Path and name of the deleted conversations.
    """

    low: str
    high: str
    name: str | None = None
    threads: bool = True
    removed: Counter[str] = field(default_factory=Counter)
    conversations: list[tuple[str, str]] = field(default_factory=list)


CheckpointMessage: TypeAlias = tuple[str | None, Any]
"""A message of a checkpoint: its id or None, and its stored body, or the message if it is stored otherwise."""


class RecordedMessage(NamedTuple):
    """A message of a checkpoint, as the conversation of its thread stores it.

    Attributes:
        entry: The entry of the log; its key is the name of the message there.
        hash: The digest of the message's body.
        nameless: The message has no id. Its content and the count of earlier equal contents name it.
        made: A compaction made or altered the message, so it is no newer version of the original message.
        new: The message was missing, or had other content.
    """

    entry: Any
    hash: bytes
    nameless: bool = False
    made: bool = False
    new: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A feature, with the data that code for all features needs.

    Attributes:
        found: The searchable kinds of the feature by the user's name; a kind may be stored in several forms.
        usual: Search the feature when a user names no kinds. Default: True.
        unsettled: Returns whether entries wait to be indexed before a search. Default: none wait.
        settle: Indexes the waiting entries.
        tables: The feature's tables, by the name that `stats` uses for that part of the database.
        verify: The feature's checks, by name; each returns the faults as sentences.
        erase: Deletes the data that an erasure names.
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
        kinds: The kinds that a user can search.
        usual_kinds: The kinds that are searched when the user names none.
        texts: The readers of texts, by the index's name of their kind.
        recollections: The converters of hits into results for the user, by the same names.

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
        """Return the index's names for the kinds that a user searches.

        Args:
            kinds: Some of `kinds`; None for `usual_kinds`.
            named: True if the search names a conversation.
        """
        wanted = self.usual_kinds if kinds is None else kinds
        return tuple(each.stored_as for kind in wanted for each in self._found[kind] if named or not each.named)


@cache
def all_parts() -> Parts:
    """Load all features of the package, which `langchain_agentmem.parts` lists."""
    return Parts(import_module("langchain_agentmem.parts").PARTS)


@cache
def thread_listener() -> Any:
    """Return the module that records the messages of threads."""
    return import_module("langchain_agentmem.conversations.recorded_messages")


def bring_up_to_date(engine: Engine) -> None:
    """Renew a search index that an older version made, in a database that is being opened."""
    import_module("langchain_agentmem.search.search_index").bring_up_to_date(engine)
