"""`MemoryMiddleware` adds memory to an agent's model calls, but not to its state.

    agent = create_agent(model, tools, middleware=[MemoryMiddleware(memory)], checkpointer=memory.checkpointer)

In each request, core memory is directly after the system message, or appended to it (`role="system"`). The hits for a
question are directly before that question, also in later requests. With `tools=True`, the agent can also change its
memory.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Unpack

from langchain_core.runnables.config import ensure_config

from langchain_agentmem.base.concurrency import run_in_worker
from langchain_agentmem.base.namespaces import ThreadLike
from langchain_agentmem.errors import MissingExtra
from langchain_agentmem.injection.memory_injection import InjectionOptions, MemoryInjection
from langchain_agentmem.layers.layered_memory import LayeredMemory
from langchain_agentmem.messages.prompt_forms import append_block, insert_memory
from langchain_agentmem.storage.database import MemoryLike

try:
    from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
except ImportError as error:
    raise MissingExtra("MemoryMiddleware", "agents") from error

logger = logging.getLogger(__name__)


class MemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """A middleware that adds memory to the model calls of an agent.

    Its arguments are those of `MemoryInjection`, which also describes how the memory of a run is selected. By default,
    an agent with the checkpointer of this memory uses the memory of its thread, which rewinds with the thread.

    In a namespace other than the root, searches also find the memory of the namespace's other threads. Set a namespace
    for every run with `AgentMemory(url, namespace=("users", "{user_id}"))`. Without one, a thread finds only its own
    memory, and a warning is logged once. One middleware serves any number of agents, threads and tasks.

    Place it after middleware that shortens or records the history, such as `CompactionMiddleware`. Otherwise the other
    middleware also receives the injected memory, which is not part of the history.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        branch_or_config: The name of a branch, a `LayeredMemory`, or the config of a thread. Default: the run's thread.
        namespace: The namespace of the memory. A search covers it and all namespaces below it. A namespace other than
            the run's selects its branch "main", which all threads share. Default: the run's.
        query: A function from the messages of the request to the question. Default: the last user message.
        kinds: The kinds to search: "record", "event", "message", "item" and so on. Default: the thread's own memory,
            and everything in the namespace unless it is the root.
        limit: The maximum number of hits. Default: 8.
        budget: The maximum size of core memory and the hits of one question: a number of characters, or
            {"total": 400, "unit": "tokens"}, see `Budget.of`. Default: unlimited.
        role: The role of core memory: "user" for a message, or "system" for the end of the agent's system message. Hits
            always have the role "user". Default: "user".
        trust: The least trusted source to inject, or a list of exactly the sources to inject. The order of trust is
            "user", "person", "model", "tool", "import", "unknown". With "model", the results of tools, such as a web
            page, are not injected; notes that the agent wrote about that page are. Default: all sources.
        tools: True gives the agent the most important tools of `memory.tools()`: `mem_core_set`, `mem_core_del`,
            `mem_archival_write` and `mem_archival_search`. Or pass the names of other tools for layers and facts;
            "fact_*" selects all names with that prefix. Each tool uses about 100 tokens of every prompt.
            `CompactionMiddleware` adds `recall_dropped` and `expand`. Default: False.

    Raises:
        InvalidInput: An argument is invalid.
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
        self._injection = MemoryInjection(memory, branch_or_config, **options)
        self._warned = False
        self.tools = _make_tools(memory, branch_or_config, self._injection.namespace, tools)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with memory added to the request.

        Args:
            request: The request of the agent. It is not modified.
            handler: The function that calls the model.
        """
        return handler(self._add_memory(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Run `wrap_model_call` asynchronously."""
        return await handler(await run_in_worker(partial(self._add_memory, request)))

    def _add_memory(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        config = ensure_config()
        if not self._warned and self._injection._is_thread_only(config):
            self._warned = True
            logger.warning(
                "The memory of this agent stays in its thread: no other thread of the same user can read it. To share "
                'it, open AgentMemory(url, namespace=("users", "{user_id}")) and pass user_id in the config, or pass a '
                "namespace to MemoryMiddleware."
            )
        texts = self._injection._collect_texts(request.messages, request.messages, config)
        if self._injection.role == "system" and texts.core:
            request = request.override(system_message=append_block(request.system_message, "core", texts.core))
            texts = texts._replace(core="")
        messages: list[Any] = insert_memory(request.messages, texts)
        return request.override(messages=messages)


def _make_tools(memory: Any, branch_or_config: Any, namespace: Sequence[str] | None, include: Any) -> list[Any]:
    if include is False:
        return []
    # Imported here because an agent without tools does not need these modules.
    from langchain_agentmem.facts.fact_tools import fact_tools  # noqa: PLC0415
    from langchain_agentmem.language_models.tool_factory import select_tools  # noqa: PLC0415
    from langchain_agentmem.layers.layer_tools import ESSENTIAL_TOOLS, layer_tools  # noqa: PLC0415

    if isinstance(branch_or_config, LayeredMemory):
        tools = layer_tools(branch_or_config)
    else:
        tools = [*layer_tools(memory, branch_or_config, namespace), *fact_tools(memory, branch_or_config, namespace)]
    hint = " CompactionMiddleware adds recall_dropped and expand. Or pass memory.tools(include=[…]) to the agent."
    return select_tools(tools, ESSENTIAL_TOOLS if include is True else include, hint)
