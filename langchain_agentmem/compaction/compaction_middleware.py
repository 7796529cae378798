"""`CompactionMiddleware` keeps an agent's context within budget, and handles providers' refusals.

    agent = create_agent(model, tools, middleware=[CompactionMiddleware(memory)], checkpointer=memory.checkpointer)

The agent's state keeps every original message. Each model call receives the compacted context of this history. If the
provider refuses the context as too large, the middleware repeats the call with a smaller context, at most twice.
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

from langchain_agentmem.base.concurrency import PerProcess, run_in_worker
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.compaction import graph_compactor
from langchain_agentmem.compaction.compacted_context import ConversationOption
from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig, window_of
from langchain_agentmem.compaction.graph_compactor import Compactor, ContextView
from langchain_agentmem.errors import MissingExtra, is_graph_bubble_up
from langchain_agentmem.language_models.model_calls import ModelLike, Refusal, refusal_kind
from langchain_agentmem.storage.database import MemoryLike, database_of

try:
    from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.agents.structured_output import AutoStrategy, ToolStrategy
except ImportError as error:
    raise MissingExtra("CompactionMiddleware", "agents") from error

logger = logging.getLogger(__name__)

MAX_RETRIES = 2
"""The maximum number of repetitions of a call that was refused as too large."""
_NEARLY_FULL_SHARE = 0.8
"""The share of the model's maximum input above which an unclear first error is treated as a size refusal."""
_MAX_OVERHEAD_SHARE = 0.75
"""The share of the limit above which the tokens of system message, tools and schemas cause a warning."""


class CompactionMiddleware(AgentMiddleware[Any, Any, Any]):
    """An agent middleware that keeps the context within budget and handles size refusals.

    A size refusal is an error by which a provider refuses a request as too large.

    The history is recorded in the conversation of the thread, each message once. `memory.search` finds messages that
    left the context, and the tools `recall_dropped` and `expand` retrieve them for the agent. Compactions are stored in
    the database. A restart, another process or another branch of the thread reuses them if the history matches. Without
    a thread in the config, nothing is recorded, and compactions are cached only in this object.

    A subagent runs on the thread of its caller and is recorded in its own conversation. A search includes that
    conversation only if you specify its id. A subagent that saves no checkpoints is not recorded. If the agent is a
    node of a graph, `share_conversation=True` records it in the graph's conversation.

    The token count includes the system message, the tools, and the schemas of a structured answer. A warning is logged
    once if these use more than three quarters of the limit. One object serves any number of agents, threads and tasks,
    sync or async.

    Place this middleware before any that adds messages for one call only, or else these messages are recorded. Place it
    after any that handles errors, such as `ModelRetryMiddleware`, which would otherwise handle a refusal first.

    This class is also a `ContextEdit` for LangChain's `ContextEditingMiddleware(edits=[…])`. An edit receives only the
    messages. It neither counts the tools and the system message nor handles refusals. Without `model`, its summaries
    are extracts of the original messages. In an async agent, an edit blocks the event loop while it runs.

    Args:
        memory: An `AgentMemory`, or the path or URL of a database.
        model: The summarizer: a LangChain model, a function from messages to text, or a name such as
            "openai:gpt-5-mini". Default None: the model that the agent is about to call.
        config: The budget and the policy. Default: `ManagedMemoryConfig()`.
        conversation_id: The conversation that records the history. Default: the run's.
        namespace: The namespace of the conversation. Default: the run's.
        share_conversation: True records a subagent in its caller's conversation. Default: False.
        window: The maximum input tokens of the agent's model. Default: from its profile, else from that of `model`.
        tools: True adds the tools `recall_dropped` and `expand` to the agent. Default: True. Pass False for an agent
            that has `memory.tools()` already.

    Raises:
        InvalidInput: An argument is invalid.
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
        self._conversation = ConversationOption(conversation_id, namespace, share_conversation).validate()
        self._compactor = Compactor(database_of(memory), config, model, window=window)
        self._lowered_limits: OrderedDict[Any, int] = OrderedDict()
        self._warned = False
        self.tools = []
        if tools:
            from langchain_agentmem.compaction.dropped_messages import dropped_tools  # noqa: PLC0415 - loaded on demand

            self.tools = dropped_tools(memory, self._conversation)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with the compacted context of the history.

        An unclear error with HTTP status 400, 413 or 422 is treated as a size refusal under two conditions: it is the
        first error of the call, and the request used more than four fifths of the model's maximum input.

        Args:
            request: The request of the agent.
            handler: The function that calls the model.

        Raises:
            Exception: An error of the model that is not a size refusal. The first size refusal is raised if the context
                cannot be made smaller or all repetitions were refused.
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
                self._save_limit(call)
                return response
            call.make_smaller()

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Run `wrap_model_call` asynchronously."""
        if not request.messages:
            return await handler(request)
        call = await run_in_worker(partial(self._prepare, request))
        while True:
            try:
                response = await handler(call.request)
            except Exception as error:
                if not call.record_refusal(error):
                    raise
            else:
                self._save_limit(call)
                return response
            await run_in_worker(call.make_smaller)

    def _prepare(self, request: ModelRequest[Any]) -> _ModelCall:
        """Compact the history of a request, and return the model call with the compacted context."""
        compactor, at = self._compactor_for(request.model)
        counter = compactor.counter
        tools = [*request.tools, *_response_schemas(request.response_format)]
        fixed_tokens = counter.count((), tools=tools, system=request.system_message)
        limit = compactor.limit
        if not self._warned and fixed_tokens > limit * _MAX_OVERHEAD_SHARE:
            self._warned = True
            logger.warning(
                "The system message, the tools and the schema of the answer use %d of the %d tokens of a context. "
                "Compaction cannot reduce these. Give the agent fewer tools, or raise threshold_tokens.",
                fixed_tokens,
                limit,
            )
        overhead = math.ceil(fixed_tokens / counter.factor())
        window = self._window_of(request.model)
        call = _ModelCall(request, request.messages, compactor, compactor.limit, at, overhead, window)
        call.set_context(compactor.compact_history(call.history, at, overhead=overhead))
        return call

    def apply(self, messages: list[Any], *, count_tokens: Callable[..., int]) -> None:
        """Replace messages with their compacted context, as a `ContextEdit` of LangChain.

        Args:
            messages: The history. The list is modified in place; its messages are not modified.
            count_tokens: Not used; the counter of the configuration applies.
        """
        del count_tokens
        if messages:
            compactor, at = self._compactor_for(None)
            messages[:] = compactor.compact_history(messages, at, overhead=0).messages

    def _save_limit(self, call: _ModelCall) -> None:
        """Remember the lowered limit of a model and conversation after an accepted call.

        Other conversations keep their limits, since their token counts may be more precise.
        """
        if call.at is not None and call.compactor.limit != call.limit:
            identity = graph_compactor.model_identity(call.request.model)
            with self._lock:
                graph_compactor.cache_value(self._lowered_limits, (identity, call.at), call.compactor.limit)

    def _compactor_for(self, model: Any) -> tuple[Compactor, ThreadKey | None]:
        """Return a compactor with the limit for a model, and the conversation of the run.

        The compactor is a copy of `self._compactor`. Both use the same caches.
        """
        at = self._conversation.resolve(self._compactor.database, ensure_config())
        with self._lock:
            lowered_limit = self._lowered_limits.get((graph_compactor.model_identity(model), at))
        compactor = copy.copy(self._compactor)
        compactor.model = model if self._compactor.model is None else self._compactor.model
        compactor.limit = lowered_limit or compactor.limit_for(self._window_of(model))
        return compactor, at

    def _window_of(self, model: Any) -> int | None:
        return self._compactor.window or window_of(model) or window_of(self._compactor.model)


@dataclass
class _ModelCall:
    """A call of the agent's model, which is repeated with a smaller context after a refusal.

    Attributes:
        request: The request to send next.
        history: The whole history.
        compactor: The compactor of this call. A refusal can lower its limit.
        limit: The compactor's limit before the call.
        at: The key of the conversation that records the history, or None.
        overhead: The tokens sent in addition to the messages, as counted, without the calibration factor.
        window: The maximum input tokens of the model; None if unknown.
        tokens: The calibrated tokens of the context, including the overhead.
        attempts: The numbers of the remaining attempts to make the context smaller.
        refusals: The size refusals of this call, oldest first.
        last_kind: The kind of the last error.
    """

    request: ModelRequest[Any]
    history: list[Any]
    compactor: Compactor
    limit: int
    at: ThreadKey | None
    overhead: int
    window: int | None
    tokens: int = 0
    attempts: Iterator[int] = field(default_factory=lambda: iter(range(1, MAX_RETRIES + 1)))
    refusals: list[Exception] = field(default_factory=list)
    last_kind: Refusal = "other"

    def set_context(self, view: ContextView) -> None:
        """Put a context into the request."""
        messages: list[Any] = view.messages
        self.tokens, self.request = view.tokens, self.request.override(messages=messages)

    def record_refusal(self, error: Exception) -> bool:
        """Record an error if it is a size refusal. Return False for any other error."""
        if is_graph_bubble_up(error):
            return False
        self.last_kind = refusal_kind(error)
        may_be_size = not self.refusals and self.window is not None and self.tokens > self.window * _NEARLY_FULL_SHARE
        if self.last_kind == "other" or (self.last_kind == "unclear" and not may_be_size):
            return False
        self.refusals.append(error)
        return True

    def make_smaller(self) -> None:
        """Put a smaller context into the request.

        Raises:
            Exception: The first refusal, if an attempt fails or no remaining attempt makes the context smaller.
        """
        if self.last_kind in {"tokens", "unclear"}:
            self.compactor.lower_limit(self.tokens, self.overhead)
        shrink = partial(self.compactor.shrink_history, self.history, self.at, overhead=self.overhead)
        for attempt in self.attempts:
            try:
                view = shrink(provider=graph_compactor.provider_of(self.request.model), attempt=attempt)
            except Exception as error:
                if is_graph_bubble_up(error):
                    raise
                logger.warning("A refused context could not be made smaller.", exc_info=True)
                break
            if view is not None:
                self.set_context(view)
                return
        raise self.refusals[0]


def _response_schemas(response_format: Any) -> list[dict[str, Any]]:
    """Return the schemas that a model receives for a structured answer, in the form of tools."""
    if isinstance(response_format, AutoStrategy):
        response_format = ToolStrategy(response_format.schema)
    single_spec = getattr(response_format, "schema_spec", None)
    return [
        {"name": spec.name, "parameters": dict(spec.json_schema)}
        for spec in ([single_spec] if single_spec is not None else getattr(response_format, "schema_specs", ()))
        if isinstance(spec.json_schema, Mapping)
    ]
