"""`ExperienceMiddleware`: inserts the instructions of applicable experiences into the prompts of LangChain agents.

    agent = create_agent(model, tools, middleware=[ExperienceMiddleware(library.selector(role="Planner"))])

The experiences are selected for the last user message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Unpack

from langchain_core.runnables.config import ensure_config

from langchain_agentmem.base.concurrency import run_in_worker
from langchain_agentmem.errors import InvalidInput, MissingExtra
from langchain_agentmem.experiences.experience_library import ExperienceLibrary, ExperienceSelector, SelectorOptions

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
except ImportError as error:
    raise MissingExtra("ExperienceMiddleware", "agents") from error


class ExperienceMiddleware(AgentMiddleware[Any, Any, Any]):
    """A middleware that inserts instructions for the last user message into agents' prompts.

    The instructions are inserted before that message and are not stored in the history. In a thread they stay there as
    long as the message is in the context, so that a provider's prompt cache stays valid. No instruction is inserted
    twice. For one user message, a selecting model is usually asked once, and again after each tool error. Place this
    middleware after one that compacts messages.

    Args:
        selector: An `ExperienceSelector`, or an `ExperienceLibrary` from which a selector is created.
        options: The options of the selector that is created; see `ExperienceSelector`. Only for a library.

    Raises:
        InvalidInput: An argument is invalid.
    """

    def __init__(self, selector: ExperienceSelector | ExperienceLibrary, **options: Unpack[SelectorOptions]) -> None:
        super().__init__()
        if isinstance(selector, ExperienceLibrary):
            selector = selector.selector(**options)
        elif not isinstance(selector, ExperienceSelector) or options:
            raise InvalidInput("Pass an ExperienceSelector, or an ExperienceLibrary with the options of a selector.")
        self._selector = selector

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with the instructions that apply.

        Args:
            request: The request of the agent. It is not changed.
            handler: The function that sends a request to the model.
        """
        return handler(self._add_experiences(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Run `wrap_model_call` asynchronously."""
        return await handler(await run_in_worker(partial(self._add_experiences, request)))

    def _add_experiences(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        messages: list[Any] = self._selector._insert_experiences(request.messages, ensure_config())
        return request.override(messages=messages)
