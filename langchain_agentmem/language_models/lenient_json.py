"""The JSON that a model meant, in whatever it wrote.

Models wrap JSON in prose and fences, quote as Python does, forget commas, escape nothing, and stop in the middle. The
reader here takes all that. It reads every stretch of text a bounded number of times, so that no reply takes long, and
it raises nothing. Strict JSON goes straight through Python's own parser.

(json-repair, the well-kept library for this, needs 7 s for 16 kB of `{"`, four times as long for each doubling, and
finds lists in prose that has none. A reply is text that others may have chosen.)
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from langchain_agentmem.base.encoding import replace_surrogates

_DEEPEST = 100
"""Nested deeper than this is no answer, and would break whoever walks through it."""
_READINGS = 4
_DIGITS = 4
"""How often, on the whole, each character may be read."""

_BETWEEN = re.compile(r"(?:[\s,;]|[-*\u2022] |\d+[.)] )*(?=\{)")
_FENCE = re.compile(r"```[ \t]*[\w+-]*\s*(?=[{\[])")
_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)|#[^\n]*)*")
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_WORD = re.compile(r"[A-Za-z_$][\w$-]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u[0-9a-fA-F]{0,3}\Z|.|\Z)", re.DOTALL)
_QUOTES = {'"': '"', "'": "'", "\u201c": "\u201d"}
_ENDS = {end: re.compile(rf"\\.|{end}", re.DOTALL) for end in _QUOTES.values()}
_WORDS = {
    "true": True, "false": False, "null": None, "True": True, "False": False, "None": None, "undefined": None,
    "NaN": None,
}  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'", "\n": ""}

# What follows a quote that ends a text. Any other quote is one that should have been escaped.
_AFTER_KEY = re.compile(r"\s*(?::|\Z)")
_AFTER_VALUE = re.compile(
    r"""\s*(?: [}\]] | \Z | // | /\* | , \s* (?: ["'\u201c}\]] | \w+ \s* : | // | /\* | \# | \Z )
    | ["'] [^"'\\\n]{1,80} ["'] \s* : )""",
    re.VERBOSE,
)
_AFTER_ITEM = re.compile(
    r"""\s*(?: [}\]] | \Z | // | /\* | , \s* (?: ["'\u201c\[{}\]\d-] | true | false | null | True | False | None | //
    | /\* | \# | \Z ) | \n \s* ["'] )""",
    re.VERBOSE,
)

_NAMES = r"(?:\w+:)?(?:ant)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|analysis|reflection|scratchpad)"
_REASONING = re.compile(
    rf"<(?P<a>/?){_NAMES}(?:\s[^<>]*)?>|\[(?P<b>/?)THINK\]|\u25c1(?P<c>/?)think\u25b7"
    r"|<\|(?:begin_of_thought|START_THINKING)\|>|<\|(?P<d>end_of_thought|END_THINKING)\|>"
    r"|<\|channel\|>(?:analysis|(?P<e>final[^<]*(?:<\|constrain\|>\w+)?))<\|message\|>",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"[{\[]")
_JSON_FOLLOWS = re.compile(r"\s*(?:```[ \t]*[\w+-]*\s*)?(?=[{\[])")
_APART_BEFORE = re.compile(r"(?:\A|[\n.!?:>)\]}\u2026\u3002])[ \t]*\Z")
_APART_AFTER = re.compile(r"\w|[ \t]*(?:\n|\Z|[{\[]|```)")


def strip_reasoning(text: str, *, quoted: str = "") -> str:
    """Return a model's answer without the reasoning that it wrote between tags.

    Args:
        text: The answer. Reasoning may be nested, left open, or end with a closing tag that nothing opened.
        quoted: A text that the answer repeats. Where that has tags, reasoning is only what stands before the rest.

    Returns:
        The answer. Tags inside its JSON, and tags that a sentence mentions, are part of it.
    """
    if _REASONING.search(quoted):
        tags = _REASONING.finditer(text) if _REASONING.match(text.lstrip()) else ()
        return next((text[tag.end() :] for tag in tags if any(tag.groups())), "" if tags else text)
    kept: list[str] = []
    at = depth = read = 0
    for tag in _REASONING.finditer(text):
        closes = any(tag.groups())
        while not depth and (begin := _BRACKET.search(text, read, tag.start())):
            read = _json_end(text, begin.start())
        if tag.start() < read or not (depth or _stands_apart(text, tag, closes=closes)):
            continue
        if not closes:
            if not depth:
                kept.append(text[at : tag.start()])
                at = len(text)
            depth += 1
        elif depth or text[tag.end() :].strip() or not read:
            kept = kept if depth else []
            at = read = end = tag.end()
            # Reasoning may mention tags. It is over where nothing but JSON follows.
            if begin := _JSON_FOLLOWS.match(text, at):
                end = _json_end(text, begin.end())
            depth = max(0, depth - 1) if text[end:].strip(" \t\r\n`") else 0
    return "".join([*kept, text[at:]])


def _stands_apart(text: str, tag: re.Match[str], *, closes: bool) -> bool:
    """Return whether a tag is no part of a sentence that mentions it."""
    apart = _APART_BEFORE.search(text, max(0, tag.start() - 80), tag.start())
    return bool(apart or (closes and _APART_AFTER.match(text, tag.end())))


def _json_end(text: str, at: int) -> int:
    """Return how far the text can be read as JSON from a bracket on."""
    reader = _Reader(text, at)
    with suppress(_UnreadableError, RecursionError):
        reader.value(0)
    return reader.at


def read_json(text: str, *, wanted: type = dict, complete: bool = False) -> Any | None:
    """Find the JSON that a model meant.

    Args:
        text: What it wrote: bare JSON, fenced, amid prose, in Python's notation, with trailing commas, comments,
            unescaped quotes and line ends, or cut off.
        wanted: What is looked for, `dict` or `list`. Default `dict`. Where a list is wanted, an object that holds one
            list and no other stands for it; where an object is wanted, a list of one object does.
        complete: Whether one that is cut off is none. Default: it is taken as far as it goes.

    Returns:
        The first that is complete and not empty; else the first that is cut off, as far as it goes; else an empty one;
        None if there is none. Nothing in it is nested deeper than 100.
    """
    if not isinstance(text, str):
        return None
    text = text.strip().lstrip("\ufeff")
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        pass
    else:
        if isinstance(value, str) and value[:1] in "{[":  # JSON within JSON
            return read_json(value, wanted=wanted, complete=complete) if len(value) < len(text) else None
        return _shaped(value, wanted) if is_shallow(value) else None
    if text.endswith("```"):  # so that a text that is cut off in a fence does not hold the fence's end
        text = text[:-3].rstrip()
    try:
        return _search(text, wanted, complete=complete)
    except RecursionError:
        return None


def read_row(text: str, *, complete: bool = False) -> list[dict[str, Any]]:
    """Find the objects that a model wrote side by side, one a line or with nothing but commas between them.

    Args:
        text: What it wrote, as `read_json` takes it.
        complete: Whether one that is cut off is none. Default: it is taken as far as it goes.

    Returns:
        The first that `read_json` would find in a fence, else amid prose, and all that follow it at once.
    """
    text = text.strip().removesuffix("```")
    first = _FENCE.search(text) or re.search(r"(?=\{)", text)
    found: list[dict[str, Any]] = []
    at = len(text) if first is None else first.end()
    while between := _BETWEEN.match(text, at):
        reader = _Reader(text, between.end())
        try:
            value = reader.value(0)
        except (_UnreadableError, RecursionError):
            break
        if reader.complete or not complete:
            found.append(value)
        at = reader.at
    return found


def _search(text: str, wanted: type, *, complete: bool) -> Any | None:
    allowance = _READINGS * len(text) + 1_000
    second = empty = None
    # What stands in a fence is what was meant; the rest is looked at after that.
    for starts in (_FENCE.finditer(text), re.finditer(r"[{\[]", text)):
        past = 0
        for match in starts:
            start = match.end() if match.group().startswith("`") else match.start()
            if start < past:
                continue
            reader = _Reader(text, start)
            try:
                found = reader.value(0)
            except _UnreadableError:
                value = None
            else:
                value = _shaped(found, wanted)
                past = reader.at if found or reader.complete else past
            if value and reader.complete:
                return value
            second = second or (None if complete else value)
            empty = value if empty is None and (reader.complete or not complete) else empty
            allowance -= reader.at - start + 1
            if allowance < 0:
                return second or empty
    return second or empty


def _shaped(value: Any, wanted: type) -> Any | None:
    if isinstance(value, wanted):
        return value
    if wanted is dict and isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return value[0]
    if wanted is list and isinstance(value, dict):
        lists = [each for each in value.values() if isinstance(each, list)]
        return lists[0] if len(lists) == 1 else None
    return None


def is_shallow(value: Any) -> bool:
    """Whether nothing in a value is nested deeper than 100."""
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return True
    return False


class _UnreadableError(Exception):
    """What stands here is not JSON, however much is forgiven."""


class _Reader:
    """Reads one value from a place in a text, and knows where it ends and whether it was complete."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at
        self.complete = True

    def value(self, depth: int, after: re.Pattern[str] = _AFTER_ITEM) -> Any:
        """One value.

        Args:
            depth: How deeply it is nested.
            after: What may follow it if it is a text.

        Raises:
            _UnreadableError: There is none, or it is nested too deeply.
        """
        if depth > _DEEPEST:
            raise _UnreadableError
        mark = self._next()
        if mark == "{":
            return self._object(depth)
        if mark == "[":
            return self._list(depth)
        if mark in _QUOTES:
            return self._string(after)
        if number := _NUMBER.match(self._text, self.at):
            self.at = number.end()
            return _number(number.group())
        word = _WORD.match(self._text, self.at)
        if word and word.group() in _WORDS:
            self.at = word.end()
            return _WORDS[word.group()]
        if word and word.end() == len(self._text):  # "tru", and then it stopped
            self.at, self.complete = word.end(), False
        raise _UnreadableError

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.at += 1
        while not self._closed("}"):
            key = self._key()
            if self._next() != ":":
                if self._ended():
                    return found
                raise _UnreadableError
            self.at += 1
            if self._next() in {",", "}"}:  # a name without a value
                found[key] = None
                continue
            try:
                found[key] = self.value(depth + 1, _AFTER_VALUE)
            except _UnreadableError:
                if self._ended():
                    return found
                raise
        return found

    def _list(self, depth: int) -> list[Any]:
        found: list[Any] = []
        self.at += 1
        while not self._closed("]"):
            try:
                found.append(self.value(depth + 1))
            except _UnreadableError:
                if self._ended():
                    return found
                raise
        return found

    def _closed(self, end: str) -> bool:
        """Whether a list or object ends here: by its mark, by that of what holds it, or because the text does."""
        while (mark := self._next()) == ",":
            self.at += 1
        if mark == end:
            self.at += 1
            return True
        return mark in {"}", "]"} or self._ended()

    def _key(self) -> str:
        if self._next() in _QUOTES:
            return self._string(_AFTER_KEY)
        if word := _WORD.match(self._text, self.at) or _NUMBER.match(self._text, self.at):
            self.at = word.end()
            return word.group()
        raise _UnreadableError

    def _string(self, after: re.Pattern[str]) -> str:
        text = self._text
        end = _QUOTES[text[self.at]]
        ends = _ENDS[end]
        begin = at = self.at + 1
        while match := ends.search(text, at):
            at = match.end()
            if match.group() == end and after.match(text, at):
                self.at = at
                return _unescaped(text[begin : at - 1])
        self.at, self.complete = len(text), False
        return _unescaped(text[begin:])

    def _next(self) -> str:
        """The next character that means something, "" at the end."""
        self.at = _SPACE.match(self._text, self.at).end()  # type: ignore[union-attr]  # it matches everywhere
        return self._text[self.at : self.at + 1]

    def _ended(self) -> bool:
        if self.at < len(self._text):
            return False
        self.complete = False
        return True


def _number(text: str) -> Any:
    text = text.replace("_", "")
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text  # a number too long for Python


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return replace_surrogates(_ESCAPE.sub(_character, text))  # a character beyond 16 bits is written as two


def _character(match: re.Match[str]) -> str:
    mark = match.group(1)
    if mark.startswith("u"):
        return chr(int(mark[1:], 16)) if len(mark) > _DIGITS else ""
    return _ESCAPES.get(mark, f"\\{mark}" if mark else "")
