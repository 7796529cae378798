"""What a client can do with the memory. Docstrings and descriptions here are what a model reads.

Each tool says whose memory it works on by `Access.here`, and checks everything before it writes; a write is one
transaction. Errors say what to do, and nothing of what the client may not see.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import wraps
from typing import Annotated, Literal, ParamSpec, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BeforeValidator, Field

from langchain_agentmem import AgentMemory, AgentMemoryError, InvalidInput, KGMemory, LayeredMemory, sanitize_text
from langchain_agentmem_mcp import results
from langchain_agentmem_mcp.access import Access, Namespace

P = ParamSpec("P")
T = TypeVar("T")

ROLE = "assistant"
"""Whose fact it is that a client adds."""
SOURCES, QUOTED = 3, 300
"""How many sources are told of a fact, and how much of each, in characters."""
PLACES = 5
"""How many namespaces are named to who found nothing."""
LONGEST = 100_000
"""How long a text may be, in characters."""

Text = Annotated[str, Field(min_length=1, max_length=LONGEST)]
Name = Annotated[str, Field(min_length=1, max_length=500)]


def _labels_of(given: object) -> object:
    """Labels, also of a path such as "work/plans", which models write."""
    return [label for label in given.split("/") if label] if isinstance(given, str) else given


Below = Annotated[
    list[str] | None,
    Field(
        max_length=50, description='Where: labels below your own namespace, such as ["work"]. Leave out for your own.'
    ),
    BeforeValidator(_labels_of),
]
Limit = Annotated[int, Field(ge=1, le=100, description="How many results at most.")]
Chars = Annotated[int, Field(ge=1, le=LONGEST, description="How much to give of each text, in characters.")]
Kind = Literal["message", "fact", "item", "event", "record"]


def answering(error: type[Exception]) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
    """Have what the memory refuses reach the client as an error of the SDK's.

    Args:
        error: Which one.
    """

    def wrapped(do: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @wraps(do)
        async def answer(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return await do(*args, **kwargs)
            except InvalidInput as refused:
                raise error(sanitize_text(str(refused))) from refused
            except AgentMemoryError as failed:
                # What it says may name files and hosts; its kind says enough.
                raise error(" ".join((type(failed).__doc__ or "").split())) from failed

        return answer

    return wrapped


class Tools:
    """The tools, over one memory.

    Args:
        memory: The memory.
        access: Whose of it a client sees.
        branch: On which branch core memory, records and facts are.
    """

    def __init__(self, memory: AgentMemory, access: Access, branch: str) -> None:
        self._memory = memory
        self._access = access
        self._branch = branch

    def layers(self, below: list[str] | None = None) -> LayeredMemory:
        """The layers of the client."""
        return self._memory.layers(self._branch, self._access.here(below))

    def facts(self, below: list[str] | None = None) -> KGMemory:
        """The facts of the client."""
        return self._memory.facts(self._branch, self._access.here(below))

    # -- finding -----------------------------------------------------------------------------------------------------

    @answering(ToolError)
    async def search_memory(
        self,
        query: Annotated[str, Field(min_length=1, max_length=10_000, description="Any text or question.")],
        limit: Limit = 10,
        kinds: Annotated[
            list[Kind] | None, Field(description="Only these kinds. Leave out for everything that is remembered.")
        ] = None,
        conversation_id: Annotated[str | None, Field(description="Only in this conversation. Default: in all.")] = None,
        roles: Annotated[
            list[Name] | None, Field(max_length=20, description='Only what these roles said, such as "user".')
        ] = None,
        after: Annotated[datetime | None, Field(description="Only what was said at this time or later.")] = None,
        before: Annotated[datetime | None, Field(description="Only what was said before this time.")] = None,
        order: Annotated[
            Literal["score", "time"],
            Field(description='"score", the best first, or "time" for how a topic went on: the oldest first.'),
        ] = "score",
        max_chars: Chars = 1_500,
        namespace: Below = None,
    ) -> results.FoundList:
        """Search everything that is remembered: messages, facts, records, events and items.

        Each result says why it was found. Words of the question are enough; times in it, such as "last March", count
        too.
        """
        here = self._access.here(namespace)
        found = await self._memory.asearch(
            query,
            namespace=here,
            everything=not here,  # the root alone is of nobody
            limit=limit,
            kinds=kinds,
            conversation_id=conversation_id,
            roles=roles,
            before=before,
            after=after,
            order=order,
        )
        shown = []
        for each in found:
            text, clipped = results.passage(each.text, max_chars)
            shown.append(
                results.Found(
                    kind=each.kind,
                    id=each.id,
                    text=text,
                    clipped=clipped,
                    score=each.score,
                    why=results.Why(words=dict(each.why.terms), signals=dict(each.why.signals)),
                    time=each.created_at,
                    conversation_id=each.conversation_id,
                    namespace=self._access.shown(each.namespace),
                    replaced_by=None if each.replaced_by is None else each.replaced_by[1],
                )
            )
        return results.FoundList(results=shown, hint=None if found or not namespace else await self._places(here))

    async def _places(self, here: Namespace) -> str | None:
        """For who found nothing in a namespace that does not exist: which ones there are."""
        if await self._memory.admin.anamespaces(here):
            return None
        there = [
            self._access.shown(each.namespace) for each in await self._memory.admin.anamespaces(self._access.here())
        ]
        told = ", ".join(str(each) for each in there[:PLACES] if each)
        return f"Nothing is kept in this namespace. {f'There are: {told}.' if told else 'Leave it out.'}"

    # -- records -----------------------------------------------------------------------------------------------------

    @answering(ToolError)
    async def remember(
        self,
        text: Annotated[Text, Field(description="What to remember, so that it is understood without its context.")],
        tags: Annotated[list[Name] | None, Field(max_length=50, description="Words to tell it from others.")] = None,
        namespace: Below = None,
    ) -> results.Record:
        """Keep a text for good, as a record that search_memory finds.

        For what should always be at hand use set_core_memory; for "who, does what, to what" use add_fact. Secrets such
        as passwords are taken out.
        """
        archival = self.layers(namespace).archival
        record_id = await archival.awrite(text, tags or ())
        record = await archival.aget(record_id)
        if record is None:
            raise InvalidInput("The record was deleted by somebody else at once; remember it again if it is needed.")
        shown, clipped = results.passage(record.content, 1_500)
        return results.Record(id=record.id, text=shown, clipped=clipped, tags=list(record.tags))

    @answering(ToolError)
    async def forget(
        self,
        record_id: Annotated[
            Name, Field(description="The id of a record, from remember or search_memory, or of a fact.")
        ],
        namespace: Below = None,
    ) -> results.Gone:
        """Delete a record for good, or take back a fact that is wrong.

        What has merely ceased to hold is no mistake: tell it with add_fact. Messages cannot be deleted here, and core
        memory has delete_core_memory.
        """
        layers = self.layers(namespace)
        if await layers.archival.adelete(record_id):
            return results.Gone(deleted=True)
        corrections, whose = self._memory.corrections, layers.namespace
        fact = await corrections.acurrent("fact", record_id, namespace=whose, branch=self._branch)
        there = fact.value is not None
        if there:
            await corrections.adelete("fact", record_id, by=ROLE, namespace=whose, branch=self._branch)
        return results.Gone(deleted=there)

    # -- core memory -------------------------------------------------------------------------------------------------

    @answering(ToolError)
    async def read_core_memory(self, namespace: Below = None) -> results.Core:
        """Read core memory: a few keys and values that should always be at hand, such as the user's name.

        Read it at the beginning of a conversation.
        """
        return await self.core(namespace)

    async def core(self, below: list[str] | None = None) -> results.Core:
        """Core memory, for the tool and for the resource."""
        entries = await self.layers(below).core.aentries()
        return results.Core(
            entries=[
                results.CoreEntry(
                    key=each.key,
                    value=each.value,
                    importance=each.importance,
                    updated_at=each.updated_at,
                    expires_at=each.expires_at,
                )
                for each in entries
            ]
        )

    @answering(ToolError)
    async def set_core_memory(
        self,
        key: Annotated[Name, Field(description='Its key, such as "name" or "current project".')],
        value: Annotated[Text, Field(description="What it says; short. A value that the key has is replaced.")],
        importance: Annotated[
            int, Field(ge=1, le=5, description="The least important leaves first when room is needed.")
        ] = 3,
        expires_in: Annotated[
            float | None, Field(ge=1, le=1e11, description="After how many seconds it ends. Leave out to keep it.")
        ] = None,
        namespace: Below = None,
    ) -> results.Core:
        """Set a value of core memory, which is always at hand.

        What there is no room for any more becomes a record. Gives core memory as it is then.
        """
        await self.layers(namespace).core.aset(key, value, importance, expires_in)
        return await self.core(namespace)

    @answering(ToolError)
    async def delete_core_memory(
        self,
        key: Annotated[Name, Field(description="Its key, exactly as read_core_memory gives it.")],
        namespace: Below = None,
    ) -> results.Gone:
        """Delete a value of core memory for good, by its key."""
        return results.Gone(deleted=await self.layers(namespace).core.adelete(key))

    # -- facts -------------------------------------------------------------------------------------------------------

    @answering(ToolError)
    async def add_fact(
        self,
        subject: Annotated[Name, Field(description="Whom or what it is about, by the full name; never a pronoun.")],
        predicate: Annotated[Name, Field(description='What it says, in a few words, such as "lives in".')],
        object: Annotated[Name, Field(description="Of what, or whom.")],  # noqa: A002 - what a model calls it
        valid_from: Annotated[datetime | None, Field(description="Since when it holds. Leave out for now.")] = None,
        valid_to: Annotated[
            datetime | None, Field(description="When it ceased to hold. Leave out for what still holds.")
        ] = None,
        confidence: Annotated[float | None, Field(ge=0, le=1, description="How sure it is, if that is known.")] = None,
        namespace: Below = None,
    ) -> results.FactAdded:
        """Keep a fact as subject, predicate and object, such as: Maya Ortiz, lives in, Lisbon.

        It is kept with the time in which it holds. Where only one value can hold at a time, the value before it ends,
        and is kept as what was. Nothing is overwritten.
        """
        facts = self.facts(namespace)
        fact_id = await facts.aadd_fact(
            ROLE, subject, predicate, object, valid_from=valid_from, valid_to=valid_to, confidence=confidence
        )
        known = {fact.id: fact for fact in await facts.ahistory(subject, predicate)}
        if fact_id not in known:
            raise InvalidInput("The fact was taken back by somebody else at once; add it again if it is true.")
        clashes = await facts.acontradictions(subject, predicate)
        pairs = [clash.facts for clash in clashes if fact_id in {fact.id for fact in clash.facts}]
        return results.FactAdded(
            fact=results.fact_of(known[fact_id], QUOTED),
            ended=[results.fact_of(fact, QUOTED) for fact in known.values() if fact.ended_by == fact_id],
            contradicts=[results.fact_of(fact, QUOTED) for pair in pairs for fact in pair if fact.id != fact_id],
        )

    @answering(ToolError)
    async def search_facts(
        self,
        query: Annotated[
            str, Field(min_length=1, max_length=10_000, description='A question or a few words; "*" for the newest.')
        ],
        limit: Limit = 10,
        valid_at: Annotated[
            datetime | None, Field(description="Only what held at this time. Default: what has ended is found, too.")
        ] = None,
        max_chars: Chars = 1_500,
        namespace: Below = None,
    ) -> results.Facts:
        """Search the facts, and what was said that is no fact yet."""
        found = await self.facts(namespace).asearch(query, limit, valid=valid_at)
        return results.Facts(facts=[results.fact_of(fact, max_chars) for fact in found])

    @answering(ToolError)
    async def facts_at(
        self,
        subject: Annotated[Name | None, Field(description="Only of this. Default: of any.")] = None,
        predicate: Annotated[Name | None, Field(description="Only with this predicate. Default: any.")] = None,
        object: Annotated[Name | None, Field(description="Only of this object. Default: any.")] = None,  # noqa: A002
        valid_at: Annotated[datetime | None, Field(description="When they held. Default: now.")] = None,
        known_at: Annotated[
            datetime | None, Field(description="What was learned later does not count. Default: all counts.")
        ] = None,
        limit: Limit = 20,
        namespace: Below = None,
    ) -> results.Facts:
        """Look up which facts hold now, or held at a time, or were known at a time.

        Names must be exact; search_facts finds by words.
        """
        found = await self.facts(namespace).aas_of(
            valid_at, known_at, subject=subject, predicate=predicate, obj=object, limit=limit + 1
        )
        return results.Facts(
            facts=[results.fact_of(fact, QUOTED) for fact in found[:limit]], left_out=len(found[limit:])
        )

    @answering(ToolError)
    async def fact_history(
        self,
        subject: Annotated[Name, Field(description="Whom or what it is about, by name.")],
        predicate: Annotated[
            Name | None, Field(description='Only this, such as "lives in". Leave out for everything.')
        ] = None,
        limit: Limit = 20,
        namespace: Below = None,
    ) -> results.Facts:
        """Read all that ever held of somebody or something, in order, with the times and how it is known."""
        facts = self.facts(namespace)
        known = await facts.ahistory(subject, predicate)
        shown = []
        for fact in known[-limit:]:
            evidence = await facts.aevidence(fact.id)
            shown.append(
                results.fact_of(
                    fact,
                    QUOTED,
                    [
                        results.Source(
                            said_by=each.role,
                            time=each.recorded_at,
                            message_id=each.message_id,
                            conversation_id=each.conversation_id,
                            text=None if each.text is None else each.text[:QUOTED],
                        )
                        for each in evidence[:SOURCES]
                    ],
                )
            )
        return results.Facts(facts=shown, left_out=len(known) - len(shown))

    # -- conversations -----------------------------------------------------------------------------------------------

    @answering(ToolError)
    async def list_conversations(
        self,
        limit: Limit = 20,
        offset: Annotated[int, Field(ge=0, le=1_000_000, description="How many of the first to leave out.")] = 0,
        namespace: Below = None,
    ) -> results.Conversations:
        """List conversations, the one that was spoken in last first."""
        found = await self._memory.aconversations(self._access.here(namespace), limit=limit + 1, offset=offset)
        return results.Conversations(
            conversations=[
                results.Conversation(
                    conversation_id=each.conversation_id,
                    namespace=self._access.shown(each.namespace),
                    messages=each.messages,
                    first_at=each.first_at,
                    last_at=each.last_at,
                )
                for each in found[:limit]
            ],
            more=len(found) > limit,
        )

    @answering(ToolError)
    async def read_conversation(
        self,
        conversation_id: Annotated[str, Field(description="Which one, from list_conversations or search_memory.")],
        around: Annotated[
            str | None, Field(description="The id of a message that search_memory found. Default: read the end.")
        ] = None,
        before: Annotated[
            int, Field(ge=0, le=100, description="How many messages before it; at the end, how many of the last.")
        ] = 10,
        after: Annotated[int, Field(ge=0, le=100, description="How many messages after it.")] = 10,
        max_chars: Chars = 2_000,
        namespace: Below = None,
    ) -> results.Messages:
        """Read a conversation: its newest messages, or those around one that was found.

        To go further back, read around the first message that was given, with after=0.
        """
        return await self.conversation(conversation_id, around, before, after, max_chars, namespace)

    async def conversation(
        self,
        conversation_id: str,
        around: str | None = None,
        before: int = 20,
        after: int = 0,
        max_chars: int = 2_000,
        below: list[str] | None = None,
    ) -> results.Messages:
        """A part of a conversation, for the tool and for the resource."""
        chat = self._memory.conversation(conversation_id, self._access.here(below))
        found = await chat.aaround(around, before=max(before, around is None), after=after)
        if not found:
            raise InvalidInput(
                f"There is no conversation {conversation_id!r:.100} here; list_conversations tells which there "
                "are, and in which namespace."
            )
        shown = [results.message_of(each, max_chars) for each in found]
        return results.Messages(conversation_id=conversation_id, messages=shown)
