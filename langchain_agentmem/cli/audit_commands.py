"""`agentmem audit`: the health report of the audit trail, its entries and todos, its chain, and its files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.namespaces import named, namespace_named
from langchain_agentmem.base.safe_repr import counted
from langchain_agentmem.cli import console
from langchain_agentmem.cli.console import Existing, Line, Most, Report, flag, option, working
from langchain_agentmem.cli.thread_commands import message_lines, message_told
from langchain_agentmem.studio.thread_views import message_shown

if TYPE_CHECKING:
    from langchain_agentmem.audit.audit_entry import AuditEntry
    from langchain_agentmem.audit.audit_trail import AuditTrail

audit = typer.Typer(name="audit", help="Every prompt and reply.", no_args_is_help=True, rich_markup_mode=None)

Namespace = Annotated[str | None, typer.Option("--namespace", metavar="A/B", help="The namespace. Default: the root.")]
Conversation = Annotated[str | None, typer.Option(metavar="ID", help="Only this conversation. Default: all.")]
File = Annotated[str, typer.Argument(help="The file, such as agent_memory.json.")]


@audit.command()
def report(*, database: Existing, namespace: Namespace = None) -> Report:
    """Report how the audit trail fares, there and below."""
    here = namespace_named(namespace)
    with console.existing(database) as memory:
        trail = _trail(memory, namespace)
        health, is_empty = trail.report(), bool(here) and not trail.last(1, include_junk=True)
        others = f"\n{_none(memory, namespace)}" if is_empty else ""
    return Report(health, f"{health}{others}")


@audit.command("list")
def entries(
    *,
    database: Existing,
    namespace: Namespace = None,
    conversation: Conversation = None,
    include_junk: bool = flag("--include-junk", "Print hidden entries too, and why they are hidden."),
    messages: bool = flag("--messages", "Print entries with all messages that the model was given and gave."),
    limit: int = option("Print the last N entries.", "N", default=10, min=1),
) -> Report:
    """List the last entries, the newest last."""
    with console.existing(database) as memory:
        found = _trail(memory, namespace).last(limit, conversation, include_junk=include_junk)
        empty = "" if found else _none(memory, namespace)
    show, told = (_whole_lines, _whole) if messages else (_lines, _entry)
    return console.list_report(found, show, told, empty, limit)


def _none(memory: AgentMemory, namespace: str | None) -> str:
    return f"There are no entries.{console.elsewhere(memory, namespace_named(namespace), ['audit'])}"


@audit.command()
def todos(
    *,
    database: Existing,
    namespace: Namespace = None,
    done: bool = flag("--done", "List those that are done. Default: those that are open."),
    complete: list[str] | None = option("This one is done; may be repeated.", "ID"),
    reopen: list[str] | None = option("This one is to be done after all; may be repeated.", "ID"),
    limit: Most = None,
) -> Report:
    """List what is to be done, or say what is."""
    with console.existing(database) as memory:
        trail = _trail(memory, namespace)
        for each in complete or ():
            trail.complete(each)
        for each in reopen or ():
            trail.reopen(each)
        found = trail.todos("done" if done else "open")
    empty = f"Nothing is {'done' if done else 'to be done'}."
    return console.list_report(found, _todo_lines, _entry, empty, limit)


@audit.command()
def verify(
    *, database: Existing, since: str | None = option("A head that was kept: nothing up to it may differ.", "SEQ:LINK")
) -> Report:
    """Walk along the chain of the whole database.

    Its head is printed. The exit code is 1 where something is wrong.
    """
    with working("Nothing was changed.", "walking"), console.existing(database) as memory:
        found = _trail(memory, None).verify(since)
    told = f"{counted(found.entries, 'entries')}, of which {found.erased:,} are erased.\nHead: {found.head}"
    value = {**console.plain(found), "ok": found.ok, "head": str(found.head)}
    return console.check_report(found.problems, told, value)


@audit.command()
def archive(
    *,
    database: Existing,
    namespace: Namespace = None,
    before: datetime | None = option("Entries before this time, in UTC. Default: 30 days ago.", "DATE"),
) -> Report:
    """Compress old entries where they are. They are read and found as before."""
    kept = "What was compressed is compressed: run it again to go on."
    with working(kept, "compressing"), console.existing(database) as memory:
        done = _trail(memory, namespace).archive(before)
    return Report({"archived": done}, f"{counted(done, 'entries')} archived.")


@audit.command("filter-junk")
def filter_junk(*, database: Existing, namespace: Namespace = None) -> Report:
    """Judge every entry anew by the rules for junk. Nothing is deleted."""
    kept = "What was judged is judged: run it again to go on."
    with working(kept, "judging"), console.existing(database) as memory:
        done = _trail(memory, namespace).filter_junk()
    return Report({"changed": done}, f"{counted(done, 'entries')} judged otherwise than before.")


@audit.command("import")
def import_document(*, database: Existing, file: File, namespace: Namespace = None) -> Report:
    """Add what an agent_memory.json holds, however damaged. The exit code is 1 where something could not be read.

    The database is made if it is not there.
    """
    kept = "What was added is kept: run it again to go on."
    with working(kept, "adding"), console.made(database) as memory:
        done = _trail(memory, namespace).import_document(file)
    lines: list[Line] = [
        *((each, "yellow") for each in done.lost),
        *([] if done.kept is None else [f"The damaged file is kept as {done.kept}."]),
        f"{counted(done.added, 'entries')} added; {done.known:,} were there already.",
    ]
    return Report(done, lines, bool(done.lost))


@audit.command("export")
def export_document(*, database: Existing, file: File, namespace: Namespace = None) -> Report:
    """Write all entries as an agent_memory.json.

    Hidden ones are included. A file that is there is replaced.
    """
    with working("Nothing was written.", "writing"), console.existing(database) as memory:
        done = _trail(memory, namespace).export_document(file)
    return Report({"written": done}, f"{counted(done, 'entries')} written.")


def _trail(memory: AgentMemory, namespace: str | None) -> AuditTrail:
    from langchain_agentmem.audit.audit_trail import AuditTrail  # noqa: PLC0415 - it loads LangChain

    return AuditTrail(memory, namespace_named(namespace))


def _lines(entry: AuditEntry) -> Iterator[Line]:
    where = named(entry.namespace, entry.conversation_id or "-")
    yield f"{entry.created_at:%Y-%m-%d %H:%M}  {where}  {entry.kind}  {entry.id}", "bold"
    yield f"   > {console.shortened(entry.prompt)}"
    yield f"   < {console.shortened(entry.reply)}"
    if entry.error is not None:
        yield f"   failed: {console.shortened(entry.error)}", "red"
    if entry.junk:
        yield f"   hidden: {', '.join(entry.junk)}", "dim"


def _whole_lines(entry: AuditEntry) -> Iterator[Line]:
    """An entry with its messages, where it has them."""
    yield from _lines(entry)
    for message in entry.messages:
        yield from message_lines(message_shown(message))


def _todo_lines(todo: AuditEntry) -> Iterator[Line]:
    yield f"{todo.id}  {todo.created_at:%Y-%m-%d}", "bold"
    yield f"   {console.shortened(todo.prompt)}"


def _entry(entry: AuditEntry) -> dict[str, Any]:
    """An entry as JSON has it. Of a model call it has prompt and reply, and not all its messages."""
    return {name: value for name, value in console.plain(entry).items() if name != "messages"}


def _whole(entry: AuditEntry) -> dict[str, Any]:
    """An entry with its messages, as JSON has it."""
    return _entry(entry) | {"messages": [message_told(message_shown(each)) for each in entry.messages]}
