"""`Closing` for what is opened and closed, and values that may be awaited as well as used."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Generator
from types import TracebackType
from typing import Any, Self


class Closing:
    """Something that is used with `with` or `async with`, and has a `close` of its own."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Close it. Closing twice is harmless."""

    async def aclose(self) -> None:
        """Async version of `close`."""
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


class Ready:
    """Nothing left to do, for those who await it and for those who do not."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class AwaitableNumber(int):
    """A number or a truth, for those who await it and for those who do not."""

    def __new__(cls, value: int) -> Self:
        """Keep what an await gives."""
        answer = super().__new__(cls, value)
        answer._value = value
        return answer

    _value: int

    def __await__(self) -> Generator[None, None, Any]:
        yield from ()
        return self._value
