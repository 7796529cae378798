"""The code blocks of the README, by file name."""

from __future__ import annotations

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
PYTHON = {code.partition("\n")[0].removeprefix("# "): code for kind, code in BLOCKS if kind == "python"}
[CONFIG] = [code for kind, code in BLOCKS if kind == "json"]
