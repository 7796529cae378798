"""The commands that look after a database: statistics, checks, backups, copies, imports, and what removes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from langchain_agentmem.base import encryption_key as keys
from langchain_agentmem.base.encoding import json_value
from langchain_agentmem.base.files import file_of
from langchain_agentmem.base.namespaces import format_namespace, parse_namespace
from langchain_agentmem.base.safe_repr import escape_unprintable, format_count, mask_passwords
from langchain_agentmem.cli import console
from langchain_agentmem.cli.console import (
    CommandReport,
    ExistingDatabase,
    Line,
    NamespaceFilter,
    NewDatabase,
    argument,
    flag,
    long_operation,
    option,
)
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.importers import SourceKind
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import is_postgres, name_of
from langchain_agentmem.storage.engine import migrations
from langchain_agentmem.upkeep.admin import Admin
from langchain_agentmem.upkeep.integrity import diagnose

if TYPE_CHECKING:
    from langchain_agentmem.importers.import_runner import ImportSummary

File = Annotated[str, typer.Argument(metavar="FILE", help="The file.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is stored there.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell only what would be done.")]


def backup(
    *, database: ExistingDatabase, file: File, force: bool = flag("--force", "Replace the file if it is there.")
) -> CommandReport:
    """Write a consistent copy while others go on.

    It is a SQLite database, of PostgreSQL too; `restore` makes a database of it. A key that is given encrypts it.
    """
    with long_operation("Nothing was written.", "copying") as watch, console.open_existing(database) as memory:
        # On SQLite the key is that of the database.
        key = keys.key_from_env() if memory.database.engine.dialect == "postgres" else None
        path = memory.admin.backup(file, force=force, progress=watch, key=key)
    size = path.stat().st_size
    return CommandReport({"path": str(path), "bytes": size}, f"{path} was written: {format_count(size, 'bytes')}.")


def restore(
    *,
    database: str = argument("Where to: a path or a postgresql:// URL.", "DATABASE"),
    file: File,
    force: Force = False,
) -> CommandReport:
    """Make a database of a backup or an export. It is verified before it takes its place."""
    with long_operation("The target is as it was.") as watch:
        report = Admin.restore(file, database, force=force, progress=watch)
    target = mask_passwords(database)
    text = f"{file} was restored to {target}, and is whole: {_format_counts(report.checked)}."
    return CommandReport({"source": file, "target": target, "checked": report.checked, "ok": True}, text)


def export(
    *,
    database: ExistingDatabase,
    file: File,
    namespace: NamespaceFilter = None,
    encrypted: bool = flag("--encrypt", "Encrypt the file."),
    as_json: bool = flag("--json", "Write plain JSON, and print JSON."),
) -> CommandReport:
    """Write everything to a SQLite file, or as plain JSON.

    With --json, the file has what was said and learned, and can be read by anybody.

    With a namespace, all that is one person's. `import` and `restore` read a SQLite file, on both engines. With
    --encrypt only a key shows it: that of AGENTMEM_EXPORT_KEY (or _FILE, _COMMAND), else that of the database.
    """
    key = None
    if encrypted:
        key = keys.key_from_env(keys.EXPORT_KEY_VARIABLE) or _read_key(keys.KEY_VARIABLE, "The key of the export")
    with long_operation("Nothing was written.", "writing") as watch, console.open_existing(database) as memory:
        scoped = memory if namespace is None else memory.within(parse_namespace(namespace))
        counts = asdict(scoped.export(file, progress=watch, key=key, as_json=as_json))
        others = "" if any(counts.values()) else console.other_places(memory, parse_namespace(namespace), below=True)
    return CommandReport({"path": file, **counts}, f"{file} was written: {_format_counts(counts)}.{others}")


def import_(*, database: NewDatabase, file: File) -> CommandReport:
    """Add what an export holds, all of it or nothing.

    What is in the database stays. An encrypted export is read with AGENTMEM_EXPORT_KEY (or _FILE, _COMMAND), else with
    the key of the database.
    """
    if not Path(file).is_file():  # a mistyped path makes no database
        raise InvalidInput(f"There is no export at {safe_repr(file)}.")
    with long_operation("Nothing was imported.", "reading") as watch, console.open_or_create(database) as memory:
        counts = asdict(memory.import_(file, progress=watch, key=keys.key_from_env(keys.EXPORT_KEY_VARIABLE)))
    return CommandReport({"path": file, **counts}, f"{file} was imported. New: {_format_counts(counts)}.")


def _read_key(variable: str, prompt: str, *, twice: bool = True) -> keys.EncryptionKey:
    """A key of the environment, else one that is typed in without being seen.

    Args:
        variable: The environment variable.
        prompt: What is asked for at a terminal.
        twice: Whether it is typed in twice, as what is mistyped would be lost.

    Raises:
        InvalidInput: There is none, and no terminal to ask at.
    """
    if (key := keys.key_from_env(variable)) is not None:
        return key
    if not sys.stdin.isatty():
        raise InvalidInput(f"{prompt}? Give it in {variable}, {variable}_FILE or {variable}_COMMAND.")
    return keys.EncryptionKey(typer.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True))


def key(
    *,
    path: str = argument("The file of a SQLite database.", "DATABASE"),
    action: Literal["encrypt", "change", "decrypt"] = argument("encrypt, change or decrypt.", "ACTION"),
) -> CommandReport:
    """Encrypt a SQLite database, change its key, or decrypt it.

    The key comes from --key-file, --key-command or AGENTMEM_KEY, or is asked for. For change, the new key comes from
    AGENTMEM_NEW_KEY, AGENTMEM_NEW_KEY_FILE or AGENTMEM_NEW_KEY_COMMAND, or is asked for. No program may have the
    database open.

    JSON: an object with path and encrypted.
    """
    old = None if action == "encrypt" else _read_key(keys.KEY_VARIABLE, "Its key", twice=False)
    new = (
        None
        if action == "decrypt"
        else _read_key(keys.KEY_VARIABLE if old is None else keys.NEW_KEY_VARIABLE, "Its new key")
    )
    with long_operation("The database is whole, under the one key or the other.") as watch:
        Admin.rekey(path, key=old, new_key=new, progress=watch)
    text = f"{path} {'is not encrypted any more' if new is None else 'is encrypted'}."
    if old is None:
        text += " What is left of the old file is not: its place on the disk, backups, exports, snapshots."
    return CommandReport({"path": path, "encrypted": new is not None}, text)


def migrate(*, database: NewDatabase) -> CommandReport:
    """Make the tables, or bring them up to date.

    Programs that open the database with migrate=False need it.
    """
    with long_operation("Nothing was changed.", "bringing up to date"), console.open_or_create(database) as memory:
        path, newest = memory.database.engine.path, migrations(memory.database.engine.dialect)[-1].name
    return CommandReport({"path": path, "newest": newest}, f"{path} is up to date ({newest}).")


def copy(
    *,
    database: ExistingDatabase,
    target: str = argument("Where to: a path or a postgresql:// URL, where nothing is stored.", "TARGET"),
    force: Force = False,
) -> CommandReport:
    """Copy everything, to SQLite or PostgreSQL.

    The copy is as of one moment, and it is verified.
    """
    with long_operation("The target is as it was.") as watch, console.open_existing(database) as memory:
        report = memory.admin.copy(target, force=force, progress=watch)
    rows, tables = format_count(sum(report.rows.values()), "rows"), format_count(len(report.rows), "tables")
    lines = [
        f"{rows} of {tables} were copied to {report.target}.",
        f"It is as of {report.taken_at:%Y-%m-%d %H:%M:%S} UTC; what came later is not in it.",
        f"It is whole: {format_count(report.documents, 'documents')} can be found.",
    ]
    return CommandReport(report, "\n".join(lines))


def verify(*, database: ExistingDatabase) -> CommandReport:
    """Check the whole database. The exit code is 1 where something is wrong."""
    with long_operation("Nothing was changed.") as watch, console.open_existing(database) as memory:
        report = memory.admin.verify(progress=watch)
    checked = ", ".join(format_count(value, name) for name, value in report.checked.items())
    value = {"ok": report.ok, "problems": report.problems, "checked": report.checked}
    return console.check_report(report.problems, f"{checked}.", value)


def erase(
    *,
    database: ExistingDatabase,
    namespace: str | None = option("This namespace and all below it; '/' is everything.", "A/B"),
    thread: str | None = option("This thread, in every namespace or that one.", "ID"),
    conversation: str | None = option("This conversation, in the root namespace or that one.", "ID"),
    yes: bool = flag("--yes", "Do not ask."),
    dry_run: DryRun = False,
) -> CommandReport:
    """Delete a person, thread or conversation for ever.

    No trace of it is left in the storage. It asks first, and refuses where there is no terminal to ask at. That there
    is nothing to erase is no error, so that an erasure can be repeated.

    JSON: an object with namespace, thread_id and conversation_id as they were given, what was counted, dry_run, at.
    """
    if namespace is None and thread is None and conversation is None:
        raise InvalidInput("Say what to erase: --namespace, --thread or --conversation.")
    target: dict[str, Any] = {
        "namespace": None if namespace is None else parse_namespace(namespace),
        "thread_id": thread,
        "conversation_id": conversation,
    }
    where = f" in {format_namespace(target['namespace'])}" if target["namespace"] is not None else ""
    message = "Whatever was not erased yet is as it was; erase again."
    with console.handle_interrupt(message), console.open_existing(database) as memory:
        with console.progress_bar("counting"):
            report = memory.erase(**target, dry_run=True)
            found, more, others = _format_counts(report.counts), _other_items(report.other_namespaces, namespace), ""
            if not any(report.counts.values()) and not more:
                others = console.other_places(memory, target["namespace"] or (), below=conversation is None)
        if not dry_run and not yes and any(report.counts.values()):
            text = escape_unprintable(f"This deletes{where}, for ever: {found}.{more}")
            if not sys.stdin.isatty():
                raise InvalidInput(f"{text} There is no terminal to ask at, so nothing was erased: say --yes.")
            typer.echo(text, err=True)
            if not typer.confirm("Erase it?", err=True):
                typer.echo("Nothing was erased.", err=True)
                raise typer.Exit(1)
        if not dry_run:
            # Where nothing is left, an erasure that was interrupted may still have to rewrite the storage.
            with console.progress_bar("erasing") as watch:
                report = memory.erase(**target, progress=watch)
    verb, is_not = ("would be", "is") if dry_run else ("were", "was")
    text = f"{_format_counts(report.counts)} {verb} erased."
    if not any(report.counts.values()):
        text = f"There {is_not} nothing to erase{where}.{others}"
    # It can be kept as the proof of an erasure.
    value = {**target, **json_value(report), "dry_run": dry_run, "at": datetime.now(UTC)}
    return CommandReport(value, escape_unprintable(text + more))


def _other_items(places: Sequence[tuple[str, ...]], namespace: str | None) -> str:
    """That more of a person lies where the namespace does not lead, and how to erase that; "" where there is none."""
    if not places:
        return ""
    commands = shlex.join(["agentmem", "erase", "DATABASE", "--namespace", format_namespace(places[0])])
    under = console.format_places([*map(format_namespace, places)])
    return f" Items under {under} are not below {namespace}: erase them too, with {commands}."


def prune(
    *,
    database: ExistingDatabase,
    namespace: NamespaceFilter = None,
    keep_checkpoints: int | None = option("Keep the newest N checkpoints of each thread.", "N", min=1),
    keep_messages: int | None = option("Keep the newest N messages of each conversation.", "N", min=1),
    max_age: int | None = option("Keep messages that are younger than this.", "DAYS", min=1),
    archive_audit: str | None = option(
        "Compress entries of the audit trail made before then, such as 2026-05-31.", "TIME"
    ),
    dry_run: DryRun = False,
) -> CommandReport:
    """Remove what is old, or make it smaller.

    Old checkpoints and messages are removed, old entries of the audit trail are compressed.
    """
    before = None if archive_audit is None else console.parse_time_option(archive_audit)
    if before is not None and before > datetime.now(UTC):
        raise InvalidInput(f"{safe_repr(archive_audit)} has not come yet.")
    retention = None
    if keep_messages is not None or max_age is not None:
        retention = Retention(keep_last=keep_messages, max_age=None if max_age is None else timedelta(days=max_age))
    if keep_checkpoints is None and retention is None and before is None:
        raise InvalidInput("Say what to prune: --keep-checkpoints, --keep-messages, --max-age or --archive-audit.")
    with (
        long_operation("What was pruned is pruned; nothing is half.") as watch,
        console.open_existing(database) as memory,
    ):
        report = memory.admin.prune(
            namespace=parse_namespace(namespace),
            keep_checkpoints=keep_checkpoints,
            retention=retention,
            archive_before=before,
            dry_run=dry_run,
            progress=watch,
        )
        nothing = not report.threads and not report.conversations
        others = console.other_places(memory, parse_namespace(namespace), below=True) if nothing else ""
    would = "would be " if dry_run else ""
    return CommandReport(
        report,
        f"{format_count(report.checkpoints, 'checkpoints')} of {format_count(report.threads, 'threads')} and "
        f"{format_count(report.messages, 'messages')} of {format_count(report.conversations, 'conversations')} "
        f"{would}removed, {format_count(report.archived, 'entries')} {would}compressed.{others}",
    )


def import_from(
    *,
    database: NewDatabase,
    kind: SourceKind = argument(f"What it is of: {', '.join(get_args(SourceKind))}.", "KIND", show_choices=False),
    source: str = argument("A file, a folder of files, or a postgresql:// URL; only read.", "SOURCE"),
    namespace: str | None = option(
        "Below which everything goes; users/{user_id} gives each thread to its owner. Default: the root.", "A/B"
    ),
    only: list[str] | None = option("Bring only this thread, session, user or agent; may be repeated.", "ID"),
    owners: Path | None = option("Whose threads and sessions are, by their ids: a JSON object.", "FILE"),
    allow: list[str] | None = option("Of a saver, import objects of this class; may be repeated.", "MODULE.CLASS"),
    dry_run: DryRun = False,
) -> CommandReport:
    """Bring what another program remembers.

    Conversations, threads, items, memories, facts: whatever it has.

    What is here already stays, so it may be run again. What is left out is told, with the reason, and the exit code is
    1 then.

    JSON: an object with kind, source, dry_run, added, known, added_to and left_by (numbers by what they count),
    left_out (objects with what, why, count, holds), left, places (objects with id, namespace).
    """
    from langchain_agentmem.importers.batches import parse_file  # noqa: PLC0415 - so does it
    from langchain_agentmem.importers.import_runner import check_source  # noqa: PLC0415 - it loads every feature

    options: dict[str, Any] = {"namespace": parse_namespace(namespace), "only": only or (), "allow": allow or ()}
    with console.open_or_create(":memory:") as empty:  # a wrong source must not leave an empty database behind
        given_owners = None if owners is None else parse_file(owners, empty.database.limits)
        options["owners"] = given_owners
        check_source(empty, kind, source, **options)
    is_new = dry_run and not is_postgres(name_of(database)) and not file_of(database).is_file()
    message = "Nothing was written." if dry_run else "What was brought is kept: run it again to go on."
    with (
        long_operation(message, "reading") as watch,
        console.open_or_create(":memory:" if is_new else database) as memory,
    ):
        report = memory.import_from(kind, source, dry_run=dry_run, progress=watch, **options)
    return CommandReport(report, [*_import_lines(report, dry_run=dry_run)], bool(report.left))


def _import_lines(report: ImportSummary, *, dry_run: bool) -> Iterator[Line]:
    for each in report.left_out:
        size = f" ({format_count(each.count, each.holds)})" if each.count > 1 else ""
        yield f"Left out: {each.what}{size}: {each.why}", "yellow"
    if more := report.left - sum(each.count for each in report.left_out):
        yield f"… and {more:,} more.", "dim"
    places = report.places if dry_run else ()
    for place in places[:MAX_PLACES]:
        yield f"{escape_unprintable(place.id)} goes to {'/'.join(place.namespace) or 'the root'}.", "dim"
    if len(places) > MAX_PLACES:
        yield f"… and {len(places) - MAX_PLACES:,} more: --json tells all.", "dim"
    new, skipped = _format_amounts(report.added, report.added_to), _format_amounts(report.left_by, report.left_by)
    verb, known = "would come" if dry_run else "came", _format_amounts(report.known, {})
    yield f"{new or 'Nothing'} {verb}. Here already: {known or '0'}. Left out: {skipped or '0'}."


MAX_PLACES = 10
"""Threads and conversations that a dry run prints, with their namespaces."""


def _format_amounts(counts: Mapping[str, int], container_counts: Mapping[str, int]) -> str:
    """How much something is, by what it is: "12 checkpoints of 2 threads"."""
    from langchain_agentmem.importers.import_runner import CONTAINERS  # noqa: PLC0415 - it loads LangGraph

    amounts = []
    for name, count in counts.items():
        if count and name not in CONTAINERS.values():
            container = CONTAINERS.get(name, "")
            amounts.append(
                format_count(count, name)
                + (
                    f" of {format_count(container_counts[container], container)}"
                    if container in container_counts
                    else ""
                )
            )
    return ", ".join(amounts)


def _format_counts(counts: Mapping[str, int]) -> str:
    """What there is of what was counted."""
    return ", ".join(format_count(value, name) for name, value in counts.items() if value) or "nothing"


_SIGNS = {"ok": ("ok  ", ""), "note": ("note", "yellow"), "problem": ("BAD ", "red")}


def doctor(
    *,
    database: str | None = argument("A path or a postgresql:// URL. Default: none.", "DATABASE", default=None),
    quick: bool = flag("--quick", "Do not verify the content, which reads all of it."),
) -> CommandReport:
    """Find and explain trouble, with a remedy for each.

    It checks versions, rights, the schema, vectors and damage; of a server also the encoding and the connections.
    Without a database it checks only what is installed. The exit code is 1 if there is a problem.

    JSON: an object with ok and findings. A finding has name, level ("ok", "note" or "problem"), text, remedy.
    """
    with long_operation("Nothing was changed.", "looking") as watch:
        findings = list(diagnose(database, schema=console.schema_name(), deep=not quick, progress=watch))
    problems, notes = (sum(each.level == level for each in findings) for level in ("problem", "note"))
    lines: list[Line] = []
    for each in findings:
        sign, style = _SIGNS[each.level]
        lines.append((f"{sign}  {each.name:<12}  {each.text}", style))
        if each.remedy and each.level != "ok":
            lines.append(f"{'':<20}what to do: {each.remedy}")
    lines.append((f"{format_count(problems, 'problems')}, {format_count(notes, 'notes')}.", "bold"))
    return CommandReport({"ok": not problems, "findings": findings}, lines, bool(problems))


def namespaces(*, database: ExistingDatabase, namespace: NamespaceFilter = None) -> CommandReport:
    """Tell how much each namespace holds.

    What takes most comes first, each without those below it. It reads much of what they hold.

    JSON: a list of objects with namespace, threads, messages, checkpoints, memories, items, audit, bytes.
    """
    with console.open_existing(database) as memory, console.progress_bar("counting"):
        found = sorted(memory.admin.namespaces(parse_namespace(namespace)), key=lambda each: -each.bytes)
        others = "" if found else console.other_places(memory, parse_namespace(namespace), below=True)
    counts = ("threads", "messages", "checkpoints", "memories", "items", "audit", "bytes")
    rows = [(format_namespace(each.namespace), *(f"{getattr(each, name):,}" for name in counts)) for each in found]
    lines = (
        [console.TableRows(("namespace", *counts), rows, counts)] if found else [f"Nothing is stored there.{others}"]
    )
    return CommandReport(found, lines)


BAR_WIDTH = 30
"""Characters of the longest bar."""


def stats(*, database: ExistingDatabase) -> CommandReport:
    """Count what is stored, and the bytes of each part."""
    with console.open_existing(database) as memory, console.progress_bar("counting"):
        found = memory.admin.stats()
    parts = sorted(found["bytes_by_part"].items(), key=lambda part: -part[1])
    largest, total = max(parts[0][1], 1), max(sum(size for _, size in parts), 1)
    rows = [(name, f"{size:,}", f"{size / total:.0%}", "#" * round(BAR_WIDTH * size / largest)) for name, size in parts]
    lines: list[Line] = [
        *(f"{key:<15} {n:>15,}" for key, n in found.items() if isinstance(n, int)),
        "",
        ("Bytes by part", "bold"),
        console.TableRows(("part", "bytes", "share", ""), rows, ("bytes", "share")),
    ]
    return CommandReport(found, lines)
