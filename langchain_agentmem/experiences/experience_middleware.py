"""`ExperienceMiddleware`: the experiences that apply, for LangChain's agents.

    agent = create_agent(model, tools, middleware=[ExperienceMiddleware(library.selector(role="Planner"))])

They are selected for what the user said last.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.runnables.config import ensure_config

from langchain_agentmem.errors import InvalidInput, MissingExtra
from langchain_agentmem.experiences.experience import PART, told
from langchain_agentmem.experiences.experience_library import ExperienceLibrary
from langchain_agentmem.experiences.experience_selector import ExperienceSelector
from langchain_agentmem.experiences.model_choice import Selection
from langchain_agentmem.messages.prompt_forms import with_block

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
except ImportError as error:
    raise MissingExtra("ExperienceMiddleware", "agents") from error


class ExperienceMiddleware(AgentMiddleware[Any, Any, Any]):
    """Gives the model of an agent the instructions that apply to what the user said last.

    They stand at the end of the agent's own system message, and in no history. While the agent works on one request,
    each call of its model has them. A model that selects is asked again only where a tool has failed.

    Args:
        selector: An `ExperienceSelector`, or a library, for one with `options`.
        options: What a selector takes, see there.

    Raises:
        InvalidInput: An argument is wrong.
    """

    def __init__(self, selector: ExperienceSelector | ExperienceLibrary, **options: Any) -> None:
        super().__init__()
        if isinstance(selector, ExperienceLibrary):
            selector = selector.selector(**options)
        elif not isinstance(selector, ExperienceSelector) or options:
            raise InvalidInput("Give an ExperienceSelector, or an ExperienceLibrary with the options of a selector.")
        self._selector = selector

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with the instructions that apply.

        Args:
            request: What the agent is about to ask. It is not changed.
            handler: Asks it.
        """
        return handler(_with(request, self._selector.select(request.messages, config=ensure_config())))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """`wrap_model_call`, awaited."""
        return await handler(_with(request, await self._selector.aselect(request.messages, config=ensure_config())))


def _with(request: ModelRequest[Any], selection: Selection) -> ModelRequest[Any]:
    if not selection.experiences:
        return request
    return request.override(system_message=with_block(request.system_message, PART, told(selection.experiences)))
