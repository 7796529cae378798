r"""Rules that classify audit entries as junk, and the detection of todos in a text.

A junk entry is hidden and never deleted. It stores the names of the rules that match. A short prompt or reply can be
junk or not, depending on the other text of the entry: "ok" answers a question, but is noise after "I see". So a rule
may have a second pattern, `unless`, for the other text. If that pattern matches, the rule does not apply.

    JunkRule(name="heartbeat", pattern=r"^heartbeat \d+$", field="prompt")

Each sentence that requests something is a todo: "Fix the build", "we should add a test", "the page needs a title". A
request in the form of a question is a todo, too: "Can you fix it?". A report ("I added a test") or another question
("What should I eat?") is not. The keywords are in `words.yaml`. They match whole words only.
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
from langchain_agentmem.base.data_tables import load_data_table
from langchain_agentmem.errors import safe_repr

WORDS = load_data_table("audit/words.yaml")
"""The phrases and patterns of this module and of `audit_report`."""


class JunkRule(Options):
    """A rule that classifies entries as junk by their texts.

    Attributes:
        name: The name of the rule. The `junk` of a matching entry lists it.
        pattern: A case-insensitive regular expression. In a text of more than 4,000 characters, `junk_reasons` applies
            it only to the first and the last 2,000, joined by a line "(more)".
        field: The text to search: "prompt", "reply", "both" if both must match, or "either". Default: "reply".
        kinds: The kinds of entries that the rule applies to. Default: exchanges and calls, so that a rule for empty
            replies does not hide every todo.
        unless: A case-insensitive regular expression. If it matches, the rule does not apply. It is searched in the
            prompt if `field` is "reply", and in the reply if `field` is "prompt". Otherwise, a match in either text
            suffices. Default: None.

    Raises:
        InvalidInput: A pattern is not a regular expression, or another value is invalid.
    """

    name: str = Field(pattern=r"\S")
    pattern: str
    field: Literal["prompt", "reply", "both", "either"] = "reply"
    kinds: Sequence[Kind] = Field(default=("exchange", "call"), min_length=1)
    unless: str | None = None

    @field_validator("pattern", "unless")
    @classmethod
    def _check_pattern(cls, value: str | None) -> str | None:
        try:
            _compile(value or "")
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"Invalid regular expression {safe_repr(value)}: {error}.") from error
        return value

    def hides(self, kind: Kind, prompt: str, reply: str) -> bool:
        """Return whether this rule classifies an entry as junk.

        Args:
            kind: The kind of the entry.
            prompt: The prompt.
            reply: The reply.
        """
        if kind not in self.kinds:
            return False
        text_pairs = {"prompt": ((prompt,), (reply,)), "reply": ((reply,), (prompt,))}
        texts, unless_texts = text_pairs.get(self.field, ((prompt, reply), (prompt, reply)))
        is_match = (all if self.field == "both" else any)(map(_compile(self.pattern).search, texts))
        return is_match and not (self.unless is not None and any(map(_compile(self.unless).search, unless_texts)))


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def junk_reasons(
    kind: Kind, prompt: str | None, reply: str | None, rules: Iterable[JunkRule] | None = None
) -> tuple[str, ...]:
    """Return the names of the rules that classify an entry as junk.

    Args:
        kind: The kind of the entry.
        prompt: The prompt; None is treated as empty.
        reply: The reply; None is treated as empty.
        rules: The rules. Default: `RULES`.

    Returns:
        The names of the matching rules, without repetition, in the order of the rules. () if the entry is not junk.
    """
    texts = _shorten(prompt or ""), _shorten(reply or "")
    names = (rule.name for rule in (RULES if rules is None else rules) if rule.hides(kind, *texts))
    return tuple(dict.fromkeys(names))


def _shorten(text: str) -> str:
    """Shorten a long text to its beginning and end. A long blank text becomes a space."""
    if len(text) <= 2 * _EDGE_CHARS:
        return text
    return " " if _ALL_BLANK.match(text) else f"{text[:_EDGE_CHARS]}\n(more)\n{text[-_EDGE_CHARS:]}"


def _any_of(*names: str) -> str:
    """Build a pattern for any phrase of these groups, if no letter or digit follows."""
    phrases = "|".join("".join(WORDS["phrases"][name].splitlines()) for name in names)
    return "(?:" + phrases.replace("'", "['\u2019]?").replace(" ?", r"\s?").replace(" ", r"[\s,]+") + r")(?![^\W_])"


def load_pattern(name: str) -> str:
    """Return a pattern from `words.yaml` by its name."""
    return "".join(WORDS["patterns"][name].splitlines())


def _only(pattern: str) -> str:
    """Build a pattern for a text of only punctuation and 1 to 8 matches of `pattern`."""
    return rf"\A[\W_]*+(?:{pattern}[\W_]*+){{1,8}}\Z"


_EDGE_CHARS = 2_000  # the characters of a long text that rules read at its beginning and at its end
_BLANK = r"\A[\s\x00\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]*+"
_ALL_BLANK = re.compile(rf"{_BLANK}\Z")
_SMALL_TALK = _any_of("answer", "praise", "thanks", "noise", "greeting")
# The rest of a sentence that begins with a canned phrase. It has at most 80 characters. It has no digit, no backtick,
# and no "but", "because", "I've", "I have", "I'll" or "I will".
_CANNED_REST = r"(?>(?:(?!\b(?:but|because|I['\u2019](?:ve|ll)|I (?:have|will))\b)[^.!?\n\d`]){0,80})"
_CANNED_REPLY = _only(rf"(?:{_SMALL_TALK}|{_any_of('canned')}{_CANNED_REST})")
_CONTENT = load_pattern("asks")  # a question, a request or a statement, after which a short reply is no junk

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
        pattern=rf"{_only(_SMALL_TALK)}|\A(?=\s*\S)[\W_]+\Z",
        field="prompt",
        unless=rf"\A(?!{_CANNED_REPLY}|[\W_]*+\Z)",
    ),
    JunkRule(
        name="test entry",
        pattern=rf"\A(?=(?s:.{{0,60}}?)\b{_any_of('test')}){_only(_any_of('test', 'beside_test', 'greeting'))}"
        r"|\A\W*([a-z;]{2,5})\1{1,40}[a-z;]?\W*\Z|\A\s*\[(?:test|debug)\][^?]{0,200}\Z",
        field="prompt",
        unless=r"(?s:.){100}|\b(?:passed|failed|error)|\d\d",
    ),
    JunkRule(name="filler", pattern=_only(_any_of("praise", "thanks", "noise")), kinds=("exchange",), unless=_CONTENT),
    JunkRule(name="filler", pattern=_only(_SMALL_TALK), kinds=("exchange",), unless=rf"\A(?!{_only(_SMALL_TALK)})"),
    JunkRule(name="no words", pattern=r"\A\s*[.!?…-][\s.!?…-]*\Z", kinds=("exchange",)),
    JunkRule(name="no words", pattern=r"\A[\W_]+\Z", kinds=("exchange",), unless=_CONTENT),
)
"""The default rules.

They hide entries with empty texts, small talk, test entries, filler replies, and replies without words. They also hide
reflections of at most 20 characters, or 6 if the text has Chinese, Japanese or Korean characters. An `unless` that
begins with a negative lookahead, `(?!`, means: the rule applies only if the other text matches what follows.
"""


# -- todos -----------------------------------------------------------------------------------------------------------

MAX_TODO_CHARS = 500
"""The maximum number of characters of a todo."""

_CODE_BLOCK = re.compile(r"^[ \t>]{0,12}(`{3,}|~{3,})(?s:.*?)(?:^[ \t>]{0,12}\1|\Z)", re.MULTILINE)
_LINE = re.compile(r"[\r\n\v\f\u0085\u2028\u2029]+")
_LIST_MARK = re.compile(r"[\s>]{0,40}(?:[-*+\u2022#]{1,6}|\(?\d{1,3}[.):])?\s+(?:\[ ?\]\s+)?(?:\[?TODO\b[\]:]*\s*)?")
_CHECKED_BOX = re.compile(r"\[[xX\u2713\u2714]\]")
_BREAK = re.compile(r"(?<=[.!?\u2026])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)\s+|(?<=[\u3002\uff01\uff1f])")
"""The pattern of the boundary after a sentence."""
_QUOTATION = re.compile(r"`[^`]{0,300}+`|(?<!\w)\"[^\"]{0,300}+\"|\u201c[^\u201d]{0,300}+\u201d")

_VERB, _GERUND = load_pattern("verb"), load_pattern("doing")
_IMPERATIVE = _compile(rf"{load_pattern('starts')}{_VERB}(?!\s+(?:\d|\w+s are\b))")
_PLEASE, _PLEASE_GERUND = load_pattern("begs"), load_pattern("begs_doing")  # "could you fix", "would you mind fixing"
_POLITE_REQUEST = _compile(f"{_PLEASE}{_VERB}|{_PLEASE_GERUND}{_GERUND}|{_GERUND}.{{0,200}}\\bwould be\\b")
_WISH, _NO_WISH = _compile(load_pattern("wants")), _compile(load_pattern("wants_nothing"))
_QUESTION = _compile(load_pattern("question"))


def find_todos(text: str) -> list[str]:
    """Find the sentences of a text that request something.

    Args:
        text: The text. Code blocks and ticked list items are ignored.

    Returns:
        The sentences in their order, without equivalent ones. Each is cut to `MAX_TODO_CHARS` characters.
    """
    todos: dict[str, str] = {}
    for sentence in _split_sentences(text):
        if _is_request(sentence):
            todos.setdefault(todo_key(sentence), sentence)
    return list(todos.values())


def todo_key(text: str) -> str:
    """Return the key of a todo. Equivalent todos have the same key.

    Args:
        text: The text of the todo.

    Returns:
        The text with normalized letter case and spaces, and without punctuation at its end.
    """
    return " ".join(unicodedata.normalize("NFC", text).casefold().split()).rstrip(" .!?\u2026,;:\u3002\uff01\uff1f")


def _split_sentences(text: str) -> Iterator[str]:
    for line in _LINE.split(_CODE_BLOCK.sub("\n", text)):
        rest = _LIST_MARK.sub("", f" {line}", count=1)
        if not _CHECKED_BOX.match(rest):
            for sentence in _BREAK.split(rest):
                if plain := " ".join(sentence[: 2 * MAX_TODO_CHARS].split()).strip("*_ "):
                    yield plain if len(plain) <= MAX_TODO_CHARS else plain[:MAX_TODO_CHARS].rsplit(" ", 1)[0]


def _is_request(sentence: str) -> bool:
    plain = _QUOTATION.sub("_", sentence)
    if _POLITE_REQUEST.search(plain):
        return True
    if plain.endswith("?") or _QUESTION.match(plain):
        return "please" in plain.casefold() and bool(_IMPERATIVE.match(plain))
    return bool(_IMPERATIVE.match(plain) or _WISH.search(_NO_WISH.sub(" ", plain)))
