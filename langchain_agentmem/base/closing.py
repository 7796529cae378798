"""What is opened is closed again: with `with`, with `async with`, or by hand."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from types import TracebackType
from typing import Self


class Closing:
    """Something that is used with `with` or `async with`, and has a `close` of its own."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Close it. Closing twice is harmless."""

    async def aclose(self) -> None:
        """`close`, awaited."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
