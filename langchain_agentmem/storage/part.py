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
        index_name: The name of the kind in the index.
        texts: Reads the texts of the kind, to rebuild the index.
        recollections: Converts hits into results for the user.
        needs_conversation: Find the kind only if its conversation is named.
    """

    index_name: str
    texts: TextsOf
    recollections: RecollectionsOf
    needs_conversation: bool = False


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
        has_no_id: The message has no id. Its content and the count of earlier equal contents name it.
        is_compacted: A compaction made or altered the message, so it is no newer version of the original message.
        new: The message was missing, or had other content.
    """

    entry: Any
    hash: bytes
    has_no_id: bool = False
    is_compacted: bool = False
    new: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A feature, with the data that code for all features needs.

    Attributes:
        search_kinds: The searchable kinds of the feature by the user's name; a kind may be stored in several forms.
        is_default: Search the feature when a user names no kinds. Default: True.
        has_pending: Returns whether entries wait to be indexed before a search. Default: none wait.
        settle: Indexes the waiting entries.
        tables: The feature's tables, by the name that `stats` uses for that part of the database.
        verify: The feature's checks, by name; each returns the faults as sentences.
        erase: Deletes the data that an erasure names.
    """

    search_kinds: Mapping[str, Sequence[SearchableKind]] = field(default_factory=dict)
    is_default: bool = True
    has_pending: Operation[bool] | None = None
    settle: Operation[Any] | None = None
    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)
    verify: Mapping[str, Operation[list[str]]] = field(default_factory=dict)
    erase: Callable[[Transaction, Erasure], None] | None = None


class Parts:
    """All features.

    Attributes:
        all: The features.
        kinds: The kinds that a user can search.
        default_kinds: The kinds that are searched when the user names none.
        texts: The readers of texts, by the index's name of their kind.
        recollections: The converters of hits into results for the user, by the same names.

    Args:
        parts: The features.
    """

    def __init__(self, parts: Iterable[Part]) -> None:
        self.all = tuple(parts)
        kinds = sorted((name, each.is_default) for each in self.all for name in each.search_kinds)
        self.kinds = tuple(name for name, _ in kinds)
        self.default_kinds = tuple(name for name, is_default in kinds if is_default)
        self._kinds_by_name = {name: tuple(each.search_kinds[name]) for each in self.all for name in each.search_kinds}
        all_kinds = list(chain.from_iterable(self._kinds_by_name.values()))
        self.texts: Mapping[str, TextsOf] = {each.index_name: each.texts for each in all_kinds}
        self.recollections: Mapping[str, RecollectionsOf] = {each.index_name: each.recollections for each in all_kinds}

    def index_names(self, kinds: Sequence[str] | None, *, has_conversation: bool = False) -> tuple[str, ...]:
        """Return the index's names for the kinds that a user searches.

        Args:
            kinds: Some of `kinds`; None for `default_kinds`.
            has_conversation: True if the search names a conversation.
        """
        wanted = self.default_kinds if kinds is None else kinds
        return tuple(
            each.index_name
            for kind in wanted
            for each in self._kinds_by_name[kind]
            if has_conversation or not each.needs_conversation
        )


@cache
def all_parts() -> Parts:
    """Load all features of the package, which `langchain_agentmem.parts` lists."""
    return Parts(import_module("langchain_agentmem.parts").PARTS)


@cache
def thread_recorder() -> Any:
    """Return the module that records the messages of threads."""
    return import_module("langchain_agentmem.conversations.recorded_messages")


def bring_up_to_date(engine: Engine) -> None:
    """Renew a search index that an older version made, in a database that is being opened."""
    import_module("langchain_agentmem.search.search_index").bring_up_to_date(engine)
