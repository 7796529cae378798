"""Images, as a provider wants them.

A message keeps the path or the address of an image. Only when it is given to a provider is a file read, and
its media type found from its first bytes, not from what it is called.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from langchain_agentmem.errors import MessageError
from langchain_agentmem.safe_repr import safe_repr

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)


def is_remote(image: str) -> bool:
    """Say whether an image is an address that goes to the provider untouched: http, https or data."""
    return image.lower().startswith(("http://", "https://", "data:"))


def image_url(image: str) -> str:
    """Give the URL of an image.

    Args:
        image: An http, https or data URL, which is given back untouched, or the path of a local file.

    Returns:
        The URL. For a file, a data URL with its contents in base64.

    Raises:
        MessageError: The file cannot be read.
    """
    if is_remote(image):
        return image
    path = _local_path(image)
    try:
        stat = path.stat()
        return _data_url(str(path), stat.st_mtime_ns, stat.st_size)
    except (OSError, ValueError) as error:
        raise MessageError(
            f"The image {safe_repr(image)} cannot be read: {error}. Restore the file, or remove it from the message."
        ) from error


def image_part(image: str) -> dict[str, Any]:
    """Give an image as a part of a message's content, in the form of the OpenAI API."""
    return {"type": "image_url", "image_url": {"url": image_url(image)}}


def standard_image_part(block: Mapping[str, Any]) -> dict[str, Any] | None:
    """Turn an image block of LangChain or Anthropic into an ``image_url`` part.

    Args:
        block: A block whose type is ``"image"``.

    Returns:
        The part, or None when the block says neither where the image is nor what it holds.
    """
    source = block.get("source")
    if isinstance(source, Mapping):  # Anthropic: {"source": {"type": "base64", "media_type": …, "data": …}}
        block = {**source, "mime_type": source.get("media_type")}
    url = block.get("url")
    data = block.get("base64", block.get("data"))
    if isinstance(data, str):
        url = f"data:{block.get('mime_type') or _sniffed_text(data)};base64,{data}"
    return {"type": "image_url", "image_url": {"url": url}} if isinstance(url, str) else None


def media_type(data: bytes, name: str = "") -> str:
    """Find what kind of file this is.

    Args:
        data: At least its first 12 bytes.
        name: Its name, whose extension decides when the bytes do not. Default: unknown.

    Returns:
        A media type, ``"application/octet-stream"`` when nothing is known.
    """
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


@lru_cache(maxsize=16)
def _data_url(path: str, mtime_ns: int, size: int) -> str:  # noqa: ARG001 - they tell a changed file
    data = Path(path).read_bytes()
    return f"data:{media_type(data, path)};base64,{base64.b64encode(data).decode('ascii')}"


def _sniffed_text(data: str) -> str:
    try:
        return media_type(base64.b64decode(data[:64]))
    except ValueError:
        return "application/octet-stream"


def _local_path(image: str) -> Path:
    if image.lower().startswith("file:"):
        return Path(url2pathname(unquote(urlsplit(image).path)))
    return Path(image).expanduser()
