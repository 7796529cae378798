"""Compactions of graphs are made ahead of need, so that no turn waits for a model that summarizes.

When a context has come near its threshold, it is compacted in a thread, to a little less than usual: what is said until
the threshold is passed must fit too. What comes of it is kept in the database and not used yet; the turn that passes
the threshold finds it there. Where it is not ready by then, that turn compacts itself, as it would without this.

The right to do it is a job, one for each conversation, so that several processes ask the model once. A model that fails
leaves nothing behind; a later turn has it tried again.
"""

from __future__ import annotations

from langchain_agentmem.compaction.situation import Size

EARLY = 0.8
"""At which share of the threshold a context is compacted ahead."""
LEAST_SHARE = 0.3
"""How much of the target a compaction that is made ahead may use at least."""


def early(limit: Size) -> Size:
    """The size from which on a context is compacted ahead, by the size beyond which it must be."""
    return Size(
        tokens=None if limit.tokens is None else int(limit.tokens * EARLY),
        messages=None if limit.messages is None else int(limit.messages * EARLY),
        rounds=None if limit.rounds is None else int(limit.rounds * EARLY),
    )


def usable_share(limit: Size, target: Size) -> float:
    """Which share of the target may be used, so that there is room for what is said until the threshold is passed."""
    if limit.tokens is None or target.tokens is None:
        return 1.0
    return max(LEAST_SHARE, 1 - limit.tokens * (1 - EARLY) / target.tokens)
