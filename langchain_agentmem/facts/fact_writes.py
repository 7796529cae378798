"""What changes facts: they are told of, corrected, taken back and removed.

All of one call is one transaction. What is told twice is one fact with two sources, as long as it holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langchain_agentmem.base.clock import NewId
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import MessageError
from langchain_agentmem.facts import fact_events, fact_store, validity
from langchain_agentmem.facts.entity_names import entity_key, predicate_key
from langchain_agentmem.facts.fact import sentence
from langchain_agentmem.facts.fact_events import State
from langchain_agentmem.facts.predicate_rules import Rules
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import Change
from langchain_agentmem.rewinding.memory_rows import FACT, FORMER, SAID, Draft, Kept, body_of, message_source
from langchain_agentmem.rewinding.message_sources import SET, UNDO, without
from langchain_agentmem.storage import Steps, query
from langchain_agentmem.storage.steps import Row


class Statement(NamedTuple):
    """What somebody says.

    Attributes:
        role: Who says it.
        subject: What it is about.
        predicate: What it says.
        object: Of what.
        start: Since when it holds, in microseconds since 1970; None if they did not say.
        end: When it ended; None if it did not, or they did not say.
        sure: How sure they are, from 0 to 1; None if they did not say.
        message: The message that says so, if any.
        conversation: The conversation or thread of that, if it is known.
        said_at: When it was said. Default: now.
    """

    role: str
    subject: str
    predicate: str
    object: str
    start: int | None = None
    end: int | None = None
    sure: float | None = None
    message: str | None = None
    conversation: str | None = None
    said_at: int | None = None


class Turn(NamedTuple):
    """A statement that was kept, and what was known before it.

    Attributes:
        key: The id of the fact that it tells of.
        before: What was known of the same thing.
        after: The fact, as it is now.
        changed: Whether it says more than was known.
        agreed: What is agreed on names.
    """

    key: str
    before: Mapping[str, State]
    after: State
    changed: bool
    agreed: Rules


@dataclass(slots=True, kw_only=True)
class Book:
    """Facts that are about to be changed.

    Attributes:
        change: The transaction, and what it is about to write.
        agreed: What is agreed on names.
        new_id: Makes ids.
        written: The rows that were changed here and are not stored yet, by the ids of the facts.
        turns: What somebody said, in its order.
    """

    change: Change
    agreed: Rules
    new_id: NewId
    written: dict[str, Kept] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)

    def tell(self, said: Statement, fact: str | None = None) -> Steps[str]:
        """Somebody says something. Returns the id of the fact.

        Args:
            said: What they say.
            fact: The fact that it tells of, where somebody else told of it just now. Default: which one it is, is found
                out.
        """
        thing = self.agreed.canonical(said.subject)
        predicate = predicate_key(said.predicate)
        value = self.agreed.canonical(said.object)
        # Of what may have many values at a time, the others say nothing of this one.
        found = yield from self._of(thing, predicate, None if self.agreed.is_single(predicate) else value)
        states = fact_store.states_of(found)
        ends = validity.endings(states, self.agreed)
        moment = self.change.now if said.said_at is None else said.said_at
        start = said.start
        if start is None:
            start = moment if said.end is None else min(moment, said.end - 1)
        event = fact_events.said(
            1 + max((each["n"] for kept in found.values() for each in kept.extra["told"]), default=0),
            self.change.now,
            role=said.role,
            start=start,
            end=said.end,
            given=said.start is not None,
            sure=said.sure,
            message=said.message,
            conversation=said.conversation,
        )
        same = [
            key
            for key, known in states.items()
            if self.agreed.canonical(known.object) == value
            and (
                validity.overlaps(known, ends[key].at, event["from"], event["to"])
                or (said.message is not None and said.start is None and not fact_events.says_more(known, event))
            )
        ]
        if fact is not None or same:
            key = fact or min(same, key=lambda key: (states[key].start, key))
            more = fact_events.says_more(states[key], event)
            if more:
                self.restate(found[key], _with(found[key].extra, event))
            self._note(key, states, changed=more)
            return key
        extra = {
            "subject": said.subject,
            "predicate": said.predicate,
            "object": said.object,
            "role": said.role,
            "told": [event],
        }
        key = self.new_id()
        self.restate(_unwritten(key, self.change.now), extra)
        self._note(key, states, changed=True)
        return key

    def correct(self, kept: Kept, fields: Mapping[str, Any]) -> None:
        """Somebody corrects a fact.

        Args:
            kept: The fact.
            fields: Those of its `State` that change.
        """
        extra = kept.extra
        event = {"n": _next(extra), "at": self.change.now, "do": SET, "fields": dict(fields)}
        self.restate(kept, _with(extra, event))

    def undo(self, kept: Kept) -> Steps[None]:
        """Take back the last thing that happened to a fact: that another ended it, or an event of its own.

        Args:
            kept: The fact.
        """
        extra = kept.extra
        event: dict[str, Any] = {"n": _next(extra), "at": self.change.now}
        ender = yield from self._ended_last(kept)
        if ender is None:
            event |= {"do": UNDO, "of": fact_events.undone(extra["told"])}
        else:
            event |= {"do": fact_events.BESIDE, "of": [ender]}
        self.restate(kept, _with(extra, event))

    def remove(self, kept: Kept) -> Steps[None]:
        """Have a fact be gone, with what it said before it was corrected."""
        self.written.pop(kept.key, None)
        self.change.remove(FACT, kept.key)
        if any(event["do"] == SET for event in kept.extra["told"]):
            for former in (yield from memory_rows.current(self.change.view, FORMER)):
                if former.extra["fact"] == kept.key:
                    self.change.remove(FORMER, former.key)

    def forsake(self, message: Kept, path: str) -> Steps[None]:
        """A message that was kept here is gone, or says something else: what it said does not count.

        Args:
            message: It, as it was kept.
            path: The path of the namespace.
        """
        name, conversation = fact_store.message_of(message).message_id, message.extra["told"][0].get("in")

        def gone(event: Mapping[str, Any]) -> bool:
            return bool(event.get("id") == name and event.get("in", conversation) == conversation)

        sources = [message_source(name)]
        found = yield query.resting_on(keys=fact_store.as_json(sources), low=path, high=path + "\x01")
        for kept in (yield from self._named(FACT, found)):
            extra = without(kept.extra, gone)
            if extra is None:
                yield from self.remove(kept)
            elif extra != kept.extra:
                self.restate(kept, extra)
        for kept in (yield from self._named(FORMER, found)):
            if without(kept.extra, gone) is None:
                self.change.remove(FORMER, kept.key)

    def restate(self, kept: Kept, extra: Mapping[str, Any]) -> None:
        """Have a fact be what was told of it.

        Args:
            kept: The fact as it was; one that is new has no `extra`.
            extra: What belongs to it now.
        """
        known = fact_events.state(extra)
        names = fact_store.names_of(extra)
        if kept.extra and fact_store.names_of(kept.extra) != names:
            self._write_former(kept)
        body = body_of(sentence(*names))
        self.written[kept.key] = kept._replace(body=body, extra=extra)
        self.change.drafts.append(
            Draft(
                FACT,
                kept.key,
                body,
                kept.created_at,
                label=predicate_key(names[1]),
                extra=extra,
                subject=entity_key(names[0]),
                object=entity_key(names[2]),
                findable=known is not None,
            )
        )

    # -- plumbing --------------------------------------------------------------------------------------------------

    def _note(self, key: str, before: Mapping[str, State], *, changed: bool) -> None:
        known = fact_events.state(self.written[key].extra) if changed else before[key]
        if known is not None:
            self.turns.append(Turn(key, before, known, changed, self.agreed))

    def _named(self, kind: str, found: Sequence[Row]) -> Steps[list[Kept]]:
        """What can be seen here of some versions of a kind."""
        keys = sorted({row["key"] for row in found if row["kind"] == kind})
        return list((yield from memory_rows.named(self.change.view, kind, keys)).values())

    def _of(self, thing: str, predicate: str, value: str | None = None) -> Steps[dict[str, Kept]]:
        """All that is known of a subject and a predicate, what was changed here included.

        Args:
            thing: The subject, as it is compared.
            predicate: Likewise.
            value: Of what was not changed here, only what has this object. Default: any.
        """
        subjects = self.agreed.keys_of([thing])
        objects = None if value is None else self.agreed.keys_of([value])
        found = yield from fact_store.about(
            self.change.view, subjects=subjects, objects=objects, predicates=[predicate]
        )
        for key, kept in self.written.items():
            found.pop(key, None)
            known = fact_events.state(kept.extra)
            if known and self.agreed.canonical(known.subject) == thing and predicate_key(known.predicate) == predicate:
                found[key] = kept
        return found

    def _ended_last(self, kept: Kept) -> Steps[str | None]:
        """The fact that ended another, if nothing happened to that since."""
        known = fact_events.state(kept.extra)
        if known is None:
            return None
        found = yield from self._of(self.agreed.canonical(known.subject), predicate_key(known.predicate))
        states = fact_store.states_of(found)
        ender = validity.endings(states, self.agreed)[kept.key].by
        if ender is None:
            return None
        last = kept.extra["told"][-1]
        if (states[ender].learned, states[ender].rank) > (last["at"], last["n"]):
            return ender
        # It was known before; but it may be by a later correction, or another source, that it comes next.
        before = fact_store.states_of({key: found[key] for key in (kept.key, ender)}, last["at"])
        did = kept.key in before and validity.endings(before, self.agreed)[kept.key].by == ender
        return None if did else ender

    def _write_former(self, kept: Kept) -> None:
        names = fact_store.names_of(kept.extra)
        said = [event for event in kept.extra["told"] if event["do"] == SAID]
        self.change.drafts.append(
            Draft(
                FORMER,
                f"{kept.key} {_next(kept.extra)}",
                body_of(sentence(*names)),
                self.change.now,
                label=predicate_key(names[1]),
                extra={"fact": kept.key, "names": names, "told": said},
                subject=entity_key(names[0]),
                object=entity_key(names[2]),
            )
        )


def there(view: memory_rows.View, key: str) -> Steps[Kept]:
    """A fact by its id.

    Args:
        view: From where.
        key: The id.

    Raises:
        MessageError: There is none.
    """
    found = yield from memory_rows.named(view, FACT, [key])
    if key not in found:
        raise MessageError(f"There is no fact or message {safe_repr(key)} here.")
    return found[key]


def _unwritten(key: str, now: int) -> Kept:
    return Kept(0, None, FACT, key, None, b"", None, None, {}, now, now)


def _next(extra: Mapping[str, Any]) -> int:
    return 1 + max((int(event["n"]) for event in extra["told"]), default=0)


def _with(extra: Mapping[str, Any], *events: Mapping[str, Any]) -> dict[str, Any]:
    return {**extra, "told": [*extra["told"], *events]}
