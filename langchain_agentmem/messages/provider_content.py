"""The content of a message in the form of the OpenAI chat API, which providers expect.

A message stores the path or the URL of an image. An image file is read only when the message is sent to a provider. The
media type is detected from the first bytes of the file, or else guessed from its name.

`image_part` raises an error for an image that cannot be read. `part_or_placeholder`, which conversations use, returns a
placeholder instead.
"""

from __future__ import annotations

import base64
import json
import logging
import mimetypes
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname
from uuid import UUID

from langchain_core.messages import convert_to_openai_data_block

from langchain_agentmem.base.encoding import CALL_TYPES, REASONING_TYPES, TEXT_TYPES, block_type, inline_image, to_plain
from langchain_agentmem.base.hooks import FirstFailures
from langchain_agentmem.errors import InvalidInput, MessageError, safe_repr

MAX_IMAGE_BYTES = 20 * 2**20
"""The maximum size of an image file in bytes: 20 MiB. No provider accepts a larger image."""

PartOf: TypeAlias = Callable[[str], dict[str, Any]]
"""A function that accepts the path or URL of an image, and returns the image as a part of a message's content."""

_failures = FirstFailures(logging.getLogger(__name__))

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)


def is_remote(image: str) -> bool:
    """Return whether an image has an http, https or data URL, which is sent unchanged."""
    return image.lower().startswith(("http://", "https://", "data:"))


def image_part(image: str) -> dict[str, Any]:
    """Return an image as a part of a message's content, in the form of the OpenAI API.

    Args:
        image: An http, https or data URL, which is not changed. Or the path or file URL of a local file. Its content
            becomes a data URL in base64.

    Raises:
        MessageError: The file cannot be read, or has more than `MAX_IMAGE_BYTES` bytes.
    """
    if is_remote(image):
        return image_url_part(image)
    try:
        path = _local_path(image)
        file_stat = path.stat()
        if not stat.S_ISREG(file_stat.st_mode):
            raise ValueError("it is not a regular file")  # noqa: TRY301 - handled like an OSError below
        if file_stat.st_size > MAX_IMAGE_BYTES:
            raise ValueError(f"it has {file_stat.st_size:,} bytes; the maximum is {MAX_IMAGE_BYTES:,}")  # noqa: TRY301
        return image_url_part(_data_url(str(path), file_stat.st_mtime_ns, file_stat.st_size))
    except (OSError, RuntimeError, ValueError) as error:  # expanduser raises RuntimeError for an unknown home
        raise MessageError(
            f"The image {safe_repr(image)} cannot be read: {error}. Restore the file, or remove it from the message."
        ) from error


def image_url_part(image: str) -> dict[str, Any]:
    """Return a part with the path or URL of an image, without reading a file."""
    return {"type": "image_url", "image_url": {"url": image}}


def part_or_placeholder(image: str) -> dict[str, Any]:
    """Return an image like `image_part`, or a placeholder text if the image cannot be read.

    The first failure of each image is logged as a warning.
    """
    try:
        return image_part(image)
    except MessageError as error:
        _failures.report(image, "%s A placeholder is shown in its place.", error)
        name = image.replace("\\", "/").rpartition("/")[2]
        return {"type": "text", "text": f"[The image {safe_repr(name)} cannot be shown.]"}


def standard_image_part(block: Mapping[str, Any]) -> dict[str, Any] | None:
    """Convert an image block of LangChain or Anthropic to an ``image_url`` part.

    Args:
        block: A block whose type is ``"image"``.

    Returns:
        The part, or None if the block has neither a URL nor data.
    """
    source = block.get("source")
    if isinstance(source, Mapping):  # Anthropic: {"source": {"type": "base64", "media_type": …, "data": …}}
        block = {**source, "mime_type": source.get("media_type")}
    url = block.get("url")
    data = block.get("base64", block.get("data"))
    if isinstance(data, str):
        url = f"data:{block.get('mime_type') or _base64_media_type(data)};base64,{data}"
    return {"type": "image_url", "image_url": {"url": url}} if isinstance(url, str) else None


def generated_image(block: Any) -> dict[str, Any] | None:
    """Convert an image that a model generated to a part of a user message.

    Return None for a block that is not an image.

    Args:
        block: A block of an assistant's content, in the form of OpenAI, Gemini, Anthropic or LangChain.
    """
    kind = block_type(block)
    if kind == "image_generation_call":
        block = {"base64": block.get("result"), "mime_type": f"image/{block.get('output_format', 'png')}"}
    elif kind in ("image_url", "input_image"):
        source = block.get("image_url")
        block = {"url": source.get("url") if isinstance(source, Mapping) else source}
    elif kind != "image":
        block = inline_image(block)
    return block and standard_image_part(block)


def media_type(data: bytes, name: str = "") -> str:
    """Detect the media type of a file.

    Args:
        data: The content of the file, at least its first 12 bytes.
        name: The name of the file. Its extension is used if the bytes are unknown. Default: "".

    Returns:
        The media type, or ``"application/octet-stream"`` if it is unknown.
    """
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


@lru_cache(maxsize=16)
def _data_url(path: str, mtime_ns: int, size: int) -> str:  # noqa: ARG001 - the keys of the cache
    data = Path(path).read_bytes()
    return f"data:{media_type(data, path)};base64,{base64.b64encode(data).decode('ascii')}"


def _base64_media_type(data: str) -> str:
    try:
        return media_type(base64.b64decode(data[:64]))
    except ValueError:
        return "application/octet-stream"


def _local_path(image: str) -> Path:
    if image.lower().startswith("file:"):
        return Path(url2pathname(unquote(urlsplit(image).path)))
    return Path(image).expanduser()


def json_text(value: Any, *, sort_keys: bool = False) -> str:
    """Write structured content as JSON text for a model.

    Dates and times become ISO text, sets become sorted lists, and UUIDs, decimals and time spans become text. If JSON
    cannot express another value, all values are written with type tags; see `langchain_agentmem.base.encoding`.

    Args:
        value: The content.
        sort_keys: True sorts the keys of dictionaries. Default: False.

    Raises:
        MessageError: The content has an object that cannot be written.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_json_default, sort_keys=sort_keys)
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return json.dumps(to_plain(value), ensure_ascii=False, sort_keys=sort_keys)
    except InvalidInput as error:
        raise MessageError(str(error)) from error


def _json_default(value: Any) -> Any:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, UUID | Decimal | timedelta):
        return str(value)
    raise TypeError(type(value).__name__)


def convert_content(content: Any, images: list[str] | None, part_of: PartOf = image_part) -> str | list[Any]:
    """Convert content to text, or to a list of parts if it is a list or has images.

    Args:
        content: The content of a message: text, a dictionary, a list of texts and blocks, or None.
        images: The paths and URLs of the images of the message. None for no images.
        part_of: The function that converts the path or URL of an image to a part. Default: `image_part`.

    Returns:
        The text or the parts. A dictionary becomes JSON text. Blocks of unknown types are not changed.

    Raises:
        MessageError: An image file cannot be read.
    """
    if isinstance(content, list):
        parts = [_content_part(block) for block in content]
    else:
        text = content if isinstance(content, str) else "" if content is None else json_text(content)
        if not images:
            return text
        parts = [{"type": "text", "text": text}] if text else []
    return parts + [part_of(image) for image in images or ()]


def unwrap_result(content: Any, tool_call_id: str | None) -> tuple[Any, str | None]:
    """Extract a tool's result from its envelope.

    Args:
        content: The content of a tool message. An envelope is ``{"tool_call_id", "output"}``, as a dictionary or as
            JSON text.
        tool_call_id: The field `tool_call_id` of the message. If it differs from the envelope's id, the content is not
            an envelope. None accepts every id.

    Returns:
        The content for the provider, and the id of the call. Without an envelope, both are unchanged. If an envelope
        has further keys, the content is the whole envelope.
    """
    envelope = content
    if isinstance(content, str) and content.lstrip()[:1] == "{" and '"tool_call_id"' in content:
        with suppress(ValueError, RecursionError):
            envelope = json.loads(content)
    if not isinstance(envelope, dict) or "output" not in envelope:
        return content, tool_call_id
    envelope_id = envelope.get("tool_call_id")
    if not isinstance(envelope_id, str) or tool_call_id not in (None, envelope_id):
        return content, tool_call_id
    if set(envelope) != {"tool_call_id", "output"}:  # further keys must not be lost
        return content, envelope_id
    output = envelope["output"]
    return output if isinstance(output, str) else json_text(output), envelope_id


def readable_text(content: Any) -> str:
    """Return the readable text of a message's content.

    Args:
        content: Text, a dictionary, a list of texts and blocks, or None.

    Returns:
        The text itself, or one line for each text or caption of a block, or for each text in a dictionary.
        Reasoning, tool calls and data URLs are left out.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(line for block in content for line in _block_lines(block))
    return "\n".join(_value_lines(content)) if isinstance(content, dict) else ""


def _content_part(block: Any) -> Any:
    if not isinstance(block, dict):
        return {"type": "text", "text": block if isinstance(block, str) else json_text(block)}
    kind = block_type(block)
    if kind == "image":
        return standard_image_part(block) or block
    if kind in ("audio", "file"):
        try:
            return convert_to_openai_data_block(block)
        except (ValueError, KeyError, TypeError):
            return block  # a provider's own form of the block
    return block


def _block_lines(block: Any) -> list[str]:
    if isinstance(block, str):
        return [block]
    if not isinstance(block, Mapping):
        return []
    kind = block_type(block)
    if kind in REASONING_TYPES | CALL_TYPES:
        return []
    text = block.get("text")
    lines = [text] if isinstance(text, str) and (kind is None or kind in TEXT_TYPES) else []
    if kind == "tool_result":  # a provider's own form of a result; it has content inside
        return [readable_text(block.get("content"))]
    lines.extend(block[key] for key in ("caption", "alt", "title") if isinstance(block.get(key), str))
    return [line for line in lines if line]


def _value_lines(value: Any, depth: int = 32) -> list[str]:
    if isinstance(value, str):
        return [] if not value or value[:5].lower() == "data:" else [value]
    if not depth or not isinstance(value, Mapping | list | tuple):
        return []
    items = value.values() if isinstance(value, Mapping) else value
    return [line for item in items for line in _value_lines(item, depth - 1)]
