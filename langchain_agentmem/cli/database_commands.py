"""The commands that write, move and remove: backup, restore, export, import, copy, verify, erase and prune."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.cli.console import (
    AsJson,
    Existing,
    Within,
    count,
    counted,
    existing,
    named,
    namespace_named,
    print_json,
    time_named,
)
from langchain_agentmem.cli.screen import Screen, printable
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.role_rounds import Retention
from langchain_agentmem.upkeep.database_copy import CopyProgress

INTERRUPTED = 130

File = Annotated[str, typer.Argument(metavar="FILE", help="The file.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is stored there.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell only what would be done.")]


def backup(*, file: File, database: Existing, as_json: AsJson = False) -> None:
    """Write a consistent copy while others go on.

    Of SQLite it is a database, of PostgreSQL an export. `restore` makes a database of either.
    """
    with _interruptible("Nothing was written."), existing(database) as memory, _busy("Copying"):
        path = memory.backup(file)
    size = path.stat().st_size
    _tell(f"{path} was written: {count(size, 'byte')}.", {"path": str(path), "bytes": size}, as_json=as_json)


def restore(
    *,
    file: File,
    database: Annotated[str, typer.Argument(metavar="TARGET", help="Where to: a path or a postgresql:// URL.")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a database of a backup or an export. It is verified before it takes its place."""
    with _interruptible("The target is as it was."), _bar() as bar:
        report = AgentMemory.restore(file, database, force=force, progress=bar.copied, checking=bar.checking)
    _tell(
        f"The {report.kind} {report.source} was restored to {report.target}, and is whole: {_counts(report.checked)}.",
        {**dataclasses.asdict(report), "ok": True},
        as_json=as_json,
    )


def export(*, file: File, database: Existing, as_json: AsJson = False) -> None:
    """Write everything to a file of JSON lines.

    `import` and `restore` read it, on SQLite and PostgreSQL.
    """
    with _interruptible("Nothing was written."), existing(database) as memory, _busy("Writing"):
        report = memory.export(file)
    told = dataclasses.asdict(report)
    _tell(f"{file} was written: {_counts(told)}.", {"path": file, **told}, as_json=as_json)


def import_(
    *,
    file: File,
    database: Annotated[
        str,
        typer.Option(
            "--database",
            metavar="PATH",
            envvar="AGENTMEM_DATABASE",
            help="The database: a path or a postgresql:// URL; made if it is not there.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Add what an export holds, all of it or nothing.

    What is in the database stays.
    """
    if not Path(file).is_file():  # a mistyped path makes no database
        raise InvalidInput(f"There is no export at {safe_repr(file)}.")
    with _interruptible("Nothing was imported."), AgentMemory(database) as memory, _busy("Reading"):
        report = memory.import_(file)
    told = dataclasses.asdict(report)
    _tell(f"{file} was imported. New are {_counts(told)}.", {"path": file, **told}, as_json=as_json)


def copy(
    *,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The database: a path or a postgresql:// URL.")],
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="Where to: a path or a postgresql:// URL, where nothing is stored."),
    ],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Copy everything, to SQLite or PostgreSQL.

    The copy is as of one moment, and every row is read again and compared before it takes its place. Interrupted, it
    goes on where it was when it is run again; run again when it is complete, it says so.
    """
    kept = "What was copied is kept beside the target: run it again to go on."
    with _interruptible(kept), existing(source) as memory, _bar() as bar:
        report = memory.copy(target, force=force, progress=bar.copied)
    rows = sum(report.rows.values())
    moment = f"{report.taken_at:%Y-%m-%d %H:%M:%S} UTC"
    done = "are in" if report.was_complete else "were copied to"
    lines = [
        f"{count(rows, 'row')} of {count(len(report.rows), 'table')} {done} {report.target}.",
        "The copy is complete already: nothing was written."
        if report.was_complete
        else f"It is as of {moment}; what came later is not in it.",
        f"Both sides are equal: digest {report.digest}. {count(report.documents, 'document')} can be found.",
    ]
    if report.known and not report.was_complete:
        lines.insert(1, f"{count(report.known, 'row')} had been copied before.")
    told = {**dataclasses.asdict(report), "taken_at": report.taken_at.isoformat(), "rows": dict(report.rows)}
    _tell("\n".join(lines), told, as_json=as_json)


def verify(*, database: Existing, as_json: AsJson = False) -> None:
    """Check the whole database. The exit code is 1 where something is wrong."""
    with _interruptible("Nothing was changed."), existing(database) as memory, _bar() as bar:
        report = memory.verify(progress=bar.checking)
    if as_json:
        print_json({"ok": report.ok, "problems": list(report.problems), "checked": dict(report.checked)})
    else:
        screen = Screen()
        for problem in report.problems:
            screen.line(problem, "red")
        checked = ", ".join(counted(value, name) for name, value in report.checked.items())
        screen.line(f"{'All is well' if report.ok else count(len(report.problems), 'problem')}: checked {checked}.")
    if not report.ok:
        raise typer.Exit(1)


def erase(
    *,
    database: Existing,
    namespace: Annotated[
        str | None, typer.Option(metavar="A/B", help="This namespace and all below it; '/' is everything.")
    ] = None,
    thread: Annotated[
        str | None, typer.Option(metavar="ID", help="This thread, in every namespace or that one.")
    ] = None,
    conversation: Annotated[
        str | None, typer.Option(metavar="ID", help="This conversation, in the root namespace or that one.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Delete a person, thread or conversation for ever.

    No trace of it is left in the storage. It asks first, and refuses where there is no terminal to ask at.
    """
    if namespace is None and thread is None and conversation is None:
        raise InvalidInput("Say what to erase: --namespace, --thread or --conversation.")
    given: dict[str, Any] = {
        "namespace": None if namespace is None else namespace_named(namespace),
        "thread_id": thread,
        "conversation_id": conversation,
    }
    with _interruptible("Whatever was not erased yet is as it was; erase again."), existing(database) as memory:
        with _busy("Counting"):
            found = dataclasses.asdict(memory.erase(**given, dry_run=True))
        if dry_run:
            _tell(f"{_counts(found)} would be erased.", {**found, "dry_run": True}, as_json=as_json)
            return
        if not yes and any(found.values()):
            where = f" in {named(given['namespace'])}" if given["namespace"] is not None else ""
            told = printable(f"This deletes{where}, for ever: {_counts(found)}.")
            if not sys.stdin.isatty():
                raise InvalidInput(f"{told} There is no terminal to ask at, so nothing was erased: say --yes.")
            typer.echo(told, err=True)
            if not typer.confirm("Erase it?", err=True):
                typer.echo("Nothing was erased.", err=True)
                raise typer.Exit(1)
        # Where nothing is left, an erasure that was interrupted may still have to rewrite the storage.
        with _busy("Erasing"):
            erased = dataclasses.asdict(memory.erase(**given))
    _tell(f"{_counts(erased)} were erased.", {**erased, "dry_run": False}, as_json=as_json)


def prune(
    *,
    database: Existing,
    namespace: Within = "",
    keep_checkpoints: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep the newest N checkpoints of each thread.")
    ] = None,
    keep_messages: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep the newest N messages of each conversation.")
    ] = None,
    max_age: Annotated[
        int | None, typer.Option(min=1, metavar="DAYS", help="Keep messages that are younger than this.")
    ] = None,
    archive_audit: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Compress entries of the audit trail made before then, such as 2026-05-31."),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Remove what is old, or make it smaller.

    Old checkpoints and messages are removed, old entries of the audit trail are compressed.
    """
    before = None if archive_audit is None else time_named(archive_audit)
    if before is not None and before > datetime.now(UTC):
        raise InvalidInput(f"{safe_repr(archive_audit)} has not come yet.")
    retention = None
    if keep_messages is not None or max_age is not None:
        retention = Retention(keep_last=keep_messages, max_age=None if max_age is None else timedelta(days=max_age))
    if keep_checkpoints is None and retention is None and before is None:
        raise InvalidInput("Say what to prune: --keep-checkpoints, --keep-messages, --max-age or --archive-audit.")
    with _interruptible("What was pruned is pruned; nothing is half."), existing(database) as memory, _bar() as bar:
        report = memory.prune(
            namespace=namespace_named(namespace),
            keep_checkpoints=keep_checkpoints,
            retention=retention,
            archive_before=before,
            dry_run=dry_run,
            progress=bar.pruned,
        )
    would = "would be " if dry_run else ""
    _tell(
        f"{count(report.checkpoints, 'checkpoint')} of {count(report.threads, 'thread')} and "
        f"{count(report.messages, 'message')} of {count(report.conversations, 'conversation')} {would}removed, "
        f"{count(report.archived, 'entry', 'entries')} {would}compressed by {count(report.saved_bytes, 'byte')}.",
        dataclasses.asdict(report),
        as_json=as_json,
    )


class _Bar:
    """Shows how far something has come; nothing where nobody watches."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._task = None if progress is None else progress.add_task("", total=None)

    def copied(self, at: CopyProgress) -> None:
        """How far a copy has come."""
        self._show(at.doing, at.done, at.total)

    def checking(self, what: str) -> None:
        """What is looked at."""
        self._show(f"checking {what}", 0, None)

    def pruned(self, done: int, total: int) -> None:
        """How far a pruning has come."""
        self._show("pruning", done, total)

    def _show(self, doing: str, done: int, total: int | None) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=doing, completed=done, total=total)


@contextmanager
def _bar() -> Iterator[_Bar]:
    """A progress bar on standard error, if that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Bar(None)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bar(progress)


@contextmanager
def _busy(what: str) -> Iterator[None]:
    """A sign of life on standard error, if that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(what, total=None)
        yield


@contextmanager
def _interruptible(left: str) -> Iterator[None]:
    """Say what an interruption leaves."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"Interrupted. {left}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _counts(told: Mapping[str, int]) -> str:
    """What there is of what was counted."""
    return ", ".join(counted(value, name) for name, value in told.items() if value) or "nothing"


def _tell(text: str, value: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(dict(value))
        return
    screen: Callable[[str], None] = Screen().line
    for line in text.splitlines():
        screen(line)
