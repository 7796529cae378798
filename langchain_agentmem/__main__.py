"""The entry point of `python -m langchain_agentmem`, which is the command `agentmem`."""

from __future__ import annotations

from langchain_agentmem.cli import main

if __name__ == "__main__":
    main()
