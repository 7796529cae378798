"""`agentmem facts`, `experiences` and `audit`: what is known, what was learned to do, and every prompt and reply."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.encoding import json_value
from langchain_agentmem.base.namespaces import format_namespace, parse_namespace
from langchain_agentmem.base.safe_repr import format_count
from langchain_agentmem.cli import console
from langchain_agentmem.cli.console import (
    CommandReport,
    ExistingDatabase,
    LimitOption,
    Line,
    NamespaceChoice,
    argument,
    flag,
    option,
)
from langchain_agentmem.cli.thread_commands import message_lines, message_to_json
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.studio.thread_views import display_message

if TYPE_CHECKING:
    from langchain_agentmem.audit.audit_entry import AuditEntry
    from langchain_agentmem.audit.audit_trail import AuditTrail
    from langchain_agentmem.facts.fact import Fact, Neighbour
    from langchain_agentmem.facts.kg_memory import KGMemory


def facts(
    *,
    database: ExistingDatabase,
    words: list[str] | None = argument("Only facts that name it.", "ENTITY", default=None),
    namespace: NamespaceChoice = None,
    branch: str = option("A named branch of memory.", "NAME", default=console.MAIN),
    thread: str | None = option("The memory of this thread, in place of a branch.", "ID"),
    at: str | None = option("As the thread knew it there. Default: the newest.", "CHECKPOINT"),
    as_of: datetime | None = console.time_option("What held then. Default: now."),
    known: datetime | None = console.time_option("As it was known then. Default: now."),
    history: bool = flag("--history", "All that ever held of ENTITY, ended or not."),
    neighbours: bool = flag("--neighbours", "What is connected with ENTITY, the nearest first."),
    depth: int = option("With --neighbours: how many facts away.", "N", default=1, min=1, max=10),
    limit: LimitOption = None,
) -> CommandReport:
    """List what is known, and what was.

    Without options: the facts that hold. Or those that held at a time, all that ever held of an entity, or what is
    connected with it.

    A TIME is as in 2026-05-31 or 2026-05-31T18:30+02:00; without a time zone it is in UTC.

    JSON: a list of objects with id, role, subject, predicate, object, valid_from, valid_to, recorded_at, sources,
    confidence, ended_by; with --neighbours with name, distance, fact.
    """
    entity = " ".join(words) if words else None
    if entity is None and (history or neighbours):
        raise InvalidInput("--history and --neighbours are those of an ENTITY: name it.")
    if history and (neighbours or as_of is not None):
        raise InvalidInput("--history shows all that ever held: neither --neighbours nor --as-of go with it.")
    if at is not None and thread is None:
        raise InvalidInput("--at is a checkpoint of a thread: name it with --thread.")
    with console.open_existing(database) as memory:
        kg = _open_facts(memory, namespace, branch, thread, at)
        near: list[Neighbour] = []
        found: list[Fact] = []
        if entity is not None and neighbours:
            near = kg.neighbours(entity, depth, valid=as_of, recorded=known)
        elif entity is not None and history:
            found = kg.history(entity, recorded=known)
        else:
            found = kg.as_of(as_of, known) if entity is None else _facts_naming(kg, entity, as_of, known)
        empty = "No such facts are known."
        if not near and not found:
            empty += console.other_places(memory, kg.namespace, ["fact"], threads=thread is None)
    if neighbours:
        return console.list_report(near, _neighbour_lines, _neighbour_to_json, empty, limit)
    return console.list_report(found, _fact_lines, lambda fact: fact.to_dict(), empty, limit)


def _open_facts(
    memory: AgentMemory, namespace: str | None, branch: str, thread: str | None, at: str | None
) -> KGMemory:
    """Whose facts are meant."""
    if thread is None:
        return memory.facts(branch, console.find_branch_home(memory, namespace, branch))
    return memory.facts(console.load_checkpoint(memory, console.find_thread(memory, thread, namespace), at).config)


def _facts_naming(kg: KGMemory, entity: str, valid: datetime | None, recorded: datetime | None) -> list[Fact]:
    """The facts that are about an entity, or that it is the object of."""
    as_subject = kg.as_of(valid, recorded, subject=entity)
    as_object = kg.as_of(valid, recorded, obj=entity)
    by_id: dict[str, Any] = {fact.id: fact for fact in (*as_subject, *as_object)}
    return sorted(by_id.values(), key=lambda fact: fact.valid_from)


def _neighbour_to_json(neighbour: Neighbour) -> dict[str, Any]:
    return {"name": neighbour.name, "distance": neighbour.distance, "fact": neighbour.fact.to_dict()}


def _neighbour_lines(neighbour: Neighbour) -> Iterator[Line]:
    yield f"{neighbour.name}  ({neighbour.distance} away)", "bold"
    yield from _fact_lines(neighbour.fact)


def _fact_lines(fact: Fact) -> Iterator[Line]:
    confidence = "" if fact.confidence is None else f"  {fact.confidence:.0%} sure"
    yield f"{console.shorten(fact.text)}  {fact.period}{confidence}  {fact.id}"
    if fact.sources:
        yield f"   told by {fact.role}: {', '.join(fact.sources)}", "dim"


experiences = typer.Typer(
    name="experiences",
    help="Handcrafted experiences: what to do, and when.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@experiences.command()
def check(
    *,
    folder: str = argument("The folder, with files *.yaml or *.yml.", "FOLDER"),
    subfolders: bool = flag("--subfolders", "Files in folders below it count too."),
) -> CommandReport:
    """List what counts, and what is wrong with files. The exit code is 1 where a file does not count."""
    with AgentMemory(":memory:") as memory:
        found = memory.experiences(folder, subfolders=subfolders).validate()
    refused = sum(not problem.is_loaded for problem in found.problems)
    lines: list[Line] = []
    for each in found.experiences:
        lines += [
            (f"{each.exp_id}  ({', '.join(each.who) or 'everybody'})", "bold"),
            f"   {console.shorten(each.when)}",
        ]
    lines += [(str(problem), "yellow" if problem.is_loaded else "red") for problem in found.problems]
    lines.append(f"{format_count(len(found.experiences), 'experiences')}; {format_count(refused, 'files')} left out.")
    rows = [each.to_dict() for each in found.experiences]
    value = {"ok": found.ok, "experiences": rows, "problems": found.problems}
    return CommandReport(value, lines, not found.ok)


# -- the audit trail ---------------------------------------------------------------------------------------------------

audit = typer.Typer(name="audit", help="Every prompt and reply.", no_args_is_help=True, rich_markup_mode=None)

Namespace = Annotated[str | None, typer.Option("--namespace", metavar="A/B", help="The namespace. Default: the root.")]
Conversation = Annotated[str | None, typer.Option(metavar="ID", help="Only this conversation. Default: all.")]
File = Annotated[str, typer.Argument(help="The file, such as agent_memory.json.")]


@audit.command()
def report(*, database: ExistingDatabase, namespace: Namespace = None) -> CommandReport:
    """Report how the audit trail fares, there and below."""
    labels = parse_namespace(namespace)
    with console.open_existing(database) as memory:
        trail = _open_trail(memory, namespace)
        health, is_empty = trail.report(), bool(labels) and not trail.last(1, include_junk=True)
        others = f"\n{_no_entries(memory, namespace)}" if is_empty else ""
    return CommandReport(health, f"{health}{others}")


@audit.command("list")
def list_entries(
    *,
    database: ExistingDatabase,
    namespace: Namespace = None,
    conversation: Conversation = None,
    include_junk: bool = flag("--include-junk", "Print hidden entries too, and why they are hidden."),
    messages: bool = flag("--messages", "Print entries with all messages that the model was given and gave."),
    limit: int = option("Print the last N entries.", "N", default=10, min=1),
) -> CommandReport:
    """List the last entries, the newest last."""
    with console.open_existing(database) as memory:
        found = _open_trail(memory, namespace).last(limit, conversation, include_junk=include_junk)
        empty = "" if found else _no_entries(memory, namespace)
    format_entry, to_json = (_full_entry_lines, _full_entry_to_json) if messages else (_entry_lines, _entry_to_json)
    return console.list_report(found, format_entry, to_json, empty, limit)


def _no_entries(memory: AgentMemory, namespace: str | None) -> str:
    return f"There are no entries.{console.other_places(memory, parse_namespace(namespace), ['audit'])}"


@audit.command()
def todos(
    *,
    database: ExistingDatabase,
    namespace: Namespace = None,
    done: bool = flag("--done", "List those that are done. Default: those that are open."),
    complete: list[str] | None = option("This one is done; may be repeated.", "ID"),
    reopen: list[str] | None = option("This one is to be done after all; may be repeated.", "ID"),
    limit: LimitOption = None,
) -> CommandReport:
    """List what is to be done, or say what is."""
    with console.open_existing(database) as memory:
        trail = _open_trail(memory, namespace)
        for each in complete or ():
            trail.complete(each)
        for each in reopen or ():
            trail.reopen(each)
        found = trail.todos("done" if done else "open")
    empty = f"Nothing is {'done' if done else 'to be done'}."
    return console.list_report(found, _todo_lines, _entry_to_json, empty, limit)


@audit.command()
def verify(
    *,
    database: ExistingDatabase,
    since: str | None = option("A head that was kept: nothing up to it may differ.", "SEQ:LINK"),
) -> CommandReport:
    """Walk along the chain of the whole database.

    Its head is printed. The exit code is 1 where something is wrong.
    """
    with console.long_operation("Nothing was changed.", "walking"), console.open_existing(database) as memory:
        found = _open_trail(memory, None).verify(since)
    summary = f"{format_count(found.entries, 'entries')}, of which {found.erased:,} are erased.\nHead: {found.head}"
    value = {**json_value(found), "ok": found.ok, "head": str(found.head)}
    return console.check_report(found.problems, summary, value)


@audit.command("filter-junk")
def filter_junk(*, database: ExistingDatabase, namespace: Namespace = None) -> CommandReport:
    """Judge every entry anew by the rules for junk. Nothing is deleted."""
    message = "What was judged is judged: run it again to go on."
    with console.long_operation(message, "judging"), console.open_existing(database) as memory:
        changed = _open_trail(memory, namespace).filter_junk()
    return CommandReport({"changed": changed}, f"{format_count(changed, 'entries')} judged otherwise than before.")


@audit.command("import")
def import_document(*, database: ExistingDatabase, file: File, namespace: Namespace = None) -> CommandReport:
    """Add what an agent_memory.json holds, however damaged. The exit code is 1 where something could not be read.

    The database is made if it is not there.
    """
    message = "What was added is kept: run it again to go on."
    with console.long_operation(message, "adding"), console.open_or_create(database) as memory:
        imported = _open_trail(memory, namespace).import_document(file)
    lines: list[Line] = [
        *((each, "yellow") for each in imported.lost),
        *([] if imported.copy_path is None else [f"The damaged file is kept as {imported.copy_path}."]),
        f"{format_count(imported.added, 'entries')} added; {imported.known:,} were there already.",
    ]
    return CommandReport(imported, lines, bool(imported.lost))


@audit.command("export")
def export_document(*, database: ExistingDatabase, file: File, namespace: Namespace = None) -> CommandReport:
    """Write all entries as an agent_memory.json.

    Hidden ones are included. A file that is there is replaced.
    """
    with console.long_operation("Nothing was written.", "writing"), console.open_existing(database) as memory:
        count = _open_trail(memory, namespace).export_document(file)
    return CommandReport({"written": count}, f"{format_count(count, 'entries')} written.")


def _open_trail(memory: AgentMemory, namespace: str | None) -> AuditTrail:
    from langchain_agentmem.audit.audit_trail import AuditTrail  # noqa: PLC0415 - it loads LangChain

    return AuditTrail(memory, parse_namespace(namespace))


def _entry_lines(entry: AuditEntry) -> Iterator[Line]:
    where = format_namespace(entry.namespace, entry.conversation_id or "-")
    yield f"{entry.created_at:%Y-%m-%d %H:%M}  {where}  {entry.kind}  {entry.id}", "bold"
    yield f"   > {console.shorten(entry.prompt)}"
    yield f"   < {console.shorten(entry.reply)}"
    if entry.error is not None:
        yield f"   failed: {console.shorten(entry.error)}", "red"
    if entry.junk:
        yield f"   hidden: {', '.join(entry.junk)}", "dim"


def _full_entry_lines(entry: AuditEntry) -> Iterator[Line]:
    """An entry with its messages, where it has them."""
    yield from _entry_lines(entry)
    for message in entry.messages:
        yield from message_lines(display_message(message))


def _todo_lines(todo: AuditEntry) -> Iterator[Line]:
    yield f"{todo.id}  {todo.created_at:%Y-%m-%d}", "bold"
    yield f"   {console.shorten(todo.prompt)}"


def _entry_to_json(entry: AuditEntry) -> dict[str, Any]:
    """An entry as JSON has it. Of a model call it has prompt and reply, and not all its messages."""
    return {name: value for name, value in json_value(entry).items() if name != "messages"}


def _full_entry_to_json(entry: AuditEntry) -> dict[str, Any]:
    """An entry with its messages, as JSON has it."""
    return _entry_to_json(entry) | {"messages": [message_to_json(display_message(each)) for each in entry.messages]}
