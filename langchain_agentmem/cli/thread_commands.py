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
        count = limit or (None if as_json else console.DEFAULT_LIMIT)
        labels = parse_namespace(namespace)
        page = memory.admin.threads(labels, query=query, role=role, since=since, until=until, limit=count)
        empty_text = "" if page.threads else _describe_nothing(memory, "threads and no conversations", namespace)
    rows = []
    for each in page.threads:
        size_cells = f"{each.checkpoints:,}", f"{each.forks:,}", f"{each.messages:,}", format_size(each.bytes or 0)
        other_cells = console.format_minute(each.changed_at), each.checkpoint_id or "-", each.title
        rows.append((each.thread_id, format_namespace(each.namespace), *size_cells, *other_cells))
    headings = ("thread", "namespace", *_NUMERIC_COLUMNS, "changed", "newest checkpoint", "title")
    table = console.TableRows(headings, rows, _NUMERIC_COLUMNS) if rows else empty_text
    return CommandReport(page.threads, [table, *console.note_omitted(len(rows), page.total)])


def _describe_nothing(memory: AgentMemory, nouns: str, namespace: str | None) -> str:
    """Return the text for an empty list, with a hint about namespaces that have entries."""
    within = "" if namespace is None else f" in {namespace}"
    return f"There are no {nouns}{within}.{console.format_hint(memory, parse_namespace(namespace), below=True)}"


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
    labels = parse_namespace(namespace)
    with console.handle_interrupt("Nothing was moved."), console.open_existing(database) as memory:
        memory.admin.adopt(thread, labels)
    text = escape_unprintable(f"Moved {thread} to {format_namespace(labels)}.")
    return CommandReport({"namespace": labels, "thread_id": thread}, text)


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
    if thread is None and (conversation or with_memory or at is not None or around is not None):
        raise InvalidInput("--branch cannot be combined with --at, --around, --conversation or --with-memory.")
    with console.open_existing(database) as memory:
        if thread is None:
            return _report_branch(memory, str(branch), namespace, limit)
        summary = console.find_thread(memory, thread, namespace)
        is_log = conversation or around is not None or not summary.checkpoint_id
        if is_log and (with_memory or at is not None):
            raise InvalidInput("--at and --with-memory need a thread: a conversation has no checkpoints.")
        max_messages = limit or (None if as_json else console.DEFAULT_LIMIT)
        if is_log:
            return _report_log(memory, summary, around, max_messages)
        return _report_thread(memory, summary, at, max_messages, with_memory=with_memory)


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
        summary = console.find_thread(memory, thread, namespace)
        notes = memory.conversation(summary.thread_id, summary.namespace).prompt_notes(message)
    json_rows, cell_rows = [], []
    for note in notes:
        note_fields = console.pick_fields(note, "message_id part reader") | {"at": note.created_at}
        for item in note.items:
            json_rows.append(note_fields | console.pick_fields(item, "kind id score signals reason"))
            score = "" if item.score is None else f"{item.score:.2f}"
            reason = item.reason or ", ".join(f"{name} {value:+.2f}" for name, value in item.signals.items())
            cell_rows.append((note.message_id, note.part, item.kind, item.id, score, console.shorten(reason)))
    headings = ("for message", "part", "kind", "id", "score", "why")
    empty = "No injected memory is recorded for this thread."
    return CommandReport(json_rows, [console.TableRows(headings, cell_rows) if json_rows else empty])


def shorten_value(value: Any) -> str:
    """Return a value of a state as text, shortened to one line."""
    return console.shorten(views.as_text(value))


def _report_branch(memory: AgentMemory, branch: str, namespace: str | None, limit: int | None) -> CommandReport:
    labels = console.find_branch_namespace(memory, namespace, branch)
    field_names = "key value importance updated_at expires_at"
    core = [console.pick_fields(each, field_names) for each in memory.layers(branch, labels).core.entries()]
    printed = core[: limit or console.DEFAULT_LIMIT]
    lines = [
        (f"branch {format_namespace(labels, branch)}: {format_count(len(core), 'values')} of core memory", "bold"),
        *(f"{each['key']} = {shorten_value(each['value'])}" for each in printed),
        *console.note_omitted(len(printed), len(core)),
    ]
    return CommandReport({"kind": "branch", "namespace": labels, "id": branch, "core": core[:limit]}, lines)


def _report_log(memory: AgentMemory, thread: ThreadSummary, around: str | None, limit: int | None) -> CommandReport:
    chat = memory.conversation(thread.thread_id, thread.namespace)
    total = len(chat)
    max_messages = limit or max(total, 1)
    before, after = (max_messages, 0) if around is None else ((max_messages - 1) // 2, max_messages // 2)
    messages = [*map(views.display_message, chat.around(around, before=before, after=after))]
    label = format_namespace(thread.namespace, thread.thread_id)
    lines: list[Line] = [
        (f"conversation {label}: {format_count(total, 'messages')}", "bold"),
        *(console.note_omitted(len(messages), total, console.EARLIER_TEMPLATE) if around is None else ()),
        *itertools.chain.from_iterable(map(format_message, messages)),
    ]
    value = {"kind": "conversation", **_thread_keys(thread), "total": total}
    return CommandReport({**value, "messages": [*map(message_to_json, messages)]}, lines)


def _report_thread(
    memory: AgentMemory, thread: ThreadSummary, at: str | None, limit: int | None, *, with_memory: bool
) -> CommandReport:
    checkpoint = console.load_checkpoint(memory, thread, at)
    all_messages = [*views.messages_in(checkpoint).values()]
    messages = [each for each in all_messages if with_memory or not is_injected(each)]
    printed = [*map(views.display_message, messages[-limit:] if limit else messages)]
    checkpoint_id = _checkpoint_id(checkpoint.config)
    state, interrupts = views.state_of(checkpoint), [*views.interrupts_of(checkpoint)]
    step, source = checkpoint.metadata.get("step"), checkpoint.metadata.get("source")
    summary = f"{format_count(len(messages), 'messages')} at checkpoint {checkpoint_id} (step {step}, {source})"
    lines: list[Line] = [
        (f"thread {format_namespace(thread.namespace, thread.thread_id)}: {summary}", "bold"),
        *console.note_omitted(len(printed), len(messages), console.EARLIER_TEMPLATE),
        *itertools.chain.from_iterable(map(format_message, printed)),
    ]
    if omitted := len(all_messages) - len(messages):
        lines.append((f"(memory injected {format_count(omitted, 'messages')}: --with-memory)", "dim"))
    lines += [(f"state {key} = {shorten_value(value)}", "dim") for key, value in state.items()]
    lines += [(f"waits: {shorten_value(each)}", "yellow") for each in interrupts]
    if thread.messages:
        log_note = f"the log of the conversation has {format_count(thread.messages, 'messages')}"
        lines.append((f"({log_note}: agentmem show DATABASE {thread.thread_id} --conversation)", "dim"))
    value = {
        "kind": "thread",
        **_thread_keys(thread),
        "checkpoint_id": checkpoint_id,
        "parent_id": _checkpoint_id(checkpoint.parent_config) if checkpoint.parent_config else None,
        "step": step,
        "source": source,
        "total": len(messages),
        "messages": [*map(message_to_json, printed)],
        "state": state,
        "waits": interrupts,
    }
    return CommandReport(value, lines)


def _thread_keys(thread: ThreadSummary) -> dict[str, Any]:
    return {"namespace": thread.namespace, "id": thread.thread_id}


def message_to_json(view: views.ShownMessage) -> dict[str, Any]:
    """Return a message for JSON."""
    return {
        "id": view.key,
        **console.pick_fields(view.message, "role name text tool_call_id created_at"),
        "name": _display_name(view),
        "tool_calls": [console.pick_fields(call, "id name arguments") for call in view.calls],
    }


def format_message(view: views.ShownMessage) -> Iterator[Line]:
    """Yield the lines of a whole message."""
    message, name = view.message, _display_name(view)
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


def _display_name(view: views.ShownMessage) -> str | None:
    return "memory" if view.mark == "memory" else view.message.name


_MAX_INDENT = 30
"""The maximum indentation of a tree, in levels."""
_MAX_ITEMS = 1_000_000
"""The maximum number of store items of a thread to compare."""


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
            max_checkpoints = limit or (None if as_json else console.DEFAULT_LIMIT)
            return _report_checkpoints(memory, console.find_thread(memory, thread, namespace), max_checkpoints)
        branch_list = memory.admin.branches(parse_namespace(namespace))
        empty_lines = [] if branch_list else [_describe_nothing(memory, "named branches", namespace)]
    tree = _draw_tree((each, (each.namespace, each.name), (each.namespace, each.parent)) for each in branch_list)
    printed = [*tree][: limit or console.DEFAULT_LIMIT]
    lines: list[Line] = [*empty_lines]
    for labels, nodes in itertools.groupby(printed, key=lambda node: node[0].namespace):
        lines.append((format_namespace(labels), "bold"))
        for each, indent in nodes:
            details = f"{console.format_minute(each.created_at)}  {format_count(each.own_entries, 'own entries')}"
            lines.append(f"  {indent}{each.name}  {details}")
    return CommandReport(branch_list[:limit], [*lines, *console.note_omitted(len(printed), len(branch_list))])


def _report_checkpoints(memory: AgentMemory, thread: ThreadSummary, limit: int | None) -> CommandReport:
    """Return the report of a thread's checkpoints: a tree, with children above their parent."""
    history = memory.checkpointer.history(console.build_config(thread), limit=limit)
    checkpoints = history.checkpoints
    printed_ids = {None, *(each.checkpoint_id for each in checkpoints)}
    lines: list[Line] = []
    tree = _draw_tree(((each, each.checkpoint_id, each.parent_id) for each in reversed(checkpoints)), unindented=1)
    for each, indent in reversed([*tree]):
        time = console.format_minute(each.created_at)
        parent = f"  after {each.parent_id}" if each.parent_id not in printed_ids else ""
        lines.append(f"{indent}{each.checkpoint_id}  step {each.step}  {each.source}  {time}{parent}")
    empty_text = f"{thread.thread_id} is a conversation without a thread, so it has no checkpoints."
    value = [console.pick_fields(each, "checkpoint_id parent_id step source created_at") for each in checkpoints]
    return CommandReport(value, [*(lines or [empty_text]), *console.note_omitted(len(checkpoints), history.total)])


def _draw_tree(nodes: Iterable[tuple[T, Hashable, Hashable]], *, unindented: int = 0) -> Iterator[tuple[T, str]]:
    """Yield the nodes of a tree in depth-first order, each with its indentation.

    Args:
        nodes: The nodes, each with its key and the key of its parent.
        unindented: The number of children that have the indentation of their parent. They follow its other children.
    """
    nodes = [*nodes]
    children: dict[Hashable, list[tuple[T, Hashable]]] = {None: []} | {key: [] for _, key, _ in nodes}
    for node, key, parent in nodes:
        children[parent if parent in children else None].append((node, key))
    pending = [(*root, 0, "") for root in reversed(children[None])]
    while pending:
        node, key, depth, indent = pending.pop()
        yield node, indent
        margin = "   " * min(depth, _MAX_INDENT)
        pending += [(*child, depth, margin) for child in children[key][:unindented]]
        pending += [(*child, depth + 1, f"{margin}+- ") for child in reversed(children[key][unindented:])]


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
            labels = summary.namespace
            old, new = (console.load_checkpoint(memory, summary, id_).config for id_ in (first, second))
            compared = _checkpoint_id(old), _checkpoint_id(new)
            checkpoint_pair = memory.checkpointer.changes(new, compared[0])
            changes = [] if checkpoint_pair is None else [*views.changes_between(memory, checkpoint_pair, _MAX_ITEMS)]
        elif second is None:
            raise InvalidInput("Pass two branches, or --thread with one or two of its checkpoints.")
        else:
            labels = console.find_branch_namespace(memory, namespace, first, second)
            compared = first, second
            changes = list(views.changes_of_layers(memory.layers(first, labels).diff(memory.layers(second, labels))))
    json_changes = [
        {"layer": each.layer, "key": each.key, "change": each.kind, "from": each.before, "to": each.after}
        for each in changes[:limit]
    ]
    value = {"namespace": labels, "thread_id": thread, "from": compared[0], "to": compared[1], "changes": json_changes}
    printed = changes[: limit or console.DEFAULT_LIMIT]
    lines: list[Line] = [] if changes else ["No differences."]
    for layer, group in itertools.groupby(printed, key=lambda each: each.layer):
        lines += [(layer, "bold"), *(line for each in group for line in _format_change(each))]
    return CommandReport(value, [*lines, *console.note_omitted(len(printed), len(changes))])


def _format_change(change: views.ShownChange) -> Iterator[Line]:
    if change.before == change.after:
        yield f"  ~ {change.key}: {console.shorten(change.before or '')} (the text is the same)", "yellow"
        return
    if change.before is not None:
        yield f"  - {change.key}: {console.shorten(change.before)}", "red"
    if change.after is not None:
        yield f"  + {change.key}: {console.shorten(change.after)}", "green"


def _checkpoint_id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])
