"""Descriptions of the features of the package: searchable kinds, tables, checks, deletions.

Search and maintenance read these descriptions, so they need no code for a particular feature.

Users search kinds by their public names, such as "message". A kind may be stored in several forms, such as the messages
of a conversation and those of a subgraph. The search index has an internal name for each form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from langchain_agentmem.storage.transaction import Operation, Transaction

TextLoader: TypeAlias = Callable[[Transaction, Sequence[int]], dict[int, tuple[str, ...]]]
"""A function that loads the searchable texts of rows, by their ids."""
HitConverter: TypeAlias = Callable[[Transaction, Sequence[Any], int, Any], Mapping[int, Any]]
"""A function that converts hits of the index into results for the user, by document number.

Its arguments: the transaction, the hits, the time in microseconds since 1970, and the `SearchView` (the memory that the
search may see) or None for all memory.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchableKind:
    """A form in which a kind of object is stored and searched.

    Attributes:
        index_name: The internal name of the form in the search index.
        texts: Loads the texts, to rebuild the index.
        recollections: Converts hits into results for the user.
        needs_conversation: True if only searches of one conversation find this form. Default: False.
    """

    index_name: str
    texts: TextLoader
    recollections: HitConverter
    needs_conversation: bool = False


@dataclass(kw_only=True, slots=True)
class Erasure:
    """A request to delete data of all features, with the results so far.

    Attributes:
        low: The first path of the range of namespaces.
        high: The end of the range, excluded.
        name: The id of the conversation or thread to delete. Default: None, all data in the namespaces.
        threads: True to delete threads, too. False to delete only a conversation.
        removed: The numbers of deleted objects, by the attributes of `EraseReport`.
        conversations: The path and the id of each deleted conversation.
    """

    low: str
    high: str
    name: str | None = None
    threads: bool = True
    removed: Counter[str] = field(default_factory=Counter)
    conversations: list[tuple[str, str]] = field(default_factory=list)


CheckpointMessage: TypeAlias = tuple[str | None, Any]
"""A message of a checkpoint: its id or None, and its stored body, or the message object if no body is stored."""


class RecordedMessage(NamedTuple):
    """A message of a checkpoint, as the conversation of its thread stores it.

    Attributes:
        entry: The message's entry in the log of the conversation.
        hash: The digest of the message's body.
        has_no_id: True if the message has no id. It is then identified by its content and the number of earlier
            messages with equal content.
        is_compacted: True if a compaction created or changed the message, so it is not a new version of the original.
        new: True if the conversation did not have the message yet, or had it with other content.
    """

    entry: Any
    hash: bytes
    has_no_id: bool = False
    is_compacted: bool = False
    new: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A description of a feature, for the code that handles all features.

    Attributes:
        search_kinds: The forms of each searchable kind, by the kind's public name.
        is_default: True to search the feature when a user specifies no kinds. Default: True.
        has_pending: Returns whether documents must be indexed before a search. Default: None, documents never wait.
        settle: Indexes the waiting documents. Default: None.
        tables: The feature's tables, by the name under which `stats` reports their size.
        verify: The feature's checks, by name. Each returns the problems as sentences.
        erase: Deletes the data that an `Erasure` selects, and adds the counts to the `Erasure`.
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
        kinds: The public names of the kinds that a user can search.
        default_kinds: The public names of the kinds that are searched by default.
        texts: The text loaders, by internal name.
        recollections: The hit converters, by internal name.

    Args:
        parts: The features.
    """

    def __init__(self, parts: Iterable[Part]) -> None:
        self.all = tuple(parts)
        self._forms_by_kind = {name: forms for part in self.all for name, forms in part.search_kinds.items()}
        self.kinds = tuple(sorted(self._forms_by_kind))
        self.default_kinds = tuple(sorted(name for part in self.all if part.is_default for name in part.search_kinds))
        forms = list(chain.from_iterable(self._forms_by_kind.values()))
        self.texts: Mapping[str, TextLoader] = {form.index_name: form.texts for form in forms}
        self.recollections: Mapping[str, HitConverter] = {form.index_name: form.recollections for form in forms}

    def index_names(self, kinds: Sequence[str] | None, *, has_conversation: bool = False) -> tuple[str, ...]:
        """Return the internal names of the forms of the kinds that a user searches.

        Args:
            kinds: Public names; None for `default_kinds`.
            has_conversation: True if the search specifies a conversation.
        """
        names = self.default_kinds if kinds is None else kinds
        forms = chain.from_iterable(self._forms_by_kind[name] for name in names)
        return tuple(form.index_name for form in forms if has_conversation or not form.needs_conversation)


@cache
def all_parts() -> Parts:
    """Return all features of the package, from the list in `langchain_agentmem.parts`."""
    return Parts(import_module("langchain_agentmem.parts").PARTS)


@cache
def thread_recorder() -> Any:
    """Return the module that records the messages of threads, imported only when needed."""
    return import_module("langchain_agentmem.conversations.recorded_messages")
