"""`ExperienceSelector`: of a library's experiences, those that apply to a query are put into its prompt (document 000).

    selector = memory.experiences("experience").selector(role="Planner", model=model)

    chain = selector | prompt | model              # a prompt with the variable {experiences}
    builder.add_node("experience", selector)       # a state with the key "experiences" or "llm_input_messages"

It is also one of LangChain's example selectors, for few-shot prompts.

What a selector is told when it is made, checked; and the configuration of document 000.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.example_selectors import BaseExampleSelector
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_agentmem.base.argument_checks import check_whole
from langchain_agentmem.base.concurrency import aside
from langchain_agentmem.base.files import path_of_file
from langchain_agentmem.base.namespaces import config_given, id_of, resolve
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations.session_memory import SessionMemory
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.experience import Experience, with_section
from langchain_agentmem.experiences.experience_selection import (
    PromptLog,
    Selecting,
    SelectionRequest,
    Session,
    beside,
    shown,
)
from langchain_agentmem.experiences.lexical_choice import THRESHOLD
from langchain_agentmem.experiences.model_choice import (
    DEFAULT,
    STRATEGIES,
    Selection,
    SelectionTemplate,
    Strategy,
)
from langchain_agentmem.language_models.model_calls import aperform, perform, usable_model
from langchain_agentmem.messages.prompt_forms import Form, Insertion, Keys, check_keys, form_of, last_said
from langchain_agentmem.tracing import Step, brief, within

if TYPE_CHECKING:
    from langchain_agentmem.experiences.experience_library import ExperienceLibrary

SELECTION_PROMPT, ALIAS, SWITCH = "experience.selection_prompt_path", "experience.llm_alias", "use_experience"
_CALLED = {"code_interpreter": "code_generator"}
"""Roles whose switch is not called after them (document 000)."""


def check_number(name: str, value: Any, most: float = math.inf) -> None:
    """Check an option that is a number from 0 up.

    Raises:
        InvalidInput: It is something else, or more than the most that it may be.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise InvalidInput(f"{name} must be a number from 0 to {most:g}, not {safe_repr(value)}.")


def check_session(session: Any) -> None:
    """Check what tells the situation.

    Raises:
        InvalidInput: It is no session, and does not name or give one.
    """
    if session is None or isinstance(session, SessionMemory) or callable(session):
        return
    if not isinstance(session, str):
        raise InvalidInput(
            f"session must be a SessionMemory, the id of one, or a function, not {type(session).__name__}."
        )
    id_of(session, "session")


def role_of(role: Any) -> str | None:
    """The role that asks; None for nobody in particular.

    Raises:
        InvalidInput: It is no text.
    """
    if role is not None and not isinstance(role, str):
        raise InvalidInput(f"A role is named by a text, not by {safe_repr(role)}.")
    return (role or "").strip() or None


def is_on(enabled: Any, role: str | None) -> bool:
    """Whether a role is given experiences.

    Args:
        enabled: Whether all roles are, or that by role, where True is the default.
        role: Which role.

    Raises:
        InvalidInput: It is something else.
    """
    on = enabled.get(role, True) if isinstance(enabled, Mapping) else enabled
    if not isinstance(on, bool):
        raise InvalidInput(f"enabled must be True or False, or that by role, not {safe_repr(enabled)}.")
    return on


def model_of(model: Any, models: Mapping[str, Any] | None, alias: Any) -> Any:
    """The model that is asked: the one that has the alias, if there is one.

    Raises:
        InvalidInput: No model has it, or the model cannot be asked.
    """
    if models is not None and not isinstance(models, Mapping):
        raise InvalidInput(f"models must be a mapping of aliases to models, not {type(models).__name__}.")
    if not alias:
        return usable_model(model)
    if not isinstance(alias, str) or alias not in (models or {}):
        known = ", ".join(map(repr, models or {})) or "none"
        raise InvalidInput(f"There is no model called {safe_repr(alias)}. models= has: {known:.200}.")
    return usable_model((models or {})[alias])


def strategy_of(strategy: Any, model: Any) -> Strategy:
    """How to select, where nobody says so: with a model if there is one.

    Raises:
        InvalidInput: There is no such strategy, or it needs a model.
    """
    chosen: Strategy = strategy or ("lexical" if model is None else "model")
    if chosen not in STRATEGIES:
        raise InvalidInput(f"strategy must be one of {', '.join(STRATEGIES)}, not {safe_repr(strategy)}.")
    if chosen != "lexical" and model is None:
        raise InvalidInput(f"To select by the strategy {safe_repr(chosen)} a model is needed: give model=.")
    return chosen


def template_of(template: Any) -> SelectionTemplate:
    """What a model is asked. Default: our own words."""
    if template is None:
        return DEFAULT
    return template if isinstance(template, SelectionTemplate) else SelectionTemplate(template)


def configured(config: Any, role: Any) -> dict[str, Any]:
    """The options of a selector that a configuration of document 000 names.

    Args:
        config: Keys and values.
        role: Whose selector it is.

    Raises:
        InvalidInput: A value is wrong, or the template cannot be used.
    """
    if not isinstance(config, Mapping):
        raise InvalidInput(f"A configuration is a mapping of keys to values, not {type(config).__name__}.")
    name = role_of(role)
    if name is None:
        raise InvalidInput('from_config needs a role, such as "Planner", to know which switch counts.')
    switch = f"{_called(name)}.{SWITCH}"
    path, alias = config.get(SELECTION_PROMPT) or None, config.get(ALIAS) or ""
    if not isinstance(config.get(switch, False), bool):
        raise InvalidInput(f"{safe_repr(switch)} must be true or false, not {safe_repr(config[switch])}.")
    if not isinstance(alias, str):
        raise InvalidInput(f"{safe_repr(ALIAS)} must be the alias of a model, not {safe_repr(alias)}.")
    if path is not None and not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"{safe_repr(SELECTION_PROMPT)} must be the path of a file, not {safe_repr(path)}.")
    return {
        "enabled": config.get(switch, False),
        "llm_alias": alias,
        "template": None if path is None else SelectionTemplate.from_file(path),
    }


def _called(role: str) -> str:
    """The name of a role as keys of a configuration begin: "code_generator" for "CodeGenerator"."""
    name = re.sub(r"\W+|(?<=[a-z0-9])(?=[A-Z])", "_", role).lower()
    return _CALLED.get(name, name)


STEP = "memory.experience.select"
ROUNDS = 3
"""How many rounds a selection looks back on (document 000)."""


class ExperienceSelector(Runnable[Any, Any], BaseExampleSelector):
    """Puts the experiences that apply into whatever a model is about to be given.

    It gives back what it is given, with their instructions in it:

    - Messages, or a prompt made of messages: as a system message behind those at the beginning, in the place of the one
      of the turn before. No conversation stores it as if it had been said.
    - A text, or a prompt that is one: before it.
    - A dictionary: as a text under `experiences_key`, "" where none applies, for a prompt that has this variable; if it
      has messages under `messages_key`, in these as well.
    - The state of a graph: the messages go to `output_messages_key` and the text to `experiences_key`, whichever the
      state has; the history stays as it is. A chain that is a node does not begin with it: what gives the prompt its
      variables, or the messages, out of the state stands before it.

    It selects for each query anew, among what the folder holds then. By their words, experiences are chosen without a
    model. A model's answers are remembered as long as query, situation and conditions are the same; where it fails, the
    words decide, and hooks are told with `ExperienceSelectionFellBack`.

    Args:
        library: Where the experiences are.
        role: Who asks: only what is meant for this role, or for all, is considered. Default: everything is.
        model: Who selects: a LangChain model, a function from messages to text, or a model's name. Default: nobody.
        strategy: "lexical" by words; "model"; "auto" asks the model only about those of which the words leave it open.
            Default: "model" if there is one, else "lexical".
        template: What the model is asked: a text with `{experiences}`, `{user_query}` and `{context}`, or a
            `SelectionTemplate`. Braces that are meant as such are doubled. Default: our own.
        max_selected: Most experiences that are chosen. Default: all that apply.
        threshold: From which score, between 0 and 1, the words decide that one applies. Default: what proved best.
        session: The session whose last rounds tell the situation, and that may name a sub folder by a shared entry
            "experience_sub_path": a `SessionMemory`, an id, or a function that gives one for a config, such as
            `memory.session`. Default: none; messages tell the situation, if there are any.
        rounds: How many rounds that is. Default 3.
        query: Gives the query, from what this is given. Default: the last thing the user said; of a dictionary,
            "input", "question", "query" or "user_query", or its only text; else what the session asked last.
        enabled: Whether it selects at all, or that by role, where True is the default. Where it does not, what is given
            passes with nothing put in. Default True.
        models: Models by alias. Default: none.
        llm_alias: Which of them selects, in the place of `model`. Default "": `model`.
        prompt_log: A folder for `<role>_experience_selection_log_<round>_<post>.json`, with what the model is asked; or
            a function that gives, for a config, the path of the main prompt's log, which has "prompt_log" in its name.
            Default: nothing is logged.
        timeout: Seconds to wait for the model. Default: as long as it takes.
        alone: Whether only the text of the chosen instructions is given back. Default False.
        messages_key: Where a state has its messages. Default "messages".
        output_messages_key: Where a node puts them. What a node before it has put there of this history, such as a
            compaction, it goes on from. Default "llm_input_messages".
        experiences_key: Where the text goes. Default "experiences".

    Raises:
        InvalidInput: An argument is wrong.
        MissingExtra: The model is a name, and langchain is not installed.
    """

    def __init__(
        self,
        library: ExperienceLibrary,
        *,
        role: str | None = None,
        model: Any = None,
        strategy: Strategy | None = None,
        template: str | SelectionTemplate | None = None,
        max_selected: int | None = None,
        threshold: float = THRESHOLD,
        session: Session | None = None,
        rounds: int = ROUNDS,
        query: Callable[[Any], str] | None = None,
        enabled: bool | Mapping[str, bool] = True,
        models: Mapping[str, Any] | None = None,
        llm_alias: str = "",
        prompt_log: str | os.PathLike[str] | Callable[[RunnableConfig], str | os.PathLike[str]] | None = None,
        timeout: float | None = None,
        alone: bool = False,
        messages_key: str = "messages",
        output_messages_key: str = "llm_input_messages",
        experiences_key: str = "experiences",
    ) -> None:
        if not hasattr(library, "folders"):
            raise InvalidInput(f"Experiences are selected from an ExperienceLibrary, not from {safe_repr(library)}.")
        asked = model_of(model, models, llm_alias)
        if max_selected is not None:
            check_whole("max_selected", max_selected, 1)
        check_whole("rounds", rounds)
        check_number("threshold", threshold, most=1)
        if timeout is not None:
            check_number("timeout", timeout, most=threading.TIMEOUT_MAX)
        check_session(session)
        if query is not None and not callable(query):
            raise InvalidInput(f"query must be a function, not {type(query).__name__}.")
        log: PromptLog | None = prompt_log if prompt_log is None or callable(prompt_log) else path_of_file(prompt_log)
        self.library = library
        self.role = role_of(role)
        self.strategy = strategy_of(strategy, asked)
        self.enabled = is_on(enabled, self.role)
        self._selecting = Selecting(
            folders=library.folders,
            namespace=library.namespace,
            role=self.role,
            strategy=self.strategy,
            model=asked,
            template=template_of(template),
            max_selected=max_selected,
            threshold=threshold,
            timeout=timeout,
            session=session,
            rounds=rounds,
            prompt_log=log,
        )
        self._query = query
        self._alone = alone
        self._messages_key = messages_key
        self._keys = Keys(output_messages_key, experiences_key, shared=True)
        check_keys(self._keys, messages_key, ("output_messages_key", "experiences_key"))

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        library: ExperienceLibrary,
        *,
        role: str,
        model: Any = None,
        models: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> ExperienceSelector:
        """Make a selector as a configuration of document 000 says.

        Args:
            config: Of its keys four are read: "planner.use_experience" or "code_generator.use_experience", by the role,
                default False; "experience.selection_prompt_path", a file with the template; "experience.llm_alias",
                default "" for `model`.
            library: Where the experiences are.
            role: "Planner", "CodeInterpreter" or "CodeGenerator"; another role's switch is called after it, such as
                "web_explorer.use_experience" for "WebExplorer".
            model: Who selects where no alias is given.
            models: Models by alias.
            **options: What the selector takes besides.

        Raises:
            InvalidInput: A value is wrong, the template cannot be used, or no model has the alias.
        """
        given = {"model": model, "models": models, **configured(config, role), **options, "role": role}
        try:
            inspect.signature(cls).bind(library, **given)
        except TypeError as error:
            raise InvalidInput(f"Experiences cannot be selected like this: {error}.") from error
        return cls(library, **given)

    # -- as a Runnable ------------------------------------------------------------------------------------------

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Put the experiences that apply into what is given.

        Args:
            input: A text, messages, a prompt, a dictionary, or the state of a graph.
            config: The run; its namespace says whose feedback counts.
            **kwargs: Not used.

        Returns:
            The same with the instructions in it; for a node of a graph, the update of its state.

        Raises:
            InvalidInput: Nothing can be put into this, or the state of the graph has no room for it.
        """
        config = config_given(config)
        if self._selecting.database.tracing.shows_content:
            return self._call_with_config(self._inject, input, config, **kwargs)
        with within(config) as complete:  # LangChain would show all of it
            return self._inject(input, None, complete, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """`invoke`, awaited."""
        config = config_given(config)
        if self._selecting.database.tracing.shows_content:
            return await self._acall_with_config(self._ainject, input, config, **kwargs)
        with within(config) as complete:
            return await self._ainject(input, None, complete, **kwargs)

    def _inject(self, given: Any, run_manager: Any, config: RunnableConfig, **kwargs: Any) -> Any:
        del run_manager, kwargs
        form = self._form(given, config)
        return self._closed(form, self._selected(self._request(given, form.messages, config)))

    async def _ainject(self, given: Any, run_manager: Any, config: RunnableConfig, **kwargs: Any) -> Any:
        del run_manager, kwargs
        form = await aside(self._form, given, config)
        request = await aside(self._request, given, form.messages, config)
        return await aside(self._closed, form, await self._aselected(request))

    # -- as what document 000 calls retrieve_experience ---------------------------------------------------------

    def select(
        self,
        query: Any,
        *,
        context: str | None = None,
        config: RunnableConfig | None = None,
        prompt_log_path: str | os.PathLike[str] | None = None,
    ) -> Selection:
        """Say which experiences apply, with reasons (`retrieve_experience` of document 000).

        Args:
            query: A text, or anything that `invoke` takes.
            context: The situation, as text. Default: as the session or the messages tell it.
            config: The run. Default: the one this is called in.
            prompt_log_path: The log of the main prompt, beside which the selection's is written. Default: as
                `prompt_log` says.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return self._selected(self._asked(query, context, config, prompt_log_path))

    async def aselect(
        self,
        query: Any,
        *,
        context: str | None = None,
        config: RunnableConfig | None = None,
        prompt_log_path: str | os.PathLike[str] | None = None,
    ) -> Selection:
        """`select`, awaited."""
        return await self._aselected(await aside(self._asked, query, context, config, prompt_log_path))

    # -- as an example selector ---------------------------------------------------------------------------------

    def select_examples(self, input_variables: dict[str, str]) -> list[dict[str, Any]]:
        """The experiences that apply, as examples for a few-shot prompt: "exp_id", "who", "when" and "what".

        Args:
            input_variables: The variables of the prompt.
        """
        return [each.to_dict() for each in self.select(input_variables).experiences]

    async def aselect_examples(self, input_variables: dict[str, str]) -> list[dict[str, Any]]:
        """`select_examples`, awaited."""
        return [each.to_dict() for each in (await self.aselect(input_variables)).experiences]

    def add_example(self, example: dict[str, str]) -> Path:
        """Add an experience to the library, see `ExperienceLibrary.add`.

        Args:
            example: "exp_id", "when" and "what", perhaps "who".
        """
        return self.library.add(Experience.from_dict(example))

    async def aadd_example(self, example: dict[str, str]) -> Path:
        """`add_example`, awaited."""
        return await self.library.aadd(Experience.from_dict(example))

    # -- plumbing -----------------------------------------------------------------------------------------------

    def _selected(self, request: SelectionRequest) -> Selection:
        if not self.enabled:
            return self._nothing(request)
        with self._step(request) as step:
            selection = perform(self._selecting.selecting(request), self._selecting.database)
            step.finish(partial(shown, selection))
        return selection

    async def _aselected(self, request: SelectionRequest) -> Selection:
        if not self.enabled:
            return self._nothing(request)
        async with self._step(request) as step:
            selection = await aperform(self._selecting.selecting(request), self._selecting.database)
            step.finish(partial(shown, selection))
        return selection

    def _nothing(self, request: SelectionRequest) -> Selection:
        return Selection(query=request.query, role=self.role, strategy=self.strategy)

    def _step(self, request: SelectionRequest) -> Step:
        return self._selecting.database.tracing.step(
            STEP,
            inputs=lambda: {
                "query": brief(request.query),
                "role": self.role,
                "strategy": self.strategy,
                "namespace": resolve(self.library.namespace, request.config),
            },
            config=request.config,
        )

    def _asked(
        self, query: Any, context: Any, config: RunnableConfig | None, main_log: str | os.PathLike[str] | None
    ) -> SelectionRequest:
        if context is not None and not isinstance(context, str):
            raise InvalidInput(f"The context of a query is a text, not {type(context).__name__}.")
        messages = form_of(query, {}, self._keys, self._messages_key).messages
        return self._request(query, messages, ensure_config(config_given(config)))._replace(
            context=context, log=None if main_log is None else beside(path_of_file(main_log))
        )

    def _request(self, given: Any, messages: list[BaseMessage], config: RunnableConfig) -> SelectionRequest:
        if self._query is None:
            place = last_said(messages)
            return SelectionRequest("" if place is None else str(messages[place].text), messages, config)
        asked = self._query(given)
        if not isinstance(asked, str):
            raise InvalidInput(f"query must give a text, not {type(asked).__name__}.")
        return SelectionRequest(asked, messages, config)

    def _form(self, given: Any, config: RunnableConfig) -> Form:
        if self._alone:
            return form_of(given, {}, self._keys, self._messages_key)._replace(close=lambda put: put.text)
        return form_of(given, config, self._keys, self._messages_key)

    def _closed(self, form: Form, selection: Selection) -> Any:
        return form.close(Insertion(lambda messages: with_section(messages, selection.experiences), selection.section))
