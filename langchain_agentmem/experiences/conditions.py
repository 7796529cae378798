"""What a text says, as far as choosing experiences needs it: words with their weights, compounds, and what is denied.

A condition lists situations, and each is a clause of its own. A name of a program, such as `FileNotFoundError`, is one
word and the words that it is made of; "roll back" and "rollback" are the same; British spelling is American. What a
condition says it is not for is kept apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from langchain_agentmem.experiences.condition_words import COMMON, NEGATIVE, PHRASING, SYNONYMS
from langchain_agentmem.search.analysis import question, terms
from langchain_agentmem.search.english import STOP_WORDS

MOST_CHARACTERS = 6_000
"""Of a longer text its beginning and its end are read, so many in all."""
LONGEST_COMPOUND = 4
"""So many words may be written as one: "file not found error"."""
FAINT = 0.4
"""What a common word and a part of a program's name count. Any other word counts 1."""
AKIN = 0.7
"""What a word counts that only means the same, or of which only the root is the same."""

_SILENT = STOP_WORDS | PHRASING
_INSIDE = re.compile(  # fooBar, OOMKilled; not iPhone, NaNs
    r"(?<=[A-Za-z][a-z\d])(?=[A-Z](?:[a-z]{2}|[A-Z]))|(?<=[A-Z])(?=[A-Z][a-z]{2})"
)
_NAME = re.compile(r"[^\W\d]\w*")
_BULLET = re.compile(r"(?:[-*+\u2022]|\d+[.)])\s")
_SENTENCE = re.compile(r"(?<=[.;!?]) ")
_DOTTED = re.compile(r"\b(e\.g|i\.e|etc|vs|approx)\.", re.IGNORECASE)
_FRAGMENT = re.compile(r"[,:;()]|\b(?:or|and)\b", re.IGNORECASE)
_OUR = re.compile(r"^(\w{3,})our")  # favourit(e), never hour; a wrong one is wrong in both texts
_PLURAL = re.compile(r"^(\d{2,})s$")  # 429s
_RE = re.compile(r"^(\w{3,})tr$")  # centr(e)
_LONG_NUMBER = 3  # 429 says something, 2 hardly
_SHORTEST_ISE = 6  # organis(e), never axis
_ENDING = re.compile(r"^(\w{5,}?)(?:i|ur|al|ment|er|or|anc|enc)$")  # deliver and deliveri, which is delivery


class Said(NamedTuple):
    """A text, or a clause of one.

    Attributes:
        words: Its terms, and what each counts.
        compounds: What adjacent words make when they are written as one, with these words.
        names: The names of programs in it: as their parts make them, and as they are when nobody sees the parts.
        spelled: How each term was spelled.
    """

    words: dict[str, float]
    compounds: dict[str, tuple[str, ...]]
    names: dict[str, str]
    spelled: dict[str, str]


class Clause(NamedTuple):
    """A situation.

    Attributes:
        said: What it says.
        company: For each word the alternative that it stands in, "statistically significant" say, as words with what
            they count: half of it says less than all.
    """

    said: Said
    company: dict[str, dict[str, float]]


class Condition(NamedTuple):
    """A condition, read.

    Attributes:
        clauses: The situations it applies to.
        against: Those for which it says that it does not.
    """

    clauses: tuple[Clause, ...]
    against: tuple[Clause, ...]


def read(condition: str) -> Condition:
    """What a condition says.

    Args:
        condition: Anything; no text is invalid.
    """
    return _read(within(condition))


@lru_cache(maxsize=4_096)
def _read(condition: str) -> Condition:
    clauses: list[str] = []
    against: list[str] = []
    listing = False  # what a list that began with "Not for:" names
    for sentence in _sentences(condition):
        denial = NEGATIVE.search(sentence)
        listing = listing and bool(_BULLET.match(sentence))
        if denial:
            before, after = sentence[: denial.start()], sentence[denial.end() :]
            if before.rstrip().endswith("(") and ")" in after:  # what follows the brackets belongs to what went before
                after, _, rest = after.partition(")")
                before += rest
            clauses.append(before)
            against.append(after)
            listing = sentence.endswith(":")
        else:
            (against if listing else clauses).append(sentence)
    return Condition(_clauses(clauses), _clauses(against))


def said(text: str) -> Said:
    """The words of a text, each with what it counts.

    Args:
        text: Anything; no text is invalid.
    """
    split = _INSIDE.sub(" ", text)
    spelled = question(split).words
    asked = {term: word for word, term in reversed(spelled.items())}
    telling = {term for word, term in spelled.items() if word not in _SILENT}  # "personal" is not "person"
    run = [term for term in terms(split) if term in asked]
    names = {"".join(terms(_INSIDE.sub(" ", name))): american(name.lower()) for name in _names(text)}
    parts = {part for name in _names(text) for part in terms(_INSIDE.sub(" ", name))} if names else ()
    faint = _stems(COMMON)
    words: dict[str, float] = {}
    for term in run:
        if term not in telling or (len(term) == 1 and term.isascii() and not term.isdigit()):
            continue
        small = term.isdigit() and len(term) < _LONG_NUMBER
        weight = FAINT if small or term in faint or term in parts else 1.0
        word = american(term)
        words[word] = max(words.get(word, 0.0), weight)
    compounds = {
        "".join(group): group
        for length in range(2, LONGEST_COMPOUND + 1)
        for group in zip(*(run[start:] for start in range(length)), strict=False)
    }
    return Said(words, compounds, names, {american(term): word for term, word in asked.items()} | asked)


def within(text: str) -> str:
    """As much of a text as is read."""
    half = MOST_CHARACTERS // 2
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]}\n{text[-half:]}"


@lru_cache(maxsize=20_000)
def american(term: str) -> str:
    """A term as American spelling has it, so that both are one."""
    if not term.isascii():
        return term
    if len(term) >= _SHORTEST_ISE and term.endswith(("is", "ys")):
        term = "".join(terms(f"{term[:-1]}ze"))
    return _PLURAL.sub(r"\1", _RE.sub(r"\1ter", _OUR.sub(r"\1or", term)))


@lru_cache(maxsize=20_000)
def akin(term: str) -> tuple[tuple[str, float], ...]:
    """The terms that may stand for a term, itself first, and what each counts."""
    return ((term, 1.0), *((other, AKIN) for other in _synonyms().get(term, ())))


@lru_cache(maxsize=20_000)
def root(term: str) -> str:
    """What words of one family share that the stemmer leaves apart, such as "deliver" and "delivery"."""
    return _ENDING.sub(r"\1", term)


def _names(text: str) -> Iterator[str]:
    for match in _NAME.finditer(text):
        name = match.group().strip("_")
        if "_" in name or _INSIDE.search(name):
            yield name


def _sentences(text: str) -> Iterator[str]:
    """Sentences and items of lists; lines that were only wrapped are one."""
    paragraphs: list[list[str]] = [[]]
    for line in text.splitlines():
        words = " ".join(line.split())
        if not words or _BULLET.match(words):
            paragraphs.append([])
        if words:
            paragraphs[-1].append(words)
    for paragraph in paragraphs:
        yield from filter(None, _SENTENCE.split(_DOTTED.sub(r"\1", " ".join(paragraph))))


def _clauses(texts: list[str]) -> tuple[Clause, ...]:
    every = ((text, said(text)) for text in texts)
    return tuple(Clause(each, _company(text, each.words)) for text, each in every if each.words)


def _company(text: str, words: dict[str, float]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for fragment in _FRAGMENT.split(_INSIDE.sub(" ", text)):
        company = {word: words[word] for term in terms(fragment) if (word := american(term)) in words}
        for word in company:
            if word not in found or len(company) < len(found[word]):
                found[word] = company
    return found


@lru_cache(maxsize=1)
def _stems(words: frozenset[str]) -> frozenset[str]:
    return frozenset(term for word in words for term in terms(word))


@lru_cache(maxsize=1)
def _synonyms() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for group in SYNONYMS:
        stems = [american("".join(terms(word))) for word in group]
        for stem in stems:
            found.setdefault(stem, {}).update(dict.fromkeys(other for other in stems if other != stem))
    return {stem: tuple(others) for stem, others in found.items()}
