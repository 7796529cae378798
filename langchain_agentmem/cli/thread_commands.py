"""The commands `agentmem threads`, `show`, `why`, `branches` and `diff`."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.namespaces import format_namespace, parse_namespace
from langchain_agentmem.base.safe_repr import escape_unprintable, format_count, format_size
from langchain_agentmem.cli import console
from langchain_agentmem.cli.console import AsJson, CommandReport, ExistingDatabase, Line, argument, flag, option
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.message_marks import is_injected
from langchain_agentmem.studio import thread_views as views
from langchain_agentmem.upkeep.admin import ThreadSummary

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

T = TypeVar("T")

_NUMERIC_COLUMNS = ("checkpoints", "forks", "messages", "size")

threads = console.command_group("threads", "List and move threads and conversations.")


@threads.command("list")
def list_threads(
    *,
    database: ExistingDatabase,
    namespace: console.NamespaceFilter = None,
    query: str | None = option("Only threads with these words in a message, or this text in the id.", "TEXT"),
    role: str | None = option("Only threads with messages of this role."),
    since: datetime | None = console.time_option("Only threads last changed at this time or later, in UTC."),
    until: datetime | None = console.time_option("Only threads last changed before this time."),
    limit: console.LimitOption = None,
    as_json: AsJson = False,
) -> CommandReport:
    """List threads and conversations, the last changed first.

    A thread and the conversation of the same id are one line. The title is the first question. Times are in UTC.

    JSON: a list of objects with namespace, thread_id, title, checkpoints, forks, checkpoint_id, messages, bytes,
    changed_at.
    """
    with console.open_existing(database) as memory:
        count = limit or (None if as_json else console.LIMIT)
        where = parse_namespace(namespace)
        found = memory.admin.threads(where, query=query, role=role, since=since, until=until, limit=count)
        empty = "" if found.threads else _nothing_found(memory, "threads and no conversations", namespace)
    rows = []
    for each in found.threads:
        sizes = f"{each.checkpoints:,}", f"{each.forks:,}", f"{each.messages:,}", format_size(each.bytes or 0)
        last = console.format_minute(each.changed_at), each.checkpoint_id or "-", each.title
        rows.append((each.thread_id, format_namespace(each.namespace), *sizes, *last))
    headings = ("thread", "namespace", *_NUMERIC_COLUMNS, "changed", "newest checkpoint", "title")
    table = console.TableRows(headings, rows, _NUMERIC_COLUMNS) if rows else empty
    return CommandReport(found.threads, [table, *console.more_lines(len(rows), found.total)])


def _nothing_found(memory: AgentMemory, kinds: str, namespace: str | None) -> str:
    """Return the message for an empty list, with a hint about namespaces that have entries."""
    within = "" if namespace is None else f" in {namespace}"
    return f"There are no {kinds}{within}.{console.format_hint(memory, parse_namespace(namespace), below=True)}"


@threads.command()
def move(
    *,
    database: ExistingDatabase,
    thread: str = argument("Thread or conversation without a namespace.", "ID"),
    namespace: str = argument("Target namespace.", "A/B"),
) -> CommandReport:
    """Move a thread of the root into a namespace.

    Its checkpoints, its conversation and its memory move with it. The other threads of the namespace then share that
    memory. Audit entries stay unchanged.

    JSON: an object with namespace, thread_id.
    """
    where = parse_namespace(namespace)
    with console.handle_interrupt("Nothing was moved."), console.open_existing(database) as memory:
        memory.admin.adopt(thread, where)
    text = escape_unprintable(f"Moved {thread} to {format_namespace(where)}.")
    return CommandReport({"namespace": where, "thread_id": thread}, text)


def show(
    *,
    database: ExistingDatabase,
    thread: str | None = argument("Thread or conversation.", "ID", default=None),
    namespace: console.NamespaceChoice = None,
    branch: str | None = option("Show the core memory of this branch instead of a thread.", "NAME"),
    at: str | None = option("Checkpoint to show. Default: the newest.", "CHECKPOINT"),
    conversation: bool = flag("--conversation", "Show the conversation, even if a thread has the same id."),
    with_memory: bool = flag("--with-memory", "Include messages that memory injected for a prompt."),
    around: str | None = option("Show the messages around this message of the conversation.", "MESSAGE"),
    limit: console.LimitOption = None,
    as_json: AsJson = False,
) -> CommandReport:
    """Show the messages of a thread, or core memory.

    The command prints the last messages of a thread at a checkpoint, and the rest of its state. For a conversation, it
    prints the last messages of its log. Messages that memory injected for a prompt are omitted: see `why`.

    JSON: an object with kind ("thread" or "conversation"), namespace, id, total, messages. A thread also has
    checkpoint_id, parent_id, step, source, state, waits. A message has id, role, name, text, tool_calls, tool_call_id,
    created_at. A branch has kind "branch", namespace, id, core: a list of objects with key, value, importance,
    updated_at, expires_at.
    """
    if (thread is None) == (branch is None):
        raise InvalidInput("Pass either the ID of a thread or conversation, or --branch, such as --branch main.")
    with console.open_existing(database) as memory:
        if thread is None:
            return _branch_report(memory, str(branch), namespace, limit)
        found = console.find_thread(memory, thread, namespace)
        is_log = conversation or around is not None or not found.checkpoint_id
        if is_log and at is not None:
            raise InvalidInput("--at needs a thread: a conversation has no checkpoints.")
        count = limit or (None if as_json else console.LIMIT)
        if is_log:
            return _log_report(memory, found, around, count)
        return _thread_report(memory, found, at, count, with_memory=with_memory)


def why(
    *,
    database: ExistingDatabase,
    thread: str = argument("Thread.", "ID"),
    namespace: console.NamespaceChoice = None,
    message: str | None = option("Only items injected for this message.", "MESSAGE"),
) -> CommandReport:
    """Show the memory injected into prompts, with reasons.

    The command prints the memory and experiences injected into the prompts of a thread in the last 30 days. A score is
    the sum of contributions: of words of the question, and of signals such as "date".

    JSON: a list of objects with message_id, part, reader, at, kind, id, score, signals, reason.
    """
    with console.open_existing(database) as memory:
        found = console.find_thread(memory, thread, namespace)
        notes = memory.conversation(found.thread_id, found.namespace).prompt_notes(message)
    rows, cells = [], []
    for note in notes:
        note_fields = console.pick_fields(note, "message_id part reader") | {"at": note.created_at}
        for item in note.items:
            rows.append(note_fields | console.pick_fields(item, "kind id score signals reason"))
            score = "" if item.score is None else f"{item.score:.2f}"
            reason = item.reason or ", ".join(f"{name} {value:+.2f}" for name, value in item.signals.items())
            cells.append((note.message_id, note.part, item.kind, item.id, score, console.shorten(reason)))
    headings = ("for message", "part", "kind", "id", "score", "why")
    empty = "No injected memory is recorded for this thread."
    return CommandReport(rows, [console.TableRows(headings, cells) if rows else empty])


def shorten_value(value: Any) -> str:
    """Return a value of a state as text, shortened to one line."""
    return console.shorten(views.as_text(value))


def _branch_report(memory: AgentMemory, branch: str, namespace: str | None, limit: int | None) -> CommandReport:
    where = console.find_branch_namespace(memory, namespace, branch)
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
    count = limit or max(total, 1)
    before, after = (count, 0) if around is None else ((count - 1) // 2, count // 2)
    messages = [*map(views.display_message, chat.around(around, before=before, after=after))]
    name = format_namespace(thread.namespace, thread.thread_id)
    lines: list[Line] = [
        (f"conversation {name}: {format_count(total, 'messages')}", "bold"),
        *(console.more_lines(len(messages), total, console.MORE_BEFORE) if around is None else ()),
        *itertools.chain.from_iterable(map(message_lines, messages)),
    ]
    value = {"kind": "conversation", **_thread_keys(thread), "total": total}
    return CommandReport({**value, "messages": [*map(message_to_json, messages)]}, lines)


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
        lines.append((f"(memory injected {format_count(left_out, 'messages')}: --with-memory)", "dim"))
    lines += [(f"state {key} = {shorten_value(value)}", "dim") for key, value in state.items()]
    lines += [(f"waits: {shorten_value(each)}", "yellow") for each in waits]
    if thread.messages:
        log_note = f"the log of the conversation has {format_count(thread.messages, 'messages')}"
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
    """Return a message for JSON."""
    return {
        "id": view.key,
        **console.pick_fields(view.message, "role name text tool_call_id created_at"),
        "name": _name_of(view),
        "tool_calls": [console.pick_fields(call, "id name arguments") for call in view.calls],
    }


def message_lines(view: views.ShownMessage) -> Iterator[Line]:
    """Yield the lines of a whole message."""
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
"""The maximum indentation of a tree, in levels."""
_MAX_ITEMS = 1_000_000
"""The maximum number of items of a thread to compare."""


def branches(
    *,
    database: ExistingDatabase,
    thread: str | None = argument("Thread, for its checkpoints. Default: named branches.", "THREAD", default=None),
    namespace: console.NamespaceChoice = None,
    limit: console.LimitOption = None,
    as_json: AsJson = False,
) -> CommandReport:
    """Show the checkpoints of a thread, or the named branches.

    The command prints a tree. The newest checkpoint comes first.

    JSON: for a thread, a list of objects with checkpoint_id, parent_id, step, source, created_at; else with namespace,
    name, parent, created_at, own_entries.
    """
    with console.open_existing(database) as memory:
        if thread is not None:
            count = limit or (None if as_json else console.LIMIT)
            return _checkpoint_tree(memory, console.find_thread(memory, thread, namespace), count)
        found = memory.admin.branches(parse_namespace(namespace))
        empty = [] if found else [_nothing_found(memory, "named branches", namespace)]
    tree = _draw_tree((each, (each.namespace, each.name), (each.namespace, each.parent)) for each in found)
    printed = [*tree][: limit or console.LIMIT]
    lines: list[Line] = [*empty]
    for where, nodes in itertools.groupby(printed, key=lambda tree: tree[0].namespace):
        lines.append((format_namespace(where), "bold"))
        for each, mark in nodes:
            details = f"{console.format_minute(each.created_at)}  {format_count(each.own_entries, 'own entries')}"
            lines.append(f"  {mark}{each.name}  {details}")
    return CommandReport(found[:limit], [*lines, *console.more_lines(len(printed), len(found))])


def _checkpoint_tree(memory: AgentMemory, thread: ThreadSummary, limit: int | None) -> CommandReport:
    """Return the tree of the checkpoints of a thread, the newest first.

    Children are printed above their parent.
    """
    history = memory.checkpointer.history(console.config_of(thread), limit=limit)
    found = history.checkpoints
    printed_ids = {None, *(each.checkpoint_id for each in found)}
    lines: list[Line] = []
    tree = _draw_tree(((each, each.checkpoint_id, each.parent_id) for each in reversed(found)), unindented=1)
    for each, mark in reversed([*tree]):
        time = console.format_minute(each.created_at)
        parent = f"  after {each.parent_id}" if each.parent_id not in printed_ids else ""
        lines.append(f"{mark}{each.checkpoint_id}  step {each.step}  {each.source}  {time}{parent}")
    empty = f"{thread.thread_id} is a conversation without a thread, so it has no checkpoints."
    value = [console.pick_fields(each, "checkpoint_id parent_id step source created_at") for each in found]
    return CommandReport(value, [*(lines or [empty]), *console.more_lines(len(found), history.total)])


def _draw_tree(nodes: Iterable[tuple[T, Hashable, Hashable]], *, unindented: int = 0) -> Iterator[tuple[T, str]]:
    """Yield the nodes of a tree in depth-first order, each with its indentation.

    Args:
        nodes: The nodes, each with its key and the key of its parent.
        unindented: The number of children of each node that are not indented below it. They follow its other children.
    """
    nodes = [*nodes]
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
    first: str = argument("Named branch; with --thread, a checkpoint.", "A"),
    second: str | None = argument("The one to compare with A. Default with --thread: the newest.", "B", default=None),
    thread: str | None = option("Compare checkpoints of this thread.", "ID"),
    namespace: console.NamespaceChoice = None,
    limit: console.LimitOption = None,
) -> CommandReport:
    """Compare two branches or checkpoints.

    The command compares core memory, events (recall), records (archival) and facts. For checkpoints, it also compares
    messages, the rest of the state, session posts, and items of the thread's store. Entries only in A have
    the mark -, entries only in B the mark +.

    JSON: an object with namespace, thread_id, from, to, changes. A change has layer, key, change ("added", "removed" or
    "changed"), from, to.
    """
    with console.open_existing(database) as memory:
        if thread is not None:
            summary = console.find_thread(memory, thread, namespace)
            where = summary.namespace
            old, new = (console.load_checkpoint(memory, summary, name).config for name in (first, second))
            names = _checkpoint_id(old), _checkpoint_id(new)
            changed = memory.checkpointer.changes(new, names[0])
            found = [] if changed is None else [*views.changes_between(memory, changed, _MAX_ITEMS)]
        elif second is None:
            raise InvalidInput("Pass two branches, or --thread with one or two of its checkpoints.")
        else:
            where = console.find_branch_namespace(memory, namespace, first, second)
            names = first, second
            found = list(views.changes_of_layers(memory.layers(first, where).diff(memory.layers(second, where))))
    changes = [
        {"layer": each.layer, "key": each.key, "change": each.kind, "from": each.before, "to": each.after}
        for each in found[:limit]
    ]
    value = {"namespace": where, "thread_id": thread, "from": names[0], "to": names[1], "changes": changes}
    printed = found[: limit or console.LIMIT]
    lines: list[Line] = [] if found else ["No differences."]
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
