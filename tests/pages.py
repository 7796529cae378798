"""The documentation as its readers run it: blocks of code, in order, each with its shown output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]
REPOSITORY = re.compile(
    r"https://(?:github\.com|raw\.githubusercontent\.com)/langchain-agentmem/langchain-agentmem/(?:(?:blob|tree)/)?main/(.*)"
)


@dataclass(frozen=True)
class Step:
    """One thing that a reader does.

    Attributes:
        kind: "python", "command", or the language of a block that is read, and not run.
        text: The program, the command, or what the block holds.
        output: What the page says that it prints, where `…` stands for what varies. None where it says nothing.
    """

    kind: str
    text: str
    output: str | None = None


def _tokens(page: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text(encoding="utf-8"))


def blocks_of(page: str, language: str) -> list[str]:
    """The blocks of one language, each as it stands there."""
    return [token.content for token in _tokens(page) if token.type == "fence" and token.info == language]


def steps_of(page: str) -> list[Step]:
    """Return the steps in the blocks of a page, in order.

    A `sh` block has a command on each line. In a `console` block these begin with `$ `, and what follows is printed by
    them; a `text` block is what the program above it prints.
    """
    steps: list[Step] = []
    for token in _tokens(page):
        assert token.type != "code_block", f"{page}: say of which language this is: {token.content}"
        if token.type != "fence":
            continue
        if token.info == "sh":
            lines = token.content.replace("\\\n", "").splitlines()
            steps += [Step("command", line) for line in lines if line and not line.startswith("#")]
        elif token.info == "console":
            nothing, *commands = re.split(r"^\$ ", token.content, flags=re.MULTILINE)
            assert not nothing, f"{page}: a console block begins with a command, after `$ `: {nothing}"
            steps += [Step("command", line, output) for line, _, output in (each.partition("\n") for each in commands)]
        elif token.info == "text":
            assert steps, f"{page}: of what is this the output? {token.content}"
            assert (steps[-1].kind, steps[-1].output) == ("python", None), f"{page}: of what is this? {token.content}"
            steps[-1] = Step("python", steps[-1].text, token.content)
        else:
            assert token.info in {"python", "json", "sql"}, f"{page}: nothing runs a block of {token.info!r}"
            steps.append(Step(token.info, token.content))
    return steps


def named_in(page: str) -> Iterator[str]:
    """Return the inline code of a page."""
    for token in _tokens(page):
        yield from (child.content for child in token.children or () if child.type == "code_inline")


def is_shown(shown: str, printed: str) -> bool:
    """Return whether a page shows an output: `…` is any text in a line, and alone on a line any lines."""
    pattern = ""
    for line in shown.strip().splitlines():
        said = r"\s+".join(re.escape(word).replace("…", ".*") for word in line.split())
        pattern += r"(?:.*\n)*?" if line.strip() == "…" else rf"\s*{said}\s*\n"
    return re.fullmatch(pattern, printed.strip() + "\n") is not None


def anchors_of(path: Path) -> set[str]:
    """The names by which links lead to the headings of a page."""
    tokens = _tokens(path.relative_to(ROOT).as_posix())
    headings = [tokens[number + 1].content for number, token in enumerate(tokens) if token.type == "heading_open"]
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", each).strip().lower()) for each in headings}


def links_of(page: str) -> Iterator[tuple[str, Path, str]]:
    """Each link of a page, or picture in it, that leads to a file of this project, with the file and the anchor."""
    for token in _tokens(page):
        for child in token.children or ():
            link = str(child.attrs.get("href", child.attrs.get("src", "")))
            ours = REPOSITORY.fullmatch(link)
            if link and (ours or not re.match(r"\w+:", link)):
                path, _, anchor = (ours[1] if ours else link).partition("#")
                where = ROOT if ours else (ROOT / page).parent
                yield link, (where / path if path else ROOT / page).resolve(), anchor
