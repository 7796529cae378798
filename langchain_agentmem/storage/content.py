"""Content-addressed values: one copy of each body, whoever refers to it.

The key of a body is its BLAKE2b-160 digest. Whoever stores a reference stores the body first, in the same
transaction; whoever drops references collects afterwards what nothing refers to any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from langchain_agentmem.storage.queries import query
from langchain_agentmem.storage.steps import Steps

DIGEST_BYTES = 20


def digest(body: bytes) -> bytes:
    """The key of a body: 20 bytes of BLAKE2b."""
    return blake2b(body, digest_size=DIGEST_BYTES).digest()


def store(bodies: Mapping[bytes, bytes]) -> Steps[None]:
    """Keep bodies that are not kept yet.

    Args:
        bodies: Body by digest.
    """
    # In the order of their keys, so that two writers of the same bodies never wait for each other in a circle.
    rows = [{"hash": key, "body": bodies[key]} for key in sorted(bodies)]
    if len(rows) == 1:
        yield query.store_content(**rows[0])
    elif rows:
        yield query.store_content.many(rows)


def collect(hashes: Iterable[bytes]) -> Steps[None]:
    """Delete those of the given bodies that nothing refers to any more.

    Args:
        hashes: Digests that were referred to until now.
    """
    if rows := [{"hash": key} for key in sorted(set(hashes))]:
        yield query.lock_contents(hashes=json.dumps([row["hash"].hex() for row in rows]))
        yield query.collect_content.many(rows)
