"""Tolerant reading of the JSON in a model's answer.

Models wrap JSON in prose and fences, quote as Python does, forget commas, escape nothing, and stop in the middle.
json-repair reads all that. It receives one part of the text at a time, from a bracket to its closing bracket. Parts
that are long, deeply nested, or full of stray quotes are not repaired: that would be slow, and an attacker may have
written the text. Python's own parser reads strict JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from json_repair import repair_json

_MAX_DEPTH = 64  # recursive code fails for deeper nesting, which no answer needs
_MAX_STRAY_QUOTES = 100  # quotes between words; for each, json-repair may read the rest of the text
_STRAY_QUOTE = re.compile(r"(?<![{\[,:\s\\])\"(?!\s*[}\],:])|(?<=\w\s)\"(?!\s*[}\],:])")
_MAX_MISSES = 100  # places of a text where JSON seems to begin, but does not

_JSON_START = re.compile(  # matches the beginning of JSON, but not prose in brackets
    r"""(?= \{ \s* (?: \Z | ["'\u201c}] | [\w$-]+ \s* : | // | /\* | \# )
    | \[ \s* (?: ["'\u201c{\[\]\d-] | true | false | null | True | False | None | // | /\* | \# ))""",
    re.VERBOSE,
)
_FENCED_START = re.compile(rf"```[ \t]*[\w+-]*\s*{_JSON_START.pattern}", re.VERBOSE)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[{}\[\]]', re.DOTALL)  # a text in quotes, or a bracket
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
        text: The answer. Reasoning begins on a line of its own. Its closing or its opening tag may be missing.

    Returns:
        The answer, including tags inside its JSON and tags that a sentence mentions.
    """
    answer = _REASONING.sub("", text)
    lone = _UP_TO_LONE_END.match(answer)
    return answer[lone.end() :] if lone and answer[lone.end() :].strip() else answer


def read_json(text: str, *, wanted: type = dict) -> Any | None:
    """Find the JSON in a model's answer.

    Args:
        text: The answer: JSON alone, in a fence or within prose, in Python's notation, with trailing commas, comments,
            unescaped quotes and line ends, or cut off.
        wanted: The type to find, `dict` or `list`. For `dict`, a list of one object is read as that object. Default:
            `dict`.

    Returns:
        The first complete value that is not empty; else the first value that is cut off; else an empty value; None if
        there is no value. No value is nested deeper than 64. Only strict JSON may have more than 100,000 characters.
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
    """Return all JSON objects in a model's answer, beginning with its first fence with JSON.

    Args:
        text: The answer, as for `read_json`. Without such a fence, the whole text is read.
    """
    fence = _FENCED_START.search(text)
    answer = text if fence is None else text[fence.end() :]
    return [found for found, _ in _find_values(answer, _JSON_START) if isinstance(found, dict)]


def is_cut_off(text: str) -> bool:
    """Return whether JSON in a text is cut off: its last bracket is an opening one."""
    return text.rfind("{") > text.rfind("}") or text.rfind("[") > text.rfind("]")


def _find_values(text: Any, pattern: re.Pattern[str]) -> Iterator[tuple[Any, bool]]:
    """Yield JSON values that begin where a pattern ends, and whether each is complete."""
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
        Its value, its end, and whether it is complete; None if it is nested too deeply or has too many stray quotes.
    """
    with suppress(ValueError, RecursionError):
        value, end = _DECODER.raw_decode(text, at)
        return None if _json_end(text[at:end]) is None else (value, end, True)
    piece = text[at : at + 100_000]  # the repair of longer text is too slow
    length = _json_end(piece)
    if length is None or len(_STRAY_QUOTE.findall(piece := piece[: abs(length)])) > _MAX_STRAY_QUOTES:
        return None
    repaired = repair_json(piece, return_objects=True, skip_json_loads=True)
    value = json.loads(json.dumps(repaired))  # joins surrogate pairs
    return value, at + len(piece), length > 0


def _json_end(text: str) -> int | None:
    """Return the end of the JSON at the beginning of a text.

    The result is minus the length if no bracket closes it, and None if it is nested too deeply.
    """
    for steps in (_TOKEN, _BRACKETS):  # an unescaped quote may hide the end from the first pattern
        depth = 0
        for step in steps.finditer(text):
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(step.group(), 0)
            if depth > _MAX_DEPTH:
                return None
            if not depth:
                return step.end()
    return -len(text)
