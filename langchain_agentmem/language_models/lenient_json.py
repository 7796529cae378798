"""Tolerant reading of the JSON in a model's answer.

Models wrap JSON in prose and Markdown fences, use Python's quotes, forget commas and escapes, and stop in the middle.
Python's own parser reads strict JSON. The package json-repair reads other JSON. It receives one part of the text at a
time, from a bracket to its closing bracket.

The repair of some texts is slow, and an attacker may have written the text. So a long part is cut before its repair. A
part that is deeply nested or full of stray quotes is not repaired.
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
_MAX_MISSES = 100  # after so many positions where JSON seems to begin but cannot be read, the search ends

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
_OPENING_TAG = (
    rf"(?:<{_TAG_NAMES}(?:\s[^<>]*)?>|\[THINK\]|\u25c1think\u25b7|<\|(?:begin_of_thought|START_THINKING)\|>"
    r"|<\|channel\|>analysis<\|message\|>)"
)
_CLOSING_TAG = (
    rf"(?:</{_TAG_NAMES}>|\[/THINK\]|\u25c1/think\u25b7|<\|(?:end_of_thought|END_THINKING)\|>"
    r"|<\|channel\|>final[^<]*(?:<\|constrain\|>\w+)?<\|message\|>)"
)
_REASONING = re.compile(rf"(?:\A\s*|\n[ \t]*){_OPENING_TAG}.*?(?:{_CLOSING_TAG}|\Z)", re.IGNORECASE | re.DOTALL)
_UP_TO_CLOSING_TAG = re.compile(rf".*{_CLOSING_TAG}(?=\s*(?:\n|[{{\[]|```))", re.IGNORECASE | re.DOTALL)


def strip_reasoning(text: str) -> str:
    """Return a model's answer without the reasoning that it wrote between tags.

    Args:
        text: The answer. Its reasoning begins on a line of its own. The opening or the closing tag may be missing.

    Returns:
        The answer. Tags inside its JSON and tags that a sentence mentions are kept.
    """
    answer = _REASONING.sub("", text)
    match = _UP_TO_CLOSING_TAG.match(answer)  # of reasoning without an opening tag
    return answer[match.end() :] if match and answer[match.end() :].strip() else answer


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
    fallbacks = []
    for pattern in (_FENCED_START, _JSON_START):
        for parsed, is_complete in _find_values(text, pattern):
            value = parsed[0] if wanted is dict and isinstance(parsed, list) and len(parsed) == 1 else parsed
            if not isinstance(value, wanted):
                continue
            if value and is_complete:
                return value
            fallbacks.append(value)
    return next(filter(None, fallbacks), fallbacks[0] if fallbacks else None)


def read_objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects in a model's answer, except those within other values.

    Args:
        text: The answer, as for `read_json`. Text before the first fence with JSON is ignored.
    """
    fence = _FENCED_START.search(text)
    answer = text if fence is None else text[fence.end() :]
    return [value for value, _ in _find_values(answer, _JSON_START) if isinstance(value, dict)]


def is_cut_off(text: str) -> bool:
    """Return whether the last brace or the last square bracket of a text is an opening one.

    If so, the JSON in the text is probably cut off.
    """
    return text.rfind("{") > text.rfind("}") or text.rfind("[") > text.rfind("]")


def _find_values(text: Any, pattern: re.Pattern[str]) -> Iterator[tuple[Any, bool]]:
    """Yield the JSON values at the matches of a pattern, and whether each is complete.

    A value begins where the match ends. The search for the next value begins after the value.
    """
    text = text.strip().removesuffix("```").rstrip() if isinstance(text, str) else ""
    position = misses = 0
    while misses < _MAX_MISSES and (match := pattern.search(text, position)):
        if (result := _read_value(text, match.end())) is not None:
            value, position, is_complete = result
            yield value, is_complete
        else:
            misses += 1
            position = match.end() + 1


def _read_value(text: str, start: int) -> tuple[Any, int, bool] | None:
    """Read the JSON that begins at a bracket of a text.

    Returns:
        The value, the index of its end, and whether it is complete. None if it is nested too deeply, or has too many
        stray quotes.
    """
    with suppress(ValueError, RecursionError):
        value, end = _DECODER.raw_decode(text, start)
        return None if _json_end(text[start:end]) is None else (value, end, True)
    part = text[start : start + 100_000]  # the repair of a longer text is too slow
    length = _json_end(part)
    if length is None or len(_STRAY_QUOTE.findall(part := part[: abs(length)])) > _MAX_STRAY_QUOTES:
        return None
    repaired = repair_json(part, return_objects=True, skip_json_loads=True)
    value = json.loads(json.dumps(repaired))  # joins each surrogate pair to one character
    return value, start + len(part), length > 0  # a negative length means that no bracket closes the JSON


def _json_end(text: str) -> int | None:
    """Return the index of the end of the JSON with which a text begins.

    If no bracket closes the JSON, return the negative length of the text. If it is nested too deeply, return None.
    """
    for pattern in (_TOKEN, _BRACKETS):  # an unescaped quote may hide the end from `_TOKEN`
        depth = 0
        for match in pattern.finditer(text):
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(match.group(), 0)
            if depth > _MAX_DEPTH:
                return None
            if not depth:
                return match.end()
    return -len(text)
