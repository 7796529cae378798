"""The analysis of texts: terms for the index, and features for ranking.

The analysis runs in Python, so that SQLite and PostgreSQL index and find exactly the same.

A term is a word of letters and digits, case-folded, in Unicode's compatibility form and without most accents, so that
"cafe" finds "café". It is reduced to its stem. A *run* is a word, an emoji, or adjacent characters of a script without
spaces between words, such as Chinese. Such characters are cut into overlapping pairs. Korean words are indexed whole
and in pairs, since particles are attached to them. The stemmer is English and changes only ASCII words. It changes
texts and queries in the same way, so words of other languages are still found. See `docs/languages.md`.

The module also has the English rules that ranking needs: stop words, irregular forms, kinds of answers, and features of
messages. In other languages, the only features are "?", digits, and words that happen to be spelled like English ones.
Search works without these features. No rule contains a person's name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import accumulate, compress
from types import MappingProxyType
from typing import NamedTuple
from zlib import crc32

import Stemmer

from langchain_agentmem.base.data_tables import load_data_table, word_set
from langchain_agentmem.base.lazy_imports import lazy_pattern

_ENGLISH = load_data_table("search/english.toml")
STOP_WORDS = word_set(_ENGLISH, "stop_words")
"""Function words of questions, including the parts of contractions. English only."""
BASE_FORMS: Mapping[str, str] = MappingProxyType(
    {form: base for base, *forms in (group.split() for group in _ENGLISH["forms"].split("|")) for form in forms}
)
"""The base form of each irregular form, such as "go" for "went". English only."""
_TIME_WORDS, _NUMBER_WORDS = (frozenset(_ENGLISH[name].split()) for name in ("time_words", "number_words"))
_FEATURE_WORDS = _TIME_WORDS | _NUMBER_WORDS


@cache
def _patterns(name: str) -> dict[str, re.Pattern[str]]:
    """Build the patterns of a table by name. Each line of a pattern is an alternative."""
    question_start = "|".join(_ENGLISH["asking"].splitlines())  # the text that may precede a question word
    return {
        key: lazy_pattern("|".join(lines.splitlines()).replace("ASKING", question_start))
        for key, lines in _ENGLISH[name].items()
    }


_REQUIRED_WORDS = {name: tuple(words.split("|")) for name, words in _ENGLISH["required_words"].items()}
_ANY_TEXT = ("",)  # for patterns without required words: the empty string is in every text
MAX_QUESTION_CHARS = 1_000
"""Maximum characters of a question that are read."""
_MAX_STATEMENT_CHARS = 3_000  # maximum characters of a message to search for self-statements


def to_first_person(question: str, names: Collection[str]) -> str:
    """Rewrite a question about a person in the first person, as the person's messages are.

    Args:
        question: The question.
        names: The words of the question that name the person.
    """
    for name in names:
        question = re.sub(rf"\b{re.escape(name)}['\u2019]s\b", "my", question, flags=re.IGNORECASE)
        question = re.sub(rf"\b{re.escape(name)}\b", "I", question, flags=re.IGNORECASE)
    return question


def answer_kinds(question: str) -> frozenset[str]:
    """Return the kinds of answers that a question asks for.

    English only, except "reply", which is recognized in German and Chinese too.

    Args:
        question: Any text.

    Returns:
        Any of "time", "number", "place", "advice", "reply" (an earlier statement of the assistant), "order" (the order
        of events), "summary" and "course" (a development or a contradiction). Empty for other questions.
    """
    return frozenset(_match_patterns("answer_kinds", question[:MAX_QUESTION_CHARS]))


def self_statements(text: str) -> frozenset[str]:
    """Return the kinds of statements that an author makes about themselves. English only.

    Args:
        text: Any text. Only its first 3,000 characters are analyzed.

    Returns:
        Any of "standing wish" (a wish that always applies), "preference" and "introduction" (the message begins with a
        statement about the author).
    """
    return frozenset(_match_patterns("self_statements", text[:_MAX_STATEMENT_CHARS]))


def _match_patterns(table: str, text: str) -> list[str]:
    lowered = text.lower().replace("\u2019", "'")
    names = []
    for name, pattern in _patterns(table).items():
        for word in _REQUIRED_WORDS.get(name, _ANY_TEXT):  # faster than searching the pattern in every text
            if word in lowered:
                if pattern.search(lowered):
                    names.append(name)
                break
    return names


_ASCII_TABLE = bytes(  # for `bytes.translate`: lower-case letters and digits; a space for every other byte
    ord(chr(code).lower()) if chr(code).isalnum() and code < 128 else 32  # noqa: PLR2004 - ASCII
    for code in range(256)
)
_NON_DIGITS = bytes(code for code in range(256) if not 48 <= code <= 57)  # noqa: PLR2004 - "0" to "9"
# Each pattern begins with a character class, which `re` finds quickly. The lookbehinds after it check its context.
_TIME_IN_DIGITS = lazy_pattern(
    r"[0-9](?:(?<=\b1)9[0-9]{2}\b|(?<=\b2)0[0-9]{2}\b|(?<=\bMay .)|(?<=\bMarch .)"  # 1999, 2020, May 8
    r"| ?[aApP]\.?[mM]\b|:[0-9]{2}\b|(?:st|nd|rd|th)? (?:of )?(?:May|March)\b)"  # 8 pm, 8:30, 8th of May
)
_DAY_OR_MONTH = (
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b"
    r"|(?:January|February|March|April|May|June|July|August|September|October|November|December)\b"
)
_PROPER_NOUN = re.compile(  # a capitalized word after a word or a title (Ms. Smith), except days and months
    r"[A-Z\xc0-\xd6\xd8-\xde](?=[^\W\d_])(?:(?<=[\w,;)'\u2019%&-] .)|(?<=\b[MDS][rst]\. .)|(?<=\bMrs\. .))"
    rf"(?<!(?={_DAY_OR_MONTH}).)"
)


def text_features(text: str) -> frozenset[str]:
    """Return the features of a message, such as a time or a number that may be an answer.

    English only, except for question marks and digits.

    Args:
        text: Any text.

    Returns:
        Any of "time" (a word for a time, or a year, date or hour in digits), "number" (digits, or a word for a number
        except "one", which is mostly a pronoun), "proper noun" (a capitalized word inside a sentence, except days and
        months) and "question" (a question mark).
    """
    return frozenset(_find_features(text, text.encode("ascii", "replace").translate(_ASCII_TABLE).decode().split()))


def _find_features(text: str, words: Sequence[str]) -> list[str]:
    """Return the features that `text_features` describes.

    `words` are the words of ASCII letters and digits in the text, in lower case.
    """
    plain = text.encode("ascii", "replace")
    found = _FEATURE_WORDS.intersection(words)
    digits = plain.translate(None, _NON_DIGITS)
    features = []
    if not _TIME_WORDS.isdisjoint(found) or (digits and _TIME_IN_DIGITS.search(text)):
        features.append("time")
    if digits or not _NUMBER_WORDS.isdisjoint(found):
        features.append("number")
    if _PROPER_NOUN.search(text):
        features.append("proper noun")
    if "?" in text or (not text.isascii() and ("\uff1f" in text or "\u061f" in text)):
        features.append("question")
    return features


VERSION = crc32(f"4 {unicodedata.unidata_version} {Stemmer.version()}".encode())
"""The version of the analysis. A database that was indexed by another version rebuilds its index.

The version changes with Python's Unicode tables and with the stemmer. If you change the analysis in this module,
increase the number at the beginning of the text."""

MAX_TERM_CHARS = 64
"""Maximum characters of a term. Longer words are cut."""
MAX_TEXT_CHARS = 100_000
"""Maximum characters of a message to index. Further characters are stored, but not searchable."""
MAX_INDEXED_BYTES = 1_000_000
"""Maximum bytes of the distinct terms of a message, with `TERM_BYTES` added to each. PostgreSQL's `array_to_tsvector`
silently corrupts more than 1 MB."""
TERM_BYTES = 10
"""The bytes of the scope that PostgreSQL's index stores with each term."""
MAX_QUERY_TERMS = 256
"""Maximum terms of a query to search: the last ones, since a question follows the text that it is about."""
MAX_ASKING_WORDS = 40
"""Maximum words of a query that asks as a whole."""
MAX_NAMES = 8
"""Maximum words of a speaker's name that identify the speaker."""
USER = "user"
"""The role of the human user in chat models."""

_LETTERS = load_data_table("search/letters.toml")
_UNSPACED, _HANGUL, _EMOJI = (_LETTERS[name] for name in ("unspaced", "hangul", "emoji"))
_PLAIN_LETTERS: Mapping[str, str] = _LETTERS["plain"]
_SPECIAL_SCRIPTS = lazy_pattern(f"[{_UNSPACED}{_HANGUL}{_EMOJI}]")
_UNSPACED_START, _HANGUL_START, _EMOJI_START = (lazy_pattern(f"[{chars}]") for chars in (_UNSPACED, _HANGUL, _EMOJI))
_RUN = lazy_pattern(rf"[{_UNSPACED}]+|[{_HANGUL}]+|{_LETTERS['flag']}|[{_EMOJI}]|[^\s{_UNSPACED}{_HANGUL}{_EMOJI}]+")
_ARABIC_ARTICLE, _HEBREW_PREFIX = (lazy_pattern(_LETTERS[name]) for name in ("article", "prefix"))
_FIRST_HEBREW, _LAST_HEBREW, _FIRST_UNSPACED = "\u05d0", "\u05ea", "\u0e00"  # Korean comes after `_FIRST_UNSPACED`
_MAX_WORD_CHARS = 4  # a longer run in a script without spaces is treated as several words

_QUESTION = lazy_pattern(r"[^.!?\n\u3002\uff01\uff1f]*[?\uff1f\u061f]")

FEATURES = ("question", "time", "number", "proper noun", *_ENGLISH["self_statements"])
"""The features of a text. They are stored as bits, the first feature as the lowest bit."""
FEATURE_BITS = {name: 1 << bit for bit, name in enumerate(FEATURES)}

_TYPED_FORMS = str.maketrans(_LETTERS["typed"])  # characters that people often type differently, such as ü as ue
_AMBIGUOUS = lazy_pattern(
    r"(?<!\S)[^\sX]*+[X]\S*".replace("X", "".join(_LETTERS["typed"]))
)  # words with such characters
_MAX_FOLDED = 50_000  # maximum characters in the folding table


class _FoldingTable(dict[int, str]):
    """A table for `str.translate` that maps characters to their form in terms.

    Separators become a space. The table is filled on demand, up to `_MAX_FOLDED` characters, which limits its memory.
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        plain = unicodedata.normalize("NFKD", character.casefold())
        if plain == character:
            folded = _fold_character(character, unicodedata.category(character))
        else:
            folded = "".join(map(self.__getitem__, map(ord, plain)))
        if len(self) < _MAX_FOLDED:
            self[code] = folded
        return folded


def _fold_character(character: str, category: str) -> str:
    name = unicodedata.name(character, "")
    if category in {"Cf", "Me"} or (category == "Mn" and not _carries_meaning(character, name)):
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(character))
    base_name, _, accent = name.partition(" WITH ")  # such as LATIN SMALL LETTER L WITH STROKE
    if accent and name.startswith(("LATIN ", "CYRILLIC ")):
        with suppress(KeyError):
            return _FOLDING[ord(unicodedata.lookup(base_name))]
    emoji = category == "So" and _EMOJI_START.match(character)
    return _PLAIN_LETTERS.get(character, character if emoji or category[0] in "LMN" else " ")


def _carries_meaning(mark: str, name: str) -> bool:
    """Return true if a combining mark changes a word's meaning, as Hindi vowel signs do."""
    if name.endswith("NUKTA") or "VARIATION SELECTOR" in name or "JOINER" in name:
        return False
    combining_class = unicodedata.combining(mark)
    return combining_class in {0, *range(7, 10), *range(84, 133)}  # vowel signs, the dots of kana, tones of Thai


_FOLDING = _FoldingTable(enumerate(_ASCII_TABLE[:128].decode()))


class AnalyzedText(NamedTuple):
    """An analyzed text, ready to be indexed.

    Attributes:
        terms: Its terms in order, repeats included.
        length: The number of words. In a script without spaces, two characters count as one word.
        features: The features of `FEATURES` that the text has, as bits.
    """

    terms: list[str]
    length: int
    features: int


class AnalyzedQuery(NamedTuple):
    """An analyzed query.

    Attributes:
        text: The query's original text.
        asking: The part of the text that asks, see `asking_part`.
        words: The distinct words of the query, with the term of each.
        terms: The distinct terms to search for. Stop words are left out unless there are no other words.
        spellings: The terms of alternative spellings (muenchen), with the term of the spelling in the query (munchen).
        answer_kinds: The kinds of answers that the query asks for.
        is_lookup: True if the query is one word, so that a result must match it itself, not only by its neighbours.
        now: The current time, in microseconds since 1970.
    """

    text: str
    asking: str
    words: dict[str, str]
    terms: tuple[str, ...]
    spellings: dict[str, str]
    answer_kinds: frozenset[str]
    is_lookup: bool
    now: int


def analyze_text(text: str, role: str | None = None) -> AnalyzedText:
    """Analyze a text for the index.

    Args:
        text: Any text.
        role: The author's role, such as "assistant". Self-statements are detected for "user" only.
    """
    runs = _split_text(text)
    cut = text[:MAX_TEXT_CHARS]
    features = _find_features(cut, runs) if text.isascii() else [*text_features(cut)]
    if role == USER:
        features += _match_patterns("self_statements", text[:_MAX_STATEMENT_CHARS])
    length = len(runs) if text.isascii() else _count_words(runs)
    return AnalyzedText(list(map(_stem, _text_words(text, runs))), length, sum(map(FEATURE_BITS.__getitem__, features)))


def _count_words(runs: Sequence[str]) -> int:
    """Count words. Two characters of a script without spaces count as one, emoji as none."""
    half_words = 0
    for run in runs:
        if run[0] < _FIRST_UNSPACED or not _SPECIAL_SCRIPTS.match(run) or _HANGUL_START.match(run):
            half_words += 2
        elif not _EMOJI_START.match(run):
            half_words += len(run)
    return (half_words + 1) // 2


def distinct_terms(terms: Sequence[str]) -> list[str]:
    """Return the distinct terms to index, in text order.

    Terms beyond `MAX_INDEXED_BYTES` are left out.
    """
    distinct = list(dict.fromkeys(terms))
    if len(distinct) * (4 * MAX_TERM_CHARS + TERM_BYTES) > MAX_INDEXED_BYTES:  # 4 bytes in UTF-8
        sizes = accumulate(len(term.encode()) + TERM_BYTES for term in distinct)
        return list(compress(distinct, (size <= MAX_INDEXED_BYTES for size in sizes)))
    return distinct


def extract_terms(text: str) -> list[str]:
    """Return the terms of a text in order, repeats included.

    Args:
        text: Any text.
    """
    return list(map(_stem, _text_words(text, _split_text(text))))


def analyze_query(text: str, now: int = 0) -> AnalyzedQuery:
    """Analyze a query.

    Args:
        text: Any text.
        now: The current time, in microseconds since 1970, which searches need for "yesterday". Default: 0.
    """
    words = list(dict.fromkeys(_query_words(text)))
    content_words = [word for word in words if word not in STOP_WORDS] or words
    terms = tuple(dict.fromkeys(map(_stem, content_words)))[-MAX_QUERY_TERMS:]
    stems = {word: _stem(word) for word in words}
    asking = asking_part(text)
    kinds, is_lookup = answer_kinds(asking), _is_one_word(text)
    return AnalyzedQuery(text, asking, stems, terms, _spelling_pairs(text), kinds, is_lookup, now)


def speaker_words(text: str) -> list[str]:
    """Return the first `MAX_NAMES` words by which a query may name a speaker.

    They are written as in `AnalyzedQuery.words`.
    """
    return list(dict.fromkeys(_query_words(text)))[:MAX_NAMES]


def asking_part(text: str) -> str:
    """Return the part of a query that asks for something.

    A short query asks as a whole. Of a text of more than `MAX_ASKING_WORDS` words, such as an e-mail with a question
    about it, only the last question asks. What the rest names, such as a date, is not what the query looks for.
    """
    if _count_words(_split_text(text[:MAX_TEXT_CHARS])) <= MAX_ASKING_WORDS:
        return text
    questions = _QUESTION.findall(text[-MAX_QUESTION_CHARS:])
    return questions[-1].strip() if questions else ""


def _is_one_word(text: str) -> bool:
    """Return true if a query has at most one word.

    In a script without spaces, a run of more than `_MAX_WORD_CHARS` characters counts as several words.
    """
    runs = _split_text(text)
    return len(runs) <= 1 and not any(_UNSPACED_START.match(run) and len(run) > _MAX_WORD_CHARS for run in runs)


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    if not (word.isascii() and word.isalpha()):
        return word[article.end() :] if (article := _ARABIC_ARTICLE.match(word)) else word
    # A stemmer has state, so it is not shared.
    return str(Stemmer.Stemmer("english").stemWord(BASE_FORMS.get(word, word)))


@cache
def word_list_terms(name: str) -> frozenset[str]:
    """Return the terms of a word list in `english.toml`.

    Args:
        name: "stop_words" (function words), "talk_words" (words that refer to the conversation itself), "changes"
            (words for something new) or "denials". All lists but "denials" are English only.
    """
    return frozenset(map(_stem, word_set(_ENGLISH, name)))


def _split_text(text: str) -> list[str]:
    """Split a text into runs."""
    text = text[:MAX_TEXT_CHARS].lower()
    if text.isascii():
        words = text.encode().translate(_ASCII_TABLE).decode().split()
        if len(text) <= MAX_TERM_CHARS or max(map(len, words), default=0) <= MAX_TERM_CHARS:
            return words
        return [word if len(word) <= MAX_TERM_CHARS else word[:MAX_TERM_CHARS] for word in words]
    folded = unicodedata.normalize("NFC", text.translate(_FOLDING))[:MAX_TEXT_CHARS]  # folding may lengthen the text
    if not _SPECIAL_SCRIPTS.search(folded):
        return [run[:MAX_TERM_CHARS] for run in folded.split()]
    return [run if _SPECIAL_SCRIPTS.match(run) else run[:MAX_TERM_CHARS] for run in _RUN.findall(folded)]


def _text_words(text: str, runs: list[str]) -> list[str]:
    """Return the words to index.

    The words of the text come first, in order. The first syllables of Korean words and alternative spellings follow.
    """
    if text.isascii():
        return runs
    words = _cut_runs(runs, _pairs_and_singles)
    if words is not runs:  # a query of one syllable finds the Korean words that begin with it
        words += [run[0] for run in runs if len(run) > 1 and run[0] > _FIRST_UNSPACED and _HANGUL_START.match(run)]
    return words + _other_spellings(text, words, _pairs_and_singles)


def _query_words(text: str) -> list[str]:
    """Return the words of a query, alternative spellings last."""
    words = _cut_runs(_split_text(text), _character_pairs)
    return words if text.isascii() else words + _other_spellings(text, words, _character_pairs)


def _other_spellings(text: str, words: Sequence[str], cut: Callable[[str], list[str]]) -> list[str]:
    """Return the alternative spellings of the words of a text, except those in `words`."""
    if not (ambiguous := _ambiguous_words(text)):
        return []
    excluded, respelled = set(words), " ".join(ambiguous).translate(_TYPED_FORMS)
    return [word for word in _cut_runs(_split_text(respelled), cut) if word not in excluded]


def _spelling_pairs(text: str) -> dict[str, str]:
    """Map the term of each alternative spelling (muenchen) to the term of the word (munchen)."""
    pairs = [(_split_text(word.translate(_TYPED_FORMS)), _split_text(word)) for word in _ambiguous_words(text)]
    aligned = (zip(*pair, strict=True) for pair in pairs if len(pair[0]) == len(pair[1]))
    return {_stem(other): _stem(run) for pair in aligned for other, run in pair if other != run}


def _ambiguous_words(text: str) -> list[str]:
    """Return the words of a text that have two common spellings."""
    return _AMBIGUOUS.findall(unicodedata.normalize("NFC", text[:MAX_TEXT_CHARS].lower()))


def _cut_runs(runs: list[str], cut: Callable[[str], list[str]]) -> list[str]:
    """Cut each run of a script without spaces with the function `cut`.

    Korean and Hebrew words are returned whole and also cut, since particles and prefixes are attached to them.
    """
    if max(runs, default="") < _FIRST_HEBREW:
        return runs
    words: list[str] = []
    for run in runs:
        if run[0] >= _FIRST_UNSPACED and _UNSPACED_START.match(run):
            words += cut(run)
            continue
        words.append(run[:MAX_TERM_CHARS])
        if _FIRST_HEBREW <= run[0] <= _LAST_HEBREW and (prefix := _HEBREW_PREFIX.match(run)):
            words.append(run[prefix.end() :])
        elif run[0] >= _FIRST_UNSPACED and len(run) > 2 and _HANGUL_START.match(run):  # noqa: PLR2004 - two are one pair
            words += _character_pairs(run)
    return words


def _character_pairs(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]


def _pairs_and_singles(run: str) -> list[str]:
    """Return the characters and pairs of a run.

    A query of one character matches the single characters in the index.
    """
    return [run] if len(run) == 1 else [*run, *_character_pairs(run)]
