"""Which classes a checkpointer imports to make what it reads, and what is said of those that it does not import.

LangGraph's serializer writes an object as the name of its class with plain data. By default it imports whatever class
is named when it reads, and logs each name once: who can write to the database can then have modules of this machine
imported, and their classes called. A strict one imports only what LangGraph holds to be safe and what is allowed.
"""

from __future__ import annotations

import logging
import threading
from functools import lru_cache

from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

logger = logging.getLogger(__name__)


class _Reading(threading.local):
    """Whether this thread makes what one of our checkpointers reads: events do not tell whose serializer they are of.

    Attributes:
        ours: Whether it does.
    """

    ours = False


reading = _Reading()


def serializer(*, strict: bool) -> JsonPlusSerializer:
    """LangGraph's own serializer.

    Args:
        strict: Whether it imports only the classes that LangGraph holds to be safe. Default: LangGraph's, which is
            strict where the environment variable LANGGRAPH_STRICT_MSGPACK says so.
    """
    return JsonPlusSerializer(allowed_msgpack_modules=None) if strict else JsonPlusSerializer()


def _listen(event: SerdeEvent) -> None:
    if event["kind"] == "msgpack_blocked" and reading.ours:
        _tell(event["module"], event["name"])


@lru_cache(1_000)
def _tell(module: str, name: str) -> None:
    """Say once how a class is allowed."""
    logger.warning(
        "Objects of the class %s.%s come back as plain data, since this checkpointer is strict. If it is yours, allow "
        'it: saver.with_allowlist([("%s", "%s")])',
        *(module, name, module, name),
    )


register_serde_event_listener(_listen)
