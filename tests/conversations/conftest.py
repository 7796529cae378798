"""A fixture that says everything once, for the synchronous methods and for their awaited twins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

TWINS = {"messages": "aget_messages", "get_messages": "aget_message_dicts"}


@pytest.fixture(params=("sync", "async"))
def do(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Call a method, or read a property, by its synchronous name: as it is, or through its twin."""

    async def call(target: Any, name: str, /, *arguments: Any, **options: Any) -> Any:
        if request.param == "async":
            return await getattr(target, TWINS.get(name, f"a{name}"))(*arguments, **options)
        value = getattr(target, name)
        return value(*arguments, **options) if callable(value) else value

    return call
