"""What users often speak of: words and short phrases that come up in many conversations, and not in all of them.

No model is asked. A word is counted once a conversation, so that one long talk about a thing does not make it a common
topic. Its weight is that number, times how rare it is among the conversations. What nearly all of many conversations
have is how people speak there, and no topic. Where a word mostly stands in one phrase, the phrase is the topic.

Of many prompts those of some conversations are counted, chosen by their names' digests, and stand for the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.search.analysis import question, terms
from langchain_agentmem.search.english import STOP_WORDS

MOST_PHRASES = 100_000
"""So many different words and phrases are counted at a time; then those that came up least are forgotten."""
MOST_PROMPTS = 50_000
"""Of more prompts than these a half is counted, or a quarter, and so on."""

_LOOKED_AT = 2_000
_LONGEST = 3  # words of a phrase
_DIFFERENT, _DIFFERENT_IN_ALL = 64, 4_096
_MANY = 20
_NEARLY_ALL = 0.6
_MOSTLY = 0.6
_EVEN = 0.7  # weight of what all conversations have
_LONGEST_CODE = 12
_FIRST_UNSPACED = "\u0e00"  # scripts without spaces, of which a word comes as overlapping pairs, begin here
_LEAST_LETTERS = 3
_PLAIN_WORDS = (
    "add again ago already also always another ask back best better big change check come could create day different "
    "done easy else even ever every everything example explain far few fine first fix following found full get give go "
    "going good got great happen hello help hello hey hi high idea important instead keep kind know last later least "
    "left less like list little long look lot made make many maybe mean more most much need never new next nice now "
    "number ok okay old one only open order other part people place please point possible problem put question quick "
    "quite read ready really reason right run said same say second see seem send set should show simple since small "
    "something sorry start still stop such sure take talk tell test thank thanks thing think third time today tomorrow "
    "too tried try turn two understand update use used using useful very wait want way week well work working would "
    "write wrong year yes yesterday yet no not don doesn didn isn wasn won can t s re ve ll d m just any some all both "
    "each own please without per versus vs etc via let us"
)
_STOPS = frozenset(term for word in (*STOP_WORDS, *_PLAIN_WORDS.split()) for term in terms(word))


@dataclass(frozen=True, kw_only=True, slots=True)
class Topic:
    """What users often speak of.

    Attributes:
        name: The word or phrase as it was first written, in lower case and without accents.
        conversations: In how many conversations; a prompt that belongs to none counts as one. Of more than 64 about so
            many, within an eighth in most cases.
        prompts: In how many prompts, or about so many, where not all are counted.
        example: The id of an entry that has it.
    """

    name: str
    conversations: int
    prompts: int
    example: str

    def __str__(self) -> str:
        return f"{self.name}: {self.conversations:,} conversations, {self.prompts:,} prompts ({self.example})"


class _Different:
    """Counts how many different things there are, while few of them are remembered.

    Of many those are remembered whose digests end in enough zeros, and each stands for as many as are not.
    """

    __slots__ = ("_digests", "_most", "_zeros")

    def __init__(self, most: int) -> None:
        self._most = most
        self._zeros = 0
        self._digests: set[int] = set()

    def add(self, digest: int) -> None:
        if digest & ((1 << self._zeros) - 1):
            return
        self._digests.add(digest)
        while len(self._digests) > self._most:
            self._zeros += 1
            mask = (1 << self._zeros) - 1
            self._digests = {each for each in self._digests if not each & mask}

    def __len__(self) -> int:
        return len(self._digests) << self._zeros


class _Tally:
    """What is known of a phrase; of the many that come up once, little is kept."""

    __slots__ = ("_first", "_where", "example", "name", "prompts")

    def __init__(self, name: str, example: str, digest: int) -> None:
        self.name = name
        self.example = example
        self.prompts = 1
        self._first = digest
        self._where: _Different | None = None

    def add(self, digest: int) -> None:
        self.prompts += 1
        if self._where is None:
            if digest == self._first:
                return
            self._where = _Different(_DIFFERENT)
            self._where.add(self._first)
        self._where.add(digest)

    @property
    def conversations(self) -> int:
        return 1 if self._where is None else max(1, len(self._where))


class Topics:
    """Counts words and phrases of prompts.

    Args:
        expected: About how many prompts there will be.
    """

    def __init__(self, expected: int) -> None:
        self._tallies: dict[tuple[str, ...], _Tally] = {}
        self._where = _Different(_DIFFERENT_IN_ALL)
        self._given_up = 0
        self._halvings = max(0, math.ceil(math.log2(max(expected, 1) / MOST_PROMPTS)))

    def count(self, entry: AuditEntry) -> None:
        """Count the words of a prompt."""
        digest = _digest(entry)
        if (digest >> 48) & ((1 << self._halvings) - 1):
            return
        self._where.add(digest)
        phrases, written = _phrases(entry.prompt[:_LOOKED_AT])
        for phrase in phrases:
            if (tally := self._tallies.get(phrase)) is not None:
                tally.add(digest)
                continue
            if len(self._tallies) >= MOST_PHRASES:
                self._forget()
            name = written[phrase[0]] if len(phrase) == 1 else _joined([written[term] for term in phrase])
            self._tallies[phrase] = _Tally(name, entry.id, digest)

    def found(self, most: int) -> tuple[Topic, ...]:
        """The most common topics, those of most weight first.

        Args:
            most: How many.
        """
        total = len(self._where)
        least = 2 if total > 1 else 1
        speech = {
            phrase[0]
            for phrase, tally in self._tallies.items()
            if len(phrase) == 1 and total >= _MANY and tally.conversations > _NEARLY_ALL * total
        }
        tallies = {
            phrase: tally
            for phrase, tally in self._tallies.items()
            if tally.prompts > 1 and tally.conversations >= least and speech.isdisjoint(phrase)
        }
        covered = {
            part
            for phrase, tally in tallies.items()
            for part in _parts(phrase)
            if part in tallies and tally.prompts >= _MOSTLY * tallies[part].prompts
        }
        kept = [
            (-_weight(tally, total), -tally.prompts, -len(phrase), phrase)
            for phrase, tally in tallies.items()
            if phrase not in covered
        ]
        return tuple(self._topic(phrase) for *_, phrase in sorted(kept)[:most])

    def _topic(self, phrase: tuple[str, ...]) -> Topic:
        tally, times = self._tallies[phrase], 1 << self._halvings
        return Topic(
            name=tally.name,
            conversations=tally.conversations * times,
            prompts=tally.prompts * times,
            example=tally.example,
        )

    def _forget(self) -> None:
        while len(self._tallies) > MOST_PHRASES // 2:
            self._given_up += 1
            self._tallies = {phrase: tally for phrase, tally in self._tallies.items() if tally.prompts > self._given_up}


def _digest(entry: AuditEntry) -> int:
    """What stands for the conversation of an entry."""
    name = entry.conversation_id or entry.thread_id or f"\x1f{entry.id}"
    told = "\x1f".join((*entry.namespace, "", name)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(told, digest_size=8).digest(), "big")


def _phrases(text: str) -> tuple[set[tuple[str, ...]], dict[str, str]]:
    """The words and phrases of a text, each as its terms, and how the terms are written."""
    written: dict[str, str] = {}
    for word, term in question(text).words.items():
        written.setdefault(term, word)
    found: set[tuple[str, ...]] = set()
    before: tuple[str, ...] = ()
    for term in terms(text):
        if term not in written or not _tells(term):
            before = ()
            continue
        before = (*before[1 - _LONGEST :], term)
        for length in range(1, len(before) + 1):
            phrase = before[-length:]
            if len(set(phrase)) == length:
                found.add(phrase)
    return found, written


def _joined(words: Sequence[str]) -> str:
    """A phrase as it is written."""
    text = words[0]
    for before, word in pairwise(words):
        overlap = word[0] >= _FIRST_UNSPACED and before[-1] == word[0]
        text += word[1:] if overlap else f" {word}"
    return text


def _tells(term: str) -> bool:
    """Whether a term can be what a text is about: no plain word, no number, no code."""
    if term in _STOPS or (term.isascii() and len(term) < _LEAST_LETTERS):
        return False
    digits = sum(map(str.isdigit, term))
    return digits == 0 or (digits < len(term) / 2 and len(term) <= _LONGEST_CODE)


def _parts(phrase: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [
        phrase[start : start + length] for length in range(1, len(phrase)) for start in range(len(phrase) - length + 1)
    ]


def _weight(tally: _Tally, total: int) -> float:
    return tally.conversations * (math.log((total + 1) / tally.conversations) + _EVEN)
