"""The tools of the server. Models read the docstrings and descriptions of this module.

Each tool gets its namespace from `Access.client_namespace`, and checks all arguments before it writes. A write is one
transaction. Errors state the remedy, and reveal nothing that the client may not see.
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
"""The role of the source of facts that a client adds."""
MAX_SOURCES, QUOTE_LENGTH = 3, 300
"""The maximum number of sources of a fact in a result, and of the characters of each."""
MAX_HINTS = 5
"""The maximum number of namespaces in the hint for a search without results."""
MAX_TEXT_LENGTH = 100_000
"""The maximum length of a text in characters."""

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_LENGTH)]
Name = Annotated[str, Field(min_length=1, max_length=500)]


def _split_path(given: object) -> object:
    """Split a path such as "work/plans", which models write, to labels."""
    return [label for label in given.split("/") if label] if isinstance(given, str) else given


Below = Annotated[
    list[str] | None,
    Field(
        max_length=50, description='The labels of a namespace below your own, such as ["work"]. Leave out for your own.'
    ),
    BeforeValidator(_split_path),
]
Limit = Annotated[int, Field(ge=1, le=100, description="The maximum number of results.")]
Chars = Annotated[int, Field(ge=1, le=MAX_TEXT_LENGTH, description="The maximum number of characters of each text.")]
Kind = Literal["message", "fact", "item", "event", "record"]


def raising(error: type[Exception]) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
    """Make a decorator that converts errors of the memory to errors of the MCP SDK.

    Args:
        error: The class of the SDK's error.
    """

    def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return await function(*args, **kwargs)
            except InvalidInput as refused:
                raise error(sanitize_text(str(refused))) from refused
            except AgentMemoryError as failed:
                # The message may name files and hosts; the docstring of the class does not.
                raise error(" ".join((type(failed).__doc__ or "").split())) from failed

        return call

    return decorate


class Tools:
    """The tools of one memory.

    Args:
        memory: The memory.
        access: The namespaces of clients.
        branch: The branch of core memory, records and facts.
    """

    def __init__(self, memory: AgentMemory, access: Access, branch: str) -> None:
        self._memory = memory
        self._access = access
        self._branch = branch

    def layers(self, below: list[str] | None = None) -> LayeredMemory:
        """Return the layers of the client."""
        return self._memory.layers(self._branch, self._access.client_namespace(below))

    def facts(self, below: list[str] | None = None) -> KGMemory:
        """Return the facts of the client."""
        return self._memory.facts(self._branch, self._access.client_namespace(below))

    # -- search ------------------------------------------------------------------------------------------------------

    @raising(ToolError)
    async def search_memory(
        self,
        query: Annotated[str, Field(min_length=1, max_length=10_000, description="Any text or question.")],
        limit: Limit = 10,
        kinds: Annotated[list[Kind] | None, Field(description="Only these kinds. Leave out for all kinds.")] = None,
        conversation_id: Annotated[str | None, Field(description="Only in this conversation. Default: all.")] = None,
        roles: Annotated[
            list[Name] | None, Field(max_length=20, description='Only messages of these roles, such as "user".')
        ] = None,
        after: Annotated[datetime | None, Field(description="Only entries of this time or later.")] = None,
        before: Annotated[datetime | None, Field(description="Only entries before this time.")] = None,
        order: Annotated[
            Literal["score", "time"],
            Field(description='"score" for the best first, or "time" for the oldest first, to follow a topic.'),
        ] = "score",
        max_chars: Chars = 1_500,
        namespace: Below = None,
    ) -> results.SearchResults:
        """Search everything that is remembered: messages, facts, records, events and items.

        Each result says why it was found. Words of the question are enough; times in it, such as "last March", count
        too.
        """
        scope = self._access.client_namespace(namespace)
        found = await self._memory.asearch(
            query,
            namespace=scope,
            everything=not scope,  # the root namespace requires it
            limit=limit,
            kinds=kinds,
            conversation_id=conversation_id,
            roles=roles,
            before=before,
            after=after,
            order=order,
        )
        hits = []
        for each in found:
            text, clipped = results.clip_text(each.text, max_chars)
            hits.append(
                results.SearchResult(
                    kind=each.kind,
                    id=each.id,
                    text=text,
                    clipped=clipped,
                    score=each.score,
                    why=results.Why(words=dict(each.why.terms), signals=dict(each.why.signals)),
                    time=each.created_at,
                    conversation_id=each.conversation_id,
                    namespace=self._access.labels_below(each.namespace),
                    replaced_by=None if each.replaced_by is None else each.replaced_by[1],
                )
            )
        return results.SearchResults(results=hits, hint=None if found or not namespace else await self._hint(scope))

    async def _hint(self, namespace: Namespace) -> str | None:
        """Return a hint that lists existing namespaces; None if the searched one exists."""
        if await self._memory.admin.anamespaces(namespace):
            return None
        existing = await self._memory.admin.anamespaces(self._access.client_namespace())
        labels = [self._access.labels_below(each.namespace) for each in existing]
        names = ", ".join(str(each) for each in labels[:MAX_HINTS] if each)
        return f"This namespace is empty. {f'Existing namespaces: {names}.' if names else 'Leave it out.'}"

    # -- records -----------------------------------------------------------------------------------------------------

    @raising(ToolError)
    async def remember(
        self,
        text: Annotated[Text, Field(description="The text to remember, understandable without its context.")],
        tags: Annotated[
            list[Name] | None, Field(max_length=50, description="Words to distinguish it from other records.")
        ] = None,
        namespace: Below = None,
    ) -> results.Record:
        """Store a text permanently, as a record that search_memory finds.

        For what should always be at hand use set_core_memory; for "who, does what, to what" use add_fact. Secrets such
        as passwords are removed.
        """
        archival = self.layers(namespace).archival
        record_id = await archival.awrite(text, tags or ())
        record = await archival.aget(record_id)
        if record is None:
            raise InvalidInput("The record was deleted by another client meanwhile. Remember it again if it is needed.")
        text, clipped = results.clip_text(record.content, 1_500)
        return results.Record(id=record.id, text=text, clipped=clipped, tags=list(record.tags))

    @raising(ToolError)
    async def forget(
        self,
        record_id: Annotated[
            Name, Field(description="The id of a record, from remember or search_memory, or of a fact.")
        ],
        namespace: Below = None,
    ) -> results.Deletion:
        """Delete a record permanently, or retract a wrong fact.

        If a fact was right but has changed, use add_fact instead. Messages cannot be deleted here; for core memory use
        delete_core_memory.
        """
        layers = self.layers(namespace)
        if await layers.archival.adelete(record_id):
            return results.Deletion(deleted=True)
        corrections, scope = self._memory.corrections, layers.namespace
        fact = await corrections.acurrent("fact", record_id, namespace=scope, branch=self._branch)
        exists = fact.value is not None
        if exists:
            await corrections.adelete("fact", record_id, by=ROLE, namespace=scope, branch=self._branch)
        return results.Deletion(deleted=exists)

    # -- core memory -------------------------------------------------------------------------------------------------

    @raising(ToolError)
    async def read_core_memory(self, namespace: Below = None) -> results.Core:
        """Read core memory: a few keys and values that should always be at hand, such as the user's name.

        Read it at the beginning of a conversation.
        """
        return await self.core(namespace)

    async def core(self, below: list[str] | None = None) -> results.Core:
        """Return core memory, for the tool and for the resource."""
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

    @raising(ToolError)
    async def set_core_memory(
        self,
        key: Annotated[Name, Field(description='Its key, such as "name" or "current project".')],
        value: Annotated[Text, Field(description="The value; short. It replaces an existing value of the key.")],
        importance: Annotated[
            int, Field(ge=1, le=5, description="The least important value is moved out first when space is needed.")
        ] = 3,
        expires_in: Annotated[
            float | None, Field(ge=1, le=1e11, description="The seconds until it expires. Leave out to keep it.")
        ] = None,
        namespace: Below = None,
    ) -> results.Core:
        """Set a value of core memory, which is always at hand.

        Values that no longer fit become records. Returns the new core memory.
        """
        await self.layers(namespace).core.aset(key, value, importance, expires_in)
        return await self.core(namespace)

    @raising(ToolError)
    async def delete_core_memory(
        self,
        key: Annotated[Name, Field(description="Its key, exactly as read_core_memory returns it.")],
        namespace: Below = None,
    ) -> results.Deletion:
        """Delete a value of core memory permanently, by its key."""
        return results.Deletion(deleted=await self.layers(namespace).core.adelete(key))

    # -- facts -------------------------------------------------------------------------------------------------------

    @raising(ToolError)
    async def add_fact(
        self,
        subject: Annotated[
            Name, Field(description="The full name of the person or thing it is about; never a pronoun.")
        ],
        predicate: Annotated[Name, Field(description='The relation in a few words, such as "lives in".')],
        object: Annotated[Name, Field(description="The other end of the relation, such as a place or a person.")],  # noqa: A002 - what a model calls it
        valid_from: Annotated[
            datetime | None, Field(description="The time since which it is valid. Leave out for now.")
        ] = None,
        valid_to: Annotated[
            datetime | None, Field(description="The time at which it ended. Leave out if it is still valid.")
        ] = None,
        confidence: Annotated[float | None, Field(ge=0, le=1, description="The confidence, if known.")] = None,
        namespace: Below = None,
    ) -> results.FactAdded:
        """Store a fact as subject, predicate and object, such as: Maya Ortiz, lives in, Lisbon.

        It is stored with the time in which it is valid. If only one value can be valid at a time, the previous value
        ends and stays in the history. Nothing is overwritten.
        """
        facts = self.facts(namespace)
        fact_id = await facts.aadd_fact(
            ROLE, subject, predicate, object, valid_from=valid_from, valid_to=valid_to, confidence=confidence
        )
        known = {fact.id: fact for fact in await facts.ahistory(subject, predicate)}
        if fact_id not in known:
            raise InvalidInput("The fact was retracted by another client meanwhile. Add it again if it is true.")
        clashes = await facts.acontradictions(subject, predicate)
        pairs = [clash.facts for clash in clashes if fact_id in {fact.id for fact in clash.facts}]
        return results.FactAdded(
            fact=results.fact_of(known[fact_id], QUOTE_LENGTH),
            ended=[results.fact_of(fact, QUOTE_LENGTH) for fact in known.values() if fact.ended_by == fact_id],
            contradicts=[results.fact_of(fact, QUOTE_LENGTH) for pair in pairs for fact in pair if fact.id != fact_id],
        )

    @raising(ToolError)
    async def search_facts(
        self,
        query: Annotated[
            str,
            Field(min_length=1, max_length=10_000, description='A question or a few words; "*" for the newest facts.'),
        ],
        limit: Limit = 10,
        valid_at: Annotated[
            datetime | None, Field(description="Only facts valid at this time. Default: ended facts are found too.")
        ] = None,
        max_chars: Chars = 1_500,
        namespace: Below = None,
    ) -> results.Facts:
        """Search the facts, and messages from which no facts were extracted yet."""
        found = await self.facts(namespace).asearch(query, limit, valid=valid_at)
        return results.Facts(facts=[results.fact_of(fact, max_chars) for fact in found])

    @raising(ToolError)
    async def facts_at(
        self,
        subject: Annotated[Name | None, Field(description="Only facts with this subject. Default: any.")] = None,
        predicate: Annotated[Name | None, Field(description="Only facts with this predicate. Default: any.")] = None,
        object: Annotated[Name | None, Field(description="Only facts with this object. Default: any.")] = None,  # noqa: A002
        valid_at: Annotated[
            datetime | None, Field(description="The time at which they are valid. Default: now.")
        ] = None,
        known_at: Annotated[
            datetime | None,
            Field(description="Leave out facts learned later than this time. Default: none are left out."),
        ] = None,
        limit: Limit = 20,
        namespace: Below = None,
    ) -> results.Facts:
        """Look up the facts that are valid now, or were valid or known at a time.

        Names must be exact; search_facts finds by words.
        """
        found = await self.facts(namespace).aas_of(
            valid_at, known_at, subject=subject, predicate=predicate, obj=object, limit=limit + 1
        )
        return results.Facts(
            facts=[results.fact_of(fact, QUOTE_LENGTH) for fact in found[:limit]], left_out=len(found[limit:])
        )

    @raising(ToolError)
    async def fact_history(
        self,
        subject: Annotated[Name, Field(description="The name of the person or thing they are about.")],
        predicate: Annotated[
            Name | None, Field(description='Only this predicate, such as "lives in". Leave out for all.')
        ] = None,
        limit: Limit = 20,
        namespace: Below = None,
    ) -> results.Facts:
        """Read all facts about a person or thing that were ever valid, oldest first, with times and sources."""
        facts = self.facts(namespace)
        known = await facts.ahistory(subject, predicate)
        history = []
        for fact in known[-limit:]:
            evidence = await facts.aevidence(fact.id)
            history.append(
                results.fact_of(
                    fact,
                    QUOTE_LENGTH,
                    [
                        results.Source(
                            said_by=each.role,
                            time=each.recorded_at,
                            message_id=each.message_id,
                            conversation_id=each.conversation_id,
                            text=None if each.text is None else each.text[:QUOTE_LENGTH],
                        )
                        for each in evidence[:MAX_SOURCES]
                    ],
                )
            )
        return results.Facts(facts=history, left_out=len(known) - len(history))

    # -- conversations -----------------------------------------------------------------------------------------------

    @raising(ToolError)
    async def list_conversations(
        self,
        limit: Limit = 20,
        offset: Annotated[int, Field(ge=0, le=1_000_000, description="The number of conversations to skip.")] = 0,
        namespace: Below = None,
    ) -> results.Conversations:
        """List conversations, the most recently used first."""
        found = await self._memory.aconversations(
            self._access.client_namespace(namespace), limit=limit + 1, offset=offset
        )
        return results.Conversations(
            conversations=[
                results.Conversation(
                    conversation_id=each.conversation_id,
                    namespace=self._access.labels_below(each.namespace),
                    messages=each.messages,
                    first_at=each.first_at,
                    last_at=each.last_at,
                )
                for each in found[:limit]
            ],
            more=len(found) > limit,
        )

    @raising(ToolError)
    async def read_conversation(
        self,
        conversation_id: Annotated[
            str, Field(description="The id of the conversation, from list_conversations or search_memory.")
        ],
        around: Annotated[
            str | None,
            Field(
                description="The id of a message that search_memory found. Default: read the end of the conversation."
            ),
        ] = None,
        before: Annotated[
            int,
            Field(
                ge=0, le=100, description="The number of messages before it; at the end, the number of last messages."
            ),
        ] = 10,
        after: Annotated[int, Field(ge=0, le=100, description="The number of messages after it.")] = 10,
        max_chars: Chars = 2_000,
        namespace: Below = None,
    ) -> results.Messages:
        """Read a conversation: its newest messages, or the messages around one of them.

        To go further back, read around the first returned message, with after=0.
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
        """Return a part of a conversation, for the tool and for the resource."""
        chat = self._memory.conversation(conversation_id, self._access.client_namespace(below))
        found = await chat.aaround(around, before=max(before, around is None), after=after)  # at least 1 at the end
        if not found:
            raise InvalidInput(
                f"There is no conversation {conversation_id!r:.100} here. Call list_conversations for existing "
                "conversations and their namespaces."
            )
        messages = [results.message_of(each, max_chars) for each in found]
        return results.Messages(conversation_id=conversation_id, messages=messages)
