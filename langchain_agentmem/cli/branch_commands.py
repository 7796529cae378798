"""`agentmem branches` and `agentmem diff`: how threads and memory fork, and what tells two ends of that apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.cli.console import (
    LIMIT,
    AsJson,
    Existing,
    Most,
    Whose,
    existing,
    minute,
    named,
    namespace_named,
    print_json,
)
from langchain_agentmem.cli.drawing import graph, indented
from langchain_agentmem.cli.resolve import branch_home, checkpoint_at, config_of, messages_in, one_thread, state_of
from langchain_agentmem.cli.screen import Screen, shortened
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.upkeep.overview import BranchSummary, ThreadSummary

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from langchain_agentmem.layers.layered_memory import LayeredMemory

_PAGE = 100


class Change(NamedTuple):
    """Something that tells two memories apart.

    Attributes:
        layer: Where: "messages", "state", "posts", "items", "core", "recall", "archival" or "facts".
        key: Its id, key or name.
        before: What the first has; None where it has not.
        after: What the second has.
    """

    layer: str
    key: str
    before: str | None
    after: str | None

    @property
    def what(self) -> str:
        """What became of it."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"


def branches(
    *,
    thread: Annotated[
        str | None, typer.Argument(metavar="THREAD", help="The checkpoints of this thread. Default: named branches.")
    ] = None,
    database: Existing,
    namespace: Whose = None,
    limit: Most = None,
    as_json: AsJson = False,
) -> None:
    """Show how threads and memory fork.

    The checkpoints of a thread, the newest first; without one, the tree of the named branches of memory.

    JSON: of a thread a list of objects with checkpoint_id, parent_id, step, source, created_at; else with namespace,
    name, parent, created_at, own.
    """
    with existing(database) as memory:
        if thread is None:
            _print_branches(memory.branches(namespace_named(namespace or "")), limit, as_json=as_json)
        else:
            _print_checkpoints(memory, one_thread(memory, thread, namespace), limit, as_json=as_json)


def diff(
    *,
    first: Annotated[str, typer.Argument(metavar="A", help="A named branch; with --thread, a checkpoint.")],
    second: Annotated[
        str | None, typer.Argument(metavar="B", help="Another one. Default, with --thread: the newest.")
    ] = None,
    database: Existing,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", help="A and B are checkpoints of this thread.")
    ] = None,
    namespace: Whose = None,
    limit: Most = None,
    as_json: AsJson = False,
) -> None:
    """Compare two branches or checkpoints.

    Two named branches of memory, or two checkpoints of a thread. Compared are core memory, events (recall), records
    (archival) and facts; of checkpoints also messages, the rest of the state, posts of the thread's session, and its
    items. What only A has is marked -, what only B has is marked +.

    JSON: an object with namespace, thread_id, from, to, changes. A change has layer, key, change ("added", "removed" or
    "changed"), from, to.
    """
    with existing(database) as memory:
        if thread is not None:
            whose = one_thread(memory, thread, namespace)
            one, other = checkpoint_at(memory, whose, first), checkpoint_at(memory, whose, second)
            names, where = (_name(one), _name(other)), whose.namespace
            found = list(_between_checkpoints(memory, one, other))
        elif second is None:
            raise InvalidInput("Name two branches; or a thread with --thread, and one or two of its checkpoints.")
        else:
            where = branch_home(memory, namespace, first, second)
            names = first, second
            found = list(_between_layers(memory.layers(first, where), memory.layers(second, where)))
    most = limit or (len(found) if as_json else LIMIT)
    if as_json:
        print_json(
            {
                "namespace": list(where),
                "thread_id": thread,
                "from": names[0],
                "to": names[1],
                "changes": [
                    {"layer": each.layer, "key": each.key, "change": each.what, "from": each.before, "to": each.after}
                    for each in found[:most]
                ],
            }
        )
        return
    screen = Screen()
    if not found:
        screen.line("Nothing differs.")
    layer = None
    for each in found[:most]:
        if each.layer != layer:
            layer = each.layer
            screen.line(layer, "bold")
        _print_change(screen, each)
    screen.more(min(most, len(found)), len(found))


def _print_branches(found: Sequence[BranchSummary], limit: int | None, *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "namespace": list(each.namespace),
                    "name": each.name,
                    "parent": each.parent,
                    "created_at": each.created_at.isoformat(),
                    "own": each.own,
                }
                for each in found[:limit]
            ]
        )
        return
    screen = Screen()
    if not found:
        screen.line("There are no named branches.")
    most, where = limit or LIMIT, None
    for each, depth in [*_as_trees(found)][:most]:
        if each.namespace != where:
            where = each.namespace
            screen.line(named(where), "bold")
        screen.line(f"  {indented(depth)}{each.name}  {minute(each.created_at)}  {each.own:,} of its own")
    screen.more(min(most, len(found)), len(found))


def _as_trees(found: Sequence[BranchSummary]) -> Iterator[tuple[BranchSummary, int]]:
    """Branches, each with its forks below it, and how deep they stand."""
    forks: dict[tuple[tuple[str, ...], str | None], list[BranchSummary]] = {}
    for each in found:
        forks.setdefault((each.namespace, each.parent), []).append(each)
    for where in dict.fromkeys(each.namespace for each in found):
        waiting = [(each, 0) for each in reversed(forks.get((where, None), ()))]
        while waiting:
            branch, depth = waiting.pop()
            yield branch, depth
            waiting += [(each, depth + 1) for each in reversed(forks.get((where, branch.name), ()))]


def _print_checkpoints(memory: AgentMemory, thread: ThreadSummary, limit: int | None, *, as_json: bool) -> None:
    history = memory.checkpointer.history(config_of(thread), limit=limit or (None if as_json else LIMIT))
    found = history.checkpoints
    if as_json:
        print_json(
            [
                {
                    "checkpoint_id": each.checkpoint_id,
                    "parent_id": each.parent_id,
                    "step": each.step,
                    "source": each.source,
                    "created_at": each.created_at.isoformat(),
                }
                for each in found
            ]
        )
        return
    screen = Screen()
    if not found:
        screen.line(f"{thread.thread_id} is a conversation without a thread: it has no checkpoints.")
    nodes = [(each.checkpoint_id, each.parent_id) for each in found]
    for line, place in graph(nodes, complete=len(found) == history.total):
        if place is None:
            screen.line(line)
        else:
            each = found[place]
            screen.line(f"{line}  {each.checkpoint_id}  step {each.step}  {each.source}  {minute(each.created_at)}")
    screen.more(len(found), history.total)


def _between_layers(one: LayeredMemory, other: LayeredMemory) -> Iterator[Change]:
    found = one.diff(other)
    for layer in ("core", "recall", "archival", "facts"):
        difference = getattr(found, layer)
        for key, text in difference.mine.items():
            yield Change(layer, key, text, None)
        for key, text in difference.theirs.items():
            yield Change(layer, key, None, text)
        for key, each in difference.changed.items():
            yield Change(layer, key, each.mine, each.theirs)


def _between_checkpoints(memory: AgentMemory, one: CheckpointTuple, other: CheckpointTuple) -> Iterator[Change]:
    yield from _between("messages", _said(messages_in(one)), _said(messages_in(other)))
    yield from _between("state", _texts(state_of(one)), _texts(state_of(other)))
    yield from _between("posts", _posts(memory, one.config), _posts(memory, other.config))
    yield from _between("items", _items(memory, one.config), _items(memory, other.config))
    yield from _between_layers(memory.layers(one.config), memory.layers(other.config))


def _between(layer: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for key in dict.fromkeys([*before, *after]):
        if before.get(key) != after.get(key):
            yield Change(layer, key, before.get(key), after.get(key))


def _said(messages: Mapping[str, BaseMessage]) -> dict[str, str]:
    from langchain_agentmem.messages import from_langchain  # noqa: PLC0415 - it loads LangChain

    made = {key: from_langchain(each) for key, each in messages.items()}
    return {
        key: f"{each.role}: {each.text}"
        + "".join(f" [calls {call.name} {call.arguments}]" for call in each.tool_calls or ())
        for key, each in made.items()
    }


def _texts(state: Mapping[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in state.items()}


def _posts(memory: AgentMemory, config: RunnableConfig) -> dict[str, str]:
    rounds = memory.session(config).rounds
    return {
        post.id: f"{post.send_from} -> {post.send_to}: {post.message}" for each in rounds for post in each.post_list
    }


def _items(memory: AgentMemory, config: RunnableConfig) -> dict[str, str]:
    store = memory.thread_store.at(config)
    found: dict[str, str] = {}
    while page := store.search((), limit=_PAGE, offset=len(found)):
        found |= {named(each.namespace, each.key): json.dumps(each.value, default=str) for each in page}
    return found


def _print_change(screen: Screen, change: Change) -> None:
    if change.before == change.after:
        screen.line(f"  ~ {change.key}: {shortened(change.before or '')} (the text is the same)", "yellow")
        return
    if change.before is not None:
        screen.line(f"  - {change.key}: {shortened(change.before)}", "red")
    if change.after is not None:
        screen.line(f"  + {change.key}: {shortened(change.after)}", "green")


def _name(found: CheckpointTuple) -> str:
    return str(found.config["configurable"]["checkpoint_id"])
