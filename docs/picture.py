"""Draws what `examples/tracing.py` prints as a picture that needs nothing else, neither fonts nor scripts.

Run it with `python docs/picture.py`; it writes `docs/tracing.svg`. It needs the extra `[cli]`.
"""

import io
import re
import runpy
from contextlib import redirect_stdout
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
    docs = Path(__file__).parent
    with redirect_stdout(io.StringIO()) as out:
        runpy.run_path(str(docs.parent / "examples" / "tracing.py"), run_name="__main__")
    docs.joinpath("tracing.svg").write_text(picture(out.getvalue(), "python examples/tracing.py"), encoding="utf-8")
