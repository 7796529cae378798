"""In which conversation a run's history is recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_agentmem.base.namespaces import id_of, namespace_of, path_of, resolve
from langchain_agentmem.conversations.message_log import Address


def conversation_of(
    config: Mapping[str, Any], conversation_id: str | None = None, namespace: Sequence[str] | None = None
) -> Address | None:
    """The conversation of a run: that of its thread, unless another is named. None where there is neither.

    Args:
        config: The run's config.
        conversation_id: The one that is named.
        namespace: Whose it is. Default: the run's.

    Raises:
        InvalidInput: An id or namespace cannot be one.
    """
    name = conversation_id if conversation_id is not None else (config.get("configurable") or {}).get("thread_id")
    if name is None:
        return None
    return Address(path_of(resolve(namespace, config)), id_of(name, "conversation"))


def place_of(at: Address | None) -> dict[str, Any]:
    """What a trace shows of where something is recorded; nothing where it is not."""
    return {} if at is None else {"conversation_id": at.name, "namespace": list(namespace_of(at.path))}
