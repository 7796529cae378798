"""The JSON that a model meant, in whatever it wrote.

Models wrap JSON in prose and fences, quote as Python does, forget commas, escape nothing, and stop in the middle.
json-repair reads all that. It is given one stretch of text at a time, from a bracket to the one that closes it, and
none that is long, nested deeply, or full of stray quotes: for such text it takes long, and a reply is text that others
may have chosen. Strict JSON goes straight through Python's own parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from json_repair import repair_json

_LONGEST = 100_000  # characters of a text that is repaired
_DEEPEST = 64  # nested deeper than this is no answer, and would break whoever walks through it
_MOST_STRAY = 100  # quotes amid words in a text that is repaired: for each, json-repair may read the rest of the text
_STRAY = re.compile(r"(?<![{\[,:\s\\])\"(?!\s*[}\],:])|(?<=\w\s)\"(?!\s*[}\],:])")
_READINGS = 4  # how often, on the whole, each character may be read
_LEAST_READ = 50  # how many characters a bracket counts as that begins nothing readable

_BETWEEN = re.compile(r"(?:[\s,;]|[-*\u2022] |\d+[.)] )*(?=\{)")
_FENCE = re.compile(r"```[ \t]*[\w+-]*\s*(?=[{\[])")
_BRACKET = re.compile(r"[{\[]")
_STEP = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[{}\[\]]', re.DOTALL)  # a text in quotes, or a bracket
_BRACKETS = re.compile(r"[{}\[\]]")
_BEGINS = re.compile(  # JSON begins so, and prose in brackets does not
    r"""\{ \s* (?: \Z | ["'\u201c}] | [\w$-]+ \s* : | // | /\* | \# )
    | \[ \s* (?: ["'\u201c{\[\]\d-] | true | false | null | True | False | None | // | /\* | \# )""",
    re.VERBOSE,
)
_CUT = re.compile(  # an escape, a name without a value, or a word, with which a text breaks off
    r"""(?: \\ (?: u[0-9a-fA-F]{0,3} )?
    | (?: "[^"\\]{0,200}" \s* : | (?<=[\[,]) ) \s* (?! (?: true | false | null | True | False | None ) \Z) [A-Za-z]*
    )\Z""",
    re.VERBOSE,
)
_DECODER = json.JSONDecoder(strict=False)

_NAMES = r"(?:\w+:)?(?:ant)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|analysis|reflection|scratchpad)"
_REASONING = re.compile(
    rf"<(?P<a>/?){_NAMES}(?:\s[^<>]*)?>|\[(?P<b>/?)THINK\]|\u25c1(?P<c>/?)think\u25b7"
    r"|<\|(?:begin_of_thought|START_THINKING)\|>|<\|(?P<d>end_of_thought|END_THINKING)\|>"
    r"|<\|channel\|>(?:analysis|(?P<e>final[^<]*(?:<\|constrain\|>\w+)?))<\|message\|>",
    re.IGNORECASE,
)
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
    try:
        return _DECODER.raw_decode(text, at)[1]
    except json.JSONDecodeError as error:
        return len(text) if error.msg.startswith("Unterminated") else max(error.pos, at + 1)
    except RecursionError:
        return at + 1


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
        None if there is none. Nothing in it is nested deeper than 64, and only strict JSON is longer than 100,000
        characters.
    """
    if not isinstance(text, str):
        return None
    text = text.strip().lstrip("\ufeff")
    if text.startswith('"'):
        with suppress(ValueError, RecursionError):
            inner = json.loads(text, strict=False)
            if isinstance(inner, str) and inner[:1] in ("{", "["):  # JSON within JSON
                return read_json(inner, wanted=wanted, complete=complete)
    others = []
    # What stands in a fence is what was meant; the rest is looked at after that.
    for pattern in (_FENCE, _BRACKET):
        for found in _stretches(text.removesuffix("```").rstrip(), pattern):
            if found.complete or not complete:
                value = _shaped(found.value, wanted)
                if value and found.complete:
                    return value
                others.append(value)
    empty = (value for value in others if value is not None)
    return next(filter(None, others), next(empty, None))


def read_row(text: str, *, complete: bool = False) -> list[dict[str, Any]]:
    """Find the objects that a model wrote side by side, one a line or with nothing but commas between them.

    Args:
        text: What it wrote, as `read_json` takes it.
        complete: Whether one that is cut off is none. Default: it is taken as far as it goes.

    Returns:
        The first that `read_json` would find in a fence, else amid prose, and all that follow it immediately.
    """
    text = text.strip().removesuffix("```")
    first = _FENCE.search(text) or re.search(r"(?=\{)", text)
    row: list[dict[str, Any]] = []
    at = len(text) if first is None else first.end()
    while between := _BETWEEN.match(text, at):
        found = _stretch(text, between.end())
        if found is None or not isinstance(found.value, dict):
            break
        row += [found.value] if found.complete or not complete else []
        at = found.end
    return row


class _Stretch(NamedTuple):
    """JSON in a text: its value, where it ends, and whether it was complete."""

    value: Any
    end: int
    complete: bool


def _stretches(text: str, beginning: re.Pattern[str]) -> Iterator[_Stretch]:
    """Yield the JSON in a text that begins where a pattern says; what stands within another is no JSON of its own."""
    allowance = _READINGS * len(text)
    at = 0
    while allowance >= 0 and (begin := beginning.search(text, at)):
        start = begin.end() if beginning is _FENCE else begin.start()
        at = start + 1
        if not _BEGINS.match(text, start):
            continue
        found = _stretch(text, start)
        allowance -= _LEAST_READ if found is None else found.end - start
        if found is not None:
            yield found
            at = found.end if found.complete or found.value else at


def _stretch(text: str, at: int) -> _Stretch | None:
    """Read the JSON that begins at a bracket of a text; None where that is prose, or nested too deeply."""
    with suppress(ValueError, RecursionError):
        value, end = _DECODER.raw_decode(text, at)
        return None if _closing(text[at:end]) is None else _Stretch(value, end, complete=True)
    piece = text[at : at + _LONGEST]
    length = _closing(piece)
    if length is None or len(_STRAY.findall(piece := piece[: abs(length)])) > _MOST_STRAY:
        return None
    repaired = repair_json(piece if length > 0 else _CUT.sub("", piece), return_objects=True, skip_json_loads=True)
    value = json.loads(json.dumps(repaired))  # a character beyond 16 bits is written as two
    return _Stretch(value, at + len(piece), complete=length > 0)


def _closing(text: str) -> int | None:
    """Return where the first bracket of a text is closed; minus the length if nowhere; None if nested too deeply."""
    for steps in (_STEP, _BRACKETS):  # a quote that is not escaped may hide the end
        depth = 0
        for step in steps.finditer(text):
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(step.group(), 0)
            if depth > _DEEPEST:
                return None
            if not depth:
                return step.end()
    return -len(text)


def _shaped(value: Any, wanted: type) -> Any | None:
    if isinstance(value, wanted):
        return value
    if wanted is dict and isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return value[0]
    if wanted is list and isinstance(value, dict):
        lists = [each for each in value.values() if isinstance(each, list)]
        return lists[0] if len(lists) == 1 else None
    return None
