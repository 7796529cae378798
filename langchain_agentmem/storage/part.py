"""What each feature tells of itself, so that search and upkeep serve all features and know none of them by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any, TypeAlias

from langchain_agentmem.storage.engine import Engine
from langchain_agentmem.storage.steps import Operation, Steps

TextsOf: TypeAlias = Callable[[Sequence[int]], Steps[dict[int, tuple[str, ...]]]]
"""Gives the texts by which things of a kind are found, by their rows."""
RecollectionsOf: TypeAlias = Callable[[Sequence[Any], int, Any], Steps[Mapping[int, Any]]]
"""Gives what some hits of a search are to the user, at a time and seen from somewhere, by their documents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A kind of thing that a search finds.

    Attributes:
        stored_as: What the index calls it.
        texts: How its texts are read, for when the index is made anew.
        recollections: What its hits are to the user.
    """

    stored_as: str
    texts: TextsOf
    recollections: RecollectionsOf


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A feature, as what serves all features needs to know it.

    Attributes:
        found: What a search finds of it, by what a user calls it; a kind may be stored in several forms.
        usual: Whether it is looked for by a user who names no kinds. Default: it is.
        unsettled: Whether something waits to be entered in the index before it is searched. Default: nothing does.
        settle: Enters it.
        opened: Is given each database that is opened, to bring it up to date.
    """

    found: Mapping[str, Sequence[Found]] = field(default_factory=dict)
    usual: bool = True
    unsettled: Operation[bool] | None = None
    settle: Operation[Any] | None = None
    opened: Callable[[Engine], object] | None = None


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

    def stored_as(self, kinds: Sequence[str] | None) -> tuple[str, ...]:
        """What the index calls what a user looks for.

        Args:
            kinds: Some of `kinds`; None for `usual_kinds`.
        """
        wanted = self.usual_kinds if kinds is None else kinds
        return tuple(each.stored_as for kind in wanted for each in self._found[kind])


@cache
def all_parts() -> Parts:
    """Every feature of the package, loaded when they are first wanted: `langchain_agentmem.parts` names them."""
    return Parts(import_module("langchain_agentmem.parts").PARTS)
