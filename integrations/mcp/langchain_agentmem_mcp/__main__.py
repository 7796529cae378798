"""Run the command `agentmem-mcp` as `python -m langchain_agentmem_mcp`."""

import sys

from langchain_agentmem_mcp.command import main

if __name__ == "__main__":
    sys.exit(main())
