"""The commands for operators: statistics, checks, backups, copies, imports and erasure."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
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
from langchain_agentmem.cli.console import CommandReport, ExistingDatabase, argument, flag, long_operation, option
from langchain_agentmem.errors import InvalidInput, safe_repr
from langchain_agentmem.importers import SourceKind
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.storage import check_database_url, is_postgres
from langchain_agentmem.storage.engine import migrations
from langchain_agentmem.upkeep.admin import Admin
from langchain_agentmem.upkeep.integrity import EraseReport, diagnose

if TYPE_CHECKING:
    from langchain_agentmem.importers.import_runner import ImportSummary

File = Annotated[str, typer.Argument(metavar="FILE", help="Path of the file.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing data at the target.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report what would be done.")]


def backup(
    *, database: ExistingDatabase, file: File, force: bool = flag("--force", "Replace an existing file.")
) -> CommandReport:
    """Write a consistent copy while the database is in use.

    The copy is a SQLite database, even if the source is PostgreSQL. `restore` creates a database from it. For
    PostgreSQL, a key in the options or the environment encrypts the copy.
    """
    with long_operation("Nothing was written.", "copying") as watch, console.open_existing(database) as memory:
        # A copy of a SQLite database is encrypted with the key of that database.
        key = keys.key_from_env() if memory.database.engine.dialect == "postgres" else None
        path = memory.admin.backup(file, force=force, progress=watch, key=key)
    size = path.stat().st_size
    return CommandReport({"path": str(path), "bytes": size}, f"Wrote {path}: {format_count(size, 'bytes')}.")


def _describe_interrupted(target: str) -> str:
    """Describe a target after an interrupted copy."""
    if is_postgres(target):
        return "The target may already contain the rows, not verified. Repeat the command with --force."
    return "The target is unchanged."


def restore(
    *,
    database: str = argument("Path or postgresql:// URL of the target.", "DATABASE"),
    file: File,
    force: Force = False,
) -> CommandReport:
    """Create a database from a backup or an export.

    The data is verified before it replaces the target.
    """
    with long_operation(_describe_interrupted(database)) as watch:
        report = Admin.restore(file, database, force=force, progress=watch)
    target = mask_passwords(database)
    text = f"Restored {file} to {target}. Verified {_format_counts(report.checked)}."
    return CommandReport({"source": file, "target": target, "checked": report.checked, "ok": True}, text)


def export(
    *,
    database: ExistingDatabase,
    file: File,
    namespace: console.NamespaceFilter = None,
    encrypted: bool = flag("--encrypt", "Encrypt the file."),
    as_json: bool = flag("--json", "Write plain JSON, and print the report as JSON."),
) -> CommandReport:
    """Export a database or namespace to SQLite or JSON.

    With --json, the file is a plain list of the messages, items and memory, for data requests.

    `import` and `restore` read a SQLite file, on both engines. With --encrypt, the file is encrypted with the key from
    AGENTMEM_EXPORT_KEY (or _FILE, _COMMAND), else with the key of the database.
    """
    key = None
    if encrypted:
        key = keys.key_from_env(keys.EXPORT_KEY_VARIABLE) or _read_key(keys.KEY_VARIABLE, "The key of the export")
    with long_operation("Nothing was written.", "writing") as watch, console.open_existing(database) as memory:
        scoped = memory if namespace is None else memory.within(parse_namespace(namespace))
        counts = asdict(scoped.export(file, progress=watch, key=key, as_json=as_json))
        hint = "" if any(counts.values()) else console.format_hint(memory, parse_namespace(namespace), below=True)
    return CommandReport({"path": file, **counts}, f"Wrote {file}: {_format_counts(counts)}.{hint}")


def import_(*, database: console.NewDatabase, file: File) -> CommandReport:
    """Import an export, all of it or nothing.

    Existing data stays. The key of an encrypted export comes from AGENTMEM_EXPORT_KEY (or _FILE, _COMMAND). Its
    default is the key of the database.
    """
    if not Path(file).is_file():  # checked before a missing database is created
        raise InvalidInput(f"There is no export at {safe_repr(file)}.")
    with long_operation("Nothing was imported.", "reading") as watch, console.open_or_create(database) as memory:
        counts = asdict(memory.import_(file, progress=watch, key=keys.key_from_env(keys.EXPORT_KEY_VARIABLE)))
    return CommandReport({"path": file, **counts}, f"Imported {file}. Added: {_format_counts(counts)}.")


def _read_key(variable: str, prompt: str, *, twice: bool = True) -> keys.EncryptionKey:
    """Return a key from the environment, else from a prompt that hides the input.

    Args:
        variable: The environment variable.
        prompt: The text of the prompt.
        twice: True to ask for the key twice, because data under a mistyped key would be lost. Default: True.

    Raises:
        InvalidInput: The environment has no key, and standard input is no terminal.
    """
    if (key := keys.key_from_env(variable)) is not None:
        return key
    if not sys.stdin.isatty():
        raise InvalidInput(f"{prompt} is missing. Set {variable}, {variable}_FILE or {variable}_COMMAND.")
    return keys.EncryptionKey(typer.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True))


def key(
    *,
    path: str = argument("Path of a SQLite database.", "DATABASE"),
    action: Literal["encrypt", "change", "decrypt"] = argument("encrypt, change or decrypt.", "ACTION"),
) -> CommandReport:
    """Encrypt a SQLite database, change its key, or decrypt it.

    The key comes from --key-file, --key-command, AGENTMEM_KEY or a prompt. For "change", the new key comes from
    AGENTMEM_NEW_KEY, AGENTMEM_NEW_KEY_FILE, AGENTMEM_NEW_KEY_COMMAND or a prompt. Close the database in all programs
    first.

    JSON: an object with path and encrypted.
    """
    old_key = None if action == "encrypt" else _read_key(keys.KEY_VARIABLE, "The current key", twice=False)
    variable = keys.KEY_VARIABLE if old_key is None else keys.NEW_KEY_VARIABLE
    new_key = None if action == "decrypt" else _read_key(variable, "The new key")
    with long_operation("The database is complete, under the old or the new key.") as watch:
        Admin.rekey(path, key=old_key, new_key=new_key, progress=watch)
    text = f"{path} is {'no longer' if new_key is None else 'now'} encrypted."
    if old_key is None:
        text += " Remains of the old file are not encrypted: deleted disk blocks, backups, exports, snapshots."
    return CommandReport({"path": path, "encrypted": new_key is not None}, text)


def migrate(*, database: console.NewDatabase) -> CommandReport:
    """Create or upgrade the tables.

    Run it before programs open the database with migrate=False.
    """
    with long_operation("Nothing was changed.", "upgrading"), console.open_or_create(database) as memory:
        path, newest = memory.database.engine.path, migrations(memory.database.engine.dialect)[-1].name
    return CommandReport({"path": path, "newest": newest}, f"{path} is up to date ({newest}).")


def copy(
    *,
    database: ExistingDatabase,
    target: str = argument("Path or postgresql:// URL of an empty target.", "TARGET"),
    force: Force = False,
) -> CommandReport:
    """Copy the database to SQLite or PostgreSQL.

    The copy is a snapshot of one moment, and it is verified.
    """
    with long_operation(_describe_interrupted(target)) as watch, console.open_existing(database) as memory:
        report = memory.admin.copy(target, force=force, progress=watch)
    rows, tables = format_count(sum(report.rows.values()), "rows"), format_count(len(report.rows), "tables")
    lines = [
        f"Copied {rows} of {tables} to {report.target}.",
        f"The snapshot is from {report.taken_at:%Y-%m-%d %H:%M:%S} UTC. Later writes are not copied.",
        f"The copy is verified, and {format_count(report.documents, 'documents')} are searchable.",
    ]
    return CommandReport(report, "\n".join(lines))


def verify(*, database: ExistingDatabase) -> CommandReport:
    """Verify the whole database.

    The exit code is 1 if there are problems.
    """
    with long_operation("Nothing was changed.") as watch, console.open_existing(database) as memory:
        report = memory.admin.verify(progress=watch)
    checked = ", ".join(format_count(value, name) for name, value in report.checked.items())
    value = {"ok": report.ok, "problems": report.problems, "checked": report.checked}
    return console.build_check_report(report.problems, f"{checked}.", value)


def erase(
    *,
    database: ExistingDatabase,
    namespace: str | None = option("This namespace and all below it; / is everything.", "A/B"),
    thread: str | None = option("This thread, in --namespace or everywhere.", "ID"),
    conversation: str | None = option("This conversation, in --namespace or the root.", "ID"),
    yes: bool = flag("--yes", "Do not ask for confirmation."),
    dry_run: DryRun = False,
) -> CommandReport:
    """Delete a namespace, thread or conversation permanently.

    The storage is rewritten, so that no trace remains. The command asks for confirmation, and needs --yes if standard
    input is no terminal. Erasing nothing is no error, so an erasure can be repeated.

    JSON: an object with the arguments namespace, thread_id and conversation_id, the counts of deleted objects, dry_run,
    at.
    """
    if namespace is None and thread is None and conversation is None:
        raise InvalidInput("No target to erase. Pass --namespace, --thread or --conversation.")
    labels = None if namespace is None else parse_namespace(namespace)
    target: dict[str, Any] = {"namespace": labels, "thread_id": thread, "conversation_id": conversation}
    within = "" if labels is None else f" in {format_namespace(labels)}"
    message = "The erasure may be incomplete. Run the command again."
    with console.handle_interrupt(message), console.open_existing(database) as memory:
        with console.progress_bar("counting"):
            report = memory.erase(**target, dry_run=True)
            counts, other_items, hint = _format_counts(report.counts), _hint_other_items(report, namespace), ""
            if not any(report.counts.values()) and not other_items:
                hint = console.format_hint(memory, labels or (), below=conversation is None)
        if not dry_run and not yes and any(report.counts.values()):
            text = escape_unprintable(f"This permanently deletes{within}: {counts}.{other_items}")
            if not sys.stdin.isatty():
                raise InvalidInput(f"{text} Nothing was erased: to confirm without a terminal, pass --yes.")
            typer.echo(text, err=True)
            if not typer.confirm("Erase?", err=True):
                typer.echo("Nothing was erased.", err=True)
                raise typer.Exit(1)
        if not dry_run:
            # Even without rows to delete: an earlier, interrupted erasure may not have rewritten the storage.
            with console.progress_bar("erasing") as watch:
                report = memory.erase(**target, progress=watch)
    text = f"{'Would erase' if dry_run else 'Erased'}{within}: {_format_counts(report.counts)}."
    if not any(report.counts.values()):
        text = f"Nothing to erase{within}.{hint}"
    # The time documents the erasure.
    value = {**target, **json_value(report), "dry_run": dry_run, "at": datetime.now(UTC)}
    return CommandReport(value, escape_unprintable(text + other_items))


def _hint_other_items(report: EraseReport, namespace: str | None) -> str:
    """Return a hint about related items in other namespaces; "" if there are none."""
    if not report.other_namespaces:
        return ""
    names = [*map(format_namespace, report.other_namespaces)]
    command = shlex.join(["agentmem", "erase", "DATABASE", "--namespace", names[0]])
    return f" Items under {console.format_examples(names)} are outside of {namespace}. To erase them, run {command}."


def prune(
    *,
    database: ExistingDatabase,
    namespace: console.NamespaceFilter = None,
    keep_checkpoints: int | None = option("Keep the newest N checkpoints of each thread.", "N", min=1),
    keep_messages: int | None = option("Keep the newest N messages of each conversation.", "N", min=1),
    max_age: int | None = option("Keep messages of the last N days.", "N", min=1),
    archive_audit: str | None = option("Compress audit entries from before this time, such as 2026-05-31.", "TIME"),
    dry_run: DryRun = False,
) -> CommandReport:
    """Delete old checkpoints and messages, compress audit entries."""
    before = None if archive_audit is None else console.parse_time_option(archive_audit)
    if before is not None and before > datetime.now(UTC):
        raise InvalidInput(f"--archive-audit must be in the past, got {safe_repr(archive_audit)}.")
    retention = None
    if keep_messages is not None or max_age is not None:
        retention = Retention(keep_last=keep_messages, max_age=None if max_age is None else timedelta(days=max_age))
    if keep_checkpoints is None and retention is None and before is None:
        raise InvalidInput("Nothing to prune. Pass --keep-checkpoints, --keep-messages, --max-age or --archive-audit.")
    message = "Pruning is incomplete. To continue, run the command again."
    with long_operation(message) as watch, console.open_existing(database) as memory:
        report = memory.admin.prune(
            namespace=parse_namespace(namespace),
            keep_checkpoints=keep_checkpoints,
            retention=retention,
            archive_before=before,
            dry_run=dry_run,
            progress=watch,
        )
        is_empty = not report.threads and not report.conversations
        hint = console.format_hint(memory, parse_namespace(namespace), below=True) if is_empty else ""
    auxiliary = "would be " if dry_run else ""
    text = (
        f"{format_count(report.checkpoints, 'checkpoints')} of {format_count(report.threads, 'threads')} and "
        f"{format_count(report.messages, 'messages')} of {format_count(report.conversations, 'conversations')} "
        f"{auxiliary}removed, {format_count(report.archived, 'entries')} {auxiliary}compressed.{hint}"
    )
    return CommandReport(report, text)


def import_from(
    *,
    database: console.NewDatabase,
    kind: SourceKind = argument(f"Kind of the source: {', '.join(get_args(SourceKind))}.", "KIND", show_choices=False),
    source: str = argument("File, folder of files, or postgresql:// URL. It is only read.", "SOURCE"),
    namespace: str | None = option("Target, such as users/{user_id} for each thread's owner. Default: root.", "A/B"),
    only: list[str] | None = option("Import only this thread, session, user or agent. Repeatable.", "ID"),
    owners: Path | None = option("JSON object: the owner of each thread or session id.", "FILE"),
    allow: list[str] | None = option("Import objects of this class from a saver. Repeatable.", "MODULE.CLASS"),
    dry_run: DryRun = False,
) -> CommandReport:
    """Import the memory of another program.

    Conversations, threads, items, memories and facts are imported, as far as the source has them.

    Existing data stays, so the command can be repeated. It reports skipped entries with the reasons; the exit code is
    then 1.

    JSON: an object with kind, source, dry_run, added, known, added_to and left_by (numbers by kind of entry),
    left_out (objects with what, why, count, holds), left, places (objects with id, namespace).
    """
    from langchain_agentmem.importers.batches import parse_file  # noqa: PLC0415 - it loads every feature
    from langchain_agentmem.importers.import_runner import check_source  # noqa: PLC0415 - it loads every feature

    options: dict[str, Any] = {"namespace": parse_namespace(namespace), "only": only or (), "allow": allow or ()}
    # The check uses a temporary memory, because an invalid source must not create an empty database.
    with console.open_or_create(":memory:") as temporary:
        options["owners"] = None if owners is None else parse_file(owners, temporary.database.limits)
        check_source(temporary, kind, source, **options)
    is_new = dry_run and not is_postgres(check_database_url(database)) and not file_of(database).is_file()
    target = ":memory:" if is_new else database
    message = "Nothing was written." if dry_run else "Imported data is kept. To continue, run the command again."
    with long_operation(message, "reading") as watch, console.open_or_create(target) as memory:
        report = memory.import_from(kind, source, dry_run=dry_run, progress=watch, **options)
    return CommandReport(report, [*_format_import(report, dry_run=dry_run)], bool(report.left))


def _format_import(report: ImportSummary, *, dry_run: bool) -> Iterator[console.Line]:
    for skipped in report.left_out:
        size = f" ({format_count(skipped.count, skipped.holds)})" if skipped.count > 1 else ""
        yield f"Skipped: {skipped.what}{size}: {skipped.why}", "yellow"
    if unlisted := report.left - sum(each.count for each in report.left_out):
        yield f"… and {unlisted:,} more.", "dim"
    places = report.places if dry_run else ()
    for place in places[:MAX_PLACES]:
        yield f"{escape_unprintable(place.id)}: namespace {'/'.join(place.namespace) or '/'}", "dim"
    if len(places) > MAX_PLACES:
        yield f"… and {len(places) - MAX_PLACES:,} more: see --json.", "dim"
    added, existing = _format_amounts(report.added, report.added_to), _format_amounts(report.known, {})
    verb, left = "Would import" if dry_run else "Imported", _format_amounts(report.left_by, report.left_by)
    yield f"{verb}: {added or 'nothing'}. Already here: {existing or '0'}. Skipped: {left or '0'}."


MAX_PLACES = 10
"""The maximum number of threads and conversations that a dry run prints with their namespaces."""


def _format_amounts(counts: Mapping[str, int], container_counts: Mapping[str, int]) -> str:
    """Return counts with those of their containers, such as "12 checkpoints of 2 threads"."""
    from langchain_agentmem.importers.import_runner import CONTAINERS  # noqa: PLC0415 - it loads LangGraph

    amounts = []
    for name, count in counts.items():
        if count and name not in CONTAINERS.values():
            container = CONTAINERS.get(name, "")
            container_count = container_counts.get(container)
            suffix = "" if container_count is None else f" of {format_count(container_count, container)}"
            amounts.append(f"{format_count(count, name)}{suffix}")
    return ", ".join(amounts)


def _format_counts(counts: Mapping[str, int]) -> str:
    """Return a text with all counts that are not 0."""
    return ", ".join(format_count(value, name) for name, value in counts.items() if value) or "nothing"


_SIGNS = {"ok": ("ok  ", ""), "note": ("note", "yellow"), "problem": ("BAD ", "red")}
"""The prefix and the style of a finding of `doctor`, by its level."""


def doctor(
    *,
    database: str | None = argument("Path or postgresql:// URL. Default: none.", "DATABASE", default=None),
    quick: bool = flag("--quick", "Skip the verification, which reads the whole database."),
) -> CommandReport:
    """Diagnose problems, and print a remedy for each.

    The command checks versions, permissions, the schema, vectors and the content; on a server also the encoding and the
    connections. Without a database, it checks only the installation. The exit code is 1 if there is a problem.

    JSON: an object with ok and findings. A finding has name, level ("ok", "note" or "problem"), text, remedy.
    """
    with long_operation("Nothing was changed.", "checking") as watch:
        findings = list(diagnose(database, schema=console.schema_name(), deep=not quick, progress=watch))
    problems, notes = (sum(each.level == level for each in findings) for level in ("problem", "note"))
    lines: list[console.Line] = []
    for each in findings:
        sign, style = _SIGNS[each.level]
        lines.append((f"{sign}  {each.name:<12}  {each.text}", style))
        if each.remedy and each.level != "ok":
            lines.append(f"{'':<20}remedy: {each.remedy}")
    lines.append((f"{format_count(problems, 'problems')}, {format_count(notes, 'notes')}.", "bold"))
    return CommandReport({"ok": not problems, "findings": findings}, lines, bool(problems))


def namespaces(*, database: ExistingDatabase, namespace: console.NamespaceFilter = None) -> CommandReport:
    """List the sizes of the namespaces.

    The largest comes first. Each size excludes the namespaces below. The command reads much of the database.

    JSON: a list of objects with namespace, threads, messages, checkpoints, memories, items, audit, bytes.
    """
    with console.open_existing(database) as memory, console.progress_bar("counting"):
        summaries = sorted(memory.admin.namespaces(parse_namespace(namespace)), key=lambda summary: -summary.bytes)
        hint = "" if summaries else console.format_hint(memory, parse_namespace(namespace), below=True)
    columns = ("threads", "messages", "checkpoints", "memories", "items", "audit", "bytes")
    rows = [(format_namespace(each.namespace), *(f"{getattr(each, name):,}" for name in columns)) for each in summaries]
    table = console.TableRows(("namespace", *columns), rows, columns)
    return CommandReport(summaries, [table if summaries else f"Nothing is stored there.{hint}"])


BAR_WIDTH = 30
"""The length of the longest bar, in characters."""


def stats(*, database: ExistingDatabase) -> CommandReport:
    """Print counts of stored objects, and bytes by kind of data."""
    with console.open_existing(database) as memory, console.progress_bar("counting"):
        counts = memory.admin.stats()
    parts = sorted(counts["bytes_by_part"].items(), key=lambda part: -part[1])
    largest, total = max(parts[0][1], 1), max(sum(size for _, size in parts), 1)
    rows = [(name, f"{size:,}", f"{size / total:.0%}", "#" * round(BAR_WIDTH * size / largest)) for name, size in parts]
    lines: list[console.Line] = [
        *(f"{name:<15} {count:>15,}" for name, count in counts.items() if isinstance(count, int)),
        "",
        ("Bytes by part", "bold"),
        console.TableRows(("part", "bytes", "share", ""), rows, ("bytes", "share")),
    ]
    return CommandReport(counts, lines)
