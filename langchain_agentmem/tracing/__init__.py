"""Every operation of memory can be seen as a step of the agent's run, and costs next to nothing while nobody looks.

Where LangSmith is switched on, nothing has to be done. Any other tracer of LangChain's sees the same:

    from langchain_core.tracers.context import collect_runs

    from langchain_agentmem import AgentMemory

    with AgentMemory("agent.db") as memory, collect_runs() as seen:
        memory.conversation("monday").add_user_message("My sister Ana lives in Lisbon.")
        memory.search("Where does Ana live?")
        for run in seen.traced_runs:
            print(run.name, run.inputs, run.outputs)

`AgentMemory(trace_content=False)` leaves out what was said and remembered, and a function from text to text masks it.

Within the package a step is taken like this:

    tracing = Tracing(hooks, metadata={"agentmem_database": "sqlite"})
    with tracing.step("memory.conversation.add", inputs=lambda: {"messages": 2}) as step:
        ids = store(messages)
        step.finish(lambda: {"ids": ids})

A step that is heard becomes a run under the caller's run, in LangSmith and in any other LangChain tracer: it is told to
them the way LangChain tells its own, through the callbacks of the surrounding config. While the step is open it is the
surrounding run, so that a model called within it shows beneath it. Hooks get a `StepStarted` and a `StepFinished`, and
the log one DEBUG line.

Three things decide the shape of these modules:

- Silence must be cheap (`langchain_runs.py`). LangChain takes tens of microseconds to find out that nobody listens,
  LangSmith alone more than four. So we first look at the few places where a listener can be, and ask LangChain only
  when one may be there. Where such a place is not as we know it, because the library has moved on, the answer is
  "maybe".
- Inputs and outputs are functions, called only when somebody listens; what is content in them is shown as the user
  wants it (`shown_values.py`).
- Looking on never changes what happens: nothing that tracing raises reaches the operation, and what the operation
  raises passes unchanged.

In an async call the runs of LangChain begin and end on the event loop of the caller (`base/concurrency.py`).

What an agent or a user causes is one step, `memory.<part>.<verb>`. `Tracing.step` (`tracing/trace_steps.py`) makes it:
`Database.read`, `write` and `step`, a `Search` and `ask` (`model_calls.py`) call it. An operation made of others is one
step with the telling ones beneath; a detail has no name, and is no step.

- **Silence** costs a microsecond or two: listeners are looked for where they can be before LangChain is asked
  (`langchain_runs.py`).
- **Inputs and outputs** are functions, called only where somebody listens. `shown_values.py` decides by key what of
  them is content: a text is, unless its key is known to hold a name. So names that users choose never become keys.
- **Where content is withheld**, whatever LangChain itself would show of our Runnables, and of the models that we ask,
  is no run.
- **Hooks** are called in the thread of the operation, in the caller's context (`base/events.py`).
"""

from langchain_agentmem.tracing.langchain_runs import RunType, within
from langchain_agentmem.tracing.shown_values import (
    Content,
    brief,
    documents,
    given_only,
    outcome,
    outcome_with,
    summary,
)
from langchain_agentmem.tracing.trace_steps import SILENT, Step, Thunk, Tracing

__all__ = [
    "SILENT", "Content", "RunType", "Step", "Thunk", "Tracing", "brief", "documents", "given_only", "outcome",
    "outcome_with", "summary", "within",
]  # fmt: skip
