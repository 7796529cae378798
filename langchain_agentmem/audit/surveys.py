"""What a walk along the audit trail tells: how long entries are, what could be archived, how the junk rules do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from langchain_agentmem.audit.audit_entry import CALL
from langchain_agentmem.audit.audit_rows import compressed
from langchain_agentmem.audit.junk_rules import JunkRule, reasons
from langchain_agentmem.audit.reading import Sizes
from langchain_agentmem.audit.walking import Seen
from langchain_agentmem.base.clock import EPOCH
from langchain_agentmem.base.namespaces import Namespace

MOST_JUDGED = 100_000
"""Of more entries some are judged anew."""

_TRIED = 500
_EXAMPLES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveSuggestion:
    """What could be archived.

    Attributes:
        before: Entries made before this time, that are not archived yet.
        entries: How many there are.
        size: Their bytes.
        saved: About how many bytes would be saved, by trying some of them.
    """

    before: datetime
    entries: int
    size: int
    saved: int

    def __str__(self) -> str:
        if not self.entries:
            return "It is large, but has no old entries that are not archived: what it needs is room, or to erase some."
        return (
            f"It is large. Archive {self.entries:,} entries from before {self.before:%Y-%m-%d}: of their "
            f"{self.size / 1e6:,.1f} MB about {self.saved / 1e6:,.1f} MB would be saved. They are found as before."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class JunkCheck:
    """How the rules for junk do.

    Attributes:
        hidden: How many entries each rule hides, by its name; an entry may be hidden by several.
        idle: The rules by which no entry is junk.
        gone: Names by which entries are hidden, of which there is no rule any more.
        to_hide: How many entries are shown that are junk by the rules as they are now. Of more than 100,000 entries
            some are tried, evenly spread, and this is about how many there are; as is `to_show`.
        to_show: How many are hidden that are not.
        examples: The ids of some of both.
    """

    hidden: Mapping[str, int] = field(default_factory=dict)
    idle: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    to_hide: int = 0
    to_show: int = 0
    examples: tuple[str, ...] = ()

    def lines(self, sizes: Sizes) -> Iterable[str]:
        """What it says, line by line.

        Args:
            sizes: How many entries there are.
        """
        if not sizes.entries:
            return
        yield f"Junk: {100 * sizes.junk / sizes.entries:.1f}% of all entries are hidden."
        for name, count in self.hidden.items():
            gone = " (there is no such rule any more)" if name in self.gone else ""
            yield f"  {name}: {count:,}, {100 * count / sizes.entries:.1f}%{gone}"
        if self.idle:
            yield f"  Nothing is junk by: {', '.join(self.idle)}"
        if self.to_hide or self.to_show:
            yield (
                f"  By the rules as they are, {self.to_hide:,} would be hidden and {self.to_show:,} shown, such as "
                f"{', '.join(self.examples)}. filter_junk() judges all anew."
            )


class Lengths:
    """Tells how long the entries of some conversations are; walks along the audit trail.

    Args:
        wanted: The conversations: where they are, and their ids.
    """

    def __init__(self, wanted: Collection[tuple[Namespace, str]]) -> None:
        self._found = {each: [0, 0] for each in wanted}

    def take(self, seen: Seen) -> None:
        """Look at an entry."""
        entry = seen.entry
        if entry.conversation_id is None:
            return
        if (found := self._found.get((entry.namespace, entry.conversation_id))) is not None:
            found[0] += 1
            found[1] += len(entry.prompt) + len(entry.reply)

    def mean(self, namespace: Namespace, conversation: str) -> float:
        """How many characters an entry of a conversation has on average, prompt and reply."""
        entries, characters = self._found[namespace, conversation]
        return characters / entries if entries else 0.0


class Days:
    """Counts entries by the day on which they were made; walks along the audit trail.

    Attributes:
        found: By day since 1970, how many entries were made, their bytes, and how many of them were model calls.
    """

    def __init__(self) -> None:
        self.found: dict[int, list[int]] = {}

    def take(self, seen: Seen) -> None:
        """Look at an entry."""
        found = self.found.setdefault((seen.entry.created_at - EPOCH).days, [0, 0, 0])
        found[0] += 1
        found[1] += len(seen.body)
        found[2] += seen.entry.kind == CALL


class Archivable:
    """Finds what could be archived, and tries some of it; walks along the audit trail.

    Args:
        before: Entries made before this time are old.
    """

    def __init__(self, before: datetime) -> None:
        self._before = before
        self._entries = self._size = 0
        self._tried = self._packed = 0
        self._every = 1

    def take(self, seen: Seen) -> None:
        """Look at an entry."""
        if seen.entry.archived or seen.entry.created_at >= self._before:
            return
        self._entries += 1
        self._size += len(seen.body)
        # The more there are, the fewer of them are tried: of any number about as many.
        if self._entries % self._every == 0:
            self._tried += len(seen.body)
            self._packed += len(compressed(seen.body))
        if self._entries >= self._every * _TRIED:
            self._every *= 2

    def found(self, size: int, large: int) -> ArchiveSuggestion | None:
        """What could be archived of an audit trail of so many bytes; None where it is not that large."""
        if size <= large:
            return None
        share = 1 - self._packed / self._tried if self._tried else 0.0
        saved = round(self._size * share)
        return ArchiveSuggestion(before=self._before, entries=self._entries, size=self._size, saved=saved)


class Judged:
    """Sees how the rules for junk do; walks along the audit trail.

    Args:
        rules: By which entries are junk.
        expected: About how many entries there will be.
    """

    def __init__(self, rules: Sequence[JunkRule], expected: int) -> None:
        self._rules = rules
        self._every = 1 + expected // (MOST_JUDGED + 1)
        self._count = 0
        self._hidden: Counter[str] = Counter()
        self._now: set[str] = set()
        self._to_hide = self._to_show = 0
        self._examples: list[str] = []

    def take(self, seen: Seen) -> None:
        """Look at an entry."""
        entry = seen.entry
        self._hidden.update(entry.junk)
        self._count += 1
        if self._count % self._every:
            return
        now = reasons(entry.kind, entry.prompt, entry.reply, self._rules)
        self._now.update(now)
        if bool(now) == bool(entry.junk):
            return
        if now:
            self._to_hide += 1
        else:
            self._to_show += 1
        if len(self._examples) < _EXAMPLES:
            self._examples.append(entry.id)

    def found(self) -> JunkCheck:
        """How the rules do."""
        names = list(dict.fromkeys(rule.name for rule in self._rules))
        return JunkCheck(
            hidden=dict(self._hidden.most_common()),
            idle=tuple(name for name in names if name not in self._now and name not in self._hidden),
            gone=tuple(sorted(self._hidden.keys() - set(names))),
            to_hide=self._to_hide * self._every,
            to_show=self._to_show * self._every,
            examples=tuple(self._examples),
        )
