"""`agentmem search`: what answers a query, whatever its kind, and why it was found."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from langchain_agentmem.cli.console import (
    AsJson,
    Existing,
    Within,
    existing,
    hit,
    minute,
    named,
    namespace_named,
    print_json,
    time_named,
)
from langchain_agentmem.cli.screen import Screen, shortened
from langchain_agentmem.search.memory_search import Why


def search(
    *,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Any text.")],
    database: Existing,
    namespace: Within = "",
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Only message, fact, item, event, record or audit; may be repeated. Default: all but audit.",
        ),
    ] = None,
    conversation: Annotated[str | None, typer.Option(metavar="ID", help="Only this conversation or thread.")] = None,
    role: Annotated[
        list[str] | None, typer.Option(metavar="ROLE", help="Only what this role said, such as user; may be repeated.")
    ] = None,
    before: Annotated[
        datetime | None,
        typer.Option(metavar="TIME", parser=time_named, help="Only what was said before. Without a zone in UTC."),
    ] = None,
    after: Annotated[
        datetime | None, typer.Option(metavar="TIME", parser=time_named, help="Only what was said then or later.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Most results.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Find what was said, and why it was found.

    What is remembered besides, such as facts and items, is found too. The best comes first.

    JSON: a list of objects with kind, id, text, score, namespace, conversation_id, created_at, why; the latter with
    terms and signals, what each added to the score.
    """
    with existing(database) as memory:
        found = memory.search(
            query,
            namespace=namespace_named(namespace),
            limit=limit,
            kinds=kind or None,
            conversation_id=conversation,
            roles=role or None,
            before=before,
            after=after,
        )
    if as_json:
        print_json([hit(each) for each in found])
        return
    screen = Screen()
    for number, each in enumerate(found, 1):
        where = named(each.namespace, *([] if each.conversation_id is None else [each.conversation_id]))
        screen.line(f"{number}. {each.score:.2f}  {minute(each.created_at)}  {each.kind}  {where}  {each.id}", "bold")
        screen.line(f"   {shortened(each.text)}")
        screen.line(f"   why: {reasons(each.why)}", "dim")
    if not found:
        screen.line("Nothing was found.")


def reasons(why: Why) -> str:
    """Why something was found, what counted most first: "the words heron +1.20, grey +0.80; also date +0.30"."""
    terms, signals = (
        [f"{name} {value:+.2f}" for name, value in sorted(each.items(), key=lambda part: -abs(part[1]))]
        for each in (why.terms, why.signals)
    )
    parts = [f"the words {', '.join(terms)}" if len(terms) > 1 else f"the word {terms[0]}"] if terms else []
    if signals:
        parts.append(("also " if parts else "") + ", ".join(signals))
    return "; ".join(parts) or "no reason"
