"""`MemoryMiddleware`: an agent's model is shown what is remembered, and the agent's state never holds it.

    agent = create_agent(model, tools, middleware=[MemoryMiddleware(memory)], checkpointer=memory.checkpointer)

Each time the model is called, core memory stands in the prefix of the request, and what fits a question right before
that, where it stays. With `tools=True` the agent can also change its memory itself.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Unpack

from langchain_core.runnables.config import ensure_config

from langchain_agentmem.base.concurrency import in_worker
from langchain_agentmem.base.namespaces import ThreadLike
from langchain_agentmem.errors import MissingExtra
from langchain_agentmem.injection.memory_injection import InjectionOptions, MemoryInjection
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.messages.prompt_forms import with_block, woven
from langchain_agentmem.storage.database import MemoryLike

try:
    from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
except ImportError as error:
    raise MissingExtra("MemoryMiddleware", "agents") from error

logger = logging.getLogger(__name__)


class MemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """Shows the model of an agent what is remembered.

    The memory is that of the thread, which follows it through time travel, unless a branch is named: see
    `MemoryInjection`, whose arguments these are. In a namespace, which `AgentMemory(url, namespace=("users",
    "{user_id}"))` gives every run, threads see what the others remember; without one a thread is alone, which is logged
    once. One object serves any number of agents, threads and tasks.

    Among other middleware, let it stand after whatever shortens or records the history, such as `CompactionMiddleware`:
    memory that changes from turn to turn is no part of a history.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        branch_or_config: The name of a branch, a `LayeredMemory`, or the config of a thread. Default: the run's thread.
        namespace: Whose memory, and where to look: this namespace and all below it. Another than the run's means its
            branch "main", which all threads share. Default: the run's.
        query: Gives the question, from the messages of the request. Default: the last thing the user said.
        kinds: What is looked for: "record", "event", "message", "item" and so on. Default: what is the thread's own,
            and in a namespace of its own everything there.
        limit: How much is found at most. Default 8.
        budget: How much room core memory and what is brought for one question may take: a number of characters, or
            {"total": 400, "unit": "tokens"}, see `Budget.of`. Default: as much as it takes.
        role: In whose role core memory stands: "user", or "system" for the end of the agent's system message. What is
            found is always in the user's. Default "user".
        trust: How far what is shown must be trusted at least: "user", "person", "model", "tool", "import" or "unknown",
            each with all before it; or which of these are trusted. With "model", what a web page said is not shown, nor
            what was made of that. Default: all is shown.
        tools: Whether the agent is given the small set of `memory.tools()` by which it keeps things in mind:
            `mem_core_set`, `mem_core_del`, `mem_archival_write` and `mem_archival_search`; `recall_dropped` and
            `expand` come with `CompactionMiddleware`. Or the names of tools on layers and facts, see `memory.tools`;
            "fact_*" means all that begin so. Each costs about a hundred tokens of every prompt. Default False.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    def __init__(
        self,
        memory: MemoryLike,
        branch_or_config: str | LayeredMemory | ThreadLike | None = None,
        *,
        tools: bool | Iterable[str] = False,
        **options: Unpack[InjectionOptions],
    ) -> None:
        super().__init__()
        self._selection = MemoryInjection(memory, branch_or_config, **options)
        self._told = False
        self.tools = _tools(memory, branch_or_config, self._selection.namespace, tools)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with what is remembered.

        Args:
            request: What the agent is about to ask. It is not changed.
            handler: Asks it.
        """
        return handler(self._with_memory(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Async version of `wrap_model_call`."""
        return await handler(await in_worker(partial(self._with_memory, request)))

    def _with_memory(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        config = ensure_config()
        if not self._told and self._selection._is_of_one_thread(config):
            self._told = True
            logger.warning(
                "What this agent remembers stays in its thread: no other thread of the same user knows it. To share "
                'it, open AgentMemory(url, namespace=("users", "{user_id}")) and name the user in the config, or give '
                "MemoryMiddleware a namespace."
            )
        brought = self._selection._bring(request.messages, request.messages, config)
        if self._selection.role == "system" and brought.core:
            request = request.override(system_message=with_block(request.system_message, "core", brought.core))
            brought = brought._replace(core="")
        messages: list[Any] = woven(request.messages, brought)
        return request.override(messages=messages)


def _tools(memory: Any, whose: Any, namespace: Sequence[str] | None, wanted: Any) -> list[Any]:
    if wanted is False:
        return []
    # Whoever wants no tools need not load what they need.
    from langchain_agentmem.facts.fact_tools import fact_tools  # noqa: PLC0415
    from langchain_agentmem.language_models.tool_factory import chosen  # noqa: PLC0415
    from langchain_agentmem.layers.layer_tools import SMALL_SET, layer_tools  # noqa: PLC0415

    if isinstance(whose, LayeredMemory):
        made = layer_tools(whose)
    else:
        made = [*layer_tools(memory, whose, namespace), *fact_tools(memory, whose, namespace)]
    more = " CompactionMiddleware brings recall_dropped and expand; or give the agent itself memory.tools(include=[…])."
    return chosen(made, SMALL_SET if wanted is True else wanted, more)
