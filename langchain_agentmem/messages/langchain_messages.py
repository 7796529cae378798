"""Lossless conversion between LangChain's messages and `Message`, in both directions.

Fields that both have are copied. `Message.langchain` has the fields that only LangChain has, such as metadata,
artifacts and the class of a chunk. Fields with LangChain's default are left out.

Fields that LangChain cannot express are stored in a note, under the key ``"agentmem"`` of ``additional_kwargs``. The
conversion to `Message` removes the note. For each field of the note, the LangChain message may have another value. The
note contains a fingerprint of this value. If the fingerprint no longer matches, the application changed the value after
the conversion. In this case the changed value is kept, and the value of the note is ignored.

LangChain's constructors rewrite their arguments: they parse calls, fill in chunks, and convert numbers to text. A
message must be restored unchanged. So it is made as a copy of an empty message, without validation.

LangChain stores the arguments of a tool call as a dictionary, and calls that it cannot parse in a second list.
`ToolCallMsg` stores the text of the arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Any

from langchain_core import messages as lc
from langchain_core.messages import BaseMessage

from langchain_agentmem.base.encoding import encode, is_plain, parse_json, write_plain
from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.messages import provider_content
from langchain_agentmem.messages.message import LANGCHAIN_ROLES, STORED_FIELDS, Message, ToolCallMsg, encode_body


def calls_from_langchain(valid: list[dict[str, Any]], invalid: list[dict[str, Any]]) -> tuple[list[ToolCallMsg], bool]:
    """Convert LangChain's tool calls to `ToolCallMsg`.

    Args:
        valid: The valid calls: ``{"name", "args": dictionary, "id", "type": "tool_call"}``.
        invalid: The invalid calls: ``{"name", "args": text, "id", "error", "type": "invalid_tool_call"}``.

    Returns:
        The calls, valid ones first, and whether `calls_to_langchain` restores `valid` and `invalid` exactly.
    """
    exact = is_plain(valid) and is_plain(invalid)
    calls = [
        ToolCallMsg(id=call.get("id") or "", name=call.get("name") or "", arguments=_dump_args(call.get("args"), exact))
        for call in (*valid, *invalid)
    ]
    return calls, exact and calls_to_langchain(calls) == (valid, invalid)


def calls_to_langchain(calls: Iterable[ToolCallMsg]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Convert `ToolCallMsg`s to LangChain's tool calls.

    Args:
        calls: The calls.

    Returns:
        The valid calls, whose arguments are a JSON object, and the invalid calls. An empty id becomes None.
    """
    valid: list[dict[str, Any]] = []
    invalid: list[dict[str, Any]] = []
    for call in calls:
        args = json_object(call.arguments)
        converted = {"name": call.name, "args": args, "id": call.id or None, "type": "tool_call"}
        if args is not None:
            valid.append(converted)
        else:
            invalid.append(converted | {"args": call.arguments, "error": None, "type": "invalid_tool_call"})
    return valid, invalid


def _dump_args(args: Any, exact: bool) -> str:  # noqa: FBT001
    """Write the arguments of a call as JSON text, approximately if JSON cannot express them.

    In that case `Message.langchain` stores the exact arguments too. The keys of an approximate text are sorted, since
    storage may change the order of the keys of the exact arguments.
    """
    if isinstance(args, str):
        return args
    if exact:
        return _dump_json(args)
    try:
        return provider_content.json_text(args, sort_keys=True)
    except InvalidInput:
        return json.dumps({"unreadable": repr(args)}, ensure_ascii=False)


_dump_json = json.JSONEncoder(ensure_ascii=False).encode


def json_object(text: str) -> dict[str, Any] | None:
    """Parse the arguments of a call. Return None if they are not a JSON object."""
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


NOTE_KEY = "agentmem"
"""The key of ``additional_kwargs`` for the note with the fields that LangChain lacks."""

_OPENAI_ROLE = "__openai_role__"  # LangChain's key that marks a system message as a developer message


_COMMON_FIELDS = frozenset(
    {"additional_kwargs", "content", "id", "invalid_tool_calls", "name", "role", "tool_call_id", "tool_calls", "type"}
)


class _ClassInfo:
    """The properties of a LangChain class: its role, an empty message, and its own fields."""

    def __init__(self, role: str | None, empty: BaseMessage) -> None:
        self.type_name = empty.type
        self.role = role  # the role of the messages of the class; None for `ChatMessage`, which has a field `role`
        self.empty = empty  # new messages are copies of this message
        self.own_fields = {name: value for name, value in empty.__dict__.items() if name not in _COMMON_FIELDS}


_CLASS_INFOS: dict[type[BaseMessage], _ClassInfo] = {
    type(empty): _ClassInfo(role, empty)
    for role, *empties in (
        ("user", lc.HumanMessage(content=""), lc.HumanMessageChunk(content="")),
        ("assistant", lc.AIMessage(content=""), lc.AIMessageChunk(content="")),
        ("system", lc.SystemMessage(content=""), lc.SystemMessageChunk(content="")),
        ("tool", lc.ToolMessage(content="", tool_call_id=""), lc.ToolMessageChunk(content="", tool_call_id="")),
        ("function", lc.FunctionMessage(content="", name=""), lc.FunctionMessageChunk(content="", name="")),
        (None, lc.ChatMessage(content="", role="chat"), lc.ChatMessageChunk(content="", role="chat")),
        ("remove", lc.RemoveMessage(id="")),
    )
    for empty in empties
}
EXACT_CLASSES = frozenset(_CLASS_INFOS)
"""LangChain's own classes, which are restored exactly."""

_INFO_BY_TYPE = {info.type_name: info for info in _CLASS_INFOS.values()}
_ROLE_BY_TYPE = LANGCHAIN_ROLES | dict.fromkeys(("system", "tool", "function"))  # None: the type is also the role
_INFO_BY_ROLE = {role or name: _INFO_BY_TYPE[name] for name, role in _ROLE_BY_TYPE.items()} | {
    "developer": _INFO_BY_TYPE["system"]
}
_CHAT = _INFO_BY_TYPE["chat"]
# By class: the role, the bytes before the text, and the other fields with their defaults.
_PLAIN_FORMS = {
    kind: (
        role,
        encode_body(Message(role=role, content="", message_id="-"))[: -len('""}')],
        [(name, value) for name, value in _CLASS_INFOS[kind].empty.__dict__.items() if name not in ("content", "id")],
    )
    for kind, role in ((lc.HumanMessage, "user"), (lc.AIMessage, "assistant"), (lc.SystemMessage, "system"))
}
_NO_FIELDS: dict[str, Any] = {}


def from_langchain(message: BaseMessage, *, new_id: str | None = None) -> Message:
    """Convert a LangChain message to a `Message`.

    Args:
        message: Any message. For a user's subclass, `to_langchain` later returns LangChain's own base class, and the
            fields of the subclass become extra fields.
        new_id: The id for a message without one. Default: a random UUID.

    Returns:
        The message. In ``tool_calls``, invalid calls follow valid ones.

    Raises:
        MessageError: The argument is not a LangChain message, a field has a value that no `Message` can have, or the
            message is nested too deeply.
    """
    info = _CLASS_INFOS.get(type(message)) or _find_nearest_class(message)
    extra = message.model_extra
    if type(message) not in _CLASS_INFOS:
        names = sorted(message.__dict__.keys() - info.empty.__dict__)
        extra = {name: message.__dict__[name] for name in names} | (extra or {})
    try:
        return _build_message(message.__dict__, info, extra, new_id)
    except RecursionError:
        raise MessageError("The message is nested too deeply, or refers to itself.") from None


def encode_plain(message: Any) -> tuple[str | None, str, str, bytes] | None:
    """Encode a LangChain message that has only a text and an id.

    No `Message` is built, which makes this faster than `encode_body`.

    Args:
        message: Anything.

    Returns:
        The id, role and text of the message, and the bytes of `encode_body`. None for any other message.
    """
    if (form := _PLAIN_FORMS.get(type(message))) is None or message.model_extra:
        return None
    role, start, others = form
    fields = message.__dict__
    text, message_id = fields["content"], fields["id"] or None
    if type(text) is not str or not (message_id is None or type(message_id) is str):
        return None
    for name, default in others:
        value = fields[name]
        if value is not default and (type(value) is not type(default) or value != default):
            return None
    return message_id, role, text, start + write_plain(text) + b"}"


def to_langchain(message: Message, *, part_of: provider_content.PartOf | None = None) -> BaseMessage:
    """Convert a `Message` to a LangChain message.

    Args:
        message: Any message.
        part_of: The function that converts the path or URL of an image to a part of the content, such as `image_part`,
            which reads files. Default None: only images with an http, https or data URL are added.

    Returns:
        A message of the original class, or else of the class for the role: `HumanMessage`, `AIMessage`,
        `SystemMessage`, `ToolMessage`, `FunctionMessage` or `ChatMessage`. Tool calls whose arguments are not a JSON
        object are in ``invalid_tool_calls``.

    Raises:
        MessageError: ``part_of`` cannot read an image, or the message is nested too deeply.
    """
    info = _find_class_info(message)
    try:
        fields, extra = _build_fields(message, info, part_of)
        if not _needs_no_note(message) and (note := _build_note(message, _build_message(fields, info, extra))):
            fields["additional_kwargs"] = {**fields["additional_kwargs"], NOTE_KEY: note}
    except RecursionError:
        raise MessageError("The message is nested too deeply, or refers to itself.") from None
    return info.empty.model_copy(update={**extra, **fields} if extra else fields)


def load_images(message: BaseMessage) -> BaseMessage:
    """Read the images of a message that `to_langchain` made.

    An image that cannot be read is replaced by a placeholder.

    Args:
        message: A LangChain message. It is returned unchanged if its note has no images, or if its content was changed
            after the conversion.
    """
    if not has_images(message):
        return message
    converted = from_langchain(message)
    return to_langchain(converted, part_of=provider_content.part_or_placeholder) if converted.images else message


def has_images(message: BaseMessage) -> bool:
    """Return whether the note of a message has the paths or URLs of images."""
    note = message.additional_kwargs.get(NOTE_KEY)
    return isinstance(note, dict) and "images" in (note.get("fields") or ())


def _find_nearest_class(message: Any) -> _ClassInfo:
    """Return the nearest LangChain base class of a message whose class is a user's own."""
    if not isinstance(message, BaseMessage):
        raise MessageError(f"Expected a LangChain message, not {type(message).__name__}.")
    if infos := [_CLASS_INFOS[parent] for parent in type(message).__mro__ if parent in _CLASS_INFOS]:
        return infos[0]
    raise MessageError(f"{type(message).__name__} is not a subclass of a LangChain message class.")


def _build_message(
    fields: dict[str, Any], info: _ClassInfo, extra: dict[str, Any] | None, new_id: str | None = None
) -> Message:  # from the fields of a LangChain message
    content = fields["content"]
    langchain: dict[str, Any] = {}
    values: dict[str, Any] = {
        "role": info.role or fields["role"],
        "content": content if type(content) is str else _copy_containers(content),
        "message_id": fields["id"] or new_id,
        "name": fields["name"],
    }
    kwargs = fields["additional_kwargs"]
    note = _split_kwargs(kwargs, info, langchain, values) if kwargs else None
    langchain |= {
        name: _copy_containers(value)
        for name, default in info.own_fields.items()  # the fields that only LangChain has
        if (value := fields[name]) is not default and (type(value) is not type(default) or value != default)
    }
    if info.role == "assistant" and (fields["tool_calls"] or fields["invalid_tool_calls"]):
        values["tool_calls"], exact = calls_from_langchain(fields["tool_calls"], fields["invalid_tool_calls"])
        if not exact:
            langchain["tool_calls"] = _copy_containers(fields["tool_calls"])
            langchain["invalid_tool_calls"] = _copy_containers(fields["invalid_tool_calls"])
    if info.role == "tool":
        values["tool_call_id"] = fields["tool_call_id"]
    if not values["role"]:  # a ChatMessage whose role is empty
        values["role"], langchain["role"] = info.type_name, ""
    if info.type_name != _INFO_BY_ROLE.get(values["role"], _CHAT).type_name:
        langchain["type"] = info.type_name
    if extra:
        langchain["extra"] = _copy_containers(extra)
    values["langchain"] = langchain if langchain or note is not None else None
    if note is not None:
        _apply_note(note, values)
    return Message(**values)


def _split_kwargs(
    kwargs: dict[Any, Any], info: _ClassInfo, langchain: dict[str, Any], values: dict[str, Any]
) -> dict[str, Any] | None:
    """Split `additional_kwargs`: add fields of `Message` to `values`, the rest to `langchain`.

    Return the note with the fields that LangChain lacks, or None.
    """
    rest = _copy_containers(kwargs)
    note: dict[str, Any] | None = rest.get(NOTE_KEY)
    if isinstance(note, dict) and note.keys() == {"fields", "shown"}:
        del rest[NOTE_KEY]
    else:
        note = None
    if info.role == "system" and rest.get(_OPENAI_ROLE) == "developer":
        values["role"] = "developer"
        del rest[_OPENAI_ROLE]
    if _is_canonical_time(rest.get("created_at")):
        values["created_at"] = rest.pop("created_at")
    if rest:
        langchain["additional_kwargs"] = rest
    return note


def _find_class_info(message: Message) -> _ClassInfo:
    default = _INFO_BY_ROLE.get(message.role, _CHAT)
    info = _INFO_BY_TYPE.get((message.langchain or _NO_FIELDS).get("type", ""))
    return default if info is None or info.role not in (None, "remove", default.role) else info


def _needs_no_note(message: Message) -> bool:
    """Return True if LangChain certainly has a field for each field of the message.

    False means that a note may be necessary.
    """
    return (
        type(message.content) is str
        and message.role in ("user", "assistant", "system")
        and all(getattr(message, name) is None for name in _OTHER_FIELDS)
    )


_OTHER_FIELDS = [name for name in STORED_FIELDS if name not in ("role", "content", "name")]


def _build_fields(
    message: Message, info: _ClassInfo, part_of: provider_content.PartOf | None
) -> tuple[dict[str, Any], dict[str, Any] | None]:  # the fields of a LangChain message, and its extra fields
    langchain = message.langchain or _NO_FIELDS
    kwargs: dict[str, Any] = _copy_containers(langchain.get("additional_kwargs", _NO_FIELDS))
    if message.role == "developer" and info.role == "system":
        kwargs[_OPENAI_ROLE] = "developer"
    if message.created_at is not None:
        kwargs["created_at"] = message.created_at.isoformat()
    fields: dict[str, Any] = {
        **{name: _copy_containers(langchain.get(name, default)) for name, default in info.own_fields.items()},
        "content": message.content,
        "additional_kwargs": kwargs,
        "name": message.name,
        "id": message.message_id,
    }
    if info.role == "tool":
        content, call_id = provider_content.unwrap_result(message.content, message.tool_call_id)
        fields |= {"content": content, "tool_call_id": call_id or ""}
    elif info.role is None:
        fields["role"] = langchain.get("role", message.role)
    elif info.role == "function" and message.name is None:
        fields["name"] = ""
    if type(fields["content"]) is not str or message.images:
        fields["content"] = _add_images(fields["content"], message.images or [], part_of)
    if info.role == "assistant":
        if "tool_calls" in langchain:
            fields["tool_calls"] = _copy_containers(langchain["tool_calls"])
            fields["invalid_tool_calls"] = _copy_containers(langchain.get("invalid_tool_calls", []))
        else:
            fields["tool_calls"], fields["invalid_tool_calls"] = calls_to_langchain(message.tool_calls or ())
    extra = langchain.get("extra")
    return fields, _copy_containers(extra) if extra else None


def _add_images(content: Any, images: list[str], part_of: provider_content.PartOf | None) -> str | list[Any]:
    convert = part_of or provider_content.image_url_part
    parts = [convert(image) for image in images if part_of or provider_content.is_remote(image)]
    if isinstance(content, list):
        return [*_copy_containers(content), *parts]
    text = "" if content is None else content if isinstance(content, str) else provider_content.json_text(content)
    if not parts:
        return text
    return [{"type": "text", "text": text}, *parts] if text else parts


def _build_note(message: Message, converted: Message) -> dict[str, Any] | None:
    """Make the note with the fields that LangChain would lose, or return None.

    The note also has fingerprints of the values that the LangChain message has instead.
    """
    lost = [name for name in STORED_FIELDS if getattr(converted, name) != getattr(message, name)]
    if not lost:
        return None
    if "langchain" not in lost and NOTE_KEY in (message.langchain or _NO_FIELDS).get("additional_kwargs", _NO_FIELDS):
        lost.append("langchain")  # the application used the note's key, so its own value is in this field
    fields: dict[str, Any] = {}
    fingerprints: dict[str, str] = {}
    for name in lost:
        value = getattr(message, name)
        if name in ("tool_calls", "agent_calls") and value is not None:
            fields[name] = [call.to_dict() for call in value]
        else:
            fields[name] = value.isoformat() if isinstance(value, datetime) else _copy_containers(value)
        if name != "langchain" and getattr(converted, name) is not None:
            fingerprints[name] = _fingerprint(getattr(converted, name))
    return {"fields": fields, "shown": fingerprints}


def _apply_note(note: dict[str, Any], values: dict[str, Any]) -> None:
    """Restore the fields of a note, except fields that were changed in LangChain."""
    fields, fingerprints = note["fields"], note["shown"]
    for name in STORED_FIELDS:
        value = values.get(name)
        if name == "created_at" and isinstance(value, str):
            value = datetime.fromisoformat(value)
        # If the content was changed, its image blocks apply, and the images of the note are not restored.
        images_in_content = name == "images" and "content" in fingerprints and values["content"] != fields["content"]
        if (
            name in fields
            and not images_in_content
            and (name not in fingerprints or _fingerprint(value) == fingerprints[name])
        ):
            values[name] = fields[name]


def _fingerprint(value: Any) -> str:
    """Return a fingerprint of a value that does not depend on the order of its keys."""
    if isinstance(value, list):
        value = [item.to_dict() if isinstance(item, ToolCallMsg) else item for item in value]
    try:
        data = encode(value)
    except InvalidInput:
        data = repr(value).encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=8).hexdigest()


def _is_canonical_time(value: Any) -> bool:
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return type(value) is str and time.tzinfo is not None and time.isoformat() == value


def _copy_containers(value: Any) -> Any:
    """Copy a value's dictionaries and lists at all levels, but no other values."""
    if type(value) is dict:
        return {key: item if type(item) is str else _copy_containers(item) for key, item in value.items()}
    if type(value) is list:
        return [item if type(item) is str else _copy_containers(item) for item in value]
    return value
