"""tiktoken's vocabulary, where its file is on this machine already. Nothing is ever downloaded.

tiktoken fetches a missing file without a timeout. So the file is found, checked and read here, and tiktoken is given
what it holds.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import FunctionType

from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput

FILES = {  # encoding: the file's name (the SHA-1 of its address) and the SHA-256 of its bytes
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
}
_SHIPPED_IN = {
    "litellm": ("litellm_core_utils", "tokenizers"),
    "llama_index": ("core", "_static", "tiktoken_cache"),
}
_ENCODED_AT_ONCE = 32_768
"""Characters given to tiktoken in one piece: its splitter panics on a million blanks."""


def tiktoken_file_present(encoding: str = "o200k_base") -> Path | None:
    """Find the vocabulary file of a tiktoken encoding on this machine. Nothing is ever downloaded.

    Looks in ``TIKTOKEN_CACHE_DIR``, in ``DATA_GYM_CACHE_DIR``, in ``data-gym-cache`` below the folder for temporary
    files, and in litellm and llama-index where they are installed (they are located, not imported).

    Args:
        encoding: "o200k_base" or "cl100k_base".

    Returns:
        The file, its bytes checked; None where there is none or only a damaged one.

    Raises:
        InvalidInput: The encoding is neither of the two.
    """
    if encoding not in FILES:
        raise InvalidInput(f"No tiktoken encoding {safe_repr(encoding)} is known here. Use one of: {', '.join(FILES)}.")
    name, digest = FILES[encoding]
    for folder in _vocabulary_folders():
        path = folder / name
        with suppress(OSError, ValueError):
            found = path.stat()
            if _sha256(path, found.st_mtime_ns, found.st_size) == digest:
                return path
    return None


def _vocabulary_folders() -> Iterator[Path]:
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if folder := os.environ.get(variable):
            yield Path(folder)
    with suppress(OSError):
        yield Path(tempfile.gettempdir()) / "data-gym-cache"
    for package, inside in _SHIPPED_IN.items():
        with suppress(ImportError, ValueError, AttributeError):
            spec = importlib.util.find_spec(package)
            for place in (spec and spec.submodule_search_locations) or ():
                yield Path(place, *inside)


@lru_cache(maxsize=32)
def _sha256(path: Path, modified: int, size: int) -> str:  # noqa: ARG001 - a file that changed is read again
    return hashlib.sha256(path.read_bytes()).hexdigest()


@lru_cache(maxsize=4)
def tiktoken_counter(path: Path, encoding: str) -> Callable[[str], int]:
    """Make a counter from a vocabulary file.

    Args:
        path: The file, as `tiktoken_file_present` found it.
        encoding: "o200k_base" or "cl100k_base".

    Raises:
        OSError: The file has changed since it was checked.
    """
    import tiktoken  # noqa: PLC0415 - importing this package must stay quick
    from tiktoken_ext import openai_public  # type: ignore[import-untyped]  # noqa: PLC0415

    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != FILES[encoding][1]:
        raise OSError(f"{path} changed while it was being read.")
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in data.splitlines() if line)}
    # tiktoken's own definition of the encoding, run as a copy whose loader gives what we read: neither its global
    # state nor the environment is touched, and there is no way from here to its downloader.
    definition = getattr(openai_public, encoding)
    offline = {**definition.__globals__, "load_tiktoken_bpe": lambda *_, **__: ranks}
    encoder = tiktoken.Encoding(**FunctionType(definition.__code__, offline)())

    def count(text: str) -> int:
        # encode_ordinary reads "<|endoftext|>" as the text that it is.
        return sum(
            len(encoder.encode_ordinary(text[at : at + _ENCODED_AT_ONCE]))
            for at in range(0, len(text), _ENCODED_AT_ONCE)
        )

    return count
