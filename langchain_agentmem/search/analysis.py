"""Text becomes terms here, once and in Python, so that both engines index and find exactly the same.

A term is a run of letters and digits, case-folded and in Unicode's compatibility form, without the marks that
people leave out when they type (é finds e), and reduced to its stem. Scripts that put no spaces between words are cut
into overlapping pairs of characters. The stemmer is English, for words of plain letters; it does the same to every text
and to every query, so other languages lose nothing by it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.metadata import version
from itertools import accumulate, compress
from typing import NamedTuple
from zlib import crc32

from snowballstemmer.english_stemmer import EnglishStemmer

from langchain_agentmem.base import forks
from langchain_agentmem.search.english import BASE_FORMS, STOP_WORDS, asks_for, tells

VERSION = crc32(f"1 {unicodedata.unidata_version} {version('snowballstemmer')}".encode())
"""Changes whenever the same text may give other terms, so with this module, Python's Unicode tables and the stemmer. A
database that was indexed by another version is indexed anew."""

LONGEST_TERM = 64
LONGEST_TEXT = 100_000
"""Characters of one message that are indexed. What lies beyond is kept, not searched."""
MOST_BYTES = 1_000_000
"""Bytes of different terms that are indexed of one message, each with `TERM_BYTES` more for its scope. PostgreSQL's
`array_to_tsvector` silently garbles what is beyond 1 MB."""
TERM_BYTES = 10
MOST_QUERY_TERMS = 64
MOST_NAMES = 8

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3040-\u30ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003ffff"
)
_ASCII_TERM = re.compile(r"[a-z0-9]+")
_TERM = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_FIRST_UNSPACED = "\u0e00"
_WORD = 4  # characters that a word of Thai or a compound of Chinese has
_UNSPACED_START = re.compile(f"[{_UNSPACED}]")
_PHRASE = re.compile(r'"([^"]{0,200})"|“([^”]{0,200})”|«([^»]{0,200})»')

FEATURES = ("question", "first person", "time", "number", "proper noun")
"""What is kept of a text beside its terms: each is one bit, in this order."""

_snowball = EnglishStemmer()  # not the one of PyStemmer that may be installed: every process must cut words alike
_stemming = forks.lock()  # a stemmer keeps the word it is at work on in itself


class Analysed(NamedTuple):
    """A text as it is indexed.

    Attributes:
        terms: Its terms in order, repeats included.
        length: How many words it has; pairs of characters count as one.
        features: Which of `FEATURES` it has, as bits.
    """

    terms: list[str]
    length: int
    features: int


class Question(NamedTuple):
    """A query as it is asked.

    Attributes:
        text: As it was given.
        words: Its different words before they were reduced, with the term that each became.
        terms: The different terms to look for: without stop words, unless nothing else is there.
        phrases: What stands in quotation marks, each as its terms.
        asks_for: The kinds of answer that it asks for.
        look_up: Whether it is one word, which somebody looks up.
    """

    text: str
    words: dict[str, str]
    terms: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...]
    asks_for: frozenset[str]
    look_up: bool


def analysed(text: str) -> Analysed:
    """What is indexed of a text.

    Args:
        text: Anything; no text is invalid.
    """
    words = _cut(text, _pairs_and_characters)
    told = tells(text[:LONGEST_TEXT])
    features = sum(1 << bit for bit, name in enumerate(FEATURES) if name in told)
    return Analysed([_stem(word) for word in words], len(words), features)


def different(terms: Sequence[str]) -> list[str]:
    """The different terms that are indexed, in the order of the text: all, unless there are very many."""
    found = list(dict.fromkeys(terms))
    if len(found) * (4 * LONGEST_TERM + TERM_BYTES) > MOST_BYTES:
        sizes = accumulate(len(term.encode()) + TERM_BYTES for term in found)
        return list(compress(found, (size <= MOST_BYTES for size in sizes)))
    return found


def terms(text: str) -> list[str]:
    """The terms of a text, in order, repeats included.

    Args:
        text: Anything; no text is invalid.
    """
    return [_stem(word) for word in _cut(text, _pairs_and_characters)]


def question(text: str) -> Question:
    """What a query asks for.

    Args:
        text: What a person or agent asks; no text is invalid.
    """
    words = list(dict.fromkeys(_cut(text, _pairs)))
    kept = [word for word in words if word not in STOP_WORDS] or words
    found = tuple(dict.fromkeys(_stem(word) for word in kept))[:MOST_QUERY_TERMS]
    phrases = [tuple(_stem(word) for word in _cut(quoted, _pairs)) for quoted in _quoted(text)]
    return Question(
        text,
        {word: _stem(word) for word in words},
        found,
        tuple(each for each in phrases if each),
        asks_for(text),
        look_up=_is_one_word(text),
    )


def names(text: str) -> list[str]:
    """The words by which a speaker may be named in a query, as `Question.words` has them: few, as names are."""
    return list(dict.fromkeys(_cut(text, _pairs)))[:MOST_NAMES]


def _is_one_word(text: str) -> bool:
    """Whether a query is one word besides stop words; of a script without spaces, so few characters."""
    runs = [run for run in _cut(text, lambda run: [run]) if run not in STOP_WORDS]
    return sum(len(run) // _WORD or 1 if _UNSPACED_START.match(run) else 1 for run in runs) <= 1


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    if not (word.isascii() and word.isalpha()):
        return word
    with _stemming:
        return str(_snowball.stemWord(BASE_FORMS.get(word, word)))


def _quoted(text: str) -> Iterable[str]:
    return ("".join(filter(None, match.groups())) for match in _PHRASE.finditer(text[:LONGEST_TEXT]))


def _cut(text: str, unspaced: Callable[[str], list[str]]) -> list[str]:
    text = text[:LONGEST_TEXT].lower()
    if text.isascii():
        found = _ASCII_TERM.findall(text)
        if len(text) <= LONGEST_TERM:
            return found
        return [term if len(term) <= LONGEST_TERM else term[:LONGEST_TERM] for term in found]
    found = []
    for run in _TERM.findall(_folded(text)[:LONGEST_TEXT]):  # folding may lengthen
        if run[0] >= _FIRST_UNSPACED and _UNSPACED_START.match(run):
            found += unspaced(run)
        else:
            found.append(run[:LONGEST_TERM])
    return found


def _pairs(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]


def _pairs_and_characters(run: str) -> list[str]:
    """What is indexed: the characters too, so that a query of one finds them."""
    return [run] if len(run) == 1 else [*run, *_pairs(run)]


def _folded(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    # Only combining marks of the Latin, Greek and Cyrillic kind are dropped: elsewhere a mark is a vowel.
    bare = "".join(c for c in decomposed if not "\u0300" <= c <= "\u036f")
    return unicodedata.normalize("NFKC", bare)
