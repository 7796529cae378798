"""Items in the search index. Everything that they ask of it goes through here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from langchain_agentmem.search import search_index
from langchain_agentmem.search.search_index import Document
from langchain_agentmem.storage import Steps

KIND = "item"


def places(path: str, documents: Sequence[Document]) -> Steps[search_index.Placed | None]:
    """Places in the index for items of a namespace that are about to be written."""
    if not documents:
        return None
    return (yield from search_index.places(search_index.Series(path, KIND), documents))


def write(placed: search_index.Placed | None, owners: Sequence[int], *, tail: int) -> Steps[None]:
    """Put items into the index, at the places that were made for them.

    Args:
        placed: What `places` gave.
        owners: The rows of the items.
        tail: How many may wait for the index, 0 for none.
    """
    if placed is not None:
        yield from search_index.write(placed, owners, tail=tail)


def replace(number: int, old: str, owner: int, new: Document, *, tail: int) -> Steps[None]:
    """Give an item in the index another text."""
    yield from search_index.replace(number, old, owner, new, tail=tail)


def remove(documents: Iterable[tuple[int, str]]) -> Steps[None]:
    """Take items out of the index: the number and the text of each."""
    yield from search_index.remove(list(documents))


def close(path: str) -> Steps[None]:
    """Forget the place of a namespace's items in the index, when the last of them is gone."""
    yield from search_index.close(path, KIND)
