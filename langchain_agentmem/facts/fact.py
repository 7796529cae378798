"""The values of facts: `Fact`, `Entity`, `FactsConfig` and others, and how names are compared.

Comparing follows a few fixed rules that never take one name for another. Anything else that means the same is an alias,
which somebody has to declare.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, lru_cache
from typing import Any

from langchain_agentmem.base.argument_checks import check_timeout, check_whole
from langchain_agentmem.base.clock import moment, time_given
from langchain_agentmem.base.data_tables import data_table
from langchain_agentmem.base.encoding import replace_surrogates
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.search.memory_search import Why

LONGEST = 2_000
"""Most characters of a subject, predicate or object."""

_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_QUOTES = "\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a"
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHORT = 100
"""Names up to so many characters are kept with their keys, of the last few thousand that were asked for."""


def name_of(value: Any, what: str) -> str:
    """A name that somebody gave, as it is kept: one line, without space around it.

    Args:
        value: What was given.
        what: What it names, for the error.

    Raises:
        InvalidInput: It is no text, says nothing, or is too long.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{what} of a fact is text, not {type(value).__name__}.")
    name = _SPACE.sub(" ", replace_surrogates(value)).strip()
    if not entity_key(name):
        raise InvalidInput(f"{what} of a fact cannot be empty: {safe_repr(value)}.")
    if len(name) > LONGEST:
        raise InvalidInput(
            f"{what} of a fact has {len(name)} characters, and may have {LONGEST}. Keep long texts with add(), or in "
            "archival memory."
        )
    return name


def entity_key(name: str) -> str:
    """What an entity is compared by: case, kinds of space, quotes around it and a full stop after it do not count.

    Neither do characters that nobody sees.
    """
    return _key_of_short(name) if len(name) <= _SHORT else _key(name)


@lru_cache(maxsize=512)
def predicate_key(predicate: str) -> str:
    """What a predicate is compared by: "lives in", "LIVES_IN" and "livesIn" are one."""
    return entity_key(_HUMP.sub(" ", predicate).replace("_", " ").replace("-", " "))


def _key(name: str) -> str:
    if name.isascii() and name.replace(" ", "").isalnum() and "  " not in name:
        return name.strip().lower()  # what comes of the rest, sooner
    whole = replace_surrogates(name)  # as it is kept
    seen = "".join(sign for sign in unicodedata.normalize("NFKC", whole) if unicodedata.category(sign) != "Cf")
    plain = _SPACE.sub(" ", seen).casefold().strip()
    bare = plain.strip(_QUOTES + " ").rstrip(".,;:!?").rstrip().strip(_QUOTES + " ")
    return unicodedata.normalize("NFKC", bare or plain)


_key_of_short = lru_cache(maxsize=8_192)(_key)


SINGLE_VALUED = ("lives in", "works at")
"""The predicates that have one value at a time, where `KGMemory.declare` does not say otherwise."""
RAW_PREDICATE = "said"
"""The predicate of what was said and is kept as it was."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FactsConfig:
    """How facts are kept and learned.

    Attributes:
        max_attempts: How often the model is asked about a message before that is parked: others go before it, and the
            model is asked about it once a day. Default: 3.
        timeout: Seconds to wait for the model. Default: 120; None for ever.
        instructions: What the model is told beside the form of its answer. Default: nothing.

    Raises:
        InvalidInput: A value cannot work.
    """

    max_attempts: int = 3
    timeout: float | None = 120.0
    instructions: str = ""

    def __post_init__(self) -> None:
        check_whole("max_attempts", self.max_attempts, 1)
        check_timeout(self.timeout, zero=False)
        if not isinstance(self.instructions, str):
            raise InvalidInput(f"instructions are text, not {type(self.instructions).__name__}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One time that a fact was told of.

    Attributes:
        message_id: The message that says so; None where somebody stated it without one.
        conversation_id: The conversation or thread in which that was said, if it is known.
        role: Who said it.
        recorded_at: When it was learned, in UTC.
        source: The source, if another than the role's: "tool", "import", ….
        actor: The name of that source, such as a tool's.
    """

    message_id: str | None
    conversation_id: str | None = None
    role: str | None = None
    recorded_at: datetime
    source: str | None = field(default=None, compare=False, repr=False)
    actor: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """Something that held, or holds.

    Attributes:
        id: Its id; that of a message where it is what was said, as it was.
        role: Who said it first.
        subject: What it is about.
        predicate: What it says.
        object: Of what, or whom.
        valid_from: When it began to hold, in UTC.
        valid_to: When it ceased to; None if it holds still, as far as we know.
        recorded_at: When it was learned first.
        told: Its sources, in the order in which they came.
        confidence: How sure whoever told it was, from 0 to 1, if anybody said.
        ended_by: The fact that ended it, where another value of the same thing did.
        raw: Whether it is what was said, as it was, and not yet a fact of its own.
        score: How well it answers the search that found it; None if no search did.
        why: Why that found it.
    """

    id: str
    role: str
    subject: str
    predicate: str
    object: str
    valid_from: datetime
    valid_to: datetime | None = None
    recorded_at: datetime
    told: tuple[Source, ...] = ()
    confidence: float | None = None
    ended_by: str | None = None
    raw: bool = False
    score: float | None = None
    why: Why | None = field(default=None, repr=False)

    @property
    def sources(self) -> tuple[str, ...]:
        """The ids of the messages that it comes from, each once."""
        return tuple(dict.fromkeys(each.message_id for each in self.told if each.message_id is not None))

    @property
    def text(self) -> str:
        """It as a sentence; what was said, as it was."""
        return self.object if self.raw else sentence(self.subject, self.predicate, self.object)

    @property
    def period(self) -> str:
        """The days on which it began and ended, in words."""
        if self.valid_to is None:
            return f"since {self.valid_from:%Y-%m-%d}"
        return f"from {self.valid_from:%Y-%m-%d} until {self.valid_to:%Y-%m-%d}"

    def holds_at(self, at: datetime) -> bool:
        """Whether it held at a time, which knows its time zone."""
        return self.valid_from <= at and (self.valid_to is None or at < self.valid_to)

    def to_dict(self) -> dict[str, Any]:
        """As JSON knows it; times are ISO 8601 in UTC."""
        told: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("id", "role", "subject", "predicate", "object", "valid_from", "valid_to", "recorded_at")
        }
        told |= {"sources": list(self.sources), "confidence": self.confidence, "ended_by": self.ended_by}
        return {name: at.isoformat() if isinstance(at, datetime) else at for name, at in told.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """Two values of what has one at a time, both said to have held.

    Attributes:
        facts: The two, the one that began first before the other.
        valid_from: From when on both held, in UTC.
        valid_to: Until when; None if they do so still.
    """

    facts: tuple[Fact, Fact]
    valid_from: datetime
    valid_to: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence(Source):
    """How we know of a fact: one message that says so.

    Attributes:
        text: What it says; None if the message is not kept here.
    """

    text: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """Something that facts are about, or that they name.

    Attributes:
        name: Its name.
        aliases: Other names that are merged into it.
        facts: How many facts name it.
    """

    name: str
    aliases: tuple[str, ...] = ()
    facts: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """An entity that is connected with another.

    Attributes:
        name: Its name.
        distance: How many facts lie between them, at least 1.
        fact: The last of these.
    """

    name: str
    distance: int
    fact: Fact

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Alias:
    """Two names that are, or may be, one.

    Attributes:
        name: The name that is merged.
        into: The name of what it is merged into.
        merged: Whether that was decided; False for a proposal.
        why: The reason that was given with a proposal.
    """

    name: str
    into: str
    merged: bool
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractionFailure:
    """An answer of a model that could not be used, or a model that gave none. The messages go on waiting.

    Attributes:
        message_ids: The messages that it was asked about.
        error: What was wrong.
        answer: What it said, clipped.
        at: When, in UTC.
    """

    message_ids: tuple[str, ...]
    error: str
    answer: str
    at: datetime


def sentence(subject: str, predicate: str, obj: str) -> str:
    """A fact as a sentence."""
    return f"{subject} {predicate.replace('_', ' ')} {obj}"


@cache
def data_file(name: str) -> dict[str, Any]:
    """What a YAML file of this package holds."""
    loaded: dict[str, Any] = data_table(f"facts/{name}")
    return loaded


def maybe_time(value: Any, what: str) -> int | None:
    """A time that a user gave, see `time_given`; None if they gave none."""
    return None if value is None else time_given(value, what)


def maybe_moment(at: int | None) -> datetime | None:
    """The time that a stored number stands for, if it is one."""
    return None if at is None else moment(at)
