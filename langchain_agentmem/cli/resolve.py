"""What a command line names: one thread, one of its checkpoints with its state, one branch; found wherever it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.namespaces import CONFIG_KEY
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.cli.console import count, named, namespace_named
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.upkeep.overview import ThreadSummary

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

MAIN = "main"
"""The branch that is meant where none is named."""
_OWN = ("__", "branch:")
"""How the names of LangGraph's own channels begin."""


def one_thread(memory: AgentMemory, thread_id: str, namespace: str | None) -> ThreadSummary:
    """The thread or conversation that is meant.

    Args:
        memory: Where.
        thread_id: Its id.
        namespace: Its namespace as "a/b", or one above it; None for the root's, else the only one.

    Raises:
        InvalidInput: There is none, or several.
    """
    where = namespace_named(namespace or "")
    found = memory.threads(where, thread_id=thread_id).threads
    if exact := [each for each in found if each.namespace == where]:
        return exact[0]
    if not found:
        within = f" in {named(where)}" if where else ""
        raise InvalidInput(f"There is no thread or conversation {safe_repr(thread_id)}{within}. See: agentmem threads")
    if len(found) > 1:
        homes = ", ".join(sorted(named(each.namespace) for each in found)[:5])
        raise InvalidInput(f"There is a {safe_repr(thread_id)} in {len(found)} namespaces: {homes}. Say --namespace.")
    return found[0]


def config_of(thread: ThreadSummary, checkpoint_id: str | None = None) -> RunnableConfig:
    """The config that names a thread, and maybe a checkpoint of it."""
    named_at = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    return {"configurable": {"thread_id": thread.thread_id, CONFIG_KEY: thread.namespace, **named_at}}


def checkpoint_at(memory: AgentMemory, thread: ThreadSummary, checkpoint_id: str | None) -> CheckpointTuple:
    """A checkpoint of a thread; the newest one where none is named.

    Raises:
        InvalidInput: It has no such checkpoint.
    """
    found = memory.checkpointer.get_tuple(config_of(thread, checkpoint_id))
    if found is None:
        which = "no checkpoints" if checkpoint_id is None else f"no checkpoint {safe_repr(checkpoint_id)}"
        raise InvalidInput(f"{safe_repr(thread.thread_id)} has {which}. See: agentmem branches {thread.thread_id}")
    return found


def branch_home(memory: AgentMemory, namespace: str | None, *names: str) -> tuple[str, ...]:
    """The namespace that has branches of these names.

    Args:
        memory: Where.
        namespace: Their namespace as "a/b", or one above it; None for the root, else the only one that has them.
        *names: The names of the branches.

    Raises:
        InvalidInput: There is none, or there are several. `MAIN` alone is in every namespace.
    """
    within = namespace_named(namespace or "")
    held: dict[tuple[str, ...], set[str]] = {}
    for each in memory.branches(within):
        held.setdefault(each.namespace, set()).add(each.name)
    homes = [where for where, there in held.items() if there.issuperset(names)]
    if within in homes or (not homes and names == (MAIN,)):  # it begins with the first write, and is empty before
        return within
    if not homes:
        everywhere = set().union(*held.values())
        missing = next((name for name in names if name not in everywhere), None)
        problem = f"no branch {safe_repr(missing)}" if missing else "no namespace that has both branches"
        raise InvalidInput(f"There is {problem}. See: agentmem branches")
    if len(homes) > 1:
        some = ", ".join(sorted(map(named, homes))[:5])
        raise InvalidInput(f"{count(len(homes), 'namespace')} have these branches: {some}. Say --namespace.")
    return homes[0]


def messages_in(found: CheckpointTuple) -> dict[str, BaseMessage]:
    """The messages of a state, by their ids; those that have none by their channel and place."""
    return {
        each.id or f"{channel}[{place}]": each
        for channel, value in found.checkpoint["channel_values"].items()
        if is_messages(value)
        for place, each in enumerate(value)
    }


def is_messages(value: Any) -> bool:
    """Whether the value of a channel is a list of messages."""
    from langchain_core.messages import BaseMessage  # noqa: PLC0415 - the other commands do without

    return isinstance(value, list) and bool(value) and all(isinstance(each, BaseMessage) for each in value)


def state_of(found: CheckpointTuple) -> dict[str, Any]:
    """What a state holds beside messages and LangGraph's own, as JSON has it; what JSON has no form for, as text."""
    values = found.checkpoint["channel_values"].items()
    return {
        name: json.loads(json.dumps(value, default=str, skipkeys=True))
        for name, value in values
        if not name.startswith(_OWN) and not is_messages(value)
    }
