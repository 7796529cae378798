"""Record how many o200k_base tokens each sample really has, in counts.json.

Run it when a sample changes, from the repository's root, where the vocabulary file is on the machine (it is not
downloaded; llama-index-core and litellm carry it, or name its folder in TIKTOKEN_CACHE_DIR):

    python tests/data/tokens/record.py
"""

import json
from pathlib import Path

from langchain_agentmem.language_models.tokens import TokenCounter

HERE = Path(__file__).parent
COMMAND = "python tests/data/tokens/record.py"


def main() -> None:
    counter = TokenCounter("tiktoken")
    counts = {path.stem: counter.count_text(path.read_text("utf-8")) for path in sorted(HERE.glob("*.txt"))}
    recorded = {"encoding": counter.name, "command": COMMAND, "counts": counts}
    (HERE / "counts.json").write_text(json.dumps(recorded, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
