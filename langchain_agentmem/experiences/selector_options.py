"""What a selector is told when it is made, checked; and the configuration of document 000."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import Any

from langchain_agentmem.base.namespaces import id_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.conversations.session_memory import SessionMemory
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.model_choice import STRATEGIES, Strategy
from langchain_agentmem.experiences.selection_template import DEFAULT, SelectionTemplate
from langchain_agentmem.language_models.model_calls import usable_model

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
