"""What a caller may give at most: the options of `AgentMemory(limits=…)`, and how they are checked.

What is stored is checked where it is about to be written, whoever writes it (`storage/engine.py`), so nothing of the
call stays; what is asked for is checked where it is asked.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from langchain_agentmem.base.options import Options
from langchain_agentmem.errors import LimitExceeded, safe_repr

_MEASURED = (bytes, str, memoryview)


class MemoryLimits(Options):
    """How much a caller may give at most, as `AgentMemory(limits=MemoryLimits(...))`.

    Attributes:
        value_bytes: Bytes of one value as it is stored: a message with all that it holds, an item, a record, a fact, an
            entry of the audit trail, a part of a checkpoint. Default: 256 MiB.
        batch: Values that one call writes: messages, items, blobs. Default: 1,000,000.
        query_chars: Characters of a query of a search. Default: 1,000,000, of which the first 100,000 count.
        conditions: Conditions of a filter of a store, those within others included; kinds, and roles, that a search is
            narrowed to. Default: 1,000.
        tags: Tags of a record. Default: 1,000.
        import_bytes: Bytes of a file that is read as a whole, as those of other programs are. Default: 1 GiB.

    Raises:
        InvalidInput: One of them is no whole number of 1 or more.
    """

    value_bytes: int = Field(default=256 * 2**20, ge=1)
    batch: int = Field(default=1_000_000, ge=1)
    query_chars: int = Field(default=1_000_000, ge=1)
    conditions: int = Field(default=1_000, ge=1)
    tags: int = Field(default=1_000, ge=1)
    import_bytes: int = Field(default=2**30, ge=1)

    def check(self, name: str, size: int, what: str) -> None:
        """Refuse what is too large.

        Args:
            name: The name of the limit.
            size: How large it is.
            what: What it is, for the error.

        Raises:
            LimitExceeded: It is larger than the limit.
        """
        if size > (most := getattr(self, name)):
            raise LimitExceeded(
                f"{what} is too large: {size:,}, and the limit {name} is {most:,}. Give less at once, or raise it with "
                f"AgentMemory(..., limits=MemoryLimits({name}={size}))."
            )

    def check_file(self, path: str | os.PathLike[str]) -> None:
        """Refuse a file that is too large to be read as a whole; one that is not there, its reader refuses.

        Raises:
            LimitExceeded: It is larger than `import_bytes`.
        """
        try:
            size = os.stat(os.fspath(path)).st_size  # noqa: PTH116 - a path may be text, but no file descriptor
        except (OSError, ValueError, TypeError):
            return
        self.check("import_bytes", size, f"The file {safe_repr(str(path))}")

    def check_rows(self, query: str, names: Sequence[str], rows: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Refuse values that are about to be written.

        Args:
            query: The name of the query that writes them.
            names: The parameters that hold values.
            rows: Its parameters.

        Raises:
            LimitExceeded: One is larger than `value_bytes`, or there are more than `batch`.
        """
        if not isinstance(rows, list):
            rows = [rows]
        elif len(rows) > self.batch:
            self.check("batch", len(rows), f"What one call writes ({query})")
        most = self.value_bytes
        for row in rows:
            for name in names:
                value = row[name]
                if isinstance(value, _MEASURED) and len(value) > most:
                    self.check("value_bytes", len(value), f"A value that is to be stored ({query})")


USUAL_LIMITS = MemoryLimits()
MEASURED_BEFORE = MemoryLimits(**dict.fromkeys(MemoryLimits.model_fields, 2**62))
"""Those of what was measured when it was written, such as a backup: it is to be had back whatever the limits were."""
