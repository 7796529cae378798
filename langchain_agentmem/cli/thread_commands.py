"""`agentmem threads`, `show`, `why`, `branches`, `diff`: what there is, who said what, what prompts showed, forks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.namespaces import named, namespace_named
from langchain_agentmem.base.safe_repr import counted, printable, safe_repr, size_of
from langchain_agentmem.cli.console import (
    LIMIT,
    AsJson,
    Existing,
    Most,
    Screen,
    Whose,
    Within,
    branch_home,
    checkpoint_at,
    config_of,
    existing,
    interruptible,
    lines_of,
    minute,
    one_thread,
    print_json,
    shortened,
    some,
    tell,
    time_named,
)
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.langchain_messages import from_langchain
from langchain_agentmem.messages.message import Message
from langchain_agentmem.messages.message_marks import is_injected
from langchain_agentmem.studio.thread_views import (
    ShownChange,
    changes_in,
    changes_of_layers,
    changes_of_state,
    messages_in,
    state_of,
    waits_of,
)
from langchain_agentmem.upkeep.database_report import BranchSummary, ThreadSummary

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from langchain_agentmem.checkpoints.checkpoint_listing import CheckpointSummary


_NUMBERS = ("checkpoints", "forks", "messages", "size")


threads = typer.Typer(
    name="threads", help="Threads and conversations: list and move.", no_args_is_help=True, rich_markup_mode=None
)


@threads.command("list")
def listed(
    *,
    database: Existing,
    namespace: Within = None,
    query: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only those with a message of all these words, or this in the id."),
    ] = None,
    role: Annotated[str | None, typer.Option(help="Only those in which this role speaks.")] = None,
    since: Annotated[
        datetime | None,
        typer.Option(metavar="TIME", parser=time_named, help="Only those that changed last then or later, in UTC."),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(metavar="TIME", parser=time_named, help="Only those that changed last before this time."),
    ] = None,
    limit: Most = None,
    as_json: AsJson = False,
) -> None:
    """List threads and conversations.

    Those that changed last come first. A thread and the conversation of the same id are one line, whose title is the
    first question. Times are in UTC.

    JSON: a list of objects with namespace, thread_id, title, checkpoints, forks, checkpoint_id, messages, bytes,
    changed_at.
    """
    with existing(database) as memory:
        most = limit or (None if as_json else LIMIT)
        found = memory.admin.threads(
            namespace_named(namespace), query=query, role=role, since=since, until=until, limit=most
        )
        others = memory.admin.threads().threads if namespace is not None and not found.threads else ()
    if as_json:
        print_json(found.threads)
        return
    screen = Screen()
    if not found.threads:
        screen.line(_none("threads and no conversations", namespace, others))
        return
    screen.table(
        ("thread", "namespace", "checkpoints", "forks", "messages", "size", "changed", "newest checkpoint", "title"),
        [
            (
                each.thread_id,
                named(each.namespace),
                f"{each.checkpoints:,}",
                f"{each.forks:,}",
                f"{each.messages:,}",
                size_of(each.bytes or 0),
                minute(each.changed_at),
                each.checkpoint_id or "-",
                each.title,
            )
            for each in found.threads
        ],
        right=_NUMBERS,
    )
    screen.more(len(found.threads), found.total)


def _none(what: str, namespace: str | None, elsewhere: Iterable[ThreadSummary | BranchSummary]) -> str:
    """That there are none, and where there are some."""
    there = [*dict.fromkeys(named(each.namespace) for each in elsewhere)]
    return f"There are no {what}{f' in {namespace}. Elsewhere there are some: {some(there)}' if there else ''}."


@threads.command()
def move(
    *,
    database: Existing,
    thread: Annotated[str, typer.Argument(metavar="ID", help="A thread of the root, or a conversation.")],
    namespace: Annotated[str, typer.Argument(metavar="A/B", help="Where to.")],
    as_json: AsJson = False,
) -> None:
    """Move a thread of the root into a namespace.

    Its checkpoints, its conversation and what it remembers go along; the other threads of the namespace see that from
    then on. The audit trail stays as it was written.

    JSON: an object with namespace, thread_id.
    """
    with interruptible("Nothing was moved."), existing(database) as memory:
        memory.admin.adopt(thread, namespace_named(namespace))
    where = namespace_named(namespace)
    tell(printable(f"{thread} is in {named(where)}."), {"namespace": where, "thread_id": thread}, as_json=as_json)


def show(
    *,
    database: Existing,
    thread: Annotated[str | None, typer.Argument(metavar="ID", help="A thread, or a conversation.")] = None,
    namespace: Whose = None,
    branch: Annotated[
        str | None, typer.Option(metavar="NAME", help="In place of a thread: the core memory of this named branch.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="CHECKPOINT", help="As it was there. Default: the newest checkpoint.")
    ] = None,
    conversation: Annotated[
        bool,
        typer.Option("--conversation", help="The log of the conversation, where there is a thread of this id too."),
    ] = False,
    with_memory: Annotated[
        bool, typer.Option("--with-memory", help="Print also what memory put into the state for a prompt.")
    ] = False,
    around: Annotated[
        str | None, typer.Option(metavar="MESSAGE", help="Of a conversation: this message and what stands around it.")
    ] = None,
    limit: Most = None,
    as_json: AsJson = False,
) -> None:
    """Show who said what in a thread, or core memory.

    The last messages of a thread, as it is at a checkpoint, and what else its state holds; or those of the log of a
    conversation. What memory brought for a prompt was said by nobody, so it is left out; `why` tells of it.

    JSON: an object with kind ("thread" or "conversation"), namespace, id, total, messages; of a thread also
    checkpoint_id, parent_id, step, source, state, waits. A message has id, role, name, text, tool_calls, tool_call_id,
    created_at. Of a branch, kind is "branch", and core a list of objects with key, value, importance, updated_at,
    expires_at.
    """
    if (thread is None) == (branch is None):
        raise InvalidInput("Name a thread or conversation, or a branch with --branch, such as --branch main.")
    if at is not None and (conversation or around is not None):
        raise InvalidInput("--at shows a thread at a checkpoint; a conversation has none.")
    with existing(database) as memory:
        if thread is None:
            _show_branch(memory, str(branch), namespace, limit, as_json=as_json)
            return
        found = one_thread(memory, thread, namespace)
        log = conversation or around is not None or not found.checkpoint_id
        if log and at is not None:
            raise InvalidInput(f"{safe_repr(thread)} is a conversation without a thread: it has no checkpoints.")
        if log:
            _show_log(memory, found, around, limit, as_json=as_json)
        else:
            _show_thread(memory, found, at, limit, with_memory=with_memory, as_json=as_json)


def why(
    *,
    database: Existing,
    thread: Annotated[str, typer.Argument(metavar="ID", help="A thread.")],
    namespace: Whose = None,
    message: Annotated[str | None, typer.Option(metavar="MESSAGE", help="Only what it was shown for this one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what memory put into prompts, and why.

    Of a thread, what memory and experiences put into its prompts. It is kept for 30 days. What a score is made of are
    words of the question, and signals such as "date".

    JSON: a list of objects with message_id, part, reader, at, kind, id, score, signals, reason.
    """
    with existing(database) as memory:
        found = one_thread(memory, thread, namespace)
        notes = memory.conversation(found.thread_id, found.namespace).shown(message)
    rows = [
        {
            "message_id": note.message_id,
            "part": note.part,
            "reader": note.reader,
            "at": note.created_at,
            **{name: value for name, value in item._asdict().items() if name != "row"},
        }
        for note in notes
        for item in note.items
    ]
    if as_json:
        print_json(rows)
        return
    screen = Screen()
    if not rows:
        screen.line("Nothing is known of the prompts of this thread.")
        return
    screen.table(
        ("for message", "part", "kind", "id", "score", "why"),
        [
            (
                row["message_id"],
                row["part"],
                row["kind"],
                row["id"],
                "" if row["score"] is None else f"{row['score']:.2f}",
                shortened(row["reason"] or ", ".join(f"{name} {value:+.2f}" for name, value in row["signals"].items())),
            )
            for row in rows
        ],
    )


def brief(value: Any) -> str:
    """A value of a state on one line."""
    return shortened(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _show_branch(memory: AgentMemory, branch: str, namespace: str | None, limit: int | None, *, as_json: bool) -> None:
    where = branch_home(memory, namespace, branch)
    core = [
        {name: getattr(each, name) for name in ("key", "value", "importance", "updated_at", "expires_at")}
        for each in memory.layers(branch, where).core.entries()
    ]
    if as_json:
        print_json({"kind": "branch", "namespace": where, "id": branch, "core": core[:limit]})
        return
    screen, most = Screen(), limit or LIMIT
    screen.line(f"branch {named(where, branch)}: {counted(len(core), 'values')} of core memory", "bold")
    for each in core[:most]:
        screen.line(f"{each['key']} = {brief(each['value'])}")
    screen.more(min(most, len(core)), len(core))


def _show_log(
    memory: AgentMemory, thread: ThreadSummary, around: str | None, limit: int | None, *, as_json: bool
) -> None:
    chat = memory.conversation(thread.thread_id, thread.namespace)
    total = len(chat)
    most = limit or (max(total, 1) if as_json else LIMIT)
    before, after = (most, 0) if around is None else ((most - 1) // 2, most // 2)
    said = chat.around(around, before=before, after=after)
    if as_json:
        messages = [message_told(each) for each in said]
        print_json({"kind": "conversation", **_whose(thread), "total": total, "messages": messages})
        return
    screen = Screen()
    screen.line(f"conversation {named(thread.namespace, thread.thread_id)}: {counted(total, 'messages')}", "bold")
    if around is None:
        screen.before(total - len(said), total)
    for each in said:
        print_message(screen, each)


def _show_thread(
    memory: AgentMemory, thread: ThreadSummary, at: str | None, limit: int | None, *, with_memory: bool, as_json: bool
) -> None:
    found = checkpoint_at(memory, thread, at)
    held = [*messages_in(found).values()]
    every = [each for each in held if with_memory or not is_injected(each)]
    most = limit or (len(every) if as_json else LIMIT)
    said = [
        (
            replace(from_langchain(each), name="memory") if is_injected(each) else from_langchain(each),
            each.id is not None,
        )
        for each in (every[-most:] if most else ())
    ]
    step, source = found.metadata.get("step"), found.metadata.get("source")
    name = found.config["configurable"]["checkpoint_id"]
    state, waits = state_of(found), list(waits_of(found))
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
                "messages": [message_told(*each) for each in said],
                "state": state,
                "waits": waits,
            }
        )
        return
    screen = Screen()
    what = f"{counted(len(every), 'messages')} at checkpoint {name} (step {step}, {source})"
    screen.line(f"thread {named(thread.namespace, thread.thread_id)}: {what}", "bold")
    screen.before(len(every) - len(said), len(every))
    for message, has_id in said:
        print_message(screen, message, has_id=has_id)
    if left_out := len(held) - len(every):
        screen.line(f"(memory put in {counted(left_out, 'messages')} of its own: --with-memory)", "dim")
    for key, value in state.items():
        screen.line(f"state {key} = {brief(value)}", "dim")
    for each in waits:
        screen.line(f"waits: {brief(each)}", "yellow")
    if thread.messages:
        logged = f"its conversation's log holds {counted(thread.messages, 'messages')}"
        screen.line(f"({logged}: agentmem show DATABASE {thread.thread_id} --conversation)", "dim")


def _whose(thread: ThreadSummary) -> dict[str, Any]:
    return {"namespace": thread.namespace, "id": thread.thread_id}


def message_told(message: Message, has_id: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002
    """A message as JSON has it."""
    return {
        "id": message.message_id if has_id else None,
        "role": message.role,
        "name": message.name,
        "text": message.text,
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls or ()
        ],
        "tool_call_id": message.tool_call_id,
        "created_at": message.created_at,
    }


def print_message(screen: Screen, message: Message, *, has_id: bool = True) -> None:
    """Print a message, whole."""
    head = message.role if message.name is None else f"{message.role} ({message.name})"
    parts = [head, message.message_id if has_id else "without id"]
    if message.created_at is not None:
        parts.append(minute(message.created_at))
    screen.line("  ".join(parts), "bold")
    for line in lines_of(message.text) if message.text else ():
        screen.line(f"   {line}".rstrip())
    for call in message.tool_calls or ():
        screen.line(f"   calls {call.name} {shortened(call.arguments)}  {call.id}", "dim")
    if message.tool_call_id is not None:
        screen.line(f"   answers {message.tool_call_id}", "dim")


_DEEPEST = 30
"""Levels of a tree that are still set off from each other."""


def indented(depth: int) -> str:
    """What stands before a branch that is so many forks away from its root."""
    return "" if depth == 0 else "   " * (min(depth, _DEEPEST) - 1) + "+- "


_PAGE = 100


def branches(
    *,
    database: Existing,
    thread: Annotated[
        str | None, typer.Argument(metavar="THREAD", help="The checkpoints of this thread. Default: named branches.")
    ] = None,
    namespace: Whose = None,
    limit: Most = None,
    as_json: AsJson = False,
) -> None:
    """Show how threads and memory fork.

    The tree of a thread's checkpoints, the newest first, or that of the named branches of memory.

    JSON: of a thread a list of objects with checkpoint_id, parent_id, step, source, created_at; else with namespace,
    name, parent, created_at, own.
    """
    with existing(database) as memory:
        if thread is None:
            found = memory.admin.branches(namespace_named(namespace))
            empty = (
                ""
                if found
                else _none("named branches", namespace, () if namespace is None else memory.admin.branches())
            )
            _print_branches(found, empty, limit, as_json=as_json)
        else:
            _print_checkpoints(memory, one_thread(memory, thread, namespace), limit, as_json=as_json)


def diff(
    *,
    database: Existing,
    first: Annotated[str, typer.Argument(metavar="A", help="A named branch; with --thread, a checkpoint.")],
    second: Annotated[
        str | None, typer.Argument(metavar="B", help="Another one. Default, with --thread: the newest.")
    ] = None,
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
            names, where = (_checkpoint_id(one), _checkpoint_id(other)), whose.namespace
            found = list(_between_checkpoints(memory, one.config, other.config))
        elif second is None:
            raise InvalidInput("Name two branches; or a thread with --thread, and one or two of its checkpoints.")
        else:
            where = branch_home(memory, namespace, first, second)
            names = first, second
            found = list(changes_of_layers(memory.layers(first, where).diff(memory.layers(second, where))))
    most = limit or (len(found) if as_json else LIMIT)
    if as_json:
        print_json(
            {
                "namespace": where,
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


def _print_branches(found: Sequence[BranchSummary], empty: str, limit: int | None, *, as_json: bool) -> None:
    if as_json:
        print_json(found[:limit])
        return
    screen = Screen()
    if not found:
        screen.line(empty)
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
                    "created_at": each.created_at,
                }
                for each in found
            ]
        )
        return
    screen = Screen()
    if not found:
        screen.line(f"{thread.thread_id} is a conversation without a thread: it has no checkpoints.")
    shown = {None, *(each.checkpoint_id for each in found)}
    for each, before in _as_tree(found):
        after = f"  after {each.parent_id}" if each.parent_id not in shown else ""
        screen.line(f"{before}{each.checkpoint_id}  step {each.step}  {each.source}  {minute(each.created_at)}{after}")
    screen.more(len(found), history.total)


def _as_tree(found: Sequence[CheckpointSummary]) -> Iterator[tuple[CheckpointSummary, str]]:
    """Checkpoints, the newest first, and what stands before each: those of a fork stand above where it begins."""
    followers: dict[str | None, list[CheckpointSummary]] = {each.checkpoint_id: [] for each in found} | {None: []}
    for each in reversed(found):
        followers[each.parent_id if each.parent_id in followers else None].append(each)
    tree, waiting = [], [(each, 0, indented(0)) for each in reversed(followers[None])]
    while waiting:
        each, depth, before = waiting.pop()
        tree.append((each, before))
        forks = followers[each.checkpoint_id]
        waiting += [(fork, depth, "   " * min(depth, _DEEPEST)) for fork in forks[:1]]
        waiting += [(fork, depth + 1, indented(depth + 1)) for fork in reversed(forks[1:])]
    return reversed(tree)


def _between_checkpoints(memory: AgentMemory, one: RunnableConfig, other: RunnableConfig) -> Iterator[ShownChange]:
    changes = memory.checkpointer.changes(other, one["configurable"]["checkpoint_id"])
    if changes is not None:
        yield from changes_of_state(changes)
    yield from changes_in("posts", _posts(memory, one), _posts(memory, other))
    yield from changes_in("items", _items(memory, one), _items(memory, other))
    yield from changes_of_layers(memory.layers(one).diff(memory.layers(other)))


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


def _print_change(screen: Screen, change: ShownChange) -> None:
    if change.before == change.after:
        screen.line(f"  ~ {change.key}: {shortened(change.before or '')} (the text is the same)", "yellow")
        return
    if change.before is not None:
        screen.line(f"  - {change.key}: {shortened(change.before)}", "red")
    if change.after is not None:
        screen.line(f"  + {change.key}: {shortened(change.after)}", "green")


def _checkpoint_id(found: CheckpointTuple) -> str:
    return str(found.config["configurable"]["checkpoint_id"])
