"""An MCP server that gives any MCP client access to the memory of langchain-agentmem.

    agentmem-mcp agent.db --namespace alice

This command serves stdin and stdout. With `--http 127.0.0.1:8765`, it serves streamable HTTP. In Python,
`create_server` makes a server for an open memory:

    server = create_server(AgentMemory("agent.db"), namespace=("alice",))
    server.run()

A client can search all memory, write records, core memory and facts, and read conversations. It can reach only its
own namespace and the namespaces below it. Remembered texts are returned as data, in separate fields.
"""

from __future__ import annotations

from langchain_agentmem_mcp.access import TOKENS_VARIABLE, tokens_of
from langchain_agentmem_mcp.server import create_server

__all__ = ["TOKENS_VARIABLE", "create_server", "tokens_of"]
