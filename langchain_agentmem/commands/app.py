"""The command `agentmem` with its subcommands; those with subcommands of their own are modules beside this one."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from langchain_agentmem import __version__
from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.commands.audit import audit
from langchain_agentmem.commands.console import AsJson, Existing, existing, namespace_named, print_json
from langchain_agentmem.commands.experiences import experiences
from langchain_agentmem.demo.screen import Screen, shortened
from langchain_agentmem.retrieval.search import Recollection

if TYPE_CHECKING:
    from langchain_agentmem.stores.importing import ImportReport

app = typer.Typer(
    name="agentmem",
    help="One database for everything an agent remembers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help, also where it is piped
)
app.add_typer(audit)
app.add_typer(experiences)

DEMO = """Watch a LangGraph agent that remembers across conversations and processes.

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


@app.command(help=DEMO)
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
) -> None:
    """Watch a LangGraph agent that remembers across conversations and processes."""
    # Imported here: the other commands need no LangGraph, and start in half the time without.
    from langchain_agentmem.demo.exam import sit_exam  # noqa: PLC0415
    from langchain_agentmem.demo.story import SECOND_PROCESS, second_process, tell_story  # noqa: PLC0415

    screen = Screen()
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


@app.command()
def search(
    *,
    query: Annotated[str, typer.Argument(help="Any text.")],
    database: Existing,
    namespace: Annotated[str, typer.Option(metavar="A/B", help="Look only here and below. Default: everywhere.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Most results.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Find what was said, and why it was found."""
    with existing(database) as memory:
        found = memory.search(query, namespace=namespace_named(namespace), limit=limit)
    if as_json:
        print_json([_as_dict(each) for each in found])
        return
    screen = Screen()
    for number, each in enumerate(found, 1):
        where = "/".join((*each.namespace, str(each.conversation_id)))
        screen.line(f"{number}. {each.score:.2f}  {each.created_at:%Y-%m-%d %H:%M}  {where}  {each.id}", "bold")
        screen.line(f"   {shortened(each.text)}")
        screen.line(f"   why: {each.why}", "dim")
    if not found:
        screen.line("Nothing was found.")


@app.command()
def stats(*, database: Existing, as_json: AsJson = False) -> None:
    """Count what is stored."""
    with existing(database) as memory:
        counted = memory.stats()
    if as_json:
        print_json(counted)
        return
    screen = Screen()
    for name, value in counted.items():
        screen.line(f"{name:<15} {value:>15,}")


@app.command()
def verify(database: Existing) -> None:
    """Check the whole database. The exit code is 1 where something is wrong."""
    with existing(database) as memory:
        report = memory.verify()
    screen = Screen()
    for problem in report.problems:
        screen.line(problem, "red")
    checked = ", ".join(f"{value:,} {name}" for name, value in report.checked.items())
    screen.line(f"{'All is well' if report.ok else f'{len(report.problems)} problems'}: checked {checked}.")
    if not report.ok:
        raise typer.Exit(1)


@app.command("import-checkpoints")
def import_checkpoints(
    *,
    source: Annotated[str, typer.Argument(help="The file of a SqliteSaver, or the URL of a PostgresSaver.")],
    database: Annotated[str, typer.Argument(help="Where to: a path or a postgresql:// URL; made if it is not there.")],
    thread: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this thread; may be repeated.")] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE.CLASS", help="Import objects of this class; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy every LangGraph thread of another saver, with its whole history. Run again, it goes on where it was."""
    from langchain_agentmem.stores.sources import open_source  # noqa: PLC0415 - it loads LangGraph

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
        f"{report.checkpoints:,} checkpoints of {report.threads:,} threads were copied; "
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


def _as_dict(found: Recollection) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "id": found.id,
        "text": found.text,
        "score": found.score,
        "namespace": found.namespace,
        "conversation_id": found.conversation_id,
        "created_at": found.created_at.isoformat(),
        "why": dataclasses.asdict(found.why),
    }
