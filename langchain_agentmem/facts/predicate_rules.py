"""What is agreed on names: which are one, and which predicates have one value at a time.

Facts are kept under the names that they were told with. What is merged is looked up together, so that a merge can be
taken back and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_agentmem.facts.entity_names import entity_key, predicate_key
from langchain_agentmem.facts.fact import Alias
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_rows import Draft, Kept, View
from langchain_agentmem.storage import Steps

RULE = "fact_rule"
_ALIAS, _SINGLE = "alias", "single"


class Rules(NamedTuple):
    """What is agreed on names.

    Attributes:
        aliases: Names that are merged, or proposed to be, by their keys.
        single: The keys of the predicates that have one value at a time.
        declared: The keys of those of which the database says whether they have.
    """

    aliases: Mapping[str, Alias]
    single: frozenset[str]
    declared: frozenset[str] = frozenset()

    def canonical(self, name: str) -> str:
        """The key of what a name means.

        Args:
            name: A name.
        """
        return self.followed(entity_key(name))

    def followed(self, key: str) -> str:
        """The same, of the key of a name. What merges run in a circle after two branches became one ends somewhere."""
        if key not in self.aliases:
            return key
        seen = {key}
        while (alias := self.aliases.get(key)) is not None and alias.merged:
            key = entity_key(alias.into)
            if key in seen:
                return min(seen)
            seen.add(key)
        return key

    def keys_of(self, names: Iterable[str]) -> list[str]:
        """The keys of all names that mean the same as some names.

        Args:
            names: Canonical keys.
        """
        wanted = set(names)
        merged = (key for key, alias in self.aliases.items() if alias.merged and self.followed(key) in wanted)
        return sorted({*wanted, *merged})

    def spelled(self, name: str) -> str:
        """The name that something goes by, once names are merged."""
        if not self.aliases:
            return name
        key = entity_key(name)
        target = self.followed(key)
        if target == key:
            return name
        return next(
            (alias.into for alias in self.aliases.values() if alias.merged and entity_key(alias.into) == target), name
        )

    def is_single(self, predicate: str) -> bool:
        """Whether a predicate has one value at a time."""
        return predicate_key(predicate) in self.single


def rules(view: View, single: Iterable[str]) -> Steps[Rules]:
    """What is agreed where somebody stands.

    Args:
        view: What they see.
        single: The predicates that have one value at a time unless it is declared otherwise.
    """
    return agreement((yield from memory_rows.current(view, RULE)), single)


def agreement(found: Iterable[Kept], single: Iterable[str]) -> Rules:
    """What is agreed by some rows.

    Args:
        found: The rows.
        single: The predicates that have one value at a time unless it is declared otherwise.
    """
    aliases: dict[str, Alias] = {}
    one = {predicate_key(name) for name in single}
    said: set[str] = set()
    for kept in found:
        _, _, key = kept.key.partition(":")
        if kept.label == _SINGLE:
            said.add(key)
            (one.add if kept.extra["single"] else one.discard)(key)
        elif kept.label == _ALIAS:
            aliases[key] = Alias(
                name=kept.extra["name"], into=kept.extra["into"], merged=kept.extra["merged"], why=kept.extra["why"]
            )
    return Rules(aliases, frozenset(one), frozenset(said))


def in_words(kept: Kept) -> str:
    """What a row says is agreed, in words."""
    if kept.label == _SINGLE:
        return "one value at a time" if kept.extra["single"] else "any number of values"
    if kept.label == _ALIAS:
        return f"{kept.extra['name']} is {'' if kept.extra['merged'] else 'perhaps '}{kept.extra['into']}"
    return kept.text


def declared(predicate: str, *, single: bool, now: int) -> Draft:
    """That a predicate has one value at a time, or has not.

    Args:
        predicate: Its name.
        single: Whether it has.
        now: When it is declared.
    """
    key = predicate_key(predicate)
    return Draft(RULE, f"{_SINGLE}:{key}", predicate.encode(), now, label=_SINGLE, extra={"single": single})


def named_alike(alias: Alias, now: int, *, told: Sequence[Mapping[str, Any]] = ()) -> Draft:
    """That two names are one, or may be.

    Args:
        alias: The names.
        now: When that is said.
        told: The events of the messages that it was made of, with any of which it goes. Default: somebody says so.
    """
    extra: dict[str, Any] = {"name": alias.name, "into": alias.into, "merged": alias.merged, "why": alias.why}
    if told:
        extra |= {"told": list(told), "rests_on_all": True}
    return Draft(RULE, _alias_key(alias.name), alias.name.encode(), now, label=_ALIAS, extra=extra)


def apart(name: str, now: int) -> Draft:
    """That a name means nothing but itself.

    Args:
        name: The name.
        now: When that is said.
    """
    return Draft(RULE, _alias_key(name), None, now)


def _alias_key(name: str) -> str:
    return f"{_ALIAS}:{entity_key(name)}"
