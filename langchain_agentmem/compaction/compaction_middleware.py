"""`CompactionMiddleware`: an agent's model is shown a context that fits, and what is refused is made smaller.

    agent = create_agent(model, tools, middleware=[CompactionMiddleware(memory)], checkpointer=memory.checkpointer)

The agent's state keeps every message as it was said. Each time its model is called, the compacted view of the history
goes in their place. Where the model says that it was given too much all the same, the view is made smaller and the call
is repeated, twice at most.
"""

from __future__ import annotations

import copy
import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langchain_core.runnables.config import ensure_config

from langchain_agentmem.base.concurrency import PerProcess, in_worker
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.compaction.compacted_context import ConversationOption
from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig, window_of
from langchain_agentmem.compaction.graph_compactor import Compactor, ContextView, name_of, provider_of, remember
from langchain_agentmem.errors import MissingExtra, leaves_the_node
from langchain_agentmem.language_models.model_calls import ModelLike, Refusal, refusal
from langchain_agentmem.storage.database import MemoryLike, database_of

try:
    from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.agents.structured_output import AutoStrategy, ToolStrategy
except ImportError as error:
    raise MissingExtra("CompactionMiddleware", "agents") from error

logger = logging.getLogger(__name__)

RETRIES = 2
"""How often a call that was refused as too large is repeated."""
_NEARLY_FULL = 0.8
"""From which share of the window on a refusal in words that nobody knows is taken for one of its size, once."""
_MOST_BESIDE = 0.75
"""Which share of a context what is sent beside the messages may take before that is told."""


class CompactionMiddleware(AgentMiddleware[Any, Any, Any]):
    """Keeps the context of an agent in its budget, and answers a model that says it was given too much.

    The history is recorded in the conversation of the thread, message by message, each once; `memory.search` finds what
    left the context, and the agent is given tools that bring it back. What was compacted is kept in the database, so
    that a restart, another process and another branch of the thread go on from there. Without a thread in the config
    nothing is recorded, and this object alone remembers what it compacted.

    A subagent runs on the thread of its caller, and is recorded in a conversation of its own, which a search leaves out
    unless it is named. One that saves no checkpoints is not recorded. An agent that is a node of a graph and works on
    the graph's own messages goes on with the graph's conversation if it has `share_conversation=True`.

    What is sent beside the messages is counted too: the system message, the tools, and the schema of a structured
    answer; a warning is logged, once, where these leave less than a quarter of the room. One object serves any number
    of agents, threads and tasks, awaited or not.

    Among other middleware, let it stand before whatever adds messages for one call only, which would else be recorded,
    and after whatever answers errors, such as `ModelRetryMiddleware`, which would else answer a refusal first.

    It is also a `ContextEdit` for LangChain's `ContextEditingMiddleware(edits=[…])`. An edit sees messages alone: there
    is nothing beside them to count, no refusal to answer, and no model but the one that is given here. Without a model,
    it makes summaries of what was said, and in an awaited agent everything waits while it works.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        model: What summarizes: a LangChain model, a function from messages to text, or a name such as
            "openai:gpt-5-mini". Default None: the model that the agent is about to call.
        config: The budget and what is done to keep it. Default: `ManagedMemoryConfig()`.
        conversation_id: Where to record. Default: the conversation of the run.
        namespace: Whose it is. Default: that of the run.
        share_conversation: Whether a subagent is recorded in its caller's conversation. Default False: it has its own.
        window: The tokens that the agent's model takes. Default: what the profile of that model tells, else that of
            `model`.
        tools: Whether the agent is given the tools `recall_dropped` and `expand`. Default True; False for an agent that
            has `memory.tools()` already.

    Raises:
        InvalidInput: An argument is wrong.
        StorageError: The database cannot be opened.
    """

    _lock = PerProcess(threading.Lock)

    def __init__(
        self,
        memory: MemoryLike,
        model: ModelLike | None = None,
        config: ManagedMemoryConfig | None = None,
        *,
        conversation_id: str | None = None,
        namespace: Sequence[str] | None = None,
        share_conversation: bool = False,
        window: int | None = None,
        tools: bool = True,
    ) -> None:
        super().__init__()
        self._conversation = ConversationOption(conversation_id, namespace, share_conversation).checked()
        self._compactor = Compactor(database_of(memory), config, model, window=window)
        self._refused: OrderedDict[Any, int] = OrderedDict()
        self._told = False
        self.tools = []
        if tools:
            from langchain_agentmem.compaction.dropped_messages import dropped_tools  # noqa: PLC0415 - who needs it pays

            self.tools = dropped_tools(memory, self._conversation)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with the compacted view of the history.

        Args:
            request: What the agent is about to ask.
            handler: Asks it.

        Raises:
            Exception: What the model raised: at once where it does not say that it was given too much, and the first
                such error where the context cannot be made smaller, or was refused to the end. HTTP status 400, 413 or
                422 in words that nobody knows is answered once, where more than four fifths of the window was sent.
        """
        if not request.messages:
            return handler(request)
        call = self._prepare(request)
        while True:
            try:
                response = handler(call.request)
            except Exception as error:
                if not call.record_refusal(error):
                    raise
            else:
                self._keep_limit(call)
                return response
            call.make_smaller()

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Async version of `wrap_model_call`."""
        if not request.messages:
            return await handler(request)
        call = await in_worker(partial(self._prepare, request))
        while True:
            try:
                response = await handler(call.request)
            except Exception as error:
                if not call.record_refusal(error):
                    raise
            else:
                self._keep_limit(call)
                return response
            await in_worker(call.make_smaller)

    def _prepare(self, request: ModelRequest[Any]) -> _ModelCall:
        """Compact the history of a request."""
        compactor, at = self._for(request.model)
        counter = compactor.counter
        tools = [*request.tools, *_schemas(request.response_format)]
        beside = counter.count((), tools=tools, system=request.system_message)
        limit = compactor.limit
        if not self._told and beside > limit * _MOST_BESIDE:
            self._told = True
            logger.warning(
                "The system message, the tools and the schema of the answer take %d tokens of the %d that a context "
                "may have, which leaves little for messages, however much is compacted. Give the agent fewer tools, or "
                "raise threshold_tokens.",
                beside,
                limit,
            )
        overhead = math.ceil(beside / counter.factor())
        window = self._window_of(request.model)
        call = _ModelCall(request, request.messages, compactor, compactor.limit, at, overhead, window)
        call.show(compactor.viewing(call.history, at, overhead=overhead))
        return call

    def apply(self, messages: list[Any], *, count_tokens: Callable[..., int]) -> None:
        """Put the compacted view in the place of messages, as LangChain's `ContextEdit` does.

        Args:
            messages: The history; the list is changed, and none of the messages is.
            count_tokens: Not used: what counts is the counter of the configuration.
        """
        del count_tokens
        if messages:
            compactor, at = self._for(None)
            messages[:] = compactor.viewing(messages, at).messages

    def _keep_limit(self, call: _ModelCall) -> None:
        """Keep the contexts of a thread within a limit, now that a model took less than it had refused.

        Another thread is another matter: what it holds may be counted better, and nobody's mistake is to make every
        context small.
        """
        if call.at is not None and call.compactor.limit != call.limit:
            with self._lock:
                remember(self._refused, (name_of(call.request.model), call.at), call.compactor.limit)

    def _for(self, model: Any) -> tuple[Compactor, ThreadKey | None]:
        """A compactor for a model, and the conversation: what is remembered is shared, a budget is each one's own."""
        at = self._conversation.of(self._compactor.database, ensure_config())
        with self._lock:
            refused = self._refused.get((name_of(model), at))
        compactor = copy.copy(self._compactor)
        compactor.model = model if self._compactor.model is None else self._compactor.model
        compactor.limit = refused or compactor.limit_within(self._window_of(model))
        return compactor, at

    def _window_of(self, model: Any) -> int | None:
        return self._compactor.window or window_of(model) or window_of(self._compactor.model)


@dataclass
class _ModelCall:
    """A call of the agent's model, which is repeated with a smaller context after a refusal.

    Attributes:
        request: The request to send next.
        history: The whole history.
        compactor: The compactor of this call, whose limit becomes lower with a refusal.
        limit: The limit before the call.
        at: The conversation in which the history is recorded, or None.
        overhead: Tokens that are sent beside the messages.
        window: The tokens that the model takes, or None.
        tokens: The tokens of the request.
        attempts: The numbers of the attempts that are left.
        refusals: The refusals.
        kind: The kind of the last one.
    """

    request: ModelRequest[Any]
    history: list[Any]
    compactor: Compactor
    limit: int
    at: ThreadKey | None
    overhead: int
    window: int | None
    tokens: int = 0
    attempts: Iterator[int] = field(default_factory=lambda: iter(range(1, RETRIES + 1)))
    refusals: list[Exception] = field(default_factory=list)
    kind: Refusal = "other"

    def show(self, view: ContextView) -> None:
        """Put a context into the request."""
        shown: list[Any] = view.messages
        self.tokens, self.request = view.tokens, self.request.override(messages=shown)

    def record_refusal(self, error: Exception) -> bool:
        """Record an error that says that the context is too large. Return False for any other error."""
        if leaves_the_node(error):
            return False
        self.kind = refusal(error)
        nearly_full = not self.refusals and self.window is not None and self.tokens > self.window * _NEARLY_FULL
        if self.kind == "other" or (self.kind == "unclear" and not nearly_full):
            return False
        self.refusals.append(error)
        return True

    def make_smaller(self) -> None:
        """Put a smaller context into the request.

        Raises:
            Exception: The first refusal, if no attempt is left that makes the context smaller.
        """
        if self.kind in {"tokens", "unclear"}:
            self.compactor.lower(self.tokens, self.overhead)
        provider = provider_of(self.request.model)
        for attempt in self.attempts:
            try:
                view = self.compactor.smaller(
                    self.history, self.at, provider=provider, attempt=attempt, overhead=self.overhead
                )
            except Exception as error:
                if leaves_the_node(error):
                    raise
                logger.warning("A context that was refused could not be made smaller.", exc_info=True)
                break
            if view is not None:
                self.show(view)
                return
        raise self.refusals[0]


def _schemas(wanted: Any) -> list[dict[str, Any]]:
    """The schemas that a model is sent so that its answer has a structure."""
    if isinstance(wanted, AutoStrategy):
        wanted = ToolStrategy(wanted.schema)
    only = getattr(wanted, "schema_spec", None)
    return [
        {"name": spec.name, "parameters": dict(spec.json_schema)}
        for spec in ([only] if only is not None else getattr(wanted, "schema_specs", ()))
        if isinstance(spec.json_schema, Mapping)
    ]
