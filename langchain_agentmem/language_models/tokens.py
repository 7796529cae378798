"""Token counts of texts, messages and whole contexts, without network access.

Exact counting needs a vocabulary file of several megabytes, which tiktoken downloads when it is missing, without a
timeout. So tiktoken is used only if that file is on this machine already. Otherwise an estimate is used.

The cache key of a count is the content of the message, not the object. So a message that was changed in place is
counted again, and if a context grew, only its new messages are counted. A calibration factor from 0.5 to 2.0 adapts the
counts to those that the provider reports.

`clip_text` cuts a text to a number of tokens. `Budget` and `Measure` limit the size of memory in a prompt.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import logging
import math
import os
import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from annotated_types import Ge
from pydantic import Field

from langchain_agentmem.base import encoding
from langchain_agentmem.base.argument_checks import Options, check_integer, check_value
from langchain_agentmem.base.concurrency import PerProcess
from langchain_agentmem.errors import InvalidInput, MessageError, is_graph_bubble_up, safe_repr
from langchain_agentmem.language_models.token_estimate import estimate_tokens

if TYPE_CHECKING:
    from langchain_core.language_models import BaseLanguageModel
    from langchain_core.messages import BaseMessage, MessageLikeRepresentation
    from langchain_core.tools import BaseTool

    from langchain_agentmem.messages.message import MessageLike

CounterFunction: TypeAlias = "Callable[[str], int] | Callable[[BaseMessage], int] | Callable[[list[BaseMessage]], int]"
"""A function that counts the tokens of a text, of a message or of a list of messages."""
CounterLike: TypeAlias = 'BaseLanguageModel[Any] | CounterFunction | Literal["approximate", "estimate", "tiktoken"]'
"""A token counter: a LangChain model, a function, or the name of a built-in way to count."""
Countable: TypeAlias = "MessageLike | MessageLikeRepresentation"
"""A message in any form: a `Message`, one of LangChain's, a dictionary, a text, a pair of role and content."""
ToolLike: TypeAlias = "BaseTool | Mapping[str, Any] | Callable[..., Any]"
"""A tool in any form that a model accepts: LangChain's, its schema, a pydantic class or a function."""
BudgetLike: TypeAlias = "int | Mapping[str, Any] | Budget"
"""A number of characters, a mapping of the names of a budget's fields to their values, or a `Budget`."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


def _lacks_offline_tokenizer(model: Any) -> bool:
    """Return whether a LangChain model inherits LangChain's default tokenizer.

    LangChain downloads that tokenizer, GPT-2's, from a hub.
    """
    methods = [getattr(type(model), name, None) for name in ("get_num_tokens", "get_token_ids")]
    is_default = {getattr(method, "__module__", "") for method in methods} == {"langchain_core.language_models.base"}
    return is_default and getattr(model, "custom_get_token_ids", None) is None


# --- The parts of a message -----------------------------------------------------------------------------------------

_TEXT_KINDS = encoding.TEXT_TYPES | {"refusal", "text-plain"}
_CALL_KINDS = encoding.CALL_TYPES | {"server_tool_call", "server_tool_use"}

_LEAST_MEDIA_TOKENS, _MOST_MEDIA_TOKENS, _UNKNOWN_MEDIA_TOKENS = 200, 10_000, 1_000
"""The range of the tokens of a file, audio or video, and the tokens if its size is unknown."""
_OPAQUE_DATA = re.compile(r"[!#-\[\]-~]{1024,}")
"""A text without blanks, quotes and backslashes. In a block of an unknown kind, it is treated as data."""

IMAGE = object()
"""The marker that represents an image among the parts of a message."""


def _token_parts(get: Callable[[str], Any]) -> list[Any]:
    """Return the parts of a message that cost tokens.

    The parts are texts, `IMAGE` for each image, and numbers of further tokens.

    Args:
        get: Returns a field of the message by its name.
    """
    # LangChain keeps calls a second time, in the provider's form, next to or in the content. They are counted once.
    calls = [*(get("tool_calls") or ()), *(get("invalid_tool_calls") or ())]
    extra = get("additional_kwargs")
    if call := get("function_call") or (extra.get("function_call") if isinstance(extra, Mapping) else None):
        calls.append(call)  # OpenAI's older form of a single call
    parts = [each for each in (get("name"), get("tool_call_id")) if each and isinstance(each, str)]
    if isinstance(content := get("content"), str) and not calls:  # the fast path for most messages
        return [*parts, content] if content else parts
    parts += _content_parts(content, {call.get("id") for call in calls if isinstance(call, Mapping)} - {None, ""})
    for call in calls:
        parts += _call_parts(call)
    return parts


def _content_parts(content: Any, call_ids: Iterable[Any] = ()) -> Iterator[Any]:
    if isinstance(content, str):
        if content:
            yield content
    elif isinstance(content, Mapping):
        yield from _block_parts(content, call_ids)
    elif isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        for block in content:
            yield from _content_parts(block, call_ids)
    elif content is not None:
        yield str(content)


def _block_parts(block: Mapping[str, Any], call_ids: Iterable[Any]) -> Iterator[Any]:
    kind = encoding.block_type(block)
    if encoding.is_image(block):
        yield IMAGE
    elif kind in _TEXT_KINDS or (kind is None and isinstance(block.get("text"), str)):
        yield from _content_parts(block.get("text") or block.get("refusal"))
    elif kind in _CALL_KINDS:
        if not {block.get("id"), block.get("call_id")} & {*call_ids}:
            yield from _call_parts(block)
    elif kind in encoding.REASONING_TYPES:
        # Count the text, ignore the signature, and estimate encrypted data up to a limit.
        yield from _content_parts(encoding.reasoning_text(block))
        if data := block.get("data"):
            yield min(len(str(data)) // 4, _MOST_MEDIA_TOKENS)
    elif kind in encoding.MEDIA_TYPES:
        yield from _media_parts(block)
    elif kind == "tool_result":
        yield from _content_parts([block.get("tool_use_id"), block.get("content")])
    else:
        text = _json(block)
        yield _OPAQUE_DATA.sub("", text)
        yield from map(_media_tokens, _OPAQUE_DATA.findall(text))


def _call_parts(call: Any) -> Iterator[Any]:
    if isinstance(call, Mapping):
        name, arguments = encoding.parse_call(call)
        arguments = "" if arguments is None else arguments
        yield f"{name} {arguments if isinstance(arguments, str) else _json(arguments)}"
        yield 6  # tokens around a call
    else:
        yield str(call)


def _media_parts(block: Mapping[str, Any]) -> Iterator[Any]:
    source = next((block[k] for k in ("source", "file", "input_audio") if isinstance(block.get(k), Mapping)), block)
    if encoding.block_type(source) in {"text", "content"}:  # a document with its content as text
        yield from _content_parts(source.get("data") or source.get("content"))
    else:
        keys = ("data", "base64", "file_data", "video", "audio")
        data = next((source[key] for key in keys if isinstance(source.get(key), str | bytes)), None)
        yield _UNKNOWN_MEDIA_TOKENS if data is None else _media_tokens(data)


def _field_getter(message: Any) -> Callable[[str], Any]:
    """Return a function that returns the fields of a message by name."""
    if isinstance(message, str):
        return {"content": message}.get
    if isinstance(message, tuple) and len(message) == 2:  # noqa: PLR2004 - (role, content)
        return {"content": message[1]}.get
    if isinstance(message, Mapping):
        inner = message.get("data")
        if "content" not in message and isinstance(inner, Mapping):  # the form of LangChain's messages_to_dict
            return inner.get
        if "content" in message or "role" in message:
            return message.get
    elif "content" in (fields := getattr(message, "__dict__", None) or {}):
        return fields.get  # ten times as fast as `getattr` for attributes that a pydantic model lacks
    elif hasattr(message, "content"):
        return lambda name: getattr(message, name, None)
    raise MessageError(
        f"Cannot count {safe_repr(type(message).__name__)} as a message. Pass a LangChain message, a string, "
        "or a dict with 'role' and 'content'."
    )


def _media_tokens(data: str | bytes) -> int:
    return min(max(len(data) // 64, _LEAST_MEDIA_TOKENS), _MOST_MEDIA_TOKENS)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_as_text)
    except TypeError:  # a key that JSON does not allow
        return str(value)


def _as_text(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes | bytearray) else str(value)


# --- Counters passed by users ------------------------------------------------------------------------------------


def _adapt_counter(counter: Callable[[Any], int]) -> Callable[[str], int]:
    """Convert a counter of texts, messages or lists of messages to a counter of texts.

    Raises:
        InvalidInput: Neither the name nor the annotation of its parameter shows which of these it counts.
    """
    from langchain_core.messages import HumanMessage  # noqa: PLC0415 - most counters do not need it

    try:
        [parameter, *_] = inspect.signature(counter).parameters.values()
        declaration = f"{parameter.name}: {inspect.formatannotation(parameter.annotation)}"
    except Exception:  # noqa: BLE001 - inspecting a caller's object may raise anything
        declaration = ""
    if re.search(r"(?i)\bmessages:|\[.*message", declaration):
        return lambda text: counter([HumanMessage(text)]) - counter([HumanMessage("")])
    if re.search(r"(?i)message|\bmsg:", declaration):
        return lambda text: counter(HumanMessage(text)) - counter(HumanMessage(""))
    if re.search(r"\bstr\b|\btext:", declaration):
        return counter
    raise InvalidInput(
        f"Cannot determine what {safe_repr(counter)} counts. Annotate or name its parameter: text: str, message: "
        "BaseMessage, or messages: list[BaseMessage]."
    )


@lru_cache(maxsize=1)
def _tiktoken_counter() -> Callable[[str], int] | None:
    """Return a text counter by tiktoken's o200k_base; None if tiktoken cannot be used.

    The vocabulary must be on this machine and undamaged.
    """
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    path = Path(tempfile.gettempdir(), "data-gym-cache") if folder is None else Path(folder)
    try:
        data = b"" if folder == "" else (path / VOCABULARY).read_bytes()
        if hashlib.sha256(data).hexdigest() != _VOCABULARY_DIGEST:
            return None
        import tiktoken  # noqa: PLC0415 - importing this package must stay quick

        encode = tiktoken.get_encoding("o200k_base").encode_ordinary  # treats "<|endoftext|>" as text
    except Exception:  # noqa: BLE001 - if the file is missing or tiktoken is broken, use the estimate
        _log.debug("tiktoken cannot be used.", exc_info=True)
        return None
    return lambda text: sum(len(encode(text[at : at + _CHUNK_LENGTH])) for at in range(0, len(text), _CHUNK_LENGTH))


def _count_by_default(text: str) -> int:
    """Count the tokens of a text by tiktoken if it can be used, else by the estimate."""
    return (_tiktoken_counter() or estimate_tokens)(text)


def _resolve_counter(counter: Any) -> Callable[[str], int]:
    """Return the counter of texts for a user's argument."""
    if counter is None:
        return _count_by_default
    if counter == "estimate":
        return estimate_tokens
    if counter == "tiktoken":
        if _tiktoken_counter() is None:
            raise InvalidInput(
                "tiktoken's vocabulary o200k_base is missing or damaged on this machine, and this package never "
                f"downloads it. Put the file {VOCABULARY} into the folder TIKTOKEN_CACHE_DIR, or use "
                "counter='estimate'."
            )
        return _count_by_default
    if counter == "approximate":
        from langchain_core.messages.utils import count_tokens_approximately as counter  # noqa: PLC0415
    if _lacks_offline_tokenizer(counter):
        _log.warning("%s cannot count tokens offline; estimating instead.", type(counter).__name__)
        return estimate_tokens
    count: Any = getattr(counter, "get_num_tokens", None)
    if count is None and callable(counter):
        return _adapt_counter(counter)
    if not callable(count):
        raise InvalidInput(
            f"{safe_repr(counter)} cannot count tokens. Pass None, 'estimate', 'tiktoken', 'approximate', a callable "
            "from a text, a message or a list of messages to int, or a LangChain model."
        )
    return count  # type: ignore[no-any-return]  # a model's method is untyped


# --- The counter -------------------------------------------------------------------------------------------------

_MIN_LEARN_TOKENS = 200  # a smaller context does not calibrate the counter
_MAX_KEY_LENGTH = 4_096  # characters; longer texts are cached by their digest

VOCABULARY = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""The name of tiktoken's vocabulary file for o200k_base: the SHA-1 of its URL."""
_VOCABULARY_DIGEST = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""The SHA-256 of the undamaged file."""
_CHUNK_LENGTH = 32_768
"""The maximum number of characters per call of tiktoken, which fails for a million spaces in a row."""

MESSAGE_OVERHEAD = 3
"""Tokens around each message: role and separators."""
CACHE_SIZE = 8_192
"""The maximum number of cached counts, about 30 MB at most. The least recently used are removed first."""


class TokenCounter:
    """A token counter for texts, messages and contexts.

    A counter caches the count of each message, and `learn` calibrates it with the counts that providers report. Threads
    may share a counter. tiktoken's vocabulary is loaded once in a process, at the first count that needs it.

    Args:
        counter: The counter of texts.

            - None: tiktoken's o200k_base if its file is on this machine, else the estimate.
            - "tiktoken", or "estimate" for an estimate that errs high.
            - "approximate": LangChain's `count_tokens_approximately`.
            - A callable from a string, a message or a list of messages to a number of tokens. Its parameter must have
              the matching annotation, or the name "text", "message" or "messages".
            - Any LangChain model; its ``get_num_tokens`` is called, which may use the network if the model does.

            If a callable or model fails, the estimate is used and the failure is logged once.
        image_tokens: Tokens for each image, whatever its size. Default 800, a photograph of about a megapixel.

    Raises:
        InvalidInput: The name is unknown, the counter cannot count, or `image_tokens` is invalid.
    """

    _lock = PerProcess(threading.RLock)

    def __init__(self, counter: CounterLike | None = None, *, image_tokens: int = 800) -> None:
        check_integer("image_tokens", image_tokens)
        self._image_tokens = image_tokens
        self._counts: OrderedDict[Any, Any] = OrderedDict()
        self._factor, self._learn_count = 1.0, 0
        self._failed = False
        self._count = _resolve_counter(counter)

    def count_text(self, text: str) -> int:
        """Count one text, without overhead, cache or calibration.

        Args:
            text: Any text, including lone surrogates, NULs and the names of special tokens.

        Returns:
            Tokens.
        """
        if not text:
            return 0
        try:
            return max(0, math.ceil(self._count(text)))
        except Exception as error:  # a failing counter never breaks the run
            if is_graph_bubble_up(error):
                raise
            if not self._failed:
                self._failed = True
                _log.warning("The token counter failed; estimating instead.", exc_info=True)
            return estimate_tokens(text)

    def count_message(self, message: Countable) -> int:
        """Count one message: its text, name, tool calls and their ids, reasoning and images.

        A file, audio or video costs one token for every 64 characters of its base64, at least 200 and at most 10,000.
        It costs 1,000 tokens if only its address is known. These costs are estimates.

        Args:
            message: A LangChain message, a dict with "role" and "content", a string, a pair of role and content, or
                any object with ``content``.

        Returns:
            The uncalibrated number of tokens, including the overhead of a message.

        Raises:
            MessageError: The message has none of these forms, or is nested too deeply.
        """
        get = _field_getter(message)
        try:
            parts = _token_parts(get)
        except (RecursionError, ValueError) as exc:
            raise MessageError("The message is nested too deeply to be counted, or contains itself.") from exc
        texts = tuple([part for part in parts if isinstance(part, str)])
        fixed = sum([self._image_tokens if part is IMAGE else part for part in parts if not isinstance(part, str)])
        return MESSAGE_OVERHEAD + fixed + self._count_texts(texts)

    def count(
        self, messages: Iterable[Countable], *, tools: Iterable[ToolLike] | None = None, system: Countable | None = None
    ) -> int:
        """Count the tokens of a context: everything that a model receives in one call.

        Args:
            messages: The messages, as for `count_message`. Counts are cached.
            tools: LangChain tools, dict schemas, pydantic classes or functions. Default: none.
            system: A string or message sent before the messages. Default: none.

        Returns:
            The calibrated number of tokens.

        Raises:
            MessageError: One of the messages is not a message.
        """
        total = sum(map(self.count_message, messages))
        if system is not None and not (isinstance(system, str) and not system):
            total += self.count_message(system)
        if tools is not None and not isinstance(tools, Iterable):
            raise InvalidInput(f"tools must be a list of tools, got {safe_repr(tools)}.")
        # Each schema has 8 tokens around it.
        total += sum(8 + self._count_tool(tool) for tool in (() if tools is None else tools))
        return math.ceil(total * self._factor)

    def learn(self, counted: int, reported: int, reply_id: str | None = None) -> None:
        """Calibrate the counter with the tokens that a provider reported for a context.

        Contexts of fewer than 200 tokens are ignored, because overheads dominate there.

        Args:
            counted: The uncalibrated tokens of the context.
            reported: The provider's input tokens, including tokens read from a cache, as LangChain reports them.
            reply_id: The id of the reply with the report. A second report of the same reply is ignored. Default: none.
        """
        if counted < _MIN_LEARN_TOKENS or not isinstance(reported, int | float) or not 0 < reported < math.inf:
            return
        mark = object()  # the cache returns another mark if the reply was reported before
        if reply_id is not None and self._get_or_make(("reply", reply_id, reported), lambda: mark) is not mark:
            return
        ratio = min(max(reported / counted, 0.5), 2.0)
        with self._lock:
            self._learn_count += 1
            # The factor is first the mean of 5 reports, then a moving average, which adapts to a provider's changes.
            self._factor += (ratio - self._factor) * max(0.2, 1 / self._learn_count)

    def factor(self) -> float:
        """Return the calibration factor of counts, from 0.5 to 2.0.

        It is 1.0 until the first calibration.
        """
        return self._factor

    def _count_texts(self, texts: tuple[str, ...]) -> int:
        # The key is the content, so it cannot be stale. The key of long texts is their digest.
        is_long = sum(map(len, texts)) > _MAX_KEY_LENGTH
        key = hashlib.blake2b(repr(texts).encode(), digest_size=16).digest() if is_long else texts
        return self._get_or_make(key, lambda: sum(map(self.count_text, texts)))

    def _count_tool(self, tool: Any) -> int:
        # Building a schema takes a millisecond, so the count is cached. The cache keeps the tool alive, so no other
        # tool gets its id. A dict may be modified in place and is cheap to count, so its text is the key.
        if isinstance(tool, Mapping):
            return self._count_texts((_schema_text(tool),))
        texts = [str(getattr(tool, name, "")) for name in ("name", "description")]
        key = (id(tool), *texts, id(getattr(tool, "args_schema", None)))
        return self._get_or_make(key, lambda: (self.count_text(_schema_text(tool)), tool))[0]

    def _get_or_make(self, key: Any, make: Callable[[], T]) -> T:
        with self._lock:
            if key in self._counts:
                self._counts.move_to_end(key)
                cached: T = self._counts[key]
                return cached
        value = make()
        with self._lock:
            self._counts[key] = value
            while len(self._counts) > CACHE_SIZE:
                self._counts.popitem(last=False)
        return value


def _schema_text(tool: Any) -> str:
    try:
        from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: PLC0415 - only for tools

        return _json(convert_to_openai_tool(tool))
    except Exception:  # noqa: BLE001 - a provider's own tool, which LangChain cannot convert
        with suppress(Exception):  # if the tool cannot be serialized, count a short description
            return _json(tool) if isinstance(tool, Mapping) else repr(tool)
        return safe_repr(tool)


def clip_text(text: str, tokens: int, counter: TokenCounter, *, marker: str = "") -> str:
    """Cut a text to a maximum number of tokens, at a space if one is near.

    Args:
        text: Any text.
        tokens: The maximum number of tokens of the result, including the marker.
        counter: The token counter.
        marker: The text at the cut. It is omitted if it alone exceeds the maximum. Default: nothing.

    Returns:
        The cut text, or the text itself if it is short enough.
    """
    if counter.count_text(text) <= tokens:
        return text
    marker = marker if counter.count_text(marker) <= tokens else ""
    # A binary search for the longest beginning that fits, with at most 16 characters per token on average.
    low, high = 0, min(len(text), max(0, tokens) * 16)
    while low < high:
        middle = (low + high + 1) // 2
        if counter.count_text(text[:middle] + marker) <= tokens:
            low = middle
        else:
            high = middle - 1
    blank = text.rfind(" ", low - min(low, 40), low)
    at_blank = text[:blank].rstrip() + marker
    return at_blank if blank > 0 and counter.count_text(at_blank) <= tokens else text[:low] + marker


CORE, RECALL, ARCHIVAL = ("core", "recall", "archival")
"""The sections of a prompt, in their order."""
CUT_MARKER = "..."
"""The marker at the end of a text that was cut."""


class Budget(Options):
    """The maximum size of memory in a prompt, in total and per section, including headings.

    Items that do not fit are left out. The first to go are the least important and least recently updated core entries,
    the oldest events, and the records with the lowest rank. If not even one line fits, it is cut.

    Attributes:
        total: For all sections. Core memory has priority, then events, then records. Default None: no limit.
        core: For core memory. Default None: no limit.
        recall: For events. Default None: no limit.
        archival: For records. Default None: no limit.
        archival_snippet: For one record; a longer record is shortened. Default 3,000.
        unit: The unit of all limits: "characters" or "tokens". Default "characters".

    Raises:
        InvalidInput: A value is invalid.
    """

    total: int | None = Field(default=None, ge=0)
    core: int | None = Field(default=None, ge=0)
    recall: int | None = Field(default=None, ge=0)
    archival: int | None = Field(default=None, ge=0)
    archival_snippet: int = Field(default=3000, ge=0)
    unit: Literal["characters", "tokens"] = "characters"

    @classmethod
    def of(cls, given: BudgetLike | None, defaults: Mapping[str, Any] | None = None) -> Budget:
        """Convert an argument to a budget.

        Args:
            given: A budget; a number, which is the total in characters; a mapping of the names of a budget's fields to
                their values; or None.
            defaults: Values for fields that the user does not set, such as `section_budgets` of the settings, in
                characters. Names that are not fields of a budget are ignored.

        Raises:
            InvalidInput: The argument is none of these.
        """
        if isinstance(given, Budget):
            return given
        if given is None or isinstance(given, int):
            given = {} if given is None else {"total": check_value(Annotated[int, Ge(0)], given, "budget")}
        if not isinstance(given, Mapping):
            raise InvalidInput(f"budget must be a number of characters, a mapping or a Budget, got {safe_repr(given)}.")
        given = {str(name): value for name, value in given.items()}
        if given.get("unit", "characters") != "characters":
            return cls(**given)  # the defaults are in characters
        known_defaults = {name: value for name, value in (defaults or {}).items() if name in cls.model_fields}
        return cls(**known_defaults | given)


class Measure:
    """A helper that measures and cuts texts in the unit of a budget.

    Args:
        budget: The budget.
        counter: The token counter, for a budget in tokens. Default: a new one.
    """

    def __init__(self, budget: Budget, counter: TokenCounter | None = None) -> None:
        self._counter = (counter or TokenCounter()) if budget.unit == "tokens" else None

    def size(self, text: str) -> int:
        """Return the size of a text in the unit of the budget."""
        return len(text) if self._counter is None else self._counter.count_text(text)

    def cut(self, text: str, room: int) -> str:
        """Cut a text to a maximum size, and mark the cut; return "" if not even the mark fits."""
        if self.size(text) <= room:
            return text
        if self._counter is None:
            return text[: room - len(CUT_MARKER)] + CUT_MARKER if room > len(CUT_MARKER) else ""
        return clip_text(text, room, self._counter, marker=CUT_MARKER) if room > self.size(CUT_MARKER) else ""

    def characters(self, room: int) -> int:
        """Return the approximate number of characters that fit into a size."""
        return room if self._counter is None else 4 * room  # a token has about 4 characters
