"""What the demo prints: lines of plain text, and a progress bar where somebody is watching.

What memory holds was written by others, so it is printed as text: no markup, and no control characters that a
terminal would obey.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from langchain_agentmem.demo.fence import speaker_of
from langchain_agentmem.retrieval.search import Recollection

T = TypeVar("T")

LONGEST_LINE = 160


class Screen:
    """Prints to standard output.

    Args:
        console: Where to. Default: standard output.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, markup=False, emoji=False)

    def line(self, text: str = "", style: str = "") -> None:
        """Print one line.

        Args:
            text: Any text.
            style: How it looks on a terminal that knows colours.
        """
        self._console.print(Text(printable(text), style=style), soft_wrap=True)

    def heading(self, text: str) -> None:
        """Print a heading, after an empty line."""
        self.line()
        self.line(text, "bold")

    def recollections(self, found: Sequence[Recollection], *, most: int, marked: Iterable[str] = ()) -> None:
        """Print what was recalled, and why.

        Args:
            found: The best first.
            most: How many to print.
            marked: Ids to mark with a star.
        """
        stars = frozenset(marked)
        if not found:
            self.line("     recalled nothing", "dim")
        for each in found[:most]:
            star = "*" if each.id in stars else " "
            where = f"{each.conversation_id}, {each.created_at:%Y-%m-%d}"
            self.line(f"   {star} recalled [{where}] {speaker_of(each)}: {shortened(each.text)}")
            self.line(f"       why: {each.why}", "dim")

    def progress(self, title: str, items: Sequence[T], *, unit: str) -> Iterator[T]:
        """Go through items while showing how far it went; where nobody watches, say so in one line.

        Args:
            title: What is being done.
            items: The items.
            unit: What they are called.
        """
        if not self._console.is_terminal:
            self.line(f"{title}: {len(items):,} {unit}")
            yield from items
            return
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeRemainingColumn(), console=self._console) as bar:
            yield from bar.track(items, description=printable(title))

    def flush(self) -> None:
        """Hand over what was printed, before another process prints."""
        self._console.file.flush()


def printable(text: str) -> str:
    """The text without characters that a terminal would obey, or that cannot be printed.

    Args:
        text: Any text.
    """
    return "".join(" " if unicodedata.category(character) in {"Cc", "Cs"} else character for character in text)


def shortened(text: str) -> str:
    """The text on one line, cut where it is long.

    Args:
        text: Any text.
    """
    joined = " ".join(text.split())
    return joined if len(joined) <= LONGEST_LINE else joined[: LONGEST_LINE - 1] + "…"
