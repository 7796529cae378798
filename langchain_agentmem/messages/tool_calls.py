"""What an assistant asks for: a tool, or another agent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from langchain_agentmem.base.encoding import from_plain, to_plain
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput, MessageError


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
        if not isinstance(self.agent_name, str) or not self.agent_name:
            raise MessageError(f"An agent call needs the name of an agent, not {safe_repr(self.agent_name)}.")

    def __hash__(self) -> int:
        return hash(self.agent_name)

    def to_dict(self) -> dict[str, Any]:
        """Give ``{"agent_name", "request"}``; what JSON has no word for is tagged.

        Raises:
            MessageError: The request holds an object that cannot be kept as JSON.
        """
        try:
            return {"agent_name": self.agent_name, "request": to_plain(self.request)}
        except InvalidInput as error:
            raise MessageError(f"request: {error}") from error

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build an agent call from what `to_dict` gave.

        Raises:
            MessageError: It is not a dictionary with an ``agent_name``.
        """
        if not isinstance(data, Mapping):
            raise MessageError(f"An agent call must be a dictionary, not {type(data).__name__}.")
        return cls(agent_name=data.get("agent_name", ""), request=from_plain(data.get("request")))


def _json_text(arguments: Any) -> str:
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"A tool call's arguments must be JSON-able: {error}") from error
