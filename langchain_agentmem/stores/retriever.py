r"""`AgentMemoryRetriever`: the search as a LangChain retriever, for chains.

    retriever = memory.retriever(namespace=("alice",), limit=4)
    chain = {"context": retriever, "question": RunnablePassthrough()} | prompt | model

The retriever calls `memory.search`. If the retriever has no namespace, the config of each run supplies the namespace.
A call may override arguments: `retriever.invoke(question, k=3)`. A trace shows each call as a run named
`memory.retrieval.search`. The setting `trace_content` of the memory determines whether this run contains texts.

A question may contain a time ("what did Ana plan in May?") or a speaker. The arguments
`conversation_id`, `roles`, `kinds`, `before` and `after` restrict the results. The score of a message also depends on
its neighbours and its conversation, so a result need not contain the words of the question. `why` explains the score.

    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnablePassthrough

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory:
        retriever = memory.retriever(limit=4, roles=["user"])
        prompt = ChatPromptTemplate.from_template("You know: {known}\n\nAnswer: {question}")
        chain = {"known": retriever, "question": RunnablePassthrough()} | prompt  # | model
        print(chain.invoke("Where does Ana live?", {"configurable": {"agentmem_namespace": ("alice",)}}).to_string())

With embeddings, the search also compares meanings (extra `[vectors]`). Vectors are computed in the background, in
batches. Until a document has a vector, or if the embedding model fails, the search finds the document by its words.

    from langchain_core.embeddings import DeterministicFakeEmbedding

    from langchain_agentmem import AgentMemory

    embeddings = DeterministicFakeEmbedding(size=64)  # or other LangChain embeddings, "openai:text-embedding-3-small"
    with AgentMemory("meaning.db", index={"dims": 64, "embed": embeddings}) as memory:
        memory.conversation("monday").add_user_message("The kettle whistles at six.")
        memory.store.put(("users", "ana"), "tea", {"likes": "green tea"})
        print([(result.kind, result.text, str(result.why)) for result in memory.search("whistling kettle")])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.runnables.config import patch_config
from pydantic import Field, ValidationError

from langchain_agentmem.base.argument_checks import describe_fault
from langchain_agentmem.base.namespaces import check_config
from langchain_agentmem.base.origins import Trust
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.messages.message import Message
from langchain_agentmem.rewinding.search_view import SearchRequest, build_search
from langchain_agentmem.search.memory_search import MemoryKind, Recollection
from langchain_agentmem.search.ranking import Weights
from langchain_agentmem.search.timeline import Order
from langchain_agentmem.storage.database import Database, HasDatabase

_IGNORED_ARGUMENTS = {"verbose", "run_id"}
"""Arguments of LangChain's `invoke` that a search does not use."""


class SearchOptions(TypedDict, total=False):
    """The search arguments of `AgentMemory.retriever`, with `tags`, `metadata` and `name`."""

    namespace: Sequence[str] | None
    limit: int
    k: int
    kinds: Sequence[MemoryKind] | None
    conversation_id: str | None
    roles: Sequence[str] | None
    before: datetime | None
    after: datetime | None
    everything: bool
    abandoned: bool
    order: Order
    trust: Trust | None
    weights: Weights | None
    tags: list[str] | None
    metadata: dict[str, Any] | None
    name: str | None


_ARGUMENTS = tuple(name for name in SearchOptions.__annotations__ if name not in {"k", "tags", "metadata", "name"})


class RetrieverOptions(SearchOptions):
    """The arguments of `AgentMemoryRetriever`."""

    memory: HasDatabase


class AgentMemoryRetriever(BaseRetriever):
    """A LangChain retriever that returns search results as documents.

    A document's `page_content` is the text of a result. Its `id` is the id of the message, or the key of the item. Its
    `metadata` has JSON-able values:

    - "kind", "score", "why" (as text), "namespace" (a list), "conversation_id", and "created_at" (ISO 8601, in UTC)
    - "also" for the duplicates of a result, and "replaced_by" for its replacement, if there are any
    - for messages, "role", and "name" if the message has one

    Attributes:
        memory: The `AgentMemory` to search.
        namespace: The namespace to search, including all below it. Default: the namespace or thread of each run, as for
            `AgentMemory.search`.
        limit: The maximum number of documents. `k` is another name of this argument. Default: 10.
        kinds: Only these kinds, as for `AgentMemory.search`. Default: all but "audit".
        conversation_id: Only this conversation. Default: all.
        roles: Only messages of these roles. Default: all.
        before: Only results from before this time. A time without a time zone is UTC.
        after: Only results from this time or later.
        everything: True to search every namespace, as an administrator. Default: False.
        abandoned: True to also find messages that a rewind has hidden. Default: False.
        order: "score" for the best first, "time" for the oldest first, as for `AgentMemory.search`. Default: "score".
        trust: The lowest trusted level of writers, or a sequence of levels, as for `AgentMemory.search`. Default: all.
        weights: The weights of the signals in the score. Default: those of the memory.

    Raises:
        InvalidInput: An argument is invalid, or its name is unknown.
    """

    memory: Any = Field(exclude=True, repr=False)
    namespace: tuple[str, ...] | None = None
    limit: int = 10
    kinds: tuple[str, ...] | None = None
    conversation_id: str | None = None
    roles: tuple[str, ...] | None = None
    before: datetime | None = None
    after: datetime | None = None
    everything: bool = False
    abandoned: bool = False
    order: Order = "score"
    trust: str | tuple[str, ...] | None = None
    weights: Weights | None = None

    def __init__(self, **options: Unpack[RetrieverOptions]) -> None:
        if unknown := sorted(options.keys() - type(self).model_fields - {"k"}):
            raise InvalidInput(
                f"Unknown argument {safe_repr(unknown[0])}. A retriever accepts {', '.join(_ARGUMENTS)}."
            )
        memory: Any = options.get("memory")
        if not isinstance(getattr(memory, "database", None), Database) or not hasattr(memory, "search"):
            raise InvalidInput(f"memory must be an AgentMemory, not {type(memory).__name__}. Use memory.retriever(…).")
        fields: dict[str, Any] = _rename_k(options)
        arguments = {name: type(self).model_fields[name].default for name in _ARGUMENTS}
        arguments |= {name: value for name, value in fields.items() if name in arguments}
        weights = memory.weights if (own_weights := arguments.pop("weights")) is None else own_weights
        request = SearchRequest("", **arguments | {"everything": arguments["everything"] or not arguments["namespace"]})
        build_search(memory.database, request, None, weights)  # raise errors now, except for a default namespace
        if (conversation := fields.get("conversation_id")) is not None:
            fields["conversation_id"] = str(conversation)
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InvalidInput(describe_fault(error)) from error

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        """Find documents.

        Args:
            input: Any text.
            config: The config of the surrounding run. Its namespace applies if the retriever has none.
            **kwargs: Any search argument, for this call only.

        Raises:
            InvalidInput: An argument is wrong.
        """
        results = self.memory.search(input, **self._search_arguments(kwargs), config=self._search_config(config))
        return list(map(_to_document, results))

    async def ainvoke(
        self,
        input: str,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Run `invoke` asynchronously."""
        results = await self.memory.asearch(input, **self._search_arguments(kwargs), config=self._search_config(config))
        return list(map(_to_document, results))

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **changes: Any
    ) -> list[Document]:
        return self.invoke(query, patch_config(ensure_config(), callbacks=run_manager.get_child()), **changes)

    def _search_config(self, config: RunnableConfig | None) -> RunnableConfig:
        """Return the config of a search, with the tags and the metadata of the retriever."""
        merged = ensure_config(check_config(config))
        tags = [*(merged.get("tags") or ()), *(self.tags or ())]
        metadata = {**(merged.get("metadata") or {}), **self._get_ls_params(), **(self.metadata or {})}
        merged.update({"tags": tags, "metadata": metadata})  # `merge_configs` would add the surrounding run's tags
        return merged

    def _search_arguments(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the search: those of the retriever, with changes for this call."""
        changed = {name: value for name, value in _rename_k(changes).items() if name not in _IGNORED_ARGUMENTS}
        if unknown := sorted(changed.keys() - set(_ARGUMENTS)):
            raise InvalidInput(f"Unknown argument {safe_repr(unknown[0])}. A search accepts {', '.join(_ARGUMENTS)}.")
        return {name: getattr(self, name) for name in _ARGUMENTS} | changed


def _rename_k(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with `k` renamed to `limit`."""
    if "k" not in arguments:
        return dict(arguments)
    if "limit" in arguments:
        raise InvalidInput("limit and k are the same option. Pass one of them.")
    return {"limit" if name == "k" else name: value for name, value in arguments.items()}


def _to_document(result: Recollection) -> Document:
    metadata: dict[str, Any] = {
        "kind": result.kind,
        "score": result.score,
        "why": str(result.why),
        "namespace": list(result.namespace),
        "conversation_id": result.conversation_id,
        "created_at": result.created_at.isoformat(),
    }
    if result.also:
        metadata["also"] = [list(duplicate) for duplicate in result.also]
    if result.replaced_by is not None:
        metadata["replaced_by"] = list(result.replaced_by)
    if isinstance(result.value, Message):
        metadata["role"] = str(result.value.role)
        if result.value.name is not None:
            metadata["name"] = result.value.name
    return Document(result.text, id=result.id, metadata=metadata)
