"""Yes and no in words: what a text says of the experiences that it names.

An id counts where it stands as a whole, not within another word or a longer id. What is said of it, before or after,
may deny it; in doubt it is denied, since an instruction that nobody chose does more harm than one that is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_PLAIN = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})
_QUOTES = frozenset("\"'`\u2018\u2019\u201c\u201d\u00ab\u00bb\u300c\u300d*")
_JOINTS = frozenset("-./@+#~\u2010\u2011")
_HEAD = re.compile(r"\w+|\S")

_YES = frozenset({
    "true", "yes", "y", "t", "1", "on", "yep", "yeah",
})  # fmt: skip
_NO = frozenset({
    "low", "false", "no", "n", "f", "0", "off", "none", "null", "nil", "na", "n/a", "nope", "not", "never", "neither",
    "nothing", "nor", "hardly", "unlikely", "cannot", "irrelevant", "inapplicable", "unrelated", "unneeded",
    "unnecessary", "exclude", "excluded", "reject", "rejected", "skip", "skipped", "ignore", "ignored", "nein", "non",
    "undefined", "negative", "absent",
})  # fmt: skip
_SOFT = frozenset({
    "relevant", "applies", "apply", "applicable", "select", "selected", "include", "included", "use", "used", "match",
    "matches", "matched", "needed", "useful", "helpful", "chosen", "required", "fits", "related", "highly", "very",
    "clearly", "definitely", "certainly", "directly", "strongly", "positive", "ok", "absolutely",
})  # fmt: skip
_FIRST = re.compile(
    r"[^\w\u2713\u2714\u2705\u2611\u2717\u2718\u274c]*(n/a\b|\w+(?:'\w+)?|.)?", re.IGNORECASE | re.DOTALL
)
_EITHER = re.compile(r"(?:\s?/\s?|\||\s(?:or|and)\s)[\"']?(?:false|no|0|true|yes)\b", re.IGNORECASE)
_TICKS, _CROSSES = frozenset("\u2713\u2714\u2705\u2611"), frozenset("\u2717\u2718\u274c")

_FIT = (
    r"relevant|appl(?:y|ies|icable)|needed|necessary|useful|helpful|selected|chosen|match\w{0,4}|fit|required|included"
)
_AFFIRMS = re.compile(
    rf"(?:[\u2713\u2714\u2705\u2611]|\[x\]|\b(?:{_FIT}|yes|true|select|fits|helps?|covers?|use|best|related|recommended)\b)",
    re.IGNORECASE,
)
_LABEL = re.compile(r"[\s\"'`*]*[:=?]")
_DENIES = re.compile(
    r"[\u2717\u2718\u274c\u26d4\u2610]|\U0001f6ab|\[ ?\]|n't\b|\bn/a\b|[\u4e0d\u6ca1\u7121\u65e0]"
    r"|\u306a\u3044|\u307e\u305b\u3093|"
    r"\b(?:not|never|no|none|nor|neither|without|cannot|dont|doesnt|isnt|arent|false|nothing|hardly|unlikely|unlike|"
    r"irrelevant|inapplicable|unrelated|unnecessary|unneeded|unsuitable|exclud\w{1,5}|reject\w{0,5}|skip\w{0,5}|"
    r"ignor\w{1,5}|discard\w{0,5}|dismiss\w{0,5}|omit\w{0,5}|except|instead of|rather than|fail(?:s|ed)? to|lacks|"
    r"rul\w{1,4} out|(?:leav\w{1,3}|left) out|leave \S{1,80} out|out of scope|off-topic|different|elsewhere|"
    r"something else|inappropriate|nicht|kein\w{0,2}|nein|pas|non|aucun\w{0,2}|ningun\w{0,2}|nessun\w{0,2}|n\u00e3o|"
    r"\u043d\u0435|\u043d\u0435\u0442|nie|nej|ikke|inte|niet|geen)\b",
    re.IGNORECASE,
)
_AGAIN = re.compile(
    rf"(?:\b(?:not|no longer|never|neither)|n't)\s+(?:\w{{1,20}}\s+){{0,2}}(?:{_FIT})\b|"
    r"\b(?:irrelevant|inapplicable)\b",
    re.IGNORECASE,
)
_NO_DENIAL = re.compile(
    r"\bnot (?:only|just)\b|\bno doubt\b|\b(?:none|nothing|no one|no (?:\w{1,20} ){1,3}|not any(?:thing)?)\s*"
    r"\b(?:but|except|besides|other than|apart from|than)\b",
    re.IGNORECASE,
)
_ALL_BUT = re.compile(
    r"\b(?:all|every\w{0,5}|any\w{0,5}|each)\b[^.;!?]{0,40}\b(?:except|but|besides|apart from)\b", re.IGNORECASE
)
_HEDGES = re.compile(r"\b(?:would|could|might|if|only when|unless)\b", re.IGNORECASE)
_REASONS = re.compile(
    r"\b(?:because|since|as|for|due|so|given|though|although|even|despite|when|that)\b|[:.;(\u2013\u2014]| - ",
    re.IGNORECASE,
)
_OTHERS = re.compile(
    r"(?:[.;,!(]|\s[-\u2013\u2014]\s)[^.;,!(]{0,80}?\b(?:others?|the rest|remaining|nothing else|none else)\b"
    r"[^.;!]{0,200}",
    re.IGNORECASE,
)
_OF_OTHERS = re.compile(r"\b(?:others?|rest|remaining|else)\b", re.IGNORECASE)

_ONE_FIT = r"(?:appl(?:y|ies|icable)|relevant|match(?:es)?|fits?|select(?:ed)?|needed|useful|suitable|chosen)"
_THINGS = r"(?:experiences?|candidates?|conditions?|options?|entries|instructions?|ids?|items?|match(?:es)?)"
_SAYS_NONE = re.compile(
    rf"\bnone (?:of (?:the|these|them|those)|{_ONE_FIT}|is|are|seems?|here)\b|"
    rf"\bnothing (?:\w{{1,20}} ){{0,2}}{_ONE_FIT}\b|"
    rf"\bno (?:\w{{1,20}} ){{0,3}}{_THINGS}\b|"
    rf"(?:\bnot|n't) (?:\w{{1,20}} ){{0,3}}any (?:\w{{1,20}} ){{0,3}}{_THINGS}\b|"
    rf"\bn(?:ot|either) (?:any|a single|one) of (?:the|these|them|those)\b|\bn(?:o|either) {_ONE_FIT}\b|"
    rf"(?:\bnot|n't) (?:\w{{1,20}} ){{0,3}}any (?:that|which) {_ONE_FIT}\b|"
    rf"\b(?:all|{_THINGS}|they|these)"
    rf"(?: are| do)? not {_ONE_FIT}\b|\b{_THINGS}\W{{1,4}}none\b|"
    r"\b(?:selected|relevant|chosen|answer|result)\W{1,4}none\b",
    re.IGNORECASE,
)
_NOTHING = frozenset(
    ("none", "no", "null", "nothing", "n/a", "na", "false", "nil", "empty", "zero", "none found", "not applicable")
)

_CONJUNCTION = re.compile(
    r"[\s\"'`\u2018\u2019\u201c\u201d*_\[\](){}<>,;&+/|-]*(?:(?:and|or|nor|as well as|plus|und|oder|et|ou)\b)?"
    r"[\s\"'`\u2018\u2019\u201c\u201d*_\[\](){}<>,&-]*(?:(?:both|also|even|the|id|experience)\b[\s\"'`*:]*)?",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"[\"'`\u2018\u2019\u201c\u201d*_\])}\s]*(?:[:=|(?\u2192\u2013\u2014]|[-=]>|-(?=\s))[>\s*]*")
_BOUNDARY = re.compile(
    r"[,;.!](?=\s|$)|\(|\b(?:but|while|whereas|however|and|or|so|therefore|rather than|instead of|although|though|yet|"
    r"which|except)\b|\s[-\u2013\u2014]\s",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.;!](?=\s|$)|\(|\b(?:but|while|whereas)\b", re.IGNORECASE)
_BESIDE = re.compile(r"\b(?:not|never|without|except|unlike|nor|excluding|neither)[\s\"'`*]*$", re.IGNORECASE)
_BULLET = re.compile(r"\s*(?:>\s*)?(?:[-*+\u2022|]\s+|\d{1,9}[.)]\s+|#{1,6}\s){0,3}")
_KEY = re.compile(r"(?:\bid|#)[\s:=\"'`]*$", re.IGNORECASE)
_NO_LABEL = re.compile(
    r"[\s>*_\"'-]*(?:(?:is[_ ])?(?:relevant|relevance|applies|applicable|selected|verdict|answer|decision|match(?:es)?|"
    r"result|status|value)[\s*_\"']*[:=?])?[\s*_\"']*",
    re.IGNORECASE,
)
_ONE = 1


def worded(text: str) -> bool | None:
    """Read a text as yes or no, by its first word.

    Args:
        text: "true", "No, since …", "not relevant", "n/a", "0".

    Returns:
        None if it says neither. An empty text is no.
    """
    text = text.translate(_PLAIN)
    first = _FIRST.match(text)
    word = (first.group(1) or "") if first else ""
    if not word:
        return False if not text.strip() else None
    word = word.casefold()
    if word in _CROSSES or word in _NO or word.endswith("n't"):
        return None if first and word in {"false", "no", "0"} and _EITHER.match(text, first.end()) else False
    if word in _TICKS or word in _YES:
        return None if first and _EITHER.match(text, first.end()) else True
    if word in _SOFT:
        return not refuses(text) and (_affirms(text, labels=word == "relevant") or None)
    return None


def refuses(text: str) -> bool:
    """Whether what is said of an experience says that it does not apply."""
    text = _NO_DENIAL.sub(" ", text.translate(_PLAIN))
    denial = _DENIES.search(text)
    if denial is None:
        return False
    before = text[: denial.start()]
    affirmed = [each.end() for each in _AFFIRMS.finditer(before) if not _LABEL.match(text, each.end())]
    if not affirmed or _HEDGES.search(before) or _AGAIN.search(text):
        return True
    return _REASONS.search(before, affirmed[0]) is None


def says_none(text: str) -> bool:
    """Whether a text says that nothing applies."""
    text = text.translate(_PLAIN)
    return text.strip(" \t\r\n.!\"'`*[](){}").casefold() in _NOTHING or _SAYS_NONE.search(text) is not None


def _affirms(text: str, *, labels: bool = False) -> bool:
    return any(labels or not _LABEL.match(text, each.end()) for each in _AFFIRMS.finditer(text))


class Ids:
    """The ids that an answer may name: found exactly, else in other case and without blanks around if that is clear."""

    def __init__(self, candidates: Iterable[str]) -> None:
        self.all = tuple(dict.fromkeys(each for each in candidates if isinstance(each, str)))
        self._exact = frozenset(self.all)
        self._loose: dict[str, str | None] = {}
        for each in self.all:
            key = each.strip().casefold()
            self._loose[key] = None if key in self._loose else each
        lengths: dict[str, set[int]] = {}
        for each in self.all:
            if head := _HEAD.search(each):
                lengths.setdefault(head.group().casefold(), set()).add(len(each.strip()))
        self._lengths = {head: sorted(found, reverse=True) for head, found in lengths.items()}

    def find(self, name: object) -> str | None:
        """The candidate of this name: a text or a number."""
        if isinstance(name, float) and name.is_integer():
            name = int(name)
        if isinstance(name, bool) or not isinstance(name, str | int | float):
            return None
        text = name if isinstance(name, str) else str(name)
        return text if text in self._exact else self._loose.get(text.strip().casefold())

    def named_in(self, line: str) -> list[Mark]:
        """Where a line names candidates, from left to right, the longest where several could be meant."""
        found: list[Mark] = []
        past = 0
        for head in _HEAD.finditer(line):
            start = head.start()
            if start < past or (lengths := self._lengths.get(head.group().casefold())) is None:
                continue
            for length in lengths:
                name = self.find(line[start : start + length])
                if name is not None and _is_whole(line, start, start + length):
                    past = start + length
                    found.append(Mark(start, past, name))
                    break
        told = {each.start for each in found if _KEY.search(line, max(0, each.start - 12), each.start)}
        return [
            each
            for at, each in enumerate(found)
            if not _is_weak(each.name) or (each.start in told if told else _is_meant(line, found, at))
        ]


class Mark(NamedTuple):
    """A place in a line that names a candidate."""

    start: int
    end: int
    name: str


def _is_whole(line: str, start: int, end: int) -> bool:
    before, after = line[max(0, start - 2) : start], line[end : end + 2]
    if _is_wordly(before[-1:]) or _is_wordly(after[:1]):
        return False
    return not (before[-1:] in _JOINTS and _is_wordly(before[:-1])) and not (
        after[:1] in _JOINTS and _is_wordly(after[1:])
    )


def _is_wordly(mark: str) -> bool:
    return mark.isalnum() or mark == "_"


def _is_weak(name: str) -> bool:
    """Whether an id could be any word of a sentence."""
    plain = name.strip().casefold()
    return len(plain) == _ONE or plain.isdigit() or plain in _YES | _NO | _SOFT or _AFFIRMS.fullmatch(plain) is not None


def _is_meant(line: str, marks: Sequence[Mark], at: int) -> bool:
    """Whether a word that could be any is meant as an id: in quotes, as a key, or in a list of nothing but ids."""
    mark = marks[at]
    if line[mark.start - 1 : mark.start] in _QUOTES and line[mark.end : mark.end + 1] in _QUOTES:
        return mark.start > 0 and mark.end < len(line)
    if not mark.name.strip()[:1].isalnum():
        return False
    bullet = _BULLET.match(line)
    starts = bullet.end() if bullet else 0
    before = line[max(starts, mark.start - 200) : mark.start]
    if _KEY.search(before):
        return True
    rest = line[mark.end : mark.end + 200]
    plain = mark.name.strip().casefold()
    keyed = _SEPARATOR.match(rest)
    says = keyed is not None and worded(rest[keyed.end() :]) is not None
    if mark.start < starts:  # the number of a line, unless nothing else is named in it
        return len(marks) == _ONE and worded(rest) is not None
    begins = not before.strip(" \t\"'`*_[({<,|")
    if plain in _YES | _NO | _SOFT and not plain.isdigit():
        return says and (begins or before.rstrip().endswith((",", ";")))
    lead = line[marks[at - 1].end if at else starts : mark.start]
    listed = begins or bool(_CONJUNCTION.fullmatch(lead)) or lead.rstrip().endswith((":", ",", ";"))
    follow = line[mark.end : marks[at + 1].start if at + 1 < len(marks) else mark.end + 200]
    ends = not follow.strip(" \t\"'`*_])}>|,.;") or bool(_CONJUNCTION.fullmatch(follow))
    return listed and (
        ends or keyed is not None or bool(re.match(r"\s+(?:is|are|appl|do|does|true|false|yes|no)\b", rest))
    )


def said_of(text: str, ids: Ids) -> dict[str, bool]:
    """What a text says of the candidates that it names.

    Args:
        text: Prose, a list, a table, or keys and values, on one or many lines.
        ids: The candidates.

    Returns:
        For those it names whether they apply. One that is denied anywhere does not.
    """
    found: dict[str, bool] = {}
    denying = False
    last: list[str] = []
    for line in text.splitlines():
        marks = ids.named_in(line)
        if marks:
            said = _said_in(line, marks, denying=denying)
            last = [mark.name for mark in marks]
        else:
            said = {}
            bare = line.strip(" \t#*_>-{}[](),`")
            if not bare:
                last = last if line.strip() else []
            elif bare.endswith(":") or line.lstrip().startswith("#"):
                denying, last = _heads_denial(bare), []
            elif _OF_OTHERS.search(bare) is None and _denied_alone(line):
                said = dict.fromkeys(last, False)
            elif not line[:1].isspace():
                denying = False
        for name, applies in said.items():
            found[name] = applies and found.get(name, True)
    return found


def _denied_alone(line: str) -> bool:
    """Whether a line that names nothing says no of what the line before it names."""
    label = _NO_LABEL.match(line)
    return worded(line[label.end() if label else 0 :]) is False


def _heads_denial(text: str) -> bool:
    parts = [part for part in re.split(r"[.;!](?:\s|$)", text) if part.strip()]
    return refuses(parts[-1]) if parts else False


def _said_in(line: str, marks: Sequence[Mark], *, denying: bool) -> dict[str, bool]:
    """What a line says: ids with nothing but "and" between them share what is said before and after them."""
    found: dict[str, bool] = {}
    before = line[: marks[0].start]
    prefix = _prefix(before)
    group: list[str] = []
    for at, mark in enumerate(marks):
        group.append(mark.name)
        after = line[mark.end : marks[at + 1].start if at + 1 < len(marks) else len(line)]
        if at + 1 < len(marks) and _CONJUNCTION.fullmatch(after):
            continue
        said, follows = _after(after, last=at + 1 == len(marks))
        denied = _prefix_denies(prefix)
        if isinstance(said, bool):
            applies = said and not denied
        else:
            applies = not (denied or refuses(said)) and (not denying or _affirms(said))
        for name in group:
            found[name] = applies and found.get(name, True)
        prefix, group = follows, []
    return found


def _prefix(text: str) -> str:
    """What of the words before the first id is said of it."""
    text = _NO_DENIAL.sub(" ", text.translate(_PLAIN))
    ends = [each.start() for each in _BOUNDARY.finditer(text)]
    near = text[ends[-1] :] if ends else text
    if text.rstrip(" \t\"'`*[({").endswith(":") and not _AFFIRMS.search(near):
        return text
    return near


def _prefix_denies(text: str) -> bool:
    text = text.translate(_PLAIN)
    return bool(_DENIES.search(_NO_DENIAL.sub(" ", text)) or _ALL_BUT.search(text))


def _after(text: str, *, last: bool) -> tuple[bool | str, str]:
    """What is said of the id before, as yes or no or in words, and what is said of the next one."""
    separator = _SEPARATOR.match(text)
    value = text[separator.end() :] if separator else ""
    verdict = worded(value) if value.strip() else None
    if separator is None and text.strip(" \t\"'`*_.,;()[]{}|").casefold() in _NO:
        verdict = False
    if last:
        return (_OTHERS.sub(" ", text) if verdict is None else verdict), ""
    if verdict is not None and separator and not _BESIDE.search(value):
        first = _FIRST.match(value)
        at = separator.end() + (first.end() if first else 0)
        ends = [each.start() for each in _BOUNDARY.finditer(text, at)]
        return verdict, text[ends[-1] :] if ends else text[at:]
    headed = text.rstrip(" \t\"'`*[({").endswith(":")
    ends = [each.start() for each in (_SENTENCE if headed else _BOUNDARY).finditer(text)]
    if not ends:
        beside = _BESIDE.search(text)
        ends = [beside.start()] if beside else [len(text)]
    return text[: ends[-1]], text[ends[-1] :]
