"""What a text asks to be done: one todo for each sentence that asks for something.

Keywords are looked for as whole words, and where they ask: "Fix the build", "we should add a test", "the
page needs a title". A sentence that reports ("I added a test"), or asks a question ("What should I eat?"), gives none;
a request in the form of a question ("Can you fix it?") does. The words are in `words.yaml`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from langchain_agentmem.audit.junk_rules import pattern

LONGEST = 500
"""Characters that a todo may have."""

_CODE_BLOCK = re.compile(r"^[ \t>]{0,12}(`{3,}|~{3,})(?s:.*?)(?:^[ \t>]{0,12}\1|\Z)", re.MULTILINE)
_LINE = re.compile(r"[\r\n\v\f\u0085\u2028\u2029]+")
_MARK = re.compile(r"[\s>]{0,40}(?:[-*+\u2022#]{1,6}|\(?\d{1,3}[.):])?\s+(?:\[ ?\]\s+)?(?:\[?TODO\b[\]:]*\s*)?")
_DONE = re.compile(r"\[[xX\u2713\u2714]\]")
_END = re.compile(r"(?<=[.!?\u2026])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)\s+|(?<=[\u3002\uff01\uff1f])")
_QUOTED = re.compile(r"`[^`]{0,300}+`|(?<!\w)\"[^\"]{0,300}+\"|\u201c[^\u201d]{0,300}+\u201d")


def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_VERB, _DOING = pattern("verb"), pattern("doing")
_STARTS = _compiled(rf"{pattern('starts')}{_VERB}(?!\s+(?:\d|\w+s are\b))")
_BEGS = _compiled(f"{pattern('begs')}{_VERB}|{pattern('begs_doing')}{_DOING}|{_DOING}.{{0,200}}\\bwould be\\b")
_WANTS, _WANTS_NOTHING = _compiled(pattern("wants")), _compiled(pattern("wants_nothing"))
_QUESTION = _compiled(pattern("question"))


def todos_in(text: str | None) -> list[str]:
    """Find what a text asks to be done.

    Args:
        text: What somebody wrote; None for nothing. Code blocks, and items of a list that are ticked, are left out.

    Returns:
        A sentence each, of at most 500 characters, in their order, none twice.
    """
    if not isinstance(text, str):
        return []
    found: dict[str, str] = {}
    for sentence in _sentences(text):
        if _asks(sentence):
            found.setdefault(todo_key(sentence), sentence)
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


def _sentences(text: str) -> Iterator[str]:
    for line in _LINE.split(_CODE_BLOCK.sub("\n", text)):
        rest = _MARK.sub("", f" {line}", count=1)
        if not _DONE.match(rest):
            for sentence in _END.split(rest):
                if plain := " ".join(sentence[: 2 * LONGEST].split()).strip("*_ "):
                    yield plain if len(plain) <= LONGEST else plain[:LONGEST].rsplit(" ", 1)[0]


def _asks(sentence: str) -> bool:
    plain = _QUOTED.sub("_", sentence)
    if _BEGS.search(plain):
        return True
    if plain.endswith("?") or _QUESTION.match(plain):
        return "please" in plain.casefold() and bool(_STARTS.match(plain))
    return bool(_STARTS.match(plain) or _WANTS.search(_WANTS_NOTHING.sub(" ", plain)))
