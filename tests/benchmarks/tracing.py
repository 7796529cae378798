"""What a traced operation costs: with nobody listening, and with each kind of listener.

    python tests/benchmarks/tracing.py

Prints the median of several rounds, in microseconds per operation.
"""

import statistics
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from langchain_agentmem.events import Hooks
from langchain_agentmem.tracing import Tracing

ROUNDS = 15


def measure(name: str, operation: Callable[[], object], times: int = 2_000) -> None:
    operation()
    rounds = [timeit.timeit(operation, number=times) / times * 1e6 for _ in range(ROUNDS)]
    print(f"{name:<44}{statistics.median(rounds):9.2f} us")


def operation_of(tracing: Tracing) -> Callable[[], None]:
    def operate() -> None:
        with tracing.step("memory.conversation.add", inputs=lambda: {"messages": 2}) as step:
            step.finish(lambda: {"ids": ["a", "b"]})

    return operate


@contextmanager
def surrounded_by(callbacks: list) -> Iterator[None]:
    from langchain_core.callbacks import CallbackManager
    from langchain_core.runnables.config import var_child_runnable_config

    token = var_child_runnable_config.set({"callbacks": CallbackManager(callbacks, callbacks)})
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def main() -> None:
    silent = operation_of(Tracing())
    measure("silent, LangChain not loaded", silent, 100_000)

    import langgraph.graph  # noqa: F401
    from langchain_core.runnables import RunnableLambda
    from langchain_core.tracers.base import BaseTracer
    from langsmith import utils

    class Forgetful(BaseTracer):
        def _persist_run(self, run) -> None:
            pass

    RunnableLambda(lambda _: None).invoke(None)
    measure("silent, LangChain and LangSmith loaded", silent, 100_000)
    with surrounded_by([]):
        measure("silent, inside a run that nobody traces", silent, 100_000)
    measure("  (langsmith.tracing_is_enabled alone)", utils.tracing_is_enabled, 20_000)
    measure("with a hook", operation_of(Tracing(Hooks([lambda _: None]))), 20_000)
    with surrounded_by([Forgetful()]):
        measure("with a tracer", silent)
        outer = Tracing()
        with outer.step("memory.session.add"):
            measure("with a tracer, nested", silent)


if __name__ == "__main__":
    main()
