"""The open todos of an audit trail, and what suggests that one of them is done, or stands there twice.

A todo looks done where a later reply, or the agent's report on itself, says in one sentence that something was
completed, in words of what the todo is about. It is a suggestion with the entry's id: nobody closes a todo for it.
English words only; in other languages todos are listed, and nothing is suggested.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from langchain_agentmem.audit.audit_entry import OPEN, REFLECTION, TODO
from langchain_agentmem.audit.legacy_json import MARKS
from langchain_agentmem.audit.walking import Seen, is_said
from langchain_agentmem.search.analysis import terms
from langchain_agentmem.search.english import STOP_WORDS

MOST_TODOS = 1_000
"""So many open todos are looked for among later entries; of the rest only the number is told."""

_MARK = MARKS["todo"][0]
_LOOKED_AT = 10_000
_SHOWN = 160
_MOST_QUOTES = 3
_ENOUGH = 2 / 3
_ALIKE = 0.8
_FEW = 2  # words, all of which must be there
_SENTENCE = re.compile(r"(?<=[.!?;\n])\s+|\n")
_DONE = re.compile(
    r"\b(?:done|finished|completed?|fixed|resolved|solved|implemented|added|created|built|written|wrote|updated|upgraded"
    r"|improved|refactored|documented|tested|removed|deleted|renamed|moved|replaced|merged|deployed|shipped|released"
    r"|installed|configured|closed|set up|now (?:works?|passes|has|have|runs?)|works now|passes now)\b",
    re.IGNORECASE,
)
_NOT_DONE = re.compile(
    r"\?|\b(?:not|never|cannot|\w+n['\u2019]t|will|would|should|could|can|must|shall|if|when|once|after|before|until"
    r"|unless|todo|plan(?:ned)?|going to|needs?|wants?|yet|let['\u2019]?s|to be|half|partly|almost|try|tried|failed)\b",
    re.IGNORECASE,
)
_ASKING = frozenset(
    terms("want wants need needs should please must i we to let us also really maybe some new just like")
)
_STOPS = frozenset(each for word in STOP_WORDS for each in terms(word)) | _ASKING
_VERBS = frozenset(terms("add improve fix build create upgrade refactor test document make write implement update do"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """What suggests that a todo is done.

    Attributes:
        entry_id: The entry that says so.
        quote: Its sentence.
    """

    entry_id: str
    quote: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTodo:
    """A todo that is not done, with what can be said of it.

    Attributes:
        id: Its id.
        text: What is to be done.
        age: How long it has been open.
        signs: What suggests that it is done, the latest first.
        same_as: The id of an older open todo that says nearly the same. Default None.
    """

    id: str
    text: str
    age: timedelta
    signs: tuple[Sign, ...] = ()
    same_as: str | None = None

    def __str__(self) -> str:
        days = self.age // timedelta(days=1)
        told = f"{self.text} ({self.id}, open for {days:,} {'day' if days == 1 else 'days'})"
        if self.same_as is not None:
            told += f"; nearly the same as {self.same_as}"
        if self.signs:
            told += f"; done, it seems: {self.signs[0].entry_id} says: {self.signs[0].quote}"
        return told


@dataclass(slots=True)
class _Todo:
    id: str
    text: str
    created_at: datetime
    terms: frozenset[str]
    about: frozenset[str]
    signs: list[Sign] = field(default_factory=list)
    same_as: str | None = None


class OpenTodos:
    """Gathers the open todos; walks along the audit trail."""

    def __init__(self) -> None:
        self.count = 0
        self._todos: list[_Todo] = []
        self._about: dict[str, list[int]] = {}

    def take(self, seen: Seen) -> None:
        """Look at an entry."""
        entry = seen.entry
        if entry.junk:
            return
        if entry.kind == TODO:
            if entry.status == OPEN:
                self.count += 1
                if len(self._todos) < MOST_TODOS:
                    self._add(entry.id, entry.prompt.removeprefix(_MARK).strip(), entry.created_at)
        elif self._todos and (entry.kind == REFLECTION or is_said(entry)):
            text = entry.reply[:_LOOKED_AT]
            if _DONE.search(text):
                self._look(entry.id, text, entry.created_at)

    def found(self, now: datetime) -> tuple[OpenTodo, ...]:
        """The open todos, the oldest first."""
        return tuple(
            OpenTodo(
                id=each.id,
                text=_short(each.text),
                age=max(now - each.created_at, timedelta(0)),
                signs=tuple(reversed(each.signs[-_MOST_QUOTES:])),
                same_as=each.same_as,
            )
            for each in sorted(self._todos, key=lambda todo: todo.created_at)
        )

    def _add(self, key: str, text: str, at: datetime) -> None:
        said = [term for term in terms(text) if term not in _STOPS]
        # What it is about: without the verb that says what to do, unless that leaves a single word, which many share.
        about = frozenset(said[1:] if len(set(said)) > _FEW and said[0] in _VERBS else said)
        todo = _Todo(key, text, at, frozenset(said), about)
        shared = Counter(place for term in about for place in self._about.get(term, ()))
        for place, _ in shared.most_common():
            other = self._todos[place]
            if len(todo.terms & other.terms) >= _ALIKE * len(todo.terms | other.terms):
                todo.same_as = other.same_as or other.id
                break
        for term in about:
            self._about.setdefault(term, []).append(len(self._todos))
        self._todos.append(todo)

    def _look(self, entry_id: str, text: str, at: datetime) -> None:
        for sentence in _SENTENCE.split(text):
            if not _DONE.search(sentence) or _NOT_DONE.search(sentence):
                continue
            told = {term for term in terms(sentence) if term in self._about}
            hits = Counter(place for term in told for place in self._about[term])
            for place, count in hits.items():
                todo = self._todos[place]
                needed = len(todo.about) if len(todo.about) <= _FEW else _ENOUGH * len(todo.about)
                if count >= needed and at >= todo.created_at:
                    todo.signs.append(Sign(entry_id=entry_id, quote=_short(sentence)))
                    del todo.signs[:-_MOST_QUOTES]


def _short(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= _SHOWN else f"{joined[: _SHOWN - 1]}\u2026"
