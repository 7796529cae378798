"""The command `agentmem` with its subcommands; those with subcommands of their own are modules beside this one."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from langchain_agentmem import __version__
from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.cli.audit_commands import audit
from langchain_agentmem.cli.branch_commands import branches, diff
from langchain_agentmem.cli.console import EPILOG, AsJson, Existing, count, existing, print_json
from langchain_agentmem.cli.database_commands import backup, copy, erase, export, import_, prune, restore, verify
from langchain_agentmem.cli.doctor_command import doctor
from langchain_agentmem.cli.experience_commands import experiences
from langchain_agentmem.cli.fact_commands import facts
from langchain_agentmem.cli.screen import JsonScreen, Screen
from langchain_agentmem.cli.search_command import search
from langchain_agentmem.cli.stats_command import print_stats
from langchain_agentmem.cli.thread_commands import show, threads

if TYPE_CHECKING:
    from langchain_agentmem.checkpoints.saver_import import ImportReport

app = typer.Typer(
    name="agentmem",
    help="One database for everything an agent remembers.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help, also where it is piped
)
SLOWEST = 10
"""Operations that `stats` prints."""

DEMO = """Watch an agent that remembers.

It is one of LangGraph, and remembers across conversations and processes.

With --transcript it lives through recorded conversations, session by session, and then answers
questions about them from memory. A transcript is JSON, one object like this or a list of them:

\b
  {"name": "orchard",
   "sessions": [{"id": "session_1", "time": "2024-03-02T18:30",
                 "turns": [{"id": "1.1", "speaker": "Maya", "text": "I planted two quince trees.",
                            "image": "two saplings beside a wall"}]}],
   "questions": [{"question": "How many quince trees are there?", "answer": "two",
                  "evidence": ["1.1"], "category": "one session"}]}

"image", "answer", "evidence", "category" and "questions" may be left out. The file of the LoCoMo
benchmark is accepted as it is.

JSON: one object a line. Of each exchange type ("exchange"), speaker, said, answer, recalled (as `search` has it),
process and conversation; with --transcript, in place of speaker, process and conversation: transcript, category,
expected, evidence, ms. At last type ("summary"), messages, conversations; with --transcript also questions,
with_evidence, k, recall_at_k, by_category, ms_per_question, bytes, seconds.
"""


@app.callback(invoke_without_command=True)
def options(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)] = False,
) -> None:
    """One database for everything an agent remembers."""
    if version:
        typer.echo(f"agentmem {__version__}")
        raise typer.Exit


def demo(
    *,
    transcript: Annotated[
        str | None, typer.Option(metavar="FILE", help="Live through this transcript instead; 'sample' is shipped.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="PROVIDER:NAME", help="A real model. Default: a deterministic one that needs no key."),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Keep the database here: a path or a postgresql:// URL. Default: a temporary one."
        ),
    ] = None,
    questions: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Ask at most so many of a transcript's questions.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Recall at most so much for each question.")
    ] = 10,
    process: Annotated[int, typer.Option(hidden=True)] = 1,
    as_json: AsJson = False,
) -> None:
    """Watch an agent that remembers."""
    # Imported here: the other commands need no LangGraph, and start in half the time without.
    from langchain_agentmem.cli.demo_story import SECOND_PROCESS, second_process, tell_story  # noqa: PLC0415
    from langchain_agentmem.demo.exam import sit_exam  # noqa: PLC0415

    screen = JsonScreen() if as_json else Screen()
    if process == SECOND_PROCESS and database is not None:
        second_process(screen, database=database, model=model, limit=limit)
        return
    # What is temporary is deleted even where a model fails or somebody presses Ctrl-C.
    temporary = tempfile.TemporaryDirectory(prefix="agentmem-") if database is None else nullcontext(".")
    with temporary as folder:
        place = str(Path(folder) / "demo.db") if database is None else database
        if transcript is None:
            code = tell_story(screen, database=place, model=model, limit=limit)
        else:
            sit_exam(screen, transcript=transcript, database=place, model=model, questions=questions, limit=limit)
            code = 0
        gone = database in {None, ":memory:"}
        screen.line("The database was temporary and is deleted." if gone else "The database is kept.")
    raise typer.Exit(code)


def stats(
    *,
    database: Existing,
    slowest: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="How many of the slowest operations. Default: 10, and in JSON all."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count what is stored, and tell what was measured.

    Measured are sizes, tokens kept out of prompts, caches, and the slowest operations.
    """
    with existing(database) as memory:
        counted = memory.stats()
    if as_json:
        print_json({**counted, "operations": counted["operations"][:slowest]})
    else:
        print_stats(Screen(), counted, slowest=SLOWEST if slowest is None else slowest)


def import_checkpoints(
    *,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The file of a SqliteSaver, or the URL of a PostgresSaver.")
    ],
    database: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="Where to: a path or a postgresql:// URL; made if it is not there."),
    ],
    thread: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this thread; may be repeated.")] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE.CLASS", help="Import objects of this class; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy every LangGraph thread of another saver.

    Threads come with their whole history. Run again, it goes on where it was.
    """
    from langchain_agentmem.checkpoints.saver_import import open_source  # noqa: PLC0415 - it loads LangGraph

    try:
        with open_source(source, allow=allow or ()) as saver, AgentMemory(database) as memory, _counting() as progress:
            report = memory.checkpointer.import_checkpoints(saver, thread_ids=thread, progress=progress)
    except KeyboardInterrupt:
        typer.echo("Interrupted. What was copied is kept: run it again to go on.", err=True)
        raise typer.Exit(130) from None
    if as_json:
        print_json(dataclasses.asdict(report))
        return
    Screen().line(
        f"{count(report.checkpoints, 'checkpoint')} of {count(report.threads, 'thread')} were copied; "
        f"{report.known:,} were there already."
    )


class _Speed(ProgressColumn):
    """How many a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")


@contextmanager
def _counting() -> Iterator[Callable[[ImportReport], None] | None]:
    """A progress bar where somebody is watching, and nothing elsewhere. How many there will be is not known."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (BarColumn(), TextColumn("{task.completed:,.0f} checkpoints"), _Speed(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=None)
        yield lambda report: progress.update(task, completed=report.checkpoints + report.known)


app.command(help=DEMO)(demo)
for looking in (threads, show, search, branches, diff, facts):
    app.command()(looking)
app.add_typer(audit)
app.add_typer(experiences)
for caring in (stats, verify, doctor, backup, restore, export):
    app.command()(caring)
app.command("import")(import_)
for moving in (copy, erase, prune):
    app.command()(moving)
app.command("import-checkpoints")(import_checkpoints)
