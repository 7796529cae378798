"""Estimates of the number of tokens of a text, without a tokenizer's vocabulary.

The text is split into pieces where a byte-pair tokenizer would split it. The cost of a piece is its usual number of
tokens, and the estimate is the sum of the costs. A Latin word costs more if its pairs of adjacent letters are rare. So
one table of pairs covers prose, identifiers and base64. Words in other scripts have a cost per letter. Digits,
whitespace and signs have fixed rules.

The estimate tends to be too high, because a context that exceeds the model's window fails, but a shorter one does not.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from langchain_agentmem.base.data_tables import read_data_text

# --- The pieces of a text ----------------------------------------------------------------------------------------
# The patterns follow o200k_base as far as `re` permits. A word may begin with one sign or space. Capital letters begin
# a word. A piece has at most three digits. ASCII text is split exactly as by o200k_base, other text almost exactly.

_UPPER = "A-Z\u00c0-\u00d6\u00d8-\u00de\u0386-\u038f\u0391-\u03ab\u0400-\u042f\u0531-\u0556"
_LOWER = (
    "a-z\u00aa\u00b5\u00ba\u00df-\u00f6\u00f8-\u0373\u0376-\u037d\u0390\u03ac-\u03ff\u0430-\u0481\u0483-\u0487"
    "\u048a-\u052f\u0561-\u0587"  # Latin, Greek, Cyrillic, Armenian
    "\u0591-\u05bd\u05d0-\u05ea\u0610-\u061a\u0620-\u065f\u066e-\u06d3\u06d5-\u06dc\u06ee-\u06ef\u06fa-\u07bf"
    "\u0900-\u0963\u0971-\u09e3\u09f0-\u0a65\u0a70-\u0ae3\u0af0-\u0b65\u0b70-\u0be5\u0c00-\u0c65\u0c70-\u0ce5"
    "\u0cf0-\u0d65\u0d70-\u0de5\u0df0-\u0df3"  # Hebrew to the scripts of India, vowel signs included
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0ece\u0edc-\u0fbc\u1000-\u103f\u1050-\u10ff\u1200-\u17d3\u1820-\u1fff"
    "\u2c00-\u2dff\ua4d0-\ua6ff\ua722-\uabea"
)
_HIRAGANA = "\u3041-\u309f"
_KATAKANA = "\u30a1-\u30ff\uff66-\uff9f"
_HAN = "\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_HANGUL = "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3"
_LETTER = _UPPER + _LOWER + _HIRAGANA + _KATAKANA + _HAN + _HANGUL
_CONTRACTION = "(?:'(?:[sdmtSDMT]|ll|LL|ve|VE|re|RE))?"
_BLANK = r"\s*[\r\n]+|\s+(?!\S)|\s+"

_ASCII_PIECE = re.compile(
    rf"[^\r\nA-Za-z0-9]?(?:[A-Z]*[a-z]+|[A-Z]+){_CONTRACTION}|[0-9]{{1,3}}| ?[^\sA-Za-z0-9]+[\r\n/]*|{_BLANK}"
)
_PIECE = re.compile(
    rf"[^\r\n\d{_LETTER}]?(?:[{_UPPER}]*[{_LOWER}]+|[{_UPPER}]+){_CONTRACTION}"
    rf"|[{_HIRAGANA}]+|[{_KATAKANA}]+|[{_HAN}]+| ?[{_HANGUL}]+"
    rf"|\d{{1,3}}| ?[^\s\d{_LETTER}]+[\r\n/]*|{_BLANK}"
)
_WORD = re.compile(rf"([^{_LETTER}]?)([{_LETTER}]+)(.*)", re.DOTALL)
_LATIN = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")

# --- The costs of the pieces, in hundredths of a token -----------------------------------------------------------
# The costs were fitted by least squares to the token counts of o200k_base. The texts were manual pages and interface
# translations in about 80 languages, program sources in five languages, documentation, JSON, logs and random
# identifiers. The costs were checked on other texts of the same kinds.

# token_estimate.json has the costs:
# - "pairs" has a row for each letter and a column for the letter after it. A digit of base 62 encodes the cost of the
#   pair, in steps of 5 from -60. The first row and column are for the word's edge (^). The last ones are for accented
#   letters: ! for ä ö ü ß, " for é ñ ç …, ~ for ł č å ….
# - "words" has common words. The vocabulary has each of them as one token, so they cost less than their pairs.
# - "scripts" and "symbols" (signs outside ASCII) have the last code point of each range of characters. In "scripts",
#   "run" is the cost of a word, and "letter" the cost of each of its letters.

_TABLES: dict[str, Any] = json.loads(read_data_text("language_models/token_estimate.json"))
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PAIRS = {
    first + second: 5 * _DIGITS.index(digit) - 60
    for first, row in _TABLES["pairs"].items()
    for second, digit in zip(_TABLES["pairs"], row, strict=True)
}
_COMMON_WORDS = frozenset(word for line in _TABLES["words"] for word in line.split())
_SCRIPT_COSTS: list[tuple[int, int, int]] = [
    (int(each["last"], 16), each["run"], each["letter"]) for each in _TABLES["scripts"]
]
_SYMBOL_COSTS: list[tuple[int, int]] = [(int(each["last"], 16), each["cost"]) for each in _TABLES["symbols"]]
# The cost of the character before a Latin word that belongs to the same piece.
_LEAD_COSTS = {"": 40, " ": 27, "_": 28, ".": 33, "(": 57, '"': 117, "'": 105, "-": 77, "/": 83}
_OTHER_LEAD_COST = 107
_CONTRACTION_COST = 61
_LONGEST_WORD = 32  # letters; a longer run has a minimum cost per further letter
_ACCENTS = (  # a letter costs less if the vocabulary has many words of the languages that use it
    (re.compile("[äöüß]"), "!"),
    (re.compile("[éèêàçôîûâíóáúñã]"), '"'),
    (re.compile('[^a-z!"]'), "~"),
)

_CYRILLIC = range(0x0400, 0x0530)
_OTHER_CYRILLIC_COST = (40, 30)  # per word and per letter; Russian costs less, as the vocabulary has more words of it
_NOT_RUSSIAN = re.compile("[\u0402-\u040f\u0452-\u045f\u0490-\u052f]")
_ARABIC = range(0x0600, 0x07C0)
_OTHER_ARABIC_COST = (0, 68)  # per word and per letter, for Kurdish and Uyghur
_NOT_ARABIC = re.compile("[\u0695\u06b5\u06c6-\u06c8\u06cb\u06ce\u06d0\u06d5]")

_MAX_CACHED_PIECE = 24  # characters; longer pieces rarely repeat
_CACHE_SIZE = 50_000  # pieces
_CHUNK_CHARS = 65_536  # the text is split into pieces in chunks, to save memory
_MAX_FULL_CHARS = 4_000_000  # of a longer text, only windows are read
_WINDOW_COUNT = 128
_WINDOW_CHARS = 16_384


class _Costs(dict[str, int]):
    """A cache of the costs of recent pieces.

    Most words of a text repeat, so most costs need only one look-up.
    """

    def __init__(self, *, russian: bool = True) -> None:
        super().__init__()
        self._russian = russian

    def __missing__(self, piece: str) -> int:
        cost = _piece_cost(piece, russian=self._russian)
        if len(piece) <= _MAX_CACHED_PIECE:
            if len(self) >= _CACHE_SIZE:
                self.clear()
            self[piece] = cost
        return cost


_COSTS = _Costs()
_COSTS_NOT_RUSSIAN = _Costs(russian=False)


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text.

    The estimate is close to the count of o200k_base, and tends to be too high. It is deterministic. The time is linear
    in the length of the text, up to 4 million characters.

    Of a longer text, 128 evenly spaced windows of 16,384 characters are read, and the result is scaled. So the estimate
    may be wrong for a long text whose parts differ much.

    Args:
        text: Any text. It may contain lone surrogates and NULs.

    Returns:
        The number of tokens: 0 for an empty text, else at least 1.
    """
    length = len(text)
    if not length:
        return 0
    if length <= _CHUNK_CHARS:
        return max(1, -(-_cost(text) // 100))  # rounds up, as do the divisions below
    if length <= _MAX_FULL_CHARS:
        return -(-sum(_cost(text[at : at + _CHUNK_CHARS]) for at in range(0, length, _CHUNK_CHARS)) // 100)
    starts = ((length - _WINDOW_CHARS) * i // (_WINDOW_COUNT - 1) for i in range(_WINDOW_COUNT))
    sampled = sum(_cost(text[start : start + _WINDOW_CHARS]) for start in starts)
    return -(-sampled * length // (_WINDOW_COUNT * _WINDOW_CHARS * 100))


def _cost(text: str) -> int:
    """Return the cost of a text, in hundredths of a token."""
    if text.isascii():
        return sum(map(_COSTS.__getitem__, _ASCII_PIECE.findall(text)))
    costs = _COSTS_NOT_RUSSIAN if _NOT_RUSSIAN.search(text) else _COSTS
    return sum(map(costs.__getitem__, _PIECE.findall(text)))


def _piece_cost(piece: str, *, russian: bool) -> int:
    word = _WORD.match(piece)
    if word:
        lead, body, rest = word.groups()
        if _LATIN.match(body):
            return _latin_cost(lead, body, rest)
        return _sign_cost(lead.strip()) // 2 + _script_cost(body, russian=russian) + (100 if rest else 0)
    if piece.isspace():
        return 100 + 100 * (len(piece) // (16 if "\n" in piece else 80))
    if piece[0].isdecimal():
        return 100 if piece.isascii() else 100 * len(piece)
    return max(100, _sign_cost(piece.strip()))


def _latin_cost(lead: str, body: str, rest: str) -> int:
    letters = body.lower()
    if letters in _COMMON_WORDS and lead in ("", " ") and body[1:] == letters[1:]:
        return 100 + (_CONTRACTION_COST if rest else 0)
    cost = _LEAD_COSTS.get(lead, _OTHER_LEAD_COST)
    if letters != body:
        # The three cases are words like Parser, HTML and HTMLParser.
        if body[1:] == letters[1:]:
            cost += 16 + 2 * len(body)
        else:
            cost += 3 + 6 * len(body) if body.isupper() else 34 + 8 * len(body)
    if rest:
        cost += _CONTRACTION_COST
    if not letters.isascii():
        for accented, symbol in _ACCENTS:
            letters = accented.sub(symbol, letters)
    edged = f"^{letters}^"
    cost += sum([_PAIRS[edged[i : i + 2]] for i in range(len(edged) - 1)])
    # Some pairs have a negative cost, because they indicate a common word. The minimum keeps a long run of letters that
    # is not a word from costing too little.
    return max(100, cost, 30 * (len(body) - _LONGEST_WORD))


def _script_cost(body: str, *, russian: bool) -> int:
    code = ord(body[0])
    if 0x3005 <= code <= 0x3007 or 0x3400 <= code <= 0x9FFF or code >= 0xF900:  # noqa: PLR2004 - Han and rare letters
        return max(100, 10 + sum(map(_han_cost, body)))
    word_cost, letter_cost = next((word, letter) for last, word, letter in _SCRIPT_COSTS if code <= last)
    if code in _CYRILLIC and not russian:
        word_cost, letter_cost = _OTHER_CYRILLIC_COST
    elif code in _ARABIC and _NOT_ARABIC.search(body):
        word_cost, letter_cost = _OTHER_ARABIC_COST
    return max(100, word_cost + letter_cost * len(body))


@lru_cache(maxsize=10_000)
def _han_cost(character: str) -> int:
    # Level 1 of GB 2312 has the 3,755 characters in common use. So Python's codec serves as a frequency table.
    try:
        common = character.encode("gb2312")[0] <= 0xD7  # noqa: PLR2004 - the last row of level 1
    except UnicodeEncodeError:
        return 100 if character <= "\u9fff" else 200
    return 71 if common else 95


_USUAL_SIGNS_COST = 300  # up to this cost, two signs share a token


def _sign_cost(signs: str) -> int:
    # Equal adjacent signs (=====) share tokens. In a short run of different signs, as in code, two signs share a token.
    # Almost every sign outside ASCII is a token of its own.
    cost = repeats = 0
    previous = ""
    for sign in signs:
        if sign == previous:
            repeats += 1
        elif sign < "\x80":
            cost += 50 if cost < _USUAL_SIGNS_COST else 90
        else:
            cost += _non_ascii_sign_cost(sign)
        previous = sign
    return cost + repeats * (8 if signs.isascii() else 40)


def _non_ascii_sign_cost(sign: str) -> int:
    return 100 if sign in _TABLES["cheap_symbols"] else next(cost for last, cost in _SYMBOL_COSTS if ord(sign) <= last)
