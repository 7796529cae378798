"""Shared helpers of the commands: options, lookups, reports and output.

Commands print plain lines and tables, or JSON. The content of memory is untrusted, so Rich markup in it is not
interpreted. Control characters and invisible characters are printed as escape sequences.
"""

from __future__ import annotations

import json
import os
import shlex
import textwrap
from collections import defaultdict
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
from langchain_agentmem.base.files import file_of
from langchain_agentmem.base.hooks import Progress as ProgressState
from langchain_agentmem.base.hooks import Watch
from langchain_agentmem.base.namespaces import CONFIG_KEY, format_namespace, namespace_of, parse_namespace
from langchain_agentmem.base.safe_repr import escape_unprintable, format_count, join_lines
from langchain_agentmem.errors import DatabaseReadOnly, InvalidInput, NothingStored, safe_repr
from langchain_agentmem.search import search_index
from langchain_agentmem.search.memory_search import Explanation, MemoryKind, Recollection
from langchain_agentmem.storage import check_database_url, is_postgres
from langchain_agentmem.storage.engine import SCHEMA
from langchain_agentmem.storage.part import all_parts
from langchain_agentmem.upkeep.admin import ThreadSummary

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from langchain_agentmem.stores.agent_store import IndexLike

T = TypeVar("T")

INTERRUPTED = 130
"""The exit code after Ctrl-C."""
SCHEMA_VARIABLE = "AGENTMEM_SCHEMA"
"""The environment variable with the default of `--schema`."""
DEFAULT_LIMIT = 50
"""The default maximum number of lines in a list."""

_MAX_HINTS = 3
"""The maximum number of suggested namespaces and threads."""

EPILOG = """A namespace is written as labels separated by /, such as users/ada. The namespace / contains all others.
Within a label, write / as %2F and % as %25.

Exit codes:

\b
0    success
1    a check found problems, or an import skipped entries
2    usage error: unknown command or option, missing optional dependency, or
     a thread, branch or file that does not exist
3    database error: it cannot be opened or read, or an operation failed
130  interrupted by Ctrl-C
"""

_DATABASE_HELP = "Path or postgresql:// URL of the database."
ExistingDatabase = Annotated[str, typer.Argument(metavar="DATABASE", help=_DATABASE_HELP)]
NewDatabase = Annotated[str, typer.Argument(metavar="DATABASE", help=f"{_DATABASE_HELP} Created if missing.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
"""The option of every command, see `build_cli`. A command declares it only if the command itself reads it."""
_FILTER_HELP = "Only this namespace and all below it. Default: everything."
NamespaceFilter = Annotated[str | None, typer.Option("--namespace", metavar="A/B", help=_FILTER_HELP)]
_CHOICE_HELP = "This namespace or one below. Default: root, else the only match."
NamespaceChoice = Annotated[str | None, typer.Option("--namespace", metavar="A/B", help=_CHOICE_HELP)]
_LIMIT_HELP = "Maximum number of entries. Default: 50; with --json, all."
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help=_LIMIT_HELP)]


def open_existing(database: str, *, read_only: bool = False, index: IndexLike | None = None) -> AgentMemory:
    """Open an existing database. A mistyped path must not create an empty database.

    Args:
        database: A path, a "file:" URI such as `file:agent.db?mode=ro`, or the URL of a server.
        read_only: True to open the database read-only.
        index: The vector index, as for `AgentMemory`. Default: keyword search only.

    Raises:
        InvalidInput: The database does not exist.
    """
    if not is_postgres(check_database_url(database)) and not file_of(database).is_file():
        raise InvalidInput(f"There is no database at {safe_repr(database)}.")
    # The commands need no classes of the application, so `strict` prevents their import.
    open_memory = partial(open_or_create, database, strict=True, read_only=read_only, index=index)
    try:
        return open_memory(migrate=False)
    except NothingStored as error:
        raise InvalidInput(str(error)) from error
    except DatabaseReadOnly:  # an older version wrote the database, so upgrade it
        return open_memory()


def open_or_create(database: str, **options: Any) -> AgentMemory:
    """Open or create a database, in the schema of `--schema` or the environment.

    Args:
        database: A path, or the URL of a server.
        **options: The options of `AgentMemory`.
    """
    return AgentMemory(database, **{"schema": schema_name(), **options})


def schema_name() -> str:
    """Return the PostgreSQL schema of the tables."""
    return os.environ.get(SCHEMA_VARIABLE) or SCHEMA


def parse_time_option(text: str) -> datetime:
    """Return the time in an option, see `parse_time`.

    Raises:
        BadParameter: The text is no time.
    """
    try:
        return parse_time(text)
    except InvalidInput as error:
        raise typer.BadParameter(str(error)) from error


def command_group(name: str, text: str) -> typer.Typer:
    """Return an empty group of commands with plain help."""
    return typer.Typer(name=name, help=text, no_args_is_help=True, rich_markup_mode=None)


def argument(text: str, metavar: str, *, default: Any = ..., **extra: Any) -> Any:
    """Return an argument of a command. It is required unless it has a default."""
    return typer.Argument(default, metavar=metavar, help=text, **extra)


def option(text: str, metavar: str | None = None, *, default: Any = None, **extra: Any) -> Any:
    """Return an option of a command. Default of `name`: the name of the parameter."""
    return typer.Option(default, metavar=metavar, help=text, **extra)


def flag(name: str, text: str, **extra: Any) -> Any:
    """Return a boolean option of a command. Default: False."""
    return typer.Option(False, name, help=text, **extra)  # noqa: FBT003 - the default


def time_option(text: str) -> Any:
    """Return an option of a command for a time."""
    return option(text, "TIME", parser=parse_time_option)


def format_hint(
    memory: AgentMemory,
    searched: tuple[str, ...] = (),
    kinds: Sequence[MemoryKind] | None = None,
    *,
    below: bool = False,
    threads: bool = False,
) -> str:
    """Return a hint with options that find entries, for an empty result; "" if there are none.

    Args:
        memory: The memory.
        searched: The searched namespace.
        kinds: The kinds of entries, as for `AgentMemory.search`. Default: the default of `search`.
        below: True if namespaces below `searched` were searched too.
        threads: True if threads of the namespace `searched` were not searched.
    """
    memory.search("", kinds=kinds, everything=True)  # a search first indexes pending entries
    stored_kinds = all_parts().index_names(kinds)
    options = []
    for row in memory.database.engine.read(lambda tx: search_index.series_of_kinds(tx, stored_kinds)):
        namespace = namespace_of(row["path"])
        if namespace != searched and not (below and namespace[: len(searched)] == searched):
            options.append(shlex.join(["--namespace", format_namespace(namespace)]))
        elif namespace == searched and threads and row["of_thread"]:
            options.append(shlex.join(["--thread", row["name"]]))
    return f" Entries exist under {format_examples([*dict.fromkeys(options)])}." if options else ""


def format_examples(examples: Sequence[str]) -> str:
    """Return the first examples, separated by commas."""
    return ", ".join(examples[:_MAX_HINTS]) + (", …" if len(examples) > _MAX_HINTS else "")


def format_minute(time: datetime) -> str:
    """Return a time to the minute, in UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"


def pick_fields(value: object, names: str) -> dict[str, Any]:
    """Return attributes of a value by name. `names` is separated by spaces."""
    return {name: getattr(value, name) for name in names.split()}


def hit_to_json(recollection: Recollection) -> dict[str, Any]:
    """Return a search result for JSON."""
    return {
        **pick_fields(recollection, "kind id text score namespace conversation_id created_at replaced_by"),
        "why": pick_fields(recollection.why, "terms nearby signals"),
        "also": [list(each) for each in recollection.also],
    }


def format_reasons(why: Explanation) -> str:
    """Return the parts of a score, the largest first.

    An example is "the word heron +1.20; nearby grey +0.80; also date +0.30".
    """
    terms, nearby, signals = (
        [f"{name} {value:+.2f}" for name, value in sorted(scores.items(), key=lambda score: -abs(score[1]))]
        for scores in (why.terms, why.nearby, why.signals)
    )
    parts = [f"the words {', '.join(terms)}" if len(terms) > 1 else f"the word {terms[0]}"] if terms else []
    if nearby:
        parts.append(f"nearby {', '.join(nearby)}")
    if signals:
        parts.append(("also " if parts else "") + ", ".join(signals))
    return "; ".join(parts) or "no reason"


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a value as JSON. The output is ASCII, which every console can encode.

    Args:
        value: The value, see `json_value`.
        indent: The number of spaces for each level; None for one line. Default: 2.
    """
    typer.echo(json.dumps(json_value(value), indent=indent))


MAX_LINE_CHARS = 160
"""The maximum length of a shortened text."""
_UNLIMITED_WIDTH = 100_000
"""The width of output to a file or pipe, in columns. Lines are not wrapped there."""


class Output:
    """A printer of lines, headings and tables.

    Args:
        console: The console. Default: standard output.
        quiet: True to print nothing, because the command prints JSON. Default: False.
    """

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        # None disables all styles, even bold.
        colors: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
        self._console = console or Console(color_system=colors, highlight=False, markup=False, emoji=False, quiet=quiet)
        if not self._console.is_terminal:
            self._console.width = _UNLIMITED_WIDTH

    def print_line(self, text: str = "", style: str = "") -> None:
        """Print a line. On a terminal, wrap it between words.

        Args:
            text: Any text.
            style: The Rich style on a terminal with colors. Default: none.
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
        """Print a table, in plain columns if the output is no terminal.

        On a terminal narrower than the table, each row is printed as lines with the names of the columns.

        Args:
            headings: The names of the columns.
            rows: The rows, with a text for each column.
            right: The names of the right-aligned columns. Default: none.
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


shorten = partial(join_lines, max_chars=MAX_LINE_CHARS)
"""Return a text on one line, cut after `MAX_LINE_CHARS`."""


MAIN = "main"
"""The default branch."""


def find_thread(memory: AgentMemory, thread_id: str, namespace: str | None) -> ThreadSummary:
    """Return the thread or conversation with an id.

    Args:
        memory: The memory.
        thread_id: The id.
        namespace: The namespace as "a/b", or one above it. None selects the thread in the root, else the only match.

    Raises:
        InvalidInput: No thread matches, or several match.
    """
    target, quoted = parse_namespace(namespace), safe_repr(thread_id)
    matches = memory.admin.threads(target, thread_id=thread_id, sizes=False).threads
    if not matches:
        within = f" in {format_namespace(target)}" if target else ""
        raise InvalidInput(f"There is no thread or conversation {quoted}{within}. See: agentmem threads list DATABASE")
    return _pick_match({each.namespace: each for each in matches}, target, f"There is a {quoted}")


def _pick_match(matches: Mapping[tuple[str, ...], T], namespace: tuple[str, ...], error_prefix: str) -> T:
    """Return the match in a namespace, else the only match."""
    if namespace not in matches and len(matches) > 1:
        names = ", ".join(sorted(map(format_namespace, matches))[:5])
        raise InvalidInput(f"{error_prefix} in {len(matches)} namespaces: {names}. Select one with --namespace.")
    return matches[namespace] if namespace in matches else next(iter(matches.values()))


def build_config(thread: ThreadSummary, checkpoint_id: str | None = None) -> RunnableConfig:
    """Return the config of a thread, or of one of its checkpoints."""
    checkpoint = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    return {"configurable": {"thread_id": thread.thread_id, CONFIG_KEY: thread.namespace, **checkpoint}}


def load_checkpoint(memory: AgentMemory, thread: ThreadSummary, checkpoint_id: str | None) -> CheckpointTuple:
    """Return a checkpoint of a thread. Default: the newest checkpoint.

    Raises:
        InvalidInput: The thread has no such checkpoint.
    """
    checkpoint = memory.checkpointer.get_tuple(build_config(thread, checkpoint_id))
    if checkpoint is None:
        missing = "checkpoints" if checkpoint_id is None else f"checkpoint {safe_repr(checkpoint_id)}"
        thread_id = thread.thread_id
        raise InvalidInput(f"{safe_repr(thread_id)} has no {missing}. See: agentmem branches DATABASE {thread_id}")
    return checkpoint


def find_branch_namespace(memory: AgentMemory, namespace: str | None, *names: str) -> tuple[str, ...]:
    """Return the namespace that has all of the named branches.

    Args:
        memory: The memory.
        namespace: The namespace as "a/b", or one above it. None selects the root, else the only match.
        *names: The names of the branches.

    Raises:
        InvalidInput: No namespace matches, or several match. A namespace without branches matches `MAIN` alone.
    """
    target = parse_namespace(namespace)
    branch_names: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for each in memory.admin.branches(target):
        branch_names[each.namespace].add(each.name)
    matches = {labels: labels for labels, existing in branch_names.items() if existing.issuperset(names)}
    if matches:
        return _pick_match(matches, target, "There are these branches")
    if names == (MAIN,):  # the first write creates this branch
        return target
    wanted = ", ".join(map(safe_repr, names))
    raise InvalidInput(f"No namespace has the branches {wanted}. See: agentmem branches DATABASE")


class TableRows(NamedTuple):
    """A table, see `Output.print_table`."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[str] = ()


Line: TypeAlias = "str | tuple[str, str] | TableRows"
"""A line, a line with its style, or a table."""


def split_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text."""
    yield from text.replace("\r\n", "\n").rstrip("\n").split("\n")


class CommandReport(NamedTuple):
    """The result of a command.

    Attributes:
        value: The value for JSON.
        lines: The text or the lines that are printed without --json.
        has_problems: True for the exit code 1.
    """

    value: object
    lines: str | Iterable[Line]
    has_problems: bool = False

    def emit(self, *, as_json: bool) -> None:
        """Print the report as JSON or as lines. Exit with code 1 if it has problems."""
        if as_json:
            print_json(self.value)
        else:
            output = Output()
            for line in split_lines(self.lines) if isinstance(self.lines, str) else self.lines:
                if isinstance(line, TableRows):
                    output.print_table(*line)
                else:
                    output.print_line(*([line] if isinstance(line, str) else line))
        if self.has_problems:
            raise typer.Exit(1)


def build_check_report(problems: Sequence[str], checked: str, value: object) -> CommandReport:
    """Return the report of a check, with the exit code 1 if there are problems."""
    state = format_count(len(problems), "problems") if problems else "No problems found"
    lines: list[Line] = [*((each, "red") for each in problems), *split_lines(f"{state}: checked {checked}")]
    return CommandReport(value, lines, bool(problems))


def build_list_report(
    items: Sequence[T], show: Callable[[T], Iterable[Line]], to_json: Callable[[T], Any], empty: str, limit: int | None
) -> CommandReport:
    """Return the report of a list, with the number of items that are not printed.

    Args:
        items: All items.
        show: Returns the printed lines of an item.
        to_json: Returns the JSON value of an item.
        empty: The printed line if there are no items.
        limit: The maximum number of items. Default: `DEFAULT_LIMIT`; in JSON, all.
    """
    count = limit or DEFAULT_LIMIT
    lines = [line for each in items[:count] for line in show(each)] if items else [empty]
    return CommandReport([*map(to_json, items[:limit])], [*lines, *note_omitted(min(count, len(items)), len(items))])


def note_omitted(printed: int, total: int, template: str = "… and {} more") -> Iterator[Line]:
    """Yield a line with the number of omitted items, if any, and the option that prints them.

    Args:
        printed: The number of printed items.
        total: The number of all items.
        template: The text of the line, with {} for the number of omitted items.
    """
    if total > printed:
        yield f"{template.format(f'{total - printed:,}')}: --limit {total}", "dim"


EARLIER_TEMPLATE = "… {} earlier"
"""The template of `note_omitted` for items before the first printed one."""


@contextmanager
def progress_bar(stage: str = "") -> Iterator[Watch]:
    """Show a progress bar on standard error, if standard error is a terminal.

    The bar pulses while the total is unknown.
    """
    console, text = Console(stderr=True), TextColumn("{task.description}", markup=False)
    columns = text, BarColumn(bar_width=20), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(stage, total=None)

        def watch(state: ProgressState) -> None:
            description = state.stage if state.total is None else f"{state.stage} {state.done:,} of {state.total:,}"
            progress.update(task, description=description, completed=state.done, total=state.total)

        yield watch


@contextmanager
def handle_interrupt(message: str = "") -> Iterator[None]:
    """Handle Ctrl-C: print a message about the state of the data and exit with code 130.

    `build_cli` runs every command in this context, so only commands that write need another one, with a message.
    """
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"Interrupted. {message}".rstrip(), err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def long_operation(message: str, stage: str = "") -> Iterator[Watch]:
    """Show a progress bar and handle Ctrl-C, see `progress_bar` and `handle_interrupt`."""
    with handle_interrupt(message), progress_bar(stage) as watch:
        yield watch
