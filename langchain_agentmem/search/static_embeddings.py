"""Vectors without a model server: each token has a vector of its own, and a text has the mean of its tokens' vectors.

The tokens and their vectors are read from the wheel `wordllama` (MIT license; 32,000 tokens of 256 numbers, 16 MB in
memory). That package itself is never imported: nothing here can ask the network, and there is nothing to warm up.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

from langchain_agentmem.errors import MissingExtra
from langchain_agentmem.search.vectors import numpy

NAME = "static"
"""What it is called in `index={"embed": …}`."""
DIMENSIONS = 256
"""Numbers of a vector."""


class StaticEmbeddings(Embeddings):
    """Vectors of length one, the same for a text in every process and on every machine.

    A text without a token has a vector of zeros.

    Raises:
        MissingExtra: The extra `[static]` is not installed.
    """

    def __init__(self) -> None:
        self._tokenizer, self._table = _model()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of texts.

        Args:
            texts: Any texts.
        """
        # The tokenizer's own batches start threads, which no fork likes.
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a text.

        Args:
            text: Any text.
        """
        np = numpy()
        readable = text.encode("utf-8", "replace").decode()  # without lone surrogates
        tokens = self._tokenizer.encode(readable, add_special_tokens=False).ids
        total = self._table[tokens].sum(axis=0, dtype=np.float32)
        length = float(np.linalg.norm(total))
        vector: list[float] = (total / length if length else total).tolist()
        return vector


@cache
def _model() -> tuple[Any, Any]:
    """The tokenizer, and the vectors of its tokens in half precision."""
    found = find_spec("wordllama")
    try:
        from safetensors.numpy import load_file  # noqa: PLC0415 - an extra
        from tokenizers import Tokenizer  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra("index['embed'] = 'static'", NAME) from error
    if found is None or found.origin is None:
        raise MissingExtra("index['embed'] = 'static'", NAME)
    folder = Path(found.origin).parent
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    return tokenizer, load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
