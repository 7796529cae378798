"""Lexical search over the log: candidates from the index, ranked and explained here.

Candidates come from FTS5 or from `tsvector`, and from the tail that is not indexed yet. Their score is BM25 over
the terms of the query; what each term contributed is the reason that a `Recollection` carries. Scores compare within
one search only. Where more than `CANDIDATES` match, PostgreSQL takes those with the most different terms and FTS5 the
best by its own BM25, so the two may then find others. Of a message, the first 100,000 characters are searched.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from langchain_agentmem.messages import body_text, decode_body
from langchain_agentmem.namespaces import namespace_of
from langchain_agentmem.retrieval import analysis
from langchain_agentmem.storage import Steps, query

CANDIDATES = 200
MOST_QUERY_TERMS = 64
_K1, _B = 1.2, 0.75  # BM25's usual constants


class Walls(NamedTuple):
    """Within which a search stays.

    Attributes:
        low: First namespace path.
        high: Path after the last.
        conversation: One conversation's id, or None for all.
        roles: Only messages of these roles, or None for all.
        before: Only what was said before, in microseconds since 1970, or None.
        after: Only what was said then or later, or None.
    """

    low: str
    high: str
    conversation: str | None = None
    roles: tuple[str, ...] | None = None
    before: int | None = None
    after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why something was found.

    Attributes:
        terms: The query's terms that it holds, with what each added to the score.
        signals: What else added to the score, by name.
    """

    terms: Mapping[str, float] = field(default_factory=dict)
    signals: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [f"{name} +{value:.2f}" for name, value in {**self.terms, **self.signals}.items()]
        return ", ".join(parts) or "no reason"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """Something that a search found.

    Attributes:
        kind: "message"; later also "event", "record", "fact", "item" and "audit".
        id: Its id; for a message, the message's own.
        text: What it says.
        score: How well it fits; only the order within one search means anything.
        namespace: Whose it is.
        conversation_id: The conversation it belongs to, or None.
        created_at: When it was said, in UTC.
        value: The real object; for a message, a `Message`.
        why: The matched terms and what each signal contributed.
    """

    kind: str
    id: str
    text: str
    score: float
    namespace: tuple[str, ...]
    conversation_id: str | None
    created_at: datetime
    value: Any
    why: Why


class Hit(NamedTuple):
    """A row that fits, with its score and reasons."""

    row: Any
    score: float
    why: Why


def search(text: str, walls: Walls, *, limit: int) -> Steps[list[Hit]]:
    """Find the messages that fit a query best.

    Args:
        text: The query; any text is valid.
        walls: Where to look.
        limit: Most hits, 1 or more.

    Returns:
        The best first; of equals, the newest.
    """
    wanted = analysis.query_terms(text)[:MOST_QUERY_TERMS]
    if not wanted:
        return []
    terms = json.dumps(wanted)
    filters = {**walls._asdict(), "roles": None if walls.roles is None else json.dumps(walls.roles)}
    indexed = yield query.candidates(terms=terms, limit=max(CANDIDATES, limit), **filters)
    tail = yield query.tail_entries(**filters)
    texts = [(row, Counter(analysis.terms(body_text(row["body"])))) for row in (*indexed, *tail)]
    # The tail comes whole: what fits nothing must weigh nothing either.
    return _ranked([(row, found) for row, found in texts if not found.keys().isdisjoint(wanted)], wanted)[:limit]


def recollection(hit: Hit, created_at: datetime) -> Recollection:
    """What a hit is to the user.

    Args:
        hit: The hit.
        created_at: Its time.
    """
    message = decode_body(hit.row["body"], hit.row["key"])
    return Recollection(
        kind="message",
        id=message.message_id,
        text=message.text,
        score=hit.score,
        namespace=namespace_of(hit.row["path"]),
        conversation_id=hit.row["conversation"],
        created_at=created_at,
        value=message,
        why=hit.why,
    )


def _ranked(texts: Sequence[tuple[Any, Counter[str]]], wanted: Sequence[str]) -> list[Hit]:
    """BM25 over the candidates. How rare a term is, is judged among them: no score tells of another tenant's texts."""
    average = sum(found.total() for _, found in texts) / len(texts) if texts else 1.0
    entries = {term: sum(1 for _, found in texts if term in found) for term in wanted}
    rarity = {term: math.log(1 + (len(texts) - number + 0.5) / (number + 0.5)) for term, number in entries.items()}
    hits = []
    for row, found in texts:
        damping = _K1 * (1 - _B + _B * found.total() / max(average, 1.0))
        reasons = {
            term: rarity[term] * found[term] * (_K1 + 1) / (found[term] + damping) for term in wanted if term in found
        }
        hits.append(Hit(row, sum(reasons.values()), Why(terms=reasons)))
    return sorted(hits, key=lambda hit: (-hit.score, -hit.row["id"]))
