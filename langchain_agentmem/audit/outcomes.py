"""Whether what users asked was done: by what went wrong, what the agent said, and what the user said next.

A turn is one prompt of the user with all model calls and the reply that answer it. It *failed* where

- its last call ended with an error, or
- its reply says that it could not be done ("I was unable to …", "Something went wrong"), or
- the next prompt of its conversation corrects it, complains ("No, I meant …", "Still broken", "Try again"), or asks the
  same again,

and *succeeded* where the next prompt thanks, or goes on. What came last in its conversation, or is in none, may have
been either: it is not counted, unless it failed by itself. The words that are known are English; where users write in
another language, only errors and repeated prompts tell of failures.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from langchain_agentmem.audit.audit_entry import CALL, EXCHANGE, AuditEntry
from langchain_agentmem.audit.walking import Seen, is_said

OPEN_CONVERSATIONS = 10_000
"""Of so many conversations the last turn is remembered, until the next is seen."""

_BEGINS, _ENDS = 300, 200
_BLANKS = re.compile(r"\W+")


def _any(sayings: str) -> str:
    """Alternatives, one a line; in what is looked at, apostrophes are straight."""
    return "(?:" + "|".join(line.strip().replace(" ", r"\s+") for line in sayings.strip().splitlines()) + ")"


_SORRY = r"(?:\s+am|'m)?\s+(?:sorry|afraid),?\s+(?:but\s+)?(?:that\s+)?I"
_UNABLE = _any("""
    couldn't
    could not
    can't
    cannot
    wasn't able to
    was not able to
    failed to
    don't know
    do not know
    (?:don't|do not) have (?:access|enough)
    """)
_GIVES_UP = re.compile(
    rf"\bI(?:{_SORRY})?(?:\s+{_UNABLE}|(?:\s+am|\s+was|'m)\s+unable\s+to)\b"
    r"|\A\W*(?:error|exception|traceback|failure|failed|timed?\s?out)\b"
    r"|\b(?:something\s+went\s+wrong|an\s+error\s+occurred)\b"
    r"|\bunfortunately,?\s+(?:I|it|this|that|we|there)\s+(?:\w+\s+)?(?:could|can|did|was|is|am|were)(?:n't|\s+not|not)\b",
    re.IGNORECASE,
)
_FIRST = _any(r"""
    wrong
    incorrect
    not (?:quite|right|correct|what|that|like that)
    (?:please )?try (?:it )?again
    again\s*[.!]*\Z
    redo
    undo
    revert
    actually,? (?:no|that's)
    """)
_ANYWHERE = _any(r"""
    (?:that|this|it)(?:'s| is| was)(?: still)? not (?:right|correct|true|what|it|working|quite|good|helpful|enough)
    (?:that|this|it) (?:isn't|wasn't)(?: \w+)? (?:right|correct|true|what|it|working|quite|good|helpful|enough)
    (?:that|this|it)(?:'s| is| was)(?: still)? (?:wrong|incorrect|broken)
    not what I (?:asked|meant|wanted|said|need)
    (?:it|this|that)(?: still)? (?:doesn't|does not|didn't|did not|don't) (?:work|help|compile|run|do|answer)
    still (?:broken|wrong|fails?|failing|not|the same|get|getting|see|seeing|doesn't|does not|an? error|error)
    you (?:forgot|missed|ignored|misunderstood|misread|didn't|did not|broke)
    you (?:made|got) (?:that|this|it) (?:up|wrong)
    I (?:said|meant|told you|asked (?:you|for|to))
    """)
_COMPLAINS = re.compile(
    rf"\A\W*(?:(?:h+m+|ok|okay|well|but|sorry|oh|um+)\W+)*{_FIRST}(?!\w)|\b{_ANYWHERE}\b", re.IGNORECASE
)
_NO = re.compile(
    r"\A\W*(?:no|nope|nah)\b(?!\W+(?:problem|worries|need|thanks?|rush|hurry|one|matter|more|further)\b)",
    re.IGNORECASE,
)
_PRAISE = _any(r"""
    (?:many )?(?:thanks?|thanx|thx|ty|cheers)
    perfect
    great
    awesome
    excellent
    nice
    brilliant
    wonderful
    lovely
    exactly
    (?:that|it|this) (?:works|worked|helps|helped|did it)
    """)
_THANKS = re.compile(rf"\A\W*(?:(?:ok|okay|yes|yeah|oh|ah|wow|no)\W+)?{_PRAISE}\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Success:
    """How often what was asked was done.

    Attributes:
        turns: Prompts of users.
        succeeded: Those after which the user thanked or went on.
        failed: Those that failed.
        unknown: The rest.
        because: What told, and how often: "thanked", "went on"; "error", "gave up", "corrected", "asked again".
    """

    turns: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    because: Mapping[str, int] = field(default_factory=dict)

    @property
    def rate(self) -> float | None:
        """The share of those that succeeded in those that are known, 0 to 1; None where none is known."""
        known = self.succeeded + self.failed
        return self.succeeded / known if known else None


@dataclass(slots=True)
class _Turn:
    prompt: str
    kind: str
    failure: str | None
    asked_back: bool


class Outcomes:
    """Tells turns apart, and counts how they ended; walks along the audit trail."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[object, ...], _Turn] = OrderedDict()
        self._turns = 0
        self._ends: Counter[str] = Counter()

    def take(self, seen: Seen) -> bool:
        """Look at an entry.

        Returns:
            Whether a turn begins with it, which is not hidden.
        """
        entry = seen.entry
        if not is_said(entry):
            return False
        name = entry.conversation_id or entry.thread_id
        key = (entry.namespace, name)
        prompt = _plainly(entry.prompt)
        before = self._open.pop(key, None) if name is not None else None
        # Calls with tools, retries, and what is both captured and added are one turn.
        same = before is not None and prompt == before.prompt and CALL in (before.kind, entry.kind)
        if before is not None and not same:
            self._ends[_ended(before, entry.prompt, prompt)] += 1
        if entry.junk:
            if before is not None and same:
                self._open[key] = before
            return False
        self._turns += not same
        turn = _Turn(prompt, entry.kind, _failure(entry), entry.reply[-_ENDS:].rstrip().endswith("?"))
        if name is None:
            self._ends[turn.failure or ""] += 1
        else:
            self._open[key] = turn
            if len(self._open) > OPEN_CONVERSATIONS:
                _, oldest = self._open.popitem(last=False)
                self._ends[oldest.failure or ""] += 1
        return not same

    def found(self) -> Success:
        """How often what was asked so far was done."""
        ends = self._ends + Counter(turn.failure or "" for turn in self._open.values())
        succeeded = ends["thanked"] + ends["went on"]
        unknown = ends.pop("", 0)
        return Success(
            turns=self._turns,
            succeeded=succeeded,
            failed=ends.total() - succeeded,
            unknown=unknown,
            because=dict(sorted(ends.items())),
        )


def _failure(entry: AuditEntry) -> str | None:
    """How a turn failed by itself, if it did."""
    if entry.error is not None:
        return "error"
    return "gave up" if _GIVES_UP.search(_straight(entry.reply)) else None


def _ended(turn: _Turn, following: str, plainly: str) -> str:
    """What the next prompt tells of a turn."""
    if turn.failure is not None:
        return turn.failure
    begins = _straight(following)
    if _COMPLAINS.search(begins) or (not turn.asked_back and _NO.search(begins)):
        return "corrected"
    if turn.kind == EXCHANGE and plainly and plainly == turn.prompt:
        return "asked again"
    return "thanked" if _THANKS.search(begins) else "went on"


def _straight(text: str) -> str:
    """How a text begins, with straight apostrophes."""
    return text[:_BEGINS].replace("\u2019", "'")


def _plainly(text: str) -> str:
    """What tells prompts apart: how one begins, but for letter case and marks, and how long a long one is."""
    begins = _BLANKS.sub(" ", text[: 2 * _BEGINS].casefold()).strip()
    return begins if len(text) <= 2 * _BEGINS else f"{begins} {len(text)}"
