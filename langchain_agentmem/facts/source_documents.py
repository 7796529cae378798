"""Facts as documents 001 and 003 use them: a memory to which messages are added, and that gives what a provider takes.

What was said is shown as it was; a fact as a sentence, "Fact (user): Paris is capital of France.", with its end where
it has ended.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from langchain_agentmem.base.argument_checks import check_whole, text_given
from langchain_agentmem.base.namespaces import namespace_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.facts import fact_commands, fact_queries, fact_store, fact_traces
from langchain_agentmem.facts.fact import Fact
from langchain_agentmem.facts.fact_records import KINDS, draft_of, record_of
from langchain_agentmem.facts.learning import FactsGround
from langchain_agentmem.language_models.model_calls import Do, Work
from langchain_agentmem.messages import ImageFiles, Message
from langchain_agentmem.rewinding import memory_rows
from langchain_agentmem.rewinding.memory_access import Change, as_step, changing, listed, looking
from langchain_agentmem.rewinding.memory_rows import TEXT, View
from langchain_agentmem.storage import Steps

_SPEAKERS = ("user", "assistant", "system")


class Given(NamedTuple):
    """Something that is shown: its id, and what a provider is given."""

    key: str
    told: dict[str, Any]


def shown(ground: FactsGround, *, limit: int | None = None, role: str | None = None) -> Work[list[Given]]:
    """What was said and the facts, in the order in which they came.

    Args:
        ground: The memory.
        limit: The last of them, at most so many. Default: all.
        role: Only those of this role. Default: all.
    """
    if limit is not None:
        check_whole("n", limit)
        if not limit:
            return []
    verb, asked = ("recent", {"n": limit}) if role is None else ("by_role", {"role": role, "n": limit})
    return (yield from _told(ground, verb, _shown(ground, limit, role), **asked))


def _shown(ground: FactsGround, limit: int | None, role: str | None) -> Work[list[Given]]:
    if role is None:
        facts = yield from fact_queries.listing(ground, limit=limit)
    else:
        every = yield from fact_queries.listing(ground, wanted=lambda fact: fact.role == role)
        facts = every if limit is None else every[max(0, len(every) - limit) :]
    return (yield from _given(ground, facts))


def _given(ground: FactsGround, facts: list[Fact]) -> Work[list[Given]]:
    messages: dict[str, Message] = yield from _messages(ground, [fact.id for fact in facts if fact.raw])
    images = ImageFiles()

    def given() -> list[Given]:
        return [Given(fact.id, as_dict(fact, messages.get(fact.id), images)) for fact in facts]

    if not any(message.images for message in messages.values()):
        return given()
    found: list[Given] = yield Do(given)  # files are read, and not on an event loop
    for event in images.events(namespace_of(ground.point.path), ground.point.name):
        ground.database.hooks.emit(event)
    return found


def everything(ground: FactsGround) -> Work[list[Given]]:
    """The description, and all that was said and all facts."""
    return (yield from _told(ground, "all", _everything(ground)))


def _everything(ground: FactsGround) -> Work[list[Given]]:
    description = yield from fact_commands.description_of(ground)
    first = (
        [] if description is None else [Given(fact_commands.DESCRIPTION, {"role": "system", "content": description})]
    )
    return first + (yield from _shown(ground, None, None))


def one(ground: FactsGround, key: str) -> Work[list[Given]]:
    """What has an id, or nothing."""
    return (yield from _told(ground, "by_id", _one(ground, key), id=text_given(key, "An id")))


def _one(ground: FactsGround, key: str) -> Work[list[Given]]:
    fact = yield from fact_queries.getting(ground, key, shown=False)
    if fact is None:
        return []
    return (yield from _given(ground, [fact]))


def at_index(ground: FactsGround, idx: int) -> Work[str]:
    """The id of what stands at an index among all that is shown, the description included.

    Raises:
        MessageError: Nothing does.
    """
    if isinstance(idx, bool) or not isinstance(idx, int):
        raise InvalidInput(f"An index is a whole number, not {safe_repr(idx)}.")
    there = yield from _everything(ground)
    if not -len(there) <= idx < len(there):
        raise MessageError(f"There is nothing at the index {idx}; there are {len(there)} messages and facts.")
    if there[idx].key == fact_commands.DESCRIPTION and there[idx].told["role"] == "system" and idx in (0, -len(there)):
        raise MessageError("This is the description; it is given when the memory is made.")
    return there[idx].key


def as_dict(fact: Fact, message: Message | None, images: ImageFiles) -> dict[str, Any]:
    """A fact, or what was said, as a provider is given it.

    Args:
        fact: It.
        message: What was said, if it is that.
        images: Reads the image files that it names.
    """
    if message is not None:
        return message.to_llm_dict(part_of=images.of(fact.id))
    until = "" if fact.valid_to is None else f" (until {fact.valid_to:%Y-%m-%d})"
    role = fact.role if fact.role in _SPEAKERS else "user"
    return {"role": role, "content": f"Fact ({fact.role}): {fact.text.rstrip('.')}{until}."}


# -- files ---------------------------------------------------------------------------------------------------------


def dumping(ground: FactsGround) -> Work[list[dict[str, Any]]]:
    """All that a memory holds, as records that JSON knows."""

    def look(view: View) -> Steps[list[dict[str, Any]]]:
        found = []
        for kind in KINDS:
            found += yield from memory_rows.current(view, kind)
        return [record_of(kept) for kept in found]

    def told(found: list[dict[str, Any]]) -> dict[str, Any]:
        return {"records": len(found), **fact_traces.kinds_of(record["kind"] for record in found)}

    return (yield from looking(ground, "facts.save", look, outputs=told))


def loading(ground: FactsGround, records: list[Any]) -> Work[None]:
    """Have a memory hold what was dumped, and nothing else.

    Raises:
        InvalidInput: A record is damaged. The memory is as it was.
    """
    drafts = [draft_of(record) for record in records]

    def make(change: Change) -> Steps[None]:
        yield from fact_commands.clear(change, rules=True)
        anew = {(draft.kind, draft.key) for draft in drafts}
        gone = [draft for draft in change.drafts if (draft.kind, draft.key) not in anew]
        change.drafts = gone + drafts  # what is here already is written in the order of the file, too

    here = fact_traces.kinds_of(draft.kind for draft in drafts)
    yield from changing(ground, "facts.load", make, outputs=lambda _: here, records=len(records))


def _messages(ground: FactsGround, keys: list[str]) -> Work[dict[str, Message]]:
    if not keys:
        return {}

    def look(view: View) -> Steps[dict[str, Message]]:
        found = yield from memory_rows.named(view, TEXT, keys)
        return {key: fact_store.message_of(kept) for key, kept in found.items()}

    return (yield from looking(ground, "facts.messages", look, shown=False))


def _told(ground: FactsGround, verb: str, work: Work[list[Given]], **asked: Any) -> Work[list[Given]]:
    def told(some: list[Given]) -> dict[str, Any]:
        return listed("ids", some, lambda each: each.key)

    return (yield from as_step(ground, f"facts.retrieve_{verb}", work, outputs=told, **asked))
