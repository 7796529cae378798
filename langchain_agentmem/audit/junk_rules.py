r"""What of an audit trail is junk, by rules that are data; and what a text asks to be done.

Junk is hidden with the names of the rules that say so, and never destroyed. Whether a short text is junk depends on the
other side: "ok" is an answer where something was asked for, and noise after "I see". So a rule may have a pattern for
the other side too, which lets the entry stay. And a todo, which has no reply, is no junk for that.

    JunkRule(name="heartbeat", pattern=r"^heartbeat \d+$", field="prompt")

Each sentence that asks for something is a todo. Keywords are looked for as whole words, and where they ask: "Fix the
build", "we should add a test", "the page needs a title". A sentence that reports ("I added a test"), or asks a question
("What should I eat?"), gives none; a request in the form of a question ("Can you fix it?") does. The words are in
`words.yaml`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Literal

from pydantic import Field, field_validator

from langchain_agentmem.audit.audit_entry import Kind
from langchain_agentmem.base.argument_checks import Options
from langchain_agentmem.base.data_tables import data_table
from langchain_agentmem.errors import safe_repr

WORDS = data_table("audit/words.yaml")


class JunkRule(Options):
    """By which entries are junk.

    Attributes:
        name: What the reason is called.
        pattern: A regular expression, searched for with letter case aside. Of a text of more than 4,000 characters only
            the first and the last 2,000 are looked at, with a word between them that says so.
        field: Where: in the "prompt", the "reply" (the default), in "both" of them, or in "either".
        kinds: Which kinds of entries it is for. Default: exchanges and calls, so that a rule about empty replies does
            not hide every todo.
        unless: A regular expression, or None. Where it is found the entry stays. It is searched for on the other side:
            in the prompt for a rule about replies, and the other way round; for "both" and "either" on both sides.

    Raises:
        InvalidInput: A pattern is no regular expression, or something else is none of what it can be.
    """

    name: str = Field(pattern=r"\S")
    pattern: str
    field: Literal["prompt", "reply", "both", "either"] = "reply"
    kinds: Sequence[Kind] = Field(default=("exchange", "call"), min_length=1)
    unless: str | None = None

    @field_validator("pattern", "unless")
    @classmethod
    def _is_regular_expression(cls, given: str | None) -> str | None:
        try:
            _compiled(given or "")
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"{safe_repr(given)} is no regular expression: {error}.") from error
        return given

    def hides(self, kind: Kind, prompt: str, reply: str) -> bool:
        """Whether an entry is junk by this rule.

        Args:
            kind: What the entry is.
            prompt: Its prompt.
            reply: Its reply.
        """
        if kind not in self.kinds:
            return False
        sides = {"prompt": ((prompt,), (reply,)), "reply": ((reply,), (prompt,))}
        looked, others = sides.get(self.field, ((prompt, reply), (prompt, reply)))
        found = (all if self.field == "both" else any)(map(_compiled(self.pattern).search, looked))
        return found and not (self.unless is not None and any(map(_compiled(self.unless).search, others)))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def reasons(
    kind: Kind, prompt: str | None, reply: str | None, rules: Iterable[JunkRule] | None = None
) -> tuple[str, ...]:
    """Why an entry is junk.

    Args:
        kind: What the entry is.
        prompt: What the user asked; None is as good as empty.
        reply: What the agent answered; None is as good as empty.
        rules: By which rules. Default: `RULES`.

    Returns:
        The names of the rules that hide it, each once, in the order of the rules; () if it is no junk.
    """
    asked, answered = _seen(prompt or ""), _seen(reply or "")
    found = (rule.name for rule in (RULES if rules is None else rules) if rule.hides(kind, asked, answered))
    return tuple(dict.fromkeys(found))


def _seen(text: str) -> str:
    """What rules see of a text, so that none takes them long. One of nothing but blanks is seen as a short one."""
    if len(text) <= 2 * _SEEN:
        return text
    return " " if _ALL_BLANK.match(text) else f"{text[:_SEEN]}\n(more)\n{text[-_SEEN:]}"


def _phrases(*names: str) -> str:
    """The pattern of any of some phrases, as a whole word."""
    found = "|".join("".join(WORDS["phrases"][name].splitlines()) for name in names)
    return "(?:" + found.replace("'", "['\u2019]?").replace(" ?", r"\s?").replace(" ", r"[\s,]+") + r")(?![^\W_])"


def pattern(name: str) -> str:
    """One of the patterns of the words of the audit trail."""
    return "".join(WORDS["patterns"][name].splitlines())


def _only(text: str, most: int = 8) -> str:
    """The pattern of a text that holds nothing but this, with marks and emoji around it."""
    return rf"\A[\W_]*+(?:{text}[\W_]*+){{1,{most}}}\Z"


_SEEN = 2_000
_BLANK = r"\A[\s\x00\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]*+"
_ALL_BLANK = re.compile(rf"{_BLANK}\Z")
_TALK = _phrases("answer", "praise", "thanks", "noise", "greeting")
_REST = r"(?>(?:(?!\b(?:but|because|I['\u2019](?:ve|ll)|I (?:have|will))\b)[^.!?\n\d`]){0,80})"
_CANNED = _only(rf"(?:{_TALK}|{_phrases('canned')}{_REST})")
_ASKS = pattern("asks")

RULES: tuple[JunkRule, ...] = (
    JunkRule(name="empty", pattern=rf"{_BLANK}\Z", field="either", kinds=("exchange",)),
    JunkRule(name="empty", pattern=rf"{_BLANK}\Z", kinds=("reference",)),
    JunkRule(name="empty", pattern=rf"{_BLANK}(?:\[TODO\]\s*+)?\Z", field="prompt", kinds=("todo",)),
    JunkRule(
        name="incomplete reflection",
        pattern=r"\A\s*+(?:\[SELF-REFLECTION\]\s*+)?(?:Agent status report\b\s*+)?"
        r"(?:[^\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{0,20}|(?s:.){0,6})\s*+\Z",
        kinds=("reflection",),
    ),
    JunkRule(
        name="small talk",
        pattern=rf"{_only(_TALK)}|\A(?=\s*\S)[\W_]+\Z",
        field="prompt",
        unless=rf"\A(?!{_CANNED}|[\W_]*+\Z)",
    ),
    JunkRule(
        name="test entry",
        pattern=rf"\A(?=(?s:.{{0,60}}?)\b{_phrases('test')}){_only(_phrases('test', 'beside_test', 'greeting'))}"
        r"|\A\W*([a-z;]{2,5})\1{1,40}[a-z;]?\W*\Z|\A\s*\[(?:test|debug)\][^?]{0,200}\Z",
        field="prompt",
        unless=r"(?s:.){100}|\b(?:passed|failed|error)|\d\d",
    ),
    JunkRule(name="filler", pattern=_only(_phrases("praise", "thanks", "noise")), kinds=("exchange",), unless=_ASKS),
    JunkRule(name="filler", pattern=_only(_TALK), kinds=("exchange",), unless=rf"\A(?!{_only(_TALK)})"),
    JunkRule(name="no words", pattern=r"\A\s*[.!?…-][\s.!?…-]*\Z", kinds=("exchange",)),
    JunkRule(name="no words", pattern=r"\A[\W_]+\Z", kinds=("exchange",), unless=_ASKS),
)
"""For empty prompts and replies, words that say nothing, reflections of at most 20 characters, tests and debugging."""


# -- todos -----------------------------------------------------------------------------------------------------------

LONGEST = 500
"""Characters that a todo may have."""

_CODE_BLOCK = re.compile(r"^[ \t>]{0,12}(`{3,}|~{3,})(?s:.*?)(?:^[ \t>]{0,12}\1|\Z)", re.MULTILINE)
_LINE = re.compile(r"[\r\n\v\f\u0085\u2028\u2029]+")
_MARK = re.compile(r"[\s>]{0,40}(?:[-*+\u2022#]{1,6}|\(?\d{1,3}[.):])?\s+(?:\[ ?\]\s+)?(?:\[?TODO\b[\]:]*\s*)?")
_DONE = re.compile(r"\[[xX\u2713\u2714]\]")
_END = re.compile(r"(?<=[.!?\u2026])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)\s+|(?<=[\u3002\uff01\uff1f])")
_QUOTED = re.compile(r"`[^`]{0,300}+`|(?<!\w)\"[^\"]{0,300}+\"|\u201c[^\u201d]{0,300}+\u201d")


_VERB, _DOING = pattern("verb"), pattern("doing")
_STARTS = _compiled(rf"{pattern('starts')}{_VERB}(?!\s+(?:\d|\w+s are\b))")
_BEGS = _compiled(f"{pattern('begs')}{_VERB}|{pattern('begs_doing')}{_DOING}|{_DOING}.{{0,200}}\\bwould be\\b")
_WANTS, _WANTS_NOTHING = _compiled(pattern("wants")), _compiled(pattern("wants_nothing"))
_QUESTION = _compiled(pattern("question"))


def todos_in(text: str) -> list[str]:
    """Find what a text asks to be done.

    Args:
        text: What somebody wrote. Code blocks, and items of a list that are ticked, are left out.

    Returns:
        A sentence each, of at most 500 characters, in their order, none twice.
    """
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
