"""The values of a conversation between roles, such as "Planner": rounds, posts, attachments, shared entries.

A `Conversation` is a list of `Round`s, one for each user query. A round is a list of `Post`s that roles send to each
other. A post may have `Attachment`s, such as a plan, a thought, or the result of an execution. A `SharedMemoryEntry` is
stored as an attachment and visible to every role. `MessageContent` is the thought and the next action of an agent.
`Retention` limits the messages or checkpoints that are kept.

These values are frozen and compared by content. Each converts to a dictionary, to JSON or to YAML and back without
loss, ids included. Dictionaries of TaskWeaver, an agent framework with the same classes, load too: missing ids are
created, and attachments whose type no longer exists are dropped.

Data with wrong types raises an error that names the problem. Users import these names from `langchain_agentmem.model`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from langchain_agentmem.base.argument_checks import Options
from langchain_agentmem.base.data_tables import parse_yaml
from langchain_agentmem.errors import InvalidInput, safe_repr

__all__ = [
    "Attachment",
    "AttachmentType",
    "Conversation",
    "MessageContent",
    "Post",
    "Retention",
    "Round",
    "RoundState",
    "Scope",
    "SharedMemoryEntry",
    "new_id",
]


def new_id(prefix: str) -> str:
    """Make an id such as ``"conv-20260102-030405-1a2b3c4d"``.

    Args:
        prefix: The kind of object: ``conv``, ``round``, ``post``, ``atta`` (attachment), ``sme`` (shared memory entry).

    Returns:
        The prefix, the time in UTC to the second, and four random bytes in hexadecimal.
    """
    return f"{prefix}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


class Portable:
    """A value that converts to a dictionary, to JSON or to YAML and back without loss."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary of JSON types, with the keys in the order of the fields."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self | None:
        """Build the value from the result of `to_dict`.

        Args:
            data: A dictionary, from this package or from TaskWeaver.

        Returns:
            The value. None only for an attachment of a type that no longer exists.

        Raises:
            InvalidInput: The data is not a mapping, or a value in it has a wrong type.
        """
        raise NotImplementedError

    def to_json(self, *, indent: int | None = None) -> str:
        """Write the value as JSON text.

        Args:
            indent: The spaces to indent by. Default None: one line.
        """
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the value from JSON text.

        Raises:
            InvalidInput: The text is not JSON, or does not describe this kind of value.
        """
        try:
            data = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidInput(f"The text is not valid JSON: {error}") from error
        return cls._load_required(data)

    def to_yaml(self) -> str:
        """Write the value as YAML text."""
        import yaml  # noqa: PLC0415 - loaded on use

        data = self.to_dict()
        text = str(yaml.safe_dump(data, allow_unicode=True, sort_keys=False))
        if yaml.safe_load(text) == data:
            return text
        # Some rare characters (NEL, line separators, a byte order mark) survive only when they are escaped.
        return str(yaml.safe_dump(data, default_style='"', sort_keys=False))

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """Read the value from plain YAML text; tags of Python objects are refused.

        Raises:
            InvalidInput: The text is not YAML, or does not describe this kind of value.
        """
        return cls._load_required(parse_yaml(text))

    @classmethod
    def _load_required(cls, data: Any) -> Self:
        if (value := cls.from_dict(data)) is None:
            raise InvalidInput(f"{cls.__name__}: the type {safe_repr(data.get('type'))} no longer exists.")
        return value


def check_dict(cls: type, data: Any, *required: str) -> dict[str, Any]:
    """Check that data is a mapping with these keys, and return a copy as a dictionary."""
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{cls.__name__}: expected a dictionary, not {type(data).__name__}.")
    for key in required:
        if data.get(key) is None:
            raise InvalidInput(f"{cls.__name__}: {safe_repr(key)} is missing from {sorted(map(str, data))}.")
    return dict(data)


def json_copy(value: Any) -> Any:
    """Copy a value through JSON. Tuples become lists, and attachment types become their names."""
    try:
        copy = json.loads(text := json.dumps(value, allow_nan=False, default=_encode_type))
        if json.dumps(copy) != text:
            raise ValueError("two keys of one dictionary become equal as texts")  # noqa: TRY301 - converted below
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"The value cannot be written as JSON: {error}") from error
    return copy


def _encode_type(value: Any) -> str:
    if isinstance(value, AttachmentType):
        return value.value
    raise TypeError(f"{type(value).__name__} {safe_repr(value, 60)} has no JSON form")


class PortableModel(Options, Portable):
    """A value that converts to a dictionary with its fields as keys."""

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary of JSON types, with the keys in the order of the fields."""
        return dict(json_copy(self.model_dump()))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build the value from the result of `to_dict` or from TaskWeaver; ignore unknown keys.

        Raises:
            InvalidInput: A field is missing or has a wrong type.
        """
        fields = check_dict(cls, data)
        try:
            return cls(**{name: fields[name] for name in cls.model_fields if fields.get(name) is not None})
        except InvalidInput as error:
            raise InvalidInput(f"{cls.__name__}: {error}") from error


class IdentifiedModel(PortableModel):
    """A value with an id.

    Attributes:
        id: The id. Default: a new id.
    """

    _id_prefix: ClassVar[str]  # the first part of new ids, see `new_id`

    id: str = Field(default="", validate_default=True)

    @field_validator("id")
    @classmethod
    def _default_id(cls, value: str) -> str:
        return value or new_id(cls._id_prefix)


def _tuple_validator(item_class: type[IdentifiedModel]) -> BeforeValidator:
    """Make a validator that converts an iterable of values or dictionaries to a tuple.

    Attachments of types that no longer exist are dropped.
    """

    def to_tuple(items: Any) -> Any:
        if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
            return items
        values = ((item, item_class.from_dict(item) if isinstance(item, Mapping) else item) for item in items)
        return tuple(value for item, value in values if value is not None or item is None)

    return BeforeValidator(to_tuple)


RoundState = Literal["created", "finished", "failed"]
Scope = Literal["round", "conversation"]


class AttachmentType(Enum):
    """The type of an attachment, one of TaskWeaver's types. Each value equals its name."""

    plan = "plan"
    current_plan_step = "current_plan_step"
    plan_reasoning = "plan_reasoning"
    stop = "stop"
    thought = "thought"
    reply_type = "reply_type"
    reply_content = "reply_content"
    verification = "verification"
    code_error = "code_error"
    execution_status = "execution_status"
    execution_result = "execution_result"
    artifact_paths = "artifact_paths"
    revise_message = "revise_message"
    function = "function"
    web_exploring_plan = "web_exploring_plan"
    web_exploring_screenshot = "web_exploring_screenshot"
    web_exploring_link = "web_exploring_link"
    session_variables = "session_variables"
    shared_memory_entry = "shared_memory_entry"
    invalid_response = "invalid_response"
    text = "text"
    image_url = "image_url"


def _parse_type(value: Any) -> AttachmentType:
    attachment_type = value if isinstance(value, AttachmentType) else AttachmentType.__members__.get(str(value))
    if attachment_type is None:
        raise InvalidInput(f"Unknown attachment type {safe_repr(value)}. See AttachmentType.")
    return attachment_type


class SharedMemoryEntry(IdentifiedModel):
    """An entry that one role shares with all others.

    Attributes:
        type: The type: ``"plan"``, ``"experience_sub_path"``, or any name of your own.
        scope: ``"round"``: valid only while the round with the entry is the last one. ``"conversation"``: always valid.
        content: The shared text.
        id: The id. Default: a new id.
    """

    _id_prefix = "sme"

    type: str
    scope: Scope
    content: str

    @classmethod
    def create(cls, type: str, scope: Scope, content: str, id: str | None = None) -> Self:  # noqa: A002
        """Make an entry, with a new id unless `id` is set."""
        return cls(type=type, scope=scope, content=content, id="" if id is None else id)


class Attachment(IdentifiedModel):
    """A typed attachment of a post.

    Attributes:
        type: The type. The name of a type is accepted too.
        content: The text.
        extra: Additional data of JSON types. A `SharedMemoryEntry` if the type is ``shared_memory_entry``. Default
            None.
        id: The id. Default: a new id.
    """

    _id_prefix = "atta"

    type: Annotated[AttachmentType, BeforeValidator(_parse_type)]
    content: str
    extra: Any = None

    @field_validator("extra")
    @classmethod
    def _normalize_extra(cls, extra: Any, info: ValidationInfo) -> Any:
        if info.data.get("type") is AttachmentType.shared_memory_entry:
            if isinstance(extra, Mapping):
                return SharedMemoryEntry.from_dict(extra)
            if isinstance(extra, SharedMemoryEntry):
                return extra
        return json_copy(extra)

    def __hash__(self) -> int:
        return hash(self.id)

    @classmethod
    def create(
        cls,
        type: AttachmentType | str,  # noqa: A002
        content: str,
        extra: Any = None,
        id: str | None = None,  # noqa: A002
    ) -> Self:
        """Make an attachment, with a new id unless `id` is set."""
        return cls(type=_parse_type(type), content=content, extra=extra, id="" if id is None else id)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self | None:  # type: ignore[override]  # None for old types
        """Build an attachment.

        Args:
            data: The dictionary. A missing id is created. Content that is None becomes empty. A list of texts, such as
                paths of artifacts in older data, becomes lines.

        Returns:
            The attachment, or None if its type is unknown, such as the former types ``init_plan`` and ``python``.

        Raises:
            InvalidInput: A field is missing or has a wrong type.
        """
        fields = check_dict(cls, data, "type")
        if isinstance(fields["type"], str) and fields["type"] not in AttachmentType.__members__:
            return None
        content: Any = fields.get("content")
        if isinstance(content, list) and all(isinstance(line, str) for line in content):
            content = "\n".join(content)
        return super().from_dict(fields | {"content": "" if content is None else content})


class Post(IdentifiedModel):
    """A message from one role to another.

    Attributes:
        message: The text. Default empty.
        send_from: The role that sends the post.
        send_to: The role that receives it. Default ``"Unknown"``.
        attachment_list: The attachments, as a tuple. Any iterable is accepted. Default empty.
        id: The id. Default: a new id.
    """

    _id_prefix = "post"

    message: str = ""
    send_from: str
    send_to: str = "Unknown"
    attachment_list: Annotated[tuple[Attachment, ...], _tuple_validator(Attachment)] = ()

    @classmethod
    def create(
        cls,
        message: str | None,
        send_from: str,
        send_to: str = "Unknown",
        attachment_list: Iterable[Attachment] = (),
        id: str | None = None,  # noqa: A002
    ) -> Self:
        """Make a post, with a new id unless `id` is set. A message of None becomes empty."""
        fields: Any = {"message": "" if message is None else message, "attachment_list": attachment_list}
        return cls(send_from=send_from, send_to=send_to, id="" if id is None else id, **fields)

    def get_attachment(self, type: AttachmentType) -> tuple[Attachment, ...]:  # noqa: A002
        """Return the attachments of one type, in order."""
        return tuple(attachment for attachment in self.attachment_list if attachment.type is type)

    def with_attachment(self, *attachments: Attachment) -> Self:
        """Return a copy with the same id, and with these attachments added at the end."""
        return self.replace(attachment_list=(*self.attachment_list, *attachments))


class Round(IdentifiedModel):
    """One query of the user, and the posts that answer it.

    Attributes:
        user_query: The user's question.
        state: ``"created"``, ``"finished"`` or ``"failed"``. Default ``"created"``.
        post_list: The posts in order, as a tuple. Any iterable is accepted. Default empty.
        id: The id. Default: a new id.
    """

    _id_prefix = "round"

    user_query: str
    state: RoundState = "created"
    post_list: Annotated[tuple[Post, ...], _tuple_validator(Post)] = ()

    @classmethod
    def create(
        cls,
        user_query: str,
        id: str | None = None,  # noqa: A002
        state: RoundState = "created",
        post_list: Iterable[Post] = (),
    ) -> Self:
        """Make a round, with a new id unless `id` is set."""
        posts: Any = post_list  # validated as a tuple
        return cls(user_query=user_query, state=state, post_list=posts, id="" if id is None else id)

    def with_post(self, *posts: Post) -> Self:
        """Return a copy with the same id, and with these posts added at the end."""
        return self.replace(post_list=(*self.post_list, *posts))


class Conversation(IdentifiedModel):
    """A sequence of rounds.

    Attributes:
        rounds: The rounds in order, as a tuple. Any iterable is accepted. Default empty.
        enabled: False if the conversation is stored as an example that is not used. Default True.
        id: The id. Default: a new id.
    """

    _id_prefix = "conv"

    enabled: bool = True
    rounds: Annotated[tuple[Round, ...], _tuple_validator(Round)] = ()

    @property
    def roles(self) -> set[str]:
        """Every role that sends or receives a post."""
        posts = [post for each in self.rounds for post in each.post_list]
        return {post.send_from for post in posts} | {post.send_to for post in posts}


class MessageContent(PortableModel):
    """The thought and the next action of an agent.

    New code can use a plain dictionary as the content of a message instead.

    Attributes:
        thought: The reasoning of the agent. Default None.
        next_action: "call_tool", "invoke_agent" or "final_response". Default None.
        action_input: The input of the action, in JSON types. Default None.

    Raises:
        InvalidInput: A field has a wrong type, or the action is unknown.
    """

    thought: str | None = None
    next_action: Literal["call_tool", "invoke_agent", "final_response"] | None = None
    action_input: Annotated[dict[str, Any], AfterValidator(json_copy)] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are set."""
        return {name: value for name, value in super().to_dict().items() if value is not None}


class Retention(Options):
    """A limit on the messages or checkpoints that are kept. Default: no limit.

    Attributes:
        keep_last: The number of newest messages or checkpoints to keep, at least 1. Default None: no limit.
        max_age: The maximum age of messages or checkpoints, greater than 0. Default None: no limit.
    """

    keep_last: int | None = Field(default=None, ge=1)
    max_age: timedelta | None = Field(default=None, gt=timedelta(0))

    @property
    def is_off(self) -> bool:
        """True if there is no limit."""
        return self.keep_last is None and self.max_age is None
