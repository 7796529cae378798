"""What a memory is compared with: BM25 and vectors alone, over the same texts.

Each is made of passages, and gives the numbers of those that fit a question, the best first. `finding` makes of that
what `recall_of` asks. Every passage stands alone: nothing is known of its neighbours.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from langchain_core.embeddings import Embeddings
from recall_report import EvaluationQuestion, Find

from langchain_agentmem.search.vectors import numpy

_K1, _B = 0.9, 0.4
_RUN = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+|[^\W\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
STOP_WORDS = frozenset(
    "a about after again all am an and any are as at be because been before being between both but by can could d did "  # noqa: SIM905 - words read better as words
    "do does doing don down during each few for from further had has have having he her here hers him his how i if in "
    "into is it its just kind ll m many me more most much my no nor not now of off on once only or other our out over "
    "own re s same she should so some such t than that the their them then there these they this those through to too "
    "type under until up us ve very was we were what when where which while who whom whose why will with would you "
    "your".split()
)
MOST_INDEXES = 16
"""Transcripts of which an index is kept."""


class Passage(NamedTuple):
    """Something that can be found.

    Attributes:
        id: Its id.
        transcript: The name of the transcript that it is in.
        text: What it says.
        said_at: When it was said.
        speaker: Who said it: a name or a role.
    """

    id: str
    transcript: str
    text: str
    said_at: datetime
    speaker: str


Ranking: TypeAlias = Callable[[str], Iterable[int]]
"""Gives the numbers of the passages that fit a question, the best first."""
Make: TypeAlias = Callable[[Sequence[Passage]], Ranking]


def finding(make: Make, passages: Sequence[Passage]) -> Find:
    """What answers by a plain search.

    Args:
        make: Makes an index of the passages of a transcript.
        passages: All passages.
    """

    @lru_cache(MOST_INDEXES)
    def index(transcript: str) -> tuple[list[Passage], Ranking]:
        held = [each for each in passages if each.transcript == transcript]
        return held, make(held)

    def find(question: EvaluationQuestion, limit: int) -> list[str]:
        held, ranked = index(question.transcript)
        return [held[number].id for number in islice(ranked(question.text), limit)]

    return find


def bm25(texts: Sequence[str], words: Callable[[str], Sequence[str]]) -> Ranking:
    """Okapi's BM25 in memory, with the constants that Anserini found best for short texts; of equals, the earliest.

    Args:
        texts: The texts.
        words: How a text becomes words.
    """
    postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
    lengths: list[int] = []
    for number, text in enumerate(texts):
        found = words(text)
        lengths.append(len(found))
        for word, times in Counter(found).items():
            postings[word].append((number, times))
    average = sum(lengths) / max(len(lengths), 1)

    def ranked(question: str) -> list[int]:
        scores: dict[int, float] = defaultdict(float)
        for word in dict.fromkeys(words(question)):
            held = postings.get(word, ())
            rarity = math.log(1 + (len(lengths) - len(held) + 0.5) / (len(held) + 0.5))
            for number, times in held:
                damping = _K1 * (1 - _B + _B * lengths[number] / average)
                scores[number] += rarity * times * (_K1 + 1) / (times + damping)
        return sorted(scores, key=lambda number: (-scores[number], number))

    return ranked


def words_and_pairs(text: str) -> list[str]:
    """Words in small letters, and pairs of characters of Chinese and Japanese."""
    found: list[str] = []
    for run in _RUN.findall(text.lower()):
        unspaced = len(run) > 1 and run[0] >= "\u3040"
        found += [run[place : place + 2] for place in range(len(run) - 1)] if unspaced else [run]
    return found


def stems() -> Callable[[str], list[str]]:
    """Gives a function that cuts a text into the stems of its English words, without stop words."""
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    return lambda text: stemmer.stemWords([word for word in words_and_pairs(text) if word not in STOP_WORDS])


def plain_bm25(passages: Sequence[Passage]) -> Ranking:
    """BM25 over the bare texts, for any language."""
    return bm25([each.text for each in passages], words_and_pairs)


def stemmed_bm25(passages: Sequence[Passage]) -> Ranking:
    """BM25 over stems, with speaker and date in the text."""
    return bm25([f"{_spoken(each, ())} {each.said_at:%d %B %Y}" for each in passages], stems())


def vectors_alone(embeddings: Embeddings) -> Make:
    """Gives what goes by the cosine of the question's vector with each passage's, behind its speaker's name.

    Args:
        embeddings: What gives the vectors.
    """
    np = numpy()

    def unit(vectors: Any) -> Any:
        found = np.asarray(vectors, dtype=np.float32)
        return found / np.maximum(np.linalg.norm(found, axis=-1, keepdims=True), 1e-9)

    def make(passages: Sequence[Passage]) -> Ranking:
        vectors = unit(embeddings.embed_documents([_spoken(each, ("user", "assistant")) for each in passages]))

        def ranked(question: str) -> Iterable[int]:
            scores = vectors @ unit(embeddings.embed_query(question)) if len(passages) else []
            return map(int, np.argsort(-np.asarray(scores), kind="stable"))

        return ranked

    return make


BASELINES: dict[str, Make] = {"BM25": plain_bm25, "BM25, stems": stemmed_bm25}
"""What needs no vectors."""


def _spoken(passage: Passage, nameless: Sequence[str]) -> str:
    return passage.text if passage.speaker in nameless else f"{passage.speaker}: {passage.text}"
