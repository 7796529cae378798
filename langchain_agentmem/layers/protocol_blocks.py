r"""The blocks that a model writes among its words: where they are, what they say, and the words without them.

    I will remember that. <memory_update>{"mem_core_set": {"user_name": "Ada"}}</memory_update>

Models forget to end a block, end it as JavaScript does (`<\/memory_update>`), put it in a code fence, or stop in the
middle. A block whose JSON is complete ends behind it, whatever its texts contain. What stands in `memory_results`,
which only the memory itself writes, is nobody's update. Every reply is read a bounded number of times.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.language_models.lenient_json import read_json
from langchain_agentmem.layers.normalization import all_pairs

UPDATE, RESULTS = "memory_update", "memory_results"
"""What the marks are called: those of the model, and those of the memory."""

_MARK = re.compile(
    # A mark, or the beginning of one that was not ended before what it is to hold.
    rf"<(\\?/)?({UPDATE}|{RESULTS})(?![\w-])(?:[^<>\n{{]{{0,200}}(>)|(?=\s{{0,20}}[\"\[{{]|[^<>\n{{]{{0,200}}\{{))",
    re.IGNORECASE,
)
_BEGUN = re.compile(r"<(?:\\?/)?mem(?:o(?:r(?:y(?:_\w*)?)?)?)?\Z", re.IGNORECASE)
_BEFORE_JSON = re.compile(r"\s*(?:```[ \t]*\w*\s*)?(?=[{\[])")
FENCE = "```"
_BLANKS = re.compile(r"\s*")
_CUT_OFF = re.compile(r"[\s,]*(?=\{)")
_AFTER_JSON = re.compile(r"(?:\s*\])*(?:\s*```)?")
_FENCE_BEFORE = re.compile(r"```[ \t]*\w*[ \t]*\n?[ \t]*\Z")
_FENCE_AFTER = re.compile(r"\s*```")
_LONGEST_FENCE = 40
_READINGS = 4
"""How often, on the whole, the JSON of a reply may be tried to be read strictly."""

_CUT = f"The reply was cut off within a {UPDATE}, and its last piece was not done. Write less at once."

_strict = json.JSONDecoder(strict=False, object_pairs_hook=all_pairs)


class Block(NamedTuple):
    """A block, or a mark that belongs to none.

    Attributes:
        name: What its marks are called.
        start: Where it begins.
        end: Where it ends.
        updates: The JSON objects in it.
        problem: What is wrong with it, or None.
    """

    name: str
    start: int
    end: int
    updates: tuple[Mapping[str, Any], ...] = ()
    problem: str | None = None


class _Mark(NamedTuple):
    start: int
    end: int
    name: str
    ends: bool
    whole: bool


def blocks_in(text: str) -> list[Block]:
    """The blocks of a reply, in its order."""
    return list(_Scan(text).blocks())


def without(text: str, blocks: list[Block]) -> list[tuple[int, int]]:
    """The spans of a reply that are to go: its blocks, with the code fence around one that is alone in it.

    Args:
        text: The reply.
        blocks: Its blocks.

    Returns:
        The spans in order; they do not overlap.
    """
    spans: list[tuple[int, int]] = []
    past = counted = fences = 0
    for block in blocks:
        start, end = block.start, block.end
        before = _FENCE_BEFORE.search(text, max(past, start - _LONGEST_FENCE), start)
        after = _FENCE_AFTER.match(text, end)
        if before and after:
            fences += text.count(FENCE, counted, before.start())
            counted = before.start()
            if fences % 2 == 0:  # this one begins code, it does not end some
                fences, counted = fences + 2, after.end()
                start, end = before.start(), after.end()
        spans.append((start, end))
        past = end
    if begun := _BEGUN.search(text, max(past, len(text) - _LONGEST_FENCE)):
        spans.append((begun.start(), len(text)))
    return spans


def cut(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """A text without some spans. A blank takes the place of each, or an empty line if it had a line to itself.

    Args:
        text: The text.
        spans: What is to go, in order.
    """
    if not spans:
        return text
    pieces: list[str] = []
    gap = ""
    for start, end in zip([0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)], strict=True):
        piece = text[start:end]
        words = piece.lstrip() if start else piece
        gap += piece[: len(piece) - len(words)]
        if not words.strip():
            continue
        indent = gap.rpartition("\n")[2] if "\n" in gap else ""
        if pieces:
            pieces.append("\n\n" if "\n" in gap else " ")
        kept = words.rstrip()
        pieces += [indent, kept]
        gap = words[len(kept) :]
    return "".join(pieces)


def unmarked(text: str) -> str:
    """A text without any mark: where two halves of one came together, it is written as text."""
    return _MARK.sub(lambda mark: "&lt;" + mark.group()[1:], text)


class _Scan:
    """Reads a reply once, from the first mark to the last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._marks = [
            _Mark(found.start(), found.end(), found.group(2).lower(), bool(found.group(1)), bool(found.group(3)))
            for found in _MARK.finditer(text)
        ]
        self._starts = [mark.start for mark in self._marks]
        self._ends_of_results = [mark for mark in self._marks if mark.ends and mark.name == RESULTS]
        self._allowance = _READINGS * len(text) + 1_000

    def blocks(self) -> Iterator[Block]:
        past = 0
        for mark in self._marks:
            if mark.start < past:
                continue
            if mark.ends:
                block = Block(mark.name, mark.start, mark.end)
            elif mark.name == RESULTS:
                block = self._results(mark)
            else:
                block = self._update(mark)
            past = block.end
            yield block

    def _results(self, mark: _Mark) -> Block:
        """What the model only pretends to have been told."""
        place = bisect_left(self._ends_of_results, mark.end, key=lambda each: each.start)
        if place < len(self._ends_of_results):
            return Block(RESULTS, mark.start, self._ends_of_results[place].end)
        _, end = self._objects(mark.end)
        return Block(RESULTS, mark.start, end if end is not None else self._up_to_next(mark))

    def _update(self, mark: _Mark) -> Block:
        if not mark.whole:
            return self._unended(mark)
        start = mark.end
        after = self._closing(start)
        if after is not None and not _BEFORE_JSON.match(self._text, start):
            start = self._text.find("{", start, after.start)
        updates, end = self._objects(start) if start >= 0 else ([], None)
        while end is not None:
            after = self._closing(end)
            start = self._further(end, after)
            if start < 0:
                return Block(UPDATE, mark.start, end if after is None else after.end, tuple(updates))
            more, end = self._objects(start)
            updates += more
        if not updates:
            start = mark.end
        if after is not None:
            return self._read(mark.start, start, after.start, after.end, updates)
        end = self._limit(start) if updates else self._up_to_next(mark)
        if end == mark.end:  # it is only spoken of
            return Block(UPDATE, mark.start, end)
        return self._read(mark.start, start, end, end, updates)

    def _unended(self, mark: _Mark) -> Block:
        """A block whose first mark was not ended: nobody knows what was meant to be in it, so the model is told."""
        after = self._closing(mark.end)
        if after is not None:
            end = after.end
        else:
            begun, limit = _BLANKS.match(self._text, mark.end).end(), self._limit(mark.end)  # type: ignore[union-attr]
            line = self._text.find("\n", begun, limit)
            upto = limit if line < 0 else line
            end = self._text.rfind(">", begun, upto) + 1 or upto
        said = self._text[mark.start : min(end, mark.start + 100)]
        return Block(UPDATE, mark.start, end, problem=f"A {UPDATE} is not begun with <{UPDATE}>: {safe_repr(said)}.")

    def _further(self, at: int, after: _Mark | None) -> int:
        """Where another object of the same block begins; below zero if there is none."""
        if after is not None:
            return self._text.find("{", at, after.start)
        begun = _CUT_OFF.match(self._text, at)
        return begun.end() if begun else -1

    def _read(self, start: int, said_from: int, upto: int, end: int, before: Sequence[Any] = ()) -> Block:
        """A block whose JSON is not quite JSON."""
        said = self._text[said_from:upto].strip()
        found = read_json(said) if said else {}
        if said and not found:
            return Block(
                UPDATE, start, end, tuple(before), f"A {UPDATE} holds no JSON object: {safe_repr(said[:100])}."
            )
        if upto < end or said.endswith(("}", "]", FENCE)):
            return Block(UPDATE, start, end, (*before, found or {}))
        return Block(UPDATE, start, end, (*before, _without_last(found) or {}), _CUT)

    def _objects(self, start: int) -> tuple[list[Mapping[str, Any]], int | None]:
        """The JSON objects that stand at a place, and where they end; None if there is none, or one is not JSON."""
        found: list[Mapping[str, Any]] = []
        end: int | None = None
        opening = _BEFORE_JSON.match(self._text, start)
        while opening and self._text[opening.end()] == "[":
            opening = _BEFORE_JSON.match(self._text, opening.end() + 1)
        while opening and self._allowance > 0:
            try:
                value, end = _strict.raw_decode(self._text, opening.end())
            except (ValueError, RecursionError) as error:
                self._allowance -= self._cost(error, opening.end())
                break
            found.append(value)
            opening = _CUT_OFF.match(self._text, end)
        if end is not None and (rest := _AFTER_JSON.match(self._text, end)) and start < end:
            begun = self._text[start : start + _LONGEST_FENCE].lstrip()[:1]
            end = rest.end() if begun in ("[", "`") else end
        return found, end

    def _cost(self, error: Exception, at: int) -> int:
        """What an attempt has read, in characters; Python counts the lines before an error, too."""
        if isinstance(error, json.JSONDecodeError) and not error.msg.startswith("Unterminated"):
            return error.pos - at + error.pos
        return len(self._text) + at  # it may have read to the end

    def _closing(self, at: int) -> _Mark | None:
        """The mark that ends an update, if it is the next one."""
        after = self._next(at)
        return after if after is not None and after.ends and after.name == UPDATE else None

    def _next(self, at: int) -> _Mark | None:
        place = bisect_left(self._starts, at)
        return self._marks[place] if place < len(self._marks) else None

    def _up_to_next(self, mark: _Mark) -> int:
        """The end of a block that was not ended: the next mark or the end of the text, if it began with JSON."""
        if not _BEFORE_JSON.match(self._text, mark.end):
            return mark.end
        return self._limit(mark.end)

    def _limit(self, at: int) -> int:
        after = self._next(at)
        return len(self._text) if after is None else after.start


def _without_last(value: Any) -> Any:
    """What was said for certain by somebody who was cut off: everything but the last piece; None if nothing is left."""
    if isinstance(value, dict) and value:
        *others, last = value
        rest = _without_last(value[last])
        return {**{key: value[key] for key in others}, **({} if rest is None else {last: rest})} or None
    if isinstance(value, list) and value:
        rest = _without_last(value[-1])
        return [*value[:-1], *([] if rest is None else [rest])] or None
    return None
