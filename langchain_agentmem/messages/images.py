"""Images, as a provider wants them.

A message keeps the path or the address of an image. Only when it is given to a provider is a file read, and
its media type found from its first bytes, not from what it is called. Who asks for one message is told by an error what
cannot be read (`image_part`); who reads a conversation is shown a placeholder in its place, and told afterwards
(`ImageFiles`).
"""

from __future__ import annotations

import base64
import mimetypes
import stat
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from langchain_agentmem.base.events import ImageUnreadable
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import MessageError

MOST_BYTES = 20 * 2**20
"""A file that has more is not read; no provider takes a larger image."""

PartOf: TypeAlias = Callable[[str], dict[str, Any]]
"""Gives an image, by its path or address, as a part of a message's content."""

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
        MessageError: The file cannot be read, or has more than `MOST_BYTES`.
    """
    if is_remote(image):
        return image
    try:
        path = _local_path(image)
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is no file")  # noqa: TRY301 - told as what the system tells is
        if found.st_size > MOST_BYTES:
            raise ValueError(f"it has {found.st_size:,} bytes, and {MOST_BYTES:,} are the most")  # noqa: TRY301
        return _data_url(str(path), found.st_mtime_ns, found.st_size)
    except (OSError, RuntimeError, ValueError) as error:  # pathlib tells of an unknown home by a RuntimeError
        raise MessageError(
            f"The image {safe_repr(image)} cannot be read: {error}. Restore the file, or remove it from the message."
        ) from error


def image_part(image: str) -> dict[str, Any]:
    """Give an image as a part of a message's content, in the form of the OpenAI API."""
    return {"type": "image_url", "image_url": {"url": image_url(image)}}


def named_part(image: str) -> dict[str, Any]:
    """Give an image as a part that names it, unread: what it costs can be counted by it."""
    return {"type": "image_url", "image_url": {"url": image}}


class ImageFiles:
    """The images of messages that are read together. What cannot be read is shown as a placeholder, and noted."""

    def __init__(self) -> None:
        self._unread: dict[tuple[str, str], str] = {}
        self._parts: dict[tuple[str, str], dict[str, Any]] = {}

    def of(self, message_id: str) -> PartOf:
        """What gives the images of a message. Each is read once."""
        return partial(self._part, message_id)

    def events(self, namespace: tuple[str, ...], conversation_id: str) -> list[ImageUnreadable]:
        """What is to be told of what could not be read, each image of a message once.

        Args:
            namespace: Whose messages they are.
            conversation_id: Which conversation is being read.
        """
        where: dict[str, Any] = {"namespace": namespace, "conversation_id": conversation_id}
        return [
            ImageUnreadable(**where, message_id=key, image=image, reason=reason)
            for (key, image), reason in self._unread.items()
        ]

    def _part(self, message_id: str, image: str) -> dict[str, Any]:
        which = message_id, image
        if which not in self._parts:
            try:
                self._parts[which] = image_part(image)
            except MessageError as error:
                self._unread[which] = str(error)
                name = image.replace("\\", "/").rpartition("/")[2]
                self._parts[which] = {"type": "text", "text": f"[The image {safe_repr(name)} cannot be shown.]"}
        return {**self._parts[which]}


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
