r"""What a model's answer selects, in whatever form it comes: JSON of many shapes, a list, a table, or prose.

    selected('```json\n{"exp-1": true, "exp-2": "no"}\n```', ["exp-1", "exp-2"]).chosen    # ("exp-1",)

What an answer denies is never chosen, even where it also says the opposite.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_agentmem.experiences.answer_wording import Ids, refuses, said_of, says_none, worded
from langchain_agentmem.language_models.lenient_json import read_json, read_row

_DEEPEST = 20
_HALF = 0.5
_LONGEST, _LONGEST_REASON = 1_000, 2_000

_IDS = ("id", "exp_id", "expid", "experience_id", "experience", "name", "key")
_VERDICTS = frozenset({
    "relevant", "is_relevant", "relevance", "selected", "select", "applies", "apply", "applicable", "match", "matches",
    "matched", "include", "included", "use", "answer", "verdict", "decision", "value", "result", "chosen", "needed",
})  # fmt: skip
_REASONS = frozenset({
    "reason", "reasons", "reasoning", "why", "explanation", "explanations", "rationale", "justification", "because",
    "thoughts", "thought", "thinking", "analysis", "comment", "comments", "note", "notes", "evidence", "confidence",
})  # fmt: skip
_ASIDE = frozenset({
    "candidates", "considered", "available", "all", "input", "query", "user_query", "context", "error",
})  # fmt: skip
_DENYING = frozenset({
    "not", "no", "non", "false", "irrelevant", "inapplicable", "unrelated", "rejected", "reject", "excluded", "exclude",
    "skipped", "skip", "ignored", "ignore", "discarded", "unselected", "dismissed", "negative", "never", "unused",
    "none", "denied", "remaining", "others", "other", "rest", "omitted", "unneeded", "unsuitable", "without",
})  # fmt: skip
_CHOOSING = frozenset({
    "selected", "select", "selection", "chosen", "choice", "choices", "relevant", "applies", "applicable", "apply",
    "match", "matches", "matched", "true", "yes", "use", "included", "include",
})  # fmt: skip
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")

_THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought|reasoning|analysis)>", re.IGNORECASE)
_FENCED = re.compile(r"```[ \t]*[\w+-]*[ \t]*\n?(.*)```", re.DOTALL)
_PAGE = re.compile(r"(?:<\?xml[^>]{0,200}>\s*)?<(?:!doctype|html|head|body)\b", re.IGNORECASE)
_OPENS = re.compile(r"""[{\[]\s*(?:["'{\[]|\d)|\{\}|\[\]""")
_BRACES = {
    quote: re.compile(rf"{quote}(?:[^{quote}\\]|\\.)*+(?:{quote}|\Z)|[{{}}\[\]]", re.DOTALL) for quote in ('"', "'")
}
_PROSE_END = re.compile(r"\w[^\]]*\Z")
_AT_ENDS = re.compile(r"[^\w\n]{0,40}(?:\n|$)")
_NUMBER = re.compile(r"\s*\d{1,9}(?:\.\d{1,9})?\s*")
_SAID = re.compile(r"\W*\w+(?:'\w+)?(?:\s*[:;,.(\u2013\u2014-]\s*|\s+(?=because\b|since\b|as\b))(?=\w)")
_DENIED_KEY = re.compile(
    r"""(?<!\\)(?:"((?:[^"\\\n]|\\.){1,400}+)"|'([^'\\\n]{1,400}+)')\s*+:\s*+"""
    r"""(?:\{\s*+["']\w{1,20}["']\s*+:\s*+)?["']?(?:false|no|none|null|not|n/a|0(?![.\d]))\b""",
    re.IGNORECASE,
)


class Reading(NamedTuple):
    """What an answer selects."""

    chosen: tuple[str, ...]
    """Ids, each once, in the order of the candidates."""
    reasons: Mapping[str, str]
    """What it gives as the reason, for those candidates that it gives one for, chosen or not."""


def selected(answer: str, candidates: Sequence[str]) -> Reading | None:
    """Read which experiences a model selects.

    Args:
        answer: What it wrote, anything.
        candidates: The ids it could choose from. They are compared exactly, else without regard to case and to blanks
            around them where that is clear. What else it names is ignored.

    Returns:
        None if the answer says nothing that can be understood. One that says that nothing applies, or that names none
        of the candidates in the form that was asked for, selects nothing.
    """
    if not isinstance(answer, str):
        return None
    text = _spoken(answer)
    if not text or _PAGE.match(text):
        return None
    ids = Ids(candidates)
    found = _Found(ids)
    for pieces in (_whole(text), _strict(text, ids), _lenient(text)):
        for piece, denied in pieces:
            found.seen = found.seen or (text[:1] in {"{", "["} and bool(piece))
            found.take(piece, denied=denied)
        if found.known or found.valid:
            break
    if not (found.known or found.valid):
        if not found.seen:
            _plain(text, found)
        if not (found.known or found.valid):
            return None
    elif not _is_json(text):
        found.deny(_denied_keys(text, ids))
    return found.reading()


def _spoken(answer: str) -> str:
    """The answer without what the model thought before it."""
    text = answer.strip().lstrip("\ufeff").strip()
    ends = [mark.end() for mark in _THOUGHT.finditer(text) if mark.group(1)]
    if ends:
        return text[ends[-1] :].strip()
    opened = _THOUGHT.match(text)
    return "" if opened else text


def _unfenced(text: str) -> str:
    fence = _FENCED.fullmatch(text) if text.startswith("```") and text.count("```") == 2 else None  # noqa: PLR2004
    return (fence.group(1) if fence else text).strip()


def _is_json(text: str) -> bool:
    return next(_whole(text), None) is not None


def _whole(text: str) -> Iterator[tuple[Any, bool]]:
    """The answer as JSON and nothing else."""
    try:
        value = json.loads(_unfenced(text), strict=False, object_pairs_hook=_together)
    except (ValueError, RecursionError):
        return
    if isinstance(value, str):
        value = value.strip()
        if value[:1] in {"{", "["}:
            try:
                value = json.loads(value, strict=False, object_pairs_hook=_together)
            except (ValueError, RecursionError):
                return
    if value is None or value is False:
        value = []
    if isinstance(value, dict | list):
        yield value, False


def _together(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; what stands in it twice is false if it is so once."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key not in found or _verdict(found[key]) is not False:
            found[key] = value
    return found


def _strict(text: str, ids: Ids) -> Iterator[tuple[Any, bool]]:
    """Each piece of JSON amid prose, and whether what stands beside it denies it; none if one is not strict."""
    found: list[tuple[Any, bool]] = []
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=_together)
    at = 0
    while opens := _OPENS.search(text, at):
        start = opens.start()
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return
        last, at = at, end
        if not value and not _AT_ENDS.match(text, end):
            continue
        bare = isinstance(value, list) and not any(isinstance(each, dict | list) for each in value)
        if bare and value and all(ids.find(each) is None for each in value):
            continue
        found.append((value, bare and _denied_around(text, last, start, end)))
    yield from found


def _denied_around(text: str, last: int, start: int, end: int) -> bool:
    before = text[max(last, start - 300) : start].rstrip(" \t\n`*").removesuffix("json").rstrip(" \t\n`*")
    line = re.split(r"\n|[.;!](?=\s)", before)[-1]
    return refuses(line) or refuses(re.split(r"\n|[.;!,](?=\s)", text[end : end + 200])[0])


def _lenient(text: str) -> Iterator[tuple[Any, bool]]:
    """JSON that is cut off, or written as Python or nobody writes it."""
    rows = [each for each in read_row(text) if each]
    inner = _unfenced(text).removeprefix("```json").removeprefix("```").strip()
    value: Any = rows
    if rows:
        whole = len([each for each in read_row(text, complete=True) if each]) == len(rows)
    else:
        whole = (value := read_json(text, complete=True)) is not None
        value = value if whole else read_json(text)
        if not value and inner.startswith("[") and (_is_open(inner) or not _PROSE_END.search(inner)):
            value = read_json(inner, wanted=list)
            whole = read_json(inner, wanted=list, complete=True) is not None
    if not whole:
        _drop_torn(value, inner)
    for each in value if rows else [value]:
        if each or (whole and each is not None):
            yield each, False


def _drop_torn(value: Any, text: str) -> None:
    """Leave out what an answer may have stopped in the middle of: a text in a list, or an id without its verdict."""
    within = None
    for _ in range(_DEEPEST):
        if not value or not isinstance(value, list | dict):
            return
        if isinstance(value, list) and not isinstance(value[-1], list | dict):
            named = isinstance(value[-1], str | int) and not isinstance(value[-1], bool)
            paired = isinstance(within, list) or any(isinstance(each, bool) for each in value)
            if named and (paired or text.endswith(str(value[-1])[-20:])):
                value.pop()
            return
        torn = isinstance(value, dict) and any(key.casefold() in _IDS for key in value) and _verdict(value) is None
        if torn and isinstance(within, list):
            within.pop()
            return
        within, value = value, (value[-1] if isinstance(value, list) else next(reversed(value.values())))


def _denied_keys(text: str, ids: Ids) -> Iterator[str]:
    """Candidates that stand anywhere as keys of false."""
    for match in _DENIED_KEY.finditer(text):
        key = match.group(1) or match.group(2)
        if "\\" in key:
            try:
                key = json.loads(f'"{key}"', strict=False)
            except ValueError:
                continue
        if (name := ids.find(key)) is not None:
            yield name


def _plain(text: str, found: _Found) -> None:
    """What a text that is not JSON says. The keys of an object that is cut off say nothing without their values."""
    text = _closed(text)
    said = {} if says_none(text[:200]) and len(text) <= len("not applicable") else said_of(text, found.ids)
    for name, applies in said.items():
        found.add(name, applies)
    found.valid = found.valid or says_none(text)


def _is_open(text: str) -> bool:
    """Whether a list that a text begins with does not end."""
    marks = [mark.group() for mark in _BRACES["'" if text[:2] == "['" else '"'].finditer(text)]
    return marks.count("[") > marks.count("]")


def _closed(text: str) -> str:
    """The text up to an object that does not end."""
    depth, start = 0, len(text)
    for mark in _BRACES["'" if text[:2] in {"{'", "['"} else '"'].finditer(text, max(0, text.find("{"))):
        if mark.group() == "{":
            start = start if depth else mark.start()
            depth += 1
        elif mark.group() == "}":
            depth = max(0, depth - 1)
    return text[:start] if depth else text


def _verdict(value: Any) -> bool | None:
    """What a value says of the id that it stands at."""
    if isinstance(value, str):
        value = float(value) if _NUMBER.fullmatch(value) else worded(value[:_LONGEST])
        return _verdict(value) if isinstance(value, float) else value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value >= _HALF if 0 <= value <= 1 else None
    if isinstance(value, list):
        return _verdict(value[0]) if value and not isinstance(value[0], dict | list) else None
    if isinstance(value, dict):
        said = {key: _verdict(each) for key, each in value.items() if isinstance(each, str | int | float | None)}
        plain = {
            key: verdict
            for key, verdict in said.items()
            if key.casefold() not in _REASONS and key.casefold() not in _IDS and verdict is not None
        }
        named = [verdict for key, verdict in plain.items() if key.casefold() in _VERDICTS]
        turned = [not verdict for key, verdict in plain.items() if _denies(key)]
        decisive = named + turned or list(plain.values())
        return all(decisive) if decisive else None
    return bool(value)


def _denies(key: str) -> bool:
    return any(word.casefold() in _DENYING for word in _WORDS.findall(key))


def _reason(value: Any) -> str:
    if isinstance(value, dict):
        texts = [each for key, each in value.items() if key.casefold() in _REASONS and isinstance(each, str)]
        return texts[0].strip()[:_LONGEST_REASON] if texts else ""
    if isinstance(value, str):
        words = _SAID.match(value)
        return value[words.end() :].strip()[:_LONGEST_REASON] if words and worded(value[:_LONGEST]) is not None else ""
    return ""


class _Found:
    """What an answer says of each candidate."""

    def __init__(self, ids: Ids) -> None:
        self.ids = ids
        self.known: dict[str, bool] = {}
        self.valid = False
        self.seen = False
        self._reasons: dict[str, str] = {}

    def add(self, name: str, applies: bool | None, reason: str = "") -> None:  # noqa: FBT001 - a verdict is a boolean
        self.known[name] = bool(applies) and self.known.get(name, True)
        if reason:
            self._reasons.setdefault(name, reason)

    def deny(self, names: Iterator[str]) -> None:
        for name in names:
            self.known[name] = False

    def reading(self) -> Reading:
        chosen = tuple(name for name in self.ids.all if self.known.get(name))
        reasons = {name: self._reasons[name] for name in self.ids.all if name in self._reasons}
        return Reading(chosen, MappingProxyType(reasons))

    def take(self, value: Any, *, denied: bool, depth: int = 0) -> None:
        if depth > _DEEPEST:
            return
        if isinstance(value, list):
            self._list(value, denied=denied, depth=depth)
        elif isinstance(value, dict):
            self._object(value, denied=denied, depth=depth)

    def _list(self, values: list[Any], *, denied: bool, depth: int) -> None:
        if not values:
            self.valid = True
        for at, each in enumerate(values):
            if isinstance(each, dict | list):
                self.take(each, denied=denied, depth=depth + 1)
                continue
            if isinstance(each, bool) or each is None:
                continue
            self.valid = True
            name = self.ids.find(each)
            follows = values[at + 1] if at + 1 < len(values) else True
            if name is not None:
                unlike = isinstance(follows, bool) or follows is None or self.ids.find(follows) is None
                self.add(name, not denied and not (unlike and _verdict(follows) is False))
            elif isinstance(each, str):
                key, mark, rest = _parted(each)
                name = self.ids.find(key) if mark else None
                if name is not None:
                    verdict = worded(rest[:_LONGEST])
                    self.add(name, not denied and (not refuses(rest[:_LONGEST]) if verdict is None else verdict))

    def _object(self, values: dict[str, Any], *, denied: bool, depth: int) -> None:
        if not values:
            self.valid = True
        if self._entry(values, denied=denied):
            return
        choosing = any(
            isinstance(each, list | dict) and key.casefold() in _CHOOSING and self.ids.find(key) is None
            for key, each in values.items()
        )
        failed = bool(values.get("error"))
        for key, each in values.items():
            name, plain = self.ids.find(key), key.casefold()
            if name is not None and not self._wraps(plain, each):
                self.add(name, not denied and _verdict(each), _reason(each))
            elif plain in _REASONS:
                self._explained(each)
            elif plain not in _ASIDE and not (choosing and plain == "experiences"):
                self._within(plain, each, denied=denied or _denies(key), depth=depth, failed=failed)

    def _within(self, key: str, value: Any, *, denied: bool, depth: int, failed: bool) -> None:
        """What stands under a key that is no candidate: a selection, or what is said of an experience nobody has."""
        verdict = _verdict(value)
        unknown = isinstance(value, dict) and verdict is not None and not _VERDICTS.isdisjoint(map(str.casefold, value))
        if isinstance(value, list | dict) and (key in _VERDICTS | _CHOOSING or not unknown):
            self.take(value, denied=denied, depth=depth + 1)
        elif isinstance(value, str) and key in _CHOOSING | _VERDICTS | {"experiences", "ids", "id", "output"}:
            self._text(value, denied=denied, depth=depth)
        elif verdict is not None and not failed:
            self.valid = True

    def _wraps(self, key: str, value: Any) -> bool:
        """Whether what stands under a key is a selection, though an experience has the name of the key."""
        if isinstance(value, list):
            return any(self.ids.find(each) is not None for each in value)
        return (
            isinstance(value, dict)
            and (key in _CHOOSING | _VERDICTS or _denies(key) or key in {"experiences", "output"})
            and any(self.ids.find(each) is not None for each in value)
            and not all(each.casefold() in _VERDICTS | _REASONS for each in value)
        )

    def _entry(self, values: dict[str, Any], *, denied: bool) -> bool:
        """Whether this is an object of one experience, with its id in it."""
        for key, each in values.items():
            if key.casefold() not in _IDS or isinstance(each, bool) or not isinstance(each, str | int):
                continue
            name = self.ids.find(each)
            plainly = name is not None and self.ids.find(key) is None
            if not plainly and any(
                self.ids.find(other) is not None and other.casefold() not in _VERDICTS | _REASONS
                for other in values
                if name is None or other != key
            ):
                continue
            self.valid = True
            if name is not None:
                self.add(name, not denied and _verdict(values) is not False, _reason(values))
            return True
        return False

    def _explained(self, value: Any) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                if (name := self.ids.find(key)) is not None and isinstance(each, str):
                    self._reasons.setdefault(name, each.strip()[:_LONGEST_REASON])

    def _text(self, value: str, *, denied: bool, depth: int) -> None:
        """A text where ids should stand."""
        inner = read_json(value) if value.lstrip()[:1] == "{" else None
        if inner is not None:
            self.take(inner, denied=denied, depth=depth + 1)
            return
        name = self.ids.find(value)
        said = {name: True} if name is not None else said_of(value, self.ids)
        for each, applies in said.items():
            self.add(each, applies and not denied)
        self.valid = self.valid or bool(said) or says_none(value) or worded(value[:_LONGEST]) is not None


def _parted(text: str) -> tuple[str, str, str]:
    """An id, what parts it from the rest, and the rest."""
    match = re.match(r"(.{1,400}?)(\s*[:=(\u2013\u2014]\s*|\s+-\s+)", text, re.DOTALL)
    return (match.group(1).strip(" \"'`"), match.group(2), text[match.end() :]) if match else (text, "", "")
