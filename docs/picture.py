"""Draws what an example prints as a picture that needs nothing else, neither fonts nor scripts.

python examples/tracing.py | python docs/picture.py "python examples/tracing.py" docs/tracing.svg
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text


def picture(printed: str, title: str) -> str:
    """The picture of a terminal, as SVG.

    Args:
        printed: What stands in it.
        title: What stands above it.
    """
    lines = printed.splitlines()
    console = Console(width=max(map(len, lines)), record=True, file=io.StringIO())
    for line in lines:
        shown = Text(line)
        shown.highlight_regex(r"memory\.\w+\.\w+", "bold cyan")
        shown.highlight_regex(r"^ *[\d.]+ ms|[│├└─]", "dim")
        console.print(shown)
    svg = console.export_svg(title=title, unique_id="agentmem")
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # the fonts would be fetched from a server


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(picture(sys.stdin.read(), sys.argv[1]), encoding="utf-8")
