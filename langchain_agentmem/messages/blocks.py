"""Content blocks, as whoever wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def kind_of(block: Any) -> str | None:
    """What kind of block it is, by its own word; None where it does not say, or what it says can be none.

    Args:
        block: A block of a message's content, or anything else that stands there.
    """
    kind = block.get("type") if isinstance(block, Mapping) else None
    return kind if isinstance(kind, str) else None
