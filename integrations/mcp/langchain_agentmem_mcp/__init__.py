"""An MCP server that lends the memory of langchain-agentmem to any MCP client.

    agentmem-mcp agent.db --namespace alice

is such a server over stdin and stdout; `--http 127.0.0.1:8765` serves streamable HTTP. In Python, `create_server` makes
one of an open memory:

    server = create_server(AgentMemory("agent.db"), namespace=("alice",))
    server.run()

A client searches everything, keeps records, core memory and facts, and reads conversations. It sees its own namespace
and those below, whatever it asks for. What was remembered is given as data, in fields of its own.
"""

from __future__ import annotations

from langchain_agentmem_mcp.access import TOKENS_VARIABLE, tokens_of
from langchain_agentmem_mcp.server import create_server

__all__ = ["TOKENS_VARIABLE", "create_server", "tokens_of"]
