"""Checks that apply to all tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool


def check_schemas(tools: Iterable[BaseTool]) -> None:
    """Check that a provider is told of every argument but the config."""
    for tool in tools:
        schema = convert_to_openai_tool(tool)["function"]
        assert schema["description"] == tool.description
        assert all("description" in each for each in schema["parameters"]["properties"].values())
        assert "config" not in schema["parameters"]["properties"]


async def check_mistakes(tools: Mapping[str, BaseTool], mistakes: Iterable[tuple[str, Any, str]]) -> None:
    """Check that each call comes back as a message that says what is wrong.

    Args:
        tools: The tools by their names.
        mistakes: Names of tools, wrong arguments, and what the message says.
    """
    for name, arguments, said in mistakes:
        call = {"name": name, "args": arguments, "id": "c", "type": "tool_call"}
        for message in (tools[name].invoke(call), await tools[name].ainvoke(call)):
            assert message.status == "error", arguments
            assert said in message.content, arguments
            assert "\x1b" not in message.content
            message.content.encode()
