"""What all contract suites have in common: the store under test, called in each of its ways."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import pytest
from langgraph.store.base import (
    NOT_PROVIDED,
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    NotProvided,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from langchain_agentmem.base.safe_repr import safe_repr

Way: TypeAlias = Literal["sync", "async"]
Namespace: TypeAlias = tuple[str, ...]


class Calls:
    """A store, called through its synchronous methods or through the awaited ones.

    Args:
        store: The store.
        way: "sync" or "async".
    """

    def __init__(self, store: BaseStore, way: Way) -> None:
        self.store = store
        self.way = way

    async def batch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` or `abatch`."""
        return self.store.batch(ops) if self.way == "sync" else await self.store.abatch(ops)

    async def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """`put` or `aput`."""
        if self.way == "sync":
            self.store.put(namespace, key, value, index, ttl=ttl)
        else:
            await self.store.aput(namespace, key, value, index, ttl=ttl)

    async def put_all(self, namespace: Namespace, values: Mapping[str, Mapping[str, Any]]) -> None:
        """Put several values, in one batch."""
        await self.batch([PutOp(namespace, key, value) for key, value in values.items()])

    async def get(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """`get` or `aget`."""
        if self.way == "sync":
            return self.store.get(namespace, key, refresh_ttl=refresh_ttl)
        return await self.store.aget(namespace, key, refresh_ttl=refresh_ttl)

    async def existing(self, namespace: Namespace, key: str) -> Item:
        """The item, which must be there."""
        item = await self.get(namespace, key)
        assert item is not None, f"the item {safe_repr(key)} in {safe_repr(namespace)} must be there"
        return item

    async def delete(self, namespace: Namespace, key: str) -> None:
        """`delete` or `adelete`."""
        if self.way == "sync":
            self.store.delete(namespace, key)
        else:
            await self.store.adelete(namespace, key)

    async def search(self, prefix: Namespace, **options: Any) -> list[SearchItem]:
        """`search` or `asearch`."""
        return (
            self.store.search(prefix, **options) if self.way == "sync" else await self.store.asearch(prefix, **options)
        )

    async def keys(self, prefix: Namespace, **options: Any) -> list[str]:
        """The keys of what `search` finds, in its order."""
        return [item.key for item in await self.search(prefix, **options)]

    async def namespaces(self, **options: Any) -> list[Namespace]:
        """`list_namespaces` or `alist_namespaces`."""
        if self.way == "sync":
            return self.store.list_namespaces(**options)
        return await self.store.alist_namespaces(**options)


class Contract:
    """A suite of tests. Its fixtures are to be overridden where their docstrings say so.

    Attributes:
        ways: How the store can be called: "sync", "async" or, by default, both.
        known_defects: The tests that the store is known to fail, each with the reason: "test_name", or for some of its
            cases only "test_name[case]". They must fail.
    """

    ways: ClassVar[tuple[Way, ...]] = ("sync", "async")
    known_defects: ClassVar[Mapping[str, str]] = {}
    pytestmark = pytest.mark.asyncio

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test in each way."""
        if "way" in metafunc.fixturenames:
            metafunc.parametrize("way", self.ways)

    @pytest.fixture(autouse=True)
    def expected_to_fail(self, request: pytest.FixtureRequest) -> None:
        """Marks the tests of known defects."""
        name, _, cases = request.node.name.partition("[")
        for defect, reason in self.known_defects.items():
            test, _, case = defect.partition("[")
            if test == name and (not case or f"-{case.removesuffix(']')}-" in f"-{cases.removesuffix(']')}-"):
                request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.fixture
    def calls(self, store: BaseStore, way: Way) -> Calls:
        """The store, called in one of its ways."""
        return Calls(store, way)

    @pytest.fixture
    def tick(self) -> Callable[[], None]:
        """Moves time on between two writes that must not have the same time. Default: waits some milliseconds.

        Override it for a store whose clock is injected, or whose times are coarse.
        """
        return lambda: time.sleep(0.005)

    async def test_known_defects_are_names_of_tests(self) -> None:
        """A defect that is named wrongly would be marked nowhere."""
        wrong = [name for name in self.known_defects if not hasattr(self, name.partition("[")[0])]
        assert wrong == [], f"known_defects must hold names of tests of {type(self).__name__}; these are none: {wrong}"


def conditions(**paths: Namespace) -> tuple[MatchCondition, ...]:
    """Match conditions: `prefix=` or `suffix=` or both."""
    return tuple(MatchCondition(match_type=kind, path=path) for kind, path in paths.items())  # type: ignore[arg-type]


__all__ = ["Calls", "Contract", "GetOp", "ListNamespacesOp", "Namespace", "PutOp", "SearchOp", "Way", "conditions"]
