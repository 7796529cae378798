"""`agentmem facts`: what is known, what held when, how it changed, and what is connected with what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_agentmem.agent_memory import AgentMemory
from langchain_agentmem.cli.console import LIMIT, AsJson, Existing, Most, Whose, existing, print_json, time_named
from langchain_agentmem.cli.resolve import MAIN, branch_home, checkpoint_at, one_thread
from langchain_agentmem.cli.screen import Screen, shortened
from langchain_agentmem.errors import InvalidInput

if TYPE_CHECKING:
    from langchain_agentmem.facts.fact import Fact, Neighbour
    from langchain_agentmem.facts.kg_memory import KGMemory

NOTHING = "No such facts are known."


def facts(
    *,
    entity: Annotated[str | None, typer.Argument(metavar="ENTITY", help="Only facts that name it.")] = None,
    database: Existing,
    namespace: Whose = None,
    branch: Annotated[str, typer.Option("--branch", metavar="NAME", help="A named branch of memory.")] = MAIN,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", help="The memory of this thread, in place of a branch.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="CHECKPOINT", help="As the thread knew it there. Default: the newest.")
    ] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option("--as-of", metavar="TIME", parser=time_named, help="What held then. Default: now."),
    ] = None,
    known: Annotated[
        datetime | None,
        typer.Option("--known", metavar="TIME", parser=time_named, help="As it was known then. Default: now."),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="All that ever held of ENTITY, ended or not.")] = False,
    neighbours: Annotated[
        bool, typer.Option("--neighbours", help="What is connected with ENTITY, the nearest first.")
    ] = False,
    depth: Annotated[
        int, typer.Option("--depth", min=1, max=10, metavar="N", help="With --neighbours: how many facts away.")
    ] = 1,
    limit: Most = None,
    as_json: AsJson = False,
) -> None:
    """List what is known, and what was.

    Without options: the facts that hold. Or those that held at a time, all that ever held of an entity, or what is
    connected with it.

    A TIME is as in 2026-05-31 or 2026-05-31T18:30+02:00; without a time zone it is in UTC.

    JSON: a list of objects with id, role, subject, predicate, object, valid_from, valid_to, recorded_at, sources,
    confidence, ended_by; with --neighbours with name, distance, fact.
    """
    if entity is None and (history or neighbours):
        raise InvalidInput("--history and --neighbours are those of an ENTITY: name it.")
    if history and (neighbours or as_of is not None):
        raise InvalidInput("--history shows all that ever held: neither --neighbours nor --as-of go with it.")
    if at is not None and thread is None:
        raise InvalidInput("--at is a checkpoint of a thread: name it with --thread.")
    with existing(database) as memory:
        place = _place(memory, namespace, branch, thread, at)
        if entity is not None and neighbours:
            near = place.neighbours(entity, depth, valid=as_of, recorded=known)
            _print_near(near[:limit] if as_json else near, limit or LIMIT, as_json=as_json)
            return
        if entity is not None and history:
            found = place.history(entity, recorded=known)
        else:
            found = place.as_of(as_of, known) if entity is None else _naming(place, entity, as_of, known)
    if as_json:
        print_json([each.to_dict() for each in found[:limit]])
        return
    screen, most = Screen(), limit or LIMIT
    if not found:
        screen.line(NOTHING)
    for fact in found[:most]:
        _print(screen, fact)
    screen.more(min(most, len(found)), len(found))


def _place(memory: AgentMemory, namespace: str | None, branch: str, thread: str | None, at: str | None) -> KGMemory:
    """Whose facts are meant."""
    if thread is None:
        return memory.facts(branch, branch_home(memory, namespace, branch))
    return memory.facts(checkpoint_at(memory, one_thread(memory, thread, namespace), at).config)


def _naming(place: KGMemory, entity: str, valid: datetime | None, recorded: datetime | None) -> list[Fact]:
    """The facts that are about an entity, or that it is the object of."""
    about = place.as_of(valid, recorded, subject=entity)
    of_it = place.as_of(valid, recorded, obj=entity)
    together: dict[str, Any] = {fact.id: fact for fact in (*about, *of_it)}
    return sorted(together.values(), key=lambda fact: fact.valid_from)


def _print_near(near: Sequence[Neighbour], most: int, *, as_json: bool) -> None:
    if as_json:
        print_json([{"name": each.name, "distance": each.distance, "fact": each.fact.to_dict()} for each in near])
        return
    screen = Screen()
    if not near:
        screen.line(NOTHING)
    for each in near[:most]:
        screen.line(f"{each.name}  ({each.distance} away)", "bold")
        _print(screen, each.fact)
    screen.more(min(most, len(near)), len(near))


def _print(screen: Screen, fact: Fact) -> None:
    sure = "" if fact.confidence is None else f"  {fact.confidence:.0%} sure"
    screen.line(f"{shortened(fact.text)}  {fact.period}{sure}  {fact.id}")
    if fact.sources:
        screen.line(f"   told by {fact.role}: {', '.join(fact.sources)}", "dim")
