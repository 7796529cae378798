"""A conversation as text for a model that summarizes it: every message, and every message whole.

A message becomes a *turn*: who speaks, and what was said, called and returned. Reasoning is left out, since it is
bound to the turn it was thought in. An image becomes `[Image ID: img_1a2b3c4d]`, by which the model can name it, and of
other data its kind is told; neither can be read as text. A turn that is too long for one call is cut into numbered
parts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_agentmem.base.fencing import fenced
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.messages.history_shape import calls_of, role_of
from langchain_agentmem.messages.message_marks import IMAGES, KeptImage, plain
from langchain_agentmem.messages.provider_content import kind_of

_THOUGHTS = frozenset({"reasoning", "redacted_thinking", "thinking"})
_CALLS = frozenset({"tool_use", "tool_call", "invalid_tool_call", "function_call"})
_MEDIA = frozenset({"audio", "document", "file", "input_audio", "input_file", "media", "video"})
_BESIDE_IMAGE = 150
_OPAQUE = 1_024
"""A string without blanks longer than this, in a block of an unknown kind, is data and not text."""
_NEAR = 80
"""How many characters before the place of a cut a blank or line end is looked for."""


class Turn(NamedTuple):
    """A message, or a part of one, as a model reads it.

    Attributes:
        role: Who speaks.
        name: The speaker's name, or the tool's; None where there is none.
        text: What was said, called and returned.
        images: The images that it names, in their order.
        part: Which part of the message it is, such as "2 of 5"; None for a whole one.
    """

    role: str
    name: str | None
    text: str
    images: tuple[KeptImage, ...] = ()
    part: str | None = None

    @property
    def fenced(self) -> str:
        """The turn between marks."""
        return fenced("message", self.text, role=self.role, name=self.name, part=self.part)


def turn_of(message: BaseMessage) -> Turn:
    """What a model reads of a message.

    Args:
        message: Any message; it is not changed.
    """
    lines: list[str] = []
    images: list[dict[str, Any]] = []
    calls = calls_of(message)
    known = {call.get("id") for call in calls} - {None}
    for block in [message.content] if isinstance(message.content, str) else message.content:
        lines += _lines(block, images, known)
    lines += map(_call, calls)
    if not calls and isinstance(message, AIMessage):
        lines += _older_calls(message.additional_kwargs)
    if isinstance(message, ToolMessage):
        lines.insert(0, f"[Result of call {message.tool_call_id}{': error' if message.status == 'error' else ''}]")
    text = plain("\n".join(line for line in lines if line))
    kept = tuple(
        KeptImage(image_id=image_id(each), context=_beside(text, image_id(each)), block=each) for each in images
    )
    return Turn(role=role_of(message), name=message.name or None, text=text, images=kept)


def image_id(block: Mapping[str, Any]) -> str:
    """What an image is called: the same image, the same name."""
    return f"img_{hashlib.blake2b(_json(block).encode(errors='replace'), digest_size=4).hexdigest()}"


def cost(turn: Turn, counter: TokenCounter, *, with_images: bool = False) -> int:
    """What a turn costs, in tokens.

    Args:
        turn: The turn.
        counter: Counts tokens.
        with_images: Whether the images themselves are sent. Default False.
    """
    tokens = counter.count_text(turn.fenced) + 1
    if with_images and turn.images:
        tokens += counter.count_message(HumanMessage(content=list(shown_images(turn))))
    return tokens


def shown_images(turn: Turn) -> Iterator[str | dict[Any, Any]]:
    """The images of a turn as content of a message, each behind its name."""
    for image in turn.images:
        yield {"type": "text", "text": f"[Image ID: {image.image_id}]"}
        yield dict(image.block)


def parts_of(turn: Turn, tokens: int, counter: TokenCounter, *, with_images: bool = False) -> list[Turn]:
    """Cut a turn into parts of at most so many tokens; nothing of it is left out.

    Args:
        turn: The turn.
        tokens: What a part may cost. A part has at least a character, and at most one image, however much that costs.
        counter: Counts tokens.
        with_images: Whether images themselves are sent; each is then a part of its own. Default False.

    Returns:
        The turn alone where it is short enough.
    """
    if cost(turn, counter, with_images=with_images) <= tokens:
        return [turn]
    whole = turn._replace(images=(), part=None)
    room = max(1, tokens - cost(whole._replace(text="", part=f"{turn.part}, 000 of 000"), counter))
    texts = list(_pieces(turn.text, room, counter))
    shown = turn.images if with_images else ()
    parts = [
        *(whole._replace(text=text) for text in texts),
        *(whole._replace(text=f"[Image ID: {image.image_id}]", images=(image,)) for image in shown),
    ]
    before = f"{turn.part}, " if turn.part else ""
    parts = [part._replace(part=f"{before}{at} of {len(parts)}") for at, part in enumerate(parts, 1)]
    if not with_images:
        parts[0] = parts[0]._replace(images=turn.images)
    return parts


def _pieces(text: str, tokens: int, counter: TokenCounter) -> Iterator[str]:
    # Escaping may lengthen a text, so that what is counted is what a fence makes of it.
    size = counter.count_text(fenced("message", text))
    if size <= tokens or len(text) <= 1:
        yield text
        return
    count = min(len(text), max(2, -(-size * 11 // (tokens * 10))))
    start = 0
    for at in range(1, count + 1):
        end = _cut(text, len(text) * at // count) if at < count else len(text)
        if end > start:
            yield from _pieces(text[start:end], tokens, counter)
            start = end


def _cut(text: str, at: int) -> int:
    """A place near one where a text may be cut: behind a line end, else a blank, else right there."""
    for mark in ("\n", " "):
        near = text.rfind(mark, max(0, at - _NEAR), at)
        if near > 0:
            return near + 1
    return at


def _lines(block: Any, images: list[dict[str, Any]], known: set[Any]) -> Iterator[str]:
    """The text of a block; its images are added to those found so far."""
    if not isinstance(block, dict):
        yield block if isinstance(block, str) else _json(block)
        return
    kind = kind_of(block)
    if kind in IMAGES:
        images.append(block)
        yield f"[Image ID: {image_id(block)}]"
    elif kind in _THOUGHTS:
        return
    elif kind in _CALLS:
        if not known & {block.get("id"), block.get("call_id")}:
            yield _call(block)
    elif kind == "tool_result":
        yield f"[Result of call {block.get('tool_use_id')}{': error' if block.get('is_error') else ''}]"
        inner = block.get("content")
        for each in inner if isinstance(inner, list) else [inner or ""]:
            yield from _lines(each, images, known)
    elif isinstance(text := block.get("text", block.get("refusal")), str):
        yield text
    else:
        yield f"[{kind or 'data'}] {_json(_readable(block, is_media=kind in _MEDIA))}"


def _call(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    said = function if isinstance(function, Mapping) else call
    arguments: Any = next((said[key] for key in ("args", "arguments", "input") if said.get(key) is not None), {})
    told = arguments if isinstance(arguments, str) else _json(arguments)
    return f"[Calls {said.get('name') or 'a tool'}, call {call.get('id') or call.get('call_id')}] {told}"


def _older_calls(extra: Mapping[str, Any]) -> Iterator[str]:
    """Calls that stand in the provider's form only."""
    calls = extra.get("tool_calls") or [extra.get("function_call")]
    return (_call(call) for call in (calls if isinstance(calls, list) else ()) if isinstance(call, Mapping))


def _readable(value: Any, *, is_media: bool) -> Any:
    """A block without its data, which is told in a word."""
    if isinstance(value, Mapping):
        return {key: _readable(each, is_media=is_media) for key, each in value.items() if key != "type"}
    if isinstance(value, list | tuple):
        return [_readable(each, is_media=is_media) for each in value]
    if isinstance(value, bytes | bytearray):
        return f"({len(value)} bytes)"
    if is_media and isinstance(value, str) and len(value) > _OPAQUE and len(value.split(None, 1)) == 1:
        return f"({len(value)} characters of data)"
    return value


def _beside(text: str, name: str) -> str:
    """What stands around an image in its message."""
    words = " ".join(text.replace(f"[Image ID: {name}]", " ").split())
    return words if len(words) <= _BESIDE_IMAGE else f"{words[: _cut(words, _BESIDE_IMAGE)].rstrip()} …"


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def images_of(turns: Sequence[Turn]) -> dict[str, KeptImage]:
    """The images of turns by their names, oldest first; one that comes again counts where it came last."""
    found: dict[str, KeptImage] = {}
    for turn in turns:
        for image in turn.images:
            found.pop(image.image_id, None)
            found[image.image_id] = image
    return found
