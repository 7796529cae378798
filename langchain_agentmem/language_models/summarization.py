"""The summarizer of messages: it continues the previous summary, and skips no message.

The module writes the prompt for a summary, and reads the summary from the model's reply. If all messages together are
too long for one call, they are summarized in pieces. Each call includes the summary of the previous pieces. If a model
reports that the prompt is too large, the next prompt is half as long. If the model fails, its summary so far is kept,
and an extract of the remaining messages is added to it.

An extract contains the user's requests, and a line for each other message. Without a model, the whole summary is an
extract. Each part of an extract has a share of the tokens. Unused tokens go to the other parts.

Equal messages and equal replies result in equal summaries.

The model reads each message as a *turn*: the speaker, the text, tool calls and results. Reasoning is left out, since it
belongs only to the call that produced it. An image becomes the label `[Image ID: img_1a2b3c4d]`, or
`[Image img_1a2b3c4d: https://…]` if it has an address, so the model can refer to the image. Other data is replaced by
its kind and size. A turn that is too long for one call is split into numbered parts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import TIMEOUT_MAX
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import Field, field_validator

from langchain_agentmem.base.argument_checks import Options
from langchain_agentmem.base.data_tables import load_data_table
from langchain_agentmem.base.encoding import IMAGE_TYPES, MEDIA_TYPES, REASONING_TYPES, block_type, parse_call
from langchain_agentmem.base.fencing import fence_text
from langchain_agentmem.errors import AgentMemoryError, is_graph_bubble_up, safe_repr
from langchain_agentmem.language_models.lenient_json import read_json, strip_reasoning
from langchain_agentmem.language_models.model_calls import ask_model, is_too_large
from langchain_agentmem.language_models.tokens import TokenCounter, clip_text
from langchain_agentmem.messages.history_repair import calls_of, role_of
from langchain_agentmem.messages.message_marks import Summary, SummaryImage, clean_text, format_summary, summary_in
from langchain_agentmem.messages.provider_content import generated_image
from langchain_agentmem.storage.database import Database

_CALL_BLOCKS = frozenset({"tool_use", "tool_call", "invalid_tool_call", "function_call"})
_IMAGE_TEXT_LENGTH = 150
_MIN_DATA_LENGTH = 1_024  # in a media block, a longer string without whitespace is data, not text


class Turn(NamedTuple):
    """A message, or a part of a message, in the form that the summarizing model reads.

    Attributes:
        role: The role of the speaker.
        name: The name of the speaker or tool; None if there is none.
        text: The text, tool calls and results.
        images: The images with a label in the text, in their order.
        part: The part of the message, such as "2 of 5"; None for a whole message.
    """

    role: str
    name: str | None
    text: str
    images: tuple[SummaryImage, ...] = ()
    part: str | None = None

    @property
    def fenced_text(self) -> str:
        """The text between tags with the role, the name and the part."""
        return fence_text("message", self.text, role=self.role, name=self.name, part=self.part)


def turn_of(message: BaseMessage) -> Turn:
    """Convert a message to a turn.

    Args:
        message: Any message; it is not changed.
    """
    images: list[dict[str, Any]] = []
    calls = calls_of(message)
    call_ids = {call.get("id") for call in calls} - {None}
    lines = [*_block_lines(message.content, images, call_ids), *map(_format_call, calls)]
    if isinstance(message, ToolMessage):
        lines.insert(0, f"[Result of call {message.tool_call_id}{': error' if message.status == 'error' else ''}]")
    text = clean_text("\n".join(line for line in lines if line))
    turn_images = tuple(
        SummaryImage(image_id=image_id(each), context=_image_context(text, image_id(each)), block=each)
        for each in images
    )
    return Turn(role=role_of(message), name=message.name or None, text=text, images=turn_images)


def image_id(block: Mapping[str, Any]) -> str:
    """Return the id of an image, derived from its content."""
    return f"img_{hashlib.blake2b(_to_json(block).encode(errors='replace'), digest_size=4).hexdigest()}"


def image_label(id_: str, block: Mapping[str, Any]) -> str:
    """Return the label of an image: its id, and its address if that is an HTTP URL.

    The address is shortened, and has no query.
    """
    source = (generated_image(block) or {}).get("image_url")
    url = source.get("url") if isinstance(source, Mapping) else source
    if not isinstance(url, str) or not url.lower().startswith(("http://", "https://")):
        return f"[Image ID: {id_}]"
    address = re.split(r"[?#\s\]]", url, maxsplit=1)[0]  # the query may have a signature
    return f"[Image {id_}: {address[:_IMAGE_TEXT_LENGTH]}]"


def turn_tokens(turn: Turn, counter: TokenCounter, *, with_images: bool = False) -> int:
    """Count the tokens of a turn.

    Args:
        turn: The turn.
        counter: The token counter.
        with_images: True also counts the images themselves, not only their labels. Default: False.
    """
    tokens = counter.count_text(turn.fenced_text) + 1
    if with_images and turn.images:
        tokens += counter.count_message(HumanMessage(content=list(image_content(turn))))
    return tokens


def image_content(turn: Turn) -> Iterator[str | dict[Any, Any]]:
    """Yield the images of a turn as content of a message, each after its label."""
    for image in turn.images:
        yield {"type": "text", "text": image_label(image.image_id, image.block)}
        yield dict(image.block)


def split_turn(turn: Turn, tokens: int, counter: TokenCounter, *, with_images: bool = False) -> list[Turn]:
    """Split a turn into parts with a maximum of tokens, without losing text or images.

    Args:
        turn: The turn.
        tokens: The maximum number of tokens of a part. A part with a single character or image may exceed it.
        counter: The token counter.
        with_images: True makes each image a part of its own, and counts its tokens. False leaves the images with the
            first part. Default: False.

    Returns:
        The parts. If the turn is short enough, only the turn itself.
    """
    if turn_tokens(turn, counter, with_images=with_images) <= tokens:
        return [turn]
    base = turn._replace(images=(), part=None)
    # The tokens left for text in a part, next to its tags.
    room = max(1, tokens - turn_tokens(base._replace(text="", part=f"{turn.part}, 000 of 000"), counter))
    texts = list(_split_text(turn.text, room, counter))
    images = turn.images if with_images else ()
    parts = [
        *(base._replace(text=text) for text in texts),
        *(base._replace(text=image_label(image.image_id, image.block), images=(image,)) for image in images),
    ]
    prefix = f"{turn.part}, " if turn.part else ""
    parts = [part._replace(part=f"{prefix}{number} of {len(parts)}") for number, part in enumerate(parts, 1)]
    if not with_images:
        parts[0] = parts[0]._replace(images=turn.images)
    return parts


def _split_text(text: str, tokens: int, counter: TokenCounter) -> Iterator[str]:
    # The fenced text is counted, since a fence escapes the text, which may lengthen it.
    size = counter.count_text(fence_text("message", text))
    if size <= tokens or len(text) <= 1:
        yield text
        return
    # Round up, with 10% more parts than needed, since the tokens are not evenly distributed.
    count = min(len(text), max(2, -(-size * 11 // (tokens * 10))))
    start = 0
    for number in range(1, count + 1):
        end = _cut_position(text, len(text) * number // count) if number < count else len(text)
        if end > start:
            yield from _split_text(text[start:end], tokens, counter)
            start = end


def _cut_position(text: str, limit: int) -> int:
    """Return the index after the last line end in the 80 characters before `limit`.

    Without a line end, return the index after the last space; without a space, return `limit`.
    """
    for mark in ("\n", " "):
        index = text.rfind(mark, max(0, limit - 80), limit)
        if index > 0:
            return index + 1
    return limit


def _block_lines(block: Any, images: list[dict[str, Any]], call_ids: set[Any]) -> Iterator[str]:
    """Yield the lines of a block, and append its images to `images`.

    Calls whose id is in `call_ids` are skipped, because the message lists them separately.
    """
    kind = block_type(block)
    if isinstance(block, list):
        for each in block:
            yield from _block_lines(each, images, call_ids)
    elif not isinstance(block, dict):
        yield block if isinstance(block, str) else _to_json(block)
    elif kind in IMAGE_TYPES:
        images.append(block)
        yield image_label(image_id(block), block)
    elif kind in _CALL_BLOCKS:
        if not call_ids & {block.get("id"), block.get("call_id")}:
            yield _format_call(block)
    elif kind == "tool_result":
        yield f"[Result of call {block.get('tool_use_id')}{': error' if block.get('is_error') else ''}]"
        yield from _block_lines(block.get("content") or "", images, call_ids)
    elif kind in REASONING_TYPES:
        return
    elif isinstance(text := block.get("text", block.get("refusal")), str):
        yield text
    else:
        yield f"[{kind or 'data'}] {_to_json(_without_data(block, is_media=kind in MEDIA_TYPES))}"


def _format_call(call: Mapping[str, Any]) -> str:
    name, arguments = parse_call(call)
    argument_text = arguments if isinstance(arguments, str) else _to_json({} if arguments is None else arguments)
    return f"[Calls {name or 'a tool'}, call {call.get('id') or call.get('call_id')}] {argument_text}"


def _without_data(value: Any, *, is_media: bool) -> Any:
    """Replace binary data in a block by its size, and omit the block's type."""
    if isinstance(value, Mapping):
        return {key: _without_data(each, is_media=is_media) for key, each in value.items() if key != "type"}
    if isinstance(value, list | tuple):
        return [_without_data(each, is_media=is_media) for each in value]
    if isinstance(value, bytes | bytearray):
        return f"({len(value)} bytes)"
    if is_media and isinstance(value, str) and len(value) > _MIN_DATA_LENGTH and len(value.split(None, 1)) == 1:
        return f"({len(value)} characters of data)"
    return value


def _image_context(text: str, id_: str) -> str:
    """Return the beginning of the text of an image's message, without the image's label."""
    return _shorten(re.sub(rf"\[Image (?:ID: )?{id_}[^\]]*\]", " ", text), _IMAGE_TEXT_LENGTH)


def _to_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(value)


_TEXTS = load_data_table("language_models/summary.toml")
_INSTRUCTIONS: str = _TEXTS["instructions"]

_PLACEHOLDERS = re.compile(r"\{content\}|\{PREVIOUS_SUMMARY\}")
_FENCE = re.compile(r"```[\w+-]*\n(.*?)\n?(?:```|\Z)", re.DOTALL)
_IMAGE = re.compile(r"img_[0-9a-f]{8}")
_MIN_LETTERS = 3  # a summary with fewer letters has no content
_EMPTY_WORDS = frozenset({"null", "none", "nil", "undefined", "true", "false", "n/a", "string", "str", "text"})
_REFUSAL = re.compile("|".join(_TEXTS["refusals"]).replace("{task}", _TEXTS["task"]), re.IGNORECASE)
# The words of a question to the reader. A reply that ends with such a question is not a summary. Other questions may be
# content.
_READER_WORDS = re.compile(r"\b(?:you|your|i|me|we|us|else)\b", re.IGNORECASE)
_LONG_FOR_REFUSAL = 400  # characters; a longer text is no mere refusal


def read_summary(
    reply: str, images: Mapping[str, SummaryImage], kept_images: Sequence[SummaryImage], max_images: int | None
) -> Summary | None:
    """Read the summary in a model's reply.

    Args:
        reply: The text of the reply.
        images: All images that the reply may name, by id, the oldest first.
        kept_images: The images of the previous summary. They stay if the reply does not list images to keep.
        max_images: The maximum number of images to keep. The newest images are kept. None keeps all images.

    Returns:
        The summary; None if the reply does not have the form of a summary. `is_nonsense` checks its content.
    """
    reply = strip_reasoning(reply)
    data = read_json(reply)
    if data is None:
        text = _read_prose(reply)
        return None if text is None else Summary(summary=text, kept_images=_newest_images(kept_images, max_images))
    summary = Summary.from_dict(data)
    if not isinstance(data.get("keep_images", data.get("kept_images")), list):
        return replace(summary, kept_images=_newest_images(kept_images, max_images), stands_for=0, provisional=False)
    named = ((_IMAGE.search(image.image_id.lower()), image.context) for image in summary.kept_images)
    contexts = {match.group(): context for match, context in named if match}  # by the id of the image
    named_images = ((contexts[id_], image) for id_, image in images.items() if id_ in contexts)
    chosen = [replace(image, context=context or image.context) for context, image in named_images]
    return replace(summary, kept_images=_newest_images(chosen, max_images), stands_for=0, provisional=False)


def _newest_images(images: Sequence[SummaryImage], max_images: int | None) -> tuple[SummaryImage, ...]:
    return tuple(images if max_images is None else images[len(images) - min(max_images, len(images)) :])


def _read_prose(reply: str) -> str | None:
    """Return a reply in prose; None if it looks like JSON or asks the reader a question."""
    text = reply.strip()
    if (fence_match := _FENCE.fullmatch(text)) is not None:
        text = fence_match.group(1).strip()
    if text.startswith("{") or (text.startswith("[") and read_json(text, wanted=list) is not None):
        return None
    return None if text.endswith("?") and _READER_WORDS.search(re.split(r"[.!?]\s", text)[-1]) else text


def is_nonsense(summary: Summary, source: str, instructions: str) -> bool:
    """Return whether a summary is a refusal, has no content, or repeats the prompt.

    Args:
        summary: The summary that the model wrote.
        source: The text to summarize. A summary that copies more than half of this text is nonsense.
        instructions: The instructions to the model. A summary that copies one of their long lines is nonsense.
    """
    texts = (summary.summary, *summary.salient_facts)
    statements = " ".join(each for each in texts if _has_content(each) and each not in instructions)
    if not statements or (len(statements) < _LONG_FOR_REFUSAL and _REFUSAL.match(statements)):
        return True
    text = "\n".join((summary.user_request, summary.summary, *summary.salient_facts, *summary.open_threads))
    lines = {line.strip() for line in text.splitlines()}
    copied = sum(len(line) for line in source.splitlines() if line.strip() in lines)
    copies_prompt = any(len(line) > _LINE_LENGTH and line in lines for line in instructions.splitlines())
    return copied > len(source) // 2 or copies_prompt


def _has_content(text: str) -> Any:
    return sum(map(str.isalpha, text)) >= _MIN_LETTERS and text.strip().lower() not in _EMPTY_WORDS


ELLIPSIS = " …"
_LINE_LENGTH = 240  # the maximum number of characters of a turn's line
_SENTENCE = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s")
_MIN_EXTRACT_TOKENS = 8
_SHARES = {"user_request": 3, "summary": 4, "salient_facts": 2, "open_threads": 1}  # tenths of the tokens


def extract_summary(turns: Sequence[Turn], earlier: Summary | None, budget: int, counter: TokenCounter) -> Summary:
    """Summarize turns without a model.

    Args:
        turns: The turns that leave the context.
        earlier: The previous summary. It becomes the beginning of the result, in at most about half of the budget.
        budget: The maximum number of tokens of the result, as for `clip_summary`.
        counter: The token counter.

    Returns:
        A provisional summary. It has no images of `turns`, and its `stands_for` does not count `turns`.
    """
    base = clip_summary(earlier or Summary(), budget // 2, counter)
    headings = 48  # the tokens of the headings, and of the lines with the number of unlisted messages
    room = max(_MIN_EXTRACT_TOKENS, budget - counter.count_text(format_summary(base)) - headings)
    requests = [turn.text.strip() for turn in turns if turn.role == "user" and turn.text.strip()]
    lines = [_turn_line(turn) for turn in turns if turn.role != "user"]
    request_room = room // 2 if lines else room
    first = _cut_text("".join(requests[:1]), request_room // 2 if requests[1:] else request_room, counter)
    newest = _join_newest(requests[1:], request_room - counter.count_text(first), "messages of the user", counter)
    room -= counter.count_text(f"{first}\n{newest}")
    extracted = replace(
        base,
        user_request=f"{base.user_request}\n{first}\n{newest}",
        summary=f"{base.summary}\n{_join_newest(lines, room, 'messages', counter)}",
        provisional=True,
    )
    return clip_summary(extracted, budget, counter)


def clip_summary(summary: Summary, budget: int, counter: TokenCounter) -> Summary:
    """Shorten a summary to a number of tokens.

    Texts are cut at their end, and lists lose their last items first. Images are kept. A summary within the budget
    stays unchanged.

    Args:
        summary: The summary.
        budget: The maximum number of tokens of the result. Headings are counted, images are not. The headings may
            exceed a tiny budget.
        counter: The token counter.
    """
    room, shortened = budget, summary
    while counter.count_text(format_summary(shortened)) > budget and room > _MIN_EXTRACT_TOKENS:
        shortened = _cut_summary(summary, room, counter)
        room -= max(1, room // 20)
    return shortened


def _cut_summary(summary: Summary, room: int, counter: TokenCounter) -> Summary:
    """Cut the texts of a summary to their shares of `room` tokens.

    Tokens that a short text does not use go to the other texts, so the shortest texts are processed first.
    """
    values = {name: getattr(summary, name) for name in _SHARES}
    texts = {
        name: value if isinstance(value, str) else "\n".join(f"- {each}" for each in value)
        for name, value in values.items()
    }
    costs = {name: counter.count_text(text) for name, text in texts.items()}
    remaining_shares = sum(_SHARES.values())
    for name in sorted(_SHARES, key=lambda name: costs[name] / _SHARES[name]):
        share = room * _SHARES[name] // remaining_shares
        if costs[name] > share:
            text = _cut_text(texts[name], share, counter)
            lines = (line.removeprefix("- ") for line in text.splitlines())
            values[name] = text if isinstance(values[name], str) else tuple(filter(None, lines))
        room -= min(costs[name], share)
        remaining_shares -= _SHARES[name]
    return replace(summary, **values)


def _cut_text(text: str, room: int, counter: TokenCounter) -> str:
    short = clip_text(text, max(0, room), counter, marker=ELLIPSIS)
    return "" if short == ELLIPSIS else short


def _join_newest(texts: Sequence[str], room: int, noun: str, counter: TokenCounter) -> str:
    """Join the newest texts that fit into `room` tokens, after a line that counts the others.

    If the newest text is too long, it is cut. `noun` describes the texts, such as "messages".
    """
    newest: list[str] = []
    for text in reversed(texts):
        shortened = text if newest else _cut_text(text, room - 1, counter)
        room -= counter.count_text(shortened) + 1
        if room < 0:
            break
        newest.insert(0, shortened)
    if missing := len(texts) - len(newest):
        newest.insert(0, f"({missing} {noun} not listed)")
    return "\n".join(newest)


def _turn_line(turn: Turn) -> str:
    """Return a line with a turn's speaker, first sentence, and calls with arguments."""
    speaker = turn.role if turn.name is None else f"{turn.role} {turn.name}"
    lines = [line.strip() for line in turn.text.splitlines() if line.strip()]
    spoken = [line for line in lines if not line.startswith(("[Calls ", "[Result of "))]
    calls = [line for line in lines if line.startswith("[Calls ")]
    first = _SENTENCE.split(" ".join(spoken[:3]), maxsplit=1)[0]
    return f"{speaker}: {_shorten(' '.join([first, *(_shorten(each) for each in calls)]).strip())}"


def _shorten(text: str, limit: int = _LINE_LENGTH) -> str:
    words = " ".join(text.split())
    return words if len(words) <= limit else words[: _cut_position(words, limit)].rstrip() + ELLIPSIS


_EARLIER_RECORD = "earlier record"
"""The role of a turn that contains the previous summary, because that summary is too long for each prompt."""
_MIN_TOKENS = 64  # the smallest limit for the messages in a prompt, and for a summary
_MIN_HALVED_TOKENS = 300  # a shorter prompt is not halved: no usable model refuses it for its length
_MAX_HALVINGS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryResult:
    """The result of a summarization.

    Attributes:
        summary: The summary. It is not empty if the messages have content.
        failure: The exception of the model, or an error about an unusable reply. Then the summary is provisional.
            Default None: the model did not fail, or there is no model.
        calls: The number of model calls, including failed calls. Default: 0.
    """

    summary: Summary
    failure: Exception | None = None
    calls: int = 0


def summarize(
    messages: Sequence[BaseMessage],
    *,
    earlier: Summary | None,
    model: Any,
    config: SummarizationConfig,
    counter: TokenCounter,
    output_tokens: int,
    input_tokens: int,
    database: Database | None = None,
) -> SummaryResult:
    """Summarize messages.

    Args:
        messages: The messages that leave the context, oldest first. They are not changed. If `earlier` is None, the
            first summary among them is used as `earlier`.
        earlier: The summary of the messages that left the context earlier. None if there is none.
        model: The result of `usable_model`. None extracts the summary without a model.
        config: The settings for images, prompt and timeout. `enabled` is not checked here.
        counter: The token counter.
        output_tokens: The maximum number of tokens of the summary, without its images.
        input_tokens: The maximum number of tokens of one prompt.
        database: The database whose traces show the model's calls. Default None: only LangChain's own traces show them.

    Returns:
        The result. `stands_for` of its summary counts all messages that the summary covers.
    """
    covered, earlier = _split_earlier(messages, earlier)
    turns = [turn_of(each) for each in covered]
    progress = _SummaryProgress(turns, input_tokens, output_tokens, config, counter, earlier)
    failure: Exception | None = None
    calls = halvings = 0
    while model is not None and progress.rest:
        piece, rest = progress.next_piece()
        prompt = progress.make_prompt(piece)
        calls += 1
        try:
            reply = ask_model(database, model, prompt, "compaction.summarize", config.timeout)
        except Exception as error:  # the run continues after any error of a model
            if is_graph_bubble_up(error):
                raise
            prompt_tokens = progress.count_tokens(prompt)
            if is_too_large(error) and prompt_tokens > _MIN_HALVED_TOKENS and halvings < _MAX_HALVINGS:
                halvings += 1
                progress.limit = min(progress.limit, prompt_tokens) // 2
                continue
            failure = error
            break
        if not progress.accept_reply(reply, piece, rest):
            failure = AgentMemoryError(f"The model's reply is not a summary of its input: {safe_repr(reply)}")
            break
    summary = progress.finish()
    count = (earlier.stands_for if earlier else 0) + len(covered)
    return SummaryResult(summary=replace(summary, stands_for=count), failure=failure, calls=calls)


@dataclass
class _SummaryProgress:
    """The progress of a summarization: the summary so far, and the remaining turns.

    Attributes:
        rest: The turns that are not summarized yet.
        limit: The maximum number of tokens of a prompt. It is halved if the model refuses a prompt as too large.
        output_tokens: The maximum number of tokens of the final summary.
        earlier: The summary to return if the model fails while `rest` contains parts of that summary.
        summary: The summary so far; None if there is none.
        images: The images kept so far.
        replaced_tokens: The number of tokens of all text that `summary` replaces.
    """

    rest: list[Turn]
    limit: int
    output_tokens: int
    config: SummarizationConfig
    counter: TokenCounter
    earlier: Summary | None

    def __post_init__(self) -> None:
        self.summary = self.earlier
        self.images = self.earlier.kept_images if self.earlier else ()
        self.replaced_tokens = self._summary_tokens(self.earlier) if self.earlier else 0

    def next_piece(self) -> tuple[list[Turn], list[Turn]]:
        """Return the turns for the next prompt, at least one, and the remaining turns.

        A turn that is too long is split.
        """
        summary = self.summary
        if summary and self._summary_tokens(summary) > max(_MIN_TOKENS, self.limit // 2):
            # The summary would fill more than half of the prompt. So it becomes a turn before all others, and is
            # summarized again.
            if not any(turn.role == _EARLIER_RECORD for turn in self.rest):
                self.earlier = summary
            self.rest.insert(0, Turn(_EARLIER_RECORD, None, format_summary(summary)))
            self.summary = None
        room = full_room = max(self.limit - self.count_tokens(self.make_prompt(())), self.limit // 4, _MIN_TOKENS)
        piece: list[Turn] = []
        rest, with_images = deque(self.rest), self.config.include_image_payload_bytes
        while rest:
            turn = rest.popleft()
            needed = turn_tokens(turn, self.counter, with_images=with_images)
            # A turn that is too long for any prompt is split now if more than half of this prompt is empty.
            if needed > room and (not piece or (needed > full_room and room > full_room // 2)):
                turn, *others = split_turn(turn, room, self.counter, with_images=with_images)
                rest.extendleft(reversed(others))
            elif needed > room:
                rest.appendleft(turn)
                break
            piece.append(turn)
            room -= needed
        return piece, [*rest]

    def accept_reply(self, reply: str, piece: Sequence[Turn], rest: list[Turn]) -> bool:
        """Use a reply as the summary of a piece and all turns before it.

        Return False if the reply is not a summary, or is not shorter than the text that it replaces. While turns
        remain, a summary within `_summary_limit` is short enough.
        """
        images: dict[str, SummaryImage] = {}
        for image in (*self.images, *(image for turn in piece for image in turn.images)):
            images.pop(image.image_id, None)  # a repeated image moves to its newest place
            images[image.image_id] = image
        summary = read_summary(reply, images, self.images, self.config.max_retained_images)
        new = [turn for turn in piece if turn.role != _EARLIER_RECORD]
        replaced = self.replaced_tokens + sum(turn_tokens(turn, self.counter, with_images=True) for turn in new)
        limit = max(replaced, self._summary_limit) if rest else replaced
        if summary is None or self._summary_tokens(summary) >= limit:
            return False
        source = "\n".join(turn.fenced_text for turn in piece)
        if is_nonsense(summary, source, self.config.prompt or _INSTRUCTIONS):
            return False
        self.rest, self.replaced_tokens = rest, replaced
        self.summary = clip_summary(summary, self._summary_limit if rest else self.output_tokens, self.counter)
        self.images = self.summary.kept_images
        return True

    def finish(self) -> Summary:
        """Return the summary, with an extract of the turns that no model has summarized."""
        if not self.rest and self.summary is not None:
            return clip_summary(self.summary, self.output_tokens, self.counter)
        # If `rest` still has parts of the earlier record, the new summary lacks them. So use the earlier record.
        turns = [turn for turn in self.rest if turn.role != _EARLIER_RECORD]
        base = self.summary if len(turns) == len(self.rest) else self.earlier
        source_tokens = self.replaced_tokens + sum(turn_tokens(turn, self.counter) for turn in turns)
        budget = min(self.output_tokens, max(_MIN_TOKENS, int(source_tokens * 0.9)))
        images = _newest_images(self.images, self.config.max_retained_images)
        return replace(extract_summary(turns, base, budget, self.counter), kept_images=images)

    @property
    def _summary_limit(self) -> int:
        """The maximum number of tokens of a summary that is part of the next prompt."""
        return min(self.output_tokens, max(_MIN_TOKENS, self.limit // 3))

    def make_prompt(self, turns: Sequence[Turn]) -> list[BaseMessage]:
        """Make the prompt for some turns.

        A prompt without turns serves to count the tokens of the other parts.
        """
        earlier, prompt = self.summary, self.config.prompt
        conversation = fence_text("conversation", "\n".join(turn.fenced_text for turn in turns))
        if self.images:
            images = "\n".join(f"{image_label(image.image_id, image.block)} {image.context}" for image in self.images)
            conversation = f"{fence_text('images_kept_so_far', images)}\n{conversation}"
        record = fence_text("earlier_record", format_summary(earlier)) if earlier and not earlier.is_empty else ""
        if record and "{PREVIOUS_SUMMARY}" not in (prompt or ""):
            conversation = f"{record}\n{conversation}"
        values = {"{content}": conversation, "{PREVIOUS_SUMMARY}": record}
        text = _PLACEHOLDERS.sub(lambda match: values[match.group()], prompt or "{content}")
        words = max(1, int(self._summary_limit * 0.75 * 0.9))  # four tokens are about three words; 10% are a reserve
        system = [] if prompt else [SystemMessage(_INSTRUCTIONS % words)]
        with_images = turns if self.config.include_image_payload_bytes else ()
        image_blocks = [block for turn in with_images for block in image_content(turn)]
        return [*system, HumanMessage([{"type": "text", "text": text}, *image_blocks] if image_blocks else text)]

    def count_tokens(self, messages: Iterable[BaseMessage]) -> int:
        """Count the tokens of messages."""
        return sum(map(self.counter.count_message, messages))

    def _summary_tokens(self, summary: Summary) -> int:
        return self.counter.count_text(format_summary(summary))


def _split_earlier(
    messages: Sequence[BaseMessage], earlier: Summary | None
) -> tuple[list[BaseMessage], Summary | None]:
    """Return the messages without the earlier summary, and the earlier summary.

    If `earlier` is None, the first summary among the messages is the earlier summary.
    """
    others: list[BaseMessage] = []
    for message in messages:
        summary = summary_in(message)
        if summary is not None and summary == (earlier or summary):
            earlier = summary
        else:
            others.append(message)
    return others, earlier


class SummarizationConfig(Options):
    """The settings for the summary of old messages. It continues the previous summary.

    Attributes:
        enabled: True enables summarization. Default: True.
        grace_recent_messages: The number of protected assistant messages. The first of them and all later messages are
            never summarized. With 0, or without assistant messages, this applies to the last user message and all
            later messages. Default: 1.
        output_max_tokens: The maximum number of tokens of a summary. Default: 6,000.
        include_original_instruction: True keeps the first user message unchanged. Default: True.
        include_image_payload_bytes: True sends the images themselves to the summarizer, not only their labels. Default:
            False.
        max_retained_images: The maximum number of images kept with the summary. Default None: all that the model names.
            If a provider has refused the context as too large, None means 5.
        input_max_tokens: The maximum number of tokens of one prompt. Longer input is summarized in pieces.
            Default None: 80% of the summarizing model's window. If the window is unknown, the default is the threshold
            of the compaction, or 8,000 if that is more.
        timeout: The seconds to wait for each reply of the model. None sets no limit. Default: 120.
        prompt: The instructions that replace the built-in ones. `{content}` stands for the messages, and
            `{PREVIOUS_SUMMARY}` for the previous summary. Other braces are literal. Default None: the built-in ones.
    """

    enabled: bool = True
    grace_recent_messages: int = Field(default=1, ge=0)
    output_max_tokens: int = Field(default=6_000, ge=1)
    include_original_instruction: bool = True
    include_image_payload_bytes: bool = False
    max_retained_images: int | None = Field(default=None, ge=0)
    input_max_tokens: int | None = Field(default=None, ge=100)
    timeout: float | None = Field(default=120.0, gt=0, le=TIMEOUT_MAX)
    prompt: str | None = None

    @field_validator("prompt")
    @classmethod
    def _check_prompt(cls, prompt: str | None) -> str | None:
        if prompt is not None and "{content}" not in prompt:
            raise ValueError("prompt must contain {content}, which is replaced by the messages to summarize.")
        return prompt
