"""Namespaces: walls between items, and the lists of them."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.base import InvalidNamespaceError

from langchain_agentmem.base.safe_repr import safe_repr
from tests.contracts.store_calling import (
    Calls,
    Contract,
    GetOp,
    ListNamespacesOp,
    Namespace,
    PutOp,
    SearchOp,
    conditions,
)

INVALID: dict[str, Any] = {
    "empty": (),
    "an empty label": ("a", ""),
    "a period": ("a.b",),
    "a number": ("a", 1),
    "a NUL": ("a\0b",),
    "LangGraph's own": ("langgraph", "a"),
}

NAMES: list[Namespace] = [("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("ab",), ("b", "c")]


class NamespaceContract(Contract):
    """Namespaces and `list_namespaces`."""

    @pytest.fixture
    def names(self) -> list[Namespace]:
        """The namespaces that the tests of lists use, in order."""
        return NAMES

    async def _fill(self, calls: Calls) -> None:
        await calls.batch([PutOp(namespace, key, {"n": 1}) for namespace in NAMES for key in ("k", "l")])

    @pytest.mark.parametrize("namespace", INVALID.values(), ids=INVALID.keys())
    async def test_an_invalid_namespace_is_refused(self, calls: Calls, namespace: Any) -> None:
        """`put` refuses it, and stores nothing."""
        with pytest.raises(InvalidNamespaceError):
            await calls.put(namespace, "k", {"n": 1})
        assert await calls.namespaces() == [], "a refused item must leave no namespace"

    @pytest.mark.parametrize("label", ["", "a.b", "a\0b"], ids=["empty", "a period", "a NUL"])
    async def test_a_batch_refuses_an_invalid_label_too(self, calls: Calls, label: str) -> None:
        """Operations given to `batch` bypass the methods that check, so the store must check them itself."""
        for op in (
            PutOp(("x", label), "k", {"n": 1}),
            GetOp(("x", label), "k"),
            SearchOp(("x", label)),
            ListNamespacesOp(match_conditions=conditions(prefix=("x", label))),
        ):
            with pytest.raises(InvalidNamespaceError):
                await calls.batch([PutOp(("good",), "k", {"n": 1}), op])
        assert await calls.get(("good",), "k") is None, "a batch with a refused operation must write nothing"

    async def test_a_namespace_is_a_wall(self, calls: Calls) -> None:
        """The same key in two namespaces is two items; a search goes down, never up or sideways."""
        await self._fill(calls)
        await calls.put(("a",), "k", {"n": "own"})
        assert (await calls.existing(("a", "b"), "k")).value == {"n": 1}, "each namespace must have items of its own"
        found = {item.namespace for item in await calls.search(("a",), limit=100)}
        assert found == {name for name in NAMES if name[0] == "a"}, "a prefix is made of whole labels, not of letters"
        found = {item.namespace for item in await calls.search(("a", "b"), limit=100)}
        assert found == {name for name in NAMES if name[:2] == ("a", "b")}, "search() must look below its prefix only"
        everything = await calls.search((), limit=100)
        assert len(everything) == 2 * len(NAMES), "an empty prefix must find everything"

    @pytest.mark.parametrize(
        "label", ["%", "_", "*", "?", "[ab]", "a_c", "\\", "it's", "ключ", "👩‍👩‍👧", "a b", "A"], ids=ascii
    )
    async def test_no_character_of_a_label_has_a_meaning(self, calls: Calls, label: str) -> None:
        """What is a wildcard to the database is a letter here."""
        others = [("abc",), ("a",), ("zzz",), (label + "x",), ("x" + label,)]
        await calls.batch([PutOp((*name, "below"), "k", {"n": 1}) for name in [(label,), *others]])
        found = [item.namespace for item in await calls.search((label,), limit=100)]
        assert found == [(label, "below")], f"search() below {safe_repr(label)} must find that namespace and no other"
        if label != "*":
            listed = await calls.namespaces(prefix=(label,))
            assert listed == [(label, "below")], f"the prefix {safe_repr(label)} must give that one"

    async def test_every_namespace_with_items_is_listed_in_order(self, calls: Calls, names: list[Namespace]) -> None:
        """Sorted, each once, as tuples."""
        assert await calls.namespaces() == [], "an empty store must have no namespaces"
        await self._fill(calls)
        assert await calls.namespaces() == names, "list_namespaces() must give each namespace once, in order"

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"prefix": ("a",)}, [("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c")]),
            ({"prefix": ("a", "b")}, [("a", "b"), ("a", "b", "c"), ("a", "b", "d")]),
            ({"prefix": ("a", "b", "c", "d")}, []),
            ({"prefix": ("none",)}, []),
            ({"suffix": ("c",)}, [("a", "b", "c"), ("a", "x", "c"), ("b", "c")]),
            ({"suffix": ("b", "c")}, [("a", "b", "c"), ("b", "c")]),
            ({"suffix": ("b",)}, [("a", "b")]),
            ({"prefix": ("a",), "suffix": ("c",)}, [("a", "b", "c"), ("a", "x", "c")]),
            ({"prefix": ("a", "*", "c")}, [("a", "b", "c"), ("a", "x", "c")]),
            ({"prefix": ("*", "c")}, [("b", "c")]),
            ({"prefix": ("*", "*")}, [("a", "b"), ("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("b", "c")]),
            ({"suffix": ("a", "*")}, [("a", "b")]),
            ({"suffix": ("*", "c")}, [("a", "b", "c"), ("a", "x", "c"), ("b", "c")]),
            ({"suffix": ("a", "*", "*")}, [("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c")]),
        ],
        ids=lambda given: str(given) if isinstance(given, dict) else "",
    )
    async def test_conditions_choose_namespaces(self, calls, options, expected) -> None:
        """`prefix` and `suffix` compare whole labels; "*" stands for exactly one."""
        await self._fill(calls)
        assert await calls.namespaces(**options) == expected, f"list_namespaces({options}) must give these"
        [listed] = await calls.batch([ListNamespacesOp(match_conditions=conditions(**options))])
        assert listed == expected, "the operation must give what the method gives"

    async def test_several_conditions_must_all_hold(self, calls: Calls) -> None:
        """Two conditions of one kind are both asked for."""
        await self._fill(calls)
        both = (*conditions(prefix=("a",)), *conditions(prefix=("*", "b")), *conditions(suffix=("d",)))
        [listed] = await calls.batch([ListNamespacesOp(match_conditions=both)])
        assert listed == [("a", "b", "d")], "every condition must hold"

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"max_depth": 1}, [("a",), ("ab",), ("b",)]),
            ({"max_depth": 2}, [("a",), ("a", "b"), ("a", "x"), ("ab",), ("b", "c")]),
            ({"max_depth": 9}, NAMES),
            ({"max_depth": 2, "prefix": ("a",)}, [("a",), ("a", "b"), ("a", "x")]),
            ({"max_depth": 2, "suffix": ("c",)}, [("a", "b"), ("a", "x"), ("b", "c")]),
            ({"max_depth": 1, "limit": 2}, [("a",), ("ab",)]),
            ({"max_depth": 1, "limit": 2, "offset": 1}, [("ab",), ("b",)]),
        ],
        ids=lambda given: str(given) if isinstance(given, dict) else "",
    )
    async def test_a_depth_cuts_what_the_conditions_chose(self, calls, options, expected) -> None:
        """Whole namespaces are compared, then cut, then counted: each once."""
        await self._fill(calls)
        assert await calls.namespaces(**options) == expected, f"list_namespaces({options}) must give these"

    async def test_limits_and_offsets_cut_the_list(self, calls: Calls, names: list[Namespace]) -> None:
        """Pages follow each other without gap or overlap."""
        await self._fill(calls)
        pages = [await calls.namespaces(limit=3, offset=offset) for offset in (0, 3, 6, 9)]
        assert pages == [names[:3], names[3:6], names[6:], []], "pages must follow each other"

    async def test_a_namespace_without_items_is_not_listed(self, calls: Calls) -> None:
        """It is gone with its last item."""
        await calls.put(("a",), "k", {"n": 1})
        await calls.put(("b",), "k", {"n": 1})
        await calls.delete(("a",), "k")
        await calls.get(("got",), "k")
        await calls.search(("found",))
        await calls.delete(("deleted",), "k")
        assert await calls.namespaces() == [("b",)], "a namespace must be gone with its last item, or never there"
