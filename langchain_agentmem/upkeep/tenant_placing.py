"""Moving a tenant of a memory with shards into another schema; see `storage/shards.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_agentmem.audit import audit_entry
from langchain_agentmem.base.events import Watch, listener_given
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import is_pool, is_postgres, name_of
from langchain_agentmem.storage.engine import Opening

if TYPE_CHECKING:
    from langchain_agentmem.storage.shards import Moved


def move_tenant(
    url: Any,
    tenant: str,
    to: str | None = None,
    *,
    own_schema: str | None = None,
    dry_run: bool = False,
    progress: Watch | None = None,
    opening: Opening = Opening(),  # noqa: B008 - a value
) -> Moved:
    """Move all that is a tenant's into another schema, in one transaction, while others go on.

    Who reads goes on reading. Who writes something of this tenant waits until it has moved, and finds it where it is.

    Args:
        url: A `postgresql://` URL, a connection string, or a psycopg pool.
        tenant: The tenant, as `Scopes.tenant_of` gives it.
        to: One of the memory's schemas. Default: the one that a hash of its name says.
        own_schema: A schema that this tenant alone is pinned to; made if need be.
        dry_run: Whether to tell only how many rows would move.
        progress: Is told of how many of the tables the rows were moved.
        opening: How the memory is opened; without `shards`, as it was made.

    Returns:
        From where it moved, where to, and how many rows of each table.

    Raises:
        InvalidInput: There is no such schema, it is not for this tenant, no such tenant can be, or it shares what it
            remembers with another.
        StorageError: The database failed, or was busy for too long. Everything is as it was.
    """
    if to is not None and own_schema is not None:
        raise InvalidInput("A tenant moves to a schema of the memory, or to one of its own: name one of them.")
    if not is_pool(url) and not is_postgres(name_of(url)):
        raise InvalidInput(f"Tenants move between schemas of PostgreSQL, and {safe_repr(url)} is none.")
    told = listener_given(progress, "progress")
    from langchain_agentmem.storage.shards import Shards  # noqa: PLC0415 - an extra

    shards = Shards(url, opening)
    try:
        own = own_schema is not None
        return shards.move(tenant, own_schema or to, audit_entry.following, own=own, dry_run=dry_run, progress=told)
    finally:
        shards.close()
