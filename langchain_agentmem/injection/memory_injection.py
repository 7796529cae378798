"""`MemoryInjection`: what is remembered goes into a prompt, into messages, or into what a graph shows its model.

    chain = memory.inject("user-42") | model                    # text, messages or a prompt in, the same out

    builder = StateGraph(CompactionState)                       # in a graph, the memory of the thread
    builder.add_node("memory", memory.inject())
    builder.add_node("answer", lambda state: {"messages": [model.invoke(state["llm_input_messages"])]})

Core memory stands in the prefix, and what was found for a question right before that. In a thread, prompts grow at
their end alone, so that a provider's cache of them lives on: what was brought stays where it is as long as its question
is shown, and is not brought again; changes of core memory are told beside the question, until a compaction begins the
prompt anew. What is deleted, or was rewound, is not shown any more. All of it is data, in fences that nothing in it can
end. `memory.conversation(thread_id).shown()` tells what a prompt was shown, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_agentmem.base.namespaces import ThreadLike
from langchain_agentmem.base.origins import Trust
from langchain_agentmem.injection.selection import Bringing
from langchain_agentmem.language_models.tokens import BudgetLike
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.messages.message_marks import Role
from langchain_agentmem.messages.prompt_forms import Insertion, MemoryRunnable, form_of, woven
from langchain_agentmem.search.memory_search import MemoryKind
from langchain_agentmem.storage.database import MemoryLike


class InjectionOptions(TypedDict, total=False):
    """What `MemoryInjection` takes beside the memory and whose it is."""

    namespace: Sequence[str] | None
    query: Callable[[Any], str] | None
    kinds: Sequence[MemoryKind] | None
    limit: int
    budget: BudgetLike | None
    role: Role
    trust: Trust | None


class MemoryInjection(MemoryRunnable):
    """Puts memory into whatever a model is about to be given.

    It gives back what it is given, with the memory in it:

    - Messages, or a prompt made of messages: core memory comes after the system messages, and what was found right
      before the last thing the user said, never between a call and its result.
    - A text, or a prompt that is one: both come before it.
    - The state of a graph, or a dictionary that has "messages": as messages. As a node of a graph it leaves the history
      alone and puts the messages under "llm_input_messages", as `CompactionNode` does. Where a node before it has put
      there what it made of this history, such as a compaction, it goes on from that.
    - Any other dictionary: the memory is added as a text under "memory", for a prompt that has this variable.

    Where the question asks for an order of events, a summary, or what contradicts what, what was found stands in the
    order of time, each with its day, and of a change both sides are there; the budget goes to the best all the same.

    Memory that is in the messages already is taken out first; no conversation stores it as if it had been said. Let it
    stand after a compaction, which would take what was brought out of the context with the messages around it.

    Whose memory it is: that of the named branch; else of the thread it runs in, if its graph has this memory's
    checkpointer; else there is no core memory, and everything in the namespace is searched. A thread or branch in a
    namespace of its own also finds what else was said and stored there. The root namespace reaches every other, so
    there a thread finds only what is its own, unless `kinds` are given.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        branch_or_config: The name of a branch, a `LayeredMemory`, or the config of a thread. Default: the run's.
        namespace: Whose memory, and where to look: this namespace and all below it. Default: the run's.
        query: Gives the question, from what this is given. Default: the last thing the user said; of a dictionary,
            "input", "question" or "query", or its only text.
        kinds: What is looked for: "record", "event", "message", "item" and so on. Default: see above.
        limit: How much is found at most. Default 8.
        budget: How much room core memory and what is brought for one question may take, see `Budget.of`; what stands
            around it comes on top, and so do changes of core memory. Default: as much as it takes.
        role: In whose role core memory stands: "user" or "system". What is found is always in the user's. Default
            "user".
        trust: How far what is shown must be trusted at least: "user", "person", "model", "tool", "import" or "unknown",
            each with all before it; or which of these are trusted. With "model", what a web page said is not shown, nor
            what was made of that. Default: all is shown.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    def __init__(
        self,
        memory: MemoryLike,
        branch_or_config: str | LayeredMemory | ThreadLike | None = None,
        *,
        namespace: Sequence[str] | None = None,
        query: Callable[[Any], str] | None = None,
        kinds: Sequence[MemoryKind] | None = None,
        limit: int = 8,
        budget: BudgetLike | None = None,
        role: Role = "user",
        trust: Trust | None = None,
    ) -> None:
        self._bringing = Bringing(
            memory=memory,
            branch_or_config=branch_or_config,
            namespace=namespace,
            query=query,
            kinds=kinds,
            limit=limit,
            budget=budget,
            role=role,
            trust=trust,
        )
        self._database = self._bringing.database

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Put memory into what is given.

        Args:
            input: A text, messages, a prompt, a dictionary, or the state of a graph.
            config: The run; its thread and namespace say whose memory, where nothing else does.
            **kwargs: Not used.

        Returns:
            The same with the memory in it; for a node of a graph, the update of its state.

        Raises:
            InvalidInput: Nothing can be put into this, or the state of the graph lacks the output key.
        """
        return super().invoke(input, config, **kwargs)

    def _run(self, given: Any, config: RunnableConfig) -> Any:
        form = form_of(given, config, "memory")
        brought = self._bringing.bringing(given, form.messages, ensure_config(config))

        def among(messages: list[BaseMessage]) -> list[BaseMessage]:
            return woven(messages, brought, self._bringing.role)

        return form.close(Insertion(among, "\n\n".join(brought.blocks())))
