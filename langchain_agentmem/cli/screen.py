"""What the demo and the commands print: lines of plain text, tables, and a progress bar where somebody is watching.

The demo tells programs in JSON what it tells people in lines (`JsonScreen`).

What memory holds was written by others, so it is printed as text: no markup, and no characters that a terminal would
obey or a reader would not see; they are shown as their numbers.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from langchain_agentmem.cli.console import counted, hit, print_json
from langchain_agentmem.cli.network_fence import speaker_of
from langchain_agentmem.search.memory_search import Recollection

T = TypeVar("T")

LONGEST_LINE = 160
RECALLED = 3
"""How much of what was recalled is printed for an exchange."""

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"
"""They belong to the spelling of some languages, and to pictures that are made of several."""


class Told(TypedDict, total=False):
    """One turn of talk with the agent.

    Attributes:
        process: The process that it took place in.
        conversation: The conversation's id.
        speaker: Who spoke to the agent.
        transcript: The transcript that was asked about; nobody is named as its speaker.
        category: The kind of question.
        said: What was said to the agent.
        answer: What it answered.
        expected: What it should have answered.
        evidence: The ids of the messages that hold the answer.
        ms: Milliseconds that it took.
        recalled: What the agent recalled, the best first.
    """

    process: int
    conversation: str
    speaker: str
    transcript: str
    category: str | None
    said: str
    answer: str
    expected: str | None
    evidence: Sequence[str]
    ms: float
    recalled: Sequence[Recollection]


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

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: Iterable[str] = ()) -> None:
        """Print a table; where nobody watches, plain columns that are as wide as they have to be.

        Args:
            headings: The names of its columns.
            rows: A text for each column.
            right: The columns that are flush right.
        """
        numbers = frozenset(right)
        texts = [[printable(cell) for cell in row] for row in rows]
        if self._console.is_terminal:
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
            for heading in headings:
                justify: Literal["left", "right"] = "right" if heading in numbers else "left"
                table.add_column(Text(heading), justify=justify, overflow="fold")
            for row in texts:
                table.add_row(*map(Text, row))
            self._console.print(table)
            return
        every = [list(headings), *texts]
        widths = [max(cell_len(row[column]) for row in every) for column in range(len(headings))]
        for row in every:
            cells = [
                " " * (width - cell_len(cell)) + cell if heading in numbers else cell + " " * (width - cell_len(cell))
                for heading, cell, width in zip(headings, row, widths, strict=True)
            ]
            self.line("  ".join(cells).rstrip())

    def more(self, shown: int, total: int) -> None:
        """Say how many are not shown, if any, and how to see them.

        Args:
            shown: How many are.
            total: How many there are.
        """
        if total > shown:
            self.line(f"… and {total - shown:,} more: --limit {total}", "dim")

    def before(self, left_out: int, total: int) -> None:
        """Say how many that come before the first that is shown are left out, if any, and how to see them.

        Args:
            left_out: How many are.
            total: How many there are.
        """
        if left_out > 0:
            self.line(f"… {left_out:,} before these: --limit {total}", "dim")

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

    def exchange(self, told: Told, *, most: int = RECALLED) -> None:
        """Print one turn of talk.

        Args:
            told: It.
            most: How much to print of what was recalled. Default: `RECALLED`.
        """
        if most:
            self.line()
        self.line(f"  {told.get('speaker') or told['transcript']}: {told['said']}", "cyan")
        self.line(f"  Agent: {told['answer']}", "green")
        if (expected := told.get("expected")) is not None:
            self.line(f"  Expected: {expected}")
        if most:
            self.recollections(told["recalled"], most=most, marked=told.get("evidence", ()))

    def examples(self, items: Sequence[T], most: int) -> Sequence[T]:
        """Those of many that are worth printing, spread over all.

        Args:
            items: All.
            most: How many.
        """
        return items[:: max(1, len(items) // most)][:most]

    def summary(self, figures: Mapping[str, Any], lines: Iterable[str]) -> None:
        """Print what came of it all.

        Args:
            figures: By name, for programs.
            lines: The same, for people.
        """
        del figures
        for line in lines:
            self.line(line)

    def progress(self, title: str, items: Sequence[T], *, unit: str) -> Iterator[T]:
        """Go through items while showing how far it went; where nobody watches, say so in one line.

        Args:
            title: What is being done.
            items: The items.
            unit: What several of them are called.
        """
        if not self._console.is_terminal:
            self.line(f"{title}: {counted(len(items), unit)}")
            yield from items
            return
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeRemainingColumn(), console=self._console) as bar:
            yield from bar.track(items, description=printable(title))

    def flush(self) -> None:
        """Hand over what was printed, before another process prints."""
        self._console.file.flush()


class JsonScreen(Screen):
    """Prints exchanges and the summary, each as one line of JSON, and nothing else."""

    def line(self, text: str = "", style: str = "") -> None:
        """Print nothing."""

    def progress(self, title: str, items: Sequence[T], *, unit: str) -> Iterator[T]:  # noqa: ARG002 - as its base has it
        """Go through items."""
        yield from items

    def exchange(self, told: Told, *, most: int = RECALLED) -> None:  # noqa: ARG002 - all of it is printed
        """Print one turn of talk."""
        recalled = [hit(each) for each in told["recalled"]]
        print_json({"type": "exchange", **told, "recalled": recalled}, indent=None)

    def examples(self, items: Sequence[T], most: int) -> Sequence[T]:  # noqa: ARG002
        """All of them."""
        return items

    def summary(self, figures: Mapping[str, Any], lines: Iterable[str]) -> None:  # noqa: ARG002
        """Print the figures."""
        print_json({"type": "summary", **figures}, indent=None)


def printable(text: str) -> str:
    """The text with characters that a terminal would obey, or that cannot be seen, as their numbers.

    Args:
        text: Any text. Tabs and ends of lines become spaces.
    """
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in "\t\n":
        return " "
    if unicodedata.category(character) not in _UNSEEN or character in _JOINERS:
        return character
    return character.encode("ascii", "backslashreplace").decode() if character >= "\x80" else f"\\x{ord(character):02x}"


def shortened(text: str) -> str:
    """The text on one line, cut where it is long.

    Args:
        text: Any text.
    """
    joined = " ".join(text.split())
    return joined if len(joined) <= LONGEST_LINE else joined[: LONGEST_LINE - 1] + "…"
