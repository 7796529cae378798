"""The command `agentmem`: `demo`, `search` and `studio` are here, its other subcommands in the modules beside."""

from __future__ import annotations

import itertools
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from langchain_agentmem import __version__
from langchain_agentmem.base.encryption_key import KEY_VARIABLE
from langchain_agentmem.base.namespaces import format_namespace, parse_namespace
from langchain_agentmem.cli import console, database_commands, knowledge_commands, thread_commands
from langchain_agentmem.cli.console import (
    AsJson,
    CommandReport,
    ExistingDatabase,
    Line,
    argument,
    flag,
    option,
    time_option,
)
from langchain_agentmem.errors import InvalidInput, MissingExtra
from langchain_agentmem.search.memory_search import Recollection
from langchain_agentmem.search.timeline import Order

if TYPE_CHECKING:
    from langchain_agentmem.stores.agent_store import IndexLike

app = typer.Typer(
    name="agentmem",
    help="One database for everything an agent remembers.",
    epilog=console.EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help, also where it is piped
)


def _env_option(variable: str, name: str, metavar: str | None, help_text: str) -> Any:
    """An option that acts by itself: it sets a variable of the environment."""

    def act(value: object) -> None:
        if value not in {None, False}:
            for suffix in ("", "_FILE", "_COMMAND") if variable.startswith(KEY_VARIABLE) else ():
                os.environ.pop(f"{KEY_VARIABLE}{suffix}", None)
            os.environ[variable] = "1" if metavar is None else str(value)

    return typer.Option(name, metavar=metavar, help=help_text, is_eager=True, expose_value=False, callback=act)


_COLOURS = _env_option("NO_COLOR", "--no-color", None, "Print no colours; as NO_COLOR in the environment.")
_FILE_HELP = "A file with the key of an encrypted database; as AGENTMEM_KEY_FILE in the environment."
_FILE = _env_option(f"{KEY_VARIABLE}_FILE", "--key-file", "PATH", _FILE_HELP)
_COMMAND_HELP = "A command that prints the key; as AGENTMEM_KEY_COMMAND in the environment."
_COMMAND = _env_option(f"{KEY_VARIABLE}_COMMAND", "--key-command", "COMMAND", _COMMAND_HELP)
_SCHEMA_HELP = "PostgreSQL's schema in which everything is. Default: AGENTMEM_SCHEMA, or agentmem."
_SCHEMA = _env_option(console.SCHEMA_VARIABLE, "--schema", "NAME", _SCHEMA_HELP)


@app.callback(invoke_without_command=True)
def options(
    *,
    as_json: AsJson = False,  # noqa: ARG001 - these options are for the commands
    no_color: Annotated[bool, _COLOURS] = False,  # noqa: ARG001
    key_file: Annotated[str | None, _FILE] = None,  # noqa: ARG001
    key_command: Annotated[str | None, _COMMAND] = None,  # noqa: ARG001
    schema: Annotated[str | None, _SCHEMA] = None,  # noqa: ARG001
    version: bool = flag("--version", "Print the version and leave.", is_eager=True),
) -> None:
    """One database for everything an agent remembers."""
    if version:
        typer.echo(f"agentmem {__version__}")
        raise typer.Exit


def demo(
    *,
    database: str | None = argument(
        "Keep it here: a path or a postgresql:// URL. Default: a temporary one.", "DATABASE", default=None
    ),
    model: str | None = option("A real model. Default: a deterministic one that needs no key.", "PROVIDER:NAME"),
    process: Annotated[int, typer.Option(hidden=True)] = 1,
    studio: bool = flag("--studio", "Go on to a longer life, and look at it in Studio. Extra [studio]."),
    no_open: bool = flag("--no-open", "With --studio: open no browser."),
    as_json: AsJson = False,
) -> None:
    """Watch an agent that remembers, in two processes.

    JSON: one object a line. Of each exchange type ("exchange"), process, conversation, speaker, said, answer, recalled
    (as `search` has it); at last type ("summary"), messages, conversations.
    """
    # Imported here: the other commands need no LangGraph, and start in half the time without.
    from langchain_agentmem.cli.demo import SECOND_PROCESS, open_studio, run_first_process, run_second_process  # noqa: PLC0415

    if studio and as_json:
        raise InvalidInput("--studio shows pages, which have no JSON.")
    serve = load_server() if studio else None
    screen = console.Output(quiet=as_json)
    if process == SECOND_PROCESS and database is not None:
        run_second_process(screen, database=database, model=model, as_json=as_json)
        return
    # What is temporary is deleted even where a model fails or somebody presses Ctrl-C.
    with tempfile.TemporaryDirectory(prefix="agentmem-") if database is None else nullcontext() as folder:
        demo_path = database or str(Path(str(folder)) / "demo.db")
        code = run_first_process(screen, database=demo_path, model=model, as_json=as_json)
        if serve is not None and code == 0:
            open_studio(screen, serve, database=demo_path, open_browser=not no_open)
    message = f"The database is kept: agentmem threads list {shlex.quote(demo_path)}"
    screen.print_line("The database was temporary and is deleted." if database is None else message)
    raise typer.Exit(code)


def search(
    *,
    database: ExistingDatabase,
    query: list[str] = argument("Any text, in one word or several.", "QUERY"),
    namespace: str | None = option("This namespace and all below it. Default: the root alone.", "A/B"),
    everything: bool = flag("--everything", "Look in every namespace."),
    kind: list[str] | None = option(
        "Only message, fact, item, event, record or audit; may be repeated. Default: all but audit.", "KIND"
    ),
    conversation: str | None = option("Only this conversation or thread.", "ID"),
    role: list[str] | None = option("Only what this role said, such as user; may be repeated.", "ROLE"),
    before: datetime | None = time_option("Only what was said before. Without a zone in UTC."),
    after: datetime | None = time_option("Only what was said then or later."),
    order: Order = option(
        "The best first, or the oldest: how a topic went on, and what was replaced.", default="score"
    ),
    limit: int = option("Most results.", "N", default=10, min=1, max=10_000),
    as_json: AsJson = False,
) -> CommandReport:
    """Find what was said, and why it was found.

    What is remembered besides, such as facts and items, is found too. The best comes first.

    JSON: a list of objects with kind, id, text, score, namespace, conversation_id, created_at, why, also, replaced_by;
    why with terms and signals, what each added to the score.
    """
    kinds: Any = kind or None  # the search checks them
    with console.open_existing(database) as memory:
        found = memory.search(
            " ".join(query),
            namespace=parse_namespace(namespace),
            limit=limit,
            kinds=kinds,
            conversation_id=conversation,
            roles=role or None,
            before=before,
            after=after,
            everything=everything or namespace == "/",
            order=order,
        )
        empty = "Nothing was found."
        if not found and namespace is None and not everything:
            hint = console.other_places(memory, kinds=kinds)
            empty = f"Nothing was found in the root namespace.{hint}{' Or say --everything.' if hint else ''}"
            if as_json and hint:  # the list is empty, and who reads it is told as well
                typer.echo(empty, err=True)
    numbers = itertools.count(1)

    def lines(each: Recollection) -> Iterator[Line]:
        where = format_namespace(each.namespace, *([] if each.conversation_id is None else [each.conversation_id]))
        details = f"{console.format_minute(each.created_at)}  {each.kind}  {where}  {each.id}"
        yield f"{next(numbers)}. {each.score:.2f}  {details}", "bold"
        yield f"   {console.shorten(each.text)}"
        yield f"   why: {console.format_reasons(each.why)}", "dim"
        if each.replaced_by is not None:
            yield f"   replaced by: {' '.join(each.replaced_by)}", "dim"

    return console.list_report(found, lines, console.hit_to_json, empty, limit)


def studio(
    *,
    database: ExistingDatabase,
    port: int = option("0 for any that is free.", default=8642, min=0, max=65_535),
    host: str = option("The address to listen at, by which it is known, too.", default="127.0.0.1"),
    read_only: bool = flag("--read-only", "Open the database so that nothing changes."),
    open_browser: bool = flag("--open", "Open a browser there."),
    user: str | None = option("Who makes corrections. Default: who you are logged in as.", "NAME"),
    index: Literal["static"] | None = option(
        "The embeddings of the memory, for searches by vectors. Default: by words."
    ),
    experiences: Path | None = option("A library of experiences to show.", "FOLDER"),
    as_json: AsJson = False,
) -> None:
    """See in a browser what is remembered, and correct it.

    It listens on this machine alone, and opens once by the address that it prints. Ctrl-C ends it.

    JSON: an object with url.
    """
    serve = load_server()
    vectors: IndexLike | None = None if index is None else {"embed": index}
    with console.open_existing(database, read_only=read_only, index=vectors) as memory:
        serve(
            memory,
            host=host,
            port=port,
            user=user,
            experiences=None if experiences is None else memory.experiences(experiences),
            announce=lambda where: CommandReport({"url": where}, f"Studio is at {where} (Ctrl-C ends it)").emit(
                as_json=as_json
            ),
            open_browser=open_browser,
        )


def load_server() -> Callable[..., None]:
    """Return the function that serves Studio.

    Raises:
        MissingExtra: The extra [studio] is not installed.
    """
    try:
        serve: Callable[..., None] = import_module("langchain_agentmem.studio.server").serve
    except ModuleNotFoundError as error:
        raise MissingExtra("Studio", "studio") from error
    return serve


app.command()(demo)
app.add_typer(thread_commands.threads)
for view_command in (thread_commands.show, thread_commands.why, search, thread_commands.branches, thread_commands.diff):
    app.command()(view_command)
app.command()(knowledge_commands.facts)
app.command()(studio)
app.add_typer(knowledge_commands.audit)
app.add_typer(knowledge_commands.experiences)
commands = database_commands
for upkeep_command in (
    commands.stats,
    commands.namespaces,
    commands.verify,
    commands.doctor,
    commands.backup,
    commands.restore,
    commands.export,
):
    app.command()(upkeep_command)
app.command("import")(commands.import_)
for data_command in (
    commands.migrate,
    commands.copy,
    commands.erase,
    commands.prune,
    commands.key,
    commands.import_from,
):
    app.command()(data_command)


def build_cli() -> Callable[[], object]:
    """All commands, each with the options that are those of all of them, and ended as all of them are.

    Those of a database have --schema as well, but for `restore`, since what is restored is in the usual one.
    """
    command = typer.main.get_command(app)
    common = {each.name: each for each in command.params}
    command.params = [each for each in command.params if each.name not in {"as_json", "schema"}]
    pending = [*getattr(command, "commands", {}).values()]
    while pending:
        each = pending.pop()
        own_names = {param.name for param in each.params}
        if each.callback is not None:
            each.params += [] if "as_json" in own_names else [common["as_json"]]
            each.callback = _wrap_command(each.callback, takes_json="as_json" in own_names)
        each.params += [common["no_color"], common["key_file"], common["key_command"]]
        each.params += [common["schema"]] if "database" in own_names and each.name != "restore" else []
        pending += getattr(each, "commands", {}).values()
    return command


def _wrap_command(command: Callable[..., CommandReport | None], *, takes_json: bool) -> Callable[..., None]:
    """A command whose report is printed, and that may be interrupted.

    Args:
        command: The command.
        takes_json: Whether it wants to know if JSON is printed.
    """

    def run(*, as_json: bool, **arguments: Any) -> None:
        with console.handle_interrupt():
            report = command(**arguments, as_json=as_json) if takes_json else command(**arguments)
            if report is not None:
                report.emit(as_json=as_json)

    return run
