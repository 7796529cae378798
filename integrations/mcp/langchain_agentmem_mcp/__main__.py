"""`python -m langchain_agentmem_mcp` is the command `agentmem-mcp`."""

import sys

from langchain_agentmem_mcp.command import main

if __name__ == "__main__":
    sys.exit(main())
