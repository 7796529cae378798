"""`agentmem doctor`: looks for trouble, explains it, and says what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from langchain_agentmem.cli.console import DATABASE_VARIABLE, AsJson, count, print_json
from langchain_agentmem.cli.screen import Screen
from langchain_agentmem.upkeep.diagnosis import Finding, diagnose

_SIGNS = {"ok": ("ok  ", ""), "note": ("note", "yellow"), "problem": ("BAD ", "red")}


def doctor(
    *,
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            metavar="PATH",
            envvar=DATABASE_VARIABLE,
            help="The database: a path or a postgresql:// URL. Default: only what is around every database.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not verify the content, which reads all of it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find and explain trouble, with a remedy for each.

    It looks at versions, permissions, locks, room and damage. The exit code is 1 where something is to be mended.

    JSON: an object with ok and findings. A finding has name, level ("ok", "note" or "problem"), text, remedy.
    """
    try:
        findings: list[Finding] = []
        screen = None if as_json else Screen()
        for finding in diagnose(database, deep=not quick):
            findings.append(finding)
            if screen is not None:
                _print(screen, finding)
    except KeyboardInterrupt:
        typer.echo("Interrupted. Nothing was changed.", err=True)
        raise typer.Exit(130) from None
    problems = sum(finding.level == "problem" for finding in findings)
    if screen is None:
        print_json({"ok": not problems, "findings": [finding._asdict() for finding in findings]})
    else:
        notes = sum(finding.level == "note" for finding in findings)
        screen.line(f"{count(problems, 'problem')}, {count(notes, 'note')}.", "bold")
    if problems:
        raise typer.Exit(1)


def _print(screen: Screen, finding: Finding) -> None:
    sign, style = _SIGNS[finding.level]
    screen.line(f"{sign}  {finding.name:<12}  {finding.text}", style)
    if finding.remedy and finding.level != "ok":
        screen.line(f"{'':<6}{'':<14}what to do: {finding.remedy}")
