"""What the commands share: how a database, a namespace, a thread and a time are named, and what is printed.

Printed are lines of plain text and tables, or JSON. What memory holds was written by others, so it is printed as text:
no markup, and no characters that a terminal would obey or a reader would not see; they are shown as their numbers.
"""

from __future__ import annotations

import json
import os
import shlex
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.clock import parse_time
from langchain_agentmem.base.encoding import json_value
from langchain_agentmem.base.events import Progress as HowFar
from langchain_agentmem.base.events import Watch
from langchain_agentmem.base.files import file_of
from langchain_agentmem.base.namespaces import CONFIG_KEY, format_namespace, namespace_of, parse_namespace
from langchain_agentmem.base.safe_repr import escape_unprintable, format_count, join_lines
from langchain_agentmem.errors import DatabaseReadOnly, InvalidInput, NothingStored, safe_repr
from langchain_agentmem.search import search_index
from langchain_agentmem.search.memory_search import Explanation, MemoryKind, Recollection
from langchain_agentmem.storage import is_postgres, name_of
from langchain_agentmem.storage.engine import SCHEMA
from langchain_agentmem.storage.part import all_parts
from langchain_agentmem.upkeep.admin import ThreadSummary

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from langchain_agentmem.stores.agent_store import IndexLike

T = TypeVar("T")

INTERRUPTED = 130
SCHEMA_VARIABLE = "AGENTMEM_SCHEMA"
"""The environment variable that names PostgreSQL's schema where no option does."""
LIMIT = 50
"""How many lines a list has unless somebody asks for more."""

_MAX_HINTS = 3
"""Places that are named to who found nothing."""

EPILOG = """A namespace is labels separated by /, such as users/ada; / alone is everything. Within a label, / is %2F and
% is %25.

Exit codes:

\b
0    all is well
1    a check found problems, or an import left something out
2    a command that is not understood, or names what is not there or installed
3    the database cannot be opened or read, or could not do its work
130  interrupted
"""

_DATABASE_HELP = "The database: a path or a postgresql:// URL"
ExistingDatabase = Annotated[str, typer.Argument(metavar="DATABASE", help=f"{_DATABASE_HELP}.")]
NewDatabase = Annotated[str, typer.Argument(metavar="DATABASE", help=f"{_DATABASE_HELP}. Made if it is not there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
"""Every command has this option (`command_line`); those declare it that do otherwise with it than print JSON."""
NamespaceFilter = Annotated[
    str | None,
    typer.Option("--namespace", metavar="A/B", help="Only this namespace and all below it. Default: everything."),
]
NamespaceChoice = Annotated[
    str | None,
    typer.Option("--namespace", metavar="A/B", help="This namespace, or one below it. Default: whichever fits."),
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="Print at most so many. Default: 50, and in JSON all.")
]


def open_existing(database: str, *, read_only: bool = False, index: IndexLike | None = None) -> AgentMemory:
    """Open a database that is there; a mistyped path must not become an empty one.

    Args:
        database: A path, a "file:" URI such as `file:agent.db?mode=ro`, or the URL of a server.
        read_only: Whether nothing may be written to it.
        index: What a search goes by beside words, as `AgentMemory` takes it. Default: words alone.

    Raises:
        InvalidInput: There is none.
    """
    if not is_postgres(name_of(database)) and not file_of(database).is_file():
        raise InvalidInput(f"There is no database at {safe_repr(database)}.")
    # Nothing that is shown needs a class of the user's.
    open_memory = partial(open_or_create, database, strict=True, read_only=read_only, index=index)
    try:
        return open_memory(migrate=False)
    except NothingStored as error:
        raise InvalidInput(str(error)) from error
    except DatabaseReadOnly:  # what an older version wrote is brought up to date
        return open_memory()


def open_or_create(database: str, **options: Any) -> AgentMemory:
    """Open a database, and make it if it is not there, in the schema that `--schema` or the environment names.

    Args:
        database: A path, or the URL of a server.
        **options: As `AgentMemory` takes them.
    """
    return AgentMemory(database, **{"schema": schema_name(), **options})


def schema_name() -> str:
    """PostgreSQL's schema in which everything is."""
    return os.environ.get(SCHEMA_VARIABLE) or SCHEMA


def parse_time_option(text: str) -> datetime:
    """The time that an option gives, see `parse_time`.

    Raises:
        BadParameter: It is none.
    """
    try:
        return parse_time(text)
    except InvalidInput as error:
        raise typer.BadParameter(str(error)) from error


def argument(help_text: str, metavar: str, *, default: Any = ..., **settings: Any) -> Any:
    """An argument of a command, which has to be given unless there is a default."""
    return typer.Argument(default, metavar=metavar, help=help_text, **settings)


def option(
    help_text: str, metavar: str | None = None, *, name: str | None = None, default: Any = None, **settings: Any
) -> Any:
    """An option of a command, whose name is that of the parameter unless it is given."""
    return typer.Option(default, *([name] if name else []), metavar=metavar, help=help_text, **settings)


def flag(name: str, help_text: str, **settings: Any) -> Any:
    """An option of a command that is given or not."""
    return typer.Option(False, name, help=help_text, **settings)  # noqa: FBT003 - the default


def time_option(help_text: str, name: str | None = None) -> Any:
    """An option that gives a time."""
    return option(help_text, "TIME", name=name, parser=parse_time_option)


def other_places(
    memory: AgentMemory,
    searched: tuple[str, ...] = (),
    kinds: Sequence[MemoryKind] | None = None,
    *,
    below: bool = False,
    threads: bool = False,
) -> str:
    """For who found nothing: where there is something, by the options that lead there; "" where there is nothing.

    Args:
        memory: Where.
        searched: The namespace in which it was looked.
        kinds: What was looked for, as a user calls it. Default: all that a search usually finds.
        below: Whether it was looked below that namespace, too.
        threads: Whether threads of that namespace were left out.
    """
    memory.search("", kinds=kinds, everything=True)  # what waits for the index enters it
    stored_as, places = all_parts().index_names(kinds), []
    for row in memory.database.engine.read(lambda tx: search_index.series_of_kinds(tx, stored_as)):
        where = namespace_of(row["path"])
        if where != searched and not (below and where[: len(searched)] == searched):
            places.append(shlex.join(["--namespace", format_namespace(where)]))
        elif where == searched and threads and row["of_thread"]:
            places.append(shlex.join(["--thread", row["name"]]))
    return f" Elsewhere there is something: {format_places([*dict.fromkeys(places)])}." if places else ""


def format_places(places: Sequence[str]) -> str:
    """The first of some places, as a list."""
    return ", ".join(places[:_MAX_HINTS]) + (", …" if len(places) > _MAX_HINTS else "")


def format_minute(time: datetime) -> str:
    """A time to the minute, in UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"


def pick_fields(value: object, names: str) -> dict[str, Any]:
    """Some attributes of a value, by their names."""
    return {name: getattr(value, name) for name in names.split()}


def hit_to_json(recollection: Recollection) -> dict[str, Any]:
    """What a search found, as JSON has it."""
    return {
        **pick_fields(recollection, "kind id text score namespace conversation_id created_at replaced_by"),
        "why": pick_fields(recollection.why, "terms nearby signals"),
        "also": [list(each) for each in recollection.also],
    }


def format_reasons(why: Explanation) -> str:
    """Why something was found, what counted most first: "the word heron +1.20; nearby grey +0.80; also date +0.30"."""
    terms, nearby, signals = (
        [f"{name} {value:+.2f}" for name, value in sorted(each.items(), key=lambda part: -abs(part[1]))]
        for each in (why.terms, why.nearby, why.signals)
    )
    parts = [f"the words {', '.join(terms)}" if len(terms) > 1 else f"the word {terms[0]}"] if terms else []
    if nearby:
        parts.append(f"nearby {', '.join(nearby)}")
    if signals:
        parts.append(("also " if parts else "") + ", ".join(signals))
    return "; ".join(parts) or "no reason"


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a value as JSON, in ASCII, so that no console and no encoding can spoil it.

    Args:
        value: The value, see `json_value`.
        indent: By how many spaces what lies within is moved; None for all on one line.
    """
    typer.echo(json.dumps(json_value(value), indent=indent))


MAX_LINE_CHARS = 160
_UNLIMITED_WIDTH = 100_000
"""Columns of an output that nobody watches: lines are as long as they are."""


class Output:
    """Prints to standard output.

    Args:
        console: Where to. Default: standard output.
        quiet: Whether nothing is printed after all, since JSON is.
    """

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        styles: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"  # not even bold
        self._console = console or Console(color_system=styles, highlight=False, markup=False, emoji=False, quiet=quiet)
        if not self._console.is_terminal:
            self._console.width = _UNLIMITED_WIDTH

    def print_line(self, text: str = "", style: str = "") -> None:
        """Print one line; on a terminal that is too narrow for it, several, of which no word is broken.

        Args:
            text: Any text.
            style: How it looks on a terminal that knows colours.
        """
        safe_text = escape_unprintable(text)
        if self._console.is_terminal:
            safe_text = textwrap.fill(safe_text, self._console.width, break_long_words=False, break_on_hyphens=False)
        self._console.print(Text(safe_text, style=style), soft_wrap=True)

    def print_heading(self, text: str) -> None:
        """Print a heading, after an empty line."""
        self.print_line()
        self.print_line(text, "bold")

    def print_table(self, headings: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[str] = ()) -> None:
        """Print a table; where nobody watches, plain columns that are as wide as they have to be.

        On a terminal that is too narrow for it, each row becomes a few lines that name its columns.

        Args:
            headings: The names of its columns.
            rows: A text for each column.
            right: The columns that are flush right.
        """
        is_terminal, row_list = self._console.is_terminal, list(rows)
        table = Table(box=box.SIMPLE_HEAD if is_terminal else None, pad_edge=False, padding=(0, 2, 0, 0))
        for heading in headings:
            table.add_column(Text(heading), justify="right" if heading in right else "left", no_wrap=True)
        for row in row_list:
            table.add_row(*(Text(escape_unprintable(cell)) for cell in row))
        unbounded = self._console.options.update(max_width=_UNLIMITED_WIDTH)
        if Measurement.get(self._console, unbounded, table).maximum <= self._console.width:
            self._console.print(table)
            return
        for row in row_list:
            named_cells = [(heading, " ".join(cell.split())) for heading, cell in zip(headings, row, strict=True)]
            first, *others = [f"{heading} {cell}".lstrip() for heading, cell in named_cells if cell]
            self.print_line(first, "bold")
            self.print_line(f"   {', '.join(others)}".rstrip())


shorten = partial(join_lines, max_chars=160)
"""A text on one line, cut where it is long."""


MAIN = "main"
"""The branch that is meant where none is named."""


def find_thread(memory: AgentMemory, thread_id: str, namespace: str | None) -> ThreadSummary:
    """The thread or conversation that is meant.

    Args:
        memory: Where.
        thread_id: Its id.
        namespace: Its namespace as "a/b", or one above it; None for the root's, else the only one.

    Raises:
        InvalidInput: There is none, or several.
    """
    where, label = parse_namespace(namespace), safe_repr(thread_id)
    found = memory.admin.threads(where, thread_id=thread_id, sizes=False).threads
    if not found:
        within = f" in {format_namespace(where)}" if where else ""
        raise InvalidInput(f"There is no thread or conversation {label}{within}. See: agentmem threads list DATABASE")
    return _pick_only({each.namespace: each for each in found}, where, f"There is a {label}")


def _pick_only(found: Mapping[tuple[str, ...], T], where: tuple[str, ...], label: str) -> T:
    """What stands at a namespace, else the only thing that there is below it."""
    if where not in found and len(found) > 1:
        homes = ", ".join(sorted(map(format_namespace, found))[:5])
        raise InvalidInput(f"{label} in {len(found)} namespaces: {homes}. Say --namespace.")
    return found[where] if where in found else next(iter(found.values()))


def config_of(thread: ThreadSummary, checkpoint_id: str | None = None) -> RunnableConfig:
    """The config that names a thread, and maybe a checkpoint of it."""
    checkpoint = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    return {"configurable": {"thread_id": thread.thread_id, CONFIG_KEY: thread.namespace, **checkpoint}}


def load_checkpoint(memory: AgentMemory, thread: ThreadSummary, checkpoint_id: str | None) -> CheckpointTuple:
    """A checkpoint of a thread; the newest one where none is named.

    Raises:
        InvalidInput: It has no such checkpoint.
    """
    found = memory.checkpointer.get_tuple(config_of(thread, checkpoint_id))
    if found is None:
        missing = "no checkpoints" if checkpoint_id is None else f"no checkpoint {safe_repr(checkpoint_id)}"
        raise InvalidInput(
            f"{safe_repr(thread.thread_id)} has {missing}. See: agentmem branches DATABASE {thread.thread_id}"
        )
    return found


def find_branch_home(memory: AgentMemory, namespace: str | None, *names: str) -> tuple[str, ...]:
    """The namespace that has branches of these names.

    Args:
        memory: Where.
        namespace: Their namespace as "a/b", or one above it; None for the root, else the only one that has them.
        *names: The names of the branches.

    Raises:
        InvalidInput: There is none, or there are several. `MAIN` alone is in every namespace.
    """
    within = parse_namespace(namespace)
    branch_names: dict[tuple[str, ...], set[str]] = {}
    for each in memory.admin.branches(within):
        branch_names.setdefault(each.namespace, set()).add(each.name)
    homes = {where: where for where, names_there in branch_names.items() if names_there.issuperset(names)}
    if homes:
        return _pick_only(homes, within, "There are these branches")
    if names == (MAIN,):  # it begins with the first write, and is empty before
        return within
    wanted = ", ".join(map(safe_repr, names))
    raise InvalidInput(f"No namespace has the branches {wanted}. See: agentmem branches DATABASE")


class TableRows(NamedTuple):
    """A table; arguments as for `Output.table`."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[str] = ()


Line: TypeAlias = "str | tuple[str, str] | TableRows"
"""A line, with its style, or a table."""


def split_lines(text: str) -> Iterator[str]:
    """The lines of a text, for a screen."""
    yield from text.replace("\r\n", "\n").rstrip("\n").split("\n")


class CommandReport(NamedTuple):
    """What a command found.

    Attributes:
        value: As JSON has it.
        lines: For a person.
        has_problems: Whether the exit code is 1.
    """

    value: object
    lines: str | Iterable[Line]
    has_problems: bool = False

    def emit(self, *, as_json: bool) -> None:
        """Print it, as JSON or for a person, and leave with exit code 1 where it tells of problems."""
        if as_json:
            print_json(self.value)
        else:
            screen = Output()
            for each in split_lines(self.lines) if isinstance(self.lines, str) else self.lines:
                if isinstance(each, TableRows):
                    screen.print_table(*each)
                else:
                    screen.print_line(*([each] if isinstance(each, str) else each))
        if self.has_problems:
            raise typer.Exit(1)


def check_report(problems: Sequence[str], checked: str, value: object) -> CommandReport:
    """What a check found. The exit code is 1 where something is wrong."""
    state = format_count(len(problems), "problems") if problems else "All is well"
    lines: list[Line] = [*((each, "red") for each in problems), *split_lines(f"{state}: checked {checked}")]
    return CommandReport(value, lines, bool(problems))


def list_report(
    found: Sequence[T], lines: Callable[[T], Iterable[Line]], to_json: Callable[[T], Any], empty: str, limit: int | None
) -> CommandReport:
    """Things that were found, at most so many, and how many more there are.

    Args:
        found: All of them.
        lines: Those of one for a person.
        to_json: What JSON has of it.
        empty: What a person is told where there are none.
        limit: How many to print. Default: `LIMIT`, and in JSON all.
    """
    most = limit or LIMIT
    printed = [line for each in found[:most] for line in lines(each)] if found else [empty]
    return CommandReport([*map(to_json, found[:limit])], [*printed, *more_lines(min(most, len(found)), len(found))])


def more_lines(printed: int, total: int, template: str = "… and {} more") -> Iterator[Line]:
    """Say how many are not shown, if any, and how to see them.

    Args:
        printed: How many are.
        total: How many there are.
        template: What is said of them.
    """
    if total > printed:
        yield f"{template.format(f'{total - printed:,}')}: --limit {total}", "dim"


MORE_BEFORE = "… {} before these"
"""What `more` says of those that come before the first that is shown."""


@contextmanager
def progress_bar(doing: str = "") -> Iterator[Watch]:
    """A progress bar on standard error, if that is a terminal; one that moves to and fro where no end is known."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(doing, total=None)

        def watch(state: HowFar) -> None:
            description = state.stage if state.total is None else f"{state.stage} {state.done:,} of {state.total:,}"
            progress.update(task, description=description, completed=state.done, total=state.total)

        yield watch


@contextmanager
def handle_interrupt(message: str = "") -> Iterator[None]:
    """Say what an interruption leaves. What only looks needs not say anything: it is within one anyway."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"Interrupted. {message}".rstrip(), err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def long_operation(message: str, doing: str = "") -> Iterator[Watch]:
    """A progress bar around what may take long, see `progress_bar` and `handle_interrupt`."""
    with handle_interrupt(message), progress_bar(doing) as watch:
        yield watch
