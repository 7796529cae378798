"""What an assistant asks for: a tool, another agent, or a next step (documents 001 and 003)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from langchain_agentmem.base.encoding import from_plain, to_plain
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput, MessageError

NEXT_ACTIONS = ("call_tool", "invoke_agent", "final_response")


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCallMsg:
    """A request to call a tool.

    Attributes:
        id: The id that the tool's answer refers to. May be empty when the model gave none.
        call_id: A second id that some providers keep. Default: the same as ``id``.
        type: Default ``"function"``.
        name: The tool's name.
        arguments: The arguments as JSON text, exactly as the model wrote them. A dictionary is accepted and
            becomes JSON text. Default ``"{}"``.
    """

    id: str
    call_id: str = ""
    type: str = "function"
    name: str
    arguments: str = "{}"

    def __post_init__(self) -> None:
        if not self.call_id:
            object.__setattr__(self, "call_id", self.id)
        if not isinstance(self.arguments, str):
            object.__setattr__(self, "arguments", _json_text(self.arguments))
        for field in ("id", "call_id", "type", "name"):
            value = getattr(self, field)
            if not isinstance(value, str):
                raise MessageError(f"A tool call's {safe_repr(field)} must be text, not {type(value).__name__}.")

    def to_dict(self) -> dict[str, Any]:
        """Give the form of the OpenAI API: ``{"id", "type", "function": {"name", "arguments"}}``.

        ``call_id`` is added only where it differs from ``id``.
        """
        data: dict[str, Any] = {
            "id": self.id,
            "type": self.type,
            "function": {"name": self.name, "arguments": self.arguments},
        }
        if self.call_id != self.id:
            data["call_id"] = self.call_id
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a tool call.

        Args:
            data: The form of the OpenAI API, the flat form ``{"id", "call_id", "type", "name",
                "arguments"}``, or LangChain's ``{"name", "args", "id", "type": "tool_call"}``.

        Raises:
            MessageError: It is none of these.
        """
        if not isinstance(data, Mapping):
            raise MessageError(f"A tool call must be a dictionary, not {type(data).__name__}.")
        inner = data.get("function")
        named = inner if isinstance(inner, Mapping) else data
        name = named.get("name")
        if name is None:
            raise MessageError(f"A tool call needs a 'name'; this one has only {sorted(map(str, data))}.")
        arguments = named.get("arguments", named.get("args"))
        kind = data.get("type")
        identity = data.get("id")
        call_id = data.get("call_id")
        identity = identity if identity is not None else call_id
        return cls(
            id="" if identity is None else identity,
            call_id="" if call_id is None else call_id,
            type="function" if kind in (None, "tool_call", "invalid_tool_call") else kind,
            name=name,
            arguments="{}" if arguments is None else arguments,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentCallMsg:
    """A request to call another agent.

    Attributes:
        agent_name: The agent's name.
        request: What it is asked, of any storable type. Default None.
    """

    agent_name: str
    request: Any = None

    def __post_init__(self) -> None:
        if not _is_named(self.agent_name):
            raise MessageError(f"An agent call needs the name of an agent, not {safe_repr(self.agent_name)}.")

    def __hash__(self) -> int:
        return hash(self.agent_name)

    def to_dict(self) -> dict[str, Any]:
        """Give ``{"agent_name", "request"}``; what JSON has no word for is tagged.

        Raises:
            MessageError: The request holds an object that cannot be kept as JSON.
        """
        return {"agent_name": self.agent_name, **_plain(request=self.request)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build an agent call from what `to_dict` gave.

        Raises:
            MessageError: It is not a dictionary with an ``agent_name``.
        """
        if not isinstance(data, Mapping):
            raise MessageError(f"An agent call must be a dictionary, not {type(data).__name__}.")
        return cls(agent_name=data.get("agent_name", ""), request=from_plain(data.get("request")))


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageContent:
    """What an agent thinks, and does next.

    Attributes:
        thought: Its reasoning. Default None.
        next_action: ``"call_tool"``, ``"invoke_agent"`` or ``"final_response"``. Default None.
        action_input: What the action is given. Default None.
    """

    thought: str | None = None
    next_action: str | None = None
    action_input: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.thought is not None and not isinstance(self.thought, str):
            raise MessageError(f"A thought must be text, not {type(self.thought).__name__}.")
        if self.next_action is not None and self.next_action not in NEXT_ACTIONS:
            raise MessageError(f"next_action must be one of {NEXT_ACTIONS}, not {safe_repr(self.next_action)}.")
        if self.action_input is not None and not isinstance(self.action_input, dict):
            raise MessageError(f"action_input must be a dictionary, not {type(self.action_input).__name__}.")

    def __hash__(self) -> int:
        return hash((self.thought, self.next_action))

    def to_dict(self) -> dict[str, Any]:
        """Give the fields that are set."""
        fields = {"thought": self.thought, "next_action": self.next_action}
        fields |= _plain(action_input=self.action_input)
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build the content from what `to_dict` gave. Other keys are ignored.

        Raises:
            MessageError: A field has a wrong type, or the action is unknown.
        """
        if not isinstance(data, Mapping):
            raise MessageError(f"Message content must be a dictionary, not {type(data).__name__}.")
        return cls(
            thought=data.get("thought"),
            next_action=data.get("next_action"),
            action_input=from_plain(data.get("action_input")),
        )


def _plain(**fields: Any) -> dict[str, Any]:
    try:
        return {name: to_plain(value) for name, value in fields.items()}
    except InvalidInput as error:
        raise MessageError(f"{', '.join(fields)}: {error}") from error


def _is_named(name: Any) -> bool:
    return isinstance(name, str) and name != ""


def _json_text(arguments: Any) -> str:
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"A tool call's arguments must be JSON-able: {error}") from error
