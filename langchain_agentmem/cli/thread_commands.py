"""`agentmem threads`, `show`, `why`, `branches`, `diff`: what there is, who said what, what prompts showed, forks."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.namespaces import format_namespace, parse_namespace
from langchain_agentmem.base.safe_repr import escape_unprintable, format_count, format_size
from langchain_agentmem.cli import console
from langchain_agentmem.cli.console import (
    AsJson,
    CommandReport,
    ExistingDatabase,
    LimitOption,
    Line,
    NamespaceChoice,
    NamespaceFilter,
    argument,
    flag,
    option,
)
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.message_marks import is_injected
from langchain_agentmem.studio import thread_views as views
from langchain_agentmem.upkeep.admin import ThreadSummary

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

T = TypeVar("T")

_NUMBERS = ("checkpoints", "forks", "messages", "size")

threads = typer.Typer(
    name="threads", help="Threads and conversations: list and move.", no_args_is_help=True, rich_markup_mode=None
)


@threads.command("list")
def list_threads(
    *,
    database: ExistingDatabase,
    namespace: NamespaceFilter = None,
    query: str | None = option("Only those with a message of all these words, or this in the id.", "TEXT"),
    role: str | None = option("Only those in which this role speaks."),
    since: datetime | None = console.time_option("Only those that changed last then or later, in UTC."),
    until: datetime | None = console.time_option("Only those that changed last before this time."),
    limit: LimitOption = None,
    as_json: AsJson = False,
) -> CommandReport:
    """List threads and conversations.

    Those that changed last come first. A thread and the conversation of the same id are one line, whose title is the
    first question. Times are in UTC.

    JSON: a list of objects with namespace, thread_id, title, checkpoints, forks, checkpoint_id, messages, bytes,
    changed_at.
    """
    with console.open_existing(database) as memory:
        most = limit or (None if as_json else console.LIMIT)
        found = memory.admin.threads(
            parse_namespace(namespace), query=query, role=role, since=since, until=until, limit=most
        )
        empty = "" if found.threads else _nothing_found(memory, "threads and no conversations", namespace)
    rows = [
        (
            each.thread_id,
            format_namespace(each.namespace),
            *(f"{each.checkpoints:,}", f"{each.forks:,}", f"{each.messages:,}", format_size(each.bytes or 0)),
            console.format_minute(each.changed_at),
            each.checkpoint_id or "-",
            each.title,
        )
        for each in found.threads
    ]
    headings = ("thread", "namespace", *_NUMBERS, "changed", "newest checkpoint", "title")
    lines = [
        console.TableRows(headings, rows, _NUMBERS) if rows else empty,
        *console.more_lines(len(rows), found.total),
    ]
    return CommandReport(found.threads, lines)


def _nothing_found(memory: AgentMemory, kinds: str, namespace: str | None) -> str:
    """That there are none, and where there is something."""
    within = "" if namespace is None else f" in {namespace}"
    return f"There are no {kinds}{within}.{console.other_places(memory, parse_namespace(namespace), below=True)}"


@threads.command()
def move(
    *,
    database: ExistingDatabase,
    thread: str = argument("A thread of the root, or a conversation.", "ID"),
    namespace: str = argument("Where to.", "A/B"),
) -> CommandReport:
    """Move a thread of the root into a namespace.

    Its checkpoints, its conversation and what it remembers go along; the other threads of the namespace see that from
    then on. The audit trail stays as it was written.

    JSON: an object with namespace, thread_id.
    """
    where = parse_namespace(namespace)
    with console.handle_interrupt("Nothing was moved."), console.open_existing(database) as memory:
        memory.admin.adopt(thread, where)
    return CommandReport(
        {"namespace": where, "thread_id": thread}, escape_unprintable(f"{thread} is in {format_namespace(where)}.")
    )


def show(
    *,
    database: ExistingDatabase,
    thread: str | None = argument("A thread, or a conversation.", "ID", default=None),
    namespace: NamespaceChoice = None,
    branch: str | None = option("In place of a thread: the core memory of this named branch.", "NAME"),
    at: str | None = option("As it was there. Default: the newest checkpoint.", "CHECKPOINT"),
    conversation: bool = flag("--conversation", "The log of the conversation, where there is a thread of this id too."),
    with_memory: bool = flag("--with-memory", "Print also what memory put into the state for a prompt."),
    around: str | None = option("Of a conversation: this message and what stands around it.", "MESSAGE"),
    limit: LimitOption = None,
    as_json: AsJson = False,
) -> CommandReport:
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
    with console.open_existing(database) as memory:
        if thread is None:
            return _branch_report(memory, str(branch), namespace, limit)
        found = console.find_thread(memory, thread, namespace)
        is_log = conversation or around is not None or not found.checkpoint_id
        if is_log and at is not None:
            raise InvalidInput("--at shows a thread at a checkpoint; a conversation has no checkpoints.")
        most = limit or (None if as_json else console.LIMIT)
        if is_log:
            return _log_report(memory, found, around, most)
        return _thread_report(memory, found, at, most, with_memory=with_memory)


def why(
    *,
    database: ExistingDatabase,
    thread: str = argument("A thread.", "ID"),
    namespace: NamespaceChoice = None,
    message: str | None = option("Only what it was shown for this one.", "MESSAGE"),
) -> CommandReport:
    """Show what memory put into prompts, and why.

    Of a thread, what memory and experiences put into its prompts. It is kept for 30 days. What a score is made of are
    words of the question, and signals such as "date".

    JSON: a list of objects with message_id, part, reader, at, kind, id, score, signals, reason.
    """
    with console.open_existing(database) as memory:
        found = console.find_thread(memory, thread, namespace)
        notes = memory.conversation(found.thread_id, found.namespace).prompt_notes(message)
    rows = [
        {
            **console.pick_fields(note, "message_id part reader"),
            "at": note.created_at,
            **console.pick_fields(item, "kind id score signals reason"),
        }
        for note in notes
        for item in note.items
    ]
    cells = [
        (
            *(row[name] for name in ("message_id", "part", "kind", "id")),
            "" if row["score"] is None else f"{row['score']:.2f}",
            console.shorten(row["reason"] or ", ".join(f"{each} {n:+.2f}" for each, n in row["signals"].items())),
        )
        for row in rows
    ]
    headings = ("for message", "part", "kind", "id", "score", "why")
    empty = "Nothing is known of the prompts of this thread."
    return CommandReport(rows, [console.TableRows(headings, cells) if rows else empty])


def shorten_value(value: Any) -> str:
    """A value of a state on one line."""
    return console.shorten(views.as_text(value))


def _branch_report(memory: AgentMemory, branch: str, namespace: str | None, limit: int | None) -> CommandReport:
    where = console.find_branch_home(memory, namespace, branch)
    names = "key value importance updated_at expires_at"
    core = [console.pick_fields(each, names) for each in memory.layers(branch, where).core.entries()]
    printed = core[: limit or console.LIMIT]
    lines = [
        (f"branch {format_namespace(where, branch)}: {format_count(len(core), 'values')} of core memory", "bold"),
        *(f"{each['key']} = {shorten_value(each['value'])}" for each in printed),
        *console.more_lines(len(printed), len(core)),
    ]
    return CommandReport({"kind": "branch", "namespace": where, "id": branch, "core": core[:limit]}, lines)


def _log_report(memory: AgentMemory, thread: ThreadSummary, around: str | None, limit: int | None) -> CommandReport:
    chat = memory.conversation(thread.thread_id, thread.namespace)
    total = len(chat)
    most = limit or max(total, 1)
    before, after = (most, 0) if around is None else ((most - 1) // 2, most // 2)
    messages = [*map(views.display_message, chat.around(around, before=before, after=after))]
    lines: list[Line] = [
        (
            f"conversation {format_namespace(thread.namespace, thread.thread_id)}: {format_count(total, 'messages')}",
            "bold",
        ),
        *(console.more_lines(len(messages), total, console.MORE_BEFORE) if around is None else ()),
        *itertools.chain.from_iterable(map(message_lines, messages)),
    ]
    value = {
        "kind": "conversation",
        **_thread_keys(thread),
        "total": total,
        "messages": [*map(message_to_json, messages)],
    }
    return CommandReport(value, lines)


def _thread_report(
    memory: AgentMemory, thread: ThreadSummary, at: str | None, limit: int | None, *, with_memory: bool
) -> CommandReport:
    found = console.load_checkpoint(memory, thread, at)
    all_messages = [*views.messages_in(found).values()]
    messages = [each for each in all_messages if with_memory or not is_injected(each)]
    printed = [*map(views.display_message, messages[-limit:] if limit else messages)]
    name, state, waits = _checkpoint_id(found.config), views.state_of(found), [*views.interrupts_of(found)]
    step, source = found.metadata.get("step"), found.metadata.get("source")
    summary = f"{format_count(len(messages), 'messages')} at checkpoint {name} (step {step}, {source})"
    lines: list[Line] = [
        (f"thread {format_namespace(thread.namespace, thread.thread_id)}: {summary}", "bold"),
        *console.more_lines(len(printed), len(messages), console.MORE_BEFORE),
        *itertools.chain.from_iterable(map(message_lines, printed)),
    ]
    if left_out := len(all_messages) - len(messages):
        lines.append((f"(memory put in {format_count(left_out, 'messages')} of its own: --with-memory)", "dim"))
    lines += [(f"state {key} = {shorten_value(value)}", "dim") for key, value in state.items()]
    lines += [(f"waits: {shorten_value(each)}", "yellow") for each in waits]
    if thread.messages:
        log_note = f"its conversation's log holds {format_count(thread.messages, 'messages')}"
        lines.append((f"({log_note}: agentmem show DATABASE {thread.thread_id} --conversation)", "dim"))
    value = {
        "kind": "thread",
        **_thread_keys(thread),
        "checkpoint_id": name,
        "parent_id": _checkpoint_id(found.parent_config) if found.parent_config else None,
        "step": step,
        "source": source,
        "total": len(messages),
        "messages": [*map(message_to_json, printed)],
        "state": state,
        "waits": waits,
    }
    return CommandReport(value, lines)


def _thread_keys(thread: ThreadSummary) -> dict[str, Any]:
    return {"namespace": thread.namespace, "id": thread.thread_id}


def message_to_json(view: views.ShownMessage) -> dict[str, Any]:
    """A message as JSON has it."""
    return {
        "id": view.key,
        **console.pick_fields(view.message, "role name text tool_call_id created_at"),
        "name": _name_of(view),
        "tool_calls": [console.pick_fields(call, "id name arguments") for call in view.calls],
    }


def message_lines(view: views.ShownMessage) -> Iterator[Line]:
    """A message for a person, whole."""
    message, name = view.message, _name_of(view)
    parts = [message.role if name is None else f"{message.role} ({name})", view.key or "without id"]
    if message.created_at is not None:
        parts.append(console.format_minute(message.created_at))
    yield "  ".join(parts), "bold"
    for line in console.split_lines(message.text) if message.text else ():
        yield f"   {line}".rstrip()
    for call in view.calls:
        yield f"   calls {call.name} {console.shorten(call.arguments)}  {call.id}", "dim"
    if message.tool_call_id is not None:
        yield f"   answers {message.tool_call_id}", "dim"


def _name_of(view: views.ShownMessage) -> str | None:
    return "memory" if view.mark == "memory" else view.message.name


_MAX_INDENT = 30
"""Levels of a tree that are still set off from each other."""
_MAX_ITEMS = 1_000_000


def branches(
    *,
    database: ExistingDatabase,
    thread: str | None = argument("The checkpoints of this thread. Default: named branches.", "THREAD", default=None),
    namespace: NamespaceChoice = None,
    limit: LimitOption = None,
    as_json: AsJson = False,
) -> CommandReport:
    """Show how threads and memory fork.

    The tree of a thread's checkpoints, the newest first, or that of the named branches of memory.

    JSON: of a thread a list of objects with checkpoint_id, parent_id, step, source, created_at; else with namespace,
    name, parent, created_at, own_entries.
    """
    with console.open_existing(database) as memory:
        if thread is not None:
            most = limit or (None if as_json else console.LIMIT)
            return _checkpoint_tree(memory, console.find_thread(memory, thread, namespace), most)
        found = memory.admin.branches(parse_namespace(namespace))
        empty = [] if found else [_nothing_found(memory, "named branches", namespace)]
    tree = _draw_tree((each, (each.namespace, each.name), (each.namespace, each.parent)) for each in found)
    printed = [*tree][: limit or console.LIMIT]
    lines: list[Line] = [*empty]
    for where, nodes in itertools.groupby(printed, key=lambda tree: tree[0].namespace):
        lines.append((format_namespace(where), "bold"))
        lines += [
            f"  {mark}{each.name}  {console.format_minute(each.created_at)}  {each.own_entries:,} of its own"
            for each, mark in nodes
        ]
    return CommandReport(found[:limit], [*lines, *console.more_lines(len(printed), len(found))])


def _checkpoint_tree(memory: AgentMemory, thread: ThreadSummary, limit: int | None) -> CommandReport:
    """The checkpoints of a thread, the newest first: those of a fork stand above where it begins."""
    history = memory.checkpointer.history(console.config_of(thread), limit=limit)
    found = history.checkpoints
    printed_ids = {None, *(each.checkpoint_id for each in found)}
    lines: list[Line] = []
    tree = _draw_tree(((each, each.checkpoint_id, each.parent_id) for each in reversed(found)), unindented=1)
    for each, mark in reversed([*tree]):
        parent_note = f"  after {each.parent_id}" if each.parent_id not in printed_ids else ""
        lines.append(
            f"{mark}{each.checkpoint_id}  step {each.step}  {each.source}  "
            f"{console.format_minute(each.created_at)}{parent_note}"
        )
    empty = f"{thread.thread_id} is a conversation without a thread: it has no checkpoints."
    value = [console.pick_fields(each, "checkpoint_id parent_id step source created_at") for each in found]
    return CommandReport(value, [*(lines or [empty]), *console.more_lines(len(found), history.total)])


def _draw_tree(found: Iterable[tuple[T, Hashable, Hashable]], *, unindented: int = 0) -> Iterator[tuple[T, str]]:
    """Draw a tree: each of its nodes with what stands before it, and what follows it below it.

    Args:
        found: The nodes, each with its key and its parent's.
        unindented: How many of those that follow a node stand as far in as it does, below the others.
    """
    nodes = [*found]
    forks: dict[Hashable, list[tuple[T, Hashable]]] = {None: []} | {key: [] for _, key, _ in nodes}
    for each, key, parent in nodes:
        forks[parent if parent in forks else None].append((each, key))
    pending = [(*node, 0, "") for node in reversed(forks[None])]
    while pending:
        each, key, depth, mark = pending.pop()
        yield each, mark
        margin = "   " * min(depth, _MAX_INDENT)
        pending += [(*fork, depth, margin) for fork in forks[key][:unindented]]
        pending += [(*fork, depth + 1, f"{margin}+- ") for fork in reversed(forks[key][unindented:])]


def diff(
    *,
    database: ExistingDatabase,
    first: str = argument("A named branch; with --thread, a checkpoint.", "A"),
    second: str | None = argument("Another one. Default, with --thread: the newest.", "B", default=None),
    thread: str | None = option("A and B are checkpoints of this thread.", "ID"),
    namespace: NamespaceChoice = None,
    limit: LimitOption = None,
) -> CommandReport:
    """Compare two branches or checkpoints.

    Two named branches of memory, or two checkpoints of a thread. Compared are core memory, events (recall), records
    (archival) and facts; of checkpoints also messages, the rest of the state, posts of the thread's session, and its
    items. What only A has is marked -, what only B has is marked +.

    JSON: an object with namespace, thread_id, from, to, changes. A change has layer, key, change ("added", "removed" or
    "changed"), from, to.
    """
    with console.open_existing(database) as memory:
        if thread is not None:
            summary = console.find_thread(memory, thread, namespace)
            first_checkpoint, second_checkpoint = (
                console.load_checkpoint(memory, summary, name) for name in (first, second)
            )
            names, where = (
                (_checkpoint_id(first_checkpoint.config), _checkpoint_id(second_checkpoint.config)),
                summary.namespace,
            )
            changed = memory.checkpointer.changes(second_checkpoint.config, names[0])
            found = [] if changed is None else [*views.changes_between(memory, changed, _MAX_ITEMS)]
        elif second is None:
            raise InvalidInput("Name two branches; or a thread with --thread, and one or two of its checkpoints.")
        else:
            where = console.find_branch_home(memory, namespace, first, second)
            names = first, second
            found = list(views.changes_of_layers(memory.layers(first, where).diff(memory.layers(second, where))))
    changes = [
        {"layer": each.layer, "key": each.key, "change": each.kind, "from": each.before, "to": each.after}
        for each in found[:limit]
    ]
    value = {"namespace": where, "thread_id": thread, "from": names[0], "to": names[1], "changes": changes}
    printed = found[: limit or console.LIMIT]
    lines: list[Line] = [] if found else ["Nothing differs."]
    for layer, group in itertools.groupby(printed, key=lambda each: each.layer):
        lines += [(layer, "bold"), *(line for each in group for line in _change_lines(each))]
    return CommandReport(value, [*lines, *console.more_lines(len(printed), len(found))])


def _change_lines(change: views.ShownChange) -> Iterator[Line]:
    if change.before == change.after:
        yield f"  ~ {change.key}: {console.shorten(change.before or '')} (the text is the same)", "yellow"
        return
    if change.before is not None:
        yield f"  - {change.key}: {console.shorten(change.before)}", "red"
    if change.after is not None:
        yield f"  + {change.key}: {console.shorten(change.after)}", "green"


def _checkpoint_id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])
