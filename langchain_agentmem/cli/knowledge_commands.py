"""The commands `agentmem facts`, `experiences` and `audit`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.encoding import json_value
from langchain_agentmem.base.namespaces import format_namespace, parse_namespace
from langchain_agentmem.base.safe_repr import format_count
from langchain_agentmem.cli import console
from langchain_agentmem.cli.console import CommandReport, ExistingDatabase, LimitOption, Line, argument, flag, option
from langchain_agentmem.cli.thread_commands import format_message, message_to_json
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
    words: list[str] | None = argument("Only facts about this entity.", "ENTITY", default=None),
    namespace: console.NamespaceChoice = None,
    branch: str | None = option("A named branch of memory. Default: main.", "NAME"),
    thread: str | None = option("The memory of this thread, instead of a branch.", "ID"),
    at: str | None = option("Facts at this checkpoint of the thread. Default: newest.", "CHECKPOINT"),
    as_of: datetime | None = console.time_option("Facts that were valid at this time. Default: now."),
    known: datetime | None = console.time_option("Facts as recorded at this time. Default: now."),
    history: bool = flag("--history", "All facts about ENTITY, current and ended."),
    neighbours: bool = flag("--neighbours", "Entities connected with ENTITY, the nearest first."),
    depth: int | None = option("With --neighbours: most connecting facts. Default: 1.", "N", min=1, max=10),
    limit: LimitOption = None,
) -> CommandReport:
    """List current or past facts, or entities linked by facts.

    Without options, the command lists the current facts.

    A TIME has the form 2026-05-31 or 2026-05-31T18:30+02:00. The default time zone is UTC.

    JSON: a list of objects with id, role, subject, predicate, object, valid_from, valid_to, recorded_at, sources,
    confidence, ended_by; with --neighbours with name, distance, fact.
    """
    entity = " ".join(words) if words else None
    if entity is None and (history or neighbours):
        raise InvalidInput("--history and --neighbours need an ENTITY.")
    if history and (neighbours or as_of is not None):
        raise InvalidInput("--history cannot be combined with --neighbours or --as-of.")
    if at is not None and thread is None:
        raise InvalidInput("--at needs a thread. Pass --thread.")
    if branch is not None and thread is not None:
        raise InvalidInput("--branch cannot be combined with --thread. Omit one of them.")
    if depth is not None and not neighbours:
        raise InvalidInput("--depth needs --neighbours.")
    with console.open_existing(database) as memory:
        kg_memory = _open_kg(memory, namespace, console.MAIN if branch is None else branch, thread, at)
        if entity is not None and neighbours:
            items: Any = kg_memory.neighbours(entity, depth or 1, valid=as_of, recorded=known)
        elif entity is not None and history:
            items = kg_memory.history(entity, recorded=known)
        else:
            items = kg_memory.as_of(as_of, known) if entity is None else _find_facts(kg_memory, entity, as_of, known)
        hint = "" if items else console.format_hint(memory, kg_memory.namespace, ["fact"], threads=thread is None)
    if neighbours:
        return console.build_list_report(items, _format_neighbour, _neighbour_to_json, f"No facts found.{hint}", limit)
    return console.build_list_report(items, _format_fact, lambda fact: fact.to_dict(), f"No facts found.{hint}", limit)


def _open_kg(memory: AgentMemory, namespace: str | None, branch: str, thread: str | None, at: str | None) -> KGMemory:
    """Return the facts of a branch, or of a thread at a checkpoint."""
    if thread is None:
        return memory.facts(branch, console.find_branch_namespace(memory, namespace, branch))
    return memory.facts(console.load_checkpoint(memory, console.find_thread(memory, thread, namespace), at).config)


def _find_facts(kg_memory: KGMemory, entity: str, valid: datetime | None, recorded: datetime | None) -> list[Fact]:
    """Return the facts with an entity as subject or object, sorted by their `valid_from`."""
    as_subject = kg_memory.as_of(valid, recorded, subject=entity)
    as_object = kg_memory.as_of(valid, recorded, obj=entity)
    by_id: dict[str, Any] = {fact.id: fact for fact in (*as_subject, *as_object)}  # a fact may be in both lists
    return sorted(by_id.values(), key=lambda fact: fact.valid_from)


def _neighbour_to_json(neighbour: Neighbour) -> dict[str, Any]:
    return {"name": neighbour.name, "distance": neighbour.distance, "fact": neighbour.fact.to_dict()}


def _format_neighbour(neighbour: Neighbour) -> Iterator[Line]:
    yield f"{neighbour.name}  ({neighbour.distance} away)", "bold"
    yield from _format_fact(neighbour.fact)


def _format_fact(fact: Fact) -> Iterator[Line]:
    confidence = "" if fact.confidence is None else f"  {fact.confidence:.0%} sure"
    yield f"{console.shorten(fact.text)}  {fact.period}{confidence}  {fact.id}"
    if fact.sources:
        yield f"   from {fact.role}: {', '.join(fact.sources)}", "dim"


experiences = console.command_group("experiences", "Handcrafted experiences: conditional instructions.")


@experiences.command()
def check(
    *,
    folder: str = argument("Folder with files *.yaml or *.yml.", "FOLDER"),
    subfolders: bool = flag("--subfolders", "Include files in subfolders."),
) -> CommandReport:
    """Check the files of a folder. List its experiences and problems.

    The exit code is 1 if a file was not loaded.
    """
    with AgentMemory(":memory:") as memory:
        validation = memory.experiences(folder, subfolders=subfolders).validate()
    skipped = sum(not problem.is_loaded for problem in validation.problems)
    lines: list[Line] = []
    for each in validation.experiences:
        lines.append((f"{each.exp_id}  ({', '.join(each.who) or 'all roles'})", "bold"))
        lines.append(f"   {console.shorten(each.when)}")
    lines += [(str(problem), "yellow" if problem.is_loaded else "red") for problem in validation.problems]
    rows = [each.to_dict() for each in validation.experiences]
    lines.append(f"{format_count(len(rows), 'experiences')}; {format_count(skipped, 'files')} not loaded.")
    value = {"ok": validation.ok, "experiences": rows, "problems": validation.problems}
    return CommandReport(value, lines, not validation.ok)


# -- the audit trail ---------------------------------------------------------------------------------------------------

audit = console.command_group("audit", "The audit trail: prompts and replies.")

Namespace = Annotated[str | None, typer.Option("--namespace", metavar="A/B", help="The namespace. Default: the root.")]
Conversation = Annotated[str | None, typer.Option(metavar="ID", help="Only this conversation. Default: all.")]
File = Annotated[str, typer.Argument(help="File, such as agent_memory.json.")]


@audit.command()
def report(*, database: ExistingDatabase, namespace: Namespace = None) -> CommandReport:
    """Report the state of the audit trail of a namespace and below."""
    with console.open_existing(database) as memory:
        trail = _open_trail(memory, namespace)
        health, is_empty = trail.report(), parse_namespace(namespace) and not trail.last(1, include_junk=True)
        hint = f"\n{_describe_no_entries(memory, namespace)}" if is_empty else ""
    return CommandReport(health, f"{health}{hint}")


@audit.command("list")
def list_entries(
    *,
    database: ExistingDatabase,
    namespace: Namespace = None,
    conversation: Conversation = None,
    include_junk: bool = flag("--include-junk", "Include hidden entries, with the reasons."),
    messages: bool = flag("--messages", "Print all messages of each model call."),
    limit: int = option("Print only the last N entries.", "N", default=10, min=1),
) -> CommandReport:
    """List the last entries, the newest last."""
    with console.open_existing(database) as memory:
        entries = _open_trail(memory, namespace).last(limit, conversation, include_junk=include_junk, messages=messages)
        empty_text = "" if entries else _describe_no_entries(memory, namespace)
    to_json = partial(_entry_to_json, messages=messages)
    return console.build_list_report(entries, _format_entry, to_json, empty_text, limit)


def _describe_no_entries(memory: AgentMemory, namespace: str | None) -> str:
    return f"There are no entries.{console.format_hint(memory, parse_namespace(namespace), ['audit'])}"


@audit.command()
def todos(
    *,
    database: ExistingDatabase,
    namespace: Namespace = None,
    done: bool = flag("--done", "List completed todos. Default: open todos."),
    complete: list[str] | None = option("Mark this todo as done. Repeatable.", "ID"),
    reopen: list[str] | None = option("Mark this todo as open again. Repeatable.", "ID"),
    limit: LimitOption = None,
) -> CommandReport:
    """List todos, or change their state."""
    with console.open_existing(database) as memory:
        trail = _open_trail(memory, namespace)
        for todo_id in complete or ():
            trail.complete(todo_id)
        for todo_id in reopen or ():
            trail.reopen(todo_id)
        todo_list = trail.todos("done" if done else "open")
    empty_text = f"No {'completed' if done else 'open'} todos."
    return console.build_list_report(todo_list, _format_todo, _entry_to_json, empty_text, limit)


@audit.command()
def verify(
    *,
    database: ExistingDatabase,
    since: str | None = option("An earlier head: check that the chain still contains it.", "SEQ:LINK"),
) -> CommandReport:
    """Verify the hash chain of the whole database.

    The command prints the head of the chain. The exit code is 1 if there are problems.
    """
    with console.long_operation("Nothing was changed.", "verifying"), console.open_existing(database) as memory:
        chain = _open_trail(memory, None).verify(since)
    summary = f"{format_count(chain.entries, 'entries')}, of which {chain.erased:,} erased.\nHead: {chain.head}"
    value = {**json_value(chain), "ok": chain.ok, "head": str(chain.head)}
    return console.build_check_report(chain.problems, summary, value)


@audit.command("filter-junk")
def filter_junk(*, database: ExistingDatabase, namespace: Namespace = None) -> CommandReport:
    """Apply the junk rules to every entry again.

    Entries are hidden or shown, not deleted.
    """
    message = "Changes so far are kept. To continue, run the command again."
    with console.long_operation(message, "filtering"), console.open_existing(database) as memory:
        changed = _open_trail(memory, namespace).filter_junk()
    return CommandReport({"changed": changed}, f"{format_count(changed, 'entries')} changed.")


@audit.command("import")
def import_document(*, database: console.NewDatabase, file: File, namespace: Namespace = None) -> CommandReport:
    """Import an agent_memory.json, even if it is damaged.

    A missing database is created. The exit code is 1 if part of the file cannot be read.
    """
    message = "Either all entries were imported, or none. Run the command again."
    with console.long_operation(message, "importing"), console.open_or_create(database) as memory:
        imported = _open_trail(memory, namespace).import_document(file)
    lines: list[Line] = [
        *((each, "yellow") for each in imported.lost),
        *([] if imported.copy_path is None else [f"The damaged file is kept as {imported.copy_path}."]),
        f"{format_count(imported.added, 'entries')} added; {imported.known:,} already existed.",
    ]
    return CommandReport(imported, lines, bool(imported.lost))


@audit.command("export")
def export_document(*, database: ExistingDatabase, file: File, namespace: Namespace = None) -> CommandReport:
    """Export all entries to an agent_memory.json.

    Hidden entries are included. An existing file is replaced.
    """
    with console.long_operation("Nothing was written.", "writing"), console.open_existing(database) as memory:
        count = _open_trail(memory, namespace).export_document(file)
    return CommandReport({"written": count}, f"{format_count(count, 'entries')} written.")


def _open_trail(memory: AgentMemory, namespace: str | None) -> AuditTrail:
    from langchain_agentmem.audit.audit_trail import AuditTrail  # noqa: PLC0415 - it loads LangChain

    return AuditTrail(memory, parse_namespace(namespace))


def _format_entry(entry: AuditEntry) -> Iterator[Line]:
    location = format_namespace(entry.namespace, entry.conversation_id or "-")
    yield f"{entry.created_at:%Y-%m-%d %H:%M}  {location}  {entry.kind}  {entry.id}", "bold"
    yield f"   > {console.shorten(entry.prompt)}"
    yield f"   < {console.shorten(entry.reply)}"
    if entry.error is not None:
        yield f"   failed: {console.shorten(entry.error)}", "red"
    if entry.junk:
        yield f"   hidden: {', '.join(entry.junk)}", "dim"
    for message in entry.messages:
        yield from format_message(display_message(message))


def _format_todo(todo: AuditEntry) -> Iterator[Line]:
    yield f"{todo.id}  {todo.created_at:%Y-%m-%d}", "bold"
    yield f"   {console.shorten(todo.prompt)}"


def _entry_to_json(entry: AuditEntry, *, messages: bool = False) -> dict[str, Any]:
    """Return an entry for JSON, by default without the messages of a model call."""
    fields = {name: value for name, value in json_value(entry).items() if name != "messages"}
    shown = {"messages": [message_to_json(display_message(each)) for each in entry.messages]}
    return fields | shown if messages else fields
