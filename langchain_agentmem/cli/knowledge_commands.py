"""`agentmem facts` and `agentmem experiences`: what is known and when it held, and what was learned to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.base.safe_repr import counted
from langchain_agentmem.cli import console
from langchain_agentmem.cli.console import Existing, Line, Most, Report, Whose, argument, flag, option, time_option
from langchain_agentmem.errors import InvalidInput

if TYPE_CHECKING:
    from langchain_agentmem.experiences.model_choice import Selection
    from langchain_agentmem.facts.fact import Fact, Neighbour
    from langchain_agentmem.facts.kg_memory import KGMemory


def facts(
    *,
    database: Existing,
    words: list[str] | None = argument("Only facts that name it.", "ENTITY", default=None),
    namespace: Whose = None,
    branch: str = option("A named branch of memory.", "NAME", default=console.MAIN),
    thread: str | None = option("The memory of this thread, in place of a branch.", "ID"),
    at: str | None = option("As the thread knew it there. Default: the newest.", "CHECKPOINT"),
    as_of: datetime | None = time_option("What held then. Default: now."),
    known: datetime | None = time_option("As it was known then. Default: now."),
    history: bool = flag("--history", "All that ever held of ENTITY, ended or not."),
    neighbours: bool = flag("--neighbours", "What is connected with ENTITY, the nearest first."),
    depth: int = option("With --neighbours: how many facts away.", "N", default=1, min=1, max=10),
    limit: Most = None,
) -> Report:
    """List what is known, and what was.

    Without options: the facts that hold. Or those that held at a time, all that ever held of an entity, or what is
    connected with it.

    A TIME is as in 2026-05-31 or 2026-05-31T18:30+02:00; without a time zone it is in UTC.

    JSON: a list of objects with id, role, subject, predicate, object, valid_from, valid_to, recorded_at, sources,
    confidence, ended_by; with --neighbours with name, distance, fact.
    """
    entity = " ".join(words) if words else None
    if entity is None and (history or neighbours):
        raise InvalidInput("--history and --neighbours are those of an ENTITY: name it.")
    if history and (neighbours or as_of is not None):
        raise InvalidInput("--history shows all that ever held: neither --neighbours nor --as-of go with it.")
    if at is not None and thread is None:
        raise InvalidInput("--at is a checkpoint of a thread: name it with --thread.")
    with console.existing(database) as memory:
        place = _place(memory, namespace, branch, thread, at)
        near: list[Neighbour] = []
        found: list[Fact] = []
        if entity is not None and neighbours:
            near = place.neighbours(entity, depth, valid=as_of, recorded=known)
        elif entity is not None and history:
            found = place.history(entity, recorded=known)
        else:
            found = place.as_of(as_of, known) if entity is None else _naming(place, entity, as_of, known)
        empty = "No such facts are known."
        if not near and not found:
            empty += console.elsewhere(memory, place.namespace, ["fact"], threads=thread is None)
    if neighbours:
        return console.list_report(near, _near_lines, _near, empty, limit)
    return console.list_report(found, _lines, lambda fact: fact.to_dict(), empty, limit)


def _place(memory: AgentMemory, namespace: str | None, branch: str, thread: str | None, at: str | None) -> KGMemory:
    """Whose facts are meant."""
    if thread is None:
        return memory.facts(branch, console.branch_home(memory, namespace, branch))
    return memory.facts(console.checkpoint_at(memory, console.one_thread(memory, thread, namespace), at).config)


def _naming(place: KGMemory, entity: str, valid: datetime | None, recorded: datetime | None) -> list[Fact]:
    """The facts that are about an entity, or that it is the object of."""
    about = place.as_of(valid, recorded, subject=entity)
    of_it = place.as_of(valid, recorded, obj=entity)
    together: dict[str, Any] = {fact.id: fact for fact in (*about, *of_it)}
    return sorted(together.values(), key=lambda fact: fact.valid_from)


def _near(near: Neighbour) -> dict[str, Any]:
    return {"name": near.name, "distance": near.distance, "fact": near.fact.to_dict()}


def _near_lines(near: Neighbour) -> Iterator[Line]:
    yield f"{near.name}  ({near.distance} away)", "bold"
    yield from _lines(near.fact)


def _lines(fact: Fact) -> Iterator[Line]:
    sure = "" if fact.confidence is None else f"  {fact.confidence:.0%} sure"
    yield f"{console.shortened(fact.text)}  {fact.period}{sure}  {fact.id}"
    if fact.sources:
        yield f"   told by {fact.role}: {', '.join(fact.sources)}", "dim"


experiences = typer.Typer(
    name="experiences",
    help="Handcrafted experiences: what to do, and when.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folder = Annotated[str, typer.Argument(help="The folder, with files *.yaml or *.yml.")]
Subfolders = Annotated[bool, typer.Option("--subfolders", help="Files in folders below it count too.")]


@experiences.command()
def check(*, folder: Folder, subfolders: Subfolders = False) -> Report:
    """List what counts, and what is wrong with files. The exit code is 1 where a file does not count."""
    with AgentMemory(":memory:") as memory:
        found = memory.experiences(folder, subfolders=subfolders).validate()
    refused = sum(not problem.is_loaded for problem in found.problems)
    lines: list[Line] = []
    for each in found.experiences:
        lines += [
            (f"{each.exp_id}  ({', '.join(each.who) or 'everybody'})", "bold"),
            f"   {console.shortened(each.when)}",
        ]
    lines += [(str(problem), "yellow" if problem.is_loaded else "red") for problem in found.problems]
    lines.append(f"{counted(len(found.experiences), 'experiences')}; {counted(refused, 'files')} left out.")
    told = [each.to_dict() for each in found.experiences]
    value = {"ok": found.ok, "experiences": told, "problems": found.problems}
    return Report(value, lines, not found.ok)


@experiences.command()
def select(
    *,
    folder: Folder,
    query: Annotated[list[str], typer.Argument(help="What a user may ask, in one word or several.")],
    role: str | None = option("Who asks. Default: nobody in particular.", "NAME"),
    limit: int | None = option("Choose so many at most. Default: all that apply.", "N", min=1),
    subfolders: Subfolders = False,
) -> Report:
    """Show which experiences apply to a query by their words, and why. No model is asked."""
    from langchain_agentmem.experiences.lexical_choice import judged  # noqa: PLC0415

    with AgentMemory(":memory:") as memory:
        library = memory.experiences(folder, subfolders=subfolders)
        selection = library.selector(role=role, max_selected=limit).select(" ".join(query))
        conditions = {each.exp_id: each.when for each in library.load() if each.exp_id in selection.candidates}
    found = judged(selection.query, "", [*conditions.values()])
    scored = _scored(selection, dict(zip(conditions, (each.reason for each in found), strict=True)))
    lines: list[Line] = []
    for each in scored:
        if each["score"] > 0 or each["chosen"]:
            mark, style = ("*", "bold") if each["chosen"] else (" ", "dim")
            lines.append((f"{mark} {each['score']:.2f}  {each['exp_id']}", style))
            lines += [(f"   why: {each['reason']}", "dim")] if each["reason"] else []
    considered = counted(len(selection.candidates), "experiences")
    return Report(scored, [*lines, f"{len(selection.experiences)} of {considered} would be given (*)."])


def _scored(selection: Selection, reasons: Mapping[str, str]) -> list[dict[str, Any]]:
    """The candidates, the chosen ones first, then by their scores."""
    chosen = selection.ids
    others = [exp_id for exp_id in selection.candidates if exp_id not in chosen]
    order = [*chosen, *sorted(others, key=lambda exp_id: -selection.scores.get(exp_id, 0.0))]
    scores = {exp_id: round(selection.scores.get(exp_id, 0.0), 3) for exp_id in order}
    return [
        {"exp_id": each, "chosen": each in chosen, "score": scores[each], "reason": reasons.get(each, "")}
        for each in order
    ]
