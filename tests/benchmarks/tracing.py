"""What a traced operation costs: with nobody listening, and with each kind of listener, beside what LangChain's own
runs and LangSmith's functions cost in the same place.

    python tests/benchmarks/tracing.py

Prints the median of several rounds, in microseconds per operation, and how many times ours each peer costs. An
operation here does nothing, so this is what being traced adds to one.
"""

import os
import statistics
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langchain_agentmem.base.hooks import Hooks
from langchain_agentmem.tracing import Tracing

ROUNDS = 15

for library in ("LANGSMITH", "LANGCHAIN"):
    for name in ("TRACING", "TRACING_V2"):
        os.environ.pop(f"{library}_{name}", None)


def measure(name: str, operation: Callable[[], object], times: int = 2_000, *, ours: float | None = None) -> float:
    """Time it, print the median, and give it, in microseconds."""
    operation()
    rounds = [timeit.timeit(operation, number=times) / times * 1e6 for _ in range(ROUNDS)]
    median = statistics.median(rounds)
    ratio = "" if ours is None else f"   {median / ours:6.1f} times ours"
    print(f"  {name:<46}{median:9.2f} us{ratio}", flush=True)
    return median


def operation_of(tracing: Tracing) -> Callable[[], None]:
    """An operation that does nothing, with inputs and outputs as a small one has them."""

    def operate() -> None:
        with tracing.step("memory.conversation.add", inputs=lambda: {"messages": 2}) as step:
            step.finish(lambda: {"ids": ["a", "b"]})

    return operate


@contextmanager
def surrounded_by(callbacks: list[Any]) -> Iterator[None]:
    """As within a run of LangChain's that these listen to."""
    from langchain_core.callbacks import CallbackManager
    from langchain_core.runnables.config import var_child_runnable_config

    token = var_child_runnable_config.set({"callbacks": CallbackManager(callbacks, callbacks)})
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def in_a_graph(measuring: Callable[[], object], mode: str = "values") -> None:
    """Measure within a node of a graph, streamed in a mode."""
    from typing import TypedDict

    from langgraph.graph import START, StateGraph

    class State(TypedDict):
        text: str

    builder = StateGraph(State).add_node("node", lambda state: {"text": str(measuring())})
    for _ in builder.add_edge(START, "node").compile().stream({"text": ""}, stream_mode=mode):
        pass


def main() -> None:
    """Measure everything."""
    silent = operation_of(Tracing())
    print("nobody listens (at most 5 us)")
    measure("ours, LangChain not loaded", silent, 50_000)

    import langgraph.graph  # noqa: F401
    from langchain_core.callbacks import UsageMetadataCallbackHandler
    from langchain_core.runnables import RunnableLambda
    from langchain_core.tracers.base import BaseTracer
    from langsmith import Client, traceable, tracing_context

    class Forgetful(BaseTracer):
        def _persist_run(self, run: Any) -> None:
            pass

    class Nowhere(Client):
        """LangSmith's client, up to where it would send something."""

        def create_run(self, *_: Any, **__: Any) -> None:
            pass

        def update_run(self, *_: Any, **__: Any) -> None:
            pass

    peer = RunnableLambda(lambda _: {"ids": ["a", "b"]})
    theirs = traceable(name="add")(lambda messages: {"ids": ["a", "b"]})

    def call_peer() -> object:
        return peer.invoke({"messages": 2})

    call_peer()
    ours = measure("ours, LangChain and LangSmith loaded", silent, 50_000)
    measure("langsmith.traceable, off", lambda: theirs(2), ours=ours)
    measure("RunnableLambda", call_peer, ours=ours)
    in_a_graph(lambda: measure("ours, in a node of a graph", silent, 50_000))
    in_a_graph(lambda: measure("ours, in a graph whose messages are streamed", silent, 50_000), "messages")
    with surrounded_by([UsageMetadataCallbackHandler()]):
        measure("ours, where only tokens are counted", silent, 50_000)

    print("a tracer listens (at most 200 us)")
    with surrounded_by([Forgetful()]):
        ours = measure("ours", silent)
        measure("RunnableLambda", call_peer, ours=ours)
        with Tracing().step("memory.session.add"):
            measure("ours, beneath another step", silent)
    with tracing_context(
        enabled=True, client=Nowhere(api_url="http://127.0.0.1:1", api_key="none", auto_batch_tracing=False)
    ):
        measure("langsmith.traceable, on, nothing sent", lambda: theirs(2), ours=ours)
        measure("ours by LangSmith's tracer, nothing sent", silent, ours=ours)
    with surrounded_by([Forgetful()]):
        measure("ours, content left out", operation_of(Tracing(content=False)), ours=ours)

    print("others listen")
    measure("a hook", operation_of(Tracing(Hooks([lambda _: None]))), 5_000)
    in_a_graph(lambda: measure("the custom stream of a graph", silent), "custom")


if __name__ == "__main__":
    main()
