"""Tolerant reading of the JSON in a model's answer.

Models wrap JSON in prose and fences, use Python's quotes, forget commas and escapes, and stop in the middle. Python's
own parser reads strict JSON. The package json-repair reads the rest. It receives one part of the text at a time, from
a bracket to its closing bracket.

The repair of some texts is slow, and an attacker may have written the text. So a long part is cut first. A part that
is deeply nested or full of stray quotes is not repaired.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from json_repair import repair_json

_MAX_DEPTH = 64  # no answer needs deeper nesting, and recursive code may fail for it
_MAX_STRAY_QUOTES = 100  # quotes between words; for each of them, json-repair may read the rest of the text
_STRAY_QUOTE = re.compile(r"(?<![{\[,:\s\\])\"(?!\s*[}\],:])|(?<=\w\s)\"(?!\s*[}\],:])")
_MAX_MISSES = 100  # the most places of a text where JSON seems to begin, but is not read

_JSON_START = re.compile(  # matches the beginning of JSON, but not prose in brackets
    r"""(?= \{ \s* (?: \Z | ["'\u201c}] | [\w$-]+ \s* : | // | /\* | \# )
    | \[ \s* (?: ["'\u201c{\[\]\d-] | true | false | null | True | False | None | // | /\* | \# ))""",
    re.VERBOSE,
)
_FENCED_START = re.compile(rf"```[ \t]*[\w+-]*\s*{_JSON_START.pattern}", re.VERBOSE)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[{}\[\]]', re.DOTALL)  # a quoted string, or a bracket
_BRACKETS = re.compile(r"[{}\[\]]")
_DECODER = json.JSONDecoder(strict=False)

_TAG_NAMES = r"(?:\w+:)?(?:ant)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|analysis|reflection|scratchpad)"
_OPENS = (
    rf"(?:<{_TAG_NAMES}(?:\s[^<>]*)?>|\[THINK\]|\u25c1think\u25b7|<\|(?:begin_of_thought|START_THINKING)\|>"
    r"|<\|channel\|>analysis<\|message\|>)"
)
_CLOSES = (
    rf"(?:</{_TAG_NAMES}>|\[/THINK\]|\u25c1/think\u25b7|<\|(?:end_of_thought|END_THINKING)\|>"
    r"|<\|channel\|>final[^<]*(?:<\|constrain\|>\w+)?<\|message\|>)"
)
_REASONING = re.compile(rf"(?:\A\s*|\n[ \t]*){_OPENS}.*?(?:{_CLOSES}|\Z)", re.IGNORECASE | re.DOTALL)
_UP_TO_LONE_END = re.compile(rf".*{_CLOSES}(?=\s*(?:\n|[{{\[]|```))", re.IGNORECASE | re.DOTALL)


def strip_reasoning(text: str) -> str:
    """Return a model's answer without the reasoning that it wrote between tags.

    Args:
        text: The answer. Its reasoning begins on a line of its own. The opening or the closing tag may be missing.

    Returns:
        The answer. Tags inside its JSON and tags that a sentence mentions are kept.
    """
    answer = _REASONING.sub("", text)
    lone = _UP_TO_LONE_END.match(answer)
    return answer[lone.end() :] if lone and answer[lone.end() :].strip() else answer


def read_json(text: str, *, wanted: type = dict) -> Any | None:
    """Find the JSON in a model's answer.

    Args:
        text: The answer. The JSON may stand alone, in a fence, or within prose. It may be in Python's notation, or be
            cut off. It may have trailing commas, comments, and unescaped quotes and line ends.
        wanted: The type to find, `dict` or `list`. For `dict`, a list of one object is read as that object. Default:
            `dict`.

    Returns:
        The first complete value that is not empty; else the first value that is cut off; else an empty value. None if
        there is no value. A value has at most 64 levels. JSON that is not strict is cut after 100,000 characters.
    """
    others = []
    for pattern in (_FENCED_START, _JSON_START):
        for found, is_complete in _find_values(text, pattern):
            value = found[0] if wanted is dict and isinstance(found, list) and len(found) == 1 else found
            if not isinstance(value, wanted):
                continue
            if value and is_complete:
                return value
            others.append(value)
    return next(filter(None, others), others[0] if others else None)


def read_objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects in a model's answer, except those within other values.

    Args:
        text: The answer, as for `read_json`. Text before the first fence with JSON is ignored.
    """
    fence = _FENCED_START.search(text)
    answer = text if fence is None else text[fence.end() :]
    return [found for found, _ in _find_values(answer, _JSON_START) if isinstance(found, dict)]


def is_cut_off(text: str) -> bool:
    """Return whether the last brace or the last square bracket of a text opens.

    If so, the JSON in the text is probably cut off.
    """
    return text.rfind("{") > text.rfind("}") or text.rfind("[") > text.rfind("]")


def _find_values(text: Any, pattern: re.Pattern[str]) -> Iterator[tuple[Any, bool]]:
    """Yield the JSON values at the matches of a pattern, and whether each is complete.

    A value begins where the match ends. The search for the next value begins after the value.
    """
    text = text.strip().removesuffix("```").rstrip() if isinstance(text, str) else ""
    at = misses = 0
    while misses < _MAX_MISSES and (begin := pattern.search(text, at)):
        if (found := _read_value(text, begin.end())) is not None:
            value, at, is_complete = found
            yield value, is_complete
        else:
            misses += 1
            at = begin.end() + 1


def _read_value(text: str, at: int) -> tuple[Any, int, bool] | None:
    """Read the JSON that begins at a bracket of a text.

    Returns:
        The value, the index of its end, and whether it is complete. None if it is nested too deeply, or has too many
        stray quotes.
    """
    with suppress(ValueError, RecursionError):
        value, end = _DECODER.raw_decode(text, at)
        return None if _json_end(text[at:end]) is None else (value, end, True)
    piece = text[at : at + 100_000]  # the repair of a longer text is too slow
    length = _json_end(piece)
    if length is None or len(_STRAY_QUOTE.findall(piece := piece[: abs(length)])) > _MAX_STRAY_QUOTES:
        return None
    repaired = repair_json(piece, return_objects=True, skip_json_loads=True)
    value = json.loads(json.dumps(repaired))  # unites each surrogate pair to one character
    return value, at + len(piece), length > 0


def _json_end(text: str) -> int | None:
    """Return the index of the end of the JSON with which a text begins.

    If no bracket closes the JSON, return the negative length of the text. If it is nested too deeply, return None.
    """
    for steps in (_TOKEN, _BRACKETS):  # an unescaped quote may hide the end from `_TOKEN`
        depth = 0
        for step in steps.finditer(text):
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(step.group(), 0)
            if depth > _MAX_DEPTH:
                return None
            if not depth:
                return step.end()
    return -len(text)
