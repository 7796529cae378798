"""What the same questions find by plain means: BM25, and vectors alone.

Each takes transcripts and gives a search, as `recall.evaluate` wants it. Each transcript has an index of its own, and
every turn stands alone.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from langchain_core.embeddings import Embeddings
from transcripts import Session, Transcript, Turn

Search = Callable[[str, str, int], Sequence[str]]
Make = Callable[[Sequence[Transcript]], Search]

_K1, _B = 0.9, 0.4
_WORD = re.compile(r"\w+")
_RUN = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+|[^\W\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
STOP_WORDS = frozenset(
    "a about after again all am an and any are as at be because been before being between both but by can could d did "  # noqa: SIM905 - words read better as words
    "do does doing don down during each few for from further had has have having he her here hers him his how i if in "
    "into is it its just kind ll m many me more most much my no nor not now of off on once only or other our out over "
    "own re s same she should so some such t than that the their them then there these they this those through to too "
    "type under until up us ve very was we were what when where which while who whom whose why will with would you "
    "your".split()
)


class BM25:
    """Okapi's BM25 over texts, in memory, with the constants that Anserini found best for short texts.

    Args:
        texts: The texts, each by its id.
        words: How a text becomes words.
    """

    def __init__(self, texts: Iterable[tuple[str, str]], words: Callable[[str], Sequence[str]]) -> None:
        self._words = words
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._ids: list[str] = []
        self._lengths: list[int] = []
        for number, (name, text) in enumerate(texts):
            found = words(text)
            self._ids.append(name)
            self._lengths.append(len(found))
            for word, times in Counter(found).items():
                self._postings[word].append((number, times))
        self._average = sum(self._lengths) / max(len(self._lengths), 1)

    def search(self, query: str, limit: int) -> list[str]:
        """The ids of the best; of equals, the earliest.

        Args:
            query: The question.
            limit: How many at most.
        """
        scores: dict[int, float] = defaultdict(float)
        for word in dict.fromkeys(self._words(query)):
            held = self._postings.get(word, ())
            rarity = math.log(1 + (len(self._ids) - len(held) + 0.5) / (len(held) + 0.5))
            for number, times in held:
                damping = _K1 * (1 - _B + _B * self._lengths[number] / self._average)
                scores[number] += rarity * times * (_K1 + 1) / (times + damping)
        best = sorted(scores, key=lambda number: (-scores[number], number))
        return [self._ids[number] for number in best[:limit]]


def plain_words(text: str) -> list[str]:
    """The words of a text in small letters, for any language that puts spaces between words."""
    return _WORD.findall(text.lower())


def words_and_pairs(text: str) -> list[str]:
    """Words, and pairs of characters of Chinese and Japanese."""
    found: list[str] = []
    for run in _RUN.findall(text.lower()):
        unspaced = len(run) > 1 and run[0] >= "\u3040"
        found += [run[place : place + 2] for place in range(len(run) - 1)] if unspaced else [run]
    return found


def stems() -> Callable[[str], list[str]]:
    """Gives a function that cuts a text into the stems of its English words, without stop words."""
    import snowballstemmer

    stemmer = snowballstemmer.stemmer("english")
    return lambda text: stemmer.stemWords([word for word in words_and_pairs(text) if word not in STOP_WORDS])


def bm25(transcripts: Sequence[Transcript]) -> Search:
    """BM25 in Python over stems, with the session's date in the text."""
    words = stems()
    indexes = {
        transcript.name: BM25(((turn.id, _dated(session, turn)) for session, turn in _turns(transcript)), words)
        for transcript in transcripts
    }
    return lambda sample, question, limit: indexes[sample].search(question, limit)


def bm25_plain(transcripts: Sequence[Transcript]) -> Search:
    """BM25 in Python over the bare text, for any language: pairs of characters where there are no spaces."""
    indexes = {
        transcript.name: BM25(((turn.id, turn.text) for _, turn in _turns(transcript)), words_and_pairs)
        for transcript in transcripts
    }
    return lambda sample, question, limit: indexes[sample].search(question, limit)


def vectors_alone(embeddings: Embeddings) -> Make:
    """Gives a baseline that takes the cosine of the question's vector with each turn's, behind its speaker's name.

    Args:
        embeddings: What gives vectors of length one.
    """
    import numpy as np

    def make(transcripts: Sequence[Transcript]) -> Search:
        names: dict[str, list[str]] = {}
        vectors: dict[str, np.ndarray] = {}
        for transcript in transcripts:
            turns = [turn for _, turn in _turns(transcript)]
            texts = [t.text if t.speaker in {"user", "assistant"} else f"{t.speaker}: {t.text}" for t in turns]
            names[transcript.name] = [turn.id for turn in turns]
            vectors[transcript.name] = np.asarray(embeddings.embed_documents(texts))

        def search(sample: str, question: str, limit: int) -> list[str]:
            scores = vectors[sample] @ np.asarray(embeddings.embed_query(question))
            return [names[sample][number] for number in np.argsort(-scores, kind="stable")[:limit]]

        return search

    return make


BASELINES: dict[str, Make] = {"BM25": bm25_plain, "BM25, stems, stop words, date": bm25}


def _turns(transcript: Transcript) -> Iterable[tuple[Session, Turn]]:
    return ((session, turn) for session in transcript.sessions for turn in session.turns)


def _dated(session: Session, turn: Turn) -> str:
    return f"{turn.speaker}: {turn.text} {session.time:%d %B %Y}"
