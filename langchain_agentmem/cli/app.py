"""The command `agentmem`, and its subcommands `demo`, `search` and `studio`."""

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
from langchain_agentmem.cli.console import AsJson, CommandReport, ExistingDatabase, argument, flag, option, time_option
from langchain_agentmem.errors import InvalidInput, MissingExtra
from langchain_agentmem.search.memory_search import Recollection
from langchain_agentmem.search.timeline import Order

if TYPE_CHECKING:
    from langchain_agentmem.stores.agent_store import IndexLike

app = typer.Typer(
    name="agentmem",
    help="Inspect and manage the memory of LangChain and LangGraph agents.",
    epilog=console.EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help, even if piped
)


def _env_option(variable: str, name: str, metavar: str | None, text: str) -> Any:
    """Return an option that sets an environment variable."""

    def set_variable(context: typer.Context, value: object) -> None:
        if value not in {None, False}:
            # A key from an option replaces every key in the environment.
            for suffix in ("", "_FILE", "_COMMAND") if variable.startswith(KEY_VARIABLE) else ():
                if context.meta.setdefault(KEY_VARIABLE, name) != name:
                    raise InvalidInput("--key-file cannot be combined with --key-command. Omit one of them.")
                os.environ.pop(f"{KEY_VARIABLE}{suffix}", None)
            os.environ[variable] = "1" if metavar is None else str(value)

    return typer.Option(name, metavar=metavar, help=text, is_eager=True, expose_value=False, callback=set_variable)


_NO_COLOR_OPTION = _env_option("NO_COLOR", "--no-color", None, "Disable colors, like NO_COLOR in the environment.")
_KEY_FILE_HELP = "File with the key of an encrypted database. Default: AGENTMEM_KEY_FILE."
_KEY_FILE_OPTION = _env_option(f"{KEY_VARIABLE}_FILE", "--key-file", "PATH", _KEY_FILE_HELP)
_KEY_COMMAND_HELP = "Command that prints the key. Default: AGENTMEM_KEY_COMMAND."
_KEY_COMMAND_OPTION = _env_option(f"{KEY_VARIABLE}_COMMAND", "--key-command", "COMMAND", _KEY_COMMAND_HELP)
_SCHEMA_HELP = "PostgreSQL schema of the tables. Default: AGENTMEM_SCHEMA, or agentmem."
_SCHEMA_OPTION = _env_option(console.SCHEMA_VARIABLE, "--schema", "NAME", _SCHEMA_HELP)


@app.callback(invoke_without_command=True)
def apply_common_options(
    *,
    as_json: AsJson = False,  # noqa: ARG001 - used by the commands, see `build_cli`
    no_color: Annotated[bool, _NO_COLOR_OPTION] = False,  # noqa: ARG001
    key_file: Annotated[str | None, _KEY_FILE_OPTION] = None,  # noqa: ARG001
    key_command: Annotated[str | None, _KEY_COMMAND_OPTION] = None,  # noqa: ARG001
    schema: Annotated[str | None, _SCHEMA_OPTION] = None,  # noqa: ARG001
    version: bool = flag("--version", "Print the version and exit.", is_eager=True),
) -> None:
    """Inspect and manage the memory of LangChain and LangGraph agents."""
    if version:
        typer.echo(f"agentmem {__version__}")
        raise typer.Exit


def demo(
    *,
    database: str | None = argument("Path or postgresql:// URL. Default: temporary.", "DATABASE", default=None),
    model: str | None = option("Chat model. Default: a deterministic one that needs no key.", "PROVIDER:NAME"),
    process: Annotated[int, typer.Option(hidden=True)] = 1,
    studio: bool = flag("--studio", "Continue the story, and show it in Studio (extra [studio])."),
    no_open: bool = flag("--no-open", "With --studio: do not open a browser."),
    as_json: AsJson = False,
) -> None:
    """Run an agent that remembers across two processes.

    JSON: one object a line. Each exchange has type ("exchange"), process, conversation, speaker, said, answer, recalled
    (in the format of `search`). The last line has type ("summary"), messages, conversations.
    """
    # Not imported at the top: the other commands do not need LangGraph, and start twice as fast without it.
    from langchain_agentmem.cli.demo import SECOND_PROCESS, open_studio, run_first_process, run_second_process  # noqa: PLC0415

    if studio and as_json:
        raise InvalidInput("--studio cannot be combined with --json. Omit one of them.")
    if no_open and not studio:
        raise InvalidInput("--no-open needs --studio.")
    serve = load_server() if studio else None
    output = console.Output(quiet=as_json)
    if process == SECOND_PROCESS and database is not None:
        run_second_process(output, database=database, model=model, as_json=as_json)
        return
    # A temporary database is deleted even if a model fails or Ctrl-C is pressed.
    with tempfile.TemporaryDirectory(prefix="agentmem-") if database is None else nullcontext() as folder:
        demo_path = database or str(Path(str(folder)) / "demo.db")
        code = run_first_process(output, database=demo_path, model=model, as_json=as_json)
        if serve is not None and code == 0:
            open_studio(output, serve, database=demo_path, open_browser=not no_open)
    kept_text = f"The database is kept: agentmem threads list {shlex.quote(demo_path)}"
    output.print_line("The temporary database was deleted." if database is None else kept_text)
    raise typer.Exit(code)


_KIND_HELP = "Only message, fact, item, event, record or audit. Repeatable. Default: all but audit."


def search(
    *,
    database: ExistingDatabase,
    query: list[str] = argument("Any text.", "QUERY"),
    namespace: str | None = option("Search this namespace and all below it. Default: the root only.", "A/B"),
    everything: bool = flag("--everything", "Search every namespace."),
    kind: list[str] | None = option(_KIND_HELP, "KIND"),
    conversation: str | None = option("Only this conversation or thread.", "ID"),
    role: list[str] | None = option("Only messages of this role, such as user. Repeatable.", "ROLE"),
    before: datetime | None = time_option("Only results from before this time. Default time zone: UTC."),
    after: datetime | None = time_option("Only results from this time or later."),
    order: Order = option("Best first, or oldest first with replacements marked.", default="score"),
    limit: int = option("Maximum number of results.", "N", default=10, min=1, max=10_000),
    as_json: AsJson = False,
) -> CommandReport:
    """Search messages and memory, and explain each result.

    The search covers messages, facts, items and layers, without a model.

    JSON: a list of objects with kind, id, text, score, namespace, conversation_id, created_at, why, also, replaced_by.
    The object why has terms, nearby and signals, each with its contribution to the score.
    """
    kinds: Any = kind or None  # `search` checks them
    with console.open_existing(database) as memory:
        hits = memory.search(
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
        empty_text = "No results."
        if not hits and namespace is None and not everything:
            hint = console.format_hint(memory, kinds=kinds)
            empty_text = f"No results in the root namespace.{hint}{' Or search with --everything.' if hint else ''}"
            if as_json and hint:  # not on standard output, which has the empty list
                typer.echo(empty_text, err=True)
    numbers = itertools.count(1)

    def format_hit(hit: Recollection) -> Iterator[console.Line]:
        location = format_namespace(hit.namespace, *([] if hit.conversation_id is None else [hit.conversation_id]))
        details = f"{console.format_minute(hit.created_at)}  {hit.kind}  {location}  {hit.id}"
        yield f"{next(numbers)}. {hit.score:.2f}  {details}", "bold"
        yield f"   {console.shorten(hit.text)}"
        yield f"   why: {console.format_reasons(hit.why)}", "dim"
        if hit.replaced_by is not None:
            yield f"   replaced by: {' '.join(hit.replaced_by)}", "dim"

    return console.build_list_report(hits, format_hit, console.hit_to_json, empty_text, limit)


def studio(
    *,
    database: ExistingDatabase,
    port: int = option("Port; 0 for any free port.", default=8642, min=0, max=65_535),
    host: str = option("Address to listen on, also the expected host name.", default="127.0.0.1"),
    read_only: bool = flag("--read-only", "Open the database read-only."),
    open_browser: bool = flag("--open", "Open a browser."),
    user: str | None = option("Author of corrections. Default: your login name.", "NAME"),
    index: Literal["static"] | None = option("Embeddings, for vector search. Default: keyword search."),
    experiences: Path | None = option("Library of experiences to show.", "FOLDER"),
    as_json: AsJson = False,
) -> None:
    """Inspect and correct memory in a browser.

    By default, only this machine can connect. The printed address works once. Ctrl-C stops the server.

    JSON: an object with url.
    """

    def announce(url: str) -> None:
        CommandReport({"url": url}, f"Studio: {url} (Ctrl-C to stop)").emit(as_json=as_json)

    serve = load_server()
    index_config: IndexLike | None = None if index is None else {"embed": index}
    with console.open_existing(database, read_only=read_only, index=index_config) as memory:
        library = None if experiences is None else memory.experiences(experiences)
        options = {"host": host, "port": port, "user": user, "experiences": library, "open_browser": open_browser}
        serve(memory, announce=announce, **options)


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
for name in ("stats", "namespaces", "verify", "doctor", "backup", "restore", "export"):
    app.command(name)(getattr(database_commands, name))
app.command("import")(database_commands.import_)
for name in ("migrate", "copy", "erase", "prune", "key"):
    app.command(name)(getattr(database_commands, name))
app.command()(database_commands.import_from)


def build_cli() -> Callable[[], object]:
    """Build the command line: add the common options to each command, and wrap it.

    Commands with a database also have --schema, except `restore`, which always restores into the default schema.
    """
    root = typer.main.get_command(app)
    common = {param.name: param for param in root.params}
    root.params = [param for param in root.params if param.name not in {"as_json", "schema"}]
    pending = [*getattr(root, "commands", {}).values()]
    while pending:
        command = pending.pop()
        own_names = {param.name for param in command.params}
        if command.callback is not None:
            command.params += [] if "as_json" in own_names else [common["as_json"]]
            command.callback = _wrap_command(command.callback, takes_json="as_json" in own_names)
        command.params += [common["no_color"], common["key_file"], common["key_command"]]
        command.params += [common["schema"]] if "database" in own_names and command.name != "restore" else []
        pending += getattr(command, "commands", {}).values()  # the subcommands of a group
    return root


def _wrap_command(command: Callable[..., CommandReport | None], *, takes_json: bool) -> Callable[..., None]:
    """Return a function that runs a command, prints its report, and handles Ctrl-C.

    Args:
        command: The command.
        takes_json: True to pass `as_json` to the command.
    """

    def run(*, as_json: bool, **arguments: Any) -> None:
        with console.handle_interrupt():
            report = command(**arguments, as_json=as_json) if takes_json else command(**arguments)
            if report is not None:
                report.emit(as_json=as_json)

    return run
