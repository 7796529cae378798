"""What a text asks to be done: one todo for each sentence that asks for something.

Keywords are looked for as whole words, and where they ask: "Fix the build", "we should add a test", "the
page needs a title". A sentence that reports ("I added a test"), speaks of a thing ("the test is green") or asks a
question ("What should I eat?") gives none; a request in the form of a question ("Can you fix it?") does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from langchain_agentmem.audit.junk_rules import patterns

LONGEST = 500
"""Characters that a todo may have."""

_NEWLINE = re.compile(r"\r\n?|[\n\v\f\u0085\u2028\u2029]")
_FENCE = re.compile(r"[ \t>]{0,12}(`{3,}|~{3,})")
_BULLET = re.compile(
    r"[\s>]{0,40}(?:(?:[-*+\u2022\u25e6\u25aa\u2013\u2014\u00b7]|\(?\d{1,3}[.):]|\(?[a-z][.)]|#{1,6})(?=\s)\s+)?"
)
_BOX = re.compile(r"\[([ xX\u2713\u2714]?)\]\s+")
_LABEL = re.compile(r"(?:\[TODO\]|TODO\b)\s*[:\-\u2013]?\s*")
_NUMBER = re.compile(r"(?<=[\s:;,.])\(?\d{1,2}[.)]\s+(?=[^\W\d_])")
_END = re.compile(r"(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019)\]*_]*+(?=\s)|[\u3002\uff01\uff1f]")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|resp|incl|no|dr|mr|mrs|ms|st|[a-z])\.\Z", re.IGNORECASE
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]+")

# What is not looked at for keywords: code, addresses, paths, what is quoted.
_QUOTED = re.compile(r"`[^`]{0,300}+`|(?<!\w)\"[^\"]{0,300}+\"|\u201c[^\u201d]{0,300}+\u201d|~~[^~]{0,300}+~~")
_TOKEN = re.compile(r"(?<!\S)(?:[^\s@/\\.]*+[@/\\.]|\S{201})\S*+")  # the others are none of these
_MARKS = "\"'()[]<>,;:.!?*\u2026\u3002\uff01\uff1f"
_ADDRESS = re.compile(r"\w{1,20}://|www\.|[^@]{1,100}@.|[\w.~-]{0,80}[/\\].{0,200}\.\w|[\w-]{1,100}\.\w", re.DOTALL)
_LONGEST_WORD = 200

_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in patterns("todos").items()}
_CLOSING = "\"')]*_ "
_LIST_FOLLOWS = re.compile(r":[*_\s]*\Z")


def todos_in(text: str | None) -> list[str]:
    """Find what a text asks to be done.

    Args:
        text: What somebody wrote; None for nothing. Code blocks are left out.

    Returns:
        A sentence each, of at most 500 characters, in their order, none twice. The items of a list give one each; those
        that say only what, under a line that asks ("Please add:"), say it with that line.
    """
    if not isinstance(text, str):
        return []
    found: dict[str, str] = {}
    for sentence in _asking(text):
        found.setdefault(todo_key(sentence), sentence)
    found.pop("", None)
    return list(found.values())


def todo_key(text: str) -> str:
    """Give what two todos have in common that are the same.

    Args:
        text: A todo.

    Returns:
        The text with letter case, spaces and the marks at its end aside.
    """
    plain = " ".join(unicodedata.normalize("NFC", text).casefold().split())
    return plain.rstrip(" .!?\u2026,;:\u3002\uff01\uff1f")


def _asking(text: str) -> Iterator[str]:
    header, listed = "", False
    for line, is_item in _lines(text):
        if not line or not (header or _PATTERNS["any"].search(line)):
            continue
        if header and not is_item:
            if not listed:
                yield header
            header, listed = "", False
        for sentence in _sentences(line):
            asks = _asks(sentence)
            if asks and not is_item and _LIST_FOLLOWS.search(sentence):
                header, listed = sentence, False
            elif asks:
                yield sentence
            elif header and is_item:
                yield f"{header} {sentence}"[:LONGEST].rstrip()
            listed = listed or is_item
    if header and not listed:
        yield header


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """The lines that are prose, without what marks them, and whether each is an item of a list."""
    fence = ""
    for raw in _NEWLINE.split(text):
        mark = _FENCE.match(raw)
        if fence:
            if mark and mark[1].startswith(fence):
                fence = ""
            continue
        if mark:
            fence = mark[1]
            continue
        bullet = _BULLET.match(raw)
        rest = raw[bullet.end() :] if bullet else raw
        is_item = bool(bullet and bullet.group().strip(" \t>"))
        if box := _BOX.match(rest):
            if box[1].strip():  # done already
                yield "", True
                continue
            rest, is_item = rest[box.end() :], True
        if label := _LABEL.match(rest):
            rest = rest[label.end() :]
        yield _CONTROL.sub(" ", rest), is_item


def _sentences(line: str) -> Iterator[str]:
    """The sentences of a line, none cut within code, an address or a quotation."""
    hidden = _hidden(line) if len(line) > 1 else line
    ends = sorted(
        {match.end() for match in _END.finditer(hidden) if not _is_abbreviation(line, match)}
        | {match.start() for match in _NUMBER.finditer(hidden)}
    )
    start = 0
    for end in [*ends, len(line)]:
        sentence = line[start:end]
        start = end
        if len(sentence) > LONGEST:
            sentence = _cut(sentence.lstrip()[: LONGEST + 1])
        sentence = _NUMBER.sub("", f" {sentence}", count=1) if _NUMBER.match(f" {sentence}", 1) else sentence
        if sentence := " ".join(sentence.split()).strip("*_ "):
            yield sentence


def _is_abbreviation(text: str, end: re.Match[str]) -> bool:
    return end.group() == "." and bool(_ABBREVIATION.search(text[max(0, end.start() - 12) : end.end()]))


def _cut(text: str) -> str:
    """The beginning of a text, up to a space where there is one."""
    if len(text) <= LONGEST:
        return text
    space = text.rfind(" ", LONGEST // 2, LONGEST)
    return text[: space if space > 0 else LONGEST]


def _hidden(text: str) -> str:
    """A text in which what is no prose is as long as it was, and holds no keyword and no end of a sentence."""
    return _TOKEN.sub(_without_address, _QUOTED.sub(lambda match: "_" * len(match.group()), text))


def _without_address(match: re.Match[str]) -> str:
    token = match.group()
    bare = token.strip(_MARKS)
    if len(bare) <= _LONGEST_WORD and not _ADDRESS.match(bare):
        return token
    at = token.find(bare)
    return f"{token[:at]}{'_' * len(bare)}{token[at + len(bare) :]}"


def _asks(sentence: str) -> bool:
    plain = _hidden(sentence).replace("\u2019", "'")
    if plain.rstrip(_CLOSING).endswith("?") or _PATTERNS["question"].match(plain):
        if _PATTERNS["request"].search(plain):
            return True
        return bool(_PATTERNS["starts"].match(plain) and _PATTERNS["asked_nicely"].search(plain))
    if _PATTERNS["thing"].match(plain):
        return bool(
            _PATTERNS["wants"].search(plain[plain.find(" ") + 1 :]) and not _PATTERNS["wants_nothing"].search(plain)
        )
    if _PATTERNS["starts"].match(plain) or _PATTERNS["trigger"].search(plain) or _PATTERNS["would_be"].search(plain):
        return True
    return bool(_PATTERNS["wants"].search(_PATTERNS["wants_nothing"].sub(" ", plain)))
