"""Calls of methods that have awaited twins, written once for those who wait and for those who await.

Whatever calls methods of a layered memory or of a model is a generator of calls: `called` makes them, `acalled` awaits
the twins, whose names begin with an `a`. What goes wrong is raised in the generator, at the place where it called.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

from langchain_agentmem.base.apart import led

T = TypeVar("T")


class Call(NamedTuple):
    """A method to be called, or its awaited twin.

    Attributes:
        target: What has the method, and one of the same name with an `a` before it.
        method: Its name.
        arguments: What it is given by place.
        named: What it is given by name.
    """

    target: Any
    method: str
    arguments: tuple[Any, ...] = ()
    named: Mapping[str, Any] = MappingProxyType({})


Calls: TypeAlias = Generator[Call, Any, T]
"""Yields calls, is sent what they return, returns a `T`."""


def called(calls: Calls[T]) -> T:
    """Make the calls of a generator; what they raise is raised in it."""
    try:
        call = next(calls)
        while True:
            try:
                answer = getattr(call.target, call.method)(*call.arguments, **call.named)
            except Exception as error:  # noqa: BLE001 - it is the generator's to handle
                call = calls.throw(error)
            else:
                call = calls.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # StopIteration is not generic
    finally:
        calls.close()


async def acalled(calls: Calls[T]) -> T:
    """`called`, with awaited twins."""
    return await led(calls, _acall)


async def _acall(call: Call) -> Any:
    return await getattr(call.target, f"a{call.method}")(*call.arguments, **call.named)
