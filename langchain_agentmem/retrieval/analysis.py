"""Text becomes terms here, once and in Python, so that both engines index and find exactly the same.

A term is a run of letters and digits, case-folded and in Unicode's compatibility form, without the marks that
people leave out when they type (é finds e). Scripts that put no spaces between words are cut into overlapping
pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

VERSION = 1_000_000 + int(unicodedata.unidata_version.replace(".", ""))
"""Changes whenever the same text may give other terms, so with this module and with Python's Unicode tables. A database
that was indexed by another version is indexed anew."""

LONGEST_TERM = 64
LONGEST_TEXT = 100_000
"""Characters of one message that are indexed. What lies beyond is kept, not searched. All pairs of so many
characters of four bytes are 800 kB; PostgreSQL's `array_to_tsvector` silently garbles what is beyond 1 MB."""

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

STOP_WORDS = frozenset(
    "a about am an and any are as at be been but by can could did do does for from had has have he her him his how i "  # noqa: SIM905 - words read better as words
    "if in into is it its just me my no not of on or our out she should so some than that the their them then there "
    "these they this to up us was we were what when where which who whom whose why will with would you your".split()
)
"""English words that a question is made of, left out of queries when anything else remains. The index keeps them."""


def terms(text: str) -> list[str]:
    """The terms of a text, in order, repeats included.

    Args:
        text: Anything; no text is invalid.
    """
    return _cut(text, _pairs_and_characters)


def query_terms(text: str) -> list[str]:
    """The different terms of a query, without stop words unless nothing else is there.

    Args:
        text: What a person or agent asks.
    """
    found = list(dict.fromkeys(_cut(text, _pairs)))
    return [term for term in found if term not in STOP_WORDS] or found


def _cut(text: str, unspaced: Callable[[str], list[str]]) -> list[str]:
    text = text[:LONGEST_TEXT].lower()
    if text.isascii():
        found = _ASCII_TERM.findall(text)
        if len(text) <= LONGEST_TERM:
            return found
        return [term if len(term) <= LONGEST_TERM else term[:LONGEST_TERM] for term in found]
    found = []
    for run in _TERM.findall(_folded(text)[:LONGEST_TEXT]):  # folding may lengthen
        if run[0] >= _FIRST_UNSPACED and _is_unspaced(run):
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


def _is_unspaced(run: str) -> bool:
    return _UNSPACED_START.match(run) is not None


_UNSPACED_START = re.compile(f"[{_UNSPACED}]")
