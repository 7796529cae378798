"""Record how many o200k_base tokens each sample really has, in counts.json.

Run it when a sample changes, from the repository's root, where tiktoken is installed and finds its vocabulary file:

    python tests/data/tokens/record.py
"""

import json
from pathlib import Path

import tiktoken

HERE = Path(__file__).parent
COMMAND = "python tests/data/tokens/record.py"


def main() -> None:
    encoding = tiktoken.get_encoding("o200k_base")
    counts = {path.stem: len(encoding.encode_ordinary(path.read_text("utf-8"))) for path in sorted(HERE.glob("*.txt"))}
    recorded = {"encoding": encoding.name, "command": COMMAND, "counts": counts}
    (HERE / "counts.json").write_text(json.dumps(recorded, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
