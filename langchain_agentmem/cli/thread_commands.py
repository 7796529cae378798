"""`agentmem threads` and `agentmem show`: what threads and conversations there are, and who said what in one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.cli.console import (
    LIMIT,
    AsJson,
    Existing,
    Most,
    Whose,
    Within,
    count,
    existing,
    minute,
    named,
    namespace_named,
    print_json,
    size,
)
from langchain_agentmem.cli.resolve import checkpoint_at, messages_in, one_thread, state_of
from langchain_agentmem.cli.screen import Screen, shortened
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages import Message, from_langchain
from langchain_agentmem.upkeep.overview import ThreadSummary

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langgraph.checkpoint.base import CheckpointTuple

STEPS_BACK = 200
"""How many checkpoints `show` goes back to find out where a message came."""

_NUMBERS = ("checkpoints", "forks", "messages", "size")


class Said(NamedTuple):
    """A message of a thread's state.

    Attributes:
        message: The message.
        has_id: Whether it has an id of its own.
        at: The checkpoint at which it came to be as it is; None if that is not known.
        step: The step of that checkpoint.
    """

    message: Message
    has_id: bool = True
    at: str | None = None
    step: int | None = None


def threads(
    *,
    database: Existing,
    namespace: Within = "",
    limit: Most = None,
    as_json: AsJson = False,
) -> None:
    """List threads and conversations.

    Those that changed last come first. A thread and the conversation of the same id are one line. Times are in UTC.

    JSON: a list of objects with namespace, thread_id, checkpoints, forks, checkpoint_id, messages, bytes, changed_at.
    """
    with existing(database) as memory:
        found = memory.threads(namespace_named(namespace), limit=limit or (None if as_json else LIMIT))
    if as_json:
        print_json(list(map(_summary, found.threads)))
        return
    screen = Screen()
    if not found.threads:
        screen.line("There are no threads and no conversations.")
        return
    screen.table(
        ("thread", "namespace", "checkpoints", "forks", "messages", "size", "changed", "newest checkpoint"),
        [
            (
                each.thread_id,
                named(each.namespace),
                f"{each.checkpoints:,}",
                f"{each.forks:,}",
                f"{each.messages:,}",
                size(each.bytes),
                minute(each.changed_at),
                each.checkpoint_id or "-",
            )
            for each in found.threads
        ],
        right=_NUMBERS,
    )
    screen.more(len(found.threads), found.total)


def show(
    *,
    thread: Annotated[str, typer.Argument(metavar="ID", help="A thread, or a conversation.")],
    database: Existing,
    namespace: Whose = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="CHECKPOINT", help="As it was there. Default: the newest checkpoint.")
    ] = None,
    conversation: Annotated[
        bool,
        typer.Option("--conversation", help="The log of the conversation, where there is a thread of this id too."),
    ] = False,
    around: Annotated[
        str | None, typer.Option(metavar="MESSAGE", help="Of a conversation: this message and what stands around it.")
    ] = None,
    limit: Most = None,
    as_json: AsJson = False,
) -> None:
    """Show who said what in a thread.

    The last messages of a thread, as it is at a checkpoint, or of the log of a conversation. With those of a thread
    stands the step at which they came, and below what else its state holds.

    JSON: an object with kind ("thread" or "conversation"), namespace, id, total, messages; of a thread also
    checkpoint_id, parent_id, step, source, state, waits. A message has id, role, name, text, tool_calls, tool_call_id,
    created_at; of a thread also checkpoint_id and step, which are null where it came more than 200 checkpoints before.
    """
    if at is not None and (conversation or around is not None):
        raise InvalidInput("--at shows a thread at a checkpoint; a conversation has none.")
    with existing(database) as memory:
        found = one_thread(memory, thread, namespace)
        log = conversation or around is not None or not found.checkpoint_id
        if log and at is not None:
            raise InvalidInput(f"{safe_repr(thread)} is a conversation without a thread: it has no checkpoints.")
        if log:
            _show_log(memory, found, around, limit, as_json=as_json)
        else:
            _show_thread(memory, found, at, limit, as_json=as_json)


def brief(value: Any) -> str:
    """A value of a state on one line."""
    return shortened(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def lines_of(text: str) -> Iterator[str]:
    """The lines of a text, for a screen."""
    yield from text.replace("\r\n", "\n").rstrip("\n").split("\n")


def _summary(each: ThreadSummary) -> dict[str, Any]:
    return {
        "namespace": list(each.namespace),
        "thread_id": each.thread_id,
        "checkpoints": each.checkpoints,
        "forks": each.forks,
        "checkpoint_id": each.checkpoint_id,
        "messages": each.messages,
        "bytes": each.bytes,
        "changed_at": each.changed_at.isoformat(),
    }


def _show_log(
    memory: AgentMemory, thread: ThreadSummary, around: str | None, limit: int | None, *, as_json: bool
) -> None:
    chat = memory.conversation(thread.thread_id, thread.namespace)
    total = len(chat)
    most = limit or (max(total, 1) if as_json else LIMIT)
    before, after = (most, 0) if around is None else ((most - 1) // 2, most // 2)
    said = chat.around(around, before=before, after=after)
    if as_json:
        messages = [_message(Said(each)) for each in said]
        print_json({"kind": "conversation", **_whose(thread), "total": total, "messages": messages})
        return
    screen = Screen()
    screen.line(f"conversation {named(thread.namespace, thread.thread_id)}: {count(total, 'message')}", "bold")
    if around is None:
        screen.before(total - len(said), total)
    for each in said:
        _print(screen, Said(each))


def _show_thread(
    memory: AgentMemory, thread: ThreadSummary, at: str | None, limit: int | None, *, as_json: bool
) -> None:
    found = checkpoint_at(memory, thread, at)
    every = messages_in(found)
    most = limit or (len(every) if as_json else LIMIT)
    said = _with_steps(memory, found, dict([*every.items()][-most:] if most else []))
    step, source = found.metadata.get("step"), found.metadata.get("source")
    name = found.config["configurable"]["checkpoint_id"]
    state, waits = state_of(found), list(_waits(found))
    if as_json:
        parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
        print_json(
            {
                "kind": "thread",
                **_whose(thread),
                "checkpoint_id": name,
                "parent_id": parent,
                "step": step,
                "source": source,
                "total": len(every),
                "messages": [_message(each) | {"checkpoint_id": each.at, "step": each.step} for each in said],
                "state": state,
                "waits": waits,
            }
        )
        return
    screen = Screen()
    what = f"{count(len(every), 'message')} at checkpoint {name} (step {step}, {source})"
    screen.line(f"thread {named(thread.namespace, thread.thread_id)}: {what}", "bold")
    screen.before(len(every) - len(said), len(every))
    for each in said:
        _print(screen, each)
    for key, value in state.items():
        screen.line(f"state {key} = {brief(value)}", "dim")
    for each in waits:
        screen.line(f"waits: {brief(each)}", "yellow")
    if thread.messages:
        logged = f"its conversation's log holds {count(thread.messages, 'message')}"
        screen.line(f"({logged}: agentmem show {thread.thread_id} --conversation)", "dim")


def _with_steps(memory: AgentMemory, found: CheckpointTuple, wanted: Mapping[str, BaseMessage]) -> Sequence[Said]:
    """Messages of a state, with the checkpoints at which they came to be as they are."""
    came: dict[str, CheckpointTuple] = {}
    left, here = set(wanted), found
    for _ in range(STEPS_BACK):
        before = memory.checkpointer.get_tuple(here.parent_config) if left and here.parent_config else None
        if before is None:
            break
        there = messages_in(before)
        new = {key for key in left if there.get(key) != wanted[key]}
        came |= dict.fromkeys(new, here)
        left, here = left - new, before
    if here.parent_config is None:  # the first of all; where it was pruned, nobody knows
        came |= dict.fromkeys(left, here)
    return [
        Said(from_langchain(each), each.id is not None, *(_place(came[key]) if key in came else ()))
        for key, each in wanted.items()
    ]


def _place(found: CheckpointTuple) -> tuple[str, int | None]:
    return found.config["configurable"]["checkpoint_id"], found.metadata.get("step")


def _waits(found: CheckpointTuple) -> Iterator[Any]:
    """What a checkpoint waits for: the values of interrupts, and errors of tasks that failed."""
    for _, channel, value in found.pending_writes or ():
        if channel == "__interrupt__":
            for each in value if isinstance(value, list | tuple) else [value]:
                yield json.loads(json.dumps(getattr(each, "value", each), default=str, skipkeys=True))
        elif channel == "__error__":
            yield f"a task failed: {value}"


def _whose(thread: ThreadSummary) -> dict[str, Any]:
    return {"namespace": list(thread.namespace), "id": thread.thread_id}


def _message(said: Said) -> dict[str, Any]:
    message = said.message
    return {
        "id": message.message_id if said.has_id else None,
        "role": message.role,
        "name": message.name,
        "text": message.text,
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls or ()
        ],
        "tool_call_id": message.tool_call_id,
        "created_at": None if message.created_at is None else message.created_at.isoformat(),
    }


def _print(screen: Screen, said: Said) -> None:
    message = said.message
    head = message.role if message.name is None else f"{message.role} ({message.name})"
    parts = [head, message.message_id if said.has_id else "without id"]
    if message.created_at is not None:
        parts.append(minute(message.created_at))
    if said.at is not None:
        parts.append(f"step {said.step}" if said.step is not None else f"checkpoint {said.at}")
    screen.line("  ".join(parts), "bold")
    for line in lines_of(message.text) if message.text else ():
        screen.line(f"   {line}".rstrip())
    for call in message.tool_calls or ():
        screen.line(f"   calls {call.name} {shortened(call.arguments)}  {call.id}", "dim")
    if message.tool_call_id is not None:
        screen.line(f"   answers {message.tool_call_id}", "dim")
