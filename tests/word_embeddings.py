"""Embeddings for tests: no model, no network, and the same vectors on every machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b

from langchain_core.embeddings import Embeddings

DIMENSIONS = 512


class WordEmbeddings(Embeddings):
    """A vector counts the words of its text, each in a dimension of its own; texts without a common word are not alike.

    Args:
        dims: How many dimensions there are. Words share one by chance, so there should be many more than words.
        same: Words that mean the same as others, and share their dimension. Default: none.

    Attributes:
        embedded: The texts that were embedded so far, queries not included.
    """

    def __init__(self, dims: int = DIMENSIONS, *, same: Mapping[str, str] | None = None) -> None:
        self.dims = dims
        self._same = dict(same or {})
        self.embedded: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Vectors of texts."""
        self.embedded += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a text."""
        vector = [0.0] * self.dims
        for word in re.findall(r"\w+", text.lower()):
            meant = self._same.get(word, word)
            vector[int.from_bytes(blake2b(meant.encode(), digest_size=4).digest()) % self.dims] += 1.0
        return vector
