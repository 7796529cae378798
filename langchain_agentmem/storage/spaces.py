"""The rows of namespaces, for tables that refer to them by number."""

from __future__ import annotations

from langchain_agentmem.errors import BranchMoved
from langchain_agentmem.storage.queries import query
from langchain_agentmem.storage.steps import Steps


def number_of(path: str) -> Steps[int]:
    """The number of a namespace, which is made if it is not there.

    Args:
        path: Its path.
    """
    rows = yield query.find_namespace(path=path)
    if not rows:
        yield query.create_namespace(path=path)
        rows = yield query.find_namespace(path=path)
    if not rows:
        raise BranchMoved  # somebody else removed it between the two: begin again
    return int(rows[0]["id"])
