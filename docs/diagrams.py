"""Draws the pictures of the concepts: `python docs/diagrams.py` writes `docs/images/*.svg`.

A picture is boxes and arrows at places of a grid. Its colours follow the reader's light or dark setting.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

IMAGES = Path(__file__).parent / "images"
WIDE, HIGH, BOX, TALL = 118, 64, 100, 36
"""The grid, and a box in it."""
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2421; }
.quiet { fill: #5a615d; paint-order: stroke; stroke: #faf9f6; stroke-width: 5px; }
rect { fill: #fff; stroke: #24594a; stroke-width: 1.4; } .gone rect { stroke: #8a8f8b; stroke-dasharray: 4 3; }
.strong rect { fill: #24594a; } .strong text { fill: #fff; } path { fill: none; stroke: #24594a; stroke-width: 1.4; }
.head { fill: #24594a; stroke: none; } .gone path { stroke: #8a8f8b; stroke-dasharray: 4 3; }
.ground { fill: #faf9f6; stroke: none; }
@media (prefers-color-scheme: dark) {
text { fill: #e8ebe6; } .quiet { fill: #a9b1ac; stroke: #151917; }
rect { fill: #1c211f; stroke: #86d0b8; } path { stroke: #86d0b8; }
.head { fill: #86d0b8; } .strong rect { fill: #86d0b8; } .strong text { fill: #10231d; } .ground { fill: #151917; }
}
"""


class Box(NamedTuple):
    """Something at a place of the grid: up to two lines of text, and how it looks ("", "strong" or "gone")."""

    column: float
    row: float
    text: str
    look: str = ""


class Arrow(NamedTuple):
    """From one box to another, by their numbers, with a word beside it."""

    start: int
    end: int
    text: str = ""
    look: str = ""


class Note(NamedTuple):
    """Text at a place of the grid."""

    column: float
    row: float
    text: str


def drawn(title: str, boxes: Sequence[Box], arrows: Sequence[Arrow], notes: Sequence[Note] = ()) -> str:
    """A picture as SVG."""
    right = max(box.column for box in boxes) + 1
    below = max([*(box.row for box in boxes), *(note.row for note in notes)]) + 1
    wide = max([int(right * WIDE), *(int(note.column * WIDE + 6.6 * len(note.text)) for note in notes)]) + 20
    high = int(below * HIGH)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<rect class="ground" width="{wide}" height="{high}"/>',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">',
        '<path class="head" d="M0 0 8 4 0 8z"/></marker></defs>',
        *(_arrow(boxes[arrow.start], boxes[arrow.end], arrow) for arrow in arrows),
    ]
    for box in boxes:
        left, top = _corner(box)
        lines = box.text.split("\n")
        first = top + TALL / 2 + 4 - 7 * (len(lines) - 1)
        texts = "".join(
            f'<text x="{left + BOX / 2}" y="{first + 14 * at}" text-anchor="middle">{escape(line)}</text>'
            for at, line in enumerate(lines)
        )
        parts.append(
            f'<g class="{box.look}"><rect x="{left}" y="{top}" width="{BOX}" height="{TALL}" rx="7"/>{texts}</g>'
        )
    for note in notes:
        left, middle = 10 + note.column * WIDE, 14 + note.row * HIGH + TALL / 2
        parts.append(f'<text class="quiet" x="{left}" y="{middle}">{escape(note.text)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _corner(box: Box) -> tuple[float, float]:
    return 10 + box.column * WIDE, 10 + box.row * HIGH


def _arrow(start: Box, end: Box, arrow: Arrow) -> str:
    (left, top), (to_left, to_top) = _corner(start), _corner(end)
    if end.column > start.column:
        path = f"M{left + BOX} {top + TALL / 2}"
        half = (left + BOX + to_left) / 2
        path += f" C{half} {top + TALL / 2} {half} {to_top + TALL / 2} {to_left - 1} {to_top + TALL / 2}"
    else:
        begin, stop = (TALL, -1) if to_top > top else (0, TALL + 1)
        path = f"M{left + BOX / 2} {top + begin} L{to_left + BOX / 2} {to_top + stop}"
    middle = ((left + to_left + BOX) / 2, (top + to_top + TALL) / 2 - 5)
    word = f'<text class="quiet" x="{middle[0]}" y="{middle[1]}" text-anchor="middle">{escape(arrow.text)}</text>'
    return f'<g class="{arrow.look}"><path d="{path}" marker-end="url(#head)"/>{word if arrow.text else ""}</g>'


PICTURES = {
    "scopes": drawn(
        "Three threads of Ada share what their newest checkpoints show; Bob's thread sees nothing of it.",
        [
            Box(0, 0, "monday\nhome: Lisbon"),
            Box(0, 1, "tuesday\npet: a cat"),
            Box(0, 2, "written outside\nlanguage: en"),
            Box(2, 1, "users / ada\nwhat counts", "strong"),
            Box(4, 0, "prompts"),
            Box(4, 1, "searches, lists"),
            Box(4, 2, "tools, facts"),
            Box(0, 3.3, "bob, monday\nhome: Porto"),
            Box(2, 3.3, "users / bob", "strong"),
        ],
        [
            *(Arrow(at, 3, "newest checkpoint" if at == 0 else "") for at in (0, 1, 2)),
            *(Arrow(3, at) for at in (4, 5, 6)),
            Arrow(7, 8),
        ],
    ),
    "checkpoints": drawn(
        "A thread forks where the user edits a message; each fork shows what led to it.",
        [
            Box(0, 0, "1\nHello."),
            Box(1.25, 0, "2\n… in Lisbon.", "gone"),
            Box(2.5, 0, "3\nNoted.", "gone"),
            Box(1.25, 1.2, "4\n… in Porto."),
            Box(2.5, 1.2, "5, the newest\nNoted.", "strong"),
        ],
        [Arrow(0, 1, look="gone"), Arrow(1, 2, look="gone"), Arrow(0, 3), Arrow(3, 4)],
        [Note(3.6, 0, "remembers: Hello, Lisbon (left, but kept)"), Note(3.6, 1.2, "remembers: Hello, Porto")],
    ),
    "branches": drawn(
        "A branch, and a fork that sees what was there.",
        [
            Box(0, 0, "plan\ntraveller: Ada"),
            Box(1.4, 0, "plan\nhotel: Harbour", "strong"),
            Box(1.4, 1.2, "draft\nLovelace"),
            Box(2.8, 1.2, "draft\n+ night train", "strong"),
        ],
        [Arrow(0, 1), Arrow(0, 2, "fork"), Arrow(2, 3)],
        [Note(0, 2.1, "A fork is one row. The draft does not see the hotel, which came later.")],
    ),
    "compaction": drawn(
        "The history stays whole; the context shows its beginning, a summary and its end.",
        [
            Box(0, 0, "system"),
            Box(1, 0, "first question"),
            Box(2, 0, "3 … 40", "gone"),
            Box(3, 0, "41 … 59"),
            Box(4, 0, "60, newest"),
            Box(0, 1.5, "system"),
            Box(1, 1.5, "first question"),
            Box(2, 1.5, "summary", "strong"),
            Box(3, 1.5, "41 … 59"),
            Box(4, 1.5, "60, newest"),
            Box(2, 2.8, "recall_dropped\nexpand"),
        ],
        [*(Arrow(at, at + 5) for at in range(5)), Arrow(10, 7, "brings back")],
        [Note(5.1, 0, "history, in the log"), Note(5.1, 1.5, "what the model is shown")],
    ),
}


def main(folder: Path) -> None:
    """Write the pictures."""
    folder.mkdir(exist_ok=True)
    for name, picture in PICTURES.items():
        (folder / f"{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
