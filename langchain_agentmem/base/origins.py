"""Where something that is remembered comes from: what it rests on, and how far that is trusted.

An origin is named by a kind and a name: "message:m1", "thread:t1", "tool:web_search", "record:…", or a kind alone,
"tool". What rests on something names it among its origins, and all that that rested on; so whatever becomes of what
stood between them, the chain is whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from langchain_agentmem.base.argument_checks import name_given
from langchain_agentmem.base.namespaces import thread_around
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

SourceName: TypeAlias = Literal["user", "person", "model", "tool", "import"]
"""Who something comes from: whoever talks to the agent, a person who looks after its memory, a model, a tool, or the
memory of another program."""
TrustLevel: TypeAlias = Literal["user", "person", "model", "tool", "import", "unknown"]
"""The same as a level of trust, the most trusted first; what nobody said the source of is "unknown"."""
Trust: TypeAlias = "TrustLevel | Collection[str]"
"""The least trust that is asked for; or which sources are trusted, where another order is wanted."""

SOURCES: tuple[SourceName, ...] = ("user", "person", "model", "tool", "import")
RANKING: tuple[TrustLevel, ...] = (*SOURCES, "unknown")
"""The levels of trust, the highest first."""
UNKNOWN = "unknown"
MESSAGE, THREAD, ITEM = "message", "thread", "item"
THINGS = (MESSAGE, THREAD, "core", "event", "record", "fact", ITEM)
"""What something can rest on beside sources."""
BROUGHT = "brought"
"""What a prompt was shown before a question: known by the question's id until it is looked up."""
NOWHERE = ""
"""The thread of a message of which nobody noted it: it goes with any message of its id."""
_ALIASES = {"conversation": THREAD}


class MemoryOrigin(NamedTuple):
    """Something that what is remembered may rest on.

    Attributes:
        kind: One of `SOURCES` or `THINGS`.
        name: Which one; None for all of a source.
        thread: Of a message its conversation or thread; None where that is not known.
    """

    kind: str
    name: str | None = None
    thread: str | None = None

    def __str__(self) -> str:
        return self.kind if self.name is None else f"{self.kind}:{self.name}"

    def names(self) -> list[str]:
        """Under which names it is noted what rests on this."""
        noted = [f"rests {self}"]
        if self.kind in SOURCES and self.name is not None:
            noted.append(f"rests {self.kind}")
        if self.thread is not None:
            noted += [f"rests {each}" for each in self._threads()]
        return noted

    def covered_by(self) -> set[MemoryOrigin]:
        """Everything that takes this along when it is revoked: it, all of its source, its thread."""
        found = {self, MemoryOrigin(self.kind, self.name), MemoryOrigin(self.kind)}
        found.update([self._replace(thread=NOWHERE)] if self.thread is None else self._threads())
        return found

    def _threads(self) -> set[MemoryOrigin]:
        """Return the conversation that a message belongs to, and the thread around that."""
        return {MemoryOrigin(THREAD, each) for each in (self.thread, thread_around(self.thread or ""))}


def origin_given(given: Any, thread: str | None = None) -> MemoryOrigin:
    """What somebody means by a source.

    Args:
        given: An `MemoryOrigin`, or a text such as "message:m1", "thread:t1", "tool:web_search", "import", "record:…".
        thread: Of a message its conversation or thread. Default: any.

    Raises:
        InvalidInput: It is none.
    """
    if isinstance(given, str):
        kind, colon, name = given.partition(":")
        given = MemoryOrigin(kind, name if colon else None, thread if kind == MESSAGE else None)
    if not isinstance(given, MemoryOrigin):
        raise InvalidInput(f'A source is a text such as "message:m1" or "tool:web_search", not {safe_repr(given)}.')
    kind = _ALIASES.get(given.kind, given.kind)
    if kind not in (*SOURCES, *THINGS) or (given.name is None and kind in THINGS):
        raise InvalidInput(
            f"There is no source {safe_repr(str(given))}. Name one as kind:name: {', '.join((*SOURCES, *THINGS))}; of "
            f"{', '.join(SOURCES)} the kind alone means all."
        )
    for part in (given.name, given.thread):
        if part is not None:
            name_given(part, "the name of a source")
    return MemoryOrigin(kind, given.name, given.thread)


def origins_given(given: Iterable[Any], what: str = "rests_on") -> tuple[MemoryOrigin, ...]:
    """What something is said to rest on.

    Args:
        given: Each as for `origin_given`.
        what: What the argument is called.

    Raises:
        InvalidInput: One is none, or it is no list of them.
    """
    if isinstance(given, str | MemoryOrigin) or not isinstance(given, Iterable):
        raise InvalidInput(f"{what} must be a list of sources, not {safe_repr(given)}.")
    return tuple(dict.fromkeys(map(origin_given, given)))


def trusted_given(trust: Any) -> frozenset[str] | None:
    """Which sources are trusted; None for all.

    Args:
        trust: A level, which means this and all above it; or the sources that are trusted; or None.

    Raises:
        InvalidInput: There is no such level or source.
    """
    if trust is None:
        return None
    levels = [trust] if isinstance(trust, str) else trust
    if not isinstance(levels, Collection) or not set(map(str, levels)) <= set(RANKING) or not levels:
        raise InvalidInput(f"trust must be one of {', '.join(RANKING)}, or some of them, not {safe_repr(trust)}.")
    if isinstance(trust, str):
        return frozenset(RANKING[: RANKING.index(cast("TrustLevel", trust)) + 1])
    return frozenset(levels)


def is_trusted(source: str | None, rests_on: Iterable[str], trusted: frozenset[str] | None) -> bool:
    """Whether something may be shown: all that it comes from is trusted.

    Args:
        source: Where it comes from.
        rests_on: What it rests on, as texts: of these the sources count.
        trusted: Which are trusted; None for all.
    """
    if trusted is None:
        return True
    kinds = {each.partition(":")[0] for each in rests_on} & set(SOURCES)
    return trusted.issuperset({source or UNKNOWN, *kinds})


def in_words(source: str | None, actor: str | None, rests_on: Iterable[str]) -> str:
    """Where something comes from, as whoever reads it is told: the least trusted of its sources; "" where none is.

    Args:
        source: Where it comes from.
        actor: Who that is.
        rests_on: What it rests on, as texts.
    """
    named = [each.partition(":")[::2] for each in rests_on]
    known = [(source, actor or ""), *named]
    found = [(SOURCES.index(kind), kind, name) for kind, name in known if kind in SOURCES]
    if not found:
        return ""
    _, kind, name = max(found)
    return f"{kind} {name}".strip()


def origins_of(told: Iterable[Any] | None) -> list[MemoryOrigin]:
    """Origins as JSON has them.

    Args:
        told: Lists of up to three texts each.
    """
    return [MemoryOrigin(*each) for each in told or ()]


def as_plain(origins: Iterable[MemoryOrigin]) -> list[list[str | None]]:
    """Origins for JSON, each once, in a fixed order."""
    cut = {tuple(each[: 3 if each.thread is not None else 2 if each.name is not None else 1]) for each in origins}
    return sorted(([*each] for each in cut), key=lambda each: [part or "" for part in each])
