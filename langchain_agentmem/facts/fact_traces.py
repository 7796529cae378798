"""What a trace shows of facts: which were found, and what came of what was said.

What a statement did to others is found out only when somebody looks, from what was known before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_agentmem.facts import validity
from langchain_agentmem.facts.fact import Fact, sentence
from langchain_agentmem.facts.fact_events import State
from langchain_agentmem.facts.fact_writes import Turn
from langchain_agentmem.messages import Message
from langchain_agentmem.rewinding.memory_access import LISTED
from langchain_agentmem.rewinding.memory_access import listed as counted
from langchain_agentmem.rewinding.memory_rows import FACT, TEXT, Draft
from langchain_agentmem.tracing import brief


def listed(facts: Sequence[Fact]) -> dict[str, Any]:
    """Facts that were read."""
    return counted("facts", facts, _fact)


def one(fact: Fact | None) -> dict[str, Any]:
    """A fact that was looked up."""
    return listed([] if fact is None else [fact])


def documents(facts: Iterable[Fact]) -> dict[str, Any]:
    """Facts that a search found, as documents."""
    return {
        "documents": [
            {
                "id": fact.id,
                "page_content": fact.text,
                "metadata": {
                    "id": fact.id,
                    "kind": "message" if fact.raw else "fact",
                    "score": None if fact.score is None else round(fact.score, 4),
                    "why": None if fact.why is None else str(fact.why),
                    "valid_from": fact.valid_from,
                    "valid_to": fact.valid_to,
                    "message_ids": fact.sources,
                },
            }
            for fact in facts
        ]
    }


def messages(some: Sequence[Message]) -> list[dict[str, Any]]:
    """The first of the messages that are given."""
    return [{"id": each.message_id, "role": each.role, "text": brief(each.text)} for each in some[:LISTED]]


def told(turns: Iterable[Turn], refused: Sequence[str] = ()) -> dict[str, Any]:
    """What came of statements.

    Args:
        turns: The statements, in their order.
        refused: What was said and is no fact, in sentences.
    """
    added: dict[str, str] = {}
    changed: dict[str, str] = {}
    ended: dict[str, str] = {}
    known: list[str] = []
    for turn in turns:
        text = _text(turn.after)
        if turn.key not in turn.before:
            added[turn.key] = text
        elif turn.changed:
            changed[turn.key] = text
        else:
            known.append(turn.key)
        ended.update((key, _text(turn.before[key])) for key in _ended(turn))
    shown: dict[str, Any] = {
        "added": _pairs(added),
        # What a batch added, and was told another source of, is shown once.
        "changed": _pairs({key: text for key, text in changed.items() if key not in added}),
        "ended": _pairs(ended),
        "refused": [brief(each) for each in refused],
    }
    return {**shown, "known_ids": list(dict.fromkeys(known))} if known else shown


def removed(drafts: Iterable[Draft]) -> dict[str, Any]:
    """The ids of what is gone, by its kind."""
    ids: dict[str, list[str]] = {FACT: [], TEXT: []}
    for draft in drafts:
        if draft.body is None and draft.kind in ids:
            ids[draft.kind].append(draft.key)
    return {"fact_ids": ids[FACT], "message_ids": ids[TEXT]}


def kinds_of(kinds: Iterable[str]) -> dict[str, int]:
    """How many facts and messages there are among things of some kinds."""
    counts = Counter(kinds)
    return {"facts": counts[FACT], "messages": counts[TEXT]}


def state(known: State | None) -> dict[str, Any]:
    """What is known of a fact that was changed; nothing where it was taken back."""
    return {"taken_back": known is None, "text": None if known is None else _text(known)}


def _ended(turn: Turn) -> list[str]:
    """The facts that a statement ended."""
    if turn.key in turn.before and not turn.changed:
        return []
    before = validity.endings(turn.before, turn.agreed)
    after = validity.endings({**turn.before, turn.key: turn.after}, turn.agreed)
    return [key for key, ending in after.items() if ending.by == turn.key and before[key].by != turn.key]


def _fact(fact: Fact) -> dict[str, Any]:
    told_of: dict[str, Any] = {"id": fact.id, "text": brief(fact.text), "valid_from": fact.valid_from}
    return {**told_of, "valid_to": fact.valid_to} if fact.valid_to is not None else told_of


def _pairs(facts: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"id": key, "text": text} for key, text in facts.items()]


def _text(known: State) -> str:
    return brief(sentence(known.subject, known.predicate, known.object))
