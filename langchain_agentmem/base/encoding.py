"""A lossless JSON encoding of Python values.

Plain JSON turns tuples into lists and integer keys into text, and refuses bytes and dates. This module writes a value
without a JSON type as a tagged object: ``{"$agentmem": "bytes", "value": "aGk="}``. It decodes the object to the
original value. A dictionary with the key ``"$agentmem"``, or with a key that is not text, is written as tagged pairs.
No stored value can therefore be mistaken for a tag. The set of tags is fixed, so decoding never imports or calls
anything that the data names. A *plain* value consists of JSON types only.

The bytes of `encode` are canonical: the order of dictionary keys and set members does not change them. A hash of the
bytes can identify a value. `write_plain` keeps the order of keys instead. Text is preserved exactly, including NUL
characters and lone surrogates.

A subclass of a supported type, such as an ``IntEnum``, is stored as the supported type. Any other object is refused,
since decoding would have to import its class. Further functions read the content blocks of providers' messages.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from json.encoder import encode_basestring
from math import isfinite
from typing import Any, NoReturn, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from langchain_agentmem.errors import DatabaseUnreadable, InvalidInput, safe_repr

TAG = "$agentmem"
"""The key that marks a tagged value."""

MAX_DEPTH = 128
"""The maximum nesting of containers. It is far below Python's recursion limit."""

_INTEGER_BOUND = 1 << 4096  # Python limits the digits of decimal integers, so larger ones are in hex


T = TypeVar("T")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_JSON: dict[str, Any] = {"ensure_ascii": False, "separators": (",", ":"), "check_circular": False, "allow_nan": False}
_dump_sorted = json.JSONEncoder(sort_keys=True, **_JSON).encode
_dump_ordered = json.JSONEncoder(**_JSON).encode
as_json: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":")).encode
"""Write a plain value as JSON without spaces. SQL queries receive lists in this form."""
parse_json: Callable[[str], Any] = json.JSONDecoder(parse_constant=_refuse_constant).decode
"""Parse JSON, and refuse the constants NaN and Infinity."""


def is_plain(value: Any, depth: int = MAX_DEPTH) -> bool:  # noqa: PLR0911 - one line for each type
    """Return whether JSON alone preserves a value exactly.

    Args:
        value: Anything.
        depth: The maximum number of levels of containers. Default: `MAX_DEPTH`.

    Returns:
        True if the value consists of text, booleans, None, finite floats, integers of at most 4,096 bits, lists and
        dictionaries. Subclasses do not count, and all keys must be text other than `TAG`.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return bool(-_INTEGER_BOUND < value < _INTEGER_BOUND)
    if kind is float:
        return isfinite(value)
    if depth and kind is dict and TAG not in value:
        for key, item in value.items():
            if type(key) is not str or (type(item) is not str and not is_plain(item, depth - 1)):
                return False
        return True
    if depth and kind is list:
        return all(type(item) is str or is_plain(item, depth - 1) for item in value)
    return False


def to_plain(value: Any) -> Any:
    """Convert a value to JSON types, with tags for the values that JSON lacks.

    Args:
        value: Text, numbers, booleans, None, bytes, dates, times, durations, UUIDs, decimals, and
            dictionaries, lists, tuples and sets of them.

    Returns:
        A value of JSON types. `from_plain` converts the result back to an equal value of the same supported types.

    Raises:
        InvalidInput: The value, or a value inside it, cannot be stored. The message contains its path and the reason.
    """
    return _encode_value(value, (), MAX_DEPTH)


def from_plain(value: Any) -> Any:
    """Convert a result of `to_plain` back to the original value.

    Args:
        value: The result of `to_plain`, or the same value parsed from JSON.

    Returns:
        A value equal to the original, with new containers.

    Raises:
        InvalidInput: A tag is unknown or damaged, or the value is nested too deeply.
    """
    try:
        return _decode_value(value)
    except RecursionError:
        raise InvalidInput(_TOO_DEEP) from None


def encode(value: Any) -> bytes:
    """Write a value as canonical JSON in UTF-8.

    Args:
        value: See `to_plain`.

    Returns:
        Compact JSON with sorted keys. The error handler ``surrogatepass`` keeps lone surrogates.

    Raises:
        InvalidInput: See `to_plain`.
    """
    return _dump_sorted(value if is_plain(value) else to_plain(value)).encode("utf-8", "surrogatepass")


def decode(data: bytes) -> Any:
    """Decode the bytes that `encode` returned.

    Args:
        data: JSON in UTF-8.

    Returns:
        A value equal to the encoded one, of the same supported types.

    Raises:
        InvalidInput: The bytes are damaged, nested too deeply, or contain a tag that this version does not know.
    """
    value = read_plain(data)
    return from_plain(value) if _TAG_BYTES in data else value


def write_plain(value: Any) -> bytes:
    """Write a result of `to_plain` as JSON in UTF-8, with its keys in their order.

    The value is not checked.
    """
    return _dump_ordered(value).encode("utf-8", "surrogatepass")


def json_value(value: Any, timespec: str = "auto") -> Any:  # noqa: PLR0911 - one line for each type
    """Convert a value to JSON types without tags, for other programs.

    The result cannot be converted back.

    Args:
        value: Anything. Dataclasses and named tuples become dictionaries, without the private fields of dataclasses.
            Sets become sorted lists, and datetimes ISO 8601 text. Durations become seconds, and bytes become None.
            Any other value without a JSON type becomes its `str`.
        timespec: The precision of datetimes, as for `datetime.isoformat`. Default: "auto", up to the microsecond.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value) if each.name[0] != "_"}
    if isinstance(value, Mapping):
        return {str(key): json_value(each, timespec) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each, timespec) for each in value]
    if isinstance(value, set | frozenset):
        return sorted((json_value(each, timespec) for each in value), key=str)  # the same order in every process
    if isinstance(value, datetime):
        return value.isoformat(timespec=timespec)
    if isinstance(value, timedelta):
        return value.total_seconds()
    return None if isinstance(value, bytes | bytearray) else str(value)


quote_json: Callable[[str], str] = encode_basestring
"""Return a text as a JSON string, in the form that `write_plain` encodes to bytes."""


def read_plain(data: bytes) -> Any:
    """Parse JSON in UTF-8 without decoding tags.

    Raises:
        InvalidInput: The bytes are damaged, or nested too deeply.
    """
    try:
        return parse_json(data.decode("utf-8", "surrogatepass"))
    except RecursionError:
        raise InvalidInput(_TOO_DEEP) from None
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInput(f"The stored bytes are damaged: {error}") from error


def read_column(text: str | None, kind: type[T]) -> T:
    """Parse the JSON text of a database column, without tags.

    Args:
        text: The content of the column. None or "" results in an empty value of `kind`.
        kind: The expected type: `dict` or `list`.

    Raises:
        DatabaseUnreadable: The text is not JSON, or is of another type.
    """
    try:
        value = json.loads(text) if text else kind()
    except (ValueError, TypeError, RecursionError):
        value = None
    if isinstance(value, kind):
        return value
    raise DatabaseUnreadable(f"The database is damaged: {safe_repr(text)} is not a {kind.__name__}. Run verify().")


_TAG_BYTES = f'"{TAG}"'.encode()
_TOO_DEEP = f"The value is nested more than {MAX_DEPTH} levels deep, or refers to itself."


def _tag(name: str, value: Any) -> dict[str, Any]:
    return {TAG: name, "value": value}


def _encode_value(value: Any, path: tuple[Any, ...], depth: int) -> Any:  # noqa: C901, PLR0911 - one line for each type
    """Return the JSON form of a value with at most `depth` levels of containers.

    `path` locates the value: a pair of the container's path, and the key or index of the value in the container. The
    path of the root is (). Paths are formatted only for errors.
    """
    if value is None or type(value) is str or type(value) is bool:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        number = int(value)
        return number if -_INTEGER_BOUND < number < _INTEGER_BOUND else _tag("int", hex(number))
    if isinstance(value, float):
        real = float(value)
        return real if isfinite(real) else _tag("float", repr(real))
    if isinstance(value, dict | list | tuple | set | frozenset):
        if not depth:
            raise _encoding_error(path, _TOO_DEEP)
        if isinstance(value, dict):
            return _encode_dict(value, path, depth - 1)
        plain = [_encode_value(item, (path, index), depth - 1) for index, item in enumerate(value)]
        if isinstance(value, list):
            return plain
        if isinstance(value, tuple):
            return _tag("tuple", plain)
        return _tag("set" if isinstance(value, set) else "frozenset", sorted(plain, key=_dump_sorted))
    for kind, name, to_json, _ in _TAGGED_TYPES:
        if isinstance(value, kind):
            try:
                return _tag(name, to_json(value))
            except (ValueError, OverflowError) as error:  # a subclass such as pandas.NaT that is not a real date
                raise _encoding_error(path, f"{safe_repr(value)} cannot be written: {error}") from error
    raise _encoding_error(path, _describe_unsupported(value))


def _encode_dict(items: Mapping[Any, Any], path: tuple[Any, ...], depth: int) -> dict[str, Any]:
    pairs = [
        (_encode_value(key, (path, key), depth), _encode_value(item, (path, key), depth)) for key, item in items.items()
    ]
    if TAG not in items and all(isinstance(key, str) for key in items):
        return dict(pairs)
    return _tag("dict", sorted(map(list, pairs), key=lambda pair: _dump_sorted(pair[0])))


def _encoding_error(path: tuple[Any, ...], reason: str) -> InvalidInput:
    path_text = ""
    while path:
        path, step = path
        path_text = (f".{step}" if isinstance(step, str) else f"[{safe_repr(step)}]") + path_text
    return InvalidInput(f"{path_text.lstrip('.')}: {reason}" if path_text else reason)


def _describe_unsupported(value: Any) -> str:
    kind = type(value)
    if hasattr(kind, "model_dump"):
        remedy = "Pass its .model_dump(mode='json') instead"
    elif dataclasses.is_dataclass(kind):
        remedy = "Pass dataclasses.asdict(...) of it instead"
    else:
        remedy = "Pass text, numbers, lists and dictionaries instead"
    return f"an object of type {kind.__module__}.{kind.__qualname__} cannot be stored as JSON. {remedy}."


def _encode_time(value: datetime | time) -> Any:
    """Return a time as ISO 8601 text, or as a dictionary that keeps its zone and its fold."""
    if isinstance(value, datetime):
        datetime.fromisoformat(value.isoformat())  # refuses a subclass that is not a real date
    zone = value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) else None
    if zone is None and not value.fold:
        return value.isoformat()
    plain = value.replace(tzinfo=None) if zone and isinstance(value, time) else value  # the zone is stored by name
    return {"iso": plain.isoformat(), "fold": value.fold, "zone": zone}


def _decode_time(kind: type[datetime | time], value: Any) -> datetime | time:
    if isinstance(value, str):
        return kind.fromisoformat(value)
    parsed = kind.fromisoformat(value["iso"]).replace(fold=value["fold"])
    try:
        return parsed if value["zone"] is None else parsed.replace(tzinfo=ZoneInfo(value["zone"]))
    except (KeyError, ValueError, OSError):  # this machine does not know the zone; a datetime keeps its offset
        if isinstance(parsed, time):
            raise
        return parsed


def _base64(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode("ascii")


_TAGGED_TYPES: tuple[tuple[type, str, Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    (bytes, "bytes", _base64, partial(base64.b64decode, validate=True)),
    (bytearray, "bytearray", _base64, lambda text: bytearray(base64.b64decode(text, validate=True))),
    (datetime, "datetime", _encode_time, partial(_decode_time, datetime)),  # before date, its parent
    (date, "date", date.isoformat, date.fromisoformat),
    (time, "time", _encode_time, partial(_decode_time, time)),
    (timedelta, "timedelta", lambda span: [span.days, span.seconds, span.microseconds], lambda args: timedelta(*args)),
    (UUID, "uuid", lambda value: value.hex, lambda text: UUID(hex=text)),
    (Decimal, "decimal", str, Decimal),
    (complex, "complex", lambda value: [repr(value.real), repr(value.imag)], lambda pair: complex(*map(float, pair))),
)
"""The types that have a tag, each with its tag, the function that encodes a value, and the function that decodes it."""
_DECODERS: dict[str, Callable[[Any], Any]] = {name: from_json for _, name, _, from_json in _TAGGED_TYPES}
_DECODERS.update(int=partial(int, base=16), float=float, tuple=tuple, set=set, frozenset=frozenset, dict=dict)


def _decode_value(value: Any) -> Any:
    if type(value) is list:
        return [_decode_value(item) for item in value]
    if type(value) is not dict:
        return value
    plain = {key: _decode_value(item) for key, item in value.items()}
    if TAG not in plain:
        return plain
    try:
        from_json = _DECODERS[plain[TAG]]
    except (KeyError, TypeError):
        raise InvalidInput(f"Unknown tag {safe_repr(plain[TAG])}: it is damaged, or from a newer version.") from None
    try:
        return from_json(plain["value"])
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError) as error:
        raise InvalidInput(f"The stored {plain[TAG]} is damaged: {safe_repr(error)}") from error


def value_at(value: Any, key: Any) -> Any:
    """Return the value of a mapping at a key or a dotted path.

    Returns:
        The value. None if the key is missing, or `value` is not a mapping.
    """
    if not isinstance(value, Mapping):
        return None
    if key in value:
        return value[key]
    for dot in re.finditer(r"\.", key) if isinstance(key, str) else ():  # any dot may be part of a name
        inner = value.get(key[: dot.start()])
        if isinstance(inner, Mapping) and (nested := value_at(inner, key[dot.end() :])) is not None:
            return nested
    return None


def replace_surrogates(value: T) -> T:
    """Replace the surrogates in texts, so that all texts can be written as UTF-8.

    The clients of model providers require UTF-8.

    Args:
        value: A text, or nested lists and dictionaries. Values of other types are returned unchanged.

    Returns:
        The value. A surrogate pair becomes one character, and any other surrogate becomes U+FFFD. The same object is
        returned if it contains no surrogates, or if it is nested too deeply to be searched.
    """
    try:
        return _clean_surrogates(value)
    except RecursionError:
        return value


def _clean_surrogates(value: T) -> T:
    if isinstance(value, str):
        try:
            value.isascii() or value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")  # type: ignore[return-value]
        return value
    clean: Any = value
    if isinstance(value, dict):
        clean = {_clean_surrogates(key): _clean_surrogates(item) for key, item in value.items()}
    elif isinstance(value, list):
        clean = [_clean_surrogates(item) for item in value]
    return value if clean == value else clean


TEXT_TYPES = frozenset({"input_text", "output_text", "text"})
IMAGE_TYPES = frozenset({"image", "image_generation_call", "image_url", "input_image"})
MEDIA_TYPES = frozenset({"audio", "document", "file", "input_audio", "input_file", "media", "video"})
REASONING_TYPES = frozenset({"reasoning", "reasoning_content", "redacted_thinking", "thinking"})
CALL_TYPES = frozenset(
    {"function_call", "input_json_delta", "invalid_tool_call", "tool_call", "tool_call_chunk", "tool_use"}
)
"""The "type" values of content blocks, grouped by content. `CALL_TYPES` omits tools that the provider runs itself."""


def block_type(block: Any) -> str | None:
    """Return the "type" of a content block; None if it is missing or not text.

    Args:
        block: A block of a message's content. Any other value has no type.
    """
    kind = block.get("type") if isinstance(block, Mapping) else None
    return kind if isinstance(kind, str) else None


def inline_image(block: Any) -> dict[str, Any] | None:
    """Return the base64 data and the MIME type of an image in Gemini's form, else None.

    The returned keys are those of an image block of LangChain.
    """
    if not isinstance(block, Mapping) or block_type(block) not in (None, "media"):
        return None
    inline = block.get("inline_data", block.get("inlineData", block))
    mime_type = inline.get("mime_type", inline.get("mimeType")) if isinstance(inline, Mapping) else None
    return {"base64": inline.get("data"), "mime_type": mime_type} if str(mime_type).startswith("image/") else None


def is_image(block: Any) -> bool:
    """Return whether a block is an image in the form of any supported provider."""
    return block_type(block) in IMAGE_TYPES or inline_image(block) is not None


_ARGUMENT_KEYS = ("args", "arguments", "input")
_REASONING_KEYS = ("reasoning", "reasoning_content", "thinking", "text", "summary", "content")


def parse_call(call: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the name and the arguments of a tool call in any supported provider's form.

    A missing name becomes "". Missing arguments become None.
    """
    function = call.get("function")
    fields = function if isinstance(function, Mapping) else call
    name = fields.get("name")
    arguments = next((fields[key] for key in _ARGUMENT_KEYS if fields.get(key) is not None), None)
    return name if isinstance(name, str) else "", arguments


def reasoning_text(content: Any) -> str:
    """Return the text of reasoning blocks of any form, joined by line breaks.

    Signatures and encrypted reasoning are omitted.

    Args:
        content: Text, a block, or a list of these.
    """
    if isinstance(content, Mapping):
        content = [content.get(key) for key in _REASONING_KEYS]
    if isinstance(content, list):
        return "\n".join(filter(None, map(reasoning_text, content)))
    return content if isinstance(content, str) else ""
